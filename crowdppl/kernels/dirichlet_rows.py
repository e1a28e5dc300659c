"""The compiled parameter step of models whose probabilities are products of Dirichlet components.

The probability of a label, given worker and state, is a constant times one component of each of a few Dirichlet variables, and
that of a state a product of components likewise; a Beta variable has two components. What is drawn is then counted by component.

The parameters of a chain are one vector of all components ``(P,)``. Arguments of all functions:

- ``sizes``: J, K, S, the number of Dirichlet variables, and of factors of a label and of a state; then the length of each
  variable, the components of each label as (factor, worker and label, state) and of each state as (factor, state), -1 for none;
- ``numbers``: the concentrations of all components, and the constants of the labels (J*K, S).
"""

from __future__ import annotations

from typing import Any

from crowdppl.kernels.code_cache import leaf
from crowdppl.kernels.random import fill_dirichlet

# Sizes before the lengths.
FIXED = 6


@leaf
def tabulate(parameters: Any, sizes: Any, numbers: Any, table: Any, prior: Any) -> None:
    """Write probabilities of labels, ``table (J*K, width)`` = (worker and label, state), and of states, ``prior (width,)``."""
    rows, S, P = table.shape[0], sizes[2], parameters.shape[0]
    at = FIXED + sizes[3]
    states = at + sizes[4] * rows * S
    for c in range(rows):
        for s in range(S):
            p = numbers[P + c * S + s]
            for f in range(sizes[4]):
                place = sizes[at + (f * rows + c) * S + s]
                if place >= 0:
                    p *= parameters[place]
            table[c, s] = p
    for s in range(S):
        p = 1.0
        for f in range(sizes[5]):
            place = sizes[states + f * S + s]
            if place >= 0:
                p *= parameters[place]
        prior[s] = p


@leaf
def draw(counts: Any, parameters: Any, sizes: Any, numbers: Any, work: Any, stream: Any) -> None:
    """Draw the parameters given counts; arguments as for :func:`crowdppl.kernels.logit_rows.draw`.

    ``work`` is room for P numbers.
    """
    rows, S = sizes[0] * sizes[1], sizes[2]
    at = FIXED + sizes[3]
    states = at + sizes[4] * rows * S
    for n in range(parameters.shape[0]):
        work[n] = numbers[n]
    for f in range(sizes[4]):
        for c in range(rows):
            for s in range(S):
                place = sizes[at + (f * rows + c) * S + s]
                if place >= 0:
                    work[place] += counts[c, s]
    for f in range(sizes[5]):
        for s in range(S):
            place = sizes[states + f * S + s]
            if place >= 0:
                work[place] += counts[rows, s]
    begin = 0
    for r in range(sizes[3]):
        end = begin + sizes[FIXED + r]
        fill_dirichlet(stream, work[begin:end], parameters[begin:end])
        begin = end
