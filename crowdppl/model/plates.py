"""The plates of a model: made here and nowhere else, so that two sites never disagree about what an item is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyro
from torch import Tensor


@dataclass(frozen=True)
class Plates:
    """The two conditional independences of an annotation model.

    Both stand at dimension -1 and are never nested: a site in ``plates.worker`` has batch shape ``(J,)``, a site in
    ``plates.item`` ``(N,)``, or ``(B,)`` in a mini-batch of ``B`` items. Anything more (a matrix for each worker) is an
    event: ``Dirichlet(ones(K, K)).to_event(1)`` inside ``plates.worker`` is ``(J, K, K)``.
    """

    item: Any
    worker: Any
    training: bool = False

    @classmethod
    def over(cls, items: int, workers: int, index: Tensor | None = None, *, training: bool = False) -> Plates:
        """Make the plates of ``items`` items, or of the mini-batch ``index`` ``(B,)`` among them, and of ``workers``.

        ``training`` says that networks are being trained: dropout and its like are on.
        """
        return cls(
            item=pyro.plate("item", items, subsample=index, dim=-1),
            worker=pyro.plate("worker", workers, dim=-1),
            training=training,
        )
