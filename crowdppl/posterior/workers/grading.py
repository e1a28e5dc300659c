"""Raters of grades: how severe each is, how far the grades follow the true ones, and the grades of items."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.data.table.identifier_checks import numbers
from crowdppl.errors import DataError
from crowdppl.posterior import viewed
from crowdppl.posterior.intervals import tails
from crowdppl.posterior.measures import ENDS, default_level, interval
from crowdppl.posterior.variables import PosteriorVariables

Array = npt.NDArray[Any]

# A rater is severe or lenient by this share of the distance between two grades, with probability CLEAR.
NOTICED, CLEAR = 0.5, 0.95
# Grades that correlate with the true ones by less are random; by so much less than those of the typical rater, weak; and by no
# more less, reliable. Probabilities of the three.
RANDOM, WEAK, RELIABLE = 0.1, 0.2, 0.1
PROBABLY_RANDOM, PROBABLY_WEAK, PROBABLY_RELIABLE = 0.8, 0.8, 0.7
# A rater whose grades do not rise with those of the others by INFORMED standard errors is not shown to be informed. One whose
# grades fall by AGAINST is adversarial: the scale may be reversed.
INFORMED, AGAINST = 2.0, 3.0
# A random rater whose most frequent grade has at least this share is constant.
CONSTANT_SHARE = 0.9
# With fewer annotations a rater is not judged.
MIN_ANNOTATIONS = 10
# Draws of the share of each grade by criterion, over all raters and items.
CRITERIA = "criterion_grades"
# Most pairs of raters in a table.
MOST_PAIRS = 100_000


def values(posterior: PosteriorVariables) -> Array:
    """Return the number of each grade, ``(K,)``: its name, or its place, from 1, where grades are words.

    Raises:
        DataError: where labels are not grades.
    """
    if not posterior.graded:
        raise DataError("the labels of this result are classes without an order; read them with kind='ordinal'")
    named = numbers(posterior.labels)
    return np.arange(1.0, len(posterior.labels) + 1) if named is None else named


def mean_grades(posterior: PosteriorVariables) -> Array:
    """Return draws of the grade that each rater gives in the mean over items, ``(S, J)``."""
    grade = values(posterior)
    parts = posterior.by_block(
        lambda confusion, prevalence: np.einsum("sk,sjkl,l->sj", prevalence, confusion, grade, optimize=True)
    )
    return np.concatenate(parts, axis=1)


def severities(posterior: PosteriorVariables) -> Array:
    """Return draws of the severity of each rater, ``(S, J)``: by how much the grades are lower than the mean rater's.

    Raises:
        DataError: where labels are not grades.
    """
    given = mean_grades(posterior)
    active = posterior.annotations_per_worker() > 0
    return np.asarray(given[:, active].mean(1, keepdims=True) - given)


def correlations(posterior: PosteriorVariables) -> Array:
    """Return draws of the correlation of each rater's grades with the true ones, ``(S, J)``; 0 for a rater of one grade.

    Raises:
        DataError: where labels are not grades.
    """
    grade = values(posterior)

    def block(confusion: Array, prevalence: Array) -> Array:
        centred = grade - (prevalence @ grade)[:, None]  # (S, K)
        spread = np.sqrt((prevalence * centred**2).sum(1))[:, None]
        own, product = np.zeros((2, *confusion.shape[:2], len(grade)))  # (S, j, K), of the given grade
        for k in range(len(grade)):  # without the joint distribution of both grades, which is as large as the matrices
            row = prevalence[:, k, None, None] * confusion[:, :, k]
            own += row
            row *= centred[:, k, None, None]
            product += row
        mean = own @ grade
        own_spread = np.sqrt(np.maximum(own @ grade**2 - mean**2, 0.0))
        covariance = product @ grade
        scale = spread * own_spread
        return np.divide(covariance, scale, out=np.zeros_like(scale), where=scale > 0)

    return np.concatenate(posterior.by_block(block), axis=1)


def raw_means(posterior: PosteriorVariables, of: str) -> Array:
    """Return the mean grade given to each item, or by each worker; NaN without grades."""
    item, worker, label = posterior.annotation_index()
    code, size = (item, len(posterior.items())) if of == "item" else (worker, len(posterior.worker_names()))
    total = np.bincount(code, weights=values(posterior)[label], minlength=size)
    count = np.bincount(code, minlength=size)
    return np.divide(total, count, out=np.full(size, np.nan), where=count > 0)


def columns(posterior: PosteriorVariables, level: float) -> dict[str, Array]:
    """Return columns of the table of workers, ``(J,)`` each: mean grade, severity and correlation with ends of intervals."""
    out: dict[str, Array] = {"mean_grade": raw_means(posterior, "worker")}
    for name, draws in (("severity", severities(posterior)), ("grade_correlation", correlations(posterior))):
        out |= {name + end: value for end, value in zip(ENDS, interval(draws, level), strict=True)}
    return out


def severity_table(posterior: PosteriorVariables, level: float | None = None) -> pd.DataFrame:
    """Return the table that :meth:`crowdppl.Posterior.severity` describes."""
    out = {"worker": posterior.worker_names(), "annotations": posterior.annotations_per_worker()}
    return pd.DataFrame(out | columns(posterior, default_level(level)))


def pair_table(posterior: PosteriorVariables, level: float | None = None) -> pd.DataFrame:
    """Return the table that :meth:`crowdppl.Posterior.severity` describes for ``pairs=True``."""
    draws, names = severities(posterior), posterior.worker_names()
    if len(names) * (len(names) - 1) // 2 > MOST_PAIRS:
        raise DataError(f"{len(names):,} raters have too many pairs for a table; severity() has a row for each rater")
    one, other = np.triu_indices(len(names), 1)
    apart = draws[:, one] - draws[:, other]
    mean, low, high = interval(apart, level)
    return pd.DataFrame(
        {
            "worker": names[one],
            "other": names[other],
            "difference": mean,
            "low": low,
            "high": high,
            "probability": (apart > 0).mean(0),
        }
    )


def item_table(posterior: PosteriorVariables, level: float | None = None) -> pd.DataFrame:
    """Return the table that :meth:`crowdppl.Posterior.grades` describes."""
    level, grade = default_level(level), values(posterior)
    p = posterior.probability()
    below = p.cumsum(1)
    # Ends of the smallest interval of grades that leaves at most half of the rest on either side.
    low, high = ((below < end - 1e-12).sum(1) for end in tails(level))
    item, _, _ = posterior.annotation_index()
    return pd.DataFrame(
        {
            posterior.item_column: posterior.items(),
            "annotations": np.bincount(item, minlength=len(p)),
            "mean_grade": raw_means(posterior, "item"),
            "grade": p @ grade,
            "grade_low": posterior.labels[np.minimum(low, len(grade) - 1)],
            "grade_high": posterior.labels[np.minimum(high, len(grade) - 1)],
        }
    )


def has_criteria(posterior: PosteriorVariables) -> bool:
    """Tell whether grades are by several criteria, with a difficulty of each."""
    return viewed.has(posterior.tree, CRITERIA, "criterion", "given_label")


def criterion_table(posterior: PosteriorVariables, level: float | None = None) -> pd.DataFrame:
    """Return the table that :meth:`crowdppl.Posterior.criteria` describes."""
    if not has_criteria(posterior):
        raise DataError(
            "the result has no difficulties of criteria; read grades with from_frame(..., kind='ordinal', criterion=...) and fit "
            f"a model that has them, such as {viewed.models_with(CRITERIA)}"
        )
    grade = values(posterior)
    names = posterior.tree["posterior"]["criterion"].to_numpy()
    mean = posterior.draws(CRITERIA) @ grade  # (S, L)
    center, low, high = interval(mean.mean(1, keepdims=True) - mean, level)
    code = posterior._values("constant_data", "criterion_index")
    _, _, label = posterior.annotation_index()
    count = np.bincount(code, minlength=len(names))
    total = np.bincount(code, weights=grade[label], minlength=len(names))
    return pd.DataFrame(
        {
            "criterion": names,
            "annotations": count,
            "mean_grade": np.divide(total, count, out=np.full(len(names), np.nan), where=count > 0),
            "difficulty": center,
            "difficulty_low": low,
            "difficulty_high": high,
        }
    )


def _shown_by_others(posterior: PosteriorVariables) -> Array:
    """Return by how many standard errors each rater's grades rise with those of the others, ``(J,)``.

    Of the correlation with the mean grade that the other raters, and the known true grade, give the same item, by Fisher's
    transform. The model's correlation will not do: in it grades rise with the item for every rater, and a rater's own grades are
    part of what is taken for true.
    """
    item, worker, label = posterior.annotation_index()
    N, J, grade = len(posterior.items()), len(posterior.worker_names()), values(posterior)
    given = grade[label]
    # A rater's repeats are not the grades of others.
    pair = np.unique(item * J + worker, return_inverse=True)[1]
    own = np.bincount(pair, weights=given)[pair]
    own_count = np.bincount(pair)[pair]
    known = posterior.known_truth()
    total = np.bincount(item, weights=given, minlength=N) + np.where(known >= 0, grade[np.maximum(known, 0)], 0.0)
    count = np.bincount(item, minlength=N) + (known >= 0)
    others = count[item] - own_count
    some = others > 0
    item, worker, given = item[some], worker[some], given[some]
    mean = ((total[item] - own[some]) / others[some]) if len(item) else given
    size = np.bincount(worker, minlength=J)

    def centred(value: Array) -> Array:
        return np.asarray(value - (np.bincount(worker, weights=value, minlength=J) / np.maximum(size, 1))[worker])

    a, b = centred(given), centred(mean)
    covariance, one, other = (np.bincount(worker, weights=w, minlength=J) for w in (a * b, a * a, b * b))
    scale = np.sqrt(one * other)
    r = np.divide(covariance, scale, out=np.zeros(J), where=scale > 0)
    return np.asarray(np.arctanh(np.clip(r, -0.999, 0.999)) * np.sqrt(np.maximum(size - 3, 0)))


def verdicts(posterior: PosteriorVariables, compared: Array) -> Array:
    """Return the verdict on each rater, ``(J,)``; ``compared`` are annotations of items that somebody else graded."""
    given = posterior.label_counts_by_worker()
    total, grade = given.sum(1), values(posterior)
    severity, correlation = severities(posterior), correlations(posterior)
    unit = np.ptp(grade) / max(1, len(grade) - 1)
    enough = total >= min(MIN_ANNOTATIONS, total.max(initial=1))
    random = (correlation < RANDOM).mean(0) >= PROBABLY_RANDOM
    typical = np.median(correlation[:, enough & ~random] if (enough & ~random).any() else correlation, 1, keepdims=True)
    verdict = np.full(len(total), "fair", dtype=object)
    verdict[(correlation > typical - RELIABLE).mean(0) >= PROBABLY_RELIABLE] = "reliable"
    verdict[(severity > NOTICED * unit).mean(0) >= CLEAR] = "severe"
    verdict[(severity < -NOTICED * unit).mean(0) >= CLEAR] = "lenient"
    verdict[(correlation < typical - WEAK).mean(0) >= PROBABLY_WEAK] = "weak"
    verdict[random] = np.where(given.max(1) >= CONSTANT_SHARE * total, "constant", "random")[random]
    shown = _shown_by_others(posterior)
    verdict[(shown < INFORMED) & ~random] = "unknown"
    verdict[shown < -AGAINST] = "adversarial"
    verdict[~enough | (compared == 0)] = "unknown"
    return verdict
