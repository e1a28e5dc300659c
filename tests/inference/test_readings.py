"""Compiled evaluation of draws: the same numbers as torch, the same distributions of what is drawn."""

import numpy as np
import pytest
import torch
from catalog import crowded, prepared, quiet_fit, simulated, tiny

from crowdppl.inference import evaluate
from crowdppl.inference.backends import choose, readings
from crowdppl.inference.dependence.design_effect import DesignEffect
from crowdppl.inference.draws import Draws
from crowdppl.inference.engines import em
from crowdppl.isolation import isolated, pool
from crowdppl.model import logit_rows_draws
from crowdppl.model.program import prior_draws
from crowdppl.models import DawidSkene, HierarchicalDawidSkene, ItemEffects, ItemSubtypes, OneCoin, Pooled

MODELS = {
    "item effects": ItemEffects(strengths=(1.5, 2.5), anchoring=0.0),
    "item effects, anchored": ItemEffects(strengths=(1.5,)),
    "dawid-skene": DawidSkene(),
    "one-coin": OneCoin(),
    "pooled": Pooled(),
    "hierarchical": HierarchicalDawidSkene(),
    "item-subtypes": ItemSubtypes(subtypes=2, subtype_concentration=0.5),
}
EFFECTS = {"independent": None, "rho drawn": DesignEffect(-1.0, 2.0), "rho known": DesignEffect(known=0.4)}


def by_torch(monkeypatch):
    """Leave compiled readings and steps out."""
    monkeypatch.setattr(choose, "compiled_step", lambda *_: None)


def evaluated(model, data, theta, effect, seed=0, **point):
    """Evaluate the same draws, from the same random stream."""
    with isolated(seed), torch.inference_mode():
        draws = Draws({name: value.unsqueeze(0) for name, value in theta.items()}, "posterior", "", **point)
        return evaluate.evaluate(model, data, draws, effect)


@pytest.mark.parametrize("effect", list(EFFECTS))
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", list(MODELS))
def test_what_is_not_drawn_is_that_of_torch(monkeypatch, name, classes, effect):
    """Likelihoods and probabilities, averaged over values of rho, also where products underflow and a truth is known."""
    data = crowded(classes)
    with isolated(3), torch.inference_mode():
        model, arranged = prepared(MODELS[name], data)
        theta = prior_draws(model, arranged, 5)
    ours = evaluated(model, data, theta, EFFECTS[effect])
    by_torch(monkeypatch)
    wanted = evaluated(model, data, theta, EFFECTS[effect])
    for what in ("probability", "published", "log_likelihood", "lp", "log_prior", "confusion", "prevalence", "rho"):
        actual, expected = getattr(ours, what), getattr(wanted, what)
        assert (actual is None) == (expected is None)
        if actual is not None:
            torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-12, msg=what)
    for what, value in wanted.mixing.items():
        torch.testing.assert_close(ours.mixing[what], value, rtol=1e-9, atol=1e-12)
    assert (ours.calibrated == {}) == (EFFECTS[effect] is None)


@pytest.mark.parametrize("name", ["item effects", "dawid-skene"])
def test_float32(monkeypatch, name):
    data = simulated(items=40, seed=2, per_item=4)[0].to(dtype=torch.float32)
    with isolated(3), torch.inference_mode():
        model, arranged = prepared(MODELS[name], data)
        theta = prior_draws(model, arranged, 5)
    ours = evaluated(model, data, theta, EFFECTS["rho drawn"])
    by_torch(monkeypatch)
    wanted = evaluated(model, data, theta, EFFECTS["rho drawn"])
    for what in ("probability", "published", "log_likelihood", "confusion", "prevalence"):
        actual, expected = getattr(ours, what), getattr(wanted, what)
        assert actual.dtype == torch.float32
        torch.testing.assert_close(actual, expected, rtol=2e-4, atol=1e-4)


def apart(first, second):
    """Return differences of the means of two sets of draws ``(D, ...)`` in standard errors."""
    first, second = (draws.double().reshape(len(draws), -1) for draws in (first, second))
    error = (first.var(0) / len(first) + second.var(0) / len(second)).sqrt()
    return ((first.mean(0) - second.mean(0)).abs() / error.clamp(min=1e-9)).numpy()


@pytest.mark.parametrize("effect", ["independent", "rho drawn"])
@pytest.mark.parametrize("name", ["item effects", "dawid-skene"])
def test_what_is_drawn_has_the_distribution_of_torchs(monkeypatch, name, effect):
    """Truths by class, and the quality that follows: means and mean squares over 4,000 draws at one point.

    About 320 numbers at 5 standard errors: a false alarm in one of 5,000 seeds; the seeds are fixed.
    """
    data = tiny(3, items=6, workers=4, classes=3)
    with isolated(4), torch.inference_mode():
        model, arranged = prepared(MODELS[name], data)
        theta = {name: value.expand(4000, *value.shape[1:]) for name, value in prior_draws(model, arranged, 1).items()}
    ours = evaluated(model, data, theta, EFFECTS[effect])
    by_torch(monkeypatch)
    wanted = evaluated(model, data, theta, EFFECTS[effect], seed=1)
    for k in range(data.K):
        assert (apart(ours.truth[0] == k, wanted.truth[0] == k) < 5).all()
    for what, value in wanted.calibrated.items():
        for power in (1, 2):
            assert (apart(ours.calibrated[what][0] ** power, value[0] ** power) < 5).all()


def move_around(rows, counts):
    """Do as ``logit_rows_draws._move_rows``, from a point that proposals do not move with: the one back is the same."""
    mean = rows.mean_logits()
    logits, certain = mean + rows.deviations, rows.scales[2] ** -2
    centre, factor = logit_rows_draws._proposal(rows, logits, counts, mean)
    noise = torch.randn_like(logits).unsqueeze(-1)
    new = centre + torch.linalg.solve_triangular(factor.mT, noise, upper=True).squeeze(-1)

    def weight(x):
        off = (factor.mT @ (x - centre).unsqueeze(-1)).squeeze(-1)
        density = rows.fit(x, counts) - certain * (x - mean).square().sum(-1) / 2
        return density + off.square().sum(-1) / 2

    ratio = weight(new) - weight(logits)
    return torch.where((torch.rand_like(ratio).log() < ratio).unsqueeze(-1), new, logits)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("name", list(MODELS))
def test_sweeps_from_a_point_have_the_distribution_of_torchs(monkeypatch, name, classes):
    """Means and mean squares of all parameters over 4,000 draws.

    About 1,100 numbers at 5 standard errors: a false alarm in one of 1,500 seeds; the seeds are fixed. With four classes some
    rows have fewer effects than labels, and others more.
    """
    if classes == 4 and not name.startswith("item effects"):
        pytest.skip("as with two classes")
    monkeypatch.setattr(logit_rows_draws, "_move_rows", move_around)
    monkeypatch.setattr(choose, "DRAWS", 0)
    data = tiny(5, items=6, workers=3, classes=2) if classes == 2 else tiny(5, items=40, workers=3, classes=4)
    with isolated(5), torch.inference_mode():
        model, arranged = prepared(MODELS[name], data)
        point = {site: value[0] for site, value in prior_draws(model, arranged, 1).items()}
        ours = em.swept(model, arranged, point, 4000, None)
        by_torch(monkeypatch)
        wanted = em.swept(model, arranged, point, 4000, None)
    assert set(ours) == set(wanted)
    for site, value in wanted.items():
        assert ours[site].shape == value.shape
        for power in (1, 2):
            assert (apart(ours[site][0] ** power, value[0] ** power) < 5).all(), site


@pytest.mark.parametrize(("model", "method"), [("item-effects", "em"), ("dawid-skene", "em"), ("dawid-skene", "gibbs")])
def test_results_do_not_depend_on_threads(monkeypatch, model, method):
    """Nor on how many draws one call evaluates."""
    monkeypatch.setattr(choose, "DRAWS", 0)
    data = simulated(items=60, seed=2, per_item=4)[0]
    results = []
    for threads, call in ((1, readings.CALL), (3, readings.CALL), (2, 1)):
        monkeypatch.setattr(pool, "threads_outside", lambda threads=threads: threads)
        monkeypatch.setattr(readings, "CALL", call)
        results.append(quiet_fit(data, model, method=method, seed=1, num_samples=50, independent=False))
    for other in results[1:]:
        for group in ("posterior", "calibrated", "log_likelihood"):
            for name, value in results[0].tree[group].data_vars.items():
                np.testing.assert_array_equal(value, other.tree[group][name])


def test_few_draws_around_a_point_are_left_to_torch(monkeypatch):
    """Conjugate models after EM: numba is imported only where the work is worth it."""
    data = simulated(items=30, seed=2, per_item=4)[0]
    options = {"method": "em", "seed": 1, "num_samples": 30, "independent": False}

    def drawn():
        return quiet_fit(data, "dawid-skene", **options).tree["calibrated"]["confusion"].values

    first = drawn()
    with monkeypatch.context() as patch:
        by_torch(patch)
        np.testing.assert_array_equal(first, drawn())
    monkeypatch.setattr(choose, "DRAWS", 0)
    assert not np.array_equal(first, drawn())


def test_correct_labels_are_counted_with_the_draws():
    """Those of views are the same as counted from the stored truths."""
    data = simulated(items=30, seed=2, per_item=4)[0]
    for independent in (True, False):
        posterior = quiet_fit(data, "dawid-skene", method="gibbs", warmup=5, num_samples=20, independent=independent)
        assert posterior._correct is not None
        counted = posterior.share_correct_draws()
        posterior._correct = None
        np.testing.assert_array_equal(posterior.share_correct_draws(), counted)
