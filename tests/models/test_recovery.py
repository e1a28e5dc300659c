"""Each model fitted to its own simulation: what was put in comes out, and comes out better from more data.

Seeds are fixed; the bounds are half as much again as the errors seen, and errors have to fall where the data grow eightfold
(their standard deviation over seeds is a tenth of the mean or so), so that a false alarm needs a change of the code.
"""

import numpy as np
import pytest
from catalog import quiet_fit

import crowdppl
from crowdppl import Annotations
from crowdppl.data.synthetic import common_and_individual, three_gaussians, two_gaussians
from crowdppl.models import (
    LIA,
    ClassConditional,
    CoNAL,
    CrowdMixture,
    DawidSkene,
    HierarchicalDawidSkene,
    ItemSubtypes,
    OneCoin,
    Pooled,
    Raykar,
    TwoCoinDifficulty,
    WorkerGroups,
)

GIBBS = {"method": "gibbs", "chains": 1, "warmup": 150, "num_samples": 150}
EM = {"method": "em", "num_samples": 2}


def design(items, workers, per_item, seed):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(items), per_item)
    worker = np.concatenate([rng.choice(workers, per_item, replace=False) for _ in range(items)])
    return task, worker, rng.normal(size=(items, 2))


def diagonal(values, K=3):
    """Return confusion matrices with these diagonals, errors spread unevenly."""
    values = np.asarray(values, dtype=float)[..., None, None]
    wrong = np.triu(np.ones((K, K)), 1) * 2 + np.tril(np.ones((K, K)), -1)
    return values * np.eye(K) + (1 - values) * wrong / wrong.sum(-1, keepdims=True)


SKILL = np.linspace(0.5, 0.9, 10)
SUBTYPED = np.stack([diagonal(SKILL), diagonal(SKILL - 0.35)], axis=2)  # (J, K, M, K): an easy and a hard subtype
TRUE = {
    "dawid-skene": (DawidSkene(), EM, {"confusion": diagonal(SKILL)}),
    "hierarchical": (HierarchicalDawidSkene(), GIBBS, {"confusion": diagonal(SKILL)}),
    "one-coin": (OneCoin(), EM, {"accuracy": SKILL}),
    "class-conditional": (ClassConditional(), EM, {"sensitivity": np.stack([SKILL, SKILL[::-1], SKILL], -1)}),
    "pooled": (Pooled(), EM, {"common": diagonal(0.7)}),
    "worker-groups": (
        WorkerGroups(groups=2),
        GIBBS,
        {"group_confusion": diagonal([0.85, 0.45]), "share": [0.6, 0.4], "group_of": np.array([0.0, 1] * 5)},
    ),
    "item-subtypes": (ItemSubtypes(subtypes=2), GIBBS, {"rows": SUBTYPED, "weights": np.tile([0.7, 0.3], (3, 1))}),
}
BOUND = {"hierarchical": 0.05, "item-subtypes": 0.06, "dawid-skene": 0.05, "class-conditional": 0.06}


@pytest.mark.parametrize("name", TRUE)
def test_worker_models(name):
    """Mean absolute error of each worker's ``p(label | truth)``, and the truths found beside those of a majority vote."""
    model, options, values = TRUE[name]
    values = {"prevalence": [0.5, 0.3, 0.2]} | values
    errors = []
    for items in (150, 1200):
        error = []
        for seed in range(2):
            task, worker, x = design(items, 10, 5, seed)
            data, truth, _ = crowdppl.simulate(model, task, worker, classes=3, seed=seed, parameters=values, features=x)
            posterior = quiet_fit(data, model, **options)
            confusion = posterior.tree["posterior"]["confusion"].mean(("chain", "draw")).values
            known = wanted(name, values)
            if name in ("one-coin", "class-conditional"):
                confusion = np.einsum("jkk->jk", confusion)
            error.append(np.abs(confusion - known).mean())
            votes = (data.majority().numpy().argmax(-1) == truth).mean()
            assert (posterior.truth()["label"].to_numpy() == truth).mean() > votes - (0.07 if items == 150 else 0.01)
        errors.append(np.mean(error))
    assert errors[1] < BOUND.get(name, 0.03)
    assert errors[1] < errors[0] / 1.4


def wanted(name, values):
    """Return what each worker's confusion, or its diagonal, should come out as."""
    if name == "one-coin":
        return np.tile(SKILL[:, None], (1, 3))
    if name == "class-conditional":
        return values["sensitivity"]
    if name == "pooled":
        return np.tile(values["common"], (10, 1, 1))
    if name == "worker-groups":
        return np.asarray(values["group_confusion"])[np.asarray(values["group_of"], dtype=int)]
    if name == "item-subtypes":
        return np.einsum("jkml,km->jkl", SUBTYPED, np.tile([0.7, 0.3], (3, 1)))
    return values["confusion"]


@pytest.mark.slow
def test_crowd_mixture():
    """The crowd's matrix G, which is what the data speak of; and predictions, at few and at many annotators alike."""
    errors = []
    for train in (300, 2400):
        s = three_gaussians(seed=1, workers=300, train=train)
        posterior = quiet_fit(
            s.data,
            CrowdMixture(hidden=(16,), dropout=0.0, prior_correct=1.0, prior_incorrect=1.0),
            method="em",
            restarts=0,
        )
        G = np.einsum("m,mkl->kl", s.parameters["share"], s.parameters["confusion"])
        errors.append(np.abs(posterior.tree["posterior"]["crowd_confusion"].values[0, 0] - G).mean())
        right = (crowdppl.predict(posterior, s.features_test)["label"].to_numpy() == s.truth_test).mean()
        assert right > (0.86 if train == 300 else 0.90)
    assert errors[1] < min(0.04, errors[0])


@pytest.mark.slow
def test_conal():
    """The common matrix, and which annotations it made, in both halves of the paper's set; more data, less error."""
    errors, ranks = [], []
    for items in (250, 2000):
        s = common_and_individual(
            seed=3, items=items, workers=12, classes=3, common=0.5, common_strength=0.5, individual_strength=0.3,
            asymmetric=True, separation=3.0, dimensions=4,
        )  # fmt: skip
        model = CoNAL(hidden=(16,), dropout=0.0, prior_scale=0.5)
        posterior = quiet_fit(s.data, model, method="em", max_iter=15, batch_size=256)
        truth = posterior.truth()["label"].to_numpy()
        assert (truth == s.truth).mean() > (0.7 if items == 250 else 0.8)
        crowd = 0.5 * s.parameters["common"] + 0.5 * s.parameters["individual"]
        confusion = posterior.tree["posterior"]["confusion"].values[0, 0]
        errors.append(np.abs(confusion - crowd).mean())
        source = posterior.tree["annotation"]["source"].values
        at = np.flatnonzero(s.parameters["source"][: len(source)])
        ranks.append(source[at].mean() - np.delete(source, at).mean())
    assert errors[1] < errors[0] / 1.4
    assert errors[1] < 0.06
    assert ranks[1] > 0.05  # annotations from the common source are told apart from the others


@pytest.mark.slow
@pytest.mark.parametrize("difficulty", ["adaptive", "fixed"])
def test_two_coin_difficulty(difficulty):
    """Discriminations in their order and size, and the classifier, from the model's own simulation."""
    values = {"discrimination": np.tile(np.array([2.0, 6.0, 12.0, 24.0, 12.0, 6.0])[:, None], (1, 2))}
    errors = []
    for items in (200, 3200):
        rng = np.random.default_rng(5)
        x = rng.normal(size=(items, 2))
        model = TwoCoinDifficulty(difficulty)
        network = np.array([[-2.0, -1.0], [2.0, 1.0]])  # (out, in) of the linear classifier, then its biases
        values["classifier.weights"] = np.concatenate([network.reshape(-1), [0.0, 0.0]])
        data, truth, _ = crowdppl.simulate(
            model,
            np.repeat(np.arange(items), 6),
            np.tile(np.arange(6), items),
            classes=2,
            seed=5,
            parameters=values,
            features=x,
        )
        posterior = quiet_fit(data, model, **EM)
        assert (crowdppl.predict(posterior, x)["label"].to_numpy() == truth).mean() > 0.8
        slopes = posterior.tree["point"]["discrimination"].values
        errors.append(np.abs(np.log(np.clip(slopes, 0.1, None)) - np.log(values["discrimination"])).mean())
        means = slopes.mean(1)
        assert means[3] > means[1] > means[0] or items == 200
    if difficulty == "adaptive":  # the other takes mean votes for p: its lambda are of another scale
        assert errors[1] < min(0.35, errors[0] / 1.4)


def test_raykar_and_its_data():
    """Sensitivity and specificity of the experts; the classifier within a point of what the truth would teach."""
    errors = []
    for train in (200, 3200):
        s = two_gaussians(seed=2, train=train, labels="constant")
        posterior = quiet_fit(s.data, Raykar(), **EM)
        confusion = posterior.tree["posterior"]["confusion"].mean(("chain", "draw")).values
        wanted = np.stack([s.parameters["specificity"], s.parameters["sensitivity"]], -1)
        errors.append(np.abs(np.einsum("jkk->jk", confusion) - wanted).mean())
        best = ((s.features_test.sum(1) > 0) == s.truth_test).mean()
        right = (crowdppl.predict(posterior, s.features_test)["label"].to_numpy() == s.truth_test).mean()
        assert right > best - (0.03 if train == 200 else 0.012)
    assert errors[1] < min(0.02, errors[0] / 1.4)


@pytest.mark.slow
def test_lia():
    """Truth, and who is right on what: items never seen and, from their features, workers never seen."""
    rng = np.random.default_rng(0)
    N, J = 400, 40
    x, r = rng.normal(size=(N + 200, 2)), rng.normal(size=(J + 20, 1))
    truth = (x[:, 0] > 0).astype(int)
    # The better a worker's number, the more often right; the harder an item (small |x1|), the nearer to a coin.
    right = 1 / (1 + np.exp(-(1 + r[:, 0])[None, :] * (0.3 + np.abs(x[:, 1]))[:, None] * 2))  # (items, workers)
    item = np.repeat(np.arange(N), 6)
    worker = np.concatenate([rng.choice(J, 6, replace=False) for _ in range(N)])
    label = np.where(rng.random(len(item)) < right[item, worker], truth[item], 1 - truth[item])
    data = Annotations.from_arrays(item, worker, label, features=x[:N], workers=range(J), worker_features=r[:J])
    model = LIA(latent=2, embedding=4)
    posterior = quiet_fit(
        data, model, method="em", max_iter=8, steps=200, batch_size=400, fine_tune=200, learning_rate=3e-3
    )
    assert (posterior.truth()["label"].to_numpy() == truth[:N]).mean() > 0.9
    ask = data.unseen(x[N:], workers=r[J:])
    assert (crowdppl.predict(posterior, ask)["label"].to_numpy() == truth[N:]).mean() > 0.9
    probability = crowdppl.predict_correct(posterior, ask)["probability"].to_numpy().reshape(200, 20)
    # Correlation with the truth over pairs never seen; 4,000 pairs of 200 x 20: chance has a spread of .08.
    assert np.corrcoef(probability.mean(0), right[N:, J:].mean(0))[0, 1] > 0.8
    assert np.corrcoef(probability.reshape(-1), right[N:, J:].reshape(-1))[0, 1] > 0.5
    quality = crowdppl.predict_workers(posterior, ask)
    assert np.corrcoef(quality["accuracy"], right[N:, J:].mean(0))[0, 1] > 0.8
    seen = posterior.workers()
    assert np.corrcoef(seen["accuracy"], right[:N, :J].mean(0))[0, 1] > 0.8
