"""Words that stand for no label: one list, for tables of every form and for known truths.

Programs write missing values as words (``null``, ``NaN``, ``#N/A``), and so do people. Some of these words are also classes:
``none`` of a scale of toxicity, ``NA`` of country codes, ``-`` beside ``+``. The other labels of the column decide.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable

from crowdppl.data.table.spellings import folded, visible

# As programs write a missing value: never the name of a class.
_WORDS = (
    "null NULL Null <null> (null) [null] nan NaN NAN -nan -NaN NaT <NA> #N/A #NA N/A n/a N/a \\N undefined 1.#IND 1.#QNAN "
    "-nan(ind) nan(ind) #NULL! #VALUE! #REF! #DIV/0! #NAME? #NUM! <none> <nil> (blank)"
)
PROGRAMS = frozenset(_WORDS.split(" ")) | {"", "''", '""', "#N/A N/A"}
# Marks that people enter for nothing; classes where other labels are marks, too.
MARKS = frozenset(("-", "--", "---", ".", "..", "...", "?", "??", "???", "/", "_", "___", "*", "~", "•", "∅"))
# A line to write on is kept, and noted.
_LINE = "___"
# Codes of statistics programs and surveys for a missing value: -99, 999, and -100 of programs for learning.
_NEGATIVE_CODE = re.compile(r"-(6{1,4}|7{1,4}|8{1,4}|9{1,5}|[789]{2,4}|100)")
_POSITIVE_CODE = re.compile(r"7{1,4}|8{1,4}|9{1,5}")
# Stata and SAS write missing values of several kinds as .a to .z.
_LETTER_CODE = re.compile(r"\.[a-z_]")
_WHOLE = re.compile(r"-?\d+")
# Words that may be either, and are kept as classes, with a note. Capitals, and marks and spaces around words, do not matter.
EITHER = frozenset(
    """none|na|nil|null|nan|undefined|nonetype|pd na|na character|n a|nr|dk|inf|infinity|unknown|missing|blank|empty|void|tbd|todo
    |placeholder|abstain|abstained|abstention|skip|skipped|refused|n\u00e3o sei|no sabe|no contesta|ns nc|no sabe no contesta
    |sin respuesta|sans r\u00e9ponse|ne sait pas|nsp|keine angabe|keine antwort|weiss nicht|nicht beantwortet|nicht bewertet|k a
    |\u65e0|\u7a7a|\u672a\u77e5|\u672a\u6807\u6ce8|\u4e0d\u786e\u5b9a|\u4e0d\u77e5\u9053|\u306a\u3057|\u4e0d\u660e
    |prefer not to say|prefer not to answer|rather not say|idk|not sure|unsure|undecided
    |tba|pending|in progress|incomplete|not done|not yet done|not started|n d|s o|unk|sin dato|sin datos|sem resposta|leer|vide
    |vacio|vac\u00edo|vuoto|vazio|tyhj\u00e4|puste|nessuna risposta|non risponde|non so|geen antwoord|weet niet|brak odpowiedzi
    |\u043d\u0435\u0442 \u043e\u0442\u0432\u0435\u0442\u0430|\u043d\u0435\u0438\u0437\u0432\u0435\u0441\u0442\u043d\u043e
    |\u043d\u0435 \u0437\u043d\u0430\u044e|\u672a\u5b9a|\u5f85\u5b9a
    |\u672a\u56de\u7b54|\u4e0d\u9002\u7528|\u4e0d\u9069\u7528|\u672a\u586b
    |\u7121|\u672a\u6a19\u8a3b|\u7121\u6cd5\u5224\u65b7|\u65e0\u6cd5\u5224\u65ad|\u8a72\u5f53\u306a\u3057|\u7121\u56de\u7b54
    |dunno|n k|not known|s d|n v t|sans objet|sans avis|ne sais pas|je ne sais pas
    |no aplica|no aplicable|no lo s\u00e9|n\u00e3o se aplica
    |nicht zutreffend|entf\u00e4llt|wei\u00df ich nicht|non applicabile|non applicable|niet van toepassing
    |onbekend|unbekannt|inconnu|desconocido|desconhecido|sconosciuto|nie wiem|nie dotyczy|nev\u00edm|vet ej|vet inte
    |inget svar|ved ikke|vet ikke|ei vastausta|en osaa sanoa|bilmiyorum|yok|nem tudom|nu \u0219tiu
    |kh\u00f4ng bi\u1ebft|tidak tahu|nothing selected|nothing to select
    |\u043d\u0435\u0442 \u0434\u0430\u043d\u043d\u044b\u0445|\u043f\u0443\u0441\u0442\u043e
    |\u043d\u0435 \u043f\u0440\u0438\u043c\u0435\u043d\u0438\u043c\u043e
    |\u063a\u064a\u0631 \u0645\u0639\u0631\u0648\u0641|\u0644\u0627 \u0623\u0639\u0631\u0641
    |\u05dc\u05d0 \u05d9\u05d3\u05d5\u05e2|\u308f\u304b\u3089\u306a\u3044|\u5206\u304b\u3089\u306a\u3044
    |\uc5c6\uc74c|\ubaa8\ub984|\ubb34\uc751\ub2f5|null text|na integer|na real|none none|nan nan
    """.replace("\n", "")
    .replace("    ", "")
    .split("|")
)
_ACT = "annotated|labell?ed|rated|answered|coded|selected|specified|assigned|tagged|reviewed|judged"
_THING = "label|answer|response|selection|rating|annotation|choice|data|entry|input|tag"
# Phrases of the same kind: "not labeled", "no response given", "-- please select --", "can't tell".
_EITHER = re.compile(
    rf"(not|never) ({_ACT}|available|applicable|provided|given|set)|un({_ACT}|set)"
    rf"|no ?({_THING})( (given|provided|selected|yet))?"
    rf"|(please )?(select|choose)( (one|an? (option|{_THING}|value)|here))?"
    r"|(i )?(dont|do not|doesnt|does not) know( (or )?(not sure|unsure))?"
    r"|(cant|can not|cannot|unable to) (tell|say|decide|determine)"
    r"|missing (value|data|label)"
)
# What programs write in place of a value that they failed to compute, a reason for no answer, and texts that were deleted.
_FAILED = re.compile(
    r"n/a\W.*|(error|exception|failed): *(timeout|timed out|out of memory|connection|rate.?limit|no (answer|response|output)"
    r"|invalid (response|answer|output)|\d+\b).*|timeout: .*|\[(deleted|removed|redacted)\]",
    re.IGNORECASE,
)
# A single word in brackets, where no other label has any, and words in brackets that are classes.
_BRACKETED = re.compile(r"\([^\W\d_]+( [^\W\d_]+)?\)|\[[^\W\d_]+( [^\W\d_]+)?\]|<[^\W\d_]+( [^\W\d_]+)?>")
_BRACKETS = ("(", "[", "<")
_IN_BRACKETS = frozenset(("(none)", "(skipped)", "(other)", "(others)", "[other]", "<other>", "(both)", "[both]"))
# Errors of spreadsheets, in capitals: #LOVE is a hashtag.
_SHEET_ERRORS = frozenset(
    (
        *("#N/A", "#REF!", "#VALUE!", "#DIV/0!", "#NAME?", "#NUM!", "#NULL!", "#NULL", "#SPILL!", "#CALC!", "#ERROR!"),
        *("#FIELD!", "#BLOCKED!", "#NV", "#N/D", "#N/B", "#S/O", "#\u041d/\u0414"),
    )
)
# The same in other languages: #WERT!, #VALEUR!, #\u00a1REF!, #\u0417\u041d\u0410\u0427!.
_SHEET_ERROR = re.compile(r"#[\u00a1\u00bf]?(?P<word>[^\W\d_]{3,})(/0)?[!?]")


def words_for_nothing(
    names: Iterable[str], missing: Iterable[str] = (), *, keep: bool = False
) -> tuple[set[str], list[str]]:
    """Return which labels stand for no label, and which are kept but may do so.

    ``None`` is a class where all other labels begin with a capital letter (``Mild``, ``Severe``), ``NA`` where they are pairs of
    capitals (country codes), and a mark where another label has neither a letter nor a digit (``+``).

    Args:
        names: distinct labels of a column, as written.
        missing: further words of the caller, compared without case and white space.
        keep: whether the words of this module are classes; those of the caller are not.
    """
    plain = {name: visible(name) for name in names}
    own = {folded(word) for word in missing}
    dropped = {name for name in plain if folded(name) in own}
    if keep:
        return dropped | {name for name, text in plain.items() if not text}, []
    dropped |= {name for name, text in plain.items() if text in PROGRAMS}
    unclear = {
        name for name, text in plain.items() if name not in dropped and (text in MARKS or text in ("None", "NA"))
    }
    unclear |= {name for name, text in plain.items() if name not in dropped and _may_be_nothing(text)}
    others = [text for name, text in plain.items() if name not in dropped | unclear]
    if not others:  # then they are all that there is
        return dropped, sorted(unclear)
    kept = []
    for name in sorted(unclear):
        text = plain[name]
        if text == _LINE:
            is_class = True
        elif text in MARKS:
            is_class = not all(any(map(str.isalnum, other)) for other in others)
        elif text == "None":
            is_class = all(_titled(other) for other in others)
        elif text == "NA":
            is_class = all(re.fullmatch("[A-Z]{2}", other) for other in others)
        else:
            is_class = True
        if is_class:
            kept.append(name)
        else:
            dropped.add(name)
    # One word in brackets beside plain ones, in whatever language, is a remark on a blank cell rather than a class.
    alone = [name for name, text in plain.items() if name not in dropped and _BRACKETED.fullmatch(text)]
    if len(alone) == 1 and len(others) > 1 and plain[alone[0]].casefold() not in _IN_BRACKETS and alone[0] not in kept:
        plainer = [text for name, text in plain.items() if name not in (*dropped, *alone)]
        kept += alone if not any(text.startswith(_BRACKETS) for text in plainer) else []
    return dropped, sorted(kept)


def _may_be_nothing(text: str) -> bool:
    """Return whether a visible text is a word or a phrase of :data:`EITHER`, in brackets or with other marks around it."""
    # The first two are classes that readers make on request; the others need marks around them, or further words.
    if text in _SHEET_ERRORS or (
        text[:1] == "#" and (error := _SHEET_ERROR.fullmatch(text)) and error["word"].isupper()
    ):
        return True
    if text in ("(none)", "(skipped)") or text.casefold() in ("select", "choose"):
        return False
    bare = re.sub(r"[\W_]+", " ", text.casefold().replace("'", "").replace("\u00df", "ss")).strip()
    return bare in EITHER or _EITHER.fullmatch(bare) is not None or _FAILED.fullmatch(text) is not None


def codes_for_nothing(names: Iterable[object]) -> list[str]:
    """Return the labels that surveys and programs write for no answer, such as -99, 999 or Stata's .a.

    A negative code is one where no other label is a negative number, and -1 where no label has it in its middle, as 0 in
    -1, 0, 1. A positive code is one beside words, or well above whole numbers without a gap: 9 beside 1 to 5. A number of which
    the opposite is a label is none.
    """
    texts = {re.sub(r"\.0+$", "", str(name).strip()): str(name).strip() for name in names}
    negative = {text for text in texts if _NEGATIVE_CODE.fullmatch(text)}
    positive = {text for text in texts if _POSITIVE_CODE.fullmatch(text)}
    letters = {text for text in texts if _LETTER_CODE.fullmatch(text)}
    others = [text for text in texts if text not in negative | letters]
    words = [text for text in others if not re.fullmatch(r"-?[\d.,]+", text)]
    numeric = bool(others) and not words
    if "-1" in texts and not negative and _minus_one_is_nothing(set(others) - {"-1"}):
        return ["-1"]
    if any(re.match(r"-[.\d]", text) for text in others):
        negative = set()
    if numeric and all(map(_WHOLE.fullmatch, others)):
        positive = _above({int(text) for text in others}, set(map(int, positive)))
    else:
        positive = (
            {text for text in positive if len(text) > 1 or text == "9"}
            if len(words) == len(others) - len(positive)
            else set()
        )
    # Both ends of a scale are none: -100, 0, 100.
    chosen = {text for text in negative | positive if _opposite(text) not in texts}
    return sorted(texts[text] for text in chosen | (letters if numeric else set()))


def _above(numbers: set[int], codes: set[int]) -> set[str]:
    """Return the codes that are well above all other numbers, 0 or 1 to k without a gap.

    A single digit is one only beside 1 to k with k >= 3, and not if only one number is between them, as of 8 beside 1 to 6.
    """
    ordered = sorted(numbers)
    last = next((n for n, after in itertools.pairwise(ordered) if after > n + 1), ordered[-1])
    above = {n for n in ordered if n > last}
    if not above or not above <= codes or not -1 <= ordered[0] < last:
        return set()
    digit = min(above) < 10
    if digit and (ordered[0] != 1 or last < 3 or min(above) == last + 2):
        return set()
    return set(map(str, above))


def _opposite(text: str) -> str:
    return text[1:] if text.startswith("-") else f"-{text}"


def _minus_one_is_nothing(others: set[str]) -> bool:
    """Return whether -1 is probably no label beside these: words, or more whole numbers from 0 or 1 on than 0 and 1."""
    if not others or any(re.match(r"-[.\d]", text) for text in others):
        return False
    whole = {int(text) for text in others if _WHOLE.fullmatch(text)}
    return not whole if len(whole) < len(others) else len(whole) > 1 and max(whole) > 1


def is_for_nothing(text: str) -> bool:
    """Return whether a text is what programs write for a missing value, or white space."""
    return visible(text) in PROGRAMS


def _titled(text: str) -> bool:
    letters = [letter for letter in text if unicodedata.category(letter)[0] == "L"]
    return len(letters) > 1 and text[:1].isupper() and any(map(str.islower, letters))
