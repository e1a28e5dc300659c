"""Which class passes is read from its name, or asked for; never taken from the order of the alphabet."""

import numpy as np
import pandas as pd
import pytest

from crowdppl import DataError, OptionError, judges
from crowdppl.judges.coding.passing import polarity, values


@pytest.mark.parametrize(
    ("labels", "best"),
    [
        (["faithful", "hallucinated"], "faithful"),
        (["hallucinated", "not hallucinated"], "not hallucinated"),
        (["correct", "incorrect"], "correct"),
        (["C", "I"], "C"),
        (["bad", "good"], "good"),
        (["safe", "unsafe"], "safe"),
        (["not_relevant", "relevant"], "relevant"),
        (["accept", "reject"], "accept"),
        (["No", "Yes"], "Yes"),
        (["grounded", "ungrounded"], "grounded"),
        ([False, True], True),
        ([0, 1], 1),
        ([-1, 1], 1),
        (["toxic", "fine"], "fine"),
    ],
)
def test_the_name_says_which_passes(labels, best):
    assert np.array(labels, dtype=object)[values(np.array(labels, dtype=object)).argmax()] == best


def test_grades_are_their_own_values():
    assert values(np.array([1, 2, 3])).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "labels", [["a", "b"], ["cat", "dog"], ["good", "great", "ok", "yes"], ["bad", "wrong"], ["c", "d"]]
)
def test_names_that_do_not_tell_are_refused(labels):
    with pytest.raises(DataError, match=r"state the label that passes[^\n]*positive="):
        values(np.array(labels, dtype=object))


@pytest.mark.parametrize("asked", ["hallucination", "is_toxic", "Unsafe?", "contradicts source: contradiction"])
def test_yes_to_something_bad_is_asked_for(asked):
    with pytest.raises(DataError, match="asks for something bad"):
        values(np.array(["no", "yes"], dtype=object), asked=[asked])
    assert values(np.array(["no", "yes"], dtype=object), "no", asked=[asked]).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("positive", "message"), [([], "empty list"), (["fail", "pass"], "every class"), ("pas", "did you mean 'pass'")]
)
def test_a_statement_that_means_nothing_is_refused(positive, message):
    with pytest.raises(OptionError, match=message):
        values(np.array(["fail", "pass"], dtype=object), positive)


def test_polarity_of_negations():
    assert [polarity(name) for name in ("pass", "not pass", "not_faithful", "non-toxic", "cat", "✓")] == [
        1,
        -1,
        -1,
        1,
        0,
        1,
    ]


@pytest.fixture(scope="module")
def two_systems():
    """Two judges on 80 answers of two systems, of which the first is right far more often; labels of 40."""
    rng = np.random.default_rng(0)
    truth = rng.random(80) < np.where(np.arange(80) % 2 == 0, 0.95, 0.3)
    rows = [
        (n, "ab"[n % 2], judge, "faithful" if t == (rng.random() < 0.9) else "hallucinated")
        for n, t in enumerate(truth)
        for judge in ("x-1", "y-1")
    ]
    human = pd.DataFrame({"item": np.arange(40), "verdict": np.where(truth[:40], "faithful", "hallucinated")})
    return pd.DataFrame(rows, columns=["item", "system", "judge", "verdict"]), human


def test_the_best_system_comes_first(two_systems):
    result = judges.fit(*two_systems, seed=0, num_samples=200)
    rates = result.systems().set_index("system")["corrected"]
    assert rates["a"] > 0.7 > 0.5 > rates["b"]


def test_a_result_is_shown_in_a_few_lines(two_systems):
    """In a notebook, where arrays of draws filled hundreds of lines."""
    result = judges.fit(*two_systems, seed=0, num_samples=200)
    for shown in (result, result.panel(), result.features, result.calibration):
        assert len(repr(shown)) < 2000, type(shown)
    assert "<table" in result._repr_html_()
    assert "<script" not in result._repr_html_()
