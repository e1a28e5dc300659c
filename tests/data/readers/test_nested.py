"""JSON of no tool: items with a list of annotations each, or with a list of workers beside one of labels."""

import itertools
import json

import pandas as pd
import pyarrow.parquet
import pytest
from commands import run

import crowdppl
from crowdppl.errors import CrowdpplError, DataError, FileError, silent

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


def by_worker(key, workers=("w1", "w2", "w3")):
    return [{"id": n, "text": f"t{n}", key: dict(zip(workers, row, strict=True))} for n, row in enumerate(SAID)]


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
    ],
)
def test_items_with_annotations(content, tmp_path):
    data = read(tmp_path, content)
    assert given(data) == EXPECTED
    assert any("read as items with annotations, 9" in note for note in data.notes)
    assert given(read(tmp_path, content, format="nested")) == EXPECTED


OF_OBJECTS = [(n, f"w{'uvw'.index(w) + 1}", said) for n, w, said in EXPECTED]


@pytest.mark.parametrize(
    "content",
    [
        *(by_worker(key) for key in ("votes", "labels", "annotations", "ratings", "responses", "raters")),
        {"data": by_worker("votes")},
        [{"id": row["id"], "data": {"votes": row["votes"]}} for row in by_worker("votes")],
        [{**row, "votes": {w: {"label": s, "time": 3} for w, s in row["votes"].items()}} for row in by_worker("votes")],
        [{**row, "votes": row["votes"] | {"w4": None}} for row in by_worker("votes")],
        {row["id"]: {"votes": row["votes"]} for row in by_worker("votes")},
    ],
)
def test_objects_of_workers(content, tmp_path):
    data = read(tmp_path, content)
    assert [(int(n), w, said) for n, w, said in given(data)] == OF_OBJECTS
    assert any("objects whose keys, 'w1', 'w2', 'w3', are read as workers" in note for note in data.notes)


VARYING = [{"id": n, "votes": {"abcd"[(n + k) % 4]: "xy"[(n * k) % 2] for k in range(3)}} for n in range(8)]
NAMES = (
    "ann1",
    "worker_3",
    "rater-2",
    "Annotator B",
    "ann@x.org",
    "A1B2C3D4E5F6G",
    "user 7",
    "U12",
    "coder#2",
    "expert_a",
)
UUID = "5f0c2f9e-0d4b-4d5e-9d0c-{:012}"


@pytest.mark.parametrize(
    "content",
    [
        *(by_worker("votes", (one, two, "reader1")) for one, two in itertools.pairwise(NAMES)),
        *(by_worker(key, ("ann", "Bob Lee", "17")) for key in ("annotators", "crowd_workers", "reviewers", "labelers")),
        by_worker("annotators", [UUID.format(n) for n in range(3)]),
        VARYING,
        [{**row, "gold": "x"} for row in VARYING],
        [{**row, "votes": {w: {"label": s, "secs": 3} for w, s in row["votes"].items()}} for row in VARYING],
    ],
)
def test_names_and_objects_of_people(content, tmp_path):
    data = read(tmp_path, content)
    key = next(key for key in content[0] if isinstance(content[0][key], dict))
    assert set(map(str, data.workers)) == set().union(*(row[key] for row in content))
    assert len(data.item) == sum(len(row[key]) for row in content)
    advised = any("if they are criteria or items, write a table" in note for note in data.notes)
    assert advised == (not any(name in row[key] for name in NAMES for row in content))


def rows(key, keys, values, n=12, **others):
    """Return records with an object of the same keys each, whose values go round."""
    return [
        {
            "id": f"i{k}",
            "text": f"t{k}",
            key: {one: values[(k + 2 * j * k + j) % len(values)] for j, one in enumerate(keys)},
        }
        | others
        for k in range(n)
    ]


@pytest.mark.parametrize("name", ["user", "annotator", "worker", "reviewer", "labeler", "contributor", "participant"])
@pytest.mark.parametrize("others", [{}, {"label": "x"}, {"rating": 3}])
@pytest.mark.parametrize(
    "held",
    [{"id": "u0", "country": "DE"}, {"name": "ann", "verified": True}, {"login": "a", "type": "User"}, {"mood": "x", "job": "x"}],
)  # fmt: skip
def test_what_is_known_of_one_worker_is_no_table_of_workers(held, others, name, tmp_path):
    for plural in ("", "s"):
        if plural and not others and "mood" in held:
            continue  # may be two workers
        content = [{"id": f"t{n}", "text": "t", name + plural: held, **others} for n in range(6)]
        with pytest.raises(CrowdpplError):
            read(tmp_path, content)


NUMBERS, WORDS = (3, 1, 2), ("good", "bad", "ok")


@pytest.mark.parametrize(
    "content",
    [
        rows("annotator_votes", ("positive", "negative"), NUMBERS),
        rows("crowd_labels", ("cat", "dog"), NUMBERS),
        rows("worker_votes", ("cat", "dog"), (0.3, 0.7)),
        rows("user_votes", ("up", "down"), NUMBERS),
        rows("reviewer_scores", ("novelty", "clarity"), NUMBERS),
        rows("annotators", ("fluency", "coherence"), WORDS),
        rows("annotators", ("ann", "bob"), NUMBERS),
        rows("expert_labels", ("malignant", "benign"), WORDS),
        rows("ratings", ("fluency", "coherence"), WORDS),
        rows("ratings", ("acceptability", "authenticity"), NUMBERS),
        rows("labels", ("food", "service", "price"), ("positive", "negative")),
        rows("labels", ("Edema", "Pneumonia", "Cardiomegaly"), ("positive", "negative", "uncertain")),
        rows("answers", ("trust", "income"), ("agree", "disagree")),
        rows("labels", ("en", "de", "fr"), WORDS),
        rows("labels", ("original", "revised"), WORDS),
        rows("labels", ("round1", "round2"), WORDS),
        rows("annotators", ("round1", "round2"), WORDS),
        rows("annotations", ("person1", "person2"), WORDS),
        rows("votes", ("model_a", "model_b"), ("win", "lose")),
        rows("annotations", ("insult", "menace"), ({"label": "yes", "confidence": 1}, {"label": "no", "confidence": 0})),
        rows("annotations", ("helpfulness", "truthfulness"), ({"Rating": "3"}, {"Rating": "2"})),
        [{"id": f"ann{n}", "labels": {UUID.format(k): WORDS[(n + k) % 3] for k in range(3)}} for n in range(6)],
        [{"id": n, "labels": {UUID.format(k): WORDS[(n + k) % 3] for k in range(3)}} for n in range(6)],
        [{"id": n, "labels": {f"this is sentence {'abc'[k]}": WORDS[(n + k) % 3] for k in range(3)}} for n in range(6)],
        [{"id": n, "user_id": f"a{n}", "labels": {f"doc-{'abc'[k]}": WORDS[(n + k) % 3] for k in range(3)}} for n in range(6)],
        [{"id": n, "user_id": f"a{n}", "votes": row["votes"]} for n, row in enumerate(VARYING)],
        [{"id": f"w{n}", "votes": row["votes"]} for n, row in enumerate(VARYING)],
        [{"id": n, "answers": row["votes"]} for n, row in enumerate(VARYING)],
        [{"id": n, "votes": {f"{k}x": WORDS[k % 3] for k in (n, n + 1, n + 3)}} for n in range(8)],
        [{"id": n, "labels": {k: WORDS[len(k) % 3] for k in ("menu", "bar", "toilet")[: 1 + n % 3]}} for n in range(12)],
    ],
)  # fmt: skip
def test_classes_criteria_rounds_and_items_are_refused_by_name(content, tmp_path):
    key = list(content[0])[-1]
    first = next(iter(content[0][key]))
    with pytest.raises(
        FileError, match=rf"objects with the keys '{first}'.* stand under '{key}'; if these are workers"
    ):
        read(tmp_path, content)
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, content)))
    with pytest.raises(FileError, match="if they are classes, criteria, questions or items"):
        crowdppl.read(tmp_path / "x.jsonl")
    with silent():
        assert first in map(str, read(tmp_path, content, format="nested").workers)


@pytest.mark.parametrize("other", ["x", ["x"], 3, [{"w": 1}]])
def test_records_without_an_object_are_counted(other, tmp_path):
    content = by_worker("votes")
    data = read(tmp_path, [*content, *({"id": n, "votes": other} for n in range(3, 6)), {"id": 6, "votes": {}}])
    assert given(data) == OF_OBJECTS
    assert any("3 records have no object under 'votes', and no annotations" in note for note in data.notes)


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
        assert given(crowdppl.read(tmp_path / "x.parquet")) == OF_OBJECTS
