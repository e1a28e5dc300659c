"""Raters with thresholds in compiled functions: the same distribution and the same readings as by torch."""

import math
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import quiet_fit
from scipy.stats import chi2, norm

from crowdppl import Annotations
from crowdppl.inference.backends import choose, graded
from crowdppl.inference.draws import Draws
from crowdppl.inference.evaluate import evaluate
from crowdppl.isolation import Threads, isolated
from crowdppl.model import graded_rows
from crowdppl.model.bound import bind
from crowdppl.models import GradedFacets

# All comparisons of this file together fail by chance once in 10,000 times; there are fewer than so many in each test.
FALSE_ALARMS, MOST = 1e-4, 5_000
FAR = norm.isf(FALSE_ALARMS / MOST / 2)
LINE = torch.linspace(-14, 14, 281, dtype=torch.float64)


def grades(items=60, raters=6, number=4, seed=0, criteria=None, known=0):
    """Grades by raters of different severity."""
    rng = np.random.default_rng(seed)
    item, rater = (part.ravel() for part in np.indices((items, raters)))
    kept = rng.random(len(item)) < 0.6
    item, rater = item[kept], rater[kept]
    x, severity = rng.normal(size=items), rng.normal(0, 0.7, raters)
    above = np.linspace(-1.5, 1.5, number - 1) + severity[rater, None]
    label = (rng.random(len(item))[:, None] < 1 / (1 + np.exp(above - 2 * x[item, None]))).sum(1)
    frame = {"task": item, "worker": rater, "label": label}
    truth = None if not known else {int(i): int(np.clip(round(1.5 + x[i]), 0, number - 1)) for i in range(known)}
    more = {}
    if criteria:
        frame["criterion"], more = rng.integers(0, criteria, len(item)), {"criterion": "criterion"}
    return Annotations.from_frame(pd.DataFrame(frame), labels=range(number), kind="ordinal", truth=truth, **more)


def raters_given(data, count, proposals=12):
    """Draws of raters ``(J+1, count, K)`` at one draw of the items' states ``(N,)`` at EM's point, and the prior of raters."""
    model = bind(GradedFacets(), data)
    with isolated(1):
        parameters = model.m_step(model.initial(data), data)
        for _ in range(50):
            responsibility = model.expectation(model.item_log_joint(parameters, data), data)[1]
            parameters = model.m_step(responsibility, data, parameters)
        sampler = graded.GradedSampler(model, data, model.compiled_raters(data), proposals)
        states = torch.multinomial(responsibility, 1).squeeze(-1).numpy()
        given = np.repeat(states[:, None].astype(np.uint8), count, 1)
        prior = sampler.form.prior(parameters)
        with closing(Threads(1)) as threads:
            drawn = sampler._raters(sampler.form.raters(parameters), prior, given, threads)
    return drawn, states, sampler, prior


def posterior_of(rater, sampler, prior, states):
    """Mean and covariance of two numbers of a rater given states, by integration over a grid."""
    slope, middle = torch.meshgrid(LINE / 4, LINE / 2, indexing="ij")
    numbers = torch.stack([slope, middle], -1).flatten(0, 1)
    part = slice(*sampler.start[rater : rater + 2])
    counts = torch.zeros(len(sampler.form.nodes), 2, dtype=torch.float64)
    place = torch.from_numpy(states[sampler.item[part]].astype(np.int64))
    counts.index_put_((place, torch.from_numpy(sampler.label[part].astype(np.int64))), torch.ones(()).double(), True)
    fit = (graded_rows.table(numbers, sampler.form.nodes).log() * counts).sum((-2, -1))
    weight = (fit - graded_rows.RaterPrior(prior.mean, prior.precision[rater]).energy(numbers)).softmax(0)
    mean = weight @ numbers
    off = numbers - mean
    return mean, (off * weight.unsqueeze(-1)).T @ off


@pytest.mark.slow
@pytest.mark.parametrize("known", [0, 15])
def test_raters_have_the_distribution_of_a_grid(known):
    data = grades(number=2, known=known)
    count = 40_000
    drawn, states, sampler, prior = raters_given(data, count)
    for j in range(data.J + 1):
        mean, covariance = posterior_of(j, sampler, prior, states)
        off = drawn[j] - mean
        error = off.mean(0) / (covariance.diagonal() / count).sqrt()
        assert error.abs().max() < FAR
        # Of a normal variable the mean square has the variance 2 / count; of these the kurtosis is larger, up to 7.
        square = off.square().mean(0) / covariance.diagonal()
        assert (square - 1).abs().max() < FAR * math.sqrt(6 / count)


@pytest.mark.slow
def test_two_proposals_are_nearly_enough():
    data = grades(number=2, items=120)
    drawn, states, sampler, prior = raters_given(data, 10_000, graded.PROPOSALS)
    for j in range(data.J + 1):
        mean, covariance = posterior_of(j, sampler, prior, states)
        off = drawn[j] - mean
        assert (off.mean(0) / covariance.diagonal().sqrt()).abs().max() < 0.05 + FAR / 100
        assert (off.square().mean(0) / covariance.diagonal()).min() > 0.95 - FAR * math.sqrt(6 / 10_000)


@pytest.mark.slow
def test_raters_of_several_grades_have_the_distribution_of_long_chains():
    data = grades(number=4, raters=3)
    count = 20_000
    drawn, states, sampler, prior = raters_given(data, count)
    model = bind(GradedFacets(), data)
    chosen = torch.from_numpy(states).expand(1, -1)
    counts = model.model._counted(chosen, data)[0]
    with isolated(2):
        chain = drawn.transpose(0, 1)[:4000]
        for _ in range(12):
            chain = graded_rows.drawn(chain, counts, sampler.form.nodes, prior)
    chain = chain.transpose(0, 1)
    error = (drawn.mean(1) - chain.mean(1)) / (drawn.var(1) / count + chain.var(1) / chain.shape[1]).sqrt()
    assert error.abs().max() < FAR
    ratio = drawn.var(1) / chain.var(1)
    assert ratio.log().abs().max() < FAR * math.sqrt(6 / count + 6 / chain.shape[1])


def both_evaluations(data, monkeypatch, count=60):
    """Draws of a fit evaluated by compiled functions and by torch."""
    with isolated(0):
        posterior = quiet_fit(data, GradedFacets(), method="em", num_samples=count)
    model = bind(GradedFacets(), data)
    names = [str(name) for name in posterior.tree["posterior"].data_vars]
    samples = {
        name: torch.from_numpy(posterior.tree["posterior"][name].values).double()
        for name in names
        if name
        in set(model.model.dims) | {"crowd_log_slope", "crowd_middle", "reference_log_slope", "reference_middle"}
        and name not in ("severity", "difficulty", "criterion_grades")
    }
    out = []
    for limit in (0, math.inf):
        monkeypatch.setattr(choose, "RATERS", limit)
        with isolated(0):
            sites = frozenset(samples)
            out.append(evaluate(model, data, Draws(samples, "posterior", "", sites=sites)))
    return out


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"known": 20}, {"criteria": 3}, {"criteria": 2, "known": 10}, {"number": 2}])
def test_readings_are_those_of_torch(options, monkeypatch):
    data = grades(**options)
    compiled, plain = both_evaluations(data, monkeypatch)
    for name in ("log_likelihood", "confusion", "prevalence", "probability", "lp", "log_prior"):
        assert torch.allclose(getattr(compiled, name), getattr(plain, name), rtol=1e-8, atol=1e-10), name
    assert torch.equal(compiled.truth[..., data.truth >= 0].long(), data.truth[data.truth >= 0].expand(1, 60, -1))
    # Drawn true grades: over all draws each is as frequent as probable.
    expected = plain.probability.sum(0) * 60
    given = torch.bincount(compiled.truth.flatten().long(), minlength=data.K)
    possible = expected > 5
    square = ((given - expected)[possible] ** 2 / expected[possible]).sum()
    assert square < chi2.isf(FALSE_ALARMS, data.K - 1)
    agreed = (compiled.truth.flatten(0, 1)[:, data.item].long() == data.label).double()
    counted = torch.zeros(60, data.J).double().index_add_(1, data.worker, agreed)
    assert torch.equal(compiled.correct.double(), counted)


@pytest.mark.slow
def test_threads_do_not_change_draws(monkeypatch):
    data = grades(number=5)
    monkeypatch.setattr(choose, "RATERS", 0)
    results = []
    for threads in (1, 3):
        with isolated(0):
            monkeypatch.setattr("crowdppl.isolation.pool.threads_outside", lambda number=threads: number)
            posterior = quiet_fit(data, GradedFacets(), method="em", num_samples=50, seed=4)
            results.append(posterior.tree["posterior"]["middle"].values)
    assert np.array_equal(*results)
    assert not np.array_equal(results[0][0, 0], results[0][0, 1])


def test_small_data_are_left_to_torch():
    data = grades()
    model = bind(GradedFacets(), data)
    assert type(choose.sampler_from_point(model, data, 400, None)).__name__ == "TorchSampler"
