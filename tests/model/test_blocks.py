"""Building blocks: what they return, against formulas written out by numpy."""

import numpy as np
import pytest
import torch
from scipy.special import expit, logsumexp
from scipy.stats import dirichlet

from crowdppl.model import blocks


def test_confusion_from_logits():
    correct, labels = torch.tensor([1.0, -0.5]).double(), torch.tensor([[0.0, 0.3, -1.0], [2.0, 0.0, 0.0]]).double()
    table = blocks.confusion_from_logits(correct, 3, labels)
    for j in range(2):
        for k in range(3):
            odds = np.exp(labels[j].numpy() + correct[j].item() * (np.arange(3) == k))
            np.testing.assert_allclose(table[j, k], odds / odds.sum())
    plain = blocks.label_logits(correct, 3)
    np.testing.assert_array_equal(plain[0], np.eye(3))
    np.testing.assert_allclose(blocks.labels_given(correct[:, None], 3).probs[1, 0, 0], expit(-0.5))
    np.testing.assert_allclose(blocks.symmetric_confusion(torch.tensor([0.7]), 3)[0], [0.7, 0.15, 0.15], rtol=1e-6)


@pytest.mark.parametrize("precision", [0.5, 4.0, 100.0])
def test_grades(precision):
    thresholds = blocks.ordered_thresholds(torch.tensor([-0.3]).double(), torch.tensor([[0.2, -1.0]]).double())
    np.testing.assert_allclose(thresholds[0], -0.3 + np.cumsum([0, np.exp(0.2), np.exp(-1.0)]))
    places = torch.arange(4.0, dtype=torch.float64)
    table = blocks.graded_confusion(places, thresholds, torch.tensor([precision]).double())[0]
    for k in range(4):
        reached = np.r_[1, expit(precision * (k - thresholds[0].numpy())), 0]
        np.testing.assert_allclose(table[k], reached[:-1] - reached[1:], atol=1e-12)
    assert (table > 0).all()  # where a difference of both sigmoids is 0
    assert blocks.ordered_thresholds(torch.tensor([0.5])).shape == (1, 1)


def test_communities():
    share = torch.tensor([0.3, 0.7], dtype=torch.float64)
    concentration = (1 + torch.arange(8.0, dtype=torch.float64)).view(2, 2, 2)
    value = torch.tensor([[0.2, 0.8], [0.6, 0.4]], dtype=torch.float64)
    each = [
        np.log(share[m].item()) + sum(dirichlet.logpdf(value[k].numpy(), concentration[m, k].numpy()) for k in range(2))
        for m in range(2)
    ]
    assert float(blocks.communities(share, concentration).log_prob(value)) == pytest.approx(logsumexp(each))
