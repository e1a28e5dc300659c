"""How much does the prior matter? Power scaling, by ArviZ."""

from __future__ import annotations

import logging
from typing import Any

import pandas as pd
import xarray as xr

from crowdppl import arguments
from crowdppl.criticism.cross_validation import require_draws
from crowdppl.errors import OptionError
from crowdppl.posterior.posterior import Posterior

# Above this a power of the prior, or the likelihood, moves a quantity noticeably (Kallioinen et al. 2024).
NOTICEABLE = 0.05


@arguments.checked(posterior=arguments.posterior, workers=arguments.identifiers)
def prior_sensitivity(posterior: Posterior, *, workers: list[Any] | None = None) -> pd.DataFrame:
    """Return how much the prevalence and workers' accuracies move when prior or likelihood are raised to a power near one.

    Kallioinen, Paananen, Bürkner and Vehtari 2024, Detecting and diagnosing prior and likelihood sensitivity with power-scaling,
    Statistics and Computing 34. The prior is that of the model's parameters, all at once.

    Args:
        posterior: posterior draws, by Gibbs or NUTS.
        workers: of these; the ten with most annotations where not given.

    Returns:
        A row for each quantity: ``prior``, ``likelihood``, and ``diagnosis``: "strong prior" where both matter, "weak likelihood"
        where only the prior does.

    Raises:
        OptionError: for a result that is not made of posterior draws.
        DataError: for an unknown worker.
    """
    import arviz_stats  # takes a second: only for those who ask

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
    log_prior = tree["sample_stats"]["lp"] - likelihood.sum("item")
    quantities = xr.Dataset(
        {
            "prevalence": tree["posterior"]["prevalence"],
            "accuracy": (("chain", "draw", "worker"), accuracy),
        },
        coords={"worker": workers},
    )
    scaled = xr.DataTree.from_dict(
        {
            "/posterior": quantities,
            "/log_prior": xr.Dataset({"parameters": log_prior}),
            "/log_likelihood": xr.Dataset({"labels": likelihood}),
        }
    )
    # ArviZ logs a link to its pages beside the diagnosis, which stands in the table.
    log = logging.getLogger("arviz_stats")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        return arviz_stats.psense_summary(scaled, threshold=NOTICEABLE)
    finally:
        log.setLevel(before)
