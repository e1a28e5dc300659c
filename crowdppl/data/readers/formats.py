"""Every format by name, and which one a file is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crowdppl.data.readers import platforms, tools, wide
from crowdppl.data.readers.records import Choices, Records
from crowdppl.data.readers.source import Opened
from crowdppl.data.readers.streams import local, streamed
from crowdppl.data.readers.tables import LIMIT
from crowdppl.errors import FileError, OptionError, listed, suggestion

Reader = Callable[[Opened, Choices], Records]


@dataclass(frozen=True)
class Format:
    """A kind of file.

    Attributes:
        read: reads it.
        told: what it is, in a few words.
        table: tells it from the columns of a table.
        record: tells it from the first record of a JSON file.
    """

    read: Reader
    told: str
    table: Callable[[Opened], bool] | None = None
    record: Callable[[dict[str, Any]], bool] | None = None


FORMATS = {
    "toloka": Format(platforms.toloka, "Toloka's assignments (TSV)", table=platforms.is_toloka),
    "mturk": Format(platforms.mturk, "Mechanical Turk's batch results (CSV)", table=platforms.is_mturk),
    "appen": Format(platforms.appen, "Appen's or CrowdFlower's full report (CSV)", table=platforms.is_appen),
    "label-studio-csv": Format(
        platforms.label_studio_table, "Label Studio's CSV", table=platforms.is_label_studio_table
    ),
    "label-studio": Format(tools.label_studio, "Label Studio's JSON or JSON-MIN", record=tools.is_label_studio),
    "prodigy": Format(tools.prodigy, "Prodigy's JSON Lines", record=tools.is_prodigy),
    "sagemaker": Format(tools.sagemaker, "SageMaker Ground Truth's worker responses (JSON)", record=tools.is_sagemaker),
    "argilla": Format(tools.argilla, "Argilla's records (JSON, JSON Lines)", record=tools.is_argilla),
    "doccano": Format(tools.doccano, "doccano's JSON Lines", record=tools.is_doccano),
    "peerannot": Format(tools.peerannot, "peerannot's answers.json"),
    "wide": Format(wide.wide, "a table with a column for each worker (cleanlab, snorkel)"),
    "mace": Format(wide.mace, "MACE's table, without a header"),
    "soft": Format(wide.soft, "a probability for each class and annotation"),
}
LONG = "long"


@streamed
def sniff(path: str | Path, limit: int = LIMIT) -> str:
    """Return which format a file is: a name of ``FORMATS``, or ``"long"``, a table with a row for each annotation.

    ``wide``, ``mace`` and ``soft`` look like other tables and have to be asked for by name.

    Raises:
        FileError: for JSON of no known kind, or what is no data at all.
    """
    return _sniffed(Opened(path, limit))


def _sniffed(file: Opened) -> str:
    if file.kind == "table":
        return next((name for name, form in FORMATS.items() if form.table and form.table(file)), LONG)
    document = file.document
    single = document[0] if isinstance(document, list) and len(document) == 1 else document
    first = document[0] if isinstance(document, list) and document else document
    if isinstance(first, dict):
        for name, form in FORMATS.items():
            if form.record and form.record(first):
                return name
    if tools.is_peerannot(single):
        return "peerannot"
    keys = f" (keys {listed(first, 6)})" if isinstance(first, dict) else ""
    raise FileError(
        f"{file.name}: JSON of no kind that is known here{keys}; name it with format=..., or bring it into a table"
    )


def read(path: str | Path, format: str | None = None, choices: Choices | None = None, *, limit: int = LIMIT) -> Records:
    """Read the export of an annotation platform or tool: see :func:`crowdppl.read`, whose errors are raised here.

    Args:
        path: the file.
        format: a name of ``FORMATS``; found out where not given.
        choices: what the person decides.
        limit: bytes that the file may have, decompressed.
    """
    if format is not None and format not in FORMATS:
        raise OptionError(f"no format {format!r}{suggestion(format, FORMATS)}; use one of {listed(FORMATS, 20)}")
    with local(path) as here:
        return _read(Opened(here, limit), format, Choices() if choices is None else choices)


def _read(file: Opened, format: str | None, choices: Choices) -> Records:
    name = _sniffed(file) if format is None else format
    if name == LONG:
        return Records(file.long_table, LONG)
    form = FORMATS[name]
    if form.table and file.kind != "table":
        raise FileError(f"{file.name} is JSON, not {form.told}")
    if form.record and file.kind == "table":
        raise FileError(f"{file.name} is a table, not {form.told}")
    if form.table and not form.table(file):
        raise FileError(f"{file.name} is not {form.told}: its columns are {listed(file.columns, 8)}")
    if form.record and not form.record(file.records[0]):
        raise FileError(f"{file.name} is not {form.told}: its records have {listed(file.records[0], 8)}")
    return form.read(file, choices)
