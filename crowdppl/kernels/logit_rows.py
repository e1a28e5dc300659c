"""The compiled parameter step of confusion matrices on the logit scale: the same steps as ``crowdppl.model.logit_rows``.

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
from crowdppl.kernels.random import fill_dirichlet, fill_normal, gamma, normal, uniform
from crowdppl.kernels.small_matrices import draw_normal, factorise, solve_lower, solve_upper

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
def draw(counts: Any, parameters: Any, sizes: Any, numbers: Any, work: Any, stream: Any) -> None:
    """Draw the parameters given ``counts (J*K + 1, S)``: of labels = (worker and label, state), and of items in the last row.

    ``work`` is room for J K (2 K + M) numbers.
    """
    J, K, M, G = sizes[0], sizes[1], sizes[2], sizes[3]
    prevalence, weights, crowd, D, a, b, d = sites(parameters, sizes)
    factors = numbers[FIXED + K + G :].reshape(M, K)
    cells = J * K * K
    labels, logits = work[:cells].reshape(J, K, K), work[cells : 2 * cells].reshape(J, K, K)
    effects = work[2 * cells : 2 * cells + J * K * M].reshape(J, K, M)
    for n in range(2 * cells + J * K * M):
        work[n] = 0.0
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
    _move_rows(labels, effects, factors, 1.0 / numbers[6] ** 2, D, a, b, d, logits, stream)
    _draw_explained(logits, numbers, crowd, D, a, b, stream)
    for j in range(J):
        for k in range(K):
            for y in range(K):
                d[j, k, y] = logits[j, k, y] - b[j, y] - D[k, y] - (a[j] if k == y else 0.0)
    _move_competence(labels, effects, factors, crowd, a, logits, stream)
    _draw_crowd(a, numbers, crowd, stream)


@inner
def _draw_crowd(a: Any, numbers: Any, crowd: Any, stream: Any) -> None:
    """Draw mean and precision of the competence given all workers'."""
    J, before = a.shape[0], 1.0 / numbers[1] ** 2
    certain = J * crowd[1] + before
    total = before * numbers[0]
    for j in range(J):
        total += crowd[1] * a[j]
    crowd[0] = total / certain + normal(stream) / math.sqrt(certain)
    rate = numbers[3]
    for j in range(J):
        rate += (a[j] - crowd[0]) ** 2 / 2.0
    crowd[1] = gamma(stream, numbers[2] + J / 2.0) / rate


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
        The log density up to the normalisers under effects, ``-sum e log totals``.
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
    return density


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
    stream: Any,
) -> None:
    """Write new logits of all rows, by a Metropolis-Hastings step each; rows without labels are drawn from their prior."""
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
                for y in range(K):
                    logits[j, k, y] = mean[y] + noise[y] / math.sqrt(certain)
                continue
            n, e = labels[j, k], effects[j, k]
            density = _proposal(x, mean, certain, n, e, factors, p, before, centre, factor)
            solve_upper(factor, noise)
            for y in range(K):
                new[y] = centre[y] + noise[y]
            ratio = _proposal(new, mean, certain, n, e, factors, p, after, back, back_factor) - density
            for m in range(M):
                if e[m] > 0.0:
                    ratio += e[m] * math.log(before[m] / after[m])
            determinant = 1.0
            for y in range(K):
                determinant *= factor[y, y] / back_factor[y, y]
            ratio += math.log(determinant) + (squares - _off(x, back, back_factor)) / 2.0
            accepted = math.log(1.0 - uniform(stream)) < ratio
            for y in range(K):
                logits[j, k, y] = new[y] if accepted else x[y]


# ---------------------------------------------------------------------- what explains the logits


@inner
def _draw_explained(logits: Any, numbers: Any, crowd: Any, D: Any, a: Any, b: Any, stream: Any) -> None:
    """Draw the crowd's confusion and mean with the workers integrated out, then competence and preferences."""
    J, K = logits.shape[0], logits.shape[1]
    preference, common, deviation = 1.0 / numbers[4] ** 2, 1.0 / numbers[5] ** 2, 1.0 / numbers[6] ** 2
    before, cells = 1.0 / numbers[1] ** 2, K * K
    # The precision of (a_j, b_j) given a worker's logits: the same for all.
    own = np.zeros((K + 1, K + 1))
    own[0, 0] = K * deviation + crowd[1]
    for y in range(K):
        own[1 + y, 0] = deviation
        own[1 + y, 1 + y] = K * deviation + preference
    factorise(own)
    # The precision of a worker's logits around the crowd's, with (a_j, b_j) integrated out: deviation I - half^T half.
    half = np.zeros((cells, K + 1))
    for k in range(K):
        for y in range(K):
            row = half[k * K + y]
            row[0] = deviation if k == y else 0.0
            row[1 + y] = deviation
            solve_lower(own, row)
    total, given = np.zeros(cells), np.zeros(cells + 1)
    for j in range(J):
        for k in range(K):
            for y in range(K):
                total[k * K + y] += logits[j, k, y]
    # Of (D, mu), to which mu adds on the diagonal.
    both = np.zeros((cells + 1, cells + 1))
    for r in range(cells):
        for c in range(cells):
            around = deviation if r == c else 0.0
            for n in range(K + 1):
                around -= half[r, n] * half[c, n]
            given[r] += around * total[c]
            if c <= r:
                both[r, c] = J * around
            if r % (K + 1) == 0:
                both[cells, c] += J * around
        both[r, r] += common
    for r in range(0, cells, K + 1):
        both[cells, cells] += both[cells, r]
        given[cells] += given[r]
    both[cells, cells] += before
    given[cells] += before * numbers[0]
    factorise(both)
    draw_normal(both, given, np.empty(cells + 1), stream)
    for k in range(K):
        for y in range(K):
            D[k, y] = given[k * K + y]
    crowd[0] = given[cells]
    one, noise = np.empty(K + 1), np.empty(K + 1)
    for j in range(J):
        for n in range(K + 1):
            one[n] = crowd[1] * crowd[0] if n == 0 else 0.0
        for k in range(K):
            one[0] += deviation * (logits[j, k, k] - D[k, k])
            for y in range(K):
                one[1 + y] += deviation * (logits[j, k, y] - D[k, y])
        draw_normal(own, one, noise, stream)
        a[j] = one[0]
        for y in range(K):
            b[j, y] = one[1 + y]


@inner
def _competence(
    a: Any, known: Any, rest: Any, labels: Any, effects: Any, factors: Any, crowd: Any, p: Any, totals: Any
) -> Any:
    """Return the log density of a worker's competence up to the normalisers, and mean and precision of the proposal.

    ``rest (K, K)`` are the logits at competence ``known``; ``p (K,)`` is room. The normalisers under each effect that a row has
    are written to ``totals (K, M)``.
    """
    K, M = labels.shape[0], effects.shape[1]
    slope, curve = -crowd[1] * (a - crowd[0]), crowd[1]
    density = -crowd[1] * (a - crowd[0]) ** 2 / 2.0
    for k in range(K):
        given, top = 0.0, -np.inf
        for y in range(K):
            given += labels[k, y]
            p[y] = rest[k, y] + (a - known if k == y else 0.0)
            top = max(top, p[y])
        if given == 0.0:
            continue
        for y in range(K):
            density += labels[k, y] * (p[y] - top)
            p[y] = math.exp(p[y] - top)
        slope += labels[k, k]
        for m in range(M):
            if effects[k, m] > 0.0:
                total = 0.0
                for y in range(K):
                    total += p[y] * factors[m, y]
                totals[k, m] = total
                correct = p[k] * factors[m, k] / total
                slope -= effects[k, m] * correct
                curve += effects[k, m] * correct * (1.0 - correct)
    return density, a + slope / curve, curve


@inner
def _move_competence(labels: Any, effects: Any, factors: Any, crowd: Any, a: Any, logits: Any, stream: Any) -> None:
    """Move each worker's competence with the deviations held, by a Metropolis-Hastings step."""
    K, M = labels.shape[1], effects.shape[2]
    p, before, after = np.empty(K), np.empty((K, M)), np.empty((K, M))
    for j in range(a.shape[0]):
        n, e, rest, old = labels[j], effects[j], logits[j], a[j]
        density, centre, curve = _competence(old, old, rest, n, e, factors, crowd, p, before)
        noise = normal(stream)
        new = centre + noise / math.sqrt(curve)
        new_density, back, back_curve = _competence(new, old, rest, n, e, factors, crowd, p, after)
        ratio = new_density - density
        for k in range(K):
            for m in range(M):
                if e[k, m] > 0.0:
                    ratio += e[k, m] * math.log(before[k, m] / after[k, m])
        ratio += (math.log(back_curve / curve) + noise * noise - back_curve * (old - back) ** 2) / 2.0
        if math.log(1.0 - uniform(stream)) < ratio:
            a[j] = new
