"""Communities and groups of workers: both models against plain Python, EM of groups against all assignments, recovery."""

import itertools
import math

import numpy as np
import pytest
import torch
from catalog import fit, quiet_fit, tiny

import crowdppl
from crowdppl import ModelError
from crowdppl.data.synthetic import three_gaussians
from crowdppl.isolation import isolated
from crowdppl.model.bound import bind
from crowdppl.model.populations import by_agreement, log_marginals
from crowdppl.model.program import unknowns
from crowdppl.models import CommunityDawidSkene, HierarchicalDawidSkene, WorkerGroups


def log_dirichlet(concentration, value):
    """Log density of one Dirichlet, in plain Python."""
    terms = [(c - 1) * math.log(v) - math.lgamma(c) for c, v in zip(concentration, value, strict=True)]
    return math.lgamma(sum(concentration)) + sum(terms)


# ---------------------------------------------------------------------- communities


@pytest.mark.parametrize("communities", [1, 2, 3])
def test_joint_density_by_enumeration(communities):
    """Sum over all communities of workers and all truths, annotation by annotation, in plain Python: equal to 1e-8."""
    data = tiny(5)
    with isolated(communities), torch.no_grad():
        model = bind(CommunityDawidSkene(communities=communities, prior_members=0.5), data)
        sites = unknowns(model, data)
        joint, log_prior = model.log_density(sites, data)
        fast = float(torch.logsumexp(joint, -1).sum() + log_prior)
    p, share, m, s, B = (sites[n].tolist() for n in ("prevalence", "share", "typical", "strength", "confusion"))
    K, J = data.K, data.J
    rows = [
        [5.0 if k == label else 1.5 for label in range(K)] for k in range(K)
    ]  # 1 + 4 correct, 1 + 1 / 2 of each incorrect
    total = log_dirichlet([1.0] * K, p) + log_dirichlet([1.5] * communities, share)
    for one, k in itertools.product(range(communities), range(K)):
        total += log_dirichlet(rows[k], m[one][k])
        total += 2 * math.log(0.2) + math.log(s[one][k]) - 0.2 * s[one][k]  # Gamma of shape 2 and mean 10
    workers = 0.0
    for g in itertools.product(range(communities), repeat=J):
        log = 0.0
        for j, k in itertools.product(range(J), range(K)):
            log += log_dirichlet([s[g[j]][k] * c for c in m[g[j]][k]], B[j][k])
        workers += math.exp(log) * math.prod(share[one] for one in g)
    labels = 0.0
    item, worker, label = data.item.tolist(), data.worker.tolist(), data.label.tolist()
    for z in itertools.product(range(K), repeat=data.N):
        chance = math.prod(p[k] for k in z)
        labels += chance * math.prod(B[worker[n]][z[item[n]]][label[n]] for n in range(data.A))
    assert fast == pytest.approx(total + math.log(workers) + math.log(labels), rel=1e-8)


def test_one_community_is_the_hierarchical_model():
    data = tiny(5)
    with isolated(0), torch.no_grad():
        one, two = bind(HierarchicalDawidSkene(), data), bind(CommunityDawidSkene(communities=1), data)
        sites = unknowns(one, data)
        wider = sites | {name: sites[name].unsqueeze(0) for name in ("typical", "strength")} | {"share": torch.ones(1)}
        for ours, theirs in zip(two.log_density(wider, data), one.log_density(sites, data), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_rows_summed_out():
    """The probability of counts by an urn: the next label is ``(c + number so far) / (total + number so far)``."""
    rng = np.random.default_rng(0)
    counts, cells = rng.integers(0, 5, (4, 3, 3)), rng.gamma(1.0, 2.0, (2, 3, 3))
    ours = log_marginals(torch.tensor(counts).double(), torch.tensor(cells))
    for j, one in itertools.product(range(4), range(2)):
        wanted = 0.0
        for k in range(3):
            urn = cells[one, k].copy()
            for label in np.repeat(np.arange(3), counts[j, k]):
                wanted += math.log(urn[label] / urn.sum())
                urn[label] += 1
        assert float(ours[j, one]) == pytest.approx(wanted, rel=1e-10)


@pytest.mark.slow
def test_gibbs_has_the_exact_posterior():
    """All truths, rows and communities of workers summed out, what they share by averaging over 4,000 draws from its prior.

    12 probabilities; Monte-Carlo standard errors of either side below .006: the bound is four of them.
    """
    data, model = tiny(1), CommunityDawidSkene(communities=2)
    posterior = quiet_fit(data, model, method="gibbs", chains=4, warmup=200, num_samples=4000, seed=0)
    with isolated(1), torch.no_grad():
        many = [unknowns(bind(model, data), data) for _ in range(4000)]
        p, share = (torch.stack([draw[name] for draw in many]) for name in ("prevalence", "share"))
        cells = torch.stack([draw["strength"].unsqueeze(-1) * draw["typical"] for draw in many])
    logs, states = [], list(itertools.product(range(data.K), repeat=data.N))
    for z in states:
        counts = torch.zeros(1, data.J, data.K, data.K, dtype=torch.float64)
        for n in range(data.A):
            counts[0, data.worker[n], z[data.item[n]], data.label[n]] += 1
        workers = torch.logsumexp(share.log().unsqueeze(-2) + log_marginals(counts, cells), -1).sum(-1)
        logs.append(float(torch.logsumexp(workers + p.log()[:, list(z)].sum(-1), 0)))
    weight = np.exp(np.array(logs) - max(logs))
    exact = np.zeros((data.N, data.K))
    for z, w in zip(states, weight / weight.sum(), strict=True):
        exact[np.arange(data.N), z] += w
    np.testing.assert_allclose(posterior.tree["truth"]["probability"].values, exact, atol=0.03)


TYPICAL = np.array(
    [
        [[0.90, 0.05, 0.05], [0.05, 0.90, 0.05], [0.05, 0.05, 0.90]],  # good
        [[0.80, 0.15, 0.05], [0.60, 0.35, 0.05], [0.10, 0.10, 0.80]],  # takes class 1 for class 0
        [[0.20, 0.20, 0.60], [0.20, 0.20, 0.60], [0.20, 0.20, 0.60]],  # labels without looking
    ]
)


def communities(items, seed, workers=45, strength=20.0):
    """Draw workers around three matrices, and labels: six an item."""
    rng = np.random.default_rng(seed)
    group = np.arange(workers) % 3
    confusion = np.stack([[rng.dirichlet(strength * row) for row in TYPICAL[g]] for g in group])
    task = np.repeat(np.arange(items), 6)
    worker = np.concatenate([rng.choice(workers, 6, replace=False) for _ in range(items)])
    values = {"confusion": confusion, "prevalence": [0.4, 0.35, 0.25]}
    data, truth, _ = crowdppl.simulate(CommunityDawidSkene(), task, worker, classes=3, seed=seed, parameters=values)
    return data, truth, group, confusion


@pytest.mark.slow
def test_recovery_of_communities():
    """Matrices and members of three communities whose workers vary, at 40 and at 320 annotations a worker.

    Seeds are fixed. Bounds are half as much again as the errors seen, and errors have to fall where the data grow eightfold.
    """
    errors = []
    for items in (300, 2400):
        error = []
        for seed in range(2):
            data, truth, group, confusion = communities(items, seed)
            posterior = quiet_fit(
                data, CommunityDawidSkene(), method="gibbs", chains=1, warmup=200, num_samples=200, seed=seed
            )
            mean = posterior.tree["posterior"].to_dataset().mean(("chain", "draw"))
            error.append(np.abs(mean["confusion"].values - confusion).mean())
            assert np.abs(mean["ordered_confusion"].values - TYPICAL).mean() < 0.05
            assert (mean["membership"].values.argmax(-1) == group).mean() > (0.9 if items == 300 else 0.95)
            votes = (data.majority().numpy().argmax(-1) == truth).mean()
            assert (posterior.truth()["label"].to_numpy() == truth).mean() > votes + 0.05
        errors.append(np.mean(error))
    assert errors[1] < 0.04
    assert errors[1] < errors[0] / 1.4


@pytest.mark.slow
def test_few_annotations_borrow_from_the_community():
    """Workers with about ten annotations: their rows are nearer to the truth than one population for all makes them."""
    gain = []
    for seed in range(3):
        data, _, _, confusion = communities(75, seed, strength=50.0)
        options = {"method": "gibbs", "chains": 1, "warmup": 200, "num_samples": 200, "seed": seed}
        ours, other = (
            np.abs(quiet_fit(data, model, **options).draws("confusion").mean(0) - confusion).mean()
            for model in (CommunityDawidSkene(), HierarchicalDawidSkene())
        )
        gain.append(other - ours)
    assert np.mean(gain) > 0


def test_a_mode_that_does_not_exist_is_refused():
    """The joint density has no upper bound: as an empty cell of concentration below 1 approaches zero, it grows."""
    data = tiny()
    with pytest.raises(ModelError, match="no upper bound"):
        fit(data, CommunityDawidSkene(), method="em")
    with isolated(0), torch.no_grad():
        model = bind(CommunityDawidSkene(communities=2), data)
        sites = model.m_step(model.initial(data), data)
        sites |= {"strength": torch.full_like(sites["strength"], 0.5)}
        densities = []
        for least in (1e-3, 1e-30, 1e-300):
            rows = sites["confusion"].clone()
            rows[..., 2] = least  # a label that nobody gave
            rows = rows / rows.sum(-1, keepdim=True)
            joint, log_prior = model.log_density(sites | {"confusion": rows}, data)
            densities.append(float(torch.logsumexp(joint, -1).sum() + log_prior))
    assert densities[0] + 100 < densities[1] < densities[2] - 1000


# ---------------------------------------------------------------------- groups by EM


def mode_given_groups(data, group, model):
    """EM with the groups of workers held, in numpy: log posterior at its end, with the density of the groups."""
    K, M, J = data.K, model.groups, data.J
    rows = np.full((K, K), model.prior_incorrect / (K - 1)) + np.eye(K) * (
        model.prior_correct - model.prior_incorrect / (K - 1)
    )
    item, worker, label = data.item.numpy(), data.worker.numpy(), data.label.numpy()
    r = data.majority().numpy()
    members = np.bincount(group, minlength=M)
    log_share = np.log(np.maximum(members / J, 1e-300))
    constant = math.lgamma(K) + math.lgamma(M)
    for k in range(K):
        constant += M * (math.lgamma((rows[k] + 1).sum()) - sum(math.lgamma(c + 1) for c in rows[k]))
    before = -np.inf
    while True:
        p = r.sum(0) / r.sum()
        counts = np.tile(rows, (M, 1, 1))
        for n in range(data.A):
            counts[group[worker[n]], :, label[n]] += r[item[n]]
        table = counts / counts.sum(-1, keepdims=True)
        joint = np.tile(np.log(np.maximum(p, 1e-300)), (data.N, 1))
        for n in range(data.A):
            joint[item[n]] += np.log(table[group[worker[n]], :, label[n]])
        top = joint.max(-1, keepdims=True)
        total = np.exp(joint - top).sum(-1, keepdims=True)
        r = np.exp(joint - top) / total
        density = (top + np.log(total)).sum() + (rows * np.log(table)).sum() + log_share[group].sum() + constant
        if density - before < 1e-10:
            return density
        before = density


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_groups_are_at_their_mode(seed):
    """EM from some starts ends at the best of all assignments of four workers to two groups, each with EM of its own."""
    data, model = tiny(seed, items=12, workers=4), WorkerGroups(groups=2)
    best = max(mode_given_groups(data, np.array(g), model) for g in itertools.product(range(2), repeat=data.J))
    posterior = quiet_fit(data, model, method="em", restarts=20, tol=1e-13, num_samples=2, seed=seed)
    assert posterior.info["facts"]["log_posterior"] == pytest.approx(best, rel=1e-7)


def test_em_finds_the_groups_of_workers():
    """Three groups, workers with some 80 labels: EM and Gibbs sampling assign them alike, and nearly all of them right.

    The seed is fixed; of 40 workers two may be wrong.
    """
    s = three_gaussians(seed=0, workers=40, train=600)
    right = np.einsum("mkk->m", s.parameters["confusion"])
    group = (-right).argsort().argsort()[s.parameters["group"]]
    em = quiet_fit(s.data, WorkerGroups(groups=3), method="em", num_samples=50)
    gibbs = quiet_fit(
        s.data, WorkerGroups(groups=3), method="gibbs", chains=1, warmup=200, num_samples=200, independent=True
    )
    members = [one.tree["posterior"]["membership"].mean(("chain", "draw")).values.argmax(-1) for one in (em, gibbs)]
    assert (members[0] == group).mean() >= 0.95
    assert (members[0] == members[1]).mean() >= 0.95
    workers = em.workers()
    assert (workers["accuracy_high"] > workers["accuracy_low"]).all()  # from one sweep of Gibbs sampling


def test_first_groups_do_not_depend_on_the_order_of_workers():
    rng = np.random.default_rng(0)
    counts = torch.tensor(rng.integers(0, 3, (30, 3, 3))).double()
    group = by_agreement(counts, 3)
    order = torch.tensor(rng.permutation(30))
    assert torch.equal(by_agreement(counts[order], 3), group[order])
    share = torch.einsum("jkk->j", counts) / counts.sum((-2, -1))
    means = [float(share[group == m].mean()) for m in range(3)]
    assert means == sorted(means, reverse=True)
    assert torch.bincount(group, minlength=3).min() >= 7


def test_engines_without_a_step_for_groups_are_refused():
    data = tiny()
    for method in ("svi", "nuts"):
        with pytest.raises(ModelError, match="use method='gibbs', or 'em'"):
            fit(data, WorkerGroups(), method=method)
    with pytest.raises(ModelError, match="prior_members below 0"):
        fit(data, WorkerGroups(prior_members=-0.5), method="em")
