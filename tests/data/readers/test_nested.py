"""JSON of no tool: items with a list of annotations each, or with a list of workers beside one of labels."""

import json

import pandas as pd
import pyarrow.parquet
import pytest
from commands import run

import crowdppl
from crowdppl.errors import DataError, FileError, silent

SAID = ["xxy", "xyy", "yyx"]


def items(key="annotations", worker="annotator", label="label", user=str, **others):
    return [
        {
            "id": n,
            "text": f"t{n}",
            key: [{worker: user(w), label: said, **others} for w, said in zip("uvw", row, strict=True)],
        }
        for n, row in enumerate(SAID)
    ]


def by_worker(key):
    return [{"id": n, "text": f"t{n}", key: dict(zip("uvw", row, strict=True))} for n, row in enumerate(SAID)]


def read(tmp_path, content, **options):
    (tmp_path / "x.json").write_text(json.dumps(content))
    return crowdppl.read(tmp_path / "x.json", **options)


def given(data):
    return [(i, w, str(said)) for i, w, said in zip(
        data.items[data.item].tolist(), data.workers[data.worker].tolist(), data.labels[data.label], strict=True)]  # fmt: skip


EXPECTED = [(n, w, said) for n, row in enumerate(SAID) for w, said in zip("uvw", row, strict=True)]


@pytest.mark.parametrize(
    "content",
    [
        items(),
        {"items": items()},
        items("labels", "worker_id", "value"),
        items("reviews", "reviewerName", "decision", created_at="2024-01-01T10:00:00Z"),
        items(worker="user", user=lambda w: {"id": w, "email": f"{w}@x.org"}),
        [{"id": 9, "text": "t9", "annotations": []}, *items()],
        [*({"id": n, "text": "t", "annotations": []} for n in range(9, 130)), *items()],
        [{"id": n, "annotator_ids": ["u", "v", "w"], "annotator_labels": list(row)} for n, row in enumerate(SAID)],
        *(by_worker(key) for key in ("votes", "labels", "annotations", "ratings", "responses", "raters")),
        {"data": by_worker("votes")},
        [{"id": row["id"], "data": {"votes": row["votes"]}} for row in by_worker("votes")],
        [{**row, "votes": {w: {"label": s, "time": 3} for w, s in row["votes"].items()}} for row in by_worker("votes")],
        [{**row, "votes": row["votes"] | {"z": None}} for row in by_worker("votes")],
    ],
)
def test_items_with_annotations(content, tmp_path):
    data = read(tmp_path, content)
    assert given(data) == EXPECTED
    assert any("read as items with annotations, 9" in note for note in data.notes)
    assert given(read(tmp_path, content, format="nested")) == EXPECTED


def test_a_worker_by_the_number_0(tmp_path):
    content = [{"id": n, "annotations": [{"annotator": 0, "label": s}]} for n, s in enumerate("xy")]
    assert given(read(tmp_path, content)) == [(0, 0, "x"), (1, 0, "y")]


def test_parquet_and_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(items()).to_parquet("x.parquet")
    assert given(crowdppl.read("x.parquet")) == EXPECTED
    assert "x.parquet is read as items with annotations (--format nested)" in run("look", "x.parquet").output


def test_questions(tmp_path):
    content = items(label="tone_rating", toxic_score=1)
    with pytest.raises(DataError, match="answers to 2 questions, 'tone_rating', 'toxic_score'"):
        read(tmp_path, content)
    assert given(read(tmp_path, content, question="tone_rating")) == EXPECTED


def test_a_report_leaves_tainted_work_out(tmp_path):
    content = [
        {"id": n, "results": {"work": [
            {"worker_id": w, "data": {"animal": said}, "tainted": w == "w"} for w, said in zip("uvw", row, strict=True)]}}
        for n, row in enumerate(SAID)
    ]  # fmt: skip
    data = read(tmp_path, content)
    assert given(data) == [one for one in EXPECTED if one[1] != "w"]
    assert any("3 annotations that are marked as tainted left out" in note for note in data.notes)
    assert len(read(tmp_path, content, rejected=True).item) == 9


@pytest.mark.parametrize(
    "content",
    [
        items(start=0, end=2),
        [{"id": n, "messages": [{"user": "a", "content": "hello"}]} for n in range(3)],
        [{"id": n, "messages": [{"user": w, "value": "hi"} for w in "ab"]} for n in range(3)],
        [{"id": n, "comments": [{"user": w, "score": 3} for w in "ab"]} for n in range(3)],
        [{"id": n, "posts": [{"author": w, "score": 3} for w in "ab"]} for n in range(3)],
        [
            {"id": n, "answers": [{"user": w, "answer": "a text of eight words or more than this"} for w in "ab"]}
            for n in range(3)
        ],
        [{"id": n, "rows": [{"item": k, "rater": "a", "label": "x"} for k in "pq"]} for n in range(3)],
        [{"id": n, "text": "t", "annotations": list(row)} for n, row in enumerate(SAID)],
    ],
)
def test_parts_and_texts_are_no_annotations(content, tmp_path):
    with pytest.raises(FileError, match="unknown format"):
        read(tmp_path, content)


def test_columns_that_the_caller_names_are_those_of_a_table(tmp_path):
    rows = [{"key": n, "by": w, "says": s, "remarks": [{"user": "z", "rating": 1}]} for n, w, s in EXPECTED]
    assert given(read(tmp_path, rows, task="key", worker="by", label="says")) == EXPECTED


@pytest.mark.parametrize("inner", [{"author": "z", "score": 3}, {"user": "z", "value": 3}, {"rater": "z", "label": 3}])
@pytest.mark.parametrize("names", [("task_id", "worker_id", "label"), ("id", "rater", "rating")])
def test_a_row_of_a_table_is_none_by_a_list_beside_its_label(names, inner, tmp_path):
    rows = [{**dict(zip(names, one, strict=True)), "remarks": [inner]} for one in EXPECTED]
    assert given(read(tmp_path, rows, task=names[0], worker=names[1], label=names[2])) == EXPECTED
    with pytest.raises(DataError):
        read(tmp_path, rows)


@pytest.mark.parametrize(
    ("around", "names"),
    [
        ("annotations", ("item", "annotator", "label")),
        ("data", ("post_id", "user_id", "rating")),
        ("data", ("tweet", "rater", "answer")),
    ],
)
def test_an_object_around_a_table_is_no_item(around, names, tmp_path):
    content = {"title": "study", around: [dict(zip(names, one, strict=True)) for one in EXPECTED]}
    assert given(read(tmp_path, content, task=names[0], worker=names[1], label=names[2])) == EXPECTED
    if names[0] != "tweet":
        with pytest.raises(DataError):
            read(tmp_path, content)


def test_an_only_item(tmp_path):
    assert given(read(tmp_path, items()[0])) == EXPECTED[:3]


@pytest.mark.parametrize("mark", [{"rejected": "true"}, {"status": "Rejected"}, {"skipped": True}])
def test_marks_of_work_that_does_not_count(mark, tmp_path):
    content = items()
    content[0]["annotations"][0] |= mark
    data = read(tmp_path, content)
    assert given(data) == EXPECTED[1:]
    assert any("1 annotations that" in note and "left out" in note for note in data.notes)


def test_records_without_a_list_and_elements_that_are_no_objects_are_counted(tmp_path):
    content = [*items(), {"id": 3, "text": "t", "labels": [{"annotator": "u", "label": "x"}]}, {"id": 4, "text": "t"}]
    content[0]["annotations"].append("done")
    content[1]["annotations"][0]["skipped"] = "no"
    data = read(tmp_path, content)
    assert given(data) == EXPECTED
    assert any("2 records have no list under 'annotations', and no annotations" in note for note in data.notes)
    assert any("1 annotations that are no objects left out" in note for note in data.notes)


def two_lists(*others):
    """Return records with a list of workers beside one of labels; the first states which these are."""
    return [
        {"id": 0, "raters": ["u", "v"], "ratings": ["x", "y"]},
        *({"id": n, **one} for n, one in enumerate(others, 1)),
    ]


def test_workers_and_labels_are_paired_by_position(tmp_path):
    content = two_lists(
        {"raters": ["u", None, ""], "ratings": ["y", "x", "z"]},
        {"raters": [None, "v", None], "ratings": [None, "x", None]},
        {"raters": ["u", "v"], "ratings": ["x", None]},
        {"raters": "u", "ratings": "y"},
        {"raters": '["v"]', "ratings": ["y"]},
    )
    data = read(tmp_path, content)
    plain = [(0, "u", "x"), (0, "v", "y"), (1, "u", "y"), (2, "v", "x"), (3, "u", "x"), (4, "u", "y"), (5, "v", "y")]
    assert given(data) == plain
    assert any("2 annotations without a worker left out" in note for note in data.notes)
    assert any("1 annotations without a label left out" in note for note in data.notes)
    sets = read(tmp_path, content, several="sets")
    ones = (sets.labels[sets.label].astype(str) == "1").sum()
    assert ones == len(plain)  # each annotation is a set of one label


@pytest.mark.parametrize(
    ("raters", "ratings", "counts"),
    [(["u", None], ["x"], "2 workers in 'raters', but 1 labels"), (["u"], ["x", "y"], "1 workers in 'raters', but 2 labels"),
     ([], ["x"], "0 workers in 'raters', but 1 labels"), (["u", "v"], None, "2 workers in 'raters', but 0 labels")],
)  # fmt: skip
def test_lists_of_different_lengths_are_refused(raters, ratings, counts, tmp_path):
    with pytest.raises(DataError, match=f"record 2: {counts} in 'ratings'"):
        read(tmp_path, two_lists({"raters": raters, "ratings": ratings}), several="sets")


def test_records_that_nobody_rated_are_counted(tmp_path):
    content = two_lists(
        {"raters": [], "ratings": []}, {"raters": None, "ratings": None}, {}, {"raters": [None], "ratings": [""]}
    )
    data = read(tmp_path, content)
    assert given(data) == [(0, "u", "x"), (0, "v", "y")]
    assert any("4 records have neither workers nor labels" in note for note in data.notes)
    assert any("workers stand in 'raters', and their labels in 'ratings'" in note for note in data.notes)


@pytest.mark.parametrize(
    "held",
    [
        {"cat": 3, "dog": 1},
        {"cat": 0.7, "dog": 0.3},
        {"sentiment": "pos", "topic": "sports"},
        {"fluency": 4, "clarity": 4},
        {"toxic": True, "spam": False},
        {"q1": "yes", "q2": "yes"},
        {"yes": "x", "no": "x"},
    ],
)
def test_keys_that_may_be_classes_or_questions_are_asked_about(held, tmp_path):
    content = [{"id": n, "text": "t", "labels": held} for n in range(4)]
    with pytest.raises(FileError, match=r"objects with the keys .* stand under 'labels'; if these are workers"):
        read(tmp_path, content)
    with silent():
        assert read(tmp_path, content, format="nested").workers.tolist() == list(held)


def test_numbers_of_named_workers_and_objects_in_parquet(tmp_path):
    content = [{"id": n, "ratings": {"annotator_1": n % 3, "annotator_2": 1}} for n in range(4)]
    assert read(tmp_path, content).workers.tolist() == ["annotator_1", "annotator_2"]
    kind = pyarrow.map_(pyarrow.string(), pyarrow.string())
    for votes in (None, kind):
        rows = [row["votes"] if votes is None else list(row["votes"].items()) for row in by_worker("votes")]
        table = pyarrow.table({"id": range(3), "votes": pyarrow.array(rows, votes)})
        pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
        assert given(crowdppl.read(tmp_path / "x.parquet")) == EXPECTED
