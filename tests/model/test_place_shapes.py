"""Distributions of items on a line: components, slopes, draws, and items that are not normal."""

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import quiet_fit

from crowdppl import Annotations, ModelError, update
from crowdppl.isolation import isolated
from crowdppl.model import place_shapes
from crowdppl.models import GradedFacets

NODES = torch.linspace(-4, 4, 25, dtype=torch.float64)
NORMAL = (-NODES.square() / 2).softmax(-1)


def test_components_neither_shift_nor_stretch():
    """Orthogonal to constants, places and squares for normal items, and to each other; the first matter most."""
    components = place_shapes.basis(25, 6, 4.0)
    quadratic = torch.stack([torch.ones(25).double(), NODES, NODES.square()], -1)
    assert (components.T @ (NORMAL.unsqueeze(-1) * quadratic)).abs().max() < 1e-9
    gram = components.T @ (NORMAL.unsqueeze(-1) * components)
    size = gram.diagonal()
    assert (gram - size.diag()).abs().max() < 1e-9
    assert bool((size[:-1] > size[1:]).all())


def test_all_components_have_the_covariance_of_the_process():
    """Of 9 nodes all 6 that are left: together the Gaussian process less its quadratic part."""
    x = torch.linspace(-4, 4, 9, dtype=torch.float64)
    components = place_shapes.basis(9, 20, 4.0)
    assert components.shape == (9, 6)
    weight = (-x.square() / 2).softmax(-1)
    quadratic = torch.stack([torch.ones_like(x), x, x.square()], -1)
    # The residual of a weighted regression, as numpy has it.
    root = weight.sqrt().numpy()
    fitted = quadratic.numpy() @ np.linalg.pinv(root[:, None] * quadratic.numpy()) @ np.diag(root)
    left = np.eye(9) - fitted
    process = np.exp(-((x[:, None] - x).numpy() ** 2) / 2)
    np.testing.assert_allclose((components @ components.T).numpy(), left @ process @ left.T, atol=1e-6)


@pytest.mark.parametrize("nodes", [3, 4])
def test_few_nodes_have_few_components(nodes):
    assert place_shapes.basis(nodes, 6, 4.0).shape == (nodes, nodes - 3)


def test_slopes():
    """Gradient and second derivatives against automatic differentiation."""
    components = place_shapes.basis(25, 4, 4.0)
    with isolated(0):
        shape, at_nodes = torch.randn(4).double(), 10 * torch.rand(25).double()

        def joint(value):
            return place_shapes.slopes(value, at_nodes, NODES, components, 0.7)[0]

        _, gradient, precision = place_shapes.slopes(shape, at_nodes, NODES, components, 0.7)
        torch.testing.assert_close(gradient, torch.autograd.functional.jacobian(joint, shape))
        torch.testing.assert_close(precision, -torch.autograd.functional.hessian(joint, shape))


def test_draws_have_their_conditional():
    """One component, 20 items: 4,000 chains after 10 steps against a grid; by chance off in one of 10,000 runs."""
    components = place_shapes.basis(25, 1, 4.0)
    at_nodes = torch.zeros(25, dtype=torch.float64)
    at_nodes[[8, 10, 17]] = torch.tensor([12.0, 5.0, 3.0], dtype=torch.float64)
    grid = torch.linspace(-8, 8, 2001, dtype=torch.float64).unsqueeze(-1)
    weight = place_shapes.slopes(grid, at_nodes.expand(2001, -1), NODES, components, 2.0)[0].softmax(-1)
    mean = weight @ grid[:, 0]
    spread = (weight @ (grid[:, 0] - mean).square()).sqrt()
    with isolated(0):
        shape = torch.zeros(4000, 1, dtype=torch.float64)
        for _ in range(10):
            shape = place_shapes.drawn(shape, at_nodes.expand(4000, -1), NODES, components, 2.0)
    assert abs(shape.mean() - mean) < 5 * spread / 4000**0.5
    assert abs(shape.std() / spread - 1) < 5 / 4000**0.5


def test_numbers_of_items():
    states = torch.tensor([[0, 2, 2], [1, 1, 1]])
    assert place_shapes.counted(states, 3).tolist() == [[1, 0, 2], [0, 3, 0]]
    weight = torch.tensor([1.0, 2.0, 3.0]).expand(2, 3)
    assert place_shapes.counted(states, 3, weight).tolist() == [[1, 0, 5], [0, 6, 0]]


def crowded(seed=0, items=1500):
    """Grades of items of which most are at the lower end, by all of six raters."""
    rng = np.random.default_rng(seed)
    x = rng.exponential(size=items) - 1
    item, rater = (part.ravel() for part in np.indices((items, 6)))
    severity = rng.normal(0, 0.5, 6)
    label = np.digitize(2.5 * x[item] - severity[rater] + rng.logistic(size=len(item)), [-1.5, 0.5, 2.5])
    return Annotations.from_arrays(item, rater, label, labels=range(4), kind="ordinal"), x


@pytest.mark.parametrize("method", ["em", "gibbs"])
def test_items_need_not_be_normal(method):
    """The skewness of the items' distribution, which a normal one lacks; and a higher likelihood."""
    data, _ = crowded()
    options = {} if method == "em" else {"chains": 1, "warmup": 100, "num_samples": 100}
    posterior = quiet_fit(data, GradedFacets(), method=method, seed=0, **options)
    shape = torch.from_numpy(posterior.tree["posterior"]["shape"].values.reshape(-1, 6).mean(0))
    share = place_shapes.log_shares(NODES, place_shapes.basis(25, 6, 4.0), shape).exp()
    mean = share @ NODES
    off = NODES - mean
    skewness = (share @ off**3) / (share @ off**2) ** 1.5
    assert skewness > 0.8


def test_without_components_items_are_normal():
    data, _ = crowded(items=50)
    posterior = quiet_fit(data, GradedFacets(shapes=0), seed=0)
    assert "shape" not in posterior.tree["posterior"]
    with isolated(0):
        log = GradedFacets(shapes=0).log_truth({}, data).exp()
    np.testing.assert_allclose(log.double().numpy(), NORMAL.numpy(), rtol=1e-5)


@pytest.mark.parametrize(("name", "value"), [("shapes", -1), ("shapes", 1.5), ("shape_scale", 0.0)])
def test_bad_values_are_refused(name, value):
    with pytest.raises(ModelError, match=name):
        GradedFacets(**{name: value})


@pytest.mark.parametrize("skewed", [False, True])
def test_an_update_ends_where_a_fit_ends(skewed):
    """Shapes are learned until they settle, from the same start."""
    rng = np.random.default_rng(0)
    x = rng.exponential(size=300) - 1 if skewed else rng.normal(size=300)
    item, severity = np.repeat(np.arange(300), 4), rng.normal(0, 0.5, 8)
    rater = np.concatenate([rng.permutation(8)[:4] for _ in range(300)])
    label = np.digitize(2 * x[item] - severity[rater] + rng.logistic(size=1200), [-2, 0, 2]) + 1
    frame = pd.DataFrame({"task": item, "worker": rater, "label": label})
    before, all_of_them = (Annotations.from_frame(some, kind="ordinal") for some in (frame[:800], frame))
    updated = update(quiet_fit(before, GradedFacets(), seed=0), frame[800:], data=before)
    fitted = quiet_fit(all_of_them, GradedFacets(), seed=0)
    assert updated.items().tolist() == fitted.items().tolist()
    np.testing.assert_allclose(updated.probability(), fitted.probability(), atol=2e-4)


def test_large_shapes_move_and_stretch_the_items():
    """The figures of the module's docstring."""
    components = place_shapes.basis(25, 6, 4.0)
    shape = 2 * torch.randn(100000, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    share = place_shapes.log_shares(NODES, components, shape).exp()
    mean = share @ NODES
    spread = (share @ NODES.square() - mean.square()).sqrt()
    ends = torch.tensor([0.05, 0.5, 0.95], dtype=torch.float64)
    np.testing.assert_allclose(mean.std(), 1.28, atol=0.03)
    np.testing.assert_allclose(spread.quantile(ends), [0.99, 1.15, 1.99], atol=0.04)
    np.testing.assert_allclose((share[:, 0] + share[:, -1]).quantile(ends[2]), 0.58, atol=0.05)
