"""The sums under every engine; the only place that knows how they are done.

Where a label depends on truth and worker only, let ``M`` be the sparse ``(N, J*K)`` matrix that counts how often worker
``j`` gave label ``l`` to item ``i``, in column ``j*K + l``. Then

    evidence        = M   @ log_confusion     (N, K)
    expected_counts = M.T @ responsibility    (J*K, K)

are all that exact EM, Gibbs sampling and gradients need. Both matrices are kept in compressed rows.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from crowdppl.isolation import without_warnings

# Below this many cells a dense count matrix beats a sparse one: calling costs more than computing, and autograd and
# tracing take plain matrix products. 2^14 doubles are 128 KiB.
DENSE_CELLS = 2**14
# Numbers of a table that are gone through at once: what one step leaves in the caches the next finds there. 2 MiB of doubles.
BLOCK = 2**18
# Sums over so few labels are taken as products, where there are as many numbers as that pays for.
SHORT, MANY = 4, 2**14
# Gammas that are drawn by one thread at a time; fewer are left to torch.
DRAWN_AT_ONCE = 2**15


def sum_by(index: Tensor, values: Tensor, size: int) -> Tensor:
    """Sum rows of ``values`` ``(A, ...)`` that share an ``index`` ``(A,)``: ``(size, ...)``."""
    out = torch.zeros(size, *values.shape[1:], dtype=values.dtype, device=values.device)
    return out.index_add(0, index, values)


def normalise(log_joint: Tensor, *, overwrite: bool = False) -> tuple[Tensor, Tensor]:
    """Split ``L`` into marginal and responsibilities.

    Args:
        log_joint: ``log p(labels_i, truth_i = k)``, ``(..., N, K)``.
        overwrite: write the responsibilities into its memory.

    Returns:
        ``logsumexp_k L`` ``(..., N)`` and ``softmax_k L`` ``(..., N, K)``, from one pass of exponentials.
    """
    top = log_joint.amax(-1, keepdim=True)
    weight = (log_joint.sub_(top) if overwrite else log_joint - top).exp_()
    total = weight.sum(-1, keepdim=True)
    return (top + total.log()).squeeze(-1), weight.div_(total)


def above_zero(values: Tensor) -> Tensor:
    """Lift zeros to the smallest positive number of the type: a divisor, or under a logarithm, that stands for "nothing"."""
    return values.clamp(min=torch.finfo(values.dtype).tiny)


def waits(values: Tensor) -> bool:
    """Tell whether reading a number waits for the device to do all work before it: on a GPU."""
    return values.device.type != "cpu"


def read(*values: Tensor) -> list[Any]:
    """Bring numbers, or vectors of one length, to the host as Python's; where that waits, all at once."""
    if waits(values[0]):
        return list(torch.stack([value.double() for value in values]).tolist())
    return [value.tolist() for value in values]


def blocks(table: Tensor) -> tuple[Tensor, ...]:
    """Split ``(..., J, S, K)`` into views of blocks of workers that the caches hold; on a GPU, or for gradients, into one."""
    if waits(table) or table.requires_grad or table.numel() <= BLOCK:
        return (table,)
    return table.split(max(1, BLOCK * table.shape[-3] // table.numel()), -3)


def summed_logs(table: Tensor) -> Tensor:
    """Sum logs of probabilities ``(..., J, S, K)`` over workers, ``(..., S, K)``.

    Of products of eight, where these have all their digits: a logarithm takes as long as many multiplications.
    """
    if waits(table) or table.requires_grad or table.numel() <= BLOCK // 8:  # a few calls cost more than a few logs
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


def label_shares(counts: Tensor, imaginary: Tensor | None = None) -> Tensor:
    """Add imaginary counts ``(S, K)`` to counts ``(..., J, S, K)`` and normalise these over labels, in their own memory.

    A row without any count, real or imaginary, says nothing and is uniform.
    """
    for block in blocks(counts):
        _shares(block, imaginary)
    return counts


def _shares(counts: Tensor, imaginary: Tensor | None) -> None:
    S, K = counts.shape[-2:]
    by_label = counts.transpose(-1, -2)  # as counts lie in memory after a pass over annotations
    if K <= SHORT and counts.numel() >= MANY and by_label.is_contiguous() and not waits(counts):
        # Sums over few numbers each, and quotients by them, take torch long; as products with ones they do not.
        flat, summing = by_label.view(-1, K * S), _summing(S, K, counts.dtype, counts.device)
        if imaginary is not None:
            flat += imaginary.T.flatten()
        total = flat @ summing
        if bool((total == 0).any()):
            flat += (total == 0).to(flat) @ summing.T
            total = flat @ summing
        flat.div_(total @ summing.T)
        return
    if imaginary is not None:
        counts += imaginary
    total = counts.sum(-1, keepdim=True)
    empty = total == 0
    if waits(counts) or bool(empty.any()):
        counts += empty
        total = counts.sum(-1, keepdim=True)
    counts.div_(total)


@lru_cache(maxsize=64)
def _summing(S: int, K: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return ``(K*S, S)``, by which numbers that lie by label and state ``(..., K*S)`` are summed over labels."""
    with torch.inference_mode(False):  # it is kept, for uses of every kind
        return torch.eye(S, dtype=dtype, device=device).repeat(K, 1)


def sample_dirichlet(concentration: Tensor) -> Tensor:
    """Draw from Dirichlets along the last axis: gammas, normalised; without the cost of making a distribution object."""
    many = concentration.dim() > 2 and concentration.numel() > DRAWN_AT_ONCE
    if many and not waits(concentration) and concentration.dtype in (torch.float64, torch.float32):
        return label_shares(_many_gammas(concentration))
    gamma = torch._standard_gamma(concentration)
    return gamma.div_(gamma.sum(-1, keepdim=True))


def _many_gammas(shape: Tensor) -> Tensor:
    """Draw from gammas of rate one and shapes ``(..., S, K)``; of torch's random stream it takes one number.

    Torch draws one after the other on the CPU. Numpy takes half the time for each, and blocks are drawn side by side, each from a
    stream of its own, so that the numbers are the same however many threads there are.
    """
    seed = int(torch.empty((), dtype=torch.int64).random_())
    # In the order in which counts lie in memory after a pass over annotations, or any other.
    by_label = shape.transpose(-1, -2)
    turned = by_label.is_contiguous()
    shapes = by_label if turned else shape.contiguous()
    gammas, least = torch.empty_like(shapes), torch.finfo(shape.dtype).tiny

    def draw(number: int, of: Tensor, into: Tensor) -> None:
        out = into.numpy()
        np.random.default_rng([seed, number]).standard_gamma(of.numpy(), dtype=out.dtype, out=out)
        np.maximum(out, least, out=out)  # as torch does: gammas of small shapes may have no digits

    of, into = (part.view(-1).split(DRAWN_AT_ONCE) for part in (shapes, gammas))
    with ThreadPoolExecutor(torch.get_num_threads()) as threads:
        list(threads.map(draw, range(len(of)), of, into))
    return gammas.transpose(-1, -2) if turned else gammas


def times_log(votes: Tensor, log_table: Tensor) -> Tensor:
    """Sum log-probabilities over votes: ``(N, K)`` votes and ``(..., S, K)`` logs give ``(..., N, S)``.

    No vote for the impossible (minus infinity) costs nothing.
    """
    if log_table.requires_grad or bool(log_table.isfinite().all()):
        return votes @ log_table.transpose(-1, -2)
    counts = votes.unsqueeze(-2)  # (N, 1, K)
    return torch.where(counts > 0, counts * log_table.unsqueeze(-3), 0.0).sum(-1)


class WorkerCounts:
    """The count matrix ``M`` of ``(item, worker, label)`` and its transpose, as two products.

    Args:
        item: ``(A,)`` int64.
        worker: ``(A,)`` int64.
        label: ``(A,)`` int64.
        shape: ``(N, J, K)``.
        dtype: floating type of the counts; tables and responsibilities must have the same.
        weight: of each item, ``(N,)``, its annotations are counted as so many.
    """

    def __init__(
        self,
        item: Tensor,
        worker: Tensor,
        label: Tensor,
        shape: tuple[int, int, int],
        dtype: torch.dtype,
        weight: Tensor | None = None,
    ):
        self.shape = shape
        N, J, K = shape
        column = worker * K + label
        if item.device.type == "cpu":
            self._forward, self._backward = _compressed_pair(item, column, (N, J * K), dtype, weight)
        else:
            self._forward = _compressed(item, column, (N, J * K), dtype, row_weight=weight)
            self._backward = _compressed(column, item, (J * K, N), dtype, column_weight=weight)
        self._dense = self._forward.to_dense() if N * J * K <= DENSE_CELLS else None

    @property
    def dense(self) -> bool:
        """Tell whether the data are small enough for a dense count matrix."""
        return self._dense is not None

    def evidence(self, log_table: Tensor, memory: Tensor | None = None) -> Tensor:
        """Sum each item's log-probabilities over its annotations.

        Args:
            log_table: ``log p(label = l | truth = k, worker j)``, ``(..., J, S, K)`` = (worker, truth, label); ``S`` is ``K``,
                or more where classes are split into states.
            memory: ``(N, S)`` to write the result of a single table into; see :meth:`expected` for why.

        Returns:
            ``(..., N, S)``. An impossible label (minus infinity) rules its class out.
        """
        N, J, K = self.shape
        lead, S = log_table.shape[:-3], log_table.shape[-2]
        if self._dense is not None:
            # No annotation times an impossible label is 0 times minus infinity: the sparse product never meets it.
            if waits(
                log_table
            ):  # nothing is asked: the impossible is a number below all others, and afterwards what it was
                low = -(torch.finfo(log_table.dtype).max ** 0.5)
                out = self._dense @ log_table.clamp(min=low).transpose(-1, -2).reshape(*lead, J * K, S)
                return torch.where(out < low / 2, -torch.inf, out)
            out = self._dense @ log_table.transpose(-1, -2).reshape(*lead, J * K, S)
            if log_table.requires_grad or not math.isnan(out.sum().item()):
                return out
        # Rows of the product are (worker, label), columns (leading axes, truth): all chains in one pass.
        # The lead axes go between label and truth; for a table kept as (J, L, K) in memory this copies nothing.
        table = log_table.reshape(-1, J, S, K).permute(1, 3, 0, 2).reshape(J * K, -1)
        if torch.is_grad_enabled() and table.requires_grad:
            out = _Product.apply(table, self._forward, self._backward)  # type: ignore[no-untyped-call]
        elif memory is not None and not lead:
            return torch.addmm(memory, self._forward, table, beta=0, out=memory)
        else:
            out = self._forward @ table
        return out.view(N, -1, S).transpose(0, 1).reshape(*lead, N, S)

    def expected(self, responsibility: Tensor, reuse: Tensor | None = None) -> Tensor:
        """Sum responsibilities over each worker's annotations by label.

        Args:
            responsibility: ``p(truth_i = k)``, ``(..., N, S)``.
            reuse: an earlier result nobody needs any more, whose memory is written over. Fresh megabytes at every
                iteration cost as much as the product itself: the system hands them out page by page.

        Returns:
            Expected counts ``(..., J, S, K)`` = (worker, truth, label), a view of (worker, label, truth) memory.
        """
        N, J, K = self.shape
        lead, S = responsibility.shape[:-2], responsibility.shape[-1]
        if self._dense is not None:
            return (self._dense.mT @ responsibility).view(*lead, J, K, S).transpose(-1, -2)
        flat = responsibility.reshape(-1, N, S).transpose(0, 1).reshape(N, -1)
        if reuse is not None and not lead and reuse.transpose(1, 2).is_contiguous():
            memory = reuse.transpose(1, 2).view(J * K, S)
            return torch.addmm(memory, self._backward, flat, beta=0, out=memory).view(J, K, S).transpose(1, 2)
        out = (self._backward @ flat).view(J, K, -1, S)  # (worker, label, lead, truth)
        return out.permute(2, 0, 3, 1).reshape(*lead, J, S, K) if lead else out[:, :, 0, :].transpose(1, 2)


class _Product(torch.autograd.Function):
    """``M @ table`` whose gradient is ``M.T @ gradient``: two compressed products, no transposition at run time."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, forward: Tensor, backward: Tensor) -> Tensor:
        ctx.transposed = backward
        return forward @ table

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return ctx.transposed @ gradient.contiguous(), None, None


def _compressed_pair(
    row: Tensor, column: Tensor, shape: tuple[int, int], dtype: torch.dtype, weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Count equal (row, column) pairs into a compressed-row matrix, times a weight of each row, and into its transpose.

    By counting, in linear time: sorting pairs takes ten times as long.
    """
    values = np.ones(len(row)) if weight is None else weight[row].double().numpy()
    taken = values > 0
    if not taken.all():
        # What counts for nothing is no entry: zero times minus infinity would not be a number.
        row, column, values = row[taken], column[taken], values[taken]
    made = scipy.sparse.coo_array((values, (row.numpy(), column.numpy())), shape=shape).tocsr()
    made.sum_duplicates()  # and puts columns in order
    return _as_torch(made, dtype), _as_torch(made.T.tocsr(), dtype)


def _as_torch(made: Any, dtype: torch.dtype) -> Tensor:
    # 32-bit indices are what the CPU library works on: wider ones would be converted at every product.
    index = np.int32 if max(*made.shape, made.nnz) < 2**31 else np.int64
    start, columns = (torch.from_numpy(part.astype(index)) for part in (made.indptr, made.indices))
    return _sparse(start, columns, torch.from_numpy(made.data), made.shape, dtype)


def _sparse(start: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int], dtype: torch.dtype) -> Tensor:
    # torch calls its compressed-row tensors a beta at the first one made; the products are tested here.
    with without_warnings(message="Sparse CSR tensor support is in beta", category=UserWarning):
        return torch.sparse_csr_tensor(
            start, columns, values.to(dtype), shape, dtype=dtype, device=start.device, check_invariants=True
        )


def _compressed(
    row: Tensor,
    column: Tensor,
    shape: tuple[int, int],
    dtype: torch.dtype,
    *,
    row_weight: Tensor | None = None,
    column_weight: Tensor | None = None,
) -> Tensor:
    """Count equal (row, column) pairs into a compressed-row matrix, times a weight of each row or column."""
    key, count = torch.unique(row * shape[1] + column, return_counts=True)
    rows, columns = torch.div(key, shape[1], rounding_mode="floor"), key % shape[1]
    values = count.to(dtype)
    for weight, at in ((row_weight, rows), (column_weight, columns)):
        if weight is not None:
            values = values * weight[at]
    if row_weight is not None or column_weight is not None:
        # What counts for nothing is no entry: zero times minus infinity would not be a number.
        rows, columns, values = rows[values > 0], columns[values > 0], values[values > 0]
    # 32-bit indices are what the CPU library works on: wider ones would be converted at every product.
    index = torch.int32 if max(*shape, len(values)) < 2**31 else torch.int64
    start = torch.zeros(shape[0] + 1, dtype=index, device=row.device)
    start[1:] = torch.bincount(rows, minlength=shape[0]).cumsum(0)
    return _sparse(start, columns.to(index), values, shape, dtype)
