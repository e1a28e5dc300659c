"""Features go with their names: columns in any order, classes by item, and models that read no features say so."""

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyro.distributions as dist
import pytest
import torch
from catalog import quiet_fit

import crowdppl
from crowdppl import Annotations, CrowdpplWarning, DataError, ModelError, aggregate, learning
from crowdppl.data.joining import joined
from crowdppl.errors import silent
from crowdppl.inference.catalogue import named_model
from crowdppl.model.features_read import reads_features

N = 120


@pytest.fixture(scope="module")
def table():
    """Labels of three workers, features with names of which the first decides, and the truth."""
    rng = np.random.default_rng(0)
    features = pd.DataFrame(rng.normal(size=(N, 2)), columns=["signal", "noise"], index=[f"i{n}" for n in range(N)])
    truth = pd.Series((features["signal"] > 0).astype(int))
    rows = [(i, w, t if rng.random() < 0.8 else 1 - t) for i, t in truth.items() for w in "abc"]
    return pd.DataFrame(rows, columns=["task", "worker", "label"]), features, truth


@pytest.fixture(scope="module")
def fitted(table):
    frame, features, _ = table
    return quiet_fit(Annotations.from_frame(frame, features=features), "raykar", method="em", num_samples=20)


def exchanged(features):
    return features[["noise", "signal"]]


def test_columns_in_any_order_predict_alike(table, fitted, tmp_path):
    _, features, truth = table
    expected = crowdppl.predict(fitted, features)
    assert (expected["label"].to_numpy() == truth.to_numpy()).mean() > 0.9
    assert crowdppl.predict(fitted, exchanged(features)).equals(expected)
    assert crowdppl.predict(fitted, features.to_numpy()).iloc[:, 1:].equals(expected.iloc[:, 1:])
    design = Annotations.from_frame(table[0], features=exchanged(features))
    assert crowdppl.predict(fitted, design).equals(expected)
    pairs = crowdppl.predict_correct(fitted, features.head(5))
    assert crowdppl.predict_correct(fitted, exchanged(features.head(5))).equals(pairs)
    fitted.save(tmp_path / "p.nc")
    assert crowdppl.predict(crowdppl.load(tmp_path / "p.nc"), exchanged(features)).equals(expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x[["signal"]], "no column 'noise'; the features of the fit are 'signal', 'noise'"),
        (lambda x: x.assign(more=1.0), "unknown column 'more'"),
        (lambda x: x.rename(columns={"noise": "volume"}), "no column 'noise', unknown column 'volume'"),
    ],
)
def test_other_columns_are_refused(table, fitted, change, message):
    with pytest.raises(DataError, match=message):
        crowdppl.predict(fitted, change(table[1]))


def test_an_update_takes_columns_by_name(table):
    frame, features, _ = table
    early = frame["task"].isin(features.index[:60])
    before = Annotations.from_frame(frame[early], features=features)
    more = Annotations.from_frame(frame[~early], features=exchanged(features))
    both = joined(before, more)
    np.testing.assert_array_equal(both.features.numpy(), features.loc[both.items].to_numpy())
    assert both.feature_names == ("signal", "noise")
    other = Annotations.from_frame(frame[~early], features=features.rename(columns={"noise": "x"}))
    with pytest.raises(DataError, match="no column 'noise'"):
        joined(before, other)


def test_validation_items_go_by_name(table):
    """Columns by their names, and classes by item where they are a Series."""
    frame, features, truth = table
    data = Annotations.from_frame(frame, features=features)
    held_out = (features, truth.to_numpy()), (exchanged(features), truth.sample(frac=1, random_state=0))
    fits = [
        quiet_fit(data, "raykar", method="em", num_samples=2, max_iter=5, validation=validation)
        for validation in held_out
    ]
    assert fits[0].truth().equals(fits[1].truth())
    assert fits[0].info["facts"] == fits[1].info["facts"]


def test_a_trained_classifier_takes_columns_and_classes_by_name(table):
    frame, features, truth = table
    data = Annotations.from_frame(frame, features=features)
    trained = learning.two_stage(data, aggregate.majority(data), training=learning.Training(epochs=60), seed=0)
    assert trained.predict(exchanged(features)).equals(trained.predict(features))
    accuracy = trained.accuracy(features, truth)
    assert accuracy > 0.8
    assert trained.accuracy(exchanged(features), truth.sample(frac=1, random_state=1)) == accuracy
    assert trained.accuracy(Annotations.from_frame(frame, features=exchanged(features)), truth.to_numpy()) == accuracy
    with pytest.raises(DataError, match="unknown column 'z'"):
        trained.predict(features.assign(z=0.0))


@dataclass(frozen=True)
class Shifted(crowdppl.AnnotationModel):
    """Features move the truth, but no parameter has their shape."""

    def prior(self, data, plates):
        with plates.worker:
            return {"skill": plates.sample("skill", dist.Beta(4.0, 2.0))}

    def truth(self, parameters, data):
        return dist.Categorical(logits=data.features[:, :1] * torch.tensor([0.0, 1.0]))

    def emission(self, parameters, data):
        p = parameters["skill"][data.worker].unsqueeze(-1).unsqueeze(-1)
        return dist.Categorical(probs=torch.where(torch.eye(2, dtype=torch.bool), p, 1 - p))


@pytest.mark.parametrize(
    ("model", "reads"),
    [
        ("raykar", True),
        ("crowd-mixture", True),
        ("lia", True),
        ("conal", True),
        ("dawid-skene", False),
        ("glad", False),
    ],
)
def test_which_models_read_features_is_found(table, model, reads):
    data = Annotations.from_frame(table[0], features=table[1])
    assert reads_features(named_model(model), data) == {"features": reads}


@pytest.mark.parametrize("model", ["item-effects", "dawid-skene", "one-coin", "pooled", "majority-vote"])
def test_features_that_are_not_read_are_named(table, model):
    """The fit says so, and a prediction for new items, which could only be the prevalence, is refused."""
    frame, features, _ = table
    data = Annotations.from_frame(
        frame, features=features, worker_features=pd.DataFrame({"age": [1.0, 2, 3]}, index=list("abc"))
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = crowdppl.fit(data, model, method="em", num_samples=20)
    said = [str(w.message) for w in caught if issubclass(w.category, CrowdpplWarning)]
    assert any("the 2 features of items were not used" in s and "'raykar'" in s for s in said)
    assert any("the 1 features of workers were not used" in s for s in said)
    with pytest.raises(ModelError, match="predicts the same for every new item"):
        crowdppl.predict(posterior, features)


def test_features_that_are_read_need_no_word(table, fitted):
    assert not any("were not used" in sentence for sentence in fitted.warnings)


def test_an_update_chooses_anew_what_the_fit_chose():
    """The correlation of errors in public crowds depends on the annotations of an item: the earlier value was not the user's."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=200)
    rows = [
        (n, f"w{j}", t if rng.random() < 0.85 else 1 - t) for n, t in enumerate(truth) for j in rng.choice(12, 9, False)
    ]
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"])
    early = frame.groupby("task").cumcount() == 0
    with silent():
        first = crowdppl.fit(frame[early].reset_index(drop=True), num_samples=20)
        updated = crowdppl.update(first, frame[~early].reset_index(drop=True))
        whole = crowdppl.fit(frame, num_samples=20)
        kept = crowdppl.update(
            crowdppl.fit(frame[early].reset_index(drop=True), rho=0.3, num_samples=20), frame[~early]
        )
    assert updated.info["rho"] == whole.info["rho"] != first.info["rho"]
    assert updated.truth()["probability"].mean() == pytest.approx(whole.truth()["probability"].mean(), abs=0.01)
    assert kept.info["rho"]["known"] == 0.3


def test_an_update_chooses_the_default_model_anew(monkeypatch):
    """Where the user named no model and all annotations call for another one, it is that one; a named model stays."""
    from crowdppl.inference import catalogue

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"task": np.repeat(np.arange(60), 4), "worker": np.tile(list("abcd"), 60), "label": rng.integers(3, size=240)}
    )
    with silent():
        first = crowdppl.fit(frame.head(40), num_samples=20)
        named = crowdppl.fit(frame.head(40), "item-effects", num_samples=20)
        monkeypatch.setattr(catalogue, "MOST_OPERATIONS", 0.0)
        updated, same = (crowdppl.update(p, frame.iloc[40:].reset_index(drop=True)) for p in (first, named))
    assert (first.info["model"], updated.info["model"], same.info["model"]) == (
        "item-effects",
        "dawid-skene",
        "item-effects",
    )
