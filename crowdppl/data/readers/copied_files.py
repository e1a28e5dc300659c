"""Files of a folder or an archive that have the annotations of other files in it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.readers.records import Records
from crowdppl.data.readers.source import SourceFile
from crowdppl.data.table.identifiers import text_of

# Rows and files up to which single rows are compared, and rows of a file that are no chance.
_MOST_ROWS, _MOST_FILES, _FEWEST = 500_000, 200, 20


def copies_among(parts: Sequence[Records], files: Sequence[SourceFile], source: str) -> list[str]:
    """Return a note where a file has the annotations of another one by the same workers, or all have: they count twice.

    Copies differ in their format, and a file of all annotations is beside the files of parts.
    """
    by_size: dict[tuple[int, ...], list[int]] = {}
    for n, (part, file) in enumerate(zip(parts, files, strict=True)):
        by_size.setdefault((*part.frame.shape, file.path.stat().st_size), []).append(n)
    pairs = [
        (earlier, later)
        for group in by_size.values()
        for earlier, later in itertools.pairwise(group)
        if len(parts[later].frame) > 1 and _texts(parts[later].frame).equals(_texts(parts[earlier].frame))
    ]
    pairs = pairs or _within(parts)
    if not pairs:
        return []
    earlier, later = (files[n].name.removeprefix(f"{source}: ") for n in pairs[0])
    rest = "" if len(pairs) == 1 else f", and {len(pairs) - 1:,} more"
    return [
        f"{source}: {later!r} has the annotations of {earlier!r}{rest}; if it is a copy, remove it: they count twice"
    ]


def _within(parts: Sequence[Records]) -> list[tuple[int, int]]:
    """Return pairs of a file and one whose rows are all in it, by the columns that all files have."""
    common = [name for name in parts[0].frame.columns if all(name in part.frame.columns for part in parts)]
    if len(common) < 3 or len(parts) > _MOST_FILES or sum(len(part.frame) for part in parts) > _MOST_ROWS:
        return []
    # Fast path: files of a worker each have no row in common.
    if any(_one_value_each([part.frame[name] for part in parts]) for name in common):
        return []
    hashes = [
        np.unique(pd.util.hash_pandas_object(_texts(part.frame[common]).astype(object), index=False).to_numpy())
        for part in parts
    ]
    # Fast path: a file has all rows of another one only if it has the rarest of them.
    codes, _ = pd.factorize(np.concatenate(hashes))
    of_file = np.repeat(np.arange(len(hashes)), list(map(len, hashes)))
    starts = np.concatenate([[0], np.cumsum(np.bincount(codes))])
    by_row = of_file[np.argsort(codes, kind="stable")]
    sizes = np.diff(starts)
    pairs = []
    for n, (rows, own) in enumerate(zip(hashes, np.split(codes, np.cumsum(list(map(len, hashes)))[:-1]), strict=True)):
        if len(rows) < _FEWEST:
            continue
        rarest = own[np.argmin(sizes[own])]
        for other in by_row[starts[rarest] : starts[rarest + 1]].tolist():
            known = hashes[other]
            larger = len(known) > len(rows) or (len(known) == len(rows) and other < n)
            if other != n and larger and bool(np.isin(rows, known).all()):
                pairs.append((other, n))
                break
    return pairs


def _texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return all values of a table as text."""
    return frame.apply(text_of)


def _one_value_each(columns: Sequence[Any]) -> bool:
    """Return whether a column has one value in each file, and another one in each."""
    if not all(map(len, columns)):
        return False
    first = [str(column.iloc[0]) for column in columns]
    if len(set(first)) < len(first):
        return False
    return all(bool((column == column.iloc[0]).fillna(False).all()) for column in columns)
