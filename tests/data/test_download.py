"""Sets from their authors: what they publish, served here, comes out as it is known; anything else is refused."""

import http.server
import json
import threading
from functools import partial
from urllib.parse import quote

import pandas as pd
import pytest
import requests  # noqa: F401 - what pooch fetches with sets filters of warnings when it is loaded
from catalog import in_turn
from typer.testing import CliRunner

from crowdppl.cli.main import app
from crowdppl.data import datasets, download
from crowdppl.errors import FileError, OptionError

ANNOTATIONS = pd.DataFrame(
    {"item": ["0", "0", "1", "1"], "worker": ["0", "2", "0", "1"], "label": ["a", "b", "b", "b"]}
)
TRUTH = pd.DataFrame({"item": ["0", "1"], "label": ["a", "b"]})
LAYOUTS = {
    "by_item": ("question,worker,answer\n0,0,a\n1,1,b\n0,2,b\n1,0,b\n", "question,truth\n1,b\n0,a\n"),
    "by_worker": ("0\t0\ta\n2\t0\tb\n0\t1\tb\n1\t1\tb\n", "0\ta\n1\tb\n"),
    "matrix": ("a,,b\nb,b,\n", "a\nb\n"),
}


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Serve a folder on this machine in place of the authors' repositories."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    place = tmp_path / "published"
    place.mkdir()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=place))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setattr(download, "ADDRESS", f"http://127.0.0.1:{server.server_port}/{{path}}")
    monkeypatch.setattr(download, "cache", lambda: tmp_path / "cache")
    monkeypatch.delenv("CROWDPPL_DATA", raising=False)
    monkeypatch.delenv("http_proxy", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield place
    server.shutdown()
    server.server_close()
    thread.join()


def source(layout, digest=None):
    return download.Source(
        "owner/name",
        "abc",
        "some data/answer.csv",
        "some data/truth.csv",
        getattr(download, layout),
        download.content_digest(ANNOTATIONS, TRUTH) if digest is None else digest,
        "They (2020)",
    )


def publish(place, layout):
    (place / "some data").mkdir(exist_ok=True)
    for name, text in zip(("answer.csv", "truth.csv"), LAYOUTS[layout], strict=True):
        (place / "some data" / name).write_text(text)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_fetched_once_and_read(layout, serve, monkeypatch):
    publish(serve, layout)
    monkeypatch.setitem(download.SOURCES, "mine", source(layout))
    data, truth = datasets.public("mine")
    assert (data.N, data.J, data.A) == (2, 3, 4)
    assert truth.to_dict() == {0: "a", 1: "b"}
    assert datasets.listing().set_index("name").loc["mine", ["where", "citation"]].tolist() == [
        "fetched",
        "They (2020)",
    ]
    for path in (serve / "some data").iterdir():
        path.unlink()
    assert datasets.public("mine")[0].A == 4, "fetched a second time"
    here = download.cache() / "mine"
    assert sorted(path.name for path in here.iterdir()) == ["annotations.csv.gz", "meta.json", "truth.csv"]
    assert json.loads((here / "meta.json").read_text())["n_annotations"] == 4
    with pytest.raises(FileError, match="cannot be fetched from owner/name"):
        download.fetch("mine", again=True)
    assert datasets.public("mine")[0].A == 4, "a fetch that failed took the set away"


def test_what_is_not_what_was_published_is_refused_and_not_kept(serve, monkeypatch):
    publish(serve, "by_item")
    monkeypatch.setitem(download.SOURCES, "mine", source("by_item", "0" * 64))
    with pytest.raises(FileError, match=r"differs from the published one \(SHA-256 of its content\)"):
        datasets.public("mine")
    assert not list((download.cache() / "mine").iterdir())
    (serve / "some data" / "answer.csv").write_text("<html>sign in</html>")
    monkeypatch.setitem(download.SOURCES, "mine", source("by_item"))
    with pytest.raises(FileError, match="differs from the published one"):
        datasets.public("mine")


def test_no_network_and_unknown_sets_are_reported(serve, monkeypatch):
    monkeypatch.setattr(download, "ADDRESS", "http://127.0.0.1:9/{path}")
    with pytest.raises(FileError, match="the set 'dog' cannot be fetched from zhydhkcws/crowd_truth_infer") as error:
        datasets.public("dog")
    assert "\n" not in str(error.value)
    with pytest.raises(OptionError, match="no set 'dgo' to fetch \\(did you mean 'dog'\\?\\)"):
        download.fetch("dgo")
    result = CliRunner().invoke(app, ["datasets", "--fetch", "dog"])
    assert result.exit_code == 2
    assert "cannot be fetched" in result.output


def test_the_command_fetches(serve, monkeypatch):
    publish(serve, "matrix")
    monkeypatch.setitem(download.SOURCES, "mine", source("matrix"))
    result = CliRunner().invoke(app, ["datasets", "--fetch", "mine"])
    assert result.exit_code == 0, result.output
    assert "mine is in" in result.output
    assert "fetched" in CliRunner().invoke(app, ["datasets"]).output


@pytest.mark.parametrize("name", in_turn(download.SOURCES, 3, night=False))
def test_digests_are_those_of_the_sets_at_hand(name, public):
    """The content that a fetch must have is that of the public copy; addresses are well formed."""
    public(name)
    place = datasets.folder() / name
    tables = [
        pd.read_csv(place / file, dtype=str, keep_default_na=False) for file in ("annotations.csv.gz", "truth.csv")
    ]
    source = download.SOURCES[name]
    assert download.content_digest(*tables) == source.sha256
    assert quote(source.annotations).count("/") >= 1
    assert len(source.commit) in (12, 40)
