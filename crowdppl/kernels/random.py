"""Random numbers for compiled chains: a stream whose state is an array of four unsigned integers.

Xoshiro256++ (D. Blackman and S. Vigna 2021, Scrambled linear pseudorandom number generators, ACM Transactions on Mathematical
Software 47), begun by SplitMix64. A chain carries its own state, so that its numbers depend neither on other chains nor on
threads, and a checkpoint holds them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crowdppl.kernels.code_cache import inner

# Gamma variables of small shapes may underflow; their logarithms are to exist.
LEAST = float(np.finfo(np.float64).tiny)


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


@inner
def _rotated(x: Any, by: Any) -> Any:
    return (x << np.uint64(by)) | (x >> np.uint64(64 - by))


@inner
def uniform(state: Any) -> Any:
    """Return a number from [0, 1) with 53 random bits, and move the state on."""
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    result = _rotated(s0 + s3, 23) + s0
    t = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    state[1], state[0] = s1 ^ s2, s0 ^ s3
    state[2], state[3] = s2 ^ t, _rotated(s3, 45)
    return (result >> np.uint64(11)) * (1.0 / 2**53)


@inner
def normal_pair(state: Any) -> Any:
    """Return two independent standard normal variables, by Marsaglia's polar method."""
    while True:
        x, y = 2.0 * uniform(state) - 1.0, 2.0 * uniform(state) - 1.0
        square = x * x + y * y
        if 0.0 < square < 1.0:
            factor = math.sqrt(-2.0 * math.log(square) / square)
            return x * factor, y * factor


@inner
def normal(state: Any) -> Any:
    """Return a standard normal variable."""
    return normal_pair(state)[0]


@inner
def fill_normal(state: Any, out: Any) -> None:
    """Fill a vector with standard normal variables."""
    n = out.shape[0]
    for i in range(0, n - 1, 2):
        out[i], out[i + 1] = normal_pair(state)
    if n % 2:
        out[n - 1] = normal(state)


@inner
def gamma(state: Any, shape: Any) -> Any:
    """Return a gamma variable of rate one and a shape above 0, at least ``LEAST``.

    By rejection (G. Marsaglia and W. W. Tsang 2000, A simple method for generating gamma variables, ACM Transactions on
    Mathematical Software 26); a shape below 1 by the next one and a power of a uniform variable.
    """
    factor, d = 1.0, shape - 1.0 / 3.0
    if shape < 1.0:
        factor, d = (1.0 - uniform(state)) ** (1.0 / shape), shape + 2.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(state)
        v = 1.0 + c * x
        if v > 0.0:
            v = v * v * v
            if math.log(1.0 - uniform(state)) < 0.5 * x * x + d - d * v + d * math.log(v):
                return max(d * v * factor, LEAST)


@inner
def fill_dirichlet(state: Any, concentration: Any, out: Any) -> None:
    """Fill a vector with a draw from a Dirichlet distribution; no probability is 0."""
    total = 0.0
    for k in range(out.shape[0]):
        out[k] = gamma(state, concentration[k])
        total += out[k]
    for k in range(out.shape[0]):
        out[k] = max(out[k] / total, LEAST)
