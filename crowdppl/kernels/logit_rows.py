"""The compiled parameter step of confusion matrices on the logit scale: the draws of ``crowdppl.model.logit_rows_draws``.

The parameters of a chain are one vector: prevalence (K), weights of effects (G + 1), mean and precision of the crowd's
competence, the crowd's confusion (K, K), competence (J), preferences (J, K), deviations (J, K, K). Arguments of all functions:

- ``sizes``: J, K, M effects, G + 1 weights, then the weight of each effect (M);
- ``numbers``: mean and standard deviation of the prior of the mean, shape and rate of that of the precision, the prior standard
  deviations of preferences, crowd's confusion and deviations, the concentrations of prevalence and of weights, and the factors
  by which effects multiply probabilities (M, K).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crowdppl.kernels.code_cache import inner
from crowdppl.kernels.logit_rows_crowd import draw_explanation
from crowdppl.kernels.random import fill_dirichlet, fill_normal, uniform
from crowdppl.kernels.small_matrices import factorise, solve_lower, solve_upper

# Where the prior's numbers end.
FIXED = 7


@inner
def sites(parameters: Any, sizes: Any) -> Any:
    """Return views of the parameters: prevalence, weights, mean and precision, D, a, b, d."""
    J, K, G = sizes[0], sizes[1], sizes[3]
    at = K + G + 2
    crowd, competence = at + K * K, at + K * K + J
    deviations = competence + J * K
    return (
        parameters[:K],
        parameters[K : K + G],
        parameters[K + G : at],
        parameters[at:crowd].reshape(K, K),
        parameters[crowd:competence],
        parameters[competence:deviations].reshape(J, K),
        parameters[deviations:].reshape(J, K, K),
    )


@inner
def tabulate(parameters: Any, sizes: Any, numbers: Any, table: Any, prior: Any) -> None:
    """Write probabilities of labels, ``table (J*K, width)`` = (worker and label, state), and of states, ``prior (width,)``."""
    J, K, M, G = sizes[0], sizes[1], sizes[2], sizes[3]
    prevalence, weights, _, D, a, b, d = sites(parameters, sizes)
    factors = numbers[FIXED + K + G :].reshape(M, K)
    effects = np.zeros(G)
    for m in range(M):
        effects[sizes[4 + m]] += 1.0
    for k in range(K):
        for m in range(M):
            prior[k * M + m] = prevalence[k] * weights[sizes[4 + m]] / effects[sizes[4 + m]]
    # Effects lie together in memory, in rows of the table as here, where the processor takes several at once.
    by_label = np.empty((K, M))
    for y in range(K):
        for m in range(M):
            by_label[y, m] = factors[m, y]
    p, by = np.empty((K, K)), np.empty((K, M))
    for j in range(J):
        for k in range(K):
            top = -np.inf
            for y in range(K):
                p[k, y] = b[j, y] + D[k, y] + d[j, k, y] + (a[j] if k == y else 0.0)
                top = max(top, p[k, y])
            for m in range(M):
                by[k, m] = 0.0
            for y in range(K):
                p[k, y] = max(math.exp(p[k, y] - top), 1e-300)
                for m in range(M):
                    by[k, m] += p[k, y] * by_label[y, m]
            for m in range(M):
                by[k, m] = 1.0 / by[k, m]
        for y in range(K):
            for k in range(K):
                for m in range(M):
                    table[j * K + y, k * M + m] = p[k, y] * by_label[y, m] * by[k, m]


@inner
def rooms(work: Any, J: Any, K: Any, M: Any) -> Any:
    """Return views of memory for J K (2 K + 2 M + 1) numbers: labels and logits (J, K, K), effects and totals (J, K, M), tops."""
    one, other = J * K * K, J * K * M
    at = 2 * one + other
    return (
        work[:one].reshape(J, K, K),
        work[one : 2 * one].reshape(J, K, K),
        work[2 * one : at].reshape(J, K, M),
        work[at : at + other].reshape(J, K, M),
        work[at + other : at + other + J * K].reshape(J, K),
    )


@inner
def draw(counts: Any, parameters: Any, sizes: Any, numbers: Any, work: Any, stream: Any) -> None:
    """Draw the parameters given ``counts (J*K + 1, S)``: of labels = (worker and label, state), and of items in the last row.

    ``work`` is room for J K (2 K + 2 M + 1) numbers.
    """
    J, K, M, G = sizes[0], sizes[1], sizes[2], sizes[3]
    prevalence, weights, crowd, D, a, b, d = sites(parameters, sizes)
    factors = numbers[FIXED + K + G :].reshape(M, K)
    labels, logits, effects, totals, tops = rooms(work, J, K, M)
    labels[:] = 0.0
    effects[:] = 0.0
    concentration = np.empty(K + G)
    for n in range(K + G):
        concentration[n] = numbers[FIXED + n]
    for k in range(K):
        for m in range(M):
            concentration[k] += counts[J * K, k * M + m]
            concentration[K + sizes[4 + m]] += counts[J * K, k * M + m]
    for j in range(J):
        for k in range(K):
            for y in range(K):
                for m in range(M):
                    labels[j, k, y] += counts[j * K + y, k * M + m]
                    effects[j, k, m] += counts[j * K + y, k * M + m]
    fill_dirichlet(stream, concentration[:K], prevalence)
    fill_dirichlet(stream, concentration[K:], weights)
    _move_rows(labels, effects, factors, 1.0 / numbers[6] ** 2, D, a, b, d, logits, totals, tops, stream)
    draw_explanation(labels, effects, factors, totals, tops, logits, numbers, crowd, D, a, b, d, stream)


# ---------------------------------------------------------------------- rows


@inner
def _proposal(
    x: Any, mean: Any, certain: Any, n: Any, e: Any, factors: Any, p: Any, totals: Any, centre: Any, factor: Any
) -> Any:
    """Write the proposal of a row at logits ``x (K,)``: its ``centre (K,)`` and Cholesky ``factor (K, K)``.

    Args:
        x: the logits.
        mean: of their prior, ``(K,)``.
        certain: the prior's precision.
        n: the row's labels, ``(K,)``.
        e: its effects, ``(M,)``.
        factors: of the effects, ``(M, K)``.
        p: room, ``(2 K,)``.
        totals: the normaliser of the probabilities under each effect that the row has, ``(M,)``, is written.
        centre: is written.
        factor: is written.

    Returns:
        The log density up to the normalisers under effects, ``-sum e log totals``, and the largest logit.
    """
    K, M = x.shape[0], e.shape[0]
    top = x[0]
    for y in range(1, K):
        top = max(top, x[y])
    density = 0.0
    for y in range(K):
        p[y] = math.exp(x[y] - top)
        off = x[y] - mean[y]
        centre[y] = n[y] - certain * off
        density += n[y] * (x[y] - top) - certain * off * off / 2.0
        for h in range(y):
            factor[y, h] = 0.0
        factor[y, y] = certain
    for m in range(M):
        if e[m] > 0.0:
            total = 0.0
            for y in range(K):
                p[K + y] = p[y] * factors[m, y]
                total += p[K + y]
            totals[m] = total
            by = 1.0 / total
            share = e[m] * by
            for y in range(K):
                expected = share * p[K + y]
                centre[y] -= expected
                factor[y, y] += expected
                expected *= by
                for h in range(y + 1):
                    factor[y, h] -= expected * p[K + h]
    factorise(factor)
    solve_lower(factor, centre)
    solve_upper(factor, centre)
    for y in range(K):
        centre[y] += x[y]
    return density, top


@inner
def _off(to: Any, centre: Any, factor: Any) -> Any:
    """Return the squared distance of ``to`` from the centre of a proposal, by its precision."""
    out = 0.0
    for i in range(to.shape[0]):
        off = (to[i] - centre[i]) / factor[i, i]
        for h in range(i + 1, to.shape[0]):
            off += factor[h, i] * (to[h] - centre[h])
        out += off * off
    return out


@inner
def _move_rows(
    labels: Any,
    effects: Any,
    factors: Any,
    certain: Any,
    D: Any,
    a: Any,
    b: Any,
    d: Any,
    logits: Any,
    totals: Any,
    tops: Any,
    stream: Any,
) -> None:
    """Write new logits of all rows, by a Metropolis-Hastings step each; rows without labels are drawn from their prior.

    ``totals (J, K, M)`` and ``tops (J, K)`` are written as :func:`draw_explanation` takes them.
    """
    J, K, M = labels.shape[0], labels.shape[1], effects.shape[2]
    mean, x, new, noise = np.empty(K), np.empty(K), np.empty(K), np.empty(K)
    p, centre, back, before, after = np.empty(2 * K), np.empty(K), np.empty(K), np.empty(M), np.empty(M)
    factor, back_factor = np.empty((K, K)), np.empty((K, K))
    for j in range(J):
        for k in range(K):
            fill_normal(stream, noise)
            given, squares = 0.0, 0.0
            for y in range(K):
                mean[y] = b[j, y] + D[k, y] + (a[j] if k == y else 0.0)
                x[y] = mean[y] + d[j, k, y]
                given += labels[j, k, y]
                squares += noise[y] * noise[y]
            if given == 0.0:
                tops[j, k] = np.inf
                for y in range(K):
                    logits[j, k, y] = mean[y] + noise[y] / math.sqrt(certain)
                continue
            n, e = labels[j, k], effects[j, k]
            density, top = _proposal(x, mean, certain, n, e, factors, p, before, centre, factor)
            solve_upper(factor, noise)
            for y in range(K):
                new[y] = centre[y] + noise[y]
            ratio, new_top = _proposal(new, mean, certain, n, e, factors, p, after, back, back_factor)
            ratio -= density
            for m in range(M):
                if e[m] > 0.0:
                    ratio += e[m] * math.log(before[m] / after[m])
            determinant = 1.0
            for y in range(K):
                determinant *= factor[y, y] / back_factor[y, y]
            ratio += math.log(determinant) + (squares - _off(x, back, back_factor)) / 2.0
            accepted = math.log(1.0 - uniform(stream)) < ratio
            tops[j, k] = new_top if accepted else top
            for m in range(M):
                totals[j, k, m] = after[m] if accepted else before[m]
            for y in range(K):
                logits[j, k, y] = new[y] if accepted else x[y]
