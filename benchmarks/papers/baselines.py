"""Shared by the experiments of the papers: the common network, hard labels, and figures."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from crowdppl import Annotations
from crowdppl.data.experiments import thinned
from crowdppl.learning.targets import hardened
from crowdppl.model.networks import perceptron
from crowdppl.models import LIA

sys.path.insert(0, str(Path(__file__).parents[1]))
mpl.use("Agg")
IMAGES = Path(__file__).parents[2] / "docs/images"
VOTE_DRAWS = 50  # subsets of the annotations on which votes are counted, which takes no time
# The default schedule of LIA, a tenth of the paper's gradient steps, three times as long; intervals are not used.
SCHEDULE = {**LIA().engine_defaults["em"], "num_samples": 2}


def save(figure: Figure, name: str) -> None:
    """Write a figure to docs/images as a small PNG, unless ``--quick``."""
    if "--quick" not in sys.argv:
        # The name and version of Matplotlib in the file would change it without a change of the picture.
        figure.savefig(IMAGES / name, dpi=110, metadata={"Software": None})
    plt.close(figure)


def plain(inputs: int, outputs: int) -> torch.nn.Module:
    """Make a hidden layer of 128 with dropout .5 of features that are not standardised."""
    return perceptron(inputs, outputs, (128,), 0.5)


def of_votes(data: Annotations, truth: pd.Series, per_item: int) -> list[float]:
    """Return the accuracy of a majority vote on random subsets of the annotations; a tie is right by half."""
    out = []
    for seed in range(VOTE_DRAWS):
        part = thinned(data, per_item=per_item, seed=seed)
        share = part.majority().numpy()[np.arange(part.N), truth.loc[part.items].to_numpy()]
        out.append(float(np.where(share == 0.5, 0.5, share > 0.5).mean()))
    return out


def hard(shares: np.ndarray, seed: int) -> np.ndarray:
    """Return one-hot majority labels from vote shares ``(N, K)``; ties are broken at random."""
    return hardened(torch.as_tensor(shares), seed).numpy()
