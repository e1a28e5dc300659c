"""The probability of ArviZ's intervals, read without importing ArviZ, which imports matplotlib and takes a third of a second."""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

PACKAGE, NAME = "arviz_base", "stats.ci_prob"
# The entry of the option in the table of defaults of ``arviz_base/rcparams.py``.
ENTRY = re.compile(rf'"{re.escape(NAME)}": \((0?\.\d+),')
# Environment variables that name a folder of options, and the folder within.
FOLDERS = (("ARVIZ_DATA",), ("XDG_CONFIG_HOME", "arviz"))


def arviz_level() -> float:
    """Return ArviZ's ``rcParams["stats.ci_prob"]``.

    A process that has not imported ArviZ cannot have set the option. Then it is the default of the installed version, unless
    there is a file of options, which is left to ArviZ to read.
    """
    level = None if PACKAGE in sys.modules or _has_options() else _installed_default()
    if level is not None:
        return level
    from arviz_base import rcParams  # here: slow to import

    return float(rcParams[NAME])


def _has_options() -> bool:
    """Return whether there is a file ``arvizrc`` in any place where ``arviz_base.rcparams.get_arviz_rcfile`` looks."""
    home = Path(os.path.expanduser("~"))  # noqa: PTH111  # Path.home raises for a user without a home
    own = [home / ".arviz", home / ".config" / "arviz"]
    named = [Path(place, *rest) for name, *rest in FOLDERS if (place := os.environ.get(name))]
    return any((folder / "arvizrc").is_file() for folder in (Path(), *own, *named))


@cache
def _installed_default() -> float | None:
    """Return the default in the source of the installed version; ``None`` where it is not there to be read."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    try:
        text = Path(spec.submodule_search_locations[0], "rcparams.py").read_text(encoding="utf-8")
    except OSError:
        return None
    entries = ENTRY.findall(text)
    return float(entries[0]) if len(entries) == 1 else None
