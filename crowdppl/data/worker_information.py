"""Whether the names of workers say anything of their agreement with the crowd: a permutation test with exact moments."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from crowdppl import arguments
from crowdppl.arguments import checked

Array = npt.NDArray[np.int64]
Floats = npt.NDArray[Any]

# What the test needs: annotations, and workers with at least so many of them.
MIN_ANNOTATIONS, MIN_WORKERS, MIN_PER_WORKER = 5_000, 20, 20
# Codes of items, workers or labels of annotations, and the numbers of items, workers and classes.
Codes = Annotated[Array, arguments.array("annotation", kind="whole")]
Sizes = Annotated[tuple[int, int, int], arguments.several(arguments.whole(1), 3)]


@checked
def worker_information(item: Codes, worker: Codes, label: Codes, sizes: Sizes) -> float | None:
    """Test whether worker names carry information on agreement with the crowd, by the exact moments of a permutation test.

    The statistic is ``sum_j (agreements of j)^2 / (annotations of j)``, where an annotation agrees if it is the most frequent
    label of its item. Names are permuted among annotations of items with the same most frequent label.

    Args:
        item: item of each annotation, ``(A,)``.
        worker: its worker, ``(A,)``.
        label: its label, ``(A,)``.
        sizes: numbers of items, workers and classes.

    Returns:
        The z score of the original names among permuted ones; ``None`` with too few annotations or workers.
    """
    N, J, _ = sizes
    worker_of = worker[np.bincount(item, minlength=N)[item] > 1]
    if len(worker_of) < MIN_ANNOTATIONS or (np.bincount(worker_of, minlength=J) >= MIN_PER_WORKER).sum() < MIN_WORKERS:
        return None
    return names_score(item, worker, label, sizes)


@checked
def names_score(item: Codes, worker: Codes, label: Codes, sizes: Sizes) -> float | None:
    """Return the z score of :func:`worker_information` whatever the size of the data; ``None`` where nothing can vary."""
    N, J, K = sizes
    several = np.bincount(item, minlength=N)[item] > 1
    item, worker, label = item[several], worker[several], label[several]
    if not len(item):
        return None
    votes = np.bincount(item * K + label, minlength=N * K).reshape(N, K)
    majority = votes.argmax(1)[item]
    cell = majority * J + worker
    if len(cell) < K * J:
        names, cell = np.unique(cell, return_inverse=True)
        group = names // J
    else:
        group = np.repeat(np.arange(K), J)
    n = np.bincount(cell, minlength=len(group))
    agreements = np.bincount(cell, weights=label == majority, minlength=len(group))
    used = n > 0
    n, agreements, group = n[used], agreements[used], group[used]
    total, agreeing = (np.bincount(group, weights=values, minlength=K) for values in (n, agreements))
    active, inverse = (np.bincount(group, weights=values, minlength=K) for values in (np.ones(len(n)), 1 / n))
    squares = np.bincount(group, weights=agreements**2 / n, minlength=K)
    large = total > 3  # fewer annotations have no fourth moments, and say nothing
    mean, variance = _permutation_moments(total[large], agreeing[large], active[large], inverse[large])
    deviation = float(np.sqrt(variance.sum()))
    return None if deviation < 1e-9 else float((squares[large] - mean).sum() / deviation)


def _permutation_moments(total: Floats, agreeing: Floats, active: Floats, inverse: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of ``sum_j a_j^2 / n_j`` when the agreements are dealt out to the annotations at random.

    With centred indicators ``z_i``, the sum is ``z' B z`` plus a constant, where ``B`` has blocks of ``1 / n_j``: a projection
    with row sums of 1. Its second moment is a sum over the patterns of equal indices of products of elements of ``B`` times
    moments of ``z`` drawn without replacement.

    Args:
        total: numbers of annotations ``n``, above 3.
        agreeing: numbers of them that agree.
        active: numbers of workers ``J``.
        inverse: sums over workers of ``1 / n_j``.
    """
    n, J, H = total, active, inverse
    p = agreeing / n
    second, fourth = p * (1 - p), p * (1 - p) * (p**3 + (1 - p) ** 3)  # mean squares and fourth powers of z
    mean = second * (J - (n - J) / (n - 1))
    # Sums of b_ik b_lm by which indices are equal: all; three; two pairs; one pair; none.
    four = H
    three = 4 * (J - H)
    pairs = J**2 + 2 * J - 3 * H
    pair = 2 * (J * (n - J - 2) + 2 * H) + 4 * (n - 3 * J + 2 * H)
    none = n**2 - four - three - pairs - pair
    spread = n * second**2
    square = (
        four * fourth
        - three * fourth / (n - 1)
        + pairs * (spread - fourth) / (n - 1)
        + pair * (2 * fourth - spread) / ((n - 1) * (n - 2))
        + none * 3 * (spread - 2 * fourth) / ((n - 1) * (n - 2) * (n - 3))
    )
    return mean + n * p**2, np.maximum(square - mean**2, 0.0)
