"""Experiments of Braintrust."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from crowdppl.judges.readers.content import Content, asked_name, characters, first, parsed
from crowdppl.judges.readers.rows import Collector
from crowdppl.judges.readers.tables import is_table

# Keys of an event that other tools do not write beside its scores.
_OWN = {"_xact_id", "span_attributes", "root_span_id", "experiment_id"}


def is_braintrust(content: Content) -> bool:
    """Recognise events with ``scores`` by name, and keys such as ``span_attributes``; no table with a column of verdicts."""
    if content.document is None:
        columns = set(content.columns)
        if "scores" not in columns or not _OWN & columns or is_table(content):
            return False
        return any(isinstance(one, str) and parsed(one) for one in content.table["scores"].tolist())
    return any(isinstance(one.get("scores"), Mapping) and bool(_OWN & set(one)) for one in content.records[:100])


def braintrust(content: Content, rows: Collector) -> None:
    """Read the events of an experiment of Braintrust: JSON or JSON Lines, as its interface for programs returns them, or CSV.

    The item is the ``input``, or its only entry if those of all events have the same name; the system ``model`` among the
    metadata, otherwise the experiment. Each entry of ``scores``, a number from 0 to 1, is a verdict of the judge of its name;
    ``null`` is ``MISSING``. Spans within others are left out. Different outputs of a system to one input are different answers,
    whose length is the number of characters.

    Sources: https://www.braintrust.dev/docs/reference/api, and ``ExperimentEvent`` of
    https://github.com/braintrustdata/braintrust-openapi. Uncertain: scores by people in its interface look like those of judges;
    choose with ``metric``.
    """
    events = list(content.rows if content.document is None else content.records)
    inputs = [_input(event, of_table=content.document is None) for event in events]
    # Entries of different names are different inputs, even if their values are equal, and so are an entry and a text.
    forms = {tuple(one) if isinstance(one, Mapping) else () for one in inputs if one is not None}
    for n, (event, asked) in enumerate(zip(events, inputs, strict=True), 1):
        scores = parsed(event.get("scores"))
        # Of CSV these are texts.
        inner = str(event.get("is_root")).lower() == "false" or event.get("span_parents") not in (None, "", "[]", [])
        if not scores or inner:
            rows.drop("spans without scores" if not scores else "spans within others")
            continue
        item = f"event {n}" if asked is None else _name(asked, alike=len(forms) == 1)
        system = first(parsed(event.get("metadata")), "model", "model_name") or event.get("experiment_id")
        answer = rows.answer(item, system, event.get("output"))
        for name, score in scores.items():
            rows.add(
                item,
                str(name),
                score,
                system=None if system is None else str(system),
                answer=answer,
                when=event.get("created"),
                length=characters(event.get("output")),
            )


def _input(event: Mapping[str, Any], of_table: bool) -> Any:
    """Return what was asked, ``None`` where it is not stated; of tables, an object that is written as text."""
    asked = first(event, "input", "dataset_record_id")
    if isinstance(asked, str) and not asked.strip():
        return None
    return (parsed(asked) or asked) if of_table else asked


def _name(asked: Any, alike: bool) -> Any:
    if isinstance(asked, Mapping) and not alike:
        return json.dumps(asked, sort_keys=True, ensure_ascii=False)
    return asked_name(asked)
