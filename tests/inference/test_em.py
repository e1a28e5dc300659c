"""EM against published figures, and its promises: it rises, it stops, it says what it found."""

import dataclasses
import itertools
import warnings

import numpy as np
import pyro
import pytest
import torch
from catalog import CASES, OwnCoin, fit, in_turn, quiet_fit, simulated, tiny
from pyro.distributions import Categorical, Dirichlet, HalfNormal, LKJCholesky, Normal
from torch.utils._python_dispatch import TorchDispatchMode

import crowdppl
from crowdppl import AnnotationModel, Annotations, CrowdpplWarning
from crowdppl.inference.catalogue import named_model
from crowdppl.inference.engines.squarem import coordinates, extrapolate
from crowdppl.inference.engines.unconstrained import Space, is_simplex
from crowdppl.inference.options import completed
from crowdppl.inference.run import ENGINES
from crowdppl.isolation import isolated
from crowdppl.kernels import ops
from crowdppl.model.base import provides
from crowdppl.model.bound import bind
from crowdppl.model.contract import check
from crowdppl.models import DawidSkene, ItemSubtypes, MajorityVote

# Most fits here are about the point: few draws are taken, and the library says that their intervals are rough.
pytestmark = pytest.mark.filterwarnings("ignore:the ends of intervals come from:crowdppl.CrowdpplWarning")

FLAT = DawidSkene.maximum_likelihood()
PLAIN = {"method": "em", "accelerate": False, "tol": 1e-10, "num_samples": 2}


def test_anaesthesia_fixture(anaesthesia):
    """Dawid & Skene (1979): prevalence .40 .42 .11 .07, observer 1's matrix; log-likelihood recomputed, -192.89088121."""
    posterior = fit(anaesthesia, FLAT, **PLAIN)
    assert posterior.info["facts"]["log_likelihood"] == pytest.approx(-192.89088121, abs=1e-7)
    point = posterior.tree["point"]
    np.testing.assert_allclose(point["prevalence"], [0.3996, 0.4220, 0.1118, 0.0667], atol=5e-5)
    printed = [[0.89, 0.11, 0, 0], [0.07, 0.88, 0.05, 0], [0, 0.34, 0.66, 0], [0, 0, 0.56, 0.44]]
    np.testing.assert_allclose(point["confusion"].sel(worker=1), printed, atol=0.006)
    truth = posterior.truth().set_index("task")["label"]
    assert truth[[3, 14, 36]].tolist() == [2, 2, 4]


def test_the_other_copy_of_patient_seven(anaesthesia):
    """Copies with 1, 1, 2 for patient 7, observer 1 have -190.73099659."""
    from dataclasses import replace

    label = anaesthesia.label.clone()
    row = int(torch.nonzero((anaesthesia.item == 6) & (anaesthesia.worker == 0))[1])
    assert int(label[row]) == 1
    label[row] = 0
    posterior = fit(replace(anaesthesia, label=label), FLAT, **PLAIN)
    assert posterior.info["facts"]["log_likelihood"] == pytest.approx(-190.73099659, abs=1e-7)


@pytest.mark.parametrize(
    ("name", "log_likelihood", "accuracy"),
    [
        ("bluebirds", -1888.1168, 0.8981),
        ("product", -7568.7464, 0.9393),
        ("rte", -3679.6290, 0.9275),
        ("dog", -4745.5499, 0.8426),
        ("face", -4088.7916, 0.6404),
        ("labelme", -2708.1797, 0.7960),
    ],
)
def test_public_fixtures(public, name, log_likelihood, accuracy):
    data, truth = public(name)
    posterior = fit(data, FLAT, **PLAIN)
    assert posterior.info["facts"]["log_likelihood"] == pytest.approx(log_likelihood, abs=1e-3)
    actual = posterior.truth().set_index("item").loc[truth.index, "label"].to_numpy()
    assert (actual == truth.to_numpy()).mean() == pytest.approx(accuracy, abs=6e-4)


def test_caries_fixture(public):
    data, _ = public("caries")
    posterior = fit(data, FLAT, **PLAIN)
    assert posterior.info["facts"]["log_likelihood"] == pytest.approx(-7410.941976, abs=1e-4)
    np.testing.assert_allclose(posterior.tree["point"]["prevalence"], [0.80034, 0.19966], atol=5e-5)


@pytest.mark.parametrize("accelerate", [False, True], ids=["plain", "accelerated"])
@pytest.mark.parametrize("case", in_turn([c for c in CASES if "em" in c.methods and c.rises], 5))
def test_log_posterior_never_falls(case, accelerate):
    closed = "gibbs" in case.methods
    for seed in range(3 if closed else 1):  # steps in closed form are quick, those by line search are not
        data, _, _ = simulated(items=60 if closed else 30, seed=seed, classes=case.classes)
        posterior = _quiet(
            data, case.model, method="em", accelerate=accelerate, tol=1e-12 if closed else 1e-9, num_samples=2
        )
        trace = posterior.tree["sample_stats"]["log_posterior"].values
        assert np.diff(trace).min(initial=0) >= -1e-9 * abs(trace[-1])
        assert posterior.info["facts"]["log_posterior"] == trace[-1]


@pytest.mark.parametrize("case", CASES[:1] + CASES[2:4], ids=lambda c: c.name)
def test_acceleration_ends_where_plain_em_ends(case):
    """With proper priors, to 1e-6 in every responsibility; a fixed point of the plain step, too."""
    data, _, _ = simulated(items=100, seed=4)
    ends = [
        _quiet(data, case.model, method="em", accelerate=a, tol=0, max_iter=20_000, num_samples=2)
        for a in (False, True)
    ]
    one, two = (end.tree["truth"]["probability"].values for end in ends)
    np.testing.assert_allclose(one, two, atol=1e-6)
    again = bind(case.model, data).m_step(torch.tensor(two), data)
    for name, value in again.items():
        np.testing.assert_allclose(value, ends[1].tree["point"][name], atol=1e-6)


@pytest.mark.parametrize("case", in_turn([c for c in CASES if "em" in c.methods and c.rises], 7))
def test_em_ends_at_a_fixed_point(case):
    """One more plain step moves nothing by more than 1e-5; where the point is inside, the gradient there is gone.

    The gradient of the log posterior by the values themselves, taken along the simplex for probabilities, per annotation and
    below 1e-5 (1e-3 where steps are taken by line search, to its own tolerance).
    """
    data, _, _ = simulated(items=80, seed=8, classes=case.classes)
    posterior = _quiet(data, case.model, method="em", tol=1e-15, max_iter=20_000, num_samples=2)
    with isolated(0):
        model = bind(case.model, data)
        sites = check(model, data)
        if model.networks is not None:
            model.networks.load(posterior.networks)
        started = model.networks.start() if model.networks is not None else {}
        point = {
            name: torch.tensor(posterior.tree["point"][name].values)
            if name in posterior.tree["point"]
            else started[name]
            for name in sites
        }
        closed = "gibbs" in case.methods
        data = model.anchored(data)
        if data.anchor is not None:  # as much of it as EM ended with
            share = posterior.info["facts"]["anchored"] / float(data.anchor.sum(-1).mean())
            data = dataclasses.replace(data, anchor=share * data.anchor)
        if closed:
            with torch.no_grad():
                _, r = model.expectation(model.item_log_joint(point, data), data)
                for name, value in model.m_step(r, data, point).items():
                    torch.testing.assert_close(value, point[name], atol=1e-5, rtol=0)
        if case.name.endswith("-flat"):
            return  # on the boundary: some cells are zero
        continuous = {name: value.requires_grad_() for name, value in point.items() if value.is_floating_point()}
        parameters, log_prior = model.conditioned(point, data)
        density = model.objective(model.item_log_joint(parameters, data), data).sum() + log_prior
        for name, slope in zip(continuous, torch.autograd.grad(density, list(continuous.values())), strict=True):
            if name in ("crowd_mean", "crowd_precision", "spread_precision"):
                continue  # learned by empirical Bayes in the first step
            if case.name.startswith("judged-systems") and name.endswith("_scale"):
                continue  # held at its prior median
            value = point[name].detach()
            if is_simplex(sites[name]["fn"].support):
                slope = value * (slope - (slope * value).sum(-1, keepdim=True))
            assert float(slope.abs().max()) / data.A < (1e-5 if closed else 1e-3), name


@pytest.mark.parametrize("name", ["anaesthesia", "caries", "bluebirds", "rte"])
def test_restarts_find_no_better_mode(name, anaesthesia, public):
    """Ten starts around the majority vote: under the default prior all end in one mode, and no warning says otherwise."""
    data = anaesthesia if name == "anaesthesia" else public(name)[0]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        facts = fit(data, "dawid-skene", method="em", restarts=10, num_samples=2, seed=1).info["facts"]
    ends = facts["restarts"]
    assert len(ends) == 11
    assert facts["log_posterior"] == max(ends)
    assert max(ends) == pytest.approx(ends[0], rel=1e-6)  # no better one
    assert not any("several modes" in str(w.message) for w in caught)


def test_restarts_keep_the_best_and_tell_all():
    data = tiny(0, items=12)
    posterior = fit(data, FLAT, method="em", restarts=0, num_samples=2)
    alone = posterior.info["facts"]
    with_more = _quiet(data, FLAT, method="em", restarts=8, num_samples=2).info["facts"]
    assert len(with_more["restarts"]) == 9
    assert with_more["restarts"][0] == pytest.approx(alone["log_posterior"], rel=1e-12)
    assert with_more["log_posterior"] == max(with_more["restarts"])
    assert len(set(with_more["restarts"])) > 1


SIDE_BY_SIDE = [
    c
    for c in CASES
    if provides(c.model, "conjugate_counts") and not provides(c.model, "networks") and "em" in c.methods
]


@pytest.mark.parametrize(("case", "accelerate"), in_turn([*itertools.product(SIDE_BY_SIDE, [True, False])], 3))
def test_ascents_side_by_side_are_those_one_after_the_other(case, accelerate, monkeypatch):
    """Each as if it were alone: the same steps, rejected extrapolations included, in groups too, to rounding."""
    data = tiny(4, items=30, workers=6, classes=case.classes, known=True, weighted=True)
    options = {"method": "em", "restarts": 6, "num_samples": 2, "seed": 2, "accelerate": accelerate, "max_iter": 25}
    actual = []
    for room in (1, 2**22, 8 * 4 * data.N * data.K * 3):  # one by one, all at once, three at a time
        monkeypatch.setattr(crowdppl.inference.memory, "WORK_BYTES", room)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CrowdpplWarning)
            actual.append(fit(data, case.model, **options))
    for other in actual[1:]:
        np.testing.assert_allclose(other.info["facts"]["restarts"], actual[0].info["facts"]["restarts"], rtol=1e-10)
        assert other.info["facts"]["evaluations"] == actual[0].info["facts"]["evaluations"]
        for name, value in actual[0].tree["point"].data_vars.items():
            np.testing.assert_allclose(other.tree["point"][name], value, atol=1e-8)


class HalfClosed(OwnCoin):
    """Its M step gives one of its sites, the other is left to gradients."""

    def m_step(self, responsibility, data, parameters):
        counts = 1 + responsibility.sum(-2)
        return {"prevalence": counts / counts.sum(-1, keepdim=True)}


class Correlated(AnnotationModel):
    """A site of fewer axes in its unbounded form: the factor of a correlation matrix."""

    def prior(self, data, plates):
        prevalence = pyro.sample("prevalence", Dirichlet(2 * torch.ones(data.K)))
        return {"prevalence": prevalence, "factor": pyro.sample("factor", LKJCholesky(data.K, 2.0))}

    def truth(self, parameters, data):
        return Categorical(parameters["prevalence"])

    def confusion(self, parameters, data):
        logits = 2 * torch.eye(3) + parameters["factor"].unsqueeze(-3)
        return logits.softmax(-1).expand(*logits.shape[:-3], 6, 3, 3)

    def emission(self, parameters, data):
        return Categorical(self.confusion(parameters, data)[data.worker])

    def m_step(self, responsibility, data, parameters):
        counts = 1 + responsibility.sum(-2)
        share = counts / counts.sum(-1, keepdim=True)
        weight = 0.3 * share[..., :1, None]
        return {"prevalence": share, "factor": torch.linalg.cholesky(torch.eye(3) * (1 - weight) + weight)}


@pytest.mark.parametrize("model", [HalfClosed(), Correlated()], ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("restarts", [1, 2, 3])
def test_restarts_of_models_of_ones_own(model, restarts, monkeypatch):
    data = tiny(4, items=30, workers=6)
    options = {"method": "em", "restarts": restarts, "num_samples": 2, "max_iter": 12}
    together = _quiet(data, model, **options).info["facts"]
    monkeypatch.setattr(crowdppl.inference.memory, "WORK_BYTES", 1)
    assert together["restarts"] == pytest.approx(_quiet(data, model, **options).info["facts"]["restarts"], rel=1e-10)


class Fixed(AnnotationModel):
    """Nothing is unknown but the truth."""

    def prior(self, data, plates):
        return {}

    def truth(self, parameters, data):
        return Categorical(torch.full((data.K,), 1 / data.K))

    def confusion(self, parameters, data):
        return (2 * torch.eye(3)).softmax(-1).expand(6, 3, 3)

    def emission(self, parameters, data):
        return Categorical(self.confusion(parameters, data)[data.worker])

    def m_step(self, responsibility, data, parameters):
        return {}

    def gibbs_step(self, truth, parameters, data):
        return {}


@pytest.mark.parametrize("method", ["em", "gibbs"])
def test_a_model_without_parameters(method):
    """The truth's probabilities are those of counting votes."""
    data = tiny(4, items=30, workers=6)
    posterior = _quiet(data, Fixed(), method=method, num_samples=2, independent=True)
    wanted = (data.votes @ (2 * torch.eye(3, dtype=torch.float64)).log_softmax(-1)).softmax(-1)
    np.testing.assert_allclose(posterior.probability(), wanted, atol=1e-12)


def test_most_models_climb_side_by_side():
    assert {type(case.model).__name__ for case in SIDE_BY_SIDE} >= {"DawidSkene", "OneCoin", "Pooled"}


def _quiet(*args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        return fit(*args, **options)


def test_a_better_mode_is_told():
    """Where the majority's own end is not the best, a warning says so: flat priors, few annotations."""
    data = tiny(0, items=12)
    with pytest.warns(CrowdpplWarning, match="several modes"):
        facts = fit(data, FLAT, method="em", restarts=8, num_samples=2).info["facts"]
    assert max(facts["restarts"]) > facts["restarts"][0] + 1e-3


def test_no_convergence_is_told(anaesthesia):
    with pytest.warns(CrowdpplWarning, match="raise max_iter"):
        posterior = fit(anaesthesia, FLAT, method="em", max_iter=3, num_samples=2)
    assert not posterior.info["facts"]["converged"]
    assert "raise max_iter" in " ".join(posterior.warnings)


def test_truth_is_that_of_the_point(anaesthesia):
    """The truth's probabilities are those at the mode, not averages over the draws that serve the intervals."""
    few, many = (
        fit(anaesthesia, "dawid-skene", method="em", num_samples=n, seed=n).tree["truth"]["probability"].values
        for n in (2, 200)
    )
    np.testing.assert_array_equal(few, many)


@pytest.mark.parametrize("model", [DawidSkene(), OwnCoin()], ids=lambda m: type(m).__name__)
def test_as_many_draws_as_items(model):
    """Draws of the prevalence are those of the site, one by one, also if their number is that of the items."""
    data = simulated(items=40)[0]
    posterior = quiet_fit(data, model, method="em", num_samples=data.N)
    prevalence = posterior.tree["posterior"]["prevalence"].values[0]  # (draws, classes)
    assert len(np.unique(prevalence, axis=0)) == data.N
    np.testing.assert_allclose(prevalence.sum(-1), 1)


def test_known_truths_clamp_and_help():
    """An adversarial majority: three of five workers permute the labels; a few known truths put it right."""
    good, bad = 0.8 * np.eye(2) + 0.1, 0.8 * np.eye(2)[::-1] + 0.1
    data, truth, _ = simulated(
        items=200, workers=5, per_item=5, classes=2, parameters={"confusion": [good, good, bad, bad, bad]}
    )
    lost = _quiet(data, method="em").truth()["label"].to_numpy()
    assert (lost == truth).mean() < 0.2
    columns = (data.items[data.item], data.workers[data.worker], data.labels[data.label])
    caught = crowdppl.Annotations.from_arrays(*columns, labels=range(2), truth={i: int(truth[i]) for i in range(60)})
    for method in ("em", "gibbs"):
        actual = _quiet(caught, method=method, seed=1).truth()["label"].to_numpy()
        assert (actual[:60] == truth[:60]).all()
        assert (actual == truth).mean() > 0.85


@pytest.mark.parametrize("seed", range(3))
def test_majority_vote_is_majority_vote(seed):
    """The model's decisions are those of counting votes, ties split evenly, and its probabilities grow with votes."""
    data, _, _ = simulated(items=200, seed=seed, per_item=4, classes=3)
    for method in ("em", "gibbs"):
        probability = _quiet(data, MajorityVote(), method=method, seed=seed).tree["truth"]["probability"].values
        votes = data.votes.numpy()
        np.testing.assert_array_equal(
            np.isclose(probability, probability.max(-1, keepdims=True)), votes == votes.max(-1, keepdims=True)
        )


def test_majority_vote_learns_how_sure_to_be():
    """Its confidence is its accuracy, within .03, when the crowd is as the story says (2,000 items: sd .008)."""
    for knowledge in (0.3, 0.7):
        data, truth, _ = simulated(
            items=2000, workers=50, per_item=5, model=MajorityVote(), parameters={"knowledge": knowledge}
        )
        table = fit(data, "majority-vote", method="em", num_samples=10).truth()
        assert (table["label"] == truth).mean() == pytest.approx(table["probability"].mean(), abs=0.03)


def test_default_prior_keeps_sparse_data_from_collapse():
    """3 annotations an item, 20 a worker: unsmoothed Dawid-Skene loses to majority vote and is sure of it; ours does not.

    Ten simulated sets of 1,000 items, accuracies within .01 of their mean (3 standard errors).
    """
    gap, ours, majority = [], [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        truth = rng.integers(0, 3, 1000)
        item = np.repeat(np.arange(1000), 3)
        worker = np.concatenate([rng.choice(150, 3, replace=False) for _ in range(1000)])
        right = rng.random(3000) < rng.uniform(0.55, 0.95, 150)[worker]
        label = np.where(right, truth[item], (truth[item] + rng.integers(1, 3, 3000)) % 3)
        data = crowdppl.Annotations.from_arrays(item, worker, label)
        table = fit(data, "dawid-skene", method="em", num_samples=2).truth()
        ours.append((table["label"] == truth).mean())
        gap.append(table["probability"].mean() - ours[-1])
        votes = data.votes.numpy()
        top = votes == votes.max(-1, keepdims=True)
        majority.append((top[np.arange(1000), truth] / top.sum(-1)).mean())
    assert np.mean(ours) > np.mean(majority) - 0.005
    assert abs(np.mean(gap)) < 0.07


def test_float32_is_near_float64(anaesthesia):
    double = fit(anaesthesia, "dawid-skene", method="em", num_samples=2)
    single = fit(anaesthesia.to(dtype=torch.float32), "dawid-skene", method="em", num_samples=2, tol=1e-6)
    assert single.info["dtype"] == "float32"
    assert all(kind == np.float32 for kind in single.truth().dtypes.iloc[2:])
    np.testing.assert_allclose(single.tree["truth"]["probability"], double.tree["truth"]["probability"], atol=2e-3)


def test_a_users_m_step_may_be_simple():
    """A closed M step of two arguments, without the memory to write over, is taken as it is."""
    import pyro
    from pyro.distributions import Beta, Categorical

    class OneAccuracy(crowdppl.AnnotationModel):
        def prior(self, data, plates):
            return {"accuracy": pyro.sample("accuracy", Beta(2.0, 2.0))}

        def truth(self, parameters, data):
            return Categorical(logits=torch.zeros(data.K))

        def emission(self, parameters, data):
            p = parameters["accuracy"]
            table = torch.full((data.K, data.K), 1.0) * (1 - p) / (data.K - 1)
            return Categorical((table + torch.eye(data.K) * (p - table[0, 0])).expand(data.A, -1, -1))

        def m_step(self, responsibility, data, parameters):
            right = (responsibility * data.votes).sum()
            return {"accuracy": (right + 1) / (data.A + 2)}

    class ByGradient(OneAccuracy):
        m_step = crowdppl.AnnotationModel.m_step

    data, _, _ = simulated(items=80)
    closed, gradient = (quiet_fit(data, model, method="em", num_samples=5) for model in (OneAccuracy(), ByGradient()))
    assert float(closed.tree["point"]["accuracy"]) == pytest.approx(float(gradient.tree["point"]["accuracy"]), abs=1e-4)


@pytest.mark.slow
def test_networks_stop_where_the_way_has_not_risen():
    """Ten steps after the last gain beyond the tolerance, by the trace itself; fine-tuning is looked at every hundred steps."""
    case = next(c for c in CASES if c.name == "raykar-network")
    data, _, _ = simulated(items=60, seed=1)
    options = {"method": "em", "tol": 1e-3, "steps": 5, "num_samples": 2}
    plain = _quiet(data, case.model, max_iter=200, **options)
    trace = plain.tree["sample_stats"]["log_posterior"].values
    mark, marked, stop = trace[0], 0, None
    for n in range(1, len(trace)):
        if trace[n] > mark + 1e-3 * abs(trace[n]):
            mark, marked = trace[n], n
        elif n - marked >= 10:
            stop = n
            break
    assert stop == len(trace) - 1
    assert plain.info["facts"]["converged"]
    assert plain.info["facts"]["log_posterior"] == trace.max()
    tuned = _quiet(data, case.model, max_iter=200, fine_tune=250, **options)
    longer = tuned.tree["sample_stats"]["log_posterior"].values
    np.testing.assert_array_equal(longer[: len(trace)], trace)
    assert len(longer) == len(trace) + 3
    steps = []
    _quiet(data, case.model, max_iter=200, progress=lambda step, of, what: steps.append((step, of)), **options)
    assert steps == [(n, 200) for n in range(1, len(trace))]


class Reads(TorchDispatchMode):
    """Count how often a number is read off a tensor, which on a GPU waits for all work before it."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, kinds, args=(), kwargs=None):
        self.count += function in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("model", ["dawid-skene", "one-coin", "class-conditional", "item-subtypes"])
@pytest.mark.parametrize("method", ["em", "gibbs"])
def test_nothing_is_read_inside_a_step_where_that_waits(model, method, monkeypatch):
    """As on a GPU: EM brings its objective over by one read of both parts, which is not counted; a Gibbs sweep brings none."""
    monkeypatch.setattr(ops, "synchronises", lambda values: True)
    rng = np.random.default_rng(0)
    item, worker = np.divmod(np.arange(400), 20)
    label = rng.integers(0, 3, 400)
    counts = []
    for steps in (2, 5, 25):  # the first fills what is kept from one fit to the next
        data = Annotations.from_arrays(item, worker, label, labels=range(3))
        options = (
            {"max_iter": steps, "tol": 0.0, "restarts": 2}
            if method == "em"
            else {"warmup": 0, "num_samples": steps, "chains": 2}
        )
        chosen = ItemSubtypes(subtype_concentration=1.0) if model == "item-subtypes" else named_model(model)
        with Reads() as reads, isolated(0), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ENGINES[method](bind(chosen, data), data, completed(method, options))
        counts.append(reads.count)
    assert counts[1] == counts[2]


@pytest.mark.parametrize("case", [c for c in CASES if "em" in c.methods and c.rises], ids=lambda c: c.name)
def test_a_leap_is_squarem_and_leaves_the_points_alone(case):
    """Scheme 3 of Varadhan and Roland (2008), written down plainly; what leaves the simplex is halved from the third point."""
    data, _, _ = simulated(items=60, seed=2, classes=case.classes)
    with isolated(3), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = bind(case.model, data)
        data = model.expand(data)
        space = Space(check(model, data), discrete=True)
        ends = [dict(space.values(torch.randn(space.size, dtype=data.dtype))) for _ in range(2)]
        # Three points in a row, the second step four tenths of the first: the extrapolation is long.
        ends.append({n: torch.lerp(ends[0][n], ends[1][n], 1.4) for n in space.sizes})
        if not all(is_simplex(space.supports[n]) for n in space.sizes):
            ends[2] = dict(space.values(torch.randn(space.size, dtype=data.dtype)))
        kept = [{n: v.clone() for n, v in end.items()} for end in ends]
        far = extrapolate(space, *ends)
        free = [{n: coordinates(space, n, end[n]) for n in space.sizes} for end in kept]
    for end, before in zip(ends, kept, strict=True):
        for name in space.sizes:
            assert torch.equal(end[name], before[name])
            assert far[name].data_ptr() != end[name].data_ptr()
    moving = [n for n in space.sizes if not space.supports[n].is_discrete]
    step = {n: free[1][n] - free[0][n] for n in moving}
    bend = {n: free[2][n] - free[1][n] - step[n] for n in moving}
    straight, bent = (sum(float((v**2).sum()) for v in part.values()) for part in (step, bend))
    length = (straight / bent) ** 0.5
    for name in space.sizes:
        if length <= 1 or name not in moving:
            wanted = ends[2][name]
        else:
            wanted = free[0][name] + 2 * length * step[name] + length**2 * bend[name]
            if is_simplex(space.supports[name]):
                wanted = torch.where(wanted < 0, ends[2][name] / 2, wanted)
                wanted = wanted / wanted.sum(-1, keepdim=True)
            else:
                wanted = space.transforms[name](wanted)
        torch.testing.assert_close(far[name], wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("lead", [(), (3,)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_way_that_asks_nothing_comes_to_the_same(lead, dtype, monkeypatch):
    """Impossible labels and rows without a count, as on a GPU, where no number is read to find them."""
    rng = np.random.default_rng(1)
    item, worker = np.divmod(np.arange(300), 10)
    data = Annotations.from_arrays(item, worker, rng.integers(0, 3, 300), labels=range(3)).to(dtype=dtype)
    assert data.counts.dense
    table = torch.from_numpy(rng.dirichlet([0.5] * 3, (*lead, data.J, 3))).to(dtype)
    table[torch.from_numpy(rng.random(table.shape) < 0.06)] = 0.0
    counts = torch.from_numpy(rng.integers(0, 2, (*lead, data.J, 3, 3))).to(dtype)
    assert bool((counts.sum(-1) == 0).any())

    def both() -> tuple[torch.Tensor, torch.Tensor]:
        return data.counts.log_likelihoods(table.log()), ops.label_shares(counts.clone())

    asked = both()
    assert 0.0 < asked[0].isinf().float().mean() < 1.0
    monkeypatch.setattr(ops, "synchronises", lambda values: True)
    for one, other in zip(asked, both(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5 if dtype == torch.float32 else 1e-12, atol=0.0)


class ScaleOfWorkers(AnnotationModel):
    """Worker effects with a common scale, whose joint mode is 0."""

    def prior(self, data, plates):
        scale = pyro.sample("scale", HalfNormal(torch.tensor(0.5)))
        mean = pyro.sample("mean", Normal(1.0, 1.0))
        with plates.worker:
            effect = pyro.sample("effect", Normal(torch.zeros(()), scale))
        return {"scale": scale, "mean": mean, "effect": effect}

    def truth(self, parameters, data):
        return Categorical(torch.ones(data.K))

    def emission(self, parameters, data):
        logit = (parameters["mean"] + parameters["effect"])[data.worker]
        return Categorical(logits=logit[:, None, None] * torch.eye(data.K))


def test_a_scale_at_its_boundary_has_no_intervals():
    """The joint mode of a scale and its effects is 0: no normal approximation, and the sentence names the site."""
    data = simulated(items=60, workers=10, per_item=4, classes=2, seed=1, features=False)[0]
    posterior = quiet_fit(data, ScaleOfWorkers())
    assert posterior.kind == "point"
    assert "the mode of 'scale' is at a boundary" in posterior.interval_method
    assert posterior.interval_method in posterior.warnings
