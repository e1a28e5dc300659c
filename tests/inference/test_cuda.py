"""The same on a GPU as on the CPU: the two products, and every model by every engine. Skipped where there is no GPU."""

import warnings

import numpy as np
import pytest
import torch
from catalog import PAIRS, SHORT, tiny

from crowdppl import Annotations, CrowdpplWarning, fit

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
DEVICE = "cuda"


@pytest.mark.parametrize(("case", "method"), PAIRS, ids=[f"{c.name}-{m}" for c, m in PAIRS])
def test_every_engine_on_a_gpu(case, method):
    """EM's end to rounding; drawn results, and those of networks, within what few draws allow: .25 on average."""
    data = tiny(3, items=20, workers=5, classes=case.classes, features=case.features, known=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        here, there = (
            fit(data, case.model, method=method, device=device, seed=0, **SHORT[method]) for device in ("cpu", DEVICE)
        )
    assert there.info["device"].startswith(DEVICE)
    one, other = here.probability_as_published(), there.probability_as_published()
    np.testing.assert_allclose(other.sum(1), 1, atol=1e-6)
    if method == "em" and case.rises:
        np.testing.assert_allclose(other, one, atol=1e-6)
    else:
        assert np.abs(one - other).mean() < 0.25


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("workers", [6, 400])
def test_products_on_a_gpu(dtype, workers):
    """Evidence and expected counts, by dense and by sparse products."""
    rng = np.random.default_rng(0)
    arrays = rng.integers(0, 50, 2000), rng.integers(0, workers, 2000), rng.integers(0, 3, 2000)
    here = Annotations.from_arrays(*arrays, labels=range(3)).to(dtype=dtype)
    there = here.to(DEVICE)
    assert here.counts.dense == there.counts.dense == (workers == 6)
    table = torch.from_numpy(rng.dirichlet(np.ones(3), (here.J, 3))).to(dtype).log()
    r = torch.from_numpy(rng.dirichlet(np.ones(3), here.N)).to(dtype)
    kind = {"rtol": 1e-12 if dtype == torch.float64 else 1e-4, "atol": 0.0}
    torch.testing.assert_close(
        there.counts.log_likelihoods(table.to(DEVICE)).cpu(), here.counts.log_likelihoods(table), **kind
    )
    torch.testing.assert_close(there.counts.expected(r.to(DEVICE)).cpu(), here.counts.expected(r), **kind)
