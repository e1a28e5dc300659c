"""Accuracy regression: its likelihood against its emission, what it finds, and what it refuses."""

import numpy as np
import pandas as pd
import pytest
import torch

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import DataError, ModelError, silent
from crowdppl.isolation import isolated
from crowdppl.kernels.ops import sum_by
from crowdppl.model.author_checks import check_contract
from crowdppl.model.bound import bind
from crowdppl.model.program import prior_draws
from crowdppl.models import AccuracyRegression


def crowd(items=60, workers=6, sessions=4, classes=3, seed=0, log_odds=lambda j, t: 1.5):
    """Annotations by session, with true labels."""
    rng = np.random.default_rng(seed)
    rows, truth = [], rng.integers(0, classes, items)
    for i in range(items):
        for j in rng.choice(workers, min(4, workers), replace=False):
            t = rng.integers(0, sessions)
            right = rng.random() < 1 / (1 + np.exp(-log_odds(j, t)))
            label = truth[i] if right else (truth[i] + rng.integers(1, classes)) % classes
            rows.append((i, f"w{j}", label, t + 1, rng.normal()))
    return pd.DataFrame(rows, columns=["task", "worker", "label", "session", "other"]), truth


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("walk", [None, "session"])
def test_the_likelihood_is_that_of_the_emission(walk, classes):
    """One after the other, and of several parameters at once."""
    frame, _ = crowd(items=12, classes=classes)
    data = Annotations.from_frame(frame, covariates="session + other", labels=range(classes))
    data = data.with_weights(np.random.default_rng(0).uniform(0.3, 1.5, data.N))
    model = AccuracyRegression(walk=walk)
    check_contract(model, data)
    with isolated(3), torch.no_grad():
        bound = bind(model, data)
        many = prior_draws(bound, data, 3)
        together = model.log_likelihoods(many, data)
        confusion = model.derived(many, data)["confusion"]
        for n in range(3):
            one = {name: value[n] for name, value in many.items()}
            emission = model.emission(one, data)
            each = data.weighted(emission.log_prob(data.label.unsqueeze(-1)))
            assert torch.allclose(together[n], sum_by(data.item, each, data.N))
            rows = emission.log_prob(torch.arange(classes).view(-1, 1, 1)).exp().permute(1, 2, 0)  # (A, K, K)
            assert torch.allclose(rows.sum(-1), torch.ones(data.A, classes, dtype=torch.float64))
            own = data.worker == 0
            weight = data.weight[data.item[own]]
            mean = (rows[own] * weight[:, None, None]).sum(0) / weight.sum()
            assert torch.allclose(confusion[n, 0], mean)


def test_a_walk_is_the_same_in_a_part_of_the_data():
    """Times are those of all annotations, also where a batch lacks some."""
    frame, _ = crowd()
    data = Annotations.from_frame(frame, covariates="session")
    few = data.batch(torch.arange(2))
    assert few.times_of("session")[1] == data.times_of("session")[1] == (1.0, 2.0, 3.0, 4.0)
    time, values = data.times_of("session")
    assert torch.equal(torch.tensor(values)[time], data.covariates[:, 0].round().float())


@pytest.mark.slow
def test_a_worker_who_became_worse():
    """One falls from .92 to .5 over four sessions, the others stay."""
    frame, truth = crowd(300, 5, log_odds=lambda j, t: 2.5 - 0.8 * t if j == 0 else 2.0)
    data = Annotations.from_frame(frame, covariates="session")
    with silent():
        posterior = crowdppl.fit(data, AccuracyRegression(walk="session"), chains=2, warmup=100, num_samples=200)
    table = posterior.accuracy_over_time()
    assert len(table) == 5 * 4
    last = table[table["session"] == 4].set_index("worker")
    assert last.loc["w0", "probability_higher"] < 0.02
    assert last.loc["w0", "accuracy"] < 0.7 < last.drop("w0")["accuracy"].min()
    assert (last.drop("w0")["probability_higher"] > 0.02).all()
    assert (posterior.probability().argmax(-1) == truth[posterior.items().astype(int)]).mean() > 0.9


def test_what_is_refused():
    frame, _ = crowd()
    data = Annotations.from_frame(frame, covariates="session + other")
    with pytest.raises(ModelError, match="walk='week' names no covariate of the data, which have 'session', 'other'"):
        crowdppl.fit(data, AccuracyRegression(walk="week"))
    with pytest.raises(ModelError, match="which have none"):
        crowdppl.fit(data.with_covariates(None), AccuracyRegression(walk="week"))
    with pytest.raises(ModelError, match="walk='other' has more than 50 values"):
        crowdppl.fit(data, AccuracyRegression(walk="other"))
    with pytest.raises(ModelError, match="the joint mode of a spread and its effects is 0"):
        crowdppl.fit(data, AccuracyRegression(), method="em")
    for wrong in (
        {"effect_scale": 0.0},
        {"item_scale": -1.0},
        {"prior_errors": -1.0},
        {"walk": 3},
        {"walk_scale": None},
    ):
        with pytest.raises(ModelError, match="AccuracyRegression"):
            AccuracyRegression(**wrong)
    with silent():
        posterior = crowdppl.fit(data, AccuracyRegression(), chains=1, warmup=5, num_samples=10)
    with pytest.raises(DataError, match="no abilities that change"):
        posterior.accuracy_over_time()


@pytest.mark.slow
def test_all_chains_keep_the_classes_of_the_votes(public):
    """Ten classes: effects of items could explain wrong true labels that a chain starts with (two of four did)."""
    data, truth = public("cifar10s")
    with silent():
        posterior = crowdppl.fit(data, AccuracyRegression(), seed=0, chains=4, warmup=60, num_samples=20)
    correct = np.array([truth[item] for item in data.items.tolist()])
    names = data.labels[posterior.tree["calibrated"]["draw_of"].to_numpy().reshape(4, -1, data.N)]
    share = (names == correct).mean((1, 2))
    assert share.min() > 0.85
    assert np.ptp(share) < 0.05
