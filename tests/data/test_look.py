"""A look at a file: its parts, what is odd in it, and that the commands it prints work."""

import json
import shlex
import subprocess
import sys

import pandas as pd
import pytest
from commands import run

from crowdppl.data.look import commands, look
from crowdppl.errors import FileError

TEXT = "A text that is the same in all rows of its item and is longer than the names of classes are, number {}"
ROWS = [(i, w, "yes" if (i + n) % 3 else "no") for i in range(6) for n, w in enumerate(("ann", "bob", "eve"))]


def long_table(task="task", worker="worker", label="label", **more):
    frame = pd.DataFrame(ROWS, columns=[task, worker, label])
    return frame.assign(**more)


def wide_table():
    return pd.DataFrame(ROWS, columns=["id", "worker", "label"]).set_index(["id", "worker"])["label"].unstack()  # noqa: PD010


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (("task", "worker", "label"), {}),
        (("item", "worker", "label"), {}),
        (
            ("Ticket ID", "annotatorName", "Category"),
            {"task": "Ticket ID", "worker": "annotatorName", "label": "Category"},
        ),
        (("doc_id", "coder", "code"), {"task": "doc_id", "worker": "coder", "label": "code"}),
        (("image_url", "user", "answer"), {"task": "image_url", "worker": "user", "label": "answer"}),
        (("question", "rater_id", "rating"), {"task": "question", "worker": "rater_id", "label": "rating"}),
    ],
)
def test_parts_of_columns(names, options, tmp_path):
    long_table(*names).to_csv(tmp_path / "x.csv", index=False)
    seen = look(tmp_path / "x.csv")
    assert seen.options == options
    assert seen.annotations.A == 18
    assert seen.columns["part"].tolist() == ["the item", "the worker", "the label"]
    assert seen.odd == list(seen.annotations.notes)


def test_further_parts_are_only_those_that_can_be_read(tmp_path):
    more = {
        "created_at": [f"2024-01-{n + 1:02}" for n in range(18)],
        "duration": "soon",  # no number of seconds
        "gold": [None if i else "yes" for i, _, _ in ROWS],
        "text": [TEXT.format(i) for i, _, _ in ROWS],
        "comment": [TEXT.format(n) for n in range(18)],  # differs within an item
    }
    long_table(**more).to_csv(tmp_path / "x.csv", index=False)
    seen = look(tmp_path / "x.csv")
    parts = dict(zip(seen.columns["column"], seen.columns["part"], strict=True))
    assert parts["created_at"] == "times of annotations?"
    assert parts["duration"] == parts["comment"] == ""
    assert parts["gold"] == "known true labels?"
    assert parts["text"] == "texts of the items?"
    words = [" ".join(command) for command, _ in commands(seen, "x.csv")]
    assert "--timestamp created_at --text-column text" in words[0]
    assert words[-1] == "crowdppl calibrate x.csv --truth gold"


def test_a_table_with_a_column_for_each_worker(tmp_path):
    wide = wide_table()
    wide.to_csv(tmp_path / "x.csv")
    seen = look(tmp_path / "x.csv")
    assert (seen.format, seen.options) == ("wide", {"format": "wide"})
    assert seen.annotations.J == 3


def test_what_cannot_be_read_says_why(tmp_path):
    pd.DataFrame({"a": [1, 2], "b": [3, 4]}).to_csv(tmp_path / "x.csv", index=False)
    seen = look(tmp_path / "x.csv")
    assert seen.annotations is None
    assert "name the task column with task=..." in seen.reason
    assert commands(seen, "x.csv") == []
    assert "It cannot be read as annotations: x.csv: no column 'task'" in " ".join(
        run("look", tmp_path / "x.csv").output.split()
    )
    (tmp_path / "x.json").write_text('{"name": "a", "version": 1}')
    with pytest.raises(FileError, match="unknown format"):
        look(tmp_path / "x.json")


def files(folder):
    """Write a file of each kind, and return the commands that ``look`` must name for it."""
    long_table("Ticket", "who", "says").to_csv(folder / "my table.csv", index=False)
    wide_table().to_csv(folder / "wide.csv")
    records = [{"id": i, "text": f"t{i}", "label": [y], "username": w} for i, w, y in ROWS]
    (folder / "d.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    verdicts = [(i, j, s, "pass" if (i + len(j)) % 2 else "fail") for i in range(4) for j in ("a", "bb") for s in "xy"]
    pd.DataFrame(verdicts, columns=["item", "judge", "system", "verdict"]).to_csv(folder / "v.csv", index=False)
    return {
        "my table.csv": {"fit", "agreement", "aggregate"},
        "wide.csv": {"fit", "agreement", "aggregate"},
        "v.csv": {"judges"},
    }


@pytest.mark.slow
def test_printed_commands_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, expected in files(tmp_path).items():
        output = run("look", name).output
        lines = [line.partition("   #")[0] for line in output.splitlines() if line.startswith("crowdppl ")]
        words = [shlex.split(line)[1:] for line in lines]
        assert {command[0] for command in words} == expected
        for command in words:
            run(*command, *(("--out", f"{command[0]} of {name}") if "--out" in command else ()))


@pytest.mark.slow
def test_a_stream_is_looked_at(tmp_path):
    """It can be read only once, and is looked at as annotations and as verdicts."""
    long_table().to_csv(tmp_path / "x.csv", index=False)
    words = [sys.executable, "-W", "ignore", "-m", "crowdppl", "look", "-"]
    with (tmp_path / "x.csv").open() as stream:
        done = subprocess.run(words, stdin=stream, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "18 annotations of 6 items by 3 workers" in done.stdout
    assert "crowdppl agreement -" in done.stdout


def test_what_is_odd_comes_with_the_look(tmp_path):
    frame = long_table()
    frame.loc[0, "label"] = "null"
    frame.loc[1, "label"] = "YES"
    frame.to_csv(tmp_path / "x.csv", index=False)
    output = " ".join(run("look", tmp_path / "x.csv").output.split())
    assert "1 'null'" in output
    assert "'yes': 'YES'" in output
    assert "--no-fold" in output


def test_tokens_of_sequences_are_seen(tmp_path):
    rows = [
        (d, s, t, w, label)
        for d, s in ((0, 0), (0, 1), (1, 2))
        for t, label in enumerate(["B-X", "I-X", "O"])
        for w in "uv"
    ]
    table = pd.DataFrame(rows, columns=["document", "sentence", "position", "worker", "label"])
    table.to_csv(tmp_path / "tokens.csv", index=False)
    seen = look(tmp_path / "tokens.csv")
    assert seen.options == {"sequence": "sentence", "position": "position"}
    assert seen.annotations.chain_starts.tolist() == [0, 3, 6, 9]
    words, _ = commands(seen, "tokens.csv")[0]
    assert words[:7] == ["crowdppl", "fit", "tokens.csv", "--sequence", "sentence", "--position", "position"]
    table.drop(columns="position").assign(task=range(len(table))).to_csv(tmp_path / "alone.csv", index=False)
    assert any("mark spans" in sentence for sentence in look(tmp_path / "alone.csv").odd)
