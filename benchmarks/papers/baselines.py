"""Shared by the experiments of the papers: classifiers trained on votes or on the truth, and figures."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from crowdppl import Annotations
from crowdppl.model.networks import perceptron, standardised

sys.path.insert(0, str(Path(__file__).parents[1]))
mpl.use("Agg")
IMAGES = Path(__file__).parents[2] / "docs/images"


def save(figure: Figure, name: str) -> None:
    """Write a figure to docs/images as a small PNG, unless ``--quick``."""
    if "--quick" not in sys.argv:
        # The name and version of Matplotlib in the file would change it without a change of the picture.
        figure.savefig(IMAGES / name, dpi=110, metadata={"Software": None})
    plt.close(figure)


class Trained:
    """A perceptron trained by cross-entropy on soft labels; the epoch is chosen on held-out items, if there are any.

    Args:
        features: ``(N, D)``.
        targets: ``(N, K)``, rows summing to one.
        seed: of weights and batches.
        hidden: units of its layers.
        dropout: of its layers.
        epochs: passes over the items.
        rate: of Adam.
        batch: items per step.
        validation: features and classes to choose the epoch on.
        standard: whether features are standardised.
        network: makes another classifier from the numbers of features and classes.
    """

    def __init__(
        self,
        features: np.ndarray,
        targets: np.ndarray,
        *,
        seed: int,
        hidden: tuple[int, ...] = (128,),
        dropout: float = 0.5,
        epochs: int = 50,
        rate: float = 1e-3,
        batch: int = 64,
        validation: tuple[np.ndarray, np.ndarray] | None = None,
        standard: bool = True,
        network: Callable[[int, int], torch.nn.Module] | None = None,
    ):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            x, t = (torch.as_tensor(np.asarray(v), dtype=torch.float32) for v in (features, targets))
            sizes = x.shape[1], t.shape[1]
            plain = perceptron(*sizes, hidden, dropout) if network is None else network(*sizes)
            self.network = standardised(plain, x) if standard else plain
            adam = torch.optim.Adam(self.network.parameters(), lr=rate)
            best, kept = -1.0, None
            for _ in range(epochs):
                self.network.train()
                for index in torch.randperm(len(x)).split(batch):
                    adam.zero_grad()
                    loss = -(t[index] * torch.log_softmax(self.network(x[index]), -1)).sum(-1).mean()
                    loss.backward()
                    adam.step()
                if validation is not None and (score := self.accuracy(*validation)) > best:
                    best, kept = score, {k: v.clone() for k, v in self.network.state_dict().items()}
            if kept is not None:
                self.network.load_state_dict(kept)

    def accuracy(self, features: np.ndarray, truth: np.ndarray) -> float:
        """Return the accuracy on items of known class (codes)."""
        self.network.eval()
        with torch.no_grad():
            predicted = self.network(torch.as_tensor(np.asarray(features), dtype=torch.float32)).argmax(-1).numpy()
        return float((predicted == truth).mean())


def crowd_layer(
    data: Annotations,
    *,
    seed: int,
    free: bool,
    validation: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    standard: bool = True,
    epochs: int = 40,
) -> float:
    """Train a crowd layer (Rodrigues and Pereira 2018), CoNAL without the common part, and return its test accuracy.

    Args:
        data: annotations with features.
        seed: of weights and batches.
        free: matrices as the authors have them, free, with a softmax behind; else rows of probabilities.
        validation: features and classes to choose the epoch on.
        test: features and classes to test on.
        standard: whether features are standardised.
        epochs: passes over the annotations.
    """
    x = data.features.float()
    held = [(torch.as_tensor(f, dtype=torch.float32), torch.as_tensor(y)) for f, y in (validation, test)]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = perceptron(x.shape[1], data.K, (128,), 0.5)
        network = standardised(network, x) if standard else network
        matrices = torch.nn.Parameter((2 * torch.eye(data.K)).expand(data.J, data.K, data.K).clone())
        adam = torch.optim.Adam([*network.parameters(), matrices], lr=1e-3)
        best = (-1.0, 0.0)
        for _ in range(epochs):
            network.train()
            for index in torch.randperm(data.A).split(64):
                adam.zero_grad()
                f = torch.softmax(network(x[data.item[index]]), -1)
                W = matrices[data.worker[index]]
                mixed = torch.einsum("nk,nkl->nl", f, W if free else torch.softmax(W, -1))
                logs = torch.log_softmax(mixed, -1) if free else mixed.clamp(min=1e-9).log()
                torch.nn.functional.nll_loss(logs, data.label[index]).backward()
                adam.step()
            network.eval()
            with torch.no_grad():
                valid, there = (float((network(f).argmax(-1) == y).float().mean()) for f, y in held)
            if valid > best[0]:
                best = (valid, there)
    return best[1]


def hard(shares: np.ndarray, seed: int) -> np.ndarray:
    """Return one-hot majority labels from vote shares ``(N, K)``; ties are broken at random."""
    noise = np.random.default_rng(seed).random(shares.shape) * 1e-9
    return np.eye(shares.shape[1])[(shares + noise).argmax(1)]
