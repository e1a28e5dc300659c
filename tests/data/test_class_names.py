"""Classes may be called anything: no name collides with a column of a table, with a suffix, or with another class."""

import json

import numpy as np
import pandas as pd
import pytest
from catalog import quiet_fit
from commands import run
from hypothesis import given
from hypothesis import strategies as some

import crowdppl
from crowdppl import Annotations, export
from crowdppl.data.table.identifiers import class_columns
from crowdppl.export import results

WORDS = [
    "risk",
    "risk_low",
    "risk_high",
    "'risk_low'",
    "probability",
    "label",
    "low",
    "_low",
    "",
    "task",
    "rank_low",
    "p_risk",
]


def awkward(words):
    """Labels that collide with suffixes and columns, in every order that sorting gives them."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, len(words), 120)
    label = np.where(rng.random((3, 120)) < 0.7, truth, rng.integers(0, len(words), (3, 120))).reshape(-1)
    return pd.DataFrame(
        {
            "task": np.tile(np.arange(120), 3),
            "worker": np.repeat(["u", "v", "w"], 120),
            "label": np.array(words, dtype=object)[label],
        }
    )


@given(
    some.lists(some.one_of(some.text("ab_lowhigh'\"1", max_size=12), some.integers(0, 3)), unique_by=repr, max_size=8)
)
def test_columns_are_distinct_and_plain_where_they_can_be(labels):
    for suffixes in (("",), ("", "_low", "_high")):
        names = class_columns("x_", labels, suffixes)
        every = [name + suffix for name in names for suffix in suffixes]
        assert len(set(every)) == len(every)
        written = [str(label) for label in labels]
        plain = [w + suffix for w in written for suffix in suffixes]
        if len(set(plain)) == len(plain):
            assert names == [f"x_{w}" for w in written]


@pytest.mark.parametrize("words", [["risk", "risk_low"], ["risk_high", "risk", "safe"], [w for w in WORDS if w]])
def test_every_table_has_distinct_columns(words, tmp_path):
    posterior = quiet_fit(Annotations.from_frame(awkward(words)), method="em", num_samples=30, independent=False)
    every = posterior.workers(measures=("accuracy", "sensitivity", "specificity"))
    tables = {"all measures": every, "truth": posterior.truth(), "confusion": posterior.confusion()}
    tables |= {what: make(posterior) for what, make in export.TABLES.items()}
    for what, table in tables.items():
        assert table.columns.is_unique, what
    for n, name in enumerate(class_columns("sensitivity_", posterior.labels, ("", "_low", "_high"))):
        expected = posterior.draws("confusion")[:, :, n, n].mean(0)
        np.testing.assert_allclose(every[name], expected)
        assert (every[f"{name}_low"] <= every[f"{name}_high"]).all()
    for what in export.TABLES:
        for suffix in export.SUFFIXES:
            path = export.to_file(posterior, what, tmp_path / f"{what}{suffix}")
            assert path.stat().st_size


@pytest.mark.slow
def test_the_command_keeps_such_a_fit(tmp_path):
    awkward(["risk", "risk_low", "risk_high"]).to_csv(tmp_path / "x.csv", index=False)
    run("fit", tmp_path / "x.csv", "--out", tmp_path / "out", "--method", "em", "--num-samples", "30", "--report")
    header = (tmp_path / "out" / "workers.csv").read_text().splitlines()[0].split(",")
    assert len(set(header)) == len(header)
    assert "sensitivity_risk_low" in header
    assert "sensitivity_'risk_low'" in header
    for command in ("report", "check", "next", "export"):
        run(command, tmp_path / "out")


def test_the_posterior_outlives_its_tables(tmp_path, monkeypatch):
    """Whatever goes wrong with a table, the fit is there to be loaded, and no table of an earlier one beside it."""
    posterior = quiet_fit(Annotations.from_frame(awkward(["a", "b"])), method="em", num_samples=5)
    results.write(posterior, tmp_path, run={"which": 1})
    monkeypatch.setattr(export, "write", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError) as failed:
        results.write(posterior, tmp_path, run={"which": 2})
    assert "the posterior is in" in failed.value.__notes__[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["posterior.nc", "run.json"]
    assert crowdppl.load(tmp_path / "posterior.nc").truth().equals(posterior.truth())
    assert json.loads((tmp_path / "run.json").read_text())["which"] == 2
