"""The count matrix of a data set and its products, on which exact EM, Gibbs sampling and gradients rest.

Where a label depends on true label and worker only, let ``M`` be the sparse ``(N, J*K)`` matrix of how often worker ``j`` gave
label ``l`` to item ``i``, in column ``j*K + l``. Then

    log_likelihoods = M   @ log_confusion     (N, S)
    expected_counts = M.T @ responsibility    (J*K, S)

Both matrices are kept in compressed rows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from crowdppl.isolation import without_warnings
from crowdppl.kernels import ops

# Up to this many cells a dense count matrix is faster than a sparse one: calling costs more than computing, and autograd and
# tracing take plain matrix products. 2^14 doubles are 128 KiB.
DENSE_CELLS = 2**14


class WorkerCounts:
    """The count matrix ``M`` of ``(item, worker, label)`` and its transpose, with a product for each.

    Args:
        item: ``(A,)`` int64.
        worker: ``(A,)`` int64.
        label: ``(A,)`` int64.
        shape: ``(N, J, K)``.
        dtype: floating type of the counts; tables and responsibilities must have the same.
        weight: of each item, ``(N,)``, by which its annotations are multiplied.
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
        """Return whether the data are small enough for a dense count matrix."""
        return self._dense is not None

    def log_likelihoods(self, log_table: Tensor, memory: Tensor | None = None) -> Tensor:
        """Sum each item's log-probabilities over its annotations.

        Args:
            log_table: ``log p(label = l | truth = k, worker j)``, ``(..., J, S, K)`` = (worker, truth, label); ``S`` is ``K``,
                or more where classes are split into states.
            memory: ``(N, S)`` for the result of a single table; see :meth:`expected` for the reason.

        Returns:
            ``(..., N, S)``. An impossible label (minus infinity) excludes its class.
        """
        N, J, K = self.shape
        lead, S = log_table.shape[:-3], log_table.shape[-2]
        if self._dense is not None:
            # Zero annotations times an impossible label is not a number; the sparse product has no such entries.
            mapped = ops.is_mapped(log_table)
            if ops.synchronises(log_table) or (mapped and not log_table.requires_grad):
                # No check: impossible labels get a value below all others, and are restored after.
                low = -(torch.finfo(log_table.dtype).max ** 0.5)
                out = self._dense @ log_table.clamp(min=low).transpose(-1, -2).reshape(*lead, J * K, S)
                return torch.where(out < low / 2, -torch.inf, out)
            out = self._dense @ log_table.transpose(-1, -2).reshape(*lead, J * K, S)
            if log_table.requires_grad or not math.isnan(out.sum().item()):
                return out
        # Rows of the product are (worker, label), columns (leading axes, truth): all chains in one pass.
        # The leading axes go between label and truth; for a table that is (J, L, K) in memory this copies nothing.
        table = log_table.reshape(-1, J, S, K).permute(1, 3, 0, 2).reshape(J * K, -1)
        if ops.is_mapped(table) or (torch.is_grad_enabled() and table.requires_grad):
            out = _Product.apply(table, _Pair(self._forward, self._backward))  # type: ignore[no-untyped-call]
        elif memory is not None and not lead:
            return torch.addmm(memory, self._forward, table, beta=0, out=memory)
        else:
            out = self._forward @ table
        return out.view(N, -1, S).transpose(0, 1).reshape(*lead, N, S)

    def expected(self, responsibility: Tensor, reuse: Tensor | None = None) -> Tensor:
        """Sum responsibilities over each worker's annotations by label.

        Args:
            responsibility: ``p(truth_i = k)``, ``(..., N, S)``.
            reuse: an earlier result that is no longer needed, whose memory is overwritten. New megabytes at every
                iteration cost as much as the product itself, since the system allocates them page by page.

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


class _Pair:
    """A compressed matrix and its transpose, which function transforms leave alone."""

    def __init__(self, matrix: Tensor, transposed: Tensor):
        self.matrix, self.transposed = matrix, transposed


class _Product(torch.autograd.Function):
    """``M @ table`` whose gradient is ``M.T @ gradient``: two compressed products, no transposition at run time."""

    @staticmethod
    def forward(table: Tensor, pair: _Pair) -> Tensor:
        return pair.matrix @ table.contiguous()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, _Pair], output: Tensor) -> None:
        ctx.pair = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        turned = _Pair(ctx.pair.transposed, ctx.pair.matrix)
        return _Product.apply(gradient, turned), None  # type: ignore[no-untyped-call]

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, None], table: Tensor, pair: _Pair) -> tuple[Tensor, int]:
        """Take all tables side by side in one product."""
        assert in_dims[0] is not None
        side = table.movedim(in_dims[0], 1)
        out = _Product.apply(side.flatten(1), pair)  # type: ignore[no-untyped-call]
        return out.unflatten(1, side.shape[1:]), 1


def _compressed_pair(
    row: Tensor, column: Tensor, shape: tuple[int, int], dtype: torch.dtype, weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Count equal (row, column) pairs into a compressed-row matrix, times a weight of each row, and into its transpose.

    By counting, in linear time: sorting the pairs takes ten times as long.
    """
    values = np.ones(len(row)) if weight is None else weight[row].double().numpy()
    positive = values > 0
    if not positive.all():
        # Weights of zero are no entries: zero times minus infinity is not a number.
        row, column, values = row[positive], column[positive], values[positive]
    matrix = scipy.sparse.coo_array((values, (row.numpy(), column.numpy())), shape=shape).tocsr()
    matrix.sum_duplicates()  # and sorts columns
    return _as_torch(matrix, dtype), _as_torch(matrix.T.tocsr(), dtype)


def _as_torch(matrix: Any, dtype: torch.dtype) -> Tensor:
    # The CPU library works on 32-bit indices: wider ones would be converted at every product.
    index = np.int32 if max(*matrix.shape, matrix.nnz) < 2**31 else np.int64
    start, columns = (torch.from_numpy(part.astype(index)) for part in (matrix.indptr, matrix.indices))
    return _sparse(start, columns, torch.from_numpy(matrix.data), matrix.shape, dtype)


def _sparse(start: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int], dtype: torch.dtype) -> Tensor:
    # torch warns that compressed-row tensors are in beta; the products are tested here. Some versions (2.11) also warn that
    # invariants are not checked, though they are on the next line.
    silenced = "Sparse (CSR tensor support is in beta|invariant checks are implicitly disabled)"
    with without_warnings(message=silenced, category=UserWarning):
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
        # Weights of zero are no entries: zero times minus infinity is not a number.
        rows, columns, values = rows[values > 0], columns[values > 0], values[values > 0]
    # The CPU library works on 32-bit indices: wider ones would be converted at every product.
    index = torch.int32 if max(*shape, len(values)) < 2**31 else torch.int64
    start = torch.zeros(shape[0] + 1, dtype=index, device=row.device)
    start[1:] = torch.bincount(rows, minlength=shape[0]).cumsum(0)
    return _sparse(start, columns.to(index), values, shape, dtype)
