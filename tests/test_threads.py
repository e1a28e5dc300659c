"""Fits in several threads, and in children made by fork, give what each gives alone, and the process keeps its settings."""

import os
import shutil
import subprocess
import sys
import textwrap
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyro
import pytest
import torch
from catalog import CASES, SHORT, quiet_fit, simulated

import crowdppl
from crowdppl import criticism
from crowdppl.errors import CrowdpplWarning, silent, warn
from crowdppl.isolation import isolated
from crowdppl.models import DawidSkene, OneCoin

CASE = {case.name: case for case in CASES}
# One of each engine, of networks, and of a user's own model that relies on the default floating type.
FITS = [
    ("dawid-skene", "gibbs"),
    ("dawid-skene", "em"),
    ("one-coin", "svi"),
    ("one-coin", "nuts"),
    ("raykar-network", "em"),
    ("skill-and-difficulty", "svi"),
    ("own-coin", "em"),
]


def bits(posterior):
    """All numbers of a result."""
    return {
        f"{group}/{name}": value.values.tobytes()
        for group in posterior.tree.children
        for name, value in posterior.tree[group].data_vars.items()
    }


def in_threads(tasks, threads=3):
    """Run functions at the same time, begun together; return what each returned."""
    with ThreadPoolExecutor(threads) as pool:
        return [future.result(timeout=300) for future in [pool.submit(task) for task in tasks]]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_fits_in_threads_are_those_alone(dtype):
    data = simulated(items=40, seed=4)[0].to(dtype=dtype)
    other = simulated(items=50, seed=5, classes=2)[0]

    def one(name, method, seed):
        options = SHORT[method] if method != "em" or not CASE[name].rises else {"num_samples": 5}
        return bits(quiet_fit(other if seed % 2 else data, CASE[name].model, method=method, seed=seed, **options))

    tasks = [lambda n=n, m=m, s=s: one(n, m, s) for s in (0, 1) for n, m in FITS]
    alone = [task() for task in tasks]
    before = torch.get_default_dtype()
    assert in_threads(tasks) == alone
    assert torch.get_default_dtype() == before
    assert not pyro.poutine.runtime._PYRO_STACK


def test_everything_beside_fits_in_threads():
    """What simulates, predicts, checks and refits holds in threads, too."""
    data = simulated(items=40, seed=4)[0]
    posterior = quiet_fit(data, OneCoin(), method="gibbs", chains=2, num_samples=20)
    network = quiet_fit(data, CASE["raykar-network"].model, method="em", **SHORT["em"])

    def simulate():
        return simulated(items=30, seed=9)[0].label.numpy().tobytes()

    def predict():
        return crowdppl.predict(network, data.features.numpy()).iloc[:, 2:].to_numpy(dtype=float).tobytes()

    def check():
        return criticism.check(posterior, draws=20).table["p_value"].to_numpy().tobytes()

    def leave_out():
        with silent():
            table = criticism.kfold(data, "one-coin", method="em", folds=2, num_samples=3)
        return table["elpd"].to_numpy().tobytes()

    def update():
        with silent():
            return bits(crowdppl.update(posterior, simulated(items=5, seed=3)[0], chains=1, warmup=5, num_samples=5))

    def fit():
        return bits(quiet_fit(data, "dawid-skene", method="nuts", chains=1, warmup=5, num_samples=5, max_tree_depth=3))

    tasks = [simulate, predict, check, leave_out, update, fit]
    alone = [task() for task in tasks]
    assert in_threads(tasks * 2) == alone * 2


def test_the_number_of_threads_is_that_of_this_thread():
    """A small fit takes one thread; what another thread begins with meanwhile is what the process has."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with isolated(0, threads=1):
            assert torch.get_num_threads() == 1
            assert in_threads([torch.get_num_threads], 1) == [2]
        assert torch.get_num_threads() == 2
        assert in_threads([torch.get_num_threads], 1) == [2]
    finally:
        torch.set_num_threads(before)


def test_a_fit_within_a_fit():
    """The lock lets its own thread in again: a progress function may fit."""
    data = simulated(items=20, seed=1)[0]
    alone = bits(quiet_fit(data, "dawid-skene", method="em", num_samples=2, seed=3))
    inner = []

    def progress(step, steps, what):
        if not inner:
            inner.append(bits(quiet_fit(data, "dawid-skene", method="em", num_samples=2, seed=3)))

    outer = bits(quiet_fit(data, "dawid-skene", method="gibbs", chains=1, num_samples=10, warmup=5, progress=progress))
    assert inner == [alone]
    assert outer == bits(quiet_fit(data, "dawid-skene", method="gibbs", chains=1, num_samples=10, warmup=5))


def test_an_error_in_one_thread_lets_the_others_in():
    data = simulated(items=20, seed=1)[0]

    class Broken(OneCoin):
        def prior(self, data, plates):
            raise RuntimeError("broken")

    def bad():
        with pytest.raises(crowdppl.ModelError, match="broken"):
            quiet_fit(data, Broken(), method="svi")

    def good():
        return bits(quiet_fit(data, DawidSkene(), method="em", num_samples=2))

    alone = good()
    assert in_threads([bad, good] * 4) == [None, alone] * 4


def test_warnings_are_kept_back_in_one_thread_only():
    inside, said = threading.Event(), threading.Event()

    def quietly():
        with silent():
            inside.set()
            assert said.wait(60)
            warn("of this thread")

    def aloud():
        assert inside.wait(60)
        warn("of the other")
        said.set()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        in_threads([quietly, aloud], 2)
    assert [(str(one.message), one.category) for one in caught] == [("of the other", CrowdpplWarning)]


def test_some_warnings_are_kept_back():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with silent("this one"):
            warn("kept: this one")
            warn("another")
    assert [str(one.message) for one in caught] == ["another"]


def forked(script, timeout=240, environment=None):
    """Run a program in a process of its own; fail where it hangs."""
    words = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split()


FORKS = pytest.mark.skipif(sys.platform == "win32", reason="no fork")
LARGE = """
    import multiprocessing, os, threading, hashlib
    import numpy as np, torch
    torch.set_num_threads(2)
    import crowdppl
    rng = np.random.default_rng(0)
    def data(items, per_item=5):
        task = np.repeat(np.arange(items), per_item)
        truth = rng.integers(0, 3, items)
        label = np.where(rng.random(len(task)) < .7, truth[task], rng.integers(0, 3, len(task)))
        return crowdppl.Annotations.from_arrays(task, rng.integers(0, 50, len(task)), label)
    large, small = data(50_000), data(30)
    def one(method, which="large", model="dawid-skene"):
        given = large if which == "large" else small
        options = {"em": dict(num_samples=2, max_iter=5), "gibbs": dict(chains=1, warmup=3, num_samples=5),
                   "svi": dict(max_iter=10, num_samples=2),
                   "nuts": dict(chains=1, warmup=3, num_samples=3, max_tree_depth=3)}[method]
        found = crowdppl.fit(given, model, method=method, independent=True, **options)
        return hashlib.sha256(np.round(found.probability(), 9).tobytes()).hexdigest()
    FITS = [("em", "large"), ("gibbs", "large"), ("svi", "small"), ("nuts", "small"), ("svi", "large"), ("em", "small")]
"""


@pytest.mark.slow
@FORKS
def test_a_pool_of_forked_processes_after_a_compiled_fit():
    output = forked(
        LARGE
        + """
    alone = [one(*which) for which in FITS]
    torch.ones(2000, 2000) @ torch.ones(2000, 2000)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = [pool.apply_async(one, which) for which in FITS]
        assert [each.get(timeout=100) for each in found] == alone
    print("same")
    """
    )
    assert output == ["same"]


@pytest.mark.slow
@FORKS
def test_a_fork_while_another_thread_fits():
    """The child has the settings from before that fit, and can fit; neither waits for the parent's."""
    output = forked(
        LARGE
        + """
    alone = one("em", "small")
    began, end = threading.Event(), threading.Event()
    def progress(step, steps, what):
        began.set()
        assert end.wait(100)
    thread = threading.Thread(target=lambda: crowdppl.fit(small, method="gibbs", chains=1, progress=progress))
    torch.manual_seed(5)
    stream = torch.get_rng_state()
    thread.start()
    assert began.wait(100)
    import pyro
    reading, writing = os.pipe()
    if os.fork() == 0:
        told = "child" if one("em", "small") == alone else "other"
        told += f" {torch.get_default_dtype()} {torch.equal(torch.get_rng_state(), stream)} {pyro.poutine.runtime._PYRO_STACK}"
        told += f" {len(pyro.get_param_store())} {torch.distributions.Distribution._validate_args}"
        os.write(writing, told.encode())
        os._exit(0)
    import select
    assert select.select([reading], [], [], 100)[0], "the child hangs"
    print(os.read(reading, 1000).decode())
    end.set()
    thread.join()
    print(torch.get_default_dtype())
    """
    )
    assert output == ["child", "torch.float32", "True", "[]", "0", "True", "torch.float32"]


DAMAGE = {
    "truncated": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "corrupted": lambda content: content[:-40] + bytes(40),
    "of another kind": lambda content: b"\x80\x04\x8c\x060.60.0\x94." + content,
}


COMPILE = """
    import numpy as np
    from crowdppl.kernels import passes
    tables = np.full((1, 8), 7.0)
    passes.load(2, "f8")(1, tables, np.array([[.25, .75], [.5, .5]]))
    print(*tables[0])
"""


def compiling(folder):
    """Return an environment whose compiled code is kept in a folder, and does not come with the package."""
    return {**os.environ, "NUMBA_CACHE_DIR": str(folder), "CROWDPPL_MACHINE_CODE": "0"}


@pytest.fixture(scope="module")
def compiled_code(tmp_path_factory):
    """A folder of compiled code, and what that code does."""
    folder = tmp_path_factory.mktemp("code")
    return folder, forked(COMPILE, environment=compiling(folder))


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize(
    "damage", ["truncated", *(pytest.param(name, marks=pytest.mark.slow) for name in DAMAGE if name != "truncated")]
)
def test_damaged_compiled_code_is_compiled_again(tmp_path, compiled_code, damage, ending):
    """Numba would abort the process, or raise an error of pickle's."""
    folder, whole = compiled_code
    assert whole == ["0.25", "0.75", "0.0", "0.0", "0.5", "0.5", "0.0", "0.0"]
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (path,) = tmp_path.rglob(f"*{ending}")
    before = {file: file.stat().st_size for file in tmp_path.rglob("*.nb?")}
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    assert forked(COMPILE, environment=compiling(tmp_path)) == whole
    assert {file: file.stat().st_size for file in tmp_path.rglob("*.nb?")} == before  # whole again, and none besides


def test_a_place_for_compiled_code_that_is_full(tmp_path):
    """What cannot be kept is used nevertheless."""
    script = """
    import errno, os
    import numpy as np
    from crowdppl.kernels import code_cache, passes
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    code_cache._Files._write = full
    tables = np.full((1, 4), 7.0)
    passes.load(2, "f8")(1, tables, np.array([[.25, .75]]))
    print(*tables[0])
    """
    assert forked(script, environment=compiling(tmp_path)) == [
        "0.25",
        "0.75",
        "0.0",
        "0.0",
    ]


ROOT = Path(__file__).parent.parent
# What changes a setting of the whole process, and the modules that may: one, under its lock.
PROCESS_WIDE = {
    "warnings.warn(": ["crowdppl/errors.py"],
    "catch_warnings": ["isolation/fits.py"],
    "simplefilter": ["isolation/fits.py"],
    "filterwarnings(": ["isolation/fits.py"],
    "set_default_dtype": ["isolation/fits.py"],
    "set_cpu_count": ["isolation/threads.py"],
    "os.environ[": ["isolation/waiting.py", "distributed/context.py", "cli/main.py"],
    "set_num_threads(": ["isolation/threads.py"],
    "enable_validation": ["isolation/fits.py"],
    "os.umask": [],
}


def test_settings_of_the_process_are_changed_in_one_place():
    for path in [*(ROOT / "crowdppl").rglob("*.py"), *(ROOT / "models").glob("*.py")]:
        source = path.read_text(encoding="utf-8")
        place = path.relative_to(path.parents[1]).as_posix()
        for call, owners in PROCESS_WIDE.items():
            assert call not in source or place in owners, f"{place} calls {call}"


@pytest.mark.slow
def test_a_progress_bar_leaves_pythons_random_stream_alone():
    """In a process of its own: the first import of what draws the bar takes random numbers."""
    script = """
    import random, crowdppl
    from crowdppl.data import datasets
    before = random.getstate()
    crowdppl.fit(datasets.anaesthesia(), method="em", num_samples=20, progress=True)
    print(random.getstate() == before)
    """
    assert forked(script) == ["True"]
