"""Gibbs sampling where truths depend on each other, some sites have a conditional and the others move along gradients."""

from functools import partial

import numpy as np
import pandas as pd
import pyro
import pytest
import torch
from catalog import quiet_fit
from pyro.distributions import Beta, Categorical, Normal
from scipy.special import expit

import crowdppl
from crowdppl.inference.backends.gradients import density, plain_density
from crowdppl.inference.engines.unconstrained import Space
from crowdppl.isolation import isolated
from crowdppl.model.bound import bind
from crowdppl.model.chains import Chain, marginals
from crowdppl.model.contract import check


class Persistent(crowdppl.AnnotationModel):
    """Two classes along sequences: the next token has the same one with log odds ``stay``; all workers have one accuracy."""

    def prior(self, data, plates):
        return {"correct": pyro.sample("correct", Beta(16.0, 4.0)), "stay": pyro.sample("stay", Normal(0.5, 1.0))}

    def coupling(self, parameters, data):
        stay = parameters["stay"][..., None, None]
        eye = torch.eye(2)
        same, other = (torch.nn.functional.logsigmoid(sign * stay) for sign in (1, -1))
        return Chain(
            torch.full_like(stay[..., 0], 0.5).expand(*stay.shape[:-2], 2).log(), same * eye + other * (1 - eye)
        )

    def truth(self, parameters, data):
        return Categorical(marginals(self.coupling(parameters, data), data))

    def confusion(self, parameters, data):
        correct = parameters["correct"][..., None, None, None]
        table = correct * torch.eye(2) + (1 - correct) * (1 - torch.eye(2))
        return table.expand(*correct.shape[:-3], data.J, 2, 2)

    def emission(self, parameters, data):
        return Categorical(self.confusion(parameters, data)[data.worker])

    def conjugate_counts(self, statistics, data):
        counts = statistics.label_counts.sum(-3)
        right = counts.diagonal(dim1=-2, dim2=-1).sum(-1)
        return {"correct": torch.stack([right, counts.sum((-2, -1)) - right], -1)}


def tokens(seed=0, sequences=4, length=3, workers=3):
    """Return annotations of tokens that mostly have the class of the one before."""
    rng = np.random.default_rng(seed)
    rows = []
    for s in range(sequences):
        state = rng.integers(2)
        for t in range(length):
            state = state if rng.random() < 0.8 else 1 - state
            rows += [(s, t, w, state if rng.random() < 0.75 else 1 - state) for w in range(workers)]
    frame = pd.DataFrame(rows, columns=["text", "at", "worker", "label"])
    return crowdppl.Annotations.from_frame(frame, sequence="text", position="at", labels=[0, 1])


def by_integration(data, correct, stay):
    """Return weights of the posterior on a grid ``(P, Q)``, and probabilities of class 1 there, by recursions."""
    p, q = correct[:, None], expit(stay)[None, :]
    log = np.log(p**15 * (1 - p) ** 3) - (stay[None, :] - 0.5) ** 2 / 2  # Beta(16, 4), Normal(0.5, 1)
    item, label = data.item.numpy(), data.label.numpy()
    begins = ~data.following.numpy()
    ones, given = np.bincount(item, label == 1, data.N), np.bincount(item, minlength=data.N)
    like = [[p ** (n - k) * (1 - p) ** k * np.ones_like(q), p**k * (1 - p) ** (n - k) * np.ones_like(q)]
            for n, k in zip(given, ones, strict=True)]  # fmt: skip
    move = lambda a: np.stack([q * a[0] + (1 - q) * a[1], (1 - q) * a[0] + q * a[1]])  # noqa: E731 - the chain is symmetric
    forward, total = [], 0.0
    for i in range(data.N):
        before = np.full((2, *log.shape), 0.5) if begins[i] else move(forward[-1])
        joint = before * np.stack(like[i])
        total = total + np.log(joint.sum(0))
        forward.append(joint / joint.sum(0))
    backward = [np.ones((2, *log.shape))] * data.N
    for i in range(data.N - 2, -1, -1):
        if not begins[i + 1]:
            after = move(backward[i + 1] * np.stack(like[i + 1]))
            backward[i] = after / after.sum(0)
    weight = np.exp(log + total - (log + total).max())
    both = np.stack(forward) * np.stack(backward)
    return weight / weight.sum(), both[:, 1] / both.sum(1)


@pytest.mark.parametrize(
    ("method", "chains"), [("gibbs", 2), *(pytest.param(one, 4, marks=pytest.mark.slow) for one in ("gibbs", "nuts"))]
)
def test_a_chain_with_sites_of_both_kinds(method, chains):
    """Means and standard deviations from 250 effective draws of four chains: bounds are four standard errors; three of two."""
    data = tokens()
    bound = bind(Persistent(), data)
    assert bound.truths.coupled
    assert bound.sites_with_conditionals(bound.expand(data)) == {"correct"}
    crowdppl.check_contract(Persistent(), data)
    options = {"chains": chains, "warmup": 100, "num_samples": 300}
    posterior = quiet_fit(data, Persistent(), method=method, seed=1, independent=True, **options)
    assert posterior.info["backend"] == ("gradients" if method == "gibbs" else "torch")
    correct, stay = (np.arange(300) + 0.5) / 300, np.linspace(-4, 6, 401)
    weight, ones = by_integration(data, correct, stay)
    draws = posterior.tree["posterior"]
    for name, grid, axis in (("correct", correct, 1), ("stay", stay, 0)):
        share = weight.sum(axis)
        mean = (share * grid).sum()
        spread = np.sqrt((share * (grid - mean) ** 2).sum())
        assert float(draws[name].mean()) == pytest.approx(mean, abs=0.25 * spread)
        assert float(draws[name].std()) == pytest.approx(spread, rel=0.2)
    np.testing.assert_allclose(posterior.tree["truth"]["probability"][:, 1], (weight * ones).sum((1, 2)), atol=0.03)


def test_large_counts_are_mapped():
    """Data whose counts are a compressed matrix are sampled as small data are, by mapped functions."""
    data = tokens(sequences=40, length=6, workers=40)
    with isolated(0, dtype=torch.float64), pyro.validation_enabled(False):
        bound = bind(Persistent(), data)
        expanded = bound.expand(data)
        assert not expanded.counts.dense
        space = Space(check(bound, expanded))
        one = partial(density, bound, expanded, space, fixed={})
        places = torch.tensor([[0.8, 1.0], [0.3, -0.5]], dtype=torch.float64)
        values, slopes = torch.vmap(one)(places)
        plain = [plain_density(bound, expanded, space, place, {}) for place in places]
    torch.testing.assert_close(values, torch.stack([value for value, _ in plain]), rtol=1e-12, atol=1e-9)
    torch.testing.assert_close(slopes, torch.stack([slope for _, slope in plain]), rtol=1e-9, atol=1e-9)
