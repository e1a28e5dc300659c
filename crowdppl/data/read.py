"""``crowdppl.read``: annotations from the export of a platform or tool."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

from crowdppl import arguments
from crowdppl.arguments import InputPath, PositiveInt, checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.readers import formats
from crowdppl.data.readers.arrow import release_memory
from crowdppl.data.readers.opening import LIMIT
from crowdppl.data.readers.records import Choices, Records
from crowdppl.data.readers.rows import inputs_of
from crowdppl.data.readers.streams import source_name
from crowdppl.data.table.kinds import of_numbers

__all__ = ["read", "to_annotations"]

_RECORDS = arguments.instance("crowdppl.data.readers.records", "Records", "the result of a reader")


@checked
def read(
    path: InputPath,
    format: str | None = None,
    *,
    question: str | None = None,
    skip: str = "missing",
    several: str = "refuse",
    rejected: bool = False,
    limit: PositiveInt = LIMIT,
    **options: Any,
) -> Annotations:
    """Read annotations from a file in any format of :data:`crowdppl.data.readers.formats.FORMATS`.

    Args:
        path: the file; ``"-"`` is standard input, and pipes are supported. A folder or a zip archive of files of one format is
            read as one.
        format: a name of ``FORMATS``. Defaults to the format that the content shows.
        question: the question to read, if the file contains answers to several.
        skip: treatment of annotations that were skipped or ignored: ``"missing"``, or ``"label"``, which gives them the label
            ``(skipped)``.
        several: treatment of annotations with several labels: ``"refuse"``, ``"join"`` them to a set, or ``"keep"`` the text of
            a cell as it is.
        rejected: whether to keep work that a reviewer rejected.
        limit: maximum size of the file in bytes, decompressed.
        **options: options of :meth:`Annotations.from_frame`. In a table with a column for each worker, ``workers`` names these
            columns, and ``truth`` may name another column. ``task``, ``worker`` and ``label`` name columns of the file, such as
            ``task="Input.image_url"``.

    Returns:
        The annotations; ``notes`` say what was read, what was left out, and why. Known truths marked in the file are used.

    Raises:
        FileError: if the file is missing, damaged, aggregated without individual labels, or of an unknown format.
        DataError: if its content cannot be used.
        OptionError: for an unknown format or option.
    """
    declared = {
        name: tuple(map(str, options[name]))
        for name in ("workers", "labels")
        if isinstance(options.get(name), (list, tuple))
    }
    declared["columns"] = tuple(
        str(options[name]) for name in ("task", "worker", "label") if options.get(name) is not None
    )
    task, worker = (None if options.get(name) is None else str(options[name]) for name in ("task", "worker"))
    choices = Choices(question, skip, several, rejected, task=task, worker=worker, **declared)  # type: ignore[arg-type]
    data = to_annotations(formats.read(path, format, choices, limit=limit), source_name(path), **options)
    release_memory()
    return data


@checked
def to_annotations(records: Annotated[Records, _RECORDS], source: str, **options: Any) -> Annotations:
    """Return the annotations of a reader's records; options as in :meth:`Annotations.from_frame`.

    ``task``, ``worker`` and ``label`` may name any column of the file.
    """
    options.setdefault("several", records.several)
    notes = list(records.notes)
    if records.places is not None and options.get("sequence") is None:
        options |= dict(zip(("sequence", "position"), records.places, strict=True))
    if records.format != formats.LONG:
        timings = {name: name for name in ("timestamp", "seconds") if name in records.frame}
        # Models of numbers read no times: those of the file are left out, and only those that the caller names are refused.
        options = ({} if of_numbers(records.frame["label"], options) else timings) | options
        options["truth"] = (
            options.get("truth")
            if options.get("truth") is not None
            else (records.truth_by(options.get("task")) or None)
        )
        if isinstance(options["truth"], str):
            options["truth"] = records.renamed.get(options["truth"], options["truth"])
        if options.get("task") is None:
            notes += inputs_of(records, source)
    data = Annotations.from_frame(records.frame, source=source, **options)
    return dataclasses.replace(data, notes=tuple(dict.fromkeys((*notes, *data.notes))))
