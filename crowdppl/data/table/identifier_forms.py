"""Names of items and workers that other programs have changed, and names that stand for nobody: what a careful reader would ask.

Everything works on distinct names and results in notes. Nothing is merged or left out.
"""

from __future__ import annotations

import ipaddress
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from crowdppl.data.table.cells import is_structured, parsed
from crowdppl.data.table.missing_words import PROGRAMS
from crowdppl.data.table.name_forms import MOST, PEOPLE, in_words, other_forms
from crowdppl.data.table.spellings import visible
from crowdppl.errors import listed

Array = npt.NDArray[Any]

# Digits that a spreadsheet keeps of a number, and how many names without further ones show that it was one.
_DIGITS, _ROUNDED = 15, 3
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
# How a spreadsheet shows 1-2, 3/4 and MARCH1, which it takes for dates.
SHEET_DATE = re.compile(rf"\d{{1,2}}-({_MONTHS})|({_MONTHS})-\d{{2}}", re.IGNORECASE)
_PERSON = re.compile(
    r"((human|person|annotator|expert|rater|crowd|worker)s?|human_(annotator|rater|expert|labell?er|coder|judge|eval(uator)?)s?)(_?\d+)?"
)
_LONGEST_DATE = 7
_SIGNS = 3  # of a name for nobody, at most
_LONGEST_WORD = 10
# Signs at the beginning of a list or an object, and how much of one is shown.
_OBJECT, _SHOWN = ("{", "["), 60
# Signs in an object, or in a list of texts, and how many names that begin as one are looked at.
_IN_OBJECT, _MOST_OBJECTS = re.compile("[:\"']"), 1_000
_NOBODY = frozenset(
    ("none", "na", "unknown", "undefined", "anonymous", "anon", "anonymized", "not-logged-in", "guest", "deleted")
)
_FOR_NOBODY = _NOBODY | PROGRAMS
# Words for no item, where most items are numbered.
_NO_ITEM = frozenset(("unknown", "none", "na", "untitled", "unnamed", "no id", "missing", "anonymous"))
# Programs and keys of a test among people.
_NO_PERSON = re.compile(
    r"(model|predict(ions?|ed|or)|pred|classifier|baseline|machine|bot|auto(mat(ic|ed))?|system)(_?v?\d[\d_.]*|_[a-z])?"
    r"|gt|gold_?label|answer_?key|test_?questions?"
)
_CAPITALS = re.compile("[A-Z]{2}")
_SUMMARY = re.compile(
    r"(gold|ground_?truth|truth|reference|consensus|majority|aggregated?|adjudicat(ed|ion|ors?)|arbit(er|rator)|tie_?breaker|final"
    r"|resolved|curated|consolidated|ensemble|jury|committee|panel|harmoni[sz]ed|dawid_?skene|mace)(_?(vote|label|class|answer|annotation|standard|decision|rating))?s?"
    r"|(grand_?)?total|sum|all|overall|average|mean|median"
)
# Between the names of several people.
_TOGETHER = re.compile(r"\s*[;,/|&+]\s*|\s+(?:and|und|et)\s+")
# The same between names in a list, where a name may have no such part of its own, and where two orders show a list.
_LISTED, _SHARED_CELL = re.compile(r"\s*[;|]\s*"), re.compile(r"\s*[;,|]\s*")
_IN_ORDER = re.compile(r"\s*[;,|&]\s*|\s+(?:and|und|et)\s+")
_COMMA = re.compile(r",\s")  # Lee, Ann and Ann, Lee have a note of their own
# Names of sessions by their time, after the name of a data set or without one; at least so many show it.
_TIME = re.compile(
    r"(?:[\w.]+[-_])?\d{4}-?\d{2}-?\d{2}[ T_-]\d{2}[:_-]?\d{2}(?:[:_-]?\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?"
)
# Networks and large numbers in an address from which names are addresses in the Internet rather than versions.
_NETWORKS, _LARGE = 3, 20
_SESSION = re.compile(
    r"(?P<who>.+?)[-_. ](?:(?P<letter>s)|session|sess|round|run|visit|wave|batch)[-_ ]?\d+", re.IGNORECASE
)
# Dates behind a hyphen are also those of versions of a model.
_WITH_DATE = re.compile(
    r"(?P<who>[^\d\W](?:.*?\w)?)[_. (:@]+(?:[12]\d{3}-?\d\d-?\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4})(?:[ T]\d\d:\d\d\S*)?\)?"
)
# Where the letter s is one for a subject or a student: behind the name of a place or a group, or of a role without a number.
_GROUP = re.compile(
    r"(.*[\W\d_])?(lab(oratory|or)?|site|cent(er|re)|clinic|hospital|ward|school|class(room)?|course|section|grade|uni(versity|v)?"
    r"|college|dept|department|institut(e|ion)?|office|company|city|town|village|country|region|district|state|house(hold)?|home"
    r"|room|group|grp|team|cohort|panel|crew|squad|pool|cluster|pair|dyad|triad|famil(y|ie)|condition|cond|arm|treatment|treat"
    r"|study|exp(eriment)?|pilot|project|sample|batch|block|list|form|platform|vendor|agency)s?[\W\d_]*",
    re.IGNORECASE,
)
_ROLE = re.compile(
    r"(.*[\W_])?(experts?|novices?|students?|teachers?|pupils?|doctors?|nurses?|physicians?|radiologists?|patients?|controls?"
    r"|ctrl|crowd|lay(people|men)?|workers?|annotators?|raters?|coders?|judges?|reviewers?|labell?ers?|participants?|subjects?"
    r"|users?|persons?|people|children|child|adults?|males?|females?|men|women|mturk|prolific)",
    re.IGNORECASE,
)
_FEWEST = 2
# Signs of a code or an e-mail address, in no word for nobody.
_CODE = re.compile("[0-9@]")
_SUMS = frozenset(
    word
    for one in ("total", "totals", "grand total", "sum", "subtotal", "gesamt", "summe")
    for word in (one, one.title(), one.upper())
)
_NUMERIC = re.compile(r"[+-]?\d+(?:[.,]\d+)?")


def notes_on(names: Array, role: str, source: str, alike: Iterable[str] = ()) -> list[str]:
    """Return notes on the names of items or workers.

    Args:
        names: distinct identifiers, ``(n,)``.
        role: ``task`` or ``worker``.
        source: name of the table.
        alike: names of which another note says that they look like others.
    """
    if names.dtype != object:
        if role in PEOPLE and names.dtype.kind == "i" and (names < 0).sum() == 1 and names.min() == -1:
            return [_as_name(["-1"], role, source)]
        return _of_rounded([str(name) for name in names.tolist()] if _large(names) else [], role, source)
    texts = names.tolist()
    notes = _of_nobody(texts, role, source) + _of_rounded(texts, role, source) + _of_programs(texts, role, source)
    notes += _of_several(texts, role, source) + _of_times(texts, role, source) + _of_sums(texts, role, source)
    pairs = other_forms(texts, role, set(alike))
    if pairs:
        examples = ", ".join(f"{name!r} and {other!r}" for name, other in pairs[:2])
        notes.append(
            f"{source}: {len(pairs):,} {role} {'name' if len(pairs) == 1 else 'names'} may be another one in another form: "
            f"{examples}; each is a {role} of its own: write them alike if they are the same"
        )
    return notes


def _large(names: Array) -> bool:
    return len(names) >= _ROUNDED and bool(np.abs(names).max() >= 10.0**_DIGITS)


def _of_nobody(texts: Sequence[str], role: str, source: str) -> list[str]:
    """Return notes on names that programs write for nothing, and on workers that are no persons."""
    notes = []
    # Items are many, and are looked up as they are written.
    nothing = sorted({*PROGRAMS, "None"}.intersection(texts))
    if role not in PEOPLE:
        words = [name for name in texts if len(name) <= _LONGEST_WORD and not name[-1:].isdigit()]
        words = [name for name in words if in_words(name, " ") in _NO_ITEM]
        words = [name for name in words if name not in nothing]
        if words and 2 * sum(any(map(str.isdigit, name)) for name in texts) > len(texts):
            nothing += words
    if role in PEOPLE:
        # Items may be words and signs of a text, and several such names tell people apart.
        signs = [name for name in texts if len(name) <= _SIGNS and _of_signs(name)]
        nothing += [name for name in signs if len(signs) == 1 and name not in nothing]
        # Most names have digits, or are e-mail addresses, and are none of these.
        words = [name for name in texts if not name[-1:].isdigit() and not _CODE.search(name)]
        nothing += [name for name in words if name not in nothing and visible(name).casefold() in _FOR_NOBODY]
        summary = [name for name in words if len(texts) > 1 and _SUMMARY.fullmatch(in_words(name, "_"))]
        if summary:
            given = "truth" if role == "worker" else "human"
            notes.append(
                f"{source}: the {role} {summary[0]!r} is none by its name: if these labels are true ones or summarize others, "
                f"drop the rows, and give true ones as {given}=..."
            )
        notes += _of_programs_among_people(texts, source) if role == "worker" else []
        if role == "judge" and len(texts) > 1:
            notes += [
                f"{source}: the judge {name!r} is a person by its name: verdicts of people are to be given as human=..."
                for name in texts
                if _PERSON.fullmatch(in_words(name, "_"))
            ][:1]
    return [*notes, _as_name(nothing, role, source)] if nothing else notes


def _of_programs_among_people(texts: Sequence[str], source: str) -> list[str]:
    """Return a note on a worker by the name of a program or of a key, where most others have no such name."""
    if len(texts) > MOST:
        return []
    none = [name for name in texts if _NO_PERSON.fullmatch(in_words(name, "_"))]
    # GT beside AB and KL are initials.
    initials = sum(map(bool, map(_CAPITALS.fullmatch, texts)))
    none = [name for name in none if not (initials > 1 and _CAPITALS.fullmatch(name))]
    if not none or 2 * len(none) >= len(texts):
        return []
    return [
        f"{source}: the worker {none[0]!r} is read as a person like the others, and may be a program or a key by its name: if "
        f"so, drop the rows, and give true labels as truth=..."
    ]


def _of_signs(name: str) -> bool:
    """Return whether a name has signs of punctuation only, such as a dash or a question mark for nobody."""
    return bool(name.strip()) and all(unicodedata.category(sign)[0] == "P" for sign in name.strip())


def _of_several(texts: Sequence[str], role: str, source: str) -> list[str]:
    """Return a note on names that consist of other names, as where several people share a cell."""
    if role not in PEOPLE:
        return []
    joined = [name for name in texts if _TOGETHER.search(name)]
    known = {name.strip().casefold() for name in texts} if joined else set()
    for name in joined:
        parts = _parts(name, _TOGETHER)
        if len(set(parts)) > 1 and known.issuperset(parts):
            return [_as_one(name, f"its parts are names of other {role}s", role, source)]
    # Of two names that are one list in two orders, neither is a place and a name in it; numbers may be a row and a seat.
    orders: dict[tuple[str, ...], str] = {}
    for name in joined:
        parts = _parts(name, _IN_ORDER)
        if len(set(parts)) < 2 or all(map(str.isdecimal, parts)) or _COMMA.search(name):
            continue
        first = orders.setdefault(tuple(sorted(parts)), name)
        if _parts(first, _IN_ORDER) != parts:
            return [_as_one(name, f"{first!r} has the same parts in another order", role, source)]
    if role != "worker":
        return []
    times = Counter(part for name in joined for part in set(_parts(name, _LISTED)))
    # Parts that each have their place, as of US|m, US|f, DE|m and DE|f, are a group and a name in it.
    places = {pair for name in joined for pair in enumerate(_parts(name, _LISTED))}
    in_places = len(places) == len(times)
    for name in joined:
        parts = _parts(name, _SHARED_CELL)
        if len(parts) > 1 and not known.isdisjoint(parts):
            return [_as_one(name, "a part of it is the name of another worker", role, source)]
        # Parts of a list are in other lists, too; of auth0|x1 and auth0|x2 one is the name of a service.
        parts = _parts(name, _LISTED)
        if len(parts) > 1 and (len(texts) == 1 or (not in_places and all(times[part] > 1 for part in parts))):
            return [_as_one(name, "it is a list by its signs", role, source)]
    return []


def _parts(name: str, between: re.Pattern[str]) -> list[str]:
    return [part.strip().casefold() for part in between.split(name) if part.strip()]


def _as_one(name: str, why: str, role: str, source: str) -> str:
    return f"{source}: the {role} {name!r} is read as one, though {why}; if it is several, write a row for each"


def _of_times(texts: Sequence[str], role: str, source: str) -> list[str]:
    """Return a note where all names of workers are times, as tools name sessions of nobody."""
    if role not in PEOPLE or len(texts) < _FEWEST:
        return []
    if role == "worker" and (first := _SESSION.fullmatch(texts[0])) and len(texts) <= MOST:
        sessions = [match["who"] for name in texts if (match := _SESSION.fullmatch(name)) and not _of_subject(match)]
        if len(sessions) == len(texts) > len(set(sessions)) > 1:
            return [
                f"{source}: the names of all workers end in a number of a session, such as {texts[0]!r}, and each is a worker of "
                f"its own; if {first['who']!r} is one person, leave these numbers out"
            ]
    may_be_dated = role == "worker" and len(texts) <= MOST and _WITH_DATE.fullmatch(texts[0])
    dated = [_WITH_DATE.fullmatch(name) for name in texts] if may_be_dated else []
    people = [match["who"] for match in dated if match]
    if len(people) == len(texts) > len(set(people)):
        return [
            f"{source}: the names of all workers end in a date, such as {texts[0]!r}, and each is a worker of its own; if "
            f"{people[0]!r} is one person, leave the dates out"
        ]
    if role == "worker" and _are_addresses(texts):
        return [
            f"{source}: the names of all workers are addresses in the Internet, such as {texts[0]!r}: a person with two of them "
            f"is two workers, and people behind one are one; export the names of people"
        ]
    if not all(map(_TIME.fullmatch, texts)):
        return []
    return [
        f"{source}: the names of all {role}s are times, such as {texts[0]!r}, as tools name sessions without a name: a person "
        f"with two sessions is two {role}s, and two persons may be one; export the names of people"
    ]


def _are_addresses(texts: Sequence[str]) -> bool:
    """Return whether names are addresses in the Internet, of several networks; versions and times look like some."""
    if not all(name.count(".") == 3 or name.count(":") > 1 for name in texts):
        return False
    try:
        addresses = [ipaddress.ip_address(name) for name in texts]
    except ValueError:
        return False
    large = [address.version == 6 or sum(part > _LARGE for part in address.packed) > 1 for address in addresses]
    return all(large) and len({address.packed[:2] for address in addresses}) >= _NETWORKS


def _of_subject(match: re.Match[str]) -> bool:
    """Return whether a name ends in a number of a subject or a student rather than of a session."""
    who = match["who"]
    return match["letter"] is not None and bool(_GROUP.fullmatch(who) or _ROLE.fullmatch(who))


def _of_sums(texts: Sequence[str], role: str, source: str) -> list[str]:
    """Return a note on an item by the name of a sum, where all others are numbers."""
    sums = sorted(_SUMS.intersection(texts)) if role not in PEOPLE else []
    if not sums or not all(_NUMERIC.fullmatch(name) for name in texts if name not in sums):
        return []
    return [
        f"{source}: the {role} {sums[0]!r} is none by its name, as all others are numbers; if its rows are sums, drop them"
    ]


def _as_name(nothing: Sequence[str], role: str, source: str) -> str:
    read, stand = f"is read as the name of a {role}", "it stands"
    if len(nothing) > 1:
        read, stand = f"are read as names of {role}s", "they stand"
    return (
        f"{source}: {listed(nothing, 3)} {read}; if {stand} for no name, the annotations are of several {role}s: fill it in or "
        f"drop the rows"
    )


def _of_rounded(texts: Sequence[str], role: str, source: str) -> list[str]:
    """Return a note where all long numbers end in zeros, as spreadsheets keep 15 digits.

    Where the digits before these are zeros, too, they are times in small units, or multiples of a thousand.
    """
    long = [name for name in texts if len(name) > _DIGITS and name.isascii() and name.isdigit()]
    if len(long) < _ROUNDED or any(name[_DIGITS:].strip("0") for name in long):
        return []
    if not any(name[_DIGITS - 3 : _DIGITS].strip("0") for name in long):
        return []
    return [
        f"{source}: all {len(long):,} {role} names of more than {_DIGITS} digits end in zeros ({listed(long, 2)}): a spreadsheet "
        f"has probably rounded them, and different ones may have become one; export them again as text"
    ]


def _of_programs(texts: Sequence[str], role: str, source: str) -> list[str]:
    """Return notes on names that were read as dates, or in another encoding, by another program."""
    notes = []
    dates = [name for name in texts if "-" in name and len(name) < _LONGEST_DATE and SHEET_DATE.fullmatch(name)]
    if dates and len(dates) < len(texts):
        notes.append(
            f"{source}: {role} names such as {listed(dates, 2)} were probably written as dates by a spreadsheet: export them "
            f"again as text"
        )
    # Identifiers in braces are many, and no objects.
    begun = itertools.islice((name for name in texts if name[:1] in _OBJECT), _MOST_OBJECTS)
    first = next((name for name in begun if _IN_OBJECT.search(name) and is_structured(parsed(name))), None)
    if first is not None:
        notes.append(
            f"{source}: {role} names such as {first[:_SHOWN]!r} are lists or objects: write the identifier in a column "
            f"of its own"
        )
    lost = [name for name in texts if "\ufffd" in name]
    if lost:
        notes.append(
            f"{source}: {role} names such as {listed(lost, 2)} have the sign \ufffd in place of letters that were lost: "
            f"different ones may have become one; export them again as UTF-8"
        )
    return notes
