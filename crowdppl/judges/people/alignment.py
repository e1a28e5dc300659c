"""How human labels get the codes of verdicts: the items and classes that both name, matched."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.arguments import checked
from crowdppl.errors import DataError, listed
from crowdppl.judges.coding import values, winners
from crowdppl.judges.coding.states import normalised, state_words
from crowdppl.judges.coding.units import answer_name, unit_name
from crowdppl.judges.model import pairwise
from crowdppl.judges.people.matching import alike, require_common, same_numbers, same_spelling, union
from crowdppl.judges.verdicts import Verdicts

Array = npt.NDArray[Any]
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class AlignableLabels:
    """Labels of items by people as arrays of codes; what they mean is said of :class:`crowdppl.judges.HumanLabels`."""

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

    def __len__(self) -> int:
        """Return the number of labels ``m``."""
        return len(self.item)

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
        named = self._without_winners(verdicts)
        return (self if named is None else named)._aligned(verdicts)

    def _aligned(self, verdicts: Verdicts) -> tuple[Verdicts, Self]:
        """Return verdicts and labels with the same codes; labels name classes, not the better of two systems."""
        notes = list(self.notes)
        kept, label, labels, old = self._common_labels(verdicts, notes)
        item, turned = self._judged_items(verdicts, notes)
        if turned.any():
            label = np.where(turned, pairwise.turned(labels)[label], label)
        kept = self._of_judged_items(verdicts, kept, item, notes)
        self._note_contradictions(item[kept], label[kept], notes)
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
            answer=self.answer[kept] if len(self.answer) else self.answer,
        )

    def _without_winners(self, verdicts: Verdicts) -> Self | None:
        """Return the labels as classes of the judges, where they name the better of two systems; ``None`` for other labels.

        Raises:
            DataError: if a label names another system, or something else beside names of systems.
        """
        if (verdicts.opponent < 0).all() or not len(self) or len(verdicts.labels) < 2:
            return None
        item, turned = self._judged_items(verdicts, [])
        kept = self._without_states(verdicts.labels, [])[0]
        used = kept & (item >= 0)
        systems = np.array([*map(str, verdicts.systems.tolist()), None], dtype=object)
        first, second = (systems[np.append(codes, -1)[item]] for codes in (verdicts.system, verdicts.opponent))
        pair = np.where(turned, second, first)[used], np.where(turned, first, second)[used]
        said = winners.of_pairs(self.labels, self.label[used], pair, verdicts.labels)
        own = np.array(self.labels.tolist(), dtype=object)[self.label]
        if said is None:
            return None
        changed = [(old, new) for old, new in zip(own[used], said, strict=True) if old != new]
        if not changed:
            return None
        old, new = changed[0]
        note = f"human labels such as {listed([old])} name the better system, and are read as {listed([new])}"
        # Labels of items that nobody judged are left out, whatever they name, and labels for states stay what they are.
        own[kept & (item < 0)] = said[0]
        own[used] = said
        code, names = pd.factorize(own)
        classes = verdicts.labels
        if classes.dtype != object and not set(names) <= set(classes.tolist()):
            return None  # classes that are numbers, beside texts
        return dataclasses.replace(
            self, labels=np.asarray(names, dtype=classes.dtype), label=code.astype(np.int64), notes=(*self.notes, note)
        )

    def _common_labels(self, verdicts: Verdicts, notes: list[str]) -> tuple[npt.NDArray[np.bool_], Codes, Array, Codes]:
        """Return which labels are labels, their codes among the classes of both, those classes, and the verdicts' codes there."""
        kept, names = self._without_states(verdicts.labels, notes)
        names, code = same_numbers(names, self.label, verdicts.labels)
        names = alike(names, verdicts.labels, "label", notes) if len(verdicts.labels) else names
        names = same_spelling(names, verdicts.labels, notes)
        require_common(names[np.unique(code[kept])], verdicts.labels)
        labels, old, new = union(verdicts.labels, names, names[np.unique(code[kept])])
        added = [name for name in labels.tolist() if name not in set(verdicts.labels.tolist())]
        if added and len(verdicts.labels):
            notes.append(f"the human labels contain {listed(added)}, which no judge gave; added to the classes")
        return kept, new[code], labels, old

    def _of_judged_items(
        self, verdicts: Verdicts, kept: npt.NDArray[np.bool_], item: Codes, notes: list[str]
    ) -> npt.NDArray[np.bool_]:
        """Return which labels are of a judged item, ``(m,)``, and note the others.

        Raises:
            DataError: if none is.
        """
        unclear = kept & (item < 0) & self._of_several_answers(verdicts)
        if unclear.any():
            sentence = (
                f"{int(unclear.sum()):,} human labels name questions of which several answers were judged, and not which answer "
                f"they are of"
            )
            if not (kept & (item >= 0)).any():
                text = ", or give the text of the answer in another column" if verdicts.outputs else ""
                raise DataError(f"{sentence}; state it in a column 'answer', as in {_some_item(verdicts)!r}{text}")
            notes.append(f"{sentence}; they are left out")
        absent = kept & ~unclear & (item < 0)
        kept = kept & ~unclear & (item >= 0)
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
        return kept

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


def _some_item(verdicts: Verdicts) -> Any:
    """Return the name of a judged item that is one of several answers."""
    return next((name for name in verdicts.items.tolist() if " answer " in str(name)), verdicts.items.tolist()[0])
