"""The table of workers: measures with intervals, ranks and verdicts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.errors import OptionError, suggestion
from crowdppl.posterior import spans
from crowdppl.posterior.measures import LOWER_IS_BETTER, default_level, interval, qualities
from crowdppl.posterior.variables import PosteriorVariables
from crowdppl.posterior.workers import grading, other_rates
from crowdppl.posterior.workers.drift import median_seconds
from crowdppl.posterior.workers.ranking import rank, summarise_ranks
from crowdppl.posterior.workers.spammers import hypothesis_probabilities
from crowdppl.posterior.workers.verdicts import QualityDraws, quality_draws, verdicts, verdicts_of

Array = npt.NDArray[Any]

SHARE_COLUMNS = ("share_correct", "share_correct_low", "share_correct_high")


def table(
    posterior: PosteriorVariables,
    *,
    level: float | None,
    sort: str | None,
    minimum: int,
    measures: Iterable[str],
    cost: Any,
) -> pd.DataFrame:
    """Return the table that :meth:`crowdppl.Posterior.workers` describes."""
    measures, level = list(measures), default_level(level)

    def block(confusion: Array, prevalence: Array) -> tuple[dict[str, Array], QualityDraws]:
        quality = quality_draws(confusion, prevalence)
        computed = {"accuracy": {"accuracy": quality.accuracy}, "kappa": {"kappa": quality.kappa}}
        columns = {}
        for measure in measures:
            other = computed.get(measure) or qualities(confusion, prevalence, posterior.labels, [measure], cost)
            for name, draws in other.items():
                for suffix, value in zip(("", "_low", "_high"), interval(draws, level), strict=True):
                    columns[name + suffix] = value
        return columns, quality

    columns, quality_parts = zip(*posterior.by_block(block), strict=True)
    shares = dict(zip(SHARE_COLUMNS, interval(posterior.share_correct_draws(), level), strict=True))
    rows = pd.DataFrame(
        {"worker": posterior.worker_names(), "annotations": posterior.annotations_per_worker()}
        | shares
        | {name: np.concatenate([part[name] for part in columns]) for name in columns[0]}
    )
    enough = (rows["annotations"] >= minimum).to_numpy()
    probabilities = hypothesis_probabilities(posterior)
    rows["spammer"], rows["adversarial"] = probabilities[:, 1], probabilities[:, 2]
    graded = posterior.graded
    verdict = verdicts(posterior, probabilities) if graded else verdicts_of(posterior, probabilities, quality_parts)
    if other_rates.has_other_labels(posterior):
        for name, values in other_rates.columns(posterior, level).items():
            rows[name] = values
    if graded:
        for name, values in grading.columns(posterior, level).items():
            rows[name] = values
    if spans.has_spans(posterior):
        for name, values in spans.columns(posterior, level).items():
            rows[name] = values
    if "seconds" in posterior.tree["constant_data"]:
        rows["seconds"] = median_seconds(posterior)
    rows = rows[enough].reset_index(drop=True)
    if len(rows):
        own = (
            grading.correlations(posterior)
            if graded
            else np.concatenate([part.accuracy for part in quality_parts], axis=1)
        )
        ranks = summarise_ranks(rank(own[:, enough]), level)
        rows = pd.concat([rows, ranks], axis=1)
        rows["verdict"] = verdict[enough]
    if sort is not None:
        rows = _sorted(rows, sort)
    return rows


def _sorted(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Sort workers by a column, best first, by the worse end of its interval if it has one; NaN comes last."""
    if column not in table:
        raise OptionError(
            f"no column {column!r} to sort by{suggestion(column, table.columns)}; columns are {', '.join(table.columns)}"
        )
    text = not pd.api.types.is_numeric_dtype(table[column])
    ascending = text or column in (*LOWER_IS_BETTER, "rank", "spammer", "adversarial", "seconds")
    end = f"{column}_{'high' if ascending else 'low'}"
    keys = [key for key in (end, column) if key in table]
    return table.sort_values(keys, ascending=ascending, kind="stable").reset_index(drop=True)
