"""Accuracy on public data with known truth, compared with majority vote and crowd-kit's Dawid–Skene."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from common import SETS, arguments, fit, table, write
from crowdkit.aggregation import DawidSkene as CrowdKit

from crowdppl import Annotations, CrowdpplWarning, Posterior
from crowdppl.data import datasets
from crowdppl.models import DawidSkene

LARGE = 100_000  # annotations; beyond, two shorter chains


def split_ties(data: Annotations, truth: pd.Series) -> float:
    """Return the accuracy of majority vote when ties are broken at random, in expectation."""
    votes = pd.DataFrame(data.votes.numpy(), index=data.items, columns=data.labels).loc[truth.index]
    top = votes.eq(votes.max(axis=1), axis=0).to_numpy()
    place = votes.columns.get_indexer(truth)
    hit = np.where(place >= 0, top[np.arange(len(top)), place], False)
    return float((hit / top.sum(1)).mean())


def accuracy(posterior: Posterior, truth: pd.Series) -> tuple[float, float]:
    """Return accuracy and mean probability of the chosen label on items of known truth."""
    estimated = posterior.truth().set_index("item").loc[truth.index]
    return float((estimated["label"].to_numpy() == truth.to_numpy()).mean()), float(estimated["probability"].mean())


def crowd_kit(data: Annotations, truth: pd.Series) -> tuple[float, float]:
    """Return accuracy and seconds of crowd-kit's Dawid-Skene with its defaults."""
    frame = pd.DataFrame(
        {"task": data.items[data.item], "worker": data.workers[data.worker], "label": data.labels[data.label]}
    )
    began = time.perf_counter()
    labels = CrowdKit().fit_predict(frame)
    seconds = time.perf_counter() - began
    return float((labels.loc[truth.index].to_numpy() == truth.to_numpy()).mean()), seconds


def one(name: str) -> dict[str, Any]:
    """Measure one set."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        data, truth = datasets.public(name)
    out: dict[str, Any] = {"items": data.N, "workers": data.J, "annotations": data.A, "K": data.K, "known": len(truth)}
    out["majority"] = split_ties(data, truth)
    out["crowd_kit"], out["crowd_kit_s"] = crowd_kit(data, truth)
    likelihood, out["ml_s"] = fit(data, DawidSkene.maximum_likelihood(), method="em", num_samples=2)
    out["ml"], _ = accuracy(likelihood, truth)
    em, out["em_s"] = fit(data, "dawid-skene", method="em")
    out["em"], out["em_confidence"] = accuracy(em, truth)
    chains = (
        {"chains": 2, "warmup": 200, "num_samples": 200}
        if data.A > LARGE
        else {"chains": 4, "warmup": 500, "num_samples": 500}
    )
    gibbs, out["gibbs_s"] = fit(data, "dawid-skene", method="gibbs", **chains)
    out["gibbs"], out["gibbs_confidence"] = accuracy(gibbs, truth)
    out["gibbs_r_hat"] = max(gibbs.info["facts"]["r_hat"].values(), default=1.0)
    out["gibbs_draws"] = gibbs.tree["posterior"].sizes["chain"] * gibbs.tree["posterior"].sizes["draw"]
    print(name, out, flush=True)
    return out


def main() -> None:
    """Measure all sets and write two tables."""
    options = arguments(__doc__ or "")
    results = {name: one(name) for name in (SETS[:2] if options.quick else SETS)}
    scores = ("majority", "crowd_kit", "ml", "em", "gibbs", "em_confidence", "gibbs_confidence")
    rows = [
        [name, *(r[c] for c in ("items", "workers", "annotations", "K", "known")), *(f"{r[c]:.4f}" for c in scores)]
        for name, r in results.items()
    ]
    means = [f"{np.mean([r[c] for r in results.values()]):.4f}" for c in scores]
    rows.append(["mean", *[""] * 5, *means])
    header = ["set", "items", "workers", "annotations", "K", "known", "majority", "crowd-kit DS", "DS, ML", "DS, EM"]
    first = table([*header, "DS, Gibbs", "EM's confidence", "Gibbs' confidence"], rows)
    times = [
        [name, r["crowd_kit_s"], r["ml_s"], r["em_s"], r["gibbs_s"], r["gibbs_draws"], f"{r['gibbs_r_hat']:.3f}"]
        for name, r in results.items()
    ]
    second = table(["set", "crowd-kit DS", "DS, ML", "DS, EM", "DS, Gibbs", "draws kept", "worst R-hat"], times)
    body = f"""Accuracy on the items of known truth. Majority vote with ties split evenly; crowd-kit with its defaults; DS is
`dawid-skene`: *ML* without a prior, *EM* and *Gibbs* with the default prior. *Confidence* is the mean probability of the chosen
label on the same items; if it exceeds the accuracy, the model is overconfident.

{first}

Seconds from data in memory to the result in memory. Our times include intervals (EM, Gibbs), log-likelihood and diagnostics;
those of crowd-kit include only the labels.

{second}

Gibbs: four chains of 500 draws after 500, or two of 200 after 200 with more than {LARGE:,} annotations. If R-hat is above
1.01, the fit warns that it has not converged.
"""
    write("real_data", "Accuracy on public data", body, results, options)


if __name__ == "__main__":
    main()
