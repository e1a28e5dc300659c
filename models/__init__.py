"""The zoo: one paper, one file, each readable beside its paper."""

from crowdppl.model.base import AnnotationModel
from crowdppl.models.class_conditional import ClassConditional
from crowdppl.models.conal import CoNAL
from crowdppl.models.crowd_mixture import CrowdMixture
from crowdppl.models.dawid_skene import DawidSkene
from crowdppl.models.hierarchical import HierarchicalDawidSkene
from crowdppl.models.item_effects import ItemEffects
from crowdppl.models.item_subtypes import ItemSubtypes
from crowdppl.models.lia import LIA
from crowdppl.models.majority_vote import MajorityVote
from crowdppl.models.one_coin import OneCoin
from crowdppl.models.pooled import Pooled
from crowdppl.models.raykar import Raykar
from crowdppl.models.two_coin_difficulty import TwoCoinDifficulty
from crowdppl.models.worker_groups import WorkerGroups

# The names the command line and crowdppl.fit know.
CATALOGUE: dict[str, type[AnnotationModel]] = {
    "dawid-skene": DawidSkene,
    "item-effects": ItemEffects,
    "hierarchical": HierarchicalDawidSkene,
    "item-subtypes": ItemSubtypes,
    "class-conditional": ClassConditional,
    "one-coin": OneCoin,
    "pooled": Pooled,
    "majority-vote": MajorityVote,
    "worker-groups": WorkerGroups,
    "raykar": Raykar,
    "crowd-mixture": CrowdMixture,
    "conal": CoNAL,
    "two-coin-difficulty": TwoCoinDifficulty,
    "lia": LIA,
}

__all__ = [
    "CATALOGUE",
    "LIA",
    "ClassConditional",
    "CoNAL",
    "CrowdMixture",
    "DawidSkene",
    "HierarchicalDawidSkene",
    "ItemEffects",
    "ItemSubtypes",
    "MajorityVote",
    "OneCoin",
    "Pooled",
    "Raykar",
    "TwoCoinDifficulty",
    "WorkerGroups",
]
