"""Votes weighted by the workers' competence, which is learned from their agreement with each other.

The model behind the weights is a logistic form of MACE (D. Hovy, T. Berg-Kirkpatrick, A. Vaswani and E. Hovy (2013),
Learning whom to trust with MACE, NAACL-HLT, 1120-1130): a worker of competence ``a_j`` gives the label of the true class with
log odds ``a_j`` above a distribution of the worker's own, by which a worker of competence 0, a spammer, always answers::

    truth        z_i             ~ Categorical(p)
    competence   a_j             ~ Normal(mu, s^2)       mu and s learned from the crowd
    preference   b_jl            ~ Normal(0, 1)          for each label
    label        y_n | z_i = k   ~ Categorical(softmax_l(a_j [l = k] + b_jl))

Classes cannot change their meaning here, since all that distinguishes them is which label is correct. The mode is found by
EM; mean and standard deviation of the crowd's competence are those of its approximate marginal likelihood (Laplace).

Where two groups of workers contradict each other, either may be the competent one: EM that starts from the votes of those whom
its first solution trusts least then ends elsewhere, in :func:`rival_votes`. The likelihood then prefers those who agree most with
each other, who may be few: workers who always name the class after the true one agree perfectly. By the first solution most of
the annotations are then by adversarial workers, who are correct less often than by chance, and their errors lie mostly on one
class for each true class, as those of competent workers do in the eyes of workers who permute the classes. People seldom are
adversarial: the other solution is taken if by it fewer annotations are by adversarial workers than by competent ones. Adversarial
workers who name any incorrect class give no other solution, however many they are: there the first one stands.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.kernels.ops import above_zero, normalise, sum_by, synchronises
from crowdppl.model.step_shares import first_not_worse

# Standard deviation of the preference for a label, and the mean and standard deviation of competence that learning starts from.
PREFERENCE = 1.0
START = (2.0, 2.0)
# Largest number of EM steps, and the relative gain of the log-likelihood at which they end.
STEPS, GAIN = 100, 1e-7
# Newton steps in each M step, and how often one is shortened until the objective rises.
NEWTON, SHORTER = 4, 6
# Largest change in a Newton step, the share of it that is tried first, and by how much less an objective may be: rounding.
LONGEST, FIRST_SHARE, SLACK = 2.0, 0.7, 1e-9
# EM steps before their log-likelihoods are read, where a read waits for a device.
AHEAD = 10
# From so many annotations on the steps are compiled, as are then those of the models that begin with these votes.
COMPILED = 1500
# Smallest weight of a worker: an item that spammers alone annotated still has their votes.
LEAST = 0.02
# A worker is adversarial, or competent, whose accuracy is less than chance, or more, by such a share of chance.
AGAINST = 0.25
# By a solution most workers are adversarial if their annotations exceed those of competent workers by such a share of all; less
# is noise. Their errors are concentrated from the middle, 1/2, between errors spread evenly and a permutation of the classes.
EXCESS, PERMUTED = 0.05, 0.5
# EM steps after which rival votes are compared with the first ones, and the share of items that must differ.
COMPARED, RIVAL = 5, 0.1


def competence_weights(data: Annotations) -> Tensor:
    """Return each worker's chance-corrected accuracy ``(J,)``, from ``LEAST`` to 1: 0 where labels say nothing about the truth.

    The mean over classes of the probability of the correct label, minus ``1 / K``, over ``1 - 1 / K``.
    """
    first = _last(_learned(data, data.majority()))
    # The votes are needed, and the device read once more, only where most workers are adversarial.
    if adversarial_excess(first, data) > EXCESS * data.A:
        votes = _shares(data, first.clamp(min=LEAST))
        if _concentrated(first, votes, data):
            other = _last(_learned(data, opposing_votes(data, votes)))
            if adversarial_excess(other, data) < 0:
                first = other
    return first.clamp(min=LEAST)


def _last(steps: Iterator[Tensor]) -> Tensor:
    return deque(steps, maxlen=1)[0]


def adversarial_excess(competence: Tensor, data: Annotations) -> int:
    """Return how many more annotations are by adversarial workers than by competent ones.

    Args:
        competence: chance-corrected accuracies, ``(J,)``.
        data: the annotations.
    """
    margin = _margin(data)
    side = (competence < -margin).long() - (competence > margin).long()
    return int((side * data.annotations_per_worker).sum())


def mostly_adversarial(data: Annotations, probability: Tensor) -> bool:
    """Tell whether by a solution most annotations are by adversarial workers, as where they permute the classes.

    Args:
        data: the annotations.
        probability: of each class for each item, ``(N, K)``, by the solution.
    """
    competence = agreement_above_chance(data, probability)
    return adversarial_excess(competence, data) > EXCESS * data.A and _concentrated(competence, probability, data)


def _margin(data: Annotations) -> float:
    return AGAINST / max(data.K - 1, 1)


def _concentrated(competence: Tensor, probability: Tensor, data: Annotations) -> bool:
    """Tell whether the errors of adversarial workers lie mostly on one class for each true class.

    Of their errors, the share of the most frequent one of each class is about ``1 / (K - 1)`` where they name any other class,
    and 1 where they permute the classes. Competent workers of accuracy ``a`` who err evenly seem to have the share
    ``a / (a + (1 - a) (K - 2) / (K - 1))`` by a solution that is a permutation of the truth.
    """
    K = data.K
    if K == 2:
        return True
    by = (competence < -_margin(data)).to(data.dtype)[data.worker]
    pair = probability.argmax(-1)[data.item] * K + data.label
    errors = sum_by(pair, by, K * K).view(K, K).fill_diagonal_(0)
    even = 1 / (K - 1)
    return float(errors.amax(-1).sum() / above_zero(errors.sum())) > even + PERMUTED * (1 - even)


def weighted_votes(data: Annotations) -> Tensor:
    """Return vote shares ``(N, K)`` with each worker's votes weighted by competence.

    Uniform for items without annotations, one-hot for known truths.
    """
    return data.majority() if data.A == 0 else _shares(data, competence_weights(data))


def opposing_votes(data: Annotations, probability: Tensor) -> Tensor:
    """Return vote shares ``(N, K)`` in which workers weigh the more, the less they agree with a solution.

    The start of a search for another solution: where two groups of workers contradict each other, it is near that of the other
    group; where most agree, EM returns from it to the solution it opposes.

    Args:
        data: the annotations.
        probability: of each class for each item, ``(N, K)``, by the solution.
    """
    return _shares(data, 1 + LEAST - agreement_above_chance(data, probability).clamp(0, 1))


def agreement_above_chance(data: Annotations, probability: Tensor) -> Tensor:
    """Return the chance-corrected share of each worker's labels, ``(J,)``, that agree with class probabilities ``(N, K)``."""
    number = data.annotations_per_worker.clamp(min=1).to(data.dtype)
    return _above_chance(sum_by(data.worker, probability[data.item, data.label], data.J) / number, data.K)


def rival_votes(data: Annotations, votes: Tensor) -> Tensor | None:
    """Return weighted votes of another solution for the weights, ``(N, K)``; ``None`` where EM finds the same one again.

    Args:
        data: the annotations.
        votes: those of the first solution, ``(N, K)``.
    """
    if data.A == 0:
        return None
    first = votes.argmax(-1)
    for step, competence in enumerate(_learned(data, opposing_votes(data, votes))):
        # Where there is one solution only, the first steps already return to it.
        if step % COMPARED == COMPARED - 1 and not _differ(_shares(data, competence.clamp(min=LEAST)), first):
            return None
    rival = _shares(data, competence.clamp(min=LEAST))
    return rival if _differ(rival, first) else None


def _differ(votes: Tensor, first: Tensor) -> bool:
    return bool((votes.argmax(-1) != first).double().mean() > RIVAL)


@cache
def _kernel() -> Any:
    """Return the compiled step, or ``None`` where nothing can be compiled."""
    try:
        from crowdppl.kernels.votes import learning  # here: slow to import

        return learning()
    except (ImportError, OSError, RuntimeError):
        return None


def _learned(data: Annotations, r: Tensor) -> Iterator[Tensor]:
    """Yield the workers' chance-corrected accuracies after each EM step from responsibilities ``(N, K)``."""
    real = data.device.type == "cpu" and data.dtype == torch.float64
    few = data.A < COMPILED or np.iinfo(np.int16).max < data.K
    if real and data.in_full and not few and _kernel() is not None:
        return _compiled_steps(data, r)
    return _steps(data, r)


def _compiled_steps(data: Annotations, r: Tensor) -> Iterator[Tensor]:
    """Take the steps of :func:`_steps` by the compiled function."""
    from crowdppl.kernels.items import width_of  # here: slow to import

    J, K, W = data.J, data.K, int(width_of(data.K))
    start = np.zeros(data.N + 1, dtype=np.uint64)
    np.cumsum(data.annotations_per_item.numpy(), out=start[1:])
    code = data.worker * K + data.label
    column, known = code.numpy().astype(np.uint32), data.truth.numpy().astype(np.int16)
    counts, size, table = np.zeros((J * K, W)), np.zeros(W), np.zeros((J * K, W))
    counts[:, :K], size[:K] = sum_by(code, r[data.item], J * K).numpy(), r.sum(0).numpy()
    a, b, crowd, correct = np.full(J, START[0]), np.zeros((J, K)), np.array([START[0], START[1] ** 2]), np.empty(J)
    earlier = None
    for _ in range(STEPS):
        now = _kernel()(start, column, known, counts, size, a, b, crowd, table, correct)
        yield _above_chance(torch.from_numpy(correct.copy()), K)
        if earlier is not None and abs(now - earlier) < GAIN * abs(now):
            break
        earlier = now


def _steps(data: Annotations, r: Tensor) -> Iterator[Tensor]:
    """Take the steps in torch, and end where the log-likelihood no longer gains.

    Where reading a number has the host wait for the device, several steps are taken before their log-likelihoods are read; those
    after the end are dropped.
    """
    ahead = AHEAD if synchronises(r) else 1
    earlier, steps = None, _endless_steps(data, r)
    for _ in range(STEPS // ahead):
        taken = list(islice(steps, ahead))
        for (weight, _), now in zip(taken, torch.stack([marginal for _, marginal in taken]).tolist(), strict=True):
            yield weight
            if earlier is not None and abs(now - earlier) < GAIN * abs(now):
                return
            earlier = now


def _endless_steps(data: Annotations, r: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the workers' chance-corrected accuracies and the log-likelihood after each step."""
    J, K = data.J, data.K
    eye = torch.eye(K, dtype=data.dtype, device=data.device)
    mean, variance = eye.new_tensor(START[0]), eye.new_tensor(START[1] ** 2)
    a, b = mean.expand(J), eye.new_zeros(J, K)
    while True:
        prevalence = r.sum(-2) + 1
        counts = data.counts.expected(r)  # (J, K, K)
        total = counts.sum(-1)  # (J, K)
        for _ in range(NEWTON):
            p = _table(a, b, eye)
            correct = p.diagonal(dim1=-2, dim2=-1)  # (J, K)
            slope_a = (counts.diagonal(dim1=-2, dim2=-1) - total * correct).sum(-1) - (a - mean) / variance
            curve_a = (total * correct * (1 - correct)).sum(-1) + 1 / variance
            slope_b = (counts - total.unsqueeze(-1) * p).sum(-2) - b / PREFERENCE**2
            # Twice the diagonal bounds the matrix of second derivatives of a softmax.
            curve_b = 2 * (total.unsqueeze(-1) * p * (1 - p)).sum(-2) + PREFERENCE**-2
            a, b = _raised(a, b, (slope_a / curve_a), slope_b / curve_b, counts, mean, variance, eye)
        mean = (a.sum() + START[0]) / (J + 1)
        variance = (((a - mean) ** 2 + 1 / curve_a).sum() + 2) / (J + 2)
        table = _table(a, b, eye)
        weight = _above_chance(table.diagonal(dim1=-2, dim2=-1).mean(-1), K)
        joint = data.counts.log_likelihoods(table.log()).add_((prevalence / prevalence.sum()).log())
        marginal, r = normalise(joint if data.clamp is None else joint.add_(data.clamp), overwrite=True)
        yield weight, marginal.sum()


def _above_chance(accuracy: Tensor, K: int) -> Tensor:
    return (accuracy - 1 / K) / (1 - 1 / K)


def _shares(data: Annotations, weight: Tensor) -> Tensor:
    """Return vote shares ``(N, K)`` with votes weighted by worker, ``(J,)``."""
    votes = sum_by(data.item * data.K + data.label, weight[data.worker], data.N * data.K).view(data.N, data.K)
    total = votes.sum(-1, keepdim=True)
    share = torch.where(total > 0, votes / above_zero(total), 1 / data.K)
    known = data.truth >= 0
    share[known] = torch.nn.functional.one_hot(data.truth[known], data.K).to(data.dtype)
    return share


def _table(a: Tensor, b: Tensor, eye: Tensor) -> Tensor:
    """Return ``p(label | truth, worker)``, ``(J, K, K)``."""
    return (a[:, None, None] * eye + b.unsqueeze(-2)).softmax(-1)


def _raised(
    a: Tensor,
    b: Tensor,
    step_a: Tensor,
    step_b: Tensor,
    counts: Tensor,
    mean: Tensor,
    variance: Tensor,
    eye: Tensor,
) -> tuple[Tensor, Tensor]:
    """Take a worker's Newton step ``(J,)``, ``(J, K)``, shortened until the worker's log joint does not fall."""

    def objective(a: Tensor, b: Tensor) -> Tensor:
        fit = (counts * (a[..., None, None] * eye + b.unsqueeze(-2)).log_softmax(-1)).sum((-2, -1))
        return fit - (a - mean) ** 2 / (2 * variance) - (b / PREFERENCE).square().sum(-1) / 2

    step_a, step_b = step_a.clamp(-LONGEST, LONGEST), step_b.clamp(-LONGEST, LONGEST)

    def moved(size: Tensor) -> tuple[Tensor, Tensor]:
        return a + size * step_a, b + size.unsqueeze(-1) * step_b

    size = first_not_worse(lambda size: objective(*moved(size)), objective(a, b) - SLACK, FIRST_SHARE, SHORTER)
    return moved(size)
