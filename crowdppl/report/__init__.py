"""The report: one HTML file that needs no network and begins with what to do."""

from crowdppl.report.figures import content
from crowdppl.report.items import carried, columns, describe, from_file
from crowdppl.report.layout import page, write, write_judges, write_numbers
from crowdppl.report.numbers import number_actions
from crowdppl.report.plan import Actions, actions, lines, price

__all__ = [
    "Actions",
    "actions",
    "carried",
    "columns",
    "content",
    "describe",
    "from_file",
    "lines",
    "number_actions",
    "page",
    "price",
    "write",
    "write_judges",
    "write_numbers",
]


def __dir__() -> list[str]:
    return __all__
