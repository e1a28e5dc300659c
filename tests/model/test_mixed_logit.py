"""A logistic regression with random effects: its draws against numerical integration, and its moves against their definition."""

import numpy as np
import pytest
import scipy.stats
import torch

from crowdppl.isolation import isolated
from crowdppl.model import mixed_logit
from crowdppl.model.metropolis import moved, moved_together
from crowdppl.model.mixed_logit import Regression

# Mean and spread over chains that start apart: 4 standard errors are one false alarm in 16,000 comparisons; there are some 60.
ERRORS = 4.0
CHAINS, STEPS = 400, 60


def outcomes(size=30, seed=0):
    rng = np.random.default_rng(seed)
    return (
        rng.integers(0, 3, size),
        torch.from_numpy((rng.random(size) < 0.7).astype(float)),
        rng.uniform(0.3, 1.5, size),
    )


def require_moments(draws, density, grid):
    """Compare the mean and the variance of draws ``(C,)`` with those of a density on a grid."""
    weight = np.exp(density - density.max())
    weight /= weight.sum()
    mean = (weight * grid).sum()
    variance = (weight * (grid - mean) ** 2).sum()
    values = draws.numpy()
    assert abs(values.mean() - mean) < ERRORS * np.sqrt(variance / len(values))
    fourth = (weight * (grid - mean) ** 4).sum()
    assert abs(((values - mean) ** 2).mean() - variance) < ERRORS * np.sqrt((fourth - variance**2) / len(values))


@pytest.mark.parametrize("weighted", [False, True])
def test_effects_of_units_follow_their_posterior(weighted):
    unit, outcome, weight = outcomes()
    weight = weight if weighted else np.ones_like(weight)
    with isolated(1):
        effect = torch.randn(CHAINS, 3, dtype=torch.float64)
        chains = outcome.expand(CHAINS, -1)
        index = torch.from_numpy(unit)
        regression = Regression(chains, torch.from_numpy(weight), 0.3 + effect[:, index])
        for _ in range(STEPS):
            effect = regression.of_units(effect, index, 0.5, torch.full_like(effect, 2.0))
        assert torch.allclose(regression.log_odds, 0.3 + effect[:, index])
    grid = np.linspace(-5, 5, 4001)
    for k in range(3):
        own = unit == k
        x = 0.3 + grid[:, None]
        fit = (weight[own] * (outcome.numpy()[own] * x - np.logaddexp(0, x))).sum(1)
        require_moments(effect[:, k], fit - (grid - 0.5) ** 2, grid)


def test_effects_of_columns_follow_their_posterior():
    rng = np.random.default_rng(3)
    columns, outcome = rng.normal(size=(20, 2)), (rng.random(20) < 0.6).astype(float)
    with isolated(2):
        effect = torch.randn(CHAINS, 2, dtype=torch.float64)
        z = torch.from_numpy(columns)
        regression = Regression(torch.from_numpy(outcome).expand(CHAINS, -1), None, 1.0 + effect @ z.mT)
        for _ in range(STEPS):
            effect = regression.of_columns(effect, z, 0.7)
        assert torch.allclose(regression.log_odds, 1.0 + effect @ z.mT)
    grid = np.linspace(-6, 6, 241)
    a, b = np.meshgrid(grid, grid, indexing="ij")
    x = 1.0 + a[..., None] * columns[:, 0] + b[..., None] * columns[:, 1]
    density = (outcome * x - np.logaddexp(0, x)).sum(-1) - 0.35 * (a**2 + b**2)
    joint = np.exp(density - density.max())
    for k in range(2):
        require_moments(effect[:, k], np.log(joint.sum(1 - k)), grid)


def test_a_spread_follows_its_posterior_given_effects():
    values = torch.tensor([0.3, -0.8, 1.1, 0.2], dtype=torch.float64).expand(CHAINS, -1)
    with isolated(3):
        spread = torch.rand(CHAINS, dtype=torch.float64) + 0.1
        for _ in range(STEPS):
            spread = mixed_logit.spread_given(values, spread, 0.8)
    grid = np.linspace(0.01, 6, 6000)
    density = scipy.stats.norm.logpdf(values[0].numpy()[:, None], scale=grid).sum(0) - (grid / 0.8) ** 2 / 2
    require_moments(spread, density, grid)


def test_spread_and_effects_that_move_together_follow_their_posterior():
    """One unit, so that spread and effect are integrated on a plane."""
    outcome = torch.tensor([1.0, 1.0, 0.0, 1.0], dtype=torch.float64)
    index = torch.zeros(4, dtype=torch.int64)
    with isolated(4):
        effect = torch.randn(CHAINS, 1, dtype=torch.float64)
        spread = torch.rand(CHAINS, dtype=torch.float64) + 0.1
        regression = Regression(outcome.expand(CHAINS, -1), None, effect.expand(-1, 4).clone())
        for _ in range(4 * STEPS):
            effect = regression.of_units(effect, index, 0.0, spread.unsqueeze(-1) ** -2)
            spread = mixed_logit.spread_given(effect, spread, 1.0)
            spread, effect = regression.rescaled(spread, effect, effect.expand(-1, 4), 1.0)
        assert torch.allclose(regression.log_odds, effect.expand(-1, 4))
    s, e = np.meshgrid(np.linspace(0.005, 5, 1000), np.linspace(-8, 8, 1601), indexing="ij")
    fit = 3 * e - 4 * np.logaddexp(0, e)
    density = fit + scipy.stats.norm.logpdf(e, scale=s) - s**2 / 2
    joint = np.exp(density - density.max())
    require_moments(spread, np.log(joint.sum(1)), s[:, 0])
    require_moments(effect[:, 0], np.log(joint.sum(0)), e[0])


def test_a_shift_is_drawn_from_the_line_that_it_moves_along():
    first, second = (
        torch.tensor([[0.4, -0.3]], dtype=torch.float64),
        torch.tensor([[0.9, -0.2, 0.5]], dtype=torch.float64),
    )
    own, other = torch.tensor(2.0), torch.tensor([1.5, 0.5, 1.0])
    along = torch.tensor([1.0, -2.0, 0.5])
    with isolated(5):
        many = [part.expand(4000, -1).double() for part in (first, second)]
        amount = mixed_logit.shift((many[0], own.double()), (many[1], other.double()), (1.0, along.double()))
    grid = np.linspace(-4, 4, 8001)
    rising = (first.numpy()[0][:, None] + grid) ** 2 * 2.0
    falling = (second.numpy()[0][:, None] - along.numpy()[:, None] * grid) ** 2 * other.numpy()[:, None]
    require_moments(amount, -(rising.sum(0) + falling.sum(0)) / 2, grid)


def test_steps_leave_their_targets_unchanged():
    """From exact draws of a skewed target: a step must leave mean and spread as they are."""
    shape, count = 3.0, 4000
    with isolated(6):
        exact = torch.distributions.Gamma(torch.full((count,), shape, dtype=torch.float64), 1.0).sample().log()

        def target(value):
            return shape * value - value.exp(), shape - value.exp(), value.exp()

        once = moved(exact, target)
        pairs = moved_together(
            exact.view(-1, 2), lambda v: (target(v)[0].sum(-1), target(v)[1], torch.diag_embed(target(v)[2]))
        ).flatten()
    grid = np.linspace(-6, 4, 10001)
    for draws in (once, pairs):
        assert (draws != exact).double().mean() > 0.5
        require_moments(draws, shape * grid - np.exp(grid), grid)
