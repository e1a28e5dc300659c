"""The linear Gaussian model of numbers: its density, its engines, and what must not change a result."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import Stop, each_by_one, in_turn, slow_as_well, stopping
from number_crowds import crowd, numbers
from pyro import poutine
from scipy.stats import kstest, multivariate_normal

import crowdppl
from crowdppl import EM, SVI, Annotations, CrowdpplError, CrowdpplWarning, FileError, Gibbs, ModelError, OptionError
from crowdppl.inference.numeric.acceleration import Path
from crowdppl.inference.numeric.conditionals import best_df
from crowdppl.inference.numeric.gibbs import gibbs
from crowdppl.inference.numeric.mean_field import Loop
from crowdppl.inference.numeric.readings import Parameters, conditional
from crowdppl.isolation import isolated
from crowdppl.kernels.linear_gaussian import log_marginal
from crowdppl.model.numeric import LinearGaussianLabels, StandardLabels
from crowdppl.models import LinearGaussian
from crowdppl.models.linear_gaussian import FEWEST_DF, MOST_DF

QUICK = {
    "em": {"num_samples": 200},
    "gibbs": {"chains": 2, "warmup": 100, "num_samples": 200},
    "svi": {"max_iter": 600, "num_samples": 100},
    "nuts": {"chains": 1, "warmup": 30, "num_samples": 30, "max_tree_depth": 5},
}


def quiet(data, *args, **options):
    """A fit whose warnings do not matter."""
    from crowdppl.errors import silent

    with silent():
        return crowdppl.fit(data, *args, **options)


def parameters(data, seed=0, draws=3):
    """Random parameters of all workers, with draws as the last axis."""
    generator = torch.Generator().manual_seed(seed)
    shape = (data.columns, draws)
    random = torch.randn(3, *shape, generator=generator, dtype=torch.float64)
    intercept, slope, variance = random[0], 1 + 0.3 * random[1], 0.5 * (0.5 * random[2]).exp()
    truth_sd = 0.5 + torch.rand(draws, generator=generator, dtype=torch.float64)
    return Parameters(intercept, slope, variance, torch.zeros(draws, dtype=torch.float64), truth_sd)


# ---------------------------------------------------------------------- the density


@pytest.mark.parametrize("known", [{}, {0: 2.0, 3: 4.5}])
def test_density_and_truths_equal_those_of_a_dense_normal(known):
    """Labels of an item are jointly normal: density and conditional moments by matrices, in float64."""
    frame, _, _ = crowd(items=9, workers=5, each=3)
    frame = pd.concat([frame, frame.head(2)])  # a worker who labels an item twice
    data = StandardLabels.of(Annotations.from_frame(frame, kind="numeric", truth=known or None))
    own = parameters(data)
    density = log_marginal(data.tables, data.per_item, own.intercept, own.slope, own.variance, own.truth_sd)
    mean, variance = conditional(own, data)
    for s in range(3):
        for i in range(data.items):
            at = data.item == i
            worker, y = data.worker[at], data.value[at].numpy()
            b, g, v = (part[worker, s].numpy() for part in (own.intercept, own.slope, own.variance))
            prior = float(own.truth_sd[s]) ** 2
            covariance = np.diag(v) + prior * np.outer(g, g)
            assert density[i, s] == pytest.approx(multivariate_normal(b, covariance).logpdf(y), abs=1e-10)
            gain = prior * g @ np.linalg.inv(covariance)
            assert mean[i, s] == pytest.approx(gain @ (y - b), abs=1e-10)
            assert variance[i, s] == pytest.approx(prior - gain @ g * prior, abs=1e-10)


def test_the_pyro_program_has_the_same_density():
    data = StandardLabels.of(numbers(items=12, workers=5, each=3))
    own = parameters(data, draws=1)
    parts = (own.intercept[:, 0], own.slope[:, 0], own.variance[:, 0])
    whole = log_marginal(data.tables, data.per_item, own.intercept, own.slope, own.variance, own.truth_sd)
    labels = LinearGaussianLabels(*parts, own.truth_sd[0], data)
    torch.testing.assert_close(labels.log_prob(data.value), whole.sum(), atol=1e-10, rtol=0)
    with isolated(seed=0):
        trace = poutine.trace(LinearGaussian().program).get_trace(data)
        drawn = LinearGaussianLabels(*parts, own.truth_sd[0], data).sample()
    assert set(trace.nodes) >= {"mean", "truth_sd", "bias_sd", "slope_sd", "intercept", "slope", "variance", "labels"}
    assert trace.nodes["labels"]["is_observed"]
    assert drawn.shape == data.value.shape


# ---------------------------------------------------------------------- engines


def test_the_lower_bound_rises():
    data = StandardLabels.of(numbers(items=60, workers=6, each=4))
    with isolated(seed=0):
        for model in (LinearGaussian(), LinearGaussian(slopes=False)):
            loop = Loop(model, data)
            loop.step()
            bounds = [loop.bound()]
            for _ in range(40):
                loop.step()
                bounds.append(loop.bound())
            assert min(np.diff(bounds)) > -1e-9
            assert bounds[-1] > bounds[0]


@pytest.mark.parametrize("kind", ["plain", "features", "known"])
def test_extrapolated_steps_end_where_plain_ones_do(kind):
    """In fewer steps; the lower bound never falls, and the sums that are moved on are those of the truths."""
    frame, x, _ = crowd(items=60, workers=6, each=4)
    given = Annotations.from_frame(
        frame, kind="numeric", truth={n: x[n] for n in range(20)} if kind == "known" else None
    )
    if kind == "features":
        given = given.with_features(np.asarray(x)[:, None] + np.random.default_rng(0).normal(size=(60, 2)))
    data = StandardLabels.of(given)
    for model in (LinearGaussian(), LinearGaussian(slopes=False)):
        loop, plain = Loop(model, data), Loop(model, data)
        path, bounds = Path(loop), []
        while not path.done and len(bounds) < 200:
            bounds.append(path.step())
        path.end()
        bounds.append(loop.bound())
        assert path.done
        assert min(np.diff(bounds)) > -1e-9
        moves = [plain.step()]
        while moves[-1] > 1e-7 and len(moves) < 400:
            moves.append(plain.step())
        assert len(bounds) < 0.7 * len(moves)
        assert -1e-7 < bounds[-1] - plain.bound() < 1e-4
        torch.testing.assert_close(loop.truths.mean, plain.truths.mean, rtol=0, atol=1e-3)
        loop.maximisation()  # moves truths to a better place and scale
        carried, loop._sums = loop.sums(), None
        for one, other in zip(carried, loop.sums(), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


def test_degrees_of_freedom_are_the_best_ones():
    """Beside a fine grid, within their bounds."""
    half = torch.linspace(FEWEST_DF / 2, MOST_DF / 2, 300_001, dtype=torch.float64)
    for level in (-0.9, -0.3, -0.1, -0.02, -0.005):
        best = 2 * float(half[(half * (level - 1) + half * half.log() - half.lgamma()).argmax()])
        for start in (FEWEST_DF, 5.0, MOST_DF):
            assert best_df(level, start) == pytest.approx(best, abs=1e-3)


@pytest.mark.parametrize(
    ("method", "known"),
    slow_as_well(in_turn([*itertools.product(["gibbs", "svi"], [False, True])], 3), "svi-True"),
)
def test_engines_agree(method, known):
    """EM beside Gibbs sampling and SVI: means within a few hundredths of a standard deviation, spreads within a fifth."""
    frame, x, _ = crowd(items=150, workers=10, each=5)
    truth = {n: x[n] for n in range(40)} if known else None
    data = Annotations.from_frame(frame, kind="numeric", truth=truth)
    options = (
        {"chains": 2, "warmup": 200, "num_samples": 500}
        if method == "gibbs"
        else {"max_iter": 2000, "num_samples": 300}
    )
    one, other = quiet(data, method="em"), quiet(data, method=method, **options)
    first, second = one.truth(relative=True), other.truth(relative=True)
    np.testing.assert_allclose(first["value"], second["value"], atol=0.05 if method == "gibbs" else 0.2)
    assert abs(np.log(first["sd"] / second["sd"])).mean() < 0.2
    mine, yours = one.workers(), other.workers()
    np.testing.assert_allclose(mine["slope"], yours["slope"], atol=0.08 if method == "gibbs" else 0.25)
    np.testing.assert_allclose(mine["sd"], yours["sd"], atol=0.05)
    np.testing.assert_allclose(mine["bias"] - mine["bias"].mean(), yours["bias"] - yours["bias"].mean(), atol=0.08)


@pytest.mark.slow
@pytest.mark.parametrize("draws", [100, pytest.param(200, marks=pytest.mark.longest)])
def test_nuts_agrees(draws):
    """Means of 200 draws have errors of some .02, a fourteenth of a standard deviation: the bounds are four of these.

    Those of 100 draws are larger by the square root of two, and so are the bounds.
    """
    wider = (200 / draws) ** 0.5
    data = numbers(items=60, workers=6, each=4)
    one = quiet(data, method="gibbs", chains=2, num_samples=800)
    other = quiet(data, method="nuts", chains=1, warmup=draws // 2, num_samples=draws)
    truths = [posterior.truth(relative=True)["value"] for posterior in (one, other)]
    np.testing.assert_allclose(*truths, atol=0.08 * wider)
    np.testing.assert_allclose(one.workers()["sd"], other.workers()["sd"], atol=0.1 * wider)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reference", "replications"),
    [(True, 30), *(pytest.param(reference, 100, marks=pytest.mark.longest) for reference in (False, True))],
)
def test_simulation_based_calibration_of_gibbs(reference, replications):
    """Ranks of parameters drawn from the prior are uniform: false alarm .001 for each of ten or thirteen sites.

    A hundred replications take minutes, and are for the night; thirty, by shorter chains, see a rank that is far from uniform.
    """
    length = {"warmup": 500, "num_samples": 1000} if replications == 100 else {"warmup": 200, "num_samples": 400}
    N, J = 25, 5
    item, worker = torch.arange(N).repeat_interleave(J), torch.arange(J).repeat(N)
    if reference:
        item = torch.cat([item, torch.arange(N // 2)])
        worker = torch.cat([worker, torch.full((N // 2,), J)])
    model = LinearGaussian(truth_scale=1.5, bias_scale=0.7, slope_scale=0.4)
    ranks = {}
    for seed in range(replications):
        with isolated(seed=seed):
            blank = StandardLabels(item, worker, torch.zeros(len(item)), N, J, reference, 0.0, 1.0, 1e-8)
            trace = poutine.trace(poutine.uncondition(model.program)).get_trace(blank)
            data = StandardLabels(item, worker, trace.nodes["labels"]["value"], N, J, reference, 0.0, 1.0, 1e-8)
            draws = gibbs(model, data, Gibbs(chains=1, max_seconds=60.0, **length))
        for name, node in trace.nodes.items():
            site = "noise_df" if name == "inverse_noise_df" else name
            if node["type"] == "sample" and site in draws.samples:
                value = 1 / node["value"] if site == "noise_df" else node["value"]
                drawn = draws.samples[site][0, ::10]
                below = (drawn < value).double() + (drawn == value).double() / 2
                ranks.setdefault(site, []).append(float(below.mean(0).flatten()[0]))
    assert len(ranks) == (13 if reference else 10)
    for site, values in ranks.items():
        assert kstest(values, "uniform").pvalue > 0.001, site


@pytest.mark.slow
@pytest.mark.parametrize("crowds", [3, pytest.param(12, marks=pytest.mark.longest)])
def test_simulated_truths_and_workers_are_covered(crowds):
    """89% intervals in 12 crowds: .84 to .94 of 1,440 truths, .78 to .98 of 180 biases, slopes and noises.

    In three of these crowds shares have twice the standard error, and bounds are twice as far from .89.
    """
    hits = {name: [] for name in ("truth", "bias", "slope", "sd")}
    for seed in range(crowds):
        frame, x, kind = crowd(seed, items=120, workers=15, each=5)
        posterior = quiet(Annotations.from_frame(frame, kind="numeric"), seed=0)
        truth = posterior.truth(relative=True)
        true = x - x.mean()
        hits["truth"] += ((truth["low"] <= true) & (true <= truth["high"])).tolist()
        workers = posterior.workers().set_index("worker").loc[kind.index]
        for name in ("bias", "slope", "sd"):
            own = kind[name]
            hits[name] += ((workers[f"{name}_low"] <= own) & (own <= workers[f"{name}_high"])).tolist()
    share = {name: np.mean(values) for name, values in hits.items()}
    wider = (12 / crowds) ** 0.5
    assert -0.05 * wider <= share["truth"] - 0.89 <= 0.05 * wider, share
    for name in ("bias", "slope", "sd"):
        assert -0.11 * wider <= share[name] - 0.89 <= 0.09 * wider, share


@pytest.mark.slow
def test_it_beats_the_mean_and_finds_the_random():
    frame, x, _ = crowd(items=400, workers=8, each=5)
    rng = np.random.default_rng(0)
    frame.loc[frame["worker"] == "w0", "label"] = rng.normal(3, 1.2, (frame["worker"] == "w0").sum())
    data = Annotations.from_frame(frame, kind="numeric")
    posterior = quiet(data)
    truth = posterior.truth()
    errors = [
        np.sqrt(((truth[name] - truth[name].mean() - (x - x.mean())) ** 2).mean()) for name in ("value", "mean_label")
    ]
    assert errors[0] < 0.8 * errors[1]
    workers = posterior.workers().set_index("worker")
    assert workers.loc["w0", "verdict"] == "random"
    assert (workers["verdict"] == "random").sum() == 1


@pytest.mark.parametrize(("method", "kind"), in_turn([*itertools.product(QUICK, ["plain", "features"])], 5))
def test_a_stopped_fit_goes_on_to_the_same_bits(method, kind, tmp_path):
    """Stopped at a checkpoint, at the first one and later, a fit ends as one that was not stopped."""
    data = numbers(items=20, workers=4, each=3)
    data = data.with_features(np.random.default_rng(0).normal(size=(20, 2))) if kind == "features" else data
    options = {"method": method, "seed": 3, **QUICK[method]}
    options |= {"nuts": {"chains": 2, "warmup": 8, "num_samples": 5, "max_tree_depth": 3}, "svi": {"max_iter": 60}}.get(
        method, {}
    )
    whole = quiet(data, **options)
    for after in (1, {"nuts": 1, "em": 15}.get(method, 40)):
        folder = tmp_path / str(after)
        with stopping(after), pytest.raises(Stop):
            quiet(data, checkpoint=(folder, 0.0), **options)
        with pytest.raises(FileError, match="belongs to another fit"):
            quiet(numbers(1, items=20, workers=4, each=3), checkpoint=folder, **options)
        resumed = quiet(data, checkpoint=(folder, 1000.0), **options)
        assert list(folder.iterdir()) == []
        for group in whole.tree.children:
            for name, value in whole.tree[group].data_vars.items():
                np.testing.assert_array_equal(resumed.tree[group][name].values, value.values, err_msg=name)
        assert resumed.info["facts"] == whole.info["facts"]


# As short as fits can be: what is compared is equal from the first draw on, or not at all.
SHORTEST = {
    "em": {"num_samples": 20},
    "gibbs": {"chains": 2, "warmup": 20, "num_samples": 20},
    "svi": {"max_iter": 50, "num_samples": 20},
    "nuts": {"chains": 1, "warmup": 5, "num_samples": 5, "max_tree_depth": 3},
}


@pytest.mark.parametrize("method", in_turn(SHORTEST, 4, night=False))
def test_same_seed_same_result(method):
    data = numbers(items=20, workers=4, each=3)
    one, other, third = (quiet(data, method=method, seed=seed, **SHORTEST[method]) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(one.truth(), other.truth())
    pd.testing.assert_frame_equal(one.workers(), other.workers())
    assert not one.workers().equals(third.workers())


# ---------------------------------------------------------------------- what must not change a result


@pytest.mark.parametrize(("shift", "scale"), [(100.0, 1.0), (0.0, 1e-6), (-7.0, 1e6)])
def test_units_do_not_matter(shift, scale):
    frame, _, _ = crowd(items=40, workers=5, each=4)
    one = quiet(Annotations.from_frame(frame, kind="numeric"), method="em")
    other = quiet(
        Annotations.from_frame(frame.assign(label=shift + scale * frame["label"]), kind="numeric"), method="em"
    )
    np.testing.assert_allclose(other.truth()["value"], shift + scale * one.truth()["value"], rtol=1e-6)
    for name, factor in (("bias", scale), ("sd", scale), ("slope", 1.0), ("correlation", 1.0)):
        np.testing.assert_allclose(other.workers()[name], factor * one.workers()[name], rtol=1e-4, atol=1e-6 * factor)
    likelihood = [posterior.tree["log_likelihood"]["labels"].to_numpy() for posterior in (one, other)]
    per_item = np.bincount(one.tree["constant_data"]["item_index"])
    np.testing.assert_allclose(likelihood[1], likelihood[0] - per_item * np.log(scale), atol=1e-4)


def test_order_of_rows_and_names_do_not_matter():
    frame, _, _ = crowd(items=40, workers=5, each=4)
    names = {"items": range(40), "workers": [f"w{j}" for j in range(5)]}
    one = quiet(Annotations.from_frame(frame, kind="numeric", **names), method="em")
    other = quiet(Annotations.from_frame(frame.sample(frac=1, random_state=0), kind="numeric", **names), method="em")
    np.testing.assert_allclose(one.truth()["value"], other.truth()["value"], atol=1e-6)
    np.testing.assert_allclose(one.workers()["bias"], other.workers()["bias"], atol=1e-6)


def test_reversed_labels_give_reversed_values():
    frame, _, _ = crowd(items=40, workers=5, each=4)
    one = quiet(Annotations.from_frame(frame, kind="numeric"), method="em")
    other = quiet(Annotations.from_frame(frame.assign(label=-frame["label"]), kind="numeric"), method="em")
    np.testing.assert_allclose(other.truth(relative=True)["value"], -one.truth(relative=True)["value"], atol=1e-3)


# ---------------------------------------------------------------------- known true numbers and ends of a scale


@pytest.mark.slow
def test_known_true_numbers_move_the_scale():
    """All workers are too high by 2 and stretch the scale: only known true numbers tell."""
    frame, x, _ = crowd(items=200, workers=6, each=5)
    frame["label"] = 2 + 1.5 * frame["label"]
    without = quiet(Annotations.from_frame(frame, kind="numeric"))
    posterior = quiet(Annotations.from_frame(frame, kind="numeric", truth={n: x[n] for n in range(50)}))
    truth, rest = posterior.truth(), slice(50, None)
    assert posterior.reading == "true_number"
    np.testing.assert_allclose(truth["value"][:50], x[:50])
    assert truth["known"].tolist() == [True] * 50 + [False] * 150
    errors = [np.sqrt(((one.truth()["value"] - x)[rest] ** 2).mean()) for one in (posterior, without)]
    assert errors[0] < 0.35 < errors[1]
    assert 0.8 <= ((truth["low"] <= x) & (x <= truth["high"]))[rest].mean() <= 0.97
    assert posterior.workers()["bias"].mean() > 2
    with pytest.raises(OptionError, match="needs known true numbers"):
        without.truth(reading="true_number")


@pytest.mark.slow
def test_ends_of_a_scale():
    """Labels beyond the ends are cut: with the scale stated the spread of truths is that without the cut."""
    frame, x, _ = crowd(items=150, workers=8, each=5, mean=1.0, bias=0.2)
    cut = frame.assign(label=frame["label"].clip(0, 2))
    fits = {
        "whole": quiet(Annotations.from_frame(frame, kind="numeric"), method="gibbs", **QUICK["gibbs"]),
        "cut": quiet(Annotations.from_frame(cut, kind="numeric"), method="gibbs", **QUICK["gibbs"]),
        "stated": quiet(Annotations.from_frame(cut, kind="numeric", scale=(0, 2)), **QUICK["gibbs"]),
    }
    spread = {name: float(one.draws("truth_sd").mean()) for name, one in fits.items()}
    assert abs(spread["stated"] - spread["whole"]) < abs(spread["cut"] - spread["whole"]) / 2
    truth = fits["stated"].truth()
    assert truth[["value", "low", "high"]].to_numpy().min() >= 0
    assert truth[["value", "low", "high"]].to_numpy().max() <= 2
    assert np.corrcoef(truth["value"], x)[0, 1] > 0.85
    with pytest.raises(ModelError, match="use method='gibbs'"):
        crowdppl.fit(Annotations.from_frame(cut, kind="numeric", scale=(0, 2)), method="em")


@pytest.mark.slow
def test_workers_with_correlated_errors_are_named():
    frame, _, _ = crowd(items=200, workers=6, each=6)
    rng = np.random.default_rng(1)
    shared = rng.normal(0, 0.8, 200)
    alike = frame["worker"].isin(["w1", "w4"])
    frame.loc[alike, "label"] += shared[frame.loc[alike, "item"]]
    with pytest.warns(
        CrowdpplWarning,
        match=r"workers with correlated errors: the errors of one pair of workers are .*w[14] and w[14] \(",
    ):
        posterior = crowdppl.fit(Annotations.from_frame(frame, kind="numeric"))
    assert len(posterior.alerts) == 1


@pytest.mark.slow
def test_independent_workers_are_not_named():
    """100 crowds, of which 1 in 100 may be named by mistake: more than 5 have a probability of .0005."""
    named = sum(bool(quiet(numbers(seed, items=60, workers=8, each=5), method="em").alerts) for seed in range(100))
    assert named <= 5


# ---------------------------------------------------------------------- the Pyro program


@pytest.mark.slow
@pytest.mark.parametrize("known", [False, True])
def test_the_program_runs_under_pyro_and_samples_come_back(known):
    """A guide of the caller's own, fitted by Pyro, gives the truths of the library's EM."""
    import pyro

    frame, x, _ = crowd(items=100, workers=6, each=4)
    truth = {n: x[n] for n in range(20)} if known else None
    data = Annotations.from_frame(frame, kind="numeric", truth=truth)
    program = crowdppl.pyro_program("linear-gaussian", data)
    with isolated(seed=0):
        # Slopes start near 1: with all of them negative the likelihood is the same.
        start = pyro.infer.autoguide.init_to_median(num_samples=25)
        guide = pyro.infer.autoguide.AutoNormal(program, init_scale=0.05, init_loc_fn=start)
        inference = pyro.infer.SVI(program, guide, pyro.optim.Adam({"lr": 0.03}), pyro.infer.Trace_ELBO())
        for _ in range(800):
            inference.step()
        drawn = [guide() for _ in range(100)]
    samples = {name: torch.stack([one[name] for one in drawn]).detach() for name in program.sizes}
    posterior = program.posterior(samples, kind="approximation")
    assert posterior.info["method"] == "samples"
    assert ("reference_slope" in samples) == known
    # A guide with independent parts finds the scale slowly; the order of items it has.
    values = [one.truth(relative=True)["value"] for one in (posterior, quiet(data, method="em"))]
    assert np.corrcoef(*values)[0, 1] > 0.98
    # Draws that are said to be of the posterior are judged: chains that go different ways have not converged.
    apart = {name: torch.stack([value, value + 1.0]) for name, value in samples.items()}
    with pytest.warns(CrowdpplWarning, match="not converged: do not use the intervals"):
        assert program.posterior(apart).not_converged
    with pytest.raises(OptionError, match="name the engine with method="):
        crowdppl.update(posterior, frame.head(3))
    with pytest.raises(OptionError, match="samples lack the site 'slope'"):
        program.posterior({name: value for name, value in samples.items() if name != "slope"})
    with pytest.raises(OptionError, match=r"samples\['slope'\] has the shape"):
        program.posterior(samples | {"slope": samples["slope"][:, :3]})
    with pytest.raises(OptionError, match="integrated out"):
        crowdppl.pyro_program(LinearGaussian(), data, truth="marginal")


# ---------------------------------------------------------------------- odd data, and what is refused


ODD = {
    "one annotation": ([0], [0], [1.5]),
    "one worker": (range(6), [0] * 6, [1.0, 2, 3, 4, 5, 6.5]),
    "one item": ([0] * 5, range(5), [1.0, 2, 3, 4, 5.5]),
    "one label for all": ([0, 0, 1, 1], [0, 1, 0, 1], [2.0] * 4),
    "equal within items": ([0, 0, 1, 1], [0, 1, 0, 1], [2.0, 2.0, 5.0, 5.0]),
    "large numbers": ([0, 0, 1, 1], [0, 1, 0, 1], [1e12, 1e12 + 5, 3e12, 3e12 + 1]),
    "an outlier": ([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1], [1.0, 1.1, 2.0, 2.1, 3.0, 1e9]),
    "each label by another": (range(8), range(8), np.arange(8) / 3),
}


@pytest.mark.parametrize(("name", "method"), each_by_one(ODD, ["em", "gibbs"]))
def test_odd_data_have_an_answer(name, method):
    item, worker, label = ODD[name]
    data = Annotations.from_arrays(list(item), list(worker), list(label), kind="numeric")
    posterior = quiet(data, method=method, **QUICK[method])
    assert np.isfinite(posterior.truth()[["value", "low", "high"]].to_numpy()).all()
    assert np.isfinite(posterior.workers()[["bias", "slope", "sd", "correlation"]].to_numpy()).all()


def test_workers_who_share_no_item_are_noted():
    table = pd.DataFrame({"task": [0, 0, 1, 1], "worker": ["a", "b", "c", "d"], "label": [1.0, 2.0, 3.0, 4.5]})
    posterior = quiet(Annotations.from_frame(table, kind="numeric"), method="em", num_samples=20)
    assert any("2 groups that share no item (2, 2 workers)" in note for note in posterior.notes)


@pytest.mark.slow
def test_items_and_workers_without_labels_have_wide_intervals():
    frame, _, _ = crowd(items=40, workers=5, each=4)
    data = Annotations.from_frame(frame, kind="numeric", items=range(42), workers=[*(f"w{j}" for j in range(5)), "new"])
    posterior = quiet(data)
    truth, workers = posterior.truth(), posterior.workers()
    assert truth["sd"][40:].min() > 2 * truth["sd"][:40].median()
    assert workers["verdict"].iloc[-1] == "too few annotations"


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"model": "dawid-skene"}, ModelError, "'dawid-skene' is a model of classes or grades"),
        ({"model": crowdppl.models.DawidSkene()}, ModelError, "DawidSkene is a model of classes"),
        ({"model": "linear"}, OptionError, "no model 'linear'"),
        ({"model": LinearGaussian}, OptionError, r"pass an instance, LinearGaussian\(\)"),
        ({"model": 3}, ModelError, "model is a int"),
        ({"method": "em", "restarts": 2}, OptionError, "restarts= is not used by models of numbers"),
        ({"method": "svi", "batch_size": 5}, OptionError, "batch_size= is not used"),
        ({"method": "nuts", "jit": True}, OptionError, "jit=True is not used"),
        ({"method": "nuts", "non_centred": True}, OptionError, "non_centred=True is not used"),
        ({"method": "gibbs", "tol": 1}, OptionError, "no option 'tol'"),
        ({"independent": True}, OptionError, "independent= is not used for labels that are numbers"),
        ({"rho": 0.2}, OptionError, "rho= is not used"),
    ],
)
def test_what_is_refused(options, error, words):
    with pytest.raises(CrowdpplError, match=words) as caught:
        crowdppl.fit(numbers(items=10, workers=3, each=2), **options)
    assert type(caught.value) is error


@pytest.mark.parametrize("model", ["linear-gaussian", LinearGaussian()])
def test_classes_have_no_model_of_numbers(model):
    data = Annotations.from_arrays([0, 0, 1, 1], [0, 1, 0, 1], ["a", "b", "a", "a"])
    with pytest.raises(
        ModelError, match="is a model of numbers, and labels are classes; read them with kind='numeric'"
    ):
        crowdppl.fit(data, model)


@pytest.mark.parametrize(
    "name", ["truth_scale", "bias_scale", "slope_scale", "feature_scale", "reference_bias", "reference_slope"]
)
def test_hyperparameters_are_positive(name):
    for value in (0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ModelError, match=f"LinearGaussian: {name}"):
            LinearGaussian(**{name: value})


def test_a_model_of_numbers_reads_a_frame_as_numbers():
    frame = crowd(items=10, workers=3, each=2)[0].assign(label=lambda table: (10 * table["label"]).round().astype(int))
    assert quiet(frame, "linear-gaussian", method="em").info["model"] == "linear-gaussian"
    assert quiet(frame, LinearGaussian(slopes=False), method="em").info["hyperparameters"]["slopes"] is False


def test_engines_are_objects_too():
    data = numbers(items=20, workers=4, each=3)
    for method in (EM(num_samples=20), Gibbs(chains=1, warmup=5, num_samples=10), SVI(max_iter=20, num_samples=5)):
        assert quiet(data, method=method).info["method"] == method.method


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "most", "relative"), [("movie-reviews", 0.052, 0.038), ("we8there", 0.43, 0.206), ("emotion", 18.5, 18.5)]
)
def test_public_sets(name, most, relative, public):
    """Errors of the default on real data, as benchmarks/numbers.py measures them."""
    data, truth = public(name)
    table = quiet(data).truth().set_index("item")["value"].loc[truth.index]
    apart = (table - truth).to_numpy(dtype=float)
    assert np.sqrt((apart**2).mean()) < most
    assert apart.std() < relative
