"""A folder of results: consensus, workers, confusions, the posterior and how it came about."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crowdppl.errors import FileError
from crowdppl.posterior import Posterior

FILES = ("truth.csv", "workers.csv", "confusion.csv", "posterior.nc", "run.json")


def free(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that cannot take results, before an hour of work is lost.

    Raises:
        FileError: where it is a file, already holds a run, or cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{folder} is a file; name a folder for the results")
    held = [name for name in FILES if (folder / name).exists()]
    if held and not overwrite:
        raise FileError(f"{folder} already holds {', '.join(held)}; name another folder, or add --overwrite")
    # Nothing is made yet: a fit that fails leaves no empty folder behind.
    there = next(place for place in (folder, *folder.absolute().parents) if place.is_dir())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise FileError(f"cannot write in {there}: {error.strerror}") from None


def write(posterior: Posterior, folder: Path, *, level: float | None = None, run: Mapping[str, Any]) -> list[Path]:
    """Write all result files; each appears when it is complete, ``run.json`` last.

    Args:
        posterior: what was found.
        folder: where to; made if need be.
        level: probability of the intervals in the tables.
        run: added to what the posterior knows of its making (input, command, timings).

    Raises:
        FileError: where something cannot be written; files of an earlier run are then left as they were.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(dir=folder, prefix=".writing-"))
    except OSError as error:
        raise FileError(f"cannot write in {folder}: {error.strerror}") from None
    try:
        posterior.truth().to_csv(staging / "truth.csv", index=False, float_format="%.6g")
        posterior.workers(level=level).to_csv(staging / "workers.csv", index=False, float_format="%.6g")
        posterior.confusion(level=level).to_csv(staging / "confusion.csv", index=False, float_format="%.6g")
        posterior.save(staging / "posterior.nc")
        story = (
            posterior.info
            | {
                "how": posterior.how,
                "correlation": posterior.correlation,
                "warnings": posterior.warnings,
                "notes": posterior.notes,
            }
            | dict(run)
        )
        (staging / "run.json").write_text(json.dumps(story, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        for name in FILES:
            (staging / name).replace(folder / name)
    except OSError as error:
        raise FileError(f"cannot write in {folder}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return [folder / name for name in FILES]


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
