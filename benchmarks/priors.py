"""Priors of Dawid–Skene: accuracy and confidence on public data and on sparse simulated data."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
from common import SETS as COMMON
from common import arguments, fit, table, write
from real_data import accuracy, split_ties

from crowdppl import Annotations, CrowdpplWarning
from crowdppl.data import datasets
from crowdppl.models import DawidSkene

SETS = (
    *COMMON[:-1],  # all but the largest
    "zencrowd-in",
    "weather-sentiment-cf",
    "weather-sentiment-amt",
    "adult-content",
    "sentiment-polarity",
    "sentiment-polarity-amt",
    "leaves",
    "reuters",
    "ducks",
    "wsd",
)
PRIORS = {
    "flat (maximum likelihood)": DawidSkene.maximum_likelihood(),
    "correct 1, incorrect 0": DawidSkene(prior_correct=1, prior_incorrect=0),
    "correct 4, incorrect 0": DawidSkene(prior_correct=4, prior_incorrect=0),
    "**correct 4 (K/2 if more), incorrect 1: the default**": DawidSkene(),
    "correct 4, incorrect 2": DawidSkene(prior_correct=4, prior_incorrect=2),
    "correct 6, incorrect 2": DawidSkene(prior_correct=6, prior_incorrect=2),
}
ENGINES = {"em": {"num_samples": 2}, "gibbs": {"chains": 1, "warmup": 150, "num_samples": 250}}


def sparse(seed: int) -> tuple[Annotations, pd.Series]:
    """Simulate 1,000 items with 3 annotations each by 150 workers, correct with probability .55 to .95, in 3 classes."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, 1000)
    item = np.repeat(np.arange(1000), 3)
    worker = np.concatenate([rng.choice(150, 3, replace=False) for _ in range(1000)])
    right = rng.random(3000) < rng.uniform(0.55, 0.95, 150)[worker]
    label = np.where(right, truth[item], (truth[item] + rng.integers(1, 3, 3000)) % 3)
    return Annotations.from_arrays(item, worker, label, labels=range(3)), pd.Series(truth)


def main() -> None:
    """Fit every set and simulation under every prior by two engines."""
    options = arguments(__doc__ or "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        real = [datasets.public(name) for name in (SETS[:2] if options.quick else SETS)]
    simulated = [sparse(seed) for seed in range(2 if options.quick else 10)]
    rows, results = [], {}
    for name, model in PRIORS.items():
        row: list[str] = [name]
        for method, settings in ENGINES.items():
            for group in (real, simulated):
                pairs = [
                    accuracy(fit(data, model, method=method, seed=1, **settings)[0], truth) for data, truth in group
                ]
                right, sure = np.mean(pairs, axis=0)
                row.append(f"{right:.4f} / {sure:.3f}")
                results[f"{name}, {method}, {'real' if group is real else 'sparse'}"] = [right, sure]
        rows.append(row)
        print(row, flush=True)
    majority = [np.mean([split_ties(data, truth) for data, truth in group]) for group in (real, simulated)]
    body = (
        f"Mean accuracy / mean probability of the chosen label. Public: {len(real)} sets. Sparse: {len(simulated)} simulations "
        f"with 3 annotations per item, 20 per worker and 3 classes. Accuracy of majority vote: {majority[0]:.4f} and "
        f"{majority[1]:.4f}. Learned priors and anchoring: [on 26 sets](learned-priors.md).\n\n"
        + table(["prior", "public, EM", "sparse, EM", "public, Gibbs", "sparse, Gibbs"], rows)
    )
    write("priors", "Priors of Dawid–Skene", body, results | {"majority": majority}, options)


if __name__ == "__main__":
    main()
