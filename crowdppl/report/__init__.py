"""The report: one HTML file that needs no network: what is true, who is good, and how sure that is."""

from crowdppl.report.figures import content
from crowdppl.report.layout import page, write

__all__ = ["content", "page", "write"]


def __dir__() -> list[str]:
    return __all__
