"""Compiled passes against the sparse products, on data that they find easy and on data that they do not."""

import itertools
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from catalog import in_turn

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import CrowdpplWarning, silent
from crowdppl.inference import run
from crowdppl.inference.backends import choose, counting
from crowdppl.inference.backends import passes as sweeps
from crowdppl.inference.backends.evaluation import PassEvaluation, TorchEvaluation, Weighing
from crowdppl.inference.backends.expectation import SummedExpectation
from crowdppl.inference.backends.passes import Items, Sweeps
from crowdppl.inference.backends.sums import SparseSums
from crowdppl.inference.dependence.design_effect import factors
from crowdppl.inference.engines.m_step import MStep
from crowdppl.inference.engines.unconstrained import Space
from crowdppl.isolation import isolated
from crowdppl.kernels import ops, parallel
from crowdppl.model.bound import bind
from crowdppl.model.contract import check
from crowdppl.model.truths.classes import one_hot
from crowdppl.models import ClassConditional, DawidSkene, HierarchicalDawidSkene, OneCoin


def fit(*args, **options):
    """Fit with the library's warnings kept back: runs here are short."""
    with silent():
        return crowdppl.fit(*args, **options)


ROOT = Path(__file__).parents[2]
SLOW = (4, 5, 6, 7, 8, 10, 12, 16, 17, 31, 32, 33, 48, 63, 64)
MODELS = [DawidSkene(), DawidSkene.maximum_likelihood(), OneCoin(), ClassConditional()]


@pytest.fixture(autouse=True)
def all_sizes(monkeypatch):
    """Take small data, too."""
    monkeypatch.setattr(sweeps, "ANNOTATIONS", 0)
    monkeypatch.setattr(choose, "LARGE", 0)


def statistics(responsibility, data):
    """Sums of responsibilities by sparse products."""
    return bind(DawidSkene(), data).statistics(responsibility, data)


def crowd(K, items=300, workers=20, annotations=2000, seed=0, known=True, crowded=False):
    rng = np.random.default_rng(seed)
    item = rng.integers(0, items, annotations)
    if crowded:  # one item with so many annotations that their product has no digits left
        item[: annotations // 2] = 7
    truth = rng.integers(0, K, items)
    label = np.where(rng.random(annotations) < 0.7, truth[item], rng.integers(0, K, annotations))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        return Annotations.from_arrays(
            item,
            rng.integers(0, workers, annotations),
            label,
            labels=range(K),
            items=range(items + 3),  # some without annotations
            workers=range(workers + 2),
            truth={i: int(truth[i]) for i in range(0, items, 9)} if known else None,
        )


def tables(K, data, seed=1, zeros=False):
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(K, 0.3 if zeros else 2.0), (data.J, K))
    if zeros:
        table[table < 0.02] = 0.0
        table[..., 0] += 1e-3  # every label remains possible under some truth
        table /= table.sum(-1, keepdims=True)
    return torch.from_numpy(table), torch.from_numpy(rng.dirichlet(np.ones(K)))


@pytest.mark.parametrize("threads", [1, 3])
# Up to 64, every number of classes is compiled by itself: a few in the fast suite, in the slow one more, and powers of two.
@pytest.mark.parametrize("K", [2, 3, 9, 70, *(pytest.param(K, marks=pytest.mark.slow) for K in SLOW)])
def test_sums_are_those_of_the_products(K, threads):
    data = crowd(K)
    table, prior = tables(K, data)
    compiled_passes = Sweeps.over(data, threads)
    r = torch.empty(data.N, K, dtype=torch.float64)
    actual, wanted = compiled_passes.expect(table, prior, None, r), SparseSums(data).expect(table, prior)
    for a, b in zip(actual[:3], wanted[:3], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-10)
    joint = data.counts.log_likelihoods(table.log()) + prior.log() + data.clamp
    torch.testing.assert_close(r, joint.softmax(-1), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        compiled_passes.joint(table, prior).logsumexp(-1), joint.logsumexp(-1), rtol=1e-12, atol=1e-12
    )
    torch.testing.assert_close(compiled_passes.joint(table, prior), joint, rtol=1e-10, atol=1e-10)
    assert torch.equal(compiled_passes.responsibilities(table, prior), r)
    for a, b in zip(compiled_passes.given(r)[1:3], statistics(r, data)[1:3], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    # Passes look as far ahead at the end of what they read as in its midst.
    for codes in (compiled_passes.column, *([compiled_passes.sorted[1]] if K > compiled_passes.passes.NARROW else [])):
        assert len(codes) == data.A + compiled_passes.passes.AHEAD
        assert not codes[data.A :].any()
    # A pass that nobody asks for responsibilities may write them somewhere: what an earlier one has found stays.
    kept = [part.clone() for part in actual[:3]]
    compiled_passes.expect(*tables(K, data, seed=2))
    assert all(map(torch.equal, actual[:3], kept))
    truth = r.argmax(-1)
    for a, b in zip(
        compiled_passes.counted(truth.to(torch.int16)), statistics(one_hot(truth, data), data)[1:3], strict=True
    ):
        assert torch.equal(a, b)


def test_tables_of_threads_have_a_limit(monkeypatch):
    data, many = crowd(8), crowd(9)
    size = sweeps._table_bytes(data)
    monkeypatch.setattr(sweeps, "TABLES", 2 * size)
    assert Sweeps.over(data, 3).threads == 2
    monkeypatch.setattr(sweeps, "TABLES", size - 1)
    assert not sweeps.serves(data, 8)
    assert sweeps.serves(many, 9)  # which needs none


def test_tables_are_gone_through_in_blocks(monkeypatch):
    """Prior and M step of 22 workers at once, by 3 and by one; and draws beside each other share no block."""
    data = crowd(3)
    sums = SparseSums(data).expect(*tables(3, data))
    model, pair = bind(DawidSkene(), data), torch.stack([tables(3, data, seed)[0] for seed in (2, 3)])

    def actual():
        parameters = model.conjugacy.m_step(sums._replace(label_counts=sums.label_counts.clone()))
        both = {"prevalence": torch.stack([parameters["prevalence"]] * 2), "confusion": pair}
        return parameters["confusion"], model.log_prior(parameters, data), model.log_prior(both, data)

    whole = actual()
    for size in (200, 27, 1):
        monkeypatch.setattr(ops, "BLOCK", size)
        for a, b in zip(actual(), whole, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("least", [0.1, 1e-30, 0.0])
def test_sums_of_logs(least, dtype, monkeypatch):
    """Of products of eight, where these are numbers: eight times 1e-30 is none in single precision, nor is a zero's log."""
    monkeypatch.setattr(ops, "BLOCK", 90)
    table = torch.from_numpy(np.random.default_rng(0).uniform(0.1, 1, (2, 23, 3, 3))).to(dtype)
    table[0, 4:13, 1, 1] = least
    actual, wanted = ops.summed_logs(table), table.double().log().sum(-3)
    torch.testing.assert_close(actual.double(), wanted, rtol=1e-12 if dtype == torch.float64 else 1e-5, atol=1e-12)


@pytest.mark.parametrize("pseudo_counts", [False, True])
@pytest.mark.parametrize("lead", [(), (2,)])
@pytest.mark.parametrize("K", [2, 3, 4, 6])
def test_shares_of_labels(K, lead, pseudo_counts, monkeypatch):
    """However counts lie, by products with ones or by sums, in blocks or at once; rows without a count are uniform."""
    rng = np.random.default_rng(K)
    counts = torch.from_numpy(rng.integers(0, 3, (*lead, 50, K, K)) * rng.random((*lead, 50, K, K)))
    counts[..., 7, 0, :] = 0.0
    added = torch.from_numpy(rng.random((K, K))) if pseudo_counts else torch.zeros(K, K, dtype=torch.float64)
    wanted = counts + added
    wanted = torch.where(wanted.sum(-1, keepdim=True) > 0, wanted / wanted.sum(-1, keepdim=True), 1 / K)
    for many in (0, 10**9):
        monkeypatch.setattr(ops, "MANY_NUMBERS", many)
        for block in (10**9, 9 * K * K):
            monkeypatch.setattr(ops, "BLOCK", block)
            for given in (counts.clone(), counts.transpose(-1, -2).contiguous().transpose(-1, -2)):
                actual = ops.label_shares(given, added if pseudo_counts else None)
                assert actual.data_ptr() == given.data_ptr()
                torch.testing.assert_close(actual, wanted, rtol=1e-14, atol=1e-16)


@pytest.mark.slow
@pytest.mark.parametrize("K", [3, 9, 70])
def test_single_precision_is_the_same_to_its_rounding(K):
    """Each sum is of some 2,000 numbers, each rounded to 6e-8 of itself."""
    data = crowd(K)
    table, prior = tables(K, data)
    half = data.to(dtype=torch.float32)
    assert sweeps.serves(half, K)
    compiled_passes, wanted = Sweeps.over(half, 2), SparseSums(data).expect(table, prior)
    r = torch.empty(data.N, K, dtype=torch.float32)
    actual = compiled_passes.expect(table.float(), prior.float(), None, r)
    assert actual.item_counts.dtype == actual.label_counts.dtype == torch.float32
    for a, b in zip(actual[:3], wanted[:3], strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-4)
    joint = data.counts.log_likelihoods(table.log()) + prior.log() + data.clamp
    torch.testing.assert_close(r.double(), joint.softmax(-1), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        compiled_passes.joint(table.float(), prior.float()).double(), joint, rtol=1e-4, atol=1e-4
    )
    for a, b in zip(compiled_passes.given(r)[1:3], statistics(r.double(), data)[1:3], strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-4)
    truth = r.argmax(-1)
    assert torch.equal(compiled_passes.counted(truth.to(torch.int16))[1], half.counts.expected(one_hot(truth, half)))
    with torch.random.fork_rng():
        assert compiled_passes.draw(table.float(), prior.float())[1].label_counts.sum() == data.A


@pytest.mark.slow
def test_each_pass_is_kept_in_a_file_of_its_own(tmp_path):
    """Numba's cache is not safe where one list holds several things: two processes may write them under one name."""
    code = """
import torch
from tests.kernels.test_passes import crowd, tables
from crowdppl.inference.backends.passes import Sweeps
torch.set_num_threads(2)
for K, dtype in ((2, torch.float64), (3, torch.float64), (2, torch.float32), (9, torch.float64), (70, torch.float64)):
    data = crowd(K).to(dtype=dtype)
    table, prior = (part.to(dtype) for part in tables(K, data))
    Sweeps.over(data).expect(table, prior)
"""
    places = os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    own = {"NUMBA_CACHE_DIR": str(tmp_path), "CROWDPPL_MACHINE_CODE": "0", "PYTHONPATH": places}
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | own, cwd=ROOT)
    lists = {path.stem for path in tmp_path.rglob("*.nbi")}
    kept = [path.name for path in tmp_path.rglob("*.nbc")]
    # Load, sweep and collect, three times; sweep and gather, twice.
    assert len(lists) == len(kept) == 13


@pytest.mark.parametrize("K", [3, 9, 70])
@pytest.mark.parametrize("zeros", [False, True])
def test_products_without_digits_are_done_in_logs(zeros, K):
    """A thousand annotations of an item multiply to nothing in floating point; so do impossible labels, rightly."""
    data = crowd(K, crowded=True, known=False)
    table, prior = tables(K, data, zeros=zeros)
    if zeros:  # items with a label 0 are possible under one truth only, by probabilities that are next to nothing
        table[:, 1:, 0] = 0.0
        table[:, 0, :] = 1e-30 * (1 + table[:, 0, :])
    actual, wanted = Sweeps.over(data, 2).expect(table, prior), SparseSums(data).expect(table, prior)
    assert float(wanted.log_likelihood) < -800
    # Differences of logs stay, also where the probabilities are nothing beside each other: tempering brings them back.
    joint = data.counts.log_likelihoods(table.log()) + prior.log()
    torch.testing.assert_close(Sweeps.over(data, 2).joint(table, prior), joint, rtol=1e-12, atol=1e-9)
    for a, b in zip(actual, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-8)


@pytest.mark.parametrize("K", [3, 9, 70])
def test_small_probabilities_of_items_in_turn(K):
    """Logs are taken of products of items: one that is small by itself is left out, or the product would be nothing."""
    item = np.repeat(np.arange(8), [1, 1, 1, 7, 1, 1, 1, 7])  # 1e-30 three times, then 1e-266
    label = np.where(np.isin(item, [3, 7]), 1, 0)
    data = Annotations.from_arrays(item, np.arange(20) % 2, label, labels=range(K), workers=range(2))
    table, prior = tables(K, data)
    table[..., 0], table[..., 1] = 1e-30, 1e-38 * (1 + torch.arange(K))
    actual, wanted = Sweeps.over(data, 1).expect(table, prior), SparseSums(data).expect(table, prior)
    for a, b in zip(actual, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("K", [2, 9, 70])
@pytest.mark.parametrize("labels", [[0] * 8 + [1] * 6, [1] * 6 + [0] * 8, [0] * 8 * 30 + [1] * 6 * 30])
def test_a_truth_that_seemed_lost_comes_back(K, labels):
    """Labels that speak for one truth by more digits than a number has, and then others for the other."""
    data = Annotations.from_arrays([0] * len(labels), np.arange(len(labels)), labels, labels=range(K))
    table, prior = tables(K, data)
    prior[:2], prior[2:] = 0.5, 0.0
    table[:, 0, :2] = torch.tensor([1e-13, 1e-41], dtype=torch.float64)
    table[:, 1, :2] = torch.tensor([1e-41, 0.9], dtype=torch.float64)
    actual, wanted = Sweeps.over(data, 1).expect(table, prior), SparseSums(data).expect(table, prior)
    for a, b in zip(actual, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("K", [2, 9])
def test_what_is_impossible_is_no_number(K):
    data = crowd(K, known=False)
    table, prior = tables(K, data)
    table[:, :, 0], table[:, :, 1] = 0.0, table[:, :, 0] + table[:, :, 1]  # label 0 is never given
    assert not torch.isfinite(Sweeps.over(data, 2).expect(table, prior).log_likelihood)


@pytest.mark.parametrize("effects", ["none", "rho", "rho and classes"])
@pytest.mark.parametrize(
    ("K", "dtype"),
    [
        (2, torch.float64),
        (2, torch.float32),
        (9, torch.float64),
        pytest.param(9, torch.float32, marks=pytest.mark.slow),
    ],
)
def test_items_are_read_off_as_by_the_products(K, dtype, effects):
    """Likelihoods and probabilities to rounding; truths by their probabilities, a false alarm in some 10,000 seeds."""
    data = crowd(K).to(dtype=dtype)
    table, prior = (part.to(dtype) for part in tables(K, data))
    passes = Sweeps.over(data, 2)
    lift = torch.linspace(0.2, 3.0, K, dtype=dtype) if effects == "rho and classes" else None
    weighing = None if effects == "none" else Weighing(torch.tensor(0.4, dtype=dtype), lift)
    factor = None if weighing is None else factors(weighing.rho, data)
    results, drawn = [], torch.zeros(data.N, K, dtype=torch.float64)
    with isolated(5):
        for turn in range(200):
            joint = passes.joint(table, prior)
            likelihood, truth = torch.empty(data.N, dtype=dtype), torch.empty(data.N, dtype=torch.int16)
            mean, published = (torch.full((data.N, K), 0.5, dtype=dtype) for _ in range(2))
            into = Items(likelihood, truth, mean, published if weighing else None)
            if turn == 0:
                TorchEvaluation(bind(DawidSkene(), data), data, data).read({}, joint, weighing, 0.25, into)
            else:
                passes.accumulate(joint, factor, lift, 0.25, into)
                drawn += one_hot(truth.long(), data)
            results.append((likelihood, mean, published))
    for result in results[1:3]:
        for actual, wanted in zip(result, results[0], strict=True):
            exact = 1e-12 if dtype == torch.float64 else 1e-5
            torch.testing.assert_close(actual, wanted, rtol=exact, atol=exact)
    p = (results[0][1].double() - 0.5) / 0.25
    assert (drawn[p == 0.0] == 0.0).all()
    # The mean of squared deviations, each of variance 2 and a little, where five truths and more are expected; cells of an item
    # depend on each other, of two classes wholly, so that half as many are counted. Truths that everybody knows are no lot.
    cells = (199 * p > 5) & (p < 0.99)
    chi = ((drawn - 199 * p).square() / (199 * p * (1 - p)))[cells]
    assert len(chi) > 50
    assert abs(float(chi.mean()) - 1) < 4 * (2 / (len(chi) / 2)) ** 0.5


@pytest.mark.parametrize("K", [3, 9])
def test_drawn_truths_follow_their_probabilities(K):
    """Shares over 4,000 draws of 40 items: each within 4.5 standard errors, a false alarm in about one of 1,000 runs of three
    classes and one of 400 of nine."""
    data = crowd(K, items=40, annotations=200)
    table, prior = tables(K, data)
    compiled_passes, draws = Sweeps.over(data, 2), 4000
    r = torch.empty(data.N, K, dtype=torch.float64)
    compiled_passes.expect(table, prior, None, r)
    share = torch.zeros_like(r)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        for _ in range(draws):
            truth, sums = compiled_passes.draw(table, prior)
            chosen = torch.nn.functional.one_hot(truth.long(), K).double()
            share += chosen / draws
        torch.testing.assert_close(sums.label_counts, data.counts.expected(chosen))
        torch.testing.assert_close(sums.item_counts, chosen.sum(0))
    error = (r * (1 - r) / draws).sqrt()
    assert ((share - r).abs() <= 4.5 * error + 1e-12).all()
    known = data.truth >= 0
    assert (truth[known] == data.truth[known]).all()


def test_drawn_truths_know_nothing_of_each_other():
    """Fair coins, 400 sweeps of 5,000 items: no mean, and no correlation between neighbours in a sweep, or of an item in sweeps
    up to three apart, is beyond 4.5 standard errors; and a draw is the same by any number of threads."""
    data = crowd(2, items=5000, annotations=6000, known=False)
    table, prior = torch.full((data.J, 2, 2), 0.5, dtype=torch.float64), torch.full((2,), 0.5, dtype=torch.float64)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        compiled_passes = Sweeps.over(data, 2)
        coins = torch.stack([compiled_passes.draw(table, prior)[0] for _ in range(400)]).double() * 2 - 1
        both = []
        for threads in (1, 3):
            torch.manual_seed(6)
            both.append(Sweeps.over(data, threads).draw(table, prior)[0])
    assert torch.equal(*both)
    actual = [coins.mean(), *((coins[:, d:] * coins[:, :-d]).mean() for d in (1, 2, 3, 64))]
    actual += [(coins[d:] * coins[:-d]).mean() for d in (1, 2, 3)]
    assert torch.stack(actual).abs().max() < 4.5 / (coins.numel() * 0.98) ** 0.5
    # Sweeps as a whole, and items: 5,400 means, of which none beyond 5.5 standard errors.
    for axis in (0, 1):
        assert coins.mean(axis).abs().max() < 5.5 / coins.shape[axis] ** 0.5


@pytest.mark.parametrize("K", [2, 9])
@pytest.mark.parametrize("rho", [None, (0.0, 0.2, 0.7)])
def test_truths_at_a_point_are_those_of_the_products(K, rho):
    data = crowd(K)
    model = bind(DawidSkene(), data)
    passes = Sweeps.over(data, 2)
    theta = model.conjugacy.m_step(passes.given(data.majority()))
    nodes, both = None if rho is None else torch.tensor(rho, dtype=torch.float64), []
    effect = None if rho is None else SimpleNamespace(nodes=lambda *_: nodes, classes=None)
    with isolated(0):
        by_passes = PassEvaluation(model, data, passes)
        for items in (by_passes, by_passes, TorchEvaluation(model, data, data)):
            probability, published = items.reported(theta, effect)
            both.append((probability, probability if published is None else published))
    for actual in both[:2]:
        for one, other in zip(actual, both[2], strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    assert (rho is None) == torch.equal(*both[0])


@pytest.mark.parametrize(("model", "method"), [("dawid-skene", "em"), ("dawid-skene", "gibbs"), ("one-coin", "em")])
def test_a_fit_makes_its_passes_once(model, method, monkeypatch):
    data, compiled_passes, over = crowd(3), [], Sweeps.over
    monkeypatch.setattr(Sweeps, "over", staticmethod(lambda *args: compiled_passes.append(args) or over(*args)))
    held = []
    layout = run.to_datatree
    monkeypatch.setattr(
        run, "to_datatree", lambda fitted, *args: held.append(fitted.draws.passes) or layout(fitted, *args)
    )
    fit(data, model, method=method, num_samples=5)
    assert len(compiled_passes) == 1
    assert held == [None]  # released before the result is laid out


# Passes in single precision are compiled where they are first needed, for each number of classes: a fast test has two classes.
@pytest.mark.parametrize("method", ["em", "gibbs"])
@pytest.mark.parametrize("K", [2, pytest.param(9, marks=pytest.mark.slow)])
def test_published_probabilities_sum_to_one(K, method):
    """In single precision a sum over many draws does not, of itself."""
    short = {"chains": 1, "warmup": 20} if method == "gibbs" else {}
    data = crowd(K).to(dtype=torch.float32)
    with silent():
        actual = fit(data, "dawid-skene", method=method, num_samples=400, **short)
    for group in ("truth", "calibrated"):
        part = actual.tree[group]["probability"].values
        assert part.dtype == np.float32
        np.testing.assert_allclose(part.sum(-1), 1.0, atol=5e-7)
        assert part.max() <= 1 + 2e-7


@pytest.mark.filterwarnings("ignore:a restart ended higher")
@pytest.mark.parametrize(
    ("model", "K"),
    in_turn(
        itertools.product(MODELS, (3, 9)), 3, lambda m: f"{type(m[0]).__name__}{m[0].prior_correct}-{m[1]}", night=False
    ),
)
def test_em_ends_where_the_products_end(model, monkeypatch, K):
    data = crowd(K)
    options = {"method": "em", "num_samples": 3, "tol": 1e-12, "restarts": 1}
    quick = fit(data, model, **options)
    with isolated(0):
        bound = bind(model, data)
        m_step = MStep(bound, data, Space(check(bound, data)))
    assert isinstance(choose.expectation(m_step), SummedExpectation)
    monkeypatch.setattr(sweeps, "ANNOTATIONS", 10**9)
    slow = fit(data, model, **options)
    assert quick.info["facts"]["log_posterior"] == pytest.approx(slow.info["facts"]["log_posterior"], rel=1e-9)
    np.testing.assert_allclose(quick.probability_as_published(), slow.probability_as_published(), atol=1e-5)
    for name, value in quick.tree["point"].to_dataset().items():
        np.testing.assert_allclose(value, slow.tree["point"][name], atol=1e-4)


@pytest.mark.slow
def test_gibbs_samples_the_same_posterior(monkeypatch):
    """Means over some 2,000 independent draws: within .02 of each other, about five standard errors at worst."""
    data = crowd(3, items=100, workers=6, annotations=500)
    options = {"method": "gibbs", "num_samples": 1500, "seed": 4}
    quick = fit(data, "dawid-skene", **options)
    assert max(quick.info["facts"]["r_hat"].values()) < 1.02
    monkeypatch.setattr(choose, "LARGE", 10**9)
    slow = fit(data, "dawid-skene", **options)
    np.testing.assert_allclose(quick.probability_as_published(), slow.probability_as_published(), atol=0.03)
    for name in ("confusion", "prevalence"):
        one, two = (actual.variable(name).mean(("chain", "draw")) for actual in (quick, slow))
        np.testing.assert_allclose(one, two, atol=0.02)


@pytest.mark.parametrize("K", [2, 9])
def test_same_seed_same_bits_and_no_state(K):
    data = crowd(K)
    one, two = (fit(data, "dawid-skene", method="gibbs", num_samples=30, warmup=10, chains=2, seed=9) for _ in range(2))
    assert (one.draws("confusion") == two.draws("confusion")).all()
    assert (one.truth_draws() == two.truth_draws()).all()


def test_without_numba_the_products_do_it(monkeypatch):
    data = crowd(3)
    quick = fit(data, "dawid-skene", method="em", num_samples=2, tol=1e-10)
    monkeypatch.setattr(sweeps, "compiled", lambda: None)
    assert not sweeps.serves(data, 3)
    slow = fit(data, "dawid-skene", method="em", num_samples=2, tol=1e-10)
    np.testing.assert_allclose(quick.probability_as_published(), slow.probability_as_published(), atol=1e-4)


@pytest.mark.parametrize("error", [OSError, RuntimeError])
def test_without_a_place_for_what_is_compiled_the_products_do_it(error, monkeypatch):
    def nowhere(*_):
        raise error("cannot cache function: no locator available")

    monkeypatch.setattr(sweeps.compiled(), "load", nowhere)
    threads = torch.get_num_threads()
    sweeps.compiled.cache_clear()
    try:
        assert sweeps.compiled() is None
        assert torch.get_num_threads() == threads
    finally:
        sweeps.compiled.cache_clear()


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.with_weights(np.full(data.N, 0.5)),
        lambda data: data.item_label_cells(),
    ],
)
def test_what_they_cannot_take_is_left_to_the_products(change):
    data = change(crowd(3))
    assert not sweeps.serves(data, data.K)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        if data.parent_item is None:
            assert len(fit(data, "dawid-skene", method="em", num_samples=2).truth()) == data.N


@pytest.mark.parametrize("model", ["dawid-skene", "pooled"])
@pytest.mark.parametrize("method", ["em", "gibbs"])
@pytest.mark.parametrize("K", [3, 9])
def test_worker_quality_is_the_same_however_labels_are_counted(model, method, K, monkeypatch):
    """By compiled passes or piece by piece: the same whole numbers, and the same draws from them."""
    data = crowd(K)
    options = {"method": method, "num_samples": 10, "seed": 3} | ({"warmup": 5} if method == "gibbs" else {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        quick = fit(data, model, **options)
        monkeypatch.setattr(
            type(Sweeps.over(data)),
            "counted",
            lambda self, truth: tuple(x[0] for x in counting._directly(truth[None], self.data)),
        )
        if model == "pooled":  # which is not gone through by passes otherwise: none are made
            monkeypatch.setattr(sweeps, "serves", lambda *_: False)
        slow = fit(data, model, **options)
    for name in ("confusion", "prevalence"):
        np.testing.assert_array_equal(quick.variable(name), slow.variable(name))


def test_a_part_that_fails_is_an_error_when_all_have_ended():
    """Parts write to their arguments: nobody may use those before."""
    ended = []

    def part(number):
        if number == 1:
            raise ValueError("the second part")
        time.sleep(0.05 * number)
        ended.append(number)

    run = parallel.Pass.__new__(parallel.Pass)
    run.part = part
    with pytest.raises(ValueError, match="the second part"):
        run(4)
    assert sorted(ended) == [0, 2, 3]


def test_torch_takes_one_thread_beside_passes_with_small_tables(monkeypatch):
    monkeypatch.setattr(choose, "DENSE_CELLS", 0)
    data = crowd(3)
    model = bind(DawidSkene(), data)
    assert choose.threads(data) is None
    assert choose.threads(data, model) == 1
    assert choose.threads(data, bind(HierarchicalDawidSkene(), data)) is None  # no passes
    monkeypatch.setattr(choose, "CELLS", 100)  # of 180 numbers
    assert choose.threads(data, model) is None
    monkeypatch.setattr(sweeps, "ANNOTATIONS", data.A)
    assert choose.threads(data) == 1
