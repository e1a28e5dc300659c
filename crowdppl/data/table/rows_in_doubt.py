"""Rows and columns of a table of annotations that may not be what they seem: notes on what a careful reader would ask."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow

from crowdppl.data.table.columns import named_as_values
from crowdppl.data.table.columns_alike import notes_on_names, notes_on_people
from crowdppl.data.table.identifier_checks import written_number
from crowdppl.data.table.identifiers import storable
from crowdppl.data.table.missing_words import EITHER, MARKS, PROGRAMS
from crowdppl.data.table.places_in_doubt import PART, PLACE
from crowdppl.data.table.questions import USUAL
from crowdppl.errors import listed

Array = npt.NDArray[Any]

# Rows that share nothing with any other row are named up to this number, or as a block at the end of a table twice as long.
_MOST_ALONE, _FEWEST = 2, 4
_STATUS = re.compile(
    r"(assignment|review|approval|annotation|submission|work|payment|participant|response|session|completion)?_?(status|state"
    r"|decision)|(is_?|was_?)?(deleted?|reject(ed)?"
    r"|discard(ed)?|cancell?ed|excluded?|invalid|spam|draft|archived|removed?|voided|superseded|obsolete|outdated|withdrawn"
    r"|retracted|overwritten|replaced|practi[cs]e(_?trial)?|training(_?(trial|item))?|warm_?up|tutorial|trap|catch_?trial"
    r"|attention_?(check|test|trial)|screening|failed_?((attention|quality)_?)?check|skip(ped)?|flagged|duplicated?|hidden|bot"
    r"|preview|test_?(user|run|data)?|expired|failed|timed_?out|abandoned|ignored?|outlier|suspicious|fraud(ulent)?|cheater|banned"
    r"|blocked)"
)
# Flags of rows that count, and dates of what ends a row.
_COUNTS = re.compile(
    r"(is_?|was_?)?(latest|current|valid|accept(ed)?|approved?|includ(ed?)|keep|kept|usable|submitted|completed?|finished|done"
    r"|consent(ed)?|counted|eligible)"
    r"(_?(annotation|label|row|version))?|passed(_?(attention|quality|screening))?(_?checks?)?"
)
# Of these, what may be said of items, too.
_COUNTS_OF_ITEMS_TOO = re.compile(
    r"(is_?|was_?)?(completed?|finished|done|consent(ed)?|counted|eligible)(_?(annotation|label|row|version))?"
    r"|passed(_?(attention|quality|screening))?"
)
# Reasons for which a row does not count, and shares of a survey that were done.
_REASON = re.compile(
    r"(exclu(ded?|sion)|reject(ed|ion)|remov(ed|al)|discard(ed)?|drop(ped)?|invalid)_?reason|reason_?(for_?)?"
    r"(exclu(ded|sion)|reject(ed|ion)|removal)"
)
_PROGRESS = re.compile(r"progress|(percent|pct)_?(complete(d)?|done)|completion")
_ENDED = re.compile(
    r"(deleted|removed|rejected|cancell?ed|discarded|superseded|archived|withdrawn|voided|invalidated|retracted)"
    r"_(at|on|date|time|timestamp)"
)
# Columns that say in what part of a study a row was given, and parts that do not count.
_PART = re.compile(r"(trial|block|task|session|round|item|question)_?(type|kind)|phase|stage|block|mode")
_NO_PART = re.compile(
    r"(practi[cs]e|training|warm[ _-]?up|tutorial|qualification|calibration|screening|demo|catch"
    r"|attention([ _-]?check)?|instructed)"
    r"([ _-]?(trial|item|phase|block|round|set|test|question)s?)?([ _-]?\d)?"
)
# Columns by which a later answer of a worker replaces an earlier one, and with a label in place of the one that is read.
_VERSION = re.compile(r"(annotation_?|label_?|answer_?)?(version|revision|edit)(_?(id|no|nr|num|number|index))?")
_CORRECTED = re.compile(
    r"(corrected|revised|updated|new|fixed|reviewed|edited|post_?review)_?(label|class|answer|annotation|category|rating)"
)
_REFUSED = frozenset(
    (
        "rejected",
        "deleted",
        "discarded",
        "draft",
        "cancelled",
        "canceled",
        "excluded",
        "invalid",
        "spam",
        "archived",
        "removed",
    )
)
# Flags that may be said of items, too.
_OF_ITEMS_TOO = re.compile(
    r"(is_?|was_?)?(flagged|duplicated?|hidden|preview|test_?(user|run|data)?|expired|failed|outlier|suspicious|fraud(ulent)?|bot"
    r"|banned|blocked|cheater|ignored?)"
)
# Flags that may also count, or number rows, runs and sessions.
_MAY_COUNT = re.compile(_OF_ITEMS_TOO.pattern + r"|skip(ped)?|timed_?out|abandoned")
# The same of studies and surveys, which may be said of items, too: of these all rows of an item have one.
_ENDED_WORK = frozenset(
    (
        *(
            "returned",
            "timed out",
            "timed-out",
            "timedout",
            "expired",
            "abandoned",
            "screened out",
            "incomplete",
            "unfinished",
        ),
        *(
            "in progress",
            "in_progress",
            "skipped",
            "failed",
            "survey preview",
            "preview",
            "test",
            "spam",
            "bot",
            "duplicate",
        ),
        *(
            "flagged",
            "withdrawn",
            "superseded",
            "disqualified",
            "no consent",
            "not consented",
            "not submitted",
            "revoked",
        ),
    )
)
# Columns that say what a row is, and what is no annotation of a worker among annotations of an item.
_KIND = re.compile(r"((annotation|label|annotator|record|row|author|worker|source)_?)?(type|kind|source|origin|role)")
_KIND_FLAG = re.compile(
    r"(is_?|was_?)?(gold(en)?(_?standard)?|prediction|predicted|model|auto(matic(ally)?)?|machine|pre_?annotat(ed|ion)|synthetic"
    r"|consensus|adjudicat(ed|ion)|ground_?truth|llm|ai)"
)
# Of these an item has one row: where several have a mark, it may say that they agree with it.
_ONE_OF_ITEM = re.compile(r"(is_?|was_?)?(consensus|adjudicat(ed|ion))")
_NO_ANNOTATION = re.compile(
    r"(model|machine|auto(matic)?|ai|llm|silver)?[ _-]?(predictions?|predicted|suggestions?|pre[ _-]?(annotations?|label(s|ed)?))"
    r"|model|machine|auto(mated|matic|matically generated)?|ai|llm|bot|gold(en)?([ _-]?(standard|label))?|ground[ _-]?truth"
    r"|consensus|majority([ _-]?vote)?|aggregated?|adjudicat(ed|ion|or)|final|resolved|test[ _-]?question|synthetic|simulated"
)
_TRUE = re.compile(
    r"(gold|true|truth|ground_?truth|correct|reference|expert|adjudicated)(_?(label|class|answer|standard|value))?"
)
_INPUT = re.compile(r"text|sentence|tweet|content|document|passage|image|image_?url|url|file_?name|question_?text|post")
_ITEM_ID = re.compile(
    r"(item|task|text|doc(ument)?|image|example|sample|question|unit|post|tweet|sentence|record|subject|hit|stimulus)_?"
    r"(id|number|no|key|name|index|uuid)?"
)
# Items of which each row has an input of its own, their share from which identifiers were used again, and such inputs: addresses
# and names of files may be those of annotations. Signs that separate words in them.
_FEW_ITEMS, _NEARLY, _APART = 3, 0.9, re.compile(r"[\W_]+")
_SHOWN = re.compile(r"tweet|passage|document|image|question_?text")
# Frame attribute: columns on which the reader of the file has a note.
NOTED = "crowdppl_noted"
# Rows at the beginning of a table by which a column that is not used is judged, those of which values are read, and letters of a
# name that is no part of a word.
_ROWS, _LOOKED_AT, _LONG = 100_000, 100, 4
_YES = frozenset(("true", "1", "yes", "y", "t", "x", "1.0"))
_NO = frozenset(("false", "0", "no", "n", "f", "", "0.0"))
_COUNT = re.compile(
    r"n|count|counts|freq|frequency|weight|weights|votes|n_?(votes|times|labels|annotations)|num_?(votes|times)"
)
# Names of columns of which the values are looked at. Inputs, which may be long texts, and further identifiers are looked at
# where they were read anyway.
_TELLING = (
    _STATUS,
    _COUNTS,
    _ENDED,
    _REASON,
    _PROGRESS,
    _PART,
    _VERSION,
    _CORRECTED,
    _COUNT,
    _TRUE,
    _KIND,
    _KIND_FLAG,
    PLACE,
    PART,
)
# Kinds of types of numbers, and of dates and durations.
_NUMBERS, _DATES = "iuf", "mM"
# A date has a digit other than 0, which a date of zeros has not; that of the first year is the smallest of some programs.
_DIGIT, _FIRST_DAY = re.compile(r"[^\D0]"), re.compile(r"0001-01-01([ t]00:00.*)?")
_YEAR = re.compile(r"[12]\d{3}[-/.]?\d")
_ZEROS = re.compile(r"(?<=\d)\.0+$")
# What stands for no label, and what does where no label is written so.
_NO_LABEL = frozenset(map(str.casefold, PROGRAMS))
_NO_OTHER_LABEL = MARKS | EITHER | {"0", "false"}


def tells(name: Any) -> bool:
    """Return whether a column may, by its name, say that rows are of several questions, do not count, or count several times."""
    plain = str(name).strip().lower()
    underscored = plain.replace(" ", "_").replace("-", "_")
    return plain in USUAL or any(pattern.fullmatch(underscored) for pattern in _TELLING)


def notes_on_rows(columns: Sequence[Array], names: Sequence[Array], rows: Array | None, source: str) -> list[str]:
    """Return a note on rows with an item, a worker and a label that no other row has, such as units, types or a sum.

    They are at the beginning or the end of the table, or have a word where all other rows have numbers.

    Args:
        columns: codes of item, worker and label of each annotation, ``(A,)`` each, in the order of the table.
        names: items, workers and labels.
        rows: rows of the annotations in the table; ``None`` if they are the whole table.
        source: name of the table.
    """
    size = len(columns[0])
    if size < _FEWEST or min(map(len, names)) < 3:
        return []
    alone = np.ones(size, dtype=bool)
    for codes, distinct in zip(columns, names, strict=True):
        alone &= np.bincount(codes, minlength=len(distinct))[codes] == 1
    at = np.flatnonzero(alone)
    if not len(at) or size <= 2 * len(at):
        return []
    if len(at) > _MOST_ALONE and at[0] != size - len(at):
        return []
    block = range(int(at[0]), size) if len(at) == size - at[0] else ()
    chosen = [n for n in at.tolist() if n in (0, *block) or _among_numbers(columns, names, n)]
    if not chosen:
        return []
    cells = [str(distinct[codes[chosen[0]]]) for codes, distinct in zip(columns, names, strict=True)]
    numbers = [(n if rows is None else int(rows[n])) + 1 for n in chosen]
    which, it, s, them = f"row {numbers[0]:,} ({listed(cells)}) shares", "it is", "", "it"
    if len(chosen) > 1:
        which, it, s, them = f"rows {listed(numbers)} ({listed(cells)}, ...) share", "they are", "s", "them"
    return [
        f"{source}: {which} item, worker and label with no other row; if {it} no annotation{s}, such as a line of units, types "
        f"or sums, or another table below, delete {them}"
    ]


def _among_numbers(columns: Sequence[Array], names: Sequence[Array], row: int) -> bool:
    for codes, distinct in zip(columns[:2], names[:2], strict=True):
        words = [n for n, name in enumerate(distinct.tolist()) if not written_number(str(name))]
        if words == [int(codes[row])]:
            return True
    return False


def notes_on_columns(
    frame: pd.DataFrame, used: Sequence[Any], source: str, named: Collection[str] = (), truth_known: bool = False
) -> list[str]:
    """Return notes on columns that are not used and say that some rows do not count, or count several times.

    Args:
        frame: the table.
        used: names of the columns of item, worker and label.
        source: name of the table.
        named: further columns that the caller named.
        truth_known: whether the caller gave known true labels.
    """
    notes = []
    named = {*named, *frame.attrs.get(NOTED, ())}
    names = {str(name).strip().lower().replace(" ", "_").replace("-", "_"): name for name in frame.columns}
    items = cache(lambda: _codes(frame[used[0]]))
    for plain, name in names.items():
        if name in used or name in named or isinstance(frame[name], pd.DataFrame) or _is_nested(frame[name]):
            continue
        if _STATUS.fullmatch(plain):
            notes += _of_status(frame[name], plain, items, source)
        elif _COUNTS.fullmatch(plain) or _ENDED.fullmatch(plain) or _PART.fullmatch(plain):
            notes += _of_rows_left(frame[name], plain, items, source)
        elif _REASON.fullmatch(plain) or _PROGRESS.fullmatch(plain):
            notes += _of_work(frame[name], plain, (items, lambda: _codes(frame[used[2]])), source)
        elif _VERSION.fullmatch(plain):
            notes += _of_versions(frame, used, name, source)
        elif _CORRECTED.fullmatch(plain):
            notes += _of_corrections(frame, used, name, source)
        elif _COUNT.fullmatch(plain):
            notes += _of_counts(frame[name], frame[used[0]], source)
        elif _TRUE.fullmatch(plain) and not truth_known:
            notes += _of_truth(frame.iloc[:_ROWS], used, name, source) or _of_kinds(frame[name], items, plain, source)
        elif _KIND.fullmatch(plain) or _KIND_FLAG.fullmatch(plain):
            notes += _of_kinds(frame[name], items, plain, source)
        elif _INPUT.fullmatch(plain):
            first = frame.iloc[:_ROWS]
            notes += _of_inputs(first[used[0]], first[used[1]], first[name], source)
    as_values = named_as_values(frame, used) if not {"task", "item", "worker", "label"} & set(map(str, used)) else []
    notes += _of_single_rows(frame, used[0], names, source) + notes_on_names(frame, used, source)
    if len(as_values) > 1:
        notes.append(
            f"{source}: the names of the columns, {listed(as_values)}, are values in them: the table probably has no header, and "
            f"its first row was read as one; add a line with names"
        )
    if used[0] in ("task", "item") and {"task", "item"} <= set(frame.columns):
        notes += _of_two(frame, used[0], "item" if used[0] == "task" else "task", source)
    return notes + notes_on_people(frame, used, source)


def _is_nested(column: pd.Series[Any]) -> bool:
    """Return whether a column of Arrow holds lists or objects, which say nothing of a row here."""
    kind = column.dtype
    return isinstance(kind, pd.ArrowDtype) and pyarrow.types.is_nested(kind.pyarrow_dtype)


def _values(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return how often each value occurs, as text in lower case."""
    try:
        counts = column.value_counts()
    except (TypeError, NotImplementedError):  # lists, objects, and types that Arrow does not compare
        return pd.Series(dtype=int)
    counts.index = pd.Index([storable(_plain(value)) for value in counts.index])
    return counts.groupby(level=0, sort=False).sum()  # of true and True


def _plain(value: Any) -> str:
    return str(value).strip().casefold()


def _distinct(column: pd.Series[Any] | pd.DataFrame) -> tuple[Array, Array] | None:
    """Return equal values as equal codes, -1 if missing, and the values; ``None`` as for :func:`_codes`."""
    if isinstance(column, pd.DataFrame):
        return None
    try:
        codes, values = pd.factorize(column)
    except (TypeError, NotImplementedError):  # lists, objects, arrays, and types that Arrow does not compare
        return None
    return np.asarray(codes), np.asarray(values, dtype=object)


def _of_status(column: pd.Series[Any], plain: str, items: Callable[[], Array | None], source: str) -> list[str]:
    is_flag = not re.search("status|state|decision", plain)
    if column.dtype.kind in _DATES:
        return []
    shown = column
    if column.dtype.kind in _NUMBERS:
        # Of numbers, which may be many, these can be flags. Where others count, or number rows, these do, too.
        flags = column.isin((0, 1))
        if not is_flag or (_MAY_COUNT.fullmatch(plain) and not bool((flags | column.isna()).all())):
            return []
        shown = column[flags]
    counts = _values(shown)
    if is_flag and not set(counts.index) <= _YES | _NO:
        return []
    wanted = _YES if is_flag else _REFUSED | _ENDED_WORK
    refused = [value for value in counts.index if value in wanted]
    size = int(counts[refused].sum()) if refused else 0
    if not 0 < size < len(column):
        return []
    of_items_too = _OF_ITEMS_TOO.fullmatch(plain) if is_flag else not _REFUSED.intersection(refused)
    if of_items_too and _of_item(column, items):
        return []
    rows = "1 row has" if size == 1 else f"{size:,} rows have"
    return [
        f"{source}: {rows} {listed(refused, 3)} in the column {str(column.name)!r}, which is not used; if these annotations are "
        f"not to count, drop the rows"
    ]


def _of_item(column: pd.Series[Any], items: Callable[[], Array | None]) -> bool:
    """Return whether a column says something of items: of several rows of one, all have the same value, for several items."""
    of_item, known = items(), _codes(column)
    if of_item is None or known is None:
        return False
    given = of_item >= 0
    of_item, known = of_item[given], known[given]
    size = int(of_item.max(initial=-1)) + 1
    value = np.zeros(size, dtype=known.dtype)
    value[of_item] = known
    rows = np.bincount(of_item, minlength=size)
    # Each item has one of the values, and of most items there are several rows.
    return bool((value[of_item] == known).all()) and 2 * int((rows > 1).sum()) > size


def _of_work(
    column: pd.Series[Any], plain: str, codes: tuple[Callable[[], Array | None], ...], source: str
) -> list[str]:
    """Return a note on rows with a reason for which they do not count, or of work that was not done to its end.

    A reason for a label, such as one to exclude an item or to remove a post, is given with this label alone, and one that is said
    of an item in all its rows.

    Args:
        column: the column.
        plain: its name in plain letters.
        codes: return those of items and of labels, which most columns do not need.
        source: name of the table.
    """
    if _REASON.fullmatch(plain):
        stated = _with_words(column)
        size, what = int(stated.sum()), "a reason"
        items, labels = codes
        if 0 < size < len(column) and (_of_item(column, items) or _follows(stated, labels())):
            return []
    else:
        numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
        full = float(np.nanmax(numbers)) if np.isfinite(numbers).any() else 0.0
        size = int((numbers < full).sum()) if full in (1.0, 100.0) and not np.isnan(numbers).any() else 0
        what = f"less than {full:g}"
        if 2 * size >= len(column):
            return []
    if not 0 < size < len(column):
        return []
    rows = "1 row has" if size == 1 else f"{size:,} rows have"
    return [
        f"{source}: {rows} {what} in the column {str(column.name)!r}, which is not used; if these annotations are not to count, "
        f"drop the rows"
    ]


def _follows(stated: Array, label: Array | None) -> bool:
    """Return whether something is stated with some labels, mostly, and never with others."""
    if label is None:
        return False
    known = label >= 0
    rows, filled = np.bincount(label[known]), np.bincount(label[known], stated[known])
    some = filled > 0
    return not bool(some.all()) and 2 * float(filled.sum()) >= float(rows[some].sum())


def _of_rows_left(column: pd.Series[Any], plain: str, items: Callable[[], Array | None], source: str) -> list[str]:
    """Return a note on rows that do not count by a flag, a date of their end, or a part of the study."""
    if _ENDED.fullmatch(plain):
        size, what = _with_date(column), "a date"
    else:
        known = _distinct(column)
        if known is None:
            return []
        codes, values = known
        is_part, words = _PART.fullmatch(plain) is not None, _YES | _NO
        if is_part and column.dtype.kind in _NUMBERS + _DATES:
            return []
        if not is_part and not all(_plain(value) in words for value in values):  # ends at the first of many numbers
            return []
        # The last one is of missing values.
        sizes: dict[str, int] = {}
        for value, count in zip(
            [*map(_plain, values), ""], np.bincount(codes % (len(values) + 1), minlength=len(values) + 1), strict=True
        ):
            if count and (_NO_PART.fullmatch(value) if is_part else value in _NO):
                sizes[value] = sizes.get(value, 0) + int(count)
        size = sum(sizes.values())
        left = sorted(sizes, key=lambda value: -sizes[value])
        what = ", ".join(repr(value) if value else "no value" for value in left[:3])
    if not 0 < size < len(column) or (_COUNTS_OF_ITEMS_TOO.fullmatch(plain) and _of_item(column, items)):
        return []
    rows = "1 row has" if size == 1 else f"{size:,} rows have"
    return [
        f"{source}: {rows} {what} in the column {str(column.name)!r}, which is not used; if these annotations are not to count, "
        f"drop the rows"
    ]


def _with_words(column: pd.Series[Any]) -> Array:
    """Return which values are words other than those for nothing, ``(A,)``."""
    known = _distinct(column)
    if known is None:
        return np.zeros(len(column), dtype=bool)
    stated = [text not in _NO_LABEL | _NO | MARKS | EITHER for text in map(_plain, known[1])]
    return np.array([*stated, False])[known[0]]


def _with_date(column: pd.Series[Any]) -> int:
    """Return how many values are dates, or say that there is one: no blanks, words for nothing, 0, or dates of zeros."""
    kind = column.dtype.kind
    if kind in _DATES or pd.api.types.infer_dtype(column, skipna=True) in ("date", "datetime", "datetime64"):
        return int(column.notna().sum())
    if kind in _NUMBERS:
        return int(column.notna().sum() - (column == 0).sum())
    known = _distinct(column)
    if known is None:
        return 0
    codes, values = known
    # Most dates begin with a year, and need no look.
    stated = [_YEAR.match(text) is not None or _says_a_date(text) for text in map(str, values)]
    return int(np.array([*stated, False])[codes].sum())


def _says_a_date(text: str) -> bool:
    plain = _plain(text)
    if plain in _YES:
        return True
    return bool(_DIGIT.search(plain)) and plain not in _NO_LABEL and not _FIRST_DAY.fullmatch(plain)


def _of_versions(frame: pd.DataFrame, used: Sequence[Any], name: Any, source: str) -> list[str]:
    """Return a note where a column of versions tells annotations of an item by one worker apart."""
    keys = [_codes(frame[column]) for column in (*used[:2], name)]
    if any(key is None for key in keys):
        return []
    rows = pd.DataFrame(dict(enumerate(keys)))
    several = rows.drop_duplicates().duplicated([0, 1], keep=False)
    if not several.any():
        return []
    return [
        f"{source}: the column {str(name)!r} tells annotations of an item by one worker apart, and all are read; if the last one "
        f"replaces the others, drop these"
    ]


def _of_corrections(frame: pd.DataFrame, used: Sequence[Any], name: Any, source: str) -> list[str]:
    """Return a note where a column has labels of the same kind that differ from those that are read."""
    read, beside = _distinct(frame[used[2]]), _distinct(frame[name])
    if read is None or beside is None:
        return []
    # As text: 1 beside 1.0, where some are missing.
    given, other = ([_number_or_text(value) for value in values] for _, values in (read, beside))
    labels = {text: n for n, text in enumerate(dict.fromkeys(given))}
    nothing = _NO_LABEL | (_NO_OTHER_LABEL - labels.keys())
    blank = [text in nothing for text in other]
    shared = any(text in labels for text, none in zip(other, blank, strict=True) if not none)
    of_given = np.array([*(labels[text] for text in given), -1])[read[0]]
    of_other = np.array([*(labels.get(text, -2) for text in other), -1])[beside[0]]
    stated = np.array([*(not none for none in blank), False])[beside[0]]
    size = int((stated & (of_given != of_other)).sum())
    if not size or not shared:
        return []
    rows = "1 row has" if size == 1 else f"{size:,} rows have"
    return [
        f"{source}: {rows} another label in the column {str(name)!r} than in {str(used[2])!r}, which is read; if the corrected "
        f"ones are to count, name that column with label={str(name)!r}"
    ]


def _number_or_text(value: Any) -> str:
    text = _plain(value)
    return _ZEROS.sub("", text) if text.endswith("0") else text


def _codes(column: pd.Series[Any] | pd.DataFrame) -> Array | None:
    """Return equal values as equal codes; ``None`` for lists and objects, and for several columns of one name."""
    if isinstance(column, pd.DataFrame):
        return None
    try:
        return np.asarray(pd.factorize(column)[0])
    except (TypeError, NotImplementedError):
        return None


def _of_kinds(column: pd.Series[Any], items: Callable[[], Array | None], plain: str, source: str) -> list[str]:
    """Return a note on rows that are no annotations of workers by a column, beside others of the same item that are.

    Args:
        column: the column.
        items: returns the codes of the items of the rows, which most columns do not need.
        plain: its name in plain letters.
        source: name of the table.
    """
    try:
        codes, values = pd.factorize(column)
    except (TypeError, NotImplementedError):  # lists, objects, and types that Arrow does not compare
        return []
    if column.dtype.kind in _NUMBERS + _DATES and len(values) > len(_YES | _NO):  # neither flags nor words
        return []
    texts = [_plain(value) for value in values.tolist()]
    if _KIND_FLAG.fullmatch(plain):
        special = {text for text in texts if text in _YES} if set(texts) <= _YES | _NO else set()
    else:
        special = {text for text in texts if _NO_ANNOTATION.fullmatch(text)}
    if not special or len(special) == len(set(texts)) or (of_item := items()) is None:
        return []
    flagged = np.array([*(text in special for text in texts), False])[codes]
    stated = of_item >= 0
    size = int(of_item.max(initial=-1)) + 1
    marked, others = (np.bincount(of_item[stated & side], minlength=size) for side in (flagged, ~flagged))
    if not ((marked > 0) & (others > 0)).any() or (_ONE_OF_ITEM.fullmatch(plain) and marked.max() > 1):
        return []
    size = int(flagged.sum())
    return [
        f"{source}: {'1 row has' if size == 1 else f'{size:,} rows have'} {listed(sorted(special), 3)} in the column "
        f"{str(column.name)!r}, which is not used, beside other rows of the same items; if these are no annotations of workers, "
        f"drop them, and give true labels as truth=..."
    ]


def _of_truth(frame: pd.DataFrame, used: Sequence[Any], name: Any, source: str) -> list[str]:
    """Return a note on a column of labels by a name of true labels, one for each item."""
    item, label = used[0], used[2]
    try:
        pairs = frame[[item, name]].dropna().drop_duplicates()
    except (TypeError, NotImplementedError):  # lists, objects, and types that Arrow does not compare
        return []
    known, given = set(_values(frame[name]).index) - {""}, set(_values(frame[label]).index)
    if not known or not known <= given or bool(pairs[item].duplicated().any()) or len(known) < min(2, len(pairs)):
        return []
    return [
        f"{source}: the column {str(name)!r} has a label for each item and is not used; if these are known true labels, "
        f"truth={str(name)!r} uses them"
    ]


def _of_inputs(
    item: pd.Series[Any] | pd.DataFrame, worker: pd.Series[Any] | pd.DataFrame, shown: pd.Series[Any], source: str
) -> list[str]:
    """Return a note where one item stands for several inputs: two texts, each in several rows, are no remarks on one."""
    if isinstance(item, pd.DataFrame):
        return []
    try:
        (of_item, names), (of_input, inputs) = pd.factorize(item), pd.factorize(shown)
    except (TypeError, NotImplementedError):  # lists, objects, and types that Arrow does not compare
        return []
    given = (of_item >= 0) & (of_input >= 0)
    pair = np.sort(of_item[given].astype(np.int64) * len(inputs) + of_input[given])
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    of_pair, rows = pair[starts] // max(len(inputs), 1), np.diff(starts, append=len(pair))
    different = np.bincount(of_pair, minlength=len(names))
    repeated = np.bincount(of_pair[rows > 1], minlength=len(names))
    several = names[(different > 1) & (repeated == different)]
    each = ", each in several rows"
    if not len(several):
        # A remark is a text, but no file.
        if not _SHOWN.fullmatch(str(shown.name).strip().lower().replace(" ", "_")):
            return []
        rows_of = np.bincount(of_item[given], minlength=len(names))
        apart = (different == rows_of) & (rows_of > 1)
        if not given.all() or len(pair) != len(inputs) or apart.sum() < max(_FEW_ITEMS, _NEARLY * (rows_of > 1).sum()):
            return []
        if _of_annotations(worker, shown):
            return []
        several, each = names[apart], ""
    return [
        f"{source}: {len(several):,} {'item has' if len(several) == 1 else 'items have'} different values in the column "
        f"{str(shown.name)!r} ({listed(several.tolist(), 3)}){each}; if an identifier was used for several "
        f"items, make it unique, or name the column of items with task=..."
    ]


def _of_annotations(worker: pd.Series[Any] | pd.DataFrame, shown: pd.Series[Any]) -> bool:
    """Return whether values are addresses, which may be signed for each row, or have the name of the worker in them."""
    if isinstance(worker, pd.DataFrame):
        return True
    texts, names = ([str(value).casefold() for value in part.iloc[:_LOOKED_AT]] for part in (shown, worker))
    return any("://" in text for text in texts) or all(
        name in text if len(name) >= _LONG else name in _APART.split(text)
        for text, name in zip(texts, names, strict=True)
    )


def _of_single_rows(frame: pd.DataFrame, used: Any, names: dict[str, Any], source: str) -> list[str]:
    """Return a note where each row has an item of its own, though rows share what was looked at: it numbers annotations."""
    codes = _codes(frame[used])
    if codes is None or len(codes) < _FEWEST or codes.max(initial=-1) + 1 < len(codes):
        return []
    for plain, name in names.items():
        if name == used or not (_INPUT.fullmatch(plain) or _ITEM_ID.fullmatch(plain)):
            continue
        shown = _codes(frame[name])
        if shown is None or (shown < 0).any():
            continue
        rows = np.bincount(shown)
        if len(rows) > 1 and (rows > 1).all():
            return [
                f"{source}: each row has an item of its own by the column {str(used)!r}, and the rows share {len(rows):,} values "
                f"of {str(name)!r}: if {str(used)!r} numbers the annotations, name the column of items with task={str(name)!r}"
            ]
    return []


def _of_counts(column: pd.Series[Any], item: pd.Series[Any] | pd.DataFrame, source: str) -> list[str]:
    """Return a note on numbers that may say how many annotations a row stands for.

    An index of the rows, a constant, and the number of annotations of each item, or their sum, are no such numbers.
    """
    kind = pd.api.types.infer_dtype(column, skipna=True)
    if kind == "boolean" or kind.startswith(("date", "time", "period", "interval")):
        return []
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    whole = bool(len(numbers)) and not np.isnan(numbers).any() and bool((numbers == np.floor(numbers)).all())
    if not whole or numbers.min() < 0 or numbers.max() < 2:
        return []
    if len(np.unique(numbers)) in (1, len(numbers)) or _same_within(numbers, item):
        return []
    return [
        f"{source}: the column {str(column.name)!r} has whole numbers above 1 and is not used: each row is one annotation; if a "
        f"row stands for so many, repeat it"
    ]


def _same_within(numbers: Array, item: pd.Series[Any] | pd.DataFrame) -> bool:
    """Return whether a number is one of the item: the same in all rows of each item that has several, or their number."""
    try:
        codes = pd.factorize(item)[0] if isinstance(item, pd.Series) else np.array([], dtype=int)
    except (TypeError, NotImplementedError):  # lists, objects, and types that Arrow does not compare
        return False
    if not len(codes) or codes.min() < 0:
        return False
    size = np.bincount(codes)
    first = np.zeros(len(size))
    first[codes[::-1]] = numbers[::-1]
    several = size[codes] > 1
    constant = bool(several.any()) and bool((numbers == first[codes])[several].all())
    return constant or bool((numbers == size[codes]).all())


def _of_two(frame: pd.DataFrame, used: str, other: str, source: str) -> list[str]:
    """Return a note where two columns may name the items, and each value of the one that is used has several of the other."""
    try:
        pairs = frame[[used, other]].drop_duplicates()
    except (TypeError, NotImplementedError):
        return []
    if not pairs[used].duplicated().any():
        return []
    return [
        f"{source}: the columns 'task' and 'item' differ, and {used!r} names the items; if they are in {other!r}, name it with "
        f"task={other!r}"
    ]
