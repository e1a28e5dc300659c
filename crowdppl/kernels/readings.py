"""What follows from draws of the parameters, compiled: class probabilities, drawn truths, likelihoods, the quality of workers.

For families of models that have a parameter step in :mod:`crowdppl.kernels.chains`: ``tabulate`` of the family writes the
probabilities of labels by worker and state, and everything else follows from these. The call releases Python's lock: parts of the
draws run in threads.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from crowdppl.kernels import worker_quality
from crowdppl.kernels.chains import family_module, version
from crowdppl.kernels.code_cache import borrowed, compiled, leaf
from crowdppl.kernels.elementary import exp, log
from crowdppl.kernels.items import LOST, choose, fill_log_joint, fill_shares_from_logs, weigh
from crowdppl.kernels.random import uniform
from crowdppl.kernels.worker_quality import draw_quality, fill_quality

# Items that are read together.
BLOCK = 64


@leaf
def _fill_masses(
    start: Any, column: Any, known: Any, table: Any, prior: Any, S: Any, begun: Any, room: Any, mass: Any, sums: Any
) -> None:
    """Write weights of the classes of the items from ``begun`` on, ``mass (K, B)``, and sums of them, ``(4, B)``.

    These are the sum over all classes, the largest weight, the least of a possible class, and how many annotations the item has
    beyond the first. ``room`` is memory for 2 W numbers. After the last item it is repeated.
    """
    K, W = mass.shape[0], table.shape[1]
    M, flat, some, p = S // K, table.reshape(-1), room[:W], room[W : 2 * W]
    some[:] = 0.0
    for b in range(mass.shape[1]):
        i = min(begun + b, known.shape[0] - 1)
        first, end, only = start[i], start[i + 1], np.intp(known[i])
        weigh(only, K, S, flat, prior, some, p, column, first, end)
        whole, least, most = 0.0, np.inf, 0.0
        for k in range(K):
            total = p[k * M]
            for s in range(k * M + 1, k * M + M):
                total += p[s]
            mass[k, b] = total
            whole += total
            most = max(most, total)
            least = min(least, total) if only < 0 or k == only else least
        sums[0, b], sums[1, b], sums[2, b] = whole, most, least
        sums[3, b] = max(np.float64(end - first) - 1.0, 0.0)


@leaf
def _fill_logs(mass: Any, sums: Any, tempered: Any, logs: Any, likelihood: Any) -> None:
    """Write logarithms of sums ``likelihood (B,)``, and of weights divided by the largest, ``logs (K, B)``, if ``tempered``."""
    for b in range(likelihood.shape[0]):
        likelihood[b] = log(max(sums[0, b], LOST))
    if tempered:
        for k in range(mass.shape[0]):
            for b in range(mass.shape[1]):
                value = log(max(mass[k, b], LOST) / max(sums[1, b], LOST))
                logs[k, b] = value if mass[k, b] > 0.0 else -np.inf


@leaf
def _replace_lost(
    start: Any,
    column: Any,
    known: Any,
    table: Any,
    prior: Any,
    S: Any,
    begun: Any,
    tempered: Any,
    room: Any,
    mass: Any,
    sums: Any,
    logs: Any,
    likelihood: Any,
) -> None:
    """Compute from logarithms what :func:`_fill_masses` and :func:`_fill_logs` write of items whose products have lost digits.

    Of an item whose labels are impossible the sum is 0. ``room`` is memory for W + 3 K numbers.
    """
    K = mass.shape[0]
    p, share, weight, own = room[:S], room[S : S + K], room[S + K : S + 2 * K], room[S + 2 * K : S + 3 * K]
    for b in range(mass.shape[1]):
        # A probability that underflows may matter once it is tempered.
        if not (sums[0, b] < LOST or (tempered and sums[2, b] < LOST)):
            continue
        i = min(begun + b, known.shape[0] - 1)
        fill_log_joint(p, prior[:S], np.intp(known[i]), K, table, column, start[i], start[i + 1])
        likelihood[b] = fill_shares_from_logs(p, share, weight, own)
        sums[0, b] = 1.0 if likelihood[b] > -np.inf else 0.0
        for k in range(K):
            mass[k, b], logs[k, b] = share[k], own[k] - likelihood[b]


@leaf
def _fill_weights(logs: Any, rho: Any, lift: Any, sums: Any, weight: Any, total: Any) -> None:
    """Write weights by class from ``logs (K, B)`` divided by the design effect, times ``lift``; and their sums ``total (B,)``."""
    for b in range(total.shape[0]):
        total[b] = 0.0
    for k in range(logs.shape[0]):
        for b in range(total.shape[0]):
            value = exp(logs[k, b] / (1.0 + sums[3, b] * rho)) * lift[k]
            value = value if logs[k, b] > -np.inf else 0.0
            weight[k, b] = value
            total[b] += value


@leaf
def _add(out: Any, begun: Any, count: Any, weight: Any, total: Any, share: Any) -> None:
    """Add a share of ``weight (K, B)``, divided by its sums, to ``count`` rows of ``out (N, K)`` from ``begun`` on."""
    for b in range(count):
        by = share / total[b] if total[b] > 0.0 else 0.0
        for k in range(weight.shape[0]):
            out[begun + b, k] += weight[k, b] * by


@leaf
def _draw_truths(
    start: Any, column: Any, begun: Any, stream: Any, weight: Any, total: Any, one: Any, counts: Any, truth: Any
) -> None:
    """Draw classes of the items from ``begun`` on, ``truth (B,)``, and count their annotations; ``one (K,)`` is room."""
    K, numbers = counts.shape[1], counts.reshape(-1)
    classes, labels = np.uint64(K), counts.shape[0] - 1
    for b in range(truth.shape[0]):
        if not total[b] > 0.0:  # impossible, as the likelihood says
            truth[b] = 0
            continue
        for k in range(K):
            one[k] = weight[k, b]
        state = np.uint64(choose(one, 0, K, uniform(stream) * total[b]))
        truth[b] = np.int16(state)
        numbers[labels * K + np.intp(state)] += 1.0
        for n in range(start[begun + b], start[begun + b + 1]):
            numbers[np.uint64(column[n]) * classes + state] += 1.0


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
    likelihood: Any,
    truth: Any,
    mean: Any,
    published: Any,
    room: Any,
) -> None:
    """Read the items off one draw, some at a time, and count by their drawn truths; arguments as of :func:`reading`, of one draw.

    ``rho`` is less than 0 for none; ``S`` is the number of states, and ``room`` memory for 2 W + 4 K + (3 K + 6) BLOCK numbers.
    """
    W, K = table.shape[1], counts.shape[1]
    tempered, each, N = rho >= 0.0, nodes.shape[0], start.shape[0] - 1
    own, rest, block = room[: 2 * W + 4 * K], room[2 * W + 4 * K :], K * BLOCK
    mass, logs = rest[:block].reshape(K, BLOCK), rest[block : 2 * block].reshape(K, BLOCK)
    weight, rest = rest[2 * block : 3 * block].reshape(K, BLOCK), rest[3 * block :]
    sums, total, logarithm = (
        rest[: 4 * BLOCK].reshape(4, BLOCK),
        rest[4 * BLOCK : 5 * BLOCK],
        rest[5 * BLOCK : 6 * BLOCK],
    )
    counts[:] = 0.0
    for begun in range(0, N, BLOCK):
        count = min(BLOCK, N - begun)
        _fill_masses(start, column, known, table, prior, S, begun, own, mass, sums)
        _fill_logs(mass, sums, tempered, logs, logarithm)
        _replace_lost(start, column, known, table, prior, S, begun, tempered, own, mass, sums, logs, logarithm)
        for b in range(count):
            likelihood[begun + b] = logarithm[b]
        places = truth[begun : begun + count]
        if not tempered:
            _add(mean, begun, count, mass, sums[0], 1.0)
            _draw_truths(start, column, begun, stream, mass, sums[0], own[:K], counts, places)
            continue
        _add(published, begun, count, mass, sums[0], 1.0)
        _fill_weights(logs, rho, lift, sums, weight, total)
        _draw_truths(start, column, begun, stream, weight, total, own[:K], counts, places)
        if each == 0:
            _add(mean, begun, count, weight, total, 1.0)
        for q in range(each):
            _fill_weights(logs, nodes[q], lift, sums, weight, total)
            _add(mean, begun, count, weight, total, 1.0 / each)


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
        own = np.empty(max(2 * W + 4 * K + (3 * K + 6) * BLOCK, K * (4 * K + 1)))
        ones = np.ones(K)
        even, room, nothing = borrowed(ones), borrowed(own), confusion.reshape(-1)[:0].reshape(0, K, K)
        for d in range(parameters.shape[0]):
            tabulate(parameters[d], sizes, numbers, table, prior)
            fill_quality(table, prior, S, room[:S], confusion[d] if kept else nothing, prevalence[d])
            correlation = rho[d] if weighted else -1.0
            lifted = lift[d] if lift.shape[0] > 0 else even
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
                draw_quality(counts, pseudo, room, stream, calibrated[d], calibrated_prevalence[d])
        own[0] = ones[0] = 0.0  # what is borrowed from them ends before

    run.__qualname__ += (
        f".{family.replace(' ', '_')}.{version(str(module.__file__), str(worker_quality.__file__), __file__)}"
    )
    return compiled(run, SIGNATURE, nogil=True, error_model="numpy")
