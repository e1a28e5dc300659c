"""Labels that are never a true label, such as "cannot tell": what a worker may answer instead of a class."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from crowdppl.errors import DataError, listed, suggestion

Array = npt.NDArray[Any]

# Name, among the answers of a worker, of all labels that are classes.
A_CLASS = "(a class)"


@dataclass(frozen=True, eq=False)
class OtherLabels:
    """Annotations whose label is not a class, beside those of :class:`crowdppl.Annotations`.

    Attributes:
        item: item of each, ``(B,)`` int64, ascending.
        worker: worker of each, ``(B,)`` int64.
        label: number of its label, ``(B,)`` int64.
        names: the caller's names of these labels, ``(O,)``.
    """

    item: Tensor
    worker: Tensor
    label: Tensor
    names: Array

    def __len__(self) -> int:
        return len(self.item)

    def to(self, device: torch.device) -> OtherLabels:
        """Return the same on a device."""
        return replace(self, **{name: getattr(self, name).to(device) for name in ("item", "worker", "label")})

    def batch(self, index: Tensor, items: int) -> OtherLabels:
        """Return those of the items ``index`` ``(B,)`` among so many, renumbered."""
        place = torch.full((items,), -1, device=index.device)
        place[index] = torch.arange(len(index), device=index.device)
        item = place[self.item]
        rows = (item >= 0).nonzero().squeeze(-1)
        rows = rows[item[rows].argsort(stable=True)]
        return replace(self, item=item[rows], worker=self.worker[rows], label=self.label[rows])

    def and_also(self, more: OtherLabels) -> OtherLabels:
        """Return these and further ones, of other names."""
        item = torch.cat([self.item, more.item])
        order = item.argsort(stable=True)
        worker = torch.cat([self.worker, more.worker])
        label = torch.cat([self.label, more.label + len(self.names)])
        names = np.array([*self.names.tolist(), *more.names.tolist()], dtype=object)
        return OtherLabels(item[order], worker[order], label[order], names)


def names_of(others: str | Iterable[Any]) -> list[Any]:
    """Return the names of other labels as a caller gives them: one, or several.

    Raises:
        DataError: if they are neither.
    """
    names = [others] if isinstance(others, (str, bytes)) or not isinstance(others, Iterable) else list(others)
    if any(isinstance(name, (list, tuple, dict, set)) or name is None for name in names):
        raise DataError(f"other_labels={others!r} must be labels, such as ['cannot tell']")
    return names


def declared_too(labels: Any, others: list[Any], column: pd.Series[Any]) -> Any:
    """Return declared classes with the other labels, as they are written in a column of labels.

    Declared classes that are no list are returned as they are: they are refused where they are read.
    """
    if labels is None or not isinstance(labels, Iterable) or isinstance(labels, (str, bytes, Set, Mapping)):
        return labels
    listed_labels = list(labels)
    taken = {_key(name) for name in listed_labels}
    wanted = {_key(name): name for name in others if _key(name) not in taken}
    occurring = (
        [name for name in column.dropna().drop_duplicates().tolist() if isinstance(name, Hashable)] if wanted else []
    )
    return [*listed_labels, *(wanted | {_key(name): name for name in occurring if _key(name) in wanted}).values()]


def _key(name: Any) -> str:
    """Return what two writings of one label share."""
    return str(name).strip().casefold()


def numbered(others: Iterable[Any], labels: Array) -> tuple[Array, Array]:
    """Return which labels ``(L,)`` are classes, and the number of each among the classes, or among the other labels, ``(L,)``.

    Raises:
        DataError: for another label that is none of them, or if no class is left.
    """
    by_text = {_key(name): place for place, name in enumerate(labels.tolist())}
    is_class = np.ones(len(labels), dtype=bool)
    for name in others:
        place = by_text.get(_key(name))
        if place is None:
            guess = suggestion(str(name), [str(label) for label in labels.tolist()])
            raise DataError(
                f"no annotation has the label {name!r}, which is said never to be a true label{guess}; labels are "
                f"{listed(labels.tolist(), 9)}"
            )
        is_class[place] = False
    if is_class.sum() < 2:
        raise DataError(
            f"of the labels {listed(labels.tolist(), 9)}, {int(is_class.sum())} may be a true label; leave at least two classes, "
            f"or declare them with labels=[...]"
        )
    return is_class, np.where(is_class, is_class.cumsum(), (~is_class).cumsum()) - 1
