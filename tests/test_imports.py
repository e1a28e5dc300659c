"""Imports run one way: the layers, written once, and what every module imports held to them."""

import ast
import itertools
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# A package or module imports from those above it in this list, and from itself.
LAYERS = [
    {"errors", "isolation"},
    {"files", "arguments"},
    {"kernels"},
    {"data"},
    {"model"},
    {"models"},
    {"posterior"},
    {"inference"},
    {"criticism"},
    {"acquisition", "aggregate", "metrics"},
    {"learning"},
    {"judges"},
    {"plots", "export", "report", "crowdkit"},
    {"cli"},
    {"crowdppl", "__main__"},
]


def modules():
    """Return the file of each module by its dotted name; ``models`` is imported as ``crowdppl.models``."""
    paths = {}
    for folder, prefix in ((ROOT / "crowdppl", ()), (ROOT / "models", ("crowdppl",))):
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if parts[:2] == ("crowdppl", "models"):  # the link to the folder at the top
                continue
            name = ".".join((*prefix, *parts)).removesuffix(".__init__")
            paths[name] = path
    return paths


def imported(name, path, names):
    """Return the modules that one imports, wherever in the file and for whatever purpose, those of types included."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    imports = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            # "from package import module" is an import of the module, "from module import name" of the module itself.
            imports |= {full if (full := f"{base}.{alias.name}") in names else base for alias in node.names}
    return {module for module in imports if module in names} - {name}


MODULES = modules()


@cache
def imports():
    """Return what each module imports; not as tests are collected, which every process does."""
    return {name: imported(name, path, MODULES) for name, path in MODULES.items()}


def layer(name):
    top = name.split(".")[1] if "." in name else "crowdppl"
    return next(number for number, names in enumerate(LAYERS) if top in names)


def test_imports_run_one_way():
    wrong = []
    for name in MODULES:
        package = name.split(".")[:2]
        for other in sorted(imports()[name]):
            if layer(other) > layer(name):
                wrong.append(f"{name} imports {other}, of a later layer")
            elif layer(other) == layer(name) and other.split(".")[:2] != package:
                wrong.append(f"{name} imports {other}, of its own layer: neither may know the other")
    assert not wrong, "\n".join(wrong)


def test_there_is_no_cycle():
    """No module imports itself by way of others."""
    left = {name: set(others) for name, others in imports().items()}
    while ready := [name for name, others in left.items() if not others]:
        for name in ready:
            del left[name]
        for others in left.values():
            others.difference_update(ready)
    assert not left, f"in or behind a cycle: {', '.join(sorted(left))}"


def test_every_package_and_module_is_in_a_layer():
    tops = {name.split(".")[1] for name in MODULES if "." in name}
    listed = set(itertools.chain.from_iterable(LAYERS)) - {"crowdppl"}
    assert tops == listed


def test_few_entries_at_the_top():
    """The package can be read at a glance."""
    assert len([path for path in (ROOT / "crowdppl").iterdir() if path.name != "__pycache__"]) <= 24
