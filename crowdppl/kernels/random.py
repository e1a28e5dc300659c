"""Random numbers for compiled chains: a stream whose state is an array of four unsigned integers.

Xoshiro256++ (D. Blackman and S. Vigna 2021, Scrambled linear pseudorandom number generators, ACM Transactions on Mathematical
Software 47), begun by SplitMix64. A chain carries its own state, so that its numbers depend neither on other chains nor on
threads, and a checkpoint holds them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crowdppl.kernels.code_cache import inline, leaf

# Gamma variables of small shapes may underflow; their logarithms are to exist.
LEAST = float(np.finfo(np.float64).tiny)
# A gamma variable of at least this shape underflows less than once in 1e15 times.
SMALL = 0.05
# Layers of the ziggurat, where its tail begins, and the area of each layer.
LAYERS, TAIL, AREA = 256, 3.6541528853610088, 4.92867323399e-3


def _ziggurat() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return, for each layer, the places of 2^52 that are inside for certain, the width of a place, and the density's height."""
    inside, width, height = np.zeros(LAYERS, dtype=np.int64), np.empty(LAYERS), np.empty(LAYERS)
    x, places = TAIL, 2.0**52
    bottom = AREA / math.exp(-0.5 * x * x)
    inside[0], width[0], height[0] = int(x / bottom * places), bottom / places, 1.0
    width[-1], height[-1] = x / places, math.exp(-0.5 * x * x)
    for layer in range(LAYERS - 2, 0, -1):
        above = math.sqrt(-2.0 * math.log(AREA / x + math.exp(-0.5 * x * x)))
        inside[layer + 1] = int(above / x * places)
        x, width[layer], height[layer] = above, above / places, math.exp(-0.5 * above * above)
    return inside, width, height


INSIDE, WIDTHS, HEIGHTS = _ziggurat()


def stream(seed: int) -> np.ndarray:
    """Return the first state of the stream of a seed, ``(4,)`` uint64."""
    state = np.empty(4, dtype=np.uint64)
    counter, mask = seed % 2**64, 2**64 - 1
    for n in range(4):
        counter = (counter + 0x9E3779B97F4A7C15) & mask
        z = ((counter ^ (counter >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        state[n] = z ^ (z >> 31)
    return state


@inline
def _rotated(x: Any, by: Any) -> Any:
    return (x << np.uint64(by)) | (x >> np.uint64(64 - by))


@inline
def _bits(state: Any) -> Any:
    """Return 64 random bits, and move the state on."""
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    result = _rotated(s0 + s3, 23) + s0
    t = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    state[1], state[0] = s1 ^ s2, s0 ^ s3
    state[2], state[3] = s2 ^ t, _rotated(s3, 45)
    return result


@inline
def uniform(state: Any) -> Any:
    """Return a number from [0, 1) with 53 random bits."""
    return (_bits(state) >> np.uint64(11)) * (1.0 / 2**53)


@inline
def normal(state: Any) -> Any:
    """Return a standard normal variable, by the ziggurat method (Marsaglia and Tsang 2000, Journal of Statistical Software 5)."""
    while True:
        bits = _bits(state)
        layer, place = np.intp(bits & np.uint64(255)), np.int64((bits >> np.uint64(9)) & np.uint64(2**52 - 1))
        sign = 1.0 - 2.0 * np.float64((bits >> np.uint64(8)) & np.uint64(1))
        x = place * WIDTHS[layer]
        if place < INSIDE[layer]:
            return sign * x
        if layer == 0:  # beyond the last layer
            while True:
                x = -math.log(1.0 - uniform(state)) / TAIL
                if -2.0 * math.log(1.0 - uniform(state)) > x * x:
                    return sign * (TAIL + x)
        if HEIGHTS[layer] + uniform(state) * (HEIGHTS[layer - 1] - HEIGHTS[layer]) < math.exp(-0.5 * x * x):
            return sign * x


@leaf
def fill_normal(state: Any, out: Any) -> None:
    """Fill a vector with standard normal variables."""
    for i in range(out.shape[0]):
        out[i] = normal(state)


@inline
def gamma_from_one(state: Any, shape: Any) -> Any:
    """Return a gamma variable of rate one and a shape of at least 1.

    By rejection (G. Marsaglia and W. W. Tsang 2000, A simple method for generating gamma variables, ACM Transactions on
    Mathematical Software 26).
    """
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(state)
        v = 1.0 + c * x
        if v > 0.0:
            v, u, square = v * v * v, 1.0 - uniform(state), x * x
            if u < 1.0 - 0.0331 * square * square:
                return d * v
            if math.log(u) < 0.5 * square + d - d * v + d * math.log(v):
                return d * v


@inline
def gamma(state: Any, shape: Any) -> Any:
    """Return a gamma variable of rate one and a shape above 0, at least ``LEAST``.

    A shape below 1 by the next one and a power of a uniform variable.
    """
    factor = 1.0
    if shape < 1.0:
        factor = math.exp(math.log(1.0 - uniform(state)) / shape)  # half the time of a power
        shape += 1.0
    return max(gamma_from_one(state, shape) * factor, LEAST)


@leaf
def log_gamma(state: Any, shape: Any) -> Any:
    """Return the logarithm of a gamma variable of rate one, which exists where the variable underflows."""
    power = 0.0
    if shape < 1.0:
        power = math.log(1.0 - uniform(state)) / shape
        shape += 1.0
    return math.log(gamma_from_one(state, shape)) + power


@leaf
def fill_dirichlet(state: Any, concentration: Any, out: Any) -> None:
    """Fill a vector with a draw from a Dirichlet distribution; no probability is 0."""
    n = out.shape[0]
    largest = concentration[0]
    for k in range(1, n):
        largest = max(largest, concentration[k])
    total = 0.0
    if largest < SMALL:  # in logarithms, since all gamma variables may underflow
        top = -np.inf
        for k in range(n):
            out[k] = log_gamma(state, concentration[k])
            top = max(top, out[k])
        for k in range(n):
            out[k] = math.exp(out[k] - top)
            total += out[k]
    else:
        for k in range(n):
            out[k] = gamma(state, concentration[k])
            total += out[k]
    by = 1.0 / total
    for k in range(n):
        out[k] = max(out[k] * by, LEAST)
