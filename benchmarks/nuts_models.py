"""Five models twice: as a user of this library writes them or takes them from the catalogue, and as NumPyro programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pyro
import torch
from pyro.distributions import Categorical, Dirichlet, HalfNormal, LogNormal, Normal

from crowdppl import AnnotationModel, Annotations
from crowdppl.model import blocks
from crowdppl.model.priors import class_prior, confusion_prior
from crowdppl.models import GLAD, DawidSkene, HierarchicalDawidSkene


class Skill(AnnotationModel):
    """A label is correct with log odds that a subclass gives, and otherwise any other one."""

    def prior(self, data: Any, plates: Any) -> Any:
        """Sample the prevalence."""
        return {"prevalence": pyro.sample("prevalence", Dirichlet(2 * torch.ones(data.K)))}

    def truth(self, parameters: Any, data: Any) -> Categorical:
        """Return Categorical(prevalence)."""
        return Categorical(parameters["prevalence"])

    def log_odds(self, parameters: Any, data: Any) -> torch.Tensor:
        """Return the log odds of each annotation, ``(A,)``."""
        raise NotImplementedError

    def emission(self, parameters: Any, data: Any) -> Any:
        """Return the distribution of each label given the truth."""
        return blocks.labels_given(self.log_odds(parameters, data).unsqueeze(-1), data.K)


class Experience(Skill):
    """Hierarchical regression: log odds are linear in a worker's experience, with an effect of each worker."""

    def prior(self, data: Any, plates: Any) -> Any:
        """Sample prevalence, intercept, slope, sigma and effects."""
        out = super().prior(data, plates)
        out["intercept"] = pyro.sample("intercept", Normal(1.0, 1.0))
        out["slope"] = pyro.sample("slope", Normal(0.0, 1.0))
        out["sigma"] = pyro.sample("sigma", HalfNormal(0.5))
        with plates.worker:
            out["effect"] = pyro.sample("effect", Normal(0.0, out["sigma"]))
        return out

    def log_odds(self, parameters: Any, data: Any) -> torch.Tensor:
        """Return intercept, slope times experience, and the worker's effect."""
        mean = parameters["intercept"] + parameters["slope"] * data.worker_features[:, 0]
        return torch.as_tensor((mean + parameters["effect"])[data.worker])


class TwoParameters(Skill):
    """Item response: discrimination of an item times ability of a worker less difficulty of the item (2PL)."""

    dims: ClassVar = {"ability": ("worker",)}

    def prior(self, data: Any, plates: Any) -> Any:
        """Sample prevalence, ability, difficulty and discrimination."""
        out = super().prior(data, plates)
        with plates.worker:
            out["ability"] = pyro.sample("ability", Normal(1.0, 1.0))
        with plates.item:
            out["difficulty"] = pyro.sample("difficulty", Normal(0.0, 1.0))
            out["discrimination"] = pyro.sample("discrimination", LogNormal(0.0, 0.3))
        return out

    def log_odds(self, parameters: Any, data: Any) -> torch.Tensor:
        """Return the log odds."""
        apart = parameters["ability"][data.worker] - parameters["difficulty"][data.item]
        return torch.as_tensor(parameters["discrimination"][data.item] * apart)


# ---------------------------------------------------------------------- the same for NumPyro


def labelled(data: Annotations, prevalence: Any, log_likelihood: Any) -> None:
    """Add the labels, given the log-likelihood ``(A, K)`` of each under each truth, with the truth summed out."""
    item = jnp.array(data.item.numpy())
    joint = jnp.log(prevalence) + jax.ops.segment_sum(log_likelihood, item, data.N)
    numpyro.factor("labels", jax.nn.logsumexp(joint, -1).sum())


def correct_with(data: Annotations, log_odds: Any) -> Any:
    """Return the log-likelihood ``(A, K)`` of labels that are correct with log odds ``(A,)``."""
    hit = jnp.arange(data.K) == jnp.array(data.label.numpy())[:, None]
    wrong = -jnp.logaddexp(0, log_odds) - np.log(data.K - 1)
    return jnp.where(hit, -jnp.logaddexp(0, -log_odds)[:, None], wrong[:, None])


def by_rows(data: Annotations, confusion: Any) -> Any:
    """Return the log-likelihood ``(A, K)`` of labels by confusion matrices ``(J, K, K)``."""
    return jnp.log(confusion)[jnp.array(data.worker.numpy()), :, jnp.array(data.label.numpy())]


def dawid_skene(data: Annotations) -> None:
    """Dawid and Skene's model with the default prior of the catalogue."""
    a, b = (part.numpy() for part in DawidSkene().concentrations(data))
    prevalence = numpyro.sample("prevalence", dist.Dirichlet(jnp.array(a)))
    with numpyro.plate("worker", data.J):
        confusion = numpyro.sample("confusion", dist.Dirichlet(jnp.array(b)).to_event(1))
    labelled(data, prevalence, by_rows(data, confusion))


def hierarchical(data: Annotations) -> None:
    """Confusion matrices from a population, with the default prior of the catalogue."""
    m = HierarchicalDawidSkene()
    rows = confusion_prior(data, m.prior_correct, m.prior_incorrect).numpy()
    prevalence = numpyro.sample("prevalence", dist.Dirichlet(jnp.array(class_prior(data, m.prior_items).numpy())))
    typical = numpyro.sample("typical", dist.Dirichlet(jnp.array(rows)).to_event(1))
    gamma = dist.Gamma(m.strength_shape, m.strength_shape / m.strength_mean)
    strength = numpyro.sample("strength", gamma.expand([data.K]).to_event(1))
    with numpyro.plate("worker", data.J):
        confusion = numpyro.sample("confusion", dist.Dirichlet(strength[:, None] * typical).to_event(1))
    labelled(data, prevalence, by_rows(data, confusion))


def glad(data: Annotations) -> None:
    """GLAD, with the default prior of the catalogue."""
    m = GLAD()
    with numpyro.plate("worker", data.J):
        ability = numpyro.sample("ability", dist.Normal(1.0, m.ability_scale))
    with numpyro.plate("item", data.N):
        easiness = numpyro.sample("easiness", dist.Normal(1.0, m.easiness_scale))
    log_odds = ability[jnp.array(data.worker.numpy())] * jnp.exp(easiness)[jnp.array(data.item.numpy())]
    labelled(data, jnp.full(data.K, 1 / data.K), correct_with(data, log_odds))


def experience(data: Annotations) -> None:
    """The hierarchical regression, centred as its user writes it."""
    prevalence = numpyro.sample("prevalence", dist.Dirichlet(2 * jnp.ones(data.K)))
    intercept = numpyro.sample("intercept", dist.Normal(1.0, 1.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(0.5))
    with numpyro.plate("worker", data.J):
        effect = numpyro.sample("effect", dist.Normal(0.0, sigma))
    assert data.worker_features is not None
    log_odds = intercept + slope * jnp.array(data.worker_features.numpy()[:, 0]) + effect
    labelled(data, prevalence, correct_with(data, log_odds[jnp.array(data.worker.numpy())]))


def two_parameters(data: Annotations) -> None:
    """The two-parameter logistic model."""
    prevalence = numpyro.sample("prevalence", dist.Dirichlet(2 * jnp.ones(data.K)))
    with numpyro.plate("worker", data.J):
        ability = numpyro.sample("ability", dist.Normal(1.0, 1.0))
    with numpyro.plate("item", data.N):
        difficulty = numpyro.sample("difficulty", dist.Normal(0.0, 1.0))
        discrimination = numpyro.sample("discrimination", dist.LogNormal(0.0, 0.3))
    item = jnp.array(data.item.numpy())
    log_odds = discrimination[item] * (ability[jnp.array(data.worker.numpy())] - difficulty[item])
    labelled(data, prevalence, correct_with(data, log_odds))


@dataclass(frozen=True)
class Both:
    """A model of this library and the program that states the same for NumPyro."""

    name: str
    model: AnnotationModel
    program: Callable[[Annotations], None]


FIVE = (
    Both("Dawid-Skene", DawidSkene(), dawid_skene),
    Both("hierarchical Dawid-Skene", HierarchicalDawidSkene(), hierarchical),
    Both("GLAD", GLAD(), glad),
    Both("regression on experience", Experience(), experience),
    Both("2PL", TwoParameters(), two_parameters),
)
