"""Cells with the names of several workers, and objects that name a worker."""

import time

import numpy as np
import pandas as pd
import pytest

from crowdppl import Annotations
from crowdppl.data.table.identifiers import Coded
from crowdppl.data.table.several import _joined_lists
from crowdppl.errors import silent


def read(rows, **options):
    with silent("the frame"):
        return Annotations.from_frame(pd.DataFrame(rows, columns=["task", "worker", "label"]), **options)


@pytest.mark.parametrize("sign", [";", "; ", "|", ", "])
def test_joined_names_are_paired_with_joined_labels(sign):
    rows = [("uvw", "aba"), ("uvw", "bba"), ("wuv", "aaa")]
    data = read([(n, sign.join(team), sign.join(said)) for n, (team, said) in enumerate(rows)])
    assert (data.workers.tolist(), data.labels.tolist(), len(data.label)) == (["u", "v", "w"], ["a", "b"], 9)
    assert [data.labels[k] for k in data.label.tolist()] == list("ababbaaaa")
    assert any("are paired with the lists of labels; 9 annotations in all" in note for note in data.notes)


def test_cells_of_different_length():
    data = read([(1, "u;v", "a;a"), (2, "w", "b"), (3, "u;w;v", "a;b;b")])
    assert (data.workers.tolist(), len(data.label)) == (["u", "v", "w"], 6)


@pytest.mark.parametrize(
    ("rows", "workers"),
    [
        ([(1, "u;v", "a;b"), (1, "w;x", "a;b"), (2, "u;w", "a;c")], 3),  # sets of labels by pairs of people
        ([(1, "Lee, Ann", "a, a"), (1, "Poe, Bob", "b, b")], 2),
        ([(1, "u;v", "a;a"), (2, "u;v", "b")], 1),
        ([(1, "u;u", "a;a"), (2, "v;u", "b;b")], 2),
        ([(1, "u;v", "a;a"), (2, "u;v", "b;b")], 1),
        ([(1, "auth0|111", "cat|dog"), (1, "google-oauth2|333", "cat|cat"), (2, "auth0|111", "dog|dog")], 2),
        ([(1, "auth0|111", "cat|cat"), (2, "111", "cat")], 2),
        ([(1, "ann;uk", "1;1"), (1, "bob;us", "0;1"), (2, "ann;uk", "0;0")], 2),
        ([(1, "Smith, J., MD", "1,1,0"), (1, "Doe, A., PhD", "0,1,0")], 2),
    ],
)
def test_what_is_no_list_of_workers_stays_as_it_is(rows, workers):
    assert len(read(rows).workers) == workers


def test_joined_cells_stay_where_the_caller_says_so():
    rows = [(1, "u;v", "a;a"), (2, "v;u", "b;b")]
    assert read(rows).workers.tolist() == ["u", "v"]
    assert read(rows, several="keep").workers.tolist() == ["u;v", "v;u"]
    assert read(rows, labels=["a;a", "b;b"]).workers.tolist() == ["u;v", "v;u"]


def test_people_of_one_name_are_told_apart():
    people = [{"id": 1, "name": "u"}, {"id": 2, "name": "v"}, {"id": 3, "name": "u"}]
    data = read([(n, who, "ab"[n % 2]) for n in range(3) for who in people])
    assert data.workers.tolist() == ["u (1)", "v", "u (3)"]
    assert any("2 workers have the name 'u' and are told apart" in note for note in data.notes)
    data = read([(n, who | {"time": n}, "ab"[n % 2]) for n in range(3) for who in people[:2]])
    assert data.workers.tolist() == ["u", "v"]


@pytest.mark.parametrize(
    ("person", "workers"),
    [
        (lambda n, who: {"_id": 1000 * n + ord(who), "name": who}, ["u", "v"]),  # an identifier for each annotation
        (lambda n, who: {"name": who, "id": n % 2}, ["u", "v"]),
        (lambda n, who: {"id": 1000 * n + ord(who), "email": f"{who}@x"}, ["u@x", "v@x"]),
        (lambda n, who: {"email": f"{who}@x", "id": 2 * ord(who) + n % 2}, ["u@x", "v@x"]),
        (lambda n, who: {"username": who, "id": 2 * ord(who) + n % 2}, ["u", "v"]),
    ],
)
def test_numbers_of_annotations_tell_no_people_apart(person, workers):
    assert read([(n, person(n, who), "ab"[n % 2]) for n in range(4) for who in "uv"]).workers.tolist() == workers


def test_joined_names_of_one_worker_each_take_no_time():
    rng = np.random.default_rng(0)
    who = np.array([f"L{n}, Ann" for n in range(500)], dtype=object)
    worker = Coded(rng.integers(500, size=200_000), who)
    label = Coded(rng.integers(3, size=200_000), np.array(["a", "b", "c"], dtype=object))
    begin = time.process_time()
    assert _joined_lists(worker, label) == (worker, label, None)
    assert time.process_time() - begin < 0.1
