"""What does asking where it pays save? Held-back real annotations are replayed, chosen at random or by expected gain.

Every item starts with a few of its annotations, taken at random. Step by step the model is fitted again, and further annotations
are taken for the items that a rule chooses (of those with annotations left; whose annotation comes is left to chance). Writes
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
# Annotations an item at the start.
EACH = 2
RULES = ("random", "entropy", "information", "accuracy")
# Where the growth from EACH annotations an item to MORE is foretold.
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
    """Fit to the annotations asked so far."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return crowdppl.fit(data.keep(torch.from_numpy(kept)), "dawid-skene", method="em", num_samples=100, **options)


def opened(name: str) -> tuple[Any, np.ndarray]:
    """Return a public set and its true classes as codes, -1 where unknown."""
    data, known = datasets.public(name)
    codes = {label: k for k, label in enumerate(data.labels.tolist())}
    return data, np.array([codes.get(known.get(task), -1) for task in data.items.tolist()])


def accuracy(posterior: Any, truth: np.ndarray) -> float:
    """Return the share of items of known truth with the right label."""
    known = truth >= 0
    return float((posterior.probability().argmax(1) == truth)[known].mean())


def start(data: Any, each: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Shuffle the annotations within items; return which are there at the start, and each one's turn within its item."""
    item = data.item.numpy()
    order = np.lexsort((rng.random(len(item)), item))
    turn = np.empty(len(item), dtype=int)
    turn[order] = np.arange(len(item)) - np.searchsorted(item[order], item[order])
    return turn < each, turn


def replay(data: Any, truth: np.ndarray, rule: str, each: int, seed: int, steps: int) -> tuple[list[int], list[float]]:
    """Return annotations asked and accuracy after each step."""
    rng = np.random.default_rng(seed)
    kept, turn = start(data, each, rng)
    item = data.item.numpy()
    size = max(1, data.N // 10)
    asked, found = [], []
    for _ in range(steps + 1):
        posterior = fitted(data, kept)
        asked.append(int(kept.sum()))
        found.append(accuracy(posterior, truth))
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
    return asked, found


def foretold(name: str, seeds: int) -> dict[str, Any]:
    """Return accuracy with EACH and with MORE annotations an item, and what the curve foretold, by rho."""
    data, truth = opened(name)
    most = int(min(MORE, np.median(data.annotations_per_item.numpy())))
    rows = []
    for seed in range(seeds):
        kept, turn = start(data, EACH, np.random.default_rng(seed))
        real = [accuracy(fitted(data, turn < n), truth) for n in (EACH, most)]
        row: dict[str, Any] = {"first": real[0], "last": real[1]}
        for rho in (None, *RHOS):
            posterior = fitted(data, kept, **({} if rho is None else {"rho": rho}))
            told = acquisition.curve(
                posterior, (most - EACH) * data.N, by="random", steps=1, level=LEVEL, seed=seed, replicates=40
            ).table
            ends = told["accuracy"].to_numpy()
            row[f"growth {rho}"] = (ends[1] - ends[0]) - (real[1] - real[0])
            if rho is None:
                row["start"] = ends[0] - real[0]
                row["inside"] = float(told["low"].iloc[1] <= real[1] <= told["high"].iloc[1])
                gold = np.random.default_rng(seed).permutation(np.flatnonzero(truth >= 0))[:GOLD]
                told = acquisition.curve(
                    posterior,
                    (most - EACH) * data.N,
                    truth={data.items.tolist()[i]: data.labels.tolist()[truth[i]] for i in gold},
                    by="random",
                    steps=1,
                    level=LEVEL,
                    seed=seed,
                    replicates=200,
                ).table.iloc[1]
                row["anchored"] = told["accuracy"] - real[1]
                row["anchored inside"] = float(told["low"] <= real[1] <= told["high"])
        rows.append(row)
    return {"annotations": most} | {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}


def needed(asked: np.ndarray, found: np.ndarray, target: float) -> float:
    """Return the annotations at which the mean curve reaches the target for good, by interpolation."""
    below = np.flatnonzero(found < target)
    if len(below) == 0:
        return float(asked[0])
    last = below[-1]
    if last == len(found) - 1:
        return float("nan")
    return float(np.interp(target, found[last : last + 2], asked[last : last + 2]))


def main() -> None:
    """Replay each set by each rule and write the table."""
    options = arguments(__doc__ or "")
    seeds, steps = (2, 4) if options.quick else (SEEDS, STEPS)
    rows, results = [], {}
    for name in SETS[:1] if options.quick else SETS:
        data, truth = opened(name)
        curves = {}
        for rule in RULES:
            runs = [replay(data, truth, rule, EACH, seed, steps) for seed in range(seeds)]
            curves[rule] = (np.array(runs[0][0]), np.mean([found for _, found in runs], axis=0))
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
    body = f"""## What asking where it pays saves

Annotations needed for the accuracy that asking at random has reached at the end of its budget (mean of its last three
steps), counted with the {
        EACH
    } an item at the start; in brackets what is saved of the further ones. The rules are those of
`acquisition.gains(by=...)`. Dawid-Skene by EM, mean of {seeds} replays of {
        steps
    } steps, a tenth of the items asked in each.

{table(["set", "start", "accuracy there", "budget", "target", *RULES, "accuracy at the budget, in this order"], rows)}

## What a curve foretells

`acquisition.curve` foretells, from {EACH} annotations an item, the accuracy with {
        MORE
    } (or as many as the set has). *Start* is what
it takes the accuracy to be at first less what it is: with two annotations an item Dawid-Skene knows its workers badly, and says
too much. *Growth* is the rise foretold less the rise that came: by default, and with rho fixed. *In the band*: the accuracy
that came lies in the {
        LEVEL:.0%} band. *With gold*: accuracy foretold less the one that came where the true classes of {GOLD} items
were given (`truth=`), from which the curve then starts.

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
            ],
            growth,
        )
    }
"""
    results["foretold"] = grown
    write("replay", "Asking where it pays, replayed on real annotations", body, results, options)


if __name__ == "__main__":
    main()
