"""How a command ends by a signal."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from crowdppl.isolation import on_signal

# Signals that stop the command as Ctrl-C does: its cleaning up, its checkpoint and its line.
_STOPPING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
# The signal that stops the command.
_RECEIVED = [signal.SIGINT]


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
