"""Labels that are dates, durations, formulas or addresses of objects rather than classes, by the form of their text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from crowdppl.data.table.identifier_checks import written_number
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
_CURRENCY = "[$\u20ac\u00a3\u00a5]"
_MEASURED = re.compile(
    rf"{_CURRENCY} ?(\d+(?:\.\d+)?)|(\d+(?:\.\d+)?) ?(?:{_CURRENCY}|mm|cm|km|kg|mg|ml|px|usd|eur|years?|yrs?|stars?|points?)",
    re.IGNORECASE,
)
_OBJECT = re.compile(r"<.+ at 0x[0-9a-fA-F]+>")
_FORMULA = re.compile(r"=[A-Z][A-Z0-9.]*\(.*\)", re.DOTALL)


def notes_on_texts(names: Sequence[str], annotations: int, where: str) -> list[str]:
    """Return notes on labels that are no classes by their form.

    Args:
        names: the distinct labels as text.
        annotations: number of annotations.
        where: location of the labels, for messages.
    """
    first = names[:_FIRST]
    for pattern, what, advice in (
        (_OBJECT, "are addresses of objects in the memory of a program", "write the label itself"),
        (_FORMULA, "are formulas of a spreadsheet", "save the values of the cells"),
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
    both = [name for name in first if (match := _EITHER.fullmatch(name)) and {match[1], match[2]} <= set(first)]
    if both:
        return [
            f"{where}: labels such as {listed(both, 2)} name two other labels and are classes of their own; if a worker could "
            f"not decide, add missing={both[0]!r}"
        ]
    for name in first:
        match = _MEASURED.fullmatch(name.strip())
        number = (match[1] or match[2]) if match else None
        if number in first:
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
