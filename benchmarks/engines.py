"""Agreement of the four engines on Dawid and Skene's table, compared with a long Gibbs run."""

from __future__ import annotations

import arviz_stats
import numpy as np
from common import arguments, fit, table, write

from crowdppl import Posterior
from crowdppl.data import datasets

RUNS = {
    "gibbs, 4 x 1,000": {"method": "gibbs", "seed": 1},
    "nuts, 4 x 500": {"method": "nuts", "seed": 1, "warmup": 300, "num_samples": 500},
    "svi": {"method": "svi", "seed": 1},
    "em": {"method": "em", "seed": 1},
}
QUICK = {"nuts, 4 x 500": {"method": "nuts", "seed": 1, "chains": 2, "warmup": 50, "num_samples": 50}}


def mean_confusion(posterior: Posterior) -> np.ndarray:
    """Return the mean of the draws, (J, K, K)."""
    return posterior.tree["posterior"]["confusion"].mean(("chain", "draw")).values


def mcse(posterior: Posterior) -> np.ndarray:
    """Return Monte Carlo standard errors of the mean confusion, (J, K, K)."""
    return np.asarray(arviz_stats.mcse(posterior.tree["posterior"].to_dataset()[["confusion"]])["confusion"])


def widths(posterior: Posterior) -> float:
    """Return the mean width of the workers' accuracy intervals."""
    workers = posterior.workers()
    return float((workers["accuracy_high"] - workers["accuracy_low"]).mean())


def main() -> None:
    """Fit, compare, write."""
    options = arguments(__doc__ or "")
    data = datasets.anaesthesia()
    reference, _ = fit(data, "dawid-skene", method="gibbs", seed=0, num_samples=2_000 if options.quick else 10_000)
    truth = reference.tree["truth"]["probability"].values
    rows, results = [], {}
    for name, settings in (RUNS | (QUICK if options.quick else {})).items():
        posterior, seconds = fit(data, "dawid-skene", **settings)
        apart = np.abs(posterior.tree["truth"]["probability"].values - truth)
        off = np.abs(mean_confusion(posterior) - mean_confusion(reference))
        errors = "–"
        if posterior.kind == "posterior":
            errors = f"{(off / np.hypot(mcse(posterior), mcse(reference))).max():.1f}"
        changed = int((posterior.truth()["label"] != reference.truth()["label"]).sum())
        rows.append(
            [
                name,
                seconds,
                apart.max(),
                apart.mean(),
                changed,
                off.max(),
                off.mean(),
                errors,
                widths(posterior) / widths(reference),
            ]
        )
        results[name] = {"truth_max": apart.max(), "confusion_max": off.max()}
    body = (
        "Reference: Gibbs, 4 x 10,000 draws. Default prior. The table gives differences of the posterior probability of every "
        "class of every patient, and of every cell of the mean confusion matrices; for samplers also the largest difference of a "
        "cell in joint Monte Carlo standard errors (for 80 cells, values below 4 are consistent with chance).\n\n"
        + table(
            [
                "engine",
                "seconds",
                "true label, largest",
                "mean",
                "labels changed",
                "confusion, largest",
                "mean",
                "in standard errors",
                "width of intervals, ratio",
            ],
            rows,
        )
        + "\n\nEM differs most for a patient between two classes (number 3): at the mode of the parameters one class is clearly "
        "more probable, under the posterior it is not."
    )
    write("engines", "Agreement of the engines", body, results, options)


if __name__ == "__main__":
    main()
