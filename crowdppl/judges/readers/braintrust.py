"""Experiments of Braintrust."""

from __future__ import annotations

import json
from collections.abc import Mapping

from crowdppl.judges.readers.content import Content, characters, first, mapping
from crowdppl.judges.readers.rows import Collector

# Keys of an event that other tools do not write beside its scores.
_OWN = {"_xact_id", "span_attributes", "root_span_id", "experiment_id"}


def is_braintrust(content: Content) -> bool:
    """Recognise events with ``scores`` by name, and keys such as ``span_attributes``."""
    return any(isinstance(one.get("scores"), Mapping) and bool(_OWN & set(one)) for one in content.records[:100])


def braintrust(content: Content, rows: Collector) -> None:
    """Read the events of an experiment of Braintrust, JSON or JSON Lines, as its interface for programs returns them.

    The item is the ``input``; the system ``model`` among the metadata, otherwise the experiment. Each entry of ``scores``, a
    number from 0 to 1, is a verdict of the judge of its name; ``null`` is ``MISSING``. Spans within others are left out.
    Different outputs of a system to one input are different answers, whose length is the number of characters.

    Sources: https://www.braintrust.dev/docs/reference/api, and ``ExperimentEvent`` of
    https://github.com/braintrustdata/braintrust-openapi. Uncertain: scores by people in its interface look like those of judges;
    choose with ``metric``.
    """
    for n, event in enumerate(content.records, 1):
        scores = mapping(event.get("scores"))
        inner = event.get("is_root") is False or bool(event.get("span_parents"))
        if not scores or inner:
            rows.drop("spans without scores" if not scores else "spans within others")
            continue
        asked = first(event, "input", "dataset_record_id")
        item = asked if isinstance(asked, (str, int)) else json.dumps(asked, sort_keys=True) if asked else f"event {n}"
        system = first(mapping(event.get("metadata")), "model", "model_name") or event.get("experiment_id")
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
