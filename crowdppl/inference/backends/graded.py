"""Raters with thresholds in compiled functions: draws around a point, and what is read off draws, in threads of Python."""

from __future__ import annotations

from contextlib import closing
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.inference.backends.chains import CALL, PARTS, ROOM, begun, compiled_or_none, parts_of
from crowdppl.inference.backends.coded import Coded
from crowdppl.inference.backends.readings import Drawn
from crowdppl.inference.backends.samplers import TorchSampler
from crowdppl.isolation import Threads
from crowdppl.model.base import Parameters
from crowdppl.model.bound import BoundModel
from crowdppl.model.graded_rows import RaterForm, RaterPrior

# States of items that are held at a time, of all of them and of those of a rater, a byte each.
STATES = 2**26
# Proposals of a rater in a draw. With one, 7% of the draws stay at the point (2,000 items by 400 raters), and intervals are 5%
# too narrow; with two, some in a thousand do.
PROPOSALS = 2


@cache
def _kernels() -> Any:
    """Return the modules of compiled draws and readings, or ``None`` where numba is not there."""

    def make() -> Any:
        from crowdppl.kernels import graded_draws, graded_readings  # here: numba may not be there

        graded_draws.around()
        return graded_draws, graded_readings

    return compiled_or_none(make)


def serves(data: Annotations, form: RaterForm) -> bool:
    """Tell whether the compiled functions are there and can take the data, of those that compiled functions take at all."""
    return data.anchor is None and len(form.nodes) <= 255 and _kernels() is not None


def _line(form: RaterForm) -> np.ndarray:
    """Return the first node and the distance of nodes, ``(2,)``."""
    nodes = form.nodes.double().numpy()
    return np.array([nodes[0], (nodes[-1] - nodes[0]) / (len(nodes) - 1)])


class GradedSampler(TorchSampler):
    """Draws around a point by compiled functions, and chains by torch.

    Args:
        model: of the annotations.
        data: without criteria.
        form: of the raters.
        proposals: of a rater in a draw.
    """

    def __init__(self, model: BoundModel, data: Annotations, form: RaterForm, proposals: int = PROPOSALS):
        super().__init__(model, data)
        self.form, self.proposals = form, proposals
        # The annotations by rater; of the reference rater the known true grades.
        known = (data.truth >= 0).nonzero().squeeze(-1)
        rater = torch.cat([data.worker, torch.full_like(known, data.J)])
        order = rater.argsort(stable=True)
        self.start = np.zeros(data.J + 2, dtype=np.int64)
        np.cumsum(torch.bincount(rater, minlength=data.J + 1).numpy(), out=self.start[1:])
        item, label = torch.cat([data.item, known]), torch.cat([data.label, data.truth[known]])
        self.item, self.label = (part[order].numpy().astype(np.uint32) for part in (item, label))
        self.base = np.zeros_like(self.label)

    def from_point(self, point: Parameters, count: int) -> Parameters:
        """Draw parameters by a sweep from a point, some draws at a time."""
        model, data = self.model, self.data
        joint = model.learned_from(model.item_log_joint(point, data), data)
        below = joint.softmax(-1).double().cumsum(-1).numpy()
        raters, prior = self.form.raters(point).double(), self.form.prior(point)
        step = max(1, STATES // max(data.N, int(np.diff(self.start).max())))
        parts = []
        with closing(Threads(PARTS)) as threads:
            for first in range(0, count, step):
                size = min(step, count - first)
                states, at_nodes = self._states(below, size, threads)
                drawn = self._raters(raters, prior, states, threads).transpose(0, 1).to(data.dtype)
                parts.append(self.form.completed(drawn, at_nodes.to(data.dtype), point))
        return {name: torch.cat([part[name] for part in parts]).unsqueeze(0) for name in point}

    def _states(self, below: np.ndarray, count: int, threads: Threads) -> tuple[np.ndarray, Tensor]:
        """Draw states of all items ``(N, count)`` from sums of their probabilities ``(N, S)``; return them and ``(count, S)``.

        The latter is the number of items in each state.
        """
        out = np.empty((len(below), count), dtype=np.uint8)
        parts, run = parts_of(len(below)), _kernels()[0].states_at()
        numbers = np.zeros((len(parts), count, below.shape[1]))
        threads.all(
            [
                partial(run, below[part], _stream(), out[part], number)
                for part, number in zip(parts, numbers, strict=True)
            ]
        )
        return out, torch.from_numpy(numbers.sum(0))

    def _raters(self, raters: Tensor, prior: RaterPrior, states: np.ndarray, threads: Threads) -> Tensor:
        """Draw raters given states, ``(J+1, count, K)``."""
        out = np.empty((len(raters), states.shape[1], raters.shape[-1]))
        run, nodes, line = _kernels()[0].around(), self.form.nodes.double().numpy(), _line(self.form)
        precision = prior.precision.double().expand(raters.shape).contiguous().numpy()
        mean, values = prior.mean.double().numpy(), raters.contiguous().numpy()
        tasks = []
        for part in parts_of(len(raters)):
            begin, end = self.start[part.start], self.start[part.stop]
            own = slice(begin, end)
            tasks.append(
                partial(
                    run,
                    self.start[part.start : part.stop + 1] - begin,
                    self.item[own],
                    self.base[own],
                    self.label[own],
                    states,
                    values[part],
                    mean,
                    precision[part],
                    nodes,
                    line,
                    np.ones(1),
                    self.proposals,
                    _stream(),
                    out[part],
                )
            )
        threads.all(tasks)
        return torch.from_numpy(out)


class GradedReadings:
    """Evaluates draws of raters with thresholds.

    Args:
        form: of the raters.
        data: that suit it.
    """

    def __init__(self, form: RaterForm, data: Annotations):
        self.form, self.data, self.arrays = form, data, Coded.of(data)
        of_criterion = torch.zeros_like(data.worker) if data.criterion is None else data.criterion
        self.base = (of_criterion * len(form.nodes)).numpy().astype(np.uint32)
        self.size = data.J * data.K * data.number_of_criteria * len(form.nodes)

    def read(
        self, flat: Parameters, rho: Tensor | None, nodes: Tensor | None, lift: Tensor | None, out: Drawn
    ) -> tuple[Tensor, Tensor]:
        """Evaluate draws of the parameters, as :meth:`crowdppl.inference.backends.readings.Readings.read` does without rho."""
        assert rho is None
        data, total = self.data, len(out.truth)
        parts = parts_of(total, max(1, min(PARTS, ROOM // (8 * self.size))))
        means = np.zeros((len(parts), data.N, data.K))
        tasks = [partial(self._some, part, flat, _stream(), mean, out) for part, mean in zip(parts, means, strict=True)]
        with closing(Threads(len(tasks))) as threads:
            threads.all(tasks)
        mean = torch.from_numpy(means.sum(0) / total)
        return mean, mean

    def _some(self, part: slice, flat: Parameters, stream: np.ndarray, mean: np.ndarray, out: Drawn) -> None:
        """Evaluate a part of the draws, some at a time."""
        data, form = self.data, self.form
        table = np.empty((data.J * data.K, self.size // (data.J * data.K)))
        share = form.share.double().numpy()
        at_a_time = max(1, CALL // (len(form.nodes) * (data.A + data.N * data.K) + self.size * data.K))
        for first in range(part.start, part.stop, at_a_time):
            some = slice(first, min(first + at_a_time, part.stop))
            parameters = {name: value[some] for name, value in flat.items()}
            raters = form.raters(parameters).double()
            prior = form.log_truth(parameters).double().exp().expand(len(raters), -1)
            reference = raters[:, -1] if data.clamp is not None else raters[:0, -1]
            _kernels()[1].reading()(
                raters[:, :-1].contiguous().numpy(),
                reference.contiguous().numpy(),
                form.offsets(parameters).double().exp().contiguous().numpy(),
                share,
                _line(form),
                prior.contiguous().numpy(),
                self.arrays.start,
                self.arrays.column,
                self.base,
                self.arrays.known,
                stream,
                table,
                out.likelihood[some].numpy(),
                out.truth[some].numpy(),
                out.correct[some].numpy(),
                mean,
                out.confusion[some].numpy(),
                out.prevalence[some].numpy(),
            )


def _stream() -> np.ndarray:
    """Return the state of a stream of random numbers, ``(4,)`` uint64."""
    return np.asarray(begun().numpy().view(np.uint64))
