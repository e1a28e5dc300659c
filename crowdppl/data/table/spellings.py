"""Spellings of names: what looks alike, what differs in capitals only, and what is probably a typing error.

Everything works on distinct names.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.int64]

_QUOTES = dict.fromkeys("‘’‚‛′`´", "'") | dict.fromkeys("“”„‟″«»", '"')
# Letters of other scripts that look like Latin ones in every type.
_LATIN = dict(zip("АВЕЅІЈКМНОРСТУХаеоѕіјрсух", "ABESIJKMHOPCTYXaeosijpcyx", strict=True))
_LATIN |= dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧο", "ABEZHIKMNOPTYXo", strict=True))
# The i without a dot of Turkish, whose capital is I.
_LATIN["\u0131"] = "i"
_TABLE = str.maketrans(_QUOTES | {"−": "-"})
_HOMOGLYPHS = str.maketrans(_LATIN)
_WHOLE = re.compile(r"([+-]?\d+)\.0+")
SCIENTIFIC = re.compile(r"[+-]?\d([.,]\d+)?[eE]\+?\d{1,3}")

# Agreement on items that shows that two spellings are two classes: the z score of equal spellings, their share above what the
# habits of the workers explain, and the number of pairs of annotations required.
MIN_Z, MIN_EXCESS, MIN_PAIRS = 3.0, 0.3, 5
# A worker who gives each of two spellings so often uses both.
BOTH = 3
# Annotations of one group of spellings that are looked at, at most.
MOST_ROWS = 50_000
# A label is probably a typing error of another one that was given so many times as often.
RATIO = 5
MOST_LABELS, MOST_MEANT = 3_000, 200
_NEGATIONS = ("un", "in", "im", "ir", "il", "dis", "non", "not", "no", "anti", "ab", "de", "mis", "a")
# Beginnings of words of which one says the opposite of another: increase and decrease, hyper- and hypotension.
_BEGINNINGS = "ex pro over under up down pre post hyper hypo inter intra"
_OPPOSITES = frozenset((*_NEGATIONS, *_BEGINNINGS.split(), "")) - {"a"}  # a letter is left out or put in by mistake
# Between the labels of a set.
_SETS = re.compile(r"[;|]")


def visible(text: str) -> str:
    """Return a text as it looks: composed, without invisible characters, with plain dashes, quotes and single spaces."""
    if text.isascii():
        return " ".join(text.split())
    kept = (
        "-" if unicodedata.category(letter) == "Pd" else letter
        for letter in unicodedata.normalize("NFKC", text).translate(_TABLE)
        if unicodedata.category(letter) not in ("Cf", "Cc", "Mn") or letter.isspace() or unicodedata.combining(letter)
    )
    return " ".join("".join(kept).split())


def same_look(text: str) -> str:
    """Return the key of names that look the same; whole numbers written with and without decimals are the same."""
    plain = visible(text)
    number = _WHOLE.fullmatch(plain)
    return number[1] if number else plain


def folded(text: str) -> str:
    """Return the key of names that differ in look, capitals and white space only."""
    return _without_dot(same_look(text).casefold())


def skeleton(text: str) -> str:
    """Return the key of names that differ in letters of another script that look alike."""
    return _without_dot(same_look(text).translate(_HOMOGLYPHS).casefold())


def _without_dot(text: str) -> str:
    """Return a text in lower case without the dot that Turkish capitals leave above an i."""
    return text if text.isascii() else text.replace("i\u0307", "i")


# In this order: what cannot be told apart by eye, then capitals, then letters of other scripts.
KEYS: tuple[Callable[[str], str], ...] = (same_look, folded, skeleton)


def alike(names: Iterable[str], key: Callable[[str], str]) -> list[list[str]]:
    """Return groups of at least two names that have the same key."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        groups[key(name)].append(name)
    return [group for group in groups.values() if len(group) > 1]


def used_apart(item: Array, worker: Array, spelling: Array) -> bool:
    """Return whether workers use the spellings of one label as different labels.

    They do if different workers give the same spelling to the same item more often than their habits explain; or if, without
    items in common, one of them gives several spellings several times.

    Args:
        item: item of each annotation with one of the spellings, ``(n,)``.
        worker: its worker.
        spelling: code of its spelling, from 0.
    """
    order = np.lexsort((worker, item))[:MOST_ROWS]
    item, worker, spelling = (np.unique(codes[order], return_inverse=True)[1] for codes in (item, worker, spelling))
    V, J, N = (int(codes.max()) + 1 for codes in (spelling, worker, item))
    if V < 2:
        return False
    counts = np.zeros((J, V))
    np.add.at(counts, (worker, spelling), 1)
    again = np.r_[False, (item[1:] == item[:-1]) & (worker[1:] == worker[:-1])]
    if again.sum() >= BOTH and bool((spelling[1:] != spelling[:-1])[again[1:]].all()):
        return True  # sets of labels: whoever gives one of them again gives the other one
    first = ~again
    item, worker, spelling = item[first], worker[first], spelling[first]
    share = counts.sum(0) / counts.sum()
    habit = ((counts + share) / (counts.sum(1, keepdims=True) + 1))[worker]
    expected, given = np.zeros((N, V)), np.zeros((N, V))
    np.add.at(expected, item, habit)
    np.add.at(given, (item, spelling), 1)
    total = given.sum(1)
    pairs = float((total * (total - 1)).sum()) / 2
    if pairs < MIN_PAIRS:
        return bool((np.sort(counts, axis=1)[:, -2] >= BOTH).any())
    same = float((given * (given - 1)).sum()) / 2
    mean = (float((expected**2).sum()) - float((habit**2).sum())) / 2
    spread = np.sqrt(max(mean * (1 - mean / pairs), 1e-9))
    return (same - mean) / spread > MIN_Z and (same - mean) / max(pairs - mean, 1e-9) > MIN_EXCESS


# The beginning of a label of a token: it begins, continues or ends a span, or is a span of its own.
_TAG = re.compile(r"([BIELSU])[-_]\w")


class NearDuplicate(NamedTuple):
    """A label that is probably a typing error.

    Attributes:
        label: as it was given.
        meant: the more frequent label that it resembles.
        size: number of its annotations.
    """

    label: str
    meant: str
    size: int


def near_duplicates(counts: Mapping[str, int]) -> list[NearDuplicate]:
    """Return the labels that resemble a far more frequent one, most frequent first.

    Numbers and sets of labels resemble nothing. Digits must agree, and one must not say the opposite of the other: no word of it
    may be the other's with a negation or an opposite beginning.

    Args:
        counts: number of annotations of each label.
    """
    ordered = sorted((name for name in counts if counts[name] > 0), key=lambda name: (-counts[name], name))
    if len(ordered) < 3 or len(ordered) > MOST_LABELS:
        return []
    ordered = [name for name in ordered if any(map(str.isalpha, name)) and not _SETS.search(name)]
    plain = {name: "".join(filter(str.isalnum, skeleton(name))) for name in ordered}
    letters = sorted(set("".join(plain.values())))
    place = {letter: n for n, letter in enumerate(letters)}
    bags = np.zeros((len(ordered), len(letters)), dtype=np.int16)
    for n, name in enumerate(ordered):
        for letter, times in Counter(plain[name]).items():
            bags[n, place[letter]] = times
    roots: list[int] = []
    out = []
    for n, name in enumerate(ordered):
        near = []
        if roots:
            apart = np.abs(bags[roots] - bags[n]).sum(1)
            near = [
                (distance, root)
                for root, bound in zip(roots, apart.tolist(), strict=True)
                if counts[ordered[root]] >= RATIO * counts[name]
                and bound <= 2 * _limit(plain[name], plain[ordered[root]])
                and (distance := _near(plain[name], plain[ordered[root]])) is not None
                and not _opposite(name, ordered[root])
            ]
        if near:
            out.append(NearDuplicate(name, ordered[min(near)[1]], counts[name]))
        elif len(roots) < MOST_MEANT:
            roots.append(n)
    return out


def _opposite(one: str, other: str) -> bool:
    """Return whether a word of one name is a word of the other with a negation or an opposite beginning.

    Labels of tokens that begin and continue a span, such as ``B-PER`` and ``I-PER``, are opposites, too.
    """
    tags = [_TAG.match(name) for name in (one, other)]
    if tags[0] and tags[1] and tags[0][1] != tags[1][1]:
        return True
    both = [re.findall(r"[^\W_]+", skeleton(name)) for name in (one, other)]
    if len(both[0]) != len(both[1]):  # a word that one of them has beside the others
        return any(word in _NEGATIONS for word in set(both[0]) ^ set(both[1]))
    for first, second in zip(*both, strict=True):
        letters = zip(reversed(first), reversed(second), strict=False)
        end = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], letters))
        begins = first[: len(first) - end], second[: len(second) - end]
        if first != second and end > 2 and _OPPOSITES.issuperset(begins):
            return True
    return False


def _limit(one: str, other: str) -> int:
    """Return how many typing errors two names may differ in."""
    size = min(len(one), len(other))
    return 0 if size < 3 else 1 if size < 6 else 2 if size < 10 else 3


def _near(one: str, other: str) -> int | None:
    """Return the number of typing errors between two names, ``None`` if they are different names."""
    if re.sub(r"\D", "", one) != re.sub(r"\D", "", other):
        return None
    short, long = sorted((one, other), key=len)
    if short != long and long.endswith(short) and long[: -len(short)] in _NEGATIONS:
        return None
    distance = edits(one, other)
    return distance if distance <= _limit(one, other) else None


def edits(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of insertions, deletions, replacements and exchanges of neighbours between two texts."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        earlier, before, row = before, row, [i]
        for j, wanted in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                cost = min(cost, earlier[j - 2] + 1)
            row.append(cost)
    return row[-1]
