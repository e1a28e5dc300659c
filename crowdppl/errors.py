"""What can go wrong, in one line each: what was expected, what came, where, and how to fix it."""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class CrowdpplError(ValueError):
    """Base of everything the library refuses; the message is one line fit to be shown to a person."""


class DataError(CrowdpplError):
    """The annotations, identifiers, labels or known truths cannot be used as they are."""


class ModelError(CrowdpplError):
    """A model does not keep the contract of :class:`crowdppl.AnnotationModel`, or cannot do what is asked of it."""


class OptionError(CrowdpplError):
    """A method, model or option is unknown or has a value outside its range."""


class FileError(CrowdpplError):
    """A file is missing, unreadable, damaged or of another kind."""


class CrowdpplWarning(UserWarning):
    """Something a user should know of, after which the work goes on."""


# Who takes the warnings of this thread or task: words that they hold, and where they go. All threads share Python's filters.
_TAKEN: ContextVar[tuple[tuple[str, list[str]], ...]] = ContextVar("taken", default=())


@contextmanager
def silent(holding: str = "") -> Iterator[list[str]]:
    """Keep the library's warnings back in a block, in this thread only.

    Args:
        holding: only those with these words. Defaults to all.

    Yields:
        Their sentences, as they come.
    """
    kept: list[str] = []
    token = _TAKEN.set((*_TAKEN.get(), (holding, kept)))
    try:
        yield kept
    finally:
        _TAKEN.reset(token)


def warn(sentence: str) -> None:
    """Warn by :class:`CrowdpplWarning` at the line of the caller's own code, unless inside of :func:`silent`."""
    for holding, kept in reversed(_TAKEN.get()):
        if holding in sentence:
            kept.append(sentence)
            return
    # Through however many of the library's functions the call came.
    frame, level = inspect.currentframe(), 1
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("crowdppl."):
        frame, level = frame.f_back, level + 1
    warnings.warn(sentence, CrowdpplWarning, stacklevel=level)


def suggestion(wrong: object, valid: Iterable[object]) -> str:
    """Return ``" (did you mean 'x'?)"`` for the nearest valid name, or nothing where none is near."""
    near = difflib.get_close_matches(str(wrong).lower(), [str(v) for v in valid], n=1, cutoff=0.6)
    return f" (did you mean {near[0]!r}?)" if near else ""


def listed(values: Iterable[object], most: int = 5) -> str:
    """Return at most ``most`` values as readable text, with a count of those left out."""
    values = list(values)
    text = ", ".join(repr(v) if isinstance(v, str) else str(v) for v in values[:most])
    return text if len(values) <= most else f"{text} and {len(values) - most:,} more"
