"""From a messy file to true labels: the first command says what is wrong, and which second command repairs it."""

import json
import shlex

import numpy as np
import pandas as pd
import pytest
from commands import run
from messy import tickets

FILE = "task,worker,label\n1,u,0\n1,v,1\n2,u,1\n2,v,1\n3,u,2\n3,v,null\n"


@pytest.mark.slow
def test_messy_tickets_in_two_commands(tmp_path, monkeypatch):
    """2,000 tickets of five topics in over a hundred spellings: nothing is followed but what the first command prints."""
    monkeypatch.chdir(tmp_path)
    frame, truth = tickets(2000)
    assert frame["label"].nunique() > 100
    frame.to_csv("my tickets.csv", index=False)
    output = run("fit", "my tickets.csv", "--model", "dawid-skene", "--method", "em", "--out", "r").output
    first = " ".join(output.split())
    assert first.index("labels to be cleaned first") < first.index("What to do")
    for absent in ("Finished", "Clarify the guideline", "accuracy: probability", "retrain", "=..."):
        assert absent not in first, absent
    assert max(map(len, output.splitlines()[:8])) <= 80
    line = next(line for line in output.splitlines() if line.startswith("crowdppl fit "))
    second = run(*shlex.split(line)[1:]).output
    assert "to be cleaned" not in second
    assert "Share of each class" in second
    result = pd.read_csv("r/truth.csv")
    assert (result["label"].to_numpy() == truth[result["task"]]).mean() >= 0.94
    assert json.loads((tmp_path / "r/run.json").read_text())["counts"]["classes"] == 5


@pytest.mark.slow
def test_a_second_map_keeps_the_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame, _ = tickets(150)
    frame.to_csv("t.csv", index=False)
    run("fit", "t.csv", "--model", "majority-vote", "--out", "r")
    table = pd.read_csv("r/label-map.csv")
    table.head(20).to_csv("r/label-map.csv", index=False)
    output = run(
        "fit", "t.csv", "--model", "majority-vote", "--out", "r", "--map", "r/label-map.csv", "--overwrite"
    ).output
    assert "label-map-2.csv" in output
    assert len(pd.read_csv("r/label-map.csv")) == 20
    both = pd.read_csv("r/label-map-2.csv")
    assert set(map(tuple, table.to_numpy())) <= set(map(tuple, both.to_numpy()))


@pytest.mark.parametrize(
    ("options", "classes"),
    [
        (("--names", "0=none,1=spam,2=ham"), ["ham", "none", "spam"]),
        (("--map", "map.csv"), ["none", "spam"]),
        (("--map", "map.json"), ["none", "spam"]),
        (("--missing", "2"), ["0", "1"]),
        (("--keep-missing",), ["0", "1", "2", "null"]),
    ],
)
def test_options_of_names(options, classes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text(FILE)
    (tmp_path / "map.csv").write_text("from,to\n0,none\n1,spam\n2,\n")
    (tmp_path / "map.json").write_text('{"0": "none", "1": "spam", "2": null}')
    for command in (
        ("fit", "--model", "majority-vote", "--out", "r", "--overwrite"),
        ("aggregate", "--out", "a.csv", "--overwrite"),
    ):
        run(command[0], "x.csv", *command[1:], *options)
    assert set(pd.read_csv("r/confusion.csv", dtype=str, keep_default_na=False)["label"]) == set(classes)
    assert set(pd.read_csv("a.csv", dtype=str)["label"]) <= set(classes)


def test_spellings_are_kept_apart_on_request(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text("task,worker,label\n1,u,a\n1,v,A\n2,u,b\n2,v,b\n")
    run("fit", "x.csv", "--model", "majority-vote", "--out", "r", "--no-fold")
    assert set(pd.read_csv("r/confusion.csv")["label"]) == {"a", "A", "b"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--names", "spam"), "'spam' is not LABEL=NAME"),
        (("--names", "7=spam"), "none of which occurs"),
        (("--map", "x.csv"), "no column 'from'"),
        (("--map", "none.csv"), "none.csv"),
        (("--map", "twice.csv"), "has two names"),
        (("--map", "bad.json"), "is not JSON"),
    ],
)
def test_names_that_cannot_be_used(options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text(FILE)
    (tmp_path / "twice.csv").write_text("from,to\n0,a\n0,b\n")
    (tmp_path / "bad.json").write_text("{")
    output = run("fit", "x.csv", *options, "--out", "r", code=2).output
    assert message in " ".join(output.split())
    assert not (tmp_path / "r").exists()


def test_calibration_reads_truths_as_the_labels(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 60)
    rows = [(i, j, truth[i] if rng.random() < 0.8 else 1 - truth[i]) for i in range(60) for j in range(5)]
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"])
    frame.to_csv("x.csv", index=False)
    pd.DataFrame({"task": range(60), "label": np.array(["NO", "yes"])[truth]}).to_csv("gold.csv", index=False)
    words = ("--truth-file", "gold.csv", "--names", "0=no,1=Yes", "--method", "em", "--model", "one-coin")
    assert "60 items of known truth" in run("calibrate", "x.csv", *words).output


@pytest.mark.slow
def test_the_report_begins_with_what_to_clean(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame, _ = tickets(150)
    frame.to_csv("t.csv", index=False)
    run("fit", "t.csv", "--model", "majority-vote", "--out", "r", "--report")
    page = (tmp_path / "r/report.html").read_text()
    assert page.index("Labels to be cleaned first") < page.index("<h1") < page.index("Clean the labels")
    for absent in (
        "of the resulting labels are expected",
        "Finished",
        "stands out by wrong labels",
        "workers to stop and check",
    ):
        assert absent not in page.partition("<script")[0], absent


def test_features_of_tokens_without_their_names(tmp_path):
    rows = [(f"s{n // 6}", n % 6 // 2, "uv"[n % 2], "ab"[n % 3 == 0]) for n in range(24)]
    frame = pd.DataFrame(rows, columns=["sentence", "position", "worker", "label"])
    frame.to_csv(tmp_path / "tokens.csv", index=False)
    frame[["sentence", "position"]].drop_duplicates().assign(x=1.0).to_csv(tmp_path / "forms.csv", index=False)
    place = ("--sequence", "sentence", "--position", "position")
    out = run(
        "fit", tmp_path / "tokens.csv", *place, "--features", tmp_path / "forms.csv", "--out", tmp_path / "o", code=2
    )
    assert "sequence:position" in " ".join(out.output.split())
