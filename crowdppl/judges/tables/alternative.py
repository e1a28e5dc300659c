"""The alternative annotator test: may a judge take the place of a person?"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import arguments
from crowdppl.arguments import Probability, checked
from crowdppl.errors import DataError
from crowdppl.judges.human import HumanLabels
from crowdppl.judges.verdicts import Verdicts

Array = npt.NDArray[Any]
# Items below which Wilcoxon's test takes the place of Student's, and below which an annotator is left out.
NORMAL, FEWEST = 30, 5
EMPTY = pd.DataFrame(columns=["judge", "annotators", "items", "winning_rate", "advantage", "passes"])


@checked
def alternative_annotators(
    verdicts: Any,
    human: Any,
    *,
    epsilon: Annotated[float, arguments.number(at_least=0, below=1)] = 0.2,
    q: Probability = 0.05,
) -> pd.DataFrame:
    """Test whether each judge may take the place of a person (Calderon, Reichart and Dror 2025, the alternative annotator test).

    Each person in turn is left out. On the items that the person and others labelled, the judge wins where it agrees with the
    others at least as often as the person does, and the person wins likewise. The null hypothesis is that the judge wins less
    often than the person by ``epsilon`` or more; it is tested by Student's test of the differences, with fewer than 30 items by
    Wilcoxon's. False discoveries over the people are controlled by Benjamini and Yekutieli (2001). The judge passes if the null
    hypothesis is rejected for half of the people or more.

    Args:
        verdicts: :class:`Verdicts`, or a table for :meth:`Verdicts.from_frame`.
        human: :class:`HumanLabels` with annotators, or a table with columns ``item``, ``verdict`` and ``annotator``.
        epsilon: what a judge may be worse, since it costs less: .2 where people are experts, .15 where they are skilled, .1 where
            they are a crowd.
        q: rate of false discoveries.

    Returns:
        A row for each judge, the best first: ``judge``, ``annotators`` that were compared, ``items`` in the mean,
        ``winning_rate`` (share of the people for whom the null hypothesis is rejected), ``advantage`` (probability that the judge
        is as good as a person or better, in the mean over people) and ``passes``.

    Raises:
        DataError: if people are not named, or fewer than three of them share enough items.
    """
    if not isinstance(verdicts, Verdicts):
        verdicts = Verdicts.from_frame(verdicts)
    labels = human if isinstance(human, HumanLabels) else HumanLabels.from_frame(human)
    verdicts, labels = labels.align(verdicts)
    if (labels.annotator < 0).any():
        raise DataError(
            "the test compares judges with single people; state who gave each label in a column 'annotator'"
        )
    table = replacements(verdicts, labels, epsilon, q)
    if not len(table):
        raise DataError(
            f"fewer than three people share {FEWEST} items with others and with a judge; the test needs several labels of each "
            f"item"
        )
    return table


def replacements(verdicts: Verdicts, labels: HumanLabels, epsilon: float, q: float) -> pd.DataFrame:
    """Return the table of :func:`alternative_annotators`, empty if too few people share items.

    Args:
        verdicts: the verdicts.
        labels: aligned with them, each by a person with a name.
        epsilon: what a judge may be worse.
        q: rate of false discoveries.
    """
    from scipy.stats import false_discovery_control  # here: slow to import

    N, K = len(verdicts.items), len(verdicts.labels)
    said = pd.DataFrame({"person": labels.annotator, "item": labels.item, "label": labels.label}).drop_duplicates()
    given = np.zeros((N, K))
    np.add.at(given, (said["item"], said["label"]), 1.0)  # people who gave each label
    once = said.drop_duplicates(["person", "item"])
    number = np.bincount(once["item"], minlength=N)
    shared = once[number[once["item"]] > 1]["person"].value_counts()
    compared = {person: said[said["person"] == person] for person in sorted(shared.index[shared >= FEWEST])}
    rows = []
    for j, judge in enumerate(verdicts.judges):
        own = (verdicts.judge == j) & (verdicts.label >= 0)
        votes = np.zeros((N, K))
        np.add.at(votes, (verdicts.item[own], verdicts.label[own]), 1.0)
        label, judged = votes.argmax(1), votes.sum(1) > 0
        differences, advantage = [], []
        for theirs in compared.values():
            items, row = np.unique(theirs["item"], return_inverse=True)
            used = judged[items] & (number[items] > 1)
            if used.sum() < FEWEST:
                continue
            person = np.zeros((len(items), K), dtype=bool)
            person[row, theirs["label"]] = True
            agree = (given[items] - person)[used]  # others who gave each label, (n, K)
            others = number[items][used] - 1
            of_judge = agree[np.arange(len(agree)), label[items][used]] / others
            of_person = (agree * person[used]).max(1) / others
            wins, loses = of_judge >= of_person, of_person >= of_judge
            differences.append(loses.astype(float) - wins)
            advantage.append(wins.mean())
        if len(differences) < 3:
            continue
        adjusted = false_discovery_control([_p_value(d, epsilon) for d in differences], method="by")
        rate = float((adjusted < q).mean())
        mean = float(np.mean([len(d) for d in differences]))
        rows.append((judge, len(differences), mean, rate, float(np.mean(advantage)), rate >= 0.5))
    table = pd.DataFrame(rows, columns=EMPTY.columns)
    return table.sort_values(["winning_rate", "advantage"], ascending=False, kind="stable", ignore_index=True)


def _p_value(differences: Array, epsilon: float) -> float:
    """Return the probability of such a mean of differences or a smaller one, if it is ``epsilon``."""
    from scipy.stats import ttest_1samp, wilcoxon  # here: slow to import

    around = differences - epsilon
    if len(around) < NORMAL:
        return float(wilcoxon(around, alternative="less").pvalue)
    if np.ptp(around) == 0:
        return 0.0 if around[0] < 0 else 1.0
    return float(ttest_1samp(around, 0.0, alternative="less").pvalue)
