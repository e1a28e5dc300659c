"""Weights of the classes that known true labels say: against integration, in simulation, and in results."""

import dataclasses

import numpy as np
import pytest
import torch
from catalog import quiet_fit, simulated

import crowdppl
from crowdppl import Annotations, acquisition
from crowdppl.inference.dependence import class_weights
from crowdppl.inference.dependence.class_weights import WIDTHS, ClassWeights
from crowdppl.isolation import isolated


def items(n=40, classes=2, bias=0.0, seed=0):
    """Log-probabilities of items ``(n, K)``, design effects ``(n, Q)``, and true classes by a weight of the last class."""
    g = np.random.default_rng(seed)
    logs = 2 * g.normal(size=(n, classes))
    factors = 1 + 4 * g.random((n, 1)) * np.array([0.1, 0.3, 0.8])
    tempered = logs / factors[:, 1:2] + bias * (np.arange(classes) == classes - 1)
    p = np.exp(tempered) / np.exp(tempered).sum(1, keepdims=True)
    truth = (g.random((n, 1)) > p.cumsum(1)).sum(1)
    return logs - np.log(np.exp(logs).sum(1, keepdims=True)), truth, factors


@pytest.mark.parametrize("bias", [0.0, 1.5])
def test_against_integration(bias):
    """Two classes: mean and sd of the difference of the logs, and the share of each width, on a grid."""
    logs, truth, factors = items(bias=bias)
    ours = class_weights.class_weights(logs, truth, factors)
    grid = np.linspace(-12, 12, 4001)
    likelihood = np.zeros(len(grid))
    for row, t, f in zip(logs, truth, factors, strict=True):
        odds = (row[1] - row[0]) / f[:, None] + grid  # (Q, G)
        likelihood += np.log(np.mean(1 / (1 + np.exp(-odds if t == 1 else odds)), 0))
    marginal, means = [], []
    for width in WIDTHS:
        # The difference of two logs has twice the variance of one.
        density = np.exp(likelihood - grid**2 / (4 * width**2)) / width
        marginal.append(density.sum())
        means.append((density * grid).sum() / density.sum())
    share = np.array(marginal) / np.sum(marginal)
    np.testing.assert_allclose(ours.share, share, atol=0.03)
    np.testing.assert_allclose(ours.mean[:, 1] - ours.mean[:, 0], means, atol=0.05)
    assert ours.average[1] - ours.average[0] == pytest.approx(share @ means, abs=0.05)


def test_slopes_are_differences():
    logs, truth, factors = items(classes=3)
    tempered, often = logs[:, None, :] / factors[:, :, None], np.linspace(0.5, 2, len(truth))
    at = np.array([0.3, -0.2, 0.7])
    value, gradient, curvature, positive = class_weights._density(at, tempered, truth, often, 0.5)
    step = 1e-5
    for k, direction in enumerate(np.eye(3) * step):
        up, down = (class_weights._density(at + s * direction, tempered, truth, often, 0.5) for s in (1, -1))
        assert (up[0] - down[0]) / (2 * step) == pytest.approx(gradient[k], abs=1e-6)
        np.testing.assert_allclose(-(up[1] - down[1]) / (2 * step), curvature[k], atol=1e-5)
    assert (np.linalg.eigvalsh(positive) > 0).all()
    assert np.isfinite(value)


def test_weights_and_repetitions():
    """An item that counts twice is two items; the largest data are thinned."""
    logs, truth, factors = items()
    twice = class_weights.class_weights(logs, truth, factors, np.full(len(truth), 2.0))
    both = class_weights.class_weights(*(np.concatenate([part, part]) for part in (logs, truth, factors)))
    np.testing.assert_allclose(twice.mean, both.mean, atol=1e-6)
    np.testing.assert_allclose(twice.share, both.share, atol=1e-6)
    many = class_weights.class_weights(*items(n=2 * class_weights.MOST_ITEMS + 1, bias=1.0))
    assert many.average[1] - many.average[0] == pytest.approx(1.0, abs=0.2)


@pytest.mark.slow
def test_covered_in_simulation():
    """The difference of two logs lies in its 89% interval in 83% to 95% of 200 crowds: a false alarm in some 250 seeds."""
    inside = 0
    data = simulated(items=5)[0]
    for seed in range(200):
        bias = float(np.random.default_rng(10_000 + seed).normal() * 2**0.5)
        weights = class_weights.class_weights(*items(n=60, bias=bias, seed=seed))
        with isolated(seed):
            drawn = weights.draw(512, data)[0].log().numpy()
        low, high = np.quantile(drawn[:, 1] - drawn[:, 0], [0.055, 0.945])
        inside += low <= bias <= high
    assert 0.83 <= inside / 200 <= 0.95


def test_few_draws_have_the_mean():
    weights = ClassWeights(np.array([0.25, 0.75]), np.array([[1.0, 0.0], [0.0, -1.0]]), 0.5 * np.stack([np.eye(2)] * 2))
    data = simulated(items=5)[0]
    with isolated(3):
        drawn, uniform = weights.draw(256, data)
    np.testing.assert_allclose(drawn.log().mean(0), weights.average, atol=0.02)
    np.testing.assert_allclose(uniform.mean(), 0.5, atol=0.01)
    assert abs(np.corrcoef(drawn[:, 0].log(), uniform)[0, 1]) < 0.15


def readers(seed=0, items=400, workers=12):
    """Readers who see the same hard items and flag half of all, where one in eight deserves it; and true classes."""
    g = np.random.default_rng(seed)
    truth = (g.random(items) < 0.125).astype(int)
    seen = 1.5 * g.normal(size=items) + 1.6 * truth
    flag = (seen[:, None] + g.normal(size=(items, workers)) > 0.1).astype(int)
    index = np.indices(flag.shape).reshape(2, -1)
    return Annotations.from_arrays(*index, flag.ravel()), truth


def knowing(data, truth, index):
    known = torch.full((data.N,), -1)
    known[index] = torch.from_numpy(truth[index])
    return dataclasses.replace(data, truth=known)


@pytest.mark.parametrize("chosen", ["at random", "flagged"])
def test_a_crowd_that_prefers_a_class(chosen):
    """Thirty known true labels correct it, also where they are of items that the crowd flags."""
    data, truth = readers()
    share = np.bincount(data.item, data.label, data.N) / data.annotations_per_item.numpy()
    pool = np.flatnonzero(share > 0.5) if chosen == "flagged" else np.arange(data.N)
    index = np.random.default_rng(1).choice(pool, 30, replace=False)
    rest = np.setdiff1d(np.arange(data.N), index)
    before, after = (quiet_fit(part, independent=False) for part in (data, knowing(data, truth, index)))
    wrong = [(one.probability().argmax(1) != truth)[rest].mean() for one in (before, after)]
    assert wrong[0] > 0.3
    assert wrong[1] < 0.2
    logs = after.info["rho"]["log_class_weights"]
    assert logs[0] - logs[1] > 1


def test_a_crowd_that_prefers_none():
    """Thirty known true labels of independent workers: weights near 1."""
    data, truth, _ = simulated(items=300, seed=4, per_item=5)
    posterior = quiet_fit(
        knowing(data, np.asarray(truth), np.arange(30)), "dawid-skene", method="em", independent=False
    )
    assert np.abs(posterior.info["rho"]["log_class_weights"]).max() < 0.5


def test_in_a_result(tmp_path):
    """Stored with the draws, said in a sentence, used for what annotating more gains; not for the model as published."""
    data, truth = readers(items=120)
    data = knowing(data, truth, np.arange(20))
    posterior = quiet_fit(data, independent=False, num_samples=100)
    assert posterior.tree["calibrated"]["class_weight"].dims == ("chain", "draw", "true_label")
    assert "classes are weighted as known true labels say" in posterior.correlation
    back = crowdppl.load(posterior.save(tmp_path / "p.nc"))
    np.testing.assert_allclose(back.draws("class_weight"), posterior.draws("class_weight"), rtol=1e-3)
    curve = acquisition.curve(posterior, most=20, steps=2, replicates=40)
    agree = (posterior.truth_draws() == posterior.probability().argmax(1)).mean()
    assert curve.table["accuracy"].iloc[0] == pytest.approx(agree, abs=0.05)
    independent = quiet_fit(data, "item-effects", independent=True, num_samples=100)
    assert independent.info["rho"] is None
    assert len(acquisition.curve(independent, most=20, steps=2, replicates=5).table) == 3
    fixed = quiet_fit(data, "item-effects", independent=False, rho=0.2, num_samples=100)
    assert "log_class_weights" not in fixed.info["rho"]


def test_items_with_one_annotation():
    """One worker who prefers a class: nothing says what rho is, and the classes are weighted."""
    g = np.random.default_rng(0)
    truth = (g.random(300) < 0.2).astype(int)
    label = np.where(truth == 1, 1, g.random(300) < 0.5).astype(int)
    data = Annotations.from_arrays(np.arange(300), np.zeros(300, dtype=int), label)
    posterior = quiet_fit(knowing(data, truth, np.arange(60)), "dawid-skene", method="em", independent=False)
    assert posterior.info["rho"]["truths"] is None
    flagged = posterior.probability()[60:][label[60:] == 1, 1].mean()
    assert flagged == pytest.approx(truth[60:][label[60:] == 1].mean(), abs=0.12)
