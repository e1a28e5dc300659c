"""The quality of workers in compiled readings: confusion matrices of a table, and those drawn given true labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdppl.kernels.code_cache import leaf
from crowdppl.kernels.elementary import exp, log
from crowdppl.kernels.random import LEAST, fill_dirichlet, gamma_from_one, uniform


@leaf
def fill_quality(table: Any, prior: Any, S: Any, share: Any, confusion: Any, prevalence: Any) -> None:
    """Write confusion matrices ``(J, K, K)``, unless there is no room for them, and prevalence ``(K,)``, by class.

    ``share (S,)`` is room.
    """
    K = prevalence.shape[0]
    M = S // K
    for k in range(K):
        prevalence[k] = 0.0
        for s in range(k * M, k * M + M):
            prevalence[k] += prior[s]
        for s in range(k * M, k * M + M):
            share[s] = prior[s] / prevalence[k]
    for j in range(confusion.shape[0]):
        for y in range(K):
            row = table[j * K + y]  # lies together in memory
            for k in range(K):
                total = row[k]
                if M > 1:
                    total = 0.0
                    for s in range(k * M, k * M + M):
                        total += row[s] * share[s]
                confusion[j, k, y] = total


@leaf
def _draw_rows(stream: Any, shapes: Any, factors: Any, draws: Any, out: Any) -> None:
    """Draw rows ``out (K, K)`` from Dirichlet distributions of concentrations ``shapes (K K,)``; no probability is 0.

    With the random numbers of :func:`crowdppl.kernels.random.fill_dirichlet`, in its order, and logarithms and powers of all rows
    together. ``factors`` and ``draws (K K,)`` are room.
    """
    K = out.shape[0]
    for n in range(shapes.shape[0]):
        small = shapes[n] < 1.0
        factors[n] = 1.0 - uniform(stream) if small else 1.0
        draws[n] = gamma_from_one(stream, shapes[n] + 1.0 if small else shapes[n])
    for n in range(shapes.shape[0]):  # logarithms: gamma variables of small shapes may underflow
        draws[n] = log(draws[n]) + log(factors[n]) / shapes[n]
    for k in range(K):
        row, top, total = draws[k * K : k * K + K], -np.inf, 0.0
        for y in range(K):
            top = max(top, row[y])
        for y in range(K):
            row[y] = exp(row[y] - top)
            total += row[y]
        by = 1.0 / total
        for y in range(K):
            out[k, y] = max(row[y] * by, LEAST)


@leaf
def draw_quality(counts: Any, start: Any, room: Any, stream: Any, confusion: Any, prevalence: Any) -> None:
    """Draw worker quality given drawn truths.

    Args:
        counts: of labels by true label, and of items in the last row, ``(J*K + 1, K)``.
        start: annotations that every worker begins with, in the proportions of the crowd.
        room: memory for ``K (4 K + 1)`` numbers.
        stream: of random numbers.
        confusion: to be written, ``(J, K, K)``.
        prevalence: likewise, ``(K,)``.
    """
    K = counts.shape[1]
    J, total, square = counts.shape[0] // K, 0.0, K * K
    first, classes, rest = room[:square].reshape(K, K), room[square : square + K], room[square + K :]
    shapes, factors, draws = rest[:square], rest[square : 2 * square], rest[2 * square : 3 * square]
    for k in range(K):
        classes[k] = 1.0 + counts[J * K, k]
        total += classes[k]
        for y in range(K):
            first[k, y] = 1.0 / K + (1.0 if k == y else 0.0)
    for j in range(J):
        for y in range(K):
            for k in range(K):
                first[k, y] += counts[j * K + y, k]
    for k in range(K):
        whole = 0.0
        for y in range(K):
            whole += first[k, y]
        for y in range(K):
            first[k, y] *= start * classes[k] / total / whole
    for j in range(J):
        for k in range(K):
            for y in range(K):
                shapes[k * K + y] = first[k, y] + counts[j * K + y, k]
        _draw_rows(stream, shapes, factors, draws, confusion[j])
    fill_dirichlet(stream, classes, prevalence)
