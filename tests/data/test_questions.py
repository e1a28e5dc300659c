"""Annotations of several questions, or of the answers of several systems, are not repeated annotations of one item."""

from contextlib import nullcontext

import pandas as pd
import pytest
from commands import run

import crowdppl
from crowdppl import CrowdpplWarning, DataError, OptionError
from crowdppl.data.table.questions import USUAL

ROWS = [
    (item, worker, asked, label)
    for item in range(6)
    for worker in ("u", "v", "w")
    for asked, label in (("polite", "yes" if item % 2 else "no"), ("true", "no" if item < 3 else "yes"))
]


def frame(column="question"):
    return pd.DataFrame(ROWS, columns=["task", "worker", column, "label"])


@pytest.mark.parametrize("column", [*USUAL, "Question", " aspect "])
def test_annotations_of_several_questions_are_refused_in_one_line(column):
    with pytest.raises(DataError) as refused:
        crowdppl.Annotations.from_frame(frame(column))
    assert str(refused.value) == (
        f"the frame: workers have several annotations of an item, which column {column!r} tells apart ('polite', 'true'); they "
        f"are not of one true label: keep the rows of one, as question='polite' does where a file is read; or write item and "
        f"{column} into one column and name it with task=...; or drop the column if the annotations are repeated ones"
    )


@pytest.mark.parametrize("kind", ["numeric", "ordinal", None])
def test_numbers_and_grades_of_several_questions_have_a_warning(kind):
    """Several criteria may be of one quality, as in many-facet Rasch models."""
    table = frame().assign(label=[1, 3, 2, 2] * 9)
    with pytest.warns(CrowdpplWarning, match="which column 'question' tells apart"):
        data = crowdppl.Annotations.from_frame(table, kind=kind)
    assert data.A == 36


@pytest.mark.parametrize("column", USUAL)
def test_a_column_that_names_the_label_tells_no_questions_apart(column):
    """Workers who change their minds have several labels of an item, and several names of labels."""
    table = pd.DataFrame(
        {"task": [1, 1, 1, 2, 2, 2], "worker": list("abaabb"), "label": list("AABBBA"), column: list("aabbba")}
    )
    assert crowdppl.Annotations.from_frame(table).A == 6
    coarse = table.assign(label=list("ACBBBA"), **{column: list("aabbba")})
    own = coarse.assign(worker=list("aaabbb"))
    # Labels of one question each, several for one of them.
    with nullcontext() if column == "label_name" else pytest.raises(DataError, match="tells apart"):
        crowdppl.Annotations.from_frame(own)


def test_what_is_not_of_several_questions_is_read_as_before():
    one = frame()[frame()["question"] == "true"].reset_index(drop=True)
    plain = crowdppl.Annotations.from_frame(one.drop(columns="question"))
    for value in (one["question"], one["task"].astype(str), one["worker"], None):
        data = crowdppl.Annotations.from_frame(one.assign(question=value))
        assert data.label.tolist() == plain.label.tolist()
    # Repeated annotations, and a rare slip in the column.
    again = pd.concat([one, one.head(2)], ignore_index=True)
    assert len(one) + 2 == crowdppl.Annotations.from_frame(again).A
    many = pd.concat([one.assign(task=one["task"] + 10 * n) for n in range(30)], ignore_index=True)
    slip = pd.concat([many, many.head(1).assign(question="truth")], ignore_index=True)
    assert len(many) + 1 == crowdppl.Annotations.from_frame(slip).A


def test_a_column_with_a_role_is_none_of_questions():
    table = frame().rename(columns={"task": "text", "question": "system"})
    data = crowdppl.Annotations.from_frame(table.assign(text=table["text"].astype(str) + table["system"]), task="text")
    assert data.N == 12
    assert crowdppl.Annotations.from_frame(table, task="system", worker="worker", label="label").N == 2


def test_one_question_of_a_file(tmp_path):
    frame().to_csv(tmp_path / "x.csv", index=False)
    with pytest.raises(DataError, match="as question='polite' does where a file is read"):
        crowdppl.read(tmp_path / "x.csv")
    one = crowdppl.read(tmp_path / "x.csv", question="true")
    assert (one.A, one.N) == (18, 6)
    assert "x.csv: 18 of 36 rows are of 'true'" in one.notes
    with pytest.raises(
        DataError, match=r"x.csv, column 'question': no 'tru' \(did you mean 'true'\?\); it has 'polite', 'true'"
    ):
        crowdppl.read(tmp_path / "x.csv", question="tru")
    frame().drop(columns="question").to_csv(tmp_path / "y.csv", index=False)
    with pytest.raises(OptionError, match="without questions"):
        crowdppl.read(tmp_path / "y.csv", question="true")


def test_a_column_of_criteria_of_grades_is_read_by_itself():
    table = frame("criterion").assign(label=[1, 3, 2, 2] * 9)
    data = crowdppl.Annotations.from_frame(table, kind="ordinal")
    declared = crowdppl.Annotations.from_frame(table, kind="ordinal", criterion="criterion")
    assert data.criteria.tolist() == declared.criteria.tolist()
    assert data.criterion.equal(declared.criterion)
    assert data.notes == (
        "the frame: column 'criterion' tells grades of an item by one rater apart and is read as criteria",
    )
    # One criterion for each item tells nothing apart.
    assert crowdppl.Annotations.from_frame(table[table["criterion"] == "true"], kind="ordinal").criteria is None


def test_two_numbers_are_classes_of_several_questions():
    with pytest.raises(DataError, match="not of one true label"):
        crowdppl.Annotations.from_frame(frame().assign(label=[0, 1, 1, 1] * 9))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_naming_all_columns_hides_no_questions(ending, tmp_path, monkeypatch):
    """Columns that are not named are looked at, too: all those of a small file, those of telling names of a large one."""
    path = tmp_path / f"x.{ending}"
    table = frame().assign(note="n")
    table.to_csv(path, index=False) if ending == "csv" else table.to_parquet(path)
    read = getattr(crowdppl.Annotations, f"from_{ending}")
    names = {"task": "task", "worker": "worker", "label": "label"}
    for small in (2**26, 0):
        monkeypatch.setattr("crowdppl.data.readers.arrow._SMALL", small)
        with pytest.raises(DataError, match="which column 'question' tells apart"):
            read(path, **names)


def test_the_command_says_that_grades_of_several_questions_are_taken_for_repeats(tmp_path):
    frame().assign(label=[1, 3, 2, 2] * 9).to_csv(tmp_path / "x.csv", index=False)
    said = run("fit", tmp_path / "x.csv", "--kind", "ordinal", "--out", tmp_path / "out")
    assert "which column 'question' tells apart" in " ".join(said.output.split())


@pytest.mark.parametrize("labels", [[4, 5, 4, 4], ["4.5", "5.5", "4.5", "4.5"]])
@pytest.mark.parametrize("kind", ["numeric", "ordinal"])
def test_declared_numbers_of_two_values_have_a_warning(kind, labels):
    with pytest.warns(CrowdpplWarning, match="tells apart"):
        data = crowdppl.Annotations.from_frame(frame().assign(label=labels * 9), kind=kind)
    assert data.A == 36


@pytest.mark.parametrize("blank", [None, " "])
def test_a_column_with_blanks_is_read_as_criteria_only_by_name(blank):
    table = frame("aspect").assign(label=[1, 3, 2, 2] * 9)
    table.loc[3, "aspect"] = blank
    with pytest.warns(CrowdpplWarning, match="tells apart"):
        assert crowdppl.Annotations.from_frame(table, kind="ordinal").criteria is None


def test_labels_that_are_lists_beside_a_criterion_do_not_crash():
    table = frame("aspect").assign(label=[[1], [3], [2], [2]] * 9)
    with pytest.raises(DataError):
        crowdppl.Annotations.from_frame(table)
