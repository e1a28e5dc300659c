"""Worker quality against numbers worked out by hand."""

import numpy as np
import pytest

from crowdppl import OptionError, workers

PREVALENCE = np.array([[0.5, 0.5]])
PERFECT, SPAMMER, LIAR = np.eye(2), np.full((2, 2), 0.5), np.eye(2)[::-1]


def one(confusion):
    return np.asarray(confusion)[None, None]  # one draw, one worker


@pytest.mark.parametrize(
    ("confusion", "expected"), [(PERFECT, 1.0), (SPAMMER, 0.5), (LIAR, 0.0), ([[0.9, 0.1], [0.3, 0.7]], 0.8)]
)
def test_accuracy(confusion, expected):
    assert workers.accuracy(one(confusion), PREVALENCE)[0, 0] == pytest.approx(expected)


def test_accuracy_weighs_by_prevalence():
    confusion = one([[0.9, 0.1], [0.3, 0.7]])
    assert workers.accuracy(confusion, np.array([[0.9, 0.1]]))[0, 0] == pytest.approx(0.88)
    np.testing.assert_allclose(workers.sensitivity(confusion)[0, 0], [0.9, 0.7])


def test_informativeness():
    """Perfect: the entropy of the prevalence; spammer: nothing; a liar tells as much as an honest worker."""
    for confusion, bits in ((PERFECT, 1.0), (SPAMMER, 0.0), (LIAR, 1.0)):
        assert workers.informativeness(one(confusion), PREVALENCE)[0, 0] == pytest.approx(bits, abs=1e-12)
    skewed = np.array([[0.9, 0.1]])
    entropy = -(0.9 * np.log2(0.9) + 0.1 * np.log2(0.1))
    assert workers.informativeness(one(PERFECT), skewed)[0, 0] == pytest.approx(entropy)
    # By the definition, sum p(k, l) log p(k, l) / (p(k) p(l)), for one matrix:
    confusion, pi = np.array([[0.8, 0.2], [0.4, 0.6]]), np.array([0.3, 0.7])
    joint = pi[:, None] * confusion
    by_hand = (joint * np.log2(joint / np.outer(pi, joint.sum(0)))).sum()
    assert workers.informativeness(one(confusion), pi[None])[0, 0] == pytest.approx(by_hand)


def test_interval():
    draws = np.arange(1001.0)[:, None]
    mean, low, high = workers.interval(draws, 0.9)
    assert (mean[0], low[0], high[0]) == pytest.approx((500.0, 50.0, 950.0))
    mean, low, high = workers.interval(draws[:1], 0.9)
    assert mean[0] == 0
    assert np.isnan(low[0])
    assert np.isnan(high[0])
    assert workers.default_level(None) == 0.89
    for level in (0, 1, 1.5, -0.1):
        with pytest.raises(OptionError, match="between 0 and 1"):
            workers.interval(draws, level)
