"""Numba's cache of compiled functions, with a digest of every file: what is truncated or corrupted is compiled again.

Numba hands what it finds to the loader of machine code as it is, and a process that is given half a function aborts.
"""

from __future__ import annotations

import hashlib
import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile

DIGEST = hashlib.sha256().digest_size


class _Files(IndexDataCacheFile):  # type: ignore[misc]
    """The files of one function: digest, then content."""

    def _read(self, path: str) -> bytes:
        """Return the content of a file.

        Raises:
            OSError: where it cannot be read, or is not as it was written.
        """
        digest, content = (found := Path(path).read_bytes())[:DIGEST], found[DIGEST:]
        if hashlib.sha256(content).digest() != digest:
            raise OSError(f"{path} is damaged")
        return content

    def _write(self, path: str, content: Any) -> None:
        found = self._dump(content)
        with self._open_for_write(path) as file:
            file.write(hashlib.sha256(found).digest() + found)

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
    """The cache of a function whose qualified name says all that it is compiled for."""

    def __init__(self, function: Any):
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file: Any = _Files(self._cache_path, self._impl.filename_base, stamp)

    def _index_key(self, signature: Any, codegen: Any) -> Any:
        # Without what the function closes over: another compiled function has a different key in each process.
        return signature, codegen.magic_tuple()

    def save_overload(self, signature: Any, data: Any) -> None:
        with suppress(OSError):  # a full disk: it is compiled, and will be again
            super().save_overload(signature, data)


def compiled(function: Any, signature: Any, **options: Any) -> Any:
    """Compile a function for one signature, or load it from the cache.

    Args:
        function: its qualified name tells it apart from all others, and the file it is written in dates it.
        signature: as numba takes it.
        **options: of :func:`numba.njit`.

    Raises:
        RuntimeError: where there is no folder to keep what is compiled.
    """
    dispatcher = numba.njit(**options)(function)
    dispatcher._cache = _Cache(function)
    dispatcher.compile(signature)
    dispatcher.disable_compile()
    return dispatcher
