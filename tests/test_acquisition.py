"""What to have labelled next: gains against enumeration, curves against simulated crowds."""

import numpy as np
import pandas as pd
import pytest
from catalog import quiet_fit, simulated
from crowds import crowd_with_characters, fitted

import crowdppl
from crowdppl import Annotations, DataError, OptionError, acquisition
from crowdppl.acquisition import units
from crowdppl.acquisition.batches import FLOOR


@pytest.fixture(scope="module")
def crowd():
    frame, truth = crowd_with_characters()
    return fitted(frame), frame, truth


@pytest.fixture(scope="module")
def independent():
    data, truth, _ = simulated(items=60, seed=1, per_item=3)
    return quiet_fit(data, "dawid-skene", method="gibbs", num_samples=100), data, truth


def entropy(p):
    p = p[p > 0]
    return -(p * np.log2(p)).sum()


@pytest.mark.parametrize("by", ["information", "accuracy"])
def test_gains_by_enumeration(independent, by):
    """Gains equal Bayes' rule, label by label, for every label a worker could give."""
    posterior, data, _ = independent
    worker = data.workers[2]
    theta = posterior.draws("confusion", worker=2).mean(0)
    values = acquisition.gains(posterior, by=by, worker=worker)
    for p, gain in zip(posterior.probability(), values, strict=True):
        after = [p * theta[:, label] for label in range(data.K)]
        value = (lambda q: -entropy(q)) if by == "information" else max
        expected = sum(a.sum() * value(a / a.sum()) for a in after) - value(p)
        assert gain == pytest.approx(max(expected, 0), abs=1e-9)


def test_gains_with_correlation_by_enumeration():
    """A label that is a copy with probability 1 - w is less informative."""
    data, _, _ = simulated(items=30, seed=2, per_item=4)
    posterior = quiet_fit(data, "dawid-skene", method="em", num_samples=20, independent=False, rho=0.3)
    n = posterior.annotations_per_item()
    theta = np.einsum(
        "j,jkl->kl",
        posterior.annotations_per_worker() / posterior.annotations_per_worker().sum(),
        posterior.draws("confusion").mean(0),
    )
    values = acquisition.gains(posterior, by="information")
    for i, p in enumerate(posterior.probability()):
        w = (n[i] + 1) / (1 + n[i] * 0.3) - n[i] / (1 + (n[i] - 1) * 0.3)
        mixed = w * theta + (1 - w) * (p @ theta)
        after = [p * mixed[:, label] for label in range(data.K)]
        assert sum(a.sum() for a in after) == pytest.approx(1)
        np.testing.assert_allclose(sum(after), p)  # the expected belief equals the current one
        assert values[i] == pytest.approx(entropy(p) - sum(a.sum() * entropy(a / a.sum()) for a in after), abs=1e-9)


def test_effective_numbers():
    np.testing.assert_allclose(acquisition.effective([0, 1, 2, 5], 0.25), [0, 1, 1.6, 2.5])
    data, _, _ = simulated(items=30, seed=2)
    plain = quiet_fit(data, "dawid-skene", method="em", num_samples=20)
    table = acquisition.redundancy(plain, 5)
    np.testing.assert_allclose(table["independent"], table["annotations"])
    known = acquisition.redundancy(
        quiet_fit(data, "dawid-skene", method="em", num_samples=20, independent=False, rho=0.25), 5
    )
    assert known["independent"].iloc[-1] == pytest.approx(2.5)
    spread = acquisition.redundancy(quiet_fit(data, "dawid-skene", method="em", num_samples=400, independent=False), 10)
    # As with rho near .1, which matches the growth of accuracy on public sets: 10 / (1 + 9 x .1) = 5.3.
    assert 4 < spread["independent"].iloc[-1] < 6.5
    assert spread["low"].iloc[-1] < 4 < 7 < spread["high"].iloc[-1]


def test_next_items(crowd):
    posterior, frame, _ = crowd
    table = acquisition.next_items(posterior, 7)
    assert len(table) == 7
    assert table["gain"].is_monotonic_decreasing
    entropies = posterior.truth().set_index("task")["entropy"].sort_values(ascending=False)
    assert set(table["task"]) == set(entropies.head(7).index)
    counts = frame.groupby("task").size()
    assert table["annotations"].tolist() == [counts[task] for task in table["task"]]
    for by in ("information", "accuracy"):
        assert acquisition.next_items(posterior, 3, by=by)["gain"].min() >= 0
    with pytest.raises(OptionError, match="did you mean 'entropy'"):
        acquisition.next_items(posterior, by="entropi")
    with pytest.raises(OptionError, match="at least 1"):
        acquisition.next_items(posterior, 0)
    with pytest.raises(DataError, match="no worker"):
        acquisition.next_items(posterior, worker="nobody")


def test_known_items_are_not_chosen(crowd):
    _, frame, truth = crowd
    data = crowdppl.Annotations.from_frame(frame, truth=truth.head(190))
    posterior = quiet_fit(data, "dawid-skene", method="em", num_samples=20)
    table = acquisition.next_items(posterior, 50)
    assert set(table["task"]) <= set(truth.index[190:])
    pairs = acquisition.next_pairs(posterior, 50)
    assert set(pairs["task"]) <= set(truth.index[190:])
    everything = quiet_fit(
        crowdppl.Annotations.from_frame(frame, truth=truth), "dawid-skene", method="em", num_samples=20
    )
    assert acquisition.next_items(everything, 5).empty
    with pytest.raises(OptionError, match="nothing to annotate"):
        acquisition.curve(everything)


def test_next_known(crowd):
    """Items at random by their entropy, none twice, none that is known.

    The mean probability of the first of 300 draws within four standard errors: a false alarm in 15,000 seeds.
    """
    posterior, _, truth = crowd
    table = acquisition.next_known(posterior, 20)
    assert list(table.columns) == ["task", "label", "probability", "annotations"]
    assert table["task"].is_unique
    pd.testing.assert_frame_equal(table, acquisition.next_known(posterior, 20))
    assert list(acquisition.next_known(posterior, 20, seed=1)["task"]) != list(table["task"])
    N = len(posterior.items())
    every = acquisition.next_known(posterior, 10 * N)
    assert sorted(every["task"]) == sorted(posterior.items())
    weight = np.array([entropy(p) for p in posterior.probability()]) + FLOOR
    sure = posterior.probability().max(1)
    mean = (weight * sure).sum() / weight.sum()
    first = [acquisition.next_known(posterior, 1, seed=seed)["probability"].iloc[0] for seed in range(300)]
    assert abs(np.mean(first) - mean) < 4 * np.std(first) / 300**0.5
    assert mean < sure.mean()
    known = dict(list(zip(posterior.items().tolist(), truth, strict=True))[:30])
    data = crowdppl.Annotations.from_frame(crowd[1], truth=known)
    rest = acquisition.next_known(quiet_fit(data, "dawid-skene", method="em", num_samples=5), N)
    assert not set(rest["task"]) & set(known)
    everything = crowdppl.Annotations.from_frame(
        crowd[1], truth=dict(zip(posterior.items().tolist(), truth, strict=True))
    )
    with pytest.raises(OptionError, match="true label of every item was known"):
        acquisition.next_known(quiet_fit(everything, "dawid-skene", method="em", num_samples=5))


def test_next_pairs(crowd):
    """Nobody is asked what they have answered, no item twice, no worker more than their share; the best come first."""
    posterior, frame, _ = crowd
    pairs = acquisition.next_pairs(posterior, 30, each=4)
    assert len(pairs) == 30
    assert not pairs["task"].duplicated().any()
    assert pairs["worker"].value_counts().max() <= 4
    assert pairs.merge(frame, on=["task", "worker"]).empty
    assert pairs["gain"].is_monotonic_decreasing
    assert not set(pairs["worker"].head(10)) & {"guesser", "always"}
    few = acquisition.next_pairs(posterior, 6, workers=["honest 1", "honest 2"], each=3)
    assert few["worker"].value_counts().to_dict() == {"honest 1": 3, "honest 2": 3}
    with pytest.raises(OptionError, match="each=0; it must be a whole number of at least 1"):
        acquisition.next_pairs(posterior, 5, each=0)


def test_finished(crowd):
    posterior, _, _ = crowd
    table = acquisition.finished(posterior, 0.9)
    assert (table["finished"] == (table["probability"] >= 0.9)).all()
    assert 0 < table["finished"].mean() < 1
    with pytest.raises(OptionError, match="between 0 and 1"):
        acquisition.finished(posterior, 1.0)


def test_curve_of_independent_annotations(independent):
    """Options, costs and the target of a curve; choosing items by entropy beats random choice."""
    posterior, _, _ = independent
    curve = acquisition.curve(posterior, 180, by="random", steps=3, price=0.5, replicates=60)
    table = curve.table
    assert table["annotations"].tolist() == [0, 60, 120, 180]
    assert table["cost"].tolist() == [0, 30, 60, 90]
    assert table["accuracy"][0] == pytest.approx(posterior.truth()["probability"].mean(), abs=0.03)
    assert table["accuracy"][3] > table["accuracy"][0]
    assert (table["low"] <= table["accuracy"]).all()
    pd.testing.assert_frame_equal(
        acquisition.curve(posterior, 180, by="random", steps=3, price=0.5, replicates=60).table, table
    )
    target = (table["accuracy"][0] + table["accuracy"][3]) / 2
    needed = curve.needed(target).iloc[0]
    assert needed["annotations"] in (60, 120, 180)
    assert needed["cost"] == needed["annotations"] / 2
    assert np.isnan(curve.needed(1.1)["annotations"][0])
    chosen = acquisition.curve(posterior, 180, steps=3, replicates=60).table
    assert chosen["accuracy"][1] > table["accuracy"][1]  # the most uncertain items first


def test_the_curve_predicts_accuracy():
    """Simulated crowds: accuracy with six annotations per item, predicted from three, on average over five crowds."""
    gaps = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        truth = rng.integers(0, 2, 400)
        rows = [
            (i, int(w), int(truth[i] if rng.random() < 0.6 + 0.015 * w else 1 - truth[i]), turn)
            for i in range(400)
            for turn, w in enumerate(rng.choice(20, 6, replace=False))
        ]
        frame = pd.DataFrame(rows, columns=["task", "worker", "label", "turn"])
        first = quiet_fit(
            crowdppl.Annotations.from_frame(frame[frame["turn"] < 3]), "dawid-skene", method="em", num_samples=50
        )
        later = (
            quiet_fit(crowdppl.Annotations.from_frame(frame), "dawid-skene", method="em", num_samples=10)
            .truth()
            .set_index("task")
        )
        predicted = acquisition.curve(first, 1200, by="random", steps=1, replicates=30).table["accuracy"][1]
        gaps.append(predicted - (later["label"] == truth[later.index]).mean())
    assert abs(np.mean(gaps)) < 0.03  # observed: each within .03


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "chance"}, "use 'entropy', 'information', 'accuracy' or 'random'"),
        ({"price": -1.0}, "price"),
        ({"steps": 0}, "steps"),
        ({"replicates": 1}, "replicates"),
        ({"most": 0}, "at least 1"),
    ],
)
def test_options_of_the_curve(independent, options, message):
    with pytest.raises(OptionError, match=message):
        acquisition.curve(independent[0], **options)


def _asked(posterior, of, unit):
    """Return what to ask for next, and the sums of the entropies of the items of each unit, largest first."""
    total = pd.Series(acquisition.gains(posterior)).groupby(np.asarray(of)).sum().sort_values(ascending=False)
    table = acquisition.next_items(posterior, 3)
    assert table[unit].tolist() == total.head(3).index.tolist()
    assert np.allclose(table["gain"], total.head(3))
    assert len(acquisition.finished(posterior)) == len(total)
    assert acquisition.next_pairs(posterior, 3)[unit].is_unique
    return table


def _units_of(posterior):
    """Return the set or the sequence of each item, by name."""
    constant = posterior.tree["constant_data"]
    return constant["sequence"].to_numpy()[constant["sequence_index"].to_numpy()]


def test_sets_are_asked_for_whole():
    rng = np.random.default_rng(0)
    tasks, workers = np.repeat(np.arange(12), 3), np.tile(np.arange(3), 12)
    chosen = [[name for name in "abc" if rng.random() < 0.5] for _ in tasks]
    frame = pd.DataFrame({"task": tasks, "worker": workers, "label": chosen})
    frame = frame[~((frame["task"] < 4) & (frame["worker"] == 2))]
    posterior = quiet_fit(
        Annotations.from_frame(frame, several="sets", labels=list("abc")), method="em", num_samples=20
    )
    table = _asked(posterior, _units_of(posterior), "task")
    now = posterior.sets().set_index("task").loc[table["task"]]
    for column in ("labels", "probability", "annotations"):
        assert table[column].tolist() == now[column].tolist()
    pairs = acquisition.next_pairs(posterior, 4, each=4)
    assert set(zip(pairs["task"], pairs["worker"], strict=True)) == {(task, 2) for task in range(4)}
    assert acquisition.next_known(posterior, 5).columns.tolist() == ["task", "labels", "probability", "annotations"]


def test_sequences_of_one_token_in_another_order_than_the_items():
    asked = units.Units(
        pd.DataFrame({"sequence": list("abc")}), np.array([2, 0, 1]), np.ones(3), np.zeros(3, dtype=bool)
    )
    assert asked.total(np.array([1.0, 2.0, 3.0])).tolist() == [2.0, 3.0, 1.0]


def test_sequences_are_asked_for_whole():
    rng = np.random.default_rng(1)
    rows = [(s, t, w) for s in range(6) for t in range(2 + s % 3) for w in range(2 + (s > 3))]
    frame = pd.DataFrame(rows, columns=["text", "place", "worker"])
    frame["label"] = rng.choice(["A", "B"], len(frame))
    data = Annotations.from_frame(frame, sequence="text", position="place")
    posterior = quiet_fit(data, method="em", num_samples=20)
    table = _asked(posterior, _units_of(posterior), "sequence")
    assert table["tokens"].tolist() == [2 + int(s) % 3 for s in table["sequence"]]
    assert table["annotations"].tolist() == [2 + (int(s) > 3) for s in table["sequence"]]
    least = posterior.truth()["probability"].groupby(_units_of(posterior)).min()
    assert np.allclose(table["probability"], least.loc[table["sequence"]])
