"""What to do after a fit: which workers to talk to and why, which items to send out again, what to clarify, what it costs.

The report, the terminal and the library show the sentences that are written here.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import acquisition, arguments
from crowdppl.data import html
from crowdppl.errors import OptionError
from crowdppl.posterior import workers
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.sets import decisions, has_sets, size
from crowdppl.posterior.workers.drift import FAST
from crowdppl.posterior.workers.verdicts import MIN_ANNOTATIONS
from crowdppl.report.rendering import counted

Array = npt.NDArray[Any]

# Items with a less probable label than OPEN are sent out again, those with at least FINISHED are finished.
OPEN, FINISHED = 0.8, 0.95
# Rounds of further annotations of all open items whose effect is predicted.
ROUNDS = 3
# Simulating them: limit of items x classes x simulations, largest and smallest number of simulations.
WORK, REPLICATES, LEAST = 2e7, 100, 10
# Entries of each kind on the first screen and in the terminal.
SHOWN = 5
# Confusions of a worker that are spelled out.
CLASSES = 2

# Classes of pairs of a task and a label, and what such a pair is called.
OF_SETS, PAIR = ("labels that are not in the set", "labels that are"), "task-label pair"
# Labels that are chosen less often where they are in the set, or more often where they are not, are to be clarified.
MISSED, TOO_OFTEN = 0.6, 0.2

HEADINGS = {
    "ask why": "Ask why",
    "exclude": "Exclude",
    "slow down": "Check speed",
    "retrain": "Retrain",
    "compare grades": "Compare grades with others",
}
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


@dataclass(frozen=True)
class Question:
    """Two classes that the crowd as a whole confuses, or a label of sets that it misses or chooses too often.

    Attributes:
        about: what to clarify, such as "between class 1 and class 2".
        asked: the same as a question.
        sentence: how often they are confused, and by how many workers.
    """

    about: str
    asked: str
    sentence: str


@dataclass(frozen=True)
class Round:
    """The expected effect of sending the open items out again, once or several times.

    Attributes:
        each: further annotations of each open item.
        annotations: total number of further annotations.
        cost: of them, if a price is given.
        corrected: number of labels expected to be corrected; ``None`` if this was not simulated.
    """

    each: int
    annotations: int
    cost: float | None
    corrected: float | None


@dataclass(frozen=True, repr=False)
class Actions:
    """What to do, most urgent first.

    Attributes:
        people: workers who need attention: those whose labels cannot be used first, then those to retrain or whose accuracy
            fell over time, each sorted by the number of wrong labels.
        questions: classes to clarify in the guideline.
        open: items to send out again, least certain first (codes).
        probable: number of items whose label is probable but not certain.
        finished: number of items whose label is known or certain.
        correct: expected share of correct labels.
        rounds: cost and expected effect of further annotations of open items.
        names: of the classes, as sentences use them.
        unit: what an item is, in a word or two.
        comparable: whether there is anything to compare the workers' labels with.
        unclear: whether the labels are to be cleaned first, see :attr:`crowdppl.Posterior.labels_unclear`.
        graded: whether labels are grades. Items are then open, probable and finished by the probability that the true grade is
            the most probable one or next to it, and ``correct`` is its mean.
    """

    people: list[Person]
    questions: list[Question]
    open: Array
    probable: int
    finished: int
    correct: float
    rounds: list[Round]
    names: list[str]
    unit: str = "item"
    comparable: bool = True
    unclear: bool = False
    graded: bool = False

    @property
    def unusable(self) -> list[Person]:
        """Workers whose labels cannot be used."""
        return [person for person in self.people if person.verdict in workers.UNRELIABLE]

    @property
    def retrain(self) -> list[Person]:
        """Workers to talk to, about classes, what changed, or in general."""
        return [person for person in self.people if person.verdict not in workers.UNRELIABLE]

    @property
    def total(self) -> int:
        """Number of items."""
        return len(self.open) + self.probable + self.finished

    def __str__(self) -> str:
        return "\n".join(self._sentences())

    def __repr__(self) -> str:
        return f"Actions({len(self.people):,} workers, {len(self.questions):,} questions, {len(self.open):,} items)\n{self}"

    def _repr_html_(self) -> str:
        return html.view("What to do", *self._sentences())

    def _sentences(self) -> list[str]:
        people = [f"{person.name}: {person.action}. {person.sentence}" for person in self.people]
        questions = [f"Clarify the guideline {one.about}: {one.sentence}" for one in self.questions]
        states = f"{len(self.open):,} open, {self.probable:,} probable, {self.finished:,} finished"
        items = f"Of {counted(self.total, self.unit)}: {states}."
        return [*people, *questions, items]


@arguments.checked(
    posterior=arguments.posterior, cost=arguments.anything, worker_table=arguments.worker_table, seed=arguments.seed
)
def actions(
    posterior: Posterior, *, cost: float | None = None, worker_table: pd.DataFrame | None = None, seed: int = 0
) -> Actions:
    """Return what to do about workers, items and the guideline.

    Args:
        posterior: a result.
        cost: price of one annotation, in any currency.
        worker_table: ``posterior.workers()``, if already computed.
        seed: of the simulation of further annotations.

    Raises:
        OptionError: for a price that is negative or not a number.
    """
    price(cost)
    table = posterior.workers() if worker_table is None else worker_table
    of_sets = has_sets(posterior)
    names = list(OF_SETS) if of_sets else class_names(posterior.labels)
    graded = "severity" in table
    probability = _near(posterior.probability()) if graded else posterior.probability().max(1)
    known = posterior.known_truth() >= 0
    unsure = ~known & (probability < OPEN)
    certain = known | (probability >= FINISHED)
    gain = acquisition.gains(posterior)
    order = np.argsort(-gain, kind="stable")
    ordered = order[unsure[order]]
    doubtful = table["verdict"].isin(workers.UNRELIABLE).to_numpy()
    # Of labels with typing errors in them neither workers nor the guideline can be judged.
    comparable = bool((table["verdict"] != "unknown").any()) and not posterior.labels_unclear
    return Actions(
        people=[] if posterior.labels_unclear else _people(posterior, table, names),
        # With no worker to compare with another, the confusions of the crowd mean nothing.
        # That of grades one beside the true one is given, is no confusion.
        questions=[]
        if graded or not comparable
        else _questions_on_labels(posterior)
        if of_sets
        else _questions(posterior, doubtful, names),
        open=ordered,
        probable=int((~unsure & ~certain).sum()),
        finished=int(certain.sum()),
        correct=float(np.where(known, 1.0, probability).mean()),
        rounds=_rounds(posterior, len(ordered), _answers(posterior, ordered), cost, seed),
        names=names,
        unit=PAIR if of_sets else "item",
        comparable=comparable,
        unclear=posterior.labels_unclear,
        graded=graded,
    )


def _near(probability: Array) -> Array:
    """Return the probability that the true grade is the most probable one or next to it, ``(N,)``, of ``(N, K)``."""
    padded = np.pad(probability, ((0, 0), (1, 1)))
    near = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
    return np.asarray(near[np.arange(len(near)), probability.argmax(1)])


@arguments.checked(cost=arguments.anything)
def price(cost: Any) -> None:
    """Refuse an invalid price.

    Raises:
        OptionError: for a price that is negative or not a finite number.
    """
    if cost is None:
        return
    number = isinstance(cost, (int, float, np.integer, np.floating)) and not isinstance(cost, bool)
    if not number or not np.isfinite(cost) or cost < 0:
        raise OptionError(
            f"cost={arguments.shown(cost)}; the price of one annotation is a number of at least 0, such as 0.05"
        )


def class_names(labels: Array) -> list[str]:
    """Return names of classes for sentences: "class 0" for numbers and single characters, other names in quotes."""
    texts = [str(label) for label in labels.tolist()]
    if all(_bare(text) for text in texts):
        return [f"class {text}" for text in texts]
    return [f"“{text}”" for text in texts]


@arguments.checked(words=arguments.several(arguments.text, 0))
def shell_line(words: Sequence[str]) -> str:
    """Return a command as one line that can be pasted into a shell."""
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


@arguments.checked(count=arguments.whole(0), folder=arguments.input_path)
def next_command(count: int, folder: Path | None = None) -> str:
    """Return the command that writes the ``count`` open items of a result to a file."""
    place = [] if folder is None else [f"./{folder}" if str(folder).startswith("-") else str(folder)]
    return shell_line(["crowdppl", "next", *place, "-n", str(count), "--sure", str(OPEN)])


def money(amount: float) -> str:
    """Return an amount with two decimals, more for small ones."""
    return f"{amount:,.2f}" if amount >= 0.1 or amount == 0 else f"{amount:.3g}"


def _bare(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return len(text) < 2
    return True


def _people(posterior: Posterior, table: pd.DataFrame, names: list[str]) -> list[Person]:
    verdict = table["verdict"].to_numpy()
    worse = workers.became_worse(posterior)
    fell = dict(zip(worse["worker"].tolist(), worse["sentence"].tolist(), strict=True))
    notable = np.flatnonzero(np.isin(verdict, workers.NOTABLE) | table["worker"].isin(list(fell)).to_numpy())
    if not len(notable):
        return []
    item, worker, label = posterior.annotation_index()
    hits = np.bincount(worker, weights=posterior.probability().argmax(1)[item] == label, minlength=len(table))
    speed = workers.relative_speed(posterior)
    graded = "severity" in table
    confusions = {} if graded else _by_worker(workers.systematic_confusions(posterior), posterior)
    facts = _Facts(table, names, _typical(table), hits, posterior.label_counts_by_worker(), speed, confusions)
    out = []
    for j in notable.tolist():
        word, name = str(verdict[j]), table["worker"].iloc[j]
        reasons = _reasons(j, word, facts) if word in workers.NOTABLE else []
        if name in fell and word not in workers.UNRELIABLE:
            action, reasons = FELL, [fell[name], *reasons]
        elif word == "confuses":
            classes = list(dict.fromkeys(row["truth"] for row in confusions.get(j, [])))[:CLASSES]
            action = f"{HEADINGS[workers.ACTIONS[word]]} on {' and '.join(names[k] for k in classes)}"
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
    """

    table: pd.DataFrame
    names: list[str]
    typical: float
    hits: Array
    given: Array
    speed: Array
    confusions: dict[int, list[dict[Any, Any]]]


def _reasons(j: int, verdict: str, facts: _Facts) -> list[str]:
    """Return the sentences that explain the verdict on worker ``j``."""
    accuracy, n = float(facts.table["accuracy"].iloc[j]), int(facts.table["annotations"].iloc[j])
    typical, names = _percent(facts.typical), facts.names
    pace = _pace(facts.table, facts.speed, j)
    fast = f"{pace[:1].upper()}{pace[1:]}"
    if "severity" in facts.table:
        return _grading_reasons(facts.table.iloc[j].to_dict(), verdict, _typical(facts.table, "grade_correlation"))
    if verdict == "hasty":
        return [f"{fast}, with accuracy {_percent(accuracy)} (typical worker {typical})."]
    if verdict == "adversarial":
        reasons = [
            f"Matches the final label in {int(facts.hits[j]):,} of {n:,} annotations, fewer than by chance. Labels may be "
            f"swapped, or the task misunderstood."
        ]
    elif verdict == "random":
        reasons = [
            f"The labels match the final labels no more often than by chance (accuracy {_percent(accuracy)}, "
            f"{n:,} annotations)."
        ]
    elif verdict == "constant":
        k = int(facts.given[j].argmax())
        count = facts.given[j, k]
        reasons = [
            f"Labels {_percent(count / n)} of the items as {names[k]} ({count:,} of {n:,}), whatever their true label."
        ]
    elif verdict == "confuses":
        reasons = _confusions(facts.confusions.get(j, []), names)
    else:
        reasons = [f"Accuracy {_percent(accuracy)} over {n:,} annotations; the typical worker has {typical}."]
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


def _confusions(rows: list[dict[Any, Any]], names: list[str]) -> list[str]:
    sentences = [
        f"Labels {_percent(row['share'])} of {names[row['truth']]} as {names[row['label']]} ({row['annotations']:,} of "
        f"{row['of']:,}; others {_percent(row['others'])})."
        for row in rows[:CLASSES]
    ]
    if len(rows) > CLASSES:
        sentences.append(f"{len(rows) - CLASSES} further confusions.")
    return sentences


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
        items = f" {torn:,} {'item is' if torn == 1 else 'items are'} undecided between the two." if torn else ""
        about, asked = f"between {names[a]} and {names[b]}", f"{names[a]} or {names[b]}?"
        out.append(Question(about, asked, f"{'; '.join(parts)}.{items}"))
    return out


def _questions_on_labels(posterior: Posterior) -> list[Question]:
    """Return the labels of sets that workers miss or choose too often, those with most wrong decisions first."""
    table = decisions(posterior)
    unclear = table[(table["sensitivity"] < MISSED) | (table["false_positive_rate"] > TOO_OFTEN)]
    return [
        Question(
            f"on “{row['label']}”",
            f"When does “{row['label']}” apply?",
            f"It is chosen in {_percent(row['sensitivity'])} of the annotations of tasks that have it, and in "
            f"{_percent(row['false_positive_rate'])} of the others.",
        )
        for row in unclear.sort_values("wrong", ascending=False, kind="stable").to_dict("records")
    ]


def _answers(posterior: Posterior, items: Array) -> int:
    """Return the number of annotations that give each of some items one more: a set of labels is one for all its pairs."""
    return len(np.unique(items // size(posterior)))


def _rounds(posterior: Posterior, count: int, answers: int, cost: float | None, seed: int) -> list[Round]:
    """Predict the effect of one, two and three further annotations of each of ``count`` open items, ``answers`` in a round."""
    if not count:
        return []
    N, K = posterior.probability().shape
    J = len(posterior.worker_names())
    replicates = int(min(REPLICATES, WORK / (ROUNDS * N * K + J * K * K)))
    corrected: list[float | None] = [None] * ROUNDS
    if replicates >= LEAST:
        curve = acquisition.curve(posterior, ROUNDS * count, steps=ROUNDS, replicates=replicates, seed=seed)
        accuracy = curve.table["accuracy"].to_numpy()
        corrected = [float(max(0.0, accuracy[n] - accuracy[0]) * N) for n in range(1, ROUNDS + 1)]
    return [
        Round(n, n * answers, None if cost is None else n * answers * float(cost), corrected[n - 1])
        for n in range(1, ROUNDS + 1)
    ]


def _percent(share: float) -> str:
    """Return a share as a whole percentage; "over 99%" and "under 1%" rather than a rounded 100% or 0%."""
    text = f"{share:.0%}"
    if text == "100%" and share < 1:
        return "over 99%"
    return "under 1%" if text == "0%" and share > 0 else text


# ---------------------------------------------------------------------- lines of text


@arguments.checked(actions=arguments.report_actions, posterior=arguments.posterior, shown=arguments.whole(1))
def lines(actions: Actions, posterior: Posterior, *, shown: int = SHOWN) -> list[str]:
    """Return what to do as lines for a terminal, most urgent first; before all that, that the fit has not converged, if so."""
    if posterior.labels_unclear:
        return [posterior.alert, "Nothing is said of items and workers before the labels are clean."]
    total, out = actions.total, []
    what = "true grade, or one next to it," if actions.graded else "label"
    uncertain = f"{f'whose {what}' if actions.graded else f'with a {what} that'} is less than {OPEN:.0%} probable"
    for people, heading in (
        (actions.unusable, "Stop and check"),
        (actions.retrain, "Talk to"),
    ):
        out += [
            f"{heading} {person.name}: {person.action[:1].lower()}{person.action[1:]}. {person.sentence}"
            for person in people[:shown]
        ]
        if len(people) > shown:
            out.append(f"... and {len(people) - shown:,} more workers like this (column verdict of workers.csv)")
    for question in actions.questions[:shown]:
        out.append(f"Clarify the guideline {question.about}: {question.sentence}")
    if len(actions.open):
        names = ", ".join(str(item) for item in posterior.items()[actions.open[:shown]].tolist())
        more = ", ..." if len(actions.open) > shown else ""
        out.append(f"Send out again: {counted(len(actions.open), actions.unit)} {uncertain} ({names}{more}).")
        out += [_round(actions.rounds[0])] if actions.rounds else []
    if actions.finished:
        out.append(
            f"Finished: {actions.finished:,} of {counted(total, actions.unit)}, whose {what} is at least {FINISHED:.0%} probable."
        )
    if actions.probable:
        out.append(f"Probably correct: {counted(actions.probable, actions.unit)} ({OPEN:.0%} to {FINISHED:.0%}).")
    if not actions.people:
        out.insert(
            0,
            "There is only one worker: nothing can be said of their quality without known true labels."
            if len(posterior.worker_names()) == 1
            else "No worker stands out by wrong labels."
            if actions.comparable
            else "Nothing can be said about the workers: there is nothing to compare their labels with.",
        )
    return [posterior.alert, *out] if posterior.alert else out


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
    number = counted(one.annotations, "further annotation")
    return f"{number}, given to the items that are least certain{cost}{gain}."
