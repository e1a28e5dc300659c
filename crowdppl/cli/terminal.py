"""Text for standard output and error in any encoding: a sign that it lacks is written by others, and ends nothing."""

from __future__ import annotations

import codecs
import io
import sys

SIGNS = {
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
NAME = "crowdppl.signs"


def _written(error: UnicodeError) -> tuple[str, int]:
    """Write what cannot be encoded: a sign by signs like it, any other character by its escape."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(SIGNS.get(c) or c.encode("ascii", "backslashreplace").decode() for c in missing), error.end


codecs.register_error(NAME, _written)


def any_encoding() -> None:
    """Let standard output and error take any text."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=NAME)
