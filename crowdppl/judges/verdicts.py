"""Verdicts: what judges said of items, as arrays of codes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import arguments
from crowdppl.arguments import Identifier, checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.table.identifiers import Coded, encode, kind_of, positions
from crowdppl.errors import DataError, listed, suggestion
from crowdppl.judges.coding import criteria, values
from crowdppl.judges.coding.states import State as State
from crowdppl.judges.coding.verdict_columns import fields_of, table_of

Array = npt.NDArray[Any]
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Verdicts:
    """Verdicts of ``J`` judges on ``N`` items in ``K`` classes, ``n`` rows in the order of the table.

    Create one with :meth:`from_frame` or :func:`crowdppl.judges.read`, not with the constructor. An item is one answer of one
    system, or a pair of answers of two systems. Codes are int64 indices into the arrays of names; -1 stands for *not stated*.

    Attributes:
        items: names of the items, ``(N,)``; ``"item / system"`` or ``"item / system : opponent"`` if the table names questions,
            see ``pairs``.
        judges: names of the judges, ``(J,)``.
        labels: names of the classes, ``(K,)``: booleans, integers or strings; empty if there are only scores.
        systems: names of the systems whose answers are judged, ``(M,)``.
        questions: names of the questions, ``(Q,)``.
        families: names of the families of judges, ``(F,)``.
        versions: names of the versions of judges, ``(V,)``.
        item: item of each row, ``(n,)``.
        judge: judge of each row, ``(n,)``.
        label: label of each row, ``(n,)``; -1 if none was given, and where a judge gives scores only.
        state: :class:`State` of each row, ``(n,)`` int8.
        system: system of each item, ``(N,)``; of a pair, the first.
        opponent: second system of each item, ``(N,)``; -1 where items are single answers.
        question: question of each item, ``(N,)``.
        family: family of each judge, ``(J,)``.
        swapped: whether the two answers of a pair were shown in reverse order, ``(n,)`` int8: 1, 0, or -1 if not stated.
        score: score of each row, ``(n,)``, NaN if not stated.
        cost: cost of each verdict in the table's own unit, ``(n,)``, NaN if not stated.
        seconds: duration of each verdict in seconds, ``(n,)``, NaN if not stated.
        when: time of each verdict in UTC, ``(n,)`` ``datetime64[us]``, NaT if not stated.
        version: version of the judge in each row, ``(n,)``.
        pairs: whether the table names questions that several systems answered, so that an item is a pair of question and system.
        ordered: whether the classes are declared as ordered; ``None`` if nothing was declared.
        human: verdicts of people that a file contains beside those of judges, a table for :meth:`HumanLabels.from_frame`;
            ``None`` without any.
        passing: the class that passes, where the format of a file states it.
        asked: name of the column of verdicts, which may tell what was asked.
        notes: what was read, dropped or unusual, in sentences.
        clusters: names of the clusters of items, such as documents, ``(C,)``.
        cluster: cluster of each item, ``(N,)`` int64, -1 if not stated; ``(0,)`` if none is.
        length: length of each answer in tokens, characters or words, ``(N,)``, NaN if not stated; ``(0,)`` if none is.
        opponent_length: of pairs, the length of the second answer, likewise.
        outputs: where a file has several answers of a system to a question, the name of each by its text, by question and system.
    """

    items: Array
    judges: Array
    labels: Array
    systems: Array
    questions: Array
    families: Array
    versions: Array
    item: Codes
    judge: Codes
    label: Codes
    state: npt.NDArray[np.int8]
    system: Codes
    opponent: Codes
    question: Codes
    family: Codes
    swapped: npt.NDArray[np.int8]
    score: npt.NDArray[np.float64]
    cost: npt.NDArray[np.float64]
    seconds: npt.NDArray[np.float64]
    when: npt.NDArray[np.datetime64]
    version: Codes
    pairs: bool = False
    ordered: bool | None = None
    human: pd.DataFrame | None = None
    passing: Any = None
    asked: str = ""
    notes: tuple[str, ...] = ()
    clusters: Array = dataclasses.field(default_factory=lambda: np.zeros(0, dtype=object))
    cluster: Codes = dataclasses.field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    length: npt.NDArray[np.float64] = dataclasses.field(default_factory=lambda: np.zeros(0))
    opponent_length: npt.NDArray[np.float64] = dataclasses.field(default_factory=lambda: np.zeros(0))
    outputs: Mapping[tuple[Any, Any], Mapping[str, int]] = dataclasses.field(default_factory=dict)

    @classmethod
    @checked
    def from_frame(
        cls,
        frame: Any,
        *,
        item: Identifier = None,
        judge: Identifier = None,
        verdict: Identifier = None,
        system: Identifier = None,
        opponent: Identifier = None,
        question: Identifier = None,
        cluster: Identifier = None,
        answer: Identifier = None,
        run: Identifier = None,
        criterion: Identifier = None,
        swapped: Identifier = None,
        score: Identifier = None,
        family: Identifier = None,
        version: Identifier = None,
        cost: Identifier = None,
        seconds: Identifier = None,
        when: Identifier = None,
        status: Identifier = None,
        length: Identifier = None,
        opponent_length: Identifier = None,
        unparseable: Annotated[Iterable[str], arguments.a_list] | None = None,
        abstained: Annotated[Iterable[str], arguments.a_list] | None = None,
        labels: Iterable[Any] | None = None,
        ordered: bool | None = None,
        families: Mapping[Any, str] | None = None,
        source: str = "the verdicts",
    ) -> Self:
        """Return the verdicts of a table with a row for each verdict.

        A column is used if the table has one of the argument's name (``item``, ``judge``, ``verdict``, ``system``, ...), or under
        the name that the argument states. Only ``item``, ``judge`` and ``verdict`` or ``score`` are required.

        **Items.** If an identifier occurs with several systems, it names a question, and each item is the pair of question and
        system. With a column of questions, each identifier names one answer. With a column of opponents, an item is a pair of
        answers, and its classes are: the first system is better, the second is, and possibly a tie. An item has one order of its
        systems; rows that state the other one are turned.

        **States.** A blank verdict is ``MISSING``. Texts listed in ``unparseable`` and ``abstained`` stand for these states,
        compared without capitals and outer white space. ``"invalid"`` is a class where ``"valid"`` is one, ``"unknown"`` always,
        and ``"none"`` beside other names than those of passing and failing (none, minor, major).
        A column ``status`` (given, missing, unparseable, abstained) overrides this. If a judge gives scores and never a verdict,
        its scores are ``GIVEN``.

        **Spellings.** Names of classes that differ in capitals or white space only are one class if they are names such as
        ``pass``, or no judge uses both; a note counts the rows. Declared ``labels`` are taken as they are.

        **Repeats.** Several verdicts of a judge on an item are repeated calls, and all are kept. Of rows that are equal in all
        columns, one is kept, unless other rows differ in the verdict alone, which shows that calls are not numbered.

        **Criteria.** A table of verdicts on several criteria (helpful, safe) is refused: each has true labels of its own. Read it
        with :meth:`by_criterion`. Criteria are recognised by a column ``criterion``, ``metric``, ``scorer``, ``rubric``,
        ``dimension`` or ``aspect`` with several values for one judge and answer.

        Args:
            frame: a pandas table, or one of any library that supports Arrow's PyCapsule protocol or the dataframe interchange
                protocol (Polars, PyArrow, DuckDB).
            item: column of item identifiers.
            judge: column of judges.
            verdict: column of verdicts: booleans, whole numbers or strings, not mixed.
            system: column of the system whose answer is judged.
            opponent: column of the system whose answer it is compared with.
            question: column of the question that the system answered.
            cluster: column of what several questions have in common, such as a document or a topic. Rates on further questions
                (``target="population"``) then take clusters as drawn, not questions.
            answer: column of the answers of a system to a question, such as epochs or numbers of repeats; its names are
                ``answer``, ``epoch`` and ``repeat``. Where a system gave an
                item several, each answer is an item of its own, and the item in the table is their question. Repeated calls of a
                judge on one answer are several verdicts on it.
            run: column that numbers the calls of a judge on one answer; its names are ``run``, ``trial`` and others.
            criterion: column of what was judged.
            swapped: column of the order of a pair: true or 1 if the second answer was shown first.
            score: column of numbers.
            family: column of the judge's family. Defaults to the beginning of the judge's name: the text before the first ``/``
                (``openai/gpt-4o``: ``openai``), otherwise the letters before the first digit or mark (``gpt-4o``: ``gpt``).
            version: column of the judge's version.
            cost: column of costs of at least 0.
            seconds: column of durations of at least 0.
            when: column of dates, or of seconds or milliseconds since 1970.
            status: column of states.
            length: column of the length of the answer, in tokens, characters or words, at least 0. Whether judges favour long
                answers is then part of the model, and of :meth:`JudgesResult.judges`. Defaults to ``length``, ``answer_tokens``,
                ``response_length``, ``tokens`` and others (:data:`crowdppl.judges.coding.lengths.LENGTHS`), if there is one
                value for each answer.
            opponent_length: of pairs, column of the length of the second answer.
            unparseable: texts for *unparseable*. Defaults to :data:`crowdppl.judges.coding.states.UNPARSEABLE` and
                :data:`crowdppl.judges.coding.states.NOTHING`.
            abstained: texts for *abstained*. Defaults to :data:`crowdppl.judges.coding.states.ABSTAINED`.
            labels: all classes, in order; a text declared here is never a state. Defaults to the categories of a categorical
                column, otherwise to those that occur, sorted.
            ordered: whether the classes are ordered. Defaults to what a categorical column states.
            families: families by judge; they take precedence over the column.
            source: name of the table in messages.

        Raises:
            DataError: if the table cannot be used; the message names the rows, the column and a fix.
            OptionError: for an argument of a wrong type.
        """
        given = {
            "item": item,
            "judge": judge,
            "verdict": verdict,
            "system": system,
            "opponent": opponent,
            "question": question,
            "cluster": cluster,
            "answer": answer,
            "run": run,
            "swapped": swapped,
            "score": score,
            "family": family,
            "version": version,
            "cost": cost,
            "seconds": seconds,
            "when": when,
            "status": status,
            "length": length,
            "opponent_length": opponent_length,
        }
        table = table_of(frame, given, source)
        criteria.refuse_several(
            table.frame,
            criteria.column_of_criteria(table.frame, criterion, table.columns, source),
            source,
            "read all with Verdicts.by_criterion and fit them with crowdppl.judges.fit_criteria",
        )
        return cls(
            **fields_of(table, (unparseable, abstained), labels, ordered, families, length_stated=length is not None)
        )

    @classmethod
    @checked
    def by_criterion(
        cls, frame: Any, criterion: Identifier = None, *, source: str = "the verdicts", **options: Any
    ) -> dict[Any, Self]:
        """Return the verdicts on each criterion of a table, for :func:`crowdppl.judges.fit_criteria`.

        Each criterion has classes of its own: one may be graded 1 to 5, another pass and fail.

        Args:
            frame: a table with a column of criteria.
            criterion: its column. Defaults to the one that :meth:`from_frame` recognises.
            source: name of the table in messages.
            **options: of :meth:`from_frame`; ``labels`` may be a mapping from criterion to classes.

        Raises:
            DataError: if there is no column of criteria, or the verdicts on one cannot be used.
        """
        table = table_of(frame, options, source)
        column = criteria.column_of_criteria(table.frame, criterion, table.columns, source)
        if column is None:
            raise DataError(
                f"{source}: no column states several criteria; columns are {listed(map(str, table.frame.columns), 12)}; name it "
                f"with criterion=..., or read a table of one criterion with Verdicts.from_frame"
            )
        parts = criteria.by_criterion(table.frame, column, source)
        labels = options.pop("labels", None)
        classes = labels if isinstance(labels, Mapping) else dict.fromkeys(parts, labels)
        return {
            name: cls.from_frame(part, source=f"{source}, {name}", labels=classes.get(name), **options)
            for name, part in parts.items()
        }

    def __len__(self) -> int:
        """Return the number of rows ``n``."""
        return len(self.item)

    def __repr__(self) -> str:
        sizes = {"items": self.items, "judges": self.judges, "labels": self.labels, "systems": self.systems}
        return f"Verdicts({len(self):,} rows, {', '.join(f'{len(names):,} {what}' for what, names in sizes.items())})"

    @checked
    def annotations(self, items: Iterable[Any] | None = None, *, states: bool = False) -> Annotations:
        """Return the verdicts given as :class:`crowdppl.Annotations`, with the judges as workers.

        The order of items, judges and classes is that of the verdicts, also of those that do not occur. Several verdicts of a
        judge on an item are repeats.

        Args:
            items: names of the items to keep, in order. Defaults to all.
            states: whether *missing*, *unparseable* and *abstained* are further labels, ``(missing)`` and so on, where they
                occur; all labels are then strings.

        Raises:
            DataError: for an unknown item, or if there is no verdict to keep.
        """
        kept = (self.label >= 0) | (states & (self.state != State.GIVEN))
        chosen = self.items
        if items is not None:
            chosen = self._chosen(items, self.items, "item")
            kept &= np.isin(self.item, positions(chosen, self.items))
        if not kept.any():
            raise DataError("no verdict was given on these items; annotations need at least one label")
        names, label, state = self.labels, self.label[kept], self.state[kept]
        if states:
            others = [one for one in State if one != State.GIVEN and (state == one).any()]
            names = np.array([*map(str, names.tolist()), *(f"({one.name.lower()})" for one in others)], dtype=object)
            for n, one in enumerate(others, len(self.labels)):
                label = np.where(state == one, n, label)
        columns = {"item": self.items[self.item[kept]], "worker": self.judges[self.judge[kept]], "label": names[label]}
        return Annotations.from_frame(
            pd.DataFrame(columns),
            items=chosen.tolist(),
            workers=self.judges.tolist(),
            labels=names.tolist(),
            source="the verdicts",
        )

    @checked
    def only(self, judges: Iterable[Any]) -> Self:
        """Return the verdicts of some judges on the same items.

        Args:
            judges: names of the judges, in order.

        Raises:
            DataError: for an unknown judge.
        """
        chosen = positions(self._chosen(judges, self.judges, "judge"), self.judges)
        place = np.full(len(self.judges), -1)
        place[chosen] = np.arange(len(chosen))
        kept = place[self.judge] >= 0
        families, family = np.unique(self.family[chosen], return_inverse=True)
        rows = {
            name: getattr(self, name)[kept]
            for name in ("item", "label", "state", "swapped", "score", "cost", "seconds", "when", "version")
        }
        return dataclasses.replace(
            self,
            judges=self.judges[chosen],
            judge=place[self.judge[kept]],
            families=self.families[families],
            family=family,
            **rows,
        )

    def _chosen(self, given: Iterable[Any], names: Array, what: str) -> Array:
        """Return names that the caller states.

        Raises:
            DataError: for one that does not occur.
        """
        none = Coded(np.zeros(0, dtype=np.int64), names[:0])
        chosen = encode(none, given, what, f"{what}s", rows=None, ordered=False)[1]
        known = set(names.tolist()) if kind_of(chosen) == kind_of(names) else set()
        unknown = [name for name in chosen.tolist() if name not in known]
        if unknown:
            raise DataError(
                f"{what}s: {listed(unknown)} not among the {len(names):,} {'judged items' if what == 'item' else 'judges'}"
                f"{suggestion(unknown[0], names.tolist()[:1000])}"
            )
        return chosen

    def states(self) -> pd.DataFrame:
        """Return how many verdicts of each judge are in each state.

        Returns:
            A row per judge: ``judge``, ``family``, ``verdicts`` (rows), ``given``, ``missing``, ``unparseable``, ``abstained``,
            and ``not_asked``, the number of items on which the judge has no row.
        """
        J, N = len(self.judges), len(self.items)
        counts = np.zeros((J, len(State)), dtype=np.int64)
        np.add.at(counts, (self.judge, self.state), 1)
        asked = np.bincount(np.unique(self.judge * N + self.item) // N, minlength=J)
        return pd.DataFrame(
            {
                "judge": self.judges,
                "family": self.families[self.family],
                "verdicts": counts.sum(1),
                **{state.name.lower(): counts[:, state] for state in State},
                "not_asked": N - asked,
            }
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the verdicts as a table that :meth:`from_frame` reads, without columns that are not stated.

        ``item`` is the question where items are pairs of question and system.
        """
        item, named = self.item, values.named
        table = {
            "item": named(self.questions, self.question[item]) if self.pairs else self.items[item],
            "judge": self.judges[self.judge],
            "verdict": named(self.labels, self.label),
            "status": np.array([state.name.lower() for state in State], dtype=object)[self.state],
            "system": named(self.systems, self.system[item]),
            "opponent": named(self.systems, self.opponent[item]),
            "question": named(self.questions, self.question[item]),
            **({"cluster": named(self.clusters, self.cluster[item])} if len(self.clusters) else {}),
            **{name: getattr(self, name)[item] for name in ("length", "opponent_length") if len(getattr(self, name))},
            "family": self.families[self.family[self.judge]],
            "version": named(self.versions, self.version),
            "swapped": np.where(self.swapped < 0, np.nan, self.swapped),
            "score": self.score,
            "cost": self.cost,
            "seconds": self.seconds,
            "when": self.when,
        }
        # Equal verdicts of a judge on an item would be read as copies of a row.
        call = pd.DataFrame({"judge": self.judge, "item": self.item}).groupby(["judge", "item"]).cumcount().to_numpy()
        frame = pd.DataFrame(table | ({"run": call + 1} if call.any() else {}))
        empty = [name for name in frame if frame[name].isna().all() or (name == "question" and self.pairs)]
        return frame.drop(columns=empty)
