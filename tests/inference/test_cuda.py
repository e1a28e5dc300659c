"""The same on a GPU as on the CPU: the two products, every model by every engine, and what is done with results.

Skipped where there is no GPU.
"""

import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import PAIRS, SHORT, Stop, quiet_fit, simulated, stopping, tiny
from number_crowds import numbers
from test_devices import default_data

import crowdppl
from crowdppl import Annotations, CrowdpplWarning, fit, learning
from crowdppl.inference.predict import parameter_draws
from crowdppl.isolation import isolated
from crowdppl.model.bound import bind

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
DEVICE = "cuda"
ENGINES = {
    "em": {"num_samples": 20, "tol": 1e-10},
    "gibbs": {"num_samples": 40, "warmup": 20, "chains": 2},
    "svi": {"max_iter": 60, "num_samples": 20},
    "nuts": {"chains": 2, "warmup": 5, "num_samples": 5, "max_tree_depth": 3},
}


@pytest.fixture(scope="module")
def data():
    return simulated(items=60, seed=2, per_item=4)[0]


def recomputed(posterior, data, model):
    """Return the probability of each class ``(N, K)``, computed on the CPU at the draws or the point of a result."""
    total, count = 0.0, 0
    with isolated(0), torch.no_grad():
        for bound, values in parameter_draws(posterior, data, model, most=10**6):
            parameters, _ = bound.conditioned(values, data)
            total = total + bound.truths.by_class(bound.item_log_joint(parameters, data).softmax(-1), parameters, data)
            count += 1
    return (total / count).numpy()


@pytest.mark.parametrize(("case", "method"), PAIRS, ids=[f"{c.name}-{m}" for c, m in PAIRS])
def test_every_engine_on_a_gpu(case, method):
    """The CPU finds the same probabilities at the GPU's draws; EM in closed form ends at the same point.

    Random starts come from the stream of the device: EM of item subtypes may find another maximum.
    """
    data = tiny(
        3, items=20, workers=5, classes=case.classes, features=case.features, criteria=case.criteria, known=True
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        there = fit(data, case.model, method=method, device=DEVICE, seed=0, **SHORT[method])
        assert there.info["device"].startswith(DEVICE)
        probability = there.probability_as_published()
        np.testing.assert_allclose(probability.sum(1), 1, atol=1e-6)
        with isolated(0):  # networks draw their start
            bound = bind(case.model, data)
        if bound.expand(data) is data:  # not a truth for each annotation
            np.testing.assert_allclose(probability, recomputed(there, data, case.model), atol=1e-6)
        if method == "em" and case.rises and bound.closed and "subtypes" not in case.name:
            here = fit(data, case.model, method=method, seed=0, **SHORT[method])
            np.testing.assert_allclose(probability, here.probability_as_published(), atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("workers", [6, 400])
def test_products_on_a_gpu(dtype, workers):
    """Evidence and expected counts, by dense and by sparse products."""
    rng = np.random.default_rng(0)
    arrays = rng.integers(0, 50, 2000), rng.integers(0, workers, 2000), rng.integers(0, 3, 2000)
    here = Annotations.from_arrays(*arrays, labels=range(3)).to(dtype=dtype)
    there = here.to(DEVICE)
    assert here.counts.dense == there.counts.dense == (workers == 6)
    table = torch.from_numpy(rng.dirichlet(np.ones(3), (here.J, 3))).to(dtype).log()
    r = torch.from_numpy(rng.dirichlet(np.ones(3), here.N)).to(dtype)
    kind = {"rtol": 1e-12 if dtype == torch.float64 else 1e-4, "atol": 0.0}
    torch.testing.assert_close(
        there.counts.log_likelihoods(table.to(DEVICE)).cpu(), here.counts.log_likelihoods(table), **kind
    )
    torch.testing.assert_close(there.counts.expected(r.to(DEVICE)).cpu(), here.counts.expected(r), **kind)


@pytest.mark.parametrize("method", ENGINES)
def test_views_of_a_result_from_a_gpu(tmp_path, data, method):
    """Tables, a file and an update: a result is on the CPU wherever it was computed."""
    posterior = quiet_fit(data, "dawid-skene", method=method, device=DEVICE, seed=0, **ENGINES[method])
    assert len(posterior.truth()) == data.N
    assert posterior.workers().accuracy.between(0, 1).all()
    assert len(posterior.confusion(data.workers[0])) == data.K**2
    posterior.save(tmp_path / "result.nc")
    again = crowdppl.load(tmp_path / "result.nc")
    pd.testing.assert_frame_equal(again.truth(), posterior.truth(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("method", ["em", "gibbs"])
def test_default_fit_on_a_gpu(data, method):
    """The default with its design effect: labels and workers as on the CPU, for drawn ones within what few draws allow."""
    options = ENGINES[method] | {"num_samples": 400}
    here, there = (
        quiet_fit(data, method=method, device=device, seed=0, independent=False, **options)
        for device in ("cpu", DEVICE)
    )
    np.testing.assert_allclose(there.probability(), here.probability(), atol=1e-4 if method == "em" else 0.3)
    np.testing.assert_allclose(there.workers().accuracy, here.workers().accuracy, atol=0.1)


@pytest.mark.parametrize("known", [0, 20])
def test_default_of_independent_workers_on_a_gpu(known):
    """A mixture with Dawid and Skene's model, with weights of classes where true labels are known."""
    data = default_data(known)
    here, there = (
        quiet_fit(data, device=device, seed=0, independent=False, num_samples=200) for device in ("cpu", DEVICE)
    )
    assert there.info["independence"]["z"] == pytest.approx(here.info["independence"]["z"])
    # With known true labels the probability of independence follows draws, whose random numbers differ.
    np.testing.assert_allclose(there.probability(), here.probability(), atol=0.05 if known else 1e-6)


@pytest.mark.parametrize("method", ENGINES)
def test_numbers_on_a_gpu(method):
    """True numbers as on the CPU; for engines that draw, within what few draws allow."""
    data = numbers(3)
    options = {"num_samples": 200} if method == "em" else ENGINES[method] | {"num_samples": 100}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        here, there = (fit(data, method=method, device=device, seed=0, **options) for device in ("cpu", DEVICE))
    assert there.info["device"].startswith(DEVICE)
    atol = 0.03 if method == "em" else 0.5 * here.truth()["value"].std()
    np.testing.assert_allclose(there.truth()["value"], here.truth()["value"], atol=atol)


@pytest.mark.parametrize("method", ENGINES)
def test_a_stopped_fit_goes_on_on_a_gpu(tmp_path, data, method):
    """To the same result up to the order of sums, which is not fixed on a GPU; a lost random stream would change all draws."""
    options = {"method": method, "device": DEVICE, "seed": 7, **ENGINES[method]}
    whole = quiet_fit(data, "dawid-skene", **options)
    with stopping(1 if method == "nuts" else 3), pytest.raises(Stop):
        quiet_fit(data, "dawid-skene", checkpoint=(tmp_path, 0.0), **options)
    resumed = quiet_fit(data, "dawid-skene", checkpoint=(tmp_path, 1000.0), **options)
    np.testing.assert_allclose(resumed.probability_as_published(), whole.probability_as_published(), atol=1e-6)


def test_learning_on_a_gpu(data):
    short = learning.Training(epochs=3, batch_size=16)
    for train in (learning.crowd_layer, learning.trace_regularization, learning.doctor_net, learning.max_mig):
        classifier = train(data, training=short, seed=0, device=DEVICE)
        np.testing.assert_allclose(classifier.probability().sum(1), 1, atol=1e-5)
    assert (
        len(learning.two_stage(data, crowdppl.aggregate.majority(data), training=short, seed=0, device=DEVICE).truth())
        == data.N
    )


def test_predictions_and_updates_of_a_result_from_a_gpu(data):
    posterior = quiet_fit(data, "raykar", device=DEVICE, seed=0, max_iter=10)
    new = crowdppl.predict(posterior, np.zeros((3, data.D)))
    assert len(new) == 3
    base = quiet_fit(data, "dawid-skene", method="em", device=DEVICE, seed=0)
    more = pd.DataFrame({"item": [1000, 1000], "worker": data.workers[:2], "label": [0, 0]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert 1000 in set(crowdppl.update(base, more).truth().task)


def test_command_on_a_gpu(tmp_path):
    table = tmp_path / "labels.csv"
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"item": np.repeat(np.arange(30), 4), "worker": np.tile(list("abcd"), 30)})
    frame.assign(label=rng.integers(0, 2, 120)).to_csv(table, index=False)
    command = [sys.executable, "-m", "crowdppl", "fit", str(table), "--device", DEVICE, "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, 3), done.stderr  # 3: has not converged
    assert (tmp_path / "out").is_dir()
