"""``crowdppl.read``: the export of a platform or tool in, annotations out."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from crowdppl import arguments
from crowdppl.data.annotations import Annotations
from crowdppl.data.readers import formats
from crowdppl.data.readers.arrow import let_go
from crowdppl.data.readers.records import Choices, Records
from crowdppl.data.readers.streams import source_name
from crowdppl.data.readers.tables import LIMIT

__all__ = ["annotated", "read"]

_READ = arguments.instance("crowdppl.data.readers.records", "Records", "what a reader returns")


@arguments.checked(
    path=arguments.input_path,
    format=arguments.text,
    question=arguments.text,
    skip=arguments.text,
    several=arguments.text,
    rejected=arguments.flag,
    limit=arguments.whole(1),
    options=arguments.anything,
)
def read(
    path: str | Path,
    format: str | None = None,
    *,
    question: str | None = None,
    skip: str = "missing",
    several: str = "refuse",
    rejected: bool = False,
    limit: int = LIMIT,
    **options: Any,
) -> Annotations:
    """Read annotations from a file of any kind that :mod:`crowdppl.data.readers.formats` knows.

    Args:
        path: the file; a pipe is read once, and ``"-"`` is standard input.
        format: what it is, a name of ``crowdppl.data.readers.formats.FORMATS``; found out where not given.
        question: which question, where the file holds answers to several.
        skip: what an annotation that was skipped or ignored is: ``"missing"``, or an ``"label"`` in its own right.
        several: an annotation with several labels: ``"refuse"``, or ``"join"`` them to a set.
        rejected: keep work that a reviewer rejected.
        limit: bytes that the file may have, decompressed.
        **options: of :meth:`Annotations.from_frame`.

    Returns:
        The annotations; ``notes`` say what was taken, what left out, and why. Known truths that the file marks are taken.

    Raises:
        FileError: where the file is missing, damaged, an aggregate without votes, or of no known kind.
        DataError: where its content cannot be used.
        OptionError: for an unknown format or option.
    """
    choices = Choices(question, skip, several, rejected)  # type: ignore[arg-type]  # checked there
    made = annotated(formats.read(path, format, choices, limit=limit), source_name(path), **options)
    let_go()
    return made


@arguments.checked(
    found=_READ,
    source=arguments.text,
    options=arguments.anything,
)
def annotated(found: Records, source: str, **options: Any) -> Annotations:
    """Make annotations of what a reader took; options as of :meth:`Annotations.from_frame`."""
    if found.format != formats.LONG:
        options = {name: name for name in ("timestamp", "seconds") if name in found.frame} | options
        options["truth"] = options.get("truth") if options.get("truth") is not None else (found.truth or None)
    data = Annotations.from_frame(found.frame, source=source, **options)
    return dataclasses.replace(data, notes=(*found.told, *data.notes))
