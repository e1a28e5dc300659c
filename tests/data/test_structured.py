"""Cells with lists, objects and sets: one label and one worker for each annotation, or one line; their order makes no class."""

import numpy as np
import pandas as pd
import pyarrow
import pytest

from crowdppl import Annotations, DataError, OptionError
from crowdppl.data.label_sets import pairs
from crowdppl.data.table.cells import labels_of, parsed, people
from crowdppl.errors import silent


def annotations(given, workers=None, **options):
    n = len(given)
    workers = [f"w{i % 2}" for i in range(n)] if workers is None else workers
    frame = pd.DataFrame({"task": [i // 2 for i in range(n)], "worker": workers})
    frame["label"] = given
    return Annotations.from_frame(frame, **options)


ONE = {
    "JSON lists": (['["cat"]', '["dog"]', "cat", "dog"], ["cat", "dog"]),
    "Python lists": (["['cat']", "['dog']", "cat", "dog"], ["cat", "dog"]),
    "NumPy arrays": (["array(['cat'], dtype=object)", "['dog']", "cat", "dog"], ["cat", "dog"]),
    "sets": (["{'cat'}", "{'dog'}"], ["cat", "dog"]),
    "tuples": (["('cat',)", "('dog',)"], ["cat", "dog"]),
    "JSON text": (['"cat"', "cat", '"dog"', "dog"], ["cat", "dog"]),
    "choices": (['{"choices": ["cat"]}', "{'choices': ['dog']}", "cat", "dog"], ["cat", "dog"]),
    "ratings": (['[{"rating": 3}]', '[{"rating": 4}]'], [3, 4]),
    "taxonomies": (['[{"taxonomy": [["A", "B"]]}]', '[{"taxonomy": [["A"]]}]'], ["A", "A / B"]),
    "boxes": (['{"cat": true, "dog": false}', '{"cat": false, "dog": true}'], ["cat", "dog"]),
    "a form": (
        ['[{"animal": {"cat": true, "dog": false}}]', '[{"animal": {"cat": false, "dog": true}}]'],
        ["cat", "dog"],
    ),
    "Zooniverse": (['[{"task": "T0", "value": "cat"}]', '[{"task": "T0", "value": "dog"}]'], ["cat", "dog"]),
    "lists as objects": ([["cat"], ("dog",), "cat", np.array(["dog"])], ["cat", "dog"]),
    "objects": ([{"label": "cat", "confidence": 0.9}, {"label": "dog", "confidence": 0.2}], ["cat", "dog"]),
    "numbers as JSON": (["[1]", "2", "[2]", "1"], [1, 2]),
    "with missing ones": (['["cat"]', "[]", "dog", None], ["cat", "dog"]),
}


@pytest.mark.parametrize(("labels", "classes"), ONE.values(), ids=ONE)
def test_a_list_of_one_label_is_that_label(labels, classes):
    with silent():
        data = annotations(labels)
    assert data.labels.tolist() == classes
    assert any("read as labels" in note for note in data.notes)


SETS = {
    "JSON": ['["cat", "dog"]', '["dog","cat"]', '["cat"]', "dog"],
    "Python": ["['cat', 'dog']", "['dog', 'cat']", "cat", "dog"],
    "NumPy": ["['cat' 'dog']", "['dog' 'cat']", "cat", "dog"],
    "objects": [["cat", "dog"], {"dog", "cat"}, ["cat"], "dog"],
    "bars": ["cat|dog", "dog|cat", "cat", "dog"],
    "semicolons": ["cat; dog", "dog;cat;", "cat", "dog"],
    "commas": ["cat, dog", "dog, cat", "cat", "dog"],
    "slashes": ["cat/dog", "dog/cat", "cat", "dog"],
    "lines": ["cat\ndog", "dog\ncat", "cat", "dog"],
    "database": ["{cat,dog}", "{dog,cat}", "{cat}", "{dog}"],
    "boxes": ['{"cat": true, "dog": true}', '{"dog": true, "cat": true}', "cat", "dog"],
    "repeated": ['["cat", "dog", "cat"]', '["dog", "cat"]', "cat", "dog"],
}


@pytest.mark.parametrize("labels", SETS.values(), ids=SETS)
def test_the_order_of_a_set_makes_no_class(labels):
    with pytest.raises(DataError, match=r"rows? 1(, 2)?: [23] labels in one annotation.*several='sets'") as error:
        annotations(labels)
    assert "\n" not in str(error.value)
    assert annotations(labels, several="join").labels.tolist() == ["cat", "cat;dog", "dog"]


def test_text_may_be_kept_as_it_is():
    assert annotations(["a>b|c", "c|a>b"], several="keep").labels.tolist() == ["a>b|c", "c|a>b"]
    assert annotations(["x|y", "y|x"], labels=["x|y", "y|x"]).labels.tolist() == ["x|y", "y|x"]
    with pytest.raises(OptionError, match="'refuse', 'join', 'keep' or 'sets'"):
        annotations(["a", "b"], several="both")


PLAIN = {
    "brackets": ["[unclear]", "(none)", "{x}", "[a] b"],
    "bars": ["cat|dog", "fish", "cat|dog", "bird"],
    "decimals": ["1,2", "2,1", "3", "4"],
    "fractions": ["1/2", "2/1", "3", "4"],
    "words": ["fire truck", "truck fire", "x", "y"],
    "quotes": ["'a'", 'say "x"', "c", "d"],
}


@pytest.mark.parametrize("labels", PLAIN.values(), ids=PLAIN)
def test_other_text_stays_as_it_is(labels):
    assert annotations(labels).labels.tolist() == sorted(set(labels))


def test_what_may_be_meant_is_said():
    assert any("consist of other labels" in note for note in annotations(["cat|dog", "cat", "dog", "cat"]).notes)
    ranges = annotations(["[0, 10]", "[11, 20]"])
    assert ranges.labels.tolist() == ["[0, 10]", "[11, 20]"]
    assert any("names of ranges" in note for note in ranges.notes)


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ('[{"start": 0, "end": 3, "labels": ["PER"]}]', "part of the item, such as a span or region"),
        ('{"x": 1, "y": 2, "width": 3}', "part of the item"),
        ('[[0, 3, "PER"]]', "list of lists"),
        ('{"mood": "good", "animal": "cat"}', "several answers.*'mood', 'animal'"),
        ('[{"task": "T0", "value": "a"}, {"task": "T1", "value": "b"}]', "several answers"),
        ('[{"ranker": ["a", "b"]}]', "a ranking"),
        ('{"text": ["hello"]}', "a text"),
        ('{"a": ' * 40 + "1" + "}" * 40, "nested too deeply"),
    ],
)
def test_what_is_no_choice_is_refused(cell, reason):
    with pytest.raises(DataError, match=f"column 'label', row 2: .*{reason}") as error:
        annotations(["cat", cell], several="join")
    assert "\n" not in str(error.value)


WORKERS = {
    "Python": ["['a']", "['b']"],
    "JSON": ['["a"]', '["b"]'],
    "lists": [["a"], ["b"]],
    "people": ['{"id": 1, "email": "a"}', "{'username': 'b'}"],
    "mixed": ["['a']", "b"],
}


@pytest.mark.parametrize("workers", WORKERS.values(), ids=WORKERS)
def test_a_list_of_one_worker_is_that_worker(workers):
    assert annotations(["x", "y"], workers).workers.tolist() == ["a", "b"]


def test_several_workers_have_a_label_each():
    data = annotations([["x", "y"], "['y', 'y']", "x"], [["a", "b"], "['a', 'c']", "b"])
    rows = zip(data.items[data.item], data.workers[data.worker], data.labels[data.label], strict=True)
    assert sorted((int(i), str(w), str(k)) for i, w, k in rows) == [
        (0, "a", "x"), (0, "a", "y"), (0, "b", "y"), (0, "c", "y"), (1, "b", "x")
    ]  # fmt: skip
    with pytest.raises(DataError, match=r"column 'worker', row 2: 2 workers, 'a', 'b', and 1 labels in one row"):
        annotations(["x", "y"], ["a", "['a', 'b']"])
    with pytest.raises(DataError, match=r"row 1: worker missing"):
        annotations(["x", "y"], ["[]", "a"])


def test_sets_of_one_worker_beside_lists_of_workers():
    labels = [["x", "y"], ["x", "y"], ["x", "x"], ["y"]]
    workers = [["a", "b"], ["a"], ["c", "d"], ["b"]]
    assert annotations(labels, workers, several="join").labels.tolist() == ["x", "x;y", "y"]
    assert annotations(labels, workers, several="keep").A == 6
    with pytest.raises(DataError, match=r"row 2: 1 worker, 'a', and 2 labels in one row; .* several='join' reads it"):
        annotations(labels, workers)
    with pytest.raises(DataError, match=r"2 workers, 'a', 'b', and 1 labels in one row"):
        annotations([["x"], ["y"]], [["a", "b"], ["a"]], several="join")


def test_columns_of_other_types():
    for labels in (
        pd.Categorical(['["x"]', "y"]),
        pd.array([["x"], ["y"]], pd.ArrowDtype(pyarrow.list_(pyarrow.string()))),
    ):
        assert annotations(labels).labels.tolist() == ["x", "y"]
    truth = pd.DataFrame(
        {"task": [0, 1], "worker": ["a", "b"], "label": ["x|y", "y|x"], "truth": ["['y', 'x']", "x|y"]}
    )
    data = Annotations.from_frame(truth.assign(label=["x", "y"]), truth="truth", several="join")
    assert data.labels[data.truth].tolist() == ["x;y", "x;y"]


def test_files_of_rows(tmp_path):
    (tmp_path / "x.csv").write_text('task,worker,label\n1,a,"[""x""]"\n1,b,x|y\n2,a,y|x\n2,b,y\n')
    with pytest.raises(DataError, match=r"x.csv, column 'label', row 2: 2 labels"):
        Annotations.from_csv(tmp_path / "x.csv")
    assert Annotations.from_csv(tmp_path / "x.csv", several="join").labels.tolist() == ["x", "x;y", "y"]


def test_values():
    assert parsed("[1, 'a', None, True]") == [1, "a", None, True]
    assert parsed(r"['it\'s', \"b\"]".replace('\\"', '"')) == ["it's", "b"]
    assert parsed("__import__('os')") == "__import__('os')"
    assert parsed("[open('x')]") == "[open('x')]"
    assert labels_of({"on": False}) == [False]
    assert people([{"id": 0}, 7, None]) == [0, 7]


SET_FRAME = pd.DataFrame({"task": [1, 1, 2], "worker": ["a", "b", "a"], "label": ["x; y", "y;x", "['x']"]})


def test_pairs_of_sets():
    data = pairs(SET_FRAME)
    assert data.items.tolist() == ["1|x", "1|y", "2|x", "2|y"]
    assert data.label.tolist() == [1, 1, 1, 1, 1, 0]
    spaced = pairs(SET_FRAME.assign(label=["x;y ", " y;x", "x "]))
    assert spaced.label.tolist() == data.label.tolist()


def test_missing_sets_are_not_empty_ones():
    blank = pairs(SET_FRAME.assign(label=["x;y", "x", None]))
    assert blank.A == 6
    assert any("1 blank cells are read as sets without a label" in note for note in blank.notes)
    assert pairs(SET_FRAME.assign(label=["x;y", "x", None]), blank="missing").A == 4
    both = pairs(SET_FRAME.assign(label=["x;y", "", None]))
    assert both.A == 4
    assert any("1 rows without a set left out" in note for note in both.notes)
    with pytest.raises(DataError, match=r"row 3: .* part of the item"):
        pairs(SET_FRAME.assign(label=["x", "y", '{"start": 1}']))
    with pytest.raises(OptionError, match="'none' or 'missing'"):
        pairs(SET_FRAME, blank="x")


VECTORS = {
    "one of two": ["[1, 0]", "[0, 1]"],
    "one of three": ["[1 0 0]", "[0 1 0]"],
    "several of three": ["[1, 0, 1]", "[0, 1, 1]"],
    "probabilities": ["[0.1, 0.9]", "[0.2, 0.8]"],
}


@pytest.mark.parametrize("several", ["refuse", "join", "sets"])
@pytest.mark.parametrize("given", VECTORS.values(), ids=VECTORS)
def test_a_number_for_each_class_is_no_set_of_labels(given, several):
    with pytest.raises(DataError, match=r"row.* 1.*has a number for each class"):
        annotations([*given, *given], several=several)


def test_lists_of_other_numbers_are_sets_and_ranges():
    assert annotations(["[0, 10]", "[10, 20]"]).labels.tolist() == ["[0, 10]", "[10, 20]"]
    assert annotations(["[1, 2]", "[2]", "[1]", "[2]"], several="join").labels.tolist() == ["1", "1;2", "2"]
    assert annotations(["[0]", "[1]"]).labels.tolist() == [0, 1]
    assert annotations(["[0, 1]", "[1, 0]", "0", "1"], several="join").labels.tolist() == ["0", "0;1", "1"]


def test_a_label_with_its_probability_is_no_class():
    with pytest.raises(DataError, match="a label with a number, such as its probability"):
        annotations(["('cat', 0.9)", "('dog', 0.8)"])


@pytest.mark.parametrize("label", ['["Cats" the musical', "['s-Gravenhage", '["a"] maybe', '["hello'])
def test_labels_that_begin_as_lists_keep_their_names(label):
    with silent():
        data = annotations([label, "b"] * 2)
    assert label in data.labels
    assert any("several='keep'" in note for note in data.notes)


def test_a_list_that_was_cut_off_beside_whole_ones_is_refused():
    with pytest.raises(DataError, match=r"cut off.*several='keep'"):
        annotations(['["a", "b', '["a"]'] * 2)


@pytest.mark.parametrize("labels", [["1", "c(1)", "c(2)"], ["c(1,2)", "x"], ["c()", "list()", "x"], ["()", "x"]])
def test_labels_written_like_lists_of_r_keep_their_names(labels):
    with silent():
        assert annotations(labels * 4).labels.tolist() == sorted(labels)


def test_lists_of_r():
    with silent():
        assert annotations(['c("a")', 'c("b")', "c()", "c()"]).labels.tolist() == ["a", "b"]
        assert annotations(["c(1,2)", "c(1)", "c(2)"] * 2, several="join").labels.tolist() == ["1", "1;2", "2"]
        assert annotations(["('a',)", "('b',)", "()", "()"]).labels.tolist() == ["a", "b"]
