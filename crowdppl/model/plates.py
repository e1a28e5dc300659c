"""The plates of a model: defined here and nowhere else, so that all sites agree about what an item and a worker are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyro
from torch import Tensor

from crowdppl.errors import ModelError
from crowdppl.model.networks import Networks


@dataclass(frozen=True)
class Plates:
    """The two conditional independences of an annotation model, and the networks of the fit.

    Both plates are at dimension -1 and are never nested: a site in ``plates.worker`` has batch shape ``(J,)``, a site in
    ``plates.item`` ``(N,)``, or ``(B,)`` in a mini-batch of ``B`` items. Anything more (a matrix for each worker) is an
    event: ``Dirichlet(ones(K, K)).to_event(1)`` inside ``plates.worker`` is ``(J, K, K)``.

    Attributes:
        item: the plate of the items.
        worker: the plate of the workers.
        training: whether networks are being trained, so that dropout is active.
        networks: of the fit, where the model has some.
    """

    item: Any
    worker: Any
    training: bool = False
    networks: Networks | None = None

    @classmethod
    def over(
        cls,
        items: int,
        workers: int,
        index: Tensor | None = None,
        *,
        training: bool = False,
        networks: Networks | None = None,
    ) -> Plates:
        """Return the plates of ``items`` items, or of a mini-batch ``index`` ``(B,)`` of them, and of ``workers`` workers."""
        return cls(
            item=pyro.plate("item", items, subsample=index, dim=-1),
            worker=pyro.plate("worker", workers, dim=-1),
            training=training,
            networks=networks,
        )

    def network(self, name: str, *, scale: float = 1.0) -> Callable[..., Any]:
        """Sample the weights of a network of :meth:`AnnotationModel.networks` and return it as a function.

        Args:
            name: of the network; its site is ``name.weights``.
            scale: standard deviation of the normal prior of each weight.

        Returns:
            A function that takes what the module's ``forward`` takes.

        Raises:
            ModelError: where the model has not been bound to its networks.
        """
        if self.networks is None:
            raise ModelError(f"the network {name!r} exists within a fit only: use crowdppl.fit, or bind(model, data)")
        return self.networks.sample(name, scale, self.training)
