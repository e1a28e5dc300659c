"""What follows from draws of the parameters, compiled: class probabilities, drawn truths, likelihoods, the quality of workers.

For families of models that have a parameter step in :mod:`crowdppl.kernels.chains`: ``tabulate`` of the family writes the
probabilities of labels by worker and state, and everything else follows from these. The call releases Python's lock: parts of the
draws run in threads.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from crowdppl.kernels.chains import LOST, choose, family_module, fill_log_joint, fill_shares_from_logs, version
from crowdppl.kernels.code_cache import compiled, inner
from crowdppl.kernels.random import fill_dirichlet, uniform


@inner
def _fill_item(
    i: Any,
    start: Any,
    column: Any,
    known: Any,
    table: Any,
    prior: Any,
    tempered: Any,
    p: Any,
    share: Any,
    mass: Any,
    logs: Any,
) -> Any:
    """Write the probabilities of the classes of an item and its labels, divided by the largest: ``share (K,)``.

    Products are replaced by sums of logarithms where they lose digits. If the item is tempered, classes of little probability
    count, and ``logs (K,)`` are written, the logarithms of the shares. ``p (S,)`` and ``mass (K,)`` are room.

    Returns:
        The logarithm of the largest: minus infinity if no class is possible.
    """
    S, K = p.shape[0], share.shape[0]
    M, first, end = S // K, start[i], start[i + 1]
    for s in range(S):
        p[s] = prior[s]
    for n in range(first, end):
        row = column[n]
        for s in range(S):
            p[s] *= table[row, s]
    most, least = 0.0, np.inf
    for k in range(K):
        share[k] = 0.0
        if known[i] < 0 or known[i] == k:
            for s in range(k * M, k * M + M):
                share[k] += p[s]
            most, least = max(most, share[k]), min(least, share[k])
    if most >= LOST and (least >= LOST or not tempered):
        for k in range(K):
            share[k] /= most
            if tempered:
                logs[k] = math.log(share[k]) if 0.0 < share[k] < 1.0 else 0.0 if share[k] > 0.0 else -np.inf
        return math.log(most)
    fill_log_joint(p, prior, known[i], K, table, column, first, end)
    fill_shares_from_logs(p, share, mass, logs)
    highest = -np.inf
    for k in range(K):
        highest = max(highest, logs[k])
    if highest > -np.inf:
        for k in range(K):
            logs[k] -= highest
            share[k] = math.exp(logs[k])
    return highest


@inner
def _fill_tempered(logs: Any, factor: Any, out: Any) -> Any:
    """Write ``exp(logs / factor)`` by class, and return the sum."""
    total, by = 0.0, 1.0 / factor
    for k in range(logs.shape[0]):
        out[k] = math.exp(logs[k] * by) if logs[k] < 0.0 else 1.0
        total += out[k]
    return total


@inner
def _read_items(
    start: Any,
    column: Any,
    known: Any,
    table: Any,
    prior: Any,
    rho: Any,
    nodes: Any,
    stream: Any,
    likelihood: Any,
    truth: Any,
    mean: Any,
    published: Any,
) -> None:
    """Read the items off one draw: ``rho`` of the draw, or less than 0 for none, and ``nodes (Q,)`` to average over, if any."""
    N, K = truth.shape[0], mean.shape[1]
    p, share, mass, logs = np.empty(prior.shape[0]), np.empty(K), np.empty(K), np.empty(K)
    for i in range(N):
        more = max(start[i + 1] - start[i] - 1, 0)
        tempered = rho >= 0.0 and more > 0
        top = _fill_item(i, start, column, known, table, prior, tempered, p, share, mass, logs)
        if top == -np.inf:  # impossible, as the likelihood says
            likelihood[i], truth[i] = top, 0
            continue
        total = 0.0
        for k in range(K):
            total += share[k]
        likelihood[i] = top + math.log(total)
        for k in range(K):
            published[i, k] += share[k] / total
        if tempered:
            total = _fill_tempered(logs, 1.0 + more * rho, share)
        truth[i] = choose(share, 0, K, uniform(stream) * total)
        if nodes.shape[0] == 0 or not tempered:
            for k in range(K):
                mean[i, k] += share[k] / total
        else:
            for q in range(nodes.shape[0]):
                total = _fill_tempered(logs, 1.0 + more * nodes[q], share) * nodes.shape[0]
                for k in range(K):
                    mean[i, k] += share[k] / total


@inner
def _fill_quality(table: Any, prior: Any, confusion: Any, prevalence: Any) -> None:
    """Write confusion matrices ``(J, K, K)`` and prevalence ``(K,)``, summed over the states of each class."""
    J, K = confusion.shape[0], confusion.shape[1]
    M = prior.shape[0] // K
    for k in range(K):
        prevalence[k] = 0.0
        for s in range(k * M, k * M + M):
            prevalence[k] += prior[s]
    for j in range(J):
        for k in range(K):
            for y in range(K):
                total = 0.0
                for s in range(k * M, k * M + M):
                    total += table[j * K + y, s] * prior[s]
                confusion[j, k, y] = total / prevalence[k]


@inner
def _draw_quality(
    start: Any,
    column: Any,
    worker: Any,
    truth: Any,
    pseudo: Any,
    stream: Any,
    confusion: Any,
    prevalence: Any,
) -> None:
    """Draw confusion matrices and prevalence given truths; every worker starts with ``pseudo`` annotations of the crowd's."""
    N, J, K = truth.shape[0], confusion.shape[0], confusion.shape[1]
    classes, crowd = np.ones(K), np.zeros((K, K))
    for j in range(J):
        for k in range(K):
            for y in range(K):
                confusion[j, k, y] = 0.0
    for i in range(N):
        k = truth[i]
        classes[k] += 1.0
        for n in range(start[i], start[i + 1]):
            confusion[worker[n], k, column[n] - worker[n] * K] += 1.0
    for j in range(J):
        for k in range(K):
            for y in range(K):
                crowd[k, y] += confusion[j, k, y]
    items = 0.0
    for k in range(K):
        items += classes[k]
    for k in range(K):
        total = 0.0
        for y in range(K):
            # Pseudo-counts for the correct label and for all labels: no row is empty.
            crowd[k, y] += 1.0 / K + (1.0 if k == y else 0.0)
            total += crowd[k, y]
        for y in range(K):
            crowd[k, y] *= pseudo * classes[k] / (items * total)
    concentration = np.empty(K)
    for j in range(J):
        for k in range(K):
            for y in range(K):
                concentration[y] = confusion[j, k, y] + crowd[k, y]
            fill_dirichlet(stream, concentration, confusion[j, k])
    fill_dirichlet(stream, classes, prevalence)


# Parameters; rho, nodes, pseudo; start, column, worker, known; sizes and numbers of the step; stream, table, prior; likelihood,
# truth, mean, published; confusion and prevalence; those that follow drawn truths.
SIGNATURE = (
    "void(f8[:,::1], f8[::1], f8[:,::1], f8, i8[::1], i4[::1], i4[::1], i2[::1], i8[::1], f8[::1], u8[::1], f8[:,::1], f8[::1], "
    "f8[:,::1], i2[:,::1], f8[:,::1], f8[:,::1], f8[:,:,:,::1], f8[:,::1], f8[:,:,:,::1], f8[:,::1])"
)


@cache
def reading(family: str) -> Any:
    """Return the compiled readings of a family of models.

    Its arguments, for ``D`` draws, ``N`` items, ``A`` annotations, ``J`` workers, ``K`` classes, ``S`` states:

    - ``parameters (D, P)``;
    - ``rho (D,)``, by which truths are drawn, or ``(0,)`` where annotations count as independent; ``nodes (D, Q)``, equally
      probable values of rho to average probabilities over, ``Q = 0`` for the drawn one; ``pseudo``, annotations of an average
      member of the crowd that each worker starts with;
    - the data, and sizes and numbers of the step, as :func:`crowdppl.kernels.chains.sweeps` takes them;
    - ``stream (4,)`` of random numbers, changed; memory for the ``table (J*K, S)`` and the ``prior (S,)``;
    - what is written: ``likelihood (D, N)``, the log of the probability of each item's labels; ``truth (D, N)`` int16;
      ``confusion (D, J, K, K)`` and ``prevalence (D, K)`` of the model; the same that follow the drawn truths, unless there is no
      rho; and what is added to: ``mean`` and ``published (N, K)``, sums of class probabilities with rho and without.
    """
    module = family_module(family)
    tabulate = module.tabulate

    def run(
        parameters: Any,
        rho: Any,
        nodes: Any,
        pseudo: Any,
        start: Any,
        column: Any,
        worker: Any,
        known: Any,
        sizes: Any,
        numbers: Any,
        stream: Any,
        table: Any,
        prior: Any,
        likelihood: Any,
        truth: Any,
        mean: Any,
        published: Any,
        confusion: Any,
        prevalence: Any,
        calibrated: Any,
        calibrated_prevalence: Any,
    ) -> None:
        weighted = rho.shape[0] > 0
        for d in range(parameters.shape[0]):
            tabulate(parameters[d], sizes, numbers, table, prior)
            _fill_quality(table, prior, confusion[d], prevalence[d])
            own = rho[d] if weighted else -1.0
            _read_items(
                start, column, known, table, prior, own, nodes[d], stream, likelihood[d], truth[d], mean, published
            )
            if weighted:
                rows, share = calibrated[d], calibrated_prevalence[d]
                _draw_quality(start, column, worker, truth[d], pseudo, stream, rows, share)

    run.__qualname__ += f".{family.replace(' ', '_')}.{version(str(module.__file__), str(Path(__file__)))}"
    return compiled(run, SIGNATURE, nogil=True, error_model="numpy")
