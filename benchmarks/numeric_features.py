"""Numbers whose items have features: without them, linear in them, and with networks of them."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from common import arguments, table, write
from scipy.sparse.linalg import svds

import crowdppl
from crowdppl import Annotations
from crowdppl.data import datasets
from crowdppl.errors import silent
from crowdppl.models import LinearGaussian

LEVEL = 0.89
COMPONENTS = 100
MODELS = {
    "without features": LinearGaussian(),
    "linear": LinearGaussian(),
    "network": LinearGaussian(feature_model="network"),
}
Array = np.ndarray[Any, Any]
MEASURES = ("error", "covered", "error, new items", "covered, new items", "seconds")


def scored(frame: pd.DataFrame, features: pd.DataFrame, true: Array, new: pd.DataFrame, of_new: Array) -> Any:
    """Return errors and coverage on the items of a frame and on new ones, by model.

    Args:
        frame: labels of tasks ``0..N-1``.
        features: of these tasks, ``(N, D)``.
        true: their true numbers, ``(N,)``.
        new: features of new items.
        of_new: their true numbers.
    """
    out = {}
    for name, model in MODELS.items():
        began = time.perf_counter()
        given = None if name == "without features" else features
        with silent():
            data = Annotations.from_frame(frame, kind="numeric", features=given, items=range(len(true)))
            posterior: Any = crowdppl.fit(data, model, method="em", seed=0)
        seconds = time.perf_counter() - began
        out[name] = dict.fromkeys(MEASURES, float("nan")) | {"seconds": seconds}
        tables = {"": (posterior.truth(level=LEVEL), true)}
        if given is not None:
            tables[", new items"] = (crowdppl.predict(posterior, new, level=LEVEL), of_new)
        for end, (rows, numbers) in tables.items():
            out[name][f"error{end}"] = float(np.sqrt(((rows["value"] - numbers) ** 2).mean()))
            out[name][f"covered{end}"] = float(((rows["low"] <= numbers) & (numbers <= rows["high"])).mean())
    return out


def simulated(seed: int, items: int, linear: bool, each: int = 2, workers: int = 20) -> tuple[Any, ...]:
    """Draw labels of items with five features, and items without labels; numbers are linear in the features or not."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(items + 2000, 5))
    mean = x[:, 0] + 0.5 * x[:, 1] if linear else np.sin(2 * x[:, 0]) + 0.7 * x[:, 1] * x[:, 2] + 0.5 * x[:, 3]
    true = mean + 0.3 * rng.normal(size=len(x))
    bias, noise = rng.normal(0, 0.4, workers), 0.5 * np.exp(0.4 * rng.normal(size=workers))
    item = np.repeat(np.arange(items), each)
    worker = np.concatenate([rng.permutation(workers)[:each] for _ in range(items)])
    label = true[item] + bias[worker] + noise[worker] * rng.normal(size=len(item))
    features = pd.DataFrame(x).add_prefix("x")
    frame = pd.DataFrame({"task": item, "worker": worker, "label": label})
    return frame, features[:items], true[:items], features[items:].reset_index(drop=True), true[items:]


def movie_reviews(each: int) -> tuple[Any, ...]:
    """Return ``each`` labels of every review, principal components of its words, and 3,506 further reviews."""
    data: Any
    data, truth = datasets.public("movie-reviews")
    folder = datasets.folder()
    assert folder is not None
    file = np.load(folder / "movie-reviews" / "features.npz")
    known, new = (
        scipy.sparse.csr_array(
            (1 + np.log(file[f"counts{end}"].astype(float)), file[f"indices{end}"], file[f"indptr{end}"]),
            shape=(len(file[f"indptr{end}"]) - 1, int(file["n_terms"])),
        )
        for end in ("", "_test")
    )
    often = (known > 0).sum(0)
    kept = often >= 5
    weight = np.log(known.shape[0] / np.maximum(often, 1))
    known, new = ((part @ scipy.sparse.diags_array(weight))[:, kept] for part in (known, new))
    known, new = (scipy.sparse.diags_array(1 / np.sqrt(part.power(2).sum(1))) @ part for part in (known, new))
    _, _, axes = svds(known, COMPONENTS, random_state=0)
    features, of_new = (pd.DataFrame(part @ axes.T).add_prefix("component ") for part in (known, new))
    frame = pd.DataFrame({"task": data.item.numpy(), "worker": data.worker.numpy(), "label": data.value.numpy()})
    frame = frame.sample(frac=1, random_state=0).groupby("task").head(each)
    row = pd.Index(file["items"].astype(int)).get_indexer(pd.Index(data.items))
    features = features.iloc[row].reset_index(drop=True)
    true = truth.loc[data.items].to_numpy(dtype=float)
    return frame, features, true, of_new, file["y_test"]


def mean_of(runs: list[Any]) -> Any:
    """Return the mean of every measure over runs, by model."""
    return {name: {key: float(np.mean([run[name][key] for run in runs])) for key in MEASURES} for name in MODELS}


def page(results: dict[str, Any]) -> str:
    """Return the tables as Markdown."""
    sections = [
        f"## {title}\n\n{table(['', *MEASURES], [[name, *each[name].values()] for name in MODELS])}"
        for title, each in results["parts"].items()
    ]
    runs = results["runs"]
    return f"""
[linear-gaussian](../models/linear-gaussian.md) by EM, without features, with their linear effects, and with
`feature_model="network"`, a score by networks of 32 hidden units as one feature more. Root mean squared errors of the truths, and
the share of {LEVEL:.0%} intervals that hold them; means over {runs} simulated crowds each. Simulated items have five features
and two labels. Not linear: `sin(2 x0) + .7 x1 x2 + .5 x3`; linear: `x0 + .5 x1`; both with a residual of standard deviation .3.
Reviews have {COMPONENTS} principal components of their words.

{chr(10).join(part + chr(10) for part in sections)}
"""


def main() -> None:
    """Measure, print, write."""
    options = arguments(__doc__ or "")
    runs = 1 if options.quick else 10
    parts: dict[str, Any] = {}
    for title, items, linear in (
        ("Not linear, 300 items", 300, False),
        ("Not linear, 2,000 items", 2000, False),
        ("Linear, 300 items", 300, True),
        ("Linear, 2,000 items", 2000, True),
    ):
        parts[title] = mean_of([scored(*simulated(seed, items, linear)) for seed in range(runs)])
        print(title, parts[title], flush=True)
    for title, each in (("Movie reviews, five labels each", 5), ("Movie reviews, two labels each", 2)):
        parts[title] = scored(*movie_reviews(each))
        print(title, parts[title], flush=True)
    results = {"runs": runs, "parts": parts}
    if not options.quick:
        write("numeric_features", "Benchmark: features of items with numbers", page(results), results, options)


if __name__ == "__main__":
    main()
