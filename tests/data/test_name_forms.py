"""Names of items and workers that may be one, in forms that addresses, accounts and file systems give them."""

import numpy as np
import pytest

from crowdppl.data.table.identifier_forms import notes_on
from crowdppl.data.table.name_forms import other_forms


@pytest.mark.parametrize(
    ("role", "names"),
    [
        ("worker", ["ann@x.org", "ann+2@x.org"]),
        ("worker", ["ann.lee@gmail.com", "annlee@googlemail.com"]),
        ("worker", ["0000-0001-2345-6789", "https://orcid.org/0000-0001-2345-6789"]),
        ("worker", ["ann", "ann (2)"]),
        ("worker", ["W01", "W1"]),
        ("judge", ["judge 1", "judge 01"]),
        ("task", ["img_007", "img_7"]),
        ("task", ["data/a.jpg", "a.jpg"]),
        ("task", ["item_0", "0"]),
        ("task", ["task:1", "1"]),
        ("task", ["Item001", "1"]),
        ("task", ["#12", "12"]),
        ("task", ["C:\\data\\a.jpg", "a.jpg"]),
    ],
)
def test_names_in_another_form(role, names):
    assert other_forms([*names, "other"], role, set()) == [(names[1], names[0])] or other_forms(
        [*names, "other"], role, set()
    ) == [(names[0], names[1])]


@pytest.mark.parametrize(
    ("role", "names"),
    [
        ("worker", ["ann (1)", "ann (2)"]),
        ("worker", ["ann.lee@x.org", "annlee@x.org"]),
        ("worker", ["W1", "W10", "W100"]),
        ("worker", ["p_1.05", "p_1.5"]),
        ("worker", ["10:01", "10:1", "10:02"]),
        ("task", ["x/1", "1"]),
        ("task", ["#metoo", "metoo"]),
        ("task", ["covid19", "19"]),
        ("task", ["a/x.jpg", "b/x.jpg"]),
        ("task", ["img_001", "img_010", "img_100"]),
    ],
)
def test_names_of_their_own(role, names):
    assert other_forms(names, role, set()) == []


@pytest.mark.parametrize(
    ("names", "part"),
    [
        (["81.2.69.142", "2.125.160.216", "175.16.199.0"], "addresses in the Internet"),
    ],
)
def test_workers_that_are_no_people(names, part):
    assert part in " ".join(notes_on(np.array(names, dtype=object), "worker", "x"))


@pytest.mark.parametrize(
    "names",
    [
        ["ann_2024-01-01", "bob_2024-01-02"],
        ["1.2.3", "1.2.4"],
        ["1.0.0.1", "1.0.0.2", "2.1.0.0", "3.0.0.0"],
        ["10:00:00:01:02", "1:2:3:4:5"],
        ["10.0.0.1", "10.0.0.2", "10.0.0.3"],
        ["20240101", "20240102"],
    ],
)
def test_workers_with_numbers(names):
    assert notes_on(np.array(names, dtype=object), "worker", "x") == []


@pytest.mark.parametrize(
    ("role", "names"), [("task", ["the", "cat", "."]), ("worker", ["*", "**", "u"]), ("worker", ["1,2", "2,1"])]
)
def test_signs_and_seats_are_names(role, names):
    assert notes_on(np.array(names, dtype=object), role, "x") == []
