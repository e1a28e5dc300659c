"""Criticism: predictive checks, cross-validation, comparison, prior sensitivity, advice, against brute force and simulation."""

import re
import warnings

import arviz_stats
import numpy as np
import pandas as pd
import pytest
import torch
from catalog import SkillAndDifficulty, quiet_fit, simulated, tiny
from crowds import crowd_with_characters, fitted
from scipy.stats import dirichlet

import crowdppl
from crowdppl import CrowdpplWarning, ModelError, OptionError, criticism
from crowdppl.criticism import label_statistics, replication
from crowdppl.criticism.calibration import _residual_rho
from crowdppl.data import datasets
from crowdppl.models import DawidSkene, ItemEffects, ItemSubtypes, OneCoin


@pytest.fixture(scope="module")
def fit_and_data():
    data, truth, _ = simulated(items=120, seed=4, per_item=5)
    return quiet_fit(data, "dawid-skene", method="gibbs", seed=1, num_samples=200), data, truth


def test_statistics_by_hand():
    """Item 0 has labels 0 0 1, item 1 has 1 1, item 2 a single 0."""
    item, worker, label = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 1, 2, 0, 1, 2]), np.array([0, 0, 1, 1, 1, 0])
    values, majority = label_statistics.statistics(item, worker, label, (3, 3, 2))
    assert values["agreement"] == pytest.approx((1 / 3 + 1) / 2)
    assert values["agreement_spread"] == pytest.approx(1 / 3)
    bits = -(2 / 3 * np.log2(2 / 3) + 1 / 3 * np.log2(1 / 3))
    assert values["entropy"] == pytest.approx(bits / 3)
    np.testing.assert_allclose(majority, [1, 1, 0.5])
    assert values["label_0"] == 0.5
    assert np.isnan(values["pairs"])  # no two workers have five items in common
    many = np.tile(np.arange(6), 3), np.repeat([0, 1, 2], 6), np.array([0] * 6 + [0] * 6 + [0, 0, 0, 1, 1, 1])
    values, _ = label_statistics.statistics(*many, (6, 3, 2))
    assert values["pairs"] == pytest.approx((1 + 0.5 + 0.5) / 3)


@pytest.mark.slow
def test_p_values_are_right_where_the_model_is():
    """Data of the model: of 20 sets no statistic has p below .01 in more than 3 (chance of more under uniformity: .00004)."""
    low = []
    for seed in range(20):
        data, _, _ = simulated(items=60, seed=100 + seed, per_item=4)
        posterior = quiet_fit(data, "dawid-skene", method="gibbs", seed=seed, num_samples=50, warmup=100)
        low.append(criticism.check(posterior, draws=100).table["p_value"] < 0.01)
    assert np.sum(low, axis=0).max() <= 3


def test_items_that_differ_are_noticed():
    """Half of the items are guessed by everyone: agreement differs between items more than Dawid and Skene's model lets it."""
    rng = np.random.default_rng(0)
    truth, hard = rng.integers(0, 2, 300), np.arange(300) < 150
    rows = [
        (i, w, int(rng.integers(0, 2)) if hard[i] else int(truth[i] if rng.random() < 0.95 else 1 - truth[i]))
        for i in range(300)
        for w in rng.choice(20, 6, replace=False)
    ]
    data = crowdppl.Annotations.from_frame(pd.DataFrame(rows, columns=["task", "worker", "label"]))
    plain = criticism.check(quiet_fit(data, "dawid-skene", method="gibbs", num_samples=100))
    table = plain.table.set_index("statistic")
    assert table["p_value"]["agreement_spread"] < 0.02
    assert any("differ in difficulty more than the model allows" in sentence for sentence in plain.sentences)
    split = criticism.check(quiet_fit(data, ItemSubtypes(subtypes=2), method="gibbs", num_samples=100))
    assert split.source == "model"
    better = split.table.set_index("statistic")
    assert (
        table["mean"]["agreement_spread"] < better["mean"]["agreement_spread"] < better["observed"]["agreement_spread"]
    )
    assert better["p_value"]["agreement"] > 0.05 > table["p_value"]["agreement"]


def test_replicates_follow_the_story(fit_and_data):
    """Means of many replicates against the labels' probabilities under the draws, both ways of telling the story."""
    posterior, data, _ = fit_and_data
    drawn, story = criticism.replicates(posterior, 200, seed=1)
    assert story == "model"
    assert len(drawn) == 200
    again, _ = criticism.replicates(posterior, 200, seed=1)
    np.testing.assert_array_equal(np.stack(drawn), np.stack(again))
    confusion, truth = posterior.draws("confusion"), posterior.truth_draws()
    item, worker, _ = posterior.annotation_index()
    expected = np.mean([c[worker, t[item]] for c, t in zip(confusion, truth, strict=True)], axis=0)  # (A, K)
    for labels in (drawn, list(replication._from_tables(posterior, 200, 2))):
        shares = np.stack([(np.stack(labels) == k).mean(0) for k in range(data.K)], axis=1)
        error = np.sqrt(expected * (1 - expected) / 200)
        assert (np.abs(shares - expected) < 5 * error + 0.02).mean() > 0.99  # 5 standard errors, draws thinned
    with pytest.raises(OptionError, match="at least 1"):
        criticism.replicates(posterior, 0)


@pytest.mark.parametrize(
    "method", ["em", *(pytest.param(method, marks=pytest.mark.slow) for method in ("svi", "gibbs"))]
)
def test_as_many_replicates_as_asked_for(method):
    """Also from a point and from few draws: labels differ from one replicate to the next, and a misfit shows."""
    frame, _ = crowd_with_characters(items=80, each=30)
    options = {"max_iter": 150} if method == "svi" else {}
    posterior = fitted(frame, method=method, num_samples=5, **options)
    check = criticism.check(posterior, draws=60)
    assert len(check.draws) == 60
    assert check.draws.nunique().min() > 10
    assert check.table["p_value"].min() < 1


def test_a_story_that_cannot_be_told_again_comes_from_the_tables():
    data, _, _ = simulated(items=40, seed=2)
    posterior = quiet_fit(data, SkillAndDifficulty(), method="em", num_samples=30)
    check = criticism.check(posterior, draws=10)
    assert check.source == "tables"
    assert "drawn from the confusion matrices" not in " ".join(check.summary)  # too few draws to say more
    assert "drawn from the confusion matrices" in " ".join(criticism.check(posterior, draws=200).summary)
    assert criticism.check(posterior, draws=10, data=data, model=SkillAndDifficulty()).source == "model"
    crowd = quiet_fit(data, "crowd-mixture", method="em", num_samples=10)
    assert criticism.check(crowd, draws=10).source == "tables"
    with pytest.raises(ModelError, match="truth of its own"):
        criticism.check(crowd, draws=10, data=data)


def test_prior_check():
    """Data of the prior lie within it; data of one label that everyone gives always do not."""
    data, _, _ = simulated(items=50, seed=5)
    usual = criticism.prior_check(OneCoin(), data, draws=60)
    assert (usual.table["p_value"].dropna() > 0.02).all()
    frame = pd.DataFrame({"task": data.item.numpy(), "worker": data.worker.numpy(), "label": data.item.numpy() % 2})
    odd = criticism.prior_check(OneCoin(), crowdppl.Annotations.from_frame(frame), draws=60)
    assert odd.table.set_index("statistic")["p_value"]["agreement"] < 0.04


@pytest.mark.slow
def test_loo_equals_leaving_out():
    """PSIS-LOO against fits without each item, one after the other, on the anaesthesia table (45 fits)."""
    data = datasets.anaesthesia()
    posterior = quiet_fit(data, "dawid-skene", method="gibbs", seed=3, num_samples=1000)
    result = criticism.loo(posterior)
    good = result.items["pareto_k"].to_numpy() < 0.6
    with pytest.warns(CrowdpplWarning, match="without some of the items"):  # short chains
        exact = criticism.kfold(data, "dawid-skene", method="gibbs", folds=45, seed=1, num_samples=300, warmup=100)
    assert good.sum() > 30
    gap = (result.items["elpd"] - exact["elpd"]).to_numpy()[good]
    assert np.abs(gap).max() < 0.35  # Monte-Carlo error of an item: seen up to .15
    assert np.abs(gap.mean()) < 0.05
    assert "elpd" in str(result)


def test_loo_where_nothing_can_move():
    """One class: every label is certain, and nothing is to be smoothed."""
    frame = pd.DataFrame([(i, w, "x") for i in range(5) for w in "ab"], columns=["task", "worker", "label"])
    with pytest.warns(CrowdpplWarning, match="every label is 'x'"):
        data = crowdppl.Annotations.from_frame(frame)
    result = criticism.loo(quiet_fit(data, "dawid-skene", method="gibbs", num_samples=20))
    assert result.elpd == pytest.approx(0)
    assert result.high == 0


def test_items_with_a_high_k_are_refitted(monkeypatch, fit_and_data):
    from crowdppl.criticism import cross_validation

    posterior, data, _ = fit_and_data
    first = criticism.loo(posterior)
    cut = float(np.quantile(first.items["pareto_k"], 0.9))
    monkeypatch.setattr(cross_validation, "HIGH_K", cut)
    assert first.high > 0
    assert "the estimate is unreliable" in str(first)
    with pytest.warns(CrowdpplWarning, match="fits without some of the items, the first: not converged"):
        again = criticism.loo(posterior, data=data, folds=3)
    refitted = again.items["refitted"].to_numpy()
    assert refitted.sum() == first.high
    assert again.high == 0
    assert (first.items["elpd"][~refitted] == again.items["elpd"][~refitted]).all()
    assert np.abs(first.items["elpd"] - again.items["elpd"])[refitted].max() < 1  # k is low: both are right
    assert again.elpd == pytest.approx(again.items["elpd"].sum())


def test_refits_are_of_the_model_that_was_fitted(monkeypatch):
    """With its hyperparameters, not the defaults of its name."""
    from crowdppl.criticism import cross_validation

    data, _, _ = simulated(items=40, seed=8)
    strong = DawidSkene(prior_correct=50.0)
    posterior = quiet_fit(data, strong, method="gibbs", num_samples=50)
    monkeypatch.setattr(cross_validation, "HIGH_K", -10.0)
    fitted_models = []
    monkeypatch.setattr(
        cross_validation,
        "_quiet_fit",
        lambda train, model, **o: fitted_models.append(model) or quiet_fit(train, model, **o),
    )
    with pytest.warns(CrowdpplWarning):  # short chains
        criticism.loo(posterior, data=data, folds=2)
    assert fitted_models == [strong, strong]


def test_kfold_by_hand():
    """One fold by a fit and a sum over classes of the test items' likelihood, in plain numpy."""
    data, _, _ = simulated(items=30, seed=6)
    with pytest.warns(CrowdpplWarning, match="assigns no item to the label 0"):  # in one fold
        result = criticism.kfold(data, "dawid-skene", method="em", items=np.arange(6), folds=2, seed=0, num_samples=40)
    out = np.flatnonzero(result["fold"].to_numpy() == 0)
    rest = np.setdiff1d(np.arange(30), out)
    posterior = quiet_fit(data.batch(torch.from_numpy(rest)), "dawid-skene", method="em", seed=0, num_samples=40)
    point = posterior.tree["point"].to_dataset()
    pi, theta = point["prevalence"].values, point["confusion"].values
    for i in out:
        mine = (data.item == int(i)).numpy()
        joint = pi * np.prod(theta[data.worker.numpy()[mine], :, data.label.numpy()[mine]], axis=0)
        assert result["elpd"][i] == pytest.approx(np.log(joint.sum()), abs=1e-6)
    with pytest.raises(OptionError, match="at least 2"):
        criticism.kfold(data, "dawid-skene", folds=1)


def test_compare_elpd(fit_and_data):
    posterior, data, _ = fit_and_data
    other = quiet_fit(data, "majority-vote", method="gibbs", num_samples=200)
    table = criticism.compare_elpd({"one distribution a worker": posterior, "one for all": other})
    assert table.index[0] == "one distribution a worker"
    assert table["elpd"].is_monotonic_decreasing
    with pytest.raises(OptionError, match="at least two"):
        criticism.compare_elpd({"one": posterior})
    few, _, _ = simulated(items=20, seed=9)
    with pytest.raises(OptionError, match="other annotations"):
        criticism.compare_elpd({"one": posterior, "two": quiet_fit(few, "dawid-skene", method="em", num_samples=10)})


def test_workers_left_out_are_predicted():
    frame, _ = crowd_with_characters(items=120, each=60)
    data = crowdppl.Annotations.from_frame(frame)
    table = criticism.leave_workers_out(data, "dawid-skene", method="em", folds=4, num_samples=30).set_index("worker")
    honest = table.filter(like="honest", axis=0)
    assert (honest["log_score"] > honest["baseline"]).all()
    assert (table.loc[["guesser", "adversary"], "log_score"] < table.loc[["guesser", "adversary"], "baseline"]).all()
    assert table["annotations"].sum() == len(frame)
    # Expected agreement is that of an average member of the crowd; honest workers agree more.
    assert honest["agreed"].mean() > table["agreed"].drop(honest.index).mean()
    assert abs(np.average(table["expected"] - table["agreed"], weights=table["annotations"])) < 0.15
    with pytest.raises(OptionError, match="at least 2"):
        criticism.leave_workers_out(data, "dawid-skene", folds=1)


def test_sensitivity_to_one_prior_at_a_time():
    """Power-scaling by weights, a draw at a time: the density of the posterior to the power of 1.01 or .99 of one prior."""
    data, _, _ = simulated(items=40, workers=5, seed=2)
    posterior = quiet_fit(data, DawidSkene(prior_items=8.0), method="gibbs", seed=1, chains=2, num_samples=1000)
    prior = posterior.tree["log_prior"]["prevalence"].values.ravel()
    assert posterior.tree["log_prior"]["confusion"].dims == ("chain", "draw", "worker")
    table = criticism.prior_sensitivity(posterior, workers=[data.workers[0]])
    prevalence = posterior.tree["posterior"]["prevalence"].values.reshape(-1, 3)
    values = dirichlet.logpdf(np.clip(prevalence, 1e-300, 1).T / prevalence.sum(1), np.full(3, 9.0))
    np.testing.assert_allclose(prior, values, atol=1e-9)
    likelihood = posterior.tree["log_likelihood"]["labels"].sum("item").values.ravel()
    for column, density in (("prior", prior), ("likelihood", likelihood)):
        ordered = np.argsort(prevalence[:, 0])
        sizes = []
        for power in (-0.01, 0.01):
            weight = np.exp(power * (density - density.max()))[ordered]
            weight = weight / weight.sum()
            shift, uniform = np.cumsum(weight), np.arange(1, len(weight) + 1) / len(weight)
            # The distance between both distribution functions, as Kallioinen et al. define it.
            steps = np.diff(prevalence[ordered, 0])
            p, q = shift[:-1], uniform[:-1]
            middle = (p + q) / 2
            apart = np.sum(steps * (p * np.log2(p / middle) + (q - p) / (2 * np.log(2))))
            apart += np.sum(steps * (q * np.log2(q / middle) + (p - q) / (2 * np.log(2))))
            sizes.append(np.sqrt(apart / np.sum(steps * (p + q))))
        by_hand = np.mean(sizes) / np.log2(1.01)
        assert table.loc["prevalence[0]", column] == pytest.approx(by_hand, rel=0.2, abs=0.004)


def test_the_prevalence_of_rte_is_in_no_conflict(public):
    """Its prior is flat; the priors of 164 workers together, scaled as one, would move it."""
    data, _ = public("rte")
    posterior = quiet_fit(data, "dawid-skene", method="gibbs", seed=1, chains=2, warmup=200, num_samples=500)
    table = criticism.prior_sensitivity(posterior)
    assert (table["diagnosis"].iloc[:2] == "✓").all()
    assert (table["prior"].iloc[:2] == 0).all()
    together = posterior.tree["log_prior"].to_dataset().to_array().isel(variable=0)  # the prevalence's, constant
    assert np.ptp(together.isel(worker=0).values) < 1e-12
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        all_at_once = arviz_stats.psense(posterior.tree, var_names=["prevalence"])["prevalence"]
    assert float(all_at_once.min()) > 0.02


def test_small_files_keep_the_priors(tmp_path):
    data, _, _ = simulated(items=60, workers=20, seed=3)
    posterior = quiet_fit(data, "dawid-skene", method="gibbs", seed=1, chains=2, num_samples=500)
    loaded = crowdppl.load(posterior.save(tmp_path / "small.nc"))
    own = posterior.tree["log_prior"]["confusion"]
    assert loaded.tree["log_prior"]["confusion"].dims == ("chain", "draw")
    np.testing.assert_allclose(loaded.tree["log_prior"]["confusion"], own.sum("worker"), rtol=1e-6)
    table = criticism.prior_sensitivity(loaded)
    assert table.notna().all(axis=None)


def test_prior_sensitivity(fit_and_data, capsys):
    posterior, data, _ = fit_and_data
    weak = criticism.prior_sensitivity(posterior, workers=[data.workers[0]])
    assert capsys.readouterr().out == ""
    strong_model = DawidSkene(prior_correct=200.0)
    strong = criticism.prior_sensitivity(
        quiet_fit(data, strong_model, method="gibbs", num_samples=200), workers=[data.workers[0]]
    )
    assert strong["prior"].iloc[-1] > weak["prior"].iloc[-1]
    assert list(strong["scaled"]) == ["prevalence"] * 3 + ["confusion"]
    with pytest.raises(OptionError, match="gibbs"):
        criticism.prior_sensitivity(quiet_fit(data, "dawid-skene", method="em", num_samples=20))


def scored(losses, held, workers=40):
    """Calibration and coverage with these losses of items, and so many of the workers' 89% intervals that hold."""
    losses = np.asarray(losses, dtype=float)
    figures = dict.fromkeys(("accuracy", "confidence", "brier", "ece", "rho_low", "rho_high"), 0.5)
    calibration = criticism.Calibration(
        items=len(losses),
        log_loss=float(losses.mean()),
        losses=losses,
        bins=pd.DataFrame(),
        crowd_logit_rho=(0.0, 1.0),
        logit_rho=(0.0, 1.0),
        **figures,
    )
    table = pd.DataFrame({"share_correct_covers": np.arange(workers) < held, "accuracy_covers": True})
    return calibration, criticism.Coverage(0.89, table)


class Explains(SkillAndDifficulty):
    """A model of a user, which leaves little correlation between errors, as is known well."""

    residual_rho = (-3.0, 0.01)


@pytest.mark.slow
def test_calibration_asks_the_model_what_correlation_it_leaves(tmp_path):
    """Also that of a user, by what the result says of it, and not by its name."""
    data, truth, _ = simulated(items=60, seed=4, per_item=5)
    known = dict(zip(data.items.tolist(), truth.tolist(), strict=True))
    both = []
    for model in (Explains(), SkillAndDifficulty()):
        posterior = quiet_fit(data, model, method="em", seed=1, num_samples=20, independent=True)
        both.append(criticism.calibration(crowdppl.load(posterior.save(tmp_path / "p.nc")), known))
    assert both[0].logit_rho[0] == pytest.approx(-3.0 - np.log(5), abs=0.02)
    assert both[1].logit_rho[1] > 10 * both[0].logit_rho[1]


def test_the_correlation_of_earlier_results_is_that_of_the_catalogue():
    assert _residual_rho({"model": "item-effects"}) == ItemEffects.residual_rho
    assert _residual_rho({"model": "Explains"}) is None
    assert _residual_rho({"model": "item-effects", "residual_rho": None}) is None


def test_the_better_form_is_that_of_lower_log_loss():
    rng = np.random.default_rng(0)
    low, high = rng.exponential(0.02, 80), rng.exponential(0.1, 80)
    assert criticism.better_form(scored(low, 36), scored(high, 36)) == ("published", "published")
    assert criticism.better_form(scored(low, 15), scored(high, 36)) == ("published", "correlated")
    assert criticism.better_form(scored(low, 15), scored(high, 14)) == ("published", "published")
    assert criticism.better_form(scored(high, 36), scored(low, 36)) == ("correlated", "correlated")
    assert criticism.better_form(scored(low, 36), scored(low + rng.normal(0, 0.01, 80), 36)) == (
        "correlated",
        "correlated",
    )
    difference, error = criticism.loss_difference(scored(low, 1)[0], scored(high, 1)[0])
    assert difference == pytest.approx((low - high).mean())
    assert error == pytest.approx((low - high).std(ddof=1) / np.sqrt(80))
    with pytest.raises(OptionError, match="80 items and second of 79"):
        criticism.loss_difference(scored(low, 1)[0], scored(high[1:], 1)[0])


@pytest.mark.parametrize(
    ("held", "workers", "said"),
    [
        (35, 40, "as they should"),
        (26, 30, "as they should"),
        (20, 40, "too narrow"),
        (200, 200, "too wide"),
        (1, 1, "as they should"),
    ],
)
def test_coverage_is_judged_by_its_uncertainty(held, workers, said):
    summary = scored([0.1, 0.2], held, workers)[1].summary
    assert said in summary
    assert f"{held / workers:.0%} of {workers} worker" in summary
    assert "No worker" in scored([0.1], 0, 0)[1].summary


def test_advice_cites_measured_coverage():
    """87% of intervals that should be 89% are not called too narrow."""
    frame, _ = crowd_with_characters(items=60, each=20)
    posterior = fitted(frame, num_samples=10)
    sentence = criticism.advice(posterior)[0]
    assert posterior.coverage in sentence
    assert "often too narrow" not in sentence


def test_advice_is_plain():
    frame, _ = crowd_with_characters(items=60, each=20)
    short = fitted(frame, method="gibbs", num_samples=20, warmup=5, chains=4)
    text = " ".join(criticism.advice(short))
    assert "disagree" in text or "do not agree yet" in text or "worth only" in text
    assert re.search(r"--num-samples \d+", text)
    good = quiet_fit(datasets.anaesthesia(), "dawid-skene", method="gibbs", num_samples=1000)
    assert any("the runs agree" in sentence for sentence in criticism.advice(good))
    assert "approximation" in criticism.advice(fitted(frame, num_samples=10))[0]


def test_a_prior_check_has_enough_draws_by_default():
    assert "too few" not in str(criticism.prior_check(crowdppl.models.OneCoin(), tiny(items=20)).summary)


@pytest.mark.parametrize("model", ["dawid-skene", "item-effects"])
def test_results_in_single_precision_are_checked_and_predict(model):
    """The annotations that a result keeps are in double precision, its draws in that of the fit."""
    data = simulated(items=40, workers=6, per_item=4, classes=2)[0]
    posterior = quiet_fit(data.to(dtype=torch.float32), model, method="em", num_samples=50)
    assert posterior.info["dtype"] == "float32"
    assert criticism.check(posterior, draws=20).table["p_value"].between(0, 1).all()
    assert crowdppl.predict_correct(posterior, data)["probability"].between(0, 1).all()


def test_advice_on_moves_by_gradients():
    """Gibbs sampling counts divergences of all chains in one number, also of a model of one's own without ``gibbs_step``."""
    from crowdppl.criticism.advice import _sampled

    rows = [(i, w, (i + (w == 3)) % 2) for i in range(8) for w in range(4)]
    frame = pd.DataFrame(rows, columns=["item", "worker", "label"])
    posterior = quiet_fit(frame, "glad", method="gibbs", chains=2, warmup=5, num_samples=5)
    assert isinstance(posterior.info["facts"]["divergences"], int)
    assert criticism.advice(posterior)
    text = " ".join(_sampled(posterior.info["facts"] | {"divergences": 3}))
    assert "in 3 moves (divergences)" in text
    assert "divergences" not in " ".join(_sampled(posterior.info["facts"] | {"divergences": 0}))
