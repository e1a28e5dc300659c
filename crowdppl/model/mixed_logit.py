"""Draws of a logistic regression with random effects: fixed effects, and effects of units such as workers and items.

    x_n = sum over terms of their effects,  y_n ~ Bernoulli(sigmoid(x_n)),  effect of a unit ~ Normal(0, spread)

Every step leaves the posterior of ``C`` chains unchanged. Effects take the steps of :mod:`crowdppl.model.metropolis`. What
likelihoods do not tell apart, such as a level that two terms share, moves between them by exact draws (J. S. Liu and C. Sabatti
2000, Generalised Gibbs sampler and multigrid Monte Carlo for Bayesian computation, Biometrika 87, 353-369). A spread is drawn
given its effects and, where these are small, moved together with them (Y. Yu and X.-L. Meng 2011, Journal of Computational and
Graphical Statistics 20, 531-570).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Gamma
from torch.nn.functional import softplus

from crowdppl.model.metropolis import moved, moved_together

# A step that scales effects and their spread changes the log by a normal number times 10 to the power of 0 to -LEAST.
LEAST = 2.0


class Regression:
    """Outcomes ``(C, A)`` and log odds ``(C, A)`` of chains, and draws of the effects that these are made of.

    Args:
        outcome: 1 or 0, ``(C, A)``.
        weight: power of the likelihood of each, ``(A,)``; ``None`` for 1.
        log_odds: at the present effects, ``(C, A)``.
    """

    def __init__(self, outcome: Tensor, weight: Tensor | None, log_odds: Tensor):
        self.outcome, self.log_odds = outcome, log_odds
        self.weight = torch.ones_like(outcome[0]) if weight is None else weight

    def fit(self, log_odds: Tensor) -> Tensor:
        """Return the log-likelihood of each outcome, ``(C, A)``."""
        return self.weight * (self.outcome * log_odds - softplus(log_odds))

    def slopes(self, log_odds: Tensor) -> tuple[Tensor, Tensor]:
        """Return its first derivative, and minus the second."""
        p = log_odds.sigmoid()
        return self.weight * (self.outcome - p), self.weight * p * (1 - p)

    def of_units(
        self, effect: Tensor, unit: Tensor, mean: Tensor | float, precision: Tensor, along: Tensor | None = None
    ) -> Tensor:
        """Draw effects ``(C, U)`` of units, with independent normal priors.

        Args:
            effect: present values.
            unit: of each outcome, ``(A,)`` or ``(C, A)``.
            mean: of the prior, which broadcasts with ``effect``.
            precision: of the prior, likewise.
            along: what each effect is multiplied by in the log odds, ``(A,)``; ``None`` for 1.
        """
        unit = unit.expand_as(self.outcome)

        def contained(value: Tensor) -> Tensor:
            own = value.gather(-1, unit)
            return own if along is None else own * along

        rest = self.log_odds - contained(effect)

        def by_unit(values: Tensor) -> Tensor:
            return torch.zeros_like(effect).scatter_add(-1, unit, values)

        def target(value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            x, off = rest + contained(value), value - mean
            slope, curve = self.slopes(x)
            if along is not None:
                slope, curve = slope * along, curve * along.square()
            density = by_unit(self.fit(x)) - precision * off.square() / 2
            return density, by_unit(slope) - precision * off, by_unit(curve) + precision

        effect = moved(effect, target)
        self.log_odds = rest + contained(effect)
        return effect

    def of_columns(self, effect: Tensor, columns: Tensor, precision: float) -> Tensor:
        """Draw effects ``(C, P)`` of columns ``(A, P)``, whose priors have mean 0 and one precision."""
        rest = self.log_odds - effect @ columns.mT
        eye = precision * torch.eye(columns.shape[-1], dtype=effect.dtype, device=effect.device)

        def target(value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            x = rest + value @ columns.mT
            slope, curve = self.slopes(x)
            density = self.fit(x).sum(-1) - precision * value.square().sum(-1) / 2
            information = torch.stack([(columns * one.unsqueeze(-1)).mT @ columns for one in curve])
            return density, slope @ columns - precision * value, information + eye

        effect = moved_together(effect, target)
        self.log_odds = rest + effect @ columns.mT
        return effect

    def rescaled(self, spread: Tensor, effect: Tensor, own: Tensor, prior_scale: float) -> tuple[Tensor, Tensor]:
        """Move a spread ``(C,)`` and its effects by the same factor; the spread's prior is half-normal.

        Args:
            spread: standard deviation of the effects.
            effect: all of them, ``(C, ...)``.
            own: what they add to the log odds, ``(C, A)``.
            prior_scale: of the spread.
        """
        size = 10 ** (-LEAST * torch.rand_like(spread))
        step = size * torch.randn_like(spread)
        x = self.log_odds + own * (step.exp() - 1).unsqueeze(-1)
        gain = (self.fit(x) - self.fit(self.log_odds)).sum(-1)
        # The effects' prior loses what their change of scale gains; the spread's own change of scale remains.
        gain = gain + step + _half_normal(spread * step.exp(), prior_scale) - _half_normal(spread, prior_scale)
        accepted = torch.rand_like(gain).log() < gain
        factor = torch.where(accepted, step.exp(), 1.0)
        self.log_odds = torch.where(accepted.unsqueeze(-1), x, self.log_odds)
        return spread * factor, effect * factor.view(-1, *[1] * (effect.dim() - 1))


def spread_given(effect: Tensor, spread: Tensor, prior_scale: float) -> Tensor:
    """Draw the standard deviation ``(C,)`` of effects ``(C, ...)``, whose prior is half-normal.

    An independence step: the proposal is the inverse gamma distribution of the variance that the effects alone give.
    """
    effect = effect.flatten(1)
    half, total = effect.shape[-1] / 2, effect.square().sum(-1) / 2
    rate = total.clamp(min=torch.finfo(total.dtype).tiny)
    proposed = (rate / Gamma(torch.full_like(rate, half), torch.ones_like(rate)).sample()).sqrt()
    gain = proposed.log() - spread.log() + _half_normal(proposed, prior_scale) - _half_normal(spread, prior_scale)
    return torch.where(torch.rand_like(gain).log() < gain, proposed, spread)


def shift(
    first: tuple[Tensor, Tensor],
    second: tuple[Tensor, Tensor],
    along: tuple[Tensor | float, Tensor | float] = (1.0, 1.0),
) -> Tensor:
    """Draw the amount ``(...)`` by which one set of effects rises and another falls, which leaves all log odds as they are.

    Args:
        first: deviations of the effects that rise from their prior means ``(..., U)``, and precisions that broadcast with them.
        second: likewise of those that fall.
        along: by how much each of them changes per unit of the amount, ``(U,)`` each or a number.
    """
    rise, fall = (torch.as_tensor(part, dtype=first[0].dtype, device=first[0].device) for part in along)
    precision = (first[1] * rise.square()).expand_as(first[0]).sum(-1)
    precision = precision + (second[1] * fall.square()).expand_as(second[0]).sum(-1)
    pull = (second[1] * fall * second[0]).sum(-1) - (first[1] * rise * first[0]).sum(-1)
    return pull / precision + torch.randn_like(precision) * precision**-0.5


def _half_normal(value: Tensor, scale: float) -> Tensor:
    """Return the log density without its constant."""
    return -(value / scale).square() / 2
