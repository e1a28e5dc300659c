"""What to have labelled next: which items, by whom, and how many annotations are needed.

The value of one more annotation of an item is what it is expected to add to the knowledge of its true label. This is less than
for an independent annotation: with correlation ``rho`` between the annotations of an item, ``n`` of them are worth
``n / (1 + (n - 1) rho)`` independent ones (see :mod:`crowdppl.inference.design_effect`), so that the next one adds

    w(n) = (n + 1) / (1 + n rho) - n / (1 + (n - 1) rho)

This is taken as the probability that the next annotation is new, drawn from the worker's confusion matrix ``theta``, rather
than a copy of current belief ``p``. Which of the two it is remains unobserved, so its label has the mixture distribution
``w theta[k, l] + (1 - w) sum_k p_k theta[k, l]``. Probabilities stay coherent: the expected belief after the annotation equals
the belief before it.

``rho`` is not known. Intervals of truths and workers average over a wide distribution of it (``POPULATION``), which also covers
other misfits of a model. The value of another annotation depends on the correlation alone, so a narrower distribution is used
here (``GROWTH``), which matches the growth of accuracy with the number of annotations on public data sets. :func:`gains` and
:func:`redundancy` average over its quantiles; :func:`curve` selects posterior draws with importance weights, the ratio of the two
densities. A fit with a ``rho`` of its own keeps it in all of them. Where known true labels say what ``rho`` is on average of the
crowd, :func:`redundancy` reports that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import arguments
from crowdppl.data import html
from crowdppl.errors import OptionError
from crowdppl.posterior.known_truth import truth_indices
from crowdppl.posterior.numbers import NumericPosterior
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.workers import default_level, interval

if TYPE_CHECKING:
    from crowdppl.inference.design_effect import DesignEffect

__all__ = [
    "Curve",
    "curve",
    "effective",
    "finished",
    "gains",
    "next_items",
    "next_known",
    "next_pairs",
    "redundancy",
    "redundancy_source",
]

Array = npt.NDArray[Any]
By = Literal["entropy", "information", "accuracy"]
CRITERIA = ("entropy", "information", "accuracy")

# Mean and standard deviation of logit rho. With rho = .1 the growth of accuracy from two to six annotations per item is predicted
# without bias on average over twelve public sets; single sets need .03 to .3 (docs/benchmarks/replay.md).
GROWTH = (-2.2, 1.2)
# What the entropy of an item, in bits, is raised by where items are drawn by it: certain ones are seen as well.
FLOOR = 0.02
# Number of values of rho that gains are averaged over.
RHOS = 50
# Items x labels x classes in memory at a time.
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

    It is that of this crowd where the fit had known true labels or a ``rho`` of its own, else that of an average public crowd:
    :func:`redundancy_source` says which.

    Args:
        posterior: a result.
        most: the largest ``n``.
        level: probability of the intervals, over the draws of ``rho``.

    Returns:
        A row for each ``n`` from 1: ``annotations``, ``independent``, ``low``, ``high``. All are equal to ``n`` for a result that
        counts annotations as independent.
    """
    from crowdppl.inference.design_effect import DesignEffect  # here: it imports torch

    n = np.arange(1, most + 1)
    truths = _truths(posterior)
    crowd = None if truths is None else DesignEffect(truths["crowd_mean"], truths["crowd_spread"])
    rho = _rho(posterior, 1000) if crowd is None else _quantiles(crowd, 1000)
    mean, low, high = interval(effective(n, rho[:, None]), level)
    return pd.DataFrame({"annotations": n, "independent": mean, "low": low, "high": high})


@arguments.checked(posterior=arguments.posterior)
def redundancy_source(posterior: Posterior) -> str:
    """Return where the effective numbers of :func:`redundancy` are from, in a few words."""
    from crowdppl.inference.design_effect import DesignEffect  # here: it imports torch

    effect, truths = DesignEffect.of_json(posterior.info.get("rho")), _truths(posterior)
    if effect is None:
        return "annotations of one item count as independent"
    if truths is not None:
        count = truths["items"]
        return f"estimated from {count:,} known true label{'' if count == 1 else 's'} of this crowd"
    return "average of public crowds, not a finding about this one" if effect.public else "rho as given"


@arguments.checked(posterior=arguments.posterior, by=arguments.choice(*CRITERIA), worker=arguments.identifier)
def gains(posterior: Posterior, *, by: By = "entropy", worker: Any = None) -> Array:
    """Return the value of one more annotation of each item: ``(N,)``.

    Args:
        posterior: a result.
        by: ``"entropy"``, the current entropy of the true label, in bits: prefers the least certain items, and saves most in
            replays of real annotations (docs/benchmarks/replay.md); ``"information"``, the expected decrease of the entropy, in
            bits, which depends on the worker; ``"accuracy"``, the expected increase of the probability of the most probable
            class, which is 0 if one annotation cannot change that class.
        worker: who would annotate. Defaults to a random worker of the crowd, weighted by numbers of annotations.

    Raises:
        OptionError: for an unknown ``by``.
        DataError: for an unknown worker.
    """
    who = None if worker is None else posterior.worker_index(worker)
    return _gains(posterior, by, [who])[0]


@arguments.checked(
    posterior=arguments.any_posterior, n=arguments.whole(1), by=arguments.choice(*CRITERIA), worker=arguments.identifier
)
def next_items(posterior: Posterior, n: int = 10, *, by: By = "entropy", worker: Any = None) -> pd.DataFrame:
    """Return the items for which one more annotation is most valuable, best first.

    Args:
        posterior: a result.
        n: number of items.
        by: see :func:`gains`.
        worker: likewise.

    Returns:
        A row for each item: ``task``, current ``label`` and ``probability``, ``annotations`` so far, ``gain``. Items with a known
        true label are left out.

    Of a result whose labels are numbers: ``value``, ``sd`` and ``sd_after``, the standard deviation that a further label by the
    typical worker is expected to leave; ``gain`` is by how much it shrinks.

    Raises:
        OptionError: for fewer than one item.
    """
    if isinstance(posterior, NumericPosterior):
        if by != "entropy" or worker is not None:
            raise OptionError("by= and worker= are about classes, and labels are numbers; leave them out")
        return _next_numbers(posterior, n)
    gain = gains(posterior, by=by, worker=worker)
    gain[posterior.known_truth() >= 0] = -np.inf
    order = np.argsort(-gain, kind="stable")[:n]
    order = order[gain[order] > -np.inf]
    now = posterior.truth().iloc[order]
    table = now[[posterior.item_column, "label", "probability"]].reset_index(drop=True)
    return table.assign(annotations=posterior.annotations_per_item()[order], gain=gain[order])


@arguments.checked(posterior=arguments.posterior, n=arguments.whole(1), seed=arguments.seed)
def next_known(posterior: Posterior, n: int = 30, *, seed: int = 0) -> pd.DataFrame:
    """Return items whose true label is worth finding out, for a fit that is given it (``truth=``).

    They are drawn at random without replacement, with probabilities in proportion to their entropy and a little more. Uncertain
    items correct the classes most, and random ones cannot mislead: the most uncertain ones alone are better for crowds and
    worse for some panels of language models (docs/benchmarks/known-items.md).

    Args:
        posterior: a result.
        n: number of items; thirty tell whether a crowd prefers a class.
        seed: of the draw.

    Returns:
        A row for each item: ``task``, current ``label`` and ``probability``, ``annotations`` so far. Items with a known true
        label are left out.

    Raises:
        OptionError: for fewer than one item, or if the true label of every item is known.
    """
    unknown = np.flatnonzero(posterior.known_truth() < 0)
    if not len(unknown):
        raise OptionError("the true label of every item was known to the fit; there is none to find out")
    weight = _entropy(posterior.probability()[unknown].astype(float)) + FLOOR
    drawn = np.random.default_rng(seed).choice(
        len(unknown), min(n, len(unknown)), replace=False, p=weight / weight.sum()
    )
    chosen = unknown[drawn]
    table = posterior.truth().iloc[chosen][[posterior.item_column, "label", "probability"]].reset_index(drop=True)
    return table.assign(annotations=posterior.annotations_per_item()[chosen])


@arguments.checked(
    posterior=arguments.posterior,
    n=arguments.whole(1),
    by=arguments.choice(*CRITERIA),
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
    """Return the most valuable pairs of an item and a worker; each item once, and no worker twice for the same item.

    Args:
        posterior: a result.
        n: number of pairs.
        by: see :func:`gains`.
        workers: who is available. Defaults to all workers.
        each: maximum number of items for one worker. Defaults to ``n`` divided by the number of workers, plus one.

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
    given = np.isin(by_worker, list(place))
    table[[place[j] for j in by_worker[given]], item[given]] = -np.inf
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
    """Apply a stopping rule: return which items need no further annotation.

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


@dataclass(frozen=True, repr=False)
class Curve:
    """Predicted accuracy after further annotations.

    Attributes:
        table: a row for each number of further annotations: ``annotations``, ``cost``, expected ``accuracy`` of the chosen
            labels, with the ends of its interval ``low`` and ``high``.
        level: probability of the intervals.
    """

    table: pd.DataFrame
    level: float

    def __str__(self) -> str:
        return self.table.to_string(index=False, float_format=lambda x: f"{x:.3f}")

    def __repr__(self) -> str:
        return f"Curve(intervals of {self.level:.0%})\n{self}"

    def _repr_html_(self) -> str:
        heading = f"Expected accuracy after further annotations (intervals of {self.level:.0%})"
        return html.view(heading, html.table(self.table, len(self.table)))

    @arguments.checked(accuracy=arguments.number())
    def needed(self, accuracy: float) -> pd.DataFrame:
        """Return the number of further annotations needed for an accuracy: ``annotations`` and ``cost``, with a band.

        The mean curve gives ``annotations``, its upper end ``at_least`` and its lower end ``at_most``; NaN if the curve does not
        reach the accuracy.
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
    by=arguments.choice(*CRITERIA, "random"),
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
    """Return the expected accuracy after further annotations, by simulating them from the posterior.

    Each replicate takes truths, correlation and confusion matrices from one posterior draw. Initial knowledge of an item is its
    log-likelihood divided by the design effect. A further annotation is independent with probability ``w`` and otherwise adds
    nothing, so that ``n`` of them are worth their effective number. The band is over replicates: it includes uncertainty about
    truth, crowd and correlation. The fit is not repeated, so that learning more about workers is not included.

    Args:
        posterior: a result.
        most: maximum number of further annotations. Defaults to twice the number of items.
        by: which items are annotated, see :func:`gains`, or ``"random"``.
        truth: true classes of some items, see :func:`crowdppl.criticism.coverage`. The curve then starts from the accuracy on
            these items, and only its increase (on the logit scale) is predicted. With few annotations per item a model knows
            little of its workers and may over- or underestimate its accuracy by far; about fifty known items correct this.
        price: of one annotation.
        steps: number of points of the curve after the first. Items are chosen anew at each of them.
        replicates: number of simulations.
        level: probability of the band.
        seed: of the simulations.

    Raises:
        OptionError: for an unknown ``by``, numbers out of range, or a result in which every true label was known.
    """
    level = default_level(level)
    N = len(posterior.items())
    most = 2 * N if most is None else most
    open_items = np.flatnonzero(posterior.known_truth() < 0)
    if len(open_items) == 0:
        raise OptionError("the true label of every item was known to the fit; there is nothing to annotate")
    rng = np.random.default_rng(seed)
    sizes = np.diff(np.linspace(0, most, steps + 1).astype(int)).tolist()
    weights = posterior.annotations_per_worker() / posterior.annotations_per_worker().sum()
    mean = np.concatenate([confusion.mean(0) for _, confusion, _ in posterior.worker_blocks()])  # (J, K, K)
    crowd = np.einsum("j,jkl->kl", weights, mean)
    rhos, truths, counts = _all_rho(posterior), posterior.truth_draws(), posterior.annotations_per_item().astype(float)
    logs = np.log(np.maximum(posterior.probability_as_published(), np.finfo(float).tiny))
    class_logs = _class_logs(posterior)
    confusion = posterior.variable("confusion")
    per_chain, draws = confusion.sizes["draw"], confusion.sizes["chain"] * confusion.sizes["draw"]
    accuracies = np.empty((replicates, steps + 1))
    for r, s in enumerate(_chosen(posterior, replicates, draws).tolist()):
        rho = rhos[s]
        theta = np.asarray(confusion[s // per_chain, s % per_chain].values)  # (J, K, K)
        tempered = logs / (1 + np.maximum(counts - 1, 0) * rho)[:, None] + class_logs[s]
        state = _State(truths[s].astype(int), counts.copy(), tempered, rho)
        accuracies[r, 0] = state.accuracy()
        for step, size in enumerate(sizes, 1):
            if by == "random":
                chosen = rng.choice(open_items, size, replace=size > len(open_items))
            else:
                gain = _expected(state.belief(), _worth(state.counts, rho), crowd, by)[open_items]
                best = np.argsort(-(gain + 1e-12 * rng.random(len(gain))), kind="stable")[:size]
                chosen = np.resize(open_items[best], size)
            # Items chosen several times within a step are annotated in turn.
            for part in _rounds(chosen):
                who = rng.choice(len(weights), len(part), p=weights)
                state.annotate(part, theta[who, state.truth[part]], mean[who], rng)
            accuracies[r, step] = state.accuracy()
    if truth is not None:
        known = truth_indices(posterior, truth)
        correct = (posterior.probability().argmax(1) == known)[known >= 0]
        start = rng.beta(0.5 + correct.sum(), 0.5 + len(correct) - correct.sum(), replicates)
        logit = np.log((accuracies + 0.5 / N) / (1 - accuracies + 0.5 / N))
        accuracies = 1 / (1 + np.exp(logit[:, :1] - logit - np.log(start / (1 - start))[:, None]))
    accuracy, low, high = interval(accuracies, level)
    annotations = np.concatenate([[0], np.cumsum(sizes)])
    table = pd.DataFrame(
        {"annotations": annotations, "cost": price * annotations, "accuracy": accuracy, "low": low, "high": high}
    )
    return Curve(table, level)


@dataclass
class _State:
    """Simulated annotations: truth ``(N,)``, numbers of annotations ``(N,)``, log-probabilities of the classes ``(N, K)``."""

    truth: Array
    counts: Array
    logs: Array
    rho: float

    def accuracy(self) -> float:
        return float((self.logs.argmax(1) == self.truth).mean())

    def belief(self) -> Array:
        p = np.exp(self.logs - self.logs.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True)

    def annotate(self, items: Array, rows: Array, mean: Array, rng: np.random.Generator) -> None:
        """Simulate one annotation of each item, drawn from ``rows (n, K)`` and interpreted by ``mean (n, K, K)``."""
        new = rng.random(len(items)) < _worth(self.counts[items], self.rho)
        edges = rows.cumsum(1)
        label = (edges < rng.random(len(items))[:, None] * edges[:, -1:]).sum(1)
        log_likelihood = np.log(np.maximum(mean[np.arange(len(items)), :, label], np.finfo(float).tiny))
        self.logs[items] += new[:, None] * log_likelihood
        self.counts[items] += 1


# ---------------------------------------------------------------------- computation


def _next_numbers(posterior: NumericPosterior, n: int) -> pd.DataFrame:
    """Return the items whose number a further label tells most of, see :func:`next_items`."""
    truth = posterior.truth()
    # What all items have in common, such as the crowd's bias, no label of one item tells.
    sd = posterior.tree["truth"][f"{posterior.reading}_relative_sd"].to_numpy()
    slope, noise = posterior.draws("slope"), posterior.draws("sd")
    information = np.median((slope**2 / noise**2).mean(0))
    after = (sd**-2 + information) ** -0.5
    gain = np.where(truth["known"], -np.inf, sd - after)
    order = np.argsort(-gain, kind="stable")[:n]
    order = order[gain[order] > -np.inf]
    table = truth.iloc[order][[posterior.item_column, "value"]].reset_index(drop=True)
    annotations = truth["annotations"].to_numpy()[order]
    return table.assign(sd=sd[order], sd_after=after[order], annotations=annotations, gain=gain[order])


def _gains(posterior: Posterior, by: str, workers: list[int | None]) -> Array:
    """Return gains ``(W, N)`` for workers by code; ``None`` stands for a random worker of the crowd."""
    p = posterior.probability()
    if by == "entropy":  # the same for every worker
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
    return np.maximum(out, 0.0)  # rounding may leave values slightly below 0


def _diluted(p: Array, worth: Array, channel: Array) -> Array:
    """Return ``p(label = l | truth = k)`` of the next annotation of each item, a mixture of new and copied: ``(N, K, K)``."""
    copied = (p @ channel)[:, None, :]
    return worth[:, None, None] * channel + (1 - worth)[:, None, None] * copied


def _worth(n: Array, rho: Any) -> Array:
    """Return ``w(n)``, the increase of the effective number by the next annotation, from 0 to 1; 1 for the first."""
    return np.clip(effective(n + 1, rho) - effective(n, rho), 0.0, 1.0)


def _mean_worth(n: Array, rho: Array) -> Array:
    """Average :func:`_worth` over values of ``rho (R,)``: ``(N,)`` for ``n (N,)``."""
    values, where = np.unique(n, return_inverse=True)
    return np.asarray(_worth(values[:, None], rho).mean(-1)[where])


def _entropy(p: Array) -> Array:
    return -(p * np.log2(np.where(p > 0, p, 1.0))).sum(-1)


def _all_rho(posterior: Posterior) -> Array:
    """Return ``rho`` of every draw, ``(S,)``; zeros if annotations count as independent."""
    if posterior.calibrated:
        return np.clip(posterior.draws("rho"), 0.0, 1.0)
    return np.zeros(len(posterior.draws("prevalence")))


def _class_logs(posterior: Posterior) -> Array:
    """Return logarithms of the weights of the classes in every draw, ``(S, K)``; zeros without known true labels."""
    if posterior.calibrated and "class_weight" in posterior.tree["calibrated"].data_vars:
        return np.log(posterior.draws("class_weight"))
    count = posterior.variable("confusion").sizes
    return np.zeros((count["chain"] * count["draw"], len(posterior.labels)))


def _rho(posterior: Posterior, count: int = RHOS) -> Array:
    """Return quantiles of the distribution of ``rho`` (``GROWTH``, unless the fit has its own), ascending: ``(count,)``."""
    from crowdppl.inference.design_effect import DesignEffect  # here: it imports torch

    effect, truths = DesignEffect.of_json(posterior.info.get("rho")), _truths(posterior)
    if effect is None:
        return np.zeros(count)
    if effect == DesignEffect():
        effect = DesignEffect(*GROWTH)
    elif truths is not None:
        effect = DesignEffect(truths["mean"], truths["spread"])
    return _quantiles(effect, count)


def _quantiles(effect: DesignEffect, count: int) -> Array:
    import torch  # here: slow to import

    return effect.quantiles((torch.arange(count, dtype=torch.float64) + 0.5) / count).numpy()


def _truths(posterior: Posterior) -> dict[str, Any] | None:
    """Return what known true labels said of ``rho`` in the fit, if anything."""
    return (posterior.info.get("rho") or {}).get("truths")


def _chosen(posterior: Posterior, count: int, draws: int) -> Array:
    """Select ``count`` draws by systematic resampling, so that their ``rho`` has the distribution ``GROWTH``.

    The importance weights are the ratio of the density ``GROWTH`` of ``logit rho`` to that of the draws, ``POPULATION`` or what
    known true labels made of it. A fit with a ``rho`` of its own has equal weights.
    """
    from crowdppl.inference.design_effect import POPULATION, DesignEffect  # here: it imports torch

    weight = np.ones(draws)
    truths = _truths(posterior)
    if DesignEffect.of_json(posterior.info.get("rho")) == DesignEffect():
        drawn = POPULATION if truths is None else (truths["mean"], truths["spread"])
        rho = np.clip(_all_rho(posterior), 1e-12, 1 - 1e-12)
        logit = np.log(rho / (1 - rho))
        log_weight = [-0.5 * ((logit - mean) / spread) ** 2 for mean, spread in (GROWTH, drawn)]
        weight = np.exp(log_weight[0] - log_weight[1])
    return np.searchsorted(weight.cumsum(), (np.arange(count) + 0.5) / count * weight.sum()).clip(max=draws - 1)


def _rounds(chosen: Array) -> list[Array]:
    """Split items that may be repeated into rounds without repetition."""
    order = np.argsort(chosen, kind="stable")
    ranked = chosen[order]
    first = np.searchsorted(ranked, ranked)
    turn = np.arange(len(ranked)) - first
    return [ranked[turn == t] for t in range(int(turn.max()) + 1)] if len(chosen) else []
