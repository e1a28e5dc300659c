"""How many threads are used, and that they sleep while they wait."""

import os
import subprocess
import sys
import textwrap

import pandas as pd
import pyarrow
import pytest
import torch
from typer.testing import CliRunner

import crowdppl
from crowdppl.cli.main import app
from crowdppl.isolation import cores, isolated, limited_arrow, threads, threads_outside


def quotas(root, groups, **files):
    """Write a tree of ``/proc`` and ``/sys`` and return the quotas found in it."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for name, content in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return sorted(cores.cpu_quotas(root))


V1 = "5:memory:/a\n4:cpu,cpuacct:/docker/x\n1:name=systemd:/\n0::/\n"
CASES = {
    "no limit": ("0::/\n", {"cpu.max": "max 100000\n"}, []),
    "its own group": ("0::/\n", {"cpu.max": "150000 100000\n"}, [1.5]),
    "without a period": ("0::/\n", {"cpu.max": "150000\n"}, []),
    "groups above": (
        "0::/a/b/c\n",
        {"a/b/c/cpu.max": "max 100000\n", "a/b/cpu.max": "50000 100000\n", "a/cpu.max": "400000 100000\n"},
        [0.5, 4.0],
    ),
    "in a container that shows the path outside": ("0::/docker/x\n", {"cpu.max": "200000 100000\n"}, [2.0]),
    "a path beyond what the container sees": ("0::/../../other\n", {"cpu.max": "200000 100000\n"}, [2.0]),
    "version 1": (
        V1,
        {"cpu,cpuacct/docker/x/cpu.cfs_quota_us": "25000\n", "cpu,cpuacct/docker/x/cpu.cfs_period_us": "50000\n"},
        [0.5],
    ),
    "version 1 without a quota": (V1, {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, []),
    "version 1, mounted by one controller": (
        V1,
        {"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"},
        [3.0],
    ),
    "nothing that is understood": ("cpu\n::\n0::/\n", {"cpu.max": "a lot\n"}, []),
}


@pytest.mark.parametrize("name", CASES)
def test_cpu_quotas(tmp_path, name):
    groups, files, expected = CASES[name]
    assert quotas(tmp_path, groups, **files) == expected


def test_other_systems_have_no_quotas(tmp_path):
    assert list(cores.cpu_quotas(tmp_path)) == []


@pytest.mark.parametrize(("affinity", "quotas", "expected"), [(8, [], 8), (8, [3], 3), (2, [4, 3], 2), (1, [1], 1)])
def test_usable_cores(monkeypatch, affinity, quotas, expected):
    monkeypatch.setattr(cores, "affinity", lambda: affinity)
    monkeypatch.setattr(cores, "_quotas", lambda: quotas)
    assert cores.usable_cores() == expected


@pytest.fixture
def default(monkeypatch):
    """No number is set, before and after, and none is in the environment."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    before = torch.get_num_threads()
    yield monkeypatch
    threads.set_limit(None)
    torch.set_num_threads(before)


def test_the_default_is_the_smallest(default):
    torch.set_num_threads(3)
    for number, expected in ((2, 2), (8, 3)):
        default.setattr(threads, "usable_cores", lambda number=number: number)
        assert threads_outside() == expected
        with isolated(0):
            assert torch.get_num_threads() == expected
        with isolated(0, threads=1), isolated(0):
            assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize(("given", "expected"), [("3", 3), ("3,2", 3), (" 3 ", 3), ("many", 2), ("", 2), ("0", 2)])
def test_the_number_in_the_environment_holds_as_it_is(default, given, expected):
    torch.set_num_threads(3)
    default.setattr(threads, "usable_cores", lambda: 2)
    default.setenv("OMP_NUM_THREADS", given)
    assert threads_outside() == expected


@pytest.mark.parametrize(("processes", "expected"), [("2", 4), ("3", 2), ("20", 1), ("0", 8), ("x", 8)])
def test_processes_share_the_cores(default, processes, expected):
    torch.set_num_threads(16)
    default.setattr(threads, "usable_cores", lambda: 8)
    default.setenv("LOCAL_WORLD_SIZE", processes)
    assert threads_outside() == expected


def test_a_number_that_is_set(default):
    torch.set_num_threads(2)
    default.setattr(threads, "usable_cores", lambda: 2)
    for number in (1, 3, 2):
        crowdppl.set_threads(number)
        assert threads_outside() == torch.get_num_threads() == number
        with limited_arrow() as count:
            assert count == pyarrow.cpu_count() == min(number, count)
    crowdppl.set_threads(3)
    crowdppl.set_threads(None)
    assert threads_outside() == torch.get_num_threads() == 2


def test_arrow_has_its_own_number_again(default):
    before = pyarrow.cpu_count()
    try:
        pyarrow.set_cpu_count(4)
        crowdppl.set_threads(1)
        with limited_arrow() as count:
            assert count == pyarrow.cpu_count() == 1
        assert pyarrow.cpu_count() == 4
    finally:
        pyarrow.set_cpu_count(before)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_are_read_the_same_by_one_thread(default, tmp_path, ending):
    frame = pd.DataFrame({"task": ["a", "b", "a"], "worker": ["u", "u", "v"], "label": ["x", "y", "x"]})
    path = tmp_path / f"labels.{ending}"
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    several = crowdppl.read(path)
    crowdppl.set_threads(1)
    one = crowdppl.read(path)
    assert torch.equal(one.label, several.label)
    assert list(one.items) == list(several.items)


def test_the_command_sets_it(default, tmp_path):
    torch.set_num_threads(2)
    words = ["demo", "--out", str(tmp_path / "r")]
    refused = CliRunner().invoke(app, [*words, "--threads", "0"])
    assert refused.exit_code == 2
    assert "--threads 0; it must be a whole number from 1" in refused.output
    assert CliRunner().invoke(app, [*words, "--threads", "1"]).exit_code == 0
    assert threads_outside() == torch.get_num_threads() == 1


@pytest.mark.parametrize("name", ["fit", "stream", "compare", "calibrate", "update", "check", "demo"])
def test_every_command_that_computes_takes_it(name):
    help = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200"}).output
    assert "--threads" in help


def run(script, **environment):
    """Run a program in a process of its own, with these variables and none else about threads; return what it prints."""
    about = ("OMP_", "GOMP_", "KMP_", "MKL_", "TORCHELASTIC", "LOCAL_WORLD_SIZE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(about)}
    words = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=kept | environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout + done.stderr


# How often GNU's OpenMP looks before it sleeps; 300,000 times by default.
SHOWN = {"OMP_DISPLAY_ENV": "verbose"}
SLEEPS = "GOMP_SPINCOUNT = '0'"
WAITS = """
    import os, sys
    import crowdppl
    {how}
    assert "torch" in sys.modules
    import torch
    print({name!r} in os.environ, type(torch.__loader__).__name__, len(sys.meta_path), torch.get_num_threads())
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="GNU's OpenMP")
@pytest.mark.parametrize("how", ["crowdppl.fit", "import torch"])
def test_threads_of_torch_sleep_while_they_wait(how):
    output = run(WAITS.format(how=how, name="OMP_WAIT_POLICY"), **SHOWN)
    assert SLEEPS in output
    assert "False SourceFileLoader" in output


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="GNU's OpenMP")
@pytest.mark.parametrize(("name", "value"), [("OMP_WAIT_POLICY", "ACTIVE"), ("GOMP_SPINCOUNT", "7")])
def test_the_user_decides_how_threads_wait(name, value):
    output = run(WAITS.format(how="crowdppl.fit", name=name), **SHOWN, **{name: value})
    assert "GOMP_SPINCOUNT" in output
    assert SLEEPS not in output
    assert "True SourceFileLoader" in output


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="GNU's OpenMP")
def test_torch_that_is_imported_first_is_left_alone():
    script = "import sys, torch; before = list(sys.meta_path); import crowdppl; print(sys.meta_path == before)"
    output = run(script, **SHOWN)
    assert "GOMP_SPINCOUNT" in output
    assert SLEEPS not in output
    assert "True" in output


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="GNU's OpenMP")
def test_a_search_for_torch_is_not_its_import():
    """Other libraries look whether it is installed."""
    script = """
        import importlib.util, sys
        import crowdppl
        assert importlib.util.find_spec("torch").name == "torch" and "torch" not in sys.modules
        assert importlib.util.find_spec("no_such_module") is None
        import torch
        assert [finder for finder in sys.meta_path if "crowdppl" in type(finder).__module__] == []
        print("found")
    """
    output = run(script, **SHOWN)
    assert SLEEPS in output
    assert "found" in output


@pytest.mark.slow
def test_a_number_set_before_torch_is_imported():
    script = """
        import sys
        import crowdppl
        crowdppl.set_threads(3)
        assert "torch" not in sys.modules
        import torch
        print(torch.get_num_threads())
        crowdppl.set_threads(None)
        print(torch.get_num_threads())
    """
    assert run(script, OMP_NUM_THREADS="2").split() == ["3", "2"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no CPU affinity")
def test_one_core_is_one_thread():
    script = """
        import os
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        import crowdppl
        from crowdppl.isolation import threads_outside
        print(threads_outside())
        import torch
        print(torch.get_num_threads(), threads_outside())
    """
    assert run(script).split() == ["1", "1", "1"]


@pytest.mark.slow
def test_a_quota_limits_torch_as_it_is_imported():
    script = """
        import crowdppl
        from crowdppl.isolation import cores
        cores.affinity, cores._quotas = lambda: 64, lambda: [1]
        import torch
        print(torch.get_num_threads())
    """
    assert run(script).split() == ["1"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_takes_one_thread():
    script = """
        import os
        import crowdppl, torch
        from crowdppl.isolation import threads_outside
        crowdppl.set_threads(3)
        if (child := os.fork()) == 0:
            before = threads_outside()
            crowdppl.set_threads(2)
            os._exit(100 * before + 10 * threads_outside() + torch.get_num_threads())
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), threads_outside(), torch.get_num_threads())
    """
    assert run(script).split() == ["121", "3", "3"]
