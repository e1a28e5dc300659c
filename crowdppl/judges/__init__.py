"""Language models as judges: their verdicts and the labels of people, read, checked and coded."""

from crowdppl.judges.human import HumanLabels
from crowdppl.judges.states import State
from crowdppl.judges.verdicts import Verdicts

__all__ = ["HumanLabels", "State", "Verdicts"]
