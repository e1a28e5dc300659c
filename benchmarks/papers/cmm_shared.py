"""Shared by the experiments of the crowd mixture paper: divergences and the figures that its authors stored."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data import datasets

sys.path.insert(0, str(Path(__file__).parents[1]))

from common import spread

Results = dict[str, dict[str, list[float]]]


def divergence(first: np.ndarray, second: np.ndarray) -> float:
    """Return the Jensen-Shannon divergence in bits of the rows of two (stacks of) matrices, mean over rows.

    I-JS of the paper for stacks ``(J, K, K)``, G-JS for the crowd's matrices ``(K, K)``.
    """
    middle = (first + second) / 2
    parts = []
    for p in (first, second):
        with np.errstate(divide="ignore", invalid="ignore"):
            parts.append(np.where(p > 0, p * np.log2(p / middle), 0.0).sum(-1))
    return float((parts[0] + parts[1]).mean() / 2)


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


def record(results: Results, name: str, key: Any, value: float) -> None:
    """Append the value of one seed."""
    results.setdefault(name, {}).setdefault(str(key), []).append(float(value))


def verdict(values: Sequence[float], theirs: float) -> str:
    """Say how accuracies of several seeds compare to the paper's: reproduced within a point or two standard deviations."""
    margin = max(0.01, 2 * float(np.std(values, ddof=1)) if len(values) > 1 else 0.0)
    gain = float(np.mean(values)) - theirs
    return "reproduced" if abs(gain) <= margin else "better" if gain > 0 else "not reproduced"
