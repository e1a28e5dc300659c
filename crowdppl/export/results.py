"""A folder of results: consensus, workers, confusions, the posterior and how it came about."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from crowdppl import export
from crowdppl.errors import FileError
from crowdppl.export.folders import recover, replaced, tidy
from crowdppl.files import require_disk_space
from crowdppl.posterior.posterior import Posterior, load

# What was made of a result and goes with it.
DERIVED = ("report.html",)
FILES = ("truth.csv", "workers.csv", "confusion.csv", "posterior.nc", "run.json")


def free(folder: Path, *, overwrite: bool, size: int = 0, files: Sequence[str] = FILES) -> None:
    """Refuse a folder that cannot take results, before an hour of work is lost.

    Args:
        folder: for the results.
        overwrite: those that it holds may be replaced.
        size: bytes that they may take.
        files: the names of the results.

    Raises:
        FileError: where it is a file, already holds a run, or cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{folder} is a file; name a folder for the results")
    try:
        tidy(folder, (*files, *DERIVED))
    except OSError as error:
        raise FileError(f"cannot write in {folder}: {error.strerror or error}") from None
    held = [name for name in files if (folder / name).exists()]
    if held and not overwrite:
        raise FileError(f"{folder} already holds {', '.join(held)}; name another folder, or add --overwrite")
    # Nothing is made yet: a fit that fails leaves no empty folder behind.
    there = next(place for place in (folder, *folder.absolute().parents) if place.is_dir())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise FileError(f"cannot write in {there}: {error.strerror}") from None
    require_disk_space(folder, size, "the result")


class Written(NamedTuple):
    """What was written.

    Attributes:
        files: their paths.
        workers: the table of workers.
        run: what ``run.json`` holds.
    """

    files: list[Path]
    workers: pd.DataFrame
    run: dict[str, Any]


def write(
    posterior: Posterior,
    folder: Path,
    *,
    level: float | None = None,
    run: Mapping[str, Any],
    raw: bool = False,
    then: Callable[[], None] = lambda: None,
) -> Written:
    """Write all result files, which appear at once; a report of an earlier run goes.

    The posterior is written before any table is made: whatever becomes of these, what was computed is there to be loaded.

    Args:
        posterior: what was found.
        folder: where to; made if need be.
        level: probability of the intervals in the tables.
        run: added to what the posterior knows of its making (input, command, timings).
        raw: leave text in CSV as it is, see :func:`crowdppl.export.tables.export`.
        then: called as soon as they are in place.

    Raises:
        FileError: where something cannot be written; files of an earlier run are then left as they were.
    """
    failed: BaseException | None = None
    workers = pd.DataFrame()
    with replaced(folder, (*FILES, *DERIVED), then) as staging:
        posterior.save(staging / "posterior.nc")
        story = (
            posterior.info
            | {
                "interval_method": posterior.interval_method,
                "correlation": posterior.correlation,
                "coverage": posterior.coverage,
                "warnings": posterior.warnings,
                "notes": posterior.notes,
            }
            | dict(run)
        )
        (staging / "run.json").write_text(
            json.dumps(story, indent=2, ensure_ascii=False) + "\n", encoding="utf-8", errors="backslashreplace"
        )
        try:
            workers = posterior.workers(level=level)
            export.write(posterior.truth(), staging / "truth.csv", raw=raw)
            export.write(workers, staging / "workers.csv", raw=raw)
            export.write(posterior.confusion(level=level), staging / "confusion.csv", raw=raw)
        except BaseException as error:  # no table of an earlier run beside this posterior, and none that is incomplete
            for name in FILES[:3]:
                (staging / name).unlink(missing_ok=True)
            failed = error
    if failed is not None:
        failed.add_note(
            f"the tables were not written, the posterior is in {folder}; crowdppl export {folder} makes them"
        )
        raise failed
    return Written([folder / name for name in FILES], workers, story)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def opened(folder: Path) -> tuple[Posterior, dict[str, Any]]:
    """Return the posterior of a folder of results and what is known of its making.

    Raises:
        FileError: where the folder holds no result, or it is damaged.
    """
    try:
        recover(folder)
    except OSError as error:
        raise FileError(f"{folder} was being written when a process was stopped: {error.strerror or error}") from None
    if not (folder / "posterior.nc").is_file():
        raise FileError(f"{folder} holds no posterior.nc; name the folder that `crowdppl fit --out` has written")
    posterior = load(folder / "posterior.nc")
    try:
        story = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        story = {}
    except (OSError, ValueError) as error:
        raise FileError(f"{folder / 'run.json'} cannot be read: {error}") from None
    return posterior, dict(story)
