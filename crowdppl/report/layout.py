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

from crowdppl.files import atomic
from crowdppl.posterior import Posterior
from crowdppl.report.figures import content


def page(posterior: Posterior, run: Mapping[str, Any] | None = None, *, level: float | None = None) -> str:
    """Return the report as HTML; arguments as of :func:`crowdppl.report.content`."""
    told = content(posterior, run, level=level)
    source = told["reproduce"]["input"]
    name = source.get("file") or source.get("dataset") or told["model"]
    style, script = _part("style.css"), _part("script.js")
    parts = {
        "TITLE": html.escape(f"{name}: labels and workers"),
        "HEADING": html.escape(str(name)),
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


def write(
    posterior: Posterior, path: str | Path, run: Mapping[str, Any] | None = None, *, level: float | None = None
) -> Path:
    """Write the report to a file, in one go.

    Raises:
        FileError: where it cannot be written.
    """
    path = Path(path)
    text = page(posterior, run, level=level)
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
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
