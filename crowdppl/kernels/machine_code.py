"""Machine code of the compiled functions, made when the package is installed: a fit compiles nothing.

:mod:`crowdppl.kernels.compile_all` writes an archive of it. Each function is an entry, and ``target.json`` states what it was
compiled for. An archive is used where Python, numba, LLVM, the system and the source files are the same, and the processor has
all features that the code needs. Otherwise functions are compiled at first use and kept in numba's cache.

With ``CROWDPPL_MACHINE_CODE=0`` in the environment none is made or used.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import sys
import zipfile
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target

FOLDER = Path(__file__).with_name("binaries")
TARGET = "target.json"
SWITCH = "CROWDPPL_MACHINE_CODE"
# What code may call and another environment may lack: Intel's library of vector functions.
_LIBRARIES = ["svml"] if numba.config.USING_SVML else []


def enabled() -> bool:
    """Tell whether machine code is made and used."""
    return os.environ.get(SWITCH, "1") != "0"


def identity(function: Any, arguments: Any) -> str:
    """Return the name of a function's entry: its qualified name and the types of its arguments identify it."""
    return hashlib.sha256(f"{function.__qualname__}{tuple(arguments)}".encode()).hexdigest()


def load(name: str) -> bytes | None:
    """Return the machine code of a function, or ``None`` where there is none for this processor."""
    archive = _archive() if enabled() else None
    return None if archive is None else entry(archive, name)


def entry(archive: Path, name: str) -> bytes | None:
    """Return an entry, whose checksum is compared, or ``None`` if it is damaged or not there."""
    try:
        with zipfile.ZipFile(archive) as file:  # opened anew: a child process would share the place in an open file
            return file.read(name)
    except (KeyError, OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error):
        return None  # what zipfile raises for damage of one kind or another


@cache
def _archive() -> Path | None:
    """Return the archive for this processor."""
    if not FOLDER.is_dir():
        return None
    here = target()
    for path in sorted(FOLDER.glob("*.zip")):
        there = described(path)
        same = there is not None and there | {"features": None} == here | {"features": None}
        if there is not None and same and set(there["features"]) <= set(here["features"]):
            return path
    return None


def described(archive: Path) -> dict[str, Any] | None:
    """Return what an archive was compiled for, or ``None`` if it is damaged or not there."""
    content = entry(archive, TARGET)
    return None if content is None else dict(json.loads(content))


def target() -> dict[str, Any]:
    """Return what machine code depends on."""
    triple, _, features = cpu_target.target_context.codegen().magic_tuple()
    return {
        "python": sys.implementation.cache_tag,
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "system": triple,
        "sources": _sources(),
        "features": sorted([*(one for one in features.split(",") if one.startswith("+")), *_LIBRARIES]),
    }


def _sources() -> str:
    """Return a digest of all files from which functions are compiled."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def restored(stored: bytes, context: Any) -> Any:
    """Return the compiled function of an entry."""
    return CompileResult._rebuild(context, *pickle.loads(stored))
