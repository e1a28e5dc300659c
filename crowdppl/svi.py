"""Stochastic variational inference: Pyro's SVI with the truth enumerated exactly."""

from __future__ import annotations

import math
from typing import Any

import pyro
import torch
from pyro import poutine
from pyro.infer import SVI, TraceEnum_ELBO
from pyro.infer.autoguide import AutoNormal
from pyro.infer.autoguide.initialization import init_to_value
from torch import Tensor

from crowdppl.annotations import Annotations
from crowdppl.draws import Draws, Report, positive, thinning, whole
from crowdppl.errors import ModelError
from crowdppl.model import AnnotationModel, Parameters, check, provides
from crowdppl.mstep import MStep
from crowdppl.plates import Plates
from crowdppl.space import Space

HOW = (
    "draws from a variational approximation ({guide}, fitted by SVI), whose sites are independent of each other: intervals "
    "tend to be too narrow; method='gibbs' or 'nuts' gives posterior draws"
)


def svi(
    model: AnnotationModel,
    data: Annotations,
    report: Report,
    *,
    max_iter: int = 3000,
    tol: float = 1e-5,
    learning_rate: float = 0.05,
    batch_size: int | None = None,
    num_samples: int = 1000,
) -> Draws:
    """Fit a guide to the posterior of the parameters.

    Args:
        model: its own ``guide``, else an automatic normal one.
        data: the judgements.
        report: called with progress.
        max_iter: most gradient steps.
        tol: stop early where the mean loss of a window of steps falls by less than this fraction of itself.
        learning_rate: of Adam; it falls to a tenth over ``max_iter`` steps.
        batch_size: items a step; all of them where not given.
        num_samples: draws from the fitted guide.
    """
    whole("max_iter", max_iter, 1)
    positive("tol", tol, zero=True)
    positive("learning_rate", learning_rate)
    whole("num_samples", num_samples, 1)
    if batch_size is not None:
        whole("batch_size", batch_size, 1)
    space = Space(check(model, data))
    with torch.no_grad():
        first = MStep(model, data, space).start(model.initial(data))
    if provides(model, "guide"):
        guide, name = model.guide(data, first), "the model's guide"
    else:
        guide = AutoNormal(
            poutine.block(model.program, hide=["truth", "labels"]),
            init_loc_fn=init_to_value(values={k: space.interior(k, v) for k, v in first.items()}),
            create_plates=_plates,
        )
        name = "independent normals in unbounded coordinates"
    optimiser = pyro.optim.ClippedAdam(
        {"lr": learning_rate, "lrd": 0.1 ** (1 / max_iter), "betas": (0.9, 0.99), "clip_norm": 1e12}
    )
    steps = SVI(model.program, guide, optimiser, TraceEnum_ELBO(max_plate_nesting=1))
    full = batch_size is None or batch_size >= data.N
    batches = None if full else _Batches(data.N, int(batch_size or 0), data.device)
    window = max(50, batches.per_epoch if batches else 0)
    loss: list[float] = []
    converged, calm = False, 0
    for step in range(max_iter):
        loss.append(steps.step(data) if batches is None else steps.step(data, next(batches)))
        if not math.isfinite(loss[-1]):
            raise ModelError(
                f"{type(model).__name__}: the loss of SVI is {loss[-1]} at step {step + 1}; lower learning_rate, or check that "
                f"every label is possible under the model"
            )
        if step % 20 == 0:
            report(step, max_iter, f"loss {loss[-1]:.2f}")
        if (step + 1) % window == 0 and step + 1 >= 2 * window:
            now, before = (sum(part) / window for part in (loss[-window:], loss[-2 * window : -window]))
            calm = calm + 1 if before - now < tol * abs(now) else 0
            if calm == 2:
                converged = True
                break
    count = max(1, num_samples // thinning(space.size, data, num_samples))
    with torch.no_grad():
        samples = _guide_draws(guide, data, list(space.sizes), count)
    facts = {
        "converged": converged,
        "iterations": len(loss),
        "loss": loss[-1],
        "batch_size": None if full else batch_size,
    }
    told = [] if converged else [f"SVI stopped after {len(loss)} steps before its loss stood; raise max_iter"]
    return Draws(
        samples,
        "approximation",
        HOW.format(guide=name),
        trace={"loss": torch.tensor(loss, dtype=torch.float64)},
        facts=facts,
        warnings=told,
    )


class _Batches:
    """Batches of items without end: every epoch a new order, every item once."""

    def __init__(self, items: int, size: int, device: torch.device):
        self.items, self.size, self.device = items, size, device
        self.per_epoch = -(-items // size)
        self.queue: list[Tensor] = []

    def __next__(self) -> Tensor:
        if not self.queue:
            self.queue = list(torch.randperm(self.items, device=self.device).split(self.size))
        return self.queue.pop()


def _plates(data: Annotations, index: Tensor | None = None) -> list[Any]:
    plates = Plates.over(data.N, data.J, index)
    return [plates.item, plates.worker]


def _guide_draws(guide: object, data: Annotations, sites: list[str], count: int) -> Parameters:
    drawn = []
    for _ in range(count):
        trace = poutine.trace(guide).get_trace(data)
        drawn.append({name: trace.nodes[name]["value"] for name in sites})
    return {name: torch.stack([draw[name] for draw in drawn]).unsqueeze(0) for name in sites}
