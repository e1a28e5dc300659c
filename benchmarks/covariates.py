"""What accuracy depends on: effects of covariates by accuracy regression, and by a regression on majority votes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from common import arguments, table, write
from scipy.optimize import minimize
from scipy.special import expit, ndtri

import crowdppl
from crowdppl import Annotations
from crowdppl.data import datasets
from crowdppl.errors import silent
from crowdppl.models import AccuracyRegression

Array = npt.NDArray[Any]
CROWDS, WORKERS, ITEMS, PER_ITEM = 40, 20, 250, 4
BASE, TENURE, NIGHT, SPREAD, EASINESS, LEVEL = 1.6, 0.5, -0.7, 0.7, 0.4, 0.89
SAMPLED = {"method": "gibbs", "chains": 2, "warmup": 300, "num_samples": 700}


def crowd(seed: int) -> tuple[pd.DataFrame, dict[Any, int], Array]:
    """Return annotations, true labels and abilities of a crowd whose accuracy depends on tenure and on the time of day."""
    rng = np.random.default_rng(seed)
    item = np.repeat(np.arange(ITEMS), PER_ITEM)
    worker = np.concatenate([rng.choice(WORKERS, PER_ITEM, replace=False) for _ in range(ITEMS)])
    truth, tenure = rng.integers(0, 2, ITEMS), rng.normal(size=WORKERS)
    ability, easiness = SPREAD * rng.normal(size=WORKERS), EASINESS * rng.normal(size=ITEMS)
    night = rng.random(len(item)) < 0.4
    x = BASE + ability[worker] + easiness[item] + TENURE * tenure[worker] + NIGHT * night
    label = np.where(rng.random(len(item)) < expit(x), truth[item], 1 - truth[item])
    time = np.where(night, "night", "day")
    frame = pd.DataFrame({"task": item, "worker": worker, "label": label, "tenure": tenure[worker], "time": time})
    return frame, dict(enumerate(truth.tolist())), ability


def on_votes(data: Annotations) -> tuple[Array, Array]:
    """Return effects and standard errors of a logistic regression of whether a label is that of the majority."""
    share = data.majority()
    y = (share.argmax(-1)[data.item] == data.label).double().numpy()
    design = np.column_stack([np.ones(data.A), data.covariates.numpy()])  # type: ignore[union-attr]

    def loss(b: Array) -> tuple[float, Array]:
        x = design @ b
        return float((np.logaddexp(0, x) - y * x).sum()), design.T @ (expit(x) - y)

    b = minimize(loss, np.zeros(design.shape[1]), jac=True).x
    p = expit(design @ b)
    covariance = np.linalg.inv(design.T @ (design * (p * (1 - p))[:, None]))
    return b[1:], np.sqrt(np.diag(covariance))[1:]


def main() -> None:
    """Count how often intervals hold the effects, and look at a public set."""
    options = arguments(__doc__ or "")
    crowds = 2 if options.quick else CROWDS
    true = np.array([TENURE, NIGHT])
    names = ["tenure, of a worker", "night, of an annotation"]
    half = float(ndtri(0.5 + LEVEL / 2))
    fitted: list[Array] = []
    votes: list[Array] = []
    others: list[tuple[bool, float, float, float, float]] = []
    with silent():
        for seed in range(crowds):
            frame, truth, _ = crowd(seed)
            data = Annotations.from_frame(frame, covariates="tenure + time")
            posterior = crowdppl.fit(data, seed=seed, independent=True, **SAMPLED)
            effects = posterior.effects(level=LEVEL)
            fitted.append(effects[["effect", "effect_low", "effect_high"]].to_numpy())
            b, error = on_votes(data)
            votes.append(np.stack([b, b - half * error, b + half * error], -1))
            spread = posterior.draws("worker_spread")
            low, high = np.quantile(spread, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
            correct = np.array([truth[task] for task in data.items.tolist()])
            plain = crowdppl.fit(data, "dawid-skene", method="em", seed=seed, num_samples=2)
            own, before = (float((fit.probability().argmax(-1) == correct).mean()) for fit in (posterior, plain))
            likely = [-np.log(fit.probability()[np.arange(ITEMS), correct]).mean() for fit in (posterior, plain)]
            others.append((bool(low <= SPREAD <= high), own, before, *map(float, likely)))
    rows, results = [], {}
    for method, parts in (("accuracy regression", fitted), ("regression on votes", votes)):
        values = np.stack(parts)  # (crowds, 2, 3)
        for k, name in enumerate(names):
            mean, low, high = values[:, k].T
            covered = float(((low <= true[k]) & (true[k] <= high)).mean())
            record = {"mean": float(mean.mean()), "covered": covered, "width": float((high - low).mean())}
            results[f"{method}: {name}"] = record
            shown = [f"{true[k]:+.2f}", f"{mean.mean():+.2f}", f"{covered:.0%}", f"{record['width']:.2f}"]
            rows.append([method, name, *shown])
    each = np.array(others, dtype=float).mean(0).tolist()
    results["others"] = dict(
        zip(("spread_covered", "accuracy", "dawid_skene", "log_loss", "dawid_skene_log_loss"), each, strict=True)
    )
    text = (
        f"{crowds} simulated crowds of {WORKERS} workers and {ITEMS} items with {PER_ITEM} annotations each, in two classes. The "
        f"log odds of a correct label are {BASE:g}, plus the worker's ability (standard deviation {SPREAD:g}), the easiness of "
        f"the item ({EASINESS:g}), {TENURE:g} for each unit of the worker's tenure, and {NIGHT:g} at night. Beside the model, "
        f"what is often done: a logistic regression of whether a label is that of the majority. Votes err, so that agreement "
        f"with them shrinks effects, and errors of one worker are not independent, so that intervals of what belongs to workers "
        f"are too narrow.\n\n{table(['', 'effect', 'true', 'mean', f'held by {LEVEL:.0%} intervals', 'width'], rows)}\n\n"
        f"The interval of the standard deviation of abilities holds it in {each[0]:.0%} of the crowds. Labels are correct for "
        f"{each[1]:.1%} of the items, with a log loss of {each[3]:.3f}; by Dawid–Skene for {each[2]:.1%}, with {each[4]:.3f}."
    )
    text += public(results)
    write("covariates", "Effects of covariates", text, results, options)


def public(results: dict[str, Any]) -> str:
    """Return a section on a public set whose annotations have their place in the session."""
    folder = datasets.folder()
    if folder is None or not (folder / "cifar10s").is_dir():
        return ""
    frame = pd.read_csv(folder / "cifar10s" / "annotations.csv.gz").rename(columns={"item": "task"})
    frame = frame[frame["is_repeat"] == 0]
    data = Annotations.from_frame(frame[["task", "worker", "label", "trial"]], covariates="trial")
    with silent():
        posterior = crowdppl.fit(data, AccuracyRegression(), seed=0, chains=2, warmup=300, num_samples=700)
    row = posterior.effects(level=LEVEL).to_dict("records")[0]
    results["cifar10s"] = row
    points = [100 * row[f"accuracy_change{end}"] for end in ("", "_low", "_high")]
    return (
        f"\n\n## A public set\n\nIn cifar10s {data.J:,} people labelled {data.N:,} images one after the other, {data.A:,} "
        f"annotations in all. Accuracy changes by {points[0]:+.2f} percentage points with each further image "
        f"({LEVEL:.0%} interval {points[1]:+.2f} to {points[2]:+.2f}); the probability that it falls is "
        f"{1 - row['probability_positive']:.0%}."
    )


if __name__ == "__main__":
    main()
