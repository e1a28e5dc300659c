"""Class scores: what the features of an item say of its class, learned from the votes on the other items.

Ridge regression (A. E. Hoerl and R. W. Kennard 1970, Technometrics 12, 55-67) of vote shares on standardised features. The score
of an item is predicted by the regression on all other items, so that it does not repeat the item's own labels: where there are
nearly as many features as items, a classifier that has seen them does little else. Scores of this kind are what stacking
combines (D. H. Wolpert 1992, Neural Networks 5, 241-259)::

    votes        Y         (N, K)    shares of votes weighted by competence, less their mean
    features     X         (N, D)    standardised
    weights      W         (D, K)    (X'X + N r I)^-1 X'Y
    leverage     h_i                 1/N + x_i' (X'X + N r I)^-1 x_i
    score        o_i       (K,)      Y_i - (Y_i - x_i'W) / (1 - h_i)

The last line is exact (D. M. Allen 1974, Technometrics 16, 125-127). The penalty ``r`` has the least squared error of
these leave-one-out predictions. Features without information predict no better than the mean votes of the other items do. Unless
the error is smaller than that of the mean by ``LEAST`` standard errors, the scores are 0.

Tokens of a sequence are not independent: the same workers labelled them, and a word that comes twice got the same error twice.
Their scores are predicted by regressions on the sequences of other folds, and standard errors are those between sequences.

What scores add to the labels is measured on each label given the others of its item. With ``s_i`` the vote shares that features
predict, and ``m`` and ``c`` the numbers of labels that these and the class shares ``p`` count for, at the highest likelihood::

    p(label_n | others of its item) = (others with that label + m s_il + c p_l) / (others + m + c)

With few labels an item ``m`` is worth much beside them; with many the others tell all, and scores repeat what they say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError
from crowdppl.model.networks import Standardise
from crowdppl.model.weighted_votes import weighted_votes

# Penalties for each item, of features with standard deviation 1.
PENALTIES = tuple(10 ** (n / 3) for n in range(-9, 10))
# Standard errors by which the squared error of scores must be smaller than that of the mean votes.
LEAST = 2.0
# Numbers of labels that scores, and class shares, may count for.
COUNTS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0)
# Smallest probability of a label in its prediction by features.
FLOOR = 1e-3
# Multiplications above which scores are not learned by default: some seconds.
MOST = 3e10
# Parts that sequences are divided into: each is predicted from the others.
FOLDS = 10
# Bounds of the largest score, in the codes of tokens: differences in predicted vote shares.
BOUNDS = (0.05, 0.15, 0.3, 0.5)
# Name under which a result stores the classifier.
NAME = "class_scores"


class Classifier(NamedTuple):
    """A linear classifier of features, for new items.

    Attributes:
        mean: of the features, ``(D,)``.
        scale: their standard deviations, ``(D,)``.
        weights: ``(D, K)``.
    """

    mean: Tensor
    scale: Tensor
    weights: Tensor

    def scores(self, features: Tensor) -> Tensor:
        """Return scores ``(N, K)`` of items with features ``(N, D)`` that it has not learned from.

        Raises:
            ModelError: for another number of features.
        """
        if features.shape[-1] != len(self.mean):
            raise ModelError(f"items with {features.shape[-1]:,} features; the classifier has {len(self.mean):,}")
        mean, scale, weights = (part.to(features.device, features.dtype) for part in self)
        return ((features - mean) / scale) @ weights

    def state(self) -> dict[str, Tensor]:
        """Return its numbers by name, as a result stores them."""
        return {f"{NAME}.{name}": value.cpu() for name, value in self._asdict().items()}

    @classmethod
    def of_state(cls, state: Mapping[str, Tensor]) -> Classifier:
        """Return the classifier of such numbers.

        Raises:
            ModelError: where they are missing.
        """
        try:
            return cls(*(state[f"{NAME}.{name}"] for name in cls._fields))
        except KeyError:
            raise ModelError(
                "this result has no classifier of features; pass one of the model that was fitted"
            ) from None


class ClassScores(NamedTuple):
    """Scores of the items of a data set.

    Attributes:
        scores: of the classes, ``(N, K)``; 0 where features have no information.
        classifier: learned from all items, for new ones.
        errors: standard errors by which their squared error is smaller than that of the mean votes.
        added: what scores add to the other labels of an item, as a share of all that both say of a label beyond the class shares.
    """

    scores: Tensor
    classifier: Classifier
    errors: float
    added: float


def cost(data: Annotations) -> float:
    """Return the number of multiplications that scores take, about."""
    return float(data.N) * data.D * min(data.N, data.D)


def learned(data: Annotations) -> ClassScores:
    """Return the scores of the items of annotations with features; of items without labels, the classifier's.

    Raises:
        ModelError: for annotations without features.
    """
    features = data.features
    if features is None:
        raise ModelError("class scores are learned from features of items, and the data have none")
    with torch.no_grad():
        votes, some = weighted_votes(data).double(), (data.annotations_per_item > 0) | (data.truth >= 0)
        x, y = features.double()[some], votes[some]
        N = len(x)
        if N < 3:
            nothing = Standardise(features.double())
            empty = Classifier(nothing.mean, nothing.scale, nothing.mean.new_zeros(data.D, data.K))
            return ClassScores(torch.zeros_like(votes).to(data.dtype), empty, 0.0, 0.0)
        standard = Standardise(x)
        x, y = standard(x), y - y.mean(0)
        if data.sequence is None or data.set_labels is not None:
            scores, weights, errors = _leaving_one_out(x, y)
        else:
            scores, weights, errors = _leaving_sequences_out(x, y, data.sequence[some])
        if errors < LEAST:
            scores, weights = torch.zeros_like(scores), torch.zeros_like(weights)
        classifier = Classifier(standard.mean, standard.scale, weights)
        out = classifier.scores(features.double())
        out[some] = scores
        return ClassScores(out.to(data.dtype), classifier, errors, _added(data, out))


def _added(data: Annotations, scores: Tensor) -> float:
    """Return what scores ``(N, K)`` add to the other labels of an item, as a share of all that both say of a label."""
    item, label = data.item, data.label
    if not data.A:
        return 0.0
    weight = torch.ones(data.A, device=item.device) if data.weight is None else data.weight[item]
    weight = weight.double() / weight.sum()  # (A,)
    counts = torch.bincount(item * data.K + label, minlength=data.N * data.K).double()
    shares = torch.bincount(label, weight, minlength=data.K)  # (K,)
    predicted = (shares + scores).clamp(min=FLOOR)
    predicted = predicted / predicted.sum(-1, keepdim=True)
    same = counts[item * data.K + label] - 1  # (A,)
    others = data.annotations_per_item.double()[item] - 1
    by_features, by_share = predicted[item, label], shares[label]

    def loss(scores_for: float, shares_for: float) -> float:
        p = (same + scores_for * by_features + shares_for * by_share) / (others + scores_for + shares_for)
        return -float((weight * p.log()).sum())

    nothing = -float((weight * by_share.log()).sum())
    alone = min(nothing, *(loss(0.0, c) for c in COUNTS[1:]))
    both = min(alone, *(loss(m, c) for m in COUNTS[1:] for c in COUNTS[1:]))
    return (alone - both) / (nothing - both) if both < nothing else 0.0


def codes(scores: Tensor) -> Tensor:
    """Return what scores ``(N, K)`` say in one word, ``(N,)`` int64 below :func:`number_of_codes`.

    The class that gains most over the mean votes, and by how much (``BOUNDS``); 0 where no class gains anything to speak of.
    """
    most, which = scores.max(-1)
    bounds = torch.tensor(BOUNDS, dtype=scores.dtype, device=scores.device)
    size = torch.bucketize(most, bounds)  # 0 to len(BOUNDS)
    return torch.where(size > 0, which * len(BOUNDS) + size, 0)


def number_of_codes(K: int) -> int:
    """Return how many codes there are for ``K`` classes."""
    return 1 + K * len(BOUNDS)


def _leaving_one_out(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, float]:
    """Return scores ``(N, K)``, the weights ``(D, K)`` of all items, and the standard errors by which they beat the mean."""
    N = len(x)
    values, rotated, back = _principal(x)
    own = rotated.T @ y  # (R, K)
    nobody = y * N / (N - 1)  # off the mean of the others
    best, scores, shrunk, left = torch.inf, nobody, own, nobody
    for penalty in PENALTIES:
        divided = own / (values + N * penalty).unsqueeze(-1)
        leverage = 1 / N + rotated.square() @ (1 / (values + N * penalty))
        off = (y - rotated @ divided) / (1 - leverage).clamp(min=1e-9).unsqueeze(-1)
        loss = float(off.square().sum())
        if loss < best:
            best, scores, shrunk, left = loss, y - off, divided, off
    return scores, back @ shrunk, _standard_errors(nobody.square().sum(-1) - left.square().sum(-1))


def _leaving_sequences_out(x: Tensor, y: Tensor, sequence: Tensor) -> tuple[Tensor, Tensor, float]:
    """Return the same where the sequences of a fold are left out together; ``sequence (N,)`` ascends."""
    _, number = torch.unique_consecutive(sequence, return_inverse=True)
    count = int(number[-1]) + 1
    fold = number * min(FOLDS, count) // count
    values, rotated, back = _principal(x)
    products = [(rotated[part].T @ rotated[part], rotated[part].T @ y[part]) for part in _members(fold)]
    gram, own = (sum(parts) for parts in zip(*products, strict=True))
    nobody, losses = torch.zeros_like(y), torch.zeros(len(PENALTIES), dtype=torch.float64)
    predicted = y.new_zeros(len(PENALTIES), *y.shape)
    for part, (less, votes) in zip(_members(fold), products, strict=True):
        mean = (y.sum(0) - y[part].sum(0)) / max(1, len(y) - len(part))
        nobody[part] = y[part] - mean
        root, vectors = torch.linalg.eigh(gram - less)
        along, turned = vectors.T @ (own - votes), rotated[part] @ vectors
        for n, penalty in enumerate(PENALTIES):
            predicted[n, part] = mean + turned @ (along / (root.clamp(min=0) + len(y) * penalty).unsqueeze(-1))
            losses[n] += float((y[part] - predicted[n, part]).square().sum())
    best = int(losses.argmin())
    gain = nobody.square().sum(-1) - (y - predicted[best]).square().sum(-1)
    by_sequence = torch.zeros(count, dtype=gain.dtype).index_add(0, number.cpu(), gain.cpu())
    weights = back @ (own / (values + len(y) * PENALTIES[best]).unsqueeze(-1))
    return predicted[best], weights, _standard_errors(by_sequence)


def _members(fold: Tensor) -> list[Tensor]:
    """Return the items of each fold, which ascend."""
    return list(torch.arange(len(fold), device=fold.device).split(fold.bincount().tolist()))


def _standard_errors(gain: Tensor) -> float:
    """Return a sum of gains in its standard errors."""
    return float(gain.sum() / (gain.std().clamp(min=1e-12) * math.sqrt(len(gain)))) if len(gain) > 1 else 0.0


def _principal(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return eigenvalues ``(R,)`` of ``X'X``, ``Z (N, R)`` and ``B (D, R)`` with ``X (X'X + p I)^-1 X' = Z diag(1/(v+p)) Z'``.

    The weights are ``B diag(1/(v+p)) Z'Y``. By the smaller of the matrices of all pairs of features, or of items.
    """
    N, D = x.shape
    if D <= N:
        values, vectors = torch.linalg.eigh(x.T @ x)
        return values.clamp(min=0), x @ vectors, vectors
    values, vectors = torch.linalg.eigh(x @ x.T)
    values = values.clamp(min=0)
    return values, vectors * values.sqrt(), x.T @ (vectors / values.sqrt().clamp(min=1e-12)) * (values > 1e-9)
