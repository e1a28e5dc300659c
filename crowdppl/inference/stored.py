"""What a result keeps of its fit, as it went into it: the annotations and the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch
import xarray as xr
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.data.covariates import recipe_of
from crowdppl.data.table.other_labels import OtherLabels
from crowdppl.errors import ModelError, OptionError
from crowdppl.inference.catalogue import named_model
from crowdppl.inference.fit import without_copies
from crowdppl.inference.options import OPTIONS, taken_apart
from crowdppl.model.base import AnnotationModel
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.schema import SET_ASIDE
from crowdppl.posterior.workers import other_rates


def data_of(posterior: Posterior, *, aside: bool = False) -> Annotations:
    """Return the annotations a result was fitted to, as it keeps them: without features.

    Args:
        posterior: a result.
        aside: whether to return also those of copies, which the fit did not count.

    Raises:
        ModelError: where the model has networks of features.
    """
    if "networks" in posterior.tree.children:
        raise ModelError("the annotations had features, which a result does not keep; pass data=")
    constant = posterior.tree["constant_data"].to_dataset()
    rows: dict[str, Any] = _rows(posterior, constant, aside=aside)
    if "covariates" in rows:
        known = posterior.info["covariates"]
        mean, scale = torch.tensor(known["scales"], dtype=torch.float64).T
        rows |= named_covariates(known) | {"standard_covariates": (rows.pop("covariates") - mean) / scale}
    if "other_item" in constant:
        codes = [constant[f"other_{name}"].to_numpy().astype(np.int64) for name in ("item", "worker", "label")]
        item_code, worker_code, code = (torch.from_numpy(part) for part in codes)
        rows["others"] = OtherLabels(item_code, worker_code, code, other_rates.names(posterior))
    data = Annotations(
        truth=torch.from_numpy(posterior.known_truth().astype(np.int64)),
        items=posterior.items(),
        workers=posterior.worker_names(),
        labels=posterior.labels,
        item_column=posterior.item_column,
        repeats=posterior.tree.attrs.get("repeats", "keep"),
        kind=posterior.tree.attrs.get("labels_kind") or None,
        labels_declared=posterior.graded,  # grades that are words have an order that was stated
        criteria=constant["criterion"].to_numpy() if "criterion" in rows else None,
        criterion_column=posterior.tree.attrs.get("criterion_column", "criterion"),
        **rows,
    )
    if "position" not in constant:
        return data
    names, which = constant["sequence"].to_numpy(), constant["sequence_index"].to_numpy()
    labels = posterior.set_labels()
    if labels is not None:
        return data._in_sets(names[which], constant["position"].to_numpy(), labels)
    return data.with_sequences(
        pd.DataFrame({"task": data.items, "sequence": names[which], "position": constant["position"].to_numpy()})
    )


def _rows(posterior: Posterior, constant: xr.Dataset, *, aside: bool) -> dict[str, Tensor]:
    """Return what a result keeps of single annotations and items, by field; ``covariates`` are in their own units."""
    names, index = ("item", "worker", "label"), posterior.annotation_index()
    rows = {name: torch.from_numpy(part.astype(np.int64)) for name, part in zip(names, index, strict=True)}
    besides = ("weight", "timestamp", "seconds", "covariates")
    rows |= {name: torch.from_numpy(constant[name].to_numpy()) for name in besides if name in constant}
    if "criterion_index" in constant:
        rows["criterion"] = torch.from_numpy(constant["criterion_index"].to_numpy().astype(np.int64))
    return _with_aside(constant, rows) if aside and "aside_item" in constant else rows


def _with_aside(constant: xr.Dataset, fields: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return fields of annotations, those that copies have too joined with theirs and sorted by item, the others unchanged."""
    together = {
        name: torch.cat([own, torch.from_numpy(constant[f"aside_{name}"].to_numpy().astype(own.numpy().dtype))])
        for name, own in fields.items()
        if name in (*SET_ASIDE, "covariates") and f"aside_{name}" in constant
    }
    order = together["item"].argsort(stable=True)
    return {**fields, **{name: value[order] for name, value in together.items()}}


def reads_covariates(posterior: Posterior) -> bool:
    """Return whether the model of a fit reads covariates of annotations."""
    return bool(posterior.info.get("reads", {}).get("covariates", False))


def named_covariates(known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the names and scales of covariates, as the description of a fit has them."""
    return {
        "covariate_names": tuple(known["names"]),
        "covariate_scales": tuple((mean, scale) for mean, scale in known["scales"]),
        "covariate_baselines": tuple(known["baselines"]),
        "covariate_values": tuple(map(tuple, known["values"])),
        "covariate_recipe": recipe_of(known.get("recipe")),
    }


def counted(posterior: Posterior, data: Annotations | None) -> Annotations:
    """Return the annotations that a fit counted: of ``data``, those that were fitted, or as the result keeps them.

    Raises:
        ModelError: where the model has networks of features, and ``data`` is ``None``.
    """
    if data is None:
        return data_of(posterior)
    data = data.to("cpu")
    aside = posterior.info["counts"].get("set_aside")
    return without_copies(data, posterior.info["copies"])[0] if aside else data


def rebuilt(posterior: Posterior) -> AnnotationModel:
    """Return the model of a result, by its name and hyperparameters.

    Raises:
        ModelError: where it is not of the zoo, or had a network of its own.
    """
    info = posterior.info
    try:
        kind = type(named_model(info["model"]))
    except OptionError:
        raise ModelError(f"the model {info['model']} is not in the zoo; pass model=, the one that was fitted") from None
    if isinstance(info["hyperparameters"].get("network"), str):
        raise ModelError(f"{info['model']} was fitted with a network of its own; pass model=, the one that was fitted")
    try:
        fields = {name: tuple(v) if isinstance(v, list) else v for name, v in info["hyperparameters"].items()}
        return kind(**fields)
    except (TypeError, ModelError):
        raise ModelError(
            f"{info['model']} was fitted with a network of its own; pass model=, the one that was fitted"
        ) from None


def engine_as_before(
    info: Mapping[str, Any], options: Mapping[str, Any], *, same_model: bool = True
) -> tuple[str, dict[str, Any]]:
    """Return the engine of an update, and its options with what else a caller gave: the earlier ones for the same engine.

    Args:
        info: of the earlier result.
        options: that the caller gives, ``method`` among them.
        same_model: whether the model is the earlier one.

    Raises:
        OptionError: where neither the caller nor the earlier result names an engine.
    """
    method, given = taken_apart(options.get("method"), {k: v for k, v in options.items() if k != "method"})
    if method is None and info["method"] not in OPTIONS:
        raise OptionError("the result was made of samples that the caller brought; name the engine with method=...")
    method = info["method"] if method is None else method
    if not same_model or method != info["method"]:
        return method, given
    return method, {name: value for name, value in info["options"].items() if name != "validation"} | given
