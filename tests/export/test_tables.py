"""Tables for other programs: content, types, and quoted formulas."""

import csv
import io
import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow
import pytest
from crowds import crowd_with_characters, fitted
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import crowdppl
from crowdppl import Annotations, FileError, OptionError, export
from crowdppl.data.readers import spreadsheets
from crowdppl.data.readers.arrow import long_table
from crowdppl.data.readers.source import read_table
from crowdppl.export import delimited


@pytest.fixture(scope="module")
def posterior():
    frame, _ = crowd_with_characters(items=60, each=30)
    return fitted(frame, num_samples=50)


@pytest.mark.parametrize("what", list(export.TABLES))
@pytest.mark.parametrize("suffix", export.SUFFIXES)
def test_every_table_in_every_format(posterior, tmp_path, what, suffix):
    path = export.to_file(posterior, what, tmp_path / f"{what}{suffix}")
    expected = export.TABLES[what](posterior)
    if suffix == ".csv":
        result = pd.read_csv(path)
    elif suffix == ".parquet":
        result = pd.read_parquet(path)
    else:
        result = pd.DataFrame([json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()])
    assert list(result.columns) == [str(name) for name in expected.columns]
    assert len(result) == len(expected)
    for column in expected.columns:
        numbers = pd.api.types.is_numeric_dtype(expected[column])
        if numbers:
            np.testing.assert_allclose(result[str(column)].astype(float), expected[column].astype(float), rtol=1e-5)
        else:
            assert result[str(column)].tolist() == expected[column].tolist()


def test_weights_for_training(posterior):
    table = export.weights(posterior)
    sums = table.groupby("task")["weight"].sum()
    np.testing.assert_allclose(sums, 1)
    wide = table.pivot_table(index="task", columns="label", values="weight", fill_value=0)
    p = pd.DataFrame(posterior.probability(), index=posterior.items(), columns=posterior.labels)
    assert np.abs(wide.reindex(p.index) - p).to_numpy().max() < 3e-4


def test_formulas_are_quoted(tmp_path):
    rows = [(f"=cmd|{i}", w, label) for i in range(8) for w, label in (("+1", "-no"), ("@x", "yes"), ("ok", "yes"))]
    posterior = fitted(pd.DataFrame(rows, columns=["task", "worker", "label"]), num_samples=10)
    safe = pd.read_csv(export.to_file(posterior, "truth", tmp_path / "safe.csv"))
    assert safe["task"].str.startswith("'=cmd").all()
    raw = pd.read_csv(export.to_file(posterior, "truth", tmp_path / "raw.csv", raw=True))
    assert raw["task"].str.startswith("=cmd").all()
    names = pd.read_csv(export.to_file(posterior, "workers", tmp_path / "workers.csv"))["worker"].tolist()
    assert names == ["'+1", "'@x", "ok"]
    # Names in formats that no spreadsheet opens stay unchanged, and so do negative numbers.
    assert pd.read_parquet(export.to_file(posterior, "truth", tmp_path / "t.parquet"))["task"][0].startswith("=")
    numbers = fitted(
        pd.DataFrame([(-i, w, -1 if w else 1) for i in range(9) for w in range(3)], columns=["task", "worker", "label"])
    )
    assert pd.read_csv(export.to_file(numbers, "truth", tmp_path / "n.csv"))["task"].tolist() == [-i for i in range(9)]
    header = pd.DataFrame({"=a": ["\tb", "\rc", "d"]})
    assert list(export.neutral(header).columns) == ["'=a"]
    assert export.neutral(header)["'=a"].tolist() == ["'\tb", "'\rc", "d"]


ODD = pd.DataFrame(
    {
        "text": ["plain", 'a "quote"', "a,comma", "two\nlines", "é 漢 😀", "", None, "end", "NA", " space "],
        "mixed": ["x", 1, 2.5, None, True, "a,b", np.nan, -3, np.int64(4), "'"],
        "number": [0.0, -0.0, 1.0, np.nan, np.inf, -np.inf, 1e-300, 123456789.0, 1 / 3, 5e-324],
        "whole": np.arange(-5, 5),
        "maybe whole": pd.array([1, None, *range(8)], dtype="Int64"),
        "yes": [True, False] * 5,
        'a "name", odd': list("abcdefghij"),
        7: [1e22, 1e23, 99999.96, 999999.6, 0.00001, 0.0001234567, 1e-17, 1e-18, 123456.7, 2.5e-5],
    }
)


def test_csv_equals_that_of_pandas(tmp_path):
    for table in (ODD, ODD[:0], ODD[["text"]][:4]):
        export.write(table, tmp_path / "x.csv", raw=True)
        text = table.to_csv(None, index=False, float_format="%.6g")
        result, expected = (
            list(csv.reader(io.StringIO(part, newline="")))
            for part in ((tmp_path / "x.csv").read_bytes().decode(), text)
        )
        assert result[0] == expected[0]
        for a, b in zip(result[1:], expected[1:], strict=True):
            assert [_number(x) for x in a] == [_number(x) for x in b]


def test_a_carriage_return_is_quoted(tmp_path):
    """pandas writes it without quotes, so that it ends the line."""
    export.write(pd.DataFrame({"a": ["x\ry", "z"], "b": [1, 2]}), tmp_path / "x.csv", raw=True)
    assert (tmp_path / "x.csv").read_bytes() == b'a,b\n"x\ry",1\nz,2\n'


def _number(text):
    """Return numbers as numbers, so that 1e-05 and 0.00001 are equal; other text unchanged."""
    try:
        return float(text) if text not in ("nan", "NA") else text
    except ValueError:
        return text


def test_numbers_have_six_digits():
    rng = np.random.default_rng(0)
    values = rng.normal(size=20_000) * 10.0 ** rng.integers(-30, 30, 20_000)
    result = delimited.six_digits(values)
    expected = np.array([float(f"{value:.6g}") for value in values])
    # Values half way between two may be rounded either way.
    assert (result == expected).mean() > 0.9999
    np.testing.assert_allclose(result, expected, rtol=1.1e-5)
    texts = pyarrow.array(result).cast(pyarrow.string()).to_pylist()
    assert max(len(Decimal(text).normalize().as_tuple().digits) for text in texts) <= 6


def test_many_rows_are_written_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "ROWS", 3)
    export.write(ODD, tmp_path / "parts.csv", raw=True)
    monkeypatch.undo()
    export.write(ODD, tmp_path / "whole.csv", raw=True)
    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_refusals(posterior, tmp_path):
    with pytest.raises(OptionError, match="did you mean 'truth'"):
        export.to_file(posterior, "thruth", tmp_path / "x.csv")
    with pytest.raises(OptionError, match="ends in"):
        export.to_file(posterior, "truth", tmp_path / "x.xlsx")
    with pytest.raises(FileError, match="there is no folder"):
        export.to_file(posterior, "truth", tmp_path / "nowhere" / "x.csv")
    assert list(tmp_path.iterdir()) == []


def test_jsonl_has_null_for_unknown_values(tmp_path):
    frame, _ = crowd_with_characters(items=60, each=20)
    posterior = fitted(frame, num_samples=1)
    path = export.to_file(posterior, "workers", tmp_path / "workers.jsonl")
    first = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    assert first["accuracy_low"] is None
    assert isinstance(first["annotations"], int)
    assert crowdppl.__version__


RISKY = {
    "=1+1": "'=1+1",
    "@user": "'@user",
    "+4915": "'+4915",
    "-x": "'-x",
    "'@user": "''@user",
    "''+1": "'''+1",
    "x;=1+1": "x;'=1+1",
    "x; =1;y;@z": "x;' =1;y;'@z",
    "x;'=1": "x;''=1",
    "＝1+1": "'＝1+1",
    "x;＠y": "x;'＠y",
    "  =1": "'  =1",
    "\u00a0=1": "'\u00a0=1",
    "x\n=1": "x\n'=1",
    "\t=1": "'\t'=1",
    "\tx": "'\tx",
    "nan": "'nan",
    "'NaN": "''NaN",
}
HARMLESS = ["a=1", "a-b", "'quoted'", "it's", "''", "'", "x;y", "a,=1", "2020-01-01", "e@mail", "NA", "x;'y", "''x"]


def test_every_place_where_a_formula_would_begin():
    for text, safe in RISKY.items():
        assert spreadsheets.protected(text) == safe
        assert spreadsheets.restored([safe, "x"]) == [text, "x"]
    for text in HARMLESS:
        assert spreadsheets.protected(text) == text
        assert spreadsheets.restored([text, "x"]) is None
    # A column with an unquoted formula was not written by this library, so that its quotes are part of the text.
    assert spreadsheets.restored(["'@user", "@user"]) is None
    assert spreadsheets.restored(["'@user", "x;=1"]) is None


NAMES = st.lists(
    st.text(st.sampled_from("'=+-@;\t\n\r ,\"＝－ab1nN漢"), min_size=1, max_size=8)
    | st.sampled_from(["nan", "NaN", "'nan", *RISKY, *HARMLESS])
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=6),
    min_size=2,
    max_size=6,
    unique=True,
)


@pytest.mark.slow
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(NAMES)
def test_written_tables_are_read_back(tmp_path, names):
    """Tables like truth.csv, workers.csv, confusion.csv and soft.csv with names of any kind, by both readers."""
    p = np.linspace(0.1, 0.9, len(names))
    tables = {
        "truth": pd.DataFrame({"task": names, "label": names[::-1], "probability": p, "p_0": -p}),
        "workers": pd.DataFrame({"worker": names, "annotations": range(len(names)), "accuracy": p}),
        "confusion": pd.DataFrame({"worker": names, "truth": names[::-1], "label": names, "probability": p}),
        "soft": pd.DataFrame({"item": names} | {f"p_{name}": p for name in names}),
    }
    for what, table in tables.items():
        path = tmp_path / f"{what}.csv"
        export.write(table, path)
        first = export.neutral(table).iloc[:, 0].tolist()
        assert [str(name) for name in first] == [spreadsheets.protected(name) for name in names]
        for read in (read_table, long_table):
            result = read(path)
            assert list(result.columns) == list(table.columns)
            for n in range(table.shape[1]):
                column, expected = result.iloc[:, n].astype(object), table.iloc[:, n]
                if pd.api.types.is_numeric_dtype(expected):
                    np.testing.assert_allclose(column.astype(float), expected, rtol=1e-5)
                else:
                    assert [str(value) for value in column.tolist()] == expected.tolist()


def test_a_consensus_is_read_as_known_truth(tmp_path):
    """The consensus written by one fit can be the known truths of the next, whatever the names are."""
    items = ["'@user", "@user", "'+4915", "+4915", "x;=1+1", "＝2", "plain"]
    rows = [(task, worker, "=yes" if n % 2 else "-no") for n, task in enumerate(items) for worker in "abc"]
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"])
    posterior = fitted(frame, num_samples=10)
    path = export.to_file(posterior, "truth", tmp_path / "truth.csv")
    known = Annotations.from_frame(frame, truth=read_table(path))
    assert (known.truth >= 0).all()
    assert all("in another form" in note for note in known.notes)  # '@user beside @user
    export.write(frame, tmp_path / "labels.csv")
    again = Annotations.from_csv(tmp_path / "labels.csv")
    assert again.items.tolist() == items
    assert any("column 'task': 6 names read without the quote" in note for note in again.notes)
    # A file from elsewhere, with the same names unquoted.
    export.write(frame, tmp_path / "raw.csv", raw=True)
    assert Annotations.from_csv(tmp_path / "raw.csv").items.tolist() == items
    assert crowdppl.read(tmp_path / "raw.csv").items.tolist() == items
