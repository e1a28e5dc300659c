"""Building blocks of models: tables of label probabilities, ordered thresholds, communities, as the zoo has them.

All take leading axes ``...`` of workers, items, annotations or draws. [Building blocks](../guide/building-blocks.md) puts models
together from them.
"""

from __future__ import annotations

import torch
from pyro.distributions import Categorical, Dirichlet
from torch import Tensor

from crowdppl.model.correct_odds import labels_given
from crowdppl.model.populations import DirichletMixture
from crowdppl.model.priors import symmetric_confusion

__all__ = [
    "communities",
    "confusion_from_logits",
    "graded_confusion",
    "label_logits",
    "labels_given",
    "ordered_thresholds",
    "symmetric_confusion",
]


def label_logits(correct: Tensor, K: int, labels: Tensor | None = None) -> Tensor:
    """Return logits of labels under each true label, ``(..., K, K)`` = (true label, given label).

    Args:
        correct: what is added for the correct label, ``(...)``.
        K: number of classes.
        labels: what is added for each label whatever the true one, ``(..., K)``: preferences. Defaults to nothing.
    """
    eye = torch.eye(K, dtype=correct.dtype, device=correct.device)
    logits = correct[..., None, None] * eye
    return logits if labels is None else logits + labels.unsqueeze(-2)


def confusion_from_logits(correct: Tensor, K: int, labels: Tensor | None = None) -> Tensor:
    """Return ``p(label | truth)``, ``(..., K, K)``: the softmax over the labels of :func:`label_logits`, row by row.

    Args:
        correct: log odds of the correct label against each other one, ``(...)``.
        K: number of classes.
        labels: preferences for labels, ``(..., K)``. Defaults to none.
    """
    return label_logits(correct, K, labels).softmax(-1)


def ordered_thresholds(first: Tensor, log_gaps: Tensor | None = None) -> Tensor:
    """Return thresholds in order, ``(..., K - 1)``, whatever the numbers they are made from.

    Args:
        first: the lowest threshold, ``(...)``.
        log_gaps: logarithms of the distances to the next ones, ``(..., K - 2)``; ``None`` for two classes.
    """
    lowest = first.unsqueeze(-1)
    return lowest if log_gaps is None else torch.cat([lowest, lowest + log_gaps.exp().cumsum(-1)], -1)


def graded_confusion(places: Tensor, thresholds: Tensor, precision: Tensor) -> Tensor:
    """Return ``p(label | truth)`` of ordered labels, ``(..., S, K)``: a label is at least ``l`` if what is seen is above ``l``.

    ``p(label >= l | place x) = sigmoid(precision (x - threshold_l))``, the graded response model (F. Samejima 1969, Psychometrika
    Monograph 17). Differences of sigmoids are taken in a stable form.

    Args:
        places: of the true labels on the line, ``(S,)``.
        thresholds: in order, ``(..., K - 1)``.
        precision: of what is seen, ``(...)``.
    """
    distance = places.unsqueeze(-1) - thresholds.unsqueeze(-2)  # (..., S, K - 1)
    x = precision[..., None, None] * distance
    # sigmoid(u) - sigmoid(v) = sigmoid(u) sigmoid(-v) (1 - exp(v - u)), without cancellation for u > v.
    upper, lower = x[..., :-1], x[..., 1:]
    middle = torch.sigmoid(upper) * torch.sigmoid(-lower) * -torch.expm1(lower - upper)
    return torch.cat([torch.sigmoid(-x[..., :1]), middle, torch.sigmoid(x[..., -1:])], -1)


def communities(share: Tensor, concentration: Tensor) -> DirichletMixture:
    """Return the distribution of a worker's confusion matrix, of one of ``M`` communities, which is summed out.

    Its values are matrices ``(K, K)``: in ``plates.worker``, a site ``(J, K, K)``.

    Args:
        share: of the communities among workers, ``(M,)``.
        concentration: of the Dirichlet rows in each community, ``(M, K, K)``: typical rows times how alike workers are.
    """
    return DirichletMixture(Categorical(share), Dirichlet(concentration).to_event(1))
