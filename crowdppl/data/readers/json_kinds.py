"""What a JSON document is: answers by task and worker, the data of a shared task, or something without annotations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal

from crowdppl.data.readers.file_kinds import BOXES, BOXES_OF_WORKERS
from crowdppl.data.readers.json_tables import long_names, numbered
from crowdppl.data.readers.worker_columns import names_a_worker

# By keys that a document has: what it is.
_OTHERS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("images", "annotations", "categories"), "COCO's boxes and segments, which are not labels of whole items"),
    (("type", "features"), "GeoJSON, a map"),
    (("type", "coordinates"), "GeoJSON, a map"),
    (("nbformat", "cells"), "a Jupyter notebook"),
    (("shapes", "imagePath"), "LabelMe's shapes, which are not labels of whole items"),
    (("_via_img_metadata",), "regions of VGG Image Annotator, which are not labels of whole items"),
    (("project", "attribute", "metadata", "view"), "marks of VGG Image Annotator, without the people who made them"),
    (("dm_format_version", "items"), "Datumaro's annotations, without the people who made them"),
    (("categories", "items", "info"), "Datumaro's annotations, without the people who made them"),
    (("export_format_version", "label_classes"), "Hasty's boxes and segments, which are not labels of whole items"),
    (("hits", "took"), "the answer of a search engine; the records are under 'hits.hits'"),
    (("$schema",), "a schema or a configuration"),
    (("compilerOptions",), "a configuration of TypeScript"),
    (("dependencies", "version"), "a description of a package"),
    (("scripts", "name"), "a description of a package"),
    (("model_type",), "a configuration of a model"),
    (("schema_version", "vulnerabilities"), "a report of vulnerabilities"),
)
# By keys of the first record and what they hold: tools that are not read, and where items, workers and labels stand in them.
_TOOLS: tuple[tuple[dict[str, type], str, str], ...] = (
    ({"label_hash": str, "data_units": dict}, "Encord", "'data_title', 'createdBy' and 'classification_answers'"),
    ({"metadata": dict, "instances": list}, "SuperAnnotate", "'metadata.name', 'createdBy' and 'className'"),
    ({"annotatable": dict, "entities": list}, "tagtog", "the file, 'confidence.who' and 'metas'"),
    ({"item": dict, "annotations": list, "version": str}, "V7 Darwin", "'item.name', 'annotators' and 'name'"),
    ({"objects": list, "tags": list, "size": dict}, "Supervisely", "the file, 'labelerLogin' and 'tags'"),
    ({"examples": list, "relations": list}, "LightTag", "'example_id', 'annotated_by' and 'classifications'"),
    ({"task_id": str, "type": str, "response": dict}, "Scale", "'task_id', the worker and 'response'"),
)
# Tools whose keys are common words: the objects under them are not empty.
_WEAK = ("SuperAnnotate", "Scale")
# Shares of answers whose label is given by other workers, and to other tasks, from which labels are taken for common classes.
_SHARED = 0.7


def description(document: Any) -> str | None:
    """Return what a JSON document without annotations is, ``None`` if it is unknown."""
    if not isinstance(document, Mapping):
        return None
    if document.get("type") not in (None, "FeatureCollection", "Feature") and "features" in document:
        return None
    inner = next(iter(document.values()), None)
    if isinstance(inner, Mapping) and {"filename", "regions", "file_attributes"} <= set(inner):
        return "regions of VGG Image Annotator, which are not labels of whole items"
    return next((kind for keys, kind in _OTHERS if all(key in document for key in keys)), None)


# Keys of the answer of a server in place of data.
_MESSAGES = (
    "error",
    "errors",
    "message",
    "detail",
    "documentation_url",
    "status",
    "code",
    "request_id",
    "title",
    "type",
)


def message(document: Any) -> str | None:
    """Return the message of a server that refused the data, ``None`` for other documents."""
    if not isinstance(document, Mapping) or not document or not set(map(str, document)) <= set(_MESSAGES):
        return None
    said = next((document[key] for key in _MESSAGES[:4] if document.get(key)), None)
    said = said.get("message", said) if isinstance(said, Mapping) else said
    return said[:120] if isinstance(said, str) else None


def tool(record: Any) -> str | None:
    """Return whose export a file is that is not read, by its first record, and how to write a table; ``None`` for others."""
    if not isinstance(record, Mapping) or long_names(record):
        return None
    for keys, name, places in _TOOLS:
        if name in _WEAK and not any(record.get(key) for key in keys if keys[key] is dict):
            continue
        if all(_holds(record.get(key), kind) for key, kind in keys.items()):
            return (
                f"an export of {name}, which is not read: write a table with the columns task, worker and label, which stand "
                f"in {places}"
            )
    return None


# Keys of a part of an image that a label is given to, and of the list of parts of CreateML and CrowdHuman.
_REGION = frozenset(
    (
        "coordinates",
        "bbox",
        "bndbox",
        "box",
        "boundingbox",
        "bounding_box",
        "hbox",
        "polygon",
        "segmentation",
        "keypoints",
    )
)


def regions(record: Any) -> str | None:
    """Return where in a record boxes or polygons stand, by which tool if it is known, and what to do; ``None`` without any."""
    if not isinstance(record, Mapping):
        return None
    for key, value in record.items():
        if not isinstance(value, list) or not value or not all(isinstance(part, Mapping) for part in value):
            continue
        if all(any(str(key).lower() in _REGION and _is_place(one) for key, one in part.items()) for part in value):
            tool = " of CreateML" if all({"label", "coordinates"} <= set(part) for part in value) else ""
            of_workers = all(any(names_a_worker(str(key)) for key in part) for part in value)
            return f"boxes or polygons{tool} under {str(key)!r}, {BOXES_OF_WORKERS if of_workers else BOXES}"
    return None


def _is_place(value: Any) -> bool:
    """Return whether a value may be the place of a region, an object, a list or a text of numbers; a word may be an answer."""
    if isinstance(value, str):
        return len(re.findall(r"\d+(?:\.\d+)?", value)) > 3
    return isinstance(value, (Mapping, list))


def _holds(value: Any, kind: type) -> bool:
    """Return whether a value is of a kind; a list is one of objects."""
    if kind is list:
        return isinstance(value, list) and all(isinstance(part, Mapping) for part in value)
    return isinstance(value, kind)


def answers(document: Any) -> Literal["yes", "no", "turned"]:
    """Return whether an object of objects maps tasks to workers to labels, as peerannot's ``answers.json``.

    Configurations, tables and counts have the same form. In answers, tasks and workers are numbers, or the labels are classes
    that several workers use and several tasks receive. ``"turned"`` says that it may as well map workers to tasks: everyone
    labelled everything, and the inner keys are at least as many as the outer ones.
    """
    if not isinstance(document, Mapping) or not document or not all(isinstance(v, Mapping) for v in document.values()):
        return "no"
    cells = [(task, worker, label) for task, row in document.items() for worker, label in row.items()]
    if not cells or not all(_may_be_class(label) for *_, label in cells):
        return "no"
    workers = {worker for _, worker, _ in cells}
    complete = len(document) > 1 and len(workers) > 1 and len(cells) == len(document) * len(workers)
    if not (all(map(_number, document)) and all(map(_number, workers))) and not (
        in_common([(worker, label) for _, worker, label in cells])
        and in_common([(task, label) for task, _, label in cells])
    ):
        return "no"
    tasks_numbered = numbered(list(document)) and not all(map(_number, workers))
    return "turned" if complete and len(workers) >= len(document) and not tasks_numbered else "yes"


def _may_be_class(label: Any) -> bool:
    if isinstance(label, float):
        return label.is_integer()
    return isinstance(label, (str, int)) and not isinstance(label, bool)


def in_common(pairs: list[tuple[str, Any]]) -> bool:
    """Return whether most answers have a label that occurs with at least two owners, of pairs of owner and label."""
    distinct = set(pairs)
    owners = Counter(label for _, label in distinct)
    several = len({key for key, _ in distinct}) > 1
    return several and sum(owners[label] > 1 for _, label in pairs) >= _SHARED * len(pairs)


def _number(key: str) -> bool:
    return key.removeprefix("-").isdecimal()


def is_shared_task(document: Any) -> bool:
    """Recognise items with annotators and annotations as lists in text, the data of the shared tasks on disagreement."""
    if not isinstance(document, Mapping) or not document:
        return False
    first = next(iter(document.values()))
    return isinstance(first, Mapping) and {"annotators", "annotations"} <= set(first)
