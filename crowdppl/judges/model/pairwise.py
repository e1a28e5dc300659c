"""Pairs of answers: which class says that the first system is better, and the strengths of systems by their true labels.

R. A. Bradley and M. E. Terry (1952), Rank analysis of incomplete block designs, Biometrika 39, 324-345; R. R. Davidson (1970), On
extending the Bradley-Terry model to accommodate ties in paired comparison experiments, JASA 65, 317-328. With strengths ``s`` on
the log scale and ``nu`` for ties::

    P(a is better than b) : P(b is better than a) : P(tie)  =  exp(s_a) : exp(s_b) : nu exp((s_a + s_b) / 2)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from crowdppl.errors import DataError, OptionError, listed, suggestion

Array = npt.NDArray[Any]
# Names of a class, in lower case: the system is better, its opponent is, or neither is.
FIRST = (
    "first",
    "a",
    "model_a",
    "answer_a",
    "system_a",
    "system",
    "left",
    "chosen",
    "win",
    "won",
    "better",
)
SECOND = (
    "second",
    "b",
    "model_b",
    "answer_b",
    "system_b",
    "opponent",
    "right",
    "rejected",
    "loss",
    "lose",
    "lost",
    "worse",
)
TIES = (
    *("tie", "tied", "draw", "equal", "equally good", "same", "both", "neither", "none", "both bad", "tie (bothbad)"),
    "no preference",
)
# What is a tie only where the other two classes are these.
TIES_OF = ((frozenset("ab"), "c"), (frozenset("12"), "0"), (frozenset(("-1", "1")), "0"))
# Of two classes, the one that stands for the first system.
FIRST_OF = {("0", "1"): "1", ("-1", "1"): "1", ("1", "2"): "1", ("false", "true"): "true", ("no", "yes"): "yes"}
# Prior standard deviation of strengths and of the log of nu: a system that won every pair has no largest likelihood.
SCALE = 3.0
STEPS, TOLERANCE = 50, 1e-8
# Numbers that are held at a time.
PIECE = 2**22


def outcomes(labels: Array, first: Any = None) -> Array:
    """Return what each class says of a pair, ``(K,)``: 1 the system is better, -1 its opponent is, 0 neither.

    Args:
        labels: names of the classes, ``(K,)``.
        first: the class that says that the system is better, or a list of one. Defaults to the one whose name says so
            (:data:`FIRST`, :data:`SECOND`, :data:`FIRST_OF`).

    Raises:
        DataError: if there are not two such classes, with or without others for ties, or their names do not tell them apart.
        OptionError: for a ``first`` that is no class.
    """
    names = [str(name).strip().lower() for name in labels.tolist()]
    tie = [n for n, name in enumerate(names) if name in TIES or (frozenset(names) - {name}, name) in TIES_OF]
    sides = [n for n in range(len(names)) if n not in tie]
    if len(sides) != 2:
        raise DataError(
            f"verdicts on pairs of systems are {listed(labels.tolist(), 6)}, but must be two classes, the first system is better "
            f"and the second is, and others for ties; write 'first', 'second' and 'tie', and declare all classes if one does not "
            f"occur (labels=, or --labels)"
        )
    better = FIRST_OF.get((min(names[n] for n in sides), max(names[n] for n in sides)))
    winner = -1
    for n, other in (sides, sides[::-1]):
        if (
            names[n] == better
            or ((names[n] in FIRST) > (names[other] in FIRST))
            or ((names[other] in SECOND) > (names[n] in SECOND))
        ):
            winner = n
    if isinstance(first, list | tuple) and len(first) == 1:
        first = first[0]
    if first is not None:
        chosen = [n for n in sides if names[n] == str(first).strip().lower()]
        if not chosen:
            raise OptionError(
                f"positive={first!r} is no class of pairs{suggestion(first, labels.tolist())}; it must be the one for which the "
                f"first system is better, of {listed(labels[sides].tolist())}"
            )
        winner = chosen[0]
    if winner < 0:
        raise DataError(
            f"the names {listed(labels[sides].tolist())} do not tell which verdict says that the first system is better; write "
            f"'first' and 'second', also if the verdict names the better system, or state positive="
        )
    out = np.zeros(len(names))
    out[sides] = -1.0
    out[winner] = 1.0
    return out


def turned(labels: Array) -> Array:
    """Return the label that each class ``(K,)`` becomes if the two systems change places, as codes, with -1 at the end for -1.

    Raises:
        DataError: as :func:`outcomes`.
    """
    outcome = outcomes(labels)
    other = np.arange(len(labels) + 1)
    other[outcome.argmax()], other[outcome.argmin()] = outcome.argmin(), outcome.argmax()
    other[-1] = -1
    return other


class Pairs(NamedTuple):
    """Distinct pairs of ``S`` systems.

    Attributes:
        first: the system of each pair, ``(C,)``.
        second: its opponent, ``(C,)``.
        of_item: pair of each item, ``(N,)``.
        systems: number of systems.
    """

    first: Array
    second: Array
    of_item: Array
    systems: int


def distinct(system: Array, opponent: Array, systems: int) -> Pairs:
    """Return the distinct pairs of systems ``(N,)`` and opponents ``(N,)``."""
    cells, of_item = np.unique(system * systems + opponent, return_inverse=True)
    return Pairs(cells // systems, cells % systems, of_item, systems)


def tally(pairs: Pairs, item: Array, outcome: Array, weight: Array) -> Array:
    """Return the sum of weights of wins, losses and ties of the first system of each pair, ``(C, 3)``.

    Args:
        pairs: the pairs.
        item: item of each comparison, ``(n,)``.
        outcome: of it: 1, -1, or 0 for a tie, ``(n,)``.
        weight: of it, ``(n,)``.
    """
    column = np.where(outcome > 0, 0, np.where(outcome < 0, 1, 2))
    C = len(pairs.first)
    return np.bincount(pairs.of_item[item] * 3 + column, weight, C * 3).reshape(C, 3)


def strengths(counts: Array, pairs: Pairs) -> tuple[Array, Array]:
    """Return the mode of the strengths, ``(D, S)`` with mean 0, and of the log of nu, ``(D,)``, by Newton's method.

    Args:
        counts: number of wins, losses and ties of the first system of each pair, ``(D, C, 3)``, or sums of weights.
        pairs: the pairs.
    """
    D, C, _ = counts.shape
    length = max(PIECE // (C * (pairs.systems + 1)), 1)
    pieces = [_strengths(counts[first : first + length], pairs) for first in range(0, D, length)]
    strength, log_nu = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    return strength, log_nu


def _strengths(counts: Array, pairs: Pairs) -> tuple[Array, Array]:
    D, C, _ = counts.shape
    S = pairs.systems
    ties = bool(counts[:, :, 2].any())
    features = np.zeros((C, 3, S + 1))
    for outcome, sign in ((0, 0.5), (1, -0.5)):
        features[np.arange(C), outcome, pairs.first] += sign
        features[np.arange(C), outcome, pairs.second] -= sign
    features[:, 2, S] = 1.0
    outer = np.einsum("cop,coq->copq", features, features).reshape(C * 3, -1)
    flat = features.reshape(C * 3, -1)
    number = counts.sum(2)  # (D, C)
    observed = counts.reshape(D, -1) @ flat
    theta = np.zeros((D, S + 1))
    for _ in range(STEPS):
        logits = (theta @ flat.T).reshape(D, C, 3)
        if not ties:
            logits[:, :, 2] = -np.inf
        p = softmax(logits, 2) * number[:, :, None]
        mean = np.einsum("dco,cop->dcp", p, features)  # (D, C, P), times the number
        gradient = observed - mean.sum(1) - theta / SCALE**2
        hessian = (p.reshape(D, -1) @ outer).reshape(D, S + 1, S + 1)
        hessian -= np.swapaxes(mean / np.maximum(number, 1e-300)[:, :, None], 1, 2) @ mean
        hessian += np.eye(S + 1) / SCALE**2
        step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        theta += step * np.minimum(1.0, 2.0 / np.maximum(np.abs(step).max(1, keepdims=True), 1e-12))
        if np.abs(step).max() < TOLERANCE:
            break
    log_nu = theta[:, S] if ties else np.full(D, -np.inf)
    return theta[:, :S] - theta[:, :S].mean(1, keepdims=True), log_nu


def preference(strength: Array, log_nu: Array) -> Array:
    """Return the probability that the first of two systems is better, plus half that of a tie, ``(D, S, S)``.

    Args:
        strength: of the systems, ``(D, S)``.
        log_nu: log of Davidson's nu, ``(D,)``.
    """
    half = (strength[:, :, None] - strength[:, None, :]) / 2
    win, loss, tie = np.exp(half), np.exp(-half), np.exp(log_nu)[:, None, None]
    return np.asarray((win + tie / 2) / (win + loss + tie))


def elo(strength: Array) -> Array:
    """Return strengths in the units of Elo's ratings, of the same shape: 400 more are odds of 10 to 1, and their mean is 1000.

    They are the ratings that arenas publish, which fit Bradley and Terry's model to all pairs at once; ratings that are updated
    after each pair depend on the order of the pairs.
    """
    return 1000.0 + 400.0 / np.log(10.0) * strength


def against_others(strength: Array, log_nu: Array) -> Array:
    """Return the mean of :func:`preference` over the other systems, ``(D, S)``: the rate of a system."""
    each = preference(strength, log_nu)
    S = each.shape[1]
    return np.asarray((each.sum(2) - 0.5) / max(S - 1, 1))
