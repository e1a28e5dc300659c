"""Numbers of workers that may be codes, means, of another unit or of a turned scale."""

import numpy as np
import pandas as pd
import pytest

from crowdppl.data.annotations import Annotations
from crowdppl.data.table.numbers_in_doubt import notes_on_numbers
from crowdppl.errors import silent

N = 30


def notes(change, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.uniform(1, 9, N)
    table = np.round(truth[:, None] + 0.4 * rng.normal(size=(N, 4)), 1)
    change(table)
    rows = [(n, "abcd"[j], table[n, j]) for n in range(N) for j in range(4) if not np.isnan(table[n, j])]
    with silent():
        data = Annotations.from_frame(pd.DataFrame(rows, columns=["task", "worker", "label"]), kind="numeric")
    return " ".join(data.notes)


def column(at, function):
    def change(table):
        table[:, at] = function(table)

    return change


def codes(table):
    table[::9, 2] = -999


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (codes, "4 annotations are '-999' beside numbers from"),
        (column(3, lambda t: t[:, :3].mean(1).round(2)), "the numbers of the worker 'd' are the means of those of all others"),
        (column(2, lambda t: 1000 * t[:, 2]), "the numbers of the worker 'c' are about 1,000 times larger"),
        (column(1, lambda t: t[:, 1] / 10), "'b' are about 10 times smaller than those of others"),
        (column(0, lambda t: 10 - t[:, 0]), "the numbers of the worker 'a' fall where those of others rise (correlation -0.9"),
    ],
)  # fmt: skip
def test_numbers_that_may_be_meant_otherwise(change, said):
    assert said in notes(change)


@pytest.mark.parametrize(
    "change",
    [
        lambda table: None,
        column(0, lambda t: t[:, 0] + 3),
        column(0, lambda t: 2 * t[:, 0]),
        column(0, lambda t: np.random.default_rng(5).uniform(1, 9, N).round(1)),
        column(3, lambda t: t[:, :3].mean(1).round()),
        column(2, lambda t: np.where(np.arange(N) < 24, np.nan, 10 - t[:, 2])),
        lambda table: np.copyto(table, table * 100),
    ],
)
def test_numbers_of_people(change):
    sentences = notes(change)
    assert not any(word in sentences for word in ("beside numbers", "the means of", "on the same items", "fall where"))


@pytest.mark.parametrize("code", [99, 999, -999])
def test_numbers_on_which_all_agree_are_no_codes(code):
    def agreed(table):
        table[::10] = code

    assert "beside numbers" not in notes(agreed)

    def disputed(table):
        table[::10, :3] = code

    assert f"'{code}' beside numbers" in notes(disputed)


def test_means_of_repeated_numbers():
    """Who gives the means of another one's three numbers summarizes one worker, not all others."""
    table = np.round(np.random.default_rng(0).uniform(1, 9, (N, 3)), 1)
    rows = [(n, "a", v) for n in range(N) for v in table[n]] + [(n, "d", round(table[n].mean(), 2)) for n in range(N)]
    with silent():
        data = Annotations.from_frame(pd.DataFrame(rows, columns=["task", "worker", "label"]), kind="numeric")
    assert not any("the means of" in note for note in data.notes)


def test_many_items_and_workers_take_no_table():
    """A table of all items and workers would take 8 GB."""
    rng = np.random.default_rng(0)
    item, worker = np.repeat(np.arange(4_000_000, step=2_000), 5), rng.integers(500, size=10_000)
    value = rng.uniform(1, 9, 2_000)[item // 2_000] + rng.normal(0, 0.4, 10_000)
    workers = np.array([f"w{n}" for n in range(500)], dtype=object)
    assert not notes_on_numbers(item, worker, value, workers, "x")
    (note,) = notes_on_numbers(item, worker, np.where(worker == 7, 10 - value, value), workers, "x")
    assert "'w7' fall where" in note
    (note,) = notes_on_numbers(item, worker, np.where(worker == 7, 100 * value, value), workers, "x")
    assert "'w7' are about 100 times larger" in note


@pytest.mark.parametrize("factor", [1e300, 1e306, 1e-310, 0.0])
def test_numbers_of_any_size(factor):
    def change(table):
        table *= factor

    assert "fall where" not in notes(change)
