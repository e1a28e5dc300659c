"""Anderson acceleration of EM."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from catalog import crowded, prepared, quiet_fit, silent, simulated

from crowdppl.inference.backends import choose
from crowdppl.inference.backends.expectation import CompiledExpectation
from crowdppl.inference.engines import anderson, em
from crowdppl.inference.engines.em_loop import EMLoop
from crowdppl.inference.engines.m_step import MStep
from crowdppl.inference.engines.unconstrained import Space
from crowdppl.inference.progress import silent as without_report
from crowdppl.isolation import isolated
from crowdppl.model.contract import check
from crowdppl.model.fixed_points import FARTHEST
from crowdppl.model.program import prior_draws
from crowdppl.models import ItemEffects


def path_of(space, pairs, memory=10):
    """Return the path of steps between pairs of points."""
    first, *others = pairs
    path = anderson.begun(space, memory, *first)
    for point, image in others:
        path = anderson.remembered(space, path, point, image)
    return path


@pytest.fixture
def problem(monkeypatch):
    """Item effects, some annotations, and the space of the sites; compiled steps however few annotations there are."""
    monkeypatch.setattr(choose, "E_STEP", 0)
    with isolated(3), torch.inference_mode(), silent():
        model, data = prepared(ItemEffects(), crowded(3))
        yield model, data, Space(check(model, data), discrete=True)


def a_point(model, data):
    return {site: value[0] for site, value in prior_draws(model, data, 1).items()}


def test_coordinates_lead_back_to_the_point(problem):
    model, data, space = problem
    theta = a_point(model, data)
    vector = anderson._coordinates(space, theta)
    back = anderson._parameters(space, vector, {name: torch.zeros_like(value) for name, value in theta.items()})
    assert set(back) == set(theta)
    for name, value in theta.items():
        torch.testing.assert_close(back[name], value, rtol=1e-12, atol=1e-12, msg=name)


def test_a_probability_of_zero_has_coordinates(problem):
    model, data, space = problem
    theta = a_point(model, data)
    theta["prevalence"] = torch.tensor([0.0, 0.4, 0.6], dtype=torch.float64)
    vector = anderson._coordinates(space, theta)
    assert bool(np.isfinite(vector).all())
    back = anderson._parameters(space, vector, theta)["prevalence"]
    torch.testing.assert_close(back, theta["prevalence"], rtol=1e-12, atol=1e-12)


def test_the_fixed_point_of_a_linear_map_is_found_from_one_more_step_than_directions(problem):
    """Anderson's method solves a linear map of three directions exactly, where a combination of four residuals vanishes."""
    model, data, space = problem
    fixed, rng = anderson._coordinates(space, a_point(model, data)), np.random.default_rng(1)
    # Directions of competence alone: logarithms of probabilities would be normalised.
    places = {name: torch.full_like(value, name == "competence") for name, value in a_point(model, data).items()}
    free = torch.cat([places[name].flatten() for name in space.sizes if not space.supports[name].is_discrete]) > 0
    directions = np.zeros((3, len(fixed)))
    directions[:, free.numpy()] = np.linalg.qr(rng.normal(size=(int(free.sum()), 3)))[0].T
    rates = np.array([0.9, 0.6, -0.4])

    def step(x):
        return fixed + (rates * (directions @ (x - fixed))) @ directions

    x, pairs = fixed + np.array([1.0, 2.0, 3.0]) @ directions, []
    for _ in range(4):
        pairs.append([anderson._parameters(space, each.copy(), a_point(model, data)) for each in (x, step(x))])
        x = step(x)
    path = path_of(space, pairs, memory=3)
    end = path["image"].numpy()
    last = anderson._parameters(space, end.copy(), a_point(model, data))
    extrapolated = anderson._coordinates(space, anderson.extrapolate(space, path, last))
    assert abs(end - fixed).max() > 0.1
    np.testing.assert_allclose(extrapolated, fixed, rtol=1e-6, atol=1e-6)


def test_steps_that_become_longer_are_followed(problem):
    """Where a linear map leads away from its fixed point, the extrapolation leads on and not back to it, and not too far."""
    model, data, space = problem
    theta = a_point(model, data)
    for rate, length in ((1.25, 5.0), (1.001, FARTHEST)):
        points = [theta | {"competence": theta["competence"] + rate**n} for n in range(3)]
        path = path_of(space, list(pairwise(points)))
        ahead = anderson.extrapolate(space, path, points[-1])["competence"] - points[-1]["competence"]
        torch.testing.assert_close(ahead, length * (points[2]["competence"] - points[1]["competence"]))


def test_the_first_steps_are_left_out(problem):
    """Only the last differences count, and their weights are those of a least-squares fit; a path that is cut begins anew."""
    model, data, space = problem
    theta, away = a_point(model, data), a_point(model, data)
    points = [{name: value + 0.6**n * (away[name] - value) for name, value in theta.items()} for n in range(7)]
    for point in points:
        point["competence"] = point["competence"] + 0.05 * torch.randn(data.J)
    places = np.stack([anderson._coordinates(space, point) for point in points])
    images = places[-5:]
    residuals = np.diff(places, axis=0)[-5:]
    weights = np.linalg.lstsq(np.diff(residuals, axis=0).T, residuals[-1])[0]
    step = -weights @ np.diff(images, axis=0)
    path = path_of(space, list(pairwise(points)), memory=4)
    assert path["moves"].shape == (4, places.shape[1])
    assert step @ residuals[-1] > 0
    wanted = anderson._parameters(space, images[-1] + step, points[-1])
    for name, value in anderson.extrapolate(space, path, points[-1]).items():
        torch.testing.assert_close(value, wanted[name], rtol=1e-6, atol=1e-8, msg=name)
    anew = anderson.cut(path_of(space, list(pairwise(points[:4]))))
    for point, image in pairwise(points[3:]):
        anew = anderson.remembered(space, anew, point, image)
    wanted = path_of(space, list(pairwise(points[2:])))
    for name in ("moves", "bends", "products"):
        torch.testing.assert_close(anew[name][:4], wanted[name][:4])


def test_steps_that_repeat_leave_the_last_point(problem):
    """Equal steps have no direction: a matrix of zeros, whose solution adds nothing or is refused."""
    model, data, space = problem
    theta = a_point(model, data)
    after = anderson.extrapolate(space, path_of(space, [(theta, theta)] * 3), theta)
    for name, value in theta.items():
        torch.testing.assert_close(after[name], value, rtol=1e-12, atol=1e-12, msg=name)


def test_infinite_coordinates_are_refused(problem):
    model, data, space = problem
    theta = a_point(model, data)
    path = path_of(space, [(theta, theta)] * 3)
    path["image"][-1] = math.inf
    assert anderson.extrapolate(space, path, theta) is theta


def test_the_log_posterior_never_falls_and_ends_where_squarem_ends(problem, monkeypatch):
    model, data, space = problem
    ends = {}
    for memory in (0, CompiledExpectation.memory):
        monkeypatch.setattr(CompiledExpectation, "memory", memory)
        loop = EMLoop(MStep(model, data, space), 5000, 1e-12, without_report, accelerate=True)
        loop.turning = False  # to the end with one anchor
        assert isinstance(loop.expectation, CompiledExpectation)
        (result,) = loop.run([model.initial(data)])
        assert result.converged
        assert min(np.diff(result.trace)) > -1e-15 * abs(result.log_posterior)  # rounding
        ends[memory] = result
    ours, theirs = ends[CompiledExpectation.memory], ends[0]
    assert ours.evaluations < theirs.evaluations
    assert ours.log_posterior == pytest.approx(theirs.log_posterior, rel=1e-8)


def test_an_extrapolation_that_lowers_the_log_posterior_is_discarded(problem, monkeypatch):
    """Extrapolations to a bad point: the run is that of plain steps, and remembers the last one."""
    model, data, space = problem
    bad = a_point(model, data)
    monkeypatch.setattr(anderson, "extrapolate", lambda *_: dict(bad))
    runs = {}
    for accelerate in (True, False):
        loop = EMLoop(MStep(model, data, space), 41, 0.0, without_report, accelerate=accelerate)
        (result,) = loop.run([model.initial(data)])
        runs[accelerate] = result
    discarded = runs[True].trace
    assert len(discarded) > 10
    np.testing.assert_array_equal(discarded[:-1], runs[False].trace[: len(discarded) - 1])


def test_the_support_of_every_site_is_kept(problem):
    """Extrapolations far beyond the points are within the constraints of the sites."""
    model, data, space = problem
    theta, other = a_point(model, data), a_point(model, data)
    path = path_of(space, [(theta, other), (other, theta)])
    far = anderson.extrapolate(space, path | {"image": 30 * path["image"]}, other)
    for name, value in far.items():
        support = space.supports[name]
        assert bool(support.check(value).all()), name
        assert value.shape == theta[name].shape


def test_of_several_starts_only_the_best_keeps_its_path(monkeypatch):
    """From which it goes on; the others' would be copied into every checkpoint."""
    seen, settled = [], em.settled

    def recorded(loop, first, winner):
        if loop.results:
            seen.append(([len(result.path) for result in loop.results], loop.results.index(winner)))
        return settled(loop, first, winner)

    monkeypatch.setattr(em, "settled", recorded)
    monkeypatch.setattr(choose, "E_STEP", 0)
    quiet_fit(simulated(items=60, seed=2, per_item=4)[0], ItemEffects(), method="em", restarts=2)
    lengths, best = seen[0]
    assert len(lengths) == 3
    assert lengths == [int(n == best) for n in range(3)]
