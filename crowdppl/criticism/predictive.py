"""Predictive checks: labels as the fitted story would give them again, beside those that were given.

Statistics are chosen for what goes wrong with annotation models: annotations of one item that agree more, or less, than the story
lets them; workers who differ more than it says; pairs of workers who copy from each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy.sparse as sparse
import torch

from crowdppl import arguments
from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError, OptionError
from crowdppl.inference.predict import data_of, parameter_draws
from crowdppl.inference.sampling import sample_truth
from crowdppl.isolation import isolated
from crowdppl.model.base import AnnotationModel
from crowdppl.model.sampling import simulate
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.workers import default_level

Array = npt.NDArray[Any]

# Pairs of workers are compared among the busiest of them, where they have judged at least so many items both.
BUSIEST = 100
COMMON = 5
# Below this a statistic is told to be one the model does not reproduce.
NOTABLE = 0.01
# With fewer replicates no p-value can be below that: the observed value counts as one of them.
TELLING = 200

# What a statistic that the model does not reproduce means: more than the model expects, and less.
HOW = ("more often than the model expects", "less often than the model expects")
PLAIN = {
    "agreement": tuple(f"Annotations of an item agree {how}" for how in HOW),
    "agreement_spread": (
        "Items differ in difficulty more than the model allows",
        "Items differ in difficulty less than the model expects",
    ),
    "entropy": (
        "The labels of an item are more mixed than the model expects",
        "The labels of an item are less mixed than the model expects",
    ),
    "entropy_spread": (
        "Some items are disputed and others are not, more than the model allows",
        "Items are disputed more evenly than the model expects",
    ),
    "majority": tuple(f"Workers give the most frequent label of an item {how}" for how in HOW),
    "majority_spread": (
        "Workers differ from each other more than the model allows",
        "Workers differ from each other less than the model expects",
    ),
    "pairs": tuple(f"Two workers agree {how}" for how in HOW),
    "pairs_spread": (
        "Some pairs of workers agree far more than others: they may copy from each other, or see things alike",
        "Pairs of workers are more alike than the model expects",
    ),
}
LABEL = "share of the label "

# Spreads are standard deviations.
WORDS = {
    "agreement": "share of pairs of annotations of an item that agree, mean over items",
    "agreement_spread": "spread over items of the share of pairs that agree: how far items differ in difficulty",
    "entropy": "entropy of an item's labels in bits, mean over items",
    "entropy_spread": "spread over items of the entropy of their labels",
    "majority": "share of a worker's labels that are the item's most frequent, mean over workers",
    "majority_spread": "spread over workers of the share that is most frequent: how far workers differ",
    "pairs": "share of common items on which two workers agree, mean over pairs",
    "pairs_spread": "spread over pairs of workers of the share they agree on: whether some copy, or see things alike",
}


@dataclass(frozen=True)
class PredictiveCheck:
    """Statistics of the labels given and of those the story would give.

    Attributes:
        table: a row for each statistic: ``statistic``, ``meaning``, ``observed``, ``mean`` of the replicates with the ends of
            their interval ``low`` and ``high``, and a two-sided ``p_value``.
        workers: a row for each worker with annotations: share of labels that are the item's most frequent, ``observed``, ``mean``,
            ``low``, ``high``, ``p_value``.
        draws: the statistics of each replicate, a column each.
        story: ``"model"`` where replicates come from the model's own story, ``"tables"`` where from truths and confusions drawn.
    """

    table: pd.DataFrame
    workers: pd.DataFrame
    draws: pd.DataFrame
    story: str

    @property
    def sentences(self) -> list[str]:
        """What the story does not reproduce, in plain words."""
        out = []
        for row in self.table[self.table["p_value"] < NOTABLE].to_dict("records"):
            more = row["observed"] > row["mean"]
            words = PLAIN.get(row["statistic"])
            if words is None:
                words = tuple(f"The label {row['meaning'].removeprefix(LABEL)} is given {how}" for how in HOW)
            out.append(f"{words[not more]} ({row['observed']:.3f}; the model: {row['low']:.3f} to {row['high']:.3f}).")
        return out

    @property
    def summary(self) -> list[str]:
        """Whether the model gives labels like these, and what to do if not, in plain words; :attr:`sentences` has the details."""
        compared = int(self.table["p_value"].notna().sum())
        differ = len(self.sentences)
        if not compared:
            return ["There are too few annotations to compare with the model."]
        if len(self.draws) < TELLING:
            return [
                f"{len(self.draws):,} data sets drawn from the model are too few to tell whether it reproduces the labels; draw "
                f"at least {TELLING} (draws=, --draws)."
            ]
        if not differ:
            return [f"The model reproduces the labels: none of {compared} statistics differs."]
        return [
            f"The model does not reproduce {differ} of {compared} statistics of the labels. Treat probabilities and intervals "
            f"with care; another model may fit better (`crowdppl models`)."
        ]

    def __str__(self) -> str:
        return self.table.to_string(index=False, float_format=lambda x: f"{x:.3f}")


@arguments.checked(
    item=arguments.array("annotation", kind="whole"),
    worker=arguments.array("annotation", kind="whole"),
    label=arguments.array("annotation", kind="whole"),
    sizes=arguments.several(arguments.whole(1), 3),
)
def statistics(item: Array, worker: Array, label: Array, sizes: tuple[int, int, int]) -> tuple[dict[str, float], Array]:
    """Return the statistics of labels ``(A,)``, and each worker's share of labels that are the item's most frequent ``(J,)``.

    Args:
        item: item of each annotation, ``(A,)``.
        worker: its worker, ``(A,)``.
        label: its label, ``(A,)``.
        sizes: numbers of items, workers and classes.
    """
    N, J, K = sizes
    votes = np.bincount(item * K + label, minlength=N * K).reshape(N, K)
    n = votes.sum(1)
    several, judged = n > 1, n > 0
    agreement = (votes * (votes - 1)).sum(1)[several] / (n * (n - 1))[several]
    share = votes[judged] / n[judged, None]
    entropy = -(share * np.log2(np.where(share > 0, share, 1))).sum(1)
    mine = np.bincount(worker, weights=votes.argmax(1)[item] == label, minlength=J)
    total = np.bincount(worker, minlength=J)
    majority = np.where(total > 0, mine / np.maximum(total, 1), np.nan)
    pairs = _pairs(item, worker, label, sizes, total)
    shares = np.bincount(label, minlength=K) / len(label)
    out: dict[str, float] = {f"label_{k}": float(shares[k]) for k in range(K)}
    for name, values in {
        "agreement": agreement,
        "entropy": entropy,
        "majority": majority[total > 0],
        "pairs": pairs,
    }.items():
        out[name] = float(values.mean()) if len(values) else np.nan
        out[f"{name}_spread"] = float(values.std()) if len(values) else np.nan
    return out, majority


def _pairs(item: Array, worker: Array, label: Array, sizes: tuple[int, int, int], total: Array) -> Array:
    N, J, K = sizes
    busiest = np.argsort(-total, kind="stable")[: min(BUSIEST, J)]
    place = np.full(J, -1)
    place[busiest] = np.arange(len(busiest))
    kept = place[worker] >= 0
    row, column, value = item[kept], place[worker[kept]], label[kept]
    shape = (N, len(busiest))
    ones = np.ones(len(row))
    common = sparse.csr_matrix((ones, (row, column)), shape=shape)
    both = (common.T @ common).toarray()
    split = sparse.csr_matrix((ones, (row * K + value, column)), shape=(N * K, len(busiest)))
    agree = (split.T @ split).toarray()
    upper = np.triu(np.ones_like(both, dtype=bool), 1) & (both >= COMMON)
    return np.asarray(agree[upper] / both[upper])


@arguments.checked(
    posterior=arguments.posterior,
    draws=arguments.whole(1),
    seed=arguments.seed,
    data=arguments.annotation_data,
    model=arguments.model,
)
def replicates(
    posterior: Posterior,
    draws: int = 200,
    *,
    seed: int = 0,
    data: Annotations | None = None,
    model: AnnotationModel | None = None,
) -> tuple[list[Array], str]:
    """Draw labels anew for the same items and workers, once for each of some posterior draws.

    From the model's own story: the state of each item drawn from its posterior, labels from the emission, with difficulties,
    sources of noise and subtypes. Where the story cannot be told again (the annotations had features and ``data`` is not given, a
    model of your own is not given, each annotation has a truth of its own), a worker answers by the confusion of the draw to
    the truth of the draw.

    Args:
        posterior: a result.
        draws: replicates; several of a posterior draw where there are fewer of these.
        seed: of the draws.
        data: the annotations that were fitted, needed where they have features.
        model: the fitted model, where it cannot be rebuilt by its name.

    Returns:
        The labels, each ``(A,)``, and which story they come from: ``"model"`` or ``"tables"``.

    Raises:
        OptionError: for fewer than one draw.
    """
    if isinstance(draws, bool) or draws < 1:
        raise OptionError(f"draws={draws!r}; at least 1 is needed")
    try:
        told = data_of(posterior) if data is None else data.to("cpu")
        return list(_from_model(posterior, draws, seed, told, model)), "model"
    except ModelError:
        if data is not None or model is not None:
            raise
        return list(_from_tables(posterior, draws, seed)), "tables"


def _from_model(
    posterior: Posterior, draws: int, seed: int, data: Annotations, model: AnnotationModel | None
) -> Iterator[Array]:
    with isolated(seed), torch.no_grad():
        # A point, and fewer draws than replicates, are gone through again: truths and labels are drawn anew each time.
        for bound, values in islice(cycle(parameter_draws(posterior, data, model, draws)), draws):
            if bound.expand(data).parent_item is not None:
                raise ModelError("each annotation has a truth of its own in this model; leave data= out")
            parameters, _ = bound.conditioned(values, data)
            state = sample_truth(bound.item_log_joint(parameters, data))  # (N,)
            under_each = bound.emission(parameters, data).sample()  # (A, S): a label under each state
            yield under_each.gather(-1, state[data.item].unsqueeze(-1)).squeeze(-1).long().numpy()


def _from_tables(posterior: Posterior, draws: int, seed: int) -> Iterator[Array]:
    rng = np.random.default_rng(seed)
    item, worker, _ = posterior.annotation_index()
    truth = posterior.truth_draws()
    confusion = posterior.tree["posterior"].to_dataset()["confusion"]
    per_chain = confusion.sizes["draw"]
    for s in islice(cycle(_spread(len(truth), draws)), draws):
        rows = np.asarray(confusion[s // per_chain, s % per_chain].values)[worker, truth[s, item]]  # (A, K)
        edges = rows.cumsum(1)
        yield (edges < rng.random(len(item))[:, None] * edges[:, -1:]).sum(1)


@arguments.checked(
    posterior=arguments.posterior,
    draws=arguments.whole(1),
    level=arguments.level,
    seed=arguments.seed,
    data=arguments.annotation_data,
    model=arguments.model,
)
def check(
    posterior: Posterior,
    *,
    draws: int = 200,
    level: float | None = None,
    seed: int = 0,
    data: Annotations | None = None,
    model: AnnotationModel | None = None,
) -> PredictiveCheck:
    """Compare the labels given with labels drawn from the fitted story; arguments and errors as of :func:`replicates`.

    Items and workers are the same, and so are the truths of the draws: what is tested is how annotations depend on them. A small
    p-value says that the story does not make data like these: above all, a spread of agreement over items that is larger than the
    model's says that items differ in difficulty. The story is the model's as published; that annotations err together is not in
    it, and is what such a check finds.
    """
    item, worker, label = posterior.annotation_index()
    sizes = (len(posterior.items()), len(posterior.worker_names()), len(posterior.labels))
    again, story = replicates(posterior, draws, seed=seed, data=data, model=model)
    made = [statistics(item, worker, one, sizes) for one in again]
    observed = statistics(item, worker, label, sizes)
    return _compare(posterior.worker_names(), posterior.labels, observed, made, level, story)


@arguments.checked(
    model=arguments.model,
    data=arguments.annotation_data,
    draws=arguments.whole(1),
    level=arguments.level,
    seed=arguments.seed,
)
def prior_check(
    model: AnnotationModel, data: Annotations, *, draws: int = 200, level: float | None = None, seed: int = 0
) -> PredictiveCheck:
    """Compare the labels given with labels drawn from the model before it has seen any: is the prior at all possible?

    Args:
        model: an instance.
        data: items and workers, and the labels to compare with.
        draws: data sets drawn.
        level: probability of the intervals.
        seed: of the draws.
    """
    item, worker, label = (part.cpu().numpy() for part in (data.item, data.worker, data.label))
    sizes = (data.N, data.J, data.K)
    of_items, of_workers = _frame(data.features, data.items), _frame(data.worker_features, data.workers)
    made = []
    for n in range(draws):
        again, _, _ = simulate(
            model,
            data.items[item],
            data.workers[worker],
            classes=data.K,
            seed=seed + n,
            features=of_items,
            worker_features=of_workers,
        )
        made.append(statistics(item, worker, again.label.numpy(), sizes))
    return _compare(data.workers, data.labels, statistics(item, worker, label, sizes), made, level, "model")


def _frame(features: torch.Tensor | None, names: Array) -> pd.DataFrame | None:
    return None if features is None else pd.DataFrame(features.cpu().numpy(), index=pd.Index(names))


def _compare(
    names: Array,
    labels: Array,
    observed: tuple[dict[str, float], Array],
    made: list[tuple[dict[str, float], Array]],
    level: float | None,
    story: str,
) -> PredictiveCheck:
    level = default_level(level)
    words = {f"label_{n}": f"{LABEL}{k}" for n, k in enumerate(labels)} | WORDS
    draws = pd.DataFrame([one for one, _ in made])
    table = _summary(np.array([observed[0][name] for name in words]), draws[list(words)].to_numpy(), level)
    table.insert(0, "statistic", list(words))
    table.insert(1, "meaning", list(words.values()))
    by_worker = _summary(observed[1], np.stack([each for _, each in made]), level)
    by_worker.insert(0, "worker", names)
    return PredictiveCheck(table, by_worker.dropna(subset="observed").reset_index(drop=True), draws, story)


def _summary(observed: Array, draws: Array, level: float) -> pd.DataFrame:
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    # The observed value counts as one of the replicates: never a p-value of 0. Equal to rounding is equal.
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


def _spread(size: int, most: int) -> Array:
    return np.unique(np.linspace(0, size - 1, min(most, size)).astype(int))
