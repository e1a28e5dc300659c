"""Kinds of labels: grades in the order of numbers, in a stated one, and never in that of the alphabet."""

import numpy as np
import pandas as pd
import pytest
from catalog import quiet_fit
from commands import run

import crowdppl
from crowdppl import Annotations, DataError, OptionError
from crowdppl.data.table import kinds

SIZES = ["low", "medium", "high"]


def frame(labels, items=30, raters=4, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "task": np.repeat(np.arange(items), raters),
            "worker": np.tile([f"rater {j}" for j in range(raters)], items),
            "label": rng.permutation(np.resize(np.array(labels, dtype=object), items * raters)),
        }
    )


@pytest.mark.parametrize("labels", [[1, 2, 3, 10], ["1", "2", "3", "10"], ["10", "9.5", "2"]])
def test_numbers_are_in_the_order_of_numbers(labels):
    given = frame(labels)
    known = {0: given["label"][0], 7: given["label"][30]}
    data = Annotations.from_frame(given, kind="ordinal", truth=known)
    assert [float(label) for label in data.labels] == sorted(float(label) for label in labels)
    assert data.kind == "ordinal"
    back = data.labels[data.label.numpy()]
    assert [str(label) for label in back] == [str(label) for label in given["label"]]
    assert str(data.labels[int(data.truth[7])]) == str(known[7])


def test_half_grades():
    """Numbers that are not whole are grades, too, in a column of floats."""
    given = frame([1.0, 1.5, 2.0, 10.0]).assign(label=lambda table: table["label"].astype(float))
    data = Annotations.from_frame(given, kind="ordinal")
    assert data.labels.tolist() == ["1", "1.5", "2", "10"]
    np.testing.assert_array_equal(data.labels[data.label.numpy()].astype(float), given["label"])
    with pytest.raises(DataError, match="not a whole number"):
        Annotations.from_frame(given, kind="nominal")


@pytest.mark.parametrize(
    "options", [{"order": SIZES}, {"kind": "ordinal", "labels": SIZES}, {"kind": "ordinal", "order": SIZES}]
)
def test_words_in_a_stated_order(options):
    data = Annotations.from_frame(frame(SIZES), **options)
    assert data.labels.tolist() == SIZES
    assert data.kind == "ordinal"


def test_an_ordered_column_states_its_order():
    given = frame(SIZES)
    given["label"] = pd.Categorical(given["label"], SIZES, ordered=True)
    assert Annotations.from_frame(given, kind="ordinal").labels.tolist() == SIZES


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"kind": "ordinal"}, DataError, r"the order of the grades 'high', 'low', 'medium' is not known.*order=\["),
        ({"kind": "nominal", "order": SIZES}, OptionError, "leave one out"),
        ({"labels": SIZES, "order": SIZES}, OptionError, "give order= alone"),
        ({"kind": "numeric"}, DataError, "'high', 'medium', 'low' are not a number"),
        ({"kind": "numeric", "order": SIZES}, OptionError, "leave one out"),
        ({"kind": "numeric", "labels": SIZES}, OptionError, "labels= is about classes"),
        ({"order": ["low", "high"]}, DataError, "medium"),
    ],
)
def test_what_is_refused(options, error, words):
    with pytest.raises(error, match=words):
        Annotations.from_frame(frame(SIZES), **options)


def test_a_model_of_grades_wants_an_order():
    data = Annotations.from_frame(frame(SIZES))
    with pytest.raises(DataError, match="the annotations: the order of the grades"):
        crowdppl.fit(data, "graded-facets")
    posterior = quiet_fit(Annotations.from_frame(frame([1, 2, 3])), "graded-facets", num_samples=4)
    assert posterior.grades()["grade"].between(1, 3).all()


@pytest.mark.parametrize(
    ("labels", "options", "asked"),
    [
        ([1, 2, 3, 4, 5], {}, True),
        ([0, 1, 2], {}, True),
        ([1, 2, 3], {"kind": "nominal"}, False),
        ([0, 1], {}, False),
        ([1, 2, 7], {}, False),
        (list(range(25)), {"kind": "nominal"}, False),
        (SIZES, {}, True),
        (SIZES, {"kind": "nominal"}, False),
    ],
)
def test_what_looks_like_grades_is_asked_about(labels, options, asked):
    posterior = quiet_fit(Annotations.from_frame(frame(labels, items=60), **options), num_samples=4)
    assert any("if they are grades" in note for note in posterior.notes) == asked
    assert posterior.info["model"] != "graded-facets"


def test_the_default_model_of_grades(tmp_path):
    """It is kept by files and updates."""
    data = Annotations.from_frame(frame([1, 2, 3, 4]), kind="ordinal")
    posterior = quiet_fit(data, num_samples=20)
    assert posterior.info["model"] == "graded-facets"
    again = crowdppl.load(posterior.save(tmp_path / "x.nc"))
    pd.testing.assert_frame_equal(again.grades(), posterior.grades())
    pd.testing.assert_frame_equal(again.severity(), posterior.severity(), rtol=1e-5)
    more = pd.DataFrame({"task": [98, 99], "worker": ["rater 0", "new"], "label": [1, 4]})
    updated = crowdppl.update(again, more)
    assert len(updated.grades()) == 32
    assert set(updated.severity()["worker"]) >= {"new"}


@pytest.mark.parametrize(
    "scale",
    [
        ["low", "medium", "high"],
        ["poor", "fair", "good", "excellent"],
        ["disagree", "neutral", "agree"],
        ["Strongly_disagree", "Disagree", "Agree", "Strongly_agree"],
        ["mild", "moderate", "severe"],
        ["never", "sometimes", "always"],
    ],
    ids="-".join,
)
def test_words_of_a_scale_are_asked_about(scale):
    """One note names the order of the scale and how to state it; what is fitted are classes, as before."""
    few = {"independent": False, "method": "em", "max_iter": 2, "num_samples": 3, "restarts": 0}
    posterior = quiet_fit(Annotations.from_frame(frame(scale)), **few)
    (note,) = [note for note in posterior.notes if "order=" in note]
    assert f"order={scale!r} (--order {','.join(scale)})" in note
    assert "kind='nominal'" in note
    assert posterior.info["model"] == "item-effects"
    for options in ({"kind": "nominal"}, {"order": scale}):
        stated = quiet_fit(Annotations.from_frame(frame(scale), **options), **few)
        assert not [note for note in stated.notes if "order=" in note]


@pytest.mark.parametrize(
    "labels",
    [
        ["cat", "dog", "cow"],
        ["low", "high"],
        ["low", "medium", "high", "dog"],
        ["low", "medium", "average", "high"],
        ["negative", "neutral", "positive"],
        ["no", "maybe", "yes"],
    ],
    ids="-".join,
)
def test_other_words_are_not_asked_about(labels):
    """No scale, too few words of one, and two words of one place."""
    annotations = Annotations.from_frame(frame(labels))
    assert kinds.question(annotations.labels, annotations.kind, in_sequences=False) is None


def test_the_command_asks_about_words(tmp_path):
    frame(SIZES).to_csv(tmp_path / "sizes.csv", index=False)
    shown = " ".join(run("fit", tmp_path / "sizes.csv", "--out", tmp_path / "results").output.split())
    assert "--order low,medium,high" in shown
    looked = " ".join(run("look", tmp_path / "sizes.csv").output.split())
    assert "lowest first, with --order low,medium,high, or --kind nominal if not" in looked
