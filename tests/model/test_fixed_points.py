"""Extrapolation to fixed points."""

import torch

from crowdppl.model.fixed_points import Extrapolation


def test_linear_maps_end_after_as_many_steps_as_dimensions():
    """A contraction by up to .999, of which 1,000 plain steps leave a third of the error."""
    rate = torch.tensor([0.999, 0.9, 0.5], dtype=torch.float64)
    point, end, path = torch.zeros(3, dtype=torch.float64), torch.tensor([1.0, -2.0, 3.0]).double(), Extrapolation()
    for _ in range(6):
        point = path(point, end + rate * (point - end))
    torch.testing.assert_close(point, end, rtol=0.0, atol=1e-4)


def test_steps_that_become_longer_lead_on():
    """Away from a fixed point that repels, in place of back to it."""
    point, path = torch.tensor([0.1], dtype=torch.float64), Extrapolation()
    first = path(point, 1.5 * point)
    assert first.tolist() == [0.15000000000000002]
    assert float(path(first, 1.5 * first)) > float(1.5 * first)
    assert path.steps == 1
    other, copy = Extrapolation(), path.kept()
    other.take_up(copy)
    second = torch.tensor([0.4], dtype=torch.float64)
    assert path(second, 1.5 * second) == other(second, 1.5 * second)
    path.restart()
    assert path.steps == 0
    assert path.kept() == []
