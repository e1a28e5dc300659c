"""The prior of a classifier, and the default with features: new items and labels, beside logistic regression on the votes.

Public sets with features, and three sets of scikit-learn with simulated crowds: twelve workers with accuracies from .4 to .85,
three labels an item, 60% of the items with labels and 40% as new items.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from common import arguments, kept_figures, table, write
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import crowdppl
from crowdppl import Annotations
from crowdppl.data import datasets
from crowdppl.learning import CrowdClassifier
from crowdppl.models import Raykar

# Scales of the weights that are the same for all sets, and standard deviations of a logit, which differ by number of features.
FIXED = (3.0, 1.0, 0.3, 0.1, 0.03)
LOGITS = (0.5, 1.0, 2.0, 4.0, 8.0)
SIMULATED = {"wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits}
ESTIMATORS = {
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=2_000)),
    "nearest neighbours": make_pipeline(StandardScaler(), KNeighborsClassifier(15)),
}
PUBLIC = ("labelme", "music-genre", "leaves")
# What is measured: the scales of the prior, classifiers of scikit-learn, and the default with features and without.
PARTS = ("scales", "classifiers", "defaults", "others")
# Relations that sentences may state, and further sets with features.
RELATIONS, OTHERS = ("CAUSES", "TREATS"), ("cmm-setup1",)
# Draws of random features in place of a set's own.
RANDOM = 2


@dataclass(frozen=True)
class Task:
    """Annotated items with features, and new items; classes as codes, -1 where unknown."""

    data: Annotations
    truth: np.ndarray
    features: np.ndarray | None = None
    classes: np.ndarray | None = None


def simulated(load: Callable[..., Any], seed: int) -> Task:
    """Draw a crowd for a set of scikit-learn."""
    x, y = load(return_X_y=True)
    known, new, truth, classes = train_test_split(x, y, test_size=0.4, random_state=seed, stratify=y)
    rng = np.random.default_rng(seed)
    K, N, J = int(y.max()) + 1, len(truth), 12
    accuracy = rng.uniform(0.4, 0.85, J)
    item = np.repeat(np.arange(N), 3)
    worker = np.concatenate([rng.choice(J, 3, replace=False) for _ in range(N)])
    wrong = (truth[item] + rng.integers(1, K, size=len(item))) % K
    label = np.where(rng.random(len(item)) < accuracy[worker], truth[item], wrong)
    data = Annotations.from_arrays(item, worker, label, labels=range(K)).with_features(known)
    return Task(data, truth, new, classes)


def public(name: str) -> Task:
    """Read a public set with features."""
    data, truth = datasets.public(name)
    folder = datasets.folder()
    assert folder is not None
    with np.load(folder / name / "features.npz", allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    data = data.with_features(pd.DataFrame(arrays["x"].astype(float), index=arrays["items"]))
    code = {label: n for n, label in enumerate(data.labels.tolist())}
    known = dict(truth)
    classes = np.array([code.get(known.get(item), -1) for item in data.items.tolist()])
    if "x_test" not in arrays:
        return Task(data, classes)
    return Task(
        data, classes, arrays["x_test"].astype(float), np.array([code[one] for one in arrays["y_test"].tolist()])
    )


def relation(name: str) -> Task:
    """Read whether crowds and experts find a relation in sentences of medical-relations, with sentence embeddings."""
    folder = datasets.folder()
    assert folder is not None
    given = pd.read_csv(folder / "medical-relations" / "annotations.csv.gz", dtype=str)
    experts = pd.read_csv(folder / "medical-relations" / "truth.csv", dtype={"item": str})
    with np.load(folder / "medical-relations" / "features.npz", allow_pickle=False) as file:
        features = pd.DataFrame(file["x"].astype(float), index=file["items"])
    given = given[given["item"].isin(features.index)]
    frame = pd.DataFrame({"task": given["item"], "worker": given["worker"]})
    frame["label"] = given["label"].str.contains(name).map({True: "yes", False: "no"})
    data = Annotations.from_frame(frame, features=features, repeats="keep")
    known = experts[experts["relation"].str.contains(name)].groupby("item")["label"].mean() >= 0.5
    code = {label: n for n, label in enumerate(data.labels.tolist())}
    classes = {item: code["yes" if yes else "no"] for item, yes in known.items()}
    return Task(data, np.array([classes.get(str(item), -1) for item in data.items.tolist()]))


def scores(probability: np.ndarray, classes: np.ndarray) -> tuple[float, float]:
    """Return accuracy and log loss on items of known class."""
    known = classes >= 0
    p, t = probability[known], classes[known]
    chosen = np.maximum(p[np.arange(len(t)), t], 1e-12)
    return float((p.argmax(1) == t).mean()), float(-np.log(chosen).mean())


def regression(task: Task) -> tuple[float, float]:
    """Score logistic regression of scikit-learn, with its default penalty, on the votes; features standardised."""
    x = task.data.features
    assert x is not None
    assert task.features is not None
    assert task.classes is not None
    mean, spread = x.numpy().mean(0), x.numpy().std(0)
    spread[spread == 0] = 1
    model = LogisticRegression(max_iter=2_000).fit((x.numpy() - mean) / spread, task.data.votes.numpy().argmax(1))
    probability = np.zeros((len(task.features), task.data.K))
    probability[:, model.classes_] = model.predict_proba((task.features - mean) / spread)
    return scores(probability, task.classes)


def inside(task: Task, estimator: Any) -> dict[str, float]:
    """Score a classifier of scikit-learn inside ``CrowdClassifier``, and trained on the votes."""
    x, votes = task.data.features, task.data.votes.numpy().argmax(1)
    assert x is not None
    assert task.features is not None
    assert task.classes is not None
    labels = np.full((task.data.N, task.data.J), np.nan)
    labels[task.data.item.numpy(), task.data.worker.numpy()] = task.data.label.numpy()
    crowd = CrowdClassifier(estimator).fit(x.numpy(), labels)
    plain = clone(estimator).fit(x.numpy(), votes)
    probability = np.zeros((len(task.features), task.data.K))
    probability[:, plain.classes_] = plain.predict_proba(task.features)
    new, of_votes = scores(crowd.predict_proba(task.features), task.classes), scores(probability, task.classes)
    known = scores(crowd.label_probability_, task.truth)
    names = ("new", "new loss", "votes", "votes loss", "labels", "labels loss")
    return dict(zip(names, (*new, *of_votes, *known), strict=True))


def classified(task: Task, scale: float | None) -> dict[str, float]:
    """Fit a classifier with this scale; score labels, and new items where there are any."""
    posterior = crowdppl.fit(task.data, Raykar(prior_scale=scale), method="em", seed=0)
    labels = scores(posterior.probability(), task.truth)
    new = (float("nan"), float("nan"))
    if task.features is not None and task.classes is not None:
        predicted = crowdppl.predict(posterior, task.features)
        new = scores(predicted[[name for name in predicted if name.startswith("p_")]].to_numpy(), task.classes)
    return {"new": new[0], "new loss": new[1], "labels": labels[0], "labels loss": labels[1]}


def by_default(
    data: Annotations, task: Task, model: str | None = None, *, independent: bool = False, whole: bool = False
) -> dict[str, float]:
    """Fit a model, by default the library's choice; score labels, and with ``whole`` new items."""
    began = time.process_time()
    posterior = crowdppl.fit(data, model, method="em", seed=0, independent=independent)
    labels = scores(posterior.probability(), task.truth)
    out = {"labels": labels[0], "labels loss": labels[1], "seconds": time.process_time() - began}
    out["read"] = float("features" in posterior.info["model"])
    if not whole:
        return out
    posterior.workers()
    out["with workers"] = time.process_time() - began
    if out["read"] and task.features is not None and task.classes is not None:
        predicted = crowdppl.predict(posterior, task.features)
        new = scores(predicted[[name for name in predicted if name.startswith("p_")]].to_numpy(), task.classes)
        out |= {"new": new[0], "new loss": new[1]}
    return out


def with_random_features(data: Annotations, seed: int) -> Annotations:
    """Return the data with features that say nothing, as many."""
    return data.with_features(np.random.default_rng(seed).normal(size=(data.N, data.D)))


def defaults(tasks: list[Task], random: int) -> dict[str, Any]:
    """Return figures of the default with features, without, and with random ones; and where annotations are independent."""
    plain = [replace(task.data, features=None, feature_names=None) for task in tasks]
    pairs = list(zip(tasks, plain, strict=True))
    return {
        "without": mean([by_default(data, task) for task, data in pairs]),
        "with": mean([by_default(task.data, task, whole=True) for task in tasks]),
        "random": mean(
            [by_default(with_random_features(task.data, seed), task) for task in tasks for seed in range(random)]
        ),
        "independent": {
            name: mean([by_default(task.data, task, name, independent=True) for task in tasks])
            for name in ("dawid-skene", "raykar", "features-and-effects")
        },
    }


def named(task: Task) -> dict[str, Any]:
    """Return figures of both models, each named."""
    out = {name: by_default(task.data, task, name) for name in ("item-effects", "features-and-effects")}
    return {**out, "items": task.data.N, "features": task.data.D, "each": task.data.A / task.data.N}


def mean(rows: list[dict[str, float]]) -> dict[str, float]:
    """Return the means of figures that all rows have."""
    return {key: float(np.mean([row[key] for row in rows])) for key in rows[0] if all(key in row for row in rows)}


def measured(tasks: list[Task], parts: Collection[str], random: int) -> dict[str, Any]:
    """Return the figures of a set, means over its crowds."""
    D = tasks[0].data.D
    out: dict[str, Any] = {"features": D, "items": tasks[0].data.N, "classes": tasks[0].data.K}
    if "scales" in parts:
        out["fixed"] = {str(scale): mean([classified(task, scale) for task in tasks]) for scale in FIXED}
        out["logit"] = {str(sd): mean([classified(task, sd / math.sqrt(D)) for task in tasks]) for sd in LOGITS}
        out["default"] = mean([classified(task, None) for task in tasks])
    if "defaults" in parts:
        out |= defaults(tasks, random)
    if "classifiers" in parts and tasks[0].features is not None:
        out["inside"] = {name: mean([inside(task, one) for task in tasks]) for name, one in ESTIMATORS.items()}
        each = [regression(task) for task in tasks]
        out["regression"] = {
            "new": float(np.mean([one[0] for one in each])),
            "new loss": float(np.mean([one[1] for one in each])),
        }
    return out


def chosen_on_others(figures: dict[str, Any]) -> dict[str, float]:
    """Return, for each set with new items, the standard deviation of a logit that is best on the others by mean log loss."""
    scored = [name for name in figures if "regression" in figures[name]]
    return {
        left: min(
            LOGITS, key=lambda sd: np.mean([figures[n]["logit"][str(sd)]["new loss"] for n in scored if n != left])
        )
        for left in scored
    }


def main() -> None:
    """Measure, and write the page."""
    options = arguments(__doc__, PARTS)
    crowds, random = (1, 1) if options.quick else (5, RANDOM)
    parts = options.only or PARTS
    figures = kept_figures("classifier-prior", options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, load in SIMULATED.items():
            figures[name] = figures.get(name, {}) | measured(
                [simulated(load, seed) for seed in range(crowds)], parts, random
            )
        for name in PUBLIC:
            figures[name] = figures.get(name, {}) | measured([public(name)], parts, random)
    if "others" in parts:
        tasks = {f"medical-relations, {name}": relation(name) for name in RELATIONS} | {n: public(n) for n in OTHERS}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            figures["others"] = {name: named(task) for name, task in tasks.items()}
    body = page(figures, crowds, random)
    write("classifier-prior", "The prior of a classifier", body, figures, options, "classifier_prior")


def page(results: dict[str, Any], crowds: int, random: int) -> str:
    """Return the page.

    Args:
        results: figures by set, and those of further sets as ``others``.
        crowds: simulated for each set.
        random: draws of random features for each crowd.
    """
    further = results["others"]
    figures = {name: one for name, one in results.items() if name != "others"}
    others = chosen_on_others(figures)
    scored = list(others)

    new = table(
        ("set", "features", "default", *(f"scale {scale:g}" for scale in FIXED), "regression on votes"),
        [
            [
                name,
                f["features"],
                cell(f["default"], "new"),
                *(cell(f["fixed"][str(s)], "new") for s in FIXED),
                cell(f["regression"], "new"),
            ]
            for name, f in figures.items()
            if name in scored
        ],
    )
    logits = table(
        ("set", *(f"{sd:g} / √D" for sd in LOGITS), "best on the others"),
        [
            [name, *(cell(figures[name]["logit"][str(sd)], "new") for sd in LOGITS), f"{others[name]:g}"]
            for name in scored
        ],
    )
    labels = table(
        ("set", "without features", "classifier", *(f"scale {scale:g}" for scale in FIXED)),
        [
            [
                name,
                cell(f["without"], "labels"),
                cell(f["default"], "labels"),
                *(cell(f["fixed"][str(s)], "labels") for s in FIXED),
            ]
            for name, f in figures.items()
        ],
    )
    default = table(
        (
            "set",
            "items",
            "features",
            "without features",
            "with features",
            "new items",
            "random features",
            "read",
            "seconds",
        ),
        [
            [
                name,
                f["items"],
                f["features"],
                cell(f["without"], "labels"),
                cell(f["with"], "labels"),
                cell(f["with"], "new") if "new" in f["with"] else "",
                cell(f["random"], "labels"),
                f"{f['random']['read']:.0%}",
                f"{f['with']['seconds']:.1f}, {f['with']['with workers']:.1f}",
            ]
            for name, f in figures.items()
        ],
    )
    other = table(
        ("set", "items", "features", "annotations an item", "item-effects", "features-and-effects"),
        [
            [
                name,
                f["items"],
                f["features"],
                f"{f['each']:.1f}",
                cell(f["item-effects"], "labels"),
                cell(f["features-and-effects"], "labels"),
            ]
            for name, f in further.items()
        ],
    )
    independent = table(
        ("set", *figures[PUBLIC[0]]["independent"]),
        [[name, *(cell(one, "labels") for one in f["independent"].values())] for name, f in figures.items()],
    )
    classifiers = table(
        ("set", "classifier", "new items", "trained on the votes", "labels"),
        [
            [name, kind, cell(one, "new"), cell(one, "votes"), cell(one, "labels")]
            for name in scored
            for kind, one in figures[name]["inside"].items()
        ],
    )
    return f"""## The default with features

[Features and item effects](../models/features-and-effects.md), which a fit without a named model takes where features say
something of the votes, beside the default without features. Cells are accuracy (log loss); wine, breast cancer and digits are
means over {crowds} simulated crowds. *Random features* are as many normal numbers, {random} draws for each crowd, and *read* is
the share of fits that took them for something. *Seconds* are of one processor: for labels, and with intervals for workers. One of
the crowds of breast cancer, whose votes are .59 correct, is left without features: they predict votes too little to be told from
chance.

{default}

Further sets, both models named: a simulated crowd, and sentences of medical texts with 384 numbers of a language model each,
whose true labels are by experts. Many labels of an item leave a classifier of the crowd's votes little to add but what the crowd
has in common, so that the default leaves features unread where they
[add less than 4%](features-coverage.md#annotations-an-item) to what the other labels of an item say of a label.

{other}

Where the caller says that annotations are independent:

{independent}

### What was tried

Prototypes on the same sets, by accuracy (log loss) of labels on LabelMe, wine and leaves; without features .789 (.62), .764 (.61)
and .628 (1.13). Nothing was tuned on them but the form.

| prior of an item's class | LabelMe | wine | leaves | random features of LabelMe |
|---|--:|--:|--:|--:|
| logistic regression inside the model, `1 / √D` | .835 (.54) | .934 (.26) | not tried | .786 (.67) |
| the same, `2 / √D` | .824 (.58) | .925 (.23) | not tried | .781 (.77) |
| ridge regression on the votes for other items, its weight learned | .865 (.47) | .972 (.17) | .643 (1.12) | .789 (.62) |
| the same, learned again from the posterior without the item's own scores | .869 (.47) | .981 (.16) | .651 (1.15) | .789 (.62) |
| learned again from the whole posterior, three times | not tried | .972 (.15) | not tried | .788 (.62) |

A classifier inside the model learns the errors of the crowd where features are many. Learning scores again from the whole
posterior confirms the earlier ones: with 30 random features of breast cancer accuracy falls from .716 to .630. Scores by
logistic regression in five folds were as good (digits .966 in place of .960) and take many times as long.

## The prior of a logistic classifier

`Raykar`, a logistic classifier and a confusion matrix for each worker, by EM. Its weights have a normal prior,
whose standard deviation is by default `2 / sqrt(D)` for `D` standardised features: a logit then has a standard deviation of 2,
however many features there are. Cells are accuracy (log loss); wine, breast cancer and digits are means over {crowds}
simulated crowds.

### New items

By the classifier alone, for items without labels. *Regression on votes* is scikit-learn's logistic regression on the most
frequent labels.

{new}

### How wide

The same by the standard deviation of a logit, and which of the {len(LOGITS)} has the best mean log loss on the other sets.

{logits}

### Labels

Of the items with labels: item effects, which read no features, and the classifier.

{labels}

### Classifiers of scikit-learn

Inside `CrowdClassifier`: new items, beside the same classifier trained on the votes, and the items with labels. Logistic
regression with its default penalty, and 15 nearest neighbours.

{classifiers}

Nearest neighbours do not take weights, so that they learn from the most probable class; in hundreds of dimensions they are worse
than on the votes.
"""


def cell(one: dict[str, float], what: str) -> str:
    """Write accuracy and log loss."""
    return f"{one[what]:.3f} ({one[f'{what} loss']:.2f})"


if __name__ == "__main__":
    main()
