"""``crowdppl.stream``: from a Parquet data set on disk to consensus and workers, in the memory of one batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pyarrow
import torch

from crowdppl import arguments
from crowdppl.arguments import InputPath, Level, OutputFile, PositiveFloat, PositiveInt, Seed, checked
from crowdppl.data.table.columns import item_column
from crowdppl.errors import ModelError, listed
from crowdppl.inference.catalogue import catalogue, model_name, named_model, refuse_numeric
from crowdppl.inference.memory import ROWS
from crowdppl.inference.progress import ProgressCallback
from crowdppl.inference.scale.consensus import consensus_file
from crowdppl.inference.scale.result import LargeResult, require_method, worker_table
from crowdppl.inference.scale.streaming import stepwise_em, svi
from crowdppl.inference.scale.streaming.dataset import Stored
from crowdppl.isolation import isolated
from crowdppl.model.base import AnnotationModel, Parameters, provides
from crowdppl.model.bound import BoundModel, bind
from crowdppl.posterior import workers

# What each method needs of a model.
NEEDS = {"em": "conjugate_counts", "vb": "conjugate_counts", "svi": "confusion"}
HOW = {
    "em": "EM, a point: for intervals, use vb, or fit what memory holds",
    "vb": "mean-field variational Bayes; intervals tend to be too narrow, since truths and workers count as independent",
    "svi": "a variational approximation fitted by SVI; intervals tend to be too narrow",
    "point": "gradients of the log posterior, the truth summed out, to a point: there are no intervals",
}
# Draws of all workers' accuracies are held at once: at most so many numbers.
NUMBERS = 2e8


@checked
def stream(
    path: InputPath,
    model: str | AnnotationModel = "dawid-skene",
    *,
    method: Annotated[Literal["em", "vb", "svi"], arguments.text] = "em",
    consensus: OutputFile | None = None,
    passes: PositiveInt = 4,
    rows: PositiveInt = ROWS,
    step_size_exponent: Annotated[float, arguments.number(above=0.5, at_most=1)] = 0.7,
    guide: Literal["auto", "point"] = "auto",
    batch_size: PositiveInt = 10_000,
    learning_rate: PositiveFloat = 0.05,
    num_samples: PositiveInt = 200,
    level: Level | None = None,
    seed: Seed = 0,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    truth: str | None = None,
    progress: Annotated[ProgressCallback, arguments.function] | None = None,
) -> LargeResult:
    """Fit a model to a Parquet file, or a folder of them, that need not fit in memory.

    Args:
        path: of the file or folder. The rows of an item must follow each other; they may be in any order otherwise.
        model: a name of the zoo or an instance, whose labels depend on worker and truth only: with an M step from sums over
            items for EM and VB (``conjugate_counts``), with ``confusion`` for SVI.
        method: ``"em"``: stepwise, then plain EM, to a point; ``"vb"``: stochastic, then plain variational Bayes, with intervals
            at the same cost; ``"svi"``: Pyro's SVI over mini-batches, for models without sums.
        consensus: Parquet file to write, with a row for each item: ``task`` (``item`` where the input's column is called so),
            ``label``, ``probability``, and ``p_<class>`` for every class.
        passes: over all annotations to learn from. One more writes the consensus.
        rows: annotations of a batch, about.
        step_size_exponent: of EM and VB: ``a`` in the step size ``(t + 2) ** -a`` of the ``t``-th batch, above 0.5 and at most 1.
        guide: of SVI: the model's own or independent normals, or ``"point"``, which is generalised EM by gradients.
        batch_size: of SVI: items a step.
        learning_rate: of SVI, by Adam; it falls to a tenth.
        num_samples: draws for intervals.
        level: probability of the intervals. Defaults to ArviZ's default, .89.
        seed: of SVI, and of draws.
        task: column of the item, as in :meth:`Annotations.from_frame`.
        worker: likewise.
        label: likewise.
        truth: column of known truths, which clamp their items: blank where unknown, given in one row of an item or in several.
        progress: called with (step, steps, what).

    Raises:
        FileError: where nothing can be read or written.
        DataError: where a column or a name is missing, there is one class only, the rows of an item are apart, or an item has
            two truths.
        ModelError: where the model needs more than the method gives it.
        OptionError: for a value outside its range.
    """
    level = workers.default_level(level)
    require_method(method, NEEDS, "from disk")
    chosen = _suited_model(model, method)
    source = Stored(path, (task, worker, label), rows, truth)
    steps, done = (passes + (consensus is not None)) * source.annotations, 0

    def on_batch(annotations: int) -> None:
        nonlocal done
        done += annotations
        if progress is not None:
            progress(done, steps, method if done <= passes * source.annotations else "consensus")

    sizes = source.empty()
    bound = bind(chosen, sizes)
    count = max(20, min(num_samples, int(NUMBERS / len(source.workers))))
    with isolated(seed):
        if method == "svi":
            median, draw, losses = svi.learn(bound, source, guide, passes, batch_size, learning_rate, on_batch)
            point = stepwise_em.Point(*bound.tables(median, sizes), median, 0.0)
            objective = [-loss for loss in losses]
        else:
            point, draw, objective = _by_sums(bound, source, method, passes, step_size_exponent, on_batch)
        is_point = method == "em" or (method == "svi" and guide == "point")
        draws = (draw() for _ in range(0 if is_point else count))
        with torch.no_grad():
            accuracy = bound.truths.accuracy(point.parameters, sizes).numpy()
            drawn = np.array([bound.truths.accuracy(draw, sizes).float().numpy() for draw in draws])
            if consensus is not None:
                _write(Path(consensus), bound, point, source, on_batch)
    return LargeResult(
        point.parameters,
        worker_table(source.workers, source.each, accuracy, drawn, level),
        source.labels,
        source.items,
        source.annotations,
        {"objective": objective},
        HOW["point" if method == "svi" and guide == "point" else method],
        None if consensus is None else Path(consensus),
    )


def _by_sums(
    model: BoundModel,
    source: Stored,
    method: str,
    passes: int,
    exponent: float,
    on_batch: Callable[[int], None],
) -> tuple[stepwise_em.Point, Callable[[], Parameters], list[float]]:
    """Return the point of EM or VB, what draws around that of VB, and the objective of each pass but the first."""
    with torch.no_grad():
        step = stepwise_em.maximised if method == "em" else stepwise_em.averaged
        point, last, objective = stepwise_em.learn(model, source, step, passes, exponent, on_batch)
    # Given the sums the approximation of VB is what a Gibbs step draws from.
    assert model.conjugacy is not None
    return point, partial(model.conjugacy.gibbs_step, last), objective


def _suited_model(model: str | AnnotationModel, method: str) -> AnnotationModel:
    """Return the model of this name, or the instance itself.

    Raises:
        ModelError: where it needs more than the method gives it.
    """
    refuse_numeric(model, "crowdppl.stream")
    chosen = named_model(model)
    if provides(chosen, "coupling"):
        raise ModelError(
            f"{model_name(chosen)} is about sequences or sets, which a stream does not hold together; fit reads them whole, and "
            f"takes seconds for hundreds of thousands of labels"
        )
    if not _suited(chosen, method):
        others = [name for name, kind in catalogue().items() if _suited(kind(), method)]
        raise ModelError(
            f"{type(chosen).__name__} cannot be streamed by method={method!r}, which takes {listed(others)}, and models with a "
            f"{NEEDS[method]!r} of their own"
        )
    return chosen


def _suited(model: AnnotationModel, method: str) -> bool:
    one_state = method == "svi" or not provides(model, "states_per_class")
    return provides(model, NEEDS[method]) and one_state and model.check_method(method) is None


def _write(
    path: Path, model: BoundModel, point: stepwise_em.Point, source: Stored, on_batch: Callable[[int], None]
) -> None:
    """Write the true labels in one more pass."""
    names, of_labels = (source.types[source.columns[n]] for n in (0, 2))
    labels = pyarrow.array(source.labels, type=of_labels)
    with consensus_file(path, item_column(source.columns[0]), names, labels) as file:
        for batch, items in source.named():
            file.add(items, model.truths.by_class(stepwise_em.responsibilities(point, batch), point.parameters, batch))
            on_batch(batch.A)
