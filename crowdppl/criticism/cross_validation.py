"""How well are labels predicted that the fit has not seen? By items, by workers, and models compared by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
import xarray as xr
from scipy.special import logsumexp

from crowdppl import arguments
from crowdppl.data.annotations import Annotations
from crowdppl.errors import OptionError, silent, warn
from crowdppl.inference.evaluate import item_log_likelihood
from crowdppl.inference.fit import fit, named_model
from crowdppl.inference.options import require_method
from crowdppl.inference.predict import parameter_draws, rebuilt
from crowdppl.isolation import isolated, without_warnings
from crowdppl.model.base import AnnotationModel
from crowdppl.posterior.posterior import Posterior

Array = npt.NDArray[Any]

# Above this Pareto k importance sampling does not reach the posterior without the item (Vehtari, Gelman and Gabry 2017).
HIGH_K = 0.7
# A fifth of the draws are the tail that is smoothed; it needs five.
LEAST_DRAWS = 25


@dataclass(frozen=True)
class LeaveOneOut:
    """Leave-one-item-out prediction.

    Attributes:
        elpd: expected log predictive density, summed over items, in nats; higher is better.
        se: its standard error.
        p: effective number of parameters.
        items: a row for each item: ``task``, ``elpd``, ``pareto_k``, and whether it was ``refitted``.
    """

    elpd: float
    se: float
    p: float
    items: pd.DataFrame

    @property
    def high(self) -> int:
        """Number of items whose Pareto k is too high, and that were not refitted."""
        return int(((self.items["pareto_k"] > HIGH_K) & ~self.items["refitted"]).sum())

    def __str__(self) -> str:
        told = f"elpd {self.elpd:,.1f} (standard error {self.se:,.1f}), {self.p:,.1f} effective parameters"
        if self.high:
            told += (
                f"; for {self.high:,} of {len(self.items):,} items the estimate is not to be trusted (Pareto k above {HIGH_K}): "
                f"pass data= to fit again without them"
            )
        return told


@arguments.checked(
    posterior=arguments.posterior,
    data=arguments.annotation_data,
    model=arguments.model,
    folds=arguments.whole(2),
    seed=arguments.seed,
)
def loo(
    posterior: Posterior,
    *,
    data: Annotations | None = None,
    model: AnnotationModel | None = None,
    folds: int = 10,
    seed: int = 0,
) -> LeaveOneOut:
    """Predict all labels of each item from those of the others, by Pareto-smoothed importance sampling (ArviZ).

    The truth of an item is summed out: what is left out is the item with all its annotations. Where importance sampling fails (k
    above .7), and ``data`` is given, the items concerned are left out in groups and the model fitted again: K-fold for these.

    Args:
        posterior: a result.
        data: the annotations that were fitted.
        model: the fitted model, where it cannot be rebuilt by its name.
        folds: groups of items with high k.
        seed: of the groups and fits.

    Raises:
        OptionError: where the result has too few draws.
    """
    import arviz_stats  # takes a second: only for those who ask

    require_draws(posterior, "importance sampling")
    likelihood = posterior.tree["log_likelihood"].to_dataset()
    values = likelihood["labels"].to_numpy()
    # What no draw moves is known without smoothing: one class, one possible label.
    moving = np.ptp(values, axis=(0, 1)) > 0
    elpd, pareto_k, p = values.mean((0, 1)), np.zeros(values.shape[-1]), 0.0
    if moving.any():
        part = xr.DataTree.from_dict(
            {
                "/posterior": posterior.tree["posterior"].to_dataset()[["prevalence"]],
                "/log_likelihood": likelihood.isel(item=np.flatnonzero(moving)),
            }
        )
        # Every warning of high k is told in words by the result.
        with without_warnings():
            found = arviz_stats.loo(part, pointwise=True, var_name="labels")
        elpd[moving], pareto_k[moving] = np.asarray(found.elpd_i).ravel(), np.asarray(found.pareto_k).ravel()
        p = float(found.p)
    table = pd.DataFrame(
        {posterior.item_column: posterior.items(), "elpd": elpd, "pareto_k": pareto_k, "refitted": False}
    )
    high = np.flatnonzero(table["pareto_k"].to_numpy() > HIGH_K)
    total = float(table["elpd"].sum())
    if data is not None and len(high):
        info = posterior.info
        chosen = rebuilt(posterior) if model is None else model
        options = {name: value for name, value in info["options"].items() if name != "validation"}
        again = kfold(data, chosen, method=info["method"], items=high, folds=folds, seed=seed, **options)
        table.loc[high, "elpd"] = again["elpd"].to_numpy()
        table.loc[high, "refitted"] = True
        p += total - float(table["elpd"].sum())
    values = table["elpd"].to_numpy()
    return LeaveOneOut(float(values.sum()), float(np.sqrt(len(values) * values.var())), p, table)


def require_draws(posterior: Posterior, what: str) -> None:
    """Refuse a result with fewer draws than smoothed importance sampling needs, whose tail must hold five.

    Raises:
        OptionError: for fewer than ``LEAST_DRAWS`` draws over all chains.
    """
    sizes = posterior.tree["log_likelihood"].sizes
    count = sizes["chain"] * sizes["draw"]
    if count < LEAST_DRAWS:
        raise OptionError(
            f"too few draws for {what}: {count}, and {LEAST_DRAWS} are needed; fit again with a larger num_samples"
        )


@arguments.checked(
    data=arguments.annotation_data,
    model=arguments.anything,
    method=require_method,
    items=arguments.anything,
    folds=arguments.whole(2),
    seed=arguments.seed,
    options=arguments.anything,
)
def kfold(
    data: Annotations,
    model: str | AnnotationModel,
    *,
    method: str | None = None,
    items: Array | None = None,
    folds: int = 10,
    seed: int = 0,
    **options: Any,
) -> pd.DataFrame:
    """Predict all labels of items by fits to the others.

    Args:
        data: the annotations.
        model: as of :func:`crowdppl.fit`.
        method: likewise.
        items: places of the items to predict; all where not given.
        folds: fits.
        seed: of the folds and fits.
        **options: of the engine.

    Returns:
        A row for each item predicted: ``task``, ``fold``, and ``elpd``, the log of the mean probability of its labels.

    Raises:
        OptionError: for fewer than two folds.
    """
    data = data.to("cpu")
    chosen = np.arange(data.N)
    if items is not None:
        chosen = arguments.array("item", kind="whole")("items", items)
        if chosen.min() < 0 or chosen.max() >= data.N or len(np.unique(chosen)) < len(chosen):
            raise OptionError(f"items are places from 0 to {data.N - 1:,}, each once")
    fold = _folds(len(chosen), folds, seed)
    elpd = np.full(len(chosen), np.nan)
    story = named_model(model)
    told: list[str] = []
    for f in range(int(fold.max()) + 1):
        out = chosen[fold == f]
        rest = np.setdiff1d(np.arange(data.N), out)
        train, test = data.batch(torch.from_numpy(rest)), data.batch(torch.from_numpy(out))
        posterior = _quiet_fit(train, story, method=method, seed=seed, independent=True, **options)
        told += posterior.warnings
        with isolated(seed), torch.no_grad():
            logs = []
            for bound, values in parameter_draws(posterior, test, story):
                parameters, _ = bound.conditioned(values, test)
                logs.append(item_log_likelihood(bound, parameters, test).numpy())
        elpd[fold == f] = logsumexp(np.stack(logs), axis=0) - np.log(len(logs))
    _tell(told, "some of the items")
    return pd.DataFrame({data.item_column: data.items[chosen], "fold": fold, "elpd": elpd})


def _folds(size: int, folds: int, seed: int) -> Array:
    """Return the fold of each of ``size`` things, ``(size,)``, at random and of equal sizes."""
    if isinstance(folds, bool) or folds < 2:
        raise OptionError(f"folds={folds!r}; at least 2 are needed")
    return np.random.default_rng(seed).permutation(size) % min(folds, size)


def _tell(told: list[str], what: str) -> None:
    """Say once what several fits had to say."""
    if told:
        warn(f"{len(told):,} warnings of the fits without {what}, the first: {told[0]}")


def _quiet_fit(*args: Any, **options: Any) -> Posterior:
    with silent():
        return fit(*args, **options)


@arguments.checked(posteriors=arguments.anything)
def compare(posteriors: Mapping[str, Posterior]) -> pd.DataFrame:
    """Rank results on the same data by leave-one-item-out prediction (ArviZ's ``compare``).

    Args:
        posteriors: results by name: other models, priors or engines. What an approximation or a mode says of itself is taken as
            if it were the posterior.

    Returns:
        A row for each, best first: ``elpd``, ``p``, ``elpd_diff`` to the best with its standard error ``dse``, stacking
        ``weight``, and ``warning`` where some Pareto k is high.

    Raises:
        OptionError: for fewer than two results, or results on other annotations.
    """
    import arviz_stats  # takes a second: only for those who ask

    for name, posterior in arguments.mapping("posteriors", posteriors).items():
        arguments.posterior(f"posteriors[{name!r}]", posterior)
    if len(posteriors) < 2:
        raise OptionError("give at least two results to compare, by name")
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


@arguments.checked(
    data=arguments.annotation_data,
    model=arguments.anything,
    method=require_method,
    folds=arguments.whole(2),
    seed=arguments.seed,
    options=arguments.anything,
)
def leave_workers_out(
    data: Annotations,
    model: str | AnnotationModel,
    *,
    method: str | None = None,
    folds: int = 5,
    seed: int = 0,
    **options: Any,
) -> pd.DataFrame:
    """Predict what workers answer from what the others answered, taking them as average members of the crowd.

    Args:
        data: the annotations.
        model: as of :func:`crowdppl.fit`.
        method: likewise.
        folds: groups of workers; each is left out once.
        seed: of the groups and fits.
        **options: of :func:`crowdppl.fit`.

    Returns:
        A row for each worker: ``worker``, ``annotations``, ``log_score``, the mean log-probability of the labels given,
        ``baseline``, the same by the labels' frequencies among the others, ``expected``, the share of labels expected to be the
        most probable one, and ``agreed``, the share that was.

    Raises:
        OptionError: for fewer than two folds.
    """
    data = data.to("cpu")
    fold = _folds(data.J, folds, seed)
    item, worker, label = (part.numpy() for part in (data.item, data.worker, data.label))
    log_score, baseline, expected, agreed = np.zeros((4, data.A))
    warned: list[str] = []
    for f in range(int(fold.max()) + 1):
        out = fold[worker] == f
        if not out.any() or out.all():
            continue
        posterior = _quiet_fit(data.keep(torch.from_numpy(~out)), model, method=method, seed=seed, **options)
        warned += posterior.warnings
        told = (posterior.probability() @ posterior.mean_confusion().mean(0))[item[out]]  # (a, K)
        told = told / told.sum(1, keepdims=True)
        share = (posterior.label_counts_by_worker().sum(0) + 1) / (posterior.label_counts_by_worker().sum() + data.K)
        likely = told.argmax(1)
        log_score[out] = np.log(told[np.arange(len(told)), label[out]])
        baseline[out] = np.log(share[label[out]])
        expected[out] = told.max(1)
        agreed[out] = likely == label[out]
    _tell(warned, "some of the workers")
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
