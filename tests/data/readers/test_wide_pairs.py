"""Wide tables with two columns for each annotation, and columns and rows that may be no workers and items."""

import pytest

import crowdppl
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
    "head", ["id,annotator_1,score_1,annotator_2,score_2", "id,rater1,grade1,rater2,grade2", "id,ann,bob,eve,kim"]
)
def test_labels_beside_scores_are_no_pairs(tmp_path, head):
    # Workers give equal labels to some items; nobody gives two annotations of one.
    data = read(tmp_path, f"{head}\n1,pos,4,neg,5\n2,neg,3,neg,4\n3,pos,5,pos,5\n4,neg,4,neg,4\n")
    assert not any("columns of workers and of their labels" in note for note in data.notes)
    assert data.J == 4


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
    decides = "id,ann,bob,cat\n1,pos,neg,pos\n2,neg,neg,\n3,pos,pos,\n4,neg,pos,neg\n"
    assert any("'cat' is read as workers, but may" in note for note in read(tmp_path, decides).notes)
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
        ("id,ann,neg,bob", False),
        ("id,n_ann,bob", False),
    ],
)
def test_classes_as_columns(tmp_path, head, doubt):
    assert any("may be classes by their names" in note for note in read(tmp_path, binary(head)).notes) is doubt


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
