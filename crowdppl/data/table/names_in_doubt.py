"""Notes on names that are probably meant to be the same, and on labels that are probably numbers; each is also a warning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from crowdppl.data.table.identifier_checks import (
    equal_numbers,
    fractions,
    lookalikes,
    padded_numbers,
    same_numbers,
    scientific,
    spaced,
    variants,
)
from crowdppl.data.table.identifier_forms import notes_on
from crowdppl.errors import listed, warn

Array = npt.NDArray[Any]


def check_names(identifiers: Array, role: str, source: str, notes: list[str]) -> None:
    """Warn of names that differ in capitals, white space or Unicode form only, and of white space around names."""
    same_form = lookalikes(identifiers)
    case_pairs = [(name, other) for name, other in variants(identifiers) if name not in same_form]
    in_pairs = {name for pair in case_pairs for name in pair}
    padded = [name for name in spaced(identifiers) if name not in in_pairs]
    if case_pairs:
        add(
            notes,
            f"{source}: {_differ(role, len(case_pairs))} in capitals or white space only: {paired_names(case_pairs, 2)}. "
            f"Each is treated as a different {role}; write them alike if they are the same",
        )
    if padded:
        add(notes, f"{source}: white space around {role} names is kept as it is: {listed(padded, 2)}")
    if same_form:
        add(
            notes,
            f"{source}: {_differ(role, len(same_form))} in Unicode form or invisible characters only: "
            f"{', '.join(map(ascii, same_form[:2]))}; write them alike if they are the same",
        )
    numbers = same_numbers(identifiers) if role != "label" else []
    if numbers:
        add(
            notes,
            f"{source}: {_differ(role, len(numbers))} in leading zeros or decimals only: {paired_names(numbers, 2)}. Each is "
            f"treated as a different {role}; write them alike if they are the same",
        )
    shortened = scientific(identifiers) if role != "label" else []
    if shortened:
        add(
            notes,
            f"{source}: {role} names such as {listed(shortened, 2)} were probably shortened by a spreadsheet: different ones "
            f"may have become one; export them again as text",
        )
    if role != "label":
        again = {name for pair in (*case_pairs, *numbers) for name in pair}
        notes += notes_on(identifiers, role, source, again | set(same_form))


def check_padding(labels: Array, source: str, notes: list[str]) -> None:
    """Warn of labels that differ in leading zeros only."""
    zeros = padded_numbers(labels)
    if zeros:
        add(
            notes,
            f"{source}: {_differ('label', len(zeros))} in leading zeros only: {paired_names(zeros, 2)}; if they are the same, "
            f"merge them with map={{{zeros[0][0]!r}: {zeros[0][1]!r}}}",
        )


def check_numeric_labels(labels: Array, source: str, notes: list[str], *, graded: bool) -> None:
    """Warn of labels that look like scores, and of numbers written in two ways."""
    scores, duplicates = fractions(labels), equal_numbers(labels)
    if scores and not graded:
        add(
            notes,
            f"{source}: labels are numbers, some of them not whole ({listed(scores)}), and are treated as {len(labels):,} "
            f"unordered classes; if they are grades, say so with kind='ordinal' (--kind ordinal); if scores, round or bin them",
        )
    if duplicates:
        add(
            notes,
            f"{source}: {len(duplicates):,} labels are the same number as others but are treated as different classes: "
            f"{paired_names(duplicates)}; write them alike if they are the same",
        )


def paired_names(pairs: Sequence[tuple[str, str]], most: int = 5) -> str:
    """Return pairs of names as readable text, with the number of pairs that are left out."""
    text = ", ".join(f"{name!r} and {other!r}" for name, other in pairs[:most])
    return text if len(pairs) <= most else f"{text}, and {len(pairs) - most:,} more"


def _differ(role: str, count: int) -> str:
    return f"1 {role} name differs from another" if count == 1 else f"{count:,} {role} names differ from others"


def add(notes: list[str], sentence: str) -> None:
    """Add a sentence to the notes, and warn of it."""
    notes.append(sentence)
    warn(sentence)
