"""Prior sensitivity by power scaling (ArviZ)."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pandas as pd
import xarray as xr

from crowdppl import arguments
from crowdppl.arguments import checked
from crowdppl.criticism.cross_validation import require_draws
from crowdppl.errors import OptionError
from crowdppl.posterior.posterior import Posterior

# Threshold of the sensitivity index (Kallioinen et al. 2024).
NOTICEABLE = 0.05
# What ArviZ calls a quantity to which prior and likelihood matter, and one to which the prior alone does.
CONFLICT, STRONG = "potential prior-data conflict", "potential strong prior / weak likelihood"
# Relative range of a sum that is constant but for rounding.
ROUNDING = 1e-12
DRAW = ("chain", "draw")


@checked
def prior_sensitivity(
    posterior: Posterior, *, workers: Annotated[list[Any], arguments.identifiers] | None = None
) -> pd.DataFrame:
    """Return the sensitivity of the prevalence and of workers' accuracies to powers of the prior and of the likelihood.

    Kallioinen, Paananen, Bürkner and Vehtari 2024, Detecting and diagnosing prior and likelihood sensitivity with power-scaling,
    Statistics and Computing 34. Each quantity is compared with the prior of its own: the prevalence with that of the site
    ``prevalence`` (without such a site: of all sites that are neither of workers nor of items), the accuracy of a worker with the
    prior of that worker's sites (without such sites: of all but the prevalence). A prior of all workers together, scaled as one,
    seems to be in conflict with quantities that it hardly concerns. A flat prior has the sensitivity 0.

    Results of earlier versions have one prior of all parameters, and small files that of all workers.

    Args:
        posterior: posterior draws, by Gibbs or NUTS.
        workers: the workers. Defaults to the ten with most annotations.

    Returns:
        A table with one row per quantity: ``prior``, ``likelihood``, ``diagnosis`` ("potential prior-data conflict" if both
        matter, "potential strong prior / weak likelihood" if only the prior does), and ``scaled``, the sites whose prior was.

    Raises:
        OptionError: if the result does not consist of posterior draws.
        DataError: for an unknown worker.
    """
    import arviz_stats  # here: importing it takes a second
    from arviz_base import dataset_to_dataframe  # here: likewise

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
    quantities = xr.Dataset(
        {
            "prevalence": posterior.variable("prevalence"),
            "accuracy": (("chain", "draw", "worker"), accuracy),
        },
        coords={"worker": workers},
    )
    log_prior = tree["log_prior"].to_dataset()
    likelihood = xr.Dataset({"likelihood": tree["log_likelihood"]["labels"].sum("item")})

    def sensitivity(of: xr.Dataset, to: xr.Dataset) -> xr.Dataset:
        """Return the sensitivity of quantities to powers of densities, summed up; 0 to a constant."""
        parts = [part.sum([axis for axis in part.dims if axis not in DRAW]) for part in to.data_vars.values()]
        total = sum(parts[1:], parts[0])
        constant = np.ptp(total.values) <= ROUNDING * (1 + abs(total.values).max())
        if constant:
            return of.isel(chain=0, draw=0, drop=True) * 0.0
        pair = xr.DataTree.from_dict({"/posterior": of, "/log_prior": total.to_dataset(name="scaled")})
        scaled = arviz_stats.psense(pair, group="prior")
        return scaled if isinstance(scaled, xr.Dataset) else scaled.to_dataset()

    shared, own = _priors(log_prior)
    by_prior = [sensitivity(quantities[["prevalence"]], log_prior[shared])]
    each = [quantities[["accuracy"]].isel(worker=[n]) for n in range(len(workers))]
    for part, worker in zip(each, workers, strict=True):
        of_worker = log_prior[own]
        scaled = of_worker.sel(worker=[worker]) if "worker" in of_worker.dims else of_worker
        by_prior.append(sensitivity(part, scaled))
    prior = xr.merge([by_prior[0], xr.concat(by_prior[1:], "worker")] if each else by_prior)
    joined = xr.concat([prior, sensitivity(quantities, likelihood)], dim="component", join="override")
    joined = joined.assign_coords(component=["prior", "likelihood"])
    table = dataset_to_dataframe(joined, sample_dims=["component"]).T.round(3)
    matters, informs = table["prior"] >= NOTICEABLE, table["likelihood"] >= NOTICEABLE
    table["diagnosis"] = np.select([matters & informs, matters], [CONFLICT, STRONG], "✓")
    count = posterior.variable("prevalence").sizes["true_label"]
    table["scaled"] = [", ".join(shared)] * count + [", ".join(own)] * len(workers)
    return table


def _priors(log_prior: xr.Dataset) -> tuple[list[str], list[str]]:
    """Return the sites whose prior is that of the prevalence, and those whose prior is a worker's accuracy's."""
    names = [str(name) for name in log_prior.data_vars]
    plain = [name for name in names if not {"worker", "item"} & set(log_prior[name].dims)]
    shared = [name for name in names if name == "prevalence"] or plain or names
    of_workers = [name for name in names if "worker" in log_prior[name].dims]
    return shared, of_workers or [name for name in names if name != "prevalence"] or names
