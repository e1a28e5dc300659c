"""Sparse data, three annotations per item, twenty per worker: which models are below majority vote, which overconfident?"""

from __future__ import annotations

import numpy as np
from common import arguments, fit, spread, table, write
from priors import sparse
from real_data import accuracy, split_ties

from crowdppl.models import ClassConditional, DawidSkene, HierarchicalDawidSkene, ItemSubtypes, OneCoin, Pooled

GIBBS = {"chains": 2, "warmup": 300, "num_samples": 500}
CASES = {
    "Dawid–Skene, maximum likelihood": (DawidSkene.maximum_likelihood(), "em", {"num_samples": 2}),
    "Dawid–Skene, default, EM": (DawidSkene(), "em", {"num_samples": 2}),
    "Dawid–Skene, default, Gibbs": (DawidSkene(), "gibbs", GIBBS),
    "hierarchical, Gibbs": (HierarchicalDawidSkene(), "gibbs", GIBBS),
    "class-conditional, Gibbs": (ClassConditional(), "gibbs", GIBBS),
    "one-coin, EM": (OneCoin(), "em", {"num_samples": 2}),
    "one-coin, Gibbs": (OneCoin(), "gibbs", GIBBS),
    "pooled, Gibbs": (Pooled(), "gibbs", GIBBS),
    "item subtypes, Gibbs": (ItemSubtypes(), "gibbs", GIBBS),
}


def oracle(seed: int) -> tuple[float, float]:
    """Return accuracy and mean confidence of Bayes' rule with the workers' true probabilities, the best possible."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, 1000)
    item = np.repeat(np.arange(1000), 3)
    worker = np.concatenate([rng.choice(150, 3, replace=False) for _ in range(1000)])
    # The same random draws as in priors.sparse, where correctness is drawn before accuracies.
    draw = rng.random(3000)
    skill = rng.uniform(0.55, 0.95, 150)
    right = draw < skill[worker]
    label = np.where(right, truth[item], (truth[item] + rng.integers(1, 3, 3000)) % 3)
    log = np.log(np.where(np.arange(3)[None] == label[:, None], skill[worker, None], (1 - skill[worker, None]) / 2))
    total = np.zeros((1000, 3))
    np.add.at(total, item, log)
    p = np.exp(total - total.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    return float((p.argmax(1) == truth).mean()), float(p.max(1).mean())


def main() -> None:
    """Fit every model to every simulation."""
    options = arguments(__doc__ or "")
    seeds = range(2 if options.quick else 10)
    data = [sparse(seed) for seed in seeds]
    majority = [split_ties(*pair) for pair in data]
    results: dict[str, list[tuple[float, float]]] = {}
    rows = [["majority vote", spread(majority), "–", "–"]]
    for name, (model, method, settings) in CASES.items():
        results[name] = [
            accuracy(fit(d, model, method=method, seed=seed, **settings)[0], truth)
            for seed, (d, truth) in zip(seeds, data, strict=True)
        ]
        print(name, np.mean(results[name], axis=0), flush=True)
    results["oracle"] = [oracle(seed) for seed in seeds]
    for name, pairs in results.items():
        right, sure = (list(column) for column in zip(*pairs, strict=True))
        gap = 100 * (np.mean(sure) - np.mean(right))
        rows.append([name if name != "oracle" else "Bayes, workers known", spread(right), spread(sure), f"{gap:+.1f}"])
    body = f"""1,000 items with 3 annotations each by 150 workers (20 each on average), 3 classes, each worker correct with a
probability between .55 and .95; {len(seeds)} seeds; mean and standard deviation in per cent. *Confidence* is the mean
probability of the chosen label; the gap is confidence minus accuracy, in percentage points.

{table(["model", "accuracy", "confidence", "gap"], rows)}
"""
    write("sparse", "Sparse data", body, results | {"majority": majority}, options)


if __name__ == "__main__":
    main()
