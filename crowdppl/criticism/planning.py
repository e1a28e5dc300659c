"""How many items, and how many workers for each: the width of intervals and the accuracy of the consensus, by simulation.

A study is simulated as it is going to be analysed. Workers and labels are drawn from a fitted model (a pilot), or from a crowd
that is described by a few numbers; the model is fitted to the labels, and the widths of the intervals that it reports are
averaged. So they are those that the same fit is going to show, with the allowance for shared errors that it makes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import arguments
from crowdppl.arguments import Level, PositiveFloat, PositiveInt, Seed, TwoOrMore, checked
from crowdppl.criticism.planned_studies import Crowd, OfCrowd, OfPilot, study
from crowdppl.data import html
from crowdppl.errors import OptionError
from crowdppl.inference.progress import ProgressCallback, progress_bar
from crowdppl.posterior.measures import default_level
from crowdppl.posterior.posterior import Posterior

Array = npt.NDArray[Any]

# Designs that are simulated where none are named; of the second those with enough workers.
ITEMS, PER_ITEM = (50, 100, 200, 400), (2, 3, 5)
# Where widths fall with less than this power of the number of items, or so many would be needed, no number is named.
SLOW, MANY = 0.1, 1_000_000


@dataclass(frozen=True, repr=False)
class Plan:
    """Simulated designs, and the smallest one with intervals as narrow as wished.

    Attributes:
        table: a row for each design: ``items``; ``per_item``, the workers of each; ``annotations``, their product;
            ``per_worker``, the annotations of each worker in the mean; ``width``, the mean width of the intervals of the workers'
            severity, in grades, or of their accuracy; ``error``, its standard error over the simulations; ``widest``, the width
            of the widest of these intervals, mean over simulations; of classes ``accuracy``, the share of items whose most
            probable label is the true one; of grades ``mae``, the mean distance of the expected true grade, as
            :meth:`crowdppl.Posterior.grades` has it, from that of the simulated item, the mean of what all workers would give it,
            and ``correlation`` of the two.
        measure: ``"severity"`` or ``"accuracy"``: what ``width`` is that of.
        workers: their number.
        width: the one that was wished, if any.
        level: probability of the intervals.
        replicates: simulations of each design.
        model: name of the fitted model.
    """

    table: pd.DataFrame
    measure: str
    workers: int
    width: float | None
    level: float
    replicates: int
    model: str

    @property
    def smallest(self) -> dict[str, Any] | None:
        """The row of the design with fewest annotations whose mean width is at most the wished one; ``None`` if none is."""
        if self.width is None:
            return None
        enough = self.table[self.table["width"] <= self.width]
        if not len(enough):
            return None
        row: dict[Any, Any] = enough.sort_values(["annotations", "items"], kind="stable").iloc[0].to_dict()
        return row | {name: int(row[name]) for name in ("items", "per_item", "annotations")}

    @property
    def sentences(self) -> list[str]:
        """Which design is enough, in plain words, and what the figures hold for."""
        unit = " grades" if self.measure == "severity" else ""
        out = []
        row = self.smallest
        if row is not None:
            consensus = (
                f"Grades are then {row['mae']:.2f} from the true ones in the mean, and correlate with them by "
                f"{row['correlation']:.2f}"
                if "mae" in row
                else f"{row['accuracy']:.0%} of the labels are then right"
            )
            out = [
                f"Enough: {row['items']:,} items with {row['per_item']:,} workers each, {row['annotations']:,} annotations. "
                f"Intervals of {self.level:.0%} of a worker's {self.measure} are {row['width']:.2f}{unit} wide in the mean. "
                f"{consensus}."
            ]
        elif self.width is not None and not np.isfinite(self.table["width"]).any():
            out = [f"No design here has annotations of each of the {self.workers:,} workers: simulate more items."]
        elif self.width is not None:
            best = self.table.sort_values("width", kind="stable").iloc[0]
            out = [
                f"No design here has intervals as narrow as {self.width:g}; the narrowest, {int(best['items']):,} items with "
                f"{int(best['per_item']):,} workers each, are {best['width']:.2f}{unit} wide. {self._beyond(best)}"
            ]
        shared = (
            "Simulated workers err independently of each other; where real ones share errors, fewer labels are right."
        )
        return [*out, shared]

    def _beyond(self, best: pd.Series) -> str:
        """Return how many items would be enough, from the rate at which widths fall with the number of items."""
        assert self.width is not None
        same = self.table[self.table["per_item"] == best["per_item"]].sort_values("items").tail(2)
        rate = 0.5
        if len(same) == 2:
            rate = -float(np.diff(np.log(same["width"]))[0] / np.diff(np.log(same["items"]))[0])
        if rate < SLOW:
            return "More items hardly make them narrower: it takes more workers for each item, or more careful ones."
        wanted = best["items"] * (best["width"] / self.width) ** (1 / min(rate, 0.5))
        if wanted > MANY:
            return f"More than {MANY:,} items with so many workers each would be needed."
        unit = 10 ** max(0, math.floor(math.log10(wanted)) - 1)
        about = math.ceil(wanted / unit - 1e-9) * unit
        return f"As widths fall here, about {about:,} items with so many workers each are enough: simulate them to be sure."

    def __str__(self) -> str:
        return self.table.to_string(index=False, float_format=lambda x: f"{x:.3f}")

    def __repr__(self) -> str:
        return f"Plan({self.workers:,} workers, {self.model}, width of {self.level:.0%} intervals of {self.measure})\n{self}"

    def _repr_html_(self) -> str:
        return html.view(" ".join(self.sentences), html.table(self.table, len(self.table)))


def _counts(name: str, value: Any) -> list[int]:
    return sorted(set(arguments.several(arguments.whole(1))(name, value)))


def _crowd_or_posterior(name: str, value: Any) -> Any:
    return value if isinstance(value, Crowd) else arguments.posterior(name, value)


@checked
def plan(
    pilot: Annotated[Posterior | Crowd, _crowd_or_posterior],
    *,
    width: PositiveFloat | None = None,
    items: Annotated[Sequence[int], _counts] = ITEMS,
    per_item: Annotated[Sequence[int], _counts] | None = None,
    workers: PositiveInt | None = None,
    replicates: TwoOrMore = 5,
    independent: bool | None = None,
    level: Level | None = None,
    seed: Seed = 0,
    progress: Annotated[bool | ProgressCallback, arguments.progress] = False,
) -> Plan:
    """Simulate studies with several numbers of items and of workers for each, and find the smallest with narrow intervals.

    Args:
        pilot: a result of a model of labels alone, such as of graded facets or Dawid and Skene's model, from whose parameters
            studies are simulated; or a :class:`Crowd`.
        width: the wished mean width of the intervals of the workers' severity, in grades, or of their accuracy, of classes.
        items: numbers of items.
        per_item: numbers of workers for each item, at most ``workers``; defaults to those of 2, 3 and 5 that are. All
            workers get equally many items, up to one, chosen at random.
        workers: number of workers, by default that of the pilot. Otherwise workers are drawn from those of the pilot, with
            replacement.
        replicates: simulated studies for each design.
        independent: whether the fits take errors of workers as independent, see :func:`crowdppl.fit`; by default as that of the
            pilot did, and as a fit does by default.
        level: probability of the intervals.
        seed: of the simulations; the same seed gives the same table.
        progress: whether to show progress, or a function of step, steps and description.

    Raises:
        OptionError: for more workers of an item than there are.
        ModelError: where the model of the pilot reads features, times, covariates, sequences or sets, or is not of the zoo.
        DataError: where the pilot does not hold the parameters of its model.
    """
    level = default_level(level)
    source = OfCrowd(pilot, workers) if isinstance(pilot, Crowd) else OfPilot(pilot, workers)
    most = max(per_item) if per_item is not None else 0
    if most > source.workers:
        raise OptionError(f"per_item={most} workers of an item; there are {source.workers:,} workers in all")
    if source.graded and source.workers < 2:
        raise OptionError(
            "workers=1 of grades: severity is relative to that of other raters; plan with at least 2 workers"
        )
    numbers = [n for n in PER_ITEM if n <= source.workers] or [1] if per_item is None else per_item
    designs = [(n, each) for n in items for each in numbers]
    independent = source.independent if independent is None else independent
    rows = []
    with progress_bar(progress, "plan") as report:
        for at, (n, each) in enumerate(designs):
            studies = []
            for replicate in range(replicates):
                report(at * replicates + replicate, len(designs) * replicates, f"{n} items, {each} workers each")
                # The same workers in the same replicate of all designs, so that these differ by their sizes only.
                rng = np.random.default_rng([seed, replicate])
                studies.append(study(source, n, each, independent, rng, level))
            rows.append(_row(n, each, source.workers, pd.DataFrame(studies)))
    measure = "severity" if source.graded else "accuracy"
    return Plan(pd.DataFrame(rows), measure, source.workers, width, level, replicates, source.name)


def _row(items: int, per_item: int, workers: int, studies: pd.DataFrame) -> dict[str, Any]:
    """Return the row of a design: its sizes, and the mean of its simulated studies."""
    mean, annotations = studies.mean(), items * per_item
    if annotations < workers:  # of a worker without annotations nothing is known
        mean["width"] = mean["widest"] = math.inf
    return (
        {"items": items, "per_item": per_item, "annotations": annotations, "per_worker": annotations / workers}
        | {"width": mean["width"], "error": _error(studies["width"], mean["width"])}
        | {name: mean[name] for name in studies.columns if name != "width"}
    )


def _error(widths: pd.Series, mean: float) -> float:
    """Return the standard error of the mean width over simulations; none of an infinite one."""
    return float(widths.std() / math.sqrt(len(widths))) if math.isfinite(mean) else math.nan
