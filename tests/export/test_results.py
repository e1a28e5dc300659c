"""Results on disk: updates, interruptions, owners of folders, links, long names and required disk space."""

import os
import shutil
import sys
import threading
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from catalog import quiet_fit, tiny
from crowds import FOUR_ITEMS as FRAME
from typer.testing import CliRunner

import crowdppl
from crowdppl import CrowdpplWarning, FileError, export, report
from crowdppl.cli import main
from crowdppl.export import results
from crowdppl.files import atomic
from crowdppl.inference.memory import result_bytes


@pytest.fixture(scope="module")
def result():
    return quiet_fit(FRAME, method="em", num_samples=30)


def run(*words, code=0):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        result = CliRunner().invoke(main.app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.slow
def test_an_update_keeps_the_title(tmp_path):
    FRAME.to_csv(tmp_path / "first.csv", index=False)
    pd.DataFrame({"task": ["a"], "worker": ["w"], "label": [1]}).to_csv(tmp_path / "more.csv", index=False)
    quick = ("--method", "em", "--num-samples", 30)
    run("fit", tmp_path / "first.csv", "--title", "My heading", "--out", tmp_path / "one", *quick)
    run("update", tmp_path / "one", tmp_path / "more.csv", "--overwrite")
    assert report.content(*results.opened(tmp_path / "one"))["title"] == "My heading"
    run("fit", tmp_path / "first.csv", "--out", tmp_path / "two", *quick)
    run("update", tmp_path / "two", tmp_path / "more.csv", "--overwrite")
    assert report.content(*results.opened(tmp_path / "two"))["title"] == "first.csv"


def test_an_interruption_amid_the_tables_keeps_the_posterior(result, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(export, "write", stop)
    with pytest.raises(KeyboardInterrupt):
        results.write(result, tmp_path / "out", run={})
    assert len(crowdppl.load(tmp_path / "out" / "posterior.nc").truth()) == 4


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


def test_room_is_made_sure_of_for_long_identifiers(tmp_path):
    names = [f"{n:04d} " + "a long name of an item " * 40 for n in range(300)]
    frame = pd.DataFrame({"task": np.repeat(names, 2), "worker": ["u", "v"] * 300, "label": [0, 0, 1, 1] * 150})
    posterior = quiet_fit(frame, method="em", num_samples=2)
    path = posterior.save(tmp_path / "p.nc")
    assert path.stat().st_size <= crowdppl.posterior.io.HEADERS + crowdppl.posterior.io._size(posterior.tree)
    assert path.stat().st_size > sum(node.to_dataset().nbytes for node in posterior.tree.subtree)


@pytest.mark.parametrize(
    ("options", "draws"),
    [
        ((), 1000),
        (("--num-samples", 30), 30),
        (("--model", "dawid-skene", "--num-samples", 30), 120),
        (("--model", "dawid-skene", "--method", "em", "--num-samples", 30), 30),
        (("--method", "gibbs", "--chains", 2, "--num-samples", 30), 60),
    ],
)
def test_room_is_made_sure_of_for_the_draws_of_the_engine(tmp_path, monkeypatch, options, draws):
    """A fit is refused where the disk is full to the last byte that its result may take, and not where there is room for it."""
    FRAME.to_csv(tmp_path / "labels.csv", index=False)
    words = ("fit", tmp_path / "labels.csv", "--out", tmp_path / "out", *options)
    size = result_bytes(crowdppl.Annotations.from_frame(FRAME), draws)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=size - 1))
    assert "the result may take" in " ".join(run(*words, code=2).split())
    fitted = []
    monkeypatch.setattr(crowdppl.inference.fit, "fit", lambda *_, **__: fitted.append(True) or sys.exit(0))
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=size))
    run(*words)
    assert fitted
