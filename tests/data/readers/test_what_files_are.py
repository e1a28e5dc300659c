"""What a file is: tables in JSON, columns of workers, repeated headers, files that hold no annotations, and memory."""

import gzip
import io
import json
import pickle
import sqlite3
import zipfile

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.data.readers import opening
from crowdppl.data.readers.file_kinds import other_kind
from crowdppl.errors import CrowdpplError, CrowdpplWarning, DataError, FileError
from crowdppl.isolation.memory import available_bytes

LONG = pd.DataFrame({"task": list("aabb"), "worker": list("uvuv"), "label": list("xyyy")})
WIDE = pd.DataFrame({"id": ["t1", "t2", "t3"], "ann": ["pos", "neg", "pos"], "bob": ["neg", "neg", "pos"]})


@pytest.fixture
def put(tmp_path):
    def write(name, content):
        path = tmp_path / name
        if not isinstance(content, (str, bytes)):
            content = json.dumps(content)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def refusal(path, **options):
    with pytest.raises(CrowdpplError) as caught:
        crowdppl.read(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---------------------------------------------------------------------- JSON


@pytest.mark.parametrize("lines", [False, True])
def test_records_and_lines_are_tables(put, lines):
    data = crowdppl.read(put("x.json", LONG.to_json(orient="records", lines=lines)))
    assert (data.N, data.J, data.labels.tolist()) == (2, 2, ["x", "y"])


@pytest.mark.parametrize("orient", ["index", "columns", "split", "table", "list", "data", "rows"])
def test_orientations_of_a_long_table(put, orient):
    if orient == "list":
        content = LONG.to_dict(orient="list")
    elif orient == "data":
        content = {"data": LONG.to_dict(orient="records"), "total": 4}
    elif orient == "rows":
        content = {"rows": [{"row_idx": n, "row": row} for n, row in enumerate(LONG.to_dict(orient="records"))]}
    else:
        content = LONG.to_json(orient=orient)
    data = crowdppl.read(put("x.json", content))
    assert (data.N, data.J, data.K, data.A) == (2, 2, 2, 4)


def test_a_table_without_names_of_columns_is_refused(put):
    assert "unknown format" in refusal(put("x.json", LONG.to_json(orient="values")))


@pytest.mark.parametrize("orient", ["records", "index", "columns", "split", "table"])
def test_orientations_of_a_wide_table(put, orient):
    path = put("x.json", WIDE.to_json(orient=orient))
    data = crowdppl.read(path, format="wide")
    assert data.workers.tolist() == ["ann", "bob"]
    assert data.items.tolist() == ["t1", "t2", "t3"]
    assert "no column 'task'" in refusal(path)  # never rows as items and names of columns as workers


OTHER_JSON = {
    "a configuration": {"model": {"name": "bert", "lr": 0.1}, "data": {"path": "x", "n": 3}},
    "package.json": {"name": "x", "version": "1", "scripts": {"build": "tsc"}, "dependencies": {"a": "^1"}},
    "sections of a package": {"scripts": {"build": "tsc", "test": "jest"}, "dependencies": {"a": "^1", "b": "^1"}},
    "translations": {"en": {"yes": "Yes", "no": "No"}, "fr": {"yes": "Oui", "no": "Non"}},
    "switches": {"dev": {"cache": True, "log": True}, "prod": {"cache": True, "log": False}},
    "metrics": {"train": {"accuracy": 0.9, "loss": 0.1}, "test": {"accuracy": 0.8, "loss": 0.1}},
    "counts": {"dog": {"n": 10, "k": 3}, "cat": {"n": 12, "k": 4}},
    "COCO": {"images": [{"id": 1}], "annotations": [{"image_id": 1, "bbox": [1, 2, 3, 4]}], "categories": [{"id": 1}]},
    "GeoJSON": {"type": "FeatureCollection", "features": [{"type": "Feature", "properties": {}}]},
    "a notebook": {"nbformat": 4, "cells": [{"cell_type": "code", "source": []}], "metadata": {}},
    "information on a data set": {"default": {"splits": {"train": {"num_examples": 3}}, "features": {"a": {"b": "c"}}}},
    "nested deeply": {"a": {"b": {"c": {"d": 1}}}},
    "labels turned": WIDE.set_index("id").to_dict(),
}


@pytest.mark.parametrize("case", OTHER_JSON)
def test_json_that_is_no_crowd(put, case):
    assert "x.json" in refusal(put("x.json", OTHER_JSON[case]))


def test_answers_by_task_and_worker(put):
    numbers = {str(t): {str(w): (t + w) % 3 for w in range(4) if (t + w) % 4} for t in range(9)}
    names = {f"{t}.jpg": {who: "cat" if t % 2 else "dog" for who in ("ann", "bob")} for t in range(5)}
    for content, workers in ((numbers, 4), (names, 2)):
        data = crowdppl.read(put("answers.json", content))
        assert (len(content), workers) == (data.N, data.J)
    turned = {str(w): {str(t): t % 2 for t in range(6)} for w in range(3)}
    assert "name format='peerannot'" in refusal(put("answers.json", turned))
    assert crowdppl.read(put("answers.json", turned), format="peerannot").N == 3


def test_shared_tasks_on_disagreement(put):
    item = {"text": "hi", "annotators": "Ann1,Ann2,Ann3", "annotations": "0,1,1", "hard_label": "1"}
    data = crowdppl.read(put("dev.json", {"1": item, "2": item | {"annotations": "0,0,1"}}))
    assert (data.N, data.workers.tolist(), data.labels.tolist()) == (2, ["Ann1", "Ann2", "Ann3"], [0, 1])
    assert not (data.truth >= 0).any()
    later = {"1": {"annotators": "Ann1,Ann2", "annotations": {"Ann1": "5", "Ann2": "-3"}}}
    assert crowdppl.read(put("dev.json", later)).labels.tolist() == [-3, 5]
    assert "3 annotators and 2 annotations" in refusal(put("dev.json", {"1": item | {"annotations": "0,1"}}))


# ---------------------------------------------------------------------- columns of workers


def wide(*rows, **more):
    return pd.DataFrame(rows, columns=["id", "ann", "bob", "eve"]).assign(**more).to_csv(index=False)


ROWS = [(n, "pos" if n % 2 else "neg", "pos" if n % 3 else "neg", "pos" if n % 5 else "neg") for n in range(1, 9)]
NO_WORKERS = {
    "text": [f"the text of item {n}" for n in range(8)],
    "Sentence": [f"s{n}" for n in range(8)],
    "gold": ["pos", "neg"] * 4,
    "ground truth": ["pos", "neg"] * 4,
    "majority_vote": ["pos", "neg"] * 4,
    "final_label": ["pos", "neg"] * 4,
    "expert": ["pos", "neg"] * 4,
    "split": ["train", "test"] * 4,
    "created_at": [f"2024-05-0{n}" for n in range(1, 9)],
    # by their values, whatever the name
    "beschreibung": [f"text nummer {n} von vielen" for n in range(8)],
    "topic": ["sport", "news", "sport", "news"] * 2,
    "p": np.linspace(0.1, 0.9, 8),
    "link": [f"https://x.org/{n}" for n in range(8)],
}


@pytest.mark.parametrize("name", NO_WORKERS)
def test_columns_that_are_no_workers(put, name):
    data = crowdppl.read(put("x.csv", wide(*ROWS, **{name: NO_WORKERS[name]})), format="wide")
    assert data.workers.tolist() == ["ann", "bob", "eve"]
    assert any(repr(name) in note for note in data.notes)


def test_the_columns_of_workers_can_be_named(put):
    path = put("x.csv", wide(*ROWS, gold=["pos", "neg"] * 4))
    assert crowdppl.read(path, format="wide", workers=["ann", "gold"]).workers.tolist() == ["ann", "gold"]
    assert int((crowdppl.read(path, format="wide", truth="gold").truth >= 0).sum()) == 8
    assert "no column 'anna'" in refusal(path, format="wide", workers=["anna"])


def test_workers_with_labels_of_their_own_are_kept(put):
    rows = "id,ann,bob,kim\n1,a,a,c\n2,b,b,\n3,a,b,a\n"
    assert crowdppl.read(put("x.csv", rows), format="wide").J == 3
    assert crowdppl.read(put("x.csv", "id,u,v\n1,a,b\n"), format="wide").J == 2
    scores = "id,u,v,w\n" + "".join(f"{n},{n}.1,{n}.2,{n}.3\n" for n in range(1, 6))
    with pytest.warns(CrowdpplWarning, match="labels are numbers"):
        assert crowdppl.read(put("x.csv", scores), format="wide").J == 3


def test_equal_names_of_columns_are_refused(put):
    assert "2 columns are named 'ann'" in refusal(put("x.csv", "id,ann,ann\n1,a,b\n"), format="wide")
    assert "named 'ann'" in refusal(put("x.csv", "id,ann,ann \n1,a,b\n"), format="wide")
    assert "columns have no name" in refusal(put("x.csv", "id,ann,,\n1,a,b,c\n"), format="wide")
    assert crowdppl.read(put("x.csv", "id,ann,bob,,\n1,a,b,,\n"), format="wide").J == 2


@pytest.mark.parametrize(
    ("content", "options", "labels", "sentence"),
    [
        ("id,u,v\n1,0,1\n2,-1,1\n3,1,1\n", {}, [0, 1], "-1 in 1 cells is read as no label"),
        ("id,u,v\n1,0,1\n2,-1,1\n3,1,1\n", {"labels": [-1, 0, 1]}, [-1, 0, 1], "since it is declared"),
        ("id,u,v\n1,0,1\n2,-1,1\n3,1,\n", {}, [-1, 0, 1], "since other cells are blank"),
        ("id,u,v\n1,-2,1\n2,-1,1\n3,1,1\n", {}, [-2, -1, 1], "since other labels are negative"),
        ("id,u,v\n1,-1,1\n2,-1,1\n3,1,1\n", {}, [-1, 1], "the only other label"),
    ],
)
def test_minus_one(put, content, options, labels, sentence):
    data = crowdppl.read(put("x.csv", content), format="wide", **options)
    assert data.labels.tolist() == labels
    assert any(sentence in note for note in data.notes)


def test_all_missing_columns_are_named_at_once_and_a_wide_table_is_recognised(put):
    message = refusal(put("x.csv", wide(*ROWS, text=[f"t{n}" for n in range(8)])))
    for part in ("no column 'task' or 'item'", "no column 'worker'", "no column 'label'", "name format='wide'"):
        assert part in message
    for content in ("question,rater,rating\n1,u,good\n1,v,bad\n2,u,good\n", "a,b,c\n1,2,3\n4,5,6\n"):
        message = refusal(put("y.csv", content))
        assert "task=..., the worker column with worker=..., the label column with label=..." in message
        assert "wide" not in message


# ---------------------------------------------------------------------- headers inside

HEAD = "task,worker,label\n"
MIDDLE = {
    "with a mark": "\ufefftask,worker,label\n",
    "capitals and blanks": " Task , WORKER,Label \n",
    "quotes": '"task","worker","label"\n',
    "mark and quotes": '\ufeff"task","worker","label"\n',
    "ten times": HEAD * 10,
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("separator", [",", "\t"])
@pytest.mark.parametrize("case", MIDDLE)
def test_a_header_repeated_in_the_middle(put, case, separator, packed):
    content = (HEAD + "1,7,a\n1,8,b\n" + MIDDLE[case] + "2,7,a\n2,8,a\n").replace(",", separator).encode()
    path = put("x.csv.gz" if packed else "x.csv", gzip.compress(content) if packed else content)
    data = crowdppl.read(path)
    assert (data.items.tolist(), data.workers.tolist(), data.labels.tolist()) == ([1, 2], [7, 8], ["a", "b"])
    assert any("repeat" in note and "header left out" in note and "line" in note for note in data.notes)


def test_other_readers_leave_a_repeated_header_out(put):
    content = HEAD + "1,7,a\n1,8,b\n" + HEAD + "2,7,a\n"
    assert Annotations.from_csv(put("x.csv", content), task="task", worker="worker", label="label").K == 2
    assert crowdppl.read(put("x.csv", content.encode("utf-16"))).items.tolist() == [1, 2]
    data = crowdppl.read(put("w.csv", "id,u,v\n1,a,b\nid,u,v\n2,a,a\n"), format="wide")
    assert (data.N, data.labels.tolist()) == (2, ["a", "b"])
    assert any("header left out" in note for note in data.notes)


def test_a_header_in_another_order_is_refused(put):
    content = HEAD + "x,u,a\nworker,task,label\nu,y,a\n"
    assert "line 3: the names of the columns again, in another order" in refusal(put("x.csv", content))


def test_names_of_columns_may_be_labels(put):
    data = crowdppl.read(put("x.csv", HEAD + "1,u,label\n2,u,task\n1,v,label\n"))
    assert data.labels.tolist() == ["label", "task"]


# ---------------------------------------------------------------------- other files


def archive(*names):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name in names:
            file.writestr(name, "<x/>")
    return buffer.getvalue()


def database(tmp_path):
    path = tmp_path / "made.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table x (a)")
    return path.read_bytes()


OTHERS = {
    "annotations.xml": (
        "<?xml version='1.0'?>\n<annotations><image id='0'><tag label='cat'/></image></annotations>",
        "CVAT",
    ),
    "a.eaf": ('<?xml version="1.0"?><ANNOTATION_DOCUMENT AUTHOR=""></ANNOTATION_DOCUMENT>', "ELAN"),
    "voc.xml": ("<annotation><object><name>cat</name></object></annotation>", "Pascal VOC"),
    "other.xml": ("<?xml version='1.0' encoding='UTF-16'?><corpus/>".encode("utf-16"), "is XML"),
    "page.csv": ("<!DOCTYPE html><html></html>", "a web page"),
    "a.pdf": (b"%PDF-1.7\n%\xe2\xe3", "a PDF document"),
    "a.csv": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "an image (PNG)"),
    "b.csv": (b"\xff\xd8\xff\xe0\0\x10JFIF", "an image (JPEG)"),
    "a.pkl": (pickle.dumps({"task": [1]}), "never opened"),
    "b.pkl": (pickle.dumps(LONG, protocol=2), "never opened"),
    "a.rtf": ("{\\rtf1\\ansi task}", "RTF"),
    "a.npy": (b"\x93NUMPY\x01\0v\0{'descr'", "an array of NumPy"),
    "a.nc": (b"\x89HDF\r\n\x1a\n\0\0", "crowdppl.load"),
    "a.feather": (b"ARROW1\0\0\xff\xff", "Arrow"),
    "a.zst": (b"\x28\xb5\x2f\xfd\0", "zstd -d"),
    "a.tar": (b"a.csv".ljust(257, b"\0") + b"ustar\0", "an archive (tar)"),
    "a.rds": (gzip.compress(b"X\n\0\0\0\x03"), "a file of R"),
    "a.xlsx": (archive("[Content_Types].xml", "xl/workbook.xml"), "a workbook that cannot be read"),
    "xlsx.csv": (archive("[Content_Types].xml", "xl/workbook.xml"), "a workbook that cannot be read"),
    "a.xls": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a workbook that cannot be read"),
    "a.doc": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a document of Office"),
    "a.ods": (archive("mimetype", "content.xml"), "OpenDocument"),
    "a.docx": (archive("[Content_Types].xml", "word/document.xml"), "a document (Word)"),
    "a.npz": (archive("x.npy"), "NumPy (npz)"),
    "a.numbers": (archive("Index/Document.iwa"), "Numbers"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_files_are_named(put, name):
    content, part = OTHERS[name]
    assert part in refusal(put(name, content))


def test_a_database_is_named(put, tmp_path):
    assert "SQLite" in refusal(put("x.csv", database(tmp_path)))


def test_text_may_begin_like_a_signature(tmp_path):
    for start in (b"ID3,worker,label\n", b"ORC,x\n", b"RDX\n", b"task,WAVE\n", b"MZ,a\n", b"BZh,a\n"):
        assert other_kind(start, tmp_path / "x.csv") is None


@pytest.mark.parametrize("address", ["https://example.org/a.csv", "http://x/a.csv", "s3://bucket/a.csv"])
def test_addresses_are_to_be_downloaded(address):
    assert f"{address} is an address, not a file; download it first" in refusal(address)


# ---------------------------------------------------------------------- memory


def test_memory_at_hand(tmp_path):
    gib = 2**30
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 8388608 kB\n")
    assert available_bytes(tmp_path) == 8 * gib

    def control_group(name, entry, files):
        (tmp_path / "proc/self/cgroup").write_text(entry)
        (tmp_path / "sys/fs/cgroup" / name).mkdir(parents=True)
        for file, text in files.items():
            (tmp_path / "sys/fs/cgroup" / name / file).write_text(f"{text}\n")

    current = {"memory.current": 3 * gib, "memory.stat": f"anon 5\ninactive_file {gib}"}
    control_group("a/b", "0::/a/b\n", {"memory.max": 5 * gib} | current)
    assert available_bytes(tmp_path) == 3 * gib
    (tmp_path / "sys/fs/cgroup/a/memory.max").write_text("max\n")
    (tmp_path / "sys/fs/cgroup/a/memory.current").write_text("1\n")
    assert available_bytes(tmp_path) == 3 * gib
    old = {"memory.limit_in_bytes": 2 * gib, "memory.usage_in_bytes": 3 * gib}
    control_group("memory/c", "4:memory:/c\n", old)
    assert available_bytes(tmp_path) == 0


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x.jsonl", "x.jsonl.gz", "x.csv.zip"])
def test_files_larger_than_memory_are_refused_before_they_are_read(put, name, monkeypatch):
    rows = LONG.to_json(orient="records", lines=True) if "json" in name else LONG.to_csv(index=False)
    content = (rows * 5000).encode()
    if name.endswith(".gz"):
        content = gzip.compress(content)
    if name.endswith(".zip"):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("x.csv", content)
        content = buffer.getvalue()
    path = put(name, content)
    monkeypatch.setattr(opening, "available_bytes", lambda: 50_000)
    assert "memory that are free; read it on a machine with more" in refusal(path)


def test_exhausted_memory_is_one_line(put, monkeypatch):
    path = put("x.json", [{"a": 1}])

    def exhausted(decoder, text):
        raise MemoryError

    monkeypatch.setattr("crowdppl.data.readers.source.json.JSONDecoder.decode", exhausted)
    assert "needs more memory than this process may use" in refusal(path)


def test_small_json_asks_for_little_memory(put, monkeypatch):
    sizes = []
    opened = opening.decompressed

    def watched(path):
        file = opened(path)
        read = file.read
        return type(
            "File",
            (),
            {
                "read": lambda self, n: (sizes.append(n), read(n))[1],
                "__enter__": lambda s: s,
                "__exit__": lambda s, *a: file.close(),
            },
        )()

    monkeypatch.setattr(opening, "decompressed", watched)
    crowdppl.read(put("x.json", LONG.to_json(orient="records")))
    assert sizes
    assert max(sizes) <= 2**20


def test_blank_files(put):
    assert "begins with 65,536 blank characters" in refusal(put("x.csv", b" " * 70_000))
    assert "begins with 65,536 blank characters" in refusal(put("x.json", b"\n" * 70_000))
    assert "begins with 65,536 blank characters" in refusal(put("x.csv", b"\0" * 70_000))


def test_errors_are_of_the_right_class(put):
    with pytest.raises(DataError):
        crowdppl.read(put("x.csv", "id,ann,ann\n1,a,b\n"), format="wide")
    with pytest.raises(FileError):
        crowdppl.read(put("x.csv", b"%PDF-1.7"))


BESIDE = {
    "behind": "id,ann,ann_conf,bob,bob_conf\n1,1,5,2,4\n2,2,3,2,5\n3,1,5,1,1\n",
    "before": "id,label_1,confidence_1,label_2,confidence_2\n1,1,5,2,4\n2,2,3,2,5\n3,1,5,1,1\n",
    "numbers": "id,annotator1,annotator2,time1,time2\n1,1,2,5,4\n2,2,2,3,5\n3,1,1,5,1\n",
    "words": "id,Rater 1 label,Rater 1 time spent,Rater 2 label,Rater 2 time spent\n1,1,5,2,4\n2,2,3,2,5\n3,1,5,1,1\n",
    "comments": "id,ann,ann_comment,bob,bob_comment\n1,1,well,2,bad\n2,2,,2,\n3,1,,1,ok\n",
    "others": "id,batch,ann,bob,Resolved\n1,1,1,2,1\n2,1,2,2,2\n3,2,1,1,1\n",
}


@pytest.mark.parametrize("text", BESIDE.values(), ids=BESIDE)
def test_what_workers_enter_beside_their_labels_is_no_worker(tmp_path, text):
    (tmp_path / "x.csv").write_text(text)
    data = crowdppl.read(tmp_path / "x.csv", format="wide")
    assert (data.J, data.labels.tolist()) == (2, [1, 2])
    assert any("not taken for workers" in note for note in data.notes)


def test_sums_at_the_end_of_a_wide_table_are_no_items(tmp_path):
    (tmp_path / "x.csv").write_text("id,ann,bob\n1,1,0\n2,1,1\n3,0,0\nTotal,2,1\nMean,0.7,0.3\n")
    data = crowdppl.read(tmp_path / "x.csv", format="wide")
    assert data.items.tolist() == ["1", "2", "3"]
    assert any("'Total', 'Mean' at the end are left out" in note for note in data.notes)


def test_a_wide_table_whose_columns_are_no_workers_by_name(tmp_path):
    (tmp_path / "x.csv").write_text("id,mode,status\n1,1,1\n2,1,2\n")
    with pytest.raises(DataError, match=r"columns .* are not, by their names; name those of workers with workers=\["):
        crowdppl.read(tmp_path / "x.csv", format="wide")
    assert crowdppl.read(tmp_path / "x.csv", format="wide", workers=["mode", "status"]).J == 2


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("#FORMAT=WebAnno TSV 3.3\n#T_SP=x\n\n#Text=A b.\n1-1\t0-1\tA\t_\n", "a document of INCEpTION or WebAnno"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12\n", "a pointer of Git LFS"),
        ("- task: x\n  worker: u\n  label: a\n", "is YAML, which is not read"),
        (
            "Export of May,,\n,,\ntask,worker,label\nx,u,a\n",
            "row 2 has the names of the columns: delete the lines above",
        ),
        (
            " task | worker | label \n---+---+---\n x | u | a\n",
            "the file has a single column: separate columns by commas",
        ),
    ],
)
def test_texts_that_are_no_table_are_named(tmp_path, text, what):
    (tmp_path / "x.tsv").write_text(text)
    with pytest.raises(CrowdpplError, match=what):
        crowdppl.read(tmp_path / "x.tsv")


def test_columns_in_the_index_are_named():
    with pytest.raises(DataError, match=r"'task', 'worker' are in the index of the frame: pass frame.reset_index\(\)"):
        Annotations.from_frame(LONG.set_index(["task", "worker"]))


def test_a_column_that_is_not_similar_is_not_suggested():
    frame = LONG.set_axis(["Status", "Participant id", "x"], axis=1)
    with pytest.raises(DataError) as raised:
        Annotations.from_frame(frame)
    assert "did you mean" not in str(raised.value)
    with pytest.raises(DataError, match="did you mean 'tasks'"):
        Annotations.from_frame(LONG.set_axis(["tasks", "worker", "label"], axis=1))


@pytest.mark.parametrize("names", [("1", "01"), ("1", "1.0"), ("007", "7.0")])
def test_numbers_that_differ_in_zeros_have_a_warning(names):
    for role in ("task", "worker"):
        frame = LONG.assign(**{role: [*names, *names] if role == "task" else [names[0], names[1], *names]})
        with pytest.warns(
            CrowdpplWarning, match=f"1 {role} name differs from another in leading zeros or decimals only"
        ):
            assert len(getattr(Annotations.from_frame(frame), f"{role}s" if role == "worker" else "items")) == 2
