"""Annotations that do not fit in memory: gone through from disk, in batches of whole items.

``dataset`` is the data set, with ``codes`` of its annotations in temporary files; ``stepwise_em`` learns by stepwise EM and
stochastic variational Bayes, ``svi`` by SVI; ``stream`` is the facade.
"""

from crowdppl.inference.memory import ROWS
from crowdppl.inference.scale.streaming.stream import stream

__all__ = ["ROWS", "stream"]
