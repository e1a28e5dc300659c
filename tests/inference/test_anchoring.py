"""Anchors that depend on the parameters: EM ends where the two agree, and other engines take that anchor."""

import dataclasses

import numpy as np
import pytest
import torch
from catalog import quiet_fit, simulated

import crowdppl
from crowdppl import CrowdpplWarning
from crowdppl.data.synthetic import correlated_crowd
from crowdppl.inference.engines import anchoring
from crowdppl.isolation import isolated
from crowdppl.model.bound import bind
from crowdppl.models import DawidSkene, ItemEffects
from crowdppl.models.item_effects import RELEASED


def anchored(model, data):
    bound = bind(model, data)
    return bound, bound.anchored(bound.expand(data))


@pytest.mark.parametrize("classes", [2, 4])
def test_the_anchor_is_that_which_the_parameters_call_for(classes):
    data, model = simulated(items=200, workers=10, per_item=6, classes=classes, seed=3)[0], ItemEffects(anchoring=0.4)
    posterior = quiet_fit(data, model, method="em", num_samples=2)
    none = float(posterior.tree["point"]["effect_weights"][0])
    share = posterior.info["facts"]["anchored"]
    assert posterior.info["facts"]["converged"]
    assert share == pytest.approx(0.4 * (1 - RELEASED * none), abs=anchoring.SETTLED)
    assert share < 0.39


def test_an_independent_crowd_keeps_less_of_the_anchor_than_a_correlated_one():
    independent = simulated(items=400, workers=20, per_item=8, classes=2, seed=1)[0]
    copied = correlated_crowd(seed=0, items=400, workers=20, per_item=8, copies=0.6).data
    shares = [
        quiet_fit(data, "item-effects", method="em", num_samples=2).info["facts"]["anchored"]
        for data in (independent, copied)
    ]
    assert 1.5 * shares[0] < shares[1]


def test_other_engines_take_the_anchor_that_em_ends_with():
    data, model = simulated(items=60, workers=8, per_item=5, classes=2, seed=2)[0], ItemEffects()
    share = quiet_fit(data, model, method="em", num_samples=2).info["facts"]["anchored"]
    with isolated(0):
        bound, arranged = anchored(model, data)
        adapted = anchoring.learned(bound, arranged)
    assert float(adapted.anchor.sum(-1).mean()) == pytest.approx(share, abs=1e-9)
    votes = arranged.anchor / arranged.anchor.sum(-1, keepdim=True)
    torch.testing.assert_close(adapted.anchor, share * votes)
    plain, same = anchored(DawidSkene(), data)
    assert anchoring.learned(plain, same) is same


def test_em_that_cannot_settle_says_that_it_has_not_converged(monkeypatch):
    """Where the largest number of turns, or of steps, is used up before anchor and parameters agree."""
    data = simulated(items=100, workers=8, per_item=5, classes=2, seed=2)[0]
    whole = quiet_fit(data, "item-effects", method="em", num_samples=2).info["facts"]
    monkeypatch.setattr(anchoring, "TURNS", 1)
    with pytest.warns(CrowdpplWarning, match="before it converged"):
        facts = crowdppl.fit(data, "item-effects", method="em", num_samples=200).info["facts"]
    assert not facts["converged"]
    monkeypatch.undo()
    few = whole["evaluations"] - 1
    with pytest.warns(CrowdpplWarning, match=f"after {few} evaluations before it converged"):
        facts = crowdppl.fit(data, "item-effects", method="em", num_samples=200, max_iter=few).info["facts"]
    assert facts["evaluations"] == few


def test_iterations_and_evaluations_are_those_of_all_turns(monkeypatch):
    data = simulated(items=100, workers=8, per_item=5, classes=2, seed=2)[0]
    turns = []
    original = anchoring.called_for

    def counted(*arguments):
        turns.append(original(*arguments))
        return turns[-1]

    monkeypatch.setattr(anchoring, "called_for", counted)
    posterior = quiet_fit(data, "item-effects", method="em", num_samples=2)
    facts, trace = posterior.info["facts"], posterior.tree["sample_stats"]["log_posterior"].values
    assert sum(anchor is not None for anchor in turns) >= 2
    assert facts["evaluations"] >= facts["iterations"] > trace.size
    assert (np.diff(trace) > -1e-9 * np.abs(trace[1:])).all()  # the last turn, whose objective is one
    assert facts["log_posterior"] == pytest.approx(float(trace[-1]))


def test_how_much_of_the_anchor_the_weights_of_effects_call_for():
    """All of it where every item has an effect, a tenth where none has."""
    data, model = simulated(items=60, workers=8, per_item=5, classes=2, seed=2)[0], ItemEffects()
    with isolated(0):
        bound, arranged = anchored(model, data)

        result = type("Result", (), {"point": {"effect_weights": torch.tensor([0.0, 0.4, 0.3, 0.3])}})
        assert anchoring.called_for(bound, arranged, result) is None  # every item has an effect: the first anchor
        result.point = {"effect_weights": torch.tensor([1.0, 0.0, 0.0, 0.0])}
        called = anchoring.called_for(bound, arranged, result)
    torch.testing.assert_close(called, (1 - RELEASED) * arranged.anchor)
    assert anchoring.called_for(bound, dataclasses.replace(arranged, anchor=None), result) is None
