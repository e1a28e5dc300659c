"""Which computation takes each step of a fit: the one place that asks.

Every function chooses for one model and its data: compiled functions where they serve both and are worth loading, torch
otherwise. Engines take what they are given. Results state the choice of their engine in ``posterior.info["backend"]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import OptionError
from crowdppl.inference.backends import chains, em_steps, graded, passes, readings
from crowdppl.inference.backends.adaptation import Target
from crowdppl.inference.backends.batching import Function, batched, in_turn
from crowdppl.inference.backends.counting import LabelCounts
from crowdppl.inference.backends.evaluation import ChainEvaluation, Evaluation, PassEvaluation, TorchEvaluation
from crowdppl.inference.backends.expectation import (
    CompiledExpectation,
    CoupledExpectation,
    Expectation,
    SummedExpectation,
    TorchExpectation,
)
from crowdppl.inference.backends.graded import GradedReadings, GradedSampler
from crowdppl.inference.backends.gradients import MANY, GradientSampler, density, plain_density, points, tolerant
from crowdppl.inference.backends.passes import Sweeps
from crowdppl.inference.backends.readings import Readings
from crowdppl.inference.backends.runs import Sampler
from crowdppl.inference.backends.samplers import CompiledSampler, CoupledSampler, PassSampler, TorchSampler
from crowdppl.inference.distributed.group import GROUP, ProcessGroup
from crowdppl.inference.distributed.shares import DistributedSums
from crowdppl.inference.draws import Draws
from crowdppl.inference.engines.m_step import MStep
from crowdppl.inference.engines.unconstrained import Space
from crowdppl.kernels.sparse import DENSE_CELLS
from crowdppl.kernels.steps import CompiledStep
from crowdppl.model.base import Parameters
from crowdppl.model.bound import BoundModel
from crowdppl.model.chains import Chain
from crowdppl.model.graded_rows import RaterForm
from crowdppl.model.program import FAULTS

# Where compiled passes do the work on annotations, tables of fewer numbers are done sooner by one of torch's threads.
CELLS = 2**19
# Multiplications of an E step below which torch is done before numba is imported.
E_STEP = 2 * 10**4
# Operations for draws around a point of a conjugate model below which the same holds: multiplications, and those of a cell of a
# confusion matrix that is drawn.
DRAWS, CELL = 5 * 10**7, 20
# Multiplications and cells of draws of raters with thresholds, and of their readings, below which the same holds.
RATERS = 10**8
# From so many annotations on, all threads work on one chain of a conjugate model after the other.
LARGE = 2_000_000


def threads(data: Annotations, model: BoundModel | None = None) -> int | None:
    """Return how many threads torch's operations on these data take; ``None`` for as many as the process has.

    Threads of small operations wait for each other longer than they work, many times longer where cores are shared. Larger data
    and networks keep them busy.

    Args:
        data: the annotations.
        model: where all that an engine does with annotations is left to compiled passes, if they serve it; torch's operations
            are then on tables of workers.
    """
    small = data.A <= passes.ANNOTATIONS and not data.D
    if small or data.N * data.J * data.K <= DENSE_CELLS:
        return 1
    left = model is not None and data.J * data.K**2 <= CELLS and _served(model, data)
    return 1 if left else None


def expectation(m_step: MStep) -> Expectation:
    """Choose the two steps of EM.

    Raises:
        OptionError: if the data are on a GPU and the processes of the run do not have one each.
    """
    model, data = m_step.model, m_step.data
    if model.closed and not model.shared_confusion and model.states == data.K:
        group = GROUP.get()
        if group is not None and passes.once(data):
            _require_gpus(group, data)
            return SummedExpectation(m_step, DistributedSums(data, group), "processes")
        if _passes_serve(data, data.K):
            return SummedExpectation(m_step, Sweeps.over(data), "passes")
    if model.truths.coupled and model.provides("m_step_of_coupled"):
        return CoupledExpectation(m_step)
    step = _em_step(model, data)
    return TorchExpectation(m_step) if step is None else CompiledExpectation(m_step, em_steps.EMSteps(step, data))


def sampler(model: BoundModel, data: Annotations, count: int, sites: Mapping[str, Any]) -> Sampler:
    """Choose how a number of chains of Gibbs sampling are run; ``sites`` are those of the model's prior."""
    if not model.has_conditionals:
        return GradientSampler(model, data, sites)
    over = None if data.A < LARGE else _passes(model, data)
    step = compiled_step(model, data, count, chains.kernel) if over is None else None
    if step is not None:
        return CompiledSampler(model, data, step)
    return _uncompiled(model, data, _passes(model, data) if over is None else over)


def sampler_from_point(model: BoundModel, data: Annotations, count: int, earlier: Sweeps | None) -> Sampler:
    """Choose how draws are made by a sweep from a point; ``earlier`` are passes over the same data, which are used again."""
    worth = _worth_compiling(model, data, count)
    step = compiled_step(model, data, chains.PARTS, chains.kernel_from_point) if worth else None
    if step is not None:
        return CompiledSampler(model, data, step)
    form = _raters(model, data, count) if data.criteria is None else None
    if form is not None:
        return GradedSampler(model, data, form)
    return _uncompiled(model, data, _passes(model, data, earlier))


class Chosen(NamedTuple):
    """How draws are evaluated.

    Attributes:
        readings: compiled, which evaluate all draws.
        items: what reads items off draws otherwise, and off the point of an engine that maximises.
    """

    readings: Readings | GradedReadings | None
    items: Evaluation | None


def evaluation(
    model: BoundModel, arranged: Annotations, data: Annotations, draws: Draws, total: int, weighed: bool
) -> Chosen:
    """Choose how ``total`` draws are evaluated; ``weighed`` tells whether annotations of an item count as correlated."""
    sampled = draws.kind == "posterior" and arranged.A < LARGE
    worth = sampled or _worth_compiling(model, arranged, total)
    step = compiled_step(model, arranged, 1, readings.kernel) if worth else None
    if draws.point is not None and _forms_chains(model, arranged, draws.point):
        return Chosen(None, ChainEvaluation(model, arranged, data))
    over: Readings | GradedReadings | None = None if step is None else Readings(step, arranged)
    form = None if weighed or step is not None else _raters(model, arranged, total)
    if form is not None:
        over = GradedReadings(form, arranged)
    needed = over is None or draws.point is not None
    return Chosen(
        over,
        items(model, arranged, data, draws.passes) if needed else None,
    )


def _forms_chains(model: BoundModel, data: Annotations, point: Parameters) -> bool:
    """Tell whether the truths form Markov chains that compiled functions read."""
    several = model.truths.coupled and model.batched and model.prior_in_batches
    if not several or data.multiplicity is not None or data.dtype != torch.float64 or data.device.type != "cpu":
        return False
    return isinstance(model.model.coupling(model.at_sites(point, data), data), Chain)


def items(model: BoundModel, arranged: Annotations, data: Annotations, earlier: Sweeps | None) -> Evaluation:
    """Choose what reads items off draws, one by one, or off a point."""
    over = _passes(model, arranged, earlier)
    return TorchEvaluation(model, arranged, data) if over is None else PassEvaluation(model, data, over)


def label_counts(data: Annotations, evaluation: Evaluation) -> LabelCounts:
    """Choose how labels are counted by drawn true labels: compiled passes may do so whatever the model is."""
    if isinstance(evaluation, PassEvaluation):
        return LabelCounts(data, evaluation.passes)
    return LabelCounts(data, Sweeps.over(data) if _passes_serve(data, data.K) else None)


def density_of_chains(
    model: BoundModel, data: Annotations, space: Space, chains: int, draws: int, wanted: bool | None
) -> tuple[Target, bool]:
    """Return the log density and its slope at places of all chains for NUTS, and whether it is recorded operations.

    Args:
        model: any with continuous sites.
        data: in its arrangement.
        space: of the sites.
        chains: number of places.
        draws: of a chain.
        wanted: whether the caller wants operations recorded, or, where false, the density of each chain by itself; ``None``
            for chains that are long enough to be worth a second.
    """
    one, plain = (partial(what, model, data, space, fixed={}) for what in (density, plain_density))
    first, other = (
        (torch.stack([space.vector(point).detach() for point in points(model, data, chains, n)]),) for n in range(2)
    )
    if wanted is False or _fails(one, first[0][0]):
        return tolerant(in_turn(plain), plain), False
    form = batched(one, first, other, compiled=draws >= MANY if wanted is None else wanted)
    return tolerant(form, one), form.recorded


def _fails(function: Function, place: Tensor) -> bool:
    """Tell whether a function cannot be computed at a place."""
    try:
        function(place)
    except FAULTS:
        return True
    return False


def _compilable(data: Annotations) -> bool:
    """Tell whether compiled steps, draws and readings can take the data."""
    real = data.device.type == "cpu" and data.dtype in passes.REAL
    return real and data.in_full and np.iinfo(np.int16).max >= data.K and max(data.J * data.K, data.N) < 2**31


def compiled_step(
    model: BoundModel, data: Annotations, count: int, kernel: Callable[[str], Any]
) -> CompiledStep | None:
    """Return the compiled step of a model, where it has one and a number of compiled chains can take the data.

    ``kernel`` is what is done with it, by family: that it can be compiled is seen by compiling it, which may take seconds.
    """
    if not _compilable(data):
        return None
    step = model.compiled_step(data)
    if step is None or 8 * count * (data.J * data.K * step.states + step.work) > chains.ROOM:
        return None
    return None if kernel(step.family) is None else step


def _em_step(model: BoundModel, data: Annotations) -> CompiledStep | None:
    """Return the compiled step of a model, where both steps of EM are compiled and worth it."""
    if data.dtype != torch.float64 or not _compilable(data) or model.conjugacy is not None:
        return None
    step = model.compiled_step(data)
    if step is None or step.states * data.A < E_STEP or 8 * data.J * data.K * step.states > chains.ROOM:
        return None
    return None if em_steps.kernels(step.family) is None else step


def _worth_compiling(model: BoundModel, data: Annotations, draws: int) -> bool:
    """Tell whether so many draws around a point are made and read by compiled functions, if there are any for the model."""
    work = draws * (data.A * data.K + CELL * data.J * data.K**2)
    return model.conjugacy is None or (data.A < LARGE and work >= DRAWS)


def _raters(model: BoundModel, data: Annotations, draws: int) -> RaterForm | None:
    """Return what compiled draws and readings of raters with thresholds need, where they serve so many draws and are worth it."""
    form = model.compiled_raters(data)
    if form is None or draws * len(form.nodes) * (data.A + data.J * data.K) < RATERS:
        return None
    return form if _compilable(data) and graded.serves(data, form) else None


def _passes_serve(data: Annotations, states: int) -> bool:
    """Tell whether compiled passes can take the data, and are worth it."""
    return data.A >= passes.ANNOTATIONS and passes.serves(data, states)


def _served(model: BoundModel, data: Annotations) -> bool:
    """Tell whether compiled passes serve a model and its data."""
    conjugate = model.closed and not model.shared_confusion
    return conjugate and _passes_serve(data, model.states)


def _passes(model: BoundModel, data: Annotations, earlier: Sweeps | None = None) -> Sweeps | None:
    """Return passes where they serve a model and its data: the earlier ones, if there are any."""
    if earlier is not None:
        return earlier
    return Sweeps.over(data) if _served(model, data) else None


def _uncompiled(model: BoundModel, data: Annotations, over: Sweeps | None) -> Sampler:
    if model.truths.coupled:
        return CoupledSampler(model, data)
    return TorchSampler(model, data) if over is None else PassSampler(model, data, over)


def _require_gpus(group: ProcessGroup, data: Annotations) -> None:
    """Refuse data on a GPU that processes share."""
    here = data.device
    if here.type == "cuda" and not (group.cuda and here.index in (None, torch.cuda.current_device())):
        raise OptionError(
            f"device={str(here)!r} in several processes: each needs a GPU of its own; start as many as there are GPUs, "
            f"with device='cuda'"
        )
