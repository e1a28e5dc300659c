"""``crowdppl.judges.fit``: verdicts of judges and human labels in, true labels, judges, systems and panel out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from crowdppl import arguments
from crowdppl.arguments import Level, Seed, checked
from crowdppl.errors import DataError, OptionError, listed, suggestion
from crowdppl.judges.coding import passing
from crowdppl.judges.human import HumanLabels
from crowdppl.judges.model import pairwise
from crowdppl.judges.model.calibration import Calibration, calibrate
from crowdppl.judges.model.features import Features, features_of
from crowdppl.judges.people import errors as of_people
from crowdppl.judges.people import human_likelihood
from crowdppl.judges.people.human_columns import labelled
from crowdppl.judges.people.matching import renamed, require_one_vocabulary
from crowdppl.judges.people.scales import on_one_scale
from crowdppl.judges.result import JudgesResult
from crowdppl.judges.verdicts import Verdicts

Array = npt.NDArray[Any]
# Draws of the weights of verdicts from which errors of people are learned.
DRAWS = 200
# Items from which weights of verdicts are learned where people labelled all, without errors.
MOST = 2000


@checked
def fit(
    verdicts: Any,
    human: Any = None,
    *,
    seed: Seed = 0,
    level: Level = 0.95,
    positive: Any = None,
    human_error: Annotated[
        float | Mapping[Any, float], arguments.one_of(arguments.number(at_least=0, below=1), arguments.mapping)
    ]
    | None = None,
    map: Annotated[Mapping[Any, Any], arguments.mapping] | None = None,
    num_samples: Annotated[int, arguments.whole(50)] = 1000,
    **options: Any,
) -> JudgesResult:
    """Learn from human labels what the verdicts of judges are worth, and correct the scores of systems.

    The model and its inference are those of :mod:`crowdppl.judges.model.calibration`. Human labels are taken as those of a random
    sample of the items, unless their table states the probability with which an item was chosen.

    Args:
        verdicts: :class:`Verdicts`, or a table with columns ``item``, ``judge`` and ``verdict``, and optional ones
            (:meth:`Verdicts.from_frame`).
        human: :class:`HumanLabels`, a table with columns ``item`` and ``verdict``, or labels by item. Columns of other names are
            found by the names of items and systems in them (:mod:`crowdppl.judges.people.human_columns`). Defaults to the human
            labels that a file of verdicts contains, if any.
        seed: of all random numbers; the same seed gives the same result.
        level: probability of intervals.
        positive: the label that passes, or a list of them. Defaults to the grades themselves if there are more than two numeric
            classes, otherwise to the class whose name says so (:mod:`crowdppl.judges.coding.passing`). It must be stated where no
            name does, or where "yes" is the answer to a question such as "hallucination?".
            For pairs of systems, the label for which the first system is better; defaults to the one whose name says so
            (``first``, ``A``, ``win``, ...), and must be stated where no name does.
        human_error: probability that a human label is incorrect, each other class equally likely; below that of guessing. A
            number for all people, or a mapping from the names of some, such as experts, to theirs.
            Defaults to the estimate from items on which people contradict each other, and to 0 where nobody does. Where a column
            ``annotator`` names the people, each of them who shares items with others has an error of their own
            (:mod:`crowdppl.judges.people.errors`).
        map: names of classes by label of judges or people, such as ``{"C": "pass", "I": "fail"}``, where they use other words.
        num_samples: number of posterior draws.
        **options: of :meth:`Verdicts.from_frame`, such as ``judge="grader"``.

    Returns:
        The result.

    Raises:
        DataError: if the tables cannot be used, or the names of the classes do not tell which one passes, or which system is
            better.
        OptionError: for a ``positive`` that is no class, or an error of people as large as that of guessing.
    """
    if not isinstance(verdicts, Verdicts):
        verdicts = Verdicts.from_frame(verdicts, **options)
    elif options:
        raise OptionError(f"{next(iter(options))}= names a column of a table; give it where the Verdicts are made")
    human = verdicts.human if human is None else human
    labels = None
    if human is not None:
        labels = human if isinstance(human, HumanLabels) else labelled(human, verdicts)
    if map is not None:
        verdicts, labels = _renamed(verdicts, labels, map)
    verdicts = on_one_scale(verdicts, labels)
    require_one_vocabulary(verdicts)
    if labels is not None:
        verdicts, labels = labels.align(verdicts)
    K = len(verdicts.labels)
    if K < 2:
        only = listed(verdicts.labels.tolist()) or "scores without human labels"
        raise DataError(
            f"there is one class only ({only}), and nothing to tell apart; declare labels=[...] or add human labels"
        )
    outcome = pairwise.outcomes(verdicts.labels, positive) if (verdicts.opponent >= 0).any() else None
    if outcome is None:
        judges = verdicts.judges.tolist()
        # A name of one judge may describe the judge; a metric that all were asked for is in all names.
        asked = (verdicts.asked, *(judges if all(passing.BAD.search(str(name)) for name in judges) else ()))
        value = passing.values(verdicts.labels, positive, known=verdicts.passing, asked=asked)
    else:
        value = (1 + outcome) / 2
    known = of_people.stated(labels, human_error, K)
    return _posterior(
        verdicts,
        labels,
        outcome,
        value,
        seed=seed,
        level=level,
        num_samples=num_samples,
        human_error=None if isinstance(human_error, Mapping) else human_error,
        known=known,
    )


def _renamed(
    verdicts: Verdicts, labels: HumanLabels | None, to: Mapping[Any, Any]
) -> tuple[Verdicts, HumanLabels | None]:
    """Return verdicts and human labels with some classes renamed.

    Raises:
        OptionError: for a label that nobody gave.
    """
    names = {str(label): name for label, name in to.items()}
    known = [str(name) for one in (verdicts, labels) if one is not None for name in one.labels.tolist()]
    blank = [label for label, name in names.items() if not isinstance(name, (str, int)) or str(name).strip() == ""]
    if blank:
        raise OptionError(f"map: the name of the class of {listed(blank)} is missing; write it as a text")
    unknown = [label for label in names if label not in known]
    if unknown:
        raise OptionError(
            f"map: nobody gave the label {listed(unknown)}{suggestion(unknown[0], known)}; labels are {listed(known)}"
        )
    if verdicts.passing is not None:
        verdicts = replace(verdicts, passing=names.get(str(verdicts.passing), verdicts.passing))
    new, code = renamed(verdicts.labels, verdicts.label, names)
    verdicts = replace(verdicts, labels=new, label=code)
    if labels is not None:
        new, code = renamed(labels.labels, labels.label, names)
        labels = replace(labels, labels=new, label=code)
    return verdicts, labels


def refit(result: JudgesResult, verdicts: Verdicts, num_samples: int) -> JudgesResult:
    """Return the result with fewer verdicts of the same items, all else as before.

    Args:
        result: a result.
        verdicts: a part of its verdicts, see :meth:`Verdicts.only`.
        num_samples: number of posterior draws.
    """
    return _posterior(
        verdicts,
        result.human,
        result.features.outcome,
        result.value,
        seed=0,
        level=result.level,
        num_samples=num_samples,
        human_error=result.human_error,
        known=result.person_error.mean(0) if len(result.person_error) else np.zeros(0),
    )


def _posterior(
    verdicts: Verdicts,
    labels: HumanLabels | None,
    outcome: Array | None,
    value: Array,
    *,
    seed: int,
    level: float,
    num_samples: int,
    human_error: float | None,
    known: Array,
) -> JudgesResult:
    """Fit verdicts and human labels with codes in common; arguments as attributes of the result.

    ``known`` is the error of each person that is not to be learned, ``(P,)``, NaN of the others.
    """
    K = len(verdicts.labels)
    rng = np.random.default_rng(seed)
    seen = features_of(verdicts, outcome, value)
    items, counts = np.zeros(0, dtype=np.int64), np.zeros((0, K))
    if labels is not None:
        items, counts = human_likelihood.counts_by_item(labels, K)
    error = human_likelihood.error_of_people(counts) if human_error is None else human_error
    weight = np.ones(0) if labels is None else human_likelihood.sample_weights(labels, items)
    log_human = human_likelihood.log_likelihood(counts, error)
    own, basis = known, np.where(np.isnan(known), "shared", "stated").astype(object)
    among = None if labels is None else of_people.overlap(labels)
    free = np.zeros(len(known), dtype=bool)
    if labels is not None and among is not None and len(known):
        free = among.learned & np.isnan(known) if error > 0 and among.learned.sum() > 1 else free
        if free.any():
            basis[free] = "learned"
            # Which of two people is wrong is seen by the verdicts, as they count under the error of all people.
            first = calibrate(seen, items, log_human, weight, draws=DRAWS, rng=np.random.default_rng([seed, 1]))
            theirs = _errors(seen, first, labels, among, error, known, seed)
            own = np.where(free, theirs.mean(0), known)
        own = np.where(np.isnan(own), error, own)
        if (own != error).any():
            log_human = of_people.log_likelihood(labels, own, error, K)
    learned = np.arange(len(items))
    if len(items) == len(verdicts.items) > MOST and not own.any() and error == 0:
        # Every true label is known, and what verdicts are worth changes none.
        learned = np.sort(np.random.default_rng([seed, 3]).choice(len(items), MOST, replace=False))
    calibration = calibrate(seen, items[learned], log_human[learned], weight[learned], draws=num_samples, rng=rng)
    truth, probability = _draw_truth(seen, calibration, items, log_human, rng)
    person_error = np.tile(own, (len(truth), 1))
    if labels is not None and among is not None and free.any():
        person_error[:, free] = _errors(seen, calibration, labels, among, error, known, seed)[:, free]
    N = len(verdicts.items)
    return JudgesResult(
        verdicts=verdicts,
        human=labels,
        features=seen,
        calibration=calibration,
        truth=truth,
        probability=probability,
        labelled=np.isin(np.arange(N), items),
        human_error=error,
        value=value,
        level=level,
        person_error=person_error,
        error_basis=basis,
    )


def _errors(
    seen: Features,
    of: Calibration,
    labels: HumanLabels,
    among: of_people.Overlap,
    error: float,
    known: Array,
    seed: int,
) -> Array:
    """Return draws of the error of each person ``(D, P)``, one for each draw of the weights of verdicts."""
    p = of.probability(seen.rows(among.items))  # (K, D, n)
    return of_people.errors(labels, among, p, error, known, np.random.default_rng([seed, 2]))


def _draw_truth(
    seen: Features, calibration: Calibration, items: Array, log_human: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return draws of the true labels ``(D, N)`` and the probabilities of classes ``(N, K)``."""
    N, _, K = seen.shape
    D = len(calibration.theta)
    truth = np.zeros((D, N), dtype=np.int16 if K > 127 else np.int8)
    probability = np.empty((N, K))
    log_given = np.zeros((N, K))
    log_given[items] = log_human - log_human.max(1, keepdims=True) if len(items) else log_human
    for index, features in seen.pieces():
        p = calibration.probability(features, seen.system[index])  # (K, D, n)
        if log_given[index].any():
            by_people = np.exp(log_given[index]).T[:, None, :]
            p *= by_people
            total = p.sum(0)
            # Where verdicts exclude what people said, within the precision of numbers, people are right.
            p = np.where(total > 0, p / np.where(total > 0, total, 1.0), by_people / by_people.sum(0))
        probability[index] = p.mean(1).T
        uniform = rng.random(p.shape[1:])
        below = np.zeros(p.shape[1:])
        for k in range(K - 1):
            below += p[k]
            truth[:, index] += uniform > below
    return truth, probability
