"""What severity depends on: effects found, and intervals that hold them; what is refused."""

import numpy as np
import pandas as pd
import pytest
from catalog import quiet_fit

import crowdppl
from crowdppl import criticism
from crowdppl.errors import DataError, silent


def crowd(raters=40, items=80, each=20, seed=0, shift=1.0, slope=0.0):
    """Return grades by raters of two groups, those of b more severe by ``shift`` logits, and what is known of them."""
    rng = np.random.default_rng(seed)
    known = pd.DataFrame(
        {
            "group": np.where(np.arange(raters) % 2, "b", "a"),
            "age": rng.normal(40, 10, raters).round(),
            "worker": [f"r{j}" for j in range(raters)],
        }
    )
    severity = (
        np.where(known["group"] == "b", shift, 0.0) + slope * (known["age"] - 40) / 10 + rng.normal(0, 0.4, raters)
    )
    place = rng.normal(size=items)
    rows = []
    for j in range(raters):
        for i in rng.choice(items, each, replace=False):
            logit = 2 * place[i] - severity[j] - np.array([-1.0, 0.0, 1.0])
            rows.append((i, f"r{j}", _grade(logit, rng)))
    return pd.DataFrame(rows, columns=["task", "worker", "label"]), known


def _grade(logit, rng):
    """Return a grade given the logits of being above each threshold."""
    return int((rng.random() < 1 / (1 + np.exp(-logit))).sum())


def fitted(frame):
    with silent():
        return crowdppl.fit(crowdppl.Annotations.from_frame(frame, kind="ordinal", order=range(4)), method="em", seed=0)


def test_groups_and_numbers_are_found():
    frame, known = crowd(slope=0.6)
    effects = criticism.severity_effects(fitted(frame), known)
    table = effects.table
    assert table["covariate"].tolist() == ["group", "group", "age"]
    assert table["level"].tolist() == ["a", "b", ""]
    assert table["raters"].tolist() == [20, 20, 40]
    # Two levels are as far from their mean as each other.
    np.testing.assert_allclose(table["effect"][0], -table["effect"][1])
    assert table["low"][1] > 0
    assert table["low"][2] > 0
    assert table["probability"].tolist() == pytest.approx([0, 1, 1], abs=0.06)
    mean, low, high = effects.explained
    assert 0.1 < low < mean < high < 1
    assert "group and age explain" in str(effects)
    assert "r" in repr(effects)
    assert "<table" in effects._repr_html_()


def test_the_frame_may_be_in_any_order_and_by_its_index():
    frame, known = crowd()
    posterior = fitted(frame)
    one = criticism.severity_effects(posterior, known)
    shuffled = known.sample(frac=1, random_state=0).set_index("worker")
    pd.testing.assert_frame_equal(one.table, criticism.severity_effects(posterior, shuffled).table)
    pd.testing.assert_frame_equal(one.table, criticism.severity_effects(posterior, known, seed=0).table)


def test_raters_of_whom_nothing_is_known_are_left_out():
    frame, known = crowd()
    some = known.assign(group=known["group"].where(known.index > 3))
    effects = criticism.severity_effects(fitted(frame), some[["worker", "group"]])
    assert effects.raters == 36


@pytest.mark.slow
def test_intervals_of_nothing_hold_zero():
    """40 crowds in which the group is no matter: 89% intervals hold 0 in 31 or more, which fails in 1 of 200 choices of seeds."""
    held = 0
    for seed in range(40):
        frame, known = crowd(raters=24, items=40, each=15, seed=seed, shift=0.0)
        row = criticism.severity_effects(fitted(frame), known[["worker", "group"]]).table.iloc[0]
        held += row["low"] <= 0 <= row["high"]
    assert held >= 31


def test_what_does_not_fit_is_refused():
    frame, known = crowd(raters=12)
    posterior = fitted(frame)
    by = known.set_index("worker")
    for covariates, reason in (
        (by.iloc[2:], "no row for worker 'r0'"),
        (pd.concat([by, by.iloc[:1]]), "'r0' has several rows"),
        (by[[]], "no column"),
        (by[["age"]].assign(age=1.0), "age is the same"),
        (by.assign(group=by.index), "group has 12 levels, the rarest with 1"),
        (by.assign(again=by["group"]), "follow from others"),
        (pd.DataFrame(np.random.default_rng(0).normal(size=(12, 10)), by.index), "leave covariates out"),
        ("group", "pass a frame"),
    ):
        with pytest.raises(DataError, match=reason):
            criticism.severity_effects(posterior, covariates)
    classes = quiet_fit(
        crowdppl.Annotations.from_frame(frame, labels=range(4)), "dawid-skene", method="em", num_samples=5
    )
    with pytest.raises(DataError, match="kind='ordinal'"):
        criticism.severity_effects(classes, by)
