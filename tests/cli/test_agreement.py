"""The command `agreement`."""

import pandas as pd
import pytest
from commands import run

ROWS = [
    (item, worker, label)
    for worker, labels in {
        "ann [x]": ["low", "high", "medium", "low", "high", "low"],
        "ben": ["low", "high", "high", "medium", "high", "low"],
        "carl": ["low", "medium", "high", "medium", "high", "low"],
    }.items()
    for item, label in enumerate(labels)
]


@pytest.fixture
def words(tmp_path):
    path = tmp_path / "words.csv"
    rows = [*ROWS, (0, "ben", "low"), (1, "ben", "medium")]
    pd.DataFrame(rows, columns=["doc", "who", "grade"]).to_csv(path, index=False)
    return (path, "--task", "doc", "--worker", "who", "--label", "grade")


def test_table_and_file(words, tmp_path):
    out = tmp_path / "table.csv"
    options = ("--weights", "linear", "--labels", "low,medium,high", "--level", "0.95", "--out", out)
    result = run("agreement", *words, *options)
    for said in ("Krippendorff's alpha", "Gwet's AC", "own repeats", "intervals of 95%", "ann [x]", "Cohen's kappa"):
        assert said in result.output
    table = pd.read_csv(out)
    assert table.columns.tolist() == ["measure", "first", "second", "value", "low", "high", "items"]
    whole = table[table["first"].isna()].set_index("measure")
    assert whole.index.tolist() == ["agreement", "krippendorff_alpha", "fleiss_kappa", "gwet_ac", "intra_rater"]
    assert (whole["low"] <= whole["value"]).all()
    assert table["measure"].value_counts()["cohen_kappa"] == 3
    run("agreement", *words, *options)  # the same table
    (tmp_path / "table.csv").write_text("notes of mine")
    again = run("agreement", *words, *options, code=2)
    assert "--overwrite" in again.output
    run("agreement", *words, *options, "--overwrite")


def test_numbers_have_correlations(tmp_path):
    path = tmp_path / "scores.csv"
    rows = [(item, worker, {"low": 1, "medium": 2, "high": 10}[label]) for item, worker, label in ROWS]
    pd.DataFrame(rows, columns=["task", "worker", "label"]).to_csv(path, index=False)
    assert "ICC(A,k)" in run("agreement", path, "--weights", "quadratic").output
    assert "ICC" not in run("agreement", path).output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--weights", "linear"), "--labels"),
        (("--weights", "quadratc"), "quadratic"),
        (("--minimum", "0"), "--minimum 0"),
        (("--level", "2"), "--level 2"),
        (("--out", "table.txt"), ".csv"),
    ],
)
def test_refusals_are_one_line(words, options, said):
    output = run("agreement", *words, *options, code=2).output
    assert said in output
    assert len([line for line in output.splitlines() if line.startswith("error:")]) == 1


def test_pairs_left_out_are_counted(words):
    output = " ".join(run("agreement", *words, "--minimum", "7").output.split())
    assert "3 of 3 pairs of workers" in output
    assert "--minimum 1 includes them" in output
