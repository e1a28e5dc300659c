"""The file of a result: one NetCDF file, written atomically and validated when read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xarray as xr

from crowdppl.errors import DataError, FileError
from crowdppl.files import atomic, require_disk_space
from crowdppl.isolation import preserved_warning_filters
from crowdppl.posterior.schema import validate

# Incremented with every change of the format that other versions cannot read.
FORMAT = 2
# Bytes of a file in addition to its arrays.
HEADERS = 2**18
# Bytes of a string in a file in addition to its text.
TEXT = 24


def write(tree: xr.DataTree, path: Path) -> None:
    """Write a result atomically: an interruption leaves the old file or the new one.

    Raises:
        FileError: if the file cannot be written.
    """
    # Compress integers (to about a tenth) but not draws, which hardly shrink and take most of the time.
    encoding = {
        f"/{group}": {
            name: {"zlib": True, "complevel": 1}
            for name, var in node.to_dataset(inherit=False).variables.items()
            if var.size > 1000 and var.dtype.kind in "iub"
        }
        for group, node in tree.children.items()
    }
    # A failed write crashes HDF5, and with it the process: check for disk space first.
    require_disk_space(path.parent, HEADERS + _size(tree), path.name)
    with atomic(path) as temporary:
        tree.to_netcdf(temporary, engine="h5netcdf", encoding=encoding)


def read(path: Path) -> xr.DataTree:
    """Read the file of a result and validate it, see :mod:`crowdppl.posterior.schema`.

    Raises:
        FileError: if the file is missing, damaged, of another kind, or of an earlier or later format.
    """
    if path.is_dir():
        raise FileError(f"{path} is a folder; name the file in it, such as {path / 'posterior.nc'}")
    if not path.is_file():
        raise FileError(f"no file {path}; check the name and the folder")
    try:
        # xarray adds a warning filter for every file it reads.
        with preserved_warning_filters(), xr.open_datatree(path, engine="h5netcdf") as opened:
            tree = opened.load()
            tree = tree.copy()
    except (OSError, ValueError, KeyError, RuntimeError, AttributeError, TypeError) as error:
        raise FileError(f"{path.name} is not a readable NetCDF file: {' '.join(str(error).split())[:120]}") from None
    written = tree.attrs.get("crowdppl_format")
    if written is None:
        raise FileError(f"{path.name} is a NetCDF file, but not one written by crowdppl")
    if not isinstance(written, (int, np.integer)):
        raise FileError(f"{path.name} is damaged or was changed: its format is {written!r}, not a number")
    if int(written) > FORMAT:
        raise FileError(f"{path.name} has format {written}, this crowdppl reads up to {FORMAT}; update crowdppl")
    if int(written) < FORMAT:
        raise FileError(
            f"{path.name} has format {written} of an earlier crowdppl, whose draws of the model and calibrated ones cannot be "
            f"told apart for every model; fit again"
        )
    try:
        validate(tree)
    except DataError as error:
        raise FileError(f"{path.name} is damaged or was changed: {error}; fit again, or restore a copy of it") from None
    return tree


def _size(tree: xr.DataTree) -> int:
    """Return an upper bound of the size of a result's file in bytes, including text, which arrays hold by reference."""
    total, texts = 0, dict[tuple[str, int], int]()
    for node in tree.subtree:
        for name, variable in node.to_dataset().variables.items():
            total += variable.nbytes
            if variable.dtype.kind == "O":
                kind = (str(name), variable.size)  # identifiers occur in several groups: measured once
                if kind not in texts:
                    texts[kind] = len("".join(map(str, variable.values.ravel())).encode("utf-8", "replace"))
                total += texts[kind] + TEXT * variable.size
    return total
