"""The file of a result: one NetCDF file, written atomically and validated when read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import xarray as xr

from crowdppl.errors import DataError, FileError, OptionError
from crowdppl.files import atomic, digests, require_disk_space
from crowdppl.isolation import preserved_warning_filters
from crowdppl.posterior import first_look, numeric_schema
from crowdppl.posterior.coded_draws import Coded, coded_variables
from crowdppl.posterior.compact import PACKED_FORMAT, compact, expand, form_of
from crowdppl.posterior.numeric_schema import is_numeric
from crowdppl.posterior.schema import DRAW, check_values, is_known, validate
from crowdppl.posterior.stored import Form, Source, StoredArray, require_memory
from crowdppl.posterior.stored import variable as stored_variable

Keep = Literal["small", "full"]
# Incremented with every change of the format that other versions cannot read. Small files have higher numbers.
FORMAT = 2
# The attribute of a file that ends in a seal, see crowdppl.files.digests. Earlier files have neither.
SEALED = "sealed"
# The attribute that tells results of judges from others, and its value.
KIND, JUDGES = "kind", "judges"
# Draws, and variables that not every result has, of at most this many bytes are read when a file is opened.
EAGER = 2**18
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
    tree = tree.copy(deep=False)
    tree.attrs = tree.attrs | {SEALED: 1}
    from crowdppl.posterior import netcdf  # here: a fit does not need it

    with atomic(path) as temporary:
        netcdf.write(tree, temporary, encoding)
        digests.seal(temporary)


def read(path: Path) -> xr.DataTree:
    """Read the file of a result and validate it, see :mod:`crowdppl.posterior.schema`.

    Nothing is read of a file whose content does not have the digest that was written with it: some damage ends HDF5, and with it
    the process. Draws of more than ``EAGER`` bytes, and other variables that not every result has, are read and validated when
    they are first used; the file is open only while it is read.

    Raises:
        FileError: if the file is missing, damaged, changed, of another kind or format, or larger than memory.
    """
    if path.is_dir():
        raise FileError(f"{path} is a folder; name the file in it, such as {path / 'posterior.nc'}")
    if not path.is_file():
        raise FileError(f"no file {path}; check the name and the folder")
    try:
        source, state = Source.of(path), digests.state(path)
        if state == "unsealed":
            first_look.check(path)
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}") from None
    if state == "changed":
        raise _changed(path)
    return opened(source, sealed=state == "intact")


def opened(source: Source, *, sealed: bool) -> xr.DataTree:
    """Open a file that does not end HDF5, see :func:`read`.

    Args:
        source: the file.
        sealed: whether it is as it was when it was sealed. A file that says that it is sealed has to be.
    """
    from crowdppl.posterior import netcdf  # here: a fit does not need it

    path = source.path
    waiting: dict[tuple[str, str], StoredArray] = {}
    sizes: dict[str, int] = {}
    try:
        require_memory(path.name, source.text_bytes())
        # xarray adds a warning filter for every file it reads.
        with preserved_warning_filters(), netcdf.opened(path) as (root, groups):
            _check_format(root.attrs, path.name)
            if SEALED in root.attrs and not sealed:
                raise _changed(path)
            if is_numeric(root):
                return _whole(root, groups, path, numeric_schema.validate)
            if root.attrs.get(KIND) == JUDGES:
                return _whole(root, groups, path)
            coded = coded_variables(root.attrs)
            require_memory(path.name, sum(_eager_bytes(name, group) for name, group in groups.items()))
            small = root.attrs.get("keep") == "small"
            precision = str(np.dtype(root.attrs["precision"])) if small else None
            stored = {
                name: _group(source, name, group, coded, precision, waiting, sizes) for name, group in groups.items()
            }
            groups = stored if precision is None else expand(stored, root.load())
            out = xr.DataTree.from_dict({f"/{name}": group for name, group in groups.items()})
            out.attrs = {
                name: value for name, value in root.attrs.items() if name not in ("coded", "precision", SEALED)
            }
    except FileError:
        raise
    except (OSError, ValueError, KeyError, RuntimeError, AttributeError, TypeError) as error:
        raise FileError(f"{path.name} is not a readable NetCDF file: {' '.join(str(error).split())[:120]}") from None
    try:
        sizes |= validate(out, waiting.keys())
    except DataError as error:
        raise damaged(path, error) from None
    return out


def _whole(
    root: xr.Dataset,
    groups: Mapping[str, xr.Dataset],
    path: Path,
    validated: Callable[[xr.DataTree], None] | None = None,
) -> xr.DataTree:
    """Return the tree of a result that is small and read at once.

    Args:
        root: of the file, as xarray opens it.
        groups: of the file.
        path: of the file.
        validated: raises ``DataError`` for a tree that cannot be used.

    Raises:
        FileError: if it is damaged.
    """
    require_memory(
        path.name, sum(variable.nbytes for group in groups.values() for variable in group.variables.values())
    )
    out = xr.DataTree.from_dict({f"/{name}": group.load() for name, group in groups.items()})
    out.attrs = {name: value for name, value in root.attrs.items() if name != SEALED}
    try:
        if validated is not None:
            validated(out)
    except DataError as error:
        raise damaged(path, error) from None
    return out


def damaged(path: Path, error: DataError) -> FileError:
    """Return the error for a file whose content cannot be used."""
    return FileError(f"{path.name} is damaged or was changed: {error}; fit again, or restore a copy of it")


def look(path: str) -> None:
    """Read everything in a file, in the process that takes a first look."""
    for node in opened(Source.of(Path(path)), sealed=False).subtree:
        for variable in node.to_dataset(inherit=False).variables.values():
            with suppress(FileError):  # reported when the variable is used; others are still to be looked at
                np.asarray(variable.values)


def _changed(path: Path) -> FileError:
    return FileError(
        f"{path.name} is damaged or was changed: its content does not have the digest that was written with it; fit again, or "
        f"restore a copy of it"
    )


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
    if int(written) > PACKED_FORMAT:
        raise FileError(f"{name} has format {written}, this crowdppl reads up to {PACKED_FORMAT}; update crowdppl")
    if int(written) < FORMAT:
        raise FileError(
            f"{name} has format {written} of an earlier crowdppl, whose draws of the model and calibrated ones cannot be "
            f"told apart for every model; fit again"
        )


def _group(
    source: Source,
    group: str,
    stored: xr.Dataset,
    coded: Mapping[str, Coded],
    precision: str | None,
    waiting: dict[tuple[str, str], StoredArray],
    sizes: Mapping[str, int],
) -> xr.Dataset:
    """Return a group of a file, large draws as arrays that are read later, which are added to ``waiting``.

    Args:
        source: the file.
        group: name of the group.
        stored: the group as xarray opens it.
        coded: how variables are coded in a file of format 3, by their paths.
        precision: type of draws in a small file; ``None`` in a full one.
        waiting: arrays that are read later, by group and name.
        sizes: lengths of axes, known by the time that the arrays are read.
    """
    own = {path.partition("/")[2]: one for path, one in coded.items() if path.partition("/")[0] == group}
    parts = {name + suffix for name, one in own.items() for suffix in one.form.suffixes}
    later: dict[str, tuple[tuple[str, ...], StoredArray]] = {}

    def add(name: str, dims: tuple[str, ...], shape: tuple[int, ...], dtype: Any, form: Form | None) -> None:
        check = partial(_check, group, name, sizes)
        waiting[group, name] = StoredArray(source, f"{group}/{name}", shape, dtype, form, check)
        later[name] = (dims, waiting[group, name])

    variables: dict[str, xr.Variable] = {}
    for name, one in own.items():
        add(name, one.dims, one.shape, one.dtype, one.form)
    for key, array in stored.data_vars.items():
        name, variable = str(key), array.variable
        if name in parts:
            continue
        dims = tuple(str(axis) for axis in variable.dims)
        form = None if precision is None else form_of(name, variable, precision)
        if form is not None:
            add(name, dims, variable.shape, precision, form)
        elif _is_read_later(group, name, variable):
            add(name, dims, variable.shape, variable.dtype, None)
        else:
            variables[name] = xr.Variable(variable.dims, variable.to_numpy(), variable.attrs)
    variables |= {name: stored_variable(dims, array) for name, (dims, array) in later.items()}
    names = {str(axis): xr.Variable(value.dims, value.to_numpy(), value.attrs) for axis, value in stored.coords.items()}
    return xr.Dataset(variables, coords=names, attrs=stored.attrs)


def _is_read_later(group: str, name: str, variable: xr.Variable) -> bool:
    """Tell whether a variable is read when it is first used: if it is large, and drawn or not of every result."""
    if variable.nbytes <= EAGER or variable.dtype.kind not in "fiub":
        return False
    return variable.dims[:2] == DRAW or not is_known(group, name)


def _eager_bytes(group: str, stored: xr.Dataset) -> int:
    """Return the bytes of the variables of a group that are read when a file is opened."""
    return sum(
        variable.nbytes
        for name, variable in stored.variables.items()
        if name in stored.coords or not _is_read_later(group, str(name), variable)
    )


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
