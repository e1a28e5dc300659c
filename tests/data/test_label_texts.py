"""Labels that are no classes by their form, and labels written in two ways: notes, and none on plain labels."""

import pandas as pd
import pytest

from crowdppl import Annotations
from crowdppl.errors import silent


def read(labels, items=6, **options):
    rows = [(f"t{i}", w, labels[(i + j) % len(labels)]) for i in range(items) for j, w in enumerate("uvw")]
    with silent("the frame"):
        return Annotations.from_frame(pd.DataFrame(rows, columns=["task", "worker", "label"]), **options)


@pytest.mark.parametrize(
    ("labels", "part"),
    [
        (["01/02/2024", "2024-02-01", "2024-01-02"], "dates in several forms"),
        (["1.2.2024", "Feb 1, 2024"], "dates in several forms"),
        (["2024-02-01 10:00", "1/2/24"], "dates in several forms"),
        (["1m 30s", "2m", "90s"], "durations in several units"),
        (["<x.Label object at 0x7f12>", "<x.Label object at 0x7f13>"], "addresses of objects"),
        (["=IF(A1>2,1,0)", "a", "b"], "formulas of a spreadsheet"),
        (["caf\\u00e9", "café", "x"], "may be the same in two forms"),
        (["a\\,b", "a,b", "x"], "may be the same in two forms"),
        (["#pos", "pos", "#neg", "neg"], "'#pos' and 'pos'"),
        (["__label__pos", "pos", "neg"], "'__label__pos' and 'pos' may be the same"),
        (["cat?", "cat", "dog", "dog?"], "'cat?' and 'cat'"),
        (["cat label", "dog label", "cat"], "'cat label' and 'cat' may be the same"),
        (["~5", "5", "6"], "'~5' and '5' may be the same"),
        (["cat or dog", *["cat", "dog"] * 3], "'cat or dog' name two other labels"),
        (["cat -> dog", *["cat", "dog"] * 3], "'cat -> dog' name two other labels"),
        (["$5", "5", "6", "$6"], "'$5' and '5' may be one number with a unit"),
        (["5 cm", "5", "6"], "'5 cm' and '5' may be one number with a unit"),
        (["O", "0", "1"], "'O' and '0' may be the same"),
        (["l", "0", "1"], "'l' and '1' may be the same"),
    ],
)
def test_labels_in_doubt(labels, part):
    assert part in " ".join(read(labels).notes)


@pytest.mark.parametrize(
    "labels",
    [
        ["2024-01-01", "2024-01-02", "2024-01-03"],
        ["1990", "1991"],
        ["10:00", "11:00"],
        ["5m", "10m"],
        ["1h", "2h", "3h"],
        ["may", "march", "june"],
        ["O", "B", "I"],
        ["O", "A", "B", "AB"],
        ["l", "m", "s"],
        ["=", "<", ">"],
        ["a\\b", "c"],
        ["C", "C++", "C#"],
        ["A", "A*", "B"],
        ["0-4", "5-9", "10+"],
        ["5", "5-6", "6"],
        ["truth or dare", "dare"],
        ["5 cm", "10 cm", "15 cm"],
        ["$", "$$", "$$$"],
        ["very good", "good", "bad"],
        ["safe", "unsafe", "clear", "unclear"],
        ["?!", "!"],
        ["heads", "tails", "heads or tails"],
        ["EN->DE", "DE->EN", *["EN", "DE"] * 4],
        ["warning label", "warning", "brand label", "brand"],
        ["#C", "C", "D"],
        ["What?", "What", "Who"],
        ["$5", "5", "10"],
        ["\\alpha", "\\beta"],
        ["<a>", "<b>"],
    ],
)
def test_plain_labels(labels):
    assert read(labels).notes == ()


def test_labels_that_nearly_all_differ():
    frame = pd.DataFrame({"task": range(12), "worker": "u", "label": [f"a text {n}" for n in range(12)]})
    with silent("the frame"):
        said = Annotations.from_frame(frame).notes
    assert any("12 different labels in 12 annotations" in note for note in said)


def test_few_annotations_and_grades_may_all_differ():
    assert read(["a", "b", "c", "d", "e", "f"], items=2).notes == ()
    assert not any("different labels in" in note for note in read(list(range(18)), kind="ordinal").notes)


def test_turkish_capitals_are_one_letter():
    data = read(["İyi", "iyi", "kötü"])
    assert data.labels.tolist() == ["iyi", "kötü"]
    assert read(["ılık", "ilik"]).labels.tolist() == ["ilik", "ılık"]  # without a dot it is another letter


@pytest.mark.parametrize(
    "word", ["dunno", "n.v.t.", "no aplica", "nie wiem", "vet ej", "bilmiyorum", "わからない", "нет данных", "לא ידוע"]
)
def test_words_for_nothing_in_further_languages(word):
    assert f"{word!r} (6) taken for a class" in " ".join(read([word, "alpha", "beta"]).notes)


def test_further_marks_of_nothing():
    assert read(["-nan(ind)", "alpha", "beta"]).labels.tolist() == ["alpha", "beta"]
    lines = read(["___", "alpha", "beta"])
    assert lines.labels.tolist() == ["___", "alpha", "beta"]
    assert "'___' (6) taken for a class" in " ".join(lines.notes)
