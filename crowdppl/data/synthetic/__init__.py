"""Simulated data sets of papers: items with features, labels by a crowd, and true labels of training and test items."""

from __future__ import annotations

from crowdppl.data.synthetic.abilities import (
    EASY_AND_HARD,
    FOUR_SHARES,
    THREE_ABILITIES,
    easy_and_hard,
    four_abilities,
    three_gaussians,
    two_gaussians,
)
from crowdppl.data.synthetic.common_errors import common_and_individual, correlated_crowd
from crowdppl.data.synthetic.networks import perturbed_networks
from crowdppl.data.synthetic.simulation import Simulation

__all__ = [
    "EASY_AND_HARD",
    "FOUR_SHARES",
    "THREE_ABILITIES",
    "Simulation",
    "common_and_individual",
    "correlated_crowd",
    "easy_and_hard",
    "four_abilities",
    "perturbed_networks",
    "three_gaussians",
    "two_gaussians",
]


def __dir__() -> list[str]:
    return __all__
