"""Dawid & Skene's model: every worker has a confusion matrix of their own.

A. P. Dawid and A. M. Skene (1979). Maximum likelihood estimation of observer error-rates using the EM algorithm.
Journal of the Royal Statistical Society C 28(1), 20-28. Bayesian form: H.-C. Kim and Z. Ghahramani (2012), Bayesian
classifier combination, AISTATS.

Story::

    prevalence      pi       (K,)       ~ Dirichlet(a)
    confusion       theta_j  (K, K)     ~ Dirichlet(B_k) for each true class k of worker j     [paper: pi_kl^(j)]
    truth           z_i                 ~ Categorical(pi)                                     [paper: T_ij, q]
    label           y_n | z_i = k       ~ Categorical(theta_j[k]),  i = item[n], j = worker[n]

Repeated annotations of an item by one worker are independent draws, as in the paper (its anaesthetist 1 judged three
times). The paper maximises the likelihood; here the default prior adds a few imaginary annotations, see the fields.
``DawidSkene.maximum_likelihood()`` is the paper's estimator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, final

import pyro
import torch
from pyro.distributions import Categorical, Dirichlet
from torch import Tensor
from torch.distributions import constraints

from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError
from crowdppl.kernels.ops import label_shares, sample_dirichlet, summed_logs
from crowdppl.model.base import AnnotationModel, Expected, Parameters, Sums, one_hot, sums_of
from crowdppl.model.conjugacy import dirichlet_expected
from crowdppl.model.hyperparameters import require_answers
from crowdppl.model.plates import Plates


@final
@dataclass(frozen=True)
class DawidSkene(AnnotationModel):
    """Dawid & Skene (1979) with Dirichlet priors.

    A flat prior is Dirichlet(1) and leaves the estimate to the data. The fields count imaginary annotations *on top of* it,
    in units of real ones: by default every worker begins with four right answers in each class and one wrong one (of up to
    eight classes), and real annotations soon outweigh them. With all of them at zero the posterior mode is the maximum of
    the likelihood.

    Attributes:
        prior_correct: imaginary right answers of every worker in every class. Where not given: 4, or half the number of classes if
            that is more, since the flat prior itself counts one answer for each label and would drown them.
        prior_incorrect: imaginary wrong answers of every worker in every class, shared evenly by the wrong labels.
        prior_items: imaginary items of every class.
        concentration: the whole Dirichlet concentration of the confusion rows ``(K, K)`` = (truth, label), in place of
            ``prior_correct`` and ``prior_incorrect``: one plus the imaginary answers.
    """

    prior_correct: float | None = None
    prior_incorrect: float = 1.0
    prior_items: float = 0.0
    concentration: tuple[tuple[float, ...], ...] | None = None

    dims: ClassVar = {"prevalence": ("true_label",), "confusion": ("worker", "true_label", "given_label")}
    batched_m_step: ClassVar = True

    def __post_init__(self) -> None:
        require_answers(
            self,
            *(
                ["prior_incorrect", "prior_items"]
                if self.prior_correct is None
                else ["prior_correct", "prior_incorrect", "prior_items"]
            ),
        )
        if self.concentration is not None:
            try:
                rows = torch.as_tensor(self.concentration, dtype=torch.float64)
            except (TypeError, ValueError, RuntimeError):
                rows = torch.zeros(0)
            square = rows.dim() == 2 and rows.shape[0] == rows.shape[1] > 1
            if not square or not bool(((rows > 0) & torch.isfinite(rows)).all()):
                raise ModelError("DawidSkene: concentration must be a (K, K) table of positive numbers, (truth, label)")
            object.__setattr__(self, "concentration", tuple(map(tuple, rows.tolist())))

    @classmethod
    def maximum_likelihood(cls) -> DawidSkene:
        """Return the paper's estimator: flat priors, so that EM climbs the likelihood."""
        return cls(prior_correct=0.0, prior_incorrect=0.0, prior_items=0.0)

    def concentrations(self, data: Annotations) -> tuple[Tensor, Tensor]:
        """Return the Dirichlet concentrations of prevalence ``(K,)`` and confusion rows ``(K, K)``; not to be written to."""
        return _concentrations(self, data.K, data.dtype, data.device)

    def _kind(self, data: Annotations) -> _Kind:
        return _kind(self, data.K, data.dtype, data.device)

    # ------------------------------------------------------------------ the story

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample prevalence ``(K,)`` and confusion ``(J, K, K)``."""
        a, B = self.concentrations(data)
        prevalence = pyro.sample("prevalence", Dirichlet(a))  # (K,)
        with plates.worker:
            confusion = pyro.sample("confusion", Dirichlet(B).to_event(1))  # (J, K, K)
        return {"prevalence": prevalence, "confusion": confusion}

    def truth(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return Categorical(prevalence), the same for all items."""
        return Categorical(parameters["prevalence"])

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return, for each annotation, the rows of its worker's confusion: batch ``(A, K)``."""
        return Categorical(parameters["confusion"][data.worker])

    # ------------------------------------------------------------------ closed forms

    def log_truth(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return log prevalence ``(..., K)``: minus infinity for a class that is not there, where torch would put -36."""
        return parameters["prevalence"].log()

    def log_confusion(self, parameters: Parameters) -> Tensor:
        """Return log confusion ``(..., J, K, K)``: a label depends on truth and worker only."""
        return parameters["confusion"].log()

    def log_prior(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log density of the two Dirichlet priors, ``(...)``: as Pyro's, without a trace."""
        flat = self._kind(data).flat
        total = None if flat else summed_logs(parameters["confusion"])
        return self._log_prior(parameters["prevalence"], total, data)

    def log_density(
        self, parameters: Parameters, data: Annotations, scratch: dict[str, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return item log joint and log prior, with one pass of logarithms over the confusions."""
        if scratch is None:
            logs = self.log_confusion(parameters)
            evidence = data.counts.evidence(logs)
        else:
            confusion = parameters["confusion"]
            if not scratch:
                scratch["logs"] = torch.empty_like(confusion)
                scratch["evidence"] = confusion.new_empty(data.N, data.K)
            logs = torch.log(confusion, out=scratch["logs"])
            evidence = data.counts.evidence(logs, scratch["evidence"])
        joint = self._joint(evidence, parameters, data)
        flat = self._kind(data).flat
        return joint, self._log_prior(parameters["prevalence"], None if flat else logs.sum(-3), data)

    def _log_prior(self, prevalence: Tensor, total: Tensor | None, data: Annotations) -> Tensor:
        """Return it from the logs of confusions summed over workers ``(..., K, K)``; ``None`` where their prior is flat."""
        a, B = self.concentrations(data)
        density = _log_normaliser(a) + data.J * _log_normaliser(B).sum() + torch.xlogy(a - 1, prevalence).sum(-1)
        if total is None:  # saves a pass over the table
            return density
        return density + torch.where(B == 1, 0.0, (B - 1) * total).sum((-2, -1))

    def m_step(self, responsibility: Tensor, data: Annotations, reuse: Parameters | None = None) -> Parameters:
        """Return the modes of the two Dirichlet posteriors (paper: equations 2.3 and 2.4, plus the imaginary counts)."""
        memory = None if reuse is None else reuse["confusion"]
        return self.m_step_from(sums_of(responsibility, data, memory), data)

    def m_step_from(self, sums: Sums, data: Annotations) -> Parameters:
        """Return the same from the sums over items."""
        a, B = self.concentrations(data)
        kind = self._kind(data)
        if not kind.mode:
            raise ModelError(
                "DawidSkene: a prior with concentrations below 1 has no interior mode for EM; use method='gibbs', 'nuts' or "
                "'svi', or imaginary counts of at least 0"
            )
        prevalence, confusion = sums.size + (a - 1), label_shares(sums.counts, None if kind.flat else B - 1)
        return {"prevalence": prevalence / prevalence.sum(-1, keepdim=True), "confusion": confusion}

    def gibbs_step(self, truth: Tensor, parameters: Parameters, data: Annotations) -> Parameters:
        """Draw prevalence and confusion given truths ``(C, N)``: Dirichlet with the counts added."""
        return self.gibbs_from(sums_of(one_hot(truth, data), data), data)

    def gibbs_from(self, sums: Sums, data: Annotations) -> Parameters:
        """Draw the same from the sums over items."""
        a, B = self.concentrations(data)
        return {"prevalence": sample_dirichlet(a + sums.size), "confusion": sample_dirichlet(B + sums.counts)}

    def expected_from(self, sums: Sums, data: Annotations) -> Expected:
        """Return what mean-field variational Bayes expects of the same Dirichlets."""
        a, B = self.concentrations(data)
        prior, prevalence, of_prevalence = dirichlet_expected(a + sums.size, a)
        table, confusion, of_confusion = dirichlet_expected(B + sums.counts, B)
        return Expected(table, prior, of_prevalence + of_confusion, {"prevalence": prevalence, "confusion": confusion})

    def table(self, parameters: Parameters) -> Tensor:
        """Return the confusion ``(..., J, K, K)``."""
        return parameters["confusion"]

    def guide(self, data: Annotations, start: Parameters) -> Callable[..., Any]:
        """Return the mean-field guide: independent Dirichlets, begun at the prior plus the counts of a majority vote."""
        a, B = self.concentrations(data)
        share = data.majority()
        first = {"prevalence": a + share.sum(0), "confusion": B + data.counts.expected(share).contiguous()}

        def guide(data: Annotations, index: Tensor | None = None) -> None:
            plates = Plates.over(data.N, data.J, index)
            q = {
                name: pyro.param(f"{name}_concentration", value, constraint=constraints.positive)
                for name, value in first.items()
            }
            pyro.sample("prevalence", Dirichlet(q["prevalence"]))
            with plates.worker:
                pyro.sample("confusion", Dirichlet(q["confusion"]).to_event(1))

        return guide


@lru_cache(maxsize=64)
def _concentrations(model: DawidSkene, K: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Make the concentrations once for each kind of data: EM asks at every step, in microseconds that count."""
    kind: dict[str, Any] = {"dtype": dtype, "device": device}
    if model.concentration is not None:
        rows = torch.tensor(model.concentration, **kind)
        if len(rows) != K:
            raise ModelError(f"DawidSkene: concentration is for {len(rows)} classes; the data have {K}")
    else:
        rows = torch.full((K, K), 1 + model.prior_incorrect / max(1, K - 1), **kind)
        rows.fill_diagonal_(1 + (max(4.0, K / 2) if model.prior_correct is None else model.prior_correct))
    return torch.full((K,), 1 + model.prior_items, **kind), rows


class _Kind(NamedTuple):
    """What a prior's concentrations allow: whether those of confusions are 1, and whether all have a mode."""

    flat: bool
    mode: bool


@lru_cache(maxsize=64)
def _kind(model: DawidSkene, K: int, dtype: torch.dtype, device: torch.device) -> _Kind:
    a, B = _concentrations(model, K, dtype, device)
    return _Kind(flat=bool((B == 1).all()), mode=bool((a >= 1).all()) and bool((B >= 1).all()))


def _log_normaliser(concentration: Tensor) -> Tensor:
    return torch.lgamma(concentration.sum(-1)) - torch.lgamma(concentration).sum(-1)
