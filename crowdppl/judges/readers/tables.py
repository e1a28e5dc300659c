"""Tables with a row for each verdict."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

from crowdppl.judges.coding.lengths import LENGTHS, OPPONENT_LENGTHS
from crowdppl.judges.coding.table import OF_CALLS
from crowdppl.judges.readers.content import Content

# Names of columns by role, in order of preference, compared without capitals. Other tools spell the word for a verdict in two
# ways.
_ANNOTATION = re.compile(r"judge?ment|verdict|label|grade|winner")
NAMES: dict[str, tuple[str, ...]] = {
    "item": ("item", "item_id", "task", "task_id", "example_id", "sample_id"),
    "judge": ("judge", "model_judge", "judge_model", "grader", "evaluator", "worker"),
    "system": ("system", "model", "system_a", "model_a"),
    "opponent": ("opponent", "system_b", "model_b"),
    "question": ("question", "question_id"),
}
# Attribute of a table: names of its columns in the file, and the roles that they were given.
RENAMED = "crowdppl_renamed"
KEPT = ("cluster", *OF_CALLS, *LENGTHS, *OPPONENT_LENGTHS)
_PREFERENCE = ("verdict", "judg", "label", "grade", "winner")


def standard_names(columns: list[str]) -> dict[str, str]:
    """Return the role of each column of a table that has one; the first name of a role that is there is used.

    ``model`` is the system only beside a column of judges.
    """
    lower = {name.strip().lower(): name for name in reversed(columns)}
    roles: dict[str, str] = {}
    for role, names in NAMES.items():
        if role == "system" and "judge" not in roles.values() and "system" not in lower:
            continue
        chosen = next((lower[name] for name in names if name in lower), None)
        if chosen is not None:
            roles[chosen] = role
    verdicts = [name for name in lower if _ANNOTATION.fullmatch(name)]
    if verdicts:
        best = next(name for start in _PREFERENCE for name in verdicts if name.startswith(start))
        roles[lower[best]] = "verdict"
    if "item" not in roles.values():  # of pairs, the question is often all there is
        roles = {
            name: "item" if role == "question" and "opponent" in roles.values() else role
            for name, role in roles.items()
        }
    return roles | {lower[name]: name for name in KEPT if name in lower}


def is_table(content: Content) -> bool:
    """Recognise columns of items, judges, and verdicts or scores."""
    roles = set(standard_names(content.columns).values())
    return {"item", "judge"} <= roles and bool(roles & {"verdict", "score"})


def table(content: Content) -> pd.DataFrame:
    """Read a table of verdicts: CSV, Parquet, JSON or JSON Lines, with a row for each verdict.

    Columns have the names of the arguments of :meth:`crowdppl.judges.Verdicts.from_frame`, or others that are usual:
    ``model_judge``, ``grader``, ``evaluator``, ``worker`` for the judge, ``label``, ``grade`` and the two spellings of
    ``judg(e)ment`` for the verdict, and ``model`` for the system beside a column of judges. Tables of pairs may have ``model_a``,
    ``model_b`` (or ``system_a``, ``system_b``) and ``winner`` for system, opponent and verdict. Other columns are kept.
    """
    frame: Any = content.table
    roles = standard_names(list(map(str, frame.columns)))
    frame = frame.rename(columns=roles)
    frame.attrs[RENAMED] = roles
    return frame


def own_names(frame: pd.DataFrame, named: list[str]) -> dict[str, str]:
    """Return the columns of a table to rename back: those that the caller names as they are in the file."""
    roles: dict[str, str] = frame.attrs.get(RENAMED, {})
    return {role: own for own, role in roles.items() if own in named}
