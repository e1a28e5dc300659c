"""What the caller passes to a command: files of annotations, known true labels, features, and the model with its prior."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from crowdppl import arguments
from crowdppl.cli.options import Columns, KnownTruth, ModelChoice, Reading
from crowdppl.data import read as reading
from crowdppl.data.annotations import Annotations
from crowdppl.data.numeric import NumericAnnotations
from crowdppl.data.readers import bundles, formats
from crowdppl.data.readers.records import Choices, Records
from crowdppl.data.readers.source import read_table
from crowdppl.data.readers.streams import existing, local, source_name
from crowdppl.data.readers.tables import integers
from crowdppl.data.table.columns import ITEM_COLUMNS, LABEL_COLUMNS, candidate_names, column_of
from crowdppl.data.table.identifiers import holds_integers
from crowdppl.data.table.label_names import respelled
from crowdppl.data.table.truths import truth_column
from crowdppl.errors import DataError, FileError, OptionError, listed, suggestion
from crowdppl.files import digests
from crowdppl.inference.catalogue import DEFAULT, named_model
from crowdppl.model.base import AnnotationModel
from crowdppl.models import NUMERIC, LinearGaussian

# Columns of a table of names of labels.
MAP_COLUMNS = ("from", "to")


def read_annotations(file: Path, format: str | None, choices: Choices | None) -> tuple[Records, str]:
    """Read annotations; return them with the SHA-256 of the file or of all files of a folder. A stream is read once."""
    if file.is_dir():
        return formats.read(file, format, choices), bundles.digest(file)
    with local(file) as path:
        records = formats.read(path, format, choices)
        return records, digests.sha256(path)


def annotations_and_truth(
    file: Path, how_read: Reading, columns: Columns, known: KnownTruth
) -> tuple[Annotations, Any]:
    """Read annotations without their known true labels, and these, ``None`` where there are none."""
    names = naming(how_read)
    records, _ = read_annotations(file, how_read.format, how_read.choices(columns))
    truth: Any = records.truth_by(columns.task)
    if known.given:
        truth = known_truth(known, records.frame, columns, source_name(file))
    sets = records.several == "sets"  # their true sets are read as the sets are
    data = reading.to_annotations(
        # The fit must not use them, even if the export marks them.
        dataclasses.replace(records, truth={}),
        source_name(file),
        truth=truth if sets else None,
        **vars(columns),
        **names,
        labels=declared_classes(how_read.labels),
        repeats=how_read.repeats,
    )
    if truth is None or not len(truth):
        return data, None
    if sets:
        items, labels = (part.tolist() for part in (data.items, data.truth))
        pairs = {item: label for item, label in zip(items, labels, strict=True) if label >= 0}
        return dataclasses.replace(data, truth=data.truth.clamp(max=-1)), pairs or None
    if isinstance(data, NumericAnnotations):
        return data, truth.set_index("task")["label"] if isinstance(truth, pd.DataFrame) else truth
    given = truth["label"] if isinstance(truth, pd.DataFrame) else pd.Series(truth, dtype=object)
    spelled = respelled(given.tolist(), data.labels.tolist(), names["map"])
    if isinstance(truth, pd.DataFrame):
        return data, truth.assign(label=[spelled[label] for label in given]).dropna(subset=["label"])
    return data, {item: spelled[label] for item, label in truth.items() if spelled[label] is not None} or None


def names_by_label(text: str | None) -> dict[str, Any]:
    """Return names of classes by label, written as ``0=none,1=spam``; ``None`` where the name is blank.

    Raises:
        OptionError: for names that are not written as LABEL=NAME.
    """
    names: dict[str, Any] = {}
    for pair in [] if text is None else text.split(","):
        label, sign, name = pair.partition("=")
        if not sign or not label.strip():
            raise OptionError(f"--names {text}: {pair!r} is not LABEL=NAME; write --names 0=none,1=spam")
        names[label.strip()] = name.strip() or None
    return names


def errors_by_person(text: str | None) -> float | dict[str, float] | None:
    """Return the error of all people, written as ``0.1``, or of some, written as ``ann=0.02,bob=0.1``.

    Raises:
        OptionError: for something else, or no probability below 1.
    """
    if text is None:
        return None

    def error(number: str) -> float:
        try:
            value = float(number)
        except ValueError:
            raise OptionError(
                f"--human-error {text}: {number!r} is no number; write --human-error 0.1, or PERSON=0.1,PERSON=0.02"
            ) from None
        return arguments.number(at_least=0, below=1)("human_error", value)

    if "=" not in text:
        return error(text)
    out = {}
    for pair in text.split(","):
        person, sign, number = pair.rpartition("=")
        if not sign or not person.strip():
            raise OptionError(
                f"--human-error {text}: {pair!r} is not PERSON=ERROR; write --human-error ann=0.02,bob=0.1"
            )
        out[person.strip()] = error(number)
    return out


def naming(how_read: Reading) -> dict[str, Any]:
    """Return the choices about names of labels, as arguments of :meth:`crowdppl.Annotations.from_frame`.

    Raises:
        OptionError: for names that are not written as LABEL=NAME.
        DataError: for a table of names without labels.
        FileError: if the table cannot be read.
    """
    names: dict[str, Any] = {} if how_read.map is None else read_map(how_read.map)
    names |= names_by_label(how_read.names)
    return {
        "map": names or None,
        "missing": how_read.missing or [],
        "sequence": how_read.sequence,
        "position": how_read.position,
        "criterion": how_read.criterion,
        "keep_missing": how_read.keep_missing,
        "fold": not how_read.no_fold,
        "other_labels": how_read.other_label or [],
        "kind": how_read.kind,
        "order": declared_classes(how_read.order),
        "scale": None if how_read.scale is None else _ends(how_read.scale),
    }


def _ends(text: str) -> list[float]:
    """Read the ends of a scale.

    Raises:
        OptionError: if they are not numbers.
    """
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise OptionError(f"--scale {text}: write the lowest and the highest number, such as --scale 0,100") from None


def read_map(path: Path) -> dict[str, Any]:
    """Return the class by label of a table with the columns ``from`` and ``to``, or of a JSON object.

    Raises:
        DataError: if the columns are missing, or a label has two names.
        FileError: if the file cannot be read.
    """
    if path.suffix == ".json":
        try:
            table = json.loads(existing(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise FileError(f"{source_name(path)} is not JSON: {error}") from None
        if isinstance(table, dict) and not any(isinstance(name, (dict, list)) for name in table.values()):
            return table
    frame = read_table(path)
    columns = [column_of(frame, None, (name,), source_name(path), f"name the column {name!r}") for name in MAP_COLUMNS]
    pairs = frame[columns].astype(object).drop_duplicates()
    twice = pairs[columns[0]].duplicated()
    if twice.any():
        raise DataError(f"{source_name(path)}: {listed(pairs[columns[0]][twice].tolist(), 3)} has two names; leave one")
    return dict(zip(pairs[columns[0]].tolist(), pairs[columns[1]].tolist(), strict=True))


def item_column(frame: pd.DataFrame, columns: Columns, source: str) -> str:
    """Return the column of the item in the annotations.

    Raises:
        DataError: where there is none.
    """
    return column_of(frame, columns.task, ITEM_COLUMNS, source, "name the item column with --task")


def known_truth(known: KnownTruth, frame: pd.DataFrame, columns: Columns, source: str) -> pd.DataFrame | None:
    """Return known true labels with columns ``task`` and ``label``, a row for each; ``None`` where none are given.

    Args:
        known: where they are.
        frame: the annotations. Identifiers that are integers in one file and text in the other become text in both.
        columns: of the annotations.
        source: name of the annotations, for messages.

    Raises:
        DataError: where a column is missing.
        FileError: where the table cannot be read.
    """
    if known.truth is not None:
        rows = frame[[item_column(frame, columns, source), truth_column(frame, known.truth, source)]]
        return rows.set_axis(["task", "label"], axis=1).dropna().drop_duplicates().reset_index(drop=True)
    if known.truth_file is None:
        return None
    table = read_table(known.truth_file)
    chosen = []
    for own, named, usual, what, option in (
        (known.truth_item, columns.task, ITEM_COLUMNS, "item", "--truth-item"),
        (known.truth_label, columns.label, LABEL_COLUMNS, "class", "--truth-label"),
    ):
        advice = f"name the {what} column with {option}"
        chosen.append(column_of(table, own, candidate_names(named, usual), source_name(known.truth_file), advice))
    out = table[chosen].set_axis(["task", "label"], axis=1)
    for name, named, usual in (("task", columns.task, ITEM_COLUMNS), ("label", columns.label, LABEL_COLUMNS)):
        unify_types(frame, out, candidate_names(named, usual)[:1] if named else usual, name)
    return out.dropna(subset=["label"]).reset_index(drop=True)


def unify_types(frame: pd.DataFrame, other: pd.DataFrame, usual: Sequence[str], column: Any) -> None:
    """Convert a column that two files share to text in both, in place, where it is text in one of them.

    Each file is read by itself, and a single name that is not a number makes a column text.

    Args:
        frame: the annotations.
        other: the other table.
        usual: names of the column in ``frame``; the first that occurs is used.
        column: its name in ``other``.
    """
    shared = next((name for name in usual if name in frame), None)
    if shared is None or column not in other:
        return  # reported where the columns are looked up
    both = ((frame, shared), (other, column))
    if len({holds_integers(table[name]) for table, name in both}) > 1:
        for table, name in both:
            table[name] = table[name].map(str, na_action="ignore").astype(object)


def feature_table(
    file: Path | None, frame: pd.DataFrame, usual: tuple[str, ...], named: str | None
) -> pd.DataFrame | None:
    """Read a table of features, indexed by its identifiers.

    Raises:
        DataError: where it has no column of identifiers. Those of tokens are names of their sequence and position.
    """
    if file is None:
        return None
    table = read_table(file)
    advice = "name it as the annotations' column is named"
    if usual == ITEM_COLUMNS:
        advice += "; of tokens in sequences, write sequence:position, such as s0:0, in a column 'task'"
    column = column_of(table, None, candidate_names(named, usual), source_name(file), advice)
    unify_types(frame, table, (named,) if named else usual, column)
    numbers = table.drop(columns=column).apply(pd.to_numeric, errors="coerce")
    return numbers.set_index(pd.Index(table[column].to_numpy()))


def declared_classes(text: str | None) -> list[Any] | None:
    """Read declared classes as columns of a table are read: as integers if all of them are."""
    return None if text is None else integers(text.split(","))


def chosen_model(choice: ModelChoice) -> AnnotationModel | LinearGaussian | None:
    """Return the model with the hyperparameters of ``--prior``; ``None`` for the default one.

    Raises:
        OptionError: for an unknown model or hyperparameter, or a value that is not a number.
    """
    if choice.model is None and not choice.prior:
        return None
    name = choice.model or DEFAULT
    model: Any = NUMERIC[name]() if name in NUMERIC else named_model(name)
    types = {field.name: str(field.type) for field in numeric_fields(type(model))}
    values: dict[str, float] = {}
    for text in choice.prior or []:
        key, _, value = text.partition("=")
        if key not in types:
            raise OptionError(
                f"{name} has no hyperparameter {key!r}{suggestion(key, types)}; it has {', '.join(sorted(types))}"
            )
        try:
            values[key] = int(value) if types[key] == "int" else float(value)
        except ValueError:
            kind = "whole number" if types[key] == "int" else "number"
            raise OptionError(f"--prior {text}: {value!r} is not a {kind}; write --prior {key}=2") from None
    return dataclasses.replace(model, **values) if values else model


def numeric_fields(kind: type[Any]) -> list[dataclasses.Field[Any]]:
    """Return the hyperparameters that ``--prior`` sets. Their types are text: no class is looked up."""
    return [f for f in dataclasses.fields(kind) if str(f.type).startswith(("float", "int"))]
