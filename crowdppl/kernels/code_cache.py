"""Numba's cache of compiled functions, with a digest of every file: truncated or corrupted functions are compiled again.

Numba passes cached files to the loader of machine code unchecked, and a process that loads half a function aborts.
"""

from __future__ import annotations

import hashlib
import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba.core import cgutils, sigutils
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, NullCache
from numba.extending import intrinsic

from crowdppl.kernels import machine_code

DIGEST = hashlib.sha256().digest_size


class _Files(IndexDataCacheFile):  # type: ignore[misc]
    """The files of one function: digest, then content."""

    def _read(self, path: str) -> bytes:
        """Return the content of a file.

        Raises:
            OSError: if it cannot be read, or was changed since it was written.
        """
        stored = Path(path).read_bytes()
        digest, content = stored[:DIGEST], stored[DIGEST:]
        if hashlib.sha256(content).digest() != digest:
            raise OSError(f"{path} is damaged")
        return content

    def _write(self, path: str, content: Any) -> None:
        data = self._dump(content)
        with self._open_for_write(path) as file:
            file.write(hashlib.sha256(data).digest() + data)

    def _load_index(self) -> dict[Any, str]:
        try:
            version, stamp, overloads = pickle.loads(self._read(self._index_path))
        except OSError:
            return {}
        return dict(overloads) if (version, stamp) == (self._version, self._source_stamp) else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_path, (self._version, self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        return pickle.loads(self._read(self._data_path(name)))

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), data)


class _Stored(CompileResultCacheImpl):  # type: ignore[misc]
    """What is stored of a compiled function."""

    def reduce(self, result: Any) -> Any:
        return machine_code.reduced(result)


class _Cache(FunctionCache):  # type: ignore[misc]
    """The cache of a function whose qualified name identifies all that it is compiled for."""

    _impl_class = _Stored

    def __init__(self, function: Any):
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file: Any = _Files(self._cache_path, self._impl.filename_base, stamp)

    def _index_key(self, signature: Any, codegen: Any) -> Any:
        # Without the closure: a compiled function in it has a different key in each process.
        return signature, codegen.magic_tuple()

    def save_overload(self, signature: Any, data: Any) -> None:
        with suppress(OSError):  # a full disk: the function is compiled again next time
            super().save_overload(signature, data)


class _Installed(NullCache):  # type: ignore[misc]
    """The machine code of a function, compiled when the package was installed."""

    def __init__(self, content: bytes):
        self.content = content

    def load_overload(self, signature: Any, context: Any) -> Any:
        context.refresh()  # numba makes known what compiled code calls
        return machine_code.restored(self.content, context)


@intrinsic  # type: ignore[untyped-decorator]
def borrowed(typing: Any, array: Any) -> Any:
    """Return an array without a count of its references, which would be counted, atomically, in every call of a function.

    Whoever owns the array must keep it for as long.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        out = context.make_array(array)(context, builder, arguments[0])
        out.meminfo = cgutils.get_null_value(out.meminfo.type)
        return out._getvalue()

    return array(array), generate


# Sums and products may be taken in another order, for vectors of the processor; always the same one on one machine. Without what
# Python would need to call a function, which takes time to compile.
INNER = {
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "fastmath": {"reassoc", "contract", "arcp", "nsz"},
}


def inner(function: Any) -> Any:
    """Compile a function that compiled ones call."""
    return numba.njit(**INNER)(function)


def leaf(function: Any) -> Any:
    """Compile a function that compiled ones call, and that creates no array: it counts no references to arrays either."""
    return numba.njit(**INNER, _nrt=False)(function)


def inline(function: Any) -> Any:
    """Compile a function as :func:`leaf` does, as a part of each function that calls it."""
    return numba.njit(**INNER, _nrt=False, forceinline=True)(function)


def inline_with_arrays(function: Any) -> Any:
    """Compile a function as :func:`inner` does, as a part of each function that calls it.

    For what two compiled functions have in common and do not round alike: in the process that compiles both, one would get the
    other's copy.
    """
    return numba.njit(**INNER, forceinline=True)(function)


def compiled(function: Any, signature: Any, **options: Any) -> Any:
    """Return a function compiled for one signature: as installed, else from the cache, else compiled now.

    Args:
        function: identified by its qualified name; the time of its source file dates it.
        signature: as numba takes it.
        **options: of :func:`numba.njit`.

    Raises:
        RuntimeError: if it was not installed and there is no writable folder for the cache.
    """
    dispatcher = numba.njit(**options)(function)
    installed = machine_code.load(machine_code.identity(function, sigutils.normalize_signature(signature)[0]))
    dispatcher._cache = _Cache(function) if installed is None else _Installed(installed)
    dispatcher.compile(signature)
    dispatcher.disable_compile()
    return dispatcher
