"""Conjugate updates: what follows from a Dirichlet or Beta prior and the counts that a model adds to its concentration.

A model states ``conjugate_counts`` (:class:`crowdppl.model.base.AnnotationModel`); the concentrations of its priors are read off
one run of ``prior``. With ``alpha`` a concentration and ``n`` the counts added to it, the conditional posterior of the site is
Dirichlet(alpha + n), and from this one place come

- its mode, ``(n + alpha - 1) / sum``: the M step of EM;
- a draw: the Gibbs step;
- ``exp(E[log p])``, the mean and the divergence from the prior: mean-field variational Bayes;
- the guide of SVI, Dirichlets that start at the posterior given the majority vote;
- the log prior, for parameters with any leading axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import pyro
import torch
from pyro.distributions import Beta, Dirichlet
from torch import Tensor
from torch.distributions import constraints

from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError
from crowdppl.kernels.ops import above_zero, label_shares, sample_dirichlet, summed_logs
from crowdppl.kernels.statistics import Statistics
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.plates import Plates

# ---------------------------------------------------------------------- Dirichlet and Beta along the last axis


def dirichlet_mode(counts: Tensor) -> Tensor:
    """Return the mode of Dirichlet(1 + counts); uniform where all are 0, on the boundary where some are negative."""
    counts = counts.clamp(min=0)
    total = counts.sum(-1, keepdim=True)
    return torch.where(total > 0, counts / above_zero(total), 1 / counts.shape[-1])


def dirichlet_log_density(concentration: Tensor, value: Tensor) -> Tensor:
    """Return the log density; a probability of 0 costs nothing where its concentration is 1."""
    return _log_normaliser(concentration) + torch.xlogy(concentration - 1, value).sum(-1)


def dirichlet_expected(posterior: Tensor, prior: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``exp(E[log p])`` and ``E[p]`` of Dirichlets, and their divergence from the priors.

    Args:
        posterior: concentrations, ``(..., K)``; of a Beta ``(..., 2)`` = (successes, failures).
        prior: likewise, or what broadcasts to them.

    Returns:
        Both ``(..., K)``, and the sum of the Kullback-Leibler divergences of all of them, a scalar.
    """
    total = posterior.sum(-1, keepdim=True)
    logs = torch.digamma(posterior) - torch.digamma(total)
    divergence = torch.lgamma(total.squeeze(-1)) - torch.lgamma(prior.sum(-1)) + ((posterior - prior) * logs).sum(-1)
    divergence = divergence - (torch.lgamma(posterior) - torch.lgamma(prior)).sum(-1)
    return logs.exp(), posterior / total, divergence.sum()


def positive(value: Tensor) -> Tensor:
    """Lift zeros to which a Dirichlet draw with tiny concentrations underflows to the smallest positive number, in place."""
    value = value.clamp_(min=torch.finfo(value.dtype).tiny)
    return value.div_(value.sum(-1, keepdim=True))


def _log_normaliser(concentration: Tensor) -> Tensor:
    return torch.lgamma(concentration.sum(-1)) - torch.lgamma(concentration).sum(-1)


# ---------------------------------------------------------------------- one site


@dataclass(frozen=True, eq=False)
class ConjugateSite:
    """A Dirichlet or Beta site.

    Attributes:
        name: of the site.
        concentration: of its prior, ``(..., K)``, of a Beta ``(..., 2)``; without the axis of workers where all have the same.
        shape: of the concentrations of all workers together.
        beta: whether the site is a Beta, whose value has no last axis.
        worker: whether the site is in the worker plate.
        size: number of axes of the site's value.
        flat: whether all concentrations are 1.
        interior: whether the mode is inside the simplex for any counts: no concentration below 1.
        log_normaliser: of all the site's priors together.
    """

    name: str
    concentration: Tensor
    shape: torch.Size
    beta: bool
    worker: bool
    size: int
    flat: bool
    interior: bool
    log_normaliser: Tensor

    @classmethod
    def of(cls, name: str, node: Mapping[str, Any], model: str, data: Annotations) -> ConjugateSite:
        """Read a site off a trace of the prior.

        Raises:
            ModelError: where it is neither a Dirichlet nor a Beta.
        """
        prior = node["fn"]
        while hasattr(prior, "base_dist"):  # the events of to_event
            prior = prior.base_dist
        beta = isinstance(prior, Beta)
        if not beta and not isinstance(prior, Dirichlet):
            raise ModelError(
                f"{model}.conjugate_counts returns counts for {name!r}, which is a {type(prior).__name__}; it must be a "
                f"Dirichlet or a Beta site"
            )
        whole = torch.stack([prior.concentration1, prior.concentration0], -1) if beta else prior.concentration
        whole = whole.detach().to(data.dtype)
        worker = any(frame.name == "worker" for frame in node["cond_indep_stack"])
        # One of the priors is enough where all workers have the same, as an expanded tensor shows without a look at its numbers.
        shared = worker and len(whole) > 0 and (whole.stride(0) == 0 or bool((whole == whole[:1]).all()))
        concentration = (whole[0] if shared else whole).contiguous()
        repeats = whole.shape[0] if shared else 1
        lone = concentration.shape[-1] == 1
        return cls(
            name=name,
            concentration=concentration,
            shape=whole.shape,
            beta=beta,
            worker=worker,
            size=node["value"].dim(),
            flat=bool((concentration == 1).all()),
            interior=lone or bool((concentration >= 1).all()),
            log_normaliser=repeats * _log_normaliser(concentration).sum(),
        )

    def mode(self, counts: Tensor) -> Tensor:
        """Return the mode given counts ``(..., *shape)``, possibly in their memory."""
        pseudo = self.concentration - 1
        if self.worker and self.interior and not self.beta and self.concentration.dim() == 2:
            return label_shares(counts, None if self.flat else pseudo)  # the largest tables, in their own memory
        mode = dirichlet_mode(counts + pseudo)
        return mode[..., 0] if self.beta else mode

    def draw(self, counts: Tensor) -> Tensor:
        """Draw from the conditional posterior given counts ``(..., *shape)``."""
        posterior = self.concentration + counts
        if self.beta:
            return Beta(posterior[..., 0], posterior[..., 1]).sample()
        value = sample_dirichlet(posterior)
        # Concentrations far below 1 draw zeros that underflow.
        return value if self.interior else positive(value)

    def log_kernel(self, value: Tensor, logs: Tensor | None = None) -> Tensor:
        """Return the log density of values ``(..., *shape)`` without the normaliser, summed over all but the leading axes.

        ``logs`` are those of the values, where they are known.
        """
        pseudo, axes = self.concentration - 1, tuple(range(-self.size, 0))
        if self.beta:
            return (torch.xlogy(pseudo[..., 0], value) + torch.xlogy(pseudo[..., 1], 1 - value)).sum(axes)
        if self.worker and self.concentration.dim() == 2 and self.size == 3:
            # Sums over workers first: few logarithms, or those that are there.
            total = summed_logs(value) if logs is None else logs.sum(-3)
            return torch.where(pseudo == 0, 0.0, pseudo * total).sum((-2, -1))
        return torch.xlogy(pseudo, value).sum(axes)

    def log_priors(self, value: Tensor) -> Tensor:
        """Return the log density of values ``(D, *shape)``, ``(D,)``, or ``(D, J)`` of workers."""
        lead = 2 if self.worker else 1
        own = self.worker and self.concentration.dim() == len(self.shape)  # a prior of each worker's own
        normaliser = _log_normaliser(self.concentration)
        normaliser = normaliser.reshape(len(normaliser), -1).sum(-1) if own else normaliser.sum()
        if self.flat:  # no pass over its table
            return normaliser.expand(value.shape[:lead]).clone()
        pseudo = self.concentration - 1
        if self.beta:
            each = torch.xlogy(pseudo[..., 0], value) + torch.xlogy(pseudo[..., 1], 1 - value)
            return normaliser + each.reshape(*each.shape[:lead], -1).sum(-1)
        value = value.reshape(*value.shape[:lead], -1)
        pseudo = pseudo.reshape(*([len(pseudo)] if own else []), -1)
        if not own:
            (cells,) = pseudo.nonzero(as_tuple=True)  # often the diagonal alone
            pseudo, value = pseudo[cells], value[..., cells]
        return normaliser + torch.xlogy(pseudo, value).sum(-1)


# ---------------------------------------------------------------------- all sites of a model


class Expected(NamedTuple):
    """What a mean-field E step uses: ``q(parameters)``, the conditional posterior given expected statistics, in expectation.

    Attributes:
        confusion: ``exp(E[log p(label | state, worker)])``, ``(J, S, K)``; rows sum to less than 1.
        truth: ``exp(E[log p(state)])``, ``(S,)``.
        divergence: Kullback-Leibler divergence of ``q`` from the prior, a scalar.
        mean: of the parameters.
    """

    confusion: Tensor
    truth: Tensor
    divergence: Tensor
    mean: Parameters


class Conjugacy:
    """The conjugate sites of a model, for data of given sizes.

    Args:
        model: with ``confusion`` and ``conjugate_counts``.
        sites: of its prior by name, as a trace holds them.
        means: what the prior returns at the prior means of its sites.
        data: sizes, type and device.

    Attributes:
        sites: by name, in the order of the prior.
        complete: whether they are all of the model's sites.

    Raises:
        ModelError: where counts are for other than Dirichlet or Beta sites, or of another shape.
    """

    def __init__(
        self, model: AnnotationModel, sites: Mapping[str, Mapping[str, Any]], means: Parameters, data: Annotations
    ):
        self.model, self.data, title = model, data, type(model).__name__
        self.means = means
        J, S, K = model.confusion(self.means, data).shape
        self.shared = J == 1
        kind: dict[str, Any] = {"dtype": data.dtype, "device": data.device}
        zero = torch.zeros((), **kind)
        # Only the shapes matter: the zeros need no table.
        probe = Statistics(torch.tensor(math.nan), zero.expand(S), zero.expand(J, S, K), self.means)
        counts = model.conjugate_counts(probe, data)
        unknown = sorted(set(counts) - set(sites))
        if unknown:
            raise ModelError(
                f"{title}.conjugate_counts returns {unknown[0]!r}, which is no site of the prior; sites are {sorted(sites)}"
            )
        self.sites = {name: ConjugateSite.of(name, node, title, data) for name, node in sites.items() if name in counts}
        for name, site in self.sites.items():
            if counts[name].shape != site.shape:
                raise ModelError(
                    f"{title}.conjugate_counts[{name!r}] has shape {tuple(counts[name].shape)}; the site's concentrations have "
                    f"shape {tuple(site.shape)}"
                )
        self.complete = set(self.sites) == set(sites)
        self.constant = sum((site.log_normaliser for site in self.sites.values()), zero)

    def _counts(self, statistics: Statistics, parameters: Parameters | None, *, drawn: bool = False) -> Parameters:
        current = self.means if parameters is None else parameters
        if self.shared and statistics.label_counts.shape[-3] > 1:
            statistics = statistics._replace(label_counts=statistics.label_counts.sum(-3, keepdim=True))
        return self.model.conjugate_counts(statistics._replace(parameters=current, drawn=drawn), self.data)

    def require_mode(self) -> None:
        """Require that the posterior has a mode inside the parameter space.

        Raises:
            ModelError: where a prior has concentrations below 1, whose density is infinite on the boundary.
        """
        for name, site in self.sites.items():
            if not site.interior:
                raise ModelError(
                    f"{type(self.model).__name__}: the prior of {name!r} has concentrations below 1, so the posterior has no "
                    f"interior mode for EM; use method='gibbs', 'nuts' or 'svi', or pseudo-counts of at least 0"
                )

    def m_step(self, statistics: Statistics, parameters: Parameters | None = None) -> Parameters:
        """Return the modes of the conditional posteriors; the statistics' memory may be written to.

        Args:
            statistics: expected, with any leading axes.
            parameters: the current ones; the prior means at the start.
        """
        counts = self._counts(statistics, parameters)
        return {name: site.mode(counts[name]) for name, site in self.sites.items()}

    def gibbs_step(self, statistics: Statistics, parameters: Parameters | None = None) -> Parameters:
        """Draw from the conditional posteriors given statistics of drawn truths."""
        counts = self._counts(statistics, parameters, drawn=True)
        return {name: site.draw(counts[name]) for name, site in self.sites.items()}

    def log_prior(self, parameters: Parameters, logs: Mapping[str, Tensor]) -> Tensor:
        """Return the log density of the sites, ``(...)``; ``logs`` are those of values by site, where they are known."""
        total = self.constant
        for name, site in self.sites.items():
            if not site.flat:  # a flat one costs no pass over its table
                total = total + site.log_kernel(parameters[name], logs.get(name))
        return total

    def log_priors(self, draws: Parameters) -> Parameters:
        """Return the log density of each site at draws ``(D, ...)``: ``(D,)``, or ``(D, J)`` of a site of the workers."""
        return {name: site.log_priors(draws[name]) for name, site in self.sites.items()}

    def expect(self, statistics: Statistics) -> Expected:
        """Return what a mean-field E step uses.

        The probability of a label is a product of the sites' probabilities. ``exp(E[log p])`` of a Dirichlet takes the place of
        its value. A Beta site enters by its value or by one minus it: the tables at 1 and at 0 are weighted by its two
        expectations.

        Raises:
            ModelError: where a label may come from several components, so that its probability is no product.
        """
        data, counts = self.data, self._counts(statistics, None)
        prior, divergence = dict(self.means), torch.zeros((), dtype=data.dtype, device=data.device)
        means: Parameters = dict(self.means)
        betas: dict[str, Tensor] = {}
        for name, site in self.sites.items():
            geometric, mean, apart = dirichlet_expected(site.concentration + counts[name], site.concentration)
            divergence = divergence + apart
            if site.beta:
                betas[name], means[name] = geometric, mean[..., 0]
            else:
                prior[name], means[name] = geometric, mean
        table = torch.zeros((), dtype=data.dtype, device=data.device)
        components = torch.zeros((), dtype=torch.long, device=data.device)
        truths = []
        for corner in product((0, 1), repeat=len(betas)):
            at, weight = dict(prior), torch.ones((), dtype=data.dtype, device=data.device)
            for (name, pair), failure in zip(betas.items(), corner, strict=True):
                at[name] = torch.full_like(pair[..., 0], 1.0 - failure)
                # (J, ...), or (1, ...) where the site is not a worker's own.
                factor = pair[..., failure] if self.sites[name].worker else pair[..., failure].unsqueeze(0)
                weight = weight * factor.reshape(factor.shape + (1,) * (3 - factor.dim()))
            confusion = self.model.confusion(at, data)
            components = components + (confusion > 0).long()
            table = table + weight * confusion
            truths.append(self.model.log_truth(at, data).exp())
        table = table.expand(data.J, *table.shape[1:])
        if bool((components > 1).any()) or any(not torch.equal(one, truths[0]) for one in truths):
            raise ModelError(
                f"{type(self.model).__name__}: a label may come from several components, for which there is no mean-field step; "
                f"use method='em' or 'svi'"
            )
        return Expected(table, truths[0], divergence, means)

    def guide(self, statistics: Statistics) -> Callable[..., Any]:
        """Return a guide of independent Dirichlets and Betas, started at the conditional posteriors given the statistics."""
        counts = self._counts(statistics, None)
        first = {name: (site.concentration + counts[name]).contiguous() for name, site in self.sites.items()}

        def draw(site: ConjugateSite) -> None:
            value = pyro.param(f"{site.name}_concentration", first[site.name], constraint=constraints.positive)
            q = Beta(value[..., 0], value[..., 1]) if site.beta else Dirichlet(value)
            pyro.sample(site.name, q.to_event(len(q.batch_shape) - site.worker))

        def guide(data: Annotations, index: Tensor | None = None) -> None:
            plates = Plates.over(data.N, data.J, index)
            for site in self.sites.values():
                if not site.worker:
                    draw(site)
            with plates.worker:
                for site in self.sites.values():
                    if site.worker:
                        draw(site)

        return guide
