"""Names of others with something before or behind them, and names of one person or item in two scripts or forms."""

import numpy as np
import pandas as pd
import pytest

from crowdppl.data import diagnostics
from crowdppl.data.annotations import Annotations
from crowdppl.data.table.name_forms import other_forms
from crowdppl.data.table.names_with_more import notes_on_accounts
from crowdppl.errors import silent

PEOPLE = ["ann", "bob", "cem"]


def accounts(plain, others, common=False):
    """Return notes on workers of whom each has two names, on items of their own."""
    workers = np.array([*plain, *others], dtype=object)
    items = 4
    rows = [(n if common or k < len(plain) else n + items, k) for k in range(len(workers)) for n in range(items)]
    item, worker = (np.array(codes) for codes in zip(*rows, strict=True))
    return notes_on_accounts(item, worker, workers, "x")


@pytest.mark.parametrize(
    "form", ["u/{}", "{}_1", "{}1", "user:{}", "{}.csv", "annotations_{}", "{} (expert)", "{}:0", "{}-2024-01-01", "worker {}"]
)  # fmt: skip
def test_accounts_of_the_same_people(form):
    others = [form.format(name) for name in PEOPLE]
    (note,) = accounts(PEOPLE, others)
    assert f"such as {others[0]!r} and 'ann', and no item in common" in note
    assert not accounts(PEOPLE, others, common=True)


def test_numbers_with_letters():
    assert "with 'w' before it" in accounts(["1", "2", "3"], ["w1", "w2", "w3"])[0]


@pytest.mark.parametrize(
    ("plain", "others"),
    [
        (PEOPLE, ["anne", "bobby", "cem2"]),
        (["1", "2", "3", "4"], ["11", "12", "13", "14"]),
        (["A1", "A2", "A3"], ["A11", "A21", "A31"]),
        (["gpt", "claude"], ["gpt-4", "claude-3"]),
        (["ann", "bob"], ["ann_x", "bob_x", "dan_x", "eve_x"]),
    ],
)
def test_other_people(plain, others):
    assert not accounts(plain, others)


@pytest.mark.parametrize(
    ("role", "names"),
    [
        ("worker", ["+49123456", "49123456"]),
        ("worker", ["+49 123-456", "0049123456"]),
        ("worker", ["M\u00fcller", "Mueller"]),
        ("worker", ["\u041f\u0451\u0442\u0440", "\u041f\u0435\u0442\u0440"]),
        ("worker", ["W-01", "w1"]),
        ("worker", ["Ann Lee", "A. Lee"]),
        ("task", ["\u0661\u0662", "12"]),
        ("task", ["\u0967", "1"]),
        ("task", ["a.jpg", "a.png"]),
        ("task", ["d/a.wav", "d/a.mp3"]),
    ],
)  # fmt: skip
def test_one_name_in_two_forms(role, names):
    for given in (names, names[::-1]):
        assert [set(pair) for pair in other_forms([*given, "b.txt"], role, set())] == [set(names)]


@pytest.mark.parametrize(
    ("role", "names"),
    [
        ("worker", ["+49123456", "+49123457", "0000-0001-2345-6789", "12345"]),
        ("worker", ["Ann Lee", "Ann Ray", "Ann"]),
        *(
            ("worker", ["x", name, f"{name}{more}"])
            for name, more in (("claude", "-opus"), ("random", " forest"), ("Junior", " Doctor"))
        ),
        ("worker", ["expert", "Expert One"]),
        ("task", ["a.jpg", "a.wav"]),
        ("task", ["a.jpg", "b.png", "c.v2"]),
    ],
)
def test_different_names(role, names):
    assert other_forms(names, role, set()) == []


def sentences(first, second, truth, seed=0):
    """Return sentences of a review on items in two forms, each labelled by two workers of their own."""
    rng = np.random.default_rng(seed)
    rows = []
    for names, who, true in ((first, "ab", truth[0]), (second, "cd", truth[1])):
        rows += [(name, w, int(t ^ (rng.random() < 0.1))) for name, t in zip(names, true, strict=True) for w in who]
    with silent():
        data = Annotations.from_frame(pd.DataFrame(rows, columns=["task", "worker", "label"]))
        return [s for s in diagnostics.review(data) if s.startswith("items of one group")]


@pytest.mark.parametrize("form", ["img-{}.png", "x/{}", "{}", "https://x.org/?id={}", "IMG_{:03d}"])
def test_items_of_groups_in_two_forms(form):
    numbers = range(1, 41)
    same, other = np.random.default_rng(1).integers(2, size=(2, 40))
    first, second = [f"img_{n}.jpg" for n in numbers], [form.format(n) for n in numbers]
    (sentence,) = sentences(first, second, (same, same))
    assert f"such as 'img_1.jpg' and {second[0]!r}" in sentence
    # Other items of the same numbers, as of another language, and other numbers.
    assert not sentences(first, second, (same, other))
    assert not sentences(first, [form.format(n + 100) for n in numbers], (same, same))
    # Few labels do not show that items of two batches are the same.
    assert not sentences(first[:15], second[:15], (same[:15], same[:15]))


def test_items_with_numbers_of_many_digits():
    """Python converts no text of more than 4,300 digits to a number."""
    long = "1" * 5_000
    same = np.random.default_rng(1).integers(2, size=40)
    first, second = ([f"{before}{n}x{long}{n}y" for n in range(40)] for before in ("a", "b"))
    assert sentences(first, second, (same, same))


def test_accounts_among_many_names_that_begin_others():
    """Each name begins many others, and each addition is of its own: what a quadratic search takes minutes for."""
    names = ["w" * (n % 60 + 1) + f"_{n // 60}" for n in range(4_000)] + ["a" * n for n in range(1, 900)]
    item = np.arange(len(names))
    assert not notes_on_accounts(item, item, np.array(names, dtype=object), "x")
    others = [*PEOPLE, *(f"{name} (expert)" for name in PEOPLE)]
    item = np.arange(len(names) + len(others))
    (note,) = notes_on_accounts(item, item, np.array([*names, *others], dtype=object), "x")
    assert "'ann (expert)' and 'ann'" in note
