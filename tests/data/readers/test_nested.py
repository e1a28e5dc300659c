"""JSON of no tool: items with a list of annotations each, or with a list of workers beside one of labels."""

import json

import pandas as pd
import pytest
from commands import run

import crowdppl
from crowdppl.errors import DataError, FileError

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
        [{"id": n, "annotator_ids": ["u", "v", "w"], "annotator_labels": list(row)} for n, row in enumerate(SAID)],
    ],
)
def test_items_with_annotations(content, tmp_path):
    data = read(tmp_path, content)
    assert given(data) == EXPECTED
    assert any("read as items with annotations, 9" in note for note in data.notes)


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
        [{"id": n, "text": "t", "annotations": list(row)} for n, row in enumerate(SAID)],
    ],
)
def test_parts_and_texts_are_no_annotations(content, tmp_path):
    with pytest.raises(FileError, match="unknown format"):
        read(tmp_path, content)


def test_columns_that_the_caller_names_are_those_of_a_table(tmp_path):
    rows = [{"key": n, "by": w, "says": s, "remarks": [{"author": "z", "rating": 1}]} for n, w, s in EXPECTED]
    assert given(read(tmp_path, rows, task="key", worker="by", label="says")) == EXPECTED
