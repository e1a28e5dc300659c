"""Arrays of a file that are read when they are first used."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from xarray.backends import BackendArray
from xarray.core.indexing import ExplicitIndexer, IndexingSupport, LazilyIndexedArray, explicit_indexing_adapter

from crowdppl.errors import DataError, FileError
from crowdppl.isolation.memory import available_bytes

Array = npt.NDArray[Any]

# How NetCDF describes an axis without names.
_NO_NAMES = b"This is a netCDF dimension but not a netCDF variable"
# HDF5 handles one call at a time.
_LOCK = threading.RLock()


@dataclass(frozen=True)
class Form:
    """How a file holds a variable that is not stored as it is.

    Attributes:
        suffixes: of the variables of the file that hold it; empty for its own name.
        decode: returns its values from theirs; a ``ValueError`` says that they do not belong together.
    """

    suffixes: tuple[str, ...]
    decode: Callable[..., Array]


@dataclass(frozen=True)
class Source:
    """A file as it was when it was opened. It is open only while something is read, so that it can be moved or replaced.

    Attributes:
        path: where it was.
        mark: its identity, size and time of change.
    """

    path: Path
    mark: tuple[int, ...]

    @classmethod
    def of(cls, path: Path) -> Source:
        """Return the source of an existing file."""
        path = path.absolute()
        return cls(path, _mark(path))

    def text_bytes(self) -> int:
        """Return the bytes of the names along all axes, and of texts by reference, which xarray reads as it opens the file.

        Raises:
            OSError: if the file cannot be read.
        """
        import h5py  # here: a fit does not need it

        sizes: list[int] = []

        def add(_: str, stored: Any) -> None:
            if not isinstance(stored, h5py.Dataset):
                return
            names = h5py.h5ds.is_scale(stored.id) and not h5py.h5ds.get_scale_name(stored.id).startswith(_NO_NAMES)
            if names or stored.dtype.kind == "O":
                sizes.append(stored.nbytes)

        with h5py.File(self.path, "r") as file:
            file.visititems(add)
        return sum(sizes)

    def read(self, names: tuple[str, ...]) -> list[Array]:
        """Return variables of the file by their paths in it.

        Raises:
            FileError: if the file is gone, was replaced, or is damaged.
        """
        import h5py  # here: a fit does not need it

        name = self.path.name
        again = f"load it again, or read all at once: posterior = crowdppl.load({name!r}); posterior.tree.load()"
        try:
            if _mark(self.path) != self.mark:
                raise FileError(f"{name} was replaced or changed after it was loaded; {again}")
            with h5py.File(self.path, "r") as file:
                require_memory(name, sum(file[each].nbytes for each in names))
                return [np.asarray(file[each][...]) for each in names]
        except FileNotFoundError:
            raise FileError(f"{name} is no longer in {self.path.parent}, where it was loaded; {again}") from None
        except (OSError, KeyError, RuntimeError, ValueError) as error:
            if isinstance(error, FileError):
                raise
            raise FileError(f"{name} cannot be read: {' '.join(str(error).split())[:120]}") from None


def require_memory(name: str, size: int) -> None:
    """Check that an array that is stored in a few bytes, because it is compressed or damaged, fits into memory.

    Raises:
        FileError: if there is not enough memory.
    """
    left = available_bytes()
    if size > left:
        raise FileError(
            f"{name} takes {size / 2**30:,.1f} GiB of memory, and {left / 2**30:,.1f} GiB are left; it may be damaged, "
            f"else load it on a larger machine"
        )


def _mark(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


class StoredArray(BackendArray):
    """A variable of a file: read, decoded and checked when it is first used, and held from then on.

    Args:
        source: the file.
        name: path of the variable in the file, without suffixes.
        shape: of the variable.
        dtype: of the variable.
        form: how the file holds it, if not as it is.
        check: raises a ``DataError`` for values that are not valid.
    """

    def __init__(
        self,
        source: Source,
        name: str,
        shape: tuple[int, ...],
        dtype: Any,
        form: Form | None,
        check: Callable[[Array], None],
    ):
        self.shape, self.dtype = shape, np.dtype(dtype)
        self._source, self._name, self._form, self._check = source, name, form, check
        self._values: Array | None = None

    @property
    def is_read(self) -> bool:
        """Whether the values have been read."""
        return self._values is not None

    def values(self) -> Array:
        """Return all values.

        Raises:
            FileError: if the file is gone, was replaced, or is damaged.
        """
        with _LOCK:
            if self._values is None:
                self._values = self._read()
            return self._values

    def _read(self) -> Array:
        file = self._source.path.name
        if self._form is None:
            (values,) = self._source.read((self._name,))
        else:
            parts = self._source.read(tuple(self._name + suffix for suffix in self._form.suffixes))
            require_memory(file, 2 * math.prod(self.shape) * np.dtype(np.float64).itemsize)
            try:
                values = self._form.decode(*parts)
            except ValueError as error:
                raise FileError(f"{file} is damaged or was changed: {self._name}: {error}; fit again") from None
        try:
            self._check(values)
        except DataError as error:
            raise FileError(f"{file} is damaged or was changed: {error}; fit again, or restore a copy of it") from None
        return values

    def __getitem__(self, key: ExplicitIndexer) -> Any:
        """Return a part of the values, as xarray asks for it."""
        return explicit_indexing_adapter(key, self.shape, IndexingSupport.BASIC, lambda at: self.values()[at])

    def __deepcopy__(self, memo: Any) -> StoredArray:
        """Return the array itself: it stands for values in a file."""
        return self

    def __reduce__(self) -> Any:
        """Pickle the values: another process may not see the file."""
        return _held, (self.values(),)


def _held(values: Array) -> StoredArray:
    """Return an array that holds its values."""
    out = StoredArray(Source(Path(), ()), "", values.shape, values.dtype, None, lambda _: None)
    out._values = values
    return out


def variable(dims: tuple[str, ...], array: StoredArray) -> xr.Variable:
    """Return a variable of xarray whose values are read when they are first used."""
    return xr.Variable(dims, LazilyIndexedArray(array))
