"""Gibbs sampling of models whose sites have no conditional in closed form: by trajectories along gradients."""

from itertools import product

import numpy as np
import pyro
import pytest
import scipy.stats
import torch
from catalog import SHORT, Stop, quiet_fit, stopping, tiny
from pyro.distributions import Bernoulli, Categorical, Dirichlet, Normal
from user_models import USER_MODELS, Experience

import crowdppl
from crowdppl import ModelError
from crowdppl.inference.backends import gradients
from crowdppl.inference.backends.batching import batched
from crowdppl.inference.backends.hamiltonian import Tuning
from crowdppl.isolation import isolated
from crowdppl.model.bound import bind


class OneSkill(crowdppl.AnnotationModel):
    """All workers have one skill; with counts, the prevalence has a conditional in closed form."""

    def prior(self, data, plates):
        prevalence = pyro.sample("prevalence", Dirichlet(2 * torch.ones(data.K)))
        return {"prevalence": prevalence, "skill": pyro.sample("skill", Normal(2.0, 0.7))}

    def truth(self, parameters, data):
        return Categorical(parameters["prevalence"])

    def emission(self, parameters, data):
        correct = torch.sigmoid(parameters["skill"])
        table = correct * torch.eye(2) + (1 - correct) * (1 - torch.eye(2))
        return Categorical(table.expand(data.A, 2, 2))


class PartlyCounted(OneSkill):
    def confusion(self, parameters, data):
        correct = torch.sigmoid(parameters["skill"])[..., None, None, None]
        return (correct * torch.eye(2) + (1 - correct) * (1 - torch.eye(2))).expand(*correct.shape[:-3], data.J, 2, 2)

    def conjugate_counts(self, statistics, data):
        return {"prevalence": statistics.item_counts}


def by_integration(data):
    """Means of prevalence, skill and class probabilities, by sums over a grid and over the two classes of every item."""
    share = (np.arange(400) + 0.5) / 400
    skill = np.linspace(-3, 7, 601)
    p, s = share[:, None], skill[None, :]
    right, wrong = 1 / (1 + np.exp(-s)), 1 / (1 + np.exp(s))
    log = np.log(p * (1 - p)) - ((s - 2) / 0.7) ** 2 / 2
    first = []
    for i in range(data.N):
        labels = data.label[data.item == i].numpy()
        ones = (labels == 1).sum()
        zeros = len(labels) - ones
        a, b = p * right**zeros * wrong**ones, (1 - p) * wrong**zeros * right**ones
        log, first = log + np.log(a + b), [*first, a / (a + b)]
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    return (weight * p).sum(), (weight * s).sum(), np.array([(weight * each).sum() for each in first])


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(OneSkill(), id="OneSkill", marks=pytest.mark.slow),
        pytest.param(PartlyCounted(), id="PartlyCounted"),
    ],
)
def test_posterior_by_integration(model):
    """Means from some 1,000 effective draws: errors of .02 in the skill, .005 in probabilities; bounds are four times that."""
    data = tiny(1, items=6, workers=3, classes=2)
    posterior = quiet_fit(data, model, method="gibbs", seed=1, chains=4, warmup=150, num_samples=400, independent=True)
    share, skill, first = by_integration(data)
    assert posterior.info["backend"] == "gradients"
    assert posterior.tree["posterior"]["skill"].values.mean() == pytest.approx(skill, abs=0.08)
    assert posterior.tree["posterior"]["prevalence"].values[..., 0].mean() == pytest.approx(share, abs=0.02)
    np.testing.assert_allclose(posterior.tree["truth"]["probability"][:, 0], first, atol=0.02)
    assert posterior.info["facts"]["divergences"] == 0
    assert 0.7 < posterior.info["facts"]["acceptance"] < 0.99


def test_a_trajectory_leaves_the_target_as_it_is():
    """4,000 draws from a target stay draws from it; two Kolmogorov-Smirnov tests at 1e-4: a false alarm in 5,000 runs.

    The logarithm of a gamma variable, and a normal one whose mean it is: skewed, correlated, with a step at which a fifth of the
    trajectories are refused. Without refusals both are below 1e-6.
    """
    shape = 2.0

    def density(place):
        u, v = place.unbind(-1)
        return shape * u - u.exp() - (v - u).square() / 2

    def target(place):
        with torch.enable_grad():
            place = place.detach().requires_grad_()
            value = density(place)
            return value.detach(), torch.autograd.grad(value.sum(), place)[0]

    with isolated(0):
        u = torch.distributions.Gamma(torch.tensor(shape), 1.0).sample((4000,)).log()
        tuning = Tuning.at(torch.stack([u, u + torch.randn_like(u)], -1), target)
        tuning.log_average, tuning.scale = np.log(0.7), torch.tensor([1.0, 1.3], dtype=u.dtype)
        for _ in range(10):
            tuning.transition(target, None)
    assert 0.4 < tuning.accepted / tuning.transitions < 0.9
    u, v = tuning.place.numpy().T
    assert scipy.stats.kstest(np.exp(u), scipy.stats.gamma(shape).cdf).pvalue > 1e-4
    assert scipy.stats.kstest(v - u, scipy.stats.norm.cdf).pvalue > 1e-4


@pytest.mark.parametrize(("after", "many"), [(4, 10**6), (12, 10**6), pytest.param(12, 0, marks=pytest.mark.slow)])
def test_a_stopped_fit_goes_on_to_the_same_bits(monkeypatch, tmp_path, after, many):
    """In the warm-up and after it; with operations that are recorded anew."""
    monkeypatch.setattr(gradients, "MANY", many)
    options = {"method": "gibbs", "seed": 7, "chains": 2, "warmup": 10, "num_samples": 6}
    data, model = tiny(1, classes=2), PartlyCounted()
    whole = quiet_fit(data, model, **options)
    with stopping(after), pytest.raises(Stop):
        quiet_fit(data, model, checkpoint=(tmp_path, 0.0), **options)
    resumed = quiet_fit(data, model, checkpoint=(tmp_path, 1000.0), **options)
    for group in ("posterior", "truth", "sample_stats"):
        for key, value in whole.tree[group].data_vars.items():
            np.testing.assert_array_equal(resumed.tree[group][key].values, value.values, err_msg=key)
    assert whole.info["facts"] == resumed.info["facts"]


class Raised(OneSkill):
    """The prior of the skill depends on the prevalence, which then has no conditional by counts."""

    def prior(self, data, plates):
        prevalence = pyro.sample("prevalence", Dirichlet(2 * torch.ones(data.K)))
        return {"prevalence": prevalence, "skill": pyro.sample("skill", Normal(prevalence[..., 0], 1.0))}

    confusion, conjugate_counts = PartlyCounted.confusion, PartlyCounted.conjugate_counts


class Correlated(OneSkill):
    """A correlation without a constraint, whose matrix has no Cholesky factor from one on: the density fails there."""

    def prior(self, data, plates):
        out = super().prior(data, plates)
        out["x"] = pyro.sample("x", Normal(0.0, 0.35))
        one = torch.ones(())
        factor = torch.linalg.cholesky(torch.stack([one, out["x"], out["x"], one]).view(2, 2))
        return out | {"skill": out["skill"] * factor[1, 1]}


@pytest.mark.slow
@pytest.mark.parametrize("many", [10**6, 1])
def test_a_density_that_fails_far_out_ends_no_chain(monkeypatch, many):
    monkeypatch.setattr(gradients, "MANY", many)
    posterior = quiet_fit(tiny(1, classes=2), Correlated(), method="gibbs", chains=2, warmup=60, num_samples=60, seed=0)
    x = posterior.draws("x")
    assert np.abs(x).max() < 1
    assert x.std() > 0.1


def test_a_start_where_the_density_is_not_finite_is_refused(monkeypatch):
    monkeypatch.setattr(
        gradients.GradientSampler, "_density", lambda self, place, *drawn: (-torch.inf * place[0], place)
    )
    monkeypatch.setattr(gradients, "batched", lambda *args, **options: lambda place, *drawn: place.new_zeros("none"))
    with pytest.raises(ModelError, match="is not finite, or fails, where a chain starts; check the model"):
        quiet_fit(tiny(1, classes=2), OneSkill(), method="gibbs", chains=1, warmup=5, num_samples=5)


@pytest.mark.slow
def test_step_sizes_stay_finite_where_nothing_is_accepted():
    with isolated(0):
        tuning = Tuning.at(
            torch.zeros(2, 1), lambda place: (torch.where(place == 0, 0.0, -torch.inf).sum(-1), place * torch.nan)
        )
        for n in range(1500):
            tuning.transition(
                lambda place: (torch.where(place == 0, 0.0, -torch.inf).sum(-1), place * torch.nan), (n, 2000)
            )
    assert np.isfinite(tuning.log_step)
    assert not tuning.place.any()


def test_which_sites_have_conditionals():
    data = tiny(1, classes=2)
    for model, sites in ((OneSkill(), set()), (PartlyCounted(), {"prevalence"}), (Raised(), set())):
        with isolated(0, dtype=data.dtype):
            assert bind(model, data).sites_with_conditionals(data) == sites, type(model).__name__


class Switch(OneSkill):
    """A discrete site, which EM has a step for."""

    def prior(self, data, plates):
        return super().prior(data, plates) | {"switch": pyro.sample("switch", Bernoulli(0.5))}

    def m_step(self, responsibility, data, parameters):
        return {"switch": torch.ones(())}


def test_discrete_sites_are_refused():
    with pytest.raises(
        ModelError, match="Switch has a discrete site 'switch', which no gradient moves; write gibbs_step"
    ):
        quiet_fit(tiny(1, classes=2), Switch(), **SHORT["gibbs"], method="gibbs")


def test_functions_of_several_sets():
    """By recorded operations, mapped, or in turn where a function looks at values: the same numbers."""

    def plain(x, y):
        out = x.exp()
        out.add_(y.sum())
        return out.sum(), torch.func.grad(lambda z: (z * z.detach()).sum())(x)

    def looks(x, y):
        return (x if float(x.sum()) > 0 else -x), y

    rng = np.random.default_rng(0)
    first, other, third = ([torch.from_numpy(rng.normal(size=(3, n))) for n in (4, 2)] for _ in range(3))
    for function, compiled in product((plain, looks), (True, False)):
        got = batched(function, first, other, compiled=compiled)(*third)
        wanted = [torch.stack(parts) for parts in zip(*map(function, *third), strict=True)]
        for one, two in zip(got, wanted, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_a_hierarchy_until_convergence():
    """Without a number of draws the run goes on until shared parameters have converged, too."""
    user = next(user for user in USER_MODELS if isinstance(user.model, Experience))
    posterior = quiet_fit(user.crowd(), user.model, method="gibbs", seed=1, max_seconds=0.5)
    assert "shared" in posterior.info["facts"]["ess"]
    assert "Hamiltonian" in posterior.interval_method
