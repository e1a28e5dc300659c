"""What models of the zoo share: pseudo-counts on top of a flat Dirichlet, one prevalence, symmetric tables of errors."""

from __future__ import annotations

import math

import pyro
import torch
from pyro.distributions import Categorical, Dirichlet
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.model.base import Parameters


class CommonPrevalence:
    """The truth of models in which all items have one distribution of classes: the site ``prevalence``, ``(K,)``."""

    def truth(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return Categorical(prevalence), the same for all items."""
        return Categorical(parameters["prevalence"])

    def log_truth(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return log prevalence ``(..., K)``: minus infinity for an empty class, where torch's Categorical has -36."""
        return parameters["prevalence"].log()


def class_prior(data: Annotations, items: float) -> Tensor:
    """Return the Dirichlet concentration of a prevalence, ``(K,)``: ``items`` pseudo-items of each class on a flat prior."""
    return torch.full((data.K,), 1 + items, dtype=data.dtype, device=data.device)


def prevalence_prior(data: Annotations, items: float | None) -> Parameters:
    """Sample the prevalence ``(K,)`` and return it by name; nothing where classes are equally common (``items`` is ``None``)."""
    return {} if items is None else {"prevalence": pyro.sample("prevalence", Dirichlet(class_prior(data, items)))}


def log_prevalence(parameters: Parameters, data: Annotations) -> Tensor:
    """Return log-probabilities of the classes, ``(..., K)``: equal ones where the prevalence is no parameter."""
    if "prevalence" in parameters:
        return parameters["prevalence"].log()
    return torch.full((data.K,), -math.log(data.K), dtype=data.dtype, device=data.device)


def confusion_prior(data: Annotations, correct: float, incorrect: float) -> Tensor:
    """Return Dirichlet concentrations of confusion rows, ``(K, K)`` = (true label, given label).

    Args:
        data: gives ``K``, type and device.
        correct: correct pseudo-annotations of every class, on top of a flat prior.
        incorrect: incorrect pseudo-annotations of every class, shared evenly by the incorrect labels.
    """
    table = torch.full((data.K, data.K), 1 + incorrect / max(1, data.K - 1), dtype=data.dtype, device=data.device)
    return table.fill_diagonal_(1 + correct)


def symmetric_confusion(correct: Tensor, K: int) -> Tensor:
    """Return ``p(label | truth)``, ``(..., K, K)``: ``correct`` on the diagonal, the rest spread evenly over the other labels.

    Args:
        correct: probability of the correct label, ``(..., K)`` by class, or ``(..., 1)`` for all classes.
        K: number of classes.
    """
    eye = torch.eye(K, dtype=correct.dtype, device=correct.device)
    return correct.unsqueeze(-1) * eye + (1 - correct).unsqueeze(-1) / max(1, K - 1) * (1 - eye)


def correct_and_incorrect(counts: Tensor) -> Tensor:
    """Return correct and incorrect annotations by class, ``(..., K, 2)``, of counts ``(..., K, K)`` = (true, given label)."""
    correct = torch.diagonal(counts, dim1=-2, dim2=-1)
    return torch.stack([correct, (counts.sum(-1) - correct).clamp(min=0)], -1)
