"""Which items to have labelled next, by whom, and which are finished."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import arguments
from crowdppl.acquisition.units import Units, units
from crowdppl.acquisition.value import By, entropy, gains, gains_by
from crowdppl.arguments import Identifier, PositiveInt, Seed, checked
from crowdppl.errors import OptionError
from crowdppl.posterior.numbers import NumericPosterior
from crowdppl.posterior.posterior import Posterior

Array = npt.NDArray[Any]

# What the entropy of an item, in bits, is raised by where items are drawn by it: certain ones are seen as well.
FLOOR = 0.02


@checked
def next_items(
    posterior: Annotated[Posterior, arguments.any_posterior],
    n: PositiveInt = 10,
    *,
    by: By = "entropy",
    worker: Identifier = None,
) -> pd.DataFrame:
    """Return the items for which one more annotation is most valuable, best first.

    Args:
        posterior: a result.
        n: number of items.
        by: see :func:`gains`.
        worker: likewise.

    Returns:
        A row for each item: ``task``, current ``label`` and ``probability``, ``annotations`` so far, ``gain``. Items with a known
        true label are left out.

    Of sets of labels, a row for each task, with ``labels`` and the ``probability`` of exactly this set; of sequences, a row for
    each, with the number of ``tokens`` and the smallest ``probability`` of the label of one: an annotator is asked for all of
    a set or a sequence, whose gain is the sum over its parts.

    Of a result whose labels are numbers: ``value``, ``sd`` and ``sd_after``, the standard deviation that a further label by the
    typical worker is expected to leave; ``gain`` is by how much it shrinks.

    Raises:
        OptionError: for fewer than one item.
    """
    if isinstance(posterior, NumericPosterior):
        if by != "entropy" or worker is not None:
            raise OptionError("by= and worker= are about classes, and labels are numbers; leave them out")
        return _next_numbers(posterior, n)
    asked = units(posterior)
    gain = np.where(asked.known, -np.inf, asked.total(gains(posterior, by=by, worker=worker)))
    order = np.argsort(-gain, kind="stable")[:n]
    order = order[gain[order] > -np.inf]
    return _rows(asked, order).assign(gain=gain[order])


@checked
def next_known(posterior: Posterior, n: PositiveInt = 30, *, seed: Seed = 0) -> pd.DataFrame:
    """Return items whose true label is worth finding out, for a fit that is given it (``truth=``).

    They are drawn at random without replacement, with probabilities in proportion to their entropy and a little more. Uncertain
    items correct the classes most, and random ones cannot mislead: the most uncertain ones alone are better for crowds and
    worse for some panels of language models (docs/benchmarks/known-items.md).

    Args:
        posterior: a result.
        n: number of items; thirty tell whether a crowd prefers a class.
        seed: of the draw.

    Returns:
        A row for each item, set or sequence, as :func:`next_items` without ``gain``. Those of known truth are left out.

    Raises:
        OptionError: for fewer than one item, or if the true label of every item is known.
    """
    asked = units(posterior)
    unknown = np.flatnonzero(~asked.known)
    if not len(unknown):
        raise OptionError("the true label of every item was known to the fit; there is none to find out")
    weight = asked.total(entropy(posterior.probability().astype(float)))[unknown] + FLOOR
    drawn = np.random.default_rng(seed).choice(
        len(unknown), min(n, len(unknown)), replace=False, p=weight / weight.sum()
    )
    return _rows(asked, unknown[drawn])


@checked
def next_pairs(
    posterior: Posterior,
    n: PositiveInt = 10,
    *,
    by: By = "information",
    workers: Annotated[list[Any], arguments.identifiers] | None = None,
    each: PositiveInt | None = None,
) -> pd.DataFrame:
    """Return the most valuable pairs of an item and a worker; each item once, and no worker twice for the same item.

    Args:
        posterior: a result.
        n: number of pairs.
        by: see :func:`gains`.
        workers: who is available. Defaults to all workers.
        each: maximum number of items for one worker. Defaults to ``n`` divided by the number of workers, plus one.

    Returns:
        As :func:`next_items`, with ``worker``.

    Raises:
        OptionError: for fewer than one pair, or an ``each`` below 1.
        DataError: for an unknown worker.
    """
    names = posterior.worker_names().tolist() if workers is None else workers
    if each is None:
        each = -(-n // len(names)) + 1
    item, by_worker, _ = posterior.annotation_index()
    place = {posterior.worker_index(name): w for w, name in enumerate(names)}
    asked = units(posterior)
    table = asked.total(gains_by(posterior, by, list(place)))  # (W, U)
    given = np.isin(by_worker, list(place))
    table[[place[j] for j in by_worker[given]], asked.of[item[given]]] = -np.inf
    table[:, asked.known] = -np.inf
    left, taken = np.full(len(names), each), np.zeros(table.shape[1], dtype=bool)
    chosen: list[tuple[int, int]] = []
    for cell in np.argsort(-table, axis=None, kind="stable"):
        w, i = divmod(int(cell), table.shape[1])
        if table[w, i] == -np.inf or len(chosen) == n:
            break
        if left[w] and not taken[i]:
            left[w] -= 1
            taken[i] = True
            chosen.append((i, w))
    rows, who = (np.array([pair[p] for pair in chosen], dtype=int) for p in (0, 1))
    now = _rows(asked, rows)
    now.insert(1, "worker", pd.Series([names[w] for w in who], dtype=object))
    return now.assign(gain=table[who, rows])


@checked
def finished(posterior: Posterior, sure: Annotated[float, arguments.between(0, 1, 0.99)] = 0.99) -> pd.DataFrame:
    """Apply a stopping rule: return which items need no further annotation.

    Args:
        posterior: a result.
        sure: smallest probability of the label of a finished item.

    Returns:
        A row for each item, set or sequence, as :func:`next_items`: ``task``, ``label``, ``probability``, ``annotations``,
        ``finished``.

    Raises:
        OptionError: for a probability outside (0, 1).
    """
    asked = units(posterior)
    return asked.table.assign(annotations=asked.annotations, finished=asked.table["probability"] >= sure)


def _rows(asked: Units, chosen: Array) -> pd.DataFrame:
    """Return what is known of some units, with their numbers of annotations."""
    return asked.table.iloc[chosen].reset_index(drop=True).assign(annotations=asked.annotations[chosen])


def _next_numbers(posterior: NumericPosterior, n: int) -> pd.DataFrame:
    """Return the items whose number a further label tells most of, see :func:`next_items`."""
    truth = posterior.truth()
    # What all items have in common, such as the crowd's bias, no label of one item tells.
    sd = posterior.tree["truth"][f"{posterior.reading}_relative_sd"].to_numpy()
    slope, noise = posterior.draws("slope"), posterior.draws("sd")
    information = np.median((slope**2 / noise**2).mean(0))
    after = (sd**-2 + information) ** -0.5
    gain = np.where(truth["known"], -np.inf, sd - after)
    order = np.argsort(-gain, kind="stable")[:n]
    order = order[gain[order] > -np.inf]
    table = truth.iloc[order][[posterior.item_column, "value"]].reset_index(drop=True)
    annotations = truth["annotations"].to_numpy()[order]
    return table.assign(sd=sd[order], sd_after=after[order], annotations=annotations, gain=gain[order])
