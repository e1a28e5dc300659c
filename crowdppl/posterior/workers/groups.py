"""Tables of groups of annotators and of worker embeddings."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import arguments
from crowdppl.arguments import Level, checked
from crowdppl.errors import DataError
from crowdppl.posterior import viewed
from crowdppl.posterior.measures import interval
from crowdppl.posterior.schema import DRAW
from crowdppl.posterior.variables import PosteriorVariables

__all__ = ["row_entropy", "similarity", "table", "worker_map"]

Array = npt.NDArray[Any]


def __dir__() -> list[str]:
    return __all__


@checked
def table(posterior: PosteriorVariables, *, level: Level | None = None) -> pd.DataFrame:
    """Return a table with one row per group of annotators, after Table 4 of Mena and Ñanculef (2019).

    Columns: ``group``; ``share`` of annotations, or of workers where each worker belongs to one group; ``similarity`` to the
    identity, their I_sim; ``entropy``, the mean entropy of its rows in nats; each followed by the ends of its interval. The
    similarity is 1 less the Jensen-Shannon divergence of rows and identity, averaged over rows and divided by that of uniform
    rows, so a perfect group has 1, and a random one 0 (the paper's random groups have .02).

    Raises:
        DataError: if the model has no groups.
    """
    share, confusion = _of_groups(posterior)
    out: dict[str, Any] = {"group": np.arange(share.shape[-1])}
    for name, values in (("share", share), ("similarity", similarity(confusion)), ("entropy", row_entropy(confusion))):
        for suffix, value in zip(("", "_low", "_high"), interval(values, level), strict=True):
            out[name + suffix] = value
    return pd.DataFrame(out)


@checked
def similarity(confusion: Annotated[Array, arguments.amounts(0, 1, axes=2)]) -> Array:
    """Return the similarity of matrices ``(..., K, K)`` to the identity: 1 for the identity, 0 for uniform rows, or less."""
    K = confusion.shape[-1]
    uniform = _divergence(np.full((K, K), 1 / K), np.eye(K)).mean(-1)
    return np.asarray(1 - _divergence(confusion, np.eye(K)).mean(-1) / uniform)


@checked
def row_entropy(confusion: Annotated[Array, arguments.amounts(0, 1, axes=2)]) -> Array:
    """Return the mean entropy of the rows of ``(..., K, K)`` in nats: 0 for deterministic rows, log K for uniform ones."""
    return np.asarray(-_xlogx(confusion).sum(-1).mean(-1))


@checked
def worker_map(posterior: PosteriorVariables) -> pd.DataFrame:
    """Return a two-dimensional map of workers: the first two principal components of their mean embeddings.

    Columns: ``worker``, ``x``, ``y``. The signs are arbitrary.

    Raises:
        DataError: if the model has no worker embeddings.
    """
    draws = posterior.tree["posterior"].to_dataset()
    if not viewed.has(posterior.tree, "worker_embedding", "worker"):
        models = viewed.models_with("worker_embedding")
        raise DataError(f"{posterior.info['model']} has no worker embeddings; fit {models}")
    mean = np.asarray(draws["worker_embedding"].mean(("chain", "draw")).values)  # (J, E)
    centred = mean - mean.mean(0)
    left, scale, _ = np.linalg.svd(centred, full_matrices=False)
    plane = np.zeros((len(mean), 2))
    plane[:, : min(2, len(scale))] = (left * scale)[:, :2]
    return pd.DataFrame({"worker": draws["worker"].values, "x": plane[:, 0], "y": plane[:, 1]})


def _of_groups(posterior: PosteriorVariables) -> tuple[Array, Array]:
    """Return draws of the shares of groups ``(S, M)`` and of their matrices ``(S, M, K, K)``.

    Those with the axis of groups that the membership of workers has: of groups in order, where draws may exchange them.
    """
    draws = posterior.tree["posterior"].data_vars
    both = []
    if viewed.has(posterior.tree, "membership", "worker"):
        axis = str(draws["membership"].dims[-1])
        for axes in ((axis,), (axis, "true_label", "given_label")):
            both += [one.to_numpy() for one in draws.values() if one.dims == (*DRAW, *axes)][:1]
    if len(both) < 2:
        models = viewed.models_with("membership")
        raise DataError(f"{posterior.info['model']} has no groups of annotators; fit {models}")
    share, confusion = (values.reshape(-1, *values.shape[2:]) for values in both)
    return share, confusion


def _divergence(p: Array, q: Array) -> Array:
    """Return the Jensen-Shannon divergence of rows ``(..., K)`` in nats."""
    middle = (p + q) / 2
    return np.asarray(_xlogx(p).sum(-1) / 2 + _xlogx(q).sum(-1) / 2 - _xlogx(middle).sum(-1))


def _xlogx(p: Array) -> Array:
    return np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), 0.0)
