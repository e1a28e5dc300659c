"""Forms of names of items and workers: names that other programs, or people, write for the same."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Sequence
from urllib.parse import unquote

from crowdppl.data.table.spellings import same_look, skeleton

# Of more names than this, forms are not compared.
MOST = 20_000
PEOPLE = ("worker", "judge")
_BETWEEN_THOUSANDS = re.compile("[^0-9]")
_THOUSANDS = re.compile(r"\d{1,3}([,'\u2019 \u00a0\u202f]\d{3})+")
_WITH_ADDRESS = re.compile(r"[^<>()@]+[<(](?:mailto:)?([^<>()\s@]+@[^<>()\s@]+)[>)]")
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
# Part of each such address, and what a number may begin with.
_HOSTS, _NUMERALS = (".amazonaws.com/", ".googleapis.com/", ".cloud.google.com/"), frozenset("+-.0123456789")
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_FILE = re.compile(r"(.+)\.(?:jpe?g|png|gif|bmp|tiff?|webp|wav|mp3|mp4|txt|json|html?|pdf)")
_FILE_ENDS = ("g", "f", "p", "v", "3", "4", "t", "n", "l", "m")
# The medium of a file by its ending: two files of one name and medium may be one, but not a picture and its description.
_MEDIA = {
    f".{ending}": n
    for n, endings in enumerate(("jpg jpeg png gif bmp tif tiff webp", "wav mp3", "htm html pdf"))
    for ending in endings.split()
}
_SIGNS = ("+", "-")
_NUMBER, _WHOLE, _RUN = re.compile(r"[+-]\d+"), re.compile(r"\d+(\.0*)?"), re.compile("[0-9]+")
_HASH, _GAPS, _BETWEEN = re.compile(r"^#(?=\d+$)"), re.compile(r"[\s_]+"), re.compile(r"[\s_.#-]+")
# A number of a telephone with its country: what it begins with, its signs, and digits that it has at least.
_CALLED, _PHONE, _NO_DIGIT, _DIALLED = (
    ("+", "00"),
    re.compile(r"(?:\+|00(?=[1-9]))[\d ()/.-]+"),
    re.compile("[^0-9]"),
    6,
)
# Signs without which an ASCII name is none of an address with parameters, quoted, escaped, of several words or an e-mail address.
_SPECIAL = re.compile(r"""[\s%&?="'`\\{}#@,]""")
# Signs of a text that is escaped, for HTML or an address.
_ESCAPED = re.compile("[%&]")
_UUID_LENGTHS = (32, 36)
_QUOTES = ("=", '"', "'", "`")
_QUOTED = re.compile(r"""=?(["'`])(.*)\1|'(.*)""", re.DOTALL)
# A word and a number, with a sign between them or padded with zeros: covid19 is another name than 19.
_NUMBERED = re.compile(r"[^\W\d_]{3,}(?:[ :-]|(?=0))0*(0|[1-9]\d*)")
# Zeros before a number behind letters, as of W01 but not of a time, and the number of a copy or of another account in brackets.
_PADDED, _AGAIN = re.compile(r"(?<=[^\d.,:])0+(?=\d)"), re.compile(r" ?\(\d\)$")
# Letters and a number with a sign between them, such as W-01.
_SERIAL = re.compile(r"([a-z]{1,3}) 0*(\d+)")
# A title, the address of a mail as a link, and the account of a computer within a domain: CORP\\ann.
_TITLE = re.compile(r"(dr|prof|mr|mrs|ms|mx|herr|frau|mme|sr|sra) (?=[^\W\d_]{2})")
# Letters that are written as two.
_WRITTEN_OUT = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "å": "aa", "ø": "oe", "æ": "ae", "œ": "oe"})
# Words for what people do, which are no names.
_ROLE = re.compile(
    r"(worker|annotator|rater|coder|judge|user|expert|labell?er|turker|participant|student|reviewer|person|team|group|crowd|member"
    r"|reader|assessor|evaluator|model)"
)
_MAIL, _DOMAIN = "mailto:", re.compile(r"([\w.-]+)\\((?=[\d._-]*[^\W\d_]{2})[\w.-]+)")
# An identifier of a researcher, and addresses whose dots do not count.
_ORCID, _DOTS = "orcid.org/", ("gmail.com", "googlemail.com")


def other_forms(texts: Sequence[str], role: str, alike: set[str]) -> list[tuple[str, str]]:
    """Return pairs of a name and an earlier one that other programs write for the same: see :func:`_form`."""
    if not 1 < len(texts) <= MOST:
        return []
    padded = _padded(texts)
    # Fast path: distinct names of one shape, such as img_1.jpg and img_2.jpg, differ in their digits.
    if of_one_shape(texts):
        return padded
    forms = [_form(name, role) for name in texts]
    first: dict[str, str] = {}
    for form, name in zip(forms, texts, strict=True):
        first.setdefault(form, name)
    pairs = []
    files: dict[tuple[str, int], str] = {}
    for form, name in zip(forms, texts, strict=True):
        other = first[form]
        if other == name and (shorter := _shorter(form, role)):
            other = next((first[part] for part in shorter if part in first), name)
            if other == name and (medium := _MEDIA.get(form[len(shorter[0]) :])) is not None:
                other = files.setdefault((shorter[0], medium), name)
        if other != name and not {name, other} <= alike and not _as_number(name) == _as_number(other) != "":
            pairs.append((name, other))
    if role == "worker" and not all(map(str.isascii, texts)):
        written = ((name, first.get(_form(name.lower().translate(_WRITTEN_OUT), role), name)) for name in texts)
        pairs += [pair for pair in written if pair[0] != pair[1] and pair not in pairs and not set(pair) <= alike]
    pairs += _initials(dict(zip(forms, texts, strict=True))) if role == "worker" else []
    return [*padded, *(pair for pair in pairs if pair not in padded)]


def _initials(forms: dict[str, str]) -> list[tuple[str, str]]:
    """Return pairs of a name with an initial and the only one that it may stand for: ``A. Lee`` and ``Ann Lee``."""
    full: dict[str, list[str]] = {}
    for form in forms:
        first, _, last = form.partition(" ")
        if _ROLE.fullmatch(last) or _ROLE.fullmatch(first):
            continue
        if len(first) > 1 and len(last) > 1 and (first + last.replace(" ", "")).isalpha():
            full.setdefault(f"{first[0]} {last}", []).append(form)
    return [(forms[short], forms[long[0]]) for short, long in full.items() if short in forms and len(long) == 1]


def _padded(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of a name and an earlier one that differ in zeros before a number behind letters, such as W01 and W1."""
    first: dict[str, str] = {}
    pairs: list[tuple[str, str]] = []
    if not _PADDED.search("\0".join(texts)):
        return pairs
    for name in texts:
        earlier = first.setdefault(_PADDED.sub("", name), name)
        if earlier != name:
            pairs.append((name, earlier))
    return pairs


def of_one_shape(texts: Sequence[str]) -> bool:
    """Return whether all names are one text once their digits are replaced; escaped signs have digits, too."""
    shapes = set(_RUN.sub("0", "\n".join(texts)).split("\n"))
    return len(shapes) == 1 and not _ESCAPED.search(shapes.pop())


def _shorter(form: str, role: str) -> tuple[str, ...]:
    """Return parts of a form that may stand alone: an address without its domain, a model without its provider, a file."""
    if role in PEOPLE and "\\" in form:
        return (form.partition("\\")[0],)
    if role == "worker":
        name = form.partition("@")[0]
        return tuple({name, _AGAIN.sub("", name)} - {form})
    if role == "judge":
        return (form.rpartition("/")[2],) if "/" in form else ()
    # A number behind a word, as of item_1.
    if form[-1:].isdigit() and (match := _NUMBERED.fullmatch(form)):
        return (match[1],)
    # The expression alone would try each dot of a long name.
    match = _FILE.fullmatch(form) if form.endswith(_FILE_ENDS) else None
    if match is None:
        return ()
    return (match[1], form.rpartition("/")[2]) if "/" in form else (match[1],)


def _as_number(name: str) -> str:
    return name.lstrip("0").partition(".")[0] if name[:1].isdigit() and _WHOLE.fullmatch(name) else ""


def _form(name: str, role: str) -> str:
    """Return the key of names that are one in another form: quoted, escaped, as another path, with other separators.

    Of workers, also with their names in another order, and without accents.
    """
    # Fast path: most names are plain.
    if (name.isalnum() and name.isascii()) or (name[:1] in _SIGNS and _NUMBER.fullmatch(name)):
        of_phone = role in PEOPLE and name.startswith(_CALLED) and _PHONE.fullmatch(name)
        return _number_of_phone(name) if of_phone else name.lower()
    if role in PEOPLE and name.startswith(_CALLED) and _PHONE.fullmatch(name):
        return _number_of_phone(name)
    if role not in PEOPLE and name.isascii() and not _SPECIAL.search(name):
        return _form_of_path(name)
    text = decoded(name)
    if role in PEOPLE and (account := _DOMAIN.fullmatch(text) if "\\" in text else None):
        # Two domains have accounts of one name, and other forms have no such sign.
        return f"{in_words(account[2], ' ')}\\{account[1].casefold()}"
    if role in PEOPLE and "@" in text and (address := _WITH_ADDRESS.fullmatch(text.strip())):
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
    text = same_look(text).casefold() if text.isascii() else digits_of_one_script(skeleton(text))
    if len(text) in _UUID_LENGTHS and _UUID.fullmatch(text):
        return text.replace("-", "")
    if role in PEOPLE:
        last, comma, rest = text.partition(", ")
        text = f"{rest} {last}" if comma else text
        if not text.isascii():
            text = "".join(letter for letter in unicodedata.normalize("NFD", text) if not unicodedata.combining(letter))
            text = skeleton(text)  # of letters below an accent
        text = text.removeprefix(_ORCID).removeprefix(_MAIL)
        text, at, place = text.partition("@")
        if at and text:
            text, place = _of_mailbox(text, place)
        words = in_words(text, " ")
        words = _TITLE.sub("", words) if " " in words and _TITLE.match(words) else words
        if words[-1:].isdigit() and (serial := _SERIAL.fullmatch(words)):
            return "".join(serial.groups())
        return words + (at + place if text else place)
    text = _HASH.sub("", text) if text[:1] == "#" else text
    # White space is single spaces by now.
    return (_GAPS.sub(" ", text) if "_" in text else text).strip()


def _number_of_phone(name: str) -> str:
    """Return the number of a telephone, or a name in lower case, without what is dialled before a country."""
    digits = _NO_DIGIT.sub("", name)
    return digits.removeprefix("00") if len(digits) >= _DIALLED else name.lower()


def _form_of_path(name: str) -> str:
    """Return what :func:`_form` does, of an ASCII name of an item with letters, digits, ``/ . : _ -`` and the like alone."""
    text = _stored(name) if "://" in name else name
    text = _without_protocol(text) if "//" in text else text
    text = text.removeprefix("./").rstrip("/").lower()
    if text[:1] in _NUMERALS:
        text = same_look(text)
    if len(text) in _UUID_LENGTHS and _UUID.fullmatch(text):
        return text.replace("-", "")
    return _GAPS.sub(" ", text).strip() if "_" in text else text


def _of_mailbox(name: str, place: str) -> tuple[str, str]:
    """Return the two parts of an e-mail address without a tag, ann+2@x.org, and without dots where they do not count."""
    name = name.partition("+")[0] or name
    return (name.replace(".", ""), _DOTS[0]) if place in _DOTS else (name, place)


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
    if "?" not in text:
        return _stored(text)
    address, mark, query = text.partition("?")
    parts = [(part, part.partition("=")[0]) for part in query.split("&") if part]
    signed = any(_SIGNED.fullmatch(key) for _, key in parts)
    kept = [part for part, key in parts if not (_SIGNATURE.fullmatch(key) or (signed and _BESIDE.fullmatch(key)))]
    return _stored(address + ("?" + "&".join(kept) if mark and kept else ""))


def _stored(address: str) -> str:
    """Return an address, that of a store by its usual name."""
    # Fast path: any() would take ten times as long.
    if not (_HOSTS[0] in address or _HOSTS[1] in address or _HOSTS[2] in address):
        return address
    for form, plain in _STORES:
        if match := form.fullmatch(address):
            return match.expand(plain)
    return address


def in_words(text: str, between: str) -> str:
    """Return a text in lower case with one sign between its words."""
    return _BETWEEN.sub(between, text.casefold().strip()).strip(between)


def digits_of_one_script(text: str) -> str:
    """Return a text with the digits of all scripts as 0 to 9."""
    return "".join(str(unicodedata.decimal(letter, letter)) if letter.isdigit() else letter for letter in text)


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
