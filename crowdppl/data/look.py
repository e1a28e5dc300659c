"""A look at a file before anything is fitted: what it is, which columns play which part, what is odd, and how it is read.

Columns without a usual name are taken for a part by their names only; what is guessed is said, and stands in the options.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pandas as pd

from crowdppl import arguments
from crowdppl.arguments import InputPath, checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.numeric import NumericAnnotations
from crowdppl.data.read import to_annotations
from crowdppl.data.readers import formats
from crowdppl.data.readers.records import Choices, Records
from crowdppl.data.readers.streams import local, source_name
from crowdppl.data.readers.worker_columns import looks_wide
from crowdppl.data.sequences import Tags
from crowdppl.data.table.columns import ITEM_COLUMNS, LABEL_COLUMNS, WORKER_COLUMNS
from crowdppl.data.table.identifiers import text_of
from crowdppl.data.table.kinds import question
from crowdppl.errors import CrowdpplError, silent

# Likewise of the sequence of a token, and of its position there.
SEQUENCES = (
    *("sequence", "sequence_id", "sentence", "sentence_id", "sent_id", "text_id"),
    *("document", "document_id", "doc", "doc_id"),
)
POSITIONS = (
    "position",
    "token_position",
    "token_index",
    "token_id",
    "token_number",
    "word_index",
    "index",
    "idx",
    "offset",
)
# Names of columns by the part that they play, in lower case with underscores, most usual first.
_ITEM = (
    "example unit document doc image image_url file filename url question tweet sentence sample ticket row index record text "
    "case"
)
_WORKER = "annotator rater coder user username labeler labeller reviewer judge expert person participant email who by contributor"
_LABEL = "answer annotation category class rating response choice verdict score code value sentiment tag"
NAMES: Mapping[str, tuple[str, ...]] = {
    "task": (*ITEM_COLUMNS, "id", *_ITEM.split()),
    "worker": (*WORKER_COLUMNS, *_WORKER.split(), "source", "model"),
    "label": (*LABEL_COLUMNS, *_LABEL.split(), "decision", "grade", "vote", "says", "result", "labels"),
    "truth": (
        "truth",
        "gold",
        "gold_label",
        "true_label",
        "ground_truth",
        "correct_label",
        "reference",
        "expected",
        "target",
    ),
    "timestamp": (
        "timestamp",
        "time",
        "date",
        "created_at",
        "submitted_at",
        "updated_at",
        "datetime",
        "when",
        "submit_time",
    ),
    "seconds": ("seconds", "duration", "work_time", "time_spent", "lead_time", "elapsed", "seconds_spent"),
}
# Endings of names that say nothing of the part: ticket_id, annotatorName.
_ENDINGS = re.compile(r"_(id|ids|name|no|nr|number|key|uuid|s)$")
# What the part is called, and the option that names the column.
PARTS: Mapping[str, str] = {
    "task": "the item",
    "worker": "the worker",
    "label": "the label",
    "truth": "known true labels?",
    "timestamp": "times of annotations?",
    "seconds": "durations in seconds?",
}
NEEDED = ("task", "worker", "label")
# Options of the readers; others are those of Annotations.from_frame.
READING = ("question", "skip", "several", "rejected")
# Values shown of a column, and their length.
EXAMPLES, LENGTH = 3, 24


@dataclass(frozen=True)
class Look:
    """What a file is.

    Attributes:
        source: name of the file.
        format: name of its format, ``"long"`` for a table with a row for each annotation.
        description: of the format.
        columns: a row for each column of the table: ``column``, ``part`` that it plays, ``values``, ``different`` and ``blank``.
        annotations: as they are read with ``options``; ``None`` where they cannot be.
        options: of :func:`crowdppl.read` that are needed, or were guessed.
        reason: why it cannot be read as annotations.
    """

    source: str
    format: str
    description: str
    columns: pd.DataFrame
    annotations: Annotations | NumericAnnotations | None
    options: dict[str, str] = field(default_factory=dict)
    reason: str = ""

    @property
    def odd(self) -> list[str]:
        """What is unusual, in sentences; what makes a result likely wrong comes first."""
        if self.annotations is None:
            return []
        if isinstance(self.annotations, NumericAnnotations):
            return list(self.annotations.notes)
        doubts = list(self.annotations.doubts)
        data = self.annotations
        asked = question(data.labels, data.kind, in_sequences=data.sequence is not None)
        return doubts + [note for note in self.annotations.notes if note not in doubts] + ([asked] if asked else [])


@checked
def look(path: InputPath, format: str | None = None, **options: Any) -> Look:
    """Look at a file of annotations without fitting a model.

    Args:
        path: the file, a folder or a zip archive, as :func:`crowdppl.read` takes it.
        format: its format. Defaults to the one that the content shows.
        **options: of :func:`crowdppl.read`, such as names of columns.

    Raises:
        FileError: if the file is missing, damaged, or not of a format that is read.
    """
    if Path(path).is_dir():
        return _look(Path(path), source_name(path), format, options)
    with local(path) as file:  # a stream can be read only once
        return _look(file, source_name(path), format, options)


def _look(path: Path, source: str, format: str | None, options: Mapping[str, Any]) -> Look:
    chosen: dict[str, Any] = {} if format is None else {"format": format}
    named = {name: str(options[name]) for name in NEEDED if options.get(name) is not None}
    reading = {name: options[name] for name in READING if options.get(name) is not None}
    options = {name: value for name, value in options.items() if name not in READING}
    choices = Choices(columns=tuple(named.values()), task=named.get("task"), worker=named.get("worker"), **reading)
    records = formats.read(path, format, choices)
    unlike = ""
    if records.format == formats.LONG and format is None and _is_wide(records.frame):
        try:
            records = formats.read(path, "wide", Choices())
            chosen["format"] = "wide"
        except CrowdpplError as error:
            unlike = f"; as a table with a column for each worker (format='wide') {error}"
    table = records.frame
    parts = _parts(table, options) if records.format == formats.LONG else {}
    chosen |= {part: name for part, name in parts.items() if name not in _usual(part) and part in NEEDED}
    stated = {**options, **{part: chosen[part] for part in NEEDED if part in chosen}}
    data, reason = _read(records, source, stated)
    marks = not isinstance(data, Annotations) or Tags.of(data.labels) is not None
    if marks and records.format == formats.LONG and "sequence" not in options:
        # What was taken for the item may be the sequence.
        guessed = {name: value for name, value in chosen.items() if name != "task" or "task" in options}
        places, tokens = _in_sequences(records, source, {**options, **guessed})
        if tokens is not None:
            chosen, data, reason = guessed | places, tokens, ""
            stated = {**options, **chosen}
    for part in [part for part in parts if part not in NEEDED and part not in options]:
        # A column whose values are of another kind only has the name.
        if data is None or _read(records, source, stated | {part: parts[part]})[0] is None:
            del parts[part]
    long = records.format == formats.LONG
    reason += unlike if reason else ""
    return Look(
        source,
        formats.LONG if long else chosen.get("format") or formats.sniff(path),
        "a table with a row for each annotation" if long else records.format,
        _columns(table, parts, records),
        data,
        chosen | {name: value for name, value in (reading | dict(options)).items() if isinstance(value, str)},
        reason,
    )


def _is_wide(frame: pd.DataFrame) -> bool:
    """Return whether a table has a column for each worker, and none of a usual name for the label or the worker."""
    names = set(map(str, frame.columns))
    return not names & {*WORKER_COLUMNS, *LABEL_COLUMNS} and looks_wide(frame)


def _usual(part: str) -> tuple[str, ...]:
    return {"task": ITEM_COLUMNS, "worker": WORKER_COLUMNS, "label": LABEL_COLUMNS}.get(part, ())


def _plain(name: Any) -> str:
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", str(name))
    return re.sub(r"\W+", "_", spaced).strip("_").lower()


def _parts(frame: pd.DataFrame, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the column of each part: as the caller named it, or by its name; a column plays one part."""
    names = [str(name) for name in frame.columns]
    plain = {_ENDINGS.sub("", _plain(name)): name for name in reversed(names)}
    plain |= {_plain(name): name for name in reversed(names)}
    out: dict[str, str] = {part: str(options[part]) for part in NAMES if isinstance(options.get(part), str)}
    for part, usual in NAMES.items():
        if part not in out:
            free = (plain[name] for name in usual if name in plain and plain[name] not in out.values())
            name = next(free, None)
            if name is not None:
                out[part] = name
    return out


def _read(
    records: Records, source: str, options: dict[str, Any]
) -> tuple[Annotations | NumericAnnotations | None, str]:
    try:
        with silent():
            return to_annotations(records, source, **options), ""
    except CrowdpplError as error:
        return None, str(error)


def _in_sequences(
    records: Records, source: str, options: dict[str, Any]
) -> tuple[dict[str, str], Annotations | NumericAnnotations | None]:
    """Return columns by whose names items are tokens of sequences, if their labels mark spans, and the annotations so read."""
    plain = {_plain(name): str(name) for name in reversed(records.frame.columns)}
    for position in (plain[name] for name in POSITIONS if name in plain):
        for sequence in (plain[name] for name in SEQUENCES if name in plain):
            places = {"sequence": sequence, "position": position}
            data, _ = _read(records, source, options | places)
            if isinstance(data, Annotations) and Tags.of(data.labels) is not None:
                return places, data
    return {}, None


def _columns(frame: pd.DataFrame, parts: Mapping[str, str], records: Records) -> pd.DataFrame:
    played = {name: PARTS[part] for part, name in parts.items()}
    if records.format != formats.LONG:
        played = {part: PARTS[part].rstrip("?") for part in PARTS if part in frame}
    text = _text_column(frame, parts.get("task", "task"))
    if text is not None:
        played.setdefault(text, "texts of the items?")
    rows = []
    for n, name in enumerate(frame.columns):
        column = frame.iloc[:, n]
        present = column.dropna()
        texts = _as_text(present)
        values = [_short(value) for value in pd.unique(texts)[:EXAMPLES]]
        blank = len(column) - len(present)
        rows.append((str(name), played.get(str(name), ""), ", ".join(values), texts.nunique(), blank))
    return pd.DataFrame(rows, columns=["column", "part", "values", "different", "blank"])


def _as_text(column: pd.Series[Any]) -> pd.Series[str]:
    """Return values as text; one by one where they are Arrow's, whose lists older pandas cannot convert."""
    if isinstance(column.dtype, pd.ArrowDtype):
        return pd.Series([str(value) for value in column.tolist()], index=column.index, dtype=object)
    return text_of(column)


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= LENGTH else f"{text[: LENGTH - 3]}..."


def _text_column(frame: pd.DataFrame, item: str) -> str | None:
    """Return a column of longer texts that are the same in all rows of an item."""
    names = [str(name) for name in frame.columns]
    if item not in names or names.count(item) > 1:
        return None
    rows = frame.head(2000)
    for name in frame.columns:
        if str(name) == item or names.count(str(name)) > 1 or pd.api.types.is_numeric_dtype(rows[name]):
            continue
        texts = _as_text(rows[name].dropna())
        if len(texts) and texts.str.len().mean() > 2 * LENGTH:
            each = texts.groupby(rows[frame.columns[names.index(item)]].astype(str)[texts.index]).nunique()
            if (each == 1).all():
                return str(name)
    return None


@checked
def commands(
    seen: Annotated[Look, arguments.instance("crowdppl.data.look", "Look", "a result of crowdppl.data.look.look")],
    file: str,
) -> list[tuple[list[str], str]]:
    """Return the commands that work on a file, as words, each with what it does.

    Args:
        seen: the file.
        file: how the user named it.
    """
    data = seen.annotations
    if data is None:
        return []
    words = [text for name, value in seen.options.items() for text in (f"--{name.replace('_', '-')}", value)]
    parts = dict(zip(seen.columns["part"], seen.columns["column"], strict=True))
    extra = [
        text
        for part, option in (("timestamp", "--timestamp"), ("seconds", "--seconds"))
        if seen.format == formats.LONG and PARTS[part] in parts and option[2:] not in seen.options
        for text in (option, parts[PARTS[part]])
    ]
    text = ["--text-column", parts["texts of the items?"]] if "texts of the items?" in parts else []
    out = [
        (["crowdppl", "fit", file, *words, *extra, *text, "--report", "--out", "results"], "true labels and workers")
    ]
    if isinstance(data, NumericAnnotations):
        out[0] = (["crowdppl", "fit", file, *words, "--report", "--out", "results"], "true numbers and workers")
        several = False
    else:
        several = int(data.annotations_per_item.max()) > 1
    if several and data.J > 1:
        out.append((["crowdppl", "agreement", file, *words], "how far workers agree"))
        out.append((["crowdppl", "aggregate", file, *words], "votes, without a model"))
    gold = parts.get(PARTS["truth"])
    if gold is not None and seen.format == formats.LONG and not isinstance(data, NumericAnnotations):
        out.append(
            (["crowdppl", "calibrate", file, *words, "--truth", gold], "whether intervals hold on known true labels")
        )
    return out


def guessed(seen: Look) -> str:
    """Return a sentence on columns that were taken for a part by their names; empty where none were."""
    names = [f"{name!r} for {PARTS[part]}" for part, name in seen.options.items() if part in NEEDED]
    return f"taken by their names: {', '.join(names)}" if names else ""
