"""The report: one HTML file that needs no network and begins with what to do."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from crowdppl.report.figures import content
from crowdppl.report.items import carried, columns, describe, from_file
from crowdppl.report.layout import page, write, write_numbers
from crowdppl.report.numbers import number_actions
from crowdppl.report.plan import Actions, actions, lines, price

if TYPE_CHECKING:
    from crowdppl.report.judges_page import write_judges

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


def __getattr__(name: str) -> Any:
    # Judges' results take long to import, and the page on a crowd needs none.
    if name == "write_judges":
        globals()[name] = importlib.import_module("crowdppl.report.judges_page").write_judges
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
