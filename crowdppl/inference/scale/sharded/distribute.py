"""``crowdppl.distribute``: a fit of which no process holds the data, each its share."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from crowdppl import arguments
from crowdppl.arguments import (
    Checkpoints,
    Folder,
    InputPath,
    Level,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    Seed,
    checked,
)
from crowdppl.data.annotations import Annotations
from crowdppl.data.readers.parquet import Table
from crowdppl.data.table.columns import item_column
from crowdppl.errors import FileError, ModelError, OptionError, listed, warn
from crowdppl.inference.catalogue import catalogue, named_model, refuse_numeric
from crowdppl.inference.checkpoint import FORMAT, Checkpoint
from crowdppl.inference.distributed import is_other_rank
from crowdppl.inference.fingerprint import described, of_model
from crowdppl.inference.hooks import Hooks
from crowdppl.inference.progress import ProgressCallback, silent
from crowdppl.inference.scale.result import LargeResult, require_method, worker_table
from crowdppl.inference.scale.sharded import em, gibbs
from crowdppl.inference.scale.sharded.parts import Parts, opened, processes
from crowdppl.inference.scale.sharded.plan import Plan
from crowdppl.isolation import isolated
from crowdppl.model.base import AnnotationModel, Parameters, provides
from crowdppl.model.bound import BoundModel, bind
from crowdppl.posterior import workers

# What is learned: the point, draws of the accuracy of workers, none of a point, and how the computation went.
Learned = tuple[Parameters, npt.NDArray[Any], dict[str, Any]]
METHODS = {
    "em": "EM, a point: for intervals, use gibbs",
    "gibbs": "draws from the posterior (Gibbs sampling with exact conditionals)",
}


@checked
def distribute(
    path: InputPath,
    model: str | AnnotationModel = "dawid-skene",
    *,
    method: Annotated[Literal["em", "gibbs"], arguments.text] = "em",
    consensus: Folder | None = None,
    max_iter: PositiveInt = 2000,
    tol: NonNegativeFloat = 1e-9,
    chains: PositiveInt = 4,
    warmup: NonNegativeInt = 100,
    num_samples: PositiveInt = 250,
    level: Level | None = None,
    seed: Seed = 0,
    checkpoint: Checkpoints | None = None,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    truth: str | None = None,
    progress: Annotated[ProgressCallback, arguments.function] | None = None,
) -> LargeResult:
    """Fit a model to a Parquet file, or a folder of them, of which each process reads and holds its share.

    Processes are those of ``torchrun``: within :func:`crowdppl.inference.distributed.joined` rank 0 calls this function, and the
    other ranks take part. Without them one process holds all data, in some ten bytes an annotation. No process holds the rows or
    items of another; all hold the names of workers and classes and the tables of the workers. Results are of the model as
    published, which counts annotations of one item as independent.

    Args:
        path: of the file or folder, which all processes see. Rows may be in any order. If they are sorted by item, and the
            statistics in the files say so, each process keeps nearly all rows that it reads.
        model: a name of the zoo or an instance, with closed-form updates: all parameters follow from sums over items.
        method: ``"em"``: the mode of the posterior; ``"gibbs"``: draws from the posterior.
        consensus: folder for the true labels, which all processes see, without Parquet files as yet. Each process writes a file,
            ``part-00000.parquet`` and so on, with a row for each of its items: ``task`` (``item`` where the input's column is
            called so), ``label``, ``probability``, and ``p_<class>`` for every class.
        max_iter: of EM: largest number of E steps.
        tol: of EM: stop when the log posterior rises by less than this fraction of itself.
        chains: of Gibbs sampling.
        warmup: of Gibbs sampling: sweeps discarded in each chain.
        num_samples: of Gibbs sampling: sweeps that count in each chain.
        level: probability of the intervals. Defaults to ArviZ's default, .89.
        seed: of Gibbs sampling. The same seed gives the same draws with any number of processes.
        checkpoint: a folder for the state of the fit, which all processes see, from which the same call continues.
            Or ``(folder, seconds)``, with the time between two writes, else a minute.
        task: column of the item, as in :meth:`Annotations.from_frame`.
        worker: likewise.
        label: likewise.
        truth: column of known truths, which clamp their items: blank where unknown, given in one row of an item or in several.
        progress: called with (step, steps, what).

    Raises:
        FileError: where nothing can be read or written, or the checkpoint belongs to another fit.
        DataError: where a column or a name is missing, there is one class only, or an item has two truths.
        ModelError: where the parameters of the model do not follow from sums over items.
        OptionError: for a value outside its range, or on another rank than 0.
        LostProcessError: if another process was lost.
    """
    if is_other_rank():
        raise OptionError("of several processes only rank 0 calls this function, and the others take part")
    level = workers.default_level(level)
    require_method(method, METHODS, "in shares")
    chosen = _suited_model(model)
    report = silent if progress is None else progress
    folder = None if consensus is None else _free(Path(consensus))
    group = processes()
    options: dict[str, Any] = {"max_iter": max_iter, "tol": tol}
    if method == "gibbs":
        options = {"chains": chains, "warmup": warmup, "num_samples": num_samples}
    with isolated(seed), torch.no_grad():
        report(0, 1, "reading")
        plan = Plan.of(Table(path, (task, worker, label), truth), group.size)
        with opened(plan, group) as parts:
            sizes = parts.sizes()
            bound = bind(chosen, sizes)
            keep = Checkpoint()
            if checkpoint is not None:
                words = (method, options, seed, group.size if method == "gibbs" else 0)
                keep = Checkpoint(checkpoint, _identity(parts, bound, words))
            with keep.stoppable():
                run = _by_em if method == "em" else _by_gibbs
                point, draws, facts = run(bound, parts, Hooks(report, keep), **options)
            if folder is not None:
                report(1, 1, "writing")
                count = chains * num_samples if method == "gibbs" else 0
                column = item_column(plan.columns.columns[0])
                parts.call("write", *bound.tables(point, sizes), folder=folder, column=column, draws=count)
            keep.clear()
            if keep.path is not None and method == "gibbs":
                parts.call("discard", folder=keep.path.parent.absolute())
            contents, names, labels = parts.contents, parts.workers, parts.labels
            accuracy = bound.truths.accuracy(point, sizes).numpy()
    if not facts["converged"]:
        warn(_unconverged(method, facts))
    table = worker_table(names, contents.each, None if len(draws) else accuracy, draws, level)
    facts = {"largest_share": contents.most} | facts
    return LargeResult(point, table, labels, contents.items, contents.annotations, facts, METHODS[method], folder)


def _by_em(bound: BoundModel, parts: Parts, hooks: Hooks, **options: Any) -> Learned:
    ended = em.em(bound, parts, hooks, **options)
    return ended.point, np.zeros((0, 0)), em.facts(ended)


def _by_gibbs(bound: BoundModel, parts: Parts, hooks: Hooks, **numbers: int) -> Learned:
    sampled = gibbs.gibbs(bound, parts, hooks, **numbers)
    return sampled.mean, sampled.accuracy.numpy(), gibbs.facts(sampled, **numbers)


def _suited_model(model: str | AnnotationModel) -> AnnotationModel:
    """Return the model of this name, or the instance itself.

    Raises:
        ModelError: where its parameters do not follow from sums over items.
    """
    refuse_numeric(model, "crowdppl.distribute")
    chosen = named_model(model)
    if not _suited(chosen):
        others = [name for name, kind in catalogue().items() if _suited(kind())]
        raise ModelError(
            f"{type(chosen).__name__} cannot be fitted in shares, which takes {listed(others)}, and models whose parameters all "
            f"have conjugate_counts"
        )
    return chosen


def _suited(model: AnnotationModel) -> bool:
    """Tell whether the parameters of a model follow from sums over items, in the data of any size."""
    # Ranks know neither the model nor features: no first responsibilities, layouts or anchors of the model's own.
    own = ("initial", "anchor", "expand", "networks")
    if not provides(model, "conjugate_counts") or any(provides(model, method) for method in own):
        return False
    nothing = torch.zeros(2, dtype=torch.int64)
    some = Annotations(
        nothing, torch.arange(2), torch.arange(2), nothing[:1] - 1, np.arange(1), np.arange(2), np.arange(2)
    )
    with isolated(0):
        bound = bind(model, some)
        return bound.closed and not bound.shared_confusion and bound.states == some.K


def _free(folder: Path) -> Path:
    """Return a folder for true labels, made if necessary, as an absolute path.

    Raises:
        FileError: if it cannot be made, or holds Parquet files.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot write in {folder}: {error.strerror}") from None
    if any(folder.glob("*.parquet")):
        raise FileError(f"{folder} already holds Parquet files; name another folder")
    return folder.absolute()


def _identity(parts: Parts, bound: BoundModel, words: tuple[Any, ...]) -> str:
    """Return a digest of a fit."""
    text = f"{FORMAT} shares {parts.call('digest')} {of_model(bound)} {described(words)}"
    return hashlib.sha256(text.encode()).hexdigest()


def _unconverged(method: str, facts: dict[str, Any]) -> str:
    if method == "em":
        return f"EM stopped after {facts['evaluations']} evaluations before it converged; raise max_iter=..., or loosen tol=..."
    if facts["r_hat"] is None:
        return f"{facts['num_samples']} sweeps a chain are too few to judge convergence; raise num_samples=..."
    return (
        f"the chains have not converged: R-hat {facts['r_hat']:.3f}, effective sample size {facts['ess']:,.0f}; raise warmup=... "
        f"and num_samples=..."
    )
