"""Likelihoods of the papers' models at random parameters, by the papers' numbered equations in plain Python, to 1e-8.

Those of difficulty times competence, the crowd mixture, and two coins with difficulty stand with the tests of these models.
"""

import math

import pytest
import torch
from catalog import tiny
from plain import layers, perceptron, softmax, standard, unit

from crowdppl.data.synthetic import two_gaussians
from crowdppl.isolation import isolated
from crowdppl.model.bound import bind
from crowdppl.model.program import unknowns
from crowdppl.models import CoNAL, DawidSkene, Raykar


def annotations(data):
    """Item, worker and label of every annotation."""
    return list(zip(data.item.tolist(), data.worker.tolist(), data.label.tolist(), strict=True))


def at_random(model, data):
    """Return the model bound to data, what its prior draws, the parameters, and the log-likelihood of every item."""
    with isolated(5), torch.no_grad():
        bound = bind(model, data)
        layout = bound.expand(data)
        values = unknowns(bound, layout)
        parameters, _ = bound.conditioned(values, layout)
        joint = bound.item_log_joint(parameters, layout)
        assert joint.dtype == torch.float64
        return bound, values, parameters, torch.logsumexp(joint, -1).tolist()


@pytest.mark.parametrize("learned_scale", [False, True])
@pytest.mark.parametrize("truths", ["item", "annotation"])
def test_common_and_individual_noise(truths, learned_scale):
    """Chu et al.: rows of equation (1), sources of equation (3) from unit embeddings; a truth an item, or an annotation."""
    data = tiny(4)
    model = CoNAL(truths, embedding=3, hidden=(4,), prior_scale=1.0, learned_scale=learned_scale)
    bound, values, _, ours = at_random(model, data)
    x = standard(data.features.tolist())
    ((W, b),) = layers(bound, values, "items")
    embeddings = bound.networks.views("workers", values["workers.weights"])["weight"].tolist()
    scale = float(values["scale"]) if learned_scale else 1.0
    f = [softmax(perceptron(layers(bound, values, "classifier"), row)) for row in x]
    G, R = values["common"].tolist(), values["individual"].tolist()

    def row(i, j, k, y):
        v, u = unit(perceptron([(W, b)], x[i])), unit(embeddings[j])
        omega = 1 / (1 + math.exp(-scale * sum(one * other for one, other in zip(u, v, strict=True))))
        return omega * G[k][y] + (1 - omega) * R[j][k][y]

    given = annotations(data)
    if truths == "item":
        expected = [
            sum(f[i][k] * math.prod(row(i, j, k, y) for at, j, y in given if at == i) for k in range(data.K))
            for i in range(data.N)
        ]
    else:
        expected = [sum(f[i][k] * row(i, j, k, y) for k in range(data.K)) for i, j, y in given]
    assert sorted(ours) == pytest.approx(sorted(map(math.log, expected)), abs=1e-8)
    assert sum(ours) == pytest.approx(sum(map(math.log, expected)), abs=1e-8)


def test_learning_from_crowds():
    """Raykar et al., the original EM: ``a_i p_i + b_i (1 - p_i)``, a and b from sensitivity and specificity, p logistic."""
    data = two_gaussians(seed=1, train=12).data
    bound, values, parameters, ours = at_random(Raykar(), data)
    x = standard(data.features.tolist())
    confusion = parameters["confusion"].tolist()
    for i in range(data.N):
        zero, one = perceptron(layers(bound, values, "classifier"), x[i])
        p = 1 / (1 + math.exp(zero - one))
        a = b = 1.0
        for j, y in ((j, y) for at, j, y in annotations(data) if at == i):
            alpha, beta = confusion[j][1][1], confusion[j][0][0]
            a *= alpha**y * (1 - alpha) ** (1 - y)
            b *= beta ** (1 - y) * (1 - beta) ** y
        assert ours[i] == pytest.approx(math.log(a * p + b * (1 - p)), abs=1e-8)


def test_dawid_and_skene():
    """Dawid and Skene (1979), equation (2.7): over classes, the prevalence times the products of the error rates."""
    data = tiny(4)
    _, _, parameters, ours = at_random(DawidSkene(), data)
    p, pi = parameters["prevalence"].tolist(), parameters["confusion"].tolist()
    counts = [[[0] * data.K for _ in range(data.J)] for _ in range(data.N)]
    for i, j, y in annotations(data):
        counts[i][j][y] += 1
    for i in range(data.N):
        terms = [
            p[k] * math.prod(pi[j][k][y] ** counts[i][j][y] for j in range(data.J) for y in range(data.K))
            for k in range(data.K)
        ]
        assert ours[i] == pytest.approx(math.log(sum(terms)), abs=1e-8)
