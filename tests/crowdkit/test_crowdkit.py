"""crowd-kit's interface: names, shapes, attributes, and equal numbers without smoothing."""

import numpy as np
import pandas as pd
import pytest
from catalog import quiet_fit, simulated
from crowds import FOUR_ITEMS

from crowdppl import CrowdpplWarning, DataError, OptionError
from crowdppl.crowdkit import aggregation

FRAME = pd.DataFrame(
    [("b", "x", 0), ("b", "y", 1), ("a", "x", 1), ("a", "y", 1), ("c", "x", 0)], columns=["task", "worker", "label"]
)


def frame_of(data):
    return pd.DataFrame(
        {"task": data.items[data.item], "worker": data.workers[data.worker], "label": data.labels[data.label]}
    )


def test_majority_vote():
    vote = aggregation.MajorityVote().fit(FRAME)
    assert vote.labels_.to_dict() == {"a": 1, "b": 0, "c": 0}
    assert vote.labels_.name == "agg_label"
    assert vote.labels_.index.name == "task"
    assert vote.probas_.loc["b"].to_dict() == {0: 0.5, 1: 0.5}
    assert vote.skills_.to_dict() == {"x": 1.0, "y": 0.5}
    skills = pd.Series({"x": 0.2, "y": 0.8})
    assert aggregation.MajorityVote().fit_predict(FRAME, skills)["b"] == 1
    assert aggregation.MajorityVote().fit_predict_proba(FRAME, skills).loc["b", 1] == pytest.approx(0.8)
    with pytest.raises(DataError, match="no skill of worker 'y'"):
        aggregation.MajorityVote().fit(FRAME, skills[["x"]])
    assert aggregation.MajorityVote(on_missing_skill="ignore").fit_predict(FRAME, skills[["x"]])["b"] == 0
    assert aggregation.MajorityVote(0.9, "value").fit_predict(FRAME, skills[["x"]])["b"] == 1
    with pytest.raises(DataError, match="nobody with a skill"):
        aggregation.MajorityVote(on_missing_skill="ignore").fit(FRAME, skills[["y"]])
    for wrong in ({"on_missing_skill": "never"}, {"on_missing_skill": "value"}):
        with pytest.raises(OptionError, match="on_missing_skill"):
            aggregation.MajorityVote(**wrong)


@pytest.mark.parametrize("kind", [aggregation.DawidSkene, aggregation.OneCoinDawidSkene])
def test_shapes_and_attributes(kind):
    data, truth, _ = simulated(items=80, seed=3)
    frame = frame_of(data)
    model = kind(n_iter=50)
    assert model.fit(frame) is model
    assert list(model.probas_.columns) == [0, 1, 2]
    np.testing.assert_allclose(model.probas_.sum(axis=1), 1)
    assert model.probas_.index.tolist() == frame["task"].unique().tolist()
    assert model.fit_predict(frame) is model.labels_
    assert model.fit_predict_proba(frame) is model.probas_
    pd.testing.assert_series_equal(model.labels_, kind(n_iter=50).fit_predict(frame))
    pd.testing.assert_frame_equal(model.probas_, kind(n_iter=50).fit_predict_proba(frame))
    assert model.priors_.sum() == pytest.approx(1)
    assert model.errors_.index.names == ["worker", "label"]
    assert len(model.errors_) == data.J * data.K  # with smoothing every label of every worker has a probability
    # For each worker and true label the labels given sum to one.
    np.testing.assert_allclose(model.errors_.groupby(level="worker").sum(), 1)
    assert np.diff(model.loss_history_).min() > -1e-9
    known = pd.Series(truth, index=data.items)
    assert (model.labels_ == known[model.labels_.index]).mean() > 0.7
    if kind is aggregation.OneCoinDawidSkene:
        one = model.errors_.loc[(model.skills_.index[0], 1), 1]
        assert one == pytest.approx(model.skills_.iloc[0])


@pytest.mark.parametrize(
    ("kind", "name"), [(aggregation.DawidSkene, "dawid-skene"), (aggregation.OneCoinDawidSkene, "one-coin")]
)
def test_smoothing_equals_em_of_the_library(kind, name):
    data, truth, _ = simulated(items=60, seed=4)
    ours = quiet_fit(data, name, method="em", num_samples=2, accelerate=False, max_iter=2000, tol=1e-14)
    model = kind(3000, 1e-14).fit(frame_of(data))
    np.testing.assert_allclose(model.probas_.loc[data.items], ours.probability(), atol=1e-6)
    if name == "dawid-skene":
        known = pd.Series(truth[:10], index=data.items[:10])
        labels = kind().fit_predict(frame_of(data), true_labels=known)
        assert (labels[known.index] == known).all()


def test_posterior_is_the_calibrated_fit():
    data, _, _ = simulated(items=60, seed=4)
    model = aggregation.DawidSkene(2)
    with pytest.raises(AttributeError, match=r"call DawidSkene\.fit"):
        _ = model.posterior_
    model.fit(frame_of(data))
    posterior = model.posterior_
    assert model.posterior_ is posterior
    assert (posterior.info["model"], posterior.info["method"]) == ("dawid-skene", "em")
    assert posterior.info["rho"] is not None
    flat = aggregation.OneCoinDawidSkene(2, smoothing=False).fit(frame_of(data))
    assert flat.posterior_.info["hyperparameters"] == {"prior_correct": 0.0, "prior_incorrect": 0.0, "prior_items": 0.0}


# Five tasks and five workers; worker w3 skipped the first task.
GIVEN = {"w1": "nyyyy", "w2": "yynyn", "w3": " ynyn", "w4": "ynyyn", "w5": "nnnyn"}
TOY = pd.DataFrame(
    [
        (f"t{n}", worker, {"n": "no", "y": "yes"}[label])
        for worker, labels in GIVEN.items()
        for n, label in enumerate(labels, 1)
        if label != " "
    ],
    columns=["task", "worker", "label"],
)
TRUE = {"t1": "yes", "t2": "yes", "t3": "no", "t4": "yes", "t5": "no"}
INITIAL = pd.DataFrame(
    0.0,
    index=pd.MultiIndex.from_product([list(GIVEN), ["yes", "no"]], names=["worker", "label"]),
    columns=["no", "yes"],
)


def initial(**cells):
    """Return initial errors of 0 except ``worker=[yes given no, yes given yes, no given no, no given yes]``."""
    table = INITIAL.copy()
    for worker, values in cells.items():
        table.loc[worker] = np.reshape(values, (2, 2))
    return table


# Crowd-kit 1.4.2: p(yes) of each task; p(yes | no), p(yes | yes) of worker w2; skill of worker w2.
STEPS = [
    ("DawidSkene", 0, [0.5, 0.6, 0.4, 1.0, 0.2], [0.9 / 2.3, 2.1 / 2.7]),
    ("DawidSkene", 1, [0.6481, 0.7398, 0.1266, 1.0, 0.0530], [0.2517, 0.9301]),
    ("DawidSkene", 2, [0.8508, 0.9037, 0.0077, 1.0, 0.0035], [0.1099, 0.9960]),
    ("DawidSkene", 10, [1, 1, 0, 1, 0], [0.0, 1.0]),
    ("DawidSkene", 100_500, [1, 1, 0, 1, 0], [0.0, 1.0]),
    ("OneCoinDawidSkene", 0, [0.5, 0.6, 0.4, 1.0, 0.2], [0.3, 0.7]),
    ("OneCoinDawidSkene", 1, [0.6623, 0.7528, 0.1420, 0.9683, 0.0585], [0.1634, 0.8366]),
    ("OneCoinDawidSkene", 2, [0.8258, 0.9181, 0.0165, 0.9899, 0.0079], [0.0581, 0.9419]),
    ("OneCoinDawidSkene", 100_500, [1, 1, 0, 1, 0], [0.0, 1.0]),
]


@pytest.mark.parametrize(("kind", "n_iter", "yes", "errors"), STEPS)
def test_maximum_likelihood_step_by_step(kind, n_iter, yes, errors):
    model = getattr(aggregation, kind)(n_iter, smoothing=False).fit(TOY)
    index = pd.Index(list(TRUE), name="task")
    np.testing.assert_allclose(model.probas_.loc[list(TRUE), "yes"], yes, atol=6e-5)
    np.testing.assert_allclose(model.errors_.loc[("w2", "yes"), ["no", "yes"]].astype(float), errors, atol=6e-5)
    assert len(model.loss_history_) <= n_iter
    if n_iter:
        expected = pd.Series(list(TRUE.values()), index, name="agg_label")
        pd.testing.assert_series_equal(model.labels_.sort_index(), expected)
    mean = pd.Series(model.probas_.mean().to_numpy(), pd.Index(["no", "yes"], name="label"), name="prior")
    pd.testing.assert_series_equal(model.priors_, mean)
    if kind == "OneCoinDawidSkene":
        assert (model.skills_.name, model.skills_.index.name) == ("skill", "worker")
        assert model.skills_["w2"] == pytest.approx(errors[1], abs=6e-5)


@pytest.mark.parametrize("smoothing", [True, False])
@pytest.mark.parametrize("n_iter", [0, 1, 2, 10])
def test_known_true_labels_hold_at_every_step(n_iter, smoothing):
    known = pd.Series({"t1": "no", "t2": "yes", "elsewhere": "yes", "t5": None})
    model = aggregation.DawidSkene(n_iter, smoothing=smoothing).fit(TOY, known)
    np.testing.assert_allclose(model.probas_.loc[["t1", "t2"], "yes"], [0, 1], atol=1e-12)
    assert model.labels_["t1"] == "no"
    np.testing.assert_allclose(model.probas_.sum(axis=1), 1)


def test_initial_errors():
    def fit(table, n_iter=10, strategy="addition", **options):
        return aggregation.DawidSkene(n_iter, 0.0, strategy, smoothing=False, **options).fit(TOY, initial_error=table)

    plain = aggregation.DawidSkene(10, 0.0, smoothing=False).fit(TOY)
    for strategy in ("addition", "assign"):
        pd.testing.assert_frame_equal(fit(None, strategy=strategy).probas_, plain.probas_)
    pd.testing.assert_frame_equal(fit(INITIAL).errors_, plain.errors_)
    pd.testing.assert_frame_equal(fit(INITIAL[:3]).probas_, plain.probas_)
    # Counts of the vote, .9 2.1 / 1.4 .6, and these make 2 3 / 2 1.
    first = fit(initial(w2=[1.1, 0.9, 0.6, 0.4]), 0).errors_.loc["w2"]
    np.testing.assert_allclose(first.loc[["yes", "no"], ["no", "yes"]], [[0.5, 0.75], [0.5, 0.25]])
    # Initial errors in which the labels given to t2 mean "no".
    against = initial(w1=[99, 0, 0, 0], w2=[99, 0, 0, 0], w3=[99, 0, 0, 0], w4=[0, 0, 99, 0], w5=[0, 0, 99, 0])
    assert fit(against).labels_["t2"] == "no"
    assert plain.labels_["t2"] == "yes"
    shares = initial(**{worker: [0.3, 0.8, 0.7, 0.2] for worker in GIVEN})
    one = fit(shares, 1, "assign").probas_["yes"]
    np.testing.assert_allclose(one[list(TRUE)], [0.4053, 0.6450, 0.1630, 0.9937, 0.0204], atol=6e-5)
    pd.testing.assert_frame_equal(fit(shares * 50, 1, "assign").probas_, fit(shares, 1, "assign").probas_)
    for wrong, words in (
        (INITIAL, "sum of each worker's error matrix in initial_error should be 1.0"),
        (shares[:3], "All the workers in data should be in initial_error"),
        (shares.rename_axis(["who", "what"]), "index of initial_error must be"),
        (shares[["no"]], "no column for the true label 'yes'"),
    ):
        with pytest.raises(DataError, match=words):
            fit(wrong, strategy="assign")
    with pytest.warns(CrowdpplWarning, match="ignored without an initial_error_strategy"):
        aggregation.DawidSkene(3).fit(TOY, initial_error=INITIAL)
    # With smoothing, pseudo-counts are added to them and the log posterior still increases.
    smooth = aggregation.DawidSkene(20, 0.0, "addition").fit(TOY, initial_error=shares * 5)
    assert np.diff(smooth.loss_history_[1:]).min() > -1e-12


def test_no_annotations():
    empty = pd.DataFrame({"task": [], "worker": [], "label": []})
    for kind in (aggregation.DawidSkene, aggregation.OneCoinDawidSkene, aggregation.MajorityVote):
        model = kind().fit(empty)
        assert model.probas_.empty
        assert (len(model.labels_), model.labels_.name) == (0, "agg_label")
        if kind is not aggregation.DawidSkene:
            assert (len(model.skills_), model.skills_.name) == (0, "skill")
        if kind is not aggregation.MajorityVote:
            assert model.errors_.empty
            assert (len(model.priors_), model.priors_.name) == (0, "prior")
            with pytest.raises(AttributeError, match="needs annotations"):
                _ = model.posterior_


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("label", [True, True, True, True, False, False]),
        ("label", [3, 3, 3, 3, 1, 1]),
        ("label", pd.array(["b", "b", "b", "b", "a", "a"], dtype="string")),
        ("task", [1.0, 2.0, 1.0, 2.0, 1.0, 2.0]),
        ("worker", [7, 7, 8, 8, 9, 9]),
    ],
    ids=["bool", "int", "string", "float-tasks", "int-workers"],
)
def test_types_are_those_of_the_frame(column, values):
    frame = pd.DataFrame({"task": [1, 2] * 3, "worker": list("aabbcc"), "label": list("yyyynn")}).assign(
        **{column: values}
    )
    for kind in (aggregation.DawidSkene, aggregation.OneCoinDawidSkene, aggregation.MajorityVote):
        model = kind().fit(frame)
        assert model.labels_.dtype == frame["label"].dtype
        assert (model.labels_ == frame["label"].iloc[0]).all()
        assert model.probas_.columns.dtype == frame["label"].dtype
        assert model.labels_.index.dtype == model.probas_.index.dtype == frame["task"].dtype
        if hasattr(model, "skills_"):
            assert model.skills_.index.dtype == frame["worker"].dtype


@pytest.mark.parametrize("overlap", [3, 300, 30_000])
def test_many_workers_per_item(overlap):
    """Three tasks, each with two yes for one no, by different workers: probabilities of thirds, without underflow."""
    worker = np.repeat(np.arange(overlap), 3)
    task = np.tile(np.arange(3), overlap)
    frame = pd.DataFrame({"task": task, "worker": worker, "label": np.where((worker - task) % 3, "yes", "no")})
    model = aggregation.DawidSkene(20, smoothing=False).fit(frame)
    np.testing.assert_allclose(model.probas_["yes"], 2 / 3, atol=0.005)
    assert (model.labels_ == "yes").all()
    np.testing.assert_allclose(model.priors_[["no", "yes"]], [1 / 3, 2 / 3], atol=0.005)


def test_skills_of_the_vote():
    vote = aggregation.MajorityVote().fit(TOY)
    expected = pd.Series([0.6, 0.8, 1.0, 0.4, 0.8], pd.Index(list(GIVEN), name="worker"), name="skill")
    pd.testing.assert_series_equal(vote.skills_, expected)
    np.testing.assert_allclose(vote.probas_.loc[list(TRUE), "yes"], [0.5, 0.6, 0.4, 1.0, 0.2])
    assert vote.fit_predict(TOY) is vote.labels_
    assert vote.fit_predict_proba(TOY) is vote.probas_
    fewer = expected.drop("w4")
    ignoring = aggregation.MajorityVote(on_missing_skill="ignore").fit(TOY, fewer)
    assert ignoring.skills_.index.tolist() == ["w1", "w2", "w3", "w5"]
    # A worker with a weight of a million decides.
    mine = TOY[TOY["worker"] == "w4"].set_index("task")["label"]
    heavy = aggregation.MajorityVote(1e6, "value").fit_predict(TOY, fewer)
    pd.testing.assert_series_equal(heavy[mine.index], mine.rename("agg_label"))
    # A repeated annotation is a further vote, but not a further agreement.
    again = pd.concat([TOY, TOY[TOY["worker"] == "w1"].iloc[[0] * 8]])
    twice = aggregation.MajorityVote().fit(again)
    assert (twice.labels_["t1"], twice.skills_["w1"]) == ("no", pytest.approx(0.6))
    with pytest.raises(DataError, match="skills: worker 'w1' has several"):
        aggregation.MajorityVote().fit(TOY, pd.concat([expected, expected[:1]]))
    with pytest.raises(OptionError, match="on_missing_skill='value' only"):
        aggregation.MajorityVote(default_skill=3).fit(TOY, expected)
    assert aggregation.MajorityVote(default_skill=3).fit(TOY).labels_["t4"] == "yes"


@pytest.mark.parametrize("kind", [aggregation.DawidSkene, aggregation.OneCoinDawidSkene, aggregation.MajorityVote])
@pytest.mark.parametrize("column", ["task", "worker", "label"])
def test_a_missing_column(kind, column):
    for name in ("fit", "fit_predict", "fit_predict_proba"):
        with pytest.raises(DataError, match=f"^data: no column '{column}'; columns are"):
            getattr(kind(), name)(TOY.drop(columns=column))
        with pytest.raises(KeyError):  # as crowd-kit
            getattr(kind(), name)(TOY.drop(columns=column))


def test_options():
    for wrong in ({"n_iter": -1}, {"n_iter": 2.5}, {"tol": "x"}, {"tol": float("nan")}, {"smoothing": 1}):
        for kind in (aggregation.DawidSkene, aggregation.OneCoinDawidSkene):
            with pytest.raises(OptionError, match=next(iter(wrong))):
                kind(**wrong)
    with pytest.raises(OptionError, match="use 'assign' or 'addition'"):
        aggregation.DawidSkene(initial_error_strategy="add")
    with pytest.raises(DataError, match="data is a list; pass a pandas DataFrame"):
        aggregation.MajorityVote().fit([])
    assert repr(aggregation.MajorityVote().fit(TOY)) == "MajorityVote(default_skill=None, on_missing_skill='error')"
    assert repr(aggregation.DawidSkene(5)).startswith("DawidSkene(n_iter=5, tol=1e-05, ")


def designs():
    """Yield frames for comparison: a toy, a sparse random crowd with repeats, boolean labels with odd numbers of votes."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 150)
    rows = [(i, j) for i in range(150) for j in rng.choice(12, 5, replace=True)]
    labels = [int(truth[i]) if rng.random() < 0.7 else int(rng.integers(0, 4)) for i, _ in rows]
    task, worker = ([f"{name}{n}" for n in column] for name, column in zip("tw", zip(*rows, strict=True), strict=True))
    yield "toy", TOY
    yield "random", pd.DataFrame({"task": task, "worker": worker, "label": labels})
    yield (
        "bool",
        pd.DataFrame(
            {"task": ["a", "b"] * 3, "worker": list("xxyyzz"), "label": [True, True, True, True, False, False]}
        ),
    )


def same(ours, theirs):
    for name in ("probas_", "priors_", "errors_", "skills_", "loss_history_"):
        if not hasattr(theirs, name):
            continue
        x, y = getattr(ours, name), getattr(theirs, name)
        if name == "loss_history_":
            assert len(x) == len(y)
            np.testing.assert_allclose(x, y, atol=1e-8)
            continue
        assert set(x.index) == set(y.index)
        assert x.index.names == y.index.names
        if name in ("probas_", "errors_"):
            assert list(x.columns) == sorted(y.columns)
            y = y.reindex(columns=x.columns)
        else:
            assert x.name == y.name
        np.testing.assert_allclose(x, y.reindex(x.index), atol=1e-8)
    assert ours.labels_.name == theirs.labels_.name
    top = ours.probas_.max(axis=1)
    alone = (ours.probas_ > top.to_numpy()[:, None] - 1e-9).sum(axis=1) == 1  # ties may be broken differently
    assert (ours.labels_[alone] == theirs.labels_[alone[alone].index]).all()


@pytest.mark.slow
def test_against_crowd_kit():
    """Every attribute of every class, to 1e-8: without smoothing the classes are crowd-kit's, step by step."""
    import random
    import warnings

    state, streams = random.getstate(), np.random.get_state()  # noqa: NPY002 - theirs uses the global stream
    table = initial(**{worker: [0.3, 0.8, 0.7, 0.2] for worker in GIVEN})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = pytest.importorskip(
            "crowdkit.aggregation", reason="crowd-kit is not installed: pip install '.[benchmark]'"
        )
        for _, frame in designs():
            # In the random crowd, agreement on tied tasks depends on how ties are broken.
            vote, expected = aggregation.MajorityVote().fit(frame), theirs.MajorityVote().fit(frame)
            there = expected.probas_.reindex(index=vote.probas_.index, columns=vote.probas_.columns)
            np.testing.assert_allclose(vote.probas_, there)
            assert vote.skills_.index.equals(expected.skills_.index)
            for kind in ("DawidSkene", "OneCoinDawidSkene"):
                for n_iter, tol in ((0, 1e-5), (1, 1e-5), (2, -1.0), (10, 0.0), (100_500, 1e-5)):
                    ours = getattr(aggregation, kind)(n_iter, tol, smoothing=False).fit(frame)
                    same(ours, getattr(theirs, kind)(n_iter, tol).fit(frame))
        for n_iter in (0, 1, 10):
            known = pd.Series({"t1": "yes", "t2": "yes"})
            ours = aggregation.DawidSkene(n_iter, smoothing=False)
            same(ours.fit(TOY, known), theirs.DawidSkene(n_iter).fit(TOY, known))
            for strategy in ("assign", "addition"):
                ours = aggregation.DawidSkene(n_iter, 0.0, strategy, smoothing=False).fit(TOY, initial_error=table)
                same(ours, theirs.DawidSkene(n_iter, 0.0, strategy).fit(TOY, initial_error=table))
        skills = pd.Series({"w1": 0.2, "w2": 0.9, "w3": 0.55, "w5": 0.7})
        for options in ({"on_missing_skill": "ignore"}, {"on_missing_skill": "value", "default_skill": 0.3}):
            same(aggregation.MajorityVote(**options).fit(TOY, skills), theirs.MajorityVote(**options).fit(TOY, skills))
    random.setstate(state)
    np.random.set_state(streams)  # noqa: NPY002


def test_crowdkit_takes_mappings():
    assert aggregation.DawidSkene().fit(FOUR_ITEMS, true_labels={"a": 1}).labels_["a"] == 1
    assert len(aggregation.MajorityVote().fit(FOUR_ITEMS, skills={"u": 1.0, "v": 0.5}).labels_) == 4
    with pytest.raises(DataError, match="skills is a list"):
        aggregation.MajorityVote().fit(FOUR_ITEMS, skills=[1.0, 0.5])
