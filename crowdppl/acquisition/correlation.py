"""What further annotations of an item are worth where errors are correlated: effective numbers, and values of ``rho``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import arguments
from crowdppl.arguments import Level, PositiveInt, checked
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.workers import interval

if TYPE_CHECKING:
    from crowdppl.inference.dependence.design_effect import DesignEffect

Array = npt.NDArray[Any]

# Mean and standard deviation of logit rho. With rho = .1 the growth of accuracy from two to six annotations per item is predicted
# without bias on average over twelve public sets; single sets need .03 to .3 (docs/benchmarks/replay.md).
GROWTH = (-2.2, 1.2)
# Number of values of rho that gains are averaged over.
RHOS = 50


@checked
def effective(n: Annotated[Any, arguments.amounts(0)], rho: Annotated[Any, arguments.amounts(0, 1)]) -> Array:
    """Return how many independent annotations ``n`` correlated ones are worth, ``n / (1 + (n - 1) rho)``; 0 for none."""
    n, rho = np.asarray(n, dtype=float), np.asarray(rho, dtype=float)
    return np.asarray(n / (1 + np.maximum(n - 1, 0) * rho))


@checked
def redundancy(posterior: Posterior, most: PositiveInt = 20, *, level: Level | None = None) -> pd.DataFrame:
    """Return the effective number of independent workers behind ``n`` annotations of an item.

    It is that of this crowd where the fit had known true labels or a ``rho`` of its own, else that of an average public crowd:
    :func:`redundancy_source` says which.

    Args:
        posterior: a result.
        most: the largest ``n``.
        level: probability of the intervals, over the draws of ``rho``.

    Returns:
        A row for each ``n`` from 1: ``annotations``, ``independent``, ``low``, ``high``. All are equal to ``n`` for a result that
        counts annotations as independent.
    """
    from crowdppl.inference.dependence.design_effect import DesignEffect  # here: it imports torch

    n = np.arange(1, most + 1)
    truths = told_by_truths(posterior)
    crowd = None if truths is None else DesignEffect(truths["crowd_mean"], truths["crowd_spread"])
    rho = rho_quantiles(posterior, 1000) if crowd is None else _quantiles(crowd, 1000)
    mean, low, high = interval(effective(n, rho[:, None]), level)
    return pd.DataFrame({"annotations": n, "independent": mean, "low": low, "high": high})


@checked
def redundancy_source(posterior: Posterior) -> str:
    """Return where the effective numbers of :func:`redundancy` are from, in a few words."""
    from crowdppl.inference.dependence.design_effect import DesignEffect  # here: it imports torch

    effect, truths = DesignEffect.of_json(posterior.info.get("rho")), told_by_truths(posterior)
    if effect is None:
        return "annotations of one item count as independent"
    if truths is not None:
        count = truths["items"]
        return f"estimated from {count:,} known true label{'' if count == 1 else 's'} of this crowd"
    return "average of public crowds, not a finding about this one" if effect.public else "rho as given"


def worth(n: Array, rho: Any) -> Array:
    """Return ``w(n)``, the increase of the effective number by the next annotation, from 0 to 1; 1 for the first."""
    return np.clip(effective(n + 1, rho) - effective(n, rho), 0.0, 1.0)


def mean_worth(n: Array, rho: Array) -> Array:
    """Average :func:`worth` over values of ``rho (R,)``: ``(N,)`` for ``n (N,)``."""
    values, where = np.unique(n, return_inverse=True)
    return np.asarray(worth(values[:, None], rho).mean(-1)[where])


def all_rho(posterior: Posterior) -> Array:
    """Return ``rho`` of every draw, ``(S,)``; zeros if annotations count as independent."""
    if posterior.calibrated:
        return np.clip(posterior.draws("rho"), 0.0, 1.0)
    return np.zeros(len(posterior.draws("prevalence")))


def rho_quantiles(posterior: Posterior, count: int = RHOS) -> Array:
    """Return quantiles of the distribution of ``rho`` (``GROWTH``, unless the fit has its own), ascending: ``(count,)``."""
    from crowdppl.inference.dependence.design_effect import DesignEffect  # here: it imports torch

    effect, truths = DesignEffect.of_json(posterior.info.get("rho")), told_by_truths(posterior)
    if effect is None:
        return np.zeros(count)
    if effect == DesignEffect():
        effect = DesignEffect(*GROWTH)
    elif truths is not None:
        effect = DesignEffect(truths["mean"], truths["spread"])
    return _quantiles(effect, count)


def _quantiles(effect: DesignEffect, count: int) -> Array:
    import torch  # here: slow to import

    return effect.quantiles((torch.arange(count, dtype=torch.float64) + 0.5) / count).numpy()


def told_by_truths(posterior: Posterior) -> dict[str, Any] | None:
    """Return what known true labels said of ``rho`` in the fit, if anything."""
    return (posterior.info.get("rho") or {}).get("truths")
