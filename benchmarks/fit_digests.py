"""Digests of fits of the whole catalogue: which of them a change of the code leaves the same, bit for bit.

``fit_digests.py FILE`` writes the digest of every fit to a file; ``fit_digests.py FILE --against EARLIER`` also lists those that
differ from an earlier file. Models are fitted by EM, Gibbs sampling and SVI to small data, to data with weights and known true
labels, and, where they are quick enough, to data for which compiled passes are chosen.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import crowdppl
from crowdppl.errors import CrowdpplError, silent

OPTIONS: dict[str, dict[str, Any]] = {
    "em": {"num_samples": 20, "max_iter": 20, "restarts": 1},
    "gibbs": {"chains": 2, "warmup": 10, "num_samples": 20},
    "svi": {"max_iter": 20, "num_samples": 10},
}
# Models that are fitted to large data, by EM and Gibbs sampling.
LARGE = ("dawid-skene", "one-coin", "pooled", "majority-vote", "item-effects", "hierarchical", "class-conditional")


def crowd(seed: int, items: int, workers: int, per_item: int, classes: int, **more: Any) -> crowdppl.Annotations:
    """Draw annotations by workers who are correct with probability .4 to .9, of items with two features."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, items)
    task = np.repeat(np.arange(items), per_item)
    worker = rng.integers(0, workers, len(task))
    right = rng.random(len(task)) < rng.uniform(0.4, 0.9, workers)[worker]
    label = np.where(right, truth[task], rng.integers(0, classes, len(task)))
    features = rng.normal(size=(items, 2)) + truth[:, None]
    return crowdppl.Annotations.from_arrays(task, worker, label, labels=range(classes), features=features, **more)


def fits() -> Iterator[tuple[str, crowdppl.Annotations, str, str]]:
    """Yield what is fitted: a name of the data, these, the model and the engine."""
    small = {
        "small": crowd(0, 60, 6, 4, 3),
        "two classes": crowd(1, 60, 6, 4, 2),
        "known": crowd(2, 60, 6, 4, 3, truth={item: item % 3 for item in range(9)}),
        "compiled": crowd(3, 3_000, 40, 8, 3),
    }
    small["weighted"] = crowd(4, 60, 6, 4, 3).with_weights(np.random.default_rng(0).uniform(0.2, 1.4, 60))
    for kind, data in small.items():
        for model in crowdppl.models.CATALOGUE:
            for method in OPTIONS:
                if kind != "compiled" or method != "svi":
                    yield kind, data, model, method
    for kind, data in {"large": crowd(5, 30_000, 200, 8, 3), "wide": crowd(6, 25_000, 50, 9, 70)}.items():
        for model in LARGE:
            if kind == "large" or model == "dawid-skene":
                for method in ("em", "gibbs"):
                    yield kind, data, model, method


def digest(posterior: crowdppl.Posterior) -> str:
    """Return a digest of all numbers of a result."""
    together = hashlib.sha256()
    for path, node in sorted((node.path, node) for node in posterior.tree.subtree):
        for name in sorted(node.data_vars):
            values = np.ascontiguousarray(node[name].values)
            together.update(f"{path}/{name} {values.dtype} {values.shape}".encode())
            together.update(repr(values.tolist()).encode() if values.dtype == object else values.tobytes())
    return together.hexdigest()[:16]


def main() -> None:
    """Write the digests, and compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--only", default="", help="fits whose name contains this")
    given = parser.parse_args()
    digests: dict[str, str] = {}
    with silent():
        for kind, data, model, method in fits():
            name = f"{kind}: {model} by {method}"
            if given.only not in name:
                continue
            try:
                posterior = crowdppl.fit(data, model, method=method, seed=1, **OPTIONS[method])
                digests[name] = digest(posterior)
            except CrowdpplError as error:
                digests[name] = str(error)
            print(name, digests[name], flush=True)
    given.file.write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")
    if given.against:
        earlier = json.loads(given.against.read_text(encoding="utf-8"))
        differing = [name for name, value in digests.items() if name in earlier and earlier[name] != value]
        print(f"{len(digests):,} fits, {len(differing):,} differ", *differing, sep="\n")


if __name__ == "__main__":
    main()
