"""Agreement against printed examples, other programs, brute force and simulation."""

import random
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from catalog import tiny

from crowdppl import Annotations, metrics
from crowdppl.data.worker_items import WorkerItems
from crowdppl.errors import CrowdpplWarning, DataError, OptionError, silent
from crowdppl.metrics import coefficients
from crowdppl.metrics.scales import label_weights, places

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


@pytest.mark.parametrize("weights", ["nominal", "linear", "quadratic"])
def test_brute_force(weights):
    """Pair by pair, with different numbers of workers per item, some of whom repeat themselves, to 1e-10."""
    data = tiny(7, items=9, workers=6, classes=4)
    w = label_weights(np.arange(data.K), weights)
    given = {}
    for i, j, k in zip(data.item.tolist(), data.worker.tolist(), data.label.tolist(), strict=True):
        given.setdefault(i, {}).setdefault(j, []).append(k)
    assert any(len(labels) > 1 for item in given.values() for labels in item.values())

    def alike(one, other):
        return np.mean([w[a, b] for a in one for b in other])

    several = [list(item.values()) for item in given.values() if len(item) > 1]
    observed = np.mean([np.mean([alike(*pair) for pair in permutations(item, 2)]) for item in several])
    share = np.mean(
        [
            np.mean([np.bincount(labels, minlength=data.K) / len(labels) for labels in item.values()], axis=0)
            for item in given.values()
        ],
        axis=0,
    )
    fleiss = sum(share[k] * w[k, m] * share[m] for k in range(data.K) for m in range(data.K))
    gwet = w.sum() / (data.K * (data.K - 1)) * sum(share * (1 - share))
    every = [labels for item in several for labels in item]
    apart = np.mean([alike(*pair) for pair in permutations(every, 2)])
    together = sum(sum(alike(*pair) for pair in permutations(item, 2)) / (len(item) - 1) for item in several) / len(
        every
    )
    of = values(data, weights=weights)
    assert of["agreement"] == pytest.approx(observed, abs=1e-10)
    assert of["fleiss_kappa"] == pytest.approx((observed - fleiss) / (1 - fleiss), abs=1e-10)
    assert of["gwet_ac"] == pytest.approx((observed - gwet) / (1 - gwet), abs=1e-10)
    assert of["krippendorff_alpha"] == pytest.approx((together - apart) / (1 - apart), abs=1e-10)


@pytest.mark.parametrize("weights", ["nominal", "linear", "quadratic"])
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


@pytest.mark.slow
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


# ---------------------------------------------------------------------- repeats of one worker


def two_guessers(seed=1, items=30):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "task": np.tile(np.arange(items), 2),
            "worker": np.repeat(["a", "b"], items),
            "label": rng.integers(0, 3, 2 * items),
        }
    )


@pytest.mark.parametrize("copies", [["a"], ["b"], ["a", "b"], ["a", "a", "a"]])
def test_own_repeats_are_no_agreement_of_workers(copies):
    """Rows given several times leave every coefficient and interval as it was."""
    frame = two_guessers()
    more = pd.concat([frame, *(frame[frame["worker"] == name] for name in copies)])
    once, again = (metrics.agreement(Annotations.from_frame(rows)) for rows in (frame, more))
    assert again["measure"].tolist() == [*once["measure"], "intra_rater"]
    pd.testing.assert_frame_equal(again.iloc[:-1], once)
    assert again["value"].iloc[-1] == 1
    assert again["low"].iloc[-1] < 1
    assert again["items"].iloc[-1] == 30 * len(set(copies))
    pairs = [metrics.pairwise_agreement(Annotations.from_frame(rows)) for rows in (frame, more)]
    pd.testing.assert_frame_equal(*pairs)


def test_repeats_that_differ_count_in_part():
    """One worker says 0, 0, 1 of an item and another 0: two of three agree; of his own three pairs one does."""
    frame = pd.DataFrame(
        [
            ("x", "u", 0),
            ("x", "u", 0),
            ("x", "u", 1),
            ("x", "v", 0),
            ("y", "u", 1),
            ("y", "v", 1),
            ("z", "u", 1),
            ("z", "u", 1),
        ],
        columns=["task", "worker", "label"],
    )
    table = metrics.agreement(Annotations.from_frame(frame)).set_index("measure")
    assert table.loc["agreement", "value"] == pytest.approx((2 / 3 + 1) / 2)
    assert table.loc["intra_rater", "value"] == pytest.approx((1 / 3 + 1) / 2)
    assert table.loc["intra_rater", "items"] == 2


def test_one_worker_alone_has_only_his_repeats():
    data = Annotations.from_arrays([1, 1, 2, 2], ["a"] * 4, [0, 0, 0, 1])
    with pytest.warns(CrowdpplWarning, match="own repeats"):
        table = metrics.agreement(data)
    assert table["measure"].tolist() == ["intra_rater"]
    assert table["value"].tolist() == [0.5]


def test_counts_of_labels_are_of_different_workers():
    """Fleiss' example as counts, where workers are unknown, has his kappa."""
    counts = pd.DataFrame(FLEISS).rename_axis("task").reset_index()
    table = metrics.agreement(Annotations.from_counts(counts, task="task"))
    assert table["measure"].tolist() == ["agreement", "krippendorff_alpha", "fleiss_kappa", "gwet_ac"]
    assert table.set_index("measure")["value"]["fleiss_kappa"] == pytest.approx(0.210, abs=5e-4)


# ---------------------------------------------------------------------- order of labels

WORDS = {"a": ["low", "high", "medium", "low", "high"], "b": ["low", "high", "high", "medium", "high"]}


def worded(said=WORDS, **options):
    rows = [(n, worker, word) for worker, words in said.items() for n, word in enumerate(words)]
    return Annotations.from_frame(pd.DataFrame(rows, columns=["task", "worker", "label"]), **options)


@pytest.mark.parametrize("weights", ["ordinal", "linear", "quadratic"])
def test_words_need_their_order(weights):
    for function in (metrics.agreement, metrics.pairwise_agreement):
        with pytest.raises(OptionError, match=r"labels=\[\.\.\.\]"):
            function(worded(), weights=weights)
    assert len(metrics.agreement(worded(), weights="nominal")) == 4


def test_a_stated_order_counts():
    stated = worded(labels=["low", "medium", "high"])
    assert values(stated, weights="linear")["fleiss_kappa"] == pytest.approx(0.5652, abs=1e-4)
    rows = pd.DataFrame(
        [(n, worker, word) for worker, words in WORDS.items() for n, word in enumerate(words)],
        columns=["task", "worker", "label"],
    )
    kinds = {
        "ordered": pd.CategoricalDtype(["low", "medium", "high"], ordered=True),
        "in order": pd.CategoricalDtype(["low", "medium", "high"]),
        "sorted by pandas": "category",
    }
    kappas = {}
    for name, kind in kinds.items():
        data = Annotations.from_frame(rows.astype({"label": kind}))
        try:
            kappas[name] = values(data, weights="linear")["fleiss_kappa"]
        except OptionError:
            kappas[name] = None
    assert kappas["ordered"] == kappas["in order"] == pytest.approx(0.5652, abs=1e-4)
    assert kappas["sorted by pandas"] is None


def test_two_words_need_no_order():
    data = worded({"a": ["yes", "no", "no", "yes"], "b": ["yes", "no", "yes", "yes"]})
    assert values(data, weights="linear").tolist() == pytest.approx(values(data).tolist())


@pytest.mark.parametrize("weights", ["ordinal", "linear", "quadratic"])
@pytest.mark.parametrize("scale", [1.0, -1.0, 0.5])
def test_numbers_as_text_have_the_order_of_numbers(weights, scale):
    """`'10'` follows `'9'`, `'-2'` precedes `'-1'`; and with all distances twice as long agreement is the same."""
    rng = np.random.default_rng(2)
    score = rng.integers(1, 11, 40)
    given = np.concatenate([np.clip(score + rng.integers(-1, 2, 40), 1, 10) for _ in range(3)])
    place = (np.tile(np.arange(40), 3), np.repeat(["a", "b", "c"], 40))
    with silent():  # numbers that are not whole are noted
        as_text = Annotations.from_arrays(*place, [f"{scale * value:g}" for value in given], kind="nominal")
    number = Annotations.from_arrays(*place, given)
    assert values(as_text, weights=weights).tolist() == pytest.approx(values(number, weights=weights).tolist())
    assert values(number, weights=weights)["krippendorff_alpha"] > 0.7


def test_numbers_and_a_word_need_their_order():
    with pytest.raises(OptionError, match="labels="):
        metrics.agreement(worded({"a": ["1", "2", "none"], "b": ["1", "2", "2"]}), weights="linear")


def test_ordinal_and_interval_alpha():
    """Krippendorff's own figures for his example: ordinal .815, interval .849."""
    assert values(annotated(FOUR), weights="ordinal")["krippendorff_alpha"] == pytest.approx(0.815, abs=5e-4)
    assert values(annotated(FOUR), weights="quadratic")["krippendorff_alpha"] == pytest.approx(0.849, abs=5e-4)


# ---------------------------------------------------------------------- intervals


@pytest.mark.parametrize("workers", [2, 3, 5])
@pytest.mark.parametrize("weights", metrics.WEIGHTS)
def test_agreement_of_all_is_not_certain(workers, weights):
    """20 of 20: the exact lower end is .832 at 95%."""
    data = Annotations.from_arrays(
        np.tile(np.arange(20), workers), np.repeat(np.arange(workers), 20), np.tile([0, 1, 2, 1], 5 * workers)
    )
    table = metrics.agreement(data, weights=weights, level=0.95).set_index("measure")
    assert (table["value"] == 1).all()
    assert (table["high"] == 1).all()
    assert 0.8 < table.loc["agreement", "low"] < 0.85
    assert (table["low"] < 0.85).all()
    pairs = metrics.pairwise_agreement(data, weights=weights, level=0.95)
    assert (pairs[["agreement_low", "low"]] < 0.85).all().all()
    icc = metrics.intraclass_correlation(data, level=0.95)
    assert ((icc["value"] == 1) & (icc["low"] < 0.95)).all()


def test_ends_lie_within_the_range():
    never = Annotations.from_arrays(np.repeat(np.arange(6), 2), np.tile([0, 1], 6), [0, 1] * 6)
    table = metrics.agreement(never, level=0.99).set_index("measure")
    assert table.loc["agreement", "low"] == 0
    assert (table[["low", "high"]] >= -1).all().all()
    assert (table["low"] <= table["value"] + 1e-12).all()


@pytest.mark.parametrize(
    ("agreeing", "samples"), [(0.95, 80), *(pytest.param(p, 300, marks=pytest.mark.slow) for p in (0.95, 0.8))]
)
def test_intervals_of_few_items_cover(agreeing, samples):
    """Two workers, 20 items: 95% intervals hold the true agreement and kappa in at least 91% of the samples."""
    rng = np.random.default_rng(4)
    truth = np.array([agreeing, 2 * agreeing - 1])  # labels of a fair coin
    hits = []
    for _ in range(samples):
        first = rng.integers(0, 2, 20)
        second = np.where(rng.random(20) < agreeing, first, 1 - first)
        data = Annotations.from_arrays(
            np.tile(np.arange(20), 2), np.repeat([0, 1], 20), np.r_[first, second], labels=[0, 1]
        )
        table = metrics.agreement(data, level=0.95).set_index("measure").loc[["agreement", "gwet_ac"]]
        hits.append((table["low"].to_numpy() <= truth) & (truth <= table["high"].to_numpy()))
    assert (np.mean(hits, axis=0) >= 0.91).all()


def test_a_rare_label_has_numbers(recwarn):
    label = np.zeros((2, 20), dtype=int)
    label[1, 3] = 1
    data = Annotations.from_arrays(np.tile(np.arange(20), 2), np.repeat([0, 1], 20), label.ravel())
    tables = (metrics.agreement(data), metrics.pairwise_agreement(data))
    assert not any(table.isna().any().any() for table in tables)
    assert not len(recwarn)


def test_equal_labels_only_are_undefined():
    data = Annotations.from_arrays(
        np.tile(np.arange(9), 2), np.repeat([0, 1], 9), np.ones(18, dtype=int), labels=[0, 1]
    )
    with pytest.warns(CrowdpplWarning, match="all labels are the same"):
        table = metrics.agreement(data).set_index("measure")
    assert table.loc[["krippendorff_alpha", "fleiss_kappa"], ["value", "low", "high"]].isna().all().all()
    assert table.loc["gwet_ac", "value"] == 1
    assert np.isnan(metrics.pairwise_agreement(data)["cohen_kappa"][0])


@pytest.mark.parametrize("weights", metrics.WEIGHTS)
def test_influences_are_derivatives(weights):
    """The influence of an item on each coefficient is what a little more weight of it changes: here, many copies."""
    data = tiny(3, items=8, workers=5, classes=3)
    item, worker, label = (part.numpy() for part in (data.item, data.worker, data.label))
    copies = 400

    def copied(times):
        parts = [(item + 1000 * n, worker, label) for n in range(times)]
        return [np.concatenate(part) for part in zip(*parts, strict=True)]

    rows = copied(copies)
    at = item == item[0]
    more = [np.concatenate(pair) for pair in zip(rows, (item[at] + 10**6, worker[at], label[at]), strict=True)]
    base, other = (values(Annotations.from_arrays(*each, labels=range(3)), weights=weights) for each in (rows, more))
    change = (other - base) * copies
    table = influences(data, weights)
    for name, influence in table.items():
        assert influence == pytest.approx(change[name], abs=0.02)


def influences(data, weights):
    """Influence of the first item on each coefficient."""
    cells = WorkerItems.of(data)
    several, place = cells.raters > 1, places(data, weights)
    w = label_weights(place, weights)
    each_measure = coefficients._by_items(cells, coefficients._own_agreement(cells, w), several, w)
    each_measure["krippendorff_alpha"] = coefficients._alpha(cells, several, place, weights)
    assert several[0]
    return {name: each.influence[0] for name, each in each_measure.items()}


# ---------------------------------------------------------------------- pairs and correlations


def test_pairs_with_few_items_are_shown_or_counted():
    data = Annotations.from_arrays([*range(15), *range(15)], ["a"] * 15 + ["b"] * 15, [0, 1] * 15)
    assert metrics.pairwise_agreement(data)["items"].tolist() == [15]
    data = Annotations.from_arrays(
        [*range(30), *range(30), *range(6)], ["a"] * 30 + ["b"] * 30 + ["c"] * 6, [0, 1] * 33
    )
    with pytest.warns(CrowdpplWarning, match="2 of 3 pairs .* minimum=1"):
        assert metrics.pairwise_agreement(data)["items"].tolist() == [30]
    assert metrics.pairwise_agreement(data, minimum=1)["items"].tolist() == [30, 6, 6]
    with pytest.warns(CrowdpplWarning, match="3 of 3 pairs"):
        assert metrics.pairwise_agreement(data, minimum=31).empty


SHROUT_FLEISS = np.array([[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]])


def test_intraclass_correlations_of_the_paper():
    """Shrout and Fleiss' example: .17, .29 and .62; intervals as R's psych gives them."""
    data = Annotations.from_arrays(np.repeat(np.arange(6), 4), np.tile(list("abcd"), 6), SHROUT_FLEISS.ravel())
    table = metrics.intraclass_correlation(data, level=0.95).set_index("measure")
    assert table["value"].round(2).tolist() == [0.17, 0.29, 0.62]
    assert table["low"].round(2).tolist() == [-0.13, 0.02, 0.07]
    assert table["high"].round(2).tolist() == [0.72, 0.76, 0.93]
    text = Annotations.from_arrays(
        np.repeat(np.arange(6), 4), np.tile(list("abcd"), 6), SHROUT_FLEISS.ravel().astype(str)
    )
    np.testing.assert_allclose(
        metrics.intraclass_correlation(text, level=0.95).iloc[:, 1:], table.reset_index().iloc[:, 1:]
    )


def test_intraclass_correlations_of_incomplete_tables():
    rows, columns = np.nonzero(np.ones((6, 4)))
    kept = columns != rows % 4
    data = Annotations.from_arrays(rows[kept], columns[kept], SHROUT_FLEISS[rows[kept], columns[kept]])
    with pytest.warns(CrowdpplWarning, match="icc_a_1"):
        assert metrics.intraclass_correlation(data)["measure"].tolist() == ["icc_1"]
    with pytest.raises(DataError, match="numbers"):
        metrics.intraclass_correlation(worded())
