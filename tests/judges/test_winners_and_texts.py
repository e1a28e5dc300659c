"""Verdicts that name the better system, replies with reasons, shares as text, and answers known by their text."""

import json

import numpy as np
import pandas as pd
import pytest
from judge_files import RUBRIC, component, result

from crowdppl import judges
from crowdppl.errors import DataError
from crowdppl.judges.human import HumanLabels
from crowdppl.judges.people.human_columns import labelled
from crowdppl.judges.people.matching import require_common
from crowdppl.judges.people.outputs import numbered

PAIRS = [("one", "two"), ("two", "six"), ("six", "one"), ("one", "six")]
WINS = [0, 1, 1, 0, 0, 1, 0, 1]


def battles(**columns):
    rows = [
        {
            "item": n,
            "judge": judge,
            "system": PAIRS[n % 4][0],
            "opponent": PAIRS[n % 4][1],
            "verdict": PAIRS[n % 4][win],
        }
        for n, win in enumerate(WINS)
        for judge in ("x-1", "y-1")
    ]
    return pd.DataFrame(rows).assign(**columns)


def test_winners_are_read_by_their_side():
    verdicts = judges.Verdicts.from_frame(battles())
    assert verdicts.labels.tolist() == ["first", "second"]
    assert verdicts.label.tolist() == np.repeat(WINS, 2).tolist()
    assert any("name the system that is better" in note for note in verdicts.notes)


def test_names_of_sides_and_of_two_systems_in_one_order_stay_as_they_are():
    two = battles(system="one", opponent="two", verdict=["one", "two"] * 8)
    assert judges.Verdicts.from_frame(two).labels.tolist() == ["one", "two"]
    sides = battles(verdict=["a", "b"] * 8)
    assert judges.Verdicts.from_frame(sides).labels.tolist() == ["a", "b"]
    declared = judges.Verdicts.from_frame(battles(), labels=["one", "six", "two"])
    assert declared.labels.tolist() == ["one", "six", "two"]


@pytest.mark.parametrize("columns", [["item", "verdict"], ["item", "system", "opponent", "verdict"], "turned"])
def test_people_name_the_winner_too(columns):
    verdicts, frame = judges.Verdicts.from_frame(battles()), battles().iloc[::2].drop(columns="judge")
    if columns == "turned":
        frame, columns = frame.assign(system=frame["opponent"], opponent=frame["system"]), list(frame)
    _, people = HumanLabels.from_frame(frame[columns]).align(verdicts)
    assert people.labels[people.label].tolist() == [("first", "second")[win] for win in WINS]
    assert any("name the better system" in note for note in people.notes)


def test_a_winner_of_another_pair_is_refused():
    frame = pd.DataFrame({"item": [0, 1], "verdict": ["one", "one"]})
    with pytest.raises(DataError, match="says that 'one' is better, of the pair 'two', 'six'"):
        HumanLabels.from_frame(frame).align(judges.Verdicts.from_frame(battles()))


@pytest.mark.parametrize(
    ("names", "proposed"),
    [
        ([2, 1], "map={1: 'first', 2: 'second'}"),
        (["output_1", "output_2", "tie"], "map={'output_1': 'first', 'output_2': 'second', 'tie': 'draw'}"),
        (["A", "B"], "map={'A': 'first', 'B': 'second'}"),
        (["in1", "out2"], "map={...}"),
        ([0, 1], "map={...}"),
    ],
)
def test_the_refusal_proposes_which_side_is_meant(names, proposed):
    with pytest.raises(DataError) as error:
        require_common(np.array(names, dtype=object), np.array(["draw", "first", "second"], dtype=object))
    assert proposed in str(error.value)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (lambda n: f"Yes, because of {n}", "40 different verdicts in 40 rows, such as"),
        (lambda n: str(n / 20), "verdict 0.05 is not a whole number; pass a judge's numbers as score="),
        (lambda n: f"{n} %".replace(" ", ""), "verdict 0% is not a whole number"),
    ],
)
def test_reasons_and_shares_are_no_classes(said, message):
    frame = pd.DataFrame(
        {"item": np.arange(40) // 2, "judge": ["x", "y"] * 20, "verdict": [said(n) for n in range(40)]}
    )
    with pytest.raises(DataError, match=message):
        judges.Verdicts.from_frame(frame)
    assert len(judges.Verdicts.from_frame(frame, labels=frame["verdict"].tolist()).labels) == 40


def test_a_few_grades_with_decimals_are_classes_with_a_note():
    frame = pd.DataFrame(
        {"item": np.arange(40) // 2, "judge": ["x", "y"] * 20, "verdict": [str(n % 5 / 2) for n in range(40)]}
    )
    verdicts = judges.Verdicts.from_frame(frame)
    assert verdicts.labels.tolist() == ["0.0", "0.5", "1.0", "1.5", "2.0"]
    assert any("numbers with decimals or shares and read as classes" in note for note in verdicts.notes)


def repeats(tmp_path):
    results = [
        result({"question": f"q{n}"}, component(n % 2 == 0, **RUBRIC), response={"output": f"text {n} {r}"}, testIdx=n)
        for n in range(4)
        for r in range(3)
    ]
    (tmp_path / "x.json").write_text(json.dumps({"results": {"results": results}}))
    return judges.read(tmp_path / "x.json")


@pytest.mark.parametrize("column", ["output", "answer", "what was said"])
def test_an_answer_is_known_by_its_text(column, tmp_path):
    frame = pd.DataFrame({"question": ["q0", "q1"], column: ["text 0 2 ", "text 1 0"], "label": [True, False]})
    verdicts = repeats(tmp_path)
    _, people = labelled(frame, verdicts).align(verdicts)
    assert people.items[people.item].tolist() == ["q0 / answer 3", "q1 / answer 1"]
    assert any("tells by its text which answer" in note for note in people.notes)


def test_numbers_of_answers_and_other_columns_stay(tmp_path):
    verdicts = repeats(tmp_path)
    stated = pd.DataFrame({"item": ["q0"], "answer": [2], "output": ["text 0 0"], "label": [True]})
    assert numbered(stated, "item", [verdicts], "x")[0] is stated
    other = pd.DataFrame({"item": ["q0"], "comment": ["text 1 0"], "label": [True]})
    assert numbered(other, "item", [verdicts], "x")[0] is other
    with pytest.raises(DataError, match="or give the text of the answer in another column"):
        labelled(other, verdicts).align(verdicts)
