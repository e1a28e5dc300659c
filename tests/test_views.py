"""Every view of a result, on the results of every engine: tables, criticism, acquisition, plots, report, files, commands."""

import importlib
import inspect
import json
import warnings
from collections.abc import Iterator

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from catalog import in_turn
from crowds import crowd_with_characters
from typer.testing import CliRunner

import crowdppl
from crowdppl import CrowdpplError, CrowdpplWarning, Posterior, acquisition, criticism, export, plots, report
from crowdppl.cli.main import app
from crowdppl.criticism.advice import _sampled
from crowdppl.export import results
from crowdppl.inference import predict
from crowdppl.inference.update import update
from crowdppl.posterior import compact, io, workers
from crowdppl.posterior.workers import groups

mpl.use("Agg")

FRAME, TRUTH = crowd_with_characters(seed=3, items=60, each=24, honest_workers=5, timestamps=True)
GOLD = TRUTH.iloc[:30]
MORE = pd.DataFrame({"task": ["item 3", "item 4"], "worker": ["honest 1", "new"], "label": [0, 1]})
FEATURES = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), index=TRUTH.index)

# Results of every engine, and of what differs within one: a point without intervals, one draw, the model as published, states,
# a truth of each annotation's own (no design effect), networks.
FITS = {
    "em": ("dawid-skene", {"method": "em", "num_samples": 50}),
    "em, one draw": ("dawid-skene", {"method": "em", "num_samples": 1}),
    "em, as published": ("dawid-skene", {"method": "em", "num_samples": 50, "independent": True}),
    "em, normal approximation": ("raykar", {"method": "em", "num_samples": 30, "max_iter": 20}),
    "em, a truth for each annotation": ("crowd-mixture", {"method": "em", "max_iter": 5, "num_samples": 10}),
    "em, grades": ("graded-facets", {"method": "em", "num_samples": 50}),
    "svi": ("dawid-skene", {"method": "svi", "max_iter": 60, "num_samples": 40}),
    "svi, a point": ("dawid-skene", {"method": "svi", "max_iter": 60, "guide": "point"}),
    "svi, automatic guide": ("one-coin", {"method": "svi", "max_iter": 60, "num_samples": 30}),
    "gibbs": ("dawid-skene", {"method": "gibbs", "chains": 2, "warmup": 30, "num_samples": 40}),
    "gibbs, one chain": ("dawid-skene", {"method": "gibbs", "chains": 1, "warmup": 5, "num_samples": 3}),
    "gibbs, subtypes": ("item-subtypes", {"method": "gibbs", "chains": 2, "warmup": 30, "num_samples": 40}),
    "gibbs, groups": ("worker-groups", {"method": "gibbs", "chains": 2, "warmup": 30, "num_samples": 40}),
    "nuts": ("one-coin", {"method": "nuts", "chains": 2, "warmup": 15, "num_samples": 15, "max_tree_depth": 4}),
    "nuts, one chain": (
        "one-coin",
        {"method": "nuts", "chains": 1, "warmup": 15, "num_samples": 25, "max_tree_depth": 4},
    ),
    "nuts, few draws": (
        "one-coin",
        {"method": "nuts", "chains": 1, "warmup": 9, "num_samples": 3, "max_tree_depth": 3},
    ),
}

PREDICTION = {"raykar": FEATURES.iloc[:3]}


def _columns(table):
    assert len(table)
    return table


VIEWS = {
    "Posterior.truth": lambda p, _: _columns(p.truth()),
    "Posterior.classifier": lambda p, _: _columns(p.classifier()),
    "Posterior.workers": lambda p, _: _columns(p.workers(sort="accuracy")),
    "Posterior.confusion": lambda p, _: _columns(p.confusion("adversary")),
    "Posterior.prevalence": lambda p, _: _columns(p.prevalence()),
    "Posterior.grades": lambda p, _: _columns(p.grades()),
    "Posterior.severity": lambda p, _: (_columns(p.severity()), _columns(p.severity(pairs=True))),
    "Posterior.__repr__": lambda p, _: repr(p),
    "Posterior.save": lambda p, place: crowdppl.load(p.save(place / "again.nc")).truth(),
    "acquisition.curve": lambda p, _: acquisition.curve(p, 20, steps=3, replicates=5, truth=GOLD),
    "acquisition.next_items": lambda p, _: _columns(acquisition.next_items(p, 5)),
    "acquisition.next_known": lambda p, _: _columns(acquisition.next_known(p, 5)),
    "acquisition.next_pairs": lambda p, _: _columns(acquisition.next_pairs(p, 5)),
    "acquisition.redundancy": lambda p, _: _columns(acquisition.redundancy(p)),
    "criticism.advice": lambda p, _: _sentences(criticism.advice(p)),
    "criticism.calibration": lambda p, _: str(criticism.calibration(p, GOLD)),
    "criticism.check": lambda p, _: _sentences(criticism.check(p, draws=10).sentences, least=0),
    "criticism.coverage": lambda p, _: str(criticism.coverage(p, GOLD, minimum=5)),
    "criticism.loo": lambda p, _: str(criticism.loo(p)),
    "criticism.predictive_tree": lambda p, _: criticism.predictive_tree(p)["observed_data"].to_dataset().to_dataframe(),
    "criticism.prior_sensitivity": lambda p, _: criticism.prior_sensitivity(p, workers=["adversary"]),
    "criticism.replicates": lambda p, _: criticism.replicates(p, 5),
    "export.confusion": lambda p, _: _columns(export.confusion(p)),
    "export.to_file": lambda p, place: [export.to_file(p, what, place / f"{what}.csv") for what in export.TABLES],
    "export.soft": lambda p, _: _columns(export.soft(p)),
    "export.truth": lambda p, _: _columns(export.truth(p)),
    "export.weights": lambda p, _: _columns(export.weights(p)),
    "export.workers": lambda p, _: _columns(export.workers(p)),
    "plots.item": lambda p, _: plots.item(p, "item 3"),
    "plots.curve": lambda p, _: plots.curve(acquisition.curve(p, 20, steps=3, replicates=5)),
    "plots.predictive": lambda p, _: plots.predictive(criticism.check(p, draws=10)),
    "plots.reliability": lambda p, _: plots.reliability(criticism.calibration(p, GOLD)),
    "criticism.changes": lambda p, _: _columns(criticism.changes(p, p).workers),
    "predict.predict": lambda p, _: predict.predict(p, PREDICTION.get(p.info["model"], TRUTH.index[:3])),
    "report.actions": lambda p, _: report.actions(p, cost=0.1),
    "report.carried": lambda p, _: report.carried(p, p),
    "report.describe": lambda p, _: report.describe(p, text={p.items().tolist()[0]: "a text"}).items(),
    "report.content": lambda p, _: json.dumps(report.content(p), allow_nan=False),
    "report.write": lambda p, place: report.write(p, place / "report.html"),
    "workers.best": lambda p, _: _columns(workers.best(p, 2)),
    "workers.probability_better": lambda p, _: workers.probability_better(p, "honest 1", "adversary"),
    "workers.accuracy_change": lambda p, _: _columns(workers.accuracy_change(p)),
    "workers.became_worse": lambda p, _: workers.became_worse(p).columns,
    "workers.accuracy_over_time": lambda p, _: _columns(workers.accuracy_over_time(p)),
    "workers.gold_accuracy": lambda p, _: workers.gold_accuracy(p, GOLD),
    "workers.worst": lambda p, _: _columns(workers.worst(p, 2)),
}
# Views that take a result alone, by module.
OF_A_RESULT = {
    acquisition: "gains redundancy_source finished",
    groups: "table worker_map",
    plots: "chains confusion entropy experience forest groups load noise ranks redundancy simplex trace workers_map wright_map",
    report: "page",
    workers: "label_counts hypothesis_probabilities crowd_confusions relative_speed median_seconds spammer_probability "
    "systematic_confusions verdicts",
}


def _of_a_result(module, name):
    return lambda p, _: getattr(module, name)(p)


VIEWS |= {
    f"{module.__name__.rpartition('.')[2]}.{name}": _of_a_result(module, name)
    for module, names in OF_A_RESULT.items()
    for name in names.split()
}
# Views with tests of their own for every engine they suit: they take a design or a model beside the result.
ELSEWHERE = {
    "export.predictions",  # of an export of Label Studio: tests/export/test_label_studio.py
    # Of tokens in sequences: tests/export/test_conll.py, tests/export/test_span_predictions.py, tests/report/test_texts.py
    "export.conll",
    "export.span_predictions",
    "export.spans",
    # Of sets of labels: tests/data/test_sets.py
    "export.sets",
    # Of grades, with what is known of raters: tests/criticism/test_rater_covariates.py
    "criticism.severity_effects",
    # Of grades by graded facets: tests/criticism/test_mean_squares.py
    "criticism.mean_squares",
    # It simulates and fits: tests/criticism/test_planning.py
    "criticism.plan",
    "predict.parameter_draws",
    "predict.predict_correct",
    "predict.predict_workers",
    # of labels that are numbers: tests/posterior/test_numbers.py
    "criticism.check_numbers",
    "criticism.number_changes",
    "plots.values",
    "report.number_actions",
    "report.write_numbers",
}
FEW = {"em, one draw", "svi, a point", "gibbs, one chain", "nuts, few draws"}
SAMPLED = {name for name in FITS if name.startswith(("gibbs", "nuts"))}
NETWORKS = {"em, a truth for each annotation"}  # its networks are a point, and it is given no features here
ONE_CHAIN = {name for name in FITS if not name.startswith(("gibbs", "nuts")) or "one chain" in name}
# What a view refuses, in one line that names what to do: (view, results) -> words of the message.
REFUSED = {
    "Posterior.classifier": (set(FITS), "classifier"),
    "Posterior.grades": (set(FITS) - {"em, grades"}, "kind='ordinal'"),
    "Posterior.severity": (set(FITS) - {"em, grades"}, "kind='ordinal'"),
    "criticism.loo": (FEW | NETWORKS, "too few draws|draws are too few"),
    "criticism.prior_sensitivity": ((set(FITS) - SAMPLED) | FEW, "method='gibbs'|too few draws|draws are too few"),
    "groups.table": (set(FITS) - {"gibbs, groups", *NETWORKS}, "group"),
    "groups.worker_map": (set(FITS), "map|embedding|workers"),
    "plots.chains": (FEW | NETWORKS | ONE_CHAIN, "too few draws|draws are too few|one chain"),
    "plots.groups": (set(FITS) - {"gibbs, groups", *NETWORKS}, "group"),
    "plots.noise": (set(FITS), "noise|model"),
    "plots.wright_map": (set(FITS) - {"em, grades"}, "kind='ordinal'"),
    "predict.predict": (set(FITS) - {"em, normal approximation"}, "features|classifier"),
}


def _sentences(sentences, least=1):
    assert len(sentences) >= least
    assert all(isinstance(sentence, str) and len(sentence) > 20 for sentence in sentences)
    return sentences


def _fit(name):
    model, options = FITS[name]
    features = FEATURES if model in ("raykar", "crowd-mixture") else None
    data = crowdppl.Annotations.from_frame(FRAME, features=features, timestamp="timestamp", seconds="seconds")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        return crowdppl.fit(data, model, seed=1, **options)


@pytest.fixture(scope="module")
def fits():
    """Return a function that makes a result when first asked for."""
    results = {}

    def get(name):
        if name not in results:
            results[name] = _fit(name)
        return results[name]

    return get


@pytest.fixture(autouse=True)
def closed():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


MODULES = (
    "acquisition",
    "criticism",
    "export",
    "inference.predict",
    "plots",
    "posterior.workers",
    "posterior.workers.groups",
    "report",
)


def _public_views() -> Iterator[str]:
    for path in MODULES:
        room = importlib.import_module(f"crowdppl.{path}")
        module = path.rpartition(".")[-1]
        for name, value in vars(room).items():
            if inspect.isfunction(value) and not name.startswith("_") and value.__module__.startswith(room.__name__):
                first = next(iter(inspect.signature(value).parameters.values()), None)
                if first is not None and "Posterior" in str(first.annotation).removeprefix("Annotated[").split("[")[0]:
                    yield f"{module}.{name}"


def test_every_view_is_in_the_table():
    assert set(_public_views()) - set(VIEWS) == ELSEWHERE


@pytest.mark.parametrize("name", in_turn(FITS, 8, night=False))
def test_views(name, fits, tmp_path):
    _look(name, fits(name), tmp_path)


@pytest.mark.parametrize(
    "name",
    in_turn(["em", "svi", "gibbs, groups", "gibbs, subtypes", "em, a truth for each annotation"], 5, night=False),
)
def test_views_of_a_small_file(name, fits, tmp_path, monkeypatch):
    """With all draws coded, thinned or left out, as those of large data are."""
    monkeypatch.setattr(compact, "SMALL", 0)
    monkeypatch.setattr(io, "EAGER", 0)
    posterior = crowdppl.load(fits(name).save(tmp_path / "small.nc"))
    assert posterior.tree.attrs["keep"] == "small"
    _look(name, posterior, tmp_path)


def _look(name, posterior, tmp_path):
    """Look at a result in every view."""
    failures = []
    for view, look in VIEWS.items():
        refused, words = REFUSED.get(view, (set(), ""))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", CrowdpplWarning)
                look(posterior, tmp_path)
        except CrowdpplError as error:
            if name not in refused or not pd.Series([str(error)]).str.contains(words)[0] or "\n" in str(error):
                failures.append(f"{view}: refused: {error}")
        except Exception as error:  # whatever it is, it is a view's failure and is named with it
            failures.append(f"{view}: {type(error).__name__}: {error}")
        else:
            if name in refused:
                failures.append(f"{view}: not refused")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("name", in_turn(FITS, 4, night=False))
def test_update(name, fits):
    posterior = fits(name)
    if posterior.info["counts"]["features"]:
        with pytest.raises(CrowdpplError, match="features"):
            update(posterior, MORE)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        again = update(posterior, MORE)
    assert "new" in again.worker_names().tolist()
    assert again.info["method"] == posterior.info["method"]


def test_divergences_are_counted_over_chains():
    facts = {
        "chains": 2,
        "warmup": 10,
        "num_samples": 100,
        "divergences": [3, 4],
        "r_hat": {"lp": 1.0},
        "ess": {"lp": 500},
    }
    warnings = _sampled(facts)
    assert any("7 of 200 draws" in sentence for sentence in warnings)


def test_advice_asks_for_enough_draws():
    """More than was used, enough for the effective sample size, and not what was just tried."""
    facts = {"chains": 4, "warmup": 500, "num_samples": 1000, "thin": 2, "r_hat": {"lp": 1.004}, "ess": {"lp": 100.0}}
    (draws,) = [int(s.split("--num-samples ")[1].split(".")[0]) for s in _sampled(facts) if "--num" in s]
    assert draws == 4800
    facts |= {"r_hat": {"lp": 1.2}, "ess": {"lp": 14.0}}
    (warning,) = _sampled(facts)
    assert "Do not use the intervals" in warning
    assert "--warmup 1000" in warning


@pytest.mark.parametrize("model", ["dawid-skene", pytest.param("item-subtypes", marks=pytest.mark.slow)])
@pytest.mark.parametrize("method", ["em", "gibbs", "svi"])
def test_confidence_does_not_depend_on_the_number_of_draws(model, method):
    """Probabilities are averaged over rho, however few draws there are."""
    if (model, method) == ("item-subtypes", "em"):
        pytest.skip("subtypes have no mode")
    options = {"gibbs": {"chains": 1, "warmup": 200}, "svi": {"max_iter": 200}, "em": {}}[method]
    confidence = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        for count in (1, 7, 400):
            p = crowdppl.fit(FRAME, model, method=method, seed=2, num_samples=count, **options)
            confidence[count] = p.probability()
    if method == "em":
        np.testing.assert_allclose(confidence[1], confidence[400], atol=1e-12)
    # Single draws differ by what is not known of the parameters, not by rho, which alone moved the mean by .1 and more.
    for count in (1, 7):
        assert abs(confidence[count].max(1).mean() - confidence[400].max(1).mean()) < 0.06


def test_probabilities_are_means_over_rho():
    """Against ten thousand values of rho, at the point of EM."""
    p = crowdppl.fit(FRAME, method="em", seed=2, num_samples=30)
    effect = p.info["rho"]
    rng = np.random.default_rng(0)
    rho = 1 / (1 + np.exp(-(effect["mean"] + effect["spread"] * rng.normal(size=10_000))))
    logs = np.log(p.probability_as_published())[:5]
    n = p.annotations_per_item()[:5]
    by_hand = np.exp(logs[None] / (1 + (n[None, :, None] - 1) * rho[:, None, None]))
    by_hand = (by_hand / by_hand.sum(-1, keepdims=True)).mean(0)
    np.testing.assert_allclose(p.probability()[:5], by_hand, atol=0.01)  # three standard errors of 10,000 draws at most


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    place = tmp_path_factory.mktemp("tables")
    FRAME.to_csv(place / "labels.csv", index=False)
    GOLD.rename("label").rename_axis("task").reset_index().to_csv(place / "gold.csv", index=False)
    MORE.to_csv(place / "more.csv", index=False)
    return place


OPTIONS = {
    "em": ["--num-samples", "30"],
    "svi": ["--max-iter", "60", "--num-samples", "30"],
    "gibbs": ["--chains", "2", "--warmup", "20", "--num-samples", "30"],
    "nuts": ["--model", "one-coin", "--chains", "2", "--warmup", "10", "--num-samples", "10"],
}


@pytest.mark.slow
@pytest.mark.parametrize("method", OPTIONS)
def test_commands(method, table, tmp_path):
    runner, out = CliRunner(), tmp_path / "out"
    labels = str(table / "labels.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        for words in (
            [
                "fit",
                labels,
                "--method",
                method,
                *OPTIONS[method],
                "--out",
                str(out),
                "--report",
                "--seconds",
                "seconds",
            ],
            ["report", str(out)],
            ["check", str(out), "--draws", "10"],
            ["next", str(out), "-n", "5"],
            *(["export", str(out), "--what", what] for what in export.TABLES),
            ["update", str(out), str(table / "more.csv"), "--out", str(tmp_path / "more")],
            ["report", str(tmp_path / "more")],
        ):
            result = runner.invoke(app, words)
            # Runs here are short: a fit whose chains have not converged says so by its status.
            sampled = words[0] in ("fit", "update") and method in ("gibbs", "nuts")
            assert result.exit_code == (3 if sampled else 0), (words, result.output, result.exception)
            assert ("not converged" in result.output) == (method in ("gibbs", "nuts")), (words, result.output)
    posterior, run = results.opened(out)
    assert isinstance(posterior, Posterior)
    assert run["input"]["rows"] == len(FRAME)


# It has no options for short runs: gradients and NUTS take their time.
@pytest.mark.parametrize("method", ["em", "gibbs", *(pytest.param(m, marks=pytest.mark.slow) for m in ("svi", "nuts"))])
def test_calibrate(method, table):
    model = ["--model", "one-coin"] if method == "nuts" else []
    words = [
        "calibrate",
        str(table / "labels.csv"),
        "--truth-file",
        str(table / "gold.csv"),
        "--method",
        method,
        *model,
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, (result.output, result.exception)
    assert "crowdppl fit" in result.output
