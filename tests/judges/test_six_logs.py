"""Logs of six tools, each with two criteria, parse failures and words of its own, beside human labels that say pass and fail."""

import json

import pandas as pd
import pytest
from judge_files import component, grade, harness, inspect_log, langfuse_score, metric, result, sample

from crowdppl.errors import DataError, silent
from crowdppl.judges import HumanLabels, State, read_criteria

N = 8
ODD, NOTHING = "Grade not found in model output: well", "Could not extract JSON from llm-rubric response"


def inspect():
    samples = [
        sample(
            f"q{n}",
            {
                "helpful": grade("C" if n % 2 else "I") if n else {"value": "I", "explanation": ODD},
                "safe": grade("I" if n % 3 else "C"),
            },
        )
        | {"epoch": epoch}
        for n in range(N)
        for epoch in (1, 2)
    ]
    scorers = [{"name": name, "options": {"model": "openai/grader"}} for name in ("helpful", "safe")]
    return inspect_log(*samples, scorers=scorers)


def promptfoo():
    def one(n, name, passed):
        reason = NOTHING if name == "helpful" and n == 0 else "ok"
        return component(passed, reason=reason, metric=name, provider="anthropic:judge")

    each = (("helpful", 2), ("safe", 3))
    rows = [result({"question": n}, *(one(n, name, n % k > 0) for name, k in each)) for n in range(N)]
    return {"results": {"results": rows}}


def deepeval():
    cases = [
        {
            "name": f"q{n}",
            "input": "?",
            "metricsData": [
                metric("helpful", n % 2 > 0, 0.9) if n else metric("helpful", None, None, error="invalid JSON"),
                metric("safe", n % 3 > 0, 0.1),
            ],
        }
        for n in range(N)
    ]
    return {"testCases": cases, "hyperparameters": {"model": "mine"}}


def lm_eval():
    return [
        harness(n, None, metrics=["helpful", "safe"], helpful=float(n % 2), safe=float(n % 3 > 0)) for n in range(N)
    ]


def langfuse():
    def one(n, name, k):
        if name == "helpful" and n == 0:
            return langfuse_score("t0", name, None, "CATEGORICAL", text="ERROR")
        return langfuse_score(f"t{n}", name, None, "CATEGORICAL", text="good" if n % k else "bad")

    return [one(n, name, k) | {"traceName": "mine"} for n in range(N) for name, k in (("helpful", 2), ("safe", 3))]


def phoenix():
    def one(n, name, k):
        label = "NOT_PARSABLE" if name == "helpful" and n == 0 else "yes" if n % k else "no"
        return {"span_id": f"s{n}", "name": name, "annotator_kind": "LLM", "result": {"label": label}}

    return [one(n, name, k) for n in range(N) for name, k in (("helpful", 2), ("safe", 3))]


# Each log, the number of items, the classes, the state of the reply that could not be read, and the mapping that is proposed.
LOGS = {
    "inspect.json": (inspect, 2 * N, ["C", "I"], State.UNPARSEABLE, {"C": "pass", "I": "fail"}),
    "promptfoo.json": (promptfoo, N, [False, True], State.UNPARSEABLE, {True: "pass", False: "fail"}),
    "deepeval.json": (deepeval, N, [False, True], State.UNPARSEABLE, {True: "pass", False: "fail"}),
    "harness.jsonl": (lm_eval, N, [False, True], None, {True: "pass", False: "fail"}),
    "langfuse.jsonl": (langfuse, N, ["bad", "good"], State.UNPARSEABLE, {"good": "pass", "bad": "fail"}),
    "phoenix.jsonl": (phoenix, N, ["no", "yes"], State.UNPARSEABLE, {"yes": "pass", "no": "fail"}),
}


@pytest.mark.parametrize("name", LOGS)
def test_each_log(name, tmp_path):
    log, items, classes, lost, mapping = LOGS[name]
    content = log()
    text = "\n".join(map(json.dumps, content)) if name.endswith(".jsonl") else json.dumps(content)
    (tmp_path / name).write_text(text)
    with silent():
        parts = read_criteria(tmp_path / name)
    assert set(parts) == {"helpful", "safe"}
    for criterion, verdicts in parts.items():
        assert len(verdicts.items) == items
        assert verdicts.labels.tolist() == classes
        assert len(verdicts.judges) == 1
        states = verdicts.state[verdicts.state != State.GIVEN].tolist()
        # The reply to the first item on the first criterion, once for each epoch.
        assert states == ([lost] * (items // N) if criterion == "helpful" and lost is not None else [])
    human = pd.DataFrame({"item": parts["safe"].items, "verdict": ["pass", "fail"] * (items // 2)})
    if parts["safe"].pairs:
        human["item"], human["system"] = parts["safe"].questions[parts["safe"].question], parts["safe"].systems[0]
    with pytest.raises(DataError, match=r"^[^\n]+$") as refusal, silent():
        HumanLabels.from_frame(human).align(parts["safe"])
    for own, other in mapping.items():
        assert f"{own!r}: {other!r}" in str(refusal.value)
