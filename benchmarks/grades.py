"""Grades: true grades on public sets without and with known ones, severities in simulations, and the time of a fit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import grades_variants
import numpy as np
import pandas as pd
import torch
from common import arguments, kept_figures, table, write
from grades_sets import MEASURES, SETS, graded, scores, votes
from scipy.optimize import minimize
from scipy.stats import norm

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import silent

KNOWN = (20, 50, 100)
LEVEL = 0.89
Array = np.ndarray[Any, Any]
PARTS = ("time", "severity", "known", "sets", "facets", "variants")
FACETS = "graded facets"  # begins the names of candidates that the part "facets" measures anew


def fitted(model: str | None, **options: Any) -> Callable[[Annotations], Array]:
    """Return a function that fits a model and returns probabilities ``(N, K)``."""

    def probabilities(data: Annotations) -> Array:
        with silent():
            return np.asarray(crowdppl.fit(data, model, seed=0, **options).probability())

    return probabilities


CANDIDATES: dict[str, Callable[[Annotations], Array]] = {
    "votes": votes,
    "Dawid–Skene": fitted("dawid-skene", method="em"),
    "item effects": fitted("item-effects"),
    "ordinal thresholds": fitted("ordinal-thresholds", method="em"),
    "graded facets (the default)": fitted(None),
    "graded facets, correlated errors": fitted(None, rho=(0.0, 2.0)),
}


def on_sets(names: tuple[str, ...], quick: bool, begins: str = "") -> dict[str, Any]:
    """Score the candidates whose names begin so on every set, without known grades."""
    out: dict[str, Any] = {}
    for name in names:
        data, row, true = graded(name)
        for candidate, probabilities in CANDIDATES.items():
            if not candidate.startswith(begins) or (quick and candidate.startswith("ordinal")):
                continue
            began = time.process_time()
            p = probabilities(data)
            seconds = time.process_time() - began
            out.setdefault(candidate, {})[name] = scores(p[row], true) | {"seconds": seconds}
            print(name, candidate, out[candidate][name], flush=True)
    return out


# ---------------------------------------------------------------------- known grades


def probit(x: Array, true: Array, K: int, at: Array) -> Array:
    """Return probabilities ``(n, K)`` at the mean grades ``at`` by an ordered probit model learned from known true grades."""
    centre, scale = x.mean(), max(float(x.std()), 1e-9)

    def probabilities(parameters: Array, mean: Array) -> Array:
        cuts = np.cumsum(np.r_[parameters[1], np.exp(parameters[2:])])
        below = norm.cdf(np.r_[-np.inf, cuts, np.inf] - parameters[0] * ((mean - centre) / scale)[:, None])
        return np.asarray(np.diff(below, axis=1))

    def loss(parameters: Array) -> float:
        p = probabilities(parameters, x)[np.arange(len(true)), true]
        weak = (parameters[0] / 3) ** 2 + ((parameters[2:] - np.log(0.7)) ** 2).sum()  # few known grades: a weak prior
        return float(-np.log(np.maximum(p, 1e-12)).sum() + weak / 2)

    start = np.r_[1.0, -1.5, np.full(K - 2, np.log(0.7))]
    return probabilities(minimize(loss, start, method="BFGS").x, at)


def by_probit(data: Annotations, mean: Array, known: Array, rest: Array) -> Array:
    """Return probabilities of the grades of the items ``rest`` from mean grades, learned from the ``known`` ones."""
    return probit(mean[known], data.truth[torch.from_numpy(known)].numpy(), data.K, mean[rest])


PREDICTORS: dict[str, Callable[[Annotations, Array, Array, Array], Array]] = {
    "ordered probit on the mean grade": by_probit,
    "item effects": lambda data, mean, known, rest: fitted("item-effects")(data)[rest],
    "graded facets (the default)": lambda data, mean, known, rest: fitted(None)(data)[rest],
}


def with_known(names: tuple[str, ...], begins: str = "") -> dict[str, Any]:
    """Score candidates whose names begin so on items of unknown grade, given 20, 50 and 100 known ones, at most half of them."""
    out: dict[str, Any] = {}
    for name in names:
        data, row, true = graded(name)
        mean = votes(data) @ np.arange(data.K)
        for count in [count for count in KNOWN if count <= len(row) / 2]:
            for seed in range(2):
                order = np.random.default_rng(seed).permutation(len(row))
                known, rest = order[:count], order[count:]
                truth = data.truth.clone()
                truth[row[known]] = torch.from_numpy(true[known])
                partly_known = replace(data, truth=truth)
                for candidate, predict in PREDICTORS.items():
                    if candidate.startswith(begins):
                        p = predict(partly_known, mean, row[known], row[rest])
                        out.setdefault(candidate, {}).setdefault(name, []).append(scores(p, true[rest]))
        print(name, {candidate: mean_of(each[name]) for candidate, each in out.items()}, flush=True)
    return {candidate: {name: mean_of(runs) for name, runs in each.items()} for candidate, each in out.items()}


def mean_of(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean of every score."""
    return {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}


# ---------------------------------------------------------------------- simulations


def simulated(seed: int, items: int, raters: int, each: int, own: float) -> tuple[Annotations, Array]:
    """Draw grades 0 to 4 by raters with severities of standard deviation .7 and, if any, thresholds of their own.

    Returns the annotations and by how many grades each rater is severe: expected over items, below the mean rater.
    """
    rng = np.random.default_rng(seed)
    x, severity = rng.normal(size=items), rng.normal(0, 0.7, raters)
    slope = 2 * np.exp(rng.normal(0, 0.3, raters))
    thresholds = np.sort(np.linspace(-2.2, 2.2, 4) + severity[:, None] + own * rng.normal(size=(raters, 4)), 1)
    item = np.repeat(np.arange(items), each)
    rater = np.concatenate([rng.permutation(raters)[:each] for _ in range(items)])

    def above(j: Array, x: Array) -> Array:
        return np.asarray(1 / (1 + np.exp(thresholds[j] - (slope[j] * x)[..., None])))

    label = (rng.random(len(item))[:, None] < above(rater, x[item])).sum(1)
    nodes = np.linspace(-6, 6, 401)
    weight = norm.pdf(nodes) / norm.pdf(nodes).sum()
    expected = np.array([weight @ above(np.full(len(nodes), j), nodes).sum(1) for j in range(raters)])
    return Annotations.from_arrays(item, rater, label, labels=range(5)), expected.mean() - expected


def severity(simulations: int) -> list[dict[str, Any]]:
    """Return the coverage and width of the intervals of severity, in grades."""
    rows = []
    for items, raters, each in ((150, 4, 4), (300, 30, 5)):
        for own in (0.0, 0.3):
            hits, widths = [], []
            for seed in range(simulations):
                data, true = simulated(seed, items, raters, each, own)
                with silent():
                    rated = crowdppl.fit(data, "graded-facets", seed=0).severity(level=LEVEL)
                true = true[rated["worker"].to_numpy().astype(int)]
                hits += ((rated["severity_low"] <= true) & (true <= rated["severity_high"])).tolist()
                widths += (rated["severity_high"] - rated["severity_low"]).tolist()
            rows.append(
                {
                    "items": items,
                    "raters": raters,
                    "grades an item": each,
                    "own thresholds": own,
                    "covered": float(np.mean(hits)),
                    "width": float(np.mean(widths)),
                }
            )
            print(rows[-1], flush=True)
    return rows


def timed() -> dict[str, float]:
    """Return seconds of the processor from a frame of 40,000 grades to true grades, and to severities; the second run."""
    data, _ = simulated(0, 8000, 40, 5, 0.3)
    frame = pd.DataFrame({"task": data.item.numpy(), "worker": data.worker.numpy(), "label": data.label.numpy()})
    out: dict[str, float] = {}
    for _ in range(2):
        began = time.process_time()
        with silent():
            posterior = crowdppl.fit(Annotations.from_frame(frame, kind="ordinal"), seed=0)
            posterior.truth()
            out["grades"] = time.process_time() - began
            posterior.severity()
        out["and severities"] = time.process_time() - began
    return out


# ---------------------------------------------------------------------- page


def means(results: dict[str, Any]) -> list[list[Any]]:
    """Return rows of the mean scores over the sets."""
    return [
        [candidate, *(float(np.mean([one[key] for one in each.values()])) for key in MEASURES)]
        for candidate, each in results.items()
    ]


def page(results: dict[str, Any]) -> str:
    """Return the tables as Markdown."""
    sets, known = results["sets"], results["known"]
    best = "graded facets (the default)"
    each = [
        [
            name,
            *(sets[candidate][name]["log loss"] for candidate in ("votes", "item effects", "ordinal thresholds", best)),
            *(sets[candidate][name]["seconds"] for candidate in ("item effects", "ordinal thresholds", best)),
            known["ordered probit on the mean grade"][name]["log loss"],
            known[best][name]["log loss"],
        ]
        for name in sets[best]
    ]
    header = [
        "set",
        "votes",
        "item effects",
        "ordinal thresholds",
        "graded facets",
        "s",
        "s (thresholds)",
        "s (facets)",
    ]
    header += ["probit, known", "facets, known"]
    speed = results["time"]
    return f"""
Six public sets of ordered labels: {", ".join(SETS)}.
Of sets with language models as judges only these are annotators; the true grades are those of people. RPS is the ranked
probability score, MAE the mean absolute error of the rounded expected grade. All models have their default priors.

## No true grade known

Means over the six sets:

{table(["", *MEASURES], means(sets))}

"Correlated errors" applies the design effect that other models have by default: it is not the default for grades.

## Known true grades

20, 50 and 100 known true grades, at most half of the items that have one, drawn twice. Scores are of the other items. The ordered
probit model learns the true grade from the mean of the grades given:

{table(["", *MEASURES], means(known))}

## Each set

Log loss without known grades, seconds of the processor of a fit, and log loss with known grades:

{table(header, each)}

{grades_variants.page(results["variants"])}

## Severity

{LEVEL:.0%} intervals of severity by EM, in grades, over {results["simulations"]} simulations each; raters have thresholds of
their own with the standard deviation in the table (on the logit scale):

{table(list(results["severity"][0]), [list(row.values()) for row in results["severity"]])}

## Time

From a frame of 40,000 grades of 8,000 items by 40 raters: {speed["grades"]:.1f} s of the processor to the true
grades, and {speed["and severities"]:.1f} s to severities with intervals.
"""


def main() -> None:
    """Measure, print, write."""
    options = arguments(__doc__ or "", PARTS)
    parts = PARTS if options.only is None else options.only
    simulations = 3 if options.quick else 100
    names = SETS[:2] if options.quick else SETS
    results = kept_figures("grades", options)
    if "time" in parts:
        results["time"] = timed()
    if "severity" in parts:
        results |= {"simulations": simulations, "severity": severity(simulations)}
    if "known" in parts:
        results["known"] = with_known(names)
    if "sets" in parts:
        results["sets"] = on_sets(names, options.quick)
    if "facets" in parts and "sets" not in parts:  # a change of this model alone
        for name, part in (("known", with_known(names, FACETS)), ("sets", on_sets(names, options.quick, FACETS))):
            results[name] = results.get(name, {}) | part
    if "variants" in parts:
        results["variants"] = grades_variants.measured(names)
    if options.quick:
        print({part: results[part] for part in results})
        return
    write("grades", "Benchmark: grades", page(results), results, options)


if __name__ == "__main__":
    main()
