"""Hierarchical Dawid-Skene: workers' confusion matrices are drawn from a population and borrow strength from each other.

Silviu Paun, Bob Carpenter, Jon Chamberlain, Dirk Hovy, Udo Kruschwitz and Massimo Poesio (2018). Comparing Bayesian models of
annotation. TACL 6, 571-585: their HierD&S, partial pooling. Theirs is logistic-normal, for Hamiltonian Monte Carlo; here the
population is Dirichlet, which keeps Gibbs sampling exact.

Model::

    prevalence  p             ~ Dirichlet(1 + prior_items)
    typical     m_k           ~ Dirichlet(1 + pseudo-counts)           row of the population, for each class
    strength    s_k           ~ Gamma(strength_shape, strength_shape / strength_mean)   in annotations: how alike workers are
    confusion   B_jk          ~ Dirichlet(s_k m_k)                     row of each worker
    truth       z_i           ~ Categorical(p)
    label       y_n | z_i = k ~ Categorical(B_jk)

The matrix of a worker with few annotations is close to the typical one, that of a worker with many to the worker's own rates;
the strength, which sets the scale, is learned. Given the truths, the population is drawn with the workers' rows summed out
(:mod:`crowdppl.model.populations`).

EM is refused: the joint mode of workers and their population lies where all workers are the same, whatever the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import pyro
import torch
from pyro.distributions import Categorical, Dirichlet, Gamma, LogNormal
from torch import Tensor
from torch.distributions import constraints

from crowdppl.data.annotations import Annotations
from crowdppl.kernels.ops import sample_dirichlet
from crowdppl.kernels.steps import CompiledStep
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.conjugacy import dirichlet_log_density, dirichlet_mode, positive
from crowdppl.model.hyperparameters import refuse_weights, require_positive, require_pseudo_counts
from crowdppl.model.plates import Plates
from crowdppl.model.populations import draw_auxiliary, draw_population
from crowdppl.model.priors import CommonPrevalence, class_prior, confusion_prior
from crowdppl.model.truths.classes import one_hot


@final
@dataclass(frozen=True)
class HierarchicalDawidSkene(CommonPrevalence, AnnotationModel):
    """Dawid and Skene's model with a population of workers.

    Attributes:
        prior_correct: correct pseudo-annotations of the typical worker in every class, on top of a flat prior.
        prior_incorrect: incorrect pseudo-annotations, shared evenly by the incorrect labels.
        prior_items: pseudo-items of every class.
        strength_mean: prior mean of the strength: a worker with as many annotations weighs as much as the population.
        strength_shape: of the strength's Gamma prior; its relative standard deviation is ``shape ** -0.5``.
    """

    prior_correct: float = 4.0
    prior_incorrect: float = 1.0
    prior_items: float = 0.0
    strength_mean: float = 10.0
    strength_shape: float = 2.0

    dims: ClassVar = {
        "prevalence": ("true_label",),
        "typical": ("true_label", "given_label"),
        "strength": ("true_label",),
        "confusion": ("worker", "true_label", "given_label"),
    }

    def __post_init__(self) -> None:
        require_pseudo_counts(self, "prior_correct", "prior_incorrect", "prior_items")
        require_positive(self, "strength_mean", "strength_shape")

    def check_method(self, method: str, data: Annotations | None = None) -> str | None:
        """Refuse EM: the joint mode pools everybody, whatever the data."""
        if method == "em":
            return (
                "at the joint mode of workers and their population all workers are the same, whatever the data; use "
                "method='gibbs', 'svi' or 'nuts'"
            )
        return refuse_weights(method, data)

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample prevalence ``(K,)``, typical ``(K, K)``, strength ``(K,)`` and confusion ``(J, K, K)``."""
        prevalence = pyro.sample("prevalence", Dirichlet(class_prior(data, self.prior_items)))
        typical = pyro.sample(
            "typical", Dirichlet(confusion_prior(data, self.prior_correct, self.prior_incorrect)).to_event(1)
        )
        gamma = Gamma(self.strength_shape, self.strength_shape / self.strength_mean)
        strength = pyro.sample("strength", gamma.expand([data.K]).to_event(1))
        with plates.worker:
            confusion = pyro.sample("confusion", Dirichlet(strength.unsqueeze(-1) * typical).to_event(1))
        return {"prevalence": prevalence, "typical": typical, "strength": strength, "confusion": confusion}

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return, for each annotation, the rows of its worker's confusion: batch ``(A, K)``."""
        return Categorical(parameters["confusion"][data.worker])

    # ------------------------------------------------------------------ closed forms

    def confusion(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the confusion matrices ``(..., J, K, K)``."""
        return parameters["confusion"]

    def log_prior(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log density of all four priors, ``(...)``."""
        m, s = parameters["typical"], parameters["strength"]
        population = dirichlet_log_density(confusion_prior(data, self.prior_correct, self.prior_incorrect), m).sum(-1)
        shape = s.new_tensor(self.strength_shape)
        strength = Gamma(shape, shape / self.strength_mean).log_prob(s).sum(-1)
        each = dirichlet_log_density((s.unsqueeze(-1) * m).unsqueeze(-3), parameters["confusion"]).sum((-2, -1))
        return (
            dirichlet_log_density(class_prior(data, self.prior_items), parameters["prevalence"])
            + population
            + strength
            + each
        )

    def m_step(self, responsibility: Tensor, data: Annotations, parameters: Parameters | None) -> Parameters:
        """Return a first point for the other engines: posterior means at the prior's strength, not a mode."""
        counts = data.counts.expected(responsibility)  # (J, K, K)
        pooled = confusion_prior(data, self.prior_correct, self.prior_incorrect) + counts.sum(-3)
        typical = pooled / pooled.sum(-1, keepdim=True)
        each = self.strength_mean * typical + counts
        return {
            "prevalence": dirichlet_mode(self.prior_items + responsibility.sum(-2)),
            "typical": typical,
            "strength": torch.full((data.K,), self.strength_mean, dtype=data.dtype, device=data.device),
            "confusion": each / each.sum(-1, keepdim=True),
        }

    def gibbs_step(self, truth: Tensor, parameters: Parameters, data: Annotations) -> Parameters:
        """Draw the population given truths ``(C, N)`` with the workers' rows summed out, then the rows."""
        chosen = one_hot(truth, data)
        counts = data.counts.expected(chosen)  # (C, J, K, K)
        s, m = parameters["strength"].unsqueeze(-2), parameters["typical"].unsqueeze(-3)  # (C, 1, K), (C, 1, K, K)
        number, logs = draw_auxiliary(counts, s, m)
        prior = confusion_prior(data, self.prior_correct, self.prior_incorrect)
        typical, strength = draw_population(
            number.sum(-3), logs.sum(-2), prior, self.strength_shape, self.strength_mean
        )
        return {
            "prevalence": sample_dirichlet(class_prior(data, self.prior_items) + chosen.sum(-2)),
            "typical": typical,
            "strength": strength,
            "confusion": positive(sample_dirichlet((strength.unsqueeze(-1) * typical).unsqueeze(-3) + counts)),
        }

    def compiled_step(self, data: Annotations) -> CompiledStep:
        """Return the same step as :meth:`gibbs_step`, as :mod:`crowdppl.kernels.hierarchical_rows` takes it."""
        J, K = data.J, data.K
        concentration = [
            class_prior(data, self.prior_items),
            confusion_prior(data, self.prior_correct, self.prior_incorrect).flatten(),
        ]
        strength = [self.strength_shape, self.strength_shape / self.strength_mean]
        shapes = {"prevalence": (K,), "typical": (K, K), "strength": (K,), "confusion": (J, K, K)}
        return CompiledStep(
            "hierarchical rows",
            shapes,
            sizes=np.array([J, K]),
            numbers=np.array([*torch.cat(concentration).tolist(), *strength]),
            states=K,
            work=K,
            simplexes=frozenset({"prevalence", "typical", "confusion"}),
        )

    def guide(self, data: Annotations, start: Parameters) -> Callable[..., Any]:
        """Return independent Dirichlets, and log-normals for the strengths, begun at majority counts."""
        share = data.majority()
        counts = data.counts.expected(share).contiguous()
        prior = confusion_prior(data, self.prior_correct, self.prior_incorrect)
        first = {
            "prevalence": class_prior(data, self.prior_items) + share.sum(0),
            "typical": prior + counts.sum(0),
            "confusion": self.strength_mean * start["typical"] + counts,
        }

        def guide(data: Annotations, index: Tensor | None = None) -> None:
            plates = Plates.over(data.N, data.J, index)
            q = {
                name: pyro.param(f"{name}_concentration", value, constraint=constraints.positive)
                for name, value in first.items()
            }
            middle = pyro.param("strength_middle", start["strength"].log())
            spread = pyro.param("strength_spread", torch.full_like(middle, 0.3), constraint=constraints.positive)
            pyro.sample("prevalence", Dirichlet(q["prevalence"]))
            pyro.sample("typical", Dirichlet(q["typical"]).to_event(1))
            pyro.sample("strength", LogNormal(middle, spread).to_event(1))
            with plates.worker:
                pyro.sample("confusion", Dirichlet(q["confusion"]).to_event(1))

        return guide
