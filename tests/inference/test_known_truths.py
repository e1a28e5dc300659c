"""Known true labels inform the correlation of errors."""

import dataclasses
from unittest import mock

import numpy as np
import pytest
import scipy.stats
import torch
from catalog import PAIRS, SHORT, in_turn, quiet_fit, tiny

import crowdppl
from crowdppl import acquisition
from crowdppl.data.synthetic import correlated_crowd
from crowdppl.inference import evaluate
from crowdppl.inference.backends import passes
from crowdppl.inference.dependence import known_truths
from crowdppl.inference.dependence.design_effect import POPULATION, WITHIN, DesignEffect, RhoLikelihood
from crowdppl.model.base import provides


def crowd(copies, seed=0, items=300, **sizes):
    """A crowd whose errors go together, and the true class of each item of the data, (N,)."""
    drawn = correlated_crowd(seed=seed, items=items, copies=copies, **sizes)
    return drawn.data, torch.from_numpy(drawn.truth[drawn.data.items.astype(int)])


def knowing(data, truth, index):
    """The data with the true labels of some items."""
    known = torch.full((data.N,), -1)
    known[index] = truth[index]
    return dataclasses.replace(data, truth=known)


def rho_given(copies, count, seed, method="em", **options):
    data, truth = crowd(copies, seed)
    index = torch.from_numpy(np.random.default_rng(seed).choice(data.N, count, replace=False))
    options = {"num_samples": 100} | options
    return quiet_fit(knowing(data, truth, index), "dawid-skene", method=method, independent=False, **options).info[
        "rho"
    ]["truths"]


@pytest.mark.parametrize("method", ["em", "gibbs"])
def test_ten_true_labels_move_rho(method):
    """Up where errors go together, down where annotations are independent; mean of five crowds each."""
    options = {} if method == "em" else {"chains": 2, "warmup": 50, "num_samples": 50}
    means = {
        copies: np.mean([rho_given(copies, 10, seed, method, **options)["mean"] for seed in range(5)])
        for copies in (0.0, 0.8)
    }
    assert means[0.8] > POPULATION[0] + 0.3
    assert means[0.0] < POPULATION[0] - 0.3


def test_more_true_labels_say_more():
    few, many = (rho_given(0.6, count, 1) for count in (5, 150))
    assert (few["items"], many["items"]) == (5, 150)
    between, within = (1 - WITHIN) ** 0.5 * POPULATION[1], WITHIN**0.5 * POPULATION[1]
    # Precision that they add to the prior's.
    assert many["crowd_spread"] ** -2 - between**-2 > 10 * abs(few["crowd_spread"] ** -2 - between**-2)
    assert many["crowd_spread"] < 0.7 * between
    for one in (few, many):
        assert one["spread"] == pytest.approx(np.hypot(one["crowd_spread"], within), abs=0.01)


@pytest.mark.slow
def test_recovery_of_rho():
    """True labels drawn from tempered probabilities: 90% intervals of the crowd's mean hold the true one in 90% of the cases.

    Each item has a rho of its own around the crowd's mean. 200 sets of 40 items: between 83% and 96%, which a calibrated one
    misses once in a thousand.
    """
    rng = np.random.default_rng(0)
    effect = DesignEffect()
    between, within = (1 - WITHIN) ** 0.5 * effect.spread, WITHIN**0.5 * effect.spread
    hits = 0
    for _ in range(200):
        logit = effect.mean + between * rng.normal()
        own = logit + within * rng.normal(size=40)
        n = rng.integers(2, 12, 40)
        logs = 2 * rng.normal(size=(40, 3)) * n[:, None] ** 0.5
        tempered = np.exp(logs / (1 + (n - 1) / (1 + np.exp(-own)))[:, None])
        tempered /= tempered.sum(1, keepdims=True)
        truth = np.array([rng.choice(3, p=p) for p in tempered])
        given = known_truths.rho_likelihood(effect, *map(torch.from_numpy, (logs[None], truth, n)))
        low, high = effect.given(given).crowd_interval(0.9)
        hits += low <= 1 / (1 + np.exp(-logit)) <= high
    assert 0.83 < hits / 200 < 0.96


def test_likelihood_by_hand():
    """One draw: the log of the known class's tempered probability, averaged over rho within the crowd, summed over items."""
    rng = np.random.default_rng(1)
    logs, n, truth, often = (
        rng.normal(size=(5, 3)),
        np.array([2, 3, 9, 2, 4]),
        np.array([0, 1, 2, 2, 0]),
        np.array([1.0, 2, 1, 1, 3]),
    )
    given = known_truths.rho_likelihood(DesignEffect(), *map(torch.from_numpy, (logs[None], truth, n, often)))
    nodes = WITHIN**0.5 * POPULATION[1] * scipy.stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    for logit, value in zip(given.logit[::20], given.log_likelihood[::20], strict=True):
        rho = 1 / (1 + np.exp(-(logit + nodes)))
        powered = np.exp(logs / (1 + (n - 1) * rho[:, None])[:, :, None])  # (Q, 5, 3)
        chosen = (powered[:, np.arange(5), truth] / powered.sum(-1)).mean(0)
        assert value == pytest.approx((often * np.log(chosen)).sum(), abs=2e-3)


def test_a_true_label_that_the_model_excludes_says_nothing():
    logs = torch.tensor([[[0.0, -torch.inf], [1.0, 0.0]], [[0.0, -torch.inf], [2.0, 0.0]]], dtype=torch.float64)
    n = torch.tensor([3, 3])
    both = known_truths.rho_likelihood(DesignEffect(), logs, torch.tensor([1, 0]), n).log_likelihood
    one = known_truths.rho_likelihood(DesignEffect(), logs[:, 1:], torch.tensor([0]), n[1:]).log_likelihood
    np.testing.assert_allclose(both - both[0], one - one[0], atol=1e-9)


def test_posterior_of_rho_by_hand():
    """A normal likelihood: the posterior of the crowd's mean and what is drawn are normal."""
    effect = DesignEffect(0.5, 2.0)
    logit = effect.places()
    informed = effect.given(RhoLikelihood(10, logit, -0.5 * ((logit - 2.0) / 0.8) ** 2))
    within, between = WITHIN * 4, (1 - WITHIN) * 4
    precision = 1 / between + 1 / 0.64
    mean, variance = (0.5 / between + 2.0 / 0.64) / precision, 1 / precision
    np.testing.assert_allclose(informed.crowd_mean_sd, (mean, variance**0.5), atol=1e-3)
    np.testing.assert_allclose(informed.mean_sd, (mean, (variance + within) ** 0.5), atol=1e-3)
    u = torch.tensor([0.05, 0.3, 0.5, 0.8, 0.99], dtype=torch.float64)
    by_hand = torch.sigmoid(mean + (variance + within) ** 0.5 * torch.special.ndtri(u))
    np.testing.assert_allclose(informed.quantiles(u), by_hand, atol=1e-4)
    assert informed.quantiles(u.float()).dtype == torch.float32


def test_true_labels_that_say_nothing_leave_the_prior():
    places = DesignEffect().places()
    flat = DesignEffect().given(RhoLikelihood(1, places, np.zeros_like(places)))
    np.testing.assert_allclose(flat.mean_sd, POPULATION, atol=1e-3)
    u = torch.linspace(0.01, 0.99, 9, dtype=torch.float64)
    np.testing.assert_allclose(flat.quantiles(u), DesignEffect().quantiles(u), atol=1e-3)


def test_an_item_does_not_vouch_for_itself():
    """With few annotations of each worker, the parameters know every true label that they were learned from.

    Ten of a crowd's true labels, taken out of the fit by weights: nearly what a fit without them says.
    """
    apart = []
    for seed in range(4):
        data, truth = crowd(0.5, seed, items=80, workers=40, per_item=4, classes=4)
        index = torch.arange(40)
        without = quiet_fit(
            data, "dawid-skene", method="gibbs", chains=2, warmup=100, num_samples=100, independent=False
        )
        logs = torch.from_numpy(without.probability_as_published()[None, :40]).clamp(min=1e-300).log()
        outside = known_truths.rho_likelihood(DesignEffect(), logs, truth[:40], data.annotations_per_item[:40])
        reference = DesignEffect().given(outside).crowd_mean_sd[0]
        inside = quiet_fit(
            knowing(data, truth, index),
            "dawid-skene",
            method="gibbs",
            chains=2,
            warmup=100,
            num_samples=100,
            independent=False,
        )
        apart.append(inside.info["rho"]["truths"]["crowd_mean"] - reference)
    assert abs(np.mean(apart)) < 0.5


@pytest.mark.parametrize(
    ("case", "method", "weighted"),
    in_turn([(*pair, False) for pair in PAIRS] + [(*pair, True) for pair in PAIRS if pair[1] == "em"], 13),
)
def test_every_model_and_engine(case, method, weighted):
    """Wherever rho applies, known true labels inform it."""
    data = tiny(items=6, classes=case.classes, features=case.features, criteria=case.criteria, weighted=weighted)
    known = torch.tensor([0, 1, 0, -1, -1, -1])
    data = dataclasses.replace(data, truth=known)
    posterior = quiet_fit(data, case.model, method=method, independent=False, **SHORT[method])
    stored = posterior.info["rho"]
    if stored is None:  # every annotation has a true label of its own, or classes are read off places on a line
        assert case.model.expand(data).parent_item is not None or provides(case.model, "reading")
        return
    assert stored["truths"]["items"] == int(((known >= 0) & (data.weighted_per_item > 1)).sum())
    assert np.isfinite(list(stored["truths"].values())).all()
    assert posterior.probability()[:3].argmax(1).tolist() == [0, 1, 0]


def test_items_that_stand_for_several():
    data, truth = crowd(0.6, items=60)
    data = knowing(data, truth, torch.arange(20))
    once, often = (
        quiet_fit(
            dataclasses.replace(data, multiplicity=torch.full((data.N,), count, dtype=torch.float64)),
            "dawid-skene",
            method="em",
            independent=False,
            num_samples=50,
        ).info["rho"]["truths"]
        for count in (1.0, 3.0)
    )
    assert often["crowd_spread"] < once["crowd_spread"]


def test_without_true_labels_nothing_changes():
    """Bit by bit: the distribution of public crowds."""
    data, _ = crowd(0.3, items=60)
    first = quiet_fit(data, "dawid-skene", method="em", independent=False, num_samples=20)
    assert first.info["rho"] == {
        "mean": POPULATION[0],
        "spread": POPULATION[1],
        "known": None,
        "public": True,
        "truths": None,
    }
    assert "average of public crowds" in first.correlation
    assert acquisition.redundancy_source(first).startswith("average of public crowds")


def test_single_annotations_say_nothing():
    data, truth = crowd(0.3, items=40, per_item=1)
    posterior = quiet_fit(
        knowing(data, truth, torch.arange(10)), "dawid-skene", method="em", independent=False, num_samples=20
    )
    assert posterior.info["rho"]["truths"] is None


def test_a_fixed_rho_stays():
    data, truth = crowd(0.3, items=40)
    for rho in (0.3, (-1.0, 0.0)):
        posterior = quiet_fit(
            knowing(data, truth, torch.arange(10)),
            "dawid-skene",
            method="em",
            independent=False,
            rho=rho,
            num_samples=20,
        )
        assert posterior.info["rho"]["truths"] is None
        assert np.ptp(posterior.draws("rho")) == 0


def test_the_prior_stays_the_caller_s():
    data, truth = crowd(0.3, items=60)
    data = knowing(data, truth, torch.arange(20))
    narrow = quiet_fit(data, "dawid-skene", method="em", independent=False, rho=(-3.0, 0.1), num_samples=50).info["rho"]
    assert (narrow["mean"], narrow["spread"]) == (-3.0, 0.1)
    assert narrow["truths"]["mean"] == pytest.approx(-3.0, abs=0.1)
    assert narrow["truths"]["spread"] == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("method", ["em", "gibbs"])
def test_draws_and_probabilities_follow_the_posterior(method):
    """Draws of rho have the stored mean and sd; probabilities are averaged over the same distribution."""
    data, truth = crowd(0.8, items=120)
    data = knowing(data, truth, torch.arange(60))
    options = {"num_samples": 800} if method == "em" else {"chains": 2, "warmup": 100, "num_samples": 200}
    with mock.patch.object(evaluate, "informed", wraps=known_truths.informed) as seen:
        posterior = quiet_fit(data, "dawid-skene", method=method, independent=False, **options)
        effect = known_truths.informed(*seen.call_args.args)
    stored = posterior.info["rho"]["truths"]
    rho = posterior.draws("rho")
    logit = np.log(rho / (1 - rho))
    # Stratified draws: the mean is nearer than that of independent ones.
    assert logit.mean() == pytest.approx(stored["mean"], abs=0.1)
    assert logit.std() == pytest.approx(stored["spread"], abs=0.1)
    n, published = data.annotations_per_item.numpy(), posterior.probability_as_published()
    logs = np.log(np.maximum(published, np.finfo(float).tiny))
    reported = effect.nodes(data).numpy()
    assert np.mean(reported) == pytest.approx(rho.mean(), abs=1e-3)
    weights = posterior.tree["calibrated"]["class_weight"].values.reshape(-1, 1, data.K)
    np.testing.assert_allclose(np.log(weights).mean((0, 1)), posterior.info["rho"]["log_class_weights"], atol=0.05)
    by_hand = weights * np.exp(logs[None] / (1 + (n - 1)[None, :, None] * rho[:, None, None]))
    by_hand = (by_hand / by_hand.sum(-1, keepdims=True)).mean(0)
    # Posterior draws: probabilities of each are tempered before they are averaged.
    np.testing.assert_allclose(posterior.probability(), by_hand, atol=0.01 if method == "em" else 0.05)


def test_what_is_said(tmp_path):
    data, truth = crowd(0.5, items=80)
    posterior = quiet_fit(
        knowing(data, truth, torch.arange(30)), "dawid-skene", method="em", independent=False, num_samples=50
    )
    assert "estimated from 30 known true labels of this crowd" in posterior.correlation
    assert acquisition.redundancy_source(posterior) == "estimated from 30 known true labels of this crowd"
    assert "from which this fit estimates rho" in posterior.coverage
    back = crowdppl.load(posterior.save(tmp_path / "p.nc"))
    assert back.correlation == posterior.correlation
    assert back.info["rho"] == posterior.info["rho"]
    given = quiet_fit(data, "dawid-skene", method="em", independent=False, rho=(-1.0, 1.0), num_samples=20)
    assert "prior as given" in given.correlation
    assert acquisition.redundancy_source(given) == "rho as given"


def test_effective_numbers_are_the_crowd_s():
    """Fewer where the crowd agrees on wrong labels."""
    numbers = []
    for copies in (0.0, 0.8):
        data, truth = crowd(copies, items=200)
        posterior = quiet_fit(
            knowing(data, truth, torch.arange(60)), "dawid-skene", method="em", independent=False, num_samples=100
        )
        numbers.append(acquisition.redundancy(posterior, 10)["independent"].iloc[-1])
        assert len(acquisition.curve(posterior, 20, steps=2, replicates=5).table) == 3
    assert numbers[1] < 0.7 * numbers[0]


def test_updates_count_the_true_labels_of_both():
    data, truth = crowd(0.5, items=80)
    data = knowing(data, truth, torch.arange(30, 50))
    half = quiet_fit(data.batch(torch.arange(40)), "dawid-skene", method="em", independent=False, num_samples=30)
    assert half.info["rho"]["truths"]["items"] == 10
    later = crowdppl.update(half, data.batch(torch.arange(40, 80)))
    assert later.info["rho"]["truths"]["items"] == 20
    assert (later.info["rho"]["mean"], later.info["rho"]["spread"]) == POPULATION
    given = quiet_fit(
        data.batch(torch.arange(40)), "dawid-skene", method="em", independent=False, rho=(-1.5, 1.0), num_samples=30
    )
    later = crowdppl.update(given, data.batch(torch.arange(40, 80)))
    assert (later.info["rho"]["mean"], later.info["rho"]["spread"]) == (-1.5, 1.0)


def test_single_precision():
    data, truth = crowd(0.5, items=80)
    data = knowing(data, truth, torch.arange(30))
    double, single = (
        quiet_fit(data.to(dtype=kind), "dawid-skene", method="em", independent=False, num_samples=100).info["rho"][
            "truths"
        ]
        for kind in (torch.float64, torch.float32)
    )
    assert single["mean"] == pytest.approx(double["mean"], abs=0.1)


def test_compiled_passes(monkeypatch):
    """They hold known true labels fixed; what these say about rho is the same."""
    data, truth = crowd(0.6)
    data = knowing(data, truth, torch.arange(0, 300, 5))
    plain = quiet_fit(data, "dawid-skene", method="em", independent=False, num_samples=200).info["rho"]["truths"]
    monkeypatch.setattr(passes, "ANNOTATIONS", 1)
    compiled = quiet_fit(data, "dawid-skene", method="em", independent=False, num_samples=200).info["rho"]["truths"]
    assert compiled["items"] == plain["items"] == 60
    # Two hundred other draws.
    assert compiled["crowd_mean"] == pytest.approx(plain["crowd_mean"], abs=0.05)
    assert compiled["crowd_spread"] == pytest.approx(plain["crowd_spread"], abs=0.05)
