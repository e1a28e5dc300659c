"""Votes against counting by hand, against crowd-kit, and on real data with ties."""

import random
import warnings

import numpy as np
import pandas as pd
import pytest
from catalog import quiet_fit, tiny

import crowdppl
from crowdppl import Annotations, aggregate
from crowdppl.errors import DataError, OptionError

TABLE = [  # item, worker, label
    *[("a", w, k) for w, k in (("u", 0), ("v", 0), ("w", 1))],
    *[("b", w, k) for w, k in (("u", 1), ("v", 2), ("w", 2))],
    *[("c", w, k) for w, k in (("u", 0), ("v", 1))],
]


@pytest.fixture
def data():
    item, worker, label = zip(*TABLE, strict=True)
    return Annotations.from_arrays(item, worker, label, labels=[0, 1, 2], items=list("abcd"))


def test_by_hand(data):
    shares = aggregate.vote_shares(data)
    np.testing.assert_allclose(shares.probability(), [[2 / 3, 1 / 3, 0], [0, 1 / 3, 2 / 3], [0.5, 0.5, 0], [1 / 3] * 3])
    split = aggregate.majority(data)
    np.testing.assert_allclose(split.probability(), [[1, 0, 0], [0, 0, 1], [0.5, 0.5, 0], [1 / 3] * 3])
    first = aggregate.majority(data, ties="first")
    assert first.truth()["label"].tolist() == [0, 2, 0, 0]
    workers = first.workers().set_index("worker")
    assert workers["annotations"].to_dict() == {"u": 3, "v": 3, "w": 2}
    np.testing.assert_allclose(workers.loc[list("uvw"), "agreement"], [2 / 3, 2 / 3, 1 / 2])
    agreed = aggregate.wawa(data)
    np.testing.assert_allclose(agreed.weights, [2 / 3, 2 / 3, 1 / 2])
    np.testing.assert_allclose(agreed.probability()[0], np.array([4 / 3, 1 / 2, 0]) / (11 / 6))
    by = aggregate.weighted_majority(data, {"u": 1, "v": 0, "w": 3})
    np.testing.assert_allclose(by.probability()[:3], [[1 / 4, 3 / 4, 0], [0, 1 / 4, 3 / 4], [1, 0, 0]])


def test_random_ties_are_fair_and_repeatable():
    item = np.repeat(np.arange(2000), 2)
    data = Annotations.from_arrays(item, np.tile([0, 1], 2000), np.tile([0, 1], 2000))
    one, same, other = (aggregate.majority(data, ties="random", seed=s).probability() for s in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert abs(one[:, 0].mean() - 0.5) < 0.045  # four standard errors
    assert (one != other).any()


def test_known_truths_are_kept(data):
    item, worker, label = zip(*TABLE, strict=True)
    known = Annotations.from_arrays(item, worker, label, labels=[0, 1, 2], truth={"a": 2})
    for function in (aggregate.majority, aggregate.vote_shares, aggregate.wawa):
        np.testing.assert_array_equal(function(known).probability()[0], [0, 0, 1])


def test_order_does_not_matter():
    data = tiny(5, items=8, workers=5, classes=3)
    rows = pd.DataFrame(
        {"item": data.items[data.item], "worker": data.workers[data.worker], "label": data.labels[data.label]}
    )
    shuffled = Annotations.from_frame(rows.sample(frac=1, random_state=1), labels=range(3))
    plain = Annotations.from_frame(rows, labels=range(3))
    for function in (aggregate.majority, aggregate.vote_shares, aggregate.wawa):
        one, other = (function(d).truth().set_index("item").sort_index() for d in (plain, shuffled))
        pd.testing.assert_frame_equal(one, other)


def test_weights_from_a_fit():
    data = tiny(3, items=12, workers=5)
    posterior = quiet_fit(data, "dawid-skene", method="em", num_samples=20)
    ours = aggregate.weighted_majority(data, posterior)
    by_hand = posterior.workers().set_index("worker")["accuracy"].clip(lower=0)
    np.testing.assert_allclose(ours.weights, by_hand.loc[data.workers])
    informative = aggregate.weighted_majority(data, posterior, measure="informativeness")
    assert (informative.weights != ours.weights).any()
    with pytest.raises(OptionError, match="accurate"):
        aggregate.weighted_majority(data, posterior, measure="accurate")


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"u": 1, "v": 1}, "worker 'w' has no weight"),
        ({"u": 1, "v": -1, "w": 1}, "worker 'v' has no weight, or one that is negative"),
        ({"u": 1, "v": np.nan, "w": np.inf}, "workers? 'v', 'w'|'v' and 'w'"),
        (pd.Series([1, 2, 3, 4], index=list("uvwu")), "worker 'u' has several"),
        ([1, 2, 3], "weights is a list"),
    ],
)
def test_weights_are_refused_in_one_line(data, weights, said):
    with pytest.raises(OptionError, match=said) as error:
        aggregate.weighted_majority(data, weights)
    assert "\n" not in str(error.value)


def test_an_item_whose_workers_have_no_weight(data):
    with pytest.raises(DataError, match="item 'c'"):
        aggregate.weighted_majority(data, {"u": 0, "v": 0, "w": 1})


def test_ties_on_rte(public):
    """Accuracy of the majority vote on RTE: .897 with ties split, .919 with ties to the first class."""
    data, truth = public("rte")
    known = np.searchsorted(data.labels, truth.loc[data.items])
    split = aggregate.majority(data).probability()[np.arange(data.N), known].mean()
    first = (
        aggregate.majority(data, ties="first").truth()["label"].to_numpy() == truth.loc[data.items].to_numpy()
    ).mean()
    assert split == pytest.approx(0.897, abs=5e-4)
    assert first == pytest.approx(0.919, abs=5e-4)


@pytest.mark.slow
def test_crowdkit_agrees(public):
    """Wawa and majority vote with its rule for ties, to 1e-8."""
    state, streams = random.getstate(), np.random.get_state()  # noqa: NPY002 - theirs uses the global streams
    theirs = pytest.importorskip("crowdkit.aggregation", reason="crowd-kit is not installed")
    data, truth = public("rte")
    frame = pd.DataFrame(
        {"task": data.items[data.item], "worker": data.workers[data.worker], "label": data.labels[data.label]}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shares = theirs.MajorityVote().fit_predict_proba(frame).loc[data.items, data.labels].to_numpy()
        vote = theirs.MajorityVote().fit(frame)
        weighted = theirs.MajorityVote().fit_predict_proba(frame, skills=vote.skills_)
        odd = frame.groupby("task").head(9)  # two classes: no ties
        skills = theirs.MajorityVote().fit(odd).skills_
        wawa = theirs.MajorityVote().fit_predict_proba(odd, skills=skills)  # what its class Wawa does
    random.setstate(state)
    np.random.set_state(streams)  # noqa: NPY002
    np.testing.assert_allclose(aggregate.vote_shares(data).probability(), shares, atol=1e-8)
    assert (vote.labels_.loc[truth.index] == truth).mean() == pytest.approx(0.875, abs=5e-4)  # by its rule for ties
    one_hot = np.eye(data.K)[np.searchsorted(data.labels, vote.labels_.loc[data.items])]
    tied = (aggregate.majority(data).probability() < 1).all(1)
    np.testing.assert_array_equal(aggregate.majority(data).probability()[~tied], one_hot[~tied])
    ours = aggregate.weighted_majority(data, vote.skills_)
    np.testing.assert_allclose(ours.probability(), weighted.loc[data.items, data.labels], atol=1e-8)
    untied = Annotations.from_frame(odd)
    np.testing.assert_allclose(aggregate.wawa(untied).probability(), wawa.loc[untied.items, untied.labels], atol=1e-8)


def test_it_is_found_by_name():
    assert crowdppl.aggregate.majority is aggregate.majority
