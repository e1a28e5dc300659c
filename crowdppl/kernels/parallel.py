"""Compiled passes in several threads, and the memory layout of their tables.

Tables have a row for each worker and label. With up to ``NARROW`` states every thread has a table of its own, ``(J*K, width)``: a
row holds the probabilities under the ``S`` states and, from the middle on, their expected counts. Rows begin at cache lines, so
that an annotation needs as few of them as possible: one, or two. With more states (*wide* rows) all threads read one table
``(J*K, S)``.
"""

from __future__ import annotations

import os
import zlib
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from crowdppl.kernels import simd
from crowdppl.kernels.code_cache import compiled

# Compiled passes contain the code of these files, and are identified by it in the cache.
VERSION = f"{zlib.crc32(Path(__file__).read_bytes(), zlib.crc32(Path(simd.__file__).read_bytes())):08x}"
# Annotations between prefetching a row and using it: enough to cover the latency of memory, few enough to stay in the caches;
# with wide rows as many as have LINES_AHEAD cache lines. Arrays of annotations are longer by AHEAD, so that no bound is checked.
AHEAD, LINES_AHEAD = np.uint64(32), 64
# Bytes of a cache line.
LINE = 64
# Rows of at most this many states are narrow.
NARROW = 8
# The first position of an array, and one more.
BEGIN, ONE = np.uint64(0), np.uint64(1)
# In place of a number of states: known at run time only.
ANY = 0


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(context: Any, array: Any, index: Any) -> Any:
    """Prefetch the cache line of an element."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [address, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


def width_of(S: int, real: str) -> int:
    """Return the width of a row for ``S`` states: at least twice as many, such that rows do not straddle cache lines."""
    line = LINE // np.dtype(real).itemsize
    return 1 << (2 * S - 1).bit_length() if line >= 2 * S else 2 * -(-S // line) * line


def row_layout(S: int, real: str) -> tuple[np.uint64, np.uint64, np.uint64, int]:
    """Return the width of a row, the position of its counts, the numbers in a cache line, and the lines of a row."""
    width, line = width_of(S, real), LINE // np.dtype(real).itemsize
    return np.uint64(width), np.uint64(width // 2), np.uint64(line), max(1, width // line)


@cache
def _threads(count: int) -> ThreadPoolExecutor:
    """Return so many threads for parts of passes, which release Python's lock."""
    return ThreadPoolExecutor(count)


if hasattr(os, "register_at_fork"):  # a child has none of its parent's threads
    os.register_at_fork(after_in_child=_threads.cache_clear)


class Pass:
    """A compiled pass, whose parts run one after the other or in parallel.

    It is compiled for one signature and cached in a file whose name identifies it: numba's cache has one index for all variants
    of a function, and numbers its files. Two processes that compile different variants at once may choose the same number, and a
    third would then load code for another number of states.

    Args:
        function: executes one part; the first argument is its number.
        signature: of the function.
        real: the type of the tables.
        S: number of states.
    """

    def __init__(self, function: Any, signature: str, real: str, S: int = ANY):
        function.__qualname__ += f".{real}.{S or 'any'}.{VERSION}"
        self.name, self.signature = function.__qualname__, signature.replace("real", real)
        self.part = compiled(function, self.signature, nogil=True, error_model="numpy")

    def __call__(self, parts: int, *arguments: Any) -> None:
        """Execute ``parts`` parts: the first in this thread, the others in threads of Python.

        Those sleep until they are needed. Numba's would spin before, and would be as many as there are cores.
        """
        others = [_threads(parts - 1).submit(self.part, part, *arguments) for part in range(1, parts)]
        try:
            self.part(0, *arguments)
        finally:
            wait(others)  # also after Ctrl-C: they write to the arguments
        for other in others:
            other.result()


# Signatures in numba's short form; "real" is the type of the tables. Arrays are contiguous in C order. Indices are unsigned: for
# signed ones numba would check at each access whether they count from the end.
ITEMS = "u8, u8[::1], u4[::1], u8[::1], real[:,::1]"  # part, start, column, bounds, tables
TALLY = "u8, u8[::1], u4[::1], u8[::1], i4[:,::1], i2[::1], i8[:,::1], real[:,::1]"
CELLS = "u8, u8[::1], u4[::1], u8[::1]"  # part, begin, item, bounds: the same annotations in the order of workers and labels


@numba.njit  # type: ignore[untyped-decorator]
def row_range(part: Any, parts: Any, rows: Any) -> Any:
    """Return the first row of a part, and the row after its last."""
    return rows * part // parts, rows * (part + 1) // parts


@numba.njit  # type: ignore[untyped-decorator]
def look_ahead(lines: Any) -> Any:
    """Return how many annotations ahead rows of ``lines`` cache lines are prefetched."""
    return np.uint64(max(2, min(np.intp(AHEAD), LINES_AHEAD // lines)))
