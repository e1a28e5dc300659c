"""What commands replace: nothing of others without ``--overwrite``, and never what they read."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from catalog import in_turn
from commands import run

from crowdppl.files import digests, overwriting

QUICK = ("--method", "em", "--num-samples", 30)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Annotations, as CSV and Parquet, and a result with a report."""
    folder = tmp_path_factory.mktemp("written")
    rows = [(f"i{item}", f"w{worker}", (item + (worker == 3)) % 2) for item in range(12) for worker in range(4)]
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"])
    frame.to_csv(folder / "labels.csv", index=False)
    frame.to_parquet(folder / "labels.parquet", index=False)
    judged = frame.rename(columns={"task": "item", "worker": "judge", "label": "verdict"})
    judged.to_csv(folder / "verdicts.csv", index=False)
    run("fit", folder / "labels.csv", "--out", folder / "r", *QUICK, "--report")
    return folder


@pytest.fixture
def here(written, tmp_path, monkeypatch):
    shutil.copytree(written, tmp_path / "x")
    monkeypatch.chdir(tmp_path / "x")
    return tmp_path / "x"


def said(*words, code):
    return " ".join(run(*words, code=code).output.split())


# Commands that write one file: their words, and the file.
SINGLE = {
    "aggregate": (("aggregate", "labels.csv"), "aggregate.csv"),
    "aggregate --out": (("aggregate", "labels.csv", "--out", "a.parquet"), "a.parquet"),
    "next": (("next", "r"), "r/next.csv"),
    "next --out": (("next", "r", "--out", "n.jsonl"), "n.jsonl"),
    "export": (("export", "r", "--what", "soft"), "r/soft.csv"),
    "export --out": (("export", "r", "--out", "e.csv"), "e.csv"),
    "report": (("report", "r"), "r/report.html"),
    "report --out": (("report", "r", "--out", "page.html"), "page.html"),
}


# Into the folder of the result, or to a place of one's own: the fast suite has one of the two of each command.
@pytest.mark.parametrize("case", in_turn(sorted(SINGLE), 2, night=False))
def test_a_file_of_the_users_stays(case, here):
    words, name = SINGLE[case]
    Path(name).write_text("mine")
    assert "already exists" in said(*words, code=2)
    assert Path(name).read_text() == "mine"
    assert list(here.rglob(".*")) == []
    run(*words, "--overwrite")
    assert Path(name).read_bytes() != b"mine"
    run(*words)  # what it has written itself


@pytest.mark.slow
def test_a_changed_report_stays(here):
    page = Path("r/report.html")
    run("report", "r", "--cost", 2)
    page.write_text(page.read_text() + "<p>my notes</p>")
    assert "already exists" in said("report", "r", code=2)
    assert "my notes" in page.read_text()
    run("fit", "labels.csv", "--out", "r", *QUICK, "--overwrite")
    assert "my notes" in page.read_text()


def test_a_changed_table_stays(here):
    run("export", "r")  # in place of the table of the fit
    shutil.rmtree("r")
    run("fit", "labels.csv", "--out", "r", *QUICK)
    table = Path("r/truth.csv")
    table.write_text(table.read_text().replace("i3", "corrected"))
    assert "already exists" in said("export", "r", code=2)
    assert "corrected" in table.read_text()


@pytest.mark.slow
def test_a_report_of_the_users_stays_beside_a_fit(here):
    Path("report.html").write_text("mine")
    for words in (("fit", "labels.csv"), ("fit", "labels.csv", "--overwrite"), ("demo", "--overwrite")):
        run(*words, "--out", ".", *(QUICK if words[0] == "fit" else ()))
        assert Path("report.html").read_text() == "mine"
    shutil.rmtree("r")
    Path("r").mkdir()
    Path("r/report.html").write_text("mine")
    assert "already holds report.html" in said("fit", "labels.csv", "--out", "r", *QUICK, "--report", code=2)
    assert list(Path("r").iterdir()) == [Path("r/report.html")]


FOLDERS = {
    "fit": (("fit", "labels.csv", *QUICK), ("truth.csv", "workers.csv", "confusion.csv", "posterior.nc", "run.json")),
    "stream": (("stream", "labels.parquet"), ("truth.parquet", "workers.csv", "run.json")),
    "distribute": (("distribute", "labels.parquet"), ("truth", "workers.csv", "run.json")),
    "update": (("update", "r", "labels.csv", "--repeats", "last"), ("truth.csv", "posterior.nc", "run.json")),
    "judges": (("judges", "verdicts.csv"), ("judges.csv", "items.csv", "versions.csv", "report.html", "run.json")),
}


@pytest.mark.parametrize("case", FOLDERS)
def test_each_file_of_a_result_is_refused_first(case, here):
    """Before anything is computed."""
    words, names = FOLDERS[case]
    for number, name in enumerate(names):
        out = here / f"out{number}"
        out.mkdir()
        (out / name).write_text("mine")
        assert f"already holds {name}" in said(*words, "--out", out, code=2)
        assert (out / name).read_text() == "mine"


def test_updates_replace_a_result_only_when_told(here):
    before = Path("r/posterior.nc").read_bytes()
    assert "already holds" in said("update", "r", "labels.csv", "--repeats", "last", code=2)
    assert Path("r/posterior.nc").read_bytes() == before
    run("update", "r", "labels.csv", "--repeats", "last", "--overwrite")
    assert "added to" in json.loads(Path("r/run.json").read_text())["input"]
    assert not Path("r/report.html").exists()  # of the earlier result


def test_judges_leave_files_of_the_users(here):
    run("judges", "verdicts.csv", "--out", "j", "--width", 0.5)
    assert Path("j/labels_needed.csv").exists()
    Path("j/versions.csv").write_text("mine")
    run("judges", "verdicts.csv", "--out", "j", "--overwrite")
    assert Path("j/versions.csv").read_text() == "mine"
    assert not Path("j/labels_needed.csv").exists()  # of the earlier run


def test_distribute_leaves_files_of_the_users(here):
    run("distribute", "labels.parquet", "--out", "d")
    Path("d/truth/notes.txt").write_text("mine")
    run("distribute", "labels.parquet", "--out", "d", "--overwrite")
    assert Path("d/truth/notes.txt").read_text() == "mine"
    shutil.copy("labels.parquet", "d/truth/part-00009.parquet")
    wrong = said("distribute", "labels.parquet", "--out", "d", "--overwrite", code=2)
    assert "part-00009.parquet was not written by crowdppl" in wrong
    assert Path("d/truth/part-00009.parquet").read_bytes() == Path("labels.parquet").read_bytes()


# The input, under the name of an output: words after the files were copied there.
INPUTS = {
    "aggregate": (None, ("aggregate", "labels.csv", "--out", "labels.csv")),
    "fit": ("o/truth.csv", ("fit", "o/truth.csv", "--out", "o", *QUICK)),
    "fit --truth-file": ("o/confusion.csv", ("fit", "labels.csv", "--truth-file", "o/confusion.csv", "--out", "o")),
    "stream": ("o/truth.parquet", ("stream", "o/truth.parquet", "--out", "o")),
    "distribute": ("o/truth/part-00000.parquet", ("distribute", "o/truth", "--out", "o")),
    "update": ("r/truth.csv", ("update", "r", "r/truth.csv")),
    "judges": ("o/items.csv", ("judges", "o/items.csv", "--out", "o")),
    "judges, a folder": ("o/items.csv", ("judges", "o", "--out", "o")),
    "judges --human": ("o/next.csv", ("judges", "verdicts.csv", "--human", "o/next.csv", "--out", "o")),
    "report --items": ("t.csv", ("report", "r", "--items", "t.csv", "--text-column", "worker", "--out", "t.csv")),
    "report": ("r/posterior.nc", ("report", "r", "--out", "r/posterior.nc")),
    "report run.json": (None, ("report", "r", "--out", "r/run.json")),
    "a link": ("link", ("aggregate", "labels.csv", "--out", "link.csv")),
}


@pytest.mark.parametrize("case", INPUTS)
def test_the_input_is_never_replaced(case, here):
    copy, words = INPUTS[case]
    if copy == "link":
        Path("link.csv").symlink_to("labels.csv")
    elif copy is not None and copy != "r/posterior.nc":
        Path(copy).parent.mkdir(parents=True, exist_ok=True)
        kind = "labels.parquet" if copy.endswith("parquet") else "verdicts.csv" if "judges" in case else "labels.csv"
        shutil.copy(kind, copy)
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
    assert "never replaced" in said(*words, "--overwrite", code=2)
    assert {path: path.read_bytes() for path in here.rglob("*") if path.is_file()} == before


def test_seals(tmp_path):
    path = tmp_path / "x"
    assert not overwriting.is_own(tmp_path, "x")
    for content in (b"", b"text", bytes(range(256)) * 5000):
        path.write_bytes(content)
        assert digests.state(path) == "unsealed"
        digests.seal(path)
        assert digests.state(path) == "intact"
        assert path.read_bytes().startswith(content)
        sealed = path.read_bytes()
        for place in {0, len(content) // 2, len(content) - 1} & set(range(len(content))):
            path.write_bytes(sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :])
            assert digests.state(path) == "changed"
        path.write_bytes(sealed[:-1])
        assert digests.state(path) == "unsealed"


def test_a_damaged_record_is_none(tmp_path):
    for text in ("", "[]", "{", '{"files": 3}', '{"files": ["x"]}', "[" * 10_000):
        (tmp_path / "run.json").write_text(text)
        assert overwriting.record(tmp_path) == {}
        assert not overwriting.is_own(tmp_path, "run.json")
