"""Data at hand: Dawid and Skene's table, built in, and public sets: in the folder ``CROWDPPL_DATA`` names, or fetched."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from crowdppl import arguments
from crowdppl.data import download
from crowdppl.data.annotations import Annotations
from crowdppl.data.readers.tables import integers, read_csv
from crowdppl.errors import FileError, OptionError, listed, suggestion

__all__ = ["anaesthesia", "folder", "listing", "public"]

# Dawid & Skene (1979), Table 1: pre-operative fitness of 45 patients, classes 1-4, judged by five anaesthetists, the first
# of whom judged each patient three times. A row a patient: his three annotations, then anaesthetists 2 to 5. Patient 7 is
# 1, 2, 2 as in most copies (one in circulation has 1, 1, 2).
_ANAESTHESIA = """
1111111 3334334 1122122 2223121 2223222 2223322 1222111 3333433 2222223 2322223
4444444 2223343 1111111 2223212 1211111 1112111 1111111 1111111 2222221 2221322
2222222 2222221 2223222 2212222 1111111 1111111 2322222 1111111 1111111 1121121
1111111 3333233 1111111 2222222 2223232 4334343 2212232 2323233 3333432 1111111
1111111 1212111 2322222 1211111 2222222
"""


# A set's annotations, or where it has no worker identifiers its label counts: a row for each item, a column for each class.
ANNOTATIONS, COUNTS = "annotations.csv.gz", "counts.csv.gz"
FILES = (ANNOTATIONS, COUNTS)


def __dir__() -> list[str]:
    return __all__


def anaesthesia() -> Annotations:
    """Return Dawid and Skene's table: 45 patients, 5 anaesthetists, 315 annotations in classes 1-4."""
    table = np.array([list(row) for row in _ANAESTHESIA.split()], dtype=np.int64)  # (45, 7)
    patients, annotations = table.shape
    return Annotations.from_arrays(
        np.repeat(np.arange(1, patients + 1), annotations),
        np.tile([1, 1, 1, 2, 3, 4, 5], patients),
        table.reshape(-1),
        labels=[1, 2, 3, 4],
    )


def folder() -> Path | None:
    """Return the folder of public data sets, ``CROWDPPL_DATA``, or ``None`` where it is not set or not there."""
    named = os.environ.get("CROWDPPL_DATA")
    return Path(named) if named and Path(named).is_dir() else None


def listing() -> pd.DataFrame:
    """Return the public data sets at hand, as their ``meta.json`` tells of them, and those that can be fetched.

    Columns: ``name``, ``where`` (``"folder"``: ``CROWDPPL_DATA``; ``"fetched"``: the cache; else ``"to fetch"``), ``title``,
    ``items``, ``workers``, ``annotations``, ``classes``, ``truths``, ``licence``, ``citation``.

    Raises:
        FileError: where a description cannot be read.
    """
    rows = []
    found = _at_hand()
    for name in sorted({*found, *download.SOURCES}):
        here = found.get(name)
        told = _meta(here) if here is not None else dataclasses.asdict(download.SOURCES[name])
        where = "to fetch" if here is None else "folder" if here.parent == folder() else "fetched"
        rows.append(
            {
                "name": name,
                "where": where,
                "title": told.get("title", ""),
                "items": told.get("n_items"),
                "workers": told.get("n_workers"),
                "annotations": told.get("n_annotations"),
                "classes": told.get("n_classes"),
                "truths": told.get("n_truth", 0),
                "licence": told.get("licence", "not stated"),
                "citation": told.get("citation", ""),
            }
        )
    return pd.DataFrame(rows)


def _at_hand() -> dict[str, Path]:
    """Return the folders of sets by name: those that were fetched, and before them those in ``CROWDPPL_DATA``."""
    places = [place for place in (download.cache(), folder()) if place is not None]
    return {path.parent.name: path.parent for place in places for file in FILES for path in place.glob(f"*/{file}")}


def _meta(here: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((here / "meta.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise FileError(f"{here / 'meta.json'} cannot be read: {error}") from None


def _intact(here: Path) -> None:
    """Refuse a set whose files are not those that its description gives the SHA-256 of."""
    for name, expected in _meta(here).get("sha256", {}).items():
        path = here / name
        if path.is_file():
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != expected:
                raise FileError(
                    f"{path} is not the file that was published (its SHA-256 differs from meta.json's); fetch it again"
                )


def _has_counts_only(here: Path) -> bool:
    return not (here / ANNOTATIONS).is_file()


def _counted(here: Path, options: Mapping[str, Any]) -> Annotations:
    """Read a set of label counts; its columns may be called ``count_<class>``."""
    taken = [name for name in inspect.signature(Annotations.from_counts).parameters if name not in ("frame", "source")]
    for option in options:
        if option not in taken:
            raise OptionError(
                f"{here.name} holds label counts without workers, which have no option {option!r}"
                f"{suggestion(option, taken)}; they take {', '.join(taken)}"
            )
    counts = read_csv(here / COUNTS)
    names = [str(name) for name in counts.columns]
    classes = [name.removeprefix("count_") for name in names if name.startswith("count_")]
    if "labels" not in options and len(classes) == len(names) - 1:
        options = {**options, "labels": integers(classes)}
    return Annotations.from_counts(counts, source=f"{here.name}/{COUNTS}", **options)


def _companion(name: str) -> str | None:
    """Return what to say of a folder without annotations: it belongs to another set, or holds something else."""
    place = folder()
    here = None if place is None else place / name
    if here is None or not here.is_dir():
        return None
    what = _meta(here).get("title")
    files = sorted(path.name for path in here.iterdir() if path.name != "meta.json")
    return (
        f"{name!r} holds no annotations{f' ({what})' if what else ''}; read its files yourself, {listed(files)}, in "
        f"{here}. crowdppl.data.datasets.listing() names the sets that have annotations"
    )


@arguments.checked(name=arguments.text, options=arguments.anything)
def public(name: str, **options: Any) -> tuple[Annotations, pd.Series[Any]]:
    """Read a public data set: a folder with ``annotations.csv.gz`` or ``counts.csv.gz`` and, maybe, ``truth.csv``.

    It is looked for in ``CROWDPPL_DATA``, then among the fetched ones; one of :data:`crowdppl.data.download.SOURCES` is fetched.
    Label counts are read by :meth:`Annotations.from_counts`: all annotations are then of one worker, ``"crowd"``.

    Args:
        name: of the set, such as ``"rte"``.
        **options: of :meth:`Annotations.from_frame`, or :meth:`Annotations.from_counts` for a set of label counts.

    Returns:
        The annotations, and the truth of those items that have one, by item (empty where the set has none).

    Raises:
        FileError: where the set is not there, holds no annotations, cannot be fetched, or a file is not the one that was
            published.
        OptionError: for an option that label counts do not have.
    """
    found = _at_hand()
    if name in found:
        here = found[name]
    elif name in download.SOURCES:
        here = download.fetch(name)
    elif (companion := _companion(name)) is not None:
        raise FileError(companion)
    else:
        where = "the environment variable CROWDPPL_DATA names no folder" if folder() is None else f"not in {folder()}"
        there = sorted({*found, *download.SOURCES})
        raise FileError(f"no data set {name!r}{suggestion(name, there)} ({where}, and it is not among those to fetch)")
    _intact(here)
    data = _counted(here, options) if _has_counts_only(here) else Annotations.from_csv(here / ANNOTATIONS, **options)
    if not (here / "truth.csv").is_file():
        return data, pd.Series(dtype=object)
    table = read_csv(here / "truth.csv")
    if not {"item", "label"} <= set(table.columns):
        raise FileError(f"{here / 'truth.csv'}: no columns 'item' and 'label'; columns are {listed(table.columns)}")
    table = table.dropna(subset=["item", "label"])
    # Each file is read by itself, and one stray name makes a column strings: items are matched by how they are written.
    item = {str(name): name for name in data.items.tolist()}
    written = table["item"].map(str)
    here_too = written.isin(item).to_numpy()
    label = table["label"].map(str) if data.labels.dtype == object else table["label"]
    truth = pd.Series(label[here_too].to_numpy(), index=written[here_too].map(item).to_numpy(), name="label")
    return data, truth.rename_axis("item")
