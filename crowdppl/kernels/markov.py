"""True labels that form Markov chains: forward-backward over sequences of unequal length, and paths drawn from them.

Compiled for the CPU in float64; :mod:`crowdppl.model.chains` has the same in torch. Items of one sequence follow each other.
Probabilities are scaled at every item; a sequence whose probabilities underflow is done again with logarithms.

L. R. Rabiner (1989), A tutorial on hidden Markov models and selected applications in speech recognition, Proceedings of the IEEE
77(2); paths: S. L. Scott (2002), Bayesian methods for hidden Markov models, JASA 97(457).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from crowdppl.kernels.code_cache import borrowed, compiled, inner

# First item of each sequence, and the end of the last; log-likelihoods; logs of start and transitions; log_likelihood and
# probabilities, written; pairs and starts, added to.
SMOOTH = "void(i8[::1], f8[:,::1], f8[::1], f8[:,::1], f8[::1], f8[:,::1], f8[:,::1], f8[::1])"
# The same up to the logs; uniform numbers; paths, written.
DRAW = "void(i8[::1], f8[:,::1], f8[::1], f8[:,::1], f8[:,::1], i8[:,::1])"
# The same up to the logs; spans, by first item; whether a state begins a span of a type, and continues one; result, written.
SPAN = "void(i8[::1], f8[:,::1], f8[::1], f8[:,::1], i8[:,::1], b1[:,::1], b1[:,::1], f8[::1])"


def _filter(
    begin: Any, stop: Any, logs: Any, start: Any, moves: Any, log_likelihood: Any, alpha: Any, like: Any
) -> Any:
    """Filter a sequence forward; return whether nothing underflowed.

    Written are ``log_likelihood``, the log-probability of an item's labels given those before, ``alpha``, the probabilities of
    its states given all up to its own, and ``like``, likelihoods relative to the largest, divided by the probability of the
    labels on this scale.
    """
    S = start.shape[0]
    for i in range(begin, stop):
        top = -math.inf
        for s in range(S):
            top = max(top, logs[i, s])
        if top == -math.inf:
            return False
        now, before = alpha[i], alpha[i - 1]
        for s in range(S):
            now[s] = start[s] if i == begin else 0.0
        if i > begin:
            for r in range(S):
                mass = before[r]
                for s in range(S):
                    now[s] += mass * moves[r, s]
        total = 0.0
        for s in range(S):
            like[i, s] = math.exp(logs[i, s] - top)
            now[s] *= like[i, s]
            total += now[s]
        if not total > 1e-280:
            return False
        for s in range(S):
            alpha[i, s] /= total
            like[i, s] /= total
        log_likelihood[i] = math.log(total) + top
    return True


def _log_sum(values: Any) -> Any:
    top = -math.inf
    for value in values:
        top = max(top, value)
    if top == -math.inf:
        return top
    total = 0.0
    for value in values:
        total += math.exp(value - top)
    return math.log(total) + top


def _log_filter(begin: Any, stop: Any, logs: Any, start: Any, moves: Any, log_likelihood: Any, alpha: Any) -> None:
    """Filter a sequence forward with logarithms throughout: ``start``, ``moves`` and ``alpha`` are logs as well."""
    S = start.shape[0]
    room = np.empty(S)
    for i in range(begin, stop):
        for s in range(S):
            if i == begin:
                alpha[i, s] = start[s] + logs[i, s]
            else:
                for r in range(S):
                    room[r] = alpha[i - 1, r] + moves[r, s]
                alpha[i, s] = LOG_SUM(room) + logs[i, s]
        log_likelihood[i] = LOG_SUM(alpha[i])
        if log_likelihood[i] > -math.inf:
            for s in range(S):
                alpha[i, s] -= log_likelihood[i]
        else:  # impossible labels: the items that follow are not judged by them
            for s in range(S):
                alpha[i, s] = -math.log(S)


FILTER, LOG_SUM = inner(_filter), inner(_log_sum)
LOG_FILTER = inner(_log_filter)


def _smooth_logs(
    begin: Any, stop: Any, logs: Any, start: Any, moves: Any, log_likelihood: Any, out: Any, pairs: Any
) -> None:
    """Smooth a sequence with logarithms throughout; arguments as of :func:`smoothing`."""
    S = start.shape[0]
    LOG_FILTER(begin, stop, logs, start, moves, log_likelihood, out)
    beta, room, joint = np.zeros(S), np.empty(S), np.empty((S, S))
    for s in range(S):
        out[stop - 1, s] = math.exp(out[stop - 1, s])
    for i in range(stop - 2, begin - 1, -1):
        ahead = beta + logs[i + 1]
        for r in range(S):
            for s in range(S):
                room[s] = moves[r, s] + ahead[s]
            beta[r] = LOG_SUM(room)
            for s in range(S):
                joint[r, s] = out[i, r] + moves[r, s] + ahead[s]
        total = LOG_SUM(joint.reshape(-1))
        top = -math.inf
        for s in range(S):
            top = max(top, beta[s])
        for r in range(S):
            mass = 0.0
            for s in range(S):
                share = math.exp(joint[r, s] - total) if total > -math.inf else 1.0 / S**2
                pairs[r, s] += share
                mass += share
            out[i, r] = mass
            beta[r] = beta[r] - top if top > -math.inf else 0.0


def _backward(begin: Any, stop: Any, moves: Any, out: Any, like: Any, beta: Any, ahead: Any, outer: Any) -> None:
    """Turn what is filtered into the posterior; ``outer`` times the transitions are the pairs of neighbours."""
    S = beta.shape[0]
    for i in range(stop - 2, begin - 1, -1):
        now, after = out[i], like[i + 1]
        for s in range(S):
            ahead[s] = after[s] * beta[s]
        for r in range(S):
            mass, mine = 0.0, now[r]
            for s in range(S):
                mass += moves[r, s] * ahead[s]
                outer[r, s] += mine * ahead[s]
            beta[r] = mass
        for s in range(S):
            now[s] *= beta[s]


SMOOTH_LOGS, BACKWARD = inner(_smooth_logs), inner(_backward)


@cache
def smoothing() -> Any:
    """Return the compiled forward-backward pass.

    Its arguments, for ``B`` sequences of ``N`` items in all and ``S`` states: ``first (B + 1,)``, the first item of each sequence
    and ``N``; log-likelihoods ``(N, S)``; logs of the ``start (S,)`` and of ``moves (S, S)`` = (from, to); and what is written:
    ``log_likelihood (N,)``, the log-probability of an item's labels given those of the items before it in its sequence;
    probabilities ``(N, S)`` of the states given all labels of the sequence. Expected ``pairs (S, S)`` of neighbouring states and
    ``starts (S,)`` are added to.
    """

    def run(
        first: Any, logs: Any, log_start: Any, log_moves: Any, log_likelihood: Any, out: Any, pairs: Any, starts: Any
    ) -> None:
        first, logs, log_likelihood, out = borrowed(first), borrowed(logs), borrowed(log_likelihood), borrowed(out)
        S = log_start.shape[0]
        start, moves = np.exp(log_start), np.exp(log_moves)
        like, outer = np.empty_like(logs), np.zeros((S, S))
        beta, ahead = np.empty(S), np.empty(S)
        for b in range(first.shape[0] - 1):
            begin, stop = first[b], first[b + 1]
            if begin == stop:
                continue
            if FILTER(begin, stop, logs, start, moves, log_likelihood, out, like):
                beta[:] = 1.0
                BACKWARD(begin, stop, moves, out, like, beta, ahead, outer)
            else:
                SMOOTH_LOGS(begin, stop, logs, log_start, log_moves, log_likelihood, out, pairs)
            for s in range(S):
                starts[s] += out[begin, s]
        for r in range(S):
            for s in range(S):
                pairs[r, s] += outer[r, s] * moves[r, s]

    return compiled(run, SMOOTH, error_model="numpy")


@cache
def drawing() -> Any:
    """Return the compiled draw of ``D`` paths of each sequence, filtered forward once and drawn backward.

    Its arguments: as of :func:`smoothing` up to the logs; uniform numbers ``(D, N)``; the paths ``(D, N)``, written.
    """

    def run(first: Any, logs: Any, log_start: Any, log_moves: Any, uniform: Any, path: Any) -> None:
        first, logs, uniform, path = borrowed(first), borrowed(logs), borrowed(uniform), borrowed(path)
        S = log_start.shape[0]
        start, moves = np.exp(log_start), np.exp(log_moves)
        alpha, like, log_likelihood = np.empty_like(logs), np.empty_like(logs), np.empty(logs.shape[0])
        weight = np.empty(S)
        for b in range(first.shape[0] - 1):
            begin, stop = first[b], first[b + 1]
            if begin == stop:
                continue
            if not FILTER(begin, stop, logs, start, moves, log_likelihood, alpha, like):
                LOG_FILTER(begin, stop, logs, log_start, log_moves, log_likelihood, alpha)
                for i in range(begin, stop):
                    for s in range(S):
                        alpha[i, s] = math.exp(alpha[i, s])
            for d in range(path.shape[0]):
                for i in range(stop - 1, begin - 1, -1):
                    total = 0.0
                    for s in range(S):
                        weight[s] = alpha[i, s] if i == stop - 1 else alpha[i, s] * moves[s, path[d, i + 1]]
                        total += weight[s]
                    left, chosen = uniform[d, i] * total, 0
                    for s in range(S):
                        if weight[s] > 0.0:
                            chosen = s
                            left -= weight[s]
                            if left < 0.0:
                                break
                    path[d, i] = chosen

    return compiled(run, DRAW, error_model="numpy")


@cache
def spanning() -> Any:
    """Return the compiled posterior probability of spans.

    Its arguments: as of :func:`smoothing` up to the logs; ``spans (M, 3)`` = (first item, item after the last, type), ordered by
    the first item; ``opens`` and ``within (types, S)``, whether a state begins a span of a type whatever is before it, and
    whether it continues one; and ``out (M,)``, written: not a number where a sequence underflows.
    """

    def run(
        first: Any, logs: Any, log_start: Any, log_moves: Any, spans: Any, opens: Any, within: Any, out: Any
    ) -> None:
        first, logs, spans, out = borrowed(first), borrowed(logs), borrowed(spans), borrowed(out)
        S, m = log_start.shape[0], 0
        start, moves = np.exp(log_start), np.exp(log_moves)
        alpha, like, log_likelihood = np.empty_like(logs), np.empty_like(logs), np.empty(logs.shape[0])
        beta = np.empty_like(logs)
        now, after = np.empty(S), np.empty(S)
        for b in range(first.shape[0] - 1):
            begin, stop = first[b], first[b + 1]
            until = m
            while until < spans.shape[0] and spans[until, 0] < stop:
                until += 1
            if until == m:
                continue
            if not FILTER(begin, stop, logs, start, moves, log_likelihood, alpha, like):
                out[m:until] = np.nan
                m = until
                continue
            beta[stop - 1] = 1.0
            for i in range(stop - 2, begin - 1, -1):
                for r in range(S):
                    mass = 0.0
                    for s in range(S):
                        mass += moves[r, s] * like[i + 1, s] * beta[i + 1, s]
                    beta[i, r] = mass
            for n in range(m, until):
                one, end, kind = spans[n, 0], spans[n, 1], spans[n, 2]
                for s in range(S):
                    now[s] = 0.0
                    if opens[kind, s]:
                        now[s] = alpha[one, s]
                    elif within[kind, s]:  # it does not continue the token before
                        mass = start[s] if one == begin else 0.0
                        if one > begin:
                            for r in range(S):
                                if not (opens[kind, r] or within[kind, r]):
                                    mass += alpha[one - 1, r] * moves[r, s]
                        now[s] = mass * like[one, s]
                for i in range(one + 1, end):
                    for s in range(S):
                        after[s] = 0.0
                        if within[kind, s]:
                            for r in range(S):
                                after[s] += now[r] * moves[r, s]
                            after[s] *= like[i, s]
                    for s in range(S):
                        now[s] = after[s]
                total = 0.0
                for r in range(S):
                    mass = 1.0
                    if end < stop:
                        mass = 0.0
                        for s in range(S):
                            if not within[kind, s]:
                                mass += moves[r, s] * like[end, s] * beta[end, s]
                    total += now[r] * mass
                out[n] = min(1.0, total)
            m = until

    return compiled(run, SPAN, error_model="numpy")
