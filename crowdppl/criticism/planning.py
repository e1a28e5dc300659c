"""How many items, and how many workers for each: the width of intervals and the accuracy of the consensus, by simulation.

A study is simulated as it is going to be analysed. Workers and labels are drawn from a fitted model (a pilot), or from a crowd
that is described by a few numbers; the model is fitted to the labels, and the widths of the intervals that it reports are
averaged. So they are those that the same fit is going to show, with the allowance for shared errors that it makes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from crowdppl import arguments
from crowdppl.arguments import Level, PositiveFloat, PositiveInt, Seed, TwoOrMore, checked
from crowdppl.data import html
from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError, ModelError, OptionError, silent
from crowdppl.inference.fit import fit
from crowdppl.inference.progress import ProgressCallback, progress_bar
from crowdppl.inference.stored import data_of, rebuilt
from crowdppl.isolation import isolated
from crowdppl.model.base import AnnotationModel
from crowdppl.model.bound import bind
from crowdppl.model.graded_rows import mean_slope
from crowdppl.model.program import unknowns
from crowdppl.model.sampling import simulated
from crowdppl.models.dawid_skene import DawidSkene
from crowdppl.models.graded_facets import GradedFacets
from crowdppl.posterior.measures import default_level, interval
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.workers import grading

Array = npt.NDArray[Any]

# Designs that are simulated where none are named; of the second those with enough workers.
ITEMS, PER_ITEM = (50, 100, 200, 400), (2, 3, 5)
# Spread of severities, in grades, and of accuracies, where a crowd states none; and the accuracy.
SEVERITIES, ACCURACIES, ACCURACY = 0.3, 0.1, 0.75
# Where widths fall with less than this power of the number of items, or so many would be needed, no number is named.
SLOW, MANY = 0.1, 1_000_000
# Groups of a result in which the parameters of a pilot are looked for: draws, of which small files have few or none, or a mode.
PLACES_OF_SITES = ("thinned", "posterior", "point")
# Places of items over which the effect of severity on a grade is averaged, in standard deviations.
PLACES = torch.linspace(-4, 4, 81, dtype=torch.float64)


@dataclass(frozen=True)
class Crowd:
    """A crowd in a few numbers, for :func:`plan` where there is no pilot.

    Attributes:
        workers: number of workers.
        classes: number of classes or grades.
        kind: ``"ordinal"`` for grades, simulated and fitted by graded facets; ``"nominal"`` for classes, by Dawid and Skene's
            model, with equally frequent classes and errors that are equally frequent in all other classes.
        spread: standard deviation over workers of the severity, in grades, .3 if not given; of classes that of the accuracy, .1.
        accuracy: of classes, the mean accuracy of workers, .75 if not given.
        slope: of grades, by how much the logit of a higher grade rises over one standard deviation of the items, 2 if not given:
            1 for grades that follow the items loosely, 4 for ones that follow them closely.

    Raises:
        OptionError: for numbers that are no such crowd.
    """

    workers: int
    classes: int
    kind: Literal["nominal", "ordinal"] = "nominal"
    spread: float | None = None
    accuracy: float | None = None
    slope: float | None = None

    def __post_init__(self) -> None:
        for name, check in (
            ("workers", arguments.whole(1)),
            ("classes", arguments.whole(2)),
            ("kind", arguments.choice("nominal", "ordinal")),
        ):
            check(name, getattr(self, name))
        for name, check in (
            ("spread", arguments.at_least_zero),
            ("accuracy", arguments.between(0, 1, 0.8)),
            ("slope", arguments.positive),
        ):
            if getattr(self, name) is not None:
                check(name, getattr(self, name))
        other = "accuracy" if self.kind == "ordinal" else "slope"
        if getattr(self, other) is not None:
            wanted = "slope, by which grades follow the items" if self.kind == "ordinal" else "accuracy"
            raise OptionError(f"{other} is not that of {self.kind} labels; they have {wanted}")
        if self.kind == "nominal" and self._spread() ** 2 >= self._accuracy() * (1 - self._accuracy()):
            raise OptionError(
                f"accuracies with mean {self._accuracy():g} have a spread below "
                f"{math.sqrt(self._accuracy() * (1 - self._accuracy())):.2f}; it is {self._spread():g}"
            )

    def _spread(self) -> float:
        usual = SEVERITIES if self.kind == "ordinal" else ACCURACIES
        return usual if self.spread is None else float(self.spread)

    def _accuracy(self) -> float:
        return ACCURACY if self.accuracy is None else float(self.accuracy)

    def model(self) -> AnnotationModel:
        """Return the model that the crowd is simulated from and that is fitted to its labels."""
        if self.kind == "nominal":
            return DawidSkene()
        return GradedFacets() if self.slope is None else GradedFacets(slope=float(self.slope))

    def parameters(self, rng: np.random.Generator) -> dict[str, Array]:
        """Draw the parameters of the model that the crowd states; the others are drawn from the prior of the model."""
        if self.kind == "nominal":
            K, mean, spread = self.classes, self._accuracy(), self._spread()
            size = mean * (1 - mean) / spread**2 - 1 if spread > 0 else math.inf
            right = (
                np.full(self.workers, mean)
                if math.isinf(size)
                else rng.beta(size * mean, size * (1 - mean), self.workers)
            )
            confusion = np.repeat(((1 - right) / (K - 1))[:, None, None], K, 1).repeat(K, 2)
            confusion[:, range(K), range(K)] = right[:, None]
            return {"confusion": confusion, "prevalence": np.full(K, 1 / K)}
        model = self.model()
        assert isinstance(model, GradedFacets)
        gaps = np.full(max(0, self.classes - 2), math.log(2 * model.reach / (self.classes - 1)))
        crowd = torch.tensor([math.log(model.slope), 0.0, *gaps], dtype=torch.float64)
        weight = torch.exp(-PLACES.square() / 2)
        by_middle = float(mean_slope(crowd, PLACES, weight / weight.sum()))  # grades for a logit of severity
        slopes, _, distances = model.spreads
        spreads = np.array([slopes, max(self._spread() / by_middle, 1e-3), distances])
        out = {
            "crowd_log_slope": np.array(math.log(model.slope)),
            "crowd_middle": np.array(0.0),
            "spread_precision": spreads**-2.0,
            "shape": np.zeros(model.shapes),  # normal items
        }
        return out | ({"crowd_log_gaps": gaps} if len(gaps) else {})


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
    source = _OfCrowd(pilot, workers) if isinstance(pilot, Crowd) else _OfPilot(pilot, workers)
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
                studies.append(_study(source, n, each, independent, rng, level))
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


class _OfCrowd:
    """Parameters of a crowd that is described by a few numbers."""

    independent = False

    def __init__(self, crowd: Crowd, workers: int | None) -> None:
        self._crowd = crowd if workers is None else replace(crowd, workers=workers)
        self.model, self.workers = crowd.model(), self._crowd.workers
        self.graded = crowd.kind == "ordinal"
        self.name = "graded-facets" if self.graded else "dawid-skene"
        first = 1 if self.graded else 0
        self.labels: Array = np.arange(first, first + crowd.classes)

    def parameters(self, rng: np.random.Generator) -> dict[str, Array]:
        return self._crowd.parameters(rng)


class _OfPilot:
    """Parameters of a pilot, draws of them if it has any, of the same workers or of others that are drawn from them."""

    def __init__(self, posterior: Posterior, workers: int | None) -> None:
        self.model, self.name, self.labels = rebuilt(posterior), str(posterior.info["model"]), posterior.labels
        self.graded, self.independent = posterior.graded, not posterior.calibrated
        reads = [name for name, used in posterior.info.get("reads", {}).items() if used]
        constant = posterior.tree["constant_data"].to_dataset()
        if "networks" in posterior.tree.children or reads or "position" in constant:
            raise ModelError(
                f"{self.name} was fitted with more than labels ({', '.join(reads) or 'features, sequences or sets'}), which a "
                f"plan does not simulate; fit a model of labels alone, or describe the crowd by numbers"
            )
        data = data_of(posterior)
        # What belongs to single items is drawn from the prior, given the rest: the items are others.
        bound = bind(self.model, data)
        with isolated(0):  # whose values are drawn, and not used
            sites = list(unknowns(bound, data))
        wanted = {name for name in sites if "item" not in bound.dims.get(name, ())}
        groups = (posterior.tree[name].to_dataset() for name in PLACES_OF_SITES if name in posterior.tree.children)
        group = next((group for group in groups if wanted <= set(group.data_vars)), None)
        if group is None:
            raise DataError(f"the pilot does not hold the parameters of {self.name}; fit it again, with keep='full'")
        self._sites = {name: group[name] for name in sorted(wanted)}
        self._active = np.flatnonzero(posterior.annotations_per_worker() > 0)
        self._drawn = workers is not None and workers != len(self._active)
        self.workers = len(self._active) if workers is None else workers

    def parameters(self, rng: np.random.Generator) -> dict[str, Array]:
        # The same draw of all sites; those at a mode have no draws.
        chosen = rng.random(2)
        who = rng.choice(self._active, self.workers) if self._drawn else self._active
        out = {}
        for name, value in self._sites.items():
            at = {
                axis: int(u * value.sizes[axis])
                for axis, u in zip(("chain", "draw"), chosen, strict=True)
                if axis in value.dims
            }
            one = value.isel(at)
            out[name] = np.asarray((one.isel(worker=who) if "worker" in one.dims else one).values)
        return out


def _study(
    source: _OfCrowd | _OfPilot, items: int, per_item: int, independent: bool, rng: np.random.Generator, level: float
) -> dict[str, float]:
    """Return the widths, and how far the consensus is right, of one simulated and fitted study."""
    parameters = source.parameters(rng)
    seed = int(rng.integers(2**31))
    worker = assigned(items, per_item, source.workers, rng)
    task = np.repeat(np.arange(items), per_item)
    design = Annotations.from_arrays(
        task,
        worker.ravel(),
        np.zeros(items * per_item, dtype=np.int64),
        labels=range(len(source.labels)),
        workers=range(source.workers),
        kind="nominal",
    )
    with silent():
        data, truth, _, known = simulated(source.model, design, seed, parameters)
        data = replace(data, labels=source.labels, kind="ordinal" if source.graded else None)
        posterior = fit(data, source.model, method="em", independent=independent, seed=seed)
        draws = grading.severities(posterior) if source.graded else posterior.measure("accuracy")
        active = posterior.annotations_per_worker() > 0
        _, low, high = interval(draws[:, active], level)
    probability = posterior.probability()
    out = {"width": float((high - low).mean()), "widest": float((high - low).max())}
    if not source.graded:
        return out | {"accuracy": float((probability.argmax(1) == truth).mean())}
    grade = grading.values(posterior)
    expected, true = probability @ grade, known @ grade
    spread = expected.std() * true.std()
    return out | {
        "mae": float(np.abs(expected - true).mean()),
        "correlation": float(np.mean((expected - expected.mean()) * (true - true.mean())) / spread) if spread else 0.0,
    }


def assigned(items: int, per_item: int, workers: int, rng: np.random.Generator) -> Array:
    """Return who labels each item, ``(items, per_item)``, all different; loads of workers differ by at most one."""
    load = np.zeros(workers, dtype=np.int64)
    out = np.empty((items, per_item), dtype=np.int64)
    for i in range(items):
        out[i] = np.lexsort((rng.random(workers), load))[:per_item]
        load[out[i]] += 1
    return out
