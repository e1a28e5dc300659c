"""Sets of labels after a fit: how probable the set of the most probable labels is as a whole.

Exact given the parameters: labels of a set depend on each other by their cluster. As the probabilities of labels it allows for
correlated errors: the log-likelihood of each pair of a task and a label is divided by its design effect, averaged over the
distribution of ``rho``. For a model in which labels are independent it is the product of their probabilities.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.inference.dependence.design_effect import DesignEffect
from crowdppl.inference.draws import Draws
from crowdppl.inference.spans import Array, averaged
from crowdppl.model.bound import BoundModel
from crowdppl.model.coupling import Coupling
from crowdppl.model.label_mixture import LabelMixture


def set_probabilities(
    model: BoundModel, data: Annotations, draws: Draws, effect: DesignEffect | None, probability: Tensor
) -> dict[str, Array] | None:
    """Return the probability of each task's set of most probable labels; ``None`` where annotations are not sets.

    Arguments are those of :func:`crowdppl.inference.spans.spans`, of two classes.

    Returns:
        ``probability`` of each task, in the order of ``data.sequences``.
    """
    if data.set_labels is None or data.sequence is None or data.sequences is None:
        return None
    # A part of the data may be without some of the tasks.
    out = np.full(len(data.sequences), np.nan)
    L = len(data.set_labels)
    tasks, states = data.sequence[::L].cpu().numpy(), probability.argmax(-1)

    def of_sets(mixture: Coupling, likelihoods: Tensor) -> Tensor:
        assert isinstance(mixture, LabelMixture)
        return mixture.probability_of(states, likelihoods)

    if model.truths.coupled:
        out[tasks] = averaged(model, data, draws, effect, of_sets)
    else:
        own = probability.gather(-1, states.unsqueeze(-1)).view(-1, L)
        out[tasks] = own.log().sum(-1).exp().cpu().numpy()
    return {"probability": out}
