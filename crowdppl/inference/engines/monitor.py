"""Sums over blocks of sweeps while a sampler runs, and what they say: have the chains converged?

What is watched is what results report: workers' accuracy, the prevalence of classes, confusion matrices, and the class
probabilities of items, ``p(truth_i = k | labels, parameters of the sweep)``. The last are *Rao-Blackwellised* (Gelfand and Smith
1990): the probability is averaged, not the drawn class. Of each quantity a block of consecutive sweeps leaves its mean in each
chain and its mean square. Memory therefore holds some ``BLOCKS`` numbers for each quantity and chain, however long the run:
when all blocks are full, neighbours are merged, and blocks hold twice as many sweeps from then on.

*Split R-hat* (Gelman and Rubin 1992; split as in Vehtari et al. 2021) follows from the moments of half chains. It is not
rank-normalised, which would need all draws; probabilities are bounded, so their variances exist. The *effective sample size* is
the number of sweeps times the ratio of the variance of a quantity to its long-run variance, which replicated batch means
estimate (Argon and Andradottir 2006; Gupta and Vats 2020): the variance of means of batches around the mean of all chains, so
that chains that disagree lower it. The *Monte Carlo standard error* of a mean follows from the same variance.

**The rule.** A run has converged if R-hat is at most 1.01 and the effective sample size at least 400 for every quantity,
except those that are constant to reported precision: Monte Carlo standard error below ``PRECISION``, and chain means within
``AGREEMENT`` of each other. Without that exception, the largest R-hat would measure how many quantities there are. If chains
agree, the ``2C`` half chains of ``C`` chains have R-hat**2 - 1 = (2C / ESS) * chi2(2C - 1) / (2C - 1): for four chains and an
effective sample size of 1,000 it is 1.004 on average, yet the largest of 160,000 (40,000 items of four classes) is expected
at 1.02, by chance alone. Most of these items are certain: their probability moves in the fourth digit, and a large *ratio* of
variances is of no consequence. The exception can not hide a stuck chain: one that holds another probability is apart from the
others by more than ``AGREEMENT``. And whatever R-hat is, chains whose probabilities of a class of an item are more than
``DISAGREEMENT`` apart have not converged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

# Vehtari et al. (2021), Rank-normalization, folding, and localization, Bayesian Analysis 16(2).
RHAT_LIMIT = 1.01
ESS_LIMIT = 400
# A probability is reported with two or three digits: with a smaller Monte Carlo error it is constant.
PRECISION = 1e-3
# Chain means of such a quantity are at most this far apart.
AGREEMENT = 0.02
# Chains whose probabilities of an item's class are further apart disagree about it.
DISAGREEMENT = 0.1
# Between-chain variance of the worst quantity, in terms of what the variation within chains explains (an F statistic with C - 1
# degrees of freedom), above which chains are in different modes: a longer run would not make them agree.
MODES = 12.0
# Chains of fewer sweeps may not have left their starts yet.
MODES_SWEEPS = 500
# Blocks of sweeps in memory, at most; fewer where there are many quantities.
BLOCKS = (64, 32)
# Bytes of the moments of all blocks.
MOMENT_BYTES = 2**29
# R-hat of chains that do not move is infinite, which JSON cannot hold.
LARGEST = 1e3
# Quantities whose moments are worked on at a time.
_CHUNK = 2**13
# Fewer blocks than this say nothing.
_FEWEST = 4


@dataclass
class BlockMoments:
    """Means and mean squares of ``Q`` quantities in blocks of sweeps of ``c`` chains that run side by side.

    Attributes:
        means: of each block, in excess of ``origin``, ``(c, blocks, Q)``, single precision.
        squares: mean squares of the same excess, summed over chains, ``(blocks, Q)``.
        origin: values of the first sweep, ``(Q,)``: differences from it lose no digits.
        total: sum of the block that is being filled, ``(c, Q)``.
        total_squares: likewise, ``(Q,)``.
        length: sweeps in a block.
        full: number of full blocks.
        count: sweeps in the block that is being filled.
    """

    means: Tensor
    squares: Tensor
    origin: Tensor
    total: Tensor
    total_squares: Tensor
    length: int = 1
    full: int = 0
    count: int = 0

    @classmethod
    def empty(
        cls, chains: int, quantities: int, like: Tensor, blocks: int = BLOCKS[0], sweeps: int = 0
    ) -> BlockMoments:
        """Return block moments without sweeps, on the device and with the floating type of ``like``.

        ``sweeps`` is how many there will be, if that is known: blocks then have the length that they would end with.
        """
        small: dict[str, Any] = {"dtype": torch.float32, "device": like.device}
        return cls(
            means=torch.zeros(chains, blocks, quantities, **small),
            squares=torch.zeros(blocks, quantities, **small),
            origin=like.new_zeros(quantities),
            total=like.new_zeros(chains, quantities),
            total_squares=like.new_zeros(quantities),
            length=_length(sweeps, blocks),
        )

    @classmethod
    def of(cls, values: Tensor) -> BlockMoments:
        """Return the moments of sweeps ``(c, sweeps, Q)`` that have all been taken."""
        out = cls.empty(len(values), values.shape[-1], values, sweeps=values.shape[1])
        out.origin, out.full = values[0, 0].clone(), values.shape[1] // out.length
        blocks = (values[:, : out.sweeps] - out.origin).unflatten(1, (out.full, out.length))
        out.means[:, : out.full] = blocks.mean(2).to(out.means.dtype)
        out.squares[: out.full] = blocks.square().mean(2).sum(0).to(out.squares.dtype)
        return out

    @property
    def sweeps(self) -> int:
        """Number of sweeps in full blocks."""
        return self.length * self.full

    @property
    def room(self) -> int:
        """Number of sweeps until the block that is being filled is full; but 1 before the first, whose values are the origin."""
        return 1 if self.full == self.count == 0 else self.length - self.count

    def add(self, values: Tensor) -> None:
        """Add the quantities after one sweep, ``(c, Q)``."""
        values = values - self.origin
        self.total += values
        self.total_squares += torch.linalg.vecdot(values, values, dim=0)
        self.added(1)

    def added(self, sweeps: int) -> None:
        """Count sweeps, at most as many as there is room for, whose excess and squares have been added to the sums."""
        if self.full == self.count == 0:
            self.origin = self.total[0].clone()
            self.total -= self.origin
            self.total_squares = torch.linalg.vecdot(self.total, self.total, dim=0)
        self.count += sweeps
        if self.count < self.length:
            return
        if self.full == self.means.shape[1]:
            self._merge()
            if self.count < self.length:
                return
        self.means[:, self.full] = (self.total / self.length).to(self.means.dtype)
        self.squares[self.full] = (self.total_squares / self.length).to(self.squares.dtype)
        self.full += 1
        self.count = 0
        self.total.zero_()
        self.total_squares.zero_()

    def _merge(self) -> None:
        half = self.full // 2
        self.means[:, :half] = (self.means[:, : 2 * half : 2] + self.means[:, 1 : 2 * half : 2]) / 2
        self.squares[:half] = (self.squares[: 2 * half : 2] + self.squares[1 : 2 * half : 2]) / 2
        self.full, self.length = half, 2 * self.length


@dataclass(frozen=True)
class Diagnosis:
    """What block moments say of a run.

    Attributes:
        r_hat: largest split R-hat of each kind of quantity; kinds that are constant to reported precision are missing.
        ess: smallest effective sample size of each, likewise.
        disagreeing: rows of the items whose class probabilities differ between chains by more than ``DISAGREEMENT``.
        modes: whether chains are in different modes, as far as their own variation tells.
        sweeps: sweeps of each chain that this is about.
    """

    r_hat: dict[str, float] = field(default_factory=dict)
    ess: dict[str, float] = field(default_factory=dict)
    disagreeing: list[int] = field(default_factory=list)
    modes: bool = False
    sweeps: int = 0

    @property
    def converged(self) -> bool:
        """Whether the rule above holds."""
        return (
            self.sweeps > 0
            and not self.disagreeing
            and max(self.r_hat.values(), default=1.0) <= RHAT_LIMIT
            and min(self.ess.values(), default=math.inf) >= ESS_LIMIT
        )

    @property
    def progress(self) -> float:
        """How far the run is, from 0 to 1: effective sample size and excess of R-hat, both in proportion to the sweeps."""
        if self.converged:
            return 1.0
        ess = min(self.ess.values(), default=0.0) / ESS_LIMIT
        excess = max(self.r_hat.values(), default=1.0) - 1
        return min(0.99, ess, (RHAT_LIMIT - 1) / excess if excess > 0 else 1.0)

    def facts(self, chains: int) -> dict[str, Any]:
        """Return what a result records of so many chains, of which a single one has no R-hat."""
        facts = {"ess": self.ess, "converged": self.converged, "modes": self.modes}
        return facts | ({"r_hat": self.r_hat} if chains > 1 else {})


@dataclass(frozen=True)
class Layout:
    """Where the quantities of each kind are.

    Attributes:
        kinds: first and last place (exclusive) of each kind.
        classes: columns for each item, of the kind ``truth``: one for two classes, which one number determines.
    """

    kinds: Mapping[str, tuple[int, int]]
    classes: int


def diagnose(groups: Sequence[BlockMoments], layout: Layout, discard: float = 0.0) -> Diagnosis:
    """Judge a run by its moments.

    Args:
        groups: of chains, all of the same sweeps.
        layout: of the quantities.
        discard: share of the first blocks to leave out.
    """
    full = min(group.full for group in groups)
    first = int(full * discard)
    if full - first < _FEWEST:
        return Diagnosis()
    parts, summaries = list[str](), list[Tensor]()
    apart = [torch.zeros(0, dtype=torch.bool, device=groups[0].means.device)]
    for kind, (begin, end) in layout.kinds.items():
        for start in range(begin, end, _CHUNK):
            stats = _statistics(groups, first, full, slice(start, min(start + _CHUNK, end)))
            parts.append(kind)
            summaries.append(stats.summary())
            if kind == "truth":
                apart.append(stats.spread > DISAGREEMENT)
    disagree = torch.cat(apart)
    # The host reads once, and once more if chains disagree about items: on a GPU each read waits for all earlier work.
    *numbers, count = torch.cat([*summaries, disagree.sum(0, keepdim=True)]).tolist()
    r_hat: dict[str, float] = {}
    ess: dict[str, float] = {}
    worst, modes = RHAT_LIMIT, False
    for n, kind in enumerate(parts):
        some, largest, ratio, smallest = numbers[4 * n : 4 * n + 4]
        if not some:
            continue
        r_hat[kind] = max(r_hat.get(kind, 1.0), min(largest, LARGEST))
        ess[kind] = min(ess.get(kind, math.inf), smallest)
        if largest > worst:
            worst, modes = largest, ratio > MODES
    at = disagree.cpu().nonzero().squeeze(-1).tolist() if count else []
    disagreeing = {place // layout.classes for place in at}
    sweeps = (full - first) * groups[0].length
    return Diagnosis(r_hat, ess, sorted(disagreeing), modes and sweeps >= MODES_SWEEPS, sweeps)


def of_draws(values: Mapping[str, Tensor]) -> Diagnosis:
    """Judge draws ``(chain, draw, ...)`` of some quantities by name, as a run of so many sweeps."""
    flat = {name: value.flatten(2) if value.dim() > 2 else value.unsqueeze(-1) for name, value in values.items()}
    together = torch.cat(list(flat.values()), dim=-1)
    return diagnose(
        [BlockMoments.of(together)], Layout(places({name: value.shape[-1] for name, value in flat.items()}), 1)
    )


def _length(sweeps: int, blocks: int) -> int:
    """Return the length of ``blocks`` blocks, at most, that hold so many sweeps: a power of two."""
    return 1 << max(0, (-(-sweeps // blocks) - 1).bit_length())


def places(sizes: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Return first and last place of each kind of quantity, given how many there are of each."""
    out, begin = {}, 0
    for name, size in sizes.items():
        out[name] = (begin, begin + size)
        begin += size
    return out


@dataclass(frozen=True)
class _Statistics:
    """Of each quantity, ``(Q,)``: split R-hat, ESS, Monte Carlo error, spread of chain means, F statistic of the chains."""

    r_hat: Tensor
    ess: Tensor
    error: Tensor
    spread: Tensor
    ratio: Tensor

    def summary(self) -> Tensor:
        """Return, of what is not constant to reported precision, ``(4,)``.

        Whether there is any, the largest R-hat and the F statistic there, and the smallest ESS.
        """
        counted = (self.error >= PRECISION) | (self.spread >= AGREEMENT)
        largest, where = self.r_hat.where(counted, 1.0).max(0)
        ess = self.ess.where(counted, math.inf).min()
        return torch.stack([counted.any().to(largest), largest, self.ratio.take(where), ess])


def _statistics(groups: Sequence[BlockMoments], first: int, full: int, part: slice) -> _Statistics:
    count, half = full - first, (full - first) // 2
    length = groups[0].length
    means, within = [], torch.zeros(())
    for group in groups:
        mean = group.means[:, first:full, part].double()  # (c, blocks, q)
        squares = group.squares[first:full, part].double()
        for piece in (slice(0, half), slice(count - half, count)):
            variance = squares[piece].mean(0) - mean[:, piece].mean(1).square().sum(0)
            within = within + variance.clamp(min=0) / 2
        means.append(mean + group.origin[part].double())
    m = torch.cat(means)  # (C, blocks, q)
    C = len(m)
    sweeps = half * length
    within = within / C * (sweeps / max(1, sweeps - 1))
    halves = torch.cat([m[:, :half].mean(1), m[:, count - half :].mean(1)])
    pooled = within * (1 - 1 / sweeps) + halves.var(0)
    tiny = torch.finfo(m.dtype).tiny
    # Chains that do not move at all have R-hat 1 where they agree.
    r_hat = torch.where(pooled > 0, (pooled / within.clamp(min=tiny)).sqrt(), 1.0)
    # Batches of two blocks, where there are many: longer than a block is correlated with the next.
    pair = 2 if count >= BLOCKS[-1] else 1
    batches = m[:, count % pair :].unflatten(1, (-1, pair)).mean(2)
    number = batches.shape[1]
    chain = batches.mean(1)
    total = C * number * pair * length
    around = (batches - chain.mean(0)).square().sum((0, 1)) / (C * number - 1)
    own = (batches - chain.unsqueeze(1)).square().sum((0, 1)) / (C * (number - 1))
    ess = torch.where(around > 0, total * pooled / (around * pair * length).clamp(min=tiny), float(total))
    spread = chain.amax(0) - chain.amin(0)
    ratio = number * chain.var(0) / own.clamp(min=tiny) if C > 1 else torch.zeros_like(spread)
    return _Statistics(r_hat, ess.clamp(max=total), (around / (C * number)).sqrt(), spread, ratio)
