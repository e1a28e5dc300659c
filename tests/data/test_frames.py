"""Tables of other libraries are taken wherever a frame is: Arrow's PyCapsule and the dataframe interchange protocol."""

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from catalog import quiet_fit
from crowds import crowd_with_characters

import crowdppl
from crowdppl import Annotations, CrowdpplWarning, DataError, criticism
from crowdppl.crowdkit.aggregation import DawidSkene, MajorityVote
from crowdppl.data.label_sets import pairs


class Capsule:
    """A table of a library that nobody knows, with Arrow's PyCapsule protocol only."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


class Interchange:
    """One with the dataframe interchange protocol only."""

    def __init__(self, table):
        self._table = table

    def __dataframe__(self, nan_as_null=False, allow_copy=True):
        return self._table.__dataframe__(nan_as_null=nan_as_null, allow_copy=allow_copy)


def polars(frame):
    return pytest.importorskip("polars").from_arrow(arrow(frame))


def arrow(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


KINDS = {
    "Arrow table": arrow,
    "Arrow batch": lambda frame: arrow(frame).combine_chunks().to_batches()[0],
    "Arrow reader": lambda frame: arrow(frame).to_reader(),
    "PyCapsule": lambda frame: Capsule(arrow(frame)),
    "interchange": lambda frame: Interchange(arrow(frame)),
    "Polars": polars,
}
WORDS = pd.DataFrame(
    {"item": ["b", "a", "b", "ä"], "who": ["x", "x", "y", "y"], "label": ["no", "yes", None, "yes"], "n": [4, 3, 2, 1]}
)


def same(one, two):
    for name in ("item", "worker", "label", "truth"):
        assert getattr(one, name).tolist() == getattr(two, name).tolist(), name
    for name in ("items", "workers", "labels"):
        assert getattr(one, name).tolist() == getattr(two, name).tolist(), name
    assert one.item_column == two.item_column
    assert one.notes == two.notes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::crowdppl.CrowdpplWarning")
def test_annotations_of_every_kind_of_table(kind):
    """The same annotations as from pandas: strings, integers, missing labels, known truths, times."""
    convert = KINDS[kind]
    options = {"worker": "who", "timestamp": "n"}
    expected = Annotations.from_frame(WORDS, **options, truth=pd.DataFrame({"item": ["a"], "label": ["no"]}))
    data = Annotations.from_frame(
        convert(WORDS), **options, truth=convert(pd.DataFrame({"item": ["a"], "label": ["no"]}))
    )
    same(data, expected)
    assert data.timestamp.tolist() == expected.timestamp.tolist()
    numbers = pd.DataFrame({"task": [1, 2, 1], "worker": [7, 7, 8], "label": [0, 1, 0]})
    same(Annotations.from_frame(convert(numbers)), Annotations.from_frame(numbers))
    counts = pd.DataFrame({"item": ["i", "j"], "a": [3, 0], "b": [0, 2]})
    same(Annotations.from_counts(convert(counts)), Annotations.from_counts(counts))
    sets = pd.DataFrame({"item": [1, 2], "worker": [1, 1], "label": ["a;b", "a"]})
    same(pairs(convert(sets)), pairs(sets))


@pytest.mark.parametrize("kind", KINDS)
def test_categories_declare_classes(kind):
    if kind == "interchange" and pa.__version__ < "15":
        pytest.skip("pyarrow cannot hand on categories by this protocol")
    frame = pd.DataFrame({"task": [1, 2, 1], "worker": [7, 7, 8], "label": pd.Categorical(list("bab"), list("cba"))})
    table = frame if kind != "Polars" else None
    if table is None:
        pl = pytest.importorskip("polars")
        table = pl.DataFrame(
            {"task": [1, 2, 1], "worker": [7, 7, 8], "label": pl.Series(list("bab"), dtype=pl.Enum(list("cba")))}
        )
    else:
        table = KINDS[kind](frame)
    assert Annotations.from_frame(table).labels.tolist() == list("cba")


@pytest.mark.parametrize("kind", KINDS)
def test_features_of_every_kind_of_table(kind):
    convert = KINDS[kind]
    frame = pd.DataFrame({"item": ["b", "a", "b"], "worker": ["u", "u", "v"], "label": [1, 0, 1]})
    items = pd.DataFrame({"item": ["a", "b", "c"], "x": [1.0, 2.0, 3.0], "y": [1, 2, 3]})
    workers = pd.DataFrame({"worker": ["v", "u"], "age": [30, 40]})
    expected = Annotations.from_frame(
        frame, features=items.set_index("item"), worker_features=workers.set_index("worker")
    )
    data = Annotations.from_frame(convert(frame), features=convert(items), worker_features=convert(workers))
    assert data.features.tolist() == expected.features.tolist() == [[2, 2], [1, 1]]
    assert data.worker_features.tolist() == [[40], [30]]
    new = data.unseen(convert(pd.DataFrame({"item": ["z"], "x": [0.5], "y": [1]})))
    assert new.items.tolist() == ["z"]
    assert new.features.tolist() == [[0.5, 1]]
    with pytest.raises(DataError, match="no column 'task' or 'item' with identifiers"):
        data.with_features(convert(items.rename(columns={"item": "id"})))


@pytest.mark.parametrize("kind", ["Arrow table", "PyCapsule", "interchange", "Polars"])
def test_every_function_that_takes_a_frame(kind):
    frame, truth = crowd_with_characters(items=60, each=30)
    gold = pd.DataFrame({"task": truth.index[:20], "label": truth.to_numpy()[:20]})
    convert = KINDS[kind]
    posterior = quiet_fit(convert(frame), method="em", num_samples=100)
    plain = quiet_fit(frame, method="em", num_samples=100)
    np.testing.assert_array_equal(posterior.probability(), plain.probability())
    assert criticism.calibration(posterior, convert(gold)).accuracy == criticism.calibration(plain, gold).accuracy
    assert crowdppl.posterior.workers.gold_accuracy(posterior, convert(gold)).equals(
        crowdppl.posterior.workers.gold_accuracy(plain, gold)
    )
    updated = crowdppl.update(posterior, convert(frame.head(5).assign(worker="somebody else")))
    assert len(updated.annotation_index()[0]) == len(frame) + 5
    assert MajorityVote().fit_predict(convert(frame)).equals(MajorityVote().fit_predict(frame))
    assert DawidSkene(5).fit_predict(convert(frame)).equals(DawidSkene(5).fit_predict(frame))


def test_arrays_of_other_libraries():
    item, worker, label = pa.array(["a", "b"]), pa.chunked_array([[1], [1]]), pa.array([1, 0])
    data = Annotations.from_arrays(item, worker, label)
    assert (data.items.tolist(), data.workers.tolist(), data.labels.tolist()) == (["a", "b"], [1], [0, 1])
    pl = pytest.importorskip("polars")
    same(Annotations.from_arrays(pl.Series(["a", "b"]), pl.Series([1, 1]), pl.Series([1, 0])), data)


class Lazy:
    def collect(self):
        return self


def test_what_is_no_table():
    for wrong in ([1, 2], "x", 3, Capsule, Lazy()):
        with pytest.raises(
            DataError, match=r"is a \w+; pass a pandas DataFrame, or a table that supports Arrow"
        ) as caught:
            Annotations.from_frame(wrong)
        assert "\n" not in str(caught.value)
        with pytest.raises(DataError, match="or a table"):
            crowdppl.fit(wrong)
    with pytest.raises(DataError, match=r"call its collect\(\) first"):
        Annotations.from_frame(Lazy())
    with pytest.raises(DataError, match="cannot be read as a table"):
        Annotations.from_frame(pa.array([1, 2]))


def test_known_truths_of_other_items_are_counted():
    frame, truth = crowd_with_characters(items=60, each=30)
    posterior = quiet_fit(frame, method="em", num_samples=100)
    gold = {**dict(zip(truth.index[:4], truth[:4], strict=True)), "nobody": 0, "nothing": 1, "never": 2}
    with pytest.warns(CrowdpplWarning, match=r"3 of 7 known truths are of items not in the result \('nobody'"):
        criticism.calibration(posterior, gold)
    with pytest.warns(CrowdpplWarning, match=r"3 of 7 known truths are of items not in the annotations.*left out"):
        Annotations.from_frame(frame, truth=gold)
    with pytest.warns(CrowdpplWarning, match=r"1 of 1 known truths are of items not in .*its items are like 'item"):
        Annotations.from_frame(frame, truth={"nobody": 0})


def test_truths_may_be_called_as_the_annotations_are():
    frame = pd.DataFrame({"photo": ["a", "b", "c"], "worker": [1, 1, 1], "says": ["x", "y", "x"]})
    for names in (("photo", "says"), ("item", "says"), ("photo", "label"), ("task", "label")):
        truth = pd.DataFrame([["b", "x"]], columns=list(names))
        assert Annotations.from_frame(frame, task="photo", label="says", truth=truth).truth.tolist() == [-1, 0, -1]


UNRELATED = {
    "lists of text": lambda: pa.array([["p"], ["q", "r"], [], None], pa.list_(pa.string_view())),
    "list views": lambda: pa.array([["p"], ["q", "r"], [], None], pa.list_view(pa.string())),
    "maps": lambda: pa.array([[("a", 1), ("a", 2)]] * 4, pa.map_(pa.string_view(), pa.int64())),
    "dictionary of lists": lambda: pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 1]), pa.array([["a"], ["b"]])),
    "durations": lambda: pa.array([1, 2, 3, None], pa.duration("s")),
    "intervals": lambda: pa.array([pa.MonthDayNano([1, 2, 3])] * 4),
    "bytes": lambda: pa.array([b"a"] * 4, pa.binary_view()),
    "unions": lambda: pa.UnionArray.from_dense(
        pa.array([0] * 4, pa.int8()), pa.array(range(4), pa.int32()), [pa.array([1, 2, 3, 4])]
    ),
    "runs": lambda: pa.RunEndEncodedArray.from_arrays([4], pa.array(["a"])),
    "years 9999": lambda: pa.array([datetime.datetime(9999, 1, 1)] * 4, pa.timestamp("us")),
}


@pytest.mark.parametrize("kind", UNRELATED)
@pytest.mark.filterwarnings("ignore::crowdppl.CrowdpplWarning")
def test_an_unrelated_column_of_any_type_does_no_harm(kind):
    """A column that is not needed is not converted; one that is needed is taken or refused in one line."""
    try:
        extra = UNRELATED[kind]()
    except (AttributeError, NotImplementedError, pa.ArrowException):
        pytest.skip("this version of pyarrow has no such type")
    table = pa.table({"task": list("aabb"), "worker": list("uvuv"), "label": list("xyyy"), "x": extra})
    tables = [table, table.to_pandas(types_mapper=pd.ArrowDtype)]
    try:
        tables.append(pytest.importorskip("polars").from_arrow(table))
    except Exception as error:  # types that Polars lacks
        assert type(error).__module__.startswith("polars")  # noqa: PT017
    for given in tables:
        assert Annotations.from_frame(given).A == 4
        for role in ("task", "label", "timestamp", "seconds"):
            try:
                assert Annotations.from_frame(given, **{role: "x"}).A >= 3
            except DataError as error:
                refusal = str(error)
                assert "\n" not in refusal


def test_objects_of_polars_do_no_harm():
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"task": list("aabb"), "worker": list("uvuv"), "label": list("xyyy")})
    assert Annotations.from_frame(table.with_columns(polars.Series("x", [object()] * 4, dtype=polars.Object))).A == 4


@pytest.mark.parametrize("role", [0, 1, 2])
def test_an_array_of_records_is_no_column(role):
    columns = [list("aabb"), list("uvuv"), list("xyyy")]
    for wrong in (np.zeros(4, dtype=[("a", int), ("b", float)]), np.zeros(4, dtype="V3"), np.zeros(4, dtype="m8")):
        columns[role] = wrong
        with pytest.raises(DataError, match=r"is an array of records|is of the type"):
            Annotations.from_arrays(*columns)
