"""Labels that are numbers: recognised, read and refused."""

import numpy as np
import pandas as pd
import pytest
from number_crowds import crowd

import crowdppl
from crowdppl import Annotations
from crowdppl.data import datasets
from crowdppl.data.numeric import NumericAnnotations
from crowdppl.errors import CrowdpplError, CrowdpplWarning, DataError, OptionError


def frame(label, **columns):
    size = len(label)
    return pd.DataFrame(
        {"task": [n // 2 for n in range(size)], "worker": [n % 2 for n in range(size)], "label": label, **columns}
    )


@pytest.mark.parametrize(
    "label",
    [
        [0.5, 1.0, 2.0, 3.5],
        ["0.5", "1", "2", "3.5"],
        pd.array([0.5, 1.0, 2.0, 3.5], dtype="Float64"),
        pd.array(["0.5", "1", "2", "3.5"], dtype="string[pyarrow]"),
        [0.5, "1", 2, "3.5"],
    ],
)
def test_numbers_that_are_not_whole_are_recognised_with_a_note(label):
    with pytest.warns(CrowdpplWarning, match="are read as numbers; kind='nominal' reads them as classes"):
        data = Annotations.from_frame(frame(label))
    assert isinstance(data, NumericAnnotations)
    assert data.value.tolist() == [0.5, 1.0, 2.0, 3.5]
    assert any("are read as numbers" in note for note in data.notes)


@pytest.mark.parametrize("label", [list(range(22)), [float(n) for n in range(22)], [str(n) for n in range(22)]])
def test_many_whole_numbers_are_not_guessed(label):
    with pytest.raises(
        DataError, match=r"22 different whole numbers from 0 to 21; say what they are with kind='numeric'"
    ):
        Annotations.from_frame(frame(label))
    assert Annotations.from_frame(frame(label), kind="numeric").value.tolist() == list(range(22))
    assert Annotations.from_frame(frame(label), kind="nominal").K == 22
    assert Annotations.from_frame(frame(label), labels=label).K == 22


@pytest.mark.parametrize(
    "label", [[0, 1, 2, 20] * 6, ["a", "1.5", "2", "3"], [True, False, True, False], ["1", "x", "2", "3"]]
)
def test_other_labels_are_classes(label):
    assert isinstance(Annotations.from_frame(frame(label)), Annotations)


def test_arrays_and_files(tmp_path):
    table = frame([10, 20, 30, 40])
    table.to_csv(tmp_path / "x.csv", index=False)
    table.to_parquet(tmp_path / "x.parquet")
    expected = Annotations.from_frame(table, kind="numeric")
    for data in (
        Annotations.from_csv(tmp_path / "x.csv", kind="numeric"),
        Annotations.from_parquet(tmp_path / "x.parquet", kind="numeric"),
        crowdppl.read(tmp_path / "x.csv", kind="numeric"),
        Annotations.from_arrays(table["task"], table["worker"], table["label"], kind="numeric"),
    ):
        assert data.value.tolist() == expected.value.tolist()
        assert data.items.tolist() == expected.items.tolist()
    wide = pd.DataFrame({"id": [1, 2], "ann": [3.5, 4.0], "bob": [3.0, np.nan]})
    wide.to_csv(tmp_path / "w.csv", index=False)
    assert crowdppl.read(tmp_path / "w.csv", format="wide", kind="numeric").A == 3


def test_missing_labels_are_dropped_and_counted():
    given = frame(["1.5", "", "n/a", "nicht bekannt", "2", "3"])
    with pytest.warns(CrowdpplWarning, match=r"dropped 3 of 6 rows without a label \(rows 2, 3, 4\)"):
        data = Annotations.from_frame(given, kind="numeric", missing="nicht bekannt")
    assert data.value.tolist() == [1.5, 2.0, 3.0]
    with pytest.warns(CrowdpplWarning, match="dropped 1 of 4"):
        assert Annotations.from_frame(frame([1.5, np.nan, 2, 3]), kind="numeric").A == 3


def test_a_decimal_comma():
    data = Annotations.from_frame(frame(["1,5", "2", "3,25", "4"]), kind="numeric")
    assert data.value.tolist() == [1.5, 2.0, 3.25, 4.0]
    assert any("decimal comma" in note for note in data.notes)


@pytest.mark.parametrize(
    ("label", "options", "error", "words"),
    [
        (["1.5", "two", "3", "4"], {}, DataError, r"row 2: 'two' is not a number"),
        (["1,250", "2,500", "3", "4"], {}, DataError, r"rows 1, 2: '1,250', '2,500' are not a number"),
        (["80%", "20%", "3", "4"], {}, DataError, r"'80%', '20%' are not a number"),
        ([1.0, np.inf, 2.0, 3.0], {}, DataError, r"row 2: the number is infinite"),
        ([np.nan] * 4, {}, DataError, "every label is missing"),
        ([True, False, True, True], {}, DataError, "True and False"),
        ([1.0, 2.0, 3.0, 11.0], {"scale": (0, 10)}, DataError, r"row 4: numbers outside of the scale from 0 to 10"),
        ([1.0, 2.0, 3.0, 4.0], {"scale": (10, 0)}, OptionError, "lowest and the highest"),
        ([1.0, 2.0, 3.0, 4.0], {"scale": (0, 5, 10)}, OptionError, "lowest and the highest"),
        ([1.0, 2.0, 3.0, 4.0], {"scale": ["a", "b"]}, OptionError, "number"),
        ([1.0, 2.0, 3.0, 4.0], {"scale": (0, 5), "kind": "nominal"}, OptionError, "scale= is that of numbers"),
        ([1.0, 2.0, 3.0, 4.0], {"other_labels": ["x"]}, OptionError, "other_labels= is about classes"),
        ([1.0, 2.0, 3.0, 4.0], {"map": {1: "a"}}, OptionError, "map= is about classes"),
        ([1.0, 2.0, 3.0, 4.0], {"worker_features": np.ones((2, 1))}, OptionError, "worker_features= is not used"),
        ([1.0, 2.0, 3.0, 4.0], {"truth": {0: 1.0, 9: "x"}}, DataError, "'x' is not a number"),
    ],
)
def test_what_is_refused(label, options, error, words):
    with pytest.raises(CrowdpplError, match=words) as caught:
        Annotations.from_frame(frame(label), **{"kind": "numeric", **options})
    assert type(caught.value) is error
    assert "\n" not in str(caught.value)


def test_an_item_has_one_true_number():
    table = frame([1.5, 2.0, 3.0, 4.0], gold=[1.0, 2.0, None, 3.0])
    with pytest.raises(DataError, match="two different true numbers for item 0"):
        Annotations.from_frame(table, kind="numeric", truth="gold")
    data = Annotations.from_frame(table.assign(gold=[1.0, 1.0, None, 3.0]), kind="numeric", truth="gold")
    assert data.truth.tolist() == [1.0, 3.0]
    with pytest.warns(CrowdpplWarning, match="1 of 2 known truths are of items not in the annotations"):
        data = Annotations.from_frame(table, kind="numeric", truth={0: 2.5, 7: 1.0})
    assert data.truth[0] == 2.5


@pytest.mark.parametrize(("repeats", "values"), [("keep", [1.0, 2.0, 5.0]), ("last", [2.0, 5.0])])
def test_repeated_annotations(repeats, values):
    table = pd.DataFrame({"task": [0, 0, 1], "worker": ["a", "a", "b"], "label": [1.0, 2.0, 5.0]})
    assert Annotations.from_frame(table, kind="numeric", repeats=repeats).value.tolist() == values
    with pytest.raises(DataError, match="annotated the item before"):
        Annotations.from_frame(table, kind="numeric", repeats="refuse")


def test_items_and_workers_without_annotations():
    data = Annotations.from_frame(frame([1.0, 2.0]), kind="numeric", items=[0, 5], workers=[0, 1, 2])
    assert (data.N, data.J) == (2, 3)


def test_the_spacing_of_values():
    assert Annotations.from_frame(frame([1, 3, 5, 9]), kind="numeric").spacing == 2
    values = np.random.default_rng(0).normal(size=400)
    assert Annotations.from_frame(frame(values), kind="numeric").spacing == 0
    assert Annotations.from_frame(frame([4, 4]), kind="numeric").spacing == 0


def test_order_of_rows_does_not_matter():
    table = crowd()[0]
    one = Annotations.from_frame(table, kind="numeric", items=range(80))
    other = Annotations.from_frame(table.sample(frac=1, random_state=1), kind="numeric", items=range(80))
    np.testing.assert_allclose(one.means()[0], other.means()[0])


@pytest.mark.parametrize("name", ["movie-reviews", "we8there", "emotion", "asset-meaning"])
def test_public_sets_that_say_so(name, public):
    data, truth = public(name)
    assert isinstance(data, NumericAnnotations)
    assert truth.dtype.kind in "fi" or not len(truth)
    assert datasets.folder() is not None
