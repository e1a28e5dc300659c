"""Twelve models of users, by every engine that suits them, against densities by numpy that share nothing with the library."""

import arviz_stats
import numpy as np
import pytest
import torch
from catalog import SHORT, quiet_fit
from scipy.special import logsumexp, softmax
from user_densities import Design, log_density, log_joint
from user_models import USER_MODELS

import crowdppl

# Each model has half of its engines among the fast tests; of models without closed forms, Gibbs sampling of two only.
FEW = ("CopyingPair", "SharedPopulations")
EACH = [
    pytest.param(
        user,
        method,
        id=f"{user.name}-{method}",
        marks=[pytest.mark.slow] if (n + m) % 2 or (method == "gibbs" and user.name not in FEW) else [],
    )
    for n, user in enumerate(USER_MODELS)
    for m, method in enumerate(user.methods)
]
MODELS = [pytest.param(user, id=user.name) for user in USER_MODELS]
# Sites whose values have no bounds, are positive, or are between 0 and 1; of the others only densities are compared.
REAL = ("ability", "difficulty", "intercept", "slope", "effect", "skill", "step", "severity")
POSITIVE = ("discrimination", "sigma", "pace")
UNIT = ("coarse", "fine", "copies", "spam", "knows", "accuracy", "careful")


def coordinates(user, name, value):
    """Return unbounded coordinates of a site's value, their inverse, and the log of its derivative; ``None`` for none."""
    if name in POSITIVE or (name == "difficulty" and user.name == "SkillAndDifficulty"):
        return np.log(value), np.exp, lambda u: u
    if name in UNIT:
        return np.log(value / (1 - value)), lambda u: 1 / (1 + np.exp(-u)), lambda u: -u - 2 * np.log1p(np.exp(-u))
    return (value, lambda u: u, lambda u: 0.0 * u) if name in REAL else None


def sites_of(user, posterior, data):
    """Return values of all sites, ``(chain, draw, ...)``; weights of networks are a point where an engine takes them so."""
    parameters = crowdppl.pyro_program(user.model, data).sites
    draws = posterior.tree["posterior"]
    out = {name: draws[name].values for name in parameters if name in draws}
    if "classifier.weights" in parameters and "classifier.weights" not in out:
        order = [f"classifier.{layer}.{kind}" for layer in (0, 2) for kind in ("weight", "bias")]
        weights = torch.cat([posterior.networks[name].flatten() for name in order]).numpy()
        out["classifier.weights"] = np.broadcast_to(weights, (*draws["prevalence"].shape[:2], len(weights)))
    return out


@pytest.mark.parametrize("user", MODELS)
def test_contract(user):
    crowdppl.check_contract(user.model, user.crowd())


@pytest.mark.parametrize(("user", "method"), EACH)
def test_density_of_every_draw(user, method):
    """The log posterior density, the likelihood of every item, and the probabilities of its classes."""
    data = user.crowd()
    posterior = quiet_fit(data, user.model, method=method, seed=1, **SHORT[method])
    values, d = sites_of(user, posterior, data), Design.of(data)
    tree = posterior.tree
    mean = np.zeros((d.N, d.K))
    shape = tree["sample_stats"]["lp"].shape
    for chain, draw in np.ndindex(*shape):
        one = {name: np.asarray(value[chain, draw], dtype=float) for name, value in values.items()}
        prior, joint = log_joint(user.name, one, d)
        likelihood = logsumexp(joint, axis=1)
        np.testing.assert_allclose(tree["log_likelihood"]["labels"].values[chain, draw], likelihood, atol=1e-8)
        assert tree["sample_stats"]["lp"].values[chain, draw] == pytest.approx(prior + likelihood.sum(), abs=1e-7)
        mean += softmax(joint, axis=1).reshape(d.N, d.K, -1).sum(2) / np.prod(shape)
    probability = tree["truth"]["probability"].values
    if method != "em":
        np.testing.assert_allclose(probability, mean, atol=1e-8)
        return
    at_point = {name: np.asarray(value, dtype=float) for name, value in tree["point"].data_vars.items()}
    at_point |= {name: value[0, 0] for name, value in values.items() if name not in at_point}
    joint = log_joint(user.name, at_point, d)[1]
    np.testing.assert_allclose(probability, softmax(joint, axis=1).reshape(d.N, d.K, -1).sum(2), atol=1e-8)


# EM's point of the regression has a scale of 0, and that of shared populations probabilities of 0.
INSIDE = [
    pytest.param(*p.values, id=p.id, marks=[pytest.mark.slow] * (p.id in ("OrderedThresholds", "Sessions")))
    for p in MODELS
    if p.id not in ("Experience", "SharedPopulations", "NetworkForTheTruth")
]


@pytest.mark.parametrize("user", INSIDE)
def test_the_point_of_em_is_a_mode(user):
    """By differences of the density: along every number without bounds, a Newton step would gain less than a thousandth."""
    data = user.crowd()
    posterior = quiet_fit(data, user.model, method="em", seed=1, num_samples=2, tol=1e-10, max_iter=2000)
    point = {name: np.asarray(value, dtype=float) for name, value in posterior.tree["point"].data_vars.items()}
    d, h, tried = Design.of(data), 1e-4, 0
    at = log_density(user.name, point, d)
    for name, value in point.items():
        given = coordinates(user, name, value)
        if given is None:
            continue
        u, back, _ = given
        for place in np.ndindex(*value.shape):
            step = np.zeros(value.shape)
            step[place] = h
            up, down = (log_density(user.name, point | {name: back(u + s * step)}, d) for s in (1, -1))
            slope, curvature = (up - down) / (2 * h), -(up - 2 * at + down) / h**2
            assert slope**2 / (2 * max(curvature, 0.01)) < 1e-3, (name, place, slope, curvature)
            tried += 1
    assert tried


@pytest.mark.slow
@pytest.mark.parametrize(
    ("user", "method"),
    [
        pytest.param(*p.values, method, id=f"{p.id}-{method}", marks=[pytest.mark.longest] * ((n + m) % 2))
        for n, p in enumerate(p for p in MODELS if p.id != "SharedPopulations")
        for m, method in enumerate(("gibbs", "nuts"))
    ],
)
def test_draws_are_from_the_posterior(user, method):
    """Stein's identities, for any density p of a number u without bounds: E[d log p / du] = 0 and E[(u - c) d log p / du] = -1.

    The density is that by numpy, with the derivative of the values by u; the draws are those of a chain that follows gradients.
    Each average is within 6 standard errors, and what the mean ``c`` of few independent draws adds: short chains are rough. Each
    model has one of the engines among the slow tests and the other at night.
    """
    data = user.crowd(items=8, workers=4, per_item=3)
    options = {"chains": 1, "warmup": 150, "num_samples": 200}
    posterior = quiet_fit(data, user.model, method=method, seed=2, **options)
    d, h = Design.of(data), 1e-4
    chosen = {name: np.asarray(value, dtype=float) for name, value in sites_of(user, posterior, data).items()}
    compared = 0
    for name, value in chosen.items():
        given = coordinates(user, name, value)
        if given is None:
            continue
        u, back, log_slope = given
        slopes = np.empty(u.shape)
        for place in np.ndindex(*u.shape[2:]):
            step = np.zeros(u.shape[2:])
            step[place] = h
            for chain, draw in np.ndindex(*u.shape[:2]):
                one = {site: part[chain, draw] for site, part in chosen.items()}
                up, down = (
                    log_density(user.name, one | {name: back(u[chain, draw] + s * step)}, d)
                    + log_slope(u[chain, draw][place] + s * h)
                    for s in (1, -1)
                )
                slopes[(chain, draw, *place)] = (up - down) / (2 * h)
            where = (slice(None), slice(None), *place)
            centred = u[where] - u[where].mean()
            rough = 0.02 + 3 / float(arviz_stats.ess(u[where]))
            for average, expected in ((slopes[where], 0.0), (centred * slopes[where], -1.0)):
                size = min(float(arviz_stats.ess(average)), average.size)
                error = average.std(ddof=1) / np.sqrt(size)
                assert abs(average.mean() - expected) < 6 * error + rough, (name, place, average.mean(), error)
                compared += 1
    assert compared


@pytest.mark.slow
def test_gibbs_and_nuts_agree():
    """Shared populations, whose draws are by conjugate counts: means within 4 standard errors of both."""
    user = next(user for user in USER_MODELS if user.name == "SharedPopulations")
    data = user.crowd(items=20)
    gibbs = quiet_fit(data, user.model, method="gibbs", seed=1, chains=2, warmup=300, num_samples=3000)
    nuts = quiet_fit(data, user.model, method="nuts", seed=1, chains=2, warmup=200, num_samples=300)
    for name in ("prevalence", "shared"):
        one, other = (posterior.tree["posterior"][name] for posterior in (gibbs, nuts))
        error = np.sqrt(
            sum(arviz_stats.mcse(part.to_dataset(name=name), method="mean")[name] ** 2 for part in (one, other))
        )
        assert (abs(one.mean(("chain", "draw")) - other.mean(("chain", "draw"))) < 4 * error + 1e-3).all()
