"""The default with features: calibration of its class probabilities, coverage of its workers' intervals, and annotations an item.

Public sets with features, and three sets of scikit-learn with simulated crowds, as in classifier_prior.py.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from classifier_prior import PUBLIC, RELATIONS, SIMULATED, Task, public, relation, simulated
from common import arguments, kept_figures, table, write

sys.path.insert(0, str(Path(__file__).parent / "calibration"))
from model_coverage import HEAD, PLACE

import crowdppl
from crowdppl import Annotations, Posterior, criticism
from crowdppl.data import datasets
from crowdppl.inference.catalogue import LEAST_ADDED
from crowdppl.model.class_scores import learned

# What is measured: calibration and coverage; fewer annotations an item; and what features add to these.
PARTS = ("forms", "numbers", "added")
MODEL = "features-and-effects"
# Smallest number of a worker's annotations of items of known truth.
MINIMUM = 20
# Simulated crowds of each set, and draws of fewer annotations an item.
CROWDS, DRAWS = 3, 3
# Annotations an item that are left.
EACH = (3, 5, 8, 12)
# Model, whether as published, and whether class scores are left out of the count of an item's sources.
FORMS = {
    "without features": ("item-effects", False, False),
    "scores not counted": ("features-and-effects", False, True),
    "scores counted": ("features-and-effects", False, False),
    "independent=True": ("features-and-effects", True, False),
}


def photographs() -> Task:
    """Return cifar10s with features that were learned without labels."""
    data, truth = datasets.public("cifar10s")
    folder = datasets.folder()
    assert folder is not None
    with np.load(folder / "cifar10-kmeans" / "features.npz", allow_pickle=False) as file:
        features = file["test"][data.items.astype(int)].astype(float)
    known = {str(item): str(label) for item, label in dict(truth).items()}
    code = {str(label): n for n, label in enumerate(data.labels.tolist())}
    return Task(data.with_features(features), np.array([code[known[str(item)]] for item in data.items.tolist()]))


def other_features(task: Task) -> Task:
    """Return labelme with its second set of features."""
    folder = datasets.folder()
    assert folder is not None
    with np.load(folder / "labelme-maxpool" / "features_max.npz", allow_pickle=False) as file:
        features = pd.DataFrame(file["x"].astype(float), index=file["items"])
    return replace(task, data=task.data.with_features(features))


def fewer(task: Task, each: int, seed: int) -> Task:
    """Return a task with at most so many annotations of each item, at random."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(task.data.A)
    item = pd.Series(task.data.item.numpy()[rows])
    kept = np.sort(rows[(item.groupby(item).cumcount() < each).to_numpy()])
    label, worker, item = (getattr(task.data, name).numpy()[kept] for name in ("label", "worker", "item"))
    assert task.data.features is not None
    codes, place = np.unique(item, return_inverse=True)
    data = Annotations.from_arrays(place, worker, label, labels=range(task.data.K), repeats="keep")
    return Task(data.with_features(task.data.features.numpy()[codes]), task.truth[codes])


def fitted(task: Task, form: str, *, draws: bool = True) -> Posterior:
    """Fit one form, with draws for intervals or without."""
    model, independent, uncounted = FORMS[form]
    left = patch.object(Annotations, "sources_per_item", Annotations.weighted_per_item) if uncounted else nullcontext()
    with warnings.catch_warnings(), left:
        warnings.simplefilter("ignore")
        posterior = crowdppl.fit(task.data, model, method="em", seed=0, independent=independent)
        if draws:
            _ = posterior.tree  # which counts sources, too
    return posterior


def measured(task: Task, form: str) -> dict[str, float]:
    """Return calibration of labels, and coverage of the intervals of workers' share of correct annotations and accuracy."""
    posterior = fitted(task, form)
    names = task.data.items.tolist()
    truths = {names[i]: task.data.labels[task.truth[i]] for i in np.flatnonzero(task.truth >= 0)}
    labels = criticism.calibration(posterior, truths)
    workers = criticism.coverage(posterior, truths, minimum=MINIMUM).workers
    return {
        "correct": labels.accuracy,
        "stated": labels.confidence,
        "log loss": labels.log_loss,
        "calibration error": labels.ece,
        "workers": len(workers),
        "share": float(workers["share_correct_covers"].sum()),
        "accuracy": float(workers["accuracy_covers"].sum()),
        "bias": float((workers["share_correct"] - workers["correct"]).sum()),
        "width": float((workers["share_correct_high"] - workers["share_correct_low"]).sum()),
    }


def pooled(rows: list[Mapping[str, float]]) -> dict[str, float]:
    """Return means over crowds of what concerns labels, and over workers of what concerns them."""
    workers = max(1, sum(row["workers"] for row in rows))
    out = {
        key: float(np.mean([row[key] for row in rows]))
        for key in ("correct", "stated", "log loss", "calibration error")
    }
    return (
        out
        | {key: sum(row[key] for row in rows) / workers for key in ("share", "accuracy", "bias", "width")}
        | {"workers": workers}
    )


def by_number(task: Task, draws: int) -> list[dict[str, float]]:
    """Return accuracy and log loss without features and with them, and standard errors of the differences over items."""
    rows = []
    mean = task.data.A / task.data.N
    for each in (*(n for n in EACH if n < 0.9 * mean), 0):
        pairs = []
        for seed in range(draws if each else 1):
            part = fewer(task, each, seed) if each else task
            known = part.truth >= 0
            right = np.arange(known.sum()), part.truth[known]
            p = [
                fitted(part, form, draws=False).probability()[known] for form in ("without features", "scores counted")
            ]
            pairs.append([(q.argmax(1) == right[1], -np.log(np.maximum(q[right], 1e-6))) for q in p])
        hit, loss = (np.array([[one[n] for one in pair] for pair in pairs], dtype=object) for n in (0, 1))

        def difference(values: np.ndarray) -> tuple[float, float]:
            gaps = [np.asarray(pair[1], dtype=float) - np.asarray(pair[0], dtype=float) for pair in values]
            # Draws are of the same items: their errors are nearly the same.
            return float(np.mean([gap.mean() for gap in gaps])), float(
                np.mean([gap.std() / len(gap) ** 0.5 for gap in gaps])
            )

        base = float(np.mean([np.mean(np.asarray(pair[0], dtype=float)) for pair in hit]))
        base_loss = float(np.mean([np.mean(np.asarray(pair[0], dtype=float)) for pair in loss]))
        (gain, gain_error), (less, less_error) = difference(hit), difference(loss)
        rows.append(
            {
                "each": each or mean,
                "accuracy": base,
                "gain": gain,
                "gain error": gain_error,
                "log loss": base_loss,
                "change": less,
                "change error": less_error,
            }
        )
    return rows


def added(task: Task, draws: int) -> list[float]:
    """Return what features add to the other labels of an item, by number of annotations as :func:`by_number`."""
    numbers = [n for n in EACH if n < 0.9 * task.data.A / task.data.N]
    some = [np.mean([learned(fewer(task, each, seed).data).added for seed in range(draws)]) for each in numbers]
    return [float(one) for one in (*some, learned(task.data).added)]


def tasks(crowds: int) -> dict[str, list[Task]]:
    """Return the sets: several crowds of those that are simulated."""
    public_sets = {name: public(name) for name in PUBLIC}
    out = {name: [task] for name, task in public_sets.items()}
    out["labelme, other features"] = [other_features(public_sets["labelme"])]
    out["cifar10s"] = [photographs()]
    for name in RELATIONS:
        whole = relation(name)
        out[f"medical-relations, {name}, 5 an item"] = [fewer(whole, 5, 0)]
    out["cmm-setup1 (simulated)"] = [public("cmm-setup1")]
    return out | {
        f"{name} (simulated)": [simulated(load, seed) for seed in range(crowds)] for name, load in SIMULATED.items()
    }


def cite(figures: Mapping[str, Mapping[str, Mapping[str, float]]]) -> None:
    """Write the figures that results of this model cite: of the public sets with all of their annotations, each once."""
    sets = [name for name in (*PUBLIC, "cifar10s") if name in figures]
    cited = json.loads(PLACE.read_text(encoding="utf-8"))
    out = {}
    for kind, form in (("default", "scores counted"), ("independent", "independent=True")):
        each = [figures[name][form] for name in sets]
        workers = int(sum(one["workers"] for one in each))
        out[kind] = {"sets": len(sets), "workers": workers}
        for name in ("share", "accuracy"):
            out[kind][name] = round(sum(one[name] * one["workers"] for one in each) / workers, 4)
            out[kind][f"{name}_by_set"] = round(float(np.mean([one[name] for one in each])), 4)
        out[kind]["correct"] = round(float(np.mean([one["correct"] for one in each])), 4)
    cited[MODEL] = {"em": out}
    PLACE.write_text(json.dumps(cited, indent=1) + "\n", encoding="utf-8")


def cited_rows() -> list[list[Any]]:
    """Return the rows of the table of what results cite, as those of model_coverage.py."""
    return [
        [
            MODEL,
            method,
            kind,
            f"{one['correct']:.3f}",
            one["workers"],
            *(f"{one[key]:.0%}" for key in ("share", "share_by_set", "accuracy", "accuracy_by_set")),
        ]
        for method, kinds in json.loads(PLACE.read_text(encoding="utf-8"))[MODEL].items()
        for kind, one in kinds.items()
    ]


def form_rows(figures: dict[str, dict[str, dict[str, float]]]) -> list[list[Any]]:
    """Return the rows of the table of forms: each set, means over the public sets, and over simulated ones."""
    groups = {
        "*public, mean of sets*": [name for name in figures if "simulated" not in name],
        "*simulated, mean of sets*": [name for name in figures if "simulated" in name],
    }
    rows = [[name, form, one] for name, forms in figures.items() for form, one in forms.items()]
    for title, names in groups.items():
        for form in FORMS:
            each = [figures[name][form] for name in names]
            rows.append([title, form, {key: float(np.mean([one[key] for one in each])) for key in each[0]}])
    return [
        [
            name,
            form,
            f"{one['correct']:.3f}",
            f"{one['stated']:.3f}",
            f"{one['log loss']:.3f}",
            f"{one['calibration error']:.3f}",
            f"{one['share']:.0%}",
            f"{one['accuracy']:.0%}",
            f"{one['bias']:+.3f}",
            f"{one['width']:.3f}",
        ]
        for name, form, one in rows
    ]


def main() -> None:
    """Measure, and write the page."""
    options = arguments(__doc__, PARTS)
    crowds, draws = (1, 1) if options.quick else (CROWDS, DRAWS)
    parts = options.only or PARTS
    results = kept_figures("features-coverage", options)
    if "forms" in parts:
        results["forms"] = {
            name: {form: pooled([measured(task, form) for task in each]) for form in FORMS}
            for name, each in tasks(crowds).items()
        }
        if not options.quick:
            cite(results["forms"])
    many = {f"medical-relations, {name}": relation(name) for name in RELATIONS}
    many |= {name: public(name) for name in PUBLIC} | {"cifar10s": photographs()}
    if "numbers" in parts:
        results["numbers"] = {name: by_number(task, draws) for name, task in many.items()}
    if "added" in parts:
        results["added"] = {name: added(task, draws) for name, task in many.items()}
    body = page(results, crowds, draws)
    write("features-coverage", "The default with features", body, results, options, "features_coverage")


def page(results: dict[str, Any], crowds: int, draws: int) -> str:
    """Return the page.

    Args:
        results: figures by part.
        crowds: simulated for each set.
        draws: of the annotations that items keep.
    """
    numbers = results["numbers"]
    forms = table(
        (
            "set",
            "",
            "correct",
            "stated",
            "log loss",
            "calibration error",
            "share correct held",
            "accuracy held",
            "bias of share",
            "width of share",
        ),
        form_rows(results["forms"]),
    )
    rows = [
        (share, name, row)
        for name, each in numbers.items()
        for share, row in zip(results["added"][name], each, strict=True)
    ]
    by_each = table(
        (
            "set",
            "annotations an item",
            "added by features",
            "accuracy without features",
            "gain by features",
            "log loss without",
            "change by features",
        ),
        [
            [
                name,
                f"{row['each']:.1f}",
                f"{share:.1%}",
                f"{row['accuracy']:.3f}",
                f"{row['gain']:+.3f} ± {row['gain error']:.3f}",
                f"{row['log loss']:.3f}",
                f"{row['change']:+.3f} ± {row['change error']:.3f}",
            ]
            for share, name, row in sorted(rows, key=lambda one: one[0])
        ],
    )
    return f"""[Features and item effects](../models/features-and-effects.md), the default where items have features, by EM.
*Correct* and *stated* are the share of correct labels and the mean probability of the label; calibration error over ten bins.
*Held* is the share of workers, with at least {MINIMUM} annotations of items of known truth, whose 89% interval of
`share_correct`, or of `accuracy`, contains their share of correct annotations. Simulated crowds are independent, {crowds} of
each set.

A classifier that learns from the votes of a crowd learns the errors that the crowd has in common, too. Its score of an item is
one more source whose errors are correlated with those of the annotations: the
[design effect](../guide/calibrated-intervals.md) of an item with `n` annotations and class scores is `1 + n rho`, not
`1 + (n - 1) rho`. *Scores not counted* has the latter. The distribution of `rho` is that of item effects. This form
was chosen among five by the log loss on the public sets of this page, so that their figures are not of held-out data.

{forms}

On `labelme` intervals hold too seldom since the crowd shares two errors: 48% of the labels of items of the last class are of
three others, and 45% of those of the second class of two others. The labels do not show it, so that workers are said to agree
with the truth more often than they do (the worst quarter .67 for .47), and a classifier learns the same. Without features,
intervals of `share_correct` of all workers hold 80%; with 30, 100 and 300 known true labels 89%, 90% and 96% (bias +.077, +.061,
+.047, +.029; means of three draws, single runs).

## What results cite

Of the public sets with all of their annotations, each once: `labelme`, `music-genre`, `leaves` and `cifar10s`.

{table(HEAD, cited_rows())}

## Annotations an item

Items keep some of their annotations, at random, {draws} times each. Differences of features and item effects from item effects,
with standard errors over items. The more labels an item has, the less is left for features to tell, and what they tell is
increasingly the errors that the crowd has in common. *Added by features* is measured without true labels: each label is predicted
by the other labels of its item and by the features, and the share of this prediction, beyond that of the class shares, that is
due to features. The default reads features from {LEAST_ADDED:.0%} on: below, accuracy and log loss are within errors of those
without features, or worse. No number of annotations an item would do as well: ten of `leaves` leave more to say than three of
`cifar10s` do. The limit was chosen on this table of {len(numbers)} sets, and is not held out.

{by_each}
"""


if __name__ == "__main__":
    main()
