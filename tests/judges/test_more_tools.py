"""Logs of LangSmith, Braintrust, MLflow, RAGAS and OpenAI's interface for evals, written from their documentation."""

import json

import numpy as np
import pandas as pd
import pytest
from commands import run

from crowdppl import FileError, judges
from crowdppl.errors import silent
from crowdppl.judges import State

N = 8


def feedback():
    """LangSmith: two keys by judges on each run, one of them without a score, and one key by a person on some."""
    rows = [
        {
            "run_id": f"run{n}",
            "key": key,
            "score": float(n % k == 0),
            "value": None,
            "feedback_source": {"type": "model"},
        }
        for n in range(N)
        for key, k in (("correct", 2), ("polite", 3))
    ]
    rows[0]["score"] = None
    person = {"key": "correct", "value": None, "feedback_source": {"type": "app", "user_id": "ann"}}
    rows += [person | {"run_id": f"run{n}", "score": float(n % 2)} for n in range(3)]
    return [{"id": n, "session_id": "exp", "created_at": "2026-03-01T10:00:00Z"} | row for n, row in enumerate(rows)]


def events():
    """Braintrust: two scores of each output, one of them missing once, and spans within."""
    own = {"span_attributes": {"type": "eval"}, "metadata": {"model": "gpt"}, "is_root": True}
    out = [
        own | {"id": n, "input": {"q": n}, "output": "o" * n, "scores": {"Fact": n / N, "Close": n % 2 if n else None}}
        for n in range(N)
    ]
    return [*out, {"id": "inner", "is_root": False, "scores": {"Fact": 1}, "span_attributes": {"type": "score"}}]


def traces():
    """MLflow: a judge on each trace, a person on some, an error, an expectation and a replaced assessment."""
    out = []
    for n in range(N):
        judge = {"source_type": "LLM_JUDGE", "source_id": "openai:/gpt-4o"}
        value = {"error": {"error_code": "X"}} if n == 0 else {"value": "yes" if n % 2 else "no"}
        own = [{"assessment_name": "correct", "source": judge, "feedback": value}]
        own.append({"assessment_name": "correct", "source": judge, "feedback": {"value": "no"}, "valid": False})
        own.append({"assessment_name": "wanted", "source": {"source_type": "HUMAN"}, "expectation": {"value": "x"}})
        if n < 3:
            person = {"source_type": "HUMAN", "source_id": "ann"}
            own.append({"assessment_name": "correct", "source": person, "feedback": {"value": "yes"}})
        metadata = {"mlflow.modelId": "m-1"}
        out.append({"info": {"trace_id": f"t{n}", "trace_metadata": metadata, "assessments": own}, "data": {}})
    return out


def items():
    """OpenAI: two graders of each output."""
    return [
        {
            "object": "eval.run.output_item",
            "run_id": "r",
            "datasource_item_id": n,
            "results": [
                {"name": "match", "passed": n % 2 > 0, "score": 1.0, "sample": None},
                {"name": "help", "passed": n % 3 > 0, "score": n / N, "sample": {"model": "gpt-4o"}},
            ],
            "sample": {"model": "mini", "output": [{"role": "assistant", "content": "x" * n}]},
        }
        for n in range(N)
    ]


def written(tmp_path, records, ending):
    path = tmp_path / f"log.{ending}"
    lines = ending == "jsonl" and isinstance(records, list)
    path.write_text("\n".join(map(json.dumps, records)) if lines else json.dumps(records))
    return path


def states(v, judge):
    row = v.states().set_index("judge").loc[judge]
    return {name: int(row[name]) for name in ("given", "missing", "unparseable", "abstained") if row[name]}


@pytest.mark.parametrize("ending", ["json", "jsonl", "csv"])
def test_langsmith(ending, tmp_path):
    if ending == "csv":
        path = tmp_path / "log.csv"
        table = pd.DataFrame(feedback())
        table.assign(feedback_source=table["feedback_source"].map(str)).to_csv(path, index=False)
    else:
        path = written(tmp_path, feedback(), ending)
    v = judges.read(path)
    assert (v.judges.tolist(), v.labels.tolist(), v.systems.tolist()) == (["correct", "polite"], [False, True], ["exp"])
    assert states(v, "correct") == {"given": N - 1, "missing": 1}
    assert v.human[["item", "verdict", "annotator"]].to_numpy().tolist() == [
        ["run0", False, "ann"],
        ["run1", True, "ann"],
        ["run2", False, "ann"],
    ]


@pytest.mark.parametrize("wrapped", [False, True])
def test_braintrust(wrapped, tmp_path):
    path = written(tmp_path, {"events": events(), "cursor": None} if wrapped else events(), "json")
    v = judges.read(path)
    assert (v.judges.tolist(), v.systems.tolist(), len(v.items)) == (["Fact", "Close"], ["gpt"], N)
    assert v.length.tolist() == list(range(N))
    assert states(v, "Close") == {"given": N - 1, "missing": 1}
    np.testing.assert_allclose(v.score[v.judge == 0], np.arange(N) / N)
    assert any("1 spans within others left out" in note for note in v.notes)


def test_braintrust_as_csv(tmp_path):
    table = pd.DataFrame(events())
    for name in ("input", "scores", "metadata", "span_attributes"):
        table[name] = [json.dumps(one) if isinstance(one, dict) else None for one in table[name]]
    table.to_csv(tmp_path / "log.csv", index=False)
    read, expected = judges.read(tmp_path / "log.csv"), judges.read(written(tmp_path, events(), "json"))
    assert read.items.tolist() == expected.items.tolist() == list(range(N))
    assert (read.systems.tolist(), states(read, "Close")) == (["gpt"], {"given": N - 1, "missing": 1})
    np.testing.assert_array_equal(read.score, expected.score)


def test_results_of_an_experiment_of_langsmith(tmp_path):
    for system in ("small", "large"):
        rows = {
            "example_id": [f"e{n}" for n in range(N)],
            "id": [f"{system}{n}" for n in range(N)],
            "outputs.answer": "four",
        }
        table = pd.DataFrame(rows | {"input.question": "?", "feedback.correct": np.arange(N) % 2, "error": None})
        table.loc[0, "feedback.correct"], table["feedback.polite"] = np.nan, 1.0
        table.loc[1, "error"] = "rate limit"
        table.to_csv(tmp_path / f"{system}.csv", index=False)
    v = judges.read(tmp_path)
    assert (sorted(v.systems), sorted(v.judges), len(v.items)) == (
        ["large", "small"],
        ["correct", "polite"],
        2 * (N - 1),
    )
    assert states(v, "correct") == {"given": 2 * (N - 2), "missing": 2}
    assert set(v.length.tolist()) == {4.0}


def test_mlflow_traces(tmp_path):
    v = judges.read(written(tmp_path, traces(), "jsonl"))
    assert (v.judges.tolist(), v.families.tolist(), v.systems.tolist()) == (["openai/gpt-4o"], ["openai"], ["m-1"])
    assert v.labels.tolist() == ["no", "yes"]
    assert states(v, "openai/gpt-4o") == {"given": N - 1, "missing": 1}
    assert len(v) == N
    assert v.human["annotator"].tolist() == ["ann"] * 3


def test_mlflow_tables(tmp_path):
    table = pd.DataFrame({"inputs": [f"q{n}" for n in range(N)], "outputs": "o", "token_count": 3})
    table["correct/v1/score"], table["correct/v1/justification"] = np.arange(N) % 5 + 1, "since"
    table["toxic/v1/score"] = [np.nan, *np.linspace(0.1, 0.9, N - 1)]
    table.to_csv(tmp_path / "eval.csv", index=False)
    v = judges.read(tmp_path / "eval.csv")
    assert (v.judges.tolist(), v.labels.tolist(), len(v.items)) == (["correct", "toxic"], [1, 2, 3, 4, 5], N)
    assert states(v, "toxic") == {"given": N - 1, "missing": 1}


@pytest.mark.parametrize("ending", ["json", "csv"])
def test_ragas(ending, tmp_path):
    table = pd.DataFrame({"user_input": [f"q{n}" for n in range(N)], "retrieved_contexts": "['c']", "reference": "r"})
    table["response"] = ["a" * (n + 1) for n in range(N)]
    table["faithfulness"] = [None, *(n / N for n in range(1, N))]
    table["aspect"] = np.arange(N) % 2
    path = tmp_path / f"r.{ending}"
    if ending == "csv":
        table.to_csv(path, index=False)
    else:
        table.to_json(path, orient="records")
    v = judges.read(path)
    assert (v.judges.tolist(), v.labels.tolist()) == (["faithfulness", "aspect"], [False, True])
    assert v.length.tolist() == list(range(1, N + 1))
    assert v.state[v.judge == 0].tolist() == [State.MISSING, *[State.GIVEN] * (N - 1)]
    again = judges.read(path, metric="aspect")
    assert (len(again), again.judges.tolist()) == (N, ["aspect"])


@pytest.mark.parametrize("wrapped", [False, True])
def test_output_items_of_openai(wrapped, tmp_path):
    path = written(
        tmp_path, {"object": "list", "data": items()} if wrapped else items(), "json" if wrapped else "jsonl"
    )
    v = judges.read(path)
    assert (v.judges.tolist(), v.systems.tolist()) == (["match", "gpt-4o: help"], ["mini"])
    assert v.passing is True
    assert v.length.tolist() == list(range(N))
    output = " ".join(run("look", path).output.split())
    assert f"Verdicts: {2 * N} by 2 judges on {N} items" in output


def test_tables_of_others_are_not_taken_for_these(tmp_path):
    pd.DataFrame({"user_input": ["a"], "response": ["b"], "note": ["c"]}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(FileError, match="unknown format"):
        judges.read(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("name", "content", "fix"),
    [
        ("r.json", {"results": {"gsm8k": {}}, "configs": {}, "versions": {}}, "run it with --log_samples"),
        ("d.json", {"test_cases_lookup_map": {}}, "the cache of DeepEval"),
        ("i.csv", "sample_id,eval_id,score_match\na,e,C\n", "a table of Inspect's samples"),
        ("p.csv", "question,[openai:gpt-4o] Answer\nq,[PASS] yes\n", r"write JSON with -o output\.json"),
    ],
)
def test_files_without_verdicts_say_what_to_read(name, content, fix, tmp_path):
    (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(FileError, match=fix) as refused:
        judges.read(tmp_path / name)
    assert "\n" not in str(refused.value)


def test_the_table_that_mlflow_stores(tmp_path):
    rows = [[f"q{n}", n % 5 + 1] for n in range(N)]
    content = {"columns": ["inputs", "correct/v1/score"], "data": rows}
    (tmp_path / "eval_results_table.json").write_text(json.dumps(content))
    v = judges.read(tmp_path / "eval_results_table.json")
    assert (len(v.items), v.judges.tolist(), v.labels.tolist()) == (N, ["correct"], [1, 2, 3, 4, 5])


@pytest.mark.parametrize(("trace", "names"), [("t1", ["EVAL", "API"]), ("t3", ["helpful"])])
def test_scores_of_one_name_in_two_ways_are_of_two_judges(tmp_path, trace, names):
    path = tmp_path / "scores.csv"
    rows = [("t1", 1, "EVAL"), ("t2", 0, "EVAL"), (trace, 0, "API"), ("t1", 1, "ANNOTATION")]
    lines = [f"{n},2024-01-01,{one},,helpful,{value},{source}" for n, (one, value, source) in enumerate(rows)]
    path.write_text("\n".join(["id,timestamp,traceId,observationId,name,value,source", *lines]) + "\n")
    assert judges.read(path).judges.tolist() == names


@pytest.mark.parametrize(("span", "names"), [("s1", ["LLM", "CODE"]), ("s3", ["correct"])])
def test_annotations_of_one_name_by_a_model_and_a_program(tmp_path, span, names):
    path = tmp_path / "spans.csv"
    path.write_text(
        f"span_id,name,annotator_kind,label\ns1,correct,LLM,yes\ns2,correct,LLM,no\n{span},correct,CODE,no\n"
        f"s1,correct,HUMAN,yes\n"
    )
    assert judges.read(path).judges.tolist() == names


def plain_table(**others):
    rows = [(f"q{n}", j, "pass" if (n + k) % 2 else "fail") for n in range(N) for k, j in enumerate(("gpt", "claude"))]
    return pd.DataFrame(rows, columns=["item", "judge", "verdict"]).assign(**others)


@pytest.mark.parametrize(
    "others",
    [
        {"scores": 1, "experiment_id": "e1"},
        {"scores": "0.5", "experiment_id": "e1", "input": "x"},
        {"scores": json.dumps({"a": 1}), "experiment_id": "e1"},
        {"example_id": "x", "feedback.comment": "good"},
        {"example_id": "x", "outputs.answer": "four", "feedback.comment": "good"},
    ],
)
def test_tables_with_columns_of_tools_are_tables(others, tmp_path):
    plain_table(**others).to_csv(tmp_path / "t.csv", index=False)
    v = judges.read(tmp_path / "t.csv")
    assert (v.judges.tolist(), v.labels.tolist(), len(v.items)) == (["gpt", "claude"], ["fail", "pass"], N)


def test_feedback_alone_is_no_experiment(tmp_path):
    table = plain_table(**{"feedback.comment": "good"}).rename(columns={"item": "example_id"})
    table.to_csv(tmp_path / "t.csv", index=False)
    assert judges.read(tmp_path / "t.csv").judges.tolist() == ["gpt", "claude"]
    table.drop(columns=["judge", "verdict"]).to_csv(tmp_path / "u.csv", index=False)
    with pytest.raises(FileError, match="unknown format"):
        judges.read(tmp_path / "u.csv")


def test_comments_in_an_experiment_of_langsmith(tmp_path):
    table = pd.DataFrame(
        {"example_id": [f"e{n}" for n in range(N)], "outputs.o": "x", "feedback.correct": np.arange(N) % 2}
    )
    table.assign(**{"feedback.comment": "kind"}).to_csv(tmp_path / "t.csv", index=False)
    v = judges.read(tmp_path / "t.csv")
    assert v.judges.tolist() == ["correct"]
    assert any("'feedback.comment' has texts" in note for note in v.notes)
    table.assign(**{"feedback.correct": ["good", "bad"] * (N // 2)}).to_csv(tmp_path / "u.csv", index=False)
    assert judges.read(tmp_path / "u.csv").labels.tolist() == ["bad", "good"]


@pytest.mark.parametrize(
    ("inputs", "items"),
    [
        ([0, 1, 2], [0, 1, 2]),
        ([{"question": "a"}, {"question": "b"}, {"question": "c"}], ["a", "b", "c"]),
        ([{"question": "a"}, {"statement": "a"}, "a"], ['{"question": "a"}', '{"statement": "a"}', "a"]),
        ([{"question": "a"}, "a", "b"], ['{"question": "a"}', "a", "b"]),
        (['{"q": "b"}', '"a"', "b"], ['{"q": "b"}', '"a"', "b"]),
    ],
)
def test_inputs_of_braintrust(inputs, items, tmp_path):
    own = {"span_attributes": {"type": "eval"}, "output": "o"}
    rows = [own | {"input": one, "scores": {"Fact": n % 2}} for n, one in enumerate(inputs)]
    with silent():
        assert judges.read(written(tmp_path, rows, "json")).items.tolist() == items
