"""Files that are copies of others, names of files that are no names of workers, and files that are no data."""

import gzip
import json
import time

import pandas as pd
import pytest

import crowdppl
from crowdppl.data.readers.copied_files import _within
from crowdppl.data.readers.file_kinds import other_kind
from crowdppl.data.readers.records import Records
from crowdppl.errors import FileError, silent

ROWS = [(f"t{i}", w, "ab"[(i + j) % 2]) for i in range(14) for j, w in enumerate("uvw")]
HEAD = "task,worker,label\n"


def table(rows):
    return HEAD + "".join(",".join(row) + "\n" for row in rows)


def folder(tmp_path, files):
    for name, content in files.items():
        path = tmp_path / "x" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with silent("files"):
        return crowdppl.read(tmp_path / "x")


def own(labels):
    return "task,label\n" + "".join(f"t{n},{label}\n" for n, label in enumerate(labels))


@pytest.mark.parametrize(
    ("files", "copy"),
    [
        ({"a.csv": table(ROWS), "b.csv.gz": gzip.compress(table(ROWS).encode())}, "b.csv.gz"),
        ({"a.csv": table(ROWS), "b.csv": table(ROWS[::-1])}, "b.csv"),
        ({"all.csv": table(ROWS), "p1.csv": table(ROWS[:20])}, "p1.csv"),
        (
            {
                "a.csv": table(ROWS),
                "b.json": json.dumps([dict(zip(("task", "worker", "label"), r, strict=True)) for r in ROWS]),
            },
            "b.json",
        ),
    ],
)
def test_files_in_other_files(tmp_path, files, copy):
    assert any(f"{copy!r} has the annotations of" in note for note in folder(tmp_path, files).notes)


def test_few_equal_rows_are_no_copy(tmp_path):
    one = [(f"t{i}", "u", "ab"[i % 2]) for i in range(6)]
    notes = folder(tmp_path, {"main.csv": table(one), "pilot.csv": table(one[:3])}).notes
    assert not any("has the annotations of" in note for note in notes)


def test_each_file_within_another_has_its_rarest_row():
    rows = [(f"t{i}", f"w{j}", "ab"[(i + j) % 2]) for j in range(8) for i in range(25)]
    frames = [pd.DataFrame(rows[n * 25 : n * 25 + 25]) for n in range(8)]
    parts = [Records(frame, "long") for frame in [*frames, pd.concat(frames[:3]), frames[0]]]
    assert _within(parts[:8]) == []  # a worker each
    assert _within(parts) == [(8, 0), (8, 1), (8, 2), (0, 9)]


def test_files_of_different_people_are_no_copies(tmp_path):
    files = {"ann.csv": own("abab"), "bob.csv": own("abab"), "cem.csv": own("ab")}
    assert not any("has the annotations of" in note for note in folder(tmp_path, files).notes)


@pytest.mark.parametrize(
    "name", ["ann_v2", "Copy of ann", "ann (conflicted copy 2024-01-01)", "ann - Kopie", "ann_old"]
)
def test_names_of_copies(tmp_path, name):
    data = folder(tmp_path, {"ann.csv": own("abab"), f"{name}.csv": own("aaab"), "bob.csv": own("abbb")})
    assert any(f"{name!r} is taken for another worker than 'ann'" in note for note in data.notes)


def test_names_of_people_are_no_copies(tmp_path):
    data = folder(
        tmp_path, {f"{name}.csv": own("abab"[n:] + "ab"[:n]) for n, name in enumerate(("ann", "anna", "bob"))}
    )
    assert not any("taken for another worker" in note for note in data.notes)
    models = {f"llama_v{n}.csv": own("abab"[n:] + "ab"[:n]) for n in (2, 3)}
    (tmp_path / "models").mkdir()
    assert not any("taken for another worker" in note for note in folder(tmp_path / "models", models).notes)


@pytest.mark.parametrize(("start", "asked"), [("", True), ("export_", True), ("ann_", False)])
def test_names_that_are_dates(tmp_path, start, asked):
    data = folder(tmp_path, {f"{start}2024-01-0{n}.csv": own("abab"[n:] + "ab"[:n]) for n in (1, 2)})
    assert any("the names of the files are dates" in note for note in data.notes) == asked


def test_folders_by_the_value_of_a_column(tmp_path):
    data = folder(tmp_path, {"worker=ann/part-0.csv": own("abab"), "worker=bob/part-0.csv": own("abbb")})
    assert data.workers.tolist() == ["ann", "bob"]


def test_files_without_a_row_are_named(tmp_path):
    data = folder(tmp_path, {"ann.csv": own("abab"), "bob.csv": own("abbb"), "cem.csv": "task,label\n"})
    assert any("1 file is without a row and left out: 'cem.csv'" in note for note in data.notes)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("-----BEGIN PGP MESSAGE-----\nabc\n", "encrypted"),
        ("age-encryption.org/v1\nabc\n", "encrypted"),
        (b"Salted__" + b"\1" * 50, "encrypted"),
        ("/annex/objects/SHA256E-s123--abc.csv\n", "pointer of git-annex"),
        ("outs:\n- md5: abc\n", "pointer of DVC"),
        ("[InternetShortcut]\nURL=https://x.org\n", "a link"),
        ("https://docs.google.com/spreadsheets/d/1/edit\n", "a link"),
        ("data:text/csv;base64,dGFzaw==", "an address with the data in it"),
        (HEAD + "<<<<<<< HEAD\nt1,u,a\n=======\nt1,u,b\n>>>>>>> theirs\n", "in conflict"),
        ("--- a/x.csv\n+++ b/x.csv\n@@ -1,3 +1,3 @@\n task,worker,label\n", "the difference of two files"),
        ('{"error": "unauthorized"}', "the message of a server, 'unauthorized'"),
        ('{"message": "Not Found", "status": "404"}', "the message of a server, 'Not Found'"),
        ('{"error": {"message": "expired"}}', "the message of a server, 'expired'"),
    ],
)
def test_files_that_are_no_data(tmp_path, content, part):
    path = tmp_path / "x.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(FileError, match=part):
        crowdppl.read(path)


@pytest.mark.parametrize("label", ["<<<<<<< a", "=======", "https://x.org/a", "--- a", "outs:"])
def test_labels_with_such_signs(tmp_path, label):
    path = tmp_path / "x.csv"
    path.write_text(HEAD + f"t1,u,{label}\nt1,v,b\nt2,u,b\nt2,v,{label}\n")
    with silent("the file"):
        assert label in crowdppl.read(path).labels.tolist()


@pytest.mark.parametrize("first", ["Salted__x", "age-encryption.org/"])
def test_columns_named_as_encrypted_files_begin(tmp_path, first):
    path = tmp_path / "x.csv"
    path.write_text(f"{first},worker,label\n1,u,a\n1,v,b\n2,u,b\n")
    with silent("x.csv"):
        assert len(crowdppl.read(path, task=first, worker="worker", label="label").items) == 2


def test_marks_of_one_kind_are_no_conflict(tmp_path):
    start = b"task,worker,label\n" + b"<<<<<<< 1\n" * 100_000
    begin = time.process_time()
    assert other_kind(start, tmp_path / "x.csv") is None
    assert time.process_time() - begin < 1
    assert "conflict" in other_kind(b"a,b\n<<<<<<< HEAD\n1,2\n=======\n1,3\n>>>>>>> other\n", tmp_path / "x.csv")
    assert other_kind(b"a,b\n>>>>>>> x\n=======\n<<<<<<< y\n", tmp_path / "x.csv") is None
