"""What evaluation tools write, read as verdicts: small files in each format, what is never a failure, and every message."""

import gzip
import json
import zipfile

import pandas as pd
import pytest
from judge_files import (
    archive,
    component,
    grade,
    harness,
    inspect_log,
    langfuse_score,
    metric,
    promptfoo_results,
    result,
    sample,
)

from crowdppl.errors import DataError, FileError, OptionError
from crowdppl.judges import HumanLabels, State, read, read_frame
from crowdppl.judges.readers import formats, rows

GIVEN, MISSING, UNPARSEABLE = State.GIVEN, State.MISSING, State.UNPARSEABLE


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a file: an object as JSON, a list of lines as JSON Lines, a frame by its ending."""

    def write_one(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, pd.DataFrame):
            content.to_parquet(path, index=False) if name.endswith(".parquet") else content.to_csv(path, index=False)
        elif name.endswith(".jsonl"):
            path.write_text("".join(json.dumps(line) + "\n" for line in content))
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
        return path

    return write_one


def table(verdicts):
    """Return rows of item, judge, label and state."""
    names = [None if code < 0 else verdicts.labels[code] for code in verdicts.label]
    return list(zip(verdicts.items[verdicts.item], verdicts.judges[verdicts.judge], names, verdicts.state, strict=True))


# ---------------------------------------------------------------------- Inspect


def test_inspect(write):
    nothing = {"value": "I", "explanation": "Grade not found in model output: well, it depends"}
    path = write(
        "log.json",
        inspect_log(
            sample("q1", {"model_graded_qa": grade("C")}),
            sample("q2", {"model_graded_qa": grade("I")}, completed_at="2026-03-01T11:00:00+00:00"),
            sample("q3", {"model_graded_qa": grade("N")}),
            sample("q4", {"model_graded_qa": nothing}),
            sample("q5", {"model_graded_qa": {"value": float("nan")}}),
            sample("q6", {"model_graded_qa": {"value": None}}),
            sample("q7", None, error={"message": "timed out"}),
            scorers=[{"name": "model_graded_qa", "options": {"model": "openai/grader"}}],
        ),
    )
    v = read(path)
    assert table(v) == [
        ("q1", "openai/grader", "C", GIVEN),
        ("q2", "openai/grader", "I", GIVEN),
        ("q3", "openai/grader", "N", GIVEN),
        ("q4", "openai/grader", None, UNPARSEABLE),
        ("q5", "openai/grader", None, MISSING),
        ("q6", "openai/grader", None, MISSING),
    ]
    assert v.systems.tolist() == ["mistral/small"]
    assert v.families.tolist() == ["openai"]
    assert v.when.astype("datetime64[h]").astype(str).tolist()[:2] == ["2026-03-01T10", "2026-03-01T11"]
    assert v.notes[:2] == (
        "log.json: read as Inspect AI's log (JSON, .eval), 6 verdicts",
        "log.json: 1 samples that ended with an error left out",
    )


def test_inspect_logs_of_several_systems_in_a_folder(write, tmp_path):
    for model in ("a/x", "b/y"):
        write(
            f"logs/{model[0]}.json",
            inspect_log(*(sample(n, {"model_graded_fact": grade("C")}) for n in (1, 2)), model=model),
        )
    write("logs/logs.json", {"a.json": {"eval": "a header without samples"}})
    write("logs/notes.txt", "not read")
    v = read(tmp_path / "logs", labels=["C", "I"])
    assert v.pairs
    assert v.items.tolist() == ["1 / a/x", "2 / a/x", "1 / b/y", "2 / b/y"]
    assert v.notes[1:3] == (
        "logs: 1 files without verdicts left out: 'logs.json'",
        "logs: 2 files: 'a.json', 'b.json'",
    )


def test_samples_of_different_tasks_are_different_items(write, tmp_path):
    for task in ("sums", "riddles"):
        write(f"logs/{task}.json", inspect_log(sample(1, {"qa": grade("C")}), task=task))
    assert read(tmp_path / "logs", labels=["C", "I"]).items.tolist() == ["riddles/1", "sums/1"]


def test_inspect_scorers_epochs_and_values(write):
    path = write(
        "log.json",
        inspect_log(
            sample(1, {"match": {"value": 1}, "rubric": {"value": {"clear": 3, "kind": 5}}}),
            sample(1, {"match": {"value": 0}, "rubric": {"value": {"clear": 2, "kind": 5}}}, epoch=2),
            sample(2, {"match": {"value": 0}, "rubric": {"value": [1, 2]}}),
            scorers=[{"name": "match"}, {"name": "rubric", "options": {"model": ["m/a", "m/b"]}}],
        ),
    )
    message = (
        "log.json: metrics with verdicts of different types: 'match' true or false, 'rubric.clear' whole numbers, 'rubric.kind' "
        "whole numbers; choose those that measure the same with metric=..."
    )
    with pytest.raises(DataError) as error:
        read(path)
    assert str(error.value) == message
    v = read(path, metric="match")
    assert v.labels.tolist() == [False, True]
    assert v.label.tolist() == [1, 0, 0]  # two epochs of one sample are repeats
    graded = read(path, metric=["rubric.clear", "rubric.kind"])
    assert graded.judges.tolist() == ["m/a + m/b: rubric.clear", "m/a + m/b: rubric.kind"]
    assert graded.labels.tolist() == [2, 3, 5]
    assert graded.score.tolist() == [3, 5, 2, 5]
    with pytest.raises(
        DataError, match=r"^log.json: no metric 'mach' \(did you mean 'match'\?\); its metrics are 'match', "
    ):
        read(path, metric="mach")


def test_inspect_edited_scores_are_those_of_people(write):
    edited = grade(
        "C",
        history=[
            {"value": "I", "provenance": None},
            {"value": "C", "provenance": {"author": "ann", "reason": "it was correct"}},
        ],
    )
    path = write("log.json", inspect_log(sample(1, {"qa": edited}), sample(2, {"qa": grade("C")})))
    v = read(path)
    assert [row[2] for row in table(v)] == ["I", "C"]
    _, human = HumanLabels.from_frame(v.human).align(v)
    assert human.item.tolist() == [0]
    assert human.labels[human.label].tolist() == ["C"]
    assert human.annotators.tolist() == ["ann"]


def test_inspect_grader_of_the_role_and_of_old_logs(write):
    log = inspect_log(sample(1, {"model_graded_qa": {"value": "C"}}), model_roles={"grader": {"model": "x/judge"}})
    log["eval"]["scorers"] = [{"name": "model_graded_qa"}]
    assert read(write("a.json", log), labels=["C", "I"]).judges.tolist() == ["x/judge"]
    old = inspect_log({"id": 1, "epoch": 1, "score": {"value": "C"}}, scorers=[{"name": "includes"}])
    assert read(write("b.json", old), labels=["C", "I"]).judges.tolist() == ["includes"]


@pytest.mark.parametrize("header", ["header.json", "_journal/start.json"])
def test_inspect_binary_logs(write, tmp_path, header):
    log = inspect_log(sample(1, {"qa": grade("C")}), sample(2, {"qa": grade("I")}))
    binary = read(archive(tmp_path / "log.eval", log, header))
    assert table(binary) == table(read(write("log.json", log)))
    with pytest.raises(
        FileError, match=r"^log.eval has [0-9,]+ bytes once decompressed; raise limit= if this is intended$"
    ):
        read(tmp_path / "log.eval", limit=100)


def test_inspect_binary_logs_that_cannot_be_read(tmp_path, monkeypatch):
    path = archive(tmp_path / "log.eval", inspect_log(sample(1, {"qa": grade("C")})), "other.json")
    refused(lambda: read(path), FileError, "log.eval has no header.json, and is not Inspect's log; name another format")

    def unknown(*_):
        raise NotImplementedError("That compression method is not supported")

    archive(path, inspect_log(sample(1, {"qa": grade("C")})))
    monkeypatch.setattr(zipfile.ZipFile, "read", unknown)
    refused(
        lambda: read(path),
        FileError,
        "log.eval is compressed by a method that this Python cannot read; convert it with: inspect log convert log.eval --to "
        "json --output-dir logs",
    )


# ---------------------------------------------------------------------- promptfoo


@pytest.mark.parametrize("form", ["file", "summary", "lines"])
def test_promptfoo(write, form):
    results = promptfoo_results()
    content = {
        "file": {"evalId": "e", "results": {"version": 3, "results": results, "stats": {}}, "config": {}},
        "summary": {"version": 2, "results": results, "stats": {}},
        "lines": results,
    }[form]
    v = read(write("out.jsonl" if form == "lines" else "out.json", content))
    assert table(v) == [
        ("one / openai:small", "anthropic:judge", True, GIVEN),
        ("two / openai:small", "anthropic:judge", False, GIVEN),
        ("three / openai:small", "anthropic:judge", None, UNPARSEABLE),
        ("one / openai:large", "anthropic:judge", None, UNPARSEABLE),
        ("two / openai:large", "anthropic:judge", True, GIVEN),
    ]
    assert v.score.tolist()[:2] == [0.9, 0.2]
    assert (
        v.notes[1]
        == f"{'out.jsonl' if form == 'lines' else 'out.json'}: 1 results whose system ended with an error left out"
    )
    _, human = HumanLabels.from_frame(v.human).align(v)
    assert v.items[human.item].tolist() == ["one / openai:small", "two / openai:large"]
    assert human.label.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("entry", "state"),
    [
        ({"type": "llm-rubric", "reason": "API error: 429 Too Many Requests"}, MISSING),
        ({"type": "llm-rubric", "reason": "No output"}, MISSING),
        ({"type": "factuality", "reason": "Request timed out after 300 s"}, MISSING),
        ({"type": "llm-rubric", "reason": "Could not extract JSON from llm-rubric response"}, UNPARSEABLE),
        ({"type": "llm-rubric", "reason": "The answer names an API error: it is wrong"}, GIVEN),
        ({"type": "llm-rubric", "reason": "No output of the program is named"}, GIVEN),
        ({"type": "llm-rubric", "reason": "Error: the sum is wrong", "score": 0.2}, GIVEN),
        ({"type": "llm-rubric", "reason": "Error: expected 4, got 5"}, GIVEN),
        ({"type": "llm-rubric", "reason": "Network error handling is missing"}, GIVEN),
        ({"type": "llm-rubric", "reason": "Rate limit is not mentioned in the answer"}, GIVEN),
        ({"type": "javascript", "reason": "Error: expected 3"}, GIVEN),
    ],
)
def test_graders_of_promptfoo_that_did_not_reply(write, entry, state):
    judged = {
        "pass": False,
        "score": entry.get("score", 0),
        "reason": entry["reason"],
        "assertion": {"type": entry["type"]},
    }
    good = {**judged, "pass": True, "reason": "good", "score": 1}
    answers = [
        {"success": False, "provider": "p", "vars": {"q": name}, "gradingResult": {"componentResults": [held]}}
        for name, held in (("one", judged), ("two", good), ("three", {**good, "pass": False, "reason": "bad"}))
    ]
    v = read(write("out.json", {"results": answers}))
    assert v.state.tolist() == [state, GIVEN, GIVEN]
    assert any("graders did not reply" in note for note in v.notes) is (state == MISSING)


def test_promptfoo_items_prompts_and_assertions(write):
    inner = {
        "pass": True,
        "score": 1,
        "assertion": {"type": "assert-set"},
        "componentResults": [component(True, "contains")],
    }
    path = write(
        "out.json",
        {
            "results": [
                result({"b": 2, "a": "x", "_conversation": []}, component(True), component(False)),
                result({}, inner, promptIdx=1, testIdx=4),
            ]
        },
    )
    v = read(path)
    assert v.items.tolist() == ['{"a": "x", "b": 2}', "4"]
    assert v.judges.tolist() == ["llm-rubric", "llm-rubric 2", "contains"]
    assert v.systems.tolist() == ["openai:small, prompt 1", "openai:small, prompt 2"]
    assert v.notes[1] == (
        "out.json: 3 metrics, 'llm-rubric', 'llm-rubric 2', 'contains', each a judge; if they do not measure the same, choose "
        "with metric=..."
    )


# ---------------------------------------------------------------------- DeepEval


def test_deepeval(write):
    cases = [
        {"name": "case a", "input": "?", "metricsData": [metric("Correctness", True, 0.8, evaluationCost=0.002)]},
        {"name": "case b", "input": "?", "metricsData": [metric("Correctness", False, 0.3)]},
        {
            "name": "case c",
            "input": "?",
            "metricsData": [
                metric(
                    "Correctness", False, None, error="Evaluation LLM outputted an invalid JSON. Use a better model."
                )
            ],
        },
        {
            "name": "case d",
            "input": "?",
            "metricsData": [metric("Correctness", False, None, error="Request timed out")],
        },
        {"name": "case e", "input": "?", "metricsData": []},
    ]
    v = read(write("run.json", {"testCases": cases, "hyperparameters": {"model": "ours-2"}}))
    assert table(v) == [
        ("case a", "gpt-4.1", True, GIVEN),
        ("case b", "gpt-4.1", False, GIVEN),
        ("case c", "gpt-4.1", None, UNPARSEABLE),
        ("case d", "gpt-4.1", None, MISSING),
    ]
    assert v.systems.tolist() == ["ours-2"]
    assert v.cost.tolist()[0] == 0.002
    assert v.score.tolist()[:2] == [0.8, 0.3]
    assert "run.json: 1 test cases without metrics left out" in v.notes


def test_deepeval_in_other_forms(write):
    snake = {
        "test_results": [
            {"name": "t", "input": "one", "metrics_data": [metric("A", True, 1.0), metric("B", False, 0.0)]},
            {"name": "t", "input": "two", "metrics_data": [metric("A", False, 0.0)]},
        ]
    }
    v = read(write("result.json", snake))
    assert table(v) == [
        ("one", "gpt-4.1: A", True, GIVEN),
        ("one", "gpt-4.1: B", False, GIVEN),
        ("two", "gpt-4.1: A", False, GIVEN),
    ]
    # A run on a single line, as DeepEval writes it, and the metrics of early versions.
    early = {
        "testCases": [
            {"name": n, "input": n, "metricsMetadata": [{"metric": "M", "score": s, "minimumScore": 0.5}]}
            for n, s in (("a", 0.7), ("b", 0.2))
        ]
    }
    v = read(write("20260101_120000", json.dumps(early)))
    assert table(v) == [("a", "M", True, GIVEN), ("b", "M", False, GIVEN)]


# ---------------------------------------------------------------------- lm-evaluation-harness


def test_lm_eval(write):
    lines = [harness(0, 1.0), harness(1, 0.0), harness(2, 0.0, "[invalid]"), harness(3, float("nan"))]
    path = write("org__model/samples_gsm8k_2026-01-05T10-00-00.000001.jsonl", lines)
    v = read(path)
    assert table(v) == [
        ("gsm8k/0", "exact_match", True, GIVEN),
        ("gsm8k/1", "exact_match", False, GIVEN),
        ("gsm8k/2", "exact_match", None, UNPARSEABLE),
        ("gsm8k/3", "exact_match", None, MISSING),
    ]
    assert v.systems.tolist() == ["org/model"]


def test_lm_eval_metrics_and_filters(write):
    lines = [
        harness(
            n,
            float(n),
            filter=name,
            metrics=["exact_match", "f1", "words", "bypass"],
            f1=0.5,
            words=["a", 1],
            bypass=999,
        )
        for n in (0, 1)
        for name in ("strict", "flexible")
    ]
    path = write("samples.jsonl", lines)
    v = read(path, metric=["exact_match (strict)", "exact_match (flexible)"])
    assert v.judges.tolist() == ["exact_match (strict)", "exact_match (flexible)"]
    assert v.items.tolist() == [0, 1]
    assert v.labels.tolist() == [False, True]
    scores = read(path, metric="f1 (strict)")
    assert (len(scores.labels), scores.score.tolist()) == (0, [0.5, 0.5])
    assert "samples.jsonl: 4 values of 'words', which are not numbers left out" in v.notes
    folder = path.parent / "both"
    for model in ("a__x", "b__y"):
        write(f"both/{model}/samples_t_2026-01-05T10-00-00.jsonl", [harness(0, 1.0), harness(1, 0.0)])
        write(f"both/{model}/results_2026-01-05T10-00-00.json", {"results": {"t": {"exact_match,none": 0.5}}})
    v = read(folder)
    assert v.items.tolist() == ["t/0 / a/x", "t/1 / a/x", "t/0 / b/y", "t/1 / b/y"]


# ---------------------------------------------------------------------- Langfuse


def langfuse_scores():
    return pd.DataFrame(
        {
            "id": list("abcdefg"),
            "timestamp": ["2026-02-01T08:00:00.000Z"] * 7,
            "traceId": ["t1", "t2", "t3", "t4", "t1", "t2", ""],
            "observationId": [""] * 7,
            "name": ["correct"] * 7,
            "source": ["EVAL", "EVAL", "API", "EVAL", "ANNOTATION", "ANNOTATION", "EVAL"],
            "dataType": ["BOOLEAN"] * 7,
            "value": [1, 0, 1, None, 0, 0, 1],
            "stringValue": ["True", "False", "True", "", "False", "False", "True"],
            "authorUserId": ["", "", "", "", "ann", "bob", ""],
            "comment": [""] * 7,
        }
    )


@pytest.mark.parametrize("name", ["traceName", "trace_name"])
def test_the_name_of_a_trace_of_langfuse_is_the_system(write, name):
    v = read(write("x.csv", langfuse_scores().assign(**{name: ["one", "two", "one", "two", "one", "two", ""]})))
    assert dict(zip(v.items.tolist(), v.systems[v.system].tolist(), strict=True)) == {
        "t1": "one",
        "t2": "two",
        "t3": "one",
        "t4": "two",
    }


@pytest.mark.parametrize("form", ["camel.csv", "snake.csv", "records.json", "lines.jsonl", "answer.json"])
def test_langfuse(write, form):
    scores = langfuse_scores()
    if form == "snake.csv":
        scores.columns = ["id", "timestamp", "trace_id", "observation_id", "name", "source", "data_type", "value", "string_value",
                          "author_user_id", "comment"]  # fmt: skip
    records = [{k: None if pd.isna(x) or x == "" else x for k, x in row.items()} for row in scores.to_dict("records")]
    content = {"records.json": records, "lines.jsonl": records, "answer.json": {"data": records, "meta": {"page": 1}}}
    v = read(write(form, content.get(form, scores)))
    assert table(v) == [
        ("t1", "correct", True, GIVEN),
        ("t2", "correct", False, GIVEN),
        ("t3", "correct", True, GIVEN),
        ("t4", "correct", None, MISSING),
    ]
    assert v.when[0].astype("datetime64[h]").astype(str) == "2026-02-01T08"
    _, human = HumanLabels.from_frame(v.human).align(v)
    assert v.items[human.item].tolist() == ["t1", "t2"]
    assert (human.label.tolist(), human.annotators.tolist()) == ([0, 0], ["ann", "bob"])
    assert f"{form}: 1 scores without a trace left out" in v.notes


def test_langfuse_categories_and_numbers(write):
    lines = [
        langfuse_score("t1", "tone", 2, "CATEGORICAL", text="kind", observation="o1"),
        langfuse_score("t1", "tone", 1, "CATEGORICAL", text="rude", observation="o2"),
        langfuse_score("t1", "help", 0.25, "NUMERIC", observation="o1"),
        langfuse_score("t1", "stars", 5, "NUMERIC", observation="o1"),
        langfuse_score("t1", "stars", 1, "NUMERIC", observation="o2"),
        langfuse_score("t1", "stars", 4, "NUMERIC", "ANNOTATION", observation="o2"),
        langfuse_score("t1", "help", 0.5, "NUMERIC", "ANNOTATION", observation="o2"),
    ]
    path = write("scores.jsonl", lines)
    v = read(path, metric="tone")
    assert table(v) == [("o1", "tone", "kind", GIVEN), ("o2", "tone", "rude", GIVEN)]  # the observations of one trace
    stars = read(path, metric="stars")
    assert (stars.labels.tolist(), stars.score.tolist()) == ([1, 5], [5, 1])
    assert stars.human["verdict"].tolist() == [4]
    assert len(read(path, metric="help", labels=None).labels) == 0
    rows = read_frame(path, metric="help")
    assert rows.human is None
    assert "scores.jsonl: 1 verdicts of people left out, which are blank or fractions" in rows.notes


# ---------------------------------------------------------------------- Phoenix


def test_phoenix_annotations(write):
    frame = pd.DataFrame(
        {
            "span_id": ["s1", "s2", "s3", "s4", "s1"],
            "annotation_name": ["correctness"] * 5,
            "annotator_kind": ["LLM", "LLM", "LLM", "LLM", "HUMAN"],
            "result.label": ["correct", "incorrect", "NOT_PARSABLE", None, "incorrect"],
            "result.score": [1.0, 0.0, None, None, None],
            "metadata": [{"model": "gpt-4o"}] * 4 + [{"note": "seen"}],
            "user_id": [None] * 4 + ["u7"],
        }
    )
    expected = [
        ("s1", "gpt-4o", "correct", GIVEN),
        ("s2", "gpt-4o", "incorrect", GIVEN),
        ("s3", "gpt-4o", None, UNPARSEABLE),
        ("s4", "gpt-4o", None, MISSING),
    ]
    as_csv = frame.assign(metadata=frame["metadata"].map(json.dumps))
    for path in (write("a.csv", as_csv), write("a.parquet", as_csv)):
        v = read(path)
        assert table(v) == expected
        assert v.human.to_dict("records") == [
            {"item": "s1", "metric": "correctness", "verdict": "incorrect", "annotator": "u7"}
        ]
    lines = [
        {"span_id": row["span_id"], "name": row["annotation_name"], "annotator_kind": row["annotator_kind"],
         "result": {"label": row["result.label"]}, "metadata": row["metadata"]}
        for row in frame.to_dict("records")
    ]  # fmt: skip
    assert table(read(write("a.jsonl", lines))) == expected
    assert table(read(write("a.json", {"data": lines, "next_cursor": None}))) == expected


def test_phoenix_evaluations(write):
    frame = pd.DataFrame({"context.span_id": ["s1", "s2", "s3"], "score": [1, 0, None], "explanation": ["a", "b", "c"]})
    v = read(write("qa_correctness.csv", frame))
    assert table(v) == [
        ("s1", "qa_correctness", True, GIVEN),
        ("s2", "qa_correctness", False, GIVEN),
        ("s3", "qa_correctness", None, MISSING),
    ]
    fractions = read(write("relevance.csv", frame.assign(score=[0.3, 0.9, None])))
    assert (len(fractions.labels), fractions.state.tolist()) == (0, [GIVEN, GIVEN, MISSING])


# ---------------------------------------------------------------------- tables


@pytest.mark.parametrize(
    ("judge", "verdict"),
    [("judge", "verdict"), ("model_judge", "label"), ("Grader", "grade"), ("evaluator", "judg" + "ment"),
     ("worker", "Judge" + "ment")],
)  # fmt: skip
def test_tables(write, judge, verdict):
    frame = pd.DataFrame(
        {"item": [1, 1, 2], judge: ["j", "k", "j"], verdict: ["yes", "parse_error", "no"], "model": "s"}
    )
    expected = [(1, "j", "yes", GIVEN), (1, "k", None, UNPARSEABLE), (2, "j", "no", GIVEN)]
    for path in (write("t.csv", frame), write("t.parquet", frame), write("t.jsonl", frame.to_dict("records"))):
        v = read(path)
        assert table(v) == expected
        assert v.systems.tolist() == ["s"]
    assert read_frame(path).format == "table"


def test_model_without_judges_is_no_system(write):
    with pytest.raises(
        FileError, match=r"^t.csv: verdicts in an unknown format \(columns 'item', 'model', 'verdict'\); "
    ):
        read(write("t.csv", pd.DataFrame({"item": [1], "model": ["m"], "verdict": [1]})))


def test_options_and_compression(write, tmp_path):
    frame = pd.DataFrame({"id": [1, 2], "item": [3, 4], "judge": "j", "verdict": ["yes", "no"]})
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(frame.to_csv(index=False).encode()))
    assert read(path, item="id", labels=["yes", "no", "maybe"]).items.tolist() == [1, 2]
    with pytest.raises(FileError, match=r"has more than 10 bytes once decompressed; raise limit= if this is intended$"):
        read(write("log.json", inspect_log(sample(1, {"qa": grade("C")}))), limit=10)


# ---------------------------------------------------------------------- messages


def refused(call, kind, message):
    with pytest.raises(kind) as error:
        call()
    assert str(error.value) == message


KNOWN = ", ".join(map(repr, formats.NAMES))


def test_unknown_formats(write, tmp_path):
    refused(
        lambda: read(write("x.json", {"runs": [], "meta": {}})),
        FileError,
        f"x.json: verdicts in an unknown format (keys 'runs', 'meta'); known are {KNOWN}; name it with format=..., or write a "
        f"table with the columns item, judge and verdict",
    )
    refused(
        lambda: read("x.json", "inspekt"),
        OptionError,
        f"no format 'inspekt' (did you mean 'inspect'?); use one of {KNOWN}",
    )
    refused(
        lambda: read(write("t.csv", pd.DataFrame({"a": [1], "b": [2]})), "langfuse"),
        FileError,
        "t.csv is not Langfuse's scores (CSV, JSON, JSON Lines); it has 'a', 'b'; name another format",
    )
    refused(
        lambda: read(tmp_path / "none.json"),
        FileError,
        f"no file {tmp_path / 'none.json'}; check the name and the folder",
    )


def test_files_that_cannot_be_used(write):
    refused(
        lambda: read(write("log.json", inspect_log())),
        DataError,
        "log.json: a log without samples (status 'success'); read the whole log",
    )
    refused(
        lambda: read(write("log.json", inspect_log(sample(1, None)))),
        DataError,
        "log.json: no verdict in this file of Inspect AI's log (JSON, .eval) (left out: 1 samples without scores); export the "
        "scores, too",
    )
    refused(
        lambda: read(write("log.json", inspect_log({"scores": {"qa": {"value": "C"}}}))),
        DataError,
        "log.json, sample 1: no id; write the log again with Inspect",
    )
    refused(
        lambda: read(write("log.eval", "PK")),
        FileError,
        "log.eval cannot be read as Inspect's log: File is not a zip file; download it again",
    )
    refused(
        lambda: read(write("s.jsonl", [harness(None, 1.0), harness(1, 1.0)])),
        DataError,
        "s.jsonl, line 1: no doc_id; write the samples again with --log_samples",
    )
    refused(
        lambda: read(
            write("s.jsonl", [langfuse_score("t", None, 1, "NUMERIC"), langfuse_score("t", "x", 1, "NUMERIC")])
        ),
        DataError,
        "s.jsonl, row 1: no name of the score; export the scores again",
    )
    refused(
        lambda: read(write("s.jsonl", [langfuse_score("t", "h", 1, "NUMERIC", "ANNOTATION"), langfuse_score("t", "x", 1, "")]),
                     metric="h"),
        DataError,
        "s.jsonl: no judge has the metric 'h'; name one of a judge, too",
    )  # fmt: skip
    refused(
        lambda: read(write("t.csv", pd.DataFrame({"item": [1], "judge": ["j"], "verdict": [1]})), metric="x"),
        OptionError,
        "t.csv is a table without metrics; metric= is for files of evaluation tools, and for tables with verdicts on "
        "several criteria",
    )
    refused(lambda: read("x", metric=3), OptionError, "metric=3; it must be a list")
    refused(lambda: read(write("bad.json", "{]")), FileError, BROKEN)


BROKEN = (
    "bad.json is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1); export it again"
)


def test_folders(write, tmp_path):
    (tmp_path / "empty").mkdir()
    refused(
        lambda: read(tmp_path / "empty"),
        FileError,
        f"{tmp_path / 'empty'} has no file with verdicts (.json, .jsonl, .ndjson, .csv, .tsv, .parquet, .pq, .eval); name "
        f"the file or another folder",
    )
    write("odd/x.json", {"a": 1})
    refused(
        lambda: read(tmp_path / "odd"),
        FileError,
        f"{tmp_path / 'odd'}: none of 1 files has verdicts in a known format ('x.json'); known are {KNOWN}; name the file",
    )
    frame = pd.DataFrame({"item": [1, 2], "judge": "j", "verdict": [1, 0]})
    write("mixed/a.csv", frame)
    write("mixed/b.json", inspect_log(sample(1, {"qa": grade("C")})))
    refused(
        lambda: read(tmp_path / "mixed"),
        FileError,
        f"{tmp_path / 'mixed'} has files of several formats: 1 table, 1 inspect; choose one with format=...",
    )
    assert read(tmp_path / "mixed", "table").labels.tolist() == [0, 1]
    write("tables/a.csv", frame)
    write("tables/b.csv", frame)
    refused(
        lambda: read(tmp_path / "tables"),
        FileError,
        f"{tmp_path / 'tables'} has 2 tables of verdicts; name one, or join them first",
    )


def test_every_format_has_a_name_and_a_source():
    """A reader says where its format is documented, and what is uncertain."""
    for form in formats.FORMATS.values():
        assert "https://" in form.read.__doc__
        assert "Uncertain: " in form.read.__doc__
    assert rows.VerdictRows.__doc__


def test_columns_that_the_user_names(tmp_path):
    """Names of columns are those of the file, also where a reader would take a column for something else."""
    path = tmp_path / "v.csv"
    path.write_text("answer,model,rater,passed\na,gpt,j,1\nb,gpt,j,0\na,gpt,k,1\nb,gpt,k,1\n")
    v = read(path, item="answer", judge="rater", verdict="passed", system="model")
    assert (v.judges.tolist(), v.systems.tolist(), v.labels.tolist()) == (["j", "k"], ["gpt"], [0, 1])
    path.write_text("item,judge,grader,verdict\na,x,j,1\nb,x,j,0\n")
    assert read(path, judge="grader").judges.tolist() == ["j"]
    path.write_text("item,grader,model,verdict\na,j,s,1\nb,j,s,0\n")
    v = read(path, judge="grader", system="model")
    assert (v.judges.tolist(), v.systems.tolist()) == (["j"], ["s"])
