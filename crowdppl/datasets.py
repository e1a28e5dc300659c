"""Data at hand: Dawid and Skene's table, built in, and public sets in the folder that ``CROWDPPL_DATA`` names."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.annotations import Annotations
from crowdppl.errors import FileError, listed, suggestion
from crowdppl.io.tables import read_csv

# Dawid & Skene (1979), Table 1: pre-operative fitness of 45 patients, classes 1-4, judged by five anaesthetists, the first
# of whom judged each patient three times. A row a patient: his three judgements, then anaesthetists 2 to 5. Patient 7 is
# 1, 2, 2 as in most copies (one in circulation has 1, 1, 2).
_ANAESTHESIA = """
1111111 3334334 1122122 2223121 2223222 2223322 1222111 3333433 2222223 2322223
4444444 2223343 1111111 2223212 1211111 1112111 1111111 1111111 2222221 2221322
2222222 2222221 2223222 2212222 1111111 1111111 2322222 1111111 1111111 1121121
1111111 3333233 1111111 2222222 2223232 4334343 2212232 2323233 3333432 1111111
1111111 1212111 2322222 1211111 2222222
"""


def anaesthesia() -> Annotations:
    """Return Dawid and Skene's table: 45 patients, 5 anaesthetists, 315 judgements in classes 1-4."""
    table = np.array([list(row) for row in _ANAESTHESIA.split()], dtype=np.int64)  # (45, 7)
    patients, judgements = table.shape
    return Annotations.from_arrays(
        np.repeat(np.arange(1, patients + 1), judgements),
        np.tile([1, 1, 1, 2, 3, 4, 5], patients),
        table.reshape(-1),
        labels=[1, 2, 3, 4],
    )


def folder() -> Path | None:
    """Return the folder of public data sets, ``CROWDPPL_DATA``, or ``None`` where it is not set or not there."""
    named = os.environ.get("CROWDPPL_DATA")
    return Path(named) if named and Path(named).is_dir() else None


def listing() -> pd.DataFrame:
    """Return the public data sets at hand, as their ``meta.json`` tells of them.

    Columns: ``name``, ``title``, ``items``, ``workers``, ``judgements``, ``classes``, ``truths``, ``licence``, ``citation``.

    Raises:
        FileError: where ``CROWDPPL_DATA`` names no folder, or a description cannot be read.
    """
    place = _place()
    rows = []
    for path in sorted(place.glob("*/annotations.csv.gz")):
        told = _meta(path.parent)
        rows.append(
            {
                "name": path.parent.name,
                "title": told.get("title", ""),
                "items": told.get("n_items"),
                "workers": told.get("n_workers"),
                "judgements": told.get("n_annotations"),
                "classes": told.get("n_classes"),
                "truths": told.get("n_truth", 0),
                "licence": told.get("licence", "not stated"),
                "citation": told.get("citation", ""),
            }
        )
    return pd.DataFrame(rows)


def _place() -> Path:
    place = folder()
    if place is None:
        raise FileError("the environment variable CROWDPPL_DATA names no folder of data sets")
    return place


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


def public(name: str, **options: Any) -> tuple[Annotations, pd.Series[Any]]:
    """Read a public data set from ``CROWDPPL_DATA``: a folder with ``annotations.csv.gz`` and, maybe, ``truth.csv``.

    Args:
        name: of the set, such as ``"rte"``.
        **options: of :meth:`Annotations.from_frame`.

    Returns:
        The judgements, and the truth of those items that have one, by item (empty where the set has none).

    Raises:
        FileError: where the folder or the set is missing, or a file is not the one that was published.
    """
    place = _place()
    here = place / name
    if not (here / "annotations.csv.gz").is_file():
        there = sorted(p.parent.name for p in place.glob("*/annotations.csv.gz"))
        raise FileError(f"no data set {name!r} in {place}{suggestion(name, there)}")
    _intact(here)
    data = Annotations.from_csv(here / "annotations.csv.gz", **options)
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
