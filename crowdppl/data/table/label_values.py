"""Labels that state one value in two ways: signs, shares and fractions, names of numbered choices, comparisons, sets of words."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence

from crowdppl.data.table.name_forms import digits_of_one_script
from crowdppl.data.table.spellings import folded

# Signs for right and wrong, in all their forms.
RIGHT, WRONG = "\u2713\u2714\u2705\u2611\U0001f5f8", "\u2717\u2718\u274c\u2715\u2716\u274e\u2612"
_SIGNS = dict.fromkeys(map(ord, RIGHT), RIGHT[0]) | dict.fromkeys(map(ord, WRONG), WRONG[0])
_SKIN = dict.fromkeys(range(0x1F3FB, 0x1F400))
_STARS = re.compile("[*\u2605\u2b50\ufe0f]+[\u2606]*")
_PERCENT, _SHARE = re.compile(r"(\d{1,3}(?:[.,]\d+)?)\s*%"), re.compile(r"[01](?:[.,]\d+)?")
_FRACTION = re.compile(r"(\d+(?:\.\d+)?)\s*(?:/|out of|of)\s*(\d+)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
# Halves, thirds and quarters are fractions of one where all numbers are 0 and 1.
_FEWEST_GRADES = 5
_CHOICE = re.compile(
    r"(?:the )?(?:model|assistant|response|answer|option|choice|candidate|output|system|class|label|grade|rating|score|level"
    r"|category|type|completion)[\s_:#-]*(?P<name>\d{1,3}|[a-z])(?: is better| wins)?"
)
_COMPARED = re.compile(r"(?P<first>\w+)\s*(?P<sign>>+|<+)\s*(?P<second>\w+)")
_WORDS = re.compile(r"\s*(?:[\s~]|\b(?:and|or|und|oder|et|ou)\b)\s*")
# Signs between the labels of a list that stand in no single label: of Chinese and Japanese, dots and pairs of colons.
_LISTED = re.compile("[\u3001\uff0c\uff1b\u30fb\u00b7\u2022\u00a6\u061b\u060c]|::")
_EITHER_OF = re.compile(r"\b(?:or|oder|ou)\b")
_ENDINGS, _STEM = ("ed", "d", "s"), 4
# Words that are not those that they are without an ending.
_OTHER_WORD = re.compile(r"\w+ics|goods|means|needs|customs|spirits|manners|colou?rs|looks|related|added|based|noted")
# Denominators of meters, which no fraction in lowest terms stands for: 4/4 is not 2/2.
_METERS = frozenset(("1", "2", "4", "8", "16", "32"))
_ARRAY = re.compile(r"\{[^{}:]*\}")
_WITH_COUNT = re.compile(r"(?P<stem>[^\W\d][^:=]*?)\s*[:=]\s*\d+")
_WITH_DATE = re.compile(
    r"(?P<stem>\S.*?)\W+(?:\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./]\d{1,2}[./]\d{2,4})(?:[ T]\d{1,2}:\d{2}\S*)?\W*"
)
_SERIAL, _RANGE = re.compile(r"[34567]\d{4}"), re.compile(r"\d{1,2}\s*[-/]\s*\d{1,2}")
_DECIMAL = re.compile(r"-?\d+([.,]\d+)?")


def plain_signs(text: str) -> str:
    """Return a text with one sign for each of right and wrong, without colours of skin, and with digits of one script."""
    if text.isascii():
        return text
    return digits_of_one_script(text.translate(_SKIN).translate(_SIGNS))


def two_ways(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of labels of one value: a way of writing, and a plainer one.

    Args:
        names: the distinct labels as text.
    """
    plain = {folded(name): name for name in names}
    fractions = [m for name in plain if (m := _FRACTION.fullmatch(name))]
    pairs = []
    if len(fractions) > 1 and len({m[2] for m in fractions}) == 1:
        numbers = [name for name in plain if _NUMBER.fullmatch(name)]
        if _are_grades(float(fractions[0][2]), numbers):
            pairs += _matched(plain, _FRACTION, lambda m: float(m[1]), _NUMBER, float)
    elif not {m[2] for m in fractions} <= _METERS:  # 8/10 and 4/5
        values: dict[float, str] = {}
        for m in fractions:
            if float(m[2]):
                first = values.setdefault(round(float(m[1]) / float(m[2]), 9), plain[m[0]])
                pairs += [(plain[m[0]], first)] if first != plain[m[0]] else []
    pairs += _matched(plain, _PERCENT, lambda m: round(_float(m[1]) / 100, 9), _SHARE, _float)
    pairs += _matched(plain, _STARS, lambda m: float(sum(map(m[0].count, "*\u2605\u2b50"))), _NUMBER, float)
    pairs += _matched(plain, _CHOICE, lambda m: m["name"], re.compile(r"\d{1,3}|[a-z]"), str)
    return pairs + _turned(plain) + _other_order(plain) + _inflected(plain)


def _float(text: str) -> float:
    return float(text.replace(",", "."))


def _matched(
    plain: dict[str, str],
    form: re.Pattern[str],
    value: Callable[[re.Match[str]], Hashable],
    plainer: re.Pattern[str],
    value_of: Callable[[str], Hashable],
) -> list[tuple[str, str]]:
    """Return pairs of a label in a form and one in a plainer form of the same value."""
    written = {value(m): name for text, name in plain.items() if (m := form.fullmatch(text))}
    if not written:
        return []
    other = {value_of(text): name for text, name in plain.items() if plainer.fullmatch(text)}
    return [(name, other[key]) for key, name in written.items() if key in other]


def _turned(plain: dict[str, str]) -> list[tuple[str, str]]:
    """Return pairs of comparisons that say the same: ``A>B`` and ``B<A``."""
    pairs = []
    seen: dict[tuple[str, str, int], str] = {}
    for text, name in plain.items():
        m = _COMPARED.fullmatch(text)
        if m:
            first, second = m["first"], m["second"]
            key = (first, second, len(m["sign"])) if m["sign"][0] == ">" else (second, first, len(m["sign"]))
            if key in seen:
                pairs.append((name, seen[key]))
            seen.setdefault(key, name)
    return pairs


def _other_order(plain: dict[str, str]) -> list[tuple[str, str]]:
    """Return pairs of the same words in two orders, a set of labels: each is a label, too, or signs of lists stand between."""
    pairs = []
    seen: dict[tuple[str, ...], str] = {}
    for text, name in plain.items():
        listed = sorted(folded(part) for part in _LISTED.split(name))
        parts = listed if len(listed) > 1 else sorted(_WORDS.split(text))
        if len(parts) > 1 and (len(listed) > 1 or all(part in plain for part in parts)):
            # Both of two are not one of them.
            key = (*parts, "or" if _EITHER_OF.search(text) else "and")
            if key in seen:
                pairs.append((name, seen[key]))
            seen.setdefault(key, name)
    return pairs


def _inflected(plain: dict[str, str]) -> list[tuple[str, str]]:
    """Return pairs of a word and the same with another ending: ``pass`` and ``passed``."""
    return [
        (plain[text + ending], name)
        for text, name in plain.items()
        if len(text) >= _STEM and text.isalpha()
        for ending in _ENDINGS
        if text + ending in plain and not text.endswith("s" if ending == "s" else "-")
        if not _OTHER_WORD.fullmatch(text + ending)
    ]


def _are_grades(maximum: float, numbers: Sequence[str]) -> bool:
    """Return whether fractions of a maximum are grades, beside these numbers: 1/2 beside 0 and 1 is a half."""
    return maximum >= _FEWEST_GRADES or any(float(text) > 1 for text in numbers)


def notes_on_fractions(names: Sequence[str], where: str) -> list[str]:
    """Return a note where some grades have their maximum behind them and others have not: ``8/10`` and ``7``."""
    plain = [folded(name) for name in names]
    fractions = [m for text in plain if (m := _FRACTION.fullmatch(text))]
    numbers = [text for text in plain if _NUMBER.fullmatch(text)]
    if not fractions or not numbers or len(fractions) + len(numbers) < len(plain):
        return []
    highest = {float(m[2]) for m in fractions}
    if (
        len(highest) > 1
        or not _are_grades(max(highest), numbers)
        or max(map(float, numbers)) > max(highest)
        or any(float(m[1]) > float(m[2]) for m in fractions)
    ):
        return []
    example = next(name for name in names if folded(name) == fractions[0][0])
    return [
        f"{where}: labels such as {example!r} are fractions and others such as {numbers[0]!r} are numbers, and all are different "
        f"classes; if they are grades up to {max(highest):g}, write them alike"
    ]


def notes_on_values(names: Sequence[str], where: str) -> list[str]:
    """Return notes on labels that a database, a count, or a spreadsheet has changed, and on numbers with commas and points.

    Args:
        names: the distinct labels as text.
        where: location of the labels, for messages.
    """
    notes = []
    arrays = [name for name in names if "," in name]
    if arrays and all(map(_ARRAY.fullmatch, names)):
        notes.append(
            f"{where}: labels such as {arrays[0]!r} are arrays as databases write them, and each is a class of its own; "
            f"to read them as sets, write ';' for ',', leave out the brackets, and use several='sets'"
        )
    counted = [_WITH_COUNT.fullmatch(name) for name in names]
    stems = {m["stem"] for m in counted if m}
    if all(counted) and 1 < len(stems) < len(names):
        notes.append(
            f"{where}: labels such as {names[0]!r} end in a number, so that one label is several classes; if the number is "
            f"no part of the label, write it in a column of its own"
        )
    dated = [_WITH_DATE.fullmatch(name) for name in names]
    if all(dated) and len({m["stem"] for m in dated if m}) < len(names):
        notes.append(
            f"{where}: labels such as {names[0]!r} end in a date, so that one label is several classes; write the date in a "
            f"column of its own"
        )
    serial = [name for name in names if _SERIAL.fullmatch(name)]
    ranges = [name for name in names if _RANGE.fullmatch(name)]
    if serial and ranges and len(serial) + len(ranges) == len(names):
        notes.append(
            f"{where}: labels such as {serial[0]!r} beside {ranges[0]!r} are probably numbers of days, as a spreadsheet writes "
            f"dates and what it took for dates: export them again as text"
        )
    commas, points = ([name for name in names if sign in name] for sign in ",.")
    if commas and points and all(map(_DECIMAL.fullmatch, names)):
        notes.append(
            f"{where}: labels such as {commas[0]!r} and {points[0]!r} are numbers with a decimal comma and with a point, and "
            f"read as classes; if they are numbers, write all with a point and use kind='numeric'"
        )
    return notes
