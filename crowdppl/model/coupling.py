"""How the truths of items depend on each other: what engines ask of a chain along a sequence, or of a mixture within a set."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from crowdppl.data.annotations import Annotations


class Smoothed(Protocol):
    """The posterior of the states of all items, and what an M step takes."""

    @property
    def log_likelihood(self) -> Tensor:
        """Log-probability of the labels of an item given those of the items before it that it depends on, ``(..., N)``."""

    @property
    def probability(self) -> Tensor:
        """Probability of the states of an item given all labels, ``(..., N, S)``."""


class Coupling(Protocol):
    """The joint distribution of the states of items.

    What engines take is, for every item, ``log p(state | all labels) + log p(its labels | those before)``: its ``logsumexp`` over
    states sums to the log-likelihood, and its ``softmax`` is the posterior of the item.
    """

    def smooth(self, log_likelihoods: Tensor, data: Annotations) -> Smoothed:
        """Return the posterior, given ``log p(labels of item i | state)``, ``(..., N, S)``."""

    def draw_states(self, log_likelihoods: Tensor, data: Annotations) -> Tensor:
        """Draw the states of all items from their posterior, ``(..., N)`` int64."""

    def prevalence(self, data: Annotations) -> Tensor:
        """Return the probability of the states before any label is seen, in the mean over all items, ``(..., S)``."""


def item_log_joint(smoothed: Smoothed) -> Tensor:
    """Return ``log p(state | all labels) + log p(labels | those before)``, ``(..., N, S)``."""
    # The posterior moves with the parameters, its sum over states does not: no gradient goes through it.
    return smoothed.probability.detach().log() + smoothed.log_likelihood.unsqueeze(-1)
