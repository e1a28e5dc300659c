"""Intervals of a user's hierarchical regression on forty simulated crowds: what each engine says, and how often it is right."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from common import arguments, table, write
from nuts_models import Experience
from scipy.special import expit

import crowdppl
from crowdppl.errors import silent

CROWDS, ITEMS, WORKERS, PER_ITEM, LEVEL = 40, 40, 8, 5, 0.89
SAMPLED = {"chains": 2, "warmup": 200, "num_samples": 300}
NAMES = ("intercept", "slope", "sigma")


def crowd(seed: int) -> tuple[crowdppl.Annotations, dict[str, Any]]:
    """Draw parameters from the prior and labels from them; return the data and the parameters."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(ITEMS), PER_ITEM)
    worker = np.concatenate([rng.permutation(WORKERS)[:PER_ITEM] for _ in range(ITEMS)])
    years = np.linspace(-1, 1, WORKERS)[:, None]
    data, _, drawn = crowdppl.simulate(Experience(), task, worker, classes=3, seed=seed, worker_features=years)
    return data, drawn


def quantities(values: dict[str, Any], years: Any) -> dict[str, Any]:
    """Return the shared parameters ``(...)`` and the accuracies of the workers ``(..., J)``."""
    one = {name: np.asarray(values[name], dtype=float) for name in (*NAMES, "effect")}
    log_odds = one["intercept"][..., None] + one["slope"][..., None] * years + one["effect"]
    return {name: one[name] for name in NAMES} | {"accuracy": expit(log_odds)}


def held(posterior: crowdppl.Posterior, drawn: dict[str, Any], years: Any) -> dict[str, list[Any]] | None:
    """Return by quantity whether intervals hold the drawn values; ``None`` where the result gives no intervals."""
    tree = posterior.tree["posterior"]
    if not {*NAMES, "effect"} <= set(tree.data_vars) or tree.sizes["draw"] * tree.sizes["chain"] < 2:
        return None
    draws = quantities({name: posterior.draws(name) for name in (*NAMES, "effect")}, years)
    if np.std(draws["sigma"]) == 0:
        return None
    true = quantities(drawn, years)
    out = {}
    for name, values in draws.items():
        low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        inside = (low <= true[name]) & (true[name] <= high)
        out[name] = [np.atleast_1d(inside), np.atleast_1d(high - low)]
    return out


def main() -> None:
    """Fit every crowd by the default engine, Gibbs sampling and NUTS."""
    options = arguments(__doc__ or "")
    torch.set_num_threads(1)
    crowds = 2 if options.quick else CROWDS
    rows: list[list[Any]] = []
    results: dict[str, Any] = {}
    for label, how in (
        ("default", {}),
        ("gibbs", {"method": "gibbs", **SAMPLED}),
        ("nuts", {"method": "nuts", **SAMPLED}),
    ):
        inside: dict[str, list[Any]] = {}
        widths: dict[str, list[Any]] = {}
        said: list[str] = []
        refused = unwarned = 0
        for seed in range(crowds):
            data, drawn = crowd(seed)
            years = np.linspace(-1, 1, WORKERS)
            with silent():
                posterior = crowdppl.fit(data, Experience(), seed=seed, independent=True, **how)
                result = held(posterior, drawn, years)
            warned = [
                one for one in posterior.warnings if "no intervals" in one or "interval" in one or "diverged" in one
            ]
            if result is None:
                refused += 1
                unwarned += not warned
                said += warned[:1]
                continue
            for name, (hit, width) in result.items():
                inside.setdefault(name, []).extend(hit.tolist())
                widths.setdefault(name, []).extend(width.tolist())
        share = [f"{100 * np.mean(inside[name]):.0f}%" if inside else "–" for name in (*NAMES, "accuracy")]
        rows.append([label, posterior.info["method"], refused, unwarned, *share])
        results[label] = {
            "method": posterior.info["method"],
            "refused": refused,
            "unwarned": unwarned,
            "said": said[:1],
        }
        results[label] |= {name: float(np.mean(hits)) for name, hits in inside.items()}
        print(rows[-1], said[:1], flush=True)
    header = ["fit by", "engine", "says that it has no intervals", "gives none and says nothing"]
    header += [*NAMES, "accuracy of a worker"]
    quoted = "".join(f"\n\n> {one}" for one in results["default"]["said"])
    body = f"""A model as a user writes it: the log odds of a correct label are linear in a worker's experience, with an effect
`Normal(0, sigma)` of each worker and `sigma ~ HalfNormal(0.5)`. {crowds} crowds of {WORKERS} workers, {ITEMS} items of three
classes with {PER_ITEM} annotations each; parameters are drawn from the prior, so that intervals of {LEVEL:.0%} hold
{LEVEL:.0%} of them if the computation is right. Over {crowds} crowds the standard error is
{100 * np.sqrt(LEVEL * (1 - LEVEL) / crowds):.0f}% for a shared
parameter. Gibbs sampling and NUTS take {SAMPLED["num_samples"]} draws of each of {SAMPLED["chains"]} chains after
{SAMPLED["warmup"]}, with effects in [non-centred form](nuts.md#hierarchies) where they choose it.

{table(header, rows)}

The default engine says of such a result:{quoted}
"""
    write("hierarchy", "Intervals of a hierarchy", body, results, options)


if __name__ == "__main__":
    main()
