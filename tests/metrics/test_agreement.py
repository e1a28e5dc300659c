"""Agreement against printed examples, other programs, brute force and simulation."""

import random
from itertools import permutations

import numpy as np
import pytest
from catalog import tiny

from crowdppl import Annotations, metrics
from crowdppl.errors import DataError, silent
from crowdppl.metrics.coefficients import label_weights

# Krippendorff's example, as in Gwet's raw4raters: four workers, twelve items, 0 for missing.
FOUR = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3],
        [0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0],
    ]
)
# Fleiss' example: 10 items, 14 workers, 5 labels.
FLEISS = [
    [0, 0, 0, 0, 14],
    [0, 2, 6, 4, 2],
    [0, 0, 3, 5, 6],
    [0, 3, 9, 2, 0],
    [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0],
    [3, 2, 6, 3, 0],
    [2, 5, 3, 2, 2],
    [6, 5, 2, 1, 0],
    [0, 2, 2, 3, 7],
]


def scikit_learn():
    """Return its metrics; importing them draws random numbers."""
    state = random.getstate()
    module = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    random.setstate(state)
    return module


def annotated(table):
    """Annotations of a table (worker, item), 0 for missing."""
    worker, item = np.nonzero(table)
    return Annotations.from_arrays(item, worker, table[worker, item], labels=range(1, table.max() + 1))


def values(data, **options):
    return metrics.agreement(data, **options).set_index("measure")["value"]


def test_printed_examples():
    """Krippendorff's nominal alpha .743; Gwet's AC1 .77544 and Fleiss' kappa .76117; agreement .81818 (irrCAC's manual)."""
    of = values(annotated(FOUR))
    assert of["krippendorff_alpha"] == pytest.approx(0.74342, abs=5e-6)
    assert of["gwet_ac"] == pytest.approx(0.77544, abs=5e-6)
    assert of["fleiss_kappa"] == pytest.approx(0.76117, abs=5e-6)
    assert of["agreement"] == pytest.approx(0.81818, abs=5e-6)


def test_fleiss():
    item, worker, label = [], [], []
    for i, row in enumerate(FLEISS):
        given = np.repeat(np.arange(5), row)
        item += [i] * 14
        worker += list(range(14))
        label += given.tolist()
    of = values(Annotations.from_arrays(item, worker, label, labels=range(5)))
    assert of["fleiss_kappa"] == pytest.approx(0.210, abs=5e-4)
    assert of["agreement"] == pytest.approx(0.378, abs=5e-4)


@pytest.mark.parametrize("weights", metrics.WEIGHTS)
def test_brute_force(weights):
    """Pair by pair, with different numbers of annotations per item, to 1e-10."""
    data = tiny(7, items=9, workers=6, classes=4)
    w = label_weights(data.K, weights)
    given = [data.label[data.item == i].tolist() for i in range(data.N)]
    several = [labels for labels in given if len(labels) > 1]
    observed = np.mean([np.mean([w[a, b] for a, b in permutations(labels, 2)]) for labels in several])
    share = np.mean([np.bincount(labels, minlength=data.K) / len(labels) for labels in given if labels], axis=0)
    fleiss = sum(share[k] * w[k, m] * share[m] for k in range(data.K) for m in range(data.K))
    gwet = w.sum() / (data.K * (data.K - 1)) * sum(share * (1 - share))
    every = [k for labels in several for k in labels]
    apart = np.mean([w[a, b] for a, b in permutations(every, 2)])
    together = sum(sum(w[a, b] for a, b in permutations(labels, 2)) / (len(labels) - 1) for labels in several) / len(
        every
    )
    of = values(data, weights=weights)
    assert of["agreement"] == pytest.approx(observed, abs=1e-10)
    assert of["fleiss_kappa"] == pytest.approx((observed - fleiss) / (1 - fleiss), abs=1e-10)
    assert of["gwet_ac"] == pytest.approx((observed - gwet) / (1 - gwet), abs=1e-10)
    assert of["krippendorff_alpha"] == pytest.approx((together - apart) / (1 - apart), abs=1e-10)


@pytest.mark.parametrize("weights", metrics.WEIGHTS)
def test_cohen_is_scikit_learns(weights):
    sklearn = scikit_learn()
    rng = np.random.default_rng(0)
    first = rng.integers(0, 4, 60)
    second = np.where(rng.random(60) < 0.6, first, rng.integers(0, 4, 60))
    data = Annotations.from_arrays(
        np.tile(np.arange(60), 2), np.repeat(["u", "v"], 60), np.concatenate([first, second]), labels=range(4)
    )
    row = metrics.pairwise_agreement(data, weights=weights).iloc[0]
    theirs = sklearn.cohen_kappa_score(
        first, second, weights=None if weights == "nominal" else weights, labels=range(4)
    )
    assert row["cohen_kappa"] == pytest.approx(theirs, abs=1e-10)
    assert row["low"] < row["cohen_kappa"] < row["high"]
    assert (row["first"], row["second"], row["items"]) == ("u", "v", 60)


def test_intervals_cover():
    """89% intervals of all coefficients cover the value of the population in 84 to 94% of 400 samples.

    The population is 20,000 items; a sample has 60 of them with three to five annotations. With 400 samples the share of a
    correct interval is within 84 and 94% with a probability of .998.
    """
    rng = np.random.default_rng(5)
    N, K = 20_000, 3
    truth = rng.choice(K, N, p=[0.6, 0.3, 0.1])
    worker = rng.integers(0, 8, (N, 5))
    correct = rng.random((N, 5)) < np.linspace(0.55, 0.95, 8)[worker]
    label = np.where(correct, truth[:, None], rng.integers(0, K, (N, 5)))
    kept = np.arange(5) < rng.integers(3, 6, N)[:, None]

    def data_of(items):
        rows, columns = np.nonzero(kept[items])
        return Annotations.from_arrays(
            rows, worker[items][rows, columns], label[items][rows, columns], labels=range(K), repeats="keep"
        )

    known = values(data_of(np.arange(N)))
    hits = []
    for _ in range(400):
        table = metrics.agreement(data_of(rng.choice(N, 60, replace=False)), level=0.89).set_index("measure")
        hits.append((table["low"] <= known) & (known <= table["high"]))
    share = np.mean(hits, axis=0)
    assert (share > 0.84).all()
    assert (share < 0.94).all()


def test_perfect_and_absent_agreement():
    same = Annotations.from_arrays(np.repeat(np.arange(6), 2), np.tile([0, 1], 6), np.repeat([0, 1, 2, 0, 1, 2], 2))
    assert (values(same) == 1).all()
    never = Annotations.from_arrays(np.repeat(np.arange(6), 2), np.tile([0, 1], 6), [0, 1] * 6)
    assert values(never)["fleiss_kappa"] == pytest.approx(-1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(([0, 1], [0, 1], [0, 1]), "0 items have two annotations"), (([0, 0], [0, 1], [1, 1]), "one class")],
)
def test_too_little_data(arguments, said):
    with silent():
        data = Annotations.from_arrays(*arguments)
    with pytest.raises(DataError, match=said):
        metrics.agreement(data)
