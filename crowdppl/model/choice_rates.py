"""Logits of choosing a label, for each worker, label and truth, around those of the crowd: raised to their mode, and drawn.

    crowd   m_lz   ~ Normal(mean_z, crowd_scale)
    worker  x_jlz  ~ Normal(m_lz, spread)
    chosen  of n_jlz decisions  ~ Binomial(n_jlz, sigmoid(x_jlz))

Both steps take the crowd's logits twice: given the workers' logits, and together with them, the workers' deviations held. The
first alone moves slowly where workers have few annotations (interweaving: Y. Yu and X.-L. Meng 2011, Journal of Computational and
Graphical Statistics 20, 531-570).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from crowdppl.model.metropolis import LONGEST, moved

# How often a Newton step is halved before it is given up.
HALVINGS = 6
# Falls of the objective below this are rounding, relative to it.
ROUNDING = 1e-13


class Decisions(NamedTuple):
    """Expected or drawn numbers of decisions, ``(..., J, L, 2)`` = (worker, label, truth): all, and those for the label."""

    number: Tensor
    chosen: Tensor

    def fit(self, logits: Tensor) -> Tensor:
        """Return the log-likelihood of logits ``(..., J, L, 2)``."""
        return self.chosen * logits + self.number * logsigmoid(-logits)

    def slopes(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return its first derivative, and minus the second."""
        p = logits.sigmoid()
        return self.chosen - self.number * p, self.number * p * (1 - p)


class ChoicePrior(NamedTuple):
    """Prior mean of the crowd's logits ``(2,)``, their standard deviation, and that of workers around the crowd."""

    mean: Tensor
    crowd_scale: float
    spread: float


def raised(
    crowd: Tensor, logits: Tensor, decisions: Decisions, prior: ChoicePrior, rounds: int
) -> tuple[Tensor, Tensor]:
    """Return crowd ``(L, 2)`` and logits ``(J, L, 2)`` after Newton steps, which never lower the log joint."""
    precision, own = prior.spread**-2, prior.crowd_scale**-2

    def workers(x: Tensor) -> Tensor:
        return decisions.fit(x) - precision * (x - crowd).square() / 2

    def together(m: Tensor) -> Tensor:
        return decisions.fit(m + off).sum(-3) - own * (m - prior.mean).square() / 2

    for _ in range(rounds):
        slope, curve = decisions.slopes(logits)
        logits = _climbed(logits, (slope - precision * (logits - crowd)) / (curve + precision), workers)
        crowd = (precision * logits.sum(-3) + own * prior.mean) / (precision * logits.shape[-3] + own)
        off = logits - crowd
        slope, curve = (part.sum(-3) for part in decisions.slopes(logits))
        crowd = _climbed(crowd, (slope - own * (crowd - prior.mean)) / (curve + own), together)
        logits = crowd + off
    return crowd, logits


def _climbed(value: Tensor, step: Tensor, objective: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the value after a step that is halved, each number on its own, until the objective does not fall."""
    before, step = objective(value), step.clamp(-LONGEST, LONGEST)
    before = before - ROUNDING * (1 + before.abs())
    for _ in range(HALVINGS):
        worse = objective(value + step) < before
        if not bool(worse.any()):
            return value + step
        step = torch.where(worse, step / 2, step)
    return value + torch.where(objective(value + step) < before, 0.0, step)


def drawn(crowd: Tensor, logits: Tensor, decisions: Decisions, prior: ChoicePrior) -> tuple[Tensor, Tensor]:
    """Draw crowd ``(..., L, 2)`` and logits ``(..., J, L, 2)`` by steps that leave their posterior unchanged.

    Metropolis-Hastings steps of :mod:`crowdppl.model.metropolis`.
    """
    precision, own = prior.spread**-2, prior.crowd_scale**-2
    centre = crowd.unsqueeze(-3)

    def workers(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        slope, curve = decisions.slopes(x)
        density = decisions.fit(x) - precision * (x - centre).square() / 2
        return density, slope - precision * (x - centre), curve + precision

    logits = moved(logits, workers)
    number = logits.shape[-3]
    total = precision * number + own
    mean = (precision * logits.sum(-3) + own * prior.mean) / total
    crowd = mean + torch.randn_like(mean) * total**-0.5
    off = logits - crowd.unsqueeze(-3)

    def together(m: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = m.unsqueeze(-3) + off
        slope, curve = (part.sum(-3) for part in decisions.slopes(x))
        density = decisions.fit(x).sum(-3) - own * (m - prior.mean).square() / 2
        return density, slope - own * (m - prior.mean), curve + own

    crowd = moved(crowd, together)
    return crowd, crowd.unsqueeze(-3) + off
