"""Output of promptfoo."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from crowdppl.judges.coding.states import State
from crowdppl.judges.readers.content import Content, asked_name, characters, mapping, objects
from crowdppl.judges.readers.rows import Collector

# How graders explain a reply that they could not read, in versions that do not mark it.
_UNREADABLE = ("could not extract json", "produced malformed response", "could not parse", "invalid json")
# What promptfoo writes where a grader did not reply, and assertions without a grader, whose reasons may begin so, too. A grader
# may write of errors and limits of rates itself.
_SILENT = re.compile(
    r"API (call |response )?error: |No output$|Request (timed out after \d|failed after \d)|HTTP (error )?\d{3}\b"
)
_PROGRAMS = ("javascript", "python", "ruby", "webhook")
# The assertion that a rating in the web interface adds.
_HUMAN = "human"
# failureReason of a result whose system ended with an error.
_ERROR = 2


def _results(content: Content) -> list[Mapping[str, Any]]:
    document = content.document
    if isinstance(document, Mapping):
        held = document.get("results")
        return objects(held.get("results") if isinstance(held, Mapping) else held)
    return objects(document)


def is_promptfoo(content: Content) -> bool:
    """Recognise results with ``gradingResult`` or ``testCase``, and ``vars`` or ``provider``."""
    return any(
        ("gradingResult" in result or "testCase" in result) and ("vars" in result or "provider" in result)
        for result in _results(content)[:100]
    )


def promptfoo(content: Content, rows: Collector) -> None:
    """Read promptfoo's output, JSON or JSON Lines.

    The system is the provider's ``label`` or ``id``, with the number of the prompt if there are several. The item is the test's
    ``vars``: the value of a single variable, otherwise all as JSON, otherwise the number of the test. Each entry of
    ``gradingResult.componentResults`` is a verdict, ``pass``, with a ``score``. Its metric is the assertion's ``metric``,
    otherwise its type, and the model that judged the assertion's ``provider``. Metrics of one name on an item are numbered by
    their ``value``: in all tests alike if all have the same. Of one ``value`` by several models they are one metric. Assertions
    without a model (``contains``, ``javascript``) are judges, too. Ratings in the web interface (type ``human``) are verdicts of
    people. Different outputs of a system to one test (``--repeat``) are different answers. The length of an output that is a text
    is its number of characters.

    ``UNPARSEABLE`` are entries with ``metadata.graderError``, and those whose ``reason`` says that a grader's reply could not
    be read, ``MISSING`` those whose ``reason`` is the error of a grader that did not reply: promptfoo counts all of them as
    failed. Results whose system ended with an error are left out.

    Sources: https://www.promptfoo.dev/docs/configuration/outputs, and the types ``EvaluateResult``, ``GradingResult`` and
    ``Assertion`` of https://github.com/promptfoo/promptfoo. Uncertain: the words of ``reason`` in versions without
    ``graderError``; the default grader is not in the file, so that such a judge has the name of its metric.
    """
    results = _results(content)
    prompts = {_prompt(result) for result in results}
    shared = _same_in_all(results)
    numbers: dict[tuple[Any, str], dict[Any, int]] = {}
    rows.passing, silent = True, 0
    for n, result in enumerate(results):
        components = _components(mapping(result.get("gradingResult")))
        if not components or result.get("failureReason") == _ERROR:
            failed = result.get("failureReason") == _ERROR or result.get("error")
            rows.drop("results whose system ended with an error" if failed else "results without assertions")
            continue
        item, system = _item(result, n), _system(result, len(prompts) > 1)
        answer = rows.answer(item, system, _output(result))
        seen: Counter[tuple[str, str, str | None]] = Counter()
        for component in components:
            assertion = mapping(component.get("assertion"))
            kind = str(assertion.get("type") or "assertion")
            if kind == _HUMAN:
                rows.person(item, component.get("pass"), system=system, answer=answer)
                continue
            metric = str(assertion.get("metric") or kind)
            asked, model = _asked(assertion), _provider(assertion.get("provider"))
            seen[metric, asked, model] += 1
            known = numbers.setdefault((None if metric in shared else item, metric), {})
            number = known.setdefault((asked, seen[metric, asked, model]), len(known) + 1)
            state = _state(component, kind)
            silent += state == State.MISSING
            rows.add(
                item,
                metric if number == 1 else f"{metric} {number}",
                component.get("pass"),
                model=model,
                state=state,
                score=component.get("score"),
                system=system,
                answer=answer,
                length=characters(_output(result)),
            )
    if silent:
        rows.notes.append(
            f"{rows.source}: {silent:,} verdicts that promptfoo counts as failed are missing, since their graders did not reply"
        )


def _asked(assertion: Mapping[str, Any]) -> str:
    """Return what an assertion asks, as text."""
    return json.dumps(assertion.get("value"), sort_keys=True, default=str)


def _same_in_all(results: list[Mapping[str, Any]]) -> set[str]:
    """Return the metrics of which all tests ask the same, in any order, rather than something of their own."""
    asked: dict[str, set[frozenset[str]]] = {}
    for result in results:
        here: dict[str, set[str]] = {}
        for component in _components(mapping(result.get("gradingResult"))):
            assertion = mapping(component.get("assertion"))
            here.setdefault(str(assertion.get("metric") or assertion.get("type")), set()).add(_asked(assertion))
        for metric, values in here.items():
            asked.setdefault(metric, set()).add(frozenset(values))
    return {metric for metric, sets in asked.items() if len(frozenset().union(*sets)) <= max(map(len, sets))}


def _output(result: Mapping[str, Any]) -> Any:
    """Return what the system answered."""
    response = mapping(result.get("response"))
    return response.get("output", result.get("output"))


def _components(grading: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the results of single assertions; those of sets of assertions are within one another."""
    out: list[Mapping[str, Any]] = []
    for component in objects(grading.get("componentResults")):
        out += _components(component) or [component]
    return out


def _state(component: Mapping[str, Any], kind: str) -> State | None:
    """Return the state of an entry without a verdict, ``None`` if it has one."""
    if mapping(component.get("metadata")).get("graderError"):
        return State.UNPARSEABLE
    reason = str(component.get("reason") or "").strip()
    if component.get("pass") is not False:
        return None
    if any(words in reason.lower() for words in _UNREADABLE):
        return State.UNPARSEABLE
    return State.MISSING if kind not in _PROGRAMS and not component.get("score") and _SILENT.match(reason) else None


def _item(result: Mapping[str, Any], n: int) -> Any:
    variables = mapping(result.get("vars")) or mapping(mapping(result.get("testCase")).get("vars"))
    variables = {name: value for name, value in variables.items() if not name.startswith("_")}
    if not variables:
        number = result.get("testIdx")
        return n + 1 if number is None else number
    return asked_name(variables)


def _system(result: Mapping[str, Any], several: bool) -> str | None:
    provider = _provider(result.get("provider"), "label")
    if provider is None or not several:
        return provider
    return f"{provider}, prompt {_prompt(result)}"


def _prompt(result: Mapping[str, Any]) -> int:
    """Return the number of the prompt, from 1."""
    index = result.get("promptIdx")
    return index + 1 if isinstance(index, int) else 1


def _provider(provider: Any, *names: str) -> str | None:
    if isinstance(provider, Mapping):  # the label is often empty
        provider = next((provider[name] for name in (*names, "id") if provider.get(name)), None)
    return provider if isinstance(provider, str) and provider else None
