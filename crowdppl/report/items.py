"""Texts and links of items, stored with the result and shown in the report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import numpy as np
import pandas as pd

from crowdppl import arguments
from crowdppl.arguments import checked
from crowdppl.data.readers.source import read_table
from crowdppl.data.table.columns import ITEM_COLUMNS, column_of
from crowdppl.data.table.identifiers import writable
from crowdppl.errors import DataError, OptionError, listed, suggestion
from crowdppl.posterior.descriptions import TEXT, URL, descriptions
from crowdppl.posterior.posterior import Posterior

SCHEMES = ("http", "https")

Descriptions = Mapping[Any, Any] | pd.Series


@checked
def describe(
    posterior: Posterior,
    *,
    text: Annotated[Descriptions, arguments.by_item] | None = None,
    url: Annotated[Descriptions, arguments.by_item] | None = None,
) -> Posterior:
    """Return the result with a text or a link for each item. Reports show them, and files store them.

    Args:
        posterior: a result.
        text: by item, a mapping or a Series indexed by item. Items without a text are shown by their identifier.
        url: likewise; only ``http`` and ``https`` addresses become links.

    Raises:
        DataError: if they contain no item of the result.
    """
    tree = posterior.tree.copy()
    constant = posterior.tree["constant_data"].to_dataset()
    for name, values in ((TEXT, text), (URL, url)):
        if values is not None:
            constant[name] = (("item",), _by_item(posterior, values, "text" if name == TEXT else "url"))
    if "item" not in constant.coords:
        constant = constant.assign_coords(item=posterior.items())
    tree["constant_data"] = constant
    return Posterior(tree)


@checked
def carried(earlier: Posterior, later: Posterior) -> Posterior:
    """Return a later result with the texts and links of an earlier one, for the items of both."""
    names = earlier.items().tolist()
    texts, urls = (None if part is None else dict(zip(names, part, strict=True)) for part in descriptions(earlier))
    if texts is None and urls is None:
        return later
    return describe(later, text=texts, url=urls)


@checked
def columns(
    frame: pd.DataFrame, item: str, *, text: str | None = None, url: str | None = None, source: str = "the table"
) -> dict[str, pd.Series[Any]]:
    """Return texts and links of items from columns of a table, for each item the first that is not blank.

    Args:
        frame: a row for each annotation, or each item.
        item: name of the column of items.
        text: name of the column of texts.
        url: name of the column of links.
        source: name of the table, for messages.

    Returns:
        Arguments ``text`` and ``url`` of :func:`describe`, as far as columns are named.

    Raises:
        OptionError: for a missing column.
    """
    described = {}
    for option, name in (("text", text), ("url", url)):
        if name is None:
            continue
        if name not in frame:
            raise OptionError(
                f"{source}: no column {name!r} for --{option}-column{suggestion(name, frame.columns)}; it has "
                f"{listed(map(str, frame.columns), 12)}"
            )
        values = frame[name]
        if values.ndim > 1:
            raise OptionError(f"{source}: several columns are called {name!r}; rename all but one")
        part = pd.DataFrame(
            {"item": frame[item].to_numpy(dtype=object), "value": values.to_numpy(dtype=object)}
        ).dropna()
        part = part[part["value"].astype(str).str.strip() != ""].drop_duplicates("item")
        described[option] = pd.Series(part["value"].to_numpy(dtype=object), index=pd.Index(part["item"], dtype=object))
    return described


@checked
def from_file(
    path: Annotated[Path, arguments.input_path], column: str | None, *, text: str | None, url: str | None
) -> dict[str, pd.Series[Any]]:
    """Read texts and links of items from a table with a row for each item or annotation; see :func:`columns`.

    Raises:
        FileError: if the file cannot be read.
        DataError: for a missing column of items.
        OptionError: if no column is named, or one is missing.
    """
    if text is None and url is None:
        raise OptionError("--items is given without --text-column or --url-column; name at least one of them")
    frame = read_table(path)
    item = column_of(frame, column, ITEM_COLUMNS, path.name, "name the item column with --item")
    return columns(frame, item, text=text, url=url, source=path.name)


def safe_url(url: str) -> str | None:
    """Return an address that may become a link (``http`` or ``https``, with a host), else ``None``."""
    try:
        parts = urlsplit(url.strip())
        host = parts.hostname
    except ValueError:
        return None
    return url.strip() if parts.scheme.lower() in SCHEMES and host else None


def _by_item(posterior: Posterior, values: Descriptions, what: str) -> Any:
    """Return a text for each item, ``(N,)``."""
    names = posterior.items().tolist()
    pairs = values.items()
    exact = {key: value for key, value in pairs if not _blank(value)}
    matches = [exact.get(name) for name in names]
    if all(value is None for value in matches):
        # Identifiers are integers in one table and text in another where only one has a name that is not a number.
        as_text = {str(key): value for key, value in exact.items()}
        matches = [as_text.get(str(name)) for name in names]
    if exact and all(value is None for value in matches):
        raise DataError(
            f"{what}: none of its items is in the result, such as {next(iter(exact))!r}; it has {names[0]!r}"
        )
    return np.array(["" if value is None else writable(str(value)) for value in matches], dtype=object)


def _blank(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value)) or value is pd.NA or value is pd.NaT
