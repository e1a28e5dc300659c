"""Model criticism: predictive checks, calibration, comparison of models, cross-validation and prior sensitivity."""

from crowdppl.criticism.advice import advice
from crowdppl.criticism.calibration import (
    CLEAR,
    Calibration,
    Coverage,
    better_form,
    calibration,
    coverage,
    loss_difference,
)
from crowdppl.criticism.comparison import Comparison, compare
from crowdppl.criticism.cross_validation import LeaveOneOut, compare_elpd, kfold, leave_workers_out, loo
from crowdppl.criticism.earlier_result import Changes, changes
from crowdppl.criticism.group_selection import choose_groups
from crowdppl.criticism.mean_squares import mean_squares
from crowdppl.criticism.numbers import (
    NumericChanges,
    NumericCheck,
    NumericComparison,
    check_numbers,
    compare_numbers,
    number_changes,
)
from crowdppl.criticism.perspectives import Perspectives, perspectives
from crowdppl.criticism.planned_studies import Crowd
from crowdppl.criticism.planning import Plan, plan
from crowdppl.criticism.predictive import NOTABLE, PredictiveCheck, check, prior_check
from crowdppl.criticism.prior_sensitivity import prior_sensitivity
from crowdppl.criticism.rater_covariates import SeverityEffects, severity_effects
from crowdppl.criticism.replication import predictive_tree, replicates
from crowdppl.inference.catalogue import MODELS

__all__ = [
    "CLEAR",
    "MODELS",
    "NOTABLE",
    "Calibration",
    "Changes",
    "Comparison",
    "Coverage",
    "Crowd",
    "LeaveOneOut",
    "NumericChanges",
    "NumericCheck",
    "NumericComparison",
    "Perspectives",
    "Plan",
    "PredictiveCheck",
    "SeverityEffects",
    "advice",
    "better_form",
    "calibration",
    "changes",
    "check",
    "check_numbers",
    "choose_groups",
    "compare",
    "compare_elpd",
    "compare_numbers",
    "coverage",
    "kfold",
    "leave_workers_out",
    "loo",
    "loss_difference",
    "mean_squares",
    "number_changes",
    "perspectives",
    "plan",
    "predictive_tree",
    "prior_check",
    "prior_sensitivity",
    "replicates",
    "severity_effects",
]


def __dir__() -> list[str]:
    return __all__
