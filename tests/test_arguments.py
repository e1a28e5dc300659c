"""Every argument of every public callable, with values of wrong types and sizes: one line that names it, or a result.

Public callables are found, not listed: a new one without checks of all its arguments, or without a row in ``CALLS``, fails.
"""

import dataclasses
import functools
import importlib
import inspect
import json
import math
import pkgutil
import re
import types
import typing
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import matplotlib.pyplot as plt
import number_crowds
import numpy as np
import pandas as pd
import pytest
import torch
from catalog import quiet_fit

import crowdppl
from crowdppl import (
    acquisition,
    aggregate,
    arguments,
    criticism,
    crowdkit,
    export,
    judges,
    learning,
    metrics,
    plots,
    report,
)
from crowdppl.acquisition import Curve
from crowdppl.criticism import numbers, sbc
from crowdppl.data import (
    datasets,
    diagnostics,
    download,
    experiments,
    joining,
    read,
    soft_answers,
    synthetic,
    worker_information,
)
from crowdppl.data.numeric import NumericAnnotations
from crowdppl.errors import CrowdpplError, CrowdpplWarning, OptionError
from crowdppl.inference.scale import sharded, streaming
from crowdppl.models import CATALOGUE, DawidSkene, WorkerGroups, truth_discovery
from crowdppl.posterior import workers
from crowdppl.posterior.numbers import NumericPosterior
from crowdppl.posterior.workers import groups

MODULES = [
    crowdppl,
    acquisition,
    aggregate,
    criticism,
    datasets,
    experiments,
    metrics,
    export,
    groups,
    judges,
    learning,
    plots,
    read,
    report,
    diagnostics,
    worker_information,
    sbc,
]
MODULES += [sharded, soft_answers, streaming, synthetic, joining, workers, truth_discovery]
CLASSES = [crowdppl.Posterior, crowdppl.Annotations, Curve, aggregate.Aggregate, learning.Classifier]
CLASSES += [judges.Verdicts, judges.HumanLabels, NumericAnnotations, NumericPosterior]
# Methods that models and engines call with tensors of their own making, inside a fit; and one that always refuses.
INTERNAL = {
    "NumericPosterior.confusion",
    "Annotations.weighted",
    "Annotations.mean_by_worker",
    "Posterior.by_block",
    "Posterior.worker_blocks",
}


def discovered():
    """All public functions and methods by name."""
    functions = {"download.fetch": download.fetch}
    for module in MODULES:
        short = module.__name__.rpartition(".")[-1]
        for name in getattr(module, "__all__", [n for n in vars(module) if not n.startswith("_")]):
            value = getattr(module, name)
            # Measures are functions of arrays beneath the result, offered with the other functions of workers.
            ours = str(getattr(value, "__module__", "")).startswith((module.__name__, "crowdppl.posterior.measures"))
            if isinstance(value, types.FunctionType) and ours:
                functions[f"{short}.{name}"] = value
    for kind in CLASSES:
        for name, value in ((n, v) for c in reversed(kind.mro()[:-1]) for n, v in vars(c).items()):
            function = value.__func__ if isinstance(value, classmethod) else value
            if not name.startswith("_") and isinstance(function, types.FunctionType):
                functions[f"{kind.__name__}.{name}"] = function
    unique = {}
    for name, function in functions.items():
        unique.setdefault(id(inspect.unwrap(function)), (name, function))
    return dict(unique.values())


PUBLIC = discovered()


def parameters(function):
    every = inspect.signature(inspect.unwrap(function)).parameters.values()
    return [p for p in every if p.name not in ("self", "cls")]


# Types of numbers, arrays and paths, which have bounds, shapes or a place: their checks are to be stated.
BOUNDED = {"int", "float", "Path", "str | Path", "Array", "Tensor"}


@pytest.mark.parametrize("name", PUBLIC)
def test_every_argument_is_checked(name):
    """What has no check, such as labels of any type, the function checks itself: see the test of wrong values."""
    function = PUBLIC[name]
    checks = arguments.checks_of(function)
    assert checks is not None or not parameters(function), f"{name} is not checked; see crowdppl.arguments.checked"
    for p in parameters(function):
        options = p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
        bounded = BOUNDED & {str(p.annotation).removesuffix(" | None"), *str(p.annotation).split(" | ")}
        assert options or p.name in checks or not bounded, (
            f"{name}({p}) has no check; crowdppl.arguments has such types"
        )


def modules():
    """All modules of the library."""
    for module in pkgutil.walk_packages(crowdppl.__path__, "crowdppl."):
        if not module.name.endswith("__main__"):
            yield importlib.import_module(module.name)


def types_with_checks():
    """The names of such types in :mod:`crowdppl.arguments`."""
    return {name for name, value in vars(arguments).items() if typing.get_origin(value) is Annotated}


def test_types_with_checks_are_documented():
    text = (Path(__file__).parents[1] / "docs" / "reference" / "index.md").read_text(encoding="utf-8")
    rows = {
        name
        for line in text.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert len(types_with_checks()) > 10
    assert types_with_checks() <= rows


def test_all_signatures_can_be_read():
    """Checks are read at the first call: here all of them, so that no call is the first to find one that cannot be read."""
    functions = {}
    for module in modules():
        for holder in [module, *(kind for kind in vars(module).values() if inspect.isclass(kind))]:
            for value in vars(holder).values():
                function = getattr(value, "__func__", value)
                if hasattr(function, "__checks__") and function.__module__.startswith("crowdppl"):
                    functions[id(function)] = function
    aliases = types_with_checks()
    assert len(functions) > 250
    for function in functions.values():
        checks = arguments.checks_of(function)
        for p in parameters(function):
            named = set(re.findall(r"\w+", str(p.annotation))) & {*aliases, "Annotated", "Literal"}
            # A union with other types has no check, and then a type with one would go unnoticed in it.
            assert p.name in checks or named <= {"Literal"}, f"{function.__module__}.{function.__qualname__}: {p}"


# ---------------------------------------------------------------------- things to call with


@functools.cache
def frame():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 12)
    label = np.where(rng.random((4, 12)) < 0.8, truth, 1 - truth)
    return pd.DataFrame(
        {
            "task": np.tile(np.arange(12), 4),
            "worker": np.repeat(["u", "v", "w", "x"], 12),
            "label": label.reshape(-1),
            "timestamp": np.arange(48.0),
            "seconds": np.arange(48.0) + 1,
        }
    )


@functools.cache
def data():
    return crowdppl.Annotations.from_frame(frame(), truth={0: 0}, timestamp="timestamp", seconds="seconds")


@functools.cache
def numeric_data():
    return crowdppl.Annotations.from_frame(number_crowds.crowd(items=12, workers=4, each=3)[0], kind="numeric")


@functools.cache
def numeric_posterior(width=0):
    annotations = numeric_data().with_features(np.arange(12 * width).reshape(12, width) % 5 if width else None)
    return crowdppl.fit(annotations, method="em", num_samples=10)


@functools.cache
def posterior(model="dawid-skene", method="gibbs"):
    options = {"chains": 2, "warmup": 5, "num_samples": 20} if method == "gibbs" else {"num_samples": 20}
    instance = {"groups": WorkerGroups(groups=2)}.get(model, model)
    annotations = with_features() if model == "raykar" else data()
    return quiet_fit(annotations, instance, method=method, independent=False, **options)


@functools.cache
def tokens():
    table = frame().assign(text=0, label=lambda table: np.where(table["label"] == 1, "I-X", "O"))
    return crowdppl.Annotations.from_frame(table, sequence="text", position="task")


@functools.cache
def posterior_of_tokens():
    return quiet_fit(tokens(), method="em", num_samples=20)


@functools.cache
def posterior_of_sets():
    table = frame().assign(label=lambda table: np.where(table["label"] == 1, "x;y", "y"))
    return quiet_fit(crowdppl.Annotations.from_frame(table, several="sets"), method="em", num_samples=20)


@functools.cache
def posterior_by_criteria():
    table = frame().assign(criterion=lambda table: np.where(table.index % 2, "style", "content"))
    data = crowdppl.Annotations.from_frame(table, kind="ordinal", criterion="criterion")
    return quiet_fit(data, method="em", num_samples=20)


@functools.cache
def posterior_with_covariates(walk=None):
    data = crowdppl.Annotations.from_frame(frame().assign(order=lambda table: table.index % 3), covariates="order")
    return quiet_fit(data, crowdppl.models.AccuracyRegression(walk=walk), chains=1, warmup=5, num_samples=20)


@functools.cache
def three_labels():
    return crowdppl.Annotations.from_frame(
        frame().assign(label=lambda table: table["label"].where(table.index % 5 > 0, 2))
    )


@functools.cache
def with_other_labels():
    return quiet_fit(three_labels().with_other_labels([2]), "one-coin", method="em", num_samples=20)


def with_features():
    return data().with_features(pd.DataFrame({"f": np.linspace(-1, 1, 12)}, index=range(12)))


@functools.cache
def classifier():
    return learning.trace_regularization(with_features(), training=learning.Training(epochs=1))


@functools.cache
def judged():
    """Verdicts of a small panel, and labels of some of the items by people."""
    verdicts, truth = judges.simulate(items=8, seed=1)
    return verdicts, truth.head(10)


@functools.cache
def labelled_by_three():
    return pd.concat([judged()[1].assign(annotator=name) for name in "abc"], ignore_index=True)


@functools.cache
def on_criteria():
    """Verdicts on two criteria."""
    verdicts = judged()[0]
    return pd.concat([verdicts.assign(metric=name) for name in ("helpful", "safe")], ignore_index=True)


@functools.cache
def judged_result():
    verdicts, human = judged()
    return judges.fit(verdicts, human, num_samples=50)


def probabilities(*shape):
    drawn = np.random.default_rng(1).random(shape) + 0.1
    return drawn / drawn.sum(-1, keepdims=True)


THETA = {"confusion": probabilities(3, 2, 2, 2), "prevalence": probabilities(3, 2)}
TRUTH = {1: 0, 2: 1, 3: 0, 4: 1, 5: 1}
GIBBS = {"method": "gibbs", "chains": 1, "warmup": 2, "num_samples": 12}


@functools.cache
def calls(place):
    """Arguments with which each public callable works; a method takes its object as ``self``."""
    p = {"posterior": posterior()}
    mine = {"self": posterior()}
    own = {"self": data()}
    path = place / "x.parquet"
    if not path.exists():
        frame().sort_values("task").to_parquet(path)
        frame().to_csv(place / "x.csv", index=False)
        judged()[0].to_csv(place / "judged.csv", index=False)
        on_criteria().to_csv(place / "criteria.csv", index=False)
        judged_result().save(place / "judged.nc")
        (place / "words.conll").write_text("one O O\ntwo O B-X\n")
        control = {
            "from_name": "label",
            "to_name": "text",
            "type": "choices",
            "value": {"choices": [str(data().labels[0])]},
        }
        task = {"id": str(data().items[0]), "data": {}, "annotations": [{"completed_by": 1, "result": [control]}]}
        (place / "project.json").write_text(json.dumps([task]))
    item, worker, label = posterior().annotation_index()
    long = {"task": [0, 0, 1], "worker": ["u", "v", "u"], "label": [0, 1, 0]}
    tiny = {"simulations": 1, "items": 6, "workers": 3, "per_item": 2, "draws": 4}
    confusion = {"confusion": THETA["confusion"]}
    learn = {"data": with_features(), "training": learning.Training(epochs=1)}
    return {
        "learning.two_stage": {**learn, "aggregation": aggregate.majority(data())},
        "learning.on_truth": {**learn, "truth": TRUTH},
        **{f"learning.{m.__name__}": learn for m in learning.METHODS[2:]},
        "judges.fit": {"verdicts": judged()[0], "human": judged()[1], "num_samples": 50},
        "judges.fit_criteria": {"verdicts": on_criteria(), "num_samples": 50},
        "judges.read_criteria": {"path": place / "criteria.csv"},
        "judges.load": {"path": place / "judged.nc"},
        "judges.alternative_annotators": {"verdicts": judged()[0], "human": labelled_by_three()},
        "judges.simulate": {"items": 5},
        "judges.simulate_pairs": {"items": 5},
        "judges.smaller_panels": {"result": judged_result(), "width": 0.2},
        "judges.read": {"path": place / "judged.csv"},
        "judges.read_frame": {"path": place / "judged.csv"},
        "Verdicts.from_frame": {"frame": judged()[0]},
        "Verdicts.by_criterion": {"frame": on_criteria()},
        "HumanLabels.by_criterion": {"data": on_criteria()},
        "Verdicts.only": {"self": judges.Verdicts.from_frame(judged()[0]), "judges": ["a-1", "c-1"]},
        "Verdicts.annotations": {"self": judges.Verdicts.from_frame(judged()[0])},
        "HumanLabels.from_frame": {"data": judged()[1]},
        "HumanLabels.align": {
            "self": judges.HumanLabels.from_frame(judged()[1]),
            "verdicts": judges.Verdicts.from_frame(judged()[0]),
        },
        "Classifier.predict": {"self": classifier(), "items": np.zeros((2, 1))},
        "Classifier.probability": {"self": classifier()},
        "Classifier.accuracy": {"self": classifier(), "items": np.zeros((2, 1)), "classes": [0, 1]},
        "Classifier.confusion": {"self": classifier(), "worker": "u"},
        "crowdppl.fit": {"data": data(), "model": "one-coin", **GIBBS},
        "crowdppl.compare": {"data": data(), "models": ["one-coin", "majority-vote"], "num_samples": 30},
        "crowdppl.load": {"path": posterior().save(place / "x.nc")},
        "crowdppl.predict": {"posterior": posterior("raykar", "em"), "items": np.zeros((2, 1))},
        "crowdppl.predict_correct": {"posterior": posterior("raykar", "em"), "design": np.zeros((2, 1))},
        "crowdppl.predict_workers": {**p, "data": data()},
        "crowdppl.EM": {"max_iter": 5},
        "crowdppl.SVI": {"max_iter": 5},
        "crowdppl.Gibbs": {"chains": 2},
        "crowdppl.NUTS": {"chains": 2},
        "crowdppl.pyro_program": {"model": "dawid-skene", "data": data()},
        "crowdppl.set_threads": {"threads": None},
        "crowdppl.read": {"path": place / "x.csv"},
        "crowdppl.stream": {"path": path, "passes": 1, "num_samples": 20},
        "crowdppl.distribute": {"path": path, "method": "gibbs", "chains": 2, "warmup": 2, "num_samples": 20},
        "crowdppl.update": {**p, "more": frame().head(3)},
        "joining.as_criteria": {"before": data()},
        "joining.joined": {"before": data(), "more": data()},
        "read.to_annotations": None,
        "acquisition.effective": {"n": 3, "rho": 0.1},
        "acquisition.gains": p,
        "acquisition.next_items": p,
        "acquisition.next_known": p,
        "acquisition.next_pairs": {**p, "workers": ["u", "v"]},
        "acquisition.redundancy": p,
        "acquisition.redundancy_source": p,
        "acquisition.finished": p,
        "acquisition.curve": {**p, "most": 4, "steps": 2, "replicates": 3},
        "aggregate.majority": {"data": data()},
        "aggregate.vote_shares": {"data": data()},
        "aggregate.weighted_majority": {"data": data(), "weights": dict.fromkeys(data().workers.tolist(), 1.0)},
        "aggregate.wawa": {"data": data()},
        "Aggregate.accuracy": {"self": aggregate.majority(data()), "truth": {data().items[0]: data().labels[0]}},
        "metrics.agreement": {"data": data()},
        "metrics.graded_agreement": {"data": dataclasses.replace(data(), kind="ordinal")},
        "metrics.intraclass_correlation": {"data": data()},
        "metrics.pairwise_agreement": {"data": data()},
        "metrics.span_agreement": {"data": tokens()},
        "metrics.divergence": {"first": THETA["confusion"], "second": THETA["confusion"]},
        "metrics.individual_divergence": {"confusion": THETA["confusion"], "reference": THETA["confusion"]},
        "metrics.global_divergence": {"confusion": THETA["confusion"], "reference": THETA["confusion"]},
        "metrics.empirical_confusion": {"data": data(), "truth": {data().items[0]: data().labels[0]}},
        "metrics.auc": {"probability": [0.1, 0.9], "truth": [0, 1]},
        "metrics.roc": {"probability": [0.1, 0.9], "truth": [0, 1]},
        "metrics.redundancy_curve": {
            "data": data(),
            "truth": {data().items[0]: data().labels[0]},
            "methods": {"votes": aggregate.majority},
            "levels": [1],
            "draws": 1,
        },
        "Curve.needed": {"self": acquisition.curve(posterior(), 4, steps=2, replicates=3), "accuracy": 0.9},
        "criticism.loo": p,
        "criticism.kfold": {"data": data(), "model": "one-coin", "folds": 2, **GIBBS},
        "criticism.leave_workers_out": {"data": data(), "model": "one-coin", "folds": 2, **GIBBS},
        "criticism.compare_elpd": {"posteriors": {"a": posterior(), "b": posterior()}},
        "criticism.calibration": {**p, "truth": TRUTH},
        "criticism.coverage": {**p, "truth": TRUTH, "minimum": 1},
        "criticism.loss_difference": {name: criticism.calibration(posterior(), TRUTH) for name in ("first", "second")},
        "criticism.better_form": {
            name: (criticism.calibration(posterior(), TRUTH), criticism.coverage(posterior(), TRUTH, minimum=1))
            for name in ("published", "correlated")
        },
        "criticism.changes": {"earlier": posterior(), "later": posterior()},
        "criticism.check": {**p, "draws": 3},
        "criticism.replicates": {**p, "draws": 3},
        "criticism.perspectives": {"data": data(), "group": {"u": "a", "v": "a", "w": "b", "x": "b"}, "splits": 1},
        "criticism.predictive_tree": p,
        "criticism.prior_check": {"model": DawidSkene(), "data": data(), "draws": 2},
        "criticism.prior_sensitivity": p,
        "criticism.severity_effects": {
            "posterior": posterior("graded-facets", "em"),
            "covariates": pd.DataFrame({"x": [1.0, 2.0, 4.0, 3.0]}, index=list("uvwx")),
        },
        "criticism.plan": {"pilot": posterior("dawid-skene", "em"), "items": [6], "per_item": [2], "replicates": 2},
        "criticism.mean_squares": {"posterior": posterior("graded-facets", "em"), "draws": 3},
        "criticism.advice": p,
        "datasets.anaesthesia": {},
        "datasets.folder": {},
        "datasets.listing": {},
        "datasets.public": None,
        "download.fetch": None,
        "export.truth": p,
        "export.soft": p,
        "export.weights": p,
        "export.workers": p,
        "export.confusion": p,
        "export.spans": {"posterior": posterior_of_tokens()},
        "export.sets": {"posterior": posterior_of_sets()},
        "export.conll": {"posterior": posterior_of_tokens(), "path": place / "t.conll"},
        "export.span_predictions": None,
        "export.words_of": {"source": place / "words.conll"},
        "export.to_file": {**p, "what": "truth", "path": place / "t.csv"},
        "masks.from_arrays": {"masks": [np.zeros(3), np.ones(3)]},
        "masks.from_patterns": {"patterns": [[0, 1], [1, 1]], "counts": [2, 3]},
        "masks.read": None,
        "export.write": {"table": posterior().truth(), "path": place / "t.csv"},
        "export.neutral": {"table": posterior().truth()},
        "export.predictions": {**p, "source": place / "project.json", "path": place / "t.json"},
        "groups.table": {"posterior": posterior("groups")},
        "groups.similarity": {"confusion": probabilities(2, 3, 3)},
        "groups.row_entropy": {"confusion": probabilities(2, 3, 3)},
        "criticism.choose_groups": {
            "data": data(),
            "make": lambda m: WorkerGroups(groups=m),
            "groups": [1],
            "chains": 2,
            "warmup": 5,
            "num_samples": 50,
        },
        "groups.worker_map": None,
        "plots.confusion": p,
        "plots.forest": p,
        "plots.experience": p,
        "plots.ranks": p,
        "plots.item": {**p, "task": 1},
        "plots.simplex": None,
        "plots.entropy": p,
        "plots.load": p,
        "plots.reliability": {"calibration": criticism.calibration(posterior(), TRUTH)},
        "plots.redundancy": p,
        "plots.curve": {"expected": acquisition.curve(posterior(), 4, steps=2, replicates=3)},
        "plots.trace": p,
        "plots.chains": p,
        "plots.predictive": {"check": criticism.check(posterior(), draws=3)},
        "plots.workers_map": p,
        "plots.wright_map": {"posterior": posterior("graded-facets", "em")},
        "plots.perspectives": {
            "result": criticism.perspectives(data(), {"u": "a", "v": "a", "w": "b", "x": "b"}, splits=1)
        },
        "plots.noise": None,
        "plots.groups": {"posterior": posterior("groups")},
        **{f"plots.{name}": {"result": judged_result()} for name in ("systems", "judges", "panel")},
        "report.content": None,  # which writing calls with its own arguments
        "report.page": p,
        "report.write": {**p, "path": place / "r.html"},
        "report.write_judges": {"result": judged_result(), "path": place / "j.html"},
        "diagnostics.review": {"data": data()},
        "diagnostics.hardly_agree": {"data": data()},
        "diagnostics.equal_answers": {"data": data(), "groups": [], "copies": "one"},
        "diagnostics.separate_groups": None,
        "report.write_numbers": {"posterior": numeric_posterior(), "path": place / "n.html"},
        "report.number_actions": {"posterior": numeric_posterior()},
        "plots.values": {"posterior": numeric_posterior()},
        "criticism.check_numbers": {"posterior": numeric_posterior(), "draws": 3},
        "criticism.compare_numbers": {"data": numeric_data()},
        "criticism.number_changes": {"earlier": numeric_posterior(), "later": numeric_posterior()},
        **{f"truth_discovery.{name}": {"data": numeric_data()} for name in truth_discovery.METHODS},
        "NumericAnnotations.to": {"self": numeric_data()},
        "NumericAnnotations.means": {"self": numeric_data()},
        "NumericAnnotations.tensors": {"self": numeric_data()},
        "NumericAnnotations.with_features": {"self": numeric_data(), "features": np.ones((12, 1))},
        "NumericPosterior.draws": {"self": numeric_posterior(), "name": "bias"},
        "NumericPosterior.truth": {"self": numeric_posterior()},
        "NumericPosterior.workers": {"self": numeric_posterior()},
        "NumericPosterior.bias": {"self": numeric_posterior()},
        "NumericPosterior.features": {"self": numeric_posterior(2)},
        "NumericPosterior.save": {"self": numeric_posterior(), "path": place / "n.nc"},
        **{
            f"NumericPosterior.{name}": {"self": numeric_posterior()}
            for name in ("items", "worker_names", "known_truth", "data")
        },
        "worker_information.worker_information": {"item": item, "worker": worker, "label": label, "sizes": (12, 4, 2)},
        "worker_information.names_score": {"item": item, "worker": worker, "label": label, "sizes": (12, 4, 2)},
        "sbc.ranks": {"model": "one-coin", **tiny, **GIBBS},
        "sbc.uniformity": {"rank": np.arange(5), "draws": 9, "replications": 5},
        "sbc.coverage": {"rank": np.arange(5), "draws": 9},
        "sbc.table": {"result": sbc.ranks("one-coin", **tiny, **GIBBS), "draws": 4},
        "synthetic.three_gaussians": {"seed": 0, "workers": 6, "train": 5, "test": 2, "per_item": 2.0},
        "synthetic.four_abilities": {"truth": [0, 1, 2, 0], "seed": 0, "workers": 6, "per_item": 2.0},
        "synthetic.common_and_individual": {"seed": 0, "items": 5, "workers": 4, "per_item": 2, "test": 2},
        "synthetic.two_gaussians": {"seed": 0, "train": 5, "test": 2},
        "synthetic.correlated_crowd": {"seed": 0, "items": 5, "workers": 4, "per_item": 2},
        "synthetic.easy_and_hard": {"seed": 0, "items": 5},
        "synthetic.perturbed_networks": {
            "features": np.eye(4),
            "truth": [0, 1, 2, 0],
            "seed": 0,
            "workers": 6,
            "per_item": 2.0,
        },
        "soft_answers.from_probabilities": {"task": [0, 1], "worker": [0, 0], "probability": [[0.2, 0.8], [1.0, 0.0]]},
        "experiments.thinned": {"data": data(), "per_item": 2, "seed": 0},
        "experiments.with_reference_workers": {"data": data(), "truth": {0: 0, 1: 1}, "seed": 0},
        "workers.probability_better": {**p, "a": "u", "b": "v"},
        "workers.best": {**p, "m": 1},
        "workers.worst": {**p, "m": 1},
        "workers.rank": {"values": probabilities(4, 3)},
        "workers.summarise_ranks": {"ranks": workers.rank(probabilities(4, 3))},
        "workers.spammer_probability": p,
        "workers.verdicts": p,
        "workers.hypothesis_probabilities": p,
        "workers.label_counts": p,
        "workers.crowd_confusions": p,
        "workers.systematic_confusions": p,
        "workers.relative_speed": p,
        "report.actions": None,
        "report.carried": {"earlier": posterior(), "later": posterior()},
        "report.columns": None,
        "report.describe": None,
        "report.from_file": None,
        "report.lines": None,
        "report.price": {"cost": 1.0},
        "diagnostics.far_from_votes": None,
        "diagnostics.lost_classes": None,
        "diagnostics.nothing_learned": None,
        "diagnostics.unused_classes": None,
        "workers.accuracy_over_time": {**p, "windows": 2},
        "workers.accuracy_change": {**p, "minimum": 2},
        "workers.became_worse": p,
        "workers.median_seconds": p,
        "workers.gold_accuracy": p,
        "workers.interval": {"draws": probabilities(4, 3)},
        "workers.default_level": {"level": 0.5},
        "workers.measure": {"name": "accuracy", **THETA},
        "workers.qualities": {"labels": [0, 1], **THETA},
        **{f"workers.{n}": THETA for n in ("accuracy", "informativeness", "specificity", "kappa")},
        **{f"workers.{n}": THETA for n in ("expected_cost", "cost_quality")},
        **{f"workers.{n}": confusion for n in ("sensitivity", "mean_diagonal", "diagonal_log_odds")},
        **{f"workers.{n}": confusion for n in ("distance_from_spammer", "spammer_score")},
        "crowdppl.simulate": {"model": DawidSkene(), "task": [0, 1], "worker": [0, 0], "classes": 2, "seed": 0},
        "crowdppl.check_contract": {"model": DawidSkene(), "data": data()},
        "Posterior.workers": mine,
        "Posterior.measure": mine,
        "Posterior.confusion": mine,
        "Posterior.prevalence": mine,
        "Posterior.other_rates": {"self": with_other_labels()},
        "Posterior.grades": {"self": posterior("graded-facets", "em")},
        "Posterior.severity": {"self": posterior("graded-facets", "em")},
        "Posterior.criteria": {"self": posterior_by_criteria()},
        "Posterior.effects": {"self": posterior_with_covariates()},
        "Posterior.accuracy_over_time": {"self": posterior_with_covariates("order")},
        "Posterior.spans": {"self": posterior_of_tokens()},
        "Posterior.label_rates": {"self": posterior_of_sets()},
        "Posterior.draws": {**mine, "name": "prevalence"},
        "Posterior.variable": {**mine, "name": "prevalence"},
        "Posterior.worker_index": {**mine, "worker": "u"},
        "Posterior.annotation_metadata": {**mine, "name": "timestamp"},
        "Posterior.confusion_counts": {**mine, "max_draws": 2},
        "Posterior.share_correct_draws": mine,
        "Posterior.update": {**mine, "more": frame().head(3)},
        "Posterior.save": {**mine, "path": place / "y.nc"},
        "Annotations.to": own,
        "Annotations.with_features": own,
        "Annotations.with_covariates": {**own, "covariates": np.arange(48.0).reshape(48, 1)},
        "Annotations.times_of": {
            "self": own["self"].with_covariates(np.arange(48.0).reshape(48, 1) % 5),
            "covariate": "x1",
        },
        "Annotations.with_features_ordered": {**own, "names": ("a",)},
        "Annotations.with_other_labels": {"self": three_labels(), "names": [2]},
        "Annotations.with_weights": {**own, "weights": np.ones(12)},
        "Annotations.with_sequences": {
            **own,
            "frame": pd.DataFrame({"task": range(12), "sequence": 0, "position": range(12)}),
        },
        "Annotations.unseen": own,
        "Annotations.code": {**own, "labels": [0, 1], "what": "labels"},
        "Annotations.batch": {**own, "index": torch.arange(2)},
        "Annotations.mini_batch": {**own, "index": torch.arange(2)},
        "Annotations.keep": {**own, "annotations": torch.ones(48, dtype=torch.bool)},
        "Annotations.from_frame": {"frame": frame()},
        "Annotations.from_counts": {"frame": pd.DataFrame({"a": [1, 2], "b": [0, 3]})},
        "Annotations.from_arrays": long,
        "Annotations.from_csv": {"path": place / "x.csv"},
        "Annotations.from_parquet": {"path": path},
    }


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("arguments")


WRONG = [None, math.nan, math.inf, -1, 1.5, "x", [], True, {}, b"x", [1.5, "x"], pd.DataFrame(), object()]
TAKES_NOTHING = {name for name, function in PUBLIC.items() if not parameters(function)}


def refusal(function, **given):
    """Return what is said of refused arguments; ``None`` where they are taken."""
    try:
        function(**given)
    except CrowdpplError as error:
        return str(error)
    return None


def needed(parameter):
    return parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD


def called(function, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = function(**given)
        if inspect.isgenerator(result):
            list(result)
    plt.close("all")
    return result


def bound(name, function):
    """Return a class method of its class, and other functions as they are."""
    kinds = {"Annotations": crowdppl.Annotations, "Verdicts": judges.Verdicts, "HumanLabels": judges.HumanLabels}
    kind, _, method = name.partition(".")
    return getattr(kinds[kind], method) if method.startswith(("from_", "by_criterion")) and kind in kinds else function


def test_every_public_callable_has_a_row(place):
    assert set(PUBLIC) - set(calls(place)) - TAKES_NOTHING - INTERNAL == set()


# What fits again for every value that passes its check.
LONG = {
    "criticism.compare_numbers",
    "judges.alternative_annotators",
    "judges.fit_criteria",
    "report.page",
    "report.write",
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in LONG))
        for name in sorted(set(PUBLIC) - TAKES_NOTHING - INTERNAL)
    ],
)
def test_wrong_values_are_refused_in_one_line(name, place, monkeypatch):
    """Refused where the check of the argument refuses; where it does not, the function works or refuses for itself."""
    function, base = PUBLIC[name], calls(place)[name]
    monkeypatch.chdir(place)
    monkeypatch.setattr(numbers, "FOLDS", 2)  # models of numbers are compared by a fit to each part
    checks = arguments.checks_of(function) or {}
    if base is not None:
        called(bound(name, function), **base)
    function = bound(name, function)
    for parameter in parameters(PUBLIC[name]):
        keyword = {} if parameter.kind is not inspect.Parameter.VAR_KEYWORD else None
        if keyword is None:
            continue  # options are checked by who takes them
        check = checks.get(parameter.name, arguments.anything)
        for value in [*WRONG, place]:
            if value is parameter.default and parameter.name not in (base or {}):
                continue  # the call that worked above
            optional = value is None and arguments.takes_none(parameter)
            refused = None
            if not optional:
                try:
                    check(parameter.name, value)
                except CrowdpplError as error:
                    refused = error
            if name == "crowdppl.fit" and value is True and parameter.name == "progress":
                continue  # draws a bar, for whose links rich takes numbers from Python's random stream
            if base is None and refused is None:
                continue  # what takes a network, or another model than is fitted here
            given = (base or {}) | {parameter.name: value}
            given |= {p.name: 1 for p in parameters(PUBLIC[name]) if needed(p) and p.name not in given}
            try:
                called(function, **given)
            except CrowdpplError as error:
                message = str(error)
                assert "\n" not in message
                assert len(message) < 500, message
                if refused is not None and base is not None:
                    assert parameter.name in message, f"{name}({parameter.name}={value!r}): {message}"
            else:
                assert refused is None, f"{name}({parameter.name}={value!r}) was accepted"


# ---------------------------------------------------------------------- the checks themselves


ACCEPTED = {
    "whole": (arguments.whole(1), [1, 5, np.int32(3), np.uint8(1)]),
    "number": (arguments.number(), [0, -1.5, np.float32(2), np.int64(1)]),
    "positive": (arguments.positive, [1e-300, 3]),
    "share": (arguments.share, [0, 1, 0.5]),
    "probability": (arguments.probability, [0.5]),
    "level": (arguments.level, [0.89]),
    "seed": (arguments.seed, [0, 2**63 - 1]),
    "flag": (arguments.flag, [True, False, np.True_]),
    "text": (arguments.text, ["", "x"]),
    "choice": (arguments.choice("a", "b"), ["a", "b"]),
    "identifiers": (arguments.identifiers, [["a", 1], (1,), np.array([1, 2]), pd.Series(["a"])]),
    "array": (arguments.array("draw", "worker"), [np.ones((2, 3)), [[1, 2]]]),
    "square": (arguments.array("class", "class"), [np.ones((2, 2))]),
    "device": (arguments.device, ["cpu", torch.device("cpu")]),
}
REFUSED = {
    "whole": [0, -1, 1.5, 1.0, True, np.True_, "1", None, math.nan, [1]],
    "number": [math.nan, math.inf, True, "1", None, 1j],
    "positive": [0, -1, math.nan],
    "share": [-0.1, 1.1, math.nan, True],
    "probability": [0, 1, math.nan, "0.9"],
    "level": [0, 1, 89, "0.9", math.nan, True],
    "seed": [-1, 2**63, 1.0, "0"],
    "flag": ["yes", 1, 0, None, "True"],
    "text": [1, None, b"x"],
    "choice": ["c", None, 1, ["a"]],
    "identifiers": [[], "ab", None, ["a", "a"], {"a": 1}, [[1], [1]] * 0, np.ones((2, 2)), 3],
    "array": [np.ones(2), [[1, 2], [3]], [["a"]], None, "x", object()],
    "square": [np.ones((2, 3))],
    "device": ["meta", "tpu", 1.5, None, [], "cuda:99"],
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_checks(name):
    check, values = ACCEPTED[name]
    for value in values:
        check("it", value)
    for value in REFUSED[name]:
        with pytest.raises(OptionError, match=r"^[^\n]{1,200}$") as refused:
            check("it", value)
        assert "it" in str(refused.value)


def read(annotation, **names):
    return arguments.check_of(annotation, globals() | names)


def test_checks_are_read_from_types():
    """In source, as they are, and by the names of classes that are not imported."""
    whole = arguments.whole(2)
    for annotation in (
        "Annotated[Unknown, whole]",
        "Annotated[Unknown, 'words', whole] | None",
        "'Annotated[int, whole]'",
    ):
        assert read(annotation, whole=whole) is whole
    assert read("arguments.Seed | None") is read(arguments.Seed) is read(arguments.Seed | None) is arguments.seed
    assert read("bool") is read(bool) is arguments.flag
    assert read("str | None") is read(str | None) is arguments.text
    assert read("later.Posterior") is read("Posterior | None") is read(crowdppl.Posterior) is arguments.posterior
    for annotation in ("Literal['a', 'b'] | None", "Alias", Literal["a", "b"]):
        check = read(annotation, Alias=Literal["a", "b"])
        assert check("it", "a") == "a"
        with pytest.raises(OptionError, match=r"^it='c'; use 'a' or 'b'$"):
            check("it", "c")
    either = read("Posterior | NumericPosterior")
    assert either("it", posterior()) is posterior()
    assert either("it", numeric_posterior()) is numeric_posterior()
    with pytest.raises(CrowdpplError, match=r"^it is a str; pass a result of"):
        either("it", "x")


@pytest.mark.parametrize(
    "annotation", ["Any", "int", "Path | None", "str | Path", "Posterior | Any", "list[Unknown]", "None"]
)
def test_types_without_a_check(annotation):
    assert read(annotation, Path=Path) is None


def test_a_type_that_cannot_be_read_is_named():
    """Without a check in the source, a type that is imported for type checkers alone may have one, unseen."""

    @arguments.checked
    def function(size: "Unknown"):  # noqa: F821
        return size

    with pytest.raises(TypeError, match=r"function: cannot read size: Unknown .*outside TYPE_CHECKING"):
        arguments.checks_of(function)


def test_the_check_of_a_call_is_that_of_its_type():
    @arguments.checked
    def function(classes: Annotated[int, arguments.whole(2)], *more: int, share: arguments.Share = 0.5, **options: Any):
        return classes, more, share, options

    assert function(np.int64(2), -1, share=1, size=-1) == (2, (-1,), 1.0, {"size": -1})
    assert type(function(np.int64(2))[0]) is int
    with pytest.raises(OptionError, match=r"^classes=1; it must be a whole number of at least 2$"):
        function(1)
    with pytest.raises(OptionError, match=r"^share=2; it must be a number of at least 0 and at most 1$"):
        function(2, share=2)


def test_faults_found_from_outside(place):
    """The examples that were reported, each as it was."""
    p = posterior()
    folder = place / "a folder"
    folder.mkdir(exist_ok=True)
    (place / "x.csv").touch()  # a file, where a folder is wanted
    before = sorted(place.iterdir())
    for call, message in {
        lambda: crowdppl.fit(data(), rho=(math.nan, 1)): r"rho=\(nan, 1\); it must be a correlation from 0 to 1",
        lambda: crowdppl.fit(data(), rho=("a", 1)): r"rho=\('a', 1\)",
        lambda: crowdppl.fit(data(), rho=(0, -1)): r"rho=\(0, -1\)",
        lambda: crowdppl.fit(data(), rho=(0, math.inf)): r"rho=\(0, inf\)",
        lambda: crowdppl.fit(data(), rho=math.nan): r"rho=nan",
        lambda: crowdppl.fit(data(), method="nuts", target_accept=2): r"target_accept=2",
        lambda: crowdppl.fit(data(), independent="yes"): r"independent='yes'; it must be True or False",
        lambda: crowdppl.fit(data(), device="meta"): r"device='meta'; fits run on",
        lambda: crowdppl.fit(data(), progress="yes"): r"progress='yes'",
        lambda: crowdppl.fit(data(), checkpoint=place / "x.csv"): r"checkpoint=.*is a file",
        lambda: crowdppl.fit(
            data(), checkpoint=(folder,)
        ): r"checkpoint=.*; it must be a folder, or a tuple of a folder and the seconds",
        lambda: crowdppl.fit(
            data(), checkpoint=["state", 60]
        ): r"checkpoint=\['state', 60\]; .*such as \('state', 60\)",
        lambda: crowdppl.fit(
            data(), checkpoint=(60, "state")
        ): r"checkpoint=\(60, 'state'\); .*such as \('state', 60\)",
        lambda: crowdppl.fit(data(), checkpoint=(None, 60)): r"checkpoint=\(None, 60\); .*such as \('state', 60\)",
        lambda: crowdppl.fit(data(), checkpoint=60): r"checkpoint=60; .*such as \('state', 60\)",
        lambda: crowdppl.fit(
            data(), checkpoint=(folder, math.inf)
        ): r"checkpoint\[1\]=inf; it must be a finite number of at least 0",
        lambda: crowdppl.fit(data(), checkpoint=(folder, -1)): r"checkpoint\[1\]=-1; it must be a number of at least 0",
        lambda: crowdppl.fit(data(), every=60): r"every= is no longer an argument; .*checkpoint=\('state', 60\)",
        lambda: crowdppl.EM(
            every=60
        ): r"method 'em' has no option 'every'; .* given to crowdppl.fit: checkpoint=\('state'",
        lambda: crowdppl.distribute(place / "x.csv", every=60): r"every= is no longer an argument",
        lambda: workers.best(p, 1.5): r"m=1.5",
        lambda: acquisition.curve(p, price=math.nan): r"price=nan",
        lambda: acquisition.next_pairs(p, workers=[]): r"workers has 0 values; at least 1 is needed",
        lambda: acquisition.next_pairs(p, workers=["u", "u"]): r"workers contains 'u' more than once",
        lambda: acquisition.next_items(p, 1.5): r"n=1.5; it must be a whole number of at least 1",
        lambda: criticism.prior_check(DawidSkene(), data(), draws=0): r"draws=0",
        lambda: criticism.check(p, draws=math.nan): r"draws=nan",
        lambda: p.workers(level="0.9"): r"level='0.9'",
        lambda: crowdppl.update(p, None): r"more is a NoneType",
        lambda: crowdppl.load(None): r"path: a NoneType is not the path of a file",
        lambda: p.workers(cost="x", measures=["expected_cost"]): r"cost='x'; it must be 2 x 2 numbers",
        lambda: p.workers(
            cost=[[0, 1], [1]], measures=["expected_cost"]
        ): r"cost=\[\[0, 1\], \[1\]\]; it must be 2 x 2",
        lambda: p.save(folder): r"is a folder; name a file in it",
        lambda: report.write(p, folder): r"is a folder; name a file in it",
        lambda: export.to_file(p, "truth", folder): r"is a folder; name a file in it",
        lambda: p.save(place / "none" / "x.nc"): r"there is no folder",
    }.items():
        with pytest.raises(CrowdpplError, match=rf"^[^\n]*{message}[^\n]*$"):
            call()
    assert sorted(place.iterdir()) == before


@pytest.mark.parametrize("kind", list(CATALOGUE.values()), ids=list(CATALOGUE))
def test_models_refuse_what_is_no_hyperparameter(kind):
    for name in inspect.signature(kind).parameters:
        for value in [v for v in WRONG if v is not None]:
            message = refusal(kind, **{name: value})
            assert message is None or re.search(rf"^{kind.__name__}: [^\n]*{name}[^\n]*$", message), message


@pytest.mark.parametrize("kind", ["DawidSkene", "OneCoinDawidSkene", "MajorityVote"])
def test_crowdkit_refuses_what_is_no_argument(kind):
    aggregator = getattr(crowdkit.aggregation, kind)
    for name in inspect.signature(aggregator).parameters:
        for value in [v for v in WRONG if v is not None]:
            message = refusal(aggregator, **{name: value})
            assert message is None or (name in message and "\n" not in message), message


def test_checked_functions_keep_their_signature_and_pythons_messages():
    with pytest.raises(TypeError, match=r"next_items\(\) missing 1 required positional argument: 'posterior'"):
        acquisition.next_items()
    with pytest.raises(TypeError, match="unexpected keyword argument 'm'"):
        acquisition.next_items(posterior(), m=3)
    # every= has another meaning, or never was: no advice on checkpoints
    with pytest.raises(TypeError, match=r"spans\(\) got an unexpected keyword argument 'bogus'"):
        posterior().spans(every=True, bogus=1)
    with pytest.raises(TypeError, match=r"stream\(\) got an unexpected keyword argument 'every'"):
        crowdppl.stream("x.parquet", every=1)
    assert list(inspect.signature(acquisition.next_items).parameters) == ["posterior", "n", "by", "worker"]


def test_warnings_point_at_the_callers_line():
    """Checks stand between the caller and the library: warnings name the caller's file all the same."""
    with pytest.warns(CrowdpplWarning) as recorded:
        criticism.leave_workers_out(data(), "one-coin", folds=2, method="gibbs", chains=2, warmup=2, num_samples=8)
    assert {one.filename for one in recorded} == {__file__}


def test_a_fit_takes_few_arguments():
    """What people give to ``crowdppl.fit`` can be seen at once; options of engines stand in their objects."""
    code = inspect.unwrap(crowdppl.fit).__code__
    assert code.co_argcount + code.co_kwonlyargcount <= 14
