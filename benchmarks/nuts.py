"""NUTS of this library and of NumPyro on five models, Gibbs sampling beside, and hierarchies in non-centred form."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any
from unittest import mock

import arviz_stats
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import torch
import xarray as xr
from common import arguments, table, write
from numpyro.infer import MCMC, NUTS, init_to_value
from nuts_models import FIVE, Both, Experience

import crowdppl
from crowdppl import AnnotationModel, Annotations
from crowdppl.errors import silent
from crowdppl.inference.backends import choose
from crowdppl.inference.backends.gradients import space_of_chains
from crowdppl.inference.engines.m_step import MStep
from crowdppl.inference.engines.non_centred import NonCentred
from crowdppl.inference.engines.unconstrained import Space
from crowdppl.isolation import isolated
from crowdppl.model.bound import bind
from crowdppl.model.contract import check

CHAINS, ITEMS, WORKERS, CLASSES = 4, 40, 6, 3
# Designs of the regression: workers, annotations of each, and the standard deviation of their effects.
DESIGNS = ((6, 8, 0.3), (20, 10, 0.3), (6, 240, 1.0))
Run = dict[str, Any]


def crowd(
    model: AnnotationModel, items: int, workers: int, per_item: int, parameters: dict[str, float] | None = None
) -> Annotations:
    """Draw labels of three classes from a model; experience is evenly spaced over workers."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(items), per_item)
    worker = np.concatenate([rng.permutation(workers)[:per_item] for _ in range(items)])
    features = np.linspace(-1, 1, workers)[:, None] if isinstance(model, Experience) else None
    drawn = crowdppl.simulate(
        model, task, worker, classes=CLASSES, seed=1, worker_features=features, parameters=parameters or {}
    )
    return drawn[0]


def summary(draws: xr.Dataset) -> xr.Dataset:
    """Return mean, Monte Carlo standard error and effective sample size of every number that is not constant."""
    flat = np.concatenate([value.values.reshape(*value.shape[:2], -1) for value in draws.data_vars.values()], -1)
    moving = flat.std((0, 1)) > 0
    names = [f"{name}{n}" for name, value in draws.data_vars.items() for n in range(value[0, 0].size)]
    x = xr.Dataset({"x": (("chain", "draw", "number"), flat[..., moving])})
    return xr.Dataset(
        {
            "mean": x["x"].mean(("chain", "draw")),
            "error": arviz_stats.mcse(x, method="mean")["x"],
            "ess": arviz_stats.ess(x, method="bulk")["x"],
        },
        coords={"number": np.array(names)[moving]},
    )


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a piece of work gives, and the seconds of the processor that it took, of all threads."""
    began = time.process_time()
    out = work()
    return out, time.process_time() - began


class Watched:
    """The density of a fit, with the seconds that its evaluations and its recording take."""

    def __init__(self) -> None:
        self.calls, self.evaluating, self.recording = 0, 0.0, 0.0
        self.make = choose.density_of_chains

    def __call__(self, *args: Any) -> Any:
        """Return the density of all chains, timed."""
        (density, recorded), self.recording = timed(lambda: self.make(*args))

        def call(place: Any) -> Any:
            out, seconds = timed(lambda: density(place))
            self.calls += 1
            self.evaluating += seconds
            return out

        return call, recorded


def by_us(data: Annotations, model: AnnotationModel, method: str, times: int = 2, **options: Any) -> Run:
    """Fit, the first time cold; the whole result with diagnostics, log-likelihood and tree."""
    seconds, watched = [], Watched()

    def whole() -> Any:
        posterior = crowdppl.fit(data, model, method=method, seed=len(seconds), independent=True, **options)
        return posterior.tree

    for _ in range(times):
        watched = Watched()
        with mock.patch.object(choose, "density_of_chains", watched), silent():
            tree, one = timed(whole)
        seconds.append(one)
    names = list(bind(model, data).dims) or []
    sites = [name for name in tree["posterior"].data_vars if name in sites_of(model, data) or name in names]
    numbers = summary(tree["posterior"].to_dataset()[sites])
    out: Run = {"cold": seconds[0], "warm": seconds[-1], "numbers": numbers, "ess": float(numbers["ess"].min())}
    if method == "nuts":
        steps = tree["sample_stats"]["n_steps"].values
        out |= {"steps": float(steps.mean()), "calls": watched.calls, "evaluating": watched.evaluating}
        out |= {"recording": watched.recording, "diverging": int(tree["sample_stats"]["diverging"].sum())}
    return out | {"per_second": out["ess"] / out["warm"]}


def sites_of(model: AnnotationModel, data: Annotations) -> list[str]:
    """Return the names of a model's sites."""
    return list(crowdppl.pyro_program(model, data).sites)


def start(data: Annotations, model: AnnotationModel) -> dict[str, Any]:
    """Return the parameters that votes suggest, from which our chains begin."""
    with isolated(0, dtype=data.dtype):
        bound = bind(model, data)
        space = Space(check(bound, data))
        first = MStep(bound, data, space).start(bound.initial(data))
        return {name: jnp.array(space.interior(name, value).detach().numpy()) for name, value in first.items()}


def by_numpyro(data: Annotations, both: Both, warmup: int, samples: int) -> Run:
    """Sample the same density, the first time cold: with the compilation."""
    values = {
        name: value for name, value in start(data, both.model).items() if both.name != "GLAD" or name != "prevalence"
    }
    sampler = MCMC(
        NUTS(both.program, init_strategy=init_to_value(values=values)),
        num_warmup=warmup,
        num_samples=samples,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    seconds = []
    for n in range(2):

        def run(n: int = n) -> Any:
            sampler.run(jax.random.PRNGKey(n), data, extra_fields=("num_steps", "diverging"))
            return jax.block_until_ready(sampler.get_samples(group_by_chain=True))

        draws, one = timed(run)
        seconds.append(one)
    arrays = {
        name: ((*("chain", "draw"), *(f"{name}_{d}" for d in range(value.ndim - 2))), np.asarray(value))
        for name, value in draws.items()
    }
    numbers, extra = summary(xr.Dataset(arrays)), sampler.get_extra_fields()
    out: Run = {"cold": seconds[0], "warm": seconds[1], "numbers": numbers, "ess": float(numbers["ess"].min())}
    out |= {"steps": float(extra["num_steps"].mean()), "diverging": int(extra["diverging"].sum())}
    return out | {"per_second": out["ess"] / out["warm"]}


def apart(one: Run, other: Run) -> float:
    """Return the largest difference between means, in standard errors of both."""
    a, b = (run["numbers"] for run in (one, other))
    common = [n for n in a["number"].values if n in set(b["number"].values)]
    a, b = a.sel(number=common), b.sel(number=common)
    return float((abs(a["mean"] - b["mean"]) / np.hypot(a["error"], b["error"])).max())


def five(warmup: int, samples: int) -> tuple[str, dict[str, Any]]:
    """Sample all five models by all three."""
    rows, profile, results = [], [], {}
    options = {"chains": CHAINS, "warmup": warmup, "num_samples": samples}
    for both in FIVE:
        print(f"{both.name} ...", flush=True)
        data = crowd(both.model, ITEMS, WORKERS, WORKERS)
        runs = {
            "crowdppl nuts": by_us(data, both.model, "nuts", 1, **options),
            "NumPyro NUTS": by_numpyro(data, both, warmup, samples),
            "crowdppl gibbs": by_us(data, both.model, "gibbs", 1, **options),
        }
        for name, run in runs.items():
            gap = apart(run, runs["NumPyro NUTS"]) if name != "NumPyro NUTS" else float("nan")
            row = [both.name, name, run["cold"], run["warm"], run["ess"], run["per_second"], gap]
            rows.append([*row, len(run["numbers"]["number"])])
        ours, theirs = runs["crowdppl nuts"], runs["NumPyro NUTS"]
        total, draws = ours["warm"], CHAINS * (warmup + samples)
        profile.append(
            [
                both.name,
                ours["steps"],
                theirs["steps"],
                1e6 * ours["evaluating"] / ours["calls"],
                f"{100 * ours['evaluating'] / total:.0f}%",
                f"{100 * ours['recording'] / total:.0f}%",
                f"{100 * (1 - (ours['evaluating'] + ours['recording']) / total):.0f}%",
                ours["per_second"] / theirs["per_second"],
            ]
        )
        results[both.name] = {
            name: {key: value for key, value in run.items() if key != "numbers"} | {"draws": draws}
            for name, run in runs.items()
        }
    header = ["model", "", "seconds, cold", "warm", "worst ESS", "ESS per second", "largest difference", "parameters"]
    shares = [
        "model",
        "steps a draw",
        "NumPyro's",
        "µs a call",
        "density",
        "recording",
        "trees and the rest",
        "ESS per second, ours to NumPyro's",
    ]
    return f"{table(header, rows)}\n\n{table(shares, profile)}", results


def hierarchies(warmup: int, samples: int, designs: Any) -> tuple[str, list[Any]]:
    """Sample the regression in both forms, on crowds that say little and much of each worker."""
    rows = []
    for workers, each, sigma in designs:
        data = crowd(Experience(), workers * each // 5, workers, 5, {"sigma": sigma})
        row: list[Any] = [f"{workers}", each, sigma]
        for form in (False, True):
            run = by_us(
                data, Experience(), "nuts", 1, non_centred=form, chains=CHAINS, warmup=warmup, num_samples=samples
            )
            row += [run["diverging"], 1000 * run["ess"] / (run["steps"] * CHAINS * samples)]
        with isolated(0, dtype=data.dtype):
            bound = bind(Experience(), data)
            space = space_of_chains(bound, data, Space(check(bound, data)), None)
        rows.append([*row, "non-centred" if isinstance(space, NonCentred) else "centred"])
    header = ["workers", "annotations of each", "sigma", "centred: divergences", "ESS per 1,000 steps"]
    header += ["non-centred: divergences", "ESS per 1,000 steps", "taken"]
    return table(header, rows), rows


def main() -> None:
    """Run all in one process and compare."""
    options = arguments(__doc__ or "")
    numpyro.enable_x64()
    torch.set_num_threads(1)
    warmup, samples = (60, 60) if options.quick else (200, 200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compared, results = five(warmup, samples)
        forms, rows = hierarchies(*((60, 60) if options.quick else (150, 150)), DESIGNS[: 2 if options.quick else None])
    body = BODY.format(compared=compared, forms=forms, warmup=warmup, samples=samples, items=ITEMS, workers=WORKERS)
    write("nuts", "NUTS", body, {"five": results, "forms": rows}, options)


BODY = """
Five models with the truth summed out, on {items} items of three classes that {workers} workers label, drawn from the model:
`crowdppl.fit(data, model, method="nuts")` and NumPyro's NUTS on a program of its own (`benchmarks/nuts_models.py`), with
chains vectorised, in float64, from the same start. {samples} draws of each of four chains after {warmup}. Seconds are of the
processor, of all threads. Ours are those of the whole fit, with diagnostics, log-likelihood and tree; *cold* is the first fit
of a kind, and NumPyro's first run, which compiles. *Worst ESS* is the smallest bulk effective sample size of all parameters,
and *ESS per second* is by the warm time. *Largest difference* is that of posterior means from NumPyro's NUTS, in standard
errors of both, over all parameters: among tens of parameters three are common.
Ours compiles nothing, so that its first fit is its warm one. The regression on experience is moved in non-centred form here, and
as it is written by NumPyro.

{compared}

A *step* is a leapfrog step of one chain. A *call* evaluates density and slope for the four chains together. The chains build
their trees without waiting for each other, so that all four places of a call are of use until the first chain has ended.
Operations are *recorded* once for each fit.

Where NumPyro is ahead, on the hierarchical model, neither sampler has enough effective draws to be compared: a strength and the
typical row of a class make a funnel of Dirichlet rows, and trajectories are a hundred steps long. Gibbs sampling, which draws the
population with the rows summed out, draws as many in less than a tenth of a second.

## Hierarchies

The regression on experience, with effects `Normal(0, sigma)` of the workers: as it is written (*centred*), with the effects moved
as `effect / sigma` (*non-centred*); *taken* is the form that `NUTS` and Gibbs sampling take by themselves. Five annotations an
item; 150 draws of each of four chains after 150.

{forms}

"""


if __name__ == "__main__":
    main()
