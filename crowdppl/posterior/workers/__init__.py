"""Worker quality: how good each worker is, and how sure that is.

:mod:`~crowdppl.posterior.measures` are functions of confusion matrices, one value for each draw; the other modules read a
:class:`crowdppl.Posterior`: who is better than whom, who does not look, who changes over time, who passes known items.
"""

from crowdppl.posterior.measures import (
    BY_CLASS,
    LOWER_IS_BETTER,
    MEASURES,
    USUAL,
    accuracy,
    cost_quality,
    default_level,
    diagonal_log_odds,
    distance_from_spammer,
    expected_cost,
    informativeness,
    interval,
    kappa,
    mean_diagonal,
    measure,
    qualities,
    sensitivity,
    spammer_score,
    specificity,
)
from crowdppl.posterior.workers.confusions import by_label, of_crowd, systematic
from crowdppl.posterior.workers.drift import change, over_time, relative_speed, seconds
from crowdppl.posterior.workers.gold_items import gold_accuracy
from crowdppl.posterior.workers.ranking import best, better, place, rank, worst
from crowdppl.posterior.workers.spammers import hypotheses, spammer_probability
from crowdppl.posterior.workers.verdicts import ACTIONS, NOT_IN_EARNEST, NOTABLE, VERDICTS, verdicts

__all__ = [
    "ACTIONS",
    "BY_CLASS",
    "LOWER_IS_BETTER",
    "MEASURES",
    "NOTABLE",
    "NOT_IN_EARNEST",
    "USUAL",
    "VERDICTS",
    "accuracy",
    "best",
    "better",
    "by_label",
    "change",
    "cost_quality",
    "default_level",
    "diagonal_log_odds",
    "distance_from_spammer",
    "expected_cost",
    "gold_accuracy",
    "hypotheses",
    "informativeness",
    "interval",
    "kappa",
    "mean_diagonal",
    "measure",
    "of_crowd",
    "over_time",
    "place",
    "qualities",
    "rank",
    "relative_speed",
    "seconds",
    "sensitivity",
    "spammer_probability",
    "spammer_score",
    "specificity",
    "systematic",
    "verdicts",
    "worst",
]


def __dir__() -> list[str]:
    return __all__
