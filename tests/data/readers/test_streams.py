"""Standard input, pipes and named pipes are read once and give what the file gives."""

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import crowdppl
from crowdppl import Annotations, FileError
from crowdppl.cli.main import app
from crowdppl.data.readers.source import read_table
from crowdppl.data.readers.streams import is_stream, local, source_name

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")

ROWS = [(f"item {i}", f"worker {w}", "yes" if (i + w) % 3 else "no") for i in range(12) for w in range(4)]
FRAME = pd.DataFrame(ROWS, columns=["item", "worker", "label"])
CSV = FRAME.to_csv(index=False).encode()
MAIN = [sys.executable, "-c", "from crowdppl.cli.main import main; main()"]


def parquet():
    out = io.BytesIO()
    FRAME.to_parquet(out, index=False)
    return out.getvalue()


def tasks():
    record = [
        {
            "id": task,
            "data": {},
            "annotations": [
                {"completed_by": w, "result": [{"from_name": "q", "type": "choices", "value": {"choices": [label]}}]}
                for w, label in zip(part["worker"], part["label"], strict=True)
            ],
        }
        for task, part in FRAME.groupby("item", sort=False)
    ]
    return json.dumps(record).encode()


CONTENTS = {"CSV": lambda: CSV, "gzip": lambda: gzip.compress(CSV), "Parquet": parquet, "JSON": tasks}


@pytest.fixture
def pipe(tmp_path):
    """Return a maker of named pipes, into which a thread writes some bytes once."""
    writers = []

    def pipe(content, name="pipe"):
        path = tmp_path / name
        os.mkfifo(path)
        writers.append(threading.Thread(target=path.write_bytes, args=(content,), daemon=True))
        writers[-1].start()
        return path

    yield pipe
    for writer in writers:
        writer.join(timeout=20)
        assert not writer.is_alive(), "a pipe was not read"


def same(data):
    assert sorted(
        zip(data.items[data.item], data.workers[data.worker], data.labels[data.label], strict=True)
    ) == sorted(ROWS)


@pytest.mark.parametrize("kind", CONTENTS)
def test_a_named_pipe_is_read_by_its_content(kind, pipe):
    same(crowdppl.read(pipe(CONTENTS[kind]())))


def test_every_reader_takes_a_pipe(pipe):
    same(Annotations.from_csv(pipe(CSV, "a")))
    same(Annotations.from_csv(pipe(gzip.compress(CSV), "b")))
    same(Annotations.from_parquet(pipe(parquet(), "c")))
    assert read_table(pipe(CSV, "d")).shape == FRAME.shape
    assert crowdppl.data.readers.formats.sniff(pipe(tasks(), "e")) == "label-studio"


@pytest.mark.parametrize("kind", CONTENTS)
def test_standard_input(kind, tmp_path):
    """`-` is standard input; the digest is that of what came through it."""
    content = CONTENTS[kind]()
    out = tmp_path / "r"
    done = CliRunner().invoke(app, ["fit", "-", "--method", "em", "--out", str(out)], input=content)
    assert done.exit_code == 0, done.output
    story = json.loads((out / "run.json").read_text())["input"]
    assert story == {"file": "standard input", "sha256": hashlib.sha256(content).hexdigest(), "rows": len(ROWS)}


@pytest.mark.slow
def test_all_files_of_a_command_may_be_pipes(pipe, tmp_path):
    gold = b"item,label\nitem 1,yes\nitem 2,no\n"
    words = ["fit", str(pipe(CSV, "labels")), "--truth-file", str(pipe(gold, "gold")), "--method", "em"]
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "r")])
    assert done.exit_code == 0, done.output
    assert (crowdppl.load(tmp_path / "r" / "posterior.nc").known_truth() >= 0).sum() == 2
    done = CliRunner().invoke(
        app, ["update", str(tmp_path / "r"), str(pipe(CSV.replace(b"worker ", b"w"), "more")), "--overwrite"]
    )
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(
        app, ["calibrate", str(pipe(CSV, "x")), "--truth-file", str(pipe(gold, "y")), "--method=em"]
    )
    assert done.exit_code == 0, done.output


@pytest.mark.slow
def test_in_a_shell(tmp_path):
    """As people write it: standard input by its name in /dev, and a process for a file."""
    if not Path("/dev/stdin").exists():
        pytest.skip("there is no /dev/stdin here")
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(CSV))
    (tmp_path / "gold.csv.gz").write_bytes(gzip.compress(b"item,label\nitem 1,yes\n"))
    options = "--method em --num-samples 20"
    command = " ".join(f"'{word}'" for word in MAIN)
    lines = [
        f"gunzip -c x.csv.gz | {command} fit /dev/stdin --truth-file <(echo item,label; echo item 1,yes) {options} --out a",
        f"{command} fit <(gunzip -c x.csv.gz) --truth-file /dev/stdin {options} --out b < gold.csv.gz",
        f"{command} fit /dev/stdin {options} --out c < x.csv.gz",
    ]
    odd = b"caf\xe9.csv"
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + odd)).write_bytes(CSV)
    lines.append(f"{command} fit {os.fsdecode(odd)} {options} --out d")
    for line in lines:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
    for name in "abcd":
        story = json.loads((tmp_path / name / "run.json").read_text())
        assert story["counts"]["annotations"] == len(ROWS)
        assert (story["input"]["file"] == "standard input") == (name in "ac")
        content = (tmp_path / "x.csv.gz").read_bytes() if name == "c" else CSV
        assert story["input"]["sha256"] == hashlib.sha256(content).hexdigest()
        known = crowdppl.load(tmp_path / name / "posterior.nc").known_truth() >= 0
        assert known.sum() == (name in "ab")
    assert story["input"]["file"] == "caf\ufffd.csv"
    assert os.fsencode(story["command"][2]) == odd


def refused(make, *parts):
    with pytest.raises(FileError) as caught:
        make()
    assert "\n" not in str(caught.value)
    for part in parts:
        assert part in str(caught.value)


def test_what_cannot_be_read(pipe, tmp_path):
    refused(lambda: crowdppl.read(pipe(b"", "a")), "a is empty: no data came through it")
    refused(lambda: crowdppl.read(pipe(b"task,worker\xff\n", "b")), "b is not UTF-8")
    with pytest.raises(FileError, match="more than 10 bytes"), local(pipe(CSV[:100], "c"), limit=10):
        pass
    refused(lambda: crowdppl.stream(pipe(b"", "d")), "d is a stream", "name a Parquet file")
    (tmp_path / "d").open("rb").close()  # lets the writer go
    refused(lambda: crowdppl.read("/dev/null"), "null is empty")
    done = CliRunner().invoke(app, ["fit", "-", "--truth-file", "-", "--out", str(tmp_path / "r")], input=CSV)
    assert done.exit_code == 2
    assert "a stream can be read only once" in " ".join(done.output.split())
    assert not (tmp_path / "r").exists()


def test_what_is_a_stream(pipe, tmp_path):
    (tmp_path / "x.csv").write_bytes(CSV)
    assert not is_stream(tmp_path / "x.csv")
    assert not is_stream(tmp_path)
    assert not is_stream(tmp_path / "nothing")
    assert is_stream("/dev/fd/7")
    assert source_name("/dev/fd/63") == "pipe 63"
    assert source_name("/dev/stdin") == source_name("-") == "standard input"
    assert source_name(os.fsdecode(b"caf\xe9.csv")) == "caf\ufffd.csv"
    with local(tmp_path / "x.csv") as path:
        assert path == tmp_path / "x.csv"
    with local(pipe(CSV, "e")) as path:
        assert path.read_bytes() == CSV
    assert not path.exists()
