"""What is to be fitted, and the fit that comes of it: what the steps from data to result hand on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.inference.dependence.design_effect import DesignEffect
from crowdppl.inference.dependence.independence import Independence
from crowdppl.inference.draws import Draws
from crowdppl.inference.evaluate import EvaluatedDraws
from crowdppl.model.base import AnnotationModel
from crowdppl.model.bound import BoundModel
from crowdppl.model.class_scores import ClassScores

# Largest number of annotations that a fit reviews; the review costs a few passes.
REVIEWED = 2_000_000


@dataclass(frozen=True)
class Work:
    """What is fitted, whatever the engine.

    Attributes:
        data: the annotations.
        model: the model.
        effect: the design effect that the result allows for, if any.
        seed: of all random numbers.
        default: whether the model was chosen by the library.
        note: a sentence on that choice.
        copies: what the caller asked to count of workers who give the same answers.
        aside: annotations of such workers that are not counted.
        warnings: a sentence for each group of such workers.
        scores: what features say of the classes, where that was weighed for the choice of the model.
        leaves_features: whether the model leaves features of items unread, and the note says why.
    """

    data: Annotations
    model: AnnotationModel
    effect: DesignEffect | None
    seed: int
    default: bool = False
    note: str | None = None
    copies: Literal["one", "all"] | None = "all"
    aside: Annotations | None = None
    warnings: tuple[str, ...] = ()
    scores: ClassScores | None = None
    leaves_features: bool = False


@dataclass
class Fitted:
    """A fit after its engine has ended: all that a result is laid out from.

    Attributes:
        data: the annotations, on the device of the fit.
        model: the model with the networks of this fit.
        draws: of the engine; drawn later where the true labels need none (``_can_wait`` of :mod:`crowdppl.inference.run`).
        effect: the design effect; with what known true labels say of it where the draws are evaluated.
        probability: of the classes, ``(N, K)``.
        published: likewise by the model as published, where the reported ones allow for correlated errors.
        evaluated: the model evaluated at the draws; ``None`` where they are drawn later.
        aside: annotations that are not counted, if any.
        independence: the model of independent errors that the result is a mixture with, if any.
        parts: variables of the groups ``spans`` and ``sets``; ``None`` where there are none.
        weights: of networks and of a classifier of features, by name.
        reads: whether the model reads features of items and workers, covariates and criteria, of those that the data have.
    """

    data: Annotations
    model: BoundModel
    draws: Draws
    effect: DesignEffect | None
    probability: Tensor
    published: Tensor | None
    evaluated: EvaluatedDraws | None = None
    aside: Annotations | None = None
    independence: Independence | None = None
    parts: dict[str, Mapping[str, Any] | None] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)
    reads: dict[str, bool] = field(default_factory=dict)

    @property
    def reported_effect(self) -> DesignEffect | None:
        """The design effect that the result allows for: none where each annotation has a true label of its own."""
        return None if self.published is None else self.effect
