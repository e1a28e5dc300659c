"""Evaluations of MLflow: assessments of traces, and tables with a column for each metric."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from crowdppl.judges.coding.states import State
from crowdppl.judges.readers.content import Content, first, mapping, numbers_or_texts, objects
from crowdppl.judges.readers.rows import Collector

# A column with the score of a metric, with the version of its prompt: answer_correctness/v1/score.
_SCORE = re.compile(r"(?P<metric>[^/]+)(/v\d+)?/(score|value)")
_INPUTS = ("inputs", "input", "question", "request", "trace_id", "request_id")


def _assessments(trace: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return objects(mapping(trace.get("info")).get("assessments") or trace.get("assessments"))


def _scored(content: Content) -> dict[str, str]:
    """Return the metric of each column with scores."""
    matches = {name: _SCORE.fullmatch(str(name)) for name in content.columns}
    return {name: match["metric"] for name, match in matches.items() if match}


def is_mlflow(content: Content) -> bool:
    """Recognise traces with ``assessments``, or columns such as ``answer_correctness/v1/score``."""
    return any(_assessments(trace) for trace in content.records[:100]) or bool(_scored(content))


def mlflow(content: Content, rows: Collector) -> None:
    """Read MLflow's traces with assessments (JSON, JSON Lines), or the table of an evaluation's results (CSV, JSON).

    *Traces*: the item is the trace. Assessments with feedback whose source is ``HUMAN`` are verdicts of people, those of
    ``LLM_JUDGE`` and ``CODE`` of judges; the metric is ``assessment_name``, the model that judged ``source_id``, and the system
    the trace's ``mlflow.modelId``. Feedback with an ``error`` is ``MISSING``. Expectations, and assessments that a later one has
    replaced (``valid`` is false), are left out.

    *Tables*: a row is an answer, its item ``inputs``, or the number of the row. Each column ``<metric>/v1/score`` or
    ``<metric>/value`` is a judge.

    Sources: https://mlflow.org/docs/latest/genai/assessments/feedback, the classes ``Trace`` and ``Assessment`` of
    https://github.com/mlflow/mlflow, and ``eval_results_table`` of ``mlflow.evaluate``. Uncertain: where a table states the
    system.
    """
    for trace in content.records:
        info = mapping(trace.get("info")) or trace
        item = first(info, "trace_id", "request_id")
        system = mapping(info.get("trace_metadata") or info.get("request_metadata")).get("mlflow.modelId")
        for one in _assessments(trace):
            _add(rows, item, system, one)
    if rows.rows or rows.people:
        return
    table, metrics = content.table, _scored(content)
    inputs = next((table[name] for name in _INPUTS if name in table), None)
    for column, metric in metrics.items():
        for n, value in enumerate(numbers_or_texts(table[column]), 1):
            rows.add(f"row {n}" if inputs is None else str(inputs.iloc[n - 1]), metric, value)


def _add(rows: Collector, item: Any, system: Any, assessment: Mapping[str, Any]) -> None:
    """Add the verdict of a judge or a person."""
    feedback, source = assessment.get("feedback"), mapping(assessment.get("source"))
    if not isinstance(feedback, Mapping) or assessment.get("valid") is False:
        rows.drop("expectations and replaced assessments")
        return
    name = str(first(assessment, "assessment_name", "name") or "assessment")
    value, who, when = feedback.get("value"), source.get("source_id"), assessment.get("create_time")
    if str(source.get("source_type")).upper() == "HUMAN":
        rows.person(item, value, name, annotator=who, when=when, system=system)
        return
    # MLflow writes openai:/gpt-4o.
    model = str(who).replace(":/", "/", 1) if who and str(source.get("source_type")).upper() != "CODE" else None
    state = State.MISSING if feedback.get("error") else None
    rows.add(item, name, value, model=model, state=state, when=when, system=system)
