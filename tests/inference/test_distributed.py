"""Several processes on one fit: the result of one, and a clear end where one is lost."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
from datetime import timedelta
from types import SimpleNamespace

import numpy as np
import pytest
from catalog import crowd_table
from forked import nursery

import crowdppl
from crowdppl.inference import distributed
from crowdppl.inference.distributed import context, group
from crowdppl.isolation import on_signal

pytestmark = pytest.mark.slow

SCRIPT = """
    import os, signal, sys, warnings
    import numpy as np, pandas as pd, torch
    warnings.simplefilter("ignore")
    from crowdppl import Annotations, fit
    from crowdppl.inference import distributed
    from crowdppl.inference.backends import passes
    from crowdppl.inference.distributed import shares
    table, out, model, compiled, die, steps = sys.argv[1:7]
    passes.ANNOTATIONS = 0 if compiled == "yes" else 10**9
    torch.set_num_threads(1)
    rank = int(os.environ.get("RANK", 0))

    if (die, rank) in (("yes", 1), ("error", 0)):  # within its twentieth pass
        left, summing = iter(range(20)), shares.sums_over

        def fatal(data, states):
            sums = summing(data, states)
            expect = sums.expect

            def at_last(*arguments):
                if next(left, None) is None:
                    if die == "error":
                        raise MemoryError("no room")
                    os.kill(os.getpid(), signal.SIGKILL)
                return expect(*arguments)

            sums.expect = at_last
            return sums

        shares.sums_over = fatal

    with distributed.joined() as rank0:
        if rank0:
            data = Annotations.from_csv(table)
            keep = {"checkpoint": (out + ".keep", 0.0)} if len(sys.argv) > 7 else {}
            result = fit(data, model, method="em", num_samples=2, tol=0.0, max_iter=int(steps), restarts=1, accelerate=False,
                        **keep)
            np.save(out, result.probability_as_published())
            say(result.info["facts"]["restarts"])
"""


# Put before each script. Print would write a line in pieces, and processes that share a pipe would mingle theirs.
SAY = """
import os

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
"""

OTHER_RANKS = """
    import os, sys, time
    from contextlib import contextmanager
    import torch
    from crowdppl import Annotations, errors, fit
    from crowdppl.inference import distributed
    from crowdppl.inference.backends import passes
    from crowdppl.inference.distributed import shares
    passes.ANNOTATIONS = 0
    summing = shares.sums_over

    def reported(data, states):
        say("process", os.environ["RANK"], "holds", data.A)
        return summing(data, states)

    shares.sums_over = reported
    @contextmanager
    def rank0_lingers():  # torchrun ends the others as soon as rank 0 has ended: they are to print before
        try:
            yield
        except Exception:
            time.sleep(5)
            raise

    with rank0_lingers(), distributed.joined() as rank0:
        if rank0:
            data = Annotations.from_csv(sys.argv[1])
            small = data.batch(torch.arange(1000))
            def another(step, steps, what):  # within one fit another one uses the other ranks
                fit(small, **options)

            options = {"model": "dawid-skene", "method": "em", "num_samples": 2, "max_iter": 15, "tol": 0.0, "accelerate": False}
            ends = [fit(data, **options, progress=shown).info["facts"]["log_posterior"] for shown in (False, another)]
            say("same" if abs(ends[0] - ends[1]) < 1e-9 * abs(ends[0]) else ends)
            fit(small, "dawid-skene", method="gibbs", num_samples=5, warmup=5, chains=1)
            Annotations.from_csv(sys.argv[1], task="nowhere")
        else:
            try:
                fit(None)
            except errors.OptionError as error:
                say("refused:", error)
    say("process", os.environ["RANK"], "ended well")
"""


FOREIGN = """
    import sys
    import torch.distributed
    from crowdppl import Annotations, errors, fit
    from crowdppl.inference import distributed
    torch.distributed.init_process_group("gloo")
    data = Annotations.from_csv(sys.argv[1])
    say("fitted", fit(data, "dawid-skene", method="em", num_samples=2).info["facts"]["log_posterior"])
    try:
        with distributed.joined():
            raise AssertionError
    except errors.OptionError as error:
        say(error)
    torch.distributed.destroy_process_group()
"""


AGAIN = """
    import sys
    from crowdppl import Annotations, fit
    from crowdppl.inference import distributed
    from crowdppl.inference.backends import passes
    from crowdppl.inference.distributed import shares

    def fitted():
        result = fit(Annotations.from_csv(sys.argv[1]), "dawid-skene", method="em", num_samples=2)
        return result.info["facts"]["log_posterior"]

    def no_room(*arguments):
        raise MemoryError

    summing = shares.sums_over

    def fails(data, states):
        sums = summing(data, states)
        sums.expect = no_room
        return sums

    for _ in range(3):
        with distributed.joined() as rank0:
            if rank0:
                say("fitted", fitted())
    with distributed.joined() as rank0:
        if rank0:
            shares.sums_over = fails
            for _ in range(2):
                try:
                    fitted()
                except (MemoryError, distributed.LostProcessError) as error:
                    say("then", type(error).__name__)
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "x.csv"
    crowd_table(3000, 15_000).to_csv(path, index=False)
    return path


def run(tmp_path, processes, *arguments, script=SCRIPT):
    path = tmp_path / "script.py"
    path.write_text(SAY + textwrap.dedent(script))
    start = [sys.executable]
    if processes > 1:
        start += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*start, path, *arguments], capture_output=True, text=True, check=False, env=environment, timeout=300
    )


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Return a function that runs a script in so many processes, as torchrun does, which takes seconds more for each."""
    with nursery(tmp_path_factory.mktemp("forked")) as loaded:

        def ended(tmp_path, processes, *arguments, script=SCRIPT):
            path = tmp_path / "script.py"
            path.write_text(SAY + textwrap.dedent(script))
            ranks = loaded.start_ranks(processes, path, *arguments)
            statuses = [rank.wait() for rank in ranks]
            texts = ["".join(rank.written(stream) for rank in ranks) for stream in ("out", "err")]
            return SimpleNamespace(returncode=max(statuses, key=bool), stdout=texts[0], stderr=texts[1])

        yield ended


@pytest.mark.parametrize("compiled", ["yes", "no"])
@pytest.mark.parametrize("model", ["dawid-skene", "one-coin"])
def test_several_processes_have_the_result_of_one(tmp_path, start, table, model, compiled):
    for processes, name in ((1, "one"), (3, "three")):
        ended = start(tmp_path, processes, str(table), str(tmp_path / name), model, compiled, "no", "8")
        assert ended.returncode == 0, ended.stderr
    one, three = (np.load(tmp_path / f"{name}.npy") for name in ("one", "three"))
    assert np.abs(one - three).max() < 1e-9


def test_a_lost_process_is_reported_and_the_checkpoint_continues(tmp_path, start, table):
    arguments = [str(table), str(tmp_path / "out"), "dawid-skene", "yes"]
    lost = run(tmp_path, 2, *arguments, "yes", "40", "keep")
    assert lost.returncode != 0
    assert "another process of this run was lost" in lost.stderr
    assert not (tmp_path / "out.npy").exists()
    assert (tmp_path / "out.keep" / "checkpoint.safetensors").is_file()
    assert start(tmp_path, 2, *arguments, "no", "40", "keep").returncode == 0
    continued = np.load(tmp_path / "out.npy")
    (tmp_path / "out.npy").unlink()
    assert start(tmp_path, 2, *arguments, "no", "40").returncode == 0
    np.testing.assert_array_equal(continued, np.load(tmp_path / "out.npy"))


def test_each_rank_holds_its_part_and_ends_with_rank_0(tmp_path, table):
    """Two fits one after the other, one that is not distributed, and an error on rank 0, which other ranks do not see."""
    ended = run(tmp_path, 3, str(table), script=OTHER_RANKS)
    assert ended.returncode != 0
    assert ended.stderr.count("nowhere") >= 1
    held = {rank: [] for rank in range(3)}
    for line in ended.stdout.splitlines():
        if " holds " in line:
            held[int(line.split()[1])].append(int(line.split()[3]))
    assert [len(held[rank]) for rank in range(3)] == [3, 4, 4]  # other ranks received one part again
    assert sum(held[rank][0] for rank in range(3)) == 15_000
    for n in (0, 1):
        shares = [held[rank][n] for rank in range(3)]
        assert max(shares) - min(shares) <= 40  # whole items
    assert held[1][3] == held[1][1]
    assert "same" in ended.stdout.split()
    assert [f"process {rank} ended well" in ended.stdout for rank in range(3)] == [False, True, True]
    assert ended.stdout.count("refused: of several processes only rank 0 may fit") == 2
    assert "lost" not in ended.stderr


def test_an_error_within_a_step_ends_all(tmp_path, start, table):
    ended = start(tmp_path, 2, str(table), str(tmp_path / "out"), "dawid-skene", "yes", "error", "40")
    assert ended.returncode != 0
    assert "MemoryError: no room" in ended.stderr


def test_groups_one_after_the_other_and_a_broken_one(tmp_path, start, table):
    """A rank within a step when an error occurs is out of step: the next fit does not wait for it."""
    ended = start(tmp_path, 2, str(table), script=AGAIN)
    lines = ended.stdout.splitlines()
    fitted = [line for line in lines if line.startswith("fitted")]
    assert len(fitted) == 3
    assert len(set(fitted)) == 1
    assert [line for line in lines if line.startswith("then")] == ["then MemoryError", "then LostProcessError"]


def test_a_program_with_processes_of_its_own_is_left_alone(tmp_path, start, table):
    """Each of them fits by itself, and joined() refuses to set up torch.distributed twice."""
    ended = start(tmp_path, 2, str(table), script=FOREIGN)
    assert ended.returncode == 0, ended.stderr
    lines = [line for line in ended.stdout.splitlines() if line.startswith("fitted")]
    assert len(lines) == 2
    assert len(set(lines)) == 1
    assert ended.stdout.count("torch.distributed is set up already") == 2


def test_the_command_in_two_processes_writes_once(tmp_path, table):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "crowdppl"]
    options = ["fit", str(table), "--method", "em", "--num-samples", "5", "--out"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    two = subprocess.run(
        [*command, *options, tmp_path / "two"], capture_output=True, text=True, check=False, env=environment
    )
    assert two.returncode == 0, two.stderr
    assert two.stdout.count("Wrote truth.csv") == 1
    alone = [sys.executable, "-m", "crowdppl", *options, tmp_path / "one"]
    one = subprocess.run(alone, capture_output=True, text=True, check=True, env=environment)
    assert one.stdout.count("Wrote truth.csv") == 1
    results = [crowdppl.load(tmp_path / name / "posterior.nc").probability_as_published() for name in ("one", "two")]
    np.testing.assert_allclose(*results, atol=1e-9)


def test_a_process_that_receives_sigterm_reports_why():
    """``torchrun`` ends the others when one is lost, which may be before the communication of this one fails."""
    before = signal.getsignal(signal.SIGTERM)
    with (
        pytest.raises(distributed.LostProcessError, match="another process of this run was lost"),
        on_signal(signal.SIGTERM, context._stopped),
    ):
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_processes_that_cannot_connect_say_so(monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    ranked = {"WORLD_SIZE": 2, "RANK": 1, "LOCAL_RANK": 1, "LOCAL_WORLD_SIZE": 2}
    torchrun = {"TORCHELASTIC_RUN_ID": "x", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    for name, value in (address | ranked | torchrun).items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr(group, "PATIENCE", timedelta(seconds=1))
    with pytest.raises(distributed.LostProcessError, match=f"did not find each other.*{port}"), distributed.joined():
        pass
