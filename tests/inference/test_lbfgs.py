"""L-BFGS that seldom reads: the steps of torch's, with few reads of the device."""

import numpy as np
import pytest
import torch
from counterfeit import DEVICE, counterfeit

from crowdppl.inference.engines import lbfgs


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def logistic(x):
    generator = torch.Generator().manual_seed(3)
    features = torch.randn(40, len(x), generator=generator, dtype=torch.float64)
    side = (torch.rand(40, generator=generator) < 0.5).double() * 2 - 1
    return torch.nn.functional.softplus(-side * (features @ x)).sum() + x.square().sum() / 20


def quartic(x):
    return ((x - torch.arange(len(x), dtype=x.dtype)) ** 4).sum()


def waves(x):
    """Many minima, so that many first lengths are refused."""
    return (x.square() / 20 - torch.cos(3 * x)).sum()


LOSSES = [rosenbrock, logistic, quartic, waves]


def by_torch(loss, start, iterations, memory=20):
    """Return where torch's optimiser ends, and how often it evaluates."""
    vector, count = start.clone().requires_grad_(), 0
    search = torch.optim.LBFGS([vector], max_iter=iterations, history_size=memory, line_search_fn="strong_wolfe")

    def evaluate():
        nonlocal count
        count += 1
        search.zero_grad()
        value = loss(vector)
        value.backward()
        return value

    search.step(evaluate)
    return vector.detach(), count


@pytest.mark.parametrize("memory", [3, 20])
@pytest.mark.parametrize("iterations", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("loss", LOSSES)
def test_steps_are_those_of_torch(loss, iterations, memory):
    """Few iterations, before rounding grows: Rosenbrock's function and the waves are chaotic where a length is refused."""
    generator = torch.Generator().manual_seed(iterations)
    for scale in (0.3, 2.0, 6.0):
        start = scale * torch.randn(5, generator=generator, dtype=torch.float64)
        end = lbfgs.minimise(loss, start, iterations, memory)
        expected, _ = by_torch(loss, start, iterations, memory)
        assert end.first == pytest.approx(float(loss(start)))
        assert end.loss == pytest.approx(float(loss(end.vector)))
        np.testing.assert_allclose(end.vector, expected, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_it_arrives(loss):
    start = torch.linspace(-1, 2, 5, dtype=torch.float64)
    vector = lbfgs.minimise(loss, start, 500, 20).vector.requires_grad_()
    (slope,) = torch.autograd.grad(loss(vector), vector)
    assert slope.abs().max() < 1e-4


def test_a_minimum_is_left_alone():
    start = torch.ones(3, dtype=torch.float64)
    end = lbfgs.minimise(rosenbrock, start, 20, 20)
    assert torch.equal(end.vector, start)
    assert end.loss == end.first == 0


def test_a_loss_that_is_not_a_number_ends_the_search():
    end = lbfgs.minimise(lambda x: x.sum() * torch.nan, torch.ones(2, dtype=torch.float64), 20, 20)
    assert np.isnan(end.loss)


@pytest.mark.parametrize(("loss", "most"), [(rosenbrock, 20), (logistic, 10)])
def test_reads_are_few(loss, most):
    """Fewer than evaluations of the loss."""
    start = torch.linspace(-1, 2, 5, dtype=torch.float64)
    _, evaluations = by_torch(loss, start, 20)
    with counterfeit() as device:
        moved = start.to(DEVICE)
        shift = torch.zeros(5, dtype=torch.float64).to(DEVICE)

        def there(x):
            if loss is rosenbrock:
                return rosenbrock(x + shift)
            return torch.nn.functional.softplus(x * torch.arange(5, device=DEVICE) - x).sum() + x.square().sum()

        lbfgs.minimise(there, moved, 20, 20)
    assert 0 < sum(device.reads.values()) <= most < evaluations
