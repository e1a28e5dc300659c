"""Predictive checks: statistics of the labels compared with those of labels replicated from the fitted model.

The statistics target typical misfits of annotation models: annotations of an item that agree more or less than the model
predicts, workers that differ more than it predicts, and pairs of workers who copy from each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import arguments
from crowdppl.arguments import Level, PositiveInt, Seed, checked
from crowdppl.criticism.label_statistics import DESCRIPTIONS, INTERPRETATIONS, LABEL_PREFIX, MORE_OR_LESS, statistics
from crowdppl.criticism.numbers import check_numbers
from crowdppl.criticism.replication import replicates, simulated
from crowdppl.data import html
from crowdppl.data.annotations import Annotations
from crowdppl.errors import OptionError
from crowdppl.model.base import AnnotationModel
from crowdppl.posterior.intervals import equal_tailed
from crowdppl.posterior.numbers import NumericPosterior
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.workers import default_level

Array = npt.NDArray[Any]


# p-value below which a statistic is reported as one that the model does not reproduce.
NOTABLE = 0.01


# Minimum number of replicates: with fewer, p-values cannot fall below NOTABLE, since the observed value counts as one.
MIN_REPLICATES = 200


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
    replicate_statistics = [statistics(item, worker, simulated(model, data, seed + n)[1], sizes) for n in range(draws)]
    return _compare(
        data.workers, data.labels, statistics(item, worker, label, sizes), replicate_statistics, level, "model"
    )


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
    low, high = equal_tailed(draws, level)
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
