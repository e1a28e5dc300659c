"""Simulated crowds, independent and correlated: widths of workers' intervals against exact ones, bias, coverage.

Writes docs/benchmarks/simulated.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import fit, table, write

from crowdppl import Annotations, criticism
from crowdppl.data.synthetic import correlated_crowd
from crowdppl.model.base import AnnotationModel
from crowdppl.model.sampling import simulate
from crowdppl.models import DawidSkene, ItemEffects

# Classes, items, workers and annotations per item of the independent crowds.
SIZES = ((2, 300, 30, 6), (4, 300, 30, 6), (2, 1000, 50, 10))
COPIES = (0.0, 0.4, 0.6)
EM, GIBBS = {"num_samples": 500}, {"chains": 2, "num_samples": 250}
# Fits by name: model, engine, and options.
EXACT = "dawid-skene, gibbs, independent"
UNANCHORED = ItemEffects(anchoring=0.0)
FITS: dict[str, tuple[str | AnnotationModel, dict[str, Any]]] = {
    EXACT: ("dawid-skene", {"method": "gibbs", "independent": True, **GIBBS}),
    "dawid-skene, gibbs": ("dawid-skene", {"method": "gibbs", "independent": False, **GIBBS}),
    "item-effects, em, independent": ("item-effects", {"method": "em", "independent": True, **EM}),
    "item-effects without anchor, em, independent": (UNANCHORED, {"method": "em", "independent": True, **EM}),
    "item-effects, em": ("item-effects", {"method": "em", "independent": False, **EM}),
}
MEASURES = ("share", "share_width", "accuracy", "accuracy_width", "bias", "label", "confidence", "log_loss")
DONE = Path(__file__).parents[2] / "build" / "simulated.jsonl"


def independent_crowd(seed: int, classes: int, items: int, workers: int, each: int) -> tuple[Annotations, Any, Any]:
    """Draw a crowd from Dawid and Skene's model with its default prior: annotations, true labels, workers' accuracies."""
    rng = np.random.default_rng(seed)
    item = np.repeat(np.arange(items), each)
    worker = np.concatenate([rng.choice(workers, each, replace=False) for _ in range(items)])
    data, truth, parameters = simulate(DawidSkene(), item, worker, classes=classes, seed=seed)
    diagonal = np.diagonal(parameters["confusion"], axis1=-2, axis2=-1)  # (J, K)
    return data, truth, (diagonal * parameters["prevalence"]).sum(-1)


def crowd(kind: str, seed: int) -> tuple[Annotations, dict[Any, Any], dict[Any, float] | None]:
    """Return annotations, true labels by item, and the accuracies of workers that they were drawn from, where there are such."""
    if kind.startswith("copied"):
        share = float(kind.split()[1])
        drawn = correlated_crowd(seed=seed, items=200, workers=20, per_item=3 + seed % 8, copies=share)
        return drawn.data, dict(zip(drawn.data.items.tolist(), drawn.truth.tolist(), strict=True)), None
    data, truth, accuracy = independent_crowd(seed, *map(int, kind.split()[1:]))
    return (
        data,
        dict(zip(data.items.tolist(), truth.tolist(), strict=True)),
        dict(zip(data.workers.tolist(), accuracy.tolist(), strict=True)),
    )


def measured(kind: str, seed: int, name: str) -> dict[str, Any]:
    """Fit one crowd; what is measured over its workers and items.

    The accuracy of an independent crowd's workers is compared with the parameter that the crowd was drawn from, that of a
    correlated crowd's with the share of correct annotations.
    """
    data, truths, accuracies = crowd(kind, seed)
    model, options = FITS[name]
    posterior, _ = fit(data, model, seed=seed, **options)
    cover, calibration = criticism.coverage(posterior, truths, minimum=1), criticism.calibration(posterior, truths)
    rows = cover.workers
    true = rows["correct"] if accuracies is None else rows["worker"].map(accuracies)
    low, high = rows["accuracy_low"], rows["accuracy_high"]
    return {
        "kind": kind,
        "seed": seed,
        "fit": name,
        "share": cover.share_correct,
        "share_width": float((rows["share_correct_high"] - rows["share_correct_low"]).mean()),
        "accuracy": float(((low <= true) & (true <= high)).mean()),
        "accuracy_width": float((high - low).mean()),
        "bias": float((rows["accuracy"] - true).mean()),
        "label": calibration.accuracy,
        "confidence": calibration.confidence,
        "log_loss": calibration.log_loss,
    }


def figures(runs: Sequence[dict[str, Any]], exact: Sequence[dict[str, Any]]) -> list[str]:
    """Return the figures of one fit of one kind of crowd: means over crowds, and widths relative to the exact ones."""
    means = {what: float(np.mean([run[what] for run in runs])) for what in MEASURES}
    base = {what: float(np.mean([run[what] for run in exact])) for what in MEASURES}
    return [
        f"{means['share']:.2f}",
        f"{means['share_width']:.3f}",
        f"{means['share_width'] / base['share_width']:.2f}",
        f"{means['accuracy']:.2f}",
        f"{means['accuracy_width']:.3f}",
        f"{means['accuracy_width'] / base['accuracy_width']:.2f}",
        f"{means['bias']:+.3f}",
        f"{means['label']:.3f}",
        f"{means['confidence']:.3f}",
        f"{means['log_loss']:.3f}",
    ]


def main() -> None:
    """Fit all crowds; completed fits are kept, so that an interrupted run continues from there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two crowds of each kind; writes nothing")
    parser.add_argument("--crowds", type=int, default=5, help="of each kind [5]")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"), help="folder [docs/benchmarks]")
    options = parser.parse_args()
    torch.set_num_threads(1)
    count = 2 if options.quick else options.crowds
    independent = [f"independent {' '.join(map(str, size))}" for size in SIZES]
    copied = [f"copied {share}" for share in COPIES]
    DONE.parent.mkdir(exist_ok=True)
    lines = DONE.read_text().splitlines() if DONE.exists() and not options.quick else []
    done = {(run["kind"], run["seed"], run["fit"]): run for run in map(json.loads, lines)}
    with DONE.open("a", encoding="utf-8") as kept:
        for kind in (*independent, *copied):
            for seed in range(count):
                for name in FITS:
                    if (kind, seed, name) in done:
                        continue
                    run = done[kind, seed, name] = measured(kind, seed, name)
                    if not options.quick:
                        kept.write(json.dumps(run) + "\n")
                        kept.flush()
    head = ["share correct: covered", "width", "to exact", "accuracy: covered", "width", "to exact"]
    head += ["bias", "accuracy of labels", "confidence", "log loss"]

    def rows(kinds: list[str], names: list[list[str]]) -> list[list[str]]:
        out = []
        for kind, words in zip(kinds, names, strict=True):
            runs = {name: [done[kind, seed, name] for seed in range(count)] for name in FITS}
            out += [[*words, name, *figures(runs[name], runs[EXACT])] for name in FITS]
        return out

    sizes = [[f"{K} classes, {N:,} items, {J} workers, {n} each"] for K, N, J, n in SIZES]
    shares = [[f"{share:.0%}"] for share in COPIES]
    body = f"""
{count} crowds of each kind, 89% intervals, means over workers and crowds. *Exact* is the posterior of the model that independent
crowds were drawn from, Dawid–Skene with its default prior, by Gibbs sampling with `independent=True`; *to exact* is the mean
width relative to its. Fits without `independent` have the default design effect. *Bias* is the mean of a worker's accuracy in the
posterior less the true one.

## Independent crowds

Drawn from the Dawid–Skene model. Intervals of the accuracy are compared with the parameter that the worker's labels were drawn
from.

{table(["crowd", "fit", *head], rows(independent, sizes))}

## Correlated crowds

`crowdppl.data.synthetic.correlated_crowd`: 200 items, 20 workers, 3 to 10 annotations per item, 2 classes. An annotation repeats
the common answer of its item with probability *copied*. Intervals of the accuracy are compared with the share of correct
annotations.

{table(["copied", "fit", *head], rows(copied, shares))}
"""
    results = {" | ".join(map(str, key)): run for key, run in done.items()}
    write("simulated", "Simulated crowds", body, results, options, "calibration/simulated")


if __name__ == "__main__":
    main()
