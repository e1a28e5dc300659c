"""The correlation of errors that item effects leave unexplained: its distribution over public sets, and what predicts it.

Writes docs/benchmarks/residual-correlation.md. The chosen distribution is `residual_rho` in models/item_effects.py.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from scipy.special import expit, softmax
from scipy.stats import norm, spearmanr

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import fit, table, write
from default_model import GROUPS, known_classes, load
from simulated import SIZES, independent_crowd

from crowdppl import Annotations
from crowdppl.criticism.calibration import FLOOR
from crowdppl.models import CATALOGUE

MODEL, UNANIMOUS = "item-effects", "hitspam-crowdflower"
# Independent crowds of each size.
CROWDS = 5
# Distributions of logit rho that are compared: mean = level - slope * log(annotations an item), and standard deviation.
Point = tuple[float, float, float]
LEVELS = {0.0: (-1.0, -2.0, -3.0, -4.0), 1.0: (-1.0, -0.5, 0.0, 0.5)}
GRID = [(slope, level, sd) for slope, levels in LEVELS.items() for level in levels for sd in (1.0, 2.0, 3.0)]
USED = (1.0, *CATALOGUE[MODEL].residual_rho)
NODES = norm.ppf((np.arange(64) + 0.5) / 64)
BINS = 10
# Values of logit rho among which the best for one set is sought.
VALUES = np.arange(-12, 6.5, 0.5)


def measured(data: Annotations, truth: Mapping[str, str]) -> tuple[dict[Point, tuple[float, float]], dict]:
    """Fit a set as published by EM, once.

    Returns:
        Log loss and calibration error at each point of the grid; and the set's mean number of annotations an item, the weight of
        no effect, and the value of logit rho with the lowest log loss.
    """
    posterior, _ = fit(data, MODEL, method="em", num_samples=2, independent=True, seed=0)
    known = known_classes(data, truth)
    have = known >= 0
    logs = np.log(np.maximum(posterior.probability()[have], np.finfo(float).tiny))
    more = data.annotations_per_item.numpy()[have] - 1

    def tempered(rho: float) -> np.ndarray:
        return softmax(logs / (1 + more * rho)[:, None], -1)

    out = {}
    for slope, level, sd in GRID:
        rho = expit(level - slope * math.log(data.A / data.N) + sd * NODES)
        out[slope, level, sd] = scored(np.mean([tempered(value) for value in rho], 0), known[have])
    losses = [scored(tempered(value), known[have])[0] for value in expit(VALUES)]
    seen = {
        "annotations": data.A / data.N,
        "none": float(posterior.tree["point"]["effect_weights"][0]),
        "best": float(VALUES[int(np.argmin(losses))]),
    }
    return out, seen


def scored(probability: np.ndarray, known: np.ndarray) -> tuple[float, float]:
    """Return log loss and expected calibration error of probabilities ``(N, K)``."""
    loss = -np.log(np.maximum(probability[np.arange(len(known)), known], FLOOR)).mean()
    confidence, correct = probability.max(1), probability.argmax(1) == known
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = [(place == b).mean() * abs(confidence[place == b].mean() - correct[place == b].mean()) for b in set(place)]
    return float(loss), float(sum(gaps))


def left_out(results: dict[str, dict[Point, tuple[float, float]]], grid: list[Point]) -> tuple[list[Point], np.ndarray]:
    """Choose a point for each set by the log loss of the others; return the points, and mean figures on the sets left out."""
    chosen = {
        name: min(grid, key=lambda point: sum(one[point][0] for other, one in results.items() if other != name))
        for name in results
    }
    return sorted(set(chosen.values())), np.mean([results[name][point] for name, point in chosen.items()], 0)


def predictable(seen: dict[str, dict], simulated: list[tuple[tuple[int, ...], dict]]) -> list[str]:
    """Return the section on whether the annotations themselves say how large rho is."""
    pairs = np.array([(one["none"], one["best"]) for one in seen.values()])
    rank = spearmanr(*pairs.T).statistic
    rows = [(name, one["annotations"], one["none"], one["best"]) for name, one in seen.items()]
    for size in SIZES:
        K, N, J, n = size
        ones = [one for other, one in simulated if other == size]
        middle = [float(np.median([one[what] for one in ones])) for what in ("annotations", "none", "best")]
        rows.append((f"*simulated: {K} classes, {N:,} items, {J} workers, {n} each*", *middle))
    return [
        "",
        "## Do the annotations tell how large it is?",
        "",
        "Without known true labels, rho could be learned only from what it has in common with what the model sees. The weight of",
        "no effect is the share of items on which the fit finds no common error. *Best* is the value of logit rho (at least -12,",
        "at most 6) at which the log loss of the true labels is lowest. Simulated crowds are independent, drawn from Dawid and",
        f"Skene's model; medians of {CROWDS}.",
        "",
        table(("set", "annotations an item", "weight of no effect", "best logit rho"), rows),
        "",
        f"Over the public sets the rank correlation of the two is {rank:.2f}. Sets on which the fit finds hardly any effect are",
        "as overconfident as others: where most workers give the same incorrect label, it is the class that the annotations",
        "describe, and nothing in them says that it is not the true one. Independent crowds look like such sets. A",
        "distribution of rho that is narrow for independent crowds would therefore be too narrow for public ones. What does",
        "inform it is known true labels ([known truths](known-truths.md)), or knowledge that workers err independently",
        "(`independent=True`).",
    ]


def main() -> None:
    """Fit all sets and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=GROUPS["public"])
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    parser.add_argument("--quick", action="store_true", help="writes nothing")
    options = parser.parse_args()
    results, seen = {}, {}
    for name in options.sets:
        results[name], seen[name] = measured(*load(name))
        print(name, results[name][USED], seen[name], flush=True)
    simulated = []
    for size in SIZES:
        for seed in range(CROWDS):
            data, truth, _ = independent_crowd(seed, *size)
            names = {str(item): str(label) for item, label in zip(data.items.tolist(), truth.tolist(), strict=True)}
            simulated.append((size, measured(data, names)[1]))
    means = {point: np.mean([one[point] for one in results.values()], 0) for point in GRID}
    chosen, held_out = left_out(results, GRID)
    _, same = left_out(results, [point for point in GRID if point[-1] == USED[-1]])
    wider = min((point for point in GRID if point[-1] > USED[-1]), key=lambda point: means[point][0])
    without = [name for name in results if name != UNANIMOUS]

    def apart(point: Point) -> float:
        return float(np.mean([results[name][point][0] for name in without]))

    rows = []
    for point in GRID:
        errors = np.mean([results[name][point][1] for name in without])
        rows.append((*point, *map(float, means[point]), apart(point), float(errors)))
    points = ", ".join(str(tuple(f"{value:g}" for value in point)).replace("'", "") for point in chosen)
    text = [
        f"Model `{MODEL}` by EM, {len(results)} public sets of known truth (those of [the default model](default-model.md)).",
        "Class probabilities of the model as published are divided on the log scale by the design effect 1 + (n - 1) rho",
        "and averaged over the distribution of rho. Log loss in nats, floored at one millionth; calibration error over ten",
        "bins; means over sets.",
        "",
        "The mean of logit rho is *level* - *slope* x log(annotations an item). With slope 1 the median design effect is about",
        f"1 + exp(level) for every number of annotations: {1 + math.exp(USED[1]):.1f} at the level used.",
        "",
        table(
            (
                "slope",
                "level",
                "sd",
                "log loss",
                "calibration error",
                f"log loss without `{UNANIMOUS}`",
                "calibration error",
            ),
            rows,
        ),
        "",
        f"Used by default: slope {USED[0]:g}, level {USED[1]:g}, sd {USED[2]:g}, with log loss {means[USED][0]:.3f} and",
        f"calibration error {means[USED][1]:.3f}. The lowest log loss with a larger sd is {means[wider][0]:.3f}, with a",
        f"calibration error of {means[wider][1]:.3f}. That difference in log loss is due to `{UNANIMOUS}` alone; on the",
        f"other sets it is {apart(USED):.3f} against {apart(wider):.3f}. With the smaller sd workers' intervals are narrower by",
        "an eighth, and their [coverage](coverage.md) is one to two points lower. Chosen on the other sets by log loss among the",
        f"distributions of sd {USED[-1]:g}, it is {same[0]:.3f} on the sets left out, and the calibration error {same[1]:.3f}.",
        f"Among all {len(GRID)} points, {points} are chosen, with {held_out[0]:.3f} and {held_out[1]:.3f}: the smallest sd",
        f"where `{UNANIMOUS}` is left out.",
        "",
        "Without item effects the distribution over public sets has mean -1 and sd 3",
        "([calibrated intervals](calibrated-intervals.md)): item effects explain a part of the correlation. The crowd of",
        f"`{UNANIMOUS}` is unanimous, and incorrect on a third of the items of known truth; its log loss is the largest.",
        *predictable(seen, simulated),
    ]
    figures = {
        name: {", ".join(f"{value:g}" for value in point): one[point] for point in GRID}
        for name, one in results.items()
    }
    title = "Correlation that item effects leave"
    write("residual_correlation", title, "\n".join(text), figures, options, script="calibration/residual")


if __name__ == "__main__":
    main()
