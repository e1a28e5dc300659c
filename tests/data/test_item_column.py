"""Tables of a result call the items' column `item` where the annotations did, else `task`; both are read back."""

import pandas as pd
import pyarrow.parquet
import pytest
from catalog import quiet_fit, simulated
from crowds import crowd_with_characters
from typer.testing import CliRunner

import crowdppl
from crowdppl import Annotations, CrowdpplWarning, acquisition, criticism, export
from crowdppl.cli.main import app
from crowdppl.data.label_sets import pairs

NAMES = {"item": "item", "task": "task", "photo": "task"}


@pytest.fixture(scope="module")
def frame():
    return crowd_with_characters(items=60, each=30)[0]


def result(frame, name, **options):
    frame = frame.rename(columns={"task": name})
    return quiet_fit(Annotations.from_frame(frame, task=name), num_samples=120, **options)


@pytest.mark.parametrize("name", NAMES)
def test_every_table_calls_items_as_the_input_did(name, frame, tmp_path):
    expected = NAMES[name]
    fresh = result(frame, name, method="em")
    loaded = crowdppl.load(fresh.save(tmp_path / "x.nc"))
    more = frame.head(3).rename(columns={"task": "task" if name == "item" else "item"})
    with pytest.warns(CrowdpplWarning, match="3 of 3 further annotations"):
        updated = crowdppl.update(loaded, more)
    for posterior in (fresh, loaded, updated):
        assert posterior.item_column == expected
        tables = {
            "truth": posterior.truth(),
            **{what: export.TABLES[what](posterior) for what in ("truth", "soft", "weights")},
            "next items": acquisition.next_items(posterior, 5),
            "next pairs": acquisition.next_pairs(posterior, 5),
            "finished": acquisition.finished(posterior),
            "leave one out": criticism.loo(posterior).items,
        }
        for what, table in tables.items():
            assert table.columns[0] == expected, what
            assert not set(NAMES) - {expected} & set(table.columns), what
        truth = tables["truth"].rename(columns={expected: "task" if expected == "item" else "item"})
        assert criticism.calibration(posterior, truth).accuracy == 1


def test_ways_in(tmp_path):
    wide = pd.DataFrame({"item": [1, 2], "a": [3, 0], "b": [0, 2]})
    assert Annotations.from_counts(wide).item_column == "item"
    assert Annotations.from_counts(wide.set_index("item")).item_column == "item"
    assert Annotations.from_counts(wide.rename(columns={"item": "task"})).item_column == "task"
    assert Annotations.from_arrays([1, 2], [1, 1], [0, 1]).item_column == "task"
    sets = pd.DataFrame({"item": [1, 2], "worker": [1, 1], "label": ["a;b", "a"]})
    assert pairs(sets).item_column == "item"
    for name, content in {
        "wide": "item,u,v\n1,a,b\n2,b,b\n",
        "soft": "item,worker,p_a,p_b\n1,u,.9,.1\n2,u,.2,.8\n",
    }.items():
        (tmp_path / "x.csv").write_text(content)
        assert crowdppl.read(tmp_path / "x.csv", format=name).item_column == "item"
        (tmp_path / "x.csv").write_text(content.replace("item", "task"))
        assert crowdppl.read(tmp_path / "x.csv", format=name).item_column == "task"


def test_predictions_and_folds():
    data, _, _ = simulated(items=40, seed=1)
    data = crowdppl.Annotations.from_frame(
        pd.DataFrame(
            {"item": data.items[data.item], "worker": data.workers[data.worker], "label": data.labels[data.label]}
        )
    )
    posterior = quiet_fit(data, "dawid-skene", method="em", num_samples=20)
    assert crowdppl.predict_correct(posterior, data).columns[0] == "item"
    assert criticism.kfold(data, "dawid-skene", method="em", folds=2, num_samples=120).columns[0] == "item"


@pytest.mark.slow
def test_the_command_and_streaming(frame, tmp_path):
    frame = frame.rename(columns={"task": "item"}).sort_values("item", kind="stable")
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet")

    def run(*words):
        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == 0, done.output
        return done.output

    run("fit", tmp_path / "x.csv", "--method", "em", "--out", tmp_path / "r")
    assert pd.read_csv(tmp_path / "r" / "truth.csv").columns[0] == "item"
    run("next", tmp_path / "r", "--sure", 0.9)
    assert pd.read_csv(tmp_path / "r" / "next.csv").columns[0] == "item"
    run("stream", tmp_path / "x.parquet", "--out", tmp_path / "s")
    assert pyarrow.parquet.read_schema(tmp_path / "s" / "truth.parquet").names[0] == "item"
    run("report", tmp_path / "r")
    # --item is --task by another name.
    frame.rename(columns={"item": "photo"}).to_csv(tmp_path / "y.csv", index=False)
    run("fit", tmp_path / "y.csv", "--item", "photo", "--method", "em", "--out", tmp_path / "t")
    assert pd.read_csv(tmp_path / "t" / "truth.csv").columns[0] == "task"
