"""Hamiltonian Monte Carlo of some chains at once, for what has no conditional in closed form.

Chains share the length of a leapfrog step, the scale of every coordinate and the number of steps of a trajectory, all of which
are adapted in the warm-up (:mod:`crowdppl.inference.backends.adaptation`), to the mean acceptance probability of the chains, and
fixed after it: from then on each chain is a Markov chain that leaves the target as it is. The length of a trajectory is random,
so that none returns to its start (R. M. Neal, 2011, MCMC using Hamiltonian dynamics, Handbook of Markov Chain Monte Carlo,
section 5.3.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from crowdppl.inference.backends.adaptation import DIVERGENT, EXTREME, Adapted, Target, scales

# Acceptance probability that the step size is tuned to.
ACCEPTANCE = 0.8
# Trajectories are as long as this on average, in standard deviations: a quarter turn, after which a normal start is forgotten.
LENGTH = math.pi / 2
# Leapfrog steps of a trajectory, at most.
MOST = 64
# Shares of the warm-up at which scales are learned anew, each time from the draws since the last.
WINDOWS = (0.1, 0.2, 0.4, 0.8)
# Halvings or doublings of the first step size.
TRIALS = 30


@dataclass
class Tuning(Adapted):
    """Where some chains are, and what has been adapted.

    Attributes:
        place: of the chains, ``(C, P)``.
        scale: of each coordinate, ``(P,)``.
        transitions: of all chains after the warm-up.
        accepted: sum of their acceptance probabilities.
        divergent: how many of them diverged.
        gradients: evaluations of the target after the warm-up, of all chains at once.
    """

    place: Tensor
    scale: Tensor
    log_step: float
    log_average: float
    centre: float
    lack: float
    updates: int
    mean: Tensor
    squares: Tensor
    number: int
    transitions: int = 0
    accepted: float = 0.0
    divergent: int = 0
    gradients: int = 0

    @classmethod
    def at(cls, place: Tensor, target: Target) -> Tuning:
        """Begin at a place ``(C, P)``, with a step size at which about ``ACCEPTANCE`` of single steps are accepted."""
        zeros = torch.zeros_like(place[0])
        out = cls(place, torch.ones_like(zeros), 0.0, 0.0, 0.0, 0.0, 0, zeros, zeros.clone(), 0)
        out.begin(target)
        return out

    def begin(self, target: Target) -> None:
        """Look for a step size, and adapt it from there."""
        start = target(self.place)
        step, way = math.exp(self.log_step), 0
        for _ in range(TRIALS):
            change = self._trajectory(target, start, step, 1)[2]
            up = float(change.exp().mean()) > ACCEPTANCE
            if way and up != (way > 0):
                break
            way = 1 if up else -1
            step *= 2.0**way
        self.begin_averaging(max(-EXTREME, min(EXTREME, math.log(step))), times=2)

    def transition(self, target: Target, warmup: tuple[int, int] | None) -> None:
        """Take a trajectory in every chain.

        Args:
            target: the log density.
            warmup: number of this transition and length of the warm-up; ``None`` after it.
        """
        step = math.exp(self.log_average if warmup is None else self.log_step)
        jitter = 2 * float(torch.rand((), dtype=torch.float64))
        steps = min(MOST, max(1, math.ceil(jitter * LENGTH / step)))
        start = target(self.place)
        end, _, change = self._trajectory(target, start, step, steps)
        accepted = torch.rand_like(change).log() < change
        self.place = torch.where(accepted.unsqueeze(-1), end, self.place)
        probability = change.exp()
        if warmup is None:
            self.transitions += len(change)
            self.accepted += float(probability.sum())
            self.divergent += int((change < -DIVERGENT).sum())
            self.gradients += steps + 1
        else:
            self._adapt(target, probability, *warmup)

    def _trajectory(
        self, target: Target, start: tuple[Tensor, Tensor], step: float, steps: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the ends of trajectories ``(C, P)``, their densities, and the log of the acceptance probabilities ``(C,)``."""
        density, slope = start
        velocity = torch.randn_like(self.place)
        energy = density - velocity.square().sum(-1) / 2
        place = self.place
        for _ in range(steps):
            velocity = velocity + step / 2 * self.scale * slope
            place = place + step * self.scale * velocity
            density, slope = target(place)
            velocity = velocity + step / 2 * self.scale * slope
        change = density - velocity.square().sum(-1) / 2 - energy
        return place, density, change.nan_to_num(nan=-math.inf, posinf=-math.inf).clamp(max=0.0)

    def _adapt(self, target: Target, probability: Tensor, number: int, length: int) -> None:
        """Learn from a transition of the warm-up."""
        self.learn_step(ACCEPTANCE - float(probability.mean()))
        for place in self.place:
            self.learn_place(place)
        ends = [int(share * length) for share in WINDOWS]
        if number + 1 in ends:
            if number + 1 != ends[0] and self.number > 1:
                self.scale = scales(self.squares / (self.number - 1), self.number)
            self.mean, self.squares, self.number = torch.zeros_like(self.mean), torch.zeros_like(self.squares), 0
            self.log_step = self.log_average
            self.begin(target)
