"""Effective samples a second on Dawid and Skene's table: our Gibbs sampler against NumPyro's NUTS."""

from __future__ import annotations

import time
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

from crowdppl import datasets
from crowdppl.draws import Draws
from crowdppl.inference import ENGINES
from crowdppl.isolation import isolated
from crowdppl.models import DawidSkene

# The R package rater's prior: prevalence Dirichlet(3), rows with 8 pseudo-counts, .6 of them on the diagonal.
ROWS = np.full((4, 4), 3.2 / 3) + (4.8 - 3.2 / 3) * np.eye(4)
RATER = [0.3753, 0.4068, 0.1434, 0.0744]
CHAINS = 4


def worst(prevalence: np.ndarray, confusion: np.ndarray) -> tuple[float, float]:
    """Return least bulk ESS and greatest R-hat over all parameters; arrays (chain, draw, ...)."""
    both = np.concatenate([x.reshape(*x.shape[:2], -1) for x in (prevalence, confusion)], -1)
    draws = xr.Dataset({"x": (("chain", "draw", "cell"), both)})
    return float(arviz_stats.ess(draws)["x"].min()), float(arviz_stats.rhat(draws)["x"].max())


def marginal(counts: Any) -> None:
    """State the model with the truth summed out; counts (N, J, L) of each item, worker and label."""
    prevalence = numpyro.sample("prevalence", dist.Dirichlet(3 * jnp.ones(4)))
    with numpyro.plate("worker", counts.shape[1]):
        confusion = numpyro.sample("confusion", dist.Dirichlet(jnp.array(ROWS)).to_event(1))
    evidence = jnp.einsum("ijl,jkl->ik", counts, jnp.log(confusion))
    numpyro.factor("labels", jax.nn.logsumexp(jnp.log(prevalence) + evidence, axis=-1).sum())


def by_numpyro(how: str, warmup: int, samples: int) -> dict[str, Any]:
    """Sample with NumPyro, twice: the first time compiles and is not timed."""
    data = datasets.anaesthesia()
    counts = np.zeros((data.N, data.J, data.K))
    np.add.at(counts, (data.item.numpy(), data.worker.numpy(), data.label.numpy()), 1)
    counts = jnp.array(counts)
    start = {
        "prevalence": jnp.full(4, 0.25),
        "confusion": jnp.array(np.tile(ROWS / ROWS.sum(1, keepdims=True), (data.J, 1, 1))),
    }
    kernel = NUTS(marginal, init_strategy=init_to_value(values=start))
    sampler = MCMC(
        kernel, num_warmup=warmup, num_samples=samples, num_chains=CHAINS, chain_method=how, progress_bar=False
    )
    sampler.run(jax.random.PRNGKey(0), counts)
    jax.block_until_ready(sampler.get_samples())
    began = time.perf_counter()
    sampler.run(jax.random.PRNGKey(1), counts)
    draws = jax.block_until_ready(sampler.get_samples(group_by_chain=True))
    seconds = time.perf_counter() - began
    ess, rhat = worst(np.asarray(draws["prevalence"]), np.asarray(draws["confusion"]))
    mean = np.asarray(draws["prevalence"]).mean((0, 1))
    return {"seconds": seconds, "ess": ess, "per_second": ess / seconds, "r_hat": rhat, "prevalence": mean.tolist()}


def by_us(method: str, warmup: int, samples: int) -> dict[str, Any]:
    """Sample with crowdppl's engine; ``whole`` adds log-likelihood, diagnostics and tree, which the others do not make."""
    model, data = DawidSkene(items=2.0, concentration=ROWS.tolist()), datasets.anaesthesia()
    settings = {"chains": CHAINS, "warmup": warmup, "num_samples": samples}
    engine = ENGINES[method]

    def run() -> Draws:
        with isolated(0, threads=1):  # as fit does on small data
            return engine(model, data, lambda *_: None, **settings)

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


def main() -> None:
    """Run both in one process and compare."""
    options = arguments(__doc__ or "")
    numpyro.enable_x64()
    warmup, samples = (100, 200) if options.quick else (500, 2000)
    theirs = {how: by_numpyro(how, warmup, samples) for how in ("vectorized", "sequential")}
    ours = by_us("gibbs", 200, samples)
    runs = {"crowdppl gibbs": ours} | {f"NumPyro NUTS, chains {how}": result for how, result in theirs.items()}
    if not options.quick:
        runs["crowdppl nuts (Pyro)"] = by_us("nuts", 150, 150)
    rows = []
    for name, r in runs.items():
        mean = " ".join(f"{p:.4f}" for p in r["prevalence"])
        rows.append([name, r["seconds"], r["ess"], r["per_second"], f"{r['r_hat']:.3f}", mean])
    ratio = {how: ours["per_second"] / result["per_second"] for how, result in theirs.items()}
    header = ["", "seconds", "worst ESS", "ESS per second", "worst R-hat", "mean prevalence"]
    body = f"""Dawid & Skene's table (1, 2, 2 copy), rater's prior, {CHAINS} chains; ESS of the worst of 84 parameters.
NumPyro samples the model with the truth summed out, in float64: {samples:,} draws a chain after {warmup:,}, compilation left
out. Our Gibbs sampler: {samples:,} after 200; Pyro's NUTS: 150 after 150.

{table(header, rows)}

Our Gibbs sampler is **{ratio["sequential"]:.1f}** times NumPyro's NUTS with chains in turn, and
**{ratio["vectorized"]:.1f}** times with chains vectorised (asked for: 20). `crowdppl.fit`, with log-likelihood, diagnostics
and tree, takes {ours["whole"]:.2f} s. Published posterior mean of the prevalence under this prior (rater):
{" ".join(map(str, RATER))}.
"""
    write("gibbs_vs_numpyro", "Gibbs against NUTS", body, {"runs": runs, "ratio": ratio}, options)


if __name__ == "__main__":
    main()
