"""Crowds whose labels are numbers, simulated from the linear Gaussian model."""

import numpy as np
import pandas as pd

from crowdppl import Annotations


def crowd(seed=0, items=80, workers=8, each=5, bias=0.5, slope=0.2, noise=0.4, truth=1.0, mean=3.0):
    """Return a frame of numbers, the true ones by item, and what each worker is like."""
    rng = np.random.default_rng(seed)
    x = rng.normal(mean, truth, items)
    kind = pd.DataFrame(
        {
            "bias": rng.normal(0, bias, workers),
            "slope": rng.normal(1, slope, workers),
            "sd": noise * np.exp(rng.normal(0, 0.4, workers)),
        },
        index=[f"w{j}" for j in range(workers)],
    )
    item = np.repeat(np.arange(items), each)
    worker = np.concatenate([rng.permutation(workers)[:each] for _ in range(items)])
    of = kind.iloc[worker]
    value = x[item] + of["bias"] + (of["slope"] - 1) * (x[item] - mean) + of["sd"] * rng.normal(size=len(item))
    frame = pd.DataFrame({"item": item, "worker": kind.index[worker], "label": value.to_numpy()})
    return frame, pd.Series(x), kind


def numbers(seed=0, **options):
    """Return annotations of such a crowd."""
    return Annotations.from_frame(crowd(seed, **options)[0], kind="numeric")
