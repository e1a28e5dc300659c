"""Exponentials and logarithms of several numbers are those of the library; rows drawn together are those drawn one by one."""

import numba
import numpy as np
import pytest

from crowdppl.kernels import random, worker_quality
from crowdppl.kernels.elementary import exp, log
from crowdppl.kernels.random import fill_dirichlet


@pytest.mark.slow
def test_values_are_those_of_the_library():
    """Exponentials to 3e-14, logarithms to 1e-14; powers below the least normal number, also of -inf, are that number."""

    @numba.njit("void(f8[::1], f8[::1], f8[::1], f8[::1])", fastmath={"reassoc", "contract", "arcp", "nsz"})
    def both(x, powers, y, logs):
        for n in range(len(x)):
            powers[n] = exp(x[n])
        for n in range(len(y)):
            logs[n] = log(y[n])

    rng = np.random.default_rng(0)
    x = np.r_[-rng.gamma(0.5, 100.0, 999), 0.0, -1e-300, 0.3, 700.0, np.linspace(-1, 1, 100)].clip(-708.0)
    y = np.r_[np.exp(x), 1 - 1e-16, 1 + 3e-16, 1e300, np.finfo(float).tiny, np.sqrt(0.5)]
    powers, logs = np.empty(len(x)), np.empty(len(y))
    both(x, powers, y, logs)
    np.testing.assert_allclose(powers, np.exp(x), rtol=3e-14)
    np.testing.assert_allclose(logs, np.log(y), rtol=1e-14)
    low = np.array([-709.0, -1e9, -np.inf])
    both(low, powers[:3], y[:0], logs[:0])
    np.testing.assert_allclose(powers[:3], np.finfo(float).tiny, rtol=1)
    assert (powers[:3] > 0).all()


@pytest.mark.slow
def test_rows_drawn_together_are_those_drawn_one_by_one():
    """Also where all gamma variables of a row underflow, and of shapes above and below 1."""

    @numba.njit("void(u8[::1], f8[:,::1], f8[:,::1], f8[:,::1])")
    def together(state, shapes, room, out):
        worker_quality._draw_rows(state, shapes.reshape(-1), room[0], room[1], out)

    @numba.njit("void(u8[::1], f8[:,::1], f8[:,::1])")
    def one_by_one(state, shapes, out):
        for k in range(len(shapes)):
            fill_dirichlet(state, shapes[k], out[k])

    shapes = np.array([[0.01, 0.001, 0.02, 0.01], [0.2, 3.0, 0.9, 1.1], [40.0, 5.0, 1.0, 2.0], [1e-3, 1e-3, 0.3, 7.0]])
    for seed in range(20):
        out, other = np.empty((4, 4)), np.empty((4, 4))
        together(random.stream(seed), shapes, np.empty((2, 16)), out)
        one_by_one(random.stream(seed), shapes, other)
        np.testing.assert_allclose(out, other, rtol=1e-10, atol=1e-300)
        np.testing.assert_allclose(out.sum(1), 1, rtol=1e-12)
