"""Codes of annotations in temporary files: some bytes an annotation, read many times faster than the text they stand for."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import numpy.typing as npt

from crowdppl.errors import FileError

Array = npt.NDArray[Any]
# Fields of an annotation: codes of its worker and its label, whether it is the first of its item, and the known truth or -1.
TYPES = {
    "worker": np.dtype(np.int32),
    "label": np.dtype(np.int32),
    "first": np.dtype(bool),
    "known": np.dtype(np.int32),
}


class Codes:
    """Annotations in the order they were added, in files without a name: they are gone with the process, however it ends.

    Args:
        annotations: how many there will be.
        fields: names among :data:`TYPES`.

    Raises:
        FileError: where there is no room for them.
    """

    def __init__(self, annotations: int, fields: Sequence[str]):
        self.fields, self.annotations = fields, 0
        needed = annotations * sum(TYPES[name].itemsize for name in fields)
        held = ExitStack()
        weakref.finalize(self, held.close)
        try:
            self._files = {name: held.enter_context(tempfile.TemporaryFile()) for name in fields}  # noqa: SIM115
            free = shutil.disk_usage(tempfile.gettempdir()).free
        except OSError as error:
            raise FileError(
                f"no temporary folder: {error.strerror}; set TMPDIR to one that can be written to"
            ) from None
        self._needs = (
            f"{tempfile.gettempdir()} has no room for {needed / 1e9:,.1f} GB of codes; set TMPDIR to a folder that has"
        )
        if free < needed:
            raise FileError(self._needs)

    def add(self, **parts: Array) -> None:
        """Add annotations, each field ``(n,)``."""
        try:
            for name in self.fields:
                self._files[name].write(np.ascontiguousarray(parts[name], dtype=TYPES[name]).data)
                self._files[name].flush()
        except OSError as error:
            raise FileError(f"{self._needs} ({error.strerror})") from None
        self.annotations += len(parts[self.fields[0]])

    def batches(self, rows: int) -> Iterator[tuple[int, dict[str, Array]]]:
        """Go through them, ``rows`` at a time and so many more that the last item is whole: where it begins, and the fields."""
        begin = 0
        while begin < self.annotations:
            end = self._item_from(begin + rows, rows)
            yield begin, {name: self._read(name, begin, end - begin) for name in self.fields}
            begin = end

    def _item_from(self, at: int, step: int) -> int:
        """Return the first row from ``at`` on that begins an item, or how many rows there are."""
        while at < self.annotations:
            begins = np.flatnonzero(self._read("first", at, step))
            if len(begins):
                return at + int(begins[0])
            at += step
        return self.annotations

    def _read(self, name: str, begin: int, count: int) -> Array:
        kind = TYPES[name]
        self._files[name].seek(begin * kind.itemsize)
        return np.frombuffer(self._files[name].read(count * kind.itemsize), dtype=kind)
