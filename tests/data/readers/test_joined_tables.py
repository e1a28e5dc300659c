"""Tables in several files: whose annotations they hold, whether they are on one question, and columns of some of them."""

import json

import pytest
from commands import run

import crowdppl
from crowdppl.errors import DataError

LONG = "task,worker,label\n1,u,a\n1,v,b\n"


def written(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def of(items, labels, head="task,label"):
    return "\n".join([head, *(f"{item},{label}" for item, label in zip(items, labels, strict=True))]) + "\n"


def annotations(data):
    codes = zip(
        data.items[data.item].tolist(),
        data.workers[data.worker].tolist(),
        data.labels[data.label].tolist(),
        strict=False,
    )
    return sorted(map(tuple, codes))


def test_folders_are_workers_where_they_share_items_by_file(tmp_path):
    files = {"ann/a.csv": of((1, 2), "xy"), "ann/b.csv": of((3, 4), "xy")}
    files |= {"bob/a.csv": of((1, 2), "yy"), "bob/b.csv": of((3, 4), "yx")}
    data = crowdppl.read(written(tmp_path, files))
    assert sorted(data.workers) == ["ann", "bob"]
    assert (2, "bob", "y") in annotations(data)
    assert any("names of the folders are the workers" in note for note in data.notes)


def test_files_are_workers_where_folders_are_batches(tmp_path):
    files = {"one/ann.csv": of((1, 2), "xy"), "one/bob.csv": of((1, 2), "yy")}
    files |= {"two/ann.csv": of((3, 4), "xy"), "two/bob.csv": of((3, 4), "yx")}
    data = crowdppl.read(written(tmp_path, files))
    assert sorted(data.workers) == ["ann", "bob"]
    assert (3, "ann", "x") in annotations(data)


def test_items_that_a_worker_labels_again_are_few(tmp_path):
    items = {"one": tuple(range(9)), "two": tuple(range(10, 19))}
    files = {
        f"{folder}/{name}.csv": of(of_one, "xyzxyzxyz") for folder, of_one in items.items() for name in ("ann", "bob")
    }
    files["two/ann.csv"] = of((*items["two"], 0), "xyzxyzxyzx")
    data = crowdppl.read(written(tmp_path, files))
    assert sorted(data.workers) == ["ann", "bob"]
    assert data.A == 37
    with pytest.raises(DataError, match="either their names or the folders"):  # most are in common
        crowdppl.read(written(tmp_path, {"two/ann.csv": of(range(9), "xyzxyzxyz")}))


def test_a_file_beside_folders_has_no_worker_without_a_name(tmp_path):
    files = {"a.csv": of((1, 2), "xy"), "b.csv": of((3, 4), "xy"), "y/a.csv": of((1, 2), "yy")}
    with pytest.raises(DataError, match="either their names or the folders"):
        crowdppl.read(written(tmp_path / "deep", files))
    flat = {name.replace("y/a", "c"): text for name, text in files.items()}
    assert sorted(crowdppl.read(written(tmp_path / "flat", flat)).workers) == ["a", "b", "c"]


@pytest.mark.parametrize("names", [("a", "b"), ("a",)])
def test_folders_of_workers_may_have_folders_of_one_name(tmp_path, names):
    for within in ("labels/", ""):
        files = {f"{who}/{within}{name}.csv": of((name, name * 2), "xy") for who in ("ann", "bob") for name in names}
        data = crowdppl.read(written(tmp_path / (within or "flat"), files))
        assert sorted(data.workers) == ["ann", "bob"]


def test_capitals_in_the_name_of_the_column_of_items(tmp_path):
    files = {f"annotations_{n}.csv": of((1, 2), "xy", "Task,Label") for n in (1, 2)}
    assert crowdppl.read(written(tmp_path / "parts", files)).J == 2
    files = {f"{who}/b{n}.csv": of((n, n + 5), "xy", "Task,Label") for who in ("ann", "bob") for n in (1, 2)}
    assert sorted(crowdppl.read(written(tmp_path / "folders", files)).workers) == ["ann", "bob"]


def test_an_unknown_column_of_items_is_asked_for(tmp_path):
    files = {f"label_{n}.csv": of((1, 2), "xy", "tweet_id,label") for n in (1, 2)}
    with pytest.raises(DataError, match=r"no column 'task'.* name the task column with task="):
        crowdppl.read(written(tmp_path, files))
    assert crowdppl.read(tmp_path, task="tweet_id").J == 2


def test_folders_of_either_reading_are_refused(tmp_path):
    files = {f"{folder}/{name}.csv": of((1, 2), "xy") for folder in ("one", "two") for name in ("ann", "bob")}
    with pytest.raises(DataError, match="either their names or the folders may be the workers"):
        crowdppl.read(written(tmp_path, files))


@pytest.mark.parametrize("name", ["annotator", "rater_id", "User", "coder"])
def test_a_column_of_workers_by_its_name_is_not_replaced_by_names_of_files(tmp_path, name):
    head = f"task,{name},label\n"
    files = {"a.csv": f"{head}1,u,x\n1,v,y\n", "b.csv": f"{head}2,u,x\n2,v,y\n"}
    folder = written(tmp_path, files)
    with pytest.raises(DataError, match="name the worker column"):
        crowdppl.read(folder)
    data = crowdppl.read(folder, worker=name)
    assert sorted(data.workers) == ["u", "v"]
    assert not any("names of the files" in note for note in data.notes)


def test_a_column_that_is_of_the_item_names_no_workers(tmp_path):
    head = "task,user,label"  # the author of a post
    files = {name: of((1, 2), ("me,x", "you,y"), head) for name in ("ann.csv", "bob.csv")}
    assert sorted(crowdppl.read(written(tmp_path, files)).workers) == ["ann", "bob"]


def test_authors_of_items_with_one_row_are_no_workers(tmp_path):
    files = {
        f"{who}.csv": of(range(n, n + 5), [f"u{item},x" for item in range(n, n + 5)], "task,user,label")
        for who, n in (("ann", 0), ("bob", 5))
    }
    data = crowdppl.read(written(tmp_path, files), labels=["x", "y"])
    assert sorted(data.workers) == ["ann", "bob"]
    assert any("the column 'user' is not taken for the workers" in note for note in data.notes)
    again = {name: text.replace("u1", "u0").replace("u2", "u0").replace("u3", "u4") for name, text in files.items()}
    again["bob.csv"] = again["bob.csv"].replace("u6", "u4").replace("u7", "u4")
    for changed in (again, {name: text.replace("user", "annotator") for name, text in files.items()}):
        with pytest.raises(DataError, match=r"the column '(user|annotator)' seems to name workers"):
            crowdppl.read(written(tmp_path, changed))


def test_a_column_that_repeats_the_file_names_no_further_workers(tmp_path):
    files = {f"{who}.csv": of((1, 2), (f"{model},x", f"{model},y"), "task,judge,label") for who, model in ("ag", "bl")}
    data = crowdppl.read(written(tmp_path, files))
    assert sorted(data.workers) == ["a", "b"]
    assert any("worker='judge' uses it" in note for note in data.notes)
    assert sorted(crowdppl.read(tmp_path, worker="judge").workers) == ["g", "l"]


@pytest.mark.parametrize(
    "names", [("batch1", "batch2"), ("train", "test", "dev"), ("Part 1", "Part 2"), ("labels_1", "labels_2")]
)
def test_names_of_parts_are_no_workers(tmp_path, names):
    files = {f"{name}.csv": of((2 * n, 2 * n + 1), "xy") for n, name in enumerate(names)}
    with pytest.raises(DataError, match="parts of the data, no workers"):
        crowdppl.read(written(tmp_path, files))


@pytest.mark.parametrize("names", [("ann", "bob"), ("1", "2"), ("April", "May"), ("annotator_1", "annotator_2")])
def test_names_of_people_are_workers(tmp_path, names):
    files = {f"{name}.csv": of((2 * n, 2 * n + 1), "xy") for n, name in enumerate(names)}
    assert sorted(map(str, crowdppl.read(written(tmp_path, files)).workers)) == sorted(names)


def test_parts_with_items_in_common_are_of_workers(tmp_path):
    files = {f"labels{n}.csv": of((1, 2), "xy") for n in (1, 2)}
    assert crowdppl.read(written(tmp_path, files)).J == 2


@pytest.mark.parametrize("again", ["ann (1)", "ann - Copy", "ann_v2", "ann_final"])
def test_a_further_file_of_a_worker_is_asked_about(tmp_path, again):
    files = {"ann.csv": of((1, 2), "xy"), f"{again}.csv": of((3, 4), "xy"), "bob.csv": of((1, 2), "yy")}
    data = crowdppl.read(written(tmp_path, files))
    assert any(f"{again!r} is taken for another worker than 'ann'" in note for note in data.notes)


def test_other_names_are_not_asked_about(tmp_path):
    files = {f"{name}.csv": of((1, 2), "xy") for name in ("ann", "anna", "ann_b", "ann2")}
    assert not any("taken for another worker" in note for note in crowdppl.read(written(tmp_path, files)).notes)


def test_a_column_of_some_files_is_blank_in_the_others(tmp_path):
    files = {"a.csv": LONG, "b.csv": "task,worker,label,comment\n2,u,a,hm\n2,v,b,\n"}
    data = crowdppl.read(written(tmp_path, files))
    assert (data.N, data.A) == (2, 4)
    assert any("a column that is not in all files is blank in the others: 'comment'" in note for note in data.notes)


@pytest.mark.parametrize("head", ["Task,Worker,Label", "task,worker,answer", "task,annotator,label"])
def test_files_that_lack_a_column_of_the_annotation_are_refused(tmp_path, head):
    with pytest.raises(DataError, match="its columns differ"):
        crowdppl.read(written(tmp_path, {"a.csv": LONG, "b.csv": f"{head}\n2,u,a\n"}))


def label_studio(item, name):
    result = {"id": "r", "type": "choices", "value": {"choices": ["a"]}, "from_name": name, "to_name": "t"}
    return json.dumps(
        [{"id": item, "data": {"text": str(item)}, "annotations": [{"completed_by": 1, "result": [result]}]}]
    )


def toloka(item, name):
    head = f"INPUT:image\tOUTPUT:{name}\tASSIGNMENT:task_id\tASSIGNMENT:worker_id\tASSIGNMENT:status"
    return f"{head}\nu\ta\tk{item}\tw1\tAPPROVED\n"


@pytest.mark.parametrize(("form", "ending"), [(label_studio, "json"), (toloka, "tsv")])
def test_files_of_two_questions_are_no_annotations_of_one(tmp_path, form, ending):
    folder = written(tmp_path, {f"one.{ending}": form(1, "tone"), f"two.{ending}": form(2, "facts")})
    with pytest.raises(DataError, match=r"answers to 'tone' and .* to 'facts'; choose one with question="):
        crowdppl.read(folder)
    data = crowdppl.read(folder, question="facts", labels=["a", "b"])
    assert data.N == 1
    assert any("1 file is without an answer to the question 'facts' and left out" in note for note in data.notes)
    folder = written(tmp_path / "equal", {f"one.{ending}": form(1, "tone"), f"two.{ending}": form(2, "tone")})
    assert crowdppl.read(folder, labels=["a", "b"]).N == 2


def test_a_file_with_answers_to_another_question_says_so(tmp_path):
    files = {"a.json": label_studio(1, "s"), "b.json": label_studio(2, "t")}
    data = crowdppl.read(written(tmp_path, files), question="s", labels=["a", "b"])
    assert data.A == 1
    assert any("without an answer to the question 's' and left out: 'b.json'" in note for note in data.notes)
    (tmp_path / "b.json").write_text('[{"id": 2, "data": {"text": "2"}, "annotations": []}]')
    data = crowdppl.read(tmp_path, labels=["a", "b"])
    assert any("without an annotation and left out: 'b.json'" in note for note in data.notes)


def test_the_command_names_columns_of_files_and_of_records(tmp_path):
    head = "task,who,label\n"
    files = {
        f"batch{n}.csv": "".join([head, *(f"{n}{i},{w},{'ab'[i % 2]}\n" for i in range(3) for w in "uv")])
        for n in (1, 2)
    }
    folder = written(tmp_path / "in", files)
    words = ("fit", folder, "--worker", "who", "--model", "majority-vote", "--out", tmp_path / "out")
    assert "names of the files" not in run(*words).output
    assert (tmp_path / "out" / "workers.csv").read_text().count("\n") == 3
    records = [{"externalId": f"e{i}", "worker": w, "labels": ["ab"[i % 2]]} for i in range(3) for w in "uv"]
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    assert "--task externalId" in run("look", path, "--task", "externalId", "--label", "labels").output


def test_the_command_takes_usual_names_in_capitals(tmp_path):
    rows = [f"{i},{w},{'ab'[i % 2]},sentence {i}" for i in range(3) for w in "uv"]
    path = tmp_path / "x.csv"
    path.write_text("\n".join(["Task, Worker,LABEL,Text", *rows]))
    words = ("fit", path, "--model", "majority-vote", "--text-column", "Text", "--report", "--out", tmp_path / "out")
    run(*words)
    assert "sentence 2" in (tmp_path / "out" / "truth.csv").read_text() + (tmp_path / "out" / "report.html").read_text()
