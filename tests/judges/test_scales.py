"""Judges and people on different scales of grades; scores of people."""

import numpy as np
import pandas as pd
import pytest

from crowdppl import DataError, judges
from crowdppl.errors import silent

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
