"""Standard streams of the command: closed ones, full devices, encodings, and names that would control the terminal."""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

# Characters that control a terminal, change the direction of the text or begin a line, except tabulators and line feeds.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")

# What stands for characters that the encoding of a stream lacks; others are written as escapes.
REPLACEMENTS = {
    **dict.fromkeys("–—−‐‑─━═╌╍╴╶╸╺", "-"),
    **dict.fromkeys("│┃║╎╏╵╷", "|"),
    **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╰╯┏┓┗┛┣┫┳┻╋╇╈╔╗╚╝╡╞╪", "+"),
    **dict.fromkeys("‘’", "'"),
    **dict.fromkeys("“”„", '"'),
    "…": "...",
    "·": ".",
    "•": "*",
    "●": "o",
    "█": "#",
    "×": "x",
    "±": "+/-",
    "→": "->",
    "≤": "<=",
    "≥": ">=",
    "≈": "~",
    "\N{NO-BREAK SPACE}": " ",
}
# The name under which this is known to Python's codecs.
ENCODING_ERRORS = "crowdppl.replace"


class OutputError(OSError):
    """Standard output cannot be written to."""


def visible(text: str) -> str:
    """Return a text with its control characters written as escapes."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


class Terminal(Console):
    """A console that shows control characters in what it prints, so that a name cannot control the terminal.

    What cannot be written to standard error is left out: the results are more than what is said of them.
    """

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text with markup; control characters are visible before it is measured."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of anything that can be printed."""
        for segment in super().render(renderable, options):
            if segment.control or not _CONTROL.search(segment.text):
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects."""
        try:
            super().print(*objects, **options)
        except OSError:
            if not self.stderr:
                raise
            self.quiet = True


class _Output(io.TextIOWrapper):
    """Standard output. Where it cannot be written to, the command goes on in silence: its files are more than what is said.

    Attributes:
        failed: the first error.
    """

    failed: OSError | None = None

    def write(self, text: str) -> int:
        """Write a text."""
        try:
            return super().write(text)
        except OSError as error:
            self._fail(error)
            return len(text)

    def flush(self) -> None:
        """Write what is held."""
        try:
            super().flush()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.failed = self.failed or error
        drop_output()


def prepare_streams(errors: str) -> None:
    """Open standard streams that are closed, so that no file takes their place, and let them take any text.

    Args:
        errors: how characters that an encoding lacks are written, see :func:`codecs.register_error`.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            _discard(number)
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)
    if type(sys.stdout) is io.TextIOWrapper:
        old = sys.stdout
        settings = (old.encoding, errors, None, old.line_buffering, old.write_through)
        sys.stdout = _Output(old.detach(), *settings)


def close_output() -> None:
    """Write what standard output holds.

    Raises:
        BrokenPipeError: if its reader has gone, now or earlier.
        OutputError: if it cannot be written to for another reason.
    """
    if sys.stdout is None or sys.stdout.closed:
        return
    sys.stdout.flush()
    if isinstance(sys.stdout, _Output) and (error := sys.stdout.failed) is not None:
        raise error if isinstance(error, BrokenPipeError) else OutputError(error.errno, error.strerror)


def close_errors() -> None:
    """Write what standard error holds; where that is impossible it is left out, also as the process ends."""
    try:
        if sys.stderr is not None and not sys.stderr.closed:
            sys.stderr.flush()
    except OSError:
        _discard(2)


def drop_output() -> None:
    """Write no more to standard output, so that what is left does not fail again as the process ends."""
    _discard(1)


def _discard(number: int) -> None:
    """Let a descriptor, which may be closed, take anything and return nothing."""
    nothing = os.open(os.devnull, os.O_RDWR)
    if nothing != number:
        os.dup2(nothing, number)
        os.close(nothing)


def _replaced(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that cannot be encoded: by similar ASCII characters where there are some, else by an escape."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(REPLACEMENTS.get(c) or c.encode("ascii", "backslashreplace").decode() for c in missing), error.end


codecs.register_error(ENCODING_ERRORS, _replaced)
