"""JSON whose records stand deeper, under the names of items, or under those of workers."""

import json

import pytest

import crowdppl
from crowdppl.errors import FileError, silent

SAID = {"ann1": "xyxy", "ann2": "xxxy", "bob@x.org": "yyxy"}
LONG = [{"task": f"i{n}", "worker": w, "label": s} for w, said in SAID.items() for n, s in enumerate(said)]
BY_WORKER = {w: [{"task": f"i{n}", "label": s} for n, s in enumerate(said)] for w, said in SAID.items()}
VOTES = [{w: said[n] for w, said in SAID.items()} for n in range(4)]
BY_ITEM = [{"id": f"i{n}", "text": f"t{n}", "votes": votes} for n, votes in enumerate(VOTES)]
LISTS = {f"i{n}": [{"annotator": w, "label": s} for w, s in votes.items()] for n, votes in enumerate(VOTES)}


def read(tmp_path, content):
    (tmp_path / "x.json").write_text(json.dumps(content))
    with silent():
        return crowdppl.read(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("content", "where"),
    [
        ({"result": {"data": LONG}}, "records stand under 'result.data'"),
        ({"ok": True, "payload": {"page": {"rows_of_all": BY_ITEM}}}, "records stand under 'payload.page.rows_of_all'"),
        ({"rows": [{"row_idx": n, "row": row} for n, row in enumerate(BY_ITEM)]}, "records stand under 'rows'"),
        ({row["id"]: {"votes": row["votes"]} for row in BY_ITEM}, "the names of items are keys of an object"),
        ({name: {"url": "u", "annotations": rows} for name, rows in LISTS.items()}, "the names of items are keys"),
        (BY_WORKER, "the names of workers are keys of an object: 'ann1', 'ann2', 'bob@x.org'"),
        ({"data": BY_WORKER}, "the names of workers are keys of an object"),
        ({"annotators": [{"name": w, "labels": rows} for w, rows in BY_WORKER.items()]}, "each record is of a worker, 'name'"),
        ([{"user": w, "labels": {r["task"]: r["label"] for r in rows}} for w, rows in BY_WORKER.items()], "of a worker, 'user'"),
        ([{"worker": w, "answers": rows} for w, rows in BY_WORKER.items()], "each record is of a worker, 'worker'"),
    ],
)  # fmt: skip
def test_annotations_in_another_shape(content, where, tmp_path):
    data = read(tmp_path, content)
    names = data.items[data.item].tolist(), data.workers[data.worker].tolist(), data.labels[data.label].tolist()
    assert sorted(zip(*names, strict=True)) == sorted((r["task"], r["worker"], r["label"]) for r in LONG)
    assert any(where in note for note in data.notes)


@pytest.mark.parametrize(
    "content",
    [
        {"model": {"name": "bert", "lr": 0.1}, "data": {"path": "x", "n": 3}},
        {
            "jobs": [
                {"name": "a", "steps": [{"id": 1, "value": "x"}]},
                {"name": "b", "steps": [{"id": 1, "value": "y"}]},
            ]
        },
        {"train": [{"id": 1, "label": "x"}], "test": [{"id": 1, "label": "y"}]},
        {"de": [{"id": 1, "label": "x"}], "en": [{"id": 2, "label": "y"}]},
        {"users": [{"user": w, "items": [{"id": 1, "value": 3}]} for w in "ab"]},
        [{"user": "a", "labels": ["x", "y"]}, {"user": "b", "labels": ["y"]}],
        {"a": {"b": [{"x": 1}]}, "c": {"d": [{"x": 1}]}},
    ],
)
def test_other_documents(content, tmp_path):
    with pytest.raises(FileError, match="unknown format"):
        read(tmp_path, content)


@pytest.mark.parametrize("around", ["annotators", "raters", "crowd_workers"])
def test_names_under_the_name_of_workers(around, tmp_path):
    names = dict(zip(BY_WORKER, ("ann", "Bob Lee", "17"), strict=True))
    data = read(tmp_path, {around: {names[w]: rows for w, rows in BY_WORKER.items()}})
    assert sorted(map(str, data.workers)) == sorted(names.values())


LABELS = [{"id": f"i{n}", "label": "xy"[n % 2]} for n in range(4)]


@pytest.mark.parametrize(
    "content",
    [
        {f"doc{d}": [{"id": n, "label": "xy"[(n + d) % 2]} for n in range(4)] for d in range(3)},
        {f"i{d}": [{"id": said, "label": said, "score": 0.3} for said in "xy"] for d in range(3)},
        {"toxic": LABELS, "insult": LABELS},
        {"fluency": LABELS, "coherence": LABELS},
        {"ann": LABELS, "bob": LABELS},
        {"scores": {"fluency": LABELS, "coherence": LABELS}},
        {"annotators": {"fluency": LABELS, "coherence": LABELS}},
        {"reviewers": {"doc1": LABELS, "doc2": LABELS}},
        {f"ann{w}": [{"id": n, "label": "xy"[n % 2]} for n in range(3 + w)] for w in range(3)},
        {f"ann{w}": [{"id": n, "label": "xy"[n % 2]} for n in range(1, 3 + w)] for w in range(3)},
    ],
)
def test_lists_under_other_keys_than_workers_are_refused_by_name(content, tmp_path):
    inner = content if len(content) > 1 else next(iter(content.values()))
    keys = ", ".join(map(repr, inner))
    with pytest.raises(
        FileError, match=f"unknown format: lists of labels stand under the keys {keys}; if these are workers"
    ):
        read(tmp_path, content)


@pytest.mark.parametrize(
    "content",
    [
        [{"name": f"document {d}", "labels": LABELS} for d in "abc"],
        [{"name": name, "ratings": {f"i{n}": n % 2 for n in range(3)}} for name in ("fluency", "coherence")],
        [{"user": w, "labels": {"food": "good", "service": "bad"}} for w in "abc"],
    ],
)
def test_records_of_documents_and_criteria_are_not_of_workers(content, tmp_path):
    with pytest.raises(FileError, match="unknown format"):
        read(tmp_path, content)


def test_numbers_of_answers_are_no_items(tmp_path):
    images = {"ann1": "pqr", "ann2": "qrp", "ann3": "rpq"}
    rows = {
        w: [{"id": n, "image": one, "label": "xy"[one == "q"]} for n, one in enumerate(held)]
        for w, held in images.items()
    }
    data = read(tmp_path, rows)
    assert sorted(data.items) == ["p", "q", "r"]
    assert sorted(data.workers) == sorted(images)
    plain = {w: [{"id": n, "label": "xy"[n % 2]} for n in range(3)] for w in images}
    assert sorted(map(int, read(tmp_path, plain).items)) == [0, 1, 2]


def test_large_numbers_written_as_decimals(tmp_path):
    text = ",".join(
        f'{{"task": 12345678901234567{n}.0, "worker": "{w}", "label": "{"xy"[n % 2]}"}}' for n in range(4) for w in "ab"
    )
    (tmp_path / "x.json").write_text(f"[{text}]")
    with silent():
        notes = crowdppl.read(tmp_path / "x.json").notes
    assert any("different ones may have become one" in note for note in notes)
