"""The estimators of the crowd mixture paper as its authors' program has them, with each of its choices as an option.

Written from what the program (github.com/fmenat/MixtureofGroups) does, to find out which of its choices make its figures: one
pseudo-annotation in every cell of every matrix, a stop when log-likelihood and matrices change by less than 3%, a perceptron of
16 units, and ties of votes that go to the first class.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.cluster import KMeans

from crowdppl import Annotations

TINY = float(np.finfo(np.float32).eps)
STOP = 0.03
EPOCHS = 50


class Perceptron:
    """A perceptron with one hidden layer on standardised features, trained by cross-entropy on soft labels, by Adam.

    Args:
        x: features ``(N, D)``.
        K: number of classes.
        seed: of weights and batches.
        hidden: units of the hidden layer.
        dropout: behind it.
        standard: whether features are standardised.
    """

    def __init__(self, x: np.ndarray, K: int, seed: int, hidden: int = 16, dropout: float = 0.2, standard: bool = True):
        torch.manual_seed(seed)
        spread = x.std(0)
        self.mean = x.mean(0) if standard else 0.0
        self.scale = np.where(spread > 0, spread, 1.0) if standard else 1.0
        self.x = self._standard(x)
        self.network = torch.nn.Sequential(
            torch.nn.Linear(x.shape[1], hidden), torch.nn.ReLU(), torch.nn.Dropout(dropout), torch.nn.Linear(hidden, K)
        )
        for layer in (self.network[0], self.network[3]):  # Keras starts here, with a larger last layer than PyTorch
            torch.nn.init.xavier_uniform_(layer.weight)
            torch.nn.init.zeros_(layer.bias)
        self.adam = torch.optim.Adam(self.network.parameters())

    def _standard(self, x: np.ndarray) -> torch.Tensor:
        return torch.as_tensor((x - self.mean) / self.scale, dtype=torch.float32)

    def epoch(self, targets: np.ndarray) -> float:
        """Pass over the items once, in batches of 64; return the mean loss."""
        t, loss = torch.as_tensor(targets, dtype=torch.float32), 0.0
        self.network.train()
        for index in torch.randperm(len(self.x)).split(64):
            self.adam.zero_grad()
            one = -(t[index] * torch.log_softmax(self.network(self.x[index]), -1)).sum(-1).mean()
            one.backward()
            self.adam.step()
            loss += one.item() * len(index) / len(self.x)
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
        self.network.eval()
        with torch.no_grad():
            return torch.softmax(self.network(self.x if x is None else self._standard(x)), -1).double().numpy()

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
    """

    pseudo: float = 1.0
    stop: float = STOP
    runs: int = 20
    hard: bool = False
    hidden: int = 16
    dropout: float = 0.2
    standard: bool = True

    def network(self, data: Annotations, seed: int) -> Perceptron:
        """Return a new perceptron for the data."""
        assert data.features is not None
        return Perceptron(data.features.numpy(), data.K, seed, self.hidden, self.dropout, self.standard)


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


def em(data: Annotations, seed: int, choices: Choices) -> tuple[Perceptron, np.ndarray]:
    """Fit DL-EM; return the classifier and the annotators' matrices ``(J, K, K)``."""
    shares = data.majority().numpy()
    best: tuple[float, Perceptron | None, np.ndarray] = (-np.inf, None, np.eye(data.K))
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
        if max(values) > best[0]:
            best = (max(values), network, B)
    assert best[1] is not None
    return best[1], best[2]


def mixture(data: Annotations, seed: int, choices: Choices, groups: int = 3) -> tuple[Perceptron, np.ndarray]:
    """Fit CMM; return the classifier and the crowd's matrix ``(K, K)``. Groups start at k-means over (item, label) cells."""
    shares, K = data.majority().numpy(), data.K
    votes = data.votes.numpy()
    cost = -shares[:, None, :] * np.log(np.where(np.eye(K) > 0, 1.0, TINY))  # (N, label, truth)
    points = cost.reshape(-1, K)
    points = (points - points.mean(0)) / points.std(0)
    group = np.eye(groups)[KMeans(groups, n_init=1, random_state=0).fit(points).labels_].reshape(-1, K, groups)
    best: tuple[float, Perceptron | None, np.ndarray] = (-np.inf, None, np.eye(K))
    for run in range(choices.runs):
        network = choices.network(data, 1000 * seed + run)
        q, before, values = group[..., None] * shares[:, None, None, :], None, []  # (N, label, group, truth)
        for _ in range(EPOCHS):
            r = q * votes[:, :, None, None]
            network.epoch(r.sum((1, 2)))
            alpha = r.sum((0, 1, 3)) + choices.pseudo
            alpha /= alpha.sum()
            B = _rows(r.sum(0).transpose(1, 2, 0) + choices.pseudo)  # (group, truth, label)
            q = network.predict()[:, None, None, :] * alpha[:, None] * B.transpose(2, 0, 1)
            given = q.sum((2, 3))
            q = q / given[:, :, None, None]
            values.append(float((votes * np.log(given + TINY)).sum()))
            if before is not None and max(_change(B, before), _change(*np.array(values[:-3:-1]))) <= choices.stop:
                break
            before = B
        if max(values) > best[0]:
            best = (max(values), network, np.einsum("m,mkl->kl", alpha, B))
    assert best[1] is not None
    return best[1], best[2]


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
