"""Soft answers: workers who state probabilities."""

import numpy as np
import pytest
import torch
from catalog import quiet_fit

import crowdppl
from crowdppl import DataError
from crowdppl.data.soft_answers import from_probabilities
from crowdppl.data.synthetic import EASY_AND_HARD, easy_and_hard
from crowdppl.inference.predict import parameter_draws
from crowdppl.isolation import isolated
from crowdppl.models import LIA, DawidSkene


def answers(K=3, seed=0):
    """Return items, workers and probabilities in tenths, of 12 items by 4 workers."""
    rng = np.random.default_rng(seed)
    item, worker = (v.ravel() for v in np.indices((12, 4)))
    return item, worker, rng.multinomial(10, np.full(K, 1 / K), len(item)) / 10


@pytest.mark.parametrize("model", [DawidSkene(), LIA(hidden=(4,), embedding=3)])
def test_the_likelihood_is_that_of_the_probabilities(model):
    """``sum_k p_k log P(label = k | truth)`` for each answer, by a model with matrices and by one without."""
    item, worker, p = answers()
    data = from_probabilities(item, worker, p)
    posterior = quiet_fit(data, model, method="em", max_iter=2, num_samples=2)
    with isolated(0), torch.no_grad():
        bound, values = next(parameter_draws(posterior, data))
        parameters, _ = bound.conditioned(values, data)
        ours = bound.item_log_joint(parameters, data) - bound.log_truth(parameters, data)
        each = bound.emission(parameters, data).log_prob(torch.arange(3).view(-1, 1, 1))  # (label, annotation, truth)
    first = each[:, ::10].numpy()  # an answer has ten annotations
    expected = np.zeros((12, 3))
    np.add.at(expected, item, np.einsum("ak,kaz->az", p, first))
    np.testing.assert_allclose(ours, expected, rtol=1e-6)


def test_certain_answers_are_labels():
    item, worker, p = answers()
    label = p.argmax(1)
    soft, hard = (
        quiet_fit(data, "dawid-skene", method="em")
        for data in (
            from_probabilities(item, worker, np.eye(3)[label]),
            crowdppl.Annotations.from_arrays(item, worker, label, labels=range(3)),
        )
    )
    np.testing.assert_allclose(soft.probability(), hard.probability(), atol=1e-9)


def test_probabilities_are_rounded_to_parts():
    """The largest rests are rounded up, so that an answer always has as many parts."""
    data = from_probabilities([5, 6], ["a", "a"], [[0.34, 0.33, 0.33], [0.5, 0.26, 0.24]], labels=list("xyz"), parts=4)
    assert data.labels.tolist() == ["x", "y", "z"]
    np.testing.assert_array_equal(data.votes, [[2, 1, 1], [2, 1, 1]])
    np.testing.assert_array_equal(data.weight, [0.25, 0.25])
    assert data.notes == ("2 soft answers, each as 4 labels of weight 1 / 4",)
    # Tenths are what they say, whatever the rounding errors of their floating numbers.
    tenths = np.arange(11) / 10
    votes = from_probabilities(np.arange(11), [0] * 11, np.stack([tenths, 1 - tenths], -1)).votes
    np.testing.assert_array_equal(votes[:, 0], np.arange(11))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"probability": [[0.5, 0.6]]}, "row 1"),
        ({"probability": [[1.5, -0.5]]}, "row 1"),
        ({"worker": [0, 1]}, "worker has 2"),
        ({"labels": ["a"]}, "2 classes and labels 1"),
    ],
)
def test_refused(given, said):
    with pytest.raises(crowdppl.DataError, match=said):
        from_probabilities(**{"task": [0], "worker": [0], "probability": [[0.5, 0.5]]} | given)


def test_soft_answers_of_easy_and_hard_items():
    """Their mean is the probability of the label; the more certain, the more they differ from it."""
    for certainty in (2.0, 50.0):
        drawn = easy_and_hard(seed=0, items=2000, certainty=certainty)
        p, hard, strong = (drawn.parameters[name] for name in ("probability", "hard", "strong"))
        item, worker = (v.numpy()[::10] for v in (drawn.data.item, drawn.data.worker))
        correct = p[np.arange(len(p)), drawn.truth[item]]
        kind = 2 * hard[item] + strong[worker]
        share = np.bincount(kind, correct) / np.bincount(kind)
        assert np.abs(share - EASY_AND_HARD.ravel()).max() < 0.03
        shares = drawn.data.votes.numpy() / 60
        np.testing.assert_allclose(shares[:, 1], np.bincount(item, p[:, 1]) / 6, atol=0.05)
    assert correct.std() < 0.2


def test_a_missing_name_is_named_by_its_answer():
    with pytest.raises(DataError, match="task, row 2: task missing"):
        from_probabilities(["a", None], ["u", "v"], [[0.5, 0.5], [1, 0]])
