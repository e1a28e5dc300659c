"""Gibbs sampling: truths given parameters, parameters given truths, by exact conditionals where a model has them.

A run in turns, judged for convergence; the sweeps themselves are those of :mod:`crowdppl.inference.backends.samplers`.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError
from crowdppl.inference.backends import choose
from crowdppl.inference.backends.runs import Group, GroupState
from crowdppl.inference.checkpoint import Checkpoint
from crowdppl.inference.draws import Draws
from crowdppl.inference.engines.monitor import BLOCKS, MOMENT_BYTES, BlockMoments, Diagnosis, Layout, diagnose, places
from crowdppl.inference.engines.unconstrained import Space
from crowdppl.inference.hooks import SILENT, Hooks
from crowdppl.inference.memory import KEPT, affordable, thinned_note, thinning
from crowdppl.inference.options import Gibbs
from crowdppl.isolation import limited_threads
from crowdppl.model.base import Parameters
from crowdppl.model.bound import BoundModel
from crowdppl.model.contract import check

INTERVAL_METHOD = "draws from the posterior (Gibbs sampling with exact conditionals)"
BY_GRADIENTS = "draws from the posterior (Gibbs sampling with steps of Hamiltonian Monte Carlo)"
DIVERGED = "{} trajectories diverged: the sampler may have missed part of the posterior; raise warmup=..., or use method='nuts'"
# A run without num_samples goes on in turns of so many sweeps, and is judged when it has grown by a fifth.
TURN = 32
FIRST_CHECK = 8 * TURN
GROWTH = 1.2
# With more cells in all confusion matrices, convergence is judged by the diagonals.
CELLS = 20_000
# Shares of the sweeps after the warm-up that are left out if that makes the run converge.
DISCARDED = (0.0, 0.5)


@dataclass
class GibbsState:
    """The state of a sampler between two sweeps.

    Attributes:
        groups: of chains that have begun.
        number: of the group that is being sampled.
        target: sweeps that each group has at the end of this turn.
        warmup: sweeps before what counts.
        check: sweeps after the warm-up at which the run is judged next.
        step: one of so many sweeps is kept.
        seconds: that the run has taken.
    """

    groups: list[GroupState]
    number: int
    target: int
    warmup: int
    check: int
    step: int
    seconds: float


def gibbs(model: BoundModel, data: Annotations, options: Gibbs, hooks: Hooks = SILENT) -> Draws:
    """Sample the posterior of a model by conditionals and gradients.

    Without ``num_samples`` the run ends when it has converged by the rule of :mod:`crowdppl.inference.engines.monitor`: it is
    judged after ``FIRST_CHECK`` sweeps beyond the warm-up and whenever it has grown by a fifth, which depends on draws only, so
    that the same seed gives the same result. Where the first half is a trend and the second half converges, the first is
    discarded. Beyond ``max_seconds`` the run ends as it is, and the result says so. ``KEPT`` draws are stored, evenly spaced over
    the sweeps that count.

    Args:
        model: any whose sites have a step of the model's own, conjugate counts or gradients.
        data: the annotations.
        options: all of Gibbs sampling's. Fewer sweeps than ``warmup`` are discarded only where they take half of
            ``max_seconds``, which is the time over all calls that continue from a checkpoint.
        hooks: called between steps; a stopped fit continues from its checkpoint.

    Raises:
        ModelError: for data or a discrete site that cannot be sampled so.
    """
    reason = model.why_not_gibbs(data)
    if reason is not None:
        check(model, data)  # what no engine can sample is said first
        raise ModelError(reason)
    chains, warmup, num_samples = options.chains, options.warmup, options.num_samples
    run = _Run(model, data, chains, warmup, num_samples)
    # Inference mode: no bookkeeping for gradients, a tenth of a small sweep. The data's cached counts were computed by the
    # check above, outside of it.
    with torch.inference_mode(), limited_threads(run.sampler.torch_threads), closing(run.sampler):
        run.resume(hooks.keep)
        if num_samples is None:
            diagnosis, discard = run.until_converged(hooks, options.max_seconds)
        else:
            run.turn(warmup + num_samples, hooks)
            diagnosis, discard = run.diagnosis(), 0.0
    facts: dict[str, Any] = {"chains": chains, "warmup": run.warmup, "num_samples": num_samples, "thin": run.step}
    steps = run.sampler.facts(run.groups)
    facts |= steps
    warnings = [DIVERGED.format(steps["divergences"])] if steps.get("divergences") else []
    if num_samples is None:
        done = run.target - run.warmup
        left_out = int(done * discard)
        samples, stored = run.spread(left_out)
        facts |= {"warmup": run.warmup + left_out, "num_samples": done - left_out, "thin": (done - left_out) // stored}
        facts |= {"max_seconds": options.max_seconds}
        if run.limited:
            warnings.append(thinned_note(chains * stored, KEPT))
    else:
        samples = run.samples()
        if run.step > 1:
            warnings.append(thinned_note(chains * (num_samples // run.step), chains * num_samples))
    return Draws(
        samples,
        "posterior",
        INTERVAL_METHOD if model.has_conditionals else BY_GRADIENTS,
        facts=facts,
        warnings=warnings,
        sites=run.space.sites,
        passes=run.sampler.passes,
        backend=run.sampler.name,
        diagnosis=diagnosis,
    )


class _Run:
    """A run of all chains, in turns: each group of chains takes the sweeps of a turn, one group after the other."""

    def __init__(self, model: BoundModel, data: Annotations, chains: int, warmup: int, num_samples: int | None):
        self.model, self.data, self.warmup, self.num_samples = model, data, warmup, num_samples
        self.space = Space(check(model, data), discrete=True)
        self.sites = self.space.sites
        if num_samples is None:
            self.step = 1
            # Twice to four times as many are held, since the first half may be discarded.
            keep = -(-KEPT // chains)
            most = affordable(4 * self.space.size, data, KEPT)
            self.limited = most < KEPT
            self.held = 4 * (max(1, most // chains) if self.limited else keep)
        else:
            self.limited = False
            self.step = min(thinning(self.space.size, data, chains * num_samples), num_samples)
            self.held = num_samples
        self.sampler = choose.sampler(model, data, chains, self.sites)
        sizes = self.sampler.widths(chains)
        self.rows, self.layout, blocks = _layout(data, chains + len(sizes), self.sampler.shared)
        self.sampler.watch(self.rows, self.layout, chains)
        quantities = max(end for _, end in self.layout.kinds.values())
        like = torch.empty((), dtype=self.sampler.dtype, device=data.device)
        ahead = self.sampler.watched_ahead(num_samples)
        self.groups = [Group(size, BlockMoments.empty(size, quantities, like, blocks, ahead)) for size in sizes]
        self.number = self.target = 0
        self.check = FIRST_CHECK
        self.began = time.monotonic()

    # ------------------------------------------------------------------ the state

    def clock(self) -> float:
        """Return the seconds that the run has taken, including those before it was stopped."""
        return time.monotonic() - self.began

    def state(self) -> GibbsState:
        begun = [group.state() for group in self.groups if group.parameters]
        return GibbsState(begun, self.number, self.target, self.warmup, self.check, self.step, self.clock())

    def resume(self, keep: Checkpoint) -> None:
        """Continue from a checkpoint, if there is one."""
        state = keep.resume(GibbsState, self.data.device)
        if state is None:
            return
        for group, one in zip(self.groups, state.groups, strict=False):
            group.restore(one)
        self.number, self.target, self.warmup = state.number, state.target, state.warmup
        self.check, self.step = state.check, state.step
        self.began -= state.seconds

    # ------------------------------------------------------------------ sampling

    def turn(self, target: int, hooks: Hooks) -> None:
        """Let every group sweep up to ``target``."""
        self.target = target
        self.sampler.turn(self, hooks.report, hooks.keep)

    def until_converged(self, hooks: Hooks, max_seconds: float) -> tuple[Diagnosis, float]:
        """Take turns until the run has converged or its time is over; return how it stands, and the share to leave out."""
        now = Diagnosis()
        while True:
            # A turn that was stopped in the middle goes on to its own target.
            stopped = any(group.sweep < self.target for group in self.groups)
            self.turn(self.target if stopped else self._next(), hooks)
            done = self.target - self.warmup
            if done <= 0:
                if self.target < self.warmup and self.clock() > max_seconds / 2:
                    self.warmup = self.target
                hooks.report(self.target, self.warmup, "warm-up")
                continue
            self._thin()
            over = self.clock() > max_seconds
            if done >= self.check or over:
                self.check = max(int(done * GROWTH), done + 1)
                candidates = [(self.diagnosis(share), share) for share in DISCARDED]
                now, discard = max(candidates, key=lambda pair: pair[0].progress)  # the first of ties: all of the run
                if now.converged or over:
                    return now, discard
            hooks.report(int(100 * now.progress), 100, f"sampling: {self.target:,} sweeps{_standing(now)}")

    def _next(self) -> int:
        ahead = self.target + max(TURN, self.target // TURN)
        return min(ahead, self.warmup) if self.target < self.warmup else ahead

    def diagnosis(self, discard: float = 0.0) -> Diagnosis:
        """Judge the run as it stands."""
        return diagnose([group.moments for group in self.groups], self.layout, discard)

    def quantities(self, parameters: Parameters, probability: Tensor, known: Parameters | None = None) -> Tensor:
        """Return what is watched at the parameters of ``c`` chains, ``(c, Q)``.

        Args:
            parameters: of the chains.
            probability: of the classes, ``(c, N, K)``.
            known: what the sampler has computed, by name: ``confusion``, ``prevalence`` and ``shared`` ``(c, ...)``.
        """
        if known is None:
            # Without parameters there is no axis of chains to carry on.
            J, K, chains = self.data.J, self.data.K, len(probability)
            known = {
                "confusion": self.model.truths.confusion(parameters, self.data).expand(chains, J, K, K),
                "prevalence": self.model.truths.prevalence(parameters, self.data, (chains,)),
            }
        confusion, prevalence = known["confusion"], known["prevalence"]
        truth = probability if self.rows is None else probability[:, self.rows]
        parts = known | {
            "accuracy": torch.einsum("ck,cjkk->cj", prevalence, confusion),
            "sensitivity": confusion.diagonal(dim1=-2, dim2=-1),
            "truth": truth[..., : self.layout.classes],
        }
        return torch.cat([parts[kind].flatten(1) for kind in self.layout.kinds], dim=1)

    # ------------------------------------------------------------------ draws kept

    def _thin(self) -> None:
        """Drop every other draw where more than enough are held."""
        while len(self.groups[0].kept) >= self.held:
            self.step *= 2
            for group in self.groups:
                group.kept = [(place, draw) for place, draw in group.kept if place % self.step == 0]

    def spread(self, left_out: int) -> tuple[Parameters, int]:
        """Return evenly spaced draws of the sweeps after the first ``left_out`` ones, ``(chain, draw, ...)``, and how many."""
        first = next(n for n, (place, _) in enumerate(self.groups[0].kept) if place > left_out)
        available = len(self.groups[0].kept) - first
        count = min(available, self.held // 4)
        chosen = [first + (n + 1) * available // count - 1 for n in range(count)]
        return self._stacked([[group.kept[n][1] for n in chosen] for group in self.groups]), count

    def samples(self) -> Parameters:
        """Return all draws kept, ``(chain, draw, ...)``."""
        together = self.sampler.all_kept()
        if together is not None:
            return self._sites(together)
        return self._stacked([[draw for _, draw in group.kept] for group in self.groups])

    def _stacked(self, kept: list[list[Parameters]]) -> Parameters:
        stacked = {
            name: torch.cat([torch.stack([draw[name] for draw in draws], dim=1) for draws in kept])
            for name in kept[0][0]
        }
        return self._sites(stacked)

    def _sites(self, draws: Parameters) -> Parameters:
        """Return the sites of the model."""
        values = self.sampler.by_site(draws)
        return {name: values[name] for name in self.space.sizes}


def _layout(data: Annotations, arrays: int, shared: int) -> tuple[Tensor | None, Layout, int]:
    """Return which rows are watched (``None`` for all), where the quantities are, and how many blocks fit in memory.

    Args:
        data: in the model's arrangement.
        arrays: that block moments hold of one quantity: one for each chain and group of chains.
        shared: coordinates of sites outside of plates that are watched.
    """
    J, K = data.J, data.K
    sizes = {"accuracy": J, "prevalence": K} | ({"shared": shared} if shared else {})
    if J * K * K <= CELLS:
        sizes["confusion"] = J * K * K
    elif J * K <= CELLS:
        sizes["sensitivity"] = J * K
    classes = 1 if K == 2 else K
    room = [MOMENT_BYTES // (4 * arrays * blocks) - sum(sizes.values()) for blocks in BLOCKS]
    blocks = next((b for b, most in zip(BLOCKS, room, strict=True) if most >= data.N * classes), BLOCKS[-1])
    most = max(1, room[-1] // classes)
    rows = None
    if most < data.N:
        rows = torch.arange(most, device=data.device) * data.N // most
    sizes["truth"] = min(data.N, most) * classes
    return rows, Layout(places(sizes), classes), blocks


def _standing(now: Diagnosis) -> str:
    if not now.sweeps or not now.r_hat:
        return ""
    return f", R-hat {max(now.r_hat.values()):.3f}, effective sample size {min(now.ess.values()):,.0f}"
