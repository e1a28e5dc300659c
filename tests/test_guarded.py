"""The long suites run every slow test, and their parts guard what it computes with."""

import ast
import importlib.util
from functools import cache
from pathlib import Path

import pytest

import crowdppl

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def guarded():
    spec = importlib.util.spec_from_file_location("guarded", ROOT / ".ci/guarded.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# These import what a name of the library stands for, or readers of all tools for commands, only where these are used.
ENTRIES = {"crowdppl/__init__.py", "crowdppl/__main__.py", "crowdppl/data/look.py", "crowdppl/data/read.py"}
PARTS = ["criticism", "oracle", "inference", "models", "judges"]


def files_of(patterns):
    """The Python files that some patterns name."""
    places = [place for pattern in patterns for place in ROOT.glob(pattern)]
    paths = {path for place in places for path in (place, *place.rglob("*.py")) if path.suffix == ".py"}
    return {path.relative_to(ROOT).as_posix() for path in paths}


@cache
def imported(name):
    """The files of the library and tests that a file imports anywhere in it, or names by ``crowdppl.``, but for types."""
    names, waiting = set(), [ast.parse((ROOT / name).read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute) and ast.unparse(node).startswith("crowdppl."):
            names.add(ast.unparse(node))
    return {file for one in names for file in of_module(one)}


@cache
def of_module(name):
    """The file of a module, and those of the packages that it is in."""
    words = name.split(".")
    if words[0] == "crowdppl" and len(words) > 1:
        words[1:2] = crowdppl._MODULES.get(words[1], words[1]).split(".")
    out = set()
    for k in range(1, len(words) + 1):
        path = "/".join(words[:k]).replace("crowdppl/models", "models")
        out |= {file for file in (f"{path}.py", f"{path}/__init__.py", f"tests/{path}.py") if (ROOT / file).is_file()}
    return out


@pytest.mark.parametrize("part", PARTS)
def test_a_part_guards_what_its_tests_compute_with(guarded, part):
    """All that the tests of a part and its guarded files import, and what that imports in turn."""
    known = files_of([*guarded.COMPUTED[f"slow: {part}"], *guarded.SLOW_PARTS[part]])
    waiting, missed = list(known), {}
    while waiting:
        name = waiting.pop()
        new = imported(name) - known - set(missed) if name not in ENTRIES else set()
        missed |= dict.fromkeys(new, name)
        waiting += new
    assert not missed


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
