"""The zoo: one paper, one file, each readable beside its paper."""

from crowdppl.model.base import AnnotationModel
from crowdppl.models.accuracy_regression import AccuracyRegression
from crowdppl.models.class_conditional import ClassConditional
from crowdppl.models.community import CommunityDawidSkene
from crowdppl.models.conal import CoNAL
from crowdppl.models.crowd_mixture import CrowdMixture
from crowdppl.models.dawid_skene import DawidSkene
from crowdppl.models.features_and_effects import FeaturesAndEffects
from crowdppl.models.glad import GLAD
from crowdppl.models.graded_facets import GradedFacets
from crowdppl.models.hierarchical import HierarchicalDawidSkene
from crowdppl.models.item_difficulty import ItemDifficulty
from crowdppl.models.item_effects import ItemEffects
from crowdppl.models.item_response import ItemResponse
from crowdppl.models.item_subtypes import ItemSubtypes
from crowdppl.models.judged_systems import JudgedSystems
from crowdppl.models.label_sets import LabelSets
from crowdppl.models.lia import LIA
from crowdppl.models.linear_gaussian import LinearGaussian
from crowdppl.models.logistic_random_effects import LogisticRandomEffects
from crowdppl.models.mace import MACE
from crowdppl.models.majority_vote import MajorityVote
from crowdppl.models.minimax_entropy import MinimaxEntropy
from crowdppl.models.one_coin import OneCoin
from crowdppl.models.ordinal_thresholds import OrdinalThresholds
from crowdppl.models.pairwise_preference import PairwisePreference
from crowdppl.models.pooled import Pooled
from crowdppl.models.prototype_mixture import PrototypeMixture
from crowdppl.models.raykar import Raykar
from crowdppl.models.sequential_workers import SequentialWorkers
from crowdppl.models.two_coin_difficulty import TwoCoinDifficulty
from crowdppl.models.worker_groups import WorkerGroups

# The names the command line and crowdppl.fit know.
CATALOGUE: dict[str, type[AnnotationModel]] = {
    "dawid-skene": DawidSkene,
    "item-effects": ItemEffects,
    "features-and-effects": FeaturesAndEffects,
    "hierarchical": HierarchicalDawidSkene,
    "community": CommunityDawidSkene,
    "item-subtypes": ItemSubtypes,
    "class-conditional": ClassConditional,
    "one-coin": OneCoin,
    "pooled": Pooled,
    "majority-vote": MajorityVote,
    "worker-groups": WorkerGroups,
    "glad": GLAD,
    "item-difficulty": ItemDifficulty,
    "item-response": ItemResponse,
    "mace": MACE,
    "prototype-mixture": PrototypeMixture,
    "minimax-entropy": MinimaxEntropy,
    "logistic-random-effects": LogisticRandomEffects,
    "accuracy-regression": AccuracyRegression,
    "ordinal-thresholds": OrdinalThresholds,
    "graded-facets": GradedFacets,
    "sequential-workers": SequentialWorkers,
    "label-sets": LabelSets,
    "raykar": Raykar,
    "crowd-mixture": CrowdMixture,
    "conal": CoNAL,
    "two-coin-difficulty": TwoCoinDifficulty,
    "lia": LIA,
    "judged-systems": JudgedSystems,
    "pairwise-preference": PairwisePreference,
}

# Likewise of models whose labels are numbers.
NUMERIC: dict[str, type[LinearGaussian]] = {"linear-gaussian": LinearGaussian}

__all__ = [
    "CATALOGUE",
    "GLAD",
    "LIA",
    "MACE",
    "NUMERIC",
    "AccuracyRegression",
    "ClassConditional",
    "CoNAL",
    "CommunityDawidSkene",
    "CrowdMixture",
    "DawidSkene",
    "FeaturesAndEffects",
    "GradedFacets",
    "HierarchicalDawidSkene",
    "ItemDifficulty",
    "ItemEffects",
    "ItemResponse",
    "ItemSubtypes",
    "JudgedSystems",
    "LabelSets",
    "LinearGaussian",
    "LogisticRandomEffects",
    "MajorityVote",
    "MinimaxEntropy",
    "OneCoin",
    "OrdinalThresholds",
    "PairwisePreference",
    "Pooled",
    "PrototypeMixture",
    "Raykar",
    "SequentialWorkers",
    "TwoCoinDifficulty",
    "WorkerGroups",
]
