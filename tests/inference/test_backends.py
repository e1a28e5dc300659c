"""One place chooses the computation: nobody else asks which one runs, and results say what was chosen."""

import ast
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from catalog import quiet_fit, simulated

from crowdppl import Annotations
from crowdppl.inference.backends import choose, passes
from crowdppl.inference.backends.coded import Coded

PACKAGE = Path(__file__).resolve().parents[2] / "crowdppl"
# What tells computations apart: names that are read, called or imported.
PREDICATES = {
    "CompiledExpectation",
    "CompiledSampler",
    "EMSteps",
    "PassEvaluation",
    "PassSampler",
    "batched",
    "compiled_step",
    "in_full",
    "serves",
    "shared_confusion",
    "threaded",
    "worthwhile",
}
# Where they are defined: the backends, the contract and what follows from it, and the shapes of compiled functions.
DEFINED = ("inference/backends", "model", "models", "kernels")


def names(path):
    """Yield what a file reads, calls and imports, with the line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            yield node.attr, node.lineno
        elif isinstance(node, ast.Name):
            yield node.id, node.lineno
        elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("crowdppl.inference.backends."):
            yield from (
                (alias.name, node.lineno) for alias in node.names if not (node.module or "").endswith("crowdppl")
            )


def test_only_backends_ask_which_computation_runs():
    asking = []
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        if not place.startswith(DEFINED):
            asking += [f"{place}:{line} {name}" for name, line in names(path) if name in PREDICATES]
    # Whether a model suits data in shares is a question of the data's design, which is refused in words.
    assert [one for one in asking if not one.startswith("inference/scale/sharded/distribute.py")] == []


@pytest.mark.parametrize(
    ("model", "method", "large", "backend"),
    [
        ("dawid-skene", "em", True, "passes"),
        ("dawid-skene", "em", False, "torch"),
        ("item-effects", "em", True, "compiled"),
        ("dawid-skene", "gibbs", True, "passes"),
        ("dawid-skene", "gibbs", False, "compiled"),
        ("worker-groups", "gibbs", False, "torch"),
        ("dawid-skene", "svi", False, "torch"),
    ],
)
def test_results_state_the_choice(monkeypatch, model, method, large, backend):
    """Of data that are large enough for compiled functions by thresholds that are set here."""
    monkeypatch.setattr(passes, "ANNOTATIONS", 0 if large else 10**9)
    monkeypatch.setattr(choose, "E_STEP", 0 if large else 10**9)
    monkeypatch.setattr(choose, "LARGE", 0 if large else 10**9)
    data = simulated(items=30, seed=2, per_item=4)[0]
    options = {"gibbs": {"warmup": 5, "num_samples": 5}, "svi": {"max_iter": 5}, "em": {"max_iter": 5}}[method]
    assert quiet_fit(data, model, method=method, **options).info["backend"] == backend


def test_what_passes_cannot_take_is_left_to_torch(monkeypatch):
    monkeypatch.setattr(passes, "ANNOTATIONS", 0)
    data = simulated(items=30, seed=2, per_item=4)[0].with_weights(np.full(30, 0.5))
    assert quiet_fit(data, "dawid-skene", method="em", max_iter=5).info["backend"] == "torch"


def test_annotations_for_compiled_functions_are_those_of_the_data():
    """Codes, known classes and anchors in arrays; what follows the last code is 0."""
    drawn = simulated(items=9, seed=2, per_item=3)[0]
    truth = torch.where(torch.arange(drawn.N) % 2 == 0, drawn.label[: drawn.N], -1)
    data = replace(drawn, truth=truth, anchor=torch.full((drawn.N, drawn.K), 0.25))
    coded = Coded.of(data, padding=5)
    back = coded.annotations(0, data.N)
    for name in ("item", "worker", "label", "truth"):
        assert torch.equal(getattr(back, name), getattr(data, name))
    assert len(coded.column) == data.A + 5
    assert not coded.column[data.A :].any()
    assert np.array_equal(coded.anchor, data.anchor.numpy())
    assert Coded.of(drawn).anchor.shape == (0, drawn.K)


def test_data_enter_few_modules():
    """A fit of a plain table by the default model hands its data to what computes, not to what has nothing to do."""
    drawn = simulated(items=30, seed=2, per_item=4)[0]
    data = Annotations.from_arrays(*(part.numpy() for part in (drawn.item, drawn.worker, drawn.label)))
    entered = set()

    def watch(frame, event, _):
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(PACKAGE)) and path not in entered:
            code = frame.f_code
            given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            if any(isinstance(frame.f_locals.get(name), Annotations) for name in given):
                entered.add(path)

    sys.setprofile(watch)
    try:
        quiet_fit(data)
    finally:
        sys.setprofile(None)
    modules = {str(Path(path).relative_to(PACKAGE).with_suffix("")) for path in entered}
    idle = {
        "data/sets",
        "data/layouts",
        "inference/spans",
        "inference/sets",
        "model/features_read",
        "model/class_scores",
    }
    assert not modules & idle
    assert len(modules) <= 27, sorted(modules)
