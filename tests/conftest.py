"""Shared by all tests: one thread a process, no state left behind, public data where it is at hand."""

import random

import numpy as np
import pyro
import pytest
import torch
from pyro.distributions.distribution import Distribution  # noqa: F401 - imported before filters become errors

from crowdppl import datasets

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def nothing_left():
    """Fail a test that leaves Pyro's store, the random streams or the default type other than it found them."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - the global stream is what is watched here
    torch.manual_seed(0)
    before = torch.get_rng_state()
    legacy = np.random.get_state()[1].copy()  # noqa: NPY002
    store = set(pyro.get_param_store().keys())
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    yield
    assert torch.equal(torch.get_rng_state(), before), "torch's random stream was used"
    assert np.array_equal(np.random.get_state()[1], legacy), "numpy's global random stream was used"  # noqa: NPY002
    assert set(pyro.get_param_store().keys()) == store, "Pyro's parameter store was left dirty"
    assert torch.get_default_dtype() == dtype, "the default floating type was changed"
    assert torch.get_num_threads() == threads, "the number of threads was changed"


@pytest.fixture(scope="session")
def anaesthesia():
    return datasets.anaesthesia()


@pytest.fixture(scope="session")
def public():
    """Return a reader of public sets; a test that needs one skips where it is missing."""

    def read(name):
        place = datasets.folder()
        if place is None or not (place / name).is_dir():
            pytest.skip(f"data set {name!r} is not at hand: set CROWDPPL_DATA to the folder of public data sets")
        return datasets.public(name)

    return read
