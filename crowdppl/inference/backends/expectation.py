"""The two steps of EM, and where their sums over items come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from crowdppl.inference.backends.em_steps import EMSteps
from crowdppl.inference.backends.passes import Sweeps
from crowdppl.inference.backends.sums import Sums
from crowdppl.inference.engines.anderson import Coordinates
from crowdppl.inference.engines.m_step import MStep
from crowdppl.inference.memory import chunk
from crowdppl.kernels.ops import read
from crowdppl.kernels.statistics import Statistics
from crowdppl.model.base import Parameters
from crowdppl.model.bound import repeated
from crowdppl.model.coupling import Smoothed
from crowdppl.model.program import densities, together
from crowdppl.model.truths import Coupled


class Expectation(ABC):
    """The E step of a model on its data, and the M step from what it expects.

    Both go from point to point: the parameters by site, or however a computation holds them.

    Args:
        m_step: of the model and the data.

    Attributes:
        name: of the computation, as results state it.
        passes: compiled passes over the annotations, where this process alone takes them.
        memory: how many earlier steps a run that goes alone is extrapolated from, besides the last one
            (:mod:`crowdppl.inference.engines.anderson`); 0 for SQUAREM.
    """

    name: str
    passes: Sweeps | None = None
    memory: int = 0

    def __init__(self, m_step: MStep):
        self.m_step, self.model, self.data = m_step, m_step.model, m_step.data

    def begin(self, responsibility: Tensor) -> Parameters:
        """Take the first M step, from responsibilities ``(N, S)`` of all items."""
        return self.m_step.start(responsibility)

    def learned_first(self, responsibility: Tensor, theta: Parameters) -> Iterable[str]:
        """Return the sites that only the first M step learns, which led to ``theta``."""
        later = self.model.m_step(self.m_step.counted(responsibility), self.data, theta)
        return [name for name, value in later.items() if value is theta[name]]

    def point(self, parameters: Parameters) -> Any:
        """Return parameters by site as this computation holds them."""
        return parameters

    def sites(self, point: Any) -> Parameters:
        """Return the parameters of a point by site."""
        assert isinstance(point, dict)
        return point

    def with_anchor(self, m_step: MStep) -> Expectation | None:
        """Return it for data that differ by the anchor alone; ``None`` where nothing can be used again."""
        return None

    def log_likelihood(self, parameters: Parameters) -> float:
        """Return the marginal log-likelihood at parameters by site, whatever the anchor is."""
        with torch.no_grad():
            joint = self.model.item_log_joint(self.model.at_sites(parameters, self.data), self.data)
            return float(repeated(torch.logsumexp(joint, -1), self.data).sum())

    @property
    def coordinates(self) -> Coordinates:
        """In which points are extrapolated, where there is a memory of earlier steps."""
        raise NotImplementedError

    def width(self, starts: int) -> int:
        """Return how many of ``starts`` runs to take in parallel."""
        return 1

    @abstractmethod
    def __call__(self, theta: Any) -> tuple[float, float, Any]:
        """Return log posterior, log-likelihood, and what an M step takes, at the point ``theta``."""

    @abstractmethod
    def maximise(self, expected: Any, theta: Any, reuse: Any = None) -> Any:
        """Return a better point than ``theta``, given what was expected there; may overwrite ``reuse``."""

    def several(self, thetas: list[Any]) -> tuple[list[tuple[float, float]], Any]:
        """Return log posterior and log-likelihood at each of ``C`` points, and what M steps from them take."""
        ((lp, ll, expected),) = (self(theta) for theta in thetas)
        return [(lp, ll)], expected


class TorchExpectation(Expectation):
    """By torch, from the item log joint: for every model."""

    name = "torch"

    def __init__(self, m_step: MStep):
        super().__init__(m_step)
        # Memory to overwrite: whatever the model keeps between E steps.
        self.workspace: dict[str, Tensor] = {}

    def width(self, starts: int) -> int:
        """Return how many runs to take in parallel.

        On small data calling torch costs more than its work; on a GPU most of it would be idle. Data beyond the caches are faster
        one run after the other. Gradients, and M steps of a model's own, take one run at a time.
        """
        return chunk(self.data, starts) if starts > 1 and self.model.closed else 1

    def __call__(self, theta: Parameters) -> tuple[float, float, Tensor]:
        """Return log posterior, log-likelihood and responsibilities ``(N, S)``."""
        if self.m_step.closed:
            joint, log_prior = self.model.log_density(theta, self.data, self.workspace)
        else:
            parameters, log_prior = self.model.conditioned(theta, self.data)
            joint = self.model.item_log_joint(parameters, self.data)
            if self.m_step.detached:
                space = self.m_step.space
                log_prior = log_prior - sum(space.sites[n]["fn"].log_prob(theta[n]) for n in space.weights)
        marginal, r = self.model.expectation(joint, self.data)
        # Exact enough for float32 data, too.
        ll, prior = read(repeated(marginal, self.data).sum(dtype=torch.float64), log_prior)
        return ll + prior, ll, r

    def several(self, thetas: list[Parameters]) -> tuple[list[tuple[float, float]], Tensor]:
        """Return log posterior and log-likelihood at each of ``C`` points, and responsibilities ``(N, S)`` or ``(C, N, S)``."""
        if len(thetas) == 1:
            return super().several(thetas)
        joint, log_prior = densities(self.model, together(thetas), self.data)
        marginal, r = self.model.expectation(joint, self.data)
        likelihood = repeated(marginal, self.data).sum(-1, dtype=torch.float64)
        likelihoods, priors = read(likelihood, torch.as_tensor(log_prior).expand_as(likelihood))
        return [(ll + prior, ll) for ll, prior in zip(likelihoods, priors, strict=True)], r

    def maximise(self, expected: Tensor, theta: Parameters, reuse: Parameters | None = None) -> Parameters:
        """Take the M step of the model, or gradients."""
        return self.m_step(expected, theta, reuse)


class CompiledExpectation(Expectation):
    """By compiled functions, where the model's two steps are compiled.

    Args:
        m_step: of the model and the data.
        steps: of the same.
    """

    name = "compiled"
    # Half of it takes more steps, twice as much saves few.
    memory = 10

    def __init__(self, m_step: MStep, steps: EMSteps):
        super().__init__(m_step)
        self.steps = steps

    def begin(self, responsibility: Tensor) -> Parameters:
        """Take the compiled first M step, which gives all sites."""
        self.m_step.closed = True
        return self.sites(self.steps.begin(responsibility))

    @cached_property
    def coordinates(self) -> Coordinates:
        """In which points are extrapolated."""
        assert not self.steps.step.betas  # of which the vector holds two numbers each
        return Coordinates.of(self.m_step.space, self.steps.step.shapes)

    def point(self, parameters: Parameters) -> Tensor:
        """Return all parameters in one vector ``(P,)``."""
        return self.steps.step.vector(parameters)

    def sites(self, point: Any) -> Parameters:
        """Return the parameters of a point by site."""
        return self.steps.step.parameters(point, self.data.dtype)

    def log_likelihood(self, parameters: Parameters) -> float:
        """Return the marginal log-likelihood at parameters by site, whatever the anchor is."""
        without = self.steps.with_anchor(torch.empty(0, self.data.K, dtype=torch.float64))
        likelihood, _, _ = without.expect(self.point(parameters))
        return likelihood

    def with_anchor(self, m_step: MStep) -> Expectation:
        """Return it for data that differ by the anchor alone."""
        assert m_step.data.anchor is not None
        return CompiledExpectation(m_step, self.steps.with_anchor(m_step.data.anchor))

    def __call__(self, theta: Tensor) -> tuple[float, float, Any]:
        """Return log posterior, log-likelihood, and the expected counts."""
        ll, log_prior, expected = self.steps.expect(theta)
        return ll + log_prior, ll, expected

    def maximise(self, expected: Any, theta: Tensor, reuse: Any = None) -> Tensor:
        """Take the compiled M step."""
        return self.steps.maximise(expected, theta)


class CoupledExpectation(Expectation):
    """By the posterior of all items of a sequence or set together, from which the model's M step follows."""

    name = "coupled"

    def __call__(self, theta: Parameters) -> tuple[float, float, Smoothed]:
        """Return log posterior, log-likelihood, and the posterior of all items."""
        truths = self.model.truths
        assert isinstance(truths, Coupled)
        expected = truths.smoothed(theta, self.data)
        likelihood = expected.log_likelihood.sum(dtype=torch.float64)
        ll, prior = read(likelihood, self.model.log_prior(theta, self.data))
        return ll + prior, ll, expected

    def maximise(self, expected: Smoothed, theta: Parameters, reuse: Parameters | None = None) -> Parameters:
        """Take the M step of the model."""
        return self.model.m_step_of_coupled(expected, self.data, theta)


class SummedExpectation(Expectation):
    """By sums over items, from which all parameters of a conjugate model follow.

    Args:
        m_step: of the model and the data.
        sums: over all items.
        name: of the computation.
    """

    def __init__(self, m_step: MStep, sums: Sums, name: str):
        super().__init__(m_step)
        self.sums, self.name = sums, name
        self.passes = sums if isinstance(sums, Sweeps) else None

    def begin(self, responsibility: Tensor) -> Parameters:
        """Take the first M step, from the sums of responsibilities."""
        return self.m_step.from_sums(self.sums.given(responsibility), None)

    def learned_first(self, responsibility: Tensor, theta: Parameters) -> Iterable[str]:
        """Return no site: each M step follows from the sums alone."""
        return ()

    def __call__(self, theta: Parameters) -> tuple[float, float, Statistics]:
        """Return log posterior, log-likelihood and the sums."""
        sums = self.sums.expect(*self.model.tables(theta, self.data))
        ll, prior = read(sums.log_likelihood, self.model.log_prior(theta, self.data))
        return ll + prior, ll, sums

    def maximise(self, expected: Statistics, theta: Parameters, reuse: Parameters | None = None) -> Parameters:
        """Return the mode given the sums."""
        return self.m_step.from_sums(expected, theta)
