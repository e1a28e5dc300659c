"""Labels that are dates, durations, formulas or addresses of objects rather than classes, by the form of their text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from crowdppl.data.table.identifier_checks import written_number
from crowdppl.data.table.spellings import folded
from crowdppl.errors import listed

# Annotations from which labels are compared with them, and the share of different ones from which they are no classes.
_ENOUGH, _SHARE = 10, 0.8
# Labels whose form is looked at.
_FIRST = 200
_MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_CLOCK = r"(?:[ t]\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?[ap]m)?(?:z|[+-]\d{2}:?\d{2})?)?"
# Forms of a date: the year first, the year last, and with the name of the month.
_DATES = tuple(
    re.compile(form + _CLOCK, re.IGNORECASE)
    for form in (
        r"\d{4}-\d{1,2}-\d{1,2}",
        r"\d{4}/\d{1,2}/\d{1,2}",
        r"\d{1,2}/\d{1,2}/(?:\d{4}|\d{2})",
        r"\d{1,2}\.\d{1,2}\.(?:\d{4}|\d{2})",
        r"\d{1,2}-\d{1,2}-\d{4}",
        rf"{_MONTH}\.? \d{{1,2}},? \d{{4}}|\d{{1,2}}\.? {_MONTH}\.? \d{{4}}",
    )
)
_UNITS = r"(?:hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s|ms)"
_DURATION = re.compile(rf"(?:\d+(?:[.,]\d+)? ?{_UNITS}[ ,]*)+", re.IGNORECASE)
_UNIT = re.compile(r"[a-z]+", re.IGNORECASE)
# Two labels of which a worker was not sure, or of which one replaced the other; and a number with a unit or a currency.
_EITHER = re.compile(r"(\w.*?) ?(?: or | oder | ou |->|\u2192) ?(\w.*)")
# Doubts and corrections are rarer than the labels in them, by this factor; other labels of two are classes.
_RARER = 2
_CURRENCY = "[$\u20ac\u00a3\u00a5]"
_MEASURED = re.compile(
    rf"{_CURRENCY} ?(\d+(?:\.\d+)?)|(\d+(?:\.\d+)?) ?(?:{_CURRENCY}|mm|cm|km|kg|mg|ml|px|usd|eur|years?|yrs?|stars?|points?)",
    re.IGNORECASE,
)
# One price beside its number may be two classes.
_PRICE = re.compile(_CURRENCY)
_OBJECT = re.compile(r"<.+ at 0x[0-9a-fA-F]+>")
_XML = re.compile(r"\s*(<\?[^<>]*\?>\s*)?<([A-Za-z][\w.-]*)(?![\w.-])[^<>]*>\s*<.*</\2>\s*", re.DOTALL)
_FORMULA = re.compile(r"=[A-Z][A-Z0-9.]*\(.*\)", re.DOTALL)
# Signs of a hashtag and of doubt, where several labels are there with and without them; the word label behind most labels.
_SIGNED, _NAMED = re.compile(r"#(\w.*)|(.*\w)\?+"), re.compile(r"(.*\w)[_ ]label", re.IGNORECASE)


def notes_on_texts(names: Sequence[str], counts: Sequence[int], where: str) -> list[str]:
    """Return notes on labels that are no classes by their form.

    Args:
        names: the distinct labels as text.
        counts: number of annotations with each.
        where: location of the labels, for messages.
    """
    first, annotations = names[:_FIRST], sum(counts)
    for pattern, what, advice in (
        (_OBJECT, "are addresses of objects in the memory of a program", "write the label itself"),
        (_FORMULA, "are formulas of a spreadsheet", "save the values of the cells"),
        (_XML, "are XML and not its content", "write the answer in a column of its own"),
    ):
        odd = [name for name in first if pattern.fullmatch(name)]
        if odd:
            return [f"{where}: labels such as {listed(odd, 2)} {what}; {advice}"]
    forms = [next((n for n, form in enumerate(_DATES) if form.fullmatch(name.strip())), None) for name in first]
    kinds = dict(zip(forms, first, strict=True))
    if len(first) > 1 and None not in kinds and len(kinds) > 1:
        return [
            f"{where}: labels are dates in several forms ({listed(list(kinds.values()), 3)}), so that one date may be several "
            f"classes; write all in one form, or name the column of labels with label=..."
        ]
    both = _of_two(dict(zip(first, counts, strict=False)))
    if both:
        return [
            f"{where}: labels such as {listed(both, 2)} name two other labels and are classes of their own; if a worker could "
            f"not decide, add missing={both[0]!r}"
        ]
    measured = [(name, match[1] or match[2]) for name in first if (match := _MEASURED.fullmatch(name.strip()))]
    pairs = [(name, number) for name, number in measured if number in first]
    if len(pairs) > 1 or (pairs and not _PRICE.search(pairs[0][0])):
        name, number = pairs[0]
        return [
            f"{where}: {name!r} and {number!r} may be one number with a unit and without it, and are different classes; "
            f"write all alike"
        ]
    if len(first) > 2 and all(_DURATION.fullmatch(name.strip()) for name in first):
        units = {" ".join(_UNIT.findall(name)).casefold(): name for name in first}
        if len(units) > 1:
            return [
                f"{where}: labels are durations in several units ({listed(list(units.values()), 3)}), so that one may be several "
                f"classes; write all in one unit, and use kind='numeric' if they are numbers"
            ]
    # Numbers may be grades, and more than a few of them are asked for elsewhere.
    if annotations >= _ENOUGH and len(names) > _SHARE * annotations and not all(map(written_number, first)):
        return [
            f"{where}: {len(names):,} different labels in {annotations:,} annotations, such as {listed(names, 2)}; if these are "
            f"texts, times or identifiers rather than classes, name the column of labels with label=..."
        ]
    return []


def _of_two(counts: Mapping[str, int]) -> list[str]:
    """Return labels that name two others, as of workers who could not decide, and are rarer than these.

    Where an arrow has both directions, such as EN->DE and DE->EN, it is a class.
    """
    of_two = [(name, match[1], match[2]) for name in counts if (match := _EITHER.fullmatch(name))]
    of_two = [(name, one, other) for name, one, other in of_two if {one, other} <= set(counts)]
    ends = {(one, other) for _, one, other in of_two}
    return [
        name
        for name, one, other in of_two
        if (other, one) not in ends and _RARER * counts[name] <= min(counts[one], counts[other])
    ]


def without_signs(names: Sequence[str]) -> dict[str, str]:
    """Return labels without a sign that several have beside the same label without it, and without the word label of most.

    ``C`` and ``#C``, or ``warning`` and ``warning label``, may be two classes.
    """
    plain = {folded(name) for name in names}
    signed = {name: match[1] or match[2] for name in names if (match := _SIGNED.fullmatch(name.strip()))}
    signed = {name: stem for name, stem in signed.items() if folded(stem) in plain}
    named = {name: match[1] for name in names if (match := _NAMED.fullmatch(name.strip()))}
    return (signed if len(signed) > 1 else {}) | (named if 2 * len(named) > len(names) else {})
