"""Do groups of raters see the same items differently? Held-out annotations by one truth, one place, and a place for each group.

Three accounts of grades, or of yes and no, by raters who differ:

- *one truth*: a true class and a confusion matrix for each rater (Dawid-Skene);
- *one place*: a place of the item on a line; raters differ in severity, slope and thresholds (graded facets);
- *places of groups*: as before, but each group ``g`` has its own place of item ``i``::

      f_i ~ Normal(0, 1),    x_ig ~ Normal(sqrt(r) f_i, 1 - r)

  so that places are standard normal and those of two groups have correlation ``r``. Given ``f_i`` groups are independent, and
  sums over the nodes of ``x`` and ``f`` are exact for any number of groups. ``r`` maximises the likelihood; raters and crowd take
  the M steps of graded facets, whose items are here the pairs of an item and a group.

Raters of one group who are all more severe differ in thresholds, which *one place* has as well: a gain of the third over the
second says that groups order the items differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from crowdppl import arguments
from crowdppl.arguments import Level, PositiveInt, Seed, checked
from crowdppl.criticism.rater_covariates import by_worker
from crowdppl.data import html
from crowdppl.data.annotations import Annotations
from crowdppl.data.frames import indexed
from crowdppl.data.table.columns import WORKER_COLUMNS
from crowdppl.data.table.identifiers import class_columns
from crowdppl.errors import DataError, OptionError, listed, silent
from crowdppl.inference.fit import fit
from crowdppl.isolation import isolated
from crowdppl.model.base import Parameters
from crowdppl.models import DawidSkene, GradedFacets, WorkerGroups
from crowdppl.posterior.intervals import tails
from crowdppl.posterior.workers import default_level

Array = npt.NDArray[Any]
FACETS = GradedFacets(shapes=0)  # places of groups are normal, so that two of them have a correlation
MODELS = ("one truth", "one place", "places of groups")
# Largest correlation between places of groups: with more, the distance of two places is below that of two nodes.
CLOSEST = 0.97
# Iterations of EM, at most, and the gain in log-likelihood of an item below which they end.
MOST, ENOUGH = 100, 1e-5
# Sweeps of Gibbs sampling that look for groups, to warm up and to count.
SWEEPS = 300
# Groups are shown where their gain is above so many standard errors.
SHOWN = 2.0
# Fewest raters of a group, and most groups.
FEWEST, MOST_GROUPS = 2, 10


@dataclass(frozen=True, repr=False)
class Perspectives:
    """Held-out scores of one truth, one place and places of groups, and what each group says of each item.

    Attributes:
        scores: a row for each account: ``account``; ``log_score``, mean log-probability of a held-out annotation, in nats;
            ``gain`` over the account before it, with its standard error ``se`` over items.
        groups: a row for each group: ``group``, ``raters``, ``annotations``.
        members: a row for each rater: ``worker``, ``group``.
        correlation: of the places of two groups, over items.
        grades: a row for each item and group: ``task``, ``group``, ``annotations`` by the group; ``grade``, the mean grade that a
            rater of the group gives the item, as a number from 0, with ``low`` and ``high``; probabilities of each grade.
        level: probability of the intervals.
    """

    scores: pd.DataFrame
    groups: pd.DataFrame
    members: pd.DataFrame
    correlation: float
    grades: pd.DataFrame
    level: float

    @property
    def places(self) -> pd.DataFrame:
        """Mean grade that each group gives each item: a row for each item, a column for each group."""
        item = self.grades.columns[0]
        return self.grades.pivot_table(index=item, columns="group", values="grade", sort=False)

    @property
    def differ(self) -> bool:
        """Whether places of groups predict annotations better than one place, by two standard errors or more."""
        gain, se = self.scores[["gain", "se"]].iloc[2]
        return bool(len(self.groups) > 1 and gain > SHOWN * se)

    def __str__(self) -> str:
        gain, se = self.scores[["gain", "se"]].iloc[2]
        if len(self.groups) == 1:
            return "One group of raters: in all annotations no second one is to be told apart by its labels"
        size = f"{gain:+.4f} nats an annotation (standard error {se:.4f})"
        if self.differ:
            return f"Groups see items differently: places of their own gain {size}; they correlate by {self.correlation:.2f}"
        return f"No sign that groups see items differently: places of their own gain {size} over one place for all"

    def __repr__(self) -> str:
        return f"{self}\n{self.scores}\n{self.groups}"

    def _repr_html_(self) -> str:
        return html.view(str(self), html.table(self.scores), html.table(self.groups))


@checked
def perspectives(
    data: Annotations,
    group: Any,
    *,
    held_out: Annotated[float, arguments.between(0, 1, 0.2)] = 0.2,
    splits: PositiveInt = 3,
    level: Level | None = None,
    seed: Seed = 0,
) -> Perspectives:
    """Ask whether groups of raters see the same items differently, by the prediction of held-out annotations.

    Args:
        data: grades (``kind="ordinal"``), or labels of two classes. Known true labels are not used: they would be of no group.
        group: the group of each rater, a mapping or Series from worker to group, or a frame with a worker and a group column; or
            a number of groups, which are then looked for in the training annotations of each split
            (:class:`crowdppl.models.WorkerGroups`).
        held_out: share of the annotations that are held out in each split.
        splits: number of splits.
        level: probability of the intervals.
        seed: of splits, and of groups that are looked for.

    Raises:
        DataError: if labels are classes without order, or a group is missing or too small.
        OptionError: for a number of groups that is out of range.
    """
    if data.kind != "ordinal" and data.K != 2:
        raise DataError("perspectives are of grades, or of two classes; read the annotations with kind='ordinal'")
    data = Annotations(
        item=data.item.cpu(),
        worker=data.worker.cpu(),
        label=data.label.cpu(),
        truth=torch.full((data.N,), -1),
        items=data.items,
        workers=data.workers,
        labels=data.labels,
        item_column=data.item_column,
        repeats=data.repeats,
        kind="ordinal",
    )
    known = None if isinstance(group, int) and not isinstance(group, bool) else _known(data, group)
    level = default_level(level)
    with silent(), isolated(seed, dtype=data.dtype, threads=1), torch.no_grad():
        parts = [_scored(data, group if known is None else known, held_out, seed + n) for n in range(splits)]
        names, of = _groups(data, group, seed) if known is None else known
        places = _Places.fitted(data, torch.from_numpy(of), len(names))
        return Perspectives(
            _scores(np.concatenate(parts, axis=1)),
            pd.DataFrame(
                {
                    "group": names,
                    "raters": np.bincount(of, minlength=len(names)),
                    "annotations": np.bincount(of[data.worker.numpy()], minlength=len(names)),
                }
            ),
            pd.DataFrame({"worker": data.workers, "group": np.array(names, dtype=object)[of]}),
            places.correlation,
            places.grades(names, level),
            level,
        )


Groups = tuple[list[Any], Array]


def _known(data: Annotations, group: Any) -> Groups:
    """Return the names of the groups and the group of each worker, ``(J,)``.

    Raises:
        DataError: if one is missing, or a group has few raters.
    """
    table = (
        pd.Series(dict(group), dtype=object) if isinstance(group, Mapping) else indexed(group, WORKER_COLUMNS, "group")
    )
    table = table.rename("group").to_frame() if isinstance(table, pd.Series) else table
    if not isinstance(table, pd.DataFrame):
        raise DataError(
            f"group={arguments.shown(group)}; give a mapping from worker to group, a frame with both, or a number of groups"
        )
    table = by_worker(table)
    if len(table.columns) != 1:
        raise DataError(f"group has the columns {listed(table.columns.tolist(), 5)}; give one beside the worker")
    stated = table.iloc[:, 0].groupby(table.index)
    twice = stated.nunique()
    if (twice > 1).any():
        raise DataError(
            f"group: worker {listed(twice.index[twice > 1].tolist(), 3)} has several groups; give one to each"
        )
    values = stated.first().reindex([str(name) for name in data.workers.tolist()]).tolist()
    missing = [name for name, value in zip(data.workers.tolist(), values, strict=True) if pd.isna(value)]
    if missing:
        raise DataError(f"group: none for worker {listed(missing, 3)}; give one to every worker, or leave them out")
    codes, names = pd.factorize(pd.Series(values, dtype=object), sort=True)
    # Raters without annotations say nothing of their group.
    sizes = np.bincount(codes, weights=data.annotations_per_worker.numpy() > 0).astype(np.int64)
    if not 2 <= len(names) <= MOST_GROUPS or sizes.min() < FEWEST:
        raise DataError(
            f"group: {len(names)} groups, the smallest of {sizes.min():,} raters; it needs 2 to {MOST_GROUPS} groups of at least "
            f"{FEWEST}"
        )
    return names.tolist(), codes.astype(np.int64)


def _groups(data: Annotations, count: int, seed: int) -> Groups:
    """Look for groups of raters, by their confusion matrices.

    Raises:
        OptionError: for a number of groups that is out of range.
    """
    if not 2 <= count <= min(MOST_GROUPS, data.J // FEWEST):
        raise OptionError(
            f"group={count}; it must be from 2 to {min(MOST_GROUPS, data.J // FEWEST)} for {data.J:,} raters"
        )
    # One chain: groups of several are not in the same order.
    sweeps: dict[str, Any] = {"chains": 1, "warmup": SWEEPS, "num_samples": SWEEPS}
    posterior = fit(data, WorkerGroups(groups=count), method="gibbs", seed=seed, copies="all", **sweeps)
    # Fewer groups where some have no rater.
    used, of = np.unique(posterior.draws("membership").mean(0).argmax(-1), return_inverse=True)
    return [f"group {n + 1}" for n in range(len(used))], of.astype(np.int64)


def _scored(data: Annotations, group: int | Groups, held_out: float, seed: int) -> Array:
    """Return item and log-probability by each account of held-out annotations, ``(4, n)``."""
    held = torch.from_numpy(np.random.default_rng(seed).random(data.A) < held_out)
    train, test = data.keep(~held), (data.item[held], data.worker[held], data.label[held])
    # What a fit cannot know: items and workers that have no annotation left.
    seen = (train.annotations_per_item[test[0]] > 0) & (train.annotations_per_worker[test[1]] > 0)
    item, worker, label = (part[seen] for part in test)
    names, of = _groups(train, group, seed) if isinstance(group, int) else group
    truth = fit(train, DawidSkene(), method="em", seed=0, independent=True, num_samples=2, copies="all")
    point = truth.tree["point"]["confusion"].to_numpy()  # (J, K, K)
    out = [np.log((truth.probability_as_published()[item] * point[worker, :, label]).sum(-1))]
    for groups, member in ((1, np.zeros(data.J, dtype=np.int64)), (len(names), of)):
        places = _Places.fitted(train, torch.from_numpy(member), groups)
        out.append(places.predicted(item, worker, label).log().numpy())
    return np.stack([item.numpy(), *out])


def _scores(parts: Array) -> pd.DataFrame:
    """Return the table of scores from items and log-probabilities ``(4, n)``."""
    item, scores = parts[0].astype(np.int64), parts[1:]
    rows: list[dict[str, Any]] = []
    for n, name in enumerate(MODELS):
        row = {"account": name, "log_score": scores[n].mean(), "gain": np.nan, "se": np.nan}
        if n:
            gain = scores[n] - scores[n - 1]
            by_item = np.bincount(item, weights=gain - gain.mean())
            row |= {"gain": gain.mean(), "se": float(np.sqrt((by_item**2).sum()) / len(gain))}
        rows.append(row)
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class _Places:
    """Places of items for each group, on nodes.

    Attributes:
        data: the annotations.
        of: group of each worker, ``(J,)``.
        parameters: of graded facets.
        belief: probability of each node for each item and group, ``(N, G, S)``.
        correlation: of the places of two groups.
    """

    data: Annotations
    of: Tensor
    parameters: Parameters
    belief: Tensor
    correlation: float

    @classmethod
    def fitted(cls, data: Annotations, of: Tensor, groups: int) -> _Places:
        """Fit by EM: one place for ``groups=1``."""
        split = _by_group(data, of, groups)
        model, nodes = FACETS, FACETS.places(split)
        belief, parameters, correlation, last = model.initial(split), None, 0.5, -np.inf
        for _ in range(MOST):
            parameters = model.m_step(belief, split, parameters)
            logs = split.counts.log_likelihoods(model.confusion(parameters, split).log()).view(data.N, groups, -1)
            correlation = _best_correlation(logs, nodes) if groups > 1 else 0.0
            belief, total = _beliefs(logs, nodes, correlation)
            belief = belief.view(data.N * groups, -1)
            value = float(total.sum())
            if value - last < ENOUGH * data.N:
                break
            last = value
        assert parameters is not None
        return cls(data, of, parameters, belief.view(data.N, groups, -1), correlation if groups > 1 else 1.0)

    @property
    def confusion(self) -> Tensor:
        """Probabilities of the grades at each node, by rater: ``(J, S, K)``."""
        return FACETS.confusion(self.parameters, self.data)

    def predicted(self, item: Tensor, worker: Tensor, label: Tensor) -> Tensor:
        """Return the probability of further annotations, ``(n,)``."""
        return (self.belief[item, self.of[worker]] * self.confusion[worker, :, label]).sum(-1)

    def grades(self, names: list[Any], level: float) -> pd.DataFrame:
        """Return the table of items and groups."""
        data, (N, G, _), K = self.data, self.belief.shape, self.data.K
        rows = []
        number = torch.bincount(data.item * G + self.of[data.worker], minlength=N * G).view(N, G)
        active, tables = data.annotations_per_worker > 0, self.confusion
        steps = torch.arange(K, dtype=data.dtype)
        for g, name in enumerate(names):
            table = tables[(self.of == g) & active].mean(0)  # (S, K): a rater drawn from the group
            mean = table @ steps  # (S,), rising
            ends = [_quantiles(self.belief[:, g], mean, share) for share in tails(level)]
            soft = (self.belief[:, g] @ table).numpy()
            part = {
                data.item_column: data.items,
                "group": name,
                "annotations": number[:, g].numpy(),
                "grade": soft @ steps.numpy(),
                "low": ends[0].numpy(),
                "high": ends[1].numpy(),
            }
            of_grades = pd.DataFrame(soft, columns=class_columns("p_", data.labels.tolist()))
            rows.append(pd.concat([pd.DataFrame(part), of_grades], axis=1))
        return pd.concat(rows).sort_index(kind="stable").reset_index(drop=True)


def _by_group(data: Annotations, of: Tensor, groups: int) -> Annotations:
    """Return the annotations with pairs of an item and a group as items, ``N G`` of them."""
    item = data.item * groups + of[data.worker]
    order = item.argsort(stable=True)
    return Annotations(
        item=item[order],
        worker=data.worker[order],
        label=data.label[order],
        truth=torch.full((data.N * groups,), -1),
        items=np.arange(data.N * groups),
        workers=data.workers,
        labels=data.labels,
        kind="ordinal",
    )


def _beliefs(logs: Tensor, nodes: Tensor, correlation: float) -> tuple[Tensor, Tensor]:
    """Return the probability of each node for each item and group, and the log-likelihood of each item.

    Args:
        logs: log-likelihoods of an item's annotations by each group, at each node, ``(N, G, S)``.
        nodes: ``(S,)``, of places and of what they have in common.
        correlation: ``r``; 0 where there is one group.

    Returns:
        ``(N, G, S)`` and ``(N,)``.
    """
    common = (-nodes.square() / 2).softmax(0)  # (F,)
    given = (-(nodes - correlation**0.5 * nodes.unsqueeze(1)).square() / (2 * (1 - correlation))).softmax(1)  # (F, S)
    top = logs.max(-1, keepdim=True).values
    likelihood = (logs - top).exp()
    # No place of one group is impossible given that of another, however surely both are known.
    of_group = (likelihood @ given.T).clamp(min=torch.finfo(likelihood.dtype).tiny)  # (N, G, F)
    joint = common.log() + of_group.log().sum(1)  # (N, F)
    total = joint.logsumexp(-1)
    weight = (joint - total.unsqueeze(-1)).exp().unsqueeze(1) / of_group  # (N, G, F)
    belief = likelihood * (weight @ given)
    return belief, total + top.sum((1, 2))


def _best_correlation(logs: Tensor, nodes: Tensor) -> float:
    """Return the correlation of the places of two groups that maximises the likelihood, from 0 to ``CLOSEST``."""
    best = minimize_scalar(
        lambda r: -float(_beliefs(logs, nodes, r)[1].sum()),
        bounds=(0.0, CLOSEST),
        method="bounded",
        options={"xatol": 1e-3},
    )
    return float(best.x)


def _quantiles(belief: Tensor, value: Tensor, share: float) -> Tensor:
    """Return quantiles of values that rise over the nodes ``(S,)``, by probabilities of the nodes ``(N, S)``: ``(N,)``."""
    below = belief.cumsum(-1) - belief / 2
    at = torch.searchsorted(below.contiguous(), below.new_full((len(below), 1), share)).clamp(1, len(value) - 1)
    low, high = below.gather(1, at - 1), below.gather(1, at)
    part = ((share - low) / (high - low).clamp(min=torch.finfo(below.dtype).tiny)).clamp(0, 1)
    return (value[at - 1] + part * (value[at] - value[at - 1])).squeeze(1)
