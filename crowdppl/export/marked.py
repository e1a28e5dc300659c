"""Spans with their probabilities for the tools that they were marked with: Label Studio, doccano and Prodigy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crowdppl.arguments import InputPath, OutputFile, checked
from crowdppl.data.readers import label_studio as studio
from crowdppl.data.readers import tools
from crowdppl.data.readers.rows import items_of
from crowdppl.data.readers.source import SourceFile
from crowdppl.data.readers.spans import Span, record_of, tokenised
from crowdppl.errors import DataError, FileError
from crowdppl.files import atomic
from crowdppl.posterior.posterior import Posterior

# A span and its probability.
Scored = tuple[Span, float]


@checked
def span_predictions(posterior: Posterior, source: InputPath, path: OutputFile) -> Path:
    """Write the spans of a result in the format of the file that it was made from, atomically; each text once.

    Label Studio: the tasks, each with a prediction whose regions have a ``score``. doccano: JSON Lines with ``label``, a list of
    start, end and type, and ``probability``, a number for each. Prodigy: JSON Lines with ``tokens`` and ``spans``, each with a
    ``score``.

    Args:
        posterior: a result with spans.
        source: the file, or one of the files, that were fitted.
        path: of the file.

    Raises:
        DataError: if the result has no spans, or no text of the file is in it.
        FileError: if the source is none of these formats, or a file cannot be read or written.
    """
    file, path = SourceFile(source), Path(path)
    table = posterior.spans()
    first, last = (table[f"{end}_{posterior.item_column}"].astype(str) for end in ("first", "last"))
    by_token = {
        a: (b, str(kind), float(p))
        for a, b, kind, p in zip(first, last, table["type"], table["probability"], strict=True)
    }
    known = set(map(str, posterior.items().tolist()))
    matched = 0

    def of_text(text_id: Any, text: Any) -> list[Scored]:
        """Return the spans of a text."""
        nonlocal matched
        if not isinstance(text, str):
            return []
        tokens = tokenised(text)
        places = {record_of(text_id, n): n for n in range(len(tokens))}
        matched += any(name in known for name in places)
        return [
            (Span(tokens[n][0], tokens[places[end]][1], kind), p)
            for name, n in places.items()
            if name in by_token
            for end, kind, p in [by_token[name]]
            if end in places
        ]

    record = file.records[0] if file.records else {}
    if studio.is_label_studio(record) and "data" in record:
        out: Any = _label_studio(file, of_text, str(posterior.info["model"]))
        content = json.dumps(out, ensure_ascii=False, indent=1)
    elif tools.is_prodigy(record) or tools.is_doccano(record):
        lines = _prodigy(file, of_text) if tools.is_prodigy(record) else _doccano(file, of_text)
        content = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    else:
        raise FileError(f"{file.name}: no export of Label Studio (JSON), doccano or Prodigy (JSON Lines)")
    if not matched:
        raise DataError(f"{file.name}: none of its texts is in the result; name the file that was fitted")
    with atomic(path) as temporary:
        temporary.write_text(content, encoding="utf-8")
    return path


def _label_studio(file: SourceFile, of_text: Callable[[Any, Any], list[Scored]], model: str) -> list[dict[str, Any]]:
    keys = items_of(file.records, ("id",), file.name, "task", within=file.within)
    control, name = _control(file), studio.text_key(file)
    out = []
    for task, key in zip(file.records, keys, strict=True):
        text = (task.get("data") or {}).get(name)
        scored = of_text(key, text)
        results = [
            {
                "id": f"span{place}",
                **control,
                "type": "labels",
                "score": p,
                "value": {
                    "start": one.start,
                    "end": one.end,
                    "text": (text or "")[one.start : one.end],
                    "labels": [one.kind],
                },
            }
            for place, (one, p) in enumerate(scored)
        ]
        written: dict[str, Any] = {name: task[name] for name in ("id", "data", "meta") if name in task}
        score = min((p for _, p in scored), default=1.0)
        out.append(
            written | {"predictions": [{"model_version": f"crowdppl {model}", "score": score, "result": results}]}
        )
    return out


def _control(file: SourceFile) -> dict[str, str]:
    """Return the names of the control by which spans were marked."""
    for n, task in enumerate(file.records, 1):
        for annotation in studio.annotations_of(task, file, n):
            for result, _ in studio.results_of(annotation, file, n):
                if studio.is_span(result):
                    return {name: str(result.get(name)) for name in ("from_name", "to_name")}
    raise DataError(f"{file.name}: nobody marked a span in it; name the export that was fitted")


def _doccano(file: SourceFile, of_text: Callable[[Any, Any], list[Scored]]) -> list[dict[str, Any]]:
    keys = items_of(file.records, ("id", "example_id"), file.name, "line", within=file.within)
    out: dict[Any, dict[str, Any]] = {}
    for record, key in zip(file.records, keys, strict=True):
        if key in out:
            continue
        text = record.get("text", record.get("data"))
        scored = of_text(key, text)
        out[key] = {
            "id": key,
            "text": text,
            "label": [[one.start, one.end, one.kind] for one, _ in scored],
            "probability": [p for _, p in scored],
        }
    return list(out.values())


def _prodigy(file: SourceFile, of_text: Callable[[Any, Any], list[Scored]]) -> list[dict[str, Any]]:
    out: dict[Any, dict[str, Any]] = {}
    for record in file.records:
        key, text = record.get("_input_hash"), record.get("text")
        if key in out or not isinstance(text, str):
            continue
        tokens = tokenised(text)
        starts, ends = ({piece[end]: n for n, piece in enumerate(tokens)} for end in (0, 1))
        out[key] = {
            "text": text,
            "_input_hash": key,
            "tokens": [{"text": text[a:b], "start": a, "end": b, "id": n} for n, (a, b) in enumerate(tokens)],
            "spans": [
                {
                    "start": one.start,
                    "end": one.end,
                    "token_start": starts[one.start],
                    "token_end": ends[one.end],
                    "label": one.kind,
                    "score": p,
                }
                for one, p in of_text(key, text)
            ],
        }
    return list(out.values())
