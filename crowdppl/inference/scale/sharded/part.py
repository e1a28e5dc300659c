"""What each rank does with the items that it holds: sums, draws, and its part of the results."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from crowdppl.errors import CrowdpplError, FileError
from crowdppl.files import atomic
from crowdppl.inference.backends.coded import Coded
from crowdppl.inference.backends.passes import Sweeps
from crowdppl.inference.backends.sums import SparseSums, sums_over
from crowdppl.inference.memory import ROWS
from crowdppl.inference.scale.consensus import consensus_file
from crowdppl.inference.scale.sharded.plan import Plan, keys
from crowdppl.inference.scale.sharded.rows import Group, Names, Rows, agree, names, rows
from crowdppl.kernels.statistics import Statistics

Array = npt.NDArray[Any]
# Items worked on at a time, where arrays of several numbers an item are made.
ITEMS = 2**16
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Contents(NamedTuple):
    """What the data hold, all ranks together.

    Attributes:
        names: of workers and classes.
        items: how many there are.
        annotations: likewise.
        each: annotations of each worker, ``(J,)``.
        most: annotations of the rank that holds the most.
    """

    names: Names
    items: int
    annotations: int
    each: Array
    most: int


class Part:
    """The items of one rank. Every method is called on all ranks at once; sums are those of all ranks, on rank 0.

    Args:
        group: the processes.
    """

    names: Names
    held: Rows
    data: Coded
    backend: Sweeps | SparseSums
    # Sum of the probabilities of the classes over draws (N, K), once there are any, and numbers that names give to items (N,).
    sums: Tensor | None = None
    _keys: Array | None = None

    def __init__(self, group: Group):
        self.group = group

    def read(self, plan: Plan) -> Contents:
        """Read this rank's share.

        Raises:
            DataError: if the data cannot be used as they are.
            FileError: if a file cannot be read.
        """
        self.names = names(self.group, plan)
        self.held = rows(self.group, plan, self.names)
        self.data = data = self.held.data
        self.backend = sums_over(data, data.K)
        sizes = self.group.gather((data.N, data.A))
        each = torch.zeros(data.J, dtype=torch.int64)
        for begin in range(0, data.A, ROWS):
            part = data.column[begin : min(begin + ROWS, data.A)] // np.uint32(data.K)
            each += torch.from_numpy(np.bincount(part, minlength=data.J))
        each = self.group.add(each)
        items, annotations = (sum(size[n] for size in sizes) for n in (0, 1))
        return Contents(self.names, items, annotations, each.numpy(), max(size[1] for size in sizes))

    # ------------------------------------------------------------------ sums

    def given(self) -> Statistics:
        """Return the sums of the votes' shares."""
        return self.group.reduce(self.backend.given(self._shares()))

    def expect(self, table: Tensor | None = None, prior: Tensor | None = None) -> Statistics:
        """Return the sums of an E step; rank 0 has ``table (J, S, K)`` and ``prior (S,)``."""
        table, prior = self._tables(table, prior)
        return self.group.reduce(self.backend.expect(table, prior))

    def draw(
        self,
        table: Tensor | None = None,
        prior: Tensor | None = None,
        *,
        seed: int,
        votes: bool = False,
        add: bool = False,
    ) -> Statistics:
        """Draw the true label of each item, and return the sums.

        The draw of an item depends on the seed and on its name only, not on the number of ranks.

        Args:
            table: on rank 0, of the workers, ``(J, S, K)``.
            prior: on rank 0, of the classes, ``(S,)``.
            seed: of these draws.
            votes: draw by the shares of the votes in place of tables.
            add: add the probabilities to their sums over draws.
        """
        probability = self._shares() if votes else self.backend.responsibilities(*self._tables(table, prior))
        truth = torch.empty(len(probability), dtype=torch.int16)
        if add and self.sums is None:
            self.sums = torch.zeros_like(probability)
        for begin in range(0, len(truth), ITEMS):
            part = slice(begin, begin + ITEMS)
            if add and self.sums is not None:
                self.sums[part] += probability[part]
            truth[part] = _chosen(probability[part], _uniform(self.keys[part], seed))
        return self.group.reduce(Statistics(torch.tensor(torch.nan), *self.backend.counted(truth)))

    def _tables(self, table: Tensor | None, prior: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the tables of rank 0."""
        J, K = self.data.J, self.data.K
        if self.group.size == 1 and table is not None and prior is not None:
            return table, prior
        # Memory is (worker, label, state): nothing is copied.
        rows = torch.empty(J, K, K, dtype=torch.float64) if table is None else table.transpose(1, 2).contiguous()
        prior = torch.empty(K, dtype=torch.float64) if prior is None else prior.contiguous()
        return self.group.broadcast(rows).transpose(1, 2), self.group.broadcast(prior)

    def _shares(self) -> Tensor:
        """Return the shares of the votes for each item, ``(N, K)``."""
        out = torch.empty(self.data.N, self.data.K, dtype=torch.float64)
        for first, end in self.data.blocks(ROWS):
            out[first:end] = self.data.annotations(first, end).majority()
        return out

    # ------------------------------------------------------------------ what identifies the data

    @property
    def keys(self) -> Array:
        """A number for the name of each item, ``(N,)`` uint64."""
        if self._keys is None:
            self._keys = np.empty(self.data.N, dtype=np.uint64)
            for begin in range(0, self.data.N, ITEMS):
                part = self.held.items.slice(begin, ITEMS)
                self._keys[begin : begin + len(part)] = keys(part)
        return self._keys

    def digest(self) -> str:
        """Return a digest of all annotations, whatever rank holds them."""
        total = np.uint64(0)
        start = self.data.start.view(np.int64)
        with np.errstate(over="ignore"):
            for first, end in self.data.blocks(ROWS):
                item = np.repeat(self.keys[first:end], np.diff(start[first : end + 1]))
                column = self.data.column[start[first] : start[end]].astype(np.uint64)
                total += _mixed(item + GOLDEN * (column + np.uint64(1))).sum(dtype=np.uint64)
                known = self.data.known[first:end].astype(np.int64).astype(np.uint64)
                total += _mixed(self.keys[first:end] ^ _mixed(known)).sum(dtype=np.uint64)
        whole = sum(self.group.gather(int(total))) % 2**64
        return f"{whole:016x} {self.names.workers.to_pylist()} {self.names.labels.to_pylist()} {self.data.K}"

    # ------------------------------------------------------------------ files

    def save(self, folder: Path, number: int, before: int) -> None:
        """Write the sums over draws beside a checkpoint, and remove all but those and the ones before.

        Raises:
            FileError: if a rank cannot write.
        """
        failed = None
        try:
            if self.sums is not None:
                with atomic(self._file(folder, number), again=True) as path, path.open("wb") as file:
                    np.save(file, self.sums.numpy())
            self.discard(folder, [number, before])
        except CrowdpplError as error:
            failed = error
        agree(self.group, failed)

    def load(self, folder: Path, number: int) -> None:
        """Read sums over draws that :meth:`save` has written.

        Raises:
            FileError: if a rank does not find its own.
        """
        path, failed = self._file(folder, number), None
        try:
            values = np.load(path)
            if values.shape != (self.data.N, self.data.K):
                raise ValueError
            self.sums = torch.from_numpy(values)
        except (OSError, ValueError):
            failed = FileError(f"{path} is missing or damaged; name another folder for checkpoints, or remove this one")
        agree(self.group, failed)

    def discard(self, folder: Path, kept: list[int] | None = None) -> None:
        """Remove the files of this rank beside a checkpoint, except some."""
        names_kept = {self._file(folder, number).name for number in kept or []}
        for path in folder.glob(f"sums-*-{self.group.rank:05d}.npy"):
            if path.name not in names_kept:
                path.unlink(missing_ok=True)

    def _file(self, folder: Path, number: int) -> Path:
        return folder / f"sums-{number:08d}-{self.group.rank:05d}.npy"

    def write(
        self, table: Tensor | None = None, prior: Tensor | None = None, *, folder: Path, column: str, draws: int = 0
    ) -> None:
        """Write this rank's part of the true labels: item, label, its probability, and the probability of each class.

        Args:
            table: on rank 0, of the workers, ``(J, S, K)``.
            prior: on rank 0, of the classes, ``(S,)``.
            folder: that all ranks see.
            column: name of the items' column.
            draws: whose mean probabilities are written; 0 for those at ``table`` and ``prior``.

        Raises:
            FileError: if a rank cannot write.
        """
        if draws:
            assert self.sums is not None
            probability, factor = self.sums, 1.0 / draws
        else:
            probability, factor = self.backend.responsibilities(*self._tables(table, prior)), 1.0
        failed = None
        try:
            if not folder.is_dir():
                raise FileError(f"rank {self.group.rank} does not see {folder}; name a folder that all machines share")
            self._write(folder / f"part-{self.group.rank:05d}.parquet", column, probability, factor)
        except CrowdpplError as error:
            failed = error
        agree(self.group, failed)

    def _write(self, path: Path, column: str, probability: Tensor, factor: float) -> None:
        with consensus_file(path, column, self.held.items.type, self.names.labels) as file:
            # Row groups of about a million items.
            for begin in range(0, len(probability), 16 * ITEMS):
                part = probability[begin : begin + 16 * ITEMS] * factor
                file.add(self.held.items.slice(begin, len(part)), part)


def _mixed(value: Array) -> Array:
    """Mix the bits of numbers ``(n,)`` uint64: the last steps of SplitMix64 (Steele, Lea and Flood 2014)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def _uniform(keys: Array, seed: int) -> Tensor:
    """Return a number from [0, 1) for each key ``(n,)``, of the stream of a seed."""
    stream = _mixed(np.array([seed], dtype=np.uint64) + GOLDEN)
    return torch.from_numpy((_mixed(_mixed(keys + stream) ^ stream) >> np.uint64(11)) * 2.0**-53)


def _chosen(probability: Tensor, uniform: Tensor) -> Tensor:
    """Return the class ``(n,)`` that a number from [0, 1) chooses by probabilities ``(n, K)``: one that is possible."""
    below = probability.cumsum(-1)
    chosen = (below[:, :-1] <= (uniform * below[:, -1]).unsqueeze(-1)).sum(-1)
    while bool((impossible := probability.gather(1, chosen.unsqueeze(1)).squeeze(1) <= 0).any()):  # by rounding
        chosen = torch.where(impossible, chosen - 1, chosen)
    return chosen.to(torch.int16)
