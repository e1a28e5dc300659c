"""Predictions that Label Studio imports: its own tasks, each with the consensus label and its probability."""

import json

import numpy as np
import pytest
from commands import run

import crowdppl
from crowdppl import DataError, FileError, export

KINDS = {
    "choices": ("choices", ["cat", "dog"], ["cat"]),
    "rating": ("rating", [1, 5], 1),
    "number": ("number", [10, 20], 10),
    "taxonomy": ("taxonomy", [[["Animal", "Cat"]], [["Animal", "Dog"]]], [["Animal", "Cat"]]),
    "pairwise": ("selected", ["left", "right"], "left"),
}


def project(kind, tasks=40, workers=5):
    """Return an export: the first answer is true of even tasks, the second of odd ones."""
    key, answers, _ = KINDS[kind]
    rng = np.random.default_rng(0)
    records = []
    for n in range(tasks):
        annotations = []
        for worker in range(workers):
            answer = answers[(n + (rng.random() < 0.15)) % 2]
            value = {key: [answer] if kind == "choices" else answer}
            control = {"from_name": "answer", "to_name": "text", "type": kind, "value": value}
            annotations.append({"completed_by": worker, "result": [control]})
        records.append({"id": 100 + n, "data": {"text": f"text {n} “é”"}, "annotations": annotations})
    return records


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_of_every_kind_of_answer(tmp_path, kind):
    source = tmp_path / "project.json"
    source.write_text(json.dumps(project(kind)), encoding="utf-8")
    data = crowdppl.read(source)
    posterior = crowdppl.fit(data, "dawid-skene", method="em")
    path = export.predictions(posterior, source, tmp_path / "predictions.json")
    tasks = json.loads(path.read_text(encoding="utf-8"))
    assert [task["data"] for task in tasks] == [task["data"] for task in project(kind)]
    truth = posterior.truth()
    key, _, first = KINDS[kind]
    for n, task in enumerate(tasks):
        (prediction,) = task["predictions"]
        (result,) = prediction["result"]
        assert set(task) == {"data", "predictions"}
        assert prediction["score"] == pytest.approx(truth["probability"][n])
        assert prediction["model_version"].startswith("crowdppl ")
        assert {name: result[name] for name in ("from_name", "to_name", "type")} == {
            "from_name": "answer",
            "to_name": "text",
            "type": kind,
        }
        assert (result["value"][key] == first) == (n % 2 == 0)
    # What is written has the form that the reader of exports takes.
    again = [{**task, "annotations": [{"completed_by": "crowd", **task["predictions"][0]}]} for task in tasks]
    (tmp_path / "again.json").write_text(json.dumps(again), encoding="utf-8")
    assert len(tasks) == crowdppl.read(tmp_path / "again.json").A


def test_tasks_of_another_project_and_other_files(tmp_path):
    source = tmp_path / "project.json"
    source.write_text(json.dumps(project("choices")), encoding="utf-8")
    posterior = crowdppl.fit(crowdppl.read(source), "dawid-skene", method="em")
    other = [task | {"id": f"x{task['id']}"} for task in project("choices")]
    (tmp_path / "other.json").write_text(json.dumps(other), encoding="utf-8")
    with pytest.raises(DataError, match="none of its 40 tasks"):
        export.predictions(posterior, tmp_path / "other.json", tmp_path / "out.json")
    more = [*project("choices"), project("choices")[0] | {"id": 7}]
    source.write_text(json.dumps(more), encoding="utf-8")
    tasks = json.loads(export.predictions(posterior, source, tmp_path / "out.json").read_text(encoding="utf-8"))
    assert ["predictions" in task for task in tasks] == [True] * 40 + [False]
    (tmp_path / "min.json").write_text(json.dumps([{"id": 1, "annotator": 1, "annotation_id": 1, "label": "cat"}]))
    with pytest.raises(FileError, match="not an export of Label Studio"):
        export.predictions(posterior, tmp_path / "min.json", tmp_path / "none.json")
    numbers = json.loads(json.dumps(project("choices")).replace('"choices"', '"number"'))
    (tmp_path / "numbers.json").write_text(json.dumps(numbers), encoding="utf-8")
    with pytest.raises(DataError, match="is no number of Label Studio"):
        export.predictions(posterior, tmp_path / "numbers.json", tmp_path / "none.json")
    assert not (tmp_path / "none.json").exists()


def test_the_command_and_texts(tmp_path):
    source = tmp_path / "project.json"
    source.write_text(json.dumps(project("choices")), encoding="utf-8")
    folder = tmp_path / "results"
    run("fit", source, "--out", folder, "--text-column", "data.text", "--model", "dawid-skene", "--method", "em")
    run("export", folder)
    assert "text 3 “é”" in (folder / "truth.csv").read_text(encoding="utf-8")
    run("export", folder, "--what", "predictions", "--source", source)
    assert len(json.loads((folder / "predictions.json").read_text(encoding="utf-8"))) == 40
    for options in (["--what", "predictions"], ["--source", source]):
        assert "--source" in run("export", folder, *options, code=2).output
