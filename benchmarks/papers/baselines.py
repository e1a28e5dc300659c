"""Shared by the experiments of the papers: sets with features, the common network, hard labels, and figures."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from scipy.stats import rankdata

from crowdppl import Annotations, CrowdpplWarning
from crowdppl.data import datasets
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


def with_features(name: str) -> tuple[Annotations, pd.Series, Any]:
    """Return a public set with its features, its true classes by item, and the file of the features, which has others, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        votes, truth = datasets.public(name)
    folder = datasets.folder()
    assert folder is not None
    z = np.load(folder / name / "features.npz", allow_pickle=False)
    return votes.with_features(pd.DataFrame(z["x"], index=z["items"])).to(dtype=torch.float32), truth, z


def auc(score: np.ndarray, truth: np.ndarray) -> float:
    """Return the area under the ROC curve."""
    ones = truth == 1
    return float((rankdata(score)[ones].sum() - ones.sum() * (ones.sum() + 1) / 2) / (ones.sum() * (~ones).sum()))
