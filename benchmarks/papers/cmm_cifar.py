"""Table 2, set-up 2: CIFAR-10 by unsupervised features, annotators of four abilities, methods as in the authors' program."""

from __future__ import annotations

import numpy as np
import pandas as pd
from cmm_program import Choices, Perceptron, em, first_class, mixture, skene
from cmm_shared import Results, record, spreads, table2
from common import table

from crowdppl.data import datasets
from crowdppl.data.synthetic import four_abilities

WORKERS = (100, 500, 1500, 3500, 6000, 10_000)
SEEDS = 3
GROUPS = 4
# The program's convolutional network ends in a layer of this size and dropout.
PROGRAM = Choices(runs=1, hidden=128, dropout=0.25, standard=False, batch=128, weighted=False)
IDEAL = 0.8377  # test accuracy with the true classes in the authors' stored results


def images() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return features and classes of the training images, and of the test images."""
    folder = datasets.folder()
    if folder is None:
        raise SystemExit("set CROWDPPL_DATA to the folder of the data sets")
    truth = pd.read_csv(folder / "cifar10-kmeans" / "truth.csv").sort_values(["split", "item"])
    z = np.load(folder / "cifar10-kmeans" / "features.npz", allow_pickle=False)
    classes = np.unique(truth["label"], return_inverse=True)[1]
    out: list[np.ndarray] = []
    for split in ("train", "test"):
        out += [z[split].astype(np.float32), classes[truth["split"] == split]]
    return out[0], out[1], out[2], out[3]


def measure(quick: bool) -> Results:
    """Return test accuracies by method and number of annotators; those of the true classes under no number."""
    folder = datasets.folder()
    x, y, *test = images()
    assert folder is not None
    confusion = np.load(folder / "cmm-setup2" / "groups.npz", allow_pickle=False)["confusion"]
    results: Results = {}
    for seed in range(1 if quick else SEEDS):
        ideal = Perceptron(x, 10, seed, PROGRAM.hidden, PROGRAM.dropout, PROGRAM.standard, PROGRAM.batch)
        record(results, "truth", "", ideal.train(np.eye(10)[y]).accuracy(*test))
        for T in WORKERS[:1] if quick else WORKERS:
            data = four_abilities(y, seed=seed, workers=T, features=x, share="program", confusion=confusion).data
            votes = data.majority().numpy()
            record(results, "majority vote, training items", T, (votes.argmax(1) == y).mean())
            for name, targets in (
                ("soft majority", votes),
                ("hard majority", first_class(votes)),
                ("DL-DS", skene(data)[0]),
            ):
                record(results, name, T, PROGRAM.network(data, seed).train(targets).accuracy(*test))
            record(results, "DL-EM", T, em(data, seed, PROGRAM).network.accuracy(*test))
            record(results, "CMM", T, mixture(data, seed, PROGRAM, GROUPS).network.accuracy(*test))
            print(
                "CIFAR-10", seed, T, {n: f"{v[str(T)][-1]:.4f}" for n, v in results.items() if str(T) in v}, flush=True
            )
    return results


def page(results: Results) -> str:
    """Return the section."""
    sizes = list(results["CMM"])
    paper, rows = table2("setup2"), []
    for name, values in results.items():
        if name != "truth":
            rows.append([f"{name}, here", *spreads(values, sizes)])
        if name in paper:
            rows.append(
                [f"{name}, paper", *(f"{100 * paper[name][T]:.2f}" if T in paper[name] else "–" for T in sizes)]
            )
    soft, hard = "soft majority", "hard majority"
    votes = [100 * (IDEAL - np.mean([paper[name][T] for T in sizes])) for name in (soft, hard)]
    truth = np.mean(results["truth"][""])
    here = [100 * (truth - np.mean([np.mean(results[name][T]) for T in sizes])) for name in (soft, hard)]
    seeds, lost = len(results["CMM"][sizes[0]]), 100 * (IDEAL - truth)
    return f"""## Table 2, set-up 2, on CIFAR-10

The 50,000 training images of CIFAR-10, three labels each on average by annotators of four abilities
(`crowdppl.data.synthetic.four_abilities` with the authors' matrices and the shares that their program reads, .70, .15, .10 and
.05), 10,000 test images. In place of the pictures and a convolutional network: 384 unsupervised features of each image (k-means
on patches; Coates, Lee and Ng 2011; data set `cifar10-kmeans`) and a perceptron with the last layers of the program's network,
128 units with dropout .25, batches of 128. Methods as in the authors' program: a stop at a change of 3%, one annotation added to
every entry of a matrix (DL-EM, CMM), 4 groups that start at k-means; one run in place of the best of 15. Mean and standard
deviation over {seeds} seeds, each with a crowd and networks of its own. Test accuracy, per cent; dashes: out of memory in the
paper. With the true classes: {spreads(results["truth"], [""])[0]} here, {100 * IDEAL:.2f} in the authors' stored results.

{table(["", *(f"T = {int(T):,}" for T in sizes)], rows)}

**What the features change.** A network on pictures learns its features from the labels, and is {lost:.1f} points more accurate
with the true classes. The votes lose {votes[1]:.0f} to {votes[0]:.0f} points of that in the paper and {here[1]:.0f} to
{here[0]:.0f} here (from hard to soft majority, mean over T): a perceptron on fixed features can fit few errors of the labels. The
order of CMM, DL-EM and the rest is the paper's but at T = 3,500, and all methods are nearer to each other.
[The five papers](../papers.md) compares accuracies as shares of the accuracy with the true classes.
"""
