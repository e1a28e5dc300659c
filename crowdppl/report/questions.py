"""What the guideline of an annotation is to say more clearly: classes, and labels of sets, that the crowd gets wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from crowdppl.posterior import workers
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.sets import decisions
from crowdppl.report.rendering import whole_percent

Array = npt.NDArray[Any]

# Labels that are chosen less often where they are in the set, or more often where they are not, are to be clarified.
MISSED, TOO_OFTEN = 0.6, 0.2


@dataclass(frozen=True)
class Question:
    """Two classes that the crowd as a whole confuses, or a label of sets that it misses or chooses too often.

    Attributes:
        about: what to clarify, such as "between class 1 and class 2".
        asked: the same as a question.
        sentence: how often they are confused, and by how many workers.
    """

    about: str
    asked: str
    sentence: str


def unclear_classes(posterior: Posterior, doubtful: Array, names: list[str]) -> list[Question]:
    """Return the pairs of classes that the crowd confuses, leaving out workers whose labels cannot be used, ``doubtful (J,)``."""
    table = workers.crowd_confusions(posterior, without=doubtful)
    classes = {name: n for n, name in enumerate(posterior.labels.tolist())}
    pairs: dict[tuple[int, int], list[dict[Any, Any]]] = {}
    for row in table.to_dict("records"):
        k, m = classes[row["truth"]], classes[row["label"]]
        pairs.setdefault((min(k, m), max(k, m)), []).append(row | {"truth": k, "label": m})
    out = []
    for (a, b), rows in pairs.items():
        parts = [
            f"{whole_percent(row['share'])} of the annotations of {names[row['truth']]} items say {names[row['label']]} "
            f"({row['workers']:,} of {row['asked']:,} workers do so)"
            for row in rows
        ]
        torn = rows[0]["torn"]
        items = f" {torn:,} {'item is' if torn == 1 else 'items are'} undecided between the two." if torn else ""
        about, asked = f"between {names[a]} and {names[b]}", f"{names[a]} or {names[b]}?"
        out.append(Question(about, asked, f"{'; '.join(parts)}.{items}"))
    return out


def unclear_labels(posterior: Posterior) -> list[Question]:
    """Return the labels of sets that workers miss or choose too often, those with most wrong decisions first."""
    table = decisions(posterior)
    unclear = table[(table["sensitivity"] < MISSED) | (table["false_positive_rate"] > TOO_OFTEN)]
    return [
        Question(
            f"on “{row['label']}”",
            f"When does “{row['label']}” apply?",
            f"It is chosen in {whole_percent(row['sensitivity'])} of the annotations of tasks that have it, and in "
            f"{whole_percent(row['false_positive_rate'])} of the others.",
        )
        for row in unclear.sort_values("wrong", ascending=False, kind="stable").to_dict("records")
    ]
