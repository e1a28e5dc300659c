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


def test_notes_have_the_spelling_of_the_file_and_marks_are_no_part_of_a_name():
    marked = battles(verdict=[f"Winner: **{name.upper()}**." for name in battles()["verdict"]])
    verdicts = judges.Verdicts.from_frame(marked)
    assert verdicts.label.tolist() == np.repeat(WINS, 2).tolist()
    assert any("'Winner: **ONE**.'" in note for note in verdicts.notes)


def renamed(names, as_type=str):
    """Battles with other names of the three systems."""
    to = dict(zip(("one", "two", "six"), names, strict=True))
    return battles(**{role: [as_type(to[x]) for x in battles()[role]] for role in ("system", "opponent", "verdict")})


@pytest.mark.parametrize("as_type", [str, int])
def test_systems_that_are_numbers_are_read_by_name_as_text_and_as_integers(as_type):
    verdicts = judges.Verdicts.from_frame(renamed((1, 2, 3), as_type))
    assert verdicts.labels.tolist() == ["first", "second"]
    assert verdicts.label.tolist() == np.repeat(WINS, 2).tolist()


@pytest.mark.parametrize("as_type", [str, int])
def test_one_and_two_are_sides_as_text_and_as_integers(as_type):
    frame = renamed((1, 2, 3), as_type).assign(verdict=[as_type(n) for n in (1, 2, 2, 1) * 4])
    frame = frame.assign(system=[as_type(n) for n in (1, 2) * 8], opponent=[as_type(n) for n in (2, 1) * 8])
    verdicts = judges.Verdicts.from_frame(frame)
    assert verdicts.labels.astype(str).tolist() == ["1", "2"]


def test_a_baseline_that_is_always_second_is_read_by_its_side():
    base = battles(system=["gpt", "claude"] * 8, opponent="base", verdict=["gpt", "base", "base", "claude"] * 4)
    verdicts = judges.Verdicts.from_frame(base)
    assert verdicts.labels.tolist() == ["first", "second"]
    assert verdicts.label.tolist() == [0, 1, 1, 0] * 4


def test_one_system_that_wins_on_either_side_is_read_by_its_side():
    sides = {"item": range(16), "system": ["gpt", "base"] * 8, "opponent": ["base", "gpt"] * 8}
    frame = battles(**sides, verdict=["gpt"] * 14 + ["no preference"] * 2)
    verdicts = judges.Verdicts.from_frame(frame)
    assert verdicts.labels[verdicts.label].tolist() == ["first", "second"] * 7 + ["no preference"] * 2


def test_a_verdict_that_is_no_system_of_its_row_is_named():
    frame = battles()
    frame.loc[5, "verdict"] = "unsure"
    verdicts = judges.Verdicts.from_frame(frame)
    assert "unsure" in verdicts.labels.tolist()
    assert any("15 of 16 verdicts name the system" in note and "'unsure' in row 6" in note for note in verdicts.notes)


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


def people_of(**columns):
    return battles().iloc[::2].drop(columns="judge").assign(**columns)


def test_a_winner_of_an_item_that_nobody_judged_is_left_out():
    frame = pd.concat([people_of()[["item", "verdict"]], pd.DataFrame({"item": [999], "verdict": ["six"]})])
    _, people = HumanLabels.from_frame(frame).align(judges.Verdicts.from_frame(battles()))
    assert people.labels[people.label].tolist() == [("first", "second")[win] for win in WINS]
    assert any("1 of 9 human labels are of items that nobody judged (999)" in note for note in people.notes)


def test_winners_are_the_integers_of_the_judges():
    given = battles(verdict=[1 + win for win in WINS for _ in range(2)])
    verdicts, people = HumanLabels.from_frame(people_of()).align(judges.Verdicts.from_frame(given))
    assert verdicts.labels.dtype == people.labels.dtype == np.int64
    assert people.labels[people.label].tolist() == [1 + win for win in WINS]
    for odd in ("tie", "n/a"):
        names = [odd, *people_of()["verdict"][1:]]
        with pytest.raises(DataError, match="labels are integers in the verdicts"):
            HumanLabels.from_frame(people_of(verdict=names)).align(judges.Verdicts.from_frame(given))


def test_states_beside_winners_are_left_out_and_the_note_names_what_was_changed():
    names = ["N/A", "tie", *people_of()["verdict"][2:]]
    given = battles(verdict=["tie", *battles()["verdict"][1:]])
    _, people = HumanLabels.from_frame(people_of(verdict=names)).align(judges.Verdicts.from_frame(given))
    assert people.labels[people.label].tolist() == ["tie", *(("first", "second")[win] for win in WINS[2:])]
    assert any("1 human labels are no labels but 'N/A'" in note for note in people.notes)
    assert any("labels such as 'one' name the better system, and are read as 'second'" in note for note in people.notes)


def test_a_label_beside_winners_that_is_neither_system_nor_tie_is_named():
    frame = people_of(verdict=["unsure", *people_of()["verdict"][1:]])
    with pytest.raises(DataError, match="such as 'six' name the better system, but 'unsure' is neither"):
        HumanLabels.from_frame(frame).align(judges.Verdicts.from_frame(battles()))


def test_a_long_label_takes_no_time():
    names = np.array(["_" * 20_000, "[" * 20_000 + "1", "2" * 20_000 + "x"], dtype=object)
    with pytest.raises(DataError, match="no human label is among"):
        require_common(names, np.array(["first", "second"], dtype=object))


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
        (["the - 1", "the_2"], "map={'the - 1': 'first', 'the_2': 'second'}"),
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
        (lambda n: f"{n} %".replace(" ", ""), "verdict 0% is a share; pass"),
    ],
)
def test_reasons_and_shares_are_no_classes(said, message):
    frame = pd.DataFrame(
        {"item": np.arange(40) // 2, "judge": ["x", "y"] * 20, "verdict": [said(n) for n in range(40)]}
    )
    with pytest.raises(DataError, match=message):
        judges.Verdicts.from_frame(frame)
    assert len(judges.Verdicts.from_frame(frame, labels=frame["verdict"].tolist()).labels) == 40


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (lambda n: f"{n} %", "verdict 0 % is a share"),
        (lambda n: f"0,{n % 25:02}", "verdict 0,01 is not a whole number"),
        (lambda n: f"{n}.0e-03", "verdict 1.0e-03 is not a whole number"),
        (lambda n: f"Score: 0.{n:02}", "verdict Score: 0.01 is not a whole number"),
        (lambda n: str(n / 20) if n else "good", "verdict 0.05 is not a whole number"),
        (lambda n: str(n / 20) if n else "Infinity", "verdict 0.05 is not a whole number"),
    ],
)
def test_other_ways_to_write_numbers_and_one_word_among_them(said, message):
    frame = pd.DataFrame({"item": np.arange(40) // 2, "judge": ["x", "y"] * 20, "verdict": list(map(said, range(40)))})
    with pytest.raises(DataError, match=message):
        judges.Verdicts.from_frame(frame)


@pytest.mark.parametrize("said", [lambda n: str(n % 21 / 2), lambda n: f"{n % 11}/10"])
def test_half_grades_and_points_are_classes_with_a_note(said):
    frame = pd.DataFrame({"item": np.arange(42) // 2, "judge": ["x", "y"] * 21, "verdict": list(map(said, range(42)))})
    verdicts = judges.Verdicts.from_frame(frame)
    assert len(verdicts.labels) == len(set(map(said, range(42))))
    assert any("numbers with decimals or shares and read as classes" in note for note in verdicts.notes)


def test_many_short_names_are_classes():
    topics = [f"topic {'abcdefghijklmnopqrst'[n % 17]}" for n in range(20)]
    frame = pd.DataFrame({"item": np.arange(20) // 2, "judge": ["x", "y"] * 10, "verdict": topics})
    assert len(judges.Verdicts.from_frame(frame).labels) == 17


def test_a_few_grades_with_decimals_are_classes_with_a_note():
    frame = pd.DataFrame(
        {"item": np.arange(40) // 2, "judge": ["x", "y"] * 20, "verdict": [str(n % 5 / 2) for n in range(40)]}
    )
    verdicts = judges.Verdicts.from_frame(frame)
    assert verdicts.labels.tolist() == ["0.0", "0.5", "1.0", "1.5", "2.0"]
    assert any("numbers with decimals or shares and read as classes" in note for note in verdicts.notes)


def repeats(tmp_path, outputs=None):
    results = [
        result({"question": f"q{n}"}, component(n % 2 == 0, **RUBRIC), response={"output": output}, testIdx=n)
        for n in range(4)
        for output in outputs or [f"text {n} {r}" for r in range(3)]
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
    short = repeats(tmp_path, ["3", "2", "1"])
    assert numbered(stated[["item", "answer", "label"]], "item", [short], "x")[1] == ()
    verdicts = repeats(tmp_path)
    other = pd.DataFrame({"item": ["q0"], "comment": ["text 1 0"], "label": [True]})
    assert numbered(other, "item", [verdicts], "x")[0] is other
    with pytest.raises(DataError, match="or give the text of the answer in another column"):
        labelled(other, verdicts).align(verdicts)


@pytest.mark.parametrize(
    ("outputs", "columns"),
    [
        (["True", "False", "?"], {}),
        (["1", "2", "3"], {"annotator": [1, 2]}),
        (["1", "2", "3"], {"shown": [1, 2]}),
        (["yes", "no", "?"], {"checked": ["yes", "no"]}),
        (["", "some text", "more text"], {"comment": ["", None]}),
        (None, {"reference": ["text 0 1", "text 1 2"]}),
        (None, {"expected_output": ["text 0 1", "text 1 2"]}),
        (None, {"comment": ["text 0 1", "text 1 2 is better"]}),
    ],
)
def test_columns_of_something_else_tell_no_answer(outputs, columns, tmp_path):
    frame = pd.DataFrame({"item": ["q0", "q1"], "label": [True, False], **columns})
    verdicts = repeats(tmp_path, outputs)
    assert numbered(frame, "item", [verdicts], "x")[0] is frame
    with pytest.raises(DataError, match="and not which answer they are of"):
        labelled(frame, verdicts).align(verdicts)


@pytest.mark.parametrize(
    ("outputs", "columns", "answers"),
    [
        (["True", "False", "?"], {"output": ["?", "True"]}, [3, 1]),
        (["1", "2", "3"], {"response": [3, 1], "annotator": [1, 2]}, [3, 1]),
        (None, {"output": ["text 0 2", "text 1 0"], "copied": ["text 0 1", "text 1 1"]}, [3, 1]),
        (["", "some text", "more text"], {"output": ["some text", "more text"], "comment": ["", ""]}, [2, 3]),
    ],
)
def test_the_column_of_answers_is_preferred(outputs, columns, answers, tmp_path):
    frame = pd.DataFrame({"item": ["q0", "q1"], "label": [True, False], **columns})
    read, notes = numbered(frame, "item", [repeats(tmp_path, outputs)], "x")
    assert read["answer"].tolist() == answers
    assert len(notes) == 1


@pytest.mark.parametrize(
    "values",
    [
        pd.array(["good", pd.NA], dtype="string"),
        pd.array([3, pd.NA], dtype="Int64"),
        pd.array([True, pd.NA], dtype="boolean"),
        pd.Series(["good", None], dtype="string[pyarrow]"),
        [np.arange(3), np.array(["a", "b"])],
        [pd.NaT, np.nan],
    ],
)
def test_missing_values_and_arrays_beside_the_column_of_answers(values, tmp_path):
    frame = pd.DataFrame(
        {"item": ["q0", "q1"], "label": [True, False], "note": values, "output": ["text 0 2", "text 1 0"]}
    )
    read, notes = numbered(frame, "item", [repeats(tmp_path)], "x")
    assert read["answer"].tolist() == [3, 1]
    assert len(notes) == 1
    missing = frame.assign(output=pd.array(["text 0 2", pd.NA], dtype="string"))
    assert numbered(missing, "item", [repeats(tmp_path)], "x")[0]["answer"].tolist() == [3, None]


def test_columns_of_one_name_beside_the_column_of_answers(tmp_path):
    rows = [["q0", True, "one", "two", "text 0 2"], ["q1", False, "one", "two", "text 1 0"]]
    frame = pd.DataFrame(rows, columns=["item", "label", "epoch", "epoch", "output"])
    read, _ = numbered(frame, "item", [repeats(tmp_path)], "x")
    assert list(read.columns) == ["item", "label", "output", "answer"]
    assert read["answer"].tolist() == [3, 1]
    counted = frame.set_axis(["item", "label", "epoch", "epoch", "output"], axis=1)
    counted.isetitem(3, [1, 2])
    assert numbered(counted, "item", [repeats(tmp_path)], "x")[0] is counted
