"""Each loss against a transcription in plain Python, and what every method of training must do."""

import math
import random

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import in_turn, quiet_fit

from crowdppl import Annotations, aggregate, learning
from crowdppl.data.synthetic import two_gaussians
from crowdppl.errors import DataError, OptionError
from crowdppl.learning import Training
from crowdppl.learning.crowd_layers import CrowdLayer
from crowdppl.learning.doctor_nets import DoctorNet
from crowdppl.learning.mutual_information import MaxMIG
from crowdppl.learning.targets import hardened
from crowdppl.learning.trace_penalty import TraceRegularization
from crowdppl.learning.two_stages import TwoStage

N, J, K, D = 5, 3, 3, 2
SHORT = Training(epochs=2)


@pytest.fixture
def tiny():
    """Annotations of five items, of which item 3 has none, in double precision."""
    rows = [(0, 0, 0), (0, 1, 2), (1, 0, 1), (1, 1, 1), (1, 2, 0), (2, 2, 2), (4, 0, 0), (4, 1, 1)]
    item, worker, label = zip(*rows, strict=True)
    data = Annotations.from_arrays(item, worker, label, labels=range(K), items=range(N), workers=range(J))
    return data.with_features(np.random.default_rng(0).normal(size=(N, D)))


def linear(outputs, inputs=D):
    """Return a linear network of random weights, without drawing from the global stream."""
    generator = torch.Generator().manual_seed(0)
    layer = torch.nn.utils.skip_init(torch.nn.Linear, inputs, outputs, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(outputs, inputs, generator=generator, dtype=torch.float64))
        layer.bias.copy_(torch.randn(outputs, generator=generator, dtype=torch.float64))
    return layer


def randomised(learner):
    """Give every parameter of a learner beside the classifier a random value."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, value in learner.double().named_parameters():
            if not name.startswith("classifier"):
                value.copy_(torch.randn(value.shape, generator=generator, dtype=torch.float64))
    return learner


def softmax(values):
    total = sum(math.exp(v) for v in values)
    return [math.exp(v) / total for v in values]


def outputs(learner, item):
    """Return the logits of an item, computed entry by entry."""
    layer, x = learner.classifier, learner.data.features[item].tolist()
    rows = zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
    return [sum(w * v for w, v in zip(row, x, strict=True)) + b for row, b in rows]


def annotations(data, batch):
    rows = zip(data.item.tolist(), data.worker.tolist(), data.label.tolist(), strict=True)
    return [row for row in rows if row[0] in batch]


BATCH = [4, 0, 1]


def same(learner, expected):
    assert learner.loss(torch.tensor(BATCH)).item() == pytest.approx(expected, abs=1e-10)


def test_loss_of_two_stages(tiny):
    target = torch.tensor(np.random.default_rng(1).dirichlet(np.ones(K), N))
    learner = TwoStage(tiny, linear(K), target)
    expected = 0.0
    for i in BATCH:
        p = softmax(outputs(learner, i))
        expected -= sum(t * math.log(q) for t, q in zip(target[i].tolist(), p, strict=True)) / len(BATCH)
    same(learner, expected)


@pytest.mark.parametrize("kind", ["MW", "VW", "VW+B"])
def test_loss_of_the_crowd_layer(tiny, kind):
    learner = randomised(CrowdLayer(tiny, linear(K), kind))
    maps, expected = learner.map.tolist(), 0.0
    for i, j, label in annotations(tiny, BATCH):
        f = softmax(outputs(learner, i))
        if kind == "MW":
            logits = [sum(f[k] * maps[j][k][c] for k in range(K)) for c in range(K)]
        else:
            logits = [f[c] * maps[j][c] + (learner.bias[j, c].item() if kind == "VW+B" else 0.0) for c in range(K)]
        expected -= math.log(softmax(logits)[label]) / len(BATCH)
    same(learner, expected)
    certain = softmax([maps[1][2][c] if kind == "MW" else 0.0 for c in range(K)])
    if kind == "MW":
        np.testing.assert_allclose(learner.confusion()[1, 2].tolist(), certain)


def test_loss_of_trace_regularization(tiny):
    learner = randomised(TraceRegularization(tiny, linear(K), penalty=0.3, start=2.0))
    A = [[softmax(row) for row in matrix] for matrix in learner.matrix.tolist()]
    expected = 0.3 * sum(A[j][k][k] for j in range(J) for k in range(K)) / J
    for i, j, label in annotations(tiny, BATCH):
        f = softmax(outputs(learner, i))
        expected -= math.log(sum(f[k] * A[j][k][label] for k in range(K))) / len(BATCH)
    same(learner, expected)


def test_losses_of_the_doctor_net(tiny):
    learner = randomised(DoctorNet(tiny, linear(J * K)))
    p = {i: [softmax(outputs(learner, i)[j * K : (j + 1) * K]) for j in range(J)] for i in BATCH}
    same(learner, -sum(math.log(p[i][j][label]) for i, j, label in annotations(tiny, BATCH)) / len(BATCH))
    learner.averaging = True
    w, expected = softmax(learner.log_weight.tolist()), 0.0
    for i in BATCH:
        given = [(j, label) for there, j, label in annotations(tiny, BATCH) if there == i]
        others = [j for j in range(J) if j not in {j for j, _ in given}] or list(range(J))
        total = sum(w[j] for j in others)
        mean = [sum(w[j] * p[i][j][k] for j in others) / total for k in range(K)]
        expected -= sum(math.log(mean[label]) for _, label in given) / len(given) / len(BATCH)
    same(learner, expected)


def test_loss_of_max_mig(tiny):
    shares = torch.tensor(np.array(aggregate.vote_shares(tiny).probability()))
    learner = MaxMIG(tiny, linear(K), shares)
    counts = np.full((J, K, K), 0.1)
    for i, j, label in annotations(tiny, range(N)):
        counts[j, :, label] += shares[i].numpy()
    np.testing.assert_allclose(learner.confusion().tolist(), counts / counts.sum(-1, keepdims=True))
    randomised(learner)
    p, W, f, g = learner.prevalence.tolist(), learner.matrix.tolist(), [], []
    np.testing.assert_allclose(p, shares[[0, 1, 2, 4]].mean(0).tolist())
    for i in BATCH:
        f.append(softmax(outputs(learner, i)))
        given = [(j, label) for there, j, label in annotations(tiny, BATCH) if there == i]
        g.append(softmax([learner.bias[k].item() + sum(W[j][k][label] for j, label in given) for k in range(K)]))
    m = [[sum(a[k] * b[k] / p[k] for k in range(K)) for b in g] for a in f]
    B = len(BATCH)
    joint = sum(1 + math.log(m[a][a]) for a in range(B)) / B
    marginal = sum(m[a][b] for a in range(B) for b in range(B) if a != b) / (B * (B - 1))
    same(learner, marginal - joint)


def methods():
    """Return all methods as functions of data and options."""
    return {
        "two_stage": lambda data, **o: learning.two_stage(data, aggregate.majority(data), **o),
        "hard": lambda data, **o: learning.two_stage(data, aggregate.majority(data), labels="hard", **o),
        **{m.__name__: m for m in learning.METHODS[2:]},
        "VW+B": lambda data, **o: learning.crowd_layer(data, kind="VW+B", **o),
        "equal": lambda data, **o: learning.doctor_net(data, averaging="equal", **o),
    }


@pytest.fixture(scope="module")
def crowd():
    return two_gaussians(seed=0, labels="constant")


@pytest.fixture(scope="module")
def ideal(crowd):
    """A classifier trained on the true classes."""
    return learning.on_truth(crowd.data, dict(zip(crowd.data.items.tolist(), crowd.truth, strict=True)), seed=1)


@pytest.mark.parametrize("name", in_turn(methods(), 3, night=False))
def test_learns_reproducibly_and_leaves_random_streams_alone(name, crowd, ideal):
    """The classes lie on two overlapping Gaussians: the best classifier is right in most cases, and each method gets near it."""
    state, own, there = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    one, two = (methods()[name](crowd.data, training=Training(epochs=20), seed=s) for s in (1, 1))
    assert torch.equal(state, torch.get_rng_state())
    assert own == random.getstate()
    assert (there == np.random.get_state()[1]).all()  # noqa: NPY002
    np.testing.assert_array_equal(one.probability(), two.probability())
    features, classes = crowd.features_test, crowd.data.labels[np.asarray(crowd.truth_test)]
    assert one.accuracy(features, classes) > ideal.accuracy(features, classes) - 0.05
    table = one.predict(features)
    np.testing.assert_allclose(one.probability(features).sum(1), 1, atol=1e-5)
    assert (table["label"].to_numpy() == classes).mean() == one.accuracy(features, classes)
    assert list(one.history["epoch"]) == list(range(1, 21))
    assert len(one.workers()) == crowd.data.J
    assert one.seconds > 0
    assert name.split("_")[0] in repr(one) or name in ("hard", "VW+B", "equal")


@pytest.mark.parametrize("name", methods())
@pytest.mark.parametrize("items", [65, 9, 3])
def test_normalisation_over_batches(name, items, crowd):
    """A last batch of one has no variance: what remains goes with the batch before."""
    data = crowd.data.batch(torch.arange(items))
    outputs = data.K * (data.J if name in ("doctor_net", "equal") else 1)
    network = torch.nn.Sequential(linear(4), torch.nn.BatchNorm1d(4, dtype=torch.float64), linear(outputs, 4))
    trained = methods()[name](
        data, network=network, training=Training(epochs=1, batch_size=8 if items > 3 else 2), seed=0
    )
    assert np.isfinite(trained.probability()).all()


def test_a_network_that_fails_on_a_batch_of_one(crowd):
    network = torch.nn.Sequential(linear(4), torch.nn.BatchNorm1d(4, dtype=torch.float64), linear(crowd.data.K, 4))
    with pytest.raises(OptionError, match=r"network fails on a batch of 1: .*raise batch_size"):
        learning.crowd_layer(crowd.data.batch(torch.arange(4)), network, training=Training(epochs=1, batch_size=1))


def test_a_network_of_ones_own_is_copied_and_keeps_its_type(crowd):
    network = linear(crowd.data.K, crowd.data.features.shape[1])
    before = network.weight.clone()
    trained = learning.crowd_layer(crowd.data, network, training=SHORT)
    assert torch.equal(before, network.weight)
    assert trained.learner.classifier.weight.dtype == torch.float64
    assert not torch.equal(before, trained.learner.classifier.weight)


def test_the_best_epoch_on_validation_items_is_kept(crowd):
    held_out = crowd.features_test, crowd.data.labels[np.asarray(crowd.truth_test)]
    long = Training(epochs=30, patience=3, learning_rate=0.05)
    trained = learning.max_mig(crowd.data, validation=held_out, training=long)
    best = trained.history["accuracy"].to_numpy()
    assert trained.accuracy(*held_out) == best.max()
    assert len(best) < 30
    assert len(best) == best.argmax() + 1 + 3


def test_embeddings_smooth_the_labels_of_their_own_items(tiny):
    bare = (
        tiny.with_features(None)
        if tiny.features is None
        else Annotations.from_arrays(
            tiny.item.tolist(),
            tiny.worker.tolist(),
            tiny.label.tolist(),
            labels=range(K),
            items=range(N),
            workers=range(J),
        )
    )
    trained = learning.two_stage(bare, aggregate.vote_shares(bare), embedding=4, training=Training(epochs=300))
    assert trained.truth()["label"].iloc[1] == 1
    with pytest.raises(DataError, match="cannot predict others"):
        trained.predict(np.zeros((1, D)))
    with pytest.raises(OptionError, match="no embedding"):
        learning.two_stage(bare, aggregate.majority(bare), embedding=4, validation=(np.zeros((1, D)), [0]))
    with pytest.raises(DataError, match="item features"):
        learning.crowd_layer(bare)


def test_targets_of_fits_votes_and_arrays(tiny):
    fitted = quiet_fit(tiny, "dawid-skene", method="em")
    by_fit = learning.two_stage(tiny, fitted, training=SHORT)
    np.testing.assert_allclose(by_fit.learner.target[[0, 1, 2, 4]], fitted.probability()[[0, 1, 2, 4]], atol=1e-6)
    assert by_fit.learner.units.tolist() == [0, 1, 2, 4]  # nothing is known of item 3
    rows = np.eye(K)[[0, 1, 2, 0, 1]]
    np.testing.assert_array_equal(learning.two_stage(tiny, rows, training=SHORT).learner.target, rows)
    with pytest.raises(DataError, match="add up to 1"):
        learning.two_stage(tiny, rows / 2)
    with pytest.raises(DataError, match="probabilities of 5 items"):
        learning.two_stage(tiny, rows[:4])
    with pytest.raises(DataError, match="not those of the data"):
        learning.two_stage(tiny, aggregate.majority(two_gaussians(seed=0, labels="constant").data))


def test_ties_are_broken_at_random_with_equal_chances():
    """400 ties of two: a count outside 160..240 has a chance of 5e-5."""
    hard = hardened(torch.tensor([[0.4, 0.4, 0.2]]).repeat(400, 1), seed=0)
    assert hard.sum(0)[2] == 0
    assert 160 < hard.sum(0)[0] < 240
    assert hardened(torch.zeros(1, 3), seed=0).tolist() == [[0, 0, 0]]


def labelled(accuracies):
    """Return 600 items of two linearly separable classes, each labelled by four of the workers of these accuracies."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 4))
    truth = (x[:, 0] > 0).astype(int)
    rows = [
        (i, j, truth[i] if rng.random() < accuracies[j] else 1 - truth[i])
        for i in range(600)
        for j in rng.choice(len(accuracies), 4, replace=False)
    ]
    item, worker, label = zip(*rows, strict=True)
    return Annotations.from_arrays(item, worker, label, items=range(600)).with_features(x)


@pytest.mark.parametrize("method", [learning.trace_regularization, learning.max_mig])
def test_workers_who_guess_have_the_lowest_accuracies(method):
    trained = method(labelled([0.95] * 5 + [0.5] * 5), training=Training(epochs=60, learning_rate=0.01))
    accuracy = trained.workers().set_index("worker")["accuracy"].sort_index()
    assert accuracy.iloc[:5].min() > accuracy.iloc[5:].max()
    cells = trained.confusion()
    assert len(cells) == 10 * 4
    np.testing.assert_allclose(cells.groupby(["worker", "truth"])["probability"].sum(), 1, atol=1e-5)
    assert trained.confusion(3).equals(cells[cells["worker"] == 3].drop(columns="worker").reset_index(drop=True))
    with pytest.raises(DataError, match="is not one of these data"):
        trained.confusion("nobody")


def test_learned_weights_predict_the_labels_better_than_equal_ones():
    learner = learning.doctor_net(labelled([0.95] * 7 + [0.05] * 3), training=Training(epochs=30)).learner
    assert learner.weights().sum().item() == pytest.approx(1, abs=1e-5)
    learned = learner.loss(learner.units).item()
    with torch.no_grad():
        learner.log_weight.zero_()
    assert learned < learner.loss(learner.units).item() - 1e-4
    with pytest.raises(DataError, match="no confusion matrices"):
        learning.doctor_net(labelled([0.9] * 4), training=SHORT).confusion()


def test_networks_that_do_not_fit_are_refused_in_one_line(tiny):
    for network, message in (
        (linear(K, D + 1), "network fails on inputs of the shape"),
        (linear(K + 1), r"must give \(2, 3\)"),
        (lambda _inputs, _outputs: 3, "must return a torch.nn.Module"),
        (3, "network=3"),
    ):
        with pytest.raises(OptionError, match=message) as caught:
            learning.max_mig(tiny, network, training=SHORT)
        assert "\n" not in str(caught.value)
    with pytest.raises(OptionError, match="patience"):
        learning.max_mig(tiny, training=Training(patience=2))
    with pytest.raises(OptionError, match="epochs"):
        Training(epochs=0)
    with pytest.raises(DataError, match="1 rows of features, but 2 classes"):
        learning.max_mig(tiny, validation=(pd.DataFrame(np.zeros((1, D))), [0, 1]))
