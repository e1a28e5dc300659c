"""Benchmarks run seldom: what they take from the library, and what they replace in it for a comparison, is still there."""

import ast
import importlib
import random
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(path for path in (ROOT / "benchmarks").rglob("*.py"))


def taken(tree):
    """Return what is imported from the library, ``(module, name)`` by the name that it has in the file."""
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "crowdppl"
        for alias in node.names
    }


def there(module, name):
    """Return what a module has under a name, a module within it if there is no other."""
    stream = random.getstate()
    value = importlib.import_module(module)
    value = getattr(value, name) if hasattr(value, name) else importlib.import_module(f"{module}.{name}")
    random.setstate(stream)  # the first import of rich draws from Python's random stream
    return value


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT / "benchmarks").as_posix())
def test_what_a_benchmark_takes_is_there(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names = {name: there(*place) for name, place in taken(tree).items() if name not in own}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("patch.object"):
            replaced, name = node.args[:2]
            if isinstance(replaced, ast.Name) and replaced.id in names:
                assert hasattr(names[replaced.id], ast.literal_eval(name)), ast.unparse(node)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names:
            value = names[node.value.id]
            if isinstance(value, type(ast)):  # a module
                there(value.__name__, node.attr)
