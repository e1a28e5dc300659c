"""Machine code of the compiled functions, made when the package is installed: a fit compiles nothing.

``python -m crowdppl.kernels.machine_code FOLDER`` writes an archive of it, as ``setup.py`` does. Each function is an entry, and
``target.json`` states what it was compiled for. An archive is used where Python, numba, LLVM, the system and the source files
are the same, and the processor has all features that the code needs. Elsewhere functions are compiled at first use and kept in
numba's cache.

With ``CROWDPPL_MACHINE_CODE=0`` in the environment none is made or used.

Only numba and numpy are imported: an installer has no more.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pickle
import platform
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import llvmlite
import numba
from llvmlite.binding import Linkage
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target
from numba.core.serialize import dumps

FOLDER = Path(__file__).with_name("binaries")
TARGET = "target.json"
SWITCH = "CROWDPPL_MACHINE_CODE"
# Numbers of states whose passes in float64 are compiled in advance: all narrow rows, and a few wide ones. The others take two
# seconds when a set of hundreds of thousands of annotations first needs them.
NARROW_STATES, WIDE_STATES = range(2, 9), (9, 10)
REAL = "f8"


def enabled() -> bool:
    """Tell whether machine code is made and used."""
    return os.environ.get(SWITCH, "1") != "0"


def identity(function: Any, arguments: Any) -> str:
    """Return the name of a function's entry: its qualified name and the types of its arguments identify it."""
    return hashlib.sha256(f"{function.__qualname__}{tuple(arguments)}".encode()).hexdigest()


def load(name: str) -> bytes | None:
    """Return the machine code of a function, or ``None`` where there is none for this processor."""
    archive = _archive() if enabled() else None
    if archive is None:
        return None
    try:
        with zipfile.ZipFile(archive) as file:  # opened anew: a child process would share the place in an open file
            return file.read(name)  # and compares the checksum
    except (KeyError, OSError, zipfile.BadZipFile):
        return None  # compiled at first use


@cache
def _archive() -> Path | None:
    """Return the archive for this processor."""
    if not FOLDER.is_dir():
        return None
    here = target()
    for path in sorted(FOLDER.glob("*.zip")):
        there = _described(path)
        same = there is not None and there | {"features": None} == here | {"features": None}
        if there is not None and same and set(there["features"]) <= set(here["features"]):
            return path
    return None


def _described(archive: Path) -> dict[str, Any] | None:
    """Return what an archive was compiled for, or ``None`` if it is damaged or not there."""
    try:
        with zipfile.ZipFile(archive) as file:
            return dict(json.loads(file.read(TARGET)))
    except (KeyError, OSError, ValueError, zipfile.BadZipFile):
        return None


def target() -> dict[str, Any]:
    """Return what machine code depends on."""
    triple, _, features = cpu_target.target_context.codegen().magic_tuple()
    return {
        "python": sys.implementation.cache_tag,
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "system": triple,
        "sources": _sources(),
        "features": sorted(feature for feature in features.split(",") if feature.startswith("+")),
    }


def _sources() -> str:
    """Return a digest of all files from which functions are compiled."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def reduced(result: Any) -> tuple[Any, ...]:
    """Return what is stored of a compiled function.

    Functions that several others call are part of each. Under one name the loader would take the first for all, and the last bits
    of a result would depend on what ran before: they become private.
    """
    (name, kind, (_, bitcode)), *rest = result._reduce()
    module = result.library._final_module.clone()
    for function in module.functions:
        if not function.is_declaration and function.linkage == Linkage.linkonce_odr:
            function.linkage = Linkage.internal
    code = cpu_target.target_context.codegen()._tm.emit_object(module)
    return (name, kind, (code, bitcode)), *rest


def restored(stored: bytes, context: Any) -> Any:
    """Return the compiled function of an entry."""
    return CompileResult._rebuild(context, *pickle.loads(stored))


# ---------------------------------------------------------------------- at installation


def _functions() -> dict[str, Callable[[], Any]]:
    """Return what compiles each function, by a name."""
    from crowdppl.kernels import chains, em_steps, passes, readings

    jobs: dict[str, Callable[[], Any]] = {"expectation": em_steps.expectation}
    for family in chains.FAMILIES:
        jobs[f"sweeps of {family}"] = partial(chains.sweeps, family)
        jobs[f"reading of {family}"] = partial(readings.reading, family)
        jobs[f"table of {family}"] = partial(em_steps.tabulation, family)
    jobs |= {f"mode of {family}": partial(em_steps.maximisation, family) for family in em_steps.MODES}
    narrow = (passes.load, passes.collect, passes.scatter, passes.tally, passes.tallied)
    for states in (*NARROW_STATES, *WIDE_STATES, passes.ANY):
        for make in (*(narrow if states in NARROW_STATES else (passes.gather,)), passes.adding):
            jobs[f"{make.__name__} of {states} states"] = partial(make, states, REAL)
        for draw in (False, True):
            jobs[f"sweep of {states} states, {draw}"] = partial(passes.sweep, states, REAL, draw)
    return jobs | {"count": partial(passes.count, REAL), "accumulate": partial(passes.accumulate, REAL)}


def _compile(job: str) -> tuple[str, bytes]:
    """Return the name and the content of a function's entry."""
    function = _functions()[job]()
    dispatcher = getattr(function, "part", function)  # of a pass
    ((arguments, result),) = dispatcher.overloads.items()
    return identity(dispatcher.py_func, arguments), dumps(reduced(result))


def _compiled(processes: int) -> Iterator[tuple[str, bytes]]:
    """Compile all functions."""
    jobs = list(_functions())
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_compile, jobs)


def build(folder: Path) -> Path:
    """Write the archive for the processor that numba compiles for, if it is not there; return its path.

    That is this machine's own; ``NUMBA_CPU_NAME`` and ``NUMBA_CPU_FEATURES`` in the environment name another, such as the least
    one that a package for others should run on. Archives of other source files are removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    here = target()
    path = folder / f"{here['python']}-numba-{here['numba']}-{platform.machine().lower()}.zip"
    for old in folder.glob("*.zip"):
        if (_described(old) or {}).get("sources") != here["sources"]:
            old.unlink()
    if _described(path) != here:
        new = path.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr(TARGET, json.dumps(here, indent=1))
            for name, content in _compiled(os.cpu_count() or 1):
                file.writestr(name, content)
        new.replace(path)
    return path


def main() -> None:
    """Write the archive."""
    parser = argparse.ArgumentParser(description="Compile all functions for this processor.")
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    options = parser.parse_args()
    # Nothing that was compiled before is loaded: what is loaded cannot be written again.
    with tempfile.TemporaryDirectory() as cached:
        os.environ |= {SWITCH: "0", "NUMBA_CACHE_DIR": cached}
        print(build(options.folder))  # noqa: T201


if __name__ == "__main__":
    main()
