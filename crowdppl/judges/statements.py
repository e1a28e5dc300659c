"""What cannot be known from verdicts and human labels at hand, in sentences."""

from __future__ import annotations

import numpy as np

from crowdppl.errors import listed
from crowdppl.judges.draws import TruthDraws

# Fewer human labels than these are called few.
FEW = 30


def statements(draws: TruthDraws) -> list[str]:
    """Return sentences on what these data do not identify, the most important first."""
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
            out.append(
                f"People contradict each other on some items; each human label is taken to be wrong with probability "
                f"{draws.human_error:.2f}."
            )
    if draws.human is not None and len(draws.human.strata) and np.isnan(draws.human.probability).all():
        out.append(
            "Strata of the human labels are not used; state the probability of being chosen, in a column 'probability'."
        )
    if len(v.systems) and labelled:
        without = v.systems[~(draws.member[draws.labelled] != 0).any(0)].tolist()
        if without:
            out.append(
                f"No item of {listed(without)} has a human label: the correction is transported from the other systems."
            )
    given = np.bincount(
        v.judge[v.label >= 0] * len(v.labels) + v.label[v.label >= 0], minlength=len(v.judges) * len(v.labels)
    )
    given = given.reshape(len(v.judges), -1)
    constant = v.judges[((given > 0).sum(1) == 1) & (given.sum(1) > 1)]
    if len(constant):
        out.append(f"{listed(constant)} always gave the same verdict, which says nothing on single items.")
    if len(v.systems) > 1 and not draws.paired:
        one = []
        for j, name in enumerate(v.judges):
            own = np.unique(v.system[v.item[(v.judge == j) & (v.label >= 0)]])
            if len(own) == 1:
                one.append(name)
        if one:
            out.append(f"{listed(one)} judged one system only; quality on other systems is not known.")
    if len(v.judges) == 1:
        out.append("There is one judge only: errors that all judges share are seen in human labels alone.")
    return out
