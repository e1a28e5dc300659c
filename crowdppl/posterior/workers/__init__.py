"""Worker quality with uncertainty.

:mod:`~crowdppl.posterior.measures` has functions of confusion matrices, one value per draw. The other modules are functions of a
:class:`crowdppl.Posterior`: ranking, spammers, systematic confusions, change over time, gold questions and verdicts.
"""

from crowdppl.posterior.measures import (
    BY_CLASS,
    DEFAULT_MEASURES,
    LOWER_IS_BETTER,
    MEASURES,
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
from crowdppl.posterior.workers.drift import (
    accuracy_change,
    accuracy_over_time,
    became_worse,
    median_seconds,
    relative_speed,
)
from crowdppl.posterior.workers.gold_items import gold_accuracy
from crowdppl.posterior.workers.ranking import best, probability_better, rank, summarise_ranks, worst
from crowdppl.posterior.workers.spammers import hypothesis_probabilities, spammer_probability
from crowdppl.posterior.workers.verdicts import ACTIONS, NOTABLE, UNRELIABLE, VERDICTS, verdicts

__all__ = [
    "ACTIONS",
    "BY_CLASS",
    "DEFAULT_MEASURES",
    "LOWER_IS_BETTER",
    "MEASURES",
    "NOTABLE",
    "UNRELIABLE",
    "VERDICTS",
    "accuracy",
    "accuracy_change",
    "accuracy_over_time",
    "became_worse",
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
