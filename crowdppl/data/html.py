"""Markup of views: elements whose text is escaped, and tables for notebooks.

Text is escaped unless it is a ``Markup``, which is what Jinja2 takes, too.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from markupsafe import Markup

from crowdppl.errors import OptionError

if TYPE_CHECKING:
    import pandas as pd

# Numbers nearer to 0 than this are shown as 0.
TINY = 5e-4
# Rows of a table in a notebook.
ROWS = 10
VOID = frozenset({"br", "hr", "img", "input", "meta"})


def element(tag: str, *children: str | None, **attributes: str | bool | None) -> Markup:
    """Return an element.

    Args:
        tag: name of the element.
        *children: markup, or text, which is escaped; ``None`` is left out.
        **attributes: by name, with ``_`` for ``-`` and ``_`` at the end for names that Python reserves. ``None`` and ``False``
            leave an attribute out, ``True`` gives it no value.

    Raises:
        OptionError: for children of an element that has no content.
    """
    given = "".join(
        f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escaped(str(value))}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    content = joined(*children)
    if tag in VOID:
        if content:
            raise OptionError(f"an element {tag} has no content")
        return Markup(f"<{tag}{given}>")
    return Markup(f"<{tag}{given}>{content}</{tag}>")


def joined(*parts: str | None) -> Markup:
    """Return markup and escaped text one after the other; ``None`` is left out."""
    return Markup("".join(part if isinstance(part, Markup) else escaped(part) for part in parts if part is not None))


def escaped(text: str) -> Markup:
    """Return text as markup shows it; separators of lines and paragraphs, which end a line of a script, as their numbers."""
    return Markup(html.escape(text).replace("\u2028", "&#8232;").replace("\u2029", "&#8233;"))


def number(value: float) -> str:
    """Return a number with three decimals; 0 for what is nearer to it than :data:`TINY`."""
    return f"{0.0 if abs(value) < TINY else value:.3f}"


def table(frame: pd.DataFrame, rows: int = ROWS) -> Markup:
    """Return the first rows of a table for a notebook, with a line that counts the others."""
    shown = frame.head(rows).to_html(index=False, border=0, escape=True, float_format=number, na_rep="", notebook=True)
    left = len(frame) - rows
    return joined(Markup(shown), element("p", f"... and {left:,} more rows") if left > 0 else None)


def view(heading: str, *parts: str) -> Markup:
    """Return what a notebook shows of an object: a heading, then markup and sentences."""
    return element(
        "div",
        element("p", element("b", heading)),
        *(part if isinstance(part, Markup) else element("p", part) for part in parts),
    )
