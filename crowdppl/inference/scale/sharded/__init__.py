"""Annotations of which each process reads and holds its share: for data larger than the memory of one machine.

``plan`` says which row groups a rank reads and which items are its own, ``rows`` reads and exchanges rows, ``collect`` turns them
into annotations of whole items. ``part`` is what a rank does with its items, and ``parts`` all of them from the view of rank 0,
on which ``em`` and ``gibbs`` run. ``distribute`` is the facade.
"""

from crowdppl.inference.scale.sharded.distribute import distribute

__all__ = ["distribute"]
