"""Infit and outfit: the same as by hand, 1 where raters differ in severity alone, high of a careless rater."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import quiet_fit

from crowdppl import DataError, ModelError, criticism
from crowdppl.inference.stored import data_of
from crowdppl.model import place_shapes
from crowdppl.model.sampling import simulate
from crowdppl.models import GradedFacets
from crowdppl.report.grades import fit_sentence


@pytest.fixture(scope="module")
def posterior():
    """Grades by six raters who differ in severity, and of whom the last is careless."""
    task, worker = np.repeat(np.arange(150), 6), np.tile(np.arange(6), 150)
    fixed = {"crowd_log_slope": np.log(3.0), "spread_precision": [100.0, 4.0, 100.0]}
    fixed |= {"log_slope": np.log([3.0, 3.0, 3.0, 3.0, 3.0, 0.8])}
    data, _, _ = simulate(GradedFacets(), task, worker, classes=4, seed=1, parameters=fixed)
    return quiet_fit(dataclasses.replace(data, kind="ordinal"), "graded-facets", method="em", seed=0)


def own_tables(posterior):
    """Return the places of items, their weights, and the tables of raters at the mode, by the equations of the model."""
    point = posterior.tree["point"].to_dataset()
    x = np.linspace(-4, 4, 25)
    weight = np.exp(-(x**2) / 2 + place_shapes.basis(25, 6, 4.0).numpy() @ point["shape"].values)
    tables = []
    for j in range(6):
        heights = np.concatenate([[0.0], np.exp(point["log_gaps"].values[j]).cumsum()])
        threshold = point["middle"].values[j] + heights - heights.mean()
        above = 1 / (1 + np.exp(-(np.exp(point["log_slope"].values[j]) * x[:, None] - threshold)))
        bounds = np.concatenate([np.ones((25, 1)), above, np.zeros((25, 1))], 1)
        tables.append(bounds[:, :-1] - bounds[:, 1:])
    return tables, weight


def by_hand(posterior, tables, weight):
    """Return infit and outfit of raters, grade by grade."""
    item, worker, label = posterior.annotation_index()
    squares, variances = [[] for _ in range(6)], [[] for _ in range(6)]
    for n in range(len(item)):
        p = weight.copy()
        for m in np.flatnonzero(item == item[n]):
            if m != n:
                p *= tables[worker[m]][:, label[m]]
        predicted = (p / p.sum()) @ tables[worker[n]]
        mean = predicted @ np.arange(4)
        squares[worker[n]].append((label[n] - mean) ** 2)
        variances[worker[n]].append(predicted @ np.arange(4) ** 2 - mean**2)
    infit = [np.sum(s) / np.sum(v) for s, v in zip(squares, variances, strict=True)]
    outfit = [np.mean(np.divide(s, v)) for s, v in zip(squares, variances, strict=True)]
    return np.array(infit), np.array(outfit)


def test_mean_squares_are_those_by_hand(posterior):
    own = criticism.mean_squares(posterior, slopes="own", draws=20)
    tables, weight = own_tables(posterior)
    infit, outfit = by_hand(posterior, tables, weight)
    np.testing.assert_allclose(own["infit"], infit, rtol=1e-9)
    np.testing.assert_allclose(own["outfit"], outfit, rtol=1e-9)
    # With equal slopes the tables are other ones, which keep the mean grades.
    point = posterior.tree["point"].to_dataset()
    values = {name: torch.as_tensor(value.values) for name, value in point.data_vars.items()}
    equal = GradedFacets().equal_raters(values, data_of(posterior)).numpy()
    share = weight / weight.sum()
    np.testing.assert_allclose(
        np.einsum("s,jsk,k->j", share, equal, np.arange(4)),
        np.einsum("s,jsk,k->j", share, np.array(tables), np.arange(4)),
        atol=1e-6,
    )
    logits = np.log(equal[:, :, 1:].sum(-1) / equal[:, :, 0])
    np.testing.assert_allclose(np.diff(logits, axis=1), np.exp(float(point["crowd_log_slope"])) / 3, rtol=1e-6)
    infit, outfit = by_hand(posterior, equal, weight)
    table = criticism.mean_squares(posterior, draws=20)
    np.testing.assert_allclose(table["infit"], infit, rtol=1e-9)
    np.testing.assert_allclose(table["outfit"], outfit, rtol=1e-9)


def test_a_careless_rater_stands_out_and_no_other(posterior):
    table = criticism.mean_squares(posterior, draws=200)
    assert (table["annotations"] == 150).all()
    assert table["infit"].idxmax() == table["outfit"].idxmax() == 5
    assert table["infit"][5] > table["infit_to"][5]
    assert table["infit_p"][5] < 0.05
    assert (table["infit"][:5] < 1.3).all()
    assert (table["infit_from"] < 1).all()
    assert (table["infit_to"] > 1).all()
    # His own slope says the same, so that with it nothing is left to be seen.
    own = criticism.mean_squares(posterior, slopes="own", draws=100)
    assert own["infit"].mean() == pytest.approx(1, abs=0.1)
    assert own["infit_p"].min() > 0.02
    items = criticism.mean_squares(posterior, of="item", draws=20)
    assert len(items) == 150
    assert list(items.columns[:2]) == ["task", "annotations"]


def test_what_has_no_mean_squares_is_refused(posterior):
    data = data_of(posterior)
    with pytest.raises(DataError, match="kind='ordinal'"):
        criticism.mean_squares(quiet_fit(dataclasses.replace(data, kind=None), "dawid-skene", method="em", seed=0))
    other = quiet_fit(data, "dawid-skene", method="em", seed=0)
    with pytest.raises(ModelError, match="slopes='own'"):
        criticism.mean_squares(other)
    assert len(criticism.mean_squares(other, slopes="own", draws=5)) == 6
    weighted = data.with_weights(np.full(data.N, 0.5))
    with pytest.raises(ModelError, match="without weights"):
        criticism.mean_squares(quiet_fit(weighted, "graded-facets", method="em", seed=0))


def test_the_sentence_has_the_direction_of_the_statistic_that_is_notable():
    usual = {"infit_from": 0.8, "infit_to": 1.1, "outfit_from": 0.7, "outfit_to": 1.5}
    rows = [{"infit": 0.97, "infit_p": 0.4, "outfit": 1.9, "outfit_p": 0.001}]  # single surprising grades
    rows += [{"infit": 1.0, "infit_p": 0.9, "outfit": 1.1, "outfit_p": 0.9}] * 29
    said = fit_sentence(pd.DataFrame(rows).assign(**usual))
    assert said.startswith("1 rater is less predictable than")
    assert "Up to 0.6 of 30 raters would be by chance" in said
    rows[0] |= {"infit": 1.04, "outfit": 0.5}
    assert fit_sentence(pd.DataFrame(rows).assign(**usual)).startswith("1 rater is more predictable than")
