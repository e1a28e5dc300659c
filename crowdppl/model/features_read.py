"""Which features of the data a model reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from crowdppl.data.annotations import Annotations
from crowdppl.data.layouts import NO_COVARIATES, NO_CRITERIA
from crowdppl.errors import CrowdpplError
from crowdppl.isolation import isolated, without_warnings
from crowdppl.model.base import AnnotationModel
from crowdppl.model.bound import bind
from crowdppl.model.program import FAULTS, unknowns

# Items whose features are exchanged to see whether a model reads them.
SWAPPED = 100
# What is known of items, workers and annotations, which a model may read.
READABLE = ("features", "worker_features", "covariates", "criterion")
# Fields of what is known of annotations, where they are not there.
OTHERS = {"covariates": NO_COVARIATES, "criterion": NO_CRITERIA}


def reads_features(model: AnnotationModel, data: Annotations) -> dict[str, bool]:
    """Tell which features of the data a model reads, found by giving it others.

    A model reads features if without them it has other parameters or cannot be run, or if its log joint changes where items, or
    workers, exchange their features.

    Returns:
        By name, ``features``, ``worker_features``, ``covariates`` and ``criterion``, as far as the data have them.
    """
    few = data.batch(torch.arange(min(data.N, 1), device=data.device))
    out: dict[str, bool] = {}
    with isolated(0, device=data.device, dtype=data.dtype), torch.no_grad():
        for name in READABLE:
            if getattr(data, name) is None:
                continue
            if name == "features" and model.expand(few).class_scores is not None:  # learned from more items
                out[name] = True
                continue
            try:
                without: dict[str, Any] = OTHERS.get(name, {name: None})
                with without_warnings():  # torch's, of a network that takes no features
                    shapes = [_shapes(model, design) for design in (few, replace(few, **without))]
            except (CrowdpplError, *FAULTS):
                out[name] = True
                continue
            out[name] = shapes[0] != shapes[1] or _moved_by(name, model, data)
    return out


def without_unread_features(model: AnnotationModel, data: Annotations) -> Annotations:
    """Return the data without the features that a model does not read, for fits that need no note on them."""
    dropped: dict[str, Any] = {}
    for name, reads in reads_features(model, data).items():
        if not reads:
            dropped |= OTHERS.get(name) or {name: None, f"{name.removesuffix('s')}_names": None}
    return replace(data, **dropped) if dropped else data


def _shapes(model: AnnotationModel, data: Annotations) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in unknowns(bind(model, data), data).items()}


def _moved_by(name: str, model: AnnotationModel, data: Annotations) -> bool:
    """Tell whether the log joint of some items changes where features are exchanged."""
    L = data.number_of_set_labels  # sets are not cut
    few = data.batch(torch.arange(min(data.N, max(L, SWAPPED // L * L)), device=data.device))
    if name == "covariates":
        # Exchanged they may be as they were: those of a session are equal for many items.
        assert few.standard_covariates is not None
        exchanged = replace(few, standard_covariates=torch.randn_like(few.standard_covariates))
    elif name == "criterion":
        assert few.criterion is not None
        exchanged = replace(few, criterion=(few.criterion + 1) % few.number_of_criteria)
    else:
        exchanged = replace(few, **{name: getattr(few, name).flip(0)})
    bound = bind(model, few)
    parameters, _ = bound.conditioned(unknowns(bound, bound.expand(few)), bound.expand(few))
    joints = [bound.item_log_joint(parameters, bound.expand(design)) for design in (few, exchanged)]
    return not torch.equal(*joints)
