"""What follows from draws of the parameters, compiled: class probabilities, drawn truths, likelihoods, the quality of workers.

For families of models that have a parameter step in :mod:`crowdppl.kernels.chains`: ``tabulate`` of the family writes the
probabilities of labels by worker and state, and everything else follows from these. The call releases Python's lock: parts of the
draws run in threads.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from crowdppl.kernels.chains import family_module, version
from crowdppl.kernels.code_cache import borrowed, compiled, leaf
from crowdppl.kernels.items import LOST, choose, fill_log_joint, fill_shares_from_logs, weigh
from crowdppl.kernels.random import fill_dirichlet, uniform


@leaf
def _temper(logs: Any, factor: Any, lift: Any, out: Any) -> Any:
    """Write weights by class from logs ``(K,)``, none above 0, divided by a design effect, times ``lift``; return their sum."""
    total = 0.0
    for k in range(logs.shape[0]):
        out[k] = (math.exp(logs[k] / factor) if logs[k] < 0.0 else 1.0) * lift[k]
        total += out[k]
    return total


@leaf
def _add(out: Any, weight: Any, share: Any) -> None:
    """Add a share of weights to ``out (K,)``."""
    for k in range(out.shape[0]):
        out[k] += weight[k] * share


@leaf
def _draw_quality(counts: Any, start: Any, room: Any, stream: Any, confusion: Any, prevalence: Any) -> None:
    """Draw worker quality given drawn truths.

    Args:
        counts: of labels by true label, and of items in the last row, ``(J*K + 1, K)``.
        start: annotations that every worker begins with, in the proportions of the crowd.
        room: memory for ``K (K + 2)`` numbers.
        stream: of random numbers.
        confusion: to be written, ``(J, K, K)``.
        prevalence: likewise, ``(K,)``.
    """
    K = counts.shape[1]
    J, total = counts.shape[0] // K, 0.0
    first, classes, row = room[: K * K].reshape(K, K), room[K * K : K * K + K], room[K * K + K :]
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
                row[y] = first[k, y] + counts[j * K + y, k]
            fill_dirichlet(stream, row[:K], confusion[j, k])
    fill_dirichlet(stream, classes, prevalence)


@leaf
def _read(
    start: Any,
    column: Any,
    known: Any,
    table: Any,
    prior: Any,
    S: Any,
    counts: Any,
    stream: Any,
    rho: Any,
    nodes: Any,
    lift: Any,
    lifted: Any,
    likelihood: Any,
    truth: Any,
    mean: Any,
    published: Any,
    room: Any,
) -> None:
    """Read the items off one draw, and count by their drawn truths; arguments as of :func:`reading`, of one draw.

    ``rho`` is less than 0 for none; ``lifted`` says whether weights of the classes differ from 1;
    ``S`` is the number of states, and ``room`` memory for 2 W + 3 K numbers.
    """
    W, K = table.shape[1], counts.shape[1]
    M, flat, numbers = S // K, table.reshape(-1), counts.reshape(-1)
    some, p, rest = room[:W], room[W : 2 * W], room[2 * W :]
    mass, logs, weight = rest[:K], rest[K : 2 * K], rest[2 * K : 3 * K]
    some[:] = 0.0
    numbers[:] = 0.0
    classes, labels, plain = np.uint64(K), table.shape[0], published if rho >= 0.0 else mean
    for i in range(start.shape[0] - 1):
        first, end, only = start[i], start[i + 1], np.intp(known[i])
        weigh(only, K, S, flat, prior, some, p, column, first, end)
        whole, least, most, unit = 0.0, np.inf, 0.0, 0.0
        for k in range(K):
            total = p[k * M]
            for s in range(k * M + 1, k * M + M):
                total += p[s]
            mass[k] = total
            whole += total
            most = max(most, total)
            least = min(least, total) if only < 0 or k == only else least
        more = max(np.float64(end - first) - 1.0, 0.0)
        tempered, factor = rho >= 0.0 and (more > 0.0 or lifted), 1.0 + more * rho
        # A probability that underflows may matter once it is tempered.
        if whole < LOST or (tempered and least < LOST):
            fill_log_joint(p[:S], prior[:S], only, K, table, column, first, end)
            unit = fill_shares_from_logs(p[:S], mass, weight, logs)
            if unit == -np.inf:  # impossible, as the likelihood says
                likelihood[i], truth[i] = unit, 0
                continue
            whole = 1.0
            for k in range(K):
                logs[k] -= unit
        elif tempered:
            for k in range(K):
                logs[k] = math.log(mass[k] / most) if mass[k] < most else 0.0
        likelihood[i] = math.log(whole) + unit
        _add(plain[i], mass, 1.0 / whole)
        if rho < 0.0:
            state = np.uint64(choose(mass, 0, K, uniform(stream) * whole))
        else:
            total, each = whole, nodes.shape[0]
            if tempered:
                total = _temper(logs, factor, lift, weight)
            else:
                for k in range(K):
                    weight[k] = mass[k]
            if each == 0:
                _add(mean[i], weight, 1.0 / total)
            state = np.uint64(choose(weight, 0, K, uniform(stream) * total))
            for q in range(each):
                total = _temper(logs, 1.0 + more * nodes[q], lift, weight) if tempered else whole
                _add(mean[i], weight, 1.0 / (total * each))
        truth[i] = np.int16(state)
        numbers[labels * K + np.intp(state)] += 1.0
        for n in range(first, end):
            numbers[np.uint64(column[n]) * classes + state] += 1.0


@leaf
def _fill_quality(table: Any, prior: Any, S: Any, confusion: Any, prevalence: Any) -> None:
    """Write confusion matrices ``(J, K, K)``, unless there is no room for them, and prevalence ``(K,)``, by class."""
    K = prevalence.shape[0]
    M = S // K
    for k in range(K):
        prevalence[k] = 0.0
        for s in range(k * M, k * M + M):
            prevalence[k] += prior[s]
    for j in range(confusion.shape[0]):
        for k in range(K):
            for y in range(K):
                total = table[j * K + y, k]
                if M > 1:
                    total = 0.0
                    for s in range(k * M, k * M + M):
                        total += table[j * K + y, s] * prior[s]
                    total /= prevalence[k]
                confusion[j, k, y] = total


# Parameters; rho, nodes, lift, pseudo; S; start, column, known; sizes and numbers of the step; stream, table, prior, counts;
# likelihood, truth, correct, mean, published; confusion and prevalence; those that follow drawn truths.
SIGNATURE = (
    "void(f8[:,::1], f8[::1], f8[:,::1], f8[:,::1], f8, i8, u8[::1], u4[::1], i2[::1], i8[::1], f8[::1], u8[::1], "
    "f8[:,::1], f8[::1], f8[:,::1], f8[:,::1], i2[:,::1], i4[:,::1], f8[:,::1], f8[:,::1], f8[:,:,:,::1], f8[:,::1], "
    "f8[:,:,:,::1], f8[:,::1])"
)


@cache
def reading(family: str) -> Any:
    """Return the compiled readings of a family of models.

    Its arguments, for ``D`` draws, ``N`` items, ``A`` annotations, ``J`` workers, ``K`` classes, ``S`` states:

    - ``parameters (D, P)``;
    - ``rho (D,)``, by which truths are drawn, or ``(0,)`` where annotations count as independent; ``nodes (D, Q)``, equally
      probable values of rho to average probabilities over, ``Q = 0`` for the drawn one; ``lift (D, K)``, weights of the
      classes with rho, ``D = 0`` for none; ``pseudo``, annotations of an average member of the crowd that each worker starts
      with; ``S``;
    - the data, and sizes and numbers of the step, as :func:`crowdppl.kernels.chains.sweeps` takes them;
    - ``stream (4,)`` of random numbers, changed; memory for the ``table (J*K, width)`` and the ``prior (width,)``, both zero from
      ``S`` on, and for ``counts (J*K + 1, K)``;
    - what is written: ``likelihood (D, N)``, the log of the probability of each item's labels; ``truth (D, N)`` int16; ``correct
      (D, J)`` int32, labels of each worker that agree with it;
      ``confusion (D, J, K, K)``, or ``(0, J, K, K)``, and ``prevalence (D, K)`` of the model; the same that follow the drawn
      truths, unless there is no rho; and what is added to: ``mean`` and ``published (N, K)``, sums of class probabilities with
      rho and without.
    """
    module = family_module(family)
    tabulate = module.tabulate

    def run(
        parameters: Any,
        rho: Any,
        nodes: Any,
        lift: Any,
        pseudo: Any,
        S: Any,
        start: Any,
        column: Any,
        known: Any,
        sizes: Any,
        numbers: Any,
        stream: Any,
        table: Any,
        prior: Any,
        counts: Any,
        likelihood: Any,
        truth: Any,
        correct: Any,
        mean: Any,
        published: Any,
        confusion: Any,
        prevalence: Any,
        calibrated: Any,
        calibrated_prevalence: Any,
    ) -> None:
        start, column, known, nodes = borrowed(start), borrowed(column), borrowed(known), borrowed(nodes)
        lift = borrowed(lift)
        sizes, numbers, parameters, stream = borrowed(sizes), borrowed(numbers), borrowed(parameters), borrowed(stream)
        table, prior, counts = borrowed(table), borrowed(prior), borrowed(counts)
        likelihood, truth, correct = borrowed(likelihood), borrowed(truth), borrowed(correct)
        mean, published = borrowed(mean), borrowed(published)
        confusion, prevalence = borrowed(confusion), borrowed(prevalence)
        calibrated, calibrated_prevalence = borrowed(calibrated), borrowed(calibrated_prevalence)
        K, W, weighted, kept = mean.shape[1], table.shape[1], rho.shape[0] > 0, confusion.shape[0] > 0
        own = np.empty(2 * W + 3 * K + K * (K + 2))
        ones, lifted = np.ones(K), lift.shape[0] > 0
        even, room, nothing = borrowed(ones), borrowed(own), confusion.reshape(-1)[:0].reshape(0, K, K)
        for d in range(parameters.shape[0]):
            tabulate(parameters[d], sizes, numbers, table, prior)
            _fill_quality(table, prior, S, confusion[d] if kept else nothing, prevalence[d])
            correlation = rho[d] if weighted else -1.0
            _read(
                start,
                column,
                known,
                table,
                prior,
                S,
                counts,
                stream,
                correlation,
                nodes[d],
                lift[d] if lifted else even,
                lifted,
                likelihood[d],
                truth[d],
                mean,
                published,
                room,
            )
            for j in range(correct.shape[1]):
                correct[d, j] = 0
                for k in range(K):
                    correct[d, j] += np.int32(counts[j * K + k, k])
            if weighted:
                _draw_quality(counts, pseudo, room, stream, calibrated[d], calibrated_prevalence[d])
        own[0] = ones[0] = 0.0  # what is borrowed from them ends before

    run.__qualname__ += f".{family.replace(' ', '_')}.{version(str(module.__file__), __file__)}"
    return compiled(run, SIGNATURE, nogil=True, error_model="numpy")
