"""The number of threads, for users; :mod:`crowdppl.isolation.threads` keeps it, below everything that uses threads."""

from __future__ import annotations

from typing import Annotated

from crowdppl import arguments
from crowdppl.arguments import checked
from crowdppl.isolation.threads import set_limit

# More than this is a mistake: no machine has as many cores, and a thread takes memory of its own.
MOST = 4096


@checked
def set_threads(threads: Annotated[int, arguments.whole(1, MOST)] | None) -> None:
    """Set how many threads computations of this process use, at most.

    The number holds for everything: operations of torch (also those of other code in this process, as after
    ``torch.set_num_threads``), compiled passes, chains, and the reading of files. Results do not depend on it, except
    for rounding: compiled passes over large data add up in another order. Operations of torch on small data take one thread,
    whatever the number.

    Without a number that is set, it is the smallest of torch's (``torch.set_num_threads``), of the cores of the process's CPU
    affinity, and of its CPU quota (control groups of Linux, as containers have them), rounded up. If ``OMP_NUM_THREADS`` is in
    the environment, its number holds as it is. Processes that ``torchrun`` has started share the cores. A child made by ``fork``
    computes in one thread; in it, a number that is set holds for chains and the reading of files.

    Args:
        threads: their number; ``None`` for the default.

    Raises:
        OptionError: unless ``threads`` is ``None`` or a whole number of at least 1.
    """
    set_limit(threads)
