"""Views of results whose labels are numbers: tables, files, report, criticism, what to label next, updates and commands."""

import json
import re

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from number_crowds import crowd, numbers
from typer.testing import CliRunner

import crowdppl
from crowdppl import (
    Annotations,
    CrowdpplError,
    DataError,
    FileError,
    OptionError,
    acquisition,
    criticism,
    export,
    plots,
    report,
)
from crowdppl.cli.main import app
from crowdppl.errors import silent
from crowdppl.isolation import without_warnings
from crowdppl.models import LinearGaussian, truth_discovery
from crowdppl.posterior.numbers import NumericPosterior

mpl.use("Agg")

FITS = {
    "em": ("em", {"num_samples": 60}),
    "gibbs": ("gibbs", {"chains": 2, "warmup": 30, "num_samples": 60}),
    "svi": ("svi", {"max_iter": 60, "num_samples": 30}),
    "svi, a point": ("svi", {"max_iter": 60, "guide": "point"}),
    "nuts": ("nuts", {"chains": 1, "warmup": 15, "num_samples": 20, "max_tree_depth": 4}),
    "known": ("gibbs", {"chains": 2, "warmup": 30, "num_samples": 60}),
    "a scale": ("gibbs", {"chains": 2, "warmup": 30, "num_samples": 60}),
}


@pytest.fixture(scope="module")
def fits():
    """Return a result by name, each fitted once."""
    results = {}

    def get(name):
        if name not in results:
            method, options = FITS[name]
            frame, x, _ = crowd(items=30, workers=5, each=4)
            given = {"known": {"truth": {n: x[n] for n in range(8)}}, "a scale": {"scale": (-20, 20)}}.get(name, {})
            with silent():
                results[name] = crowdppl.fit(
                    Annotations.from_frame(frame, kind="numeric", **given), method=method, **options
                )
        return results[name]

    return get


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in ("nuts", "svi"))) for name in FITS]
)
def test_every_view(name, fits, tmp_path):
    posterior = fits(name)
    truth, workers = posterior.truth(), posterior.workers()
    assert (truth["low"] <= truth["value"]).all()
    assert (truth["value"] <= truth["high"]).all()
    assert len(workers) == 5
    assert len(posterior.bias()) == 10
    assert "NumericPosterior(linear-gaussian by" in repr(posterior)
    assert "<table" in posterior._repr_html_()
    again = crowdppl.load(posterior.save(tmp_path / "x.nc"))
    assert isinstance(again, NumericPosterior)
    pd.testing.assert_frame_equal(again.truth(), truth)
    pd.testing.assert_frame_equal(again.workers(), workers)
    pd.testing.assert_frame_equal(again.bias(), posterior.bias())
    assert again.info == posterior.info
    assert again.warnings == posterior.warnings
    following = acquisition.next_items(again, 5)
    assert (following["sd_after"] < following["sd"]).all()
    assert not set(following["item"]) & set(truth.loc[truth["known"], "item"])
    assert len(criticism.check(again, draws=10).table) == 7
    assert report.write(again, tmp_path / "x.html").stat().st_size > 10_000
    for by in ("bias", "slope", "sd", "correlation"):
        plt.close(plots.forest(again, by=by).figure)
    plt.close(plots.forest(again).figure)
    plt.close(plots.values(again, most=10).figure)
    for what in ("truth", "workers"):
        for suffix in export.SUFFIXES:
            assert export.to_file(again, what, tmp_path / f"{what}{suffix}").is_file()


def test_tables():
    frame, _, _ = crowd(items=30, workers=5, each=4)
    with silent():
        posterior = crowdppl.fit(Annotations.from_frame(frame, kind="numeric"), method="em")
    truth = posterior.truth()
    assert list(truth.columns) == [
        "item",
        "value",
        "low",
        "high",
        "sd",
        "annotations",
        "mean_label",
        "fair_average",
        "known",
    ]
    np.testing.assert_allclose(truth["mean_label"], frame.groupby("item")["label"].mean())
    wide, narrow = (posterior.truth(level=level) for level in (0.99, 0.5))
    assert ((wide["high"] - wide["low"]) > (narrow["high"] - narrow["low"])).all()
    apart = posterior.truth(relative=True)
    assert apart["value"].mean() == pytest.approx(0, abs=1e-9)
    assert (apart["sd"] <= truth["sd"] + 1e-9).all()
    fair = posterior.truth(reading="fair_average")
    np.testing.assert_allclose(fair["value"], truth["fair_average"])
    workers = posterior.workers(sort="correlation", minimum=3)
    assert (workers["correlation"].diff().dropna() <= 0).all()
    assert set(workers["rank"]) == set(range(1, 6))
    with pytest.raises(OptionError, match="is no column"):
        posterior.workers(sort="accuracy")
    with pytest.raises(OptionError, match="by= and worker= are about classes"):
        acquisition.next_items(posterior, by="accuracy")
    with pytest.raises(OptionError, match="leave data= and model= out"):
        criticism.check(posterior, model=crowdppl.models.DawidSkene())
    with pytest.raises(DataError, match="have no confusion matrix"):
        posterior.confusion()
    with pytest.raises(OptionError, match="no variable 'confusion'"):
        posterior.draws("confusion")


def test_arviz_takes_the_tree(fits):
    import arviz_stats

    posterior = fits("gibbs")
    summary = arviz_stats.summary(posterior.tree, var_names=["truth_sd", "bias"])
    assert len(summary) == 6
    with without_warnings():  # few draws
        assert np.isfinite(arviz_stats.loo(posterior.tree, var_name="labels").elpd)


@pytest.mark.slow
def test_leave_one_out_prefers_the_model_of_the_data():
    """Slopes differ by .5: without them the labels are predicted worse."""
    import arviz_stats

    data = numbers(items=150, workers=8, each=5, slope=0.5, noise=0.3)
    with silent():
        fits = [
            crowdppl.fit(data, model, method="gibbs", chains=2, num_samples=300)
            for model in (None, LinearGaussian(slopes=False))
        ]
    with without_warnings():
        elpd = [arviz_stats.loo(posterior.tree, var_name="labels").elpd for posterior in fits]
    assert elpd[0] > elpd[1] + 20


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda tree: tree["truth"].to_dataset().drop_vars("consensus_sd"), "truth lacks consensus_sd"),
        (lambda tree: tree["truth"].to_dataset() * np.nan, "missing or infinite"),
    ],
)
def test_damaged_files_are_refused(damage, words, fits, tmp_path):
    tree = fits("em").tree.copy()
    groups = {f"/{name}": node.to_dataset(inherit=False) for name, node in tree.children.items()}
    broken = xr.DataTree.from_dict(groups | {"/truth": damage(tree)})
    broken.attrs = tree.attrs
    path = tmp_path / "x.nc"
    NumericPosterior(broken).save(path)
    with pytest.raises(FileError, match=words):
        crowdppl.load(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(FileError):
        crowdppl.load(path)


def test_the_report_names_everything(fits, tmp_path):
    frame, _, _ = crowd(items=30, workers=5, each=4)
    frame["item"] = "<i>" + frame["item"].astype(str)
    with silent():
        posterior = crowdppl.fit(Annotations.from_frame(frame, kind="numeric"), method="em")
    page = report.write(posterior, tmp_path / "x.html", title="A & B").read_text()
    assert "A &amp; B" in page
    assert "&lt;i&gt;" in page
    assert "<i>" not in page
    assert page.count("<svg") == 2
    assert all(f">w{j}<" in page for j in range(5))
    assert "{{" not in page


def test_updates():
    frame, _, _ = crowd(items=40, workers=5, each=4)
    first, rest = frame[frame["item"] < 30], frame[frame["item"] >= 30]
    with silent():
        posterior = crowdppl.fit(Annotations.from_frame(first, kind="numeric"), method="em", seed=3)
        later = crowdppl.update(posterior, rest)
        whole = crowdppl.fit(Annotations.from_frame(frame, kind="numeric"), method="em", seed=3)
    np.testing.assert_allclose(later.truth()["value"], whole.truth()["value"], atol=1e-3)
    assert later.info["seed"] == 3
    assert later.item_column == "item"
    changes = criticism.changes(posterior, later)
    assert (changes.new, changes.gone, len(changes.items), len(changes.workers)) == (10, 0, 30, 5)
    assert len(changes.summary) == 3
    with pytest.raises(DataError, match="tasks of the further annotations are strings"):
        crowdppl.update(posterior, rest.assign(item=rest["item"].map("item {}".format)))
    with pytest.raises(OptionError, match="own data and model"):
        crowdppl.update(posterior, rest, model=crowdppl.models.DawidSkene())
    with silent():
        classes = crowdppl.fit(pd.DataFrame({"task": [0, 0], "worker": [0, 1], "label": ["a", "b"]}), "majority-vote")
    with pytest.raises(DataError, match="numbers in one result and classes in the other"):
        criticism.changes(posterior, classes)


@pytest.mark.slow
def test_models_are_compared():
    frame, x, _ = crowd(items=100, workers=6, each=5, bias=1.0)
    result = crowdppl.compare(Annotations.from_frame(frame, kind="numeric"), truth=x)
    table = result.models.set_index("model")
    assert table.loc["linear-gaussian", "error"] < table.loc["mean", "error"]
    assert table.loc["linear-gaussian", "rmse_relative"] < table.loc["mean", "rmse_relative"]
    assert table.loc["linear-gaussian", "log_density"] > table.loc["mean", "log_density"]
    assert result.known == 100
    assert len(result.summary) == 2
    with pytest.raises(OptionError, match=r"leave models="):
        crowdppl.compare(numbers(), ["dawid-skene", "one-coin"])
    with pytest.raises(DataError, match="no number of the items"), silent():
        crowdppl.compare(numbers(), truth={1000: 1.0})


def test_a_model_that_does_not_fit_is_found_out():
    """Noise with heavy tails: the kurtosis of residuals is above all 100 draws."""
    rng = np.random.default_rng(0)
    frame, x, _ = crowd(items=200, workers=6, each=5)
    frame["label"] = x[frame["item"]].to_numpy() + 0.3 * rng.standard_t(2.5, len(frame))
    with silent():
        posterior = crowdppl.fit(Annotations.from_frame(frame, kind="numeric"), method="em")
        good = crowdppl.fit(numbers(items=200, workers=6, each=5), method="em")
    assert "kurtosis of residuals" in criticism.check(posterior, draws=100).notable["statistic"].tolist()
    assert len(criticism.check(good, draws=100).notable) <= 1


# ---------------------------------------------------------------------- truth discovery


@pytest.mark.parametrize("method", truth_discovery.METHODS)
def test_truth_discovery(method):
    frame, x, _ = crowd(items=100, workers=6, each=5, bias=0.0, slope=0.0)
    result = truth_discovery.METHODS[method](Annotations.from_frame(frame, kind="numeric"))
    assert np.sqrt(((result.value - x) ** 2).mean()) < 0.35
    assert result.weights.sum() == pytest.approx(1)
    assert (result.weights >= 0).all()
    assert len(result.truth()) == 100
    assert len(result.workers()) == 6


@pytest.mark.parametrize("method", ["crh", "catd", "gtm"])
def test_truth_discovery_trusts_the_precise(method):
    rng = np.random.default_rng(0)
    x, sd = rng.normal(size=200), np.array([0.1, 0.5, 1.0, 2.0])
    frame = pd.DataFrame({"task": np.repeat(np.arange(200), 4), "worker": np.tile(np.arange(4), 200)})
    frame["label"] = np.repeat(x, 4) + sd[frame["worker"]] * rng.normal(size=800)
    result = truth_discovery.METHODS[method](Annotations.from_frame(frame, kind="numeric"))
    assert (np.diff(result.weights) < 0).all()
    assert np.sqrt(((result.value - x) ** 2).mean()) < np.sqrt(
        ((frame.groupby("task")["label"].mean() - x) ** 2).mean()
    )


@pytest.mark.parametrize("method", truth_discovery.METHODS)
def test_truth_discovery_of_odd_data(method):
    """Equal labels within all items, one worker, an item without labels."""
    for item, worker, label in (([0, 0, 1, 1], [0, 1, 0, 1], [1.0, 1, 2, 2]), ([0, 1], [0, 0], [1.0, 2.0])):
        data = Annotations.from_arrays(item, worker, label, kind="numeric", items=[0, 1, 2])
        value = truth_discovery.METHODS[method](data).value
        np.testing.assert_allclose(value[:2], [1, 2])
        assert np.isnan(value[2])


# ---------------------------------------------------------------------- the command


def run(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(criticism.numbers, "FOLDS", 2)
    frame, x, _ = crowd(items=40, workers=5, each=4)
    part = frame[frame["item"] < 35]
    part.to_csv(tmp_path / "x.csv", index=False)
    frame[frame["item"] >= 35].to_csv(tmp_path / "more.csv", index=False)
    pd.DataFrame({"item": x.index, "label": x}).to_csv(tmp_path / "truth.csv", index=False)
    out = tmp_path / "r"
    first = run("fit", tmp_path / "x.csv", "--out", out, "--method", "em", "--report")
    assert first.exit_code == 0, first.output
    for words in ("What to do", "Workers", "are read as numbers", "linear-gaussian by em"):
        assert words in first.output
    assert sorted(path.name for path in out.iterdir()) == [
        "posterior.nc",
        "report.html",
        "run.json",
        "truth.csv",
        "workers.csv",
    ]
    assert len(pd.read_csv(out / "truth.csv")) == 35
    assert json.loads((out / "run.json").read_text())["model"] == "linear-gaussian"
    assert "wrote" in run("report", out, "--overwrite").output.lower()
    assert "sd_after" in run("next", out, "-n", "5").output
    assert "Statistics of labels" in run("check", out, "--draws", "20").output
    assert "Wrote" in run("export", out, "--what", "workers", "--out", tmp_path / "w.csv").output
    assert run("export", out, "--what", "soft", "--out", tmp_path / "s.csv").exit_code == 2
    later = run("update", out, tmp_path / "more.csv", "--out", tmp_path / "later")
    assert later.exit_code == 0, later.output
    assert len(pd.read_csv(tmp_path / "later" / "truth.csv")) == 40
    assert "5 items are new" in run("compare", out, tmp_path / "later").output
    compared = run("compare", tmp_path / "x.csv", "--kind", "numeric", "--truth-file", tmp_path / "truth.csv")
    assert compared.exit_code == 0, compared.output
    assert "rmse_relative" in compared.output


def test_the_command_with_features(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    frame, x, _ = crowd(items=30, workers=5, each=3)
    frame.to_csv(tmp_path / "x.csv", index=False)
    pd.DataFrame({"item": x.index, "<b>": x + np.sin(x.index)}).to_csv(tmp_path / "f.csv", index=False)
    out = tmp_path / "r"
    given = ["--features", tmp_path / "f.csv", "--checkpoint", tmp_path / "c", "--keep", "full", "--verbose"]
    result = run("fit", tmp_path / "x.csv", "--out", out, "--method", "em", "--report", *given)
    assert result.exit_code == 0, result.output
    assert "Features of items" in result.output
    assert re.search(r"\d+ steps, converged", result.output)
    assert crowdppl.load(out / "posterior.nc").features()["feature"].tolist() == ["<b>"]
    page = (out / "report.html").read_text()
    assert "&lt;b&gt;" in page
    assert 'id="h-features"' in page
    assert (
        run("fit", tmp_path / "x.csv", "--out", tmp_path / "s", "--worker-features", tmp_path / "f.csv").exit_code == 2
    )


def test_looking_and_agreement(tmp_path):
    frame, _, _ = crowd(items=40, workers=5, each=5)
    frame.to_csv(tmp_path / "x.csv", index=False)
    seen = run("look", tmp_path / "x.csv")
    assert seen.exit_code == 0
    assert "numbers from" in seen.output
    agreed = run("agreement", tmp_path / "x.csv", "--out", tmp_path / "a.csv")
    assert agreed.exit_code == 0
    assert "ICC(A,1)" in agreed.output
    table = crowdppl.metrics.intraclass_correlation(Annotations.from_frame(frame, kind="numeric"))
    # The same of the numbers as names of classes.
    with silent():
        named = Annotations.from_frame(frame.assign(label=frame["label"].map(repr)), kind="nominal")
        pd.testing.assert_frame_equal(table, crowdppl.metrics.intraclass_correlation(named))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--kind", "numeric", "--labels", "1,2"], "--labels is about classes"),
        (["--kind", "numeric", "--scale", "a,b"], "write the lowest and the highest number"),
        (["--scale", "5,1"], "lowest and the highest"),
        (["--kind", "numeric", "--independent"], "--independent is not used"),
        (["--kind", "numeric", "--cost", "2"], "--cost is not used"),
        (["--kind", "numeric", "--model", "dawid-skene"], "model of classes or grades"),
        (["--kind", "nominal", "--model", "linear-gaussian"], "is a model of numbers"),
    ],
)
def test_the_command_refuses(words, message, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    crowd(items=10, workers=3, each=2)[0].round(0).to_csv(tmp_path / "x.csv", index=False)
    result = run("fit", tmp_path / "x.csv", "--out", tmp_path / "r", *words)
    assert result.exit_code == 2, result.output
    assert message in re.sub(r"\s+", " ", result.output)
    assert not (tmp_path / "r").exists()


def test_the_model_is_listed_and_explained():
    assert "linear-gaussian" in run("models").output
    explained = run("models", "linear-gaussian")
    assert explained.exit_code == 0
    assert "bias_scale=" in explained.output


def test_other_functions_refuse_in_one_line(fits):
    posterior = fits("em")
    for call in (
        lambda: crowdppl.predict_correct(posterior, pd.DataFrame()),
        lambda: criticism.loo(posterior),
        lambda: acquisition.curve(posterior),
        lambda: plots.forest(posterior, by="severity"),
        lambda: plots.ranks(posterior),
        lambda: crowdppl.aggregate.majority(numbers()),
        lambda: crowdppl.metrics.agreement(numbers()),
    ):
        with pytest.raises(CrowdpplError) as caught:
            call()
        assert "\n" not in str(caught.value)
        assert re.search("numbers|Numeric", str(caught.value))
