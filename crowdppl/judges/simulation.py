"""Simulated panels: judges in families with correlated errors, on the answers of several systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from crowdppl import arguments
from crowdppl.arguments import checked
from crowdppl.errors import OptionError


@checked(
    accuracy=arguments.several(arguments.between(0, 1, 0.8)),
    family=arguments.a_list,
    correlation=arguments.number(at_least=0, below=1),
    rates=arguments.several(arguments.between(0, 1, 0.7)),
    items=arguments.whole(1),
    seed=arguments.whole(0, arguments.LARGEST_SEED),
)
def simulate(
    *,
    accuracy: Sequence[float] = (0.8, 0.8, 0.8, 0.78, 0.78, 0.88),
    family: Sequence[str] = ("a", "a", "a", "b", "b", "c"),
    correlation: float = 0.5,
    rates: Sequence[float] = (0.8, 0.65, 0.5),
    items: int = 200,
    seed: int = 0,
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
        seed: random seed.

    Returns:
        The verdicts, with columns ``item``, ``system``, ``question``, ``judge``, ``family`` and ``verdict``, and the true labels,
        with columns ``item`` and ``verdict``.

    Raises:
        OptionError: if accuracies and families differ in number.
    """
    if len(accuracy) != len(family):
        raise OptionError(f"{len(accuracy)} accuracies and {len(family)} families; give one of each for every judge")
    rng = np.random.default_rng(seed)
    N, S, J = items * len(rates), len(rates), len(accuracy)
    system = np.repeat(np.arange(S), items)
    truth = rng.random(N) < np.asarray(rates)[system]
    names, of = np.unique(np.asarray(family, dtype=object).astype(str), return_inverse=True)
    shared = rng.standard_normal((N, len(names)))[:, of]
    latent = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * rng.standard_normal((N, J))
    passed = truth[:, None] ^ (latent < ndtri(1 - np.asarray(accuracy)))
    number = pd.Series(of).groupby(of).cumcount().to_numpy() + 1
    judges = np.array([f"{names[f]}-{n}" for f, n in zip(of, number, strict=True)], dtype=object)
    item = np.array([f"q{q}-s{s + 1}" for s, q in zip(system, np.tile(np.arange(items), S), strict=True)], dtype=object)
    text = np.array(["fail", "pass"], dtype=object)
    verdicts: dict[str, Any] = {
        "item": np.repeat(item, J),
        "system": np.repeat(np.array([f"s{s + 1}" for s in system], dtype=object), J),
        "question": np.repeat(np.tile(np.arange(items), S), J),
        "judge": np.tile(judges, N),
        "family": np.tile(names[of], N),
        "verdict": text[passed.astype(int).ravel()],
    }
    return pd.DataFrame(verdicts), pd.DataFrame({"item": item, "verdict": text[truth.astype(int)]})
