"""How a command ends: signals, closed streams, full devices, and names that would control a terminal."""

import io
import json
import os
import signal
import subprocess
import sys
import textwrap

import pandas as pd
import pytest
from commands import run
from rich.table import Table
from rich.text import Text

from crowdppl.cli.terminal import Terminal, visible

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals and descriptors of Unix")

# Imports once; each case runs in a child, with its standard streams in files.
CASES = """
    import json, os, signal, sys, time, traceback
    from pathlib import Path
    import crowdppl.inference.scale.streaming as streaming
    from crowdppl.cli import main
    from crowdppl.cli.display import computation, truth, workers
    from crowdppl.cli.commands import fitting, listings
    from crowdppl.export import results

    def slow(*_, **__):
        Path("ready").touch()
        time.sleep(60)

    real = streaming.stream
    ends = {}
    for name, case in json.loads(sys.argv[1]).items():
        child = os.fork()
        if not child:
            # A test run in the background has them ignored.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            for number in (case.get("ignored") or []):
                signal.signal(getattr(signal, number), signal.SIG_IGN)
            streaming.stream = slow if case.get("signals") else real
            sys.argv = ["crowdppl", *case["words"]]
            for number, stream, mode in ((1, "stdout", "w"), (2, "stderr", "w")):
                place = (case.get("streams") or {}).get(stream, f"{name}.{stream}")
                os.close(number)
                if place is None:
                    setattr(sys, stream, None)
                else:
                    os.open(place, os.O_WRONLY | (0 if place.startswith("/dev") else os.O_CREAT))
                    setattr(sys, stream, open(number, mode, closefd=False))
            try:
                main.main()
            except SystemExit as end:
                for stream in (sys.stdout, sys.stderr):
                    stream.flush()
                os._exit(end.code or 0)
            except BaseException:
                traceback.print_exc(file=open(f"{name}.crash", "w"))
            os._exit(99)
        for number in case.get("signals") or []:
            while not Path("ready").exists():
                time.sleep(0.01)
            os.kill(child, getattr(signal, number))
            time.sleep(0.2)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        Path("ready").unlink(missing_ok=True)
        read = {s: Path(f"{name}.{s}").read_text() for s in ("stdout", "stderr", "crash") if Path(f"{name}.{s}").exists()}
        ends[name] = {"status": status, **read}
    print(json.dumps(ends))
"""

STREAM = ["stream", "x.parquet", "--out", "out"]
SMALL = ["stream", "x.parquet", "--passes", "1"]
FULL = "/dev/full"
ENDS = {
    "SIGINT": ({"words": STREAM, "signals": ["SIGINT"]}, 130, "stopped: nothing was written"),
    "SIGTERM": ({"words": STREAM, "signals": ["SIGTERM"]}, 143, "stopped: nothing was written"),
    "SIGHUP": ({"words": STREAM, "signals": ["SIGHUP"]}, 129, "stopped: nothing was written"),
    "SIGINT ignored": ({"words": STREAM, "signals": ["SIGTERM"], "ignored": ["SIGINT"]}, 143, "stopped: nothing"),
    "nohup": ({"words": STREAM, "signals": ["SIGHUP", "SIGTERM"], "ignored": ["SIGHUP"]}, 143, "stopped: nothing"),
    "full output": ({"words": [*SMALL, "--out", "a"], "streams": {"stdout": FULL}}, 1, "cannot be written to"),
    "full output, help": ({"words": ["--help"], "streams": {"stdout": FULL}}, 1, "cannot be written to"),
    "full output, version": ({"words": ["--version"], "streams": {"stdout": FULL}}, 1, "cannot be written to"),
    "full errors": ({"words": [*SMALL, "--out", "b"], "streams": {"stderr": FULL}}, 0, None),
    "full errors, an error": ({"words": ["stream", "nothing"], "streams": {"stderr": FULL}}, 2, None),
}


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    if sys.platform != "linux":
        pytest.skip("devices of Linux")
    folder = tmp_path_factory.mktemp("ends")
    rows = [(item, worker, (item + (worker == 3)) % 2) for item in range(12) for worker in range(4)]
    pd.DataFrame(rows, columns=["task", "worker", "label"]).to_parquet(folder / "x.parquet", index=False)
    words = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(CASES)]
    cases = json.dumps({name: case for name, (case, _, _) in ENDS.items()})
    done = subprocess.run([*words, cases], cwd=folder, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stderr[-1500:]
    return folder, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", ENDS)
def test_a_command_ends_in_one_line(name, ends):
    _, status, said = ENDS[name]
    end = ends[1][name]
    assert end["status"] == status, end
    assert "Traceback" not in str(end)
    assert "Exception ignored" not in str(end)
    if said is not None:
        assert said in end.get("stderr", ""), end


def test_nothing_is_left_of_a_stopped_command(ends):
    folder = ends[0]
    assert not (folder / "out").exists()
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_results_are_complete_whatever_the_streams(ends):
    folder, said = ends
    for name in "ab":
        assert sorted(path.name for path in (folder / name).iterdir()) == ["run.json", "truth.parquet", "workers.csv"]
    assert "the results are in a" in said["full output"]["stderr"]


@pytest.mark.slow
@POSIX
def test_closed_streams(tmp_path):
    """In processes of their own: a file must not take the place of a closed stream."""
    pd.DataFrame([(i, j, i % 2) for i in range(6) for j in range(3)], columns=["task", "worker", "label"]).to_csv(
        tmp_path / "x.csv", index=False
    )
    command = f"{sys.executable} -W ignore -m crowdppl aggregate x.csv --out"
    script = f"{command} a.csv >&-; echo $? >status; {command} b.csv >&- 2>&- <&-; echo $? >>status"
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=170, check=False)
    assert (tmp_path / "status").read_text().split() == ["0", "0"]
    assert "Traceback" not in done.stderr
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes() != b""


@pytest.mark.slow
@POSIX
@pytest.mark.parametrize("where", ["| true", "> /dev/full"])
def test_all_files_are_written_whatever_becomes_of_the_output(tmp_path, where):
    """As with ``| head``: the reader goes away after the first lines, and the report is written after the last."""
    pd.DataFrame([(i, j, i % 2) for i in range(6) for j in range(3)], columns=["task", "worker", "label"]).to_csv(
        tmp_path / "x.csv", index=False
    )
    command = f"{sys.executable} -W ignore -m crowdppl fit x.csv --model majority-vote --report --out results"
    script = f"( {command}; echo $? >status ) {where}"
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=170, check=False)
    assert (tmp_path / "status").read_text().strip() == "1"
    assert (tmp_path / "results" / "report.html").exists()
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.slow
def test_environments_that_cannot_be_used(tmp_path):
    """An unknown backend of matplotlib does not matter to a command, and ``-OO`` is refused in one line."""
    pd.DataFrame([(i, j, i % 2) for i in range(6) for j in range(3)], columns=["task", "worker", "label"]).to_csv(
        tmp_path / "x.csv", index=False
    )
    words = ["-W", "ignore", "-m", "crowdppl", "fit", "x.csv", "--model", "majority-vote", "--report", "--out"]
    for more, environment, status in ((["a"], {"MPLBACKEND": "junk"}, 0), (["b"], {"PYTHONOPTIMIZE": "2"}, 2)):
        done = subprocess.run(
            [sys.executable, *words, *more],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=170,
            check=False,
            env=os.environ | environment,
        )
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: Python was started with -OO")
    code = "import crowdppl; crowdppl.fit"
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, timeout=170, check=False)
    assert done.stderr.splitlines()[-1].startswith("crowdppl.errors.CrowdpplError: Python was started with -OO")


NAMES = {
    "colour": "\x1b[31mred",
    "title": "\x1b]0;title\x07",
    "8-bit": "\x9b31mred",
    "backspace": "good\x08\x08bad",
    "carriage return": "good\rbad",
    "delete": "x\x7f",
    "right to left": "\u202egnp.exe",
    "isolate": "\u2066x\u2069",
    "line": "one\u2028two",
}


@pytest.mark.parametrize("case", NAMES)
def test_names_do_not_control_the_terminal(case):
    name = NAMES[case]
    file = io.StringIO()
    console = Terminal(file=file, force_terminal=True, width=60)
    console.print(f"[bold]{name.replace('[', chr(92) + '[')}[/bold]")
    console.print(Text(name))
    table = Table(title=name)
    table.add_column(name)
    table.add_row(Text(name))
    console.print(table)
    output = file.getvalue()
    control = [sign for sign in name if not sign.isprintable()]
    assert control
    # What is left are the console's own codes for bold text and italics.
    for sign in set(control) - {"\x1b"}:
        assert sign not in output
    assert "\x1b[31m" not in output
    assert "\x1b]" not in output
    assert visible(name).partition("\\")[2][:3] in output


def test_names_of_a_file_are_shown_with_escapes(tmp_path):
    rows = [
        (item, f"w\x1b[31m{worker}", f"{(item + (worker == 3)) % 2}\x07") for item in range(12) for worker in range(4)
    ]
    pd.DataFrame(rows, columns=["task", "worker", "label"]).to_csv(tmp_path / "x.csv", index=False)
    words = ("fit", tmp_path / "x.csv", "--out", tmp_path / "r", "--method", "em", "--num-samples", 30)
    shown = run(*words).output + run("export", tmp_path / "no\x1b[2Jwhere", code=2).output
    assert "\\x1b" in shown
    assert not {"\x1b", "\x07"} & set(shown)


@POSIX
def test_signals_are_as_before_after_a_command():
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)]
    run("formats")
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)] == before
