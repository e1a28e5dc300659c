"""Sums over annotations whose labels are numbers, and a normal truth given its labels.

An item's truth ``z_i ~ Normal(0, s^2)`` has the labels ``y_n = b_j + g_j z_i + e_n`` with ``e_n ~ Normal(0, v_j)``. Given
intercepts, slopes and variances it is normal, with

    precision   P_i = 1 / s^2 + sum_n g_j^2 / v_j
    mean        h_i / P_i,   h_i = sum_n g_j (y_n - b_j) / v_j

and the labels of the item have the marginal density

    log p(y_i) = -1/2 [n log 2 pi + sum_n log v_j + log(s^2 P_i) + sum_n (y_n - b_j)^2 / v_j - h_i^2 / P_i].

Sizes: ``N`` items, ``J`` workers, ``C`` chains or draws, which are the last axis here, so that one product serves all.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse
import torch
from torch import Tensor

from crowdppl.isolation import without_warnings


class WorkerSums(NamedTuple):
    """Sums over each worker's annotations, ``(J, C)`` or ``(J, 1)``: of 1, ``y``, ``y^2``, ``z``, ``z^2`` and ``y z``."""

    size: Tensor
    label: Tensor
    label_square: Tensor
    truth: Tensor
    truth_square: Tensor
    product: Tensor

    def squares(self, intercept: Tensor, slope: Tensor) -> Tensor:
        """Return the sum of ``(y - b - g z)^2`` over each worker's annotations, ``(J, C)``."""
        total = (
            self.label_square
            - 2 * intercept * self.label
            - 2 * slope * self.product
            + self.size * intercept**2
            + 2 * intercept * slope * self.truth
            + slope**2 * self.truth_square
        )
        return total.clamp(min=0.0)  # a difference of large numbers

    def moved(self, shift: float = 0.0, shrunk: float = 1.0) -> WorkerSums:
        """Return the sums of truths to which a number is added, and which are then divided by another."""
        truth = (self.truth + shift * self.size) / shrunk
        square = (self.truth_square + 2 * shift * self.truth + shift**2 * self.size) / shrunk**2
        return self._replace(truth=truth, truth_square=square, product=(self.product + shift * self.label) / shrunk)


class ValueTables:
    """Sparse ``(N, J)`` tables of how often each worker labelled each item, and of sums of ``y`` and ``y^2``; their products.

    Args:
        item: ``(A,)`` int64.
        worker: ``(A,)`` int64.
        value: labels, ``(A,)``, near zero mean and unit variance so that sums of squares keep their digits.
        shape: ``(N, J)``.
    """

    def __init__(self, item: Tensor, worker: Tensor, value: Tensor, shape: tuple[int, int]):
        self.shape, like = shape, value
        row, column, y = (part.cpu().numpy() for part in (item, worker, value))
        ones = np.ones(len(y))
        self._count, self._label, self._square = (_compressed(row, column, v, shape, like) for v in (ones, y, y * y))
        back = (shape[1], shape[0])
        self._count_back, self._label_back = (_compressed(column, row, v, back, like) for v in (ones, y))
        per_worker = [np.bincount(column, weights=v, minlength=shape[1]) for v in (ones, y, y * y)]
        self.count, self.label, self.label_square = (torch.from_numpy(v).to(like).unsqueeze(-1) for v in per_worker)

    def by_item(self, intercept: Tensor, slope: Tensor, precision: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``sum g^2 w`` and ``sum g (y - b) w`` over each item's annotations, ``(N, C)`` each.

        Args:
            intercept: ``b``, ``(J, C)``.
            slope: ``g``, ``(J, C)``.
            precision: ``w = 1 / v``, ``(J, C)``.
        """
        return self.by_item_terms(slope**2 * precision, slope * precision, slope * intercept * precision)

    def by_item_terms(self, square: Tensor, single: Tensor, product: Tensor) -> tuple[Tensor, Tensor]:
        """Return the same for any terms of workers, ``(J, C)`` each: those of ``g^2 w``, of ``g w`` and of ``g b w``."""
        C = square.shape[-1]
        both = self._count @ torch.cat([square, product], -1)
        return both[:, :C], self._label @ single - both[:, C:]

    def residuals(self, intercept: Tensor, precision: Tensor) -> Tensor:
        """Return ``sum (y - b)^2 w - log w`` over each item's annotations, ``(N, C)``."""
        counted = self._count @ (intercept**2 * precision - precision.log())
        return counted + self._square @ precision - 2 * (self._label @ (intercept * precision))

    def by_worker(self, truth: Tensor, truth_square: Tensor) -> WorkerSums:
        """Return sums over each worker's annotations of (expected) truths and their squares, ``(N, C)`` each."""
        C = truth.shape[-1]
        both = self._count_back @ torch.cat([truth, truth_square], -1)
        product = self._label_back @ truth
        return WorkerSums(self.count, self.label, self.label_square, both[:, :C], both[:, C:], product)


def _compressed(
    row: npt.NDArray[np.int64],
    column: npt.NDArray[np.int64],
    value: npt.NDArray[np.float64],
    shape: tuple[int, int],
    like: Tensor,
) -> Tensor:
    """Return a sparse matrix in compressed rows, entries of one place summed."""
    matrix = scipy.sparse.coo_array((value, (row, column)), shape=shape).tocsr()
    # Torch warns that the layout is a beta feature, and that it does not check what scipy has sorted.
    with without_warnings(message="Sparse"):
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(np.int64)),
            torch.from_numpy(matrix.indices.astype(np.int64)),
            torch.from_numpy(matrix.data),
            shape,
        ).to(like)


def log_marginal(
    tables: ValueTables,
    per_item: Tensor,
    intercept: Tensor,
    slope: Tensor,
    variance: Tensor,
    truth_sd: Tensor,
    centre: Tensor | None = None,
) -> Tensor:
    """Return ``log p(y_i)``, ``(N, C)``, with the truth summed out.

    Args:
        tables: of the labels.
        per_item: number of labels of each item, ``(N, 1)``.
        intercept: ``(J, C)``.
        slope: ``(J, C)``.
        variance: ``(J, C)``.
        truth_sd: ``s``, ``(C,)``.
        centre: expected truths, ``(N, C)``; 0 where it is not given.
    """
    weight = 1 / variance
    precision, linear = tables.by_item(intercept, slope, weight)
    residual = tables.residuals(intercept, weight)
    if centre is not None:  # as if the labels were y - g m
        residual = residual - 2 * centre * linear + centre**2 * precision
        linear = linear - centre * precision
    precision = precision + truth_sd**-2
    return -0.5 * (
        per_item * math.log(2 * math.pi) + (truth_sd**2 * precision).log() + residual - linear**2 / precision
    )
