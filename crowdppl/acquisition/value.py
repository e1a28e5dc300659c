"""The value of one more annotation of an item: how much it tells of the true label."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from crowdppl.acquisition.correlation import mean_worth, rho_quantiles
from crowdppl.arguments import Identifier, checked
from crowdppl.posterior.posterior import Posterior

Array = npt.NDArray[Any]
By = Literal["entropy", "information", "accuracy"]
CRITERIA = ("entropy", "information", "accuracy")

# Items x labels x classes in memory at a time.
CELLS = 2**22


@checked
def gains(posterior: Posterior, *, by: By = "entropy", worker: Identifier = None) -> Array:
    """Return the value of one more annotation of each item: ``(N,)``.

    Args:
        posterior: a result.
        by: ``"entropy"``, the current entropy of the true label, in bits: prefers the least certain items, and saves most in
            replays of real annotations (docs/benchmarks/replay.md); ``"information"``, the expected decrease of the entropy, in
            bits, which depends on the worker; ``"accuracy"``, the expected increase of the probability of the most probable
            class, which is 0 if one annotation cannot change that class.
        worker: who would annotate. Defaults to a random worker of the crowd, weighted by numbers of annotations.

    Raises:
        OptionError: for an unknown ``by``.
        DataError: for an unknown worker.
    """
    who = None if worker is None else posterior.worker_index(worker)
    return gains_by(posterior, by, [who])[0]


def gains_by(posterior: Posterior, by: str, workers: list[int | None]) -> Array:
    """Return gains ``(W, N)`` for workers by code; ``None`` stands for a random worker of the crowd."""
    p = posterior.probability()
    if by == "entropy":  # the same for every worker
        return np.tile(entropy(p), (len(workers), 1))
    worth = mean_worth(posterior.annotations_per_item(), rho_quantiles(posterior))
    channels = (
        (posterior.mean_confusion() if j is None else posterior.draws("confusion", worker=j)).mean(0) for j in workers
    )
    return np.stack([expected(p, worth, channel, by) for channel in channels])


def expected(p: Array, worth: Array, channel: Array, by: str) -> Array:
    """Return the expected gain of one annotation through ``channel (K, K)``, for beliefs ``(N, K)``, new with ``worth (N,)``."""
    if by == "entropy":
        return entropy(p)
    out = np.empty(len(p))
    step = max(1, CELLS // p.shape[1] ** 2)
    for start in range(0, len(p), step):
        part = slice(start, start + step)
        joint = p[part, :, None] * _diluted(p[part], worth[part], channel)  # (n, truth, label)
        given = joint.sum(1)  # (n, label)
        if by == "accuracy":
            gain = joint.max(1).sum(1) - p[part].max(1)
        else:
            after = np.divide(joint, given[:, None], out=np.zeros_like(joint), where=given[:, None] > 0)
            gain = entropy(p[part]) - (given * entropy(after.swapaxes(1, 2))).sum(1)
        out[part] = gain
    return np.maximum(out, 0.0)  # rounding may leave values slightly below 0


def _diluted(p: Array, worth: Array, channel: Array) -> Array:
    """Return ``p(label = l | truth = k)`` of the next annotation of each item, a mixture of new and copied: ``(N, K, K)``."""
    copied = (p @ channel)[:, None, :]
    return worth[:, None, None] * channel + (1 - worth)[:, None, None] * copied


def entropy(p: Array) -> Array:
    """Return the entropy of probabilities ``(..., K)``, in bits."""
    return -(p * np.log2(np.where(p > 0, p, 1.0))).sum(-1)
