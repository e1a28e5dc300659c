"""Columns with nearly the name of one that is read, and tables with one item or one worker."""

import pandas as pd
import pytest

from crowdppl import Annotations
from crowdppl.errors import silent

ROWS = [(f"t{i}", w, "ab"[(i + j) % 2]) for i in range(4) for j, w in enumerate("uvw")]
FRAME = pd.DataFrame(ROWS, columns=["task", "worker", "label"])


def notes(frame):
    with silent("the frame"):
        return Annotations.from_frame(frame).notes


def test_rows_with_a_value_in_another_spelling_of_a_column():
    said = notes(
        FRAME.assign(label=FRAME["label"].where(FRAME.index != 3), Label=["a" if n == 3 else None for n in range(12)])
    )
    assert any("1 row has a value in the column 'Label' and none in 'label'" in note for note in said)


def test_a_further_spelling_of_a_column():
    assert any("'label', 'Label' differ in capitals" in note for note in notes(FRAME.assign(Label="z")))


@pytest.mark.parametrize("second", [[1.0, 2.0], [1.0, None], [" 1", "2 "], ["1", ""]])
def test_a_second_column_with_the_same_values(second):
    read = FRAME.assign(label=[1, 2] * 6)
    assert not any("has other values" in note for note in notes(read.assign(**{"label.1": second * 6})))
    assert any("has other values" in note for note in notes(read.assign(**{"label.1": [second[0], "3"] * 6})))


@pytest.mark.parametrize("name", ["labels", "label_id", "worker_id", "label_name", "Task ID"])
def test_other_columns(name):
    assert notes(FRAME.assign(**{name: 1})) == ()


def test_one_item_or_one_worker():
    assert any("all 12 annotations are of one item, 'x'" in note for note in notes(FRAME.assign(task="x")))
    assert any("all annotations are by one worker, 'x'" in note for note in notes(FRAME.assign(worker="x")))
    again = pd.concat([FRAME.iloc[::3]] * 2)  # one rater labels all items again
    assert not any("all annotations are by one worker" in note for note in notes(again))
    assert notes(FRAME.iloc[:3]) == ()
    assert notes(FRAME.iloc[::3]) == ()  # each item once, by one worker
