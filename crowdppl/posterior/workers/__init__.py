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
from crowdppl.posterior.workers.confusions import crowd_confusions, label_counts, systematic_confusions
from crowdppl.posterior.workers.drift import accuracy_change, accuracy_over_time, median_seconds, relative_speed
from crowdppl.posterior.workers.gold_items import gold_accuracy
from crowdppl.posterior.workers.ranking import best, probability_better, rank, summarise_ranks, worst
from crowdppl.posterior.workers.spammers import hypothesis_probabilities, spammer_probability
from crowdppl.posterior.workers.verdicts import ACTIONS, NOTABLE, UNRELIABLE, VERDICTS, verdicts

__all__ = [
    "ACTIONS",
    "BY_CLASS",
    "LOWER_IS_BETTER",
    "MEASURES",
    "NOTABLE",
    "UNRELIABLE",
    "USUAL",
    "VERDICTS",
    "accuracy",
    "accuracy_change",
    "accuracy_over_time",
    "best",
    "cost_quality",
    "crowd_confusions",
    "default_level",
    "diagonal_log_odds",
    "distance_from_spammer",
    "expected_cost",
    "gold_accuracy",
    "hypothesis_probabilities",
    "informativeness",
    "interval",
    "kappa",
    "label_counts",
    "mean_diagonal",
    "measure",
    "median_seconds",
    "probability_better",
    "qualities",
    "rank",
    "relative_speed",
    "sensitivity",
    "spammer_probability",
    "spammer_score",
    "specificity",
    "summarise_ranks",
    "systematic_confusions",
    "verdicts",
    "worst",
]


def __dir__() -> list[str]:
    return __all__
