"""Draws in the small files of format 3, which earlier versions wrote: codes that only this library reads.

They are read, and no longer written; the small form of today is in :mod:`crowdppl.posterior.compact`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from crowdppl.posterior.stored import Form

Array = npt.NDArray[Any]

# Square roots of probabilities are stored in steps of 1 / ROOTS.
ROOTS = 1280
# A code of 0 stands for this probability, the middle of its interval on the scale of square roots.
FLOOR = (0.25 / ROOTS) ** 2
# Suffixes of the variables that hold one of each kind.
SUFFIXES = {
    "distributions": ("_codes", "_omitted"),
    "logs": ("_codes", "_centre", "_step"),
    "indices": ("_codes", "_ranked"),
}
# Values decoded at a time.
_BLOCK = 2**22
# Fractional parts of its multiples are spread evenly: it separates values of one code.
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class Coded:
    """A variable that a file holds in codes.

    Attributes:
        kind: ``distributions``, ``logs`` or ``indices``.
        dims: its axes.
        shape: its shape.
        dtype: its type.
    """

    kind: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str

    @property
    def form(self) -> Form:
        """How the file holds it."""
        decode: dict[str, Callable[..., Array]] = {
            "distributions": decode_distributions,
            "logs": decode_logs,
            "indices": decode_indices,
        }
        return Form(SUFFIXES[self.kind], partial(decode[self.kind], shape=self.shape, dtype=self.dtype))


def coded_variables(attributes: Mapping[Any, Any]) -> dict[str, Coded]:
    """Return the variables of a file that are coded, by their paths; none for files of other formats.

    Raises:
        ValueError: if the attribute is damaged.
    """
    stored = json.loads(attributes.get("coded", "{}"))
    return {
        path: Coded(str(one["kind"]), tuple(one["dims"]), tuple(int(n) for n in one["shape"]), str(one["dtype"]))
        for path, one in stored.items()
    }


def decode_distributions(codes: Array, omitted: Array, shape: tuple[int, ...], dtype: str) -> Array:
    """Return probabilities ``(..., K)`` with draws on the first two axes: ``(C, D, ..., K)``.

    Args:
        codes: square roots in steps of ``1 / ROOTS``, ``(cells, S)``, of all but the largest probability.
        omitted: the index of the largest one, ``(...)``.
        shape: of the probabilities.
        dtype: of the probabilities.

    Raises:
        ValueError: if the parts do not belong together.
    """
    K = shape[-1]
    S, R = shape[0] * shape[1], omitted.size
    if codes.shape != (R * (K - 1), S) or omitted.shape != shape[2:-1] or (omitted >= K).any() or (codes > ROOTS).any():
        raise ValueError("codes of probabilities that do not belong together")
    roots = np.arange(ROOTS + 1) / ROOTS
    probability = np.maximum(roots**2, FLOOR)
    codes, others = codes.reshape(R, K - 1, S), _others(omitted.reshape(-1), K)
    out = np.empty((S, R, K), dtype=dtype)
    step = max(1, _BLOCK // (S * K))
    for start in range(0, R, step):
        part = slice(start, start + step)
        p = probability[codes[part]]  # (r, K - 1, S)
        rest = np.maximum(1 - p.sum(1), FLOOR)
        total = p.sum(1) + rest
        rows = np.arange(len(p))
        block = np.empty((len(p), K, S))
        block[rows[:, None], others[part]] = p / total[:, None]
        block[rows, omitted.reshape(-1)[part]] = rest / total
        out[:, part] = block.transpose(2, 0, 1)
    return out.reshape(shape)


def _others(omitted: Array, K: int) -> Array:
    """Return the indices from 0 to ``K - 1`` without the one omitted, ``(R, K - 1)``."""
    others = np.arange(K - 1)[None, :]
    return np.asarray(others + (others >= omitted[:, None]))


def decode_logs(codes: Array, centre: Array, step: Array, shape: tuple[int, ...], dtype: str) -> Array:
    """Return log-likelihoods ``(C, D, N)`` from differences in steps, ``(N, S)``, and the centre and step of each item, ``(N,)``.

    Values are spread evenly over the interval of their code, the same way every time: smoothed importance sampling, which fits a
    distribution to the smallest ones, fails where many are equal.
    """
    S, N = shape[0] * shape[1], shape[2]
    if codes.shape != (N, S) or centre.shape != (N,) or step.shape != (N,):
        raise ValueError("codes of log-likelihoods that do not belong together")
    out = np.empty((S, N), dtype=dtype)
    size = max(1, _BLOCK // S)
    for start in range(0, N, size):
        part = slice(start, start + size)
        block = codes[part].astype(np.int64)
        signed = np.where(block & 1, -(block + 1) // 2, block // 2)
        place = S * np.arange(start, start + len(block))[:, None] + np.arange(1, S + 1)
        within = (place * _GOLDEN) % 1 - 0.5
        out[:, part] = (centre[part, None] + step[part, None] * (signed + within)).T
    return out.reshape(shape)


def decode_indices(codes: Array, ranked: Array, shape: tuple[int, ...], dtype: str) -> Array:
    """Return indices ``(C, D, N)`` from the bits of their places ``(bits, N, bytes)`` and the index at each place, ``(N, K)``."""
    S, N, K = shape[0] * shape[1], shape[2], ranked.shape[-1]
    if codes.shape != (max(1, (K - 1).bit_length()), N, -(-S // 8)) or len(ranked) != N:
        raise ValueError("codes of indices that do not belong together")
    out = np.empty((S, N), dtype=dtype)
    size = max(1, _BLOCK // S)
    for start in range(0, N, size):
        part = slice(start, start + size)
        places = np.zeros((len(ranked[part]), S), dtype=np.int64)
        for bit, code in enumerate(codes):
            places |= np.unpackbits(code[part], axis=1, count=S).astype(np.int64) << bit
        if (places >= K).any():
            raise ValueError("codes of indices that are not there")
        out[:, part] = np.take_along_axis(ranked[part], places, 1).T
    return out.reshape(shape)
