"""The E step: log posterior and responsibilities at given parameters."""

from __future__ import annotations

import math
from typing import Any, Protocol

import torch
from torch import Tensor

from crowdppl.errors import ModelError
from crowdppl.inference import distributed
from crowdppl.inference.em_compiled import EMSteps
from crowdppl.inference.m_step import MStep
from crowdppl.inference.passes import Share, Sweeps, at
from crowdppl.kernels.ops import read
from crowdppl.kernels.statistics import Statistics
from crowdppl.model.base import Parameters
from crowdppl.model.bound import repeated
from crowdppl.model.program import densities, together


class Sums(Protocol):
    """Sums over all items, wherever they are."""

    def expect(self, table: Tensor, prior: Tensor) -> Statistics:
        """Take an E step; as :meth:`Share.expect`."""

    def given(self, responsibility: Tensor) -> Statistics:
        """Sum given responsibilities of all items."""


class EStep:
    """Evaluate the log posterior and its responsibilities by the fastest way available.

    Args:
        m_step: of the same model and data.
        share: sums over all items. Defaults to passes that suit the model and the data, if any.

    Attributes:
        share: sums over all items in compiled or distributed passes, where the model and the data allow them.
        compiled: both steps by compiled functions, where the model has them.
    """

    def __init__(self, m_step: MStep, share: Sums | None = None):
        self.m_step, self.model, self.data = m_step, m_step.model, m_step.data
        self.share: Sums | None = distributed.share(self.model, self.data) if share is None else share
        self.compiled = None if self.share is not None else EMSteps.of(self.model, self.data)
        # Memory to overwrite: whatever the model keeps between E steps.
        self.workspace: dict[str, Tensor] = {}

    @property
    def passes(self) -> Sweeps | None:
        """Compiled passes over the annotations, where this process alone takes them."""
        return self.share.sweeps if isinstance(self.share, Share) else None

    def __call__(self, theta: Parameters) -> tuple[float, float, Any]:
        """Return log posterior, log-likelihood, and responsibilities ``(N, S)`` or sums over them, at ``theta``."""
        if self.share is not None:
            sums = self.share.expect(*at(self.model, theta, self.data))
            ll, prior = read(sums.log_likelihood, self.model.log_prior(theta, self.data))
            return ll + prior, ll, sums
        if self.compiled is not None and self.m_step.closed:
            ll, expected = self.compiled.expect(theta)
            prior = float(self.model.log_prior(theta, self.data))
            return ll + prior, ll, expected
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

    def several(self, thetas: list[Parameters]) -> tuple[list[tuple[float, float]], Any]:
        """Return log posterior and log-likelihood at each of ``C`` points, and responsibilities ``(N, S)`` or ``(C, N, S)``."""
        if len(thetas) == 1:
            lp, ll, r = self(thetas[0])
            return [(lp, ll)], r
        joint, log_prior = densities(self.model, together(thetas), self.data)
        marginal, r = self.model.expectation(joint, self.data)
        likelihood = repeated(marginal, self.data).sum(-1, dtype=torch.float64)
        likelihoods, priors = read(likelihood, torch.as_tensor(log_prior).expand_as(likelihood))
        return [(ll + prior, ll) for ll, prior in zip(likelihoods, priors, strict=True)], r

    def require_number(self, lp: float, step: int) -> None:
        """Raise for a log posterior that is not a number.

        Raises:
            ModelError: for such a value.
        """
        if math.isnan(lp):
            raise ModelError(
                f"{self.model.name}: the log posterior is not a number at step {step}; some item's labels "
                f"may be impossible under every truth"
            )
