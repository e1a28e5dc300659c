"""Every number against enumeration: over all truths by hand, by Pyro's own enumeration, by finite differences."""

import itertools
import warnings

import numpy as np
import pytest
import torch
from catalog import CASES, PAIRS, SHORT, tiny
from pyro import poutine
from pyro.infer import TraceEnum_ELBO
from pyro.infer.autoguide import AutoDelta
from pyro.infer.autoguide.initialization import init_to_value

import crowdppl
from crowdppl import CrowdpplWarning
from crowdppl.isolation import isolated
from crowdppl.kernels import normalise
from crowdppl.model import check, conditioned
from crowdppl.models import DawidSkene
from crowdppl.plates import Plates
from crowdppl.space import Space


def enumerate_truths(data, prior, emission):
    """Sum over all K^N truths, judgement by judgement, in plain Python.

    prior (N, K) and emission (A, K, L) are probabilities. Returns the log marginal likelihood and (N, K) posteriors.
    """
    item, label, known = data.item.tolist(), data.label.tolist(), data.truth.tolist()
    total, per_class = 0.0, np.zeros((data.N, data.K))
    for truths in itertools.product(range(data.K), repeat=data.N):
        if any(k >= 0 and z != k for z, k in zip(truths, known, strict=True)):
            continue
        p = 1.0
        for i, z in enumerate(truths):
            p *= prior[i, z]
        for n, i in enumerate(item):
            p *= emission[n, truths[i], label[n]]
        total += p
        for i, z in enumerate(truths):
            per_class[i, z] += p
    return np.log(total), per_class / total


def probabilities(model, sites, data):
    """The model's distributions at given sites, as tables: prior (N, K), emission (A, K, L)."""
    with isolated(0), torch.no_grad():
        parameters, _ = conditioned(model, sites, data)
        prior = model.truth(parameters, data).probs.expand(data.N, data.K)
        labels = torch.arange(data.K).view(-1, 1, 1)
        emission = model.emission(parameters, data).log_prob(labels).exp().permute(1, 2, 0)
    return prior.numpy(), emission.numpy()


@pytest.mark.parametrize("known", [False, True], ids=["free", "known"])
@pytest.mark.parametrize(("case", "method"), PAIRS, ids=[f"{c.name}-{m}" for c, m in PAIRS])
def test_engines_agree_with_enumeration(case, method, known):
    data = tiny(3, known=known)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        posterior = crowdppl.fit(data, case.model, method=method, seed=1, **SHORT[method])
    tree = posterior.tree
    draws = tree["posterior"].isel(chain=0)
    names = [name for name in tree["posterior"].data_vars if name in _sites(case.model, data)]
    totals = []
    for s in range(draws.sizes["draw"]):
        sites = {name: torch.tensor(draws[name].values[s]) for name in names}
        marginal, r = enumerate_truths(data, *probabilities(case.model, sites, data))
        totals.append(r)
        assert tree["log_likelihood"]["labels"].values[0, s].sum() == pytest.approx(marginal, rel=1e-10)
    if "point" in tree.children:
        sites = {name: torch.tensor(tree["point"][name].values) for name in names}
        marginal, r = enumerate_truths(data, *probabilities(case.model, sites, data))
        np.testing.assert_allclose(tree["truth"]["probability"].values, r, atol=1e-10)
        assert posterior.info["facts"]["log_likelihood"] == pytest.approx(marginal, rel=1e-10)
    elif tree["posterior"].sizes["chain"] == 1:
        np.testing.assert_allclose(tree["truth"]["probability"].values, np.mean(totals, axis=0), atol=1e-10)
    if known:
        assert posterior.truth().set_index("task").loc["item 1", "probability"] == 1.0


def _sites(model, data):
    with isolated(0):
        return check(model, data)


@pytest.mark.parametrize("known", [False, True], ids=["free", "known"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@pytest.mark.parametrize("seed", range(3))
def test_pyro_program_equals_fast_path(case, seed, known):
    """TraceEnum_ELBO of the program under a delta guide = summed marginal + log prior; and so is the marginal program."""
    data = tiny(seed, known=known)
    with isolated(seed), torch.no_grad():
        sites = {name: node["value"] for name, node in check(case.model, data).items()}
        parameters, log_prior = conditioned(case.model, sites, data)
        joint = case.model.item_log_joint(parameters, data)
        fast = float(normalise(joint)[0].sum() + log_prior)
        guide = AutoDelta(
            poutine.block(case.model.program, hide=["truth", "labels"]),
            init_loc_fn=init_to_value(values=sites),
            create_plates=lambda data: [(p := Plates.over(data.N, data.J)).item, p.worker],
        )
        enumerated = -TraceEnum_ELBO(max_plate_nesting=1).loss(case.model.program, guide, data)
        trace = poutine.trace(poutine.condition(case.model.marginal_program, data=sites)).get_trace(data)
        assert enumerated == pytest.approx(fast, rel=1e-10)
        assert float(trace.log_prob_sum()) == pytest.approx(fast, rel=1e-10)
        assert float(case.model.log_prior(parameters, data)) == pytest.approx(float(log_prior), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_evidence_table_equals_emission(case):
    """Where a model takes the sparse products, they say what its emission says."""
    data = tiny(5)
    with isolated(5), torch.no_grad():
        sites = {name: node["value"] for name, node in check(case.model, data).items()}
        parameters, _ = conditioned(case.model, sites, data)
        log_prob = case.model.emission(parameters, data).log_prob(data.label.unsqueeze(-1))
        by_hand = torch.zeros(data.N, data.K)
        for n in range(data.A):
            by_hand[data.item[n]] += log_prob[n]
        torch.testing.assert_close(case.model.evidence(parameters, data), by_hand, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "sparse"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_gradients(case, dense):
    """Gradients of the log posterior in unbounded coordinates against central differences."""
    data = tiny(2, known=True)
    if not dense:
        data.counts._dense = None
    with isolated(0):
        space = Space(check(case.model, data))

        def density(vector):
            parameters, log_prior = conditioned(case.model, space.values(vector), data)
            return torch.logsumexp(case.model.item_log_joint(parameters, data), -1).sum() + log_prior

        at = torch.randn(space.size)
        (gradient,) = torch.autograd.grad(density(at.requires_grad_()), at)
        step = 1e-5 * torch.eye(space.size)
        with torch.no_grad():
            numeric = torch.stack([(density(at + h) - density(at - h)) / 2e-5 for h in step])
        torch.testing.assert_close(gradient, numeric, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", [c for c in CASES if "gibbs" in c.methods], ids=lambda c: c.name)
def test_closed_m_step_is_a_maximum(case):
    """No small move from the closed-form M step raises the expected log joint plus log prior."""
    data = tiny(4)
    with isolated(1), torch.no_grad():
        space = Space(check(case.model, data))
        r = torch.distributions.Dirichlet(torch.ones(data.N, data.K)).sample()
        best = case.model.m_step(r, data)

        def objective(parameters):
            joint = case.model.item_log_joint(parameters, data)
            return float((torch.where(r > 0, r * joint, 0.0)).sum() + case.model.log_prior(parameters, data))

        top = objective(best)
        for scale in (1e-1, 1e-2, 1e-3):
            for _ in range(20):
                moved = {}
                for name, value in best.items():
                    simplex = torch.distributions.Dirichlet(torch.ones_like(value)) if value.dim() else None
                    other = simplex.sample() if simplex else torch.rand(())
                    moved[name] = (1 - scale) * value + scale * other
                assert objective(moved) <= top + 1e-12
        assert space.size


def exact_dawid_skene(data, model):
    """Posterior of the truths with parameters integrated out: Dirichlet-multinomial, over all K^N truths."""
    a, B = (t.numpy() for t in model.concentrations(data))
    item, worker, label = data.item.tolist(), data.worker.tolist(), data.label.tolist()

    def log_beta(x):
        return torch.lgamma(torch.as_tensor(x)).sum(-1) - torch.lgamma(torch.as_tensor(x).sum(-1))

    logs, truths = [], list(itertools.product(range(data.K), repeat=data.N))
    for z in truths:
        counts = np.zeros((data.J, data.K, data.K))
        for n in range(data.A):
            counts[worker[n], z[item[n]], label[n]] += 1
        shares = np.bincount(z, minlength=data.K)
        logs.append(float(log_beta(a + shares) + (log_beta(B + counts) - log_beta(B)).sum()))
    weight = np.exp(np.array(logs) - max(logs))
    weight /= weight.sum()
    out = np.zeros((data.N, data.K))
    for z, w in zip(truths, weight, strict=True):
        out[np.arange(data.N), z] += w
    return out


@pytest.mark.parametrize("method", ["gibbs", pytest.param("nuts", marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", [0, 1])
def test_samplers_have_the_exact_posterior(method, seed):
    """Posterior of the truths against exact summation with the parameters integrated out.

    12 probabilities, Monte-Carlo standard errors below .006 (gibbs: 20,000 draws; nuts: 3,000): the bound of .03 is five of
    them, a false alarm in less than one of 100,000 runs.
    """
    data, model = tiny(seed, items=4, classes=3), DawidSkene(right=3.0, wrong=1.0)
    options = {
        "gibbs": {"chains": 4, "warmup": 200, "num_samples": 5000},
        "nuts": {"chains": 2, "warmup": 300, "num_samples": 1500},
    }[method]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        posterior = crowdppl.fit(data, model, method=method, seed=seed, **options)
    exact = exact_dawid_skene(data, model)
    np.testing.assert_allclose(posterior.tree["truth"]["probability"].values, exact, atol=0.03)
    frequency = np.stack([(posterior.tree["truth"]["draw_of"].values == k).mean((0, 1)) for k in range(data.K)], -1)
    np.testing.assert_allclose(frequency, exact, atol=0.03)


def test_mini_batches_are_unbiased():
    """The mean of the scaled log density over all batches of items is that of the whole."""
    data, model = tiny(1, items=6), DawidSkene()
    with isolated(0), torch.no_grad():
        sites = {name: node["value"] for name, node in check(model, data).items()}

        def density(index=None):
            conditioned_program = poutine.condition(model.program, data=sites)
            trace = poutine.trace(poutine.enum(conditioned_program, first_available_dim=-2)).get_trace(data, index)
            trace.compute_log_prob()
            nodes = trace.nodes
            scale = 1.0 if index is None else data.N / len(index)
            local = (nodes["truth"]["unscaled_log_prob"] + nodes["labels"]["unscaled_log_prob"]).logsumexp(0)
            assert nodes["labels"]["scale"] == scale
            return scale * float(local.sum())

        parts = [density(torch.tensor(pair)) for pair in itertools.combinations(range(6), 2)]
        assert np.mean(parts) == pytest.approx(density(), rel=1e-10)
