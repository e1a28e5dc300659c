"""Change of accuracy over time: found, of the right size, said where one looks, and seldom where there is none."""

import numpy as np
import pandas as pd
import pytest
from catalog import quiet_fit
from commands import run

from crowdppl import Annotations, criticism, report
from crowdppl.posterior import workers
from crowdppl.posterior.workers import others


def crowd(seed, items=100, classes=2, changes=None, honest=4, kept=1.0):
    """Labels of honest workers of .85 and of one whose accuracy changes at half time; which labels are right, by worker."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(classes, size=items)
    accuracy = {f"h{n}": (0.85, 0.85) for n in range(honest)} | ({} if changes is None else {"changed": changes})
    rows, right = [], {}
    for name, (before, after) in accuracy.items():
        level = np.where(np.arange(items) < items // 2, before, after)
        said = np.where(rng.random(items) < level, truth, (truth + rng.integers(1, classes, items)) % classes)
        here = np.flatnonzero(rng.random(items) < kept)
        rows += [(n, name, said[n], n) for n in here]
        right[name] = said == truth
    return pd.DataFrame(rows, columns=["task", "worker", "label", "when"]), right, truth


def fitted(frame, **options):
    return quiet_fit(Annotations.from_frame(frame, timestamp="when", **options), seed=0)


@pytest.fixture(scope="module")
def tired():
    frame, right, _ = crowd(0, changes=(1.0, 0.5))
    return frame, right["changed"], fitted(frame)


def test_the_interval_holds_the_change(tired):
    _, right, posterior = tired
    change = right[50:].mean() - right[:50].mean()
    row = workers.accuracy_change(posterior).set_index("worker").loc["changed"]
    assert row["change_low"] <= change <= row["change_high"]
    assert row["change"] == pytest.approx(change, abs=0.1)
    assert row["change"] == pytest.approx(row["second_half"] - row["first_half"])


@pytest.mark.parametrize(
    ("options", "direction"),
    [
        ({"changes": (0.95, 0.55), "items": 300}, -1),
        ({"changes": (1.0, 1 / 3), "classes": 3, "items": 200, "honest": 8, "kept": 0.5}, -1),
        ({"changes": (0.6, 0.95), "items": 200}, 1),
        ({"changes": (1.0, 0.0)}, -1),
        ({"changes": (0.85, 0.85), "items": 200}, 0),
    ],
    ids=["slips", "three classes", "learns", "swaps", "stays"],
)
def test_only_who_gets_worse_is_named(options, direction):
    frame, right, _ = crowd(2, **options)
    posterior = fitted(frame)
    table = workers.accuracy_change(posterior).set_index("worker")
    mine = np.sort(frame["task"][frame["worker"] == "changed"].to_numpy())
    first, second = (right["changed"][half].mean() for half in np.array_split(mine, 2))
    assert table["change_low"]["changed"] - 0.01 <= second - first <= table["change_high"]["changed"] + 0.01
    assert workers.became_worse(posterior)["worker"].tolist() == (["changed"] if direction < 0 else [])
    assert (table["worse"]["changed"] > 0.99) == (direction < 0)
    assert (table["worse"]["changed"] < 0.01) == (direction > 0)


def test_known_truths_judge_where_nobody_else_labelled():
    frame, right, truth = crowd(3, changes=(1.0, 0.4), honest=0)
    frame = pd.concat([frame, pd.DataFrame({"task": [0, 1], "worker": "other", "label": [0, 1], "when": 0})])
    posterior = fitted(frame, truth=dict(enumerate(truth.tolist())))
    row = workers.accuracy_change(posterior).set_index("worker").loc["changed"]
    assert row["change"] == pytest.approx(right["changed"][50:].mean() - right["changed"][:50].mean(), abs=0.03)


def test_a_change_is_said_in_actions_advice_and_commands(tired, tmp_path):
    frame, _, posterior = tired
    line = next(line for line in report.lines(report.actions(posterior), posterior) if "changed:" in line)
    assert "ask what changed. Accuracy fell over time, from" in line
    assert any("Worker changed: Accuracy fell over time" in sentence for sentence in criticism.advice(posterior))
    frame.to_csv(tmp_path / "labels.csv", index=False)
    words = ("--timestamp", "when", "--out", tmp_path / "results")
    assert "Accuracy fell over time" in " ".join(run("fit", tmp_path / "labels.csv", *words).output.split())
    assert "Accuracy fell over time" in " ".join(run("check", tmp_path / "results").output.split())


def test_without_times_nothing_is_said(tired):
    posterior = quiet_fit(Annotations.from_frame(tired[0]), seed=0)
    assert workers.became_worse(posterior).empty
    assert not any("over time" in line for line in report.lines(report.actions(posterior), posterior))


def test_densities_are_those_of_beta_distributions():
    """With certain references the posterior is Beta(.5 + POWER correct, .5 + POWER wrong); differences by Monte Carlo."""
    correct = np.array([1.0] * 18 + [0.0] * 2 + [1.0] * 9 + [0.0] * 11)
    density = others.accuracy_density(correct, np.repeat([0, 1], 20), 2, 3)
    rng = np.random.default_rng(0)
    draws = [rng.beta(0.5 + others.POWER * n, 0.5 + others.POWER * (20 - n), 400_000) for n in (18, 9)]
    np.testing.assert_allclose(density @ others.GRID, [part.mean() for part in draws], atol=0.003)
    ends = np.array([0.055, 0.945])
    np.testing.assert_allclose(others.quantiles(density, ends), [np.quantile(part, ends) for part in draws], atol=0.005)
    values, worse = others.differences(density[:1], density[1:])
    np.testing.assert_allclose(np.quantile(values[0], ends), np.quantile(draws[1] - draws[0], ends), atol=0.01)
    assert worse[0] == pytest.approx((draws[1] < draws[0]).mean(), abs=0.002)


def test_blocks_do_not_matter(tired, monkeypatch):
    posterior = tired[2]
    whole = others.class_by_others(posterior)
    monkeypatch.setattr(others, "BLOCK", 7)
    np.testing.assert_allclose(others.class_by_others(posterior), whole)
    monkeypatch.setattr(others, "BLOCK", 128 * 7)
    group = np.repeat([0, 1, 2], [3, 20, 5])
    one = others.accuracy_density(whole[0][:28], group, 3, 2)
    monkeypatch.undo()
    np.testing.assert_allclose(others.accuracy_density(whole[0][:28], group, 3, 2), one)
