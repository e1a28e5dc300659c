"""Variants of the model of grades on sets without known grades: what each changes, and how one is chosen for other sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from common import table
from grades_sets import MEASURES, Array, each_score, graded, scores, votes

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import silent
from crowdppl.model.graded_rows import table as probabilities
from crowdppl.models import GradedFacets

DEFAULT = "the default"
LOWER = MEASURES[:3]  # of these less is better
SPREADS = (0.4, 0.7, 0.3)
RESAMPLES = 2000


def _fit(data: Annotations, model: GradedFacets, **options: Any) -> crowdppl.Posterior:
    with silent():
        return crowdppl.fit(data, model, seed=0, **options)


def _model(**given: Any) -> Callable[[Annotations], Array]:
    """Return a function from annotations to probabilities ``(N, K)`` of a model with these prior values."""
    return lambda data: np.asarray(_fit(data, GradedFacets(**given)).probability())


def _power(power: float) -> Callable[[Annotations], Array]:
    """Return probabilities of the default, raised to a power and normalised."""

    def tempered(data: Annotations) -> Array:
        p = _model()(data) ** power
        return np.asarray(p / p.sum(1, keepdims=True))

    return tempered


def _read(reading: Callable[[Mapping[str, torch.Tensor], Annotations], torch.Tensor], **given: Any) -> Any:
    """Return probabilities of the model where true grades are read off places otherwise, from tables ``(S, K)``."""

    def by_reading(data: Annotations) -> Array:
        model = GradedFacets(**given)
        point = _fit(data, model).tree["point"].data_vars
        parameters = {name: torch.as_tensor(value.to_numpy(), dtype=data.dtype) for name, value in point.items()}
        places = (model.log_truth(parameters, data) + model.log_likelihoods(parameters, data)).softmax(-1)
        return (places @ reading(parameters, data)).double().numpy()

    return by_reading


def _average_rater(parameters: Mapping[str, torch.Tensor], data: Annotations) -> torch.Tensor:
    """Return what a rater with the crowd's slope and thresholds gives, ``(S, K)``."""
    parts = [parameters[f"crowd_{name}"].reshape(-1) for name in ("log_slope", "middle", "log_gaps")]
    return probabilities(torch.cat(parts), GradedFacets().places(data))


def _by_number(parameters: Mapping[str, torch.Tensor], data: Annotations) -> torch.Tensor:
    """Return what a rater drawn by number of grades gives, ``(S, K)``."""
    share = data.annotations_per_worker / data.A
    return (share.to(data.dtype)[:, None, None] * GradedFacets().confusion(dict(parameters), data)).sum(0)


def _median(data: Annotations) -> Array:
    """Return the default's probabilities with the expectation at the median: a grade with certainty."""
    p = _model()(data)
    return np.eye(p.shape[1])[(p.cumsum(1) < 0.5).sum(1)]


VARIANTS: dict[str, Callable[[Annotations], Array]] = {
    DEFAULT: _model(),
    "normal items": _model(shapes=0),
    "items: scale .5": _model(shape_scale=0.5),
    "items: scale 1": _model(shape_scale=1.0),
    "items: scale 4": _model(shape_scale=4.0),
    "items: 2 components": _model(shapes=2),
    "items: 4 components": _model(shapes=4),
    "items: 10 components": _model(shapes=10),
    "15 nodes": _model(nodes=15),
    "51 nodes": _model(nodes=51),
    "spreads halved": _model(spreads=tuple(value / 2 for value in SPREADS)),
    "spreads doubled": _model(spreads=tuple(value * 2 for value in SPREADS)),
    "one slope": _model(spreads=(0.02, 0.7, 0.3)),
    "one severity": _model(spreads=(0.4, 0.02, 0.3)),
    "shared distances of thresholds": _model(spreads=(0.4, 0.7, 0.02)),
    "even thresholds": _model(gap_scale=0.1),
    "wide thresholds": _model(gap_scale=1.5),
    "slope 1": _model(slope=1.0),
    "slope 4": _model(slope=4.0),
    "slope's scale .2": _model(slope_scale=0.2),
    "middle's scale .5": _model(middle_scale=0.5),
    "reach 1.5": _model(reach=1.5),
    "reach 5": _model(reach=5.0),
    "correlated errors": lambda data: np.asarray(_fit(data, GradedFacets(), rho=(0.0, 2.0)).probability()),
    "power .7": _power(0.7),
    "power .8": _power(0.8),
    "power .9": _power(0.9),
    "power 1.1": _power(1.1),
    "read by the average rater": _read(_average_rater),
    "read by number of grades": _read(_by_number),
    "normal items, read by the average rater": _read(_average_rater, shapes=0),
    "shares of the grades given": votes,
}


def measured(names: tuple[str, ...]) -> dict[str, Any]:
    """Return scores by variant and set, choices for each set by the others, errors over items, and what half of truths tell."""
    each: dict[str, dict[str, dict[str, Array]]] = {variant: {} for variant in VARIANTS}
    medians, bound = {}, {}
    for name in names:
        data, row, true = graded(name)
        for variant, fitted in VARIANTS.items():
            each[variant][name] = each_score(fitted(data)[row], true)
        medians[name] = scores(_median(data)[row], true)["MAE"]
        bound[name] = _half(data, row, true)
        print(name, {key: value.mean() for key, value in each[DEFAULT][name].items()}, bound[name], flush=True)
    means = {
        variant: {name: {key: float(v.mean()) for key, v in of.items()} for name, of in sets.items()}
        for variant, sets in each.items()
    }
    return {
        "means": means,
        "chosen": {measure: _chosen(means, measure) for measure in LOWER},
        "errors": _errors(each[DEFAULT], each["normal items"]),
        "median": medians,
        "half": bound,
    }


def _half(data: Annotations, row: Array, true: Array) -> dict[str, float]:
    """Return scores of the default where the true grades of the other half of the items are known, mean over both halves."""
    fold = np.random.default_rng(0).permutation(len(row)) % 2
    p = np.empty((len(row), data.K))
    for half in range(2):
        truth = data.truth.clone()
        truth[row[fold == half]] = torch.from_numpy(true[fold == half])
        p[fold != half] = _model()(replace(data, truth=truth))[row[fold != half]]
    return scores(p, true)


def _chosen(means: Mapping[str, Mapping[str, Mapping[str, float]]], measure: str) -> dict[str, Any]:
    """Return the variant that the other sets choose for each set by the mean of a measure, and the scores with these."""
    names = list(means[DEFAULT])
    picked = {
        name: min(means, key=lambda v: np.mean([means[v][other][measure] for other in names if other != name]))
        for name in names
    }
    chosen = {key: float(np.mean([means[picked[name]][name][key] for name in names])) for key in MEASURES}
    return {"picked": picked, "scores": chosen}


def _errors(one: Mapping[str, Mapping[str, Array]], other: Mapping[str, Mapping[str, Array]]) -> dict[str, Any]:
    """Return standard errors over items of means over sets, and differences of two variants with theirs."""
    rng = np.random.default_rng(0)
    out: dict[str, Any] = {key: {"mean": [], "difference": []} for key in MEASURES}
    for _ in range(RESAMPLES):
        drawn = {name: rng.integers(0, len(of["MAE"]), len(of["MAE"])) for name, of in one.items()}
        for key in MEASURES:
            values, others = (
                np.mean([of[name][key][index].mean() for name, index in drawn.items()]) for of in (one, other)
            )
            out[key]["mean"].append(values)
            out[key]["difference"].append(values - others)
    return {
        key: {
            "error": float(np.std(of["mean"])),
            "difference": float(np.mean(of["difference"])),
            "error of the difference": float(np.std(of["difference"])),
        }
        for key, of in out.items()
    }


def page(results: Mapping[str, Any]) -> str:
    """Return the part of the page on variants as Markdown."""
    means, errors, half = results["means"], results["errors"], results["half"]
    names = list(means[DEFAULT])
    over = {
        variant: {key: float(np.mean([sets[name][key] for name in names])) for key in MEASURES}
        for variant, sets in means.items()
    }
    rows = [[variant, *of.values()] for variant, of in over.items()]
    of_items = {v: sets for v, sets in means.items() if v in (DEFAULT, "normal items") or v.startswith("items:")}
    choices = {f"of all by {measure}": of for measure, of in results["chosen"].items()}
    choices |= {f"of distributions of items by {measure}": _chosen(of_items, measure) for measure in LOWER}
    chosen = [
        [name, ", ".join(sorted(set(of["picked"].values()))), *of["scores"].values()] for name, of in choices.items()
    ]
    where = [
        [name, *(means[variant][name][key] for key in LOWER for variant in ("normal items", DEFAULT)), *_of(half[name])]
        for name in names
    ]
    header = [
        "set",
        *(f"{key}{end}" for key in LOWER for end in (" (normal)", "")),
        *(f"{key}, half known" for key in LOWER),
    ]
    uncertain = [[key, over[DEFAULT][key], *of.values()] for key, of in errors.items()]
    median = float(np.mean(list(results["median"].values())))
    bound = {key: float(np.mean([half[name][key] for name in names])) for key in MEASURES}
    return f"""## What was tried

Variants of the model on the six sets, without known grades; `python benchmarks/grades.py --only variants`. *Normal items* have
a normal distribution of their places; that of the default is free but smooth, as [the model](../models/graded-facets.md) says,
since in most sets many items are at one end of the scale. {len(means)} variants were measured:

{table(["variant", *MEASURES], rows)}

Powers are of the default's probabilities, which are then normalised. *Read by the average rater*: the true grade is what a rater
with the crowd's thresholds and slope gives, in place of a rater drawn from the crowd. The median of the probabilities in place of
their rounded expectation has the MAE {median:.3f}. Powers below 1 lower log loss and RPS, but pull expected grades to the middle,
and the MAE of the power that the sets choose is larger: they are not the default.

For each set, the variant that is best in the mean of the five others, and the means over sets of the scores with it:

{table(["chosen", "variants", *MEASURES], chosen)}

Standard errors of the default's means over the items of each set, and differences from normal items with theirs, from
{RESAMPLES:,} bootstrap samples of items:

{table(["", "default", "error", "difference from normal items", "its error"], uncertain)}

Where the loss is: by set, with normal items and by default; and where the true grades of half of the items are known, on the
other half, which is about what any model of these grades could reach ({_written(bound)} in the mean):

{table(header, where)}

On `judges-summeval` the experts give the highest grade to six of ten items and the judges to two: no model of the judges alone
can know it. On `valence5` and `valence7` workers give the middle grade to half of the items and the reference to a quarter or
less."""


def _of(scored: Mapping[str, float]) -> list[float]:
    return [scored[key] for key in LOWER]


def _written(scored: Mapping[str, float]) -> str:
    return ", ".join(f"{key} {scored[key]:.3g}" for key in LOWER)
