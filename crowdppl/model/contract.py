"""Checks of a model against the contract of :class:`crowdppl.AnnotationModel`, before a fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from torch import Tensor
from torch.distributions import biject_to

from crowdppl.data.annotations import Annotations
from crowdppl.errors import CrowdpplError, ModelError
from crowdppl.isolation import streams_kept
from crowdppl.model.base import Parameters
from crowdppl.model.bound import BoundModel
from crowdppl.model.networks import is_weight
from crowdppl.model.program import FAULTS, unknowns
from crowdppl.model.stated import _Means, is_unknown

# Annotations that a check goes through, where a model allows a part; and items, which may each have many states.
CHECKED, ITEMS = 1000, 100
# Numbers of a site from which on a check takes their mean: to draw a hundred million takes eight seconds.
DRAWN = 10_000_000
# Where the models of this library are.
OWN = "crowdppl.models."
# Hyperparameters of ordinary size, or zero: beyond it, what a model computes may overflow.
LEAST, MOST = 1e-3, 1e3
# Names that a site may not have, and why.
RESERVED = {
    "truth": "the program gives the true labels",
    "labels": "the program gives the observed labels",
    "anchor": "the program gives a factor of the likelihood",
    "repeats": "the program gives a factor of the likelihood",
    "rho": "results give the correlation between errors",
    "item": "the program gives a plate",
    "worker": "the program gives a plate",
    "lp": "results give the log posterior density",
}
# Deviation of a sum of probabilities from one by rounding, also in single precision.
ROUNDING = 1e-3


def check(model: BoundModel, data: Annotations, *, briefly: bool = False) -> dict[str, Any]:
    """Run a model once with all of Pyro's checks on and return the sites of its prior.

    Args:
        model: bound to the data.
        data: the annotations in its layout.
        briefly: of a model of this library without networks, and with hyperparameters of ordinary size, run the prior alone: its
                tests check the rest.

    Raises:
        ModelError: where the model does not keep its contract, with the reason.
    """
    name, states = model.name, model.states
    named = model.model.viewed
    if not isinstance(named, (tuple, list)) or not all(isinstance(one, str) for one in named):
        raise ModelError(f"{name}.viewed is {named!r}; it must be a tuple of names of sites and derived quantities")
    try:
        if data.N > ITEMS and model.closed:
            # Nothing in such a model grows with the items: some of them show what all would.
            data = data.batch(torch.arange(ITEMS, device=data.device))
        with pyro.validation_enabled(True), torch.no_grad(), _Means(DRAWN):
            traced = poutine.trace(model.prior).get_trace(data, model.plates(data))
            returned = traced.nodes["_RETURN"]["value"]
            sites = {site: node for site, node in traced.nodes.items() if is_unknown(node)}
            _require_free_names(name, sites, data, states)
            _require_declared(name, traced)
            _require_movable(model, sites)
            _require_axes(model, sites)
            wanted = {site for site, node in sites.items() if not is_weight(node)}
            if not isinstance(returned, dict) or not wanted <= set(returned):
                raise ModelError(
                    f"{name}.prior must return a dict with every site it samples, {sorted(wanted)}; it returned "
                    f"{sorted(returned) if isinstance(returned, dict) else type(returned).__name__}"
                )
            if briefly and _tested(model):
                return sites
            truth = model.truth(returned, data)
            if not isinstance(getattr(truth, "logits", None), Tensor):
                raise ModelError(
                    f"{name}.truth must return a Categorical over the classes; it returned a {type(truth).__name__}"
                )
            given = truth.logits.shape[-1]
            if given != states and model.truths.read_off:
                raise ModelError(f"{name}.truth is a distribution over {given} states; states() gives {states}")
            if given != states:
                each = f" of {model.states_per_class} states each" if model.states_per_class > 1 else ""
                raise ModelError(f"{name}.truth is a distribution over {given} classes; the data have {data.K}{each}")
            if not model.provides("confusion"):
                _require_probabilities(model, returned, data)
            joint = model.item_log_joint(returned, data)
            poutine.trace(model.marginal_program).get_trace(data)
    except CrowdpplError as error:
        # Pyro appends the shapes of its trace: of no use where the reason is given.
        raise type(error)(str(error).partition("\n")[0]) from error
    except FAULTS as error:
        raise ModelError(
            f"{_place(model, error)} failed on {data!r}: {type(error).__name__}: {_one_line(error)}"
        ) from error
    if joint.shape != (data.N, states):
        raise ModelError(f"{name} gives an item log joint of shape {tuple(joint.shape)}; it must be (N, S)")
    return sites


def _tested(model: BoundModel) -> bool:
    """Tell whether a model is one of this library, of ordinary numbers, without networks or a classifier of the user's."""
    own = type(model.model).__module__.startswith(OWN) and model.networks is None and model.classifier is None
    return own and _ordinary(model.model)


def _ordinary(value: Any) -> bool:
    """Tell whether all numbers of a model, of its fields and of tuples in these are of ordinary size."""
    if is_dataclass(value):
        return all(_ordinary(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, (tuple, list)):
        return all(map(_ordinary, value))
    return not isinstance(value, (int, float)) or value == 0 or LEAST <= abs(value) <= MOST


def _require_free_names(model: str, sites: Mapping[str, Any], data: Annotations, states: int) -> None:
    """Refuse sites whose names results and programs use for something else.

    Raises:
        ModelError: for the first of them.
    """
    shapes = {
        "confusion": ((data.J, states, data.K), (states, data.K)),
        "prevalence": ((data.K,), (states,)),
    }
    for site, node in sites.items():
        if site in RESERVED:
            raise ModelError(f"{model} has a site {site!r}, a name that {RESERVED[site]}; choose another one")
        shape = tuple(node["value"].shape)
        if site in shapes and shape not in shapes[site]:
            raise ModelError(
                f"{model} has a site {site!r} of shape {shape}; results report {site} as {shapes[site][0]}, so that the site "
                f"would be lost: choose another name"
            )


def _place(model: BoundModel, error: Exception) -> str:
    """Return the model's name, and that of its method where an error arose within one."""
    methods = {getattr(getattr(type(model.model), name), "__code__", None): name for name in dir(type(model.model))}
    method, traceback = "", error.__traceback__
    while traceback is not None:
        name = methods.get(traceback.tb_frame.f_code)
        method, traceback = method if name is None else f".{name}", traceback.tb_next
    return model.name + method


def _one_line(error: Exception) -> str:
    """Return the first line of an error, without the values and shapes that torch and Pyro write below it."""
    return (str(error).strip().splitlines() or [""])[0].rstrip(" :")


def _require_declared(model: str, trace: Any) -> None:
    """Refuse parts of a prior that engines would take in different ways.

    Raises:
        ModelError: for values without a prior, for plates within plates, and for several values that are neither a plate nor an
            event.
    """
    for site, node in trace.nodes.items():
        if node["type"] == "param":
            raise ModelError(f"{model}.prior has pyro.param({site!r}), which only SVI would learn; use pyro.sample")
        if not is_unknown(node):
            continue
        frames = [frame for frame in node["cond_indep_stack"] if frame.vectorized]
        if any(frame.dim != -1 for frame in frames):
            raise ModelError(
                f"{model}: the site {site!r} is in a plate at dimension {min(frame.dim for frame in frames)}; plates are at "
                f"dimension -1 and not within each other: make several values of one worker or item an event, by .to_event(1)"
            )
        shape = tuple(node["fn"].batch_shape)
        if len(shape) > len(frames) and any(size != 1 for size in shape[: len(shape) - len(frames)]):
            covered = f"a plate covers {shape[-1:]}" if frames else "no plate covers any"
            raise ModelError(
                f"{model}: the site {site!r} has the batch shape {shape}, of which {covered}; make several values of one site "
                f"an event, by .to_event(1)"
            )


def _require_axes(model: BoundModel, sites: Mapping[str, Any]) -> None:
    """Refuse names of the axes of a site that are not those of its values.

    Raises:
        ModelError: for the first of them.
    """
    for site, node in sites.items():
        named, value = model.dims.get(site), node["value"]
        if not named or is_weight(node):
            continue
        plates = tuple(frame.name for frame in node["cond_indep_stack"] if frame.vectorized)
        if len(named) != value.dim() or tuple(named)[: len(plates)] != plates:
            first = f", of which the first is {plates[0]!r}" if plates else ""
            raise ModelError(
                f"{model.name}.dims names the axes of the site {site!r} as {tuple(named)}; its values have {value.dim()}{first}"
            )


def _require_probabilities(model: BoundModel, parameters: Parameters, data: Annotations) -> None:
    """Refuse an emission whose probabilities of all labels do not sum to 1.

    Raises:
        ModelError: with the sum.
    """
    few = data.keep(torch.arange(data.A, device=data.device) < CHECKED) if data.A > CHECKED else data
    emission = model.emission(parameters, few)
    labels = torch.arange(data.K, device=data.device).view(-1, 1, 1)
    shape, logits = (few.A, model.states), getattr(emission, "logits", None)
    if logits is not None and logits.shape[:-1] == shape and logits.shape[-1] != data.K:
        raise ModelError(f"{model.name}.emission has {logits.shape[-1]} labels; the data have {data.K} classes")
    try:
        each = emission.log_prob(labels)
        wrong_shape = each.shape != (data.K, *shape)
    except FAULTS:
        wrong_shape = True
    if wrong_shape:
        raise ModelError(
            f"{model.name}.emission returned a {type(emission).__name__} of batch shape "
            f"{tuple(getattr(emission, 'batch_shape', ()))}; it must be a distribution over the {data.K} classes, such as "
            f"Categorical, of batch shape (A, S) = {shape}: for each annotation a distribution over labels under each true label"
        )
    total = each.exp().sum(0)
    wrong = (total - 1).abs() > ROUNDING
    if bool(wrong.any()):
        raise ModelError(
            f"{model.name}.emission gives the labels of an annotation probabilities that sum to {float(total[wrong][0]):.4g}; "
            f"return a distribution over the {data.K} classes, such as Categorical"
        )


def _require_movable(model: BoundModel, sites: Mapping[str, Any]) -> None:
    """Refuse sites that no engine could move: discrete ones of a model without steps of its own, and those without coordinates.

    Raises:
        ModelError: for the first of them.
    """
    own = model.provides("gibbs_step") or model.provides("m_step")
    for site, node in sites.items():
        plates = {frame.name for frame in node["cond_indep_stack"]}
        try:
            support = node["fn"].support
            if isinstance(node["fn"], dist.Delta):
                raise ModelError(
                    f"{model.name}: the site {site!r} is a Delta, which is no unknown; return its value alone"
                )
            if support.is_discrete and own:
                continue
            if not support.is_discrete:
                biject_to(support)
                continue
        except NotImplementedError as error:
            raise ModelError(
                f"{model.name}: the values of the site {site!r} have no unbounded coordinates: {type(node['fn']).__name__} "
                f"states no support that gradients can move in; write the prior by one that does, or by a transform of a Normal"
            ) from error
        if "worker" in plates:
            how = (
                "let the worker's parameters have a mixture as prior, MixtureSameFamily(Categorical(shares), components), or "
                "each label be a mixture within emission"
            )
        elif "item" in plates:
            how = "make it a part of the item's state by states_per_class"
        else:
            how = "let what depends on it have a mixture as prior, MixtureSameFamily(Categorical(shares), components)"
        raise ModelError(
            f"{model.name} has a discrete site {site!r}, which no engine can move: sum it out ({how}), or write gibbs_step"
        )


def require_labels_unread(model: BoundModel, parameters: Parameters, data: Annotations) -> None:
    """Refuse a model that depends on the labels: their probability would be one of each given the others.

    Raises:
        ModelError: if emission, truth or prior is another one for other labels.
    """
    few = data.keep(
        torch.arange(data.A, device=data.device) < CHECKED
    )  # of all items: sites of items keep their shapes
    labels = torch.arange(data.K, device=data.device).view(-1, 1, 1)
    both = [few, replace(few, label=(few.label + 1) % data.K)]
    with torch.no_grad():
        one, other = (model.emission(parameters, design).log_prob(labels) for design in both)
        if one.shape != other.shape or not torch.equal(one, other):
            raise ModelError(
                f"{model.name}.emission depends on data.label: labels of a model are independent given true labels and "
                f"parameters, and neither simulated nor predicted from each other; make what a worker copies a parameter"
            )
        truths = [model.truth(parameters, design).logits for design in both]
        drawn = []
        for design in both:
            with streams_kept(design.device):
                drawn.append(unknowns(model, design))
    same = all(torch.equal(value, drawn[1][site]) for site, value in drawn[0].items())
    for method, unread in (("truth", torch.equal(*truths)), ("prior", same)):
        if not unread:
            raise ModelError(
                f"{model.name}.{method} depends on data.label: what is known before any label may not be read off the labels"
            )
