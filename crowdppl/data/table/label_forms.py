"""Labels that may be one class in two forms, or not labels alone: what a careful reader would ask of the distinct labels.

All results are notes. Nothing is merged: spellings that are surely one label are, in :mod:`crowdppl.data.table.label_names`.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from crowdppl.data.table.identifier_forms import SHEET_DATE
from crowdppl.data.table.label_texts import notes_on_texts, without_signs
from crowdppl.data.table.label_values import RIGHT, WRONG, notes_on_fractions, notes_on_values, plain_signs, two_ways
from crowdppl.data.table.name_forms import decoded
from crowdppl.data.table.one_sided import notes_on_one_sided
from crowdppl.data.table.spellings import folded, visible
from crowdppl.errors import listed

Array = npt.NDArray[Any]

# More labels than these are not compared.
MOST = 200
# Words for true and false; two pairs of them in one column may be one.
_TRUE = "yes y true t 1 ja oui si s\u00ed on positive pos pass"
_FALSE = "no n false f 0 nein non off negative neg fail"
# Labels that are no longer are codes, such as those of languages.
_CODE = 2
# Abbreviations are no longer, and no words of their own, as these are.
_ABBREVIATION = 3
_SHORT = "man pro con car cat art bus arm sun sea ham pen add all any air age act for not per who one two"
_SHORT_WORDS = frozenset(_SHORT.split())
_TRUTH = {word: value for value, words in enumerate((_FALSE, _TRUE)) for word in words.split()}
_TRUTH |= {WRONG[0]: 0, RIGHT[0]: 1, "\U0001f44e": 0, "\U0001f44d": 1}
# A label and a number between 0 and 1, or a percentage: probably a confidence.
_WITH_NUMBER = re.compile(
    r"(?P<label>\D.*?)\s*(?:\(|\[|[:=|,;@]\s*)(?P<number>[01]?[.,]\d+|[01][.,]0*|\d{1,3}\s*%)\s*[)\]]?"
)
# Marks around a label that people add or leave out; < > and * only in pairs around a word: A* and <= are labels.
_AROUND = re.compile(r"^[\s\"'`(\[]+(?=.*\w)|(?<=\w)[\s\"'`)\].,;:!]+$")
_PAIRED = re.compile(r"<+\s*(?P<angle>\w[^<>]*?)\s*>+|\*+\s*(?P<star>\w[^*]*?)\s*\*+")
# A sign for roughly, and the word label, as programs write it before one.
_WRAPPED = re.compile(r"^(?:~(?=\w)|_*label(?:__|[:=]\s*)(?=\w))", re.IGNORECASE)
# A number in brackets behind a label, as programs number copies; part of the name where labels differ by it.
_NUMBERED = re.compile(r"(?P<stem>.*\w)\s*\(\d\)")
# Signs as addresses write them.
_ENCODED = re.compile("%[0-9A-Fa-f]{2}")
# A letter by its number, and a sign behind a stroke, as programs protect it.
_ESCAPED = re.compile(r"\\u([0-9A-Fa-f]{4})|\\(?=[,;|\"'])")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|\\[nrt]")
# What may stand between the letters of a name; between digits it is a part of a number.
_GAPS = re.compile(r"(?<=[^\W\d])[\s_.-]+(?=\w)|(?<=\d)[\s_.-]+(?=[^\W\d])")
# Letters from which names that differ in it are compared; a number before a name is one, too.
_LETTERS, _NUMBER_AND_NAME = 4, re.compile(r"\d+[^\W\d_]{2,}")
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "æ": "ae", "ø": "oe", "å": "aa"})
# A number or a letter, a sign, and a name.
_CODE_AND_NAME = re.compile(r"(?P<code>\d{1,3}|[A-Za-z])(?:[=:.)]\s*|\s+-\s+|\s\()(?P<name>[^\W\d][^()]*\w)\)?")
_DIGITS = {
    str(n): word
    for n, word in enumerate(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"])
}
_NUMERALS = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x")
_ROMAN = tuple((str(n), numeral) for n, numeral in enumerate(_NUMERALS, 1))
# How other spreadsheets show 3-5, and how programs write such a date.
_OTHER_DATE = re.compile(
    r"\d{1,2}(\. ?|-)(jan|feb|m(a|\u00e4)?rz?|apr|ma[iy]o?|jui?n|jui?l|aug|sept?|okt|nov|dez|janv|f\u00e9vr|mars|avr|ao\u00fbt"
    r"|d\u00e9c|ene|abr|ago|dic)\.?|(19|20)\d{2}-\d{2}-\d{2}( 00:00:00)?",
    re.IGNORECASE,
)
_LOOKS_LIKE = {"O": "0", "o": "0", "l": "1", "I": "1", "|": "1"}
# A label begins so that has another one as its code, or its name, before or behind a sign.
_SIGN = r"(\s*[-=:.)/|]\s*|\s*\()"
# Workers whose labels are not those of others gave at least so many different ones, and each so many times on the mean.
_ENOUGH, _TIMES = 2, 2


def notes_on(
    label: Array,
    worker: Array,
    item: Array,
    labels: Array,
    workers: Array,
    where: str,
    *,
    role: str = "workers",
    fix: str | None = None,
) -> list[str]:
    """Return notes on classes that may be one, and on labels with more than a label in them.

    Args:
        label: label of each annotation, ``(A,)``.
        worker: its worker, ``(A,)``.
        item: its item, ``(A,)``.
        labels: the classes, ``(K,)``.
        workers: the workers, ``(J,)``.
        where: location of the labels, for messages.
        role: what the workers are called.
        fix: what to do where labels are one. Defaults to the option ``map``.
    """
    notes = []
    if role == "workers":
        counts = np.bincount(label, minlength=len(labels)).tolist()
        notes += notes_on_texts([str(name) for name in labels.tolist()], counts, where)
    if not 2 < len(labels) <= MOST:
        return notes
    names = [str(name) for name in labels.tolist()]
    notes += notes_on_one_sided(label, worker, names, len(workers), where) if role == "workers" else []
    pairs = _pairs(names) if labels.dtype == object else []
    if pairs:
        examples = ", ".join(f"{one!r} and {other!r}" for one, other in pairs[:3])
        merge = f"merge them with map={{{pairs[0][0]!r}: {pairs[0][1]!r}}}" if fix is None else fix
        notes.append(
            f"{where}: {examples} may be the same in two forms, and are different classes; if they are one, {merge}"
        )
    if labels.dtype == object:
        notes += _of_workers(label, worker, names, workers, where, role)
    if labels.dtype == object and not pairs:
        notes += notes_on_fractions(names, where)
    if labels.dtype == object and fix is not None:
        notes += _of_numbers(names, where)
    elif labels.dtype == object:
        notes += _of_numbers(names, where) + _of_dates(names, where) + _of_commas(names, where)
        notes += notes_on_values(names, where)
    return notes or _of_groups(
        label, worker, item, names, workers, where, role, fix or "name them alike with map={...}"
    )


def _pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of labels that may be one: with marks around them, or all labels in pairs of a short and a long form."""
    numbered = [match["stem"] for name in names if (match := _NUMBERED.fullmatch(name))]
    stems = {_bare(stem) for stem in numbered}
    # cat (1) beside cat is a copy; cat (1) and cat (2) are two names.
    copies = len(stems) == len(numbered) and stems <= {_bare(name) for name in names}
    groups: dict[str, list[str]] = defaultdict(list)
    shorter = without_signs(names)
    for name in names:
        match = _NUMBERED.fullmatch(name) if copies else None
        groups[_bare(match["stem"] if match else shorter.get(name, name)) or name].append(name)
    ordered = [sorted(group, key=lambda name: (len(name), name)) for group in groups.values()]
    marked = [(other, group[0]) for group in ordered for other in group[1:]]
    return (
        marked
        or _truth_values(names)
        or two_ways(names)
        or _all_in_pairs(names)
        or [*_same_letters(names), *_with_codes(names)]
    )


def _bare(name: str) -> str:
    text = visible(html.unescape(unquote(name) if _ENCODED.search(name) else name))
    text = _ESCAPED.sub(lambda match: chr(int(match[1], 16)) if match[1] else "", text)
    paired = _PAIRED.fullmatch(text.strip())
    text = _TAG.sub("", text) if paired is None else paired["angle"] or paired["star"]
    text = _WRAPPED.sub("", text) or text
    while (shorter := _AROUND.sub("", text)) != text:
        text = shorter
    text = re.sub(r"^(\d+),(\d+)$", r"\1.\2", text)
    return re.sub(r"(?<=\w)[\s_-]+(?=\w)", " ", folded(plain_signs(text)))


def _truth_values(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs where the words for true and for false are of several kinds, such as yes and True."""
    known = [name for name in names if _word(name) in _TRUTH]
    if not {"pass", "fail"} <= set(map(_word, known)):  # pass may be to skip
        known = [name for name in known if _word(name) not in ("pass", "fail")]
    sides = [[name for name in known if _TRUTH[_word(name)] == value] for value in (1, 0)]
    numbers = {"0", "1"}
    if any(len(side) < 1 for side in sides) or max(map(len, sides)) < 2:
        return []
    others = len(known) < len(names)
    if others and (numbers <= set(names) or max(map(len, names)) <= _CODE):
        return []  # numbers and words of two letters beside other labels are codes
    if max(map(len, names)) == 1 and not numbers <= set(names):
        return []  # so are single letters
    return [(side[1], side[0]) for side in sides if len(side) > 1]


def _word(name: str) -> str:
    return folded(plain_signs(name))


def _same_letters(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs that differ in spaces and signs between letters, or in accents: ``hate-speech``, ``schoen``."""
    pairs: dict[str, str] = {}
    for of_accents in (_without_accents, _written_out):
        groups: dict[str, list[str]] = defaultdict(list)
        for name in names:
            groups[_GAPS.sub("", of_accents(folded(decoded(name))))].append(name)
        for key, group in groups.items():
            if len(re.findall(r"[^\W\d_]", key)) >= _LETTERS or _NUMBER_AND_NAME.fullmatch(key):
                first, *others = sorted(group, key=lambda name: (len(name), name))
                pairs |= {other: pairs.get(other, first) for other in others}
    return list(pairs.items())


def _without_accents(text: str) -> str:
    return "".join(sign for sign in unicodedata.normalize("NFKD", text) if not unicodedata.combining(sign))


def _written_out(text: str) -> str:
    """Return a text with umlauts in two letters, as keyboards without them write it."""
    return _without_accents(text.translate(_UMLAUTS))


def _with_codes(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of a label and the only one with a code: ``5``, ``5 (good)``; ``cat``, ``A) cat``; ``1``, ``one``."""
    coded = [(name, match) for name in names if (match := _CODE_AND_NAME.fullmatch(name.strip()))]
    pairs = []
    for short in names:
        key = folded(short)
        matching = [
            name for name, match in coded if key in (folded(match["code"]), folded(match["name"])) and name != short
        ]
        if len(matching) == 1 and (len(key) > 1 or key.isdecimal()):
            pairs.append((matching[0], short))
    words = {folded(name): name for name in names}
    pairs += [(words[word], words[digit]) for digit, word in _DIGITS.items() if digit in words and word in words]
    roman = [(words[numeral], words[digit]) for digit, numeral in _ROMAN if digit in words and numeral in words]
    pairs += roman if len(roman) > 1 else []  # one of them is a letter
    # Letters beside digits only, each like one of these.
    letters = [name for name in names if not name.isdecimal()]
    if letters and all(_LOOKS_LIKE.get(name) in names for name in letters):
        pairs += [(name, str(_LOOKS_LIKE[name])) for name in letters]
    return pairs


def _all_in_pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of a label and a longer one with it as a code or an abbreviation, if all labels are in such a pair."""
    left = sorted(names, key=len)
    pairs = []
    while left:
        short = left.pop(0)
        long = next((name for name in left if _abbreviates(short, name)), None)
        if long is None:
            return []
        left.remove(long)
        pairs.append((short, long))
    return pairs if len(pairs) > 1 else []


def _abbreviates(short: str, long: str) -> bool:
    one, other = folded(short), folded(long)
    if "->" in other:  # EN->DE is no longer form of EN
        return False
    if one.isdecimal() and other.startswith(f"{one} "):
        return True
    if re.match(re.escape(one) + _SIGN, other) or re.search(_SIGN + re.escape(one) + r"\)?$", other):
        return True
    if one in _SHORT_WORDS or len(one) > _ABBREVIATION:
        return False
    return one.isalpha() and other.isalpha() and other.startswith(one)


def _of_numbers(names: Sequence[str], where: str) -> list[str]:
    """Return a note where labels end in a number such as a confidence, so that one label is several classes."""
    matching = [_WITH_NUMBER.fullmatch(name) for name in names]
    stems = {m["label"] for m in matching if m}
    if len([m for m in matching if m]) < len(names) or len(stems) >= len(names):
        return []
    return [
        f"{where}: labels such as {listed(names, 2)} end in a number, such as a confidence, so that one label is several "
        f"classes; if the number is no part of the label, write it in a column of its own"
    ]


def _of_commas(names: Sequence[str], where: str) -> list[str]:
    """Return a note where all labels are numbers, some of them with a comma: those with a point are read as numbers."""
    if not all(re.fullmatch(r"-?\d+(,\d+)*", name) for name in names) or not any("," in name for name in names):
        return []
    example = next(name for name in names if "," in name)
    if all(re.fullmatch(r"-?\d{1,3}(,\d{3})+", name) for name in names if "," in name):
        ways = [example.replace(",", ".")] if all(name.count(",") < 2 for name in names) else []
        # No thousands begin with 0.
        doubt = "decimals" if any(name.lstrip("-").startswith("0,") for name in names) else "thousands or decimals"
        ways = ways if doubt == "decimals" and ways else [example.replace(",", ""), *ways]
        return [
            f"{where}: labels such as {example!r} are read as classes: {doubt}? If they are numbers, write them "
            f"{' or '.join(ways)} and use kind='numeric'"
        ]
    if any(name.count(",") > 1 for name in names):
        return []
    return [
        f"{where}: labels such as {example!r} are numbers with a decimal comma and read as classes; kind='numeric' reads them as "
        f"numbers"
    ]


def _of_dates(names: Sequence[str], where: str) -> list[str]:
    dates = [name for name in names if SHEET_DATE.fullmatch(name) or _OTHER_DATE.fullmatch(name)]
    if not dates or len(dates) == len(names):
        return []
    return [
        f"{where}: labels such as {listed(dates, 2)} were probably written as dates by a spreadsheet, which takes 1-2 for one: "
        f"export them again as text, or name them with map={{{dates[0]!r}: '...'}}"
    ]


def _of_workers(label: Array, worker: Array, names: Sequence[str], workers: Array, where: str, role: str) -> list[str]:
    """Return a note where each label begins with the name of the worker who gave it: ``ann: cat``."""
    used = np.unique(label * len(workers) + worker)
    for code in used.tolist():
        who = re.escape(folded(str(workers[code % len(workers)])))
        if not re.match(rf"{who}\s*[:=/|_-]\s*\S", folded(names[code // len(workers)])):
            return []
    return [
        f"{where}: labels such as {names[0]!r} begin with the names of the {role} who gave them, so that one label is several "
        f"classes; leave the names out"
    ]


def _of_groups(
    label: Array, worker: Array, item: Array, names: Sequence[str], workers: Array, where: str, role: str, fix: str
) -> list[str]:
    """Return a note where workers fall in groups without a label in common, who labelled items in common."""
    given = np.zeros((len(workers), len(names)), dtype=bool) if len(workers) <= 2_000 else None
    if given is None:
        return []
    given[worker, label] = True
    if (given.sum(1) < _ENOUGH).any():  # of a labelling function that gives one label nothing follows
        return []
    group = np.arange(len(names))
    for row in given:
        joined = np.unique(group[row])
        group[np.isin(group, joined)] = joined[0]
        if (group == group[0]).all():
            return []
    of_worker = group[given.argmax(1)]
    first = of_worker == of_worker[0]
    both = np.intersect1d(item[first[worker]], item[~first[worker]])
    mine = int(first[worker].sum())
    sizes = [(mine, given[first].any(0).sum()), (len(worker) - mine, given[~first].any(0).sum())]
    if not len(both) or any(size < _TIMES * count for size, count in sizes):
        return []
    one, other = ([names[n] for n in np.flatnonzero(given[side].any(0)).tolist()] for side in (first, ~first))
    who = [str(workers[np.flatnonzero(side)[0]]) for side in (first, ~first)]
    return [
        f"{where}: {role} such as {who[0]!r} give {listed(one, 3)} and others such as {who[1]!r} give {listed(other, 3)}, and "
        f"none of them both, to the same items; if these are the same labels, {fix}"
    ]
