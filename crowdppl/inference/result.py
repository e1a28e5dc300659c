"""The part of a result that is computed on first use: draws, and all that follows from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.distributed
import xarray as xr
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.inference.datatree import to_datatree
from crowdppl.inference.design_effect import DesignEffect
from crowdppl.inference.draws import Draws
from crowdppl.inference.evaluate import evaluate
from crowdppl.inference.independence import Independence
from crowdppl.isolation import RandomState, isolated, set_random_state
from crowdppl.model.bound import BoundModel


def can_wait(draws: Draws, data: Annotations, effect: DesignEffect | None) -> bool:
    """Tell whether the truths of a fit need no draws.

    Known true labels inform the design effect through draws. Several processes share a fit as long as their group is open.
    """
    informed = effect is not None and not effect.fixed and bool((data.truth >= 0).any())
    apart = torch.distributed.is_available() and torch.distributed.is_initialized()
    return draws.later is not None and not informed and not apart


class Rest:
    """Draws the parameters and lays out the whole result, at the first call, from the random stream of the fit.

    Args:
        data: the annotations.
        model: the fitted model.
        draws: of the engine, still to be drawn.
        effect: the design effect, if any.
        attrs: of the tree.
        isolation: arguments of :func:`crowdppl.isolation.isolated`.
        stream: the random stream where the engine left it, see :func:`crowdppl.isolation.random_state`.
        aside: annotations that the fit did not count, if any.
        independence: the model of independent errors that the result is a mixture with, if any.
        parts: variables of the groups of spans and of sets, if there are any.
        weights: of a classifier of features, by name.
    """

    def __init__(
        self,
        data: Annotations,
        model: BoundModel,
        draws: Draws,
        effect: DesignEffect | None,
        attrs: Mapping[str, Any],
        isolation: Mapping[str, Any],
        stream: RandomState,
        aside: Annotations | None = None,
        independence: Independence | None = None,
        parts: Mapping[str, Mapping[str, Any] | None] | None = None,
        weights: Mapping[str, Tensor] | None = None,
    ):
        self._data, self._model, self._effect, self._attrs = data, model, effect, attrs
        self._draws = dataclasses.replace(draws, passes=None)  # compiled passes hold arrays as large as the data
        self._isolation, self._stream, self._aside = isolation, stream, aside
        self._independence, self._parts, self._weights = independence, parts, weights or {}
        self._whole: tuple[xr.DataTree, np.ndarray | None] | None = None

    def __call__(self) -> tuple[xr.DataTree, np.ndarray | None]:
        """Return the whole result, and counts of each worker's correct labels by draw ``(S, J)`` where they were made."""
        with isolated(**self._isolation):  # of several threads one draws
            if self._whole is None:
                set_random_state(self._stream, self._data.device)
                draws = dataclasses.replace(self._draws).drawn()
                evaluated = evaluate(self._model, self._data, draws, self._effect)
                if self._independence is not None:
                    self._independence.mix_draws(evaluated, self._data)
                whole = self._data, self._model, draws, evaluated
                weights, attrs = self._weights, self._attrs
                tree = to_datatree(*whole, weights=weights, attrs=attrs, aside=self._aside, parts=self._parts)
                self._whole = tree, None if evaluated.correct is None else evaluated.correct.numpy()
            return self._whole
