"""The state of a verdict: given, missing, unparseable or abstained, as found in a column of verdicts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.data.readers.tables import whole_numbers
from crowdppl.data.table.identifiers import Coded, coded, rows_text
from crowdppl.data.table.missing_words import PROGRAMS
from crowdppl.errors import DataError, OptionError, suggestion
from crowdppl.judges.coding.passing import polarity

Array = npt.NDArray[Any]


class State(IntEnum):
    """State of one verdict. Only a verdict that is ``GIVEN`` says anything of the item; none of the others is a failure.

    Attributes:
        GIVEN: the judge gave a verdict (or a score, if it never gives verdicts).
        MISSING: the judge was asked, and nothing came back: an error of the program or the network, or a blank cell.
        UNPARSEABLE: the judge replied, but no verdict could be read from the reply.
        ABSTAINED: the judge declined to give a verdict.
    """

    GIVEN = 0
    MISSING = 1
    UNPARSEABLE = 2
    ABSTAINED = 3


# Texts that are taken for a state, compared without capitals and outer white space. "unknown" is a class in real data.
UNPARSEABLE = ("unparseable", "unparsable", "parse_error", "parse error", "parsing error", "invalid", "format error")
ABSTAINED = ("abstain", "abstained", "abstention", "refused", "refusal", "decline", "declined", "n/a")
# Beside them, what programs write for a missing value and where a reply gave nothing, and the beginning of what they write with a
# reason.
NOTHING = (
    *sorted({word.casefold() for word in PROGRAMS} - {"", *ABSTAINED}),
    *("error", "err", "parse failure", "failed to parse", "parsing failed"),
)
_ERROR = re.compile(
    r"(error|exception|traceback)\b.*[:(]|(api|json|timeout|value|rate ?limit)[ _]?error\b", re.IGNORECASE
)
# What programs write where they could not read a reply, with or without the name of what they read and a reason. With other words
# it may be a class, such as "failed to extract all facts".
_UNREAD = re.compile(
    r"(error|failure|failed|unable|could ?n[o']t|cannot|can't)( (in|while|when|to))? "
    r"(?P<what>(pars(e|ing)|extract(ing)?|decod(e|ing)))"
    r"(( (a|an|any|the|valid|judge'?s?|model'?s?|llm|its|from|in|of|as))*"
    r" (verdicts?|scores?|grades?|ratings?|labels?|responses?|json|repl(y|ies)|outputs?|answers?|results?|completions?))*"
    r"\.?( ?[:(].*| - .*|, .*)?",
    re.IGNORECASE | re.DOTALL,
)
# Fewer classes than these are no verdicts.
_CLASSES = 2
# Marks around such a text.
_AROUND = "[]<>(){}*_`\"'.!# "
# The name of a class in some data, of nothing in other: see :func:`_none_is_nothing`.
_NONE = "none"

# Whole numbers as pandas writes them where a column has gaps.
_WHOLE_FLOAT = re.compile(r"(-?\d+)\.0+")


class Classified(NamedTuple):
    """A column of verdicts, separated into labels and states.

    Attributes:
        label: labels as codes, -1 where there is none.
        state: state of each row, ``(n,)`` int8.
        words: number of rows by each text that was taken for a state.
    """

    label: Coded
    state: npt.NDArray[np.int8]
    words: dict[str, int]


def state_words(
    unparseable: Iterable[str] | None, abstained: Iterable[str] | None, declared: Iterable[Any] | None
) -> dict[str, State]:
    """Return the state that each text stands for, without the texts that are declared labels.

    Args:
        unparseable: texts for ``UNPARSEABLE``. Defaults to :data:`UNPARSEABLE` and :data:`NOTHING`.
        abstained: texts for ``ABSTAINED``. Defaults to :data:`ABSTAINED`.
        declared: declared labels.

    Raises:
        OptionError: if an argument is not a list of texts, or both name the same text.
    """
    words: dict[str, State] = {}
    labels = {normalised(label) for label in declared or () if isinstance(label, str)}
    for name, given, state in (
        ("unparseable", unparseable, State.UNPARSEABLE),
        ("abstained", abstained, State.ABSTAINED),
    ):
        default = (*UNPARSEABLE, *NOTHING) if state == State.UNPARSEABLE else ABSTAINED
        texts = default if given is None else [given] if isinstance(given, str) else list(given)
        for text in texts:
            if not isinstance(text, str):
                raise OptionError(f"{name} contains {text!r}; list the texts that stand for this state")
            if given is not None and words.get(normalised(text), state) != state:
                raise OptionError(f"{text!r} is both in unparseable= and in abstained=; list it in one of them")
            # A text that the caller lists is a state even if it is a default of the other one.
            if normalised(text) not in labels:
                words[normalised(text)] = state
    return words


def normalised(text: str) -> str:
    """Return a text without capitals and outer white space."""
    return text.strip().casefold()


def classify(
    column: pd.Series[Any],
    words: dict[str, State],
    status: Array | None,
    where: str,
    *,
    declared: frozenset[str] = frozenset(),
    pairs: bool = False,
) -> Classified:
    """Separate a column of verdicts into labels and states.

    Args:
        column: verdicts ``(n,)``: booleans, whole numbers or strings; blank is ``MISSING``.
        words: texts that stand for a state, from :func:`state_words`.
        status: states by the caller's own column ``(n,)``, -1 where it says nothing; ``None`` without one.
        where: location of the column, for messages.
        declared: declared labels, normalised, which are no states.
        pairs: whether verdicts are on pairs of answers, of which "none" means that neither is better.

    Raises:
        DataError: if labels mix types, or are fractions.
    """
    values: Array = column.astype(object).to_numpy(copy=True)
    state = np.where(pd.isna(values), State.MISSING, State.GIVEN).astype(np.int8)
    textual = np.fromiter((isinstance(value, str) for value in values), dtype=bool, count=len(values))
    counts: dict[str, int] = {}
    if textual.any():
        codes, texts = pd.factorize(values[textual])
        plain = [normalised(text) for text in texts]
        if "valid" in plain:  # then "invalid" is the other class
            words = {word: meaning for word, meaning in words.items() if word != "invalid"}
        named = [text for text in plain if text and text not in words and text != _NONE]
        if _NONE not in words and _NONE not in declared and _none_is_nothing(texts, named, pairs):
            words = {**words, _NONE: State.UNPARSEABLE}
        meaning = np.array([_meaning(text, words, declared) for text in plain], np.int8)
        _keep_classes(meaning, plain, words, bool(declared))
        state[textual] = meaning[codes]
        taken = np.bincount(codes, minlength=len(texts))
        for text, one, count in zip(texts, meaning, taken, strict=True):
            if one not in (State.GIVEN, State.MISSING):
                counts[text] = counts.get(text, 0) + int(count)
    if status is not None:
        blank = (state == State.MISSING) & (status == State.GIVEN)
        state = np.where((status >= 0) & ~blank, status, state).astype(np.int8)
    given = state == State.GIVEN
    values[~given] = None
    label: pd.Series[Any] = pd.Series(values, dtype=object)
    if (textual & ~given).any():
        label = _retyped(label)
    _require_whole(label, where)
    return Classified(coded(label, "verdict", where), state, counts)


def _meaning(text: str, words: dict[str, State], declared: frozenset[str]) -> State:
    """Return the state of a normalised text."""
    if not text:
        return State.MISSING
    if text in declared:
        return State.GIVEN
    if text in words:
        return words[text]
    inner = text.strip(_AROUND)  # [ERROR], **N/A**
    stated = words.get(inner, State.GIVEN) if inner != text and inner not in declared else State.GIVEN
    unread = stated == State.GIVEN and (_ERROR.match(text) or _UNREAD.fullmatch(inner))
    return State.UNPARSEABLE if unread else stated


def _keep_classes(meaning: npt.NDArray[np.int8], plain: list[str], words: dict[str, State], declared: bool) -> None:
    """Give texts such as "cannot parse" the state ``GIVEN`` where they are a class: changes ``meaning`` in place.

    They are where another text says the contrary with the same verb ("can parse") or goes on in another way ("error encoding"
    beside "error decoding"), and where without them at most one of two or three different texts would be left.

    Args:
        meaning: state of each text, ``(T,)``.
        plain: the texts, normalised.
        words: texts that stand for a state.
        declared: whether the caller has declared the classes.
    """
    unread = {
        n: match
        for n, text in enumerate(plain)
        if meaning[n] == State.UNPARSEABLE
        and text not in words
        and text.strip(_AROUND) not in words
        and (match := _UNREAD.fullmatch(text.strip(_AROUND)))
    }
    given = [text for n, text in enumerate(plain) if meaning[n] == State.GIVEN]
    texts = len(given) + len(unread)
    few = not declared and 1 < texts <= _CLASSES + 1 and len(given) < _CLASSES
    for n, match in unread.items():
        verb, start = match["what"][:4], match.string[: match.start("what")]
        contrary = re.compile(rf"((can|able to|successfully|fully|partly) )?{verb}\w*(?! ?:)\b")
        if few or any(contrary.match(text) or text.startswith(start) for text in given):
            meaning[n] = State.GIVEN


def _none_is_nothing(texts: Array, others: list[str], pairs: bool) -> bool:
    """Return whether "none" is not a class: beside names of passing and failing, and beside numbers.

    Beside others (none, minor, major) it is a class, unless it is written as Python writes it and they are not capitalised.
    """
    if not pairs and others and all(polarity(text) or _WHOLE_FLOAT.fullmatch(f"{text}.0") for text in others):
        return True
    written = [text.strip() for text in texts if normalised(text) == _NONE]
    capitals = any(text.strip()[:1].isupper() for text in texts if normalised(text) in others)
    return written == ["None"] and not capitals


def _retyped(label: pd.Series[Any]) -> pd.Series[Any]:
    """Return labels as booleans or integers if they are texts only because the column has texts for states."""
    present = label.dropna()
    if not len(present) or not all(isinstance(value, str) for value in present):
        return label
    plain = present.str.strip()
    booleans = plain.str.casefold().map({"true": True, "false": False})
    if booleans.notna().all():
        return booleans.astype(object).reindex(label.index)
    numbers = whole_numbers(plain.str.replace(_WHOLE_FLOAT, r"\1", regex=True))
    return label if numbers.dtype == plain.dtype else numbers.astype(object).reindex(label.index)


def _require_whole(label: pd.Series[Any], where: str) -> None:
    numbers = [(n, v) for n, v in label.items() if isinstance(v, (float, np.floating)) and not pd.isna(v)]
    fractions = np.array([n for n, v in numbers if not float(v).is_integer()], dtype=int)
    if len(fractions):
        raise DataError(
            f"{where}, {rows_text(fractions)}: verdict {label[fractions[0]]:g} is not a whole number; "
            f"pass a judge's numbers as score=..."
        )


def statuses(column: pd.Series[Any], where: str) -> Array:
    """Return the states that a column names ``(n,)`` int8, -1 where it is blank.

    Raises:
        DataError: for any other text.
    """
    texts = column.astype(object)
    codes, names = pd.factorize(texts)
    known = {state.name.casefold(): int(state) for state in State} | {"": -1}
    plain = [normalised(str(name)) for name in names]
    for code, name in enumerate(plain):
        if name not in known:
            raise DataError(
                f"{where}, {rows_text(np.flatnonzero(codes == code))}: status {names[code]!r}"
                f"{suggestion(name, known)}; use given, missing, unparseable or abstained"
            )
    # A missing value has the code -1, which selects the last entry.
    return np.array([*(known[name] for name in plain), -1], dtype=np.int8)[codes]
