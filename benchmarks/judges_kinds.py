"""Twelve kinds of simulated panels, to none of which anything was tuned: coverage and width of the rates of systems."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pandas as pd
from judges_methods import RATES, PanelSet, chosen

from crowdppl import judges
from crowdppl.judges import Verdicts

METHODS = ("crowdppl.judges", "logistic regression, bootstrap")
# Arguments of judges.simulate, by kind; the last two change what it simulates.
KINDS: dict[str, dict[str, Any]] = {
    "three families, correlation .5": {},
    "independent errors": {"correlation": 0.0},
    "correlation .85": {"correlation": 0.85},
    "one judge": {"accuracy": (0.85,), "family": ("a",)},
    "two judges of a family": {"accuracy": (0.82, 0.78), "family": ("a", "a")},
    "twelve judges": {"accuracy": tuple(np.linspace(0.65, 0.9, 12)), "family": tuple("abcd" * 3)},
    "weak judges": {"accuracy": (0.6, 0.62, 0.64, 0.66, 0.68), "family": tuple("aabbc")},
    "good systems": {"rates": (0.97, 0.95, 0.9)},
    "eight systems": {"rates": tuple(np.linspace(0.3, 0.9, 8)), "items": 100},
    "40 answers a system": {"items": 40},
    "accuracy varies by system": {},
    "self-preference": {},
}


def panel_of(kind: str, seed: int) -> PanelSet:
    """Return a simulated panel."""
    verdicts, truth = judges.simulate(seed=40_000 + seed, **KINDS[kind])
    rng = np.random.default_rng([seed, zlib.crc32(kind.encode())])
    passes = verdicts["item"].map(truth.set_index("item")["verdict"]) == "pass"
    said = verdicts["verdict"] == "pass"
    if kind == "accuracy varies by system":
        # Of some systems, a part of the verdicts of all judges is turned; of others, a part of the wrong ones is corrected.
        shift = dict(zip(np.unique(verdicts["system"]), rng.normal(0, 0.08, verdicts["system"].nunique()), strict=True))
        own = verdicts["system"].map(shift).to_numpy()
        wrong = (said != passes).to_numpy()
        turned = rng.random(len(verdicts)) < np.where(own > 0, np.where(wrong, 0, own), np.where(wrong, -5 * own, 0))
        said = said ^ turned
    if kind == "self-preference":
        own = (verdicts["family"] == "a") & (verdicts["system"] == "s1")
        said = said | (own & (rng.random(len(verdicts)) < 0.4))
    verdicts = verdicts.assign(verdict=np.where(said, "pass", "fail"))
    coded = Verdicts.from_frame(verdicts, labels=["fail", "pass"])
    by_item = truth.set_index("item")["verdict"]
    return PanelSet(coded, (by_item[coded.items.tolist()] == "pass").to_numpy().astype(np.int64))


def kind_part(kind: str, labels: int, method: str, seed: int) -> dict[str, float]:
    """Measure one method once: coverage, width and error of the rates of the systems."""
    panel = panel_of(kind, seed)
    truth = pd.Series(panel.truth).groupby(panel.verdicts.system).mean().to_numpy()
    rate, low, high = RATES[method](panel, chosen(panel, labels, seed), seed)
    return {
        "covered": float(((low - 1e-9 <= truth) & (truth <= high + 1e-9)).mean()),
        "width": float((high - low).mean()),
        "error": float(np.abs(rate - truth).mean()),
    }
