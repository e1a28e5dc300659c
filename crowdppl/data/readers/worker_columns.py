"""Which columns of a table are workers, in a table with a row for each item: by their names and by their values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.data.readers.worker_pairs import names_row, pairs_of, words
from crowdppl.data.table.identifier_checks import written_number
from crowdppl.data.table.missing_words import is_for_nothing
from crowdppl.errors import DataError, listed

# Names of the item column; otherwise it is the first column.
ITEM_NAMES = ("task", "item", "id", "example_id", "index", "")
BLANK = ("", "nan", "NaN")
# Words for nothing, beside those of :mod:`crowdppl.data.table.missing_words`, that are no labels that columns have in common.
_NO_LABEL = ("NA", "None", "?")
# Names of columns with labels that no worker gave, and with what is known of an item.
_LABELS = re.compile(
    r"(gold|true|truth|ground_?truth|reference|final|majority|consensus|aggregated?|adjudicated|hard|correct|expert"
    r"|resolved|agreed|harmoni[sz]ed|curated|consolidated|mode|median|adjudication|resolution|gt|answer_?key|goldstandard"
    # In other languages.
    r"|konsens(us)?|endg(ü|ue)ltig|endergebnis|mehrheit(sentscheid)?|wahrheit|l(ö|oe)sung|muster(lösung|loesung)|korrekt|richtig"
    r"|v[ée]rit[ée]|majorit[ée]|d[ée]finitif|consenso|mayor[íi]a|verdad|maggioranza|verit[àa]|definitiv[oa]?|finale?)"
    r"(_?(vote|label|class|answer|annotation|value|standard|decision|code|score|rating))?s?|label|mv|y|y_true|target"
)
_ABOUT_ITEMS = re.compile(
    r"(text|sentence|tweet|comment|content|title|body|document|passage|question|prompt|premise|hypothesis|description|note|remark)"
    r"(_?[ab12]|_?text)?s?|raw_?text|url|uri|link|image|image_?(url|file|path)|file(_?name)?|path|source|split|fold|subset|set"
    r"|lang|language|date|time|timestamp|created(_at)?|updated(_at)?|author|user_?name|(item|task|text|doc|tweet|example|unit)_?id"
    r"|uuid|guid|index|row|unnamed:[ _]?\d+|level_\d+|score|confidence|entropy|agreement|weight|length|duration|num_?annotat\w+|n"
    r"|batch(_?(id|number|no))?|round|iteration|page|line|position|order|priority|mean|average|avg|std|sd|variance|sum|total|count"
    r"|n_?(votes|labels|raters|annotators|workers)|(percent_?)?(dis)?agree(s|d|ment)?|kappa|status|discussion"
    r"|match(es|ed)?|identical|discrepan(t|cy|cies)|conflicts?"
    r"|(resolved|adjudicated|reviewed|checked|annotated|labell?ed|coded|approved|verified|assigned)_(by|to)"
    r"|difficulty|complexity|schwierigkeit|redcap_\w+|submitdate|lastpage|startlanguage"
)
# Whether a form of REDCap is complete, and the values of these columns; they may also be the complete labels of a worker.
_COMPLETE, _OF_REDCAP = re.compile(r"\w+_complete"), re.compile(r"redcap_\w+")
_COMPLETENESS = ({"0", "1", "2"}, {"incomplete", "unverified", "complete"})
# Surnames among the names of what is known of an item, and the share of rows in which a column of agreement follows from it.
_SURNAMES, _NEARLY = frozenset(("Match", "Page", "Weight", "Field", "Case", "Line", "Order", "Price", "Title")), 0.9
# Initials of people, which may be a short name of something else ("GT", "SD").
_INITIALS = re.compile(r"[^\W\d_]{2}")
# Names of counts, shares and remarks, which may be those of people ("Count Basie"): the values decide.
_PERHAPS = re.compile(r"(num|pct|percent|prob|share|count)_[^\W\d]\w*|(notes?|comments?|remarks?)_\w+|%_?\w+|\w+_?%")
# What such a name does not have, and names of people may have.
_OF_PEOPLE = re.compile(r"\. |[-@]")
# Names of columns with answers of a model, or with what is known of an item, which are workers, too, in other tables.
_UNSURE = re.compile(
    r"(model|machine|auto(matic)?|ai|llm|gpt|bert|classifier|predicted|prediction|pred|baseline)([_\d]\w*)?|y_pred"
    r"|\w+_(pred|prediction)|category|topic|domain|genre|year|age|gender|sex|country|region|condition|sure|certain|confident"
    r"|skip(ped)?|(to_?)?exclude[ds]?|flag(ged)?|done|site|cent(er|re)|hospital|ward|cohort|arm|group|strat(um|a)|scanner|modality"
    r"|ethnicity|education|species|stage|visit|session|phase"
)
# Names of people among them, and what is known of an item as programs and people write it ("is_test", "Is spam").
_PEOPLE = re.compile(r"(Ai|Bert)\b|.*@")
_IS = re.compile(r"(is|has|was|IS|HAS|WAS)[\s_.-]\w.*|(Is|Has|Was) [a-z].*", re.DOTALL)
# Names of the column of workers, in a table with a row for each worker, and of the columns of items in it.
_WORKER = (
    "(worker|annotator|rater|coder|labell?er|user|judge|participant|respondent|reviewer|assessor|evaluator|person"
    "|crowd_?worker)"
)
_WORKERS = re.compile(rf"{_WORKER}s?(_?(id|name|number|no|nr|code))?")
_OF_WORKER = re.compile(rf"(^|_){_WORKER}")
_ITEM = re.compile(
    r"((q|question|item|task|image|img|picture|photo|video|clip|audio|text|doc|document|sentence|tweet|post|comment|statement"
    r"|stimulus|trial|example|unit|case|sample)s?_?(id|no|nr|number)?_?)?\d[\d_]*[a-z]?|\w+_(jpe?g|png|gif|txt|wav|mp[34]|pdf)"
)
# The same with a word.
_NAMED_ITEM = re.compile(
    r"(q|question|item|task|image|img|picture|photo|video|clip|audio|doc|document|sentence|tweet|post|statement|stimulus|trial)"
    r"(_?(id|no|nr|number))?_?\d[\d_]*[a-z]?|\w+_(jpe?g|png|gif|txt|wav|mp[34]|pdf)|.+_sq\d+"
)
# Values that are dates.
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([ T].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2} \d+:).*", re.DOTALL)
# A table with more than so many columns, and so many times as many as rows, has items in its columns.
_MANY_COLUMNS, _TIMES_ROWS = 20, 3
# Names of rows below the items of a spreadsheet.
_TOTALS = re.compile(
    r"(grand )?totals?:?|sum(me)?:?|subtotal:?|averages?:?|avg\.?:?|means?:?|medians?:?|std\.?( ?dev\.?)?:?|counts?:?"
    r"|(%|percent|percentage|observed|raw)? ?agreement( ?\(?%\)?)?:?|gesamt(summe)?:?|insgesamt:?|mittelwert:?|moyenne:?|media:?"
    r"|((cohen|fleiss|krippendorff|gwet|scott)('?s|s?')? (kappa|alpha|pi|ac[12]|κ|α)|kappa)( ?\([^()]*\))?:?|icc:?|iaa:?"
    r"|n ?[=:] ?\d*"
    r"|übereinstimmung:?|anzahl:?",
    re.IGNORECASE,
)
# What a worker enters beside a label, before or behind the name or the number of the worker; and a label.
_WHAT = (
    r"(?:confidence|conf|certainty|sure|comments?|notes?|remarks?|rationale|reason(?:ing)?|justification|explanation|time|timestamp"
    r"|date|duration|seconds|secs?|start(?:ed)?(?:_at)?|end(?:ed)?(?:_at)?|submitted(?:_at)?|created(?:_at)?|difficulty|flag(?:ged)?"
    r"|text|spans?|highlights?|email|status|feedback)(?:_?(?:score|level|rating|value|spent|taken|text))?"
)
_LABEL = "(?:label|rating|answer|annotation|vote|class|score|code|choice|grade)"
_BESIDE = tuple(map(re.compile, (rf"(.+)_{_WHAT}", rf"{_WHAT}_(.+)", rf"{_WHAT}(\d+)")))
_LABEL_OF = tuple(map(re.compile, (rf"(.+)_{_LABEL}", rf"{_LABEL}_(.+)", r"\D+?_?(\d+)")))
# Below this probability of so many values that no other column has, a column is not taken for a worker.
_LEVEL = 0.01


@dataclass(frozen=True)
class Cells:
    """The labels in a column: codes of the rows, ``(N,)`` and -1 without a label, and the distinct labels as text."""

    codes: npt.NDArray[np.intp]
    labels: list[str]

    @property
    def counts(self) -> npt.NDArray[np.intp]:
        """Number of cells with each label."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.labels))


@dataclass(frozen=True)
class Layout:
    """The parts that columns play, by position.

    Attributes:
        item: the column of items.
        workers: the columns of workers.
        answers: columns with labels that no worker gave, such as a gold label or a majority vote.
        others: columns that are neither.
    """

    item: int
    workers: list[int]
    answers: list[int]
    others: list[int]


def labels_of(column: pd.Series[Any]) -> Cells:
    """Return the labels in a column, words for nothing among them.

    Whole numbers are written without decimals, as in columns with blanks they have some.
    """
    column = column.astype(object)
    try:
        codes, values = pd.factorize(column)
    except TypeError:  # lists and objects are compared by their text
        codes, values = pd.factorize(column.map(str, na_action="ignore"))
    texts = [re.sub(r"^(-?\d+)\.0+$", r"\1", str(value).strip()) for value in values.tolist()]
    labels = list(dict.fromkeys(text for text in texts if text not in BLANK))
    position = {label: n for n, label in enumerate(labels)}
    lookup = np.array([*(position.get(text, -1) for text in texts), -1], dtype=np.intp)
    return Cells(lookup[codes], labels)


def layout(table: pd.DataFrame, source: str, chosen: Sequence[str] | None = None) -> Layout:
    """Return the parts that the columns of a wide table play.

    A worker shares the labels with others. A column is none if its name is that of a text, a gold label and the like, or if its
    values occur in no other column and that would be improbable for a worker.

    Args:
        table: one row per item.
        source: name of the table in messages.
        chosen: the names of the columns of workers, if the caller has named them.

    Raises:
        DataError: if two columns have one name, or a chosen column does not exist.
    """
    names = [str(name).strip() for name in table.columns]
    item = next((n for n, name in enumerate(names) if name.lower() in ITEM_NAMES), 0)
    rest = [n for n in range(len(names)) if n != item and (names[n] or bool(table.iloc[:, n].notna().any()))]
    twice = sorted(name for name, count in Counter(names[n] for n in rest).items() if count > 1)
    if twice:
        what = "columns have no name" if not twice[0] else f"columns are named {twice[0]!r}"
        raise DataError(
            f"{source}: {names.count(twice[0])} {what}; rename all but one, each worker needs a column of its own"
        )
    if chosen is not None:
        missing = [name for name in chosen if name not in names]
        if missing:
            raise DataError(f"{source}: no column {listed(missing)}; columns are {listed(names, 12)}")
        workers = [n for n in rest if names[n] in chosen]
        return Layout(item, workers, [], [n for n in rest if n not in workers])
    initials = _initials(names, rest)
    answers = [n for n in rest if n not in initials and _LABELS.fullmatch(_plain(names[n]))]
    others = [n for n in rest if n not in (*answers, *initials) and _ABOUT_ITEMS.fullmatch(_plain(names[n]))]
    others += [n for n in _beside(names, rest) if n not in (*answers, *others)]
    workers = [n for n in rest if n not in (*answers, *others)]
    cells = {n: labels_of(table.iloc[:, n]) for n in workers}
    none = _without_labels(cells, [n for n in workers if _perhaps(names[n])])
    none += _of_forms(names, {n: cells[n] for n in workers if n not in none}, any(map(_OF_REDCAP.fullmatch, names)))
    others += none
    workers = [n for n in workers if n not in none]
    if len(workers) < 2:  # a worker may have such a name where there are few columns
        workers += [n for n in answers if _plain(names[n]) == "expert"]
        answers = [n for n in answers if n not in workers]
    dated = [n for n in workers if n in cells and cells[n].labels and all(map(_DATE.fullmatch, cells[n].labels))]
    if len(dated) < len(workers):  # when something was done
        others += dated
        workers = [n for n in workers if n not in dated]
    back = _labels_of_workers(table, names, others, {n: cells[n] for n in workers if n in cells})
    workers, others = [*workers, *back], [n for n in others if n not in back]
    apart = _apart({n: cells[n] if n in cells else labels_of(table.iloc[:, n]) for n in workers})
    return Layout(item, sorted(n for n in workers if n not in apart), answers, sorted([*others, *apart]))


def _initials(names: Sequence[str], rest: Sequence[int]) -> list[int]:
    """Return the columns whose names are all initials of people in one form: ``AB``, ``GT`` and ``KL``."""
    short = [n for n in rest if _INITIALS.fullmatch(names[n])]
    plain = [n for n in short if not _not_a_worker(_plain(names[n]))]
    forms = {(names[n].isupper(), names[n].istitle()) for n in plain}
    if len(plain) < 2 or len(forms) > 1:
        return []
    alike = [n for n in short if (names[n].isupper(), names[n].istitle()) in forms]
    return alike if all(n in alike or _not_a_worker(_plain(names[n])) for n in rest) else []


def _labels_of_workers(
    table: pd.DataFrame, names: Sequence[str], others: Sequence[int], workers: dict[int, Cells]
) -> list[int]:
    """Return the columns by the name of something else, and a surname (Match, Page), that hold the words that workers gave.

    A column that follows from whether workers agree holds yes and no, as their labels may, too.
    """
    candidates = [n for n in others if names[n] in _SURNAMES]
    people = len(workers) > 1 and all(names[n].istitle() and not _OF_WORKER.search(_plain(names[n])) for n in workers)
    if not candidates or not people:
        return []
    columns = {n: _folded(column) for n, column in workers.items()}
    given = set.intersection(*map(set, columns.values()))
    rows = np.stack([_codes_of(workers[n]) for n in workers])
    # Whether all workers agree, and each two of them.
    agreements = [(rows == rows[0]).all(axis=0), *(a == b for a, b in combinations(rows, 2))]
    complete = (rows != "").all(axis=0)
    out = []
    for n in candidates:
        column = labels_of(table.iloc[:, n])
        labels = set(_folded(column))
        words_only = len(labels) > 1 and labels <= given and not any(map(written_number, labels))
        stated = complete & (_codes_of(column) != "")
        if words_only and not any(_follows(column.codes[stated], agree[stated]) for agree in agreements):
            out.append(n)
    return out


def _follows(codes: npt.NDArray[Any], agree: npt.NDArray[Any]) -> bool:
    """Return whether a column follows from whether workers agree, but for a tenth of the rows."""
    usual = sum(int(np.unique(codes[side], return_counts=True)[1].max(initial=0)) for side in (agree, ~agree))
    return usual >= _NEARLY * len(codes)


def _codes_of(column: Cells) -> npt.NDArray[Any]:
    """Return the label of each row as text, blank without one."""
    return np.array([*(label.casefold() for label in column.labels), ""], dtype=object)[column.codes]


def _not_a_worker(plain: str) -> bool:
    return (_LABELS.fullmatch(plain) or _ABOUT_ITEMS.fullmatch(plain)) is not None


def _of_forms(names: Sequence[str], columns: dict[int, Cells], redcap: bool) -> list[int]:
    """Return the columns that say whether a form of REDCap is complete, by their names and values, beside other columns."""
    complete = [
        n
        for n, column in columns.items()
        if _COMPLETE.fullmatch(_plain(names[n]))
        and (redcap or any({label.casefold() for label in column.labels} <= values for values in _COMPLETENESS))
    ]
    return complete if len(complete) < len(columns) else []


def _plain(name: str) -> str:
    """Return a name in small letters with its signs, since they tell ``n*`` and ``score?`` from ``n`` and ``score``."""
    return re.sub(r"[\s.-]+", "_", name.strip().lower())


def _perhaps(name: str) -> bool:
    return _PERHAPS.fullmatch(words(name)) is not None and _OF_PEOPLE.search(name.strip()) is None


def unsure(names: Sequence[str]) -> list[str]:
    """Return the columns that by their names may be answers of a model or say something of the items; none if most may be."""
    matching = [name for name in names if _in_doubt(name)]
    return matching if 2 * len(matching) <= len(names) + 1 else []


def _in_doubt(name: str) -> bool:
    if _PEOPLE.match(name):
        return False
    plain = words(name)
    # "score?" may be a name of a worker, and may be "score".
    signs = len(plain) > 1 and plain != _plain(name) and (_LABELS.fullmatch(plain) or _ABOUT_ITEMS.fullmatch(plain))
    initials = _INITIALS.fullmatch(name) and _not_a_worker(plain)
    surname = name.istitle() and _ABOUT_ITEMS.fullmatch(plain)
    return bool(signs or initials or surname or _perhaps(name) or _UNSURE.fullmatch(plain) or _IS.fullmatch(name))


def renamed_copies(names: Sequence[str]) -> list[str]:
    """Return the names that programs give to a second column of one name: ``ann.1`` beside ``ann``."""
    return [name for name in names if (m := re.fullmatch(r"(.+)\.[1-9]", name)) and m[1] in names]


def names_an_item(name: str) -> bool:
    """Return whether the name of a column is that of an item, by a word and a number."""
    return _NAMED_ITEM.fullmatch(words(name)) is not None


def names_a_worker(name: str) -> bool:
    """Return whether the name of a column says that it names workers."""
    return _WORKERS.fullmatch(words(name)) is not None


def names_workers(name: str, others: Sequence[str]) -> bool:
    """Return whether the first column of a table names workers, by its name, and no other column does."""
    return names_a_worker(name) and not any(map(_OF_WORKER.search, map(words, others)))


def look_like_items(names: Sequence[str], rows: int) -> bool:
    """Return whether columns are those of items: most are numbered or long texts, or they are many more than the rows."""
    items = sum(_ITEM.fullmatch(words(name)) is not None or name.count(" ") >= 4 or len(name) > 40 for name in names)
    return 2 * items > len(names) or len(names) > max(_MANY_COLUMNS, _TIMES_ROWS * rows)


def _beside(names: Sequence[str], rest: Sequence[int]) -> list[int]:
    """Return the columns with what workers entered beside their labels: ``ann_confidence`` beside ``ann`` or ``ann_label``."""
    plain = {n: words(names[n]) for n in rest}
    of_worker = {n: next((m[1] for form in _BESIDE if (m := form.fullmatch(name))), None) for n, name in plain.items()}
    if not any(of_worker.values()):
        return []
    labels = [name for n, name in plain.items() if of_worker[n] is None]
    workers = {*labels, *(m[1] for name in labels for form in _LABEL_OF if (m := form.fullmatch(name)))}
    return [n for n, worker in of_worker.items() if worker in workers]


def _without_labels(columns: dict[int, Cells], perhaps: Sequence[int]) -> list[int]:
    """Return the columns, of some in doubt, whose values are numbers that are no labels of others, or texts that none has.

    At least two others must have labels in common, unless they have no number: otherwise the values say nothing.
    """
    if not perhaps:
        return []
    labels = {n: set(_folded(column)) for n, column in columns.items()}
    others = [n for n in columns if n not in perhaps] or list(perhaps)
    owners = Counter(label for n in others for label in labels[n])

    def unshared(n: int) -> float:
        return sum(owners[label] <= (n in others) for label in labels[n]) / max(len(labels[n]), 1)

    related = {n for n in others if labels[n] and unshared(n) < 0.5}
    texts = {n for n in others if labels[n] and not any(map(written_number, labels[n]))}
    filled = {n for n in others if labels[n]}
    out = []
    for n in perhaps:
        numbers = all(map(written_number, labels[n]))
        among_words = bool(filled - {n}) and filled - {n} <= texts
        judged = len(related - {n}) >= 2 and unshared(n) >= (0.5 if numbers else 1)
        if not labels[n] or (numbers and among_words) or judged:
            out.append(n)
    return out


def _apart(columns: dict[int, Cells]) -> set[int]:
    """Return the columns whose values are not those of the workers, the largest group of columns with labels in common."""
    from scipy.stats import binom  # here: slow to import

    folded = {n: Counter(_folded(column)) for n, column in columns.items()}
    group = _largest_group(folded)
    if len(group) < 2:
        return set()
    owners: Counter[str] = Counter(label for n in group for label in folded[n])
    apart = set()
    for n, counts in folded.items():
        mine = n in group
        own = sum(count for label, count in counts.items() if owners[label] <= mine)
        total = sum(counts.values())
        if 2 * own <= total:
            continue
        # How often a label of another worker is given by no third one: the probability that a worker's label is unshared.
        others = [m for m in group if m != n]
        unshared = sum(
            c for m in others for label, c in folded[m].items() if owners[label] - (mine and label in counts) <= 1
        )
        given = sum(sum(folded[m].values()) for m in others)
        rate = (unshared + 1) / (given + 1)
        if binom.sf(own - 1, total, min(1.0, rate)) < _LEVEL or _is_text(columns[n]):
            apart.add(n)
    return apart


def _folded(column: Cells) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for label, count in zip(column.labels, column.counts.tolist(), strict=True):
        if not (is_for_nothing(label) or label in _NO_LABEL):
            counts[label.casefold()] += count
    return counts


def _largest_group(columns: dict[int, Counter[str]]) -> set[int]:
    """Return the largest set of columns that are connected by labels in common; empty if two are largest."""
    parent = {n: n for n in columns}

    def root(n: int) -> int:
        while parent[n] != n:
            n = parent[n]
        return n

    first: dict[str, int] = {}
    for n, counts in columns.items():
        for label in counts:
            parent[root(n)] = root(first.setdefault(label, n))
    groups: dict[int, set[int]] = {}
    for n in columns:
        groups.setdefault(root(n), set()).add(n)
    sizes = sorted(groups.values(), key=len, reverse=True)
    return set() if not sizes or (len(sizes) > 1 and len(sizes[0]) == len(sizes[1])) else sizes[0]


def _is_text(column: Cells) -> bool:
    """Return whether a column holds sentences: distinct values of several words."""
    counts = column.counts
    length = np.mean([label.count(" ") + 1 for label in column.labels]) if column.labels else 0
    return bool(length >= 4 and len(counts) > 0.8 * counts.sum())


def before_totals(names: Sequence[Any]) -> int:
    """Return the number of items before the rows of sums and means that spreadsheets have at their end."""
    last = len(names)
    while last > 1 and isinstance(names[last - 1], str) and _TOTALS.fullmatch(names[last - 1].strip()):
        last -= 1
    return last


def looks_wide(table: pd.DataFrame) -> bool:
    """Return whether a table seems to have a column for each worker: at least two with the same few labels, or two for each."""
    table = table.head(1000)
    if pairs_of(table):
        return True
    try:
        parts = layout(table, "")
    except DataError:
        return False
    names = [str(name).strip() for name in table.columns]
    if not names or any(names_row(table.iloc[:, n]) for n in (*parts.answers, *parts.others)):
        return False
    table = table.iloc[: before_totals(table.iloc[:, parts.item].tolist())]
    columns = [Counter(_folded(labels_of(table.iloc[:, n]))) for n in parts.workers]
    if len(columns) < 2 or len(columns) < 0.5 * (table.shape[1] - 1 - len(parts.answers) - len(parts.others)):
        return False
    owners = Counter(label for counts in columns for label in counts)
    total = sum(sum(counts.values()) for counts in columns)
    shared = sum(count for counts in columns for label, count in counts.items() if owners[label] > 1)
    return total > 0 and shared >= 0.8 * total and len(owners) <= max(2, total // 3)
