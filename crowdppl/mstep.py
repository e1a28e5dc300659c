"""The M step: a model's closed form where it has one, else gradients; and with it the first point of every engine."""

from __future__ import annotations

import inspect

import torch
from torch import Tensor

from crowdppl.annotations import Annotations
from crowdppl.model import AnnotationModel, Parameters, conditioned, prior_draws, provides
from crowdppl.space import Space

# L-BFGS iterations in one gradient M step: EM needs it to rise, not to arrive.
SEARCH_STEPS = 20


class MStep:
    """Maximise, or at least raise, the expected log joint plus log prior.

    Args:
        model: with or without ``m_step``.
        data: the judgements.
        space: of the model's sites.
    """

    def __init__(self, model: AnnotationModel, data: Annotations, space: Space):
        self.model, self.data, self.space = model, data, space
        self.closed = provides(model, "m_step")
        # A model of one's own may leave the third argument out.
        self.reuses = "reuse" in inspect.signature(model.m_step).parameters

    def start(self, responsibility: Tensor) -> Parameters:
        """Return the parameters that ``(N, K)`` responsibilities suggest; gradients begin at the prior's median."""
        if self.closed:
            return self.model.m_step(responsibility, self.data)
        median = {name: value.median(0).values for name, value in prior_draws(self.model, self.data, 15).items()}
        return self(responsibility, median)

    def __call__(self, responsibility: Tensor, theta: Parameters, reuse: Parameters | None = None) -> Parameters:
        """Return better parameters than ``theta`` for the given responsibilities, or ``theta``; may overwrite ``reuse``."""
        if self.closed:
            more = (reuse,) if self.reuses else ()
            return self.model.m_step(responsibility, self.data, *more)
        vector = self.space.vector(theta, inside=False).requires_grad_()
        search = torch.optim.LBFGS([vector], max_iter=SEARCH_STEPS, history_size=20, line_search_fn="strong_wolfe")

        def loss() -> Tensor:
            search.zero_grad()
            parameters, log_prior = conditioned(self.model, self.space.values(vector), self.data)
            joint = self.model.item_log_joint(parameters, self.data)
            # A class that is ruled out has joint minus infinity and responsibility 0: it adds nothing.
            objective = -(torch.where(responsibility > 0, responsibility * joint, 0.0).sum() + log_prior)
            objective.backward()
            return objective

        with torch.enable_grad():
            before = loss().item()
            search.step(loss)
            after = loss().item()
        return self.space.values(vector.detach()) if after <= before else theta
