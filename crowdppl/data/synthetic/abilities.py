"""Simulated annotators of several abilities: groups with confusion matrices, experts with error rates, weak and strong ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from crowdppl import arguments
from crowdppl.arguments import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, Seed, checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.soft_answers import from_probabilities
from crowdppl.data.synthetic.simulation import Array, Simulation, by_groups
from crowdppl.errors import OptionError

Structure = Literal["structural", "non-structural", "constant"]


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
    data, group = by_groups(rng, truth[:train], features[:train], workers, per_item, THREE_ABILITIES, share)
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
    data, group = by_groups(np.random.default_rng(seed), classes, x, workers, per_item, matrices, chances)
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
