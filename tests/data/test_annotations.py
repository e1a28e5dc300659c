"""What goes into Annotations and what comes out, in tables: inputs that work, that warn, and that are refused."""

import dataclasses
import datetime
import enum
import re
import uuid
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from crowdppl.data import fields
from crowdppl.data.annotations import Annotations
from crowdppl.errors import CrowdpplError, CrowdpplWarning, DataError, OptionError, silent

BASE = pd.DataFrame({"task": [1, 1, 2, 2], "worker": [1, 2, 1, 2], "label": ["a", "b", "a", "a"]})
BIG = 2**63
UUIDS = [uuid.UUID(int=n) for n in (5, 3, 2**127)]
WORDS = ["зима", "😀👍🏽", "مرحبا", "שלום", "naïve", "日本", " "]  # the last is a no-break space, not blank
frame_of = Annotations.from_frame


def triples(data):
    """Return the annotations in the caller's identifiers, in order."""
    return list(
        zip(
            data.items[data.item.numpy()].tolist(),
            data.workers[data.worker.numpy()].tolist(),
            data.labels[data.label.numpy()].tolist(),
            strict=True,
        )
    )


def refused(make, kind, *parts):
    """Check the class of a refusal, that it is one line, and that it names each part."""
    with pytest.raises(CrowdpplError) as caught:
        make()
    assert type(caught.value) is kind
    text = str(caught.value)
    assert "\n" not in text
    for part in parts:
        assert part in text, f"{part!r} not in {text!r}"


# ---------------------------------------------------------------------- identifiers that just work

IDENTIFIERS = {
    "gaps": ([100, 7, 55], [100, 7, 55], np.int64),
    "negative": ([-5, 0, 3], [-5, 0, 3], np.int64),
    "small type": (np.array([3, 1, 2], dtype=np.uint8), [3, 1, 2], np.int64),
    "2^63 and more": ([BIG, BIG + 1, 2**64 - 1], [BIG, BIG + 1, 2**64 - 1], np.uint64),
    "2^63 beside small": ([1, BIG + 1, 2], [1, BIG + 1, 2], np.uint64),
    "2^63 as objects": (pd.Series([np.uint64(BIG), 1, 2], dtype=object), [BIG, 1, 2], np.uint64),
    "2^63 nullable": (pd.array([BIG, 1, 2], dtype="UInt64"), [BIG, 1, 2], np.uint64),
    "2^63 arrow": (pd.array([BIG, 1, 2], dtype="uint64[pyarrow]"), [BIG, 1, 2], np.uint64),
    "least int64": ([-BIG, BIG - 1, 0], [-BIG, BIG - 1, 0], np.int64),
    "unsigned but small": (np.array([3, 1, 2], dtype=np.uint64), [3, 1, 2], np.int64),
    "nullable": (pd.array([3, 1, 2], dtype="Int64"), [3, 1, 2], np.int64),
    "whole floats": ([3.0, 1.0, -2.0], [3, 1, -2], np.int64),
    "whole floats, half precision": (np.array([3, 1, 2], dtype=np.float16), [3, 1, 2], np.int64),
    "whole decimals": ([Decimal(3), Decimal("1.0"), Decimal(2)], [3, 1, 2], np.int64),
    "floats beside integers": (pd.Series([3, 1.0, 2], dtype=object), [3, 1, 2], np.int64),
    "booleans": ([True, False, True], [True, False], np.bool_),
    "uuid": (UUIDS, [str(u) for u in UUIDS], object),
    "dates": ([datetime.date(2020, 1, d) for d in (2, 1, 3)], ["2020-01-02", "2020-01-01", "2020-01-03"], object),
    "enumeration": ([enum.Enum("Side", "left right").left] * 3, ["Side.left"], object),
    "leading zeros": (["007", "7", "07"], ["007", "7", "07"], object),
    "looks missing": (["NA", "None", "null"], ["NA", "None", "null"], object),
    "other scripts": (WORDS[:3], WORDS[:3], object),
    "right to left": (WORDS[2:5], WORDS[2:5], object),
    "string type": (pd.array(["b", "a", "c"], dtype="string"), ["b", "a", "c"], object),
    "categorical": (pd.Categorical(["b", "a", "b"], categories=["z", "a", "b"]), ["b", "a"], object),
    "categorical integers": (pd.Categorical([9, 4, 9]), [9, 4], np.int64),
    "categorical, bad category unused": (pd.Categorical(["b", "a", "b"], categories=["a", "b", 1]), ["b", "a"], object),
    "new lines": (["a\nb", "a\n\nc", "a"], ["a\nb", "a\n\nc", "a"], object),
}


@pytest.mark.parametrize("role", ["task", "worker"])
@pytest.mark.parametrize("case", IDENTIFIERS)
def test_identifiers_come_back_in_order_of_appearance(case, role):
    given, names, dtype = IDENTIFIERS[case]
    other = {"task": "worker", "worker": "task"}[role]
    frame = pd.DataFrame({role: given, other: [0, 1, 2], "label": ["x", "y", "x"]})
    with silent("in leading zeros or decimals only") as alike:
        data = frame_of(frame)
    kept = data.items if role == "task" else data.workers
    assert kept.tolist() == names
    assert [type(k) for k in kept.tolist()] == [type(n) for n in names]
    assert kept.dtype == dtype
    assert [note for note in data.notes if f"for no name, the annotations are of several {role}s" not in note] == alike
    assert bool(alike) == (case == "leading zeros")
    assert (len(data.notes) > len(alike)) == (case == "looks missing")


@pytest.mark.parametrize("case", [case for case in IDENTIFIERS if case != "enumeration"])
def test_labels_are_sorted_unless_categorical(case):
    given, names, dtype = IDENTIFIERS[case]
    if "bad category" in case:
        refused(lambda: frame_of(BASE.iloc[:3].assign(label=given)), DataError, "declared labels", "mix str and int")
        return
    with silent():  # on leading zeros
        data = frame_of(pd.DataFrame({"task": [0, 1, 2], "worker": [0, 0, 0], "label": given}), keep_missing=True)
    declared = isinstance(given, pd.Categorical)
    assert data.labels.tolist() == (given.categories.tolist() if declared else sorted(names))
    assert data.labels.dtype == dtype
    written = [str(int(v)) if isinstance(v, (float, Decimal)) else str(v) for v in pd.Series(given).tolist()]
    assert [str(label) for _, _, label in triples(data)] == written


def test_names_in_many_scripts_survive():
    with pytest.warns(CrowdpplWarning, match="white space around worker names"):
        data = frame_of(pd.DataFrame({"task": [*WORDS[:6], "x"], "worker": WORDS, "label": list("abababa")}))
    assert data.workers.tolist() == WORDS


def test_text_that_no_file_can_hold_is_refused():
    """It could be fitted, but not saved: it is refused before anything is computed."""
    for broken in ("\ud800", "a\0b"):
        refused(
            lambda broken=broken: Annotations.from_arrays([1, 2, 3], [1, 1, 1], [broken, "b", broken]),
            DataError,
            "column 'label', rows 1, 3",
            repr(broken),
            "which result files cannot store; remove it",
        )
        refused(lambda broken=broken: frame_of(BASE, truth={1: broken}), DataError, "the known truths, row 1")
        refused(lambda broken=broken: frame_of(BASE, labels=["a", "b", broken]), DataError, "the declared labels")


def test_unsorted_rows_are_sorted_by_item_and_keep_their_order_within():
    frame = pd.DataFrame({"task": [9, 2, 9, 2, 9], "worker": list("vwxyz"), "label": [1, 0, 2, 1, 0]})
    frame.index = [4, 4, 0, -1, 7]  # an index means nothing
    data = frame_of(frame)
    assert data.item.tolist() == [0, 0, 0, 1, 1]
    assert triples(data) == [(9, "v", 1), (9, "x", 2), (9, "z", 0), (2, "w", 0), (2, "y", 1)]
    assert (data.N, data.J, data.K, data.A) == (2, 5, 3, 5)
    assert data.truth.tolist() == [-1, -1]
    assert data.annotations_per_item.tolist() == [3, 2]
    assert data.annotations_per_worker.tolist() == [1] * 5
    assert repr(data) == "Annotations(5 annotations of 2 items by 5 workers in 3 classes)"


def test_columns_by_other_names_and_by_number():
    named = frame_of(BASE.set_axis(["q", "who", "what"], axis=1), task="q", worker="who", label="what")
    numbered = frame_of(BASE.set_axis([0, 1, 2], axis=1), task="0", worker=1, label="2")
    item = frame_of(BASE.rename(columns={"task": "item"}))
    assert triples(named) == triples(numbered) == triples(item) == triples(frame_of(BASE))


def test_unused_columns_may_hold_anything():
    frame = BASE.assign(x=[[1], {}, None, b"x"], y=0.5)
    frame.columns = ["task", "worker", "label", "x", "x"]
    assert triples(frame_of(frame)) == triples(frame_of(BASE))


# ---------------------------------------------------------------------- classes


def test_declared_but_unused_class_keeps_its_column():
    data = frame_of(BASE, labels=["c", "b", "a"])
    assert data.labels.tolist() == ["c", "b", "a"]
    assert data.votes.tolist() == [[0, 1, 1], [0, 0, 2]]


def test_categorical_labels_declare_their_categories_in_order():
    column = pd.Categorical(["a", "b", "a", None], categories=["z", "b", "a"])
    with pytest.warns(CrowdpplWarning, match=r"dropped 1 of 4 rows without a label \(row 4\)"):
        data = frame_of(BASE.assign(label=column))
    assert data.labels.tolist() == ["z", "b", "a"]
    assert data.votes.tolist() == [[0, 1, 1], [0, 0, 1]]
    assert Annotations.from_arrays(BASE.task, BASE.worker, pd.Categorical([1, 2, 1, 1], [3, 2, 1])).K == 3
    assert frame_of(BASE.assign(label=column.set_categories(["a", "b"])).iloc[:3], labels=["b", "a", "q"]).K == 3


@pytest.mark.parametrize("label", ["a", 7, True, -1])
def test_one_observed_class_warns(label):
    with pytest.warns(CrowdpplWarning, match=f"every label is '?{label}'?; declare labels") as warnings:
        data = frame_of(BASE.assign(label=label))
    assert data.labels.tolist() == [label]
    assert data.notes == tuple(str(w.message) for w in warnings)


@pytest.mark.parametrize("labels", [range(3), np.array([0, 1, 2]), pd.Index([0, 1, 2]), (0.0, 1.0, 2.0)])
def test_ways_to_declare(labels):
    data = frame_of(BASE.assign(label=[0, 2, 0, 0]), labels=labels)
    assert data.labels.tolist() == [0, 1, 2]
    assert data.label.tolist() == [0, 2, 0, 0]


def test_items_and_workers_without_annotations():
    data = frame_of(BASE, items=[3, 2, 1], workers=[5, 2, 1])
    assert data.items.tolist() == [3, 2, 1]
    assert data.workers.tolist() == [5, 2, 1]
    assert data.annotations_per_item.tolist() == [0, 2, 2]
    assert data.annotations_per_worker.tolist() == [0, 2, 2]
    assert data.votes.tolist() == [[0, 0], [2, 0], [1, 1]]
    assert data.majority().tolist() == [[0.5, 0.5], [1, 0], [0.5, 0.5]]
    assert data.mean_by_worker(torch.ones(4, 2, dtype=torch.float64)).tolist() == [[0, 0], [1, 1], [1, 1]]
    table = torch.randn(3, 2, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    log_likelihood = data.counts.log_likelihoods(table)
    assert log_likelihood[0].tolist() == [0, 0]
    torch.testing.assert_close(log_likelihood[1], table[1, :, 0] + table[2, :, 0], rtol=0, atol=1e-14)
    assert data.counts.expected(data.majority())[0].tolist() == [[0, 0], [0, 0]]


def test_declared_large_and_small_numbers_meet():
    data = frame_of(BASE, items=[BIG + 5, 2, 1])
    assert data.items.tolist() == [BIG + 5, 2, 1]
    assert data.item.tolist() == [1, 1, 2, 2]
    large = frame_of(BASE.assign(task=[BIG, BIG, BIG + 1, BIG + 1]), items=[BIG + 1, BIG])
    assert large.item.tolist() == [0, 0, 1, 1]
    known = frame_of(BASE.assign(label=[1, 2, 1, 1]), truth={1: BIG + 1})
    assert known.labels.tolist() == [1, 2, BIG + 1]
    assert known.truth.tolist() == [2, -1]


def test_three_thousand_labels_on_one_item():
    worker, label = np.arange(3000), np.arange(3000) % 3
    data = Annotations.from_arrays(np.r_[np.full(3000, 8), 9], np.r_[worker, 0], np.r_[label, 2])
    assert data.votes.tolist() == [[1000, 1000, 1000], [0, 0, 1]]
    log_table = torch.full((3000, 3, 3), -10.0, dtype=torch.float64)
    log_table[:, 0] = -20.0
    assert data.counts.log_likelihoods(log_table)[0].tolist() == [-60000, -30000, -30000]


# ---------------------------------------------------------------------- missing values and oddities


@pytest.mark.parametrize("blank", [None, np.nan, pd.NA, pd.NaT])
def test_missing_labels_are_dropped_and_counted(blank):
    with pytest.warns(CrowdpplWarning) as warnings:
        data = frame_of(BASE.assign(label=pd.Series(["a", blank, "b", blank], dtype=object)), source="x.csv")
    assert [str(w.message) for w in warnings] == list(data.notes)
    assert data.notes == ("x.csv, column 'label': dropped 2 of 4 rows without a label (rows 2, 4)",)
    assert triples(data) == [(1, 1, "a"), (2, 1, "b")]
    assert data.workers.tolist() == [1]


@pytest.mark.parametrize(
    "dtype", ["Int64", "UInt64", "boolean", "string", "Float64", "category", "int64[pyarrow]", object]
)
def test_columns_of_any_type_that_are_all_missing(dtype):
    blank = pd.array([None] * 4, dtype=dtype)
    refused(lambda: frame_of(BASE.assign(label=blank)), DataError, "column 'label': every label is missing")
    refused(lambda: frame_of(BASE.assign(task=blank)), DataError, "rows 1, 2, 3, 4: task missing")
    assert frame_of(BASE.assign(gold=blank), truth="gold").clamp is None


def test_long_integers_beside_missing_labels_stay_exact():
    with pytest.warns(CrowdpplWarning, match="dropped 1 of 4"):
        data = frame_of(BASE.assign(label=pd.array([2**62 + 1, None, 2**62 + 3, 1], dtype="Int64")))
    assert data.labels.tolist() == [1, 2**62 + 1, 2**62 + 3]


def test_many_dropped_rows_are_named_in_part():
    frame = pd.DataFrame({"task": range(2000), "worker": 1, "label": ["a", None] * 1000})
    with pytest.warns(CrowdpplWarning, match=r"dropped 1,000 of 2,004 .*\(rows 2, 4, 6, 8, 10 and 995 more\)"):
        frame_of(pd.concat([frame, BASE]))


def test_white_space_and_unicode_forms_are_reported_and_kept():
    frame = BASE.assign(label=["a", "a ", "b", "a"], worker=["caf\u00e9", "cafe\u0301", "caf\u00e9", "cafe\u0301"])
    with pytest.warns(CrowdpplWarning) as warnings:
        data = frame_of(frame)
    assert [str(w.message) for w in warnings] == [
        "the frame, column 'label': 1 spelling of 1 label merged, as they differ in capitals, white space or characters that "
        "look alike only ('a': 'a '); fold=False keeps them apart",
        "the frame: 1 worker name differs from another in Unicode form or invisible characters only: 'cafe\\u0301'; write them "
        "alike if they are the same",
    ]
    assert (data.J, data.K) == (2, 2)


def test_warnings_point_at_the_callers_line(tmp_path):
    BASE.assign(label="a").to_csv(tmp_path / "x.csv", index=False)
    columns = BASE.assign(label="a")
    for make in (
        lambda: frame_of(columns),
        lambda: Annotations.from_csv(tmp_path / "x.csv"),
        lambda: Annotations.from_arrays(*(columns[c] for c in columns)),
        lambda: frame_of(BASE, truth={9: "a"}),
    ):
        with pytest.warns(CrowdpplWarning) as warnings:
            make()
        assert [w.filename for w in warnings] == [__file__]


# ---------------------------------------------------------------------- refusals

REFUSALS = {
    "not a frame": (lambda: frame_of([1, 2]), DataError, "the frame is a list", "from_arrays"),
    "empty table": (lambda: frame_of(BASE.iloc[:0]), DataError, "the frame: no rows", "at least one"),
    "empty arrays": (lambda: Annotations.from_arrays([], [], []), DataError, "no rows"),
    "missing column": (
        lambda: frame_of(BASE.rename(columns={"worker": "wroker"}), source="x.csv"),
        DataError,
        "x.csv: no column 'worker' (did you mean 'wroker'?); columns are 'task', 'wroker', 'label'",
        "worker=...",
    ),
    "missing item column": (lambda: frame_of(BASE.drop(columns="task")), DataError, "'task' or 'item'", "task=..."),
    "missing named column": (lambda: frame_of(BASE, label="Label"), DataError, "'Label' (did you mean 'label'?)"),
    "missing truth column": (lambda: frame_of(BASE, truth="lable"), DataError, "(did you mean 'label'?)", "truth=..."),
    "duplicate columns": (
        lambda: frame_of(pd.concat([BASE, BASE[["label"]]], axis=1)),
        DataError,
        "2 columns are named 'label'; rename or drop",
    ),
    "columns 0 and '0'": (lambda: frame_of(BASE.set_axis([0, "0", 1], axis=1), task=0), DataError, "2 columns"),
    "one column twice": (lambda: frame_of(BASE, worker="task"), DataError, "must be three different columns"),
    "strings among integers": (
        lambda: frame_of(BASE.assign(task=[1, "1", 2, 2])),
        DataError,
        "the frame, column 'task'",
        "mix int and str (str in row 2)",
        "to strings or all to integers",
    ),
    "integers among strings": (
        lambda: frame_of(BASE.assign(label=["a", "b", 3, "a"])),
        DataError,
        "column 'label'",
        "(int in row 3)",
    ),
    "mixed after a missing value": (
        lambda: frame_of(BASE.assign(worker=["a", None, "b", 4])),
        DataError,
        "column 'worker'",
        "(int in row 4)",
    ),
    "mixed categories": (
        lambda: frame_of(BASE.assign(task=pd.Categorical(["x", "x", "x", 1]))),
        DataError,
        "(int in row 4)",
    ),
    "booleans among integers": (lambda: frame_of(BASE.assign(task=[0, True, 2, 3])), DataError, "(bool in row 2)"),
    "floats among strings": (lambda: frame_of(BASE.assign(task=["a", "b", "c", 1.5])), DataError, "(float in row 4)"),
    "uuid among strings": (lambda: frame_of(BASE.assign(task=[*UUIDS, "x"])), DataError, "(str in row 4)"),
    "half label": (
        lambda: frame_of(BASE.assign(label=[0, 1, 0.5, 1]), kind="nominal"),
        DataError,
        "the frame, column 'label', row 3: label 0.5 is not a whole number",
        "use integers or strings",
    ),
    "half label after a missing one": (
        lambda: frame_of(BASE.assign(label=[0, None, 1, 0.25]), kind="nominal"),
        DataError,
        "row 4",
    ),
    "infinite label": (lambda: frame_of(BASE.assign(label=[0, 1, np.inf, -np.inf])), DataError, "rows 3, 4", "inf"),
    "half as an object": (
        lambda: frame_of(BASE.assign(task=pd.Series([1, 2, 3, 2.5], dtype=object))),
        DataError,
        "2.5",
    ),
    "half decimal": (lambda: frame_of(BASE.assign(label=[Decimal("1.5")] * 4)), DataError, "rows 1, 2, 3, 4", "1.5"),
    "half category": (lambda: frame_of(BASE.assign(task=pd.Categorical([1, 1, 1.5, 2]))), DataError, "row 3"),
    "float too long to be exact": (lambda: frame_of(BASE.assign(task=[2.0**53, 1, 2, 3])), DataError, "2^53", "row 1"),
    "beyond 64 bits": (lambda: frame_of(BASE.assign(task=[2**64, 1, 2, 3])), DataError, "column 'task'", "as strings"),
    "2^63 beside negative": (
        lambda: frame_of(BASE.assign(task=[BIG, -1, 2, 3])),
        DataError,
        "63 bits if some are negative",
    ),
    "missing worker": (
        lambda: frame_of(BASE.assign(worker=[1, None, 2, np.nan])),
        DataError,
        "the frame, column 'worker', rows 2, 4: worker missing; fill it in or drop the rows",
    ),
    "missing item": (lambda: frame_of(BASE.assign(task=["x", None, "y", "z"])), DataError, "row 2: task missing"),
    "no label at all": (
        lambda: frame_of(BASE.assign(label=np.nan)),
        DataError,
        "column 'label'",
        "every label is missing",
    ),
    "one class declared": (lambda: frame_of(BASE.iloc[2:], labels=["a"]), DataError, "only one class", "at least two"),
    "one category": (lambda: frame_of(BASE.assign(label=pd.Categorical(["a"] * 4))), DataError, "only one class"),
    "no class declared": (lambda: frame_of(BASE, labels=[]), DataError, "no labels declared"),
    "label outside": (
        lambda: frame_of(BASE, labels=["b", "c"]),
        DataError,
        "the frame, column 'label', rows 1, 3, 4: label 'a' not among the declared labels 'b', 'c'",
    ),
    "label outside, misspelt": (
        lambda: frame_of(BASE.assign(label=["yes", "no", "yess", "no"]), labels=["yes", "no"]),
        DataError,
        "row 3",
        "did you mean 'yes'?",
    ),
    "item outside": (lambda: frame_of(BASE, items=[1]), DataError, "column 'task', rows 3, 4: task 2 not among"),
    "worker outside": (lambda: frame_of(BASE, workers=[1, 3]), DataError, "column 'worker', rows 2, 4: worker 2"),
    "strings declared as integers": (
        lambda: frame_of(BASE, labels=[0, 1]),
        DataError,
        "labels are strings",
        "integers",
    ),
    "integers declared as booleans": (
        lambda: frame_of(BASE.assign(label=[0, 1, 1, 0]), labels=[False, True]),
        DataError,
        "labels are integers but the declared labels are booleans",
    ),
    "declared twice": (lambda: frame_of(BASE, labels=["a", "b", "a"]), DataError, "contain 'a' more than once"),
    "declared missing": (lambda: frame_of(BASE, labels=["a", "b", None]), DataError, "contain a missing value"),
    "declared mixed": (
        lambda: frame_of(BASE, labels=["a", "b", 1]),
        DataError,
        "the declared labels",
        "mix str and int",
    ),
    "declared a string": (lambda: frame_of(BASE, labels="ab"), DataError, "of type str", "pass a list"),
    "declared a number": (lambda: frame_of(BASE, items=3), DataError, "of type int", "pass a list"),
    "declared a set": (lambda: frame_of(BASE, labels={"a", "b"}), DataError, "of type set", "in order"),
    "lists": (lambda: frame_of(BASE.assign(task=[["a"]] * 4)), DataError, "column 'task'", "of type list"),
    "lists of labels": (
        lambda: frame_of(BASE.assign(label=[["a", "b"]] * 4)),
        DataError,
        "rows 1, 2",
        "2 labels in one",
    ),
    "tuples": (lambda: Annotations.from_arrays([(1, 2), (3, 4)], [1, 1], ["a", "b"]), DataError, "tuple"),
    "bytes": (lambda: frame_of(BASE.assign(worker=[b"a"] * 4)), DataError, "column 'worker'", "of type bytes"),
    "complex": (lambda: frame_of(BASE.assign(label=[1j] * 4)), DataError, "of type complex"),
    "unknown policy": (
        lambda: frame_of(BASE, repeats="keeep"),
        OptionError,
        "'keep', 'last' or 'refuse'",
        "did you mean",
    ),
    "policy None": (lambda: frame_of(BASE, repeats=None), OptionError, "repeats=None"),
    "repeats refused": (
        lambda: frame_of(pd.concat([BASE, BASE.iloc[1:3]]), repeats="refuse"),
        DataError,
        "the frame, rows 5, 6: the worker has annotated the item before",
        "repeats='last'",
    ),
    "lengths": (
        lambda: Annotations.from_arrays([1, 2, 3], [1, 1], ["a", "b"]),
        DataError,
        "task has 3, worker has 2, label has 2",
    ),
    "two dimensions": (
        lambda: Annotations.from_arrays(np.ones((2, 1)), [1], ["a"]),
        DataError,
        "task has shape (2, 1)",
    ),
    "no dimension": (lambda: Annotations.from_arrays([1], torch.tensor(1), ["a"]), DataError, "worker has shape ()"),
    "a string for an array": (lambda: Annotations.from_arrays([1], [1], "a"), DataError, "label is of type str"),
    "a number for an array": (lambda: Annotations.from_arrays(1, [1], ["a"]), DataError, "task is of type int"),
    "arrays that mix": (
        lambda: Annotations.from_arrays([1, "1"], [1, 1], ["a", "b"]),
        DataError,
        "the arrays, column 'task'",
        "(str in row 2)",
    ),
    "arrays with a truth column": (
        lambda: Annotations.from_arrays([1], [1], ["a"], truth="gold"),
        DataError,
        "pass a mapping",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refused(case):
    make, kind, *parts = REFUSALS[case]
    refused(make, kind, *parts)


def test_rows_are_counted_in_the_table_handed_in_also_after_dropped_ones():
    frame = BASE.assign(label=["a", None, "b", "q"])

    def make():
        with pytest.warns(CrowdpplWarning, match="row 2"):
            frame_of(frame, labels=["a", "b"])

    refused(make, DataError, "row 4: label 'q'")
    again = pd.concat([BASE.assign(label=["a", None, "b", "a"]), BASE.iloc[[0]]])
    with pytest.warns(CrowdpplWarning, match="row 2"):
        refused(lambda: frame_of(again, repeats="refuse"), DataError, "row 5: the worker has annotated")


def test_new_lines_in_names_stay_out_of_messages():
    frame = BASE.assign(label=["a\nb", "a", "a", "a"])
    refused(lambda: frame_of(frame, labels=["a", "b"]), DataError, r"'a\nb'")
    refused(lambda: frame_of(BASE.set_axis(["a\nb", "worker", "label"], axis=1)), DataError, r"'a\nb'")
    refused(lambda: frame_of(frame, worker="x\ny"), DataError, r"'x\ny'")
    refused(lambda: frame_of(frame, repeats="x\ny"), OptionError, r"'x\ny'")


# ---------------------------------------------------------------------- arrays


def test_arrays_of_every_kind_are_one_and_the_same():
    kinds = [
        list,
        tuple,
        np.array,
        pd.Series,
        pd.Index,
        torch.tensor,
        iter,
        lambda v: pd.Series(v, index=[9, 9, 9, 1], dtype="Int64"),
    ]
    expected = triples(frame_of(BASE.assign(label=[5, 6, 5, 5])))
    for kind in kinds:
        data = Annotations.from_arrays(kind([1, 1, 2, 2]), kind([1, 2, 1, 2]), kind([5, 6, 5, 5]))
        assert triples(data) == expected


def test_arrays_of_strings():
    for kind in (list, np.array, pd.array, lambda v: np.array(v, dtype=object)):
        data = Annotations.from_arrays(kind(["x", "y"]), kind(["007", "8"]), kind(["b", "a"]))
        assert triples(data) == [("x", "007", "b"), ("y", "8", "a")]


# ---------------------------------------------------------------------- repeats

AGAIN = pd.DataFrame(
    {"task": [1, 1, 2, 1, 2, 1], "worker": ["v", "w", "v", "v", "v", "v"], "label": ["a", "b", "b", "b", "b", "c"]}
)


def test_repeats_are_kept_as_evidence():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = frame_of(AGAIN)
    assert data.votes.tolist() == [[1, 2, 1], [0, 2, 0]]
    assert data.notes == (
        "the frame: 3 repeated annotations of an item by the same worker kept "
        "(1 worker-item pairs have different labels)",
    )


def test_last_of_repeats():
    data = frame_of(AGAIN, repeats="last")
    assert triples(data) == [(1, "w", "b"), (1, "v", "c"), (2, "v", "b")]
    assert data.labels.tolist() == ["a", "b", "c"]
    assert "kept the last of repeated annotations, 3 earlier ones dropped" in data.notes[0]


@pytest.mark.parametrize("repeats", ["keep", "last", "refuse"])
def test_without_repeats_the_policy_changes_nothing(repeats):
    data = frame_of(BASE, repeats=repeats)
    assert triples(data) == triples(frame_of(BASE))
    assert data.notes == ()


# ---------------------------------------------------------------------- known truths

TRUTHS = {
    "column": lambda: frame_of(BASE.assign(gold=[None, None, "b", "b"]), truth="gold"),
    "column, once": lambda: frame_of(BASE.assign(gold=[None, None, None, "b"]), truth="gold"),
    "categorical column": lambda: frame_of(BASE.assign(gold=pd.Categorical([None, None, "b", "b"])), truth="gold"),
    "mapping": lambda: frame_of(BASE, truth={2: "b"}),
    "mapping with a blank": lambda: frame_of(BASE, truth={2: "b", 1: None}),
    "series": lambda: frame_of(BASE, truth=pd.Series(["b"], index=[2])),
    "series, twice the same": lambda: frame_of(BASE, truth=pd.Series(["b", "b", None], index=[2, 2, 1])),
    "series by category": lambda: frame_of(BASE, truth=pd.Series(["b"], index=pd.CategoricalIndex([2], [1, 2]))),
    "frame": lambda: frame_of(BASE, truth=pd.DataFrame({"item": [2, 1], "label": ["b", None], "x": 1})),
    "frame by task": lambda: frame_of(BASE, truth=pd.DataFrame({"label": ["b"], "task": [2]})),
    "arrays": lambda: Annotations.from_arrays(BASE.task, BASE.worker, BASE.label, truth={2.0: "b"}),
}


@pytest.mark.parametrize("case", TRUTHS)
def test_known_truths_in_every_form(case):
    data = TRUTHS[case]()
    assert data.truth.tolist() == [-1, 1]
    assert data.truth.dtype == torch.int64
    assert data.clamp.tolist() == [[0, 0], [-np.inf, 0]]
    assert data.majority().tolist() == [[0.5, 0.5], [0, 1]]
    assert "truth of 1 items known" in repr(data)
    assert data.notes == ()


@pytest.mark.parametrize(
    "truth", [None, {}, {1: None}, pd.Series(dtype=object), pd.DataFrame({"task": [], "label": []})]
)
def test_no_known_truth_means_no_clamp(truth):
    data = frame_of(BASE, truth=truth)
    assert data.clamp is None
    assert data.truth.tolist() == [-1, -1]


def test_truths_of_declared_items_without_annotation():
    data = frame_of(BASE, items=[1, 2, 3], truth={3: "b"})
    assert data.truth.tolist() == [-1, -1, 1]
    assert data.majority()[2].tolist() == [0, 1]


def test_truths_of_unknown_items_are_left_out_with_a_warning():
    with pytest.warns(
        CrowdpplWarning,
        match=r"2 of 3 known truths are of items not in the annotations \(7, 9223372036854775808\); they are left out",
    ):
        data = frame_of(BASE, truth={7: "a", 1: "b", BIG: "a"})
    assert data.truth.tolist() == [1, -1]


def test_a_class_only_truths_show_is_a_class():
    data = frame_of(BASE, truth={2: "aa"})
    assert data.labels.tolist() == ["a", "aa", "b"]
    assert data.votes.tolist() == [[1, 0, 1], [2, 0, 0]]
    assert data.truth.tolist() == [-1, 1]
    assert frame_of(BASE.iloc[2:], truth={2: "b"}).K == 2  # no warning of a single class


def test_truths_of_large_numbers_and_uuids():
    large = frame_of(BASE.assign(task=[BIG, BIG, BIG + 1, BIG + 1]), truth={BIG + 1: "a"})
    assert large.truth.tolist() == [-1, 0]
    by_uuid = frame_of(BASE.assign(task=[UUIDS[0], UUIDS[0], UUIDS[1], UUIDS[1]]), truth={UUIDS[1]: "a"})
    assert by_uuid.truth.tolist() == [-1, 0]


TRUTH_REFUSALS = {
    "contradiction in a column": (
        BASE.assign(gold=[None, "a", "a", "b"]),
        "gold",
        "the frame, column 'gold', rows 3, 4: two different truths for item 2; keep one",
    ),
    "contradiction in a series": (BASE, pd.Series(["a", "b", "a"], index=[1, 1, 2]), "rows 1, 2", "item 1"),
    "contradiction in a frame": (
        BASE,
        pd.DataFrame({"task": [2, 2], "label": ["a", "b"]}),
        "column 'label', rows 1, 2",
    ),
    "integer against string items": (BASE, {"1": "a"}, "tasks are strings but in the frame they are integers"),
    "string against integer items": (BASE.assign(task=["1", "1", "2", "2"]), {1: "a"}, "tasks are integers"),
    "integer against string classes": (BASE, {1: 0}, "column 'label': labels are strings", "integers", "write both"),
    "boolean against integer classes": (BASE.assign(label=[0, 1, 1, 1]), {1: True}, "labels are integers", "booleans"),
    "boolean against integer items": (BASE, {True: "a"}, "tasks are booleans"),
    "mixed items": (BASE, {1: "a", "1": "b"}, "mix int and str"),
    "half item": (BASE, {1.5: "a"}, "1.5 is not a whole number"),
    "half class": (BASE, {1: 0.5}, "0.5 is not a whole number"),
    "missing item": (BASE, pd.Series(["a", "b"], index=[1, None]), "index, row 2: task missing"),
    "tuples": (BASE, {(1, 2): "a"}, "of type tuple"),
    "several levels": (BASE, pd.Series(["a"], index=pd.MultiIndex.from_tuples([(1, 2)])), "of type tuple"),
    "a list": (BASE, ["a", "b"], "truth is a list", "pass a column name"),
    "a frame without items": (BASE, pd.DataFrame({"id": [1], "label": ["a"]}), "'task' or 'item'", "rename"),
    "a frame without classes": (BASE, pd.DataFrame({"task": [1], "lable": ["a"]}), "did you mean 'lable'?"),
}


@pytest.mark.parametrize("case", TRUTH_REFUSALS)
def test_truth_refused(case):
    frame, truth, *parts = TRUTH_REFUSALS[case]
    refused(lambda: frame_of(frame, truth=truth), DataError, *parts)


def test_truth_of_an_undeclared_class_names_its_row():
    gold = BASE.assign(gold=[None, None, "z", None])
    refused(lambda: frame_of(gold, truth="gold", labels=["a", "b"]), DataError, "column 'gold', row 3: label 'z'")
    refused(
        lambda: frame_of(BASE, truth={1: "a", 2: "z"}, labels=["a", "b"]),
        DataError,
        "the known truths, row 2: label 'z'",
    )
    refused(lambda: frame_of(BASE, truth={1: 1}, labels=["a", "b"]), DataError, "labels are integers")


# ---------------------------------------------------------------------- parts and places


def test_batch_takes_items_in_the_order_asked_for():
    frame = pd.DataFrame({"task": [5, 6, 5, 8, 8, 8], "worker": [1, 2, 2, 1, 2, 3], "label": [0, 1, 2, 0, 0, 1]})
    data = frame_of(frame, items=[5, 6, 7, 8], truth={8: 1, 6: 0})
    part = data.batch(torch.tensor([3, 2, 0]))
    assert part.items.tolist() == [8, 7, 5]
    assert triples(part) == [(8, 1, 0), (8, 2, 0), (8, 3, 1), (5, 1, 0), (5, 2, 2)]
    assert part.item.tolist() == [0, 0, 0, 2, 2]
    assert part.truth.tolist() == [1, -1, -1]
    assert (part.N, part.J, part.K, part.A) == (3, 3, 3, 5)
    assert torch.equal(part.votes, data.votes[[3, 2, 0]])
    assert torch.equal(part.clamp, data.clamp[[3, 2, 0]])
    assert torch.equal(part.majority(), data.majority()[[3, 2, 0]])
    assert triples(part.batch(torch.tensor([2]))) == [(5, 1, 0), (5, 2, 2)]
    numbered = data.mini_batch(torch.tensor([3, 2, 0]))
    assert numbered.items.tolist() == [0, 1, 2]
    assert torch.equal(numbered.votes, part.votes)
    assert torch.equal(numbered.item, part.item)
    assert torch.equal(numbered.truth, part.truth)
    assert data.batch(torch.tensor([0, 0])).votes.tolist() == data.votes[[0, 0]].tolist()


@pytest.mark.parametrize("index", [[], [2]])
def test_batch_without_annotations(index):
    data = frame_of(BASE, items=[1, 2, 3]).batch(torch.tensor(index, dtype=torch.int64))
    assert data.A == 0
    assert data.truth.tolist() == [-1] * len(index)
    assert data.votes.shape == (len(index), 2)
    assert data.majority().tolist() == [[0.5, 0.5]] * len(index)
    assert data.counts.log_likelihoods(torch.ones(2, 2, 2, dtype=torch.float64)).tolist() == [[0, 0]] * len(index)
    assert data.counts.expected(data.majority()).abs().sum() == 0


def test_to_changes_the_type_of_statistics_only():
    data = frame_of(BASE, truth={1: "b"})
    assert data.to() is data
    assert data.to("cpu", torch.float64) is data
    single = data.to(dtype=torch.float32)
    assert data.votes.dtype == torch.float64
    for value in (single.votes, single.clamp, single.majority(), single.counts.expected(single.majority())):
        assert value.dtype == torch.float32
    assert single.item.dtype == single.truth.dtype == torch.int64
    assert triples(single) == triples(data)
    assert single.device == torch.device("cpu")
    assert data.to("meta").item.device.type == "meta"
    refused(
        lambda: data.to(dtype=torch.int64),
        OptionError,
        "dtype=torch.int64; it must be a floating type",
        "torch.float64",
    )


def test_majority_of_ties_and_known_truths_does_not_change_the_votes():
    data = frame_of(BASE, truth={1: "b"})
    before = data.votes.clone()
    assert data.majority().tolist() == [[0, 1], [1, 0]]
    assert torch.equal(data.votes, before)


@pytest.mark.parametrize("kind", ["uint8", "uint16", "uint32", "uint64", "int8", "int64"])
@pytest.mark.parametrize("label", [[0, 1, 0, 1], [0, 1, None, 1]])
def test_codes_of_arrow_with_and_without_a_sign(kind, label):
    codes = {"task": [0, 0, 1, 1], "worker": [0, 1, 0, 1], "label": label}
    names = {"task": ["i", "j"], "worker": ["v", "w"], "label": ["a", "b"]}
    table = pa.table(
        {
            name: pa.DictionaryArray.from_arrays(pa.array(part, getattr(pa, kind)()), pa.array(names[name]))
            for name, part in codes.items()
        }
    )
    frame = table.to_pandas(types_mapper=pd.ArrowDtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        both = [frame_of(frame) for _ in range(2)]  # the frame is left as it was
    wanted = [(("i", "j")[t], ("v", "w")[w], "ab"[n]) for t, w, n in zip(*codes.values(), strict=True) if n is not None]
    assert triples(both[0]) == triples(both[1]) == wanted


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1000])
def test_votes_are_counted_in_blocks(block, monkeypatch):
    monkeypatch.setattr(fields, "_BLOCK", block)
    rng = np.random.default_rng(block)
    item, label = rng.integers(0, 9, 40), rng.integers(0, 3, 40)
    wanted = np.zeros((11, 3))
    np.add.at(wanted, (item, label), 1)
    # Of items at the end and in the midst nobody gave a label; of some class nobody did last.
    data = Annotations.from_arrays(item, np.arange(40), label, items=range(11), labels=range(3))
    assert data.votes.tolist() == wanted.tolist()
    share = data.majority()
    assert share[9:].tolist() == [[1 / 3] * 3] * 2
    np.testing.assert_allclose(share[:9], wanted[:9] / wanted[:9].sum(-1, keepdims=True))


def test_mean_by_worker():
    data = frame_of(BASE)
    values = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
    assert data.mean_by_worker(values).tolist() == [[3, 4], [5, 6]]
    assert data.mean_by_worker(values[:, 0]).tolist() == [3, 5]


def test_anaesthesia_holds_repeats(anaesthesia):
    assert (anaesthesia.N, anaesthesia.J, anaesthesia.K, anaesthesia.A) == (45, 5, 4, 315)
    assert anaesthesia.annotations_per_worker.tolist() == [135, 45, 45, 45, 45]
    assert "90 repeated annotations" in anaesthesia.notes[0]


def timed(**columns):
    frame = pd.DataFrame({"task": ["b", "a", "b", "c"], "worker": ["x", "x", "y", "y"], "label": [1, 0, None, 1]})
    return frame.assign(**columns)


def test_moments_and_durations_follow_their_rows():
    """Sorted by item, without the row that has no label; dates become seconds, blanks are unknown."""
    frame = timed(
        at=["2026-01-01 00:00:02", "2026-01-01T00:00:01Z", "2026-01-01", ""], took=["1.5", "2", "7", None]
    ).astype({"label": "Int64"})
    with pytest.warns(CrowdpplWarning, match="dropped 1 of 4 rows"):
        data = Annotations.from_frame(frame, timestamp="at", seconds="took")
    assert data.items[data.item].tolist() == ["b", "a", "c"]
    when = data.timestamp.numpy()
    assert when[0] - when[1] == 1
    assert np.isnan(when[2])
    np.testing.assert_array_equal(data.seconds.numpy(), [1.5, 2, np.nan])
    part = data.batch(torch.tensor([1]))
    assert part.seconds.tolist() == [2]
    assert data.keep(torch.tensor([True, False, True])).timestamp[0] == when[0]
    for other in (data.per_annotation(), data.item_label_cells(), data.unseen(), data.paired()):
        assert other.timestamp is None
        assert other.seconds is None
    with pytest.warns(CrowdpplWarning, match="dropped"):
        numbers = Annotations.from_frame(timed(n=[3, 1, 2, 4]).astype({"label": "Int64"}), timestamp="n")
    assert numbers.timestamp.tolist() == [3, 1, 4]
    with pytest.warns(CrowdpplWarning, match="dropped"):
        stamps = Annotations.from_frame(
            timed(n=pd.to_datetime(["2026-01-02", "2026-01-01", None, None])).astype({"label": "Int64"}), timestamp="n"
        )
    assert stamps.timestamp[0] - stamps.timestamp[1] == 86400


@pytest.mark.parametrize(
    ("options", "columns", "message"),
    [
        ({"timestamp": "at"}, {"at": ["soon", "2026-01-01", "", ""]}, "'at', row 1: 'soon' is not a number or a date"),
        ({"seconds": "took"}, {"took": [1, 2, "long", 3]}, "row 3: 'long' is not a number"),
        ({"seconds": "took"}, {"took": [1, -2, 3, 3]}, "row 2: a duration below 0"),
        ({"seconds": "took"}, {"took": [1, np.inf, 3, 3]}, "row 2: 'inf' is not a number"),
        ({"timestamp": "att"}, {"at": [1, 2, 3, 4]}, "no column 'att' (did you mean 'at'?)"),
    ],
)
def test_bad_timestamps_and_durations_are_refused(options, columns, message):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        with pytest.raises(DataError, match=re.escape(message)):
            Annotations.from_frame(timed(**columns).astype({"label": "Int64"}), **options)


def test_a_parquet_file_is_read_for_what_it_holds_not_for_where_it_lies(tmp_path):
    """Folders such as ``task=9`` are values of a column to some readers of Parquet."""
    folder = tmp_path / "task=9" / "worker=x"
    folder.mkdir(parents=True)
    frame = pd.DataFrame({"task": ["a", "b"], "worker": ["u", "v"], "label": [0, 1]})
    frame.to_parquet(folder / "x.parquet", index=False)
    data = Annotations.from_parquet(folder / "x.parquet", task="task", worker="worker", label="label")
    assert (data.items.tolist(), data.workers.tolist()) == (["a", "b"], ["u", "v"])


def test_every_tensor_names_its_axis():
    """By which batches, subsets, copies and digests go through all fields: a new one cannot be forgotten in one of them."""
    tensors = {one.name for one in dataclasses.fields(Annotations) if "Tensor" in str(one.type)}
    assert tensors == set(fields.AXES)
