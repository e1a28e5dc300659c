"""Models with effects of workers and items on the scale of log odds, and MACE, prototypes and ordered thresholds."""

import random
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import CASES, in_turn, quiet_fit, tiny
from scipy.special import expit

import crowdppl
from crowdppl import Annotations
from crowdppl.inference.engines.unconstrained import Space
from crowdppl.isolation import isolated
from crowdppl.model.bound import bind
from crowdppl.model.contract import check
from crowdppl.model.program import unknowns
from crowdppl.models import (
    GLAD,
    LIA,
    MACE,
    ItemDifficulty,
    ItemResponse,
    LogisticRandomEffects,
    MinimaxEntropy,
    OrdinalThresholds,
    PrototypeMixture,
)

NEWTON = ("glad", "glad-prevalence", "item-response", "item-response-two", "item-difficulty", "minimax-entropy")
NEWTON += ("logistic-random-effects",)


# ---------------------------------------------------------------------- the M step


@pytest.mark.parametrize(
    ("case", "weighted"), in_turn([(c, w) for c in CASES if c.name in NEWTON for w in (True, False)], 5, night=False)
)
def test_newton_steps_rise_to_the_mode(case, weighted):
    """The expected log joint never falls, and ends where L-BFGS on its gradients ends."""
    data = tiny(4, classes=case.classes, weighted=weighted, features=False)
    with isolated(1):
        model = bind(case.model, data)
        space = Space(check(model, data))
        r = torch.distributions.Dirichlet(torch.ones(data.N, data.K)).sample()

        def objective(parameters):
            return (r * model.item_log_joint(parameters, data)).sum() + model.log_prior(parameters, data)

        with torch.no_grad():
            now = model.m_step(r, data)
            values = [float(objective(now))]
            for _ in range(400):
                now = model.m_step(r, data, now)
                values.append(float(objective(now)))
        assert np.diff(values).min() > -1e-9
        start = {name: value + 0.1 * torch.randn_like(value) for name, value in now.items() if name != "prevalence"}
        free = space.part(start)
        vector = free.vector(now | start, inside=False).requires_grad_()
        search = torch.optim.LBFGS([vector], max_iter=500, tolerance_grad=1e-10, line_search_fn="strong_wolfe")

        def loss():
            search.zero_grad()
            out = -objective({k: v.detach() for k, v in now.items()} | free.values(vector))
            out.backward()
            return out

        search.step(loss)
        assert values[-1] == pytest.approx(-float(loss().detach()), abs=1e-6)


# ---------------------------------------------------------------------- identities


def test_minimax_entropy_is_difficulty_times_competence_with_one_latent_dimension():
    with isolated(0), torch.no_grad():
        data = tiny(1)
        lia = bind(LIA(latent=1, hidden=(3,), embedding=2), data)
        theirs, _ = lia.conditioned(unknowns(lia, data), data)
        tables = {
            "item_effects": lia.model.log_difficulty(theirs, data).squeeze(-1),
            "worker_effects": torch.zeros(data.J, data.K, data.K, dtype=data.dtype),
        }
        tables["worker_effects"][data.worker] = lia.model.log_competence(theirs, data).squeeze(-1)
        ours = bind(MinimaxEntropy(), data)
        torch.testing.assert_close(
            ours.emission(tables, data).probs, lia.emission(theirs, data).probs, atol=1e-10, rtol=0
        )
        torch.testing.assert_close(
            ours.log_likelihoods(tables, data), lia.log_likelihoods(theirs, data), atol=1e-10, rtol=0
        )


def test_penalties_of_minimax_entropy_are_the_papers():
    """alpha = gamma K^2; beta is alpha times the mean annotations of a worker over those of an item."""
    data = tiny(2, items=6, workers=3)
    worker, item = MinimaxEntropy(penalty=0.4).scales(data)
    alpha = 0.4 * data.K**2
    beta = alpha * (data.A / data.J) / (data.A / data.N)
    assert (worker**-2, item**-2) == pytest.approx((alpha, beta), rel=1e-12)
    assert MinimaxEntropy(items_per_worker=1.0).scales(data) == (1.0, 1.0)


@pytest.mark.parametrize("classes", [2, 8, 16])
def test_minimax_entropy_learns_with_many_classes(classes):
    """Six workers right in 70% of cases: the labels found are near the votes, not equally probable for all items."""
    rng = np.random.default_rng(classes)
    truth = np.repeat(rng.integers(classes, size=150), 6)
    label = np.where(rng.random(900) < 0.7, truth, rng.integers(classes, size=900))
    data = Annotations.from_arrays(
        np.repeat(np.arange(150), 6), np.tile(list("abcdef"), 150), label, labels=range(classes)
    )
    posterior = quiet_fit(data, "minimax-entropy", method="em", num_samples=2)
    right = posterior.probability().argmax(1) == truth[::6]
    votes = data.majority().numpy().argmax(1) == truth[::6]
    assert right.mean() >= votes.mean() - 0.03
    assert posterior.probability().max(1).mean() > 0.5


def test_a_fit_that_learned_nothing_says_so():
    """With the precision of few classes for many, EM ends at equal probabilities."""
    rng = np.random.default_rng(0)
    data = Annotations.from_arrays(np.repeat(np.arange(60), 3), np.tile(list("abc"), 60), rng.integers(12, size=180))
    posterior = quiet_fit(data, MinimaxEntropy(penalty=2.0), method="em", num_samples=2)
    assert any("learned nothing" in sentence for sentence in posterior.warnings)
    assert not any("learned nothing" in s for s in quiet_fit(data, "majority-vote", method="em").warnings)


def test_one_parameter_is_two_with_equal_discrimination():
    data = tiny(3, classes=2)
    with isolated(0), torch.no_grad():
        values = {"ability": torch.randn(data.J, dtype=data.dtype), "difficulty": torch.randn(data.N, dtype=data.dtype)}
        one = bind(ItemResponse(), data).log_likelihoods(values, data)
        values["log_discrimination"] = torch.zeros(data.N, dtype=torch.float64)
        torch.testing.assert_close(bind(ItemResponse(2), data).log_likelihoods(values, data), one)


@pytest.mark.parametrize("K", [2, 3, 6])
def test_thresholds_make_the_graded_response_model(K):
    """Differences of sigmoids, computed one by one; rows sum to one, also where sigmoids are 1 to the last digit."""
    data = tiny(2, classes=K)
    rng = np.random.default_rng(K)
    for large in (1.0, 200.0):
        first, gaps = rng.normal(0.5, 0.5, data.J), rng.normal(0, 0.5, (data.J, K - 2))
        values = {"log_precision": np.log(large * np.ones(data.J)), "first_threshold": first}
        values |= {"log_gaps": gaps} if K > 2 else {}
        sites = {name: torch.tensor(v) for name, v in values.items()}
        table = OrdinalThresholds().confusion(sites, data).numpy()
        assert (table >= 0).all()
        np.testing.assert_allclose(table.sum(-1), 1, atol=1e-12)
        edges = (
            np.concatenate([first[:, None], first[:, None] + np.exp(gaps).cumsum(-1)], -1) if K > 2 else first[:, None]
        )
        for j in range(data.J):
            for k in range(K):
                above = [1.0, *expit(large * (k - edges[j])), 0.0]
                np.testing.assert_allclose(table[j, k], -np.diff(above), atol=1e-12)


# ---------------------------------------------------------------------- recovery


def crowd(items, model, parameters, classes=3, seed=0):
    """Labels of 12 workers, 6 an item, drawn from the model."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(items), 6)
    worker = np.concatenate([rng.choice(12, 6, replace=False) for _ in range(items)])
    return crowdppl.simulate(model, task, worker, classes=classes, seed=seed, parameters=parameters)


RANGE = np.linspace(0.5, 3.0, 12)
RECOVERED = {
    "glad": (GLAD(), "ability", RANGE, 2),
    "item-response": (ItemResponse(), "ability", RANGE, 2),
    "item-difficulty": (ItemDifficulty(), "ability", np.stack([RANGE, RANGE[::-1], RANGE], -1), 3),
    "mace": (MACE(), "knowledge", np.linspace(0.2, 0.9, 12), 3),
    "ordinal-thresholds": (OrdinalThresholds(), "log_precision", np.linspace(0.5, 2.5, 12), 4),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "ordinal-thresholds")) for name in RECOVERED]
)
def test_what_was_put_in_comes_out(name):
    """Errors of the workers' parameters by EM fall with eightfold data; seeds are fixed, bounds half as much again as seen."""
    model, site, value, K = RECOVERED[name]
    errors = []
    for items in (150, 1200):
        data, _, _ = crowd(items, model, {site: value}, classes=K, seed=1)
        posterior = quiet_fit(data, model, method="em", num_samples=2)
        errors.append(np.abs(posterior.tree["point"][site].values - value).mean())
    assert errors[1] < (
        0.6 if name == "glad" else 0.35
    )  # ability and easiness share a scale, held by their priors only
    assert errors[1] < 0.9 * errors[0]


def test_prototypes_of_workers():
    """Good, mixed and random workers: their confusion matrices come out."""
    weights = np.repeat([[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]], 4, axis=0)
    prototypes = np.stack([0.9 * np.eye(3) + 0.1 / 3, np.full((3, 3), 1 / 3)])
    model = PrototypeMixture(prototypes=2)
    data, _, _ = crowd(1000, model, {"prototype_weights": weights, "prototypes": prototypes})
    posterior = quiet_fit(data, model, method="em", num_samples=2)
    wanted = np.einsum("jm,mkl->jkl", weights, prototypes)
    assert np.abs(posterior.tree["posterior"]["confusion"].mean(("chain", "draw")).values - wanted).mean() < 0.03


# ---------------------------------------------------------------------- real data, and others' programs


def accuracy(data, truth, model):
    label = quiet_fit(data, model, method="em", seed=0, num_samples=2).truth().set_index("item")["label"]
    return float((label.loc[truth.index] == truth).mean())


@pytest.mark.parametrize(("name", "stored"), [("bluebirds", 0.9167), ("rte", 0.925)])
def test_minimax_entropy_finds_what_others_stored(public, name, stored):
    """Accuracies of the outputs that Zheng et al. (2017) stored."""
    assert accuracy(*public(name), MinimaxEntropy()) == pytest.approx(stored, abs=0.02)


@pytest.mark.slow
def test_ordered_labels_need_an_ordinal_model(public):
    data, truth = public("valence5")
    assert accuracy(data, truth, OrdinalThresholds()) > accuracy(data, truth, "dawid-skene") + 0.1


@pytest.mark.slow
@pytest.mark.parametrize("model", ["GLAD", "MACE"])
def test_crowdkit_agrees(public, model):
    """Accuracy on pos-sentiment within .01 of crowd-kit's."""
    state, streams = random.getstate(), np.random.get_state()  # noqa: NPY002 - theirs uses the global streams
    aggregation = pytest.importorskip("crowdkit.aggregation", reason="crowd-kit is not installed")
    data, truth = public("pos-sentiment")
    names = {"task": data.items[data.item], "worker": data.workers[data.worker], "label": data.labels[data.label]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = getattr(aggregation, model)().fit_predict(pd.DataFrame(names))
    random.setstate(state)
    np.random.set_state(streams)  # noqa: NPY002
    wanted = float((theirs.loc[truth.index] == truth).mean())
    assert accuracy(data, truth, {"GLAD": GLAD(), "MACE": MACE()}[model]) == pytest.approx(wanted, abs=0.01)


def test_random_effects_settle_on_the_crowd():
    """Workers without annotations of a class have the crowd's effects in it."""
    data, _, _ = crowd(300, LogisticRandomEffects(), {}, seed=3)
    point = quiet_fit(data, LogisticRandomEffects(), method="em", num_samples=2).tree["point"]
    spread = point["worker_effects"].values.mean(0) - point["typical"].values
    assert np.abs(spread).max() < 0.15  # the prior of the crowd's effects pulls by 1 part in J
