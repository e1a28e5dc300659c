"""Rows that arrive in any order become the annotations of whole items, in eight bytes a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow

from crowdppl.errors import DataError, listed
from crowdppl.inference.backends.coded import Coded
from crowdppl.inference.backends.passes import padding

Array = npt.NDArray[Any]
# Rows worked on at a time.
BLOCK = 2**18
# Names of items that are collected before they are compared with those known, at least.
WAITING = 2**18
LOW = np.uint64(32)


class Collector:
    """The annotations of one rank while they are read.

    A row is a number of 64 bits: its item in the upper half, worker and label in the lower half. Items are numbered in the order
    in which they arrive. Names are compared with those known when there are as many new ones: no table of names is made for
    every part that arrives.

    Args:
        rows: how many there will be, about.
    """

    def __init__(self, rows: int):
        self.rows = np.empty(max(rows, 1), dtype=np.uint64)
        self.size = 0
        self.items: Any = None
        self._new: list[Any] = []
        self._waiting = 0
        # The first row whose item is not a place among the items, but among the items and the new names.
        self._from = 0
        self._truths: list[tuple[Array, Array]] = []

    def add(self, names: Any, item: Array, column: Array, known: Array | None) -> None:
        """Add rows.

        Args:
            names: distinct items of the rows.
            item: place of each row's item among them, ``(n,)``.
            column: worker * K + label, ``(n,)`` uint32.
            known: class of the known truth, or -1, ``(n,)``; ``None`` without known truths.
        """
        count = len(item)
        if self.size + count > len(self.rows):
            grown = np.empty(max(self.size + count, len(self.rows) * 5 // 4), dtype=np.uint64)
            grown[: self.size] = self.rows[: self.size]
            self.rows = grown
        before = (0 if self.items is None else len(self.items)) + self._waiting
        part = self.rows[self.size : self.size + count]
        np.add(item, before, out=part, casting="unsafe")
        part <<= LOW
        part |= column
        if known is not None:
            place = np.flatnonzero(known >= 0)
            self._truths.append((place + self.size, known[place].astype(np.int16)))
        self.size += count
        self._new.append(names)
        self._waiting += len(names)
        if self._waiting > max(WAITING, 0 if self.items is None else len(self.items)):
            self._compare()

    def _compare(self) -> None:
        """Give equal names one number."""
        if not self._new:
            return
        names = pyarrow.concat_arrays(self._new if self.items is None else [self.items, *self._new])
        self._new, self._waiting, self.items = [], 0, None
        coded = names.dictionary_encode()  # numbers are given in the order of the names: those known keep theirs
        del names
        place = coded.indices.to_numpy().astype(np.uint32, copy=False)
        self.items = coded.dictionary
        for begin in range(self._from, self.size, BLOCK):
            part = self.rows[begin : min(begin + BLOCK, self.size)]
            item = place[(part >> LOW).astype(np.int64)].astype(np.uint64)
            part &= np.uint64(0xFFFFFFFF)
            part |= item << LOW
        self._from = self.size

    def finish(self, J: int, K: int, name: str, classes: Array) -> tuple[Coded, Any]:
        """Return the annotations by item, those of an item in the order of worker and label, and the names of the items.

        Args:
            J: number of workers.
            K: number of classes.
            name: of the data, for messages.
            classes: their names, ``(K,)``.

        Raises:
            DataError: for an item with two known truths.
        """
        self._compare()
        names = pyarrow.array([]) if self.items is None else self.items
        known = self._known(len(names), name, names, classes)
        rows, A = self.rows[: self.size], self.size
        rows.sort()
        sizes = np.zeros(len(names) + 1, dtype=np.uint64)
        column = self.rows.view(np.uint32)
        for begin in range(0, A, BLOCK):
            part = rows[begin : begin + BLOCK].copy()
            item = (part >> LOW).astype(np.int64)
            first = int(item[0])
            counts = np.bincount(item - first)
            sizes[first + 1 : first + 1 + len(counts)] += counts.astype(np.uint64)
            # In the memory of rows that have been read: the first half of it will hold them all.
            column[begin : begin + len(part)] = part.astype(np.uint32)
        del rows, column
        start = np.cumsum(sizes, out=sizes)
        return Coded(start, self._shrunk(A), known, J, K), names

    def _shrunk(self, A: int) -> npt.NDArray[np.uint32]:
        """Return the lower halves of the rows, which are in the first half of their memory; the rest is freed."""
        whole, self.rows = self.rows, np.empty(0, dtype=np.uint64)
        wanted = A + padding()
        if 2 * len(whole) < wanted:
            out = np.zeros(wanted, dtype=np.uint32)
            out[:A] = whole.view(np.uint32)[:A]
            return out
        whole.resize(-(-wanted // 2), refcheck=False)
        column = whole.view(np.uint32)[:wanted]
        column[A:] = 0
        return column

    def _known(self, items: int, name: str, names: Any, classes: Array) -> npt.NDArray[np.int16]:
        """Return the known truth of each item, -1 where there is none."""
        out = np.full(items, -1, dtype=np.int16)
        truths, self._truths = self._truths, []
        for place, value in truths:
            item = (self.rows[place] >> LOW).astype(np.int64)
            fresh = out[item] < 0
            out[item[fresh]] = value[fresh]
            clash = np.flatnonzero(out[item] != value)
            if len(clash):
                row = clash[0]
                two = [classes[out[item[row]]], classes[value[row]]]
                raise DataError(
                    f"{name}: the item {names[int(item[row])].as_py()!r} has two known truths, {listed(two)}; leave one, or none"
                )
        return out
