"""Machine code that is made when the package is installed: used where it fits, and only there."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

machine_code = pytest.importorskip("crowdppl.kernels.machine_code", reason="needs numba")
from crowdppl.kernels import chains, compile_all, em_steps, passes  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
# Compiles one small pass as an installer does.
SCRIPT = """
import sys
from pathlib import Path
from crowdppl.kernels import compile_all
jobs = compile_all._functions()
compile_all._functions = lambda: {"load of 2 states": jobs["load of 2 states"]}
compile_all._compiled = lambda: map(compile_all._compile, compile_all._functions())
compile_all.build(Path(sys.argv[1]))
"""
# What that pass does with the code of a folder.
USE = """
import sys
from pathlib import Path
import numpy as np
from crowdppl.kernels import machine_code, passes
machine_code.FOLDER = Path(sys.argv[1])
tables = np.full((1, 4), 7.0)
passes.load(2, "f8")(1, tables, np.array([[.25, .75]]))
print(*tables[0])
"""

# For which functions machine code is made when a step is compiled; and what one that compiled functions call returns to Python.
PARTS = """
import numpy as np
from numba.core.codegen import JITCodeLibrary
from crowdppl.kernels import em_steps, fused, passes
make, made = JITCodeLibrary._finalize_specific, []
JITCodeLibrary._finalize_specific = lambda library: (made.append(library.name.split(".")[0]), make(library))
em_steps.tabulation("dirichlet rows")
print(*made)
passes.accumulate("f8")
seed, n = np.uint64(3), np.uint64(5)
print(fused._uniform(seed, n) == fused._uniform.py_func(seed, n))
"""

# Fits in an order, and a digest of the results of each.
FITS = """
import hashlib, sys
import numpy as np
import crowdppl
from crowdppl.errors import silent
rng = np.random.default_rng(0)
item = np.repeat(np.arange(120), 5)
truth = rng.integers(0, 2, 120)
label = np.where(rng.random(600) < .8, truth[item], rng.integers(0, 2, 600))
data = crowdppl.Annotations.from_arrays(item, np.tile(np.arange(10), 60), label)
gibbs = {"method": "gibbs", "num_samples": 60, "warmup": 40}
fits = {"default": {}, "gibbs": gibbs, "hierarchical": {"model": "hierarchical"} | gibbs}
fits["dawid-skene"] = {"model": "dawid-skene"} | gibbs
for name in sys.argv[1:]:
    with silent():
        posterior = crowdppl.fit(data, seed=0, **fits[name])
        parts = posterior.probability(), posterior.workers()[["accuracy", "accuracy_low"]].to_numpy()
    print(name, *(hashlib.sha256(np.ascontiguousarray(part).tobytes()).hexdigest()[:12] for part in parts), sep=":")
"""


def run(script, *arguments, folder, **environment):
    """Run a program with an empty place for compiled code; return what it prints."""
    environment = {"PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(folder)} | environment
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        cwd=folder.parent,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """A folder with an archive of one function."""
    folder = tmp_path_factory.mktemp("code")
    run(SCRIPT, folder / "archives", folder=folder / "cache", CROWDPPL_MACHINE_CODE="0")
    return folder / "archives"


def test_installed_code_is_used_and_nothing_compiled(archives, tmp_path):
    """No cache is written, so that none needs to be writable."""
    assert run(USE, archives, folder=tmp_path / "cache") == ["0.25", "0.75", "0.0", "0.0"]
    assert not (tmp_path / "cache").exists()
    assert run(USE, archives, folder=tmp_path / "cache", CROWDPPL_MACHINE_CODE="0") == ["0.25", "0.75", "0.0", "0.0"]
    assert list((tmp_path / "cache").rglob("*.nbc"))


def changed(archives, folder, **fields):
    """Write the archive with other fields of its target."""
    folder.mkdir()
    (old,) = archives.glob("*.zip")
    with zipfile.ZipFile(old) as there, zipfile.ZipFile(folder / old.name, "w") as here:
        for name in there.namelist():
            content = there.read(name)
            if name == machine_code.TARGET:
                content = json.dumps(json.loads(content) | fields)
            here.writestr(name, content)
    return folder


@pytest.mark.parametrize(
    "fields",
    [
        {"numba": "0.1"},
        {"llvmlite": "0.1"},
        {"python": "cpython-27"},
        {"system": "pdp11-unknown-unix"},
        {"sources": "another"},
        {"features": ["+telepathy"]},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_code_for_something_else_is_not_used(monkeypatch, archives, tmp_path, fields):
    machine_code._archive.cache_clear()
    monkeypatch.setattr(machine_code, "FOLDER", changed(archives, tmp_path / "other", **fields))
    assert machine_code._archive() is None
    machine_code._archive.cache_clear()
    monkeypatch.setattr(machine_code, "FOLDER", changed(archives, tmp_path / "same", features=[]))
    assert machine_code._archive() is not None
    machine_code._archive.cache_clear()


@pytest.mark.parametrize(
    "place",
    [pytest.param(place, marks=[pytest.mark.slow] * (place != "middle")) for place in ("start", "middle", "end")],
)
def test_a_damaged_archive_is_not_used(archives, tmp_path, place):
    """The function is compiled instead."""
    (old,) = archives.glob("*.zip")
    content = bytearray(old.read_bytes())
    at = {"start": 0, "middle": len(content) // 2, "end": len(content) - 20}[place]
    content[at : at + 20] = bytes(20)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / old.name).write_bytes(content)
    assert run(USE, tmp_path / "damaged", folder=tmp_path / "cache") == ["0.25", "0.75", "0.0", "0.0"]


def damaged(content, rng, way):
    """Return a file of which the end is missing, a stretch is other bytes, or one byte of the list of entries."""
    content = bytearray(content)
    if way == "cut":
        return content[: rng.integers(len(content))]
    at = int(rng.integers(len(content) if way == "stretch" else 200)) - (0 if way == "stretch" else 200)
    size = 20 if way == "stretch" else 1
    content[at : at + size or None] = rng.bytes(size)
    return content


@pytest.mark.parametrize("way", ["cut", "stretch", "byte"])
def test_damage_of_any_kind_is_noticed(archives, tmp_path, way):
    """An entry is as it was written, or none; zipfile has eight kinds of errors."""
    (archive,) = archives.glob("*.zip")
    whole = archive.read_bytes()
    names = zipfile.ZipFile(archive).namelist()
    content = {name: machine_code.entry(archive, name) for name in names}
    rng, path, noticed = np.random.default_rng(0), tmp_path / "damaged.zip", 0
    for _ in range(300):
        path.write_bytes(damaged(whole, rng, way))
        for name in names:
            read = machine_code.entry(path, name)
            assert read is None or read == content[name]
            noticed += read is None
    assert noticed


def test_a_damaged_archive_is_made_anew(archives, tmp_path):
    folder = changed(archives, tmp_path / "archives")
    (archive,) = folder.glob("*.zip")
    content = bytearray(archive.read_bytes())
    content[len(content) // 2] ^= 255
    archive.write_bytes(content)
    run(SCRIPT, folder, folder=tmp_path / "cache", CROWDPPL_MACHINE_CODE="0")
    names = zipfile.ZipFile(archive).namelist()
    assert len(names) == 2
    assert None not in [machine_code.entry(archive, name) for name in names]


def test_archives_of_older_source_files_are_removed(archives, tmp_path):
    """Those of other versions of numba stay: several environments may use one checkout."""
    folder = changed(archives, tmp_path / "archives", sources="older")
    (old,) = folder.glob("*.zip")
    old.rename(folder / "old.zip")
    (other,) = changed(archives, tmp_path / "other", numba="0.1").glob("*.zip")
    other.rename(folder / "other.zip")
    run(SCRIPT, folder, folder=tmp_path / "cache", CROWDPPL_MACHINE_CODE="0")
    assert {path.name for path in folder.glob("*")} == {"other.zip", *(path.name for path in archives.glob("*.zip"))}


def test_every_function_is_compiled_in_advance():
    """All families of each step, and every pass, in float64."""
    jobs = list(compile_all._functions())
    for family in chains.FAMILIES:
        assert {f"{step} of {family}" for step in ("sweeps", "reading", "table")} <= {*jobs}
    assert {f"mode of {family}" for family in em_steps.MODES} <= {*jobs}
    compiled = {name for name in passes.__all__ if callable(getattr(passes, name)) and name != "width_of"}
    assert compiled <= {job.split(" of ")[0] for job in jobs}


def test_functions_are_made_machine_code_as_parts_only(tmp_path):
    """Not those that a step calls, unless Python can call them, too."""
    assert run(PARTS, folder=tmp_path / "cache", CROWDPPL_MACHINE_CODE="0") == ["tabulation", "True"]


def test_arrays_are_not_assigned_to_slices():
    """Numba would compile a message that states both shapes, which takes longer than most functions."""
    if (archive := machine_code._archive()) is None:
        pytest.skip("no machine code for these source files; make it: python -m crowdppl.kernels.compile_all")
    names = [name for name in zipfile.ZipFile(archive).namelist() if name != machine_code.TARGET]
    assert names
    assert not [name for name in names if b"raise_with_shape" in (machine_code.entry(archive, name) or b"")]


@pytest.mark.slow
def test_fits_with_installed_code_compile_nothing(tmp_path):
    """All three families, by EM and by Gibbs sampling, with intervals of workers."""
    if machine_code._archive() is None:
        pytest.skip("no machine code for these source files; make it: python -m crowdppl.kernels.compile_all")
    run(FITS, "default", "gibbs", "dawid-skene", "hierarchical", folder=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


@pytest.mark.slow
@pytest.mark.parametrize("installed", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_bits_do_not_depend_on_what_ran_before(tmp_path, installed):
    """Functions that several others contain are private: else the loader takes the first of a name for all.

    Code that was installed, or that is kept from an earlier process.
    """
    environment = {} if installed else {"CROWDPPL_MACHINE_CODE": "0"}
    names = ["default", "gibbs", "hierarchical"]
    seen = [run(FITS, *order, folder=tmp_path / "cache", **environment) for order in (names, names[::-1])]
    assert sorted(seen[0]) == sorted(seen[1])


@pytest.mark.slow
def test_fits_without_a_compiler(tmp_path):
    """Where numba is not to compile, torch serves."""
    run(FITS, "default", "dawid-skene", folder=tmp_path / "cache", NUMBA_DISABLE_JIT="1")
    assert not (tmp_path / "cache").exists()
