"""The weights of verdicts: against plain Python, quadrature, NUTS on the Pyro program, and simulation from the prior."""

import math

import numpy as np
import pandas as pd
import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import MCMC, NUTS, TraceEnum_ELBO
from scipy.optimize import minimize
from scipy.sparse import issparse
from scipy.stats import chisquare

from crowdppl.isolation import isolated
from crowdppl.judges import Verdicts, simulate
from crowdppl.judges.model import calibration, chains
from crowdppl.judges.model.agreement import association, attenuation, consensus_weights, covariance
from crowdppl.judges.model.calibration import PRIORS, calibrate, program
from crowdppl.judges.model.features import features_of
from crowdppl.judges.model.laplace import laplace
from crowdppl.judges.people import human_likelihood

NOT_PURE = chains.Pure(np.zeros(0, dtype=int), 0, 0.0)


def problem(seed, n=40, K=2, P=5):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, K, P))
    labels = rng.integers(0, K, n)
    return features, np.where(np.arange(K) == labels[:, None], 0.0, -np.inf), rng.uniform(0.5, 2, n), rng


def log_posterior(theta, features, log_human, weight, mean, precision):
    """The same in plain Python."""
    total = 0.0
    for i in range(len(features)):
        logits = [sum(f * t for f, t in zip(row, theta, strict=True)) for row in features[i]]
        top = sum(math.exp(x) for x in logits)
        likelihood = sum(math.exp(x) / top * math.exp(h) for x, h in zip(logits, log_human[i], strict=True))
        total += weight[i] * math.log(likelihood)
    return total - 0.5 * sum(p * (t - m) ** 2 for p, t, m in zip(precision, theta, mean, strict=True))


@pytest.mark.parametrize("soft", [False, True])
def test_the_mode_is_that_of_the_posterior_in_plain_python(soft):
    features, log_human, weight, rng = problem(0, K=3)
    if soft:
        log_human = np.log(rng.dirichlet(np.ones(3), len(features)))
    mean, precision = rng.normal(size=5), rng.uniform(0.5, 2, 5)
    fitted = laplace(features, log_human, weight, mean, precision, mean)
    mode, factor = fitted.theta, fitted.factor
    best = minimize(
        lambda theta: -log_posterior(theta, features, log_human, weight, mean, precision), mean, options={"gtol": 1e-9}
    )
    assert mode == pytest.approx(best.x, abs=1e-4)

    def value(theta):
        return log_posterior(theta, features, log_human, weight, mean, precision)

    h, eye = 1e-3, np.eye(5)
    hessian = [
        [
            (
                value(mode + h * (a + b))
                - value(mode + h * (a - b))
                - value(mode - h * (a - b))
                + value(mode - h * (a + b))
            )
            / (4 * h * h)
            for a in eye
        ]
        for b in eye
    ]
    assert factor @ factor.T == pytest.approx(-np.array(hessian), abs=1e-3)


@pytest.mark.parametrize("soft", [False, True])
def test_chains_have_the_likelihood_of_plain_python(soft):
    """Up to a constant, for human labels that exclude classes and for those that do not."""
    features, log_human, weight, rng = problem(2, K=3)
    if soft:
        log_human = np.log(rng.dirichlet(np.ones(3), len(features)))
    likelihood = chains.Likelihood(features, log_human, weight)
    theta = rng.normal(size=(2, 5))
    ours = likelihood(likelihood.rows @ theta.T)
    plain = [log_posterior(t, features, log_human, weight, np.zeros(5), np.zeros(5)) for t in theta]
    assert ours[1] - ours[0] == pytest.approx(plain[1] - plain[0], rel=1e-10)


def test_chains_forget_where_they_start():
    """From far away, the mean and covariance of one coefficient's posterior are those of quadrature.

    False-alarm rate below one in a thousand: 4,000 independent chains.
    """
    features, log_human, weight, _ = problem(3, n=12, P=1)
    prior = chains.Prior(np.array([1]), np.array([0.5]), np.array([0.0]), np.array([0.7]))
    mode = laplace(features, log_human, weight, np.array([0.5]), np.array([1.0]), np.array([0.5]))
    D = 4000
    theta, log_scale, _ = chains.run(
        chains.Target(chains.Likelihood(features, log_human, weight), prior, [mode], NOT_PURE),
        chains.Start(np.zeros(D, dtype=int), np.full((D, 1), 3.0), np.full((D, 1), 1.5), np.zeros((D, 0), dtype=bool)),
        rng=np.random.default_rng(0),
        sweeps=40,
    )
    x, s = np.meshgrid(np.linspace(-6, 8, 701), np.linspace(-4, 4, 401), indexing="ij")
    zero = np.zeros(1)
    of_x = np.array([log_posterior([t], features, log_human, weight, zero, zero) for t in x[:, 0]])
    log_p = of_x[:, None] - 0.5 * ((x - 0.5) / np.exp(s)) ** 2 - s - 0.5 * (s / 0.7) ** 2
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    for drawn, grid in ((theta[:, 0], x), (log_scale[:, 0], s)):
        mean = (p * grid).sum()
        sd = np.sqrt((p * (grid - mean) ** 2).sum())
        assert drawn.mean() == pytest.approx(mean, abs=4 * sd / np.sqrt(D))
        assert drawn.std() == pytest.approx(sd, rel=0.06)


def test_systems_of_one_class_are_mixed_in_with_their_probability():
    """The probability that a unit is pure, and the mean of a coefficient, are those of quadrature; 4 standard errors."""
    features, log_human, weight, _ = problem(3, n=12, P=1)
    features[:5, 1] = (
        features[:5, 0] + 0.4
    )  # against the labels, but not by much: chains pass from one state to the other
    weight = np.ones(12)
    unit = np.where(np.arange(12) < 5, 0, -1)
    log_human[:5] = [0.0, -np.inf]  # all of the first unit have the first class
    scale, odds = 0.8, -3.0
    prior = chains.Prior(np.array([1]), np.array([0.5]), np.array([np.log(scale)]), np.array([1e-6]))
    mode = laplace(features, log_human, weight, np.array([0.5]), np.array([scale**-2]), np.array([0.5]))
    D = 4000
    theta, _, pure = chains.run(
        chains.Target(chains.Likelihood(features, log_human, weight), prior, [mode], chains.Pure(unit, 1, odds)),
        chains.Start(
            np.zeros(D, dtype=int),
            np.full((D, 1), 2.0),
            np.full((D, 1), np.log(scale)),
            np.zeros((D, 1), dtype=bool),
        ),
        rng=np.random.default_rng(0),
        sweeps=60,
    )
    grid, zero = np.linspace(-5, 6, 2001), np.zeros(1)

    def density(rows):
        logs = [log_posterior([x], features[rows], log_human[rows], weight[rows], zero, zero) for x in grid]
        return np.exp(np.array(logs) - 0.5 * ((grid - 0.5) / scale) ** 2)

    mixed, rest = density(slice(None)), np.exp(odds) * density(slice(5, None))
    share = rest.sum() / (mixed + rest).sum()
    p = (mixed + rest) / (mixed + rest).sum()
    mean = (p * grid).sum()
    sd = np.sqrt((p * (grid - mean) ** 2).sum())
    assert 0.1 < share < 0.9
    assert pure.mean() == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / D))
    assert theta.mean() == pytest.approx(mean, abs=4 * sd / np.sqrt(D))
    assert theta.std() == pytest.approx(sd, rel=0.06)


@pytest.mark.parametrize("n", [3, 12])
def test_the_gaussian_of_chains(n):
    """Mean and covariance are those of the dense precision, with fewer labels than coefficients and with more."""
    features, log_human, weight, rng = problem(4, n=n, P=6)
    variance, mean = rng.uniform(0.3, 2, 6), rng.normal(size=6)
    mode = laplace(features, log_human, weight, mean, 1 / variance, mean)
    D = 20_000
    state = chains._Chains(
        chains.Target(
            chains.Likelihood(features, log_human, weight),
            chains.Prior(np.ones(6, dtype=int), mean, np.zeros(6), np.ones(6)),
            [mode],
            NOT_PURE,
        ),
        chains.Start(
            np.zeros(D, dtype=int),
            np.tile(mode.theta, (D, 1)),
            np.tile(0.5 * np.log(variance), (D, 1)),
            np.zeros((D, 0), dtype=bool),
        ),
    )
    middle, direction = state._gaussian(mode, np.tile(variance, (D, 1)), rng)
    assert middle[0] == pytest.approx(mode.theta, abs=1e-4)  # at its own scales the mean is the mode
    covariance = np.linalg.inv(mode.root.T @ mode.root + np.diag(1 / variance))
    assert np.cov(direction.T) == pytest.approx(covariance, abs=0.06)
    assert np.abs(direction.mean(0)).max() < 0.06


def test_few_chains_give_as_many_draws(small):
    """Where coefficients are too many for a chain for each draw, fewer chains give several draws each, of the same posterior."""
    of, items, log_human = small
    everything = of.rows(np.arange(of.shape[0]))
    likelihood = chains.Likelihood(of.rows(items), log_human, np.ones(30))
    assert chains.number_of_chains(likelihood, 1000) == 1000
    likelihood.rows = np.zeros((5000, 2000))
    assert chains.number_of_chains(likelihood, 1000) == chains.FEWEST
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chains, "number_of_chains", lambda likelihood, draws: 150)
        few = calibrate(of, items, log_human, np.ones(30), draws=4000, rng=np.random.default_rng(0))
    many = calibrate(of, items, log_human, np.ones(30), draws=4000, rng=np.random.default_rng(1))
    assert few.theta.shape == many.theta.shape
    a, b = (c.probability(everything)[1].mean(0) for c in (few, many))
    assert np.abs(a - b).max() < 0.05


def test_the_marginal_likelihood_is_that_of_quadrature():
    features, log_human, weight, _ = problem(1, n=60, P=1)
    mean, precision = np.array([0.3]), np.array([2.0])
    log_marginal = laplace(features, log_human, weight, mean, precision, mean).log_marginal
    grid = np.linspace(-3, 3, 2001)
    values = np.array([log_posterior([t], features, log_human, weight, mean, precision) for t in grid])
    exact = np.log(np.trapezoid(np.exp(values - values.max()), grid)) + values.max() - 0.5 * np.log(2 * np.pi)
    assert log_marginal + 0.5 * np.log(1.0) == pytest.approx(exact + 0.5 * np.log(precision[0]), abs=0.01)


@pytest.fixture(scope="module")
def small():
    frame, truth = simulate(items=40, rates=(0.7, 0.4), seed=3)
    v = Verdicts.from_frame(frame)
    codes = (truth["verdict"] == "pass").to_numpy().astype(int)
    items = np.random.default_rng(0).choice(len(codes), 30, replace=False)
    log_human = np.where(np.arange(2) == codes[items][:, None], 0.0, -np.inf)
    return features_of(v), items, log_human


def test_the_pyro_program_is_the_model(small):
    """The program scores scales, coefficients and labels as a plain transcription does."""
    of, items, log_human = small
    features = of.rows(items)
    with isolated(seed=0, device=torch.device("cpu"), dtype=torch.float64):
        human = np.where(np.isinf(log_human), -1e9, log_human)
        trace = poutine.trace(lambda: program(features, human, of.blocks)).get_trace()
        values = {name: site["value"] for name, site in trace.nodes.items() if site["type"] == "sample"}
        fixed = {name: value for name, value in values.items() if name != "truth" and not name.startswith("_")}
        fixed.pop("human", None)
        conditioned = poutine.condition(lambda: program(features, human, of.blocks), data=fixed)
        enumerated = -TraceEnum_ELBO(max_plate_nesting=1).loss(conditioned, lambda: None)
    total, theta = 0.0, []
    for block in of.blocks:
        prior, scale = PRIORS[block.name], float(fixed[f"scale_{block.name}"])
        z = fixed[block.name].numpy()
        total += -0.5 * ((math.log(scale) - math.log(prior.scale)) / prior.spread) ** 2
        total -= math.log(scale * prior.spread * math.sqrt(2 * math.pi))
        total += (-0.5 * z**2 - 0.5 * math.log(2 * math.pi)).sum()
        theta += (prior.mean + scale * z).tolist()
    zero = np.zeros(len(theta))
    total += log_posterior(theta, features, log_human, np.ones(len(items)), zero, zero)
    assert enumerated == pytest.approx(total, rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("length", [300, pytest.param(1000, marks=pytest.mark.longest)])
def test_the_posterior_is_that_of_nuts(small, length):
    """The probabilities of items agree with draws by NUTS, up to their error; Laplace's method alone differs by .08."""
    of, items, log_human = small
    ours = calibrate(of, items, log_human, np.ones(30), draws=4000, rng=np.random.default_rng(0))
    everything = of.rows(np.arange(of.shape[0]))
    expected = ours.probability(everything)[1]
    with isolated(seed=0, device=torch.device("cpu"), dtype=torch.float64):
        features, human = of.rows(items), np.where(np.isinf(log_human), -1e9, log_human)

        def marginal():
            theta = poutine.block(lambda: program(features, human, of.blocks), hide=["truth", "human"])()
            logits = torch.as_tensor(features) @ theta
            pyro.factor("labels", (logits.log_softmax(1).exp() * torch.as_tensor(np.exp(log_human))).sum(1).log().sum())
            pyro.deterministic("theta", theta)

        kernel = NUTS(marginal, target_accept_prob=0.9)
        chain = MCMC(kernel, num_samples=length, warmup_steps=min(length // 2, 300), disable_progbar=True)
        chain.run()
        samples = chain.get_samples()
        theta = torch.cat(
            [
                PRIORS[b.name].mean + samples[f"scale_{b.name}"][:, None] * samples[b.name].reshape(length, -1)
                for b in of.blocks
            ],
            1,
        ).numpy()
    logits = np.einsum("nkp,dp->dnk", everything, theta)
    reference = 1 / (1 + np.exp(logits[:, :, 0] - logits[:, :, 1]))
    assert np.abs(expected.mean(0) - reference.mean(0)).max() < 0.04
    assert np.abs(expected.mean(0) - reference.mean(0)).mean() < 0.01
    # The error of a standard deviation falls with the root of the number of draws.
    assert expected.mean(1).std() == pytest.approx(reference.mean(1).std(), rel=0.15 * (1000 / length) ** 0.5)


@pytest.mark.slow
def test_simulation_based_calibration(small):
    """Ranks of the mean probability of all items are uniform; false-alarm rate one in a thousand."""
    of, _, _ = small
    everything, blocks = of.rows(np.arange(of.shape[0])), of.blocks
    rng, ranks = np.random.default_rng(1), []
    for _ in range(200):
        theta = np.concatenate(
            [
                PRIORS[b.name].mean
                + PRIORS[b.name].scale
                * np.exp(PRIORS[b.name].spread * rng.standard_normal())
                * rng.standard_normal(b.size)
                for b in blocks
            ]
        )
        logits = everything @ theta
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        items = rng.choice(len(p), 25, replace=False)
        truth = (rng.random(len(p)) < p[:, 1]).astype(int)
        log_human = np.where(np.arange(2) == truth[items][:, None], 0.0, -np.inf)
        drawn = calibrate(of, items, log_human, np.ones(25), draws=99, rng=rng)
        ranks.append((drawn.probability(everything)[1].mean(1) < p[:, 1].mean()).sum())
    assert chisquare(np.histogram(ranks, 10, (0, 100))[0]).pvalue > 0.001


def test_without_labels_the_posterior_is_the_prior(small):
    of, _, _ = small
    prior = calibrate(of, np.zeros(0, int), np.zeros((0, 2)), np.zeros(0), draws=4000, rng=np.random.default_rng(0))
    panel = prior.block("panel")
    assert panel.mean() == pytest.approx(PRIORS["panel"].mean, abs=0.15)
    for block, draws in zip(of.blocks, np.log(prior.scale).T, strict=True):
        assert draws.mean() == pytest.approx(math.log(PRIORS[block.name].scale), abs=0.05)
        assert draws.std() == pytest.approx(PRIORS[block.name].spread, rel=0.05)
    assert prior.block("confusion") is None


def many_classes(K=10, n=300):
    """A panel of judges of three families, who take each class for the one beside it in a third of the verdicts."""
    rng = np.random.default_rng(8)
    truth = rng.integers(0, K, n)
    said = np.where(rng.random((6, n)) < 0.33, truth ^ 1, truth)
    said = np.where(rng.random((6, n)) < 0.1, rng.integers(0, K, (6, n)), said)
    rows = [(i, f"{'aabbcc'[j]}{j}", "aabbcc"[j], f"c{said[j, i]}") for i in range(n) for j in range(6)]
    return Verdicts.from_frame(pd.DataFrame(rows, columns=["item", "judge", "family", "verdict"])), truth


def test_the_association_of_classes_is_the_log_ratio_of_what_judges_of_other_families_say():
    v, _ = many_classes()
    given = features_of(v)
    shares = np.zeros((len(v.items), len(v.judges), 10))
    shares[v.item, v.judge, v.label] = 1
    for family in (v.family, np.zeros(6, dtype=int)):  # of one family, all pairs of judges count
        pairs, total = np.zeros((10, 10)), np.zeros(10)
        for i in range(len(v.items)):
            for j in range(6):
                total += shares[i, j]
                for m in range(6):
                    if m != j and (family[m] != family[j] or not family.any()):
                        pairs += np.outer(shares[i, j], shares[i, m])
        share = (total + 1) / (total.sum() + 10)
        expected = np.log((pairs + 10 * share) / (pairs.sum(1, keepdims=True) + 10) / share)
        assert association(shares, family) == pytest.approx(expected)
        assert np.allclose(association(shares[:, :1], family[:1]), 0)  # one judge says nothing of others
    assert given.association == pytest.approx(association(shares, v.family))


def test_verdicts_of_many_classes_speak_for_the_classes_they_are_confused_with():
    v, truth = many_classes()
    of, items = features_of(v), np.arange(40)
    assert {b.name for b in of.blocks} >= {"association", "own_class"}
    log_human = np.where(np.arange(10) == truth[items][:, None], 0.0, -np.inf)
    p = calibrate(of, items, log_human, np.ones(40), draws=100, rng=np.random.default_rng(0))
    rest = np.arange(40, 300)
    p = p.probability(of.rows(rest)).mean(1).T
    first = p.argmax(1)
    beside = p[np.arange(len(rest)), first ^ 1]
    others = (1 - p.max(1) - beside) / 8
    assert np.median(beside / others) > 3
    assert -np.log(p[np.arange(len(rest)), truth[rest]]).mean() < 1.0


def test_few_classes_have_a_table_of_confusion_in_place_of_their_association():
    v, _ = many_classes(8)
    of = features_of(v)
    assert {b.name for b in of.blocks} & {"association", "own_class", "confusion"} == {"confusion"}
    assert of.association.shape == (0, 0)


def test_the_slope_of_verdicts_is_that_of_judges_whose_errors_are_independent():
    rng = np.random.default_rng(4)
    truth = rng.random(4000) < 0.5
    family = np.array([0, 0, 1, 1, 2])

    def slope(accuracy, family, judges=5, seen=1.0, items=4000):
        said = np.where(rng.random((items, judges)) < accuracy, truth[:items, None], ~truth[:items, None])
        asked = rng.random(said.shape) < seen
        shares = np.stack([~said, said], 2) * asked[:, :, None]
        around = np.where(asked[:, :, None], shares - shares.sum(0) / asked.sum(0)[:, None], 0.0)
        return attenuation(around, asked, family)

    assert slope(0.9, family) == pytest.approx(0.8, abs=0.03)
    assert slope(0.65, family, seen=0.5) == pytest.approx(0.3, abs=0.05)
    assert slope(0.8, np.zeros(5, dtype=int)) == pytest.approx(0.6, abs=0.03)  # of one family, all pairs count
    assert slope(0.6, family, items=600) == pytest.approx(0.2, abs=0.13)  # weak judges
    # Judges who guess, few items, all of one mind by chance: nothing that is told from chance enlarges differences.
    assert np.median([slope(0.5, family) for _ in range(20)]) > 0.5
    assert min(slope(0.5, family[:3], judges=3, items=90) for _ in range(40)) > 0.35
    assert slope(0.9, family, items=1) == slope(0.1, family[1:3], judges=2, items=1) == 0.63
    opposed = np.where(np.arange(2) == (rng.random(200) < 0.5)[:, None], 0.5, -0.5)
    opposed = np.stack([opposed, -opposed], 1)
    assert attenuation(opposed, np.ones((200, 2), dtype=bool), np.arange(2)) == 0.63
    assert slope(0.7, family[:1], judges=1) == 0.63  # not known


def many_judges(J=150, n=40):
    """A panel of more judges than human labels, each of whom judged some items."""
    rng = np.random.default_rng(5)
    truth = rng.random(n) < 0.6
    rows = [
        (i, f"m{j}", bool(truth[i] ^ (rng.random() < 0.2))) for i in range(n) for j in rng.choice(J, 30, replace=False)
    ]
    v = Verdicts.from_frame(
        pd.DataFrame(rows, columns=["item", "judge", "verdict"]), families={f"m{j}": f"f{j % 9}" for j in range(J)}
    )
    items = np.arange(0, n, 3)
    log_human = np.where(np.arange(2) == truth[items][:, None], 0.0, -np.inf)
    return features_of(v), items, log_human


def test_coefficients_that_labels_say_nothing_of_are_left_to_the_prior():
    """The posterior is the same in the span of the features of labelled items and in all coefficients; 4 standard errors."""
    of, items, log_human = many_judges()
    everything, D = of.rows(np.arange(of.shape[0])), 2000
    drawn = {}
    with pytest.MonkeyPatch.context() as patch:
        for name, large in (("span", 100), ("all", 10**9)):
            patch.setattr(calibration, "LARGE", large)
            drawn[name] = calibrate(of, items, log_human, np.ones(len(items)), draws=D, rng=np.random.default_rng(0))
    assert len(drawn["span"].theta[0]) == len(drawn["all"].theta[0]) == sum(block.size for block in of.blocks)
    for quantity in (
        lambda c: c.probability(everything)[1],
        lambda c: c.theta,
        lambda c: c.theta**2,
        lambda c: np.log(c.scale),
    ):
        a, b = quantity(drawn["span"]), quantity(drawn["all"])
        error = np.sqrt((a.var(0) + b.var(0)) / D)
        assert (np.abs(a.mean(0) - b.mean(0)) < 5 * error + 1e-9).mean() > 0.995


def test_the_consensus_of_many_judges_is_that_of_few():
    """Sparse covariances give the weights of dense ones."""
    rng = np.random.default_rng(0)
    around = rng.normal(size=(60, 40, 2)) * (rng.random((60, 40, 1)) < 0.6) + 0.5 * rng.normal(size=(60, 1, 2))
    with pytest.MonkeyPatch.context() as patch:
        dense = consensus_weights(covariance(around))
        patch.setattr("crowdppl.judges.model.agreement.DENSE", 10)
        sparse = covariance(around)
    assert issparse(sparse)
    assert consensus_weights(sparse) == pytest.approx(dense, rel=1e-4)


def test_people_who_disagree_have_an_error():
    """The error solves the equation of agreement of two people, and guessing people have that of a guess."""
    rng = np.random.default_rng(0)
    for error in (0.05, 0.2):
        truth = rng.integers(0, 3, 4000)
        labels = np.where(
            rng.random((4000, 2)) < error, (truth[:, None] + rng.integers(1, 3, (4000, 2))) % 3, truth[:, None]
        )
        counts = (labels[:, :, None] == np.arange(3)).sum(1).astype(float)
        assert human_likelihood.error_of_people(counts) == pytest.approx(error, abs=0.02)
    guesses = (rng.integers(0, 3, (4000, 2))[:, :, None] == np.arange(3)).sum(1).astype(float)
    assert human_likelihood.error_of_people(guesses) > 0.55
    assert human_likelihood.error_of_people(np.eye(3) * 2) == 0
    log_human = human_likelihood.log_likelihood(np.array([[2.0, 1.0, 0.0]]), 0.1)
    assert np.exp(log_human) == pytest.approx(np.array([[0.9**2 * 0.05, 0.05**2 * 0.9, 0.05**3]]))


def test_the_consensus_weights_a_factor():
    """Loadings of a one-factor model give Bartlett's weights; a judge of no correlation gets none."""
    loading = np.array([0.9, 0.7, 0.5, 0.0])
    correlation = np.outer(loading, loading)
    np.fill_diagonal(correlation, 1)
    weight = consensus_weights(correlation)
    expected = loading / (1 - loading**2)
    assert weight == pytest.approx(expected / np.abs(expected).mean(), abs=0.02)
    assert consensus_weights(np.eye(1)) == pytest.approx([1.0])
    assert consensus_weights(np.zeros((3, 3))) == pytest.approx(np.ones(3))
