"""Measures without a model: agreement of workers, divergence of confusion matrices, curves of classifiers, redundancy."""

from crowdppl.metrics.classification import auc, roc
from crowdppl.metrics.coefficients import agreement
from crowdppl.metrics.graded import graded_agreement
from crowdppl.metrics.intraclass import intraclass_correlation
from crowdppl.metrics.marked_spans import span_agreement
from crowdppl.metrics.matrices import divergence, empirical_confusion, global_divergence, individual_divergence
from crowdppl.metrics.pairs import pairwise_agreement
from crowdppl.metrics.redundancy import RedundancyCurve, redundancy_curve
from crowdppl.metrics.scales import WEIGHTS

__all__ = [
    "WEIGHTS",
    "RedundancyCurve",
    "agreement",
    "auc",
    "divergence",
    "empirical_confusion",
    "global_divergence",
    "graded_agreement",
    "individual_divergence",
    "intraclass_correlation",
    "pairwise_agreement",
    "redundancy_curve",
    "roc",
    "span_agreement",
]


def __dir__() -> list[str]:
    return __all__
