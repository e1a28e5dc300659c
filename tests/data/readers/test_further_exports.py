"""doccano's first version, answers about choices in Zooniverse's surveys, predictions in Label Studio, questions in 'look'."""

import csv
import json

import pytest

import crowdppl
from crowdppl.data.look import commands, look
from crowdppl.errors import DataError


def put(folder, name, records):
    path = folder / name
    text = json.dumps(records) if name.endswith(".json") else "\n".join(map(json.dumps, records))
    path.write_text(text)
    return path


def first_version(*users, **more):
    return [{"label": 1 + n % 2, "user": user, **more} for n, user in enumerate(users)]


@pytest.mark.parametrize("name", ["x.json", "x.jsonl"])
def test_doccano_of_the_first_version(tmp_path, name):
    records = [
        {"id": 7, "text": "a", "annotation_approver": None, "annotations": []},
        {"id": 8, "text": "b", "annotation_approver": None, "annotations": first_version(1, 2, prob=0.0)},
        {"id": 9, "text": "c", "annotation_approver": None, "annotations": first_version(1)},
    ]
    data = crowdppl.read(put(tmp_path, name, records))
    assert (data.workers.tolist(), data.items.tolist(), data.labels.tolist()) == ([1, 2], [8, 9], [1, 2])
    assert any("labels are numbers of doccano's project, such as 1; map=" in note for note in data.notes)
    named = crowdppl.read(tmp_path / name, map={1: "x", 2: "y"})
    assert named.labels.tolist() == ["x", "y"]


def test_spans_and_several_labels_of_the_first_version(tmp_path):
    spans = first_version(3, start_offset=0, end_offset=5)
    data = crowdppl.read(put(tmp_path, "x.json", [{"id": 1, "text": "hello world", "annotations": spans}]))
    assert data.labels.tolist() == ["B-1", "O"]
    with pytest.raises(DataError, match="2 labels in one annotation"):
        crowdppl.read(put(tmp_path, "y.json", [{"id": 1, "text": "a", "annotations": first_version(1, 1)}]))


def test_other_lists_of_annotations_are_not_doccano(tmp_path):
    said = [{"worker": "a", "label": "pos"}, {"worker": "b", "label": "neg"}]
    data = crowdppl.read(put(tmp_path, "x.json", [{"id": 1, "text": "a", "annotations": said}]))
    assert any("read as items with annotations" in note for note in data.notes)


def survey(folder, answers):
    path = folder / "survey.csv"
    names = ["classification_id", "user_name", "workflow_id", "created_at", "metadata", "annotations", "subject_data"]
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow([*names, "subject_ids"])
        for n, (who, choice) in enumerate([("a", "LION"), ("b", "ZEBRA"), ("a", "LION")]):
            value = [{"choice": choice, "answers": answers, "filters": {}}]
            cells = [json.dumps(part) for part in ({}, [{"task": "T0", "value": value}], {})]
            table.writerow([n, who, 1, "2023-01-01 00:00:00 UTC", *cells, 10 + n // 2])
    return crowdppl.read(path)


def test_answers_about_a_choice_are_not_dropped_in_silence(tmp_path):
    data = survey(tmp_path, {"HOWMANY": "1", "YOUNG": []})
    assert data.labels.tolist() == ["LION", "ZEBRA"]
    assert any("3 classifications have answers about a choice ('HOWMANY'), which" in note for note in data.notes)
    assert not any("about a choice" in note for note in survey(tmp_path, {}).notes)


def choice(name, label):
    return {"from_name": name, "to_name": "t", "type": "choices", "value": {"choices": [label]}}


def test_predictions_and_questions_of_label_studio(tmp_path):
    both = [choice("sent", "pos"), choice("tox", "yes")]
    task = {
        "id": 1,
        "data": {"text": "t"},
        "annotations": [{"completed_by": n, "result": both if n else [choice("tox", "no")]} for n in (0, 1)],
        "predictions": [{"model_version": "v1", "result": [choice("tox", "no")]}],
    }
    path = put(tmp_path, "x.json", [task])
    with pytest.raises(DataError, match="choose one with question="):
        look(path)
    seen = look(path, question="tox")
    assert seen.annotations.A == 2
    assert commands(seen, "x.json")[0][0][:5] == ["crowdppl", "fit", "x.json", "--question", "tox"]
    assert any("1 predictions of models are not read" in note for note in seen.odd)
    path = put(tmp_path, "y.json", [task | {"predictions": []}])
    assert not any("predictions" in note for note in crowdppl.read(path, question="tox").notes)
