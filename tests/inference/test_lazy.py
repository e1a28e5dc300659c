"""After EM the truths are there; draws, and what follows from them, are made when they are first asked for."""

import dataclasses
import gc
import pickle
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from catalog import quiet_fit, simulated, tiny

import crowdppl
from crowdppl.inference import datatree, result, run
from crowdppl.models import DawidSkene
from crowdppl.posterior.beginning import Beginning

MODELS = ["item-effects", "dawid-skene", "one-coin"]


def by_em(model="item-effects", data=None, **options):
    return quiet_fit(tiny() if data is None else data, model, method="em", seed=3, num_samples=40, **options)


def is_whole(posterior):
    return posterior._complete is None


@pytest.mark.parametrize("independent", [True, False])
@pytest.mark.parametrize("model", MODELS)
def test_the_same_bits_as_all_at_once(monkeypatch, model, independent):
    """Whatever is asked for first."""
    later = by_em(model, independent=independent)
    assert not is_whole(later)
    monkeypatch.setattr(run, "_can_wait", lambda *_: False)
    at_once = by_em(model, independent=independent)
    assert is_whole(at_once)
    pd.testing.assert_frame_equal(later.truth(), at_once.truth())
    assert not is_whole(later)
    pd.testing.assert_frame_equal(later.workers(), at_once.workers())
    assert is_whole(later)
    assert set(later.tree.children) == set(at_once.tree.children)
    for group in at_once.tree.children:
        xr.testing.assert_identical(later.tree[group].to_dataset(), at_once.tree[group].to_dataset())
    varying = {"run", "warnings"}  # seconds differ
    assert {k: v for k, v in later.tree.attrs.items() if k not in varying} == {
        k: v for k, v in at_once.tree.attrs.items() if k not in varying
    }


def test_what_needs_no_draws():
    posterior = by_em(independent=False, data=dataclasses.replace(tiny(), features=None))
    before = posterior.truth()
    for method in ("probability", "probability_as_published", "items", "worker_names", "votes", "known_truth"):
        getattr(posterior, method)()
    assert len(posterior.labels) == 3
    assert posterior.info["facts"]["converged"]
    assert posterior.calibrated
    assert "40 draws" in repr(posterior)
    assert (posterior.kind, posterior.warnings, posterior.alert) == ("approximation", [], "")
    assert posterior.interval_method.startswith("EM gives a point")
    assert posterior.correlation
    assert not is_whole(posterior)
    posterior.prevalence()
    assert is_whole(posterior)
    pd.testing.assert_frame_equal(posterior.truth(), before)


def test_known_truths_inform_the_truths_through_draws(monkeypatch):
    """They are drawn at once, unless rho is given or not used."""
    assert is_whole(by_em(data=tiny(known=True), independent=False))
    assert not is_whole(by_em(data=tiny(known=True), independent=False, rho=0.3))
    assert not is_whole(by_em(data=tiny(known=True)))


def test_a_result_is_whole_when_it_leaves_the_process(tmp_path):
    """By a file, or by pickle."""
    posterior = by_em()
    loaded = crowdppl.load(posterior.save(tmp_path / "p.nc"))
    assert is_whole(loaded)
    fresh = by_em()
    copy = pickle.loads(pickle.dumps(fresh))
    for other in (loaded, copy):
        pd.testing.assert_frame_equal(other.workers(), posterior.workers())


def test_several_threads_ask_at_once(monkeypatch):
    """One of them draws."""
    calls = []
    evaluate = result.evaluate
    monkeypatch.setattr(result, "evaluate", lambda *args: calls.append(1) or evaluate(*args))
    posterior = by_em()
    with ThreadPoolExecutor(4) as pool:
        tables = list(pool.map(lambda _: posterior.workers(), range(4)))
    assert len(calls) == 1
    for table in tables[1:]:
        pd.testing.assert_frame_equal(table, tables[0])


def test_a_request_that_was_stopped_can_be_made_again(monkeypatch):
    whole = by_em().workers()
    posterior = by_em()

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(result, "evaluate", stop)
        with pytest.raises(KeyboardInterrupt):
            posterior.workers()
    assert not is_whole(posterior)
    pd.testing.assert_frame_equal(posterior.workers(), whole)


def test_what_cannot_be_is_refused_in_the_fit(monkeypatch):
    """A likelihood of zero at the point is an error of the fit, not of the first table."""
    data, _, _ = simulated(items=20, seed=1)
    confusion = DawidSkene.confusion
    monkeypatch.setattr(DawidSkene, "confusion", lambda *args: confusion(*args) * np.nan)
    with pytest.raises(crowdppl.CrowdpplError):
        quiet_fit(data, "dawid-skene", method="em", num_samples=3, max_iter=1)


@pytest.mark.parametrize("there", [True, False])
def test_calendars_are_not_searched_for_where_there_are_none(monkeypatch, there):
    """xarray looks for cftime at every index of names; whether it is installed is as before afterwards."""
    monkeypatch.setattr(datatree, "_has_calendars", lambda: there)
    monkeypatch.delitem(sys.modules, "cftime", raising=False)
    with datatree._without_calendars():
        assert ("cftime" in sys.modules) != there
    assert "cftime" not in sys.modules
    by_em().workers()
    assert "cftime" not in sys.modules


def test_threads_do_not_take_each_others_entry_of_the_calendars(monkeypatch):
    """While one thread lays out a group, another waits; nothing remains afterwards."""
    monkeypatch.setattr(datatree, "_has_calendars", lambda: False)
    monkeypatch.delitem(sys.modules, "cftime", raising=False)
    inside, seen = threading.Event(), []

    def first():
        with datatree._without_calendars():
            inside.set()
            time.sleep(0.1)
            seen.append("cftime" in sys.modules)

    def second():
        inside.wait()
        with datatree._without_calendars():
            seen.append("cftime" in sys.modules)

    with ThreadPoolExecutor(2) as pool:
        for call in [pool.submit(first), pool.submit(second)]:
            call.result()
    assert seen == [True, True]
    assert "cftime" not in sys.modules


def test_a_group_is_laid_out_once():
    calls = []

    def lay_out(name):
        calls.append(name)
        time.sleep(0.05)
        return xr.Dataset()

    known = Beginning(["truth"], lay_out, {})
    with ThreadPoolExecutor(3) as pool:
        groups = list(pool.map(lambda _: known["truth"], range(3)))
    assert calls == ["truth"]
    assert all(group is groups[0] for group in groups)


def test_what_is_known_first_keeps_no_compiled_passes(monkeypatch):
    kept = []

    class Passes:
        """Stands for arrays as large as the data."""

    def spy(fit, attrs):
        passes = Passes()
        kept.append(weakref.ref(passes))
        return beginning(dataclasses.replace(fit, draws=dataclasses.replace(fit.draws, passes=passes)), attrs)

    beginning = run.beginning
    monkeypatch.setattr(run, "beginning", spy)
    posterior = by_em()
    gc.collect()
    assert kept[0]() is None
    assert len(posterior.truth()) == len(posterior.items())


def test_true_labels_lay_out_no_more_groups_than_they_need():
    posterior = by_em(independent=False, data=dataclasses.replace(tiny(), features=None))
    posterior.truth()
    assert set(posterior._known._groups) == {"calibrated", "posterior", "truth"}
    assert set(posterior._known.children) == {
        "posterior",
        "truth",
        "calibrated",
        "point",
        "observed_data",
        "constant_data",
    }
    with pytest.raises(KeyError):
        posterior._known["sample_stats"]
