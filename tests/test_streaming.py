"""Streamed from disk: what plain EM finds in memory, batch by batch, and bad data sets told."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from crowdppl import Annotations, fit, stream, sweeps
from crowdppl.cli import app
from crowdppl.errors import CrowdpplError, CrowdpplWarning
from crowdppl.models import DawidSkene


def crowd(items=4000, workers=30, each=5, K=3, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, K, items)
    item = np.repeat(rng.permutation(items), each)
    worker = rng.integers(0, workers, len(item))
    good = rng.uniform(0.5, 0.95, workers)
    label = np.where(rng.random(len(item)) < good[worker], truth[item], rng.integers(0, K, len(item)))
    names = [f"i{n}" for n in range(items)]
    frame = pd.DataFrame(
        {"task": np.array(names)[item], "worker": [f"w{n}" for n in worker], "label": [f"c{n}" for n in label]}
    )
    return frame, pd.Series([f"c{k}" for k in truth], index=names)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("model", ["dawid-skene", "one-coin", "class-conditional"])
def test_ends_near_plain_em(tmp_path, monkeypatch, model, compiled):
    monkeypatch.setattr(sweeps, "JUDGEMENTS", 0 if compiled else 10**9)
    frame, truth = crowd()
    frame.to_parquet(tmp_path / "x.parquet")
    found = stream(tmp_path / "x.parquet", model, truth=tmp_path / "truth.parquet", rows=1000, passes=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        full = fit(Annotations.from_frame(frame), model, method="em", num_samples=2, independent=True)
    told = pd.read_parquet(tmp_path / "truth.parquet").set_index("task")
    assert told.index.tolist() == full.items().tolist()
    best = pd.Series(full.labels[full.published().argmax(1)], index=full.items())
    assert (told["label"] == best).mean() > 0.995
    assert abs(told["probability"].to_numpy() - full.published().max(1)).mean() < 0.01
    point = full.tree["point"].to_dataset()
    order = found.workers.set_index("worker").index
    for name, value in found.parameters.items():
        there = point[name].reindex(worker=order) if "worker" in point[name].dims else point[name]
        np.testing.assert_allclose(value.numpy(), there.values, atol=0.005)
    assert found.workers.set_index("worker")["judgements"].to_dict() == frame["worker"].value_counts().to_dict()
    assert (found.items, found.judgements) == (4000, len(frame))
    assert (told["label"] == truth[told.index]).mean() == pytest.approx((best == truth[best.index]).mean(), abs=0.003)


def test_batches_do_not_cut_items(tmp_path):
    """One whole pass has the sums of all, whatever the size of batches: the same steps to rounding."""
    frame, _ = crowd(items=50, each=7)
    frame.to_parquet(tmp_path / "x.parquet", row_group_size=13)
    from crowdppl.streaming import _Source

    for rows in (1, 5, 20, 10_000):
        source = _Source(tmp_path / "x.parquet", (None, None, None), rows)
        batches = [(batch, source.tasks(batch).to_pylist()) for batch in source.batches()]
        assert sum(batch.A for batch, _ in batches) == len(frame)
        assert [name for _, names in batches for name in names] == frame["task"].drop_duplicates().tolist()
        assert all((batch.judgements_per_item == 7).all() for batch, _ in batches)


def test_a_folder_of_files(tmp_path):
    frame, _ = crowd(items=300)
    half = len(frame) // 2
    (tmp_path / "all").mkdir()
    frame[:half].to_parquet(tmp_path / "all" / "1.parquet")
    frame[half:].to_parquet(tmp_path / "all" / "2.parquet")
    frame.to_parquet(tmp_path / "x.parquet")
    one, two = (stream(tmp_path / name, rows=10**6, passes=3) for name in ("all", "x.parquet"))
    assert one.log_posterior == pytest.approx(two.log_posterior)


FRAME = pd.DataFrame({"task": ["x", "x", "y"], "worker": ["u", "v", "u"], "label": ["a", "b", "a"]})
BAD = {
    "rows of an item apart": (FRAME.iloc[[0, 2, 1]], {}, "the rows of an item are apart; sort the data by 'task'"),
    "one class": (FRAME.assign(label="a"), {}, "every label is 'a'; two classes are needed"),
    "a label missing": (FRAME.assign(label=["a", None, "b"]), {}, "near row 1: label missing; drop such rows"),
    "no such column": (FRAME, {"worker": "who"}, "no column 'who'"),
    "no rows": (FRAME[:0].astype(str), {}, "no rows"),
    "a model of more than sums": (FRAME, {"model": "item-subtypes"}, "cannot be streamed"),
    "forgetting too little": (FRAME, {"forget": 0.5}, "forget=0.5; it must be above 0.5"),
    "no passes": (FRAME, {"passes": 0}, "passes=0"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_sets_are_told(case, tmp_path):
    frame, options, message = BAD[case]
    frame.to_parquet(tmp_path / "x.parquet", index=False)
    with pytest.raises(CrowdpplError, match=message) as told:
        stream(tmp_path / "x.parquet", truth=tmp_path / "truth.parquet", **options)
    assert "\n" not in str(told.value)
    assert not (tmp_path / "truth.parquet").exists()


def test_no_parquet_is_told(tmp_path):
    with pytest.raises(CrowdpplError, match="no file"):
        stream(tmp_path / "none.parquet")
    (tmp_path / "x.parquet").write_text("task,worker,label\n")
    with pytest.raises(CrowdpplError, match="cannot be read as Parquet"):
        stream(tmp_path / "x.parquet")


def test_the_command(tmp_path):
    frame, _ = crowd(items=500)
    frame.to_parquet(tmp_path / "x.parquet")
    result = CliRunner().invoke(app, ["stream", str(tmp_path / "x.parquet"), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert len(pd.read_parquet(tmp_path / "out" / "truth.parquet")) == 500
    assert len(pd.read_csv(tmp_path / "out" / "workers.csv")) == 30
    assert json.loads((tmp_path / "out" / "run.json").read_text())["judgements"] == 2500
    again = CliRunner().invoke(app, ["stream", str(tmp_path / "x.parquet"), "--out", str(tmp_path / "out")])
    assert again.exit_code == 2
    assert "already holds" in again.output


def test_wide_priors_are_kept(tmp_path):
    FRAME.to_parquet(tmp_path / "x.parquet")
    found = stream(tmp_path / "x.parquet", DawidSkene(right=1000.0, wrong=0.0))
    assert (np.diagonal(found.parameters["confusion"].numpy(), axis1=1, axis2=2) > 0.99).all()
