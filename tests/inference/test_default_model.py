"""The model and the engine of a fit that names none."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import quiet_fit, tiny

import crowdppl
from crowdppl.data import datasets
from crowdppl.errors import OptionError
from crowdppl.inference import catalogue
from crowdppl.inference.catalogue import DEFAULT, LARGE, MANY_CLASSES
from crowdppl.inference.dependence import coinciding_errors


def ran(posterior):
    return posterior.info["model"], posterior.info["method"]


def test_item_effects_by_em():
    posterior = crowdppl.fit(datasets.anaesthesia(), seed=1)
    assert ran(posterior) == (DEFAULT, "em") == ("item-effects", "em")
    named = crowdppl.fit(datasets.anaesthesia(), "item-effects", seed=1)
    pd.testing.assert_frame_equal(posterior.truth(), named.truth())
    pd.testing.assert_frame_equal(posterior.workers(), named.workers())


def test_another_model_by_gibbs_sampling_where_it_can():
    assert ran(quiet_fit(tiny(), "dawid-skene", num_samples=4))[1] == "gibbs"
    assert ran(quiet_fit(tiny(), "item-effects", method="gibbs", chains=1, warmup=2, num_samples=2))[1] == "gibbs"


def test_another_model_where_item_effects_would_take_too_long(monkeypatch):
    """By EM as well, and the notes say so; whoever names item effects gets them."""
    data = tiny(features=False)
    assert not [note for note in quiet_fit(data, independent=False).notes if "was fitted" in note]
    monkeypatch.setattr(catalogue, "MOST_OPERATIONS", 1.0)
    monkeypatch.setattr(catalogue, "EACH_CLASS", 0.0)
    monkeypatch.setattr(coinciding_errors, "EVEN", -math.inf)
    posterior = quiet_fit(data, independent=False)
    assert ran(posterior) == (LARGE, "em")
    assert posterior.notes[-1].startswith("dawid-skene was fitted: with 3 classes, ")
    assert "model='item-effects' fits it all the same" in posterior.notes[-1]
    named = quiet_fit(data, DEFAULT)
    assert ran(named) == (DEFAULT, "em")
    assert not [note for note in named.notes if "was fitted" in note]


@pytest.mark.parametrize(
    ("items", "workers", "classes", "annotations", "name"),
    [
        (1000, 59, 8, 2547, DEFAULT),
        (40_000, 57, 3, 216_725, DEFAULT),
        (10_000, 500, 5, 100_000, DEFAULT),
        (100, 50, 50, 5000, MANY_CLASSES),
        (1000, 50, 50, 5000, LARGE),  # five workers gave a thousand each
        (3000, 50, 50, 15_000, LARGE),
        (10_000, 2500, 10, 500_000, LARGE),
    ],
)
def test_what_takes_too_long(items, workers, classes, annotations, name):
    """The number of classes counts most; every other worker errs, as the others who do."""
    n = np.arange(annotations)
    item, worker = n % items, n // items % workers
    frame = pd.DataFrame({"task": item, "worker": worker, "label": (item + worker % 2) % classes})
    data = crowdppl.Annotations.from_frame(frame, workers=range(workers), repeats="keep", kind="nominal")
    model, note, *_ = catalogue.default_model(data)
    assert catalogue.model_name(model) == name
    assert (note is None) == (name == DEFAULT)


def test_workers_with_few_labels_of_each_of_many_classes():
    """A matrix of two labels for each row would follow its prior: of forty classes a third of every worker's labels would err."""
    rng = np.random.default_rng(0)
    truth = rng.integers(40, size=600)
    label = np.where(rng.random((20, 600)) < 0.75, truth, rng.integers(40, size=(20, 600)))
    chosen = rng.permuted(np.arange(20)[:, None] + np.zeros((1, 600), dtype=int), axis=0) < 3
    worker, item = np.nonzero(chosen)
    data = crowdppl.Annotations.from_arrays(item, worker, label[chosen], labels=range(40))
    posterior = quiet_fit(data, seed=0, independent=False)
    assert posterior.info["model"] == MANY_CLASSES
    assert any("labels for each class" in note for note in posterior.notes)
    biases = {}
    for name, fitted in (
        ("default", posterior),
        ("matrices", quiet_fit(data, LARGE, method="em", seed=0, independent=False)),
    ):
        biases[name] = fitted.workers()["share_correct"].mean() - (label == truth)[chosen].mean()
    assert abs(biases["default"]) < 0.15 < abs(biases["matrices"])


@pytest.mark.parametrize("independent", [False, True])
def test_features_are_left_unread_where_reading_them_would_take_too_long(independent, monkeypatch):
    data = tiny(items=40)
    assert catalogue.reads_by_default(data)
    monkeypatch.setattr(catalogue, "MOST_OPERATIONS", 1.0)
    monkeypatch.setattr(catalogue, "EACH_CLASS", 0.0)
    monkeypatch.setattr(coinciding_errors, "EVEN", -math.inf)
    assert not catalogue.reads_by_default(data)
    model, note, *_ = catalogue.default_model(data, independent=independent)
    assert catalogue.model_name(model) == LARGE
    assert note is not None


def test_independent_annotations_have_no_item_effects():
    """A textbook crowd: Dawid and Skene's model, which states what is correct, also after an update."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=400)
    label = np.where(rng.random((5, 400)) < 0.85, truth, 1 - truth)
    worker, item = np.divmod(np.arange(label.size), 400)
    data = crowdppl.Annotations.from_arrays(item, worker, label.ravel(), labels=range(2))
    posterior = crowdppl.fit(data, seed=0, independent=True)
    assert posterior.info["model"] == LARGE
    assert any("independent" in note for note in posterior.notes)
    table = posterior.truth()
    correct = (table["label"].to_numpy() == truth).mean()
    # The standard error of the share correct is .008; that of the mean probability is smaller.
    assert abs(table["probability"].mean() - correct) < 0.03
    assert abs(posterior.workers()["share_correct"].mean() - (label == truth).mean()) < 0.02
    first = crowdppl.fit(data.batch(torch.arange(300)), seed=0, independent=True)
    assert crowdppl.update(first, data.batch(torch.arange(300, 400))).info["model"] == LARGE
    assert crowdppl.update(first, data.batch(torch.arange(300, 400)), independent=False).info["model"] == DEFAULT


def test_options_of_another_engine_are_refused_with_its_name():
    with pytest.raises(OptionError, match="chains"):
        crowdppl.fit(tiny(), chains=2)
