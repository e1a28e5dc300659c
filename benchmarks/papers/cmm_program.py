"""The estimators of the crowd mixture paper as its authors' program has them, with each of its choices as an option.

Written from what the program (github.com/fmenat/MixtureofGroups) does, to find out which of its choices make its figures: one
pseudo-annotation in every cell of every matrix, a stop when log-likelihood and matrices change by less than 3%, a perceptron of
16 units, and ties of votes that go to the first class.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.cluster import KMeans

from crowdppl import Annotations

TINY = float(np.finfo(np.float32).eps)
STOP = 0.03
EPOCHS = 50


class Perceptron:
    """A perceptron with one hidden layer on standardised features, trained by cross-entropy on soft labels, by Adam.

    The gradients are written out in NumPy: at 16 units the overhead of a graph is most of the time.

    Args:
        x: features ``(N, D)``.
        K: number of classes.
        seed: of weights, batches and dropout.
        hidden: units of the hidden layer.
        dropout: behind it.
        standard: whether features are standardised.
        batch: items in a batch.
    """

    def __init__(
        self,
        x: np.ndarray,
        K: int,
        seed: int,
        hidden: int = 16,
        dropout: float = 0.2,
        standard: bool = True,
        batch: int = 64,
    ):
        spread = x.std(0)
        self.mean = x.mean(0) if standard else 0.0
        self.scale = np.where(spread > 0, spread, 1.0) if standard else 1.0
        self.x = self._standard(x)
        self.rng, self.dropout, self.batch = np.random.default_rng(seed), dropout, batch
        shapes = [(x.shape[1], hidden), (hidden,), (hidden, K), (K,)]
        ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])
        # One vector of weights, of which the layers are views, so that a step of Adam is a few operations.
        self.weights, self.slope = np.zeros((2, ends[-1]), dtype=np.float32)
        self.layers, self.slopes = (
            [vector[a:b].reshape(shape) for a, b, shape in zip(ends, ends[1:], shapes, strict=False)]
            for vector in (self.weights, self.slope)
        )
        for layer in (self.layers[0], self.layers[2]):  # Keras starts here
            bound = np.sqrt(6 / sum(layer.shape))
            layer[:] = self.rng.uniform(-bound, bound, layer.shape)
        self.first, self.second, self.steps = np.zeros_like(self.weights), np.zeros_like(self.weights), 0

    def _standard(self, x: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray((x - self.mean) / self.scale, dtype=np.float32)

    def gradient(self, x: np.ndarray, t: np.ndarray, keep: np.ndarray | float = 1.0) -> float:
        """Write the gradient of the mean loss of a batch into ``slope`` and return the loss; ``keep`` multiplies hidden units."""
        W, b, V, c = self.layers
        hidden = np.maximum(x @ W + b, 0) * keep
        logits = hidden @ V + c
        logits -= logits.max(-1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
        d = (np.exp(logits) * t.sum(-1, keepdims=True) - t) / len(t)
        np.matmul(hidden.T, d, out=self.slopes[2])
        d.sum(0, out=self.slopes[3])
        back = (d @ V.T) * keep * (hidden > 0)
        np.matmul(x.T, back, out=self.slopes[0])
        back.sum(0, out=self.slopes[1])
        return float(-(t * logits).sum() / len(t))

    def _step(self) -> None:
        """Take a step of Adam with its usual settings."""
        self.steps += 1
        self.first += 0.1 * (self.slope - self.first)
        self.second += 0.001 * (self.slope**2 - self.second)
        size = 1e-3 * np.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
        self.weights -= np.float32(size) * self.first / (np.sqrt(self.second) + TINY)

    def epoch(self, targets: np.ndarray) -> float:
        """Pass over the items once in batches; return the mean loss."""
        t, loss, N = targets.astype(np.float32), 0.0, len(self.x)
        order = self.rng.permutation(N)
        for start in range(0, N, self.batch):
            index = order[start : start + self.batch]
            kept = self.rng.random((len(index), len(self.layers[1])), dtype=np.float32) >= self.dropout
            keep = kept / np.float32(1 - self.dropout)
            loss += self.gradient(self.x[index], t[index], keep) * len(index) / N
            self._step()
        return loss

    def train(self, targets: np.ndarray, stop: float = STOP) -> Perceptron:
        """Train for at most 50 epochs, until the loss changes by less than the fraction ``stop``; 0 for all 50."""
        before = np.inf
        for _ in range(EPOCHS):
            loss = self.epoch(targets)
            if abs(before - loss) < stop * before < np.inf:
                break
            before = loss
        return self

    def predict(self, x: np.ndarray | None = None) -> np.ndarray:
        """Return class probabilities ``(n, K)``, of the training items by default."""
        W, b, V, c = self.layers
        logits = (np.maximum((self.x if x is None else self._standard(x)) @ W + b, 0) @ V + c).astype(float)
        chance = np.exp(logits - logits.max(-1, keepdims=True))
        return chance / chance.sum(-1, keepdims=True)

    def accuracy(self, x: np.ndarray, truth: np.ndarray) -> float:
        """Return the accuracy on items of known class."""
        return float((self.predict(x).argmax(1) == truth).mean())


@dataclass(frozen=True)
class Choices:
    """What the program chooses.

    Attributes:
        pseudo: pseudo-annotations in every cell of every matrix.
        stop: largest relative change of log-likelihood and matrices at which EM stops; 0 for 50 iterations.
        runs: number of runs from other weights; the one of the highest log-likelihood is kept.
        hard: whether EM starts at the hard majority, and not at the shares of the votes.
        hidden: units of the perceptron.
        dropout: of the perceptron.
        standard: whether features are standardised.
        batch: items in a batch.
        weighted: whether each group of CMM starts at a mean of the votes and of the label itself, with a random weight.
    """

    pseudo: float = 1.0
    stop: float = STOP
    runs: int = 20
    hard: bool = False
    hidden: int = 16
    dropout: float = 0.2
    standard: bool = True
    batch: int = 64
    weighted: bool = True

    def network(self, data: Annotations, seed: int) -> Perceptron:
        """Return a new perceptron for the data."""
        assert data.features is not None
        return Perceptron(data.features.numpy(), data.K, seed, self.hidden, self.dropout, self.standard, self.batch)


@dataclass(frozen=True)
class Fitted:
    """What the program keeps of its runs: the one of the highest log-likelihood.

    Attributes:
        network: the classifier.
        each: the annotators' matrices ``(J, K, K)``.
        crowd: the crowd's matrix ``(K, K)``, by which G-JS is measured.
        iterations: of a run until its stop, mean over runs.
        share: of the groups ``(M,)``; empty where there are none.
        groups: their matrices ``(M, K, K)``.
    """

    network: Perceptron
    each: np.ndarray
    crowd: np.ndarray
    iterations: float
    share: np.ndarray
    groups: np.ndarray


def first_class(shares: np.ndarray) -> np.ndarray:
    """Return one-hot majority labels from vote shares ``(N, K)``; the first of the tied classes wins."""
    return np.eye(shares.shape[1])[shares.argmax(1)]


def skene(data: Annotations, pseudo: float = 0.0, stop: float = STOP) -> tuple[np.ndarray, np.ndarray]:
    """Return class probabilities ``(N, K)`` and matrices ``(J, K, K)`` of Dawid and Skene's EM from the shares of the votes.

    It stops where matrices and log-likelihood change by less than ``stop``; the prevalence is not looked at.
    """
    q, before = data.majority().numpy(), None
    for _ in range(EPOCHS):
        prevalence, B = q.mean(0), _rows(_counts(data, q) + pseudo)
        with np.errstate(divide="ignore"):
            joint = np.log(prevalence) + _log_likelihoods(data, np.log(B))
        highest = joint.max(-1, keepdims=True)
        q = np.exp(joint - highest)
        value = np.log(q.sum(-1)).sum() + highest.sum()
        q /= q.sum(-1, keepdims=True)
        now = (B, np.array(value))
        if before is not None and all(_change(a, b) <= stop for a, b in zip(now, before, strict=True)):
            break
        before = now
    return q, B


def em(data: Annotations, seed: int, choices: Choices) -> Fitted:
    """Fit DL-EM."""
    shares = data.majority().numpy()
    best: tuple[float, Perceptron | None, np.ndarray] = (-np.inf, None, np.eye(data.K))
    iterations = []
    for run in range(choices.runs):
        network = choices.network(data, 1000 * seed + run)
        q, before, values = first_class(shares) if choices.hard else shares, None, []
        for _ in range(EPOCHS):
            network.epoch(q)
            B = _rows(_counts(data, q) + choices.pseudo)
            joint = np.log(network.predict() + TINY) + _log_likelihoods(data, np.log(B + TINY))
            highest = joint.max(-1, keepdims=True)
            q = np.exp(joint - highest)
            values.append(float(np.log(q.sum(-1)).sum() + highest.sum()))
            q /= q.sum(-1, keepdims=True)
            if before is not None and max(_change(B, before), _change(*np.array(values[:-3:-1]))) <= choices.stop:
                break
            before = B
        iterations.append(len(values))
        if max(values) > best[0]:
            best = (max(values), network, B)
    assert best[1] is not None
    none = np.zeros((0, data.K, data.K))
    return Fitted(best[1], best[2], best[2].mean(0), float(np.mean(iterations)), none[:, 0, 0], none)


def mixture(data: Annotations, seed: int, choices: Choices, groups: int = 3) -> Fitted:
    """Fit CMM. Groups start at k-means over pairs of item and label.

    An annotator's matrix is that of the groups in proportion to the probability of all of the annotator's labels in each.
    """
    shares, K = data.majority().numpy(), data.K
    votes = data.votes.numpy()
    cost = -shares[:, None, :] * np.log(np.where(np.eye(K) > 0, 1.0, TINY))  # (N, label, truth)
    points = cost.reshape(-1, K)
    points = (points - points.mean(0)) / points.std(0)
    group = np.eye(groups)[KMeans(groups, n_init=1, random_state=0).fit(points).labels_].reshape(-1, K, groups)
    best: tuple[float, Perceptron | None, np.ndarray, np.ndarray] = (-np.inf, None, np.ones(groups), np.eye(K))
    iterations = []
    for run in range(choices.runs):
        network = choices.network(data, 1000 * seed + run)
        weight = np.random.default_rng([seed, run]).random(groups) if choices.weighted else np.ones(groups)
        targets, counts = _start(votes, shares, group, weight)
        before, values = None, []
        for _ in range(EPOCHS):
            network.epoch(targets)
            alpha = counts.sum((1, 2)) + choices.pseudo
            alpha /= alpha.sum()
            B = _rows(counts + choices.pseudo)  # (group, truth, label)
            f, joint = network.predict(), alpha[:, None, None] * B
            given = f @ joint.sum(0)  # (N, label)
            ratio = votes / given
            targets, counts = f * (ratio @ joint.sum(0).T), joint * (f.T @ ratio)
            values.append(float((votes * np.log(given + TINY)).sum()))
            if before is not None and max(_change(B, before), _change(*np.array(values[:-3:-1]))) <= choices.stop:
                break
            before = B
        iterations.append(len(values))
        if max(values) > best[0]:
            best = (max(values), network, alpha, B)
    assert best[1] is not None
    _, network, alpha, B = best
    each = np.einsum("jm,mkl->jkl", _membership(data, network, alpha, B), B)
    return Fitted(network, each, np.einsum("m,mkl->kl", alpha, B), float(np.mean(iterations)), alpha, B)


def _start(
    votes: np.ndarray, shares: np.ndarray, group: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first targets of the network ``(N, K)`` and counts of the groups ``(M, truth, label)``.

    Responsibilities (N, label, group, truth) are needed only in their sums over labels and groups, and over items. Those of a
    label and a group are the vote shares with the group's weight, and the label itself with the rest.
    """
    by_votes = np.einsum("nl,nlm,nk->mkl", votes, group, shares, optimize=True)
    itself = np.einsum("nl,nlm->ml", votes, group)[:, None, :] * np.eye(votes.shape[1])
    counts = weight[:, None, None] * by_votes + (1 - weight)[:, None, None] * itself
    labels = np.einsum("nl,nlm->nlm", votes, group)
    return (labels.sum(1) @ weight)[:, None] * shares + labels @ (1 - weight), counts


def _membership(data: Annotations, network: Perceptron, share: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return the probability of each group ``(J, M)`` given all labels of an annotator and the features of the items."""
    given = np.einsum("nk,mkl->nlm", network.predict(), groups)  # (N, label, group)
    logs = np.tile(np.log(share + TINY), (data.J, 1))
    np.add.at(logs, data.worker.numpy(), np.log(given[data.item.numpy(), data.label.numpy()] + TINY))
    chance = np.exp(logs - logs.max(-1, keepdims=True))
    return chance / chance.sum(-1, keepdims=True)


def _change(now: np.ndarray, before: np.ndarray) -> float:
    return float(np.mean(np.abs(now - before) / (np.abs(before) + TINY)))


def _counts(data: Annotations, q: np.ndarray) -> np.ndarray:
    counts = np.zeros((data.J, data.K, data.K))  # (worker, label, truth)
    np.add.at(counts, (data.worker.numpy(), data.label.numpy()), q[data.item.numpy()])
    return counts.transpose(0, 2, 1)


def _rows(counts: np.ndarray) -> np.ndarray:
    """Return rows that sum to one; rows without annotations are uniform."""
    total = counts.sum(-1, keepdims=True)
    return np.divide(counts, total, out=np.full_like(counts, 1 / counts.shape[-1]), where=total > 0)


def _log_likelihoods(data: Annotations, logs: np.ndarray) -> np.ndarray:
    """Sum ``log B[worker, truth, label]`` over the annotations of each item: ``(N, K)``."""
    sums = np.zeros((data.N, data.K))
    np.add.at(sums, data.item.numpy(), logs[data.worker.numpy(), :, data.label.numpy()])
    return sums
