"""Sample sizes by simulation: crowds of stated numbers, balanced designs, and the design that is enough."""

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import quiet_fit
from scipy.special import expit

from crowdppl import CrowdpplError, OptionError, criticism
from crowdppl.criticism.planned_studies import assigned
from crowdppl.model.sampling import simulate
from crowdppl.models import DawidSkene


def test_loads_are_balanced_and_the_workers_of_an_item_differ():
    rng = np.random.default_rng(0)
    who = assigned(25, 3, 7, rng)
    assert all(len(set(row)) == 3 for row in who.tolist())
    load = np.bincount(who.ravel(), minlength=7)
    assert load.max() - load.min() <= 1
    assert load.sum() == 75
    assert len({tuple(sorted(row)) for row in who.tolist()}) > 10  # not the same groups again and again


def test_a_crowd_of_classes_has_the_stated_accuracies():
    drawn = criticism.Crowd(4000, 3, accuracy=0.8, spread=0.07).parameters(np.random.default_rng(1))
    right = drawn["confusion"][:, range(3), range(3)]
    assert right.mean() == pytest.approx(0.8, abs=0.005)
    assert right[:, 0].std() == pytest.approx(0.07, rel=0.05)
    np.testing.assert_allclose(drawn["confusion"].sum(-1), 1)
    same = criticism.Crowd(5, 4, accuracy=0.8, spread=0.0).parameters(np.random.default_rng(1))["confusion"]
    assert (same[:, range(4), range(4)] == 0.8).all()
    assert same[0, 0, 1] == pytest.approx(0.2 / 3)


def test_a_crowd_of_grades_has_the_stated_spread_of_severities():
    crowd = criticism.Crowd(1500, 5, "ordinal", spread=0.25)
    fixed = crowd.parameters(np.random.default_rng(0))
    _, _, drawn = simulate(crowd.model(), range(1500), range(1500), classes=5, seed=3, parameters=fixed)
    # Expected grades over the items by the equations of the model, written anew.
    gaps = np.exp(drawn["log_gaps"])
    heights = np.concatenate([np.zeros((1500, 1)), gaps.cumsum(1)], 1)
    threshold = drawn["middle"][:, None] + heights - heights.mean(1, keepdims=True)
    x = np.random.default_rng(5).normal(size=2000)
    grades = expit(np.exp(drawn["log_slope"])[:, None, None] * x[:, None] - threshold[:, None]).sum(-1).mean(1)
    assert grades.std() == pytest.approx(0.25, rel=0.1)


def test_widths_fall_and_the_smallest_design_is_named():
    plan = criticism.plan(
        criticism.Crowd(4, 4, "ordinal"), width=0.45, items=[40, 200], per_item=[2, 4], replicates=2, seed=1
    )
    width = plan.table.set_index(["items", "per_item"])["width"]
    assert width[40, 2] > width[40, 4] > width[200, 4]
    enough = plan.table[plan.table["width"] <= 0.45]
    assert plan.smallest["annotations"] == enough["annotations"].min()
    assert "Enough: " in plan.sentences[0]
    assert plan.measure == "severity"
    assert plan.table["correlation"].iloc[-1] > plan.table["correlation"].iloc[0]
    again = criticism.plan(criticism.Crowd(4, 4, "ordinal"), items=[40], per_item=[2], replicates=2, seed=1)
    assert again.table.iloc[0]["width"] == plan.table.iloc[0]["width"]
    assert again.smallest is None


@pytest.mark.parametrize(
    ("widths", "wished", "sentence"),
    [
        ((0.2, 0.1), 0.05, "about 1,600 items"),
        ((0.2, 0.19), 0.05, "More items hardly"),
        ((0.2, 0.1), 0.001, "More than 1,000,000 items"),
    ],
)
def test_where_no_design_is_enough_the_rate_says_how_many_items_are(widths, wished, sentence):
    table = pd.DataFrame({"items": [100, 400], "per_item": 3, "annotations": [300, 1200], "width": widths})
    plan = criticism.Plan(table.assign(accuracy=0.9), "accuracy", 10, wished, 0.89, 2, "dawid-skene")
    assert plan.smallest is None
    assert sentence in plan.sentences[0]


def test_a_pilot_is_continued_with_intervals_like_its_own():
    rng = np.random.default_rng(2)
    confusion = np.array([[[a, 1 - a], [1 - a, a]] for a in (0.9, 0.8, 0.85, 0.6, 0.75)])
    data, _, _ = simulate(
        DawidSkene(),
        np.repeat(np.arange(150), 5),
        np.tile(np.arange(5), 150),
        classes=2,
        seed=int(rng.integers(99)),
        parameters={"confusion": confusion, "prevalence": [0.5, 0.5]},
    )
    pilot = quiet_fit(data, "dawid-skene", method="em", seed=0, independent=True)
    workers = pilot.workers()
    own = (workers["accuracy_high"] - workers["accuracy_low"]).mean()
    plan = criticism.plan(pilot, items=[150], per_item=[5], replicates=3, width=1.0)
    assert plan.table["width"].iloc[0] == pytest.approx(own, rel=0.2)
    assert plan.table["accuracy"].iloc[0] > 0.9
    more = criticism.plan(pilot, items=[30], per_item=[2], workers=9, replicates=2)
    assert more.workers == 9
    assert more.table["per_worker"].iloc[0] == pytest.approx(60 / 9)


def test_what_cannot_be_planned_is_refused():
    with pytest.raises(OptionError, match="3 workers of an item; there are 2"):
        criticism.plan(criticism.Crowd(2, 3), per_item=[3])
    with pytest.raises(OptionError, match="at least 2 workers"):
        criticism.plan(criticism.Crowd(4, 3, "ordinal"), workers=1)
    with pytest.raises(OptionError, match="accuracy is not that of ordinal"):
        criticism.Crowd(2, 3, "ordinal", accuracy=0.9)
    with pytest.raises(OptionError, match="spread below"):
        criticism.Crowd(2, 3, accuracy=0.9, spread=0.4)
    with pytest.raises(OptionError, match="kind"):
        criticism.Crowd(2, 3, "numeric")
    features = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    data, _, _ = simulate(
        DawidSkene(), np.repeat(np.arange(40), 2), np.tile(range(2), 40), classes=2, seed=0, features=features
    )
    with pytest.raises(CrowdpplError, match="more than labels"):
        criticism.plan(quiet_fit(data, "raykar", method="em", seed=0, max_iter=3, restarts=0), items=[10], per_item=[2])


def test_a_design_without_annotations_of_some_workers_is_not_enough():
    crowd = criticism.Crowd(6, 3, "ordinal")
    plan = criticism.plan(crowd, width=100.0, items=[1, 2, 4], per_item=[2], replicates=2)
    assert np.isinf(plan.table["width"]).tolist() == [True, True, False]
    assert plan.smallest["items"] == 4
    none = criticism.plan(crowd, width=100.0, items=[1, 2], per_item=[2], replicates=2)
    assert none.smallest is None
    assert "No design here has annotations of each of the 6 workers" in none.sentences[0]
