"""Labels that people gave to some of the judged items."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.arguments import Identifier, checked
from crowdppl.data.frames import to_pandas
from crowdppl.data.table.identifiers import Coded, rows_text
from crowdppl.data.table.questions import CRITERIA, named
from crowdppl.errors import DataError, listed
from crowdppl.judges import criteria, pairwise, values
from crowdppl.judges.matching import alike, require_common, same_numbers, same_spelling, union
from crowdppl.judges.states import normalised, state_words
from crowdppl.judges.table import Table
from crowdppl.judges.units import ANSWERS, answer_name, two_systems, unit_name
from crowdppl.judges.verdicts import Verdicts

Array = npt.NDArray[Any]
Codes = npt.NDArray[np.int64]

_DEFAULTS = {
    "item": ("item",),
    "verdict": ("verdict", "label"),
    "system": ("system",),
    "opponent": ("opponent",),
    "annotator": ("annotator",),
    "probability": ("probability",),
    "stratum": ("stratum",),
    "stratum_size": ("stratum_size", "stratum_count"),
    "answer": ANSWERS,
}


@dataclass(frozen=True, eq=False, repr=False)
class HumanLabels:
    """Labels of items by people, ``m`` of them. Several people may label an item, and may contradict each other.

    Create them with :meth:`from_frame`; :meth:`align` gives items and labels the codes of :class:`Verdicts`.

    Attributes:
        items: names of the items, ``(N,)``; after :meth:`align` those of the verdicts.
        labels: names of the classes, ``(K,)``; after :meth:`align` those of the verdicts.
        annotators: names of the people, ``(P,)``.
        strata: names of the strata, ``(S,)``.
        systems: names of the systems, ``(M,)``.
        item: item of each label, ``(m,)`` int64.
        label: label, ``(m,)`` int64.
        annotator: person, ``(m,)`` int64, -1 if not stated.
        probability: probability with which the item was chosen to be labelled, ``(m,)``, NaN if not stated.
        stratum: stratum of the item, ``(m,)`` int64, -1 if not stated.
        system: system whose answer was labelled, ``(m,)`` int64, -1 if not stated.
        opponent: second system of a pair, ``(m,)`` int64, -1 if not stated.
        notes: what was dropped or unusual, in sentences.
        answers: names of the answers of a system to a question, where it gave several, ``(B,)``.
        answer: answer that was labelled, ``(m,)`` int64, -1 if not stated; ``(0,)`` if none is.
    """

    items: Array
    labels: Array
    annotators: Array
    strata: Array
    systems: Array
    item: Codes
    label: Codes
    annotator: Codes
    probability: npt.NDArray[np.float64]
    stratum: Codes
    system: Codes
    opponent: Codes
    notes: tuple[str, ...] = ()
    answers: Array = dataclasses.field(default_factory=lambda: np.zeros(0, dtype=object))
    answer: Codes = dataclasses.field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @classmethod
    @checked
    def from_frame(
        cls,
        data: Any,
        *,
        item: Identifier = None,
        verdict: Identifier = None,
        system: Identifier = None,
        opponent: Identifier = None,
        annotator: Identifier = None,
        probability: Identifier = None,
        stratum: Identifier = None,
        stratum_size: Identifier = None,
        answer: Identifier = None,
        criterion: Identifier = None,
        source: str = "the human labels",
    ) -> Self:
        """Return the labels of a table with a row for each label, or of a mapping or Series from item to label.

        A column is used if the table has one of the argument's name, or under the name that the argument states. The column of
        labels may be called ``verdict`` or ``label``. Rows without a label are dropped and counted.

        Args:
            data: a table of any library that :meth:`Verdicts.from_frame` accepts, a mapping or a Series.
            item: column of item identifiers.
            verdict: column of labels: booleans, whole numbers or strings, not mixed.
            system: column of systems; needed if the verdicts' items are pairs of question and system.
            opponent: column of second systems; needed if they are pairs of question and two systems.
            annotator: column of the people.
            probability: column of the probability with which the item was chosen to be labelled, above 0 and at most 1. Defaults
                to a random sample.
            stratum: column of the stratum from which the item was drawn at random, such as complaints and others.
            stratum_size: column of the number of judged items in the stratum. The probability of being chosen is then the share
                of these that people labelled; a column of probabilities takes precedence.
            answer: column of answers, such as epochs; needed if the verdicts are on several answers of a system to a question.
            criterion: column of what people judged. Labels on several criteria are refused, see :meth:`by_criterion`.
            source: name of the table in messages.

        Raises:
            DataError: if the table cannot be used; the message names the rows, the column and a fix.
        """
        given = {
            "item": item,
            "verdict": verdict,
            "system": system,
            "opponent": opponent,
            "annotator": annotator,
            "probability": probability,
            "stratum": stratum,
            "stratum_size": stratum_size,
            "answer": answer,
        }
        frame = _as_frame(data, source)
        if verdict is None and "score" in frame and not {"verdict", "label"} & set(map(str, frame.columns)):
            given["verdict"] = "score"
        table = Table.of(frame, given, _DEFAULTS, ("item", "verdict"), source)
        table.frame[table.columns["verdict"]] = _grades(table)
        criteria.refuse_several(
            table.frame,
            criteria.column_of_criteria(table.frame, criterion, table.columns, source),
            source,
            "fit all criteria with crowdppl.judges.fit_criteria",
        )
        notes = [
            f"{source}: column {str(column)!r} has several values and is not used; if people judged several criteria, keep the "
            f"rows of one, or fit all with crowdppl.judges.fit_criteria"
            for column in named(table.frame, table.columns.values(), CRITERIA)
            if table.frame[column].nunique() > 1
        ]
        items, labels = table.required("item"), table.names("verdict")
        people, strata, answered = table.names("annotator"), table.names("stratum"), table.names("answer")
        systems, first, second = two_systems(table)
        chances = table.numbers("probability")
        if not (labels.codes >= 0).any():
            raise DataError(f"{table.where('verdict')}: every label is missing; at least one is needed")
        blank = labels.missing
        if blank.any():
            notes.append(
                f"{table.where('verdict')}: dropped {int(blank.sum()):,} of {len(blank):,} rows without a label "
                f"({rows_text(np.flatnonzero(blank))})"
            )
        _require_all(table, "probability", np.isfinite(chances) | blank)
        _require_all(table, "stratum", ~strata.missing | blank)
        outside = ~blank & ((chances <= 0) | (chances > 1))
        if outside.any():
            rows = np.flatnonzero(outside)
            raise DataError(
                f"{table.where('probability')}, {rows_text(rows)}: {chances[rows[0]]:g} is not a probability of being chosen; "
                f"it must be above 0 and at most 1"
            )
        key = {
            "item": items.codes,
            "label": labels.codes,
            "annotator": people.codes,
            "system": first,
            "opponent": second,
            "answer": answered.codes,
        }
        chances = _of_strata(
            table, chances, strata, pd.DataFrame(key).drop(columns=["label", "annotator"]), blank, notes
        )
        # Without an annotator, equal rows may be two people who agree.
        twice = pd.DataFrame(key).duplicated().to_numpy() & ~people.missing & ~blank
        if twice.any():
            notes.append(
                f"{source}: dropped {int(twice.sum()):,} rows that repeat the label of an annotator for an item "
                f"({rows_text(np.flatnonzero(twice))})"
            )
        kept = ~blank & ~twice
        return cls(
            items.names,
            labels.names,
            people.names,
            strata.names,
            systems,
            items.codes[kept],
            labels.codes[kept],
            people.codes[kept],
            chances[kept],
            strata.codes[kept],
            first[kept],
            second[kept],
            tuple(notes),
            answered.names,
            answered.codes[kept],
        )

    @classmethod
    @checked
    def by_criterion(
        cls, data: Any, criterion: Identifier = None, *, source: str = "the human labels", **options: Any
    ) -> dict[Any, Self]:
        """Return the labels on each criterion of a table, for :func:`crowdppl.judges.fit_criteria`.

        Args:
            data: a table with a column of criteria.
            criterion: its column. Defaults to the first of a usual name: ``criterion``, ``metric``, ``scorer``, ``rubric``,
                ``dimension``, ``aspect``.
            source: name of the table in messages.
            **options: of :meth:`from_frame`.

        Raises:
            DataError: if there is no column of criteria, or the labels on one cannot be used.
        """
        frame = to_pandas(data, source)
        usual = named(frame, (), CRITERIA)
        if criterion is None and not usual:
            raise DataError(
                f"{source}: the verdicts are on several criteria, and no column states that of a label; add a column 'criterion'"
            )
        column = usual[0] if criterion is None else criteria.column_of_criteria(frame, criterion, {}, source)
        parts = criteria.by_criterion(frame, column, source)
        return {name: cls.from_frame(part, source=f"{source}, {name}", **options) for name, part in parts.items()}

    def __len__(self) -> int:
        """Return the number of labels ``m``."""
        return len(self.item)

    def __repr__(self) -> str:
        return f"HumanLabels({len(self):,} labels of {len(np.unique(self.item)):,} items, {len(self.labels):,} classes)"

    @checked
    def align(self, verdicts: Verdicts) -> tuple[Verdicts, Self]:
        """Return verdicts and labels with the same codes of items and labels.

        Labels of items that nobody judged are left out and counted. A class that no judge gave is added to the classes. Names
        of different types are matched by their text, with a note: ``1`` with ``"1"``, ``True`` with ``"true"`` and ``1``.
        A text such as ``"n/a"`` that stands for a state of verdicts is a label only if a judge gave it as one.

        Args:
            verdicts: the verdicts.

        Returns:
            The verdicts, with more classes if there are any, and the labels, whose ``items`` and ``labels`` are those of the
            verdicts.

        Raises:
            DataError: if the labels need a system and have none, a system contradicts the verdicts, names of different types
                cannot be matched, no human label is among two or more classes of the judges, or no labelled item was judged.
        """
        notes = list(self.notes)
        kept, label_names = self._without_states(verdicts.labels, notes)
        label_names, code = same_numbers(label_names, self.label, verdicts.labels)
        label_names = alike(label_names, verdicts.labels, "label", notes) if len(verdicts.labels) else label_names
        label_names = same_spelling(label_names, verdicts.labels, notes)
        require_common(label_names[np.unique(code[kept])], verdicts.labels)
        labels, old, new = union(verdicts.labels, label_names, label_names[np.unique(code[kept])])
        label = new[code]
        added = [name for name in labels.tolist() if name not in set(verdicts.labels.tolist())]
        if added and len(verdicts.labels):
            notes.append(f"the human labels contain {listed(added)}, which no judge gave; added to the classes")
        item, turned = self._judged_items(verdicts, notes)
        if turned.any():
            label = np.where(turned, pairwise.turned(labels)[label], label)
        unclear = kept & (item < 0) & self._of_several_answers(verdicts)
        if unclear.any():
            sentence = (
                f"{int(unclear.sum()):,} human labels name questions of which several answers were judged, and not which answer "
                f"they are of"
            )
            if not (kept & (item >= 0)).any():
                raise DataError(f"{sentence}; state it in a column 'answer', as in {_some_item(verdicts)!r}")
            notes.append(f"{sentence}; they are left out")
        kept &= ~unclear
        absent = kept & (item < 0)
        kept &= item >= 0
        if absent.any():
            names = pd.unique(self.items[self.item[absent]]).tolist()
            if not kept.any():
                raise DataError(
                    f"none of the {int(absent.sum()):,} human labels is of a judged item: they name {listed(names, 3)}, the "
                    f"verdicts {listed(verdicts.items.tolist(), 3)}; use the same identifiers in both"
                )
            notes.append(
                f"{int(absent.sum()):,} of {len(absent):,} human labels are of items that nobody judged ({listed(names)}); they "
                f"are left out"
            )
        self._note_contradictions(item[kept], label[kept], notes)
        answer = self.answer[kept] if len(self.answer) else self.answer
        extended = verdicts
        if len(labels) > len(verdicts.labels):
            extended = dataclasses.replace(verdicts, labels=labels, label=np.append(old, -1)[verdicts.label])
        return extended, dataclasses.replace(
            self,
            items=verdicts.items,
            labels=labels,
            item=item[kept],
            label=label[kept],
            annotator=self.annotator[kept],
            probability=self.probability[kept],
            stratum=self.stratum[kept],
            system=self.system[kept],
            opponent=self.opponent[kept],
            notes=tuple(notes),
            answer=answer,
        )

    def _without_states(self, given: Array, notes: list[str]) -> tuple[npt.NDArray[np.bool_], Array]:
        """Return which labels ``(m,)`` are labels, and the names of all, retyped if texts for states hid their type."""
        words = state_words(None, None, given.tolist())
        names = self.labels
        if names.dtype != object or "valid" in {normalised(name) for name in names.tolist()}:
            words.pop("invalid", None)
        state = np.array([isinstance(name, str) and normalised(name) in words for name in names.tolist()], dtype=bool)
        kept = ~state[self.label]
        if not kept.all():
            notes.append(
                f"{int((~kept).sum()):,} human labels are no labels but {listed(names[state].tolist())}; they are left out"
            )
        if not kept.any():
            raise DataError(
                f"every human label is one of {listed(names[state].tolist())}; at least one class is needed"
            )
        return kept, names

    def _judged_items(self, verdicts: Verdicts, notes: list[str]) -> tuple[Codes, npt.NDArray[np.bool_]]:
        """Return the verdicts' item of each label ``(m,)``, -1 if nobody judged it, and whether it has its systems turned."""
        no = np.zeros(len(self), dtype=bool)
        place = {name: n for n, name in enumerate(verdicts.items.tolist())}
        if not verdicts.pairs:
            # Items that are one of several answers have names of text.
            as_text = (self.answer >= 0).any() or self._of_several_answers(verdicts).any()
            own = np.array([str(name) for name in self.items.tolist()], dtype=object) if as_text else self.items
            names = alike(own, verdicts.items, "item", notes)
            item = np.array([place.get(name, -1) for name in names.tolist()], dtype=np.int64)[self.item]
            for n, name in self._with_answers():
                item[n] = place.get(name, item[n])
            return item, self._turned(verdicts, item)
        whole = np.array([place.get(str(name), -1) for name in self.items.tolist()], dtype=np.int64)[self.item]
        if (whole >= 0).any() and not (self.system >= 0).any():
            return whole, no
        two = bool((verdicts.opponent >= 0).any())
        for role, codes in (("system", self.system), ("opponent", self.opponent)):
            if (codes < 0).any() and (two or role == "system"):
                raise DataError(
                    f"{int((codes < 0).sum()):,} human labels have no {role}, but the judged items are pairs of item and "
                    f"{'two systems' if two else 'system'}; state the {role} of each label in a column {role!r}"
                )
        unknown = sorted(set(map(str, self.systems.tolist())) - set(map(str, verdicts.systems.tolist())))
        if unknown:
            notes.append(f"human labels of systems that nobody judged: {listed(unknown)}")
        names = alike(self.items, verdicts.questions, "item", notes)
        second = values.named(self.systems, self.opponent if two else np.full(len(self), -1))
        pairs = [
            unit_name(names[i], self.systems[s], t) for i, s, t in zip(self.item, self.system, second, strict=True)
        ]
        item = np.array([place.get(pair, -1) for pair in pairs], dtype=np.int64)
        for n, name in self._with_answers():
            item[n] = place.get(unit_name(name, self.systems[self.system[n]], second[n]), item[n])
        turned = no
        for one in np.flatnonzero(item < 0) if two else ():
            reverse = place.get(unit_name(names[self.item[one]], second[one], self.systems[self.system[one]]), -1)
            item[one], turned[one] = reverse, reverse >= 0
        return item, turned

    def _with_answers(self) -> list[tuple[int, str]]:
        """Return the labels that state an answer, each with the name of an item that is one of several answers."""
        return [
            (n, answer_name(self.items[self.item[n]], self.answers[self.answer[n]]))
            for n in np.flatnonzero(self.answer >= 0).tolist()
        ]

    def _of_several_answers(self, verdicts: Verdicts) -> npt.NDArray[np.bool_]:
        """Return which labels are of a question with several answers of a system among the judged items, ``(m,)``."""
        asked = pd.DataFrame({"question": verdicts.question, "system": verdicts.system, "opponent": verdicts.opponent})
        several = asked["question"][(asked["question"] >= 0) & asked.duplicated(keep=False)].unique()
        names = {str(name) for name in verdicts.questions[several].tolist()}
        return np.array([str(name) in names for name in self.items.tolist()], dtype=bool)[self.item]

    def _turned(self, verdicts: Verdicts, item: Codes) -> npt.NDArray[np.bool_]:
        """Return which labels state the two systems of their item in the other order, ``(m,)``.

        Raises:
            DataError: for labels of another system's answer than the verdicts'.
        """
        names = np.append(verdicts.systems.astype(object), [None]).astype(str)
        first, second = (names[np.append(codes, -1)[item]] for codes in (verdicts.system, verdicts.opponent))
        own = np.append(self.systems.astype(object), [None]).astype(str)
        turned = (
            (item >= 0)
            & (np.append(verdicts.opponent, -1)[item] >= 0)
            & (self.opponent >= 0)
            & (own[self.system] == second)
            & (own[self.opponent] == first)
        )
        self._require_same_system(verdicts, np.where(turned, -1, item))
        return np.asarray(turned)

    def _require_same_system(self, verdicts: Verdicts, item: Codes) -> None:
        """Refuse labels of another system's answer than the verdicts'; items below 0 are left out."""
        for own, of_item in ((self.system, verdicts.system), (self.opponent, verdicts.opponent)):
            judged = np.append(of_item, -1)[item]
            for one in np.flatnonzero((judged >= 0) & (own >= 0)):
                mine, theirs = self.systems[own[one]], verdicts.systems[judged[one]]
                if str(mine) != str(theirs):
                    raise DataError(
                        f"item {listed([verdicts.items[item[one]]])} is an answer of {listed([theirs])} in the verdicts, but of "
                        f"{listed([mine])} in the human labels; use the same items and systems in both"
                    )

    def _note_contradictions(self, item: Codes, label: Codes, notes: list[str]) -> None:
        distinct = pd.DataFrame({"item": item, "label": label}).drop_duplicates()
        several = int((distinct["item"].value_counts() > 1).sum())
        if several:
            notes.append(
                f"people contradict each other on {several:,} of {distinct['item'].nunique():,} labelled items"
            )


def _as_frame(data: Any, source: str) -> pd.DataFrame:
    """Return a table; that of a mapping or Series has the columns ``item`` and ``verdict``."""
    if isinstance(data, pd.Series):
        return pd.DataFrame({"item": data.index.to_series().to_numpy(), "verdict": data.to_numpy()})
    if isinstance(data, Mapping):
        columns = {"item": list(data.keys()), "verdict": list(data.values())}
        return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})
    return to_pandas(data, source, ", or a mapping from item to label")


def _of_strata(
    table: Table, chances: Array, strata: Coded, unit: pd.DataFrame, blank: npt.NDArray[np.bool_], notes: list[str]
) -> Array:
    """Return the probability with which each item was chosen, ``(m,)``: the share of its stratum that people labelled.

    Args:
        table: the labels.
        chances: the probabilities that the table states, ``(m,)``, NaN if not stated; they take precedence.
        strata: stratum of each label, ``(m,)``.
        unit: columns that identify the item of each label.
        blank: rows without a label, ``(m,)``.
        notes: receives what was computed.

    Raises:
        DataError: if the size of a stratum is not clear, or smaller than the number of its labelled items.
    """
    size = table.numbers("stratum_size", 0)
    if table.columns["stratum_size"] is None or not np.isfinite(size).any():
        return chances
    if table.columns["stratum"] is None:
        raise DataError(f"{table.where('stratum_size')}: sizes of strata without strata; add a column 'stratum'")
    if np.isfinite(chances).any():
        notes.append(f"{table.source}: probabilities are used, and sizes of strata are not")
        return chances
    _require_all(table, "stratum_size", np.isfinite(size) | blank)
    out = chances.copy()
    for s, name in enumerate(strata.names.tolist()):
        own = (strata.codes == s) & ~blank
        if not own.any():
            continue
        labelled, stated = len(unit[own].drop_duplicates()), np.unique(size[own])
        where = f"{table.where('stratum_size')}: stratum {listed([name])}"
        if len(stated) > 1:
            raise DataError(f"{where} has the sizes {stated[0]:g} and {stated[1]:g}; state one for each stratum")
        if stated[0] < labelled:
            raise DataError(
                f"{where} has size {stated[0]:g}, but {labelled:,} of its items have labels; state the number of all its items"
            )
        out[own] = labelled / stated[0]
    return out


def _grades(table: Table) -> pd.Series[Any]:
    """Return the column of labels, with numbers such as ``3.0`` as whole numbers where some are text and others are not.

    Those that are all text stay as they are until they are aligned: verdicts may be written in the same way.

    Raises:
        DataError: for numbers with fractions, which are no classes.
    """
    column = table.frame[table.columns["verdict"]]
    if not (
        pd.api.types.is_float_dtype(column.dtype)
        or column.dtype == object
        or pd.api.types.is_string_dtype(column.dtype)
    ):
        return column
    text = column.astype(object).map(lambda value: isinstance(value, str))
    blank = column.isna() | column.astype(object).map(
        lambda value: isinstance(value, str) and not value.strip()
    ).astype(bool)
    numbers = pd.to_numeric(column.where(~blank), errors="coerce").astype(float)
    booleans = column.astype(object).map(lambda value: isinstance(value, (bool, np.bool_))).any()
    if booleans or blank.all() or not np.isfinite(numbers[~blank]).all():
        return column
    fractions = np.flatnonzero(~blank & (numbers % 1 != 0))
    if len(fractions):
        raise DataError(
            f"{table.where('verdict')}, {rows_text(fractions)}: {numbers.iloc[fractions[0]]:g} is a score, and labels of people "
            f"are classes; round them to the grades that judges give, or write pass and fail by a threshold"
        )
    if (
        text[~blank].all()
        or not (text & column.astype(str).str.contains(".", regex=False)).any()
        or numbers.abs().max() >= 2**53
    ):
        return column
    return numbers.astype("Int64")


def _require_all(table: Table, role: str, stated: npt.NDArray[np.bool_]) -> None:
    """Refuse gaps in a column: labels that were chosen in a known and in an unknown way cannot be weighted together."""
    if table.columns[role] is not None and not stated.all():
        rows = rows_text(np.flatnonzero(~stated))
        raise DataError(f"{table.where(role)}, {rows}: {role} missing; state it for every label, or drop the column")


def _some_item(verdicts: Verdicts) -> Any:
    """Return the name of a judged item that is one of several answers."""
    return next((name for name in verdicts.items.tolist() if " answer " in str(name)), verdicts.items.tolist()[0])
