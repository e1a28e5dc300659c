"""Exports of Labelbox, Kili, Potato and Rayyan."""

import json
import warnings

import pytest

import crowdppl
from crowdppl.data.readers import formats
from crowdppl.errors import CrowdpplError, DataError, FileError


def rows_of(path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a single class
        data = crowdppl.read(path, **options)
    pairs = zip(data.item.tolist(), data.worker.tolist(), data.label.tolist(), strict=True)
    return sorted((data.items[i], data.workers[j], data.labels[k]) for i, j, k in pairs), data.notes


def put(tmp_path, name, records):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(records if isinstance(records, str) else "\n".join(map(json.dumps, records)))
    return path


def radio(question, answer):
    return {
        "name": question,
        "value": question,
        "radio_answer": {"name": answer, "value": answer, "classifications": []},
    }


def label_of(who, *answers, objects=(), **times):
    return {
        "label_kind": "Default",
        "label_details": {"created_at": "2024-01-01T10:00:00Z", "created_by": who},
        "performance_details": {"seconds_to_create": 3} | times,
        "annotations": {"objects": list(objects), "classifications": list(answers)},
    }


def labelbox(*labels):
    return {"data_row": {"id": "d1", "row_data": "a text"}, "projects": {"p": {"labels": list(labels)}}}


def test_labelbox(tmp_path):
    records = [labelbox(label_of("a@x", radio("tone", "pos"), objects=[{}]), label_of("b@x", radio("tone", "neg")))]
    path = put(tmp_path, "x.ndjson", [*records, labelbox(label_of("c@x", skipped=True))])
    assert formats.sniff(path) == "labelbox"
    rows, notes = rows_of(path)
    assert rows == [("d1", "a@x", "pos"), ("d1", "b@x", "neg")]
    assert any("1 annotations that were skipped left out" in note for note in notes)
    assert any("1 objects, such as boxes, are not read" in note for note in notes)


def test_labelbox_questions_sets_and_texts(tmp_path):
    both = {"name": "topics", "checklist_answers": [{"name": "b"}, {"name": "a"}]}
    text = {"name": "why", "text_answer": {"content": "x"}}
    path = put(tmp_path, "x.ndjson", [labelbox(label_of("a@x", radio("tone", "pos"), both, text))])
    with pytest.raises(DataError, match="answers to 3 questions, 'tone', 'topics', 'why'"):
        crowdppl.read(path)
    assert rows_of(path, question="topics", several="join")[0] == [("d1", "a@x", "a;b")]
    with pytest.raises(DataError, match="1 of texts"):
        crowdppl.read(path, question="why")


def test_labelbox_first_version(tmp_path):
    records = [
        {
            "DataRow ID": "d1",
            "Labeled Data": "x",
            "Created By": who,
            "Label": {"objects": [], "classifications": [{"title": "tone", "answer": {"title": said}}]},
        }
        for who, said in (("a", "pos"), ("b", "neg"))
    ]
    assert rows_of(put(tmp_path, "x.json", json.dumps(records)))[0] == [("d1", "a", "pos"), ("d1", "b", "neg")]


def kili(who, said, **more):
    answer = {"JOB_0": {"categories": [{"name": name, "confidence": 100} for name in said]}}
    return {"author": {"id": f"id-{who}", "email": who}, "jsonResponse": answer, "labelType": "DEFAULT"} | more


def test_kili(tmp_path):
    labels = [
        kili("a@x", ["A"], isLatestLabelForUser=True, createdAt="2024-01-01T10:00:00Z", secondsToLabel=3),
        kili("b@x", ["B"], isLatestLabelForUser=False),
        kili("b@x", ["A"], isLatestLabelForUser=True),
        kili("c@x", ["B"], labelType="REVIEW"),
        kili("d@x", ["B"], labelType="PREDICTION"),
    ]
    path = put(tmp_path, "x.json", json.dumps([{"id": "k", "externalId": "1.txt", "content": "x", "labels": labels}]))
    assert formats.sniff(path) == "kili"
    rows, notes = rows_of(path)
    assert rows == [("1.txt", "a@x", "A"), ("1.txt", "b@x", "A")]
    assert any("1 annotations of a reviewer, who saw the others (REVIEW) left out" in note for note in notes)
    assert any("1 annotations that a later one of the same person replaces left out" in note for note in notes)


def potato(item, **answers):
    return {"id": item, "displayed_text": "x", "label_annotations": answers, "span_annotations": {}}


def test_potato(tmp_path):
    for who, said in (("ann", "pos"), ("bob", "neg")):
        records = [potato("1", tone={said: "true"}, why={"text_box": "x"}), potato("2", tone={"pos": "1"})]
        put(tmp_path, f"out/{who}/annotated_instances.jsonl", records)
        put(tmp_path, f"out/{who}/annotation_order.txt", "1\n2\n")
        put(tmp_path, f"out/{who}/assigned_user_data.json", "{}")
    expected = [("1", "ann", "pos"), ("1", "bob", "neg"), ("2", "ann", "pos"), ("2", "bob", "pos")]
    assert rows_of(tmp_path / "out", question="tone")[0] == expected
    rows, notes = rows_of(tmp_path / "out/ann/annotated_instances.jsonl", question="tone")
    assert {who for _, who, _ in rows} == {"ann"}
    assert any("the worker is the folder, 'ann'" in note for note in notes)


def test_potato_scales_and_sets(tmp_path):
    records = [
        potato("1", how={"scale_3": "3"}, what={"a": True, "b": False}),
        potato("2", how={"scale_1": "1"}, what={"b": True}),
    ]
    path = put(tmp_path, "ann/annotated_instances.jsonl", records)
    assert [label for *_, label in rows_of(path, question="how")[0]] == ["3", "1"]
    assert [label for *_, label in rows_of(path, question="what")[0]] == ["a", "b"]


def test_rayyan(tmp_path):
    notes = [
        'RAYYAN-INCLUSION: {""Ann""=>""Included"", ""Bob""=>""Excluded""} | RAYYAN-LABELS: x,y',
        "",
        'RAYYAN-INCLUSION: {""Ann""=>""Maybe""} | USER-NOTES: {""Bob""=>[""see {this}""]}',
    ]
    lines = [f'{n},title {n},abstract,"{note}"' for n, note in enumerate(notes, 1)]
    path = put(tmp_path, "articles.csv", "key,title,abstract,notes\n" + "\n".join(lines))
    assert formats.sniff(path) == "rayyan"
    rows, said = rows_of(path)
    assert rows == [("1", "Ann", "Included"), ("1", "Bob", "Excluded"), ("3", "Ann", "Maybe")] or rows == [
        (1, "Ann", "Included"),
        (1, "Bob", "Excluded"),
        (3, "Ann", "Maybe"),
    ]
    assert any("1 references without a decision" in note for note in said)


def test_tables_with_such_columns_are_read_as_tables(tmp_path):
    record = {
        "worker": "u",
        "externalId": "e",
        "labels": [],
        "span_annotations": 1,
        "title": "RAYYAN-INCLUSION:",
        "notes": "x",
    }
    path = put(tmp_path, "x.jsonl", [record | {"task": n, "label": "ab"[n]} for n in (0, 1)])
    assert rows_of(path)[0] == [(0, "u", "a"), (1, "u", "b")]


def test_a_file_by_the_name_of_potato_hides_no_others(tmp_path):
    put(tmp_path, "crowd/annotated_instances.csv", "task,worker,label\n1,ann,a\n2,ann,b\n")
    put(tmp_path, "crowd/other.csv", "task,worker,label\n1,bob,a\n2,bob,a\n")
    assert len(rows_of(tmp_path / "crowd")[0]) == 4
    for who in ("ann", "bob"):
        put(tmp_path, f"out/{who}/annotated_instances.jsonl", [potato("1", tone={"pos": "1"})])
        put(tmp_path, f"out/{who}/assigned_user_data.json", "{}")
    rows, notes = rows_of(tmp_path / "out")
    assert rows == [("1", "ann", "pos"), ("1", "bob", "pos")]
    assert any("2 files are beside Potato's annotations and left out" in note for note in notes)
    put(tmp_path, "out/cem.csv", "task,worker,label\n1,cem,a\n")
    with pytest.raises(FileError, match="different formats"):
        crowdppl.read(tmp_path / "out")


def test_a_table_with_decisions_beside_workers_and_labels(tmp_path):
    lines = [
        f'{n // 2},a title,{"uv"[n % 2]},{"ab"[n // 2]},"RAYYAN-INCLUSION: {{""Ann""=>""Included""}}"' for n in range(4)
    ]
    path = put(tmp_path, "x.csv", "item,title,worker,label,notes\n" + "\n".join(lines))
    expected = [(0, "u", "a"), (0, "v", "a"), (1, "u", "b"), (1, "v", "b")]
    assert rows_of(path)[0] == expected
    assert rows_of(path, task="item", worker="worker", label="label")[0] == expected
    path = put(tmp_path, "y.csv", path.read_text().replace("worker,label", "doctor,decision"))
    assert rows_of(path, task="item", worker="doctor", label="decision")[0] == expected


GOOD = labelbox(label_of("a@x", radio("tone", "pos")))
OF_KILI = {"externalId": "1", "labels": [kili("a@x", ["A"])]}


@pytest.mark.parametrize(
    "records",
    [
        [GOOD, GOOD | {"projects": {"p": None}}, GOOD | {"projects": {"p": {"labels": [None]}}}],
        [GOOD | {"projects": {"p": {"labels": [None]}}}],
        [GOOD, {"foo": 1}],
        [GOOD, GOOD | {"data_row": "d2"}],
        [labelbox(label_of("a@x") | {"annotations": {"classifications": "x"}})],
        [{"DataRow ID": "d1", "Created By": "a", "Label": {"classifications": "x"}}],
        [{"DataRow ID": "d1", "Created By": "a", "Label": {"classifications": []}}, {"DataRow ID": "d2"}],
        [OF_KILI, OF_KILI | {"labels": [None]}],
        [OF_KILI, {"foo": 1}],
        [{"externalId": "1", "labels": [kili("a@x", [], jsonResponse={"J": {"categories": ["x"]}})]}],
        [{"externalId": "1", "labels": [kili("a@x", [], jsonResponse="no JSON")]}],
        [potato("1", tone={"pos": 1}) | {"span_annotations": 3}],
        [potato("1", tone={"pos": 1}), potato("2") | {"span_annotations": 3}],
        [potato("1", tone={"pos": 1}), {"id": "2"}],
    ],
)
def test_records_that_are_not_as_these_services_write_them(tmp_path, records):
    with pytest.raises(CrowdpplError) as raised:
        crowdppl.read(put(tmp_path, "ann/x.jsonl", records))
    assert "\n" not in str(raised.value)


def test_answers_that_are_written_as_text(tmp_path):
    label = kili("a@x", ["A"])
    record = OF_KILI | {"labels": [label | {"jsonResponse": json.dumps(label["jsonResponse"])}]}
    assert rows_of(put(tmp_path, "x.json", json.dumps([record])))[0] == [("1", "a@x", "A")]


def test_projects_of_one_row_are_not_answers_given_again(tmp_path):
    two = {"p": GOOD["projects"]["p"], "q": {"labels": [label_of("a@x", radio("tone", "neg"))]}}
    with pytest.raises(DataError, match="'a@x' answered 'tone' in two projects, 'p' and 'q'"):
        crowdppl.read(put(tmp_path, "x.ndjson", [GOOD | {"projects": two}]))
    two["q"] = {"labels": [label_of("b@x", radio("tone", "neg"))]}
    rows = rows_of(put(tmp_path, "y.ndjson", [GOOD | {"projects": two}]))[0]
    assert rows == [("d1", "a@x", "pos"), ("d1", "b@x", "neg")]
