"""Labels as they are written: words for nothing, spellings and typing errors of one label, names given by the caller."""

import numpy as np
import pandas as pd
import pytest
from messy import tickets

from crowdppl import CrowdpplWarning, DataError, OptionError, fit
from crowdppl.data.alerts import LABELS_UNCLEAR
from crowdppl.data.annotations import Annotations
from crowdppl.data.table.label_names import respelled
from crowdppl.data.table.spellings import edits, folded, near_duplicates, same_look, skeleton
from crowdppl.errors import silent
from crowdppl.inference.update import update

SIX = {"task": [1, 1, 2, 2, 3, 3], "worker": ["u", "v"] * 3}


def read(given, **options):
    with silent():
        return Annotations.from_frame(pd.DataFrame(SIX | {"label": given}), **options)


@pytest.mark.parametrize(
    "word",
    [
        *(
            "null",
            "NULL",
            "None",
            "#N/A",
            "<NA>",
            "\\N",
            "n/a",
            "N/A",
            "NaN",
            "nan",
            "NaT",
            "-nan",
            " null ",
            "(null)",
            "",
        ),
        *("undefined", "#DIV/0!", "#REF!", "-", "--", "?", ".", "\u200bnull", "NA", "<none>"),
    ],
)
def test_words_for_nothing(word):
    data = read(["cat", "dog", word, "dog", "cat", word])
    assert data.labels.tolist() == ["cat", "dog"]
    assert data.A == 4
    assert any("dropped 2 of 6 rows without a label (rows 3, 6)" in note for note in data.notes)
    kept = read(["cat", "dog", word, "dog", "cat", word], keep_missing=True)
    assert (2 if word == "" else 3) == kept.K


@pytest.mark.parametrize(
    "labels",
    [
        ["None", "Mild", "None", "Severe", "Mild", "Severe"],  # a scale in capitals
        ["none", "mild", "none", "severe", "mild", "severe"],
        ["NA", "DE", "NA", "FR", "DE", "FR"],  # countries
        ["-", "+", "-", "+", "-", "+"],
        ["?", "!", "?", "!", "?", "!"],
        ["unknown", "cat", "unknown", "dog", "cat", "dog"],
        ["Nan", "Ann", "Nan", "Bob", "Ann", "Bob"],  # a name
        ["None", "NA", "None", "NA", "None", "NA"],  # nothing else is there
    ],
)
def test_words_that_are_classes(labels):
    assert read(labels).labels.tolist() == sorted(set(labels))


def test_a_declared_word_is_a_class():
    data = read(["null", "cat", "null", "dog", "cat", "dog"], labels=["null", "cat", "dog"])
    assert data.labels.tolist() == ["null", "cat", "dog"]


def test_words_of_the_caller():
    for missing in ("not sure", ["NOT SURE"], ("Not  sure", "other")):
        data = read(["cat", "dog", "not sure", "Not Sure", "cat", "dog"], missing=missing)
        assert data.labels.tolist() == ["cat", "dog"]
    assert read(["a", "b", "a", "b", "null", "x"], missing="x", keep_missing=True).labels.tolist() == ["a", "b", "null"]
    with pytest.raises(OptionError, match="missing"):
        read(["a", "b"] * 3, missing=3)


def test_numbers_of_the_caller_stand_for_nothing():
    for missing in ("9", [9], ["9", "8"]):
        data = read([0, 1, 9, 1, 0, 9], missing=missing, truth={1: 9, 2: 1})
        assert (data.labels.tolist(), data.A, data.truth.tolist()) == ([0, 1], 4, [-1, 1, -1])
    assert any("missing=... names '8', which does not occur" in note for note in data.notes)
    assert read([0, 1, 9, 1, 0, 9], missing=[-1], map={0: "no", 1: "yes", 9: "cannot"}).K == 3
    assert read([0, 1, 9, 1, 0, 9], missing=["9"], map={0: "no", 1: "yes"}).labels.tolist() == ["no", "yes"]


def test_known_truths_are_read_as_labels_are():
    data = read(["cat", "cat", "null", "dog", "Cat", "dog"], truth={1: "CAT ", 2: "null", 3: "#N/A"})
    assert data.labels.tolist() == ["cat", "dog"]
    assert data.truth.tolist() == [0, -1, -1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cat", "Cat"),
        ("cat", "cat "),
        ("big cat", "big\u00a0cat"),
        ("cat", "c\u200bat"),  # zero width
        ("cat", "\u200fcat"),  # right-to-left mark
        ("cat", "ca\u00adt"),  # soft hyphen
        ("cat", "\ufeffcat"),
        ("cat", "\uff43\uff41\uff54"),  # full width
        ("on-line", "on\u2013line"),
        ("it's", "it\u2019s"),
        ("caf\u00e9", "cafe\u0301"),
        ("CAT", "\u0421\u0410\u0422"),  # Cyrillic
        ("123", "123.0"),
        ("stra\u00dfe", "STRASSE"),
    ],
)
def test_spellings_of_one_label(one, other):
    data = read([one, "x", one, "x", other, "x"])
    assert data.labels.tolist() == sorted([one, "x"])
    assert any("1 spelling of 1 label merged" in note for note in data.notes)
    assert read([one, "x", one, "x", other, "x"], fold=False).K == 3


@pytest.mark.parametrize(
    ("one", "other"), [("cat", "cats"), ("1", "10"), ("-1", "1"), ("a", "\u00e4"), ("C", "C++"), ("1", "01")]
)
def test_labels_that_differ(one, other):
    assert read([one, "x", one, "x", other, "x"]).K == 3


def test_declared_classes_are_never_merged():
    assert read(["us", "US", "us", "US", "us", "us"], labels=["us", "US"]).K == 2
    assert read(["Pass", "fail", "pass", "FAIL", "fail", "pass"], labels=["pass", "fail"]).labels.tolist() == [
        "pass",
        "fail",
    ]


def test_spellings_that_workers_use_apart_are_two_classes():
    """`polish` and `Polish`: all workers give one of them to some items, the other one to others."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 60)
    rows = [
        (i, j, ["polish", "Polish", "other"][truth[i] if rng.random() < 0.9 else rng.integers(3)])
        for i in range(60)
        for j in range(4)
    ]
    with pytest.warns(CrowdpplWarning, match="the same workers use them apart"):
        data = Annotations.from_frame(pd.DataFrame(rows, columns=["task", "worker", "label"]))
    assert data.K == 3
    assert data.doubts
    merged = Annotations.from_frame(pd.DataFrame(rows, columns=["task", "worker", "label"]), map={"Polish": "polish"})
    assert (merged.K, merged.doubts) == (2, ())


def test_habits_of_workers_are_no_classes():
    """Half of the workers write capitals throughout."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 60)
    rows = []
    for i in range(60):
        for j in range(4):
            name = ["cat", "dog"][truth[i] if rng.random() < 0.9 else 1 - truth[i]]
            rows.append((i, j, name.upper() if j % 2 else name))
    with silent():
        data = Annotations.from_frame(pd.DataFrame(rows, columns=["task", "worker", "label"]))
    assert (data.K, data.doubts) == (2, ())


def test_typing_errors_are_listed_and_named():
    frame, truth = tickets(300)
    with silent():
        data = Annotations.from_frame(frame)
    assert data.K > 50
    assert len(data.doubts) == 1
    assert "probably typing errors" in data.doubts[0]
    with silent():
        clean = Annotations.from_frame(frame, map=dict(data.misspelt))
    assert clean.labels.tolist() == sorted(set(truth))
    assert (clean.doubts, clean.misspelt) == ((), ())


def test_what_is_no_typing_error():
    counts = {"positive": 500, "negative": 480, "neutral": 300, "class 1": 90, "class 2": 4, "like": 200, "dislike": 20}
    counts |= {"relevant": 200, "irrelevant": 9, "A1": 90, "A2": 3, "cat": 100, "car": 90}
    assert near_duplicates(counts) == []
    assert near_duplicates({"positive": 500, "negative": 480, "postive": 7, "negativ": 3})[0][:2] == (
        "postive",
        "positive",
    )


OPPOSITES = [
    *(("strongly agree", "strongly disagree"), ("relevant text", "irrelevant text"), ("is spam", "is not spam")),
    *(
        ("increase", "decrease"),
        ("import goods", "export goods"),
        ("hypertension", "hypotension"),
        ("upward", "downward"),
    ),
    *(("B-PER", "I-PER"), ("I-PER", "E-PER"), ("B_LOC", "S_LOC")),
    *(("1.0", "-1.0"), ("0.1", "-0.1"), ("CAUSES", "CAUSES;IS_A"), ("positive", "non-positive")),
]


@pytest.mark.parametrize(("one", "other"), OPPOSITES)
def test_opposites_numbers_and_sets_are_no_typing_errors(one, other):
    """Neither of them is the other with a typing error, however rare it is."""
    for frequent, rare in ((one, other), (other, one)):
        assert near_duplicates({frequent: 500, "something else": 400, rare: 10}) == []


def test_typing_errors_beside_opposites():
    counts = {"strongly agree": 500, "strongly disagree": 90, "strongly disagre": 4, "strogly agree": 6}
    pairs = {(one.label, one.meant) for one in near_duplicates(counts)}
    assert pairs == {("strogly agree", "strongly agree"), ("strongly disagre", "strongly disagree")}


@pytest.mark.parametrize("name", ["irt-science", "medical-relations", "rte", "dog"])
def test_labels_of_public_sets_are_taken_as_they_are(name, public):
    data, _ = public(name)
    assert (data.doubts, data.misspelt) == ((), ())


def test_a_rare_class_on_which_workers_agree_is_no_typing_error():
    rows = [(i, j, "bat" if i == 0 else ("cat", "dog")[i % 2]) for i in range(40) for j in range(3)]
    data = Annotations.from_frame(pd.DataFrame(rows, columns=["task", "worker", "label"]))
    assert data.misspelt == ()


@pytest.mark.parametrize(
    ("one", "other", "number"),
    [("", "", 0), ("a", "", 1), ("ab", "ba", 1), ("kitten", "sitting", 3), ("abc", "abc", 0)],
)
def test_number_of_typing_errors(one, other, number):
    assert edits(one, other) == edits(other, one) == number


def test_keys_of_spellings():
    assert same_look("a\u200b  b") == "a b"
    assert folded("STRASSE") == folded("stra\u00dfe")
    assert skeleton("\u0410BC") == "abc"
    assert skeleton("\u041f") != skeleton("P")


@pytest.mark.slow
def test_doubts_come_first_in_a_result_and_after_an_update(tmp_path):
    frame, _ = tickets(120)
    with silent():
        posterior = fit(Annotations.from_frame(frame), "majority-vote", seed=0)
        assert posterior.labels_unclear
        assert posterior.alert.startswith(LABELS_UNCLEAR)
        assert repr(posterior).startswith(f"Posterior({LABELS_UNCLEAR}")
        later = update(posterior, Annotations.from_frame(frame.head(8).assign(worker="new")))
    assert later.labels_unclear


def test_names_given_by_the_caller():
    data = read([0, 1, 2, 1, 0, 2], map={0: "none", 1: "spam", 2: None})
    assert data.labels.tolist() == ["none", "spam"]
    assert data.A == 4
    assert read([2, 0, 10, 0, 2, 10], map={0: "low", 2: "mid", 10: "high"}).labels.tolist() == ["low", "mid", "high"]
    data = read([True, False] * 3, map={"True": "yes", "False": "no"}, truth={1: True})
    assert data.labels.tolist() == ["no", "yes"]
    assert data.truth.tolist() == [1, -1, -1]
    assert read(["Katze", "dog", "katze", "dog", "cat", "dog"], map={"katze": "cat"}).labels.tolist() == ["cat", "dog"]
    categories = pd.Categorical([1, 0, 1, 0, 1, 0], categories=[0, 1])
    assert read(categories, map={0: "no", 1: "yes"}).labels.tolist() == ["no", "yes"]
    assert read([1, 0] * 3, labels=[1, 0], map={0: "no", 1: "yes"}).labels.tolist() == ["yes", "no"]


@pytest.mark.parametrize(
    ("names", "message"),
    [({}, "is empty"), ({"katze": "cat"}, "none of which occurs"), ({1: "a", "1": "b"}, "two names")],
)
def test_names_that_cannot_be_used(names, message):
    with pytest.raises(DataError, match=message):
        read(["cat", "dog"] * 3, map=names)
    with pytest.raises(OptionError, match="map="):
        read(["cat", "dog"] * 3, map=3)


def test_respelled():
    assert respelled(["Cat", "dog", "cow"], ["cat", "dog"]) == {"Cat": "cat", "dog": "dog", "cow": "cow"}
    assert respelled(["x", 1], ["cat", 1], {"x": "CAT"}) == {"x": "cat", 1: 1}
    assert respelled(["US"], ["us", "Us"]) == {"US": "US"}  # neither of them for sure


def test_further_annotations_are_spelled_as_the_earlier_ones():
    posterior = fit(read(["cat", "dog", "cat", "cat", "dog", "dog"]), "majority-vote", seed=0)
    more = pd.DataFrame({"task": [1, 2, 4], "worker": "w", "label": ["Cat", "DOG ", "cat"]})
    with silent():
        later = update(posterior, more)
    assert later.labels.tolist() == ["cat", "dog"]
    assert later.votes().sum() == 9
    assert any("another spelling of an earlier class" in note for note in later.notes)
