"""Simulated annotators who are networks with disturbed weights, so that their errors follow the features of items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from crowdppl import arguments
from crowdppl.arguments import PositiveFloat, PositiveInt, Seed, checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.synthetic.simulation import Array, Simulation, assigned, drawn_from
from crowdppl.errors import OptionError

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
    item, worker = assigned(rng, len(x), workers, per_item)
    probability = np.empty((len(item), K))
    for j in range(workers):
        own = worker == j
        copy = [w + noise[group[j]] * w.std() * rng.normal(size=w.shape) for w in layers]
        probability[own] = softmax(_logits(copy, standard[item[own]]), 1)
    names = np.unique(worker)
    data = Annotations.from_arrays(
        item, worker, drawn_from(rng, probability), labels=range(K), features=x, workers=names
    )
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
    from scipy.optimize import minimize  # here: slow to import

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
