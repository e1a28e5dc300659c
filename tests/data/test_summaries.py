"""Workers whose labels follow from those of all others, and scales of two values that begin at another number."""

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.errors import silent

N = 150


def crowd(seed, accuracy=(0.8, 0.75, 0.85), classes=2):
    rng = np.random.default_rng(seed)
    truth = rng.integers(classes, size=N)
    right = rng.random((len(accuracy), N)) < np.array(accuracy)[:, None]
    return np.where(right, truth, rng.integers(classes, size=(len(accuracy), N)))


def notes(labels, names="abcdefghijkl"):
    rows = [(n, names[j], f"l{labels[j, n]}") for n in range(N) for j in range(len(labels)) if labels[j, n] >= 0]
    with silent():
        data = Annotations.from_frame(pd.DataFrame(rows, columns=["task", "worker", "label"]))
    return [note for note in data.notes if "if it summarizes them" in note]


def majority(labels):
    return (labels[None] == np.arange(labels.max() + 1)[:, None, None]).sum(1).argmax(0)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (majority, "'d' is the one that most of the others gave"),
        (lambda labels: labels.max(0), "'d' is 'l1' where any of the others gave it"),
        (lambda labels: labels.min(0), "'d' is 'l0' where any of the others gave it"),
    ],
)
def test_a_summary_is_named(rule, said, tmp_path):
    labels = crowd(0)
    (note,) = notes(np.vstack([labels, rule(labels)]))
    assert said in note
    table = pd.DataFrame(np.vstack([labels, rule(labels)]).T, columns=["ann", "bob", "cem", "d"]).replace(
        {0: "l0", 1: "l1"}
    )
    table.insert(0, "item", [f"i{n}" for n in range(N)])
    table.to_csv(tmp_path / "x.csv", index=False)
    assert any(said in note for note in crowdppl.read(tmp_path / "x.csv", format="wide").notes)


def test_grades():
    labels = crowd(1, classes=4)
    (note,) = notes(np.vstack([labels, labels.max(0)]))
    assert "the first one in the order 'l3', 'l2', 'l1' and 1 more that any of the others gave" in note


def test_people_are_no_summaries():
    for seed in range(20):
        labels = crowd(seed, classes=2 + seed % 3)
        assert not notes(labels)
        # One who is always right, one who nearly follows the others, and one who left an item out.
        assert not notes(crowd(seed, (0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 1.0)))
        summary = majority(labels)
        summary[3] = 1 - summary[3] if labels.max() == 1 else -1
        assert not notes(np.vstack([labels, summary]))


@pytest.mark.parametrize("sensitivity", [0.6, 0.7, 0.85, 0.95])
@pytest.mark.parametrize("size", [3, 4, 6])
@pytest.mark.parametrize("place", ["first", "last"])
def test_an_expert_beside_others_without_false_alarms(sensitivity, size, place):
    """Who is always right gives an alarm where any of the others does: nothing tells this one from a summary."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        truth = rng.integers(2, size=N)
        others = (truth * (rng.random((size, N)) < sensitivity)).astype(int)
        assert not notes(np.vstack([others, truth] if place == "last" else [truth, others]))
        assert not notes(1 - np.vstack([others, truth] if place == "last" else [truth, others]))


@pytest.mark.parametrize("place", ["first", "last"])
def test_an_expert_among_workers_of_one_accuracy(place):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        truth = rng.integers(2 + seed % 2, size=N)
        accuracy = (0.6, 0.8, 0.95)[seed % 3]
        others = np.where(rng.random((3 + seed % 4, N)) < accuracy, truth, rng.integers(2 + seed % 2, size=N))
        assert not notes(np.vstack([others, truth] if place == "last" else [truth, others]))


@pytest.mark.parametrize("kind", [int, str])
def test_two_values_from_0_and_from_1(kind):
    labels = crowd(0)
    labels[2] += 1
    rows = [(n, "abc"[j], kind(labels[j, n])) for n in range(N) for j in range(3)]
    data = Annotations.from_frame(pd.DataFrame(rows, columns=["task", "worker", "label"]))
    assert any("workers such as 'a' give 0 to 1, others such as 'c' 1 to 2" in note for note in data.notes)
    rows = [(n, "abc"[j], kind(crowd(9)[j, n] + (j == 2))) for n in range(N) for j in range(3)]
    alone = [(n, who, label if who != "c" else kind(1 + n % 2)) for n, who, label in rows]
    data = Annotations.from_frame(pd.DataFrame(alone, columns=["task", "worker", "label"]))
    assert not any("0 to 1" in note for note in data.notes)
