"""Language models as judges: what their verdicts are worth, and the corrected scores of the systems that they judge."""

from crowdppl.judges.coding.states import State
from crowdppl.judges.criteria_result import CriteriaResult, fit_criteria
from crowdppl.judges.fit import fit
from crowdppl.judges.human import HumanLabels
from crowdppl.judges.readers.formats import read, read_criteria, read_frame
from crowdppl.judges.result import JudgesResult, load
from crowdppl.judges.simulation import simulate, simulate_pairs
from crowdppl.judges.smaller_panels import smaller_panels
from crowdppl.judges.tables.alternative import alternative_annotators
from crowdppl.judges.tables.panel_table import Panel
from crowdppl.judges.verdicts import Verdicts

__all__ = [
    "CriteriaResult",
    "HumanLabels",
    "JudgesResult",
    "Panel",
    "State",
    "Verdicts",
    "alternative_annotators",
    "fit",
    "fit_criteria",
    "load",
    "read",
    "read_criteria",
    "read_frame",
    "simulate",
    "simulate_pairs",
    "smaller_panels",
]
