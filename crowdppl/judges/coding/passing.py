"""Which class of a verdict passes, by its name."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from crowdppl.errors import DataError, OptionError, listed, suggestion

Array = npt.NDArray[Any]

# Names of classes, in lower case, that pass and that do not.
PASSES = frozenset(
    [
        "pass",
        "passed",
        "passes",
        "passing",
        "correct",
        "right",
        "yes",
        "true",
        "1",
        "good",
        "c",
        "positive",
        "safe",
        "win",
        "won",
        "ok",
        "okay",
        "success",
        "successful",
        "succeeded",
        "faithful",
        "factual",
        "grounded",
        "supported",
        "consistent",
        "accurate",
        "valid",
        "relevant",
        "helpful",
        "accept",
        "accepted",
        "acceptable",
        "approve",
        "approved",
        "agree",
        "entailed",
        "entailment",
        "complete",
        "completed",
        "compliant",
        "harmless",
        "benign",
        "clean",
        "satisfied",
        "satisfactory",
        "coherent",
        "fluent",
        "fair",
        "unbiased",
        "honest",
        "truthful",
        "match",
        "matched",
        "thumbs_up",
        "up",
        "resolved",
        "solved",
        "attributable",
        "y",
        "t",
        "p",
        "better",
        "adherent",
        "appropriate",
    ]
) | frozenset(("thumbs up", "thumbs-up", "👍", "✓", "✅"))
FAILS = frozenset(
    [
        "fail",
        "failed",
        "fails",
        "failing",
        "failure",
        "incorrect",
        "wrong",
        "no",
        "false",
        "0",
        "bad",
        "i",
        "negative",
        "unsafe",
        "loss",
        "lose",
        "lost",
        "error",
        "unfaithful",
        "hallucinated",
        "hallucination",
        "hallucinating",
        "fabricated",
        "ungrounded",
        "unsupported",
        "inconsistent",
        "inaccurate",
        "invalid",
        "irrelevant",
        "unhelpful",
        "reject",
        "rejected",
        "unacceptable",
        "disapprove",
        "disapproved",
        "disagree",
        "contradicted",
        "contradiction",
        "contradictory",
        "incomplete",
        "noncompliant",
        "harmful",
        "toxic",
        "malicious",
        "biased",
        "dirty",
        "unsatisfied",
        "unsatisfactory",
        "incoherent",
        "unfair",
        "dishonest",
        "untruthful",
        "mismatch",
        "mismatched",
        "thumbs_down",
        "down",
        "unresolved",
        "unsolved",
        "unattributable",
        "n",
        "f",
        "worse",
        "inappropriate",
        "offensive",
        "misleading",
        "jailbroken",
    ]
) | frozenset(("thumbs down", "thumbs-down", "👎", "✗", "❌"))
# Answers to a question: what they mean depends on what is asked. Letters mean something beside their opposite only.
ANSWERS = frozenset(("yes", "no", "true", "false", "1", "0", "y", "n", "t", "f", "positive", "negative"))
LETTERS = {"c": "i", "i": "c", "y": "n", "n": "y", "t": "f", "p": "f"}
_NOT = re.compile(r"(not|non|no|isn't|never)[ _-]+|non")
# Of what is asked, where "yes" is bad.
BAD = re.compile(
    r"hallucinat|toxic|(?<!un)bias|harm(?!less)|unsafe|offens|violat|jailbr|leak|inject|error|mistake|contradict|fabricat|mislead|fail"
    r"|incorrect|wrong|refus|irrelevan|unfaithful|plagiar|malicious|profan|abus",
    re.IGNORECASE,
)


def polarity(name: object) -> int:
    """Return 1 for the name of a class that passes, -1 for one that does not, 0 if the name does not tell."""
    text = str(name).strip().casefold()
    if text in PASSES:
        return 1
    if text in FAILS:
        return -1
    text = text.replace("_", " ").replace("-", " ")
    negated = _NOT.match(text)
    return -polarity(text[negated.end() :]) if negated and text[negated.end() :] else 0


def values(labels: Array, positive: Any = None, *, known: Any = None, asked: Iterable[Any] = ()) -> Array:
    """Return what each class adds to the rate of a system, ``(K,)``.

    Args:
        labels: names of the classes, ``(K,)``.
        positive: the label that passes, or a list of them. Defaults to the grades themselves with more than two numeric
            classes, otherwise to the one whose name says so.
        known: the label that passes by the format of a file, if it is known.
        asked: names that tell what was asked, such as those of judges: "yes" to "hallucination" does not pass.

    Raises:
        OptionError: for a positive label that is no class, and if none or all are positive.
        DataError: if the names do not tell which class passes.
    """
    names = labels.tolist()
    if positive is not None:
        return _stated(names, positive)
    if known is not None and known in names:
        return np.array([float(name == known) for name in names])
    if len(names) > 2 and (grades := _grades(names)) is not None:
        return grades
    plain = [str(name).strip().casefold() for name in names]
    signs = [0 if text in LETTERS and not _opposite(text, plain) else polarity(text) for text in plain]
    bad = sorted({str(name) for name in asked if BAD.search(str(name))})
    if bad and set(plain) <= ANSWERS:
        raise DataError(
            f"classes are {listed(names, 6)}, and {listed(bad, 3)} asks for something bad, so that the names do not tell which "
            f"class passes; state it with positive=..., here {_written(_failing(names, signs))} if these answers say whether it "
            f"was found"
        )
    if set(plain) == {"-1", "1"}:
        signs = [1 if text == "1" else -1 for text in plain]
    if len(names) == 2 and "1" in plain and not {"0", "-1"} & set(plain) and _grades(names) is not None:
        # 1 passes beside 0. Of 1 and 5 it is the worst grade, and of 1 and 2 it may be either.
        raise DataError(
            f"classes are {listed(names)}: if they are grades, declare all of them with labels=[...]; otherwise "
            "state the one that "
            f"passes with positive=..."
        )
    passing = [n for n, sign in enumerate(signs) if sign > 0]
    if not passing and len(names) == 2 and signs.count(-1) == 1:
        passing = [n for n, sign in enumerate(signs) if sign == 0]
    if len(passing) != 1:
        which = "more than one of them" if passing else "none of them for sure"
        raise DataError(
            f"classes are {listed(names, 6)}, and by its name {which} passes; state the label that passes, or a list of them, "
            f"with positive=..."
        )
    return np.eye(len(names))[passing[0]]


def _stated(names: list[Any], positive: Any) -> Array:
    chosen = [positive] if isinstance(positive, str) or not isinstance(positive, Iterable) else list(positive)
    texts = [str(name) for name in names]
    if not chosen:
        raise OptionError(
            f"positive= is an empty list, so that nothing passes; name at least one of {listed(names, 12)}"
        )
    chosen_names = set()
    for one in chosen:
        same = [text for text in texts if text == str(one)]
        same = same or [text for text in texts if text.strip().casefold() == str(one).strip().casefold()]
        if len(same) != 1:
            raise OptionError(f"positive={one!r} is no class{suggestion(one, names)}; classes are {listed(names, 12)}")
        chosen_names.add(same[0])
    if len(chosen_names) == len(names):
        raise OptionError(
            f"positive= names every class ({listed(names, 12)}), so that everything passes; leave out at least one"
        )
    return np.array([float(text in chosen_names) for text in texts])


def _grades(names: list[Any]) -> Array | None:
    try:
        grades = [float(name) for name in names]
    except (TypeError, ValueError):
        return None
    return np.array(grades) if all(map(math.isfinite, grades)) else None


def _opposite(letter: str, plain: list[str]) -> bool:
    return LETTERS[letter] in plain or (letter == "f" and "p" in plain)


def _failing(names: list[Any], signs: list[int]) -> Any:
    return next((name for name, sign in zip(names, signs, strict=True) if sign < 0), names[0])


def _written(name: Any) -> str:
    return f"positive={name!r}"
