"""Features and item effects: scores that have not seen an item's labels, the weight they get, and the default with features."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import quiet_fit, tiny

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import CrowdpplWarning, DataError
from crowdppl.inference.catalogue import FEATURES, default_model, model_name
from crowdppl.isolation import isolated
from crowdppl.model import class_scores
from crowdppl.model.bound import bind
from crowdppl.model.class_scores import PENALTIES, learned
from crowdppl.model.program import prior_draws
from crowdppl.model.weighted_votes import weighted_votes
from crowdppl.models import FeaturesAndEffects
from crowdppl.models.features_and_effects import _Target, _Weights


def crowd(items=200, features=6, classes=3, strength=1.5, seed=0):
    """Twelve workers with accuracies from .4 to .85, three labels an item; classes follow the first features."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, items)
    x = rng.normal(size=(items, features))
    x[:, :classes] += strength * np.eye(classes)[truth]
    accuracy = rng.uniform(0.4, 0.85, 12)
    item = np.repeat(np.arange(items), 3)
    worker = np.concatenate([rng.choice(12, 3, replace=False) for _ in range(items)])
    wrong = (truth[item] + rng.integers(1, classes, len(item))) % classes
    label = np.where(rng.random(len(item)) < accuracy[worker], truth[item], wrong)
    names = np.array(["cat", "dog", "elk", "fox"])
    data = Annotations.from_arrays(item, worker, names[label], labels=names[:classes].tolist())
    return data.with_features(x), names[truth]


def scored(data, seed=1):
    """The data with scores drawn at random, as a model would be given them."""
    rng = np.random.default_rng(seed)
    return replace(data, class_scores=torch.from_numpy(rng.normal(size=(data.N, data.K))) / 5)


def correct(posterior, truth):
    return float((posterior.truth()["label"].to_numpy() == truth).mean())


# ---------------------------------------------------------------------- scores


@pytest.mark.parametrize("features", [5, 60], ids=["fewer", "more than items"])
def test_a_score_is_that_of_a_regression_on_the_other_items(features):
    """Against regressions that are fitted without each item in turn."""
    data, _ = crowd(items=40, features=features, strength=6.0)
    got = learned(data)
    x = data.features.numpy()
    x = (x - x.mean(0)) / x.std(0)
    votes = weighted_votes(data).numpy()
    errors, all_scores = [], []
    for penalty in PENALTIES:
        scores = np.empty_like(votes)
        for i in range(40):
            others = np.arange(40) != i
            mean_x, mean_y = x[others].mean(0), votes[others].mean(0)
            a, y = x[others] - mean_x, votes[others] - mean_y
            weights = np.linalg.solve(a.T @ a + 40 * penalty * np.eye(features), a.T @ y)
            scores[i] = mean_y + (x[i] - mean_x) @ weights
        errors.append(((votes - scores) ** 2).sum())
        all_scores.append(scores - votes.mean(0))
    assert got.errors > 2
    np.testing.assert_allclose(got.scores.numpy(), all_scores[int(np.argmin(errors))], atol=1e-8)


def test_a_score_does_not_follow_its_own_labels():
    """Votes given, the scores of an item are the same whatever its own vote; a classifier that has seen it moves."""
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(30, 25)))
    values, rotated, _ = class_scores._principal(x - x.mean(0))
    votes = torch.zeros(30, 2, dtype=torch.float64)
    votes[torch.arange(30), torch.arange(30) % 2] = 1.0
    other = votes.clone()
    other[7] = other[7].flip(-1)

    def scores(y):
        y = y - y.mean(0)
        shrunk = 1 / (values + 30 * 0.1)
        seen = rotated @ ((rotated.T @ y) * shrunk.unsqueeze(-1))
        leverage = 1 / 30 + rotated.square() @ shrunk
        return seen, y - (y - seen) / (1 - leverage).unsqueeze(-1)

    (seen, given), (seen_other, given_other) = scores(votes), scores(other)
    shift = (other - votes).mean(0)  # scores are less the mean of all votes
    torch.testing.assert_close(given[7], given_other[7] + shift)
    assert float((seen[7] - seen_other[7]).abs().max()) > 0.2


@pytest.mark.slow
def test_features_that_say_nothing_have_no_scores():
    """Of 40 crowds with random features, in at most 6 more than chance is seen: at a rate of .05, by chance in 1 of 100 runs."""
    seen = 0
    for seed in range(40):
        data, _ = crowd(items=60, features=10, strength=0.0, seed=seed)
        got = learned(data)
        seen += got.errors >= class_scores.LEAST
        assert bool((got.scores == 0).all()) == (got.errors < class_scores.LEAST)
    assert seen <= 6


def test_items_without_labels_have_the_classifiers_scores():
    data, _ = crowd(strength=3.0)
    few = data.keep(data.item < 150)
    assert few.N == 200
    got = learned(few)
    torch.testing.assert_close(got.scores[150:], got.classifier.scores(data.features[150:]))
    assert float(got.scores[150:].abs().max()) > 0.1


# ---------------------------------------------------------------------- the model


def test_the_prior_of_an_item_is_prevalence_times_scores():
    data = scored(tiny(3))
    bound = bind(FeaturesAndEffects(), data)
    with isolated(0), torch.no_grad():
        draws = prior_draws(bound, data, 4)
        classes = bound.truths.by_class(bound.log_truth(draws, data).exp(), draws, data)
        weighed = draws["prevalence"].unsqueeze(-2) * (draws["score_weight"].view(-1, 1, 1) * data.class_scores).exp()
        torch.testing.assert_close(classes, weighed / weighed.sum(-1, keepdim=True))
        without = bound.log_truth(draws, replace(data, class_scores=None)).exp()
        torch.testing.assert_close(bound.truths.by_class(without, draws, data), draws["prevalence"])


def test_steps_of_em_rise_with_class_scores():
    data, _ = crowd()
    trace = quiet_fit(scored(data), FeaturesAndEffects(anchoring=0.0), method="em", accelerate=False, max_iter=30)
    lp = trace.tree["sample_stats"]["log_posterior"].values
    assert len(lp) > 5
    assert (np.diff(lp) > -1e-9 * abs(lp[-1])).all()


def test_the_m_step_is_a_maximum_of_trust_and_prevalence():
    """No small move of both raises their density given the classes."""
    data, _ = crowd()
    data = scored(data)
    model = FeaturesAndEffects()
    with isolated(0), torch.no_grad():
        r = model.initial(data)
        theta = model.m_step(r, data, None)
        target = model._target(r.unflatten(-1, (data.K, -1)).sum(-1), data, model.prior_items)
        at = _Weights(theta["score_weight"], theta["prevalence"].log())
        best = target.density(at)
        for _ in range(30):
            moved = _Weights(at.weight + 0.05 * torch.randn(()), at.logs + 0.01 * torch.randn(data.K))
            assert float(target.density(moved)) <= float(best) + 1e-9


@pytest.mark.slow
def test_gibbs_step_draws_score_weight_and_prevalence_from_their_conditional():
    """Given classes, against a grid: means within 5 standard errors of 4,000 draws, a false alarm in one of 10^5 runs."""
    data = scored(tiny(3, items=6, classes=2))
    model = FeaturesAndEffects(strengths=(1.5,))
    M = model.states_per_class(data)
    classes = torch.tensor([0, 1, 1, 0, 1, 1])
    strength, share = torch.linspace(0.02, 60, 1500, dtype=torch.float64), torch.linspace(0.001, 0.999, 400).double()
    logs = torch.stack([share, 1 - share], -1).log()  # (400, 2)
    logits = logs[:, None, None, :] + strength[None, :, None, None] * data.class_scores  # (400, 1500, 6, 2)
    fit = logits.log_softmax(-1)[:, :, torch.arange(6), classes].sum(-1)
    density = fit + strength.log() - 0.2 * strength + model.prior_items * logs.sum(-1, keepdim=True)
    weight = density.flatten().softmax(0).view_as(density)
    with isolated(5), torch.no_grad():
        bound = bind(model, data)
        theta = {name: value.repeat_interleave(4000, 0) for name, value in prior_draws(bound, data, 1).items()}
        for _ in range(60):
            theta = bound.gibbs_step((classes * M).expand(4000, -1), theta, data)
    for got, grid in ((theta["score_weight"], strength[None, :]), (theta["prevalence"][:, 0], share[:, None])):
        mean = float((weight * grid).sum())
        spread = float((weight * (grid - mean) ** 2).sum()) ** 0.5
        assert abs(float(got.mean()) - mean) < 5 * spread / 4000**0.5 + 1e-3 * mean


def test_the_step_of_score_weight_and_prevalence_keeps_their_distribution():
    """Draws from a grid have the same means after five steps: within 5 standard errors, a false alarm in one of 10^6 runs."""
    random = torch.Generator().manual_seed(0)
    classes, scores_of = torch.tensor([0, 1, 1, 1]), 0.2 * torch.randn(4, 2, generator=random, dtype=torch.float64)
    strength, share = torch.linspace(0.01, 90, 3000, dtype=torch.float64), torch.linspace(0.0005, 0.9995, 1000).double()
    target = _Target(torch.eye(2, dtype=torch.float64)[classes], scores_of, 2.0, 0.2)
    logs = torch.stack([share, 1 - share], -1).log()[:, None].expand(-1, len(strength), -1)
    density = torch.stack([target.density(_Weights(strength, each)) for each in logs])
    weight = (density - logs.sum(-1)).flatten().softmax(0)  # over the share, not over its logit
    at = torch.multinomial(weight, 60_000, replacement=True, generator=random)
    drawn = _Weights(strength[at % len(strength)], logs.flatten(0, 1)[at])
    with isolated(1), torch.no_grad():
        moved = drawn
        for _ in range(5):
            moved = target._replace(classes=target.classes.expand(len(at), -1, -1)).moved(moved)
    assert float((moved.weight != drawn.weight).double().mean()) > 0.7
    for before, after in ((drawn.weight, moved.weight), (drawn.logs[:, 0].exp(), moved.logs.softmax(-1)[:, 0])):
        assert abs(float(after.mean() - before.mean())) < 5 * float(before.std()) * (2 / len(at)) ** 0.5
        assert abs(float(after.var() / before.var()) - 1) < 0.05


def test_it_is_item_effects_where_scores_are_zero():
    data, _ = crowd(strength=0.0, seed=3)
    assert learned(data).errors < class_scores.LEAST
    plain = quiet_fit(data, "item-effects", independent=False, seed=0)
    both = quiet_fit(data, FEATURES, independent=False, seed=0)
    np.testing.assert_allclose(both.probability(), plain.probability(), atol=0.02)


def test_class_scores_count_as_one_more_source():
    """Probabilities are those of the published fit, tempered by ``1 + n rho``; scores of 0 are no source."""
    data, _ = crowd(items=60, strength=3.0)
    rho = 0.4
    fits = [quiet_fit(data, FEATURES, seed=0, num_samples=2, **one) for one in ({"rho": rho, "independent": False}, {})]
    tempered, published = (fit.probability() for fit in fits)
    expected = published ** (1 / (1 + data.annotations_per_item.numpy() * rho))[:, None]
    np.testing.assert_allclose(tempered, expected / expected.sum(1, keepdims=True), atol=1e-4)
    silent = replace(data, class_scores=torch.zeros(data.N, data.K))
    assert torch.equal(silent.sources_per_item, silent.weighted_per_item)
    assert torch.equal(scored(data).sources_per_item, data.weighted_per_item + 1)


@pytest.mark.parametrize("model", [None, FEATURES])
def test_scores_are_learned_once_in_a_fit(model, monkeypatch):
    """The fit holds them; a second fit of the same data learns them again."""
    data, _ = crowd(strength=3.0)
    count = []

    def counted(data):
        count.append(data)
        return learned(data)

    for place in ("crowdppl.model.class_scores.learned", "crowdppl.models.features_and_effects.learned"):
        monkeypatch.setattr(place, counted)
    for n in (1, 2):
        posterior = quiet_fit(data, model, method="em", seed=0, num_samples=20)
        assert posterior.info["model"] == FEATURES
        posterior.workers()
        assert len(count) == n


def test_it_needs_features():
    with pytest.raises(DataError, match="reads item features and the data have none"):
        quiet_fit(tiny(features=False), FEATURES)


# ---------------------------------------------------------------------- the default


def test_the_default_reads_features_that_say_something(tmp_path):
    """Better labels than without; a note, no warning; new items by the classifier, also from a file."""
    data, truth = crowd(items=300, strength=2.0)
    posterior = crowdppl.fit(data, seed=0)
    assert posterior.info["model"] == FEATURES
    assert any("features-and-effects was fitted: the features of items predict" in note for note in posterior.notes)
    plain = crowdppl.fit(replace(data, features=None, feature_names=None), seed=0)
    assert plain.info["model"] == "item-effects"
    assert correct(posterior, truth) > correct(plain, truth) + 0.05
    new, classes = crowd(items=200, strength=2.0, seed=1)
    x = pd.DataFrame(new.features.numpy(), index=[f"new {n}" for n in range(200)])
    predicted = crowdppl.predict(posterior, x)
    assert float((predicted["label"].to_numpy() == classes).mean()) > 0.75
    posterior.save(tmp_path / "fit.nc")
    pd.testing.assert_frame_equal(crowdppl.predict(crowdppl.load(tmp_path / "fit.nc"), x), predicted)


def test_the_default_leaves_features_that_say_nothing_unread():
    """The result is that without features, and the note says why."""
    data, _ = crowd(strength=0.0, seed=3)
    posterior = crowdppl.fit(data, seed=0)
    assert posterior.info["model"] == "item-effects"
    assert any("no better than chance" in note for note in posterior.notes)
    plain = crowdppl.fit(replace(data, features=None, feature_names=None), seed=0)
    np.testing.assert_array_equal(posterior.probability(), plain.probability())
    assert model_name(default_model(data, independent=True)[0]) == "dawid-skene"


def test_features_are_left_unread_where_items_have_many_labels():
    data, _ = crowd(items=60, strength=3.0)
    assert model_name(default_model(data)[0]) == FEATURES
    often = torch.arange(data.A).repeat(5).sort().values
    many = replace(data, item=data.item[often], worker=data.worker[often], label=data.label[often])
    model, note, *_ = default_model(many)
    assert model_name(model) == "item-effects"
    assert "to what the other labels of an item say of a label" in note


def test_large_data_are_fitted_without_features(monkeypatch):
    data, _ = crowd(strength=3.0)
    assert model_name(default_model(data)[0]) == model_name(default_model(data, independent=True)[0]) == FEATURES
    monkeypatch.setattr(class_scores, "MOST", 1.0)
    assert model_name(default_model(data)[0]) == "item-effects"
    with pytest.warns(CrowdpplWarning, match="the 6 features of items were not used"):
        crowdppl.fit(data, seed=0, num_samples=20)
