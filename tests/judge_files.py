"""Small files of evaluation tools, as Python objects: the keys that readers use, and some that they do not."""

import json
import zipfile

RUBRIC = {"metric": "helpful", "provider": "anthropic:judge"}


def grade(value, model="openai/grader", **others):
    reply = {"role": "assistant", "content": f"GRADE: {value}", "model": model}
    return {"value": value, "answer": "an answer", "metadata": {"grading": [{"role": "user"}, reply]}, **others}


def inspect_log(*samples, model="mistral/small", **spec):
    return {
        "version": 2,
        "status": "success",
        "eval": {"task": "quiz", "model": model, "created": "2026-03-01T10:00:00+00:00"} | spec,
        "plan": {},
        "samples": list(samples),
    }


def sample(n, scores, **others):
    return {"id": n, "epoch": 1, "input": "q", "target": "t", "scores": scores, **others}


def archive(path, log, header="header.json", compression=zipfile.ZIP_DEFLATED):
    """Write a log as Inspect's binary logs are: a header, and a file for each sample."""
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr(header, json.dumps({name: value for name, value in log.items() if name != "samples"}))
        file.writestr("summaries.json", "[]")
        for one in log["samples"]:
            file.writestr(f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one))
    return path


def component(passed, kind="llm-rubric", reason="ok", score=None, **others):
    assertion = {"type": kind, **{k: others.pop(k) for k in ("metric", "provider", "value") if k in others}}
    return {
        "pass": passed,
        "score": float(passed) if score is None else score,
        "reason": reason,
        "assertion": assertion,
        **others,
    }


def result(variables, *components, provider="openai:small", **others):
    grading = {"pass": True, "score": 1, "componentResults": list(components)} if components else None
    return {
        "vars": variables,
        "provider": {"id": provider, "label": ""},
        "promptIdx": 0,
        "testIdx": 0,
        "success": True,
        "failureReason": 0,
        "gradingResult": grading,
        **others,
    }


def promptfoo_results():
    unread = component(False, reason="Could not extract JSON from llm-rubric response", **RUBRIC)
    marked = component(False, reason="timeout", metadata={"graderError": True}, **RUBRIC)
    return [
        result({"question": "one"}, component(True, score=0.9, **RUBRIC), component(True, "human")),
        result({"question": "two"}, component(False, score=0.2, **RUBRIC)),
        result({"question": "three"}, unread),
        result({"question": "one"}, marked, provider="openai:large"),
        result({"question": "two"}, component(False, "human"), component(True, **RUBRIC), provider="openai:large"),
        result({"question": "three"}, provider="openai:large", error="rate limit", failureReason=2),
    ]


def metric(name, success, score, **others):
    return {"name": name, "threshold": 0.5, "success": success, "score": score, "evaluationModel": "gpt-4.1", **others}


def harness(n, value, reply="42", **others):
    return {
        "doc_id": n,
        "doc": {"question": "?"},
        "target": "42",
        "arguments": {"gen_args_0": {"arg_0": "?"}},
        "resps": [[reply]],
        "filtered_resps": [reply],
        "doc_hash": "h",
        "exact_match": value,
        **others,
    }


def langfuse_score(trace, name, value, kind, source="EVAL", text=None, observation=None):
    return {"traceId": trace, "observationId": observation, "name": name, "value": value, "stringValue": text, "dataType": kind,
            "source": source}  # fmt: skip
