"""Whether errors are independent where annotations are too few for matrices: both statistics, and what follows from them."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from catalog import quiet_fit
from scipy.integrate import quad
from scipy.stats import norm

from crowdppl import Annotations
from crowdppl.inference import catalogue
from crowdppl.inference.dependence import coinciding_errors, independence


def crowd(kind="even", *, seed=0, classes=10, items=600, workers=40, each=5, accuracy=(0.4, 0.95)):
    """Errors are *even*, or lie on one class for each of the *classes* or *workers*, or of a third of the *items*."""
    g = np.random.default_rng(seed)
    truth = g.integers(classes, size=items)
    item = np.repeat(np.arange(items), each)
    worker = np.concatenate([g.choice(workers, each, replace=False) for _ in range(items)])
    correct = g.random(len(item)) < g.uniform(*accuracy, workers)[worker]
    if kind == "items":
        hard = g.random(items) < 1 / 3
        correct &= ~hard[item] | (g.random(len(item)) < 0.6)
    other = (truth + g.integers(1, classes, items))[item]
    anywhere = truth[item] + g.integers(1, classes, len(item))
    of_worker = truth[item] + g.integers(1, classes, (workers, classes))[worker, truth[item]]
    aim = {"even": anywhere, "classes": truth[item] + 1, "items": other, "workers": of_worker}[kind]
    at = np.where(g.random(len(item)) < 0.7, aim, anywhere) % classes
    return Annotations.from_arrays(item, worker, np.where(correct, truth[item], at), labels=range(classes)), truth


def test_the_statistics_by_hand():
    data, _ = crowd(items=30, classes=4, workers=8)
    accuracy, share = torch.linspace(0.4, 0.9, 8, dtype=torch.float64), torch.tensor([0.1, 0.2, 0.3, 0.4]).double()
    one = coinciding_errors.Coincidence(data, {"accuracy": accuracy, "prevalence": share})
    varied, wrong, repeated = [], 0.0, Counter()
    for i in range(data.N):
        own = [(int(w), int(y)) for n, w, y in zip(data.item, data.worker, data.label, strict=True) if n == i]
        weight = [float(share[k]) for k in range(4)]
        for w, y in own:
            a = float(accuracy[w])
            weight = [weight[k] * (a if y == k else (1 - a) / 3) for k in range(4)]
        equal = [sum(y == k for _, y in own) for k in range(4)]
        pairs = [n * (n - 1) / 2 for n in equal]
        varied.append(sum(pairs) ** 2 / (len(own) * (len(own) - 1) / 2))
        wrong += sum(pairs[k] * (1 - weight[k] / sum(weight)) for k in range(4))
        likeliest = int(np.argmax(weight))
        repeated.update((w, likeliest, y) for w, y in own if y != likeliest)
    pairs = sum(n * (n - 1) / 2 for n in repeated.values())
    np.testing.assert_allclose(one._statistics(one.label), [np.mean(varied), wrong, pairs], rtol=1e-10)
    assert pairs > 0


@pytest.mark.parametrize(("errors", "items"), [(-2.0, 100), (0.0, 500), (1.5, 1000), (30.0, 2000)])
def test_the_log_odds_by_integration(errors, items):
    mean = coinciding_errors.MEAN * math.sqrt(items)
    integrand = lambda x: norm.pdf(errors - x) * math.exp(-x / mean) / mean  # noqa: E731
    correlated, _ = quad(integrand, 0, 20 * mean, points=[max(errors, 0.0)], limit=500)
    wanted = norm.logpdf(errors, scale=coinciding_errors.NULL) - math.log(correlated)
    assert coinciding_errors.log_odds(errors, items) == pytest.approx(wanted, abs=1e-6)


def test_the_statistics_of_simulated_crowds():
    """All are near 0 for data from the model itself: means of ten crowds, with less than one false alarm in 1,000 seeds."""
    scores = []
    for seed in range(10):
        data, truth = crowd(seed=seed, items=300)
        label = torch.nn.functional.one_hot(torch.from_numpy(truth), 10).double()
        correct = torch.bincount(data.worker, (data.label == label.argmax(-1)[data.item]).double())
        point = {"accuracy": correct / data.annotations_per_worker, "prevalence": label.mean(0)}
        scores.append(coinciding_errors.Coincidence(data, point).scores())
    assert (np.abs(np.mean(scores, 0)) < 1).all()
    assert (np.std(scores, 0) < 1.7).all()


@pytest.mark.parametrize("classes", [5, 20])
def test_a_textbook_crowd_of_many_classes(classes):
    """Stated probabilities are those of being correct, and workers have their shares of correct labels."""
    data, truth = crowd(classes=classes)
    assert not independence._told_apart(data)
    posterior = quiet_fit(data, seed=0, independent=False)
    assert posterior.info["independence"]["probability"] > 0.8
    probability = posterior.probability()
    correct = (probability.argmax(1) == truth[posterior.items().astype(int)]).mean()
    assert abs(probability.max(1).mean() - correct) < 0.05
    item, worker, label = posterior.annotation_index()
    right = label == truth[posterior.items().astype(int)][item]
    share, table = np.bincount(worker, right) / np.bincount(worker), posterior.workers()
    given = table["worker"].map(dict(zip(posterior.worker_names(), share, strict=True)))
    assert abs((table["share_correct"] - given).mean()) < 0.03
    held = (table["share_correct_low"] <= given) & (given <= table["share_correct_high"])
    assert held.mean() > 0.75
    assert posterior.correlation.endswith("this share of the draws comes from OneCoin.")


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        ("classes", {}),
        ("items", {}),
        ("workers", {}),
        ("workers", {"classes": 4, "items": 300, "workers": 30}),
        ("even", {"accuracy": (0.1, 0.2)}),
        ("even", {"classes": 30, "workers": 60, "accuracy": (0.03, 0.08)}),
    ],
)
def test_errors_that_coincide_are_left_to_the_default(kind, sizes):
    """Of items, of classes, of each worker; and workers who know next to nothing, of whom the model says too much."""
    data, _ = crowd(kind, **sizes)
    assert coinciding_errors.comparable(data)
    assert independence.independence(data, data.majority(), 10) is None


def test_the_first_look_agrees_with_the_second():
    """Crowds that votes settle are settled by the fitted model, too."""
    for kind in ("even", "classes", "items"):
        data, _ = crowd(kind, seed=1)
        fit = quiet_fit(data, "one-coin", method="em", num_samples=2)
        point = {name: torch.from_numpy(value.values) for name, value in fit.tree["point"].data_vars.items()}
        errors = coinciding_errors.Coincidence(data, point).scores()[1]
        assert coinciding_errors.are_even(data) == (kind == "even")
        assert coinciding_errors.many_coincide(data, data.majority()) <= (errors > coinciding_errors.MANY / 2)


def test_classes_that_nobody_gives_do_not_count():
    """Nor do they end in warnings of zero shares, which are errors here."""
    data, _ = crowd()
    more = Annotations.from_arrays(data.item, data.worker, data.label, labels=range(30))
    for scores in zip(*(beside(one).values() for one in (data, more)), strict=True):
        assert scores[0] == pytest.approx(scores[1], abs=0.5)
    few, _ = crowd(classes=2)
    assert not coinciding_errors.comparable(Annotations.from_arrays(few.item, few.worker, few.label, labels=range(9)))


def beside(data):
    point = {
        "accuracy": torch.full((data.J,), 0.7),
        "prevalence": torch.zeros(data.K).index_fill(0, data.label.unique(), 0.1),
    }
    return coinciding_errors.Coincidence(data, point).scores()._asdict()


@pytest.mark.parametrize("classes", [3, 20])
def test_agreement_does_not_speak_for_independence_of_few_classes(classes):
    """A probability above the prior one takes errors that do not coincide."""
    data, _ = crowd(classes=classes, items=450, workers=45)
    assert coinciding_errors.shows_hard_items(data) == (classes > 5)
    assert not coinciding_errors.shows_hard_items(crowd(items=300)[0])


def test_what_is_not_compared():
    """Two classes, three labels an item, few labels a worker."""
    assert coinciding_errors.comparable(crowd()[0])
    assert not coinciding_errors.comparable(crowd(classes=2)[0])
    assert not coinciding_errors.comparable(crowd(each=3)[0])
    assert not coinciding_errors.comparable(crowd(items=120)[0])


def test_the_model_of_independent_errors():
    """One number describes a worker of few labels for each class, unless errors coincide."""
    chosen = {}
    for kind in ("even", "classes"):
        posterior = quiet_fit(crowd(kind, classes=6, items=300)[0], independent=True)
        chosen[kind] = posterior.info["model"]
        assert ("one-coin was fitted" in " ".join(posterior.notes)) == (kind == "even")
    assert chosen == {"even": "one-coin", "classes": "dawid-skene"}


def test_many_classes_without_matrices(monkeypatch):
    """Where item effects would take too long, a crowd with even errors is described by one number for each worker, too."""
    monkeypatch.setattr(catalogue, "MOST_OPERATIONS", 1.0)
    chosen = {kind: catalogue.default_model(crowd(kind)[0]) for kind in ("even", "classes")}
    assert [catalogue.model_name(one.model) for one in chosen.values()] == ["one-coin", "dawid-skene"]
    assert "errors seem to be spread evenly; model='item-effects' fits it" in chosen["even"].note
