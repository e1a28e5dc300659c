"""Measures without a model: agreement of workers, divergence of confusion matrices, curves of classifiers, redundancy."""

from crowdppl.metrics.classification import auc, roc
from crowdppl.metrics.coefficients import WEIGHTS, agreement, pairwise_agreement
from crowdppl.metrics.matrices import divergence, empirical_confusion, global_divergence, individual_divergence
from crowdppl.metrics.redundancy import RedundancyCurve, redundancy_curve

__all__ = [
    "WEIGHTS",
    "RedundancyCurve",
    "agreement",
    "auc",
    "divergence",
    "empirical_confusion",
    "global_divergence",
    "individual_divergence",
    "pairwise_agreement",
    "redundancy_curve",
    "roc",
]


def __dir__() -> list[str]:
    return __all__
