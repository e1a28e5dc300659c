"""Labels by which labelling functions abstain, units of durations, and large whole numbers."""

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


@pytest.mark.parametrize("nothing", [-1, "ABSTAIN", "abstained"])
def test_a_label_by_which_functions_abstain(nothing):
    rows = functions(nothing, classes=(0, 1) if nothing == -1 else ("x", "y"))
    said = notes(rows)
    assert f"every worker gives '{nothing}' and one other label" in said
    assert f"add missing='{nothing}'" in said
    assert "every worker gives" not in notes(rows, missing=[str(nothing)])


def test_specialists_who_give_one_disease_and_healthy_do_not_abstain():
    assert "every worker gives" not in notes(functions("healthy", classes=("flu", "cold", "measles")))
    assert "every worker gives" not in notes(functions(2))


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


def test_whole_numbers_of_json_are_integers_however_they_are_written(tmp_path):
    path = tmp_path / "x.jsonl"
    rows = [("9007199254740992.0", "u", "1e20"), ("9007199254740992", "v", "100000000000000000000"), ("1.0", "u", "1")]
    path.write_text("".join(f'{{"task": {t}, "worker": "{w}", "label": {label}}}\n' for t, w, label in rows))
    with silent("x.jsonl"):
        data = crowdppl.read(path)
    assert list(map(str, data.items.tolist())) == ["9007199254740992", "1"]
    assert list(map(str, data.labels.tolist())) == ["1", "100000000000000000000"]
