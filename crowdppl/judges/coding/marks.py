"""Marks around a verdict and words before it, as judges write them: they are no part of its name."""

from __future__ import annotations

import re

from crowdppl.data.table.spellings import folded

# Marks around a verdict, and words before it.
_AROUND = (
    *(("**", "**"), ("__", "__"), ("`", "`"), ("[[", "]]"), ('"', '"'), ("'", "'"), ("$", "$")),
    *(("\\boxed{", "}"), ("\\text{", "}")),
    *((f"<{tag}>", f"</{tag}>") for tag in ("answer", "verdict", "label", "rating", "score")),
)
_BEFORE = re.compile(
    r"(?:final |my |overall )?(?:verdict|judge?ment|rating|answer|grade|decision|score|winner)\s*(?:is)?\s*:\s*(?=\S)",
    re.IGNORECASE,
)


def bare(text: str) -> str:
    """Return the key of verdicts that differ in capitals, white space, marks around them, and the words before them only."""
    return unmarked(folded(text))


def unmarked(text: str) -> str:
    """Return a verdict without marks around it and words before it: ``PASS`` for ``Verdict: **PASS**.``."""
    key, before = text.strip(), None
    while key != before:
        before = key
        key = _BEFORE.sub("", key, count=1) if _BEFORE.match(key) else key
        for start, end in _AROUND:
            lower = key.lower()
            if len(key) > len(start + end) and lower.startswith(start) and lower.endswith(end):
                key = key[len(start) : -len(end)].strip()
        if len(key) > 2 and key[-1] in ".!":
            key = key[:-1].rstrip()
    return key
