"""Language models as judges: corrected rates of systems, true labels of items, judges and panels, against other methods.

Each repetition chooses the items with human labels at random; all methods see the same ones.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import judges_more
import numpy as np
from common import arguments, table, write
from judges_designs import UNLIKE, people_part, picked_part, unlike_part
from judges_forms import FORMS
from judges_methods import RATES, PanelSet, aligned, chosen, fitted, load, skene

from crowdppl import judges
from crowdppl.judges import JudgesResult, Verdicts
from crowdppl.judges.model import pairwise
from crowdppl.judges.tables.panel_table import Correlations
from crowdppl.judges.tables.system_table import rates

SYSTEMS_SET = "judges-triviaqa-v1"
NOMINAL = (
    "judges-triviaqa-v1",
    "judges-civilcomments",
    "judges-llmbar",
    "judges-framing",
    "judges-cebab-aspects",
    "judges-mtbench-alttest",
    "judges-wax",
)
ORDERED = ("judges-lesion", "judges-10k-prompts", "judges-lgbteen", "judges-summeval")
REPETITIONS, WORKER_LEVEL = 150, 0.89
# Repetitions of the simulated designs; numbers of people with whether their error is stated; items that people picked.
DESIGNS = 100
PEOPLE = ((1, False), (1, True), (2, False), (2, True))
PICKED = {"random": "taken as a random sample", "strata": "with strata and their sizes"}
# Methods that take seconds a fit are repeated less often.
FEWER = {"logistic regression, bootstrap": 40, "Dawid–Skene, known truths": 40}


def systems_part(labels: int, method: str, seed: int) -> dict[str, Any]:
    """Measure one method once: coverage, width and error of the rates of the systems."""
    panel = load(SYSTEMS_SET, 10**9)
    N = np.bincount(panel.verdicts.system)
    truth = np.bincount(panel.verdicts.system, panel.truth) / N
    try:
        rate, low, high = RATES[method](panel, chosen(panel, labels, seed), seed)
    except ImportError:
        return {"reason": "not installed"}
    return {
        "covered": ((low - 1e-9 <= truth) & (truth <= high + 1e-9)).mean(),
        "width": (high - low).mean(),
        "error": np.abs(rate - truth).mean(),
        "first": float(rate.argmax() == truth.argmax()),
    }


# ---------------------------------------------------------------------- items, judges, panels


def items_part(name: str, labels: int, seed: int) -> dict[str, Any]:
    """Measure the true labels of single items, the judges and the panel of one set once."""
    panel = load(name)
    items = chosen(panel, labels, seed)
    began = time.perf_counter()
    result = fitted(panel, items, seed, level=WORKER_LEVEL)
    seconds = time.perf_counter() - began
    v, truth = panel.verdicts, panel.truth
    rest = np.setdiff1d(np.arange(len(truth)), items)
    p = result.probability[rest, truth[rest]]
    correct = v.label == truth[v.item]
    given = v.label >= 0
    J = len(v.judges)
    share = np.bincount(v.judge[given], correct[given], J) / np.bincount(v.judge[given], minlength=J)
    counts = result.counts()
    low, high = result.ends(np.trace(counts, axis1=2, axis2=3) / counts.sum((2, 3)))
    known = given & np.isin(v.item, items)
    out = {
        "log_loss": float(-np.log(np.maximum(p, 1e-12)).mean()),
        "accuracy": float((result.probability[rest].argmax(1) == truth[rest]).mean()),
        "covered": float(((low - 1e-9 <= share) & (share <= high + 1e-9)).mean()),
        "width": float((high - low).mean()),
        "effective": float(Correlations.of(result).number.mean()),
        "seconds": seconds,
    }
    base = np.bincount(truth[items], minlength=len(v.labels)) + 0.5
    out["base_rate"] = float(-np.log((base / base.sum())[truth[rest]]).mean())
    if len(items):
        agree = np.bincount(v.judge[known], correct[known], J) / np.maximum(np.bincount(v.judge[known], minlength=J), 1)
        best = int(agree.argmax())
        own = given & (v.judge == best) & np.isin(v.item, rest)
        out["best_judge"] = float(correct[own].mean())
        out["best_found"] = float(share[result_best(result)] >= share.max() - 1e-9)
        out["best_found_by_labels"] = float(share[best] >= share.max() - 1e-9)
    return out


def result_best(result: JudgesResult) -> int:
    """Return the judge whose estimated share of correct verdicts is largest."""
    counts = result.counts()
    return int((np.trace(counts, axis1=2, axis2=3) / counts.sum((2, 3))).mean(0).argmax())


def skene_part(name: str, labels: int, seed: int) -> dict[str, Any]:
    """Measure Dawid and Skene's model with known truths on the true labels of single items."""
    panel = load(name)
    items = chosen(panel, labels, seed)
    posterior = skene(panel, items, "dawid-skene", "em", seed, num_samples=2)
    rest = np.setdiff1d(np.arange(len(panel.truth)), items)
    p = posterior.probability()
    log_loss = -np.log(np.maximum(p[rest, panel.truth[rest]], 1e-12)).mean()
    return {"log_loss": float(log_loss), "accuracy": float((p[rest].argmax(1) == panel.truth[rest]).mean())}


def effective_part(name: str) -> float:
    """Return the effective number of judges by the true labels of all items."""
    panel = load(name)
    result = fitted(panel, np.arange(len(panel.truth)), 0)
    return float(Correlations.of(result).number.mean())


def simulated_part(labels: int, seed: int) -> dict[str, Any]:
    """Three judges of one family, two of another, one independent and best: is it found, and does its interval cover?"""
    frame, truth = judges.simulate(seed=10_000 + seed)  # another stream than that of the choice of items
    verdicts = Verdicts.from_frame(frame)
    human, verdicts = aligned(truth.set_index("item")["verdict"], verdicts)
    codes = np.full(len(verdicts.items), -1)
    codes[human.item] = human.label
    panel = PanelSet(verdicts, codes)
    items = chosen(panel, labels, seed)
    result = fitted(panel, items, seed, level=WORKER_LEVEL)
    known = np.isin(verdicts.item, items)
    correct = verdicts.label == codes[verdicts.item]
    J = len(verdicts.judges)
    by_labels = np.bincount(verdicts.judge[known], correct[known], J) / np.maximum(
        np.bincount(verdicts.judge[known], minlength=J), 1
    )
    best = verdicts.judges.tolist().index("c-1")
    row = result.judges().set_index("judge").loc["c-1"]
    system, S = verdicts.system, len(verdicts.systems)
    share = np.bincount(system, codes == result.value.argmax(), S) / np.bincount(system, minlength=S)
    low, high = np.quantile(rates(result, "items"), [0.025, 0.975], axis=0)
    return {
        "rates_covered": float(((low - 1e-9 <= share) & (share <= high + 1e-9)).mean()),
        "found": float(result_best(result) == best),
        "found_by_labels": float(by_labels.argmax() == best),
        "covered": float(row["accuracy_low"] <= 0.88 <= row["accuracy_high"]),
    }


def random_part(seed: int) -> dict[str, Any]:
    """Measure a simulated panel of random size, families, correlation and accuracies: nothing was tuned to these."""
    rng = np.random.default_rng(30_000 + seed)
    J = int(rng.integers(4, 11))
    accuracy = rng.uniform(0.65, 0.92, J).round(3)
    family = rng.choice(list("abcd"), J).tolist()
    correlation = float(rng.uniform(0.2, 0.7))
    frame, truth = judges.simulate(
        accuracy=accuracy.tolist(), family=family, correlation=correlation, rates=rng.uniform(0.3, 0.9, 3), seed=seed
    )
    human = truth.sample(100, random_state=seed)
    table_ = judges.fit(frame, human, seed=seed, level=WORKER_LEVEL, num_samples=500).judges().set_index("judge")
    # Names of judges are numbered within families, in the order of the accuracies.
    names = [f"{f}-{family[: n + 1].count(f)}" for n, f in enumerate(family)]
    table_ = table_.loc[names]
    known = frame.merge(human, on="item", suffixes=("", "_human"))
    by_labels = (known["verdict"] == known["verdict_human"]).groupby(known["judge"]).mean().loc[names].to_numpy()
    low, high = table_["accuracy_low"].to_numpy(), table_["accuracy_high"].to_numpy()
    best = accuracy.argmax()
    return {
        "covered": float(((low <= accuracy) & (accuracy <= high)).mean()),
        "best_covered": float(low[best] <= accuracy[best] <= high[best]),
        "width": float((high - low).mean()),
        "error": float(np.abs(table_["accuracy"].to_numpy() - accuracy).mean()),
        "error_by_labels": float(np.abs(by_labels - accuracy).mean()),
        "found": float(table_["accuracy"].to_numpy().argmax() == best),
        "found_by_labels": float(by_labels.argmax() == best),
    }


def independent_part(seed: int) -> dict[str, Any]:
    """Return the effective number of ten independent judges over their number, with 100 and 300 human labels."""
    accuracy = np.random.default_rng(seed).uniform(0.65, 0.9, 10)
    frame, truth = judges.simulate(
        accuracy=accuracy.tolist(), family=[*"abcdefghij"], correlation=0.0, seed=seed, items=400
    )
    ratios = {}
    for labels in (100, 300):
        result = judges.fit(frame, truth.sample(labels, random_state=seed), seed=seed)
        ratios[f"ratio_{labels}"] = result.panel().effective[0] / 10
    return ratios


def positions_part(seed: int) -> dict[str, Any]:
    """Pairs of LLMBar in one order: position effects, and accuracy against majority over both orders."""
    full = load("judges-llmbar")
    v = full.verdicts
    rng = np.random.default_rng(seed)
    order = rng.integers(0, 2, len(v.items))  # the order that all judges see of each item
    frame = v.to_frame()
    single = frame[frame["swapped"].to_numpy() == order[v.item]]
    panel_verdicts = Verdicts.from_frame(single, families=dict(zip(v.judges, v.families[v.family], strict=True)))
    human, panel_verdicts = aligned(dict(zip(v.items, v.labels[full.truth], strict=True)), panel_verdicts)
    codes = np.full(len(panel_verdicts.items), -1)
    codes[human.item] = human.label
    panel = PanelSet(panel_verdicts, codes)
    items = chosen(panel, 100, seed)
    result = fitted(panel, items, seed, level=WORKER_LEVEL)
    rest = np.setdiff1d(np.arange(len(codes)), items)
    # Position effect by the truth: difference of accuracies over all verdicts in both orders.
    first = (v.swapped == 0) == (full.truth[v.item] == 0)
    correct = v.label == full.truth[v.item]
    effect = np.array(
        [correct[(v.judge == j) & first].mean() - correct[(v.judge == j) & ~first].mean() for j in range(len(v.judges))]
    )
    table_ = result.judges().set_index("judge").loc[v.judges]
    inside = (table_["position_bias_low"].to_numpy() <= effect) & (effect <= table_["position_bias_high"].to_numpy())
    both = np.zeros((len(v.items), 2))
    np.add.at(both, (v.item, v.label), 1.0)
    names = {name: n for n, name in enumerate(v.items.tolist())}
    place = np.array([names[name] for name in panel_verdicts.items.tolist()])[rest]
    top = both[place] >= both[place].max(1, keepdims=True)
    return {
        "accuracy": float((result.probability[rest].argmax(1) == codes[rest]).mean()),
        "majority_both": float((top[np.arange(len(rest)), codes[rest]] / top.sum(1)).mean()),
        "covered": float(inside.mean()),
        "correlation": float(np.corrcoef(table_["position_bias"], effect)[0, 1]),
    }


def pairs_part(labels: int, seed: int) -> dict[str, Any]:
    """Measure pairs of answers of five simulated systems: rates of better answers, beside those by all true labels."""
    frame, truth = judges.simulate_pairs(seed=20_000 + seed)
    human = truth.sample(labels, random_state=seed)
    result = judges.fit(frame, human, seed=seed, num_samples=500)
    v = result.verdicts
    outcome = pairwise.outcomes(v.labels)
    pairs = pairwise.distinct(v.system, v.opponent, len(v.systems))
    codes = {name: n for n, name in enumerate(v.labels.tolist())}
    label = truth.set_index("item")["verdict"].map(codes).loc[v.items].to_numpy()

    def by(items: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        counts = pairwise.tally(pairs, items, outcome[label[items]], np.ones(len(items)))
        return pairwise.against_others(*pairwise.strengths(counts[None], pairs))[0]

    true = by(np.arange(len(label)))
    drawn = rates(result, "items")
    low, high = result.ends(drawn)
    table_ = result.systems().set_index("system").loc[v.systems]
    return {
        "covered": float(((low - 1e-9 <= true) & (true <= high + 1e-9)).mean()),
        "width": float((high - low).mean()),
        "error": float(np.abs(drawn.mean(0) - true).mean()),
        "uncorrected": float(np.abs(table_["uncorrected"].to_numpy() - true).mean()),
        "labels_alone": float(np.abs(by(np.flatnonzero(result.labelled)) - true).mean()),
        "position": float(result.judges()["position_bias"].mean()),
    }


def chosen_part(seed: int) -> dict[str, Any]:
    """Label 100 items at random and 100 that ``next`` chooses, and measure the rates of the systems."""
    panel = load(SYSTEMS_SET, 10**9)
    N = np.bincount(panel.verdicts.system)
    truth = np.bincount(panel.verdicts.system, panel.truth) / N
    items = chosen(panel, 100, seed)
    proposed = fitted(panel, items, seed).next(100)["item"]
    place = {name: n for n, name in enumerate(panel.verdicts.items.tolist())}
    items = np.concatenate([items, [place[name] for name in proposed]])
    rate, low, high = RATES["crowdppl.judges"](panel, items, seed)
    return {
        "covered": ((low - 1e-9 <= truth) & (truth <= high + 1e-9)).mean(),
        "width": (high - low).mean(),
        "error": np.abs(rate - truth).mean(),
    }


# ---------------------------------------------------------------------- the page


def repeated(part: Callable[..., dict[str, Any]], *given: Any, times: int) -> dict[str, Any]:
    """Return the mean of every figure over repetitions, and their number; the reason where there are none."""
    with ProcessPoolExecutor(int(os.environ.get("JUDGES_PROCESSES", "2"))) as pool:
        runs = list(pool.map(part, *([value] * times for value in given), range(times)))
    if "reason" in runs[0]:
        return runs[0]
    return {name: float(np.mean([run[name] for run in runs])) for name in runs[0]} | {"times": times}


class Kept:
    """Figures that were measured, kept in a file so that an interrupted run continues; ``None`` keeps nothing."""

    def __init__(self, path: Path | None):
        self.path = path
        self.figures: dict[str, Any] = json.loads(path.read_text()) if path is not None and path.exists() else {}

    def __call__(self, key: str, work: Callable[[], Any]) -> Any:
        """Return the figure of a key, measured unless it is kept."""
        if key not in self.figures:
            self.figures[key] = work()
            print(key, self.figures[key], flush=True)
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.write_text(json.dumps(self.figures, indent=1) + "\n", encoding="utf-8")
        return self.figures[key]


def measure(quick: bool) -> dict[str, Any]:
    """Return all figures."""
    kept = Kept(None if quick else Path("build/judges.json"))
    few = 2 if quick else None
    names = ("judges-mtbench-alttest",) if quick else NOMINAL
    out: dict[str, Any] = {"rates": {}, "items": {}, "ordered": {}, "skene": {}, "effective": {}}
    for labels in (100, 200):
        for method in RATES:
            times = few or FEWER.get(method, REPETITIONS)
            key = f"{labels} / {method}"
            out["rates"][key] = kept(key, lambda: repeated(systems_part, labels, method, times=times))  # noqa: B023
    out["next"] = kept("next", lambda: repeated(chosen_part, times=few or 30))
    for name in names:
        for labels, times in ((0, 1), (30, 50), (100, REPETITIONS)):
            key = f"{name} / {labels}"
            repetitions = min(few or times, times)
            out["items"][key] = kept(key, lambda: repeated(items_part, name, labels, times=repetitions))  # noqa: B023
        out["skene"][name] = kept(f"skene {name}", lambda: repeated(skene_part, name, 100, times=few or 30))  # noqa: B023
        out["effective"][name] = kept(f"effective {name}", lambda: effective_part(name))  # noqa: B023
    for name in () if quick else ORDERED:
        out["ordered"][name] = kept(f"ordered {name}", lambda: repeated(items_part, name, 100, times=20))  # noqa: B023
    for labels in (0, 100):
        key = f"simulated {labels}"
        out[key] = kept(key, lambda: repeated(simulated_part, labels, times=few or REPETITIONS))  # noqa: B023
    out["random"] = kept("random", lambda: repeated(random_part, times=few or REPETITIONS))
    out["independent"] = kept("independent", lambda: repeated(independent_part, times=few or 20))
    for labels in (50, 100):
        key = f"pairs {labels}"
        out[key] = kept(key, lambda: repeated(pairs_part, labels, times=few or REPETITIONS))  # noqa: B023
    for harsher in (0.0, 0.1, 0.2):
        key = f"unlike {harsher}"
        out[key] = kept(key, lambda: repeated(unlike_part, harsher, times=few or DESIGNS))  # noqa: B023
    for people, stated in PEOPLE:
        key = f"people {people} {stated}"
        out[key] = kept(key, lambda: repeated(people_part, people, stated, times=few or DESIGNS))  # noqa: B023
    for design in ("random", "strata"):
        key = f"picked {design}"
        out[key] = kept(key, lambda: repeated(picked_part, design, times=few or DESIGNS))  # noqa: B023
    out["positions"] = kept("positions", lambda: repeated(positions_part, times=few or REPETITIONS))
    return out | judges_more.measure(kept, repeated, few)


def page(out: dict[str, Any]) -> str:
    """Return the page."""
    rate_rows, absent = [], []
    for key, run in out["rates"].items():
        labels, _, method = key.partition(" / ")
        if "reason" in run:
            absent.append(method)
            continue
        rate_rows.append(
            [int(labels), method, *(round(run[k], 4) for k in ("covered", "width", "error", "first")), run["times"]]
        )
    item_rows, judge_rows = [], []
    for key, run in out["items"].items():
        name, _, labels = key.partition(" / ")
        if labels == "100":
            other = out["skene"][name]
            item_rows.append(
                [
                    name.removeprefix("judges-"),
                    *(round(run[k], 3) for k in ("log_loss", "base_rate")),
                    round(other["log_loss"], 3),
                    *(round(run[k], 3) for k in ("accuracy", "best_judge")),
                    round(other["accuracy"], 3),
                ]
            )
        effective = out["effective"][name]
        judge_rows.append(
            [
                name.removeprefix("judges-"),
                int(labels),
                f"{100 * run['covered']:.0f}%",
                round(run["width"], 3),
                round(run["effective"], 2),
                round(effective, 2),
                run["times"],
            ]
        )
    losses = [run["log_loss"] for key, run in out["items"].items() if key.endswith(" / 100")]
    binary = [
        run["log_loss"]
        for key, run in out["items"].items()
        if key.endswith(" / 100") and key.split(" ")[0] in NOMINAL[:4]
    ]
    pooled = []
    for labels in (0, 30, 100):
        runs = [
            (run["covered"], len(load(key.split(" ")[0]).verdicts.judges))
            for key, run in out["items"].items()
            if key.endswith(f" / {labels}")
        ]
        shares, judges_ = np.array(runs).T
        pooled.append(f"{100 * (shares * judges_).sum() / judges_.sum():.0f}% with {labels}")
    ordered = [
        [
            name.removeprefix("judges-"),
            *(round(run[k], 3) for k in ("log_loss", "base_rate", "accuracy", "best_judge", "covered")),
        ]
        for name, run in out["ordered"].items()
    ]
    parts = [
        f"""Public panels of language models with true labels. The items with human labels are chosen at random,
anew in each repetition, and all methods see the same. No set has settings of its own. About twenty-five forms of the model were
tried on these sets ([below](#choices)); its priors were then chosen leave-one-set-out ([priors of judges](judges-priors.md)).

## Rates of nine systems

`{SYSTEMS_SET}`: nine systems, 400 answers each, 11 judges. *Coverage*: share of the 95% intervals that contain the
rate of the true labels. *Error*: mean absolute error of the rate. *First*: how often the best system is ranked first.
{"Not installed: " + ", ".join(sorted(set(absent))) + "." if absent else ""}

{table(["human labels", "method", "coverage", "mean width", "error", "first", "repetitions"], rate_rows)}

On this set intervals of logistic regression are narrower by a fifth and contain the rates nearly as often. It has no effects of
systems, so that a system that the judges favour does not widen them ([below](#what-makes-intervals-wider)). Its intervals are too
narrow in [simulated panels](#twelve-kinds-of-simulated-panels). All repetitions have the same true labels: the part of the
intervals that is due to chance in these, about a seventh of their variance, does not vary.

With 100 labels at random and 100 that `next` proposes: coverage {out["next"]["covered"]:.3f}, mean width
{out["next"]["width"]:.3f}, error {out["next"]["error"]:.4f} ({out["next"]["times"]} repetitions). Such labels are not a
random sample; the model conditions on the verdicts, by which they were chosen.

## True labels of single items, 100 human labels

Half of the items where there are fewer than 200. *Base rate*: the log loss of stating the class frequencies of the human
labels.
*Best judge*: accuracy of the judge who agrees with them most often. Dawid–Skene has them as known truths, as published, by EM.

{table(["panel", "log loss", "base rate", "Dawid–Skene", "accuracy", "best judge", "Dawid–Skene"], item_rows)}

Mean log loss {np.mean(losses):.3f}; of the panels with two classes {np.mean(binary) if binary else float("nan"):.3f}.

## Judges and panels

Share of judges whose 89% interval of the share of correct verdicts contains it, mean width of the interval, and the
effective number of judges, estimated and by all true labels. Pooled over panels and judges: {", ".join(pooled)} human
labels.

{table(["panel", "human labels", "covered", "width", "effective number", "by all true labels", "repetitions"], judge_rows)}""",
    ]
    if ordered:
        parts.append(
            f"""## Ordered grades, 100 human labels

{table(["panel", "log loss", "base rate", "accuracy", "best judge", "covered"], ordered)}"""
        )
    sim, none, ind, pos = out["simulated 100"], out["simulated 0"], out["independent"], out["positions"]
    random = out["random"]
    parts.append(
        f"""## Simulated panels

Three judges of one family with a latent error correlation of .5, two of another, and one independent and best
(`crowdppl.judges.simulate`). With 100 human labels the best judge is found in {100 * sim["found"]:.0f}% of
{sim["times"]} simulations, from the human labels alone in {100 * sim["found_by_labels"]:.0f}%; its 89% interval contains its
accuracy in
{100 * sim["covered"]:.0f}%. Without human labels it is found in {100 * none["found"]:.0f}%, and the interval contains its
accuracy in {100 * none["covered"]:.0f}%. The 95% intervals of
the rates of the three systems contain them in {100 * sim["rates_covered"]:.0f}% with 100 human labels, and in
{100 * none["rates_covered"]:.0f}% without.

Panels to which nothing was tuned: 4 to 10 judges in up to four families, accuracies from .65 to .92, latent correlations from .2
to .7, three systems with rates from .3 to .9, 100 human labels, {random["times"]} simulations. The 89% intervals of accuracy
contain it for {100 * random["covered"]:.0f}% of the judges, and for {100 * random["best_covered"]:.0f}% of the best ones. The
mean absolute error of the accuracy is {random["error"]:.4f}, by the human labels alone {random["error_by_labels"]:.4f}. The best
judge is found in {100 * random["found"]:.0f}%, by the human labels alone in {100 * random["found_by_labels"]:.0f}%.

Ten independent judges on 1,200 items: the effective number is {10 * ind["ratio_100"]:.2f} with 100 human labels and
{10 * ind["ratio_300"]:.2f} with 300, on average over {ind["times"]} simulations. The prior is that of real panels, whose
errors are
correlated.

## Positions of answers in pairs

`judges-llmbar`, each item in one order, drawn at random, the same for all judges; 100 human labels, {pos["times"]}
repetitions. Accuracy on the other items {pos["accuracy"]:.3f}; majority over both orders {pos["majority_both"]:.3f}. The 89%
interval of the
position bias contains the value by all true labels and both orders for {100 * pos["covered"]:.0f}% of the judges; the
correlation of both over judges is {pos["correlation"]:.2f}."""
    )
    half, whole = out["pairs 50"], out["pairs 100"]
    parts.append(
        f"""## Pairs of answers of two systems

Five systems, 300 pairs, four judges, three classes (`crowdppl.judges.simulate_pairs`). The rate of a system is the probability
that its answer is better than that of another system, ties counted half, by Davidson's model fitted to all true labels. Mean
absolute errors, coverage of 95% intervals, {whole["times"]} repetitions.

{
            table(
                ["human labels", "coverage", "mean width", "error", "majority of judges", "human labels alone"],
                [
                    [n, *(round(run[k], 4) for k in ("covered", "width", "error", "uncorrected", "labels_alone"))]
                    for n, run in ((50, half), (100, whole))
                ],
            )
        }

The mean of the judges' position biases is {
            whole["position"]:.3f}; the judges follow the position in a tenth of the verdicts."""
    )
    parts.append(_designs(out))
    parts.append(judges_more.sections(out))
    parts += [FORMS, CHOICES]
    return "\n\n".join(parts)


def _designs(out: dict[str, Any]) -> str:
    """Return the sections on a system unlike the others, and on human labels of other kinds."""
    names = ("covered", "uncorrected", "corrected", "others", "width")
    unlike = [[f"{x:.0%}", *(round(out[f"unlike {x}"][k], 3) for k in names)] for x in (0.0, 0.1, 0.2)]
    labels = {
        (1, False): "one person",
        (1, True): "one person, error stated",
        (2, False): "two people",
        (2, True): "two people, error stated",
    }
    rows = [[labels[one], *_of_rates(out["people {} {}".format(*one)])] for one in PEOPLE]
    rows += [[f"picked by complaints, {how}", *_of_rates(out[f"picked {key}"])] for key, how in PICKED.items()]
    said, times = out["picked random"]["said"], out["picked random"]["times"]
    return f"""## A system unlike the others

Six simulated systems with 150 answers each and five judges; people labelled {UNLIKE["labels"]} answers, a random sample.
One system passes always. *Less accurate*: by how much all judges are on its answers.
*Contains 1*: share of the 95% intervals of its rate that
do. *Others*: coverage of the rates of the other five systems. {out["unlike 0.0"]["times"]} repetitions.

{table(["less accurate", "contains 1", "uncorrected", "corrected", "others", "mean width, others"], unlike)}

A prior probability of .02 that all items of a system have the class of all its human labels does this. With the
former prior of the systems, a scale of .25 around their mean and no such probability, 42% and 57%, 2% and 13%, 3% and 28% of
the intervals contained 1 (60 panels each; 10 and 20 labels of the system). The probability alone made intervals of the nine
systems above wider by 6% with 100 labels, and by 1% with 200; with a scale of .15 they are as narrow as before, with the same
coverage and log loss. Where the accuracy of all judges varies between systems by .08, 94% to 95% of the intervals contain the
rate under both. Student's t with 1 to 4 degrees of freedom for the effects of systems was tried in its place: with a width
larger by a quarter, 65% to 98% contained 1. A system of rate .85 on whose answers judges are less accurate by .2 is within its
interval in 43% to 60% under every one of these priors: with 10 to 20 labels it is taken to be like the others. Twenty variants
were tried, on these simulated panels and on `triviaqa-v1`.

## Human labels with errors, and of picked items

The simulated panel above, three systems, 100 human labels. People err on a tenth of the items. *Picked*: users complain
about 60% of the answers that fail and 5% of those that pass; people labelled 70 answers with complaints and 30 without.
Coverage of 95% intervals of the rates, mean width and bias, {times} repetitions.

{table(["human labels", "coverage", "mean width", "bias"], rows)}

In {said:.0%} of the repetitions without strata, a statement says that the labelled items are unlike the others."""


def _of_rates(run: dict[str, Any]) -> list[float]:
    return [round(run[name], 3) for name in ("covered", "width", "bias")]


CHOICES = """## Choices

Priors: of 67 variants that change one or two of them, a prior mean of the consensus of .6 times the former lowered the log
loss by .0035 in the mean over eleven panels, and on ten of them; it was the choice of all eleven leave-one-set-out. Then the mean
over families was added, one of fifteen forms that were tried on the eleven panels and on the simulated panel above. It lowers
the log loss on eight of the panels, by .002 in the mean. In the simulated panel the best judge was found in 88% before, and
its interval contained its accuracy in 73%. Of 64 variants of the present priors none is better on panels that are left out
([priors of judges](judges-priors.md)).

The form of the model was chosen on these panels with 100 human labels, 3 to 20 repetitions each. Log loss and accuracy moved
by less than a hundredth between: no consensus feature; no families; a Student t prior with 1 or 4 degrees of freedom for the
judges; medians of the judges' scale of .2, .3, .4 and .8; three priors of the weight of a unanimous panel. Scores as ranks
in place of labels lower the log loss of `civilcomments` from .53 to .49. A table of confusion with 17 classes (`wax`) costs
forty times the time and changes nothing. The share of passing verdicts on a system as a feature raises the coverage of rates
in simulated panels with rates .85, .6 and .3 from .84 to .92 (25 simulations, three systems each), and widens the intervals
of the nine systems by .01."""


def main() -> None:
    """Measure everything and write the page."""
    options = arguments(__doc__ or "")
    out = measure(options.quick)
    write("judges", "Language models as judges", page(out), out, options)


if __name__ == "__main__":
    main()
