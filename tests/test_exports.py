"""Tables for other programs: what is in them, types kept, formulas disarmed."""

import json

import numpy as np
import pandas as pd
import pytest
from crowds import crowd_with_characters, fitted

import crowdppl
from crowdppl import FileError, OptionError, exports


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
