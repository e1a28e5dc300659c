"""What the agreement of judges says without human labels: their weights in a consensus, and which classes they confuse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, diags_array, issparse
from scipy.sparse.linalg import eigsh

Array = npt.NDArray[Any]
# Largest share of a judge's variance that the consensus may explain: a judge who is the consensus would get all the weight.
COMMUNALITY = 0.95
ITERATIONS = 50
# Smallest slope of verdicts on true labels: differences are multiplied by 5 at most.
WEAKEST = 0.2
# Slope of judges of whom no two saw an item: the median of eleven public panels by agreement.
UNKNOWN = 0.63
# Standard deviation of the logarithm of the slope over panels; the public ones differ less, and weak judges are beyond them.
SPREAD = 0.5
# Judges above which covariances are sparse.
DENSE = 200


def consensus_weights(covariance: Array | csr_array) -> Array:
    """Return the weight of each judge in the consensus, from covariances of their verdicts ``(J, J)``; means of size 1.

    One factor is fitted to the correlations (principal factors, the diagonal replaced by communalities until it settles). With
    loading ``v`` of a judge, the best linear predictor of the factor weights the judge by ``v / (1 - v^2)`` (Bartlett 1937, The
    statistical conception of mental factors, British Journal of Psychology 28).
    """
    if issparse(covariance):
        return _sparse_consensus(covariance)
    J = len(covariance)
    sd = np.sqrt(np.maximum(np.diag(covariance), 1e-12))
    correlation = covariance / sd[:, None] / sd
    correlation[np.diag(covariance) <= 1e-12] = 0
    correlation[:, np.diag(covariance) <= 1e-12] = 0
    loading = np.zeros(J)
    np.fill_diagonal(correlation, 0)
    for _ in range(ITERATIONS if J > 1 else 0):
        values, vectors = np.linalg.eigh(correlation)
        loading = vectors[:, -1] * np.sqrt(max(values[-1], 0.0))
        np.fill_diagonal(correlation, np.minimum(loading**2, COMMUNALITY))
    return _weights(loading)


def covariance(around: Array) -> Array | csr_array:
    """Return sums of products of the verdicts of each pair of judges, ``(J, J)``, from ``(N, J, K)``; sparse for many judges."""
    N, J, K = around.shape
    if J <= DENSE:
        return np.einsum("njk,nmk->jm", around, around)
    values = csr_array(around.transpose(0, 2, 1).reshape(N * K, J))
    return csr_array(values.T @ values)


def _sparse_consensus(covariance: csr_array) -> Array:
    """Return :func:`consensus_weights` of many judges, most of whom have no item in common."""
    own = covariance.diagonal()
    scale = np.where(own > 1e-12, 1 / np.sqrt(np.maximum(own, 1e-12)), 0.0)
    correlation = csr_array(diags_array(scale) @ covariance @ diags_array(scale))
    correlation.setdiag(0)
    loading = np.zeros(len(own))
    communality, start = np.zeros(len(own)), np.ones(len(own))
    for _ in range(ITERATIONS):
        value, vector = eigsh(correlation + diags_array(communality), k=1, which="LA", v0=start, tol=1e-6)
        loading, start = vector[:, 0] * np.sqrt(max(value[0], 0.0)), vector[:, 0]
        communality = np.minimum(loading**2, COMMUNALITY)
    return _weights(loading)


def _weights(loading: Array) -> Array:
    """Return the weights of judges in the consensus, means of size 1, from their loadings, ``(J,)`` each."""
    loading = loading * (1.0 if loading.sum() >= 0 else -1.0)
    weight = loading / (1 - np.minimum(loading**2, COMMUNALITY))
    size = np.abs(weight).mean()
    return weight / size if size > 1e-9 else np.ones(len(loading))


def association(shares: Array, family: Array) -> Array:
    """Return how much more often than at all judges say class ``k`` where another says ``l``, the log ratio, ``(K, K)``.

    Each class ``l`` has ``K`` pseudo-pairs in which ``k`` is as frequent as at all.

    Args:
        shares: of the labels in the verdicts of each judge on each item, 0 without verdicts, ``(N, J, K)``.
        family: of each judge, ``(J,)``.
    """
    K = shares.shape[2]
    total = shares.sum((0, 1))
    pairs = np.maximum(_over_pairs(shares, family), 0.0)
    share = (total + 1) / (total.sum() + K)
    given = (pairs + K * share) / (pairs.sum(1, keepdims=True) + K)
    return np.asarray(np.log(given / share))


def attenuation(around: Array, asked: Array, family: Array) -> float:
    """Return by how much differences between systems are smaller in the verdicts than in the true labels.

    A verdict follows the true label with a slope, which is less than 1 if the judge errs. The correlation of two judges who err
    independently is the product of their slopes, whose square root is their mean slope (Spearman 1904, The proof and measurement
    of association between two things, American Journal of Psychology 15). Judges whose errors are correlated are corrected less.

    The logarithm of the slope is a mean of that by the correlation and that of :data:`UNKNOWN`, weighted by precision. By the
    delta method the first has half the relative standard error of the correlation, with items as clusters. Where the correlation
    is not told from 0, or negative, the slope is thus near that of :data:`UNKNOWN`: divided by the root of a correlation near 0,
    chance differences would be taken for large ones.

    Args:
        around: shares of the labels in the verdicts of each judge, around the judge's own, 0 without verdicts, ``(N, J, K)``.
        asked: whether the judge gave a verdict, ``(N, J)``.
        family: of each judge, ``(J,)``.

    Returns:
        The slope, between :data:`WEAKEST` and 1; :data:`UNKNOWN` where no two judges saw an item, or one item only.
    """
    pairs = _pairs_by_item(asked[:, :, None].astype(float), family)  # (N,)
    total, items = pairs.sum(), (pairs > 0.5).sum()
    variance = (around**2).sum() / max(asked.sum(), 1)
    if items < 2 or variance <= 0:
        return UNKNOWN
    products = _pairs_by_item(around, family) / variance  # (N,)
    correlation = products.sum() / total
    # Few items that happen to be alike: at least the error of pairs that are independent.
    clustered = ((products - correlation * pairs) ** 2).sum() * items / (items - 1)
    squared_error = max(clustered / total**2, 1 / total)
    correlation = float(np.clip(correlation, 0.0, 1.0))
    if correlation == 0:
        return UNKNOWN
    weight = SPREAD**2 / (SPREAD**2 + squared_error / (2 * correlation) ** 2)
    log_slope = weight * np.log(correlation) / 2 + (1 - weight) * np.log(UNKNOWN)
    return float(max(np.exp(log_slope), WEAKEST))


def _pairs_by_item(values: Array, family: Array) -> Array:
    """Return the sum over pairs of judges, each counted once, of the products of values ``(N, J, m)`` of each item, ``(N,)``.

    Which judges are a pair is as in :func:`_over_pairs`.
    """
    products = (values.sum(1) ** 2).sum(1)
    for own in _units(values, family):
        products = products - (own.sum(1) ** 2).sum(1)
    return np.asarray(products / 2)


def _over_pairs(values: Array, family: Array) -> Array:
    """Return the sum over items and pairs of judges of the products of values ``(N, J, m)``, ``(m, m)``.

    Judges of one family, whose errors are correlated, are no pair if there are several families.
    """
    total = values.sum(1)
    products = total.T @ total
    for own in _units(values, family):
        together = own.sum(1)
        products -= together.T @ together
    return np.asarray(products)


def _units(values: Array, family: Array) -> Iterator[Array]:
    """Return the values of the judges of each family; of each judge where all are of one."""
    unit = family if len(np.unique(family)) > 1 else np.arange(values.shape[1])
    return (values[:, unit == one] for one in np.unique(unit))
