"""CoNLL's columns with a column for each annotator: a token a line, sentences apart by blank lines."""

from __future__ import annotations

import re

import pandas as pd

from crowdppl.data.readers.records import Choices, Records
from crowdppl.data.readers.source import SourceFile
from crowdppl.data.sequences import TOKEN
from crowdppl.errors import DataError, FileError, listed

# What annotators' columns have where they did not label a token.
NOTHING = ("?", "_", "")
BREAK = "-DOCSTART-"


def conll(file: SourceFile, choices: Choices) -> Records:
    """Read tokens with the labels of several annotators.

    Each line has the token and a label of every annotator, apart by tabs or spaces; ``?`` or ``_`` stands for none. Annotators
    are called by the number of their column, from 1, or by a first line that begins with ``#``, as a header. Lines of
    ``-DOCSTART-`` end a sentence, as blank ones do.

    Raises:
        FileError: without a token that someone labelled.
        DataError: for lines with another number of columns; the message names them.
    """
    lines = re.split("\r\n|\r|\n", file.text)
    header = (
        lines[0].lstrip("\ufeff").lstrip("# ").split() if lines and lines[0].lstrip("\ufeff").startswith("#") else None
    )
    rows, width, sentence, position, odd = [], None, 0, 0, []
    for number, line in enumerate(lines, 1):
        if header is not None and number == 1:
            continue
        cells = line.rstrip("\n").split("\t") if "\t" in line else line.split()
        if not line.strip() or cells[0] == BREAK:
            sentence, position = sentence + (position > 0), 0
            continue
        width = len(cells) if width is None else width
        if len(cells) != width:
            odd.append(number)
        rows.append((sentence, position, number, cells))
        position += 1
    if not rows or width is None or width < 2:
        raise FileError(f"{file.name}: no token with labels; each line needs a token and a label of every annotator")
    if odd:
        raise DataError(
            f"{file.name}, line {listed(odd, 3)}: another number of columns than the first token's {width:,}; each line needs a "
            f"token and a label, or ?, of every annotator"
        )
    workers = [str(n) for n in range(1, width)] if header is None else header[-(width - 1) :]
    if len(workers) != width - 1:
        raise DataError(
            f"{file.name}, line 1: {len(workers):,} names of annotators, and {width - 1:,} columns of labels; name them all"
        )
    records = [
        (f"{sentence}:{position}", sentence, position, cells[0], worker, label.strip())
        for sentence, position, _, cells in rows
        for worker, label in zip(workers, cells[1:], strict=True)
        if label.strip() not in NOTHING
    ]
    if not records:
        raise FileError(f"{file.name}: nobody labelled a token; each line needs a label of some annotator")
    frame = pd.DataFrame(records, columns=["task", "sequence", "position", TOKEN, "worker", "label"])
    note = (
        f"{file.name}: {len(rows):,} tokens in {frame['sequence'].nunique():,} sentences, {len(workers):,} annotators"
    )
    return Records(
        frame[["task", "worker", "label", "sequence", "position", TOKEN]],
        "conll",
        notes=[note],
        places=("sequence", "position"),
    )
