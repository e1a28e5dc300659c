"""The statuses with which commands end, the file of ``--status``, and what ``torchrun`` is given."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path

from crowdppl.cli.terminal import Terminal

# Of a command that has reported an error.
REFUSED = 2
# Of one that has lost a process of its run.
LOST = 1
# Of a fit whose chains have not converged: its results are written.
NOT_CONVERGED = 3


def left(status: int, words: Sequence[str], *, launched: bool) -> int:
    """Write the status of a command to the file of ``--status``, and return the one with which the process is to end.

    ``torchrun`` takes every status but 0 for a crash, stops the other processes and prints a traceback of its own. So its
    processes end with 0 after an error in the data or in the options, and if chains have not converged.

    Args:
        status: of the command.
        words: of the command, ``sys.argv``.
        launched: whether ``torchrun`` has started this process.
    """
    first = os.environ.get("RANK", "0") == "0"
    if not launched or first:
        status = _write(status, words)
    if not launched or status not in (REFUSED, NOT_CONVERGED):
        return status
    if first:
        Terminal(stderr=True, highlight=False).print(
            f"exit status {status}; torchrun is given 0, since it takes any other for a crash (--status FILE keeps it)",
            soft_wrap=True,
        )
    return 0


def _write(status: int, words: Sequence[str]) -> int:
    """Write the status, if a file is named, also where the other words are wrong; return it, or ``REFUSED`` if that fails."""
    place = _file(words)
    if place is None:
        return status
    try:
        if place.exists() and not _is_status(place):
            reason = "holds something else; name another file"
        else:
            place.write_text(f"{status}\n", encoding="utf-8")
            return status
    except OSError as error:
        reason = f"cannot be written ({error.strerror})"
    Terminal(stderr=True, highlight=False).print(f"error: --status {place} {reason}", markup=False, soft_wrap=True)
    return status or REFUSED


def _is_status(place: Path) -> bool:
    with suppress(UnicodeDecodeError):
        return place.read_text(encoding="utf-8").strip().isdecimal()
    return False


def _file(words: Sequence[str]) -> Path | None:
    for word, following in zip_longest(words, words[1:]):
        if word == "--status" and following:
            return Path(following)
        if word.startswith("--status="):
            return Path(word.partition("=")[2])
    return None
