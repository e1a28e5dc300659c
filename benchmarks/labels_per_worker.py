"""Accuracy of default labels where workers give few labels. Writes docs/benchmarks/labels-per-worker.md.

Simulated workers who differ in accuracy give 1 to 20 labels each, from 2 to 20 classes, 2 to 5 labels an item. The default fit is
compared with majority votes and with Dawid and Skene's model.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import torch
from common import arguments, table, write

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import silent

EACH = (1, 2, 3, 5, 10, 20)
CLASSES = (2, 3, 5, 20)
PER_ITEM = (2, 3, 5)
ITEMS, SEEDS = 600, range(7000, 7005)
MODELS = ("default", "votes", "dawid-skene")


def crowd(classes: int, per_item: int, each: int, seed: int) -> tuple[Annotations, np.ndarray]:
    """Draw a crowd of workers whose accuracy has a beta distribution, mean .7 and standard deviation .14.

    Returns:
        The annotations, and the true class of each item, ``(N,)``.
    """
    rng = np.random.default_rng([classes, per_item, each, seed])
    truth = rng.integers(0, classes, ITEMS)
    item = np.repeat(np.arange(ITEMS), per_item)
    workers = max(per_item, round(len(item) / each))
    # Each worker gives as many labels, in random order; a second label of an item changes places with another one.
    worker = rng.permutation(np.arange(len(item)) % workers)
    while True:
        ordered = np.lexsort((worker, item))
        again = ordered[1:][(np.diff(item[ordered]) == 0) & (np.diff(worker[ordered]) == 0)]
        if len(again) == 0:
            break
        for n in again.tolist():
            other = int(rng.integers(len(item)))
            worker[[n, other]] = worker[[other, n]]
    correct = rng.beta(7, 3, workers)
    wrong = (truth[item] + rng.integers(1, classes, len(item))) % classes
    label = np.where(rng.random(len(item)) < correct[worker], truth[item], wrong)
    with silent():
        data = Annotations.from_arrays(item, worker, label, labels=range(classes), items=range(ITEMS))
    return data, truth


def accuracies(job: tuple[int, int, int, int]) -> list[float]:
    """Return the accuracy of the default, of votes (ties by their share) and of Dawid and Skene's model on a crowd."""
    torch.set_num_threads(1)
    data, truth = crowd(*job)
    votes = data.majority().numpy()
    best = votes == votes.max(1, keepdims=True)
    rows = np.arange(ITEMS)
    with silent():
        fits = [
            crowdppl.fit(data, model, method="em", seed=0, num_samples=2).probability()
            for model in (None, "dawid-skene")
        ]
    default, theirs = (float((fitted.argmax(1) == truth).mean()) for fitted in fits)
    return [default, float((best[rows, truth] / best.sum(1)).mean()), theirs]


def main() -> None:
    """Measure all cells."""
    options = arguments(__doc__ or "")
    each, classes, per_item, seeds = EACH, CLASSES, PER_ITEM, SEEDS
    if options.quick:
        each, classes, per_item, seeds = EACH[:2], CLASSES[:2], PER_ITEM[1:2], SEEDS[:1]
    cells = [(k, r, n) for r in per_item for k in classes for n in each]
    with ProcessPoolExecutor(2) as pool:
        figures = list(pool.map(accuracies, [(*cell, seed) for cell in cells for seed in seeds]))
    mean = np.array(figures).reshape(len(cells), len(seeds), len(MODELS)).mean(1)
    story = [
        {"classes": k, "per item": r, "labels per worker": n} | dict(zip(MODELS, row, strict=True))
        for (k, r, n), row in zip(cells, mean.tolist(), strict=True)
    ]
    short = mean[:, 1:].max(1) - mean[:, 0]
    worst = int(short.argmax())
    parts = []
    for r in per_item:
        rows: list[list[Any]] = []
        for k in classes:
            row: list[Any] = [f"{k}"]
            for n in each:
                values = mean[cells.index((k, r, n))]
                row.append(" / ".join(f"{value:.3f}".lstrip("0") for value in values))
            rows.append(row)
        parts.append(f"## {r} labels an item\n\n{table(['classes', *(f'{n} each' for n in each)], rows)}")
    k, r, n = cells[worst]
    newline = "\n\n"
    body = f"""
{ITEMS} items; workers whose accuracies have a beta distribution with mean .7 and standard deviation .14, and who otherwise
give any other class; means over {len(seeds)} crowds. Cells are the accuracy of the **default / majority votes / Dawid–Skene by
EM**; columns are the number of labels of each worker. Ties of votes count by their share.

The default is at least as good as the better of the other two, within .01, in {int((short <= 0.01).sum())} of {len(cells)} cells;
the largest difference is {max(0.0, short[worst]):.3f} ({k} classes, {r} labels an item, {n} labels of each worker).

{newline.join(parts)}
"""
    write("labels_per_worker", "Labels per worker", body, story, options)


if __name__ == "__main__":
    main()
