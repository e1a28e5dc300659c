"""Wide tables with two columns for each annotation, and columns and rows that may be no workers and items."""

import pytest

import crowdppl
from crowdppl import DataError
from crowdppl.data.look import look


def read(folder, text, **options):
    path = folder / "x.csv"
    path.write_text(text)
    return crowdppl.read(path, "wide", **options)


PAIRS = "{}\n1,ann,pos,bob,neg\n2,cat,neg,ann,neg\n3,bob,pos,cat,pos\n4,ann,neg,,\n"
HEADS = (
    "id,annotator_1,label_1,annotator_2,label_2",
    "Study #,Reviewer 1,Reviewer 1 vote,Reviewer 2,Reviewer 2 vote",
    "case,reader_a,rating_a,reader_b,rating_b",
    "id,rater1_id,rater1_label,rater2_id,rater2_label",
)


@pytest.mark.parametrize("head", HEADS)
def test_columns_of_workers_beside_those_of_labels(tmp_path, head):
    data = read(tmp_path, PAIRS.format(head))
    assert (data.A, data.workers.tolist(), data.labels.tolist()) == (7, ["ann", "bob", "cat"], ["neg", "pos"])
    assert any("columns of workers and of their labels" in note for note in data.notes)
    seen = look(tmp_path / "x.csv")
    assert seen.options == {"format": "wide"}
    assert seen.annotations.J == 3


def test_numbers_as_workers_and_further_columns(tmp_path):
    rows = "1,11,0,12,1,0\n2,13,1,11,1,1\n3,12,0,,,1\n"
    text = f"id,rater1_id,rater1_label,rater2_id,rater2_label,gold\n{rows}"
    data = read(tmp_path, text, truth="gold")
    assert data.workers.tolist() == [11, 12, 13]
    assert data.labels.tolist() == [0, 1]
    assert int((data.truth >= 0).sum()) == 3


@pytest.mark.parametrize(
    ("head", "doubt"),
    [
        ("id,annotator_1,score_1,annotator_2,score_2", True),
        ("id,rater1,grade1,rater2,grade2", True),
        ("id,ann,bob,eve,kim", False),
    ],
)
def test_labels_beside_scores_are_no_pairs(tmp_path, head, doubt):
    # Workers give equal labels to some items; nobody gives two annotations of one.
    data = read(tmp_path, f"{head}\n1,pos,4,neg,5\n2,neg,3,neg,4\n3,pos,5,pos,5\n4,neg,4,neg,4\n")
    assert not any("columns of workers and of their labels" in note for note in data.notes)
    assert data.J == 4
    assert any("though their names pair" in note for note in data.notes) is doubt


@pytest.mark.parametrize(
    "rows",
    [
        "1,benign,1,malignant,2\n2,malignant,2,benign,1\n3,benign,1,malignant,3\n",
        "1,too dark,1,fine,2\n2,blurred,2,not sure,1\n3,clear,1,cut off,3\n",
        "1,1,1,2,3\n2,2,5,1,4\n3,3,3,4,5\n",
    ],
)
def test_labels_remarks_and_small_numbers_are_no_names_of_workers(tmp_path, rows):
    notes = read(tmp_path, f"id,reader1,grade1,reader2,grade2\n{rows}", kind="nominal").notes
    assert not any("columns of workers and of their labels" in note for note in notes)


@pytest.mark.parametrize(("rows", "doubt"), [("1,u,1,v,2\n2,v,2,u,1\n", True), ("1,u,1,v,2\n2,u,2,v,1\n", False)])
def test_names_that_may_be_labels_have_a_doubt(tmp_path, rows, doubt):
    notes = read(tmp_path, f"id,reader1,grade1,reader2,grade2\n{rows}", kind="nominal").notes
    assert any("are read as names of workers; if they are labels" in note for note in notes) is doubt


def test_an_incomplete_pair_is_named_by_its_columns_and_rows(tmp_path):
    head = "item,rater1,rating1,rater2,rating2"
    with pytest.raises(DataError, match=r"columns 'rater1', 'rater2', rows 2, 3: worker of a label missing"):
        read(tmp_path, f"{head}\n1,a,1,b,1\n2,b,2,,2\n3,,3,,2\n")
    data = read(tmp_path, f"{head}\n1,a,1,b,1\n2,b,2,a,\n3,b,3,,\n")
    assert data.A == 4
    assert data.notes[0].endswith("4 annotations of 3 items, 1 of workers without a label left out")


@pytest.mark.parametrize("head", ["rater1,label1,rater2,label2,label", "r,s,t,u,label"])
def test_a_column_by_the_name_of_the_labels_is_kept(tmp_path, head):
    rows = "1,a,x,b,x,x\n2,b,y,c,y,x\n3,a,x,c,y,y\n"
    data = read(tmp_path, f"item,{head}\n{rows}", truth="label", labels=["x", "y"] if "1" in head else None)
    assert data.labels[data.truth].tolist() == ["x", "x", "y"]


def test_plain_workers_with_numbers_are_no_pairs(tmp_path):
    data = read(tmp_path, "id,rater1,rater2,rater3\n1,pos,neg,pos\n2,neg,neg,neg\n3,pos,pos,neg\n")
    assert data.workers.tolist() == ["rater1", "rater2", "rater3"]
    assert len(data.notes) == 1


def binary(head, rows=4):
    width = head.count(",")
    lines = (f"{n},{','.join(str(n * (k + 1) % 3 % 2) for k in range(width))}" for n in range(1, rows + 1))
    return "\n".join([head, *lines]) + "\n"


@pytest.mark.parametrize("name", ["pathology", "Histology result", "Adj", "third reader", "final diagnosis", "outcome"])
def test_a_column_that_decides_is_named(tmp_path, name):
    data = read(tmp_path, binary(f"id,ann,bob,{name}"))
    assert any("decide where others differ" in note and f"truth={name!r}" in note for note in data.notes)
    chosen = read(tmp_path, binary(f"id,ann,bob,{name}"), workers=["ann", "bob"], truth=name)
    assert chosen.J == 2
    assert int((chosen.truth >= 0).sum()) == 4


def test_a_worker_who_labels_where_others_differ(tmp_path):
    few = "id,ann,bob,cat\n1,pos,neg,pos\n2,neg,neg,\n3,pos,pos,\n4,neg,pos,neg\n"
    assert len(read(tmp_path, few).notes) == 1
    decides = few + "5,pos,neg,neg\n6,neg,neg,\n"
    assert any("'cat' is read as a worker, but may" in note for note in read(tmp_path, decides).notes)
    other = decides.replace("2,neg,neg,", "2,neg,neg,neg")
    assert len(read(tmp_path, other).notes) == 1


@pytest.mark.parametrize("head", ["id,ann,bob,Adam", "id,ann,bob,Outi", "id,pathologist1,pathologist2,pathologist3"])
def test_people_do_not_decide_by_their_names(tmp_path, head):
    assert len(read(tmp_path, binary(head)).notes) == 1


@pytest.mark.parametrize("name", ["site", "skip", "Match?", "scanner", "sure?"])
def test_columns_that_may_say_something_of_the_items(tmp_path, name):
    data = read(tmp_path, binary(f"id,ann,bob,{name}"))
    assert any(f"column {name!r} is read as workers; if" in note for note in data.notes)


@pytest.mark.parametrize("name", ["resolved_by", "Unnamed: 3", "disagreement", "match"])
def test_columns_that_say_something_of_the_items(tmp_path, name):
    data = read(tmp_path, f"id,ann,bob,{name}\n1,pos,neg,x\n2,neg,neg,\n3,pos,pos,\n")
    assert data.J == 2
    assert any(f"column {name!r} is not taken for workers" in note for note in data.notes)


@pytest.mark.parametrize(
    ("head", "doubt"),
    [
        ("id,pos,neg,neutral", True),
        ("id,votes_cat,votes_dog", True),
        ("id,is_cat,is_dog", True),
        ("id,label_ann,label_bob", False),
        ("id,ann,neg,bob", False),
        ("id,n_ann,bob", False),
    ],
)
def test_classes_as_columns(tmp_path, head, doubt):
    assert any("may be classes by their names" in note for note in read(tmp_path, binary(head)).notes) is doubt


def test_grades_of_numbered_names_are_no_classes(tmp_path):
    data = read(tmp_path, "id,num_ann,num_bob\n1,1,2\n2,3,3\n3,2,2\n")
    assert not any("classes by their names" in note for note in data.notes)


def test_words_under_names_of_classes_are_labels(tmp_path):
    data = read(tmp_path, "id,pos,neg\n1,x,y\n2,x,x\n3,y,y\n")
    assert data.J == 2
    assert not any("classes" in note for note in data.notes)


@pytest.mark.parametrize(
    ("head", "doubt"),
    [
        ("id,ann_toxic,ann_rude,bob_toxic,bob_rude", True),
        ("id,ann_r1,ann_r2,bob_r1,bob_r2", True),
        ("id,ann before,ann after,bob before,bob after", True),
        ("id,expert_1,expert_2,crowd_1,crowd_2", False),
        ("id,ann_lee,bob_lee,eve_kim,max_cho", False),
        ("id,A. Lee,A. Kim,B. Lee,B. Kim", False),
        ("id,gpt_v1,gpt_v2,claude_v1,claude_v2", False),
    ],
)
def test_names_that_combine_workers_and_rounds_or_questions(tmp_path, head, doubt):
    assert any("their names combine" in note for note in read(tmp_path, binary(head)).notes) is doubt


def test_rows_at_the_end_that_are_no_items(tmp_path):
    text = binary("id,ann,bob")
    data = read(tmp_path, text + "age,30,40\ngender,f,m\n")
    assert any("'age', 'gender' at the end are read as items" in note for note in data.notes)
    for plain in (text, text.replace("\n1,", "\na1,"), "id,ann,bob\na,0,1\nb,1,1\nc,0,0\n"):
        assert not any("at the end" in note for note in read(tmp_path, plain).notes)


def test_a_row_of_each_worker_is_no_wide_table(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("id,annotator,is_pos,is_neg\n1,a,1,0\n2,b,0,1\n3,a,0,1\n")
    seen = look(path)
    assert seen.annotations is None
    assert "format" not in seen.options
    assert any("names a worker for each row" in note for note in crowdppl.read(path, "wide").notes)


@pytest.mark.parametrize(
    ("name", "cell"), [("rater_number", "3"), ("worker_no", "{}"), ("coder", "c"), ("annotator", "c")]
)
def test_a_constant_or_a_number_names_no_worker_of_each_row(tmp_path, name, cell):
    path = tmp_path / "x.csv"
    rows = "".join(f"{n},{'xyz'[n % 3]},{'xyz'[n % 3]},{cell.format(n % 4)}\n" for n in range(9))
    path.write_text(f"item,ann,bob,{name}\n{rows}")
    seen = look(path)
    assert seen.options == {"format": "wide"}
    assert seen.annotations.workers.tolist() == ["ann", "bob"]
    assert not any("for each row" in note for note in seen.odd)
