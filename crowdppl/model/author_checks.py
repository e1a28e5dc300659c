"""What the author of a model runs once: every method, its shapes, its gradients, and that labels are not read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.distributions import biject_to

from crowdppl.arguments import checked
from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError, suggestion
from crowdppl.isolation import isolated
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.bound import BoundModel, bind
from crowdppl.model.contract import check, require_labels_unread
from crowdppl.model.networks import is_weight
from crowdppl.model.program import unknowns
from crowdppl.model.truths import Places

# Step, tolerance relative to the larger of both, and absolute tolerance by which gradients are compared with differences, at so
# many points.
STEP, RELATIVE, ABSOLUTE, POINTS = 1e-4, 1e-3, 1e-5, 3


@checked
def check_contract(model: AnnotationModel, data: Annotations) -> None:
    """Run every method that a model provides and compare the shapes with those of :class:`AnnotationModel`.

    Meant for the author of a model, with a small data set: it runs each method once.

    Raises:
        ModelError: for the first shape that differs, with both.
    """
    with isolated(0, device=data.device, dtype=data.dtype), torch.no_grad():
        _check_contract(model, data)


def _check_contract(model: AnnotationModel, data: Annotations) -> None:
    bound, given = bind(model, data), data
    data = bound.expand(data)
    sites = check(bound, data)
    N, J, A, K = data.N, data.J, data.A, data.K
    S, require = bound.states, partial(_require_shape, bound)
    values = {name: node["value"] for name, node in sites.items()}
    parameters, _ = bound.conditioned(values, data)
    require("truth", bound.truth(parameters, data).logits.shape, (S,), (N, S))
    emission = bound.emission(parameters, data)
    require("emission", emission.log_prob(data.label.unsqueeze(-1)).shape, (A, S))
    require_labels_unread(bind(model.generative(), given), parameters, data)
    _require_gradients(bound, data, sites)
    require("initial", bound.initial(data).shape, (N, S))
    require("log_truth", bound.log_truth(parameters, data).shape, (S,), (N, S))
    require("log_likelihoods", bound.log_likelihoods(parameters, data).shape, (N, S))
    r = bound.initial(data)
    anchor = model.anchor(data)
    require("anchor", (N, K) if anchor is None else anchor.shape, (N, K))
    if bound.provides("confusion"):
        table = model.confusion(parameters, data)
        require("confusion", table.shape, (J, S, K), (1, S, K))
    if isinstance(bound.truths, Places):
        reading = bound.truths.reading(parameters, data)
        require("reading", reading.shape, (S, K))
        if not torch.allclose(reading.sum(-1), torch.ones_like(reading[..., 0])):
            raise ModelError(f"{bound.name}.reading: probabilities of the classes do not sum to 1 for every state")
    if bound.provides("log_prior"):
        require("log_prior", model.log_prior(values, data).shape, ())
    if bound.provides("m_step") or bound.conjugacy is not None:
        for name, value in bound.m_step(r, data, None).items():
            require(f"m_step[{name!r}]", value.shape, tuple(values[name].shape))
    if (bound.has_conditionals or bound.networks is None) and bound.why_not_gibbs(data) is None:
        chains = {name: torch.stack([value, value]) for name, value in values.items()}
        truth = r.argmax(-1).expand(2, N)
        for name, value in bound.gibbs_step(truth, chains, data).items():
            require(f"gibbs_step[{name!r}]", value.shape, (2, *values[name].shape))
    targets = bound.classifier_targets(r, data)
    if targets is not None and data.features is not None:
        require("classifier_targets", targets.targets.shape, (len(data.features), K))
    _require_views(bound, parameters, given, sites)


def _require_shape(bound: BoundModel, what: str, shape: Any, *allowed: tuple[int, ...]) -> None:
    """Refuse a shape that is not one of those allowed.

    Raises:
        ModelError: with both.
    """
    if tuple(shape) not in allowed:
        wanted = " or ".join(map(str, allowed))
        raise ModelError(f"{bound.name}.{what} has shape {tuple(shape)}; it must be {wanted}")


def _require_views(bound: BoundModel, parameters: Parameters, data: Annotations, sites: Mapping[str, Any]) -> None:
    """Check names and axes of derived quantities, and of those that views show.

    Raises:
        ModelError: for the first that is wrong.
    """
    lengths = {"worker": data.J, "item": data.N, "annotation": data.A, "true_label": data.K, "given_label": data.K}
    derived = bound.derived(parameters, data)
    # Some are there for other data only, such as effects of covariates: they have axes in `dims` all the same.
    known = {*sites, *derived, *bound.model.dims}
    for name in bound.viewed:
        if name not in known:
            near = suggestion(name, sorted(known))
            raise ModelError(f"{bound.name}.viewed has {name!r}, which is neither a site nor a derived quantity{near}")
    for name, value in derived.items():
        axes = bound.model.dims.get(name, ())
        _require_shape(
            bound,
            f"derived[{name!r}]",
            value.shape,
            tuple(lengths.get(axis, size) for axis, size in zip(axes, value.shape, strict=False)),
        )


def _require_gradients(model: BoundModel, data: Annotations, sites: Mapping[str, Any]) -> None:
    """Compare the gradient of the log joint by each continuous site with differences, in unbounded coordinates.

    Raises:
        ModelError: if they differ at all of some points: a value was detached, or changed in place.
    """
    generator = torch.Generator().manual_seed(0)
    for site, node in sites.items():
        if is_weight(node) or node["fn"].support.is_discrete or data.dtype != torch.float64:
            continue
        transform = biject_to(node["fn"].support)
        wrong = []
        for values in (unknowns(model, data) for _ in range(POINTS)):
            place = transform.inv(values[site]).detach().cpu()
            direction = torch.randn(place.shape, generator=generator, dtype=place.dtype).to(data.device)
            place = place.to(data.device)

            def total(
                step: Any, values: Parameters = values, place: Tensor = place, direction: Tensor = direction
            ) -> Any:
                moved = values | {site: transform(place + step * direction)}  # noqa: B023 - called at once
                return model.item_log_joint(model.conditioned(moved, data)[0], data).logsumexp(-1).sum()

            with torch.enable_grad():
                step = torch.zeros((), dtype=data.dtype, device=data.device, requires_grad=True)
                joint = total(step)
                slope = 0.0
                if joint.requires_grad:
                    (given,) = torch.autograd.grad(joint, step, allow_unused=True)
                    slope = 0.0 if given is None else float(given)
            difference = float(total(STEP) - total(-STEP)) / (2 * STEP)
            near = abs(slope - difference) <= ABSOLUTE + RELATIVE * max(abs(slope), abs(difference))
            wrong += [] if near or not math.isfinite(difference) else [(slope, difference)]
        if len(wrong) == POINTS:
            slope, difference = wrong[0]
            raise ModelError(
                f"{model.name}: the gradient of the log joint by the site {site!r} is {slope:.4g} where differences give "
                f"{difference:.4g}; compute with tensors throughout, without .detach(), .item(), .data or numpy"
            )
