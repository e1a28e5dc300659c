"""Samples of lm-evaluation-harness."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from crowdppl.errors import DataError
from crowdppl.judges.coding.states import State
from crowdppl.judges.readers.content import Content
from crowdppl.judges.readers.rows import Collector

# Keys of a sample that are not metrics.
_KEYS = {
    "doc_id",
    "doc",
    "target",
    "arguments",
    "resps",
    "filtered_resps",
    "filter",
    "metrics",
    "doc_hash",
    "prompt_hash",
    "target_hash",
    "token_counts",
    "input",
    "bypass",
    "task",
    "split",
}
# What the harness's regular expression filters return if nothing matches, filter option fallback.
_INVALID = "[invalid]"
_FILE = re.compile(r"samples_(?P<task>.+?)_\d{4}-\d{2}-\d{2}T.*")


def is_lm_eval(content: Content) -> bool:
    """Recognise records with ``doc_id``, and ``filtered_resps`` or ``resps``."""
    records = content.records
    return bool(records) and "doc_id" in records[0] and bool({"filtered_resps", "resps"} & set(records[0]))


def lm_eval(content: Content, rows: Collector) -> None:
    """Read the samples that lm-evaluation-harness writes with ``--log_samples``, ``samples_<task>_<date>.jsonl``.

    The item is ``doc_id``, in a file of the usual name ``<task>/<doc_id>``. Each metric is a judge, with the filter if there are
    several: the keys in ``metrics``, or in files without it all other keys whose value is a number. The system is the folder of
    the file, in which the harness writes the name of the model with ``__`` for ``/``.

    ``UNPARSEABLE`` are samples in which the filter has not matched (all of ``filtered_resps`` are ``[invalid]``): the harness
    counts them as incorrect, but it has not read the system's reply.

    Sources: https://github.com/EleutherAI/lm-evaluation-harness/blob/main/docs/interface.md, and ``evaluate`` and
    ``EvaluationTracker.save_results_samples`` there. Uncertain: a task may give its filter another fallback than ``[invalid]``;
    metrics whose value is a list (perplexities) are left out.
    """
    records = content.records
    match = _FILE.match(content.name)
    folder = content.path.resolve().parent.name
    system = folder.replace("__", "/") if "__" in folder else None
    filters = {str(record.get("filter")) for record in records}
    for n, record in enumerate(records, 1):
        if record.get("doc_id") is None:
            raise DataError(f"{content.name}, line {n}: no doc_id; write the samples again with --log_samples")
        item = f"{match['task']}/{record['doc_id']}" if match else record["doc_id"]
        unread = _unread(record.get("filtered_resps"))
        # Without the responses, another record of a document may be another filter of the same response.
        answer = rows.answer(item, system, record["resps"]) if record.get("resps") else None
        for metric in _metrics(record):
            value = record.get(metric)
            if isinstance(value, (list, dict, str)):
                rows.drop(f"values of {metric!r}, which are not numbers")
                continue
            rows.add(
                item,
                metric if len(filters) < 2 else f"{metric} ({record.get('filter')})",
                float(value) if isinstance(value, bool) else value,
                state=State.UNPARSEABLE if unread else None,
                system=system,
                answer=answer,
            )


def _metrics(record: Mapping[str, Any]) -> list[str]:
    stated = record.get("metrics")
    if isinstance(stated, list):
        return [str(metric) for metric in stated if metric != "bypass"]
    return [name for name, value in record.items() if name not in _KEYS and isinstance(value, (bool, int, float))]


def _unread(replies: Any) -> bool:
    listed = replies if isinstance(replies, list) else [replies]
    flat = [one for reply in listed for one in (reply if isinstance(reply, list) else [reply])]
    return bool(flat) and all(reply == _INVALID for reply in flat)
