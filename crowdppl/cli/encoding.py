"""Standard output and error in any encoding: characters that it lacks are replaced instead of raising an error."""

from __future__ import annotations

import codecs

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
NAME = "crowdppl.replace"


def _replaced(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that cannot be encoded: by similar ASCII characters where there are some, else by an escape."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(REPLACEMENTS.get(c) or c.encode("ascii", "backslashreplace").decode() for c in missing), error.end


codecs.register_error(NAME, _replaced)
