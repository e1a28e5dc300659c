"""Exports of platforms and tools as people have them: identity, structured answers, parts of tasks, several questions."""

import json

import pandas as pd
import pytest

import crowdppl
from crowdppl import DataError
from crowdppl.data.readers import formats
from crowdppl.data.readers.rows import items_of


def lines(*records):
    return "\n".join(json.dumps(record) for record in records) + "\n"


def put(folder, name, content):
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def table(folder, name, columns, rows):
    path = folder / name
    pd.DataFrame(rows, columns=columns).to_csv(path, index=False, sep="\t" if name.endswith(".tsv") else ",")
    return path


def triples(data):
    rows = zip(data.items[data.item], data.workers[data.worker], data.labels[data.label], strict=True)
    return sorted((str(i), str(w), str(k)) for i, w, k in rows)


# ---------------------------------------------------------------------- identity

ARGILLA = {"label.responses": ["pos", "neg"], "label.responses.users": ["u1", "u2"]}
DOCCANO = {"text": "t", "label": ["x"], "username": "a"}
ANSWERS = [{"answerContent": {"q": {"label": "x"}}, "workerId": 0}, {"answerContent": {"q": "y"}, "workerId": "w2"}]
STUDIO = {"data": {"t": "a"}, "annotations": [{"completed_by": 0, "result": []}]}


def studio(key, *answers, data="t", **more):
    """A task of Label Studio; an answer is (who, choice)."""
    return {
        "id": key,
        "data": {"text": data},
        "annotations": [
            {
                "completed_by": who,
                "result": [{"from_name": "q", "type": "choices", "value": {"choices": [said]}}],
                **more,
            }
            for who, said in answers
        ],
    }


ZERO = {
    "argilla": [ARGILLA | {"id": n} for n in (0, 1, 2)],
    "argilla, other key": [ARGILLA | {"id": None, "external_id": n} for n in (0, 1, 2)],
    "doccano": [DOCCANO | {"id": n, "label": [k]} for n, k in ((0, "x"), (1, "y"), (2, "x"))],
    "sagemaker": [{"datasetObjectId": n, "annotationsFromAllWorkers": ANSWERS} for n in (0, 1, 2)],
    "label studio": [studio(n, (0, "x"), (1, "y")) for n in (0, 1, 2)],
    "prodigy": [
        {"_input_hash": n, "_task_hash": 5, "answer": "accept", "accept": ["x"], "_annotator_id": w}
        for n in (0, 1, 2)
        for w in (0, "b")
    ],
}


@pytest.mark.parametrize("records", ZERO.values(), ids=ZERO)
@pytest.mark.filterwarnings("ignore::crowdppl.CrowdpplWarning")
def test_zero_is_an_identifier(tmp_path, records):
    data = crowdppl.read(put(tmp_path, "x.json", records))
    assert sorted(map(str, data.items)) == ["0", "1", "2"]
    assert {"0", "u1", "a"} & set(map(str, data.workers))


@pytest.mark.parametrize("blank", [None, "", " ", float("nan")])
@pytest.mark.filterwarnings("ignore::crowdppl.CrowdpplWarning")
def test_no_identifier_is_not_an_item(tmp_path, blank):
    """Without identifiers records are numbered; identifiers in some records only are refused."""
    for kind, record in (("argilla", ARGILLA), ("doccano", DOCCANO), ("sagemaker", {"answers": ANSWERS})):
        data = crowdppl.read(
            put(tmp_path, "x.jsonl", lines(*[record | {"id": blank, "text": f"t{n}"} for n in range(3)]))
        )
        assert data.items.tolist() == ([0, 1, 2] if kind == "sagemaker" else [1, 2, 3])
    with pytest.raises(DataError, match="line 2: no 'id', which 1 of 2 lines have"):
        crowdppl.read(put(tmp_path, "x.jsonl", lines(DOCCANO | {"id": 7}, DOCCANO | {"id": blank})))
    mturk = table(tmp_path, "x.csv", ["HITId", "WorkerId", "Answer.q"], [("h", "u", "a"), (None, "u", "b")])
    with pytest.raises(DataError, match="row 2: no identifier of the task"):
        crowdppl.read(mturk)


def test_names_of_items():
    records = [{"id": 0, "key": False}, {"id": "", "key": True}]
    assert items_of(records, ("id", "key"), "x") == [False, True]
    assert items_of([{}, {}], ("id",), "x") == [1, 2]


@pytest.mark.parametrize(
    ("name", "worker"),
    [
        ("anna.k.jsonl", "anna.k"),
        ("dr. b.m.jsonl", "dr. b.m"),
        ("v1.2.json", "v1.2"),
        ("a@b.org.jsonl", "a@b.org"),
        ("x.JSONL", "x"),
    ],
)
def test_the_worker_of_a_file(tmp_path, name, worker):
    data = crowdppl.read(put(tmp_path, name, lines({"id": 1, "label": ["x"]}, {"id": 2, "label": ["y"]})))
    assert data.workers.tolist() == [worker]


def test_numbers_and_text_are_one_name(tmp_path):
    data = crowdppl.read(put(tmp_path, "x.jsonl", lines(DOCCANO | {"id": 1}, DOCCANO | {"id": "1", "label": ["y"]})))
    assert data.items.tolist() == ["1"]
    assert any("written as a number and as text ('1')" in note for note in data.notes)


TOLOKA = ["INPUT:image", "OUTPUT:result", "ASSIGNMENT:task_id", "ASSIGNMENT:worker_id", "GOLDEN:result"]
TWICE = {
    "mturk": (
        ["HITId", "WorkerId", "Input.url", "Answer.q"],
        [("h1", "u", "1.jpg", "a"), ("h9", "v", "1.jpg", "a"), ("h2", "u", "2.jpg", "b"), ("h8", "v", "2.jpg", "b")],
        "Input.url",
    ),
    "toloka": (
        TOLOKA,
        [("1.jpg", "a", "t1", "u", "a"), ("1.jpg", "a", "t9", "v", None), ("2.jpg", "b", "t2", "u", None)],
        "INPUT:image",
    ),
    "appen": (
        ["_unit_id", "_worker_id", "q", "q_gold", "url"],
        [(1, 7, "a", "a", "1.jpg"), (9, 8, "a", None, "1.jpg"), (2, 7, "b", None, "2.jpg")],
        "url",
    ),
}


@pytest.mark.parametrize(("columns", "rows", "column"), TWICE.values(), ids=TWICE)
def test_one_input_under_several_identifiers(tmp_path, columns, rows, column):
    path = table(tmp_path, "x.tsv" if column == "INPUT:image" else "x.csv", columns, rows)
    data = crowdppl.read(path)
    assert len(data.items) == len(rows)
    assert any(
        f"2 different inputs: one input stands under several identifiers; task={column!r}" in n for n in data.notes
    )
    joined = crowdppl.read(path, task=column)
    assert joined.items.tolist() == ["1.jpg", "2.jpg"]
    assert not any("several identifiers" in note for note in joined.notes)
    if any("gold" in name.lower() for name in columns):
        assert joined.labels[joined.truth[0]] == "a"
        assert joined.truth[1] == -1
    with pytest.raises(DataError, match=f"no column 'INPUT.nothing'.*columns are .*{column}"):
        crowdppl.read(path, task="INPUT.nothing")


def test_one_input_under_several_identifiers_of_tools(tmp_path):
    tasks = [
        studio(1, ("u", "a"), data="same"),
        studio(2, ("v", "b"), data="same"),
        studio(3, ("v", "b"), data="other"),
    ]
    path = put(tmp_path, "x.json", tasks)
    assert any("task='data.text'" in note for note in crowdppl.read(path).notes)
    assert crowdppl.read(path, task="data.text").items.tolist() == ["same", "other"]
    records = [
        DOCCANO | {"id": None, "text": text, "username": who} for who, text in (("a", "t1"), ("a", "t2"), ("b", "t1"))
    ]
    records[1]["label"] = ["y"]
    path = put(tmp_path, "x.jsonl", lines(*records))
    assert any("task='text'" in note for note in crowdppl.read(path).notes)
    assert crowdppl.read(path, task="text").N == 2


def test_one_identifier_of_several_inputs(tmp_path):
    tasks = [studio(1, ("u", "a"), data="one"), studio(1, ("v", "b"), data="another")]
    data = crowdppl.read(put(tmp_path, "x.json", tasks))
    assert any("1 items (id) have different inputs" in note for note in data.notes)


def test_columns_of_the_file_by_name(tmp_path):
    columns, rows, _ = TWICE["mturk"]
    path = table(tmp_path, "x.csv", columns, rows)
    data = crowdppl.read(path, task="HITId", worker="WorkerId", label="Answer.q")
    assert triples(data) == triples(crowdppl.read(path))


# ---------------------------------------------------------------------- durations


def test_durations_are_of_one_annotation(tmp_path):
    """Toloka and Appen state when a page began and ended, which all its rows repeat."""
    times = ["2026-01-01T10:00:00", "2026-01-01T10:01:00"]
    columns = [*TOLOKA[:4], "ASSIGNMENT:started", "ASSIGNMENT:submitted"]
    rows = [(f"{n}.jpg", "a" if n % 2 else "b", f"t{n}", "u", *times) for n in range(4)]
    rows.append(("0.jpg", "a", "t0", "v", *times))
    assert crowdppl.read(table(tmp_path, "x.tsv", columns, rows)).seconds.tolist() == [15, 60, 15, 15, 15]
    pages = [(*row, "p1" if n < 2 else f"p{n}") for n, row in enumerate(rows)]
    data = crowdppl.read(table(tmp_path, "y.tsv", [*columns, "ASSIGNMENT:assignment_id"], pages))
    assert data.seconds.tolist() == [30, 60, 30, 60, 60]
    assert any("divided by their number" in note for note in data.notes)
    rows = [(n, 7, "ab"[n % 2], "", *times) for n in range(3)]
    columns = ["_unit_id", "_worker_id", "q", "q_gold", "_started_at", "_created_at"]
    assert crowdppl.read(table(tmp_path, "x.csv", columns, rows)).seconds.tolist() == [20, 20, 20]


# ---------------------------------------------------------------------- structured answers


def test_structured_answers_of_platforms(tmp_path):
    form = [json.dumps([{"animal": {"cat": n % 2 == 0, "dog": n % 2 == 1}, "mood": "good"}]) for n in range(4)]
    rows = [(f"h{n // 2}", f"u{n % 2}", form[n]) for n in range(4)]
    path = table(tmp_path, "m.csv", ["HITId", "WorkerId", "Answer.taskAnswers"], rows)
    assert crowdppl.read(path, question="animal").labels.tolist() == ["cat", "dog"]
    with pytest.raises(DataError, match="answers to 2 questions, 'animal', 'mood'"):
        crowdppl.read(path)
    rows = [("h1", "u", "true"), ("h1", "v", "false"), ("h2", "u", "true")]
    agree = crowdppl.read(table(tmp_path, "o.csv", ["HITId", "WorkerId", "Answer.agree.on"], rows))
    assert agree.labels.tolist() == ["false", "true"]
    columns = ["annotation_id", "annotator", "id", "q"]
    rows = [(1, '{"id": 5, "email": "a@x"}', 1, '[{"rating": 3}]'), (2, "['b@x']", 1, '[{"rating": 4}]')]
    data = crowdppl.read(table(tmp_path, "l.csv", columns, rows))
    assert triples(data) == [("1", "a@x", "3"), ("1", "b@x", "4")]


@pytest.mark.parametrize(
    ("first", "second", "classes"),
    [
        ({"cat": True, "dog": False}, {"cat": False, "dog": True}, ["cat", "dog"]),
        ({"label": "cat"}, {"labels": ["dog"]}, ["cat", "dog"]),
        ({"on": True}, {"on": False}, ["false", "true"]),
        ("cat", ["dog"], ["cat", "dog"]),
    ],
)
def test_answers_of_forms(tmp_path, first, second, classes):
    answers = [{"answerContent": {"q": said}, "workerId": f"w{n}"} for n, said in enumerate((first, second))]
    for key in ("answers", "humanAnswers"):
        assert crowdppl.read(put(tmp_path, "x.json", {key: answers})).labels.tolist() == classes


def test_boxes_of_forms_are_refused(tmp_path):
    content = {"q": {"boundingBoxes": [{"label": "cat", "left": 1, "top": 2}]}}
    path = put(tmp_path, "x.json", {"answers": [{"answerContent": content, "workerId": "w"}]})
    with pytest.raises(DataError, match=r"record 1: .*part of the item, such as a span or region"):
        crowdppl.read(path)


ARGILLA_2 = [
    {
        "id": f"r{n}",
        "fields": {"text": f"t{n}"},
        "metadata": {},
        "suggestions": {},
        "responses": {
            "topic": [{"value": a, "user_id": "u1"}, {"value": b, "user_id": "u2"}],
            "span": [{"value": [{"start": 0, "end": 1, "label": "P"}], "user_id": "u1"}],
        },
        "vectors": {},
        "_server_id": f"s{n}",
    }
    for n, (a, b) in enumerate((("x", "y"), ("y", "y")))
]


def test_argilla_2(tmp_path):
    path = put(tmp_path, "x.json", ARGILLA_2)
    assert formats.sniff(path) == "argilla"
    expected = [("r0", "u1", "x"), ("r0", "u2", "y"), ("r1", "u1", "y"), ("r1", "u2", "y")]
    assert triples(crowdppl.read(path, question="topic")) == expected
    with pytest.raises(DataError, match=r"no annotation .*left out: 2 that are spans of text"):
        crowdppl.read(path, question="span")
    server = [
        {
            "id": record["id"],
            "fields": record["fields"],
            "responses": [
                {"user_id": r["user_id"], "values": {"topic": {"value": r["value"]}}, "status": status}
                for r, status in zip(record["responses"]["topic"], ("submitted", "discarded"), strict=True)
            ],
        }
        for record in ARGILLA_2
    ]
    data = crowdppl.read(put(tmp_path, "y.json", server))
    assert triples(data) == [("r0", "u1", "x"), ("r1", "u1", "y")]
    assert any("2 annotations that were discarded (skipped) left out" in note for note in data.notes)


# ---------------------------------------------------------------------- parts of tasks, other answers, known truths

REGION = {"start": 0, "end": 3, "text": "abc"}
PARTS = {
    "a span": {"id": "r", "from_name": "ner", "type": "labels", "value": REGION | {"labels": ["PER"]}},
    "a choice of a span": {"id": "r", "from_name": "q", "type": "choices", "value": REGION | {"choices": ["no"]}},
    "a choice of a box": {
        "from_name": "q",
        "type": "choices",
        "value": {"x": 1, "y": 2, "width": 3, "choices": ["no"]},
    },
    "a rating of a segment": {"from_name": "q", "type": "rating", "value": {"start": 0.5, "end": 2.0, "rating": 3}},
    "a choice of a page": {"from_name": "q", "type": "choices", "value": {"item_index": 1, "choices": ["no"]}},
    "a part of a region": {"parentID": "r", "from_name": "q", "type": "choices", "value": {"choices": ["no"]}},
    "a box": {"from_name": "b", "type": "rectanglelabels", "value": {"x": 1, "y": 2, "rectanglelabels": ["P"]}},
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_labels_of_parts_are_left_out_and_counted(tmp_path, part):
    tasks = [studio(n, (1, "yes"), (2, "no")) for n in (1, 2)]
    tasks[0]["annotations"][0]["result"].append(part)
    data = crowdppl.read(put(tmp_path, "x.json", tasks))
    assert triples(data) == [("1", "1", "yes"), ("1", "2", "no"), ("2", "1", "yes"), ("2", "2", "no")]
    assert any("1 regions and labels of regions left out" in note for note in data.notes)
    for task in tasks:
        for annotation in task["annotations"]:
            annotation["result"] = [part]
    # Spans of texts are read where there is nothing else: these are longer than the text.
    message = (
        "a span from 0 to 3 in a text of 1"
        if part.get("type") == "labels"
        else "4 regions and labels of regions, which are"
    )
    with pytest.raises(DataError, match=message):
        crowdppl.read(put(tmp_path, "x.json", tasks))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("textarea", {"text": ["a"]}),
        ("ranker", {"ranker": ["b"]}),
        ("datetime", {"datetime": "2024-01-01"}),
        ("chat", {}),
    ],
)
def test_other_answers_are_named(tmp_path, kind, value):
    tasks = [
        STUDIO
        | {"id": 1, "annotations": [{"completed_by": 1, "result": [{"from_name": "q", "type": kind, "value": value}]}]}
    ]
    with pytest.raises(DataError, match=f"it contains answers of type '{kind}', which are not classes"):
        crowdppl.read(put(tmp_path, "x.json", tasks))


def test_spans_of_prodigy(tmp_path):
    record = {"_task_hash": 1, "_input_hash": 2, "answer": "accept", "_annotator_id": "a", "spans": []}
    with pytest.raises(DataError, match=r"left out: 1 of spans, regions or texts \(ner_manual\)"):
        crowdppl.read(put(tmp_path, "x.jsonl", lines(record | {"_view_id": "ner_manual"})))


def test_ground_truth_is_no_annotation(tmp_path):
    tasks = [studio(n, (1, "yes"), (2, "no")) for n in (1, 2)]
    tasks[0]["annotations"] += studio(1, (9, "yes"), ground_truth=True)["annotations"]
    data = crowdppl.read(put(tmp_path, "x.json", tasks))
    assert 9 not in data.workers
    sentence = "1 annotations are marked as ground truth: they are known truths, not labels of a worker"
    assert any(sentence in note for note in data.notes)


APPEN = ["_unit_id", "_worker_id", "animal", "animal_gold"]


def test_several_accepted_answers(tmp_path):
    """Test questions with several acceptable answers leave the truth unknown, unless workers choose sets."""
    rows = [
        (1, 10, "cat", "cat\nkitten"),
        (1, 11, "kitten", "cat\nkitten"),
        (2, 10, "dog", "dog"),
        (2, 11, "dog", "dog"),
    ]
    path = table(tmp_path, "x.csv", APPEN, rows)
    for several in ("refuse", "join"):
        data = crowdppl.read(path, several=several)
        assert data.labels.tolist() == ["cat", "dog", "kitten"]
        assert data.truth.tolist() == [-1, 1]
        assert any("1 test questions accept several answers" in note for note in data.notes)
    sets = table(
        tmp_path, "y.csv", APPEN, [(*row[:2], "cat\nkitten" if n else "cat", row[3]) for n, row in enumerate(rows)]
    )
    data = crowdppl.read(sets, several="join")
    assert data.labels[data.truth[0]] == "cat;kitten"
    with pytest.raises(DataError, match="row 2: 2 labels in one annotation"):
        crowdppl.read(sets)


def test_tables_that_do_not_mark_the_question(tmp_path):
    rows = [(1, 10, "t1", "cat"), (1, 11, "t1", "dog"), (2, 10, "t2", "dog")]
    path = table(tmp_path, "x.csv", ["_unit_id", "_worker_id", "text", "animal"], rows)
    with pytest.raises(DataError, match=r"no column ends in _gold.*question=..., one of 'animal', 'text'"):
        crowdppl.read(path)
    assert crowdppl.read(path, question="animal").labels.tolist() == ["cat", "dog"]
    path = table(tmp_path, "y.csv", ["id", "annotator", "text", "animal"], rows).rename(tmp_path / "z.csv")
    frame = pd.read_csv(path).assign(annotation_id=range(3))
    frame.to_csv(path, index=False)
    with pytest.raises(DataError, match=r"answers stand beside the data.*one of 'animal', 'text'"):
        crowdppl.read(path)


def test_people_of_label_studio_are_one_by_number_and_by_description(tmp_path):
    def by(who, label):
        value = {"choices": [label]}
        return {"completed_by": who, "result": [{"id": "r", "from_name": "s", "type": "choices", "value": value}]}

    tasks = [
        {"id": 1, "data": {"text": "a"}, "annotations": [by({"id": 7, "email": "a@x"}, "p"), by(8, "q")]},
        {"id": 2, "data": {"text": "b"}, "annotations": [by(7, "q"), by("8", "q")]},
    ]
    path = tmp_path / "x.json"
    path.write_text(json.dumps(tasks))
    data = crowdppl.read(path)
    assert sorted(data.workers.tolist()) == ["8", "a@x"]
    assert data.A == 4


def test_records_with_lists_of_people_are_no_sets_of_a_file(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(json.dumps({"id": n, "annotators": ["a", "b"], "labels": ["x", "y"]}) for n in (1, 2)))
    data = crowdppl.read(path)
    assert (data.workers.tolist(), data.A) == (["a", "b"], 4)


def test_a_table_with_an_identifier_of_rows_is_not_of_doccano(tmp_path):
    rows = [{"id": 10 + n, "task": n // 2, "worker": "uv"[n % 2], "label": ["xy"[n % 3 == 0]]} for n in range(4)]
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    data = crowdppl.read(path)
    assert (data.items.tolist(), data.workers.tolist()) == ([0, 1], ["u", "v"])


def test_objects_of_other_tools_are_not_called_spans(tmp_path):
    label, other = (
        {"author": {"email": f"{name}@x"}, "jsonResponse": {"JOB": {"categories": [{"name": name.upper()}]}}}
        for name in "ab"
    )
    path = tmp_path / "x.json"
    path.write_text(json.dumps([{"id": "a", "externalId": "1.txt", "labels": [label, other]}]))
    assert triples(crowdppl.read(path)) == [("1.txt", "a@x", "A"), ("1.txt", "b@x", "B")]
