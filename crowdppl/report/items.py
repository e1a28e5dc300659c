"""What people see of an item besides its identifier: its text and a link, kept with the result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pandas as pd

from crowdppl import arguments
from crowdppl.data.columns import ITEM_COLUMNS, column_of
from crowdppl.data.readers.tables import read_table
from crowdppl.errors import DataError, OptionError, listed, suggestion
from crowdppl.posterior.posterior import Posterior

# Variables of the group ``constant_data``.
TEXT, URL = "item_text", "item_url"
SCHEMES = ("http", "https")

Descriptions = Mapping[Any, Any] | pd.Series


@arguments.checked(posterior=arguments.posterior, text=arguments.by_item, url=arguments.by_item)
def describe(posterior: Posterior, *, text: Descriptions | None = None, url: Descriptions | None = None) -> Posterior:
    """Return the result with a text or a link for each item: reports show them, and files keep them.

    Args:
        posterior: a result.
        text: by item, a mapping or a Series indexed by item; items without one show their identifier alone.
        url: likewise; only ``http`` and ``https`` addresses become links.

    Raises:
        DataError: where no item of the result is among them.
    """
    tree = posterior.tree.copy()
    constant = posterior.tree["constant_data"].to_dataset()
    for name, told in ((TEXT, text), (URL, url)):
        if told is not None:
            constant[name] = (("item",), _by_item(posterior, told, "text" if name == TEXT else "url"))
    if "item" not in constant.coords:
        constant = constant.assign_coords(item=posterior.items())
    tree["constant_data"] = constant
    return Posterior(tree)


def descriptions(posterior: Posterior) -> tuple[list[str] | None, list[str] | None]:
    """Return the text and the link of each item, ``None`` where the result has none; empty for an item without."""
    constant = posterior.tree["constant_data"].to_dataset()
    texts, urls = (constant[name].values.astype(str).tolist() if name in constant else None for name in (TEXT, URL))
    return texts, urls


@arguments.checked(earlier=arguments.posterior, later=arguments.posterior)
def carried(earlier: Posterior, later: Posterior) -> Posterior:
    """Return a later result with the descriptions of an earlier one, of the items that both have."""
    names = earlier.items().tolist()
    texts, urls = (None if told is None else dict(zip(names, told, strict=True)) for told in descriptions(earlier))
    if texts is None and urls is None:
        return later
    return describe(later, text=texts, url=urls)


@arguments.checked(
    frame=arguments.frame, item=arguments.text, text=arguments.text, url=arguments.text, source=arguments.text
)
def columns(
    frame: pd.DataFrame, item: str, *, text: str | None = None, url: str | None = None, source: str = "the table"
) -> dict[str, pd.Series[Any]]:
    """Take texts and links of items from columns of a table, the first that is not blank for each item.

    Args:
        frame: a row for each annotation, or each item.
        item: its column of items.
        text: column of texts.
        url: column of links.
        source: name of the table, for messages.

    Returns:
        ``text`` and ``url`` as :func:`describe` takes them, those that are named.

    Raises:
        OptionError: for a column that is not there.
    """
    found = {}
    for option, name in (("text", text), ("url", url)):
        if name is None:
            continue
        if name not in frame:
            raise OptionError(
                f"{source}: no column {name!r} for --{option}-column{suggestion(name, frame.columns)}; it has "
                f"{listed(map(str, frame.columns), 12)}"
            )
        told = frame[name]
        if told.ndim > 1:
            raise OptionError(f"{source}: several columns are called {name!r}; rename all but one")
        part = pd.DataFrame({"item": frame[item].to_numpy(dtype=object), "told": told.to_numpy(dtype=object)}).dropna()
        part = part[part["told"].astype(str).str.strip() != ""].drop_duplicates("item")
        found[option] = pd.Series(part["told"].to_numpy(dtype=object), index=pd.Index(part["item"], dtype=object))
    return found


@arguments.checked(path=arguments.input_path, column=arguments.text, text=arguments.text, url=arguments.text)
def from_file(path: Path, column: str | None, *, text: str | None, url: str | None) -> dict[str, pd.Series[Any]]:
    """Read texts and links of items from a table, a row for each item or annotation; see :func:`columns`.

    Raises:
        FileError: where the file cannot be read.
        DataError: without a column of items.
        OptionError: where no column is named, or one is not there.
    """
    if text is None and url is None:
        raise OptionError("--items is given without --text-column or --url-column; name at least one of them")
    frame = read_table(path)
    item = column_of(frame, column, ITEM_COLUMNS, path.name, "say which one holds the item with --item")
    return columns(frame, item, text=text, url=url, source=path.name)


def safe_url(url: str) -> str | None:
    """Return an address that a link may have, or ``None``: ``http`` and ``https`` only, with a host."""
    try:
        parts = urlsplit(url.strip())
        host = parts.hostname
    except ValueError:
        return None
    return url.strip() if parts.scheme.lower() in SCHEMES and host else None


def _by_item(posterior: Posterior, told: Descriptions, what: str) -> Any:
    names = posterior.items().tolist()
    pairs = told.items()
    exact = {key: value for key, value in pairs if not _blank(value)}
    found = [exact.get(name) for name in names]
    if all(value is None for value in found):
        # Identifiers are integers in one table and text in another where a stray name stands in one of them.
        alike = {str(key): value for key, value in exact.items()}
        found = [alike.get(str(name)) for name in names]
    if exact and all(value is None for value in found):
        raise DataError(
            f"{what}: none of its items is in the result, such as {next(iter(exact))!r}; it has {names[0]!r}"
        )
    return np.array(["" if value is None else _writable(str(value)) for value in found], dtype=object)


def _writable(text: str) -> str:
    """Return a text without what no file can hold: NUL, and halves of characters."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def _blank(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value)) or value is pd.NA or value is pd.NaT
