"""Memory limits: how many draws are kept, how many are handled at a time, and how many annotations a stream holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from crowdppl.inference.options import OPTIONS, require_method

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations

# Draws kept in memory and on disk take at most this many bytes; beyond it they are thinned, and a warning says so.
KEEP_BYTES = 2**30
# Draws kept of a Gibbs sampler's run of any length: enough for the ends of intervals, and files and views stay small.
KEPT = 1000
# Draws around a point that a fit takes unless it is given their number: as many as so many operations allow (half a second), and
# no fewer than this. The Monte Carlo error of an interval's ends is then a seventh of the standard deviation, in place of .07 of
# it, and data on which a draw takes long are large ones, with small standard deviations.
OPERATIONS, LEAST = 6 * 10**8, 200
# Temporary arrays of batched draws take at most this many bytes: within the caches, and small enough for the allocator to
# retain (larger ones come from the system page by page: measured five times slower at 2**27).
WORK_BYTES = 2**22
# On a GPU, which has no such caches and is idle where a batch is small.
GPU_WORK_BYTES = 2**29
# Annotations that a stream holds at a time, a batch: the tables of all workers are gone through once a batch, which is to be
# little beside its annotations.
ROWS = 2_000_000


def thinning(size: int, data: Annotations, draws: int) -> int:
    """Return ``t`` such that every ``t``-th of ``draws`` draws fits in ``KEEP_BYTES``.

    Args:
        size: numbers in one draw of the parameters.
        data: the annotations; confusion matrices, log-likelihoods and truths are kept with every draw.
        draws: number of draws over all chains.
    """
    return max(1, -(-_draw_bytes(size, data) * draws // KEEP_BYTES))


def affordable(size: int, data: Annotations, draws: int) -> int:
    """Return how many of ``draws`` independent draws fit in ``KEEP_BYTES``; arguments as for :func:`thinning`."""
    return max(1, min(draws, KEEP_BYTES // _draw_bytes(size, data)))


def sufficient(states: int, data: Annotations) -> int:
    """Return how many draws around a point a fit takes where their number is not given.

    Args:
        states: of an item.
        data: the annotations.
    """
    # Products of probabilities, logarithms and powers of items, gamma variables of workers.
    each = states * data.A + 20 * data.N * data.K + data.J * data.K * (2 * states + 20 * data.K)
    return min(KEPT, max(LEAST, OPERATIONS // each))


def _draw_bytes(size: int, data: Annotations) -> int:
    # Confusion matrices twice: as published and calibrated.
    return 8 * (size + 2 * data.J * data.K**2 + data.N) + 2 * data.N


def most_draws(method: str, options: Mapping[str, Any]) -> int:
    """Return how many draws of all chains a fit keeps at most, before any thinning for memory.

    Args:
        method: the engine.
        options: of the engine, those that are given; they need not be valid.

    Raises:
        OptionError: for an unknown method.
    """
    chosen = {name: option.default for name, option in OPTIONS[require_method("method", method)].items()} | dict(
        options
    )
    chains, each = max(1, chosen.get("chains", 1)), chosen["num_samples"]
    return chains * (-(-KEPT // chains) if each is None else each)


def result_bytes(data: Annotations, draws: int, keep: Literal["small", "full"] = "full") -> int:
    """Return an upper bound on the bytes of the file of a result with ``draws`` draws, before compression.

    Args:
        data: the annotations.
        draws: number of draws over all chains.
        keep: what the file holds, see :meth:`crowdppl.Posterior.save`.
    """
    from crowdppl.posterior.compact import SMALL, THINNED  # here: it imports xarray

    each = _draw_bytes(data.J * data.K**2, data)
    once = each + 24 * data.A + 8 * data.N * (2 * data.K + 2)
    everything = min(KEEP_BYTES, draws * each) + once
    if keep == "full":
        return everything
    # Two bytes for each number of confusion matrices, and about as many for log-likelihoods and truths, once compressed;
    # prevalence, parameters of the crowd and densities as they are, and so are some small arrays; a few draws of parameters of
    # workers and items.
    two_bytes = 2 * data.J * data.K**2 + 4 * data.N
    packed = min(draws, KEEP_BYTES // each + 1) * (two_bytes + 8 * (2 * data.K**2 + 2 * data.K + 8)) + 6 * 8 * SMALL
    return min(everything, packed + min(draws, THINNED) * each + once)


def thinned_note(kept: int, requested: int) -> str:
    """Return the warning that fewer draws were kept than requested."""
    return f"kept {kept:,} of {requested:,} draws, to stay within {KEEP_BYTES / 2**30:g} GiB of memory"


def chunk(data: Annotations, total: int, *, items: bool = True) -> int:
    """Return how many of ``total`` draws to handle at once so that their temporary arrays stay within :func:`work_bytes`.

    Args:
        data: the annotations.
        total: number of draws.
        items: whether there are arrays of the items.
    """
    each = 8 * 4 * max(data.N * data.K if items else 1, data.J * data.K**2)
    return max(1, min(total, work_bytes(data) // each))


def work_bytes(data: Annotations) -> int:
    """Return how many bytes the temporary arrays of a batch may take on the device of the data."""
    return WORK_BYTES if data.device.type == "cpu" else GPU_WORK_BYTES
