"""Columns of a Parquet data set, brought to one type in all of its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow
import pyarrow.compute
import pyarrow.dataset

from crowdppl.data.readers.opening import READ_ERRORS
from crowdppl.data.readers.streams import is_stream, source_name
from crowdppl.data.readers.tables import unreadable_parquet
from crowdppl.data.table.columns import ROLES, three_columns
from crowdppl.data.table.truths import truth_column
from crowdppl.errors import DataError, FileError

Array = npt.NDArray[Any]
NOTHING = "nothing"
# Rows read at once; a batch is put together of several.
PIECE = 2**20


@dataclass
class Columns:
    """The columns of annotations, and the types that parts of them are brought to.

    Attributes:
        path: of the file or folder.
        columns: names of the columns of the item, the worker, the label and, if any, known truths.
        types: to which they are converted, by name.
    """

    path: Path
    columns: list[str]
    types: dict[str, Any]

    def plain(self, column: Any, name: str, rows: int) -> Any:
        """Bring part of a column, which ``rows`` rows precede, to its type; refuse missing values where there may be none."""
        if pyarrow.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pyarrow.types.is_floating(column.type):  # as integers are written that have a gap among them
            column = pyarrow.compute.if_else(pyarrow.compute.is_nan(column), None, column)
        try:
            column = column.cast(self.types[name])
        except pyarrow.ArrowInvalid as error:
            raise DataError(
                f"{self.path.name}, column {name!r}, after row {rows:,}: not a whole number of at most 63 bits in every row "
                f"({error}); use strings or integers"
            ) from None
        if column.null_count and name in self.columns[:3]:
            row = rows + int(np.flatnonzero(np.asarray(column.is_null()))[0]) + 1
            role = ROLES[self.columns.index(name)]
            raise DataError(f"{self.path.name}, row {row:,}: {role} missing; drop such rows before streaming")
        return column


class Table(Columns):
    """A Parquet file, or a folder of them, with the columns of annotations.

    Args:
        path: of the file or folder.
        columns: of the item, the worker and the label; the usual names where ``None``.
        truth: column of known truths, if any.

    Attributes:
        files: the fragments of the data set.
        size: number of rows.

    Raises:
        FileError: where nothing can be read.
        DataError: where a column is missing, or has values of several kinds.
    """

    def __init__(self, path: str | Path, columns: Sequence[str | None], truth: str | None):
        super().__init__(Path(path), [], {})
        if is_stream(self.path):
            raise FileError(
                f"{source_name(self.path)} is a stream, and this goes through its input several times; name a Parquet file or a "
                f"folder of them"
            )
        if not self.path.exists():
            raise FileError(f"no file {path}; check the name and the folder")
        try:
            self.files = list(pyarrow.dataset.dataset(self.path, format="parquet").get_fragments())
            schemas = [file.physical_schema for file in self.files]
            self.size = sum(file.count_rows() for file in self.files)
        except READ_ERRORS as error:
            raise unreadable_parquet(self.path, error) from None
        if not self.files:
            raise DataError(f"{self.path.name}: no Parquet file in this folder; check its name")
        header = pd.DataFrame(columns=list(dict.fromkeys(name for schema in schemas for name in schema.names)))
        self.columns = three_columns(header, columns, self.path.name)
        types = [self._type(schemas, name) for name in self.columns]
        if truth is not None:
            self.columns.append(truth_column(header, truth, self.path.name))
            types.append(self._truth_type(types[2], self._type(schemas, self.columns[3], needed=False)))
        self.types = dict(zip(self.columns, types, strict=True))

    def _type(self, schemas: Sequence[Any], name: str, *, needed: bool = True) -> Any:
        """Return the type to which a column is converted, the same for all files."""
        kinds: dict[str, list[Any]] = {}
        for file, schema in zip(self.files, schemas, strict=True):
            if name in schema.names:
                kind = schema.field(name).type
                kind = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
                kinds.setdefault(kind_of(kind), []).append(kind)
            elif needed:
                raise DataError(
                    f"{Path(file.path).name}: no column {name!r}, which other files of {self.path.name} have"
                )
        kinds.pop(NOTHING, None)
        if len(kinds) > 1:
            raise DataError(
                f"{self.path.name}, column {name!r}: {' in one file, '.join(kinds)} in another; write all as strings or all as "
                f"integers"
            )
        if not kinds:
            return pyarrow.null()
        ((kind, types),) = kinds.items()
        if kind == "strings":
            return pyarrow.large_string()
        if kind == "numbers":
            unsigned = all(map(pyarrow.types.is_unsigned_integer, types))
            return pyarrow.uint64() if unsigned and pyarrow.uint64() in types else pyarrow.int64()
        if pyarrow.types.is_nested(types[0]):
            raise DataError(f"{self.path.name}, column {name!r} is of type {str(types[0])!r}; use strings or integers")
        return types[0]

    def _truth_type(self, of_label: Any, of_truth: Any) -> Any:
        """Return the type that known truths are brought to: that of the labels."""
        kinds = [kind_of(of_label), kind_of(of_truth)]
        if kinds[1] not in (NOTHING, kinds[0]):
            raise DataError(
                f"{self.path.name}: labels are {kinds[0]} but known truths are {kinds[1]}; write both as strings or both as "
                f"integers"
            )
        return of_label


def kind_of(kind: Any) -> str:
    """Return a word for the values of a type."""
    types = pyarrow.types
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "strings"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "numbers"
    return NOTHING if types.is_null(kind) else f"of type {kind}"


def codes_of(column: Any, names: Any) -> Array:
    """Return the place of each name, -1 where there is none."""
    places = pyarrow.compute.index_in(column, value_set=names)
    return np.asarray(places.fill_null(-1)).astype(np.int64)
