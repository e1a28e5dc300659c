"""Long fits that are stopped go on, and end with the bits of one that was not; killed at random, nothing is lost."""

import random
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import quiet_fit, simulated

import crowdppl
from crowdppl import FileError, OptionError
from crowdppl.checkpoint import NAME, Checkpoint, digest

ENGINES = {
    "gibbs": {"num_samples": 60, "warmup": 30, "chains": 2},
    "em": {"restarts": 2, "num_samples": 20, "tol": 1e-13},
    "em in turn": {"restarts": 2, "num_samples": 20, "tol": 1e-13},
    "svi": {"max_iter": 120, "num_samples": 20},
    "svi in batches": {"max_iter": 120, "num_samples": 20, "batch_size": 16},
    "nuts": {"chains": 3, "warmup": 10, "num_samples": 10},
}


class Stop(Exception):
    """Raised in the middle of a fit."""


@pytest.fixture(scope="module")
def data():
    return simulated(items=60, seed=2, per_item=4)[0]


def interrupted(monkeypatch, data, folder, engine, after):
    """Fit with a checkpoint at every chance, and stop at the given one."""
    written = [0]
    step = Checkpoint.step

    def counted(self, state, what):
        step(self, state, what)
        written[0] += 1
        if written[0] == after:
            raise Stop

    monkeypatch.setattr(Checkpoint, "step", counted)
    method = engine.split()[0]
    try:
        quiet_fit(data, method=method, seed=7, checkpoint=folder, every=0.0, **ENGINES[engine])
    except Stop:
        return True
    finally:
        monkeypatch.setattr(Checkpoint, "step", step)
    return False


@pytest.mark.parametrize("after", [1, pytest.param(3, marks=pytest.mark.slow), 40])
@pytest.mark.parametrize("engine", list(ENGINES))
def test_a_stopped_fit_goes_on_to_the_same_bits(monkeypatch, tmp_path, data, engine, after):
    if after == 40:
        after = {"nuts": 2, "em": 15}.get(engine, after)  # chains and restarts side by side take fewer steps
    if engine == "em in turn":
        monkeypatch.setattr(crowdppl.draws, "WORK_BYTES", 1)
    method = engine.split()[0]
    whole = quiet_fit(data, method=method, seed=7, **ENGINES[engine])
    assert interrupted(monkeypatch, data, tmp_path, engine, after)
    assert (tmp_path / NAME).is_file()
    resumed = quiet_fit(data, method=method, seed=7, checkpoint=tmp_path, every=1000.0, **ENGINES[engine])
    assert not (tmp_path / NAME).exists()  # the fit has ended
    for name in ("posterior", "truth", "log_likelihood", "sample_stats"):
        for key, value in whole.tree[name].data_vars.items():
            np.testing.assert_array_equal(resumed.tree[name][key].values, value.values, err_msg=f"{name}/{key}")
    facts = [{k: v for k, v in posterior.info["facts"].items()} for posterior in (whole, resumed)]
    assert facts[0] == facts[1]


NETWORKS = {
    "raykar": {"max_iter": 8},
    "conal": {"max_iter": 6},
    "crowd-mixture": {"max_iter": 8},
    "two-coin-difficulty": {"max_iter": 5},
}


@pytest.mark.parametrize("after", [1, pytest.param(4, marks=pytest.mark.slow), pytest.param(9, marks=pytest.mark.slow)])
@pytest.mark.parametrize("model", list(NETWORKS))
def test_em_of_networks_goes_on_to_the_same_bits(monkeypatch, tmp_path, model, after):
    """Adam's moments, the batches to come and the networks' buffers go on, too."""
    data, _, _ = simulated(items=60, seed=2, per_item=4, classes=2)
    generator = torch.Generator().manual_seed(0)
    data = data.with_features(torch.randn(data.N, 3, generator=generator, dtype=torch.float64).numpy())
    options = {"model": model, "method": "em", "seed": 3, "num_samples": 3, "restarts": 1, "batch_size": 16} | NETWORKS[
        model
    ]
    whole = quiet_fit(data, **options)
    step, count = Checkpoint.step, [0]

    def stopping(self, state, what):
        step(self, state, what)
        count[0] += 1
        if count[0] == after:
            raise Stop

    monkeypatch.setattr(Checkpoint, "step", stopping)
    with pytest.raises(Stop):
        quiet_fit(data, checkpoint=tmp_path, every=0.0, **options)
    monkeypatch.setattr(Checkpoint, "step", step)
    assert (tmp_path / NAME).is_file()
    resumed = quiet_fit(data, checkpoint=tmp_path, every=1000.0, **options)
    assert resumed.info["facts"] == whole.info["facts"]
    for name in whole.tree.children:
        for key, value in whole.tree[name].data_vars.items():
            np.testing.assert_array_equal(resumed.tree[name][key].values, value.values, err_msg=f"{name}/{key}")


def test_writing_changes_nothing(tmp_path, data):
    plain = quiet_fit(data, method="gibbs", seed=3, **ENGINES["gibbs"])
    kept = quiet_fit(data, method="gibbs", seed=3, checkpoint=tmp_path, every=0.0, **ENGINES["gibbs"])
    np.testing.assert_array_equal(plain.tree["posterior"]["confusion"], kept.tree["posterior"]["confusion"])
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_of_another_fit_is_refused(monkeypatch, tmp_path, data):
    assert interrupted(monkeypatch, data, tmp_path, "gibbs", 2)
    settings = ENGINES["gibbs"]
    other, _, _ = simulated(items=60, seed=3, per_item=4)
    for change in (
        lambda: quiet_fit(data, method="gibbs", seed=8, checkpoint=tmp_path, **settings),
        lambda: quiet_fit(other, method="gibbs", seed=7, checkpoint=tmp_path, **settings),
        lambda: quiet_fit(data, "one-coin", method="gibbs", seed=7, checkpoint=tmp_path, **settings),
        lambda: quiet_fit(data, method="gibbs", seed=7, checkpoint=tmp_path, **(settings | {"warmup": 31})),
    ):
        with pytest.raises(FileError, match="belongs to another fit"):
            change()
    (tmp_path / NAME).write_bytes((tmp_path / NAME).read_bytes()[:500])
    with pytest.raises(FileError, match="not a checkpoint that can be read"):
        quiet_fit(data, method="gibbs", seed=7, checkpoint=tmp_path, **settings)
    with pytest.raises(OptionError, match="at least 0"):
        quiet_fit(data, method="gibbs", checkpoint=tmp_path / "x", every=-1.0)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot write"):
        quiet_fit(data, method="gibbs", checkpoint=tmp_path / "file" / "below")


def test_the_digest_sees_everything(data):
    first = digest(data, "a", 1)
    assert first == digest(data, "a", 1)
    assert (
        len(
            {
                first,
                digest(data, "b", 1),
                digest(data.keep(torch.arange(data.A) > 0), "a", 1),
                digest(data.with_weights(np.ones(data.N)), "a", 1),
            }
        )
        == 4
    )


SCRIPT = """
import sys, warnings
warnings.simplefilter("ignore")
import torch
torch.set_num_threads(1)
import pandas as pd
import crowdppl
frame = pd.read_csv(sys.argv[1])
method, folder, out = sys.argv[2:5]
options = {"gibbs": dict(chains=2, warmup=300, num_samples=500), "em": dict(restarts=600, num_samples=20, tol=1e-13),
           "svi": dict(max_iter=700, num_samples=20, tol=0.0), "nuts": dict(chains=4, warmup=15, num_samples=15)}[method]
print("ready", flush=True)
posterior = crowdppl.fit(frame, method=method, seed=1, checkpoint=folder, every=0.05, independent=True, **options)
posterior.save(out)
"""


def killed(tmp_path, method, sign, wait):
    """Run a fit and send it a signal after a while, or once a state is written; return whether it had ended by itself."""
    words = [sys.executable, "-c", SCRIPT, tmp_path / "labels.csv", method, tmp_path / "state", tmp_path / "out.nc"]
    with subprocess.Popen(
        [str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        if wait is None:
            until = time.monotonic() + 60
            while not (tmp_path / "state" / NAME).exists() and time.monotonic() < until:
                time.sleep(0.01)
            process.send_signal(sign)
            process.wait(60)
            return False
        try:
            process.wait(wait)
        except subprocess.TimeoutExpired:
            process.send_signal(sign)
            process.wait(60)
            return False
    assert process.returncode == 0
    return True


def write(tmp_path):
    data, _, _ = simulated(items=120, seed=5, per_item=4)
    frame = pd.DataFrame(
        {"task": data.items[data.item], "worker": data.workers[data.worker], "label": data.labels[data.label]}
    )
    frame.to_csv(tmp_path / "labels.csv", index=False)
    return frame


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gibbs", "em", "svi", "nuts"])
def test_killed_at_random_moments(tmp_path, method):
    """Fifteen kills by SIGKILL or more for each engine, at random moments; then the end is that of a fit left alone."""
    frame = write(tmp_path)
    rng = random.Random(method)
    kills, ended = 0, False
    while not ended and kills < 400:
        ended = killed(tmp_path, method, signal.SIGKILL, rng.uniform(0.02, 0.5) if kills < 15 else 60.0)
        kills += not ended
        state = Path(tmp_path / "state" / NAME)
        if state.exists():
            import safetensors.torch

            safetensors.torch.load_file(state)  # whole, whenever the process died
    assert ended
    found = crowdppl.load(tmp_path / "out.nc")
    options = {
        "gibbs": {"chains": 2, "warmup": 300, "num_samples": 500},
        "em": {"restarts": 600, "num_samples": 20, "tol": 1e-13},
        "svi": {"max_iter": 700, "num_samples": 20, "tol": 0.0},
        "nuts": {"chains": 4, "warmup": 15, "num_samples": 15},
    }[method]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = crowdppl.fit(frame, method=method, seed=1, independent=True, **options)
    np.testing.assert_array_equal(found.tree["posterior"]["confusion"], alone.tree["posterior"]["confusion"])
    np.testing.assert_array_equal(found.probability(), alone.probability())


@pytest.mark.slow
def test_control_c_keeps_what_is_there(tmp_path):
    """One Ctrl-C: the fit stops at its next step with its state written, and goes on from there."""
    write(tmp_path)
    assert not killed(tmp_path, "gibbs", signal.SIGINT, None)
    state = tmp_path / "state" / NAME
    assert state.is_file()
    import safetensors

    with safetensors.safe_open(state, framework="pt") as file:
        assert any(name.startswith("now/") for name in file.keys())  # noqa: SIM118 - no mapping
    assert killed(tmp_path, "gibbs", signal.SIGINT, 60.0)
    assert not state.exists()


def test_control_c_after_the_last_step_is_not_lost(tmp_path):
    keep = Checkpoint(tmp_path)
    with pytest.raises(KeyboardInterrupt), keep.stoppable():
        signal.raise_signal(signal.SIGINT)


def test_the_state_of_another_version_is_refused(monkeypatch, tmp_path, data):
    """What engines keep has changed: it is not read as if it had not."""
    assert interrupted(monkeypatch, data, tmp_path, "em", 3)
    monkeypatch.setattr(crowdppl.checkpoint, "FORMAT", -1)
    with pytest.raises(FileError, match="options, seed or version"):
        quiet_fit(data, method="em", seed=7, checkpoint=tmp_path, **ENGINES["em"])
