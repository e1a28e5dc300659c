"""All formats by name, and the detection of a file's format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crowdppl.data.readers import (
    argilla,
    brat,
    bundles,
    by_worker,
    conll,
    forms,
    json_kinds,
    json_shapes,
    label_studio,
    members,
    nested,
    platforms,
    services,
    shared_tasks,
    tools,
    wide,
    zooniverse,
)
from crowdppl.data.readers.json_tables import long_names
from crowdppl.data.readers.opening import LIMIT, within_memory
from crowdppl.data.readers.records import Choices, NothingError, Records
from crowdppl.data.readers.repeated_headers import HEADER_ROWS
from crowdppl.data.readers.source import SourceFile
from crowdppl.data.readers.streams import source_name
from crowdppl.data.readers.worker_columns import looks_wide
from crowdppl.data.table.questions import of_question
from crowdppl.errors import FileError, OptionError, listed, suggestion

Reader = Callable[[SourceFile, Choices], Records]


@dataclass(frozen=True)
class Format:
    """A file format.

    Attributes:
        read: the reader.
        description: a short description.
        table: recognises the format by the columns of a table.
        record: recognises the format by the first record of a JSON file.
        whole: reads all files of a folder or an archive together, in place of ``read``.
    """

    read: Reader | None
    description: str
    table: Callable[[SourceFile], bool] | None = None
    record: Callable[[dict[str, Any]], bool] | None = None
    whole: Callable[[Sequence[SourceFile], Choices, str], Records] | None = None


FORMATS = {
    "toloka": Format(platforms.toloka, "Toloka's assignments (TSV)", table=platforms.is_toloka),
    "mturk": Format(platforms.mturk, "Mechanical Turk's batch results (CSV)", table=platforms.is_mturk),
    "appen": Format(platforms.appen, "Appen's or CrowdFlower's full report (CSV)", table=platforms.is_appen),
    "zooniverse": Format(
        zooniverse.zooniverse, "Zooniverse's export of classifications (CSV)", table=zooniverse.is_zooniverse
    ),
    "rayyan": Format(services.rayyan, "Rayyan's references with decisions (CSV)", table=services.is_rayyan),
    "forms": Format(
        forms.forms, "Google Forms, Microsoft Forms or a survey (CSV), a question for each item", table=forms.is_forms
    ),
    "label-studio-csv": Format(
        platforms.label_studio_table, "Label Studio's CSV", table=platforms.is_label_studio_table
    ),
    "label-studio": Format(
        label_studio.label_studio, "Label Studio's JSON or JSON-MIN", record=label_studio.is_label_studio
    ),
    "prodigy": Format(tools.prodigy, "Prodigy's JSON Lines", record=tools.is_prodigy),
    "sagemaker": Format(tools.sagemaker, "SageMaker Ground Truth's worker responses (JSON)", record=tools.is_sagemaker),
    "argilla": Format(argilla.argilla, "Argilla's records (JSON, JSON Lines)", record=argilla.is_argilla),
    "doccano": Format(tools.doccano, "doccano's JSON Lines", record=tools.is_doccano),
    "labelbox": Format(services.labelbox, "Labelbox's export (JSON Lines, JSON)", record=services.is_labelbox),
    "kili": Format(services.kili, "Kili's export (JSON)", record=services.is_kili),
    "potato": Format(services.potato, "Potato's annotated instances (JSON Lines)", record=services.is_potato),
    "peerannot": Format(tools.peerannot, "peerannot's answers.json"),
    "nested": Format(
        nested.nested,
        "items with a list of annotations each, in JSON of no tool in particular",
        record=nested.is_nested,
    ),
    "lewidi": Format(shared_tasks.lewidi, "Le-Wi-Di's items with annotators and annotations (JSON)"),
    "wide": Format(wide.wide, "a table with a column for each worker (cleanlab, snorkel)"),
    "mace": Format(wide.mace, "MACE's table, without a header"),
    "conll": Format(conll.conll, "tokens with a column for each annotator, sentences apart by blank lines"),
    "brat": Format(None, "brat's standoff files, a folder of each annotator", whole=brat.brat),
    "soft": Format(wide.soft, "a probability for each class and annotation"),
}
LONG = "long"
# Formats with answers to several questions.
QUESTIONS = (
    "toloka",
    "mturk",
    "appen",
    "zooniverse",
    "label-studio-csv",
    "label-studio",
    "sagemaker",
    "argilla",
    "labelbox",
    "kili",
    "potato",
    "nested",
)


def sniff(path: str | Path, limit: int = LIMIT) -> str:
    """Return the format of a file: a name of ``FORMATS``, or ``"long"``, a table with one row per annotation.

    ``wide``, ``mace`` and ``soft`` look like other tables and are never detected; they must be named. All files of a folder or an
    archive have one format.

    Raises:
        FileError: for JSON in an unknown format, or a file without data.
    """
    with bundles.sources(path, limit) as files:
        return _format(members.with_content(files, source_name(path))[0], source_name(path), Choices())


def _format(files: list[SourceFile], source: str, choices: Choices) -> str:
    if any(file.suffix == brat.STANDOFF for file in files):
        return "brat"
    return bundles.same_format([_detect(file, choices) for file in files], files, source)


def _of_tool(record: dict[str, Any]) -> bool:
    return any(form.record is not None and form.record(record) for form in FORMATS.values())


def _detect(file: SourceFile, choices: Choices) -> str:
    # A table may have the columns of a tool beside its own.
    file.take_records(lambda record: _of_tool(record) and not choices.complete(record))
    if file.kind == "table":
        return next((name for name, form in FORMATS.items() if form.table and form.table(file)), LONG)
    document = file.document
    if document in ([], {}, [{}]):
        raise FileError(f"{file.name} contains no record; export it again")
    file.unwrap(_of_tool)
    document = file.document
    single = document[0] if isinstance(document, list) and len(document) == 1 else document
    first = document[0] if isinstance(document, list) and document else document
    if isinstance(first, dict):
        of_table = isinstance(document, list) and choices.names_columns_of(list(first))
        for name, form in FORMATS.items():
            if name != "nested" and form.record and form.record(first):
                return name
        if of_table:
            return LONG
        if nested.sample(document if isinstance(document, list) else [document], choices.columns) is not None:
            return "nested"
    if json_kinds.is_shared_task(single):
        return "lewidi"
    tool = json_kinds.tool(first)
    if tool is not None:
        raise FileError(f"{file.name} is {tool}")
    said = json_kinds.message(single)
    if said is not None:
        raise FileError(
            f"{file.name} is the message of a server, {said!r}, not data: the download was refused; repeat it"
        )
    other = json_kinds.description(single)
    if other is not None:
        raise FileError(f"{file.name} is JSON with {other}; export the labels of each annotator")
    records = document if isinstance(document, list) else [document]
    objects = nested.by_workers(records, sure=False)
    if objects is not None and len(records) > 1 and (file.json_table is None or not looks_wide(file.json_table)):
        doubt = by_worker.doubt(records, objects)
        if doubt is None:
            return "nested"
        raise FileError(f"{file.name}: {doubt}")
    if file.json_table is not None:
        return LONG
    boxes = json_kinds.regions(first)
    if boxes is not None:
        raise FileError(f"{file.name} is JSON with {boxes}")
    answers = json_kinds.answers(single)
    if answers == "turned":
        raise FileError(
            f"{file.name}: an object of objects with labels, of tasks and their workers or of workers and their tasks; "
            f"name format='peerannot' if the outer keys are tasks, otherwise convert the file to a table"
        )
    if answers == "yes":
        return "peerannot"
    for shape in json_shapes.records_in(single if isinstance(single, dict) else document):
        known = LONG if shape.table else _of_records(shape.records)
        if known is not None:
            file.wrapper, file.document = single if isinstance(single, dict) else None, shape.records
            vars(file).pop("json_table", None)
            file.beside.append(f"{file.name}: {shape.where}")
            return known
        if (objects := nested.by_workers(shape.records, sure=False)) is not None:
            raise FileError(f"{file.name}: {by_worker.doubt(shape.records, objects)}")
    if (lists := json_shapes.in_lists(single)) is not None:
        raise FileError(f"{file.name}: JSON in an unknown format: {lists}")
    keys = f" (keys {listed(first, 6)})" if isinstance(first, dict) else ""
    raise FileError(
        f"{file.name}: JSON in an unknown format{keys}; name the format with format=..., or convert the file to a table"
    )


def _of_records(records: list[Any]) -> str | None:
    """Return the format of records that stand deeper in a document, ``None`` if it is none that is known."""
    first = records[0]
    tool = next(
        (name for name, form in FORMATS.items() if name != "nested" and form.record and form.record(first)), None
    )
    if tool is not None or long_names(first):
        return tool or LONG
    return "nested" if nested.sample(records) is not None else None


def read(path: str | Path, format: str | None = None, choices: Choices | None = None, *, limit: int = LIMIT) -> Records:
    """Read the export of an annotation platform or tool: see :func:`crowdppl.read`, also for the errors.

    Args:
        path: the file; a folder or a zip archive of files is read as one.
        format: a name of ``FORMATS``. Defaults to the detected format.
        choices: the choices of the user.
        limit: maximum size of the file in bytes, decompressed.
    """
    if format is not None and format not in FORMATS:
        raise OptionError(f"no format {format!r}{suggestion(format, FORMATS)}; use one of {listed(FORMATS, 20)}")
    choices = Choices() if choices is None else choices
    with bundles.sources(path, limit) as files, within_memory(source_name(path)):
        files, blank = members.with_content(files, source_name(path))
        name = _format(files, source_name(path), choices) if format is None else format
        if (
            format is None
            and name in ("forms", "rayyan")
            and all(choices.names_columns_of(file.columns) for file in files)
        ):
            name = LONG  # such columns stand in tables with a row for each annotation, too
        whole = FORMATS[name].whole if name in FORMATS else None
        if whole is not None:
            return _read_whole(whole, name, files, choices, source_name(path))
        parts, files, empty = _parts(files, name, choices, source_name(path))
        records = bundles.merged(parts, files, source_name(path), choices, tables=name == LONG)
        records.notes[:] = [*blank, *empty, *records.notes]
        return records


def _parts(
    files: list[SourceFile], name: str, choices: Choices, source: str
) -> tuple[list[Records], list[SourceFile], list[str]]:
    """Return what each file contains, the files, and a note on those without an annotation, such as of people who gave none."""
    parts, kept = [], []
    empty: dict[str, list[SourceFile]] = {}
    reason: NothingError | None = None
    for file in files:
        try:
            parts.append(_read(file, name, choices))
            kept.append(file)
        except NothingError as error:
            reason = error if reason is None else reason
            empty.setdefault(error.why, []).append(file)
    if reason is not None and not parts:
        raise reason
    return parts, kept, [members.left_out(left, source, why) for why, left in empty.items()]


def _read_whole(
    read_all: Callable[[Sequence[SourceFile], Choices, str], Records],
    name: str,
    files: Sequence[SourceFile],
    choices: Choices,
    source: str,
) -> Records:
    if not any(file.suffix == brat.STANDOFF for file in files):
        raise FileError(
            f"{source} is not {FORMATS[name].description}: it has no {brat.STANDOFF} file; name another format"
        )
    if choices.question is not None:
        raise OptionError(
            f"{source} was read as {FORMATS[name].description}, without questions; question={choices.question!r} fits no such "
            f"files: leave it out"
        )
    return read_all(files, choices, source)


def _read(file: SourceFile, name: str, choices: Choices) -> Records:
    records = _read_one(file, name, choices)
    records.notes += file.doubts
    return records


def _read_one(file: SourceFile, name: str, choices: Choices) -> Records:
    if choices.question is not None and name == LONG:
        rows = of_question(file.long_table, choices.question, file.name)
        if rows is not None:
            note = f"{file.name}: {len(rows):,} of {len(file.long_table):,} rows are of {choices.question!r}"
            above = [rows.attrs[HEADER_ROWS]] if HEADER_ROWS in rows.attrs else []
            return Records(rows, LONG, notes=[*above, note], several=choices.several)
    if choices.question is not None and name not in QUESTIONS:
        what = "a table with a row for each annotation" if name == LONG else FORMATS[name].description
        advice = "name the column of the label" if name == LONG else "leave it out"
        raise OptionError(
            f"{file.name} was read as {what}, without questions; question={choices.question!r} fits no such file: {advice}"
        )
    if name == LONG:
        headers = file.long_table.attrs.get(HEADER_ROWS)
        return Records(file.long_table, LONG, notes=[] if headers is None else [headers], several=choices.several)
    form = FORMATS[name]
    if form.record:
        file.take_records(form.record)
    if form.record and file.kind != "table":
        file.unwrap(form.record)
    if form.table and file.kind != "table" and file.json_table is None:
        raise FileError(f"{file.name} is JSON, not {form.description}; name another format")
    if form.record and file.kind == "table":
        raise FileError(f"{file.name} is a table, not {form.description}; name another format")
    if form.table and not form.table(file):
        raise FileError(
            f"{file.name} is not {form.description}: its columns are {listed(file.columns, 8)}; name another format"
        )
    if form.record and not (
        nested.with_annotations(file.records) if name == "nested" else form.record(file.records[0])
    ):
        raise FileError(
            f"{file.name} is not {form.description}: its records have {listed(file.records[0], 8)}; name another format"
        )
    assert form.read is not None  # formats without it are read by _read_whole
    records = form.read(file, choices)
    if "table" in vars(file):  # it was read
        records.notes += [file.table.attrs[HEADER_ROWS]] if HEADER_ROWS in file.table.attrs else []
    return records
