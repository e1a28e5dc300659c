"""Networks of the features of items with numbers: gains where numbers are not linear in features, little loss elsewhere."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import DataError, ModelError, silent
from crowdppl.models import LinearGaussian

NETWORK = LinearGaussian(feature_model="network")


def nonlinear(x):
    return np.sin(2 * x[:, 0]) + 0.7 * x[:, 1] * x[:, 2] + 0.5 * x[:, 3]


def linear(x):
    return x[:, 0] + 0.5 * x[:, 1]


def unrelated(x):
    return 0 * x[:, 0]


def crowd(function, seed=0, items=400, new=1000, each=2, workers=15):
    """Annotations with features, true numbers, features of new items and their true numbers."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(items + new, 5))
    true = function(x) + 0.3 * rng.normal(size=len(x))
    bias, noise = rng.normal(0, 0.4, workers), 0.5 * np.exp(0.4 * rng.normal(size=workers))
    item, worker = np.repeat(np.arange(items), each), rng.integers(0, workers, items * each)
    frame = pd.DataFrame({"task": item, "worker": worker})
    frame["label"] = true[item] + bias[worker] + noise[worker] * rng.normal(size=len(item))
    features = pd.DataFrame(x).add_prefix("x")
    data = Annotations.from_frame(
        frame.drop_duplicates(["task", "worker"]), kind="numeric", features=features[:items], items=range(items)
    )
    return data, true[:items], features[items:].reset_index(drop=True), true[items:]


def fitted(data, model=NETWORK, **options):
    with silent():
        return crowdppl.fit(data, model, **({"method": "em", "seed": 0} | options))


def error(table, true):
    """Root mean squared error, and the share of intervals that hold the true number."""
    held = (table["low"] <= true) & (true <= table["high"])
    return float(np.sqrt(((table["value"] - true) ** 2).mean())), float(held.mean())


@pytest.mark.slow
def test_networks_learn_what_is_not_linear():
    """Margins are those of ten further seeds: the errors fell by 15 to 30% and by half."""
    data, true, new, new_true = crowd(nonlinear)
    by, plain = fitted(data), fitted(data, LinearGaussian())
    (own, covered), (other, _) = error(by.truth(), true), error(plain.truth(), true)
    assert own < 0.9 * other
    assert 0.8 < covered < 0.96
    (own, covered), (other, _) = (error(crowdppl.predict(posterior, new), new_true) for posterior in (by, plain))
    assert own < 0.65 * other
    assert 0.8 < covered < 0.97


@pytest.mark.slow
@pytest.mark.parametrize("function", [linear, unrelated])
def test_networks_cost_little_where_features_are_linear(function):
    """The mean ratio of errors was 1.01 over six seeds, 1.05 at most."""
    ratios = []
    for seed in range(1, 4):
        data, true, new, new_true = crowd(function, seed=seed)
        by, plain = fitted(data), fitted(data, LinearGaussian())
        own, other = (
            [error(one.truth(), true)[0], error(crowdppl.predict(one, new), new_true)[0]] for one in (by, plain)
        )
        ratios.append(np.divide(own, other))
    assert (np.mean(ratios, axis=0) < 1.03).all()


@pytest.mark.slow
def test_a_network_that_learned_its_items_by_heart_gets_no_weight():
    """Numbers without relation to features: 99% intervals of the networks' weight hold 0; 1 of 5 outside is 5% likely."""
    outside = 0
    for seed in range(5):
        row = fitted(crowd(unrelated, seed=seed, items=100)[0]).features(level=0.99).iloc[-1]
        assert row["feature"] == "network"
        outside += not row["low"] <= 0 <= row["high"]
    assert outside <= 1


@pytest.mark.slow
def test_results_are_saved_and_updated(tmp_path):
    data, _, new, _ = crowd(nonlinear, items=120)
    posterior = fitted(data, seed=3)
    posterior.save(tmp_path / "result.nc")
    again = crowdppl.load(tmp_path / "result.nc")
    pd.testing.assert_frame_equal(crowdppl.predict(again, new), crowdppl.predict(posterior, new))
    pd.testing.assert_frame_equal(fitted(data, seed=3).truth(), posterior.truth())
    assert list(posterior.features()["feature"]) == [*new.columns, "network"]
    assert posterior.info["counts"]["features"] == 5
    with silent():
        more = crowdppl.update(posterior, data, data=data, repeats="last")
    assert more.info["hyperparameters"]["feature_model"] == "network"
    with pytest.raises(DataError, match="features"):
        crowdppl.predict(posterior, new.iloc[:, :3])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "options"), [("gibbs", {"num_samples": 200, "warmup": 50}), ("svi", {"max_iter": 200})]
)
def test_engines_take_networks(engine, options):
    data, true, _, _ = crowd(nonlinear, items=120)
    posterior = fitted(data, method=engine, **options)
    assert list(posterior.features()["feature"])[-1] == "network"
    assert abs(error(posterior.truth(), true)[0] / error(fitted(data).truth(), true)[0] - 1) < 0.1


def test_what_networks_need():
    data, *_ = crowd(linear, items=40)
    with pytest.raises(ModelError, match="the data have none"):
        fitted(replace(data, features=None, feature_names=None))
    with pytest.raises(ModelError, match="at least 30 items"):
        fitted(crowd(linear, items=20)[0])
    with pytest.raises(ModelError, match="must be 'linear' or 'network'"):
        LinearGaussian(feature_model="tree")
    with pytest.raises(ModelError, match="no networks"):
        crowdppl.pyro_program(NETWORK, data)
