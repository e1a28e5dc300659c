"""Simulated data sets of papers: items with features, labels by a crowd, and true labels of training and test items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize
from scipy.special import expit, logit, softmax

from crowdppl import arguments
from crowdppl.arguments import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Seed,
    Share,
    TwoOrMore,
    checked,
)
from crowdppl.data.annotations import Annotations
from crowdppl.data.soft_answers import from_probabilities
from crowdppl.errors import OptionError

__all__ = [
    "EASY_AND_HARD",
    "FOUR_SHARES",
    "THREE_ABILITIES",
    "Simulation",
    "common_and_individual",
    "correlated_crowd",
    "easy_and_hard",
    "four_abilities",
    "perturbed_networks",
    "three_gaussians",
    "two_gaussians",
]

Array = npt.NDArray[Any]
Structure = Literal["structural", "non-structural", "constant"]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True, eq=False)
class Simulation:
    """Simulated annotations and the parameters that generated them.

    Attributes:
        data: the annotations of the training items, with features.
        truth: true class of each training item, ``(N,)``, in the order of ``data.items``.
        features_test: features of test items, ``(n, D)``.
        truth_test: true classes of test items, ``(n,)``.
        parameters: parameters of the simulation, by name.
    """

    data: Annotations
    truth: Array
    features_test: Array
    truth_test: Array
    parameters: dict[str, Array] = field(default_factory=dict)


# The authors' stored confusion matrices (repository fmenat/PyLearningCrowds, data/synthetic/matrix_simple_Td5.csv), rounded
# to sum to one: (group, truth, label). The second group labels about half of class 1 as class 2, the third nearly all of it.
THREE_ABILITIES = np.array(
    [
        [[0.8095, 0.0953, 0.0952], [0.0, 0.8947, 0.1053], [0.4030, 0.1213, 0.4757]],
        [[0.6071, 0.0, 0.3929], [0.0912, 0.4240, 0.4848], [0.1053, 0.0, 0.8947]],
        [[0.8947, 0.0, 0.1053], [0.0860, 0.0, 0.9140], [0.7413, 0.0, 0.2587]],
    ]
)


@checked
def three_gaussians(
    *,
    seed: Seed,
    workers: PositiveInt,
    train: PositiveInt = 2457,
    test: NonNegativeInt = 819,
    per_item: PositiveFloat = 5.0,
    sigma: NonNegativeFloat = 0.4,
) -> Simulation:
    """Draw set-up 1 of Mena and Ñanculef (2019): three isotropic Gaussians, annotators of three abilities.

    The class centres are (0, 1), (0, -1) and (1, 0). Those in the paper's text are closer together, and its figures cannot be
    reached with them (Bayes accuracy .74); these centres, and the default sizes, are those of the authors' stored data. Each
    annotator belongs to a group, with probabilities (.25, .55, .20), and labels by the group's confusion matrix
    (``THREE_ABILITIES``). Each item is labelled by a random subset of the annotators, ``per_item`` on average, at least one.

    Args:
        seed: random seed.
        workers: number of annotators, the paper's ``T``.
        train: number of labelled items.
        test: number of test items.
        per_item: mean number of labels per item.
        sigma: standard deviation of each Gaussian.

    Raises:
        OptionError: if there are fewer workers than labels per item.
    """
    if workers < per_item:
        raise OptionError(f"workers={workers} must be at least per_item={per_item:g}")
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0, 1.0], [0.0, -1.0], [1.0, 0.0]])
    truth = rng.integers(0, 3, train + test)
    features = centres[truth] + sigma * rng.normal(size=(train + test, 2))
    share = np.array([0.25, 0.55, 0.20])
    data, group = _by_groups(rng, truth[:train], features[:train], workers, per_item, THREE_ABILITIES, share)
    return Simulation(
        data=data,
        truth=truth[:train],
        features_test=features[train:],
        truth_test=truth[train:],
        parameters={"group": group, "confusion": THREE_ABILITIES, "share": share},
    )


# Shares of the four abilities in set-up 2 of Mena and Ñanculef (2019): those of the paper's text, and those that the authors'
# program reads, with which the paper's table was made.
FOUR_SHARES: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {"printed": (0.20, 0.45, 0.15, 0.20), "program": (0.70, 0.15, 0.10, 0.05)}
)


def _shares(name: str, value: Any) -> Any:
    each = arguments.choice(*FOUR_SHARES) if isinstance(value, str) else arguments.several(arguments.share)
    return each(name, value)


@checked
def four_abilities(
    truth: Annotated[npt.ArrayLike, arguments.array("item", kind="whole")],
    *,
    seed: Seed,
    workers: PositiveInt,
    features: Annotated[npt.ArrayLike, arguments.array("item", "feature")] | None = None,
    per_item: PositiveFloat = 3.0,
    share: Annotated[Literal["printed", "program"] | Sequence[float], _shares] = "printed",
    confusion: Annotated[npt.ArrayLike, arguments.array("group", "class", "class")] | None = None,
) -> Simulation:
    """Draw the crowd of set-up 2 of Mena and Ñanculef (2019) for items of known class: annotators of four abilities.

    Each annotator belongs to a group, with probabilities ``share``, and labels by the group's confusion matrix. Each item is
    labelled by a random subset of the annotators, ``per_item`` on average, at least one. The paper has images of ten classes and
    matrices of its own, which ``confusion`` takes. The default matrices are a generic form of those, for any number of classes:
    an annotator recognises the class with the probability of the group, .714, .291, .25 or 0, and else guesses. Experts and
    inexpert annotators guess any class, highly inexpert ones mostly the last class, and spammers class ``k`` in proportion to
    ``k + 1``, whatever the item. With ten classes the mean accuracies are .74, .36, .33 and .10 (of the paper's matrices: .74,
    .36, .33 and .17).

    Args:
        truth: true class of each item, ``(N,)``: whole numbers from 0.
        seed: random seed.
        workers: number of annotators, the paper's ``T``.
        features: features of the items, ``(N, D)``.
        per_item: mean number of labels per item.
        share: probability of each group: ``"printed"`` in the paper, ``"program"`` as its authors' program has them
            (``FOUR_SHARES``), or the probabilities.
        confusion: matrices of the groups, ``(G, K, K)`` = (group, true class, label); rows that sum to one up to rounding (.001).

    Returns:
        Annotations without test items; ``parameters``: ``group (J,)`` of the annotators with labels, ``confusion`` and ``share``.

    Raises:
        OptionError: if there are fewer workers than labels per item, ``truth`` has a class without a row, features are not one
            row per item, or probabilities are negative, do not sum to one or differ in number from the groups.
    """
    classes = np.asarray(truth).astype(np.int64)
    if confusion is None:
        K = max(2, int(classes.max()) + 1)
        matrices = _generic_abilities(K)
    else:
        matrices = np.asarray(confusion, dtype=float)
        K = matrices.shape[1]
    chances = np.asarray(FOUR_SHARES[share] if isinstance(share, str) else share, dtype=float)
    if workers < per_item:
        raise OptionError(f"workers={workers} must be at least per_item={per_item:g}")
    if classes.min() < 0 or classes.max() >= K:
        raise OptionError(
            f"truth has classes from {classes.min()} to {classes.max()}; it must have them from 0 to {K - 1}"
        )
    if len(chances) != len(matrices):
        raise OptionError(f"share has {len(chances)} groups; it must have those of confusion, {len(matrices)}")
    for name, rows in (("share", chances), ("confusion", matrices)):
        if not (rows >= 0).all() or not np.allclose(rows.sum(-1), 1, atol=1e-3):
            raise OptionError(f"{name} must have probabilities that sum to one")
    x = None if features is None else np.asarray(features, dtype=float)
    if x is not None and len(x) != len(classes):
        raise OptionError(f"features has {len(x)} rows; it must have one for each of the {len(classes)} items")
    matrices = matrices / matrices.sum(-1, keepdims=True)
    chances = chances / chances.sum()
    data, group = _by_groups(np.random.default_rng(seed), classes, x, workers, per_item, matrices, chances)
    return Simulation(
        data=data,
        truth=classes,
        features_test=np.zeros((0, 0 if x is None else x.shape[1])),
        truth_test=np.zeros(0, dtype=np.int64),
        parameters={"group": group, "confusion": matrices, "share": chances},
    )


def _generic_abilities(K: int) -> Array:
    """Return the generic matrices of the four abilities, ``(4, K, K)``."""
    uniform = np.full(K, 1 / K)
    last = (uniform + np.eye(K)[-1]) / 2
    rising = np.arange(1, K + 1) / np.arange(1, K + 1).sum()
    groups = zip((0.714, 0.291, 0.25, 0.0), (uniform, uniform, last, rising), strict=True)
    return np.stack([known * np.eye(K) + (1 - known) * guess for known, guess in groups])


# Of annotators who are perturbed networks: noise of the weights of each group, in standard deviations of a layer's weights. On
# the three Gaussians they are right about 92, 69 and 43% of the time.
THREE_NOISES = (0.1, 1.5, 3.0)


@checked
def perturbed_networks(
    features: Annotated[npt.ArrayLike, arguments.array("item", "feature")],
    truth: Annotated[npt.ArrayLike, arguments.array("item", kind="whole")],
    *,
    seed: Seed,
    workers: PositiveInt,
    per_item: PositiveFloat = 5.0,
    noise: Annotated[Sequence[float], arguments.several(arguments.at_least_zero)] = THREE_NOISES,
    share: Annotated[Sequence[float], arguments.several(arguments.share)] = (0.25, 0.55, 0.20),
    hidden: PositiveInt = 16,
) -> Simulation:
    """Draw annotators who are classifiers of the items with perturbed weights: the third kind of Mena and Ñanculef (2019).

    A perceptron with one hidden layer learns the true classes. Each annotator is a copy of it to whose weights normal noise is
    added, as much as the group of the annotator says, in proportion to the standard deviation of the weights of the layer; its
    labels are drawn from its class probabilities. So what an annotator gets wrong depends on the item, and no confusion matrix
    describes it, in contrast to :func:`three_gaussians` and :func:`four_abilities`. The amounts of noise are ours.

    Args:
        features: of the items, ``(N, D)``.
        truth: true class of each item, ``(N,)``: whole numbers from 0.
        seed: random seed.
        workers: number of annotators.
        per_item: mean number of labels per item.
        noise: of the weights of each group, in standard deviations of the weights of the layer.
        share: probability of each group.
        hidden: units of the hidden layer.

    Returns:
        Annotations without test items; ``parameters``: ``group (J,)`` of the annotators with labels, ``noise``, ``share``, and
        ``probability (A, K)``, of each label of an annotation: what the annotator would say as a soft answer.

    Raises:
        OptionError: if there are fewer workers than labels per item, ``truth`` has negative classes, features are not one row per
            item, or probabilities do not sum to one or differ in number from the groups.
    """
    x, classes = np.asarray(features, dtype=float), np.asarray(truth).astype(np.int64)
    if workers < per_item:
        raise OptionError(f"workers={workers} must be at least per_item={per_item:g}")
    if classes.min() < 0:
        raise OptionError(f"truth has a class {classes.min()}; classes must be whole numbers from 0")
    if len(x) != len(classes):
        raise OptionError(f"features has {len(x)} rows; it must have one for each of the {len(classes)} items")
    if len(share) != len(noise):
        raise OptionError(f"share has {len(share)} groups; it must have those of noise, {len(noise)}")
    if not np.isclose(sum(share), 1, atol=1e-3):
        raise OptionError("share must have probabilities that sum to one")
    rng = np.random.default_rng(seed)
    K = max(2, int(classes.max()) + 1)
    standard = (x - x.mean(0)) / np.where(x.std(0) > 0, x.std(0), 1)
    layers = _trained(rng, standard, np.eye(K)[classes], hidden)
    group = rng.choice(len(share), workers, p=np.asarray(share) / sum(share))
    item, worker = _assigned(rng, len(x), workers, per_item)
    probability = np.empty((len(item), K))
    for j in range(workers):
        own = worker == j
        copy = [w + noise[group[j]] * w.std() * rng.normal(size=w.shape) for w in layers]
        probability[own] = softmax(_logits(copy, standard[item[own]]), 1)
    names = np.unique(worker)
    data = Annotations.from_arrays(item, worker, _draw(rng, probability), labels=range(K), features=x, workers=names)
    return Simulation(
        data=data,
        truth=classes,
        features_test=np.zeros((0, x.shape[1])),
        truth_test=np.zeros(0, dtype=np.int64),
        parameters={
            "group": group[names],
            "noise": np.asarray(noise, dtype=float),
            "share": np.asarray(share, dtype=float),
            "probability": probability,
        },
    )


def _logits(layers: Sequence[Array], x: Array) -> Array:
    """Return the logits of a perceptron with one hidden layer; the last row of each layer is its constant."""
    first, second = layers
    return np.tanh(x @ first[:-1] + first[-1]) @ second[:-1] + second[-1]


def _trained(rng: np.random.Generator, x: Array, targets: Array, hidden: int) -> list[Array]:
    """Return the layers of a perceptron that learns one-hot classes by L-BFGS, with a weak penalty of its weights."""
    shapes = [(x.shape[1] + 1, hidden), (hidden + 1, targets.shape[1])]
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])

    def layers(weights: Array) -> list[Array]:
        return [weights[a:b].reshape(shape) for a, b, shape in zip(ends, ends[1:], shapes, strict=False)]

    def loss(weights: Array) -> tuple[float, Array]:
        first, second = layers(weights)
        inside = np.tanh(x @ first[:-1] + first[-1])
        p = softmax(inside @ second[:-1] + second[-1], 1)
        chosen = (p * targets).sum(1).clip(1e-300)
        error = (p - targets) / len(x)
        back = (error @ second[:-1].T) * (1 - inside**2)
        slopes = (x.T @ back, back.sum(0), inside.T @ error, error.sum(0))
        penalty = 1e-3 * weights
        return float(-np.log(chosen).mean() + weights @ penalty / 2), np.concatenate(
            [slope.reshape(-1) for slope in slopes]
        ) + penalty

    start = rng.normal(size=ends[-1]) / np.sqrt(max(shapes[0][0], hidden))
    return layers(minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 200}).x)


def _assigned(rng: np.random.Generator, items: int, workers: int, per_item: float) -> tuple[Array, Array]:
    """Return the item and the worker of each annotation: random subsets of the workers, ``per_item`` on average, at least one."""
    count = np.maximum(1, rng.binomial(workers, per_item / workers, items))
    worker = np.concatenate([rng.choice(workers, size, replace=False) for size in count])
    return np.repeat(np.arange(items), count), worker


def _by_groups(
    rng: np.random.Generator,
    truth: Array,
    features: Array | None,
    workers: int,
    per_item: float,
    confusion: Array,
    share: Array,
) -> tuple[Annotations, Array]:
    """Draw labels by groups of annotators; return them and the group of each annotator who has any."""
    group = rng.choice(len(share), workers, p=share)
    item, worker = _assigned(rng, len(truth), workers, per_item)
    label = _draw(rng, confusion[group[worker], truth[item]])
    names = np.unique(worker)
    labels = range(confusion.shape[-1])
    return Annotations.from_arrays(item, worker, label, labels=labels, features=features, workers=names), group[names]


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
    label = _draw(rng, rows)
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


@checked
def two_gaussians(
    *,
    seed: Seed,
    train: PositiveInt = 1000,
    test: NonNegativeInt = 1000,
    sensitivity: Annotated[tuple[float, ...], arguments.several(arguments.share)] = (0.8, 0.6, 0.6, 0.7, 0.6),
    specificity: Annotated[tuple[float, ...], arguments.several(arguments.share)] = (0.6, 0.7, 0.6, 0.7, 0.7),
    labels: Structure = "structural",
    sample: Literal["drawn", "authors"] = "drawn",
) -> Simulation:
    """Draw the two-Gaussian set of the data-difficulty paper (Xu, Zhang, Zhang and Zhang), in which all experts label all items.

    Classes 0 and 1 have means (-1, -1) and (1, 1) and variance 1 in each direction; the best possible accuracy is .9214.

    Labels are drawn in one of three ways:

    - ``"structural"``: by the paper's equations (1) and (2), with ``p = sigmoid(x1 + x2)`` and ``lambda = 4 logit`` of the
      expert's sensitivity or specificity, which are then those of the easiest items, ``p`` at 0 or 1;
    - ``"non-structural"``: incorrect with probability ``1 / (3 + k)``, ``k`` uniform on 0 to 5, anew for each annotation;
    - ``"constant"``: by the expert's sensitivity and specificity, whatever the item, as the original EM has it.

    The figures of the paper are of one sample, which its authors' program draws with the seed 1228, half of each class: the best
    possible classifier is right about .941 of its test items. ``sample="authors"`` has these points, and structural labels by the
    recipe of the program: with ``seed=1234`` those of the authors.

    Args:
        seed: random seed; of the labels alone where the points are the authors'.
        train: number of labelled items.
        test: number of test items.
        sensitivity: sensitivity of each expert.
        specificity: specificity of each expert.
        labels: how they are drawn.
        sample: whether the points are drawn, or those of the authors.

    Raises:
        OptionError: if sensitivities and specificities differ in number, or the authors' points are asked for in another number
            than 1,000 and 1,000, or with labels that are not structural.
    """
    if len(sensitivity) != len(specificity):
        raise OptionError(
            f"{len(sensitivity)} sensitivities but {len(specificity)} specificities; pass one of each per expert"
        )
    if sample == "authors" and (train, test, labels) != (1000, 1000, "structural"):
        raise OptionError(
            f"the authors' sample has 1000 and 1000 items with structural labels, not {train} and {test} with {labels} ones; "
            "leave out train, test and labels"
        )
    rng = np.random.default_rng(seed)
    if sample == "authors":
        truth, features = _authors_points()
    else:
        truth = rng.integers(0, 2, train + test)
        features = (2 * truth - 1)[:, None] + rng.normal(size=(train + test, 2))
    experts = len(sensitivity)
    accuracy = np.stack([specificity, sensitivity])[truth[:train]]  # (N, J)
    if labels == "structural":
        easy = 4 * (expit(features[:train].sum(1)) - 0.5) ** 2
        accuracy = expit(logit(accuracy) * easy[:, None])
    elif labels == "non-structural":
        accuracy = 1 - 1 / (3 + rng.integers(0, 6, (train, experts)))
    if sample == "authors":
        # The program takes the class in whose interval of the cumulated probabilities a uniform number is.
        zero = np.where(truth[:train, None], 1 - accuracy, accuracy)
        label = (np.random.RandomState(seed % 2**32).random_sample((train, experts)) >= zero).astype(int)
    else:
        label = np.where(rng.random((train, experts)) < accuracy, truth[:train, None], 1 - truth[:train, None])
    data = Annotations.from_arrays(
        np.repeat(np.arange(train), experts),
        np.tile(np.arange(experts), train),
        label.reshape(-1),
        labels=range(2),
        features=features[:train],
    )
    return Simulation(
        data=data,
        truth=truth[:train],
        features_test=features[train:],
        truth_test=truth[train:],
        parameters={"sensitivity": np.array(sensitivity), "specificity": np.array(specificity)},
    )


def _authors_points(half: int = 500) -> tuple[Array, Array]:
    """Return classes and points of the authors of the two-Gaussian set: ``half`` of each class to learn from, as many to test."""
    rng = np.random.RandomState(1228)
    means = (1, -1, 1, -1)
    features = np.concatenate([np.stack([rng.randn(half), rng.randn(half)], 1) + mean for mean in means])
    return np.repeat([int(mean > 0) for mean in means], half), features


# Accuracy of weak and of strong workers: on easy items, and on hard ones.
EASY_AND_HARD = np.array([[0.95, 0.95], [0.58, 0.85]])


@checked
def easy_and_hard(
    *, seed: Seed, items: PositiveInt = 600, certainty: Annotated[float | None, arguments.positive] = None
) -> Simulation:
    """Draw easy and hard items, labelled by weak and by strong workers: the least in which difficulty matters.

    Items have two features. The class is 1 where the first is positive, and the item is hard where the second is. Six of 20
    workers label each item. They are correct with the probabilities of ``EASY_AND_HARD``; the first ten are the weak ones.

    With ``certainty`` the workers state probabilities, as those of Platanios et al. (2020): the probability of class 1 is drawn
    from a Beta distribution whose mean is ``P(label = 1 | truth)``, so that soft answers and labels have the same mean. ``data``
    then has them in tenths, as :func:`crowdppl.data.soft_answers.from_probabilities` has.

    Args:
        seed: random seed.
        items: number of items.
        certainty: sum of the two parameters of the Beta distribution of soft answers; ``None`` for labels.

    Returns:
        ``parameters``: ``hard (N,)``, ``strong (J,)``, ``accuracy``, and with ``certainty`` the soft answers,
        ``probability (A, 2)``.
    """
    rng = np.random.default_rng(seed)
    workers, per_item = 20, 6
    features = rng.normal(size=(items, 2))
    truth, hard = (features[:, 0] > 0).astype(int), features[:, 1] > 0
    strong = np.arange(workers) >= workers // 2
    item = np.repeat(np.arange(items), per_item)
    worker = np.concatenate([rng.choice(workers, per_item, replace=False) for _ in range(items)])
    accuracy = EASY_AND_HARD[hard[item].astype(int), strong[worker].astype(int)]
    parameters = {"hard": hard, "strong": strong, "accuracy": EASY_AND_HARD}
    if certainty is None:
        label = np.where(rng.random(len(item)) < accuracy, truth[item], 1 - truth[item])
        data = Annotations.from_arrays(
            item, worker, label, items=range(items), workers=range(workers), labels=range(2), features=features
        )
    else:
        mean = np.where(truth[item] == 1, accuracy, 1 - accuracy)
        one = rng.beta(certainty * mean, certainty * (1 - mean))
        parameters["probability"] = np.stack([1 - one, one], -1)
        data = from_probabilities(
            item, worker, parameters["probability"], items=range(items), workers=range(workers), features=features
        )
    return Simulation(data, truth, np.zeros((0, 2)), np.zeros(0, dtype=np.int64), parameters)


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
    if mean in (0, 1):
        return np.full(len(logits), float(mean))
    return expit(logits + brentq(lambda b: expit(logits + b).mean() - mean, -100, 100))


def _draw(rng: np.random.Generator, rows: Array) -> Array:
    """Draw an index from each row of probabilities ``(A, K)``: ``(A,)``."""
    return (rng.random((len(rows), 1)) > rows.cumsum(-1)[:, :-1]).sum(-1)


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
