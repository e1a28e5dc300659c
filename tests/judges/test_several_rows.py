"""Several verdicts of a judge on an item, times by a convention, and replies without a verdict: nothing is read in silence."""

import json

import numpy as np
import pandas as pd
import pytest

from crowdppl.errors import DataError
from crowdppl.judges import State, Verdicts, read


def repeated(**columns):
    frame = pd.DataFrame({"item": np.repeat(range(4), 2), "judge": "j", "verdict": ["pass", "fail"] * 4})
    return frame.assign(**columns)


@pytest.mark.parametrize("name", ["turn", "sample_idx", "n", "gen_no", "Answer Index"])
def test_numbers_of_answers_have_a_note(name):
    (note,) = (note for note in Verdicts.from_frame(repeated(**{name: [1, 2] * 4})).notes if "tells apart" in note)
    assert note.endswith(f"name it with answer={name!r}")


def test_verdicts_that_no_column_tells_apart_have_a_note():
    notes = Verdicts.from_frame(repeated()).notes
    assert any(
        "4 pairs of judge and item have several verdicts, which no column that is read tells apart" in note
        for note in notes
    )


@pytest.mark.parametrize(
    "frame",
    [
        repeated(run=[1, 2] * 4),
        repeated(swapped=[0, 1] * 4, system="s", opponent="t"),
        repeated(version=[1, 2] * 4),
        repeated().iloc[[0, 3, 4]],
        pd.concat([repeated().iloc[[0, 3, 4]]] * 2),
        repeated(epoch=[1, 2] * 4),
    ],
)
def test_numbered_calls_single_verdicts_and_copies_have_none(frame):
    assert not any("no column that is read" in note for note in Verdicts.from_frame(frame).notes)


def verdicts_of(*texts):
    rows = [(n, judge, text) for judge in ("a-1", "b-1") for n, text in enumerate(texts)]
    return Verdicts.from_frame(pd.DataFrame(rows, columns=["item", "judge", "verdict"]))


@pytest.mark.parametrize(
    "reply",
    [
        "429 Too Many Requests",
        "HTTP 503: Service Unavailable",
        "Inconclusive",
        "The first of the two",
        "The answer is PASS",
        "I would say fail",
    ],
)
def test_replies_that_are_no_classes_have_a_note(reply):
    assert any(reply in note for note in verdicts_of("pass", "fail", "pass", "fail", reply).notes)


@pytest.mark.parametrize(
    "classes", [("both are good", "A", "B"), ("partly right", "right", "wrong"), ("does not pass", "passes")]
)
def test_classes_of_several_words_have_none(classes):
    assert not any("class" in note for note in verdicts_of(*classes * 3).notes)


def test_times_that_a_convention_reads_have_a_note():
    when = ["03.04.2024", "05.06.2024", "02.05.2024", "01.02.2024"]
    frame = pd.DataFrame({"item": range(4), "judge": "j", "verdict": ["a", "b"] * 2, "when": when})
    verdicts = Verdicts.from_frame(frame)
    assert verdicts.when.astype("datetime64[D]").astype(str).tolist() == [
        "2024-04-03",
        "2024-06-05",
        "2024-05-02",
        "2024-02-01",
    ]
    assert any("'03.04.2024' are read with the day first" in note for note in verdicts.notes)
    sheet = Verdicts.from_frame(frame.assign(when=[45385 + 3661 * n / 86_400 for n in (1, 2, 3, 4)]))
    assert str(sheet.when[0].astype("datetime64[D]")) == "2024-04-03"
    assert any("dates of a spreadsheet" in note for note in sheet.notes)


def test_a_metric_that_deepeval_skipped_is_missing(tmp_path):
    entries = [
        {"name": "A", "success": n > 0, "score": 1.0, "skipped": n == 0, "evaluationModel": "m"} for n in range(3)
    ]
    cases = [{"name": f"t{n}", "input": "?", "metricsData": [entry]} for n, entry in enumerate(entries)]
    path = tmp_path / "run.json"
    path.write_text(
        json.dumps(
            {"testCases": [*cases, {"name": "x", "input": "?", "metricsData": [entries[1] | {"success": False}]}]}
        )
    )
    assert read(path).state.tolist() == [State.MISSING, *[State.GIVEN] * 3]


def test_samples_of_a_log_that_was_continued_have_a_note(tmp_path):
    def log(count, said):
        scores = {"s": {"value": said, "metadata": {"grading": [{"model": "j"}]}}}
        samples = [{"id": n, "epoch": 1, "uuid": f"u{n}", "scores": scores} for n in range(count)]
        samples.append({"id": 9, "epoch": 1, "uuid": "u9", "scores": {"s": {"value": "I"}}})
        return json.dumps({"eval": {"task": "t", "model": "m"}, "samples": samples})

    for name, first, noted in (("continued", "C", True), ("scored again", "P", False)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.json").write_text(log(2, first))
        (tmp_path / name / "b.json").write_text(log(3, "C").replace('"u9"', '"u10"'))
        assert any("2 verdicts equal another one" in note for note in read(tmp_path / name).notes) == noted


@pytest.mark.parametrize(
    ("when", "why"),
    [
        (
            ["03/04/2024", "05/06/2024", "02/05/2024", "01/02/2024"],
            "the day or the month first; write them as 2024-04-03",
        ),
        ([3042024, 13042024, 4042024, 14052024], "03042024 may be a date with the day or the month first"),
    ],
)
def test_times_of_either_order_are_refused_with_the_reason(when, why):
    frame = pd.DataFrame({"item": range(4), "judge": "j", "verdict": ["a", "b"] * 2, "when": when})
    with pytest.raises(DataError, match=why):
        Verdicts.from_frame(frame)


@pytest.mark.parametrize(("odd", "noted"), [("m3", True), ("tie", False), ("m2", False)])
def test_a_winner_that_is_no_system_of_its_pair_has_a_note(odd, noted):
    frame = pd.DataFrame(
        {"item": range(4), "judge": "j", "system": "m1", "opponent": "m2", "verdict": ["m1", "m2", odd, "m1"]}
    )
    assert any("'m3' in row 3 is neither a system" in note for note in Verdicts.from_frame(frame).notes) == noted
