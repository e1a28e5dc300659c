"""The synthetic set of Chu, Ma and Wang (2021): truth, common matrix and source of each annotation, by CoNAL and others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from baselines import plain  # puts the folder of common on the path
from common import arguments, fit, spread, table, write
from scipy.stats import rankdata

from crowdppl import learning
from crowdppl.data.synthetic import Simulation, common_and_individual
from crowdppl.models import CoNAL

# (mean share of the common matrix, its error rate); the individual error rate is .7.
SETS = ((0.5, 0.4), (0.5, 0.5), (0.5, 0.6), (0.0, 0.4))
KNOWN, STARTS = 400, 3  # known true labels; starts of EM
VARIANTS = {
    "CoNAL": {},
    "CoNAL, learned scale": {"learned_scale": True},
}
FIGURES = ("majority", "Dawid–Skene", *VARIANTS, f"CoNAL, {STARTS} starts", f"CoNAL, {KNOWN} known")
MORE = ("matrix", "all", "wrong", "share")


def auc(score: np.ndarray, one: np.ndarray) -> float:
    """Return the area under the ROC curve; NaN where there is one kind only."""
    count = int(one.sum())
    if count in (0, len(one)):
        return float("nan")
    return float((rankdata(score)[one].sum() - count * (count + 1) / 2) / (count * (len(one) - count)))


def correct(probability: np.ndarray, s: Simulation, counted: np.ndarray | slice) -> float:
    """Return the share of correct labels of some items."""
    return float((probability.argmax(1) == s.truth)[counted].mean())


def ideal(s: Simulation, seed: int) -> float:
    """Return the test accuracy of a classifier that is trained on the true labels."""
    truth = dict(zip(s.data.items.tolist(), s.truth.tolist(), strict=True))
    return learning.on_truth(s.data, truth, plain, seed=seed).accuracy(s.features_test, s.truth_test)


def measured(s: Simulation, seed: int) -> dict[str, float]:
    """Fit all models to one set."""
    votes = s.data.majority().numpy()
    given = votes[np.arange(s.data.N), s.truth]
    label, true = s.data.label.numpy(), s.truth[s.data.item.numpy()]
    worst = np.array([(label[true == k] == y).mean() for k in range(s.data.K) for y in range(s.data.K) if y != k])
    out = {
        "right": float((label == true).mean()),
        "second": float(worst.reshape(s.data.K, -1).max(1).mean()),
        "majority": float(np.where(votes.max(1) == given, 1 / (votes == votes.max(1, keepdims=True)).sum(1), 0).mean()),
        "ideal": ideal(s, seed),
    }
    skene, _ = fit(s.data, "dawid-skene", method="em", seed=seed, independent=True, num_samples=2)
    out["Dawid–Skene"] = correct(skene.probability(), s, slice(None))
    for name, options in VARIANTS.items():
        posterior, _ = fit(s.data, CoNAL(**options), method="em", seed=seed, independent=True)
        out[name] = correct(posterior.probability(), s, slice(None))
        if options:
            continue
        source, wrong = posterior.tree["annotation"]["source"].values, label != true
        one = s.parameters["source"]
        out["matrix"] = float(np.abs(posterior.tree["point"]["common"].values - s.parameters["common"]).mean())
        out["all"], out["wrong"], out["share"] = auc(source, one), auc(source[wrong], one[wrong]), float(source.mean())
    if out["second"] > out["right"]:
        posterior, _ = fit(s.data, CoNAL(), method="em", seed=seed, independent=True, restarts=STARTS - 1)
        out[f"CoNAL, {STARTS} starts"] = correct(posterior.probability(), s, slice(None))
    known = np.random.default_rng(seed).choice(s.data.N, KNOWN, replace=False)
    truth = np.full(s.data.N, -1)
    truth[known] = s.truth[known]
    informed = replace(s.data, truth=torch.from_numpy(truth))
    posterior, _ = fit(informed, CoNAL(), method="em", seed=seed, independent=True)
    out[f"CoNAL, {KNOWN} known"] = correct(posterior.probability(), s, truth < 0)
    return out


def main() -> None:
    """Fit all sets and write the page."""
    options = arguments(__doc__ or "")
    seeds = range(1 if options.quick else 2)
    results: dict[str, dict[str, list[float]]] = {}
    for share, strength in SETS[:1] if options.quick else SETS:
        name = f"{share}, {strength}"
        for seed in seeds:
            one = measured(common_and_individual(seed=seed, common=share, common_strength=strength), seed)
            for key, value in one.items():
                results.setdefault(name, {}).setdefault(key, []).append(value)
        print(name, {key: float(np.mean(values)) for key, values in results[name].items()}, flush=True)
    truths = [
        [
            name,
            *(f"{np.mean(one[key]):.2f}" for key in ("right", "second")),
            *(spread(one[key]) if key in one else "–" for key in FIGURES),
        ]
        for name, one in results.items()
    ]
    parts = [
        [name, *("–" if np.isnan(one[key]).any() else f"{np.mean(one[key]):.3f}" for key in MORE)]
        for name, one in results.items()
    ]
    best = [value for one in results.values() for value in one["ideal"]]
    head = ["share, error rate", "labels that are right", "the most frequent wrong one", *FIGURES]
    body = f"""8,000 items in six classes with ten features, 30 annotators, three labels an item
(`crowdppl.data.synthetic.common_and_individual`): symmetric common errors, individual error rate .7. Rows: mean share of the
common matrix, and its error rate. Mean and standard deviation over {len(seeds)} seeds. CoNAL by EM with one true label per item
and its defaults. A classifier that is trained on the true labels has {100 * min(best):.1f} to {100 * max(best):.1f}% on test
items. The paper uses images, and 10,000 items with those for validation and test.

## Truth

Share of correct labels, per cent; with {KNOWN} known true labels of the other items. Several starts only where the most frequent
wrong label of a class outnumbers the right one.

{table(head, truths)}

With an error rate of .6 the most frequent wrong label of a class outnumbers the right one. A fit that starts from the votes then
exchanges the classes of some pairs. Other starts do not help, since such a solution explains the annotations as well; some known
true labels do.

## Common matrix and source

CoNAL by default. *Matrix*: mean absolute error of the common matrix. *Source*: area under the ROC curve of the probability that
an annotation came from the common matrix, over all annotations and over incorrect ones. *Share*: mean of this probability.

{table(["share, error rate", "matrix", "source, all", "source, incorrect", "share"], parts)}

The embeddings have length one, so that an annotation's prior probability of the common source lies between .27 and .73: where
nothing is common, the share is not 0.
"""
    write("paper_conal", "CoNAL, synthetic set", body, results, options, script="papers/conal")


if __name__ == "__main__":
    main()
