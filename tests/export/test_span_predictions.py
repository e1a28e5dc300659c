"""Spans of characters in the files of annotation tools: read as tokens, written with probabilities, and read again."""

import json

import numpy as np
import pytest
from commands import run

import crowdppl
from crowdppl import export
from crowdppl.data.readers.spans import Span, labelled, tokenised
from crowdppl.errors import CrowdpplError, DataError, FileError

NAMES = ["Ada Lovelace", "Grace Hopper", "Alan Turing", "Emmy Noether"]


def crowd(texts=12, workers=4, seed=0):
    """Return texts with a name in them, and the spans that each worker marked: some miss it, some take half of it."""
    rng = np.random.default_rng(seed)
    out = []
    for n in range(texts):
        name = NAMES[n % len(NAMES)]
        text = f"Yesterday, {name} met the crowd of {n}." if n % 3 else f"Nothing was said of the crowd of {n}."
        start = text.find(name)
        given = {}
        for j in range(workers):
            spans = [] if start < 0 or rng.random() < 0.15 else [(start, start + len(name), "PER")]
            if spans and rng.random() < 0.15:
                spans = [(start, start + name.index(" "), "PER")]
            given[f"w{j}"] = spans
        out.append((n + 1, text, given))
    return out


def lines(given, record):
    """Return a line of JSON for what each worker said of each text: ``record(number, text, worker, spans)``."""
    return "".join(
        json.dumps(record(n, text, worker, spans)) + "\n" for n, text, said in given for worker, spans in said.items()
    )


def doccano(given):
    def record(n, text, worker, spans):
        return {"id": n, "text": text, "label": [list(one) for one in spans], "annotator": worker}

    return lines(given, record)


def entities(given):
    def record(n, text, worker, spans):
        every = [{"id": 1, "start_offset": a, "end_offset": b, "label": k} for a, b, k in spans]
        return {"id": n, "text": text, "entities": every, "relations": [], "user": worker}

    return lines(given, record)


def prodigy(given):
    def record(n, text, worker, spans):
        known = {"_input_hash": n, "_task_hash": -n, "_view_id": "ner_manual", "answer": "accept"}
        every = [{"start": a, "end": b, "label": k} for a, b, k in spans]
        return {"text": text, **known, "_annotator_id": worker, "spans": every}

    return lines(given, record)


def label_studio(given):
    def results(text, spans):
        return [
            {
                "id": "r",
                "from_name": "label",
                "to_name": "text",
                "type": "labels",
                "value": {"start": a, "end": b, "text": text[a:b], "labels": [k]},
            }
            for a, b, k in spans
        ]

    return json.dumps(
        [
            {
                "id": n,
                "data": {"text": text, "source": "x" * 200},
                "annotations": [
                    {"completed_by": worker, "result": results(text, spans)} for worker, spans in said.items()
                ],
            }
            for n, text, said in given
        ]
    )


TOOLS = {
    "doccano": (doccano, "jsonl"),
    "entities": (entities, "jsonl"),
    "prodigy": (prodigy, "jsonl"),
    "label-studio": (label_studio, "json"),
}


def written(folder, tool, given):
    make, suffix = TOOLS[tool]
    path = folder / f"export.{suffix}"
    path.write_text(make(given), encoding="utf-8")
    return path


def spans_written(path, tool):
    """Return the spans of a written file: (text id, start, end, type) and probabilities."""
    text = path.read_text(encoding="utf-8")
    out = {}
    if tool == "label-studio":
        for task in json.loads(text):
            for one in task["predictions"][0]["result"]:
                value = one["value"]
                assert task["data"]["text"][value["start"] : value["end"]] == value["text"]
                out[task["id"], value["start"], value["end"], value["labels"][0]] = one["score"]
        return out
    for record in map(json.loads, text.splitlines()):
        if tool == "prodigy":
            for one in record["spans"]:
                first, last = record["tokens"][one["token_start"]], record["tokens"][one["token_end"]]
                assert (first["start"], last["end"]) == (one["start"], one["end"])
                out[record["_input_hash"], one["start"], one["end"], one["label"]] = one["score"]
        else:
            for (start, end, kind), p in zip(record["label"], record["probability"], strict=True):
                out[record["id"], start, end, kind] = p
    return out


def test_tokens_and_their_labels():
    text = "Dr. Ada Lovelace's"
    tokens = tokenised(text)
    assert [text[a:b] for a, b in tokens] == ["Dr", ".", "Ada", "Lovelace", "'", "s"]
    labels, left_out = labelled(tokens, [Span(4, 16, "PER"), Span(0, 2, "TITLE"), Span(8, 12, "PER"), Span(3, 4, "X")])
    assert labels == ["B-TITLE", "O", "B-PER", "I-PER", "O", "O"]
    assert left_out == 2  # one overlaps, one is white space


@pytest.mark.parametrize("tool", TOOLS)
def test_spans_go_in_and_come_out_with_probabilities(tmp_path, tool):
    given = crowd()
    path = written(tmp_path, tool, given)
    data = crowdppl.read(path)
    assert data.sequences.tolist() == [n for n, *_ in given]
    assert data.J == 4
    assert data.labels.tolist() == ["B-PER", "I-PER", "O"]
    posterior = crowdppl.fit(data, method="em", num_samples=20)
    out = export.predictions(posterior, path, tmp_path / "out.json")
    written_spans = spans_written(out, tool)
    assert len(written_spans) == len(posterior.spans())
    np.testing.assert_allclose(sorted(written_spans.values()), sorted(posterior.spans()["probability"]))
    places = [(n, text, name) for n, text, _ in given for name in NAMES if name in text]
    wanted = {(n, text.index(name), text.index(name) + len(name), "PER") for n, text, name in places}
    assert set(written_spans) == wanted


@pytest.mark.parametrize("tool", ["doccano", "label-studio"])
def test_what_was_written_is_read_again(tmp_path, tool):
    given = crowd()
    path = written(tmp_path, tool, given)
    posterior = crowdppl.fit(crowdppl.read(path), method="em", num_samples=20)
    out = export.predictions(posterior, path, tmp_path / f"again{path.suffix}")
    if tool == "label-studio":  # a prediction becomes an annotation when somebody accepts it
        tasks = json.loads(out.read_text(encoding="utf-8"))
        for task in tasks:
            task["annotations"] = [{"completed_by": "crowd", "result": task.pop("predictions")[0]["result"]}]
        out.write_text(json.dumps(tasks), encoding="utf-8")
    again = crowdppl.read(out)
    assert again.items.tolist() == posterior.items().tolist()
    labels = posterior.truth().set_index("task")["label"]
    assert (again.labels[again.label.numpy()] == labels[again.items[again.item.numpy()]]).all()


def test_one_file_for_each_annotator(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    for worker in ("w0", "w1"):
        mine = [(n, text, {worker: said[worker]}) for n, text, said in crowd()]
        lines = [{k: v for k, v in json.loads(line).items() if k != "annotator"} for line in doccano(mine).splitlines()]
        (folder / f"{worker}.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    data = crowdppl.read(folder)
    assert data.workers.tolist() == ["w0", "w1"]
    assert data.sequence is not None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"id": 1, "text": "Ada", "label": [[0, 9, "PER"]]}, "a span from 0 to 9 in a text of 3"),
        ({"id": 1, "text": "Ada", "label": [[0, "x", "PER"]]}, "is no span"),
        ({"id": 1, "label": [[0, 3, "PER"]]}, "no text"),
    ],
)
def test_bad_spans_get_one_line(tmp_path, line, message):
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(line | {"annotator": "u"}) + "\n", encoding="utf-8")
    with pytest.raises(CrowdpplError, match=message) as caught:
        crowdppl.read(path)
    assert "\n" not in str(caught.value)


def test_texts_that_differ_are_refused(tmp_path):
    lines = [{"id": 1, "text": text, "label": [[0, 3, "PER"]], "annotator": text} for text in ("Ada", "Bob")]
    path = tmp_path / "bad.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match="differs from an earlier one"):
        crowdppl.read(path)


def test_other_sources_are_refused(tmp_path):
    path = written(tmp_path, "doccano", crowd())
    posterior = crowdppl.fit(crowdppl.read(path), method="em", num_samples=20)
    (tmp_path / "t.csv").write_text("task,worker,label\n1,u,a\n", encoding="utf-8")
    with pytest.raises((FileError, DataError)):
        export.span_predictions(posterior, tmp_path / "t.csv", tmp_path / "out.json")
    others = [(n + 1000, text, said) for n, text, said in crowd()]
    with pytest.raises(DataError, match="none of its texts"):
        export.span_predictions(posterior, written(tmp_path, "doccano", others), tmp_path / "out.json")


def test_the_command_goes_from_a_tool_and_back(tmp_path):
    path = written(tmp_path, "label-studio", crowd())
    run("fit", path, "--report", "--out", tmp_path / "out")
    assert "Lovelace" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    run("export", tmp_path / "out", "--what", "predictions", "--source", path, "--out", tmp_path / "p.json")
    assert spans_written(tmp_path / "p.json", "label-studio")


def with_more(tool, record):
    """Add to a record what its tool exports besides spans."""
    if tool == "entities":
        return record | {"relations": [{"id": 1, "from_id": 1, "to_id": 2, "type": "knows"}], "cats": ["good"]}
    if tool == "prodigy":
        return record | {"relations": [{"head": 0, "child": 1, "label": "knows"}], "accept": ["good"]}
    region = {"start": 0, "end": 1}
    for annotation in record["annotations"]:
        annotation["result"] += [
            {"id": "s", "from_name": "label", "type": "labels", "value": region | {"labels": ["A", "B"]}},
            {"id": "t", "from_name": "label", "type": "labels", "value": region | {"labels": []}},
            {"id": "s", "from_name": "sure", "type": "choices", "value": region | {"choices": ["yes"]}},
            {"type": "relation", "from_id": "r", "to_id": "s"},
        ]
    return record


@pytest.mark.parametrize(
    ("tool", "wanted"),
    [
        ("entities", "48 relations and 48 labels of whole texts"),
        ("prodigy", "48 relations and 48 chosen options"),
        (
            "label-studio",
            "48 further types of a span and 48 spans without a type and 96 labels of regions, other regions and relations",
        ),
    ],
)
def test_what_is_left_out_beside_spans_is_counted(tmp_path, tool, wanted):
    path = written(tmp_path, tool, crowd())
    assert not any("left out" in note for note in crowdppl.read(path).notes)
    text = path.read_text(encoding="utf-8")
    if tool == "label-studio":
        text = json.dumps([with_more(tool, record) for record in json.loads(text)])
    else:
        text = "\n".join(json.dumps(with_more(tool, json.loads(line))) for line in text.splitlines())
    path.write_text(text, encoding="utf-8")
    assert any(f": {wanted} left out" in note for note in crowdppl.read(path).notes)
