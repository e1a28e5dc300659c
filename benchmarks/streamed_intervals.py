"""How often do intervals of streamed variational Bayes hold the workers' accuracy? And Gibbs sampling's, on simulations."""

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
    """Draw 1,000 items in two classes and workers from the one-coin prior, Beta(5, 2); some 40 annotations a worker."""
    rng = np.random.default_rng(seed)
    workers = 1000 * each // 40
    accuracy = rng.beta(5, 2, workers)
    truth = rng.integers(0, 2, 1000)
    item = np.repeat(np.arange(1000), each)
    worker = rng.integers(0, workers, len(item))
    label = np.where(rng.random(len(item)) < accuracy[worker], truth[item], 1 - truth[item])
    return pd.DataFrame({"task": item, "worker": worker, "label": label}), accuracy


def main() -> None:
    """Count intervals of .89 that hold what they are of."""
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
                found = {
                    "vb": stream(Path(folder) / "x.parquet", OneCoin(), method="vb", passes=8, num_samples=1000).workers
                }
                data = Annotations.from_frame(frame)
                found["gibbs"] = fit(
                    data, OneCoin(), method="gibbs", chains=2, num_samples=500, independent=True
                ).workers()
            for name, told in found.items():
                value = accuracy[told["worker"].to_numpy(dtype=int)]
                held[name].append(
                    told["accuracy_low"].le(value).to_numpy() & told["accuracy_high"].ge(value).to_numpy()
                )
                width[name].append((told["accuracy_high"] - told["accuracy_low"]).to_numpy())
        share = {name: float(np.concatenate(parts).mean()) for name, parts in held.items()}
        wide = {name: float(np.concatenate(parts).mean()) for name, parts in width.items()}
        number = len(np.concatenate(held["vb"]))
        results[each] = {"share": share, "width": wide, "intervals": number}
        rows.append(
            [each, f"{number:,}", *(f"{values[name]:.3f}" for values in (share, wide) for name in ("vb", "gibbs"))]
        )
    header = ["annotations an item", "intervals", "held, vb", "held, Gibbs", "width, vb", "width, Gibbs"]
    about = (
        "1,000 items in two classes, workers right by Beta(5, 2) as the one-coin model's prior says, some 40 annotations a "
        "worker, 20 crowds a row; intervals of probability .89 of the workers' accuracy. `vb` is `crowdppl.stream(..., "
        "method='vb')`: truths and workers count as independent there, and the fewer annotations an item has, the less they "
        "are. Gibbs sampling is `crowdppl.fit` with the same model."
    )
    text = f"{about}\n\n{table(header, rows)}"
    write("streamed_intervals", "Intervals of streamed variational Bayes", text, results, options)


if __name__ == "__main__":
    main()
