"""What to have labelled next: which items, by whom, and how many annotations it takes.

One more annotation of an item is worth what it is expected to tell. It does not tell what an independent one would: with
correlation ``rho`` between the annotations of an item, ``n`` of them are worth ``n / (1 + (n - 1) rho)`` independent ones (see
:mod:`crowdppl.inference.design_effect`), so that the next one adds

    w(n) = (n + 1) / (1 + n rho) - n / (1 + (n - 1) rho)

which is taken as the probability that the next annotation is a new one, drawn from the worker's confusion, and not a copy of what
is believed already. Nobody sees which it is, so that the label tells by the mixture of both,
``w theta[k, l] + (1 - w) sum_k p_k theta[k, l]``. This keeps the arithmetic of probabilities intact: what is expected after the
annotation is, on average, what is believed before it.

For intervals ``rho`` is drawn from a wide spread, so that they hold also where much else is wrong with a model. What another
annotation is worth is a matter of the correlation alone: here draws count by how well their ``rho`` agrees with the growth of
accuracy on public data sets (``GROWTH``), unless the fit was given a ``rho`` of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from crowdppl import arguments
from crowdppl.errors import OptionError
from crowdppl.inference.design_effect import POPULATION, DesignEffect
from crowdppl.posterior.known_truth import codes
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.workers import default_level, interval

__all__ = ["Curve", "curve", "effective", "finished", "gains", "next_items", "next_pairs", "redundancy"]

Array = npt.NDArray[Any]
By = Literal["entropy", "information", "accuracy"]
WAYS = ("entropy", "information", "accuracy")

# Mean and spread of logit rho: with .1 the growth of accuracy from two annotations an item to six is foretold without bias on
# twelve public sets, with .03 and .3 for single ones (docs/benchmarks/replay.md).
GROWTH = (-2.2, 1.2)
# Values of rho that gains are averaged over.
RHOS = 50
# Items x labels x classes handled at a time.
CELLS = 2**22


def __dir__() -> list[str]:
    return __all__


@arguments.checked(n=arguments.amounts(0), rho=arguments.amounts(0, 1))
def effective(n: Any, rho: Any) -> Array:
    """Return how many independent annotations ``n`` correlated ones are worth, ``n / (1 + (n - 1) rho)``; 0 for none."""
    n, rho = np.asarray(n, dtype=float), np.asarray(rho, dtype=float)
    return np.asarray(n / (1 + np.maximum(n - 1, 0) * rho))


@arguments.checked(posterior=arguments.posterior, most=arguments.whole(1), level=arguments.level)
def redundancy(posterior: Posterior, most: int = 20, *, level: float | None = None) -> pd.DataFrame:
    """Return the effective number of independent workers behind ``n`` annotations of an item.

    Args:
        posterior: a result.
        most: the largest ``n``.
        level: probability of the intervals, over the draws of ``rho``.

    Returns:
        A row for each ``n`` from 1: ``annotations``, ``independent``, ``low``, ``high``. All equal to ``n`` for a result that
        counts annotations as independent.
    """
    n = np.arange(1, most + 1)
    mean, low, high = interval(effective(n, _rho(posterior, 1000)[:, None]), level)
    return pd.DataFrame({"annotations": n, "independent": mean, "low": low, "high": high})


@arguments.checked(posterior=arguments.posterior, by=arguments.choice(*WAYS), worker=arguments.identifier)
def gains(posterior: Posterior, *, by: By = "entropy", worker: Any = None) -> Array:
    """Return what speaks for one more annotation of each item: ``(N,)``.

    Args:
        posterior: a result.
        by: ``"entropy"``, the entropy of what is believed now, in bits: asks where least is known, and saves most in replays of
            real annotations (docs/benchmarks/replay.md); ``"information"``, the expected fall of the entropy, in bits, which tells
            workers apart; ``"accuracy"``, the expected rise of the probability of the most probable class, which is 0 where one
            annotation cannot change it.
        worker: who is asked; a worker of the crowd, taken by their numbers of annotations, where not given.

    Raises:
        OptionError: for another ``by``.
        DataError: for an unknown worker.
    """
    who = None if worker is None else posterior.worker_index(worker)
    return _gains(posterior, by, [who])[0]


@arguments.checked(
    posterior=arguments.posterior, n=arguments.whole(1), by=arguments.choice(*WAYS), worker=arguments.identifier
)
def next_items(posterior: Posterior, n: int = 10, *, by: By = "entropy", worker: Any = None) -> pd.DataFrame:
    """Return the items for which one more annotation brings most, best first.

    Args:
        posterior: a result.
        n: how many.
        by: see :func:`gains`.
        worker: likewise.

    Returns:
        A row for each item: ``task``, ``label`` and ``probability`` as they are now, ``annotations`` so far, ``gain``. Items whose
        truth was known are left out.

    Raises:
        OptionError: for fewer than one item.
    """
    gain = gains(posterior, by=by, worker=worker)
    gain[posterior.known_truth() >= 0] = -np.inf
    order = np.argsort(-gain, kind="stable")[:n]
    order = order[gain[order] > -np.inf]
    now = posterior.truth().iloc[order]
    table = now[[posterior.item_column, "label", "probability"]].reset_index(drop=True)
    return table.assign(annotations=posterior.annotations_per_item()[order], gain=gain[order])


@arguments.checked(
    posterior=arguments.posterior,
    n=arguments.whole(1),
    by=arguments.choice(*WAYS),
    workers=arguments.identifiers,
    each=arguments.whole(1),
)
def next_pairs(
    posterior: Posterior,
    n: int = 10,
    *,
    by: By = "information",
    workers: list[Any] | None = None,
    each: int | None = None,
) -> pd.DataFrame:
    """Return pairs of an item and a worker for which the annotation brings most; every item once, nobody asked twice.

    Args:
        posterior: a result.
        n: how many pairs.
        by: see :func:`gains`.
        workers: who can be asked; all where not given.
        each: items for one worker at most; ``n`` over their number, and one, where not given.

    Returns:
        As :func:`next_items`, with ``worker``.

    Raises:
        OptionError: for fewer than one pair, or an ``each`` below 1.
        DataError: for an unknown worker.
    """
    names = posterior.worker_names().tolist() if workers is None else workers
    if each is None:
        each = -(-n // len(names)) + 1
    item, by_worker, _ = posterior.annotation_index()
    place = {posterior.worker_index(name): w for w, name in enumerate(names)}
    table = _gains(posterior, by, list(place))  # (W, N)
    asked = np.isin(by_worker, list(place))
    table[[place[j] for j in by_worker[asked]], item[asked]] = -np.inf
    table[:, posterior.known_truth() >= 0] = -np.inf
    left, taken = np.full(len(names), each), np.zeros(table.shape[1], dtype=bool)
    chosen: list[tuple[int, int]] = []
    for cell in np.argsort(-table, axis=None, kind="stable"):
        w, i = divmod(int(cell), table.shape[1])
        if table[w, i] == -np.inf or len(chosen) == n:
            break
        if left[w] and not taken[i]:
            left[w] -= 1
            taken[i] = True
            chosen.append((i, w))
    rows, who = (np.array([pair[p] for pair in chosen], dtype=int) for p in (0, 1))
    now = posterior.truth().iloc[rows][[posterior.item_column, "label", "probability"]].reset_index(drop=True)
    now.insert(1, "worker", pd.Series([names[w] for w in who], dtype=object))
    return now.assign(annotations=posterior.annotations_per_item()[rows], gain=table[who, rows])


@arguments.checked(posterior=arguments.posterior, sure=arguments.between(0, 1, 0.99))
def finished(posterior: Posterior, sure: float = 0.99) -> pd.DataFrame:
    """Apply a stopping rule: which items need no further annotation.

    Args:
        posterior: a result.
        sure: smallest probability of the label of a finished item.

    Returns:
        A row for each item: ``task``, ``label``, ``probability``, ``annotations``, ``finished``.

    Raises:
        OptionError: for a probability outside (0, 1).
    """
    now = posterior.truth()[[posterior.item_column, "label", "probability"]]
    return now.assign(annotations=posterior.annotations_per_item(), finished=now["probability"] >= sure)


@dataclass(frozen=True)
class Curve:
    """What more annotations would bring.

    Attributes:
        table: a row for each number of further annotations: ``annotations``, ``cost``, ``accuracy`` expected of the labels
            chosen, with the ends of its interval ``low`` and ``high``.
        level: probability of the intervals.
    """

    table: pd.DataFrame
    level: float

    @arguments.checked(accuracy=arguments.number())
    def needed(self, accuracy: float) -> pd.DataFrame:
        """Return how many further annotations it takes to an accuracy: ``annotations`` and ``cost``, with a band.

        The mean curve gives ``annotations``, its upper end ``at_least`` and its lower end ``at_most``; NaN where the curve
        does not get there.
        """
        row: dict[str, float] = {}
        price = self.table["cost"].iloc[-1] / max(1, self.table["annotations"].iloc[-1])
        for name, column in (("annotations", "accuracy"), ("at_least", "high"), ("at_most", "low")):
            there = self.table[self.table[column] >= accuracy]["annotations"]
            row[name] = float(there.iloc[0]) if len(there) else np.nan
        return pd.DataFrame([row | {"cost": row["annotations"] * price}])


@arguments.checked(
    posterior=arguments.posterior,
    most=arguments.whole(1),
    by=arguments.choice(*WAYS, "random"),
    truth=arguments.anything,
    price=arguments.at_least_zero,
    steps=arguments.whole(1),
    replicates=arguments.whole(2),
    level=arguments.level,
    seed=arguments.seed,
)
def curve(
    posterior: Posterior,
    most: int | None = None,
    *,
    by: By | Literal["random"] = "entropy",
    truth: Any = None,
    price: float = 1.0,
    steps: int = 20,
    replicates: int = 100,
    level: float | None = None,
    seed: int = 0,
) -> Curve:
    """Return the accuracy to be expected after more annotations, by simulating them from the posterior.

    In each replicate the truth, the correlation and the workers' confusions are those of one draw. What is known of an item at
    the start is its evidence over the design effect; a further annotation is an independent one with probability ``w``, and else
    adds nothing, so that ``n`` of them bring what their effective number would. The band is over replicates: it holds what is not
    known of truth, crowd and correlation. The fit is not repeated: what further annotations teach about workers is left out.

    Args:
        posterior: a result.
        most: further annotations at most; twice the number of items where not given.
        by: which items are asked, see :func:`gains`, or ``"random"``.
        truth: true classes of some items, see :func:`crowdppl.criticism.coverage`: the curve then starts from the accuracy on
            these, and only its rise (on the logit scale) is foretold. With few annotations an item a model knows its workers badly
            and may take itself for far better, or worse, than it is; some fifty known items mend that.
        price: of one annotation.
        steps: points of the curve after the first, between which the choice of items is not renewed.
        replicates: simulations.
        level: probability of the band.
        seed: of the simulations.

    Raises:
        OptionError: for another ``by``, or numbers out of range.
    """
    level = default_level(level)
    N = len(posterior.items())
    most = 2 * N if most is None else most
    open_items = np.flatnonzero(posterior.known_truth() < 0)
    if len(open_items) == 0:
        raise OptionError("the truth of every item was known to the fit; there is nothing to ask")
    rng = np.random.default_rng(seed)
    sizes = np.diff(np.linspace(0, most, steps + 1).astype(int)).tolist()
    weights = posterior.annotations_per_worker() / posterior.annotations_per_worker().sum()
    mean = np.concatenate([confusion.mean(0) for _, confusion, _ in posterior.worker_blocks()])  # (J, K, K)
    crowd = np.einsum("j,jkl->kl", weights, mean)
    rhos, truths, judged = _all_rho(posterior), posterior.truth_draws(), posterior.annotations_per_item().astype(float)
    logs = np.log(np.maximum(posterior.probability_as_published(), np.finfo(float).tiny))
    confusion = posterior.tree["posterior"].to_dataset()["confusion"]
    per_chain, draws = confusion.sizes["draw"], confusion.sizes["chain"] * confusion.sizes["draw"]
    found = np.empty((replicates, steps + 1))
    for r, s in enumerate(_chosen(posterior, replicates, draws).tolist()):
        rho = rhos[s]
        answers = np.asarray(confusion[s // per_chain, s % per_chain].values)  # (J, K, K)
        tempered = logs / (1 + np.maximum(judged - 1, 0) * rho)[:, None]
        state = _State(truths[s].astype(int), judged.copy(), tempered, rho)
        found[r, 0] = state.accuracy()
        for step, size in enumerate(sizes, 1):
            if by == "random":
                asked = rng.choice(open_items, size, replace=size > len(open_items))
            else:
                gain = _expected(state.belief(), _worth(state.judged, rho), crowd, by)[open_items]
                best = np.argsort(-(gain + 1e-12 * rng.random(len(gain))), kind="stable")[:size]
                asked = np.resize(open_items[best], size)
            # Items asked several times within a step are answered in turn.
            for part in _rounds(asked):
                who = rng.choice(len(weights), len(part), p=weights)
                state.answer(part, answers[who, state.truth[part]], mean[who], rng)
            found[r, step] = state.accuracy()
    if truth is not None:
        known = codes(posterior, truth)
        right = (posterior.probability().argmax(1) == known)[known >= 0]
        start = rng.beta(0.5 + right.sum(), 0.5 + len(right) - right.sum(), replicates)
        logit = np.log((found + 0.5 / N) / (1 - found + 0.5 / N))
        found = 1 / (1 + np.exp(logit[:, :1] - logit - np.log(start / (1 - start))[:, None]))
    accuracy, low, high = interval(found, level)
    annotations = np.concatenate([[0], np.cumsum(sizes)])
    table = pd.DataFrame(
        {"annotations": annotations, "cost": price * annotations, "accuracy": accuracy, "low": low, "high": high}
    )
    return Curve(table, level)


@dataclass
class _State:
    """Simulated annotations: truth ``(N,)``, numbers of annotations ``(N,)``, log-probabilities of the classes ``(N, K)``."""

    truth: Array
    judged: Array
    logs: Array
    rho: float

    def accuracy(self) -> float:
        return float((self.logs.argmax(1) == self.truth).mean())

    def belief(self) -> Array:
        p = np.exp(self.logs - self.logs.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True)

    def answer(self, items: Array, rows: Array, mean: Array, rng: np.random.Generator) -> None:
        """Take one annotation of each item: workers answer by ``rows (n, K)``, and are known by ``mean (n, K, K)``."""
        new = rng.random(len(items)) < _worth(self.judged[items], self.rho)
        edges = rows.cumsum(1)
        label = (edges < rng.random(len(items))[:, None] * edges[:, -1:]).sum(1)
        told = np.log(np.maximum(mean[np.arange(len(items)), :, label], np.finfo(float).tiny))
        self.logs[items] += new[:, None] * told
        self.judged[items] += 1


# ---------------------------------------------------------------------- how it is worked out


def _gains(posterior: Posterior, by: str, workers: list[int | None]) -> Array:
    """Return gains for each of some workers, by place, or for a worker of the crowd: ``(W, N)``."""
    p = posterior.probability()
    if by == "entropy":  # the same, whoever is asked
        return np.tile(_entropy(p), (len(workers), 1))
    worth = _mean_worth(posterior.annotations_per_item(), _rho(posterior))
    channels = (
        (posterior.mean_confusion() if j is None else posterior.draws("confusion", worker=j)).mean(0) for j in workers
    )
    return np.stack([_expected(p, worth, channel, by) for channel in channels])


def _expected(p: Array, worth: Array, channel: Array, by: str) -> Array:
    """Return the expected gain of one annotation through ``channel (K, K)``, for beliefs ``(N, K)``, new with ``worth (N,)``."""
    if by == "entropy":
        return _entropy(p)
    out = np.empty(len(p))
    step = max(1, CELLS // p.shape[1] ** 2)
    for start in range(0, len(p), step):
        part = slice(start, start + step)
        joint = p[part, :, None] * _diluted(p[part], worth[part], channel)  # (n, truth, label)
        given = joint.sum(1)  # (n, label)
        if by == "accuracy":
            gain = joint.max(1).sum(1) - p[part].max(1)
        else:
            after = np.divide(joint, given[:, None], out=np.zeros_like(joint), where=given[:, None] > 0)
            gain = _entropy(p[part]) - (given * _entropy(after.swapaxes(1, 2))).sum(1)
        out[part] = gain
    return np.maximum(out, 0.0)  # rounding may leave a hair below


def _diluted(p: Array, worth: Array, channel: Array) -> Array:
    """Return ``p(label = l | truth = k)`` of the next annotation of each item, new or a copy: ``(N, K, K)``."""
    copied = (p @ channel)[:, None, :]
    return worth[:, None, None] * channel + (1 - worth)[:, None, None] * copied


def _worth(n: Array, rho: Any) -> Array:
    """Return ``w(n)``, what the next annotation adds to the effective number, from 0 to 1; 1 for the first."""
    return np.clip(effective(n + 1, rho) - effective(n, rho), 0.0, 1.0)


def _mean_worth(n: Array, rho: Array) -> Array:
    """Average :func:`_worth` over values of ``rho (R,)``: ``(N,)`` for ``n (N,)``."""
    values, where = np.unique(n, return_inverse=True)
    return np.asarray(_worth(values[:, None], rho).mean(-1)[where])


def _entropy(p: Array) -> Array:
    return -(p * np.log2(np.where(p > 0, p, 1.0))).sum(-1)


def _all_rho(posterior: Posterior) -> Array:
    """Return ``rho`` of every draw, ``(S,)``; zeros where annotations count as independent."""
    if "rho" in posterior.tree["posterior"]:
        return np.clip(posterior.draws("rho"), 0.0, 1.0)
    return np.zeros(len(posterior.draws("prevalence")))


def _rho(posterior: Posterior, count: int = RHOS) -> Array:
    """Return equally probable values of ``rho``, ascending ``(count,)``; they do not depend on the number of draws."""
    effect = posterior.info.get("rho")
    if effect is None:
        return np.zeros(count)
    effect = DesignEffect(**effect)
    if effect == DesignEffect():
        effect = DesignEffect(*GROWTH)
    return effect.quantiles((torch.arange(count, dtype=torch.float64) + 0.5) / count).numpy()


def _chosen(posterior: Posterior, count: int, draws: int) -> Array:
    """Return ``count`` draws, evenly spread by their weights: how well their ``rho`` agrees with ``GROWTH``."""
    weight = np.ones(draws)
    effect = posterior.info.get("rho")
    if effect is not None and (effect["mean"], effect["spread"], effect["known"]) == (*POPULATION, None):
        rho = np.clip(_all_rho(posterior), 1e-12, 1 - 1e-12)
        logit = np.log(rho / (1 - rho))
        log_weight = [-0.5 * ((logit - mean) / spread) ** 2 for mean, spread in (GROWTH, POPULATION)]
        weight = np.exp(log_weight[0] - log_weight[1])
    return np.searchsorted(weight.cumsum(), (np.arange(count) + 0.5) / count * weight.sum()).clip(max=draws - 1)


def _rounds(asked: Array) -> list[Array]:
    """Split items that may stand there more than once into rounds in which each stands once."""
    order = np.argsort(asked, kind="stable")
    ranked = asked[order]
    first = np.searchsorted(ranked, ranked)
    turn = np.arange(len(ranked)) - first
    return [ranked[turn == t] for t in range(int(turn.max()) + 1)] if len(asked) else []
