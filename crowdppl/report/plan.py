"""What to do after a fit: which workers to talk to and why, which items to send out again, what to clarify, what it costs.

The report, the terminal and the library show the sentences that are written here, in :mod:`crowdppl.report.people` and in
:mod:`crowdppl.report.questions`.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import acquisition, arguments
from crowdppl.arguments import NonNegativeInt, PositiveInt, Seed, checked
from crowdppl.data import html
from crowdppl.errors import OptionError
from crowdppl.posterior import workers
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.sets import has_sets, size
from crowdppl.report.people import Person, notable_people
from crowdppl.report.questions import Question, unclear_classes, unclear_labels
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
# Classes of pairs of a task and a label, as sentences on one label use them, and what such a pair is called.
OF_SETS, PAIR = ("labels that are not in the set", "labels that are"), "task-label pair"
# What of an item is more or less probable, by whether labels are grades.
WHAT = {False: "label", True: "true grade or one next to it"}
# What is said where no worker needs attention, by whether labels are grades.
NOBODY = {False: "No worker stands out by wrong labels.", True: "No rater stands out by severity or careless grades."}
# What stands before a class that is a number or a single character, by whether classes are grades.
NUMBERED = {False: "class ", True: "grade "}


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


@checked
def actions(
    posterior: Posterior,
    *,
    cost: Annotated[float, arguments.anything] | None = None,
    worker_table: Annotated[pd.DataFrame, arguments.worker_table] | None = None,
    seed: Seed = 0,
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
    graded = "severity" in table
    names = list(OF_SETS) if of_sets else class_names(posterior.labels, graded)
    probability = near_probability(posterior.probability()) if graded else posterior.probability().max(1)
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
        people=[] if posterior.labels_unclear else notable_people(posterior, table, names),
        # With no worker to compare with another, the confusions of the crowd mean nothing.
        # That of grades one beside the true one is given, is no confusion.
        questions=[]
        if graded or not comparable
        else unclear_labels(posterior)
        if of_sets
        else unclear_classes(posterior, doubtful, names),
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


def near_probability(probability: Array) -> Array:
    """Return the probability that the true grade is the most probable one or next to it, ``(N,)``, of ``(N, K)``."""
    padded = np.pad(probability, ((0, 0), (1, 1)))
    near = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
    return np.asarray(near[np.arange(len(near)), probability.argmax(1)])


@checked
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


def class_names(labels: Array, graded: bool = False) -> list[str]:
    """Return names of classes for sentences: "class 0" or "grade 0" for numbers and single characters, other names in quotes."""
    texts = [str(label) for label in labels.tolist()]
    if all(_bare(text) for text in texts):
        return [f"{NUMBERED[graded]}{text}" for text in texts]
    return [f"“{text}”" for text in texts]


@checked
def shell_line(words: Annotated[Sequence[str], arguments.several(arguments.text, 0)]) -> str:
    """Return a command as one line that can be pasted into a shell."""
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


@checked
def next_command(count: NonNegativeInt, folder: Annotated[Path, arguments.input_path] | None = None) -> str:
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


# ---------------------------------------------------------------------- lines of text


@checked
def lines(actions: Actions, posterior: Posterior, *, shown: PositiveInt = SHOWN) -> list[str]:
    """Return what to do as lines for a terminal, most urgent first; before all that, that the fit has not converged, if so."""
    if posterior.labels_unclear:
        return [posterior.alert, "Nothing is said of items and workers before the labels are clean."]
    total, out = actions.total, []
    what = WHAT[actions.graded]
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
            else NOBODY[actions.graded]
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
