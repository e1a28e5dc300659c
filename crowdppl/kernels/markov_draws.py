"""Markov chains under several sets of parameters at once: what is read off draws of the parameters.

The draws are the lanes of a vector of the processor (:mod:`crowdppl.kernels.simd`), and their sums over states are taken side by
side. A sequence at a time is filtered forward twice: with the likelihoods of the model, for the probability of its labels, and
with those that allow for correlated errors, from which a path is drawn backward. :mod:`crowdppl.kernels.markov` has the same for
one set of parameters, and logarithms where probabilities underflow.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from crowdppl.kernels.code_cache import borrowed, compiled, inline_with_arrays
from crowdppl.kernels.simd import multiplied, set_to, summed, write, zeros

# Draws that are read together.
LANES = 8
# First item of each sequence, and the end of the last; row of each item; likelihoods, plain and tempered; start; moves; uniform
# numbers; probability of labels and paths, written.
READ = "void(i8[::1], i8[::1], f8[:,:,::1], f8[:,:,::1], f8[:,::1], f8[:,:,::1], f8[:,::1], f8[:,::1], i2[:,::1])"
# Below this a probability may have lost digits, on the way to it.
LOST = 1e-280


def _filtered(
    row: Any, place: Any, likelihoods: Any, moves: Any, before: Any, now: Any, room: Any, sums: Any, starts: Any
) -> None:
    """Filter one item forward in all lanes: ``now`` from ``before``, and ``sums``, the probability of the item's labels.

    Args:
        row: of the likelihoods.
        place: of the item in its sequence.
        likelihoods: ``(U S LANES)``.
        moves: transitions ``(S S LANES)``, from, to and lane.
        before: probabilities of the states of the item before, ``(S LANES)``.
        now: likewise of the item, written.
        room: for numbers of the lanes.
        sums: ``(LANES,)``, written.
        starts: of the first item, ``(S LANES)``.
    """
    S = starts.shape[0] // LANES
    own = row * S * LANES
    empty = zeros(LANES, LANES)
    total = empty
    for s in range(S):
        mass = empty
        if place == 0:
            mass = set_to(mass, starts, np.uint64(s * LANES))
        else:
            for r in range(S):
                part = set_to(empty, before, np.uint64(r * LANES))
                mass = summed(mass, multiplied(part, moves, np.uint64((r * S + s) * LANES)))
        mass = multiplied(mass, likelihoods, np.uint64(own + s * LANES))
        total = summed(total, mass)
        write(mass, now, np.uint64(s * LANES))
    write(total, sums, np.uint64(0))
    for lane in range(LANES):
        room[lane] = 1.0 / sums[lane]
    for s in range(S):
        mass = set_to(empty, now, np.uint64(s * LANES))
        write(multiplied(mass, room, np.uint64(0)), now, np.uint64(s * LANES))


FILTERED = inline_with_arrays(_filtered)


@cache
def reading() -> Any:
    """Return the compiled reading of ``LANES`` draws.

    Its arguments, for ``B`` sequences of ``N`` items in all and ``S`` states: ``first (B + 1,)``, the first item of each sequence
    and the end of the last; ``row (N,)``, the row of likelihoods of each item; these ``(U, S, LANES)`` as they are, and tempered;
    ``start (LANES, S)`` and ``moves (LANES, S, S)`` = (from, to), probabilities; uniform numbers ``(LANES, N)``; and what is
    written: ``probability (LANES, N)`` of an item's labels given those of the items before it in its sequence, not a number where
    a sequence may have lost digits; a ``path (LANES, N)`` drawn with tempered likelihoods.
    """

    def run(
        first: Any,
        row: Any,
        plain: Any,
        tempered: Any,
        start: Any,
        moves: Any,
        uniform: Any,
        probability: Any,
        path: Any,
    ) -> None:
        first, row, plain, tempered = borrowed(first), borrowed(row), borrowed(plain), borrowed(tempered)
        uniform, probability, path = borrowed(uniform), borrowed(probability), borrowed(path)
        S, longest = start.shape[1], 0
        for b in range(first.shape[0] - 1):
            longest = max(longest, first[b + 1] - first[b])
        starts, into = np.empty(S * LANES), np.empty(S * S * LANES)
        for lane in range(LANES):
            for r in range(S):
                starts[r * LANES + lane] = start[lane, r]
                for s in range(S):
                    into[(r * S + s) * LANES + lane] = moves[lane, r, s]
        room, sums, weight = np.empty(LANES), np.empty(LANES), np.empty(S)
        plain, tempered = plain.reshape(-1), tempered.reshape(-1)
        two, kept = np.empty((2, S * LANES)), np.empty((longest, S * LANES))
        for b in range(first.shape[0] - 1):
            begin, stop = first[b], first[b + 1]
            lost = False
            for i in range(begin, stop):
                t = i - begin
                FILTERED(row[i], t, plain, into, two[(t + 1) % 2], two[t % 2], room, sums, starts)
                for lane in range(LANES):
                    probability[lane, i] = sums[lane]
                    lost |= not sums[lane] > LOST
                FILTERED(row[i], t, tempered, into, kept[t - 1], kept[t], room, sums, starts)
                for lane in range(LANES):
                    lost |= not sums[lane] > LOST
            if lost:
                probability[:, begin:stop] = np.nan
                path[:, begin:stop] = 0
                continue
            for lane in range(LANES):
                after = 0
                for i in range(stop - 1, begin - 1, -1):
                    mass = 0.0
                    for s in range(S):
                        here = kept[i - begin, s * LANES + lane]
                        weight[s] = here if i == stop - 1 else here * into[(s * S + after) * LANES + lane]
                        mass += weight[s]
                    left, below, after = uniform[lane, i] * mass, 0.0, 0
                    for s in range(S - 1):  # without a branch, which could not be predicted
                        below += weight[s]
                        after += below <= left
                    while after > 0 and not weight[after] > 0.0:  # rounding: the last possible state
                        after -= 1
                    path[lane, i] = after

    return compiled(run, READ, error_model="numpy")
