"""The pages' templates (Jinja2): the environment that renders them, and the words and numbers they share.

Text is escaped wherever a template shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from crowdppl.data import html

if TYPE_CHECKING:
    import jinja2


@cache
def environment() -> jinja2.Environment:
    """Return the environment of the templates in ``templates/``."""
    import jinja2  # here: slow to import

    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("crowdppl.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: html.escaped(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"percent": percent, "counted": counted, "plural": plural, "sentence": sentence}
    return templates


def rendered(template: str, **context: Any) -> str:
    """Return a page.

    Args:
        template: name of the file.
        **context: what its variables stand for.
    """
    return environment().get_template(template).render(**context)


@dataclass(frozen=True)
class Table:
    """The first rows of a table.

    Attributes:
        names: of the columns.
        rows: their cells, the first of which is the name of the row: text, or what the macro ``cell`` of the templates knows.
        numbers: positions of columns of numbers.
        left: number of further rows.
    """

    names: Sequence[str]
    rows: Sequence[Sequence[Any]]
    numbers: Sequence[int] = ()
    left: int = 0


def percent(share: float | None, digits: int = 0) -> str:
    """Return a share as a percentage, a dash where there is none."""
    return "–" if share is None else f"{100 * share:.{digits}f}%"


def whole_percent(share: float) -> str:
    """Return a share as a whole percentage; "over 99%" and "under 1%" rather than a rounded 100% or 0%."""
    text = f"{share:.0%}"
    if text == "100%" and share < 1:
        return "over 99%"
    return "under 1%" if text == "0%" and share > 0 else text


def plural(number: int, word: str) -> str:
    """Return a word in the form that follows a number."""
    return word if number == 1 else f"{word}s"


def counted(number: int, word: str) -> str:
    """Return a number with its word."""
    return f"{number:,} {plural(number, word)}"


def sentence(text: str) -> str:
    """Return a text with a capital at its beginning."""
    return text[:1].upper() + text[1:]
