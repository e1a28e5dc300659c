"""True labels written to a Parquet file as they come: item, label, its probability, and the probability of each class."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
from torch import Tensor

from crowdppl.files import atomic
from crowdppl.posterior.posterior import probability_columns


class Consensus:
    """A file of true labels that is being written.

    Args:
        writer: of the file.
        labels: the classes, Arrow array ``(K,)``.
    """

    def __init__(self, writer: Any, labels: Any):
        self._writer, self._labels = writer, labels

    def add(self, items: Any, probability: Tensor) -> None:
        """Write a row group.

        Args:
            items: names, Arrow array ``(N,)``.
            probability: of the classes, ``(N, K)``.
        """
        top = probability.max(-1)
        label = self._labels.take(pyarrow.array(top.indices.numpy()))
        values = [items, label, top.values.numpy(), *probability.T.numpy()]
        schema = self._writer.schema
        arrays = [pyarrow.array(value, type=kind.type) for value, kind in zip(values, schema, strict=True)]
        self._writer.write_table(pyarrow.table(arrays, schema=schema))


@contextmanager
def consensus_file(path: Path, column: str, items: Any, labels: Any) -> Iterator[Consensus]:
    """Open a file of true labels, which is there under its name once it is complete.

    Args:
        path: of the file.
        column: name of the column of items.
        items: Arrow type of their names.
        labels: the classes, Arrow array ``(K,)``.

    Raises:
        FileError: if it cannot be written.
    """
    each = probability_columns(labels.to_numpy(zero_copy_only=False))
    kinds = [(column, items), ("label", labels.type)]
    schema = pyarrow.schema(kinds + [(name, pyarrow.float64()) for name in ("probability", *each)])
    with atomic(path) as temporary, pyarrow.parquet.ParquetWriter(temporary, schema) as writer:
        yield Consensus(writer, labels)
