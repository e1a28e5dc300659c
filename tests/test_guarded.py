"""The long suites run every slow test, and their parts guard what it computes with."""

import ast
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def guarded():
    spec = importlib.util.spec_from_file_location("guarded", ROOT / ".ci/guarded.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def imported(path):
    """The modules of this library that a module imports as it is loaded, other than for types."""
    names, waiting = set(), list(ast.parse(path.read_text(encoding="utf-8")).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            waiting += node.body
    return {name for name in names if name.startswith("crowdppl.data.readers.")}


def test_readers_that_annotations_are_read_with(guarded):
    """Modules that only commands use take all readers, as they look at a file of any tool."""
    folder = ROOT / "crowdppl/data"
    waiting = [*folder.glob("*.py"), *(folder / "table").rglob("*.py"), *(folder / "synthetic").rglob("*.py")]
    waiting = [path for path in waiting if path.stem not in ("look", "read")]
    needed = set()
    while waiting:
        for name in imported(waiting.pop()):
            path = folder / "readers" / f"{name.split('.')[3]}.py"
            if path.exists() and path.stem not in needed:
                needed.add(path.stem)
                waiting.append(path)
    assert needed == set(guarded.READERS)


@pytest.mark.parametrize("part", ["criticism", "oracle", "inference", "models"])
def test_computations_take_no_reader_of_a_tool(guarded, part):
    """A change in how files of a tool are read repeats none of them; one in how annotations are kept repeats all."""
    files = {
        path.relative_to(ROOT).as_posix()
        for pattern in guarded.COMPUTED[f"slow: {part}"]
        for place in ROOT.glob(pattern)
        for path in (place, *place.rglob("*.py"))
    }
    assert "crowdppl/data/readers/label_studio.py" not in files
    assert not any(name.startswith("crowdppl/judges/") for name in files)
    assert {"crowdppl/data/annotations.py", "crowdppl/inference/fit.py", "crowdppl/errors.py"} <= files


def test_every_file_of_tests_is_in_one_part(guarded):
    tests = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    for name in tests:
        parts = [
            part
            for part, places in guarded.SLOW_PARTS.items()
            if any(name == place or name.startswith(f"{place}/") for place in places)
        ]
        assert len(parts) == 1, (name, parts)
