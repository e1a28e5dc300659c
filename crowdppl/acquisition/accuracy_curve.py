"""The accuracy that further annotations are expected to bring, by simulation from the posterior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import arguments
from crowdppl.acquisition.correlation import GROWTH, all_rho, told_by_truths, worth
from crowdppl.acquisition.value import CRITERIA, By, expected
from crowdppl.arguments import Level, NonNegativeFloat, PositiveInt, Seed, TwoOrMore, checked
from crowdppl.data import html
from crowdppl.errors import OptionError
from crowdppl.posterior.known_truth import truth_indices
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.workers import default_level, interval

Array = npt.NDArray[Any]


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

    @checked
    def needed(self, accuracy: Annotated[float, arguments.number()]) -> pd.DataFrame:
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


@checked
def curve(
    posterior: Posterior,
    most: PositiveInt | None = None,
    *,
    by: Annotated[By | Literal["random"], arguments.choice(*CRITERIA, "random")] = "entropy",
    truth: Any = None,
    price: NonNegativeFloat = 1.0,
    steps: PositiveInt = 20,
    replicates: TwoOrMore = 100,
    level: Level | None = None,
    seed: Seed = 0,
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
    rhos, truths, counts = all_rho(posterior), posterior.truth_draws(), posterior.annotations_per_item().astype(float)
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
            chosen = _next_items(state, open_items, size, crowd, by, rng)
            # Items chosen several times within a step are annotated in turn.
            for part in _rounds(chosen):
                who = rng.choice(len(weights), len(part), p=weights)
                state.annotate(part, theta[who, state.truth[part]], mean[who], rng)
            accuracies[r, step] = state.accuracy()
    if truth is not None:
        accuracies = _from_known(accuracies, posterior, truth, rng)
    accuracy, low, high = interval(accuracies, level)
    annotations = np.concatenate([[0], np.cumsum(sizes)])
    table = pd.DataFrame(
        {"annotations": annotations, "cost": price * annotations, "accuracy": accuracy, "low": low, "high": high}
    )
    return Curve(table, level)


def _next_items(
    state: _State, open_items: Array, size: int, crowd: Array, by: By | Literal["random"], rng: np.random.Generator
) -> Array:
    """Choose the items of a step: at random, or those of which another annotation says most, ties broken at random."""
    if by == "random":
        return rng.choice(open_items, size, replace=size > len(open_items))
    gain = expected(state.belief(), worth(state.counts, state.rho), crowd, by)[open_items]
    best = np.argsort(-(gain + 1e-12 * rng.random(len(gain))), kind="stable")[:size]
    return np.resize(open_items[best], size)


def _from_known(accuracies: Array, posterior: Posterior, truth: Any, rng: np.random.Generator) -> Array:
    """Return accuracies ``(R, steps + 1)`` that start from that on items of known truth and rise as much on the logit scale."""
    N = len(posterior.items())
    known = truth_indices(posterior, truth)
    correct = (posterior.probability().argmax(1) == known)[known >= 0]
    start = rng.beta(0.5 + correct.sum(), 0.5 + len(correct) - correct.sum(), len(accuracies))
    logit = np.log((accuracies + 0.5 / N) / (1 - accuracies + 0.5 / N))
    return np.asarray(1 / (1 + np.exp(logit[:, :1] - logit - np.log(start / (1 - start))[:, None])))


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
        new = rng.random(len(items)) < worth(self.counts[items], self.rho)
        edges = rows.cumsum(1)
        label = (edges < rng.random(len(items))[:, None] * edges[:, -1:]).sum(1)
        log_likelihood = np.log(np.maximum(mean[np.arange(len(items)), :, label], np.finfo(float).tiny))
        self.logs[items] += new[:, None] * log_likelihood
        self.counts[items] += 1


def _class_logs(posterior: Posterior) -> Array:
    """Return logarithms of the weights of the classes in every draw, ``(S, K)``; zeros without known true labels."""
    if posterior.calibrated and "class_weight" in posterior.tree["calibrated"].data_vars:
        return np.log(posterior.draws("class_weight"))
    count = posterior.variable("confusion").sizes
    return np.zeros((count["chain"] * count["draw"], len(posterior.labels)))


def _chosen(posterior: Posterior, count: int, draws: int) -> Array:
    """Select ``count`` draws by systematic resampling, so that their ``rho`` has the distribution ``GROWTH``.

    The importance weights are the ratio of the density ``GROWTH`` of ``logit rho`` to that of the draws, ``POPULATION`` or what
    known true labels made of it. A fit with a ``rho`` of its own has equal weights.
    """
    from crowdppl.inference.dependence.design_effect import POPULATION, DesignEffect  # here: it imports torch

    weight = np.ones(draws)
    truths = told_by_truths(posterior)
    if DesignEffect.of_json(posterior.info.get("rho")) == DesignEffect():
        drawn = POPULATION if truths is None else (truths["mean"], truths["spread"])
        rho = np.clip(all_rho(posterior), 1e-12, 1 - 1e-12)
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
