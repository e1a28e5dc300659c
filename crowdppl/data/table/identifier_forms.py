"""Names of items and workers that other programs have changed, and names that stand for nobody: what a careful reader would ask.

Everything works on distinct names and results in notes. Nothing is merged or left out.
"""

from __future__ import annotations

import html
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from crowdppl.data.table.cells import is_structured, parsed
from crowdppl.data.table.missing_words import PROGRAMS
from crowdppl.data.table.spellings import same_look, skeleton, visible
from crowdppl.errors import listed

Array = npt.NDArray[Any]

# Of more names than this, forms are not compared.
MOST = 20_000
# Digits that a spreadsheet keeps of a number, and how many names without further ones show that it was one.
_DIGITS, _ROUNDED = 15, 3
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
# How a spreadsheet shows 1-2, 3/4 and MARCH1, which it takes for dates.
SHEET_DATE = re.compile(rf"\d{{1,2}}-({_MONTHS})|({_MONTHS})-\d{{2}}", re.IGNORECASE)
_PERSON = re.compile(r"(human|person|annotator|expert|rater|crowd|worker)s?(_?\d+)?")
_PEOPLE = ("worker", "judge")
_LONGEST_DATE = 7
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
_BETWEEN_THOUSANDS = re.compile("[^0-9]")
_THOUSANDS = re.compile(r"\d{1,3}([,'\u2019 \u00a0\u202f]\d{3})+")
_SUMMARY = re.compile(
    r"(gold|ground_?truth|truth|reference|consensus|majority|aggregated?|adjudicat(ed|ion|ors?)|arbit(er|rator)|tie_?breaker|final"
    r"|resolved|curated|consolidated|ensemble|jury|committee|panel|harmoni[sz]ed|dawid_?skene|mace)(_?(vote|label|class|answer|annotation|standard|decision|rating))?s?"
    r"|(grand_?)?total|sum|all|overall|average|mean|median"
)
# Between the names of several people, and a name with an e-mail address behind it.
_TOGETHER = re.compile(r"\s*[;,/|&+]\s*|\s+(?:and|und|et)\s+")
# The same between names in a list, and where a name may have no such part of its own.
_LISTED, _SHARED_CELL = re.compile(r"\s*[;|]\s*"), re.compile(r"\s*[;,|]\s*")
_WITH_ADDRESS = re.compile(r"[^<>()@]+[<(](?:mailto:)?([^<>()\s@]+@[^<>()\s@]+)[>)]")
# Names of sessions by their time, after the name of a data set or without one; at least so many show it.
_TIME = re.compile(
    r"(?:[\w.]+[-_])?\d{4}-?\d{2}-?\d{2}[ T_-]\d{2}[:_-]?\d{2}(?:[:_-]?\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?"
)
_SESSION = re.compile(
    r"(?P<who>.+?)[-_. ](?:(?P<letter>s)|session|sess|round|run|visit|wave|batch)[-_ ]?\d+", re.IGNORECASE
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
_SUMS = frozenset(
    word
    for one in ("total", "totals", "grand total", "sum", "subtotal", "gesamt", "summe")
    for word in (one, one.title(), one.upper())
)
_NUMERIC = re.compile(r"[+-]?\d+(?:[.,]\d+)?")
_ADDRESS = re.compile(r"(?:https?:)?//(?:www\.)?", re.IGNORECASE)
# Parts of an address by which it is valid for a time, and addresses of stores.
_SIGNATURE = re.compile(
    r"x-(amz|goog)-\w+(-\w+)*|awsaccesskeyid|key-pair-id|signature|sig|token|access_token|skoid"
    r"|googleaccessid|auth|hash_?expires|cache_?bust(er)?",
    re.IGNORECASE,
)
# The same beside a signature only: in other addresses they may say what is shown.
_SIGNED, _BESIDE = (
    re.compile(r"(x-(amz|goog)-)?sig(nature)?", re.I),
    re.compile("policy|expires|se|sp|sv|st|sr|spr", re.I),
)
_STORES = (
    (re.compile(r"https?://([\w.-]+?)\.s3[\w.-]*\.amazonaws\.com/(.+)"), r"s3://\1/\2"),
    (re.compile(r"https?://s3[\w.-]*\.amazonaws\.com/(.+)"), r"s3://\1"),
    (re.compile(r"https?://storage\.(?:googleapis|cloud\.google)\.com/(.+)"), r"gs://\1"),
)
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_FILE = re.compile(r"(.+)\.(?:jpe?g|png|gif|bmp|tiff?|webp|wav|mp3|mp4|txt|json|html?|pdf)")
_FILE_ENDS = ("g", "f", "p", "v", "3", "4", "t", "n", "l", "m")
_SIGNS = ("+", "-")
_NUMBER, _WHOLE, _RUN = re.compile(r"[+-]\d+"), re.compile(r"\d+(\.0*)?"), re.compile("[0-9]+")
_HASH, _GAPS, _BETWEEN = re.compile(r"^#(?=\d)"), re.compile(r"[\s_]+"), re.compile(r"[\s_.#-]+")
# Signs of a text that is escaped, for HTML or an address; signs of a code or an e-mail address, in no word for nobody.
_ESCAPED, _CODE = re.compile("[%&]"), re.compile("[0-9@]")
_UUID_LENGTHS = (32, 36)
_QUOTES = ("=", '"', "'", "`")
_QUOTED = re.compile(r"""=?(["'`])(.*)\1|'(.*)""", re.DOTALL)


def notes_on(names: Array, role: str, source: str, alike: Iterable[str] = ()) -> list[str]:
    """Return notes on the names of items or workers.

    Args:
        names: distinct identifiers, ``(n,)``.
        role: ``task`` or ``worker``.
        source: name of the table.
        alike: names of which another note says that they look like others.
    """
    if names.dtype != object:
        if role in _PEOPLE and names.dtype.kind == "i" and (names < 0).sum() == 1 and names.min() == -1:
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
    if role not in _PEOPLE:
        words = [name for name in texts if len(name) <= _LONGEST_WORD and not name[-1:].isdigit()]
        words = [name for name in words if _words(name, " ") in _NO_ITEM]
        words = [name for name in words if name not in nothing]
        if words and 2 * sum(any(map(str.isdigit, name)) for name in texts) > len(texts):
            nothing += words
    if role in _PEOPLE:
        # Most names have digits, or are e-mail addresses, and are none of these.
        words = [name for name in texts if not name[-1:].isdigit() and not _CODE.search(name)]
        nothing += [name for name in words if name not in nothing and visible(name).casefold() in _FOR_NOBODY]
        summary = [name for name in words if len(texts) > 1 and _SUMMARY.fullmatch(_words(name, "_"))]
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
                if _PERSON.fullmatch(_words(name, "_"))
            ][:1]
    return [*notes, _as_name(nothing, role, source)] if nothing else notes


def _of_programs_among_people(texts: Sequence[str], source: str) -> list[str]:
    """Return a note on a worker by the name of a program or of a key, where most others have no such name."""
    if len(texts) > MOST:
        return []
    none = [name for name in texts if _NO_PERSON.fullmatch(_words(name, "_"))]
    # GT beside AB and KL are initials.
    initials = sum(map(bool, map(_CAPITALS.fullmatch, texts)))
    none = [name for name in none if not (initials > 1 and _CAPITALS.fullmatch(name))]
    if not none or 2 * len(none) >= len(texts):
        return []
    return [
        f"{source}: the worker {none[0]!r} is read as a person like the others, and may be a program or a key by its name: if "
        f"so, drop the rows, and give true labels as truth=..."
    ]


def _of_several(texts: Sequence[str], role: str, source: str) -> list[str]:
    """Return a note on names that consist of other names, as where several people share a cell."""
    if role not in _PEOPLE:
        return []
    joined = [name for name in texts if _TOGETHER.search(name)]
    known = {name.strip().casefold() for name in texts} if joined else set()
    for name in joined:
        parts = _parts(name, _TOGETHER)
        if len(set(parts)) > 1 and known.issuperset(parts):
            return [_as_one(name, f"its parts are names of other {role}s", role, source)]
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
    if role not in _PEOPLE or len(texts) < _FEWEST:
        return []
    if role == "worker" and (first := _SESSION.fullmatch(texts[0])) and len(texts) <= MOST:
        sessions = [match["who"] for name in texts if (match := _SESSION.fullmatch(name)) and not _of_subject(match)]
        if len(sessions) == len(texts) > len(set(sessions)) > 1:
            return [
                f"{source}: the names of all workers end in a number of a session, such as {texts[0]!r}, and each is a worker of "
                f"its own; if {first['who']!r} is one person, leave these numbers out"
            ]
    if not all(map(_TIME.fullmatch, texts)):
        return []
    return [
        f"{source}: the names of all {role}s are times, such as {texts[0]!r}, as tools name sessions without a name: a person "
        f"with two sessions is two {role}s, and two persons may be one; export the names of people"
    ]


def _of_subject(match: re.Match[str]) -> bool:
    """Return whether a name ends in a number of a subject or a student rather than of a session."""
    who = match["who"]
    return match["letter"] is not None and bool(_GROUP.fullmatch(who) or _ROLE.fullmatch(who))


def _of_sums(texts: Sequence[str], role: str, source: str) -> list[str]:
    """Return a note on an item by the name of a sum, where all others are numbers."""
    sums = sorted(_SUMS.intersection(texts)) if role not in _PEOPLE else []
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


def other_forms(texts: Sequence[str], role: str, alike: set[str]) -> list[tuple[str, str]]:
    """Return pairs of a name and an earlier one that other programs write for the same: see :func:`_form`."""
    if not 1 < len(texts) <= MOST:
        return []
    # Fast path: distinct names of one shape, such as img_1.jpg and img_2.jpg, differ in their digits.
    if _of_one_shape(texts):
        return []
    forms = [_form(name, role) for name in texts]
    first: dict[str, str] = {}
    for form, name in zip(forms, texts, strict=True):
        first.setdefault(form, name)
    pairs = []
    for form, name in zip(forms, texts, strict=True):
        shorter = _shorter(form, role)
        other = first[form] if first[form] != name else first.get(shorter, name)
        if other != name and not {name, other} <= alike and not _as_number(name) == _as_number(other) != "":
            pairs.append((name, other))
    return pairs


def _of_one_shape(texts: Sequence[str]) -> bool:
    """Return whether all names are one text once their digits are replaced; escaped signs have digits, too."""
    shapes = set(_RUN.sub("0", "\n".join(texts)).split("\n"))
    return len(shapes) == 1 and not _ESCAPED.search(shapes.pop())


def _shorter(form: str, role: str) -> str:
    """Return the part of a form that may stand alone: an address without its domain, a model without its provider, a file."""
    if role == "worker":
        return form.partition("@")[0]
    if role == "judge":
        return form.rpartition("/")[2]
    # The expression alone would try each dot of a long name.
    return match[1] if form.endswith(_FILE_ENDS) and (match := _FILE.fullmatch(form)) else form


def _as_number(name: str) -> str:
    return name.lstrip("0").partition(".")[0] if name[:1].isdigit() and _WHOLE.fullmatch(name) else ""


def _form(name: str, role: str) -> str:
    """Return the key of names that are one in another form: quoted, escaped, as another path, with other separators.

    Of workers, also with their names in another order, and without accents.
    """
    # Fast path: most names are plain.
    if (name.isalnum() and name.isascii()) or (name[:1] in _SIGNS and _NUMBER.fullmatch(name)):
        return name.lower()
    text = decoded(name)
    if role in _PEOPLE and "@" in text and (address := _WITH_ADDRESS.fullmatch(text.strip())):
        text = address[1]
    text = unquote(text) if "%" in text else text
    text = html.unescape(text) if "&" in text else text
    quoted = _QUOTED.fullmatch(text) if text[:1] in _QUOTES else None
    text = (quoted[2] if quoted[2] is not None else quoted[3]) if quoted else text
    text = _unsigned(text) if "://" in text else text
    text = text.replace("\\", "/") if "\\" in text else text
    text = _without_protocol(text) if "//" in text else text
    text = text.removeprefix("./").rstrip("/")
    text = text[1:-1] if text[:1] == "{" and text[-1:] == "}" and len(text) > _UUID_LENGTHS[1] else text
    if _THOUSANDS.fullmatch(text):
        return _BETWEEN_THOUSANDS.sub("", text)
    text = same_look(text).casefold() if text.isascii() else skeleton(text)
    if len(text) in _UUID_LENGTHS and _UUID.fullmatch(text):
        return text.replace("-", "")
    if role in _PEOPLE:
        last, comma, rest = text.partition(", ")
        text = f"{rest} {last}" if comma else text
        if not text.isascii():
            text = "".join(letter for letter in unicodedata.normalize("NFD", text) if not unicodedata.combining(letter))
        text, at, place = text.partition("@")
        return _words(text, " ") + (at + place if text else place)
    text = _HASH.sub("", text) if text[:1] == "#" else text
    # White space is single spaces by now.
    return (_GAPS.sub(" ", text) if "_" in text else text).strip()


def _without_protocol(text: str) -> str:
    """Return a text without the first ``//``, and ``http:`` before or ``www.`` after it."""
    if not text.isascii():
        return _ADDRESS.sub("", text, count=1)
    # As the expression does, which takes long to search a name.
    before, _, after = text.partition("//")
    lower = before[-6:].lower()
    before = before[:-6] if lower == "https:" else before[:-5] if lower[-5:] == "http:" else before
    return before + (after[4:] if after[:4].lower() == "www." else after)


def _unsigned(text: str) -> str:
    """Return an address without signatures and times that it is valid for, and of a store by its usual name."""
    address, mark, query = text.partition("?")
    parts = [(part, part.partition("=")[0]) for part in query.split("&") if part]
    signed = any(_SIGNED.fullmatch(key) for _, key in parts)
    kept = [part for part, key in parts if not (_SIGNATURE.fullmatch(key) or (signed and _BESIDE.fullmatch(key)))]
    address += "?" + "&".join(kept) if mark and kept else ""
    for form, plain in _STORES:
        if match := form.fullmatch(address):
            return match.expand(plain)
    return address


def _words(text: str, between: str) -> str:
    return _BETWEEN.sub(between, text.casefold().strip()).strip(between)


def decoded(name: str) -> str:
    """Return a name of which UTF-8 was read as Latin-1 or as Windows-1252 as it was."""
    if name.isascii():
        return name
    decoders: tuple[Callable[[], bytes], ...] = (lambda: name.encode("cp1252"), lambda: name.encode("latin-1"))
    for decoder in decoders:
        try:
            return decoder().decode("utf-8")
        except UnicodeError:
            continue
    return name
