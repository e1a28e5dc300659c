"""The small form of a result's file: which draws it keeps, and how they are coded.

Most of a result are draws: of confusion matrices twice, of parameters of single workers and items, and of the log-likelihood of
every item. The small form keeps what tables and reports show, what ``next``, ``check`` and ``update`` need, and what ArviZ needs
for summaries and leave-one-out prediction:

- draws of the confusion matrices that are reported, as whole numbers on a scale of square roots (:func:`encode_distributions`);
- log-likelihoods of items, in steps of 1/24 of the standard deviation over the draws of an item (:func:`encode_logs`);
- drawn truths, in bits (:func:`encode_indices`);
- of other draws of single workers and items, those of the model that is not reported included, two hundred in the group
  ``thinned``, where predictive checks draw labels from them; none where there is a mode (``point``), from which they draw.

Other draws are stored in single precision. Arrays of at most ``SMALL`` values are stored as they are, so that a small result
loses nothing, and so is everything that is not drawn.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

Array = npt.NDArray[Any]

# The version of the format with coded draws; files without any are written in the earlier one.
CODED_FORMAT = 3
DRAW = ("chain", "draw")
# Draws of at most this many values are stored as they are.
SMALL = 10_000
# Square roots of probabilities are stored in steps of 1 / ROOTS: an error of at most sqrt(p) / ROOTS.
ROOTS = 1280
# A code of 0 stands for this probability, the middle of its interval on the scale of square roots.
FLOOR = (0.25 / ROOTS) ** 2
# Steps of log-likelihoods per standard deviation over the draws of an item.
STEPS = 24
# Range over draws below which log-likelihoods of an item are one number.
CONSTANT = 1e-9
# Draws kept of parameters of single workers and items, where labels are replicated from draws: as many as a check replicates.
THINNED = 200
# Bits of the mantissa of these parameters.
MANTISSA = 12
# Draws of parameters of single workers that views of workers read.
VIEWED = ("common_share", "membership", "other_rate", "worker_embedding")
# Suffixes of what an encoded variable consists of.
CODES, OMITTED, CENTRE, STEP, RANKED = "_codes", "_omitted", "_centre", "_step", "_ranked"
# Numbers in one chunk of the file, at least.
_CHUNK = 2**16
# Values encoded or decoded at a time.
_BLOCK = 2**22
# Fractional parts of its multiples are spread evenly: it separates values of one code.
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class Coded:
    """A variable that a file holds in codes.

    Attributes:
        kind: ``distributions``, ``logs`` or ``indices``.
        dims: its axes.
        shape: its shape.
        dtype: its type.
    """

    kind: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str

    @property
    def parts(self) -> tuple[str, ...]:
        """Suffixes of the variables that hold it."""
        return {"distributions": (CODES, OMITTED), "logs": (CODES, CENTRE, STEP), "indices": (CODES, RANKED)}[self.kind]

    def decoded(self, *parts: Array) -> Array:
        """Return the values.

        Raises:
            ValueError: if the parts do not belong together.
        """
        decode: dict[str, Callable[..., Array]] = {
            "distributions": decode_distributions,
            "logs": decode_logs,
            "indices": decode_indices,
        }
        return decode[self.kind](*parts, self.shape, self.dtype)


# ---------------------------------------------------------------------- codes


def encode_distributions(values: Array) -> tuple[Array, Array]:
    """Encode probabilities ``(..., K)`` that sum to one, with draws on the first two axes: ``(C, D, ..., K)``.

    The probability that is largest on average follows from the others and is omitted. The error of the others is at most
    ``sqrt(p) / 1280``, and relative to small ones small, so that log-odds and information keep their precision.

    Returns:
        Square roots in steps of ``1 / ROOTS``, ``(cells, S)``, and the index omitted, ``(...)``.
    """
    K = values.shape[-1]
    flat = values.reshape(values.shape[0] * values.shape[1], -1, K)  # (S, R, K)
    S, R, _ = flat.shape
    codes = np.empty((R, K - 1, S), dtype=np.uint16)
    omitted = np.empty(R, dtype=np.uint16)
    step = max(1, _BLOCK // (S * K))
    for start in range(0, R, step):
        part = slice(start, start + step)
        omitted[part] = flat[:, part].mean(0).argmax(-1)
        others = np.take_along_axis(flat[:, part], _others(omitted[part], K)[None], -1)  # (S, r, K - 1)
        codes[part] = np.rint(ROOTS * np.sqrt(np.clip(others, 0, 1))).transpose(1, 2, 0)
    return codes.reshape(-1, S), omitted.reshape(values.shape[2:-1])


def decode_distributions(codes: Array, omitted: Array, shape: tuple[int, ...], dtype: str) -> Array:
    """Return the probabilities that :func:`encode_distributions` has encoded."""
    K = shape[-1]
    S, R = shape[0] * shape[1], omitted.size
    if codes.shape != (R * (K - 1), S) or omitted.shape != shape[2:-1] or (omitted >= K).any() or (codes > ROOTS).any():
        raise ValueError("codes of probabilities that do not belong together")
    roots = np.arange(ROOTS + 1) / ROOTS
    probability = np.maximum(roots**2, FLOOR)
    codes, others = codes.reshape(R, K - 1, S), _others(omitted.reshape(-1), K)
    out = np.empty((S, R, K), dtype=dtype)
    step = max(1, _BLOCK // (S * K))
    for start in range(0, R, step):
        part = slice(start, start + step)
        p = probability[codes[part]]  # (r, K - 1, S)
        rest = np.maximum(1 - p.sum(1), FLOOR)
        total = p.sum(1) + rest
        rows = np.arange(len(p))
        block = np.empty((len(p), K, S))
        block[rows[:, None], others[part]] = p / total[:, None]
        block[rows, omitted.reshape(-1)[part]] = rest / total
        out[:, part] = block.transpose(2, 0, 1)
    return out.reshape(shape)


def _others(omitted: Array, K: int) -> Array:
    """Return the indices from 0 to ``K - 1`` without the one omitted, ``(R, K - 1)``."""
    others = np.arange(K - 1)[None, :]
    return np.asarray(others + (others >= omitted[:, None]))


def encode_logs(values: Array) -> tuple[Array, Array, Array]:
    """Encode log-likelihoods ``(C, D, N)`` in steps that are a power of two, near 1/24 of the standard deviation over draws.

    Returns:
        Differences from the centre in steps, with the sign in the lowest bit, ``(N, S)``; the centre and the step of each item.
        The step is 0 for an item whose draws are all equal.
    """
    S, N = values.shape[0] * values.shape[1], values.shape[2]
    flat = values.reshape(S, N)
    codes, centre, step = np.zeros((N, S), dtype=np.uint16), np.empty(N), np.zeros(N)
    size = max(1, _BLOCK // S)
    for start in range(0, N, size):
        part = slice(start, start + size)
        block = flat[:, part].astype(np.float64)
        spread = np.ptp(block, axis=0)
        varies = spread > CONSTANT
        middle = np.median(block, axis=0)
        each = 2.0 ** np.rint(np.log2(np.where(varies, block.std(0) / STEPS, 1.0)))
        # A difference of 2**14 steps and its sign fit into a code.
        each = np.maximum(each, 2.0 ** np.ceil(np.log2(np.where(varies, spread, 1.0) / 2**14)))
        middle = np.where(varies, each * np.rint(middle / each), middle)
        signed = np.where(varies, np.rint((block - middle) / each), 0).astype(np.int64)
        codes[part] = np.where(signed < 0, -2 * signed - 1, 2 * signed).T
        centre[part], step[part] = middle, np.where(varies, each, 0)
    return codes, centre, step


def decode_logs(codes: Array, centre: Array, step: Array, shape: tuple[int, ...], dtype: str) -> Array:
    """Return the log-likelihoods that :func:`encode_logs` has encoded.

    Values are spread evenly over the interval of their code, the same way every time: smoothed importance sampling, which fits a
    distribution to the smallest ones, fails where many are equal.
    """
    S, N = shape[0] * shape[1], shape[2]
    if codes.shape != (N, S) or centre.shape != (N,) or step.shape != (N,):
        raise ValueError("codes of log-likelihoods that do not belong together")
    out = np.empty((S, N), dtype=dtype)
    size = max(1, _BLOCK // S)
    for start in range(0, N, size):
        part = slice(start, start + size)
        block = codes[part].astype(np.int64)
        signed = np.where(block & 1, -(block + 1) // 2, block // 2)
        place = S * np.arange(start, start + len(block))[:, None] + np.arange(1, S + 1)
        within = (place * _GOLDEN) % 1 - 0.5
        out[:, part] = (centre[part, None] + step[part, None] * (signed + within)).T
    return out.reshape(shape)


def encode_indices(values: Array) -> tuple[Array, Array]:
    """Encode drawn indices ``(C, D, N)``: the place of each among those of its item, most frequent first, bit by bit.

    Returns:
        The bits of the places, eight draws to a byte, ``(bits, N, bytes)``, and the indices of each item by place, ``(N, K)``.
    """
    S, N, K = values.shape[0] * values.shape[1], values.shape[2], int(values.max()) + 1
    flat = values.reshape(S, N)
    bits = max(1, (K - 1).bit_length())
    codes = np.empty((bits, N, -(-S // 8)), dtype=np.uint8)
    ranked = np.empty((N, K), dtype=np.min_scalar_type(K))
    size = max(1, _BLOCK // max(S, K))
    for start in range(0, N, size):
        block = np.ascontiguousarray(flat[:, start : start + size].T).astype(np.int64)  # (n, S)
        rows = np.arange(len(block))[:, None]
        counts = np.bincount((rows * K + block).reshape(-1), minlength=len(block) * K).reshape(-1, K)
        order = np.argsort(-counts, axis=1, kind="stable")
        ranked[start : start + size] = order
        place = np.empty_like(order)
        place[rows, order] = np.arange(K)
        places = place[rows, block]
        for bit in range(bits):
            codes[bit, start : start + size] = np.packbits(((places >> bit) & 1).astype(np.uint8), axis=1)
    return codes, ranked


def decode_indices(codes: Array, ranked: Array, shape: tuple[int, ...], dtype: str) -> Array:
    """Return the indices that :func:`encode_indices` has encoded."""
    S, N, K = shape[0] * shape[1], shape[2], ranked.shape[-1]
    if codes.shape != (max(1, (K - 1).bit_length()), N, -(-S // 8)) or len(ranked) != N:
        raise ValueError("codes of indices that do not belong together")
    out = np.empty((S, N), dtype=dtype)
    size = max(1, _BLOCK // S)
    for start in range(0, N, size):
        part = slice(start, start + size)
        places = np.zeros((len(ranked[part]), S), dtype=np.int64)
        for bit, code in enumerate(codes):
            places |= np.unpackbits(code[part], axis=1, count=S).astype(np.int64) << bit
        if (places >= K).any():
            raise ValueError("codes of indices that are not there")
        out[:, part] = np.take_along_axis(ranked[part], places, 1).T
    return out.reshape(shape)


def rounded(values: Array) -> Array:
    """Return values in single precision with ``MANTISSA`` bits, which compress well; positive ones stay positive."""
    mantissa, exponent = np.frexp(values)
    scale = 2.0 ** (MANTISSA + 1)
    out = np.ldexp(np.rint(mantissa * scale) / scale, exponent).astype(np.float32)
    tiny = np.finfo(np.float32).tiny
    return np.where((values > 0) & (out < tiny), tiny, out)


# ---------------------------------------------------------------------- the tree


def compact(tree: xr.DataTree) -> tuple[xr.DataTree, dict[str, dict[str, dict[str, Any]]]]:
    """Return a result in the small form, and how its variables are stored: encoding by group and variable."""
    groups = {str(name): node.to_dataset(inherit=False) for name, node in tree.children.items()}
    dropped: list[str] = json.loads(tree.attrs.get("dropped", "[]"))
    coded: dict[str, dict[str, Any]] = {}
    fewer = {} if "point" in groups or "thinned" in groups else _thin(groups["posterior"])
    lost = [
        name
        for name, variable in groups["posterior"].data_vars.items()
        if variable.size > SMALL and not _needed(str(name), variable, "calibrated" in groups)
    ]
    groups["posterior"] = groups["posterior"].drop_vars(lost)
    dropped += [f"posterior/{name}" for name in lost]
    if lost and fewer:
        groups["thinned"] = xr.Dataset(fewer)
    for group, name, kind in (
        ("posterior", "confusion", "distributions"),
        ("calibrated", "confusion", "distributions"),
        ("thinned", "confusion", "distributions"),
        ("log_likelihood", "labels", "logs"),
        ("truth", "draw_of", "indices"),
        ("calibrated", "draw_of", "indices"),
    ):
        variable = groups[group].data_vars.get(name) if group in groups else None
        if variable is None or not _can_be_coded(variable, kind):
            continue
        groups[group] = groups[group].drop_vars(name).assign(_encoded(name, kind, variable.variable))
        coded[f"{group}/{name}"] = {
            "kind": kind,
            "dims": variable.dims,
            "shape": variable.shape,
            "dtype": str(variable.dtype),
        }
    if not coded and not lost:
        return tree, {}
    if "thinned" in groups:
        groups["thinned"] = groups["thinned"].assign(
            {
                name: (variable.dims, rounded(variable.values))
                for name, variable in groups["thinned"].data_vars.items()
                if variable.dtype.kind == "f" and variable.dims[:2] == DRAW
            }
        )
    precision = str(groups["posterior"]["prevalence"].dtype)
    groups["posterior"] = groups["posterior"].assign(
        {
            str(name): variable.astype(np.float32)
            for name, variable in groups["posterior"].data_vars.items()
            if variable.size > SMALL and variable.dtype == np.float64 and variable.dims[:2] == DRAW
        }
    )
    groups = {name: _without_names(name, group) for name, group in groups.items()}
    small = xr.DataTree.from_dict({f"/{name}": group for name, group in groups.items()})
    small.attrs = tree.attrs | {
        "crowdppl_format": max(CODED_FORMAT, tree.attrs["crowdppl_format"]),
        "keep": "small",
        "coded": json.dumps(coded),
        "dropped": json.dumps(dropped),
        "precision": precision,
    }
    for name, node in tree.children.items():
        small[str(name)].attrs = node.attrs
    return small, {f"/{name}": _encoding(group) for name, group in groups.items()}


def expand(groups: Mapping[str, xr.Dataset], precision: str) -> dict[str, xr.Dataset]:
    """Return the groups of a small file as a result has them.

    Args:
        groups: as stored: with the names of items and workers once, and some draws in single precision.
        precision: type of draws.

    Raises:
        TypeError: for a precision that is not a type.
    """
    kind = np.dtype(precision)
    homes = {
        axis: groups[home][axis] for axis, home in _HOMES.items() if home in groups and axis in groups[home].coords
    }
    out = {}
    for name, group in groups.items():
        absent = {
            axis: names.variable
            for axis, names in homes.items()
            if axis in group.dims and axis not in group.coords and group.sizes[axis] == names.size
        }
        out[name] = group.assign_coords(absent) if absent else group
    for name in {"posterior", "thinned"} & out.keys():
        single = {
            variable: values.astype(kind)
            for variable, values in out[name].data_vars.items()
            if values.dtype == np.float32 and values.dims[:2] == DRAW
        }
        out[name] = out[name].assign(single)
    return out


# Groups that hold the names of items and workers.
_HOMES = {"item": "truth", "worker": "posterior"}


def _needed(name: str, variable: xr.DataArray, calibrated: bool) -> bool:
    """Tell whether the small form keeps all draws of a variable of ``posterior``."""
    if name == "confusion":
        return not calibrated
    return name in VIEWED or not {"worker", "item"} & set(variable.dims)


def _thin(posterior: xr.Dataset) -> dict[str, Any]:
    """Return evenly spaced draws of all variables, those of all chains as one."""
    count = posterior.sizes["chain"] * posterior.sizes["draw"]
    chosen = np.linspace(0, count - 1, min(count, THINNED)).astype(np.int64)
    return {
        str(name): (variable.dims, np.asarray(variable.values).reshape(count, *variable.shape[2:])[chosen][None])
        for name, variable in posterior.data_vars.items()
        if variable.dims[:2] == DRAW
    }


def _can_be_coded(variable: xr.DataArray, kind: str) -> bool:
    if variable.size <= SMALL or variable.ndim < 3 or (kind == "distributions" and variable.shape[-1] < 2):
        return False
    return kind == "indices" or bool(np.isfinite(variable.values).all())


def _encoded(name: str, kind: str, variable: xr.Variable) -> dict[str, Any]:
    values = np.asarray(variable.values)
    if kind == "distributions":
        codes, omitted = encode_distributions(values)
        return {
            name + CODES: ((f"{name}_cell", "sample"), codes),
            name + OMITTED: (variable.dims[2:-1], omitted),
        }
    if kind == "logs":
        axes = (variable.dims[2], "sample")
        parts = encode_logs(values)
        return {
            name + suffix: (axes[: part.ndim], part) for suffix, part in zip((CODES, CENTRE, STEP), parts, strict=True)
        }
    codes, ranked = encode_indices(values)
    axis = variable.dims[2]
    return {name + CODES: (("bit", axis, "byte"), codes), name + RANKED: ((axis, "place"), ranked)}


def _without_names(name: str, group: xr.Dataset) -> xr.Dataset:
    """Return a group without the names of items and workers that another group holds."""
    return group.drop_vars(
        [axis for axis, home in _HOMES.items() if home != name and axis in group.coords and group.sizes[axis] > 100]
    )


def _encoding(group: xr.Dataset) -> dict[str, dict[str, Any]]:
    """Return how the variables of a group are stored: compressed, numbers of an item side by side."""
    out: dict[str, dict[str, Any]] = {}
    for name, variable in group.variables.items():
        if variable.dtype.kind not in "iufb" or variable.size <= 100:
            continue
        out[str(name)] = {"zlib": True, "complevel": 6, "shuffle": True}
        if str(name).endswith(CODES):
            *outer, rows, samples = variable.shape
            rows = min(rows, max(64, _CHUNK // samples))
            out[str(name)]["chunksizes"] = (*(1 for _ in outer), rows, samples)
    return out
