"""Tables 3 and 4 as the authors' program measures them: LabelMe, all methods and measures, both settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from cmm_forms import by_votes
from cmm_labelme import MEASURES, matrices, sets
from cmm_program import Choices, Perceptron, em, first_class, mixture, skene
from cmm_shared import PRINTED, Results, record, stored
from common import spread, table

from crowdppl import Annotations
from crowdppl.metrics import global_divergence, individual_divergence
from crowdppl.posterior.workers import groups

SEEDS = 10
PROGRAM = Choices(hidden=128, dropout=0.5, standard=False)
COLUMNS = ("share", "similarity", "entropy")


def measure(quick: bool) -> dict[str, Any]:
    """Return Table 3 by setting, method and measure, iterations with them, and Table 4 by measure and group."""
    settings, y, test = sets()
    table3: dict[str, dict[str, Results]] = {}
    table4: Results = {}
    choices = Choices(runs=1, hidden=128, dropout=0.5, standard=False) if quick else PROGRAM
    for setting, data in settings.items():
        results = table3.setdefault(setting, {})
        for seed in range(1 if quick else SEEDS):
            one_seed(results, table4 if setting == "individual" else {}, data, y, test, seed, choices)
        print("LabelMe, program", setting, {n: {m: round(np.mean(v[m]), 4) for m in v} for n, v in results.items()})
    return {"table3": table3, "table4": table4}


def one_seed(
    results: dict[str, Results],
    table4: Results,
    data: Annotations,
    y: np.ndarray,
    test: tuple[np.ndarray, np.ndarray],
    seed: int,
    choices: Choices,
) -> None:
    """Measure all methods with one seed."""
    data = data.to(dtype=torch.float64)
    true, crowd = matrices(data, y)
    x, shares = data.features.numpy(), data.majority().numpy()

    def keep(name: str, net: Perceptron, each: np.ndarray, whole: np.ndarray, steps: float | None = None) -> None:
        record(results, name, "train", net.accuracy(x, y))
        record(results, name, "test", net.accuracy(*test))
        record(results, name, "individual_js", individual_divergence(each, true))
        record(results, name, "global_js", global_divergence(whole, crowd))
        if steps is not None:
            record(results, name, "iterations", steps)

    for name, targets in (("soft majority", shares), ("hard majority", first_class(shares))):
        mean = by_votes(data, targets)
        keep(name, choices.network(data, seed).train(targets), np.broadcast_to(mean, true.shape), mean)
    ideal = choices.network(data, seed).train(np.eye(data.K)[y])
    record(results, "truth", "train", ideal.accuracy(x, y))
    record(results, "truth", "test", ideal.accuracy(*test))
    q, each = skene(data)
    keep("DL-DS", choices.network(data, seed).train(q), each, each.mean(0))
    for name, method in (("DL-EM", em), ("CMM", mixture)):
        one = method(data, seed, choices)
        keep(name, one.network, one.each, one.crowd, one.iterations)
    for m, k in enumerate(np.argsort(-one.share)):
        matrix = one.groups[k]
        values = (one.share[k], groups.similarity(matrix[None])[0], groups.row_entropy(matrix[None])[0])
        for column, value in zip(COLUMNS, values, strict=True):
            record(table4, column, m, value)


def page(results: dict[str, Any]) -> str:
    """Return the section."""
    paper = stored("table3_labelme").replace({"softMV": "soft majority", "hardMV": "hard majority", "Ideal": "truth"})
    columns = ["train_accuracy", "test_accuracy", "individual_js", "global_js"]
    parts = []
    for setting, values in results["table3"].items():
        rows = []
        for name, one in values.items():
            row = paper[(paper["setting"] == setting) & (paper["method"] == name)]
            theirs = ["–" if np.isnan(v) else f"{100 * v:.2f}" for v in row[columns].iloc[0].astype(float)]
            here = [spread(one[m]) if m in one else "–" for m in MEASURES]
            steps = f"{np.mean(one['iterations']):.1f}" if "iterations" in one else "–"
            rows += [[f"{name}, here", *here, steps], [f"{name}, stored", *theirs, "–"]]
        parts.append(f"{setting.capitalize()} setting:\n\n")
        parts.append(table(["", "training items", "test items", "I-JS", "G-JS", "iterations"], rows) + "\n\n")
    theirs = stored("table4_labelme_groups")
    theirs = theirs[theirs["setting"] == "individual"]
    rows = []
    for m, (_, row) in enumerate(theirs.iterrows()):
        kept = [results["table4"][c][str(m)] for c in COLUMNS]
        here = [f"{np.mean(v):.3f} ± {np.std(v, ddof=1) if len(v) > 1 else 0:.3f}" for v in kept]
        printed = [f"{PRINTED['groups'][c][m]:.2f}" for c in COLUMNS]
        rows.append([f"{m + 1}", *printed, *(f"{row[c]:.3f}" for c in ("alpha", "i_sim", "entropy")), *here])
    header = ["group", *(f"{kind}: {c}" for kind in ("printed", "stored", "here") for c in COLUMNS)]
    seeds = len(results["table3"]["individual"]["CMM"]["test"])
    return f"""## LabelMe as the authors' program has it

All methods and measures as in the authors' program: features as they are, a perceptron of 128 units with dropout .5, training
that stops where the loss changes by less than 3%, one annotation added to every cell of a matrix (DL-EM, CMM) and to every group,
the best of 20 runs by likelihood, and CMM's start as in set-up 1. CMM's matrix of an annotator is that of the groups in
proportion to the probability of all of the annotator's labels. Per cent and hundredths of a bit, mean and standard deviation over
{seeds} seeds of the network; the authors' stored figures are means over networks as well, but for the truth, which is one run.
The paper prints the individual setting, and of the global one DL-DS, DL-EM and G-JS. Iterations of EM until the stop have no
stored figure.

{"".join(parts)}Table 4, the groups in the order of their share; entropy in nats:

{table(header, rows)}
"""
