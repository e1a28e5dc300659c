"""Prior sensitivity by power scaling (ArviZ)."""

from __future__ import annotations

import logging
from typing import Any

import pandas as pd
import xarray as xr

from crowdppl import arguments
from crowdppl.criticism.cross_validation import require_draws
from crowdppl.errors import OptionError
from crowdppl.posterior.posterior import Posterior

# Threshold of the sensitivity index (Kallioinen et al. 2024).
NOTICEABLE = 0.05


@arguments.checked(posterior=arguments.posterior, workers=arguments.identifiers)
def prior_sensitivity(posterior: Posterior, *, workers: list[Any] | None = None) -> pd.DataFrame:
    """Return the sensitivity of the prevalence and of workers' accuracies to powers of the prior and of the likelihood.

    Kallioinen, Paananen, Bürkner and Vehtari 2024, Detecting and diagnosing prior and likelihood sensitivity with power-scaling,
    Statistics and Computing 34. The prior is the joint prior of all parameters.

    Args:
        posterior: posterior draws, by Gibbs or NUTS.
        workers: the workers. Defaults to the ten with most annotations.

    Returns:
        A table with one row per quantity: ``prior``, ``likelihood``, and ``diagnosis``: "strong prior" if both matter, "weak
        likelihood" if only the prior does.

    Raises:
        OptionError: if the result does not consist of posterior draws.
        DataError: for an unknown worker.
    """
    import arviz_stats  # here: importing it takes a second

    if posterior.kind != "posterior":
        raise OptionError(f"the draws are of a {posterior.kind}; prior sensitivity needs method='gibbs' or 'nuts'")
    require_draws(posterior, "prior sensitivity")
    names = posterior.worker_names()
    if workers is None:
        workers = names[posterior.annotations_per_worker().argsort(kind="stable")[::-1][:10]].tolist()
    tree = posterior.tree
    sizes = tree["posterior"].sizes
    chains, draws = sizes["chain"], sizes["draw"]
    accuracy = posterior.measure("accuracy", workers=workers).reshape(chains, draws, -1)
    likelihood = tree["log_likelihood"]["labels"]
    quantities = xr.Dataset(
        {
            "prevalence": posterior.variable("prevalence"),
            "accuracy": (("chain", "draw", "worker"), accuracy),
        },
        coords={"worker": workers},
    )
    scaled = xr.DataTree.from_dict(
        {
            "/posterior": quantities,
            "/log_prior": tree["log_prior"].to_dataset(),
            "/log_likelihood": xr.Dataset({"labels": likelihood}),
        }
    )
    # ArviZ logs a link to its documentation for each diagnosis, which is in the table.
    log = logging.getLogger("arviz_stats")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        return arviz_stats.psense_summary(scaled, threshold=NOTICEABLE)
    finally:
        log.setLevel(before)
