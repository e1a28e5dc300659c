"""The alternative annotator test, and comparisons of judges, against plain Python."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from crowdppl import DataError, judges


def crowd(items=60, people=4, errors=(0.1, 0.4), error=0.25, seed=0, classes=3):
    """Two judges and some people, with errors; each person labels three quarters of the items."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, items)

    def said(i, e):
        return int((truth[i] + (rng.integers(1, classes) if rng.random() < e else 0)) % classes)

    verdicts = [(i, f"m{j}/x", said(i, e)) for i in range(items) for j, e in enumerate(errors)]
    human = [(i, f"p{p}", said(i, error)) for i in range(items) for p in range(people) if rng.random() < 0.75]
    return (
        pd.DataFrame(verdicts, columns=["item", "judge", "verdict"]),
        pd.DataFrame(human, columns=["item", "annotator", "verdict"]),
    )


def plainly(verdicts, human, judge, epsilon, q):
    """The test as the paper describes it."""
    own = verdicts[verdicts["judge"] == judge].set_index("item")["verdict"].to_dict()
    by_item = {item: rows.set_index("annotator")["verdict"].to_dict() for item, rows in human.groupby("item")}
    p_values, advantages = [], []
    for person in sorted(human["annotator"].unique()):
        of_judge, of_person = [], []
        for item, labels in by_item.items():
            others = [label for name, label in labels.items() if name != person]
            if person in labels and others:
                a = np.mean([own[item] == label for label in others])
                b = np.mean([labels[person] == label for label in others])
                of_judge.append(a >= b)
                of_person.append(b >= a)
        d = np.array(of_person, float) - np.array(of_judge, float)
        advantages.append(np.mean(of_judge))
        if len(d) >= 30:
            p_values.append(stats.t.cdf((d.mean() - epsilon) / (d.std(ddof=1) / np.sqrt(len(d))), len(d) - 1))
        else:
            p_values.append(stats.wilcoxon(d - epsilon, alternative="less").pvalue)
    # Benjamini and Yekutieli: the largest k with p_(k) <= k q / (m sum 1/i).
    m = len(p_values)
    ordered = np.sort(p_values)
    limit = np.arange(1, m + 1) * q / (m * sum(1 / i for i in range(1, m + 1)))
    rejected = np.flatnonzero(ordered <= limit).max(initial=-1) + 1
    return rejected / m, np.mean(advantages)


@pytest.mark.parametrize("items", [25, 60, 200])
@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_the_alternative_annotator_test_is_that_of_plain_python(items, epsilon):
    verdicts, human = crowd(items, seed=items)
    table = judges.alternative_annotators(verdicts, human, epsilon=epsilon).set_index("judge")
    for judge in table.index:
        rate, advantage = plainly(verdicts, human, judge, epsilon, 0.05)
        assert table.loc[judge, "winning_rate"] == pytest.approx(rate)
        assert table.loc[judge, "advantage"] == pytest.approx(advantage)
        assert table.loc[judge, "passes"] == (rate >= 0.5)
    assert table.index[0] == "m0/x"


def test_a_good_judge_passes_and_a_bad_one_does_not():
    verdicts, human = crowd(300)
    table = judges.alternative_annotators(verdicts, human).set_index("judge")
    assert table["passes"].to_dict() == {"m0/x": True, "m1/x": False}


def test_what_the_test_needs():
    verdicts, human = crowd(30)
    with pytest.raises(DataError, match="state who gave each label in a column 'annotator'"):
        judges.alternative_annotators(verdicts, human.drop(columns="annotator"))
    with pytest.raises(DataError, match="fewer than three people share 5 items"):
        judges.alternative_annotators(verdicts, human[human["annotator"].isin(["p0", "p1"])])


def test_judges_are_compared_on_the_items_that_both_saw():
    """With all items labelled, the difference is that of the shares correct, and its interval that of the bootstrap."""
    verdicts, _ = crowd(200, errors=(0.1, 0.2, 0.4))
    rng = np.random.default_rng(0)
    seen = verdicts[(verdicts["judge"] != "m2/x") | (verdicts["item"] < 120)]
    truth = {i: int(rng.integers(0, 3)) for i in range(200)}
    for i, label in seen[seen["judge"] == "m0/x"].set_index("item")["verdict"].items():
        truth[i] = label if i % 10 else (label + 1) % 3
    result = judges.fit(seen, truth, num_samples=400, seed=0)
    table = result.judge_comparisons().set_index(["judge_a", "judge_b"])
    wide = seen.pivot_table(index="item", columns="judge", values="verdict", aggfunc="first")
    correct = wide.eq(pd.Series(truth), axis=0).where(wide.notna())
    for (a, b), row in table.iterrows():
        both = correct[[a, b]].dropna().astype(float)
        difference = both[a] - both[b]
        assert row["items"] == len(both)
        assert row["difference"] == pytest.approx(difference.mean(), abs=0.01)
        half = 1.96 * difference.std() / np.sqrt(len(both))
        assert (row["difference_high"] - row["difference_low"]) / 2 == pytest.approx(half, rel=0.2)
    assert table["items"].to_dict() == {("m0/x", "m1/x"): 200, ("m0/x", "m2/x"): 120, ("m1/x", "m2/x"): 120}
