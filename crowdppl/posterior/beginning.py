"""The part of a result that is known before its draws: groups that are laid out when they are first used.

A table of true labels needs two of them, and xarray takes milliseconds for each: as long as a step of EM on small data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from threading import RLock
from typing import Any

import xarray as xr

# Groups are laid out by one thread at a time, each once: what :mod:`crowdppl.inference.datatree` sets meanwhile concerns all
# threads. Re-entrant, since it takes the lock, too.
LAYING_OUT = RLock()


class Beginning:
    """Groups of a result and its attributes, as a tree has them.

    Args:
        groups: names of the groups.
        lay_out: returns a group by its name.
        attrs: of the tree.

    Attributes:
        children: the names of the groups.
        attrs: of the tree.
    """

    def __init__(self, groups: Iterable[str], lay_out: Callable[[str], xr.Dataset], attrs: Mapping[Any, Any]):
        self.children, self.attrs = tuple(groups), dict(attrs)
        self._lay_out = lay_out
        self._groups: dict[str, xr.Dataset] = {}

    def __getitem__(self, name: str) -> xr.Dataset:
        """Return a group.

        Raises:
            KeyError: for a name that is not among ``children``.
        """
        if name not in self.children:
            raise KeyError(name)
        if name not in self._groups:
            with LAYING_OUT:
                if name not in self._groups:
                    self._groups[name] = self._lay_out(name)
        return self._groups[name]
