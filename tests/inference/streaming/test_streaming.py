"""Streamed from disk: what plain EM finds in memory, batch by batch, and bad data sets told."""

import json
import shutil
import tempfile
import warnings
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest
from scipy.special import digamma, gammaln, logsumexp, softmax
from typer.testing import CliRunner

import crowdppl
from crowdppl import Annotations, stream
from crowdppl.cli.main import app
from crowdppl.errors import CrowdpplError, CrowdpplWarning, DataError, silent
from crowdppl.inference.backends import passes
from crowdppl.inference.scale.streaming.dataset import Stored
from crowdppl.models import ClassConditional, DawidSkene, HierarchicalDawidSkene, OneCoin


def fit(*args, **options):
    """Fit with the library's warnings kept back: runs here are short."""
    with silent():
        return crowdppl.fit(*args, **options)


def crowd(items=4000, workers=30, each=5, K=3, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, K, items)
    item = np.repeat(rng.permutation(items), each)
    worker = rng.integers(0, workers, len(item))
    good = rng.uniform(0.5, 0.95, workers)
    label = np.where(rng.random(len(item)) < good[worker], truth[item], rng.integers(0, K, len(item)))
    names = [f"i{n}" for n in range(items)]
    frame = pd.DataFrame(
        {"task": np.array(names)[item], "worker": [f"w{n}" for n in worker], "label": [f"c{n}" for n in label]}
    )
    return frame, pd.Series([f"c{k}" for k in truth], index=names)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("model", ["dawid-skene", "one-coin", "class-conditional"])
def test_ends_near_plain_em(tmp_path, monkeypatch, model, compiled):
    monkeypatch.setattr(passes, "ANNOTATIONS", 0 if compiled else 10**9)
    frame, truth = crowd()
    frame.to_parquet(tmp_path / "x.parquet")
    actual = stream(tmp_path / "x.parquet", model, consensus=tmp_path / "truth.parquet", rows=1000, passes=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        full = fit(Annotations.from_frame(frame), model, method="em", num_samples=2, independent=True)
    caught = pd.read_parquet(tmp_path / "truth.parquet").set_index("task")
    assert caught.index.tolist() == full.items().tolist()
    best = pd.Series(full.labels[full.probability_as_published().argmax(1)], index=full.items())
    assert (caught["label"] == best).mean() > 0.995
    assert abs(caught["probability"].to_numpy() - full.probability_as_published().max(1)).mean() < 0.01
    each = caught[[f"p_{label}" for label in full.labels]].to_numpy()
    assert abs(each - full.probability_as_published()).mean() < 0.01
    assert (each.max(1) == caught["probability"]).all()
    assert actual.consensus == tmp_path / "truth.parquet"
    point = full.tree["point"].to_dataset()
    order = actual.workers.set_index("worker").index
    for name, value in actual.parameters.items():
        there = point[name].reindex(worker=order) if "worker" in point[name].dims else point[name]
        np.testing.assert_allclose(value.numpy(), there.values, atol=0.005)
    assert actual.workers.set_index("worker")["annotations"].to_dict() == frame["worker"].value_counts().to_dict()
    assert (actual.items, actual.annotations) == (4000, len(frame))
    assert (caught["label"] == truth[caught.index]).mean() == pytest.approx(
        (best == truth[best.index]).mean(), abs=0.003
    )


def mean_field(frame, pooled, prior, right, wrong, rounds):
    """Coordinate ascent of the bound, in NumPy: tables by digamma, sums, and the bound in full."""
    item, items = pd.factorize(frame["task"])
    worker, workers = pd.factorize(frame["worker"])
    label, labels = pd.factorize(frame["label"], sort=True)
    N, J, K = len(items), len(workers), len(labels)
    r = np.zeros((N, K))
    np.add.at(r, (item, label), 1.0)
    r /= r.sum(1, keepdims=True)
    eye = np.eye(K, dtype=bool)
    bounds = []
    for _ in range(rounds):
        counts = np.zeros((J, K, K))
        np.add.at(counts, (worker, slice(None), label), r[item])
        classes = prior + r.sum(0)
        if pooled:  # one coin a worker, (J, 2)
            hits = counts[:, eye].sum(1)
            q, p = (
                np.stack([1 + right + hits, 1 + wrong + counts.sum((1, 2)) - hits], 1),
                np.array([1 + right, 1 + wrong]),
            )
        else:
            p = np.where(eye, 1 + right, 1 + wrong / (K - 1))
            q = p + counts
        logs = digamma(q) - digamma(q.sum(-1, keepdims=True))
        table = np.where(eye, logs[:, :1, None], logs[:, 1:, None] - np.log(K - 1)) if pooled else logs
        log_classes = digamma(classes) - digamma(classes.sum())
        joint = np.tile(log_classes, (N, 1))
        np.add.at(joint, item, table[worker, :, label])
        r = softmax(joint, axis=1)
        flat = np.full(K, float(prior))
        apart = sum(
            (
                gammaln(a.sum(-1))
                - gammaln(a).sum(-1)
                - gammaln(b.sum(-1))
                + gammaln(b).sum(-1)
                + ((a - b) * e).sum(-1)
            ).sum()
            for a, b, e in ((q, np.broadcast_to(p, q.shape), logs), (classes, flat, log_classes))
        )
        bounds.append(logsumexp(joint, axis=1).sum() - apart)
    accuracy = q[:, 0] / q.sum(1) if pooled else (q / q.sum(-1, keepdims=True))[:, eye] @ (classes / classes.sum())
    return dict(zip(workers, accuracy, strict=True)), r, bounds


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(
    ("model", "pooled"),
    [(DawidSkene(prior_correct=4, prior_incorrect=1), False), (OneCoin(), True), (ClassConditional(), False)],
)
def test_variational_bayes_climbs_the_bound(tmp_path, monkeypatch, model, pooled, compiled):
    """In two classes class-conditional tables are Dawid and Skene's; one batch makes the first pass a step of plain VB."""
    monkeypatch.setattr(passes, "ANNOTATIONS", 0 if compiled else 10**9)
    frame, _ = crowd(items=60, workers=8, each=4, K=2 if isinstance(model, ClassConditional) else 3)
    frame.to_parquet(tmp_path / "x.parquet")
    actual = stream(tmp_path / "x.parquet", model, method="vb", consensus=tmp_path / "truth.parquet", passes=12)
    accuracy, r, bounds = mean_field(frame, pooled, 1.0, 4.0, 1.0, 12)
    # A pass says what the bound was before its step; the first has no parameters before it.
    np.testing.assert_allclose(actual.facts["objective"], bounds[:11], rtol=1e-9)
    assert (np.diff(bounds) > -1e-9).all()
    np.testing.assert_allclose(actual.workers["accuracy"], [accuracy[w] for w in actual.workers["worker"]], rtol=1e-6)
    caught = pd.read_parquet(tmp_path / "truth.parquet")
    np.testing.assert_allclose(caught["probability"], r.max(1), rtol=1e-6)


def test_the_bound_is_below_the_evidence(tmp_path):
    """Six items: the marginal likelihood by a sum over all truths, of Dirichlet-multinomials, is a little above."""
    frame, _ = crowd(items=6, workers=3, each=3, K=2)
    frame.to_parquet(tmp_path / "x.parquet")
    bound = stream(
        tmp_path / "x.parquet", DawidSkene(prior_correct=4, prior_incorrect=1), method="vb", passes=30
    ).facts["objective"][-1]
    item, worker = pd.factorize(frame["task"])[0], pd.factorize(frame["worker"])[0]
    label = pd.factorize(frame["label"], sort=True)[0]
    rows = np.array([[5.0, 2.0], [2.0, 5.0]])

    def marginal(counts, prior):
        return (
            gammaln(prior.sum(-1))
            - gammaln(prior).sum(-1)
            + gammaln(prior + counts).sum(-1)
            - gammaln((prior + counts).sum(-1))
        )

    terms = []
    for truth in product(range(2), repeat=6):
        counts = np.zeros((3, 2, 2))
        np.add.at(counts, (worker, np.array(truth)[item], label), 1)
        terms.append(marginal(np.bincount(truth, minlength=2), np.ones(2)) + marginal(counts, rows).sum())
    assert 0 < logsumexp(terms) - bound < 1.5


def test_intervals_hold_what_they_say_to_hold(tmp_path):
    """A crowd drawn from the prior, twenty annotations an item: of 200 intervals of .89 some 178 hold the accuracy.

    Truths are all but known then, so that the approximation is nearly exact; at most 4 standard errors (of 4.4) below.
    """
    rng = np.random.default_rng(4)
    accuracy = rng.beta(5, 2, 200)
    truth = rng.integers(0, 2, 1000)
    item = np.repeat(np.arange(1000), 20)
    worker = rng.integers(0, 200, len(item))
    label = np.where(rng.random(len(item)) < accuracy[worker], truth[item], 1 - truth[item])
    pd.DataFrame({"task": item, "worker": worker, "label": label}).to_parquet(tmp_path / "x.parquet")
    table = stream(tmp_path / "x.parquet", OneCoin(), method="vb", passes=6).workers
    value = accuracy[table["worker"].to_numpy(dtype=int)]
    assert 160 <= ((table["accuracy_low"] <= value) & (value <= table["accuracy_high"])).sum() <= 196


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [HierarchicalDawidSkene(), pytest.param(DawidSkene(), marks=pytest.mark.longest)],
    ids=lambda m: type(m).__name__,
)
def test_gradients_from_disk_end_where_those_in_memory_do(tmp_path, model):
    """Within .03: both stop short of the optimum, by the noise of their last steps."""
    frame, truth = crowd(items=600, workers=10)
    frame.to_parquet(tmp_path / "x.parquet")
    options = {"consensus": tmp_path / "truth.parquet", "batch_size": 300, "rows": 1600, "passes": 200}
    actual = stream(tmp_path / "x.parquet", model, method="svi", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        full = fit(Annotations.from_frame(frame), model, method="svi", independent=True, num_samples=200)
    caught = pd.read_parquet(tmp_path / "truth.parquet").set_index("task")
    best = pd.Series(full.labels[full.probability_as_published().argmax(1)], index=full.items())
    assert (caught["label"] == best).mean() > 0.99
    joined = actual.workers.merge(full.workers(), on="worker")
    np.testing.assert_allclose(joined["accuracy_x"], joined["accuracy_y"], atol=0.03)
    width = joined["accuracy_high_x"] - joined["accuracy_low_x"]
    np.testing.assert_allclose(width, joined["accuracy_high_y"] - joined["accuracy_low_y"], atol=0.03)
    assert (caught["label"] == truth[caught.index]).mean() > 0.9


@pytest.mark.slow
def test_gradients_to_a_point_end_where_em_does(tmp_path):
    frame, _ = crowd(items=600, workers=10)
    frame.to_parquet(tmp_path / "x.parquet")
    maximised = stream(tmp_path / "x.parquet", passes=30)
    actual = stream(tmp_path / "x.parquet", method="svi", guide="point", batch_size=200, passes=170)
    assert list(actual.workers) == ["worker", "annotations", "accuracy"]
    for name, value in maximised.parameters.items():
        np.testing.assert_allclose(actual.parameters[name], value, atol=0.02)


def test_few_gradient_steps_are_told(tmp_path):
    frame, _ = crowd(items=50)
    frame.to_parquet(tmp_path / "x.parquet")
    with pytest.warns(CrowdpplWarning, match=r"SVI took 2 gradient steps, and some 500 are needed; raise passes"):
        stream(tmp_path / "x.parquet", method="svi", passes=2)


def test_same_seed_same_result(tmp_path):
    frame, _ = crowd(items=100)
    frame.to_parquet(tmp_path / "x.parquet")
    for method, options in (("vb", {}), ("svi", {"batch_size": 20, "passes": 4})):
        with silent():  # few gradient steps
            one, two, other = (
                stream(tmp_path / "x.parquet", method=method, seed=seed, **options).workers for seed in (1, 1, 2)
            )
        pd.testing.assert_frame_equal(one, two)
        assert not one.equals(other)


def test_batches_do_not_cut_items(tmp_path):
    """One whole pass has the sums of all, whatever the size of batches: the same steps to rounding."""
    frame, _ = crowd(items=50, each=7)
    frame.to_parquet(tmp_path / "x.parquet", row_group_size=13)
    for rows in (1, 5, 20, 10_000):
        source = Stored(tmp_path / "x.parquet", rows=rows)
        batches = [(batch, tasks.to_pylist()) for batch, tasks in source.named()]
        assert sum(batch.A for batch, _ in batches) == len(frame)
        assert [name for _, names in batches for name in names] == frame["task"].drop_duplicates().tolist()
        assert all((batch.annotations_per_item == 7).all() for batch, _ in batches)


def test_codes_have_no_name_and_no_room_for_them_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    FRAME.to_parquet(tmp_path / "x.parquet")
    with pytest.raises(CrowdpplError, match="no temporary folder: No such file or directory; set TMPDIR"):
        Stored(tmp_path / "x.parquet")
    (tmp_path / "scratch").mkdir()
    source = Stored(tmp_path / "x.parquet")
    assert not list((tmp_path / "scratch").iterdir())  # files without a name: no way to end leaves them behind
    assert sum(batch.A for batch in source.batches()) == 3
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=26))  # 9 bytes an annotation
    with pytest.raises(CrowdpplError, match=r"has no room for 0\.0 GB of codes; set TMPDIR to a folder that has"):
        Stored(tmp_path / "x.parquet")


def test_a_folder_of_files(tmp_path):
    frame, _ = crowd(items=300)
    half = len(frame) // 2
    (tmp_path / "all").mkdir()
    frame[:half].to_parquet(tmp_path / "all" / "1.parquet")
    frame[half:].to_parquet(tmp_path / "all" / "2.parquet")
    frame.to_parquet(tmp_path / "x.parquet")
    one, two = (stream(tmp_path / name, rows=10**6, passes=3) for name in ("all", "x.parquet"))
    assert one.facts["objective"] == pytest.approx(two.facts["objective"])


FRAME = pd.DataFrame({"task": ["x", "x", "y"], "worker": ["u", "v", "u"], "label": ["a", "b", "a"]})
BAD = {
    "rows of an item apart": (FRAME.iloc[[0, 2, 1]], {}, "the rows of an item are apart; sort the data by 'task'"),
    "one class": (FRAME.assign(label="a"), {}, "every label is 'a'; two classes are needed"),
    "a label missing": (FRAME.assign(label=["a", None, "b"]), {}, "row 2: label missing; drop such rows"),
    "no such column": (FRAME, {"worker": "who"}, "no column 'who'"),
    "one column twice": (
        FRAME,
        {"worker": "task"},
        "task, worker and label must be three different columns, not 'task', 'task', 'label'",
    ),
    "labels that are truths": (FRAME, {"truth": "label"}, "the item of row 1 has two known truths, 'a', 'b'"),
    "no rows": (FRAME[:0].astype(str), {}, "no rows"),
    "no such column of truths": (FRAME, {"truth": "gold"}, "no column 'gold'"),
    "truths of another kind": (
        FRAME.assign(gold=1),
        {"truth": "gold"},
        "labels are strings but known truths are numbers",
    ),
    "a truth between classes": (
        FRAME.assign(label=[0, 1, 1], gold=[0.5, 1, 1]),
        {"truth": "gold"},
        "^x.parquet, column 'gold', after row 0: not a whole number",
    ),
    "two truths": (
        FRAME.assign(task=["x", "x", "y"], gold=["a", "b", None]),
        {"truth": "gold"},
        "the item of row 1 has two known truths, 'a', 'b'; leave one, or none",
    ),
    "a model of more than sums": (
        FRAME,
        {"model": "item-subtypes"},
        "ItemSubtypes cannot be streamed by method='em', which takes 'dawid-skene', 'class-conditional'",
    ),
    "a model of sequences": (
        FRAME,
        {"model": "sequential-workers"},
        "sequential-workers is about sequences or sets, which a stream does not hold together; fit reads them whole",
    ),
    "a model of items": (
        FRAME,
        {"model": "two-coin-difficulty", "method": "svi"},
        "cannot be streamed by method='svi'",
    ),
    "an unknown method": (FRAME, {"method": "vbb"}, r"no method 'vbb' from disk \(did you mean 'vb'\?\)"),
    "a negative seed": (FRAME, {"seed": -1}, "seed=-1"),
    "a level of 1": (FRAME, {"level": 1.0}, "level=1.0"),
    "step size exponent too small": (
        FRAME,
        {"step_size_exponent": 0.5},
        "step_size_exponent=0.5; it must be a number above 0.5",
    ),
    "no passes": (FRAME, {"passes": 0}, "passes=0"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_sets_are_told(case, tmp_path):
    frame, options, message = BAD[case]
    frame.to_parquet(tmp_path / "x.parquet", index=False)
    with pytest.raises(CrowdpplError, match=message) as caught:
        stream(tmp_path / "x.parquet", consensus=tmp_path / "truth.parquet", **options)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "truth.parquet").exists()


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("compiled", [True, False])
def test_known_truths_clamp_their_items(tmp_path, monkeypatch, compiled, numbers):
    """As in memory: most workers are wrong, and what is known of most items turns them round."""
    monkeypatch.setattr(passes, "ANNOTATIONS", 0 if compiled else 10**9)
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 2, 2000)
    item, worker = np.repeat(np.arange(2000), 6), rng.integers(0, 40, 12_000)
    label = np.where(rng.random(len(item)) < 0.25, truth[item], 1 - truth[item])
    known = np.where(np.arange(2000) % 5 < 3, truth, -1)[item]
    known[rng.random(len(known)) < 0.5] = -1  # told in some of an item's rows
    frame = pd.DataFrame({"task": item, "worker": worker, "label": label, "gold": known})
    frame["gold"] = frame["gold"].where(frame["gold"] >= 0)  # floats, since some are missing
    if not numbers:
        frame["label"] = "c" + frame["label"].astype(str)
        frame["gold"] = frame["gold"].map(lambda g: None if np.isnan(g) else f"c{g:.0f}")
    frame.to_parquet(tmp_path / "x.parquet")
    model = DawidSkene(prior_correct=0.5, prior_incorrect=0.5)
    for method in ("em", "vb"):
        stream(
            tmp_path / "x.parquet",
            model,
            method=method,
            truth="gold",
            consensus=tmp_path / "truth.parquet",
            rows=1000,
            passes=6,
        )
        caught = pd.read_parquet(tmp_path / "truth.parquet").set_index("task")
        right = caught["label"] == (
            truth[caught.index] if numbers else np.char.add("c", truth[caught.index].astype(str))
        )
        clamped = frame.dropna(subset="gold")["task"].unique()
        assert right[clamped].all()
        assert (caught.loc[clamped, "probability"] > 1 - 1e-12).all()
        assert right.mean() > 0.95
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        full = fit(Annotations.from_frame(frame, truth="gold"), model, method="em", num_samples=2, independent=True)
    best = pd.Series(full.labels[full.probability_as_published().argmax(1)], index=full.items())
    assert (right.index == best.index).all()
    assert (caught["label"] == best).mean() > 0.995


def test_a_class_that_only_known_truths_show_is_one(tmp_path):
    FRAME.assign(gold=["a", None, "z"]).to_parquet(tmp_path / "x.parquet")
    assert stream(tmp_path / "x.parquet", truth="gold").labels.tolist() == ["a", "b", "z"]


TASK, WORKER = pyarrow.array(["x", "x", "y", "y"]), pyarrow.array(["u", "v", "u", "v"])
KINDS = {  # labels and known truths of two items, and the classes and truths that they are
    "not a number is blank": ([0, 1, 1, 1], pyarrow.array([float("nan"), 1.0, 1.0, float("nan")]), [0, 1], [1, 1]),
    "no truth at all": (["a", "b", "b", "b"], pyarrow.nulls(4), ["a", "b"], [-1, -1]),
    "a wider truth": (pyarrow.array([0, 1, 1, 1], "uint8"), pyarrow.array([300, None, None, 1]), [0, 1, 300], [2, 1]),
    "floats": ([0.0, 1.0, 1.0, 1.0], pyarrow.array([0, None, None, None]), [0, 1], [0, -1]),
    "views": (pyarrow.array(["a", "b", "b", "b"], "string_view"), pyarrow.array(["b"] * 4), ["a", "b"], [1, 1]),
    "booleans": ([True, False, False, True], pyarrow.array([None, None, None, True]), [False, True], [-1, 1]),
    "a dictionary": (
        pyarrow.array(["a", "b", "b", "b"]).dictionary_encode(),
        pyarrow.array(["c", None, None, None], "large_string"),
        ["a", "b", "c"],
        [2, -1],
    ),
}


@pytest.mark.parametrize("case", KINDS)
@pytest.mark.parametrize("parts", [1, 2])
def test_kinds_of_columns(tmp_path, case, parts):
    label, gold, classes, known = KINDS[case]
    table = pyarrow.table({"task": TASK, "worker": WORKER, "label": label, "gold": gold})
    for n in range(parts):
        part = table.slice(n * 4 // parts, 4 // parts)
        try:
            pyarrow.parquet.write_table(part, tmp_path / f"{n}.parquet", row_group_size=1)
        except pyarrow.ArrowNotImplementedError as error:  # by versions that cannot write views, which is theirs to say
            pytest.skip(str(error))
    source = Stored(tmp_path, truth="gold")
    (batch,) = source.batches()
    assert source.labels.tolist() == classes
    assert batch.truth.tolist() == known
    if case != "views":  # which pandas does not read
        held = pd.concat([pd.read_parquet(tmp_path / f"{n}.parquet") for n in range(parts)])
        held["gold"] = held["gold"].astype(object if case in ("no truth at all", "booleans") else held["gold"].dtype)
        memory = Annotations.from_frame(held, truth="gold", labels=classes)
        assert memory.truth.tolist() == known
        assert memory.label.tolist() == batch.label.tolist()


PARTS = {  # files of one folder that do not go together
    "strings beside numbers": (
        {"label": ["a", "b"]},
        {"label": [1, 0]},
        "column 'label': strings in one file, numbers in another",
    ),
    "a column in one file only": (
        {"label": ["a", "b"]},
        {"given_label": ["a", "b"]},
        "1.parquet: no column 'label', which other",
    ),
    "lists": (
        {"label": [["a"], ["b"]]},
        {"label": [["a"], ["b"]]},
        "column 'label' is of type 'list<.*>'; use strings or int",
    ),
    "a label between numbers": (
        {"label": [0.0, 1.0]},
        {"label": [0.5, 1.0]},
        "column 'label', after row 2: not a whole number",
    ),
    "a label that is none": (
        {"label": [0.0, 1.0]},
        {"label": [1.0, float("nan")]},
        "row 4: label missing; drop such rows",
    ),
}


@pytest.mark.parametrize("case", PARTS)
def test_files_that_do_not_go_together(tmp_path, case):
    *parts, message = PARTS[case]
    for n, part in enumerate(parts):
        columns = {"task": [f"x{n}", f"y{n}"], "worker": ["u", "v"]} | part
        pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / f"{n}.parquet")
    with pytest.raises(DataError, match=message) as caught:
        stream(tmp_path)
    assert "cannot be read" not in str(caught.value)


def test_truths_in_some_of_the_files_damage_in_others_and_none_at_all(tmp_path):
    with pytest.raises(DataError, match="no Parquet file in this folder"):
        stream(tmp_path)
    FRAME.to_parquet(tmp_path / "0.parquet", index=False)
    FRAME.assign(task=["z", "z", "q"], gold=["b", None, "a"]).to_parquet(tmp_path / "1.parquet", index=False)
    (batch,) = Stored(tmp_path, truth="gold").batches()
    assert batch.truth.tolist() == [-1, -1, 1, 0]
    (tmp_path / "2.parquet").write_bytes(b"hello")
    with pytest.raises(CrowdpplError, match="cannot be read as Parquet") as caught:
        stream(tmp_path)
    assert "\n" not in str(caught.value)


def test_no_parquet_is_told(tmp_path):
    with pytest.raises(CrowdpplError, match="no file"):
        stream(tmp_path / "none.parquet")
    (tmp_path / "x.parquet").write_text("task,worker,label\n")
    with pytest.raises(CrowdpplError, match="cannot be read as Parquet"):
        stream(tmp_path / "x.parquet")


def test_the_command(tmp_path):
    frame, _ = crowd(items=500)
    frame.to_parquet(tmp_path / "x.parquet")
    result = CliRunner().invoke(app, ["stream", str(tmp_path / "x.parquet"), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert len(pd.read_parquet(tmp_path / "out" / "truth.parquet")) == 500
    assert len(pd.read_csv(tmp_path / "out" / "workers.csv")) == 30
    story = json.loads((tmp_path / "out" / "run.json").read_text())
    assert story["annotations"] == 2500
    assert (story["input"], story["options"]["seed"], story["options"]["truth"]) == ("x.parquet", 0, None)
    again = CliRunner().invoke(app, ["stream", str(tmp_path / "x.parquet"), "--out", str(tmp_path / "out")])
    assert again.exit_code == 2
    assert "already holds" in again.output


def test_wide_priors_are_kept(tmp_path):
    FRAME.to_parquet(tmp_path / "x.parquet")
    actual = stream(tmp_path / "x.parquet", DawidSkene(prior_correct=1000.0, prior_incorrect=0.0))
    assert (np.diagonal(actual.parameters["confusion"].numpy(), axis1=1, axis2=2) > 0.99).all()
