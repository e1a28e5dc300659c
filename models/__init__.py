"""The zoo: one paper, one file, each readable beside its paper."""

from crowdppl.model import AnnotationModel
from crowdppl.models.dawid_skene import DawidSkene
from crowdppl.models.item_subtypes import ItemSubtypes
from crowdppl.models.majority_vote import MajorityVote

# The names the command line and crowdppl.fit know.
CATALOGUE: dict[str, type[AnnotationModel]] = {
    "dawid-skene": DawidSkene,
    "item-subtypes": ItemSubtypes,
    "majority-vote": MajorityVote,
}

__all__ = ["CATALOGUE", "DawidSkene", "ItemSubtypes", "MajorityVote"]
