"""Divergences, curves of classifiers and redundancy."""

import random

import numpy as np
import pandas as pd
import pytest
from catalog import simulated

from crowdppl import Annotations, aggregate, metrics
from crowdppl.errors import DataError, OptionError, silent
from crowdppl.models import DawidSkene

RNG = np.random.default_rng(3)
MATRICES = RNG.dirichlet(np.ones(4), size=(5, 4))


def test_equal_matrices_have_no_divergence_and_disjoint_ones_a_bit():
    assert metrics.individual_divergence(MATRICES, MATRICES) == pytest.approx(0, abs=1e-15)
    assert metrics.global_divergence(MATRICES, MATRICES) == pytest.approx(0, abs=1e-15)
    eye = np.eye(4)
    assert metrics.divergence(eye, np.roll(eye, 1, 1)) == pytest.approx(1)
    denormal = np.full((2, 2), 5e-324)
    np.fill_diagonal(denormal, 1.0)
    assert np.isfinite(metrics.divergence(denormal, np.eye(2)))


def test_divergence_is_the_formula():
    other = RNG.dirichlet(np.ones(4), size=(5, 4))
    each = []
    for p, q in zip(MATRICES, other, strict=True):
        rows = []
        for a, b in zip(p, q, strict=True):
            m = (a + b) / 2
            rows.append(
                sum(x * np.log(x / z) + y * np.log(y / z) for x, y, z in zip(a, b, m, strict=True)) / 2 / np.log(2)
            )
        each.append(np.mean(rows))
    np.testing.assert_allclose(metrics.divergence(MATRICES, other), each, atol=1e-12)
    assert metrics.individual_divergence(MATRICES, other) == pytest.approx(np.mean(each))
    crowd = float(metrics.divergence(MATRICES.mean(0), other.mean(0)))
    assert metrics.global_divergence(MATRICES, other) == pytest.approx(crowd)


def test_empirical_confusion_by_hand():
    data = Annotations.from_arrays(["a", "b", "a", "b", "c"], ["u", "u", "v", "v", "v"], [0, 1, 1, 1, 0], labels=[0, 1])
    table = metrics.empirical_confusion(data, {"a": 0, "b": 1})
    np.testing.assert_allclose(table, [[[1, 0], [0, 1]], [[0, 1], [0, 1]]])
    half = metrics.empirical_confusion(data, {"a": 0})
    np.testing.assert_allclose(half[:, 1], 0.5)
    with silent(), pytest.raises(DataError, match="no true label of an item"):
        metrics.empirical_confusion(data, {"z": 0})


def test_area_and_curve_are_scikit_learns():
    state = random.getstate()  # importing it draws random numbers
    sklearn = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    random.setstate(state)
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, 300)
    score = np.round(rng.normal(truth, 1.5), 1)  # with ties
    assert metrics.auc(score, truth) == pytest.approx(sklearn.roc_auc_score(truth, score), abs=1e-10)
    curve = metrics.roc(score, truth)
    false, true, threshold = sklearn.roc_curve(truth, score, drop_intermediate=False)
    np.testing.assert_allclose(curve["false_positive_rate"], false, atol=1e-10)
    np.testing.assert_allclose(curve["true_positive_rate"], true, atol=1e-10)
    np.testing.assert_allclose(curve["threshold"], threshold)
    several = rng.dirichlet(np.ones(3), size=300)
    known = rng.integers(0, 3, 300)
    theirs = sklearn.roc_auc_score(known, several, multi_class="ovr", average="macro")
    assert metrics.auc(several, known) == pytest.approx(theirs, abs=1e-10)


@pytest.mark.parametrize(
    ("probability", "truth", "said"),
    [
        ([0.1, 0.2], [1], "shape"),
        ([0.1, np.nan], [0, 1], "not finite"),
        ([0.1, 0.2], [0, 2], "numbers of classes"),
        ([0.1, 0.2], [1, 1], "one class"),
    ],
)
def test_curves_refuse(probability, truth, said):
    for function in (metrics.auc, metrics.roc):
        with pytest.raises(OptionError, match=said):
            function(probability, truth)


@pytest.mark.parametrize("table", [np.ones((2, 3)) / 3, np.ones((3, 3)), [[0.5, 0.6], [0.5, 0.5]]])
def test_divergence_refuses(table):
    with pytest.raises(OptionError, match="must be"):
        metrics.divergence(table, np.eye(2))


@pytest.mark.parametrize("function", [metrics.divergence, metrics.individual_divergence])
def test_tables_of_different_workers_have_no_divergence(function):
    with pytest.raises(OptionError, match=r"shape \(5, 4, 4\) and .* \(3, 4, 4\)"):
        function(MATRICES, MATRICES[:3])
    with pytest.raises(OptionError, match="classes"):
        function(MATRICES, np.eye(3))
    assert np.shape(metrics.divergence(MATRICES, np.eye(4))) == (5,)
    with pytest.raises(OptionError, match="confusion has 4 classes and reference 3"):
        metrics.global_divergence(MATRICES, np.eye(3))


def test_redundancy():
    data, truth, _ = simulated(items=150, workers=10, per_item=6, seed=4)
    known = pd.Series(data.labels[truth], index=data.items)
    methods = {"majority": aggregate.majority, "Dawid-Skene": "dawid-skene", "flat": DawidSkene.maximum_likelihood()}
    curve = metrics.redundancy_curve(data, known, methods, levels=(1, 3, 6), draws=4, seed=1)
    assert curve.table["draws"].tolist() == [4] * 6 + [1] * 3
    accuracy = curve.table.pivot_table(index="per_item", columns="method", values="accuracy")
    assert (accuracy.loc[6] > accuracy.loc[1]).all()
    whole = aggregate.majority(data).accuracy(known)[0]
    assert accuracy.loc[6, "majority"] == pytest.approx(whole)
    again = metrics.redundancy_curve(data, known, {"majority": aggregate.majority}, levels=(1, 3, 6), draws=4, seed=1)
    np.testing.assert_array_equal(again.table["accuracy"], curve.table.query("method == 'majority'")["accuracy"])
    assert len(curve.plot().get_legend().get_texts()) == 3
    with pytest.raises(OptionError, match="empty"):
        metrics.redundancy_curve(data, known, {})
    with pytest.raises(OptionError, match="is a int"):
        metrics.redundancy_curve(data, known, {"a": 1})


def test_majority_on_real_data(public):
    """The MAJ column of the LIA paper's Table 2, RTE at 2, 5 and 10: 72.8, 84.8, 90.0; ours within a point."""
    data, truth = public("rte")
    curve = metrics.redundancy_curve(data, truth, {"majority": aggregate.vote_shares}, levels=(2, 5, 10), draws=20)
    np.testing.assert_allclose(curve.table["accuracy"], [0.728, 0.848, 0.900], atol=0.01)
