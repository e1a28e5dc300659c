"""The command ``crowdppl``: a file of labels in, consensus and worker quality out."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from crowdppl.cli.application import app, report_error
from crowdppl.cli.commands import (
    aggregating,
    agreeing,
    checking,
    distributing,
    fitting,
    judging,
    listings,
    looking,
    new_model,
    outputs,
)
from crowdppl.cli.encoding import accept_any_text
from crowdppl.errors import CrowdpplError

# In the order of the help.
COMMANDS = {
    "look": looking.look_command,
    "fit": fitting.fit_command,
    "stream": fitting.stream_command,
    "distribute": distributing.distribute_command,
    "compare": checking.compare,
    "calibrate": checking.calibrate,
    "report": outputs.report_command,
    "next": outputs.next_command,
    "update": fitting.update_command,
    "export": outputs.export_command,
    "check": checking.check,
    "judges": judging.judges_command,
    "demo": fitting.demo_command,
    "aggregate": aggregating.aggregate_command,
    "agreement": agreeing.agreement_command,
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
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        yield True
        return
    from crowdppl.inference import distributed

    with distributed.joined() as first:
        yield first


def main() -> None:
    """Run the command. Of several processes rank 0 runs it, and the other ranks take part in its computations."""
    accept_any_text()
    try:
        with joined() as first:
            if first:
                app()
    except CrowdpplError as error:  # on another rank: commands report their own errors
        report_error(error)
        sys.exit(2)
