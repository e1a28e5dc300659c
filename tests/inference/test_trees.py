"""The no-U-turn sampler on targets that are known, and the parts of its warm-up."""

import numpy as np
import pytest
import scipy.stats
import torch

from crowdppl.inference.backends.nuts_chains import Chain, learn_scales, phases, together


def run(target, size, *, chains=4, warmup=400, count=1500, seed=0):
    """Sample a target; return draws ``(chains, count, size)`` and the chains."""
    rng = np.random.default_rng(seed)
    running = [Chain(rng.normal(size=size), np.ones(size), np.random.default_rng([seed, n])) for n in range(chains)]
    for end, learned in phases(warmup):
        together(running, [chain.until(end, 0.8, 1, warmup) for chain in running], target, lambda: None)
        if learned:
            learn_scales(running)
        else:
            for chain in running:
                chain.begin_window()
    together(running, [chain.until(warmup + count, None, 1, warmup) for chain in running], target, lambda: None)
    return np.stack([np.stack(chain.draws) for chain in running]), running


def by_autograd(density):
    """Return a target of places ``(C, P)`` by a density of them ``(C,)``."""

    def target(place):
        with torch.enable_grad():
            place = place.detach().requires_grad_()
            value = density(place)
            return value.detach(), torch.autograd.grad(value.sum(), place)[0]

    return target


def test_a_skewed_and_correlated_target():
    """The logarithm of a gamma variable, and a normal one whose mean it is, in unlike scales.

    Two Kolmogorov-Smirnov tests at 1e-4 on every tenth draw: a false alarm in 5,000 seeds.
    """

    def density(place):
        u, v = place.unbind(-1)
        return 2 * u - u.exp() - (v / 20 - u).square() / 2

    draws, chains = run(by_autograd(density), 2, count=800)
    u, v = draws[:, ::10].reshape(-1, 2).T
    assert scipy.stats.kstest(np.exp(u), scipy.stats.gamma(2.0).cdf).pvalue > 1e-4
    assert scipy.stats.kstest(v / 20 - u, scipy.stats.norm.cdf).pvalue > 1e-4
    assert chains[0].scale[1] / chains[0].scale[0] == pytest.approx(
        32, rel=0.3
    )  # standard deviations .80 and 20 x 1.28
    for chain in chains:
        assert chain.divergences == 0
        assert 0.7 < chain.accepted / 800 < 0.97
        assert len(chain.draws) == len(chain.statistics["energy"]) == 800


def test_a_chain_does_not_depend_on_the_others():
    """After the warm-up: alone in its row, it takes the same steps."""
    target = by_autograd(lambda place: -(place**4).sum(-1))
    start = [np.array([0.3, -0.2]), np.array([1.0, 0.5]), np.array([-0.7, 0.1])]

    def drawn(which):
        chains = [Chain(start[n], np.ones(2), np.random.default_rng(n), log_average=-1.0) for n in which]
        together(chains, [chain.until(50, None, 1, 0) for chain in chains], target, lambda: None)
        return np.stack(chains[which.index(1)].draws)

    np.testing.assert_array_equal(drawn([0, 1, 2]), drawn([1]))


def test_a_target_that_is_nowhere_finite_but_at_the_start_ends():
    """Step sizes and places stay finite, and every draw counts as diverged."""

    def target(place):
        here = (place == 0).all(-1)
        return torch.where(here, 0.0, -torch.inf), torch.where(here.unsqueeze(-1), torch.zeros_like(place), torch.nan)

    chain = Chain(np.zeros(1), np.ones(1), np.random.default_rng(0))
    together([chain], [chain.until(40, 0.8, 1, 40)], target, lambda: None)
    together([chain], [chain.until(60, None, 1, 40)], target, lambda: None)
    assert chain.divergences == 20
    assert not np.stack(chain.draws).any()
    assert np.isfinite(chain.log_step)


@pytest.mark.parametrize("warmup", [1, 19, 20, 60, 150, 400, 500, 1000, 1001])
def test_phases(warmup):
    """They end where the warm-up does; scales are learned last some draws before, on growing windows."""
    ends = [end for end, _ in phases(warmup)]
    assert ends[-1] == warmup
    assert ends == sorted(set(ends))
    learned = [end for end, learns in phases(warmup) if learns]
    assert bool(learned) == (warmup >= 20)
    assert not learned or learned[-1] < warmup
    if warmup == 1000:
        assert learned == [100, 150, 250, 450, 950]  # as in Stan
