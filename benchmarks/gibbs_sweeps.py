"""Compiled Gibbs chains against torch's operations: time of a sweep, of a fit until convergence, and from a frame to tables."""

from __future__ import annotations

import time
from typing import Any
from unittest import mock

import pandas as pd
import torch
from common import arguments, fit, table, write

import crowdppl
from crowdppl import Annotations
from crowdppl.data import datasets
from crowdppl.errors import silent
from crowdppl.inference.backends import choose
from crowdppl.inference.catalogue import named_model
from crowdppl.inference.engines import gibbs
from crowdppl.inference.hooks import SILENT
from crowdppl.isolation import isolated
from crowdppl.model.bound import bind

SETS = ("bluebirds", "mace-example", "rte", "labelme", "product")
MODELS = ("item-effects", "dawid-skene")
CHAINS, ROUNDS = 4, 3
# The time from a frame to the tables of true labels and workers, of a run of fixed length.
FRAMES = (*SETS, "cifar10s", "adult-content", "fact-eval", "imagenet-real")
LENGTH = {"chains": CHAINS, "warmup": 500, "num_samples": 1000}
NO_STEP = mock.patch.object(choose, "compiled_step", return_value=None)


class Sampler:
    """Four chains that have begun, after some sweeps.

    Args:
        data: the annotations.
        name: of the model.
        sweeps: in one timing.
    """

    def __init__(self, data: Annotations, name: str, sweeps: int):
        model = bind(named_model(name), data)
        arranged = model.anchored(model.expand(data))
        assert model.why_not_gibbs(arranged) is None
        self.sweeps, self.run = sweeps, gibbs._Run(model, arranged, CHAINS, 0, 100 * sweeps)
        self.times(70 // sweeps + 1)

    def times(self, count: int = 1) -> tuple[float, float]:
        """Return seconds and processor seconds of a sweep of all chains; the blocks of the monitor are longer than a sweep."""
        with isolated(0, threads=1), torch.inference_mode():
            wall, processor = time.perf_counter(), time.process_time()
            for _ in range(count):
                self.run.turn(self.run.target + self.sweeps, SILENT)
            number = count * self.sweeps
            return (time.perf_counter() - wall) / number, (time.process_time() - processor) / number


def one(name: str, model: str, rounds: int) -> dict[str, Any]:
    """Measure one set: the two in turn, so that other work on the machine meets both, and the shortest time of each."""
    data, truth = datasets.public(name)
    fast = Sampler(data, model, 100)
    with NO_STEP:
        plain = Sampler(data, model, 5)
    pairs = [(fast.times(), plain.times()) for _ in range(rounds)]
    fast.run.sampler.close()
    out: dict[str, Any] = {"items": data.N, "workers": data.J, "annotations": data.A, "classes": data.K}
    for place, kind in enumerate(("seconds", "processor_seconds")):
        out[kind], out[f"torch_{kind}"] = (min(pair[side][place] for pair in pairs) for side in (0, 1))
    posterior, out["fit_seconds"] = fit(data, model, method="gibbs", seed=0)
    facts = posterior.info["facts"]
    out["sweeps"] = facts["warmup"] + facts["num_samples"]
    out["r_hat"], out["ess"] = (
        max(facts["r_hat"].values(), default=1.0),
        min(facts["ess"].values(), default=float("inf")),
    )
    out["converged"] = not posterior.alert
    labels = posterior.truth().set_index("item").loc[truth.index, "label"]
    out["accuracy"] = float((labels.to_numpy() == truth.to_numpy()).mean())
    print(name, model, out, flush=True)
    return out


def from_frame(name: str, rounds: int) -> dict[str, float]:
    """Return seconds and processor seconds from a frame to the tables of true labels and workers, of the quickest round."""
    data = datasets.public(name)[0]
    parts = {"task": data.items[data.item], "worker": data.workers[data.worker], "label": data.labels[data.label]}
    frame, times = pd.DataFrame(parts), []
    for _ in range(rounds):
        wall, processor = time.perf_counter(), time.process_time()
        with silent():
            posterior = crowdppl.fit(frame, "dawid-skene", method="gibbs", seed=0, **LENGTH)
        posterior.truth()
        posterior.workers()
        times.append((time.perf_counter() - wall, time.process_time() - processor))
    seconds, processor_seconds = min(times)
    print(name, times, flush=True)
    return {"annotations": data.A, "classes": data.K, "seconds": seconds, "processor_seconds": processor_seconds}


def main() -> None:
    """Measure all sets and write the table."""
    options = arguments(__doc__ or "")
    for model in MODELS:
        fit(datasets.anaesthesia(), model, method="gibbs", warmup=1, num_samples=1)  # compiles
    rounds, sets = (1, SETS[:1]) if options.quick else (ROUNDS, SETS)
    results = {f"{model}, {name}": one(name, model, rounds) for model in MODELS for name in sets}
    frames = {name: from_frame(name, rounds) for name in (FRAMES[:1] if options.quick else FRAMES)}
    rows = [
        [
            *name.split(", "),
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
        "model",
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
    lines = [[name, *r.values()] for name, r in frames.items()]
    body += (
        "\n\n## From a frame to the tables\n\nDawid and Skene's model, 4 chains of 500 and 1,000 sweeps: seconds from a pandas "
        f"frame to the tables of true labels and of workers with their intervals, the quickest of {ROUNDS}, and the processor "
        "seconds of the same run.\n\n" + table(["set", "annotations", "classes", "seconds", "processor, s"], lines)
    )
    write("gibbs_sweeps", "Sweeps of Gibbs sampling", body, {"sweeps": results, "frames": frames}, options)


if __name__ == "__main__":
    main()
