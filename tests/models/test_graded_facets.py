"""Graded facets: special cases that others have published, what is learned of raters, and known grades."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import quiet_fit
from scipy.stats import norm

import crowdppl
from crowdppl import Annotations
from crowdppl.data import datasets
from crowdppl.errors import silent
from crowdppl.isolation import isolated
from crowdppl.model import graded_rows
from crowdppl.models import GradedFacets

WIDE = torch.linspace(-6, 6, 121, dtype=torch.float64)  # nodes of an item


def questions(name, labels):
    """The answers of persons (items) to questions (raters)."""
    folder = datasets.folder()
    if folder is None or not (folder / name).is_dir():
        pytest.skip("CROWDPPL_DATA does not name the public data sets")
    return pd.read_csv(folder / name / "annotations.csv.gz"), labels


def log_likelihood(data, raters):
    """Of all grades, for raters (J, K)."""
    log_prior = (-WIDE.square() / 2).log_softmax(-1)
    joint = data.counts.log_likelihoods(graded_rows.table(raters, WIDE).log()) + log_prior
    return joint.logsumexp(-1).sum()


def maximised(data, raters, free):
    """The largest log-likelihood over what ``free`` makes of a vector, from one that makes ``raters``."""
    vector = raters.clone().requires_grad_(True)
    optimiser = torch.optim.LBFGS([vector], max_iter=500, line_search_fn="strong_wolfe", tolerance_grad=1e-9)

    def loss():
        optimiser.zero_grad()
        value = -log_likelihood(data, free(vector))
        value.backward()
        return value

    optimiser.step(loss)
    return -loss().item(), free(vector.detach())


def test_rasch_model_of_the_lsat():
    """D. Rizopoulos (2006), ltm: Rasch model of LSAT section 6 with a common slope."""
    frame, labels = questions("irt-lsat", [0, 1])
    with isolated(0):
        data = Annotations.from_frame(frame, labels=labels)

        def raters(vector):
            return torch.stack([vector[0].expand(data.J), vector[1:]], -1)

        value, best = maximised(data, torch.zeros(data.J + 1), raters)
    slope = best[0, 0].exp()
    assert value == pytest.approx(-2466.938, abs=2e-3)
    assert float(slope) == pytest.approx(0.7551, abs=2e-4)
    difficulty = dict(zip(data.workers.tolist(), (best[:, 1] / slope).tolist(), strict=True))
    published = {"Item 1": -3.6153, "Item 2": -1.3224, "Item 3": -0.3176, "Item 4": -1.7301, "Item 5": -2.7802}
    assert difficulty == pytest.approx(published, abs=2e-3)


def test_graded_response_model_of_science():
    """R. P. Chalmers (2012), mirt: the graded response model of four of the questions."""
    frame, labels = questions("irt-science", ["strongly disagree", "disagree", "agree", "strongly agree"])
    with isolated(0):
        frame = frame[frame["worker"].isin(["Comfort", "Work", "Future", "Benefit"])]
        data = Annotations.from_frame(frame, labels=labels)
        start = torch.tensor([0.0, 0.0, math.log(2), math.log(2)]).expand(data.J, 4)
        value, _ = maximised(data, start, lambda vector: vector)
    assert value == pytest.approx(-1608.870, abs=2e-3)


def rated(seed, items=150, raters=4, grades=5, own=0.3):
    """Grades of items by all raters, drawn apart from the library: thresholds of a rater vary by ``own``."""
    rng = np.random.default_rng(seed)
    x, severity = rng.normal(size=items), rng.normal(0, 0.7, raters)
    slope = 2 * np.exp(rng.normal(0, 0.3, raters))
    thresholds = np.linspace(-2.2, 2.2, grades - 1) + severity[:, None] + own * rng.normal(size=(raters, grades - 1))
    thresholds.sort(axis=1)
    item, worker = np.repeat(np.arange(items), raters), np.tile(np.arange(raters), items)
    above = 1 / (1 + np.exp(thresholds[worker] - (slope[worker] * x[item])[:, None]))
    label = (rng.random(len(item))[:, None] < above).sum(1)
    middle = thresholds.mean(1)
    return Annotations.from_arrays(item, worker, label, labels=range(grades)), middle - middle.mean(), x


def severities(posterior):
    """Draws of the raters' severity, (draw, J), in the order of their numbers."""
    value = posterior.tree["posterior"]["severity"].sortby("worker").values
    return value.reshape(-1, value.shape[-1])


@pytest.mark.slow
@pytest.mark.parametrize("own", [pytest.param(0.0, marks=pytest.mark.longest), 0.3])
def test_intervals_of_severity_cover(own):
    """89% intervals by EM of 4 raters in 60 simulations: by chance outside 80% to 96% in less than one of 1,000 runs."""
    hits = []
    for seed in range(60):
        data, severity, _ = rated(seed, own=own)
        low, high = np.quantile(severities(quiet_fit(data, "graded-facets", seed=0)), [0.055, 0.945], axis=0)
        hits += ((low <= severity) & (severity <= high)).tolist()
    assert 0.80 <= np.mean(hits) <= 0.96


def test_engines_agree_on_severity():
    """EM and Gibbs sampling: means within .15 of a severity whose standard deviation is .15 to .2."""
    data, severity, _ = rated(0)
    one, two = (
        severities(quiet_fit(data, "graded-facets", seed=0, **options))
        for options in ({"method": "em"}, {"method": "gibbs", "chains": 2, "warmup": 100, "num_samples": 300})
    )
    assert np.abs(one.mean(0) - two.mean(0)).max() < 0.15
    assert np.abs(two.mean(0) - severity).max() < 0.5


def test_severity_is_taken_out():
    """Two raters a wing: items of the severe wing get lower grades, and the same fair average."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=400)
    item = np.repeat(np.arange(400), 3)
    wing = item % 2
    # Rater 4 grades all items and connects the wings.
    worker = np.where(np.arange(len(item)) % 3 == 2, 4, 2 * wing + np.arange(len(item)) % 3)
    severity = np.array([-1.0, -1.0, 1.0, 1.0, 0.0])
    noise = rng.logistic(size=len(item))
    label = np.digitize(3 * x[item] - severity[worker] + noise, [-3, -1, 1, 3])
    data = Annotations.from_arrays(item, worker, label, labels=range(5))
    grades = np.arange(5)
    raw = data.votes.numpy() @ grades / 3
    fair = quiet_fit(data, "graded-facets").probability() @ grades
    lenient, severe = (np.array(data.items) % 2 == k for k in (0, 1))
    off = x[np.array(data.items)]
    gap_raw = (raw - off)[lenient].mean() - (raw - off)[severe].mean()
    gap_fair = (fair - off)[lenient].mean() - (fair - off)[severe].mean()
    assert gap_raw > 0.35
    assert abs(gap_fair) < gap_raw / 3


def test_known_grades_teach_the_scale_of_the_truth():
    """An expert two grades stricter than the crowd: forty known grades bring the others to the expert's scale."""
    data, _, x = rated(2, items=300, own=0.0)
    rng = np.random.default_rng(0)
    expert = np.digitize(3 * x + rng.logistic(size=300), [1, 3, 5, 7])
    order = np.array(data.items)
    truth = torch.full((300,), -1)
    truth[:40] = torch.from_numpy(expert[order[:40]])
    grades, rest = np.arange(5), slice(40, None)
    errors = []
    for known in (data, replace(data, truth=truth)):
        posterior = quiet_fit(known, "graded-facets")
        errors.append(np.abs(posterior.probability()[rest] @ grades - expert[order[rest]]).mean())
    assert errors[1] < 0.6 * errors[0]
    assert posterior.truth()["probability"][:40].eq(1).all()


def test_an_expected_table_integrates_the_normal():
    """Shares of grades by nodes against the integral: a single rater, 25 nodes."""
    with isolated(0):
        model = GradedFacets()
        data, _, _ = rated(0, items=3)
        rater = torch.tensor([0.7, 0.3, -0.2, 0.1, 0.4])
        shares = model.log_truth({}, data).exp() @ graded_rows.table(rater, model.places(data))
    x = np.linspace(-9, 9, 20_001)
    weight = norm.pdf(x) * (x[1] - x[0])
    with isolated(0):
        exact = weight @ graded_rows.table(rater, torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(shares.numpy(), exact, atol=1e-4)


def test_gradient_and_information():
    """Against automatic differentiation: the gradient, and the expected information as that of expected counts."""
    with isolated(0):
        nodes, raters = torch.linspace(-2, 2, 5), 0.5 * torch.randn(3, 4)
        counts = 10 * torch.rand(3, 5, 4)
        value, gradient, information = graded_rows.slopes(raters, counts, nodes)
        moved = raters.clone().requires_grad_(True)
        total = graded_rows.log_likelihood(moved, counts, nodes)
        torch.testing.assert_close(total.detach(), value)
        (slope,) = torch.autograd.grad(total.sum(), moved)
        torch.testing.assert_close(slope, gradient)
        # Where counts are the expected ones, minus the second derivatives are the expected information.
        size = counts.sum(-1, keepdim=True)
        expected = size * graded_rows.table(raters, nodes)
        for j in range(3):
            hessian = torch.autograd.functional.hessian(
                lambda r, j=j: graded_rows.log_likelihood(r, expected[j], nodes), raters[j]
            )
            torch.testing.assert_close(-hessian, information[j])


@pytest.mark.parametrize("grades", [2, 3, 11])
def test_any_number_of_grades(grades):
    data, _, _ = rated(0, items=40, grades=grades)
    posterior = quiet_fit(data, "graded-facets", num_samples=4)
    np.testing.assert_allclose(posterior.probability().sum(1), 1)


@pytest.mark.parametrize("name", ["spreads", "reference"])
@pytest.mark.parametrize("value", [0.5, (0.5, 0.5), (0.5, 0.5, 0.0), (0.5, 0.5, "1"), (0.5, math.nan, 1.0), None])
def test_spreads_are_three_positive_numbers(name, value):
    with pytest.raises(
        crowdppl.ModelError, match=f"GradedFacets: {name} is .*; it must be a tuple of three positive numbers"
    ):
        GradedFacets(**{name: value})


def test_a_single_grade_is_refused():
    with silent():
        data = Annotations.from_arrays([0, 1], [0, 1], [3, 3])
    with pytest.raises(crowdppl.ModelError, match="the data have one class"):
        crowdppl.fit(data, "graded-facets")
