"""Cross-validation over items and over workers, and comparison of models by predictive accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
import xarray as xr
from scipy.special import logsumexp

from crowdppl import arguments
from crowdppl.arguments import Seed, TwoOrMore, checked
from crowdppl.data.annotations import Annotations
from crowdppl.errors import OptionError, silent, warn
from crowdppl.inference.backends import choose
from crowdppl.inference.catalogue import named_model
from crowdppl.inference.evaluate import item_log_likelihood
from crowdppl.inference.fit import fit
from crowdppl.inference.options import require_method
from crowdppl.inference.predict import parameter_draws
from crowdppl.inference.stored import counted, rebuilt
from crowdppl.isolation import isolated, without_warnings
from crowdppl.model.base import AnnotationModel
from crowdppl.model.features_read import without_unread_features
from crowdppl.posterior.posterior import Posterior

Array = npt.NDArray[Any]

# Pareto k above which importance sampling is unreliable (Vehtari, Gelman and Gabry 2017).
HIGH_K = 0.7
# A fifth of the draws are the tail that is smoothed, which needs at least five.
MIN_DRAWS = 25
# Range over draws below which a log-likelihood is constant; smoothing fails if all values of the tail are equal.
CONSTANT = 1e-9


@dataclass(frozen=True)
class LeaveOneOut:
    """Leave-one-item-out prediction.

    Attributes:
        elpd: expected log predictive density, summed over items, in nats; higher is better.
        se: its standard error.
        p: effective number of parameters.
        items: one row per item: ``task``, ``elpd``, ``pareto_k``, and whether it was ``refitted``.
    """

    elpd: float
    se: float
    p: float
    items: pd.DataFrame

    @property
    def high(self) -> int:
        """Number of items with a high Pareto k that were not refitted."""
        return int(((self.items["pareto_k"] > HIGH_K) & ~self.items["refitted"]).sum())

    def __str__(self) -> str:
        summary = f"elpd {self.elpd:,.1f} (standard error {self.se:,.1f}), {self.p:,.1f} effective parameters"
        if self.high:
            summary += (
                f"; for {self.high:,} of {len(self.items):,} items the estimate is unreliable (Pareto k above {HIGH_K}): "
                f"pass data=... to fit again without them"
            )
        return summary


@checked
def loo(
    posterior: Posterior,
    *,
    data: Annotations | None = None,
    model: AnnotationModel | None = None,
    folds: TwoOrMore = 10,
    seed: Seed = 0,
) -> LeaveOneOut:
    """Predict all labels of each item from those of the others, by Pareto-smoothed importance sampling (ArviZ).

    The truth of an item is summed out, and the item is left out with all its annotations. If importance sampling fails for some
    items (k above .7) and ``data`` is given, these items are predicted by K-fold cross-validation.

    Args:
        posterior: a result.
        data: the annotations that were fitted.
        model: the fitted model, if it cannot be reconstructed from its name.
        folds: number of groups of items with high k.
        seed: random seed of groups and fits.

    Raises:
        OptionError: if the result has too few draws.
    """
    import arviz_stats  # here: importing it takes a second

    require_draws(posterior, "importance sampling")
    likelihood = posterior.tree["log_likelihood"].to_dataset()
    values = likelihood["labels"].to_numpy()
    # A constant log-likelihood, up to rounding, needs no smoothing: one class, or a single label of a worker like all others.
    varying = np.ptp(values, axis=(0, 1)) > CONSTANT
    elpd, pareto_k, p = values.mean((0, 1)), np.zeros(values.shape[-1]), 0.0
    if varying.any():
        part = xr.DataTree.from_dict(
            {
                "/posterior": posterior.tree["posterior"].to_dataset()[["prevalence"]],
                "/log_likelihood": likelihood.isel(item=np.flatnonzero(varying)),
            }
        )
        # The result reports high k itself.
        with without_warnings():
            estimate = arviz_stats.loo(part, pointwise=True, var_name="labels")
        elpd[varying], pareto_k[varying] = np.asarray(estimate.elpd_i).ravel(), np.asarray(estimate.pareto_k).ravel()
        p = float(estimate.p)
    table = pd.DataFrame(
        {posterior.item_column: posterior.items(), "elpd": elpd, "pareto_k": pareto_k, "refitted": False}
    )
    high = np.flatnonzero(table["pareto_k"].to_numpy() > HIGH_K)
    total = float(table["elpd"].sum())
    if data is not None and len(high):
        info = posterior.info
        fitted = rebuilt(posterior) if model is None else model
        options = {name: value for name, value in info["options"].items() if name != "validation"}
        refitted = kfold(
            counted(posterior, data), fitted, method=info["method"], items=high, folds=folds, seed=seed, **options
        )
        table.loc[high, "elpd"] = refitted["elpd"].to_numpy()
        table.loc[high, "refitted"] = True
        p += total - float(table["elpd"].sum())
    values = table["elpd"].to_numpy()
    return LeaveOneOut(float(values.sum()), float(np.sqrt(len(values) * values.var())), p, table)


def require_draws(posterior: Posterior, what: str) -> None:
    """Refuse a result with fewer draws than smoothed importance sampling needs.

    Raises:
        OptionError: for fewer than ``MIN_DRAWS`` draws in all chains.
    """
    sizes = posterior.tree["log_likelihood"].sizes
    count = sizes["chain"] * sizes["draw"]
    if count < MIN_DRAWS:
        raise OptionError(
            f"{count} draws are too few for {what}, which needs {MIN_DRAWS}; fit again with a larger num_samples"
        )


@checked
def kfold(
    data: Annotations,
    model: str | AnnotationModel,
    *,
    method: Annotated[str, require_method] | None = None,
    items: Annotated[Array, arguments.anything] | None = None,
    folds: TwoOrMore = 10,
    seed: Seed = 0,
    **options: Any,
) -> pd.DataFrame:
    """Predict all labels of items from fits to the other items.

    Args:
        data: the annotations.
        model: as in :func:`crowdppl.fit`.
        method: as in :func:`crowdppl.fit`.
        items: indices of the items to predict. Defaults to all.
        folds: number of folds.
        seed: random seed of folds and fits.
        **options: options of the engine.

    Returns:
        A table with one row per item predicted: ``task``, ``fold``, and ``elpd``, the log of the posterior mean probability of
        its labels.

    Raises:
        OptionError: for fewer than two folds.
    """
    data = without_unread_features(named_model(model), data.to("cpu"))
    chosen = np.arange(data.N)
    if items is not None:
        chosen = arguments.array("item", kind="whole")("items", items)
        if chosen.min() < 0 or chosen.max() >= data.N or len(np.unique(chosen)) < len(chosen):
            raise OptionError(f"items must be different indices from 0 to {data.N - 1:,}")
    fold = _item_folds(data, chosen, folds, seed)
    elpd = np.full(len(chosen), np.nan)
    chosen_model = named_model(model)
    warnings: list[str] = []
    for f in range(int(fold.max()) + 1):
        out = chosen[fold == f]
        rest = np.setdiff1d(np.arange(data.N), out)
        train, test = data.batch(torch.from_numpy(rest)), data.batch(torch.from_numpy(out))
        posterior = _quiet_fit(train, chosen_model, method=method, seed=seed, independent=True, **options)
        warnings += posterior.warnings
        with isolated(seed, threads=choose.threads(test)), torch.no_grad():
            logs = []
            for bound, values in parameter_draws(posterior, test, chosen_model):
                parameters, _ = bound.conditioned(values, test)
                logs.append(item_log_likelihood(bound, parameters, test).numpy())
        elpd[fold == f] = logsumexp(np.stack(logs), axis=0) - np.log(len(logs))
    _summarise_warnings(warnings, "some of the items")
    return pd.DataFrame({data.item_column: data.items[chosen], "fold": fold, "elpd": elpd})


def _item_folds(data: Annotations, chosen: Array, folds: int, seed: int) -> Array:
    """Return a random fold for each of the items ``chosen``; items of one sequence, or of one set of labels, are in the same.

    Raises:
        OptionError: where some labels of a set are among them, and others are not.
    """
    if data.sequence is None:
        return _folds(len(chosen), folds, seed)
    of_item = data.sequence.cpu().numpy()[chosen]
    groups, number = np.unique(of_item, return_inverse=True)
    if data.set_labels is not None:
        whole = np.bincount(number) == len(data.set_labels)
        if not whole.all() or (np.diff(chosen) < 0).any():
            raise OptionError("items must be all labels of a task, in order: a set is predicted as a whole")
    return np.asarray(_folds(len(groups), folds, seed)[number])


def _folds(size: int, folds: int, seed: int) -> Array:
    """Return a random fold for each of ``size`` elements, ``(size,)``, of equal sizes."""
    return np.random.default_rng(seed).permutation(size) % min(folds, size)


def _summarise_warnings(warnings: list[str], what: str) -> None:
    """Emit one warning for those of several fits."""
    if warnings:
        warn(f"{len(warnings):,} warnings of the fits without {what}, the first: {warnings[0]}")


def _quiet_fit(*args: Any, **options: Any) -> Posterior:
    with silent():
        return fit(*args, **options)


@checked
def compare_elpd(posteriors: Mapping[str, Posterior]) -> pd.DataFrame:
    """Rank results on the same data by leave-one-item-out prediction (ArviZ's ``compare``).

    Args:
        posteriors: results by name, with different models, priors or engines. Approximations and modes are treated like posterior
            draws.

    Returns:
        A table with one row per result, best first: ``elpd``, ``p``, ``elpd_diff`` to the best with its standard error ``dse``,
        stacking ``weight``, and ``warning`` if a Pareto k is high.

    Raises:
        OptionError: for fewer than two results, or results on other annotations.
    """
    import arviz_stats  # here: importing it takes a second

    for name, posterior in arguments.mapping("posteriors", posteriors).items():
        arguments.posterior(f"posteriors[{name!r}]", posterior)
    if len(posteriors) < 2:
        raise OptionError("pass at least two results to compare, by name")
    first = next(iter(posteriors.values()))
    for name, posterior in posteriors.items():
        same = all(
            np.array_equal(a, b) for a, b in zip(first.annotation_index(), posterior.annotation_index(), strict=True)
        )
        if not same or not np.array_equal(first.items(), posterior.items()):
            raise OptionError(f"{name!r} was fitted to other annotations; compare results on the same data")
    with without_warnings():
        table = arviz_stats.compare({name: posterior.tree for name, posterior in posteriors.items()}, var_name="labels")
    return table


@checked
def leave_workers_out(
    data: Annotations,
    model: str | AnnotationModel,
    *,
    method: Annotated[str, require_method] | None = None,
    folds: TwoOrMore = 5,
    seed: Seed = 0,
    **options: Any,
) -> pd.DataFrame:
    """Predict the labels of workers from those of the others, as if they were average members of the crowd.

    Args:
        data: the annotations.
        model: as in :func:`crowdppl.fit`.
        method: as in :func:`crowdppl.fit`.
        folds: number of groups of workers; each group is left out once.
        seed: random seed of groups and fits.
        **options: options of :func:`crowdppl.fit`.

    Returns:
        A table with one row per worker: ``worker``; ``annotations``; ``log_score``, the mean log-probability of the labels given;
        ``baseline``, the same under the label frequencies of the others; ``expected``, the expected share of labels that are the
        most probable one; and ``agreed``, the observed share.

    Raises:
        OptionError: for fewer than two folds.
    """
    data = without_unread_features(named_model(model), data.to("cpu"))
    fold = _folds(data.J, folds, seed)
    item, worker, label = (part.numpy() for part in (data.item, data.worker, data.label))
    log_score, baseline, expected, agreed = np.zeros((4, data.A))
    warnings: list[str] = []
    for f in range(int(fold.max()) + 1):
        out = fold[worker] == f
        if not out.any() or out.all():
            continue
        posterior = _quiet_fit(data.keep(torch.from_numpy(~out)), model, method=method, seed=seed, **options)
        warnings += posterior.warnings
        predicted = (posterior.probability() @ posterior.mean_confusion().mean(0))[item[out]]  # (a, K)
        predicted = predicted / predicted.sum(1, keepdims=True)
        share = (posterior.label_counts_by_worker().sum(0) + 1) / (posterior.label_counts_by_worker().sum() + data.K)
        likely = predicted.argmax(1)
        log_score[out] = np.log(predicted[np.arange(len(predicted)), label[out]])
        baseline[out] = np.log(share[label[out]])
        expected[out] = predicted.max(1)
        agreed[out] = likely == label[out]
    _summarise_warnings(warnings, "some of the workers")
    n = np.bincount(worker, minlength=data.J)
    means = {
        name: np.bincount(worker, weights=values, minlength=data.J) / np.maximum(n, 1)
        for name, values in {
            "log_score": log_score,
            "baseline": baseline,
            "expected": expected,
            "agreed": agreed,
        }.items()
    }
    table = pd.DataFrame({"worker": data.workers, "annotations": n} | means)
    return table[n > 0].reset_index(drop=True)
