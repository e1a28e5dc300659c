"""Coverage of the intervals of agreement, in simulated workers. Writes docs/benchmarks/agreement-intervals.md."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
from common import arguments, table, write
from scipy import special

from crowdppl import Annotations, metrics
from crowdppl.data.worker_items import WorkerItems
from crowdppl.errors import silent
from crowdppl.metrics import coefficients
from crowdppl.metrics.scales import label_weights

LEVEL = 0.89
SAMPLES, POPULATION = 400, 200_000
MEASURES = ("agreement", "krippendorff_alpha", "fleiss_kappa", "gwet_ac")
KINDS = {"2 classes": (2, "nominal"), "4 classes": (4, "nominal"), "5 ordered classes": (5, "quadratic")}


def draw(rng: np.random.Generator, items: int, classes: int, correct: float, common: float, raters: int) -> Annotations:
    """Draw labels of workers who are all correct with the same probability, and otherwise give any other label."""
    share = np.r_[common, np.full(classes - 1, (1 - common) / (classes - 1))]
    truth = rng.choice(classes, items, p=share)
    wrong = (truth[:, None] + 1 + rng.integers(0, classes - 1, (items, raters))) % classes
    label = np.where(rng.random((items, raters)) < correct, truth[:, None], wrong)
    item, worker = np.divmod(np.arange(items * raters), raters)
    return Annotations.from_arrays(item, worker, label.ravel(), labels=range(classes))


def usual(data: Annotations, weights: Any) -> np.ndarray[Any, Any]:
    """Return the interval of Fleiss' kappa by its standard error and Student's t."""
    cells = WorkerItems.of(data)
    w = label_weights(np.arange(data.K), weights)
    own = np.bincount(cells.item, minlength=data.N).astype(float)
    each = coefficients._by_items(cells, own, cells.raters > 1, w)["fleiss_kappa"]
    n = len(each.influence)
    beyond = 1 - each.expected
    value = (each.observed - each.expected) / beyond if beyond > 0 else np.nan
    half = special.stdtrit(n - 1, (1 + LEVEL) / 2) * np.sqrt(np.square(each.influence).sum() * n / (n - 1))
    return np.array([value - half, value + half])


def main() -> None:
    """Draw samples of every crowd, count which intervals hold the true value, and write the page."""
    options = arguments(str(__doc__))
    samples = 20 if options.quick else SAMPLES
    rng = np.random.default_rng(0)
    results = []
    for (name, (classes, weights)), common, correct, raters in itertools.product(
        KINDS.items(), (0, 0.9), (0.975, 0.85), (2, 4)
    ):
        setting = (classes, correct, common or 1 / classes, raters)
        whole = metrics.agreement(draw(rng, POPULATION, *setting), weights=weights).set_index("measure")["value"]
        for items in (10, 20, 50, 200):
            hits: dict[str, list[bool]] = {measure: [] for measure in (*MEASURES, "usual")}
            for _ in range(samples):
                data = draw(rng, items, *setting)
                with silent():
                    rows = metrics.agreement(data, weights=weights, level=LEVEL).set_index("measure")
                for measure in MEASURES:
                    row = rows.loc[measure]
                    if np.isfinite(row["value"]):
                        hits[measure].append(bool(row["low"] - 1e-9 <= whole[measure] <= row["high"] + 1e-9))
                low, high = usual(data, weights)
                if np.isfinite(low):
                    hits["usual"].append(bool(low - 1e-9 <= whole["fleiss_kappa"] <= high + 1e-9))
            results.append(
                {"kind": name, "common": setting[2], "correct": correct, "raters": raters, "items": items}
                | {measure: float(np.mean(covered)) for measure, covered in hits.items()}
            )
    frame = pd.DataFrame(results)
    header = ["labels", "items", *(f"{m} (least)" for m in MEASURES), "Fleiss' kappa, usual (least)"]
    rows = [
        [name, items, *(f"{part[m].mean():.2f} ({part[m].min():.2f})" for m in (*MEASURES, "usual"))]
        for (name, items), part in frame.groupby(["kind", "items"], sort=False)
    ]
    body = f"""
How often {LEVEL:.0%} intervals hold the true value, in {samples} samples of each of 8 crowds: two or four workers per item,
correct in 97.5% or 85% of their labels, with balanced classes or one of 90%. Figures are the mean over crowds and the least.
*Usual* is the standard error with Student's t, for Fleiss' kappa. Samples in which all labels are the same have no kappa and are
left out of it. Ordered classes have quadratic weights.

{table(header, rows)}
"""
    write("agreement_intervals", "Intervals of agreement", body, results, options)


if __name__ == "__main__":
    main()
