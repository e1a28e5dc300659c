"""Whether judges have changed: by hand, against McNemar's and Mantel's tests, and false alarms in simulations."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from scipy.stats import t as student

from crowdppl import judges
from crowdppl.judges.human import HumanLabels
from crowdppl.judges.tables import drift
from crowdppl.judges.verdicts import Verdicts


def drawn(frame, human=None, level=0.95):
    """What ``drift`` reads of a result, without a fit."""
    verdicts = Verdicts.from_frame(frame, labels=["fail", "pass"])
    labels = None
    if human is not None:
        verdicts, labels = HumanLabels.from_frame(human).align(verdicts)
    paired = SimpleNamespace(outcome=None)
    return SimpleNamespace(verdicts=verdicts, human=labels, value=np.array([0.0, 1.0]), level=level, features=paired)


def words(passed):
    return np.where(passed, "pass", "fail")


def paired(changed, back, same):
    """Verdicts of two versions on the same items: so many that fail before and pass after, the reverse, and equal ones."""
    before = np.repeat([0, 1, 1], [changed, back, same])
    after = np.repeat([1, 0, 1], [changed, back, same])
    items = np.arange(len(before))
    return pd.DataFrame(
        {
            "item": np.tile(items, 2),
            "judge": "j",
            "version": np.repeat(["v1", "v2"], len(items)),
            "verdict": words(np.append(before, after)),
        }
    )


def test_two_versions_on_the_same_items_are_mcnemars_test():
    table = drift.drift(drawn(paired(30, 10, 60)))
    assert table["measure"].tolist() == ["passing", "accuracy"]
    row = table.iloc[0]
    assert (row["judge"], row["by"], row["before"], row["after"], row["verdicts"]) == ("j", "version", "v1", "v2", 200)
    # With half a pair more of both kinds in the variance: (b - c) / sqrt(b + c + 1).
    ratio = 20 / np.sqrt(41)
    assert row["change"] == pytest.approx(0.2)
    assert row["p_value"] == pytest.approx(2 * student.sf(ratio, 100))
    half = student.ppf(0.975, 100) * np.sqrt(41) / 100
    assert (row["change_low"], row["change_high"]) == pytest.approx((0.2 - half, 0.2 + half))
    assert row["changed"]
    # No label of people: accuracy is not known.
    assert table["verdicts"].tolist() == [200, 0]
    assert np.isnan(table["change"].iloc[1])
    assert not table["changed"].iloc[1]


def test_other_items_are_compared_at_equal_true_labels():
    """Two versions on different items of the same two systems: weighted differences within system and true label."""
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame({"item": np.arange(n), "judge": "j", "system": rng.choice(["a", "b"], n)})
    frame["version"] = rng.choice(["v1", "v2"], n)
    truth = rng.random(n) < np.where(frame["system"] == "a", 0.8, 0.4)
    passed = np.where(rng.random(n) < 0.85, truth, ~truth) | ((frame["version"] == "v2") & (rng.random(n) < 0.4))
    frame["verdict"] = words(passed)
    labelled = np.arange(n) < 200
    human = pd.DataFrame({"item": np.arange(n), "verdict": words(truth)})[labelled]
    row = drift.drift(drawn(frame, human)).iloc[0]
    total, weights, variance = 0.0, 0.0, 0.0
    for _, group in frame.assign(passed=passed, truth=truth)[labelled].groupby(["system", "truth"]):
        x, after = group["passed"].to_numpy(float), (group["version"] == "v2").to_numpy()
        weight = after.sum() * (~after).sum() / len(x)
        total += weight * (x[after].mean() - x[~after].mean())
        weights += weight
        variance += weight * x.var(ddof=1)  # of Cochran, Mantel and Haenszel
    assert row["verdicts"] == 200
    assert row["change"] == pytest.approx(total / weights)
    half = student.ppf(0.975, 196) * np.sqrt(variance + 0.25) / weights
    assert row["change_high"] - row["change"] == pytest.approx(half)
    assert row["changed"]


def test_a_version_on_another_system_cannot_be_compared():
    n = 60
    frame = pd.DataFrame({"item": np.arange(n), "judge": "j", "verdict": words(np.arange(n) % 3 > 0)})
    frame["system"] = frame["version"] = np.where(np.arange(n) < 30, "one", "other")
    human = frame[["item", "verdict"]]
    result = drawn(frame, human)
    table = drift.drift(result)
    assert table["verdicts"].tolist() == [0, 0]
    (sentence,) = drift.sentences(result, table)
    assert sentence.startswith("Whether 'j' changed between versions cannot be known")


def days(n, judges_, seed, change=0.0):
    """Verdicts on labelled items over 30 days, whose true labels get worse; a change of one judge from day 20 on."""
    rng = np.random.default_rng(seed)
    day = np.sort(rng.integers(0, 30, n))
    truth = rng.random(n) < 0.9 - day / 60
    parts = []
    for j in range(judges_):
        passed = np.where(rng.random(n) < 0.8, truth, ~truth) | ((day >= 20) & (rng.random(n) < change) & (j == 0))
        when = pd.Timestamp("2026-03-01") + pd.to_timedelta(day, "D")
        parts.append(pd.DataFrame({"item": np.arange(n), "judge": f"j{j}", "when": when, "verdict": words(passed)}))
    return pd.concat(parts, ignore_index=True), pd.DataFrame({"item": np.arange(n), "verdict": words(truth)})


@pytest.mark.slow
@pytest.mark.parametrize("tables", [30, pytest.param(200, marks=pytest.mark.longest)])
def test_false_alarms_are_as_rare_as_stated(tables):
    """Three judges over 30 days without a change, while true labels get worse."""
    every = [drift.drift(drawn(*days(120, 3, seed))) for seed in range(tables)]
    assert all(len(table) == 6 for table in every)
    # The number of false alarms at a rate of .05 is below this with probability .999.
    assert sum(table["changed"].any() for table in every) <= binom.ppf(0.999, tables, 0.05)
    # The day is chosen where the difference is largest; the interval knows that.
    outside = np.mean([((table["change_low"] > 0) | (table["change_high"] < 0)).mean() for table in every])
    assert outside < 0.06
    if tables > 100:
        assert outside > 0.01


def test_a_change_over_time_has_a_day():
    result = drawn(*days(300, 2, 1, change=0.6))
    table = drift.drift(result)
    assert table.loc[table["judge"] == "j0", "changed"].any()
    assert not table.loc[table["judge"] == "j1", "changed"].any()
    row = table[table["measure"] == "passing"].iloc[0]
    assert "2026-03-18" <= row["after"] <= "2026-03-24"
    assert row["before"] < row["after"]
    assert f"'j0' is more lenient at equal true labels since {row['after']}" in drift.sentences(result, table)[0]


def test_versions_follow_their_times():
    frame = paired(30, 10, 60)
    frame["when"] = np.where(frame["version"] == "v1", "2026-05-02", "2026-05-01")
    table = drift.drift(drawn(frame))
    row = table[table["by"] == "version"].iloc[0]
    assert (row["before"], row["after"]) == ("v2", "v1")
    assert row["change"] == pytest.approx(-0.2)
    # Over time the version is a stratum: nothing is left to compare.
    assert table.loc[table["by"] == "time", "verdicts"].tolist() == [0, 0]


def test_a_result_says_which_judge_has_changed():
    verdicts, truth = judges.simulate(rates=[0.7], items=150, seed=2)
    own = verdicts["judge"] == "a-1"
    kind = verdicts[own].assign(version="v2", verdict="pass")
    both = pd.concat([verdicts.assign(version=np.where(own, "v1", None)), kind], ignore_index=True)
    result = judges.fit(both, truth.sample(60, random_state=0), num_samples=50)
    assert any("'a-1' is more lenient at equal true labels from version v1 to v2" in s for s in result.statements)
    assert any("at most 5% of such tables" in s for s in result.statements)
    assert not len(judges.fit(verdicts, num_samples=50).drift())


def test_items_of_one_question_count_as_what_they_are():
    """Verdicts that are the same on all answers to a question: the interval is that of the questions."""
    rng = np.random.default_rng(0)
    question = np.repeat(np.arange(40), 5)
    frame = pd.DataFrame({"item": np.arange(200), "judge": "j", "version": np.where(question < 20, "v1", "v2")})
    frame["verdict"] = words(rng.random(40) < 0.6)[question]
    human = pd.DataFrame({"item": np.arange(200), "verdict": "pass"})
    alone = drift.drift(drawn(frame, human)).iloc[0]
    together = drift.drift(drawn(frame.assign(question=question), human)).iloc[0]
    assert together["change"] == pytest.approx(alone["change"])
    wider = (together["change_high"] - together["change_low"]) / (alone["change_high"] - alone["change_low"])
    assert wider == pytest.approx(np.sqrt(5), rel=0.05)


def scores(shift, seed=0):
    rng = np.random.default_rng(seed)
    item = np.tile(np.arange(40), 2)
    version = np.repeat(["v1", "v2"], 40)
    score = rng.normal(0, 1, 40)[item] + rng.normal(0, 0.3, 80) + shift * (version == "v2")
    return pd.DataFrame({"item": item, "judge": "s", "version": version, "score": score})


def test_judges_who_give_scores_are_compared_by_them():
    frame = scores(0.5)
    labels = pd.DataFrame({"item": np.arange(40), "judge": "j", "verdict": words(np.arange(40) % 3 > 0)})
    result = drawn(pd.concat([frame, labels], ignore_index=True))
    (row,) = drift.drift(result).to_dict("records")
    wide = frame.set_index(["version", "item"])["score"]
    assert (row["judge"], row["measure"], row["verdicts"]) == ("s", "score", 80)
    assert row["change"] == pytest.approx((wide["v2"] - wide["v1"]).mean())
    assert row["changed"]
    assert "'s' gives higher scores" in drift.sentences(result, drift.drift(result))[0]


def test_p_values_beyond_the_draws_survive_a_correction_for_many_rows():
    frame, human = days(400, 1, 0, change=1.0)
    row = drift.drift(drawn(frame, human)).iloc[0]
    assert 0 < row["p_value"] < 1 / (10 * drift.DRAWS)


def test_few_questions_are_few_degrees_of_freedom():
    rng = np.random.default_rng(0)
    question = np.repeat(np.arange(8), 20)
    frame = pd.DataFrame({"item": np.arange(160), "judge": "j", "version": np.where(question < 4, "v1", "v2")})
    frame["verdict"] = words(rng.random(8) < 0.5)[question]
    frame["question"] = question
    row = drift.drift(drawn(frame, pd.DataFrame({"item": np.arange(160), "verdict": "pass"}))).iloc[0]
    error = (row["change_high"] - row["change"]) / student.ppf(0.975, 7)
    assert row["p_value"] == pytest.approx(2 * student.sf(abs(row["change"]) / error, 7))
