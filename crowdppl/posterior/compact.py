"""The small form of a result's file: which draws it keeps, and how they are stored.

Most of a result are draws: of confusion matrices twice, of parameters of single workers and items, and of the log-likelihood of
every item. The small form keeps what tables and reports show, what ``next``, ``check`` and ``update`` need, and what ArviZ needs
for summaries and leave-one-out prediction:

- draws of the confusion matrices that are reported, in whole numbers of two bytes (:func:`packed`);
- log-likelihoods of items, in single precision and in steps of 1/256 of their standard deviation (:func:`rounded_logs`);
- drawn truths, compressed; the log prior of each site, of all workers or items together;
- of parameters of single workers and items all draws that tables and plots show, which the model states
  (:attr:`crowdppl.AnnotationModel.viewed`), and which stand in the attribute ``viewed`` of the tree;
- of other draws of single workers and items, those of the model that is not reported included, two hundred in the group
  ``thinned``, where predictive checks draw labels from them; none where there is a mode (``point``), from which they draw.

Whole numbers are packed by the conventions for climate and forecast metadata (CF 1.11, section 8.1): ``scale_factor``,
``add_offset`` and ``_FillValue`` are attributes of the variable, so that xarray, ArviZ and every other reader of NetCDF see the
values. Identifiers of items and workers stand once, in the root of the file, from which groups inherit them.

Other draws are stored in single precision. Arrays of at most ``SMALL`` values are stored as they are, so that a small result
loses nothing, and so is everything that is not drawn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from crowdppl.posterior.schema import DRAW, viewed
from crowdppl.posterior.stored import Form

Array = npt.NDArray[Any]

# The version of the format with packed draws; files without any are written in the earlier one.
PACKED_FORMAT = 4
# Draws of at most this many values are stored as they are.
SMALL = 10_000
# The code of a missing value, and the number of the others.
FILL = 2**16 - 1
# Steps of probabilities from 0 to 1. Those of 0 are FLOOR when they are read, which has a logarithm.
PROBABILITY_STEP = 1 / (FILL - 1)
FLOOR = 1e-7
# Steps of log-likelihoods per standard deviation over the draws of an item: so many that hardly any draws become equal, since
# smoothed importance sampling, which fits a distribution to the smallest ones, fails where many are.
STEPS = 256
# Draws kept of parameters of single workers and items, where labels are replicated from draws: as many as a check replicates.
THINNED = 200
# Bits of the mantissa of these parameters.
MANTISSA = 12
# Axes whose names stand in the root of the file, and the group that has them in a result.
NAMED = {"item": "truth", "worker": "posterior"}
# Numbers in one chunk of the file.
_CHUNK = 2**16
# Values packed at a time.
_BLOCK = 2**22


# ---------------------------------------------------------------------- packing


def packed(values: Array, step: float, offset: float) -> Array:
    """Return the nearest whole numbers of steps from ``offset``, of two bytes: values within half a step.

    Args:
        values: of any shape; NaN becomes :data:`FILL`.
        step: between neighbouring numbers.
        offset: the value of 0. Values below it and above ``offset + (FILL - 1) * step`` become the nearest end.
    """
    out = np.empty(values.shape, dtype=np.uint16)
    flat, whole = values.reshape(-1), out.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        with np.errstate(invalid="ignore"):
            codes = np.clip(np.rint((flat[part].astype(np.float64) - offset) / step), 0, FILL - 1)
        whole[part] = np.where(np.isnan(codes), FILL, codes)
    return out


def unpacked(codes: Array, *, step: float, offset: float, dtype: str, sum_to_one: bool) -> Array:
    """Return the values that :func:`packed` has packed.

    Args:
        codes: whole numbers.
        step: between neighbouring numbers.
        offset: the value of 0.
        dtype: of the values.
        sum_to_one: for probabilities, whether they are at least :data:`FLOOR`, and those along the last axis sum to one.
    """
    values = codes.astype(np.float64)
    values[codes == FILL] = np.nan
    values *= step
    values += offset
    if sum_to_one:
        np.maximum(values, FLOOR, out=values)
        values /= values.sum(-1, keepdims=True)
    return values.astype(dtype, copy=False)


def form_of(name: str, variable: xr.Variable, precision: str) -> Form | None:
    """Return how a small file holds a variable if it is packed or in single precision.

    Args:
        name: of the variable.
        variable: as xarray opens it.
        precision: type of draws.

    Raises:
        ValueError: if its scale is not a positive number.
    """
    stored = variable.encoding
    if "scale_factor" not in stored or "add_offset" not in stored:
        single = variable.dtype == np.float32 and variable.dims[:2] == DRAW
        return Form(("",), partial(np.asarray, dtype=precision)) if single else None
    step, offset = float(stored["scale_factor"]), float(stored["add_offset"])
    if not (0 < step < np.inf and np.isfinite(offset)):
        raise ValueError(f"{name} has the scale {step} and the offset {offset}")
    return Form(("",), partial(unpacked, step=step, offset=offset, dtype=precision, sum_to_one=name == "confusion"))


def rounded_logs(values: Array) -> Array:
    """Return log-likelihoods ``(C, D, N)`` in single precision, rounded to steps that compress well.

    Steps are powers of two near 1/256 of the standard deviation over the draws of an item.
    """
    out = np.empty(values.shape, dtype=np.float32)
    size = max(1, _BLOCK // (values.shape[0] * values.shape[1]))
    for start in range(0, values.shape[2], size):
        block = values[..., start : start + size].astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            step = 2.0 ** np.rint(np.log2(block.std((0, 1)) / STEPS))  # (n,)
            varies = np.isfinite(step) & (step > 0)
            out[..., start : start + size] = np.where(varies, np.rint(block / step) * step, block)
    return out


def rounded(values: Array) -> Array:
    """Return values in single precision with ``MANTISSA`` bits, which compress well; positive ones stay positive."""
    mantissa, exponent = np.frexp(values)
    scale = 2.0 ** (MANTISSA + 1)
    out = np.ldexp(np.rint(mantissa * scale) / scale, exponent).astype(np.float32)
    tiny = np.finfo(np.float32).tiny
    return np.where((values > 0) & (out < tiny), tiny, out)


def _stored(group: str, name: str, variable: xr.Variable) -> xr.Variable:
    """Return draws as a small file holds them."""
    values, attributes = np.asarray(variable.values), dict(variable.attrs)
    if (variable.size <= SMALL and name == "confusion") or variable.dtype.kind != "f":
        return variable
    if name == "confusion":
        values = packed(values, PROBABILITY_STEP, 0.0)
        attributes |= {"scale_factor": PROBABILITY_STEP, "add_offset": 0.0, "_FillValue": np.uint16(FILL)}
    elif group == "log_likelihood" and variable.ndim == 3:
        values = rounded_logs(values)
    elif group == "thinned":
        values = rounded(values)
    elif group == "posterior":
        values = values.astype(np.float32)
    return xr.Variable(variable.dims, values, attributes)


# ---------------------------------------------------------------------- the tree


def compact(tree: xr.DataTree) -> tuple[xr.DataTree, dict[str, dict[str, dict[str, Any]]]]:
    """Return a result in the small form, and how its variables are stored: encoding by group and variable."""
    groups = {str(name): node.to_dataset(inherit=False) for name, node in tree.children.items()}
    dropped: list[str] = json.loads(tree.attrs.get("dropped", "[]"))
    fewer = {} if "point" in groups or "thinned" in groups else _thin(groups["posterior"])
    shown = viewed(tree)
    lost = [
        name
        for name, variable in groups["posterior"].data_vars.items()
        if variable.size > SMALL and not _needed(str(name), variable, shown, "calibrated" in groups)
    ]
    groups["log_prior"] = _summed(groups["log_prior"])
    large = {
        (group, str(name)): variable.variable
        for group, part in groups.items()
        for name, variable in part.data_vars.items()
        if variable.size > SMALL and variable.dims[:2] == DRAW and not (group == "posterior" and name in lost)
    }
    if not large and not lost and tree.attrs.get("keep") != "small":
        return tree, {}
    precision = str(groups["posterior"]["prevalence"].dtype)
    groups["posterior"] = groups["posterior"].drop_vars(lost)
    dropped += [f"posterior/{name}" for name in lost]
    if lost and fewer:
        groups["thinned"] = xr.Dataset(fewer)
        large |= {("thinned", str(name)): variable.variable for name, variable in groups["thinned"].data_vars.items()}
    for (group, name), variable in large.items():
        groups[group] = groups[group].assign({name: _stored(group, name, variable)})
    names = {
        axis: groups[home][axis].variable
        for axis, home in NAMED.items()
        if home in groups and axis in groups[home].coords
    }
    groups = {name: group.drop_vars(names.keys() & group.coords.keys()) for name, group in groups.items()}
    small = xr.DataTree.from_dict({"/": xr.Dataset(coords=names)} | {f"/{name}": part for name, part in groups.items()})
    small.attrs = tree.attrs | {
        "crowdppl_format": max(PACKED_FORMAT, tree.attrs["crowdppl_format"]),
        "keep": "small",
        "dropped": json.dumps(dropped),
        "precision": precision,
    }
    for name, node in tree.children.items():
        small[str(name)].attrs = node.attrs
    return small, {f"/{name}": _encoding(group) for name, group in groups.items()}


def expand(groups: Mapping[str, xr.Dataset], root: xr.Dataset) -> dict[str, xr.Dataset]:
    """Return the groups of a small file with the names of items and workers.

    Args:
        groups: as stored: without these names, or (format 3) with them in one group.
        root: the root of the file, with the names since format 4.
    """
    homes = {
        axis: home[axis]
        for axis, name in NAMED.items()
        if axis in (home := root if axis in root.coords else groups.get(name, root)).coords
    }
    out = {}
    for name, group in groups.items():
        absent = {
            axis: names.variable
            for axis, names in homes.items()
            if axis not in group.coords and (NAMED[axis] == name or group.sizes.get(axis) == names.size)
        }
        out[name] = group.assign_coords(absent) if absent else group
    return out


def _summed(log_prior: xr.Dataset) -> xr.Dataset:
    """Return the log priors of sites, those of many workers or items as their sum."""
    each = {
        name: [axis for axis in variable.dims if axis not in DRAW] for name, variable in log_prior.data_vars.items()
    }
    return log_prior.assign(
        {name: log_prior[name].sum(axes) for name, axes in each.items() if axes and log_prior[name].size > SMALL}
    )


def _needed(name: str, variable: xr.DataArray, shown: list[str] | None, calibrated: bool) -> bool:
    """Tell whether the small form keeps all draws of a variable of ``posterior``.

    Args:
        name: of the variable.
        variable: its draws.
        shown: names of those that views show. Results of earlier versions do not say (``None``): all draws of workers are kept.
        calibrated: whether calibrated confusion matrices are reported.
    """
    if name == "confusion":
        return not calibrated
    if shown is None:
        return "item" not in variable.dims
    return name in shown or not {"worker", "item"} & set(variable.dims)


def _thin(posterior: xr.Dataset) -> dict[str, Any]:
    """Return evenly spaced draws of all variables, those of all chains as one."""
    count = posterior.sizes["chain"] * posterior.sizes["draw"]
    chosen = np.linspace(0, count - 1, min(count, THINNED)).astype(np.int64)
    return {
        str(name): (variable.dims, np.asarray(variable.values).reshape(count, *variable.shape[2:])[chosen][None])
        for name, variable in posterior.data_vars.items()
        if variable.dims[:2] == DRAW
    }


def _encoding(group: xr.Dataset) -> dict[str, dict[str, Any]]:
    """Return how the variables of a group are stored: compressed, the draws of a number in one chunk."""
    out: dict[str, dict[str, Any]] = {}
    for name, variable in group.variables.items():
        if variable.dtype.kind not in "iufb" or variable.size <= 100:
            continue
        out[str(name)] = {"zlib": True, "complevel": 6, "shuffle": True}
        if variable.dims[:2] == DRAW and variable.size > SMALL:
            out[str(name)]["chunksizes"] = _chunks(variable.shape)
    return out


def _chunks(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a chunk: all draws of a chain, and as many numbers of the last axes as fit."""
    draws = min(shape[1], _CHUNK)
    left, sizes = _CHUNK // draws, list[int]()
    for size in reversed(shape[2:]):
        sizes.append(max(1, min(size, left)))
        left //= sizes[-1]
    return 1, draws, *reversed(sizes)
