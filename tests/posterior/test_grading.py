"""Severity, correlation and verdicts of raters of grades, against what the simulation put in."""

import numpy as np
import pandas as pd
import pytest
from catalog import quiet_fit

import crowdppl
from crowdppl import Annotations, DataError, report
from crowdppl.posterior.workers import grading
from crowdppl.report import plan

SHIFT = {"lenient": -2.0, "severe": 2.0, "fair 1": 0.0, "fair 2": 0.0, "fair 3": 0.0}


def rated(names=("1", "2", "3", "4", "5"), items=200, seed=0):
    """Grades by raters of known severity, one who gives random grades, one who gives one grade, and one who reverses them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=items)
    rows = []
    for rater in [*SHIFT, "random", "constant", "reversed"]:
        place = {"random": rng.logistic(size=items), "reversed": -3 * x}.get(rater, 3 * x)
        level = np.digitize(place - SHIFT.get(rater, 0.0) + rng.logistic(size=items), [-3, -1, 1, 3])
        rows.append(np.full(items, 2) if rater == "constant" else level)
    item = np.tile(np.arange(items), len(rows))
    worker = np.repeat([*SHIFT, "random", "constant", "reversed"], items)
    label = np.array(names)[np.concatenate(rows)]
    data = Annotations.from_arrays(item, worker, label, labels=names)
    return quiet_fit(Annotations.from_frame(_frame(data), order=names), seed=0), np.concatenate(rows), worker


def _frame(data):
    import pandas as pd

    return pd.DataFrame(
        {
            "task": data.items[data.item.numpy()],
            "worker": data.workers[data.worker.numpy()],
            "label": data.labels[data.label.numpy()],
        }
    )


@pytest.fixture(scope="module")
def crowd():
    return rated()


def test_severity_is_the_difference_of_mean_grades(crowd):
    """All raters grade all items: the severity is that of the mean grades, up to shrinkage and noise."""
    posterior, level, worker = crowd
    table = posterior.severity().set_index("worker")
    raw = {name: 1 + level[worker == name].mean() for name in table.index}
    for name, mean in raw.items():
        assert table.loc[name, "mean_grade"] == pytest.approx(mean)
        assert table.loc[name, "severity"] == pytest.approx(np.mean(list(raw.values())) - mean, abs=0.15)
    assert (table["severity_low"] <= table["severity"]).all()
    assert (table["severity"] <= table["severity_high"]).all()
    assert table["severity"].mean() == pytest.approx(0, abs=1e-6)


def test_pairs_are_differences(crowd):
    posterior = crowd[0]
    table, pairs = posterior.severity().set_index("worker")["severity"], posterior.severity(pairs=True)
    assert len(pairs) == len(table) * (len(table) - 1) / 2
    np.testing.assert_allclose(
        pairs["difference"], table.loc[pairs["worker"]].to_numpy() - table.loc[pairs["other"]].to_numpy(), atol=1e-6
    )
    row = pairs.set_index(["worker", "other"]).loc[("lenient", "severe")]
    assert row["probability"] == 0
    assert row["high"] < -1


def test_verdicts(crowd):
    verdict = crowd[0].workers().set_index("worker")["verdict"]
    assert verdict["severe"] == "severe"
    assert verdict["lenient"] == "lenient"
    assert verdict["constant"] == "constant"
    assert verdict["random"] == "random"
    assert verdict["reversed"] == "adversarial"
    assert set(verdict[["fair 1", "fair 2", "fair 3"]]) <= {"reliable", "fair"}


def test_sentences_speak_of_grades(crowd):
    posterior = crowd[0]
    todo = plan.actions(posterior)
    text = "\n".join(plan.lines(todo, posterior))
    assert "compare grades with others. Grades" in text
    assert "retrain on" not in text.lower()
    assert not todo.questions
    assert "whose true grade or one next to it is less than 80% probable" in text or not len(todo.open)


def test_correlations_by_hand(crowd):
    posterior = crowd[0]
    grade = np.arange(1, 6)
    confusion, prevalence = posterior.draws("confusion"), posterior.draws("prevalence")
    joint = prevalence[3, :, None] * confusion[3, 1]
    truth, given = joint.sum(1), joint.sum(0)
    covariance = grade @ joint @ grade - (truth @ grade) * (given @ grade)
    spread = [np.sqrt(p @ grade**2 - (p @ grade) ** 2) for p in (truth, given)]
    assert grading.correlations(posterior)[3, 1] == pytest.approx(covariance / np.prod(spread))


def test_grades_of_items(crowd):
    posterior, level, worker = crowd
    table = posterior.grades()
    raw = np.mean([level[worker == name] for name in [*SHIFT, "random", "constant", "reversed"]], axis=0) + 1
    np.testing.assert_allclose(table["mean_grade"], raw)
    np.testing.assert_allclose(table["grade"], posterior.probability() @ np.arange(1, 6))
    p, codes = posterior.probability(), {name: k for k, name in enumerate(posterior.labels.tolist())}
    for row, low, high in zip(p, table["grade_low"], table["grade_high"], strict=True):
        assert row[codes[low] : codes[high] + 1].sum() >= 0.89 - 1e-9


def test_words_have_their_place(crowd):
    """Grades that are words count from 1: the same severities."""
    words = rated(("awful", "poor", "fair", "good", "superb"))[0]
    np.testing.assert_allclose(words.severity()["severity"], crowd[0].severity()["severity"], atol=1e-9)


def test_classes_have_no_severity():
    data = Annotations.from_arrays([0, 0, 1, 1], [0, 1, 0, 1], ["a", "b", "a", "a"])
    posterior = quiet_fit(data, "one-coin", method="em", num_samples=4)
    for view in (posterior.severity, posterior.grades):
        with pytest.raises(DataError, match="read them with kind='ordinal'"):
            view()


def test_words_stay_grades_when_a_result_is_stored(tmp_path):
    """Labels that come from a file are text of a fixed length, which is no number either."""
    rng = np.random.default_rng(8)
    names = ["none", "mild", "severe"]
    rows = [(i, j, names[min(2, max(0, i % 3 + rng.integers(-1, 2)))]) for i in range(40) for j in "abc"]
    data = Annotations.from_frame(pd.DataFrame(rows, columns=["task", "worker", "label"]), order=names)
    fitted = quiet_fit(data, method="em", num_samples=50, seed=0)
    loaded = crowdppl.load(fitted.save(tmp_path / "p.nc"))
    assert "AC2" in report.page(loaded)
    more = pd.DataFrame({"task": [99, 99], "worker": ["a", "b"], "label": ["severe", "mild"]})
    assert len(crowdppl.update(loaded, more, num_samples=50).grades()) == 41
    for view in ("workers", "grades", "severity", "truth", "prevalence"):
        pd.testing.assert_frame_equal(
            getattr(loaded, view)(), getattr(fitted, view)(), rtol=1e-3, atol=1e-3, check_dtype=False
        )
