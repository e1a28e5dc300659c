"""Tables for other programs: what is in them, types kept, formulas disarmed."""

import csv
import io
import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow
import pytest
from crowds import crowd_with_characters, fitted

import crowdppl
from crowdppl import FileError, OptionError, delimited, exports


@pytest.fixture(scope="module")
def posterior():
    frame, _ = crowd_with_characters(items=60, each=30)
    return fitted(frame, num_samples=50)


@pytest.mark.parametrize("what", list(exports.TABLES))
@pytest.mark.parametrize("suffix", exports.SUFFIXES)
def test_every_table_in_every_format(posterior, tmp_path, what, suffix):
    path = exports.export(posterior, what, tmp_path / f"{what}{suffix}")
    expected = exports.TABLES[what](posterior)
    if suffix == ".csv":
        found = pd.read_csv(path)
    elif suffix == ".parquet":
        found = pd.read_parquet(path)
    else:
        found = pd.DataFrame([json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()])
    assert list(found.columns) == [str(name) for name in expected.columns]
    assert len(found) == len(expected)
    for column in expected.columns:
        numbers = pd.api.types.is_numeric_dtype(expected[column])
        if numbers:
            np.testing.assert_allclose(found[str(column)].astype(float), expected[column].astype(float), rtol=1e-5)
        else:
            assert found[str(column)].tolist() == expected[column].tolist()


def test_weights_for_training(posterior):
    table = exports.weights(posterior)
    sums = table.groupby("task")["weight"].sum()
    np.testing.assert_allclose(sums, 1)
    wide = table.pivot_table(index="task", columns="label", values="weight", fill_value=0)
    p = pd.DataFrame(posterior.probability(), index=posterior.items(), columns=posterior.labels)
    assert np.abs(wide.reindex(p.index) - p).to_numpy().max() < 3e-4


def test_formulas_are_disarmed(tmp_path):
    rows = [(f"=cmd|{i}", w, label) for i in range(8) for w, label in (("+1", "-no"), ("@x", "yes"), ("ok", "yes"))]
    posterior = fitted(pd.DataFrame(rows, columns=["task", "worker", "label"]), num_samples=10)
    safe = pd.read_csv(exports.export(posterior, "truth", tmp_path / "safe.csv"))
    assert safe["task"].str.startswith("'=cmd").all()
    raw = pd.read_csv(exports.export(posterior, "truth", tmp_path / "raw.csv", raw=True))
    assert raw["task"].str.startswith("=cmd").all()
    names = pd.read_csv(exports.export(posterior, "workers", tmp_path / "workers.csv"))["worker"].tolist()
    assert names == ["'+1", "'@x", "ok"]
    # In formats that no spreadsheet runs names stay what they are, and so do numbers that are negative.
    assert pd.read_parquet(exports.export(posterior, "truth", tmp_path / "t.parquet"))["task"][0].startswith("=")
    numbers = fitted(
        pd.DataFrame([(-i, w, -1 if w else 1) for i in range(9) for w in range(3)], columns=["task", "worker", "label"])
    )
    assert pd.read_csv(exports.export(numbers, "truth", tmp_path / "n.csv"))["task"].tolist() == [-i for i in range(9)]
    header = pd.DataFrame({"=a": ["\tb", "\rc", "d"]})
    assert list(exports.neutral(header).columns) == ["'=a"]
    assert exports.neutral(header)["'=a"].tolist() == ["'\tb", "'\rc", "d"]


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


def test_csv_is_what_pandas_writes(tmp_path):
    for table in (ODD, ODD[:0], ODD[["text"]][:4]):
        exports.write(table, tmp_path / "x.csv", raw=True)
        text = table.to_csv(None, index=False, float_format="%.6g")
        found, wanted = (
            list(csv.reader(io.StringIO(part, newline="")))
            for part in ((tmp_path / "x.csv").read_bytes().decode(), text)
        )
        assert found[0] == wanted[0]
        for a, b in zip(found[1:], wanted[1:], strict=True):
            assert [_number(x) for x in a] == [_number(x) for x in b]


def test_a_carriage_return_is_quoted(tmp_path):
    """Which pandas leaves bare, so that it ends the line."""
    exports.write(pd.DataFrame({"a": ["x\ry", "z"], "b": [1, 2]}), tmp_path / "x.csv", raw=True)
    assert (tmp_path / "x.csv").read_bytes() == b'a,b\n"x\ry",1\nz,2\n'


def _number(text):
    """Text as it is, numbers as such: 1e-05 and 0.00001 are one."""
    try:
        return float(text) if text not in ("nan", "NA") else text
    except ValueError:
        return text


def test_numbers_have_six_digits():
    rng = np.random.default_rng(0)
    values = rng.normal(size=20_000) * 10.0 ** rng.integers(-30, 30, 20_000)
    found = delimited.six_digits(values)
    wanted = np.array([float(f"{value:.6g}") for value in values])
    # What lies half way between two may go either way.
    assert (found == wanted).mean() > 0.9999
    np.testing.assert_allclose(found, wanted, rtol=1.1e-5)
    texts = pyarrow.array(found).cast(pyarrow.string()).to_pylist()
    assert max(len(Decimal(text).normalize().as_tuple().digits) for text in texts) <= 6


def test_many_rows_are_written_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "ROWS", 3)
    exports.write(ODD, tmp_path / "parts.csv", raw=True)
    monkeypatch.undo()
    exports.write(ODD, tmp_path / "whole.csv", raw=True)
    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_refusals(posterior, tmp_path):
    with pytest.raises(OptionError, match="did you mean 'truth'"):
        exports.export(posterior, "thruth", tmp_path / "x.csv")
    with pytest.raises(OptionError, match="ends in"):
        exports.export(posterior, "truth", tmp_path / "x.xlsx")
    with pytest.raises(FileError, match="cannot write"):
        exports.export(posterior, "truth", tmp_path / "nowhere" / "x.csv")
    assert list(tmp_path.iterdir()) == []


def test_jsonl_has_null_for_what_is_unknown(tmp_path):
    frame, _ = crowd_with_characters(items=60, each=20)
    posterior = fitted(frame, num_samples=1)
    path = exports.export(posterior, "workers", tmp_path / "workers.jsonl")
    first = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    assert first["accuracy_low"] is None
    assert isinstance(first["judgements"], int)
    assert crowdppl.__version__
