"""What must follow when the data change in a way whose effect is known, for every model of the catalogue."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import CASES, in_turn, quiet_fit, simulated, tiny

import crowdppl
from crowdppl import Annotations
from crowdppl.inference.backends import evaluation
from crowdppl.isolation import isolated
from crowdppl.model.base import provides
from crowdppl.model.bound import bind
from crowdppl.model.contract import check
from crowdppl.models import DawidSkene, LabelSets

# Models fitted by steps in closed form from a majority vote: their result is a function of the data alone.
CLOSED = [c for c in CASES if {"em", "gibbs"} <= set(c.methods) and not provides(c.model, "states_per_class")]
FLAT = [c for c in CLOSED if c.name.endswith("-flat") and c.name != "item-subtypes-flat"]
EXACT = {"method": "em", "tol": 1e-14, "num_samples": 2, "max_iter": 5000}


def rebuilt(data, *, items=None, workers=None, labels=None, rows=None, twice=False):
    """The same annotations with identifiers in another order, rows in another order, or all of them twice."""
    columns = [data.items[data.item], data.workers[data.worker], data.labels[data.label]]
    rows = np.arange(data.A) if rows is None else rows
    if twice:
        rows = np.concatenate([rows, rows])
    known = {data.items[i]: data.labels[k] for i, k in enumerate(data.truth.tolist()) if k >= 0}
    given = {"items": data.items, "workers": data.workers, "labels": data.labels}
    given |= {
        name: order for name, order in (("items", items), ("workers", workers), ("labels", labels)) if order is not None
    }
    features = None if data.features is None else pd.DataFrame(data.features.numpy(), index=data.items)
    crowd = None if data.worker_features is None else pd.DataFrame(data.worker_features.numpy(), index=data.workers)
    weights = None if data.weight is None else pd.Series(data.weight.numpy(), index=data.items)
    criterion = None if data.criterion is None else data.criteria[data.criterion][rows]
    built = Annotations.from_arrays(
        *(c[rows] for c in columns),
        truth=known or None,
        features=features,
        worker_features=crowd,
        kind=None if criterion is None else "ordinal",
        criterion=criterion,
        **given,
    )
    return built.with_weights(weights)


def by_item(model, sites, data):
    """Log prior of the sites, log-likelihood and class probabilities of each item at them."""
    layout = model.expand(data)
    parameters, log_prior = model.conditioned(sites, layout)
    joint = model.item_log_joint(parameters, layout)
    with torch.random.fork_rng():
        marginal, probability = evaluation.by_item(model, parameters, joint, layout, data)
    return log_prior, marginal, probability


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_order_of_items_workers_and_rows_is_no_matter(case):
    """At given parameters, items and workers in another order have the same densities, in that order.

    Workers have features here, so that no network knows them by their number.
    """
    with isolated(3), torch.no_grad():
        data = tiny(3, known=True, classes=case.classes, features=case.features, criteria=case.criteria, weighted=True)
        data = data.with_features(workers=torch.randn(data.J, 2))
        model = bind(case.model, data)
        nodes = check(model, model.expand(data))
        per_worker = {s for s, n in nodes.items() if any(f.name == "worker" for f in n["cond_indep_stack"])}
        per_item = {s for s, n in nodes.items() if any(f.name == "item" for f in n["cond_indep_stack"])}
        by_number = "network" if not case.features else None  # without features an item's vector is a row of a table
        items, workers = np.random.default_rng(0).permutation(data.N), np.random.default_rng(1).permutation(data.J)
        if by_number:
            items = np.arange(data.N)
        moved = rebuilt(
            data,
            items=data.items[items],
            workers=data.workers[workers],
            rows=np.random.default_rng(2).permutation(data.A),
        )
        sites = {name: node["value"] for name, node in nodes.items()}
        other = {
            name: value[torch.as_tensor(workers)]
            if name in per_worker
            else value[torch.as_tensor(items)]
            if name in per_item
            else value
            for name, value in sites.items()
        }
        one, two = by_item(model, sites, data), by_item(model, other, moved)
        torch.testing.assert_close(two[0], one[0], rtol=1e-12, atol=1e-12)
        for a, b in zip(one[1:], two[1:], strict=True):
            torch.testing.assert_close(b, a[torch.as_tensor(items)], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "case",
    [c for c in CLOSED if not provides(c.model, "reading") and not isinstance(c.model, LabelSets)],
    ids=lambda c: c.name,
)
def test_names_of_classes_are_no_matter(case):
    """Classes in another order: the same probabilities, prevalence and confusions under the other numbers."""
    K = case.classes
    data, _, _ = simulated(items=60, classes=K, seed=2)
    order = np.roll(np.arange(K), 1)
    one, two = (quiet_fit(d, case.model, **EXACT) for d in (data, rebuilt(data, labels=data.labels[order])))
    columns = [f"p_{k}" for k in range(K)]
    np.testing.assert_allclose(one.truth()[columns], two.truth()[columns], atol=1e-6)
    a = one.tree["point"].to_dataset()
    b = two.tree["point"].to_dataset().reindex({d: a[d] for d in ("true_label", "given_label") if d in a.dims})
    for name in a.data_vars:
        np.testing.assert_allclose(a[name], b[name], atol=1e-6, err_msg=name)


@pytest.mark.parametrize("case", FLAT, ids=lambda c: c.name)
def test_data_twice_double_the_counts_and_leave_the_estimate(case):
    """Every item and all its annotations once more, as further items: the same maximum, twice the log-likelihood."""
    data, _, _ = simulated(items=80, classes=case.classes, seed=5)
    label = [f"{i} again" for i in data.items.tolist()]
    names = [str(i) for i in data.items.tolist()]
    item = data.item.numpy()
    both = Annotations.from_arrays(
        np.concatenate([np.array(names)[item], np.array(label)[item]]),
        np.tile(data.workers[data.worker], 2),
        np.tile(data.labels[data.label], 2),
        labels=data.labels,
        workers=data.workers,
    )
    one, two = (quiet_fit(d, case.model, **EXACT) for d in (data, both))
    for name in one.tree["point"].data_vars:
        np.testing.assert_allclose(two.tree["point"][name], one.tree["point"][name], atol=1e-5, err_msg=name)
    assert two.info["facts"]["log_likelihood"] == pytest.approx(2 * one.info["facts"]["log_likelihood"], rel=1e-9)


@pytest.mark.parametrize("case", CLOSED, ids=lambda c: c.name)
def test_multiplicity_is_the_item_written_out(case):
    """An item that stands in the data twice has the likelihood of two, and moves the M step as two."""
    with isolated(1), torch.no_grad():
        data, _, _ = simulated(items=20, classes=case.classes, seed=1)
        again = {name: torch.cat([getattr(data, name), getattr(data, name)]) for name in ("worker", "label", "truth")}
        written = replace(
            data,
            item=torch.cat([data.item, data.item + data.N]),
            items=np.concatenate([data.items, data.items + data.N]),
            features=torch.cat([data.features] * 2),
            **again,
        )
        twice = replace(data, multiplicity=torch.full((data.N,), 2.0))
        sites = {name: node["value"] for name, node in check(bind(case.model, data), data).items()}
        joint = bind(case.model, data).item_log_joint(bind(case.model, data).conditioned(sites, data)[0], data)
        r = joint.softmax(-1)
        a = bind(case.model, data).m_step(2 * r, twice)
        b = bind(case.model, data).m_step(torch.cat([r, r]), written)
        for name in a:
            torch.testing.assert_close(a[name], b[name], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("case", in_turn(CLOSED, 3))
def test_nobody_and_nothing_change_nothing(case):
    """A worker without an annotation leaves all others as they were; an item without one leaves the maximum of the likelihood.

    Under a prior an item nobody judged counts nothing either: its truth is drawn from the prevalence and says nothing of it.
    """
    data, _, _ = simulated(items=60, classes=case.classes, seed=3)
    more = rebuilt(data, workers=[*data.workers.tolist(), 999])
    one, two = (quiet_fit(d, case.model, **EXACT) for d in (data, more))
    columns = [f"p_{k}" for k in range(case.classes)]
    np.testing.assert_allclose(two.truth()[columns], one.truth()[columns], atol=1e-6)
    plain = data if data.features is None else replace(data, features=None)
    extended = rebuilt(plain, items=[*plain.items.tolist(), 999])
    three = quiet_fit(extended, case.model, **EXACT)
    np.testing.assert_allclose(three.truth()[columns].iloc[:-1], one.truth()[columns], atol=1e-5)
    for name in one.tree["point"].data_vars:
        np.testing.assert_allclose(three.tree["point"][name], one.tree["point"][name], atol=1e-5, err_msg=name)


@pytest.mark.parametrize("case", in_turn([c for c in CLOSED if c.exchangeable], 3))
def test_a_worker_who_guesses_hardly_moves_the_truth(case):
    """One who gives each label to each item with equal chance, beside 5 annotations an item, right with probability .8.

    Of 300 items fewer than 2% change their decision and the probabilities move by less than .02 in the mean. Models that hold all
    workers for equal (majority vote, pooled) cannot see who guesses: there fewer than 6%, and .06. So too where a true grade is
    what a worker drawn from the crowd says (graded facets).
    """
    K = case.classes
    good = np.tile(0.8 * np.eye(K) + (1 - np.eye(K)) * 0.2 / (K - 1), (12, 1, 1))
    data, _, _ = simulated(items=300, classes=K, seed=4, parameters={"confusion": good})
    rng = np.random.default_rng(0)
    columns = (data.items[data.item], data.workers[data.worker], data.labels[data.label])
    guesses = (data.items, np.full(data.N, 999), data.labels[rng.integers(0, K, data.N)])
    more = Annotations.from_arrays(
        *(np.concatenate(pair) for pair in zip(columns, guesses, strict=True)), labels=data.labels
    )
    one, two = (quiet_fit(d, case.model, **EXACT).tree["truth"]["probability"] for d in (data, more))
    two = two.sel(item=one["item"])
    changed = float((one.argmax("true_label") != two.argmax("true_label")).mean())
    moved = float(np.abs(one - two).mean())
    equal = case.name.startswith(("majority-vote", "pooled", "graded-facets"))
    assert changed < (0.06 if equal else 0.02)
    assert moved < (0.06 if equal else 0.02)


@pytest.mark.parametrize("case", in_turn([c for c in CASES if c.features or c.classes == 2], 2))
def test_shards_add_up(case):
    """Statistics and log-likelihood of shards of items sum to those of the whole."""
    with isolated(2), torch.no_grad():
        data = tiny(7, items=9, workers=4, classes=case.classes, weighted=True)
        model = bind(case.model, data)
        nodes = check(model, model.expand(data))
        if any(f.name == "item" for n in nodes.values() for f in n["cond_indep_stack"]):
            pytest.skip("a site for every item: its shard would be cut with it")
        sites = {name: node["value"] for name, node in nodes.items()}
        whole = by_item(model, sites, data)
        shards = [data.batch(torch.as_tensor(part)) for part in ([0, 3, 8], [1, 2, 4, 5], [6, 7])]
        parts = [by_item(model, sites, shard) for shard in shards]
        torch.testing.assert_close(torch.cat([p[1] for p in parts]).sum(), whole[1].sum(), rtol=1e-12, atol=0)
        r = torch.rand(data.N, model.states)
        counts = data.counts.expected(r)
        summed = sum(
            s.counts.expected(r[torch.as_tensor(i)])
            for s, i in zip(shards, ([0, 3, 8], [1, 2, 4, 5], [6, 7]), strict=True)
        )
        torch.testing.assert_close(summed, counts, rtol=1e-12, atol=1e-12)


def test_weight_one_is_no_weight_and_weight_zero_is_no_annotation():
    data, _, _ = simulated(items=40, seed=6)
    plain = quiet_fit(data, DawidSkene(), **EXACT)
    ones = quiet_fit(data.with_weights(np.ones(data.N)), DawidSkene(), **EXACT)
    np.testing.assert_array_equal(ones.tree["truth"]["probability"], plain.tree["truth"]["probability"])
    weights = np.ones(data.N)
    weights[:10] = 0
    without = data.batch(torch.arange(10, data.N))
    one, two = (quiet_fit(d, DawidSkene(), **EXACT) for d in (data.with_weights(weights), without))
    np.testing.assert_allclose(one.tree["truth"]["probability"][10:], two.tree["truth"]["probability"], atol=1e-6)
    prevalence = one.tree["point"]["prevalence"].values
    np.testing.assert_allclose(one.tree["truth"]["probability"][:10], np.tile(prevalence, (10, 1)), atol=1e-6)


def test_weight_two_is_the_annotations_twice():
    """Where only the likelihood of an item changes: every annotation of an item written twice."""
    data, _, _ = simulated(items=40, seed=6)
    rows = np.arange(data.A)
    doubled = rebuilt(data, rows=np.concatenate([rows, rows[data.item < 10]]))
    weighted = data.with_weights(np.where(np.arange(data.N) < 10, 2.0, 1.0))
    for model in (DawidSkene(), DawidSkene.maximum_likelihood()):
        one, two = (quiet_fit(d, model, **EXACT).tree["truth"]["probability"] for d in (weighted, doubled))
        np.testing.assert_allclose(one, two, atol=1e-6)


WEIGHTED = ("item-effects", "dawid-skene", "one-coin", "pooled", "mace", "item-difficulty", "glad", "majority-vote")


@pytest.mark.slow
@pytest.mark.parametrize("model", WEIGHTED)
def test_whole_weights_are_so_many_rows_for_workers(model):
    """Labels, accuracies and their intervals are those of the rows written out, with correlated errors allowed for as by default.

    Accuracies are means over 2,000 draws, with standard deviations below .12: they differ by less than .015 in all but one of 300
    runs.
    """
    data, _, _ = simulated(items=60, workers=6, seed=3)
    weights = np.random.default_rng(0).integers(1, 5, data.N)
    rows = np.arange(data.A).repeat(weights[data.item.numpy()])
    pair = data.with_weights(weights), rebuilt(data, rows=rows)
    one, two = (quiet_fit(d, model, method="em", seed=0, num_samples=2000) for d in pair)
    np.testing.assert_allclose(one.tree["truth"]["probability"], two.tree["truth"]["probability"], atol=1e-6)
    tables = [p.workers().set_index("worker").sort_index() for p in (one, two)]
    for column in ("accuracy", "accuracy_low", "accuracy_high"):
        gap = np.abs(tables[0][column] - tables[1][column]).max()
        assert gap < (0.015 if column == "accuracy" else 0.04), (column, gap)
    assert one.info["rho"] == two.info["rho"]


@pytest.mark.parametrize("model", ["item-effects", "mace", "hierarchical", "majority-vote", "prototype-mixture"])
def test_gibbs_sampling_takes_whole_weights(model):
    data, _, _ = simulated(items=40, workers=5, seed=4)
    weighted = data.with_weights(np.where(np.arange(data.N) < 20, 3.0, 1.0))
    posterior = quiet_fit(weighted, model, method="gibbs", chains=2, warmup=20, num_samples=20)
    assert np.isfinite(posterior.workers()["accuracy"]).all()
    if model != "item-effects":
        with pytest.raises(crowdppl.ModelError, match="not whole numbers"):
            crowdppl.fit(data.with_weights(np.full(data.N, 0.5)), model, method="gibbs")


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1.0, 2.0], "shape"),
        ([1.0, 1.0, -1.0, 1.0], "negative"),
        ([1.0, np.nan, 1.0, 1.0], "not finite"),
        ({"item 0": 1.0, "item 1": 1.0}, "no row for 2 tasks"),
    ],
)
def test_bad_weights_are_refused(weights, said):
    from crowdppl import DataError

    with pytest.raises(DataError, match=r"^weights[^\n]*$") as refused:
        tiny().with_weights(weights)
    assert said in str(refused.value)


def test_weights_by_name_find_their_items():
    data = tiny()
    by_name = {name: float(n) for n, name in enumerate(reversed(data.items.tolist()))}
    assert data.with_weights(by_name).weight.tolist() == [3.0, 2.0, 1.0, 0.0]
    assert data.with_weights(by_name).with_weights(None).weight is None
