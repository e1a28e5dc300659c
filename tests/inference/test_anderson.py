"""Anderson acceleration of EM."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

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


def path_of(coordinates, pairs, memory=10):
    """Return the path of steps between pairs of points."""
    first, *others = pairs
    path = anderson.begun(coordinates, memory, *first)
    for point, image in others:
        path = anderson.remembered(coordinates, path, point, image)
    return path


class Problem(NamedTuple):
    """Item effects, some annotations, the space of the sites, the compiled step, and the coordinates of its points."""

    model: Any
    data: Any
    space: Space
    step: Any
    coordinates: anderson.Coordinates

    def point(self):
        """Return parameters drawn from the prior, by site."""
        return {site: value[0] for site, value in prior_draws(self.model, self.data, 1).items()}

    def vector(self, theta):
        return self.step.vector(theta)

    def sites(self, point):
        return self.step.parameters(point, torch.float64)


@pytest.fixture
def problem(monkeypatch):
    """A problem with compiled steps however few annotations there are."""
    monkeypatch.setattr(choose, "E_STEP", 0)
    with isolated(3), torch.inference_mode(), silent():
        model, data = prepared(ItemEffects(), crowded(3))
        space, step = Space(check(model, data), discrete=True), model.compiled_step(data)
        yield Problem(model, data, space, step, anderson.Coordinates.of(space, step.shapes))


def test_coordinates_lead_back_to_the_point(problem):
    theta = problem.point()
    back = problem.sites(problem.coordinates.point(problem.coordinates.at(problem.vector(theta))))
    assert set(back) == set(theta)
    for name, value in theta.items():
        torch.testing.assert_close(back[name], value, rtol=1e-12, atol=1e-12, msg=name)


def test_a_probability_of_zero_has_coordinates(problem):
    theta = problem.point() | {"prevalence": torch.tensor([0.0, 0.4, 0.6], dtype=torch.float64)}
    place = problem.coordinates.at(problem.vector(theta))
    assert bool(np.isfinite(place).all())
    back = problem.sites(problem.coordinates.point(place))["prevalence"]
    torch.testing.assert_close(back, theta["prevalence"], rtol=1e-12, atol=1e-12)


def test_the_fixed_point_of_a_linear_map_is_found_from_one_more_step_than_directions(problem):
    """Anderson's method solves a linear map of three directions exactly, where a combination of four residuals vanishes."""
    coordinates, rng = problem.coordinates, np.random.default_rng(1)
    fixed = coordinates.at(problem.vector(problem.point()))
    # Directions of competence alone: logarithms of probabilities would be normalised.
    free = problem.vector({n: torch.full_like(value, n == "competence") for n, value in problem.point().items()}) > 0
    directions = np.zeros((3, len(fixed)))
    directions[:, free.numpy()] = np.linalg.qr(rng.normal(size=(int(free.sum()), 3)))[0].T
    rates = np.array([0.9, 0.6, -0.4])

    def step(x):
        return fixed + (rates * (directions @ (x - fixed))) @ directions

    x, pairs = fixed + np.array([1.0, 2.0, 3.0]) @ directions, []
    for _ in range(4):
        pairs.append([coordinates.point(each.copy()) for each in (x, step(x))])
        x = step(x)
    path = path_of(coordinates, pairs, memory=3)
    end = path["image"].numpy()
    last = coordinates.point(end.copy())
    extrapolated = coordinates.at(anderson.extrapolate(coordinates, path, last))
    assert abs(end - fixed).max() > 0.1
    np.testing.assert_allclose(extrapolated, fixed, rtol=1e-6, atol=1e-6)


def test_steps_that_become_longer_are_followed(problem):
    """Where a linear map leads away from its fixed point, the extrapolation leads on and not back to it, and not too far."""
    theta = problem.point()
    for rate, length in ((1.25, 5.0), (1.001, FARTHEST)):
        points = [problem.vector(theta | {"competence": theta["competence"] + rate**n}) for n in range(3)]
        path = path_of(problem.coordinates, list(pairwise(points)))
        ahead = anderson.extrapolate(problem.coordinates, path, points[-1])
        torch.testing.assert_close(ahead - points[-1], length * (points[2] - points[1]))


def test_the_first_steps_are_left_out(problem):
    """Only the last differences count, and their weights are those of a least-squares fit; a path that is cut begins anew."""
    coordinates, (theta, away) = problem.coordinates, (problem.point(), problem.point())
    sites = [{name: value + 0.6**n * (away[name] - value) for name, value in theta.items()} for n in range(7)]
    for point in sites:
        point["competence"] = point["competence"] + 0.05 * torch.randn(problem.data.J)
    points = [problem.vector(point) for point in sites]
    places = np.stack([coordinates.at(point) for point in points])
    images = places[-5:]
    residuals = np.diff(places, axis=0)[-5:]
    weights = np.linalg.lstsq(np.diff(residuals, axis=0).T, residuals[-1])[0]
    step = -weights @ np.diff(images, axis=0)
    path = path_of(coordinates, list(pairwise(points)), memory=4)
    assert path["moves"].shape == (4, places.shape[1])
    assert step @ residuals[-1] > 0
    wanted = coordinates.point(images[-1] + step)
    torch.testing.assert_close(anderson.extrapolate(coordinates, path, points[-1]), wanted, rtol=1e-6, atol=1e-8)
    anew = anderson.cut(path_of(coordinates, list(pairwise(points[:4]))))
    for point, image in pairwise(points[3:]):
        anew = anderson.remembered(coordinates, anew, point, image)
    wanted = path_of(coordinates, list(pairwise(points[2:])))
    for name in ("moves", "bends", "products"):
        torch.testing.assert_close(anew[name][:4], wanted[name][:4])


def test_steps_that_repeat_leave_the_last_point(problem):
    """Equal steps have no direction: a matrix of zeros, whose solution adds nothing or is refused."""
    theta = problem.vector(problem.point())
    after = anderson.extrapolate(problem.coordinates, path_of(problem.coordinates, [(theta, theta)] * 3), theta)
    torch.testing.assert_close(after, theta, rtol=1e-12, atol=1e-12)


def test_infinite_coordinates_are_refused(problem):
    theta = problem.vector(problem.point())
    path = path_of(problem.coordinates, [(theta, theta)] * 3)
    path["image"][-1] = math.inf
    assert anderson.extrapolate(problem.coordinates, path, theta) is theta


def test_the_log_posterior_never_falls_and_ends_where_squarem_ends(problem, monkeypatch):
    model, data, space, *_ = problem
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
    model, data, space, *_ = problem
    bad = problem.vector(problem.point())
    monkeypatch.setattr(anderson, "extrapolate", lambda *_: bad.clone())
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
    theta, other = (problem.vector(problem.point()) for _ in range(2))
    path = path_of(problem.coordinates, [(theta, other), (other, theta)])
    far = anderson.extrapolate(problem.coordinates, path | {"image": 30 * path["image"]}, other)
    for name, value in problem.sites(far).items():
        support = problem.space.supports[name]
        assert bool(support.check(value).all()), name


def test_steps_with_another_anchor_share_all_but_the_anchor(problem):
    """They expect what steps made anew for the data with that anchor do."""
    model, data, space, *_ = problem
    anchor = torch.full((data.N, data.K), 0.2, dtype=torch.float64)
    first = EMLoop(MStep(model, data, space), 10, 0.0, without_report, accelerate=True)
    other = first.with_anchor(anchor)
    anew = choose.expectation(MStep(model, replace(data, anchor=anchor), space))
    theta = problem.vector(problem.point())
    assert other.expectation.steps.counts is first.expectation.steps.counts
    (lp, ll, expected), (wanted_lp, wanted_ll, wanted) = other.expectation(theta), anew(theta)
    assert (lp, ll) == (wanted_lp, wanted_ll)
    np.testing.assert_array_equal(expected.counts, wanted.counts)
    assert first.expectation(theta)[1] != ll


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
