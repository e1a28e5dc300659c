"""Two results on the same task: which labels and which workers changed, and what of that may be noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import logit, ndtr

from crowdppl import arguments
from crowdppl.arguments import Level, checked
from crowdppl.criticism.numbers import number_changes
from crowdppl.data import html
from crowdppl.errors import DataError, listed
from crowdppl.posterior.measures import interval
from crowdppl.posterior.numbers import NumericPosterior
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.workers import default_level, grading

Array = npt.NDArray[Any]

# Shares this near to 0 or 1 are moved there before they are compared as log odds.
EDGE = 1e-6
# Workers named in a sentence.
NAMED = 5


@dataclass(frozen=True)
class Changes:
    """What differs between an earlier and a later result.

    Attributes:
        items: one row per item of both results whose label differs, the surest change first: the item; ``earlier`` and
            ``later``, its labels; ``probability_earlier`` and ``probability_later``, of each label in its own result; ``still``,
            the probability of the earlier label in the later result; and ``sure``, whether the later result excludes the earlier
            label: ``still`` is below 1 - ``level``. Other changes are between labels that are about equally probable.
        workers: one row per worker of both results, the surest change first: ``worker``; ``annotations_earlier`` and
            ``annotations_later``; ``earlier`` and ``later``, the mean accuracies, or of grades the severities, relative to
            the raters of both results; ``difference`` of the later and the earlier one with the ends of its interval ``low``
            and ``high``; ``verdict_earlier`` and ``verdict_later``; and ``changed``, whether the difference is more than
            noise. Of the workers said to have changed, a share of 1 - ``level`` at most is expected to be unchanged. NaN and
            false for results without draws.
        items_in_both: number of items of both results.
        items_added: number of items of the later result only.
        items_gone: number of items of the earlier result only.
        workers_added: workers of the later result only.
        workers_gone: workers of the earlier result only.
        level: probability of the intervals.
        measure: of workers, ``"accuracy"``, or ``"severity"`` where both results are of grades.
    """

    items: pd.DataFrame
    workers: pd.DataFrame
    items_in_both: int
    items_added: int
    items_gone: int
    workers_added: list[Any]
    workers_gone: list[Any]
    level: float
    measure: str = "accuracy"

    @property
    def summary(self) -> list[str]:
        """What changed, in plain words."""
        different, sure = len(self.items), int(self.items["sure"].sum())
        what = "grade" if self.measure == "severity" else "label"
        if not different:
            labels = f"The {self.items_in_both:,} items of both results have the same {what}s."
        else:
            labels = (
                f"{different:,} of {self.items_in_both:,} items of both results have another {what}: for {sure:,} the later "
                f"result is at least {self.level:.0%} sure that the earlier {what} is wrong, and {different - sure:,} are "
                f"undecided between {what}s."
            )
        out = [labels, self._of_workers()]
        if self.items_added or self.items_gone:
            out.append(
                f"Items in the later result only: {self.items_added:,}; in the earlier one only: {self.items_gone:,}."
            )
        for names, which in ((self.workers_added, "later"), (self.workers_gone, "earlier")):
            if names:
                out.append(f"Workers in the {which} result only: {len(names):,} ({listed(names, NAMED)}).")
        return out

    def _of_workers(self) -> str:
        total = len(self.workers)
        if not total:
            return "No worker is in both results."
        changed = self.workers[self.workers["changed"]]
        if self.workers["difference"].isna().all():
            return f"Nothing is known about changes of the {total:,} workers of both results: one result has no draws."
        if not len(changed):
            return f"No difference in {self.measure} of the {total:,} workers of both results is more than noise."
        parts = []
        quality = "severe" if self.measure == "severity" else "accurate"
        for more, words in ((False, f"less {quality}"), (True, f"more {quality}")):
            names = changed.loc[(changed["difference"] > 0) == more, "worker"].tolist()
            if names:
                parts.append(f"{len(names):,} {'is' if len(names) == 1 else 'are'} {words} ({listed(names, NAMED)})")
        return f"Of {total:,} workers of both results {' and '.join(parts)}; other differences may be noise."

    def __str__(self) -> str:
        return "\n".join(self.summary)

    def _repr_html_(self) -> str:
        return html.view("Changes between two results", *self.summary, html.table(self.items), html.table(self.workers))


@checked
def changes(
    earlier: Annotated[Posterior, arguments.any_posterior],
    later: Annotated[Posterior, arguments.any_posterior],
    *,
    level: Level | None = None,
) -> Changes:
    """Compare a result with a later one on the same task, such as those of two weeks or of two models.

    The two results are taken as independent of each other. If they share annotations, true differences between them are smaller
    than their intervals say, so that fewer workers are said to have changed.

    Args:
        earlier: a result.
        later: another one with some of the same items or workers.
        level: probability of the intervals of differences, and from which a change of a label is sure. Defaults to ArviZ's
            default, .89.

    Raises:
        DataError: if the results share neither items nor workers, or have grades of different scales.
        OptionError: for a level outside (0, 1).
    """
    numeric = [isinstance(one, NumericPosterior) for one in (earlier, later)]
    if any(numeric):
        if not all(numeric):
            raise DataError(
                "labels are numbers in one result and classes in the other; compare results of the same kind"
            )
        return number_changes(earlier, later, level=level)  # type: ignore  # which one it is follows from the results
    level = default_level(level)
    items = pd.Index(earlier.items()).intersection(pd.Index(later.items()), sort=False)
    names = [pd.Index(posterior.worker_names()) for posterior in (earlier, later)]
    workers = names[0].intersection(names[1], sort=False)
    if not len(items) and not len(workers):
        raise DataError(
            f"the results share neither items nor workers: items are like {listed(earlier.items().tolist(), 3)} and "
            f"{listed(later.items().tolist(), 3)}"
        )
    if earlier.graded and later.graded and not np.array_equal(earlier.labels, later.labels):
        raise DataError(
            f"the grades are {listed(earlier.labels.tolist(), 5)} in one result and {listed(later.labels.tolist(), 5)} in the "
            f"other; compare results of one scale"
        )
    measure = "severity" if earlier.graded and later.graded else "accuracy"
    return Changes(
        _items(earlier, later, items, level),
        _workers(earlier, later, workers, level, measure),
        len(items),
        len(later.items()) - len(items),
        len(earlier.items()) - len(items),
        names[1].difference(workers, sort=False).tolist(),
        names[0].difference(workers, sort=False).tolist(),
        level,
        measure,
    )


def _items(earlier: Posterior, later: Posterior, items: pd.Index[Any], level: float) -> pd.DataFrame:
    """Return the items whose label differs."""
    before, after = (posterior.probability()[_places(posterior.items(), items)] for posterior in (earlier, later))
    label_before, label_after = earlier.labels[before.argmax(1)], later.labels[after.argmax(1)]
    # The place of each earlier class among the later ones, -1 for one that is not among them.
    place = pd.Index(later.labels).get_indexer(pd.Index(earlier.labels))[before.argmax(1)]
    still = np.where(place >= 0, np.take_along_axis(after, np.maximum(place, 0)[:, None], 1)[:, 0], 0.0)
    different = place != after.argmax(1)
    table = pd.DataFrame(
        {
            later.item_column: items.to_numpy()[different],
            "earlier": label_before[different],
            "probability_earlier": before.max(1)[different],
            "later": label_after[different],
            "probability_later": after.max(1)[different],
            "still": still[different],
            "sure": still[different] < 1 - level,
        }
    )
    return table.sort_values("still", kind="stable").reset_index(drop=True)


def _workers(earlier: Posterior, later: Posterior, workers: pd.Index[Any], level: float, measure: str) -> pd.DataFrame:
    """Return the workers of both results, compared by accuracy or severity."""
    graded = measure == "severity"
    results = (earlier, later)
    places = [_places(posterior.worker_names(), workers) for posterior in results]
    values = [grading.severities(posterior) if graded else posterior.measure() for posterior in results]
    draws = [part[:, place] for part, place in zip(values, places, strict=True)]
    if graded:  # severities are relative: to the raters of both results, whoever else joined or left
        draws = [part - part.mean(1, keepdims=True) for part in draws]
    tables = [posterior.workers().iloc[place] for posterior, place in zip(results, places, strict=True)]
    many = min(len(part) for part in draws)
    table = pd.DataFrame(
        {
            "worker": workers.to_numpy(),
            "annotations_earlier": tables[0]["annotations"].to_numpy(),
            "annotations_later": tables[1]["annotations"].to_numpy(),
            "earlier": draws[0].mean(0),
            "later": draws[1].mean(0),
        }
    )
    if many < 2:
        nothing = np.full(len(workers), np.nan)
        difference, low, high, chance = nothing, nothing, nothing, np.ones(len(workers))
    else:
        before, after = (part[np.linspace(0, len(part) - 1, many).astype(int)] for part in draws)
        # Draws of two results are independent, whatever their order.
        difference, low, high = interval(after - before, level)
        # Shares are compared as log odds; severities are differences of grades.
        odds = draws if graded else [logit(np.clip(part, EDGE, 1 - EDGE)) for part in draws]
        spread = np.sqrt(sum(part.var(0, ddof=1) for part in odds))
        gap = np.abs(odds[1].mean(0) - odds[0].mean(0))
        chance = 2 * ndtr(-np.divide(gap, spread, out=np.zeros_like(gap), where=spread > 0))
    table = table.assign(
        difference=difference,
        low=low,
        high=high,
        verdict_earlier=tables[0]["verdict"].to_numpy(),
        verdict_later=tables[1]["verdict"].to_numpy(),
        changed=_discoveries(chance, 1 - level),
    )
    return table.iloc[np.argsort(chance, kind="stable")].reset_index(drop=True)


def _discoveries(chance: Array, share: float) -> Array:
    """Return which differences are no noise, by the probability of so large a difference by chance.

    Args:
        chance: that probability for each difference.
        share: expected share of false alarms among those returned, at most (Benjamini and Hochberg, JRSS B 57, 1995).
    """
    order = np.argsort(chance, kind="stable")
    passed = np.flatnonzero(chance[order] <= share * np.arange(1, len(chance) + 1) / max(1, len(chance)))
    discovered = np.zeros(len(chance), dtype=bool)
    discovered[order[: passed[-1] + 1 if len(passed) else 0]] = True
    return discovered


def _places(names: Array, chosen: pd.Index[Any]) -> Array:
    places: Array = pd.Index(names).get_indexer(chosen)
    return places
