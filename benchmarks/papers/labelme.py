"""LabelMe with features: test accuracy of models that learn from crowds, beside their papers' figures."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import torch
from baselines import Trained, crowd_layer, hard
from common import arguments, fit, spread, table, write

import crowdppl
from crowdppl import CrowdpplWarning, datasets
from crowdppl.models import LIA, CoNAL, CrowdMixture, Raykar

PAPER = {
    "hard majority": "79.83 (CoNAL), 79.95 (CMM)",
    "soft majority": "81.69 (CMM)",
    "learning from crowds (AggNet, DL-EM)": "84.75 (CoNAL), 83.07 (CMM)",
    "CMM": "83.10",
    "CoNAL, end to end": "87.12",
    "truth": "92.09 (CMM)",
}
MODELS = {
    "learning from crowds (AggNet, DL-EM)": (Raykar(hidden=(128,), dropout=0.5, spread=0.1), "em", {"max_iter": 50}),
    "CMM": (CrowdMixture(), "em", {}),
    "CoNAL, one truth an item, EM": (CoNAL(), "em", {}),
    "CoNAL, one truth an item, SVI": (CoNAL(), "svi", {"max_iter": 1200, "tol": 0.0}),
    "CoNAL, end to end": (CoNAL("judgement"), "svi", {"max_iter": 1200, "tol": 0.0}),
    "LIA": (LIA(), "em", {"steps": 200, "max_iter": 20, "batch_size": 128, "fine_tune": 500}),
}

LAYERS = {
    "crowd layer, rows of probabilities": {"free": False},
    "crowd layer, free matrices": {"free": True},
    "crowd layer, free matrices, features as they are": {"free": True, "standard": False},
}


def main() -> None:
    """Fit all models with several seeds."""
    options = arguments(__doc__ or "")
    seeds = range(2 if options.quick else 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        plain, truth = datasets.public("labelme")
    folder = datasets.folder()
    assert folder is not None
    z = np.load(folder / "labelme" / "features.npz", allow_pickle=False)
    data = plain.with_features(pd.DataFrame(z["x"], index=z["items"])).to(dtype=torch.float32)
    x, known = data.features.numpy(), np.searchsorted(data.labels, truth.loc[data.items])
    valid, test = (z["x_valid"], z["y_valid"]), (z["x_test"], z["y_test"])
    names = ("hard majority", "soft majority", *LAYERS, *MODELS, "truth")
    found: dict[str, list[float]] = {name: [] for name in names}
    train: dict[str, list[float]] = {name: [] for name in names}
    times: dict[str, list[float]] = {name: [] for name in MODELS}
    for seed in seeds:
        shares = data.majority().numpy()
        for name, targets in (
            ("hard majority", hard(shares, seed)),
            ("soft majority", shares),
            ("truth", np.eye(data.K)[known]),
        ):
            trained = Trained(x, targets, seed=seed, validation=valid)
            found[name].append(trained.accuracy(*test))
            train[name].append(trained.accuracy(x, known))
        for name, layer in LAYERS.items():
            found[name].append(crowd_layer(data, seed=seed, validation=valid, test=test, **layer))
        for name, (model, method, settings) in MODELS.items():
            posterior, seconds = fit(data, model, method=method, seed=seed, validation=valid, **settings)
            guess = crowdppl.predict(posterior, test[0])["label"].to_numpy()
            found[name].append(float((guess == test[1]).mean()))
            labels = posterior.truth().set_index("task")["label"]
            train[name].append(float((labels.loc[truth.index].to_numpy() == truth.to_numpy()).mean()))
            times[name].append(seconds)
        print(seed, {name: round(values[-1], 4) for name, values in found.items()}, flush=True)
    rows = [
        [
            name,
            spread(found[name]),
            spread(train[name]) if train[name] else "–",
            PAPER.get(name, "–"),
            f"{np.median(times[name]):.1f}" if name in times else "–",
        ]
        for name in names
    ]
    header = ["trained by", "test accuracy", "truth of training items", "papers, test", "seconds"]
    body = f"""1,000 images with 2,547 labels by 59 annotators in 8 classes; VGG-16 features, average-pooled (512 numbers), no
augmentation; 500 images to choose the epoch on, 1,188 to test on. Per cent, mean and standard deviation over {len(seeds)} seeds.
Classifiers have one hidden layer of 128 with dropout .5 (LIA: four of 16). *Truth of training items*: accuracy of the
aggregated labels (of the classifier, for the votes and the truth).

{table(header, rows)}

What differs from the papers: they feed max-pooled or unpooled VGG features of 10,000 augmented images and use batch
normalisation. The end-to-end forms differ by what their matrices are: rows of probabilities, as ours, or free numbers with a
softmax behind the mixture, as the authors', which cannot say anything with certainty and so smooths what the classifier is
taught; the rows *crowd layer* show what that is worth here, and what standardising the features costs. The probabilistic form
of CoNAL, with one truth an item, does better than the end-to-end form, which treats the judgements of an item as independent,
and plain learning from crowds does as well as either: 43 labels an annotator leave little to learn about the source of an error.
"""
    write(
        "paper_labelme",
        "LabelMe with features",
        body,
        {"test": found, "train": train},
        options,
        script="papers/labelme",
    )


if __name__ == "__main__":
    main()
