"""A plugin of pytest in each process that runs tests: one thread, no state left behind, public data where it is at hand."""

import gc
import itertools
import os
import random
import warnings

import arviz_base
import numpy as np
import pyro
import pytest
import scipy.special  # noqa: F401 - it sets a filter of warnings as it is loaded, whichever test is the first to need it
import sympy  # noqa: F401 - torch imports it at some point, and it sets a filter of warnings
import torch
import xarray as xr
from hypothesis import settings as examples
from pyro.distributions.distribution import Distribution  # noqa: F401 - imported before filters become errors

from crowdppl.data import datasets
from crowdppl.errors import silent

torch.set_num_threads(1)
# The same examples in every run, so that a failure is of a change and not of luck; HYPOTHESIS_PROFILE=default looks for others.
examples.register_profile("fixed", derandomize=True)
examples.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


def pytest_collection_finish():
    """Keep modules and collected tests from the garbage collector, which looked at a million objects time and again."""
    gc.collect()
    gc.freeze()


def _settings():
    """What a fit might change for the whole process."""
    return {
        "the default floating type": torch.get_default_dtype(),
        "the default device": torch.get_default_device(),
        "the number of threads": torch.get_num_threads(),
        "gradient mode": torch.is_grad_enabled(),
        "the filters of warnings": list(warnings.filters),
        "validation of distributions": torch.distributions.Distribution._validate_args,
        "numpy's error handling": np.geterr(),
        "options of ArviZ": dict(arviz_base.rcParams),
        "options of xarray": dict(xr.get_options()),
        "Pyro's handlers": list(pyro.poutine.runtime._PYRO_STACK),
    }


@pytest.fixture(scope="session")
def caches(tmp_path_factory):
    """Yield names of folders; pytest's own numbering would list thousands of them for each test."""
    place = tmp_path_factory.mktemp("caches")
    return (place / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def no_fetching(monkeypatch, caches):
    """Keep tests off the network and out of the user's cache; those of fetching bring a server of their own."""
    from crowdppl.data import download

    place = next(caches)

    def empty():
        place.mkdir(exist_ok=True)  # by the few tests that ask
        return place

    monkeypatch.setattr(download, "cache", empty)
    monkeypatch.setattr(download, "ADDRESS", "http://127.0.0.1:9/{repository}/{commit}/{path}")


@pytest.fixture(autouse=True)
def nothing_left():
    """Fail a test that leaves the random streams, Pyro's store or a setting of the process other than it found them."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - the global stream is what is watched here
    torch.default_generator.manual_seed(
        0
    )  # torch.manual_seed formats the stack three times, a millisecond each, for devices
    before = torch.get_rng_state()
    legacy = np.random.get_state()[1].copy()  # noqa: NPY002
    store = set(pyro.get_param_store().keys())
    plain = random.getstate()
    settings = _settings()
    yield
    assert random.getstate() == plain, "Python's random stream was used"
    for name, value in _settings().items():
        assert value == settings[name], f"{name} was changed"
    assert torch.equal(torch.get_rng_state(), before), "torch's random stream was used"
    assert np.array_equal(np.random.get_state()[1], legacy), "numpy's global random stream was used"  # noqa: NPY002
    assert set(pyro.get_param_store().keys()) == store, "Pyro's parameter store was left dirty"


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
        with silent():  # what is odd about names and labels of real data is known
            return datasets.public(name)

    return read
