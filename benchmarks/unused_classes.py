"""How often fits of public sets warn that they use fewer classes than the labels do.

And whether the true labels contain these classes. Writes docs/benchmarks/unused-classes.md.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from typing import Any

import torch
from common import arguments, fit, table, write

from crowdppl import CrowdpplError
from crowdppl.data import datasets
from crowdppl.errors import silent

LARGEST, CLASSES = 60_000, 60  # annotations and classes of a set
RUNS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("dawid-skene", "em", {"num_samples": 30}),
    ("one-coin", "em", {"num_samples": 30}),
    ("class-conditional", "em", {"num_samples": 30}),
    ("pooled", "em", {"num_samples": 30}),
    ("dawid-skene", "gibbs", {"chains": 2, "warmup": 150, "num_samples": 100}),
    ("item-subtypes", "gibbs", {"chains": 2, "warmup": 150, "num_samples": 100}),
)


def usable() -> list[str]:
    """Return the public sets with worker labels of classes that are not too large."""
    names = []
    place = datasets.folder()
    if place is None:
        raise SystemExit("set CROWDPPL_DATA to the folder of public data sets")
    for folder in sorted(part for part in place.iterdir() if (part / "meta.json").is_file()):
        try:
            with silent():  # notes on names and labels
                data, _ = datasets.public(folder.name)
        except CrowdpplError as error:  # sets without annotations by workers
            print(f"{folder.name}: {error}", flush=True)
            continue
        if data.A <= LARGEST and 1 < data.K <= CLASSES:
            names.append(folder.name)
    return names


def warned(name: str) -> list[dict[str, Any]]:
    """Fit a set by all models; return for each fit the classes that it warns of, and those of them that the known truth has."""
    torch.set_num_threads(1)
    with silent():
        data, truth = datasets.public(name)
    known = set() if truth is None else {str(label) for label in truth}
    out = []
    for model, method, options in RUNS:
        posterior, _ = fit(data, model, method=method, seed=1, independent=False, **options)
        classes: list[str] = []
        if any("assigns no item" in sentence for sentence in posterior.warnings):
            expected, likely = posterior.probability().sum(0), set(posterior.probability().argmax(1).tolist())
            given = posterior.label_counts_by_worker().sum(0) > 0
            classes = [
                str(label)
                for k, label in enumerate(posterior.labels)
                if given[k] and k not in likely and expected[k] < 0.5
            ]
        out.append(
            {
                "set": name,
                "model": model,
                "method": method,
                "warned": bool(classes),
                "classes": classes,
                "in_truth": [label for label in classes if label in known],
            }
        )
    return out


def main() -> None:
    """Fit all sets and count."""
    options = arguments(__doc__ or "")
    sets = usable()[: 4 if options.quick else None]
    with ProcessPoolExecutor(2) as pool:
        fits = [one for many in pool.map(warned, sets) for one in many]
    fired = [one for one in fits if one["warned"]]
    rows = [
        [one["set"], one["model"], one["method"], ", ".join(one["classes"]), ", ".join(one["in_truth"]) or "none"]
        for one in fired
    ]
    head = ["set", "model", "engine", "classes without items", "of these in the known truth"]
    body = f"""
{len(fits)} fits of {len(RUNS)} pairs of model and engine to {len(sets)} public sets with at most {LARGEST:,} annotations and
{CLASSES} classes, seed 1. {len(fired)} of them warn that no item is assigned to a class that has the most votes for at least one
item.

{table(head, rows) if rows else ""}
"""
    write("unused_classes", "Fits that use fewer classes than the labels", body, fits, options)


if __name__ == "__main__":
    main()
