"""Consensus labels as predictions that Label Studio imports, beside the tasks of its own export."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from crowdppl.arguments import InputPath, OutputFile, checked
from crowdppl.data.readers.label_studio import CHOICES, annotations_of, is_label_studio, results_of
from crowdppl.data.readers.records import Choices, choose
from crowdppl.data.readers.rows import items_of
from crowdppl.data.readers.source import SourceFile
from crowdppl.data.table.structured import EMPTY, SEPARATOR
from crowdppl.errors import DataError, FileError
from crowdppl.export.marked import span_predictions
from crowdppl.files import atomic
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.sets import has_sets
from crowdppl.posterior.spans import has_spans

# Result types in which a class can be written, each with the value of one label.
VALUES: dict[str, Callable[[Any], Any]] = {
    "choices": lambda label: [str(label)],
    "taxonomy": lambda label: [str(label).split(" / ")],
    "rating": lambda label: int(float(label)),
    "number": float,
    "pairwise": str,
}


@checked
def predictions(posterior: Posterior, source: InputPath, path: OutputFile, *, question: str | None = None) -> Path:
    """Write the consensus labels as predictions of the tasks of a project, a JSON file that Label Studio imports.

    Each task has its ``data``, and one prediction with the label, its probability as ``score``, and the model. Annotations are
    left out. Tasks that the result does not know have no prediction.

    Where sets of labels were fitted, a prediction has all labels of the set. Where spans were fitted, the predictions are spans
    with their probabilities, and the source may be of doccano or Prodigy as well (:func:`crowdppl.export.span_predictions`).

    Args:
        posterior: a result.
        source: the project's export in the format JSON, from which the result was made.
        path: of the file, which ends in ``.json``.
        question: name of the control in the project (``from_name``) whose answers were fitted; needed if there are several.

    Raises:
        DataError: if no task of the export is an item of the result, or there are several questions.
        FileError: if the source is no such export, or a file cannot be read or written.
    """
    if has_spans(posterior):
        return span_predictions(posterior, source, path)
    file, path = SourceFile(source), Path(path)
    if not file.records or not is_label_studio(file.records[0]) or "data" not in file.records[0]:
        raise FileError(f"{file.name}: not an export of Label Studio in the format JSON, with the data of its tasks")
    control = _control(file, question)
    answers = _answers(posterior)
    keys = items_of(file.records, ("id",), file.name, "task", within=file.within)
    matched, tasks = 0, []
    for task, key in zip(file.records, keys, strict=True):
        written: dict[str, Any] = {name: task[name] for name in ("data", "meta") if name in task}
        if (answer := answers.get(str(key))) is not None:
            matched += 1
            written["predictions"] = [_prediction(control, answer, str(posterior.info["model"]))]
        tasks.append(written)
    if not matched:
        raise DataError(
            f"{file.name}: none of its {len(tasks):,} tasks is an item of the result; name the export that was fitted"
        )
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(tasks, ensure_ascii=False, indent=1), encoding="utf-8")
    return path


def _answers(posterior: Posterior) -> dict[str, tuple[Any, float]]:
    """Return the label of each item, or the labels of each task's set, and their probability, by name."""
    if has_sets(posterior):
        table = posterior.sets()
        names = table[posterior.item_column]
        labels: Iterable[Any] = [[] if text == EMPTY else text.split(SEPARATOR) for text in table["labels"].tolist()]
    else:
        table, names = posterior.truth(), pd.Series(posterior.items())
        labels = table["label"]
    return dict(zip(map(str, names.tolist()), zip(labels, table["probability"], strict=True), strict=True))


def _control(file: SourceFile, question: str | None) -> dict[str, str]:
    """Return the names and the type of the control whose answers were fitted."""
    controls: dict[str, dict[str, str]] = {}
    for n, task in enumerate(file.records, 1):
        for annotation in annotations_of(task, file, n):
            for result, part in results_of(annotation, file, n):
                if not part and result.get("type") in CHOICES:
                    names = {name: str(result.get(name)) for name in ("from_name", "to_name", "type")}
                    controls.setdefault(names["from_name"], names)
    return controls[choose(list(controls), Choices(question=question), file.name)]


def _prediction(control: dict[str, str], answer: tuple[Any, float], model: str) -> dict[str, Any]:
    label, probability = answer
    kind = control["type"]
    try:
        value = label if kind == "choices" and isinstance(label, list) else VALUES[kind](label)
    except (TypeError, ValueError):
        raise DataError(
            f"the label {label!r} is no {kind} of Label Studio; was the result made from this export?"
        ) from None
    result = {"id": "consensus", **control, "value": {CHOICES[kind]: value}}
    return {"model_version": f"crowdppl {model}", "score": float(probability), "result": [result]}
