"""Fits on an accelerator, without one: no operation mixes devices, results are those of the CPU, and the host seldom reads.

The device here draws the same numbers as the CPU, which no GPU does: where both draw in the same order, results are equal.
``crowdppl.judges`` is not here, as it computes on the CPU alone. With a GPU at hand, ``test_cuda.py`` runs as well.
"""

import dataclasses
import math
import warnings
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import PAIRS, SHORT, Stop, in_turn, quiet_fit, simulated, slow_as_well, stopping, tiny
from counterfeit import DEVICE, MixedDevicesError, counterfeit

import crowdppl
from crowdppl import aggregate, arguments, learning
from crowdppl.errors import silent
from crowdppl.inference.engines import monitor
from crowdppl.isolation import isolated
from crowdppl.model import weighted_votes
from crowdppl.model.base import provides
from crowdppl.model.step_shares import first_not_worse

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
        # Notes on the result, after the fit, read more where there are more notes.
        return posterior, sum(n for place, n in device.reads.items() if not place.startswith("data/diagnostics"))


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
    ("case", "method"),
    slow_as_well(
        in_turn([pair for pair in PAIRS if pair[1] in BRIEF], 13),
        "features-and-effects-em",
        "graded-facets-criteria-svi",
    ),
)
def test_every_model_and_engine(case, method):
    """Nothing mixes devices; by EM, which draws nothing before it, probabilities are those of the CPU."""
    data = tiny(items=6, classes=case.classes, features=case.features, criteria=case.criteria)
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


def tokens():
    """Return annotations of tokens in sequences of two to four."""
    rng = np.random.default_rng(0)
    names = ["B-X", "I-X", "O"]
    rows = [(s, t, w, names[rng.integers(3)]) for s, n in enumerate((3, 4, 2)) for t in range(n) for w in range(3)]
    frame = pd.DataFrame(rows, columns=["text", "at", "worker", "label"])
    return crowdppl.Annotations.from_frame(frame, sequence="text", position="at", labels=names)


def sets():
    """Return annotations with sets of labels."""
    rng = np.random.default_rng(0)
    rows = [(g, w, [name for name in "abc" if rng.random() < 0.5]) for g in range(8) for w in range(3)]
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"])
    return crowdppl.Annotations.from_frame(frame, several="sets", labels=list("abc"))


RESULTS = [
    (tokens, "sequential-workers", "em"),
    (tokens, "sequential-workers", "gibbs"),
    (tokens, "sequential-workers", "svi"),
    (sets, "label-sets", "em"),
    (sets, "label-sets", "gibbs"),
    (sets, "label-sets", "svi"),
    (sets, "label-sets", "nuts"),
    (lambda: tiny(items=12), "dawid-skene", "nuts"),
    (lambda: tiny(items=12), "dawid-skene", "svi"),
]


@pytest.mark.parametrize(
    ("make", "model", "method"), in_turn(RESULTS, 4, name=lambda one: "-".join(one[1:]), night=False)
)
def test_results_are_those_of_the_cpu(make, model, method):
    """Also for engines that draw, and where items depend on each other."""
    with silent():
        data = make()
    options = dict(STOPPED[method])
    if model in ("sequential-workers", "label-sets"):
        options.pop("batch_size", None)  # which would cut sequences and sets
    there, _ = elsewhere(data, model, method=method, seed=3, independent=True, **options)
    with silent():
        here = quiet_fit(data, model, method=method, seed=3, **options)
    assert there.info["device"] == DEVICE.type
    np.testing.assert_allclose(there.probability(), here.probability(), atol=1e-9)
    for name, values in here.tree["posterior"].data_vars.items():
        np.testing.assert_allclose(there.tree["posterior"][name], values, atol=1e-9, rtol=1e-9)
    for group in {"spans", "sets"} & set(here.tree.children):
        for name, values in here.tree[group].data_vars.items():
            if values.dtype.kind == "f":
                np.testing.assert_allclose(there.tree[group][name], values, atol=1e-9)


@pytest.mark.parametrize("model", ["dawid-skene", pytest.param("raykar", marks=pytest.mark.slow)])
def test_predictions_and_updates(model):
    """Of a result from the device as of one from the CPU."""
    data = tiny(items=12)
    options = {"method": "em", "max_iter": 3, "num_samples": 4, "restarts": 0, "independent": True}
    more = pd.DataFrame({"item": ["new", "new"], "worker": data.workers[:2], "label": [0, 0]})
    out = []
    for place in (DEVICE.type, "cpu"):
        with counterfeit(), silent():
            posterior = crowdppl.fit.__wrapped__(data, model, device=place, seed=2, **options)
            if model == "raykar":
                out.append(crowdppl.predict(posterior, np.zeros((3, data.D))))
            else:
                out.append(crowdppl.update(posterior, more).truth())
    pd.testing.assert_frame_equal(*out, rtol=1e-6)


LEARNED = {
    "crowd_layer": learning.crowd_layer,
    "trace_regularization": learning.trace_regularization,
    "doctor_net": learning.doctor_net,
    "max_mig": learning.max_mig,
    "two_stage": lambda data, **options: learning.two_stage(data, aggregate.majority(data), **options),
}


@pytest.mark.parametrize("name", LEARNED)
def test_learning(name):
    """Networks trained there are those trained on the CPU: weights, mini-batches and dropout come from equal streams."""
    data = tiny(items=12)
    short, train = learning.Training(epochs=2, batch_size=5), LEARNED[name]
    checks = mock.patch.dict(
        arguments.checks_of(getattr(learning, name)), device=arguments.place
    )  # which accepts any device
    with counterfeit(), silent(), checks:
        there, here = (train(data, training=short, seed=1, device=place) for place in (DEVICE.type, "cpu"))
    table = here.truth() if hasattr(here, "truth") else pd.DataFrame(here.probability())
    other = there.truth() if hasattr(there, "truth") else pd.DataFrame(there.probability())
    pd.testing.assert_frame_equal(other, table, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", in_turn(STOPPED, 2))
def test_a_stopped_fit_goes_on(tmp_path, method):
    """To the bits of one that was not stopped: the checkpoint holds the random stream of the device."""
    data = tiny(items=12)
    options = {"method": method, "seed": 7, **STOPPED[method]}
    whole, _ = elsewhere(data, "dawid-skene", **options)
    with stopping(3), pytest.raises(Stop):
        elsewhere(data, "dawid-skene", checkpoint=(tmp_path, 0.0), **options)
    resumed, _ = elsewhere(data, "dawid-skene", checkpoint=(tmp_path, 1000.0), **options)
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


@pytest.mark.slow
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


def reads_of_steps(model, method, few, many, classes=3, **options):
    """Return the reads of the host that each further step takes."""
    data = simulated(items=30, workers=6, per_item=4, seed=1, classes=classes)[0]
    counts = []
    for steps in (few, many):
        options |= {"tol": 0.0} if method in ("em", "svi") else {}
        counts.append(
            elsewhere(data, model, method=method, max_iter=steps, independent=True, num_samples=2, **options)[1]
        )
    return (counts[1] - counts[0]) / (many - few)


READS = [
    ("dawid-skene", "em", 1),
    ("item-effects", "em", 1),
    ("two-coin-difficulty", "em", 19),
    ("dawid-skene", "svi", 6),
    ("dawid-skene", "svi in batches", 12),
]


@pytest.mark.parametrize(("model", "method", "most"), in_turn(READS, 4, night=False))
def test_the_host_seldom_reads(model, method, most):
    """Reads of the host for each step of a fit: each waits for the device."""
    engine, in_batches = method.split()[0], "batches" in method
    options = {"accelerate": False, "restarts": 0} if engine == "em" else {}
    options |= {"batch_size": 15} if in_batches else {}
    few, many = (2, 4) if "two" in model else (4, 8)
    assert reads_of_steps(model, engine, few, many, classes=2 if "two" in model else 3, **options) <= most


def test_weights_of_votes_seldom_read():
    """Ten steps are taken before their log-likelihoods are read, and the weights are those of a step after another."""
    data = simulated(items=60, workers=8, per_item=4, seed=2, classes=3, features=False)[0]
    here = weighted_votes.competence_weights(data)
    steps = len(list(weighted_votes._steps(data, data.majority())))
    with counterfeit() as device:
        there = weighted_votes.competence_weights(data.to(DEVICE))
        reads = sum(
            n for place, n in device.reads.items() if "weighted_votes" in place
        )  # others arrange the data, once
        assert reads == math.ceil(steps / weighted_votes.AHEAD) + 1  # whether most workers are adversarial
        assert sum(device.reads.values()) < 20
        np.testing.assert_array_equal(there.cpu(), here)
    assert steps > 3


def test_the_monitor_reads_once():
    """And once more where chains disagree about items, however many these are."""
    chains = torch.rand(2, 40, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64) / 10
    layout = monitor.Layout(monitor.places({"accuracy": 2, "truth": 10}), 2)
    apart = chains.clone()
    apart[0, :, 4:] += 0.7
    for values, most in ((chains, 1), (apart, 2)):
        here = monitor.diagnose([monitor.BlockMoments.of(values)], layout)
        with counterfeit() as device:
            there = monitor.diagnose([monitor.BlockMoments.of(values.to(DEVICE))], layout)
        assert there == here
        assert sum(device.reads.values()) == most
    assert here.disagreeing == [1, 2, 3, 4]


@pytest.mark.parametrize("tries", [1, 3, 8])
def test_shares_of_a_step_are_the_same_on_both(tries):
    """The host tries one after the other, the device all at once: the first that does not lower the objective, else 0."""
    limit = torch.tensor([2.0, 0.5, 0.19, 0.04, 1e-9, torch.nan], dtype=torch.float64)

    def shares(limit):
        return first_not_worse(lambda size: limit - size, 0 * limit, 0.5, tries)

    here = shares(limit)
    with counterfeit() as device:
        there = shares(limit.to(DEVICE))
        assert not device.reads
        np.testing.assert_allclose(there.cpu(), here, rtol=1e-12)
    expected = [0.5, 0.5, 0.5 * 0.4**2 if tries > 2 else 0, 0.5 * 0.4**3 if tries > 3 else 0, 0, 0]
    np.testing.assert_allclose(here, expected, rtol=1e-12)
