"""Diagnostics of annotations: groups without common items, shuffled worker names, names that differ in capitals."""

import dataclasses
import re
import warnings
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import quiet_fit

import crowdppl
from crowdppl import Annotations, CrowdpplWarning
from crowdppl.data.alerts import HARDLY_AGREE
from crowdppl.data.chance_agreement import ChanceAgreement
from crowdppl.data.diagnostics import (
    _group_sizes,
    far_from_votes,
    hardly_agree,
    review,
    unused_classes,
)
from crowdppl.data.table.identifier_checks import variants
from crowdppl.data.worker_information import _permutation_moments, worker_information
from crowdppl.metrics import agreement


def crowd(seed=0, items=1200, workers=30, spread=0.5):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, items)
    skill = 0.65 + spread * (rng.random(workers) - 0.5)
    rows = [
        (i, int(w), int(truth[i] if rng.random() < skill[w] else rng.integers(0, 3)))
        for i in range(items)
        for w in rng.choice(workers, 5, replace=False)
    ]
    return pd.DataFrame(rows, columns=["task", "worker", "label"])


def test_groups_that_share_no_item():
    frame = pd.DataFrame(
        [("a", 1, 0), ("a", 2, 1), ("b", 3, 0), ("b", 4, 1), ("b", 5, 1), ("c", 6, 0)],
        columns=["task", "worker", "label"],
    )
    data = Annotations.from_frame(frame, workers=[1, 2, 3, 4, 5, 6, 7])
    assert _group_sizes(data.item.numpy(), data.worker.numpy(), data.N, data.J) == [3, 2, 1]
    notes = review(data)
    assert "3 groups that share no item (3, 2, 1 workers)" in notes[0]
    assert notes[0].endswith("(outside of the largest: 1, 2; 6)")
    assert "1 of 3 items has one annotation" in notes[1]
    assert any("3 groups" in note for note in quiet_fit(data, method="em", num_samples=2).notes)
    together = Annotations.from_frame(
        pd.concat([frame, pd.DataFrame([("a", 3, 0), ("c", 1, 0)], columns=frame.columns)])
    )
    assert _group_sizes(together.item.numpy(), together.worker.numpy(), together.N, together.J) == [6]
    alone = Annotations.from_frame(frame.assign(worker=1))
    assert any("only one worker" in sentence for sentence in review(alone))


def test_shuffled_worker_names_are_noticed():
    """Z of names as given is far from 0; of names shuffled among the annotations it is a standard normal (20 shuffles)."""
    frame = crowd()
    data = Annotations.from_frame(frame)
    sizes = (data.N, data.J, data.K)
    arrays = [part.numpy() for part in (data.item, data.worker, data.label)]
    assert worker_information(*arrays, sizes) > 5
    assert not any("no information" in sentence for sentence in review(data))
    rng = np.random.default_rng(1)
    detected = []
    for _ in range(20):
        detected.append(worker_information(arrays[0], rng.permutation(arrays[1]), arrays[2], sizes))
    assert abs(np.mean(detected)) < 4 / np.sqrt(20)
    assert max(detected) < 4.5
    shuffled = frame.assign(worker=rng.permutation(frame["worker"]))
    notes = review(Annotations.from_frame(shuffled))
    assert any("worker names carry no information" in sentence for sentence in notes)
    few = Annotations.from_frame(frame.head(300))
    assert (
        worker_information(*(part.numpy() for part in (few.item, few.worker, few.label)), (few.N, few.J, few.K)) is None
    )


@pytest.mark.parametrize("sizes", [(3, 2, 2), (4, 1, 1, 1), (2, 2, 2, 1)])
@pytest.mark.parametrize("agreeing", [1, 3, 6])
def test_moments_are_those_of_all_permutations(sizes, agreeing):
    """Mean and variance over every way to deal out the agreements, to 1e-12."""
    n = sum(sizes)
    worker = np.repeat(np.arange(len(sizes)), sizes)
    values = []
    for chosen in combinations(range(n), agreeing):
        a = np.bincount(worker[list(chosen)], minlength=len(sizes))
        values.append((a**2 / np.array(sizes)).sum())
    each = [np.array([float(v)]) for v in (n, agreeing, len(sizes), sum(1 / s for s in sizes))]
    mean, variance = _permutation_moments(*each)
    assert mean[0] == pytest.approx(np.mean(values), abs=1e-12)
    assert variance[0] == pytest.approx(np.var(values), abs=1e-12)


def test_cifar10n_has_lost_its_workers(public):
    """A public set whose authors say that worker names do not belong to the labels; its sister and others have them."""
    assert any("carry no information" in sentence for sentence in review(public("cifar10n")[0]))
    for name in ("dog", "labelme", "rte", "cifar10s"):
        assert not any("carry no information" in sentence for sentence in review(public(name)[0]))


@pytest.mark.parametrize(
    ("column", "values", "note"),
    [
        ("worker", ["Ann", "ann", "bob", "bob"], "1 worker name differs from another in capitals"),
        ("task", ["Cat", "cat\t", "dog", "dog"], r"1 task name differs from another in .*'cat\\t' and 'Cat'"),
    ],
)
def test_names_that_differ_in_capitals_are_reported_and_kept(column, values, note):
    frame = pd.DataFrame({"task": [1, 1, 2, 2], "worker": ["a", "b", "a", "b"], "label": ["x", "y", "x", "x"]})
    frame[column] = values
    with pytest.warns(CrowdpplWarning, match=note):
        data = Annotations.from_frame(frame)
    names = {"task": "items", "worker": "workers"}
    assert len(getattr(data, names[column])) == 3


def test_white_space_and_capitals_at_once():
    """`Cat` and `cat ` are two classes if spellings are kept apart, and the note names the pair."""
    frame = pd.DataFrame({"task": [1, 1, 2], "worker": ["a", "b", "a"], "label": ["Cat", "cat ", "dog"]})
    with pytest.warns(CrowdpplWarning) as warnings:
        data = Annotations.from_frame(frame, fold=False)
    assert data.K == 3
    assert any("'cat ' and 'Cat'" in str(warning.message) for warning in warnings)


def test_many_names_are_looked_at_as_few_are():
    names = np.array([f"Item {n}" for n in range(30_000)], dtype=object)
    assert variants(names) == []
    names[29_999] = " item  7"
    assert variants(names) == [(" item  7", "Item 7")]


@pytest.mark.parametrize(
    ("labels", "pattern"),
    [
        (
            ["0.5", "0.7", "1.25", "0.5"],
            r"numbers, some of them not whole \('0.5', '0.7', '1.25'\).* 3 unordered classes",
        ),
        (["1", "2.5", "-1e-3", "1"], "some of them not whole"),
        (["1", "1.0", "2", "x"], "1 spelling of 1 label merged, .*'1': '1.0'"),
        (["1e2", "100", "2", "3"], "1 labels are the same number as others .*'1e2' and '100'"),
        (["1", "01", "2", "3"], "1 label name differs from another in leading zeros only: '01' and '1'"),
        (
            ["x", "x", "x", "x"],
            "With one class every label is correct by construction, and accuracy cannot be estimated",
        ),
    ],
)
def test_labels_that_look_like_something_else(labels, pattern, tmp_path):
    frame = pd.DataFrame({"task": [1, 1, 2, 2], "worker": ["a", "b", "a", "b"], "label": labels})
    with pytest.warns(CrowdpplWarning, match=pattern):
        data = Annotations.from_frame(frame, kind="nominal")
    assert any(re.search(pattern, note) for note in data.notes)
    frame.to_csv(tmp_path / "x.csv", index=False)
    with pytest.warns(CrowdpplWarning, match=pattern):
        Annotations.from_csv(tmp_path / "x.csv", kind="nominal")


def test_labels_that_are_as_they_should_be():
    for labels in (["1.0", "2.0"], ["a", "0.5"], ["001", "002"], [1, 2], ["1-2", "3-4"]):
        frame = pd.DataFrame({"task": [1, 1], "worker": ["a", "b"], "label": labels})
        assert Annotations.from_frame(frame).notes == ()
    scores = pd.DataFrame({"task": [1, 1], "worker": ["a", "b"], "label": ["0.5", "1"]})
    assert Annotations.from_frame(scores, labels=["0.5", "1"]).notes == ()


def test_labels_that_are_no_classes():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"task": np.arange(60) // 3, "worker": np.arange(60) % 3, "label": rng.permutation(60) // 2})
    assert any(
        "30 of 30 labels were given 2 times or fewer" in note
        for note in review(Annotations.from_frame(frame, kind="nominal"))
    )
    assert not any(
        "or fewer" in note for note in review(Annotations.from_frame(frame.assign(label=frame["label"] % 9)))
    )
    one = Annotations.from_frame(frame.assign(label="b"), labels=["a", "b"])
    assert any("every label given is 'b'" in note and "accuracy, cannot be estimated" in note for note in review(one))


# Three items of a public tutorial: one class wins two votes, the other the third.
FEW = pd.DataFrame(
    [(0, 0, 1), (0, 1, 0), (0, 2, 1), (0, 3, 1), (1, 0, 1), (1, 2, 0), (1, 3, 0), (2, 1, 1), (2, 3, 1)],
    columns=["task", "worker", "label"],
)


@pytest.mark.parametrize("model", ["dawid-skene", "one-coin", "class-conditional", "pooled"])
def test_a_fit_that_uses_fewer_classes_than_the_labels(model):
    words = "assigns no item to the label 0, which was given 3 times and has the most votes of 1 of 3 items"
    with pytest.warns(CrowdpplWarning, match=words):
        posterior = crowdppl.fit(FEW, model, method="em", num_samples=200)
    assert any(words in sentence for sentence in posterior.warnings)
    assert posterior.truth()["label"].unique().tolist() == [1]


def test_no_class_is_missed_where_all_are_used():
    data = Annotations.from_frame(FEW)
    both = torch.tensor([[0.1, 0.9], [0.6, 0.4], [0.0, 1.0]], dtype=torch.float64)
    assert unused_classes(data, both) == []
    # Unlikely everywhere, but several items may be of it.
    spread = torch.tensor([[0.3, 0.7]] * 3, dtype=torch.float64)
    assert unused_classes(data, spread) == []
    # A label that wins no vote is outvoted, not overlooked; so is a declared class that nobody gave.
    outvoted = Annotations.from_frame(FEW[FEW["task"] != 1], labels=[0, 1, 2])
    sure = torch.tensor([[0.0, 1.0, 0.0]] * 2, dtype=torch.float64)
    assert unused_classes(outvoted, sure) == []


def test_a_class_whose_votes_are_known_to_be_wrong_is_not_missed():
    """Ten items of known truth 1 have the most votes for 0; a fit that assigns no item to 0 then says nothing."""
    frame = pd.DataFrame({"task": np.repeat(np.arange(30), 3), "worker": np.tile([0, 1, 2], 30), "label": 1})
    frame.loc[frame["task"] < 20, "label"] = 0
    all_one = torch.tensor([[0.001, 0.999]] * 30, dtype=torch.float64)
    unknown = Annotations.from_frame(frame)
    assert "assigns no item to the label 0" in unused_classes(unknown, all_one)[0]
    for known, sentences in ((1, 0), (0, 1)):
        data = Annotations.from_frame(frame, truth=dict.fromkeys(range(10), known))
        assert len(unused_classes(data, all_one)) == sentences


@pytest.mark.parametrize(
    "name", ["bluebirds", "rte", "wsd", "weather-sentiment-amt", "labelme", "adult3-dense", "ducks"]
)
def test_good_fits_use_all_classes(name, public):
    data = public(name)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        posterior = crowdppl.fit(data, "dawid-skene", method="em", num_samples=5)
    assert not any("assigns no item" in sentence for sentence in posterior.warnings)


def test_a_fit_far_from_the_votes_says_so():
    """Three annotations of 60 items; labels that are nobody's majority for a third of them. Ties, known truths and single
    annotations do not count."""
    item, worker = np.repeat(np.arange(60), 3), np.tile(np.arange(3), 60)
    data = Annotations.from_arrays(item, worker, np.zeros(180, int), labels=[0, 1, 2])
    votes = torch.nn.functional.one_hot(torch.zeros(60, dtype=torch.int64), 3).double()
    assert far_from_votes(data, votes) == []
    third = votes.clone()
    third[:18] = torch.tensor([0.0, 1.0, 0.0])
    assert far_from_votes(data, third) == []
    third[:20] = torch.tensor([0.0, 1.0, 0.0])
    (sentence,) = far_from_votes(data, third)
    assert "for 20 of 60 items" in sentence
    known = Annotations.from_arrays(item, worker, np.zeros(180, int), labels=[0, 1, 2], truth={i: 1 for i in range(20)})
    assert far_from_votes(known, third) == []
    # Where votes are wrong on a third of the known items, the fit is right to differ for a third of the others.
    third[:20] = torch.tensor([1.0, 0.0, 0.0])
    third[30:50] = torch.tensor([0.0, 1.0, 0.0])
    for wrong, sentences in ((0, 1), (2, 0)):
        some = {i: int(i < wrong) for i in range(6)}
        known = Annotations.from_arrays(item, worker, np.zeros(180, int), labels=[0, 1, 2], truth=some)
        assert len(far_from_votes(known, third)) == sentences
    third[30:50], third[:20] = votes[0], torch.tensor([0.0, 1.0, 0.0])
    tied = Annotations.from_arrays(item[:120], worker[:120] % 2, np.tile([0, 1], 60), labels=[0, 1, 2])
    assert far_from_votes(tied, third[:40]) == []  # too few items, too
    single = Annotations.from_arrays(np.arange(60), np.zeros(60, int), np.zeros(60, int), labels=[0, 1, 2])
    assert far_from_votes(single, third) == []


def test_workers_who_hardly_agree_are_named():
    """Of workers who mostly guess, not of few items, nor of workers who agree a little."""
    rng = np.random.default_rng(0)
    for knows, items, expected in ((0.05, 400, True), (0.05, 8, False), (0.6, 400, False)):
        truth = rng.integers(3, size=items)
        label = np.where(rng.random((6, items)) < knows, truth, rng.integers(3, size=(6, items)))
        worker, item = np.divmod(np.arange(label.size), items)
        data = Annotations.from_arrays(item, worker, label.ravel(), labels=range(3))
        assert bool(hardly_agree(data)) == expected
        if expected:
            posterior = quiet_fit(data, "one-coin", method="em", seed=0)
            assert posterior.alerts[0].startswith(HARDLY_AGREE)
            assert hardly_agree(dataclasses.replace(data, kind="ordinal")) == []


def test_alpha_of_counts_is_that_of_the_metrics():
    rng = np.random.default_rng(1)
    item, worker, label = rng.integers(30, size=200), np.arange(200), rng.integers(4, size=200)
    data = Annotations.from_arrays(item, worker, label, labels=range(4))
    alpha = agreement(data).set_index("measure")["value"]["krippendorff_alpha"]
    assert ChanceAgreement.krippendorff(data.votes.numpy()).value == pytest.approx(alpha, abs=1e-12)


def test_the_error_of_alpha_is_its_spread_over_samples_of_items():
    """Within a fifth: the spread over 400 samples is known to 4%, and the error leaves out that of the agreement by chance."""
    rng = np.random.default_rng(2)
    drawn = []
    for _ in range(400):
        truth = rng.integers(3, size=200)
        label = np.where(rng.random((5, 200)) < 0.5, truth, rng.integers(3, size=(5, 200)))
        counts = np.stack([(label == k).sum(0) for k in range(3)], axis=1).astype(float)
        drawn.append(ChanceAgreement.krippendorff(counts))
    errors = [one.error for one in drawn]
    assert np.mean(errors) == pytest.approx(np.std([one.value for one in drawn]), rel=0.2)
