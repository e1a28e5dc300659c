"""The schema of a result's tree, validated once when a file is loaded."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from crowdppl.errors import DataError, listed

Array = npt.NDArray[Any]

DRAW = ("chain", "draw")
# Axes of the variables of every result, by group.
VARIABLES: dict[str, dict[str, tuple[str, ...]]] = {
    "posterior": {"prevalence": (*DRAW, "true_label"), "confusion": (*DRAW, "worker", "true_label", "given_label")},
    "sample_stats": {"lp": DRAW},
    "log_likelihood": {"labels": (*DRAW, "item")},
    "log_prior": {},  # a variable for each site; of earlier versions "parameters", all together
    "truth": {"probability": ("item", "true_label")},
    "observed_data": {"labels": ("annotation",)},
    "constant_data": {"item_index": ("annotation",), "worker_index": ("annotation",), "known_truth": ("item",)},
}
# Truths drawn stand beside the probabilities that they were drawn from: with a design effect among what is calibrated.
DRAWN = {"draw_of": (*DRAW, "item")}
CALIBRATED: dict[str, tuple[str, ...]] = {
    **VARIABLES["posterior"],
    **VARIABLES["truth"],
    **DRAWN,
    "rho": DRAW,
}
# What is kept of annotations that a fit did not count (:mod:`crowdppl.data.copies`): fields of annotations.
SET_ASIDE = ("item", "worker", "label", "timestamp", "seconds", "criterion")
# Axes of optional variables, by group.
OPTIONAL: dict[str, dict[str, tuple[str, ...]]] = {
    "posterior": {"other_rate": (*DRAW, "worker", "true_label", "answer")},
    "calibrated": {"class_weight": (*DRAW, "true_label")},
    "constant_data": {
        "timestamp": ("annotation",),
        "seconds": ("annotation",),
        "criterion_index": ("annotation",),
        "criterion_annotations": ("criterion",),
        "covariates": ("annotation", "covariate"),
        "aside_covariates": ("aside_annotation", "covariate"),
        "weight": ("item",),
        "sequence_index": ("item",),
        "position": ("item",),
        "sequence_length": ("sequence",),
        "set_label_votes": ("set_label",),
        **{f"other_{name}": ("other_annotation",) for name in ("item", "worker", "label")},
        **{f"aside_{name}": ("aside_annotation",) for name in SET_ASIDE},
    },
    "spans": dict.fromkeys(("first", "last", "type", "probability", "chosen"), ("span",)),
    "sets": {"probability": ("sequence",)},
}
# Groups that only some results have.
PARTS = ("spans", "sets")
# Index variables by group: the axis that they index, and their minimum.
INDICES = {
    ("constant_data", "item_index"): ("item", 0),
    ("constant_data", "worker_index"): ("worker", 0),
    ("constant_data", "known_truth"): ("true_label", -1),
    ("constant_data", "other_item"): ("item", 0),
    ("constant_data", "other_worker"): ("worker", 0),
    ("constant_data", "other_label"): ("answer", 0),
    ("constant_data", "aside_item"): ("item", 0),
    ("constant_data", "aside_worker"): ("worker", 0),
    ("constant_data", "aside_label"): ("true_label", 0),
    ("constant_data", "aside_criterion"): ("criterion", 0),
    ("constant_data", "criterion_index"): ("criterion", 0),
    ("constant_data", "sequence_index"): ("sequence", 0),
    ("spans", "first"): ("item", 0),
    ("spans", "last"): ("item", 0),
    ("spans", "type"): ("true_label", 0),
    ("observed_data", "labels"): ("true_label", 0),
    ("truth", "draw_of"): ("true_label", 0),
    ("calibrated", "draw_of"): ("true_label", 0),
}
# Distributions over their last axis.
DISTRIBUTIONS = (
    ("truth", "probability"),
    ("posterior", "prevalence"),
    ("posterior", "confusion"),
    ("posterior", "other_rate"),
    ("calibrated", "probability"),
    ("calibrated", "prevalence"),
    ("calibrated", "confusion"),
)
# Largest value of variables that are at least 0.
RANGES = {
    ("calibrated", "rho"): 1.0,
    ("calibrated", "class_weight"): np.inf,
    ("constant_data", "weight"): np.inf,
    ("spans", "probability"): 1.0,
    ("sets", "probability"): 1.0,
}
# Whole numbers that index nothing.
WHOLE = {
    *(("constant_data", name) for name in ("position", "sequence_length", "set_label_votes", "criterion_annotations")),
    ("spans", "chosen"),
}
# Variables without missing values.
NUMBERS = (("sample_stats", "lp"), ("log_likelihood", "labels"))
KINDS = ("posterior", "approximation", "point")
# Entries of the metadata of a run, and their types.
RUN: dict[str, type | tuple[type, ...]] = {
    "model": str,
    "method": str,
    "hyperparameters": dict,
    "options": dict,
    "seed": int,
    "counts": dict,
    "facts": dict,
    "seconds": (int, float),
}
# What a run tells of the correlation of errors where known true labels informed it; all of them numbers.
TRUTHS = ("items", "mean", "spread", "crowd_mean", "crowd_spread")
# Maximum deviation of a sum of probabilities from one by rounding, also in single precision.
ROUNDING = 1e-3
# Number of values checked at a time.
_BLOCK = 2**24


def _values(tree: xr.DataTree, group: str, name: str) -> np.ndarray[Any, Any]:
    return np.asarray(tree[group].to_dataset()[name].values)


def is_known(group: str, name: str) -> bool:
    """Return whether a variable is one that every result, or every calibrated one, may have."""
    known = VARIABLES | {"calibrated": CALIBRATED, "truth": VARIABLES["truth"] | DRAWN}
    return name in known.get(group, {}) or name in OPTIONAL.get(group, {})


def required(tree: xr.DataTree) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the axes of the variables that a tree must have, by group."""
    if "calibrated" in tree.children:
        own = VARIABLES["posterior"]
        if "posterior/confusion" in dropped(tree):
            own = {name: axes for name, axes in own.items() if name != "confusion"}
        return VARIABLES | {"posterior": own, "calibrated": CALIBRATED}
    return VARIABLES | {"truth": VARIABLES["truth"] | DRAWN}


def dropped(tree: xr.DataTree) -> list[str]:
    """Return the variables that a small file has left out, as paths in the tree.

    Raises:
        DataError: if the attribute is damaged.
    """
    return _names(tree, "dropped") or []


def viewed(tree: xr.DataTree) -> list[str] | None:
    """Return the variables of ``posterior`` that tables and plots show, as the model states them; ``None`` in earlier results.

    Raises:
        DataError: if the attribute is damaged.
    """
    return _names(tree, "viewed")


def _names(tree: xr.DataTree, attribute: str) -> list[str] | None:
    if attribute not in tree.attrs:
        return None
    names = _json(tree.attrs, attribute)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError(f"attribute {attribute!r} is not a list of variables")
    return names


def _has(tree: xr.DataTree, group: str, name: str) -> bool:
    return group in tree.children and name in tree[group].data_vars


def validate(tree: xr.DataTree, waiting: AbstractSet[tuple[str, str]] = frozenset()) -> dict[str, int]:
    """Check groups, axes, types, indices, probabilities and metadata of a result.

    Args:
        tree: the result.
        waiting: group and name of variables whose values are not read yet; they are checked when they are.

    Returns:
        The length of each axis.

    Raises:
        DataError: if the tree is invalid; the message is one line.
    """
    _check_groups(tree)
    sizes = _check_axes(tree)
    for group, name in (*INDICES, *DISTRIBUTIONS, *RANGES, *NUMBERS):
        if _has(tree, group, name) and (group, name) not in waiting:  # required ones are there: checked above
            check_values(group, name, _values(tree, group, name), sizes)
    for site in map(str, tree["log_prior"].data_vars):
        if ("log_prior", site) not in waiting:
            check_values("log_prior", site, _values(tree, "log_prior", site), sizes)
    if not bool((np.diff(_values(tree, "constant_data", "item_index")) >= 0).all()):
        raise DataError("constant_data/item_index is not ascending")
    _check_metadata(tree)
    _check_networks(tree)
    return sizes


def check_values(group: str, name: str, values: Array, sizes: Mapping[str, int]) -> None:
    """Check the values of a variable: indices, probabilities, numbers.

    Args:
        group: of the variable.
        name: of the variable.
        values: all of them.
        sizes: length of each axis.

    Raises:
        DataError: if they are invalid.
    """
    where, place = f"{group}/{name}", (group, name)
    if place in INDICES:
        axis, minimum = INDICES[place]
        if axis not in sizes:
            raise DataError(f"{where} numbers {axis}s, of which there are none")
        _check_indices(where, values, minimum, sizes[axis], axis)
    if place in DISTRIBUTIONS:
        _check_distribution(where, values)
    if place in RANGES:
        _check_range(where, values, RANGES[place])
    if (place in NUMBERS or group == "log_prior") and np.isnan(values).any():
        raise DataError(f"{where} contains NaN")


def _check_groups(tree: xr.DataTree) -> None:
    missing = [group for group in VARIABLES if group not in tree.children]
    if missing:
        raise DataError(
            f"the groups {listed(missing)} are missing" if missing[1:] else f"the group {listed(missing)} is missing"
        )
    absent = [
        f"{group}/{name}"
        for group, names in required(tree).items()
        for name in names
        if name not in tree[group].data_vars
    ]
    if absent:
        raise DataError(f"{', '.join(absent[:3])} {'are' if absent[1:] else 'is'} missing")


def _check_axes(tree: xr.DataTree) -> dict[str, int]:
    """Check the axes and types of all variables; return the length of each axis."""
    sizes: dict[str, int] = {}
    wanted = required(tree) | {group: OPTIONAL[group] for group in PARTS if group in tree.children}
    for group, names in wanted.items():
        present = names | {
            name: axes for name, axes in OPTIONAL.get(group, {}).items() if name in tree[group].data_vars
        }
        for name, axes in present.items():
            variable = tree[group][name]
            whole = (group, name) in INDICES or (group, name) in WHOLE
            if variable.dims != axes:
                raise DataError(f"{group}/{name} has axes {variable.dims}; they should be {axes}")
            if variable.dtype.kind not in ("iu" if whole else "f"):
                raise DataError(
                    f"{group}/{name} is of type {variable.dtype}; it should contain {'whole ' if whole else ''}numbers"
                )
            for axis, size in zip(axes, variable.shape, strict=True):
                if sizes.setdefault(axis, size) != size:
                    raise DataError(
                        f"{group}/{name} has {size:,} entries along {axis!r}, other variables {sizes[axis]:,}"
                    )
    if not tree["log_prior"].data_vars:
        raise DataError("the group log_prior is empty")
    for site, variable in tree["log_prior"].data_vars.items():
        lengths = dict(zip(variable.dims, variable.shape, strict=True))
        if variable.dims[:2] != DRAW or any(sizes.get(str(axis), size) != size for axis, size in lengths.items()):
            raise DataError(f"log_prior/{site} has axes {variable.dims} of {variable.shape}; draws come first")
    if sizes["true_label"] != sizes["given_label"]:
        raise DataError(f"there are {sizes['true_label']:,} classes, but labels of {sizes['given_label']:,}")
    for axis in ("chain", "draw", "true_label", "worker", "item"):
        if not sizes[axis]:
            raise DataError(f"there is no {axis}")
    for group, axis in (
        ("truth", "item"),
        ("posterior", "worker"),
        ("posterior", "true_label"),
        ("truth", "true_label"),
    ):
        if axis not in tree[group].coords:
            raise DataError(f"{group} has no names for {'classes' if axis == 'true_label' else f'{axis}s'}")
        if not tree[group].indexes[axis].is_unique:
            raise DataError(f"{group}: two {'classes' if axis == 'true_label' else f'{axis}s'} have the same name")
    return sizes


def _check_indices(where: str, values: Array, minimum: int, size: int, axis: str) -> None:
    if not values.size:
        return
    low, high = int(values.min()), int(values.max())
    if low < minimum or high >= size:
        what = "classes" if axis == "true_label" else f"{axis}s"
        wrong = low if low < minimum else high
        raise DataError(f"{where} contains {wrong:,}; indices of {size:,} {what} run from {minimum} to {size - 1:,}")


def _blocks(values: Array) -> Callable[[], Any]:
    rows = values.reshape(-1, values.shape[-1]) if values.ndim else values.reshape(1, 1)
    step = max(1, _BLOCK // max(1, rows.shape[-1]))
    return lambda: (rows[start : start + step] for start in range(0, len(rows), step))


def _check_range(where: str, values: Array, most: float) -> None:
    for part in _blocks(values)():
        if not bool(((part >= -ROUNDING) & (part <= most + ROUNDING)).all()):
            wrong = part[~((part >= -ROUNDING) & (part <= most + ROUNDING))][0]
            raise DataError(
                f"{where} contains {wrong:g}; it should contain numbers {'from 0 to 1' if most == 1 else 'of at least 0'}"
            )


def _check_distribution(where: str, values: Array) -> None:
    _check_range(where, values, 1.0)
    for part in _blocks(values)():
        total = part.sum(-1)
        if not bool((np.abs(total - 1) <= ROUNDING).all()):
            raise DataError(f"{where}: probabilities sum to {total[np.abs(total - 1).argmax()]:g}, not to 1")


def _check_metadata(tree: xr.DataTree) -> None:
    attributes = tree.attrs
    if attributes.get("kind") not in KINDS:
        raise DataError(f"attribute 'kind' is {attributes.get('kind')!r}; it should be one of {listed(KINDS)}")
    if not isinstance(attributes.get("interval_method"), str):
        raise DataError("attribute 'interval_method' is missing")
    for name in ("warnings", "notes"):
        sentences = _json(attributes, name)
        if not isinstance(sentences, list) or not all(isinstance(sentence, str) for sentence in sentences):
            raise DataError(f"attribute {name!r} is not a list of sentences")
    viewed(tree)
    run = _json(attributes, "run")
    if not isinstance(run, dict):
        raise DataError("attribute 'run' does not contain the metadata of a run")
    for key, kind in RUN.items():
        if not isinstance(run.get(key), kind) or isinstance(run[key], bool):
            raise DataError(f"attribute 'run' has no valid {key!r}")
    rho = run.get("rho")
    if rho is not None and (not isinstance(rho, dict) or not {"mean", "spread", "known"} <= set(rho)):
        raise DataError("attribute 'run' has no valid 'rho'")
    residual = run.get("residual_rho")
    if residual is not None and not (
        isinstance(residual, list) and len(residual) == 2 and all(map(_is_number, residual))
    ):
        raise DataError("attribute 'run' has no valid 'residual_rho'")
    truths = None if rho is None else rho.get("truths")
    if truths is not None and not (isinstance(truths, dict) and all(_is_number(truths.get(key)) for key in TRUTHS)):
        raise DataError("attribute 'run' has no valid 'truths' of 'rho'")
    weights = [] if rho is None else rho.get("log_class_weights", [])
    if not (isinstance(weights, list) and all(map(_is_number, weights))):
        raise DataError("attribute 'run' has no valid 'log_class_weights' of 'rho'")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and bool(np.isfinite(value))


def _json(attributes: Mapping[Any, Any], name: str) -> Any:
    try:
        return json.loads(attributes[name])
    except KeyError:
        raise DataError(f"attribute {name!r} is missing") from None
    except (TypeError, ValueError, RecursionError):
        raise DataError(f"attribute {name!r} is not JSON") from None


def _check_networks(tree: xr.DataTree) -> None:
    if "networks" not in tree.children:
        return
    import safetensors.torch  # here: slow to import

    packed = tree["networks"].data_vars.get("safetensors")
    try:
        if packed is None or packed.ndim != 1:
            raise ValueError
        safetensors.torch.load(packed.values.astype(np.uint8).tobytes())
    except (ValueError, TypeError, KeyError, safetensors.SafetensorError):
        raise DataError("networks/safetensors does not contain the weights of networks") from None
