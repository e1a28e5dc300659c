"""Several files that are one export: folders and archives, of one format, with workers and items from names where needed."""

import gzip
import io
import json
import zipfile

import pandas as pd
import pytest
from typer.testing import CliRunner

import crowdppl
from crowdppl import DataError, FileError
from crowdppl.cli.main import app
from crowdppl.data.readers import bundles, formats


def lines(*records):
    return "\n".join(json.dumps(record) for record in records) + "\n"


def both(folder, files):
    """Write files to a folder and to an archive, and return both paths."""
    place = folder / "export"
    with zipfile.ZipFile(folder / "export.zip", "w") as archive:
        for name, content in files.items():
            content = content if isinstance(content, (str, bytes)) else json.dumps(content)
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            archive.writestr(name, content)
    return place, folder / "export.zip"


def triples(data):
    rows = zip(data.items[data.item], data.workers[data.worker], data.labels[data.label], strict=True)
    return sorted((str(i), str(w), str(k)) for i, w, k in rows)


def response(worker, label):
    return {"answers": [{"workerId": worker, "answerContent": {"q": {"label": label}}}]}


def doccano(*labels):
    return lines(*({"id": n, "text": f"t{n}", "label": [label]} for n, label in enumerate(labels, 1)))


def tasks(*keys):
    result = [{"from_name": "q", "type": "choices", "value": {"choices": ["a"]}}]
    return [
        {"id": key, "data": {"t": f"t{key}"}, "annotations": [{"completed_by": who, "result": result} for who in "uv"]}
        for key in keys
    ]


TWO = [("1", "ann.k", "a"), ("1", "bob", "b"), ("2", "ann.k", "b"), ("2", "bob", "b")]
ROWS = "task,label\n1,a\n2,b\n"
GOOD = {
    "doccano": ({"ann.k.jsonl": doccano("a", "b"), "bob.jsonl": doccano("b", "b")}, "doccano", TWO),
    "folders of workers": ({"ann.k/all.jsonl": doccano("a", "b"), "bob/all.jsonl": doccano("b", "b")}, "doccano", TWO),
    "other files beside": (
        {
            "ann.k.jsonl": doccano("a", "b"),
            "bob.jsonl": doccano("b", "b"),
            "README.md": "x",
            ".x.json": "{",
            "1.jpg": b"\xff",
        },
        "doccano",
        TWO,
    ),
    "compressed": (
        {"ann.k.jsonl.gz": gzip.compress(doccano("a", "b").encode()), "bob.jsonl": doccano("b", "b")},
        "doccano",
        TWO,
    ),
    "SageMaker": (
        {
            "worker-response/iteration-1/0/2026-01-01.json": response("w1", "a"),
            "worker-response/iteration-1/0/2026-01-02.json": response("w2", "b"),
            "worker-response/iteration-1/10/2026-01-01.json": response("w1", "b"),
        },
        "sagemaker",
        [("0", "w1", "a"), ("0", "w2", "b"), ("10", "w1", "b")],
    ),
    "SageMaker without folders": (
        {"0.json": response("w1", "a"), "1.json": response("w1", "b")},
        "sagemaker",
        [("0", "w1", "a"), ("1", "w1", "b")],
    ),
    "tables": (
        {"a.csv": "task,worker,label\n1,u,a\n2,u,b\n", "b.csv": "worker,label,task\nv,b,1\n"},
        "long",
        [("1", "u", "a"), ("1", "v", "b"), ("2", "u", "b")],
    ),
    "tables of one worker each": ({"ann.k.csv": ROWS, "bob.csv": ROWS.replace("1,a", "1,b")}, "long", TWO),
    "numbers in one, text in another": (
        {"a.csv": "task,worker,label\n1,7,a\n2,7,b\n", "b.csv": "task,worker,label\n007,x,a\n2,x,b\n"},
        "long",
        [("007", "x", "a"), ("1", "7", "a"), ("2", "7", "b"), ("2", "x", "b")],
    ),
    "Label Studio": (
        {"one.json": tasks(1, 2), "two.json": tasks(3)},
        "label-studio",
        [(str(n), who, "a") for n in (1, 2, 3) for who in "uv"],
    ),
    "one file": ({"x.csv": "task,worker,label\n1,u,a\n1,v,b\n"}, "long", [("1", "u", "a"), ("1", "v", "b")]),
}


@pytest.mark.parametrize(("files", "name", "expected"), GOOD.values(), ids=GOOD)
@pytest.mark.filterwarnings("ignore::crowdppl.CrowdpplWarning")
def test_several_files_are_one_export(tmp_path, files, name, expected):
    for path in both(tmp_path, files):
        assert formats.sniff(path) == name
        data = crowdppl.read(path)
        assert triples(data) == expected
        assert len(data.notes) < 12
        if len(files) > 1:
            assert any("files are read as one" in note for note in data.notes)


def test_notes_are_added_up(tmp_path):
    labels = {f"w{n}.jsonl": doccano("a", "b", "a") for n in range(30)}
    data = crowdppl.read(both(tmp_path, labels)[0])
    assert any("export: read as doccano, 90 annotations" in note for note in data.notes)
    assert data.J == 30
    assert len(data.notes) < 8


def test_records_without_identifiers_are_not_matched_by_their_number(tmp_path):
    files = {
        f"{who}.jsonl": lines(*({"id": None, "text": f"t{n}", "label": ["ab"[n]]} for n in order))
        for who, order in (("u", (0, 1)), ("v", (1, 0)))
    }
    path = both(tmp_path, files)[1]
    data = crowdppl.read(path)
    assert data.N == 4
    assert any("task='text'" in note for note in data.notes)
    assert crowdppl.read(path, task="text").N == 2


def test_known_truths_of_several_files(tmp_path):
    head = "INPUT:x\tOUTPUT:q\tGOLDEN:q\tASSIGNMENT:task_id\tASSIGNMENT:worker_id\n"
    files = {
        "a.tsv": head + "1\ta\ta\tt1\tu\n2\tb\tb\tt2\tu\n",
        "b.tsv": head + "1\tb\tb\tt1\tv\n3\ta\ta\tt3\tv\n",
    }
    data = crowdppl.read(both(tmp_path, files)[0])
    assert data.truth.tolist() == [-1, 1, 0]
    assert any("1 items with contradictory known truths" in note for note in data.notes)


BAD = {
    "formats": (
        {"a.jsonl": doccano("a"), "b.json": tasks(1)},
        r"different formats \('a.jsonl' is 'doccano', 'b.json' is 'label",
    ),
    "columns": ({"a.csv": "task,worker,label\n1,u,a\n", "b.csv": "task,worker,answer\n1,v,a\n"}, r"its columns differ"),
    "nothing": ({"a.jpg": b"x", "b.png": b"y"}, r"contains no file of annotations .*'a.jpg', 'b.png'"),
    "a damaged one": ({"a.jsonl": doccano("a"), "b.jsonl": doccano("a") + "{oops\n"}, r"b.jsonl, line 2 is not JSON"),
    "spans": (
        {"a.jsonl": doccano("a"), "b.jsonl": lines({"id": 1, "label": [[0, 3, "P"]]})},
        r"b.jsonl, line 1: no text",
    ),
    "too large": ({"a.csv": "task,worker,label\n" + "1,u,a\n" * 200, "b.csv": "x" * 400}, r"bytes.*raise limit="),
}


@pytest.mark.parametrize(("files", "message"), BAD.values(), ids=BAD)
def test_other_content_is_refused_in_one_line(tmp_path, files, message):
    for path in both(tmp_path, files):
        with pytest.raises((DataError, FileError), match=message) as error:
            crowdppl.read(path, limit=1500)
        assert "\n" not in str(error.value)
        assert path.name in str(error.value)


def test_damaged_archives(tmp_path):
    path = both(tmp_path, {"a.csv": "task,worker,label\n1,u,a\n" * 20})[1]
    content = bytearray(path.read_bytes())
    content[60:70] = b"\0" * 10
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"export.zip cannot be unpacked: .*; download it again"):
        crowdppl.read(path)
    content = bytearray(both(tmp_path, {"a.csv": "x"})[1].read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + offset] |= 1
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"export.zip is encrypted; unpack it"):
        crowdppl.read(path)


def test_the_command_reads_folders_and_archives(tmp_path):
    folder, archive = both(tmp_path, GOOD["doccano"][0])
    digests = []
    for path in (folder, archive):
        out = tmp_path / f"out-{path.name}"
        result = CliRunner().invoke(app, ["fit", str(path), "--model", "majority-vote", "--out", str(out)])
        assert result.exit_code == 0, result.output
        assert len(pd.read_csv(out / "truth.csv")) == 2
        digests.append(json.loads((out / "run.json").read_text())["input"]["sha256"])
    assert all(len(digest) == 64 for digest in digests)
    before = bundles.digest(folder)
    (folder / "bob.jsonl").write_text(doccano("a", "a"))
    assert bundles.digest(folder) != before


def test_streams_of_archives(tmp_path, monkeypatch):
    content = both(tmp_path, GOOD["doccano"][0])[1].read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert triples(crowdppl.read("-")) == TWO


def test_blank_files_texts_about_the_data_and_people_without_answers_are_left_out(tmp_path):
    files = {
        "admin.jsonl": lines({"id": 1, "text": "t", "label": ["x"]}, {"id": 2, "text": "u", "label": ["y"]}),
        "bob.jsonl": lines({"id": 1, "text": "t", "label": []}, {"id": 2, "text": "u", "label": []}),
        "unknown.jsonl": "\n",
        "README.txt": "how this was made",
        "~$labels.xlsx": b"lock",
    }
    for path in both(tmp_path, files):
        data = crowdppl.read(path)
        assert triples(data) == [("1", "admin", "x"), ("2", "admin", "y")]
        assert any("1 file is blank and left out: 'unknown.jsonl'" in note for note in data.notes)
        assert any("1 file is without an annotation and left out: 'bob.jsonl'" in note for note in data.notes)
        assert not any("README" in note for note in data.notes)


def test_files_none_of_which_has_an_annotation_are_refused(tmp_path):
    files = {name: lines({"id": 1, "text": "t", "label": []}) for name in ("a.jsonl", "b.jsonl")}
    for path in both(tmp_path, files):
        with pytest.raises(DataError, match="no annotation in this doccano export"):
            crowdppl.read(path)
    (tmp_path / "blank").mkdir()
    for path in both(tmp_path / "blank", {"a.jsonl": "", "b.jsonl": " "}):
        with pytest.raises(FileError, match=r"a\.jsonl is empty"):
            crowdppl.read(path)


def test_the_current_folder_has_a_name(tmp_path, monkeypatch):
    (tmp_path / "c.json").write_text('{"a": {"b": 1}}')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileError, match=rf"^{tmp_path.name}: c.json: JSON in an unknown format"):
        crowdppl.read(".")


def test_a_copy_of_a_file_is_noted(tmp_path):
    rows = "task,worker,label\n1,u,a\n2,u,b\n3,u,a\n"
    notes = crowdppl.read(both(tmp_path, {"x.csv": rows, "x (1).csv": rows})[0]).notes
    assert any("has the annotations of" in note for note in notes)
    (tmp_path / "other").mkdir()
    files = {"x.csv": rows, "y.csv": rows.replace("u", "v")}
    notes = crowdppl.read(both(tmp_path / "other", files)[0]).notes
    assert not any("has the annotations of" in note for note in notes)


def test_notes_with_several_numbers_are_of_one_file(tmp_path):
    files = {"a.csv": "id,ann,bob\n1,a,b\n2,a,a\n", "b.csv": "id,kim,lee\n1,a,b\n2,a,a\n"}
    notes = crowdppl.read(both(tmp_path, files)[0], "wide").notes
    assert sum("4 annotations of 2 items by 2 workers" in note for note in notes) == 2
    assert any("a.csv" in note for note in notes)
