"""Labels of tokens as CoNLL's columns: a token a line, sequences apart by blank lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd

from crowdppl import arguments
from crowdppl.arguments import InputPath, OutputFile, checked
from crowdppl.data.readers.formats import read
from crowdppl.data.sequences import TOKEN, Tags, follows
from crowdppl.errors import DataError
from crowdppl.files import atomic
from crowdppl.posterior.posterior import Posterior


@checked
def conll(
    posterior: Posterior,
    path: OutputFile,
    *,
    words: Annotated[Mapping[Any, str] | pd.Series[Any], arguments.by_item] | None = None,
) -> Path:
    """Write the label of each token and its probability, apart by tabs, atomically.

    In BIO form every span begins with ``B``. Sequences are in their order, with a blank line between them.

    Args:
        posterior: of tokens in sequences.
        path: of the file.
        words: the word of each token by task. Defaults to the names of the tokens.

    Raises:
        DataError: if the result has no sequences, or a token has no word.
        FileError: if the file cannot be written.
    """
    path = Path(path)
    constant = posterior.tree["constant_data"].to_dataset()
    if "position" not in constant or posterior.set_labels() is not None:
        raise DataError("the result has no sequences; read the annotations with sequence=... and position=...")
    table = posterior.truth()
    tasks = table[posterior.item_column].tolist()
    sequence = constant["sequence_index"].to_numpy()
    label = _in_form(posterior, table["label"].to_numpy(), follows(sequence, constant["position"].to_numpy()))
    if words is None:
        text = [str(task) for task in tasks]
    else:
        missing = [task for task in tasks if task not in words]
        if missing:
            raise DataError(f"words: none for token {missing[0]!r}; each token needs a word")
        text = [str(words[task]) for task in tasks]
    lines: list[str] = []
    for n, (word, tag, probability) in enumerate(zip(text, label, table["probability"].tolist(), strict=True)):
        if n and sequence[n] != sequence[n - 1]:
            lines.append("")
        lines.append(f"{' '.join(word.split()) or '_'}\t{tag}\t{probability:.4f}")
    with atomic(path) as staging:
        staging.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@checked
def words_of(source: InputPath) -> dict[str, str]:
    """Return the words of a file of tokens in CoNLL's columns by token.

    Raises:
        FileError: if the file cannot be read.
        DataError: if its lines differ in their columns.
    """
    frame = read(source, "conll").frame.drop_duplicates("task")
    return dict(zip(frame["task"], frame[TOKEN], strict=True))


def _in_form(posterior: Posterior, label: Any, following: Any) -> list[str]:
    """Return labels as text, ``B`` at the beginning of every span where some class has it."""
    tags = Tags.of(posterior.labels)
    names = [str(one) for one in posterior.labels.tolist()]
    codes = np.array([names.index(str(one)) for one in label.tolist()])
    out = [names[code] for code in codes.tolist()]
    if tags is None or not (tags.begins >= 0).any():
        return out
    places = {kind: np.flatnonzero(tags.begins == n) for n, kind in enumerate(tags.types)}
    opening = {kind: names[int(place[0])] for kind, place in places.items() if len(place)}
    for first, _, kind in tags.spans(codes, following).tolist():
        out[first] = opening.get(tags.types[kind], out[first])
    return out
