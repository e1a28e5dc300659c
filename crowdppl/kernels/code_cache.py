"""Numba's cache of compiled functions, with a digest of every file: truncated or corrupted functions are compiled again.

Numba passes cached files to the loader of machine code unchecked, and a process that loads half a function aborts.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numba
from llvmlite import binding
from llvmlite.binding import Linkage
from numba.core import cgutils, sigutils
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
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


class _Cache(FunctionCache):  # type: ignore[misc]
    """The cache of a function whose qualified name identifies all that it is compiled for."""

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


class _Part(JITCodeLibrary):  # type: ignore[misc]
    """The code of a function that compiled ones call: it is optimised and made machine code as a part of them only.

    Numba does both for each function by itself too, which takes as long again, and uses neither.
    """

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        engine, names = self._codegen._engine, [variable.name for variable in self._final_module.global_variables]
        empty = self._codegen._create_empty_module(self.name)
        # What numba writes into once the function is compiled; the machine code of those that call it finds it by its name.
        for name in names:
            if name.startswith("_ZN08NumbaEnv") and not engine.is_symbol_defined(name):
                cpu_target.target_context.declare_env_global(empty, name)
        self._codegen._add_module(binding.parse_assembly(str(empty)))
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return the address of a function's machine code, which is made where Python calls it too; 0 where it cannot."""
        self._ensure_finalized()
        if not any(function.name == name and not function.is_declaration for function in self._final_module.functions):
            return 0
        if not self._codegen._engine.is_symbol_defined(name):
            super()._optimize_final_module()
            super()._finalize_final_module()
        return int(super().get_pointer_to_function(name))


class _Whole(JITCodeLibrary):  # type: ignore[misc]
    """The code of a function that Python calls, with that of all it calls.

    Functions that several others call are part of each. Under one name the loader would take the first for all, and the last bits
    of a result would depend on what ran before: they become private.
    """

    def _optimize_final_module(self) -> None:
        super()._optimize_final_module()
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.linkonce_odr:
                function.linkage = Linkage.internal


@contextmanager
def _in_one(name: str) -> Iterator[None]:
    """Compile functions as parts of the one of a qualified name."""
    codegen = cpu_target.target_context.codegen()
    with global_compiler_lock:  # what other threads compile are no parts
        codegen.create_library = lambda of: (_Whole if of == name else _Part)(codegen, of)
        try:
            yield
        finally:
            del codegen.create_library


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
    """Compile a function as :func:`inner` does, as a part of each function that calls it, which is optimised with it."""
    return numba.njit(**INNER, forceinline=True)(function)


def compiled(function: Any, signature: Any, **options: Any) -> Any:
    """Return a function compiled for one signature: as installed, else from the cache, else compiled now.

    Args:
        function: identified by its qualified name; the time of its source file dates it.
        signature: as numba takes it.
        **options: of :func:`numba.njit`.

    Raises:
        RuntimeError: if it was not installed and there is no writable folder for the cache, or ``NUMBA_DISABLE_JIT`` is set.
    """
    if numba.config.DISABLE_JIT:
        raise RuntimeError("NUMBA_DISABLE_JIT is set, so that nothing is compiled")
    dispatcher = numba.njit(**options, no_cfunc_wrapper=True)(function)
    installed = machine_code.load(machine_code.identity(function, sigutils.normalize_signature(signature)[0]))
    dispatcher._cache = _Cache(function) if installed is None else _Installed(installed)
    with nullcontext() if installed is not None else _in_one(function.__qualname__):
        dispatcher.compile(signature)
    dispatcher.disable_compile()
    return dispatcher
