"""How often verdicts on workers are correct, in simulated crowds with known characters.

Writes docs/benchmarks/verdicts.md. The seeds are not those that the thresholds of crowdppl/posterior/workers/verdicts.py were
chosen with.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import torch
from common import arguments, fit, table, write

from crowdppl import Annotations
from crowdppl.posterior.workers import VERDICTS

CLASSES = (2, 3, 5, 8)
SEEDS = range(5000, 5060)
ITEMS, HONEST, EACH, PER_ITEM = 150, 12, 44, 5
KINDS = (
    "correct in 85 to 95%",
    "correct in 65 to 85%",
    "correct in 55 to 65%",
    "random",
    "always the same label",
    "always wrong: swaps",
    "always wrong: any",
)


def crowd(classes: int, seed: int) -> tuple[pd.DataFrame, dict[str, str]]:
    """Draw a crowd: honest workers of different accuracy, and one of each of four characters.

    Returns:
        The annotations, and the kind of each worker.
    """
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, ITEMS)
    accuracy = rng.uniform(0.55, 0.95, HONEST)

    def wrong(k: int) -> int:
        return int((k + rng.integers(1, classes)) % classes)

    rows = [
        (i, f"honest {j}", int(truth[i]) if rng.random() < accuracy[j] else wrong(truth[i]))
        for i in range(ITEMS)
        for j in rng.choice(HONEST, PER_ITEM, replace=False)
    ]
    characters = {
        "random": lambda k: int(rng.integers(classes)),
        "always the same label": lambda k: 0,
        "always wrong: swaps": lambda k: (int(k) + 1) % classes,
        "always wrong: any": wrong,
    }
    for name, answer in characters.items():
        rows += [(i, name, answer(truth[i])) for i in rng.choice(ITEMS, EACH, replace=False)]
    kinds = {name: name for name in characters}
    for j, share in enumerate(accuracy):
        kinds[f"honest {j}"] = KINDS[0] if share >= 0.85 else KINDS[1] if share >= 0.65 else KINDS[2]
    return pd.DataFrame(rows, columns=["item", "worker", "label"]), kinds


def verdicts(job: tuple[int, int]) -> Counter[tuple[int, str, str]]:
    """Fit a crowd and count (classes, kind of worker, verdict)."""
    torch.set_num_threads(1)
    classes, seed = job
    frame, kinds = crowd(classes, seed)
    data = Annotations.from_frame(frame, labels=range(classes))
    posterior, _ = fit(data, "dawid-skene", method="em", seed=seed, num_samples=200, independent=False)
    workers = posterior.workers()
    return Counter(
        (classes, kinds[name], word) for name, word in zip(workers["worker"], workers["verdict"], strict=True)
    )


def main() -> None:
    """Count verdicts over all crowds."""
    options = arguments(__doc__ or "")
    seeds = SEEDS[:3] if options.quick else SEEDS
    counts: Counter[tuple[int, str, str]] = Counter()
    with ProcessPoolExecutor(2) as pool:
        for one in pool.map(verdicts, [(classes, seed) for classes in CLASSES for seed in seeds]):
            counts += one

    def rows(classes: tuple[int, ...]) -> list[list[Any]]:
        out = []
        for kind in KINDS:
            numbers = [sum(counts[k, kind, word] for k in classes) for word in VERDICTS if word != "hasty"]
            out.append([kind, sum(numbers), *numbers])
        return out

    head = ["worker", "number", *[word for word in VERDICTS if word != "hasty"]]
    body = f"""
{len(CLASSES) * len(seeds)} simulated crowds of {", ".join(map(str, CLASSES))} classes: {ITEMS} items, {HONEST} honest workers
who are correct in 55% to 95% of their annotations and together give {PER_ITEM} annotations of each item, and one worker of
each other kind with {EACH} annotations. Dawid–Skene by EM with default settings. The thresholds were chosen on other seeds.
Rows are the kinds of workers, columns the verdicts ([definitions](../guide/inspection.md)); `hasty` needs durations, which
these crowds do not have.

{table(head, rows(CLASSES))}

With two classes, where {EACH} annotations contain little information:

{table(head, rows((2,)))}
"""
    story = [
        {"classes": k, "worker": kind, "verdict": word, "count": n} for (k, kind, word), n in sorted(counts.items())
    ]
    write("verdicts", "Verdicts on workers", body, story, options)


if __name__ == "__main__":
    main()
