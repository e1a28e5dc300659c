"""Folders whose files are replaced together: all of them at once, by one rename, or none.

New files are written in a hidden folder beside the old one, and then both exchange their names. Where that is impossible (the
working directory, a mount point, a file system that cannot exchange names) they are written in a hidden folder inside of the
old one; one rename says that it is complete, and whoever next reads or writes there moves what a process that was killed amid
this has not moved.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crowdppl.errors import FileError
from crowdppl.files import abandoned_parts, release, temporary_path
from crowdppl.isolation import uninterrupted

COMPLETE = ".complete"
# In that folder: the files that it replaces, of which it need not hold all.
NAMES = ".names.json"
# In a folder that exchanges its name with the new one: likewise. Besides them it may hold what is not to be lost.
OLD = ".replaced.json"
# Of folders that earlier versions wrote inside of the old one.
EARLIER = ".writing-"


@contextmanager
def replaced(folder: Path, names: Sequence[str], then: Callable[[], None] = lambda: None) -> Iterator[Path]:
    """Yield a new folder, whose files take the place of those of another at the end of the block; on an error nothing does.

    Args:
        folder: made if need be; what it holds besides stays.
        names: of all files that are replaced. Those that the new folder does not hold are then gone.
        then: called as soon as they are in place, before Ctrl-C is heard again.

    Raises:
        FileError: where something cannot be written.
    """
    folder = folder.resolve()
    try:
        tidy(folder, names)
        staging = temporary_path(_beside(folder) / folder.name if _exchangeable(folder) else folder / folder.name)
        staging.mkdir()
    except OSError as error:
        raise FileError(f"cannot write in {folder}: {error.strerror}") from None
    try:
        try:
            yield staging
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
        with uninterrupted():
            _put(staging, folder, names)
            then()
    except OSError as error:
        raise FileError(f"cannot write in {folder}: {error.strerror or error}") from None
    finally:
        release(staging)


def tidy(folder: Path, names: Sequence[str]) -> None:
    """Finish or remove what processes that were killed have left of writing such files.

    Raises:
        OSError: where that cannot be done.
    """
    folder = folder.resolve()
    recover(folder)
    (folder / OLD).unlink(missing_ok=True)
    for left in (*abandoned_parts(_beside(folder) / folder.name), *abandoned_parts(folder / folder.name)):
        if left.is_dir():
            if (left / OLD).exists():
                _move_others(left, folder)
            shutil.rmtree(left)
    for left in folder.glob(f"{EARLIER}*"):
        if left.is_dir() and {path.name for path in left.iterdir() if path.name[0] != "."} <= set(names):
            shutil.rmtree(left)


def _beside(folder: Path) -> Path:
    """Return where a folder of the same file system may stand that is to get this one's name."""
    return next(place for place in folder.parents if place.is_dir())


def _exchangeable(folder: Path) -> bool:
    """Tell whether another folder can take the place of this one, without pulling it from under someone who is in it."""
    if not folder.exists():
        return True
    here = Path.cwd()
    return not (os.path.ismount(folder) or here.is_relative_to(folder)) and os.access(folder.parent, os.W_OK | os.X_OK)


def _put(staging: Path, folder: Path, names: Sequence[str]) -> None:
    """Put a complete folder in place."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        staging.rename(folder)
        return
    if staging.parent != folder:
        shutil.copymode(folder, staging)
        if not _owned_alike(staging, folder):
            _put_within(staging, folder, names)
            return
        (folder / OLD).write_text(json.dumps(list(names)), encoding="utf-8")
        try:
            _exchange(staging, folder)
        except OSError:  # this file system cannot
            (folder / OLD).unlink()
        else:
            _move_others(staging, folder)
            shutil.rmtree(staging)
            return
    _put_within(staging, folder, names)


def _put_within(staging: Path, folder: Path, names: Sequence[str]) -> None:
    """Put complete files in place in a folder that stays."""
    (staging / NAMES).write_text(json.dumps(list(names)), encoding="utf-8")
    staging.rename(folder / COMPLETE)
    recover(folder)


def _owned_alike(staging: Path, folder: Path) -> bool:
    """Give a new folder the owner and group of the one that it replaces; tell whether it has them."""
    old, new = folder.stat(), staging.stat()
    if (old.st_uid, old.st_gid) == (new.st_uid, new.st_gid):
        return True
    try:
        for path in (staging, *staging.iterdir()):
            os.chown(path, old.st_uid, old.st_gid)
    except (OSError, AttributeError):  # not allowed, or no such thing on this system
        return False
    return True


def recover(folder: Path) -> None:
    """Move complete files to their place, where the process that wrote them was killed before it had.

    Raises:
        OSError: where that cannot be done.
    """
    complete = folder / COMPLETE
    if not complete.is_dir():
        return
    names = complete / NAMES
    if names.exists():  # nothing has been moved yet
        for name in json.loads(names.read_text(encoding="utf-8")):
            if not (complete / name).exists():
                (folder / name).unlink(missing_ok=True)
        names.unlink()
    for path in complete.iterdir():
        path.replace(folder / path.name)
    complete.rmdir()


def _move_others(old: Path, folder: Path) -> None:
    """Move from an old folder to the new one what was not to be replaced."""
    names = [*json.loads((old / OLD).read_text(encoding="utf-8")), OLD]
    for path in old.iterdir():
        if path.name not in names and not os.path.lexists(folder / path.name):
            folder.mkdir(exist_ok=True)
            path.rename(folder / path.name)


def _exchange(one: Path, other: Path) -> None:
    """Exchange the names of two folders, at once.

    Raises:
        OSError: where the system or the file system cannot.
    """
    library: Any = ctypes.CDLL(None, use_errno=True) if sys.platform != "win32" else None
    arguments = (os.fsencode(one), os.fsencode(other))
    here, exchange = -100, 2
    if hasattr(library, "renameat2"):  # Linux
        failed = library.renameat2(here, arguments[0], here, arguments[1], exchange)
    elif hasattr(library, "renamex_np"):  # macOS
        failed = library.renamex_np(*arguments, exchange)
    else:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
