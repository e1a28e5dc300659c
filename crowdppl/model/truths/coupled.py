"""Truths that depend on each other: along a sequence by a Markov chain, within a set of labels by a mixture.

The model states ``coupling(parameters, data)`` (:mod:`crowdppl.model.coupling`). The item log joint is then ``log p(state | all
labels) + log p(labels | those before)``: engines take it as that of independent items.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError
from crowdppl.model.base import Parameters
from crowdppl.model.chains import Chain
from crowdppl.model.coupling import Smoothed, item_log_joint
from crowdppl.model.truths.classes import Classes, _lifted, averaged_one_by_one


class Coupled(Classes):
    """The truths of a model with a coupling, of data in sequences or sets."""

    coupled = True

    def require(self, data: Annotations, arranged: Annotations) -> None:
        """As :meth:`Classes.require`.

        Raises:
            ModelError: for items that stand for several equal ones.
        """
        if data.multiplicity is not None:
            raise ModelError(
                f"{self._model.name} has items in sequences or sets, which have no multiplicities; write the items out"
            )
        super().require(data, arranged)

    def log_joint(self, log_likelihoods: Tensor, parameters: Parameters, data: Annotations) -> Tensor:
        """As :meth:`Classes.log_joint`, in memory of its own."""
        return item_log_joint(self._smoothed(log_likelihoods, parameters, data))

    def smoothed(self, parameters: Parameters, data: Annotations) -> Smoothed:
        """Return the posterior of the states of all items."""
        return self._smoothed(self._model.log_likelihoods(parameters, data), parameters, data)

    def _smoothed(self, log_likelihoods: Tensor, parameters: Parameters, data: Annotations) -> Smoothed:
        """Return the posterior of the states; the likelihoods are written over."""
        coupling = self._model.model.coupling(parameters, data)
        return coupling.smooth(self.clamped(log_likelihoods, parameters, data), data)

    def log_likelihood_besides(self, parameters: Parameters, data: Annotations) -> Tensor | None:
        """As :meth:`Classes.log_likelihood_besides`, of an item given those before it."""
        coupling = self._model.model.coupling(parameters, data)
        if not isinstance(coupling, Chain) or coupling.observed is None:
            return None
        return coupling.smooth(torch.zeros_like(coupling.observed), data).log_likelihood

    def draw_prior(self, parameters: Parameters, data: Annotations) -> Tensor:
        """As :meth:`Classes.draw_prior`."""
        nothing = torch.zeros(data.N, self._model.states, dtype=data.dtype, device=data.device)
        return self._model.model.coupling(parameters, data).draw_states(nothing, data)

    def draw_states(
        self, parameters: Parameters, data: Annotations, factor: Tensor | None = None, draws: int | None = None
    ) -> Tensor:
        """Draw the states of all items together, ``(..., N)``.

        Args:
            parameters: by site.
            data: the annotations.
            factor: design effects ``(..., N)``: the log-likelihood of an item is divided by its own.
            draws: how often to draw with the same parameters, of one set: ``(draws, N)``.
        """
        likelihoods = self._model.log_likelihoods(parameters, data)
        likelihoods = likelihoods if factor is None else likelihoods / factor.unsqueeze(-1)
        likelihoods = self.clamped(likelihoods, parameters, data)
        if draws is not None:
            likelihoods = likelihoods.expand(draws, *likelihoods.shape)
        return self._model.model.coupling(parameters, data).draw_states(likelihoods, data)

    def temperable(self, log_joint: Tensor, parameters: Parameters, data: Annotations) -> Tensor:
        """Return what :meth:`tempered` takes: here the log-likelihoods.

        Labels of an item are evidence on those that it depends on, too: where they count less, they do so for all.
        """
        return self._model.log_likelihoods(parameters, data)

    def tempered(
        self, log_joint: Tensor, factor: Tensor, parameters: Parameters, data: Annotations, lift: Tensor | None = None
    ) -> Tensor:
        """As :meth:`Classes.tempered`."""
        return _lifted(self._smoothed(log_joint / factor.unsqueeze(-1), parameters, data).probability, lift)

    averaged = averaged_one_by_one

    def prevalence(self, parameters: Parameters, data: Annotations, lead: Sequence[int] = ()) -> Tensor:
        """As :meth:`Classes.prevalence`."""
        return self._model.model.coupling(parameters, data).prevalence(data)
