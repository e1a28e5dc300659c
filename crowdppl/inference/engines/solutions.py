"""Solutions of EM from several starts: whether some explain the annotations about equally well and give items other labels."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.inference.engines.em_state import EMResult
from crowdppl.kernels.ops import above_zero, normalise, sum_by
from crowdppl.model.bound import BoundModel, repeated
from crowdppl.model.weighted_votes import mostly_adversarial

# Two solutions are compared if their log posteriors differ by at most so much an annotation: models fit people by more than that.
# They explain the annotations about equally well if these differ by at most EQUAL, as a factor of 20 has it. Solutions
# differ in what they say if the labels do for more than this share of at least so many items. On public crowds they never did
# (docs/benchmarks/several-solutions.md).
NEAR, EQUAL, OTHER, MIN_ITEMS = 0.05, 3.0, 0.1, 50
# Two labels of an item tie if their probabilities differ by less.
TIE = 1e-3


class Solution(NamedTuple):
    """The end of one run of EM.

    Attributes:
        log_posterior: of the parameters, on a scale that all solutions compared share.
        probability: of each class for each item, ``(N, K)``.
    """

    log_posterior: float
    probability: Tensor


def solution(model: BoundModel, data: Annotations, result: EMResult, *, anchored: bool = True) -> Solution:
    """Return what a run of EM ended with.

    Args:
        model: bound to the networks, whose buffers are set to those of the run.
        data: the annotations in the model's layout.
        result: of the run.
        anchored: whether the log posterior is that which the run raised, else that without an anchor.
    """
    with torch.no_grad():
        if model.networks is not None:
            model.networks.take(result.buffers)
        parameters = model.at_sites(result.point, data)
        marginal, r = normalise(model.item_log_joint(parameters, data), overwrite=True)
        log_posterior = result.log_posterior
        if not anchored:
            log_posterior = float(repeated(marginal, data).sum() + model.log_prior(result.point, data))
        probability = model.truths.by_class(r, parameters, data)
        if data.parent_item is not None:  # the mean over the parts of an item that have a truth each
            often = torch.ones_like(marginal) if data.multiplicity is None else data.multiplicity
            number = sum_by(data.parent_item, often, int(data.parent_item.max()) + 1)
            probability = sum_by(data.parent_item, probability * often.unsqueeze(-1), len(number))
            probability /= above_zero(number).unsqueeze(-1)
    return Solution(log_posterior, probability)


def different(one: Solution, other: Solution, data: Annotations) -> tuple[int, int]:
    """Return how many items have a label that is not among the other solution's most probable, and of how many.

    Items with annotations count whose truth is not known.
    """
    if data.parent_item is None:
        counted = (data.annotations_per_item > 0) & (data.truth < 0)
    else:
        counted = torch.ones(len(one.probability), dtype=torch.bool, device=data.device)
    label = one.probability.argmax(-1, keepdim=True)
    p = other.probability
    differs = p.gather(-1, label).squeeze(-1) < p.amax(-1) - TIE
    return int((differs & counted).sum()), int(counted.sum())


def share(one: Solution, other: Solution, data: Annotations) -> float:
    """Return the share of the items of :func:`different`."""
    changed, size = different(one, other, data)
    return changed / max(1, size)


def warning(best: Solution, others: list[Solution], data: Annotations) -> list[str]:
    """Return a sentence if another solution explains the annotations about as well as the best and gives items other labels."""
    annotations = float(data.A if data.multiplicity is None else data.multiplicity[data.item].sum())
    rivals = [
        (*different(best, other, data), other)
        for other in others
        if abs(best.log_posterior - other.log_posterior) <= NEAR * annotations
    ]
    rivals = [entry for entry in rivals if entry[1] >= MIN_ITEMS and entry[0] > OTHER * entry[1]]
    if not rivals:
        return []
    changed, size, other = max(rivals, key=lambda entry: (*entry[:2], entry[2].log_posterior))
    ahead = other.log_posterior - best.log_posterior
    how = "about equally well" if abs(ahead) <= EQUAL else f"nearly as well, with log posteriors {abs(ahead):.0f} apart"
    return [
        f"two solutions explain the annotations {how} (log posterior {best.log_posterior:.1f}, reported, and "
        f"{other.log_posterior:.1f}) and give different labels to {changed:,} of {size:,} items: "
        f"{_why_lower(other, data) if ahead > EQUAL else ''}the annotations alone do not decide between them; give known true "
        f"labels of some of these items"
    ]


def _why_lower(other: Solution, data: Annotations) -> str:
    """Return why a solution is reported though another has the higher log posterior."""
    if data.parent_item is None and mostly_adversarial(data, other.probability):
        why = "by it most workers are competent, and adversarial by the other"
    else:
        why = "it agrees with the votes weighted by competence"
    return f"that with the lower log posterior is reported, since {why}; "
