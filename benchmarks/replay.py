"""Savings from choosing annotations: real annotations that were held back are added at random or by expected gain.

Every item starts with a few of its annotations, taken at random. Step by step the model is fitted again, and further annotations
are taken for the items that a rule chooses (of those with annotations left; whose annotation comes is random). Writes
docs/benchmarks/replay.md.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from common import arguments, table, write

import crowdppl
from crowdppl import acquisition
from crowdppl.data import datasets

SETS = ("bluebirds", "rte", "dog")
# Annotations per item at the start.
EACH = 2
RULES = ("random", "entropy", "information", "accuracy")
# Sets on which the increase of accuracy from EACH annotations per item to MORE is predicted.
GROWN = (
    "bluebirds",
    "rte",
    "dog",
    "face",
    "ducks",
    "wsd",
    "leaves",
    "weather-sentiment-amt",
    "zencrowd-us",
    "pos-sentiment",
    "music-genre",
    "adult-content",
)
MORE = 6
RHOS = (0.0, 0.03, 0.1, 0.3)
GOLD = 50
STEPS = 40
SEEDS = 8
LEVEL = 0.89


def fitted(data: Any, kept: np.ndarray, **options: Any) -> Any:
    """Fit the annotations acquired so far."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return crowdppl.fit(data.keep(torch.from_numpy(kept)), "dawid-skene", method="em", num_samples=100, **options)


def opened(name: str) -> tuple[Any, np.ndarray]:
    """Return a public set and its true classes as codes, -1 where unknown."""
    data, known = datasets.public(name)
    codes = {label: k for k, label in enumerate(data.labels.tolist())}
    return data, np.array([codes.get(known.get(task), -1) for task in data.items.tolist()])


def accuracy(posterior: Any, truth: np.ndarray) -> float:
    """Return the accuracy on items of known truth."""
    known = truth >= 0
    return float((posterior.probability().argmax(1) == truth)[known].mean())


def start(data: Any, each: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Shuffle the annotations within items; return which are present at the start, and each one's position within its item."""
    item = data.item.numpy()
    order = np.lexsort((rng.random(len(item)), item))
    turn = np.empty(len(item), dtype=int)
    turn[order] = np.arange(len(item)) - np.searchsorted(item[order], item[order])
    return turn < each, turn


def replay(data: Any, truth: np.ndarray, rule: str, each: int, seed: int, steps: int) -> tuple[list[int], list[float]]:
    """Return number of annotations and accuracy after each step."""
    rng = np.random.default_rng(seed)
    kept, turn = start(data, each, rng)
    item = data.item.numpy()
    size = max(1, data.N // 10)
    asked, reached = [], []
    for _ in range(steps + 1):
        posterior = fitted(data, kept)
        asked.append(int(kept.sum()))
        reached.append(accuracy(posterior, truth))
        have = np.bincount(item[kept], minlength=data.N)
        left = np.bincount(item, minlength=data.N) > have
        gain = (
            rng.random(data.N)
            if rule == "random"
            else acquisition.gains(posterior, by=rule) + 1e-9 * rng.random(data.N)
        )
        gain[~left] = -np.inf
        chosen = np.argsort(-gain)[: min(size, int(left.sum()))]
        kept = kept | (np.isin(item, chosen) & (turn == have[item]))
    return asked, reached


def foretold(name: str, seeds: int) -> dict[str, Any]:
    """Return accuracy with EACH and with MORE annotations per item, and the prediction of the curve, by rho."""
    data, truth = opened(name)
    most = int(min(MORE, np.median(data.annotations_per_item.numpy())))
    rows = []
    for seed in range(seeds):
        kept, turn = start(data, EACH, np.random.default_rng(seed))
        real = [accuracy(fitted(data, turn < n), truth) for n in (EACH, most)]
        row: dict[str, Any] = {"first": real[0], "last": real[1]}
        for rho in (None, *RHOS):
            posterior = fitted(data, kept, **({} if rho is None else {"rho": rho}))
            curve = acquisition.curve(
                posterior, (most - EACH) * data.N, by="random", steps=1, level=LEVEL, seed=seed, replicates=40
            ).table
            ends = curve["accuracy"].to_numpy()
            row[f"growth {rho}"] = (ends[1] - ends[0]) - (real[1] - real[0])
            if rho is None:
                row["start"] = ends[0] - real[0]
                row["inside"] = float(curve["low"].iloc[1] <= real[1] <= curve["high"].iloc[1])
                gold = np.random.default_rng(seed).permutation(np.flatnonzero(truth >= 0))[:GOLD]
                curve = acquisition.curve(
                    posterior,
                    (most - EACH) * data.N,
                    truth={data.items.tolist()[i]: data.labels.tolist()[truth[i]] for i in gold},
                    by="random",
                    steps=1,
                    level=LEVEL,
                    seed=seed,
                    replicates=200,
                ).table.iloc[1]
                row["anchored"] = curve["accuracy"] - real[1]
                row["anchored inside"] = float(curve["low"] <= real[1] <= curve["high"])
        rows.append(row)
    return {"annotations": most} | {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}


def needed(asked: np.ndarray, reached: np.ndarray, target: float) -> float:
    """Return the annotations at which the mean curve reaches the target and stays above it, by interpolation."""
    below = np.flatnonzero(reached < target)
    if len(below) == 0:
        return float(asked[0])
    last = below[-1]
    if last == len(reached) - 1:
        return float("nan")
    return float(np.interp(target, reached[last : last + 2], asked[last : last + 2]))


def main() -> None:
    """Replay each set with each rule and write the table."""
    options = arguments(__doc__ or "")
    seeds, steps = (2, 4) if options.quick else (SEEDS, STEPS)
    rows, results = [], {}
    for name in SETS[:1] if options.quick else SETS:
        data, truth = opened(name)
        curves = {}
        for rule in RULES:
            runs = [replay(data, truth, rule, EACH, seed, steps) for seed in range(seeds)]
            curves[rule] = (np.array(runs[0][0]), np.mean([reached for _, reached in runs], axis=0))
        asked, at_random = curves["random"]
        target = float(at_random[-3:].mean())
        spent = needed(asked, at_random, target)
        row: list[Any] = [
            name,
            f"{asked[0]:,}",
            f"{at_random[0]:.3f}",
            f"{asked[-1]:,}",
            f"{target:.3f}",
            f"{spent:,.0f}",
        ]
        for rule in RULES[1:]:
            at = needed(*curves[rule], target)
            saved = 1 - (at - asked[0]) / (spent - asked[0])
            row.append("not reached" if np.isnan(at) else f"{at:,.0f} ({saved:.0%})")
        rows.append([*row, " / ".join(f"{curves[rule][1][-1]:.3f}" for rule in RULES)])
        results[name] = {rule: {"annotations": a.tolist(), "accuracy": f.tolist()} for rule, (a, f) in curves.items()}
    grown = {name: foretold(name, 1 if options.quick else 3) for name in (GROWN[:1] if options.quick else GROWN)}
    keys = ["start", "growth None", *(f"growth {rho}" for rho in RHOS)]
    growth = [
        [name, f"{one['first']:.3f}", f"{one['annotations']}", f"{one['last']:.3f}"]
        + [f"{one[key]:+.3f}" for key in keys]
        + [f"{one['inside']:.0%}", f"{one['anchored']:+.3f}", f"{one['anchored inside']:.0%}"]
        for name, one in grown.items()
    ]
    means = [f"{np.mean([one[key] for one in grown.values()]):+.3f}" for key in keys]
    inside, anchored = (f"{np.mean([one[key] for one in grown.values()]):.0%}" for key in ("inside", "anchored inside"))
    shift = f"{np.mean([one['anchored'] for one in grown.values()]):+.3f}"
    growth.append(["**mean**", "", "", "", *means, inside, shift, anchored])
    body = f"""## Savings

Annotations needed for the accuracy that a random choice reaches at the end of its budget (mean of its last three steps),
including the {EACH} per item at the start; in brackets the saving among the further ones. The rules are those of
`acquisition.gains(by=...)`. Dawid–Skene by EM, mean of {seeds} replays of {
        steps
    } steps, with a tenth of the items annotated
in each.

{table(["set", "start", "accuracy there", "budget", "target", *RULES, "accuracy at the budget, in this order"], rows)}

## Prediction of accuracy

`acquisition.curve` predicts, from {EACH} annotations per item, the accuracy with {MORE} (or as many as the set has).
*Start* is the initial accuracy as estimated minus the observed one: with two annotations per item, Dawid–Skene knows little
about its workers and is overconfident. *Growth* is the predicted minus the observed increase, by default and with rho fixed.
*In the band*: the observed accuracy lies in the {
        LEVEL:.0%} band. *With gold*: predicted minus observed accuracy if the true
classes of {GOLD} items are known (`truth=`); the curve then starts from these.

{
        table(
            [
                "set",
                f"with {EACH}",
                "with",
                "accuracy",
                "start",
                "growth",
                *(f"rho {r:g}" for r in RHOS),
                "in the band",
                "with gold",
                "in the band, with gold",
            ],
            growth,
        )
    }
"""
    results["foretold"] = grown
    write("replay", "Choosing annotations, replayed on real data", body, results, options)


if __name__ == "__main__":
    main()
