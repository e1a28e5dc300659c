"""The compiled parameter step of confusion matrices whose rows have a population: as in ``models/hierarchical.py``.

The parameters of a chain are one vector: prevalence (K), rows of the population (K, K), their strengths (K), and the workers'
confusion matrices (J, K, K). Arguments of all functions:

- ``sizes``: J, K;
- ``numbers``: the concentrations of prevalence (K) and of the population's rows (K, K), shape and rate of the strengths' prior.
"""

from __future__ import annotations

import math
from typing import Any

from crowdppl.kernels.code_cache import leaf
from crowdppl.kernels.random import fill_dirichlet, gamma, log_gamma, uniform

# Strengths below this are indistinguishable.
LEAST_STRENGTH = 1e-6


@leaf
def tabulate(parameters: Any, sizes: Any, numbers: Any, table: Any, prior: Any) -> None:
    """Write probabilities of labels, ``table (J*K, width)`` = (worker and label, state), and of states, ``prior (width,)``."""
    J, K = sizes[0], sizes[1]
    confusion = parameters[K * (K + 2) :]
    for k in range(K):
        prior[k] = parameters[k]
    for j in range(J):
        for k in range(K):
            for y in range(K):
                table[j * K + y, k] = confusion[(j * K + k) * K + y]


@leaf
def _tables(n: Any, concentration: Any, stream: Any) -> Any:
    """Draw the number of tables of ``n`` labels in a cell: each sits at a new one with probability ``c / (c + before)``."""
    tables = 0.0
    for before in range(n):
        tables += uniform(stream) * (concentration + before) < concentration
    return tables


@leaf
def draw(counts: Any, parameters: Any, sizes: Any, numbers: Any, work: Any, stream: Any) -> None:
    """Draw the population with the workers' rows summed out, then the rows; arguments as of the other steps.

    ``work`` is room for K numbers.
    """
    J, K = sizes[0], sizes[1]
    typical, strength = parameters[K : K + K * K], parameters[K + K * K : K * (K + 2)]
    confusion = parameters[K * (K + 2) :]
    shape, rate = numbers[K + K * K], numbers[K + K * K + 1]
    for k in range(K):
        work[k] = numbers[k] + counts[J * K, k]
    fill_dirichlet(stream, work, parameters[:K])
    for k in range(K):
        row, logs, total = typical[k * K : k * K + K], 0.0, 0.0
        for y in range(K):
            work[y] = numbers[K + k * K + y]
        for j in range(J):
            given = 0.0
            for y in range(K):
                n = counts[j * K + y, k]
                given += n
                tables = _tables(int(n), strength[k] * row[y], stream)
                work[y] += tables
                total += tables
            if given > 0.0:  # the log of a variable Beta(strength, labels)
                log_first = log_gamma(stream, strength[k])
                logs += log_first - math.log(math.exp(log_first) + gamma(stream, given))
        fill_dirichlet(stream, work, row)
        strength[k] = max(gamma(stream, shape + total) / (rate - logs), LEAST_STRENGTH)
        for j in range(J):
            for y in range(K):
                work[y] = strength[k] * row[y] + counts[j * K + y, k]
            at = (j * K + k) * K
            fill_dirichlet(stream, work, confusion[at : at + K])
