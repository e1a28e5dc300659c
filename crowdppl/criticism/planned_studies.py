"""Studies that a plan simulates: workers and labels by a pilot, or by a crowd of a few numbers, fitted as they will be."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from crowdppl import arguments
from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError, ModelError, OptionError, silent
from crowdppl.inference.fit import fit
from crowdppl.inference.stored import data_of, rebuilt
from crowdppl.isolation import isolated
from crowdppl.model.base import AnnotationModel
from crowdppl.model.bound import bind
from crowdppl.model.graded_rows import mean_slope
from crowdppl.model.program import unknowns
from crowdppl.model.sampling import simulated
from crowdppl.models.dawid_skene import DawidSkene
from crowdppl.models.graded_facets import GradedFacets
from crowdppl.posterior.measures import interval
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.workers import grading

Array = npt.NDArray[Any]

# Spread of severities, in grades, and of accuracies, where a crowd states none; and the accuracy.
SEVERITIES, ACCURACIES, ACCURACY = 0.3, 0.1, 0.75
# Groups of a result in which the parameters of a pilot are looked for: draws, of which small files have few or none, or a mode.
PLACES_OF_SITES = ("thinned", "posterior", "point")
# Places of items over which the effect of severity on a grade is averaged, in standard deviations.
PLACES = torch.linspace(-4, 4, 81, dtype=torch.float64)


@dataclass(frozen=True)
class Crowd:
    """A crowd in a few numbers, for :func:`crowdppl.criticism.plan` where there is no pilot.

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


class OfCrowd:
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
        """Draw parameters."""
        return self._crowd.parameters(rng)


class OfPilot:
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
        """Draw parameters."""
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


def study(
    source: OfCrowd | OfPilot, items: int, per_item: int, independent: bool, rng: np.random.Generator, level: float
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
