"""brat's standoff files: spans of several annotators, in folders and archives."""

import gzip
import zipfile

import pandas as pd
import pytest
from commands import run

import crowdppl
from crowdppl import DataError, FileError, OptionError

TEXT = "Alice met Bob Smith\nin Zürich."
TWICE = "T1\tPER 0 5\tAlice\nT2\tPER 10 19\tBob Smith\n"
FILES = {
    "ann/news/one.txt": TEXT,
    "ann/news/one.ann": TWICE + "T3\tLOC 23 29\tZürich\nR1\tmet Arg1:T1 Arg2:T2\n#1\tAnnotatorNotes T1\tsure\n",
    "ann/news/two.txt": "Nobody here.",
    "ann/news/two.ann": "",
    "bob/news/one.txt": TEXT,
    "bob/news/one.ann": "T1\tPER 0 5\tAlice\nT2\tPER 10 13;14 19\tBob Smith\n",
    "bob/news/two.txt": "Nobody here.",
}


def written(folder, files):
    """Write files into a folder and into an archive; return both paths."""
    for name, text in files.items():
        path = folder / "crowd" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    with zipfile.ZipFile(folder / "crowd.zip", "w") as archive:
        for name, text in files.items():
            archive.writestr(f"crowd/{name}", text)
    return folder / "crowd", folder / "crowd.zip"


def labels(data):
    """Return the labels of each worker, by token."""
    frame = pd.DataFrame({"item": data.item, "worker": data.workers[data.worker], "label": data.labels[data.label]})
    return {
        who: dict(zip(data.items[part["item"]], part["label"], strict=True)) for who, part in frame.groupby("worker")
    }


def test_spans_of_folders_and_archives(tmp_path):
    for path in written(tmp_path, FILES):
        data = crowdppl.read(path)
        said = labels(data)
        one = [said["ann"][f"news/one:{n}"] for n in range(7)]
        assert one == ["B-PER", "O", "B-PER", "I-PER", "O", "B-LOC", "O"]
        # The pieces of a span are spans; who has no standoff file for a text has not annotated it.
        assert [said["bob"][f"news/one:{n}"] for n in range(4)] == ["B-PER", "O", "B-PER", "B-PER"]
        assert {said["ann"][f"news/two:{n}"] for n in range(3)} == {"O"}
        assert "news/two:0" not in said["bob"]
        notes = " ".join(data.notes)
        assert "3 annotations of 2 texts" in notes
        assert "1 spans in pieces" in notes
        assert "2 relations, events, attributes and notes are left out" in notes
        assert "typing error" not in notes


def test_texts_may_stand_once(tmp_path):
    files = {name: text for name, text in FILES.items() if name.endswith(".ann")}
    files |= {"news/one.txt": TEXT, "news/two.txt": "Nobody here."}
    for path in written(tmp_path, files):
        assert labels(crowdppl.read(path)) == labels(crowdppl.read(written(tmp_path / "all", FILES)[0]))


def test_folders_of_texts_are_not_taken_for_annotators_in_silence(tmp_path):
    files = {"ann/a/one.txt": "Alice", "ann/a/one.ann": "T1\tPER 0 5\n"}
    files |= {"ann/b/two.txt": "Bob came", "ann/b/two.ann": "T1\tPER 0 3\n"}
    data = crowdppl.read(written(tmp_path, files)[0])
    assert any("no text has spans of two annotators" in note for note in data.notes)


def test_the_command(tmp_path):
    folder, _ = written(tmp_path, FILES)
    assert "brat" in run("look", folder).output
    run("fit", folder, "--method", "em", "--out", tmp_path / "out")
    spans = pd.read_csv(tmp_path / "out" / "spans.csv")
    assert {"PER", "LOC"} >= set(spans["type"])


def test_annotators_are_named(tmp_path):
    files = {f"{round}/{who}/one{end}": text for round in "12" for who in ("ann", "bob") for end, text in BOTH.items()}
    data = crowdppl.read(written(tmp_path, files)[0])
    assert any(
        "the folders of the annotators are '1', '2', with texts such as 'ann/one'" in note for note in data.notes
    )


def test_compressed_files(tmp_path):
    folder, _ = written(tmp_path, FILES)
    for path in list(folder.rglob("*.ann")):
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert labels(crowdppl.read(folder)) == labels(crowdppl.read(written(tmp_path / "plain", FILES)[0]))


def test_a_file_by_itself(tmp_path):
    (tmp_path / "one.ann").write_text(TWICE)
    with pytest.raises(FileError, match="give each of them a folder"):
        crowdppl.read(tmp_path / "one.ann")


BOTH = {".txt": TEXT, ".ann": TWICE}
BAD = {
    "other line ends": (
        {"ann/one.txt": TEXT, "ann/one.ann": "T1\tLOC 24 30\tZürich\n", "bob/one.txt": TEXT, "bob/one.ann": ""},
        DataError,
        "line 1: the span is 'Zürich', and the text has 'ürich.' there",
    ),
    "one annotator": ({"one.txt": TEXT, "one.ann": TWICE}, FileError, "give each of them a folder"),
    "no text": ({"ann/one.ann": TWICE, "bob/one.ann": TWICE}, FileError, "its text one.txt is not beside it"),
    "another line": (
        {"ann/one.txt": TEXT, "ann/one.ann": "Alice PER\n", "bob/one.ann": TWICE, "bob/one.txt": TEXT},
        DataError,
        "line 1: 'Alice PER' is no annotation of brat",
    ),
    "outside": (
        {"ann/one.txt": "Al", "ann/one.ann": TWICE, "bob/one.ann": "", "bob/one.txt": "Al"},
        DataError,
        "a span from 0 to 5 in a text of 2 characters",
    ),
    "other texts": (
        {"ann/one.txt": TEXT, "ann/one.ann": TWICE, "bob/one.ann": TWICE, "bob/one.txt": TEXT + "!"},
        DataError,
        "text 'one' differs from an earlier one",
    ),
    "no spans": (
        {"ann/one.txt": TEXT, "ann/one.ann": "", "bob/one.ann": "", "bob/one.txt": TEXT},
        DataError,
        "nobody marked a span",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_read(case, tmp_path):
    files, error, message = BAD[case]
    for path in written(tmp_path, files):
        with pytest.raises(error, match=message) as raised:
            crowdppl.read(path)
        assert "\n" not in str(raised.value)
        assert "crowd" in str(raised.value)


def test_other_files_named_brat(tmp_path):
    (tmp_path / "x.csv").write_text("task,worker,label\n1,u,a\n")
    with pytest.raises(FileError, match=r"^x\.csv is not brat's standoff files"):
        crowdppl.read(tmp_path / "x.csv", format="brat")
    with pytest.raises(OptionError, match="without questions"):
        crowdppl.read(written(tmp_path, FILES)[0], question="x")
