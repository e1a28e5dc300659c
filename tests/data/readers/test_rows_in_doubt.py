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


def wide_text(header, labels=("pos", "neg")):
    """Eight items; the labels of all workers are the same."""
    count = header.count(",")
    return f"{header}\n" + "".join(f"{n}{count * f',{labels[n % len(labels)]}'}\n" for n in range(1, 9))


@pytest.mark.parametrize(
    "header",
    [
        *(
            "tweet,P. Smith,N. Jones,A. Lee,K. Wu",
            "id,p.smith@x.com,n.jones@x.com",
            "id,P_AB,N_Kim,Bo",
            "id,N. Kim,N. Lee",
        ),
        *("id,P-A,P-B,P-C", "id,n.jones,p.smith", "id,Anna*,Bo*,n*", "id,Note Berg,Count Basie"),
        *(
            "user,a_rater,b_rater",
            "id,Ailsa,Aidan,Bo,Cy",
            "id,Bertha,Automne,Preda,Bo,Cy",
            "id,Is. Kaplan,Has_an,Bo,Cy",
        ),
        *("id,Bert,Ai,Bo,Cy", "id,ai@x.com,bo@x.com"),
    ],
)
def test_names_of_people_are_read_without_a_doubt(header, notes):
    said = notes(wide_text(header), "wide")
    assert f"by {header.count(',')} workers" in said
    assert "read as workers" not in said
    assert "not taken" not in said


@pytest.mark.parametrize(
    ("header", "doubt"),
    [
        ("id,Anna,Bo,Note Berg", "'Note Berg' is read as workers"),
        ("id,Anna,Bo,Count Basie", "'Count Basie' is read as workers"),
        ("id,Anna %,Bo", "'Anna %' is read as workers"),
        ("id,Anna,Bo,score?", "'score?' is read as workers"),
        ("id,(score),Anna,Bo", "'(score)' is read as workers"),
        ("id,Anna,Bo,gpt4,model_1", "'gpt4', 'model_1' are read as workers"),
        ("id,Anna,Bo,Is spam", "'Is spam' is read as workers"),
        ("user,Anna,Bo,Cy", "'user' is read as that of items"),
        ("participant,R1,R2,R3", "'participant' is read as that of items"),
        ("person,dr_smith,dr_wu", "'person' is read as that of items"),
        ("user,Dr. A,Dr. B", "'user' is read as that of items"),
    ],
)
def test_names_in_doubt_are_those_of_workers(header, doubt, notes):
    said = notes(wide_text(header), "wide")
    assert f"by {header.count(',')} workers" in said
    assert doubt in said


@pytest.mark.parametrize(
    ("column", "workers"),
    [
        (["num_votes", 2, 2, 3, 2], 2),  # a number where labels are words
        (["prob_pos", 0.5, 1, 0, 0.9], 2),
        (["notes_all", "see p. 3", "", "odd", ""], 2),
        (["comments_all", "", "", "", ""], 2),
        (["Note Berg", "pos", "other", "neg", ""], 3),  # some labels are those of others
    ],
)
def test_values_decide_where_names_do_not(column, workers, notes):
    columns = zip(["id,ann,bob", "1,pos,neg", "2,pos,pos", "3,neg,neg", "4,neg,pos"], column, strict=True)
    assert f"by {workers} workers" in notes("".join(f"{start},{cell}\n" for start, cell in columns), "wide")


def test_a_rater_with_a_number_of_its_own_is_kept(notes):
    text = "id,Anna,Bo,Count Basie\n1,1,2,1\n2,2,2,3\n3,3,4,5\n4,4,3,4\n"
    assert "by 3 workers" in notes(text, "wide")
    assert "by 2 workers" in notes(
        text.replace("Count Basie", "count_x").replace(",5\n", ",17\n").replace(",4\n", ",9\n"), "wide"
    )


@pytest.mark.parametrize(
    ("header", "labels", "noted"),
    [
        ("x,1,2,3", "123", False),  # workers by number
        ("x,2,3,1", "123", True),
        ("task,a,b", "ab", False),  # "task" is in a header only
        ("7,a,b", "ab", True),
    ],
)
def test_a_missing_header(header, labels, noted, notes):
    assert ("probably has no header" in notes(wide_text(header, labels), "wide")) == noted


@pytest.mark.parametrize(
    "others", ["1,2,3", "img_1.jpg,img_2.jpg", "q1,q2,expert", ",".join(f"x{n}y" for n in range(25))]
)
def test_rows_are_workers_where_columns_look_like_items(others, notes):
    with pytest.raises(CrowdpplError, match="columns look like items"):
        notes(wide_text(f"participant,{others}"), "wide")


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
