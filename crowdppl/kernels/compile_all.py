"""Compile all functions and write their machine code: ``python -m crowdppl.kernels.compile_all FOLDER``.

``setup.py`` calls it while the package is built. Of other packages only numba and numpy are imported: an installer
has no more.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from numba.core.serialize import dumps

from crowdppl.files.writing import atomic
from crowdppl.isolation.cores import usable_cores
from crowdppl.kernels import (
    chains,
    em_steps,
    graded_draws,
    graded_readings,
    logit_rows_around,
    markov,
    markov_draws,
    passes,
    readings,
    votes,
)
from crowdppl.kernels.machine_code import FOLDER, SWITCH, TARGET, described, entry, identity, target

# Numbers of states whose passes in float64 are compiled in advance: all narrow rows, and a few wide ones. The others take two
# seconds when a set of hundreds of thousands of annotations first needs them.
NARROW_STATES, WIDE_STATES = range(2, 9), (9, 10)
REAL = "f8"
# The function that takes longest takes an eighth of the time of all.
PROCESSES = 8


def _functions() -> dict[str, Callable[[], Any]]:
    """Return what compiles each function, by a name."""
    jobs: dict[str, Callable[[], Any]] = {"expectation": em_steps.expectation, "weights of votes": votes.learning}
    jobs["draws around a point"] = logit_rows_around.around
    jobs |= {"states of items": graded_draws.states_at, "raters around a point": graded_draws.around}
    jobs["readings of raters"] = graded_readings.reading
    for family in chains.FAMILIES:
        jobs[f"sweeps of {family}"] = partial(chains.sweeps, family)
        jobs[f"reading of {family}"] = partial(readings.reading, family)
        jobs[f"table of {family}"] = partial(em_steps.tabulation, family)
    for family in em_steps.MODES:
        jobs[f"mode of {family}"] = partial(em_steps.maximisation, family)
        jobs[f"density of {family}"] = partial(em_steps.density, family)
    narrow = (passes.load, passes.collect, passes.scatter, passes.tally, passes.tallied)
    for states in (*NARROW_STATES, *WIDE_STATES, passes.ANY):
        for make in (*(narrow if states in NARROW_STATES else (passes.gather,)), passes.adding):
            jobs[f"{make.__name__} of {states} states"] = partial(make, states, REAL)
        for draw in (False, True):
            jobs[f"sweep of {states} states, {draw}"] = partial(passes.sweep, states, REAL, draw)
    jobs |= {make.__name__: make for make in (markov.smoothing, markov.drawing, markov.spanning)}
    jobs["draws of sequences"] = markov_draws.reading
    return jobs | {"count": partial(passes.count, REAL), "accumulate": partial(passes.accumulate, REAL)}


def _compile(job: str) -> tuple[str, bytes]:
    """Return the name and the content of a function's entry."""
    function = _functions()[job]()
    dispatcher = getattr(function, "part", function)  # of a pass
    ((arguments, result),) = dispatcher.overloads.items()
    return identity(dispatcher.py_func, arguments), dumps(result._reduce())


def _compiled() -> Iterator[tuple[str, bytes]]:
    """Compile all functions."""
    with ProcessPoolExecutor(min(usable_cores(), PROCESSES), mp_context=get_context("spawn")) as pool:
        yield from pool.map(_compile, _functions())


def _whole(archive: Path, here: dict[str, Any]) -> bool:
    """Tell whether an archive is for this processor, and undamaged."""
    if described(archive) != here:
        return False
    with zipfile.ZipFile(archive) as file:
        names = file.namelist()
    return all(entry(archive, name) is not None for name in names)


def build(folder: Path) -> Path:
    """Write the archive for the processor that numba compiles for, if it is not there; return its path.

    That is this machine's own; ``NUMBA_CPU_NAME`` and ``NUMBA_CPU_FEATURES`` in the environment name another, such as the least
    one that a package for others should run on. Archives of other source files are removed.

    Raises:
        FileError: if it cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    here = target()
    path = folder / f"{here['python']}-numba-{here['numba']}-{platform.machine().lower()}.zip"
    for old in folder.glob("*.zip"):
        if (described(old) or {}).get("sources") != here["sources"]:
            old.unlink(missing_ok=True)
    if not _whole(path, here):
        with atomic(path, again=True) as new, zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr(TARGET, json.dumps(here, indent=1))
            for name, content in _compiled():
                file.writestr(name, content)
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
