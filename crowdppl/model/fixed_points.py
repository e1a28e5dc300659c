"""Fixed points of a map, such as a round of steps that leads from parameters to better ones, by Anderson acceleration.

D. G. Anderson (1965). Iterative procedures for nonlinear integral equations. Journal of the ACM 12(4), 547-560. The objective
that the map raises is the caller's to watch: see N. C. Henderson and R. Varadhan (2019), Damped Anderson acceleration with
restarts and monotonicity control for accelerating EM and EM-like algorithms, J. Computational and Graphical Statistics 28.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Array = npt.NDArray[np.float64]

# Differences of steps that are kept, and share of the diagonal that is added to the matrix of their least squares.
MEMORY, RIDGE = 8, 1e-10
# Where steps become longer, how many of the last one at most to go ahead.
FARTHEST = 32.0
# Squared length that differences are taken to have at least, so that all can be divided by it.
SMALLEST = 1e-300


def extrapolated_step(moves: Array, bends: Array, products: Array, residual: Array, newest: int, ridge: float) -> Array:
    """Return the extrapolated way on from the image of the last step, ``(P,)``.

    Args:
        moves: how the image changed from each step to the next, ``(T, P)``.
        bends: how the residual did, ``(T, P)``.
        products: of the bends, ``(T, T)``.
        residual: of the last step, image less point, ``(P,)``.
        newest: place of the last difference.
        ridge: share of the diagonal that is added to the matrix of the least squares, whose steps become nearly parallel.

    Raises:
        numpy.linalg.LinAlgError: if the matrix is singular.
    """
    scale = 1 / np.sqrt(np.maximum(products.diagonal(), SMALLEST))
    gram = products * scale * scale[:, None] + ridge * np.eye(len(products))
    step = -((scale * np.linalg.solve(gram, scale * (bends @ residual))) @ moves)
    if np.dot(step, residual) < 0:  # steps become longer: the residual is 0 behind, where the objective is not greatest
        length = np.sqrt(np.dot(residual, residual) / max(products[newest, newest], SMALLEST))
        return min(length, FARTHEST) * moves[newest]
    return step


class Extrapolation:
    """Extrapolates from the last steps."""

    def __init__(self) -> None:
        self._last: tuple[Array, Array] | None = None  # the image and the residual of the last step
        self._moves: list[Array] = []
        self._bends: list[Array] = []

    @property
    def steps(self) -> int:
        """Number of differences of steps from which the last extrapolation was."""
        return len(self._moves)

    def restart(self) -> None:
        """Begin anew, after a point to which an extrapolation led was refused."""
        self._last, self._moves, self._bends = None, [], []

    def kept(self) -> list[Tensor]:
        """Return all that later extrapolations depend on, for :meth:`take_up`: tensors ``(P,)``."""
        return [torch.from_numpy(one) for one in (*(self._last or ()), *self._moves, *self._bends)]

    def take_up(self, kept: list[Tensor]) -> None:
        """Continue from what :meth:`kept` returned."""
        arrays = [one.cpu().numpy() for one in kept]
        half = (len(arrays) - 2) // 2
        self.restart()
        if arrays:
            self._last, self._moves, self._bends = (arrays[0], arrays[1]), arrays[2 : 2 + half], arrays[2 + half :]

    def __call__(self, point: Tensor, image: Tensor) -> Tensor:
        """Return the extrapolated fixed point, ``(P,)``, after a step from ``point`` to ``image``, both ``(P,)``.

        It is ``image`` after the first step, and where an extrapolation would not be finite.
        """
        to = image.double().cpu().numpy()
        residual = to - point.double().cpu().numpy()
        if self._last is not None:
            self._moves = [*self._moves, to - self._last[0]][-MEMORY:]
            self._bends = [*self._bends, residual - self._last[1]][-MEMORY:]
        self._last = to, residual
        if not self._moves:
            return image
        bends = np.stack(self._bends)
        try:
            step = extrapolated_step(np.stack(self._moves), bends, bends @ bends.T, residual, -1, RIDGE)
        except np.linalg.LinAlgError:
            return image
        return image + torch.from_numpy(step).to(image) if np.isfinite(step).all() else image
