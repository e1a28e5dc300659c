"""What to do after a fit: which workers to talk to and about what, which items to send out again, what to clarify, what it costs.

The one place that decides this and words it: the report, the terminal and the library show the same sentences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import acquisition, arguments
from crowdppl.errors import OptionError
from crowdppl.posterior import workers
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.workers.drift import FAST
from crowdppl.posterior.workers.verdicts import ENOUGH

Array = npt.NDArray[Any]

# An item whose label is less probable is sent out again; one whose label is at least so probable is finished.
OPEN, FINISHED = 0.8, 0.95
# Further annotations of each open item whose effect is foretold.
ROUNDS = 3
# Items x classes x simulations that may be spent on it, and how many simulations are needed.
WORK, REPLICATES, LEAST = 2e7, 100, 10
# Shown on the first screen and in the terminal, of each kind.
SHOWN = 5
CLASSES = 2

HEADINGS = {
    "ask why": "Ask why",
    "exclude": "Exclude",
    "slow down": "Check speed",
    "retrain": "Retrain",
}


@dataclass(frozen=True)
class Person:
    """A worker to do something about.

    Attributes:
        index: place among the workers of the result.
        name: as text.
        verdict: of :data:`crowdppl.posterior.workers.VERDICTS`.
        action: what to do, in a word or two.
        sentence: why, with numbers.
    """

    index: int
    name: str
    verdict: str
    action: str
    sentence: str


@dataclass(frozen=True)
class Question:
    """Two classes that the crowd as a whole confuses.

    Attributes:
        first: code of a class.
        second: code of the other.
        sentence: what is confused how often, by how many.
    """

    first: int
    second: int
    sentence: str


@dataclass(frozen=True)
class Round:
    """What sending the open items out once more, or several times, is expected to bring.

    Attributes:
        each: further annotations of each open item.
        annotations: further annotations in all.
        cost: of them, where a price is known.
        corrected: further labels expected to be correct; ``None`` where this was not simulated.
    """

    each: int
    annotations: int
    cost: float | None
    corrected: float | None


@dataclass(frozen=True)
class Actions:
    """What to do, most urgent first.

    Attributes:
        people: workers to do something about: those whose labels cannot be used first, then those to retrain, each with most
            wrong labels first.
        questions: classes to clarify in the guideline.
        open: items to send out again, least certain first (codes).
        probable: number of items whose label is probable, and not certain.
        finished: number of items whose label is known or certain.
        correct: share of labels that are expected to be correct.
        rounds: what further annotations of open items would cost and bring.
        names: how classes are called in sentences.
        comparable: whether anything can be said of any worker.
    """

    people: list[Person]
    questions: list[Question]
    open: Array
    probable: int
    finished: int
    correct: float
    rounds: list[Round]
    names: list[str]
    comparable: bool = True

    @property
    def unusable(self) -> list[Person]:
        """Workers whose labels are not made in earnest."""
        return [person for person in self.people if person.verdict in workers.UNRELIABLE]

    @property
    def retrain(self) -> list[Person]:
        """Workers to talk to about classes, or in general."""
        return [person for person in self.people if person.verdict not in workers.UNRELIABLE]

    @property
    def total(self) -> int:
        """Number of items."""
        return len(self.open) + self.probable + self.finished


@arguments.checked(posterior=arguments.posterior, cost=arguments.anything, table=arguments.frame, seed=arguments.seed)
def actions(
    posterior: Posterior, *, cost: float | None = None, table: pd.DataFrame | None = None, seed: int = 0
) -> Actions:
    """Return what to do about workers, items and the guideline.

    Args:
        posterior: a result.
        cost: price of one annotation, in any currency.
        table: of workers, where it was made already (:meth:`Posterior.workers`, all of them in their order).
        seed: of the simulation of further annotations.

    Raises:
        OptionError: for a price that is negative or not a number.
    """
    price(cost)
    table = posterior.workers() if table is None else table
    names = class_names(posterior.labels)
    probability = posterior.probability().max(1)
    known = posterior.known_truth() >= 0
    unsure = ~known & (probability < OPEN)
    certain = known | (probability >= FINISHED)
    gain = acquisition.gains(posterior)
    order = np.argsort(-gain, kind="stable")
    ordered = order[unsure[order]]
    doubtful = table["verdict"].isin(workers.UNRELIABLE).to_numpy()
    comparable = bool((table["verdict"] != "unknown").any())
    return Actions(
        people=_people(posterior, table, names),
        # Where nothing is known of any worker, their labels are not shown to confuse anything either.
        questions=_questions(posterior, doubtful, names) if comparable else [],
        open=ordered,
        probable=int((~unsure & ~certain).sum()),
        finished=int(certain.sum()),
        correct=float(np.where(known, 1.0, probability).mean()),
        rounds=_rounds(posterior, len(ordered), cost, seed),
        names=names,
        comparable=comparable,
    )


@arguments.checked(cost=arguments.anything)
def price(cost: Any) -> None:
    """Refuse a price that is none.

    Raises:
        OptionError: for one that is negative or not a finite number.
    """
    if cost is None:
        return
    number = isinstance(cost, (int, float, np.integer, np.floating)) and not isinstance(cost, bool)
    if not number or not np.isfinite(cost) or cost < 0:
        raise OptionError(
            f"cost={arguments.shown(cost)}; the price of one annotation is a number of at least 0, such as 0.05"
        )


def class_names(labels: Array) -> list[str]:
    """Return how classes are called in sentences: "class 0" where they are numbers or single characters, else in quotes."""
    texts = [str(label) for label in labels.tolist()]
    if all(_bare(text) for text in texts):
        return [f"class {text}" for text in texts]
    return [f"“{text}”" for text in texts]


def money(amount: float) -> str:
    """Return an amount with two digits, more where it is small."""
    return f"{amount:,.2f}" if amount >= 0.1 or amount == 0 else f"{amount:.3g}"


def _bare(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return len(text) < 2
    return True


def _people(posterior: Posterior, table: pd.DataFrame, names: list[str]) -> list[Person]:
    verdict = table["verdict"].to_numpy()
    notable = np.flatnonzero(np.isin(verdict, workers.NOTABLE))
    if not len(notable):
        return []
    item, worker, label = posterior.annotation_index()
    hits = np.bincount(worker, weights=posterior.probability().argmax(1)[item] == label, minlength=len(table))
    total = table["annotations"].to_numpy()
    typical = _typical(table)
    speed = workers.relative_speed(posterior)
    confusions = _by_worker(workers.systematic_confusions(posterior), posterior)
    given = posterior.label_counts_by_worker()
    out = []
    for j in notable.tolist():
        word = str(verdict[j])
        accuracy = float(table["accuracy"].iloc[j])
        pace = _pace(table, speed, j)
        told: list[str] = []
        n = int(total[j])
        if word == "adversarial":
            told.append(
                f"Matches the final label in {int(hits[j]):,} of {n:,} annotations, fewer than by chance. Labels may be "
                f"swapped, or the task misunderstood."
            )
        elif word == "random":
            told.append(
                f"The labels match the final labels no more often than by chance (accuracy {_percent(accuracy)}, "
                f"{n:,} annotations)."
            )
        elif word == "constant":
            k = int(given[j].argmax())
            told.append(
                f"Gives {names[k]} to {_percent(given[j, k] / n)} of the items ({given[j, k]:,} of {n:,}), whatever they are."
            )
        elif word == "hasty":
            told.append(
                f"{pace[0].upper()}{pace[1:]}, with accuracy {_percent(accuracy)} (typical worker {_percent(typical)})."
            )
            pace = ""
        elif word == "confuses":
            told += _confusions(confusions.get(j, []), names)
        else:
            told.append(
                f"Accuracy {_percent(accuracy)} where the typical worker has {_percent(typical)}, over {n:,} annotations."
            )
        if pace and speed[j] < FAST:
            told.append(f"{pace[0].upper()}{pace[1:]}.")
        action = HEADINGS[workers.ACTIONS[word]]
        if word == "confuses":
            classes = list(dict.fromkeys(row["truth"] for row in confusions.get(j, [])))[:CLASSES]
            action = f"{action} on {' and '.join(names[k] for k in classes)}"
        out.append(Person(j, _name(table["worker"].iloc[j]), word, action, " ".join(told)))
    harm = total * np.maximum(typical - table["accuracy"].to_numpy(), 0.0)
    rank = {word: n for n, word in enumerate(workers.NOTABLE)}
    first = {word: word not in workers.UNRELIABLE for word in rank}
    return sorted(out, key=lambda person: (first[person.verdict], -harm[person.index], rank[person.verdict]))


def _name(worker: Any) -> str:
    """Return how a worker is called in sentences: a number alone would not be taken for a name."""
    text = str(worker)
    return f"worker {text}" if text.replace(".", "").isdigit() else text


def _typical(table: pd.DataFrame) -> float:
    """Return the accuracy of the typical worker: the median of those with enough annotations."""
    total = table["annotations"].to_numpy()
    enough = total >= min(ENOUGH, total.max(initial=1))
    shown = enough & ~table["verdict"].isin(["adversarial", "random", "constant"]).to_numpy()
    return float(table["accuracy"][shown if shown.any() else enough].median())


def _pace(table: pd.DataFrame, speed: Array, j: int) -> str:
    if np.isnan(speed[j]):
        return ""
    own = float(table["seconds"].iloc[j])
    return (
        f"takes {_seconds(own)} an annotation where others take {_seconds(own / speed[j])}"
        if speed[j] > 0
        else ("takes no time at all for an annotation")
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


def _confusions(rows: list[dict[Any, Any]], names: list[str]) -> list[str]:
    told = [
        f"Labels {_percent(row['share'])} of {names[row['truth']]} as {names[row['label']]} ({row['annotations']:,} of "
        f"{row['of']:,}; others {_percent(row['others'])})."
        for row in rows[:CLASSES]
    ]
    if len(rows) > CLASSES:
        told.append(f"{len(rows) - CLASSES} further confusions.")
    return told


def _questions(posterior: Posterior, doubtful: Array, names: list[str]) -> list[Question]:
    table = workers.crowd_confusions(posterior, without=doubtful)
    classes = {name: n for n, name in enumerate(posterior.labels.tolist())}
    pairs: dict[tuple[int, int], list[dict[Any, Any]]] = {}
    for row in table.to_dict("records"):
        k, m = classes[row["truth"]], classes[row["label"]]
        pairs.setdefault((min(k, m), max(k, m)), []).append(row | {"truth": k, "label": m})
    out = []
    for (a, b), rows in pairs.items():
        parts = [
            f"{_percent(row['share'])} of the annotations of {names[row['truth']]} items say {names[row['label']]} "
            f"({row['workers']:,} of {row['asked']:,} workers do so)"
            for row in rows
        ]
        torn = rows[0]["torn"]
        items = f" {torn:,} {'item is' if torn == 1 else 'items are'} torn between the two." if torn else ""
        out.append(Question(a, b, f"{'; '.join(parts)}.{items}"))
    return out


def _rounds(posterior: Posterior, count: int, cost: float | None, seed: int) -> list[Round]:
    """Foretell what one, two and three further annotations of each open item bring."""
    if not count:
        return []
    N, K = posterior.probability().shape
    J = len(posterior.worker_names())
    replicates = int(min(REPLICATES, WORK / (ROUNDS * N * K + J * K * K)))
    gained: list[float | None] = [None] * ROUNDS
    if replicates >= LEAST:
        curve = acquisition.curve(posterior, ROUNDS * count, steps=ROUNDS, replicates=replicates, seed=seed)
        accuracy = curve.table["accuracy"].to_numpy()
        gained = [float(max(0.0, accuracy[n] - accuracy[0]) * N) for n in range(1, ROUNDS + 1)]
    return [
        Round(n, n * count, None if cost is None else n * count * float(cost), gained[n - 1])
        for n in range(1, ROUNDS + 1)
    ]


def _percent(share: float) -> str:
    """Return a share as a whole percentage, never 100% or 0% where it is neither."""
    text = f"{share:.0%}"
    if text == "100%" and share < 1:
        return "over 99%"
    return "under 1%" if text == "0%" and share > 0 else text


# ---------------------------------------------------------------------- as lines of text


@arguments.checked(found=arguments.anything, posterior=arguments.posterior, shown=arguments.whole(1))
def lines(found: Actions, posterior: Posterior, *, shown: int = SHOWN) -> list[str]:
    """Return what to do as lines for a terminal, most urgent first."""
    total, out = found.total, []
    for people, heading in (
        (found.unusable, "Stop and check"),
        (found.retrain, "Talk to"),
    ):
        out += [
            f"{heading} {person.name}: {person.action[:1].lower()}{person.action[1:]}. {person.sentence}"
            for person in people[:shown]
        ]
        if len(people) > shown:
            out.append(f"... and {len(people) - shown:,} more workers like this (column verdict of workers.csv)")
    for question in found.questions[:shown]:
        first, second = found.names[question.first], found.names[question.second]
        out.append(f"Clarify the guideline between {first} and {second}: {question.sentence}")
    if len(found.open):
        items = posterior.items()[found.open[:shown]].tolist()
        more = ", ..." if len(found.open) > shown else ""
        out.append(
            f"Send out again: {_items(len(found.open))} with a label that is less than {OPEN:.0%} probable "
            f"({', '.join(str(item) for item in items)}{more})."
        )
        out += [_round(found.rounds[0])] if found.rounds else []
    if found.finished:
        out.append(f"Finished: {found.finished:,} of {_items(total)}, whose label is at least {FINISHED:.0%} probable.")
    if found.probable:
        out.append(f"Probably correct: {_items(found.probable)} ({OPEN:.0%} to {FINISHED:.0%}).")
    if not found.people:
        out.insert(
            0,
            "There is one worker only: nothing can be said of their quality without known true labels."
            if len(posterior.worker_names()) == 1
            else "No worker stands out: there is nobody to talk to."
            if found.comparable
            else "Nothing can be said of the workers: there is nothing to compare their labels with.",
        )
    return out


def _items(count: int) -> str:
    return f"{count:,} item{'' if count == 1 else 's'}"


def _round(one: Round) -> str:
    cost = "" if one.cost is None else f", cost {money(one.cost)}"
    labels = (
        ""
        if one.corrected is None
        else "fewer than 1 label"
        if one.corrected < 0.5
        else f"about {one.corrected:,.0f} label"
    )
    gain = (
        "" if not labels else f", expected to correct {labels}{'s' if one.corrected and one.corrected >= 1.5 else ''}"
    )
    number = f"{one.annotations:,} further annotation{'' if one.annotations == 1 else 's'}"
    return f"{number}, given to the items that are least certain{cost}{gain}."
