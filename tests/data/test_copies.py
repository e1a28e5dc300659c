"""Workers who give the same answers are named, honest ones are not."""

import numpy as np
import pytest
from catalog import quiet_fit

from crowdppl import Annotations
from crowdppl.data.alerts import SAME_ANSWERS
from crowdppl.data.copies import copied_answers


def crowd(seed, *, items=300, honest=4, copies=3, share=1.0, classes=3, experts=0, easy=False):
    """Labels by honest workers, and by workers who copy one of accuracy .7 with the given probability.

    ``experts`` of the honest ones have accuracy .97. Where ``easy``, the first two workers see easy items only.
    """
    rng = np.random.default_rng(seed)
    truth = rng.integers(classes, size=items)
    hard = rng.random(items) < 0.5

    def person(accuracy):
        return np.where(rng.random(items) < accuracy, truth, rng.integers(classes, size=items))

    said = [person(0.97 if j < experts else 0.7) for j in range(honest)]
    if easy:
        said = [np.where(hard, labels, truth) for labels in said]
    source = person(0.55)
    said += [np.where(rng.random(items) < (share if n else 1.0), source, person(0.55)) for n in range(copies)]
    item, worker = np.tile(np.arange(items), len(said)), np.repeat(np.arange(len(said)), items)
    keep = ~(easy & (worker < 2) & hard[item])
    return Annotations.from_arrays(item[keep], worker[keep], np.concatenate(said)[keep], labels=range(classes))


def groups(data):
    return [group.workers for group in copied_answers(data)]


@pytest.mark.parametrize(
    ("share", "copies", "honest"), [(1.0, 3, 4), (1.0, 2, 5), (1.0, 4, 26), (0.85, 3, 4), (0.85, 4, 26)]
)
def test_copies_are_named(share, copies, honest):
    """In 19 of 20 crowds at least: a power of .95 fails so with probability .26, of .99 with .02 (binomial)."""
    expected = [tuple(range(honest, honest + copies))]
    named = [groups(crowd(seed, share=share, copies=copies, honest=honest)) == expected for seed in range(20)]
    assert sum(named) >= 19


@pytest.mark.parametrize("options", [{}, {"experts": 3}, {"easy": True}, {"classes": 2}, {"classes": 2, "experts": 2}])
def test_honest_workers_are_not_named(options):
    """In none of 30 crowds; one is named in a crowd with probability .01 at most, and here far less often."""
    assert not any(groups(crowd(seed, copies=0, honest=8, **options)) for seed in range(30))


def test_experts_among_workers_who_guess_are_not_named():
    """The others do not agree: nothing tells accuracy from copying."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        truth = rng.integers(2, size=300)
        knows = np.where(np.arange(12) < 2, 0.97, 0.05)[:, None]
        label = np.where(rng.random((12, 300)) < knows, truth, rng.integers(2, size=(12, 300)))
        worker, item = np.divmod(np.arange(label.size), 300)
        assert groups(Annotations.from_arrays(item, worker, label.ravel(), labels=range(2))) == []


def test_a_popular_wrong_answer_is_no_copy():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        truth, hard = rng.integers(3, size=300), rng.random(300) < 0.3
        label = np.where(rng.random((12, 300)) < 0.85, truth, rng.integers(3, size=(12, 300)))
        label = np.where(hard & (rng.random((12, 300)) < 0.8), (truth + 1) % 3, label)
        worker, item = np.divmod(np.arange(label.size), 300)
        assert groups(Annotations.from_arrays(item, worker, label.ravel(), labels=range(3))) == []


def test_constant_labels_are_no_copies():
    """Workers who always give one label agree by chance."""
    data = crowd(0, copies=0, honest=6)
    label = np.where(data.worker.numpy() >= 4, 0, data.label.numpy())
    assert groups(Annotations.from_arrays(data.item.numpy(), data.worker.numpy(), label, labels=range(3))) == []


def test_too_little_to_tell():
    """Few common items, three workers, and items that nobody else annotated."""
    assert groups(crowd(0, items=15)) == []
    assert groups(crowd(0, honest=1, copies=2)) == []
    item, worker = np.tile(np.arange(100), 2), np.repeat([0, 1], 100)
    alone = np.concatenate([item, np.tile(np.arange(100, 200), 2)]), np.concatenate([worker, worker + 2])
    assert groups(Annotations.from_arrays(*alone, np.tile(np.arange(100) % 3, 4), labels=range(3))) == []


def test_a_fit_warns_of_copies():
    posterior = quiet_fit(crowd(1), "dawid-skene", seed=0)
    (sentence,) = [text for text in posterior.warnings if text.startswith(SAME_ANSWERS)]
    assert "4, 5, 6" in sentence
    assert "900 of 900" in sentence
    assert sentence in posterior.alerts
    assert not any(
        text.startswith(SAME_ANSWERS) for text in quiet_fit(crowd(1, copies=0), "dawid-skene", seed=0).warnings
    )
