"""Labels replicated from a fitted model, or from its prior, for the same workers and items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, cycle, islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
import xarray as xr
from torch import Tensor

from crowdppl.arguments import NonNegativeInt, PositiveInt, Seed, checked
from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError, ModelError
from crowdppl.inference.backends import choose
from crowdppl.inference.predict import parameter_draws
from crowdppl.inference.sampling import sample_truth, sample_truth_from_probabilities
from crowdppl.inference.stored import counted, rebuilt
from crowdppl.isolation import isolated
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.bound import BoundModel
from crowdppl.model.sampling import sample_labels, simulate
from crowdppl.posterior.posterior import Posterior

Array = npt.NDArray[Any]


@checked
def replicates(
    posterior: Posterior,
    draws: PositiveInt = 200,
    *,
    seed: Seed = 0,
    data: Annotations | None = None,
    model: AnnotationModel | None = None,
) -> tuple[list[Array], str]:
    """Draw replicated labels for the same items and workers, one set per posterior draw.

    By default from the model: the state of each item is drawn from its posterior and the labels from the emission. If the model
    cannot be rebuilt (annotations with features but no ``data``, a custom model without ``model``, models with one truth per
    annotation), labels are drawn from the confusion matrices and true labels of the draws.

    Args:
        posterior: a result.
        draws: number of replicates; posterior draws are reused if there are fewer.
        seed: random seed.
        data: the annotations that were fitted, required if they have features.
        model: the fitted model, if it cannot be reconstructed from its name.

    Returns:
        The labels, each ``(A,)``, and their source: ``"model"`` or ``"tables"``.

    Raises:
        OptionError: for fewer than one draw.
    """
    labels, source = _replicated(posterior, draws, seed, data, model)
    return list(labels), source


def _replicated(
    posterior: Posterior, draws: int, seed: int, data: Annotations | None, model: AnnotationModel | None
) -> tuple[Iterator[Array], str]:
    """Return what :func:`replicates` does, one after the other."""
    try:
        fitted = counted(posterior, data)
        labels = _from_model(posterior, draws, seed, fitted, model)
        return chain([next(labels)], labels), "model"  # what cannot be done fails at the first
    except ModelError:
        if data is not None or model is not None:
            raise
        return _from_tables(posterior, draws, seed), "tables"


@checked
def predictive_tree(
    posterior: Posterior,
    *,
    prior: NonNegativeInt = 0,
    seed: Seed = 0,
    data: Annotations | None = None,
    model: AnnotationModel | None = None,
) -> xr.DataTree:
    """Return a tree with the groups that ArviZ's predictive functions need, such as ``loo_pit`` and ``plot_ppc_dist``.

    Its variable ``agreement (item)`` is the share of an item's annotations that have its most frequent label, for items with at
    least two annotations: in ``observed_data``; in ``posterior_predictive`` for labels replicated with every draw, as by
    :func:`replicates`; and in ``log_likelihood`` as the log-likelihood of all labels of the item, so that ArviZ
    leaves whole items out. ``posterior`` and ``log_prior`` are those of the result.

    Args:
        posterior: a result.
        prior: number of draws from the prior, for the groups ``prior``, the sites (``plot_prior_posterior``), and
            ``prior_predictive``, ``agreement``; 0 for neither group.
        seed: random seed.
        data: as in :func:`replicates`.
        model: as in :func:`replicates`.

    Raises:
        DataError: if no item has two annotations.
        ModelError: for draws from the prior of a model that cannot be rebuilt by its name, without ``model``.
    """
    item, _, label = posterior.annotation_index()
    N, K = len(posterior.items()), len(posterior.labels)
    counts = posterior.annotations_per_item()
    several = np.flatnonzero(counts > 1)
    if not len(several):
        raise DataError("no item has two annotations, whose agreement could be predicted")

    def agreement(labels: Array) -> Array:
        votes = np.bincount(item * K + labels, minlength=N * K).reshape(N, K)
        return np.asarray(votes.max(1)[several] / counts[several])

    likelihood = posterior.tree["log_likelihood"].to_dataset()["labels"].isel(item=several)
    labels, _ = _replicated(posterior, likelihood.sizes["chain"] * likelihood.sizes["draw"], seed, data, model)
    drawn = np.stack([agreement(one) for one in labels]).reshape(likelihood.shape)
    return xr.DataTree.from_dict(
        (_from_prior(posterior, prior, seed, data, model, agreement) if prior else {})
        | {
            "/posterior": posterior.tree["posterior"].to_dataset(),
            "/log_prior": posterior.tree["log_prior"].to_dataset(),
            "/log_likelihood": likelihood.to_dataset(name="agreement"),
            "/posterior_predictive": likelihood.copy(data=drawn).to_dataset(name="agreement"),
            "/observed_data": xr.Dataset(
                {"agreement": (("item",), agreement(label))}, coords={"item": likelihood["item"].values}
            ),
        }
    )


def _from_prior(
    posterior: Posterior,
    draws: int,
    seed: int,
    data: Annotations | None,
    model: AnnotationModel | None,
    agreement: Callable[[Array], Array],
) -> dict[str, xr.Dataset]:
    """Return draws of the sites from the prior, and the agreement within items of labels drawn with them."""
    data = counted(posterior, data)
    chosen = rebuilt(posterior) if model is None else model
    values, labels = zip(*(simulated(chosen, data, seed + n) for n in range(draws)), strict=True)
    own = posterior.tree["posterior"].to_dataset()
    each = {name: np.stack([one[name] for one in values])[None] for name in values[0] if name in own}
    sites = {name: (own[name].dims, value) for name, value in each.items() if value.shape[2:] == own[name].shape[2:]}
    coordinates = {"chain": [0], "draw": np.arange(draws)}
    named = {dim: own[dim] for dim in own.dims if dim not in coordinates and dim in own.coords}
    used = {dim: names for dim, names in named.items() if any(dim in dims for dims, _ in sites.values())}
    item = posterior.tree["log_likelihood"]["item"].to_numpy()[posterior.annotations_per_item() > 1]
    predicted = np.stack([agreement(one) for one in labels])[None]
    return {
        "/prior": xr.Dataset(sites, coords=coordinates | used),
        "/prior_predictive": xr.Dataset(
            {"agreement": (("chain", "draw", "item"), predicted)}, coords=coordinates | {"item": item}
        ),
    }


def simulated(model: AnnotationModel, data: Annotations, seed: int) -> tuple[dict[str, Array], Array]:
    """Return parameters and labels ``(A,)`` that a model draws for the design of the data."""
    replicated, _, values = simulate(model, design=data, seed=seed)
    return values, replicated.label.numpy()


def _from_model(
    posterior: Posterior, draws: int, seed: int, data: Annotations, model: AnnotationModel | None
) -> Iterator[Array]:
    with isolated(seed, threads=choose.threads(data)), torch.no_grad():
        # A point, or too few draws, are reused: truths and labels are drawn again each time.
        for bound, values in islice(cycle(parameter_draws(posterior, data, model, draws)), draws):
            if bound.expand(data).parent_item is not None:
                raise ModelError("each annotation has a truth of its own in this model; omit data=...")
            parameters, _ = bound.conditioned(values, data)
            state = sample_truth(bound.item_log_joint(parameters, data))  # (N,)
            yield _labels(bound, parameters, state, data).long().numpy()


def _labels(bound: BoundModel, parameters: Parameters, state: Tensor, data: Annotations) -> Tensor:
    """Draw the labels of all annotations, ``(A,)``, given the states of the items ``(N,)``."""
    if bound.provides("confusion") and data.criterion is None:
        table = bound.model.confusion(parameters, data)  # (J, S, K), or (1, S, K) for all workers
        worker = data.worker if len(table) == data.J else torch.zeros_like(data.worker)
        return sample_truth_from_probabilities(table[worker, state[data.item]])
    return sample_labels(bound, parameters, state, data)


def _from_tables(posterior: Posterior, draws: int, seed: int) -> Iterator[Array]:
    rng = np.random.default_rng(seed)
    item, worker, _ = posterior.annotation_index()
    truth = posterior.truth_draws()
    confusion = posterior.variable("confusion")
    per_chain = confusion.sizes["draw"]
    for s in islice(cycle(_evenly_spaced(len(truth), draws)), draws):
        rows = np.asarray(confusion[s // per_chain, s % per_chain].values)[worker, truth[s, item]]  # (A, K)
        edges = rows.cumsum(1)
        yield (edges < rng.random(len(item))[:, None] * edges[:, -1:]).sum(1)


def _frame(features: torch.Tensor | None, names: Array) -> pd.DataFrame | None:
    return None if features is None else pd.DataFrame(features.cpu().numpy(), index=pd.Index(names))


def _evenly_spaced(size: int, count: int) -> Array:
    return np.unique(np.linspace(0, size - 1, min(count, size)).astype(int))
