"""The design effect of correlated errors: what is reported, and the tools that measure calibration."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from catalog import CASES, SHORT, quiet_fit, simulated, tiny

import crowdppl
from crowdppl import OptionError, acquisition, criticism
from crowdppl.data.synthetic import correlated_crowd
from crowdppl.inference.backends.counting import LabelCounts
from crowdppl.inference.dependence import design_effect
from crowdppl.models import DawidSkene, ItemEffects, ItemSubtypes


def correlated(items=400, copies=0.3, seed=0, **sizes):
    """A crowd whose errors go together, and its truth by item."""
    crowd = correlated_crowd(seed=seed, items=items, copies=copies, **sizes)
    return crowd.data, pd.Series(crowd.truth, index=np.arange(items))[crowd.data.items]


def test_rho_zero_is_the_model_as_published():
    """Same truths to rounding; and the sentence says which of the two it is."""
    data, _, _ = simulated(items=80, seed=1)
    for method in ("em", "gibbs"):
        plain = quiet_fit(data, "dawid-skene", method=method, seed=2)
        zero = quiet_fit(data, "dawid-skene", method=method, seed=2, independent=False, rho=0.0)
        np.testing.assert_allclose(zero.probability(), plain.probability(), atol=1e-12)
        assert "as published" in plain.correlation
        assert "rho = 0" in zero.correlation
        # What coincides is not stored twice.
        assert "calibrated" not in plain.tree.children
        assert not plain.calibrated
        assert zero.calibrated


@pytest.mark.parametrize(
    "model", [DawidSkene(), ItemSubtypes(subtype_concentration=1.0)], ids=lambda m: type(m).__name__
)
def test_probabilities_are_powers_of_the_published(model):
    """At EM's point p^(1 / (1 + (n - 1) rho)), normalised, by hand; sums over subtypes are taken first."""
    data, _, _ = simulated(items=60, seed=3, per_item=4)
    posterior = quiet_fit(data, model, method="em", independent=False, rho=0.4, num_samples=20)
    published = posterior.tree["truth"]["probability"].values
    n = data.annotations_per_item.numpy()
    by_hand = published ** (1 / (1 + (n - 1) * 0.4))[:, None]
    by_hand /= by_hand.sum(1, keepdims=True)
    np.testing.assert_allclose(posterior.tree["calibrated"]["probability"], by_hand, atol=1e-9)


def test_draws_share_rho_and_truths_follow_it():
    data, _ = correlated()
    posterior = quiet_fit(data, ItemSubtypes(), method="gibbs", seed=1, independent=False, num_samples=200)
    rho = posterior.tree["calibrated"]["rho"].values
    assert rho.shape == (4, 200)
    logit = np.log(rho / (1 - rho))
    mean, sd = design_effect.POPULATION
    # 800 draws of a normal: mean and sd within 4 standard errors.
    assert abs(logit.mean() - mean) < 4 * sd / 800**0.5
    assert abs(logit.std() - sd) < 4 * sd / 1600**0.5
    # Where rho is large truths are nearly those of the prevalence: agreement with the majority falls.
    truth = posterior.tree["calibrated"]["draw_of"].values.reshape(-1, data.N)
    agree = (truth == data.votes.numpy().argmax(1)).mean(1)
    assert agree[rho.ravel() < 0.05].mean() > agree[rho.ravel() > 0.9].mean() + 0.02


def test_quality_follows_the_truths():
    """Rows are Dirichlet: counts by the truths given, on top of four annotations of an average worker."""
    data = tiny(1, items=6)
    truth = torch.tensor([0, 1, 2, 0, 1, 1]).expand(4000, -1)
    torch.manual_seed(0)
    with torch.random.fork_rng():
        confusion, prevalence = design_effect.quality(truth, data, LabelCounts(data))
    counts = np.zeros((data.J, data.K, data.K))
    for i, j, label in zip(data.item.tolist(), data.worker.tolist(), data.label.tolist(), strict=True):
        counts[j, truth[0, i], label] += 1
    classes = 1 + np.bincount(truth[0], minlength=3)
    crowd = counts.sum(0) + np.eye(3) + 1 / 3
    crowd /= crowd.sum(1, keepdims=True)
    start = 4 * (classes / classes.sum())[:, None] * crowd + counts
    mean = start / start.sum(-1, keepdims=True)
    # 4,000 draws of probabilities: standard errors below .008; five of them, of 30 numbers.
    np.testing.assert_allclose(confusion.mean(0), mean, atol=0.04)
    np.testing.assert_allclose(prevalence.mean(0), classes / classes.sum(), atol=0.02)


@pytest.mark.parametrize("name", ["crowd-mixture", "conal-annotation"])
def test_where_each_annotation_has_its_own_truth_nothing_is_weighed(name):
    case = next(c for c in CASES if c.name == name)
    posterior = quiet_fit(tiny(1), case.model, method="em", independent=False, **SHORT["em"])
    assert "as published" in posterior.correlation
    assert posterior.info["rho"] is None


@pytest.mark.slow
def test_intervals_of_a_correlated_crowd():
    """A simulator with common errors: published intervals are far too narrow, ours hold what is true.

    Twelve crowds of 30 workers; share of correct annotations at 89%: published below 60%, ours between 80% and 99%.
    Probabilities: the published confidence is far above the accuracy, ours at most .65 times as far.
    """
    hits = {True: [], False: []}
    gap = {True: [], False: []}
    for seed in range(12):
        data, truth = correlated(items=200, copies=0.6, seed=seed)
        for independent in (True, False):
            posterior = quiet_fit(data, "dawid-skene", method="em", seed=seed, independent=independent, num_samples=200)
            hits[independent].append(criticism.coverage(posterior, truth).share_correct)
            table = posterior.truth().set_index("task").loc[truth.index]
            gap[independent].append(table["probability"].mean() - (table["label"] == truth).mean())
    assert np.mean(hits[True]) < 0.6
    assert 0.8 < np.mean(hits[False]) < 0.99
    assert np.mean(gap[True]) > 0.1
    assert abs(np.mean(gap[False])) < 0.65 * np.mean(gap[True])


def test_calibration_finds_rho_and_fit_takes_it():
    """More correlation gives a larger rho, which can be passed to fit; a few truths leave it near the population's."""
    results = []
    for copies in (0.0, 0.4, 0.8):
        data, truth = correlated(copies=copies, seed=5)
        posterior = quiet_fit(data, "dawid-skene", method="em", independent=False, num_samples=50)
        results.append(criticism.calibration(posterior, truth))
    assert results[0].rho_high < results[2].rho_low
    assert results[0].crowd_logit_rho < results[1].crowd_logit_rho < results[2].crowd_logit_rho
    again = quiet_fit(data, "dawid-skene", method="em", independent=False, rho=results[2].logit_rho, num_samples=50)
    better = criticism.calibration(again, truth)
    assert better.log_loss <= results[2].log_loss + 0.01
    few = criticism.calibration(posterior, truth.iloc[:2])
    assert few.rho_high - few.rho_low > 0.3


def test_calibration_by_hand():
    """Accuracy, log loss, Brier score and calibration error of four items, and the bins they fall in."""
    data = crowdppl.Annotations.from_arrays(list("aabbccdd"), list("uvuvuvuv"), [0, 0, 1, 1, 0, 1, 1, 1])
    posterior = quiet_fit(data, "dawid-skene", method="em", num_samples=5)
    probability = np.array([[0.95, 0.05], [0.2, 0.8], [0.55, 0.45], [0.15, 0.85]])
    posterior.tree["truth"]["probability"].values[:] = probability
    measured = criticism.calibration(posterior, {"a": 0, "b": 1, "c": 1, "d": 0})
    assert (measured.items, measured.accuracy) == (4, 0.5)
    assert measured.confidence == pytest.approx((0.95 + 0.8 + 0.55 + 0.85) / 4)
    assert measured.log_loss == pytest.approx(-np.log([0.95, 0.8, 0.45, 0.15]).mean())
    assert measured.brier == pytest.approx(2 * (0.05**2 + 0.2**2 + 0.55**2 + 0.85**2) / 4)
    assert measured.bins["items"].tolist() == [1, 2, 1]
    assert measured.ece == pytest.approx((0.55 + 2 * abs(0.825 - 0.5) + 0.05) / 4)


def test_coverage_by_hand():
    """Share of correct annotations of items of known truth, worker by worker, and who has enough of them."""
    data, truth = correlated(items=60, workers=5, per_item=3, seed=2)
    posterior = quiet_fit(data, "dawid-skene", method="em", num_samples=100, independent=False)
    some = truth.iloc[::2]
    measured = criticism.coverage(posterior, some, minimum=5)
    item, worker, label = data.item.numpy(), data.worker.numpy(), data.label.numpy()
    for row in measured.workers.to_dict("records"):
        mine = (data.workers[worker] == row["worker"]) & np.isin(data.items[item], some.index)
        right = some.loc[data.items[item][mine]].to_numpy() == data.labels[label[mine]]
        assert row["annotations"] == mine.sum()
        assert row["correct"] == pytest.approx(right.mean())
        assert row["share_correct_covers"] == (
            row["share_correct_low"] - 1e-9 <= right.mean() <= row["share_correct_high"] + 1e-9
        )
        assert row["accuracy_covers"] == (row["accuracy_low"] - 1e-9 <= right.mean() <= row["accuracy_high"] + 1e-9)
    assert len(criticism.coverage(posterior, some, minimum=10**6).workers) == 0
    assert "no worker" in str(criticism.coverage(posterior, some, minimum=10**6))


def test_share_correct_is_counted_draw_by_draw():
    data = tiny(2)
    posterior = quiet_fit(data, "dawid-skene", method="gibbs", chains=2, warmup=5, num_samples=4)
    shares = posterior.share_correct_draws()
    draws = posterior.tree["truth"]["draw_of"].values.reshape(-1, data.N)
    for s, state in enumerate(draws):
        for j in range(data.J):
            mine = data.worker.numpy() == j
            assert shares[s, j] == pytest.approx((state[data.item.numpy()[mine]] == data.label.numpy()[mine]).mean())


@pytest.mark.parametrize("rho", [-0.1, 1.1, "much", (1.0, -1.0), True, (1.0,)])
def test_bad_rho_is_refused(rho):
    with pytest.raises(OptionError, match=r"^rho=[^\n]*$"):
        crowdppl.fit(tiny(), "dawid-skene", method="em", rho=rho)


def test_impossible_crowds_are_refused():
    with pytest.raises(OptionError, match="at least per_item"):
        correlated_crowd(seed=0, workers=3)
    with pytest.raises(OptionError, match="copies=2"):
        correlated_crowd(seed=0, copies=2)


def test_contradictions_are_refused():
    with pytest.raises(OptionError, match="contradict"):
        crowdppl.fit(tiny(), "dawid-skene", method="em", rho=0.2, independent=True)


@pytest.mark.parametrize(
    ("truth", "said"),
    [
        ({"nobody": 0}, "none of the items of the truth is in the result"),
        ({"item 0": 7}, "not a class of the result"),
        (3, "pass a mapping"),
        (pd.Series([0, 1], index=["item 0", "item 0"]), "two different truths"),
    ],
)
def test_bad_truths_are_refused(truth, said):
    posterior = quiet_fit(tiny(), "dawid-skene", method="em", num_samples=5)
    with pytest.raises(crowdppl.DataError, match=said):
        criticism.calibration(posterior, truth)


def test_truths_the_fit_knew_are_refused():
    posterior = quiet_fit(tiny(known=True), "dawid-skene", method="em", num_samples=5)
    with pytest.raises(OptionError, match="knew all of these"):
        criticism.coverage(posterior, {"item 1": 2})


def test_the_group_posterior_is_the_models_own():
    """The same bits with and without a design effect: parameters, worker quality, prevalence, and what diagnostics are of."""
    data, _, _ = simulated(items=60, seed=1)
    for model in ("dawid-skene", "one-coin"):
        options = {"model": model, "method": "gibbs", "seed": 1, "num_samples": 40}
        plain, weighted = (quiet_fit(data, independent=i, **options) for i in (True, False))
        for group in ("posterior", "log_likelihood", "log_prior", "sample_stats"):
            xr.testing.assert_identical(plain.tree[group].to_dataset(), weighted.tree[group].to_dataset())
        np.testing.assert_array_equal(plain.probability(), weighted.tree["truth"]["probability"])
        for name in ("confusion", "prevalence"):
            np.testing.assert_array_equal(plain.variable(name), weighted.variable(name, published=True), err_msg=name)
            assert (weighted.variable(name).values != plain.variable(name).values).any()
            assert weighted.variable(name).dims == plain.variable(name).dims
        assert (weighted.workers()["accuracy"] != plain.workers()["accuracy"]).any()
        priors = weighted.tree["log_prior"].data_vars.values()
        prior = sum(each.sum([axis for axis in each.dims if axis not in ("chain", "draw")]) for each in priors)
        lp = weighted.tree["log_likelihood"]["labels"].sum("item") + prior
        np.testing.assert_allclose(lp, weighted.tree["sample_stats"]["lp"], rtol=1e-12)


def test_convergence_is_judged_by_the_model_itself():
    """Quality drawn anew with every draw would look mixed whatever the chain did."""
    data, _, _ = simulated(items=60, seed=1)
    facts = [
        quiet_fit(data, "dawid-skene", method="gibbs", seed=1, independent=i, num_samples=300).info["facts"]
        for i in (True, False)
    ]
    assert facts[0]["ess"] == facts[1]["ess"]
    assert facts[0]["r_hat"] == facts[1]["r_hat"]


def test_the_result_remembers(tmp_path):
    posterior = quiet_fit(tiny(), "dawid-skene", method="em", num_samples=5, independent=False, rho=0.25)
    back = crowdppl.load(posterior.save(tmp_path / "p.nc"))
    assert "rho = 0.25" in back.correlation
    assert json.loads(back.tree.attrs["run"])["rho"]["known"] == 0.25


def test_models_with_item_effects_leave_less_correlation():
    """Their default is a distribution of its own, which the result records and views call an average of public crowds."""
    data = simulated(items=30, workers=5)[0]
    plain = quiet_fit(data, "dawid-skene", method="em", num_samples=20, independent=False)
    effects = quiet_fit(data, "item-effects", method="em", num_samples=20, independent=False)
    mean = {name: one.info["rho"]["mean"] for name, one in (("plain", plain), ("effects", effects))}
    assert mean["plain"] == design_effect.POPULATION[0]
    assert mean["effects"] == round(ItemEffects.residual_rho[0] - np.log(data.A / data.N), 2) < mean["plain"]
    for posterior in (plain, effects):
        assert "average of public crowds" in posterior.correlation
        assert "average of public crowds" in acquisition.redundancy_source(posterior)
    given = quiet_fit(data, "item-effects", method="em", num_samples=20, independent=False, rho=(-1.0, 3.0))
    assert acquisition.redundancy_source(given) == "rho as given"
