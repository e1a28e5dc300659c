"""The column of verdicts as codes of labels and states."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.data.table.identifier_checks import variants
from crowdppl.data.table.identifiers import encode, rows_text
from crowdppl.data.table.missing_words import codes_for_nothing, words_for_nothing
from crowdppl.data.table.spellings import alike, folded
from crowdppl.errors import DataError, listed, warn
from crowdppl.judges.coding import replies, values, winners
from crowdppl.judges.coding.marks import bare, unmarked
from crowdppl.judges.coding.passing import polarity
from crowdppl.judges.coding.states import State, classify, normalised, statuses
from crowdppl.judges.coding.table import Table

# A sentence with a verdict behind it, or before it, also with a reason.
_SENTENCES = (
    re.compile(r".*\s\S*[.:!?\n]\s+(\S+)", re.DOTALL),
    re.compile(r"(\S+?)[.:!?\n]\s.*\s.*", re.DOTALL),
    re.compile(
        r"(\S+?)(?:[,;]|\s[-\u2013\u2014])?(?:\s(?:because|since)\b.*|(?<=[,;\u2013\u2014-])(?:\s+\S+){4,})",
        re.DOTALL | re.IGNORECASE,
    ),
)
# Words before a verdict at the end of a sentence: the answer is right, I choose A.
_STATES = frozenset(
    ("is", "was", "be", "as", "are", "say", "says", "choose", "pick", "select", "answer", "grade", "rate", "rated")
)
# Replies of judges that give no verdict.
_FAILED = re.compile(
    r"\b[45]\d\d\W{1,3}(bad request|unauthorized|forbidden|not found|too many requests|internal server error|bad gateway"
    r"|service unavailable|gateway time-?out|overloaded)\b|"
    r"\b(time(d)? ?out|rate[ _-]?limit(ed)?|quota exceeded|content[ _-]filter(ed)?|safety|blocked|as an ai)\b"
    r"|\b(can't|cannot|can not|unable to|won't) (answer|assist|help|evaluate|judge|comply|provide)\b"
    r"|^(i('m| am)? )?(sorry|cannot|can't|can not|unable)\b|^i (won't|will not|refuse)\b",
    re.IGNORECASE,
)
# The same where they are rare beside a verdict that passes and one that does not.
_UNDECIDED = re.compile(r"\W*(inconclusive|indeterminate|undetermined)\W*", re.IGNORECASE)

Array = npt.NDArray[Any]
Codes = npt.NDArray[np.int64]


# A number as text: with a point, with a comma from 0 to 1, with an exponent, as a share, or of a number of points.
_NUMBER = re.compile(
    r"([+-]?(?:\d+(?:\.\d*)?|\.\d+|0,\d+|1,0+)(?:e[+-]?\d{1,3})?)(\s?%|\s?/\s?\d+)?", re.ASCII | re.IGNORECASE
)
# Number of grades with decimals that are classes, and the steps of more; rows from which verdicts are compared with their number,
# the share of different ones from which they are no classes, and the words of a reply with a reason.
MOST_GRADES, STEPS, ENOUGH, MOSTLY, REPLY = 11, 2, 20, 0.8, 4
# Replies without a verdict are at most one row in so many.
RARE = 4


class Labelled(NamedTuple):
    """Codes ``(n,)``, -1 without a label, and names ``(K,)`` of labels, the state of each row ``(n,)``, and what is declared."""

    label: Codes
    labels: Array
    state: npt.NDArray[np.int8]
    ordered: bool | None


def labelled(
    table: Table,
    judge: Codes,
    words: dict[str, State],
    labels: list[Any] | None,
    ordered: bool | None,
    notes: list[str],
) -> Labelled:
    """Code the column of verdicts.

    Args:
        table: the verdicts, with the roles ``verdict``, ``score`` and ``status``.
        judge: judge of each row, ``(n,)``.
        words: texts that stand for states.
        labels: declared classes.
        ordered: whether the classes are ordered.
        notes: receives what is unusual.

    Raises:
        DataError: if there is neither a column of verdicts nor one of scores, or a verdict cannot be used.
    """
    stated, status = words, table.column("status")
    column, words = _verdicts(table, words, labels or (), notes)
    if labels is None and table.columns["opponent"] is not None and column.dtype.kind != "b":
        one, other = (values.named(role.names, role.codes) for role in map(table.names, ("system", "opponent")))
        column = winners.by_side(column, one, other, words, table.where("verdict"), notes)
    if isinstance(column.dtype, pd.CategoricalDtype):
        ordered = bool(column.cat.ordered) if ordered is None else ordered
        if labels is None:
            categories = column.cat.categories.tolist()
            labels = [c for c in categories if not (isinstance(c, str) and normalised(c) in {"", *words})] or None
    where = table.where("verdict")
    verdict = classify(
        column,
        words,
        None if status is None else statuses(status, table.where("status")),
        where,
        declared=frozenset(normalised(one) for one in labels or () if isinstance(one, str)),
        pairs=table.columns["opponent"] is not None,
    )
    given = np.flatnonzero(~verdict.label.missing)
    codes, names = encode(verdict.label.take(given), labels, "label", where, rows=given, ordered=True)
    if labels is None:
        notes += _require_classes(codes, names, where)
        codes, names = _folded(codes, names, judge[given], table.source, notes)
    label = np.full(len(column), -1, dtype=np.int64)
    label[given] = codes
    # Replies without a verdict have a note of their own.
    noted = {
        text: n for text, n in verdict.words.items() if normalised(text) in stated or normalised(text) not in words
    }
    _review(names, noted, table.source, notes)
    if labels is None:
        notes += _perhaps_nothing(names, np.bincount(codes, minlength=len(names)).tolist(), table.source)
        notes += _sentences(names, table.source)
    return Labelled(label, names, verdict.state, ordered)


def _require_classes(codes: Codes, names: Array, where: str) -> list[str]:
    """Refuse verdicts that are no classes: many numbers with decimals written as text, and replies that are mostly different.

    Returns:
        A note on numbers with decimals that may be grades: a few, or more of them in steps of a half.

    Raises:
        DataError: for these, with the rows.
    """
    if names.dtype != object or not len(names):
        return []
    numbers = {n: match for n, name in enumerate(names.tolist()) if (match := _NUMBER.fullmatch(bare(str(name))))}
    values = {n: float(match[1].replace(",", ".")) for n, match in numbers.items()}
    shares = [n for n, match in numbers.items() if (match[2] or "").endswith("%")]
    between = [n for n, value in values.items() if (value * STEPS) % 1]
    part = next((n for n in numbers if numbers[n][2] or values[n] % 1), None)
    if part is not None and len(numbers) >= MOSTLY * len(names):
        if len(numbers) <= MOST_GRADES or not (shares or between):
            return [
                f"{where}: verdicts such as {names[part]!r} are numbers with decimals or shares and read as classes; if "
                f"they are scores, pass them as score=..."
            ]
        one = (between or shares)[0]
        what = "a share" if one in shares else "not a whole number"
        raise DataError(
            f"{where}, {rows_text(np.flatnonzero(codes == one))}: verdict {names[one]} is {what}; pass a judge's numbers as "
            f"score=..., or declare the classes with labels=[...]"
        )
    replies = sum(len(str(name).split()) >= REPLY for name in names.tolist())
    if len(codes) >= ENOUGH and len(names) > MOSTLY * len(codes) and 2 * replies > len(names):
        raise DataError(
            f"{where}: {len(names):,} different verdicts in {len(codes):,} rows, such as {listed(names.tolist(), 2)}; if "
            f"these are replies with reasons, write the verdict in a column of its own; if they are "
            f"classes, declare them with labels=[...]"
        )
    return []


def _verdicts(
    table: Table, words: dict[str, State], labels: Sequence[Any], notes: list[str]
) -> tuple[pd.Series[Any], dict[str, State]]:
    """Return the column of verdicts, read out of replies, and the texts that stand for states; of scores alone, no verdicts.

    Raises:
        DataError: if there is neither a column of verdicts nor one of scores.
    """
    column = table.column("verdict")
    if column is not None:
        if isinstance(column.dtype, pd.CategoricalDtype):
            return column, words
        return replies.verdicts_in(column, table.where("verdict"), notes, words, labels)
    if table.column("score") is None:
        raise DataError(
            f"{table.source}: no column 'verdict' and no column 'score'; columns are "
            f"{listed(map(str, table.frame.columns), 12)}; name the column of verdicts with verdict=..., or that of scores "
            f"with score=..."
        )
    return pd.Series(np.full(len(table.frame), None), dtype=object), words


def _folded(codes: Codes, names: Array, judge: Codes, source: str, notes: list[str]) -> tuple[Codes, Array]:
    """Return labels with spellings of one name as one, the most frequent: not those that a judge uses apart."""
    groups = _spellings(codes, names, judge) if names.dtype == object else []
    if not groups:
        return codes, names
    names = names.copy()
    place = {name: n for n, name in enumerate(names.tolist())}
    count = np.bincount(codes, minlength=len(names))
    to = np.arange(len(names))
    with_marks = False
    for group in groups:
        same = [place[name] for name in group]
        # A spelling without marks, and the most frequent one.
        best = max(same, key=lambda n: (folded(str(names[n])) == bare(str(names[n])), count[n]))
        to[same] = best
        others = [names[n] for n in same if n != best]
        plain = unmarked(str(names[best]))
        if plain and plain not in place:
            others = [*others, names[best]] if plain != names[best] else others
            names[best] = plain
        rows = int(count[same].sum() - (count[best] if plain in place else 0))
        marked = len({folded(name) for name in group}) > 1
        with_marks |= marked
        notes.append(
            f"{source}: {rows:,} verdicts {listed(others)} read as {names[best]!r}, which differ in capitals or white "
            f"space{' or marks around them' if marked else ''}"
        )
    kept = np.unique(to)
    if with_marks:
        _unmark(names, kept, source, notes)
    order = np.argsort(names[kept], kind="stable")
    place_of = np.empty(len(order), dtype=np.int64)
    place_of[order] = np.arange(len(order))
    return place_of[np.searchsorted(kept, to)[codes]], names[kept][order]


def _spellings(codes: Codes, names: Array, judge: Codes) -> list[list[str]]:
    """Return groups of names that are spellings of one class.

    Capitals may tell classes apart, where a judge uses several and none passes or fails by its name; marks never do.
    """
    groups = alike(names.tolist(), bare)
    if not groups:
        return []
    used = pd.DataFrame({"name": names[codes], "judge": judge}).drop_duplicates()
    out = []
    for group in groups:
        forms = used[used["name"].isin(group)]
        forms = forms.assign(name=forms["name"].map(unmarked)).drop_duplicates()
        apart = forms["judge"].duplicated().any() and not polarity(bare(group[0]))
        out += alike(group, unmarked) if apart else [group]
    return out


def _unmark(names: Array, kept: Array, source: str, notes: list[str]) -> None:
    """Rename classes with marks in place, where others have lost theirs: all have their names without, or none."""
    taken = set(names[kept].tolist())
    renamed: dict[str, str] = {}
    for n in kept.tolist():
        plain = unmarked(names[n])
        if plain and plain not in taken:
            renamed[names[n]] = plain
            names[n] = plain
            taken.add(plain)
    if renamed:
        first = next(iter(renamed))
        notes.append(
            f"{source}: verdicts {listed(renamed)} are named without the marks around them, as others are, such as {first!r} as "
            f"{renamed[first]!r}"
        )


def _sentences(names: Array, source: str) -> list[str]:
    """Return a note on verdicts that are sentences and end or begin with another verdict: ``The answer is right. PASS``."""
    plain = {bare(name): name for name in names.tolist() if isinstance(name, str)}
    for name in plain.values():
        ends = [part for form in _SENTENCES if (match := form.fullmatch(name.strip())) for part in match.groups()]
        words = name.split()
        ends += words[-1:] if len(words) > 2 and words[-2].casefold() in _STATES else []
        end = next((plain[key] for part in ends if (key := bare(part)) in plain and plain[key] != name), None)
        if end is not None:
            return [
                f"{source}: {name!r} is taken for a class of its own, though it has the verdict {end!r} at its end or beginning; "
                f"if that is meant, write it in its place"
            ]
    return []


def _perhaps_nothing(names: Array, counts: Sequence[int], source: str) -> list[str]:
    """Return a note on verdicts that may stand for none, such as "timeout", -1, or a reply without a verdict.

    Such replies are rare texts, mostly different, of more words than the classes have, and these are a usual pair of verdicts.

    Args:
        names: the classes, ``(K,)``.
        counts: number of rows with each.
        source: name of the table in messages.
    """
    texts = [str(name) for name in names.tolist()]
    doubtful = codes_for_nothing(texts)
    if names.dtype == object:
        failed = [text for text in texts if _FAILED.search(text)]
        usual = {1, -1} <= {polarity(bare(text)) for text in texts}
        undecided = [n for n, text in enumerate(texts) if usual and _UNDECIDED.fullmatch(text)]
        if RARE * sum(counts[n] for n in undecided) <= sum(counts):
            failed += [texts[n] for n in undecided]
        plain = {bare(text) for text in texts if len(text.split()) < REPLY - 1}
        long = [n for n, text in enumerate(texts) if len(text.split()) >= REPLY - 1 and not polarity(bare(text))]
        rows = sum(counts[n] for n in long)
        if usual and rows <= 2 * len(long) and RARE * rows <= sum(counts):
            failed += [texts[n] for n in long if plain.isdisjoint(map(bare, texts[n].split()))]
        nothing, unclear = words_for_nothing(texts)
        doubtful = list(dict.fromkeys([*doubtful, *sorted(nothing), *unclear, *failed]))
    if not doubtful or len(doubtful) == len(texts):
        return []
    advice = "list it in unparseable=[...] or abstained=[...]" if names.dtype == object else "leave these cells blank"
    return [f"{source}: {listed(doubtful, 3)} taken for a class; if it stands for no verdict, {advice}"]


def with_scores(judge: Codes, verdicts: Labelled, scores: npt.NDArray[np.float64]) -> npt.NDArray[np.int8]:
    """Return the states ``(n,)``, with the scores of judges that never give a verdict as ``GIVEN``."""
    gives_labels = np.isin(judge, judge[verdicts.label >= 0])
    state = verdicts.state.copy()
    state[np.isfinite(scores) & ~gives_labels & (state == State.MISSING)] = State.GIVEN
    return state


def _review(names: Array, words: dict[str, int], source: str, notes: list[str]) -> None:
    """Note texts that were taken for states, and labels that are probably meant to be the same."""
    counts = ", ".join(f"{count:,} {text!r}" for text, count in words.items())
    if words:
        notes.append(
            f"{source}: read as states, not as verdicts: {counts}; if one is a class, declare it with labels=[...]"
        )
    if len(names) == 1:
        beside = f" beside {counts}, read as states" if words else ""
        notes.append(
            f"{source}: every verdict is {listed(names.tolist())}{beside}; declare all classes with labels=[...]"
        )
        warn(notes[-1])
    for name, other in variants(names)[:1]:
        notes.append(
            f"{source}: labels {name!r} and {other!r} differ in capitals or white space only, and are different classes; write "
            f"them alike if they are the same"
        )
        warn(notes[-1])
