"""Categorical draws of true labels by Gumbel-max sampling.

With ``E_k`` independent standard exponential variables, ``argmax_k p_k / E_k = argmax_k (log p_k - log E_k)`` is ``k`` with
probability ``p_k``; ``-log E_k`` is a standard Gumbel variable (Gumbel 1954; Yellott 1977, Journal of Mathematical Psychology
15).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.inference import memory


def sample_repeatedly(log_joint: Tensor, count: int) -> Tensor:
    """Draw states of all items ``count`` times from one log joint ``(N, S)``, up to constants: ``(count, N)``."""
    below = log_joint.softmax(-1).cumsum(-1)
    drawn = torch.rand(len(below), count, dtype=below.dtype, device=below.device) * below[:, -1:]
    return torch.searchsorted(below, drawn, right=True).clamp(max=below.shape[-1] - 1).T


def sample_truth(log_joint: Tensor) -> Tensor:
    """Draw a class for each item.

    Args:
        log_joint: log-probabilities ``(..., N, K)``, each item's up to a constant.

    Returns:
        Class numbers ``(..., N)``. A class of probability zero is never drawn.
    """
    return (log_joint - _log_exponential(torch.empty_like(log_joint))).argmax(-1)


def sample_truth_from_probabilities(probability: Tensor) -> Tensor:
    """Draw a class for each item from probabilities ``(..., N, K)``, which need not be normalised: ``(..., N)``."""
    exponential = _exponential(torch.empty_like(probability))
    return torch.div(probability, exponential, out=exponential).argmax(-1)


def _exponential(out: Tensor) -> Tensor:
    # -log(u) is positive, since u < 1. It is infinite for u = 0, which must not exclude the only possible class; no other
    # value of u has a logarithm as low as the bound.
    return out.uniform_().log_().neg_().clamp_(max=100.0)


def _log_exponential(out: Tensor) -> Tensor:
    return _exponential(out).log_()


class GumbelMaxSampler:
    """:func:`sample_truth` repeated for one shape, with the random numbers of many draws generated at once.

    Args:
        shape: of the log-probabilities, ``(..., N, K)``.
        data: gives floating type and device.
    """

    def __init__(self, shape: tuple[int, ...], data: Annotations):
        # What is generated in advance is part of a fit's checkpoint: no more of it on a GPU.
        count = max(1, memory.WORK_BYTES // (8 * math.prod(shape)))
        self._buffer = torch.empty(count, *shape, dtype=data.dtype, device=data.device)
        self._ready = self._buffer[:0]

    @property
    def unused(self) -> Tensor:
        """Random numbers generated and not yet used, ``(draws, ..., N, K)``; set to resume a stopped fit."""
        return self._ready

    @unused.setter
    def unused(self, values: Tensor) -> None:
        self._ready = values

    def sample(self, log_joint: Tensor) -> Tensor:
        """Draw a class for each item, ``(..., N)``."""
        if not len(self._ready):
            self._ready = _log_exponential(self._buffer)
        noise, self._ready = self._ready[-1], self._ready[:-1]
        return (log_joint - noise).argmax(-1)
