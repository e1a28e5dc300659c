"""Annotations of one item that are of several: places in it, items that are numbered again, true labels by the name of labels."""

import json

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.errors import CrowdpplError, CrowdpplWarning


def rows_at(column, cells):
    rng = np.random.default_rng(0)
    rows = [(i, who, "ab"[rng.integers(2)], cell) for i in range(12) for who in "uv" for cell in cells(rng, i)]
    return pd.DataFrame(rows, columns=["task", "worker", "label", column])


def noted(frame, part):
    return any(part in note for note in crowdppl.Annotations.from_frame(frame).notes)


@pytest.mark.parametrize("column", ["start", "char_offset", "x_min", "frame", "turn", "token index", "sentence_id"])
def test_several_places_of_an_item_have_a_note(column):
    frame = rows_at(column, lambda rng, i: rng.choice(90, 1 + i % 3, replace=False))
    assert noted(frame, f"several places of an item by the column {column!r}")


def test_boxes_have_a_note():
    assert noted(rows_at("bbox", lambda rng, i: [f"[{n},2,3,4]" for n in range(1 + i % 3)]), "several places")


@pytest.mark.parametrize(
    "frame",
    [
        rows_at("start", lambda rng, i: [f"2024-01-0{n} 10:00" for n in range(1, 2 + i % 3)]),  # of the work
        rows_at("end", lambda rng, i: [1.7e9 + n for n in range(1 + i % 3)]),
        rows_at("page", lambda rng, i: [i]),
        rows_at("start", lambda rng, i: range(2 if i == 3 else 1)),  # few repeated annotations
        rows_at("remark", lambda rng, i: range(1 + i % 3)),
    ],
)
def test_times_and_one_place_have_none(frame):
    assert not noted(frame, "several places")


def batches(agreeing):
    """Return labels of two batches with the items 0 to 29, by other workers: of the same items, or of others."""
    rng = np.random.default_rng(1)
    true = rng.integers(2, size=(2, 30))
    return [
        pd.DataFrame([(i, who, "ab"[true[0 if agreeing else n][i]]) for i in range(30) for who in workers])
        .set_axis(["task", "worker", "label"], axis=1)
        .assign(batch=f"b{n}")
        for n, workers in enumerate(("uv", "wx"))
    ]


@pytest.mark.parametrize("agreeing", [True, False])
def test_items_that_are_numbered_again_have_a_note(agreeing, tmp_path):
    parts = batches(agreeing)
    assert noted(pd.concat(parts, ignore_index=True), "several values of the column 'batch'") != agreeing
    named = pd.concat(parts, ignore_index=True).assign(task=lambda table: table["task"].map("img{}".format))
    assert not noted(named, "several values of the column")
    for part in parts:
        part.drop(columns="batch").to_csv(tmp_path / f"{part['batch'][0]}.csv", index=False)
    data = crowdppl.read(tmp_path)
    assert any("items of the same numbers" in note for note in data.notes) != agreeing


def test_files_of_one_worker_each_have_the_same_items(tmp_path):
    for part, who in zip(batches(False), "uw", strict=True):
        part[part["worker"] == who].drop(columns="batch").to_csv(tmp_path / f"{who}.csv", index=False)
    assert not any("same numbers" in note for note in crowdppl.read(tmp_path).notes)


def test_true_labels_in_the_column_of_labels():
    rows = [(n, who, "ab"[n % 2], "ab"[(n + (who == "w")) % 2], "x") for who in "uvw" for n in range(30)]
    frame = pd.DataFrame(rows, columns=["task", "worker", "label", "response", "site"])
    assert noted(frame, "they differ in 'response', which is not used")
    given = frame.drop(columns="label").rename(columns={"response": "label"})
    assert not noted(given, "which is not used; if that is what they gave")
    assert not noted(frame.drop(columns="response"), "if that is what they gave")
    flags = frame.assign(label=frame["label"].map({"a": 0, "b": 1}), response=np.arange(90) // 30 % 2)
    assert not noted(flags, "if that is what they gave")


ANSWERS = {"ann": {"1": "a", "2": "b"}, "bob": {"1": "a", "2": "a"}, "cem": {"1": "b", "2": "a"}}


def test_numbers_within_names_may_be_tasks(tmp_path):
    path = tmp_path / "answers.json"
    path.write_text(json.dumps({name: said | {"3": "a"} for name, said in ANSWERS.items()}))
    with pytest.raises(CrowdpplError, match="of tasks and their workers or of workers and their tasks"):
        crowdppl.read(path)
    assert crowdppl.read(path, format="peerannot").J == 3
    path.write_text(json.dumps({f"img_{n}.jpg": said for n, said in enumerate(ANSWERS.values())}))
    assert crowdppl.read(path).N == 3


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ({"a.jpg1": {"filename": "a.jpg", "regions": [], "file_attributes": {}}}, "VGG"),
        ({"project": {}, "attribute": {}, "file": {}, "metadata": {}, "view": {}}, "VGG"),
        ({"tags": [{"name": "t"}], "size": {"height": 1}, "objects": [{"classTitle": "cat"}]}, "Supervisely"),
        ([{"version": "2.0", "item": {"name": "a"}, "annotations": [{"name": "cat"}]}] * 2, "V7 Darwin"),
        ({"info": {}, "categories": {}, "items": [{"id": "a", "annotations": []}]}, "Datumaro"),
        ({"export_format_version": "1.1", "label_classes": [], "images": []}, "Hasty"),
    ],
)
def test_tools_for_images_are_named(document, name, tmp_path):
    path = tmp_path / "export.json"
    path.write_text(json.dumps(document))
    with pytest.raises(CrowdpplError, match=name):
        crowdppl.read(path)


@pytest.mark.parametrize("sign", ["\uff0c", "\u3001", "::", " \u00b7 "])
def test_lists_in_two_orders_are_pointed_out(sign):
    labels = [f"a{sign}b", f"b{sign}a", f"c{sign}a", f"c{sign}a", "d", "d"]
    frame = pd.DataFrame({"task": [1, 1, 2, 2, 3, 3], "worker": ["u", "v"] * 3, "label": labels})
    assert noted(frame, "may be the same in two forms")


def test_the_i_without_a_dot_is_no_other_letter():
    labels = ["KIRMIZI", "k\u0131rm\u0131z\u0131", "mavi", "mavi"]
    frame = pd.DataFrame({"task": [1, 1, 2, 2], "worker": list("uvuv"), "label": labels})
    with pytest.warns(CrowdpplWarning, match="1 spelling of 1 label merged"):
        assert crowdppl.Annotations.from_frame(frame).K == 2


@pytest.mark.parametrize(
    "pair",
    [
        ("Dr. Lee", "Lee"),
        ("Prof. Ann Lee", "Ann Lee"),
        ("A. Lee", "Ann Lee"),
        ("CORP\\ann", "ann"),
        ("mailto:bob@x.org", "bob@x.org"),
    ],
)
def test_names_of_people_in_two_forms(pair):
    frame = pd.DataFrame({"task": [1, 1, 2, 2], "worker": [*pair, "cem", "dan"], "label": list("abab")})
    assert noted(frame, "1 worker name may be another one in another form")


@pytest.mark.parametrize("names", [("dr", "dr who"), ("worker a", "w a"), ("team 1", "t 1"), ("M. Lee", "Lee")])
def test_names_of_other_people(names):
    frame = pd.DataFrame({"task": [1, 1, 2, 2], "worker": [*names, "cem", "dan"], "label": list("abab")})
    assert not noted(frame, "in another form")


def test_an_initial_of_two_people_is_not_asked_about():
    people = ["A. Lee", "Ann Lee", "Amy Lee", "cem"]
    assert not noted(pd.DataFrame({"task": [1, 1, 2, 2], "worker": people, "label": list("abab")}), "in another form")


@pytest.mark.parametrize(("tag", "wrong"), [("FreeText", True), ("", False)])
def test_labels_that_are_xml(tag, wrong):
    texts = [f"<A><{tag}>{said}</{tag}></A>" if tag else f"<b>{said}</b>" for said in "abba"]
    frame = pd.DataFrame({"task": [1, 1, 2, 2], "worker": list("uvuv"), "label": texts})
    assert noted(frame, "are XML and not its content") == wrong


def test_label_studio_says_what_annotations_were_made_from(tmp_path):
    def annotation(who, said, **more):
        result = {"from_name": "q", "to_name": "t", "type": "choices", "value": {"choices": [said]}}
        return {"completed_by": who, "result": [result], **more}

    tasks = [
        {
            "id": n,
            "data": {"t": n},
            "annotations": [
                annotation(1, "a", parent_annotation=None),
                annotation(2, "b", parent_annotation=7),
                annotation(3, "b", parent_prediction=5),
            ],
        }
        for n in range(2)
    ]
    path = tmp_path / "x.json"
    path.write_text(json.dumps(tasks))
    notes = crowdppl.read(path).notes
    assert any("2 annotations were begun as a copy of another annotation" in note for note in notes)
    assert any("2 annotations were begun as a copy of a prediction of a model" in note for note in notes)
