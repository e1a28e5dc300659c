"""Covariates of single annotations: formulas, what is refused, and that they follow the annotations through every layout."""

import datetime
from dataclasses import replace

import numpy as np
import pandas as pd
import pyro
import pytest
import torch
from commands import run
from pyro.distributions import Categorical, Dirichlet, Normal

import crowdppl
from crowdppl import Annotations, criticism
from crowdppl.data.covariate_design import columns_of, design, formula_of
from crowdppl.data.joining import joined
from crowdppl.errors import DataError, OptionError, silent
from crowdppl.inference.checkpoint import digest
from crowdppl.inference.predict import predict_correct
from crowdppl.inference.stored import data_of
from crowdppl.model.features_read import reads_features
from crowdppl.models import DawidSkene

SHORT = {"method": "gibbs", "chains": 1, "warmup": 5, "num_samples": 20}


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
    assert np.allclose(columns["session = night"], by_item["session"] == "night")
    assert np.allclose(columns["session = pm"], by_item["session"] == "pm")
    assert np.allclose(columns["day = 2"], by_item["day"] == 2)
    assert np.allclose(columns["remote"], by_item["remote"])
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
    assert np.allclose(data.covariates[:, 0], expected)
    own = frame.assign(experience=np.arange(len(frame)))  # a column of this name is what it says
    data = Annotations.from_frame(own, timestamp="when", covariates="experience")
    assert np.allclose(np.sort(data.covariates[:, 0]), np.arange(len(frame)))
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
        return all(key[round(n)] == row for n, row in zip(part.covariates[:, 0].tolist(), rows, strict=True))

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
    assert torch.allclose(data.with_covariates(values).covariates, torch.from_numpy(values), rtol=1e-12)
    named = data.with_covariates(pd.DataFrame(values, columns=["a", "b"]), "a:b")
    assert np.allclose(named.covariates[:, 0].numpy(), values.prod(1))
    with pytest.raises(DataError, match="have 3 rows, and there are 24 annotations"):
        data.with_covariates(values[:3])


@pytest.mark.parametrize(
    ("change", "formula", "error", "words"),
    [
        ({}, "tenure +", OptionError, "cannot be read"),
        ({}, "label ~ tenure", OptionError, "several parts"),
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
        ({"day": pd.Timestamp("2026-01-01")}, "day", DataError, "dates and times are no covariate"),
        ({}, "np.log(tenure)", DataError, "is not finite everywhere"),
        ({}, "tenure + nothing(day)", DataError, "no column 'nothing'"),
        ({}, "tenure | day", OptionError, "several parts"),
        ({"Intercept": range(24)}, "Intercept + tenure", DataError, "the name of the constant"),
        ({"day": pd.Timedelta("1h")}, "day", DataError, "dates and times are no covariate"),
        ({"day": datetime.date(2026, 1, 1)}, "day", DataError, "dates and times are no covariate"),
        ({}, 3, OptionError, "a formula, names of columns"),
        ({}, [], OptionError, "a formula, names of columns"),
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
    with silent():
        posterior = crowdppl.fit(data, seed=0, **SHORT)
        other = crowdppl.fit(data, "dawid-skene", seed=0, **SHORT)
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
    with silent():
        posterior = crowdppl.fit(data, seed=0, **SHORT)
        later = crowdppl.update(posterior, more, repeats="keep")
        plain = crowdppl.fit(data, "dawid-skene", seed=0, **SHORT)
        of_plain = crowdppl.update(plain, more.with_covariates(None), repeats="keep")
        of_table = crowdppl.update(posterior, frame[48:].assign(tenure=2.0), repeats="keep")
    assert later.info["counts"]["annotations"] == of_plain.info["counts"]["annotations"] == 60
    assert later.info["model"] == of_table.info["model"] == "accuracy-regression"
    assert torch.isclose(data_of(of_table).covariates[:, 0], torch.tensor(2.0).double()).sum() == 12
    assert later.effects()["covariate"].tolist() == ["tenure"]


def test_names_with_backticks_are_joined():
    frame = table(60).rename(columns={"when": "minutes passed"})
    parts = [
        Annotations.from_frame(part, covariates="np.log(`minutes passed` + 1)", labels=["no", "yes"])
        for part in (frame[:48], frame[48:])
    ]
    with silent():
        both = joined(*parts)
    assert both.covariate_names == parts[0].covariate_names
    assert np.allclose(np.sort(both.covariates[:, 0]), np.sort(np.log(frame["minutes passed"] + 1)))


def test_levels_against_another_baseline_are_not_joined():
    frame = table(60).assign(session=lambda f: np.where(f.index % 2, "c", np.where(f.index < 48, "a", "b")))
    parts = [
        Annotations.from_frame(part, covariates="session", labels=["no", "yes"]) for part in (frame[:48], frame[48:])
    ]
    assert parts[0].covariate_names == parts[1].covariate_names == ("session = c",)
    with silent(), pytest.raises(DataError, match=r"against session = a.*against session = b"):
        joined(*parts)


def test_experience_goes_on():
    frame = table(60).sort_values("when")
    options = {"timestamp": "when", "covariates": "experience + tenure", "labels": ["no", "yes"]}
    whole = Annotations.from_frame(frame, **options)
    data, later = (Annotations.from_frame(part, **options) for part in (frame[:40], frame[40:]))
    with silent(), pytest.raises(DataError, match="experience of the further annotations was counted without"):
        joined(data, later)
    more = Annotations.from_frame(frame[40:], labels=["no", "yes"], covariates=data)
    with silent():
        both = joined(data, more)
    assert (both.covariate_names, both.covariate_baselines) == (whole.covariate_names, whole.covariate_baselines)
    key = [(data.items[data.item], data.workers[data.worker], data.timestamp) for data in (both, whole)]
    order = [np.lexsort(tuple(np.asarray(part) for part in one)) for one in key]
    assert np.allclose(both.covariates[order[0]], whole.covariates[order[1]])
    with silent(), pytest.raises(DataError, match="40 further annotations are from before earlier ones"):
        joined(more, Annotations.from_frame(frame[:40], labels=["no", "yes"], covariates=more))


def test_further_annotations_have_the_covariates_of_earlier_ones():
    """The same levels, baseline and scale, where levels do not all occur, nothing varies, or categories were ordered."""
    frame = table(60).assign(size=pd.Categorical(np.resize(["mid", "low", "high"], 60), ["low", "mid", "high"]))
    frame["tenure"] = frame["tenure"].abs()
    formula = "np.log(tenure) + session + C(day) + size + remote"
    whole = Annotations.from_frame(frame, covariates=formula, timestamp="when")
    for rows in (slice(7, 8), slice(50, 60)):
        part = frame[rows].astype({"size": str})
        data = Annotations.from_frame(part, labels=["no", "yes"], covariates=whole, timestamp="when")
        places = [whole.timestamp.tolist().index(time) for time in data.timestamp.tolist()]
        assert data.covariate_names == whole.covariate_names
        assert (data.covariate_baselines, data.covariate_scales) == (whole.covariate_baselines, whole.covariate_scales)
        assert torch.allclose(data.standard_covariates, whole.standard_covariates[places])
    for change, message in (
        ({"session": "noon"}, "column 'session': 'noon' does not occur in the earlier annotations"),
        ({"day": 9}, "column 'day': 9 does not occur"),
        ({"tenure": 0.0}, r"covariate 'np\.log\(tenure\)' is not finite"),
    ):
        with pytest.raises(DataError, match=message), np.errstate(divide="ignore"):
            Annotations.from_frame(frame.assign(**change), covariates=whole)
    with pytest.raises(OptionError, match="annotations that have covariates"):
        Annotations.from_frame(frame, covariates=whole.with_covariates(None))


AS_BEFORE = [  # a column of the earlier annotations, of further ones, and how the formula has it
    (["1", "2", "night"], ["1", "2"], "session"),
    ([1, 2, 3], ["3", "1"], "C(session)"),
    ([1, 2, 3], ["3", "1.0"], "C(session)"),
    (pd.Categorical([1, 2, 3]), [2, 3], "session"),
    (pd.Categorical(["b", "a"], ["b", "a"]), ["a", "b"], "session"),
    ([True, False], ["False", "true"], "session"),
    (["True", "False"], [False, True], "session"),
]


@pytest.mark.parametrize(("before", "after", "formula"), AS_BEFORE)
def test_columns_are_what_they_were_in_the_earlier_annotations(before, after, formula):
    """Levels that are written otherwise, or that look like numbers without the others, get the same covariates."""

    def column(values, rows):
        values = values if isinstance(values, pd.Categorical) else np.array(values, dtype=object)
        return pd.Series(values[np.arange(rows) % len(values)]).infer_objects()

    rng = np.random.default_rng(0)
    frames = [
        pd.DataFrame(
            {"task": range(rows), "worker": 0, "label": rng.choice(["no", "yes"], rows), "session": column(part, rows)}
        )
        for part, rows in ((before, 12), (after, 6))
    ]
    data = Annotations.from_frame(frames[0], covariates=formula, labels=["no", "yes"])
    more = Annotations.from_frame(frames[1], covariates=data, labels=["no", "yes"])
    assert more.covariate_names == data.covariate_names

    def number(value):
        text = str(value).lower()
        return {"true": "1", "false": "0"}.get(text, text.removesuffix(".0"))

    known = {
        number(value): row.tolist() for value, row in zip(frames[0]["session"], data.standard_covariates, strict=True)
    }
    for value, row in zip(frames[1]["session"], more.standard_covariates, strict=True):
        assert row.tolist() == known[number(value)]


@pytest.mark.parametrize(
    ("before", "after", "formula", "words"),
    [
        ([1, 2, 3], ["1", "night"], "C(session)", "'night' does not occur in the earlier"),
        ([1.5, 2, 3], ["1", "night"], "session", "not all values are numbers, as in the earlier"),
        ([True, False], ["1", "night"], "session", "not all values are numbers, as in the earlier"),
        (["1", "2", "night"], ["1", "3"], "session", "'3' does not occur in the earlier"),
    ],
)
def test_columns_that_are_something_else_are_refused(before, after, formula, words):
    frame = pd.DataFrame({"task": range(12), "worker": 0, "label": ["no", "yes"] * 6})
    data = Annotations.from_frame(
        frame.assign(session=np.resize(np.array(before, dtype=object), 12)), covariates=formula
    )
    with pytest.raises(DataError, match=words) as caught:
        Annotations.from_frame(frame.assign(session=np.resize(after, 12)), covariates=data)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("formula", ["scale(tenure)", "I(tenure - tenure.mean())", "poly(tenure, 2)"])
def test_what_is_computed_from_all_rows_is_not_joined(formula):
    frame = table(60)
    data, more = (
        Annotations.from_frame(part, labels=["no", "yes"], covariates=formula) for part in (frame[:48], frame[48:])
    )
    assert data.covariate_recipe.rows
    with silent(), pytest.raises(DataError, match="computed from all rows"):
        joined(data, more)
    with pytest.raises(DataError, match="computed from all rows"):
        Annotations.from_frame(frame[48:], labels=["no", "yes"], covariates=data)


def test_covariates_named_like_other_columns_stay_apart():
    data = Annotations.from_frame(table())
    values = np.random.default_rng(0).integers(0, 2, (data.A, 3)).astype(float)
    data = data.with_covariates(pd.DataFrame(values, columns=["label", "worker", "seconds"]))
    with silent():
        both = joined(data, data.keep(torch.arange(data.A) < 6))
    assert both.seconds is None
    first = both.label[: data.annotations_per_item[0]]
    assert torch.equal(first, data.label[: len(first)])
    for column in ("label", "known"):
        with pytest.raises(OptionError, match=f"has the column '{column}' of labels"):
            Annotations.from_frame(table().assign(known="no"), truth="known", covariates=f"tenure + {column}")


def test_categories_keep_their_order():
    frame = table()
    frame["size"] = pd.Categorical(np.resize(["low", "mid", "high"], 24), ["low", "mid", "high"])
    frame["rank"] = pd.Categorical(np.resize([3, 1, 2], 24), [3, 1, 2])
    data = Annotations.from_frame(frame, covariates="size + rank:tenure")
    assert data.covariate_names[:2] == ("size = mid", "size = high")
    assert data.covariate_baselines == ("rank = 3", "size = low")


def test_functions_of_all_rows():
    data = Annotations.from_frame(table(), covariates="poly(tenure, 2) + scale(when)")
    assert data.P == 3
    assert columns_of("poly(tenure, 2) + np.log(when) + C(day) + `two words`", "the table") == [
        "day",
        "tenure",
        "two words",
        "when",
    ]


def test_large_numbers_keep_their_differences_in_single_precision():
    data = Annotations.from_frame(table().assign(time=lambda f: 1.7e9 + f.index), covariates="time")
    single = data.to(dtype=torch.float32)
    assert torch.allclose(single.standard_covariates.double(), data.standard_covariates, atol=1e-6)


def test_a_result_keeps_covariates():
    """Predictive checks, predictions and updates have them without the data."""
    rng = np.random.default_rng(1)
    item, worker = np.repeat(np.arange(60), 4), np.tile(np.arange(8), 30)
    late = np.tile([0, 1], 120)
    right = rng.random(240) < np.where(late, 0.6, 0.97)
    frame = pd.DataFrame({"task": item, "worker": worker, "label": (item % 2 == 0) == right, "late": late})
    data = Annotations.from_frame(frame, covariates="late")
    with silent():
        posterior = crowdppl.fit(data, seed=0, chains=1, warmup=50, num_samples=100)
    kept = data_of(posterior)
    assert torch.allclose(kept.standard_covariates, data.standard_covariates)
    assert (kept.covariate_names, kept.covariate_scales) == (data.covariate_names, data.covariate_scales)
    with_data, without = (criticism.check(posterior, draws=20, data=given) for given in (data, None))
    pd.testing.assert_frame_equal(with_data.table, without.table)
    usual, again = (
        predict_correct(posterior, design) for design in (data.unseen(), data.with_covariates(None).unseen())
    )
    pd.testing.assert_frame_equal(usual, again)  # at mean covariates
    other = data.with_covariates(pd.DataFrame({"other": rng.normal(size=240)}))
    with pytest.raises(DataError, match="are 'late', those of the further ones 'other'"):
        predict_correct(posterior, other)
    with silent():
        plain = crowdppl.fit(data, "dawid-skene", method="em", num_samples=2)
    pd.testing.assert_frame_equal(predict_correct(plain, other), predict_correct(plain, data))  # it reads none


def test_models_that_read_them_are_known_where_they_are_equal_for_many_items():
    class Mine(crowdppl.AnnotationModel):
        """Accuracy that depends on a covariate."""

        def prior(self, data, plates):
            return {"b": pyro.sample("b", Normal(0.0, 1.0)), "p": pyro.sample("p", Dirichlet(torch.ones(data.K)))}

        def truth(self, parameters, data):
            return Categorical(parameters["p"])

        def emission(self, parameters, data):
            x = 1 + parameters["b"] * data.standard_covariates[:, 0]
            return Categorical(logits=x[:, None, None] * torch.eye(data.K))

    frame = pd.DataFrame(
        {"task": np.repeat(np.arange(240), 2), "worker": np.tile([0, 1], 240), "label": np.resize([0, 1, 1], 480)}
    )
    data = Annotations.from_frame(frame.assign(late=frame["task"] >= 120), covariates="late")
    assert reads_features(Mine(), data) == {"covariates": True}
    assert reads_features(DawidSkene(), data) == {"covariates": False}


def test_a_checkpoint_tells_scales_apart():
    data = Annotations.from_frame(table(), covariates="tenure")
    assert digest(data) != digest(replace(data, covariate_scales=((0.0, 1.0),)))
    assert digest(data) != digest(replace(data, covariate_baselines=("a",)))


def test_numbers_and_sets_take_none():
    frame = table()
    with pytest.raises(OptionError, match="covariates= is not used for labels that are numbers"):
        Annotations.from_frame(frame.assign(label=frame["tenure"]), kind="numeric", covariates="day")
    with pytest.raises(OptionError, match="covariates= is not used for sets"):
        Annotations.from_frame(frame, several="sets", covariates="day")


@pytest.mark.slow
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
