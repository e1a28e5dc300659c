"""Coverage of the workers' accuracy by intervals of streamed variational Bayes and of Gibbs sampling, on simulations."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from common import arguments, table, write

from crowdppl import Annotations, CrowdpplWarning, fit, stream
from crowdppl.models import OneCoin

EACH = (2, 3, 5, 10, 20)


def crowd(each: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Draw 1,000 items in two classes and workers from the one-coin prior, Beta(5, 2); about 40 annotations per worker."""
    rng = np.random.default_rng(seed)
    workers = 1000 * each // 40
    accuracy = rng.beta(5, 2, workers)
    truth = rng.integers(0, 2, 1000)
    item = np.repeat(np.arange(1000), each)
    worker = rng.integers(0, workers, len(item))
    label = np.where(rng.random(len(item)) < accuracy[worker], truth[item], 1 - truth[item])
    return pd.DataFrame({"task": item, "worker": worker, "label": label}), accuracy


def main() -> None:
    """Measure the coverage of 89% intervals."""
    options = arguments(__doc__ or "")
    rows, results = [], {}
    for each in EACH[:2] if options.quick else EACH:
        held: dict[str, list[np.ndarray]] = {"vb": [], "gibbs": []}
        width: dict[str, list[np.ndarray]] = {"vb": [], "gibbs": []}
        for seed in range(2 if options.quick else 20):
            frame, accuracy = crowd(each, seed)
            with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore", CrowdpplWarning)
                frame.to_parquet(Path(folder) / "x.parquet")
                tables = {
                    "vb": stream(Path(folder) / "x.parquet", OneCoin(), method="vb", passes=8, num_samples=1000).workers
                }
                data = Annotations.from_frame(frame)
                tables["gibbs"] = fit(
                    data, OneCoin(), method="gibbs", chains=2, num_samples=500, independent=True
                ).workers()
            for name, estimates in tables.items():
                value = accuracy[estimates["worker"].to_numpy(dtype=int)]
                held[name].append(
                    estimates["accuracy_low"].le(value).to_numpy() & estimates["accuracy_high"].ge(value).to_numpy()
                )
                width[name].append((estimates["accuracy_high"] - estimates["accuracy_low"]).to_numpy())
        share = {name: float(np.concatenate(parts).mean()) for name, parts in held.items()}
        wide = {name: float(np.concatenate(parts).mean()) for name, parts in width.items()}
        number = len(np.concatenate(held["vb"]))
        results[each] = {"share": share, "width": wide, "intervals": number}
        rows.append(
            [each, f"{number:,}", *(f"{values[name]:.3f}" for values in (share, wide) for name in ("vb", "gibbs"))]
        )
    header = ["annotations per item", "intervals", "coverage, vb", "coverage, Gibbs", "width, vb", "width, Gibbs"]
    about = (
        "1,000 items in two classes, workers with accuracies from Beta(5, 2), the prior of the one-coin model, about 40 "
        "annotations per worker, 20 crowds per row; 89% intervals of the workers' accuracy. `vb` is `crowdppl.stream(..., "
        "method='vb')`. It treats true labels and workers as independent, which is less accurate the fewer annotations an item "
        "has. Gibbs sampling is `crowdppl.fit` with the same model."
    )
    text = f"{about}\n\n{table(header, rows)}"
    write("streamed_intervals", "Intervals of streamed variational Bayes", text, results, options)


if __name__ == "__main__":
    main()
