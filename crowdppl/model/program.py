"""Runs of a model's program outside of engines: checks of its contract, draws from its prior, parameters in batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from torch import Tensor
from torch.distributions import constraints

from crowdppl import arguments
from crowdppl.data.annotations import Annotations
from crowdppl.errors import CrowdpplError, ModelError
from crowdppl.isolation import isolated
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.bound import BoundModel, _Means, bind, is_unknown
from crowdppl.model.networks import is_weight

# Items that a check goes through, where a model allows a part.
CHECKED = 1000
# Items whose features are exchanged to see whether a model reads them.
SWAPPED = 100
# Numbers of a site from which on a check takes their mean: to draw a hundred million takes eight seconds.
DRAWN = 10_000_000
# What a faulty model may raise when it is run.
FAULTS = (RuntimeError, ValueError, IndexError, KeyError, TypeError, AttributeError, NotImplementedError)


def check(model: BoundModel, data: Annotations) -> dict[str, Any]:
    """Run a model once with all of Pyro's checks on and return the sites of its prior.

    Raises:
        ModelError: where the model does not keep its contract, with the reason.
    """
    name, states = model.name, data.K * model.states_per_class
    try:
        if data.N > CHECKED and model.closed:
            # Nothing in such a model grows with the items: some of them show what all would.
            data = data.batch(torch.arange(CHECKED, device=data.device))
        with pyro.validation_enabled(True), torch.no_grad(), _Means(DRAWN):
            traced = poutine.trace(model.prior).get_trace(data, model.plates(data))
            returned = traced.nodes["_RETURN"]["value"]
            sites = {site: node for site, node in traced.nodes.items() if is_unknown(node)}
            wanted = {site for site, node in sites.items() if not is_weight(node)}
            if not isinstance(returned, dict) or not wanted <= set(returned):
                raise ModelError(
                    f"{name}.prior must return a dict with every site it samples, {sorted(wanted)}; it returned "
                    f"{sorted(returned) if isinstance(returned, dict) else type(returned).__name__}"
                )
            given = model.truth(returned, data).logits.shape[-1]
            if given != states:
                each = f" of {model.states_per_class} states each" if model.states_per_class > 1 else ""
                raise ModelError(f"{name}.truth is a distribution over {given} classes; the data have {data.K}{each}")
            joint = model.item_log_joint(returned, data)
            poutine.trace(model.marginal_program).get_trace(data)
    except CrowdpplError as error:
        # Pyro appends the shapes of its trace: of no use where the reason is given.
        raise type(error)(str(error).partition("\n")[0]) from error
    except FAULTS as error:
        raise ModelError(f"{name} failed on {data!r}: {type(error).__name__}: {error}") from error
    if joint.shape != (data.N, states):
        raise ModelError(f"{name} gives an item log joint of shape {tuple(joint.shape)}; it must be (N, S)")
    return sites


@arguments.checked(model=arguments.model, data=arguments.annotation_data)
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
    S = K * bound.states_per_class

    def require(what: str, shape: Any, *allowed: tuple[int, ...]) -> None:
        if tuple(shape) not in allowed:
            wanted = " or ".join(map(str, allowed))
            raise ModelError(f"{bound.name}.{what} has shape {tuple(shape)}; it must be {wanted}")

    values = {name: node["value"] for name, node in sites.items()}
    parameters, _ = bound.conditioned(values, data)
    require("truth", bound.truth(parameters, data).logits.shape, (S,), (N, S))
    emission = bound.emission(parameters, data)
    require("emission", emission.log_prob(data.label.unsqueeze(-1)).shape, (A, S))
    require("initial", bound.initial(data).shape, (N, S))
    require("log_truth", bound.log_truth(parameters, data).shape, (S,), (N, S))
    require("log_likelihoods", bound.log_likelihoods(parameters, data).shape, (N, S))
    r = bound.initial(data)
    anchor = model.anchor(data)
    require("anchor", (N, K) if anchor is None else anchor.shape, (N, K))
    if bound.provides("confusion"):
        table = model.confusion(parameters, data)
        require("confusion", table.shape, (J, S, K), (1, S, K))
    if bound.provides("log_prior"):
        require("log_prior", model.log_prior(values, data).shape, ())
    if bound.provides("m_step") or bound.conjugacy is not None:
        for name, value in bound.m_step(r, data, None).items():
            require(f"m_step[{name!r}]", value.shape, tuple(values[name].shape))
    if bound.why_not_gibbs(data) is None:
        chains = {name: torch.stack([value, value]) for name, value in values.items()}
        truth = r.argmax(-1).expand(2, N)
        for name, value in bound.gibbs_step(truth, chains, data).items():
            require(f"gibbs_step[{name!r}]", value.shape, (2, *values[name].shape))
    targets = bound.classifier_targets(r, data)
    if targets is not None and data.features is not None:
        require("classifier_targets", targets.targets.shape, (len(data.features), K))
    lengths = {"worker": J, "item": given.N, "annotation": given.A, "true_label": K, "given_label": K}
    for name, value in bound.derived(parameters, given).items():
        axes = model.dims.get(name, ())
        require(
            f"derived[{name!r}]",
            value.shape,
            tuple(lengths.get(axis, size) for axis, size in zip(axes, value.shape, strict=False)),
        )


def is_simplex(support: Any) -> bool:
    """Tell whether values are probabilities that sum to one over the last axis."""
    return base(support) is constraints.simplex


def base(support: Any) -> Any:
    """Return the support of one value, where several are one event."""
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    return support


def unknowns(model: BoundModel, data: Annotations) -> Parameters:
    """Draw every parameter from the prior once: values by site."""
    nodes = poutine.trace(model.prior).get_trace(data, model.plates(data)).nodes
    return {name: node["value"] for name, node in nodes.items() if is_unknown(node)}


def reads_features(model: AnnotationModel, data: Annotations) -> dict[str, bool]:
    """Tell which features of the data a model reads, found by giving it others.

    A model reads features if without them it has other parameters or cannot be run, or if its log joint changes where items, or
    workers, exchange their features.

    Returns:
        By name, ``features`` and ``worker_features``, as far as the data have them.
    """
    few = data.batch(torch.arange(min(data.N, 1), device=data.device))
    out: dict[str, bool] = {}
    with isolated(0, device=data.device, dtype=data.dtype), torch.no_grad():
        for name in ("features", "worker_features"):
            if getattr(data, name) is None:
                continue
            try:
                without: dict[str, Any] = {name: None}
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
            dropped |= {name: None, f"{name.removesuffix('s')}_names": None}
    return replace(data, **dropped) if dropped else data


def _shapes(model: AnnotationModel, data: Annotations) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in unknowns(bind(model, data), data).items()}


def _moved_by(name: str, model: AnnotationModel, data: Annotations) -> bool:
    """Tell whether the log joint of some items changes where features are exchanged."""
    few = data.batch(torch.arange(min(data.N, SWAPPED), device=data.device))
    exchanged = replace(few, **{name: getattr(few, name).flip(0)})
    bound = bind(model, few)
    parameters, _ = bound.conditioned(unknowns(bound, bound.expand(few)), bound.expand(few))
    joints = [bound.item_log_joint(parameters, bound.expand(design)) for design in (few, exchanged)]
    return not torch.equal(*joints)


def prior_draws(model: BoundModel, data: Annotations, count: int) -> Parameters:
    """Draw from the prior ``count`` times: every value ``(count, ...)``."""
    return together([unknowns(model, data) for _ in range(count)])


def dispersed(start: Tensor, data: Annotations, weight: float = 0.3) -> Tensor:
    """Mix responsibilities ``(..., N, S)`` with uniform draws from the simplex, for starts that differ; known truths stay."""
    noise = dist.Dirichlet(torch.ones_like(start)).sample()
    known = (data.truth >= 0).unsqueeze(-1)
    return torch.where(known, start, (1 - weight) * start + weight * noise)


def densities(model: BoundModel, parameters: Parameters, data: Annotations) -> tuple[Tensor, Tensor]:
    """Return item log joint ``(C, N, S)`` and log prior ``(C,)`` at ``C`` sets of parameters, with which every value leads.

    For batched models. A log prior from the trace of the prior is taken set by set: it sums up all there is.
    """
    if not parameters or model.prior_in_batches:
        return model.log_density(parameters, data)
    each = [model.conditioned(one, data)[1] for one in apart(parameters)]
    return model.item_log_joint(parameters, data), torch.stack(each)


def together(sets: Sequence[Mapping[str, Any]]) -> Parameters:
    """Stack several sets of parameters: every value leads with an axis of them."""
    return {name: torch.stack([one[name] for one in sets]) for name in sets[0]}


def apart(parameters: Parameters) -> list[Parameters]:
    """Undo :func:`together`: a set for each place on the leading axis."""
    return [dict(zip(parameters, values, strict=True)) for values in zip(*parameters.values(), strict=True)]
