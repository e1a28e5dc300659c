"""Labels by which labelling functions abstain, units of durations, and identifiers that were rounded."""

import json

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import silent


def functions(nothing, classes=(0, 1), items=40):
    rng = np.random.default_rng(0)
    rows = [
        (n, f"lf{j}", classes[j % len(classes)] if rng.random() < 0.4 else nothing)
        for n in range(items)
        for j in range(6)
    ]
    return pd.DataFrame(rows, columns=["task", "worker", "label"])


def notes(frame, **options):
    with silent("the frame"):
        return " ".join(Annotations.from_frame(frame, **options).notes)


@pytest.mark.parametrize("nothing", [-1, 2, 9])
def test_a_label_by_which_functions_abstain(nothing):
    said = notes(functions(nothing))
    assert f"every worker gives '{nothing}' and one other label" in said
    assert f"add missing='{nothing}'" in said
    assert "every worker gives" not in notes(functions(nothing), missing=[str(nothing)])


def test_people_are_no_such_functions():
    rng = np.random.default_rng(0)
    frame = functions(-1).assign(label=rng.integers(-1, 2, size=240))
    assert "every worker gives" not in notes(frame)
    assert "every worker gives" not in notes(functions(2, items=5))
    assert "every worker gives" not in notes(functions(1, classes=(0, 0)))  # two classes


@pytest.mark.parametrize(("name", "part"), [("duration_ms", "milliseconds"), ("time (min)", "minutes")])
def test_units_in_names_of_durations(name, part):
    frame = functions(0, classes=(0, 1)).assign(**{name: 5.0})
    assert f"though the name of the column says {part}" in notes(frame, seconds=name)


@pytest.mark.parametrize("name", ["seconds", "items", "forms", "admin", "time_s"])
def test_other_names_of_durations(name):
    assert "though the name" not in notes(functions(0).assign(**{name: 5.0}), seconds=name)


def test_identifiers_that_were_rounded_stay_as_they_are_written(tmp_path):
    tasks = [1.3e18, 1.3e18 + 256, 1.0]
    path = tmp_path / "x.json"
    path.write_text(json.dumps([{"task": t, "worker": w, "label": w} for t in tasks for w in "uv"]))
    with silent("x.json"):
        data = crowdppl.read(path)
    assert data.items.tolist() == ["1.3e+18", "1.3000000000000003e+18", "1"]
    assert any("were probably shortened" in note for note in data.notes)
