"""Texts and links of items that a result keeps."""

from __future__ import annotations

from crowdppl.posterior.posterior import Posterior

# Variables of the group ``constant_data``.
TEXT, URL = "item_text", "item_url"


def descriptions(posterior: Posterior) -> tuple[list[str] | None, list[str] | None]:
    """Return texts and links by item, each ``None`` if the result has none; empty strings for single items without."""
    constant = posterior.tree["constant_data"].to_dataset()
    texts, urls = (constant[name].values.astype(str).tolist() if name in constant else None for name in (TEXT, URL))
    return texts, urls
