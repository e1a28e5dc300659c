"""Fits on an accelerator, without one: no operation mixes devices, results are those of the CPU, and the host seldom reads.

With a GPU at hand, ``test_cuda.py`` runs as well.
"""

import dataclasses
import warnings

import numpy as np
import pytest
import torch
from catalog import PAIRS, SHORT, quiet_fit, simulated, tiny
from counterfeit import DEVICE, MixedDevicesError, counterfeit

import crowdppl
from crowdppl.errors import silent
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
