"""Labels that are never a true label, beside any model of the classes.

A worker first says whether they name a class at all, and which other label they give if not, at rates of their own that may
depend on the true class. The class that they name follows the model:

    eta_jk      ~ Dirichlet(1 + s r_k)                            (O + 1,)  a class, or one of O other labels
    p(answer is other label o | truth = k, worker j) = eta_jko
    p(answer is class l       | truth = k, worker j) = eta_jk0 p(l | truth = k, worker j)

The likelihood of an item is the model's own, of the labels that are classes, times that of the kinds of its answers. ``r_k`` are
the rates of the crowd, by a model in which all workers are alike, and ``s`` is the number of pseudo-annotations that they are
worth. A worker who gives no label at all does not answer, which is no evidence.
"""

from __future__ import annotations

import math

import pyro
import torch
from pyro.distributions import Dirichlet
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.kernels.ops import sample_dirichlet
from crowdppl.model.plates import Plates

# Name and axes of the site.
SITE, DIMS = "other_rate", ("worker", "true_label", "answer")
# Pseudo-annotations of the crowd that each row of a worker starts with; and those of all items, with which a class starts.
STRENGTH, START = 2.0, 4.0
# Steps of EM for the crowd's rates; accuracy from which they begin, and between which it stays.
STEPS, ACCURACY, LEAST, MOST = 30, 0.7, 0.55, 0.98


class OtherRates:
    """The rates of other labels for one fit.

    Args:
        data: with other labels.

    Attributes:
        crowd: rates of the crowd, ``(K, O+1)``, by which rows of workers are distributed.
    """

    def __init__(self, data: Annotations):
        self.crowd, self.workers = crowd_rates(data), data.J

    @property
    def concentration(self) -> Tensor:
        """Of the prior of each worker's rows, ``(K, O+1)``."""
        return 1 + STRENGTH * self.crowd

    def sample(self, plates: Plates) -> Tensor:
        """Sample the site, ``(J, K, O+1)``."""
        rows = Dirichlet(self.concentration).expand([self.workers, len(self.crowd)]).to_event(1)
        with plates.worker:
            return torch.as_tensor(pyro.sample(SITE, rows))

    def log_prior(self, rates: Tensor) -> Tensor:
        """Return the log density of rates ``(..., J, K, O+1)``, ``(...)``."""
        return Dirichlet(self.concentration, validate_args=False).log_prob(rates).sum((-2, -1))

    def log_likelihoods(self, rates: Tensor, data: Annotations, states: int) -> Tensor:
        """Return the log probability of the kinds of an item's answers, ``(..., N, S)`` for ``states`` a class."""
        by_class = data.answers.log_likelihoods(rates.log())
        return by_class if states == 1 else by_class.repeat_interleave(states, -1)

    def mode(self, by_class: Tensor, data: Annotations) -> Tensor:
        """Return the most probable rates ``(..., J, K, O+1)`` given class probabilities ``(..., N, K)``."""
        counts = data.answers.expected(by_class) + self.concentration - 1
        return counts / counts.sum(-1, keepdim=True)

    def draw(self, by_class: Tensor, data: Annotations) -> Tensor:
        """Draw rates given drawn classes as indicators ``(C, N, K)``."""
        rows = sample_dirichlet(data.answers.expected(by_class) + self.concentration)
        return rows.clamp(min=torch.finfo(rows.dtype).tiny)


def crowd_rates(data: Annotations) -> Tensor:
    """Return the rates of the crowd by true class, ``(K, O+1)``, by EM for a model in which all workers are alike.

    A worker names the true class with the accuracy of the crowd, and any other class equally often.
    """
    N, K = data.N, data.K
    others = data.others
    assert others is not None
    votes, kinds = data.votes, 1 + len(others.names)
    cell = others.item * kinds + 1 + others.label
    answers = torch.bincount(cell, minlength=N * kinds).to(data.dtype).view(N, kinds)  # (N, O+1)
    answers[:, 0] = votes.sum(-1)
    overall = (answers.sum(0) + 1) / (answers.sum() + kinds)
    share, accuracy = data.majority(), ACCURACY
    for _ in range(STEPS):
        counts = share.mT @ answers
        rates = (counts + START * overall) / (counts.sum(-1, keepdim=True) + START)
        prevalence = (share.sum(0) + 1) / (N + K)
        odds = math.log(accuracy * max(K - 1, 1) / (1 - accuracy))
        share = (prevalence.log() + votes * odds + answers @ rates.log().mT).softmax(-1)
        known = data.truth >= 0
        share[known] = torch.nn.functional.one_hot(data.truth[known], K).to(data.dtype)
        accuracy = min(MOST, max(LEAST, float((share * votes).sum() / votes.sum())))
    return rates
