"""Words that stand for no label: one list, for tables of every form and for known truths.

Programs write missing values as words (``null``, ``NaN``, ``#N/A``), and so do people. Some of these words are also classes:
``none`` of a scale of toxicity, ``NA`` of country codes, ``-`` beside ``+``. The other labels of the column decide.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from crowdppl.data.spellings import folded, visible

# As programs write a missing value: never the name of a class.
_WORDS = (
    "null NULL Null <null> (null) [null] nan NaN NAN -nan -NaN NaT <NA> #N/A #NA N/A n/a N/a \\N undefined 1.#IND 1.#QNAN "
    "#NULL! #VALUE! #REF! #DIV/0! #NAME? #NUM! <none> <nil> (blank)"
)
PROGRAMS = frozenset(_WORDS.split(" ")) | {"", "''", "#N/A N/A"}
# Marks that people enter for nothing; classes where other labels are marks, too.
MARKS = frozenset(("-", "--", "---", ".", "..", "...", "?", "??", "???", "/", "_", "*"))
# Codes of statistics programs and surveys for a missing value.
_CODE = re.compile(r"-(7|8|9){2,4}|-9")
# Words that may be either, and are kept as classes, with a note.
EITHER = frozenset(
    (
        "none",
        "na",
        "nil",
        "unknown",
        "missing",
        "blank",
        "empty",
        "no label",
        "no answer",
        "not available",
        "not applicable",
        "n.a.",
        "k.a.",
        "skip",
        "skipped",
        "prefer not to say",
        "prefer not to answer",
        "tbd",
    )
)


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
    unclear |= {name for name, text in plain.items() if name not in dropped and text.casefold() in EITHER}
    others = [text for name, text in plain.items() if name not in dropped | unclear]
    if not others:  # then they are all that there is
        return dropped, sorted(unclear)
    kept = []
    for name in sorted(unclear):
        text = plain[name]
        if text in MARKS:
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
    return dropped, kept


def codes_for_nothing(names: Iterable[object]) -> list[str]:
    """Return the labels that surveys write for no answer, such as -99, where no other label is a negative number."""
    texts = [str(name).strip() for name in names]
    codes = sorted(text for text in texts if _CODE.fullmatch(text))
    return codes if codes and not any(re.match(r"-[.\d]", text) for text in texts if text not in codes) else []


def is_for_nothing(text: str) -> bool:
    """Return whether a text is what programs write for a missing value, or white space."""
    return visible(text) in PROGRAMS


def _titled(text: str) -> bool:
    letters = [letter for letter in text if unicodedata.category(letter)[0] == "L"]
    return len(letters) > 1 and text[:1].isupper() and any(map(str.islower, letters))
