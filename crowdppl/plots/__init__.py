"""Plots of a result, in matplotlib.

Every function takes a result and returns the axes; those that draw into one set of axes accept ``ax=``. Intervals are the same as
in the tables of the same level; ``posterior.coverage`` gives the measured coverage of such intervals. ArviZ's plots accept
``posterior.tree``: ``arviz_plots.plot_trace(posterior.tree, var_names=["prevalence"])``. Always give ``var_names``: without them
ArviZ draws a panel for every number of the result.
"""

from crowdppl.plots.checks import chains as chains
from crowdppl.plots.checks import curve as curve
from crowdppl.plots.checks import predictive as predictive
from crowdppl.plots.checks import redundancy as redundancy
from crowdppl.plots.checks import reliability as reliability
from crowdppl.plots.checks import trace as trace
from crowdppl.plots.grades import perspectives as perspectives
from crowdppl.plots.grades import wright_map as wright_map
from crowdppl.plots.items import entropy as entropy
from crowdppl.plots.items import item as item
from crowdppl.plots.items import load as load
from crowdppl.plots.items import simplex as simplex
from crowdppl.plots.items import values as values
from crowdppl.plots.judging import judges as judges
from crowdppl.plots.judging import panel as panel
from crowdppl.plots.judging import systems as systems
from crowdppl.plots.workers import confusion as confusion
from crowdppl.plots.workers import experience as experience
from crowdppl.plots.workers import forest as forest
from crowdppl.plots.workers import groups as groups
from crowdppl.plots.workers import noise as noise
from crowdppl.plots.workers import ranks as ranks
from crowdppl.plots.workers import workers_map as workers_map

__all__ = [
    "chains",
    "confusion",
    "curve",
    "entropy",
    "experience",
    "forest",
    "groups",
    "item",
    "judges",
    "load",
    "noise",
    "panel",
    "perspectives",
    "predictive",
    "ranks",
    "redundancy",
    "reliability",
    "simplex",
    "systems",
    "trace",
    "values",
    "workers_map",
    "wright_map",
]


def __dir__() -> list[str]:
    return __all__
