"""Names and numbers by which looking for doubts took a time or memory that grew with a power of their size."""

import time

import numpy as np
import pandas as pd
import pytest

from crowdppl.data.readers.odd_worker import note_on_odd_worker
from crowdppl.data.readers.wide_doubts import _is_zero
from crowdppl.data.table.items_in_doubt import _SUM, notes_on_exchange
from crowdppl.data.table.scales_in_doubt import _COUNTED, notes_on_scales


def seconds(call):
    start = time.process_time()
    call()
    return time.process_time() - start


@pytest.mark.parametrize("name", ["a" + "-" * 50_000 + "total ", "a " * 25_000 + "total ", "total" + " " * 50_000])
def test_names_with_rulers_are_looked_at_once(name):
    assert seconds(lambda: _SUM.fullmatch(name)) < 1


@pytest.mark.parametrize(
    ("name", "before", "behind"),
    [
        ("q1 total", "q1", None),
        ("q1 - sub total", "q1 - sub", None),
        ("q1 -_ subtotal", "q1", None),
        ("a total b mean", "a total b", None),
        ("x_grand total", "x", None),
        (" q\n2  Summe", " q\n2", None),
        ("Sub total: q1", None, "q1"),
        ("total", None, None),
        ("q1total", None, None),
    ],
)
def test_names_of_sums(name, before, behind):
    match = _SUM.fullmatch(name)
    assert (match["before"], match["behind"]) == (before, behind) if match else before is behind is None


@pytest.mark.parametrize(
    "name", ["a(" + " " * 50_000, "a" + " (" * 25_000, "a" + " " * 50_000 + "1", "a (" + "1" * 50_000]
)
def test_labels_with_long_runs_are_looked_at_once(name):
    assert seconds(lambda: _COUNTED.fullmatch(name)) < 1


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("cat (3)", "cat"),
        ("cat[ n = 12 ]", "cat"),
        ("big cat (=3)", "big cat"),
        ("c (1) (2)", "c (1)"),
        ("cat  45 %", "cat"),
        ("c 5 10%", "c 5"),
        ("cat (n)", None),
        ("cat10%", None),
        ("3 (4)", None),
        ("cat (3", None),
    ],
)
def test_labels_with_a_number(name, label):
    match = _COUNTED.fullmatch(name)
    assert (match["label"] if match else None) == label


def test_free_texts_of_many_workers_take_the_memory_of_the_annotations(monkeypatch):
    counted, bincount = [], np.bincount
    monkeypatch.setattr(np, "bincount", lambda x, **more: counted.append(int(x.max())) or bincount(x, **more))
    item, worker = np.repeat([0, 1], 1_000), np.tile(np.arange(1_000), 2)
    names = np.array(["a", "b"], dtype=object), np.arange(1_000)
    # Each worker has a text of its own for both items.
    notes = notes_on_exchange((item, worker, worker), names, np.arange(1_000), "x")
    assert len(notes) == 1
    assert "100% of the pairs of labels of one worker are equal, but 0% of those of one item" in notes[0]
    assert max(counted) < 1_000


def test_a_column_of_true_labels_beside_many_workers():
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=40)
    columns = {f"w{n}": np.where(rng.random(40) < 0.7, truth, 1 - truth) for n in range(400)}
    table = pd.DataFrame({"task": np.arange(40), **columns, "expert": truth}).astype(str)
    at = list(range(1, table.shape[1]))
    assert "'expert' is read as a worker, but is named unlike all others" in note_on_odd_worker(table, at, "x")[0]
    assert seconds(lambda: note_on_odd_worker(table, at, "x")) < 1


def test_annotations_are_counted_once_for_all_labels_that_differ_in_a_letter(monkeypatch):
    names = np.array([f"label{a}{b}" for a in "abcdefg" for b in "abcdefgh"], dtype=object)
    rng = np.random.default_rng(0)
    label = rng.integers(len(names), size=100_000)
    item = rng.integers(2_000, size=100_000)
    worker = rng.integers(1_000, size=100_000)
    calls, bincount = [], np.bincount
    monkeypatch.setattr(np, "bincount", lambda x, **more: calls.append(len(x)) or bincount(x, **more))
    assert notes_on_scales(label, worker, item, names, np.arange(1_000), "x") == []
    assert sum(calls) <= 2 * len(label)


@pytest.mark.parametrize("dtype", [object, "string", "string[pyarrow]"])
def test_texts_are_no_zeros(dtype):
    assert not _is_zero(pd.Series(["a", "b"], dtype=dtype))
    assert not _is_zero(pd.Series(["0", "b"], dtype=dtype))
    assert _is_zero(pd.Series(["0", "0.0"], dtype=dtype))
