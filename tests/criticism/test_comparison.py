"""Comparison of models on the same annotations, against figures computed from single fits."""

import numpy as np
import pandas as pd
import pytest
from catalog import quiet_fit, simulated
from crowds import crowd_with_characters
from scipy.stats import beta

import crowdppl
from crowdppl import CrowdpplWarning, DataError, ModelError, OptionError, criticism
from crowdppl.criticism import comparison
from crowdppl.models import DawidSkene, OneCoin

NAMES = ("majority-vote", "dawid-skene", "one-coin")


@pytest.fixture(scope="module")
def crowd():
    frame, truth = crowd_with_characters(items=90, each=30)
    return crowdppl.Annotations.from_frame(frame), truth


@pytest.fixture(scope="module")
def fits(crowd):
    return {name: quiet_fit(crowd[0], name, method="em", seed=3, num_samples=60, independent=False) for name in NAMES}


@pytest.fixture(scope="module")
def compared(crowd):
    return crowdppl.compare(crowd[0], NAMES, seed=3, num_samples=60)


def test_predictive_scores_are_those_of_single_fits(compared, fits):
    table = compared.models.set_index("model")
    assert list(table.index) == list(NAMES)
    for name, posterior in fits.items():
        alone = criticism.loo(posterior)
        assert table["elpd"][name] == pytest.approx(alone.elpd, rel=1e-12)
        assert table["se"][name] == pytest.approx(alone.se, rel=1e-12)
        assert table["unreliable"][name] == alone.high
    assert table["difference"].max() == 0
    best = table["elpd"].idxmax()
    values = {name: criticism.loo(posterior).items["elpd"].to_numpy() for name, posterior in fits.items()}
    for name in NAMES:
        gap = values[name] - values[best]
        assert table["difference"][name] == pytest.approx(gap.sum(), abs=1e-9)
        assert table["se_difference"][name] == pytest.approx(np.sqrt(len(gap)) * gap.std(), abs=1e-9)
    assert (table["seconds"] > 0).all()
    assert compared.known == 0
    assert "accuracy" not in table


def test_disagreements_and_shares(compared, fits):
    """Pairs, divergences and shares again, item by item."""
    probability = {name: posterior.probability() for name, posterior in fits.items()}
    items = next(iter(fits.values())).items().tolist()
    best = {
        name: [{k for k, v in enumerate(row) if v >= max(row) - 1e-9} for row in values.tolist()]
        for name, values in probability.items()
    }
    disputed = set()
    for row in compared.pairs.itertuples():
        apart = {i for i, (a, b) in enumerate(zip(best[row.first], best[row.second], strict=True)) if not a & b}
        assert row.items == len(apart)
        assert row.share == pytest.approx(len(apart) / len(items))
        disputed |= apart
    assert len(compared.pairs) == 3
    assert disputed
    assert set(compared.items["task"]) == {items[i] for i in disputed}
    assert compared.items["divergence"].is_monotonic_decreasing
    for row in compared.items.head(5).to_dict("records"):
        i = items.index(row["task"])
        rows = [values[i] for values in probability.values()]
        mean = np.mean(rows, axis=0)
        divergence = np.mean([sum(p * np.log2(p / m) for p, m in zip(r, mean, strict=True) if p > 0) for r in rows])
        assert row["divergence"] == pytest.approx(divergence, abs=1e-9)
        for name, values in probability.items():
            assert row[f"probability_{name}"] == values[i].max()
            assert row[f"label_{name}"] == fits[name].labels[values[i].argmax()]
    for name, values in probability.items():
        np.testing.assert_allclose(compared.shares[name], values.mean(0))
    assert compared.shares["label"].tolist() == [0, 1, 2]


def test_truths_are_kept_from_the_fits(crowd, compared):
    """The tables of labels are the same with and without known truths, be they an argument or in the data."""
    data, truth = crowd
    few = truth.sample(40, random_state=0)
    scored = crowdppl.compare(data, NAMES, truth=few, seed=3, num_samples=60)
    frame, _ = crowd_with_characters(items=90, each=30)
    known = crowdppl.Annotations.from_frame(frame, truth=few.to_dict())
    inside = crowdppl.compare(known, NAMES, seed=3, num_samples=60)
    for result in (scored, inside):
        assert result.known == 40
        pd.testing.assert_frame_equal(result.items, compared.items)
        pd.testing.assert_frame_equal(result.pairs, compared.pairs)
        pd.testing.assert_frame_equal(result.shares, compared.shares)
    pd.testing.assert_frame_equal(scored.models.drop(columns="seconds"), inside.models.drop(columns="seconds"))
    assert "of known truth" in " ".join(scored.summary)


def test_scores_on_known_truths(crowd, fits):
    data, truth = crowd
    few = truth.sample(50, random_state=1)
    table = crowdppl.compare(data, NAMES, truth=few, level=0.8, seed=3, num_samples=60).models.set_index("model")
    for name, posterior in fits.items():
        index = [posterior.items().tolist().index(item) for item in few.index]
        p = posterior.probability()[index]
        top = p >= p.max(1, keepdims=True) - 1e-9
        right = (top[np.arange(50), few.to_numpy()] / top.sum(1)).sum()
        assert table["accuracy"][name] == pytest.approx(right / 50)
        ends = beta(right + 0.5, 50 - right + 0.5).ppf([0.1, 0.9])
        assert [table["low"][name], table["high"][name]] == pytest.approx(ends)
        assert table["log_loss"][name] == pytest.approx(-np.log(p[np.arange(50), few.to_numpy()]).mean())
    assert table["best"].sum() == pytest.approx(1)


def test_probability_of_the_most_accurate():
    """Two models that differ on 9 items, of which the first has 6: the probability is that of a Beta(6, 3) above one half."""
    first = np.tile([1.0, 0.0], (20, 1))
    first[:3] = [0.0, 1.0]
    second = np.tile([1.0, 0.0], (20, 1))
    second[3:9] = [0.0, 1.0]
    table = comparison._scores({"a": first, "b": second}, np.zeros(20, dtype=int), 0.89, 0)
    assert table["accuracy"].tolist() == [17 / 20, 14 / 20]
    assert table["best"][0] == pytest.approx(beta(6, 3).sf(0.5), abs=0.03)
    # Votes that tie count by their share, and equal models are equally probably the best.
    table = comparison._scores({"a": np.full((8, 2), 0.5), "b": np.full((8, 2), 0.5)}, np.zeros(8, dtype=int), 0.89, 0)
    assert table["accuracy"].tolist() == [0.5, 0.5]
    assert table["best"].tolist() == [0.5, 0.5]


def test_ties_disagree_with_nobody():
    a, b = np.array([[0.5, 0.5], [0.9, 0.1]]), np.array([[0.2, 0.8], [0.3, 0.7]])
    assert comparison._pairs({"a": a, "b": b})["items"].tolist() == [1]


def test_models_by_name_and_instance(crowd):
    data, _ = crowd
    result = crowdppl.compare(data, {"weak": DawidSkene(prior_correct=1.0), "strong": DawidSkene()}, num_samples=40)
    assert result.models["model"].tolist() == ["weak", "strong"]
    with pytest.warns(CrowdpplWarning, match="the first: majority-vote: "):
        result = crowdppl.compare(
            data, ["majority-vote", OneCoin()], method="gibbs", chains=2, warmup=20, num_samples=20
        )
    assert result.models["model"].tolist() == ["majority-vote", "OneCoin"]
    assert set(result.models["method"]) == {"gibbs"}


def test_too_few_draws_for_a_score(crowd):
    """Labels are compared all the same."""
    with pytest.warns(CrowdpplWarning, match="come from 5 draws"):
        result = crowdppl.compare(crowd[0], ["majority-vote", "one-coin"], num_samples=5)
    assert result.models["elpd"].isna().all()
    assert len(result.pairs) == 1


def test_summary_says_what_to_do():
    data, _, _ = simulated(items=60, seed=5, per_item=5)
    same = crowdppl.compare(data, {"a": "one-coin", "b": "one-coin"}, num_samples=40)
    assert same.summary == ["The models agree on every item."]
    assert len(same.items) == 0
    frame, _ = crowd_with_characters(items=90, each=30)
    result = crowdppl.compare(crowdppl.Annotations.from_frame(frame), NAMES, num_samples=40)
    assert "true labels" in result.summary[-1]
    assert f"Only the {len(result.items)} items" in result.summary[-1]
    assert "elpd" in str(result)


def test_what_cannot_be_compared_is_refused(crowd):
    data, _ = crowd
    for given, error, message in (
        ({"models": ["one-coin"]}, OptionError, "models has 1 values; at least 2"),
        ({"models": []}, OptionError, "models has 0 values; at least 2"),
        ({"models": "one-coin"}, DataError, "models='one-coin'; it must be a list"),
        ({"models": ["one-coin", "one-coin"]}, OptionError, "'one-coin' more than once; give names"),
        ({"models": ["one-coin", "two-coin"]}, OptionError, "no model 'two-coin'"),
        ({"models": ["one-coin", OneCoin]}, OptionError, "pass an instance"),
        ({"models": {"a": "one-coin", 2: "one-coin"}}, OptionError, "models=2; it must be text"),
        ({"models": ["one-coin", "raykar"]}, DataError, "^raykar: .*features"),
        ({"models": ["one-coin", "hierarchical"]}, ModelError, "^hierarchical: "),
        ({"method": "nut"}, OptionError, "no method 'nut'"),
        ({"colour": 3}, OptionError, "has no option 'colour'"),
        ({"truth": {"elsewhere": 0}, "models": NAMES}, DataError, "none of the items"),
        ({"truth": {"item 3": 9}, "models": NAMES}, DataError, "not a class"),
        ({"level": 2}, OptionError, "level=2"),
    ):
        with pytest.raises(error, match=message):
            crowdppl.compare(data, **given)
    with pytest.raises(DataError, match="data is a DataFrame"):
        crowdppl.compare(pd.DataFrame({"task": [1], "worker": [1], "label": [1]}))


def test_warnings_of_fits_are_notes(crowd):
    """One warning for all, which names the model."""
    with pytest.warns(CrowdpplWarning, match="warnings of the fits, the first: majority-vote: ") as caught:
        result = crowdppl.compare(crowd[0], ["majority-vote", "one-coin"], num_samples=10)
    assert len(caught) == 1
    assert all(note.startswith(("majority-vote: ", "one-coin: ")) for note in result.notes)
