"""Simulated panels: judges in families with correlated errors, on the answers of several systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtri

from crowdppl import arguments
from crowdppl.arguments import NonNegativeFloat, PositiveInt, Seed, Share, checked
from crowdppl.errors import OptionError


@checked
def simulate(
    *,
    accuracy: Annotated[Sequence[float], arguments.several(arguments.between(0, 1, 0.8))] = (
        0.8,
        0.8,
        0.8,
        0.78,
        0.78,
        0.88,
    ),
    family: Annotated[Sequence[str], arguments.a_list] = ("a", "a", "a", "b", "b", "c"),
    correlation: Annotated[float, arguments.number(at_least=0, below=1)] = 0.5,
    rates: Annotated[Sequence[float], arguments.several(arguments.between(0, 1, 0.7))] = (0.8, 0.65, 0.5),
    items: PositiveInt = 200,
    verbosity: Annotated[Sequence[float], arguments.several(arguments.number())] | None = None,
    seed: Seed = 0,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Simulate verdicts ``pass`` and ``fail`` on the answers of systems, and the true labels.

    The errors of two judges of one family have a latent correlation: an error is a normal variable below the judge's threshold,
    and those of a family share a part of their variance. Errors of different families are independent.

    Args:
        accuracy: probability that each judge is correct, ``(J,)``.
        family: family of each judge, ``(J,)``.
        correlation: latent correlation of errors within a family.
        rates: rate of true ``pass`` of each system, ``(S,)``.
        items: number of items of each system; item ``q`` of every system is the answer to question ``q``.
        verbosity: how much each judge favours long answers, ``(J,)``: shift of its latent variable towards ``pass`` for each
            standard deviation of the log length. Answers then have a ``length`` in tokens; each system's are half a standard
            deviation longer than those of the one before. Defaults to answers without lengths.
        seed: random seed.

    Returns:
        The verdicts, with columns ``item``, ``system``, ``question``, ``judge``, ``family``, ``verdict`` and, with ``verbosity``,
        ``length``, and the true labels, with columns ``item`` and ``verdict``.

    Raises:
        OptionError: if accuracies, families and ``verbosity`` differ in number.
    """
    rng = np.random.default_rng(seed)
    N, S, J = items * len(rates), len(rates), len(accuracy)
    system = np.repeat(np.arange(S), items)
    truth = rng.random(N) < np.asarray(rates)[system]
    shift, long = np.zeros((N, J)), np.zeros(N)
    if verbosity is not None:
        if len(verbosity) != J:
            raise OptionError(f"{J} accuracies and {len(verbosity)} of verbosity; give one of each for every judge")
        own = np.random.default_rng([seed, 1])  # the same errors as without lengths
        long = own.standard_normal(N) + (system - (S - 1) / 2) / 2
        # Towards pass: an answer that passes is judged right more often, another one wrong.
        shift = np.where(truth, -1, 1)[:, None] * long[:, None] * np.asarray(verbosity)
    judges, families, wrong = _errors(rng, N, accuracy, family, correlation, shift)
    passed = truth[:, None] ^ wrong
    item = np.array([f"q{q}-s{s + 1}" for s, q in zip(system, np.tile(np.arange(items), S), strict=True)], dtype=object)
    text = np.array(["fail", "pass"], dtype=object)
    verdicts: dict[str, Any] = {
        "item": np.repeat(item, J),
        "system": np.repeat(np.array([f"s{s + 1}" for s in system], dtype=object), J),
        "question": np.repeat(np.tile(np.arange(items), S), J),
        "judge": np.tile(judges, N),
        "family": np.tile(families, N),
        "verdict": text[passed.astype(int).ravel()],
    }
    if verbosity is not None:
        verdicts["length"] = np.repeat(np.ceil(np.exp(5.5 + 0.5 * long)).astype(int), J)
    return pd.DataFrame(verdicts), pd.DataFrame({"item": item, "verdict": text[truth.astype(int)]})


@checked
def simulate_pairs(
    *,
    accuracy: Annotated[Sequence[float], arguments.several(arguments.between(0, 1, 0.8))] = (0.75, 0.75, 0.7, 0.8),
    family: Annotated[Sequence[str], arguments.a_list] = ("a", "a", "b", "c"),
    correlation: Annotated[float, arguments.number(at_least=0, below=1)] = 0.5,
    strength: Annotated[Sequence[float], arguments.several(arguments.number(), at_least=2)] = (
        1.0,
        0.4,
        0.0,
        -0.5,
        -0.9,
    ),
    ties: NonNegativeFloat = 0.4,
    position: Share = 0.1,
    items: PositiveInt = 300,
    seed: Seed = 0,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Simulate verdicts ``first``, ``second`` and ``tie`` on pairs of answers of two systems, and the true labels.

    True labels follow Davidson's model (:mod:`crowdppl.judges.model.pairwise`). Errors are correlated within families as in
    :func:`simulate`; an incorrect verdict is one of the other two labels. With probability ``position`` a judge prefers the
    answer shown first, whatever the true label. The order shown is random, and the same for all judges.

    Args:
        accuracy: probability that each judge is correct when it does not follow the position, ``(J,)``.
        family: family of each judge, ``(J,)``.
        correlation: latent correlation of errors within a family.
        strength: of each system, as log odds, ``(S,)``.
        ties: Davidson's nu.
        position: probability that a verdict follows the position.
        items: number of pairs; the two systems of each are drawn at random.
        seed: random seed.

    Returns:
        The verdicts, with columns ``item``, ``system``, ``opponent``, ``swapped``, ``judge``, ``family`` and ``verdict``, and the
        true labels, with columns ``item`` and ``verdict``.

    Raises:
        OptionError: if accuracies and families differ in number.
    """
    rng = np.random.default_rng(seed)
    S, J = len(strength), len(accuracy)
    system = rng.integers(0, S, items)
    opponent = (system + rng.integers(1, S, items)) % S
    half = (np.asarray(strength)[system] - np.asarray(strength)[opponent]) / 2
    weight = np.stack([np.exp(half), np.exp(-half), np.full(items, ties)], 1)
    truth = (rng.random((items, 1)) > (weight / weight.sum(1, keepdims=True)).cumsum(1)).sum(1).clip(max=2)
    judges, families, wrong = _errors(rng, items, accuracy, family, correlation)
    said = np.where(wrong, (truth[:, None] + rng.integers(1, 3, (items, J))) % 3, truth[:, None])
    swapped = rng.integers(0, 2, items)
    said = np.where(rng.random((items, J)) < position, swapped[:, None], said)
    text = np.array(["first", "second", "tie"], dtype=object)
    names = np.array([f"s{s + 1}" for s in range(S)], dtype=object)
    item = np.array([f"q{q}" for q in range(items)], dtype=object)
    verdicts: dict[str, Any] = {
        "item": np.repeat(item, J),
        "system": np.repeat(names[system], J),
        "opponent": np.repeat(names[opponent], J),
        "swapped": np.repeat(swapped, J),
        "judge": np.tile(judges, items),
        "family": np.tile(families, items),
        "verdict": text[said.ravel()],
    }
    return pd.DataFrame(verdicts), pd.DataFrame({"item": item, "verdict": text[truth]})


def _errors(
    rng: np.random.Generator,
    N: int,
    accuracy: Sequence[float],
    family: Sequence[str],
    correlation: float,
    shift: float | npt.NDArray[Any] = 0.0,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return names and families of the judges, ``(J,)``, and which of their verdicts are wrong, ``(N, J)``.

    ``shift`` is added to the threshold below which a verdict is wrong, ``(N, J)``.

    Raises:
        OptionError: if accuracies and families differ in number.
    """
    if len(accuracy) != len(family):
        raise OptionError(f"{len(accuracy)} accuracies and {len(family)} families; give one of each for every judge")
    names, of = np.unique(np.asarray(family, dtype=object).astype(str), return_inverse=True)
    shared = rng.standard_normal((N, len(names)))[:, of]
    latent = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * rng.standard_normal((N, len(accuracy)))
    number = pd.Series(of).groupby(of).cumcount().to_numpy() + 1
    judges = np.array([f"{names[f]}-{n}" for f, n in zip(of, number, strict=True)], dtype=object)
    return judges, names[of], latent < ndtri(1 - np.asarray(accuracy)) + shift
