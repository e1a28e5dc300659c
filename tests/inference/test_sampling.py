"""Gibbs, NUTS and SVI against published posteriors and each other."""

import warnings

import arviz_stats
import numpy as np
import pytest
import torch
from catalog import RATER, SkillAndDifficulty, fit, simulated

from crowdppl import CrowdpplWarning
from crowdppl.inference.sampling import sample_repeatedly
from crowdppl.isolation import isolated
from crowdppl.kernels import ops
from crowdppl.models import DawidSkene


def test_gibbs_meets_raters_posterior(anaesthesia):
    """The R package rater's prior on the 1, 2, 2 table: posterior mean prevalence .3753 .4068 .1434 .0744.

    Monte-Carlo standard error below .001 with 20,000 draws; the bound is .005.
    """
    model = DawidSkene(prior_items=2.0, concentration=RATER)
    posterior = fit(anaesthesia, model, method="gibbs", seed=1, chains=4, num_samples=5000)
    np.testing.assert_allclose(posterior.prevalence()["share"], [0.3753, 0.4068, 0.1434, 0.0744], atol=0.005)
    facts = posterior.info["facts"]
    assert max(facts["r_hat"].values()) < 1.01
    assert min(facts["ess"].values()) > 1000


def test_gibbs_meets_stans_posterior(anaesthesia):
    """The Stan user's guide's prior: Dirichlet(3), rows 2.5 K on the diagonal and 1 elsewhere; within .005 as well."""
    rows = np.ones((4, 4)) + 9 * np.eye(4)
    model = DawidSkene(prior_items=2.0, concentration=rows.tolist())
    posterior = fit(anaesthesia, model, method="gibbs", seed=1, chains=4, num_samples=5000)
    np.testing.assert_allclose(posterior.prevalence()["share"], [0.3728, 0.4067, 0.1485, 0.0720], atol=0.005)


@pytest.mark.slow
def test_nuts_agrees_with_gibbs(anaesthesia):
    """Posterior truth and mean confusion, every number within 5 joint Monte-Carlo standard errors (plus .003).

    180 + 80 numbers; at 5 standard errors a false alarm in one of 6,000 runs if errors were normal.
    """
    gibbs = fit(anaesthesia, "dawid-skene", method="gibbs", seed=1, chains=4, num_samples=5000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        nuts = fit(anaesthesia, "dawid-skene", method="nuts", seed=1, chains=4, warmup=200, num_samples=300)
    difference = gibbs.tree["posterior"]["confusion"].mean(("chain", "draw")) - nuts.tree["posterior"][
        "confusion"
    ].mean(("chain", "draw"))
    error = np.hypot(*(arviz_stats.mcse(p.tree["posterior"].to_dataset())["confusion"] for p in (gibbs, nuts)))
    assert (np.abs(difference) < 5 * error + 0.003).all()
    truth = [p.tree["truth"] for p in (gibbs, nuts)]
    # A truth's probability is averaged over draws of the parameters: its error from the spread of truths drawn with them.
    spread = np.sqrt(truth[0]["probability"] * (1 - truth[0]["probability"]))
    apart = np.abs(truth[0]["probability"] - truth[1]["probability"])
    assert (apart < 5 * spread / np.sqrt(300) + 0.003).all()
    assert sum(nuts.info["facts"]["divergences"]) == 0


def test_em_and_svi_within_stated_bounds(anaesthesia):
    """The bounds that docs/guide/engines.md states for the anaesthesia table under the default prior."""
    gibbs = fit(anaesthesia, "dawid-skene", method="gibbs", seed=1, chains=4, num_samples=2000)
    for method, truth_bound, confusion_bound in (("em", 0.35, 0.08), ("svi", 0.10, 0.07)):
        other = fit(anaesthesia, "dawid-skene", method=method, seed=1)
        for group, name, bound in (("truth", "probability", truth_bound), ("posterior", "confusion", confusion_bound)):
            one, two = (p.tree[group][name] for p in (gibbs, other))
            if group == "posterior":
                one, two = (x.mean(("chain", "draw")) for x in (one, two))
            assert float(np.abs(one - two).max()) < bound, (method, name)


@pytest.mark.slow
def test_svi_in_batches_meets_svi_on_all():
    data, truth, _ = simulated(items=400, workers=20, parameters={"prevalence": [0.5, 0.3, 0.2]})
    whole = fit(data, "dawid-skene", method="svi", seed=1, num_samples=100)
    parts = fit(data, "dawid-skene", method="svi", seed=1, batch_size=80, num_samples=100)
    assert parts.info["facts"]["batch_size"] == 80
    apart = np.abs(whole.tree["truth"]["probability"] - parts.tree["truth"]["probability"])
    assert float(apart.mean()) < 0.02
    for posterior in (whole, parts):
        loss = posterior.tree["sample_stats"]["loss"].values
        assert loss[-50:].mean() < loss[:50].mean()
        assert posterior.info["facts"]["converged"]
        assert (posterior.truth()["label"] == truth).mean() > 0.8


@pytest.mark.slow
def test_svi_in_batches_with_item_sites():
    """A site for every item, and a batch that holds a part of them."""
    data, _, _ = simulated(items=60, model=SkillAndDifficulty())
    posterior = fit(data, SkillAndDifficulty(), method="svi", batch_size=20, seed=1, num_samples=50)
    assert posterior.tree["posterior"]["difficulty"].sizes["item"] == 60


@pytest.mark.slow
def test_intervals_cover_under_the_model():
    """89% intervals of workers' accuracies on data drawn from the model: gibbs between 83% and 95% of 200.

    Binomial standard error .022 were workers independent; the bounds are 2.7 of them: one false alarm in 140 seeds, and the
    seeds are fixed.
    """
    hits = []
    for seed in range(10):
        data, _, parameters = simulated(items=150, workers=20, per_item=6, seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CrowdpplWarning)
            table = fit(data, "dawid-skene", method="gibbs", seed=seed, num_samples=500).workers()
        order = [int(w) for w in table["worker"]]
        accuracy = np.einsum("k,jkk->j", parameters["prevalence"], parameters["confusion"])
        by_name = {w: accuracy[n] for n, w in enumerate(data.workers)}
        true = np.array([by_name[w] for w in order])
        hits += list((table["accuracy_low"] <= true) & (true <= table["accuracy_high"]))
    assert 0.83 < np.mean(hits) < 0.95


def test_large_draws_are_thinned_and_told(monkeypatch, anaesthesia):
    import crowdppl.inference.memory

    monkeypatch.setattr(crowdppl.inference.memory, "KEEP_BYTES", 2**20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        posterior = fit(anaesthesia, "dawid-skene", method="gibbs", seed=1, chains=2, num_samples=1000)
    assert posterior.info["facts"]["thin"] > 1
    assert any("of 2,000 draws" in sentence and "within 0.000976562 GiB" in sentence for sentence in posterior.warnings)
    assert posterior.tree["posterior"].sizes["draw"] < 1000


@pytest.mark.parametrize(
    ("size", "said"), [(1, "there are no intervals: a single draw"), (20_000, "are rough: 8 draws")]
)
def test_too_few_draws_for_intervals_name_the_cause(monkeypatch, anaesthesia, size, said):
    """Where memory holds few draws, num_samples cannot raise their number: the advice is another model, or fewer classes."""
    import crowdppl.inference.memory

    monkeypatch.setattr(crowdppl.inference.memory, "KEEP_BYTES", size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        posterior = fit(anaesthesia, "dawid-skene", method="em", seed=1)
    (sentence,) = (text for text in posterior.warnings if "5 confusion matrices of 4 classes" in text)
    assert said in sentence
    assert "num_samples" not in sentence
    assert posterior.workers()["accuracy_low"].isna().all() == (size == 1)


def test_chains_in_turn_are_chains(monkeypatch, anaesthesia):
    """Large data run chains one after the other: as many, and as well mixed."""
    import crowdppl.inference.memory

    monkeypatch.setattr(crowdppl.inference.memory, "WORK_BYTES", 1)
    posterior = fit(anaesthesia, "dawid-skene", method="gibbs", seed=1, chains=3, num_samples=1000)
    assert posterior.tree["posterior"].sizes["chain"] == 3
    assert max(posterior.info["facts"]["r_hat"].values()) < 1.02


def test_one_chain_and_few_draws_are_told(anaesthesia):
    with pytest.warns(CrowdpplWarning, match="the effective sample size of .* is [0-9]+, at least 400 is good"):
        fit(anaesthesia, "dawid-skene", method="gibbs", chains=1, num_samples=50)
    with pytest.warns(CrowdpplWarning, match="too few draws"):
        fit(anaesthesia, "dawid-skene", method="gibbs", chains=2, num_samples=3)


@pytest.mark.slow
@pytest.mark.parametrize("jit", [False, True])
def test_nuts_compiled_or_not(anaesthesia, jit):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        posterior = fit(
            anaesthesia, "dawid-skene", method="nuts", seed=2, chains=1, warmup=100, num_samples=100, jit=jit
        )
    gibbs = fit(anaesthesia, "dawid-skene", method="gibbs", seed=1)
    np.testing.assert_allclose(posterior.prevalence()["share"], gibbs.prevalence()["share"], atol=0.05)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_many_dirichlet_rows_at_once(dtype, turned, monkeypatch):
    """Means, variances and correlations of a hundred thousand rows of each kind: 21 numbers, a false alarm in 10,000 seeds.

    Drawn in blocks by threads, from streams of their own: whose numbers do not depend on how many threads there are, and are
    new at the next call.
    """
    monkeypatch.setattr(ops, "GAMMA_BLOCK", 1000)
    rows = torch.tensor([[0.05, 0.3, 2.0], [1.0, 1.0, 1.0], [40.0, 7.0, 0.9]], dtype=torch.float64)
    concentration = rows.to(dtype).expand(100_000, 3, 3).contiguous()
    if turned:
        concentration = concentration.transpose(-1, -2).contiguous().transpose(-1, -2)
    threads, draws = torch.get_num_threads(), []
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            with isolated(3):
                draws.append((ops.sample_dirichlet(concentration), torch.rand(1)))
                other = ops.sample_dirichlet(concentration)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(draws[0][0], draws[1][0])
    assert torch.equal(draws[0][1], draws[1][1])
    value = draws[0][0].double()
    assert not torch.equal(draws[0][0], other)
    torch.testing.assert_close(value.sum(-1), torch.ones(100_000, 3, dtype=torch.float64), rtol=0, atol=1e-6)
    total = rows.sum(-1, keepdim=True)
    mean, variance = rows / total, rows * (total - rows) / (total**2 * (total + 1))
    # Beyond 4.6 standard errors is one number in 240,000.
    assert ((value.mean(0) - mean).abs() / (variance / len(value)).sqrt()).max() < 4.6
    squares = (value - mean).square()
    assert ((squares.mean(0) - variance).abs() / (squares.var(0) / len(value)).sqrt()).max() < 4.6
    # Rows of different blocks and of different workers know nothing of each other.
    shifted = torch.corrcoef(torch.stack([value[:-1000, 1, 0], value[1000:, 1, 0], value[:-1000, 2, 0]]))
    assert shifted.fill_diagonal_(0.0).abs().max() < 4.6 / len(value) ** 0.5


def test_many_draws_from_one_log_joint():
    """Frequencies of 40,000 draws: five standard errors are .0125. States of probability zero are never drawn."""
    with isolated(3):
        log_joint = 2 * torch.randn(3, 25)
        log_joint[0, :5] = -torch.inf
        drawn = sample_repeatedly(log_joint, 40_000)
    assert drawn.shape == (40_000, 3)
    frequency = torch.nn.functional.one_hot(drawn, 25).double().mean(0)
    torch.testing.assert_close(frequency, log_joint.softmax(-1), atol=0.0125, rtol=0)
    assert int(drawn[:, 0].min()) >= 5
