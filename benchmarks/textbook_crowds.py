"""Textbook crowds, whose workers err independently and are equally good: what the default says of them, and `independent=True`.

Every worker labels every item. An incorrect label is any other class with equal probability.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from common import arguments, table, write

import crowdppl
from crowdppl import Annotations, Posterior

# Items, workers, classes, accuracy, and the share of the first class; the other classes are equally frequent.
CROWDS = {
    "five workers, 300 items": (300, 5, 2, 0.85, 0.5),
    "five workers, 2,000 items": (2_000, 5, 2, 0.85, 0.5),
    "ten workers, 300 items": (300, 10, 2, 0.8, 0.5),
    "five workers, four classes, 300 items": (300, 5, 4, 0.85, 0.25),
    "five workers, a class of 1%, 300 items": (300, 5, 2, 0.85, 0.01),
    "five workers, a class of 1%, 2,000 items": (2_000, 5, 2, 0.85, 0.01),
}
FITS: dict[str, dict[str, Any]] = {
    "default": {},
    "`independent=True`": {"independent": True},
    "item effects, `independent=True`": {"model": "item-effects", "method": "em", "independent": True},
}
LEVEL = 0.89


def crowd(
    seed: int, items: int, workers: int, classes: int, accuracy: float, first: float
) -> tuple[Annotations, np.ndarray]:
    """Draw a crowd and its true classes."""
    rng = np.random.default_rng(seed)
    shares = np.array([first, *[(1 - first) / (classes - 1)] * (classes - 1)])
    truth = rng.choice(classes, size=items, p=shares)
    correct = rng.random((workers, items)) < accuracy
    label = np.where(correct, truth, (truth + rng.integers(1, classes, size=(workers, items))) % classes)
    worker, item = np.divmod(np.arange(label.size), items)
    return Annotations.from_arrays(item, worker, label.ravel(), labels=range(classes)), truth


def scores(posterior: Posterior, truth: np.ndarray, accuracy: float) -> dict[str, float]:
    """Return what is stated, what is correct, and which intervals hold the true value."""
    probability, workers = posterior.probability(), posterior.workers(level=LEVEL)
    item, worker, label = posterior.annotation_index()
    share = np.bincount(worker, weights=label == truth[item]) / np.bincount(worker)
    prevalence = posterior.draws("prevalence").reshape(-1, probability.shape[1])[:, 0]
    low, high = np.quantile(prevalence, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])

    def held(name: str, value: Any) -> float:
        # Shares of the same labels, of which one may be the end of an interval.
        return float(((workers[f"{name}_low"] <= value + 1e-9) & (value <= workers[f"{name}_high"] + 1e-9)).mean())

    return {
        "correct": float((probability.argmax(1) == truth).mean()),
        "stated": float(probability.max(1).mean()),
        "share bias": float((workers["share_correct"] - share).mean()),
        "share held": held("share_correct", share),
        "accuracy bias": float((workers["accuracy"] - accuracy).mean()),
        "accuracy held": held("accuracy", accuracy),
        "prevalence": float(prevalence.mean()),
        "prevalence held": float(low <= (truth == 0).mean() <= high),
    }


def main() -> None:
    """Measure, and write the page."""
    options = arguments(__doc__)
    seeds = 2 if options.quick else 20
    figures: dict[str, dict[str, dict[str, float]]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, size in CROWDS.items():
            each: dict[str, list[dict[str, float]]] = {fit: [] for fit in FITS}
            for seed in range(seeds):
                data, truth = crowd(seed, *size)
                for fit, settings in FITS.items():
                    each[fit].append(scores(crowdppl.fit(data, seed=0, **settings), truth, size[3]))
            figures[name] = {
                fit: {key: float(np.mean([row[key] for row in rows])) for key in rows[0]} for fit, rows in each.items()
            }
    rows = [
        [
            name if n == 0 else "",
            fit,
            *(f"{one[key]:.3f}" for key in ("correct", "stated")),
            *(f"{one[f'{key} bias']:+.3f} ({one[f'{key} held']:.0%})" for key in ("share", "accuracy")),
            f"{one['prevalence']:.3f} ({one['prevalence held']:.0%})",
        ]
        for name, by_fit in figures.items()
        for n, (fit, one) in enumerate(by_fit.items())
    ]
    header = (
        "crowd",
        "fit",
        "correct",
        "stated",
        "share correct: bias (held)",
        "accuracy: bias (held)",
        "first class (held)",
    )
    body = f"""Workers of .85, or .8 of the crowd of ten, who err independently, means over {seeds} crowds. *Correct* is the share
of correct labels and *stated* the mean probability of a label. Biases are those of the share of a worker's annotations that are
correct and of the accuracy; *held* is how often {LEVEL:.0%} intervals contain the true value. *First class* is the estimated
share of the items of the first class, and how often its interval holds that of the crowd.

{table(header, rows)}

The default allows for errors that workers share, as all public crowds have them: of a textbook crowd it says too little. With
`independent=True` a fit that names no model is Dawid and Skene's model as published, which is right for such crowds, and far too
sure of others ([correlated errors](correlated-sbc.md)). Labels alone tell both apart only where there are many items.
"""
    write("textbook-crowds", "Textbook crowds", body, figures, options, "textbook_crowds")


if __name__ == "__main__":
    main()
