"""Sets of labels: read from tables and exports, fitted by every engine, shown, saved, updated and written."""

import dataclasses
import json
from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import BRIEF, Stop, in_turn, stopping
from commands import run

import crowdppl
from crowdppl import Annotations, criticism, export, report
from crowdppl.data import copies
from crowdppl.data.sets import of_labels, whole
from crowdppl.errors import CrowdpplError, DataError, ModelError, OptionError, silent
from crowdppl.export import results

LABELS = ["cat", "dog", "fish"]


def frame(rows):
    return pd.DataFrame(rows, columns=["task", "worker", "label"])


def read(rows, **options):
    with silent():
        return Annotations.from_frame(frame(rows), several="sets", **options)


def chosen(data):
    """Return the set of every annotation by task and worker."""
    out = {}
    for item, worker, label in zip(data.item.tolist(), data.worker.tolist(), data.label.tolist(), strict=True):
        key = (data.sequences[data.sequence[item]], data.workers[worker])
        out.setdefault(key, set())
        if label:
            out[key].add(data.set_labels[data.position[item]])
    return out


def simulated(tasks=60, workers=6, seed=0, each=4):
    """Return rows of labels, of which cat and dog often come together, and the true sets."""
    rng = np.random.default_rng(seed)
    truth = [
        ({"cat", "dog"} if rng.random() < 0.5 else {"fish"}) - ({"dog"} if rng.random() < 0.2 else set())
        for _ in range(tasks)
    ]
    rows = [
        (f"t{g}", f"w{w}", ";".join(n for n in LABELS if rng.random() < (0.8 if n in own else 0.1)))
        for g, own in enumerate(truth)
        for w in rng.choice(workers, each, replace=False)
    ]
    return rows, truth


# ---------------------------------------------------------------------- reading


@pytest.mark.parametrize(
    "cells",
    [
        ["cat;dog", "cat", "", "dog;fish"],
        ["dog|cat", "cat", " ", "fish|dog"],
        [["cat", "dog"], ["cat"], [], ["fish", "dog", "dog"]],
        ['["cat", "dog"]', '["cat"]', "[]", "['dog', 'fish']"],
        [("dog", "cat"), {"cat"}, set(), np.array(["dog", "fish"])],
    ],
)
def test_sets_are_read_however_they_are_written(cells):
    names = [(0, "u"), (0, "v"), (1, "u"), (1, "v")]
    data = read([(*name, cell) for name, cell in zip(names, cells, strict=True)])
    assert chosen(data) == dict(zip(names, [{"cat", "dog"}, {"cat"}, set(), {"dog", "fish"}], strict=True))
    assert data.items.tolist() == [f"{task}|{label}" for task in (0, 1) for label in LABELS]
    assert data.set_labels.tolist() == LABELS
    assert data.labels.tolist() == [0, 1]
    assert data.set_label.tolist() == [0, 1, 2] * 2
    assert bool((data.item.diff() >= 0).all())
    assert "sets of 3 labels of 2 tasks" in repr(data)
    assert any("3 labels" in note for note in data.notes)
    assert not any("are classes" in note for note in data.notes)


def test_a_blank_cell_is_the_empty_set_unless_others_are_written_as_empty():
    rows = [(0, "u", "cat"), (0, "v", None), (1, "u", "dog"), (1, "v", "cat;dog")]
    data = read(rows)
    assert chosen(data)[0, "v"] == set()
    assert any("1 blank cell is read as a set without a label" in note for note in data.notes)
    data = read([*rows, (1, "w", "")])
    assert (0, "v") not in chosen(data)
    assert chosen(data)[1, "w"] == set()


def test_spellings_of_a_label_are_one_within_sets():
    rows = [(0, "u", "Cat;dog"), (0, "v", "cat"), (1, "u", "cat"), (1, "v", "dog")]
    data = read(rows)
    assert data.set_labels.tolist() == ["cat", "dog"]
    assert chosen(data)[0, "u"] == {"cat", "dog"}
    assert any("'Cat' as 'cat'" in note for note in data.notes)
    assert read(rows, fold=False).set_labels.tolist() == ["Cat", "cat", "dog"]
    assert read(rows, labels=["Cat", "cat", "dog"]).set_labels.tolist() == ["Cat", "cat", "dog"]


def test_declared_labels_give_the_order_and_those_that_nobody_chose():
    rows = [(0, "u", "dog"), (0, "v", "cat;dog")]
    data = read(rows, labels=["fish", "dog", "cat"])
    assert data.set_labels.tolist() == ["fish", "dog", "cat"]
    assert chosen(data)[0, "v"] == {"dog", "cat"}
    with pytest.raises(DataError, match=r"'cat'.*not among the declared"):
        read(rows, labels=["dog"])
    with pytest.raises(DataError, match=r"every set is empty; list the labels"):
        read([(0, "u", []), (1, "v", [])])


@pytest.mark.parametrize(
    "option",
    [
        {"kind": "ordinal"},
        {"other_labels": ["cat"]},
        {"sequence": "task", "position": "task"},
        {"features": pd.DataFrame()},
    ],
)
def test_options_that_are_not_for_sets_are_refused(option):
    with pytest.raises(OptionError, match=f"{next(iter(option))}= is not used for sets"):
        read([(0, "u", "cat;dog"), (1, "u", "dog")], **option)


def test_the_default_says_how_to_read_sets():
    with pytest.raises(DataError, match="several='sets'"), silent():
        Annotations.from_frame(frame([(0, "u", "cat;dog"), (1, "u", "dog;cat")]))


def test_repeats_times_and_known_sets_are_those_of_any_table():
    rows = [(0, "u", "cat"), (0, "u", "dog"), (0, "v", "cat;dog"), (1, "u", "fish"), (1, "v", "")]
    table = frame(rows).assign(when=range(5), took=[1.0, 2, 3, 4, 5])
    with silent():
        data = Annotations.from_frame(
            table,
            several="sets",
            repeats="last",
            timestamp="when",
            seconds="took",
            truth={0: ["dog", "cat"], 1: []},
        )
    assert chosen(data)[0, "u"] == {"dog"}
    first = data.item % 3 == 0
    assert data.timestamp[first].tolist() == [1, 2, 3, 4]
    assert data.seconds[data.item % 3 == 2].tolist() == [2, 3, 4, 5]
    assert data.truth.tolist() == [1, 1, 0, 0, 0, 0]
    known = read(rows, truth=pd.DataFrame({"task": [1], "label": ["fish;cat"]}))
    assert known.truth.tolist() == [-1, -1, -1, 1, 0, 1]


@pytest.mark.parametrize("empty", [[], "[]", set()])
def test_a_known_set_that_is_written_as_empty_is_known(empty):
    rows = [(0, "u", "cat"), (0, "v", "dog"), (1, "u", "cat;dog"), (1, "v", "dog")]
    table = pd.DataFrame({"task": [0, 1], "label": [empty, ""]}, dtype=object)
    forms = (table, table.set_index("task")["label"], {0: empty, 1: ""})
    for truth in forms:
        assert read(rows, truth=truth).truth.tolist() == [0, 0, -1, -1]
    with silent():
        column = frame(rows).assign(gold=pd.Series([empty, empty, None, None], dtype=object))
        data = Annotations.from_frame(column, several="sets", truth="gold")
    assert data.truth.tolist() == [0, 0, -1, -1]


def test_files_are_read_as_frames_are(tmp_path):
    rows, _ = simulated()
    frame(rows).to_csv(tmp_path / "x.csv", index=False)
    wanted = read(rows)
    with silent():
        for data in (
            Annotations.from_csv(tmp_path / "x.csv", several="sets"),
            crowdppl.read(tmp_path / "x.csv", several="sets"),
        ):
            assert data.items.tolist() == wanted.items.tolist()
            for name in ("item", "worker", "label", "position", "sequence"):
                assert torch.equal(getattr(data, name), getattr(wanted, name))


def test_whole_sets_are_one_answer_each():
    rows, _ = simulated()
    data = read(rows)
    answers = whole(data)
    assert len(rows) == answers.A
    assert answers.N == 60
    sets = {}
    for item, worker, label in zip(answers.item.tolist(), answers.worker.tolist(), answers.label.tolist(), strict=True):
        sets.setdefault(label, set()).add(frozenset(chosen(data)[answers.items[item], answers.workers[worker]]))
    assert all(len(one) == 1 for one in sets.values())
    assert len(sets) == len({frozenset(cell.split(";")) for _, _, cell in rows})


def test_copies_are_those_of_whole_sets():
    rows, _ = simulated(tasks=150, each=6)
    by = {(task, worker): cell for task, worker, cell in rows}
    twins = [(task, worker, by[task, "w0"] if worker == "w1" else cell) for task, worker, cell in rows]
    named = [[read(rows).workers[w] for w in group.workers] for group in copies.copied_answers(read(rows))]
    assert named == []
    data = read(twins)
    (group,) = copies.copied_answers(data)
    assert sorted(data.workers[list(group.workers)].tolist()) == ["w0", "w1"]
    kept, aside = copies.one_of_each(data, [group])
    assert kept.A + aside.A == data.A
    # A set is kept or set aside as a whole.
    for part in (kept, aside):
        assert set(torch.bincount(part.sequence[part.item] * part.J + part.worker).tolist()) <= {0, 3}


# ---------------------------------------------------------------------- fits

OPTIONS = BRIEF | {
    "svi": {"max_iter": 300, "num_samples": 20},
    "nuts": {"chains": 1, "warmup": 8, "num_samples": 8, "max_tree_depth": 3},
}


@pytest.mark.parametrize("method", in_turn(OPTIONS, 4, night=False))
def test_every_engine_gives_sets(tmp_path, method):
    rows, truth = simulated()
    with silent():
        posterior = crowdppl.fit(read(rows), method=method, seed=0, **OPTIONS[method])
    assert posterior.info["model"] == "label-sets"
    table = posterior.sets()
    assert table["task"].tolist() == [f"t{g}" for g in range(60)]
    assert table["probability"].between(0, 1).all()
    right = [
        set(own.replace("(none)", "").split(";")) - {""} == true
        for own, true in zip(table["labels"], truth, strict=True)
    ]
    assert np.mean(right) > 0.7
    each = table[[f"p_{name}" for name in LABELS]].to_numpy()
    np.testing.assert_allclose(each.reshape(-1), posterior.probability()[:, 1])
    # The probability of a set is at most that of each of its labels.
    sure = np.maximum(each, 1 - each).min(-1)
    assert (table["probability"] <= sure + {"em": 1e-9, "nuts": 0.15}.get(method, 0.02)).all()
    rates = posterior.label_rates()
    assert len(rates) == 6 * 3
    assert (rates["sensitivity_low"] <= rates["sensitivity"]).all()
    assert (rates["false_positive_rate"] <= rates["false_positive_rate_high"]).all()
    assert rates["annotations"].sum() == 3 * len(rows)
    again = crowdppl.load(posterior.save(tmp_path / "x.nc"))
    pd.testing.assert_frame_equal(again.sets(), table, check_dtype=False, rtol=1e-4, atol=2e-5)
    small = crowdppl.load(posterior.save(tmp_path / "y.nc", keep="small"))
    pd.testing.assert_frame_equal(small.label_rates(), rates, check_dtype=False, rtol=1e-3, atol=1e-3)


def test_a_model_of_classes_has_no_rates_by_label(tmp_path):
    """Also where it has a sensitivity, which is one of classes; the folder of the result is without that table."""
    rows, _ = simulated()
    with silent():
        posterior = crowdppl.fit(read(rows), "class-conditional", method="em", seed=1)
    assert posterior.tree["posterior"]["sensitivity"].dims[2:] == ("worker", "true_label")
    with pytest.raises(DataError, match=r"^this model has no rates by label; fit model='label-sets'$"):
        posterior.label_rates()
    results.write(posterior, tmp_path / "r", run={})
    written = {path.name for path in (tmp_path / "r").iterdir()}
    assert "sets.csv" in written
    assert "label_rates.csv" not in written


@pytest.mark.slow
def test_the_probability_of_a_set_is_that_of_drawn_sets():
    """Of independent errors and draws of the engine: the share of drawn truths that are the set, within 5 standard errors."""
    rows, _ = simulated()
    with silent():
        posterior = crowdppl.fit(
            read(rows), method="gibbs", independent=True, chains=2, warmup=200, num_samples=2000, seed=1
        )
    table = posterior.sets()
    draws = posterior.truth_draws().reshape(-1, 60, 3)
    own = np.array([[name in text.split(";") for name in LABELS] for text in table["labels"]])
    share = (draws == own).all(-1).mean(0)
    # Draws of a chain are not independent, and the probability is averaged over 50 of them.
    assert np.abs(share - table["probability"]).max() < 0.12
    assert np.abs(share - table["probability"]).mean() < 0.015


def test_known_sets_are_held():
    rows, truth = simulated()
    with silent():
        posterior = crowdppl.fit(read(rows, truth={"t3": sorted(truth[3]), "t4": []}), method="em", num_samples=5)
    table = posterior.sets().set_index("task")
    assert set(table.loc["t3", "labels"].split(";")) == truth[3]
    assert table.loc["t4", "labels"] == "(none)"
    np.testing.assert_allclose(table.loc[["t3", "t4"], "probability"], 1)


def test_other_models_take_the_pairs():
    rows, _ = simulated()
    with silent():
        posterior = crowdppl.fit(read(rows), "dawid-skene", method="em", num_samples=5)
    table = posterior.sets()
    each = posterior.probability().max(1).reshape(60, 3)
    np.testing.assert_allclose(table["probability"], each.prod(-1))
    with pytest.raises(DataError, match="label-sets"):
        posterior.label_rates()


def test_results_without_sets_say_so():
    with silent():
        plain = crowdppl.fit(
            Annotations.from_arrays([0, 0, 1, 1], list("uvuv"), list("abab")), "dawid-skene", method="em"
        )
    assert plain.set_labels() is None
    for view in (plain.sets, plain.label_rates):
        with pytest.raises(DataError, match="several='sets'"):
            view()


def test_an_update_adds_sets_of_fewer_labels():
    rows, _ = simulated()
    first, rest = rows[:120], [row for row in rows[120:] if "fish" not in row[2]]
    with silent():
        posterior = crowdppl.fit(read(first, labels=LABELS), method="em", num_samples=5)
        later = crowdppl.update(posterior, read(rest))
        at_once = crowdppl.fit(read([*first, *rest], labels=LABELS), method="em", num_samples=5)
    assert later.info["model"] == "label-sets"
    assert later.set_labels().tolist() == LABELS
    assert len(later.sets()) == len(at_once.sets())
    pd.testing.assert_series_equal(later.sets()["labels"], at_once.sets()["labels"])
    with pytest.raises(DataError, match="bird"), silent():
        crowdppl.update(posterior, read([("t0", "new", "bird")]))
    with pytest.raises(DataError, match="several='sets'"), silent():
        crowdppl.update(posterior, Annotations.from_frame(frame([("t0", "new", "cat"), ("t1", "new", "dog")])))


def test_sets_of_other_labels_keep_truths_and_answers():
    data = read([(0, "u", "dog"), (0, "v", "cat;dog"), (1, "u", "")], truth={0: "dog"})
    more = of_labels(data, ["fish", "dog", "cat"])
    assert chosen(more) == chosen(data)
    assert more.truth.tolist() == [0, 1, 0, -1, -1, -1]


def test_a_checkpoint_continues_to_the_same_bits(tmp_path):
    rows, _ = simulated(tasks=20)
    options = {"method": "gibbs", "chains": 2, "warmup": 60, "num_samples": 60, "seed": 3}

    with silent():
        once = crowdppl.fit(read(rows), **options)
        with stopping(70), pytest.raises(Stop):
            crowdppl.fit(read(rows), **options, checkpoint=(tmp_path / "c", 0))
        again = crowdppl.fit(read(rows), **options, checkpoint=(tmp_path / "c", 0))
    np.testing.assert_array_equal(again.tree["posterior"]["choice"], once.tree["posterior"]["choice"])


# ---------------------------------------------------------------------- command and exports


@pytest.fixture
def folder(tmp_path):
    rows, truth = simulated()
    frame(rows).to_csv(tmp_path / "x.csv", index=False)
    known = [(f"t{g}", ";".join(sorted(own))) for g, own in enumerate(truth[:20])]
    pd.DataFrame(known, columns=["task", "label"]).to_csv(tmp_path / "truth.csv", index=False)
    return tmp_path


@pytest.mark.slow
def test_the_command_fits_updates_compares_and_writes_sets(folder):
    out = run("fit", folder / "x.csv", "--several", "sets", "--out", folder / "res", "--report")
    assert "Sets: the least certain tasks" in out.output
    assert "in true sets" in out.output
    table = pd.read_csv(folder / "res" / "sets.csv")
    assert table.columns.tolist() == ["task", "labels", "probability", "annotations", "p_cat", "p_dog", "p_fish"]
    assert len(pd.read_csv(folder / "res" / "label_rates.csv")) == 18
    page = (folder / "res" / "report.html").read_text()
    assert 'id="sets"' in page
    assert "task-label pairs" in page
    frame([("t0", "new", "cat"), ("t1", "new", "")]).to_csv(folder / "more.csv", index=False)
    out = run("update", folder / "res", folder / "more.csv", "--overwrite")
    assert "6 further annotations" in out.output
    assert pd.read_csv(folder / "res" / "sets.csv")["annotations"].tolist()[:3] == [5, 5, 4]
    out = run("compare", folder / "x.csv", "--several", "sets", "--truth-file", folder / "truth.csv")
    assert "label-sets" in out.output
    assert "On 60 items of known truth" in out.output
    run("export", folder / "res", "--what", "sets", "--out", folder / "sets.jsonl")
    first = json.loads((folder / "sets.jsonl").read_text().splitlines()[0])
    assert set(first) == set(table.columns)


def test_what_to_do_names_labels_that_are_missed():
    rng = np.random.default_rng(0)
    rows = [
        (
            g,
            f"w{w}",
            [n for n in LABELS if rng.random() < ({"cat": 0.9, "dog": 0.5, "fish": 0.9}[n] if (g + k) % 2 else 0.05)],
        )
        for g, w in product(range(120), range(5))
        for k in [0]
    ]
    with silent():
        posterior = crowdppl.fit(read(rows), method="em", num_samples=20)
    actions = report.actions(posterior)
    assert [question.about for question in actions.questions] == ["on “dog”"]
    assert actions.unit == "task-label pair"
    text = str(actions)
    assert "class 0" not in text
    assert "Clarify the guideline on “dog”" in text


def test_label_studio_round_trip(tmp_path):
    rng = np.random.default_rng(0)
    tasks = [
        {
            "id": g,
            "data": {"text": f"text {g}"},
            "annotations": [
                {
                    "completed_by": w,
                    "result": [
                        {
                            "type": "choices",
                            "from_name": "topics",
                            "to_name": "text",
                            "value": {
                                "choices": [
                                    n for n in ("cat", "dog") if (n == "cat") == (g % 2 == 0) or rng.random() < 0.2
                                ]
                            },
                        }
                    ],
                }
                for w in range(4)
            ],
        }
        for g in range(12)
    ]
    source = tmp_path / "project.json"
    source.write_text(json.dumps(tasks))
    with silent():
        data = crowdppl.read(source, several="sets")
        posterior = crowdppl.fit(data, method="em", num_samples=5)
    assert data.set_labels.tolist() == ["cat", "dog"]
    assert not any("are classes" in note for note in data.notes)
    written = json.loads(export.predictions(posterior, source, tmp_path / "p.json").read_text())
    table = posterior.sets()
    for g, task in enumerate(written):
        (prediction,) = task["predictions"]
        assert prediction["result"][0]["value"]["choices"] == table.loc[g, "labels"].split(";")
        assert prediction["score"] == pytest.approx(table.loc[g, "probability"])
    # Read again: predictions of a project become annotations of a worker.
    for task in written:
        task["annotations"] = [{"completed_by": 9, "result": task["predictions"][0]["result"]}]
    source.write_text(json.dumps([{"id": g, **task} for g, task in enumerate(written)]))
    with silent():
        again = crowdppl.read(source, several="sets")
    assert [";".join(sorted(own)) for own in chosen(again).values()] == table["labels"].tolist()


def test_names_of_labels_are_given_by_label():
    data = read([(0, "u", "a;b"), (0, "v", "b;x"), (1, "u", "x")], map={"a": "cat", "b": "dog", "x": None})
    assert data.set_labels.tolist() == ["cat", "dog"]
    assert chosen(data) == {(0, "u"): {"cat", "dog"}, (0, "v"): {"dog"}, (1, "u"): set()}


def test_sets_are_held_out_as_a_whole():
    rows, _ = simulated(tasks=20)
    data = read(rows)
    with silent():
        table = criticism.kfold(data, "label-sets", folds=3, num_samples=5)
    folds = table["fold"].to_numpy().reshape(20, 3)
    assert (folds == folds[:, :1]).all()
    assert table["elpd"].notna().all()
    with pytest.raises(OptionError, match="all labels of a task"):
        criticism.kfold(data, "label-sets", folds=2, items=[0, 1, 2, 3])


def test_what_is_not_for_sets_says_so():
    rows, _ = simulated(tasks=10)
    data = read(rows)
    with pytest.raises(ModelError, match="cut sequences or sets"):
        crowdppl.fit(data, method="svi", batch_size=6, max_iter=3)
    with pytest.raises(ModelError, match="of a set are summed out together"):
        crowdppl.pyro_program("label-sets", data)
    with silent():
        posterior = crowdppl.fit(data, method="em", num_samples=5)
    with pytest.raises(DataError, match="no sequences"):
        export.conll(posterior, "x.conll")
    with pytest.raises(DataError, match="no spans"):
        posterior.spans()


def test_labels_of_lists_are_not_cut():
    data = read([(0, "u", ["a|x", "c;d"]), (0, "v", ["a|x"]), (1, "u", ["e, f"]), (1, "v", '["c;d"]')])
    assert data.set_labels.tolist() == ["a|x", "c;d", "e, f"]
    assert chosen(data)[0, "u"] == {"a|x", "c;d"}
    assert chosen(data)[1, "v"] == {"c;d"}


def test_numbers_are_labels_as_they_are_written():
    data = read([(0, "u", 1.0), (0, "v", 2.0), (1, "u", np.nan), (1, "v", 1.0)], truth={0: 1, 1: [2]})
    assert data.set_labels.tolist() == ["1", "2"]
    assert chosen(data)[1, "u"] == set()
    assert data.truth.tolist() == [1, 0, 0, 1]


def test_declarations_that_do_not_fit_are_refused():
    rows = [(0, "u", "a;b"), (1, "u", "b")]
    for options, reason in (
        ({"labels": ["a", "b", "a"]}, "'a' is declared twice"),
        ({"labels": "ab"}, "pass a list of labels"),
        ({"map": {"zzz": None}}, "'zzz'.*do not occur|do not occur.*'zzz'"),
    ):
        with pytest.raises(CrowdpplError, match=reason):
            read(rows, **options)


def test_a_label_that_says_that_nothing_applies_is_named():
    data = read([(0, "u", "none"), (0, "v", "a"), (1, "u", "none"), (1, "v", "a;b")])
    assert any("add map={'none': None}" in note for note in data.notes)
    assert not any("missing=" in note for note in data.notes)


def test_nothing_chosen_in_an_export_is_the_empty_set(tmp_path):
    tasks = [
        {
            "id": g,
            "data": {"text": "x"},
            "annotations": [
                {
                    "completed_by": w,
                    "result": [{"type": "choices", "from_name": "c", "to_name": "t", "value": {"choices": own}}],
                }
                for w, own in ((1, ["a"]), (2, []))
            ],
        }
        for g in range(2)
    ]
    (tmp_path / "x.json").write_text(json.dumps(tasks))
    with silent():
        data = crowdppl.read(tmp_path / "x.json", several="sets")
        assert crowdppl.read(tmp_path / "x.json").A == 2
    assert [len(own) for own in chosen(data).values()] == [1, 0, 1, 0]


def test_features_of_workers_do_not_cut_sets():
    rows, _ = simulated(tasks=40)
    known = pd.DataFrame({"x": np.arange(6.0)}, index=[f"w{j}" for j in range(6)])
    with silent():
        posterior = crowdppl.fit(read(rows, worker_features=known), method="em", num_samples=5)
    assert len(posterior.sets()) == 40


def test_many_labels_of_few_tasks_are_not_drawn_to_the_middle():
    """Sixty tasks, 20 labels of which one or two apply: the mean probability is the share that applies, within a half."""
    rng = np.random.default_rng(0)
    truth = [set(rng.choice(20, rng.integers(1, 3), replace=False).tolist()) for _ in range(60)]
    rows = [
        (g, f"w{w}", [f"l{k:02d}" for k in range(20) if rng.random() < (0.75 if k in own else 0.02)])
        for g, own in enumerate(truth)
        for w in rng.choice(12, 3, replace=False)
    ]
    with silent():
        probability = crowdppl.fit(read(rows), method="em", num_samples=5).probability()[:, 1]
    share = sum(map(len, truth)) / 1200
    assert 0.5 * share < probability.mean() < 1.5 * share


def test_a_worker_of_two_sets_has_no_verdict_of_many_annotations():
    rows, _ = simulated(tasks=60)
    few = [(f"t{g}", "newcomer", "cat;dog;fish") for g in range(3)]
    with silent():
        table = crowdppl.fit(read([*rows, *few]), method="em", num_samples=50).workers().set_index("worker")
    assert table.loc["newcomer", "annotations"] == 9
    assert table.loc["newcomer", "verdict"] not in ("weak", "confuses", "hasty")


def test_costs_are_those_of_sets():
    rows, _ = simulated(tasks=40, each=2)
    with silent():
        posterior = crowdppl.fit(read(rows), method="em", num_samples=20)
    actions = report.actions(posterior, cost=0.5)
    tasks = len(np.unique(actions.open // 3))
    assert tasks < len(actions.open)
    assert [one.annotations for one in actions.rounds] == [tasks, 2 * tasks, 3 * tasks]
    assert actions.rounds[0].cost == pytest.approx(0.5 * tasks)


@pytest.mark.slow
def test_a_small_file_of_many_draws_has_the_rates_of_labels(tmp_path, monkeypatch):
    """Whatever the number of draws: the size above which a small file leaves draws out is set below theirs."""
    monkeypatch.setattr("crowdppl.posterior.compact.SMALL", 10)
    rows, _ = simulated(tasks=20)
    for method in OPTIONS:
        with silent():
            posterior = crowdppl.fit(read(rows), method=method, seed=0, **OPTIONS[method])
        again = crowdppl.load(posterior.save(tmp_path / f"{method}.nc", keep="small"))
        assert "choice" not in again.tree["posterior"]
        pd.testing.assert_frame_equal(
            again.label_rates(), posterior.label_rates(), check_dtype=False, rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("method", ["em", "gibbs"])
def test_known_labels_may_be_some_of_a_task(method):
    rows, truth = simulated(tasks=40)
    data = read(rows)
    known = torch.full((data.N,), -1)
    for task in range(10):
        item = data.items.tolist().index(f"t{task}|cat")
        known[item] = int("cat" in truth[task])
    given = dataclasses.replace(data, truth=known)
    options = {"chains": 1, "warmup": 20, "num_samples": 20} if method == "gibbs" else {"num_samples": 20}
    with silent():
        posterior = crowdppl.fit(given, method=method, seed=0, **options)
    probability = posterior.probability()[:, 1]
    assert np.array_equal(probability[known >= 0].round(6), known[known >= 0].numpy())
    assert posterior.info["rho"]["truths"]["items"] == 10
