"""Effective samples per second of the Dawid–Skene model on three sets: our Gibbs sampler and NUTS, and NumPyro's NUTS."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any

import arviz_stats
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import xarray as xr
from common import arguments, fit, table, write
from numpyro.infer import MCMC, NUTS, init_to_value

from crowdppl import Annotations
from crowdppl.data import datasets
from crowdppl.inference.draws import Draws
from crowdppl.inference.options import completed
from crowdppl.inference.run import ENGINES
from crowdppl.isolation import isolated
from crowdppl.model.bound import bind
from crowdppl.models import DawidSkene

# The R package rater's prior: prevalence Dirichlet(3), rows with 8 pseudo-counts, .6 of them on the diagonal.
ROWS = np.full((4, 4), 3.2 / 3) + (4.8 - 3.2 / 3) * np.eye(4)
RATER = [0.3753, 0.4068, 0.1434, 0.0744]
CHAINS = 4
Runs = dict[str, dict[str, Any]]


def worst(prevalence: np.ndarray, confusion: np.ndarray) -> tuple[float, float]:
    """Return least bulk ESS and greatest R-hat over all parameters; arrays (chain, draw, ...)."""
    both = np.concatenate([x.reshape(*x.shape[:2], -1) for x in (prevalence, confusion)], -1)
    draws = xr.Dataset({"x": (("chain", "draw", "cell"), both)})
    return float(arviz_stats.ess(draws)["x"].min()), float(arviz_stats.rhat(draws)["x"].max())


def simulated() -> Annotations:
    """Draw 1,000 items of four classes, ten annotations each by 100 workers, correct with probability .4 to .95."""
    rng = np.random.default_rng(0)
    truth, right = rng.integers(0, 4, 1000), rng.uniform(0.4, 0.95, 100)
    item = np.repeat(np.arange(1000), 10)
    worker = np.concatenate([rng.choice(100, 10, replace=False) for _ in range(1000)])
    label = np.where(rng.random(len(item)) < right[worker], truth[item], rng.integers(0, 4, len(item)))
    return Annotations.from_arrays(item, worker, label, labels=range(4))


def marginal(counts: Any, a: Any, B: Any) -> None:
    """State the model with the truth summed out; counts (N, J, L) of each item, worker and label."""
    prevalence = numpyro.sample("prevalence", dist.Dirichlet(a))
    with numpyro.plate("worker", counts.shape[1]):
        confusion = numpyro.sample("confusion", dist.Dirichlet(B).to_event(1))
    log_likelihood = jnp.einsum("ijl,jkl->ik", counts, jnp.log(confusion))
    numpyro.factor("labels", jax.nn.logsumexp(jnp.log(prevalence) + log_likelihood, axis=-1).sum())


def by_numpyro(data: Annotations, model: DawidSkene, how: str, warmup: int, samples: int) -> dict[str, Any]:
    """Sample with NumPyro, twice: the first time compiles and is not timed."""
    counts = np.zeros((data.N, data.J, data.K))
    np.add.at(counts, (data.item.numpy(), data.worker.numpy(), data.label.numpy()), 1)
    a, B = (part.numpy() for part in model.concentrations(data))
    start = {
        "prevalence": jnp.array(a / a.sum()),
        "confusion": jnp.array(np.tile(B / B.sum(1, keepdims=True), (data.J, 1, 1))),
    }
    kernel = NUTS(marginal, init_strategy=init_to_value(values=start))
    sampler = MCMC(
        kernel, num_warmup=warmup, num_samples=samples, num_chains=CHAINS, chain_method=how, progress_bar=False
    )
    given = (jnp.array(counts), jnp.array(a), jnp.array(B))
    sampler.run(jax.random.PRNGKey(0), *given)
    jax.block_until_ready(sampler.get_samples())
    began = time.perf_counter()
    sampler.run(jax.random.PRNGKey(1), *given)
    draws = jax.block_until_ready(sampler.get_samples(group_by_chain=True))
    seconds = time.perf_counter() - began
    ess, rhat = worst(np.asarray(draws["prevalence"]), np.asarray(draws["confusion"]))
    mean = np.asarray(draws["prevalence"]).mean((0, 1))
    return {"seconds": seconds, "ess": ess, "per_second": ess / seconds, "r_hat": rhat, "prevalence": mean.tolist()}


def by_us(data: Annotations, model: DawidSkene, method: str, warmup: int, samples: int) -> dict[str, Any]:
    """Sample with crowdppl's engine; ``whole`` adds log-likelihood, diagnostics and tree, which the others do not compute."""
    settings = {"chains": CHAINS, "warmup": warmup, "num_samples": samples}
    engine = ENGINES[method]

    def run() -> Draws:
        with isolated(0, threads=1):  # as fit does on small data
            return engine(bind(model, data), data, completed(method, settings))

    seconds = []
    for _ in range(5 if method == "gibbs" else 1):
        began = time.perf_counter()
        draws = run()
        seconds.append(time.perf_counter() - began)
    time_ = float(np.median(seconds))
    prevalence = draws.samples["prevalence"].numpy()
    ess, rhat = worst(prevalence, draws.samples["confusion"].numpy())
    _, whole = fit(data, model, method=method, seed=0, **settings) if method == "gibbs" else (None, float("nan"))
    mean = prevalence.mean((0, 1)).tolist()
    return {"seconds": time_, "ess": ess, "per_second": ess / time_, "r_hat": rhat, "prevalence": mean, "whole": whole}


HEADER = ["", "seconds", "worst ESS", "ESS per second", "worst R-hat", "mean prevalence"]


def compared(data: Annotations, model: DawidSkene, ways: Sequence[str], warmup: int, samples: int, nuts: int) -> Runs:
    """Sample one set with all samplers."""
    runs = {"crowdppl gibbs": by_us(data, model, "gibbs", 200, samples)}
    for how in ways:
        runs[f"NumPyro NUTS, chains {how}"] = by_numpyro(data, model, how, warmup, samples)
    if nuts:
        runs["crowdppl nuts (Pyro)"] = by_us(data, model, "nuts", nuts, nuts)
    return runs


def shown(runs: Runs) -> str:
    """Format the runs of one set."""
    rows = []
    for name, r in runs.items():
        mean = " ".join(f"{p:.4f}" for p in r["prevalence"])
        rows.append([name, r["seconds"], r["ess"], r["per_second"], f"{r['r_hat']:.3f}", mean])
    ours = runs["crowdppl gibbs"]["per_second"]
    ratios = [
        f"**{ours / r['per_second']:.1f}** times {name}" for name, r in runs.items() if name.startswith("NumPyro")
    ]
    return f"{table(HEADER, rows)}\n\nOur Gibbs sampler is {', '.join(ratios)}."


def main() -> None:
    """Run all in one process and compare."""
    options = arguments(__doc__ or "")
    numpyro.enable_x64()
    warmup, samples = (100, 200) if options.quick else (500, 2000)
    rater = DawidSkene(prior_items=2.0, concentration=ROWS.tolist())
    table1 = compared(
        datasets.anaesthesia(), rater, ("vectorized", "sequential"), warmup, samples, 0 if options.quick else 150
    )
    body = f"""{CHAINS} chains; effective sample size of the worst parameter. NumPyro samples the model with the truth summed
out, in float64: {samples:,} draws per chain after {warmup:,}, without the time of compilation. Our Gibbs sampler: {samples:,}
after 200.

## Dawid & Skene's table

The copy with labels 1, 2, 2; prior of rater; 84 parameters. Pyro's NUTS: 150 draws after 150.

{shown(table1)} `crowdppl.fit`, including log-likelihood, diagnostics
and tree, takes {table1["crowdppl gibbs"]["whole"]:.2f} s. Published posterior mean of the prevalence under this prior (rater):
{" ".join(map(str, RATER))}.
"""
    results = {"anaesthesia": table1}
    fewer = (100, 100) if options.quick else (200, 300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        others = {"rte": datasets.public("rte")[0], "simulated 1,000 x 100": simulated()}
    for name, data in others.items():
        print(f"{name} ...", flush=True)
        results[name] = compared(data, DawidSkene(), ("vectorized",), *fewer, 0 if options.quick else 50)
        body += f"""
## {name}

{data.A:,} annotations of {data.N:,} items by {data.J:,} workers, {data.K} classes; our default prior.
{fewer[1]:,} draws per chain, after {fewer[0]:,} for NumPyro; 50 after 50 for Pyro's NUTS.

{shown(results[name])}
"""
    write("gibbs_vs_numpyro", "Gibbs against NUTS", body, results, options)


if __name__ == "__main__":
    main()
