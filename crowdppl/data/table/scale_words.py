"""Words of usual scales of grades, lowest first: by them labels are asked about, and never ordered without an answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

# Fewest labels of a scale that are asked about: of two the order says nothing.
FEWEST = 3
# Scales, lowest first; words of one place are separated by a bar.
SCALES = (
    "very low, low, medium|moderate|middle|mid|average|normal, high, very high",
    "terrible|awful|very poor|very bad, poor|bad, fair|average|ok|okay|acceptable|mediocre, good, very good, excellent",
    "none|absent|no, minimal|trace|very mild, mild|slight|minor, moderate, severe|major, very severe|critical",
    "strongly disagree|completely disagree, disagree, somewhat disagree|slightly disagree, "
    "neutral|undecided|neither|neither agree nor disagree, somewhat agree|slightly agree, agree, strongly agree|completely agree",
    "never, rarely|seldom, sometimes|occasionally, often|frequently|usually, always",
    "tiny|very small|extra small, small, medium, large, very large|extra large|huge",
    "very dissatisfied, dissatisfied, neutral, satisfied, very satisfied",
    "very unlikely, unlikely, neutral|possible|possibly, likely|probable, very likely",
    "not at all, a little|slightly, somewhat|moderately, very|very much, extremely",
    "very easy, easy, medium|moderate|average|normal, hard|difficult, very hard|very difficult",
    "beginner|novice, intermediate, advanced, expert",
)
_PLACES = tuple(
    {word: place for place, words in enumerate(scale.split(", ")) for word in words.split("|")} for scale in SCALES
)


def ordered(labels: Sequence[Any]) -> list[Any] | None:
    """Return labels in the order of a usual scale, lowest first; ``None`` unless all are words of one, with a place for each."""
    if len(labels) < FEWEST or not all(isinstance(label, str) for label in labels):
        return None
    words = [re.sub(r"[\s_-]+", " ", label.strip().casefold()) for label in labels]
    for places in _PLACES:
        at = [places.get(word) for word in words]
        if None not in at and len(set(at)) == len(at):
            return [labels[n] for n in sorted(range(len(labels)), key=lambda n: at[n] or 0)]
    return None
