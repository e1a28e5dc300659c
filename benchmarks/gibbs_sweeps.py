"""Compiled Gibbs chains of item effects against torch's operations: time of a sweep, and of a fit until convergence."""

from __future__ import annotations

import time
from typing import Any
from unittest import mock

import torch
from common import arguments, fit, table, write

from crowdppl import Annotations
from crowdppl.data import datasets
from crowdppl.inference import gibbs
from crowdppl.inference.checkpoint import NOTHING
from crowdppl.isolation import isolated
from crowdppl.model.bound import bind
from crowdppl.models import ItemEffects

SETS = ("bluebirds", "mace-example", "rte", "labelme", "product")
CHAINS, ROUNDS = 4, 3
NO_STEP = mock.patch.object(gibbs, "compiled_step", return_value=None)


class Sampler:
    """Four chains that have begun, after some sweeps.

    Args:
        data: the annotations.
        sweeps: in one timing.
    """

    def __init__(self, data: Annotations, sweeps: int):
        model = bind(ItemEffects(), data)
        arranged = model.anchored(model.expand(data))
        assert model.why_not_gibbs(arranged) is None
        self.sweeps, self.run = sweeps, gibbs._Run(model, arranged, CHAINS, 0, 100 * sweeps)
        self.times(70 // sweeps + 1)

    def times(self, count: int = 1) -> tuple[float, float]:
        """Return seconds and processor seconds of a sweep of all chains; the blocks of the monitor are longer than a sweep."""
        with isolated(0, threads=1), torch.inference_mode():
            wall, processor = time.perf_counter(), time.process_time()
            for _ in range(count):
                self.run.turn(self.run.target + self.sweeps, lambda *progress: None, NOTHING)
            number = count * self.sweeps
            return (time.perf_counter() - wall) / number, (time.process_time() - processor) / number


def one(name: str, rounds: int) -> dict[str, Any]:
    """Measure one set: the two in turn, so that other work on the machine meets both, and the shortest time of each."""
    data, truth = datasets.public(name)
    fast = Sampler(data, 100)
    with NO_STEP:
        plain = Sampler(data, 5)
    pairs = [(fast.times(), plain.times()) for _ in range(rounds)]
    fast.run.close()
    out: dict[str, Any] = {"items": data.N, "workers": data.J, "annotations": data.A, "classes": data.K}
    for place, kind in enumerate(("seconds", "processor_seconds")):
        out[kind], out[f"torch_{kind}"] = (min(pair[side][place] for pair in pairs) for side in (0, 1))
    posterior, out["fit_seconds"] = fit(data, "item-effects", method="gibbs", seed=0)
    facts = posterior.info["facts"]
    out["sweeps"] = facts["warmup"] + facts["num_samples"]
    out["r_hat"], out["ess"] = (
        max(facts["r_hat"].values(), default=1.0),
        min(facts["ess"].values(), default=float("inf")),
    )
    out["converged"] = not posterior.alert
    labels = posterior.truth().set_index("item").loc[truth.index, "label"]
    out["accuracy"] = float((labels.to_numpy() == truth.to_numpy()).mean())
    print(name, out, flush=True)
    return out


def main() -> None:
    """Measure all sets and write the table."""
    options = arguments(__doc__ or "")
    fit(datasets.anaesthesia(), "item-effects", method="gibbs", warmup=1, num_samples=1)  # compiles
    results = {name: one(name, 1 if options.quick else ROUNDS) for name in (SETS[:1] if options.quick else SETS)}
    rows = [
        [
            name,
            *(r[key] for key in ("items", "workers", "annotations", "classes")),
            1000 * r["seconds"],
            1000 * r["torch_seconds"],
            r["torch_seconds"] / r["seconds"],
            r["torch_processor_seconds"] / r["processor_seconds"],
            r["sweeps"],
            r["fit_seconds"],
            r["r_hat"],
            round(r["ess"]),
            r["converged"],
        ]
        for name, r in results.items()
    ]
    header = [
        "set",
        "items",
        "workers",
        "annotations",
        "classes",
        "ms a sweep",
        "ms, torch",
        "ratio",
        "ratio, processor",
    ]
    header += ["sweeps", "fit, s", "R-hat", "ESS", "converged"]
    body = (
        f"A sweep is one of {CHAINS} chains together, with everything that is watched: the shortest of {ROUNDS} timings, taken "
        "in turn for both. Torch's operations run in one thread, which is faster for them where the machine also computes other "
        "things; compiled chains run in as many as there are cores. The ratio of processor times leaves out what further threads "
        "and other processes change. A fit goes on until it has converged or 60 seconds have passed; its seconds depend on what "
        "else the machine computes, and include the evaluation of a thousand draws.\n\n" + table(header, rows)
    )
    write("gibbs_sweeps", "Sweeps of Gibbs sampling", body, results, options)


if __name__ == "__main__":
    main()
