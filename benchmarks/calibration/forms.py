"""Which story of shared errors calibrates best? Forms compared leave one set out, on the posteriors of item subtypes.

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
from design_effect import GRID, KEPT, SETS, by_rho, choose, evidence

from crowdppl import criticism
from crowdppl.data import datasets

FLOOR = 1e-6
SHARES = (0.0, 0.02, 0.05, 0.1, 0.2)
# Log odds of rho that a set's own truth is looked for at, and the numbers of known truths tried.
RHOS = np.linspace(-6, 5, 45)
GOLD = (0, 10, 30, 100)
# Annotations above which the predictive check is left to a subset of items.
LARGE = 60_000


def gather(name: str) -> dict[str, Any]:
    """Posterior of item subtypes at items of known truth, and how far agreement spreads over items beyond the model's."""
    torch.set_num_threads(1)
    found: dict[str, Any] = dict(evidence(name))
    data, _ = datasets.public(name)
    if data.A > LARGE:
        keep = np.sort(np.random.default_rng(0).choice(data.N, int(data.N * LARGE / data.A), replace=False))
        data = data.batch(torch.from_numpy(keep))
    posterior, _ = fit(data, "dawid-skene", method="em", num_samples=60)
    check = criticism.check(posterior, draws=60).table.set_index("statistic")
    kept = {name: check[name].clip(lower=1e-3) for name in ("observed", "mean")}  # a crowd of one mind has no spread

    def of(statistic: str) -> float:
        return float(np.log(kept["observed"][statistic] / kept["mean"][statistic]))

    found["features"] = np.array(
        [of("agreement_spread"), of("agreement"), np.log(data.K), np.log(data.annotations_per_item.numpy().mean())]
    )
    return found


def probabilities(one: dict[str, Any], factor: np.ndarray) -> np.ndarray:
    """Class probabilities (n, K) for design effects (D, n), averaged over draws."""
    logs = one["logs"] / factor[:, :, None]
    p = np.exp(logs - logs.max(-1, keepdims=True))
    return (p / p.sum(-1, keepdims=True)).mean(0)


def loss(p: np.ndarray, truth: np.ndarray) -> float:
    """Mean log loss of the truth, floored."""
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
    """Log loss on the other items where the spread of rho is updated by some known truths."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(one["truth"]))
    gold, rest = order[:known], order[known:]
    each = []  # (R, n): probability of the truth at each rho
    part = []
    for at in RHOS:
        p = probabilities(one, by_rho(one, at, 0.0))
        part.append(p)
        each.append(p[np.arange(len(p)), one["truth"]])
    told = np.log(np.maximum(np.array(each)[:, gold], FLOOR)).sum(1)
    weight = told - 0.5 * ((RHOS - mean) / max(sd, 1e-3)) ** 2
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
        found = dict(zip(sets, pool.map(gather, sets), strict=True))
    N = len(sets)
    # Losses (form, set) of rho's spread, with a share of items seen wrongly or none.
    both = [(mean, sd, share) for mean, sd in GRID for share in SHARES]
    losses = np.empty((len(both), N))
    for i, s in enumerate(sets):
        for g, (mean, sd) in enumerate(GRID):
            p = probabilities(found[s], by_rho(found[s], mean, sd))
            for h, share in enumerate(SHARES):
                losses[g * len(SHARES) + h, i] = loss(seen_wrongly(p, share), found[s]["truth"])
    shares = np.array([0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3])
    alone = np.array(
        [
            [
                loss(seen_wrongly(probabilities(found[s], np.ones((KEPT, len(found[s]["n"])))), e), found[s]["truth"])
                for s in sets
            ]
            for e in shares
        ]
    )
    curves = {s: fixed(found[s], RHOS) for s in sets}
    own = np.array([RHOS[curves[s].argmin()] for s in sets])
    features = np.array([found[s]["features"] for s in sets])
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
            # What is predicted, with the spread that is left over the sets it is learned from.
            told = [
                own[j]
                - regression(np.delete(features, [i, j], 0)[:, columns], np.delete(own, [i, j]), features[j, columns])
                for j in np.flatnonzero(rest)
            ]
            at = regression(features[rest][:, columns], own[rest], features[i, columns])
            left[name].append(
                loss(probabilities(found[s], by_rho(found[s], at, float(np.std(told)))), found[s]["truth"])
            )
        left["own rho"].append(curves[s].min())
        mean, sd = GRID[choose(rho_only[:, rest], GRID)]
        for known in GOLD:
            if len(found[s]["truth"]) > known + 50:
                golden[known].append(float(np.mean([with_gold(found[s], mean, sd, known, seed) for seed in range(5)])))
    plain = float(
        np.mean([loss(probabilities(found[s], np.ones((KEPT, len(found[s]["n"])))), found[s]["truth"]) for s in sets])
    )
    correlation = [float(np.corrcoef(features[:, f], own)[0, 1]) for f in range(4)]
    best = both[int(losses.mean(1).argmin())]
    rows = [["as published", f"{plain:.3f}", ""]]
    words = {
        "rho": "1 + (n - 1) rho, rho from its spread (what is used)",
        "seen wrongly": "an apparent class between truth and labels: seen wrongly in a share of items",
        "rho, and seen wrongly": f"both (from all sets: logit rho {best[0]:g}, sd {best[1]:g}, share {best[2]:g})",
        "rho from the check": "rho from a predictive check of agreement (its mean and spread over items, against Dawid-Skene's)",
        "rho from all four": "the same with the numbers of classes and of annotations an item",
        "own rho": "the set's own best rho, which takes its truth to know",
    }
    rows += [[words[name], f"{np.mean(values):.3f}", f"{np.median(values):.3f}"] for name, values in left.items()]
    gold_rows = [[known, len(values), f"{np.mean(values):.3f}"] for known, values in golden.items()]
    body = f"""
Log loss of the truth over {N} public sets, posteriors of item subtypes by Gibbs; each form's numbers learned from the
other sets.

{table(["form", "mean log loss, left out", "median"], rows)}

Correlation over sets of logit rho (own best) with what might foretell it: excess spread of agreement over items
{correlation[0]:+.2f}, excess agreement {correlation[1]:+.2f}, log of classes {correlation[2]:+.2f}, log of annotations an item
{correlation[3]:+.2f}.

## A few known truths

The spread of rho from the other sets, updated by truths of some items of the set, measured on its other items (sets
with enough; five draws of the items).

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
    write("correlation_forms", "Stories of shared errors compared", body, story, options, script="calibration/forms")


if __name__ == "__main__":
    main()
