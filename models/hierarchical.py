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
the strength, which sets the scale, is learned. Given the truths, the populations are drawn with the workers' rows summed out: a
cell with count ``n`` and concentration ``c`` has a number of tables ``t`` (Chinese restaurant:
``t = sum_{i<n} Bernoulli(c / (c + i))``), each row a weight ``w ~ Beta(s, n)``; then ``m ~ Dirichlet(prior + tables)`` and
``s ~ Gamma(shape + tables, rate - sum log w)`` are exact conditionals (Escobar and West 1995, JASA 90; Teh et al. 2006, JASA
101).

EM is refused: the joint mode of workers and their population lies where all workers are the same, whatever the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import pyro
import torch
from pyro.distributions import Beta, Categorical, Dirichlet, Gamma, LogNormal
from torch import Tensor
from torch.distributions import constraints

from crowdppl.data.annotations import Annotations
from crowdppl.kernels.ops import above_zero, sample_dirichlet
from crowdppl.kernels.steps import CompiledStep
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.bound import one_hot
from crowdppl.model.conjugacy import dirichlet_log_density, dirichlet_mode, positive
from crowdppl.model.hyperparameters import refuse_weights, require_positive, require_pseudo_counts
from crowdppl.model.plates import Plates
from crowdppl.model.priors import class_prior, confusion_prior


@final
@dataclass(frozen=True)
class HierarchicalDawidSkene(AnnotationModel):
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

    def truth(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return Categorical(prevalence), the same for all items."""
        return Categorical(parameters["prevalence"])

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return, for each annotation, the rows of its worker's confusion: batch ``(A, K)``."""
        return Categorical(parameters["confusion"][data.worker])

    # ------------------------------------------------------------------ closed forms

    def log_truth(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return log prevalence ``(..., K)``."""
        return parameters["prevalence"].log()

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
        s, m = parameters["strength"], parameters["typical"]  # (C, K), (C, K, K)
        cells = (s.unsqueeze(-1) * m).unsqueeze(-3)  # (C, 1, K, K)
        tables = _tables(counts, cells.expand_as(counts)).sum(-3)  # (C, K, K)
        total = counts.sum(-1)  # (C, J, K)
        # A worker without annotations in a class says nothing: weight 1, of log 0.
        w = above_zero(Beta(s.unsqueeze(-2).expand_as(total), total.clamp(min=1)).sample())
        logs = torch.where(total > 0, w.log(), 0.0).sum(-2)  # (C, K)
        typical = positive(sample_dirichlet(confusion_prior(data, self.prior_correct, self.prior_incorrect) + tables))
        strength = (
            Gamma(self.strength_shape + tables.sum(-1), self.strength_shape / self.strength_mean - logs)
            .sample()
            .clamp(min=1e-6)
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


def _tables(counts: Tensor, concentration: Tensor) -> Tensor:
    """Draw the number of tables of each cell, ``sum_{i < n} Bernoulli(c / (c + i))``: as many draws as there are annotations."""
    n = counts.reshape(-1).round().long()
    cell = torch.arange(len(n), device=n.device).repeat_interleave(n)  # (annotations,)
    first = n.cumsum(0) - n
    place = (torch.arange(len(cell), device=n.device) - first[cell]).to(counts.dtype)
    c = concentration.reshape(-1)[cell]
    new = (torch.rand_like(c) * (c + place) < c).to(counts.dtype)
    return torch.zeros_like(concentration.reshape(-1)).index_add_(0, cell, new).view(counts.shape)
