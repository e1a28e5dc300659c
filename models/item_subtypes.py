"""Item subtypes: errors of workers on the same item are correlated, because the items of a class are not all alike.

Yuan Li, Benjamin I. P. Rubinstein and Trevor Cohn (2019). Exploiting worker correlation for label aggregation in
crowdsourcing. Proceedings of ICML 97, 3886-3895. Their EBCC, *enhanced Bayesian classifier combination*.

Each class is a mixture of ``M`` subtypes, and every worker has a row of label probabilities for each subtype. Given the class
alone, labels of one item are then correlated: a hard subtype misleads many workers at once, so that ten equal incorrect labels
are weaker evidence than ten independent ones.

Model::

    prevalence  p              ~ Dirichlet(1 + prior_items)
    weights     t_k            ~ Dirichlet(c, ..., c)                for each class, over its M subtypes
    rows        V_jkm          ~ Dirichlet(1 + pseudo-counts)        for each worker, class and subtype, over labels
    class       z_i            ~ Categorical(p)
    subtype     g_i | z_i      ~ Categorical(t_{z_i})
    label       y_n | z, g     ~ Categorical(V_{j, z_i, g_i})        n an annotation of item i by worker j

The state of an item is the pair (class, subtype); what is reported is summed over subtypes. One subtype is Dawid and Skene's
model. The paper fits the model by mean-field variational inference with ten subtypes; here states are summed out or drawn
exactly. The labels of the subtypes of one class may differ between chains; only their union is identified.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import pyro
import torch
from pyro.distributions import Categorical, Dirichlet
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.kernels.ops import sample_dirichlet
from crowdppl.kernels.statistics import Statistics
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.hyperparameters import require_positive, require_pseudo_counts, require_whole
from crowdppl.model.plates import Plates
from crowdppl.model.priors import class_prior, confusion_prior


@final
@dataclass(frozen=True)
class ItemSubtypes(AnnotationModel):
    """Dawid and Skene's model with ``subtypes`` kinds of items in each class.

    Attributes:
        subtypes: ``M``, kinds of items in each class.
        subtype_concentration: Dirichlet concentration of the subtypes' weights; below 1 few subtypes are used unless the data
            require more.
        prior_correct: correct pseudo-annotations of every worker in every subtype, on top of a flat prior.
        prior_incorrect: incorrect pseudo-annotations, shared evenly by the incorrect labels.
        prior_items: pseudo-items of every class.
    """

    subtypes: int = 3
    subtype_concentration: float = 0.1
    prior_correct: float = 3.0
    prior_incorrect: float = 0.0
    prior_items: float = 0.0

    dims: ClassVar = {
        "prevalence": ("true_label",),
        "weights": ("true_label", "subtype"),
        "rows": ("worker", "true_label", "subtype", "given_label"),
    }

    def __post_init__(self) -> None:
        require_whole(self, "subtypes")
        require_positive(self, "subtype_concentration")
        require_pseudo_counts(self, "prior_correct", "prior_incorrect", "prior_items")

    def states_per_class(self, data: Annotations) -> int:
        """Return ``M``."""
        return self.subtypes

    def check_method(self, method: str, data: Annotations | None = None) -> str | None:
        """Refuse EM where the weights' density has its poles on the boundary."""
        if method == "em" and self.subtype_concentration < 1 and self.subtypes > 1:
            return (
                f"with subtype_concentration={self.subtype_concentration:g}, below 1, the posterior of the subtypes' weights has "
                f"no interior mode; use method='gibbs', 'svi' or 'nuts', or ItemSubtypes(subtype_concentration=1)"
            )
        return None

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample prevalence ``(K,)``, weights ``(K, M)`` and rows ``(J, K, M, K)``."""
        K, M = data.K, self.subtypes
        weight = torch.full((K, M), self.subtype_concentration, dtype=data.dtype, device=data.device)
        rows = confusion_prior(data, self.prior_correct, self.prior_incorrect).unsqueeze(1).expand(K, M, K)
        prevalence = pyro.sample("prevalence", Dirichlet(class_prior(data, self.prior_items)))
        weights = pyro.sample("weights", Dirichlet(weight).to_event(1))
        with plates.worker:
            table = pyro.sample("rows", Dirichlet(rows).to_event(2))
        return {"prevalence": prevalence, "weights": weights, "rows": table}

    def truth(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the distribution of the states (class, subtype), ``S = K M``, the same for all items."""
        return Categorical((parameters["prevalence"].unsqueeze(-1) * parameters["weights"]).flatten(-2))

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return, for each annotation, the rows of its worker: batch ``(A, S)``."""
        return Categorical(parameters["rows"].flatten(-3, -2)[data.worker])

    # ------------------------------------------------------------------ closed forms

    def log_truth(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return log probabilities of the states, ``(..., S)``."""
        return (parameters["prevalence"].log().unsqueeze(-1) + parameters["weights"].log()).flatten(-2)

    def confusion(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the rows by state, ``(..., J, S, K)``."""
        return parameters["rows"].flatten(-3, -2)

    def conjugate_counts(self, statistics: Statistics, data: Annotations) -> Parameters:
        """Return the items of each class, those of each subtype, and each worker's labels by class and subtype."""
        states = statistics.item_counts.unflatten(-1, (-1, self.subtypes))  # (..., K, M)
        rows = statistics.label_counts.unflatten(-2, (-1, self.subtypes))  # (..., J, K, M, K)
        return {"prevalence": states.sum(-1), "weights": states, "rows": rows}

    def initial(self, data: Annotations) -> Tensor:
        """Return majority vote with a random split of each item among the subtypes, ``(N, S)``: subtypes begin unequal."""
        ones = torch.ones(data.N, data.K, self.subtypes, dtype=data.dtype, device=data.device)
        return (data.majority().unsqueeze(-1) * sample_dirichlet(ones)).flatten(-2)
