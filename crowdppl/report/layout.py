"""The page around the figures: one HTML file, its style and script within, and a policy that lets it load nothing else."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from crowdppl import arguments
from crowdppl.files import atomic
from crowdppl.posterior.posterior import Posterior
from crowdppl.report.figures import content
from crowdppl.report.items import Descriptions


@arguments.checked(posterior=arguments.posterior, run=arguments.mapping, options=arguments.anything)
def page(posterior: Posterior, run: Mapping[str, Any] | None = None, **options: Any) -> str:
    """Return the report as HTML; arguments as of :func:`write`."""
    told = content(posterior, run, **options)
    title = told["title"]
    style, script = _part("style.css"), _part("script.js")
    parts = {
        "TITLE": html.escape(title),
        "HEADING": html.escape(title),
        "STYLE_HASH": _digest(style),
        "SCRIPT_HASH": _digest(script),
        "STYLE": style,
        "SCRIPT": script,
        "DATA": _embedded(told),
    }
    text = _part("template.html")
    # One pass from left to right: nothing that was put in is looked at again.
    pieces = text.split("{{")
    out = [pieces[0]]
    for piece in pieces[1:]:
        key, _, rest = piece.partition("}}")
        out += [parts[key], rest]
    return "".join(out)


@arguments.checked(
    posterior=arguments.posterior,
    path=arguments.output_file,
    run=arguments.mapping,
    level=arguments.level,
    title=arguments.text,
    text=arguments.by_item,
    url=arguments.by_item,
    cost=arguments.anything,
)
def write(
    posterior: Posterior,
    path: str | Path,
    run: Mapping[str, Any] | None = None,
    *,
    level: float | None = None,
    title: str | None = None,
    text: Descriptions | None = None,
    url: Descriptions | None = None,
    cost: float | None = None,
) -> Path:
    """Write the report to a file, in one go.

    Args:
        posterior: a result.
        path: of the HTML file.
        run: what is known of its making besides (``run.json``): input, command, timings.
        level: probability of the intervals.
        title: heading of the report; the name of the input where not given.
        text: text of each item, by item (a mapping, or a Series indexed by item); what :func:`crowdppl.report.describe` has
            kept with the result where not given.
        url: link of each item, likewise; only ``http`` and ``https`` addresses become links.
        cost: price of one annotation, in any currency.

    Raises:
        FileError: where it cannot be written.
        OptionError: for a level outside (0, 1) or a price that is none.
        DataError: for texts or links of other items.
    """
    path = Path(path)
    told = page(posterior, run, level=level, title=title, text=text, url=url, cost=cost)
    with atomic(path) as temporary:
        temporary.write_text(told, encoding="utf-8")
    return path


def _part(name: str) -> str:
    return resources.files("crowdppl.report").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embedded(told: Mapping[str, Any]) -> str:
    """Return JSON that nothing in it can end or turn into markup: a worker called ``</script>`` is only a name."""
    text = json.dumps(told, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
