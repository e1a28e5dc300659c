"""Whether errors are correlated: the statistic, its posterior, and results that are mixtures."""

import dataclasses
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from catalog import quiet_fit, simulated
from scipy.stats import norm

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import silent
from crowdppl.inference.dependence import crowd_rows, independence
from crowdppl.inference.dependence.independence import Overdispersion, posterior_probability
from crowdppl.inference.options import EM
from crowdppl.isolation import isolated
from crowdppl.model.truths.classes import one_hot


def crowd(seed=0, items=300, workers=5, classes=2, accuracy=0.85, difficulty=0.0):
    """Everybody labels everything; with ``difficulty`` the log odds of a correct label differ by item."""
    g = np.random.default_rng(seed)
    truth = g.integers(classes, size=items)
    odds = math.log(accuracy / (1 - accuracy)) + difficulty * g.normal(size=items)
    correct = g.random((workers, items)) < 1 / (1 + np.exp(-odds))
    label = np.where(correct, truth, (truth + g.integers(1, classes, size=correct.shape)) % classes)
    worker, item = np.divmod(np.arange(label.size), items)
    return Annotations.from_arrays(item, worker, label.ravel(), labels=range(classes)), truth


def beside(data):
    return independence.independence(data, data.majority(), 10)


def statistic(data):
    fit = quiet_fit(data, "dawid-skene", method="em", num_samples=2)
    return Overdispersion(data, {k: torch.from_numpy(v.values) for k, v in fit.tree["point"].data_vars.items()}).z()


def test_the_statistic():
    """Near 0 with independent errors, whatever the classes; above 2 where items differ in difficulty.

    A mean of ten crowds, each of standard deviation .5 at most: a false alarm in far less than one of 10,000 seeds.
    """
    for classes in (2, 3):
        values = [statistic(crowd(seed, items=400, classes=classes)[0]) for seed in range(10)]
        assert abs(np.mean(values)) < 0.7
        assert np.std(values) < 1
    assert statistic(crowd(items=2000, difficulty=2.0)[0]) > 2


def test_the_posterior_by_hand():
    for z, items in ((0.0, 100), (1.0, 300), (-2.0, 1000), (5.0, 300)):
        deviations = independence.NULL, independence.BELOW
        # Two halves of normal densities, which meet at 0 and together have the mass 1.
        null = independence.SHARE * norm.pdf(z / deviations[z < 0]) / np.mean(deviations)
        spread = math.sqrt(1 + items * independence.SPREAD**2)
        other = (1 - independence.SHARE) * norm.pdf(z, independence.MEAN * math.sqrt(items), spread)
        assert posterior_probability(z, items) == pytest.approx(null / (null + other), rel=1e-9)
    assert posterior_probability(1000.0, 300) < 1e-300


def test_workers_who_agree_on_everything():
    """They may all be wrong together: not taken for independent."""
    assert beside(crowd(accuracy=1 - 1e-12)[0]) is None


@pytest.mark.parametrize("seed", range(3))
def test_a_textbook_crowd(seed):
    """Intervals hold the shares, and labels are nearly as sure as they are correct."""
    data, truth = crowd(seed)
    posterior = quiet_fit(data, independent=False)
    mixture = posterior.info["independence"]
    assert mixture["probability"] > 0.4
    share = np.bincount(data.worker, data.label.numpy() == truth[data.item], data.J) / 300
    workers = posterior.workers()
    assert ((workers["share_correct_low"] <= share) & (share <= workers["share_correct_high"])).sum() >= 4
    correct = (posterior.probability().argmax(1) == truth).mean()
    assert posterior.probability().max(1).mean() > correct - 0.12
    alone = quiet_fit(data, "item-effects", method="em", independent=False)
    assert posterior.probability().max(1).mean() > alone.probability().max(1).mean() + 0.05


def test_experts_of_one_class_are_independent():
    """Their matrices explain more agreement than there is: ``z`` is below 0, which says nothing of errors that are shared."""
    probabilities, biases = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        truth = rng.integers(4, size=400)
        knows = np.where(truth == np.arange(8)[:, None] % 4, 0.95, 0.55)
        label = np.where(rng.random((8, 400)) < knows, truth, (truth + rng.integers(1, 4, (8, 400))) % 4)
        worker, item = np.divmod(np.arange(label.size), 400)
        data = crowdppl.Annotations.from_arrays(item, worker, label.ravel(), labels=range(4))
        posterior = quiet_fit(data, seed=0, independent=False)
        mixture = posterior.info["independence"]
        probabilities.append(0.0 if mixture is None else mixture["probability"])
        biases.append(posterior.workers()["share_correct"].mean() - (label == truth).mean())
    assert np.mean(probabilities) > 0.4
    assert abs(np.mean(biases)) < 0.07


def test_a_crowd_with_difficult_items():
    posterior = quiet_fit(crowd(difficulty=2.0)[0], independent=False)
    assert posterior.info["independence"] is None
    assert "as if errors were independent" not in posterior.correlation


def test_the_parts_of_a_mixture(tmp_path):
    """Parameters are those of item effects to the bit; of what is reported a share is Dawid and Skene's."""
    data, _ = crowd()
    posterior = quiet_fit(data, independent=False, num_samples=200)
    first = posterior.probability().copy()
    p = posterior.info["independence"]["probability"]
    alone = quiet_fit(data, "item-effects", method="em", independent=False, num_samples=200)
    other = quiet_fit(data, "dawid-skene", method="em", independent=True, num_samples=200)
    np.testing.assert_allclose(first, (1 - p) * alone.probability() + p * other.probability(), atol=1e-12)
    for group in ("posterior", "log_likelihood", "truth"):
        for name, value in alone.tree[group].data_vars.items():
            np.testing.assert_array_equal(value, posterior.tree[group][name])
    np.testing.assert_array_equal(first, posterior.probability())
    independent = posterior.draws("rho") == 0
    assert independent.sum() == round(200 * p)
    np.testing.assert_array_equal(posterior.draws("rho")[~independent], alone.draws("rho")[~independent])
    np.testing.assert_array_equal(posterior.truth_draws()[~independent], alone.truth_draws()[~independent])
    # Correct labels are counted by the drawn truths, of both models.
    item, worker, label = posterior.annotation_index()
    right = posterior.truth_draws()[:, item] == label
    counted = np.stack([np.bincount(worker, row, data.J) for row in right]) / np.bincount(worker)
    np.testing.assert_allclose(posterior.share_correct_draws(), counted)
    assert "with probability" in posterior.correlation
    back = crowdppl.load(posterior.save(tmp_path / "p.nc"))
    assert back.info["independence"] == posterior.info["independence"]


def test_only_where_nothing_is_asked_for():
    """A named model, a correlation of one's own, independent annotations: as asked for."""
    data, _ = crowd()
    for options in ({"model": "item-effects"}, {"rho": (-1.0, 1.0)}, {"independent": True}):
        posterior = quiet_fit(data, **{"independent": False, "num_samples": 20, "method": "em"} | options)
        assert posterior.info["independence"] is None


def test_crowds_that_cannot_tell():
    """Few items, few annotations of each worker, weights: not considered."""
    few, _ = crowd(items=60)
    sparse = simulated(items=300, workers=60, per_item=3, classes=2, features=False)[0]
    pairs = simulated(items=300, workers=5, per_item=2, classes=2, features=False)[0]
    weighted = dataclasses.replace(crowd()[0], weight=torch.full((300,), 2.0, dtype=torch.float64))
    for data in (few, sparse, pairs, weighted):
        assert beside(data) is None
    assert beside(crowd()[0]) is not None


def test_another_answer_is_no_certainty():
    """Where Dawid and Skene's model finds labels far from the default's and from the votes, it is left out."""
    data, truth = crowd()
    wrong = truth.copy()
    wrong[:40] = 1 - wrong[:40]
    default, other = (one_hot(torch.from_numpy(label), data) for label in (truth, wrong))
    assert not independence._contradicted(default, default, data)
    assert not independence._contradicted(default, other, data)  # the votes say so, too
    assert independence._contradicted(other, default, data)
    assert not independence._contradicted(other, other, data)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_rare_class_is_not_explained_away(seed):
    """Item effects alone take a class of a tenth of the items for errors; the votes say otherwise."""
    g = np.random.default_rng(seed)
    truth = (g.random(600) < 0.1).astype(int)
    worker, item = np.divmod(np.arange(3000), 600)
    label = np.where(g.random(3000) < 0.85, truth[item], 1 - truth[item])
    data = Annotations.from_arrays(item, worker, label, labels=range(2))

    def correct(posterior):
        return (posterior.probability().argmax(1) == truth).mean()

    alone = correct(quiet_fit(data, "item-effects", method="em", independent=False, num_samples=2))
    mixed = correct(quiet_fit(data, independent=False, num_samples=2))
    votes = (data.majority().numpy().argmax(1) == truth).mean()
    assert mixed > max(alone, votes - 0.01)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_rare_class_and_weak_workers(seed):
    """Dawid and Skene's model finds one class in nearly all items, which all workers give equally often: it counts by a third."""
    g = np.random.default_rng(seed)
    truth = (g.random(1000) < 0.03).astype(int)
    label = np.where(g.random((1000, 5)) < g.uniform(0.62, 0.78, 5), truth[:, None], 1 - truth[:, None])
    item, worker = np.divmod(np.arange(label.size), 5)
    data = Annotations.from_arrays(item, worker, label.ravel(), labels=range(2))
    posterior = quiet_fit(data, independent=False, num_samples=2)
    assert (posterior.probability().argmax(1) == truth).mean() > 0.91
    assert (data.majority().numpy().argmax(1) == truth).mean() < 0.88
    probability = posterior.info["independence"]["probability"]
    assert 0.2 < probability < 0.4
    assert posterior.correlation.endswith(
        "By this model nearly all items are of class 0; give the true labels of some items to find out."
    )
    (alert,) = [
        one for one in posterior.alerts if "class" in one
    ]  # both answers in one sentence, and none that knows only one of them
    assert alert.startswith(
        f"one class or workers who guess: with probability {probability:.0%} nearly all items are of class 0 and"
    )
    assert not any(
        words in " ".join(posterior.warnings) for words in ("classes lost", "majority-vote", "assigns no item")
    )


@pytest.mark.parametrize(("probability", "says"), [(0.03, False), (0.1, True), (0.9, True), (0.95, False)])
def test_one_class_is_spoken_of_where_it_is_in_doubt(probability, says):
    other = dataclasses.replace(beside(crowd()[0]), probability=probability, one_class="yes")
    assert other.in_doubt == says
    assert ("nearly all items are of class 'yes'; give" in other.say()) == says
    assert not dataclasses.replace(other, one_class=None).in_doubt


def test_one_class_that_workers_give_by_preference():
    """Four who guess, each with a preference, and one who knows: not nearly all items of one class."""
    g = np.random.default_rng(0)
    truth = g.integers(0, 2, 400)
    label = (g.random((400, 5)) < np.array([0.35, 0.55, 0.75, 0.97, 0.0])).astype(int)
    label[:, 4] = np.where(g.random(400) < 0.9, truth, 1 - truth)
    item, worker = np.divmod(np.arange(label.size), 5)
    data = Annotations.from_arrays(item, worker, label.ravel(), labels=range(2))
    one = torch.tensor([0.0, 1.0], dtype=torch.float64).expand(400, 2)
    assert independence._contradicted(one, 1 - one, data)
    assert independence._one_class(one, data) is None
    assert beside(data) is None


def test_who_gives_one_class_equally_often():
    """Shares of .6 and .7 are equal ones, of five workers or more; not below chance, of few items, or of .5 and .9."""

    def equally(shares, items=200, first=0):
        label = (np.arange(items)[:, None] < np.round(np.array(shares) * items)).astype(int)
        item, worker = np.divmod(np.arange(label.size), len(shares))
        data = Annotations.from_arrays(item, worker, label.ravel(), labels=range(2))
        truth = (torch.arange(items) >= first * items).double()
        return independence._one_class(torch.stack([1 - truth, truth], -1), data) == 1

    assert equally([0.6, 0.65, 0.7, 0.6, 0.7])
    assert equally([0.6, 0.65, 0.7, 0.6, 0.7], first=0.09)
    assert not equally([0.6, 0.65, 0.7, 0.6, 0.7], first=0.11)
    assert not equally([0.5, 0.5, 0.9, 0.7, 0.9])
    assert not equally([0.5, 0.5, 0.55, 0.45, 0.5])
    assert not equally([0.55, 0.7, 0.75])  # of three workers
    assert not equally([0.7, 0.7])


@pytest.mark.parametrize("agree", [True, False])
def test_known_truths_decide(agree):
    """Thirty true labels that the votes find, or that half of the unanimous items contradict."""
    data, truth = crowd()
    known = torch.full((data.N,), -1)
    known[:30] = torch.from_numpy(truth[:30] if agree else np.where(np.arange(30) % 2, truth[:30], 1 - truth[:30]))
    before = quiet_fit(data, independent=False).info["independence"]["probability"]
    after = quiet_fit(dataclasses.replace(data, truth=known), independent=False).info["independence"]
    assert after["probability"] > before if agree else after is None or after["probability"] < 0.05


def test_sampling_engines():
    """The same mixture where the default model is sampled."""
    data, _ = crowd(items=200)
    posterior = quiet_fit(data, method=EM(num_samples=50), independent=False)
    sampled = quiet_fit(data, method="gibbs", chains=2, warmup=50, num_samples=50, independent=False)
    assert sampled.info["independence"]["probability"] == posterior.info["independence"]["probability"]
    assert (sampled.draws("rho") == 0).sum() == round(100 * sampled.info["independence"]["probability"])


def test_workers_start_as_members_of_the_crowd():
    """The prior has .56 for four classes, and would move a worker of .85 by -.03; the point and the labels are the model's.

    The standard error of the mean over 15 workers is .005.
    """
    accuracy = []
    for seed in range(3):
        data, _ = crowd(seed, classes=4)
        posterior = quiet_fit(data, independent=True)
        accuracy += posterior.workers()["accuracy"].tolist()
        assert "average member of the crowd" in posterior.interval_method
        assert "with the default priors, which this fit does not use" in posterior.coverage
    assert abs(np.mean(accuracy) - 0.85) < 0.016
    named = quiet_fit(data, "dawid-skene", method="em", independent=True)
    assert "average member" not in named.interval_method  # who names the model has its prior
    assert named.workers()["accuracy"].mean() < posterior.workers()["accuracy"].mean() - 0.02
    np.testing.assert_array_equal(named.probability(), posterior.probability())
    xr.testing.assert_identical(named.tree["point"].to_dataset(), posterior.tree["point"].to_dataset())


def test_the_same_workers_in_a_mixture():
    data, _ = crowd(classes=4)
    with isolated(0):
        draws = independence.independence(data, data.majority(), 400).draws.drawn()
    assert draws.samples["confusion"].shape == (1, 400, 5, 4, 4)
    drawn, point = draws.samples["confusion"].mean((0, 1)), draws.point["confusion"]
    assert float((drawn - point).diagonal(dim1=-2, dim2=-1).mean().abs()) < 0.01


def test_a_worker_of_few_annotations_is_an_average_member():
    """By the prior a worker of three annotations of four classes has .5; the crowd has .85."""
    data, _ = crowd(classes=4)
    kept = data.keep((data.worker > 0) | (data.item < 3))
    first = quiet_fit(kept, independent=True).workers().set_index("worker").loc[0]
    assert first["accuracy"] > 0.75
    assert first["accuracy_high"] - first["accuracy_low"] > 0.2


@pytest.mark.parametrize("classes", [4, 10])
def test_a_poor_worker_of_few_annotations_is_no_average_member(classes):
    """Who guesses 30 labels, beside five of .9: of ten classes, four annotations of the crowd would describe it as .24."""
    accuracy, held = [], 0
    for seed in range(4):
        data, _ = crowd(seed, items=200, workers=6, classes=classes, accuracy=0.9)
        rng = np.random.default_rng(seed)
        label = torch.where(data.worker == 0, torch.from_numpy(rng.integers(classes, size=data.A)), data.label)
        data = replace(data, label=label).keep((data.worker > 0) | (data.item < 30))
        first = quiet_fit(data, independent=True).workers().set_index("worker").loc[0]
        accuracy.append(first["accuracy"])
        held += first["accuracy_low"] <= 1 / classes <= first["accuracy_high"]
    assert abs(np.mean(accuracy) - 1 / classes) < 0.1
    assert held >= 2


def test_who_guesses_is_told_from_a_member_of_the_crowd():
    """By hand: log-likelihoods of two right and four wrong labels by rows of .8 and by halves, with prior odds of 1 to 9."""
    rows = torch.tensor([[0.8, 0.2], [0.2, 0.8]])
    counts = torch.tensor([[[1.0, 2.0], [2.0, 1.0]], [[40.0, 10.0], [10.0, 40.0]], [[0.0, 0.0], [0.0, 0.0]]])
    odds = (crowd_rows.GUESSING / (1 - crowd_rows.GUESSING)) * 0.5**6 / (0.8**2 * 0.2**4)
    chance = crowd_rows.guessing(counts, rows)
    assert float(chance[0]) == pytest.approx(odds / (1 + odds), rel=1e-5)
    assert float(chance[1]) < 1e-6
    assert float(chance[2]) == pytest.approx(crowd_rows.GUESSING)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_single_class_has_nothing_to_start_from(rows):
    table = pd.DataFrame({"task": [0, 0, 1], "worker": ["a", "b", "a"], "label": ["yes"] * 3}).head(rows)
    with silent():
        posterior = crowdppl.fit(table, independent=True)
    assert "average member" not in posterior.interval_method
    assert (posterior.workers()["accuracy"] == 1).all()
