"""Every number against enumeration: over all truths by hand, by Pyro's own enumeration, by finite differences."""

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from catalog import CASES, SHORT, draws_whole_counts, fit, in_turn, many_from_prior, rotated, tiny
from pyro import poutine
from pyro.infer import TraceEnum_ELBO
from pyro.infer.autoguide import AutoDelta
from pyro.infer.autoguide.initialization import init_to_value

import crowdppl
from crowdppl import CrowdpplWarning
from crowdppl.inference.engines.unconstrained import Space
from crowdppl.inference.sampling import GumbelMaxSampler, sample_truth, sample_truth_from_probabilities
from crowdppl.isolation import isolated
from crowdppl.kernels.ops import normalise
from crowdppl.model.base import provides
from crowdppl.model.bound import bind, repeated
from crowdppl.model.contract import check
from crowdppl.model.plates import Plates
from crowdppl.models import DawidSkene


def enumerate_truths(data, prior, emission, reading):
    """Sum over all S^N states of the truth, annotation by annotation, in plain Python.

    prior (N, S), emission (A, S, L) and reading (S, K) are probabilities; data may be an arrangement, with multiplicities.
    Returns the log marginal likelihood and (N, S) posteriors.
    """
    S = prior.shape[1]
    item, label, known = data.item.tolist(), data.label.tolist(), data.truth.tolist()
    often = [1.0] * data.N if data.multiplicity is None else data.multiplicity.tolist()
    power = [1.0] * data.N if data.weight is None else data.weight.tolist()
    prior = prior * np.stack([reading[:, k] if k >= 0 else np.ones(S) for k in known])
    if data.N > 8 or any(w != 1 for w in often):  # item by item, where the product over all would not end
        total, posterior = 0.0, np.zeros((data.N, S))
        for i in range(data.N):
            for s in range(S):
                if prior[i, s]:
                    posterior[i, s] = prior[i, s] * np.prod(
                        [emission[n, s, label[n]] ** power[i] for n in range(data.A) if item[n] == i]
                    )
            total += often[i] * np.log(posterior[i].sum())
            posterior[i] /= posterior[i].sum()
        return total, posterior
    total, per_state = 0.0, np.zeros((data.N, S))
    for truths in itertools.product(range(S), repeat=data.N):
        p = 1.0
        for i, z in enumerate(truths):
            p *= prior[i, z]
        if not p:
            continue
        for n, i in enumerate(item):
            p *= emission[n, truths[i], label[n]] ** power[i]
        total += p
        for i, z in enumerate(truths):
            per_state[i, z] += p
    return np.log(total), per_state / total


def of_items(r, layout, data, reading):
    """Class probabilities of items (N, K) from states of the arrangement (N', S): means over an item's own, weighted."""
    classes = r @ reading
    known = layout.truth.numpy()
    classes[known >= 0] = np.eye(data.K)[known[known >= 0]]
    if layout.parent_item is None:
        return classes
    often = np.ones(layout.N) if layout.multiplicity is None else layout.multiplicity.numpy()
    out, total = np.zeros((data.N, data.K)), np.zeros((data.N, 1))
    for c, i in enumerate(layout.parent_item.tolist()):
        out[i] += often[c] * classes[c]
        total[i] += often[c]
    return out / total


def probabilities(model, sites, data):
    """The model's distributions at given sites, as tables: prior (N, S), emission (A, S, L), classes by state (S, K)."""
    with isolated(0), torch.no_grad():
        parameters, _ = model.conditioned(sites, data)
        S = model.states
        reading = model.truths.classes_of_states(parameters, data)
        prior = model.truth(parameters, data).probs.expand(data.N, S)
        labels = torch.arange(data.K).view(-1, 1, 1)
        emission = model.emission(parameters, data).log_prob(labels).exp().permute(1, 2, 0)
    return prior.numpy(), emission.numpy(), reading.numpy()


# Models whose M step splits counts by the parameters before it.
SPLIT = ("spammers", "mace", "mace-equal", "prototype-mixture", "label-sets")


def ready(case, seed, known=False, weighted=False):
    """Data, the model bound to them, and their arrangement."""
    data = tiny(
        seed,
        known=known,
        classes=case.classes,
        features=case.features,
        criteria=case.criteria,
        covariates=case.features,
        weighted=weighted,
    )
    model = bind(case.model, data)
    return data, model, model.expand(data)


def few_and_more(parameters):
    """Return fast parameters with two draws, and at night with six, and slow ones with six."""
    longest = (pytest.mark.slow, pytest.mark.longest)
    return [
        pytest.param(*one.values, draws, id=f"{one.id}-{draws}", marks=marks)
        for one in parameters
        for draws, marks in ([(6, one.marks)] if one.marks else [(2, ()), (6, longest)])
    ]


@pytest.mark.parametrize(
    ("case", "method", "kind", "draws"), few_and_more(rotated(["free", "known", "weighted"], every=3, nightly=True))
)
def test_engines_agree_with_enumeration(case, method, kind, draws):
    known = kind == "known"
    data = tiny(
        3,
        known=known,
        classes=case.classes,
        features=case.features,
        criteria=case.criteria,
        covariates=case.features,
        weighted=kind == "weighted",
    )
    if method == "gibbs" and kind == "weighted" and draws_whole_counts(case.model):
        with pytest.raises(crowdppl.ModelError, match="the item weights are not whole numbers"):
            fit(data, case.model, method=method)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        posterior = fit(data, case.model, method=method, seed=1, **(SHORT[method] | {"num_samples": draws}))
    with isolated(0):
        model = bind(case.model, data)
        layout = model.expand(data)
        wanted = set(check(model, layout))
    tree = posterior.tree
    weights = {} if model.networks is None else posterior.networks
    if weights:
        model.networks.load(weights)
    fixed = {name: value for name, value in model.networks.start().items() if name in wanted} if weights else {}
    chain = tree["posterior"].isel(chain=0)
    names = [name for name in tree["posterior"].data_vars if name in wanted]
    totals = []
    for s in range(chain.sizes["draw"]):
        sites = fixed | {name: torch.tensor(chain[name].values[s]) for name in names}
        tables = probabilities(model, sites, layout)
        marginal, r = enumerate_truths(layout, *tables)
        totals.append(of_items(r, layout, data, tables[-1]))
        assert tree["log_likelihood"]["labels"].values[0, s].sum() == pytest.approx(marginal, rel=1e-10)
    if "point" in tree.children:
        sites = fixed | {name: torch.tensor(tree["point"][name].values) for name in names}
        tables = probabilities(model, sites, layout)
        marginal, r = enumerate_truths(layout, *tables)
        wanted = of_items(r, layout, data, tables[-1])
        np.testing.assert_allclose(tree["truth"]["probability"].values, wanted, atol=1e-10)
        if method == "em":
            assert posterior.info["facts"]["log_likelihood"] == pytest.approx(marginal, rel=1e-10)
    elif tree["posterior"].sizes["chain"] == 1:
        np.testing.assert_allclose(tree["truth"]["probability"].values, np.mean(totals, axis=0), atol=1e-10)
    if known:
        assert posterior.truth().set_index("task").loc["item 1", "probability"] == 1.0


KINDS = ["plain", "known", "repeated", "weighted", "all"]


@pytest.mark.parametrize(
    ("case", "kind", "seed"),
    in_turn([(case, kind, seed) for case in CASES for kind in KINDS for seed in range(2)], 11),
)
def test_pyro_program_equals_fast_path(case, seed, kind):
    """TraceEnum_ELBO of the program under a delta guide = summed marginal + log prior; and so is the marginal program."""
    with isolated(seed), torch.no_grad():
        _, model, data = ready(case, seed, kind in ("known", "all"), kind in ("weighted", "all"))
        if kind in ("repeated", "all"):
            data = replace(data, multiplicity=torch.arange(1.0, data.N + 1))
        sites = {name: node["value"] for name, node in check(model, data).items()}
        parameters, log_prior = model.conditioned(sites, data)
        joint = model.item_log_joint(parameters, data)
        fast = float(repeated(normalise(joint)[0], data).sum() + log_prior)
        # A delta guide is for what has a density; discrete parameters are conditioned on.
        discrete = {name: value for name, value in sites.items() if not value.is_floating_point()}
        program = poutine.condition(model.program, data=discrete)
        guide = AutoDelta(
            poutine.block(program, hide=["truth", "labels", "repeats"]),
            init_loc_fn=init_to_value(values=sites),
            create_plates=lambda data: [(p := Plates.over(data.N, data.J)).item, p.worker],
        )
        enumerated = -TraceEnum_ELBO(max_plate_nesting=1).loss(program, guide, data)
        trace = poutine.trace(poutine.condition(model.marginal_program, data=sites)).get_trace(data)
        assert enumerated == pytest.approx(fast, rel=1e-10)
        assert float(trace.log_prob_sum()) == pytest.approx(fast, rel=1e-10)
        assert fast == pytest.approx(
            enumerate_truths(data, *probabilities(model, sites, data))[0] + float(log_prior), rel=1e-10
        )
        if model.networks is None:
            assert float(model.log_prior(parameters, data)) == pytest.approx(float(log_prior), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize(
    ("case", "weighted", "dense"), in_turn([*itertools.product(CASES, (False, True), (True, False))], 3)
)
def test_evidence_table_equals_emission(case, weighted, dense):
    """Where a model takes the sparse products, they say what its emission says."""
    with isolated(5), torch.no_grad():
        _, model, data = ready(case, 5, weighted=weighted)
        if not dense:
            data.counts._dense = None
        sites = {name: node["value"] for name, node in check(model, data).items()}
        parameters, _ = model.conditioned(sites, data)
        log_prob = model.emission(parameters, data).log_prob(data.label.unsqueeze(-1))
        by_hand = torch.zeros(data.N, model.states)
        for n in range(data.A):
            by_hand[data.item[n]] += log_prob[n] * (1 if data.weight is None else data.weight[data.item[n]])
        torch.testing.assert_close(model.log_likelihoods(parameters, data), by_hand, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("case", "dense"),
    in_turn([(c, dense) for c in CASES if {"nuts", "em"} & set(c.methods) for dense in (True, False)], 5),
)
def test_gradients(case, dense):
    """Gradients of the log posterior in unbounded coordinates against central differences."""
    with isolated(0):
        _, model, data = ready(case, 2, known=True, weighted=not dense)
        if not dense:
            data.counts._dense = None
        space = Space(check(model, data), discrete=True)
        held = {name: node["value"] for name, node in space.sites.items() if space.supports[name].is_discrete}
        space = space.part(set(space.sites) - set(held))

        def density(vector):
            parameters, log_prior = model.conditioned(held | space.values(vector), data)
            return torch.logsumexp(model.item_log_joint(parameters, data), -1).sum() + log_prior

        at = torch.randn(space.size)
        (gradient,) = torch.autograd.grad(density(at.requires_grad_()), at)
        step = 1e-5 * torch.eye(space.size)
        with torch.no_grad():
            numeric = torch.stack([(density(at + h) - density(at - h)) / 2e-5 for h in step])
        torch.testing.assert_close(gradient, numeric, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("case", "weighted"),
    in_turn([(c, weighted) for c in CASES if {"em", "gibbs"} <= set(c.methods) for weighted in (False, True)], 3),
)
def test_closed_m_step_is_a_maximum(case, weighted):
    """No small move from the closed-form M step raises the expected log joint plus log prior."""
    data = tiny(
        4,
        classes=case.classes,
        features=case.features,
        criteria=case.criteria,
        covariates=case.features,
        weighted=weighted,
    )
    with isolated(1), torch.no_grad():
        model = bind(case.model, data)
        space = Space(check(model, data), discrete=True)
        r = torch.distributions.Dirichlet(torch.ones(data.N, model.states)).sample()
        best = model.m_step(r, data)
        # Learned in the first step, by empirical Bayes or with the truths of its own rounds.
        held = {"crowd_mean", "crowd_precision", "spread_precision", "shape"} & set(best)
        if case.name in SPLIT or held:  # one step maximises a bound, or only rises
            for _ in range(300):
                below, best = best, model.m_step(r, data, best)

        def objective(parameters):
            joint = model.item_log_joint(parameters, data)
            return float((torch.where(r > 0, r * joint, 0.0)).sum() + model.log_prior(parameters, data))

        top = objective(best)
        if held:
            assert objective(below) <= top + 1e-12
        for scale in (1e-1, 1e-2, 1e-3):
            for _ in range(20):
                moved = {}
                for name, value in best.items():
                    if name in held or space.supports[name].is_discrete:
                        moved[name] = value
                        continue
                    simplex = torch.distributions.Dirichlet(torch.ones_like(value)) if value.dim() else None
                    other = simplex.sample() if simplex else torch.rand(())
                    moved[name] = (1 - scale) * value + scale * other
                assert objective(moved) <= top + 1e-12
        for name in [name for name in best if space.supports[name].is_discrete]:  # one worker at a time
            for j, other in itertools.product(range(data.J), range(int(best[name].max()) + 2)):
                moved = best[name].clone()
                moved[j] = other
                if bool(space.supports[name].check(moved).all()):
                    assert objective(best | {name: moved}) <= top + 1e-12
        assert space.size


@pytest.mark.parametrize("case", in_turn([c for c in CASES if "gibbs" in c.methods], 2))
def test_gibbs_draws_truths_from_their_conditional(case):
    """Truths given parameters: frequencies of 20,000 draws against the enumerated conditional.

    At most 36 free probabilities of standard error below .0036: the bound of .018 is five of them, a false alarm in less than one
    of 40,000 runs.
    """
    with isolated(6), torch.no_grad():
        _, model, data = ready(case, 6, known=True, weighted=not draws_whole_counts(case.model))
        sites = {name: node["value"] for name, node in check(model, data).items()}
        joint = model.item_log_joint(model.conditioned(sites, data)[0], data)
        _, exact = enumerate_truths(data, *probabilities(model, sites, data))
        sampler = GumbelMaxSampler((2000, data.N, joint.shape[-1]), data)
        classes = torch.cat([sampler.sample(joint.expand(2000, *joint.shape)) for _ in range(10)])
        frequency = torch.nn.functional.one_hot(classes, joint.shape[-1]).double().mean(0)
        np.testing.assert_allclose(frequency, exact, atol=0.018)
        many = joint.expand(20_000, *joint.shape)
        for again in (sample_truth(many), sample_truth_from_probabilities(many.softmax(-1))):
            frequency = torch.nn.functional.one_hot(again, joint.shape[-1]).double().mean(0)
            np.testing.assert_allclose(frequency, exact, atol=0.018)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_random_number_of_zero_draws_nothing_impossible(dtype, monkeypatch):
    """In single precision one of sixteen million is zero: an infinite exponential must not make an impossible class win."""
    monkeypatch.setattr(torch.Tensor, "uniform_", torch.Tensor.zero_)
    certain = torch.eye(3, dtype=dtype)
    for actual in (sample_truth_from_probabilities(certain), sample_truth(certain.log())):
        assert actual.tolist() == [0, 1, 2]


# Sixty of their steps take seconds; tests/models has a fast test of each of them.
LONG = ("graded-facets", "features-and-effects")


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(*one.values, id=one.id, marks=[*one.marks, *[pytest.mark.slow] * one.id.startswith(LONG)])
        for one in in_turn([c for c in CASES if "gibbs" in c.methods], 3, night=False)
    ],
)
def test_gibbs_draws_parameters_from_their_conditional(case):
    """Parameters given truths, the step repeated with the truths held: means and mean squares against importance sampling.

    6,000 draws from the prior, weighted by the probability of truths and labels; a step that conditions on the parameters is a
    chain of its own, begun at prior draws. Every number within five standard errors of the difference plus .004: of some 1,500
    numbers over the catalogue a false alarm in less than one of 1,000 runs.
    """
    data = tiny(
        8,
        items=3,
        workers=2,
        classes=case.classes,
        features=case.features,
        criteria=case.criteria,
        covariates=case.features,
    )
    model = case.model
    if not draws_whole_counts(model):
        data = data.with_weights([0.5, 1.3, 0.8])
    with isolated(8), torch.no_grad():
        model = bind(model, data)
        check(model, data)
        states = model.states
        # Of places on a line those in the middle: far out few draws from the prior explain the labels.
        truth = torch.tensor([2, 4, 3] if model.truths.read_off else [0, states - 1, 1])
        prior = many_from_prior(model, data, 6000)
        joint = model.item_log_joint(prior, data)[:, torch.arange(3), truth].sum(-1)
        weight = joint.softmax(-1).double()
        effective = float(1 / weight.square().sum())
        assert effective > 150
        theta = {name: value[torch.randint(6000, (4000,))] for name, value in prior.items()}
        for _ in range(
            60
            if case.name.startswith(
                (
                    "hierarchical",
                    "community",
                    "worker-groups",
                    "majority-vote",
                    "spammers",
                    "item-effects",
                    "features-and-effects",
                    "graded-facets",
                    "label-sets",
                )
            )
            else 1
        ):
            theta = model.gibbs_step(truth.expand(4000, -1), theta, data)
        for name, value in prior.items():
            wanted, actual = value.double().reshape(6000, -1), theta[name].double().reshape(4000, -1)
            if name == "strength":  # a positive number with a long tail
                wanted, actual = wanted.log(), actual.log()
            for power in (1, 2):
                mean = (weight.unsqueeze(-1) * wanted**power).sum(0)
                spread = (weight.unsqueeze(-1) * (wanted**power - mean).square()).sum(0).sqrt()
                error = spread * (1 / effective + 1 / 4000) ** 0.5
                apart = (actual.pow(power).mean(0) - mean).abs()
                assert bool((apart < 5 * error + 0.004).all()), (name, power, float((apart / error).max()))


@pytest.mark.parametrize("weighted", [pytest.param(False, marks=pytest.mark.slow), True], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", ["crowd-mixture", "raykar", "conal"])
def test_closed_part_of_an_m_step_is_a_maximum(name, weighted):
    """Where networks are left to gradients: no small move of the other sites raises the bound they maximise.

    CoNAL's bound is that of its sources, too: one step must raise the expected log joint, and many end at its maximum.
    """
    case = next(c for c in CASES if c.name == name)
    with isolated(1), torch.no_grad():
        _, model, data = ready(case, 4, weighted=weighted)
        sites = {key: node["value"] for key, node in check(model, data).items()}
        r = torch.distributions.Dirichlet(torch.ones(data.N, model.states)).sample()

        def objective(parts):
            parameters, log_prior = model.conditioned(sites | parts, data)
            return float((r * model.item_log_joint(parameters, data)).sum() + log_prior)

        if name == "conal":
            best = model.m_step(r, data, parameters=sites)
            assert objective(best) > objective({})
            for _ in range(300):  # one step follows the other: the bound is tight where they stand
                best = model.m_step(r, data, parameters=sites | best)
        else:
            best = model.m_step(r, data)
        top = objective(best)
        for scale in (1e-1, 1e-2, 1e-3):
            for _ in range(20):
                moved = {
                    key: (1 - scale) * value + scale * torch.distributions.Dirichlet(torch.ones_like(value)).sample()
                    for key, value in best.items()
                }
                assert objective(moved) <= top + 1e-9


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if provides(c.model, "m_step") or provides(c.model, "conjugate_counts")],
    ids=lambda c: c.name,
)
def test_first_points_are_possible(case):
    """What an M step gives lies in the support of its sites: rows sum to one, strengths are positive."""
    with isolated(1), torch.no_grad():
        _, model, data = ready(case, 4)
        nodes = check(model, data)
        for name, value in model.m_step(model.initial(data), data).items():
            assert value.shape == nodes[name]["value"].shape
            assert bool(nodes[name]["fn"].support.check(value).all()), name
            assert bool(torch.isfinite(value).all())


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if provides(c.model, "guide") or (provides(c.model, "conjugate_counts") and not c.features)],
    ids=lambda c: c.name,
)
def test_guides_begin_at_the_prior_where_there_are_no_data(case):
    """One item nobody judged: for workers the model's own guide is its prior, site by site; elsewhere prior plus counts."""
    with isolated(2), torch.no_grad():
        data = tiny(
            1, classes=case.classes, features=case.features, criteria=case.criteria, covariates=case.features
        ).unseen(items=["new"])
        data = replace(data, features=torch.zeros(1, 2))
        model = bind(case.model, data)
        nodes = check(model, data)
        sites = {name: node["value"] for name, node in nodes.items()}
        guide = model.guide(data, sites)
        for _ in range(3):
            trace = poutine.trace(guide).get_trace(data)
            trace.compute_log_prob()
            drawn = {name: trace.nodes[name]["value"] for name in nodes}
            prior = poutine.trace(poutine.condition(model.prior, data=drawn)).get_trace(data, Plates.over(1, data.J))
            prior.compute_log_prob()
            for name in nodes:
                # The item counts for the prevalence; a log-normal stands for the strength's gamma.
                if name in ("prevalence", "weights", "strength", "confusion" if case.name == "hierarchical" else ""):
                    continue
                torch.testing.assert_close(
                    trace.nodes[name]["log_prob"], prior.nodes[name]["log_prob"], msg=lambda m, n=name: f"{n}: {m}"
                )


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
    data, model = tiny(seed, items=4, classes=3), DawidSkene(prior_correct=3.0, prior_incorrect=1.0)
    options = {
        "gibbs": {"chains": 4, "warmup": 200, "num_samples": 5000},
        "nuts": {"chains": 2, "warmup": 300, "num_samples": 1500},
    }[method]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        posterior = fit(data, model, method=method, seed=seed, **options)
    exact = exact_dawid_skene(data, model)
    np.testing.assert_allclose(posterior.tree["truth"]["probability"].values, exact, atol=0.03)
    frequency = np.stack([(posterior.tree["truth"]["draw_of"].values == k).mean((0, 1)) for k in range(data.K)], -1)
    np.testing.assert_allclose(frequency, exact, atol=0.03)


def test_mini_batches_are_unbiased():
    """The mean of the scaled log density over all batches of items is that of the whole."""
    data = tiny(1, items=6)
    model = bind(DawidSkene(), data)
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
