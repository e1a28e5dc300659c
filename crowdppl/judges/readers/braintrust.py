"""Experiments of Braintrust."""

from __future__ import annotations

from collections.abc import Mapping

from crowdppl.judges.readers.content import Content, asked_name, characters, first, parsed
from crowdppl.judges.readers.rows import Collector

# Keys of an event that other tools do not write beside its scores.
_OWN = {"_xact_id", "span_attributes", "root_span_id", "experiment_id"}


def is_braintrust(content: Content) -> bool:
    """Recognise events with ``scores`` by name, and keys such as ``span_attributes``."""
    if content.document is None:
        return "scores" in content.columns and bool(_OWN & set(content.columns))
    return any(isinstance(one.get("scores"), Mapping) and bool(_OWN & set(one)) for one in content.records[:100])


def braintrust(content: Content, rows: Collector) -> None:
    """Read the events of an experiment of Braintrust: JSON or JSON Lines, as its interface for programs returns them, or CSV.

    The item is the ``input``, or its only entry; the system ``model`` among the metadata, otherwise the experiment. Each entry
    of ``scores``, a number from 0 to 1, is a verdict of the judge of its name; ``null`` is ``MISSING``. Spans within others are
    left out. Different outputs of a system to one input are different answers, whose length is the number of characters.

    Sources: https://www.braintrust.dev/docs/reference/api, and ``ExperimentEvent`` of
    https://github.com/braintrustdata/braintrust-openapi. Uncertain: scores by people in its interface look like those of judges;
    choose with ``metric``.
    """
    for n, event in enumerate(content.rows if content.document is None else content.records, 1):
        scores = parsed(event.get("scores"))
        # Of CSV these are texts.
        inner = str(event.get("is_root")).lower() == "false" or event.get("span_parents") not in (None, "", "[]", [])
        if not scores or inner:
            rows.drop("spans without scores" if not scores else "spans within others")
            continue
        asked = first(event, "input", "dataset_record_id")
        item = asked_name(parsed(asked) or asked) if asked else f"event {n}"
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
