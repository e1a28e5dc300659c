"""The result of a fit as an ``xarray.DataTree`` in the ArviZ schema."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import safetensors.torch
import torch
import xarray as xr
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.data.table.other_labels import A_CLASS, OtherLabels
from crowdppl.inference.dependence.design_effect import PUBLISHED, WEIGHTED
from crowdppl.inference.draws import Draws
from crowdppl.inference.evaluate import EvaluatedDraws
from crowdppl.inference.record import versions
from crowdppl.inference.work import Fitted
from crowdppl.model.bound import BoundModel
from crowdppl.model.networks import is_weight
from crowdppl.posterior.beginning import LAYING_OUT, Beginning
from crowdppl.posterior.io import FORMAT
from crowdppl.posterior.schema import SET_ASIDE

# Dimensions and value of a variable.
Variable = tuple[tuple[str, ...], Tensor]
_DRAW = ("chain", "draw")
# Axes of what describes the quality of workers, after those of draws.
_QUALITY = {"confusion": ("worker", "true_label", "given_label"), "prevalence": ("true_label",)}


@cache
def _has_calendars() -> bool:
    return importlib.util.find_spec("cftime") is not None


@contextmanager
def _without_calendars() -> Iterator[None]:
    """Have xarray not look for cftime where it is not installed: it searches all folders anew for every index of objects.

    Modules are those of all threads, so that one thread at a time sets and removes the entry.
    """
    with LAYING_OUT:
        if _has_calendars() or "cftime" in sys.modules:
            yield
            return
        sys.modules["cftime"] = None  # type: ignore[assignment]
        try:
            yield
        finally:
            sys.modules.pop("cftime", None)


@_without_calendars()
def to_datatree(fit: Fitted, evaluated: EvaluatedDraws, attrs: Mapping[str, Any]) -> xr.DataTree:
    """Lay out the result of a fit.

    Args:
        fit: the fit, with its draws.
        evaluated: the model evaluated at the draws.
        attrs: of the tree, see :func:`attributes`.
    """
    data, model, draws, aside = fit.data, fit.model, fit.draws, fit.aside
    coordinates = _coordinates(data, evaluated.lp.shape, aside)
    dataset = partial(_dataset, coordinates)
    dims = _site_dims(model, draws)
    stats: dict[str, Variable] = {"lp": (_DRAW, evaluated.lp)}
    stats |= {name: (_DRAW, value) for name, value in draws.statistics.items()}
    stats |= {name: (("iteration",), value) for name, value in draws.trace.items()}
    truth: dict[str, Variable] = {
        "probability": (("item", "true_label"), evaluated.probability),
        "draw_of": ((*_DRAW, "item"), evaluated.truth),
    }
    calibrated: dict[str, Variable] = {}
    if evaluated.rho is not None and evaluated.published is not None:
        calibrated = truth | {"rho": (_DRAW, evaluated.rho)}
        if evaluated.lift is not None:
            calibrated["class_weight"] = ((*_DRAW, "true_label"), evaluated.lift)
        calibrated |= {name: (_DRAW + _QUALITY[name], value) for name, value in evaluated.calibrated.items()}
        truth = {"probability": (("item", "true_label"), evaluated.published)}
    averaged = {name: (model.dims[name], value) for name, value in evaluated.averaged.items()}
    each = {name: variable for name, variable in averaged.items() if "annotation" in variable[0]}
    truth |= {name: variable for name, variable in averaged.items() if name not in each}
    groups = {
        "posterior": dataset(_posterior(model, draws, evaluated, dims)),
        "sample_stats": dataset(stats),
        "log_likelihood": dataset({"labels": ((*_DRAW, "item"), evaluated.log_likelihood)}),
        "log_prior": dataset(_log_priors(data, evaluated, dims)),
        "truth": dataset(truth),
        "observed_data": dataset({"labels": (("annotation",), data.label)}),
        "constant_data": dataset(_constant_data(data, aside)),
    }
    if calibrated:
        groups["calibrated"] = dataset(calibrated)
    if each:
        groups["annotation"] = dataset(each)
    groups |= _of_parts(coordinates, fit.parts)
    if draws.point is not None:
        groups["point"] = dataset(_point(dims, draws))
    return _tree(groups | _of_weights(fit.weights), attrs)


def _of_weights(weights: Mapping[str, Tensor]) -> dict[str, xr.Dataset]:
    """Return the group of the weights of networks, if there are any.

    The safetensors format inside the file: one file holds everything, and nothing in it is ever executed.
    """
    if not weights:
        return {}
    stored = np.frombuffer(safetensors.torch.save(dict(weights)), dtype=np.uint8)
    return {"networks": xr.Dataset({"safetensors": (("byte",), stored)})}


@_without_calendars()
def beginning(fit: Fitted, attrs: Mapping[str, Any]) -> Beginning:
    """Return what is known of a result before its draws: class probabilities, the point, the data, and all coordinates.

    Args:
        fit: the fit, its draws still to be drawn.
        attrs: of the tree, see :func:`attributes`.
    """
    data, model, aside, published, probability = fit.data, fit.model, fit.aside, fit.published, fit.probability
    # Groups are laid out later; compiled passes, which they do not need, hold arrays as large as the data.
    draws = replace(fit.draws, passes=None)
    coordinates = _coordinates(data, (1, draws.count), aside)
    axes = ("item", "true_label")
    variables: dict[str, Callable[[], dict[str, Variable]]] = {
        "truth": lambda: {"probability": (axes, probability if published is None else published)},
        "point": lambda: _point(_site_dims(model, draws), draws),
        "observed_data": lambda: {"labels": (("annotation",), data.label)},
        "constant_data": lambda: _constant_data(data, aside),
    }
    if published is not None:
        variables["calibrated"] = lambda: {"probability": (axes, probability)}
    others = _of_parts(coordinates, fit.parts) | _of_weights(fit.weights)

    @_without_calendars()
    def lay_out(name: str) -> xr.Dataset:
        if name == "posterior":
            return xr.Dataset(coords={dim: values for dim, values in coordinates.items() if dim != "item"})
        return others[name] if name in others else _dataset(coordinates, variables[name]())

    return Beginning(("posterior", *variables, *others), lay_out, attrs)


def attributes(fit: Fitted, *, run: Mapping[str, Any], notes: list[str], coverage: str) -> dict[str, Any]:
    """Return the attributes of the tree.

    Args:
        fit: the fit.
        run: description of the fit, serialisable as JSON.
        notes: sentences on the data and the fit, beside those of the data.
        coverage: a sentence on the measured coverage of intervals.
    """
    data, draws, effect = fit.data, fit.draws, fit.reported_effect
    correlation = [PUBLISHED if effect is None else WEIGHTED.format(rho=effect.say())]
    correlation += [] if fit.independence is None else [fit.independence.say()]
    return {
        "crowdppl_format": FORMAT,
        "item_column": data.item_column,
        "repeats": data.repeats,
        "labels_kind": data.kind or "",
        **({} if data.criteria is None else {"criterion_column": data.criterion_column}),
        "viewed": json.dumps(list(fit.model.viewed)),
        "kind": draws.kind,
        "interval_method": draws.interval_method,
        "correlation": " ".join(correlation),
        "coverage": coverage,
        "warnings": json.dumps(draws.warnings),
        "notes": json.dumps([*(one for one in data.notes if one not in data.doubts), *notes]),
        "run": json.dumps(run),
    }


def _tree(groups: Mapping[str, xr.Dataset], attrs: Mapping[str, Any]) -> xr.DataTree:
    tree = xr.DataTree.from_dict({f"/{name}": group for name, group in groups.items()})
    tree.attrs = dict(attrs)
    library = {"inference_library": "crowdppl", "inference_library_version": versions()["crowdppl"]}
    for name in ("posterior", "sample_stats", "log_likelihood", "log_prior", "observed_data", "constant_data"):
        if name in groups:
            tree[name].attrs = library
    return tree


def _dataset(coordinates: Mapping[str, pd.Index], variables: Mapping[str, Variable]) -> xr.Dataset:
    used = {dim for dims, _ in variables.values() for dim in dims}
    return xr.Dataset(
        {name: (dims, value.cpu().numpy()) for name, (dims, value) in variables.items()},
        coords={dim: values for dim, values in coordinates.items() if dim in used},
    )


def _site_dims(model: BoundModel, draws: Draws) -> dict[str, tuple[str, ...]]:
    return {name: model.dims.get(name) or _dims(name, node) for name, node in draws.sites.items()}


def _point(dims: Mapping[str, tuple[str, ...]], draws: Draws) -> dict[str, Variable]:
    """Return the values of the sites at the point, without weights of networks."""
    point = draws.point or {}
    return {name: (dims[name], value) for name, value in point.items() if not is_weight(draws.sites[name])}


def _coordinates(data: Annotations, draws: Sequence[int], aside: Annotations | None) -> dict[str, pd.Index]:
    """Return the coordinates of all dimensions: as indexes, which xarray would otherwise build for every group anew.

    Args:
        data: the annotations.
        draws: number of chains, and of the draws of each.
        aside: annotations that the fit did not count, if any.
    """
    items, workers, labels = (pd.Index(part, dtype=part.dtype) for part in (data.items, data.workers, data.labels))
    return {
        "item": items,
        "worker": workers,
        "true_label": labels,
        "given_label": labels,
        "annotation": pd.RangeIndex(data.A),
        **({"covariate": pd.Index(data.covariate_names, dtype=object)} if data.P else {}),
        **({} if data.others is None else _of_others(data.others)),
        **({} if data.sequences is None else {"sequence": pd.Index(data.sequences, dtype=data.sequences.dtype)}),
        **({} if data.set_labels is None else {"set_label": pd.Index(data.set_labels, dtype=object)}),
        **({} if data.criteria is None else {"criterion": pd.Index(data.criteria, dtype=data.criteria.dtype)}),
        **({} if aside is None else {"aside_annotation": pd.RangeIndex(aside.A)}),
        "chain": pd.RangeIndex(draws[0]),
        "draw": pd.RangeIndex(draws[1]),
    }


def _posterior(
    model: BoundModel, draws: Draws, evaluated: EvaluatedDraws, dims: Mapping[str, tuple[str, ...]]
) -> dict[str, Variable]:
    """Return the model's own draws: its parameters, the quality of workers and the prevalence that follow from them."""
    posterior = {name: (_DRAW + dims[name], value) for name, value in draws.samples.items()}
    for name, axes in _QUALITY.items():
        posterior[name] = (_DRAW + axes, getattr(evaluated, name))
    for name, value in evaluated.derived.items():
        posterior[name] = (_DRAW + (model.dims.get(name) or _unnamed(name, value.dim() - 2)), value)
    return posterior


def _log_priors(
    data: Annotations, evaluated: EvaluatedDraws, dims: Mapping[str, tuple[str, ...]]
) -> dict[str, Variable]:
    """Return the log prior of each site, which ArviZ scales one by one; of those in a plate by worker or item."""
    out: dict[str, Variable] = {}
    lengths = {"item": data.N, "worker": data.J}
    for name, value in evaluated.log_priors.items():
        plates = dims.get(name, ())[: value.dim() - 2]
        if len(plates) < value.dim() - 2 or any(
            lengths.get(dim, size) != size for dim, size in zip(plates, value.shape[2:], strict=True)
        ):
            plates, value = (), value.flatten(2).sum(-1)  # of single annotations, or of a factor
        out[name] = (_DRAW + plates, value)
    return out


def _constant_data(data: Annotations, aside: Annotations | None) -> dict[str, Variable]:
    """Return what a fit conditions on, and the annotations that it did not count."""
    variables: dict[str, Variable] = {
        "item_index": (("annotation",), data.item),
        "worker_index": (("annotation",), data.worker),
        "known_truth": (("item",), data.truth),
    }
    by = ("criterion_index", data.criterion)
    for name, value in (("timestamp", data.timestamp), ("seconds", data.seconds), by):
        if value is not None:
            variables[name] = (("annotation",), value)
    if data.covariates is not None:
        variables["covariates"] = (("annotation", "covariate"), data.covariates)
    if aside is not None and aside.covariates is not None:
        variables["aside_covariates"] = (("aside_annotation", "covariate"), aside.covariates)
    if data.weight is not None:
        variables["weight"] = (("item",), data.weight)
    if data.sequences is not None and data.sequence is not None and data.position is not None:
        length = torch.bincount(data.sequence, minlength=len(data.sequences))
        variables |= {
            "sequence_index": (("item",), data.sequence),
            "position": (("item",), data.position),
            "sequence_length": (("sequence",), length),
        }
    if data.criteria is not None and data.criterion is not None:
        given = torch.bincount(data.criterion, minlength=len(data.criteria))
        variables["criterion_annotations"] = (("criterion",), given)
    if data.set_labels is not None:
        number, L = data.set_label[data.item], len(data.set_labels)
        votes = torch.bincount(number, weights=data.label.to(data.dtype), minlength=L).long()
        variables["set_label_votes"] = (("set_label",), votes)
    if data.others is not None:
        parts = {"other_item": data.others.item, "other_worker": data.others.worker, "other_label": data.others.label}
        variables |= {name: (("other_annotation",), value) for name, value in parts.items()}
    if aside is not None:
        fields = {name: getattr(aside, name) for name in SET_ASIDE}
        variables |= {
            f"aside_{name}": (("aside_annotation",), value) for name, value in fields.items() if value is not None
        }
    return variables


def _of_parts(
    coordinates: Mapping[str, pd.Index], parts: Mapping[str, Mapping[str, Any] | None]
) -> dict[str, xr.Dataset]:
    """Return the groups of spans and of sets, if there are any."""
    axes = {"spans": ("span",), "sets": ("sequence",)}
    return {
        group: _dataset(coordinates, {name: (axes[group], torch.as_tensor(value)) for name, value in variables.items()})
        for group, variables in parts.items()
        if variables is not None
    }


def _of_others(others: OtherLabels) -> dict[str, pd.Index]:
    """Return the coordinates of what is known of labels that are never a true label."""
    answers = pd.Index([A_CLASS, *map(str, others.names.tolist())], dtype=object)
    return {"answer": answers, "other_annotation": pd.RangeIndex(len(others))}


def _dims(name: str, node: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the axes of a site: its plate, then ArviZ's default names for the axes of its event."""
    plates = tuple(frame.name for frame in node["cond_indep_stack"] if frame.vectorized)
    return plates + _unnamed(name, node["value"].dim() - len(plates))


def _unnamed(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name}_dim_{n}" for n in range(count))
