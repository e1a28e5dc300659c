"""Labels that cannot tell workers apart: few a worker, or one class a worker; and results that lose a class."""

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import quiet_fit
from commands import run

import crowdppl
from crowdppl import Annotations, ModelError, report
from crowdppl.data.alerts import CLASSES_LOST
from crowdppl.data.diagnostics import lost_classes
from crowdppl.data.worker_evidence import abstaining, typical_number, why_not_apart
from crowdppl.inference.catalogue import ALIKE, DEFAULT, default_model, model_name
from crowdppl.posterior.workers.verdicts import NOTABLE


def survey(items, per_item, per_worker, classes=2, accuracy=0.7, seed=0):
    """Workers of equal accuracy, each with so many annotations, dealt at random; and the true labels."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(classes, size=items)
    item = np.concatenate([rng.permutation(items) for _ in range(per_item)])
    worker = np.arange(len(item)) // per_worker
    wrong = (truth[item] + rng.integers(1, classes, len(item))) % classes
    label = np.where(rng.random(len(item)) < accuracy, truth[item], wrong)
    return pd.DataFrame({"task": item, "worker": worker, "label": label}), truth


def functions(seed=0, classes=2, people=0, items=600, prevalence=None):
    """Ten or so labelling functions that give one class or abstain, people who give all classes; true labels and votes."""
    rng = np.random.default_rng(seed)
    truth, rows = rng.choice(classes, items, p=prevalence), []
    for j in range(5 * classes):
        fires = rng.random(items) < np.where(truth == j % classes, 0.3, 0.05)
        rows += [(n, f"f{j}", j % classes) for n in np.flatnonzero(fires)]
    for j in range(people):
        some = np.flatnonzero(rng.random(items) < 0.3)
        given = np.where(rng.random(len(some)) < 0.8, truth[some], rng.integers(classes, size=len(some)))
        rows += [(n, f"p{j}", label) for n, label in zip(some, given, strict=True)]
    return pd.DataFrame(rows, columns=["task", "worker", "label"]), truth


def correct(frame, truth):
    """Return the result of the default, its share of correct labels, and that of the votes, where ties count in part."""
    data = Annotations.from_frame(frame)
    posterior = quiet_fit(data, seed=0)
    votes = crowdppl.aggregate.majority(data).probability()
    known = truth[data.items.astype(int)]
    right = (posterior.truth()["label"].to_numpy() == known).mean()
    return posterior, right, votes[np.arange(data.N), known].mean()


@pytest.mark.parametrize(
    ("per_item", "per_worker", "classes"),
    [(5, 1, 2), (3, 1, 2), (2, 1, 5), (3, 1, 3), (3, 2, 2), (3, 4, 2), (5, 1, 20)],
)
def test_few_labels_a_worker(per_item, per_worker, classes):
    """As correct as the votes; nobody is to be excluded or retrained, and a note says what was fitted and why."""
    posterior, right, votes = correct(*survey(200, per_item, per_worker, classes))
    assert right > votes - 0.06  # ties: two standard errors
    assert posterior.info["model"] == ALIKE
    (note,) = (sentence for sentence in posterior.notes if "was fitted" in sentence)
    assert ("every worker gave one label" in note) == (per_worker == 1)
    assert f"model='{DEFAULT}'" in note
    assert not posterior.alert
    assert not set(posterior.workers()["verdict"]) & set(NOTABLE)


def test_a_few_busy_workers_beside_a_survey():
    """What counts is from whom most of the annotations are."""
    many = survey(300, 5, 1)[0].astype({"worker": str})
    busy = many.assign(worker="w" + (many["worker"].astype(int) % 6).astype(str)).drop_duplicates(["task", "worker"])
    assert model_name(default_model(Annotations.from_frame(pd.concat([busy, many.head(300)])))[0]) == DEFAULT
    assert model_name(default_model(Annotations.from_frame(pd.concat([busy.head(300), many])))[0]) == ALIKE


def test_who_can_be_told_apart():
    """By many labels a worker, by differences between workers, and by known true labels; weights count as items."""
    equal = Annotations.from_frame(survey(300, 5, 10)[0])
    assert "permutation test" in why_not_apart(equal)
    frame, truth = survey(300, 5, 10, accuracy=0.95)
    guess = np.random.default_rng(1).integers(2, size=len(frame))
    differ = frame.assign(label=np.where(frame["worker"] % 2 == 0, guess, frame["label"]))
    assert why_not_apart(Annotations.from_frame(differ)) is None
    assert why_not_apart(Annotations.from_frame(survey(300, 5, 50)[0])) is None
    alone = frame.drop_duplicates("task")
    assert why_not_apart(Annotations.from_frame(alone)) == "most annotations are of items that nobody else annotated"
    assert typical_number(Annotations.from_frame(alone)) == 0
    known = Annotations.from_frame(alone, truth=dict(enumerate(truth.tolist())))
    assert typical_number(known) > 0
    assert typical_number(equal.with_weights(torch.full((equal.N,), 3.0))) == 30
    one = frame[frame["worker"] == 0]
    assert why_not_apart(Annotations.from_frame(one)) is None
    assert why_not_apart(Annotations.from_frame(frame.assign(label=1), labels=[0, 1])) is None


@pytest.mark.parametrize(
    "options", [{}, {"classes": 3}, {"prevalence": [0.8, 0.2]}, {"people": 2}, {"people": 6}], ids=str
)
def test_labelling_functions(options):
    """Of one class each, alone or beside people: no less correct than the votes, and nobody is excluded for abstaining."""
    posterior, right, votes = correct(*functions(**options))
    assert right > votes - 0.02
    assert any("labels of one class only" in note for note in posterior.notes)
    verdicts = posterior.workers().set_index("worker")["verdict"]
    of_functions = verdicts[verdicts.index.str.startswith("f")]
    assert set(of_functions) == {"unknown"}
    plan = report.lines(report.actions(posterior), posterior)
    assert not any("xclude" in line for line in plan)


def test_a_constant_worker_does_not_abstain():
    """One class on items that others give another class as often as elsewhere."""
    frame, truth = survey(200, 5, 40)
    rng = np.random.default_rng(0)
    some = rng.permutation(200)[:80]
    ones = np.flatnonzero(truth == 1)[:60]
    more = pd.DataFrame({"task": np.r_[some, ones], "worker": [-1] * len(some) + [-2] * len(ones), "label": 1})
    data = Annotations.from_frame(pd.concat([frame, more]))
    codes = (part.numpy() for part in (data.item, data.worker, data.label))
    abstains = dict(zip(data.workers.tolist(), abstaining(*codes, (data.N, data.J, data.K)), strict=True))
    assert abstains.pop(-2)
    assert not any(abstains.values())
    assert why_not_apart(data) is None


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("same", [True, False], ids=["one class", "a class each"])
def test_half_of_the_workers_are_constant(classes, same):
    """Whatever the item: nobody abstains, and the workers are told apart."""
    rng = np.random.default_rng(3)
    truth = rng.integers(classes, size=400)
    item, worker = np.repeat(np.arange(400), 5), np.concatenate([rng.permutation(12)[:5] for _ in range(400)])
    guess = rng.integers(classes, size=len(item))
    label = np.where(rng.random(len(item)) < 0.85, truth[item], guess)
    label = np.where(worker < 6, label, 0 if same else worker % classes)
    posterior, right, votes = correct(pd.DataFrame({"task": item, "worker": worker, "label": label}), truth)
    assert posterior.info["model"] != ALIKE
    assert right > max(votes, 0.88)


@pytest.mark.parametrize(("classes", "fires", "else_fires"), [(2, 0.6, 0.4), (4, 0.4, 0.2)])
def test_weak_labelling_functions_beside_a_few_people(classes, fires, else_fires):
    """Each shows little of its choice of items, all together enough."""
    rng = np.random.default_rng(1)
    truth, rows = rng.integers(classes, size=500), []
    for j in range(12):
        chosen = rng.random(500) < np.where(truth == j % classes, fires, else_fires)
        rows += [(n, f"f{j}", j % classes) for n in np.flatnonzero(chosen)]
    some = rng.permutation(500)[:200]
    rows += [(n, f"p{n % 3}", truth[n] if rng.random() < 0.9 else rng.integers(classes)) for n in some]
    data = Annotations.from_frame(pd.DataFrame(rows, columns=["task", "worker", "label"]), labels=range(classes))
    assert "labels of one class only" in why_not_apart(data)


def test_nearly_all_annotations_of_one_class():
    """Too little is left to rate workers by, whether those of one class choose items or not."""
    rng = np.random.default_rng(0)
    item, worker = np.repeat(np.arange(300), 5), np.concatenate([rng.permutation(12)[:5] for _ in range(300)])
    label = np.where(worker < 11, worker % 2, rng.integers(2, size=len(item)))
    data = Annotations.from_frame(pd.DataFrame({"task": item, "worker": worker, "label": label}))
    assert "labels of one class only" in why_not_apart(data)


@pytest.fixture(scope="module")
def collapsed():
    return quiet_fit(Annotations.from_frame(survey(200, 5, 1)[0]), "item-effects", method="em", seed=0, num_samples=20)


@pytest.mark.slow
def test_a_lost_class_comes_first(collapsed, tmp_path):
    """In every view; the exit status is that of success."""
    assert collapsed.alert.startswith(CLASSES_LOST)
    assert "0 has the most votes of 88 items and is the label of 0, of 200" in collapsed.alert
    assert not collapsed.not_converged
    assert repr(collapsed).startswith(f"Posterior({CLASSES_LOST}")
    loaded = crowdppl.load(collapsed.save(tmp_path / "posterior.nc"))
    actions = report.actions(loaded)
    assert report.lines(actions, loaded)[0] == loaded.alert
    page = report.page(loaded)
    assert page.index(CLASSES_LOST[1:]) < page.index("<h1")
    survey(200, 5, 1)[0].to_csv(tmp_path / "labels.csv", index=False)
    words = ("--model", "item-effects", "--method", "em", "--num-samples", "20", "--out", tmp_path / "r")
    shown = " ".join(run("fit", tmp_path / "labels.csv", *words).output.split())
    assert 0 < shown.index(CLASSES_LOST) < shown.index("What to do")


@pytest.mark.parametrize("classes", [2, 3, 5, 20])
def test_what_counts_as_lost(classes):
    """The least class keeps a tenth of its items or more, or has a small share of the votes: nothing is said."""
    frame, truth = survey(40 * classes, 3, 30, classes, accuracy=1.0)
    data = Annotations.from_frame(frame)
    kept = torch.nn.functional.one_hot(torch.from_numpy(truth), classes).double()
    assert lost_classes(data, kept) == []
    others = kept.clone()
    others[truth == 0] = torch.nn.functional.one_hot(torch.tensor(1), classes).double()
    (sentence,) = lost_classes(data, others)
    assert sentence.startswith(CLASSES_LOST)
    assert f"0 has the most votes of {(truth == 0).sum()} items and is the label of 0" in sentence
    some = np.flatnonzero(truth == 0)[: int(np.ceil(0.1 * (truth == 0).sum()))]
    others[some] = kept[some]
    assert lost_classes(data, others) == []
    known = Annotations.from_frame(frame, truth={int(n): 1 for n in np.flatnonzero(truth == 0)})
    others[truth == 0] = torch.nn.functional.one_hot(torch.tensor(1), classes).double()
    assert lost_classes(known, others) == []


@pytest.mark.parametrize(("right", "said"), [(1, False), (4, True)])
def test_known_truths_say_that_votes_are_wrong(right, said):
    """Of eight known items whose votes are for the lost class, few or half are of it."""
    frame, truth = survey(80, 3, 30, 2, accuracy=1.0)
    lost = np.flatnonzero(truth == 0)
    known = {int(n): int(place >= right) for place, n in enumerate(lost[:8])}
    data = Annotations.from_frame(frame, truth=known)
    others = torch.nn.functional.one_hot(torch.ones(80, dtype=torch.int64), 2).double()
    assert bool(lost_classes(data, others)) == said
    assert lost_classes(Annotations.from_frame(frame), others)


@pytest.mark.parametrize("model", ["majority-vote", "ordinal-thresholds"])
@pytest.mark.parametrize("method", ["em", "gibbs", "svi"])
def test_models_of_two_classes_refuse_one(model, method):
    frame = pd.DataFrame({"task": [1, 1, 2, 2], "worker": ["u", "v"] * 2, "label": "cat"})
    with pytest.raises(ModelError, match=r"the data have one class, cat, and the model needs two; declare all classes"):
        quiet_fit(frame, model, method=method)
    two = Annotations.from_frame(frame, labels=["cat", "dog"])
    assert quiet_fit(two, model, method="em", num_samples=5).labels[0] == "cat"
