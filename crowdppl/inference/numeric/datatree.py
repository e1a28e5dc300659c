"""The result of a fit to numbers as an ``xarray.DataTree``, in the units of the labels."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
import torch
import xarray as xr
from torch import Tensor

from crowdppl.data.numeric import NumericAnnotations
from crowdppl.inference.numeric.draws import STORED, NumericDraws, blocks
from crowdppl.inference.numeric.network import NAME, Network
from crowdppl.kernels.linear_gaussian import log_marginal
from crowdppl.model.numeric import StandardLabels
from crowdppl.models.linear_gaussian import random_probability
from crowdppl.posterior.io import FORMAT
from crowdppl.posterior.numeric_schema import PARTS

_DRAW = ("chain", "draw")
# With fewer draws a leave-one-out estimate is too rough to be stored.
FEWEST = 100


def in_units(samples: Mapping[str, Tensor], data: StandardLabels) -> dict[str, Tensor]:
    """Return draws in units of the labels.

    Args:
        samples: sites on the standard scale, ``(chains, draws, ...)``.
        data: the labels on the standard scale.
    """
    unit, mean = data.unit, samples["mean"]
    slope = samples.get("slope", torch.ones_like(samples["intercept"]))
    out = {
        "mean": data.centre + unit * mean,
        "truth_sd": unit * samples["truth_sd"],
        "bias_sd": unit * samples["bias_sd"],
        "noise_sd": unit * samples["noise_variance"].sqrt(),
        "noise_df": samples["noise_df"],
        "bias": unit * (samples["intercept"] - mean.unsqueeze(-1)),
        "slope": slope,
        "sd": unit * samples["variance"].sqrt(),
    }
    if "slope_sd" in samples:
        out |= {"slope_sd": samples["slope_sd"], "random_share": samples["random_share"]}
        out["at_random"] = random_probability(slope, samples["slope_sd"], samples["random_share"])
    if "weight" in samples:
        out |= {"weight_sd": unit * samples["weight_sd"], "weight": unit * samples["weight"]}
    if data.has_reference:
        steep = samples.get("reference_slope", torch.ones_like(mean))
        out |= {
            "reference_bias": unit * (samples["reference_intercept"] - mean),
            "reference_slope": steep,
            "reference_sd": unit * samples["reference_variance"].sqrt(),
        }
    return out


def log_likelihood(draws: NumericDraws, data: StandardLabels) -> Tensor | None:
    """Return the log density of each item's labels in their units, ``(chains, draws, N)``; ``None`` where it is not affordable.

    Labels at the ends of a bounded scale have no density; there is none then either.
    """
    if data.ends is not None or draws.kind == "point":
        return None
    chains, count = draws.samples["mean"].shape
    step = max(1, -(-(chains * count * data.items) // STORED))
    samples = {name: value[:, step - 1 :: step] for name, value in draws.samples.items()}
    kept = samples["mean"].shape[1]
    if chains * kept < min(FEWEST, chains * count):
        return None
    crowd = data.without_reference()  # known true numbers are not labels
    samples = {name: value for name, value in samples.items() if not name.startswith("reference_")}
    parts = [
        log_marginal(
            crowd.tables, crowd.per_item, one.intercept, one.slope, one.variance, one.truth_sd, one.centre(crowd)
        )
        for one in blocks(samples, crowd)
    ]
    value = torch.cat(parts, -1).T - crowd.per_item.squeeze(-1) * float(np.log(data.unit))
    return value.view(chains, kept, data.items)


def to_datatree(
    data: NumericAnnotations,
    standard: StandardLabels,
    draws: NumericDraws,
    *,
    run: Mapping[str, Any],
    notes: Sequence[str],
    network: Network | None = None,
) -> xr.DataTree:
    """Lay out the result of a fit, see :class:`crowdppl.posterior.numbers.NumericPosterior`."""
    values = in_units(draws.samples, standard)
    chains, count = values["mean"].shape
    workers, items = (pd.Index(part, dtype=part.dtype) for part in (data.workers, data.items))
    chain = pd.RangeIndex(chains)
    constant = {"item_index": data.item, "worker_index": data.worker}
    of_items = {"known_truth": (("item",), data.truth.cpu().numpy())}
    coords: dict[str, Any] = {"chain": chain, "draw": pd.RangeIndex(count), "worker": workers}
    if standard.features is not None:
        names = data.feature_names or tuple(f"feature {d + 1}" for d in range(data.D))
        names = names if network is None else (*names, NAME)
        coords["feature"] = pd.Index(names, dtype=object)
        for name in ("feature_mean", "feature_sd"):
            of_items[name] = (("feature",), getattr(standard, name).cpu().numpy())
    groups = {
        "posterior": xr.Dataset(_by_axes(values), coords=coords),
        "truth": xr.Dataset(_truths(draws, standard), coords={"item": items}),
        "sample_stats": xr.Dataset({"trace": (("iteration",), np.asarray(draws.trace, dtype=float))}),
        "observed_data": xr.Dataset({"labels": (("annotation",), data.value.cpu().numpy())}),
        "constant_data": xr.Dataset(
            {name: (("annotation",), value.cpu().numpy()) for name, value in constant.items()} | of_items,
            coords={"item": items},
        ),
    }
    likelihood = log_likelihood(draws, standard)
    if likelihood is not None:
        kept = pd.RangeIndex(likelihood.shape[1])
        groups["log_likelihood"] = xr.Dataset(
            {"labels": ((*_DRAW, "item"), likelihood.cpu().numpy())},
            coords={"chain": chain, "draw": kept, "item": items},
        )
    if network is not None:
        groups["network"] = network.dataset()
    tree = xr.DataTree.from_dict({f"/{name}": group for name, group in groups.items()})
    tree.attrs = {
        "crowdppl_format": FORMAT,
        "labels_kind": "numeric",
        "item_column": data.item_column,
        "repeats": data.repeats,
        "scale": json.dumps(data.scale),
        "kind": draws.kind,
        "interval_method": draws.interval_method,
        "warnings": json.dumps(draws.warnings),
        "notes": json.dumps([*data.notes, *notes]),
        "run": json.dumps(run),
    }
    for group in tree.children.values():
        group.attrs = {"inference_library": "crowdppl", "inference_library_version": version("crowdppl")}
    return tree


def _by_axes(values: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return draws of sites with their axes."""
    return {
        name: (
            (*_DRAW, "feature" if name == "weight" else "worker") if value.dim() == 3 else _DRAW,
            value.cpu().numpy(),
        )
        for name, value in values.items()
    }


def _truths(draws: NumericDraws, standard: StandardLabels) -> dict[str, Any]:
    """Return the mean and spread of each item's truth in the units of the labels."""
    truth: dict[str, Any] = {}
    for name, moments in draws.moments.result().items():
        number = moments.cpu().numpy() * standard.unit
        number[0] += standard.centre
        truth |= {f"{name}{part}": (("item",), value) for part, value in zip(PARTS, number, strict=True)}
    return truth
