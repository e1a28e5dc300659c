"""Labels by which labelling functions abstain: each gives one class of its own, and the same label otherwise."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.int64]

# Workers, and annotations of each on the mean, from which this is no chance; annotations with its class that each must have.
_WORKERS, _ANNOTATIONS, _TIMES = 4, 10, 2
# Labels of those who abstain; any other label, such as "healthy" of specialists for a disease each, may be a class.
_ABSTAIN = re.compile(r"-1(\.0)?|[\W_]*(abstain(s|ed|ing)?|abstention|no[ _-]?(vote|label|op))[\W_]*", re.IGNORECASE)


def notes_on_one_sided(label: Array, worker: Array, names: Sequence[str], workers: int, where: str) -> list[str]:
    """Return a note where every worker gives one class and a label for abstaining that all others give, too.

    Args:
        label: label of each annotation, ``(A,)``.
        worker: its worker, ``(A,)``.
        names: the labels as text.
        workers: number of workers.
        where: location of the labels, for messages.
    """
    if not 2 < len(names) <= workers + 1 or workers < _WORKERS or len(label) < _ANNOTATIONS * workers:
        return []
    counts = np.bincount(worker * len(names) + label, minlength=workers * len(names)).reshape(workers, len(names))
    shared = np.flatnonzero((counts > 0).all(0))
    others = np.delete(counts, shared, axis=1)
    if len(shared) != 1 or not ((others > 0).sum(1) == 1).all() or others.max(1).min() < _TIMES:
        return []
    nothing = names[int(shared[0])]
    if not _ABSTAIN.fullmatch(nothing):
        return []
    return [
        f"{where}: every worker gives {nothing!r} and one other label, as labelling functions do that abstain with {nothing!r}; "
        f"if it stands for no label, add missing={nothing!r}"
    ]
