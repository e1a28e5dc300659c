"""Columns of a long table that are not used and say something of its items; blank rows and merged cells."""

import pandas as pd
import pyarrow
import pytest

from crowdppl import Annotations, DataError

BASE = {"task": [1, 1, 2, 2, 3, 3], "worker": list("uvuvuv"), "label": list("abbbaa")}


def notes(**columns):
    options = columns.pop("options", {})
    return " | ".join(Annotations.from_frame(pd.DataFrame(BASE | columns), **options).notes)


@pytest.mark.parametrize("name", ["gold", "Ground truth", "true_label", "Reference", "expert"])
@pytest.mark.parametrize("known", [list("aabbaa"), ["a", "a", "b", "b", None, None], list("aabbbb")])
def test_a_column_of_true_labels_is_pointed_out(name, known):
    assert f"the column {name!r} has a label for each item and is not used" in notes(**{name: known})
    assert "is not used" not in notes(**{name: known}, options={"truth": name})
    assert "is not used" not in notes(**{name: known}, options={"truth": {1: "a"}})


@pytest.mark.parametrize(
    "column",
    [
        {"reference": ["p. 1", "p. 1", "p. 2", "p. 2", "p. 3", "p. 3"]},  # no labels
        {"gold": list("abbbaa")},  # differs within an item
        {"correct": [True, False, True, True, True, False]},
        {"expert": [None] * 6},
        {"true_north": list("aabbaa")},
    ],
)
def test_other_columns_are_no_true_labels(column):
    assert "is not used" not in notes(**column)


def test_an_identifier_of_several_texts_is_pointed_out():
    two = {"task": [1, 1, 1, 1, 2, 2], "text": ["x", "x", "y", "y", "z", "z"], "worker": list("uvwxuv")}
    assert "1 item has different values in the column 'text' (1), each in several rows" in notes(**two)
    assert "different values" not in notes(**two, options={"task": "text"})


@pytest.mark.parametrize("name", ["image", "document", "question text", "tweet"])
def test_an_identifier_of_an_input_in_each_row_is_pointed_out(name):
    files = [f"{n}.jpg" for n in range(6)]
    assert f"3 items have different values in the column {name!r} (1, 2, 3); if" in notes(**{name: files})
    assert "different values" not in notes(**{name: [*files[:5], files[0]]})
    assert "different values" not in notes(**{name: [*files[:5], None]})


@pytest.mark.parametrize(
    ("name", "form"),
    [
        *((name, "{n}.jpg") for name in ("url", "image_url", "file name")),
        ("image", "https://x.org/{i}.jpg?signature={n}"),
        ("document", "https://x.org/survey?item={i}&worker={w}"),
        ("document", "{w}_{i}.xml"),
    ],
)
def test_what_is_of_each_annotation_is_no_input(name, form):
    rows = zip(BASE["task"], BASE["worker"], strict=True)
    assert "different values" not in notes(**{name: [form.format(n=n, i=i, w=w) for n, (i, w) in enumerate(rows)]})


@pytest.mark.parametrize("name", ["exclusion_reason", "removal_reason", "reason for exclusion"])
def test_a_reason_for_a_label_is_none_against_the_annotation(name):
    labels = ["keep", "drop"] * 10
    table = {"task": [n // 2 for n in range(20)], "worker": list("uv") * 10, "label": labels}

    def said(reasons):
        return "a reason in the column" in " ".join(Annotations.from_frame(pd.DataFrame(table | {name: reasons})).notes)

    assert not said(["spam" if label == "drop" else None for label in labels])
    assert not said(["spam" if label == "drop" and n > 5 else "" for n, label in enumerate(labels)])
    assert said(["spam" if n % 5 == 0 else None for n in range(20)])
    assert said(["spam" if n == 3 else None for n in range(20)])


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ({"skipped": [True, *[False] * 5]}, "1 row has 'true' in the column 'skipped'"),
        ({"is_bot": [1, 0, 0, 0, 0, 0]}, "1 row has '1' in the column 'is_bot'"),
        ({"Finished": [False, *[True] * 5]}, "1 row has 'false' in the column 'Finished'"),
        ({"Progress": [40, *[100] * 5]}, "1 row has less than 100 in the column 'Progress'"),
        ({"consent": ["no", *["yes"] * 5]}, "1 row has 'no' in the column 'consent'"),
        ({"passed_attention": [0, *[1] * 5]}, "1 row has '0' in the column 'passed_attention'"),
        ({"exclusion_reason": ["too fast", *[None] * 5]}, "1 row has a reason in the column 'exclusion_reason'"),
        ({"payment_status": ["rejected", *["paid"] * 5]}, "1 row has 'rejected' in the column 'payment_status'"),
        ({"Status": ["TIMED-OUT", *["APPROVED"] * 5]}, "1 row has 'timed-out' in the column 'Status'"),
        ({"status": ["Survey Preview", *["IP Address"] * 5]}, "1 row has 'survey preview' in the column 'status'"),
        ({"flagged": [1, 0, 0, 0, 0, 0]}, "1 row has '1' in the column 'flagged'"),
        ({"flagged": [1, 1, 0, 0, 0, 0]}, None),  # of an item
        ({"status": ["expired", "expired", *["open"] * 4]}, None),
        ({"consent": ["verbal", *["written"] * 5]}, None),
        ({"progress": [40, 50, 60, 70, 80, 90]}, None),
        ({"progress": [0, 20, 40, 60, 80, 100]}, None),
        ({"exclusion_reason": ["none", *[None] * 5]}, None),
        ({"drop_reason": ["copy", "copy", *[None] * 4]}, None),
        ({"finished": [12, 13, 14, 15, 16, 17]}, None),
        *(({name: [1, 2, 1, 1, 2, 1]}, None) for name in ("test_run", "skipped")),
        *(
            ({name: values}, None)
            for name in ("skipped", "failed")
            for values in ([0, 1, 5, 0, 0, 2], [0.0, 1, 3, 0, 0, 1])
        ),
        ({"duplicate": [1, 2, 3, 4, 5, 6]}, None),
        ({"failed": [1.0, None, 0, 0, 0, 0]}, "1 row has '1.0' in the column 'failed'"),
        *(({name: [1, 1, 0, 0, 1, 1]}, None) for name in ("eligible", "passed", "done", "completed", "finished")),
        *(
            ({name: [1, 0, 1, 1, 1, 1]}, f"1 row has '0' in the column {name!r}")
            for name in ("eligible", "passed", "done")
        ),
    ],
)
def test_rows_of_work_that_does_not_count(column, said):
    sentences = notes(**column)
    assert said in sentences if said else "not to count" not in sentences


@pytest.mark.parametrize(
    "texts",
    [
        ["x", "x", "y", "y", "z", "z"],  # one text for each item
        ["why", "how", "because", "no", "hm", "well"],  # remarks of workers
        ["good", "fine", "good", None, "good", None],
        [None] * 6,
    ],
)
def test_texts_of_items_and_remarks_are_not(texts):
    assert "different values" not in notes(text=texts)


def test_rows_without_a_label_need_no_item_and_no_worker():
    frame = pd.DataFrame(BASE)
    blank = pd.DataFrame({"task": [None, 4.0], "worker": [None, None], "label": [None, None]})
    with pytest.warns(UserWarning, match="dropped 2 of 8 rows without a label"):
        data = Annotations.from_frame(
            pd.concat([frame.iloc[:3], blank, frame.iloc[3:]], ignore_index=True).astype(object)
        )
    assert (data.N, data.A, data.J) == (3, 6, 2)


@pytest.mark.parametrize("role", ["task", "worker"])
def test_a_label_without_item_or_worker_is_refused(role):
    frame = pd.DataFrame(BASE).astype(object)
    frame.loc[5, role] = None
    with pytest.raises(DataError, match=f"column '{role}', row 6: {role} missing; fill it in or drop the rows$"):
        Annotations.from_frame(frame)


@pytest.mark.parametrize("role", ["task", "worker"])
def test_merged_cells_are_to_be_filled(role):
    frame = pd.DataFrame(BASE).astype(object)
    frame.loc[[1, 3, 5], role] = None
    with pytest.raises(DataError, match="if cells were merged, repeat their value in each row"):
        Annotations.from_frame(frame)


@pytest.mark.parametrize("alike", ["a ", "A", "\u0430"])
def test_categories_that_look_alike_have_a_warning(alike):
    frame = pd.DataFrame(BASE | {"label": pd.Categorical(["a", "b", alike, "a", "b", "b"])})
    with pytest.warns(UserWarning, match="label name differs from another|labels? names? .*invisible|Unicode form"):
        assert Annotations.from_frame(frame).K == 3
    frame = pd.DataFrame(BASE | {"label": pd.Categorical(["a", "b", "c", "a", "b", "b"])})
    assert Annotations.from_frame(frame).notes == ()
    declared = pd.DataFrame(BASE | {"label": ["a", "b", alike, "a", "b", "b"]})
    assert Annotations.from_frame(declared, labels=["a", alike, "b"]).notes == ()


@pytest.mark.parametrize("form", [int, str])
def test_minus_one_is_no_true_label_where_no_worker_gives_it(form):
    labels = [form(label) for label in (0, 1, 1, 1, 0, 0)]
    frame = pd.DataFrame(BASE | {"label": labels, "gold": [form(label) for label in (0, 0, 1, 1, -1, -1)]})
    with pytest.warns(UserWarning, match="-1 as the known truth of 3, which no worker gives, is read as unknown"):
        data = Annotations.from_frame(frame, truth="gold")
    assert (data.K, data.truth.tolist()) == (2, [0, 1, -1])
    declared = Annotations.from_frame(frame, truth="gold", labels=[form(label) for label in (-1, 0, 1)])
    assert declared.truth.tolist() == [1, 2, 0]
    signed = frame.assign(label=[form(label) for label in (0, 1, 1, 1, 0, -1)])
    assert Annotations.from_frame(signed, truth="gold").truth.tolist() == [1, 2, 0]


def test_minus_one_is_no_true_label_where_no_category_is_negative():
    frame = pd.DataFrame(BASE | {"label": pd.Categorical([0, 1, 1, 1, 0, 0])})
    with pytest.warns(UserWarning, match="-1 as the known truth of 3, which no worker gives, is read as unknown"):
        data = Annotations.from_frame(frame, truth={1: 0, 3: -1})
    assert (data.K, data.truth.tolist()) == (2, [0, -1, -1])
    frame["label"] = frame["label"].cat.set_categories([-1, 0, 1])
    assert Annotations.from_frame(frame, truth={1: 0, 3: -1}).truth.tolist() == [1, -1, 0]
    frame["label"] = frame["label"].cat.set_categories([0, 1])
    with pytest.raises(DataError, match="label 2 not among the declared labels"):
        Annotations.from_frame(frame, truth={1: 0, 3: 2})


@pytest.mark.parametrize("word", ["", "n/a", None])
@pytest.mark.parametrize("column", ["worker", "task"])
def test_rows_without_a_label_need_no_worker(word, column):
    columns = BASE | {"label": [*"abbb", word, "a"]}
    frame = pd.DataFrame(columns).astype({column: object})
    frame.loc[4, column] = None
    with pytest.warns(UserWarning, match="dropped 1 of 6 rows without a label"):
        assert Annotations.from_frame(frame).A == 5
    with pytest.raises(DataError, match=f"row 5: {column} missing"):
        Annotations.from_frame(frame.assign(label=list("abbbaa")))


@pytest.mark.parametrize("name", ["gold", "text", "status", "count", "image"])
@pytest.mark.parametrize("cell", [["a"], {"x": 1}, [[1]]])
def test_columns_of_lists_and_objects_do_not_matter(name, cell):
    columns = BASE | {name: [cell] * 6}
    polars = pytest.importorskip("polars")
    for table in (pd.DataFrame(columns), polars.DataFrame(columns, strict=False), pyarrow.table(columns)):
        assert Annotations.from_frame(table).notes == ()
