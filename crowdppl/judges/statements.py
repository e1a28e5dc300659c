"""What cannot be known from verdicts and human labels at hand, in sentences."""

from __future__ import annotations

import numpy as np
import pandas as pd

from crowdppl.errors import listed
from crowdppl.judges.coding.criteria import SEVERAL_METRICS
from crowdppl.judges.model.draws import TruthDraws
from crowdppl.judges.people.human_likelihood import counts_by_item, error_of_people
from crowdppl.judges.tables import drift, length_bias
from crowdppl.judges.tables.system_table import FEWEST as FEWEST_CLUSTERS
from crowdppl.judges.verdicts import Verdicts

# Fewer human labels than these are called few.
FEW = 30
# Standard errors by which labelled items differ from the others before it is said.
DIFFERENT = 4.0
# Standard errors between human labels of a system and what verdicts let expect, and labels of it, from which it is said.
UNLIKE, FEWEST = 2.0, 5


def unlike_the_others(draws: TruthDraws) -> str:
    """Return how labelled items differ from the others in what judges said of them, in a sentence; empty if they do not.

    The mean value of the verdicts on an item is compared within systems, between labelled items and a random sample of as many: a
    difference of more than :data:`DIFFERENT` standard errors, which one of some 20,000 random samples shows, is stated.
    """
    v = draws.verdicts
    votes, low, high = draws.features.votes, draws.value.min(), draws.value.max()
    asked = (votes != 0).any(2)  # (N, J)
    if draws.paired or high == low or not asked.any():
        return ""
    share = (votes.sum(1) + asked.sum(1, keepdims=True) / len(v.labels)) / np.maximum(asked.sum(1, keepdims=True), 1)
    passed = share @ (draws.value - low) / (high - low)  # (N,)
    judged = asked.any(1)
    difference, variance, compared = 0.0, 0.0, 0
    means = np.zeros(2)
    for system in np.unique(v.system[judged]):
        own = np.flatnonzero(judged & (v.system == system))
        labelled = draws.labelled[own]
        n, N = int(labelled.sum()), len(own)
        if not 0 < n < N:
            continue
        x = passed[own]
        difference += x[labelled].sum() - n * x.mean()
        variance += n * (1 - n / N) * x.var(ddof=1)
        compared += n
        # Both means weight systems by their labels, so that they are of the same systems.
        means += n * np.array([x[labelled].mean(), x[~labelled].mean()])
    if variance <= 0 or abs(difference) <= DIFFERENT * np.sqrt(variance):
        return ""
    here, others = means / compared
    worse, bias = ("worse", "low") if here < others else ("better", "high")
    return (
        f"Items with human labels look {worse} than the others of the same systems: the mean verdict on them is {here:.0%} of "
        f"the way from the lowest to the highest class, and {others:.0%} on the others. If people picked them by looking at the "
        f"answers, such as failures or complaints, rates are too {bias}: state the probability of being chosen in a column "
        f"'probability', or strata with columns 'stratum' and 'stratum_size'. If they were picked by the verdicts alone, nothing "
        f"is missing."
    )


def _treated_unlike(draws: TruthDraws) -> list[str]:
    """Return which systems judges treat unlike the others, in sentences.

    A system is, if all of its items have one class with a probability of half or more; or if the human labels of its items pass
    more or less often than their verdicts let expect, by more than :data:`UNLIKE` standard errors. The expectation knows these
    labels, so that the difference is larger than it seems.
    """
    v, out = draws.verdicts, []
    pure, code = draws.calibration.pure, draws.calibration.pure_class
    alone = {s for s in np.flatnonzero(code >= 0).tolist() if pure[:, s].mean() >= 0.5}
    for s in sorted(alone):
        out.append(
            f"{listed([v.systems[s]])} is unlike the others: all of its human labels are {listed([v.labels[code[s]]])}, "
            f"and all of its items are with probability {pure[:, s].mean():.2f}."
        )
    if draws.paired or draws.human is None or len(v.systems) < 2:
        return out
    items, counts = counts_by_item(draws.human, len(v.labels))
    p = draws.calibration.every(4).probability(draws.features.rows(items))  # (K, D, n)
    expected = np.tensordot(draws.value, p, 1).mean(0)
    variance = np.tensordot(draws.value**2, p, 1).mean(0) - expected**2
    observed = counts @ draws.value / counts.sum(1)
    for s in range(len(v.systems)):
        own = v.system[items] == s
        n = int(own.sum())
        error = np.sqrt(variance[own].sum())
        if s in alone or n < FEWEST or abs(observed[own].sum() - expected[own].sum()) <= UNLIKE * error:
            continue
        more = "more" if observed[own].mean() > expected[own].mean() else "less"
        out.append(
            f"Judges treat {listed([v.systems[s]])} unlike the others: the mean of its {n:,} human labels is "
            f"{observed[own].mean():.2f}, and {expected[own].mean():.2f} is what their verdicts let expect, so that its items "
            f"probably pass {more} often than the corrected rate says. Label more of them."
        )
    return out


def _of_people(draws: TruthDraws) -> str:
    """Return the range of the errors of people, in a sentence."""
    assert draws.human is not None
    error, names = draws.person_error.mean(0), draws.human.annotators
    low, high = int(error.argmin()), int(error.argmax())
    learned = int((draws.error_basis == "learned").sum())
    how = f"Learned from items that several people labelled, for {learned:,} of {len(names):,}: l" if learned else "L"
    return (
        f"{how}abels are taken to be wrong with probability {error[low]:.2f} ({listed([names[low]])}) to {error[high]:.2f} "
        f"({listed([names[high]])}); people() has the error of each person."
    )


def statements(draws: TruthDraws, changes: pd.DataFrame) -> list[str]:
    """Return sentences on what these data do not identify, the most important first.

    Args:
        draws: the result.
        changes: of :func:`crowdppl.judges.tables.drift.drift`.
    """
    out = _of_labels(draws)
    out += drift.sentences(draws, changes)
    out += length_bias.sentences(draws)
    return out + _of_judges(draws.verdicts, paired=draws.paired)


def _of_labels(draws: TruthDraws) -> list[str]:
    """Return sentences on human labels: how many there are, how well people agree, and which items and systems they leave out."""
    v = draws.verdicts
    labelled = int(draws.labelled.sum())
    out = []
    if labelled == 0:
        out.append(
            "No human labels: the rates cannot be known from these judges alone. Intervals rest on how panels of judges "
            "behaved on public data; let people label a random sample of the items."
        )
    elif labelled < FEW:
        out.append(
            f"Only {labelled} items have human labels: intervals still rest mostly on how panels of judges behaved on public "
            f"data."
        )
    if labelled:
        seen = np.unique(draws.probability[draws.labelled].argmax(1))
        if len(seen) == 1:
            name = v.labels[seen[0]]
            out.append(
                f"All human labels are {name!r}: how the judges treat items of the other classes cannot be known."
            )
    if draws.human_error > 0:
        chance = 1 - 1 / len(v.labels)
        if draws.human_error > 0.9 * chance:
            out.append("People agree with each other no more than by chance: their labels carry no information.")
        else:
            contradict = draws.human is not None and error_of_people(counts_by_item(draws.human, len(v.labels))[1]) > 0
            why = "People contradict each other on some items; each" if contradict else "Each"
            if (draws.error_basis != "shared").any() and not (draws.error_basis == "stated").all():
                out.append(_of_people(draws))
            else:
                out.append(f"{why} human label is taken to be wrong with probability {draws.human_error:.2f}.")
    if draws.human is not None and np.isnan(draws.human.probability).all():
        if len(draws.human.strata):
            out.append(
                "Strata of the human labels are not used; state the number of judged items of each, in a column 'stratum_size'."
            )
        elif unlike := unlike_the_others(draws):
            out.append(unlike)
    if len(v.systems) and labelled:
        without = v.systems[~(draws.member[draws.labelled] != 0).any(0)].tolist()
        if without:
            out.append(
                f"No item of {listed(without)} has a human label: the correction is transported from the other systems."
            )
    if labelled:
        out += _treated_unlike(draws)
    return out


def _of_judges(v: Verdicts, *, paired: bool) -> list[str]:
    """Return sentences on judges who say little, on metrics that may be criteria, and on clusters that are too few."""
    out = []
    given = np.bincount(
        v.judge[v.label >= 0] * len(v.labels) + v.label[v.label >= 0], minlength=len(v.judges) * len(v.labels)
    )
    given = given.reshape(len(v.judges), -1)
    constant = v.judges[((given > 0).sum(1) == 1) & (given.sum(1) > 1)]
    if len(constant):
        out.append(f"{listed(constant)} always gave the same verdict, which says nothing on single items.")
    if len(v.systems) > 1 and not paired:
        one = []
        for j, name in enumerate(v.judges):
            own = np.unique(v.system[v.item[(v.judge == j) & (v.label >= 0)]])
            if len(own) == 1:
                one.append(name)
        if one:
            out.append(f"{listed(one)} judged one system only; quality on other systems is not known.")
    if 0 < len(v.clusters) < FEWEST_CLUSTERS:
        out.append(
            f"{len(v.clusters):,} clusters of questions are too few to tell how much they differ; at least {FEWEST_CLUSTERS} are "
            f"needed, and clusters are not used."
        )
    if any(SEVERAL_METRICS in note for note in v.notes):
        out.append(
            "The metrics of this file are taken for judges of one thing. If they measure different things, each is a criterion: "
            "read them with crowdppl.judges.read_criteria (--criteria)."
        )
    if len(v.judges) == 1:
        out.append("There is one judge only: errors that all judges share are seen in human labels alone.")
    return out
