"""Logs of Inspect AI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from crowdppl.errors import DataError
from crowdppl.judges.coding.states import State
from crowdppl.judges.readers.content import Content, characters, first, mapping, objects
from crowdppl.judges.readers.rows import Collector

# How Inspect's own model graders explain a reply without a grade; the value is then I (incorrect), or not a number.
_NO_GRADE = "grade not found"
# The placeholder of older logs for the name of the only scorer.
_PLACEHOLDER = "88F74D2C"


def is_inspect(content: Content) -> bool:
    """Recognise an object with ``eval`` and ``samples``, ``plan`` or ``status``."""
    log = mapping(content.document)
    return isinstance(log.get("eval"), Mapping) and any(key in log for key in ("samples", "plan", "status"))


def inspect(content: Content, rows: Collector) -> None:
    """Read an evaluation log of Inspect AI, JSON or binary (``.eval``), one log a file.

    The system is ``eval.model``, the item the sample's ``id`` (behind the task, if a folder has logs of several), and each
    scorer a metric. The model that judged is that of the reply in the score's ``metadata.grading``, otherwise the scorer's
    option ``model``, otherwise the model role ``grader``. The verdict is the score's ``value``: ``C``, ``I``, ``P``, ``N`` (no
    answer of the system, a class of its own), or a number; values by key are metrics ``scorer.key``. Epochs are further answers
    of the system; a log that was scored again has other verdicts on the same answers.

    ``UNPARSEABLE`` are scores that Inspect's model graders explain by *Grade not found in model output*, which older versions
    count as incorrect. ``MISSING`` are scores without a value (``Score.unscored``: not a number, ``null``). If a score was
    edited, the value before is that of the judge, and the edited one that of a person. The length of an answer is the number of
    characters of its ``completion``.

    Sources: https://inspect.aisi.org.uk/eval-logs.html, and the classes ``EvalLog``, ``EvalSample``, ``Score`` and
    ``model_graded_qa`` of https://github.com/UKGovernmentBEIS/inspect_ai. Uncertain: scorers of other packages may explain a
    reply without a grade in other words; their verdicts are read as they stand.
    """
    log = content.document
    spec = mapping(log.get("eval"))
    rows.task = str(spec["task"]) if spec.get("task") else None
    models = _scorer_models(spec)
    samples = log.get("samples")
    if not samples:
        raise DataError(f"{content.name}: a log without samples (status {log.get('status')!r}); read the whole log")
    if log.get("status") not in (None, "success"):
        rows.notes.append(
            f"{content.name}: the status of the log is {log['status']!r}: verdicts on some samples may be lacking"
        )
    for n, sample in enumerate(objects(samples)):
        item = first(sample, "id")
        if item is None:
            raise DataError(f"{content.name}, sample {n + 1}: no id; write the log again with Inspect")
        rows.shown(item, sample.get("input"))
        scores = mapping(sample.get("scores") or _single(sample))
        if not scores:
            rows.drop("samples without scores" if sample.get("error") is None else "samples that ended with an error")
        where = {
            "system": spec.get("model"),
            "answer": sample.get("epoch"),
            # Of logs without identifiers of samples, each run has answers of its own.
            "sample": sample.get("uuid") or first(spec, "run_id", "eval_id"),
            "when": first(sample, "completed_at") or spec.get("created"),
            "length": characters(_completion(mapping(sample.get("output")))),
        }
        for name, score in scores.items():
            scorer = next(iter(models), name) if name == _PLACEHOLDER else name
            _add(rows, item, scorer, mapping(score), models.get(scorer), where)


def _completion(output: Mapping[str, Any]) -> Any:
    """Return the text that the system answered, ``None`` without one."""
    choices = objects(output.get("choices"))
    message = mapping(choices[0].get("message")) if choices else {}
    return first(output, "completion") or message.get("content")


def _add(
    rows: Collector, item: Any, scorer: str, score: Mapping[str, Any], model: str | None, where: dict[str, Any]
) -> None:
    """Add the verdict of a scorer, and that of a person who edited it."""
    model = _grading_model(score) or model
    history = objects(score.get("history"))
    value = history[0].get("value", score.get("value")) if history else score.get("value")
    explanation = (history[0] if history else score).get("explanation")
    unparseable = isinstance(explanation, str) and explanation.lower().startswith(_NO_GRADE)
    state = State.UNPARSEABLE if unparseable else None
    for metric, one in _values(scorer, value, rows):
        rows.add(item, metric, one, model=model, state=state, **where)
    if len(history) > 1 or (history and value != score.get("value")):
        author = mapping(history[-1].get("provenance")).get("author")
        for metric, one in _values(scorer, score.get("value"), rows):
            rows.person(
                item,
                one,
                metric,
                system=where["system"],
                annotator=author,
                answer=where["answer"],
                sample=where["sample"],
            )


def _values(scorer: str, value: Any, rows: Collector) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [(f"{scorer}.{key}", one) for key, one in value.items()]
    if isinstance(value, list):
        rows.drop("scores that are lists")
        return []
    return [(scorer, value)]


def _single(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return the score of a sample of the first versions, which had one scorer."""
    return {_PLACEHOLDER: sample["score"]} if isinstance(sample.get("score"), Mapping) else {}


def _scorer_models(spec: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the model of each scorer as the log's header states it."""
    grader = mapping(mapping(spec.get("model_roles")).get("grader")).get("model")
    models: dict[str, str | None] = {}
    seen: Counter[str] = Counter()
    for scorer in objects(spec.get("scorers")):
        model = mapping(scorer.get("options")).get("model")
        if isinstance(model, list):
            model = " + ".join(map(str, model))
        name = str(scorer.get("name"))
        graded = "model_graded" in name
        # Scores of the second scorer of a name have its number behind the name.
        numbered = f"{name}{seen[name]}" if seen[name] else name
        seen[name] += 1
        models[numbered] = str(model) if model else (grader if graded else None)
    return models


def _grading_model(score: Mapping[str, Any]) -> str | None:
    """Return the model of the reply that a model grader keeps beside its grade."""
    replies = objects(mapping(score.get("metadata")).get("grading"))
    return next((str(reply["model"]) for reply in reversed(replies) if reply.get("model")), None)
