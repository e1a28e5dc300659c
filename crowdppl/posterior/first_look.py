"""A first look at a file without a seal, in a process of its own: some damage ends HDF5 by a segmentation fault."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from crowdppl.errors import FileError

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_LOOK = "import sys; from crowdppl.posterior.io import look; look(sys.argv[1])"


def check(path: Path) -> None:
    """Check that a file can be read without ending the process. What else may be wrong with it is not reported.

    Raises:
        FileError: if reading it ends a process, or it is no HDF5 file.
        OSError: if it cannot be opened.
    """
    with path.open("rb") as file:
        if file.read(len(_SIGNATURE)) != _SIGNATURE:
            raise FileError(f"{path.name} is not a readable NetCDF file: it does not begin as one")
    if not sys.executable:
        return
    paths = os.pathsep.join(place for place in sys.path if place)
    status = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _LOOK, str(path)],
        env={**os.environ, "PYTHONPATH": paths},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    ).returncode
    if not 0 <= status <= 255:  # a signal, or on Windows an exception of the system
        raise FileError(f"{path.name} is damaged: reading it ends the process; fit again, or restore a copy of it")
