"""Atomic replacement of the files of a folder: all of them by one rename, or none.

New files are written to a hidden folder beside the old one, and the two folders then exchange their names. If that is impossible
(the working directory, a mount point, a file system that cannot exchange names) the files are written to a hidden folder inside
the old one. One rename marks it as complete, and the files are moved into place. If the process is killed before all of them are
moved, the next process that reads or writes there moves the rest.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crowdppl.errors import FileError
from crowdppl.files import abandoned_parts, overwriting, release, temporary_path
from crowdppl.isolation import uninterrupted

COMPLETE = ".complete"
# In that folder: the names of the files that it replaces or removes, with slashes. It need not contain all of them.
NAMES = ".names.json"
# In a folder that exchanges its name with the new one: likewise. Its other files are moved to the new folder.
OLD = ".replaced.json"


@contextmanager
def replaced(folder: Path, names: Sequence[str], then: Callable[[], None] = lambda: None) -> Iterator[Path]:
    """Yield a new folder. At the end of the block its files replace those of ``folder``; after an error nothing is replaced.

    Args:
        folder: created if necessary; its other files stay.
        names: of files, and folders of files, of an earlier result. Those that are not in the new folder are removed, as far as a
            command wrote them (:func:`crowdppl.files.overwriting.is_own`).
        then: called as soon as the files are in place, before Ctrl-C takes effect again.

    Raises:
        FileError: if something cannot be written, or an input of the command would be replaced.
    """
    overwriting.status_of(folder)
    folder = folder.resolve()
    for name in names:
        overwriting.refuse_input(folder / name)
    try:
        tidy(folder)
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


def tidy(folder: Path) -> None:
    """Complete or remove replacements that killed processes have left unfinished.

    Raises:
        OSError: if that is impossible.
    """
    folder = folder.resolve()
    recover(folder)
    (folder / OLD).unlink(missing_ok=True)
    for left in (*abandoned_parts(_beside(folder) / folder.name), *abandoned_parts(folder / folder.name)):
        if left.is_dir():
            if (left / OLD).exists():
                _move_others(left, folder)
            shutil.rmtree(left)


def _beside(folder: Path) -> Path:
    """Return the folder for a new folder on the same file system that will get this one's name."""
    return next(place for place in folder.parents if place.is_dir())


def _exchangeable(folder: Path) -> bool:
    """Return whether another folder can replace this one: not if it is a mount point or contains the working directory."""
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
    names = _replaced_files(staging, folder, names)
    if staging.parent != folder:
        shutil.copymode(folder, staging)
        if not _owned_alike(staging, folder):
            _put_within(staging, folder, names)
            return
        (folder / OLD).write_text(json.dumps(list(names)), encoding="utf-8")
        try:
            _exchange(staging, folder)
        except OSError:  # not supported by this file system
            (folder / OLD).unlink()
        else:
            _move_others(staging, folder)
            shutil.rmtree(staging)
            return
    _put_within(staging, folder, names)


def _replaced_files(staging: Path, folder: Path, names: Sequence[str]) -> list[str]:
    """Return the files that are replaced by new ones, and those of an earlier result that are removed."""
    new = {path.relative_to(staging).as_posix() for path in staging.rglob("*") if not path.is_dir()}
    earlier = {name for name in (*overwriting.record(folder), *names) if name.partition("/")[0] in names}
    return sorted(new | {name for name in earlier - new if overwriting.is_own(folder, name)})


def _put_within(staging: Path, folder: Path, names: Sequence[str]) -> None:
    """Put complete files in place in a folder that is not replaced itself."""
    (staging / NAMES).write_text(json.dumps(list(names)), encoding="utf-8")
    staging.rename(folder / COMPLETE)
    recover(folder)


def _owned_alike(staging: Path, folder: Path) -> bool:
    """Give a new folder the owner and group of the one that it replaces; return whether it has them."""
    old, new = folder.stat(), staging.stat()
    if (old.st_uid, old.st_gid) == (new.st_uid, new.st_gid):
        return True
    try:
        for path in (staging, *staging.iterdir()):
            os.chown(path, old.st_uid, old.st_gid)
    except (OSError, AttributeError):  # not permitted, or not supported by this system
        return False
    return True


def recover(folder: Path) -> None:
    """Move complete files into place if the process that wrote them was killed before.

    Raises:
        OSError: if that is impossible.
    """
    complete = folder / COMPLETE
    if not complete.is_dir():
        return
    names = complete / NAMES
    if names.exists():  # nothing has been moved yet
        for name in json.loads(names.read_text(encoding="utf-8")):
            if not (complete / name).exists():
                _remove(folder / name)
        names.unlink()
    _move_files(complete, folder)
    complete.rmdir()


def _move_files(new: Path, folder: Path) -> None:
    """Move all files of a folder into another one, whose other files stay."""
    for path in new.iterdir():
        place = folder / path.name
        if path.is_dir() and place.is_dir() and not place.is_symlink():
            _move_files(path, place)
            path.rmdir()
            continue
        if path.is_dir() or place.is_dir():  # a file and a folder do not replace each other
            _remove(place)
        path.replace(place)


def _remove(path: Path) -> None:
    """Remove a file or folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _move_others(old: Path, folder: Path) -> None:
    """Move files that are not replaced from the old folder to the new one."""
    names = {*json.loads((old / OLD).read_text(encoding="utf-8")), OLD}
    folder.mkdir(exist_ok=True)
    _move_except(names, old, folder, "")


def _move_except(names: AbstractSet[str], old: Path, folder: Path, within: str) -> None:
    """Move what is in a folder to another one, except some files, whose names begin with ``within``."""
    for path in old.iterdir():
        name, place = f"{within}{path.name}", folder / path.name
        if name in names:
            continue
        if not os.path.lexists(place):
            path.rename(place)
        elif path.is_dir() and place.is_dir() and not path.is_symlink():
            _move_except(names, path, place, f"{name}/")


def _exchange(one: Path, other: Path) -> None:
    """Exchange the names of two folders atomically.

    Raises:
        OSError: if the system or the file system cannot.
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
