"""Errors and warnings. A message is one line: what was expected, what was found, where, and how to fix it."""

from __future__ import annotations

import difflib
import inspect
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class CrowdpplError(ValueError):
    """Base class of all errors of the library; the message is one line that can be shown to a user."""


class DataError(CrowdpplError):
    """The annotations, identifiers, labels or known truths cannot be used as they are."""


class ModelError(CrowdpplError):
    """A model violates the contract of :class:`crowdppl.AnnotationModel`, or does not support an operation."""


class OptionError(CrowdpplError):
    """A method, model or option is unknown or has a value outside its range."""


class FileError(CrowdpplError):
    """A file is missing, unreadable, damaged or of another kind."""


class CrowdpplWarning(UserWarning):
    """A problem that the user should know about but that does not stop the computation."""


# Active captures of warnings in this thread or task: a substring and the list of captured sentences. Python's own filters are
# shared by all threads.
_CAPTURES: ContextVar[tuple[tuple[str, list[str]], ...]] = ContextVar("captures", default=())


@contextmanager
def silent(containing: str = "") -> Iterator[list[str]]:
    """Capture the library's warnings in a block, in this thread only.

    Args:
        containing: capture only warnings with this text. Defaults to all.

    Yields:
        The list of captured sentences.
    """
    captured: list[str] = []
    token = _CAPTURES.set((*_CAPTURES.get(), (containing, captured)))
    try:
        yield captured
    finally:
        _CAPTURES.reset(token)


def warn(sentence: str) -> None:
    """Emit a :class:`CrowdpplWarning` for the line of the caller's code, unless :func:`silent` captures it."""
    for containing, captured in reversed(_CAPTURES.get()):
        if containing in sentence:
            captured.append(sentence)
            return
    # Skip all frames of the library.
    frame, level = inspect.currentframe(), 1
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("crowdppl."):
        frame, level = frame.f_back, level + 1
    warnings.warn(sentence, CrowdpplWarning, stacklevel=level)


def require_docstrings() -> None:
    """Check that Python keeps docstrings: Pyro formats one of its own as it is imported.

    Raises:
        CrowdpplError: under ``python -OO``.
    """
    if sys.flags.optimize > 1:
        raise CrowdpplError(
            "Python was started with -OO (PYTHONOPTIMIZE=2), under which Pyro cannot be imported; use -O"
        )


def suggestion(wrong: object, valid: Iterable[object], similarity: float = 0.6) -> str:
    """Return ``" (did you mean 'x'?)"`` for the most similar valid name, or an empty string if none is so similar (0 to 1)."""
    near = difflib.get_close_matches(str(wrong).lower(), [str(v) for v in valid], n=1, cutoff=similarity)
    return f" (did you mean {near[0]!r}?)" if near else ""


def listed(values: Iterable[object], most: int = 5) -> str:
    """Return at most ``most`` values as readable text, with the number of those left out."""
    values = list(values)
    text = ", ".join(repr(v) if isinstance(v, str) else str(v) for v in values[:most])
    return text if len(values) <= most else f"{text} and {len(values) - most:,} more"
