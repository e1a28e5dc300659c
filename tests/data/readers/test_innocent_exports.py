"""Exports in less usual forms that are read, what a review rejects, and what is said of tools that are not read."""

import json

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest

import crowdppl
from crowdppl import Annotations
from crowdppl.data.look import look
from crowdppl.errors import CrowdpplError, DataError, FileError

CHOICE = {"type": "choices", "value": {"choices": ["a"]}, "from_name": "q", "to_name": "t"}


def answer(worker, result, **others):
    return {"completed_by": worker, "result": [{"id": "r", **result}], **others}


def task(number, *annotations):
    return {"id": number, "data": {"text": str(number)}, "annotations": list(annotations)}


def put(folder, name, content):
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def lines(records):
    return "\n".join(map(json.dumps, records))


def rows_of(data):
    columns = (data.items[data.item], data.workers[data.worker], data.labels[data.label])
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("kind", ["number", "rating"])
def test_numbers_of_a_tool_are_read_without_its_times(tmp_path, kind):
    def result(value):
        return {"type": kind, "value": {kind: value}, "from_name": "q", "to_name": "t"}

    tasks = [
        task(n, *(answer(w, result(n + 0.5 * w), created_at="2024-05-01T10:00:00Z", lead_time=2.0) for w in (1, 2)))
        for n in range(1, 5)
    ]
    path = put(tmp_path, "x.json", tasks)
    with pytest.warns(crowdppl.CrowdpplWarning, match="are read as numbers"):
        data = crowdppl.read(path)
    assert (type(data).__name__, data.N) == ("NumericAnnotations", 4)
    with pytest.raises(crowdppl.OptionError, match="timestamp= is not used"):
        crowdppl.read(path, kind="numeric", timestamp="timestamp")
    classes = crowdppl.read(path, kind="ordinal")
    assert classes.timestamp is not None
    assert classes.seconds is not None


@pytest.mark.parametrize("key", ["tasks", "results", "data"])
def test_records_in_the_answer_of_an_interface(tmp_path, key):
    tasks = [task(1, answer(1, CHOICE), answer(2, CHOICE | {"value": {"choices": ["b"]}}))]
    path = put(tmp_path, "x.json", {key: tasks, "total": 7})
    data = crowdppl.read(path)
    assert (data.N, data.J) == (1, 2)
    assert any("it has 1 of 7 records" in note for note in data.notes)
    assert crowdppl.read(path, "label-studio").A == 2
    other = put(tmp_path, "y.json", {key: [{"x": 1}]})
    with pytest.raises(FileError, match="unknown format"):
        crowdppl.read(other)


def test_records_in_several_lists_are_read_together(tmp_path):
    first, second = task(1, answer(1, CHOICE), answer(2, CHOICE)), task(2, answer(1, CHOICE))
    data = crowdppl.read(put(tmp_path, "x.json", {"train": [first], "test": [second]}), labels=["a", "b"])
    assert (data.A, data.N) == (3, 2)
    assert any("the 2 lists 'train', 'test' are read as one" in note for note in data.notes)
    data = crowdppl.read(put(tmp_path, "y.json", {"tasks": [first], "results": [first]}), labels=["a", "b"])
    assert data.A == 2  # one list under two names
    assert not any("lists" in note for note in data.notes)


def response(user, value, status="submitted"):
    return {"user_id": user, "value": value, "status": status}


@pytest.mark.parametrize("turned", [False, True])
def test_data_sets_of_argilla_1(tmp_path, turned):
    given = [[response("u", "pos"), response("v", "neg")], [response("u", "pos"), response("v", None, "discarded")], []]
    if turned:  # as a data set of lists writes them
        given = [{key: [one[key] for one in all_of] for key in ("user_id", "value", "status")} for all_of in given]
    records = [
        {"text": str(n), "label": one, "label-suggestion": "pos", "external_id": f"e{n}", "metadata": "{}"}
        for n, one in enumerate(given)
    ]
    data = crowdppl.read(put(tmp_path, "x.jsonl", lines(records)))
    assert rows_of(data) == [("e0", "u", "pos"), ("e0", "v", "neg"), ("e1", "u", "pos")]


def test_lists_of_other_objects_are_not_of_argilla(tmp_path):
    records = [{"task": n, "worker": "u", "label": "ab"[n], "history": [{"value": 1, "by": "x"}]} for n in (0, 1)]
    assert crowdppl.read(put(tmp_path, "x.jsonl", lines(records))).N == 2
    meta = [{"user_id": 1, "value": 2, "status": "x"}]
    records = [{"task": n, "worker": "u", "label": "ab"[n], "meta": meta} for n in (0, 1)]
    assert crowdppl.read(put(tmp_path, "y.jsonl", lines(records))).labels.tolist() == ["a", "b"]


REVIEWED = [
    ("h1", "u", "Submitted", "x", "", "a"),
    ("h1", "v", "Submitted", "", "bad", "b"),
    ("h2", "u", "Approved", "", "bad", "b"),
]


def test_what_a_review_file_rejects_is_left_out(tmp_path):
    table = pd.DataFrame(REVIEWED, columns=["HITId", "WorkerId", "AssignmentStatus", "Approve", "Reject", "Answer.q"])
    table.to_csv(tmp_path / "x.csv", index=False)
    data = crowdppl.read(tmp_path / "x.csv")
    assert rows_of(data) == [("h1", "u", "a"), ("h2", "u", "b")]  # an approved one was paid
    assert any("a review file rejects" in note for note in data.notes)
    assert crowdppl.read(tmp_path / "x.csv", rejected=True).A == 3
    table.assign(Reject="").to_csv(tmp_path / "x.csv", index=False)
    assert crowdppl.read(tmp_path / "x.csv").A == 3

    toloka = pd.DataFrame(
        REVIEWED, columns=["ASSIGNMENT:task_id", "ASSIGNMENT:worker_id", "ASSIGNMENT:status", *"xy", "OUTPUT:q"]
    )
    toloka["ASSIGNMENT:status"] = toloka["ASSIGNMENT:status"].str.upper()
    toloka["ACCEPT:verdict"] = ["+", "-", "-"]
    toloka.drop(columns=["x", "y"]).to_csv(tmp_path / "x.tsv", sep="\t", index=False)
    assert rows_of(crowdppl.read(tmp_path / "x.tsv")) == [("h1", "u", "a"), ("h2", "u", "b")]
    assert crowdppl.read(tmp_path / "x.tsv", rejected=True).A == 3


@pytest.mark.parametrize(
    "words", [("no", 3), ("0", 3), ("FALSE", 3), ("-", 3), ("NA", 3), ("0.0", 3), ("1", 0), ("x", 0)]
)
def test_a_word_for_no_rejects_nothing(tmp_path, words):
    word, count = words
    rows = [(f"h{n}", "uv"[n % 2], "Submitted", word if n < 3 else "", "ab"[n % 2]) for n in range(6)]
    table = pd.DataFrame(rows, columns=["HITId", "WorkerId", "AssignmentStatus", "Reject", "Answer.q"])
    table.to_csv(tmp_path / "x.csv", index=False)
    assert 3 + count == crowdppl.read(tmp_path / "x.csv").A


def test_names_of_mechanical_turk_are_not_given_twice(tmp_path):
    text = "HITId,WorkerId,AssignmentStatus,Answer.q,workerid,reject\nh,u,Submitted,a,z,\nh,v,Submitted,b,z,x\n"
    data = crowdppl.read(put(tmp_path, "x.csv", text), labels=["a", "b"])
    assert (data.A, data.workers.tolist()) == (1, ["u"])  # "reject" alone has its usual name
    both = text.replace("reject", "reject,Reject").replace(",\n", ",,\n").replace(",x\n", ",x,\n")
    assert rows_of(crowdppl.read(put(tmp_path, "y.csv", both))) == [("h", "u", "a"), ("h", "v", "b")]


def test_results_of_the_command_line_tools_of_mechanical_turk(tmp_path):
    text = "hitid\tworkerid\tassignmentstatus\tAnswer.q\nh\tu\tApproved\ta\nh\tv\tRejected\tb\nh\tw\tApproved\tb\n"
    assert rows_of(crowdppl.read(put(tmp_path, "x.results", text))) == [("h", "u", "a"), ("h", "w", "b")]


def test_reviews_of_prodigy_are_said_to_hold_one_decision(tmp_path):
    record = {"_input_hash": 1, "_task_hash": 2, "answer": "accept", "_annotator_id": "r", "_timestamp": 1.0}
    both = [
        record | {"_view_id": "choice", "accept": [label], "options": [], "_input_hash": n}
        for n, label in enumerate("ab")
    ]
    versions = [{"sessions": ["u"], "accept": ["a"], "answer": "accept"}]
    data = crowdppl.read(put(tmp_path, "x.jsonl", lines(both)))
    assert not any("review" in note for note in data.notes)
    reviewed = [one | {"_view_id": "review", "versions": versions} for one in both]
    data = crowdppl.read(put(tmp_path, "x.jsonl", lines(reviewed)))
    assert any(note.startswith("x.jsonl: 2 records are of a review") for note in data.notes)


@pytest.mark.parametrize(
    "head", ["Task,Worker,Label", " task , worker , label ", "\ufeffITEM,WORKER,Label", "task,Worker,label"]
)
def test_usual_names_in_capitals_or_with_white_space(tmp_path, head):
    path = put(tmp_path, "x.csv", f"{head}\n1,u,a\n1,v,b\n")
    assert rows_of(crowdppl.read(path)) == [(1, "u", "a"), (1, "v", "b")]
    assert look(path).annotations is not None


def test_a_usual_name_as_it_is_comes_first():
    frame = pd.DataFrame({"Label": ["x", "x"], "task": [1, 1], "worker": ["u", "v"], "label": ["a", "b"]})
    assert Annotations.from_frame(frame).labels.tolist() == ["a", "b"]
    with pytest.raises(DataError, match="no column 'label'"):
        Annotations.from_frame(frame.rename(columns={"label": " label"}))  # it may be either


TOOLS = {
    "Encord": {"label_hash": "a", "data_units": {"u": {}}},
    "SuperAnnotate": {"metadata": {"name": "x"}, "instances": []},
    "tagtog": {"annotatable": {}, "metas": {}, "entities": []},
    "LightTag": {"examples": [], "relations": []},
    "Scale": {"task_id": "t", "type": "categorization", "response": {"annotations": {}}},
}


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("several", [False, True])
def test_tools_that_are_not_read_are_named(tmp_path, tool, several):
    path = put(tmp_path, "x.json", [TOOLS[tool]] * 2 if several else TOOLS[tool])
    with pytest.raises(FileError, match=f"is an export of {tool}, which is not read: write a table"):
        crowdppl.read(path)


def test_a_table_with_names_of_a_tool_is_read(tmp_path):
    records = [{"task_id": n, "type": "t", "worker_id": "u", "response": "ab"[n]} for n in (0, 1)]
    data = crowdppl.read(put(tmp_path, "x.jsonl", lines(records)), task="task_id", worker="worker_id", label="response")
    assert data.labels.tolist() == ["a", "b"]
    known = {"metadata": {"x": 1}, "instances": 2, "response": {"seconds": 3}, "externalId": "e", "labels": ["x"]}
    records = [{"task": n, "worker": "u", "label": "ab"[n]} | known for n in (0, 1)]
    assert crowdppl.read(put(tmp_path, "y.jsonl", lines(records))).labels.tolist() == ["a", "b"]
    records = [{"externalId": f"e{n}", "worker": "u", "labels": ["ab"[n]]} for n in (0, 1)]
    data = crowdppl.read(put(tmp_path, "z.jsonl", lines(records)), task="externalId", label="labels")
    assert data.labels.tolist() == ["a", "b"]


@pytest.mark.parametrize("empty", [{"metadata": {}, "instances": []}, {"task_id": "x", "type": "t", "response": {}}])
def test_columns_that_the_caller_names_come_before_tools(tmp_path, empty):
    full = {"metadata": {"name": "x"}, "instances": [], "task_id": "x", "type": "t", "response": {"x": 1}}
    for more in (empty, full):
        records = [{"q": n, "who": "u", "a": "ab"[n]} | more for n in (0, 1)]
        path = put(tmp_path, "x.json", records)
        assert crowdppl.read(path, task="q", worker="who", label="a").labels.tolist() == ["a", "b"]
        with pytest.raises(CrowdpplError, match=r"is an export of" if more is full else "no column 'task'"):
            crowdppl.read(path)


def test_lists_of_workers_have_as_many_labels():
    frame = pd.DataFrame({"task": [1, 2], "worker": [["u", "v"], ["u"]], "label": [["a", "b"], ["a", "a"]]})
    with pytest.raises(DataError, match="row 2: 1 worker, 'u', and 2 labels in one row"):
        Annotations.from_frame(frame)
    frame["label"] = [["a", "b"], ["a"]]
    assert rows_of(Annotations.from_frame(frame)) == [(1, "u", "a"), (1, "v", "b"), (2, "u", "a")]


def test_missing_values_among_the_words_of_a_dictionary():
    words = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, 1, 2, None]), pyarrow.array(["a", "b", None]))
    table = pyarrow.table({"task": [1, 1, 2, 2], "worker": ["u", "v", "u", "v"], "label": words})
    with pytest.warns(crowdppl.CrowdpplWarning, match="dropped 2 of 4 rows"):
        assert Annotations.from_frame(table).labels.tolist() == ["a", "b"]
    polars = pytest.importorskip("polars")
    full = polars.DataFrame(
        {"task": [1, 1], "worker": ["u", "v"], "label": polars.Series(["b", "a"], dtype=polars.Categorical)}
    )
    assert Annotations.from_frame(full).A == 2


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        (pd.Series([1], index=pd.MultiIndex.from_tuples([(1, "u")], names=["task", "worker"])), "reset_index"),
        ({"task": [1]}, r"pandas\.DataFrame\("),
        ([{"task": 1}], r"pandas\.DataFrame\("),
        (np.array([(1, 2)], dtype=[("task", int), ("label", int)]), "from_records"),
    ],
)
def test_what_stands_for_a_frame_is_told_how_to_become_one(wrong, advice):
    with pytest.raises(DataError, match=f"; pass .*{advice}"):
        Annotations.from_frame(wrong)


def test_a_look_at_a_table_that_is_no_table_of_workers_says_both(tmp_path):
    rows = "".join(f"{n // 4}\t{n % 4}\t{n % 2}\t{n % 3 % 2}\n" for n in range(12))
    seen = look(put(tmp_path, "x.tsv", f"part\tsentence\tmood:::good\tmood:::bad\n{rows}"))
    assert seen.annotations is None
    assert "no column 'worker'" in seen.reason
    assert "repeated; keep one row per item" in seen.reason


def test_parquet_of_a_tool(tmp_path):
    """Data sets on hubs are Parquet: a list of responses in each cell."""
    columns = {"id": ["a", "b"], "q.responses": [["x", "y"], ["x"]], "q.responses.users": [["u", "v"], ["u"]]}
    table = pyarrow.table(columns | {"q.responses.status": [["submitted", "submitted"], ["submitted"]]})
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
    data = crowdppl.read(tmp_path / "x.parquet")
    assert rows_of(data) == [("a", "u", "x"), ("a", "v", "y"), ("b", "u", "x")]
    assert rows_of(crowdppl.read(tmp_path / "x.parquet", "argilla")) == rows_of(data)
    assert look(tmp_path / "x.parquet").format == "argilla"
    first = pyarrow.table({"text": ["t"], "q": [[response("u", "x"), response("v", "y")]], "external_id": ["e"]})
    pyarrow.parquet.write_table(first, tmp_path / "y.parquet")
    assert rows_of(crowdppl.read(tmp_path / "y.parquet")) == [("e", "u", "x"), ("e", "v", "y")]


def test_parquet_with_other_lists_is_a_table(tmp_path):
    lists = pyarrow.table(
        {"task": [1, 2], "worker": [["u", "v"]] * 2, "label": [["a", "b"], ["a", "a"]], "x": [{"y": 1}] * 2}
    )
    pyarrow.parquet.write_table(lists, tmp_path / "x.parquet")
    assert rows_of(crowdppl.read(tmp_path / "x.parquet"))[0] == (1, "u", "a")
    nested = pyarrow.table({"id": [1, 2], "annotations": [[{"tool": "u", "mark": "a"}], [{"tool": "u", "mark": "b"}]]})
    pyarrow.parquet.write_table(nested, tmp_path / "y.parquet")
    with pytest.raises(DataError, match="columns are 'id', 'annotations'"):
        crowdppl.read(tmp_path / "y.parquet")
    assert look(tmp_path / "y.parquet").annotations is None


@pytest.mark.parametrize(
    "more",
    [
        {"fields": [{"x": 1}] * 2, "responses": [[{"user_id": "u"}]] * 2},
        {"id": [1, 2], "data": [{"text": "x"}] * 2, "annotations": [[{"result": "x"}]] * 2},
        {"text": ["x"] * 2, "spans": [[{"start": 1}]] * 2, "_input_hash": [1, 2], "answer": ["accept"] * 2},
    ],
)
def test_parquet_with_a_row_for_each_annotation_is_a_table(tmp_path, more):
    path = tmp_path / "x.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"task": [1, 2], "worker": ["u"] * 2, "label": ["a", "b"]} | more), path)
    assert rows_of(crowdppl.read(path)) == [(1, "u", "a"), (2, "u", "b")]
    pyarrow.parquet.write_table(pyarrow.table({"q": [1, 2], "who": ["u"] * 2, "a": ["a", "b"]} | more), path)
    assert rows_of(crowdppl.read(path, task="q", worker="who", label="a")) == [(1, "u", "a"), (2, "u", "b")]
    with pytest.raises(CrowdpplError, match=r"contains no answers|not a list of objects|no annotator"):
        crowdppl.read(path)
