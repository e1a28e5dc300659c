"""Faults that reading the code found: each as it was seen."""

import os
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
from catalog import quiet_fit, tiny
from typer.testing import CliRunner

import crowdppl
from crowdppl import CrowdpplError, CrowdpplWarning, FileError, criticism, export, report
from crowdppl.cli import main
from crowdppl.cli.wording import in_command
from crowdppl.crowdkit.aggregation import DawidSkene, MajorityVote
from crowdppl.export import results
from crowdppl.files import atomic
from crowdppl.inference.fingerprint import described

FRAME = pd.DataFrame(
    {"task": list("aabbccdd") * 3, "worker": ["u", "v"] * 12, "label": [0, 0, 1, 1, 0, 1, 1, 1] * 3}
).drop_duplicates(["task", "worker"])


@pytest.fixture(scope="module")
def result():
    return quiet_fit(FRAME, method="em", num_samples=30)


def run(*words, code=0):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        result = CliRunner().invoke(main.app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result.output


def test_texts_that_no_file_holds_are_cleaned(result, tmp_path):
    described = report.describe(result, text={"a": "hello\0world", "b": "half \ud800 a letter"})
    texts, _ = report.items.descriptions(crowdppl.load(described.save(tmp_path / "p.nc")))
    assert texts[:2] == ["helloworld", "half ? a letter"]
    report.write(described, tmp_path / "report.html")


def test_the_column_of_items_may_be_that_of_texts(result):
    columns = report.columns(FRAME, "task", text="task")
    assert columns["text"].to_dict() == {name: name for name in "abcd"}
    twice = pd.concat([FRAME, FRAME["label"]], axis=1)
    with pytest.raises(CrowdpplError, match="several columns are called 'label'"):
        report.columns(twice, "task", text="label")


@pytest.mark.parametrize(
    "message",
    [
        "no file data/worker_features.csv; check the name",
        "worker_features.csv: no column 'worker'",
        "truth_file.csv.gz cannot be read",
        "label=1/part.parquet is not readable",
    ],
)
def test_names_of_files_are_no_options(message):
    assert in_command(message, main.app) == message


def test_arguments_become_options_still():
    assert in_command("name its column with worker=...", main.app) == "name its column with --worker ..."
    assert in_command("raise num_samples.", main.app) == "raise --num-samples."


def test_nothing_is_said_where_nothing_is_known():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"task": range(60), "worker": rng.integers(0, 5, 60), "label": rng.integers(0, 3, 60)})
    posterior = quiet_fit(frame, method="em", num_samples=100, independent=False)
    assert set(posterior.workers()["verdict"]) == {"unknown"}
    actions = report.actions(posterior)
    assert not actions.questions
    assert report.lines(actions, posterior)[0].startswith("Nothing can be said about the workers")


def test_an_update_keeps_the_title(tmp_path):
    FRAME.to_csv(tmp_path / "first.csv", index=False)
    pd.DataFrame({"task": ["a"], "worker": ["w"], "label": [1]}).to_csv(tmp_path / "more.csv", index=False)
    quick = ("--method", "em", "--num-samples", 30)
    run("fit", tmp_path / "first.csv", "--title", "My heading", "--out", tmp_path / "one", *quick)
    run("update", tmp_path / "one", tmp_path / "more.csv")
    assert report.content(*results.opened(tmp_path / "one"))["title"] == "My heading"
    run("fit", tmp_path / "first.csv", "--out", tmp_path / "two", *quick)
    run("update", tmp_path / "two", tmp_path / "more.csv")
    assert report.content(*results.opened(tmp_path / "two"))["title"] == "first.csv"


def test_an_interruption_amid_the_tables_keeps_the_posterior(result, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(export, "write", stop)
    with pytest.raises(KeyboardInterrupt):
        results.write(result, tmp_path / "out", run={})
    assert len(crowdppl.load(tmp_path / "out" / "posterior.nc").truth()) == 4


def test_a_checkpoint_stays_until_the_result_is_there(tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    options = {"method": "gibbs", "chains": 2, "warmup": 5, "num_samples": 20, "seed": 1, "every": 0}
    with monkeypatch.context() as patched:
        patched.setattr("crowdppl.inference.fit.convergence", stop)
        with pytest.raises(KeyboardInterrupt):
            quiet_fit(FRAME, checkpoint=tmp_path / "state", **options)
    assert any(path.is_file() for path in (tmp_path / "state").rglob("*"))
    again = quiet_fit(FRAME, checkpoint=tmp_path / "state", **options)
    np.testing.assert_array_equal(again.probability(), quiet_fit(FRAME, **options).probability())


def test_a_file_is_read_beside_a_fit(result, tmp_path):
    """Also by a thread that the fit's own progress waits for."""
    path = result.save(tmp_path / "p.nc")
    read = []

    def progress(*_):
        if not read:
            thread = threading.Thread(target=lambda: read.append(crowdppl.load(path)))
            thread.start()
            thread.join(timeout=60)
            read.append(thread.is_alive())

    quiet_fit(tiny(items=20), method="em", num_samples=20, progress=progress)
    assert read[-1] is False


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may give files away")
def test_a_folder_of_results_keeps_its_owner(result, tmp_path):
    results.write(result, tmp_path / "out", run={})
    os.chown(tmp_path / "out", 1234, 1234)
    results.write(result, tmp_path / "out", run={})
    assert {(path.stat().st_uid, path.stat().st_gid) for path in (tmp_path / "out", tmp_path / "out" / "run.json")} == {
        (1234, 1234)
    }


def test_an_update_may_take_another_engine_or_rho():
    first = quiet_fit(FRAME, method="gibbs", chains=2, warmup=10, num_samples=30, independent=False)
    more = pd.DataFrame({"task": ["a"], "worker": ["w"], "label": [1]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        assert crowdppl.update(first, more, method="em").info["method"] == "em"
        assert crowdppl.update(first, more, independent=True).info["rho"] is None
        assert crowdppl.update(first, more, rho=0.1).info["rho"]["known"] == 0.1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_pipes_and_links_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(FileError, match="a device or a pipe"), atomic(tmp_path / "pipe.csv"):
        pass
    (tmp_path / "target.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "target.csv")
    with atomic(tmp_path / "link.csv") as part:
        part.write_text("new")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "target.csv").read_text() == "new"


def test_long_names_of_wide_letters(result, tmp_path):
    assert result.save(tmp_path / ("漢" * 80 + ".nc")).is_file()


def test_what_differs_is_described_differently():
    def of(value):
        def function(*, keyword=value):
            return keyword

        return function

    def unfinished():
        def function():
            return later

        text = described(function)  # what it closes over is not there yet
        later = 1
        return text, later

    assert "empty" in unfinished()[0]
    pairs = [(pd.DataFrame({"a": np.arange(100)}), pd.DataFrame({"a": np.arange(100)[::-1].copy()})), (of(1), of(2))]
    for one, two in pairs:
        assert described(one) != described(two)
        assert described(one) == described(one)
    assert described({"b", "a"}) == described({"a", "b"})


def test_crowdkit_takes_mappings():
    assert DawidSkene().fit(FRAME, true_labels={"a": 1}).labels_["a"] == 1
    assert len(MajorityVote().fit(FRAME, skills={"u": 1.0, "v": 0.5}).labels_) == 4
    with pytest.raises(CrowdpplError, match="skills is a list"):
        MajorityVote().fit(FRAME, skills=[1.0, 0.5])


def test_a_prior_check_has_enough_draws_by_default():
    assert "too few" not in str(criticism.prior_check(crowdppl.models.OneCoin(), tiny(items=20)).summary)


def test_room_is_made_sure_of_for_long_identifiers(tmp_path):
    names = [f"{n:04d} " + "a long name of an item " * 40 for n in range(300)]
    frame = pd.DataFrame({"task": np.repeat(names, 2), "worker": ["u", "v"] * 300, "label": [0, 0, 1, 1] * 150})
    posterior = quiet_fit(frame, method="em", num_samples=2)
    path = posterior.save(tmp_path / "p.nc")
    assert path.stat().st_size <= crowdppl.posterior.io.HEADERS + crowdppl.posterior.io._size(posterior.tree)
    assert path.stat().st_size > sum(node.to_dataset().nbytes for node in posterior.tree.subtree)
