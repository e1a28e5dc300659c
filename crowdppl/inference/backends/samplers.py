"""Chains of Gibbs sampling, sweep by sweep: by torch, by compiled passes, or by compiled chains.

Models that have a compiled step run each chain in a thread, without a call of torch in a sweep. Others run all chains as one
batch of torch's operations; conjugate ones on large data one chain after the other by compiled passes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import Any

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.inference.backends.chains import PARTS, SPARSE, Chains
from crowdppl.inference.backends.passes import Sweeps
from crowdppl.inference.backends.runs import Group, Run, Sampler
from crowdppl.inference.checkpoint import Checkpoint
from crowdppl.inference.engines.monitor import Layout
from crowdppl.inference.memory import chunk, work_bytes
from crowdppl.inference.progress import ProgressCallback
from crowdppl.inference.sampling import GumbelMaxSampler, sample_repeatedly, sample_truth
from crowdppl.kernels.steps import CompiledStep
from crowdppl.model.base import Parameters
from crowdppl.model.bound import BoundModel
from crowdppl.model.chains import TOGETHER
from crowdppl.model.truths import Coupled
from crowdppl.model.truths.classes import one_hot


class SequentialSampler(Sampler):
    """Groups of chains, one after the other, a sweep at a time."""

    def turn(self, run: Run, report: ProgressCallback, keep: Checkpoint) -> None:
        """Let every group sweep up to the run's target."""
        total = run.target * len(run.groups)
        while run.number < len(run.groups):
            group = run.groups[run.number]
            if not group.parameters:
                self.begin(group, run.sites)
            for sweep in range(group.sweep, run.target):
                self.sweep(run, group, sweep)
                group.sweep = sweep + 1
                place = group.sweep - run.warmup
                if place > 0 and place % run.step == 0:
                    group.kept.append((place, group.parameters))
                keep.step(run.state)
                if run.num_samples is not None and sweep % 50 == 0:
                    done = run.number * run.target + sweep
                    report(done, total, "warm-up" if sweep < run.warmup else "sampling")
            run.number += 1
        run.number = 0

    @abstractmethod
    def sweep(self, run: Run, group: Group, sweep: int) -> None:
        """Take one sweep of a group."""


class TorchSampler(SequentialSampler):
    """By torch, from the item log joint: for every model with conjugate steps."""

    name = "torch"

    def widths(self, chains: int) -> list[int]:
        """Return how many chains run side by side in each group.

        Small data: all chains in one batch, which share the cost of calling torch. Large data: memory bandwidth is the limit, and
        one chain after the other stays in the caches.
        """
        width = max(1, min(chains, work_bytes(self.data) // (8 * self.data.N * self.states * 4)))
        return [min(width, chains - start) for start in range(0, chains, width)]

    def begin(self, group: Group, sites: Mapping[str, Any]) -> None:
        """Draw the first parameters of a group."""
        start = self._start(group.chains)
        group.sampler = GumbelMaxSampler(start.shape, self.data)
        group.parameters = self._first(start, group.sampler.sample(start.log()), sites)

    def sweep(self, run: Run, group: Group, sweep: int) -> None:
        """Draw the truths given the parameters, and these given the truths."""
        model, data = self.model, self.data
        if group.sampler is None:
            group.sampler = GumbelMaxSampler((group.chains, data.N, self.states), data)
            if group.random is not None:
                group.sampler.unused, group.random = group.random, None
        joint = model.item_log_joint(group.parameters, data)
        if sweep >= run.warmup:
            given = model.truths.by_class(joint.softmax(-1), group.parameters, data)
            group.moments.add(run.quantities(group.parameters, given.expand(group.chains, data.N, data.K)))
        truth = group.sampler.sample(model.learned_from(joint, data))
        group.parameters = model.gibbs_step(truth, group.parameters, data)

    def from_point(self, point: Parameters, count: int) -> Parameters:
        """Draw parameters by a sweep from a point, some draws at a time."""
        model, data = self.model, self.data
        joint = model.learned_from(model.item_log_joint(point, data), data)
        parts = []
        step = chunk(data, count)
        for start in range(0, count, step):
            size = min(step, count - start)
            here = {name: value.expand(size, *value.shape) for name, value in point.items()}
            # Of many states one random number for each item, where one for each state is most of the work.
            many = model.truths.read_off or data.class_scores is not None
            truth = sample_repeatedly(joint, size) if many else sample_truth(joint.expand(size, *joint.shape))
            parts.append(model.gibbs_step(truth, here, data))
        return {name: torch.cat([part[name] for part in parts]).unsqueeze(0) for name in point}


class CoupledSampler(TorchSampler):
    """Likewise of models whose truths form chains: all states of a sequence are drawn together."""

    def sweep(self, run: Run, group: Group, sweep: int) -> None:
        """Draw the truths given the parameters, and these given the truths."""
        model, data = self.model, self.data
        if sweep >= run.warmup:
            given = model.item_log_joint(group.parameters, data).softmax(-1)
            group.moments.add(run.quantities(group.parameters, given))
        truths = model.truths
        assert isinstance(truths, Coupled)
        group.parameters = model.gibbs_step(truths.draw_states(group.parameters, data), group.parameters, data)

    def from_point(self, point: Parameters, count: int) -> Parameters:
        """Draw parameters by a sweep from a point: the states of some draws at a time, which share a forward pass."""
        truths, parts, step = self.model.truths, [], max(TOGETHER, chunk(self.data, count))
        assert isinstance(truths, Coupled)
        for start in range(0, count, step):
            size = min(step, count - start)
            here = {name: value.expand(size, *value.shape) for name, value in point.items()}
            truth = truths.draw_states(point, self.data, draws=size)
            parts.append(self.model.gibbs_step(truth, here, self.data))
        return {name: torch.cat([part[name] for part in parts]).unsqueeze(0) for name in point}


class PassSampler(SequentialSampler):
    """By compiled passes, which draw the truths and count: for conjugate models on large data.

    Args:
        model: all of whose sites are conjugate.
        data: that the passes serve.
        passes: over the data.
    """

    name = "passes"

    def __init__(self, model: BoundModel, data: Annotations, passes: Sweeps):
        super().__init__(model, data)
        assert model.conjugacy is not None
        self.passes, self.sweeps, self.conjugacy = passes, passes, model.conjugacy

    def begin(self, group: Group, sites: Mapping[str, Any]) -> None:
        """Draw the first parameters of a chain."""
        start = self._start(group.chains)
        truth = GumbelMaxSampler(start.shape, self.data).sample(start.log())
        group.parameters = _leading(self.conjugacy.gibbs_step(self.sweeps.given(one_hot(truth[0], self.data))))

    def sweep(self, run: Run, group: Group, sweep: int) -> None:
        """Draw the truths given the parameters, and these given the counts."""
        now = {name: value[0] for name, value in group.parameters.items()}
        table, prior = self.model.tables(now, self.data)
        if sweep >= run.warmup and sweep % SPARSE == 0:
            given = self.sweeps.responsibilities(table, prior).unsqueeze(0)
            group.moments.add(run.quantities(group.parameters, given))
        _, sums = self.sweeps.draw(table, prior)
        group.parameters = _leading(self.conjugacy.gibbs_step(sums, now))

    def from_point(self, point: Parameters, count: int) -> Parameters:
        """Draw parameters by a sweep from a point."""
        tables = self.model.tables(point, self.data)
        draws = [self.conjugacy.gibbs_step(self.sweeps.draw(*tables)[1], point) for _ in range(count)]
        return {name: torch.stack([draw[name] for draw in draws]).unsqueeze(0) for name in point}


class CompiledSampler(Sampler):
    """By compiled chains, in threads, many sweeps in a call.

    Args:
        model: of the annotations.
        data: that compiled chains serve.
        step: of the model.
    """

    name = "compiled"
    torch_threads = 1  # torch has little to do, and its threads would wait for each other longer than they work

    def __init__(self, model: BoundModel, data: Annotations, step: CompiledStep):
        super().__init__(model, data)
        self.step, self.dtype = step, torch.float64
        self.chains: Chains | None = None
        # Of all draws, (chain, draw, P), where their number is known.
        self.room: Tensor | None = None

    def watch(self, rows: Tensor | None, layout: Layout, chains: int) -> None:
        """Learn what is watched."""
        self.chains = Chains(self.step, self.data, rows, layout, chains)

    def watched_ahead(self, num_samples: int | None) -> int:
        """Return at how many sweeps something is watched."""
        return 0 if num_samples is None else -(-num_samples // Chains.sparse_for(self.data))

    def begin(self, group: Group, sites: Mapping[str, Any]) -> None:
        """Draw the first parameters of a chain."""
        start = self._start(group.chains)
        first = self._first(start, sample_truth(start.log()), sites)
        group.parameters = {"vector": self.step.vector(first)}

    def turn(self, run: Run, report: ProgressCallback, keep: Checkpoint) -> None:
        """Let all chains sweep up to the run's target, in threads, some sweeps at a time."""
        chains, running = self.chains, []
        assert chains is not None
        for group in run.groups:
            if not group.parameters:
                self.begin(group, run.sites)
            if group.chain is None:
                group.chain = chains.chain(group.parameters["vector"], group.random)
            running.append((group, group.chain))
        rooms = self._rooms(run)
        while (done := run.groups[0].sweep) < run.target:
            counts = done >= run.warmup
            place = done - run.warmup
            number = min(run.target - done, chains.most)
            number = min(number, chains.ahead(place, run.groups[0].moments.room) if counts else -place)
            tasks = [
                partial(chains.sweep, chain, number, group.moments, place, run.step, room)
                if counts
                else partial(chains.sweep, chain, number, None, place, run.step)
                for (group, chain), room in zip(running, rooms, strict=True)
            ]
            for group, kept in zip(run.groups, chains.all(tasks), strict=True):
                group.sweep += number
                if counts:
                    group.moments.added(chains.watched(place, number))
                    first = place // run.step + 1
                    draws = list(torch.from_numpy(kept).unsqueeze(1))
                    if run.num_samples is None:  # most of them are dropped later, and free their memory
                        draws = [draw.clone() for draw in draws]
                    group.kept += [((first + n) * run.step, {"vector": draw}) for n, draw in enumerate(draws)]
            keep.step(run.state)
            if run.num_samples is not None:
                report(run.groups[0].sweep, run.target, "sampling" if counts else "warm-up")

    def _rooms(self, run: Run) -> list[Any]:
        """Return memory for the draws of each chain, ``(D, P)``, ``None`` where their number is not known.

        Draws of a checkpoint are copied to their places.
        """
        if run.num_samples is None:
            return [None] * len(run.groups)
        if self.room is None:
            size = run.groups[0].parameters["vector"].shape[-1]
            self.room = torch.empty(len(run.groups), run.num_samples // run.step, size, dtype=torch.float64)
            for group, room in zip(run.groups, self.room, strict=True):
                for (_, draw), place in zip(group.kept, room, strict=False):
                    place.copy_(draw["vector"][0])
        return list(self.room.numpy())

    def by_site(self, draws: Parameters) -> Parameters:
        """Return the sites that vectors of the step hold."""
        return self.step.parameters(draws["vector"], self.data.dtype)

    def all_kept(self) -> Parameters | None:
        """Return all draws of a run."""
        return None if self.room is None else {"vector": self.room}

    def from_point(self, point: Parameters, count: int) -> Parameters:
        """Draw parameters by a sweep from a point, in threads."""

        def states() -> Tensor:
            joint = self.model.item_log_joint(point, self.data)
            return self.model.learned_from(joint, self.data).softmax(-1).double()

        with closing(Chains(self.step, self.data, None, None, PARTS)) as chains:
            values = chains.from_point(self.step.vector(point), count, states)
        return {name: value.unsqueeze(0) for name, value in self.step.parameters(values, self.data.dtype).items()}

    def close(self) -> None:
        """End the threads."""
        if self.chains is not None:
            self.chains.close()


def _leading(parameters: Parameters) -> Parameters:
    return {name: value.unsqueeze(0) for name, value in parameters.items()}
