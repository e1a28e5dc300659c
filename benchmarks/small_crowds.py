"""Shared by two benchmarks: parts of public sets, and the default on them with and without a mixture of independent errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from unittest import mock

import numpy as np
from default_model import known_classes, load

import crowdppl
from crowdppl import Annotations, Posterior
from crowdppl.inference.dependence import independence


def small(name: str, workers: int | None, items: int, seed: int) -> tuple[Annotations, np.ndarray] | None:
    """Return items of the workers with the most annotations of a public set, or all, and true classes, else -1; if there are."""
    data, truth = load(name)
    if workers is not None and workers >= data.J:
        return None
    known = known_classes(data, truth)
    item, worker, label = (part.numpy() for part in (data.item, data.worker, data.label))
    own = np.isin(worker, np.argsort(-np.bincount(worker, minlength=data.J))[:workers])
    have = np.unique(item[own])
    if len(have) < 1.25 * items:
        return None
    own &= np.isin(item, np.random.default_rng(seed).choice(have, items, replace=False))
    index, item = np.unique(item[own], return_inverse=True)
    worker = np.unique(worker[own], return_inverse=True)[1]
    return Annotations.from_arrays(item, worker, label[own], labels=range(data.K)), known[index]


def weight(posterior: Posterior) -> float:
    """Return the probability of independence."""
    mixture = posterior.info["independence"]
    return 0.0 if mixture is None else float(mixture["probability"])


def both(data: Annotations) -> tuple[Posterior, Posterior]:
    """Return the default, and without a mixture."""
    mixed = crowdppl.fit(data, seed=0)
    if weight(mixed) == 0:
        return mixed, mixed
    with mock.patch.object(independence, "NEGLIGIBLE", 1.0):
        return mixed, crowdppl.fit(data, seed=0)


def of_public(
    names: Sequence[str],
    workers: Sequence[int | None],
    items: Sequence[int],
    repetitions: int,
    compared: Callable[[Annotations], bool],
    fewest: int = 1,
) -> list[tuple[str, int, list[float]]]:
    """Return for each set the number of its parts, and means over them.

    Args:
        names: of the sets.
        workers: how many, those with the most annotations; ``None`` for all.
        items: how many, at random.
        repetitions: how often.
        compared: whether a part is one of those to compare.
        fewest: known true classes of a part.

    Returns:
        For each set with such parts its name, their number, and the means of the probability of independence and of accuracy and
        log loss without the mixture and with it.
    """
    rows = []
    for name in names:
        parts = (small(name, one, number, seed) for one in workers for number in items for seed in range(repetitions))
        runs = []
        for part in parts:
            if part is None or not compared(part[0]) or (part[1] >= 0).sum() < fewest:
                continue
            data, known = part
            mixed, plain = both(data)
            have, one = known >= 0, [weight(mixed)]
            for posterior in (plain, mixed):
                p = posterior.probability()[have]
                right = np.maximum(p[np.arange(len(p)), known[have]], 1e-12)
                one += [(p.argmax(1) == known[have]).mean(), -np.log(right).mean()]
            runs.append(one)
        if runs:
            rows.append((name, len(runs), np.mean(runs, 0).tolist()))
    return rows
