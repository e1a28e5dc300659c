"""Simulation-based calibration: a test of whether an engine samples the posterior.

Parameters and true labels are drawn from the prior, labels from the model, and the model is fitted; each drawn quantity is
ranked among the draws of the fit. If the engine samples the posterior, ranks are uniform for every model (Talts, Betancourt,
Simpson, Vehtari and Gelman 2018, arXiv:1804.06788). Ranks of parameters alone miss an engine that ignores the data; quantities
that depend on data and parameters do not (Modrák et al. 2023, Bayesian Analysis 20(2)): the log-likelihood, the true label of
an item, and a worker's number of correct annotations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy.stats
import torch

from crowdppl import arguments
from crowdppl.arguments import Level, NonNegativeInt, PositiveInt, Seed, TwoOrMore, checked
from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError, OptionError, silent
from crowdppl.inference.backends import choose
from crowdppl.inference.catalogue import named_model
from crowdppl.inference.fit import fit
from crowdppl.inference.options import Method, require_method
from crowdppl.isolation import isolated
from crowdppl.kernels.ops import normalise
from crowdppl.model.base import AnnotationModel
from crowdppl.model.bound import bind, repeated
from crowdppl.model.sampling import simulate
from crowdppl.posterior.intervals import tails
from crowdppl.posterior.posterior import Posterior

__all__ = ["NoDraws", "coverage", "ranks", "table", "uniformity"]

Array = npt.NDArray[Any]


def __dir__() -> list[str]:
    return __all__


class NoDraws(ModelError):
    """Calibration of an engine that returns a point estimate without draws."""


# Of the data sets of :func:`ranks`.
_SIZES = {"items": 20, "workers": 4, "per_item": 3, "classes": 2, "features": 2, "length": 1, "sets": 1}


@checked
def ranks(
    model: str | AnnotationModel,
    method: Annotated[Method, require_method],
    *,
    simulations: PositiveInt = 100,
    items: PositiveInt | None = None,
    workers: PositiveInt | None = None,
    per_item: PositiveInt | None = None,
    classes: TwoOrMore | None = None,
    features: NonNegativeInt | None = None,
    length: PositiveInt | None = None,
    sets: PositiveInt | None = None,
    design: Annotations | None = None,
    draws: PositiveInt = 99,
    seed: Seed = 0,
    independent: bool = True,
    **options: Any,
) -> pd.DataFrame:
    """Fit data sets drawn from the prior of the model.

    Args:
        model: name or instance of a model with a proper prior.
        method: the engine.
        simulations: number of data sets.
        items: number of items of each data set, by default 20.
        workers: number of workers of each data set, by default 4.
        per_item: number of annotations per item, by different workers, by default 3.
        classes: number of classes ``K``, by default 2.
        features: number of standard normal item features, by default 2; 0 for none.
        length: number of items in each sequence, where they are tokens; 1 for items that are none.
        sets: number of labels of which sets are made: so many items are the labels of one task; 1 for items that are none.
        design: annotations whose items, workers, times, covariates, features, sequences and sets every data set has, in place of
            all of these; see :func:`crowdppl.simulate`.
        draws: number ``L`` of evenly spaced draws of each fit; ranks are ``0..L``.
        seed: random seed; simulation ``s`` uses ``seed + s``.
        independent: rank among draws of the model as published. Otherwise rank among draws that allow for correlated errors,
            which the simulated data do not have; this shows the cost of allowing for them.
        **options: options of the engine, and ``rho``.

    Returns:
        A table with one row per simulation and quantity: ``simulation``, ``quantity``, ``rank`` of the drawn value among the
        draws of the fit, ties broken at random. Quantities: prevalence and confusion of the first class, accuracy of every
        worker, the first number of every other parameter that has draws, the log-likelihood of all labels, and of items with
        one truth each the truth of the first item and the number of correct annotations of the first worker.

    Raises:
        ModelError: if the engine returns a point estimate without draws.
        OptionError: for sizes beside a design, which has its own.
    """
    chosen = named_model(model)
    sizes = {
        "items": items,
        "workers": workers,
        "per_item": per_item,
        "classes": classes,
        "features": features,
        "length": length,
        "sets": sets,
    }
    given = {name: size for name, size in sizes.items() if size is not None}
    if design is not None and given:
        raise OptionError(f"design= and {next(iter(given))}= both say what labels are drawn for; leave one out")
    size = _SIZES | given
    rows = []
    for s in range(simulations):
        rng = np.random.default_rng(seed + s)
        if design is not None:
            data, truth, drawn = simulate(chosen, design=design, seed=seed + s)
        else:
            data, truth, drawn = _simulated(chosen, size, seed + s, rng)
        with silent():  # short chains are part of the simulation
            posterior = fit(
                data, chosen, method=method, seed=seed + s, independent=independent, copies="all", **options
            )
        if posterior.kind == "point":
            raise NoDraws(
                f"{type(chosen).__name__} by method={method!r} returns a point estimate; "
                "calibrate an engine that returns draws"
            )
        true, sampled = _quantities(chosen, data, truth, drawn, posterior)
        kept = np.linspace(0, len(sampled["prevalence"]) - 1, draws).round().astype(int)
        for name, value in true.items():
            among = sampled[name][kept]
            # Ties of discrete quantities are broken at random.
            rank = int((among < value).sum() + rng.integers(0, (among == value).sum() + 1))
            rows.append((s, name, rank))
    return pd.DataFrame(rows, columns=["simulation", "quantity", "rank"])


def _simulated(
    model: AnnotationModel, size: Mapping[str, int], seed: int, rng: np.random.Generator
) -> tuple[Annotations, Array, dict[str, Array]]:
    """Return data of these sizes, their truths, and the parameters that they are drawn from."""
    task = np.repeat(np.arange(size["items"]), size["per_item"])
    worker = np.concatenate(
        [rng.choice(size["workers"], size["per_item"], replace=False) for _ in range(size["items"])]
    )
    places = pd.DataFrame({"task": range(size["items"])}).assign(
        sequence=lambda table: table["task"] // size["length"],
        position=lambda table: table["task"] % size["length"],
    )
    return simulate(
        model,
        task,
        worker,
        classes=size["classes"],
        seed=seed,
        features=rng.normal(size=(size["items"], size["features"])) if size["features"] else None,
        sequences=None if size["length"] == 1 else places,
        sets=size["sets"],
    )


def _quantities(
    model: AnnotationModel, data: Annotations, truth: Array, drawn: Mapping[str, Array], posterior: Posterior
) -> tuple[dict[str, float], dict[str, Array]]:
    """Return the quantities to rank: their drawn values, and their values ``(S,)`` at the draws of the fit."""
    with isolated(0, threads=choose.threads(data)), torch.no_grad():
        bound = bind(model, data)
        expanded = bound.expand(data)
        sites = {name: torch.as_tensor(value) for name, value in drawn.items()}
        parameters, _ = bound.conditioned(sites, expanded)
        confusion = bound.truths.confusion(parameters, data).numpy()
        prevalence = bound.truths.prevalence(parameters, data).numpy()
        marginal = float(repeated(normalise(bound.item_log_joint(parameters, expanded))[0], expanded).sum())
    tree = posterior.tree

    def flat(group: str, name: str) -> Array:
        values = np.asarray(tree[group][name].values)
        return values.reshape(-1, *values.shape[2:])

    sampled_confusion, sampled_prevalence = posterior.draws("confusion"), posterior.draws("prevalence")
    true = {"prevalence": prevalence[0], "confusion": confusion[0, 0, 0], "log-likelihood": marginal}
    sampled = {
        "prevalence": sampled_prevalence[:, 0],
        "confusion": sampled_confusion[:, 0, 0, 0],
        "log-likelihood": flat("log_likelihood", "labels").sum(-1),
    }
    accuracy = np.einsum("k,jkk->j", prevalence, confusion)
    for j in range(data.J):
        true[f"accuracy {j}"] = accuracy[j]
        sampled[f"accuracy {j}"] = np.einsum("sk,skk->s", sampled_prevalence, sampled_confusion[:, j])
    for name, value in drawn.items():
        if name not in ("prevalence", "confusion") and name in tree["posterior"]:
            true[name] = float(np.ravel(value)[0])
            values = flat("posterior", name)
            sampled[name] = values.reshape(len(values), -1)[:, 0]
    if expanded.parent_item is None:
        states = posterior.truth_draws()
        mine, label = data.item[data.worker == 0].numpy(), data.label[data.worker == 0].numpy()
        true["truth"], sampled["truth"] = float(truth[0]), states[:, 0]
        true["correct annotations"] = float((truth[mine] == label).sum())
        sampled["correct annotations"] = (states[:, mine] == label).sum(-1)
    return {name: float(value) for name, value in true.items()}, sampled


@checked
def uniformity(
    rank: Annotated[Array, arguments.array("simulation", kind="whole")],
    draws: PositiveInt,
    *,
    replications: PositiveInt = 4000,
    seed: Seed = 0,
) -> float:
    """Return the p-value of uniform ranks by simultaneous bands of their distribution function.

    The statistic is the least of the two-sided binomial tail probabilities of the empirical distribution function over all
    points (Säilynoja, Bürkner and Vehtari 2022, Statistics and Computing 32); its distribution under uniform ranks is simulated,
    so the level holds simultaneously for all points.

    Args:
        rank: ranks ``(n,)``, integers ``0..draws``.
        draws: number of draws ``L``.
        replications: number of simulated sets of uniform ranks; the smallest p-value is one over this number plus one.
        seed: random seed of the simulation.
    """
    n, at = len(rank), np.arange(1, draws + 1) / (draws + 1)
    below = scipy.stats.binom.cdf(np.arange(n + 1)[:, None], n, at)  # (n + 1, L)
    above = scipy.stats.binom.sf(np.arange(n + 1)[:, None] - 1, n, at)
    tails = np.minimum(below, above)

    def smallest_tail(counts: Array) -> Array:
        """Return the statistic of histograms of ranks ``(..., L + 1)``."""
        inside = counts.cumsum(-1)[..., :-1]  # ranks below each point
        return tails[inside, np.arange(draws)].min(-1)

    rng = np.random.default_rng(seed)
    uniform = rng.multinomial(n, np.full(draws + 1, 1 / (draws + 1)), size=replications)
    seen = smallest_tail(np.bincount(np.asarray(rank), minlength=draws + 1))
    return float((1 + (smallest_tail(uniform) <= seen).sum()) / (1 + replications))


@checked
def coverage(
    rank: Annotated[Array, arguments.array("simulation", kind="whole")], draws: PositiveInt, level: Level = 0.89
) -> float:
    """Return the share of ranks inside the central interval: the coverage of intervals of the given level."""
    quantile = (np.asarray(rank) + 0.5) / (draws + 1)
    low, high = tails(level)
    return float(((quantile > low) & (quantile < high)).mean())


@checked
def table(result: pd.DataFrame, draws: PositiveInt = 99, level: Level = 0.89) -> pd.DataFrame:
    """Summarise the result of :func:`ranks`, one row per quantity, with workers' accuracies as one.

    Columns: ``quantity``; ``simulations``; ``p``, the p-value of uniform ranks (for workers the smallest, multiplied by their
    number); ``coverage`` of intervals of the given level; ``mean_rank``, .5 without bias.

    Raises:
        OptionError: if ``result`` is not a table of :func:`ranks`.
    """
    missing = {"simulation", "quantity", "rank"} - set(result.columns)
    if missing or not len(result):
        raise OptionError("result is not a table of ranks(): it lacks " + (", ".join(sorted(missing)) or "rows"))
    rows = []
    kind = result["quantity"].str.replace(r"^accuracy \d+$", "accuracy", regex=True)
    for name, part in result.groupby(kind, sort=False):
        each = [uniformity(one["rank"].to_numpy(), draws) for _, one in part.groupby("quantity")]
        every = part["rank"].to_numpy()
        rows.append(
            {
                "quantity": name,
                "simulations": part["simulation"].nunique(),
                "p": min(1.0, min(each) * len(each)),
                "coverage": coverage(every, draws, level),
                "mean_rank": float((every + 0.5).mean() / (draws + 1)),
            }
        )
    return pd.DataFrame(rows)
