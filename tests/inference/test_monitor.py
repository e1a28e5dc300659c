"""When a run has converged: moments of blocks against the draws themselves, stationary chains, chains that are stuck."""

import arviz_stats
import numpy as np
import pytest
import torch
import xarray as xr

from crowdppl.inference.engines import monitor
from crowdppl.inference.engines.monitor import BlockMoments, Layout, diagnose, of_draws, places


def autoregressive(generator, chains, sweeps, quantities, correlation, mean=0.5, spread=0.1):
    """Return stationary AR(1) chains, ``(chains, sweeps, quantities)``."""
    noise = generator.normal(size=(chains, sweeps, quantities)) * spread * np.sqrt(1 - correlation**2)
    out = np.empty_like(noise)
    out[:, 0] = generator.normal(size=(chains, quantities)) * spread
    for n in range(1, sweeps):
        out[:, n] = correlation * out[:, n - 1] + noise[:, n]
    return torch.from_numpy(mean + out)


def moments_of(values):
    out = BlockMoments.empty(values.shape[0], values.shape[2], values)
    for sweep in values.unbind(1):
        out.add(sweep)
    return out


@pytest.mark.parametrize("sweeps", [64, 100, 128, 1000])
def test_blocks_are_means_of_the_draws(sweeps):
    values = autoregressive(np.random.default_rng(0), 3, sweeps, 5, 0.5)
    blocks = moments_of(values)
    used = blocks.sweeps
    assert sweeps - blocks.length < used <= sweeps
    parts = values[:, :used].reshape(3, blocks.full, blocks.length, 5)
    means = blocks.means[:, : blocks.full].double() + blocks.origin
    torch.testing.assert_close(means, parts.mean(2), rtol=0, atol=1e-6)
    squares = (parts - blocks.origin).square().mean(2).sum(0)
    torch.testing.assert_close(blocks.squares[: blocks.full].double(), squares, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_figures_are_those_of_arviz(correlation):
    """Split R-hat, not rank-normalised, to .0005; ESS of normal chains within a quarter: batch means of 31 x 4 batches."""
    values = autoregressive(np.random.default_rng(1), 4, 4000, 20, correlation, spread=1.0)
    diagnosis = diagnose([moments_of(values)], Layout({"x": (0, 20)}, 1))
    table = xr.Dataset({"x": (("chain", "draw", "cell"), values.numpy()[:, : diagnosis.sweeps])})
    rhat, ess = arviz_stats.rhat(table, method="split")["x"].max(), arviz_stats.ess(table, method="mean")["x"]
    assert abs(diagnosis.r_hat["x"] - float(rhat)) < 5e-4
    alone = [diagnose([moments_of(values[..., n : n + 1])], Layout({"x": (0, 1)}, 1)).ess["x"] for n in range(20)]
    assert np.abs(np.log(alone / ess.values)).max() < 0.5
    assert abs(np.log(np.mean(alone) / ess.values.mean())) < 0.15


def test_groups_of_chains_are_one_run():
    """Chains that run one after the other, each with an origin of its own, are judged as if side by side."""
    values = autoregressive(np.random.default_rng(2), 4, 500, 6, 0.3)
    layout = Layout(places({"accuracy": 2, "truth": 4}), 2)
    together = diagnose([moments_of(values)], layout)
    apart = diagnose([moments_of(values[n : n + 1]) for n in range(4)], layout)
    for name in ("r_hat", "ess"):
        assert getattr(together, name) == pytest.approx(getattr(apart, name), rel=1e-4)


@pytest.mark.parametrize(("correlation", "sweeps"), [(0.0, 1500), pytest.param(0.8, 8000, marks=pytest.mark.slow)])
def test_stationary_chains_converge(correlation, sweeps):
    """At an effective sample size of 3,500 and more: no false alarm among five runs of 300 quantities that agree."""
    generator = np.random.default_rng(3)
    for _ in range(5):
        values = autoregressive(generator, 4, sweeps, 300, correlation)
        assert diagnose([moments_of(values)], Layout({"truth": (0, 300)}, 1)).converged


@pytest.mark.slow
def test_the_largest_of_many_null_quantities_is_no_alarm():
    """20,000 certain items: some R-hat exceeds 1.01 by chance, and none counts, as their Monte Carlo error is below .001."""
    values = autoregressive(np.random.default_rng(4), 4, 400, 20_000, 0.5, mean=0.99, spread=0.004)
    halves = values.numpy().reshape(8, 200, 20_000)
    within, between = halves.var(1, ddof=1).mean(0), halves.mean(1).var(0, ddof=1)
    assert np.sqrt(1 + between / within).max() > 1.02
    diagnosis = diagnose([moments_of(values)], Layout({"truth": (0, 20_000)}, 1))
    assert diagnosis.converged
    assert diagnosis.r_hat == {}


def test_chains_too_short_have_not_converged():
    """An effective sample size of 4 x 400 / 19 = 84 at a correlation of .9: never called converged in 20 runs."""
    generator = np.random.default_rng(5)
    runs = [autoregressive(generator, 4, 400, 5, 0.9) for _ in range(20)]
    assert not any(diagnose([moments_of(run)], Layout({"x": (0, 5)}, 1)).converged for run in runs)


@pytest.mark.parametrize(
    ("gap", "spread"), [(0.05, 0.0), (0.05, 1e-4), (0.05, 0.05), (0.15, 1e-4), (0.15, 0.2), (0.6, 0.2), (0.6, 0.4)]
)
def test_a_stuck_chain_is_caught(gap, spread):
    """One chain of four holds another probability: however small it is itself, and whatever R-hat makes of it."""
    values = autoregressive(np.random.default_rng(6), 4, 2000, 3, 0.0, mean=0.3, spread=spread)
    values[2, :, 1] += gap
    diagnosis = diagnose([moments_of(values)], Layout({"truth": (0, 3)}, 1))
    assert not diagnosis.converged
    assert diagnosis.disagreeing == ([1] if gap > monitor.DISAGREEMENT else [])


def test_items_are_counted_not_classes():
    values = autoregressive(np.random.default_rng(7), 4, 500, 12, 0.0, spread=0.01)
    values[0, :, 3:5] += 0.3  # two classes of the second item
    assert diagnose([moments_of(values)], Layout({"truth": (0, 12)}, 3)).disagreeing == [1]


def test_a_trend_is_discarded():
    values = autoregressive(np.random.default_rng(8), 4, 4000, 3, 0.0)
    values[:, :800] += torch.linspace(1, 0, 800).view(1, -1, 1)
    layout = Layout({"x": (0, 3)}, 1)
    assert not diagnose([moments_of(values)], layout).converged
    assert diagnose([moments_of(values)], layout, 0.5).converged


def test_few_or_constant_draws():
    one = diagnose(
        [moments_of(torch.from_numpy(np.random.default_rng(9).normal(size=(2, 3, 4))))], Layout({"x": (0, 4)}, 1)
    )
    assert not one.converged
    assert one.progress == 0
    constant = of_draws({"x": torch.full((4, 100), 0.25), "y": torch.zeros(4, 100, 2, 2)})
    assert constant.converged
    assert constant.progress == 1
