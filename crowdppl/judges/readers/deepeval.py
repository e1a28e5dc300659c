"""Test runs of DeepEval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from crowdppl.judges.coding.states import State
from crowdppl.judges.readers.content import Content, characters, first, mapping, objects
from crowdppl.judges.readers.rows import Collector

_CASES = ("testCases", "test_cases", "conversationalTestCases", "test_results", "testResults")
_METRICS = ("metricsData", "metrics_data", "metricsMetadata", "metrics_metadata")
# How DeepEval words a reply of a judge that it could not read.
_UNREADABLE = ("json", "parse")


def _cases(content: Content) -> list[Mapping[str, Any]]:
    document = content.document
    if isinstance(document, list):
        return objects(document)
    held = mapping(document)
    return [case for name in _CASES for case in objects(held.get(name))]


def is_deepeval(content: Content) -> bool:
    """Recognise test cases with ``metricsData``."""
    return any(name in case for case in _cases(content)[:100] for name in _METRICS)


def deepeval(content: Content, rows: Collector) -> None:
    """Read a test run of DeepEval (the folder ``DEEPEVAL_RESULTS_FOLDER``), or the result of ``evaluate`` as JSON.

    Each entry of a test case's ``metricsData`` is a verdict, ``success``, with a ``score``; ``success`` is whether the score
    reaches the metric's ``threshold``. The metric is its ``name``, the model that judged ``evaluationModel``, the cost
    ``evaluationCost``. The item is the ``name`` of the test case, or its ``input`` if names repeat. The system is ``model``
    among the run's ``hyperparameters``. Metrics of one name and model in a test case are numbered by their place. Different
    ``actualOutput`` of one item are different answers, whose length is the number of characters.

    An entry with an ``error`` counts as failed in DeepEval. Here it is ``UNPARSEABLE`` if the error says that the judge's reply
    was not the JSON that was wanted, and otherwise ``MISSING``, as are metrics that were ``skipped``.

    Sources: https://deepeval.com/docs/evaluation-flags-and-configs, and the classes ``MetricData``, ``LLMApiTestCase`` and
    ``TestRun`` of https://github.com/confident-ai/deepeval. Uncertain: ``metricsMetadata`` of early versions, whose verdict is
    computed from ``score`` and ``threshold`` or ``minimumScore``; the name of the system among the hyperparameters.
    """
    cases = _cases(content)
    names = [str(first(case, "name") or "") for case in cases]
    unique = len(set(names)) == len(names) and all(names)
    settings = mapping(first(mapping(content.document), "hyperparameters", "configurations"))
    system = first(settings, "model", "Model", "system")
    rows.passing = True
    for n, case in enumerate(cases):
        item = names[n] if unique else (first(case, "input", "scenario") or n + 1)
        metrics = [metric for name in _METRICS for metric in objects(case.get(name))]
        if not metrics:
            rows.drop("test cases without metrics")
        output = first(case, "actualOutput", "actual_output", "turns")
        answer = rows.answer(item, system, output)
        seen: Counter[tuple[str, str]] = Counter()
        for metric in metrics:
            name = str(first(metric, "name", "metric") or "metric")
            model = first(metric, "evaluationModel", "evaluation_model")
            seen[name, str(model)] += 1
            rows.add(
                item,
                name if seen[name, str(model)] == 1 else f"{name} {seen[name, str(model)]}",
                _success(metric),
                model=model,
                state=State.MISSING if metric.get("skipped") is True else _state(metric.get("error")),
                score=metric.get("score"),
                cost=first(metric, "evaluationCost", "evaluation_cost"),
                system=None if system is None else str(system),
                answer=answer,
                length=characters(output),
            )


def _success(metric: Mapping[str, Any]) -> bool | None:
    success = metric.get("success")
    if isinstance(success, bool):
        return success
    score, threshold = metric.get("score"), first(metric, "threshold", "minimumScore", "minimum_score")
    if isinstance(score, (int, float)) and isinstance(threshold, (int, float)):
        return score >= threshold
    return None


def _state(error: Any) -> State | None:
    if not error:
        return None
    unreadable = any(words in str(error).lower() for words in _UNREADABLE)
    return State.UNPARSEABLE if unreadable else State.MISSING
