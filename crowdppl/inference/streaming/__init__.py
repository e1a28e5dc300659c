"""Annotations that do not fit in memory: gone through from disk, in batches of whole items.

``stored`` is the data set; ``sums`` learns by stepwise EM and stochastic variational Bayes, ``gradients`` by SVI; ``stream`` is
the facade.
"""

from crowdppl.inference.memory import ROWS
from crowdppl.inference.streaming.stream import Streamed, stream

__all__ = ["ROWS", "Streamed", "stream"]
