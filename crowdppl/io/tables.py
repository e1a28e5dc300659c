"""Tables on disk: CSV and Parquet, with identifiers kept as they are written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet

from crowdppl.errors import FileError

MISSING = ["", "nan", "NaN"]
_INTEGER = re.compile(r"-?[1-9][0-9]{0,17}|0")


def read_csv(path: str | Path) -> pd.DataFrame:
    """Read a CSV file without guessing at identifiers.

    A column becomes integers only where every value present is written as an integer would be (no leading zeros, no plus
    sign), else it stays strings: ``007`` is not ``7``. Blank cells and ``nan`` are missing, nothing else is.

    Raises:
        FileError: where there is no such file, or it is empty, broken or not CSV.
    """
    path = _existing(path)
    try:
        # utf-8-sig: spreadsheets write a byte-order mark, which must not become part of the first column's name.
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, na_values=MISSING, encoding="utf-8-sig")
    except pd.errors.EmptyDataError:
        raise FileError(f"{path.name} is empty; it needs a header and a row for each judgement") from None
    except UnicodeDecodeError as error:
        raise FileError(f"{path.name} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except (pd.errors.ParserError, EOFError, OSError, ValueError) as error:
        raise FileError(f"{path.name} cannot be read as CSV: {_one_line(error)}") from None
    # A row with more cells than the header would become an index without a word.
    if not isinstance(frame.index, pd.RangeIndex):
        raise FileError(f"{path.name}: rows have more cells than the header; name every column, or quote commas")
    return frame.apply(whole_numbers)


def read_parquet(path: str | Path) -> pd.DataFrame:
    """Read a Parquet file.

    Raises:
        FileError: where there is no such file or it is not Parquet.
    """
    path = _existing(path)
    try:
        return pyarrow.parquet.read_table(path).to_pandas()
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise FileError(f"{path.name} cannot be read as Parquet: {_one_line(error)}") from None


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a table by its ending: ``.parquet`` or ``.pq``, else CSV."""
    parquet = Path(path).suffix.lower() in (".parquet", ".pq")
    return read_parquet(path) if parquet else read_csv(path)


def whole_numbers(column: pd.Series[Any]) -> pd.Series[Any]:
    present = column.dropna()
    if len(present) == 0 or not all(map(_INTEGER.fullmatch, pd.unique(present))):
        return column
    out = pd.Series(pd.NA, index=column.index, dtype="Int64")
    out[present.index] = present.to_numpy(dtype=object).astype(np.int64)
    return out


def _existing(path: str | Path) -> Path:
    path = Path(path)
    if not path.exists():
        raise FileError(f"no file {path}; check the name and the folder")
    if path.is_dir():
        raise FileError(f"{path} is a folder; name the file in it")
    return path


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
