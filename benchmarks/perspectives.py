"""Perspectives: held-out annotations of subjective questions by one truth, one place, and a place for each group of raters."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from common import arguments, table, write
from scipy.special import expit

import crowdppl
from crowdppl import Annotations, criticism
from crowdppl.data import datasets
from crowdppl.errors import silent
from crowdppl.models import WorkerGroups

# Groups of raters that are known, by the column that has them, or the number of groups that are looked for.
SETS: dict[str, str | int] = {
    "hs-brexit": "group",
    "toxicity-demographics": "gender",
    "popquorn-offensiveness": "gender",
    "md-agreement": 2,
    "tweet-sensitivity": "condition",
    "multipico-part": "gender",
    "conv-abuse": 2,
}
SPLITS = 3
# Raters of a group, at least.
FEW = 3
# Random halves of the items on which the groups of raters are looked for.
HALVES = 5
# Simulated crowds: places of two groups correlate by these, and crowds of each.
CORRELATIONS, CROWDS = (0.3, 0.7, 1.0), 40


def simulated(correlation: float, seed: int) -> tuple[Annotations, dict[str, str], npt.NDArray[Any]]:
    """Return grades of 300 items by two groups of six raters, six an item, and the mean grade of each item by each group."""
    rng = np.random.default_rng(seed)
    places = correlation**0.5 * rng.normal(size=(300, 1)) + (1 - correlation) ** 0.5 * rng.normal(size=(300, 2))
    member = np.arange(12) % 2
    # One group is more severe, whatever the correlation.
    thresholds = np.linspace(-2.5, 2.5, 3) + rng.normal(member / 2, 0.7)[:, None]  # (J, K - 1)
    item, worker = np.repeat(np.arange(300), 6), np.argsort(rng.random((300, 12)), axis=1)[:, :6].reshape(-1)
    above = expit(2.5 * places[item, member[worker], None] - thresholds[worker])
    label = (above > rng.random((len(item), 1))).sum(1)
    mean = [expit(2.5 * places[:, g, None, None] - thresholds[member == g]).sum(-1).mean(1) for g in (0, 1)]
    frame = pd.DataFrame({"task": item, "worker": worker, "label": label})
    groups = {worker: "ab"[g] for worker, g in enumerate(member.tolist())}
    return Annotations.from_frame(frame, kind="ordinal", labels=[0, 1, 2, 3]), groups, np.stack(mean, 1)


def in_simulation(correlation: float) -> dict[str, float]:
    """Return how often groups are said to differ, the estimated correlation, and the coverage of intervals of grades."""
    differ, estimates, held = [], [], []
    for seed in range(CROWDS):
        data, groups, truth = simulated(correlation, seed)
        result = criticism.perspectives(data, groups, seed=seed)
        differ.append(result.differ)
        estimates.append(result.correlation)
        for name, mean in zip("ab", truth.T, strict=True):
            rows = result.grades[result.grades["group"] == name]
            inside = mean[rows["task"].to_numpy()]
            held.append(((rows["low"] <= inside) & (inside <= rows["high"])).mean())
    return {
        "correlation": correlation,
        "differ": float(np.mean(differ)),
        "estimate": float(np.mean(estimates)),
        "spread": float(np.std(estimates)),
        "held": float(np.mean(held)),
    }


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
    """Score all accounts on every set and in simulation, and the form of a question as a covariate of severity."""
    options = arguments(__doc__ or "")
    folder = datasets.folder()
    if folder is None:
        raise SystemExit(f"no folder of data sets; set CROWDPPL_DATA to the one that holds {next(iter(SETS))}")
    results: dict[str, Any] = {"sets": []}
    rows = []
    with silent():
        for name, groups in SETS.items():
            frame = pd.read_csv(folder / name / "annotations.csv.gz").rename(columns={"item": "task"})
            frame = frame[["task", "worker", "label"]]
            group: Any = groups
            if isinstance(groups, str):
                group = pd.read_csv(folder / name / "workers.csv").set_index("worker")[groups].dropna()
                often = group.value_counts()
                group = group[group.isin(often[often >= FEW].index)]
                frame = frame[frame["worker"].isin(group.index)]
            data = Annotations.from_frame(frame, kind="ordinal", order=sorted(frame["label"].unique().tolist()))
            result = criticism.perspectives(data, group, splits=SPLITS)
            score, gain, se = (result.scores[column].tolist() for column in ("log_score", "gain", "se"))
            what = f"{groups} ({len(result.groups)})" if isinstance(groups, str) else f"looked for ({groups})"
            record = {
                "set": name,
                "annotations": data.A,
                "classes": data.K,
                "groups": what,
                "score": score,
                "gain": gain[1:],
            }
            results["sets"].append(record | {"se": se[1:], "correlation": result.correlation})
            gains = [f"{gain[n]:+.3f} ± {se[n]:.3f}" for n in (1, 2)]
            cells = [
                name,
                f"{data.A:,}",
                data.K,
                f"{score[0]:.3f}",
                gains[0],
                what,
                gains[1],
                f"{result.correlation:.2f}",
            ]
            rows.append(cells)
        frame = pd.read_csv(folder / "tweet-sensitivity" / "annotations.csv.gz").rename(columns={"item": "task"})
        data = Annotations.from_frame(frame[["task", "worker", "label"]], kind="ordinal", order=[0, 1])
        posterior = crowdppl.fit(data, seed=0)
        effects = criticism.severity_effects(posterior, pd.read_csv(folder / "tweet-sensitivity" / "workers.csv"))
        frame = pd.read_csv(folder / "hs-brexit" / "annotations.csv.gz").rename(columns={"item": "task"})
        known = pd.read_csv(folder / "hs-brexit" / "workers.csv").set_index("worker")["group"]
        recovered = group_recovery(frame[["task", "worker", "label"]], known)
        simulations = [in_simulation(correlation) for correlation in CORRELATIONS]
    results["groups"] = {"all": recovered[0], "halves": recovered[1:], "raters": len(known)}
    results["conditions"] = effects.table.to_dict("records")
    results["simulated"] = simulations
    lines = [
        [row.level, f"{row.raters:,}", f"{row.effect:+.3f}", f"{row.low:+.3f} to {row.high:+.3f}"]
        for row in effects.table.itertuples(index=False)
    ]
    better = sum(one["gain"][0] > 0 for one in results["sets"])
    header = ["", "annotations", "grades", "one truth", "one place", "groups", "places of groups", "correlation"]
    halves = ", ".join(map(str, recovered[1:]))
    tested = [
        [
            f"{one['correlation']:g}",
            f"{one['estimate']:.2f} ± {one['spread']:.2f}",
            f"{one['differ']:.0%}",
            f"{one['held']:.0%}",
        ]
        for one in simulations
    ]
    text = (
        f"Annotations of hate, offence, irony and abuse, in which raters differ by what they find severe. Mean log-probability "
        f"of 20% of the annotations held out, {SPLITS} times, given the others (`criticism.perspectives`): *one truth*, a true "
        f"class and a confusion matrix for each rater; *one place* on a line, with severity, slope and thresholds of each rater; "
        f"*places of groups*, where each group of raters has its own place of each item. Gains are over the column before, in "
        f"nats an annotation, with standard errors over items. One place is better than one truth on {better} of {len(SETS)} "
        f"sets. Groups are those of a column that is known, or two that are looked for in the labels.\n\n{table(header, rows)}"
        f"\n\n## Groups in simulation\n\n{CROWDS} crowds of 300 items and two groups of six raters, one more severe than the "
        f"other, six annotations an item, whose places correlate as the first column says: the estimated correlation with its "
        f"standard deviation over crowds, how often groups are said to see items differently (a gain of more than two standard "
        f"errors), and how often 89% intervals of the mean grade that a group gives an item hold it.\n\n"
        f"{table(['correlation', 'estimated', 'said to differ', 'intervals hold'], tested)}\n\n"
        f"## What severity depends on\n\nOn tweet-sensitivity each of "
        f"{effects.raters:,} raters saw one of five forms of the question, at random. By how much raters of a form say yes less "
        f"often than the mean of the forms, on the same tweets (`criticism.severity_effects`): {effects}.\n\n"
        f"{table(['form', 'raters', 'effect', '89% interval'], lines)}\n\n## Groups that are looked for\n\n"
        f"The {len(known)} raters of hs-brexit are of two groups. `WorkerGroups(groups=2)`, which knows the labels alone, "
        f"puts {recovered[0]} of {len(known)} in their group, and on "
        f"{HALVES} random halves of the tweets {halves}."
    )
    write("perspectives", "Perspectives", text, results, options)


if __name__ == "__main__":
    main()
