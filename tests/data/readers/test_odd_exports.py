"""Exports of tools with work that does not count, tables with an open quotation mark, and files that are no tables."""

import json

import pandas as pd
import pytest

import crowdppl
from crowdppl.errors import FileError, silent

ROWS = "task,worker,label\nx,u,a\nx,v,b\ny,u,b\ny,v,b\n"


@pytest.fixture
def read(tmp_path):
    def read(content, name="x.csv", **options):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        with silent():
            return crowdppl.read(path, **options)

    return read


def answer(worker, label, **others):
    result = {"from_name": "q", "to_name": "t", "type": "choices", "value": {"choices": [label]}}
    return {"completed_by": worker, "result": [result], **others}


def tasks(*annotations, **others):
    return [
        {"id": 1, "data": {"text": "one"}, "annotations": [answer(1, "a"), answer(2, "b"), *annotations], **others},
        {"id": 2, "data": {"text": "two"}, "annotations": [answer(1, "b"), answer(2, "b")]},
    ]


def span(worker, **others):
    value = {"start": 0, "end": 3, "text": "one", "labels": ["N"]}
    return {"completed_by": worker, "result": [{"from_name": "q", "type": "labels", "value": value}], **others}


def test_drafts_of_label_studio_are_counted(read):
    data = read(tasks(drafts=[answer(3, "a"), {"user": "c", "result": []}], predictions=[{"result": []}]), "x.json")
    assert (data.N, data.J, data.A) == (2, 2, 4)
    assert any("2 drafts are not read: their annotators have not submitted them" in note for note in data.notes)
    assert any("1 predictions of models are not read" in note for note in data.notes)


def test_drafts_beside_spans_are_counted(read):
    texts = [{"id": 1, "data": {"text": "one two"}, "annotations": [span(1), span(2)], "drafts": [{}]}]
    assert any("1 drafts are not read" in note for note in read(texts, "x.json").notes)


def test_drafts_alone_are_refused(read):
    texts = [{"id": 1, "data": {"text": "one"}, "annotations": [], "drafts": [answer(1, "a")], "predictions": [{}, {}]}]
    with pytest.raises(crowdppl.CrowdpplError, match="it contains 2 predictions and 1 drafts, and no answers"):
        read(texts, "x.json")


@pytest.mark.parametrize(
    ("reviews", "rejected"),
    [
        ([{"accepted": False}], True),
        ([{"accepted": True}], False),
        ([], False),
        (None, False),
        ([{"accepted": False, "created_at": "2024-01-01"}, {"accepted": True, "created_at": "2024-01-02"}], False),
        ([{"accepted": False, "created_at": "2024-01-02"}, {"accepted": True, "created_at": "2024-01-01"}], True),
    ],
)
def test_annotations_that_a_reviewer_rejected(read, reviews, rejected):
    export = tasks(answer(3, "a", reviews=reviews))
    data = read(export, "x.json")
    assert 5 - rejected == data.A
    assert any("1 annotations that a reviewer rejected left out" in note for note in data.notes) is rejected
    assert read(export, "x.json", rejected=True).A == 5


def test_spans_that_a_reviewer_rejected(read):
    review = [{"accepted": False}]
    export = [{"id": 1, "data": {"text": "one two"}, "annotations": [span(1), span(2), span(3, reviews=review)]}]
    data = read(export, "x.json")
    assert data.J == 2
    assert any("1 annotations that a reviewer rejected left out" in note for note in data.notes)
    assert read(export, "x.json", rejected=True).J == 3


@pytest.mark.parametrize(
    "text",
    [
        'task,worker,label\nx,u,"a\nx,v,b\ny,u,b"\ny,v,b\n',
        'task,worker,label\r\nx,u,"a\r\nx,v,b\r\ny,u,b"\r\ny,v,b\r\n',
        'task,worker,label\ny,v,b\nx,u,"a\nx,v,b\ny,u,b"\n',
        'task;worker;label;text\nx;u;a;"one\nx;v;b;one\ny;u;b;two"\ny;v;b;two\nx;w;a;one\n',
    ],
)
def test_an_open_quotation_mark_swallows_no_rows(read, text):
    with pytest.raises(FileError, match=r"row \d, column '\w+': the cell holds whole lines of the table, such as 'x"):
        read(text)


@pytest.mark.parametrize(
    "text",
    [
        'task,worker,label,text\nx,u,a,"one\ntwo, three, four, five\nsix"\nx,v,b,one\ny,u,b,two\n',
        'task,worker,label\nx,u,"a\nb"\nx,v,b\n',
        'task,worker,label,text\nx,u,a,"I came,\nsaw, won, and, left\n"\nx,v,b,"I came"\n',
    ],
)
def test_cells_of_several_lines(read, text):
    assert text.count(",u,") + text.count(",v,") == read(text).A


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("TY  - JOUR\nTI  - One\nER  - \n", "a list of references"),
        ("@article{a, title={T}}\n", "a list of references"),
        ("@relation x\n@attribute task string\n@data\nx,u,a\n", "a table of Weka"),
        ("INSERT INTO labels VALUES ('x', 'u', 'a');\n", "SQL, not a table"),
        ("-- MySQL dump 10.13\n", "SQL, not a table"),
    ],
)
def test_texts_that_are_no_tables(read, text, what):
    with pytest.raises(FileError, match=f"x.csv is {what}"):
        read(text)


# ---------------------------------------------------------------------- a column for each worker


def wide(read, **columns):
    table = pd.DataFrame({"id": range(12), **columns})
    return read(table.to_csv(index=False), format="wide")


A, B, C = (["pos", "neg"] * 6, ["pos", "pos", "neg"] * 4, ["neg", "pos", "pos", "pos"] * 3)


def test_numbers_of_votes_beside_workers(read):
    counts = {"n_pos": [2, 1, 0] * 4, "n_neg": [0, 1, 2] * 4}
    assert any(
        "'n_pos', 'n_neg' are read as workers, but may be numbers of votes" in n
        for n in wide(read, ann=A, bob=B, **counts).notes
    )
    assert not any("numbers of votes" in note for note in wide(read, n_one=A, ann=B).notes)


@pytest.mark.parametrize(
    ("names", "noted"),
    [
        (("ann_1", "bob_1", "ann_2", "bob_2"), True),
        (("expert_1", "expert_2", "novice_1", "novice_2"), False),
        (("a_1", "a_2", "b_1", "b_2"), False),
    ],
)
def test_rounds_of_workers(read, names, noted):
    notes = wide(read, **dict(zip(names, (A, B, C, A), strict=True))).notes
    assert any("rounds or questions of one worker" in note for note in notes) is noted


def test_how_often_workers_gave_a_label(read):
    data = read("label,ann,bob\npos,10,20\nneg,5,6\n", format="wide")
    assert any("is one of labels by its name" in note for note in data.notes)


@pytest.mark.parametrize("name", ["Match", "Page", "Weight"])
def test_surnames_that_are_words(read, name):
    data = wide(read, **{"Ann": A, "Bob": B, name: C})
    assert name in data.workers
    assert any(f"column {name!r} is read as workers" in note for note in data.notes)


def test_columns_that_follow_from_agreement(read):
    yes = [{"pos": "yes", "neg": "no"}[label] for label in A]
    other = [{"pos": "yes", "neg": "no"}[label] for label in B]
    agree = ["yes" if one == two else "no" for one, two in zip(yes, other, strict=True)]
    assert "Match" not in wide(read, Ann=yes, Bob=other, Match=agree).workers
    assert "match" not in wide(read, ann=A, bob=B, match=C).workers
    assert "Status" not in wide(read, Ann=A, Bob=B, Status=["done"] * 12).workers


def test_columns_of_items_are_no_workers_by_a_capital(read):
    """Names of people stand beside a surname; roles and numbers of raters tell nothing of the others."""
    assert wide(read, Rater=A, Coder=B, Priority=C, Difficulty=C).workers.tolist() == ["Rater", "Coder"]
    named = wide(read, **{"Annotator 1": A, "Annotator 2": B, "Disagree": C, "Match": C})
    assert named.workers.tolist() == ["Annotator 1", "Annotator 2"]


@pytest.mark.parametrize("blank", ["Ann", "Match", None])
def test_agreement_of_two_with_a_blank_or_an_exception(read, blank):
    yes = [{"pos": "yes", "neg": "no"}[label] for label in A]
    other = [{"pos": "yes", "neg": "no"}[label] for label in B]
    columns = {"Ann": yes, "Bob": other, "Cat": [{"pos": "yes", "neg": "no"}[label] for label in C]}
    columns["Match"] = ["yes" if one == two else "no" for one, two in zip(yes, other, strict=True)]
    if blank is not None:
        columns[blank] = ["", *columns[blank][1:]]
    assert "Match" not in wide(read, **columns).workers


@pytest.mark.parametrize(
    "content",
    [
        'id,text,label,worker\n0,"Numbers 0: sort\n3,1,0,2\nend",0,0\n0,"Numbers 0: sort\n3,1,0,2\nend",1,1\n'
        "1,x,0,0\n2,x,0,2\n3,y,0,3\n",
        'text,worker,label\n"which?\nyes,no,no\n",u,yes\n"which?\nyes,no,no\n",no,no\nx,u,no\nx,no,yes\nyes,u,no\n',
    ],
)
def test_quoted_texts_with_lines_like_those_of_the_table_are_read(read, content):
    import io

    names = {"task": "id" if content.startswith("id") else "text", "worker": "worker", "label": "label"}
    data = read(content, **names)
    assert len(pd.read_csv(io.StringIO(content))) == data.A
