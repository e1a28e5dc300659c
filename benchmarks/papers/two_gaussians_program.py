"""The one sample of the difficulty paper's authors, and their program's algorithms on it.

Written from what the program (github.com/Newbeeer/statistical-learning-course-project) does, in NumPy. Its choices that matter:
the points are drawn once, with seed 1228; the reported accuracy is that of the best of 30 epochs on the test points.
"""

from __future__ import annotations

from typing import Any

import baselines  # noqa: F401 - puts the folder of common on the path
import numpy as np
from common import fit, spread, table
from scipy.special import expit, logit, softmax
from two_gaussians import MODELS, PAPER

import crowdppl
from crowdppl.data.synthetic import Simulation, two_gaussians

LABELS = 1234  # the authors' seed
EPOCHS = 30
# The program moves lambda 1,000 times an epoch by .0001 times the gradient. It hardly changes, so one step stands for them.
STEP = 1000 * 1e-4
STARTS, FITS = 20, 6
NAMES = ("truth", "majority", "original EM", "adaptive", "fixed, prior of the program")


def sample(seed: int = LABELS) -> Simulation:
    """Return the authors' 1,000 training and 1,000 test points, with structural labels; the default seed gives their own."""
    return two_gaussians(seed=seed, sample="authors")


def program(s: Simulation, seed: int) -> dict[str, dict[str, float]]:
    """Return test accuracies of the program's algorithms, in the last epoch and in the best one on the test points.

    Args:
        s: points and labels.
        seed: of the first weights of the classifiers.
    """
    label = s.data.label.numpy().reshape(s.data.N, s.data.J)
    votes = label.mean(1)
    hard = (votes > 0.5).astype(float)
    x, test = (np.column_stack([part, np.ones(len(part))]) for part in (s.data.features.numpy(), s.features_test))
    first = np.random.default_rng(seed).uniform(-1, 1, 4) / np.sqrt(3)  # the last is a second intercept, never updated
    shares = np.stack([1 - votes, votes], 1)
    matrix = np.einsum("nk,njl->jkl", shares, np.eye(2)[label]) / shares.sum(0)[:, None]
    start = 4 * logit(np.stack([matrix[:, 0, 0], matrix[:, 1, 1]], 1))
    out = {}
    for name in NAMES:
        slopes, weights = start.copy(), first[:3].copy()
        soft = (
            s.truth
            if name == "truth"
            else hard
            if name == "majority"
            else posterior(name, label, votes, hard, start, matrix)
        )
        accuracy = []
        for epoch in range(EPOCHS):
            p = expit(x @ weights + first[3])
            if name == "original EM" and epoch:
                soft = posterior(name, label, votes, soft, slopes, matrix, p)
            weights = weights + np.linalg.solve((x * (p * (1 - p))[:, None]).T @ x, x.T @ (soft - p))
            p = expit(x @ weights + first[3])
            if name == "original EM":
                shares = np.stack([1 - soft, soft], 1)
                matrix = np.einsum("nk,njl->jkl", shares, np.eye(2)[label]) / shares.sum(0)[:, None]
            elif name not in ("truth", "majority"):
                slopes = np.clip(slopes - STEP * gradient(name, label, votes, soft, slopes, p), 0, 100)
                soft = posterior(name, label, votes, soft, slopes, matrix, p)
            accuracy.append(float(((test @ weights + first[3] > 0) == s.truth_test).mean()))
        out[name] = {"last": accuracy[-1], "best": max(accuracy)}
    return out


def posterior(
    name: str,
    label: np.ndarray,
    votes: np.ndarray,
    soft: np.ndarray,
    slopes: np.ndarray,
    matrix: np.ndarray,
    prior: np.ndarray | None = None,
) -> np.ndarray:
    """Return the program's probability of class 1 of each item, without the classifier's ``prior`` in its first E step."""
    if name == "original EM":
        score = np.log(matrix + 1e-4)[np.arange(label.shape[1]), :, label].sum(1)
    else:
        score = log_reliability(votes if name.startswith("fixed") else soft, slopes, label).sum(1)
    if prior is not None:
        score = score + np.log(np.stack([1 - prior, prior], 1) + 1e-3)
    return softmax(score, 1)[:, 1]


def log_reliability(share: np.ndarray, slopes: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Return log-probabilities ``(N, J, 2)`` of each label by class, at an item's share of class 1, with the program's .001."""
    correct = expit(slopes * ((share - 0.5) ** 2)[:, None, None])  # (N, J, 2)
    return np.log(np.where(label[..., None] == np.arange(2), correct, 1 - correct) + 1e-3)


def gradient(
    name: str, label: np.ndarray, votes: np.ndarray, soft: np.ndarray, slopes: np.ndarray, prior: np.ndarray
) -> np.ndarray:
    """Return the gradient of the program's loss in the slopes: mean cross-entropy of its E step with the previous labels."""
    share = votes if name.startswith("fixed") else soft
    p = posterior(name, label, votes, soft, slopes, np.zeros(0), prior)
    square = ((share - 0.5) ** 2)[:, None]
    out = np.zeros_like(slopes)
    for k in (0, 1):
        correct = expit(slopes[:, k] * square)  # (N, J)
        right = label == k
        log_slope = (
            np.where(right, 1, -1) * correct * (1 - correct) * square / (np.where(right, correct, 1 - correct) + 1e-3)
        )
        out[:, k] = ((p - soft)[:, None] * log_slope * (1 if k else -1)).mean(0)
    return out


def measure(quick: bool) -> dict[str, Any]:
    """Measure the program's algorithms, and our models, on the authors' points.

    The labels are the authors' own, with several first weights, or drawn anew by their recipe.
    """
    own = sample()
    out: dict[str, Any] = {"best possible": float(((own.features_test.sum(1) > 0) == own.truth_test).mean())}
    for key, labels in (
        ("authors' labels", [LABELS] * STARTS),
        ("labels drawn", [LABELS + 1 + n for n in range(STARTS)]),
    ):
        figures = out.setdefault(key, {})
        for seed, label in enumerate(labels[: 2 if quick else None]):
            for name, values in program(sample(label), seed).items():
                for epoch, value in values.items():
                    figures.setdefault(name, {}).setdefault(epoch, []).append(value)
    ours: dict[str, list[float]] = out.setdefault("ours", {})
    for seed in range(1 if quick else FITS):
        drawn = sample(LABELS + seed)
        for name in (name for name in NAMES if name in MODELS):
            result, _ = fit(drawn.data, MODELS[name], method="em", seed=seed, num_samples=2, independent=True)
            guess = crowdppl.predict(result, drawn.features_test)["label"].to_numpy()
            ours.setdefault(name, []).append(float((guess == drawn.truth_test).mean()))
        print(seed, {name: values[-1] for name, values in ours.items()}, flush=True)
    return out


def page(results: dict[str, Any]) -> str:
    """Write the part of the page."""
    rows = []
    for name in NAMES:
        figures = [
            results[key][name][epoch] for key in ("authors' labels", "labels drawn") for epoch in ("last", "best")
        ]
        rows.append(
            [
                name,
                *map(spread, figures),
                spread(results["ours"][name]) if name in results["ours"] else "–",
                PAPER.get(name, "–"),
            ]
        )
    head = [
        "",
        "authors' labels, last epoch",
        "best epoch",
        "labels drawn, last epoch",
        "best epoch",
        "ours, labels drawn",
        "paper",
    ]
    one = results["ours"]["adaptive"]
    return f"""## Two Gaussians

The authors have one sample: points drawn with seed 1228, labels with seed {LABELS}. On its test points the best possible
classifier has {100 * results["best possible"]:.1f}%, where it has 92.14% on average. Test accuracy, per cent, mean and
standard deviation over {STARTS} first weights of the program's classifier (the authors' labels) or {STARTS} draws of labels
by the same recipe; ours over {len(one)}, the first of which are the authors' labels. The program keeps the best of
{EPOCHS} epochs by the test points.

{table(head, rows)}
"""
