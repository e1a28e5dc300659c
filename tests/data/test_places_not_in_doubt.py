"""Parts, true labels, names and labels that a note would be wrong about, cells that are no text, and the time of long ones."""

import json

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.data.table.label_texts import notes_on_texts
from crowdppl.data.table.label_values import _other_order
from crowdppl.data.table.places_in_doubt import numbered_again
from crowdppl.data.table.timestamps import read_times
from crowdppl.errors import CrowdpplWarning
from tests.data.test_places_in_doubt import noted
from tests.data.test_time_of_doubts import seconds

AGAIN, GIVEN = "several values of the column", "if that is what they gave"


def crowd(seed, accuracies, items, prevalence, renumbered=False):
    """Return labels of parts, each by workers of some accuracies, on the same items or on others of the same numbers."""
    rng = np.random.default_rng(seed)
    true = rng.random(items) < prevalence
    rows = []
    for part, workers in enumerate(accuracies):
        true = rng.random(items) < prevalence if renumbered else true
        for worker, accuracy in enumerate(workers):
            label = np.where(rng.random(items) < accuracy, true, ~true).astype(int)
            rows += [(str(n), 100 * part + worker, label[n], part) for n in range(items)]
    return pd.DataFrame(rows, columns=["item", "worker", "label", "part"])


@pytest.mark.parametrize(
    ("accuracies", "items", "prevalence"),
    [
        ([[0.85]] * 10, 60, 0.05),
        ([[0.85, 0.85]] * 5, 60, 0.05),
        ([[0.8] * 5] * 2, 20, 0.5),
        ([[0.95] * 3, [0.6] * 3], 30, 0.5),
    ],
)
def test_the_same_items_in_several_parts(accuracies, items, prevalence):
    assert sum(numbered_again(crowd(seed, accuracies, items, prevalence)) for seed in range(15)) <= 1


def test_other_items_in_several_parts():
    assert all(numbered_again(crowd(seed, [[0.8] * 4] * 2, 150, 0.5, renumbered=True)) for seed in range(5))


def test_files_of_one_worker_each_are_of_the_same_items(tmp_path):
    for seed in range(2):
        folder = tmp_path / str(seed)
        folder.mkdir()
        table = crowd(seed, [[0.85]] * 8, 60, 0.05).rename(columns={"item": "task", "worker": "annotator"})
        for part, rows in table.groupby("part"):
            rows.drop(columns="part").to_csv(folder / f"w{part}.csv", index=False)
        assert not any("same numbers" in note for note in crowdppl.read(folder).notes)


def test_a_row_without_an_item_in_a_part(tmp_path):
    rows = [f"{i},w{j}_{b},{(i * j + b) % 2},{b}" for b in (0, 1) for i in range(20) for j in range(3)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["task,worker,label,batch", *rows, ",w1,,1"]))
    with pytest.warns(CrowdpplWarning, match="without a label"):
        assert crowdppl.read(path).N == 20


@pytest.mark.parametrize("dtype", [object, "float", "Int64", "string"])
@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA])
def test_missing_items_beside_parts(dtype, nothing):
    frame = crowd(1, [[0.8] * 4] * 2, 150, 0.5, renumbered=True).set_axis(["task", "worker", "label", "part"], axis=1)
    blank = pd.DataFrame({"task": [nothing], "worker": [1], "label": [None], "part": [1]}, dtype=object)
    numbers = frame["task"].astype(object if dtype in (object, "string") else int).astype(object)
    frame = pd.concat([frame.assign(task=numbers).astype(object), blank], ignore_index=True)
    values = [np.nan if value is pd.NA and dtype == "float" else value for value in frame["task"]]
    frame["task"] = pd.Series(values, dtype=dtype)
    with pytest.warns(CrowdpplWarning, match="without a label"):
        assert noted(frame, AGAIN)


@pytest.mark.parametrize("cell", [lambda n: [n], lambda n: {"n": n}, lambda n: np.array([n, n]), lambda n: (n,)])
@pytest.mark.parametrize("column", ["batch", "bbox", "answer"])
def test_cells_that_are_no_text(cell, column):
    frame = crowd(1, [[0.8] * 4] * 2, 150, 0.5, renumbered=True).set_axis(["task", "worker", "label", "part"], axis=1)
    part = frame.pop("part")
    frame[column] = pd.Series([cell(n) for n in part], dtype=object)
    assert noted(frame, AGAIN) == (column == "batch")


@pytest.mark.parametrize("name", ["confidence", "first_answer", "previous label", "initialLabel", "rank", "site"])
def test_other_columns_with_the_values_of_labels(name):
    rng = np.random.default_rng(0)
    label = np.repeat(rng.integers(1, 6, size=40), 3)
    other = np.clip(label + rng.integers(-1, 2, size=120), 1, 5)
    frame = pd.DataFrame({"task": np.repeat(range(40), 3), "worker": np.tile(list("uvw"), 40), "label": label})
    assert not noted(frame.assign(**{name: other}), GIVEN)
    assert noted(frame.assign(answer=other), GIVEN)


def test_texts_that_are_not_used_take_no_time():
    frame = pd.DataFrame({"task": np.arange(40_000) // 4, "worker": np.arange(40_000) % 4})
    frame["label"] = np.array(["a", "b"], dtype=object)[frame["task"] % 2]
    texts = pd.Series([f"text {n}" for n in range(40_000)], dtype=object)
    few = seconds(lambda: crowdppl.Annotations.from_frame(frame))
    columns = pd.concat([frame, *(texts.rename(f"answer_{n}") for n in range(40))], axis=1)
    assert seconds(lambda: crowdppl.Annotations.from_frame(columns)) < few + 1.5


def test_long_labels_take_no_time():
    assert seconds(lambda: notes_on_texts(["<" + "a" * 20_000, "b"], [1, 1], "x")) < 0.3
    assert seconds(lambda: _other_order({"a": "a" + " " * 12_000 + "b"})) < 0.3


@pytest.mark.parametrize(
    "numbers",
    [
        range(10_110, 10_116),
        range(101_110, 101_116),
        [101_011, 101_112, 101_213, 110_110, 110_912, 111_215],
        ["030124"],
    ],
)
def test_seconds_of_six_digits(numbers):
    read = read_times(pd.Series(list(numbers)), None)
    assert not read.faults
    assert read.seconds.tolist() == [float(number) for number in numbers]


def test_tasks_in_words_and_workers_in_numbers(tmp_path):
    words = ["sunset", "harbour", "forest", "street", "market", "bridge", "garden", "tower"]
    document = {
        word: {str((n + k) % 9): ("cat", "dog")[(n + k // 3) % 2] for k in range(4)} for n, word in enumerate(words)
    }
    path = tmp_path / "answers.json"
    path.write_text(json.dumps(document))
    data = crowdppl.read(path)
    assert (data.N, data.J) == (8, 9)


@pytest.mark.parametrize("names", [("M Worker", "Mechanical Worker"), ("a\\1", "b\\1"), ("x\\ann", "y\\ann")])
def test_names_that_are_of_two_people(names):
    frame = pd.DataFrame({"task": [1, 1, 2, 2], "worker": [*names, "cem", "dan"], "label": list("abab")})
    assert not noted(frame, "in another form")
