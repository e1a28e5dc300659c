"""Long fits that are stopped go on, and end with the bits of one that was not; killed at random, nothing is lost."""

import os
import random
import signal
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch
from catalog import OwnCoin, Stop, in_turn, quiet_fit, simulated, stopping
from crowds import FOUR_ITEMS
from forked import nursery

import crowdppl
from crowdppl import CrowdpplWarning, FileError, OptionError
from crowdppl.errors import silent
from crowdppl.inference.backends import choose
from crowdppl.inference.checkpoint import NAME, Checkpoint, digest
from crowdppl.inference.fingerprint import described
from crowdppl.models import Raykar

ENGINES = {
    "gibbs": {"num_samples": 60, "warmup": 30, "chains": 2},
    "em": {"restarts": 2, "num_samples": 20, "tol": 1e-13},
    "em in turn": {"restarts": 2, "num_samples": 20, "tol": 1e-13},
    "svi": {"max_iter": 120, "num_samples": 20},
    "svi in batches": {"max_iter": 120, "num_samples": 20, "batch_size": 16},
    "nuts": {"chains": 3, "warmup": 6, "num_samples": 6, "max_tree_depth": 3},
}


@pytest.fixture(scope="module")
def data():
    return simulated(items=60, seed=2, per_item=4)[0]


def interrupt(data, folder, engine, after):
    """Fit with a checkpoint at every chance, and stop at the given one."""
    options = {"method": engine.split()[0], "seed": 7, **ENGINES[engine]}
    with stopping(after), pytest.raises(Stop):
        quiet_fit(data, "dawid-skene", checkpoint=(folder, 0.0), **options)


@pytest.fixture(scope="module", params=list(ENGINES))
def undisturbed(request, data):
    """Return an engine and the fit that was never stopped."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "em in turn":
            patch.setattr(crowdppl.inference.memory, "WORK_BYTES", 1)
        method = request.param.split()[0]
        yield request.param, quiet_fit(data, "dawid-skene", method=method, seed=7, **ENGINES[request.param])


@pytest.mark.parametrize("after", [*(pytest.param(after, marks=pytest.mark.slow) for after in (1, 3)), 40])
def test_a_stopped_fit_goes_on_to_the_same_bits(tmp_path, data, undisturbed, after):
    engine, whole = undisturbed
    if after == 40:
        after = {"nuts": 30, "em": 15}.get(engine, after)  # chains and restarts side by side take fewer steps
    method = engine.split()[0]
    interrupt(data, tmp_path, engine, after)
    assert (tmp_path / NAME).is_file()
    resumed = quiet_fit(data, "dawid-skene", method=method, seed=7, checkpoint=(tmp_path, 1000.0), **ENGINES[engine])
    assert not (tmp_path / NAME).exists()  # the fit has ended
    for name in ("posterior", "truth", "log_likelihood", "sample_stats"):
        for key, value in whole.tree[name].data_vars.items():
            np.testing.assert_array_equal(resumed.tree[name][key].values, value.values, err_msg=f"{name}/{key}")
    facts = [{k: v for k, v in posterior.info["facts"].items()} for posterior in (whole, resumed)]
    assert facts[0] == facts[1]


@pytest.mark.parametrize(("after", "onward"), [(6, 0), (40, 0), (6, 10**9), (40, 10**9)])
def test_compiled_steps_go_on_by_the_same_and_by_other_computations(tmp_path, data, monkeypatch, after, onward):
    """EM of item effects, anchored and with a restart: the same bits by the same steps, the same answer by torch."""
    fit = partial(quiet_fit, data, "item-effects", method="em", seed=7, restarts=1)
    monkeypatch.setattr(choose, "E_STEP", 0)
    whole = fit()
    with stopping(after), pytest.raises(Stop):
        fit(checkpoint=(tmp_path, 0.0))
    monkeypatch.setattr(choose, "E_STEP", onward)
    resumed = fit(checkpoint=(tmp_path, 1000.0))
    if onward:
        pd.testing.assert_frame_equal(resumed.truth(), whole.truth(), atol=0.03)
        return
    for name, values in whole.tree["truth"].data_vars.items():
        np.testing.assert_array_equal(resumed.tree["truth"][name].values, values.values, err_msg=name)


NETWORKS = {
    "raykar": {"max_iter": 8},
    "conal": {"max_iter": 6},
    "crowd-mixture": {"max_iter": 8},
    "two-coin-difficulty": {"max_iter": 5, "batch_size": None},
}


@pytest.mark.parametrize("after", [1, pytest.param(4, marks=pytest.mark.slow), pytest.param(9, marks=pytest.mark.slow)])
@pytest.mark.parametrize("model", in_turn(NETWORKS, 2, night=False))
def test_em_of_networks_goes_on_to_the_same_bits(tmp_path, model, after):
    """Adam's moments, the batches to come and the networks' buffers go on, too."""
    data, _, _ = simulated(items=60, seed=2, per_item=4, classes=2)
    generator = torch.Generator().manual_seed(0)
    data = data.with_features(torch.randn(data.N, 3, generator=generator, dtype=torch.float64).numpy())
    options = {"model": model, "method": "em", "seed": 3, "num_samples": 3, "restarts": 1, "batch_size": 16} | NETWORKS[
        model
    ]
    whole = quiet_fit(data, **options)
    with stopping(after), pytest.raises(Stop):
        quiet_fit(data, checkpoint=(tmp_path, 0.0), **options)
    assert (tmp_path / NAME).is_file()
    resumed = quiet_fit(data, checkpoint=(tmp_path, 1000.0), **options)
    assert resumed.info["facts"] == whole.info["facts"]
    for name in whole.tree.children:
        for key, value in whole.tree[name].data_vars.items():
            np.testing.assert_array_equal(resumed.tree[name][key].values, value.values, err_msg=f"{name}/{key}")


def test_writing_changes_nothing(tmp_path, data):
    plain = quiet_fit(data, "dawid-skene", method="gibbs", seed=3, **ENGINES["gibbs"])
    kept = quiet_fit(data, "dawid-skene", method="gibbs", seed=3, checkpoint=(tmp_path, 0.0), **ENGINES["gibbs"])
    np.testing.assert_array_equal(plain.tree["posterior"]["confusion"], kept.tree["posterior"]["confusion"])
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_of_another_fit_is_refused(tmp_path, data):
    interrupt(data, tmp_path, "gibbs", 2)
    settings = ENGINES["gibbs"]
    other, _, _ = simulated(items=60, seed=3, per_item=4)
    for change in (
        lambda: quiet_fit(data, "dawid-skene", method="gibbs", seed=8, checkpoint=tmp_path, **settings),
        lambda: quiet_fit(other, "dawid-skene", method="gibbs", seed=7, checkpoint=tmp_path, **settings),
        lambda: quiet_fit(data, "one-coin", method="gibbs", seed=7, checkpoint=tmp_path, **settings),
        lambda: quiet_fit(
            data, "dawid-skene", method="gibbs", seed=7, checkpoint=tmp_path, **(settings | {"warmup": 31})
        ),
    ):
        with pytest.raises(FileError, match="belongs to another fit"):
            change()
    (tmp_path / NAME).write_bytes((tmp_path / NAME).read_bytes()[:500])
    with pytest.raises(FileError, match="not a checkpoint that can be read"):
        quiet_fit(data, "dawid-skene", method="gibbs", seed=7, checkpoint=tmp_path, **settings)
    with pytest.raises(OptionError, match="at least 0"):
        quiet_fit(data, "dawid-skene", method="gibbs", checkpoint=(tmp_path / "x", -1.0))
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot write"):
        quiet_fit(data, "dawid-skene", method="gibbs", checkpoint=tmp_path / "file" / "below")


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
fit = crowdppl.fit
print("ready", flush=True)
posterior = fit(frame, "dawid-skene", method=method, seed=1, checkpoint=(folder, 0.05), independent=True, **options)
posterior.save(out, keep="full")
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    with nursery(tmp_path_factory.mktemp("forked")) as process:
        yield process


def killed(loaded, tmp_path, method, sign, wait):
    """Run a fit and send it a signal after a while, or once a state is written; return whether it had ended by itself."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    process = loaded.start(script, tmp_path / "labels.csv", method, tmp_path / "state", tmp_path / "out.nc")
    assert process.says("ready")
    if wait is None:
        until = time.monotonic() + 60
        while not (tmp_path / "state" / NAME).exists() and time.monotonic() < until:
            time.sleep(0.01)
    else:
        status = process.wait(wait)
        if status is not None:
            assert status == 0
            return True
    process.send_signal(sign)
    assert process.wait(60) is not None
    return False


def write(tmp_path):
    data, _, _ = simulated(items=120, seed=5, per_item=4)
    frame = pd.DataFrame(
        {"task": data.items[data.item], "worker": data.workers[data.worker], "label": data.labels[data.label]}
    )
    frame.to_csv(tmp_path / "labels.csv", index=False)
    return frame


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", ["gibbs", "em", *(pytest.param(m, marks=pytest.mark.longest) for m in ("svi", "nuts"))]
)
def test_killed_at_random_moments(loaded, tmp_path, method):
    """Fifteen kills by SIGKILL or more for each engine, at random moments; then the end is that of a fit left alone."""
    frame = write(tmp_path)
    rng = random.Random(method)
    kills, ended = 0, False
    while not ended and kills < 400:
        ended = killed(loaded, tmp_path, method, signal.SIGKILL, rng.uniform(0.02, 0.5) if kills < 15 else 60.0)
        kills += not ended
        state = Path(tmp_path / "state" / NAME)
        if state.exists():
            import safetensors.torch

            safetensors.torch.load_file(state)  # whole, whenever the process died
    assert ended
    result = crowdppl.load(tmp_path / "out.nc")
    options = {
        "gibbs": {"chains": 2, "warmup": 300, "num_samples": 500},
        "em": {"restarts": 600, "num_samples": 20, "tol": 1e-13},
        "svi": {"max_iter": 700, "num_samples": 20, "tol": 0.0},
        "nuts": {"chains": 4, "warmup": 15, "num_samples": 15},
    }[method]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = crowdppl.fit(frame, "dawid-skene", method=method, seed=1, independent=True, **options)
    np.testing.assert_array_equal(result.tree["posterior"]["confusion"], alone.tree["posterior"]["confusion"])
    np.testing.assert_array_equal(result.probability(), alone.probability())


@pytest.mark.slow
def test_control_c_keeps_what_is_there(loaded, tmp_path):
    """One Ctrl-C: the fit stops at its next step with its state written, and goes on from there."""
    write(tmp_path)
    assert not killed(loaded, tmp_path, "gibbs", signal.SIGINT, None)
    state = tmp_path / "state" / NAME
    assert state.is_file()
    import safetensors

    with safetensors.safe_open(state, framework="pt") as file:
        assert any("/parameters/" in name for name in file.keys())  # noqa: SIM118 - no mapping
    assert killed(loaded, tmp_path, "gibbs", signal.SIGINT, 60.0)
    assert not state.exists()


def test_control_c_after_the_last_step_is_not_lost(tmp_path):
    keep = Checkpoint(tmp_path)
    with pytest.raises(KeyboardInterrupt), keep.stoppable():
        signal.raise_signal(signal.SIGINT)


def test_the_state_of_another_version_is_refused(monkeypatch, tmp_path, data):
    """What engines keep has changed: it is not read as if it had not."""
    interrupt(data, tmp_path, "em", 3)
    monkeypatch.setattr(crowdppl.inference.checkpoint, "FORMAT", -1)
    with pytest.raises(FileError, match="options, seed or version"):
        quiet_fit(data, "dawid-skene", method="em", seed=7, checkpoint=tmp_path, **ENGINES["em"])


def test_a_full_disk_costs_no_fit(monkeypatch, tmp_path, data):
    """The checkpoint before stays, the fit ends as it does without one, and the result says what happened."""
    interrupt(data, tmp_path, "gibbs", 3)
    before = (tmp_path / NAME).read_bytes()
    whole = quiet_fit(data, "dawid-skene", method="gibbs", seed=7, **ENGINES["gibbs"])

    def full(*_):
        raise safetensors.SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.warns(CrowdpplWarning, match="no checkpoint could be written in .*No space left"):
        result = crowdppl.fit(
            data, "dawid-skene", method="gibbs", seed=7, independent=True, checkpoint=(tmp_path / "new", 0.0)
        )
    assert any("No space left" in note for note in result.notes)
    assert list((tmp_path / "new").iterdir()) == []
    resumed = quiet_fit(data, "dawid-skene", method="gibbs", seed=7, checkpoint=(tmp_path, 1000.0), **ENGINES["gibbs"])
    np.testing.assert_array_equal(resumed.tree["posterior"]["confusion"], whole.tree["posterior"]["confusion"])
    (tmp_path / NAME).write_bytes(before)
    keep = Checkpoint((tmp_path / "other", 0.0))
    keep.stopping = True
    with pytest.raises(KeyboardInterrupt, match=r"could not be written .*No space left"), silent():
        keep.step(lambda: None)


def small_network(weight):
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 3)).double()
    with torch.no_grad():
        network[0].weight.mul_(weight)
    return network


@pytest.fixture
def own_stream():
    """Leave torch's random stream as it was."""
    with torch.random.fork_rng(devices=[]):
        yield


def test_a_checkpoint_knows_the_weights_of_networks(tmp_path, data, own_stream):
    options = {"method": "em", "seed": 3, "num_samples": 3, "max_iter": 6, "restarts": 0}
    with stopping(2), pytest.raises(Stop):
        quiet_fit(data, Raykar(network=small_network(1.0)), checkpoint=(tmp_path, 0.0), **options)
    for other in (Raykar(network=small_network(2.0)), Raykar(network=small_network(1.0)[:1] + small_network(1.0)[1:2])):
        with pytest.raises(FileError, match="network weights"):
            quiet_fit(data, other, checkpoint=(tmp_path, 0.0), **options)
    whole = quiet_fit(data, Raykar(network=small_network(1.0)), **options)
    result = quiet_fit(data, Raykar(network=small_network(1.0)), checkpoint=(tmp_path, 1e3), **options)
    np.testing.assert_array_equal(result.probability(), whole.probability())


@pytest.mark.slow
def test_a_network_of_a_lambda_goes_on_in_another_process(tmp_path):
    """Its address in memory is another there; what it makes is the same."""
    script = """
import sys, warnings
warnings.simplefilter("ignore")
import torch
torch.set_num_threads(1)
import crowdppl
from crowdppl.models import Raykar
from catalog import simulated, stopping
folder, after, width = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
padding = [object() for _ in range(after * 1000)]  # addresses differ
model = Raykar(network=lambda d, k: torch.nn.Sequential(torch.nn.Linear(d, width), torch.nn.Tanh(), torch.nn.Linear(width, k)))
options = dict(method="em", seed=1, max_iter=6, num_samples=2, checkpoint=(folder, 0.0))
with stopping(after):
    crowdppl.fit(simulated(items=30, seed=2)[0], model, **options)
print("ended")
"""

    def run(after, width=3):
        words = [sys.executable, "-c", script, str(tmp_path), str(after), str(width)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parents[1])])}
        return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, env=environment)

    assert run(2).stderr.endswith("catalog.Stop\n")
    assert "belongs to another fit" in run(99, width=4).stderr
    done = run(99)
    assert done.stdout == "ended\n", done.stderr[-1000:]


def test_a_checkpoint_of_another_floating_type_is_refused(tmp_path, data):
    interrupt(data, tmp_path, "gibbs", 2)
    with pytest.raises(FileError, match="floating type"):
        quiet_fit(
            data.to(dtype=torch.float32), "dawid-skene", method="gibbs", seed=7, checkpoint=tmp_path, **ENGINES["gibbs"]
        )


class Scaled(OwnCoin):
    """A model of one's own that is no dataclass."""

    def __init__(self, scale):
        self.scale = scale

    def confusion(self, parameters, data):
        return super().confusion({**parameters, "skill": self.scale * parameters["skill"]}, data)


def test_a_checkpoint_knows_models_of_ones_own(monkeypatch, tmp_path, data):
    """By their attributes and by the code of their methods."""
    options = {"method": "svi", "seed": 3, "max_iter": 20, "num_samples": 3}
    with stopping(5), pytest.raises(Stop):
        quiet_fit(data, Scaled(1.0), checkpoint=(tmp_path, 0.0), **options)
    with pytest.raises(FileError, match="belongs to another fit"):
        quiet_fit(data, Scaled(2.0), checkpoint=tmp_path, **options)
    with monkeypatch.context() as changed:
        changed.setattr(Scaled, "confusion", lambda self, parameters, data: OwnCoin.confusion(self, parameters, data))
        with pytest.raises(FileError, match="belongs to another fit"):
            quiet_fit(data, Scaled(1.0), checkpoint=tmp_path, **options)
    quiet_fit(data, Scaled(1.0), checkpoint=(tmp_path, 1e3), **options)


def test_what_is_described_is_the_same_in_every_process():
    def makes(width):
        return lambda d: d * width

    assert described(makes(2)) == described(makes(2)) != described(makes(3))
    assert described(torch.zeros(2)) != described(torch.zeros(2, dtype=torch.float64))
    assert described({"a": np.arange(3), "b": [1, None]}) == described({"b": [1, None], "a": np.arange(3)})
    assert "0x" not in described([object(), makes, torch.nn.ReLU(), {1: object()}])

    def itself(n):
        return itself(n - 1)

    assert described(itself)


@pytest.mark.parametrize("share", [0.2, 0.8])
def test_control_c_stops_nuts_within_a_draw(tmp_path, data, share):
    """In the warm-up or after it, at the next gradient; the fit then ends as one that was never stopped."""
    options = ENGINES["nuts"] | {"method": "nuts", "seed": 7}
    whole = quiet_fit(data, "dawid-skene", **options)
    stopped = []

    def progress(step, steps, what):
        if step >= share * steps and not stopped:
            stopped.append(step)
            signal.raise_signal(signal.SIGINT)
        assert not stopped or step == stopped[0], "it went on after Ctrl-C"

    with pytest.raises(KeyboardInterrupt, match="the same call with the same checkpoint folder continues"):
        quiet_fit(data, "dawid-skene", checkpoint=(tmp_path, 1000.0), progress=progress, **options)
    began = []
    resumed = quiet_fit(
        data,
        "dawid-skene",
        checkpoint=(tmp_path, 1000.0),
        progress=lambda step, steps, what: began.append(step),
        **options,
    )
    assert began[0] >= stopped[0]
    np.testing.assert_array_equal(resumed.tree["posterior"]["confusion"], whole.tree["posterior"]["confusion"])


def test_a_checkpoint_stays_until_the_result_is_there(tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    options = {"method": "gibbs", "chains": 2, "warmup": 5, "num_samples": 20, "seed": 1}
    with monkeypatch.context() as patched:
        patched.setattr("crowdppl.inference.run.convergence", stop)
        with pytest.raises(KeyboardInterrupt):
            quiet_fit(FOUR_ITEMS, "dawid-skene", checkpoint=(tmp_path / "state", 0), **options)
    assert any(path.is_file() for path in (tmp_path / "state").rglob("*"))
    again = quiet_fit(FOUR_ITEMS, "dawid-skene", checkpoint=(tmp_path / "state", 0), **options)
    np.testing.assert_array_equal(again.probability(), quiet_fit(FOUR_ITEMS, "dawid-skene", **options).probability())
