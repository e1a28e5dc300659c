"""Calibration of several models of shared errors, each learned without the set it is measured on, with item subtypes.

Writes docs/benchmarks/correlation-forms.md. The figures of intervals are those of design_effect.py, which uses the first form.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from common import arguments, fit, table, write
from design_effect import GRID, KEPT, SETS, by_rho, choose, log_likelihoods

from crowdppl import criticism
from crowdppl.data import datasets

FLOOR = 1e-6
SHARES = (0.0, 0.02, 0.05, 0.1, 0.2)
# Grid of logit rho for a set's own truth, and the numbers of known truths.
RHOS = np.linspace(-6, 5, 45)
GOLD = (0, 10, 30, 100)
# With more annotations than this, the predictive check uses a subset of items.
LARGE = 60_000


def gather(name: str) -> dict[str, Any]:
    """Posterior of item subtypes at items of known truth, and the variation of agreement over items in excess of the model's."""
    torch.set_num_threads(1)
    sample: dict[str, Any] = dict(log_likelihoods(name))
    data, _ = datasets.public(name)
    if data.A > LARGE:
        keep = np.sort(np.random.default_rng(0).choice(data.N, int(data.N * LARGE / data.A), replace=False))
        data = data.batch(torch.from_numpy(keep))
    posterior, _ = fit(data, "dawid-skene", method="em", num_samples=60)
    check = criticism.check(posterior, draws=60).table.set_index("statistic")
    kept = {name: check[name].clip(lower=1e-3) for name in ("observed", "mean")}  # zero for a unanimous crowd

    def of(statistic: str) -> float:
        return float(np.log(kept["observed"][statistic] / kept["mean"][statistic]))

    sample["features"] = np.array(
        [of("agreement_spread"), of("agreement"), np.log(data.K), np.log(data.annotations_per_item.numpy().mean())]
    )
    return sample


def probabilities(one: dict[str, Any], factor: np.ndarray) -> np.ndarray:
    """Class probabilities (n, K) for design effects (D, n), averaged over draws."""
    logs = one["logs"] / factor[:, :, None]
    p = np.exp(logs - logs.max(-1, keepdims=True))
    return (p / p.sum(-1, keepdims=True)).mean(0)


def loss(p: np.ndarray, truth: np.ndarray) -> float:
    """Mean log loss of the truth, with a floor on probabilities."""
    return float(-np.log(np.maximum(p[np.arange(len(p)), truth], FLOOR)).mean())


def seen_wrongly(p: np.ndarray, share: float) -> np.ndarray:
    """The crowd sees another class than the true one in this share of items: the marginal of an apparent class.

    Labels tell of the apparent class only; the true one is it with probability 1 - share, else any other.
    """
    K = p.shape[1]
    return (1 - share) * p + share * (1 - p) / (K - 1)


def fixed(one: dict[str, Any], log_odds: np.ndarray) -> np.ndarray:
    """Log loss (R,) at fixed values of logit rho."""
    return np.array([loss(probabilities(one, by_rho(one, at, 0.0)), one["truth"]) for at in log_odds])


def with_gold(one: dict[str, Any], mean: float, sd: float, known: int, seed: int) -> float:
    """Log loss on the other items with the distribution of rho updated by some known truths."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(one["truth"]))
    gold, rest = order[:known], order[known:]
    each = []  # (R, n): probability of the truth at each rho
    part = []
    for at in RHOS:
        p = probabilities(one, by_rho(one, at, 0.0))
        part.append(p)
        each.append(p[np.arange(len(p)), one["truth"]])
    log_likelihood = np.log(np.maximum(np.array(each)[:, gold], FLOOR)).sum(1)
    weight = log_likelihood - 0.5 * ((RHOS - mean) / max(sd, 1e-3)) ** 2
    weight = np.exp(weight - weight.max())
    weight /= weight.sum()
    return loss(np.einsum("r,rnk->nk", weight, np.array(part))[rest], one["truth"][rest])


def regression(features: np.ndarray, target: np.ndarray, new: np.ndarray) -> float:
    """Ridge regression of logit rho, standardised."""
    middle, scale = features.mean(0), features.std(0) + 1e-9
    x = np.column_stack([np.ones(len(features)), (features - middle) / scale])
    beta = np.linalg.solve(x.T @ x + np.diag([0.0] + [2.0] * features.shape[1]), x.T @ target)
    return float(beta @ np.concatenate([[1.0], (new - middle) / scale]))


def main() -> None:
    """Compare the forms."""
    options = arguments(__doc__ or "")
    sets = SETS[:5] if options.quick else SETS
    with ProcessPoolExecutor(2) as pool:
        samples = dict(zip(sets, pool.map(gather, sets), strict=True))
    N = len(sets)
    # Losses (form, set) for distributions of rho, with and without a share of items with another apparent class.
    both = [(mean, sd, share) for mean, sd in GRID for share in SHARES]
    losses = np.empty((len(both), N))
    for i, s in enumerate(sets):
        for g, (mean, sd) in enumerate(GRID):
            p = probabilities(samples[s], by_rho(samples[s], mean, sd))
            for h, share in enumerate(SHARES):
                losses[g * len(SHARES) + h, i] = loss(seen_wrongly(p, share), samples[s]["truth"])
    shares = np.array([0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3])
    alone = np.array(
        [
            [
                loss(
                    seen_wrongly(probabilities(samples[s], np.ones((KEPT, len(samples[s]["n"])))), e),
                    samples[s]["truth"],
                )
                for s in sets
            ]
            for e in shares
        ]
    )
    curves = {s: fixed(samples[s], RHOS) for s in sets}
    own = np.array([RHOS[curves[s].argmin()] for s in sets])
    features = np.array([samples[s]["features"] for s in sets])
    left: dict[str, list[float]] = {
        name: []
        for name in (
            "rho",
            "rho, and seen wrongly",
            "seen wrongly",
            "rho from the check",
            "rho from all four",
            "own rho",
        )
    }
    golden: dict[int, list[float]] = {known: [] for known in GOLD}
    rho_only = losses[:: len(SHARES)]
    for i, s in enumerate(sets):
        rest = np.arange(N) != i
        left["rho"].append(rho_only[choose(rho_only[:, rest], GRID), i])
        left["rho, and seen wrongly"].append(losses[losses[:, rest].mean(1).argmin(), i])
        left["seen wrongly"].append(alone[alone[:, rest].mean(1).argmin(), i])
        for name, columns in {"rho from the check": [0, 1], "rho from all four": [0, 1, 2, 3]}.items():
            # Prediction, with the residual standard deviation over the sets it is learned from.
            residuals = [
                own[j]
                - regression(np.delete(features, [i, j], 0)[:, columns], np.delete(own, [i, j]), features[j, columns])
                for j in np.flatnonzero(rest)
            ]
            at = regression(features[rest][:, columns], own[rest], features[i, columns])
            left[name].append(
                loss(probabilities(samples[s], by_rho(samples[s], at, float(np.std(residuals)))), samples[s]["truth"])
            )
        left["own rho"].append(curves[s].min())
        mean, sd = GRID[choose(rho_only[:, rest], GRID)]
        for known in GOLD:
            if len(samples[s]["truth"]) > known + 50:
                golden[known].append(
                    float(np.mean([with_gold(samples[s], mean, sd, known, seed) for seed in range(5)]))
                )
    plain = float(
        np.mean(
            [loss(probabilities(samples[s], np.ones((KEPT, len(samples[s]["n"])))), samples[s]["truth"]) for s in sets]
        )
    )
    correlation = [float(np.corrcoef(features[:, f], own)[0, 1]) for f in range(4)]
    best = both[int(losses.mean(1).argmin())]
    rows = [["as published", f"{plain:.3f}", ""]]
    words = {
        "rho": "1 + (n - 1) rho, rho from its distribution (the default)",
        "seen wrongly": "an apparent class between truth and labels, incorrect in a share of items",
        "rho, and seen wrongly": f"both (from all sets: logit rho {best[0]:g}, sd {best[1]:g}, share {best[2]:g})",
        "rho from the check": "rho from a predictive check of agreement (its mean and standard deviation over items, "
        "relative to Dawid–Skene)",
        "rho from all four": "the same with the numbers of classes and of annotations per item",
        "own rho": "the set's own best rho, which requires its known truth",
    }
    rows += [[words[name], f"{np.mean(values):.3f}", f"{np.median(values):.3f}"] for name, values in left.items()]
    gold_rows = [[known, len(values), f"{np.mean(values):.3f}"] for known, values in golden.items()]
    body = f"""
Log loss of the true label over {N} public sets, posteriors of item subtypes by Gibbs. The parameters of each form are learned
from the other sets.

{table(["form", "mean log loss, sets left out", "median"], rows)}

Correlation over sets of logit rho (own best) with possible predictors: excess variation of agreement over items
{correlation[0]:+.2f}, excess agreement {correlation[1]:+.2f}, log number of classes {correlation[2]:+.2f}, log annotations
per item {correlation[3]:+.2f}.

## A few known truths

The distribution of rho from the other sets is updated with the known truths of some items of the set, and measured on its
other items (sets with enough items; five random choices of the items).

{table(["known truths", "sets", "mean log loss"], gold_rows)}
"""
    story = {
        "left_out": left,
        "gold": {str(k): v for k, v in golden.items()},
        "own": own.tolist(),
        "features": features.tolist(),
        "sets": list(sets),
        "best": best,
    }
    write("correlation_forms", "Models of shared errors compared", body, story, options, script="calibration/forms")


if __name__ == "__main__":
    main()
