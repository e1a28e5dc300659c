"""The file of a result: one NetCDF file, written atomically and validated when read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import xarray as xr

from crowdppl.errors import DataError, FileError, OptionError
from crowdppl.files import atomic, require_disk_space
from crowdppl.isolation import preserved_warning_filters
from crowdppl.posterior.compact import CODED_FORMAT, DRAW, Coded, compact, expand
from crowdppl.posterior.schema import check_values, validate
from crowdppl.posterior.stored import Source, StoredArray
from crowdppl.posterior.stored import variable as stored_variable

Keep = Literal["small", "full"]
# Incremented with every change of the format that other versions cannot read. Files with coded draws have the next number.
FORMAT = 2
# Draws of at most this many bytes are read when a file is opened.
EAGER = 2**20
# Bytes of a file in addition to its arrays.
HEADERS = 2**18
# Bytes of a string in a file in addition to its text.
TEXT = 24


def write(tree: xr.DataTree, path: Path, keep: Keep = "small") -> None:
    """Write a result atomically: an interruption leaves the old file or the new one.

    Args:
        tree: the result.
        path: of the file.
        keep: ``"small"`` for what views need, see :mod:`crowdppl.posterior.compact`, or ``"full"`` for everything as it is.

    Raises:
        FileError: if the file cannot be written.
        OptionError: for ``keep="full"`` of a result that was read from a small file.
    """
    if keep == "full" and tree.attrs.get("keep") == "small":
        raise OptionError(
            "keep='full': this result was loaded from a small file, which lacks some draws; fit again and save that result"
        )
    if path.exists():
        tree.load()  # the file may be the one that the tree is read from
    if keep == "small":
        tree, encoding = compact(tree)
    if keep == "full" or not encoding:
        # Compress integers (to about a tenth) but not draws, which hardly shrink and take most of the time.
        encoding = {
            f"/{group}": {
                str(name): {"zlib": True, "complevel": 1}
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

    Draws of more than ``EAGER`` bytes are read and validated when they are first used; the file is open only while it is read.

    Raises:
        FileError: if the file is missing, damaged, of another kind, or of an earlier or later format.
    """
    if path.is_dir():
        raise FileError(f"{path} is a folder; name the file in it, such as {path / 'posterior.nc'}")
    if not path.is_file():
        raise FileError(f"no file {path}; check the name and the folder")
    waiting: dict[tuple[str, str], StoredArray] = {}
    sizes: dict[str, int] = {}
    try:
        source = Source.of(path)
        # xarray adds a warning filter for every file it reads.
        with preserved_warning_filters(), xr.open_datatree(path, engine="h5netcdf") as opened:
            _check_format(opened.attrs, path.name)
            coded = _coded(opened.attrs)
            stored = {
                str(name): _group(source, str(name), node.to_dataset(inherit=False), coded, waiting, sizes)
                for name, node in opened.children.items()
            }
            small = opened.attrs.get("keep") == "small"
            groups = expand(stored, str(opened.attrs["precision"])) if small else stored
            tree = xr.DataTree.from_dict({f"/{name}": group for name, group in groups.items()})
            tree.attrs = {name: value for name, value in opened.attrs.items() if name not in ("coded", "precision")}
    except FileError:
        raise
    except (OSError, ValueError, KeyError, RuntimeError, AttributeError, TypeError) as error:
        raise FileError(f"{path.name} is not a readable NetCDF file: {' '.join(str(error).split())[:120]}") from None
    try:
        sizes |= validate(tree, waiting.keys())
    except DataError as error:
        raise FileError(f"{path.name} is damaged or was changed: {error}; fit again, or restore a copy of it") from None
    return tree


def _check_format(attributes: Mapping[Any, Any], name: str) -> None:
    """Refuse files of others, and formats that this version does not read.

    Raises:
        FileError: for such a file.
    """
    written = attributes.get("crowdppl_format")
    if written is None:
        raise FileError(f"{name} is a NetCDF file, but not one written by crowdppl")
    if not isinstance(written, (int, np.integer)):
        raise FileError(f"{name} is damaged or was changed: its format is {written!r}, not a number")
    if int(written) > CODED_FORMAT:
        raise FileError(f"{name} has format {written}, this crowdppl reads up to {CODED_FORMAT}; update crowdppl")
    if int(written) < FORMAT:
        raise FileError(
            f"{name} has format {written} of an earlier crowdppl, whose draws of the model and calibrated ones cannot be "
            f"told apart for every model; fit again"
        )


def _coded(attributes: Mapping[Any, Any]) -> dict[str, Coded]:
    """Return how the variables of a file are coded, by their paths.

    Raises:
        ValueError: if the attribute is damaged.
    """
    stored = json.loads(attributes.get("coded", "{}"))
    return {
        path: Coded(str(one["kind"]), tuple(one["dims"]), tuple(int(n) for n in one["shape"]), str(one["dtype"]))
        for path, one in stored.items()
    }


def _group(
    source: Source,
    group: str,
    stored: xr.Dataset,
    coded: Mapping[str, Coded],
    waiting: dict[tuple[str, str], StoredArray],
    sizes: Mapping[str, int],
) -> xr.Dataset:
    """Return a group of a file, large draws as arrays that are read later, which are added to ``waiting``.

    Args:
        source: the file.
        group: name of the group.
        stored: the group as xarray opens it.
        coded: how variables are coded, by their paths.
        waiting: arrays that are read later, by group and name.
        sizes: lengths of axes, known by the time that the arrays are read.
    """
    own = {path.partition("/")[2]: one for path, one in coded.items() if path.partition("/")[0] == group}
    parts = {name + suffix for name, one in own.items() for suffix in one.parts}
    later: dict[str, tuple[tuple[str, ...], StoredArray]] = {}

    def add(name: str, dims: tuple[str, ...], shape: tuple[int, ...], dtype: Any, one: Coded | None) -> None:
        check = partial(_check, group, name, sizes)
        waiting[group, name] = StoredArray(source, f"{group}/{name}", shape, dtype, one, check)
        later[name] = (dims, waiting[group, name])

    variables: dict[str, xr.Variable] = {}
    for name, one in own.items():
        add(name, one.dims, one.shape, one.dtype, one)
    for key, array in stored.data_vars.items():
        name, variable = str(key), array.variable
        if name in parts:
            continue
        if variable.dims[:2] == DRAW and variable.nbytes > EAGER and variable.dtype.kind in "fiu":
            add(name, tuple(str(axis) for axis in variable.dims), variable.shape, variable.dtype, None)
        else:
            variables[name] = xr.Variable(variable.dims, variable.to_numpy(), variable.attrs)
    variables |= {name: stored_variable(dims, array) for name, (dims, array) in later.items()}
    names = {str(axis): xr.Variable(value.dims, value.to_numpy(), value.attrs) for axis, value in stored.coords.items()}
    return xr.Dataset(variables, coords=names, attrs=stored.attrs)


def _check(group: str, name: str, sizes: Mapping[str, int], values: npt.NDArray[Any]) -> None:
    """Check values that are read later, see :func:`crowdppl.posterior.schema.check_values`."""
    check_values(group, name, values, sizes)


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
