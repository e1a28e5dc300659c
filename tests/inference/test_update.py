"""More annotations after a fit: the end is that of a fit to everything, the way there is shorter."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import SkillAndDifficulty, quiet_fit, simulated
from crowds import FOUR_ITEMS, crowd_with_characters
from typer.testing import CliRunner

import crowdppl
from crowdppl import Annotations, CrowdpplWarning, DataError, ModelError
from crowdppl.cli.main import app
from crowdppl.data.joining import joined

# Most fits here are of a few draws: it is the consensus that is compared.
pytestmark = pytest.mark.filterwarnings("ignore:the ends of intervals come from:crowdppl.CrowdpplWarning")


def split(seed=0, items=300):
    """Annotations before and after: new items, new workers, new annotations of old ones."""
    frame, truth = crowd_with_characters(seed=seed, items=items)
    rng = np.random.default_rng(seed)
    late = (
        frame["worker"].isin(["honest 3", "adversary"])
        | frame["task"].isin(truth.index[-20:])
        | (rng.random(len(frame)) < 0.05)
    )
    return frame[~late].reset_index(drop=True), frame[late].reset_index(drop=True)


@pytest.mark.parametrize("model", ["dawid-skene", "one-coin", "class-conditional", "pooled"])
def test_em_ends_where_a_full_fit_ends(model):
    before, after = split()
    options = {"method": "em", "tol": 1e-12, "num_samples": 5}
    first = quiet_fit(Annotations.from_frame(before), model, **options)
    updated = crowdppl.update(first, after)
    whole = quiet_fit(joined(Annotations.from_frame(before), Annotations.from_frame(after)), model, **options)
    np.testing.assert_allclose(updated.probability(), whole.probability(), atol=2e-4)
    assert updated.items().tolist() == whole.items().tolist()
    assert updated.worker_names().tolist() == whole.worker_names().tolist()
    assert updated.info["facts"]["log_posterior"] == pytest.approx(whole.info["facts"]["log_posterior"], abs=1e-4)
    assert updated.info["options"] == first.info["options"]
    assert updated.correlation == first.correlation


def test_a_few_more_annotations_take_few_steps():
    """With a hundredth more EM needs few steps: two thirds of the E steps from the vote, or fewer."""
    frame, _ = crowd_with_characters(items=400, each=200)
    rng = np.random.default_rng(0)
    late = rng.random(len(frame)) < 0.01
    before, after = frame[~late].reset_index(drop=True), frame[late].reset_index(drop=True)
    options = {"method": "em", "num_samples": 2, "accelerate": False, "tol": 1e-9}
    updated = crowdppl.update(quiet_fit(Annotations.from_frame(before), "dawid-skene", **options), after)
    whole = quiet_fit(joined(Annotations.from_frame(before), Annotations.from_frame(after)), "dawid-skene", **options)
    assert updated.info["facts"]["evaluations"] <= whole.info["facts"]["evaluations"] * 2 / 3


@pytest.mark.parametrize("model", ["dawid-skene", "one-coin", "class-conditional"])
def test_the_first_sweeps_go_over_what_is_new_only(model, monkeypatch):
    """They see the touched items only, and leave them nearer to the full fit than a vote would."""
    from crowdppl.inference import update

    before, after = split(items=400)
    after = after[after["worker"] != "adversary"].head(40)
    options = {"method": "em", "num_samples": 2, "tol": 1e-10}
    first = quiet_fit(Annotations.from_frame(before), model, **options)
    seen = {}
    plain = update._first_sweeps

    def watched(posterior, chosen, batch, start):
        seen["batch"], seen["start"] = batch, start
        seen["after"] = plain(posterior, chosen, batch, start)
        return seen["after"]

    monkeypatch.setattr(update, "_first_sweeps", watched)
    updated = crowdppl.update(first, after)
    batch = seen["batch"]
    assert set(batch.items.tolist()) == set(after["task"])
    assert 0.3 * len(before) > batch.A
    place = {name: i for i, name in enumerate(updated.items().tolist())}
    end = torch.from_numpy(updated.probability_as_published()[[place[name] for name in batch.items.tolist()]])
    assert (seen["after"] - end).abs().mean() < 0.5 * (batch.majority() - end).abs().mean()


def test_gibbs_samples_the_same_posterior():
    before, after = split(seed=1, items=120)
    options = {"method": "gibbs", "num_samples": 400}
    first = quiet_fit(Annotations.from_frame(before), "dawid-skene", **options)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", crowdppl.CrowdpplWarning)
        updated = crowdppl.update(first, after, warmup=100)
    whole = quiet_fit(joined(Annotations.from_frame(before), Annotations.from_frame(after)), "dawid-skene", **options)
    assert updated.info["options"]["warmup"] == 100
    assert np.abs(updated.probability() - whole.probability()).max() < 0.1
    gap = updated.measure("accuracy").mean(0) - whole.measure("accuracy").mean(0)
    assert np.abs(gap).max() < 0.05


def test_rho_and_known_truths_stay():
    before, after = split(items=100)
    task = before["task"][0]
    data = Annotations.from_frame(before, truth={task: 2})
    first = quiet_fit(data, "dawid-skene", method="em", num_samples=5, independent=False, rho=0.2)
    updated = crowdppl.update(first, after)
    assert updated.correlation == first.correlation
    assert updated.known_truth()[updated.items().tolist().index(task)] == 2
    items = list(dict.fromkeys([*after["task"], task]))
    with pytest.raises(DataError, match="was 2 and is 1 now"):
        crowdppl.update(first, Annotations.from_frame(after, truth={task: 1}, items=items))


def test_times_come_along():
    """Timestamps and durations of both parts are in the new result, each beside its annotation."""
    frame, _ = crowd_with_characters(items=80, each=40, timestamps=True)
    both = {"timestamp": "timestamp", "seconds": "seconds"}
    parts = [Annotations.from_frame(part, **both) for part in (frame.head(400), frame.iloc[400:])]
    updated = crowdppl.update(quiet_fit(parts[0], "dawid-skene", method="em", num_samples=2), parts[1])
    whole = quiet_fit(Annotations.from_frame(frame, **both), "dawid-skene", method="em", num_samples=2)
    pd.testing.assert_series_equal(
        updated.workers().set_index("worker")["seconds"].sort_index(),
        whole.workers().set_index("worker")["seconds"].sort_index(),
    )
    assert np.sort(updated.annotation_metadata("timestamp")).tolist() == sorted(frame["timestamp"])


def test_what_is_known_of_items_and_workers_comes_along():
    before, after = (Annotations.from_frame(part) for part in split(items=100))
    rng = np.random.default_rng(0)
    features = [pd.DataFrame(rng.normal(size=(d.N, 2)), index=d.items) for d in (before, after)]
    of_workers = [pd.DataFrame(rng.normal(size=(d.J, 1)), index=d.workers) for d in (before, after)]
    weights = pd.Series(rng.random(before.N), index=before.items)
    full = [d.with_features(f, workers=w) for d, f, w in zip((before, after), features, of_workers, strict=True)]
    both = joined(full[0].with_weights(weights), full[1])
    expected = features[0].reindex(both.items)
    expected.update(features[1])
    np.testing.assert_allclose(both.features.numpy(), expected.fillna(features[1].reindex(both.items)))
    place = {name: j for j, name in enumerate(both.workers.tolist())}
    assert both.worker_features[place[after.workers[0]], 0] == of_workers[1].iloc[0, 0]
    np.testing.assert_allclose(both.weight.numpy(), weights.reindex(both.items).fillna(1.0))
    with pytest.raises(DataError, match=r"features: "):
        joined(full[0], after)


@pytest.mark.slow
def test_what_cannot_be_joined_is_told():
    before, after = split(items=100)
    first = quiet_fit(Annotations.from_frame(before), "dawid-skene", method="em", num_samples=2)
    with pytest.raises(DataError, match="labels that the result does not have, 7; its classes are 0, 1, 2"):
        crowdppl.update(
            first, after.assign(label=7 + 0 * after["label"]).assign(label=lambda f: f["label"].where(f.index > 0, 0))
        )
    with pytest.raises(DataError, match="items are numbers in one and text in the other"):
        crowdppl.update(first, after.assign(task=range(len(after))))
    data, _, _ = simulated(items=30, seed=1)
    own = quiet_fit(data, SkillAndDifficulty(), method="em", num_samples=2)
    more = pd.DataFrame({"task": [90, 90], "worker": [1, 2], "label": [0, 1]})
    with pytest.raises(ModelError, match="pass model="):
        crowdppl.update(own, Annotations.from_frame(more))


def again(before):
    """Rows that the fit has already: ten as they were, two with another label; and one that is new."""
    more = before.head(12).copy()
    more.loc[more.index >= 10, "label"] = (more["label"] + 1) % 3
    return pd.concat([more, pd.DataFrame({"task": ["new"], "worker": [more["worker"][0]], "label": [0]})])


@pytest.mark.parametrize("policy", ["keep", "last", "refuse"])
def test_annotations_again_follow_the_policy_of_the_fit(policy, tmp_path):
    """What the fit did with repeated annotations is kept in its file; repeats are counted and reported."""
    before, _ = split(items=100)
    more = again(before)
    fresh = quiet_fit(Annotations.from_frame(before, repeats=policy), "dawid-skene", method="em", num_samples=100)
    first = crowdppl.load(fresh.save(tmp_path / "x.nc"))
    message = (
        r"12 of 13 further annotations are of items that their workers had annotated before \(.* and more\), 10 of them"
    )
    if policy == "refuse":
        with pytest.raises(DataError, match=message + ".*the fit refuses"):
            crowdppl.update(first, more)
        with pytest.warns(CrowdpplWarning, match=message):
            updated = crowdppl.update(first, more, repeats="last")
    else:
        with pytest.warns(CrowdpplWarning, match=message):
            updated = crowdppl.update(first, more)
    assert any("12 of 13 further annotations" in note for note in updated.notes)
    expected = len(before) + (13 if policy == "keep" else 1)
    assert len(updated.annotation_index()[0]) == expected
    if policy == "last":
        whole = Annotations.from_frame(pd.concat([before, more], ignore_index=True), repeats="last")
        assert updated.votes().tolist() == whole.votes.tolist()
        with pytest.warns(CrowdpplWarning, match=message):
            assert len(crowdppl.update(first, more, repeats="keep").annotation_index()[0]) == len(before) + 13


@pytest.mark.parametrize(
    ("times", "said", "labels"),
    [
        ([8, 9], ": each replaces the earlier one", "ba"),
        ([8, None], ": each replaces the earlier one", "ba"),  # the order decides
        (None, ": each replaces the earlier one", "ba"),
        ([1, 9], ": 1 is left out, as the other is later by its time, and each other replaces", "aa"),
        ([1, 2], ": 2 are left out, as the other is later by its time", "ab"),
    ],
)
def test_what_replaces_an_earlier_annotation(times, said, labels):
    def read(rows, when):
        table = pd.DataFrame(rows, columns=["task", "worker", "label"])
        return (
            Annotations.from_frame(table)
            if when is None
            else Annotations.from_frame(table.assign(w=when), timestamp="w")
        )

    before = read([(1, "u", "a"), (2, "u", "b"), (2, "v", "a")], [5, 5, 5])
    more = read([(1, "u", "b"), (2, "u", "a")], times)
    with pytest.warns(CrowdpplWarning, match="2 of 2 further annotations"):
        both = joined(before, more, "last")
    assert said in both.notes[-1]
    of_u = both.worker == both.workers.tolist().index("u")
    assert "".join(both.labels[both.label[of_u]]) == labels


def test_new_annotations_have_no_note():
    before, after = split(items=100)
    updated = crowdppl.update(
        quiet_fit(Annotations.from_frame(before), "dawid-skene", method="em", num_samples=100), after
    )
    assert not any("further annotations" in note for note in updated.notes)
    counts = Annotations.from_counts(pd.DataFrame({"item": ["i", "j"], "a": [3, 0], "b": [0, 2]}))
    assert not any("further annotations" in note for note in joined(counts, counts).notes)


@pytest.mark.slow
def test_the_command_with_the_same_file_again(tmp_path):
    before, _ = split(items=100)
    before.to_csv(tmp_path / "labels.csv", index=False)
    runner, result = CliRunner(), str(tmp_path / "r")

    def run(*words):
        done = runner.invoke(app, [*words])
        return done.exit_code, " ".join(done.output.split())

    assert run("fit", str(tmp_path / "labels.csv"), "--method", "em", "--out", result)[0] == 0
    code, output = run("update", result, str(tmp_path / "labels.csv"), "--repeats", "refuse", "--out", result + "2")
    assert code == 2
    assert "the fit refuses" in output
    code, output = run("update", result, str(tmp_path / "labels.csv"), "--repeats", "last", "--out", result + "2")
    assert code == 0
    assert f"{len(before):,} of {len(before):,} further annotations are of items" in output
    assert len(crowdppl.load(tmp_path / "r2" / "posterior.nc").annotation_index()[0]) == len(before)


def test_the_command(tmp_path):
    before, after = split(items=100)
    before.to_csv(tmp_path / "labels.csv", index=False)
    after.to_csv(tmp_path / "more.csv", index=False)
    runner = CliRunner()
    words = ["fit", str(tmp_path / "labels.csv"), "--method", "em", "--out", str(tmp_path / "r")]
    assert runner.invoke(app, words).exit_code == 0
    result = runner.invoke(
        app, ["update", str(tmp_path / "r"), str(tmp_path / "more.csv"), "--out", str(tmp_path / "s")]
    )
    assert result.exit_code == 0, result.output
    assert f"{len(after):,} further annotations" in result.output
    new = crowdppl.load(tmp_path / "s" / "posterior.nc")
    assert len(new.annotation_index()[0]) == len(before) + len(after)
    again = runner.invoke(app, ["update", str(tmp_path / "r"), str(tmp_path / "more.csv"), "--overwrite"])
    assert again.exit_code == 0
    np.testing.assert_allclose(crowdppl.load(tmp_path / "r" / "posterior.nc").probability(), new.probability())


def test_an_update_may_take_another_engine_or_rho():
    first = quiet_fit(FOUR_ITEMS, "dawid-skene", method="gibbs", chains=2, warmup=10, num_samples=30, independent=False)
    more = pd.DataFrame({"task": ["a"], "worker": ["w"], "label": [1]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        assert crowdppl.update(first, more, method="em").info["method"] == "em"
        assert crowdppl.update(first, more, independent=True).info["rho"] is None
        assert crowdppl.update(first, more, rho=0.1).info["rho"]["known"] == 0.1


def test_features_are_asked_for():
    """A result keeps none: without them a model of features would be fitted as if there had been none."""
    rng = np.random.default_rng(0)
    data = crowdppl.Annotations.from_frame(
        pd.DataFrame({"task": np.repeat(np.arange(20), 3), "worker": [*"abc"] * 20, "label": rng.integers(0, 2, 60)})
    )
    posterior = crowdppl.fit(
        data.with_features(np.eye(2)[np.arange(20) % 2]), "judged-systems", method="em", num_samples=2
    )
    more = pd.DataFrame({"task": [20, 20], "worker": ["a", "b"], "label": [0, 1]})
    with pytest.raises(crowdppl.ModelError, match="had features, which a result does not keep; pass data="):
        crowdppl.update(posterior, more)
