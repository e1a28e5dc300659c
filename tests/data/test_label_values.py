"""Labels of one value that are written in two ways, and labels that a database, a count or a spreadsheet has changed."""

import pandas as pd
import pytest

import crowdppl
from crowdppl.errors import silent


def notes(*labels, several="refuse"):
    rows = [(n % 3, "ab"[n % 2], label) for n, label in enumerate([*labels, *labels])]
    with silent():
        data = crowdppl.Annotations.from_frame(
            pd.DataFrame(rows, columns=["task", "worker", "label"]), kind="nominal", several=several
        )
    return " ".join(data.notes)


@pytest.mark.parametrize(
    ("labels", "pair"),
    [
        (["\u2713", "\u2714", "\u2717"], "'\u2714' and '\u2713'"),
        (["\u2713", "yes", "no", "\u2717"], "'\u2713' and 'yes'"),
        (["\U0001f44d", "\U0001f44d\U0001f3fd", "\U0001f44e"], "'\U0001f44d\U0001f3fd' and '\U0001f44d'"),
        (["1", "\u0661", "2", "\u0662"], "'\u0661' and '1'"),
        (["\u201cx\u201d", "x", "y"], "'\u201cx\u201d' and 'x'"),
        (["not%20sure", "not sure", "yes"], "'not%20sure' and 'not sure'"),
        (["50%", "0.5", "100%", "1"], "'50%' and '0.5'"),
        (["4/5", "4", "3/5", "3"], "'4/5' and '4'"),
        (["8/10", "4/5", "3/5"], "'8/10' and '4/5'"),
        (["***", "3", "**", "2"], "'***' and '3'"),
        (["model_a", "A", "Model B", "B", "tie"], "'model_a' and 'A'"),
        (["class 0", "0", "class 1"], "'class 0' and '0'"),
        (["A>B", "B<A", "A=B"], "'B<A' and 'A>B'"),
        (["pass", "Passed", "fail"], "'Passed' and 'pass'"),
        (["hate", "rude", "hate rude", "rude hate"], "'rude hate' and 'hate rude'"),
        (["cat", "dog", "cat and dog", "dog and cat"], "'dog and cat' and 'cat and dog'"),
        (["yes", "no", "pass", "fail"], "'yes' and 'pass'"),
    ],
)
def test_one_value_in_two_ways(labels, pair):
    assert f"{pair}" in notes(*labels)


@pytest.mark.parametrize(
    "labels",
    [
        ["not good", "good", "good not", "bad"],
        ["en fr", "fr en", "de en", "en de"],
        ["1/2", "2/3", "3/4"],
        ["1", "1/2", "2"],
        ["A>B", "B>A", "A>>B", "A=B"],
        ["class", "classes", "glass"],
        ["grade: 1", "grade: 2", "grade: 3"],
        ["{x}", "{y}", "{z}"],
        ["A*", "A", "B"],
        ["1-2", "3-5", "6-9"],
        ["44928", "45050", "44000"],
        ["new", "news", "old"],
        ["need", "needs", "mean", "means", "physic", "physics", "relate", "related"],
        ["cat", "dog", "cat and dog", "cat or dog"],
        ["2/2", "2/4", "3/4", "4/4", "6/8"],
        ["yes", "no", "pass"],
        ["1", "0", "pass"],
        ["100%", "50%", "0%"],
        ["model A", "model B", "tie"],
    ],
)
def test_labels_that_are_what_they_say(labels):
    text = notes(*labels)
    assert not any(part in text for part in ("two forms", "class of its own", "end in a number", "numbers of days"))


@pytest.mark.parametrize(
    ("labels", "part"),
    [
        (["{x,y}", "{x}", "{y}"], "arrays as databases write them"),
        (["pos: 3", "pos: 1", "neg: 2"], "end in a number"),
        (["44928", "1-2", "3-5", "45050"], "numbers of days"),
        (["1,5", "2.0", "3"], "a decimal comma and with a point"),
    ],
)
def test_labels_that_a_program_changed(labels, part):
    assert part in notes(*labels)
