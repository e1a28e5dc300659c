"""What single models promise: relations between them, identities of their papers, exact posteriors on tiny data."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import fit, many_from_prior, quiet_fit, simulated, tiny
from scipy import stats
from scipy.special import expit, logit

import crowdppl
from crowdppl import Annotations, DataError, ModelError, OptionError, criticism
from crowdppl.data.synthetic import (
    FOUR_SHARES,
    common_and_individual,
    four_abilities,
    perturbed_networks,
    three_gaussians,
    two_gaussians,
)
from crowdppl.inference.engines.m_step import MStep
from crowdppl.inference.engines.unconstrained import Space
from crowdppl.isolation import isolated
from crowdppl.model.bound import bind
from crowdppl.model.conjugacy import dirichlet_mode
from crowdppl.model.contract import check
from crowdppl.model.populations import tables
from crowdppl.model.program import unknowns
from crowdppl.models import (
    ClassConditional,
    CoNAL,
    CrowdMixture,
    DawidSkene,
    HierarchicalDawidSkene,
    ItemSubtypes,
    OneCoin,
    Pooled,
    Raykar,
    TwoCoinDifficulty,
    WorkerGroups,
)
from crowdppl.posterior.workers import groups

# ---------------------------------------------------------------------- exact posteriors


def log_beta(x):
    return torch.lgamma(x).sum(-1) - torch.lgamma(x.sum(-1))


def weigh(logs, states, data, classes):
    """Turn log weights of whole configurations into class probabilities (N, K)."""
    weight = np.exp(np.array(logs) - max(logs))
    weight /= weight.sum()
    out = np.zeros((data.N, data.K))
    for z, w in zip(states, weight, strict=True):
        out[np.arange(data.N), classes(np.array(z))] += w
    return out


def exact_subtypes(data, model):
    """All (K M)^N states, parameters integrated out."""
    a, w, B = (site.concentration for site in bind(model, data).conjugacy.sites.values())
    K, M = data.K, model.subtypes
    states = list(itertools.product(range(K * M), repeat=data.N))
    logs = []
    for s in states:
        counts = torch.zeros(data.J, K * M, K, dtype=torch.float64)
        for n in range(data.A):
            counts[data.worker[n], s[data.item[n]], data.label[n]] += 1
        occupied = torch.bincount(torch.tensor(s), minlength=K * M).double().view(K, M)
        rows = B + counts.view(data.J, K, M, K)
        logs.append(float(log_beta(a + occupied.sum(-1)) + log_beta(w + occupied).sum() + log_beta(rows).sum()))
    return weigh(logs, states, data, lambda s: s // M)


def exact_worker_groups(data, model):
    """All truths and all groups of workers, parameters integrated out."""
    p, a, B = model._concentrations(data)
    states = list(
        itertools.product(
            itertools.product(range(data.K), repeat=data.N), itertools.product(range(model.groups), repeat=data.J)
        )
    )
    logs = []
    for z, g in states:
        counts = torch.zeros(model.groups, data.K, data.K, dtype=torch.float64)
        for n in range(data.A):
            counts[g[data.worker[n]], z[data.item[n]], data.label[n]] += 1
        shares = torch.bincount(torch.tensor(z), minlength=data.K).double()
        members = torch.bincount(torch.tensor(g), minlength=model.groups).double()
        logs.append(float(log_beta(p + shares) + log_beta(a + members) + log_beta(B + counts).sum()))
    return weigh(logs, [z for z, _ in states], data, lambda z: z)


def exact_hierarchical(data, model, draws=4000):
    """All truths; workers' rows integrated out, their population by averaging over draws of it from its prior."""
    with isolated(1), torch.no_grad():
        bound = bind(model, data)
        many = many_from_prior(bound, data, draws)
        c = many["strength"].unsqueeze(-1) * many["typical"]  # (draws, K, K)
    a = torch.ones(data.K, dtype=torch.float64)
    states = list(itertools.product(range(data.K), repeat=data.N))
    logs = []
    for z in states:
        counts = torch.zeros(data.J, data.K, data.K, dtype=torch.float64)
        for n in range(data.A):
            counts[data.worker[n], z[data.item[n]], data.label[n]] += 1
        each = (log_beta(c.unsqueeze(1) + counts) - log_beta(c).unsqueeze(1)).sum((-2, -1))  # (draws,)
        shares = torch.bincount(torch.tensor(z), minlength=data.K).double()
        logs.append(float(log_beta(a + shares) + torch.logsumexp(each, 0) - math.log(draws)))
    return weigh(logs, states, data, lambda z: z)


@pytest.mark.parametrize(
    ("model", "exact", "items"),
    [
        (ItemSubtypes(subtypes=2, subtype_concentration=0.5), exact_subtypes, 4),
        pytest.param(WorkerGroups(groups=2), exact_worker_groups, 4, marks=pytest.mark.slow),
        (HierarchicalDawidSkene(), exact_hierarchical, 4),
    ],
    ids=["item-subtypes", "worker-groups", "hierarchical"],
)
def test_gibbs_has_the_exact_posterior(model, exact, items):
    """12 probabilities; Monte-Carlo standard errors of 16,000 draws below .006: the bound is five of them."""
    data = tiny(1, items=items)
    posterior = quiet_fit(data, model, method="gibbs", chains=4, warmup=200, num_samples=4000, seed=0)
    np.testing.assert_allclose(posterior.tree["truth"]["probability"].values, exact(data, model), atol=0.03)


def test_number_of_tables():
    """Chinese restaurant: the mean number of tables of n customers is sum c / (c + i), within five standard errors."""
    counts = torch.tensor([0.0, 1.0, 5.0, 40.0]).expand(20_000, 4).double()
    c = torch.tensor([0.3, 0.3, 2.0, 7.0]).expand(20_000, 4).double()
    with isolated(0):
        number = tables(counts, c)
    for cell, (n, a) in enumerate([(0, 0.3), (1, 0.3), (5, 2.0), (40, 7.0)]):
        p = [a / (a + i) for i in range(n)]
        error = math.sqrt(sum(q * (1 - q) for q in p) / 20_000)
        assert abs(float(number[:, cell].mean()) - sum(p)) <= 5 * error


# ---------------------------------------------------------------------- relatives of Dawid and Skene's model


def test_two_classes_make_class_conditional_the_whole_model():
    data, _, _ = simulated(items=50, classes=2)
    one = quiet_fit(data, ClassConditional.maximum_likelihood(), method="em", num_samples=2, tol=1e-12)
    two = quiet_fit(data, DawidSkene.maximum_likelihood(), method="em", num_samples=2, tol=1e-12)
    np.testing.assert_allclose(one.tree["truth"]["probability"], two.tree["truth"]["probability"], atol=1e-6)
    assert one.info["facts"]["log_likelihood"] == pytest.approx(two.info["facts"]["log_likelihood"], rel=1e-9)


def test_pooled_is_one_worker():
    data, _, _ = simulated(items=50)
    alone = Annotations.from_arrays(data.items[data.item], ["crowd"] * data.A, data.label.numpy(), labels=range(3))
    one = quiet_fit(data, Pooled(), method="em", num_samples=2)
    two = quiet_fit(alone, DawidSkene(prior_correct=4, prior_incorrect=1), method="em", num_samples=2)
    np.testing.assert_allclose(one.tree["truth"]["probability"], two.tree["truth"]["probability"], atol=1e-9)


ONE_COIN = {"bluebirds": 0.5833, "product": 0.9084, "rte": 0.925, "dog": 0.8302, "face": 0.6113, "labelme": 0.767}


@pytest.mark.parametrize("fixture", ONE_COIN.items(), ids=list(ONE_COIN))
def test_one_coin_fixtures(public, fixture):
    """Published accuracies of the maximum-likelihood one-coin model from a soft-majority start, within half a point."""
    name, accuracy = fixture
    data, truth = public(name)
    posterior = quiet_fit(data, OneCoin.maximum_likelihood(), method="em", num_samples=2)
    actual = posterior.truth().set_index("item").loc[truth.index, "label"]
    assert (actual.to_numpy() == truth.to_numpy()).mean() == pytest.approx(accuracy, abs=0.005)


def test_one_subtype_is_dawid_and_skene():
    data, _, _ = simulated(items=50)
    one = quiet_fit(data, ItemSubtypes(subtypes=1, prior_correct=4, prior_incorrect=1), method="em", num_samples=2)
    two = quiet_fit(data, DawidSkene(prior_correct=4, prior_incorrect=1), method="em", num_samples=2)
    np.testing.assert_allclose(one.tree["truth"]["probability"], two.tree["truth"]["probability"], atol=1e-9)


def test_modes_that_do_not_exist_are_refused():
    data = tiny()
    with pytest.raises(ModelError, match="subtype_concentration=1"):
        fit(data, ItemSubtypes(), method="em")
    with pytest.raises(ModelError, match="method='gibbs'"):
        fit(data, HierarchicalDawidSkene(), method="em")
    with pytest.raises(ModelError, match="method='gibbs'"):
        fit(data, WorkerGroups(), method="nuts")


# ---------------------------------------------------------------------- crowd mixture


def likelihood(model, sites, data):
    with isolated(0), torch.no_grad():
        bound = bind(model, data)
        layout = bound.expand(data)
        parameters, _ = bound.conditioned(sites | bound.networks.start(), layout)
        return torch.logsumexp(bound.item_log_joint(parameters, layout), -1)


def test_groups_enter_the_likelihood_through_the_crowd_only():
    """Three groups and the one group of their mean matrix give every annotation the same probability, to 1e-12."""
    data = tiny(4)
    with isolated(2):
        share = torch.distributions.Dirichlet(torch.ones(3)).sample()
        beta = torch.distributions.Dirichlet(torch.ones(3, 3, 3)).sample()
    G = torch.einsum("m,mkl->kl", share, beta)
    three = likelihood(CrowdMixture(groups=3, hidden=(3,)), {"share": share, "group_confusion": beta}, data)
    one = likelihood(CrowdMixture(groups=1, hidden=(3,)), {"share": torch.ones(1), "group_confusion": G[None]}, data)
    torch.testing.assert_close(three, one, rtol=1e-12, atol=1e-12)


def test_nor_does_the_likelihood_identify_the_crowd():
    """Classifier ``f A`` and crowd ``A^-1 G``: the same probability of each annotation as ``f`` and ``G``, to 1e-12."""
    data = tiny(4)
    A, G = (off + on * torch.eye(3, dtype=torch.float64) for off, on in ((0.1, 0.7), (0.25, 0.25)))
    sharp = torch.linalg.solve(A, G)
    assert bool((sharp > 0).all())
    assert sharp.max() > G.max() + 0.05

    class Blurred(torch.nn.Sequential):
        def forward(self, x):
            return (super().forward(x).softmax(-1) @ A).log()

    both = []
    for kind, crowd in ((torch.nn.Sequential, G), (Blurred, sharp)):
        model = CrowdMixture(groups=1, network=lambda D, K, kind=kind: kind(torch.nn.Linear(D, K)))
        both.append(likelihood(model, {"share": torch.ones(1).double(), "group_confusion": crowd[None]}, data))
    torch.testing.assert_close(*both, rtol=1e-12, atol=1e-12)


def test_crowd_mixture_is_the_papers():
    """Mena and Ñanculef: the log-likelihood of equation 2 and the membership of section 3.4, transcribed, to 1e-8."""
    data = tiny(6)
    with isolated(1), torch.no_grad():
        model = bind(CrowdMixture(groups=3, hidden=(4,)), data)
        cells = data.item_label_cells()
        parameters, _ = model.conditioned(unknowns(model, cells), cells)
        f = torch.softmax(parameters["classifier"](data.features), -1).tolist()
        ours = float((torch.logsumexp(model.item_log_joint(parameters, cells), -1) * cells.multiplicity).sum())
        members = model.derived(parameters, data)["membership"].tolist()
    alpha, beta = parameters["share"].tolist(), parameters["group_confusion"].tolist()
    K, M = data.K, 3
    annotations = list(zip(data.item.tolist(), data.worker.tolist(), data.label.tolist(), strict=True))

    def of_group(m, i, y):
        return sum(f[i][k] * beta[m][k][y] for k in range(K))

    paper = 0.0
    for i in range(data.N):
        for y in range(K):
            r = sum(item == i and label == y for item, _, label in annotations)
            paper += r * math.log(sum(alpha[m] * of_group(m, i, y) for m in range(M)))
    assert ours == pytest.approx(paper, rel=1e-8)
    for j in range(data.J):
        joint = [alpha[m] * math.prod(of_group(m, i, y) for i, w, y in annotations if w == j) for m in range(M)]
        assert members[j] == pytest.approx([each / sum(joint) for each in joint], rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [60, 10_000])
def test_set_up_1(workers):
    """By default: certain where it is right, the crowd's matrix to .01 (Jensen-Shannon), and workers in their groups."""
    s = three_gaussians(seed=0, workers=workers)
    posterior = quiet_fit(s.data, CrowdMixture(), method="em")
    predicted = crowdppl.predict(posterior, s.features_test)
    correct = (predicted["label"].to_numpy() == s.truth_test).mean()
    assert correct >= 0.92
    assert abs(predicted["probability"].mean() - correct) < 0.05
    draws = posterior.tree["posterior"].isel(chain=0, draw=0)
    G = np.einsum("m,mkl->kl", s.parameters["share"], s.parameters["confusion"])
    ours = draws["crowd_confusion"].values
    middle = (G + ours) / 2
    assert ((G * np.log(G / middle) + ours * np.log(ours / middle)).sum(-1) / 2).mean() < 0.01
    assert any("does not identify the groups" in note for note in posterior.notes)
    if workers == 60:
        group = draws["membership"].values.argmax(-1)
        assert (
            max((np.array(names)[group] == s.parameters["group"]).mean() for names in itertools.permutations(range(3)))
            == 1
        )


def test_the_penalty_is_the_entropy_of_the_classes_at_the_given_weights():
    """Also at other weights than those of the last M step: by the formula, each item's entropy times its annotations."""
    data = tiny(3)
    with isolated(0):
        model = bind(CrowdMixture(hidden=(3,), certainty=0.5), data)
        cells = model.expand(data)
        with torch.no_grad():
            step = MStep(model, cells, Space(check(model, cells)))
            theta = step.start(model.initial(cells))
            penalties = []
            for scale in (1.0, 3.0):
                moved = theta | {"classifier.weights": scale * theta["classifier.weights"]}
                parameters, _ = model.conditioned(moved, cells)
                f = torch.softmax(parameters["classifier"](data.features), -1)
                entropy = -(f * f.log()).sum(-1)
                assert step.penalty(moved) == pytest.approx(0.5 * float((entropy * data.annotations_per_item).sum()))
                penalties.append(step.penalty(moved))
    assert penalties[0] != pytest.approx(penalties[1])


@pytest.mark.slow
def test_the_posterior_of_groups_is_a_ridge():
    """Of draws along the ridge G moves little, its parts a lot: the groups are not identified."""
    s = three_gaussians(seed=0, workers=50, train=150)
    model = CrowdMixture(groups=2, hidden=(), dropout=0.0)
    posterior = quiet_fit(s.data, model, method="nuts", chains=1, warmup=100, num_samples=100, max_tree_depth=6)
    draws = posterior.tree["posterior"]
    assert (
        draws["group_confusion"].std(("chain", "draw")).mean()
        > 3 * draws["crowd_confusion"].std(("chain", "draw")).mean()
    )


def test_counts_are_all_that_matters():
    """A table of counts, and the same labels from many workers, give one result; no parameter belongs to a worker."""
    s = three_gaussians(seed=0, workers=40, train=60)
    votes = pd.DataFrame(s.data.votes.numpy().astype(int), index=s.data.items, columns=s.data.labels)
    counted = Annotations.from_counts(votes, features=pd.DataFrame(s.data.features.numpy(), index=s.data.items))
    assert counted.workers.tolist() == ["crowd"]
    assert torch.equal(counted.votes, s.data.votes)
    model = CrowdMixture(hidden=(4,))
    one, two = (quiet_fit(d, model, method="em", restarts=0, max_iter=5, seed=1) for d in (s.data, counted))
    np.testing.assert_allclose(one.tree["truth"]["probability"], two.tree["truth"]["probability"], atol=1e-9)
    for name in ("share", "group_confusion"):
        assert one.tree["point"][name].shape == two.tree["point"][name].shape
    assert {k: v.shape for k, v in one.networks.items()} == {k: v.shape for k, v in two.networks.items()}


def test_cells_are_repeated_rows():
    """EM over cells with their counts, and over single annotations, has the same likelihood at the same point, to 1e-9."""
    data = tiny(3)
    with isolated(0), torch.no_grad():
        model = bind(CrowdMixture(groups=2, hidden=(3,)), data)
        sites = unknowns(model, data.item_label_cells())
        totals = []
        for layout in (data.item_label_cells(), data.per_annotation()):
            parameters, _ = model.conditioned(sites, layout)
            marginal = torch.logsumexp(model.item_log_joint(parameters, layout), -1)
            often = torch.ones(layout.N) if layout.multiplicity is None else layout.multiplicity
            totals.append(float((marginal * often).sum()))
        assert totals[0] == pytest.approx(totals[1], rel=1e-12)


def test_assignments():
    """Of annotations by hand: p(g | x, y) over p(y | x); a worker without any has the shares of the groups."""
    data = tiny(3)
    with isolated(0), torch.no_grad():
        model = bind(CrowdMixture(groups=2, hidden=(3,)), data)
        parameters, _ = model.conditioned(unknowns(model, data.item_label_cells()), data.item_label_cells())
        f = torch.softmax(parameters["classifier"](data.features), -1)
        actual = model.derived(parameters, data)
        for n in range(data.A):
            given = parameters["group_confusion"][:, :, data.label[n]]
            joint = torch.einsum("k,m,mk->m", f[data.item[n]], parameters["share"], given)
            torch.testing.assert_close(actual["assignment"][n], joint / joint.sum())
        idle = replace(data, workers=np.array([*data.workers.tolist(), "idle"]))
        torch.testing.assert_close(model.derived(parameters, idle)["membership"][-1], parameters["share"])


def test_tables_of_groups():
    eye, uniform = np.eye(4), np.full((4, 4), 0.25)
    assert groups.similarity(eye) == pytest.approx(1)
    assert groups.similarity(uniform) == pytest.approx(0)
    assert groups.similarity(np.roll(eye, 1, axis=1)) < 0
    assert groups.row_entropy(eye) == pytest.approx(0)
    assert groups.row_entropy(uniform) == pytest.approx(np.log(4))
    with pytest.raises(DataError, match="has no groups"):
        groups.table(quiet_fit(tiny(), "pooled", method="em", num_samples=2))


@pytest.mark.slow
def test_number_of_groups_by_loo():
    """Data of three groups: two are far worse, three or more alike; memberships of workers with 80 labels are found."""
    s = three_gaussians(seed=0, workers=40, train=600)
    short = {"chains": 2, "warmup": 200, "num_samples": 200}
    table = criticism.choose_groups(s.data, lambda m: WorkerGroups(groups=m), (2, 3, 4), **short)
    gap = dict(zip(table["groups"], table["difference"], strict=True))
    assert gap[2] < -100
    assert gap[3] > -5
    posterior = quiet_fit(s.data, WorkerGroups(groups=3), method="gibbs", seed=0, **short)
    actual = posterior.tree["posterior"]["membership"].mean(("chain", "draw")).values.argmax(-1)
    right = np.einsum("mkk->m", s.parameters["confusion"])
    assert (actual == (-right).argsort().argsort()[s.parameters["group"]]).mean() > 0.95


# ---------------------------------------------------------------------- common and individual noise


def test_source_is_what_it_should_be():
    """Equal matrices leave the source at its prior; embeddings are of unit length, so omega is between its two ends."""
    data = tiny(2)
    with isolated(3), torch.no_grad():
        model = bind(CoNAL(hidden=(3,), embedding=2), data)
        sites = unknowns(model, data)
        sites["individual"] = sites["common"].expand(data.J, 3, 3)
        parameters, _ = model.conditioned(sites, data)
        omega = model.model.omega(parameters, data)
        torch.testing.assert_close(model.derived(parameters, data)["source"], omega)
        low, high = torch.sigmoid(torch.tensor([-1.0, 1.0]))
        assert bool(((omega >= low) & (omega <= high)).all())
        table = model.emission(parameters, data).probs
        torch.testing.assert_close(table, sites["common"].expand(data.A, 3, 3))


def test_source_by_hand():
    data = tiny(2)
    with isolated(3), torch.no_grad():
        model = bind(CoNAL(hidden=(3,), embedding=2), data)
        sites = unknowns(model, data)
        parameters, _ = model.conditioned(sites, data)
        omega, G, R = model.model.omega(parameters, data), sites["common"], sites["individual"]
        prior = torch.softmax(parameters["classifier"](data.features), -1)
        actual = model.derived(parameters, data)["source"]
        for n in range(data.A):
            i = int(data.item[n])
            judged = [m for m in range(data.A) if int(data.item[m]) == i]
            total, mine = 0.0, 0.0
            for k in range(3):
                weight = float(prior[i, k])
                for m in judged:
                    y, j = int(data.label[m]), int(data.worker[m])
                    shared, own = float(omega[m] * G[k, y]), float((1 - omega[m]) * R[j, k, y])
                    weight *= shared if m == n else shared + own
                mine += weight
                other = float(prior[i, k])
                for m in judged:
                    y, j = int(data.label[m]), int(data.worker[m])
                    other *= float(omega[m] * G[k, y] + (1 - omega[m]) * R[j, k, y])
                total += other
            assert float(actual[n]) == pytest.approx(mine / total, rel=1e-9)


# ---------------------------------------------------------------------- two coins and difficulty


def test_coins_at_their_ends():
    """p = 1/2 is a toss; p in {0, 1} is sigmoid(lambda / 4); probabilities sum to one."""
    s = two_gaussians(seed=0, train=3)
    with isolated(0), torch.no_grad():
        model = bind(TwoCoinDifficulty(), s.data)
        lam = torch.tensor([[2.0, 8.0]]).expand(5, 2)
        for logits, wanted in (([0.0, 0.0], [0.5, 0.5]), ([-40.0, 40.0], torch.sigmoid(lam[0] / 4).tolist())):
            fake = {"discrimination": lam, "classifier": lambda x, to=logits: torch.tensor([to]).expand(len(x), 2)}
            probs = model.emission(fake, s.data).probs  # (A, truth, label)
            torch.testing.assert_close(torch.diagonal(probs, dim1=-2, dim2=-1), torch.tensor(wanted).expand(15, 2))
            torch.testing.assert_close(probs.sum(-1), torch.ones(15, 2))


@pytest.mark.parametrize("variant", [("adaptive",), ("fixed",), ("fixed", "votes")])
def test_two_coins_are_the_papers(variant):
    """Xu et al.: the likelihood by equations (1) and (2), transcribed for each variant, to 1e-8."""
    data = two_gaussians(seed=1, train=6).data
    with isolated(2), torch.no_grad():
        model = bind(TwoCoinDifficulty(*variant), data)
        parameters, _ = model.conditioned(unknowns(model, data), data)
        f = torch.softmax(parameters["classifier"](data.features), -1)[:, 1].tolist()
        ours = torch.logsumexp(model.item_log_joint(parameters, data), -1).tolist()
    lam = parameters["discrimination"].tolist()
    for i in range(data.N):
        given = [
            (j, y)
            for n, j, y in zip(*(x.tolist() for x in (data.item, data.worker, data.label)), strict=True)
            if n == i
        ]
        vote = sum(y for _, y in given) / len(given)
        p = f[i] if variant == ("adaptive",) else vote
        prior = vote if "votes" in variant else f[i]
        a, b = prior, 1 - prior
        for j, y in given:
            alpha = 1 / (1 + math.exp(-lam[j][1] * (p - 0.5) ** 2))
            beta = 1 / (1 + math.exp(-lam[j][0] * (p - 0.5) ** 2))
            a *= alpha if y == 1 else 1 - alpha
            b *= beta if y == 0 else 1 - beta
        assert ours[i] == pytest.approx(math.log(a + b), rel=1e-8)


def test_votes_as_prior_of_the_truth():
    """Algorithm 3 as printed gives the majority vote; engines that would leave its classifier untrained are refused."""
    data = two_gaussians(seed=0, train=100).data
    votes = TwoCoinDifficulty("fixed", "votes")
    posterior = quiet_fit(data, votes, method="em", num_samples=2, independent=True)
    np.testing.assert_array_equal(posterior.probability().argmax(1), data.majority().numpy().argmax(1))
    for method in ("svi", "nuts"):
        with pytest.raises(ModelError, match="would not train it; use method='em'"):
            fit(data, votes, method=method)
    with pytest.raises(OptionError, match='is for difficulty="fixed"'):
        TwoCoinDifficulty("adaptive", "votes")


@pytest.mark.slow
@pytest.mark.parametrize("draws", [40, pytest.param(100, marks=pytest.mark.longest)])
def test_engines_train_the_classifier_of_fixed_difficulty(draws):
    """By SVI and NUTS its test accuracy is within .03 of EM's; its truths are better than the votes."""
    s = two_gaussians(seed=0, train=400)
    model, correct = TwoCoinDifficulty("fixed"), {}
    short = {"chains": 1, "warmup": draws, "num_samples": draws, "max_tree_depth": 6}
    for method, options in (("em", {}), ("svi", {"max_iter": 15 * draws}), ("nuts", short)):
        posterior = quiet_fit(s.data, model, method=method, independent=True, **options)
        guess = crowdppl.predict(posterior, s.features_test)["label"].to_numpy()
        correct[method] = (guess == s.truth_test).mean()
        votes = s.data.majority().numpy().argmax(1)
        assert (posterior.probability().argmax(1) == s.truth).mean() > (votes == s.truth).mean() + 0.1
    assert correct["svi"] == pytest.approx(correct["em"], abs=0.03)
    assert correct["nuts"] == pytest.approx(correct["em"], abs=0.03)


def test_difficulty_is_for_two_classes():
    with pytest.raises(DataError, match="3 classes"):
        fit(tiny(), TwoCoinDifficulty(), method="em")


@pytest.mark.slow
def test_workers_worse_than_chance_need_a_sign():
    """lambda > 0 cannot say that a worker is worse than chance; unconstrained it does, and gains likelihood by it."""
    s = two_gaussians(seed=1, train=400, sensitivity=(0.9, 0.9, 0.9, 0.15), specificity=(0.9, 0.9, 0.9, 0.15))
    bound, free = (quiet_fit(s.data, TwoCoinDifficulty(positive=p), method="em", num_samples=50) for p in (True, False))
    assert float(bound.tree["posterior"]["sensitivity"].mean(("chain", "draw"))[3]) > 0.5
    assert float(free.tree["posterior"]["sensitivity"].mean(("chain", "draw"))[3]) < 0.4
    assert free.info["facts"]["log_likelihood"] > bound.info["facts"]["log_likelihood"] + 10


# ---------------------------------------------------------------------- learning from crowds


def test_a_constant_classifier_leaves_dawid_and_skene():
    """Features that say nothing: the classifier is a prevalence, learned with a weak prior; truths agree to .02."""
    data, _, _ = simulated(items=150)
    blank = data.with_features(np.zeros((data.N, 1)))
    one = quiet_fit(blank, Raykar(prior_scale=100.0), method="em", num_samples=2)
    two = quiet_fit(data, DawidSkene(), method="em", num_samples=2)
    np.testing.assert_allclose(one.tree["truth"]["probability"], two.tree["truth"]["probability"], atol=0.02)


# ---------------------------------------------------------------------- simulators


def test_three_gaussians():
    s, again = three_gaussians(seed=3, workers=200), three_gaussians(seed=3, workers=200)
    assert torch.equal(s.data.label, again.data.label)
    assert (s.data.N, s.data.K, len(s.truth_test), s.data.D) == (2457, 3, 819, 2)
    assert pytest.approx(5, abs=0.15) == s.data.A / s.data.N
    centres = np.array([[0.0, 1.0], [0.0, -1.0], [1.0, 0.0]])
    nearest = ((s.features_test[:, None] - centres) ** 2).sum(-1).argmin(1)
    assert (nearest == s.truth_test).mean() == pytest.approx(0.944, abs=0.025)
    rows = np.einsum("m,mkl->kl", s.parameters["share"], s.parameters["confusion"])
    counts = np.zeros((3, 3))
    np.add.at(counts, (s.truth[s.data.item], s.data.label), 1)
    np.testing.assert_allclose(counts / counts.sum(1, keepdims=True), rows, atol=0.06)


@pytest.mark.parametrize("share", ["printed", "program", (0.5, 0.5, 0.0, 0.0)])
@pytest.mark.parametrize("K", [2, 10])
def test_four_abilities(share, K):
    truth = np.random.default_rng(0).integers(0, K, 20_000)
    s = four_abilities(truth, seed=1, workers=500, share=share)
    assert torch.equal(s.data.label, four_abilities(truth, seed=1, workers=500, share=share).data.label)
    assert (s.data.N, s.data.K, s.data.J) == (20_000, K, 500)
    # One label at least: exp(-3) of the items would have none.
    assert pytest.approx(3 + math.exp(-3), abs=0.06) == s.data.A / s.data.N
    expected = FOUR_SHARES.get(share, share)
    np.testing.assert_allclose(np.bincount(s.parameters["group"], minlength=4) / 500, expected, atol=0.11)
    for group, matrix in enumerate(s.parameters["confusion"]):
        mine = (s.parameters["group"] == group)[s.data.worker]
        if not mine.any():
            continue
        counts = np.zeros((K, K))
        np.add.at(counts, (truth[s.data.item][mine], s.data.label.numpy()[mine]), 1)
        total = counts.sum(1, keepdims=True)
        np.testing.assert_allclose(counts / total, matrix, atol=2.5 / np.sqrt(total.min()))
    accuracy = np.diagonal(s.parameters["confusion"], axis1=1, axis2=2).mean(-1)
    if K == 10:
        np.testing.assert_allclose(accuracy, [0.743, 0.362, 0.325, 0.1], atol=1e-3)
    assert (np.diff(accuracy) < 0).all()
    assert accuracy[-1] == pytest.approx(1 / K)


def test_four_abilities_by_given_matrices():
    """A group that is always right and one that calls everything class 1; features go to the items."""
    matrices = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]]
    truth, x = np.array([0, 1] * 50), np.arange(200.0).reshape(100, 2)
    s = four_abilities(truth, seed=0, workers=10, features=x, share=(0.5, 0.5), confusion=matrices)
    np.testing.assert_array_equal(s.data.features, x)
    right = s.parameters["group"][s.data.worker] == 0
    np.testing.assert_array_equal(s.data.label.numpy(), np.where(right, truth[s.data.item], 1))


def test_perturbed_networks():
    """The more noise, the more errors; which they are depends on the item, not only on its class."""
    drawn = three_gaussians(seed=0, workers=10)
    x, truth = drawn.data.features.numpy(), drawn.truth
    s = perturbed_networks(x, truth, seed=1, workers=200)
    assert torch.equal(s.data.label, perturbed_networks(x, truth, seed=1, workers=200).data.label)
    assert (s.data.N, s.data.K, s.data.J) == (2457, 3, 200)
    np.testing.assert_array_equal(s.data.features, x)
    item, worker, label = (v.numpy() for v in (s.data.item, s.data.worker, s.data.label))
    p, z = s.parameters["probability"], truth[item]
    np.testing.assert_allclose(p.sum(1), 1)
    # Labels are draws of these probabilities: five standard errors of 12,000.
    assert (label == z).mean() == pytest.approx(p[np.arange(len(z)), z].mean(), abs=0.02)
    group = s.parameters["group"][worker]
    correct = [(label == z)[group == m].mean() for m in range(3)]
    assert correct[0] > 0.88
    assert correct[0] > correct[1] + 0.1 > correct[2] + 0.2
    # Of one annotator and one class, as a confusion matrix has it, probabilities would be the same.
    spread = [p[(worker == j) & (z == k), k].std() for j in range(20) for k in range(3)]
    assert np.median(spread) > 0.1


def test_networks_without_noise_are_one():
    """All annotators then state the same probabilities of an item, near those of the best classifier."""
    drawn = three_gaussians(seed=0, workers=10, test=0)
    s = perturbed_networks(
        drawn.data.features.numpy(), drawn.truth, seed=0, workers=9, noise=(0.0,), share=(1.0,), per_item=9
    )
    p = s.parameters["probability"].reshape(2457, 9, 3)
    np.testing.assert_allclose(p, p[:, :1].repeat(9, 1), atol=1e-9)
    assert (p[:, 0].argmax(1) == drawn.truth).mean() == pytest.approx(0.944, abs=0.02)


@pytest.mark.parametrize("asymmetric", [False, True])
def test_common_and_individual(asymmetric):
    s = common_and_individual(seed=0, items=2000, common=0.4, common_strength=0.8, asymmetric=asymmetric)
    assert (s.data.N, s.data.K, s.data.J, s.data.A) == (2000, 6, 30, 6000)
    assert s.parameters["source"].mean() == pytest.approx(0.4, abs=0.04)
    assert s.parameters["share"].mean() == pytest.approx(0.4, abs=1e-9)
    assert s.parameters["share"].std() > 0.02
    right = (s.data.label.numpy() == s.truth[s.data.item])[s.parameters["source"]]
    assert right.mean() == pytest.approx(0.2, abs=0.04)
    common, individual = s.parameters["common"], s.parameters["individual"]
    np.testing.assert_allclose(individual.sum(-1), 1)
    for matrix, strength in ((common, 0.8), *((own, 0.7) for own in individual)):
        np.testing.assert_allclose(np.diagonal(matrix), 1 - strength)
        np.testing.assert_allclose(np.sort(matrix, 1)[:, :-2], 0)
    wrong = (common - np.diag(np.diagonal(common))).argmax(1).tolist()
    assert wrong == ([1, 2, 3, 4, 5, 0] if asymmetric else [1, 0, 3, 2, 5, 4])
    assert len(np.unique(individual, axis=0)) > 25


def test_common_errors_that_are_drawn():
    """Pairs, and the class that each one is taken for; the rest of a simulation is the same."""
    plain, drawn = (
        common_and_individual(seed=4, items=300, common_strength=0.8, wrong=w) for w in ("neighbours", "drawn")
    )
    for name in ("individual", "source", "share"):
        np.testing.assert_array_equal(plain.parameters[name], drawn.parameters[name])
    np.testing.assert_array_equal(plain.data.features, drawn.data.features)
    partner = drawn.parameters["common"].argmax(1)
    assert (partner != [1, 0, 3, 2, 5, 4]).any()
    np.testing.assert_array_equal(partner[partner], np.arange(6))
    # Each of the five other classes is as probable: bounds of five standard errors.
    taken = np.array(
        [
            common_and_individual(seed=seed, items=2, test=0, common_strength=1.0, asymmetric=True, wrong="drawn")
            .parameters["common"][0]
            .argmax()
            for seed in range(500)
        ]
    )
    np.testing.assert_allclose(np.bincount(taken, minlength=6)[1:] / 500, 0.2, atol=0.09)
    assert (taken != 0).all()


def test_annotations_of_items_of_your_own():
    """Features and classes are taken as they are; each annotator labels an item with equal probability."""
    rng = np.random.default_rng(0)
    truth, x = rng.integers(0, 6, 2500), rng.normal(size=(2500, 3))
    s = common_and_individual(seed=0, items=2000, test=400, on_average=True, features=x, truth=truth)
    np.testing.assert_array_equal(s.data.features, x[:2000])
    np.testing.assert_array_equal(s.truth, truth[:2000])
    np.testing.assert_array_equal(s.features_test, x[2000:2400])
    np.testing.assert_array_equal(s.truth_test, truth[2000:2400])
    count = s.data.annotations_per_item.numpy()
    wanted = stats.binom(30, 0.1)
    assert count.min() == 1
    assert count.mean() == pytest.approx(3 + wanted.pmf(0), abs=5 * wanted.std() / 2000**0.5)
    assert (count == 3).mean() == pytest.approx(wanted.pmf(3), abs=0.05)
    assert not pd.DataFrame({"item": s.data.item, "worker": s.data.worker}).duplicated().any()


def test_two_gaussians():
    """Bounds are five standard errors of the largest group and more: a false alarm in fewer than one of 10,000 seeds."""
    size = {"train": 4000, "test": 4000}
    s = two_gaussians(seed=0, labels="constant", **size)
    assert s.data.A == 20_000
    assert ((s.features_test.sum(1) > 0) == s.truth_test).mean() == pytest.approx(0.9214, abs=0.02)

    def by_class(simulation, kept):
        label = simulation.data.label.numpy().reshape(-1, 5)
        return [(label == k)[kept & (simulation.truth == k)].mean(0) for k in (1, 0)]

    everywhere = np.full(4000, True)
    rates = [s.parameters["sensitivity"], s.parameters["specificity"]]
    np.testing.assert_allclose(by_class(s, everywhere), rates, atol=0.06)
    s = two_gaussians(seed=0, **size)
    distance = np.abs(s.data.features.numpy().sum(1))
    np.testing.assert_allclose(by_class(s, distance > 4), rates, atol=0.12)  # p is above .98
    np.testing.assert_allclose(by_class(s, distance < 0.5), 0.5, atol=0.15)
    s = two_gaussians(seed=0, labels="non-structural", **size)
    correct = np.mean([1 - 1 / (3 + k) for k in range(6)])
    np.testing.assert_allclose(by_class(s, everywhere), correct, atol=0.05)


def test_two_gaussians_of_the_authors():
    """Their points do not depend on the seed; the best classifier has .941 on their test items; labels are structural."""
    s, other = (two_gaussians(seed=seed, sample="authors") for seed in (1234, 5))
    assert ((s.features_test.sum(1) > 0) == s.truth_test).mean() == 0.941
    np.testing.assert_array_equal(s.data.features, other.data.features)
    assert (s.data.label != other.data.label).float().mean() > 0.2
    for simulation in (s, other):
        label = simulation.data.label.numpy().reshape(-1, 5)
        p = expit(simulation.data.features.numpy().sum(1))[:, None]
        side = np.where(s.truth[:, None] == 1, s.parameters["sensitivity"], s.parameters["specificity"])
        expected = expit(4 * logit(side) * (p - 0.5) ** 2)
        right = label == s.truth[:, None]
        np.testing.assert_allclose(right.mean(0), expected.mean(0), atol=5 * 0.5 / 1000**0.5)
        assert right[(p > 0.98)[:, 0] | (p < 0.02)[:, 0]].mean() > right[(abs(p - 0.5) < 0.1)[:, 0]].mean() + 0.05
    with pytest.raises(OptionError, match="authors' sample"):
        two_gaussians(seed=0, sample="authors", train=10)
    with pytest.raises(OptionError, match="authors' sample"):
        two_gaussians(seed=0, sample="authors", labels="constant")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: three_gaussians(seed=0, workers=3), "workers=3"),
        (lambda: four_abilities([0, 1], seed=0, workers=2), "workers=2"),
        (
            lambda: four_abilities([0, 2], seed=0, workers=5, confusion=np.full((4, 2, 2), 0.5)),
            "truth has classes from 0 to 2",
        ),
        (lambda: four_abilities([-1, 2], seed=0, workers=5), "truth has classes from -1"),
        (lambda: four_abilities([0, 1], seed=0, workers=5, share=(0.5, 0.5)), "share has 2 groups"),
        (lambda: four_abilities([0, 1], seed=0, workers=5, share=(0.5, 0.2, 0.2, 0.2)), "share must have"),
        (lambda: four_abilities([0, 1], seed=0, workers=5, share="even"), "share='even'"),
        (lambda: four_abilities([0, 1], seed=0, workers=5, confusion=np.ones((4, 2, 2))), "confusion must have"),
        (lambda: four_abilities([0, 1], seed=0, workers=5, features=np.ones((3, 2))), "features has 3 rows"),
        (lambda: common_and_individual(seed=0, common=1.5), "common=1.5"),
        (lambda: common_and_individual(seed=0, workers=2), "per_item=3"),
        (lambda: common_and_individual(seed=0, truth=[0, 1]), "pass both or neither"),
        (lambda: common_and_individual(seed=0, items=2, test=1, truth=[0, 1], features=np.eye(2)), "each of 3 items"),
        (lambda: common_and_individual(seed=0, items=2, test=0, truth=[0, 9], features=np.eye(2)), "from 0 to 9"),
        (lambda: perturbed_networks(np.eye(2), [0, 1], seed=0, workers=2), "workers=2"),
        (lambda: perturbed_networks(np.eye(2), [0, -1], seed=0, workers=5), "truth has a class -1"),
        (lambda: perturbed_networks(np.eye(3), [0, 1], seed=0, workers=5), "features has 3 rows"),
        (lambda: perturbed_networks(np.eye(2), [0, 1], seed=0, workers=5, share=(1.0,)), "share has 1 groups"),
        (
            lambda: perturbed_networks(np.eye(2), [0, 1], seed=0, workers=5, share=(0.2, 0.2, 0.2)),
            "share must have",
        ),
        (lambda: two_gaussians(seed=0, sensitivity=(0.5,)), "1 sensitivities"),
    ],
)
def test_simulators_refuse(call, said):
    with pytest.raises(crowdppl.OptionError, match=said):
        call()


def test_modes():
    torch.testing.assert_close(dirichlet_mode(torch.tensor([0.0, 0.0])), torch.tensor([0.5, 0.5]))
    torch.testing.assert_close(dirichlet_mode(torch.tensor([2.0, 1.0])), torch.tensor([2 / 3, 1 / 3]))
