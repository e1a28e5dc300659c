"""Fits on an accelerator, without one: no operation mixes devices, results are those of the CPU, and the host seldom reads.

With a GPU at hand, ``test_cuda.py`` runs as well.
"""

import dataclasses
import warnings

import numpy as np
import pytest
import torch
from catalog import PAIRS, SHORT, Stop, quiet_fit, simulated, stopping, tiny
from counterfeit import DEVICE, MixedDevicesError, counterfeit

import crowdppl
from crowdppl.errors import silent
from crowdppl.isolation import isolated
from crowdppl.model.base import provides

# Two steps of each engine: what is tested is where tensors are.
BRIEF = {
    "em": SHORT["em"] | {"max_iter": 2, "num_samples": 2, "steps": 2},
    "svi": SHORT["svi"] | {"max_iter": 2, "num_samples": 2},
    "gibbs": SHORT["gibbs"] | {"warmup": 2, "num_samples": 2},
}


def elsewhere(data, model=None, **options):
    """Fit on the device; return the result and the reads of the host."""
    with counterfeit() as device, silent(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Beneath the check of the device's name.
        posterior = crowdppl.fit.__wrapped__(data, model, device=DEVICE.type, **options)
        posterior.tree.load()
        return posterior, sum(device.reads.values())


def test_mixed_devices_raise():
    with counterfeit():
        there = torch.ones(3, device=DEVICE)
        assert there.device == DEVICE
        assert (there * 2 + torch.tensor(1.0)).sum().item() == 9
        with pytest.raises(MixedDevicesError):
            there + torch.ones(3)


def test_reads_are_counted():
    with counterfeit() as device:
        there = torch.ones(3, device=DEVICE)
        there.sum().item()
        there.tolist()
        there.cpu()
        there[there > 0]
    assert sum(device.reads.values()) == 4


@pytest.mark.parametrize(
    ("case", "method"), [pair for pair in PAIRS if pair[1] != "nuts"], ids=lambda value: getattr(value, "name", value)
)
def test_every_model_and_engine(case, method):
    """Nothing mixes devices; by EM, which draws nothing before it, probabilities are those of the CPU."""
    data = tiny(items=6, classes=case.classes, features=case.features)
    posterior, _ = elsewhere(data, case.model, method=method, independent=True, **BRIEF[method])
    assert np.isfinite(posterior.probability()).all()
    assert posterior.info["device"] == DEVICE.type
    if method == "em" and not provides(case.model, "networks"):
        with silent():
            here = quiet_fit(data, case.model, method=method, **BRIEF[method])
        np.testing.assert_allclose(posterior.probability(), here.probability(), atol=1e-6)


# Engines to be stopped, and the models and options with which few steps are quick. NUTS compiles for real devices only.
STOPPED = {
    "em": {"max_iter": 6, "restarts": 1, "num_samples": 4, "tol": 0.0},
    "svi": {"max_iter": 6, "num_samples": 4, "batch_size": 4, "tol": 0.0},
    "gibbs": {"chains": 2, "warmup": 3, "num_samples": 4},
    "nuts": {"chains": 2, "warmup": 2, "num_samples": 2, "max_tree_depth": 1, "jit": False},
}


@pytest.mark.parametrize("method", STOPPED)
def test_a_stopped_fit_goes_on(tmp_path, method):
    """To the bits of one that was not stopped: the checkpoint holds the random stream of the device."""
    data = tiny(items=12)
    options = {"method": method, "seed": 7, **STOPPED[method]}
    whole, _ = elsewhere(data, "dawid-skene", **options)
    with stopping(1 if method == "nuts" else 3), pytest.raises(Stop):
        elsewhere(data, "dawid-skene", checkpoint=tmp_path, every=0.0, **options)
    resumed, _ = elsewhere(data, "dawid-skene", checkpoint=tmp_path, every=1000.0, **options)
    for name, values in whole.tree["posterior"].data_vars.items():
        np.testing.assert_array_equal(resumed.tree["posterior"][name], values)
    if method != "em":
        other, _ = elsewhere(data, "dawid-skene", **options | {"seed": 8})
        assert (other.tree["posterior"]["prevalence"] != whole.tree["posterior"]["prevalence"]).any()


def test_the_stream_of_the_device_goes_on_after_a_fit():
    """A fit on the device, and one beside it on the CPU, leave what is drawn there later as it would have been."""
    data = tiny(items=6)
    options = {"method": "gibbs", "chains": 1, "warmup": 1, "num_samples": 2}
    with counterfeit() as device, silent():
        start = device.get_rng_state()
        for place in (DEVICE.type, "cpu"):
            crowdppl.fit.__wrapped__(data, "dawid-skene", device=place, **options).tree.load()
            assert torch.equal(device.get_rng_state(), start)
        with isolated(3, device=DEVICE):
            drawn = torch.rand(4, device=DEVICE).cpu()
            assert not torch.equal(device.get_rng_state(), start)
        with isolated(3):
            assert torch.equal(torch.rand(4), drawn)
            assert torch.equal(device.get_rng_state(), start)


def default_data(known=0):
    """A crowd whose errors may be independent, so that the default is a mixture, with some known true labels."""
    data, truth, _ = simulated(items=150, workers=5, per_item=5, classes=2, seed=3, features=False)
    index = torch.full((data.N,), -1)
    index[:known] = torch.as_tensor(np.asarray(truth)[:known])
    return dataclasses.replace(data, truth=index)


@pytest.mark.parametrize("known", [0, 20])
def test_the_default(known):
    """Of a mixture with independent errors, with weights of classes where true labels are known."""
    data = default_data(known)
    posterior, _ = elsewhere(data, num_samples=40)
    with silent():
        here = crowdppl.fit(data, num_samples=40)
    # With known true labels the probability of independence follows draws, whose random numbers differ.
    assert posterior.info["independence"]["z"] == pytest.approx(here.info["independence"]["z"])
    assert posterior.info["independence"]["probability"] == pytest.approx(
        here.info["independence"]["probability"], abs=0.2 if known else 1e-9
    )
    np.testing.assert_allclose(posterior.probability(), here.probability(), atol=0.05 if known else 1e-6)
    assert ("class_weight" in posterior.tree["calibrated"]) == bool(known)


def reads_of_steps(model, method, few, many, **options):
    """Return the reads of the host that each further step takes."""
    data = simulated(items=60, workers=6, per_item=4, seed=1)[0]
    counts = []
    for steps in (few, many):
        options |= {"tol": 0.0} if method in ("em", "svi") else {}
        counts.append(
            elsewhere(data, model, method=method, max_iter=steps, independent=True, num_samples=2, **options)[1]
        )
    return (counts[1] - counts[0]) / (many - few)


@pytest.mark.parametrize(
    ("model", "method", "most"), [("dawid-skene", "em", 1.5), ("item-effects", "em", 3), ("dawid-skene", "svi", 6)]
)
def test_the_host_seldom_reads(model, method, most):
    """Reads of the host for each step of a fit: each waits for the device."""
    options = {"accelerate": False, "restarts": 0} if method == "em" else {}
    assert reads_of_steps(model, method, 4, 12, **options) <= most
