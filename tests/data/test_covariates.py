"""Covariates of single annotations: formulas, what is refused, and that they follow the annotations through every layout."""

import numpy as np
import pandas as pd
import pytest
import torch
from commands import run

import crowdppl
from crowdppl import Annotations
from crowdppl.data.covariates import columns_of, design, formula_of
from crowdppl.errors import DataError, OptionError, silent
from crowdppl.inference.update import joined


def table(rows=24, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "task": rng.permutation(np.repeat(np.arange(rows // 3), 3)),
            "worker": rng.integers(0, 4, rows),
            "label": rng.choice(["no", "yes"], rows),
            "tenure": rng.normal(size=rows),
            "session": rng.choice(["am", "pm", "night"], rows),
            "day": rng.integers(1, 4, rows),
            "remote": rng.random(rows) < 0.5,
            "when": rng.permutation(rows),
        }
    )


def test_a_formula_is_computed_as_by_hand():
    frame = table()
    data = Annotations.from_frame(frame, covariates="tenure + session + C(day) + remote + np.log(when + 1):remote")
    by_item = frame.sort_values(
        "task", key=lambda c: c.map({t: n for n, t in enumerate(frame["task"].unique())}), kind="stable"
    )
    columns = dict(zip(data.covariate_names, data.covariates.numpy().T, strict=True))
    assert np.allclose(columns["tenure"], by_item["tenure"])
    assert (columns["session = night"] == (by_item["session"] == "night")).all()
    assert (columns["session = pm"] == (by_item["session"] == "pm")).all()
    assert (columns["day = 2"] == (by_item["day"] == 2)).all()
    assert (columns["remote"] == by_item["remote"]).all()
    assert np.allclose(columns["np.log(when + 1):remote"], np.log(by_item["when"] + 1) * by_item["remote"])
    assert len(columns) == data.P == 7
    assert torch.allclose(data.standard_covariates.mean(0), torch.zeros(7, dtype=data.dtype), atol=1e-12)
    assert torch.allclose(data.standard_covariates.std(0, correction=0), torch.ones(7, dtype=data.dtype))


def test_names_of_columns_are_added_up():
    frame = table().rename(columns={"tenure": "months of work"})
    data = Annotations.from_frame(frame, covariates=["months of work", "session"])
    assert data.covariate_names == ("months of work", "session = night", "session = pm")


def test_numbers_in_a_file_are_numbers_and_words_are_categories(tmp_path):
    frame = table()
    frame.to_csv(tmp_path / "a.csv", index=False)
    for read in (Annotations.from_csv, crowdppl.read):
        data = read(tmp_path / "a.csv", covariates="tenure + C(day) + session")
        assert data.covariate_names == ("tenure", "day = 2", "day = 3", "session = night", "session = pm")
        assert np.allclose(np.sort(data.covariates[:, 0].numpy()), np.sort(frame["tenure"]))
    named = {"task": "task", "worker": "worker", "label": "label"}  # only what is named is read
    assert Annotations.from_csv(tmp_path / "a.csv", covariates=["tenure"], **named).P == 1


def test_experience_is_the_number_of_annotations_before():
    frame = table()
    data = Annotations.from_frame(frame, timestamp="when", covariates="experience")
    expected = [
        sum(((frame["worker"] == data.workers[j]) & (frame["when"] < time)).tolist())
        for j, time in zip(data.worker.tolist(), data.timestamp.tolist(), strict=True)
    ]
    assert data.covariates[:, 0].tolist() == expected
    own = frame.assign(experience=np.arange(len(frame)))  # a column of this name is what it says
    data = Annotations.from_frame(own, timestamp="when", covariates="experience")
    assert sorted(data.covariates[:, 0].tolist()) == list(range(len(frame)))
    with pytest.raises(DataError, match="no column 'experience'"):
        Annotations.from_frame(frame, covariates="experience")


def test_rows_without_a_label_need_no_covariates():
    frame = table().astype({"label": object})
    frame.loc[3, "label"] = None
    frame.loc[3, "tenure"] = np.nan
    with silent():
        data = Annotations.from_frame(frame, covariates="tenure")
    assert len(frame) - 1 == data.A
    assert np.allclose(np.sort(data.covariates[:, 0].numpy()), np.sort(frame["tenure"].dropna()))


def test_covariates_follow_the_annotations():
    frame = table()
    data = Annotations.from_frame(frame.assign(own=np.arange(len(frame))), covariates="own")
    key = {n: (row.task, row.worker, row.label) for n, row in frame.iterrows()}

    def held(part):
        rows = zip(part.items[part.item], part.workers[part.worker], part.labels[part.label], strict=True)
        return all(key[int(n)] == row for n, row in zip(part.covariates[:, 0].tolist(), rows, strict=True))

    assert held(data)
    assert held(data.batch(torch.tensor([5, 1])))
    assert held(data.keep(torch.arange(data.A) % 2 == 0))
    assert data.batch(torch.tensor([0])).covariate_scales == data.covariate_scales
    assert data.per_annotation().covariates is None
    assert data.per_annotation().P == 0
    mean = data.covariates.mean()
    assert torch.allclose(data.paired().covariates, mean.expand(data.N * data.J, 1))
    assert data.with_covariates(None).P == 0


def test_arrays_in_the_order_of_the_annotations():
    data = Annotations.from_frame(table())
    values = np.random.default_rng(0).normal(size=(data.A, 2))
    assert torch.equal(data.with_covariates(values).covariates, torch.from_numpy(values))
    named = data.with_covariates(pd.DataFrame(values, columns=["a", "b"]), "a:b")
    assert np.allclose(named.covariates[:, 0].numpy(), values.prod(1))
    with pytest.raises(DataError, match="have 3 rows, and there are 24 annotations"):
        data.with_covariates(values[:3])


@pytest.mark.parametrize(
    ("change", "formula", "error", "words"),
    [
        ({}, "tenure +", OptionError, "cannot be read"),
        ({}, "label ~ tenure", OptionError, "two sides"),
        ({}, "tenur", DataError, "no column 'tenur'.*did you mean 'tenure'"),
        ({}, "1", DataError, "has no covariate"),
        ({}, "tenure + I(2 * tenure)", DataError, "cannot be computed|follows from the others"),
        ({"twice": lambda f: 2 * f["tenure"] + 1}, "tenure + twice", DataError, "'twice' follows from the others"),
        ({"same": 1}, "same", DataError, "'same' is the same for all annotations"),
        ({"session": lambda f: f["session"].where(f["day"] > 1)}, "session", DataError, "annotations have no value"),
        ({"tenure": lambda f: f["tenure"].where(f["day"] > 1)}, "tenure", DataError, "annotations have no value"),
        (
            {"session": lambda f: f["session"].where(f["day"] > 1, " ")},
            "session",
            DataError,
            "annotations have no value",
        ),
        ({"day": pd.Timestamp("2026-01-01")}, "day", DataError, "dates are no covariate"),
        ({}, "np.log(tenure)", DataError, "is not finite everywhere"),
        ({}, "tenure + nothing(day)", DataError, "no column 'nothing'"),
        ({}, 3, OptionError, "a formula, or names of columns"),
        ({}, [], OptionError, "a formula, or names of columns"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_what_cannot_be_used_is_refused_in_one_line(change, formula, error, words):
    frame = table().assign(**change)
    with pytest.raises(error, match=words) as caught:
        Annotations.from_frame(frame, covariates=formula)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_many_levels_are_refused():
    frame = pd.DataFrame({"name": [f"n{k}" for k in range(300)]})
    with pytest.raises(DataError, match="makes 299 covariates, more than 100"):
        design("name", frame, "the table")
    assert columns_of(formula_of(["a", "b c"]), "the table") == ["a", "b c"]


def test_the_default_model_reads_them_and_others_say_that_they_do_not():
    data = Annotations.from_frame(table(60), covariates="tenure")
    short = {"method": "gibbs", "chains": 1, "warmup": 5, "num_samples": 20}
    with silent():
        posterior = crowdppl.fit(data, seed=0, **short)
        other = crowdppl.fit(data, "dawid-skene", seed=0, **short)
    assert posterior.info["model"] == "accuracy-regression"
    assert posterior.info["reads"]["covariates"]
    assert not other.info["reads"]["covariates"]
    assert any(
        "the covariates 'tenure' were not used: dawid-skene does not read them" in note for note in other.warnings
    )
    with pytest.raises(DataError, match="no effects of covariates"):
        other.effects()


def test_an_update_needs_the_same_covariates():
    frame = table(60)
    data = Annotations.from_frame(frame[:48], covariates="tenure")
    more = Annotations.from_frame(frame[48:], covariates="tenure", labels=["no", "yes"])
    with silent():
        both = joined(data, more)
    expected = Annotations.from_frame(frame, covariates="tenure")
    assert np.allclose(np.sort(both.covariates[:, 0]), np.sort(expected.covariates[:, 0]))
    assert np.allclose(both.covariate_scales, expected.covariate_scales)
    with silent(), pytest.raises(DataError, match="are 'tenure', those of the further ones none"):
        joined(data, more.with_covariates(None))
    short = {"method": "gibbs", "chains": 1, "warmup": 5, "num_samples": 20}
    with silent():
        posterior = crowdppl.fit(data, seed=0, **short)
    with silent(), pytest.raises(crowdppl.ModelError, match="pass data=, and more= with covariates"):
        crowdppl.update(posterior, more)
    with silent():
        later = crowdppl.update(posterior, more, data=data, repeats="keep")
    assert later.info["counts"]["annotations"] == 60
    assert later.info["model"] == "accuracy-regression"


def test_numbers_and_sets_take_none():
    frame = table()
    with pytest.raises(OptionError, match="covariates= is not used for labels that are numbers"):
        Annotations.from_frame(frame.assign(label=frame["tenure"]), kind="numeric", covariates="day")
    with pytest.raises(OptionError, match="covariates= is not used for sets"):
        Annotations.from_frame(frame, several="sets", covariates="day")


def test_the_command_writes_and_shows_effects(tmp_path):
    rng = np.random.default_rng(0)
    frame = table(240)
    # Two in three labels are right, more of them with tenure, so that there is something to report.
    right = rng.random(240) < 1 / (1 + np.exp(-1.5 - frame["tenure"]))
    frame["label"] = np.where((frame["task"] % 2 == 0) == right, "yes", "no")
    frame.to_csv(tmp_path / "a.csv", index=False)
    out = tmp_path / "results"
    command = ["fit", str(tmp_path / "a.csv"), "--covariates", "tenure + session", "--out", str(out), "--report"]
    result = run(*command, "--num-samples", "60", "--warmup", "20", "--chains", "2", code=3)  # short chains
    assert "What accuracy depends on" in result.output
    assert "tenure" in result.output
    effects = pd.read_csv(out / "effects.csv")
    assert effects["covariate"].tolist() == ["tenure", "session = night", "session = pm"]
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "What accuracy depends on" in page
    assert "session = night" in page
    posterior = crowdppl.load(out / "posterior.nc")
    pd.testing.assert_frame_equal(posterior.effects(), effects, check_dtype=False, rtol=1e-4, atol=1e-4)
    run("fit", str(tmp_path / "a.csv"), "--covariates", "tenur", "--out", str(tmp_path / "b"), code=2)
