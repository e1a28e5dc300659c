"""What accuracy explains of equal labels: of many pairs together as of each by itself."""

import numpy as np
import pytest

from crowdppl import Annotations
from crowdppl.data import copied_pairs, copies
from crowdppl.data.chance_agreement import ChanceAgreement
from crowdppl.data.copied_pairs import AGREEING, MARGIN, OTHERS, explained
from crowdppl.data.first_labels import FirstLabels
from crowdppl.data.worker_items import WorkerItems


def crowd(seed=0, items=150, workers=9, classes=3):
    """Labels of accuracy .75, of which about half are missing."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(classes, size=items)
    said = np.where(rng.random((workers, items)) < 0.75, truth, rng.integers(classes, size=(workers, items)))
    worker, item = np.nonzero(rng.random((workers, items)) < 0.5)
    return Annotations.from_arrays(item, worker, said[worker, item], labels=range(classes))


def by_itself(data, one, other, left_out):
    """The same of one pair, label by label."""
    table = np.full((data.J, data.N), -1)
    table[data.worker.numpy(), data.item.numpy()] = data.label.numpy()
    items = np.flatnonzero((table[one] >= 0) & (table[other] >= 0))
    rest = np.delete(table, [one, other, *left_out], axis=0)[:, items]
    counts = (rest[..., None] == np.arange(data.K)).sum(0)
    number, within = counts.sum(1), ChanceAgreement.within(counts)
    if number.sum() < OTHERS or within is None or within.value <= AGREEING * within.error:
        return np.nan
    parts = [within]
    for labels in (table[one, items], table[other, items]):
        share = np.array([number[labels == k].sum() for k in range(data.K)]) / number.sum()
        equal = counts[np.arange(len(items)), labels]
        parts.append(ChanceAgreement.of(equal, number, float(share @ counts.sum(0) / number.sum())))
    honest = max(0.0, parts[1].value) * max(0.0, parts[2].value) / within.value
    relative = sum((part.error / max(part.value, 1e-3)) ** 2 for part in parts)
    return min(1.0, honest * (1 + MARGIN * relative**0.5))


@pytest.mark.parametrize("block", [copied_pairs.BLOCK, 500])
def test_of_many_pairs_as_of_each(monkeypatch, block):
    monkeypatch.setattr(copied_pairs, "BLOCK", block)
    data = crowd()
    votes = FirstLabels.of(data)
    one, other = np.triu_indices(data.J, 1)
    left_out = [{(a + b) % data.J} - {a, b} if a % 2 else set() for a, b in zip(one, other, strict=True)]
    together = explained(WorkerItems.of(data), votes.counts, one, other, left_out)
    apart = [by_itself(data, a, b, rest) for a, b, rest in zip(one, other, left_out, strict=True)]
    np.testing.assert_allclose(together, apart, rtol=1e-12)
    assert np.isfinite(apart).all()


def test_too_little_is_known_where_nobody_else_agrees():
    data = crowd(items=40, workers=3)
    votes = FirstLabels.of(crowd(items=40, workers=4))
    assert np.isnan(by_itself(data, 0, 1, set()))
    none = explained(votes.cells, votes.counts, np.array([0]), np.array([1]), [{2, 3}])
    assert np.isnan(none).all()


def test_the_same_groups_where_labels_by_worker_and_item_take_too_much_memory(monkeypatch):
    rng = np.random.default_rng(5)
    said = np.where(rng.random((6, 200)) < 0.7, 0, rng.integers(3, size=(6, 200)))
    truth = rng.integers(3, size=200)
    said = (said + truth) % 3
    said[1] = said[0]
    worker, item = np.divmod(np.arange(1200), 200)
    data = Annotations.from_arrays(item, worker, said.reshape(-1), labels=range(3))
    groups = copies.copied_answers(data)
    assert [group.workers for group in groups] == [(0, 1)]
    monkeypatch.setattr(FirstLabels, "beyond_accuracy", lambda self, pairs, *_: np.arange(len(pairs)))
    assert copies.copied_answers(data) == groups
