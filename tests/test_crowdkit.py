"""crowd-kit's interface: names, shapes, attributes; the same numbers where they are meant to be the same."""

import numpy as np
import pandas as pd
import pytest
from catalog import quiet_fit, simulated

from crowdppl import DataError, OptionError
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
    assert model.probas_.index.is_monotonic_increasing
    pd.testing.assert_series_equal(model.labels_, kind(n_iter=50).fit_predict(frame))
    pd.testing.assert_frame_equal(model.probas_, kind(n_iter=50).fit_predict_proba(frame))
    assert model.priors_.sum() == pytest.approx(1)
    assert model.errors_.index.names == ["worker", "label"]
    # For each worker and true label the labels given sum to one.
    np.testing.assert_allclose(model.errors_.groupby(level="worker").sum(), 1)
    assert np.diff(model.loss_history_).min() > -1e-9
    known = pd.Series(truth, index=data.items)
    assert (model.labels_ == known[model.labels_.index]).mean() > 0.7
    if kind is aggregation.OneCoinDawidSkene:
        one = model.errors_.loc[(model.skills_.index[0], 1), 1]
        assert one == pytest.approx(model.skills_.iloc[0])


def test_it_is_our_em():
    data, truth, _ = simulated(items=60, seed=4)
    ours = quiet_fit(data, method="em", num_samples=2, accelerate=False, max_iter=500, tol=1e-12)
    theirs = aggregation.DawidSkene(500, 1e-12).fit_predict_proba(frame_of(data))
    np.testing.assert_allclose(theirs.loc[data.items], ours.probability(), atol=1e-8)
    known = pd.Series(truth[:10], index=data.items[:10])
    told = aggregation.DawidSkene().fit_predict(frame_of(data), true_labels=known)
    assert (told[known.index] == known).all()


def test_what_is_not_offered_is_told():
    for make in (aggregation.DawidSkene, aggregation.OneCoinDawidSkene):
        with pytest.raises(OptionError, match="known truths"):
            make(initial_error_strategy="assign")
    with pytest.raises(OptionError, match="known truths"):
        aggregation.DawidSkene().fit(FRAME, initial_error=pd.DataFrame())
    with pytest.raises(DataError, match="no column 'worker'"):
        aggregation.DawidSkene().fit(FRAME.rename(columns={"worker": "who"}))


@pytest.mark.slow
def test_against_crowd_kit():
    """Maximum likelihood from the same start ends where crowd-kit's ends; attributes have the same names and axes."""
    import random
    import warnings

    state, streams = random.getstate(), np.random.get_state()  # noqa: NPY002 - theirs uses the global stream
    data, _, _ = simulated(items=400, workers=8, per_item=5, seed=3)
    frame = frame_of(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = pytest.importorskip(
            "crowdkit.aggregation", reason="crowd-kit is not installed: pip install '.[benchmark]'"
        )
        expected = theirs.DawidSkene(n_iter=2000, tol=-1.0).fit(frame)
        vote = theirs.MajorityVote().fit(frame)
    random.setstate(state)
    np.random.set_state(streams)  # noqa: NPY002
    found = aggregation.DawidSkene(5000, 1e-15, smoothing=False).fit(frame)
    aligned = expected.probas_.loc[found.probas_.index, found.probas_.columns]
    np.testing.assert_allclose(found.probas_, aligned, atol=1e-4)
    errors = expected.errors_.loc[found.errors_.index, found.errors_.columns]
    np.testing.assert_allclose(found.errors_, errors, atol=1e-4)
    np.testing.assert_allclose(found.priors_, expected.priors_[found.priors_.index], atol=1e-4)
    assert found.labels_.name == expected.labels_.name
    assert found.probas_.index.name == expected.probas_.index.name
    ours = aggregation.MajorityVote().fit(frame)
    np.testing.assert_allclose(ours.probas_, vote.probas_.loc[ours.probas_.index, ours.probas_.columns])
