"""Groups of a NetCDF file, read and written by xarray with few look-ups in the file.

h5netcdf looks up the group or variable of every question it asks, hundreds of times for a file of forty variables: more than half
of the time of a small result. It also takes a file that h5py has opened, which here remembers what has been looked up.

The engine ``netcdf4`` of xarray, which is faster still, is no alternative. The wheels of netCDF4 and h5py each bring HDF5. Where
both bring the same version (h5py 3.11 and netCDF4 1.7.2; h5py 3.15.1 and netCDF4 1.7.3 or 1.7.4; Linux), the one that a process
imports second neither writes nor reads files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5netcdf
import h5py
import xarray as xr
from xarray.backends import H5NetCDFStore


class _Group(h5py.Group):  # type: ignore[misc]  # h5py has no types
    """A group of a file that looks up anew what has been deleted or moved in it.

    Attributes:
        known: what the file has looked up, by path; shared by its groups.
    """

    known: dict[str, Any]

    def __delitem__(self, name: Any) -> None:
        self.known.clear()
        super().__delitem__(name)

    def move(self, source: Any, dest: Any) -> None:
        self.known.clear()
        super().move(source, dest)


class _File(_Group, h5py.File):  # type: ignore[misc]
    """A file that looks up each group and variable once.

    Args:
        path: of the file.
        mode: ``"r"`` to read it, ``"w"`` to write it anew.
    """

    def __init__(self, path: Path, mode: str):
        self.known = {}
        # The order of creation is kept, as h5netcdf does with files that it opens itself.
        super().__init__(path, mode, **({} if mode == "r" else {"track_order": True}))

    def __getitem__(self, name: Any) -> Any:
        if not isinstance(name, str):  # a reference
            return super().__getitem__(name)
        if name not in self.known:
            one = super().__getitem__(name)
            if isinstance(one, h5py.Group):
                one = _Group(one.id)
                one.known = self.known
            self.known[name] = one
        return self.known[name]


@contextmanager
def opened(path: Path) -> Iterator[tuple[xr.Dataset, dict[str, xr.Dataset]]]:
    """Open the root of a file and its groups, not those within them, as xarray does: values are read when they are used.

    The file is open within the context.

    Raises:
        OSError: if it cannot be read, as HDF5 reports it; other errors of h5py and xarray for a damaged one.
    """
    with _File(path, "r") as stored, h5netcdf.File(stored, "r", phony_dims="access", decode_vlen_strings=True) as file:
        groups = {str(name): H5NetCDFStore(file, group=str(name)) for name in file.groups}
        # As xarray.open_dataset, without what it adds for other engines and files that stay open.
        yield xr.decode_cf(H5NetCDFStore(file)), {name: xr.decode_cf(store) for name, store in groups.items()}


def write(tree: xr.DataTree, path: Path, encoding: Mapping[str, Any]) -> None:
    """Write a tree as xarray does, without coordinates that groups inherit.

    Args:
        tree: of a root and groups.
        path: of a file, which is replaced.
        encoding: how variables are stored, by path of the group and name of the variable.
    """
    with _File(path, "w") as stored, h5netcdf.File(stored, "w") as file:
        for node in tree.subtree:
            store = H5NetCDFStore(file, group=None if node is tree else node.path, mode="a")
            node.to_dataset(inherit=False).dump_to_store(store, encoding=encoding.get(node.path))
