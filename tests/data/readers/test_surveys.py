"""Zooniverse's classifications, and forms with a question for each item."""

import json

import pandas as pd
import pytest

import crowdppl
from crowdppl import DataError
from crowdppl.data.readers import formats


def triples(data):
    rows = zip(data.items[data.item], data.workers[data.worker], data.labels[data.label], strict=True)
    return sorted((str(i), str(w), str(k)) for i, w, k in rows)


def classifications(folder, *rows, name="x.csv"):
    """A row is (user, subject, annotations by task) with further columns."""
    table = []
    for n, (user, subject, answers, *more) in enumerate(rows):
        entries = answers if isinstance(answers, list) else [{"task": k, "value": v} for k, v in answers.items()]
        table.append(
            {
                "classification_id": n,
                "user_name": user,
                "workflow_id": 7,
                "created_at": f"2024-01-01 10:00:0{n} UTC",
                "gold_standard": "",
                "metadata": json.dumps(
                    {"started_at": "2024-01-01T10:00:00Z", "finished_at": f"2024-01-01T10:00:1{n}Z"}
                ),
                "annotations": json.dumps(entries),
                "subject_data": json.dumps({str(subject): {"retired": None, "filename": f"{subject}.jpg"}}),
                "subject_ids": subject,
            }
            | (more[0] if more else {})
        )
    pd.DataFrame(table).to_csv(folder / name, index=False)
    return folder / name


def test_zooniverse(tmp_path):
    path = classifications(
        tmp_path,
        ("ann", 10, {"T0": "cat", "T1": "good"}),
        ("not-logged-in-1", 10, {"T0": "dog"}),
        ("ann", 11, {"T0": "dog"}, {"gold_standard": "true"}),
        ("bob", 11, {"T0": None}),
        ("bob", 11, {"T0": "dog"}),
    )
    assert formats.sniff(path) == "zooniverse"
    with pytest.raises(DataError, match="answers to 2 questions, 'T0', 'T1'"):
        crowdppl.read(path)
    data = crowdppl.read(path, question="T0")
    assert triples(data) == [("10", "ann", "cat"), ("10", "not-logged-in-1", "dog"), ("11", "bob", "dog")]
    assert data.seconds.tolist() == [10, 11, 14]
    assert data.labels[data.truth[1]] == "dog"
    notes = " ".join(data.notes)
    assert "1 classifications are marked as gold standard" in notes
    assert "1 annotations without a label left out" in notes
    assert crowdppl.read(path, question="T0", task="subject.filename").items.tolist() == ["10.jpg", "11.jpg"]


ANSWERS = {
    "several choices": ({"T0": ["dog", "cat"]}, {"T0": ["cat", "dog"]}, ["cat;dog"]),
    "surveys": ({"T0": [{"choice": "LION", "answers": {}}]}, {"T0": [{"choice": "ZEBRA"}]}, ["LION", "ZEBRA"]),
    "drop-down lists": (
        {"T0": [{"option": True, "value": "x1", "label": "Kenya"}]},
        {"T0": [{"option": True, "value": "x2", "label": "Mali"}]},
        ["Kenya", "Mali"],
    ),
    "sliders": ({"T0": 3}, {"T0": 4}, [3, 4]),
    "combined tasks": (
        [{"task": "T9", "value": [{"task": "T0", "value": "a"}]}],
        [{"task": "T9", "value": [{"task": "T0", "value": "b"}]}],
        ["a", "b"],
    ),
}


@pytest.mark.parametrize(("first", "second", "classes"), ANSWERS.values(), ids=ANSWERS)
@pytest.mark.filterwarnings("ignore::crowdppl.CrowdpplWarning")
def test_kinds_of_answers(tmp_path, first, second, classes):
    path = classifications(tmp_path, ("ann", 1, first), ("bob", 1, second))
    assert crowdppl.read(path, several="join").labels.tolist() == classes


def test_marks_are_no_labels(tmp_path):
    marks = [{"x": 1, "y": 2, "tool": 0, "frame": 0, "details": []}]
    with pytest.raises(DataError, match="its 1 answers are marks on subjects"):
        crowdppl.read(classifications(tmp_path, ("ann", 1, {"T0": marks})))
    data = crowdppl.read(classifications(tmp_path, ("ann", 1, {"T0": "a", "T1": marks}), ("bob", 1, {"T0": "b"})))
    assert data.labels.tolist() == ["a", "b"]


def test_workflows_number_their_tasks_alike(tmp_path):
    other = {"workflow_id": 8}
    path = classifications(
        tmp_path,
        ("ann", 1, {"T0": "a"}),
        ("bob", 1, {"T0": "b"}),
        ("ann", 1, {"T0": "yes"}, other),
        ("bob", 1, {"T0": "no"}, other),
    )
    with pytest.raises(DataError, match="'7 T0', '8 T0'"):
        crowdppl.read(path)
    assert crowdppl.read(path, question="8 T0").labels.tolist() == ["no", "yes"]


def test_damaged_classifications(tmp_path):
    path = classifications(tmp_path, ("ann", 1, {"T0": "a"}))
    for cell in ("{oops", '"text"', "[1]"):
        pd.read_csv(path).assign(annotations=cell).to_csv(tmp_path / "y.csv", index=False)
        with pytest.raises(DataError, match="row 1: the annotations are not"):
            crowdppl.read(tmp_path / "y.csv")


FORM = {
    "Timestamp": ["2024/01/05 10:00:01", "2024/01/05 10:05:00", "2024/01/05 10:07:00"],
    "Email Address": ["a@x", "b@x", "c@x"],
    "How old are you?": ["31", "45", "28"],
    "Picture 1": ["cat", "dog", "cat"],
    "Picture 2": ["dog", "dog", None],
    "Comments": ["fine", None, "too long"],
}


def test_forms(tmp_path):
    path = tmp_path / "x.csv"
    pd.DataFrame(FORM).to_csv(path, index=False)
    assert formats.sniff(path) == "forms"
    data = crowdppl.read(path)
    assert triples(data) == [
        ("Picture 1", "a@x", "cat"), ("Picture 1", "b@x", "dog"), ("Picture 1", "c@x", "cat"),
        ("Picture 2", "a@x", "dog"), ("Picture 2", "b@x", "dog"),
    ]  # fmt: skip
    assert data.timestamp is not None
    notes = " ".join(data.notes)
    assert "columns that are not items: 'How old are you?', 'Comments'" in notes
    assert "1 annotations without a label left out" in notes


def test_forms_without_names_and_with_equal_titles(tmp_path):
    frame = pd.DataFrame(FORM).drop(columns=["Email Address", "Comments"])
    frame.columns = ["Zeitstempel", "Alter", "Was ist das?", "Was ist das?"]
    frame.to_csv(tmp_path / "x.csv", index=False)
    data = crowdppl.read(tmp_path / "x.csv")
    assert data.items.tolist() == ["Was ist das?", "Was ist das? (2)"]
    assert data.workers.tolist() == ["respondent 1", "respondent 2", "respondent 3"]
    assert any("each row is a worker" in note for note in data.notes)
    microsoft = pd.DataFrame(FORM).rename(columns={"Timestamp": "Start time", "Email Address": "Name"})
    microsoft.insert(0, "ID", [1, 2, 3])
    microsoft.to_csv(tmp_path / "y.csv", index=False)
    assert crowdppl.read(tmp_path / "y.csv").workers.tolist() == ["a@x", "b@x", "c@x"]


def test_other_tables_with_times_are_no_forms(tmp_path):
    (tmp_path / "x.csv").write_text("timestamp,task,worker,label\n1,1,a,x\n2,1,b,y\n")
    assert formats.sniff(tmp_path / "x.csv") == "long"
    pd.DataFrame(FORM)[["Timestamp", "How old are you?", "Comments"]].to_csv(tmp_path / "y.csv", index=False)
    with pytest.raises(DataError, match="no two of its questions"):
        crowdppl.read(tmp_path / "y.csv")


QUALTRICS = (
    "StartDate,Status,Finished,ResponseId,Q1,Q2,Q3\n"
    'Start Date,Response Type,Finished,Response ID,"Is it, A?",Is it B?,Your age\n'
    '"{""ImportId"":""startDate""}","{""ImportId"":""status""}","{""ImportId"":""f""}","{""ImportId"":""_recordId""}",'
    '"{""ImportId"":""QID1""}","{""ImportId"":""QID2""}","{""ImportId"":""QID3""}"\n'
    "2024-04-03 10:00:00,IP Address,True,R_1,Yes,No,31\n"
    "2024-04-03 11:00:00,Survey Preview,True,R_0,No,No,40\n"
    "2024-04-03 12:00:00,IP Address,True,R_2,Yes,Yes,28\n"
)
MONKEY = (
    "Respondent ID,Collector ID,Start Date,Email Address,Is it A?,Is it B?,How old?\n"
    ",,,,Response,Response,Open-Ended Response\n"
    "101,9,04/03/2024 10:00:00 AM,,Yes,No,31\n"
    "102,9,04/13/2024 10:00:00 AM,,Yes,Yes,28\n"
)


@pytest.mark.parametrize(
    ("text", "people", "items"),
    [(QUALTRICS, ["R_1", "R_2"], ["Q1", "Q2"]), (MONKEY, ["101", "102"], ["Is it A?", "Is it B?"])],
    ids=["Qualtrics", "SurveyMonkey"],
)
def test_surveys_with_further_lines_of_a_header(tmp_path, text, people, items):
    (tmp_path / "x.csv").write_text(text)
    data = crowdppl.read(tmp_path / "x.csv")
    a, b = items
    first, second = people
    assert triples(data) == sorted([(a, first, "Yes"), (a, second, "Yes"), (b, first, "No"), (b, second, "Yes")])
    assert data.timestamp is not None
    assert any("below the header that describe the questions are left out" in note for note in data.notes)
    assert any("1 previews of the survey are left out" in note for note in data.notes) == (text == QUALTRICS)


def test_times_of_google_forms_have_a_zone_of_one_digit(tmp_path):
    (tmp_path / "x.csv").write_text(
        '"Timestamp","Email Address","Is it A?","Is it B?"\n"2024/04/03 10:00:00 AM GMT+2","a@x","Yes","No"\n'
        '"2024/04/03 3:00:00 PM GMT-11","b@x","Yes","Yes"\n'
    )
    data = crowdppl.read(tmp_path / "x.csv")
    hours = sorted({pd.Timestamp(float(t), unit="s").strftime("%d %H:%M") for t in data.timestamp})
    assert hours == ["03 08:00", "04 02:00"]


def test_long_tables_of_survey_tools_are_no_forms(tmp_path):
    """A respondent has a row for each answer, or the caller names the columns."""
    rows = [(f"R_{w}", f"2024-01-01 10:00:0{w}", t, "yes" if (w + t) % 2 else "no") for w in range(4) for t in range(3)]
    table = pd.DataFrame(rows, columns=["ResponseId", "StartDate", "task", "answer"])
    for columns in (["ResponseId", "StartDate", "task", "answer"], ["Timestamp", "StartDate", "Item", "Rating"]):
        table.set_axis(columns, axis=1).to_csv(tmp_path / "x.csv", index=False)
        data = crowdppl.read(tmp_path / "x.csv", worker=columns[0], task=columns[2], label=columns[3])
        assert triples(data) == sorted((str(t), w, k) for w, _, t, k in rows)


def test_questions_may_have_names_of_columns_of_surveys(tmp_path):
    """Status and progress say something of respondents in tables of Qualtrics, and are questions elsewhere."""
    answers = {"Is it A?": ["yes", "no"], "Status": ["no", "yes"], "Progress": ["yes", "yes"]}
    pd.DataFrame({"Timestamp": ["2024/04/03 10:00", "2024/04/04 10:00"], "Username": ["a", "b"], **answers}).to_csv(
        tmp_path / "x.csv", index=False
    )
    assert crowdppl.read(tmp_path / "x.csv").items.tolist() == [*answers]


def test_one_further_line_of_qualtrics(tmp_path):
    """The line of questions is left out where that of identifiers was deleted, too."""
    lines = QUALTRICS.splitlines(keepends=True)
    (tmp_path / "x.csv").write_text("".join([*lines[:2], *lines[3:]]))
    data = crowdppl.read(tmp_path / "x.csv")
    assert data.workers.tolist() == ["R_1", "R_2"]
    assert data.labels.tolist() == ["No", "Yes"]
