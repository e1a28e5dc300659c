"""What new workers are like whose labels are numbers, from labels of items that a fit knows."""

import numpy as np
import pandas as pd
import pytest
from number_crowds import crowd
from scipy.stats import binom

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import DataError, OptionError, silent
from crowdppl.models import LinearGaussian

LEVEL = 0.89
NAMES = ("bias", "slope", "sd")


def parted(seed, each=6, workers=30, items=150, new=10, features=None):
    """A frame of some workers' numbers, that of others, and what these are like."""
    frame, truth, kind = crowd(seed, items=items, workers=workers, each=each)
    others = frame["worker"].isin(kind.index[-new:])
    return frame[~others], frame[others], kind.iloc[-new:], truth


def read(frame, **options):
    return Annotations.from_frame(frame, kind="numeric", task="item", **options)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["em", "gibbs"])
def test_intervals_cover(method):
    """Of 100 or 40 new workers; outside by chance once in 10,000 times for each quantity. EM's crowd is a point."""
    hits = {name: 0 for name in NAMES}
    for seed in range(10 if method == "em" else 4):
        old, new, kind, truth = parted(seed)
        with silent():
            posterior = crowdppl.fit(
                read(old), method=method, seed=0, **({} if method == "em" else {"num_samples": 300})
            )
        table = crowdppl.predict_workers(posterior, read(new), level=LEVEL).set_index("worker").loc[kind.index]
        shift = truth.mean() - 3.0
        # A bias is that at the mean truth of the crowd.
        true = kind.assign(bias=kind["bias"] + (kind["slope"] - 1) * shift)
        for name in NAMES:
            hits[name] += int(((table[f"{name}_low"] <= true[name]) & (true[name] <= table[f"{name}_high"])).sum())
    low, high = binom.ppf([5e-5, 1 - 5e-5], 100 if method == "em" else 40, LEVEL)
    for name in ("slope", "sd"):
        assert low - 3 <= hits[name] <= high, (name, hits)
    # The level of the crowd is that of its workers, whose mean bias is not 0.
    assert hits["bias"] >= 0.8 * low


@pytest.mark.slow
def test_new_workers_are_as_a_joint_fit_has_them():
    old, new, kind, _ = parted(3, each=10)
    with silent():
        posterior = crowdppl.fit(read(old), method="gibbs", seed=0, num_samples=500)
        both = crowdppl.fit(read(pd.concat([old, new])), method="gibbs", seed=0, num_samples=500)
    table = crowdppl.predict_workers(posterior, read(new)).set_index("worker").loc[kind.index]
    joint = both.workers().set_index("worker").loc[kind.index]
    shift = (table["bias"] - joint["bias"]).mean()  # the mean of a crowd is that of its workers
    for name, by in (("bias", shift), ("slope", 0.0), ("sd", 0.0), ("correlation", 0.0)):
        width = joint[f"{name}_high"] - joint[f"{name}_low"]
        assert (abs(table[name] - joint[name] - by) < 0.35 * width).all(), name
        assert ((table[f"{name}_high"] - table[f"{name}_low"]) / width).between(0.7, 1.6).all(), name


@pytest.mark.slow
def test_items_may_be_new_where_they_have_features():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    true = 2 * x[:, 0] + x[:, 1] + 0.1 * rng.normal(size=300)
    item, worker, bias = np.repeat(np.arange(200), 3), np.arange(600) % 20, rng.normal(0, 1, 20)
    bias -= bias.mean()
    frame = pd.DataFrame(
        {"item": item, "worker": worker, "label": true[item] + bias[worker] + 0.3 * rng.normal(size=600)}
    )
    features = pd.DataFrame(x).add_prefix("x")
    trial = pd.DataFrame(
        {"item": range(200, 300), "worker": 99, "label": true[200:] + 1.5 + 0.5 * rng.normal(size=100)}
    )
    for model in (LinearGaussian(), LinearGaussian(feature_model="network")):
        with silent():
            posterior = crowdppl.fit(read(frame, features=features[:200]), model, method="em", seed=0)
        row = crowdppl.predict_workers(posterior, read(trial, features=features[200:])).iloc[0]
        # 100 labels: standard errors of .05, .025 and .035.
        assert abs(row["bias"] - 1.5) < 0.25
        assert abs(row["slope"] - 1) < 0.1
        assert abs(row["sd"] - 0.5) < 0.15
    with silent():
        without = crowdppl.fit(read(frame), method="em", seed=0)
    with pytest.raises(DataError, match="100 of 100 items are not among those of the fit"):
        crowdppl.predict_workers(without, read(trial))


def test_what_is_refused():
    old, new, _, truth = parted(1, items=40)
    with silent():
        posterior = crowdppl.fit(read(old), LinearGaussian(slopes=False), method="em", seed=0)
    table = crowdppl.predict_workers(posterior, read(new))
    assert (table["slope"] == 1).all()
    pd.testing.assert_frame_equal(table, crowdppl.predict_workers(posterior, read(new)))
    with pytest.raises(DataError, match="the fit knows"):
        crowdppl.predict_workers(posterior, read(old))
    with pytest.raises(OptionError, match="known true numbers"):
        crowdppl.predict_workers(posterior, read(new, truth=truth[:3]))
    with pytest.raises(OptionError, match="kind='numeric'"):
        crowdppl.predict_workers(posterior, Annotations.from_arrays([0, 1], ["a", "b"], ["x", "y"]))
    with pytest.raises(OptionError, match="leave it out"):
        crowdppl.predict_workers(posterior, read(new), model=crowdppl.models.DawidSkene())
