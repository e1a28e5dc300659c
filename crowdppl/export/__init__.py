"""Tables for other programs, and the folder of results that the command writes."""

from crowdppl.export.label_studio import predictions
from crowdppl.export.marked import span_predictions
from crowdppl.export.tables import (
    SUFFIXES,
    TABLES,
    confusion,
    neutral,
    sets,
    soft,
    spans,
    to_file,
    truth,
    weights,
    workers,
    write,
)
from crowdppl.export.tokens import conll, words_of

__all__ = [
    "SUFFIXES",
    "TABLES",
    "confusion",
    "conll",
    "neutral",
    "predictions",
    "sets",
    "soft",
    "span_predictions",
    "spans",
    "to_file",
    "truth",
    "weights",
    "words_of",
    "workers",
    "write",
]


def __dir__() -> list[str]:
    return __all__
