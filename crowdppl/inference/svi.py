"""Stochastic variational inference: Pyro's SVI with the truth enumerated exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import pyro
import torch
from pyro import poutine
from pyro.infer import SVI, TraceEnum_ELBO
from pyro.infer.autoguide import AutoDelta, AutoGuideList, AutoNormal
from pyro.infer.autoguide.initialization import init_to_value
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError
from crowdppl.inference.checkpoint import NOTHING, Checkpoint, State, packed, unpacked
from crowdppl.inference.draws import Draws
from crowdppl.inference.early_stopping import Validation
from crowdppl.inference.m_step import MStep
from crowdppl.inference.memory import affordable, thinned_note
from crowdppl.inference.minibatches import Batches
from crowdppl.inference.options import engine
from crowdppl.inference.progress import ProgressCallback
from crowdppl.inference.unconstrained import Space
from crowdppl.model.base import AnnotationModel, Parameters, check, provides
from crowdppl.model.plates import Plates

HOW = (
    "draws from a variational approximation ({guide}, fitted by SVI), whose sites are independent of each other: intervals "
    "tend to be too narrow; method='gibbs' or 'nuts' gives posterior draws"
)

POINT = "one point for all parameters, trained end to end by gradients: there are no intervals"


@engine("svi")
def svi(
    model: AnnotationModel,
    data: Annotations,
    report: ProgressCallback,
    keep: Checkpoint = NOTHING,
    *,
    max_iter: int,
    tol: float,
    learning_rate: float,
    batch_size: int | None,
    num_samples: int,
    guide: Literal["auto", "point"],
    validation: Any,
) -> Draws:
    """Fit a guide to the posterior of the parameters; defaults of the options are in :class:`crowdppl.inference.options.SVIOptions`.

    Args:
        model: its own ``guide``, else an automatic normal one.
        data: the annotations.
        report: called with progress.
        keep: where the state is kept, for a fit that is stopped to go on.
        max_iter: most gradient steps.
        tol: stop early where the mean loss of a window of steps falls by less than this fraction of itself.
        learning_rate: of Adam; it falls to a tenth over ``max_iter`` steps.
        batch_size: items a step; all of them where not given.
        num_samples: draws from the fitted guide.
        guide: ``"auto"``: the model's own, else independent normals, with the weights of networks as a point; ``"point"``:
            a point for every parameter, which is training end to end.
        validation: features and classes of items held out: the epoch with the highest accuracy on them is kept.
    """
    space = Space(check(model, data))
    with torch.no_grad():
        first = MStep(model, data, space).start(model.starting(data))
    held_out = None if validation is None else Validation(validation, model, data)
    family, name = guide_of(model, data, space, first, guide)
    optimiser = adam(learning_rate, max_iter)
    training = partial(model.program, training=True) if space.weights else model.program
    steps = SVI(training, family, optimiser, TraceEnum_ELBO(max_plate_nesting=1))
    full = batch_size is None or batch_size >= data.N
    batches = None if full else Batches(data.N, int(batch_size or 0), data.device)
    if batches is not None:
        with torch.no_grad():
            family(
                data
            )  # automatic guides learn sizes and first values at their first call: from all items, not from a batch
    window = max(50, batches.per_epoch if batches else 0)
    loss: list[float] = []
    converged, calm = False, 0
    best: _Best | None = None
    first_step = 0
    state = partial(_state, optimiser, batches, loss)
    found = None if held_out is not None else keep.resume("svi", data.device)
    if found is not None:
        loss.extend(found[1]["loss"])
        first_step, calm = len(loss), found[1]["calm"]
        _go_on(found, optimiser, batches, family, data)
    for step in range(first_step, max_iter):
        loss.append(steps.step(data) if batches is None else steps.step(data, next(batches)))
        require_finite(loss[-1], model, step)
        if step % 20 == 0:
            report(step, max_iter, f"loss {loss[-1]:.2f}")
        if held_out is not None and (step + 1) % (batches.per_epoch if batches else 10) == 0:
            score = held_out.score(medians(family, data, space))
            if best is None or score > best.score:
                best = _Best(score, step, _store(), {} if model._bound is None else model._bound.buffers())
        if (step + 1) % window == 0 and step + 1 >= 2 * window:
            now, before = (sum(part) / window for part in (loss[-window:], loss[-2 * window : -window]))
            calm = calm + 1 if before - now < tol * abs(now) else 0
            if calm == 2:
                converged = True
                break
        if held_out is None:
            keep.step(partial(state, calm), "svi")
    if best is not None:
        _restore(best.store)
        if model._bound is not None:
            model._bound.take(best.buffers)
    thinned: list[str] = []
    with torch.no_grad():
        if guide == "point":
            point = medians(family, data, space)
            samples = {name: point[name][None, None] for name in space.sizes if name not in space.weights}
            fixed = {name: point[name] for name in space.weights}
        else:
            point = None
            rest = [name for name in space.sizes if name not in space.weights]
            size = space.size - sum(space.sizes[name] for name in space.weights)
            count = affordable(size, data, num_samples) if rest else 1
            samples, fixed = guide_draws(family, data, rest, sorted(space.weights), count)
            if rest and count < num_samples:
                thinned = [thinned_note(count, num_samples)]
    facts: dict[str, Any] = {
        "converged": converged,
        "iterations": len(loss),
        "loss": loss[-1],
        "batch_size": None if full else batch_size,
    }
    if best is not None:
        facts["validation"] = {"accuracy": best.score[0], "iteration": best.step}
    told = [] if converged else [f"SVI stopped after {len(loss)} steps before its loss stood; raise max_iter"]
    told += thinned
    if guide == "point":
        told.append(POINT)
    return Draws(
        samples,
        "point" if guide == "point" else "approximation",
        POINT if guide == "point" else HOW.format(guide=name),
        point=point,
        fixed=fixed,
        trace={"loss": torch.tensor(loss, dtype=torch.float64)},
        facts=facts,
        warnings=told,
        sites=space.sites,
    )


def adam(learning_rate: float, steps: int) -> Any:
    """Return Pyro's optimiser, whose rate falls to a tenth over so many steps."""
    return pyro.optim.ClippedAdam(
        {"lr": learning_rate, "lrd": 0.1 ** (1 / steps), "betas": (0.9, 0.99), "clip_norm": 1e12}
    )


def require_finite(loss: float, model: AnnotationModel, step: int) -> None:
    """Refuse to go on from the loss of a step, numbered from 0, that is no number."""
    if not math.isfinite(loss):
        raise ModelError(
            f"{type(model).__name__}: the loss of SVI is {loss} at step {step + 1}; lower learning_rate, or check that "
            f"every label is possible under the model"
        )


@dataclass(frozen=True)
class _Best:
    """The epoch that did best on held-out items."""

    score: tuple[float, float]
    step: int
    store: dict[str, Tensor]
    buffers: dict[str, Tensor]


def _state(optimiser: Any, batches: Batches | None, loss: list[float], calm: int) -> State:
    """What it takes to go on: the guide, the optimiser's moments, the batches left of this epoch, and the losses."""
    tensors, numbers, groups = packed("guide", _store()), {}, {}
    for name, one in optimiser.get_state().items():
        for key, value in one["state"].get(0, {}).items():
            if isinstance(value, Tensor):
                tensors[f"moment {name}/{key}"] = value
            else:
                numbers[f"{name}/{key}"] = value
        groups[name] = one["param_groups"]
    for n, part in enumerate([] if batches is None else batches.queue):
        tensors[f"batch/{n}"] = part
    left = 0 if batches is None else len(batches.queue)
    return tensors, {"loss": list(loss), "calm": calm, "left": left, "numbers": numbers, "groups": groups}


def _go_on(found: State, optimiser: Any, batches: Batches | None, family: Any, data: Annotations) -> None:
    """Put the state of a stopped fit back; the random stream was, and stays, where it left it."""
    tensors, told = found
    stream = torch.get_rng_state()
    with torch.no_grad():
        family(data)  # automatic guides make their parameters at their first call
    _restore(unpacked("guide", tensors))
    numbers = told["numbers"]
    optimiser.set_state(
        {
            name: {
                "state": {
                    0: unpacked(f"moment {name}", tensors)
                    | {key.removeprefix(f"{name}/"): v for key, v in numbers.items() if key.startswith(f"{name}/")}
                },
                "param_groups": groups,
            }
            for name, groups in told["groups"].items()
        }
    )
    if batches is not None:
        batches.queue = [tensors[f"batch/{n}"] for n in range(told["left"])]
    torch.set_rng_state(stream)


def _store() -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in pyro.get_param_store().named_parameters()}


def _restore(saved: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, value in pyro.get_param_store().named_parameters():
            value.copy_(saved[name])


def guide_of(
    model: AnnotationModel, data: Annotations, space: Space, first: Parameters, kind: str
) -> tuple[Callable[..., Any], str]:
    """Return the family of approximations and what to call it."""
    inside = {name: space.interior(name, value) for name, value in first.items()}
    start = init_to_value(values=inside)
    story = poutine.block(model.program, hide=["truth", "labels", "repeats"])
    if kind == "point":
        return _Positional(AutoDelta(story, init_loc_fn=start, create_plates=_plates)), "a point"
    if provides(model, "guide"):
        return _Positional(model.guide(data, first)), "the model's guide"
    name = "independent normals in unbounded coordinates"
    if not space.weights:
        return _Positional(AutoNormal(story, init_loc_fn=start, create_plates=_plates)), name
    weights = sorted(space.weights)
    both = AutoGuideList(story, create_plates=_plates)
    both.append(AutoDelta(poutine.block(story, expose=weights), init_loc_fn=start))
    if len(weights) < len(space.sizes):
        others = poutine.block(story, hide=weights)
        both.append(AutoNormal(others, init_loc_fn=start))
        name += ", a point for the weights of networks"
    return _Positional(both), name


class _Positional:
    """A guide called as the program is, data and batch, whatever else the program is told."""

    def __init__(self, family: Callable[..., Any]):
        self.family = family

    def __call__(self, data: Annotations, index: Tensor | None = None) -> Any:
        return self.family(data) if index is None else self.family(data, index)


def medians(guide: Callable[..., Any], data: Annotations, space: Space) -> Parameters:
    """Return a point of the guide: where it is a point its values, else a single draw's medians."""
    family = guide.family if isinstance(guide, _Positional) else guide
    if hasattr(family, "median"):
        with torch.no_grad():
            middle = family.median(data)
        return {name: middle[name].detach() for name in space.sizes}
    trace = poutine.trace(guide).get_trace(data)
    return {name: trace.nodes[name]["fn"].mean.detach() for name in space.sizes}


def _plates(data: Annotations, index: Tensor | None = None) -> list[Any]:
    plates = Plates.over(data.N, data.J, index)
    return [plates.item, plates.worker]


def guide_draws(
    guide: Callable[..., Any], data: Annotations, sites: list[str], weights: list[str], count: int
) -> tuple[Parameters, Parameters]:
    """Return draws of the sites, ``(1, count, ...)``, and the weights of networks, which the guide holds at a point."""
    drawn = []
    for _ in range(count):
        trace = poutine.trace(guide).get_trace(data)
        drawn.append({name: trace.nodes[name]["value"] for name in sites})
    fixed = {name: trace.nodes[name]["value"].detach() for name in weights}
    return {name: torch.stack([draw[name] for draw in drawn]).unsqueeze(0) for name in sites}, fixed
