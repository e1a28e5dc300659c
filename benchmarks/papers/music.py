"""Music genre with features: test accuracy of models that learn from crowds, the epoch chosen on held-out training clips."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from baselines import with_features
from common import arguments, fit, spread, table, write
from crowd_methods import TABLE1, learners
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import crowdppl
from crowdppl import Annotations
from crowdppl.model.base import AnnotationModel
from crowdppl.models import CoNAL, CrowdMixture, Raykar

# Table 2 of CoNAL, by the weight of the regulariser; 1e-5 is the default.
LAMBDAS = {0.0: 82.14, 1e-4: 83.52, 1e-6: 82.98}
PAPER = {name: figures[1] for name, figures in TABLE1.items()} | {
    f"CoNAL, end to end, lambda = {weight:g}": figure for weight, figure in LAMBDAS.items()
}
LONG = {"max_iter": 1600, "tol": 0.0}
# Standard deviations of the prior of the weights, chosen by the accuracy on the held-out clips.
SCALES = (0.1, 0.3, 1.0, 3.0)
Maker = Callable[[float], AnnotationModel]
SCALED: dict[str, tuple[Maker, str, dict[str, Any]]] = {
    "learning from crowds (AggNet, DL-EM)": (
        lambda scale: Raykar(hidden=(128,), dropout=0.5, prior_scale=scale),
        "em",
        {"max_iter": 50},
    ),
    "CoNAL, one true label per item, EM": (lambda scale: CoNAL(prior_scale=scale), "em", {}),
    "CoNAL, end to end": (lambda scale: CoNAL("annotation", prior_scale=scale), "svi", LONG),
}


def split(data: Annotations, truth: pd.Series, seed: int) -> tuple[Annotations, tuple[np.ndarray, np.ndarray]]:
    """Return the data without the annotations of a tenth of the clips, and these clips' features and true classes."""
    held_out = np.zeros(data.N, dtype=bool)
    held_out[np.random.default_rng(seed).permutation(data.N)[: data.N // 10]] = True
    kept = data.keep(torch.from_numpy(~held_out)[data.item])
    return kept, (data.features.numpy()[held_out], truth.loc[data.items[held_out]].to_numpy())


def main() -> None:
    """Fit all models with several seeds."""
    options = arguments(__doc__ or "")
    seeds = range(1 if options.quick else 5)
    every, truth, z = with_features("music-genre")
    test = (z["x_test"].astype(np.float32), z["y_test"])
    accuracy: dict[str, list[float]] = {}
    best: dict[str, list[float]] = {}
    held: dict[str, dict[float, list[float]]] = {name: {scale: [] for scale in SCALES} for name in SCALED}
    tested: dict[str, dict[float, list[float]]] = {name: {scale: [] for scale in SCALES} for name in SCALED}

    def run(data: Annotations, model: AnnotationModel, method: str, seed: int, **settings: Any) -> Callable[..., float]:
        posterior, _ = fit(data, model, method=method, seed=seed, **settings)
        return lambda x, y: float((crowdppl.predict(posterior, x, model=model)["label"].to_numpy() == y).mean())

    for seed in seeds:
        data, valid = split(every, truth, seed)
        known = truth.drop(data.items[data.annotations_per_item.numpy() == 0])
        for name, learn in learners(data, known, None, seed).items():
            accuracy.setdefault(name, []).append(learn(valid).accuracy(*test))
            best.setdefault(name, []).append(learn(test).accuracy(*test))
        for name, (make, method, settings) in SCALED.items():
            for scale in SCALES:
                score = run(data, make(scale), method, seed, validation=valid, **settings)
                held[name][scale].append(score(*valid))
                tested[name][scale].append(score(*test))
        score = run(data, CrowdMixture(), "em", seed, validation=valid)
        accuracy.setdefault("CMM", []).append(score(*test))
        print(seed, {name: round(values[-1], 4) for name, values in accuracy.items()}, flush=True)
    chosen = {name: max(SCALES, key=lambda scale: np.mean(held[name][scale])) for name in SCALED}
    scale = chosen["CoNAL, end to end"]
    for name, own in chosen.items():
        accuracy[name] = tested[name][own]
    for weight in LAMBDAS:
        own_name = f"CoNAL, end to end, lambda = {weight:g}"
        for seed in seeds:
            data, valid = split(every, truth, seed)
            model = CoNAL("annotation", prior_scale=scale, separation=weight)
            score = run(data, model, "svi", seed, validation=valid, **LONG)
            accuracy.setdefault(own_name, []).append(score(*test))
    accuracy["truth"] = accuracy.pop("truth")
    rows = [
        [
            name,
            spread(values),
            spread(best[name]) if name in best else "–",
            f"{PAPER[name]:.2f}" if name in PAPER else "–",
        ]
        for name, values in accuracy.items()
    ]
    targets = truth.loc[every.items].to_numpy()
    bound = {
        name: 100 * make_pipeline(StandardScaler(), model).fit(every.features.numpy(), targets).score(*test)
        for name, model in (
            ("support vector machine", SVC(C=3.0)),
            ("logistic regression", LogisticRegression(max_iter=3000, C=0.1)),
        )
    }
    svm, logistic = bound["support vector machine"], bound["logistic regression"]
    gain = 100 * np.mean([np.mean(best[name]) - np.mean(accuracy[name]) for name in best])
    by_scale = [
        [f"{name}, {what}", *(spread(figures[name][scale]) for scale in SCALES)]
        for name in SCALED
        for what, figures in (("held-out clips", held), ("test clips", tested))
    ]
    body = f"""700 clips with 2,945 labels by 44 annotators in 10 genres; 124 features, standardised; 300 test clips. A tenth of
the training clips, with their true genres, is held out: the epoch of every method and the scale of the prior of the weights
are chosen on them, and their labels are not used. Per cent, mean and standard deviation over {len(seeds)} seeds, each with
its own held-out clips. Classifiers have a hidden layer of 128, dropout .5. CoNAL end to end: {LONG["max_iter"]} gradient steps.

*Best epoch on the test clips* is the protocol of the authors' program. It is biased upwards, here by {gain:.1f} points on
average.

{table(["trained by", "test accuracy", "best epoch on the test clips", "paper (Tables 1 and 2)"], rows)}

## The scale of the prior of the weights

The paper has no penalty on the weights. Test accuracies are shown for comparison and were not used for the choice.

{table(["", *(f"scale {scale:g}" for scale in SCALES)], by_scale)}

## Reasons for differences

Every method is below the paper's figure for it, mostly by more than two points. Choosing the epoch on the test clips
explains {gain:.1f} of them. The features do not allow more: trained on the true genres of all 700 clips, a support vector
machine (radial kernel, C = 3) has {svm:.1f}% and logistic regression {logistic:.1f}% on the test clips, and the classifier
here {100 * np.mean(accuracy["truth"]):.1f}%. The paper's CoNAL (84.06) is above what true labels give with these features.
Its features or its division of the clips must differ from the public ones.
"""
    write(
        "paper_music",
        "Music genre with features",
        body,
        {
            "test": accuracy,
            "best epoch on the test clips": best,
            "scales, held out": held,
            "scales, test": tested,
            "other classifiers": bound,
        },
        options,
        script="papers/music",
    )


if __name__ == "__main__":
    main()
