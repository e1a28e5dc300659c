"""Several processes, each with its share: the draws of one, one line where one is lost, and the same bits after that."""

import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pandas as pd
import pytest
from catalog import crowd_table
from forked import nursery

pytestmark = pytest.mark.slow

SCRIPT = """
    import json, os, signal, sys, warnings
    import numpy as np
    warnings.simplefilter("ignore")
    import crowdppl
    from crowdppl.inference import distributed
    from crowdppl.inference.scale.sharded.part import Part

    path, out, method, die = sys.argv[1:5]
    rank = int(os.environ.get("RANK", 0))
    own = {"em": {}, "gibbs": {"chains": 2, "warmup": 5, "num_samples": 20}}[method]
    if die == f"rank {rank}":
        left, name = iter(range(8)), "expect" if method == "em" else "draw"
        step = getattr(Part, name)

        def fatal(self, *arguments, **options):
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return step(self, *arguments, **options)

        setattr(Part, name, fatal)
    keep = {"checkpoint": (sys.argv[5], 0.0)} if len(sys.argv) > 5 else {}
    with distributed.joined() as rank0:
        if rank0:
            result = crowdppl.distribute(path, method=method, consensus=out, **own, **keep)
            np.savez(out + ".npz", **{name: value.numpy() for name, value in result.parameters.items()})
            result.workers.to_parquet(out + ".workers")
            try:
                crowdppl.distribute(path, label="nowhere")
            except crowdppl.DataError as error:
                os.write(1, f"refused: {error}\\n".encode())
            print("converged" if result.facts["converged"] else "short", result.facts["largest_share"])
        else:
            try:
                crowdppl.distribute(path)
            except crowdppl.OptionError as error:
                os.write(1, f"refused: {error}\\n".encode())
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    frame = crowd_table(2000, 12_000).astype(str)
    folder = tmp_path_factory.mktemp("data")
    for name, table in (("by-item", frame.sort_values("task")), ("any-order", frame)):
        table.to_parquet(folder / f"{name}.parquet", index=False, row_group_size=500)
    return folder


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Return a function that starts a script, or without one the command, in so many processes, as torchrun does."""
    with nursery(tmp_path_factory.mktemp("forked")) as loaded:

        def started(tmp_path, processes, *words, script=SCRIPT):
            path = tmp_path / "script.py"
            path.write_text(textwrap.dedent(script))
            what = (path, *words) if script else words
            return loaded.start_ranks(processes, *what, module=None if script else "crowdppl")

        yield started


def ended(started):
    """Return the exit status, output and errors of each process."""
    return [(one.wait(), one.written(), one.written("err")) for one in started]


@pytest.fixture(scope="module")
def run(start):
    def of(*arguments, **options):
        return ended(start(*arguments, **options))

    return of


def results(out):
    """Return all that a run has written."""
    truth = pd.read_parquet(out).sort_values("task").reset_index(drop=True)
    return truth, pd.read_parquet(f"{out}.workers"), dict(np.load(f"{out}.npz"))


def same(one, other, atol):
    pd.testing.assert_frame_equal(one[0], other[0], check_exact=atol == 0, rtol=0, atol=atol)
    pd.testing.assert_frame_equal(one[1], other[1], check_exact=atol == 0, rtol=0, atol=atol)
    for name, value in one[2].items():
        np.testing.assert_allclose(value, other[2][name], rtol=0, atol=atol)


@pytest.mark.parametrize(
    ("method", "order", "processes"), [("em", "by-item", 2), ("em", "any-order", 3), ("gibbs", "any-order", 2)]
)
def test_several_processes_have_the_result_of_one(tmp_path, run, data, method, order, processes):
    for count, name in ((1, "one"), (processes, "several")):
        ends = run(tmp_path, count, data / f"{order}.parquet", tmp_path / name, method, "no")
        assert [status for status, _, _ in ends] == [0] * count, ends
        assert "no column 'nowhere'" in ends[0][1]
        for _, said, _ in ends[1:]:
            assert "refused: of several processes only rank 0" in said
        files = sorted(path.name for path in (tmp_path / name).iterdir())
        assert files == [f"part-{rank:05d}.parquet" for rank in range(count)]
    largest = int(ends[0][1].split()[-1])
    assert largest < 1.2 * 12_000 / processes
    # Sums are added in another order by EM; those of drawn labels are whole numbers.
    same(results(tmp_path / "one"), results(tmp_path / "several"), 1e-9 if method == "em" else 0)


@pytest.mark.parametrize(("method", "dies"), [("em", 1), ("gibbs", 1), ("gibbs", 0)])
def test_a_lost_process_is_reported_and_the_checkpoint_goes_on(tmp_path, run, data, method, dies):
    arguments = [data / "any-order.parquet", tmp_path / "out", method]
    ends = run(tmp_path, 2, *arguments, f"rank {dies}", tmp_path / "keep")
    assert ends[dies][0] == -signal.SIGKILL
    status, _, errors = ends[1 - dies]
    assert status not in (0, -signal.SIGKILL)
    assert "another process of this run was lost" in errors
    assert (tmp_path / "keep" / "checkpoint.safetensors").is_file()
    assert not (tmp_path / "out.npz").exists()
    assert [one[0] for one in run(tmp_path, 2, *arguments, "no", tmp_path / "keep")] == [0, 0]
    assert list((tmp_path / "keep").iterdir()) == []
    assert [one[0] for one in run(tmp_path, 2, arguments[0], tmp_path / "whole", method, "no")] == [0, 0]
    same(results(tmp_path / "out"), results(tmp_path / "whole"), 0)


def test_the_command(tmp_path, start, run, data):
    """One process is killed in the middle: one line of error; the same command goes on."""
    options = ["distribute", data / "by-item.parquet", "--method", "gibbs", "--num-samples", "400"]
    options += [
        "--chains",
        "2",
        "--warmup",
        "10",
        "--out",
        tmp_path / "out",
        "--checkpoint",
        tmp_path / "keep",
        "--every",
        "0",
    ]
    started = start(tmp_path, 3, *options, script="")
    until = time.monotonic() + 120
    while not list((tmp_path / "keep").glob("sums-*")) and time.monotonic() < until:
        time.sleep(0.05)
    started[2].send_signal(signal.SIGKILL)
    ends = ended(started)
    assert [status for status, _, _ in ends] == [1, 1, -signal.SIGKILL]
    errors = "".join(error for _, _, error in ends)
    assert errors.count("error: another process of this run was lost") == 1
    assert "Traceback" not in errors
    assert len(errors.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()
    ends = run(tmp_path, 3, *options, script="")
    assert {status for status, _, _ in ends} == {0}, ends
    assert "annotations of" in ends[0][1]
    assert len(pd.read_parquet(tmp_path / "out" / "truth")) == pd.read_parquet(options[1])["task"].nunique()
    ends = run(tmp_path, 2, *options[:2], "--out", tmp_path / "out", script="")
    assert [end[0] for end in ends] == [0, 0]
    assert "already holds truth" in ends[0][2]
    assert "exit status 2" in ends[0][2]


@pytest.fixture(scope="module")
def odd(tmp_path_factory, data):
    """Folders of shards, each with a fault."""
    frame = pd.read_parquet(data / "any-order.parquet")
    folder = tmp_path_factory.mktemp("odd")

    def shards(name, *tables):
        (folder / name).mkdir()
        for number, table in enumerate(tables):
            table.to_parquet(folder / name / f"{number}.parquet", index=False, row_group_size=500)
        return folder / name

    first, second = frame[:6000], frame[6000:]
    (shards("damaged", first, second) / "1.parquet").write_bytes(b"PAR1 and nothing else")
    (shards("empty", first, second) / "1.parquet").write_bytes(b"")
    shards("columns differ", first, second.rename(columns={"label": "answer"}))
    shards("nulls", first, second.assign(label=second["label"].where(second["label"] != "1")))
    shards("one class", first.assign(label="0"), second.assign(label="0"))
    truths = pd.concat([first.assign(gold="0"), second.assign(gold="1")])
    shards("contradictory", truths[:6000], truths[6000:])
    shards("sound", first, second)
    return folder


REFUSALS = {
    "no such column": ("sound", ["--label", "nowhere"], "no column 'nowhere'"),
    "a model of other kind": ("sound", ["--model", "glad"], "cannot be fitted in shares"),
    "no such option": ("sound", ["--methd", "em"], "No such option"),
    "a file in the way": ("sound", [], "already holds"),
    "a damaged shard": ("damaged", [], "1.parquet"),
    "an empty shard": ("empty", [], "1.parquet"),
    "other columns": ("columns differ", [], "1.parquet"),
    "nulls": ("nulls", [], "missing"),
    "one class": ("one class", [], "two classes are needed"),
    "two truths of an item": ("contradictory", ["--truth", "gold"], "two known truths"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_is_one_line_and_no_crash_of_the_launcher(tmp_path, run, odd, case):
    folder, options, said = REFUSALS[case]
    out = tmp_path / "out"
    if case == "a file in the way":
        out.mkdir()
        (out / "run.json").write_text("{}")
    status = tmp_path / "status"
    words = ["distribute", odd / folder, "--out", out, "--status", status, *options]
    ends = run(tmp_path, 2, *words, script="")
    assert [end[0] for end in ends] == [0, 0], ends
    errors = "".join(end[2] for end in ends)
    assert said in errors
    assert "Traceback" not in errors
    assert errors.count("error:") <= 1
    assert status.read_text() == "2\n"
    assert not (out / "workers.csv").exists()


def test_chains_that_have_not_converged_are_no_crash_of_the_launcher(tmp_path, run, odd):
    short = ["--method", "gibbs", "--chains", "2", "--warmup", "1", "--num-samples", "4"]
    words = [
        "distribute",
        odd / "sound",
        "--out",
        tmp_path / "out",
        "--status",
        tmp_path / "status",
        *short,
    ]
    for _ in range(2):  # a status of an earlier run is replaced
        ends = run(tmp_path, 2, *words, "--overwrite", script="")
        assert [end[0] for end in ends] == [0, 0], ends
        assert (tmp_path / "status").read_text() == "3\n"
    assert (tmp_path / "out" / "run.json").exists()
    (tmp_path / "status").write_text("notes of mine")
    ends = run(tmp_path, 2, *words, "--overwrite", script="")
    assert "holds something else" in ends[0][2]
    assert (tmp_path / "status").read_text() == "notes of mine"


def test_torchrun_prints_no_traceback_after_a_refusal(tmp_path, odd):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    command += ["-m", "crowdppl", "distribute", odd / "sound", "--label", "nowhere", "--out", tmp_path / "out"]
    end = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300)
    assert end.returncode == 0, end.stderr
    assert "Traceback" not in end.stderr
    assert end.stderr.count("error:") == 1
    assert "exit status 2" in end.stderr
