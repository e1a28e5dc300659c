"""How commands end: their statuses, the file of ``--status``, what ``torchrun`` is given, and signals."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

from crowdppl.cli.terminal import Terminal
from crowdppl.isolation import on_signal

# Of a command that has reported an error.
REFUSED = 2
# Of one that has lost a process of its run.
LOST = 1
# Of a fit whose chains have not converged: its results are written.
NOT_CONVERGED = 3
# Signals that stop the command as Ctrl-C does: its cleaning up, its checkpoint and its line.
_STOPPING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
# The signal that stops the command.
_RECEIVED = [signal.SIGINT]


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


def exit_status() -> int:
    """Return the exit status of a command that a signal has stopped."""
    return 128 + int(_RECEIVED[0])


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP stop a block as Ctrl-C does; a signal that is ignored, as by ``nohup``, stays ignored."""
    _RECEIVED[0] = signal.SIGINT
    with ExitStack() as stack:
        for number in _STOPPING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                stack.enter_context(on_signal(number, _interrupt))
        yield


def _interrupt(number: int, frame: Any) -> None:
    _RECEIVED[0] = signal.Signals(number)
    if callable(signal.getsignal(signal.SIGINT)):
        signal.raise_signal(signal.SIGINT)  # whoever delays Ctrl-C delays this, too
    else:  # the shell has started the process with SIGINT ignored
        raise KeyboardInterrupt
