"""Compiled chains: what is watched, the posterior they sample, threads, checkpoints, and where they are not used."""

import itertools

import numpy as np
import pytest
import torch
from catalog import (
    CASES,
    Populations,
    Stop,
    crowded,
    in_turn,
    many_from_prior,
    prepared,
    quiet_fit,
    simulated,
    stopping,
    tiny,
)

from crowdppl.inference.backends import chains as compiled
from crowdppl.inference.backends.choose import compiled_step
from crowdppl.inference.engines import gibbs
from crowdppl.inference.hooks import SILENT
from crowdppl.inference.sampling import sample_truth
from crowdppl.isolation import isolated, pool
from crowdppl.model.bound import bind
from crowdppl.models import (
    ClassConditional,
    DawidSkene,
    HierarchicalDawidSkene,
    ItemEffects,
    ItemSubtypes,
    OneCoin,
    Pooled,
)

MODELS = {
    "item effects": ItemEffects(strengths=(1.5, 2.5), anchoring=0.0),
    "item effects, anchored": ItemEffects(strengths=(1.5,)),
    "dawid-skene": DawidSkene(prior_items=0.5),
    "dawid-skene, asymmetric": DawidSkene(concentration=((2.0, 0.3), (0.7, 1.5))),
    "one-coin": OneCoin(),
    "class-conditional": ClassConditional(),
    "pooled": Pooled(),
    "item-subtypes": ItemSubtypes(subtypes=2, subtype_concentration=0.5),
    "populations": Populations(),
    "hierarchical": HierarchicalDawidSkene(),
}
FEW = ["item effects", "item effects, anchored", "dawid-skene", "item-subtypes"]


@pytest.mark.parametrize("watched", ["all", "diagonals", "no matrices, some items"])
@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("name", FEW)
def test_what_is_watched(monkeypatch, name, classes, watched):
    """The quantities of the first sweep are those of torch at the same parameters, also where products underflow."""
    data = crowded(classes)
    if watched != "all":
        monkeypatch.setattr(gibbs, "CELLS", data.J * data.K if watched == "diagonals" else 0)
    if watched == "no matrices, some items":
        size = data.J + classes + 5 * (1 if classes == 2 else classes)
        monkeypatch.setattr(gibbs, "MOMENT_BYTES", 4 * 4 * gibbs.BLOCKS[-1] * size)
    with isolated(0), torch.inference_mode():
        model, data = prepared(MODELS[name], data)
        run = gibbs._Run(model, data, 2, 0, 1)
        run.sampler.close()
        assert (run.rows is None) == (watched != "no matrices, some items")
        for group in run.groups:
            run.sampler.begin(group, run.sites)
            vector = group.parameters["vector"]
            parameters = run.sampler.step.parameters(vector, data.dtype)
            probability = model.truths.by_class(model.item_log_joint(parameters, data).softmax(-1), parameters, data)
            wanted = run.quantities(parameters, probability)
            chains = run.sampler.chains
            chains.sweep(chains.chain(vector), 1, group.moments, 0, 1)
            torch.testing.assert_close(group.moments.total, wanted, rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(group.moments.total_squares, wanted[0].square(), rtol=1e-10, atol=1e-12)


def powers(values, power):
    """Sites ``(draw, ...)`` to some power, as one matrix; with logs of positive numbers, which have long tails."""
    values = {name: value.log() if name in ("crowd_precision", "strength") else value for name, value in values.items()}
    flat = [values[name].double().reshape(len(values[name]), -1) for name in sorted(values)]
    return torch.cat(flat, 1) ** power


@pytest.mark.parametrize(
    ("name", "classes", "known"),
    [
        ("dawid-skene", 3, True),
        pytest.param("item effects, anchored", 2, False, marks=pytest.mark.slow),
        pytest.param("hierarchical", 3, True, marks=pytest.mark.slow),
        pytest.param("item effects", 3, True, marks=pytest.mark.slow),
        pytest.param("dawid-skene, asymmetric", 2, False, marks=pytest.mark.slow),
        pytest.param("one-coin", 3, False, marks=pytest.mark.slow),
        pytest.param("class-conditional", 3, True, marks=pytest.mark.slow),
        pytest.param("pooled", 3, False, marks=pytest.mark.slow),
        pytest.param("item-subtypes", 2, True, marks=pytest.mark.slow),
        pytest.param("populations", 3, False, marks=pytest.mark.slow),
    ],
)
def test_the_posterior_is_that_of_torchs_steps(name, classes, known):
    """Means and mean squares of all parameters against 1,500 chains of the model's own steps in torch.

    Four compiled chains of 12,000 sweeps, with standard errors from batches of 500, against the spread of torch's chains after
    60 sweeps from the prior. 720 numbers at five standard errors of the difference: a false alarm in one of 2,400 seeds if errors
    were normal, in fewer than one of 40 with the tails of 80 batches; the seeds are fixed.
    """
    data = tiny(3, items=6, workers=4, classes=classes, known=known)
    with isolated(1), torch.inference_mode():
        model, data = prepared(MODELS[name], data)
        run = gibbs._Run(model, data, 4, 100, 12_000)
        run.turn(12_100, SILENT)
        run.sampler.close()
        draws = run.samples()
        theta = many_from_prior(model, data, 1500)
        for _ in range(60):
            state = sample_truth(model.learned_from(model.item_log_joint(theta, data), data))
            theta = model.gibbs_step(state, theta, data)
        for power in (1, 2):
            wanted = powers(theta, power)
            actual = powers({site: value.flatten(0, 1) for site, value in draws.items()}, power)
            batches = actual.unflatten(0, (-1, 500)).mean(1)
            error = (batches.var(0) / len(batches) + wanted.var(0) / len(wanted)).sqrt()
            apart = (actual.mean(0) - wanted.mean(0)).abs() / error
            assert float(apart.max()) < 5, (power, int(apart.argmax()))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in FEW[1:3])) for name in MODELS]
)
def test_class_probabilities_are_those_of_importance_sampling(name):
    """Reported probabilities against the posterior by 20,000 draws from the prior, weighted by what parameters are learned from.

    100 numbers within five joint standard errors plus .002; with an effective sample size of at least 1,000 a false alarm in less
    than one of 2,000 seeds.
    """
    data = tiny(5, items=5, workers=3, classes=2)
    with isolated(2), torch.inference_mode():
        model, arranged = prepared(MODELS[name], data)
        prior = many_from_prior(model, arranged, 20_000)
        joint = model.item_log_joint(prior, arranged)
        weight = model.objective(joint, arranged).sum(-1).softmax(-1)
        probability = model.truths.by_class(joint.softmax(-1), prior, arranged)
        exact = (weight[:, None, None] * probability).sum(0)
        effective = float(1 / weight.square().sum())
        assert effective > 1000
        spread = (weight[:, None, None] * (probability - exact).square()).sum(0).sqrt()
    posterior = quiet_fit(data, MODELS[name], method="gibbs", seed=3, chains=4, warmup=200, num_samples=10_000)
    apart = np.abs(posterior.tree["truth"]["probability"].values - exact.numpy())
    assert (apart < 5 * spread.numpy() * (1 / effective + 1 / 2000) ** 0.5 + 0.002).all()


@pytest.mark.parametrize("name", FEW)
def test_results_do_not_depend_on_threads(monkeypatch, name):
    """Nor on how many sweeps one call takes."""
    data = simulated(items=60, seed=2, per_item=4)[0]
    results = []
    for threads, call in ((1, compiled.CALL), (3, compiled.CALL), (2, 1)):
        monkeypatch.setattr(pool, "threads_outside", lambda threads=threads: threads)
        monkeypatch.setattr(compiled, "CALL", call)
        posterior = quiet_fit(data, MODELS[name], method="gibbs", seed=1, chains=3, warmup=20, num_samples=40)
        results.append(posterior.tree["posterior"]["prevalence"].values)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    assert len(np.unique(results[0][:, -1, 0])) == 3


STOPPED = itertools.product(
    ["item effects, anchored", "one-coin"],
    [1, 25],
    [{"warmup": 10, "num_samples": 30}, {"warmup": 60, "max_seconds": 60}],
)


@pytest.mark.parametrize(("name", "after", "options"), in_turn([*STOPPED], 3, night=False))
def test_a_stopped_fit_goes_on_to_the_same_bits(monkeypatch, tmp_path, options, after, name):
    data, model = simulated(items=30, seed=2, per_item=6, classes=2)[0], MODELS[name]
    monkeypatch.setattr(compiled, "CALL", 1)  # a checkpoint after every sweep
    options = options | {"method": "gibbs", "seed": 7, "chains": 2}
    whole = quiet_fit(data, model, **options)
    with stopping(after), pytest.raises(Stop):
        quiet_fit(data, model, checkpoint=(tmp_path, 0.0), **options)
    resumed = quiet_fit(data, model, checkpoint=(tmp_path, 1000.0), **options)
    for group in ("posterior", "truth", "log_likelihood"):
        for key, value in whole.tree[group].data_vars.items():
            np.testing.assert_array_equal(resumed.tree[group][key].values, value.values, err_msg=f"{group}/{key}")
    assert resumed.info["facts"] == whole.info["facts"]


@pytest.mark.slow
def test_without_numba_torch_samples(monkeypatch):
    """The same posterior: class probabilities within .06, five standard errors at an effective sample size of 1,700."""
    data, model = simulated(items=30, seed=2, per_item=6, classes=2)[0], MODELS["item effects, anchored"]
    options = {"method": "gibbs", "seed": 1, "chains": 16, "warmup": 100, "num_samples": 500}  # chains side by side
    fast = quiet_fit(data, model, **options)
    monkeypatch.setattr(compiled, "kernel", lambda family: None)
    plain = quiet_fit(data, model, **options)
    first, second = (posterior.tree["truth"]["probability"].values for posterior in (fast, plain))
    assert (first != second).any()
    np.testing.assert_allclose(first, second, atol=0.06)


def test_the_default_compiles_no_chains(monkeypatch):
    """Draws around the point have compiled functions of their own; a chain takes long to compile."""

    def refuse(family):
        raise AssertionError(family)

    monkeypatch.setattr(compiled, "kernel", refuse)
    posterior = quiet_fit(simulated(items=60, seed=2, per_item=6, classes=2)[0], num_samples=20)
    assert posterior.info["method"] == "em"
    assert posterior.workers()["accuracy_low"].notna().all()


def test_where_chains_are_compiled():
    """Not with repeated items or item weights, nor for models without a compiled step, or whose counts depend on parameters."""
    data = tiny(classes=2)
    model = ItemEffects()

    def step(model, data):
        return compiled_step(bind(model, data), data, 2, compiled.kernel)

    assert step(model, data) is not None
    assert step(model, data.to(dtype=torch.float32)) is not None
    assert step(model, data.with_weights(np.full(data.N, 0.5))) is None
    with isolated(0):
        families = {case.name: own.family for case in CASES if (own := step(case.model, tiny(classes=case.classes)))}
    rows = ("dawid-skene", "item-subtypes", "class-conditional", "one-coin", "pooled", "populations")
    wanted = {case.name: "dirichlet rows" for case in CASES if case.name.startswith(rows)}
    wanted["hierarchical"] = "hierarchical rows"
    wanted |= {case.name: "logit rows" for case in CASES if case.name.startswith("item-effects")}
    assert families == wanted


def test_what_is_watched_of_large_data(monkeypatch):
    """One of four sweeps is; the count of those is that of the moments, however sweeps are grouped."""
    data, model = simulated(items=60, seed=2, per_item=4)[0], DawidSkene()
    for watched in (1, compiled.SPARSE):
        monkeypatch.setattr(compiled, "ANNOTATIONS", 10**9 if watched == 1 else 0)
        posterior = quiet_fit(data, model, method="gibbs", seed=1, chains=2, warmup=3, num_samples=256)
        assert max(posterior.info["facts"]["ess"].values()) <= 2 * 256 / watched
    with isolated(0), torch.inference_mode():
        bound, data = prepared(model, data)
        run = gibbs._Run(bound, data, 2, 3, 1000)
        run.turn(3 + 201, SILENT)
        run.sampler.close()
        for group in run.groups:
            moments = group.moments
            assert moments.length * moments.full + moments.count == 51  # at 0, 4, ... 200


@pytest.mark.parametrize("name", ["item effects", "dawid-skene", "one-coin"])
def test_single_precision(name):
    """Chains sample in double precision; results have the type of the data."""
    data = tiny(classes=2).to(dtype=torch.float32)
    posterior = quiet_fit(data, MODELS[name], method="gibbs", chains=2, warmup=10, num_samples=10)
    assert {value.dtype for value in posterior.tree["posterior"].data_vars.values()} == {np.dtype(np.float32)}
    assert np.isfinite(posterior.tree["log_likelihood"]["labels"].values).all()


def test_certain_workers_in_single_precision():
    """Probabilities that single precision rounds to 0 or 1 leave every label possible."""
    step = compiled_step(bind(OneCoin(), tiny(classes=2)), tiny(classes=2), 2, compiled.kernel)
    parameters = {"prevalence": torch.tensor([[1e-300, 1.0]]), "accuracy": torch.tensor([[1 - 1e-12, 1e-300, 0.5]])}
    for value in step.parameters(step.vector(parameters), torch.float32).values():
        assert value.dtype == torch.float32
        assert (value > 0).all()
    assert (step.parameters(step.vector(parameters), torch.float32)["accuracy"] < 1).all()


def test_vectors_share_the_memory_of_parameters_that_lie_side_by_side():
    data = tiny(classes=3)
    step = compiled_step(bind(DawidSkene(), data), data, 2, compiled.kernel)
    size = sum(int(np.prod(shape)) for shape in step.shapes.values())
    held = torch.arange(5.0 * size, dtype=torch.float64).reshape(5, size)
    parameters = step.parameters(held, torch.float64)
    shared = step.vector(parameters, shared=True)
    assert shared.data_ptr() == held.data_ptr()
    copies = {name: value.clone() for name, value in parameters.items()}
    for vector in (shared, step.vector(parameters), step.vector(copies, shared=True)):
        torch.testing.assert_close(vector, held, rtol=0, atol=0)
    assert step.vector(parameters).data_ptr() != held.data_ptr()
