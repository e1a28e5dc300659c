"""The same numbers from other people's programs: NumPyro's NUTS for posteriors, crowd-kit for EM.

CmdStan is not on PyPI; the marginal model that NumPyro samples below is the Stan user's guide's (section on Dawid-Skene).
These tests skip where the peer is not installed; `make test-all` installs both.
"""

import random
import warnings
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import quiet_fit, simulated

from crowdppl.model.bound import bind
from crowdppl.models import DawidSkene

pytestmark = pytest.mark.slow
PEERS = "is not installed: pip install '.[benchmark]'"


def numpyro_draws(data, model, warmup=500, samples=1000, chains=4):
    """Posterior draws of prevalence (C, S, K) and confusion (C, S, J, K, K) by NumPyro, the truth summed out, in float64."""
    numpyro = pytest.importorskip("numpyro", reason=f"numpyro {PEERS}")
    import jax
    import jax.numpy as jnp
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS, init_to_value

    a, B = (t.numpy() for t in model.concentrations(data))
    counts = np.zeros((data.N, data.J, data.K))
    np.add.at(counts, (data.item.numpy(), data.worker.numpy(), data.label.numpy()), 1)
    # Items with the same answers have the same likelihood: each kind once, with how often it is there.
    kinds, often = np.unique(counts.reshape(data.N, -1), axis=0, return_counts=True)
    kinds = kinds.reshape(-1, data.J, data.K)

    def story():
        prevalence = numpyro.sample("prevalence", dist.Dirichlet(jnp.array(a)))
        with numpyro.plate("worker", data.J):
            confusion = numpyro.sample("confusion", dist.Dirichlet(jnp.array(B)).to_event(1))
        log_likelihoods = jnp.einsum("ijl,jkl->ik", jnp.array(kinds), jnp.log(confusion))
        marginal = jax.nn.logsumexp(jnp.log(prevalence) + log_likelihoods, axis=-1)
        numpyro.factor("labels", (jnp.array(often) * marginal).sum())

    start = {"prevalence": jnp.array(a / a.sum()), "confusion": jnp.tile(B / B.sum(1, keepdims=True), (data.J, 1, 1))}
    sampler = MCMC(
        NUTS(story, init_strategy=init_to_value(values=start)),
        num_warmup=warmup,
        num_samples=samples,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    with jax.enable_x64(True):
        sampler.run(jax.random.PRNGKey(1))
        draws = sampler.get_samples(group_by_chain=True)
        return np.asarray(draws["prevalence"]), np.asarray(draws["confusion"])


@contextmanager
def their_business():
    """Let other people's programs use the global random streams and warn as they please."""
    plain, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    random.setstate(plain)
    np.random.set_state(legacy)  # noqa: NPY002


@pytest.mark.parametrize("name", ["anaesthesia", "caries"])
def test_posterior_is_numpyros(name, anaesthesia, public):
    """Means and standard deviations of every parameter.

    Means within 5 joint Monte-Carlo standard errors (84 and 22 numbers: one false alarm in 10,000 runs were errors normal), plus
    1e-4; standard deviations within 15%.
    """
    import arviz_stats
    import xarray as xr

    data = anaesthesia if name == "anaesthesia" else public(name)[0]
    # Ours by the rows (items) of the prior that R's rater has: the default's twin modes would need longer chains by anyone.
    model = DawidSkene(prior_correct=4.0, prior_incorrect=1.0, prior_items=2.0)
    with their_business():
        theirs = numpyro_draws(data, model)
    ours = quiet_fit(data, model, method="gibbs", seed=1, chains=4, num_samples=4000).tree["posterior"]
    for site, draws in zip(("prevalence", "confusion"), theirs, strict=True):
        mine = ours[site].values
        means, errors, spreads = [], [], []
        for x in (mine, draws):
            flat = xr.Dataset({"x": (("chain", "draw", "cell"), x.reshape(*x.shape[:2], -1))})
            means.append(flat["x"].mean(("chain", "draw")).values)
            errors.append(arviz_stats.mcse(flat)["x"].values)
            spreads.append(flat["x"].std(("chain", "draw")).values)
        assert (np.abs(means[0] - means[1]) < 5 * np.hypot(*errors) + 1e-4).all()
        np.testing.assert_allclose(spreads[0], spreads[1], rtol=0.15)


@pytest.mark.parametrize("name", ["simulated", "rte", "zencrowd-us"])
def test_em_is_crowd_kits(name, public):
    """Twenty plain steps of maximum likelihood from a majority vote, every probability to 1e-10.

    On data where every worker has expected mass in every class: elsewhere crowd-kit fills rows by a convention of its own, see
    docs/benchmarks/em-iteration.md.
    """
    if name == "simulated":
        data, _, _ = simulated(items=400, workers=8, per_item=5, seed=3)
    else:
        data = public(name)[0]
    frame = pd.DataFrame(
        {"task": data.items[data.item], "worker": data.workers[data.worker], "label": data.labels[data.label]}
    )
    steps = 20
    with their_business():
        aggregation = pytest.importorskip("crowdkit.aggregation", reason=f"crowd-kit {PEERS}")
        theirs = aggregation.DawidSkene(n_iter=steps, tol=-1.0).fit_predict_proba(frame)
    r, model = data.majority(), bind(DawidSkene.maximum_likelihood(), data)
    with torch.no_grad():
        for _ in range(steps):
            r = model.item_log_joint(model.m_step(r, data), data).softmax(-1)
    ours = pd.DataFrame(r.numpy(), index=data.items, columns=data.labels)
    np.testing.assert_allclose(ours.loc[theirs.index, theirs.columns], theirs, atol=1e-10)
