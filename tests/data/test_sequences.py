"""Tokens of sequences: their order, what a worker said before, and spans of labels."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import BRIEF, Stop, in_turn, stopping
from commands import run

import crowdppl
from crowdppl import Annotations
from crowdppl.data.sequences import Tags, follows, given_spans, previous_labels
from crowdppl.errors import CrowdpplError, DataError, OptionError

ROWS = [
    # text, place, worker, label: out of order, one token missing for v, a gap in text b
    ("b", 5, "u", "O"),
    ("a", 1, "u", "I-X"),
    ("a", 0, "u", "B-X"),
    ("a", 2, "v", "O"),
    ("a", 0, "v", "B-X"),
    ("a", 2, "u", "O"),
    ("b", 3, "u", "B-X"),
    ("b", 4, "u", "I-X"),
    ("b", 8, "u", "O"),
]


def frame():
    return pd.DataFrame(ROWS, columns=["text", "place", "worker", "label"])


def read(table=None, **options):
    return Annotations.from_frame(
        frame() if table is None else table, **{"sequence": "text", "position": "place"} | options
    )


def by_name(data):
    """Return the previous label of each annotation, by token and worker; ``None`` where there is none."""
    names = [*data.labels.tolist(), None]
    return {
        (data.items[i], data.workers[j]): names[c]
        for i, j, c in zip(data.item.tolist(), data.worker.tolist(), data.previous.tolist(), strict=True)
    }


def test_tokens_stand_in_the_order_of_their_sequences():
    data = read()
    assert data.items.tolist() == ["b:3", "b:4", "b:5", "b:8", "a:0", "a:1", "a:2"]
    assert data.sequences.tolist() == ["b", "a"]
    assert data.sequence.tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert data.position.tolist() == [3, 4, 5, 8, 0, 1, 2]
    assert data.chain_starts.tolist() == [0, 3, 4, 7]
    assert "in 2 sequences" in repr(data)


def test_the_label_before_is_the_workers_own():
    before = by_name(read())
    assert before["a:1", "u"] == "B-X"
    assert before["a:2", "u"] == "I-X"
    assert before["a:2", "v"] is None  # v did not label the token before
    assert before["b:8", "u"] is None  # the tokens between are missing
    assert before["b:3", "u"] is None
    assert before["b:5", "u"] == "I-X"


def test_of_repeated_labels_the_last_one_is_the_label_before():
    table = pd.concat([frame(), pd.DataFrame([("a", 0, "u", "O")], columns=frame().columns)], ignore_index=True)
    assert by_name(read(table))["a:1", "u"] == "O"


def test_previous_labels_equal_a_plain_loop():
    rng = np.random.default_rng(0)
    item, worker = np.sort(rng.integers(0, 40, 300)), rng.integers(0, 5, 300)
    label, following = rng.integers(0, 3, 300), rng.random(40) < 0.8
    said = {}
    for i, j, y in zip(item, worker, label, strict=True):
        said[i, j] = y
    wanted = [said.get((i - 1, j), 3) if following[i] else 3 for i, j in zip(item, worker, strict=True)]
    assert previous_labels(item, worker, label, following, 3).tolist() == wanted


def test_all_ways_to_say_so_agree():
    table = frame().assign(token=lambda t: t["text"] + "/" + t["place"].astype(str))
    own = read(table, task="token")
    places = table[["token", "text", "place"]].rename(columns={"token": "task"})
    plain = Annotations.from_frame(table.drop(columns=["text", "place"]), task="token")
    later = plain.with_sequences(places, sequence="text", position="place")
    named = read(table.rename(columns={"token": "item"}))
    for other in (later, named, read()):
        for name in ("item", "worker", "label", "previous", "sequence", "position"):
            assert torch.equal(getattr(other, name), getattr(own, name)), name
    assert own.items.tolist() == later.items.tolist() == named.items.tolist()


def test_tokens_without_annotations_become_items():
    data = read()
    places = pd.DataFrame({"task": data.items, "sequence": data.sequence.numpy(), "position": data.position.numpy()})
    more = pd.DataFrame({"task": ["b:6", "b:7", "c:0"], "sequence": [0, 0, 9], "position": [6, 7, 0]})
    whole = data.with_sequences(pd.concat([places, more]))
    assert whole.items.tolist() == ["b:3", "b:4", "b:5", "b:6", "b:7", "b:8", "a:0", "a:1", "a:2"]
    assert whole.chain_starts.tolist() == [0, 6, 9]  # the gap is closed, and text c has no annotation at all
    assert any("2 tokens" in note for note in whole.notes)


def test_truth_follows_its_token():
    table = frame().assign(truth=lambda t: t["label"].where(t["text"] == "a"))
    data = read(table, truth="truth")
    assert [data.labels[k] if k >= 0 else None for k in data.truth.tolist()] == [None] * 4 + ["B-X", "I-X", "O"]


@pytest.mark.parametrize(
    ("change", "options", "kind", "message"),
    [
        ({}, {"position": None}, OptionError, "belong together"),
        ({}, {"sequence": "chapter"}, DataError, "no column 'chapter'; columns are"),
        ({"place": [0.5, *range(8)]}, {}, DataError, "no whole number"),
        ({"place": ["x", *range(8)]}, {}, DataError, "row 1: column 'place'"),
        ({"text": [None, *"aaaaabbb"]}, {}, DataError, "sequence missing"),
        ({"task": [1] * 9}, {"task": "task"}, DataError, "more than one place"),
        ({"task": list(range(9))}, {"task": "task"}, DataError, "more than one task at position"),
        ({"token": 1}, {}, DataError, "rename it"),
        ({}, {"kind": "ordinal"}, DataError, "classes"),
    ],
)
def test_bad_columns_get_one_line(change, options, kind, message):
    with pytest.raises(kind, match=message) as caught:
        read(frame().assign(**change), **options)
    assert "\n" not in str(caught.value)


def test_missing_places_get_one_line():
    plain = Annotations.from_arrays(["x", "y"], ["u", "u"], ["O", "B-X"])
    places = pd.DataFrame({"task": ["x"], "sequence": [0], "position": [0]})
    with pytest.raises(DataError, match="no row for task 'y'"):
        plain.with_sequences(places)
    weighted = plain.with_weights([1.0, 2.0])
    more = pd.DataFrame({"task": ["x", "y", "z"], "sequence": 0, "position": range(3)})
    with pytest.raises(DataError, match="the sequences first"):
        weighted.with_sequences(more)


# ---------------------------------------------------------------------- spans


def test_spans_of_tags():
    tags = Tags.of(["B-X", "B-Y", "I-X", "I-Y", "O"])
    label = np.array([0, 2, 2, 0, 4, 2, 3, 1, 3])
    following = np.array([0, 1, 1, 1, 1, 1, 1, 1, 1]) > 0
    # B-X I-X I-X | B-X | O | I-X begins one | I-Y of another type begins one | B-Y I-Y
    assert tags.spans(label, following).tolist() == [[0, 3, 0], [3, 4, 0], [5, 6, 0], [6, 7, 1], [7, 9, 1]]
    following[2] = False  # a new sequence
    assert tags.spans(label, following).tolist()[:2] == [[0, 2, 0], [2, 3, 0]]
    assert tags.types == ("X", "Y")


@pytest.mark.parametrize("labels", [["a", "b"], ["B-X", "O"], [0, 1], ["Bob", "In"]])
def test_other_labels_are_no_tags(labels):
    assert Tags.of(labels) is None


def test_what_may_follow_in_bio_form():
    tags = Tags.of(["B-X", "B-Y", "I-X", "I-Y", "O"])
    assert tags.first.tolist() == [True, True, False, False, True]
    assert tags.allowed[:, 2].tolist() == [True, False, True, False, False]
    assert tags.allowed[:, [0, 1, 4]].all()
    alone = Tags.of(["I-X", "O"])  # no label begins a span
    assert alone.allowed.all()


def test_spans_that_workers_marked():
    data = read()
    tags = Tags.of(data.labels)
    following = follows(data.sequence.numpy(), data.position.numpy())
    rows = given_spans(tags, *(getattr(data, name).numpy() for name in ("item", "worker", "label")), following)
    named = {(data.workers[j], data.items[a], data.items[b - 1]) for j, a, b, _ in rows.tolist()}
    assert named == {("u", "b:3", "b:4"), ("u", "a:0", "a:1"), ("v", "a:0", "a:0")}


# ---------------------------------------------------------------------- results


def simulated(seed=0, texts=40, workers=4, length=8):
    rng = np.random.default_rng(seed)
    labels, rows, truth = ["O", "B-X", "I-X"], [], {}
    for s in range(texts):
        z = "O"
        for t in range(length):
            z = rng.choice(labels, p=[0.7, 0.3, 0.0] if z == "O" else [0.4, 0.1, 0.5])
            truth[f"{s}:{t}"] = z
            for j in range(workers):
                rows.append((s, t, f"w{j}", z if rng.random() < 0.85 else rng.choice(labels)))
    table = pd.DataFrame(rows, columns=["text", "place", "worker", "label"])
    return read(table), truth


OPTIONS = BRIEF | {
    "svi": {"max_iter": 60, "num_samples": 20},
    "nuts": {"chains": 1, "warmup": 4, "num_samples": 6, "max_tree_depth": 2},
}


@pytest.mark.parametrize("method", in_turn(OPTIONS, 4, night=False))
def test_every_engine_gives_spans(tmp_path, method):
    data, truth = simulated(texts=12 if method == "nuts" else 40)
    with crowdppl.errors.silent():
        posterior = crowdppl.fit(data, method=method, **OPTIONS[method])
    assert posterior.info["model"] == "sequential-workers"
    spans = posterior.spans()
    assert spans["probability"].between(0, 1).all()
    every = posterior.spans(every=True)
    assert every["chosen"].sum() == len(spans)
    assert (every["workers"] <= every["of_workers"]).all()
    workers = posterior.workers()
    assert (workers["span_precision_low"] <= workers["span_precision"]).all()
    assert (workers["span_recall"] <= workers["span_recall_high"]).all()
    right = (posterior.truth()["label"] == posterior.truth()["task"].map(truth)).mean()
    assert right > (0.6 if method == "nuts" else 0.9)
    again = crowdppl.load(posterior.save(tmp_path / "x.nc"))
    pd.testing.assert_frame_equal(again.spans(every=True), every)
    pd.testing.assert_frame_equal(again.truth()[["task", "label"]], posterior.truth()[["task", "label"]])


def test_known_truths_are_held():
    data, truth = simulated()
    some = {name: label for name, label in truth.items() if name.startswith(("1:", "2:"))}
    table = pd.DataFrame(
        {
            "text": data.sequences[data.sequence[data.item].numpy()],
            "place": data.position[data.item].numpy(),
            "worker": data.workers[data.worker.numpy()],
            "label": data.labels[data.label.numpy()],
        }
    )
    posterior = crowdppl.fit(read(table, truth=some), method="em", num_samples=20)
    known = posterior.truth().set_index("task").loc[list(some)]
    assert known["label"].tolist() == list(some.values())
    np.testing.assert_allclose(known["probability"], 1)


def test_known_truths_that_contradict_the_form_are_refused():
    data, _ = simulated()
    table = pd.DataFrame(
        {
            "text": data.sequences[data.sequence[data.item].numpy()],
            "place": data.position[data.item].numpy(),
            "worker": data.workers[data.worker.numpy()],
            "label": data.labels[data.label.numpy()],
        }
    )
    bad = read(table, truth={"1:0": "O", "1:1": "I-X"})
    with pytest.raises(CrowdpplError, match=r"I-X.*1:1"):
        crowdppl.fit(bad, method="em")


def test_an_update_keeps_the_sequences():
    data, _ = simulated()
    half = data.keep(data.worker < 3)
    posterior = crowdppl.fit(half, method="em", num_samples=20)
    rest = data.keep(data.worker >= 3)
    more = pd.DataFrame(
        {
            "task": data.items[rest.item.numpy()],
            "worker": data.workers[rest.worker.numpy()],
            "label": data.labels[rest.label.numpy()],
        }
    )
    later = crowdppl.update(posterior, more)
    whole = crowdppl.fit(data, method="em", num_samples=20)
    assert later.info["model"] == "sequential-workers"
    assert (later.truth()["label"] == whole.truth()["label"]).mean() > 0.99
    np.testing.assert_allclose(later.info["facts"]["log_likelihood"], whole.info["facts"]["log_likelihood"], rtol=1e-3)


def test_an_update_asks_for_the_places_of_new_tokens():
    data, _ = simulated()
    posterior = crowdppl.fit(data, method="em", num_samples=20)
    more = pd.DataFrame({"task": ["x:0", "x:1"], "worker": "u", "label": ["O", data.labels[0]]})
    with pytest.raises(DataError, match=r"is of tokens in sequences, and further annotations have none; .*sequence="):
        crowdppl.update(posterior, more)


def test_the_command_updates_sequences_with_names_of_labels(tmp_path):
    data, _ = simulated()
    table = pd.DataFrame(
        {
            "text": data.sequences[data.sequence[data.item].numpy()],
            "place": data.position[data.item].numpy(),
            "worker": data.workers[data.worker.numpy()],
            "label": data.label.numpy(),
        }
    )
    names = ",".join(f"{code}={label}" for code, label in enumerate(data.labels))
    late = table["text"] > table["text"].median()
    for name, part in (("first", table[~late]), ("more", table[late])):
        part.to_csv(tmp_path / f"{name}.csv", index=False)
    options = ("--sequence", "text", "--position", "place", "--names", names)
    run("fit", tmp_path / "first.csv", *options, "--out", tmp_path / "one")
    run("update", tmp_path / "one", tmp_path / "more.csv", *options, "--out", tmp_path / "two")
    later = pd.read_csv(tmp_path / "two" / "truth.csv")
    assert len(later) == data.N
    assert set(later["label"]) <= set(data.labels.tolist())
    assert (tmp_path / "two" / "spans.csv").exists()
    refused = run("update", tmp_path / "one", tmp_path / "more.csv", "--out", tmp_path / "three", code=2).output
    assert "error: " in refused


def test_a_checkpoint_continues_to_the_same_bits(tmp_path):
    data, _ = simulated()
    options = {"method": "gibbs", "chains": 2, "warmup": 60, "num_samples": 60, "seed": 3}

    with crowdppl.errors.silent():
        once = crowdppl.fit(data, **options)
        with stopping(70), pytest.raises(Stop):
            crowdppl.fit(data, **options, checkpoint=(tmp_path / "c", 0))
        again = crowdppl.fit(data, **options, checkpoint=(tmp_path / "c", 0))
    np.testing.assert_array_equal(again.tree["posterior"]["emission"], once.tree["posterior"]["emission"])


def test_other_results_have_no_spans():
    with crowdppl.errors.silent():
        data = Annotations.from_arrays([0, 0, 1, 1], list("uvuv"), list("abab"))
        plain = crowdppl.fit(data, "dawid-skene", method="em")
    with pytest.raises(DataError, match="sequence="):
        plain.spans()


def test_a_mini_batch_and_an_enumerated_program_are_refused():
    data, _ = simulated(texts=5)
    with pytest.raises(CrowdpplError, match="batch_size"):
        crowdppl.fit(data, method="svi", batch_size=8, max_iter=3, num_samples=2)
    with pytest.raises(CrowdpplError, match="marginal"):
        crowdppl.pyro_program("sequential-workers", data)


def test_simulated_tokens_follow_the_model():
    """Chains with given parameters: shares of neighbours, and of labels after labels, within 4 standard errors."""
    N = 6000
    places = pd.DataFrame({"task": range(N), "sequence": np.arange(N) // 10, "position": np.arange(N) % 10})
    moves = np.array([[0.8, 0.2], [0.4, 0.6]])
    rows = np.array([[[0.9, 0.1], [0.3, 0.7]], [[0.6, 0.4], [0.1, 0.9]], [[0.8, 0.2], [0.2, 0.8]]])  # after 0, 1, none
    values = {"start": np.array([0.5, 0.5]), "transition": moves, "emission": np.stack([rows, rows])}
    data, truth, _ = crowdppl.simulate(
        crowdppl.models.SequentialWorkers(),
        np.repeat(np.arange(N), 2),
        np.tile([0, 1], N),
        classes=2,
        seed=0,
        parameters=values,
        sequences=places,
    )
    on = np.flatnonzero(data.position.numpy() > 0)
    for k in (0, 1):
        here = on[truth[on - 1] == k]
        share = (truth[here] == 1).mean()
        assert abs(share - moves[k, 1]) < 4 * np.sqrt(0.25 / len(here))
    z, c, y = truth[data.item.numpy()], data.previous.numpy(), data.label.numpy()
    for before in (0, 1, 2):
        for k in (0, 1):
            chosen = (z == k) & (c == before)
            assert abs((y[chosen] == 1).mean() - rows[before, k, 1]) < 4 * np.sqrt(0.25 / chosen.sum())
    again = data.with_sequences(places)
    assert torch.equal(again.previous, data.previous)


@pytest.mark.slow
def test_the_command_adds_tokens(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        (f"s{s}", n, f"w{j}", "OBI"[rng.integers(2) if n == 0 else rng.integers(3)])
        for s, n, j in itertools.product(range(12), range(5), range(4))
    ]
    table = pd.DataFrame(rows, columns=["text", "place", "worker", "label"])
    table["label"] = table["label"].replace({"B": "B-X", "I": "I-X"})
    later = table["worker"] == "w3"
    table[~later].to_csv(tmp_path / "first.csv", index=False)
    table[later].to_csv(tmp_path / "second.csv", index=False)
    places = ("--sequence", "text", "--position", "place")
    run("fit", tmp_path / "first.csv", *places, "--method", "em", "--out", tmp_path / "out")
    wrong = run("update", tmp_path / "out", tmp_path / "second.csv", "--overwrite", code=2).output
    assert "--task" in wrong
    run("update", tmp_path / "out", tmp_path / "second.csv", *places, "--overwrite")
    assert set(pd.read_csv(tmp_path / "out" / "workers.csv")["worker"]) == {"w0", "w1", "w2", "w3"}
    assert (tmp_path / "out" / "spans.csv").is_file()
