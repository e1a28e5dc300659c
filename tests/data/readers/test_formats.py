"""Exports of platforms and tools: what is taken, what is left out and reported, what is refused, in one line each."""

import bz2
import gzip
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import crowdppl
from crowdppl import CrowdpplError, DataError, FileError, OptionError
from crowdppl.cli.main import app
from crowdppl.data.readers import formats

ANN, BOB = "ann@x.org", "bob@x.org"


def lines(*records):
    return "\n".join(json.dumps(record) for record in records) + "\n"


def label_studio_task(n, *answers, **more):
    """A task of Label Studio's JSON; an answer is (who, choice) or a whole annotation."""
    annotations = [
        answer
        if isinstance(answer, dict)
        else {
            "id": 10 * n + m,
            "completed_by": answer[0],
            "result": [
                {"from_name": "animal", "to_name": "image", "type": "choices", "value": {"choices": [answer[1]]}}
            ],
            "was_cancelled": False,
            "ground_truth": False,
            "created_at": "2026-05-01T10:00:00.123456Z",
            "lead_time": 2.5 * m,
        }
        for m, answer in enumerate(answers, 1)
    ]
    return {"id": n, "data": {"image": f"{n}.jpg"}, "annotations": annotations} | more


CANCELLED = {"completed_by": 2, "result": [], "was_cancelled": True}
GROUND = {
    "completed_by": 9,
    "ground_truth": True,
    "result": [{"from_name": "animal", "type": "choices", "value": {"choices": ["cat"]}}],
}
PRODIGY = {"_task_hash": 1, "_input_hash": 11, "text": "x"}

# name, content, file name, annotations (task, worker, label), sentences among the notes
GOOD = [
    (
        "toloka",
        "INPUT:image\tOUTPUT:result\tGOLDEN:result\tASSIGNMENT:task_id\tASSIGNMENT:worker_id\tASSIGNMENT:status\t"
        "ASSIGNMENT:started\tASSIGNMENT:submitted\n"
        "a.jpg\tcat\t\tt1\tw1\tAPPROVED\t2026-01-01T10:00:00\t2026-01-01T10:00:04\n"
        "a.jpg\tdog\t\tt1\tw2\tAPPROVED\t2026-01-01T10:00:00\t2026-01-01T10:00:08\n\t\t\t\t\t\t\t\n"
        "b.jpg\tdog\tdog\tt2\tw1\tAPPROVED\t\t\nb.jpg\tcat\t\tt2\tw3\tREJECTED\t\t\nb.jpg\t\t\tt2\tw4\tSKIPPED\t\t\n",
        "toloka.tsv",
        [("t1", "w1", "cat"), ("t1", "w2", "dog"), ("t2", "w1", "dog")],
        ["1 annotations that were rejected left out", "1 annotations that were skipped left out", "1 known truths"],
    ),
    (
        "mturk",
        "HITId,AssignmentId,WorkerId,AssignmentStatus,WorkTimeInSeconds,Input.image,Answer.animal\n"
        "H1,A1,W1,Approved,12,a.jpg,cat\nH1,A2,W2,Submitted,30,a.jpg,dog\nH2,A3,W1,Rejected,1,b.jpg,dog\n"
        "H2,A4,W2,Approved,9,b.jpg,\n",
        "batch.csv",
        [("H1", "W1", "cat"), ("H1", "W2", "dog")],
        ["1 annotations that were rejected left out", "1 annotations without a label left out"],
    ),
    (
        "mturk",
        "HITId,WorkerId,Answer.animal.cat,Answer.animal.dog\nH1,W1,true,false\nH1,W2,false,true\nH2,W1,false,true\n",
        "batch.csv",
        [("H1", "W1", "cat"), ("H1", "W2", "dog"), ("H2", "W1", "dog")],
        [],
    ),
    (
        "appen",
        "_unit_id,_created_at,_started_at,_golden,_tainted,_trust,_worker_id,relevant,relevant_gold,text\n"
        "7,1/2/2026 10:00:30,1/2/2026 10:00:00,false,false,1,100,yes,,one\n"
        "7,1/2/2026 10:01:00,1/2/2026 10:00:00,false,false,.9,101,no,,one\n"
        "8,1/2/2026 10:00:30,1/2/2026 10:00:00,true,false,1,100,yes,yes,two\n"
        "8,1/2/2026 10:00:30,1/2/2026 10:00:00,true,true,.2,102,no,yes,two\n",
        "full.csv",
        [(7, 100, "yes"), (7, 101, "no"), (8, 100, "yes")],
        ["1 annotations of tainted or rejected work left out", "1 known truths"],
    ),
    (
        "label-studio-csv",
        "id,image,annotator,annotation_id,lead_time,animal\n1,a.jpg,5,51,3.2,cat\n1,a.jpg,6,52,4.1,dog\n",
        "project.csv",
        None,
        [],
    ),
    (
        "label-studio",
        json.dumps([label_studio_task(1, (1, "cat"), (2, "dog"), CANCELLED), label_studio_task(2, (1, "cat"), GROUND)]),
        "project.json",
        [(1, 1, "cat"), (1, 2, "dog"), (2, 1, "cat")],
        ["1 annotations that were cancelled (skipped) left out", "marked as ground truth", "1 known truths"],
    ),
    (
        "label-studio",
        json.dumps([label_studio_task(1, ({"id": 3, "email": ANN}, "cat"), ({"id": 4, "email": BOB}, "dog"))]),
        "project.json",
        [(1, ANN, "cat"), (1, BOB, "dog")],
        [],
    ),
    (
        "label-studio",
        json.dumps(
            [
                {"id": 1, "annotator": 5, "annotation_id": 1, "animal": "cat", "lead_time": 1.0},
                {"id": 1, "annotator": 6, "annotation_id": 2, "animal": {"choices": ["dog"]}},
            ]
        ),
        "min.json",
        [(1, 5, "cat"), (1, 6, "dog")],
        [],
    ),
    (
        "prodigy",
        lines(
            PRODIGY | {"answer": "accept", "accept": ["cat"], "_annotator_id": "ann", "_timestamp": 100},
            PRODIGY | {"answer": "accept", "accept": ["dog"], "_session_id": "bob", "_timestamp": 101},
            PRODIGY | {"_input_hash": 12, "answer": "ignore", "accept": [], "_annotator_id": "ann"},
            PRODIGY | {"_input_hash": 12, "answer": "reject", "accept": ["cat"], "_annotator_id": "bob"},
        ),
        "prodigy.jsonl",
        [(11, "ann", "cat"), (11, "bob", "dog")],
        [
            "1 annotations that were ignored (skipped) left out",
            "1 annotations of tasks that were rejected as a whole left out",
        ],
    ),
    (
        "prodigy",
        lines(
            PRODIGY | {"label": "SPAM", "answer": "accept", "_annotator_id": "ann"},
            PRODIGY | {"label": "SPAM", "answer": "reject", "_annotator_id": "bob"},
        ),
        "binary.jsonl",
        [(1, "ann", "accept"), (1, "bob", "reject")],
        [],
    ),
    (
        "doccano",
        lines(
            {"id": 1, "text": "x", "label": ["pos"]}, {"id": 2, "text": "y", "label": []}, {"id": 3, "label": ["neg"]}
        ),
        "alice.jsonl",
        [(1, "alice", "pos"), (3, "alice", "neg")],
        ["1 annotations without a label left out"],
    ),
    (
        "doccano",
        lines(
            {"id": 1, "text": "x", "label": ["pos"], "annotator": "ann"},
            {"id": 1, "label": ["neg"], "annotator": "bob"},
        ),
        "all.jsonl",
        [(1, "ann", "pos"), (1, "bob", "neg")],
        [],
    ),
    (
        "argilla",
        lines(
            {
                "id": "r1",
                "animal.responses": ["cat", "dog", None, "cat"],
                "animal.responses.users": ["u1", "u2", "u3", "u4"],
                "animal.responses.status": ["submitted", "submitted", "discarded", "draft"],
            },
            {"id": "r2", "animal.responses": None},
        ),
        "argilla.jsonl",
        [("r1", "u1", "cat"), ("r1", "u2", "dog")],
        ["1 annotations that were discarded (skipped) left out", "1 annotations that are drafts left out"],
    ),
    (
        "sagemaker",
        json.dumps(
            {
                "answers": [
                    {
                        "answerContent": {"crowd-classifier": {"label": "cat"}},
                        "workerId": "private.1",
                        "submissionTime": "2026-01-01T00:00:05Z",
                        "timeSpentInSeconds": 5.5,
                    },
                    {"answerContent": {"crowd-classifier": {"label": "dog"}}, "workerId": "private.2"},
                ]
            }
        ),
        "2026.json",
        [(0, "private.1", "cat"), (0, "private.2", "dog")],
        [],
    ),
    (
        "sagemaker",
        json.dumps(
            [
                {
                    "datasetObjectId": "4",
                    "dataObject": {"s3Uri": "s3://x"},
                    "annotations": [
                        {"workerId": "w1", "annotationData": {"content": json.dumps({"category": {"label": "cat"}})}},
                        {"workerId": "w2", "annotationData": {"content": json.dumps({"category": {"label": "dog"}})}},
                    ],
                }
            ]
        ),
        "request.json",
        [("4", "w1", "cat"), ("4", "w2", "dog")],
        [],
    ),
    (
        "peerannot",
        json.dumps({"0": {"7": 1, "8": 0}, "1": {"7": 1}}),
        "answers.json",
        [(0, 7, 1), (0, 8, 0), (1, 7, 1)],
        [],
    ),
]


def triples(data):
    return sorted(
        zip(
            data.items[data.item].tolist(),
            data.workers[data.worker].tolist(),
            data.labels[data.label].tolist(),
            strict=True,
        ),
        key=str,
    )


def put(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content", "file", "expected", "sentences"), GOOD, ids=[f"{g[0]}-{n}" for n, g in enumerate(GOOD)]
)
def test_every_export_is_recognised_and_read(tmp_path, name, content, file, expected, sentences):
    path = put(tmp_path, file, content)
    assert formats.sniff(path) == name
    options = {"question": "animal"} if name == "label-studio-csv" else {}
    data = crowdppl.read(path, **options)
    if expected is None:
        expected = [(1, 5, "cat"), (1, 6, "dog")]
    assert triples(data) == sorted(expected, key=str)
    notes = " ".join(data.notes)
    assert f"{len(expected):,} annotations" in notes
    for sentence in sentences:
        assert sentence in notes
    assert triples(crowdppl.read(path, format=name, **options)) == triples(data)
    # A compressed copy is the same file.
    packed = put(tmp_path, f"{file}.gz", gzip.compress(content.encode()))
    assert formats.sniff(packed) == name


def test_moments_durations_and_truths_come_along(tmp_path):
    toloka = crowdppl.read(put(tmp_path, "t.tsv", GOOD[0][1]))
    assert np.nanmedian(toloka.seconds.numpy()) == 6
    assert toloka.timestamp[1] - toloka.timestamp[0] == 4
    assert toloka.labels[toloka.truth[toloka.items.tolist().index("t2")]] == "dog"
    studio = crowdppl.read(put(tmp_path, "l.json", GOOD[5][1]))
    assert studio.seconds.tolist()[0] == 2.5
    assert studio.labels[studio.truth[1]] == "cat"
    appen = crowdppl.read(put(tmp_path, "a.csv", GOOD[3][1]))
    # Worker 100 gave two annotations on one page of 30 seconds.
    assert appen.seconds.tolist() == [15, 60, 15]
    assert any("divided by their number" in note for note in appen.notes)


def test_skipped_work_is_missing_or_a_label(tmp_path):
    """Skipped work is left out and reported, or a label of its own with an option."""
    path = put(tmp_path, "l.json", GOOD[5][1])
    assert "(skipped)" not in crowdppl.read(path).labels
    answer = crowdppl.read(path, skip="label")
    assert (1, 2, "(skipped)") in triples(answer)
    assert answer.labels.tolist() == ["(skipped)", "cat", "dog"]
    kept = crowdppl.read(put(tmp_path, "t.tsv", GOOD[0][1]), rejected=True)
    assert ("t2", "w3", "cat") in triples(kept)
    with pytest.raises(OptionError, match="'missing' or 'label'"):
        crowdppl.read(path, skip="never")


def test_sets_of_labels(tmp_path):
    record = {"id": 1, "text": "x", "label": ["b", "a"], "annotator": "ann"}
    path = put(tmp_path, "d.jsonl", lines(record, record | {"annotator": "bob", "label": ["a"]}))
    with pytest.raises(DataError, match=r"line 1: 2 labels in one annotation, 'b', 'a'.*several='sets'"):
        crowdppl.read(path)
    assert triples(crowdppl.read(path, several="join")) == [(1, "ann", "a;b"), (1, "bob", "a")]
    with pytest.raises(OptionError, match="'refuse', 'join', 'sets' or 'keep'"):
        crowdppl.read(path, several="both")


def test_one_of_several_questions(tmp_path):
    path = put(tmp_path, "b.csv", "HITId,WorkerId,Answer.animal,Answer.mood\nH1,W1,cat,good\nH1,W2,dog,bad\n")
    with pytest.raises(DataError, match="answers to 2 questions, 'animal', 'mood'; choose one with question="):
        crowdppl.read(path)
    assert crowdppl.read(path, question="mood").labels.tolist() == ["bad", "good"]
    with pytest.raises(DataError, match=r"no question 'moood' \(did you mean 'mood'"):
        crowdppl.read(path, question="moood")


WIDE = [
    (
        "id,w1,w2,w3\nx,1,,2\ny,-1,1,1\n",
        [("x", "w1", 1), ("x", "w3", 2), ("y", "w1", -1), ("y", "w2", 1), ("y", "w3", 1)],
    ),
    ("task,7,8\n1,a,b\n2,,a\n", [(1, 7, "a"), (1, 8, "b"), (2, 8, "a")]),
    (",a,b\n0,1.0,\n1,0.0,1.0\n", [(0, "a", 1), (1, "a", 0), (1, "b", 1)]),
]


@pytest.mark.parametrize(("content", "expected"), WIDE)
def test_wide_tables(tmp_path, content, expected):
    data = crowdppl.read(put(tmp_path, "w.csv", content), format="wide")
    assert triples(data) == sorted(expected, key=str)
    assert "cells empty" in " ".join(data.notes)


def test_mace(tmp_path):
    data = crowdppl.read(put(tmp_path, "m.csv", "NOUN,,VERB\n,NOUN,NOUN\nVERB,VERB,\n"), format="mace")
    assert triples(data) == sorted(
        [(1, 1, "NOUN"), (1, 3, "VERB"), (2, 2, "NOUN"), (2, 3, "NOUN"), (3, 1, "VERB"), (3, 2, "VERB")], key=str
    )


def test_mace_counts_blank_lines(tmp_path):
    """MACE numbers items by line: a blank line is an item that nobody annotated, and is not closed up."""
    content = "NOUN,,VERB\n,NOUN,NOUN\n\nVERB,VERB,\n,,\nVERB,,NOUN\n\n\n"
    data = crowdppl.read(put(tmp_path, "m.csv", content), format="mace")
    assert data.items.tolist() == [1, 2, 4, 6]
    assert data.annotations_per_item.tolist() == [2, 2, 2, 2]
    assert "2 blank lines are items without annotations" in " ".join(data.notes)
    assert crowdppl.read(put(tmp_path, "n.csv", "\n\n" + content), format="mace").items.tolist() == [3, 4, 6, 8]
    with pytest.raises(DataError, match="line 2: 2 columns, other lines have 3"):
        crowdppl.read(put(tmp_path, "m.csv", "a,,b\na,b\n"), format="mace")
    with pytest.raises(FileError, match="is empty"):
        crowdppl.read(put(tmp_path, "m.csv", "\n,\n"), format="mace")


def test_soft_labels(tmp_path):
    content = "task,worker,p_cat,p_dog\n1,a,.9,.1\n1,b,.2,.8\n2,a,.5,.5\n"
    data = crowdppl.read(put(tmp_path, "s.csv", content), format="soft")
    assert triples(data) == [(1, "a", "cat"), (1, "b", "dog")]
    assert "tied most probable classes left out" in " ".join(data.notes)
    for bad in (content.replace(".9,.1", ".9,.2"), content.replace(".2,.8", "-1,2"), content.replace(".5,.5", "x,1")):
        with pytest.raises(DataError, match="sum to one"):
            crowdppl.read(put(tmp_path, "s.csv", bad), format="soft")


# name, file, content, part of the message
BAD = [
    ("nothing", "x.json", "", "is empty"),
    ("no records", "x.json", "[]", "contains no record"),
    ("other JSON", "x.json", '{"a": 1}', r"JSON in an unknown format \(keys 'a'\)"),
    ("cut off", "x.json", GOOD[5][1][:-20], "is not JSON"),
    ("a bad line", "x.jsonl", GOOD[8][1] + "{oops\n", "line 5 is not JSON"),
    ("deep", "x.json", "[" * 100_000 + "]" * 100_000, "nested too deeply"),
    ("web page", "x.csv", "<!DOCTYPE html><html><body>Sign in</body></html>", "is a web page"),
    ("web page as JSON", "x.json", "<html>", "is a web page"),
    ("wrong encoding", "x.json", json.dumps([{"a": "é"}], ensure_ascii=False).encode("latin-1"), "not UTF-8"),
    ("truncated gzip", "x.json.gz", gzip.compress(b"[1, 2, 3]" * 1000)[:40], "cannot be read"),
    (
        "Toloka's aggregate",
        "x.tsv",
        "INPUT:image\tOUTPUT:result\tCONFIDENCE:result\na\tcat\t90%\n",
        "contains a consensus.*ASSIGNMENT:worker_id",
    ),
    (
        "Appen's aggregate",
        "x.csv",
        "_unit_id,_golden,relevant,relevant:confidence\n1,false,yes,.9\n",
        "contains a consensus.*full report",
    ),
    (
        "a manifest",
        "x.manifest",
        lines({"source-ref": "s3://x", "job": 0, "job-metadata": {"class-name": "cat"}}),
        "contains a consensus.*worker responses",
    ),
    ("MTurk without workers", "x.csv", "HITId,Answer.x\nH,1\n", "column WorkerId"),
    ("no annotator", "x.jsonl", lines(PRODIGY | {"answer": "accept", "accept": ["a"]}), "line 1: no annotator"),
    (
        "an odd answer",
        "x.jsonl",
        lines(PRODIGY | {"answer": "maybe", "_annotator_id": "a"}),
        "must be accept, reject or ignore",
    ),
    (
        "all skipped",
        "x.jsonl",
        lines(PRODIGY | {"answer": "ignore", "_annotator_id": "a"}),
        r"no annotation in this Prodigy export \(left out: 1 that",
    ),
    ("spans", "x.jsonl", lines({"id": 1, "text": "x", "label": [[0, 3, "PER"]]}), "a span from 0 to 3 in a text of 1"),
    (
        "lists of different length",
        "x.jsonl",
        lines({"id": 1, "q.responses": ["a"], "q.responses.users": ["u", "v"]}),
        "1 responses, 2 users",
    ),
    (
        "content that is not JSON",
        "x.json",
        json.dumps([{"annotations": [{"workerId": "w", "annotationData": {"content": "{"}}]}]),
        "not JSON",
    ),
    (
        "only boxes",
        "x.json",
        json.dumps([{"id": 1, "data": {}, "annotations": [{"result": [{"type": "rectanglelabels"}]}]}]),
        "it contains 1 regions and labels of regions, which are not classes of a task",
    ),
    (
        "annotations of another shape",
        "x.json",
        json.dumps([{"id": 1, "data": {}, "annotations": [[1]]}]),
        "not a list of objects",
    ),
    ("a list of numbers", "x.json", "[1, 2]", "JSON in an unknown format"),
]


@pytest.mark.parametrize(("file", "content", "message"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_bad_files_get_one_clear_line(tmp_path, file, content, message):
    path = put(tmp_path, file, content)
    with pytest.raises(CrowdpplError, match=message) as error:
        crowdppl.read(path)
    assert "\n" not in str(error.value)
    assert file in str(error.value)
    result = CliRunner().invoke(app, ["fit", str(path), "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


def test_bombs_are_not_unpacked(tmp_path):
    small = put(tmp_path, "x.csv.bz2", bz2.compress(b"task,worker,label\n" + b"1,2,3\n1,3,4\n" * 250_000))
    assert small.stat().st_size < 5_000
    for path in (small, put(tmp_path, "x.json.gz", gzip.compress(b"[" + b" " * 2_000_000 + b"]"))):
        with pytest.raises(FileError, match="more than 1,000,000 bytes once decompressed; raise limit="):
            crowdppl.read(path, limit=1_000_000)
    assert crowdppl.read(small).A == 500_000


@pytest.mark.parametrize("separator", [",", "\t", ";"])
def test_tables_by_any_separator(tmp_path, separator):
    rows = [("task", "worker", "label"), ("1", "ann", "a,b" if separator != "," else "ab"), ("1", "bob", "x")]
    path = put(tmp_path, "x.csv", "\n".join(separator.join(row) for row in rows) + "\n")
    assert triples(crowdppl.read(path)) == [(1, "ann", rows[1][2]), (1, "bob", "x")]


def test_formats_are_named(tmp_path):
    with pytest.raises(OptionError, match=r"no format 'toloko' \(did you mean 'toloka'"):
        crowdppl.read(tmp_path / "x", format="toloko")
    with pytest.raises(FileError, match="no file"):
        crowdppl.read(tmp_path / "x")
    path = put(tmp_path, "x.csv", "task,worker,label\n1,a,x\n1,b,y\n2,a,x\n")
    assert formats.sniff(path) == "long"
    assert len(crowdppl.read(path).items) == 2
    with pytest.raises(FileError, match="is a table, not"):
        crowdppl.read(path, format="prodigy")
    with pytest.raises(FileError, match="is JSON, not"):
        crowdppl.read(put(tmp_path, "x.json", "[]"), format="toloka")
    output = CliRunner().invoke(app, ["formats"]).output
    assert all(name in output for name in formats.FORMATS)


def test_the_command_reads_exports(tmp_path):
    path = put(tmp_path, "l.json", GOOD[5][1])
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["fit", str(path), "--method", "em", "--skip", "label", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "(skipped)" in (out / "confusion.csv").read_text()
    assert "marked as ground truth" in " ".join(result.output.split())
    posterior = crowdppl.load(out / "posterior.nc")
    assert (posterior.known_truth() >= 0).sum() == 1


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([(g[1], g[2]) for g in GOOD]),
    st.lists(
        st.tuples(st.integers(0, 10_000), st.sampled_from(list('{}[]",:\t\n\\0aé\u2028')), st.booleans()),
        min_size=1,
        max_size=6,
    ),
)
def test_damaged_exports_end_in_one_exception(tmp_path_factory, export, damage):
    """Characters put in or taken out at random: read, or refused by the library's own exception, never another."""
    content, name = export
    for place, sign, insert in damage:
        at = place % len(content)
        content = content[:at] + (sign if insert else "") + content[at + (0 if insert else 1) :]
    path = put(tmp_path_factory.mktemp("fuzz"), name, content)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", crowdppl.CrowdpplWarning)
        try:
            data = crowdppl.read(path)
        except CrowdpplError as error:
            refusals = [str(error)]
        else:
            refusals = []
            assert data.A >= 1
    assert not any("\n" in refusal for refusal in refusals)


def test_frames_of_the_readers_are_plain(tmp_path):
    """Identifiers of one kind in each column: whole numbers, or strings."""
    path = put(tmp_path, "p.json", json.dumps({"a": {"1": 0, "2": 1.0}, "7": {"1": "x"}}))
    frame = formats.read(path, "peerannot").frame
    assert frame["worker"].dtype == np.int64
    assert frame["task"].tolist() == ["a", "a", "7"]
    assert frame["label"].tolist() == ["0", "1", "x"]
    assert isinstance(frame, pd.DataFrame)


@pytest.mark.parametrize(
    ("name", "content", "format", "said"),
    [
        ("x.csv", "task,worker,label\n1,a,x\n1,b,y\n", None, "row for each annotation, without questions"),
        (
            "x.json",
            '[{"task": 1, "worker": "a", "label": "x"}, {"task": 1, "worker": "b", "label": "y"}]',
            None,
            "without questions",
        ),
        ("x.csv", "task,ann,bob\n1,x,y\n2,x,x\n", "wide", "a column for each worker.*leave it out"),
        ("x.json", '{"t": {"ann": 1, "bob": 0}, "u": {"ann": 1, "bob": 1}}', "peerannot", "peerannot"),
    ],
)
def test_a_question_of_files_without_questions_is_refused(tmp_path, name, content, format, said):
    (tmp_path / name).write_text(content)
    with pytest.raises(OptionError, match=said):
        crowdppl.read(tmp_path / name, format, question="mood")
