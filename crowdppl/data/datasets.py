"""Public data sets: Dawid and Skene's table, built in, and sets from the folder ``CROWDPPL_DATA`` or fetched."""

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

from crowdppl.arguments import checked
from crowdppl.data import download
from crowdppl.data.annotations import Annotations
from crowdppl.data.fields import Kind
from crowdppl.data.numeric import NumericAnnotations
from crowdppl.data.numeric_reading import MOST_VALUES
from crowdppl.data.readers.tables import integers, read_csv
from crowdppl.errors import FileError, OptionError, listed, suggestion

__all__ = ["anaesthesia", "folder", "listing", "public"]

# Dawid & Skene (1979), Table 1: pre-operative fitness of 45 patients, classes 1-4, assessed by five anaesthetists, the first
# of whom assessed each patient three times. One row per patient: these three annotations, then anaesthetists 2 to 5. Patient 7 is
# 1, 2, 2 as in most copies (one in circulation has 1, 1, 2).
_ANAESTHESIA = """
1111111 3334334 1122122 2223121 2223222 2223322 1222111 3333433 2222223 2322223
4444444 2223343 1111111 2223212 1211111 1112111 1111111 1111111 2222221 2221322
2222222 2222221 2223222 2212222 1111111 1111111 2322222 1111111 1111111 1121121
1111111 3333233 1111111 2222222 2223232 4334343 2212232 2323233 3333432 1111111
1111111 1212111 2322222 1211111 2222222
"""


# The annotations of a set, or its label counts if it has no worker identifiers: one row per item, one column per class.
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
    """Return the folder of public data sets, ``CROWDPPL_DATA``.

    ``None`` if the variable is not set or the folder does not exist.
    """
    name = os.environ.get("CROWDPPL_DATA")
    return Path(name) if name and Path(name).is_dir() else None


def listing() -> pd.DataFrame:
    """Return a table of the public data sets: those present, as described by their ``meta.json``, and those to fetch.

    Columns: ``name``, ``where`` (``"folder"``: ``CROWDPPL_DATA``; ``"fetched"``: the cache; otherwise ``"to fetch"``), ``title``,
    ``items``, ``workers``, ``annotations``, ``classes``, ``truths``, ``licence``, ``citation``.

    Raises:
        FileError: if a description cannot be read.
    """
    rows = []
    present = _present()
    for name in sorted({*present, *download.SOURCES}):
        here = present.get(name)
        meta = _meta(here) if here is not None else dataclasses.asdict(download.SOURCES[name])
        where = "to fetch" if here is None else "folder" if here.parent == folder() else "fetched"
        rows.append(
            {
                "name": name,
                "where": where,
                "title": meta.get("title", ""),
                "items": meta.get("n_items"),
                "workers": meta.get("n_workers"),
                "annotations": meta.get("n_annotations"),
                "classes": meta.get("n_classes"),
                "truths": meta.get("n_truth", 0),
                "licence": meta.get("licence", "not stated"),
                "citation": meta.get("citation", ""),
            }
        )
    return pd.DataFrame(rows)


def _present() -> dict[str, Path]:
    """Return the folders of sets by name; those in ``CROWDPPL_DATA`` take precedence over fetched ones."""
    parents = [parent for parent in (download.cache(), folder()) if parent is not None]
    return {path.parent.name: path.parent for parent in parents for file in FILES for path in parent.glob(f"*/{file}")}


def _meta(here: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((here / "meta.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise FileError(f"{here / 'meta.json'} cannot be read: {error}; repair or remove the file") from None


def _intact(here: Path) -> None:
    """Refuse a set whose files do not have the SHA-256 of its description."""
    for name, expected in _meta(here).get("sha256", {}).items():
        path = here / name
        if path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if digest != expected:
                raise FileError(
                    f"{path} is not the published file (its SHA-256 differs from that in meta.json); fetch it again"
                )


def _kind(meta: Mapping[str, Any]) -> Kind | None:
    """Return what the description of a set says of its labels; ``None`` where labels themselves show it."""
    if meta.get("label_type") == "number" or str(meta.get("notes", "")).startswith("Numbers"):
        return "numeric"
    return "nominal" if (meta.get("n_classes") or 0) > MOST_VALUES else None


def _has_counts_only(here: Path) -> bool:
    return not (here / ANNOTATIONS).is_file()


def _counted(here: Path, options: Mapping[str, Any]) -> Annotations:
    """Read a set of label counts; its columns may be named ``count_<class>``."""
    accepted = [
        name for name in inspect.signature(Annotations.from_counts).parameters if name not in ("frame", "source")
    ]
    for option in options:
        if option not in accepted:
            raise OptionError(
                f"{here.name} contains label counts without workers, which have no option {option!r}"
                f"{suggestion(option, accepted)}; use {', '.join(accepted)}"
            )
    counts = read_csv(here / COUNTS)
    names = [str(name) for name in counts.columns]
    classes = [name.removeprefix("count_") for name in names if name.startswith("count_")]
    if "labels" not in options and len(classes) == len(names) - 1:
        options = {**options, "labels": integers(classes)}
    return Annotations.from_counts(counts, source=f"{here.name}/{COUNTS}", **options)


def _companion(name: str) -> str | None:
    """Return the message for a folder without annotations, which belongs to another set or has other content."""
    parent = folder()
    here = None if parent is None else parent / name
    if here is None or not here.is_dir():
        return None
    title = _meta(here).get("title")
    files = sorted(path.name for path in here.iterdir() if path.name != "meta.json")
    return (
        f"{name!r} contains no annotations{f' ({title})' if title else ''}; its files are {listed(files)} in {here}. "
        f"crowdppl.data.datasets.listing() shows the sets with annotations"
    )


@checked
def public(name: str, **options: Any) -> tuple[Annotations, pd.Series[Any]]:
    """Read a public data set: a folder with ``annotations.csv.gz`` or ``counts.csv.gz`` and optionally ``truth.csv``.

    The folder is searched for in ``CROWDPPL_DATA``, then in the cache; sets of :data:`crowdppl.data.download.SOURCES` are
    fetched if needed. Label counts are read by :meth:`Annotations.from_counts`: all annotations have the worker ``"crowd"``.

    Args:
        name: name of the set, such as ``"rte"``.
        **options: options of :meth:`Annotations.from_frame`, with ``kind="numeric"`` where the set says that its labels are
            numbers, or :meth:`Annotations.from_counts` for a set of label counts.

    Returns:
        The annotations, and the true labels by item, for items that have one (empty if the set has none).

    Raises:
        FileError: if the set does not exist, has no annotations, cannot be fetched, or a file differs from the published one.
        OptionError: for an option that label counts do not have.
    """
    present = _present()
    if name in present:
        here = present[name]
    elif name in download.SOURCES:
        here = download.fetch(name)
    elif (companion := _companion(name)) is not None:
        raise FileError(companion)
    else:
        where = "the environment variable CROWDPPL_DATA names no folder" if folder() is None else f"not in {folder()}"
        names = sorted({*present, *download.SOURCES})
        raise FileError(f"no data set {name!r}{suggestion(name, names)} ({where}, and it is not one of those to fetch)")
    _intact(here)
    if _has_counts_only(here):
        data = _counted(here, options)
    else:
        if "labels" not in options and (kind := _kind(_meta(here))) is not None:
            options.setdefault("kind", kind)
        data = Annotations.from_csv(here / ANNOTATIONS, **options)
    if not (here / "truth.csv").is_file():
        return data, pd.Series(dtype=object)
    table = read_csv(here / "truth.csv")
    if not {"item", "label"} <= set(table.columns):
        raise FileError(
            f"{here / 'truth.csv'}: it needs columns 'item' and 'label'; columns are {listed(table.columns)}"
        )
    table = table.dropna(subset=["item", "label"])
    # Types are inferred for each file, and a single non-integer name makes a column strings: items are matched as text.
    item = {str(name): name for name in data.items.tolist()}
    item_text = table["item"].map(str)
    annotated = item_text.isin(item).to_numpy()
    if isinstance(data, NumericAnnotations):
        label = table["label"].astype(float)
    else:
        label = table["label"].map(str) if data.labels.dtype == object else table["label"]
    truth = pd.Series(label[annotated].to_numpy(), index=item_text[annotated].map(item).to_numpy(), name="label")
    return data, truth.rename_axis("item")
