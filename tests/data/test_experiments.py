"""Real annotations altered for experiments."""

import numpy as np
import pytest
import torch
from catalog import quiet_fit, simulated, tiny

from crowdppl import DataError
from crowdppl.data import datasets
from crowdppl.data.experiments import thinned, with_reference_workers


def annotations(data):
    return set(zip(data.item.tolist(), data.worker.tolist(), data.label.tolist(), strict=True))


def test_thinned():
    data = simulated(items=200, seed=0, per_item=5)[0]
    for per_item in (1, 3, 5, 9):
        few = thinned(data, per_item=per_item, seed=0)
        assert few.annotations_per_item.tolist() == data.annotations_per_item.clamp(max=per_item).tolist()
        assert annotations(few) <= annotations(data)
        assert few.workers.tolist() == data.workers.tolist()
    first, again, other = (annotations(thinned(data, per_item=2, seed=seed)) for seed in (1, 1, 2))
    assert first == again != other


def test_each_annotation_is_as_likely():
    """Of 400 choices of two of five: a share of .4 within five standard errors; a false alarm in one of 10,000 seeds."""
    data = simulated(items=6, seed=0, per_item=5)[0]
    total = np.zeros(data.A)
    kept = list(zip(data.item.tolist(), data.worker.tolist(), strict=True))
    for seed in range(400):
        few = thinned(data, per_item=2, seed=seed)
        for pair in zip(few.item.tolist(), few.worker.tolist(), strict=True):
            total[kept.index(pair)] += 1
    assert np.abs(total / 400 - 0.4).max() < 5 * np.sqrt(0.4 * 0.6 / 400)


def test_reference_workers():
    data = tiny(1, covariates=True)
    truth = {name: data.labels[n % data.K] for n, name in enumerate(data.items.tolist()) if n != 2}
    more = with_reference_workers(data, truth, seed=0)
    assert more.workers.tolist()[-2:] == ["always right", "always wrong"]
    assert data.A + 2 * len(truth) == more.A
    assert (more.item.diff() >= 0).all()
    codes = np.array([n % data.K for n in range(data.N)])
    for worker, right in ((data.J, True), (data.J + 1, False)):
        own = (more.worker == worker).numpy()
        items = more.item.numpy()[own]
        assert items.tolist() == [n for n in range(data.N) if n != 2]
        assert ((more.label.numpy()[own] == codes[items]) == right).all()
    before = more.keep(more.worker < data.J)
    assert annotations(before) == annotations(data)
    assert torch.equal(before.standard_covariates, data.standard_covariates)
    assert not more.standard_covariates[more.worker >= data.J].any()
    with pytest.raises(DataError, match="always right"):
        with_reference_workers(more, truth, seed=0)
    with pytest.raises(DataError, match="no true label"):
        with_reference_workers(data, {}, seed=0)


@pytest.mark.slow
def test_they_are_first_and_last_on_rte():
    if datasets.folder() is None:
        pytest.skip("needs the public data sets: CROWDPPL_DATA names their folder")
    data, truth = datasets.public("rte")
    posterior = quiet_fit(with_reference_workers(data, truth, seed=0), "dawid-skene", method="em")
    order = posterior.workers(sort="accuracy")["worker"].tolist()
    assert {order[0], order[-1]} == {"always right", "always wrong"}
