"""Truths that are places: a class is read off a state with probabilities, as a grade off a place on a line.

The model states ``reading(parameters, data)``, ``p(class = k | truth = s)``. A known true label is then an observation with these
probabilities: it makes states more or less probable, and excludes few.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pyro.distributions as dist
import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError, listed
from crowdppl.model.base import Parameters
from crowdppl.model.truths.classes import Classes, _of_items, averaged_one_by_one


class Places(Classes):
    """The truths of a model that reads classes off its states."""

    read_off = True

    def reading(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``p(class = k | truth = s)``, ``(..., S, K)``."""
        return self._model.model.reading(parameters, data)

    def require(self, data: Annotations, arranged: Annotations) -> None:
        """As :meth:`Classes.require`; labels that are never a true label have no place on the line.

        Raises:
            ModelError: for such labels.
        """
        super().require(data, arranged)
        if data.others is not None:
            raise ModelError(
                f"{self._model.name} has grades, and {listed(data.others.names.tolist(), 3)} are labels that are never a true "
                f"label; leave these annotations out, or fit a model of classes, such as 'dawid-skene'"
            )

    def clamp(self, parameters: Parameters, data: Annotations) -> Tensor | None:
        """As :meth:`Classes.clamp`, ``(..., N, S)``."""
        if data.clamp is None:
            return None
        logs = self.reading(parameters, data).log().mT  # (..., K, S)
        of_known = logs.index_select(-2, data.truth.clamp(min=0))  # (..., N, S)
        return torch.where((data.truth >= 0).unsqueeze(-1), of_known, 0.0)

    def started(self, first: Tensor, data: Annotations) -> Tensor:
        """As :meth:`Classes.started`: the model has used what the data give."""
        return first

    def at_shares(self, shares: Tensor, like: Tensor, data: Annotations) -> Tensor:
        """As :meth:`Classes.at_shares`: those that the model starts from with these shares."""
        return self._model.model.initial(dataclasses.replace(data, start=shares))

    def draw_classes(self, states: Tensor, parameters: Parameters, data: Annotations) -> tuple[Tensor, Tensor]:
        """As :meth:`Classes.draw_classes`."""
        probability = self.reading(parameters, data)[states]
        return torch.as_tensor(dist.Categorical(probability).sample()), probability

    def classes_of_states(self, parameters: Parameters, data: Annotations) -> Tensor:
        """As :meth:`Classes.classes_of_states`."""
        return self.reading(parameters, data)

    def by_class(self, values: Tensor, parameters: Parameters, data: Annotations) -> Tensor:
        """As :meth:`Classes.by_class`."""
        out = values @ self.reading(parameters, data)
        if data.clamp is None:
            return out
        return torch.where((data.truth >= 0).unsqueeze(-1), data.clamp.exp(), out)

    def log_by_class(self, log_joint: Tensor, parameters: Parameters, data: Annotations) -> Tensor:
        """As :meth:`Classes.log_by_class`."""
        top = log_joint.amax(-1, keepdim=True)
        return self.by_class((log_joint - top).exp(), parameters, data).log() + top

    def temperable(self, log_joint: Tensor, parameters: Parameters, data: Annotations) -> Tensor:
        """Return what :meth:`tempered` takes: here the item log joint, ``(..., N, S)``."""
        return log_joint

    def tempered(
        self, log_joint: Tensor, factor: Tensor, parameters: Parameters, data: Annotations, lift: Tensor | None = None
    ) -> Tensor:
        """As :meth:`Classes.tempered`, of the likelihood alone: the spread of the items is not that of correlated errors."""
        log_prior = self._model.log_truth(parameters, data)
        log_prior = log_prior.unsqueeze(-2) if log_prior.dim() < log_joint.dim() else log_prior
        states = (log_prior + (log_joint - log_prior) / factor.unsqueeze(-1)).softmax(-1)
        return self.by_class(states, parameters, data)

    averaged = averaged_one_by_one

    def prevalence(self, parameters: Parameters, data: Annotations, lead: Sequence[int] = ()) -> Tensor:
        """As :meth:`Classes.prevalence`."""
        states = self._model.log_truth(parameters, data).exp()
        same = states.dim() <= len(lead) + 1  # one prior for all items
        probability = (states.unsqueeze(-2) if same else states) @ self.reading(parameters, data)
        return _of_items(probability.squeeze(-2) if same else probability, data, lead)

    def _averaged(self, table: Tensor, parameters: Parameters, data: Annotations) -> Tensor:
        return self._states_of_class(parameters, data).unsqueeze(-3) @ table

    def _averaged_each(self, each: Tensor, parameters: Parameters, data: Annotations) -> Tensor:
        return self._states_of_class(parameters, data) @ each

    def _states_of_class(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the probability of each state given the class that is read off it, ``(..., K, S)``."""
        prior = self._model.log_truth(parameters, data).exp()
        joint = self.reading(parameters, data).mT * prior.unsqueeze(-2)
        return joint / joint.sum(-1, keepdim=True)
