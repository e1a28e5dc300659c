"""Results of RAGAS."""

from __future__ import annotations

import pandas as pd

from crowdppl.judges.readers.content import Content, characters, numbers_or_texts
from crowdppl.judges.readers.rows import Collector

# What a row is about: columns that are no metrics.
_TEXTS = {
    "user_input",
    "question",
    "response",
    "answer",
    "retrieved_contexts",
    "contexts",
    "reference",
    "reference_contexts",
    "ground_truth",
    "ground_truths",
    "rubrics",
    "multi_responses",
    "reference_tool_calls",
    "retrieved_context_ids",
    "reference_context_ids",
}
_ROWS = ({"user_input", "response"}, {"user_input", "retrieved_contexts"}, {"question", "answer", "contexts"})


def is_ragas(content: Content) -> bool:
    """Recognise columns ``user_input`` and ``response`` or ``retrieved_contexts``, and one of numbers."""
    columns = set(content.columns)
    return any(columns >= wanted for wanted in _ROWS) and "judge" not in columns and bool(_metrics(content.table))


def ragas(content: Content, rows: Collector) -> None:
    """Read the table that RAGAS's ``evaluate(...).to_pandas()`` returns (CSV, JSON, JSON Lines, Parquet).

    A row is an answer, its item the ``user_input``. Each column of numbers is a metric, and a judge; blank ones are ``MISSING``,
    which RAGAS writes where a judge failed. Different responses to one input are different answers, whose length is the number of
    characters.

    Sources: https://docs.ragas.io/en/stable/references/evaluate, and ``EvaluationResult`` of
    https://github.com/explodinggradients/ragas. Uncertain: the table states neither the system nor the model that
    judged.
    """
    table = content.table
    inputs = table["user_input" if "user_input" in table else "question"].tolist()
    inputs = [f"row {n}" if one is None else str(one) for n, one in enumerate(inputs, 1)]
    none = pd.Series([None] * len(table), dtype=object)
    responses = table.get("response", table.get("answer", none)).tolist()
    answers = [rows.answer(*one) for one in zip(inputs, [None] * len(inputs), responses, strict=True)]
    for name in _metrics(table):
        for n, value in enumerate(numbers_or_texts(table[name])):
            rows.add(inputs[n], name, value, answer=answers[n], length=characters(responses[n]))


def _metrics(table: pd.DataFrame) -> list[str]:
    """Return the columns of numbers, without that of the numbers of rows."""
    names = [name for name in map(str, table.columns) if name not in _TEXTS and not name.startswith("Unnamed")]
    return [name for name in names if any(isinstance(one, float) for one in numbers_or_texts(table[name]))]
