"""The command ``crowdppl``: a file of labels in, consensus and worker quality out."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from crowdppl.cli.application import app, report_error, report_output
from crowdppl.cli.commands import (
    aggregating,
    agreeing,
    checking,
    distributing,
    fitting,
    judging,
    listings,
    looking,
    masking,
    new_model,
    outputs,
    perspectives,
    planning,
    streaming,
)
from crowdppl.cli.statuses import LOST, REFUSED, left, stopped_by_signals
from crowdppl.cli.terminal import ENCODING_ERRORS, OutputError, close_errors, close_output, drop_output, prepare_streams
from crowdppl.errors import CrowdpplError, require_docstrings

# In the order of the help.
COMMANDS = {
    "look": looking.look_command,
    "fit": fitting.fit_command,
    "stream": streaming.stream_command,
    "distribute": distributing.distribute_command,
    "compare": checking.compare,
    "calibrate": checking.calibrate,
    "report": outputs.report_command,
    "next": outputs.next_command,
    "plan": planning.plan_command,
    "update": fitting.update_command,
    "export": outputs.export_command,
    "check": checking.check,
    "judges": judging.judges_command,
    "demo": fitting.demo_command,
    "aggregate": aggregating.aggregate_command,
    "agreement": agreeing.agreement_command,
    "perspectives": perspectives.perspectives_command,
    "masks": masking.masks_command,
    "formats": listings.formats_command,
    "datasets": listings.datasets_command,
    "models": listings.models_command,
    "new-model": new_model.new_model_command,
}
for _name, _function in COMMANDS.items():
    app.command(_name)(_function)


@contextmanager
def joined() -> Iterator[bool]:
    """As :func:`crowdppl.inference.distributed.joined`, which is imported only if ``torchrun`` has started this process."""
    if not _launched():
        yield True
        return
    from crowdppl.inference import distributed

    with distributed.joined() as first:
        yield first


def _launched() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


def main() -> None:
    """Run the command. Of several processes rank 0 runs it, and the other ranks take part in its computations."""
    prepare_streams(ENCODING_ERRORS)
    # The command opens no window, and a name that matplotlib does not know would end it.
    os.environ["MPLBACKEND"] = "agg"
    try:
        status = left(_status(), sys.argv, launched=_launched())
        close_output()
    except BrokenPipeError:
        drop_output()
        status = 1
    except OutputError as error:
        drop_output()
        report_output(error)
        status = 1
    close_errors()
    sys.exit(status)


def _status() -> int:
    """Run the command, and return its exit status."""
    try:
        require_docstrings()
        # torchrun stops the processes that it has started itself.
        with nullcontext() if _launched() else stopped_by_signals(), joined() as first:
            if first:
                app()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except CrowdpplError as error:  # on another rank: commands report their own errors
        report_error(error)
        return LOST if hasattr(error, "reported") else REFUSED
    return 0
