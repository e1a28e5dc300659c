"""Simulation-based calibration under a different model: crowds with correlated errors, as published and weighted."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import arguments, fit, table, write

from crowdppl import criticism
from crowdppl.criticism import sbc
from crowdppl.data.synthetic import correlated_crowd

DRAWS = 99
COPIES = (0.0, 0.2, 0.4, 0.6)


def crowd(job: tuple[float, int]) -> dict[str, dict[str, list[float]]]:
    """Simulate, fit both ways; return ranks of each worker's share of correct annotations, and calibration of probabilities."""
    torch.set_num_threads(1)
    copies, seed = job
    simulated = correlated_crowd(seed=seed, items=200, workers=20, per_item=int(3 + seed % 8), copies=copies)
    truths = dict(zip(simulated.data.items.tolist(), simulated.truth.tolist(), strict=True))
    rng = np.random.default_rng(seed)
    out = {}
    for kind, independent in (("published", True), ("weighted", False)):
        posterior, _ = fit(
            simulated.data, "dawid-skene", method="gibbs", seed=seed, num_samples=150, independent=independent
        )
        shares = posterior.share_correct_draws()
        kept = shares[np.linspace(0, len(shares) - 1, DRAWS).round().astype(int)]
        cover = criticism.coverage(posterior, truths, minimum=1)
        right = cover.workers["correct"].to_numpy()
        below, equal = (kept < right - 1e-12).sum(0), (np.abs(kept - right) <= 1e-12).sum(0)
        calibration = criticism.calibration(posterior, truths)
        out[kind] = {
            "ranks": (below + rng.integers(0, equal + 1)).tolist(),
            "parameter": cover.workers["accuracy_covers"].tolist(),
            "measures": [calibration.accuracy, calibration.confidence, calibration.log_loss],
        }
    return out


def main() -> None:
    """Run all crowds."""
    options = arguments(__doc__ or "")
    count = 4 if options.quick else 20
    rows, results = [], {}
    with ProcessPoolExecutor(2) as pool:
        for copies in COPIES:
            crowds = list(pool.map(crowd, [(copies, seed) for seed in range(count)]))
            for kind in ("published", "weighted"):
                ranks = np.array([one[kind]["ranks"] for one in crowds])  # (crowds, workers)
                measures = np.mean([one[kind]["measures"] for one in crowds], 0)
                first = sbc.uniformity(
                    ranks[:, 0], DRAWS
                )  # workers of one crowd share its rho: one of each is independent
                share = sbc.coverage(ranks.ravel(), DRAWS)
                parameter = float(np.mean([one[kind]["parameter"] for one in crowds]))
                rows.append(
                    [
                        f"{copies:.0%}",
                        kind,
                        f"{share:.2f}",
                        f"{parameter:.2f}",
                        f"{first:.4f}",
                        *(f"{m:.3f}" for m in measures),
                    ]
                )
                results[f"{copies} {kind}"] = rows[-1]
    header = [
        "copied",
        "",
        "share correct, covered",
        "accuracy, covered",
        "p of uniform ranks",
        "accuracy",
        "confidence",
        "log loss",
    ]
    body = f"""
{count} crowds per row (`crowdppl.data.synthetic.correlated_crowd`: 200 items, 20 workers, 3 to 10 annotations per item, 2
classes), Dawid–Skene by Gibbs; 89% intervals. An annotation repeats the common answer of its item with probability *copied*.
Ranks are those of the share of correct annotations of the first worker of each crowd among {DRAWS} draws.

{table(header, rows)}

The design effect is a correction, not a model of copying; these data come from a different model. If nothing is copied, its
intervals are wider than necessary. If much is copied, they contain the values that the published ones miss.
"""
    write(
        "correlated_sbc", "Crowds with correlated errors", body, results, options, script="calibration/correlated_sbc"
    )


if __name__ == "__main__":
    main()
