"""Judges and people on different scales of grades, such as 1 to 5 and 1 to 10."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from crowdppl.data.table.identifiers import kind_of
from crowdppl.errors import listed
from crowdppl.judges.human import HumanLabels
from crowdppl.judges.people.matching import text_grades
from crowdppl.judges.verdicts import Verdicts

Array = npt.NDArray[Any]
# The highest grades of usual scales; verdicts from which a scale is known, and the share of them that have its highest grade.
TOPS = (1, 5, 7, 10, 20, 100)
ENOUGH, SHARE = 20, 0.05


def on_one_scale(verdicts: Verdicts, human: HumanLabels | None) -> Verdicts:
    """Return verdicts in which judges on another scale than the people, or than most judges, give scores in place of grades.

    Scores count by their order, so that they need no common scale. The scale of whole numbers is known by its highest grade, one
    of :data:`TOPS`, if a share of :data:`SHARE` or more of at least :data:`ENOUGH` verdicts have it. Where that of people is not
    known by this, it is the smallest that has room for their grades. A judge who gives several grades above the scale of the
    others is on another one, too. Low grades alone are no sign of another scale, unless a judge uses the whole of one that is at
    most half as high.
    """
    v, given = verdicts, verdicts.label >= 0
    if kind_of(v.labels) != "integers" or len(v.labels) < 3 or v.labels.min() < 0 or (v.opponent >= 0).any():
        return verdicts
    grades = [v.labels[v.label[given & (v.judge == j)]] for j in range(len(v.judges))]
    known = [_scale(own) for own in grades]
    common, people = None, _grades_of(human)
    if len(people):
        common = _scale(people)
        if common is None and np.ptp(people) > 0:
            common = next((top for top in TOPS if top >= people.max() and _possible(top, people)), None)
            if common is None:
                return verdicts
    if common is None:
        each = [(sum(other == scale for other in known), scale) for scale in known if scale is not None]
        common = max(each)[1] if each else None
    if common is None:
        return verdicts
    above = [len(np.unique(own[own > common])) > 1 for own in grades]
    other = [_is_other(scale, common, own) for scale, own in zip(known, grades, strict=True)]
    odd = np.array(other, dtype=bool) | np.array(above, dtype=bool)
    if not odd.any():
        return verdicts
    rows = given & odd[v.judge]
    score = np.where(rows & ~np.isfinite(v.score), np.append(v.labels, 0)[v.label], v.score)
    label = np.where(rows, -1, v.label)
    used = np.unique(label[label >= 0])
    code = np.full(len(v.labels) + 1, -1, dtype=np.int64)
    code[used] = np.arange(len(used))
    ranges = ", ".join(
        f"{listed([name])} ({own.min()} to {own.max()})"
        for name, own, apart in zip(v.judges.tolist(), grades, odd, strict=True)
        if apart
    )
    note = f"grades are on a scale up to {common}; those of {ranges} are read as scores, which count by their order"
    return dataclasses.replace(v, label=code[label], labels=v.labels[used], score=score, notes=(*v.notes, note))


def _scale(grades: Array) -> int | None:
    """Return the highest grade of the scale on which grades ``(n,)`` are given, ``None`` if it is not known."""
    if len(grades) < ENOUGH or grades.max() not in TOPS or (grades == grades.max()).mean() < SHARE:
        return None
    return int(grades.max()) if _possible(grades.max(), grades) else None


def _possible(top: int, grades: Array) -> bool:
    """Return whether grades ``(n,)`` can be on a scale up to ``top``: one up to 1 starts at 0."""
    return top > 1 or bool(grades.min() < 1)


def _is_other(scale: int | None, common: int, own: Array) -> bool:
    """Return whether a judge with grades ``own`` ``(n,)`` on a known scale is on another one than the common one."""
    if scale is None or scale == common:
        return False
    return scale > common or (2 * scale <= common and len(np.unique(own)) > 2)


def _grades_of(human: HumanLabels | None) -> Array:
    """Return the grades of people ``(m,)``, also where they are written as text; none if labels are no grades."""
    if human is None:
        return np.zeros(0, dtype=np.int64)
    names = human.labels if kind_of(human.labels) == "integers" else text_grades(human.labels)
    return np.zeros(0, dtype=np.int64) if names is None else np.asarray(names[human.label])
