"""Several models on the same annotations: where their labels differ, how well they predict, and which one known truths favour."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from crowdppl import arguments
from crowdppl.arguments import Level, Seed, checked
from crowdppl.criticism.calibration import FLOOR
from crowdppl.criticism.cross_validation import MIN_DRAWS, loo
from crowdppl.criticism.numbers import compare_numbers
from crowdppl.data import html
from crowdppl.data.annotations import Annotations
from crowdppl.data.numeric import NumericAnnotations
from crowdppl.errors import CrowdpplError, OptionError, silent, warn
from crowdppl.inference.catalogue import compared_models, named_model
from crowdppl.inference.fit import fit
from crowdppl.inference.options import require_method
from crowdppl.model.base import AnnotationModel
from crowdppl.model.features_read import without_unread_features
from crowdppl.posterior.intervals import jeffreys
from crowdppl.posterior.known_truth import truth_indices
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.workers import default_level

Array = npt.NDArray[Any]

# Draws of a fit by EM for the predictive score; importance sampling takes longer than the fit with more.
EM_DRAWS = 400
# Probabilities this close are equal: classes with equal votes differ by rounding.
TIE = 1e-9
# Reweightings of the items of known truth for the probability that a model is the most accurate.
REWEIGHTINGS = 4000

# Measured by benchmarks/default_model.py, docs/benchmarks/default-model.md.
PREDICTION_IS_NOT_TRUTH = (
    "The predictive score does not tell reliably which model finds the true labels: within public data sets its rank correlation "
    "with accuracy is .28 on average."
)
# Probability of being the most accurate model from which the known truths are said to favour it.
FAVOURED = 0.9
# Numbers of known true labels with which models can be compared.
ENOUGH = (30, 100)


@dataclass(frozen=True, repr=False)
class Comparison:
    """Models on the same annotations. No fit knew a true label.

    Attributes:
        models: one row per model: ``model``; ``method``; ``seconds`` of the fit; ``elpd``, the expected log predictive density of
            the labels of an item left out, summed over items, in nats (:func:`loo`; NaN with too few draws), with its standard
            error ``se``; ``difference`` to the best model, 0 or below, with its standard error ``se_difference``; and
            ``unreliable``, the number of items with a Pareto k above .7. With known truths also: ``accuracy`` on these items,
            ties counted by their share, with the ends of its interval ``low`` and ``high``; ``log_loss`` in nats; and ``best``,
            the probability that the model is the most accurate one, by the Bayesian bootstrap of these items.
        pairs: one row per pair of models, ``first`` and ``second``: ``items`` on which they disagree, and ``share`` of all items.
            Two models disagree on an item if no class is the most probable one of both.
        items: one row per item on which two of the models disagree, the greatest disagreement first: the item; ``divergence``,
            the Jensen-Shannon divergence of the models' class probabilities in bits; and for each model ``label_<model>`` and
            ``probability_<model>``, its most probable class and the probability of it.
        shares: one row per class: ``label``, and for each model the expected share of items of this class.
        known: number of items of known truth.
        level: probability of the intervals.
        notes: warnings of the fits, each with the name of its model.
    """

    models: pd.DataFrame
    pairs: pd.DataFrame
    items: pd.DataFrame
    shares: pd.DataFrame
    known: int
    level: float
    notes: tuple[str, ...]

    @property
    def summary(self) -> list[str]:
        """What the comparison says of the choice of a model, in plain words."""
        disputed = len(self.items)
        if not disputed:
            return ["The models agree on every item."]
        some = f"the true labels of {ENOUGH[0]} to {min(ENOUGH[1], disputed)} of them, drawn at random"
        which = "their true labels" if disputed <= ENOUGH[0] else some
        decide = f"Only the {disputed:,} items with different labels decide between the models: find {which}"
        if not self.known:
            return [PREDICTION_IS_NOT_TRUTH, f"{decide} (truth=..., --truth-file)."]
        first = self.models.sort_values("best", ascending=False, kind="stable").iloc[0]
        sentence = (
            f"On {self.known:,} items of known truth {first['model']} is the most accurate model with probability "
            f"{first['best']:.2f}"
        )
        if first["best"] >= FAVOURED:
            return [PREDICTION_IS_NOT_TRUTH, f"{sentence}."]
        return [PREDICTION_IS_NOT_TRUTH, f"{sentence}, which leaves the choice open.", f"{decide}."]

    def __str__(self) -> str:
        table = self.models.to_string(index=False, float_format=lambda x: f"{x:.3f}")
        return "\n".join([table, *self.summary])

    def __repr__(self) -> str:
        return f"Comparison of {len(self.models):,} models\n{self}"

    def _repr_html_(self) -> str:
        return html.view("Comparison of models", html.table(self.models, len(self.models)), *self.summary)


@checked
def compare(
    data: Annotated[Annotations, arguments.any_data],
    models: Iterable[str | AnnotationModel] | Mapping[str, str | AnnotationModel] | None = None,
    *,
    method: Annotated[str, require_method] = "em",
    truth: Any = None,
    level: Level | None = None,
    seed: Seed = 0,
    **options: Any,
) -> Comparison:
    """Fit several models to the same annotations and compare their labels, their predictions and, given truths, their accuracy.

    A model with a higher predictive score predicts labels better. It need not find more true labels: known true labels decide
    that. No fit uses them, neither those of ``truth`` nor those of the data, so every model is scored on truths it did not know.

    Args:
        data: the annotations; for those that are numbers, see :func:`crowdppl.criticism.compare_numbers`.
        models: names in the catalogue or instances, at least two; or a mapping from names of your own to these. Defaults to
            ``crowdppl.criticism.MODELS``; for grades with ``"graded-facets"`` in place of ``"one-coin"``.
        method: engine of all fits.
        truth: true labels of some items: a mapping or Series by item, or a frame with an item and a label column. Defaults to
            those known in the data.
        level: probability of the intervals of accuracy. Defaults to ArviZ's default, .89.
        seed: random seed of every fit.
        **options: of the engine, or ``independent`` and ``rho`` of :func:`crowdppl.fit`.

    Raises:
        OptionError: for fewer than two models, two of one name, or an option that the engine does not have.
        ModelError: if a model does not fit the data or the method; the message begins with its name.
        DataError: if no item of ``truth`` is in the data, or a class is not one of its classes.
    """
    if isinstance(data, NumericAnnotations):
        if models is not None or method != "em" or options:
            raise OptionError(
                "of labels that are numbers the models compared are fixed: leave models=, method= and options out"
            )
        return compare_numbers(data, truth=truth, seed=seed)
    named = _named(compared_models(data) if models is None else models)
    level = default_level(level)
    unknown = dataclasses.replace(data, truth=torch.full_like(data.truth, -1))
    if method == "em":
        options = {"num_samples": EM_DRAWS} | options
    fits: dict[str, Posterior] = {}
    seconds: dict[str, float] = {}
    notes: list[str] = []
    for name, model in named.items():
        began = time.perf_counter()
        try:
            with silent():
                fits[name] = fit(
                    without_unread_features(named_model(model), unknown), model, method=method, seed=seed, **options
                )
        except CrowdpplError as error:
            raise type(error)(f"{name}: {error}") from error
        seconds[name] = time.perf_counter() - began
        notes += [f"{name}: {sentence}" for sentence in fits[name].warnings]
    first = next(iter(fits.values()))
    known = data.truth.numpy(force=True) if truth is None else truth_indices(first, truth)
    probability = {name: posterior.probability() for name, posterior in fits.items()}
    table = _predictions(fits, seconds, method)
    if (known >= 0).any():
        table = pd.concat([table, _scores(probability, known, level, seed)], axis=1)
    if notes:
        warn(f"{len(notes):,} warnings of the fits, the first: {notes[0]}")
    return Comparison(
        table,
        _pairs(probability),
        _disputed(probability, first),
        pd.DataFrame({"label": first.labels} | {name: p.mean(0) for name, p in probability.items()}),
        int((known >= 0).sum()),
        level,
        tuple(notes),
    )


def _named(models: Any) -> dict[str, AnnotationModel]:
    """Return the models by name."""
    if isinstance(models, Mapping):
        pairs = [(arguments.text("models", name), named_model(model)) for name, model in models.items()]
    else:
        pairs = []
        for model in arguments.a_list("models", models):
            chosen = named_model(model)
            pairs.append((model if isinstance(model, str) else type(chosen).__name__, chosen))
    if len(pairs) < 2:
        raise OptionError(f"models has {len(pairs)} values; at least 2 are needed to compare")
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise OptionError(
            f"models contains {twice!r} more than once; give names of your own, models={{'a': ..., 'b': ...}}"
        )
    return dict(pairs)


def _predictions(fits: Mapping[str, Posterior], seconds: Mapping[str, float], method: str) -> pd.DataFrame:
    """Return the table of predictive scores."""
    pointwise, unreliable = {}, {}
    for name, posterior in fits.items():
        sizes = posterior.tree["log_likelihood"].sizes
        if sizes["chain"] * sizes["draw"] < MIN_DRAWS:
            pointwise[name], unreliable[name] = np.full(sizes["item"], np.nan), 0
            continue
        result = loo(posterior)
        pointwise[name], unreliable[name] = result.items["elpd"].to_numpy(), result.high
    totals = {name: float(values.sum()) for name, values in pointwise.items()}
    best = max((name for name in fits if not np.isnan(totals[name])), key=totals.__getitem__, default=None)
    rows = []
    for name, values in pointwise.items():
        gap = values - pointwise[name if best is None else best]
        rows.append(
            {
                "model": name,
                "method": method,
                "seconds": seconds[name],
                "elpd": totals[name],
                "se": float(np.sqrt(len(values) * values.var())),
                "difference": float(gap.sum()),
                "se_difference": float(np.sqrt(len(gap) * gap.var())),
                "unreliable": unreliable[name],
            }
        )
    return pd.DataFrame(rows)


def _scores(probability: Mapping[str, Array], known: Array, level: float, seed: int) -> pd.DataFrame:
    """Return accuracy and log loss on items of known truth ``(N,)``, -1 where unknown."""
    have = np.flatnonzero(known >= 0)
    truth, n = known[have], len(have)
    hits, rows = [], []
    for values in probability.values():
        top = _most_probable(values[have])
        hit = top[np.arange(n), truth] / top.sum(1)
        correct = float(hit.sum())
        low, high = map(float, jeffreys(correct, n - correct, level))
        loss = -np.log(np.maximum(values[have, truth], FLOOR)).mean()
        rows.append({"accuracy": correct / n, "low": low, "high": high, "log_loss": float(loss)})
        hits.append(hit)
    table = pd.DataFrame(rows)
    # Items on which all models do equally well share a weight: sums of Dirichlet weights are Dirichlet weights.
    pattern, count = np.unique(np.round(np.stack(hits), 9), axis=1, return_counts=True)  # (M, patterns)
    weight = np.random.default_rng(seed).dirichlet(count, REWEIGHTINGS)
    accuracy = weight @ pattern.T
    best = accuracy >= accuracy.max(1, keepdims=True) - TIE
    return table.assign(best=(best / best.sum(1, keepdims=True)).mean(0))


def _most_probable(probability: Array) -> Array:
    """Return which classes are the most probable ones of each item, ``(N, K)``: several where they tie."""
    top: Array = probability >= probability.max(1, keepdims=True) - TIE
    return top


def _pairs(probability: Mapping[str, Array]) -> pd.DataFrame:
    top = {name: _most_probable(values) for name, values in probability.items()}
    rows = []
    for a, b in combinations(top, 2):
        apart = ~(top[a] & top[b]).any(1)
        rows.append({"first": a, "second": b, "items": int(apart.sum()), "share": float(apart.mean())})
    return pd.DataFrame(rows)


def _disputed(probability: Mapping[str, Array], posterior: Posterior) -> pd.DataFrame:
    top = [_most_probable(values) for values in probability.values()]
    apart = np.zeros(len(top[0]), dtype=bool)
    for a, b in combinations(top, 2):
        apart |= ~(a & b).any(1)
    chosen = np.flatnonzero(apart)
    part = {name: values[chosen] for name, values in probability.items()}
    mixed = _entropy(np.mean(list(part.values()), axis=0))
    divergence = np.maximum(mixed - np.mean([_entropy(values) for values in part.values()], axis=0), 0.0)
    table = {posterior.item_column: posterior.items()[chosen], "divergence": divergence}
    for name, values in part.items():
        table |= {f"label_{name}": posterior.labels[values.argmax(1)], f"probability_{name}": values.max(1)}
    return pd.DataFrame(table).sort_values("divergence", ascending=False, kind="stable").reset_index(drop=True)


def _entropy(probability: Array) -> Array:
    """Return the entropy of each row in bits."""
    logs = np.log2(probability, out=np.zeros_like(probability), where=probability > 0)
    entropy: Array = -(probability * logs).sum(1)
    return entropy
