"""Criticism: is the model right, are the intervals honest, would other data be predicted?"""

from crowdppl.criticism.held_out import LeaveOneOut, compare, kfold, leave_workers_out, loo
from crowdppl.criticism.known import Calibration, Coverage, calibration, coverage
from crowdppl.criticism.predictive import NOTABLE, PredictiveCheck, check, prior_check, replicates
from crowdppl.criticism.sensitivity import prior_sensitivity
from crowdppl.criticism.words import advice

__all__ = [
    "NOTABLE",
    "Calibration",
    "Coverage",
    "LeaveOneOut",
    "PredictiveCheck",
    "advice",
    "calibration",
    "check",
    "compare",
    "coverage",
    "kfold",
    "leave_workers_out",
    "loo",
    "prior_check",
    "prior_sensitivity",
    "replicates",
]


def __dir__() -> list[str]:
    return __all__
