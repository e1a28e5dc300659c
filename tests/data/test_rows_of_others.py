"""Rows that are no annotations of workers by a column, workers that are several or sessions, sums, questions, unknown truths."""

import pandas as pd
import pytest

import crowdppl
from crowdppl.errors import DataError, silent

ROWS = [(n, who, "xy"[(n + k) % 2]) for n in range(4) for k, who in enumerate(("a", "b", "m"))]


def notes(rows=ROWS, truth=None, **columns):
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"]).assign(**columns)
    with silent():
        return " ".join(crowdppl.Annotations.from_frame(frame, truth=truth).notes)


@pytest.mark.parametrize(
    ("name", "values", "noted"),
    [
        ("type", ["annotation", "annotation", "prediction"], True),
        ("source", ["human", "human", "model"], True),
        ("label_source", ["human", "human", "Ground Truth"], True),
        ("is_gold", [0, 0, 1], True),
        ("Prediction", ["no", "no", "yes"], True),
        ("type", ["image", "image", "video"], False),
        ("source", ["twitter", "twitter", "reddit"], False),
        ("is_gold", [0, 0, 0], False),
        ("prediction", [0.1, 0.2, 0.9], False),
    ],
)
def test_rows_that_are_no_annotations_of_workers(name, values, noted):
    assert ("beside other rows of the same items" in notes(**{name: values * 4})) is noted


def test_items_that_are_gold_are_annotations():
    gold = [1] * 3 + [0] * 9
    assert "beside other rows" not in notes(is_gold=gold)
    assert "beside other rows" not in notes(type=["gold" if one else "item" for one in gold])


def renamed(**to):
    return [(task, to.get(who, who), label) for task, who, label in ROWS]


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("a, b", "'a, b' is read as one"),
        ("a;b", "'a;b' is read as one"),
        ("a and b", "'a and b' is read as one"),
        ("Ann (a@x.org)", ""),
        ("P. Smith", ""),
        ("Smith, A.", ""),
        ("a & co", ""),
        ("a/c", ""),
    ],
)
def test_several_people_in_one_name(name, part):
    text = notes(renamed(m=name))
    assert part in text
    assert ("is read as one" in text) is bool(part)


def test_addresses_with_and_without_names():
    rows = renamed(a="ann@x.org", m="Ann Lee <ann@x.org>")
    assert "another form: 'Ann Lee <ann@x.org>'" in notes(rows)
    assert "another form" not in notes(renamed(a="ann@x.org", m="Ann Lee <lee@x.org>"))


def test_sessions_without_a_name():
    names = {"a": "ds-2024-01-01_10-00-00", "b": "ds-2024-01-02_11-30-00", "m": "2024-01-03T10:00:00Z"}
    assert "names of all workers are times" in notes(renamed(**names))
    assert "are times" not in notes(renamed(a=names["a"], b=names["b"]))
    assert "are times" not in notes(renamed(a="w20240101", b="w20240102", m="w20240103"))


def test_sums_among_the_items():
    sums = [*((str(n), who, label) for n, who, label in ROWS), ("Total", "a", "x"), ("Total", "b", "y")]
    assert "the task 'Total' is none by its name" in notes(sums)
    words = [(("sum", "total", "mean", "cat")[n], who, label) for n, who, label in ROWS]
    assert "by its name" not in notes(words)


def test_columns_that_tell_repeats_apart():
    rows = [row for row in ROWS for _ in range(2)]
    assert "column 'emotion' tells apart ('joy', 'fear')" in notes(rows, emotion=["joy", "fear"] * 12)
    for again in ("round", "Trial no", "seed", "session", "date"):
        assert "tells apart" not in notes(rows, **{again: [1, 2] * 12})
    assert "column 'roundness' tells apart" in notes(rows, roundness=[1, 2] * 12)
    assert "tells apart" not in notes(rows, remark=["fine", None] * 12)
    assert "tells apart" not in notes(emotion=["joy", "fear"] * 6)
    with pytest.raises(DataError, match="column 'variable' tells apart"):
        notes(rows, variable=["joy", "fear"] * 12)


def test_truths_that_no_worker_gives():
    assert "1 of 2 known truths are labels that no worker gives ('q')" in notes(truth={0: "q", 1: "x"})
    assert "no worker gives" not in notes(truth={0: "y", 1: "x"})
