"""The part of a result that is computed on first use: draws, and all that follows from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from crowdppl.inference.datatree import to_datatree
from crowdppl.inference.evaluate import evaluate
from crowdppl.inference.work import Fitted
from crowdppl.isolation import RandomState, isolated, set_random_state


class Rest:
    """Draws the parameters and lays out the whole result, at the first call, from the random stream of the fit.

    Args:
        fit: whose draws are still to be drawn.
        attrs: of the tree.
        isolation: arguments of :func:`crowdppl.isolation.isolated`.
        stream: the random stream where the engine left it, see :func:`crowdppl.isolation.random_state`.
    """

    def __init__(self, fit: Fitted, attrs: Mapping[str, Any], isolation: Mapping[str, Any], stream: RandomState):
        # Compiled passes hold arrays as large as the data; probabilities are in the first part of the result.
        self._fit = dataclasses.replace(fit, draws=dataclasses.replace(fit.draws, passes=None))
        self._attrs, self._isolation, self._stream = attrs, isolation, stream
        self._whole: tuple[xr.DataTree, np.ndarray | None] | None = None

    def __call__(self) -> tuple[xr.DataTree, np.ndarray | None]:
        """Return the whole result, and counts of each worker's correct labels by draw ``(S, J)`` where they were made."""
        fit = self._fit
        with isolated(**self._isolation):  # of several threads one draws
            if self._whole is None:
                set_random_state(self._stream, fit.data.device)
                draws = dataclasses.replace(fit.draws).drawn()
                evaluated = evaluate(fit.model, fit.data, draws, fit.effect)
                if fit.independence is not None:
                    fit.independence.mix_draws(evaluated, fit.data)
                tree = to_datatree(dataclasses.replace(fit, draws=draws), evaluated, self._attrs)
                self._whole = tree, None if evaluated.correct is None else evaluated.correct.numpy()
            return self._whole
