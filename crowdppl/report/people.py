"""Workers who need attention: what to do about each, and why, in sentences with numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.posterior import workers
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.sets import has_sets
from crowdppl.posterior.workers.drift import FAST
from crowdppl.posterior.workers.verdicts import MIN_ANNOTATIONS
from crowdppl.report.rendering import whole_percent

Array = npt.NDArray[Any]

# Confusions of a worker that are spelled out.
CLASSES = 2

HEADINGS = {
    "ask why": "Ask why",
    "exclude": "Exclude",
    "slow down": "Check speed",
    "retrain": "Retrain",
    "compare grades": "Compare grades with others",
}
# Of sets, for labels that are not in a set and for those that are: what to talk about, and what the worker does.
OF_SETS = (
    ("labels that are chosen wrongly", "Chooses {share} of the labels that a set does not have"),
    ("labels that are left out", "Leaves out {share} of the labels of a set"),
)
# What to do about workers whose labels can be used and whose accuracy fell over time.
FELL = "Ask what changed"


@dataclass(frozen=True)
class Person:
    """A worker who needs attention.

    Attributes:
        index: code of the worker in the result.
        name: as text.
        verdict: one of :data:`crowdppl.posterior.workers.VERDICTS`.
        action: what to do, in a word or two.
        sentence: the reason, with numbers.
    """

    index: int
    name: str
    verdict: str
    action: str
    sentence: str


def notable_people(posterior: Posterior, table: pd.DataFrame, names: list[str]) -> list[Person]:
    """Return the workers who need attention, with the reasons, most urgent first.

    Args:
        posterior: a result.
        table: of its workers.
        names: of the classes, as sentences use them.
    """
    verdict = table["verdict"].to_numpy()
    worse = workers.became_worse(posterior)
    fell = dict(zip(worse["worker"].tolist(), worse["sentence"].tolist(), strict=True))
    notable = np.flatnonzero(np.isin(verdict, workers.NOTABLE) | table["worker"].isin(list(fell)).to_numpy())
    if not len(notable):
        return []
    item, worker, label = posterior.annotation_index()
    hits = np.bincount(worker, weights=posterior.probability().argmax(1)[item] == label, minlength=len(table))
    speed = workers.relative_speed(posterior)
    graded, of_sets = "severity" in table, has_sets(posterior)
    confusions = {} if graded else _by_worker(workers.systematic_confusions(posterior), posterior)
    facts = _Facts(table, names, _typical(table), hits, posterior.label_counts_by_worker(), speed, confusions, of_sets)
    out = []
    for j in notable.tolist():
        word, name = str(verdict[j]), table["worker"].iloc[j]
        reasons = _reasons(j, word, facts) if word in workers.NOTABLE else []
        if name in fell and word not in workers.UNRELIABLE:
            action, reasons = FELL, [fell[name], *reasons]
        elif word == "confuses":
            classes = list(dict.fromkeys(row["truth"] for row in confusions.get(j, [])))[:CLASSES]
            about = [OF_SETS[k][0] if of_sets else names[k] for k in classes]
            action = f"{HEADINGS[workers.ACTIONS[word]]} on {' and '.join(about)}"
        else:
            action, reasons = HEADINGS[workers.ACTIONS[word]], [*reasons, *([fell[name]] if name in fell else [])]
        out.append(Person(j, _name(name), word, action, " ".join(reasons)))
    total = table["annotations"].to_numpy()
    harm = total * np.maximum(facts.typical - table["accuracy"].to_numpy(), 0.0)
    rank = {word: n for n, word in enumerate(dict.fromkeys((*workers.NOTABLE, *workers.VERDICTS)))}
    usable = {word: word not in workers.UNRELIABLE for word in rank}
    return sorted(out, key=lambda person: (usable[person.verdict], -harm[person.index], rank[person.verdict]))


@dataclass(frozen=True)
class _Facts:
    """What the sentences about workers are made from.

    Attributes:
        table: of workers.
        names: of the classes.
        typical: accuracy of the typical worker.
        hits: annotations of each worker that match the final label, ``(J,)``.
        given: how often each worker gave each label, ``(J, K)``.
        speed: seconds of each worker relative to the others, ``(J,)``.
        confusions: systematic errors by worker.
        of_sets: whether classes are those of a label of a set: not in it, or in it.
    """

    table: pd.DataFrame
    names: list[str]
    typical: float
    hits: Array
    given: Array
    speed: Array
    confusions: dict[int, list[dict[Any, Any]]]
    of_sets: bool


def _reasons(j: int, verdict: str, facts: _Facts) -> list[str]:
    """Return the sentences that explain the verdict on worker ``j``."""
    accuracy, n = float(facts.table["accuracy"].iloc[j]), int(facts.table["annotations"].iloc[j])
    typical, names = whole_percent(facts.typical), facts.names
    pace = _pace(facts.table, facts.speed, j)
    fast = f"{pace[:1].upper()}{pace[1:]}"
    if "severity" in facts.table:
        return _grading_reasons(facts.table.iloc[j].to_dict(), verdict, _typical(facts.table, "grade_correlation"))
    if verdict == "hasty":
        return [f"{fast}, with accuracy {whole_percent(accuracy)} (typical worker {typical})."]
    if verdict == "adversarial":
        reasons = [
            f"Matches the final label in {int(facts.hits[j]):,} of {n:,} annotations, fewer than by chance. Labels may be "
            f"swapped, or the task misunderstood."
        ]
    elif verdict == "random":
        reasons = [
            f"The labels match the final labels no more often than by chance (accuracy {whole_percent(accuracy)}, "
            f"{n:,} annotations)."
        ]
    elif verdict == "constant":
        k = int(facts.given[j].argmax())
        count = facts.given[j, k]
        reasons = [
            f"Labels {whole_percent(count / n)} of the items as {names[k]} ({count:,} of {n:,}), whatever their true label."
        ]
    elif verdict == "confuses":
        reasons = _confusions(facts.confusions.get(j, []), names, facts.of_sets)
    else:
        reasons = [f"Accuracy {whole_percent(accuracy)} over {n:,} annotations; the typical worker has {typical}."]
    return [*reasons, f"{fast}."] if pace and facts.speed[j] < FAST else reasons


def _name(worker: Any) -> str:
    """Return the name of a worker for sentences: a number alone would not be read as a name."""
    text = str(worker)
    return f"worker {text}" if text.replace(".", "").isdigit() else text


def _typical(table: pd.DataFrame, measure: str = "accuracy") -> float:
    """Return the accuracy, or another measure, of the typical worker: the median of those with enough annotations."""
    total = table["annotations"].to_numpy()
    enough = total >= min(MIN_ANNOTATIONS, total.max(initial=1))
    shown = enough & ~table["verdict"].isin(["adversarial", "random", "constant"]).to_numpy()
    return float(table[measure][shown if shown.any() else enough].median())


def _grading_reasons(row: dict[Any, Any], verdict: str, typical: float) -> list[str]:
    """Return the sentences that explain the verdict on a rater of grades."""
    n, correlation = f"{row['annotations']:,} annotations", f"{row['grade_correlation']:.2f}"
    if verdict in ("severe", "lenient"):
        low, high = sorted(abs(row[f"severity_{end}"]) for end in ("low", "high"))
        way = "lower" if verdict == "severe" else "higher"
        return [
            f"Grades {abs(row['severity']):.2f} {way} than the mean rater ({low:.2f} to {high:.2f}, {n}); the true grades of "
            f"items allow for it."
        ]
    if verdict == "adversarial":
        return [
            f"The grades run against those of the others (correlation {correlation}, {n}); the scale may be reversed."
        ]
    if verdict in ("random", "constant"):
        return [f"The grades hardly depend on the item (correlation with the true grades {correlation}, {n})."]
    return [f"Correlation with the true grades {correlation} over {n}; the typical rater has {typical:.2f}."]


def _pace(table: pd.DataFrame, speed: Array, j: int) -> str:
    if np.isnan(speed[j]):
        return ""
    own = float(table["seconds"].iloc[j])
    return (
        f"takes {_seconds(own)} per annotation, others take {_seconds(own / speed[j])}"
        if speed[j] > 0
        else "takes no time at all for an annotation"
    )


def _seconds(value: float) -> str:
    return f"{value:,.0f} s" if value >= 10 else f"{value:.1f} s"


def _by_worker(table: pd.DataFrame, posterior: Posterior) -> dict[int, list[dict[Any, Any]]]:
    places = {name: n for n, name in enumerate(posterior.worker_names().tolist())}
    classes = {name: n for n, name in enumerate(posterior.labels.tolist())}
    out: dict[int, list[dict[Any, Any]]] = {}
    rows: list[dict[Any, Any]] = table.to_dict("records")
    for row in rows:
        codes = {"truth": classes[row["truth"]], "label": classes[row["label"]]}
        out.setdefault(places[row["worker"]], []).append(row | codes)
    return out


def _confusions(rows: list[dict[Any, Any]], names: list[str], of_sets: bool) -> list[str]:
    sentences = []
    for row in rows[:CLASSES]:
        share = whole_percent(row["share"])
        what = (
            OF_SETS[row["truth"]][1].format(share=share)
            if of_sets
            else f"Labels {share} of {names[row['truth']]} as {names[row['label']]}"
        )
        sentences.append(f"{what} ({row['annotations']:,} of {row['of']:,}; others {whole_percent(row['others'])}).")
    if len(rows) > CLASSES:
        sentences.append(f"{len(rows) - CLASSES} further confusions.")
    return sentences
