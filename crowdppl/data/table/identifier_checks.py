"""Checks of identifiers that are strings: names that are probably meant to be the same, and labels that are probably numbers."""

from __future__ import annotations

import re
from typing import Any

import numpy.typing as npt
import pyarrow
import pyarrow.compute as pc

from crowdppl.data.table.spellings import SCIENTIFIC, skeleton

Array = npt.NDArray[Any]

# From this number of names on, a fast test for duplicates precedes the exact one.
_MANY = 20_000
# A whole number, its leading zeros and its decimals of zeros apart.
_PLAIN = re.compile(r"0*(\d+?)(?:\.0*)?", re.ASCII)
# How decimals of zeros end.
_ENDS = ("0", ".")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
# Kinds of arrays that hold text: those of a file that was read have a length, those of a table are objects.
TEXT = "OU"


def spaced(names: Array) -> list[str]:
    """Return the string identifiers that begin or end with white space."""
    if names.dtype != object:
        return []
    given = names.tolist()
    stripped = list(map(str.strip, given))
    # Fast path: most tables have no such names.
    return [] if stripped == given else [n for n, s in zip(given, stripped, strict=True) if n != s]


def variants(names: Array) -> list[tuple[str, str]]:
    """Return pairs of a string identifier and an earlier one that differ in capitals or white space only."""
    if names.dtype != object or _surely_distinct(names):
        return []
    first: dict[str, str] = {}
    out = []
    for name in names.tolist():
        earlier = first.setdefault(" ".join(name.split()).casefold(), name)
        if earlier != name:
            out.append((name, earlier))
    return out


def _surely_distinct(names: Array) -> bool:
    """Return true if names are many and surely distinct in lower case without white space; a fast test."""
    if len(names) < _MANY:
        return False
    normalised = pc.utf8_lower(pc.replace_substring_regex(pyarrow.array(names, pyarrow.large_string()), r"\s+", ""))
    return bool(pc.count_distinct(normalised).as_py() == len(names))


def written_number(text: str) -> bool:
    """Return whether a text is a number as programs write it, such as ``-3.5`` or ``1e3``."""
    return _NUMBER.fullmatch(text.strip()) is not None


def fractions(names: Array) -> list[str]:
    """Return the string identifiers that are numbers with a fraction, if all identifiers are numbers."""
    if names.dtype.kind not in TEXT or not all(map(_NUMBER.fullmatch, names.tolist())):
        return []
    return [name for name in names.tolist() if not float(name).is_integer()]


def numbers(names: Array) -> Array | None:
    """Return identifiers as numbers, ``(n,)``, if all of them are integers or text that is a number; otherwise ``None``."""
    if names.dtype.kind in TEXT and not all(_NUMBER.fullmatch(name.strip()) for name in names.tolist()):
        return None
    return names.astype(float)


def equal_numbers(names: Array) -> list[tuple[str, str]]:
    """Return pairs of a string identifier and an earlier one that are the same number: 1.0 and 1, but not 01 and 1."""
    first: dict[float, str] = {}
    out = []
    for name in names.tolist() if names.dtype == object else []:
        if _NUMBER.fullmatch(name):
            earlier = first.setdefault(float(name), name)
            if earlier != name and not (name.isdecimal() and earlier.isdecimal()):
                out.append((name, earlier))
    return out


def padded_numbers(names: Array) -> list[tuple[str, str]]:
    """Return pairs of a whole number with leading zeros and another one without them, or with fewer: 007 and 7."""
    if names.dtype != object:
        return []
    padded = [name for name in names.tolist() if name[:1] == "0" and len(name) > 1 and name.isdecimal()]
    if not padded:
        return []
    first = {name: name for name in names.tolist() if (name[:1] != "0" or len(name) == 1) and name.isdecimal()}
    return [(name, earlier) for name in padded if (earlier := first.setdefault(name.lstrip("0") or "0", name)) != name]


def same_numbers(names: Array) -> list[tuple[str, str]]:
    """Return pairs of a string identifier and an earlier one that differ in leading zeros or in decimals of zeros: 1, 01, 1.0."""
    if names.dtype != object:
        return []
    # Fast path: most tables have no such names.
    if not any((name[:1] == "0" and len(name) > 1) or (name[-1:] in _ENDS and "." in name) for name in names.tolist()):
        return []
    first: dict[str, str] = {}
    out = []
    for name in names.tolist():
        matching = _PLAIN.fullmatch(name)
        if matching and (earlier := first.setdefault(matching[1], name)) != name:
            out.append((name, earlier))
    return out


def lookalikes(names: Array) -> list[str]:
    """Return the string identifiers that look like another one: two encodings of é, invisible characters, other dashes."""
    if names.dtype != object:
        return []
    if all(map(str.isascii, names.tolist())):
        return []
    forms = [skeleton(n) if not n.isascii() else n.casefold() for n in names.tolist()]
    if len(set(forms)) == len(forms):
        return []
    # The plain name of a group is not named, wherever it stands.
    written = names.tolist()
    plain = {form: name for form, name in zip(reversed(forms), reversed(written), strict=True)}
    plain |= {form: name for form, name in zip(forms, written, strict=True) if name.isascii()}
    return [name for form, name in zip(forms, written, strict=True) if plain[form] != name and not name.isascii()]


def scientific(names: Array) -> list[str]:
    """Return the string identifiers that a spreadsheet has probably shortened, such as 9.9E+15."""
    return [name for name in names.tolist() if SCIENTIFIC.fullmatch(name)] if names.dtype == object else []
