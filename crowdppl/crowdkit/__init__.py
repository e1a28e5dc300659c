"""The interface of crowd-kit over our models: ``from crowdppl.crowdkit.aggregation import DawidSkene``."""

from crowdppl.crowdkit.aggregation import DawidSkene, MajorityVote, OneCoinDawidSkene

__all__ = ["DawidSkene", "MajorityVote", "OneCoinDawidSkene"]
