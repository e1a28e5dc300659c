"""Features and counts on their way in, networks on their way out: intake, arrangements, prediction, saving."""

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch
from catalog import fit, quiet_fit, tiny

import crowdppl
from crowdppl import Annotations, DataError, ModelError, OptionError
from crowdppl.data.label_sets import pairs
from crowdppl.data.synthetic import two_gaussians
from crowdppl.model.networks import Standardise, perceptron
from crowdppl.models import LIA, DawidSkene, Raykar

FRAME = pd.DataFrame({"task": ["b", "a", "b"], "worker": ["u", "u", "v"], "label": [1, 0, 1]})
X = pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [4, 5, 6]}, index=["a", "b", "c"])


def test_features_go_by_name():
    data = Annotations.from_frame(FRAME, features=X, worker_features=pd.DataFrame({"r": [9.0, 8.0]}, index=["v", "u"]))
    assert data.items.tolist() == ["b", "a"]
    assert data.features.tolist() == [[2, 5], [1, 4]]
    assert data.worker_features.tolist() == [[8], [9]]
    assert data.D == 2
    assert data.batch(torch.tensor([1])).features.tolist() == [[1, 4]]
    assert data.to(dtype=torch.float32).features.dtype == torch.float32
    assert data.item_label_cells().batch(torch.tensor([1, 0])).features.tolist() == [[1, 4], [2, 5]]


@pytest.mark.parametrize(
    ("features", "said"),
    [
        (X.loc[["a"]], r"no row for 1 tasks \('b'\)"),
        (X.loc[["a", "b", "a"]], "row 3: task 'a' repeated"),
        (X.assign(z=["p", "q", "r"]), "columns 'z' are not numeric"),
        (X.assign(z=[1.0, np.nan, 2.0]), "task 'b' has values that are missing or not finite"),
        (X.assign(z=[np.inf, 1.0, 2.0]), "task 'a' has values"),
        (X.set_axis([1, 2, 3]), "the index contains integers, but the tasks are strings"),
        (np.zeros((3, 2)), r"shape \(3, 2\).*\(2, D\)"),
        (np.zeros(2), r"shape \(2,\)"),
        (np.array([["p"], ["q"]]), "of type ndarray"),
        (X[[]], "no columns"),
    ],
)
def test_bad_features_are_refused(features, said):
    with pytest.raises(DataError, match=said) as refused:
        Annotations.from_frame(FRAME, features=features)
    assert "\n" not in str(refused.value)


def test_counts():
    table = pd.DataFrame({"item": ["p", "q", "r"], "yes": [3, 0, 0], "no": [1, 2, 0]})
    data = Annotations.from_counts(table, truth={"q": "no"})
    assert data.votes.tolist() == [[3, 1], [0, 2], [0, 0]]
    assert data.labels.tolist() == ["yes", "no"]
    assert data.truth.tolist() == [-1, 1, -1]
    assert data.notes == ()
    cells = data.item_label_cells()
    assert (cells.N, cells.A) == (3, 3)
    assert cells.parent_item.tolist() == [0, 0, 1]
    assert cells.multiplicity.tolist() == [3, 1, 2]
    assert cells.truth.tolist() == [-1, -1, 1]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (pd.DataFrame({"item": ["p", "q"], "yes": [1, -1], "no": [1, 1]}), "row 2: counts must be whole"),
        (pd.DataFrame({"item": ["p"], "yes": [0.5], "no": [1]}), "row 1: counts must be whole"),
        (pd.DataFrame({"item": ["p", "p"], "yes": [1, 1], "no": [1, 1]}), "task 'p' repeated"),
        (pd.DataFrame({"item": ["p"], "yes": ["x"], "no": [1]}), "not all numbers"),
        (pd.DataFrame({"item": ["p"], "yes": [1]}), "at least two classes"),
        ([1, 2], "pass a pandas DataFrame"),
    ],
)
def test_bad_counts_are_refused(table, said):
    with pytest.raises(DataError, match=said):
        Annotations.from_counts(table)


def test_multiplicity_is_repetition():
    """An item that stands twice counts twice: maximum likelihood and log-likelihood as from written-out data."""
    data = tiny(3)
    twice = [
        Annotations.from_arrays(
            [f"{name} {copy}" for name in data.items[data.item]],
            data.workers[data.worker],
            data.label.numpy(),
            labels=range(3),
        )
        for copy in range(2)
    ]
    both = Annotations.from_arrays(
        np.concatenate([d.items[d.item] for d in twice]),
        np.concatenate([d.workers[d.worker] for d in twice]),
        np.concatenate([d.label.numpy() for d in twice]),
        labels=range(3),
    )
    from dataclasses import replace

    weighted = replace(data, multiplicity=torch.full((data.N,), 2.0, dtype=torch.float64))
    for model in (DawidSkene(), "majority-vote", "one-coin", "pooled", "class-conditional"):
        one, two = (quiet_fit(d, model, method="em", num_samples=2, tol=1e-12) for d in (weighted, both))
        np.testing.assert_allclose(
            one.tree["truth"]["probability"].values, two.tree["truth"]["probability"].values[: data.N], atol=1e-6
        )
        assert one.info["facts"]["log_likelihood"] == pytest.approx(two.info["facts"]["log_likelihood"], rel=1e-8)
    with pytest.raises(ModelError, match="multiplicities"):
        fit(weighted, method="gibbs")


# ---------------------------------------------------------------------- prediction and files


@pytest.fixture(scope="module")
def fitted():
    s = two_gaussians(seed=0, train=300, labels="constant")
    return s, quiet_fit(s.data, Raykar(), method="em", num_samples=2)


def test_prediction(fitted, tmp_path):
    s, posterior = fitted
    names = [f"new {n}" for n in range(len(s.features_test))]
    frame = pd.DataFrame(s.features_test, index=names)
    table = crowdppl.predict(posterior, frame)
    assert table["task"].tolist() == names
    assert (table["label"].to_numpy() == s.truth_test).mean() > 0.88
    assert set(table) == set(posterior.truth())
    back = crowdppl.load(posterior.save(tmp_path / "posterior.nc"))
    assert crowdppl.predict(back, frame).equals(table)
    for name, value in posterior.networks.items():
        assert torch.equal(back.networks[name], value)
    safetensors.torch.save_file(back.networks, tmp_path / "network.safetensors")
    assert set(safetensors.torch.load_file(tmp_path / "network.safetensors")) == set(posterior.networks)


def test_who_is_right_on_what(fitted):
    s, posterior = fitted
    table = crowdppl.predict_correct(posterior, s.features_test[:4])
    assert len(table) == 4 * 5
    assert table["probability"].between(0, 1).all()
    # sum_k p(k) B_j[k, k], by hand
    p = crowdppl.predict(posterior, s.features_test[:4])[["p_0", "p_1"]].to_numpy()
    by_hand = p @ np.einsum("jkk->jk", posterior.tree["point"]["confusion"].values).T
    np.testing.assert_allclose(table["probability"].to_numpy().reshape(4, 5), by_hand, atol=1e-9)


def test_prediction_refuses(fitted):
    s, posterior = fitted
    with pytest.raises(DataError, match="3 item features; the model was fitted with 2"):
        crowdppl.predict(posterior, np.zeros((2, 3)))
    with pytest.raises(ModelError, match="do not fit the network"):
        crowdppl.predict(posterior, s.features_test, model=Raykar(hidden=(4,)))
    with pytest.raises(DataError, match="classes are not those"):
        crowdppl.predict(posterior, tiny())
    with pytest.raises(DataError, match="reads item features and the data have none"):
        fit(tiny(features=False), Raykar(), method="em")


@pytest.mark.slow
def test_a_network_of_ones_own(fitted):
    """A module is taken as it is and left as it was; prediction asks for it again."""
    s, _ = fitted
    with torch.random.fork_rng():
        mine = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
    before = [p.detach().clone() for p in mine.parameters()]
    posterior = quiet_fit(s.data, Raykar(network=mine), method="em", max_iter=30, epochs=5, learning_rate=0.01)
    assert all(torch.equal(a, b) for a, b in zip(before, mine.parameters(), strict=True))
    with pytest.raises(ModelError, match="network of its own"):
        crowdppl.predict(posterior, s.features_test)
    table = crowdppl.predict(posterior, s.features_test, model=Raykar(network=mine))
    assert (table["label"].to_numpy() == s.truth_test).mean() > 0.85
    posterior = quiet_fit(
        s.data,
        Raykar(
            network=lambda D, K: torch.nn.Sequential(
                torch.nn.Linear(D, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, K)
            )
        ),
        method="em",
        max_iter=20,
    )
    assert any("running_mean" in name for name in posterior.networks)


@pytest.mark.slow
def test_validation_keeps_the_best_step(fitted):
    s, _ = fitted
    held_out = (s.features_test, s.truth_test)
    model = Raykar(hidden=(8,))
    em = {"max_iter": 12, "learning_rate": 0.01}
    for method, options in (("em", em), ("svi", {"max_iter": 200, "guide": "point"})):
        posterior = quiet_fit(s.data, model, method=method, validation=held_out, **options)
        best = posterior.info["facts"]["validation"]["accuracy"]
        accuracy = (crowdppl.predict(posterior, s.features_test)["label"].to_numpy() == s.truth_test).mean()
        assert accuracy == pytest.approx(best, abs=1e-12)
        assert best > 0.85
    with pytest.raises(OptionError, match="must be a pair"):
        fit(s.data, model, method="em", validation=s.features_test)
    with pytest.raises(DataError, match="validation"):
        fit(s.data, model, method="em", validation=(s.features_test, s.truth_test + 5))
    with pytest.raises(DataError, match="rows of features, but"):
        fit(s.data, model, method="em", validation=(s.features_test, s.truth_test[:3]))


def test_standardise():
    x = torch.tensor([[1.0, 5.0], [3.0, 5.0]])
    torch.testing.assert_close(Standardise(x)(x), torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))
    with torch.random.fork_rng():
        assert perceptron(4, 3, ())(torch.zeros(2, 4)).shape == (2, 3)


# ---------------------------------------------------------------------- sets of labels


@pytest.mark.slow
def test_sets_of_labels():
    frame = pd.DataFrame(
        {"item": ["s1", "s1", "s2"], "worker": ["u", "v", "u"], "label": ["CAUSES;TREATS", "TREATS", None]}
    )
    data = pairs(frame, features=pd.DataFrame({"x": [1.0, 2.0]}, index=["s1", "s2"]))
    assert data.items.tolist() == ["s1|CAUSES", "s1|TREATS", "s2|CAUSES", "s2|TREATS"]
    assert data.votes.tolist() == [[1, 1], [0, 2], [1, 0], [1, 0]]
    assert data.features.tolist() == [[1, 0], [1, 1], [2, 0], [2, 1]]
    model = LIA(relations=2, hidden=(3,), embedding=2, latent=1)
    posterior = quiet_fit(data, model, method="em", max_iter=2, steps=5, fine_tune=5)
    assert len(crowdppl.predict(posterior, data.features.numpy())) == 4
    with pytest.raises(DataError, match="not among the relations"):
        pairs(frame, relations=["CAUSES"])
    with pytest.raises(DataError, match="the relation's number"):
        fit(data, LIA(relations=1), method="em")


@pytest.mark.slow
def test_medical_relations(public):
    """LIA-ML on real label sets, 14 relations of some sentences: after a short fit truths are mostly those of the majority."""
    public("rte")  # skips where the data are not at hand
    from crowdppl.data import datasets

    place = datasets.folder() / "medical-relations"
    frame = pd.read_csv(place / "annotations.csv.gz").head(3000)
    z = np.load(place / "features.npz", allow_pickle=False)
    x = pd.DataFrame(z["x"].astype(float), index=z["items"])
    frame["item"] = frame["item"].astype(str)
    data = pairs(frame, features=x.loc[x.index.intersection(frame["item"].unique())])
    posterior = quiet_fit(
        data.to(dtype=torch.float32),
        LIA(relations=data.N // frame["item"].nunique()),
        method="em",
        max_iter=2,
        steps=60,
        fine_tune=60,
    )
    labels = posterior.truth().set_index("item")["label"]
    majority = pd.Series((data.majority()[:, 1] > 0.5).int().numpy(), index=data.items)
    assert (labels == majority.loc[labels.index]).mean() > 0.9
