"""Judges and people on different scales of grades; scores of people."""

import numpy as np
import pandas as pd
import pytest

from crowdppl import DataError, judges
from crowdppl.errors import silent
from crowdppl.judges.people.scales import on_one_scale

RNG = np.random.default_rng(0)
GRADE = RNG.integers(1, 6, 80)


def graded(**scales):
    """Verdicts of judges near the true grade, each times the factor of its scale."""
    rows = [
        (f"i{n}", judge, int(np.clip(g + RNG.integers(-1, 2), 1, 5)) * factor)
        for judge, factor in scales.items()
        for n, g in enumerate(GRADE)
    ]
    return pd.DataFrame(rows, columns=["item", "judge", "verdict"])


def human(values):
    return pd.DataFrame({"item": [f"i{n}" for n in range(50)], "verdict": values})


def fitted(verdicts, labels):
    with silent():
        return judges.fit(verdicts, labels, num_samples=50)


def test_a_judge_on_another_scale_gives_scores():
    result = fitted(graded(a=1, b=1, ten=2), human(GRADE[:50]))
    assert result.verdicts.labels.tolist() == [1, 2, 3, 4, 5]
    assert any("those of 'ten' (2 to 10) are read as scores" in note for note in result.notes)
    assert result.features.scored.tolist() == [False, False, True]
    rate = result.systems().iloc[0]
    assert rate["corrected_low"] <= GRADE.mean() <= rate["corrected_high"]


def test_the_scale_is_that_of_the_people():
    result = fitted(graded(a=1, b=1, ten=2), human(2 * GRADE[:50]))
    assert result.verdicts.labels.tolist() == [2, 4, 6, 8, 10]
    assert result.features.scored.tolist() == [True, True, False]
    # A judge who never gives the highest grade is on no other scale.
    harsh = graded(a=1, b=1, c=1)
    harsh.loc[(harsh["judge"] == "c") & (harsh["verdict"] == 5), "verdict"] = 4
    assert not fitted(harsh, human(GRADE[:50])).features.scored.any()


def test_scores_of_people_are_refused_in_one_line():
    for values in (GRADE[:50] + 0.5, [str(g + 0.5) for g in GRADE[:50]]):
        with pytest.raises(
            DataError, match=r"^the human labels, column 'verdict', rows .*is a score.*round them[^\n]+$"
        ):
            fitted(graded(a=1, b=1), human(values))
    table = human(GRADE[:50]).rename(columns={"verdict": "score"})
    assert fitted(graded(a=1, b=1), table).labelled.sum() == 50
    # Whole numbers are grades, however they are written.
    for values in (GRADE[:50].astype(float), [f"{g}.0" for g in GRADE[:50]]):
        assert fitted(graded(a=1, b=1), human(values)).verdicts.labels.tolist() == [1, 2, 3, 4, 5]


def read_as_scores(labels, **grades):
    """The judges whose grades ``(80,)`` are read as scores, beside people's labels."""
    frame = pd.DataFrame([(f"i{n}", judge, g) for judge, own in grades.items() for n, g in enumerate(own)])
    verdicts = judges.Verdicts.from_frame(frame.set_axis(["item", "judge", "verdict"], axis=1))
    after = on_one_scale(verdicts, None if labels is None else judges.HumanLabels.from_frame(human(labels)))
    return [name for j, name in enumerate(after.judges) if not (after.label[after.judge == j] >= 0).any()]


def test_the_scale_of_people_who_seldom_give_the_highest_grade():
    rare = np.r_[np.tile([3, 6, 9, 2, 7], 10)[:49], 10]  # one 10 of 50 labels
    assert read_as_scores(rare, a=GRADE, b=GRADE, ten=2 * GRADE) == ["a", "b"]
    assert read_as_scores([f"{g}.0" for g in rare], a=GRADE, b=GRADE, ten=2 * GRADE) == ["a", "b"]
    few = np.r_[np.tile([1, 3, 2, 4], 13)[:49], 5]  # one 5 of 50: the scale of most judges is another
    assert read_as_scores(few, a=GRADE, ten=2 * GRADE, other=2 * GRADE) == ["ten", "other"]
    assert read_as_scores(40 * GRADE[:50], a=GRADE, ten=2 * GRADE) == []  # above all usual scales


def test_low_grades_are_no_sign_of_another_scale():
    seven = np.r_[np.arange(80) % 7 + 1]
    ones = np.ones(80, dtype=int)
    assert read_as_scores(seven[:50], a=seven, low=ones, five=GRADE) == []
    assert read_as_scores(2 * GRADE[:50], ten=2 * GRADE, five=GRADE, low=ones) == ["five"]
    assert read_as_scores(None, a=GRADE, low=ones, same=ones, all=ones) == []
