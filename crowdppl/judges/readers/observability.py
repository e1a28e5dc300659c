"""Scores and annotations that tracing tools export: Langfuse, LangSmith, Phoenix."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from crowdppl.errors import DataError
from crowdppl.judges.coding.states import State
from crowdppl.judges.readers.content import Content, characters, first, parsed
from crowdppl.judges.readers.rows import Collector
from crowdppl.judges.readers.tables import is_table

Row = Mapping[str, Any]

_TRACE = ("traceId", "trace_id")
_TRACE_NAME = ("traceName", "trace_name")
_OBSERVATION = ("observationId", "observation_id")
_SESSION = ("sessionId", "session_id", "datasetRunId", "dataset_run_id")
_STRING_VALUE = ("stringValue", "string_value")
_DATA_TYPE = ("dataType", "data_type")
_AUTHOR = ("authorUserName", "author_user_name", "authorUserId", "author_user_id")
# Columns of the results of an experiment of LangSmith.
_EXAMPLE, _FEEDBACK = "example_id", "feedback."
_ANSWERS = ("outputs.", "inputs.", "output.", "input.", "reference.")
_SPAN = ("span_id", "context.span_id", "spanId", "span.id", "trace_id", "session_id")
_PHOENIX_NAME = ("annotation_name", "name")
_KIND = ("annotator_kind", "annotatorKind")
_LABEL = ("result.label", "label")
_SCORE = ("result.score", "score")
_PHOENIX_AUTHOR = ("user_id", "identifier", "metadata.annotator")
_MODEL = ("metadata.model", "metadata.model_name")
# The label that phoenix.evals gives where the judge's reply has none of the labels.
_NOT_PARSABLE = "not_parsable"


def is_langfuse(content: Content) -> bool:
    """Recognise columns ``name``, ``value``, ``source`` and ``traceId`` or ``trace_id``."""
    columns = set(content.columns)
    return {"name", "value", "source"} <= columns and bool(columns & {*_TRACE, *_SESSION})


def langfuse(content: Content, rows: Collector) -> None:
    """Read Langfuse's scores (CSV, JSON, JSON Lines) from its interface, its programming interface or a blob storage.

    A row is a score. The item is the trace, or the observation if a trace has scores of several. The system is the name of the
    trace, where the export states it. The metric is ``name``. Scores with the source ``ANNOTATION`` are verdicts of people,
    those with ``EVAL`` and ``API`` of judges: two where a trace has scores of one name from both. The verdict is
    ``stringValue`` for categories, ``true`` or ``false`` for booleans, and ``value`` for numbers. ``MISSING`` are scores
    without a value.

    Sources: https://langfuse.com/docs/api-and-data-platform/features/blob-storage-export-fields,
    https://langfuse.com/docs/api-and-data-platform/features/export-from-ui, and ``ScoreSchema`` of
    https://github.com/langfuse/langfuse. Uncertain: the columns of the CSV from the interface are not documented; both
    spellings (``traceId``, ``trace_id``) are accepted. The export states no model, so that a judge has the name of the score,
    and scores with the source ``API`` may come from users: choose with ``metric``.
    """
    table = list(content.rows)
    several, mixed = (
        _several_observations(table),
        _of_several_kinds(table, (*_TRACE, *_SESSION), ("source",), "ANNOTATION"),
    )
    for n, row in enumerate(table, 1):
        item = (_value(row, *_OBSERVATION) if several else None) or _value(row, *_TRACE, *_SESSION, *_OBSERVATION)
        if item is None:
            rows.drop("scores without a trace")
            continue
        name = _value(row, "name")
        if name is None:
            raise DataError(f"{content.name}, row {n}: no name of the score; export the scores again")
        verdict = _langfuse_value(row)
        when, system = _value(row, "timestamp", "createdAt", "created_at"), _value(row, *_TRACE_NAME)
        if str(_value(row, "source")).upper() == "ANNOTATION":
            rows.person(item, verdict, str(name), annotator=_value(row, *_AUTHOR), when=when, system=system)
        else:
            judge = str(_value(row, "source")) if str(name) in mixed else None
            rows.add(item, str(name), verdict, model=judge, when=when, system=system)


def _of_several_kinds(table: Sequence[Row], item: Sequence[str], kind: Sequence[str], people: str) -> set[str]:
    """Return the names of scores that one item has in several ways, as of a model and of a program: each way is a judge."""
    kinds: dict[tuple[str, str], set[str]] = {}
    for row in table:
        given, name = str(_value(row, *kind)).upper(), str(_value(row, *_PHOENIX_NAME))
        if given != people:
            kinds.setdefault((str(_value(row, *item)), name), set()).add(given)
    return {name for (_, name), ways in kinds.items() if len(ways) > 1}


def _several_observations(table: Sequence[Row]) -> bool:
    """Return whether a trace has scores of several observations."""
    first: dict[Any, Any] = {}
    for row in table:
        observation = _value(row, *_OBSERVATION)
        if observation is not None and first.setdefault(_value(row, *_TRACE), observation) != observation:
            return True
    return False


def _langfuse_value(row: Row) -> Any:
    kind, text, value = str(_value(row, *_DATA_TYPE)).upper(), _value(row, *_STRING_VALUE), _value(row, "value")
    number = _number(value)
    if kind == "BOOLEAN":
        if number is not None:
            return bool(number) if number in (0, 1) else None
        return {"true": True, "false": False}.get(str(text if text is not None else value).strip().lower())
    if kind == "CATEGORICAL":
        return str(text) if text is not None else value if value is None else str(value)
    return number if number is not None else text if text is not None else value


def is_langsmith(content: Content) -> bool:
    """Recognise columns ``run_id``, ``key``, ``feedback_source``, and ``score`` or ``value``; or those of an experiment."""
    columns = set(content.columns)
    feedback = {"run_id", "key", "feedback_source"} <= columns and bool(columns & {"score", "value"})
    return feedback or (_of_experiment(columns) and not is_table(content))


def _of_experiment(columns: Collection[str]) -> bool:
    """Return whether columns are those of the results of an experiment: an example, what was asked or answered, and feedback."""
    answers = any(name.startswith(_ANSWERS) for name in columns)
    return answers and _EXAMPLE in columns and any(name.startswith(_FEEDBACK) for name in columns)


def langsmith(content: Content, rows: Collector) -> None:
    """Read LangSmith's feedback (JSON, JSON Lines, CSV), as its ``list_feedback`` returns it.

    A row is a verdict. The item is the run, the system the experiment (``session_id``), and the metric the ``key``. The verdict
    is the ``score``, of categories the ``value``; without both it is ``MISSING``. Feedback whose source has the type ``app`` is
    of people, other feedback (``model``, ``api``, ``auto_eval``) of judges.

    *Results of an experiment* (``get_test_results``, ``to_pandas``): a row is an answer to the example ``example_id``, and each
    column ``feedback.<key>`` has the verdicts of the judge of this name. The system is the name of the file. Beside numbers,
    columns of texts, such as comments, are left out, with a note.

    Sources: https://docs.langchain.com/langsmith/feedback-data-format, and ``Feedback`` and ``Client.get_test_results`` of
    https://github.com/langchain-ai/langsmith-sdk. Uncertain: feedback of the type ``api`` may come from users; choose with
    ``metric``. The model that judged is not stated.
    """
    if "feedback_source" not in content.columns:
        _experiment(content, rows)
        return
    for n, row in enumerate(content.rows, 1):
        item, name = _value(row, "run_id", "trace_id"), _value(row, "key")
        if item is None or name is None:
            raise DataError(f"{content.name}, row {n}: no run or no key of the feedback; export the feedback again")
        source, score = parsed(row.get("feedback_source")), _value(row, "score")
        if isinstance(score, bool):
            score = float(score)
        number = _number(score)
        verdict = _value(row, "value") if number is None else number
        others = {"when": _value(row, "created_at"), "system": _value(row, "session_id")}
        if str(source.get("type")).lower() == "app":
            rows.person(item, verdict, str(name), annotator=first(source, "user_id", "user_name"), **others)
        else:
            rows.add(item, str(name), verdict, **others)


def _experiment(content: Content, rows: Collector) -> None:
    """Add the verdicts in the results of an experiment."""
    names = [name for name in content.columns if name.startswith(_FEEDBACK)]
    texts = [name for name in names if _has_texts(content.table[name])]
    if len(texts) < len(names):
        names = [name for name in names if name not in texts]
        for name in texts:
            rows.notes.append(
                f"{content.name}: column {name!r} has texts beside scores in other columns and is left out"
            )
    answers = [name for name in content.columns if name.startswith("outputs.")]
    system = content.file.stem
    for row in content.rows:
        item = _value(row, _EXAMPLE)
        if item is None or _value(row, "error") is not None:
            rows.drop("rows without an example" if item is None else "answers that ended with an error")
            continue
        answer = rows.answer(item, system, _value(row, "id"))
        long = characters(_value(row, answers[0])) if len(answers) == 1 else None
        for name in names:
            given = _value(row, name)
            number = _number(given)
            verdict = given if number is None else number
            rows.add(item, name.removeprefix(_FEEDBACK), verdict, system=system, answer=answer, length=long)


def _has_texts(column: pd.Series[Any]) -> bool:
    """Return whether a column has texts that are neither numbers nor true or false."""
    values = [value for value in column.dropna().tolist() if not (isinstance(value, str) and not value.strip())]
    return any(
        _number(v) is None and not isinstance(v, bool) and str(v).lower() not in ("true", "false") for v in values
    )


def is_phoenix(content: Content) -> bool:
    """Recognise a span with ``annotator_kind``, or with a label or score."""
    columns = set(content.columns)
    result = columns & {*_LABEL, *_SCORE}
    return bool(columns & set(_SPAN[:4]) and result) or bool(columns & set(_KIND) and columns & set(_SPAN) and result)


def phoenix(content: Content, rows: Collector) -> None:
    """Read Phoenix's annotations or evaluations of spans (CSV, Parquet, JSON, JSON Lines).

    Columns are those of ``get_span_annotations_dataframe`` (``span_id``, ``annotation_name``, ``annotator_kind``,
    ``result.label``, ``result.score``), of the interface (``name``, ``result``), or of a table of evaluations
    (``context.span_id``, ``label``, ``score``). The item is the span, the metric the annotation's name, otherwise the name of
    the file. Annotations of the kind ``HUMAN`` are verdicts of people, those of ``LLM`` and ``CODE`` of judges. The model that
    judged is ``model`` in the metadata. The verdict is the label; without labels, the score.

    ``UNPARSEABLE`` is the label ``NOT_PARSABLE`` of ``phoenix.evals``; ``MISSING`` are rows with neither label nor score.

    Sources: https://arize.com/docs/phoenix/tracing/how-to-tracing/feedback-and-annotations/capture-feedback,
    https://arize.com/docs/phoenix/tracing/how-to-tracing/importing-and-exporting-traces/exporting-annotated-spans, and
    https://arize.com/docs/phoenix/tracing/how-to-tracing/feedback-and-annotations/llm-evaluations. Uncertain: ``model`` in the
    metadata is a habit, not part of the format; a CSV or Parquet file is what a user wrote from one of these tables.
    """
    table = list(content.rows)
    mixed = _of_several_kinds(table, _SPAN, _KIND, "HUMAN")
    labelled = {_phoenix_name(row, content) for row in table if _value(row, *_LABEL) is not None}
    for row in table:
        item = _value(row, *_SPAN)
        if item is None:
            rows.drop("annotations without a span")
            continue
        name, label, score = _phoenix_name(row, content), _value(row, *_LABEL), _number(_value(row, *_SCORE))
        verdict = label if name in labelled else score
        when = _value(row, "created_at", "createdAt")
        if str(_value(row, *_KIND)).upper() == "HUMAN":
            rows.person(item, verdict, name, annotator=_value(row, *_PHOENIX_AUTHOR), when=when)
            continue
        unparsable = isinstance(label, str) and label.strip().lower() == _NOT_PARSABLE
        rows.add(
            item,
            name,
            verdict,
            model=_phoenix_model(row) or (str(_value(row, *_KIND)) if name in mixed else None),
            state=State.UNPARSEABLE if unparsable else None,
            score=score,
            when=when,
        )


def _phoenix_name(row: Row, content: Content) -> str:
    name = _value(row, *_PHOENIX_NAME)
    return content.name.split(".")[0] if name is None else str(name)


def _phoenix_model(row: Row) -> str | None:
    model = _value(row, *_MODEL) or first(parsed(row.get("metadata")), "model", "model_name")  # of CSV, a text
    return None if model is None else str(model)


def _value(row: Row, *names: str) -> Any:
    """Return the value of the first of several columns that is not blank, ``None`` without one."""
    for name in names:
        value = row.get(name)
        if isinstance(value, (dict, list)):
            return value
        if value is not None and not pd.isna(value) and not (isinstance(value, str) and not value.strip()):
            return value
    return None


def _number(value: Any) -> float | None:
    if value is None or isinstance(value, (bool, dict, list)):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
