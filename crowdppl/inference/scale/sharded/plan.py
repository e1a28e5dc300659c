"""Which row groups of a Parquet data set each rank reads, and to which rank an item belongs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow
import pyarrow.compute

from crowdppl.data.readers.opening import READ_ERRORS
from crowdppl.data.readers.parquet import Columns, Table
from crowdppl.data.readers.tables import unreadable_parquet
from crowdppl.errors import FileError

# Ranges of sorted items are taken if the largest has at most so many times the rows of an even share; else hashes are even.
UNEVEN = 1.25
# Bytes by which ranks tell whether they see the same file, and the number of blocks in which they are read.
SAMPLED, BLOCKS = 2**21, 64


class RowGroup(NamedTuple):
    """Some rows of a file.

    Attributes:
        file: path of the file.
        number: of the row group in it.
        rows: how many it has.
        before: rows of the data set that precede them.
    """

    file: str
    number: int
    rows: int
    before: int


@dataclass
class Plan:
    """The same on all ranks.

    Attributes:
        columns: what is read.
        groups: the row groups of each rank.
        last: where the data are sorted by item, the last item of each rank but the last one; else ``None``.
        size: number of rows.
        marks: of each file that other ranks read, a digest of what rank 0 sees under its path.
    """

    columns: Columns
    groups: list[list[RowGroup]]
    size: int
    last: list[Any] | None = field(default=None)
    marks: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def of(table: Table, ranks: int) -> Plan:
        """Return the plan for so many ranks.

        Each reads consecutive row groups, about as many rows as others. Where the statistics in the files say that rows are
        sorted by item, a rank keeps the items that it reads, except those that begin in the row groups of the rank before.
        Otherwise the hash of its name decides to which rank an item belongs.

        Raises:
            FileError: if a file cannot be read.
        """
        groups: list[RowGroup] = []
        ends: list[tuple[Any, Any] | None] = []
        try:
            for file in table.files:
                for group in file.row_groups:
                    if group.num_rows:
                        before = groups[-1].before + groups[-1].rows if groups else 0
                        groups.append(RowGroup(str(Path(file.path).absolute()), group.id, group.num_rows, before))
                        ends.append(_ends(group, table.columns[0]))
        except READ_ERRORS as error:
            raise unreadable_parquet(table.path, error) from None
        columns = Columns(table.path, table.columns, table.types)
        middle = np.array([group.before + group.rows / 2 for group in groups])
        cuts = [0, *np.searchsorted(middle, table.size * np.arange(1, ranks) / ranks).tolist(), len(groups)]
        shares = [groups[first:end] for first, end in pairwise(cuts)]
        last = None
        largest = max((sum(group.rows for group in share) for share in shares), default=0)
        if ranks > 1 and _sorted(ends) and all(shares) and largest <= UNEVEN * table.size / ranks:
            last = [known[1] for end in cuts[1:-1] if (known := ends[end - 1]) is not None]
        marks = {path: _mark(path) for path in sorted({group.file for share in shares[1:] for group in share})}
        return Plan(columns, shares, table.size, last, marks)

    def check(self, rank: int) -> None:
        """Check that the files which a rank reads are those that rank 0 sees under the same paths.

        Raises:
            FileError: if one is missing or another one.
        """
        for path in dict.fromkeys(group.file for group in self.groups[rank]):
            if rank and _mark(path) != self.marks[path]:
                raise FileError(
                    f"{path} is another file on the machine of rank {rank} than on that of rank 0; all machines must see the "
                    f"same data under the same path"
                )

    def owners(self, items: Any) -> npt.NDArray[np.uint16]:
        """Return the rank to which each of some distinct items belongs, ``(n,)``."""
        ranks = len(self.groups)
        if self.last is None:
            return (keys(items) % np.uint64(ranks)).astype(np.uint16)
        rank_of = np.zeros(len(items), dtype=np.uint16)
        for value in self.last:
            rank_of += np.asarray(pyarrow.compute.greater(items, pyarrow.scalar(value, items.type)))
        return rank_of


def _mark(path: str) -> str:
    """Return a digest of a file: of all its bytes if they are few, else of its size, its footer and blocks spread evenly over it.

    Raises:
        FileError: if it cannot be read.
    """
    try:
        with Path(path).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            digest = hashlib.blake2b(str(size).encode(), digest_size=16)
            block = SAMPLED // BLOCKS
            for place in [*range(0, size, max(block, size // BLOCKS)), max(0, size - block)]:
                file.seek(place)
                digest.update(file.read(block))
            return digest.hexdigest()
    except OSError as error:
        raise FileError(
            f"{path}: {error.strerror or error}; all machines must see the same data under the same path"
        ) from None


def keys(items: Any) -> npt.NDArray[np.uint64]:
    """Return a number for the name of each item, ``(n,)``, the same in every process."""
    return pd.util.hash_array(items.to_numpy(zero_copy_only=False), categorize=False)


def _ends(group: Any, column: str) -> tuple[Any, Any] | None:
    """Return the least and the greatest item of a row group, as far as its file says."""
    known = group.statistics.get(column) if group.statistics else None
    if known is None or known.get("min") is None or known.get("max") is None:
        return None
    ends = known["min"], known["max"]
    return ends if all(isinstance(end, (int, str)) for end in ends) else None


def _sorted(ends: Sequence[tuple[Any, Any] | None]) -> bool:
    """Tell whether row groups are sorted by item."""
    if None in ends or len({type(end) for pair in ends if pair is not None for end in pair}) != 1:
        return False
    known = [pair for pair in ends if pair is not None]
    return all(one[1] <= other[0] for one, other in pairwise(known))
