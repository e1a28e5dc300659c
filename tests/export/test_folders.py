"""Atomic replacement of result folders: interrupted replacements are completed or removed; Ctrl-C reports what is on disk."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crowdppl import FileError, files
from crowdppl.cli import main
from crowdppl.export import folders, results
from crowdppl.export.folders import recover, replaced, tidy
from crowdppl.files import abandoned_parts, atomic, temporary_path

NAMES = ("a", "b", "c")
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="no signals")


def fill(folder, run, names=NAMES):
    for name in names:
        (folder / name).write_text(run)


def fail_amid(folder):
    fill(folder, "first", "ab")
    raise RuntimeError("amid")


def content(folder):
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


@pytest.fixture(params=["exchange", "inside"])
def strategy(request, monkeypatch):
    """Replacement by an exchange of names, and inside the folder where that is impossible."""
    if request.param == "inside":

        def impossible(*_):
            raise OSError("this file system cannot")

        monkeypatch.setattr(folders, "_exchange", impossible)
    return request.param


def test_a_folder_appears_complete_or_not_at_all(tmp_path, strategy):
    target = tmp_path / "new" / "results"
    with pytest.raises(RuntimeError, match="amid"), replaced(target, NAMES) as staging:
        fail_amid(staging)
    assert list(tmp_path.iterdir()) == []
    said = []
    with replaced(target, NAMES, lambda: said.append(content(target))) as staging:
        fill(staging, "first")
        assert not target.exists()
    assert said == [dict.fromkeys(NAMES, "first")]
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert [path.name for path in target.parent.iterdir()] == ["results"]


def test_other_files_of_a_folder_stay(tmp_path, strategy):
    """Also those that have the name of a file that is not written this time, and those in a folder of the result."""
    target, names = tmp_path / "results", (*NAMES, "d", "truth", "run.json")
    with replaced(target, names) as staging:
        fill(staging, "first")
        (staging / "truth").mkdir()
        fill(staging / "truth", "first", ("part-0", "part-1", "part-2"))
        results.write_run(staging, {})
    (target / "mine.txt").write_text("mine")
    (target / "folder").mkdir()
    (target / "b").write_text("changed by the user")
    (target / "d").write_text("mine")
    (target / "truth" / "notes.txt").write_text("mine")
    (target / "truth" / "part-2").write_text("changed by the user")
    (target / "truth" / "sub").mkdir()
    (target / "truth" / "sub" / "deep.txt").write_text("mine")
    target.chmod(0o750)
    with replaced(target, names) as staging:
        fill(staging, "second", "a")
        (staging / "truth").mkdir()
        fill(staging / "truth", "second", ("part-0",))
    (target / "folder").rmdir()
    assert content(target / "truth" / "sub") == {"deep.txt": "mine"}
    shutil.rmtree(target / "truth" / "sub")
    parts = {"part-0": "second", "part-2": "changed by the user", "notes.txt": "mine"}
    assert content(target / "truth") == parts
    shutil.rmtree(target / "truth")
    assert content(target) == {"a": "second", "b": "changed by the user", "d": "mine", "mine.txt": "mine"}
    assert target.stat().st_mode & 0o777 == 0o750
    assert [path.name for path in tmp_path.iterdir()] == ["results"]


def test_the_working_directory_is_not_replaced(tmp_path, monkeypatch):
    fill(tmp_path, "first")
    monkeypatch.chdir(tmp_path)
    with replaced(Path(), NAMES) as staging:
        fill(staging, "second")
    assert content(Path()) == dict.fromkeys(NAMES, "second") == content(tmp_path)


def test_a_link_to_a_folder_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    with replaced(tmp_path / "link", NAMES) as staging:
        fill(staging, "first")
    assert (tmp_path / "link").is_symlink()
    assert content(tmp_path / "there") == dict.fromkeys(NAMES, "first")


def test_an_interrupted_replacement_is_completed(tmp_path):
    """At every point where the process could have been killed."""
    for moved in range(4):
        target = tmp_path / str(moved)
        (target / folders.COMPLETE).mkdir(parents=True)
        fill(target, "first")
        fill(target / folders.COMPLETE, "second", NAMES[moved:])
        fill(target, "second", NAMES[:moved])
        recover(target)
        assert content(target) == dict.fromkeys(NAMES, "second")


def ended():
    """Return the id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_abandoned_folders_are_removed_and_those_in_use_are_not(tmp_path, monkeypatch):
    target = tmp_path / "results"
    living = temporary_path(target)
    living.mkdir()
    with monkeypatch.context() as other:
        gone = ended()
        other.setattr(os, "getpid", lambda: gone)
        left = temporary_path(target)
        incomplete = temporary_path(target)
    for folder in (left, incomplete):
        folder.mkdir()
        fill(folder, "partly", "ab")
    (left / folders.OLD).write_text(json.dumps(NAMES))  # killed as the user's file was moved back
    (left / "mine.txt").write_text("mine")
    (incomplete / "x").write_text("partly, of another command")
    target.mkdir()
    assert set(abandoned_parts(target)) == {left, incomplete}
    tidy(target)
    assert content(target) == {"mine.txt": "mine"}
    assert living.is_dir()
    assert not left.exists()
    assert not incomplete.exists()
    files.release(living)
    assert abandoned_parts(target) == [living]


LONG = {
    "two bytes a character": "ö" * 90,
    "four bytes a character": "\N{GRINNING FACE}" * 50,
    "not UTF-8": os.fsdecode(b"\xff" * 120),
    "not UTF-8, short": os.fsdecode(b"r\xe9sultats"),
    "longest": "x" * 255,
    "longest, characters": "ab" + "€" * 84,
}


@pytest.mark.skipif(sys.platform != "linux", reason="names of other systems are text")
@pytest.mark.parametrize("case", LONG)
def test_files_of_others_come_back_whatever_the_name(tmp_path, monkeypatch, case):
    """A process was killed after the exchange of names, before the files of others were moved back."""
    target = tmp_path / LONG[case]
    target.mkdir()
    fill(target, "second")
    with monkeypatch.context() as other:
        gone = ended()
        other.setattr(os, "getpid", lambda: gone)
        left = temporary_path(target)
    left.mkdir()
    (left / folders.OLD).write_text(json.dumps(NAMES))
    (left / "mine.txt").write_text("mine")
    assert len(os.fsencode(left.name)) <= 255
    # A name that begins alike is another one.
    twin = tmp_path / (LONG[case][:-1] + "z")
    twin.mkdir()
    assert abandoned_parts(twin) == []
    tidy(twin)
    tidy(target)
    assert content(target) == dict.fromkeys(NAMES, "second") | {"mine.txt": "mine"}
    assert content(twin) == {}
    assert not left.exists()


def test_abandoned_files_are_removed(tmp_path, monkeypatch):
    path = tmp_path / "x.csv"
    with monkeypatch.context() as other:
        gone = ended()
        other.setattr(os, "getpid", lambda: gone)
        temporary_path(path).write_text("partly")
    elsewhere = tmp_path / f".x.csv.part-00000000-{gone}-00000000"
    elsewhere.write_text("of another machine, just now")
    with atomic(path) as temporary:
        temporary.write_text("all")
    assert sorted(tmp_path.iterdir()) == [elsewhere, path]
    os.utime(elsewhere, (0, 0))
    with atomic(path) as temporary:
        temporary.write_text("all")
    assert list(tmp_path.iterdir()) == [path]


@POSIX
def test_files_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        with atomic(tmp_path / "x") as temporary:
            temporary.write_text("x")
        with replaced(tmp_path / "y", ["a"]) as staging:
            fill(staging, "x", "a")
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "y").stat().st_mode & 0o777 == 0o750


# Imports once; then each line of standard input begins a process that replaces the folder until it is killed.
REPLACE = """
    import os, sys, itertools
    from pathlib import Path
    from crowdppl.export.folders import replaced
    target = Path(sys.argv[1])
    for line in sys.stdin:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            print("ended", flush=True)
            continue
        print(os.getpid(), flush=True)
        for run in itertools.count():
            with replaced(target, ("a", "b", "c")) as staging:
                for name in "abc":
                    (staging / name).write_text(f"{line.strip()} {run}")
"""


@pytest.mark.slow
@POSIX
def test_a_folder_never_mixes_two_runs_when_processes_are_killed(tmp_path):
    target, rng = tmp_path / "results", random.Random(0)
    with replaced(target, NAMES) as staging:
        fill(staging, "first")
    (target / "mine.txt").write_text("mine")
    words = [sys.executable, "-c", textwrap.dedent(REPLACE), str(target)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for kill in range(20):
            process.stdin.write(f"{kill}\n")
            process.stdin.flush()
            child = int(process.stdout.readline())
            time.sleep(rng.uniform(0.01, 0.1))
            os.kill(child, signal.SIGKILL)
            assert process.stdout.readline() == "ended\n"
            texts = {name: (target / name).read_text() for name in NAMES}
            assert len(set(texts.values())) == 1, texts
            tidy(target)
            assert sorted(path.name for path in target.iterdir()) == ["a", "b", "c", "mine.txt"]
            assert [path.name for path in tmp_path.iterdir()] == ["results"]
        process.stdin.close()


@pytest.fixture
def labels(tmp_path):
    rng = random.Random(1)
    rows = [f"{i},{j},{rng.choice(['cat', 'Köter'])}" for i in range(20) for j in range(4)]
    path = tmp_path / "labels.csv"
    path.write_text("task,worker,label\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


FIT = ["--method", "em", "--num-samples", "100"]


def run(*words):
    return CliRunner().invoke(main.app, [str(word) for word in words], env={"COLUMNS": "200"})


def pressed(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.slow
def test_control_c_reports_what_is_on_disk(tmp_path, labels, monkeypatch):
    out = tmp_path / "out"
    with monkeypatch.context() as during:
        during.setattr("crowdppl.inference.fit.fit", pressed)
        stopped = run("fit", labels, "--out", out)
    assert stopped.exit_code == 130
    assert "stopped: nothing was written; with --checkpoint" in stopped.stderr
    with monkeypatch.context() as during:
        during.setattr("crowdppl.export.write", pressed)
        stopped = run("fit", labels, "--out", out, *FIT)
    assert f"stopped: the tables were not written, the posterior is in {out}" in stopped.stderr
    assert sorted(path.name for path in out.iterdir()) == ["posterior.nc", "run.json"]
    assert run("export", out, "--what", "workers").exit_code == 0
    shutil.rmtree(out)
    with monkeypatch.context() as during:
        during.setattr("crowdppl.cli.display.truth.show_truth", pressed)
        stopped = run("fit", labels, "--out", out, *FIT)
    assert f"stopped: the results are in {out}" in stopped.stderr
    with monkeypatch.context() as during:
        during.setattr("crowdppl.report.write", pressed)
        stopped = run("fit", labels, "--out", out, *FIT, "--overwrite", "--report")
        assert stopped.exit_code == 130
        assert f"the results are in {out}, but no report was written; for one: crowdppl report {out}" in stopped.stderr
        assert (out / "run.json").is_file()
        stopped = run("report", out)
    assert "stopped: nothing was written" in stopped.stderr
    assert run("report", out).exit_code == 0


def test_control_c_of_a_stream_leaves_no_empty_folder(tmp_path, labels, monkeypatch):
    out = tmp_path / "out"
    monkeypatch.setattr("crowdppl.inference.scale.streaming.stream", pressed)
    stopped = run("stream", labels, "--out", out)
    assert stopped.exit_code == 130
    assert "stopped: nothing was written" in stopped.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["labels.csv"]


@pytest.fixture
def interruptible():
    """Let Ctrl-C interrupt, also in a process that was started in the background and ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_control_c_amid_the_exchange_waits_for_it(tmp_path):
    done = []

    def then():
        signal.raise_signal(signal.SIGINT)
        done.append(True)

    with pytest.raises(KeyboardInterrupt), replaced(tmp_path / "x", NAMES, then) as staging:
        fill(staging, "all")
    assert done
    assert content(tmp_path / "x") == dict.fromkeys(NAMES, "all")


@pytest.mark.slow
def test_a_new_fit_takes_the_report_of_the_old_one_away(tmp_path, labels):
    out = tmp_path / "out"
    assert run("fit", labels, "--out", out, *FIT, "--report").exit_code == 0
    (out / "next.csv").write_text("mine")
    assert (out / "report.html").is_file()
    assert run("fit", labels, "--out", out, *FIT, "--overwrite").exit_code == 0
    assert sorted(path.name for path in out.iterdir()) == sorted({*results.FILES, "next.csv"} - results.FURTHER)


def test_an_interrupted_replacement_is_finished_as_results_are_opened(tmp_path, labels):
    out = tmp_path / "out"
    assert run("fit", labels, "--out", out, *FIT).exit_code == 0
    (out / folders.COMPLETE).mkdir()
    story = json.loads((out / "run.json").read_text()) | {"seed": 77}
    (out / folders.COMPLETE / "run.json").write_text(json.dumps(story))
    _, run_info = results.opened(out)
    assert run_info["seed"] == 77


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot write"), replaced(tmp_path / "file" / "x", NAMES):
        pass


@pytest.mark.slow
@pytest.mark.parametrize(
    "encoding",
    ["ascii:strict", *(pytest.param(n, marks=pytest.mark.slow) for n in ("ascii", "cp1252", "latin-1", "utf-8"))],
)
def test_output_in_any_encoding(tmp_path, labels, encoding):
    """Results are written, and the command says so, whatever standard output is encoded in."""
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    script = """
import sys
from crowdppl.cli.main import main
labels, out, *fit = sys.argv[1:]
for words in (["fit", labels, "--out", out, *fit], ["models"], ["formats"], ["check", out], ["report", out], ["next", out],
              ["--help"], ["fit", "--help"], ["datasets"]):
    sys.argv = ["crowdppl", *words]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
"""
    words = [sys.executable, "-W", "ignore", "-c", script, str(labels), str(tmp_path / "out"), *FIT]
    done = subprocess.run(words, capture_output=True, env=environment, timeout=200, check=False)
    assert done.returncode == 0, done.stderr.decode("latin-1")[-1500:]
    name = encoding.partition(":")[0]
    output = done.stdout.decode(name)
    assert "Wrote truth.csv" in output
    assert ("Köter" if name != "ascii" else "K\\xf6ter") in output
    assert "?" * 2 not in output
