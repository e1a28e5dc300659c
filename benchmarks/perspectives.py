"""Perspectives: held-out annotations of subjective questions by one true class, and by one place with severities of raters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch
from common import arguments, table, write

import crowdppl
from crowdppl import AnnotationModel, Annotations, criticism
from crowdppl.data import datasets
from crowdppl.errors import silent
from crowdppl.model.bound import bind
from crowdppl.models import DawidSkene, GradedFacets, WorkerGroups

SETS = (
    "hs-brexit",
    "toxicity-demographics",
    "popquorn-offensiveness",
    "md-agreement",
    "tweet-sensitivity",
    "multipico-part",
    "conv-abuse",
)
MODELS: dict[str, AnnotationModel] = {"dawid-skene": DawidSkene(), "graded-facets": GradedFacets()}
HELD_OUT, SPLITS = 0.2, 3
# Random halves of the items on which the groups of raters are looked for.
HALVES = 5


def predicted(model: AnnotationModel, train: pd.DataFrame, held: pd.DataFrame, order: list[Any]) -> Any:
    """Return the log-probability of each held-out annotation, of an item and a worker with others."""
    data = Annotations.from_frame(train, order=order, kind="ordinal")
    posterior = crowdppl.fit(data, model, method="em", seed=0, independent=True, num_samples=2, copies="all")
    point = {name: torch.from_numpy(value.to_numpy()) for name, value in posterior.tree["point"].data_vars.items()}
    bound = bind(model, data)
    with torch.no_grad():
        parameters = bound.at_sites(point, data)
        states = bound.item_log_joint(parameters, data).softmax(-1).numpy()  # (N, S)
        rows = model.confusion(parameters, data).numpy()  # (J, S, K)
    items = pd.Index(data.items).get_indexer(held["task"])
    workers = pd.Index(data.workers).get_indexer(held["worker"])
    label = pd.Index(data.labels).get_indexer(held["label"])
    return np.log((states[items] * rows[workers, :, label]).sum(-1))


def group_recovery(frame: pd.DataFrame, known: pd.Series[Any]) -> list[int]:
    """Return how many raters are in the group that they are known to be in, on all items and on random halves of them."""
    out = []
    items = frame["task"].unique()
    for half in range(HALVES + 1):
        kept = items if half == 0 else np.random.default_rng(half).choice(items, len(items) // 2, replace=False)
        data = Annotations.from_frame(frame[frame["task"].isin(kept)])
        posterior = crowdppl.fit(data, WorkerGroups(groups=2), method="gibbs", seed=0, copies="all")
        member = posterior.draws("membership").mean(0).argmax(-1)  # (J,)
        first = (known.reindex(posterior.worker_names()) == known.iloc[0]).to_numpy()
        out.append(int(max((member == first).sum(), (member != first).sum())))
    return out


def main() -> None:
    """Score both models on every set, and the form of a question as a covariate of severity."""
    options = arguments(__doc__ or "")
    folder = datasets.folder()
    if folder is None:
        raise SystemExit(f"no folder of data sets; set CROWDPPL_DATA to the one that holds {SETS[0]}")
    results: dict[str, Any] = {}
    rows = []
    with silent():
        for name in SETS:
            frame = pd.read_csv(folder / name / "annotations.csv.gz").rename(columns={"item": "task"})
            frame = frame[["task", "worker", "label"]].astype({"task": str, "worker": str})
            order = sorted(frame["label"].unique().tolist())
            parts: dict[str, list[Any]] = {model: [] for model in MODELS}
            for split in range(SPLITS):
                out = np.random.default_rng(split).random(len(frame)) < HELD_OUT
                train, held = frame[~out], frame[out]
                held = held[held["task"].isin(train["task"]) & held["worker"].isin(train["worker"])]
                for model, instance in MODELS.items():
                    parts[model].append(predicted(instance, train, held, order))
            scores = {model: np.concatenate(values) for model, values in parts.items()}
            gain = scores["graded-facets"] - scores["dawid-skene"]
            error = float(gain.std() / len(gain) ** 0.5)
            results[name] = {model: float(values.mean()) for model, values in scores.items()}
            results[name] |= {"gain": float(gain.mean()), "error": error, "held": len(gain), "classes": len(order)}
            cells = [f"{results[name][model]:.3f}" for model in MODELS]
            rows.append([name, f"{len(frame):,}", len(order), *cells, f"{gain.mean():+.3f} ± {error:.3f}"])
        frame = pd.read_csv(folder / "tweet-sensitivity" / "annotations.csv.gz").rename(columns={"item": "task"})
        data = Annotations.from_frame(frame[["task", "worker", "label"]], kind="ordinal", order=[0, 1])
        posterior = crowdppl.fit(data, seed=0)
        effects = criticism.severity_effects(posterior, pd.read_csv(folder / "tweet-sensitivity" / "workers.csv"))
        frame = pd.read_csv(folder / "hs-brexit" / "annotations.csv.gz").rename(columns={"item": "task"})
        known = pd.read_csv(folder / "hs-brexit" / "workers.csv").set_index("worker")["group"]
        recovered = group_recovery(frame[["task", "worker", "label"]], known)
    results["groups"] = {"all": recovered[0], "halves": recovered[1:], "raters": len(known)}
    results["conditions"] = effects.table.to_dict("records")
    lines = [
        [row.level, f"{row.raters:,}", f"{row.effect:+.3f}", f"{row.low:+.3f} to {row.high:+.3f}"]
        for row in effects.table.itertuples(index=False)
    ]
    better = sum(results[name]["gain"] > 0 for name in SETS)
    header = ["", "annotations", "grades", *MODELS, "gain"]
    halves = ", ".join(map(str, recovered[1:]))
    text = (
        f"Annotations of hate, offence, irony and abuse, in which raters differ by what they find severe. Mean log-probability "
        f"of {HELD_OUT:.0%} of the annotations held out, {SPLITS} times, given the others, by EM: one true class with "
        f"a confusion matrix for each rater, and one place on a line with severity, slope and thresholds of each rater. The gain "
        f"is that of the second, in nats an annotation, with its standard error over annotations. It is positive on {better} of "
        f"{len(SETS)} sets.\n\n{table(header, rows)}\n\n## What severity depends on\n\nOn tweet-sensitivity each of "
        f"{effects.raters:,} raters saw one of five forms of the question, at random. By how much raters of a form say yes less "
        f"often than the mean of the forms, on the same tweets (`criticism.severity_effects`): {effects}.\n\n"
        f"{table(['form', 'raters', 'effect', '89% interval'], lines)}\n\n## Groups of raters\n\n"
        f"The {len(known)} raters of hs-brexit are of two groups. `WorkerGroups(groups=2)`, which knows the labels alone, "
        f"puts {recovered[0]} of {len(known)} in their group, and on "
        f"{HALVES} random halves of the tweets {halves}. Groups with places "
        f"of their own, in a model of one place for each group, are not part of the library."
    )
    write("perspectives", "Perspectives", text, results, options)


if __name__ == "__main__":
    main()
