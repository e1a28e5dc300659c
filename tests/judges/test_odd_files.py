"""Values of wrong types anywhere in a file: a result, or one line that says what is wrong."""

import copy
import json
import random
import warnings

import pytest
from judge_files import archive, grade, harness, inspect_log, langfuse_score, metric, promptfoo_results, sample

from crowdppl.errors import CrowdpplError
from crowdppl.judges import read

EDITED = grade("I", history=[{"value": "C"}, {"value": "I", "provenance": {"author": "x"}}])
FILES = {
    "inspect.json": inspect_log(
        sample("q1", {"qa": grade("C")}),
        sample("q2", {"qa": EDITED}),
        scorers=[{"name": "qa", "options": {"model": "m"}}],
    ),
    "promptfoo.json": {"results": {"results": promptfoo_results()}},
    "deepeval.json": {
        "testCases": [
            {"name": "a", "input": "?", "metricsData": [metric("C", True, 0.8, evaluationCost=0.1, error=None)]},
            {"name": "b", "input": "?", "metricsData": [metric("C", False, 0.1)]},
        ],
        "hyperparameters": {"model": "x"},
    },
    "harness.jsonl": [harness(0, 1.0, filter="a", metrics=["exact_match"]), harness(1, 0.0)],
    "langfuse.jsonl": [
        langfuse_score("t1", "x", 1, "BOOLEAN"),
        langfuse_score("t2", "x", 0, "BOOLEAN"),
        langfuse_score("t1", "x", 0, "BOOLEAN", "ANNOTATION"),
    ],
    "phoenix.jsonl": [
        {
            "span_id": "a",
            "name": "n",
            "annotator_kind": "LLM",
            "result": {"label": "y", "score": 1},
            "metadata": {"model": "m"},
        },
        {"span_id": "b", "name": "n", "annotator_kind": "HUMAN", "result": {"label": "n"}},
    ],
    "arena.jsonl": [
        {"question_id": "q", "model_a": "a", "model_b": "b", "winner": "tie", "judge": "arena_user_1", "anony": True},
        {"question_id": "r", "model_a": "b", "model_b": "a", "winner": "model_a", "judge": "gpt", "tstamp": 1.6e9},
    ],
    "arena-hard.jsonl": [
        {"question_id": "q", "model": "a", "judge": "g", "games": [{"score": "A>B"}, {"score": None}]},
        {"uid": "r", "model": "a", "judge": "g", "games": [None, {"score": "A=B"}], "baseline": "b"},
    ],
    "helm.json": {
        "adapter_spec": {"model": "m"},
        "request_states": [
            {"instance": {"id": "i1"}, "train_trial_index": 0, "annotations": {"x": {"g_score": 1.0, "l_score": None}}},
            {"instance": {"id": "i2"}, "train_trial_index": 0, "annotations": {"x": {"g": {"c": {"score": 3}}}}},
        ],
    },
    "langsmith.jsonl": [
        {
            "run_id": "r1",
            "key": "k",
            "score": 1.0,
            "value": None,
            "feedback_source": {"type": "model"},
            "session_id": "e",
        },
        {"run_id": "r2", "key": "k", "score": 0.0, "value": None, "feedback_source": {"type": "app", "user_id": "u"}},
    ],
    "braintrust.jsonl": [
        {"id": "a", "input": {"q": 1}, "output": "o", "scores": {"F": 0.4}, "span_attributes": {"type": "eval"}},
        {"id": "b", "input": "q", "output": "p", "scores": {"F": 1}, "metadata": {"model": "m"}, "experiment_id": "e"},
    ],
    "mlflow.jsonl": [
        {
            "info": {
                "trace_id": "t",
                "assessments": [
                    {
                        "assessment_name": "c",
                        "source": {"source_type": "LLM_JUDGE", "source_id": "openai:/m"},
                        "feedback": {"value": "yes"},
                    }
                ],
            }
        }
    ],
    "ragas.json": [
        {"user_input": "q", "response": "a", "faithfulness": 0.5},
        {"user_input": "r", "response": "b", "faithfulness": 1},
    ],
    "output_items.json": {
        "data": [
            {
                "object": "eval.run.output_item",
                "datasource_item_id": n,
                "run_id": "r",
                "results": [{"name": "g", "passed": n > 0, "score": 0.5, "sample": {"model": "j"}}],
                "sample": {"model": "m", "output": [{"content": "x"}]},
            }
            for n in range(2)
        ]
    },
    "table.jsonl": [
        {"item": 1, "judge": "j", "verdict": "yes", "score": 0.1, "system": "s", "when": 3, "swapped": 1},
        {"item": 2, "judge": "k", "verdict": "no"},
    ],
}
GONE = object()
ODD = [
    None,
    True,
    0,
    -5,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\ud800",
    "a\0b",
    [],
    [None],
    {},
    {"a": 1},
    [[{}]],
    10**30,
    GONE,
]


def places(value, path=()):
    """Yield the path of everything within an object or list."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*path, key)
        yield from places(one, (*path, key))


def changed(content, path, odd):
    content = copy.deepcopy(content)
    within = content
    for key in path[:-1]:
        within = within[key]
    if odd is GONE:
        del within[path[-1]]
    else:
        within[path[-1]] = odd
    return content


def refusal(file):
    """Return what is wrong with a file; an empty text if nothing is."""
    try:
        read(file)
    except CrowdpplError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("seed", "values"), [(0, 20), pytest.param(1, 60, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FILES)
def test_odd_values(name, seed, values, tmp_path):
    content = FILES[name]
    cases = [(path, odd) for path in places(content) for odd in ODD]
    for path, odd in random.Random(seed).sample(cases, values):
        file = tmp_path / name
        document = changed(content, path, odd)
        lines = name.endswith(".jsonl") and isinstance(document, list)
        file.write_text("\n".join(map(json.dumps, document)) if lines else json.dumps(document))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            message = refusal(file)
        assert "\n" not in message, (path, odd)
        assert len(message) < 700, (path, odd)


def test_cut_files(tmp_path):
    text = json.dumps(FILES["inspect.json"])
    binary = archive(tmp_path / "log.eval", FILES["inspect.json"]).read_bytes()
    for share in (0.1, 0.5, 0.99):
        for name, content in (("cut.json", text.encode()), ("cut.eval", binary)):
            (tmp_path / name).write_bytes(content[: int(len(content) * share)])
            with pytest.raises(CrowdpplError, match=r"^[^\n]+$"):
                read(tmp_path / name)


@pytest.mark.parametrize(
    ("ids", "inputs", "said"),
    [
        ([1, "1", 2, 3], "aabc", "1 identifier is written as a number and as text ('1'); each is one item"),
        ([1, 1, 2, 2, 3], "abcde", "2 items have different inputs ('1', '2')"),
        ([1, 1.0, 2, 3], "abcd", "1 item has different inputs ('1')"),
        ([1, 1, 2, 3], "aabc", None),
        (["1", "01", "2", "3"], "abcd", None),
    ],
)
def test_identifiers_that_were_used_twice(ids, inputs, said, tmp_path):
    samples = [
        sample(n, {"qa": grade("CI"[k % 2])}, input=text) for k, (n, text) in enumerate(zip(ids, inputs, strict=True))
    ]
    (tmp_path / "log.json").write_text(json.dumps(inspect_log(*samples)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        notes = read(tmp_path / "log.json").notes
    chosen = [note for note in notes if "each is one item" in note or "different inputs" in note]
    assert len(chosen) == (said is not None)
    assert said is None or said in chosen[0]


def messages(item, epoch, text):
    part = {"type": "text", "text": text, "id": f"part{epoch}"}
    return [
        {"id": f"s{item}{epoch}", "role": "system", "content": "answer"},
        {"id": f"u{item}{epoch}", "role": "user", "content": [part], "source": "input"},
    ]


@pytest.mark.parametrize(
    ("text", "twice"), [(lambda n, epoch: f"q{n}", False), (lambda n, epoch: f"q{n + epoch}", True)]
)
def test_identifiers_of_messages_are_no_inputs(text, twice, tmp_path):
    samples = [
        sample(n, {"qa": grade("CI"[(n + epoch) % 2])}, input=messages(n, epoch, text(n, epoch)), epoch=epoch)
        for n in range(3)
        for epoch in (1, 2)
    ]
    (tmp_path / "log.json").write_text(json.dumps(inspect_log(*samples)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        notes = read(tmp_path / "log.json").notes
    assert any("different inputs" in note for note in notes) == twice
