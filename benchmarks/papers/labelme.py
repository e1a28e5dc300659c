"""LabelMe with features: test accuracy of models that learn from crowds, compared with the figures of their papers."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import torch
from baselines import Trained, crowd_layer, hard
from common import arguments, fit, spread, table, write

import crowdppl
from crowdppl import CrowdpplWarning
from crowdppl.data import datasets
from crowdppl.model.networks import perceptron
from crowdppl.models import LIA, CoNAL, CrowdMixture, Raykar

PAPER = {
    "hard majority": "79.83 (CoNAL), 79.95 (CMM)",
    "soft majority": "81.69 (CMM)",
    "learning from crowds (AggNet, DL-EM)": "84.75 (CoNAL), 83.07 (CMM)",
    "CMM": "83.10",
    "CoNAL, end to end": "87.12",
    "truth": "92.09 (CMM)",
}


def plain(inputs: int, outputs: int) -> torch.nn.Module:
    """Make the classifier of all models: features are not standardised."""
    return perceptron(inputs, outputs, (128,), 0.5)


LONG = {"max_iter": 800, "tol": 0.0}
MODELS = {
    "learning from crowds (AggNet, DL-EM)": (Raykar(network=plain, prior_scale=0.1), "em", {"max_iter": 50}),
    "CMM": (CrowdMixture(network=plain), "em", {}),
    "CoNAL, one true label per item, EM": (CoNAL(network=plain), "em", {}),
    "CoNAL, one true label per item, SVI": (CoNAL(network=plain, prior_scale=0.3), "svi", LONG),
    "CoNAL, end to end": (CoNAL("annotation", network=plain, prior_scale=0.3), "svi", LONG),
    "CoNAL, end to end, features standardised": (CoNAL("annotation"), "svi", LONG),
    "LIA (its own networks)": (
        LIA(),
        "em",
        {"steps": 200, "max_iter": 20, "batch_size": 128, "fine_tune": 500, "learning_rate": 1e-3},
    ),
}
LAYERS = {
    "crowd layer, rows of probabilities": {"free": False},
    "crowd layer, free matrices": {"free": True},
}


def main() -> None:
    """Fit all models with several seeds."""
    options = arguments(__doc__ or "")
    seeds = range(2 if options.quick else 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        votes, truth = datasets.public("labelme")
    folder = datasets.folder()
    assert folder is not None
    z = np.load(folder / "labelme" / "features.npz", allow_pickle=False)
    data = votes.with_features(pd.DataFrame(z["x"], index=z["items"])).to(dtype=torch.float32)
    x, known = data.features.numpy(), np.searchsorted(data.labels, truth.loc[data.items])
    valid, test = (z["x_valid"], z["y_valid"]), (z["x_test"], z["y_test"])
    names = ("hard majority", "soft majority", *LAYERS, *MODELS, "truth")
    accuracy: dict[str, list[float]] = {name: [] for name in names}
    train: dict[str, list[float]] = {name: [] for name in names}
    times: dict[str, list[float]] = {name: [] for name in MODELS}
    for seed in seeds:
        shares = data.majority().numpy()
        for name, targets in (
            ("hard majority", hard(shares, seed)),
            ("soft majority", shares),
            ("truth", np.eye(data.K)[known]),
        ):
            trained = Trained(x, targets, seed=seed, validation=valid, standard=False)
            accuracy[name].append(trained.accuracy(*test))
            train[name].append(trained.accuracy(x, known))
        for name, layer in LAYERS.items():
            accuracy[name].append(crowd_layer(data, seed=seed, validation=valid, test=test, standard=False, **layer))
        for name, (model, method, settings) in MODELS.items():
            posterior, seconds = fit(data, model, method=method, seed=seed, validation=valid, **settings)
            guess = crowdppl.predict(posterior, test[0], model=model)["label"].to_numpy()
            accuracy[name].append(float((guess == test[1]).mean()))
            labels = posterior.truth().set_index("item")["label"]
            train[name].append(float((labels.loc[truth.index].to_numpy() == truth.to_numpy()).mean()))
            times[name].append(seconds)
        print(seed, {name: round(values[-1], 4) for name, values in accuracy.items()}, flush=True)
    rows = [
        [
            name,
            spread(accuracy[name]),
            spread(train[name]) if train[name] else "–",
            PAPER.get(name, "–"),
            f"{np.median(times[name]):.1f}" if name in times else "–",
        ]
        for name in names
    ]
    header = ["trained by", "test accuracy", "truth of training items", "papers, test", "seconds"]
    body = f"""1,000 images with 2,547 labels by 59 annotators in 8 classes; VGG-16 features, average-pooled (512 numbers), no
augmentation; 500 images to choose the epoch, 1,188 test images. Per cent, mean and standard deviation over {len(seeds)} seeds.
Classifiers have one hidden layer of 128 with dropout .5 (LIA: four of 16). *Truth of training items*: accuracy of the
aggregated labels (of the classifier, for the votes and the truth).

{table(header, rows)}

Features are not standardised: they are sparse and non-negative, and standardising them, as the library's own networks do,
lowers the accuracy by one or two percentage points (rows *CoNAL, end to end*). Differences from the papers: they use
max-pooled or unpooled VGG features of 10,000 augmented images, and batch normalisation. CoNAL's authors use unconstrained
matrices and a softmax after the mixture; ours are rows of probabilities (the two rows *crowd layer* show the effect). The
probabilistic form of CoNAL, with one true label per item, is more accurate than the end-to-end form, which treats the
annotations of an item as independent. Learning from crowds is as accurate: 43 labels per annotator contain little information
about the source of an error.
"""
    write(
        "paper_labelme",
        "LabelMe with features",
        body,
        {"test": accuracy, "train": train},
        options,
        script="papers/labelme",
    )


if __name__ == "__main__":
    main()
