"""Table 2, set-up 1, as the authors' program measures it: their points, their networks, their stop, all methods and measures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from cmm_program import Choices, Perceptron, em, first_class, mixture, skene
from cmm_shared import PRINTED, Results, record, spreads, table2
from common import table

from crowdppl import Annotations
from crowdppl.data import datasets
from crowdppl.data.synthetic import THREE_ABILITIES, four_abilities
from crowdppl.metrics import global_divergence, individual_divergence

WORKERS = (100, 500, 1500, 3500, 6000, 10_000)
CROWDS, NETWORKS = 8, 2
SHARES = (0.25, 0.55, 0.20)
PROGRAM = Choices()
MEASURES = {"accuracy": "test_accuracy", "individual_js": "individual_js", "global_js": "global_js"}


def points() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return features and classes of the authors' stored training items, and of their test items."""
    folder = datasets.folder()
    if folder is None:
        raise SystemExit("set CROWDPPL_DATA to the folder of the data sets")
    z = np.load(folder / "cmm-setup1" / "features.npz", allow_pickle=False)
    truth = pd.read_csv(folder / "cmm-setup1" / "truth.csv").set_index("item")["label"]
    return z["x"], truth.loc[z["items"]].to_numpy(), z["x_test"], z["y_test"]


def by_votes(data: Annotations, targets: np.ndarray) -> np.ndarray:
    """Return the crowd's matrix ``(K, K)`` by class probabilities ``(N, K)``; the program gives it to all annotators."""
    counts = np.zeros((data.K, data.K))
    np.add.at(counts.T, data.label.numpy(), targets[data.item.numpy()])
    return counts / counts.sum(-1, keepdims=True)


def empirical(data: Annotations, truth: np.ndarray) -> np.ndarray:
    """Return the crowd's matrix ``(K, K)`` by the true classes."""
    return by_votes(data, np.eye(data.K)[truth])


def measure(quick: bool) -> dict[str, Any]:
    """Return accuracies, divergences and iterations by method and number of annotators, a value for each crowd and network.

    The networks of a crowd follow each other.
    """
    x, y, *test = points()
    results: dict[str, Results] = {name: {} for name in (*MEASURES, "iterations")}
    for net in range(1 if quick else CROWDS):
        record(results["accuracy"], "truth", "", Perceptron(x, 3, net).train(np.eye(3)[y]).accuracy(*test))
    for T in WORKERS[:1] if quick else WORKERS:
        for crowd in range(1 if quick else CROWDS):
            s = four_abilities(
                y, seed=crowd, workers=T, features=x, per_item=5.0, share=SHARES, confusion=THREE_ABILITIES
            )
            for name, values in fits(s.data, y, test, s.parameters, crowd, range(1 if quick else NETWORKS)).items():
                for key, each in values.items():
                    for value in each:
                        record(results[key], name, T, value)
        shown = {name: spreads(v, [str(T)])[0] for name, v in results["accuracy"].items()}
        print("set-up 1, program", T, shown, flush=True)
    return results


def fits(
    data: Annotations,
    y: np.ndarray,
    test: list[np.ndarray],
    parameters: dict[str, Any],
    crowd: int,
    networks: Sequence[int],
) -> dict[str, Any]:
    """Return the measures of all methods on one crowd, a value for each network."""
    true, whole = parameters["confusion"][parameters["group"]], empirical(data, y)
    out: dict[str, dict[str, list[float]]] = {}

    def keep(
        name: str, network: Perceptron, each: np.ndarray, own: np.ndarray, iterations: float | None = None
    ) -> None:
        values = out.setdefault(name, {})
        values.setdefault("accuracy", []).append(network.accuracy(*test))
        values.setdefault("individual_js", []).append(individual_divergence(each, true))
        values.setdefault("global_js", []).append(global_divergence(own, whole))
        if iterations is not None:
            values.setdefault("iterations", []).append(iterations)

    shares, (q, skene_each) = data.majority().numpy(), skene(data)
    for net in networks:
        seed = 1000 * crowd + net
        for name, targets in (("soft majority", shares), ("hard majority", first_class(shares))):
            mean = by_votes(data, targets)
            trained = PROGRAM.network(data, seed).train(targets)
            keep(name, trained, np.broadcast_to(mean, true.shape), mean)
        keep("DL-DS", PROGRAM.network(data, seed).train(q), skene_each, skene_each.mean(0))
        for name, method in (("DL-EM", em), ("CMM", mixture)):
            one = method(data, seed, PROGRAM)
            keep(name, one.network, one.each, one.crowd, one.iterations)
    return out


def of_crowds(values: list[float]) -> np.ndarray:
    """Return the mean of each crowd's networks."""
    return np.reshape(values, (-1, NETWORKS if len(values) % NETWORKS == 0 else 1)).mean(-1)


def page(results: dict[str, Results]) -> str:
    """Return the section."""
    sizes = list(results["accuracy"]["CMM"])
    header = ["", *(f"T = {int(T):,}" for T in sizes)]
    parts = {}
    for key, column in MEASURES.items():
        theirs, rows = table2("setup1", column), []
        for name, values in results[key].items():
            if name == "truth":
                continue
            rows.append([f"{name}, here", *spreads({T: list(of_crowds(values[T])) for T in sizes}, sizes)])
            rows.append([f"{name}, stored", *(f"{100 * theirs[name][T]:.2f}" for T in sizes)])
        parts[key] = table(header, rows)
    steps = [[name, *(f"{np.mean(values[T]):.1f}" for T in sizes)] for name, values in results["iterations"].items()]
    crowds = len(of_crowds(results["accuracy"]["CMM"][sizes[0]]))
    truth, ideal = spreads(results["accuracy"]["truth"], [""])[0], 100 * PRINTED["setup1"]["truth"]
    return f"""## Set-up 1 as the authors' program has it

All methods and measures as in the authors' program: their stored points, standardised, a perceptron of 16 units with dropout .2,
one annotation added to every entry of a matrix (DL-EM, CMM) and to every group, a stop at a change of 3%, the best of 20 runs by
likelihood, ties to the first class. CMM's groups start at k-means over pairs of item and label, each at a mean of the votes and
of the label itself with a random weight. The crowd's true matrix is that of its labels by the true classes; CMM's matrix of an
annotator is that of the groups in proportion to the probability of all of the annotator's labels. Mean and standard deviation
over {crowds} crowds, each the mean of {NETWORKS} networks. The authors' stored figures are means over networks for one crowd at
each T; its crowds are not stored. With the true classes the network has {truth} here, {ideal:.2f} in print.

Test accuracy, per cent:

{parts["accuracy"]}

I-JS, hundredths of a bit (the paper does not print divergences of set-up 1):

{parts["individual_js"]}

G-JS, hundredths of a bit:

{parts["global_js"]}

Iterations of EM until the stop, mean over runs; no figure of the authors is stored:

{table(header, steps)}
"""
