"""Labels that are never a true label: likelihoods by hand, every engine, recovered rates, and what is refused."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import CASES, SHORT, quiet_fit, turn
from commands import run
from pyro import poutine
from pyro.infer import TraceEnum_ELBO
from torch.testing import assert_close

import crowdppl
from crowdppl import Annotations, DataError, ModelError
from crowdppl.isolation import isolated
from crowdppl.model.bound import bind
from crowdppl.model.other_rates import SITE, crowd_rates
from crowdppl.model.program import prior_draws, together
from crowdppl.models import DawidSkene, OneCoin

CANNOT = "cannot tell"
WHOLE = {case.name: case for case in CASES if not case.name.startswith(("crowd-mixture", "conal", "graded-facets"))}


def table(seed=0, items=30, workers=5, each=4, classes=3, rates=(0.1, 0.5, 0.3)):
    """Answers of which some are no class, and the true classes."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, items)
    task = np.repeat(np.arange(items), each)
    worker = np.concatenate([rng.choice(workers, each, replace=False) for _ in range(items)])
    label = np.where(rng.random(len(task)) < 0.7, truth[task], rng.integers(0, classes, len(task))).astype(object)
    label = np.array([f"class {k}" for k in label], dtype=object)
    label[rng.random(len(task)) < np.array(rates)[truth[task]]] = CANNOT
    return pd.DataFrame({"task": task, "worker": worker, "label": label}), truth


def data_of(case=None, **options):
    classes = 3 if case is None else case.classes
    frame, truth = table(classes=classes, rates=(0.1, 0.5, 0.3)[:classes], **options)
    features = np.random.default_rng(1).normal(size=(len(truth), 2)) if case is None or case.features else None
    labels = [f"class {k}" for k in range(classes)]
    return Annotations.from_frame(frame, labels=labels, other_labels=CANNOT, items=range(len(truth)), features=features)


def test_annotations_are_kept_apart():
    frame, _ = table()
    data = Annotations.from_frame(frame, other_labels=["Cannot Tell"])
    other = frame["label"] == CANNOT
    assert (data.A, len(data.others), data.K) == (int((~other).sum()), int(other.sum()), 3)
    assert CANNOT not in data.labels.tolist()
    assert any(CANNOT in note for note in data.notes)
    answers = data.answers.expected(torch.ones(data.N, 1, dtype=data.dtype)).sum((0, 1))
    assert answers.tolist() == [data.A, len(data.others)]
    part = data.batch(torch.tensor([7, 2]))
    assert part.others.item.tolist() == sorted(part.others.item.tolist())
    for row, item in enumerate((7, 2)):
        before = data.others.worker[data.others.item == item]
        assert part.others.worker[part.others.item == row].tolist() == before.tolist()


@pytest.mark.parametrize("name", ["dawid-skene", "one-coin", "item-subtypes-flat", "glad", "raykar", "pooled"])
def test_the_joint_is_that_of_all_answers(name):
    """The log joint of each state, answer by answer; it is that of Pyro's program, too."""
    case = WHOLE[name]
    data = data_of(case, items=6)
    with isolated(0), torch.no_grad():
        model = bind(case.model, data)
        values = {site: value[0] for site, value in prior_draws(model, data, 1).items()}
        parameters, _ = model.conditioned(values, data)
        joint = model.item_log_joint(parameters, data)
        plain = bind(case.model, data.unseen().keep(torch.zeros(0, dtype=torch.bool)))
        wanted = bind(case.model, data).log_truth(parameters, data).expand(data.N, -1).clone()
        labels = case.model.emission(parameters, data).log_prob(data.label.unsqueeze(-1))
        rates, M = parameters[SITE].log(), model.states_per_class
        for n in range(data.A):
            wanted[data.item[n]] += labels[n] + rates[data.worker[n], :, 0].repeat_interleave(M)
        for i, j, o in zip(data.others.item, data.others.worker, data.others.label, strict=True):
            wanted[i] += rates[j, :, 1 + o].repeat_interleave(M)
        assert_close(joint, wanted, rtol=1e-10, atol=1e-10)
        assert plain.others is None
        conditioned = poutine.condition(model.program, data=values)
        elbo = TraceEnum_ELBO(max_plate_nesting=1).loss(conditioned, lambda *_: None, data)
    total = joint.logsumexp(-1).sum() + model.log_prior(values, data)
    assert_close(torch.as_tensor(-elbo, dtype=torch.float64), total.double(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["dawid-skene", "one-coin", "glad", "hierarchical"])
def test_the_log_prior_is_that_of_a_trace(name):
    data = data_of(WHOLE[name])
    with isolated(0), torch.no_grad():
        model = bind(WHOLE[name].model, data)
        sets = [{site: v[n] for site, v in prior_draws(model, data, 2).items()} for n in range(2)]
        wanted = torch.stack([model.conditioned(values, data)[1] for values in sets])
        assert_close(model.log_prior(together(sets), data) if model.prior_in_batches else wanted, wanted)


def test_both_steps_of_em_and_gibbs():
    """The mode of a Dirichlet given expected counts, and draws with its mean: within five standard errors of 4,000."""
    data = data_of()
    with isolated(0), torch.no_grad():
        model = bind(DawidSkene(), data)
        r = model.initial(data)
        counts = np.zeros((data.J, 3, 2))
        for i, j in zip(data.item, data.worker, strict=True):
            counts[j, :, 0] += r[i].numpy()
        for i, j in zip(data.others.item, data.others.worker, strict=True):
            counts[j, :, 1] += r[i].numpy()
        concentration = counts + model.others.concentration.numpy()
        mode = (concentration - 1) / (concentration - 1).sum(-1, keepdims=True)
        np.testing.assert_allclose(model.m_step(r, data)[SITE].numpy(), mode, rtol=1e-10)
        truth = r.argmax(-1).expand(4000, -1)
        drawn = model.gibbs_step(truth, {}, data)[SITE]
        hard = (
            data.answers.expected(torch.nn.functional.one_hot(truth[0], 3).to(data.dtype)) + model.others.concentration
        )
        mean = hard / hard.sum(-1, keepdim=True)
        error = (mean * (1 - mean) / (hard.sum(-1, keepdim=True) + 1) / 4000).sqrt()
        assert float(((drawn.mean(0) - mean).abs() / error).max()) < 5


@pytest.mark.parametrize(
    ("name", "method"),
    [
        pytest.param(case.name, method, marks=turn(n - m, 29))
        for n, case in enumerate(WHOLE.values())
        for m, method in enumerate(case.methods)
        if case.name != "item-subtypes" or method != "em"
    ],
)
def test_every_model_and_engine(tmp_path, name, method):
    """The rates stand in the result and its tables, and a file gives them back."""
    case = WHOLE[name]
    posterior = quiet_fit(data_of(case), case.model, method=method, **SHORT[method])
    rates = posterior.tree["posterior"][SITE]
    assert rates.dims == ("chain", "draw", "worker", "true_label", "answer")
    np.testing.assert_allclose(rates.sum("answer"), 1, atol=1e-9)
    workers = posterior.workers()
    assert (workers["other_labels"] > 0).all()
    again = crowdppl.load(posterior.save(tmp_path / "x.nc"))
    np.testing.assert_allclose(again.workers()["other_rate"], workers["other_rate"], atol=2e-4)
    assert len(again.other_rates()) == 5 * case.classes


@pytest.mark.parametrize("model", [DawidSkene(), OneCoin(), None])
def test_informative_rates_are_recovered(model):
    """Rates of .05 and .5: crowd within .03 of both, and true labels far better than without these answers."""
    frame, truth = table(seed=3, items=1000, workers=25, each=5, classes=2, rates=(0.05, 0.5))
    data = Annotations.from_frame(frame, other_labels=[CANNOT], items=range(1000))
    np.testing.assert_allclose(crowd_rates(data)[:, 1], [0.05, 0.5], atol=0.03)
    without = Annotations.from_frame(frame[frame["label"] != CANNOT], items=range(1000))
    both = []
    for one in (data, without):
        labels = quiet_fit(one, model, method="em", seed=0).truth()["label"].str.removeprefix("class ").astype(int)
        both.append(float((labels.to_numpy() == truth).mean()))
    assert both[0] > both[1] + 0.05
    assert both[0] > 0.93


def test_intervals_of_rates_cover():
    """Of 8 crowds, 89% intervals of 160 rates of workers: 80 to 96% of them; a false alarm in some 1,000 seeds."""
    inside = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        own = rng.beta(1.6, 2.4, size=(10, 2))  # rows of the prior for a crowd that answers so 30% of the time
        truth = rng.integers(0, 2, 400)
        task, worker = (
            np.repeat(np.arange(400), 5),
            np.concatenate([rng.choice(10, 5, replace=False) for _ in range(400)]),
        )
        label = np.where(rng.random(2000) < 0.85, truth[task], 1 - truth[task]).astype(str).astype(object)
        label[rng.random(2000) < own[worker, truth[task]]] = CANNOT
        frame = pd.DataFrame({"task": task, "worker": worker, "label": label})
        data = Annotations.from_frame(frame, other_labels=[CANNOT], workers=range(10))
        result = quiet_fit(data, "dawid-skene", method="gibbs", seed=seed, chains=2, warmup=50, num_samples=150)
        rates = result.other_rates().sort_values(["worker", "truth"])
        inside += ((rates["low"] <= own.ravel()) & (own.ravel() <= rates["high"])).tolist()
    assert 0.80 <= np.mean(inside) <= 0.96


def test_several_kinds_and_an_update():
    frame, _ = table(items=60)
    rng = np.random.default_rng(0)
    frame.loc[(frame["label"] == CANNOT) & (rng.random(len(frame)) < 0.5), "label"] = "offensive"
    data = Annotations.from_frame(frame, other_labels=[CANNOT, "offensive"])
    posterior = quiet_fit(data, "dawid-skene", method="em")
    assert set(posterior.other_rates()["label"]) == {CANNOT, "offensive"}
    more = pd.DataFrame({"task": [0, 1], "worker": [0, 77], "label": ["class 1", "offensive"]})
    later = crowdppl.update(posterior, more)
    joined = pd.concat([frame, more], ignore_index=True)
    whole = quiet_fit(Annotations.from_frame(joined, other_labels=[CANNOT, "offensive"]), "dawid-skene", method="em")
    assert later.info["counts"] == whole.info["counts"]
    pd.testing.assert_frame_equal(later.truth(), whole.truth(), atol=0.02)


def test_what_is_refused():
    frame, _ = table()
    for wrong, words in (
        (["unsure"], "no annotation has the label 'unsure'"),
        (["class 0", "class 1", CANNOT], "leave at least two classes"),
        ([["cannot tell"]], "must be labels"),
    ):
        with pytest.raises(DataError, match=words):
            Annotations.from_frame(frame, other_labels=wrong)
    with pytest.raises(DataError, match="read the annotations with other_labels"):
        quiet_fit(Annotations.from_frame(frame), "one-coin", method="em").other_rates()
    data = data_of()
    mixture = next(case.model for case in CASES if case.name == "crowd-mixture")
    with pytest.raises(ModelError, match=r"gives each annotation a true label of its own"):
        quiet_fit(data, mixture, method="em")


@pytest.mark.parametrize("other", [CANNOT, ["Cannot Tell"]])
@pytest.mark.parametrize("named", [[], [CANNOT]], ids=["not named", "named"])
def test_declared_classes_may_name_them_or_not(named, other):
    classes = ["class 2", "class 1", "class 0"]
    for labels in ([*classes, *named], iter([*classes, *named])):
        data = Annotations.from_frame(table()[0], labels=labels, other_labels=other)
        assert data.labels.tolist() == classes
        assert data.others.names.tolist() == [CANNOT]


@pytest.mark.parametrize("labels", [3, "class 0", {"class 0", "class 1"}])
def test_wrong_declared_classes_are_refused_as_without_them(labels):
    frame = table()[0]
    messages = []
    for rows, options in ((frame, {"other_labels": CANNOT}), (frame[frame["label"] != CANNOT], {})):
        with pytest.raises(DataError) as caught:
            Annotations.from_frame(rows, labels=labels, **options)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_known_truths_among_them_are_unknown():
    frame, _ = table()
    data = Annotations.from_frame(frame, other_labels=CANNOT, truth={0: CANNOT, 1: "class 2"})
    assert data.truth[:2].tolist() == [-1, 2]
    assert any("taken as unknown" in note for note in data.notes)


def test_the_command(tmp_path):
    table(items=60)[0].to_csv(tmp_path / "a.csv", index=False)
    done = run("fit", tmp_path / "a.csv", "--other-label", CANNOT, "--out", tmp_path / "out")
    said = " ".join(done.output.split())
    assert "'cannot tell' is" in said
    assert "where the true label is class 1" in said
    workers = pd.read_csv(tmp_path / "out" / "workers.csv")
    assert {"other_labels", "other_rate", "other_rate_of_class 1_low"} <= set(workers.columns)
    assert set(itertools.chain(pd.read_csv(tmp_path / "out" / "truth.csv")["label"])) <= {
        f"class {k}" for k in range(3)
    }


def test_labels_that_are_numbers(tmp_path):
    """Names keep their type in tables, files and an update."""
    frame, _ = table(items=60)
    frame["label"] = frame["label"].map({"class 0": 0, "class 1": 1, "class 2": 2, CANNOT: 7}).astype(int)
    posterior = quiet_fit(Annotations.from_frame(frame, other_labels=[7]), "dawid-skene", method="em")
    again = crowdppl.load(posterior.save(tmp_path / "x.nc"))
    for one in (posterior, again):
        assert one.other_rates()["label"].unique().tolist() == [7]
        later = crowdppl.update(one, pd.DataFrame({"task": [0, 1], "worker": [0, 77], "label": [2, 7]}))
        assert later.info["counts"]["annotations"] == posterior.info["counts"]["annotations"] + 1
        assert later.workers()["other_labels"].sum() == posterior.workers()["other_labels"].sum() + 1


def test_grades_have_no_such_labels():
    data = data_of(WHOLE["dawid-skene"])
    with pytest.raises(
        crowdppl.ModelError, match="GradedFacets has grades, and 'cannot tell' are labels that are never a"
    ):
        crowdppl.fit(data, "graded-facets")


@pytest.mark.parametrize("word", ["?", "n/a", "None"])
def test_a_word_for_nothing_may_be_a_label_that_is_never_a_true_one(word):
    """What the caller names is an answer, whatever it usually stands for."""
    rows = [(item, worker, ("a", "b", word)[(item + j) % 3]) for item in range(6) for j, worker in enumerate("uvw")]
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"])
    data = Annotations.from_frame(frame, other_labels=[word])
    assert data.labels.tolist() == ["a", "b"]
    assert len(data.others.item) == 6
