"""Selection of the number of groups of annotators by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import numpy as np
import pandas as pd

from crowdppl import arguments
from crowdppl.arguments import Seed, checked
from crowdppl.criticism.cross_validation import require_draws
from crowdppl.data.annotations import Annotations
from crowdppl.errors import silent
from crowdppl.inference.fit import fit
from crowdppl.isolation import without_warnings
from crowdppl.model.base import AnnotationModel


@checked
def choose_groups(
    data: Annotations,
    make: Annotated[Callable[[int], AnnotationModel], arguments.function],
    groups: Annotated[Iterable[int], arguments.several(arguments.whole(1))] = (1, 2, 3, 4),
    *,
    seed: Seed = 0,
    **options: Any,
) -> pd.DataFrame:
    """Fit a model with different numbers of groups by Gibbs sampling and compare the fits.

    Args:
        data: the annotations.
        make: returns the model with a given number of groups, such as ``lambda m: WorkerGroups(groups=m)``.
        groups: numbers of groups to compare.
        seed: random seed of every fit.
        **options: options of the Gibbs sampler.

    Returns:
        A table with one row per number: ``groups``; ``log_likelihood``, its posterior mean; ``elpd``, the expected log
        predictive density of an item left out, by Pareto-smoothed importance sampling (PSIS-LOO: Vehtari, Gelman and Gabry
        2017); ``se`` of it; ``difference`` to the best and its standard error ``se_difference``; ``p``, effective number of
        parameters; ``bad``, the number of items with an unreliable estimate (Pareto k above .7).
    """
    import arviz_stats  # here: importing it takes a second

    rows, pointwise = [], []
    for count in groups:
        # The table reports Pareto k.
        with silent():
            posterior = fit(data, make(count), method="gibbs", seed=seed, **options)
        with without_warnings(message=".*Pareto.*", category=UserWarning):
            require_draws(posterior, "leave-one-item-out prediction")
            loo = arviz_stats.loo(posterior.tree, pointwise=True)
        total = np.asarray(posterior.tree["log_likelihood"]["labels"].values).sum(-1).mean()
        each = np.asarray(loo.elpd_i.values).reshape(-1)
        bad = int((np.asarray(loo.pareto_k.values) > 0.7).sum())
        pointwise.append(each)
        rows.append(
            {"groups": count, "log_likelihood": total, "elpd": each.sum(), "se": loo.se, "p": loo.p, "bad": bad}
        )
    best = int(np.argmax([row["elpd"] for row in rows]))
    for row, each in zip(rows, pointwise, strict=True):
        gap = each - pointwise[best]
        row["difference"] = gap.sum()
        row["se_difference"] = np.sqrt(len(gap) * gap.var())
    return pd.DataFrame(rows)
