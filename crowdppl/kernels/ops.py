"""Operations on arrays of items, workers, states and labels that engines and models share."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdppl.isolation import threads_outside

# Numbers of a table processed at once, so that one step finds in the caches what the step before has written: 2 MiB of doubles.
BLOCK = 2**18
# Sums over at most FEW_LABELS labels are computed as matrix products, for tables of at least MANY_NUMBERS numbers.
FEW_LABELS, MANY_NUMBERS = 4, 2**14
# Gamma variables drawn by one thread at a time; fewer are left to torch.
GAMMA_BLOCK = 2**15


def sum_by(index: Tensor, values: Tensor, size: int) -> Tensor:
    """Sum rows of ``values`` ``(A, ...)`` that share an ``index`` ``(A,)``: ``(size, ...)``."""
    out = torch.zeros(size, *values.shape[1:], dtype=values.dtype, device=values.device)
    return out.index_add(0, index, values)


def normalise(log_joint: Tensor, *, overwrite: bool = False) -> tuple[Tensor, Tensor]:
    """Split ``L`` into marginal and responsibilities.

    Args:
        log_joint: ``log p(labels_i, truth_i = k)``, ``(..., N, K)``.
        overwrite: write the responsibilities into the memory of ``log_joint``.

    Returns:
        ``logsumexp_k L`` ``(..., N)`` and ``softmax_k L`` ``(..., N, K)``, from one pass of exponentials.
    """
    top = log_joint.amax(-1, keepdim=True)
    weight = (log_joint.sub_(top) if overwrite else log_joint - top).exp_()
    total = weight.sum(-1, keepdim=True)
    return (top + total.log()).squeeze(-1), weight.div_(total)


def anchored(log_joint: Tensor, anchor: Tensor) -> tuple[Tensor, Tensor]:
    """Split ``L`` into an objective and responsibilities where a share of each item's class is taken from elsewhere.

    With ``a_ik`` the anchor and ``b_i = 1 - sum_k a_ik``, the objective is
    ``b_i log p(labels_i) + sum_k a_ik log p(labels_i, class k)``. Its derivatives with respect to ``L`` are the
    responsibilities: those of the posterior with weight ``b_i``, those of the posterior given class ``k`` with weight ``a_ik``.

    Args:
        log_joint: ``(..., N, S)`` with ``S = K M`` states, those of a class together.
        anchor: ``(N, K)``, not negative, with row sums of at most 1, and 0 where a known truth excludes a class.

    Returns:
        The objective ``(..., N)`` and the responsibilities ``(..., N, S)``.
    """
    # An impossible class stays finite, so that neither its states nor their gradients are NaN; its share is zero.
    finite = log_joint.clamp(min=torch.finfo(log_joint.dtype).min / 4)
    by_class = finite.unflatten(-1, (anchor.shape[-1], -1))  # (..., N, K, M)
    class_joint = by_class.logsumexp(-1)  # (..., N, K)
    free = 1 - anchor.sum(-1)
    total = class_joint.logsumexp(-1)
    objective = free * total + torch.where(anchor > 0, anchor * class_joint, 0.0).sum(-1)
    mixed = free.unsqueeze(-1) * (class_joint - total.unsqueeze(-1)).exp() + anchor
    within = (by_class - class_joint.unsqueeze(-1)).exp()
    return objective, (within * mixed.unsqueeze(-1)).flatten(-2)


def above_zero(values: Tensor) -> Tensor:
    """Raise zeros to the smallest positive number of the type, for divisors and arguments of logarithms."""
    return values.clamp(min=torch.finfo(values.dtype).tiny)


def synchronises(values: Tensor) -> bool:
    """Return whether reading a number waits for the device to finish all earlier work, as on a GPU."""
    return values.device.type != "cpu"


def is_mapped(values: Tensor) -> bool:
    """Return whether a tensor stands for others, as in functions that torch.func maps or derives: no number can be read."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(values))


def read(*values: Tensor) -> list[Any]:
    """Return numbers, or vectors of one length, as Python's; from a GPU by one transfer."""
    if synchronises(values[0]):
        return list(torch.stack([value.double() for value in values]).tolist())
    return [value.tolist() for value in values]


def blocks(table: Tensor) -> tuple[Tensor, ...]:
    """Split ``(..., J, S, K)`` into views of blocks of workers that fit in the caches; on a GPU, or for gradients, into one."""
    if synchronises(table) or table.requires_grad or table.numel() <= BLOCK:
        return (table,)
    return table.split(max(1, BLOCK * table.shape[-3] // table.numel()), -3)


def summed_logs(table: Tensor) -> Tensor:
    """Sum logs of probabilities ``(..., J, S, K)`` over workers, ``(..., S, K)``.

    Logarithms are taken of products of eight, where these do not underflow: one takes as long as many multiplications.
    """
    if (
        synchronises(table) or table.requires_grad or table.numel() <= BLOCK // 8
    ):  # calls cost more than a few logarithms
        return table.log().sum(-3)
    total = table.new_zeros(*table.shape[:-3], *table.shape[-2:])
    for block in blocks(table):
        J = block.shape[-3]
        whole = J // 8 * 8 if J >= 8 and block.amin().item() > torch.finfo(table.dtype).tiny ** (1 / 8) else 0
        if whole:
            product = block[..., :whole, :, :]
            for _ in range(3):
                one, other = product.chunk(2, -3)
                product = one * other
            total += product.log().sum(-3)
        if whole < J:
            total += block[..., whole:, :, :].log().sum(-3)
    return total


def label_shares(counts: Tensor, pseudo_counts: Tensor | None = None) -> Tensor:
    """Add pseudo-counts ``(S, K)`` to counts ``(..., J, S, K)`` and normalise these over labels, in place.

    A row without counts and pseudo-counts becomes uniform.
    """
    for block in blocks(counts):
        _shares(block, pseudo_counts)
    return counts


def _shares(counts: Tensor, pseudo_counts: Tensor | None) -> None:
    S, K = counts.shape[-2:]
    by_label = counts.transpose(-1, -2)  # the memory order of counts after a pass over annotations
    if K <= FEW_LABELS and counts.numel() >= MANY_NUMBERS and by_label.is_contiguous() and not synchronises(counts):
        # Sums over few numbers each, and quotients by them, are slow in torch; as products with ones they are fast.
        flat, summing = by_label.view(-1, K * S), _summing(S, K, counts.dtype, counts.device)
        if pseudo_counts is not None:
            flat += pseudo_counts.T.flatten()
        total = flat @ summing
        if bool((total == 0).any()):
            flat += (total == 0).to(flat) @ summing.T
            total = flat @ summing
        flat.div_(total @ summing.T)
        return
    if pseudo_counts is not None:
        counts += pseudo_counts
    total = counts.sum(-1, keepdim=True)
    empty = total == 0
    if synchronises(counts) or bool(empty.any()):
        counts += empty
        total = counts.sum(-1, keepdim=True)
    counts.div_(total)


@lru_cache(maxsize=64)
def _summing(S: int, K: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the matrix ``(K*S, S)`` that sums numbers ``(..., K*S)``, ordered by label and state, over labels."""
    with torch.inference_mode(False):  # it is cached, also for use outside of inference mode
        return torch.eye(S, dtype=dtype, device=device).repeat(K, 1)


def sample_dirichlet(concentration: Tensor) -> Tensor:
    """Draw from Dirichlet distributions along the last axis ``(..., K)``, as normalised gamma variables."""
    many = concentration.dim() > 2 and concentration.numel() > GAMMA_BLOCK
    if many and not synchronises(concentration) and concentration.dtype in (torch.float64, torch.float32):
        return label_shares(_many_gammas(concentration))
    gamma = torch._standard_gamma(concentration)
    return gamma.div_(gamma.sum(-1, keepdim=True))


def _many_gammas(shape: Tensor) -> Tensor:
    """Draw gamma variables of rate one and shapes ``(..., S, K)``; this takes one number from torch's random stream.

    Torch draws one after the other on the CPU. Numpy takes half the time for each, and blocks are drawn in parallel, each from a
    stream of its own, so that the numbers do not depend on the number of threads.
    """
    seed = int(torch.empty((), dtype=torch.int64).random_())
    # In the memory order of counts after a pass over annotations, or any other.
    by_label = shape.transpose(-1, -2)
    transposed = by_label.is_contiguous()
    shapes = by_label if transposed else shape.contiguous()
    gammas, least = torch.empty_like(shapes), torch.finfo(shape.dtype).tiny

    def draw(number: int, block: Tensor, result: Tensor) -> None:
        out = result.numpy()
        np.random.default_rng([seed, number]).standard_gamma(block.numpy(), dtype=out.dtype, out=out)
        np.maximum(out, least, out=out)  # as torch does: gamma variables of small shapes may underflow

    blocks, results = (part.view(-1).split(GAMMA_BLOCK) for part in (shapes, gammas))
    with ThreadPoolExecutor(threads_outside()) as threads:
        list(threads.map(draw, range(len(blocks)), blocks, results))
    return gammas.transpose(-1, -2) if transposed else gammas


def times_log(votes: Tensor, log_table: Tensor) -> Tensor:
    """Sum log-probabilities over votes: ``(N, K)`` votes and ``(..., S, K)`` logs give ``(..., N, S)``.

    Zero votes times minus infinity count as zero.
    """
    if log_table.requires_grad or bool(log_table.isfinite().all()):
        return votes @ log_table.transpose(-1, -2)
    counts = votes.unsqueeze(-2)  # (N, 1, K)
    return torch.where(counts > 0, counts * log_table.unsqueeze(-3), 0.0).sum(-1)
