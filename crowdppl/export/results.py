"""A folder of results: consensus, workers, confusion matrices, the posterior and how it was computed."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import pandas as pd

from crowdppl import arguments, export
from crowdppl.errors import FileError
from crowdppl.export.folders import recover, replaced, tidy
from crowdppl.files import overwriting, require_disk_space
from crowdppl.posterior.effects import has_effects
from crowdppl.posterior.numbers import NumericPosterior
from crowdppl.posterior.posterior import Posterior, load
from crowdppl.posterior.sets import has_rates, has_sets
from crowdppl.posterior.spans import has_spans
from crowdppl.posterior.workers.grading import has_criteria

# Files computed from a result, which are removed when it is replaced, unless they were changed since.
DERIVED = ("report.html",)
FILES = (
    "truth.csv",
    "workers.csv",
    "confusion.csv",
    "spans.csv",
    "sets.csv",
    "label_rates.csv",
    "effects.csv",
    "criteria.csv",
    "posterior.nc",
    "run.json",
)
# Of spans, of sets and of covariates.
FURTHER = {"spans.csv", "sets.csv", "label_rates.csv", "effects.csv", "criteria.csv"}
# Of labels that are numbers.
NUMERIC_FILES = ("truth.csv", "workers.csv", "posterior.nc", "run.json")


def free(folder: Path, *, overwrite: bool, size: int = 0, files: Sequence[str] = FILES) -> None:
    """Check that results can be written to a folder, before the computation starts.

    Args:
        folder: for the results.
        overwrite: whether results in it may be replaced.
        size: of the new results, in bytes, at most.
        files: names of the result files.

    Raises:
        FileError: if it is a file, already contains results, cannot be written, would replace an input of the command, or the
            disk is full.
    """
    if overwriting.status_of(folder) is not None and not folder.is_dir():
        raise FileError(f"{folder} is a file; name a folder for the results")
    for name in files:
        overwriting.refuse_input(folder / name)
    try:
        tidy(folder)
    except OSError as error:
        raise FileError(f"cannot write in {folder}: {error.strerror or error}") from None
    held = [name for name in files if os.path.lexists(folder / name)]
    if held and not overwrite:
        raise FileError(
            f"{folder} already holds {', '.join(held)}; name another folder with out=..., or replace them with overwrite=True"
        )
    for name in held:
        if (folder / name).is_dir() and Path(name).suffix:
            raise FileError(
                f"{folder / name} is a folder, where a file is to be written; rename it, or name another folder"
            )
    # The folder itself is not created yet, so that a fit that fails leaves no empty folder.
    existing = next(place for place in (folder, *folder.absolute().parents) if place.is_dir())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise FileError(f"cannot write in {existing}: {error.strerror}") from None
    require_disk_space(folder, size, "the result")


def kept(keep: str) -> Literal["small", "full"]:
    """Return what the file of a result is to hold, before the computation starts.

    Raises:
        OptionError: if it is neither ``small`` nor ``full``.
    """
    return cast(Literal["small", "full"], arguments.choice("small", "full")("keep", keep))


class Written(NamedTuple):
    """What was written.

    Attributes:
        files: their paths.
        workers: the table of workers.
        run: content of ``run.json``.
    """

    files: list[Path]
    workers: pd.DataFrame
    run: dict[str, Any]


def write(
    posterior: Posterior | NumericPosterior,
    folder: Path,
    *,
    level: float | None = None,
    run: Mapping[str, Any],
    raw: bool = False,
    keep: Literal["small", "full"] = "small",
    then: Callable[[], None] = lambda: None,
) -> Written:
    """Write all result files atomically, and remove the report of an earlier run.

    The posterior is written before any table is computed, so that it can be loaded even if a table fails.

    Args:
        posterior: a result.
        folder: created if necessary.
        level: probability of the intervals in the tables.
        run: added to ``posterior.info`` in ``run.json`` (input, command, timings).
        raw: leave text in CSV as it is, see :func:`crowdppl.export.to_file`.
        keep: what ``posterior.nc`` holds, see :meth:`crowdppl.Posterior.save`.
        then: called as soon as the files are in place.

    Raises:
        FileError: if something cannot be written; files of an earlier run then stay as they were.
    """
    failed: BaseException | None = None
    workers = pd.DataFrame()
    classes = isinstance(posterior, Posterior)
    further = further_tables(posterior) if isinstance(posterior, Posterior) else {}
    left_out = FURTHER - set(further)
    names = [name for name in (FILES if classes else NUMERIC_FILES) if name not in left_out]
    with replaced(folder, (*FILES, *DERIVED), then) as staging:
        posterior.save(staging / "posterior.nc", keep=keep)
        try:
            workers = posterior.workers(level=level)
            truth = posterior.truth() if isinstance(posterior, Posterior) else posterior.truth(level=level)
            export.write(truth, staging / "truth.csv", raw=raw)
            export.write(workers, staging / "workers.csv", raw=raw)
            if classes:
                export.write(posterior.confusion(level=level), staging / "confusion.csv", raw=raw)
            for name, table in further.items():
                export.write(table(level), staging / name, raw=raw)
        except BaseException as error:  # neither tables of an earlier run nor incomplete tables beside this posterior
            for name in FILES[: FILES.index("posterior.nc")]:
                (staging / name).unlink(missing_ok=True)
            failed = error
        story = (
            posterior.info
            | {
                "interval_method": posterior.interval_method,
                **_of_classes(posterior),
                "warnings": posterior.warnings,
                "notes": posterior.notes,
            }
            | dict(run)
        )
        write_run(staging, story)
    if failed is not None:
        failed.add_note(
            f"the tables were not written, the posterior is in {folder}; crowdppl export {folder} writes them"
        )
        raise failed
    return Written([folder / name for name in names], workers, story)


def _of_classes(posterior: Posterior | NumericPosterior) -> dict[str, str]:
    """Return what is known of results for classes only."""
    if not isinstance(posterior, Posterior):
        return {}
    return {"correlation": posterior.correlation, "coverage": posterior.coverage}


def write_run(staging: Path, story: Mapping[str, Any]) -> None:
    """Write ``run.json``, with the digests of the other files, which by then are all in the folder.

    Raises:
        OSError: if it cannot be written.
    """
    text = json.dumps({**story, "files": overwriting.digests_of(staging)}, indent=2, ensure_ascii=False)
    (staging / overwriting.RECORD).write_text(text + "\n", encoding="utf-8", errors="backslashreplace")


def opened(folder: Path) -> tuple[Posterior, dict[str, Any]]:
    """Return the posterior in a folder of results and the content of ``run.json``.

    Raises:
        FileError: if the folder contains no result, or a damaged one.
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


def further_tables(posterior: Posterior) -> dict[str, Callable[[float | None], pd.DataFrame]]:
    """Return the tables that only some results have, by the name of their file; each takes a level."""
    tables: dict[str, Callable[[float | None], pd.DataFrame]] = {}
    if has_spans(posterior):
        tables["spans.csv"] = lambda level: posterior.spans()
    if has_sets(posterior):
        tables["sets.csv"] = lambda level: posterior.sets()
    if has_sets(posterior) and has_rates(posterior):
        tables["label_rates.csv"] = lambda level: posterior.label_rates(level=level)
    if has_effects(posterior):
        tables["effects.csv"] = lambda level: posterior.effects(level=level)
    if has_criteria(posterior):
        tables["criteria.csv"] = lambda level: posterior.criteria(level=level)
    return tables
