"""Labels that are never a true label, such as "cannot tell": read as one, left out, or taken for a class."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from common import arguments, table, write

import crowdppl
from crowdppl.data import datasets
from crowdppl.errors import silent

CANNOT = "cannot tell"
# True rates by class, and between which probabilities workers are correct.
RATES = {
    "informative": ((0.05, 0.5), (0.55, 0.8)),
    "informative, better workers": ((0.05, 0.5), (0.6, 0.85)),
    "uninformative": ((0.25, 0.25), (0.55, 0.8)),
}
MODELS = ("item-effects", "dawid-skene", "one-coin")
# Public sets and their label for it.
PUBLIC = {"weather-sentiment-cf": 4, "weather-sentiment-amt": 4}


def simulated(
    seed: int, rates: tuple[float, float], skill: tuple[float, float], items: int = 1000, workers: int = 25
) -> tuple[pd.DataFrame, Any]:
    """Draw five answers an item by workers who are correct with a probability of ``skill`` where they name a class."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, items)
    task = np.repeat(np.arange(items), 5)
    worker = np.concatenate([rng.choice(workers, 5, replace=False) for _ in range(items)])
    right = rng.random(len(task)) < rng.uniform(*skill, workers)[worker]
    label = np.where(right, truth[task], 1 - truth[task]).astype(str).astype(object)
    label[rng.random(len(task)) < np.array(rates)[truth[task]]] = CANNOT
    return pd.DataFrame({"task": task, "worker": worker, "label": label}), pd.Series(truth.astype(str))


def public(name: str) -> tuple[pd.DataFrame, Any]:
    """Return the annotations of a public set and its known true labels that are classes."""
    data, truth = datasets.public(name)
    frame = pd.DataFrame(
        {
            "task": data.items[data.item.numpy()],
            "worker": data.workers[data.worker.numpy()],
            "label": data.labels[data.label.numpy()],
        }
    )
    known = pd.Series(truth)
    return frame, known[known != PUBLIC[name]]


def accuracy(frame: pd.DataFrame, truth: Any, model: str, how: str, other: Any) -> tuple[float, Any]:
    """Return the share of items with their true label, and the mean rates by class where there are any."""
    if how == "left out":
        frame = frame[frame["label"] != other]
    options = {"other_labels": [other]} if how == "other label" else {}
    with silent():
        data = crowdppl.Annotations.from_frame(frame, items=truth.index, **options)
        posterior = crowdppl.fit(data, model, method="em", seed=0)
    labels = posterior.truth().set_index("task")["label"].reindex(truth.index)
    rates = posterior.other_rates().groupby("truth")["rate"].mean() if options else None
    return float((labels.astype(str) == truth.astype(str)).mean()), rates


def main() -> None:
    """Fit each model to each reading of each set."""
    options = arguments(__doc__ or "")
    seeds = range(2 if options.quick else 10)
    ways = ("other label", "left out", "a class")
    rows, rates = [], []
    for kind, (true, skill) in RATES.items():
        crowds = [simulated(seed, true, skill) for seed in seeds]
        for model in MODELS:
            each = {way: [accuracy(*crowd, model, way, CANNOT) for crowd in crowds] for way in ways}
            rows.append([f"simulated, {kind}", model, *(f"{np.mean([a for a, _ in each[way]]):.3f}" for way in ways)])
            mean = pd.concat([mean_rates for _, mean_rates in each["other label"]], axis=1).mean(axis=1)
            rates.append([kind, model, *(f"{t:.2f}" for t in true), *(f"{value:.3f}" for value in mean)])
            print(rows[-1], rates[-1], flush=True)
    for name, other in PUBLIC.items():
        if datasets.folder() is None:
            continue
        frame, truth = public(name)
        frame = frame[frame["task"].isin(truth.index)]
        for model in MODELS:
            rows.append([name, model, *(f"{accuracy(frame, truth, model, way, other)[0]:.3f}" for way in ways)])
            print(rows[-1], flush=True)
    body = f"""
Share of items with their true label, by EM, where a label such as "cannot tell" is read as one that is never a true label
(`other_labels=`), where its rows are left out, and where it is taken for a class. The simulated crowds have 1,000 items of two
classes, 25 workers who are correct with probability .55 to .8, or .6 to .85, where they name a class, and five answers an item;
means over {len(seeds)} crowds. Workers cannot tell at rates of .05 and .5 by class (informative), or .25 (uninformative). Of the
public sets, items count whose true label is a class.

{table(["set", "model", *ways], rows)}

Mean over the workers of the estimated rates:

{table(["rates", "model", "true, class 0", "true, class 1", "estimated, class 0", "estimated, class 1"], rates)}
"""
    write("other_labels", "Labels that are never a true label", body, {"accuracy": rows, "rates": rates}, options)


if __name__ == "__main__":
    main()
