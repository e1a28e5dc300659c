"""Rows and columns that may not be what they seem: read with a note, or refused in a line that says how to fix the file."""

import pytest

import crowdppl
from crowdppl.errors import CrowdpplError, silent

HEAD = "task,worker,label\n"
BODY = "1,u,a\n1,v,b\n2,u,a\n2,v,a\n3,u,b\n3,v,b\n"


@pytest.fixture
def notes(tmp_path):
    def read(text, format=None):
        (tmp_path / "x.csv").write_text(text)
        with silent("x.csv"):
            return " ".join(crowdppl.read(tmp_path / "x.csv", format).notes)

    return read


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (HEAD + "id,name,class\n" + BODY, "row 1 ('id', 'name', 'class') shares"),
        (HEAD + "----,------,-----\n" + BODY, "row 1 ("),
        (HEAD + BODY + "TOTAL,2,6\n", "row 7 ('TOTAL', '2', '6') shares"),
        (HEAD + BODY + "worker,country,age\nu,DE,30\nv,FR,40\n", "rows 7, 8, 9 ("),
        (
            "task,worker,label,status\n1,u,a,ok\n1,v,b,Rejected\n2,u,b,ok\n",
            "1 row has 'rejected' in the column 'status'",
        ),
        ("task,worker,label,is_deleted\n1,u,a,0\n1,v,b,1\n2,u,b,0\n", "in the column 'is_deleted'"),
        ("task,worker,label,count\n1,u,a,3\n1,v,b,1\n2,u,b,1\n", "the column 'count' has whole numbers above 1"),
        ("task,item,worker,label\nq,1,u,a\nq,2,u,b\nq,1,v,a\n", "name it with task='item'"),
    ],
)
def test_long_tables(text, part, notes):
    assert part in notes(text)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("id,ann,bob,model_prediction\n1,a,b,a\n2,b,b,b\n3,a,a,a\n", "'model_prediction' is read as workers"),
        ("id,ann,bob,kim,is_test\n1,1,0,1,1\n2,0,0,0,1\n3,1,1,1,0\n", "'is_test' is read as workers"),
        ("id,ann,bob,ann.1,bob.1\n1,a,b,a,b\n2,b,b,b,a\n3,a,a,a,a\n", "'ann.1', 'bob.1' are read as workers"),
        ("id,ann,bob\nrole,expert,student\n1,a,b\n2,a,a\n3,b,b\n", "the first row, 'role'"),
        ("id,ann,Confidence (ann),bob,Confidence (bob)\n1,1,5,1,4\n2,2,3,2,2\n3,2,1,1,2\n", "'Confidence (ann)'"),
        ("1,a,b\n2,b,b\n3,a,a\n", "the table probably has no header"),
        ("id,ann,bob,% yes\n1,1,1,100\n2,0,1,50\n3,0,0,0\n", "'% yes' is not taken"),
    ],
)
def test_wide_tables(text, part, notes):
    assert part in notes(text, "wide")


@pytest.mark.parametrize(
    ("text", "format"),
    [
        (HEAD + BODY, None),
        ("task,worker,label,status\n1,u,a,done\n1,v,b,open\n2,u,b,done\n", None),
        ("task,worker,label,count\n1,u,a,1\n1,v,b,1\n2,u,b,1\n", None),
        ("task,item,worker,label\nt1,1,u,a\nt2,2,u,b\nt1,1,v,a\n", None),
    ],
)
def test_tables_without_a_doubt(text, format, notes):
    assert not notes(text, format)


def test_labelling_functions_may_have_names_of_any_kind(notes):
    text = "id,has_link,is_short,was_edited\n1,1,0,1\n2,0,0,0\n3,1,1,1\n"
    assert "read as workers" not in notes(text, "wide")
    assert "by 3 workers" in notes(text, "wide")


@pytest.mark.parametrize(
    ("text", "format", "part"),
    [
        ("A title\n\n" + HEAD + BODY, None, "if the lines above are a title or comments, delete them"),
        ("# a comment\n" + HEAD + BODY, None, "if the lines above are a title or comments, delete them"),
        (HEAD + "1,t1,u,a\n2,t1,v,b\n", None, "as in tables that R writes, add one to the header"),
        (HEAD + BODY + "4,u,a,oops\n", None, "quotation marks, or delete those that are too many"),
        (HEAD + '1,u,"a\n1,v,b\n2,u,a\n', None, "a quotation mark opened in row 2 of the file is not closed"),
        ('"task" "worker" "label"\n"1" "u" "a"\n', None, "the file has a single column"),
        ("+----+---+\n| task | worker | label |\n| 1 | u | a |\n", None, "the file has a single column"),
        ("1,u,a\n1,v,b\n2,u,a\n1,u,b\n", None, "add a line with the names of the columns above it"),
        ("worker,item1,item2,item3\nann,a,b,a\nbob,a,b,b\n", "wide", "transpose the table"),
    ],
)
def test_refusals_say_how_to_fix_the_file(text, format, part, notes):
    with pytest.raises(CrowdpplError) as error:
        notes(text, format)
    assert part in str(error.value)
    assert "\n" not in str(error.value)


def test_a_table_without_a_header_whose_columns_are_named(tmp_path):
    (tmp_path / "x.csv").write_text("1,u,a\n1,v,b\n2,u,a\n2,v,a\n")
    with silent("x.csv"):
        data = crowdppl.read(tmp_path / "x.csv", task="1", worker="u", label="a")
    assert any("probably has no header" in note for note in data.notes)


def test_text_in_utf_16_without_a_mark(tmp_path):
    (tmp_path / "x.csv").write_bytes((HEAD + BODY).encode("utf-16-le"))
    with pytest.raises(CrowdpplError, match="UTF-16 without a byte-order mark"):
        crowdppl.read(tmp_path / "x.csv")
