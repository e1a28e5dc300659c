"""The application ``crowdppl``: its two consoles, what makes a function a command, and how errors and Ctrl-C are reported."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from crowdppl.cli import wording
from crowdppl.cli.options import with_option_groups
from crowdppl.cli.statuses import LOST, NOT_CONVERGED, REFUSED, exit_status
from crowdppl.cli.terminal import OutputError, Terminal
from crowdppl.errors import CrowdpplError
from crowdppl.files import overwriting

if TYPE_CHECKING:
    from crowdppl.posterior.numbers import NumericPosterior
    from crowdppl.posterior.posterior import Posterior

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
console = Terminal(highlight=False)
err = Terminal(stderr=True, highlight=False)


# Parameters of commands whose paths are written. A result that is updated is replaced.
WRITTEN = ("out", "checkpoint", "result", "status")
# What is read of a folder of results.
RESULT = ("posterior.nc", overwriting.RECORD)

# What is on disk if the command is interrupted now.
_STATE = ["nothing was written"]


def _version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        console.print(f"crowdppl {version('crowdppl')}")
        raise typer.Exit


@app.callback()
def about(
    _: Annotated[bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)] = False,
) -> None:
    """Several people label the same items: which labels are correct, who is reliable, and how certain is that?"""


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Turn a function into a command: its groups become options, and errors are reported in one line.

    All paths of a command are read, except those in ``WRITTEN``. No file that is read is replaced, and without ``--overwrite`` no
    other one either, see :mod:`crowdppl.files.overwriting`.
    """
    grouped = with_option_groups(function)

    @functools.wraps(grouped)
    def call(**values: Any) -> None:
        with reported_errors():
            for name in WRITTEN:
                if isinstance(values.get(name), Path):
                    overwriting.status_of(values[name])
            with overwriting.guarded(_read(values), overwrite=bool(values.get("overwrite"))):
                grouped(**values)

    return call


def _read(values: Mapping[str, Any]) -> list[Path]:
    """Return the files and folders that a command reads."""
    paths = []
    for name, value in values.items():
        several = value if isinstance(value, (list, tuple)) else [value]
        some = [path for path in several if isinstance(path, Path) and name not in WRITTEN]
        # Of a folder of results two files are read; reports and tables are written beside them.
        paths += [path / file for path in some for file in RESULT] if name == "folder" else some
    return paths


def in_command(message: str) -> str:
    """Return a message of the library with the arguments it names written as options of the command."""
    return wording.in_command(message, app)


def set_state(state: str) -> None:
    """Record what is on disk from now on, for the message after Ctrl-C."""
    _STATE[0] = state


def use_threads(threads: int | None) -> None:
    """Compute with so many threads from now on, if a number is given.

    Raises:
        OptionError: if it is less than 1.
    """
    if threads is not None:
        from crowdppl.inference.threads import set_threads

        set_threads(threads)


def leave(posterior: Posterior | NumericPosterior) -> None:
    """Leave the command with a status of its own if the chains of a fit have not converged.

    Raises:
        typer.Exit: with status ``NOT_CONVERGED``.
    """
    if posterior.not_converged:
        raise typer.Exit(NOT_CONVERGED)


def report_error(error: CrowdpplError) -> None:
    """Print an error in one line, unless another process does."""
    if getattr(error, "reported", False):
        return
    message = "; ".join([str(error), *getattr(error, "__notes__", [])])
    err.print(f"[red]error:[/red] {escape(in_command(message))}", soft_wrap=True)


def report_output(error: OutputError) -> None:
    """Print that standard output could not be written to, and what is on disk."""
    err.print(f"error: standard output cannot be written to ({error.strerror}); {escape(_STATE[0])}", soft_wrap=True)


@contextmanager
def reported_errors() -> Iterator[None]:
    """Turn errors of the library into one line and status 2, and Ctrl-C and like signals into one line and their status."""
    set_state("nothing was written")
    try:
        yield
    except CrowdpplError as error:
        report_error(error)
        raise typer.Exit(LOST if hasattr(error, "reported") else REFUSED) from None
    except KeyboardInterrupt as interrupt:
        kept = f"; {interrupt}" if str(interrupt) else ""
        # A note on the interrupt itself is more precise than the recorded state.
        state = "; ".join(getattr(interrupt, "__notes__", [])) or _STATE[0]
        err.print(f"stopped: {escape(state + in_command(kept))}", soft_wrap=True)
        raise typer.Exit(exit_status()) from None
