"""Simulated annotators who have errors in common: confusion that all share, and labels that repeat each other."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from crowdppl import arguments
from crowdppl.arguments import NonNegativeInt, PositiveInt, Seed, Share, TwoOrMore, checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.synthetic.simulation import Array, Simulation, drawn_from
from crowdppl.errors import OptionError


@checked
def common_and_individual(
    *,
    seed: Seed,
    items: PositiveInt = 8_000,
    workers: PositiveInt = 30,
    per_item: PositiveInt = 3,
    classes: TwoOrMore = 6,
    common: Share = 0.5,
    common_strength: Share = 0.4,
    individual_strength: Share = 0.7,
    asymmetric: bool = False,
    dimensions: PositiveInt = 10,
    separation: Annotated[float, arguments.number()] = 1.5,
    embedding: PositiveInt = 20,
    test: NonNegativeInt = 1_000,
    on_average: bool = False,
    wrong: Literal["neighbours", "drawn"] = "neighbours",
    features: Annotated[npt.ArrayLike, arguments.array("item", "feature")] | None = None,
    truth: Annotated[npt.ArrayLike, arguments.array("item", kind="whole")] | None = None,
) -> Simulation:
    """Draw the synthetic set of Chu, Ma and Wang (2021): confusion that is common to all annotators and confusion of their own.

    An annotation comes from the common confusion matrix with probability ``omega_ij = sigmoid(u_j . v_i + b)``, their equation
    (3), else from the annotator's own. The embeddings of annotators and items are random, of length one, those of items a linear
    function of their features; the bias ``b`` sets the mean share ``common``. A matrix of strength ``e`` gives a wrong label with
    probability ``e``, the same one for each class. In the common matrix classes 0 and 1 are taken for each other, 2 and 3, and so
    on (symmetric; the last of an odd number is taken for the first), or each class for the next one (asymmetric). The paper draws
    the pairs, and the class that each is taken for: ``wrong="drawn"``. An annotator confuses each class with another of their
    own. Features are Gaussian around the centre of the class; the paper uses images, whose features ``features`` and
    ``truth`` take. Its validation items are like test items, and its annotators label each item with equal probability, three
    on average: ``on_average=True``.

    Args:
        seed: random seed.
        items: number of labelled items.
        workers: number of annotators.
        per_item: number of labels per item, by different annotators.
        classes: number of classes ``K``.
        common: mean share of annotations from the common matrix, 0 and .3 to .7 in the paper.
        common_strength: error rate of the common matrix, .4 to .8 in the paper.
        individual_strength: error rate of the annotators' own matrices, .7 in the paper.
        asymmetric: whether common errors lead from each class to another one, and not between the two classes of a pair.
        dimensions: number of features.
        separation: distance of each centre from the origin, in standard deviations.
        embedding: size of the embeddings.
        test: number of test items.
        on_average: whether ``per_item`` is the mean number of labels of an item, which has at least one.
        wrong: what the common errors lead to: ``"neighbours"``, the next class or the other one of neighbours, or ``"drawn"``:
            pairs at random, and for each class another one at random.
        features: of items of your own, ``(n, D)``, in place of Gaussian ones: the first ``items`` are labelled, the next ``test``
            are test items.
        truth: their classes, ``(n,)``, from 0 to ``classes`` - 1.

    Returns:
        ``parameters``: ``common (K, K)``, ``individual (J, K, K)``, and for each annotation ``share``, omega, and ``source``,
        whether it came from the common matrix.

    Raises:
        OptionError: a probability lies outside 0 to 1, ``per_item`` exceeds ``workers``, or features and classes are not those of
            ``items + test`` items and ``classes`` classes.
    """
    if per_item > workers:
        raise OptionError(f"per_item={per_item} must be at most workers={workers}")
    rng = np.random.default_rng(seed)
    z, x = _items_of(features, truth, items + test, classes)
    if z is None or x is None:
        z = rng.integers(0, classes, items + test)
        centres = rng.normal(size=(classes, dimensions))
        centres *= separation / np.linalg.norm(centres, axis=1, keepdims=True)
        x = centres[z] + rng.normal(size=(items + test, dimensions)) / np.sqrt(dimensions)
    each = np.arange(classes)
    # Of a stream of their own: the rest of a simulation does not depend on whether they are drawn.
    order = np.random.default_rng([seed, 1]).permutation(classes) if wrong == "drawn" else each
    shared = _noisy(common_strength, _taken_for(order, asymmetric, seed if wrong == "drawn" else None))
    own = np.stack(
        [_noisy(individual_strength, (each + rng.integers(1, classes, classes)) % classes) for _ in range(workers)]
    )
    ranks = rng.random((items, workers)).argsort(1)
    count = np.maximum(1, rng.binomial(workers, per_item / workers, items)) if on_average else np.full(items, per_item)
    item = np.repeat(np.arange(items), count)
    worker = ranks[np.arange(workers) < count[:, None]]
    v = x[:items] @ rng.normal(size=(x.shape[1], embedding)) + rng.normal(size=embedding)
    u = rng.normal(size=(workers, embedding))
    v, u = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in (v, u))
    share = _with_mean((u[worker] * v[item]).sum(-1), common)
    source = rng.random(len(item)) < share
    rows = np.where(source[:, None], shared[z[item]], own[worker, z[item]])
    label = drawn_from(rng, rows)
    data = Annotations.from_arrays(
        item, worker, label, labels=range(classes), workers=range(workers), features=x[:items]
    )
    return Simulation(
        data=data,
        truth=z[:items],
        features_test=x[items : items + test],
        truth_test=z[items : items + test],
        parameters={"common": shared, "individual": own, "source": source, "share": share},
    )


def _items_of(features: Any, truth: Any, number: int, classes: int) -> tuple[Array | None, Array | None]:
    """Return the classes and features of given items; ``None`` each where items are to be drawn."""
    if features is None and truth is None:
        return None, None
    if features is None or truth is None:
        raise OptionError("features and truth belong together; pass both or neither")
    x, z = np.asarray(features, dtype=float), np.asarray(truth).astype(np.int64)
    if len(x) != len(z) or len(x) < number:
        raise OptionError(
            f"features has {len(x)} rows and truth {len(z)}; each must have one for each of {number} items"
        )
    if z.min() < 0 or z.max() >= classes:
        raise OptionError(f"truth has classes from {z.min()} to {z.max()}; it must have them from 0 to {classes - 1}")
    return z, x


def _taken_for(order: Array, asymmetric: bool, seed: int | None) -> Array:
    """Return the class that each one is taken for: its partner in ``order``, or another one.

    Args:
        order: the classes; partners are neighbours.
        asymmetric: another class instead of the partner: the next one, or one that is drawn.
        seed: of the draw; without it the next class is taken.
    """
    K = len(order)
    place = np.arange(K)
    if asymmetric:
        step = 1 if seed is None else np.random.default_rng([seed, 2]).integers(1, K, K)
        return (place + step) % K
    out = np.empty(K, dtype=np.int64)
    out[order] = order[np.where(place % 2 == 0, place + 1, place - 1) % K]
    return out


def _noisy(strength: float, wrong: Array) -> Array:
    """Return a confusion matrix with error rate ``strength``, in which class ``k`` is taken for ``wrong[k]``."""
    eye = np.eye(len(wrong))
    return (1 - strength) * eye + strength * eye[wrong]


def _with_mean(logits: Array, mean: float) -> Array:
    """Return probabilities of a given mean, whose logits are the given ones up to a constant."""
    from scipy.optimize import brentq  # here: slow to import

    if mean in (0, 1):
        return np.full(len(logits), float(mean))
    return expit(logits + brentq(lambda b: expit(logits + b).mean() - mean, -100, 100))


@checked
def correlated_crowd(
    *,
    seed: Seed,
    items: PositiveInt = 400,
    workers: PositiveInt = 30,
    per_item: PositiveInt = 10,
    classes: TwoOrMore = 2,
    copies: Share = 0.3,
) -> Simulation:
    """Draw a crowd with correlated errors, which violates the independence assumption of most models.

    Workers are correct with probability .6 to .95. Each item has a common label, drawn like that of an average worker; an
    annotation repeats it with probability ``copies`` and is drawn independently otherwise. No features.

    Args:
        seed: random seed.
        items: number of items.
        workers: number of workers.
        per_item: number of annotations per item, by different workers.
        classes: number of classes ``K``.
        copies: share of annotations that repeat the common label of their item; 0 is Dawid and Skene's independence.

    Raises:
        OptionError: if there are fewer workers than annotations per item, or ``copies`` is not between 0 and 1.
    """
    if workers < per_item:
        raise OptionError(f"workers={workers} must be at least per_item={per_item}")
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, items)
    skill = rng.uniform(0.6, 0.95, workers)
    item = np.repeat(np.arange(items), per_item)
    worker = np.concatenate([rng.choice(workers, per_item, replace=False) for _ in range(items)])

    def draw_labels(of: Array, accuracy: Array) -> Array:
        wrong = (truth[of] + rng.integers(1, classes, len(of))) % classes
        return np.where(rng.random(len(of)) < accuracy, truth[of], wrong)

    common = draw_labels(np.arange(items), np.full(items, skill.mean()))
    own = draw_labels(item, skill[worker])
    label = np.where(rng.random(len(item)) < copies, common[item], own)
    data = Annotations.from_arrays(item, worker, label, labels=range(classes))
    no_features = np.zeros((0, 0))
    return Simulation(data, truth, no_features, np.zeros(0, dtype=np.int64), {"skill": skill})
