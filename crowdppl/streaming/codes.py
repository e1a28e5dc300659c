"""Codes of judgements in a temporary folder: some bytes a judgement, read many times faster than the text they stand for."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from crowdppl.errors import FileError

Array = npt.NDArray[Any]
# Fields of a judgement: codes of its worker and its label, whether it is the first of its item, and the known truth or -1.
TYPES = {
    "worker": np.dtype(np.int32),
    "label": np.dtype(np.int32),
    "first": np.dtype(bool),
    "known": np.dtype(np.int32),
}


class Codes:
    """Judgements in the order they were added, the folder gone when nobody holds this any more.

    Args:
        judgements: how many there will be.
        fields: names among :data:`TYPES`.

    Raises:
        FileError: where there is no room for them.
    """

    def __init__(self, judgements: int, fields: Sequence[str]):
        self.fields, self.judgements = fields, 0
        needed = judgements * sum(TYPES[name].itemsize for name in fields)
        try:
            self.folder = Path(tempfile.mkdtemp(prefix="crowdppl-"))
        except OSError as error:
            raise FileError(
                f"no temporary folder: {error.strerror}; set TMPDIR to one that can be written to"
            ) from None
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self._needs = (
            f"{self.folder.parent} has no room for {needed / 1e9:,.1f} GB of codes; set TMPDIR to a folder that has"
        )
        if shutil.disk_usage(self.folder).free < needed:
            raise FileError(self._needs)

    def add(self, **parts: Array) -> None:
        """Add judgements, each field ``(n,)``."""
        try:
            for name in self.fields:
                with (self.folder / name).open("ab") as file:
                    file.write(np.ascontiguousarray(parts[name], dtype=TYPES[name]).data)
        except OSError:
            raise FileError(self._needs) from None
        self.judgements += len(parts[self.fields[0]])

    def batches(self, rows: int) -> Iterator[tuple[int, dict[str, Array]]]:
        """Go through them, ``rows`` at a time and so many more that the last item is whole: where it begins, and the fields."""
        begin = 0
        while begin < self.judgements:
            end = self._item_from(begin + rows, rows)
            yield begin, {name: self._read(name, begin, end - begin) for name in self.fields}
            begin = end

    def _item_from(self, at: int, step: int) -> int:
        """Return the first row from ``at`` on that begins an item, or how many rows there are."""
        while at < self.judgements:
            begins = np.flatnonzero(self._read("first", at, step))
            if len(begins):
                return at + int(begins[0])
            at += step
        return self.judgements

    def _read(self, name: str, begin: int, count: int) -> Array:
        kind = TYPES[name]
        return np.fromfile(self.folder / name, dtype=kind, count=count, offset=begin * kind.itemsize)
