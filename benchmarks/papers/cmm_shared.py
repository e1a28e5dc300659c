"""Shared by the experiments of the crowd mixture paper: divergences and the figures that its authors stored."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

from crowdppl import Posterior
from crowdppl.data import datasets

sys.path.insert(1, str(Path(__file__).parents[1]))  # behind this folder, which has its own baselines

from common import spread

Results = dict[str, dict[str, list[float]]]

# What the paper prints and its authors' stored results do not have, or have otherwise; shares and bits.
PRINTED: dict[str, dict[str, Any]] = {
    "setup1": {"truth": 0.9475, ("DL-DS", "3500"): 0.90},
    "labelme": {("CMM", "test"): 0.8310, ("truth", "train"): 0.9790, ("truth", "test"): 0.9209},
    # By group, in the order of their share.
    "groups": {"share": (0.99, 0.01, 0.0), "similarity": (0.91, 0.02, 0.03), "entropy": (0.48, 2.08, 2.08)},
}


def stored(name: str) -> pd.DataFrame:
    """Return a table of the authors' stored results, in full precision (data set ``cmm-results``)."""
    folder = datasets.folder()
    if folder is None:
        raise SystemExit("set CROWDPPL_DATA to the folder of the data sets")
    return pd.read_csv(folder / "cmm-results" / f"{name}.csv")


def table2(run: str, column: str = "test_accuracy") -> dict[str, dict[str, float]]:
    """Return a column of the stored Table 2, by method and number of annotators; those out of memory are missing."""
    frame = stored("table2")
    frame = frame[(frame["run"] == run) & frame["workers"].notna() & frame[column].notna()]
    names = {"softMV": "soft majority", "hardMV": "hard majority"}
    return {
        names.get(method, method): {str(int(T)): float(v) for T, v in zip(one["workers"], one[column], strict=True)}
        for method, one in frame.groupby("method")
    }


def spreads(values: Mapping[str, Sequence[float]], keys: Sequence[str]) -> list[str]:
    """Format mean and standard deviation over seeds for each key, per cent."""
    return [spread(values[key]) if values.get(key) else "–" for key in keys]


def at_point(posterior: Posterior) -> xr.Dataset:
    """Return the point estimate of EM with the quantities derived from it; draws around it would add noise to matrices."""
    first = posterior.tree["posterior"].to_dataset().isel(chain=0, draw=0)
    point = posterior.tree["point"].to_dataset()
    return point if "confusion" in point else first


def record(results: Results, name: str, key: Any, value: float) -> None:
    """Append the value of one seed."""
    results.setdefault(name, {}).setdefault(str(key), []).append(float(value))
