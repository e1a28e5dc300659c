"""Sufficient statistics: what a pass over annotations yields where a label depends on truth and worker only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from crowdppl.errors import ModelError


class Statistics(NamedTuple):
    """Expected, or drawn, numbers of items and labels by state of the truth.

    Leading axes ``...`` are those of several restarts, chains or draws.

    Attributes:
        log_likelihood: of all labels, a scalar of float64; not a number where the statistics follow from given responsibilities.
        item_counts: number of items in each state, ``(..., S)``.
        label_counts: number of each worker's labels, ``(..., J, S, K)`` = (worker, state, label); ``J`` is 1 where all workers
            share one table.
        parameters: the current parameters by site, for models that need them to split counts between components.
        drawn: whether the truths were drawn (Gibbs sampling), so that a split is a draw too; else it is an expectation (EM).
    """

    log_likelihood: Tensor
    item_counts: Tensor
    label_counts: Tensor
    parameters: Mapping[str, Any] | None = None
    drawn: bool = False

    def split(self, counts: Tensor, probability: Tensor) -> Tensor:
        """Return the part of ``counts`` that a component accounts for: an expectation for EM, a binomial draw for Gibbs sampling.

        Args:
            counts: annotations, such as ``label_counts``.
            probability: that an annotation comes from the component, given its label and state; the same shape.

        Raises:
            ModelError: where a draw is wanted and items have weights, so that counts are not whole.
        """
        if not self.drawn:
            return counts * probability
        whole = counts.round()
        if not torch.allclose(whole, counts):
            raise ModelError(
                "the Gibbs sampler splits whole counts and takes no item weights; use method='nuts' or 'svi'"
            )
        return torch.distributions.Binomial(whole, probability.clamp(0, 1)).sample()
