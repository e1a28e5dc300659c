"""The schema of a result's tree where labels are numbers, checked when a file is loaded."""

from __future__ import annotations

import json

import numpy as np
import xarray as xr

from crowdppl.errors import DataError

DRAW = ("chain", "draw")
READINGS = ("consensus", "fair_average", "true_number")
# What is known of each reading of a truth, as endings of the names of variables.
PARTS = ("", "_sd", "_relative", "_relative_sd")
VARIABLES: dict[str, dict[str, tuple[str, ...]]] = {
    "posterior": {
        **dict.fromkeys(("mean", "truth_sd", "bias_sd", "noise_sd", "noise_df"), DRAW),
        **dict.fromkeys(("bias", "slope", "sd"), (*DRAW, "worker")),
    },
    "truth": {f"{name}{part}": ("item",) for name in READINGS[:2] for part in PARTS},
    "observed_data": {"labels": ("annotation",)},
    "constant_data": {"item_index": ("annotation",), "worker_index": ("annotation",), "known_truth": ("item",)},
}
# Variables that may be missing in part.
GAPS = {("constant_data", "known_truth")}


def is_numeric(tree: xr.DataTree | xr.Dataset) -> bool:
    """Return whether a tree, or its root, is of a result whose labels are numbers."""
    return tree.attrs.get("labels_kind") == "numeric"


def validate(tree: xr.DataTree) -> None:
    """Check groups, axes and values of a tree.

    Raises:
        DataError: for the first thing that is wrong.
    """
    for group, variables in VARIABLES.items():
        if group not in tree.children:
            raise DataError(f"it lacks the group {group}")
        node = tree.children[group].to_dataset(inherit=False)
        for name, dims in variables.items():
            if name not in node:
                raise DataError(f"{group} lacks {name}")
            if node[name].dims != dims:
                raise DataError(f"{group}/{name} has the axes {node[name].dims}, not {dims}")
            if (group, name) not in GAPS and not np.isfinite(node[name].to_numpy()).all():
                raise DataError(f"{group}/{name} has values that are missing or infinite")
    constant = tree.children["constant_data"].to_dataset(inherit=False)
    posterior = tree.children["posterior"].to_dataset(inherit=False)
    if "weight" in posterior:
        if posterior["weight"].dims != (*DRAW, "feature"):
            raise DataError(f"posterior/weight has the axes {posterior['weight'].dims}, not {(*DRAW, 'feature')}")
        for name in ("feature_mean", "feature_sd"):
            if name not in constant or constant[name].shape != (posterior.sizes["feature"],):
                raise DataError(f"constant_data lacks {name} of {posterior.sizes['feature']:,} features")
    for name, axis, group in (("item_index", "item", "truth"), ("worker_index", "worker", "posterior")):
        index, size = constant[name].to_numpy(), tree.children[group].sizes[axis]
        if index.dtype.kind not in "iu" or len(index) == 0 or index.min() < 0 or index.max() >= size:
            raise DataError(f"constant_data/{name} is no index of {size:,} {axis}s")
    for name in ("warnings", "notes", "run"):
        try:
            json.loads(tree.attrs[name])
        except (KeyError, TypeError, ValueError):
            raise DataError(f"the attribute {name} is missing or damaged") from None
