"""Features of tokens in sequences: spans found with them, without them, and with features that say nothing (simulated)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from common import arguments, table, write

import crowdppl
from crowdppl import Annotations
from crowdppl.data.sequences import Tags
from crowdppl.errors import silent

LABELS = ["B-LOC", "B-PER", "I-LOC", "I-PER", "O"]
# Probabilities of a token's label given that of the token before.
NEXT = np.array(
    [
        [0.05, 0.05, 0.3, 0, 0.6],
        [0.05, 0.05, 0, 0.3, 0.6],
        [0.05, 0.05, 0.2, 0, 0.7],
        [0.05, 0.05, 0, 0.2, 0.7],
        [0.1, 0.1, 0, 0, 0.8],
    ]
)
SENTENCES, LENGTH, WORKERS, FEATURES = 200, 12, 8, 6
CROWDS = 10
# Workers who label each sentence.
EACH = (2, 4)
# Standard deviation of the mean of a feature between classes, in its standard deviations within a class.
SIGNALS = (0.5, 1.0, 1.5)


def crowd(seed: int, each: int, signal: float) -> tuple[pd.DataFrame, pd.Series, pd.DataFrame]:
    """Return labels, the true label of each token, and features whose means differ by class."""
    rng = np.random.default_rng(seed)
    accuracy, means = rng.uniform(0.5, 0.8, WORKERS), rng.normal(size=(len(LABELS), FEATURES)) * signal
    rows, truth, features = [], {}, {}
    for sentence in range(SENTENCES):
        state, chosen = len(LABELS) - 1, rng.choice(WORKERS, each, replace=False)
        for place in range(LENGTH):
            state, task = rng.choice(len(LABELS), p=NEXT[state]), f"{sentence}:{place}"
            truth[task], features[task] = LABELS[state], means[state] + rng.normal(size=FEATURES)
            for worker in chosen:
                given = state if rng.random() < accuracy[worker] else rng.choice(len(LABELS))
                rows.append((sentence, place, task, f"w{worker}", LABELS[given]))
    frame = pd.DataFrame(rows, columns=["sentence", "position", "task", "worker", "label"])
    return frame, pd.Series(truth), pd.DataFrame(features).T


def score(frame: pd.DataFrame, truth: pd.Series, features: pd.DataFrame | None) -> tuple[float, float]:
    """Return the F1 of spans, and the log loss of tokens."""
    data = Annotations.from_frame(frame, sequence="sentence", position="position", labels=LABELS, features=features)
    posterior = crowdppl.fit(data, method="em", seed=0)
    given = posterior.truth().set_index("task").loc[data.items]
    tags, number = Tags.of(data.labels), {label: n for n, label in enumerate(data.labels)}
    assert tags is not None
    following, known = data.following.numpy(), truth[data.items]
    ours, true = (
        {tuple(span) for span in tags.spans(labels.map(number).to_numpy(), following).tolist()}
        for labels in (given["label"], known)
    )
    right = given[[f"p_{label}" for label in data.labels]].to_numpy()[np.arange(data.N), known.map(number)]
    return 2 * len(ours & true) / (len(ours) + len(true)), float(-np.log(np.maximum(right, 1e-12)).mean())


def main() -> None:
    """Compare, for crowds of different sizes and features of different strength."""
    options = arguments(__doc__ or "")
    rows, results = [], []
    for each in EACH:
        for signal in SIGNALS:
            scores: list[Any] = []
            for seed in range(CROWDS):
                frame, truth, features = crowd(seed, each, signal)
                noise = np.random.default_rng(1000 + seed).normal(size=features.shape)
                random = pd.DataFrame(noise, index=features.index)
                with silent():
                    scores.append([score(frame, truth, some) for some in (None, features, random)])
            values = np.array(scores)  # (crowd, features, measure)
            gain = values[:, 1, 0] - values[:, 0, 0]
            error = gain.std(ddof=1) / np.sqrt(CROWDS)
            mean = values.mean(0)
            rows.append(
                [each, f"{signal:g}", *(f"{value:.3f}" for value in mean[:, 0]), f"{gain.mean():.3f} ± {error:.3f}"]
                + [f"{value:.3f}" for value in mean[:, 1]]
            )
            changed = float(abs(values[:, 2] - values[:, 0]).max())
            results.append({"each": each, "signal": signal, "mean": mean.tolist(), "random_changes": changed})
    header = ["workers a sentence", "signal", *(f"span F1, {what}" for what in ("none", "features", "random"))]
    header += ["gain", *(f"log loss, {what}" for what in ("none", "features", "random"))]
    most = max(one["random_changes"] for one in results)
    text = (
        f"{CROWDS} simulated crowds a row: {SENTENCES} sentences of {LENGTH} tokens, {WORKERS} workers with accuracies from .5 "
        f"to .8, {FEATURES} features of each token. *Signal* is the standard deviation of a feature's mean between classes, in "
        f"units of its spread within one. The gain is that of features over none, with its standard error between crowds. "
        f"Random features change no score by more than {most:.3f}.\n\n{table(header, rows)}"
    )
    write("token_features", "Features of tokens", text, {"rows": results}, options)


if __name__ == "__main__":
    main()
