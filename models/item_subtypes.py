"""Item subtypes: workers err together on the same items because the items of a class are not all alike.

Yuan Li, Benjamin I. P. Rubinstein and Trevor Cohn (2019). Exploiting worker correlation for label aggregation in
crowdsourcing. Proceedings of ICML 97, 3886-3895. Their EBCC, *enhanced Bayesian classifier combination*.

Each class is a mixture of ``M`` subtypes, and every worker has a row of label probabilities for each subtype. Given the class
alone, labels of one item are then correlated: a hard subtype misleads many workers at once, so that ten equal wrong labels
count for less than ten independent ones would.

Story::

    prevalence  p              ~ Dirichlet(1 + items)
    weights     t_k            ~ Dirichlet(weight, ..., weight)      for each class, over its M subtypes
    rows        V_jkm          ~ Dirichlet(b + a [l = k])            for each worker, class and subtype, over labels
    class       z_i            ~ Categorical(p)
    subtype     g_i | z_i      ~ Categorical(t_{z_i})
    label       y_n | z, g     ~ Categorical(V_{j, z_i, g_i})        n an annotation of item i by worker j

The state of an item is the pair (class, subtype); what is reported is summed over subtypes. One subtype is Dawid and Skene's
model. The paper fits the model by mean-field variational inference with ten subtypes; here states are summed out or drawn
exactly. Subtypes of one class may swap names from one chain to another: their union is what the data speak of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import pyro
import torch
from pyro.distributions import Categorical, Dirichlet
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.kernels.ops import sample_dirichlet
from crowdppl.model.base import AnnotationModel, Parameters, one_hot
from crowdppl.model.conjugacy import dirichlet_log_density, dirichlet_mode, mean_field, positive, rows
from crowdppl.model.hyperparameters import require_answers, require_positive, require_whole
from crowdppl.model.plates import Plates


@final
@dataclass(frozen=True)
class ItemSubtypes(AnnotationModel):
    """Dawid and Skene's model with ``subtypes`` kinds of items in each class.

    Attributes:
        subtypes: ``M``, kinds of items in each class.
        subtype_concentration: Dirichlet concentration of the subtypes' weights; below 1 few subtypes are used unless the data ask for more.
        prior_correct: imaginary right answers of every worker in every subtype, on top of a flat prior.
        prior_incorrect: imaginary wrong answers, shared evenly by the wrong labels.
        prior_items: imaginary items of every class.
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
    batched_m_step: ClassVar = True

    def __post_init__(self) -> None:
        require_whole(self, "subtypes")
        require_positive(self, "subtype_concentration")
        require_answers(self, "prior_correct", "prior_incorrect", "prior_items")

    @property
    def states_per_class(self) -> int:
        """Return ``M``."""
        return self.subtypes

    def unsuited(self, method: str) -> str | None:
        """Refuse EM where the weights' density has its poles on the boundary."""
        if method == "em" and self.subtype_concentration < 1 and self.subtypes > 1:
            return (
                f"with weight={self.subtype_concentration:g}, below 1, the posterior of the subtypes' weights has no interior mode; use "
                f"method='gibbs', 'svi' or 'nuts', or ItemSubtypes(weight=1)"
            )
        return None

    def concentrations(self, data: Annotations) -> tuple[Tensor, Tensor, Tensor]:
        """Return the Dirichlet concentrations of prevalence ``(K,)``, weights ``(K, M)`` and rows ``(K, M, K)``."""
        K, M = data.K, self.subtypes
        table = rows(data, self.prior_correct, self.prior_incorrect)  # (K, K)
        return (
            torch.full((K,), 1 + self.prior_items, dtype=data.dtype, device=data.device),
            torch.full((K, M), self.subtype_concentration, dtype=data.dtype, device=data.device),
            table.unsqueeze(1).expand(K, M, K).contiguous(),
        )

    # ------------------------------------------------------------------ the story

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample prevalence ``(K,)``, weights ``(K, M)`` and rows ``(J, K, M, K)``."""
        a, w, B = self.concentrations(data)
        prevalence = pyro.sample("prevalence", Dirichlet(a))
        weights = pyro.sample("weights", Dirichlet(w).to_event(1))
        with plates.worker:
            table = pyro.sample("rows", Dirichlet(B).to_event(2))
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

    def log_confusion(self, parameters: Parameters) -> Tensor:
        """Return log rows by state, ``(..., J, S, K)``."""
        return parameters["rows"].log().flatten(-3, -2)

    def log_prior(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log density of the three Dirichlet priors, ``(...)``."""
        a, w, B = self.concentrations(data)
        each = dirichlet_log_density(B, parameters["rows"]).flatten(-2).sum(-1)  # (..., J)
        return (
            dirichlet_log_density(a, parameters["prevalence"])
            + dirichlet_log_density(w, parameters["weights"]).sum(-1)
            + each.sum(-1)
        )

    def m_step(self, responsibility: Tensor, data: Annotations, reuse: Parameters | None = None) -> Parameters:
        """Return modes of the Dirichlet posteriors given ``(..., N, S)`` responsibilities; boundaries where ``weight < 1``."""
        a, w, B = self.concentrations(data)
        states = responsibility.sum(-2).unflatten(-1, (data.K, self.subtypes))  # (K, M)
        counts = data.counts.expected(responsibility).unflatten(-2, (data.K, self.subtypes))  # (J, K, M, K)
        return {
            "prevalence": dirichlet_mode(a + states.sum(-1)),
            "weights": dirichlet_mode(w + states),
            "rows": dirichlet_mode(B + counts),
        }

    def gibbs_step(self, truth: Tensor, parameters: Parameters, data: Annotations) -> Parameters:
        """Draw prevalence, weights and rows given states ``(C, N)``: Dirichlet with the counts added."""
        a, w, B = self.concentrations(data)
        chosen = one_hot(truth, data, data.K * self.subtypes)  # (C, N, S)
        states = chosen.sum(-2).unflatten(-1, (data.K, self.subtypes))  # (C, K, M)
        counts = data.counts.expected(chosen).unflatten(-2, (data.K, self.subtypes))  # (C, J, K, M, K)
        return {
            "prevalence": sample_dirichlet(a + states.sum(-1)),
            # Concentrations far below 1 draw zeros that underflow: kept at the smallest positive number.
            "weights": positive(sample_dirichlet(w + states)),
            "rows": sample_dirichlet(B + counts),
        }

    def initial(self, data: Annotations) -> Tensor:
        """Return majority vote with a random split of each item among the subtypes, ``(N, S)``: subtypes begin unequal."""
        ones = torch.ones(data.N, data.K, self.subtypes, dtype=data.dtype, device=data.device)
        return (data.majority().unsqueeze(-1) * sample_dirichlet(ones)).flatten(-2)

    def guide(self, data: Annotations, start: Parameters) -> Callable[..., Any]:
        """Return the mean-field guide: independent Dirichlets, begun at the prior plus the counts of :meth:`initial`."""
        a, w, B = self.concentrations(data)
        share = self.initial(data)
        states = share.sum(-2).unflatten(-1, (data.K, self.subtypes))
        counts = data.counts.expected(share).unflatten(-2, (data.K, self.subtypes))
        first = {"prevalence": a + states.sum(-1), "weights": w + states, "rows": (B + counts).contiguous()}
        return mean_field(first, {"rows": "dirichlet"}, {"prevalence": "dirichlet", "weights": "dirichlet"})
