"""Columns that hold more than their part: labels in names of items, names of items in labels, a worker for each annotation."""

import pandas as pd
import pytest

from crowdppl.data.annotations import Annotations
from crowdppl.errors import silent

SAID = [(f"i{n}", w, "xy"[(n * 7 + k * 3) % 5 < 2]) for n in range(6) for k, w in enumerate(("ann", "bob", "cem"))]


def notes(change):
    with silent():
        data = Annotations.from_frame(
            pd.DataFrame(map(change, *zip(*SAID, strict=True)), columns=["task", "worker", "label"])
        )
    return " ".join(data.notes)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda i, w, s: (f"{s}/{i}.jpg", w, s), "items such as 'y/i0.jpg' have the label in their name, 'y', in all"),
        (lambda i, w, s: (f"{i}-{s.upper()}", w, s), "items such as 'i0-Y' have the label in their name"),
        (lambda i, w, s: (i, w, f"{i}_{s}"), "labels such as 'i0_y' begin with the names of the items"),
        (lambda i, w, s: (i, f"{i}{w}", s), "each annotation has a worker of its own, such as 'i0ann'"),
    ],
)  # fmt: skip
def test_columns_with_more_than_their_part(change, said):
    assert said in notes(change)


def test_all_annotations_are_looked_at():
    rows = [(f"{'y' if n % 2 else 'x'}/{n}", w, "xy"[n % 2]) for n in range(600) for w in "abc"]
    with silent():
        data, other = (
            Annotations.from_frame(pd.DataFrame(part, columns=["task", "worker", "label"]))
            for part in (rows, [*rows, ("x/0", "d", "y")])
        )
    assert any("in their name" in note for note in data.notes)
    assert not any("in their name" in note for note in other.notes)


@pytest.mark.parametrize(
    "change",
    [
        lambda i, w, s: (i, w, s),
        lambda i, w, s: (f"{'y' if i < 'i3' else 'x'}/{i}", w, s),  # true labels, which workers do not always give
        lambda i, w, s: (f"x/{i}", w, s),
        lambda i, w, s: (i, f"{i}{w}" if i > "i1" else w, s),
        lambda i, w, s: (i, w, f"{i}{s}" if w == "ann" else s),
        lambda i, w, s: (f"{i} x-y", w, s),  # of two systems that are compared
        lambda i, w, s: (f"{i} x-y", w, "x" if i < "i3" else "y"),
        lambda i, w, s: (f"{i}:x:1|y:2", w, s),
        lambda i, w, s: (f"Is {i} x or y?", w, s),
        lambda i, w, s: (f"{s}/{i}-{w}", w, s),  # one annotation of each item
    ],
)
def test_columns_of_their_part(change):
    sentences = notes(change)
    assert "in their name" not in sentences
    assert "names of the items" not in sentences
    assert "a worker of its own" not in sentences
