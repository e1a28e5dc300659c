"""Two results on the same task: what changed is found, and noise is not called a change."""

import re

import numpy as np
import pandas as pd
import pytest
from catalog import quiet_fit
from commands import run
from crowds import fitted

import crowdppl
from crowdppl import criticism
from crowdppl.cli.application import console
from crowdppl.criticism.earlier_result import _discoveries


def crowd(skills, items=200, seed=0, first=0):
    """Annotations of items in two classes by workers with these probabilities of the correct label."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, items)
    rows = [
        (f"item {first + i}", name, int(k if rng.random() < skill else 1 - k))
        for i, k in enumerate(truth)
        for name, skill in skills.items()
    ]
    return pd.DataFrame(rows, columns=["task", "worker", "label"])


GOOD = {f"w{j}": 0.85 for j in range(8)}


@pytest.fixture(scope="module")
def first():
    return fitted(crowd(GOOD), num_samples=300)


@pytest.fixture(scope="module")
def second():
    """Other items; one worker has become worse."""
    return fitted(crowd(GOOD | {"w3": 0.5, "new": 0.9}, seed=1, first=190), num_samples=300)


def test_a_worker_who_got_worse(first, second):
    result = criticism.changes(first, second)
    row = result.workers.iloc[0]
    assert (row["worker"], bool(row["changed"])) == ("w3", True)
    assert row["high"] < 0
    assert result.workers["changed"].sum() == 1
    assert (result.items_in_both, result.items_added, result.items_gone) == (10, 190, 190)
    assert (result.workers_added, result.workers_gone) == (["new"], [])
    assert "1 is less accurate ('w3')" in str(result)


@pytest.mark.parametrize("seed", range(4))
def test_other_annotations_of_the_same_crowd_change_nobody(first, seed):
    result = criticism.changes(first, fitted(crowd(GOOD, seed=10 + seed, first=1000), num_samples=300))
    assert not result.workers["changed"].any()
    assert "may be" not in str(result)


def test_another_seed_changes_nothing_for_sure(first):
    """Labels may differ where two classes are about equally probable; no change is sure."""
    frame = crowd(dict.fromkeys(["a", "b", "c", "d"], 0.6), items=80)
    one, other = (fitted(frame, seed=seed, num_samples=60) for seed in (1, 2))
    result = criticism.changes(one, other)
    assert not result.items["sure"].any()
    assert not result.workers["changed"].any()
    same = criticism.changes(first, first)
    assert not len(same.items)
    assert "have the same labels" in str(same)


def test_labels_that_changed():
    """Three annotations of one class, then eight of the other in place of them."""
    good = crowd(GOOD)
    some = [("x", f"w{j}", 0) for j in range(3)]
    revised = [("x", f"w{j}", 1) for j in range(8)]
    one, other = (
        fitted(pd.concat([good, pd.DataFrame(rows, columns=good.columns)]), num_samples=300) for rows in (some, revised)
    )
    changed = criticism.changes(one, other).items
    row = changed.set_index("task").loc["x"]
    assert (row["earlier"], row["later"], bool(row["sure"])) == (0, 1, True)
    assert row["still"] == pytest.approx(1 - row["probability_later"])


def test_a_class_that_is_gone(first):
    """An earlier label that is no class of the later result has no probability there."""
    renamed = crowd(GOOD).replace({"label": {0: 2}})
    result = criticism.changes(first, fitted(renamed, num_samples=50))
    gone = result.items[result.items["earlier"] == 0]
    assert len(gone) > 0
    assert (gone["still"] == 0).all()


def test_results_of_other_things(first):
    other = crowd({"u": 0.8, "v": 0.8}, first=1000)
    with pytest.raises(crowdppl.CrowdpplError, match="share neither items nor workers"):
        criticism.changes(first, fitted(other, num_samples=20))


def test_few_false_alarms():
    """Of 2,000 uniform probabilities hardly any is called a change; of ten small ones among them nearly all are."""
    rng = np.random.default_rng(3)
    alarms = [_discoveries(rng.uniform(size=100), 0.1).any() for _ in range(200)]
    assert np.mean(alarms) < 0.16  # .1 and three standard errors
    chance = np.append(rng.uniform(size=90), np.full(10, 1e-4))
    assert _discoveries(chance, 0.1)[-10:].all()
    assert not len(_discoveries(np.array([]), 0.1))


def test_command(first, second, tmp_path, monkeypatch):
    """Two folders are compared within 80 columns; options of fits and a missing folder are refused."""
    monkeypatch.setattr(console, "width", 80)
    for name, posterior in (("last", first), ("this", second)):
        (tmp_path / name).mkdir()
        posterior.save(tmp_path / name / "posterior.nc")
    output = run("compare", tmp_path / "last", tmp_path / "this").output
    assert max(map(len, output.splitlines())) <= 80
    assert re.search(r"w3 .* changed", output)
    assert output.count("may be noise") == 7
    for words, said in (
        ((tmp_path / "last",), "name the later one"),
        ((tmp_path / "last", tmp_path / "this", "--models", "one-coin,mace"), "--models: two results are compared"),
        ((tmp_path / "last", tmp_path / "nothing"), "holds no posterior.nc"),
    ):
        refused = " ".join(run("compare", *words, code=2).output.split())
        assert said in refused


def graded(severity, seed, scale=1):
    """A result of grades of 120 items by raters of these severities."""
    quality, noise = np.random.default_rng(4).normal(size=120), np.random.default_rng(seed)
    rows = [
        (i, name, scale * int(np.digitize(2 * quality[i] - shift + noise.logistic(), [-3, -1, 1, 3])))
        for i in range(120)
        for name, shift in severity.items()
    ]
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"])
    data = crowdppl.Annotations.from_frame(frame, kind="ordinal")
    return quiet_fit(data, method="em", num_samples=200)


FAIR = dict.fromkeys("abcd", 0)


@pytest.fixture(scope="module")
def fair():
    return graded(FAIR, 1)


def test_raters_of_grades_are_compared_by_severity(fair):
    """A rater who became a grade more severe is named; nobody's accuracy is spoken of."""
    result = criticism.changes(fair, graded(FAIR | {"a": 3}, 2))
    assert result.measure == "severity"
    row = result.workers.iloc[0]
    assert (row["worker"], bool(row["changed"])) == ("a", True)
    assert row["difference"] == pytest.approx(row["later"] - row["earlier"])
    assert row["low"] > 0.4
    assert "more severe ('a')" in str(result)
    assert "accura" not in str(result)


def test_severe_raters_who_join_change_nobody(fair):
    """Severities are relative to the raters of both results."""
    result = criticism.changes(fair, graded(FAIR | {"x": 3, "y": 3, "z": 3}, 3))
    assert not result.workers["changed"].any()
    assert result.workers["difference"].abs().max() < 0.3


def test_grades_of_two_scales_are_not_compared(fair):
    with pytest.raises(crowdppl.DataError, match=r"grades are .* in one result and 0, 10, 20, 30, 40 in the other"):
        criticism.changes(fair, graded(FAIR, 1, scale=10))
