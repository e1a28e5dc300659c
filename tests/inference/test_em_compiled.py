"""Compiled steps of EM are the steps in torch."""

import numpy as np
import pyro
import pytest
import torch
from catalog import crowded, in_turn, prepared, quiet_fit, simulated

from crowdppl.inference.backends import choose, em_steps
from crowdppl.inference.backends.expectation import CompiledExpectation, TorchExpectation
from crowdppl.inference.engines.m_step import MStep
from crowdppl.inference.engines.unconstrained import Space
from crowdppl.isolation import isolated, pool
from crowdppl.model import logit_rows_mode, weighted_votes
from crowdppl.model.contract import check
from crowdppl.model.program import prior_draws
from crowdppl.model.site_priors import log_priors
from crowdppl.models import ItemEffects

MODELS = {
    "item effects": ItemEffects(strengths=(1.5, 2.5), anchoring=0.0),
    "item effects, anchored": ItemEffects(strengths=(1.5,)),
}


@pytest.fixture(autouse=True)
def small_data(monkeypatch):
    """Take compiled steps however few annotations there are."""
    monkeypatch.setattr(choose, "E_STEP", 0)


def steps(model, data):
    m_step = MStep(model, data, Space(check(model, data)))
    m_step.closed = True
    compiled = choose.expectation(m_step)
    assert isinstance(compiled, CompiledExpectation)
    return compiled, TorchExpectation(m_step)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_first_m_step(classes):
    """Which learns the crowd's competence by empirical Bayes, from responsibilities."""
    with isolated(3), torch.inference_mode():
        model, data = prepared(MODELS["item effects, anchored"], crowded(classes))
        compiled, in_torch = steps(model, data)
        start = model.initial(data)
        ours, wanted = compiled.begin(start), in_torch.begin(start)
        assert set(ours) == set(wanted)
        for site, value in wanted.items():
            torch.testing.assert_close(ours[site], value, rtol=1e-8, atol=1e-9, msg=site)


@pytest.mark.parametrize("classes", [2, 3])
def test_weights_of_votes(monkeypatch, classes):
    """Compiled steps learn the weights of those in torch, also where true labels are known."""
    monkeypatch.setattr(weighted_votes, "COMPILED", 0)
    data = crowded(classes)
    assert bool((data.truth >= 0).any())
    kernel, start = weighted_votes._kernel(), data.majority()
    assert kernel is not None
    ours = list(weighted_votes._learned(data, start))
    monkeypatch.setattr(weighted_votes, "COMPILED", data.A + 1)
    wanted = list(weighted_votes._learned(data, start))
    assert len(ours) == len(wanted) > 3
    torch.testing.assert_close(torch.stack(ours), torch.stack(wanted), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("ranges", [1, 3])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", list(MODELS))
def test_both_steps(monkeypatch, name, classes, ranges):
    """The log posterior and the parameters after the M step, also where products underflow and a truth is known."""
    monkeypatch.setattr(em_steps, "SHARE", 1 if ranges > 1 else 10**9)
    monkeypatch.setattr(em_steps, "RANGES", ranges)
    data = crowded(classes)
    with isolated(3), torch.inference_mode():
        model, data = prepared(MODELS[name], data)
        compiled, in_torch = steps(model, data)
        assert len(compiled.steps.size) == ranges
        for theta in [{site: value[0] for site, value in prior_draws(model, data, 1).items()} for _ in range(4)]:
            lp, ll, expected = compiled(compiled.point(theta))
            ours = compiled.sites(compiled.maximise(expected, compiled.point(theta)))
            wanted_lp, wanted_ll, responsibility = in_torch(theta)
            wanted = in_torch.maximise(responsibility, theta)
            np.testing.assert_allclose([lp, ll], [wanted_lp, wanted_ll], rtol=1e-10)
            assert set(ours) == set(wanted)
            for site, value in wanted.items():
                torch.testing.assert_close(ours[site], value, rtol=1e-8, atol=1e-9, msg=site)


def test_a_step_that_overshoots_is_shortened():
    """Far from the mode, where the first lengths of the Newton steps lower the log joint."""
    data = simulated(items=80, seed=2, per_item=6)[0]
    with isolated(5), torch.inference_mode():
        model, data = prepared(MODELS["item effects"], data)
        compiled, in_torch = steps(model, data)
        for seed in range(6):
            torch.manual_seed(seed)
            theta = {site: value[0] for site, value in prior_draws(model, data, 1).items()}
            theta["deviations"] = 8 * theta["deviations"]
            theta["preferences"] = 6 * theta["preferences"]
            point = compiled.point(theta)
            ours = compiled.sites(compiled.maximise(compiled(point)[2], point))
            wanted = in_torch.maximise(in_torch(theta)[2], theta)
            for site, value in wanted.items():
                torch.testing.assert_close(ours[site], value, rtol=1e-7, atol=1e-7, msg=site)


EXTREME = [
    {"deviation": 1e7},
    {"deviation": 1e-9},
    {"preference": 1e9},
    {"preference": 1e8, "crowd": 1e8, "deviation": 1e8},
    {"deviation": 1e3},
]


@pytest.mark.parametrize("scales", in_turn(EXTREME, len(EXTREME), lambda one: str(one[0]), night=False))
def test_extreme_scales_converge(monkeypatch, scales):
    """To a log posterior about as high as that of steps of each parameter alone, though matrices cannot be factorised."""
    data, model = simulated(items=60, seed=2, per_item=4)[0], ItemEffects(**scales)
    options = {"method": "em", "num_samples": 2}
    facts = [quiet_fit(data, model, **options).info["facts"]]
    monkeypatch.setattr(choose, "E_STEP", 10**18)
    facts += [quiet_fit(data.to(dtype=dtype), model, **options).info["facts"] for dtype in (data.dtype, torch.float32)]
    monkeypatch.setattr(logit_rows_mode, "_newton_workers", logit_rows_mode._begin_workers)
    alone = quiet_fit(data, model, **options).info["facts"]["log_posterior"]
    for way, one in zip(["compiled", "torch", "torch in float32"], facts, strict=True):
        assert one["converged"], way
        assert one["log_posterior"] > alone - 2e-2 * abs(alone), way


@pytest.mark.parametrize("in_torch", [False, True])
def test_a_step_that_is_not_a_number_is_not_taken(in_torch):
    """A Newton step of singular matrices leaves finite parameters, and the expected log joint does not fall."""
    data = simulated(items=60, seed=2, per_item=4)[0]
    with isolated(5), torch.inference_mode():
        model, data = prepared(ItemEffects(strengths=(1.5,), preference=1e8, crowd=1e8, deviation=1e8), data)
        way = steps(model, data)[in_torch]
        theta = way.point(way.begin(model.initial(data)))
        values = []
        for _ in range(20):
            lp, _, expected = way(theta)
            values.append(lp)
            theta = way.maximise(expected, theta)
            assert all(bool(value.isfinite().all()) for value in way.sites(theta).values())
        assert np.diff(values).min() > -1e-9 * abs(values[-1])
        assert values[-1] > values[0] + 1


def test_steps_rise_to_the_mode():
    """The expected log joint never falls, and its derivatives vanish, but by what the first M step alone learns."""
    data = simulated(items=60, seed=2, per_item=4)[0]
    with isolated(5):
        model, data = prepared(MODELS["item effects"], data)
        r = torch.distributions.Dirichlet(torch.ones(data.N, model.states, dtype=torch.float64)).sample()

        def objective(parameters):
            return (r * model.item_log_joint(parameters, data)).sum() + model.log_prior(parameters, data)

        with torch.no_grad():
            now = model.m_step(r, data)
            values = [float(objective(now))]
            for _ in range(200):
                now = model.m_step(r, data, now)
                values.append(float(objective(now)))
        assert np.diff(values).min() > -1e-9
        free = ("competence", "preferences", "crowd_confusion", "deviations")
        leaves = {name: now[name].clone().requires_grad_() for name in free}
        slopes = torch.autograd.grad(objective(now | leaves), list(leaves.values()))
        assert max(float(slope.abs().max()) for slope in slopes) < 1e-6


def test_log_priors_of_sites_are_those_of_the_prior():
    """As the Pyro program has them, of several draws."""
    data = simulated(items=20, seed=2, per_item=4)[0]
    with isolated(5), torch.no_grad():
        model, data = prepared(MODELS["item effects"], data)
        draws = prior_draws(model, data, 3)
        ours = log_priors(model, draws, {}, data)
        for d in range(3):
            conditioned = pyro.poutine.condition(model.prior, data={name: value[d] for name, value in draws.items()})
            trace = pyro.poutine.trace(conditioned).get_trace(data, model.plates(data))
            trace.compute_log_prob()
            assert set(ours) == {name for name in trace.nodes if name in draws}
            for name, value in ours.items():
                torch.testing.assert_close(value[d], trace.nodes[name]["log_prob"], rtol=1e-10, atol=1e-10, msg=name)


def test_the_point_is_that_of_torch(monkeypatch):
    """Of the same steps: extrapolated as in torch, since other ones end elsewhere within the tolerance."""
    monkeypatch.setattr(CompiledExpectation, "memory", TorchExpectation.memory)
    data = simulated(items=60, seed=2, per_item=4)[0]
    ours = quiet_fit(data, "item-effects", method="em", seed=1, num_samples=5)
    monkeypatch.setattr(choose, "_em_step", lambda *_: None)
    wanted = quiet_fit(data, "item-effects", method="em", seed=1, num_samples=5)
    np.testing.assert_allclose(ours.probability(), wanted.probability(), atol=1e-5)
    np.testing.assert_allclose(ours.info["facts"]["log_posterior"], wanted.info["facts"]["log_posterior"], rtol=1e-8)


def test_the_point_does_not_depend_on_threads(monkeypatch):
    data = simulated(items=60, seed=2, per_item=4)[0]
    monkeypatch.setattr(em_steps, "SHARE", 1)
    points = []
    for threads in (1, 3):
        monkeypatch.setattr(pool, "threads_outside", lambda threads=threads: threads)
        points.append(quiet_fit(data, "item-effects", method="em", seed=1, num_samples=5).tree["point"])
    for name, value in points[0].data_vars.items():
        np.testing.assert_array_equal(value, points[1][name])


def test_where_they_are_not_taken(monkeypatch):
    """Data of float32, with weights, or few annotations are left to torch."""
    data = simulated(items=20, seed=2, per_item=4)[0]
    with isolated(0), torch.inference_mode():
        model, arranged = prepared(MODELS["item effects"], data)
        assert choose._em_step(model, arranged) is not None
        assert choose._em_step(model, arranged.to(dtype=torch.float32)) is None
        weighted = data.with_weights(np.linspace(0.5, 1, data.N))
        assert choose._em_step(model, weighted) is None
        monkeypatch.setattr(choose, "E_STEP", 10**5)
        assert choose._em_step(model, arranged) is None


def test_gradients_after_inference_mode():
    """What is computed once for all fits serves fits with gradients, also if the first one was in inference mode."""
    data = simulated(items=20, seed=2, per_item=4)[0]
    model = ItemEffects(strengths=(1.25,))  # of no other test
    with isolated(0):
        with torch.inference_mode():
            bound, arranged = prepared(model, data)
        values = {site: value[0].clone().requires_grad_() for site, value in prior_draws(bound, arranged, 1).items()}
    joint = bound.item_log_joint(values, arranged)
    (slope,) = torch.autograd.grad(joint.logsumexp(-1).sum(), [values["competence"]])
    assert bool(torch.isfinite(slope).all())
