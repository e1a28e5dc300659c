"""Sizes and shapes at the edge, for every model and engine that takes them."""

import numpy as np
import pytest
import torch
from catalog import CASES, SHORT, draws_whole_counts, in_turn, quiet_fit, rotated, simulated

from crowdppl import Annotations
from crowdppl.isolation import isolated
from crowdppl.model.bound import bind
from crowdppl.models import ClassConditional, DawidSkene, MajorityVote, OneCoin, Pooled

A = Annotations.from_arrays
ODD = {
    "one annotation": A(["a"], ["w"], [1], labels=[0, 1]),
    "one item": A(["a"] * 3, ["u", "v", "w"], [1, 1, 0]),
    "one worker": A(list("abc"), ["w"] * 3, [1, 1, 0]),
    "all agree": A(list("aabb"), list("uvuv"), [1, 1, 1, 1], labels=[0, 1]),
    "nobody uses a class": A(list("aabb"), list("uvuv"), [1, 0, 1, 1], labels=[0, 1, 2]),
    "never overlap": A(list("aabb"), list("uvwx"), [1, 1, 0, 1]),
    "nobody and nothing": A(list("aabb"), list("uvuv"), [1, 0, 1, 1], items=list("abz"), workers=list("uvz")),
    "weights": A(list("aabbcc"), list("uvuvuv"), [1, 0, 1, 1, 0, 0]).with_weights([1e-12, 1 - 1e-12, 0.0]),
}
SLOWLY = {"nuts", "svi"}
QUICKLY = {"em": {"max_iter": 10, "num_samples": 10}, "gibbs": {"warmup": 5, "num_samples": 10}}


@pytest.mark.parametrize(("case", "method", "kind"), rotated(list(ODD), every=5, nightly=True))
def test_odd_shapes(case, method, kind):
    """Every model and engine gives finite numbers, an answer for every item and a row for every worker."""
    plain = ODD[kind]
    if case.classes == 2 and plain.K > 2:
        pytest.skip("a model for two classes")
    if plain.weight is not None and method == "gibbs" and draws_whole_counts(case.model):
        pytest.skip("refused, see test_oracle")
    data = plain.with_features(np.random.default_rng(0).normal(size=(plain.N, 2)))
    options = SHORT[method] if method in SLOWLY else QUICKLY[method]
    if method == "em" and not case.rises:
        options = options | {"steps": 5, "fine_tune": 0}
    posterior = quiet_fit(data, case.model, method=method, **options)
    assert np.isfinite(posterior.tree["log_likelihood"]["labels"]).all()
    truth, workers = posterior.truth(), posterior.workers()
    assert len(truth) == data.N
    assert len(workers) == data.J
    assert np.isfinite(truth["probability"]).all()
    # Under flat priors nothing tells a sampler which class is which. In minimax entropy nothing ever does, but where EM starts,
    # and four labels are too few to stay there.
    caught = method == "em" or (method == "gibbs" and not case.name.endswith("-flat"))
    if kind == "all agree" and caught and not posterior.networks and case.name != "minimax-entropy":
        assert set(truth["label"]) == {1}


THOUSAND = [DawidSkene(), MajorityVote(), ClassConditional(), OneCoin(), Pooled()]


@pytest.mark.slow
@pytest.mark.parametrize("model", THOUSAND, ids=lambda m: type(m).__name__)
def test_a_thousand_classes(model):
    """Three workers, 1,500 items, K = 1,000: where two of three agree the truth is what they say."""
    K, N = 1000, 1500
    rng = np.random.default_rng(0)
    truth = rng.integers(0, K, N)
    label = np.where(rng.random((N, 3)) < 0.8, truth[:, None], rng.integers(0, K, (N, 3)))
    data = A(np.repeat(np.arange(N), 3), np.tile(["u", "v", "w"], N), label.reshape(-1), labels=range(K))
    posterior = quiet_fit(data, model, method="em", max_iter=10, num_samples=2)
    votes = data.votes.numpy()
    actual = posterior.tree["truth"]["probability"].values.argmax(1)
    agreed = votes.max(1) >= 2
    assert (actual[agreed] == votes.argmax(1)[agreed]).mean() > 0.995
    assert len(posterior.workers()) == 3


@pytest.mark.slow
def test_a_million_annotations_by_one_worker():
    """Beside three who judge 1,000 items each: their interval stays wide, the busy one's is narrow and lies where it should."""
    N = 1_000_000
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, N)
    item = np.concatenate([np.arange(N), *[np.arange(1000)] * 3])
    right = np.concatenate([np.full(N, 0.9), np.full(3000, 0.8)])
    label = np.where(rng.random(len(item)) < right, truth[item], 1 - truth[item])
    data = A(item, np.concatenate([np.zeros(N, int), np.repeat([1, 2, 3], 1000)]), label)
    for method, options in (("em", {"num_samples": 40}), ("gibbs", {"chains": 1, "warmup": 10, "num_samples": 40})):
        workers = quiet_fit(data, "dawid-skene", method=method, **options).workers().set_index("worker")
        width = workers["accuracy_high"] - workers["accuracy_low"]
        assert width[0] < width[[1, 2, 3]].min()
        assert workers["accuracy"][0] == pytest.approx(0.9, abs=0.06)
        assert workers["accuracy"][1] == pytest.approx(0.8, abs=0.06)


@pytest.mark.parametrize("case", in_turn([c for c in CASES if {"em", "gibbs"} <= set(c.methods)], 3))
def test_float32_responsibilities(case):
    """At the same parameters, 20,000 annotations: probabilities within 5e-4 of float64's, the log-likelihood within 2e-6."""
    data, _, _ = simulated(items=4000, workers=200, per_item=5, classes=case.classes, seed=2)
    actual = {}
    for dtype in (torch.float64, torch.float32):
        placed = data.to(dtype=dtype)
        with isolated(0, dtype=dtype), torch.no_grad():
            model = bind(case.model, placed)
            start = model.initial(placed)
            joint, _ = model.log_density(model.m_step(start, placed), placed)
            actual[dtype] = (joint.softmax(-1).double(), float(torch.logsumexp(joint, -1).sum(dtype=torch.float64)))
    one, two = actual.values()
    assert float((one[0] - two[0]).abs().max()) < 5e-4
    assert two[1] == pytest.approx(one[1], rel=2e-6)


@pytest.mark.parametrize("exponent", [-14, -6, 0])
def test_weights_near_zero_and_one(exponent):
    """A weight that is nearly nothing leaves the prior, one that is nearly one the plain result: no jump at either end."""
    data, _, _ = simulated(items=60, seed=5)
    small = 10.0**exponent
    plain = quiet_fit(data, DawidSkene(), method="em", num_samples=2, tol=1e-13)
    near_one = quiet_fit(
        data.with_weights(np.full(data.N, 1 - small * 1e-3)), DawidSkene(), method="em", num_samples=2, tol=1e-13
    )
    apart = np.abs(plain.tree["truth"]["probability"] - near_one.tree["truth"]["probability"])
    assert float(apart.max()) < 0.2 * small**0.5 * 0.05 + 1e-4
    if exponent < 0:
        near_none = quiet_fit(
            data.with_weights(np.full(data.N, small)), DawidSkene(), method="em", num_samples=2, max_iter=5
        )
        prevalence = near_none.tree["point"]["prevalence"].values
        np.testing.assert_allclose(
            near_none.tree["truth"]["probability"], np.tile(prevalence, (data.N, 1)), atol=1e3 * small
        )
