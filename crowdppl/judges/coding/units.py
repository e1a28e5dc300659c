"""The items that are judged: answers of systems, or pairs of answers of two systems; or such an answer or pair by question."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.data.table.identifiers import Coded, kind_of, rows_text
from crowdppl.errors import DataError, listed
from crowdppl.judges.coding import values
from crowdppl.judges.coding.table import Table

Array = npt.NDArray[Any]
Codes = npt.NDArray[np.int64]

SEPARATOR, AGAINST = " / ", " : "
# Default names of the column of answers: several of a system to a question.
ANSWERS = ("answer", "epoch", "repeat")


class Units(NamedTuple):
    """Items, their systems and questions; fields as in :class:`crowdppl.judges.Verdicts`.

    ``turned`` is whether a row states the two systems of its item in the other order, ``(n,)``.
    """

    items: Array
    item: Codes
    systems: Array
    system: Codes
    opponent: Codes
    questions: Array
    question: Codes
    pairs: bool
    turned: npt.NDArray[np.bool_]
    notes: tuple[str, ...]


class _Judged(NamedTuple):
    """What is judged in the rows of a table: one of ``G`` systems, or of ``G`` pairs of systems.

    Attributes:
        codes: of each row, ``(n,)``; -1 if not stated.
        names: of the systems or pairs, ``(G,)``.
        systems: names of the systems, ``(M,)``.
        system: system of each, ``(G,)``.
        opponent: second system of each, ``(G,)``; -1 for single systems.
        turned: whether a row states the two systems in the other order than the first row on the item, ``(n,)``.
    """

    codes: Codes
    names: Array
    systems: Array
    system: Codes
    opponent: Codes
    turned: npt.NDArray[np.bool_]


def unit_name(question: object, system: object, opponent: object = None) -> str:
    """Return the name of the answer of a system to a question, or of the answers of two systems."""
    return f"{question}{SEPARATOR}{system if opponent is None else pair_name(system, opponent)}"


def turn_of(question: Any, turn: Any) -> str:
    """Return the name of an item that is one turn of a conversation."""
    return f"{question}, turn {turn}"


def answer_name(question: object, answer: object) -> str:
    """Return the name of one of several answers of a system to a question."""
    return f"{question}{SEPARATOR}answer {answer}"


def pair_name(system: object, opponent: object) -> str:
    """Return the name of a pair of systems."""
    return f"{system}{AGAINST}{opponent}"


def two_systems(table: Table) -> tuple[Array, Codes, Codes]:
    """Return the names of systems and opponents together, ``(M,)``, and the codes of both, -1 if not stated, ``(n,)``."""
    system, opponent = table.names("system"), table.names("opponent")
    names = list(dict.fromkeys([*system.names.tolist(), *opponent.names.tolist()]))
    place = {name: n for n, name in enumerate(names)}
    first, second = (
        np.array([*(place[name] for name in one.names.tolist()), -1], dtype=np.int64)[one.codes]
        for one in (system, opponent)
    )
    same = len(system.names) and (not len(opponent.names) or opponent.names.dtype == system.names.dtype)
    return np.array(names, dtype=system.names.dtype if same else object), first, second


def units(table: Table) -> Units:
    """Return the items of a table.

    An identifier that occurs with several systems, or with several pairs of systems, names a question, and an item is then the
    question with a system or pair. With a column of questions, each identifier names one answer or one pair of answers. An
    identifier with several answers of a system (epochs, repeats) names a question, too, and each answer is an item.

    Raises:
        DataError: if a system, an answer or a question is not clear.
    """
    asked_item, question = table.required("item"), table.names("question")
    item, of_item, answered = _answers(table, asked_item)
    judged = _judged(table)
    first, several = values.constant(judged.codes, item.codes, len(item.names))
    if len(several) and table.columns["question"] is not None:
        at = item.codes[several[0]]
        here, before = judged.names[judged.codes[several[0]]], judged.names[first[at]]
        raise DataError(
            f"{table.where('system')}, {rows_text(several)}: item {listed([item.names[at]])} is an answer of {listed([here])}, "
            f"but of {listed([before])} in a row before; give each answer an item of its own, or drop the column of questions if "
            f"items are questions"
        )
    if not len(several):
        asked = table.one_per(question, "question", item, "item")
        questions = question.names
        if answered and table.columns["question"] is None:
            questions, asked = asked_item.names, of_item
        system, opponent = np.append(judged.system, -1)[first], np.append(judged.opponent, -1)[first]
        return Units(
            item.names, item.codes, judged.systems, system, opponent, questions, asked, False, judged.turned, answered
        )
    return _of_questions(table, judged, item, asked_item.names, of_item, answered)


def _of_questions(
    table: Table, judged: _Judged, item: Coded, questions: Array, of_item: Codes, notes: tuple[str, ...]
) -> Units:
    """Return the units of a table whose identifiers are questions: each with a system, or with two.

    Args:
        table: the verdicts.
        judged: the systems of each row.
        item: identifiers of the rows, each of several answers of a system apart.
        questions: as the table names them.
        of_item: the question of each identifier.
        notes: on several answers of a system.

    Raises:
        DataError: if a system is missing, or two units have one name.
    """
    one, plural = ("system", "systems") if (judged.opponent < 0).all() else ("two systems", "pairs of systems")
    G = len(judged.names)
    if (judged.codes < 0).any():
        raise DataError(
            f"{table.where('system')}, {rows_text(np.flatnonzero(judged.codes < 0))}: system missing, where other rows have "
            f"several systems for one item; fill it in or drop the rows"
        )
    codes, pairs = pd.factorize(item.codes * G + judged.codes)
    names = [unit_name(item.names[pair // G], judged.names[pair % G]) for pair in pairs]
    if len(set(names)) < len(names):
        twice = next(name for n, name in enumerate(names) if name in names[:n])
        raise DataError(
            f"{table.source}: {twice!r} is the name of two pairs of item and system; rename an item or a system without "
            f"{SEPARATOR!r}"
        )
    note = (
        f"{table.source}: items occur with several {plural}, so what is judged is a pair of item and {one}: {len(names):,} pairs "
        f"of {len(item.names):,} items and {G:,} {plural}"
    )
    return Units(
        np.array(names, dtype=object),
        codes.astype(np.int64),
        judged.systems,
        judged.system[pairs % G],
        judged.opponent[pairs % G],
        questions,
        of_item[pairs // G],
        True,
        judged.turned,
        (*notes, note),
    )


def _answers(table: Table, item: Coded) -> tuple[Coded, Codes, tuple[str, ...]]:
    """Return the items of a table with each of several answers of a system as an item of its own.

    Returns:
        The items; the identifier in the table of each, ``(N,)``; and a note, if there are any such answers.

    Raises:
        DataError: if an answer is not stated where others of the same item are.
    """
    answer, system = table.names("answer"), table.names("system")
    rows = pd.DataFrame({"item": item.codes, "system": system.codes, "answer": answer.codes})
    given = rows[rows["answer"] >= 0].drop_duplicates()
    repeated = given[given.duplicated(["item", "system"], keep=False)]["item"].unique()
    numbered = all(str(name).isdigit() for name in answer.names.tolist())
    if not len(repeated) or (not numbered and _are_replies(rows, repeated, table.required("judge").codes)):
        return item, np.arange(len(item.names)), ()
    several = np.isin(item.codes, repeated)
    blank = several & answer.missing
    if blank.any():
        raise DataError(
            f"{table.where('answer')}, {rows_text(np.flatnonzero(blank))}: answer missing, where other rows of the item have "
            f"several; fill it in or drop the rows"
        )
    A = len(answer.names)
    codes, keys = pd.factorize(item.codes * (A + 1) + np.where(several, answer.codes + 1, 0))
    of_item = np.asarray(keys // (A + 1), dtype=np.int64)
    names = [
        str(item.names[i]) if a == 0 else answer_name(item.names[i], answer.names[a - 1])
        for i, a in zip(of_item.tolist(), (keys % (A + 1)).tolist(), strict=True)
    ]
    if len(set(names)) < len(names):
        twice = next(name for n, name in enumerate(names) if name in names[:n])
        raise DataError(f"{table.source}: {twice!r} is the name of two items; rename one of them without {SEPARATOR!r}")
    note = (
        f"{table.source}: {len(repeated):,} items have several answers of a system, each of which is an item of its own "
        f"({len(names):,} in all, such as {next(name for name in names if SEPARATOR in name)!r})"
    )
    return Coded(codes.astype(np.int64), np.array(names, dtype=object)), of_item, (note,)


def _are_replies(rows: pd.DataFrame, repeated: Array, judge: Codes) -> bool:
    """Return whether answers are replies of the judges: several judges have the same items, and never the same answer."""
    some = rows.assign(judge=judge)[np.isin(rows["item"], repeated)].drop_duplicates()
    shared = some.groupby(["item", "system"])["judge"].nunique().max() > 1
    return bool(shared and some.groupby(["item", "system", "answer"])["judge"].nunique().max() == 1)


def _judged(table: Table) -> _Judged:
    """Return what each row of a table judges.

    Raises:
        DataError: with a column of opponents, if a row lacks one of two different systems.
    """
    system = table.names("system")
    M = len(system.names)
    column = table.column("opponent")
    if column is None or column.isna().all():
        none = np.zeros(len(system.codes), dtype=bool)
        return _Judged(system.codes, system.names, system.names, np.arange(M), np.full(M, -1), none)
    if table.columns["system"] is None:
        raise DataError(
            f"{table.source}: there is a column of opponents but none of systems; name the column of the first system with "
            f"system=..."
        )
    system, opponent = table.required("system"), table.required("opponent")
    if kind_of(system.names) != kind_of(opponent.names):
        raise DataError(
            f"{table.where('opponent')}: opponents are {kind_of(opponent.names)} but systems are {kind_of(system.names)}; use "
            f"the same names in both columns"
        )
    systems, first, second = two_systems(table)
    if (first == second).any():
        rows = np.flatnonzero(first == second)
        raise DataError(
            f"{table.where('opponent')}, {rows_text(rows)}: {listed([systems[first[rows[0]]]])} is compared with itself; a pair "
            f"has two systems"
        )
    M = len(systems)
    low, high = np.minimum(first, second), np.maximum(first, second)
    pair = pd.factorize((table.required("item").codes * M + low) * M + high)[0]
    turned = np.zeros(len(first), dtype=bool)
    turned[values.constant((first > second).astype(np.int64), pair, len(first))[1]] = True
    first, second = np.where(turned, second, first), np.where(turned, first, second)
    codes, pairs = pd.factorize(first * M + second)
    a, b = pairs // M, pairs % M
    names = np.array([pair_name(systems[x], systems[y]) for x, y in zip(a, b, strict=True)], dtype=object)
    return _Judged(codes.astype(np.int64), names, systems, a.astype(np.int64), b.astype(np.int64), turned)
