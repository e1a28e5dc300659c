"""Fits in several processes, which ``torchrun`` starts: rank 0 and other ranks.

Rank 0 reads, fits and writes as a single process does. Where passes over the annotations can be distributed, it sends each other
rank a part of the items, once; at each step it broadcasts the tables that the pass needs, and all ranks add up their sums. The
other ranks hold their part of the annotations only, and nothing of the model.

``group`` holds the messages, ``shares`` the parts of the items and the commands that other ranks carry out, ``context`` the
context :func:`joined`. Data of which each rank reads a share for itself are the subject of
:mod:`crowdppl.inference.scale.sharded`.
"""

from crowdppl.inference.distributed.context import joined as joined
from crowdppl.inference.distributed.group import LostProcessError as LostProcessError
from crowdppl.inference.distributed.group import is_other_rank as is_other_rank
