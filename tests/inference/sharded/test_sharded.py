"""Fits of which each process reads and holds its share: what a fit in memory finds, and no rank with another's rows."""

import threading
import warnings

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest
import torch

import crowdppl
from crowdppl import Annotations, CrowdpplError, DataError, FileError, ModelError, OptionError, distribute
from crowdppl.data.readers.parquet import Table
from crowdppl.errors import silent
from crowdppl.inference.backends import passes
from crowdppl.inference.scale.sharded import collect, part, rows
from crowdppl.inference.scale.sharded import plan as plan_module
from crowdppl.inference.scale.sharded.part import Part, _chosen, _uniform
from crowdppl.inference.scale.sharded.plan import Plan

GIBBS = {"method": "gibbs", "chains": 2, "warmup": 5, "num_samples": 40}


def crowd(items=1200, workers=25, each=5, K=3, seed=0):
    """Rows in random order, with some known truths."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, K, items)
    item = rng.permutation(np.repeat(np.arange(items), each))
    worker = rng.integers(0, workers, len(item))
    good = rng.uniform(0.5, 0.95, workers)
    label = np.where(rng.random(len(item)) < good[worker], truth[item], rng.integers(0, K, len(item)))
    known = np.where((item % 40 == 0) & (rng.random(len(item)) < 0.7), truth[item], -1)
    table = {
        "task": [f"i{n:05d}" for n in item],
        "worker": [f"w{n}" for n in worker],
        "label": [f"c{n}" for n in label],
    }
    return pd.DataFrame(table | {"gold": [None if n < 0 else f"c{n}" for n in known], "number": item})


def written(folder):
    """Return the table of true labels by item."""
    table = pd.read_parquet(folder)
    return table.set_index(table.columns[0]).sort_index()


def quiet(*args, **options):
    with silent():
        return distribute(*args, **options)


@pytest.fixture
def small_blocks(monkeypatch):
    """Many parts, blocks and comparisons in small data."""
    for module, name, size in (
        (rows, "BLOCK", 300),
        (collect, "BLOCK", 256),
        (collect, "WAITING", 200),
        (part, "ITEMS", 100),
    ):
        monkeypatch.setattr(module, name, size)
    monkeypatch.setattr(part, "ROWS", 500)


# ---------------------------------------------------------------------- one process


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("model", ["dawid-skene", "one-coin", "class-conditional"])
def test_em_ends_as_in_memory(tmp_path, monkeypatch, model, compiled):
    if not compiled:
        monkeypatch.setattr(passes, "compiled", lambda: None)
    frame = crowd()
    frame.to_parquet(tmp_path / "x.parquet", index=False, row_group_size=1000)
    result = distribute(tmp_path / "x.parquet", model, consensus=tmp_path / "truth", truth="gold")
    with silent():
        data = Annotations.from_frame(frame.drop(columns="number"), truth="gold")
        full = crowdppl.fit(data, model, method="em", num_samples=2, independent=True)
    actual, expected = written(tmp_path / "truth"), full.truth().set_index("task").sort_index()
    assert actual.index.tolist() == expected.index.tolist()
    assert actual["label"].tolist() == expected["label"].astype(str).tolist()
    columns = ["probability", "p_c0", "p_c1", "p_c2"]
    np.testing.assert_allclose(actual[columns], expected[columns], rtol=0, atol=1e-9)
    assert result.facts["log_posterior"] == pytest.approx(full.info["facts"]["log_posterior"], rel=1e-12)
    assert result.facts["iterations"] == full.info["facts"]["iterations"]
    assert (result.items, result.annotations, result.facts["largest_share"]) == (1200, len(frame), len(frame))
    workers = result.workers.set_index("worker")
    assert workers["annotations"].to_dict() == frame["worker"].value_counts().to_dict()
    names = list(result.workers["worker"])
    assert names == sorted(frame["worker"].unique())
    point = full.tree["point"].to_dataset()
    for name, value in result.parameters.items():
        theirs = point[name].sel(worker=names) if "worker" in point[name].dims else point[name]
        np.testing.assert_allclose(value, theirs.to_numpy().reshape(value.shape), rtol=0, atol=1e-9)


@pytest.mark.usefixtures("small_blocks")
def test_names_may_be_numbers_and_files_many(tmp_path):
    frame = crowd().drop(columns=["task", "gold"]).rename(columns={"number": "item"})
    frame["label"] = frame["label"].str[1:].astype(int) + 7
    for n in range(5):
        frame.iloc[n::5].to_parquet(tmp_path / f"{n}.parquet", index=False)
    result = distribute(tmp_path, consensus=tmp_path / "out" / "truth")
    with silent():
        full = crowdppl.fit(Annotations.from_frame(frame), "dawid-skene", method="em", num_samples=2, independent=True)
    actual, expected = written(tmp_path / "out" / "truth"), full.truth().set_index("item").sort_index()
    assert actual.index.name == "item"
    assert actual.index.tolist() == expected.index.tolist()
    np.testing.assert_allclose(actual[["p_7", "p_8", "p_9"]], expected[["p_7", "p_8", "p_9"]], rtol=0, atol=1e-9)
    assert result.labels.tolist() == [7, 8, 9]


@pytest.mark.parametrize("compiled", [True, False])
def test_gibbs_agrees_with_gibbs_in_memory(tmp_path, monkeypatch, compiled):
    if not compiled:
        monkeypatch.setattr(passes, "compiled", lambda: None)
    frame = crowd()
    frame.to_parquet(tmp_path / "x.parquet", index=False)
    options = GIBBS | {"warmup": 50, "num_samples": 400}
    result = distribute(tmp_path / "x.parquet", consensus=tmp_path / "truth", truth="gold", **options)
    with silent():
        data = Annotations.from_frame(frame.drop(columns="number"), truth="gold")
        full = crowdppl.fit(data, "dawid-skene", independent=True, **options)
    actual, expected = written(tmp_path / "truth"), full.truth().set_index("task").sort_index()
    assert np.abs(actual["p_c0"] - expected["p_c0"]).max() < 0.05
    known = frame.dropna().groupby("task")["gold"].first()
    assert (actual.loc[known.index, "label"] == known).all()
    assert (actual.loc[known.index, "probability"] == 1).all()
    ours, theirs = (table.set_index("worker").sort_index() for table in (result.workers, full.workers()))
    for column in ("accuracy", "accuracy_low", "accuracy_high"):
        assert (ours[column] - theirs[column]).abs().max() < 0.02
    assert result.facts["r_hat"] < 1.05
    assert result.facts["converged"] == (result.facts["r_hat"] <= 1.01 and result.facts["ess"] >= 400)
    values = written(tmp_path / "truth").filter(like="p_").to_numpy()
    np.testing.assert_allclose(values.sum(1), 1, rtol=1e-12)


def test_a_drawn_class_is_possible():
    probability = torch.tensor([[0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [0.25, 0.0, 0.75]], dtype=torch.float64)
    for uniform, expected in ((0.0, [1, 0, 0]), (0.3, [1, 0, 2]), (np.nextafter(1.0, 0.0), [1, 1, 2])):
        assert _chosen(probability, torch.full((3,), uniform, dtype=torch.float64)).tolist() == expected
    keys = np.arange(200_000, dtype=np.uint64)
    one, other = _uniform(keys, 5), _uniform(keys, 6)
    assert 0 <= float(one.min()) < float(one.max()) < 1
    for drawn in (one, other):
        assert abs(float(drawn.mean()) - 0.5) < 0.005
    assert abs(float(torch.corrcoef(torch.stack([one, other]))[0, 1])) < 0.01


# ---------------------------------------------------------------------- stopped, and going on


class Power(Exception):
    """The end of a process."""


@pytest.mark.parametrize(("options", "steps"), [({"method": "em", "tol": 0.0}, 10), (GIBBS, 30)])
def test_a_stopped_fit_goes_on_to_the_same_bits(tmp_path, options, steps):
    crowd().to_parquet(tmp_path / "x.parquet", index=False)
    whole = quiet(tmp_path / "x.parquet", consensus=tmp_path / "whole", **options)
    keep = {"checkpoint": (tmp_path / "keep", 0.0)}

    def ends(step, of, what):
        if step >= steps:
            raise Power

    with pytest.raises(Power):
        quiet(tmp_path / "x.parquet", progress=ends, **keep, **options)
    assert (tmp_path / "keep" / "checkpoint.safetensors").is_file()
    with pytest.raises(FileError, match="belongs to another fit"):
        quiet(tmp_path / "x.parquet", **keep, **options | {"seed": 1})
    seen = []
    result = quiet(
        tmp_path / "x.parquet",
        consensus=tmp_path / "again",
        progress=lambda step, of, what: seen.append((step, what)),
        **keep,
        **options,
    )
    assert min(step for step, what in seen if what not in ("reading", "writing")) >= steps
    for name, value in whole.parameters.items():
        assert torch.equal(value, result.parameters[name])
    pd.testing.assert_frame_equal(whole.workers, result.workers, check_exact=True)
    pd.testing.assert_frame_equal(written(tmp_path / "whole"), written(tmp_path / "again"), check_exact=True)
    assert whole.facts == result.facts
    assert list((tmp_path / "keep").iterdir()) == []


def test_a_checkpoint_belongs_to_its_data(tmp_path):
    frame = crowd()
    frame.to_parquet(tmp_path / "x.parquet", index=False)
    keep = {"checkpoint": (tmp_path / "keep", 0.0)}

    def ends(step, of, what):
        if step >= 10:
            raise Power

    with pytest.raises(Power):
        quiet(tmp_path / "x.parquet", progress=ends, tol=0.0, **keep)
    frame.loc[3, "label"] = "c0" if frame.loc[3, "label"] == "c1" else "c1"
    frame.to_parquet(tmp_path / "x.parquet", index=False)
    with pytest.raises(FileError, match="belongs to another fit"):
        quiet(tmp_path / "x.parquet", tol=0.0, **keep)


# ---------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda frame: frame.assign(label="c0", gold="c0"), "every label is 'c0'"),
        (lambda frame: frame.assign(worker=frame["worker"].where(frame.index != 7)), "row 8: worker missing"),
        (lambda frame: frame.assign(gold=np.where(np.arange(len(frame)) % 2, "c0", "c1")), "has two known truths, 'c"),
        (lambda frame: frame.head(0), "no rows"),
        (lambda frame: frame.drop(columns="worker"), "no column 'worker'"),
    ],
)
def test_bad_data_are_refused(tmp_path, change, expected):
    change(crowd()).to_parquet(tmp_path / "x.parquet", index=False)
    with pytest.raises(DataError, match=expected):
        distribute(tmp_path / "x.parquet", truth="gold")


def test_other_models_and_methods_are_refused(tmp_path):
    crowd().to_parquet(tmp_path / "x.parquet", index=False)
    for model in ("hierarchical", "item-effects", "pooled", "worker-groups", "majority-vote"):
        with pytest.raises(
            ModelError, match="cannot be fitted in shares, which takes 'dawid-skene', 'class-conditional', 'one-coin'"
        ):
            distribute(tmp_path / "x.parquet", model)
    with pytest.raises(OptionError, match=r"no method 'gibs' in shares \(did you mean 'gibbs'\?\)"):
        distribute(tmp_path / "x.parquet", method="gibs")
    (tmp_path / "truth").mkdir()
    (tmp_path / "truth" / "x.parquet").touch()
    with pytest.raises(FileError, match="already holds Parquet files"):
        distribute(tmp_path / "x.parquet", consensus=tmp_path / "truth")


def test_a_run_that_is_too_short_says_so(tmp_path):
    crowd().to_parquet(tmp_path / "x.parquet", index=False)
    with pytest.warns(crowdppl.CrowdpplWarning, match=r"EM stopped after 3 evaluations .* raise max_iter"):
        distribute(tmp_path / "x.parquet", max_iter=3)
    with pytest.warns(crowdppl.CrowdpplWarning, match="too few to judge convergence"):
        distribute(tmp_path / "x.parquet", method="gibbs", warmup=1, num_samples=2)


# ---------------------------------------------------------------------- several ranks, as threads of this process


class Threads:
    """A group of ranks that are threads."""

    def __init__(self, size):
        self.size, self.barrier, self.places = size, threading.Barrier(size, timeout=60), [None] * size

    def view(self, rank):
        return _View(self, rank)

    def run(self, work):
        """Return what each rank's work returns or raises."""
        out = [None] * self.size

        def one(rank):
            try:
                out[rank] = work(self.view(rank))
            except CrowdpplError as error:
                out[rank] = error

        threads = [threading.Thread(target=one, args=(rank,)) for rank in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return out


class _View:
    def __init__(self, group, rank):
        self.group, self.rank, self.size = group, rank, group.size

    def gather(self, value):
        self.group.places[self.rank] = value
        self.group.barrier.wait()
        values = list(self.group.places)
        self.group.barrier.wait()
        return values

    def add(self, values):
        return sum(self.gather(values))

    def exchange(self, parcels, note):
        everything = self.gather((list(parcels), note))
        return [memoryview(sent[self.rank]) for sent, _ in everything], [note for _, note in everything]


def names_of(held):
    return held.items.to_pylist()


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("ranks", [1, 2, 5])
@pytest.mark.parametrize("order", ["task", None])
@pytest.mark.parametrize("truth", ["gold", None])
def test_each_rank_holds_whole_items_of_its_own(tmp_path, ranks, order, truth):
    frame = crowd()
    frame = frame if order is None else frame.sort_values(order, kind="stable")
    frame.to_parquet(tmp_path / "x.parquet", index=False, row_group_size=200)
    plan = Plan.of(Table(tmp_path / "x.parquet", (None, None, None), truth), ranks)
    assert (plan.last is not None) == (order is not None and ranks > 1)
    assert sum(group.rows for share in plan.groups for group in share) == len(frame)
    read = [0] * ranks

    def work(group):
        mine = Part(group)
        for piece in rows._pieces(plan, group.rank, plan.columns.columns):
            read[group.rank] += len(piece[0])
        contents = mine.read(plan)
        return mine, contents

    parts = Threads(ranks).run(work)
    held = [one for one, _ in parts]
    assert sorted(name for one in held for name in names_of(one.held)) == sorted(frame["task"].unique())
    assert sum(one.data.A for one in held) == len(frame)
    assert max(one.data.A for one in held) < 1.3 * len(frame) / ranks
    for _, contents in parts:
        assert (contents.items, contents.annotations) == (1200, len(frame))
    assert parts[0][1].each.tolist() == frame["worker"].value_counts().sort_index().tolist()
    assert max(read) < 1.3 * len(frame) / ranks
    workers, labels = (part.to_pylist() for part in (held[0].names.workers, held[0].names.labels))
    by_item = {name: sorted(zip(some["worker"], some["label"], strict=True)) for name, some in frame.groupby("task")}
    known = frame.dropna(subset="gold").groupby("task")["gold"].first().to_dict() if truth else {}
    for one in held:
        data = one.data
        for n, name in enumerate(names_of(one.held)):
            column = data.column[int(data.start[n]) : int(data.start[n + 1])]
            assert sorted((workers[c // 3], labels[c % 3]) for c in column) == by_item[name]
            assert (None if data.known[n] < 0 else labels[data.known[n]]) == known.get(name)
        assert not data.column[data.A :].any()
    if order is not None:
        assert names_of(held[-1].held) == sorted(names_of(held[-1].held))
    alone = Plan.of(Table(tmp_path / "x.parquet", (None, None, None), truth), 1)
    (expected,) = Threads(1).run(lambda group: _digest(Part(group), group, alone))
    assert Threads(ranks).run(lambda group: _digest(held[group.rank], group)) == [expected] * ranks


def _digest(one, group, plan=None):
    one.group = group
    if plan is not None:
        one.read(plan)
    return one.digest()


def test_ranks_without_rows(tmp_path):
    """More ranks than row groups, and than items: hashes decide, and a rank may hold nothing."""
    frame = crowd(items=3, workers=4)
    frame.to_parquet(tmp_path / "x.parquet", index=False)
    plan = Plan.of(Table(tmp_path / "x.parquet", (None, None, None), None), 6)
    assert plan.last is None

    def work(group):
        one = Part(group)
        return one.read(plan), one.backend.given(one._shares())

    ended = Threads(6).run(work)
    assert all(contents.items == 3 for contents, _ in ended)
    assert sum(float(sums.item_counts.sum()) for _, sums in ended) == pytest.approx(3)


@pytest.mark.usefixtures("small_blocks")
def test_an_error_of_one_rank_is_raised_on_all(tmp_path):
    frame = crowd()
    frame["label"] = frame["label"].where(frame.index != len(frame) - 1)
    frame.to_parquet(tmp_path / "x.parquet", index=False, row_group_size=500)
    plan = Plan.of(Table(tmp_path / "x.parquet", (None, None, None), None), 3)
    errors = Threads(3).run(lambda group: Part(group).read(plan))
    assert [str(error) for error in errors] == [
        f"x.parquet, row {len(frame):,}: label missing; drop such rows before streaming"
    ] * 3
    # In the second stage, too: items may be missing.
    frame = crowd()
    frame["task"] = frame["task"].where(frame.index != len(frame) - 1)
    frame.to_parquet(tmp_path / "x.parquet", index=False, row_group_size=500)
    plan = Plan.of(Table(tmp_path / "x.parquet", (None, None, None), None), 3)
    errors = Threads(3).run(lambda group: Part(group).read(plan))
    assert ["task missing" in str(error) for error in errors] == [True] * 3


def _flipped(frame):
    return frame.assign(label=frame["label"].map({"c0": "c1", "c1": "c0", "c2": "c2"}))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_flipped, "another file on the machine of rank 1"),
        (lambda frame: frame[::-1], "another file on the machine of rank 1"),
        (lambda frame: frame[:-1], "another file on the machine of rank 1"),
        (None, "No such file"),
    ],
)
@pytest.mark.parametrize("sampled", [2**21, 2**14])
def test_ranks_that_see_other_data_at_one_path_say_so(tmp_path, monkeypatch, change, said, sampled):
    monkeypatch.setattr(plan_module, "SAMPLED", sampled)
    frame, path = crowd(), tmp_path / "x.parquet"
    frame.to_parquet(path, index=False, row_group_size=500)
    plan = Plan.of(Table(path, (None, None, None), None), 2)
    plan.check(1)
    if change is None:
        path.unlink()
    else:
        change(frame).to_parquet(path, index=False, row_group_size=500)
    with pytest.raises(FileError, match=said):
        plan.check(1)
    plan.check(0)  # rank 0 has read its own file


def test_without_statistics_hashes_decide(tmp_path):
    table = pyarrow.Table.from_pandas(crowd().sort_values("task"), preserve_index=False)
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet", row_group_size=200, write_statistics=False)
    assert Plan.of(Table(tmp_path / "x.parquet", (None, None, None), None), 4).last is None
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet", row_group_size=5000)
    assert Plan.of(Table(tmp_path / "x.parquet", (None, None, None), None), 4).last is None  # ranges would be uneven


def test_warnings_are_the_library_s(tmp_path):
    crowd().to_parquet(tmp_path / "x.parquet", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        distribute(tmp_path / "x.parquet")
