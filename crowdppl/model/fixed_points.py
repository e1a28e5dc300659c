"""Fixed points of a map, such as a round of steps that leads from parameters to better ones, by Anderson acceleration.

D. G. Anderson (1965). Iterative procedures for nonlinear integral equations. Journal of the ACM 12(4), 547-560. The objective
that the map raises is the caller's to watch: see N. C. Henderson and R. Varadhan (2019), Damped Anderson acceleration with
restarts and monotonicity control for accelerating EM and EM-like algorithms, J. Computational and Graphical Statistics 28.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Differences of steps that are kept, and share of the diagonal that is added to the matrix of their least squares.
MEMORY, RIDGE = 8, 1e-10
# Where steps become longer, how many of the last one at most to go ahead.
FARTHEST = 32.0
# Length that differences are taken to have at least, so that all can be divided by it.
SMALLEST = 1e-30


class Extrapolation:
    """Extrapolates from the last steps."""

    def __init__(self) -> None:
        self._last: tuple[Tensor, Tensor] | None = None  # the image and the residual of the last step
        self._moves: list[Tensor] = []
        self._bends: list[Tensor] = []

    @property
    def steps(self) -> int:
        """Number of differences of steps from which the last extrapolation was."""
        return len(self._moves)

    def restart(self) -> None:
        """Begin anew, after a point to which an extrapolation led was refused."""
        self._last, self._moves, self._bends = None, [], []

    def __call__(self, point: Tensor, image: Tensor) -> Tensor:
        """Return the extrapolated fixed point, ``(P,)``, after a step from ``point`` to ``image``, both ``(P,)``.

        It is ``image`` after the first step, and where an extrapolation would not be finite.
        """
        residual = (image - point).double()
        if self._last is not None:
            self._moves = [*self._moves, (image - self._last[0]).double()][-MEMORY:]
            self._bends = [*self._bends, residual - self._last[1]][-MEMORY:]
        self._last = image, residual
        if not self._moves:
            return image
        bends = torch.stack(self._bends)
        size = bends.norm(dim=-1, keepdim=True).clamp(min=SMALLEST)
        bends, moves = bends / size, torch.stack(self._moves) / size
        gram = bends @ bends.T + RIDGE * torch.eye(len(bends), dtype=bends.dtype, device=bends.device)
        step = -torch.linalg.solve(gram, bends @ residual) @ moves
        if (
            float(step @ residual) < 0
        ):  # steps become longer: the residual is 0 behind, where the objective is not greatest
            step = min(float(residual.norm() / size[-1]), FARTHEST) * self._moves[-1]
        return image + step.to(image.dtype) if bool(torch.isfinite(step).all()) else image
