"""Names and labels that are read as they are, with a note: a careful reader would ask whether they are what they seem."""

import pandas as pd
import pytest

from crowdppl import Annotations
from crowdppl.data.table.missing_words import codes_for_nothing
from crowdppl.errors import silent


def annotations(**columns):
    """Two workers label items in turn, unless columns say otherwise."""
    size = max(map(len, columns.values()))
    usual = {
        "task": [n // 2 for n in range(size)],
        "worker": ["uv"[n % 2] for n in range(size)],
        "label": ["ab"[n % 3 == 0] for n in range(size)],
    }
    with silent("the frame"):
        return Annotations.from_frame(pd.DataFrame(usual | columns))


def noted(data, *parts):
    return any(all(part in note for part in parts) for note in data.notes)


@pytest.mark.parametrize(
    "word",
    [
        *(
            "#NULL",
            "<missing>",
            "(no answer)",
            "NOT_LABELED",
            "unrated",
            "No response given",
            "-- select --",
            "Choose...",
        ),
        *("abstain", "DK", "Don't know", "can't tell", "keine Angabe", "\u672a\u6807\u6ce8", "N-A", "N/A - no image"),
        *("#ERROR!", "ERROR: timeout", "[deleted]", "NoneType", "inf"),
    ],
)
def test_phrases_for_nothing(word):
    data = annotations(label=["cat", "dog", word, "cat", "dog", word])
    assert word in data.labels
    assert noted(data, repr(word), "taken for a class", "missing=")


@pytest.mark.parametrize(
    "labels",
    [
        ["error", "no error", "ok"],
        ["select", "set", "rated"],
        ["pass", "fail", "other"],
        ["#LOVE", "#BLM", "#A/B"],
        ["error: syntax", "error: type", "ok"],
    ],
)
def test_words_that_are_plain_classes(labels):
    assert not annotations(label=[*labels, *labels[::-1]]).notes


@pytest.mark.parametrize(
    ("labels", "codes"),
    [
        ("1 2 3 4 5 99", ["99"]),
        ("1 2 3 4 5 9", ["9"]),
        ("1 2 3 88 99", ["88", "99"]),
        ("0 1 2 -1", ["-1"]),
        ("cat dog -1", ["-1"]),
        ("cat dog 999", ["999"]),
        ("cat dog -999.0", ["-999.0"]),
        ("0 1 2 -100", ["-100"]),
        ("1 2 -7 -8", ["-7", "-8"]),
        ("1 2 .a .b", [".a", ".b"]),
        ("-1 0 1", []),
        ("-1 1", []),
        ("-2 -1 0 1", []),
        ("0 1 2 3 4 5 6 7 8 9", []),
        ("98 99 100", []),
        ("10 20 99", []),
        ("0 1 7", []),
        ("0 1 2 3 4 5 6 8", []),
        ("1 2 8 9", []),
        ("1 2 3 8 9", ["8", "9"]),
        ("-100 0 100", []),
    ],
)
def test_codes_for_no_answer(labels, codes):
    assert codes_for_nothing(labels.split()) == codes


@pytest.mark.parametrize(
    ("role", "names", "part"),
    [
        ("worker", ["NULL", "ann"], "for no name"),
        ("worker", ["anonymous", "ann"], "for no name"),
        ("worker", [-1, 5], "for no name"),
        ("task", ["#N/A", "x"], "for no name"),
        ("worker", ["gold", "ann"], "is none by its name"),
        ("worker", ["Majority Vote", "ann"], "is none by its name"),
        ("worker", ["ann_lee", "ann lee"], "in another form"),
        ("worker", ["ann@x.org", "ann"], "in another form"),
        ("worker", ["Lee, Ann", "Ann Lee"], "in another form"),
        ("worker", ["Jos\u00e9", "Jos\u00c3\u00a9"], "in another form"),
        ("worker", ['="0012"', "0012"], "in another form"),
        ("worker", ["Jos\ufffd", "ann"], "UTF-8"),
        ("worker", ["ann\u200f", "ann"], "invisible"),
        ("task", ["./a/1.jpg", "a/1.jpg"], "in another form"),
        ("task", ["a\\1.jpg", "a/1.jpg"], "in another form"),
        ("task", ["1.jpg", "1"], "in another form"),
        ("task", ["http://x/1", "https://x/1/"], "in another form"),
        ("task", ["a &amp; b", "a & b"], "in another form"),
        ("task", ["a%20b", "a b"], "in another form"),
        ("task", ["2-Jan", "1-2"], "dates by a spreadsheet"),
        ("task", ["1234567890123450", "1234567890123460", "1234567890123470"], "end in zeros"),
        ("task", [1234567890123450, 1234567890123460, 1234567890123470], "end in zeros"),
    ],
)
def test_identifiers(role, names, part):
    data = annotations(**{role: names * 3})
    assert len(data.items if role == "task" else data.workers) == len(names)
    assert noted(data, part)


@pytest.mark.parametrize(
    ("role", "names"),
    [
        ("worker", ["-1", "1"]),
        ("worker", ["ann@x.org", "ann@y.org"]),
        ("worker", ["A1O3", "A103"]),
        ("worker", ["expert", "student"]),
        ("worker", [-2, -1, 0]),
        ("task", ["a.jpg", "a.txt"]),
        ("task", ["10000000000000000000", "10000000000000000001", "10000000000000000002"]),
        ("task", ["2-Jan", "3-Jan"]),
        ("task", [1609459260000000000, 1609459261000000000, 1609459262000000000]),
        ("task", ["1000000000000000", "2000000000000000", "3000000000000000"]),
        ("task", ["img_1.jpg", "img_2.jpg", "img_10.jpg"]),
    ],
)
def test_identifiers_without_a_doubt(role, names):
    other = {"worker": range(3 * len(names))} if role == "task" else {}
    assert not annotations(**{role: names * 3}, **other).notes


@pytest.mark.parametrize(
    ("labels", "parts"),
    [
        (["yes", "no", "True", "False"], ("in two forms", "'True'")),
        (["1", "0", "true", "false"], ("in two forms", "'true'")),
        (["pos", "neg", "positive", "negative"], ("in two forms", "'positive'")),
        (["1", "2", "1 - good", "2 - bad"], ("in two forms", "'1 - good'")),
        (["4", "5", "4 stars", "5 stars"], ("in two forms", "'5 stars'")),
        (["cat", "dog", "cat."], ("map={'cat.': 'cat'}",)),
        (["a & b", "dog", "a &amp; b"], ("map={'a &amp; b': 'a & b'}",)),
        (["cat (0.9)", "cat (0.8)", "dog (0.7)"], ("end in a number",)),
        (["1,5", "2,5", "3,0", "4"], ("decimal comma", "kind='numeric'")),
        (["1-2", "3-4", "5-Jun"], ("dates by a spreadsheet",)),
        (["1,000", "2,000", "500"], ("thousands or decimals?", "1000 or 1.000")),
        (["0,125", "0,250", "1"], ("decimals?", "write them 0.125 and")),
        (["1,000,000", "2,000", "500"], ("thousands", "write them 1000000 and")),
        (["*cat*", "cat", "dog"], ("map={'*cat*': 'cat'}",)),
        (["<cat>", "cat", "dog"], ("map={'<cat>': 'cat'}",)),
        (["cat (1)", "cat", "dog"], ("map={'cat (1)': 'cat'}",)),
        (["hate speech", "HateSpeech", "none at all"], ("'hate speech' and 'HateSpeech'",)),
        (["not spam", "notspam", "spam"], ("in two forms", "'notspam'")),
        (["1. yes", "2. no", "2.no"], ("'2. no' and '2.no'",)),
        (["schön", "schoen", "schlecht"], ("map={'schoen': 'schön'}",)),
        (["négatif", "negatif", "positif"], ("map={'négatif': 'negatif'}",)),
        (["schÃ¶n", "schön", "schlecht"], ("map={'schÃ¶n': 'schön'}",)),
        (["5 (agree)", "5", "1"], ("map={'5 (agree)': '5'}",)),
        (["A) cat", "cat", "dog"], ("map={'A) cat': 'cat'}",)),
        (["one", "1", "2"], ("map={'one': '1'}",)),
    ],
)
def test_labels(labels, parts):
    data = annotations(label=labels * 2)
    assert len(data.labels) == len(labels)
    assert noted(data, *parts)


@pytest.mark.parametrize(
    "labels",
    [
        ["agree", "strongly agree", "disagree", "strongly disagree"],
        ["0", "1", "2"],
        ["yes", "no", "maybe"],
        ["N", "NN", "V", "VB", "X"],
        ["1:1", "1:2", "2:1"],
        ["level 1", "level 2", "level 3"],
        ["<", "<=", ">", ">=", "<-", "->"],
        ["A*", "A", "B*", "B"],
        ["cat (1)", "cat (2)", "dog"],
        ["man", "manual", "auto", "automatic"],
        ["pro", "problem", "con", "contract"],
        ["si", "ja", "en", "no"],
        ["t", "y", "f", "n"],
        ["T-shirt", "shirt", "shoe"],
        ["B-PER", "I-PER", "O"],
        ["1 (a)", "1 (b)", "1"],
        ["5", "5-6", "6"],
        ["N N", "NN", "V"],
        ["über", "unter", "neben"],
        ["1.5 l", "15 l", "2 l"],
        ["v1.0 beta", "v10 beta", "v1_00 beta"],
        ["a.b", "ab", "c"],
    ],
)
def test_labels_without_a_doubt(labels):
    assert not annotations(label=[*labels, *labels[::-1]]).notes


def test_workers_without_a_label_in_common():
    """Two people coded the same two classes differently; labelling functions of one label each are no such people."""
    coded = annotations(label=["bad", "red", "good", "blue"] * 2)
    assert noted(coded, "'u'", "'v'", "to the same items")
    one_each = annotations(worker=list("uvwxuvwx"), label=["bad", "red", "good", "blue"] * 2)
    assert not one_each.notes


ITEM = [n // 4 for n in range(16)]


@pytest.mark.parametrize(
    "count",
    [
        range(1, 17),
        [4] * 16,
        [5 + n for n in ITEM],
        pd.date_range("2020-01-01", periods=16),
        [day.date() for day in pd.date_range("2020-01-01", periods=16)],
    ],
    ids=["an index", "the size of the item", "a total of the item", "times", "dates"],
)
def test_columns_that_count_no_annotations(count):
    assert not annotations(task=ITEM, worker=list("uvwx") * 4, count=count).notes


def test_columns_that_count_annotations():
    assert noted(annotations(task=ITEM, worker=list("uvwx") * 4, count=[1, 2, 1, 3] * 4), "'count'", "repeat it")


def test_names_of_the_columns_of_an_array_are_no_values():
    frame = pd.DataFrame({0: [0, 0, 1, 1, 2, 2], 1: [1, 2] * 3, 2: [0, 2, 1, 2, 0, 1]})
    with silent("the frame"):
        assert not Annotations.from_frame(frame, task=0, worker=1, label=2).notes
    text = frame.astype(str).set_axis(["0", "1", "2"], axis=1)
    with silent("the frame"):
        assert noted(Annotations.from_frame(text, task="0", worker="1", label="2"), "no header")
