"""Predictive checks: statistics of the labels compared with those of labels replicated from the fitted model.

The statistics target typical misfits of annotation models: annotations of an item that agree more or less than the model
predicts, workers that differ more than it predicts, and pairs of workers who copy from each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, cycle, islice
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy.sparse as sparse
import torch
import xarray as xr
from torch import Tensor

from crowdppl import arguments
from crowdppl.arguments import Level, NonNegativeInt, PositiveInt, Seed, checked
from crowdppl.criticism.numbers import check_numbers
from crowdppl.data import html
from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError, ModelError, OptionError
from crowdppl.inference.backends import choose
from crowdppl.inference.predict import counted, parameter_draws, rebuilt
from crowdppl.inference.sampling import sample_truth, sample_truth_from_probabilities
from crowdppl.isolation import isolated
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.bound import BoundModel
from crowdppl.model.sampling import sample_labels, simulate
from crowdppl.posterior.numbers import NumericPosterior
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.workers import default_level

Array = npt.NDArray[Any]

# Pairs are compared among this number of workers with most annotations, if they have at least this number of items in common.
MAX_WORKERS = 100
MIN_COMMON = 5
# p-value below which a statistic is reported as one that the model does not reproduce.
NOTABLE = 0.01
# Minimum number of replicates: with fewer, p-values cannot fall below NOTABLE, since the observed value counts as one.
MIN_REPLICATES = 200

# Interpretation of a statistic that is larger, and smaller, than the model predicts.
MORE_OR_LESS = ("more often than the model expects", "less often than the model expects")
INTERPRETATIONS = {
    "agreement": tuple(f"Annotations of an item agree {frequency}" for frequency in MORE_OR_LESS),
    "agreement_spread": (
        "Items differ in difficulty more than the model allows",
        "Items differ in difficulty less than the model expects",
    ),
    "entropy": (
        "The labels of an item are more mixed than the model expects",
        "The labels of an item are less mixed than the model expects",
    ),
    "entropy_spread": (
        "Some items are disputed and others are not, more than the model allows",
        "Items are disputed more evenly than the model expects",
    ),
    "majority": tuple(f"Workers give the most frequent label of an item {frequency}" for frequency in MORE_OR_LESS),
    "majority_spread": (
        "Workers differ from each other more than the model allows",
        "Workers differ from each other less than the model expects",
    ),
    "pairs": tuple(f"Two workers agree {frequency}" for frequency in MORE_OR_LESS),
    "pairs_spread": (
        "Some pairs of workers agree far more than others: they may copy from each other, or see things alike",
        "Pairs of workers are more alike than the model expects",
    ),
}
LABEL_PREFIX = "share of the label "

# Descriptions of the statistics; spreads are standard deviations.
DESCRIPTIONS = {
    "agreement": "share of pairs of annotations of an item that agree, mean over items",
    "agreement_spread": "spread over items of the share of pairs that agree: how far items differ in difficulty",
    "entropy": "entropy of an item's labels in bits, mean over items",
    "entropy_spread": "spread over items of the entropy of their labels",
    "majority": "share of a worker's labels that are the item's most frequent, mean over workers",
    "majority_spread": "spread over workers of the share that is most frequent: how far workers differ",
    "pairs": "share of common items on which two workers agree, mean over pairs",
    "pairs_spread": "spread over pairs of workers of the share they agree on: whether some copy, or see things alike",
}


# What a check of a user's own model says, whose class a result does not hold.
TABLES = (
    "The labels were drawn from the confusion matrices of the workers, without what the model says of items. If the model is "
    "your own, pass data= and model= to draw them from the model itself."
)


@dataclass(frozen=True, repr=False)
class PredictiveCheck:
    """Statistics of the observed labels and of replicated ones.

    Attributes:
        table: one row per statistic: ``statistic``, ``meaning``, ``observed``, ``mean`` of the replicates with the ends of
            their interval ``low`` and ``high``, and a two-sided ``p_value``.
        workers: one row per worker with annotations, on the share of labels that are the most frequent of their item:
            ``observed``, ``mean``, ``low``, ``high``, ``p_value``.
        draws: the statistics of each replicate, one column each.
        source: ``"model"`` for replicates from the model itself, ``"tables"`` for those from true labels and confusion matrices
            of the draws.
    """

    table: pd.DataFrame
    workers: pd.DataFrame
    draws: pd.DataFrame
    source: str

    @property
    def sentences(self) -> list[str]:
        """The statistics that the model does not reproduce, in plain words."""
        sentences = []
        for row in self.table[self.table["p_value"] < NOTABLE].to_dict("records"):
            more = row["observed"] > row["mean"]
            words = INTERPRETATIONS.get(row["statistic"])
            if words is None:
                words = tuple(
                    f"The label {row['meaning'].removeprefix(LABEL_PREFIX)} is given {frequency}"
                    for frequency in MORE_OR_LESS
                )
            sentences.append(
                f"{words[not more]} ({row['observed']:.3f}; the model: {row['low']:.3f} to {row['high']:.3f})."
            )
        return sentences

    @property
    def summary(self) -> list[str]:
        """Whether the model reproduces the labels, and what to do if not, in plain words; details are in :attr:`sentences`."""
        compared = int(self.table["p_value"].notna().sum())
        differ = len(self.sentences)
        tables = [TABLES] if self.source == "tables" else []
        if not compared:
            return ["There are too few annotations to compare with the model."]
        if len(self.draws) < MIN_REPLICATES:
            return [
                f"{len(self.draws):,} data sets drawn from the model are too few to decide whether it reproduces the labels; "
                f"draw at least {MIN_REPLICATES} (draws=, --draws)."
            ]
        if not differ:
            return [f"The model reproduces the labels: none of {compared} statistics differs.", *tables]
        return [
            f"The model does not reproduce {differ} of {compared} statistics of the labels. Treat probabilities and intervals "
            f"with care; another model may fit better (`crowdppl models`).",
            *tables,
        ]

    def __str__(self) -> str:
        return self.table.to_string(index=False, float_format=lambda x: f"{x:.3f}")

    def __repr__(self) -> str:
        return f"PredictiveCheck({len(self.table):,} statistics, {len(self.draws):,} replicates by the {self.source})\n{self}"

    def _repr_html_(self) -> str:
        return html.view("Predictive check", *self.sentences, html.table(self.table, len(self.table)))


@checked
def statistics(
    item: Annotated[Array, arguments.array("annotation", kind="whole")],
    worker: Annotated[Array, arguments.array("annotation", kind="whole")],
    label: Annotated[Array, arguments.array("annotation", kind="whole")],
    sizes: Annotated[tuple[int, int, int], arguments.several(arguments.whole(1), 3)],
) -> tuple[dict[str, float], Array]:
    """Return the statistics of labels, and each worker's share of labels that are the most frequent of their item, ``(J,)``.

    Args:
        item: item of each annotation, ``(A,)``.
        worker: its worker, ``(A,)``.
        label: its label, ``(A,)``.
        sizes: numbers of items, workers and classes.
    """
    N, J, K = sizes
    votes = np.bincount(item * K + label, minlength=N * K).reshape(N, K)
    n = votes.sum(1)
    several, annotated = n > 1, n > 0
    agreement = (votes * (votes - 1)).sum(1)[several] / (n * (n - 1))[several]
    share = votes[annotated] / n[annotated, None]
    entropy = -(share * np.log2(np.where(share > 0, share, 1))).sum(1)
    frequent = np.bincount(worker, weights=votes.argmax(1)[item] == label, minlength=J)
    total = np.bincount(worker, minlength=J)
    majority = np.where(total > 0, frequent / np.maximum(total, 1), np.nan)
    pairs = _pairs(item, worker, label, sizes, total)
    shares = np.bincount(label, minlength=K) / len(label)
    out: dict[str, float] = {f"label_{k}": float(shares[k]) for k in range(K)}
    for name, values in {
        "agreement": agreement,
        "entropy": entropy,
        "majority": majority[total > 0],
        "pairs": pairs,
    }.items():
        out[name] = float(values.mean()) if len(values) else np.nan
        out[f"{name}_spread"] = float(values.std()) if len(values) else np.nan
    return out, majority


def _pairs(item: Array, worker: Array, label: Array, sizes: tuple[int, int, int], total: Array) -> Array:
    N, J, K = sizes
    busiest = np.argsort(-total, kind="stable")[: min(MAX_WORKERS, J)]
    column_of = np.full(J, -1)
    column_of[busiest] = np.arange(len(busiest))
    kept = column_of[worker] >= 0
    row, column, value = item[kept], column_of[worker[kept]], label[kept]
    shape = (N, len(busiest))
    ones = np.ones(len(row))
    common = sparse.csr_matrix((ones, (row, column)), shape=shape)
    both = (common.T @ common).toarray()
    split = sparse.csr_matrix((ones, (row * K + value, column)), shape=(N * K, len(busiest)))
    agree = (split.T @ split).toarray()
    upper = np.triu(np.ones_like(both, dtype=bool), 1) & (both >= MIN_COMMON)
    return np.asarray(agree[upper] / both[upper])


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
    if isinstance(draws, bool) or draws < 1:
        raise OptionError(f"draws={draws!r}; it must be at least 1")
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
    values, labels = zip(*(_simulated(chosen, data, seed + n) for n in range(draws)), strict=True)
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


def _simulated(model: AnnotationModel, data: Annotations, seed: int) -> tuple[dict[str, Array], Array]:
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


@checked
def check(
    posterior: Annotated[Posterior, arguments.any_posterior],
    *,
    draws: PositiveInt = 200,
    level: Level | None = None,
    seed: Seed = 0,
    data: Annotations | None = None,
    model: AnnotationModel | None = None,
) -> PredictiveCheck:
    """Compare the labels with labels replicated from the fitted model; arguments and errors as in :func:`replicates`.

    Items, workers and the true labels of the draws are the same: the check concerns how annotations depend on them. A small
    p-value means that the model does not generate such data; in particular, a larger spread of agreement over items than
    predicted means that items differ in difficulty. The model is the one as published, without correlated errors, which the
    check can detect. Of a result whose labels are numbers, see :func:`crowdppl.criticism.check_numbers`.
    """
    if isinstance(posterior, NumericPosterior):
        if data is not None or model is not None:
            raise OptionError(
                "a result whose labels are numbers has its own data and model; leave data= and model= out"
            )
        return check_numbers(posterior, draws=draws, level=level, seed=seed)
    item, worker, label = posterior.annotation_index()
    sizes = (len(posterior.items()), len(posterior.worker_names()), len(posterior.labels))
    replicated, source = replicates(posterior, draws, seed=seed, data=data, model=model)
    replicate_statistics = [statistics(item, worker, labels, sizes) for labels in replicated]
    observed = statistics(item, worker, label, sizes)
    return _compare(posterior.worker_names(), posterior.labels, observed, replicate_statistics, level, source)


@checked
def prior_check(
    model: AnnotationModel, data: Annotations, *, draws: PositiveInt = 200, level: Level | None = None, seed: Seed = 0
) -> PredictiveCheck:
    """Compare the labels with labels drawn from the prior of the model: a prior predictive check.

    Args:
        model: a model instance.
        data: items and workers, and the labels to compare with.
        draws: number of data sets to draw.
        level: probability of the intervals.
        seed: random seed.
    """
    item, worker, label = (part.cpu().numpy() for part in (data.item, data.worker, data.label))
    sizes = (data.N, data.J, data.K)
    replicate_statistics = [statistics(item, worker, _simulated(model, data, seed + n)[1], sizes) for n in range(draws)]
    return _compare(
        data.workers, data.labels, statistics(item, worker, label, sizes), replicate_statistics, level, "model"
    )


def _frame(features: torch.Tensor | None, names: Array) -> pd.DataFrame | None:
    return None if features is None else pd.DataFrame(features.cpu().numpy(), index=pd.Index(names))


def _compare(
    names: Array,
    labels: Array,
    observed: tuple[dict[str, float], Array],
    replicated: list[tuple[dict[str, float], Array]],
    level: float | None,
    source: str,
) -> PredictiveCheck:
    level = default_level(level)
    descriptions = {f"label_{n}": f"{LABEL_PREFIX}{k}" for n, k in enumerate(labels)} | DESCRIPTIONS
    draws = pd.DataFrame([one for one, _ in replicated])
    table = _summary(
        np.array([observed[0][name] for name in descriptions]), draws[list(descriptions)].to_numpy(), level
    )
    table.insert(0, "statistic", list(descriptions))
    table.insert(1, "meaning", list(descriptions.values()))
    by_worker = _summary(observed[1], np.stack([each for _, each in replicated]), level)
    by_worker.insert(0, "worker", names)
    return PredictiveCheck(table, by_worker.dropna(subset="observed").reset_index(drop=True), draws, source)


def _summary(observed: Array, draws: Array, level: float) -> pd.DataFrame:
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    # The observed value counts as one of the replicates, so p-values are positive. Equality is up to rounding.
    above = (1 + (draws >= observed - 1e-12).sum(0)) / (1 + len(draws))
    below = (1 + (draws <= observed + 1e-12).sum(0)) / (1 + len(draws))
    return pd.DataFrame(
        {
            "observed": observed,
            "mean": draws.mean(0),
            "low": low,
            "high": high,
            "p_value": np.where(np.isnan(observed), np.nan, np.minimum(1, 2 * np.minimum(above, below))),
        }
    )


def _evenly_spaced(size: int, count: int) -> Array:
    return np.unique(np.linspace(0, size - 1, min(count, size)).astype(int))
