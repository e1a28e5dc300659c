"""What the verdicts on an item say about its true label: the coefficients of a log-linear model, in blocks.

The posterior of an item's true label given all verdicts on it is log-linear in the verdicts for every model in which judges
are independent given the true label: each verdict adds its log-likelihood ratio (Dawid and Skene 1979). Judges are not
independent, so that the weights of their verdicts are free here (:mod:`crowdppl.judges.model.calibration`).

The logit of class ``k`` of item ``i`` is ``sum_p features[i, k, p] theta[p]``. The features stand in blocks, each with a prior of
its own. With ``v_ijl`` the share of the verdicts of judge ``j`` on item ``i`` that are label ``l``, minus ``1 / K``:

==================  ===========================================================================================
block               features
==================  ===========================================================================================
``prevalence``      one for each class
``panel``           mean of ``v_ijk`` over judges: the weight of a unanimous panel
``families``        mean over families of the mean within each: what a family adds does not grow with its size
``consensus``       the same, weighted by how well each judge agrees with the others
``judge``           ``v_ijk`` of each judge: how much the verdicts of the judge count beyond the panel's
``family``          the same of the families of judges: deviations that they share
``confusion``       mean share of label ``l``, for each class ``k``, with three to eight classes
``association``     with more: how much more often judges say ``k`` where another says ``l``, mean over the verdicts ``l``
``own_class``       with more: mean share of label ``k``, one for each class: labels may be more or less reliable
``system_rate``     log share of class ``k`` in all verdicts on the system, relative to all systems, over the slope of verdicts
                    on true labels: how common the class is there
``question_rate``   log share of class ``k`` in the verdicts on other systems' answers to the question, relative to all: how hard
                    the question is
``system``          one for each system and class: judges that are too kind or too strict to this system
``score``           numeric scores of each judge, as ranks; ``score_consensus`` their weighted mean
``length``          log length of the answer, or of its ratio to the opponent's: one for each class, see below
``position``        two answers: whether the first answer shown was chosen, where a judge saw one order only
``abstained``       whether a judge abstained, by class; likewise ``unparseable``
==================  ===========================================================================================

The scores of a judge take the place of its labels, which are less informative.

A table of confusion of many classes has too many coefficients for some hundred human labels. Which classes are confused is seen
in the verdicts as well: if judges often say ``k`` where others say ``l``, verdicts ``l`` speak for ``k``. How much, is the one
coefficient of ``association``.

If a judge passes long answers more often, ``logit p(pass | truth, length) = a_truth + b length``, both of its verdicts say less
for passing the longer the answer is: to first order in ``b``, each log-likelihood ratio falls by ``b length (p(pass | passes) -
p(pass | fails))``, whatever the verdict is. One coefficient of the length therefore corrects for all judges; it also holds how
often long answers really pass.

Where items are pairs of answers of two systems, ``strength`` has that of each system, which enters as in the model of Davidson
(1970): half the difference of the two strengths for the class in which the first system is better, minus that for the
other. ``system_rate`` is the same with the strengths by the verdicts. How common ties are is ``prevalence``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from crowdppl.judges.coding.lengths import contrast
from crowdppl.judges.coding.states import State
from crowdppl.judges.model import pairwise
from crowdppl.judges.model.agreement import association, attenuation, consensus_weights, covariance
from crowdppl.judges.model.questions import mean_shares, question_rates
from crowdppl.judges.verdicts import Verdicts

Array = npt.NDArray[Any]
# Largest number of classes with a table of confusion: its coefficients grow with the square.
CLASSES = 8
# Scores take the place of a judge's labels where they are this share of them at least.
COMPLETE = 0.9
# Share of the items of a judge that were seen in one order only, above which the order is a feature.
ONE_ORDER = 0.1
# Items whose features are held at a time.
PIECE = 2048


@dataclass(frozen=True)
class Block:
    """Coefficients with a prior in common.

    Attributes:
        name: of the block.
        size: number of coefficients.
    """

    name: str
    size: int


@dataclass(frozen=True, eq=False, repr=False)
class Features:
    """The verdicts on ``N`` items by ``J`` judges, in the form in which they enter the logits of ``K`` classes.

    Attributes:
        votes: share of a judge's verdicts that are each label, minus ``1 / K``; 0 without verdicts. ``(N, J, K)``.
        consensus: weight of each judge in the consensus, mean of absolute values 1, ``(J,)``.
        family: family of each judge, ``(J,)``.
        families: number of families.
        system: system of each item, ``(N,)``; -1 for none.
        opponent: second system of each item, ``(N,)``; -1 for none.
        systems: number of systems.
        outcome: for pairs of answers, what each class says: 1, -1 or 0 for a tie, ``(K,)``; ``None`` for single answers.
        system_rate: log share of each class in the verdicts on each system, relative to all systems, over
            :func:`crowdppl.judges.model.agreement.attenuation`, ``(S, K)``; for pairs the strength of each system by the
            verdicts, ``(S, 1)``.
        question_rate: log share of each class in the verdicts on other systems' answers to the question, relative to all, see
            :func:`crowdppl.judges.model.questions.question_rates`; ``(N, K)``, or ``(N, 0)`` where it is not known.
        association: how much more often judges say class ``k`` where another says ``l``, ``(K, K)``, see
            :func:`crowdppl.judges.model.agreement.association`; ``(0, 0)`` with few classes.
        scored: whether the scores of a judge take the place of its labels, ``(J,)``.
        score: scores as centred ranks, ``(N, J')``; 0 without a score. ``J'`` is the number of judges with scores.
        score_consensus: weight of each of them in the consensus of scores, ``(J',)``.
        slope: what a unit of score adds to the logit of each class, ``(K,)``.
        length: standardised log length of each answer, or of the ratio of the lengths of two answers, 0 where not known,
            ``(N, 1)``; ``(N, 0)`` without lengths that vary.
        position: sum over a judge's verdicts on the item of +1 where the first class was shown first and -1 where the second
            was, for judges who mostly saw one order, ``(N, J'')``.
        states: name of a state of missing verdicts, and share of a judge's requests on the item that ended in it, for the judges
            with such a state.
    """

    votes: Array
    consensus: Array
    family: Array
    families: int
    system: Array
    opponent: Array
    systems: int
    outcome: Array | None
    system_rate: Array
    question_rate: Array
    association: Array
    scored: Array
    score: Array
    score_consensus: Array
    slope: Array
    length: Array
    position: Array
    states: dict[str, Array]

    def __repr__(self) -> str:
        N, J, K = self.shape
        return f"Features({N:,} items, {J:,} judges, {K:,} classes)"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return ``N, J, K``."""
        N, J, K = self.votes.shape
        return N, J, K

    @property
    def share_of_family(self) -> Array:
        """Return what a judge counts in the mean over families of the means within them, ``(J,)``."""
        size = np.bincount(self.family, minlength=self.families)
        return np.asarray(1 / ((size > 0).sum() * size[self.family]))

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Return the blocks in the order of the coefficients."""
        return tuple(Block(name, part.shape[2]) for name, part in self._parts(np.zeros(0, dtype=np.int64)).items())

    def rows(self, index: Array) -> Array:
        """Return the features of some items, ``(n, K, P)``."""
        return np.concatenate(list(self._parts(index).values()), 2)

    def _parts(self, index: Array) -> dict[str, Array]:
        """Return the features of some items by block, ``(n, K, size)`` each."""
        _, J, K = self.shape
        votes = np.where(self.scored, 0.0, self.votes[index].transpose(0, 2, 1))  # (n, K, J)
        parts = {
            "prevalence": np.broadcast_to(np.eye(K), (len(index), K, K)),
            "panel": votes.mean(2, keepdims=True),
            "families": (votes @ self.share_of_family)[:, :, None],
            "consensus": (votes @ self.consensus / J)[:, :, None],
            "judge": votes,
        }
        if 1 < self.families < J:
            parts["family"] = votes @ (self.family[:, None] == np.arange(self.families))
        if 2 < K <= CLASSES:
            parts["confusion"] = _by_class(votes.mean(2), K)
        if len(self.association):
            mean = votes.mean(2)
            parts["association"] = (mean @ self.association)[:, :, None]
            parts["own_class"] = mean[:, :, None] * np.eye(K)
        if self.outcome is not None:
            half = self.outcome[:, None] / 2
            first, second = (_one_hot(codes[index], self.systems) for codes in (self.system, self.opponent))
            between = first - second  # (n, S)
            parts |= {"system_rate": (between @ self.system_rate)[:, None] * half, "strength": between[:, None] * half}
        elif self.systems > 1:
            of = _one_hot(self.system[index], self.systems)
            parts |= {"system_rate": (of @ self.system_rate)[:, :, None], "system": _by_class(of, K)}
            if self.question_rate.shape[1]:
                parts["question_rate"] = self.question_rate[index][:, :, None]
        if self.score.shape[1]:
            score = self.score[index][:, None, :] * self.slope[:, None]  # (n, K, J')
            consensus = score @ self.score_consensus / score.shape[2]
            parts |= {"score_consensus": consensus[:, :, None], "score": score}
        if self.length.shape[1]:
            long = self.length[index]
            parts["length"] = (
                _by_class(long, K) if self.outcome is None else long[:, None, :] * self.outcome[:, None] / 2
            )
        if self.position.shape[1]:
            sides = np.array([0.5, -0.5, *[0.0] * (K - 2)]) if self.outcome is None else self.outcome / 2
            parts["position"] = self.position[index][:, None, :] * sides[:, None]
        for state, shares in self.states.items():
            own = shares[index]
            parts[state] = _by_class(np.concatenate([own.mean(1, keepdims=True), own], 1), K)
        return parts

    def pieces(self) -> Iterator[tuple[Array, Array]]:
        """Yield positions of items and their features, some at a time."""
        N = self.shape[0]
        for first in range(0, N, PIECE):
            index = np.arange(first, min(first + PIECE, N))
            yield index, self.rows(index)


def _one_hot(codes: Array, count: int) -> Array:
    """Return indicators of codes ``(n,)``, none for -1, ``(n, count)``."""
    return (codes[:, None] == np.arange(count)).astype(float)


def _by_class(values: Array, classes: int) -> Array:
    """Return features with a coefficient of their own in each class: ``(n, m)`` to ``(n, K, K m)``."""
    n, m = values.shape
    return np.einsum("kc,nm->nkcm", np.eye(classes), values).reshape(n, classes, classes * m)


def by_judge(verdicts: Verdicts, rows: Array, values: Array | None = None) -> Array:
    """Return the number of some rows of the verdicts by item and judge, or the sum of their values, ``(N, J)``.

    Args:
        verdicts: the verdicts.
        rows: which rows, a mask ``(n,)``.
        values: of all rows, ``(n,)``.
    """
    N, J = len(verdicts.items), len(verdicts.judges)
    cell = verdicts.item[rows] * J + verdicts.judge[rows]
    return np.bincount(cell, None if values is None else values[rows], N * J).reshape(N, J)


def features_of(verdicts: Verdicts, outcome: Array | None = None, value: Array | None = None) -> Features:
    """Return what the verdicts say about each item.

    Args:
        verdicts: the verdicts.
        outcome: what each class says of a pair of answers, ``(K,)``; ``None`` for single answers.
        value: what each class adds to a rate, ``(K,)``: of two classes, high scores speak for the one of the higher value. By
            default, and with more classes, they speak for the last class.
    """
    N, J, K = len(verdicts.items), len(verdicts.judges), len(verdicts.labels)
    given = verdicts.label >= 0
    cell = verdicts.item * J + verdicts.judge
    counts = np.bincount(cell[given] * K + verdicts.label[given], minlength=N * J * K).reshape(N, J, K)
    number = counts.sum(2, keepdims=True)
    shares = counts / np.maximum(number, 1)
    votes = np.where(number > 0, shares - 1 / K, 0.0).astype(np.float32)
    rates = counts.sum(0) / np.maximum(number.sum(0), 1)  # (J, K)
    asked = number[:, :, 0] > 0
    around = np.where(number > 0, shares - rates, 0.0)
    scored, score, score_consensus, slope = _scores(verdicts, outcome, value)
    return Features(
        votes=votes,
        consensus=consensus_weights(covariance(around)),
        family=verdicts.family,
        families=len(verdicts.families),
        system=verdicts.system,
        opponent=verdicts.opponent,
        systems=len(verdicts.systems),
        outcome=outcome,
        system_rate=_system_rates(verdicts, shares, asked) / attenuation(around, asked, verdicts.family)
        if outcome is None
        else _strengths(verdicts, outcome),
        question_rate=question_rates(
            mean_shares(around, rates, asked), asked.any(1), verdicts.system, verdicts.question
        )
        if outcome is None and len(verdicts.systems) > 1
        else np.zeros((N, 0)),
        association=association(np.where(scored[:, None], 0.0, shares), verdicts.family)
        if K > CLASSES
        else np.zeros((0, 0)),
        scored=scored,
        score=score,
        score_consensus=score_consensus,
        slope=slope,
        length=_length(verdicts, paired=outcome is not None),
        position=_position(verdicts, given),
        states={
            state.name.lower(): own
            for state in (State.ABSTAINED, State.UNPARSEABLE)
            if (own := _state(verdicts, state)).shape[1]
        },
    )


def _system_rates(verdicts: Verdicts, shares: Array, asked: Array) -> Array:
    """Return the log share of each class in the verdicts on each system, relative to all systems, ``(S, K)``.

    Shares are means over judges of the judge's own share, so that a judge who saw one system only shifts no other; each has a
    pseudo-verdict, spread evenly over the classes.
    """
    S, K = len(verdicts.systems), shares.shape[2]
    rates = np.full((S, K), 1 / K)
    for s in range(S):
        own = verdicts.system == s
        number = asked[own].sum(0)  # (J,)
        judged = number > 0
        if judged.any():
            by_judge = (shares[own].sum(0) + 1 / K) / (number[:, None] + 1)
            rates[s] = by_judge[judged].mean(0)
    log = np.log(rates)
    return np.asarray(log - log.mean(0)) if S else log


def _strengths(verdicts: Verdicts, outcome: Array) -> Array:
    """Return the strength of each system by the verdicts, ``(S, 1)``; the verdicts on an item together count once."""
    given = verdicts.label >= 0
    item, said = verdicts.item[given], outcome[verdicts.label[given]]
    weight = 1 / np.bincount(item, minlength=len(verdicts.items))[item]
    pairs = pairwise.distinct(verdicts.system, verdicts.opponent, len(verdicts.systems))
    counts = pairwise.tally(pairs, item, said, weight)
    return pairwise.strengths(counts[None], pairs)[0].T


def _scores(verdicts: Verdicts, outcome: Array | None, value: Array | None) -> tuple[Array, Array, Array, Array]:
    """Return who has scores ``(J,)``, centred ranks of them ``(N, J')``, weights in the consensus, and each class's slope.

    High scores of a pair speak for its first system. A judge that gives verdicts on pairs keeps them: its scores are not used.
    """
    from scipy.stats import rankdata  # here: slow to import

    N, J, K = len(verdicts.items), len(verdicts.judges), len(verdicts.labels)
    slope = np.linspace(-0.5, 0.5, K) if K > 1 else np.zeros(K)
    if outcome is not None:
        slope = outcome / 2
    elif K == 2 and value is not None and value[0] > value[1]:
        slope = slope[::-1]
    there = np.isfinite(verdicts.score)
    number = by_judge(verdicts, there)
    labels = np.bincount(verdicts.judge[verdicts.label >= 0], minlength=J)
    scored = (number.sum(0) > 1) & (number.sum(0) >= COMPLETE * labels)
    if outcome is not None:
        scored &= labels == 0
    if not scored.any():
        return scored, np.zeros((N, 0)), np.zeros(0), slope
    mean = by_judge(verdicts, there, verdicts.score) / np.maximum(number, 1)
    with_scores = np.flatnonzero(scored)
    ranks = np.zeros((N, len(with_scores)))
    for column, judge in enumerate(with_scores):
        seen = number[:, judge] > 0
        rank = rankdata(mean[seen, judge])
        ranks[seen, column] = (rank - (seen.sum() + 1) / 2) * np.sqrt(12) / seen.sum()  # variance 1 without ties
    return scored, ranks, consensus_weights(ranks.T @ ranks), slope


def _position(verdicts: Verdicts, given: Array) -> Array:
    """Return the order of the answers that each judge saw, ``(N, J'')``, of judges who saw one order of most items."""
    known = given & (verdicts.swapped >= 0)
    number = by_judge(verdicts, known)
    order = by_judge(verdicts, known, 1.0 - 2 * verdicts.swapped) / np.maximum(number, 1)
    seen = np.maximum((number > 0).sum(0), 1)
    varied = ((np.abs(order) > 0).sum(0) > ONE_ORDER * seen) & ((order > 0).any(0) & (order < 0).any(0))
    return order[:, varied]


def _length(verdicts: Verdicts, paired: bool) -> Array:
    """Return the standardised log length of each answer, or ratio of lengths, ``(N, 1)``; ``(N, 0)`` if none vary."""
    log = contrast(verdicts.length, verdicts.opponent_length, paired)
    known = np.isfinite(log)
    if not known.any() or np.ptp(log[known]) == 0:
        return np.zeros((len(verdicts.items), 0))
    return np.where(known, (log - log[known].mean()) / log[known].std(), 0.0)[:, None]


def _state(verdicts: Verdicts, state: State) -> Array:
    """Return the share of each judge's requests on each item that ended in a state, ``(N, J')``, of judges with such a state."""
    asked = by_judge(verdicts, np.ones(len(verdicts), dtype=bool))
    ended = by_judge(verdicts, verdicts.state == state)
    return (ended / np.maximum(asked, 1))[:, ended.sum(0) > 0]
