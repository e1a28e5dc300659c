"""The pages: HTML files that include their style and script, with a policy that forbids them to load anything else."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from markupsafe import Markup

from crowdppl import arguments
from crowdppl.arguments import Level, OutputFile, checked
from crowdppl.files import atomic, digests
from crowdppl.posterior.numbers import NumericPosterior
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.recorded import NOT_CONVERGED
from crowdppl.report import still
from crowdppl.report.figures import content
from crowdppl.report.items import Descriptions
from crowdppl.report.numbers import numbers_content
from crowdppl.report.plan import Actions
from crowdppl.report.rendering import rendered


@checked
def write_numbers(
    posterior: NumericPosterior,
    path: OutputFile,
    run: Annotated[Mapping[str, Any], arguments.mapping] | None = None,
    *,
    level: Level | None = None,
    title: str | None = None,
) -> Path:
    """Write the report of a result whose labels are numbers to a file, atomically; arguments as of :func:`write`.

    Raises:
        FileError: if the file cannot be written.
        OptionError: for a level outside (0, 1).
    """
    path = Path(path)
    data, context = numbers_content(posterior, run, level=level, title=title)
    write_page(path, assembled("numbers.html", "numbers.js", data, context, posterior.alerts))
    return path


@checked
def page(
    posterior: Posterior, run: Annotated[Mapping[str, Any], arguments.mapping] | None = None, **options: Any
) -> str:
    """Return the report as HTML; arguments as of :func:`write`."""
    data = content(posterior, run, **options)
    # Texts are shown by the template alone: the script does not need them.
    return assembled(
        "posterior.html",
        "script.js",
        {**data, "texts": None, "sets": None, "effects": None, "grades": None},
        still.context(data),
        posterior.alerts,
    )


@checked
def write(
    posterior: Annotated[Posterior, arguments.any_posterior],
    path: OutputFile,
    run: Annotated[Mapping[str, Any], arguments.mapping] | None = None,
    *,
    level: Level | None = None,
    title: str | None = None,
    text: Annotated[Descriptions, arguments.by_item] | None = None,
    url: Annotated[Descriptions, arguments.by_item] | None = None,
    cost: Annotated[float, arguments.anything] | None = None,
    folder: Annotated[Path, arguments.anything] | None = None,
    worker_table: Annotated[pd.DataFrame, arguments.worker_table] | None = None,
    actions: Actions | None = None,
) -> Path:
    """Write the report to a file, atomically.

    Args:
        posterior: a result; of labels that are numbers, texts, links, prices and actions are not used.
        path: of the HTML file.
        run: how the result was computed (``run.json``): input, command, timings.
        level: probability of the intervals.
        title: heading of the report. Defaults to the name of the input.
        text: text of each item, by item (a mapping, or a Series indexed by item). Defaults to what
            :func:`crowdppl.report.describe` has stored in the result.
        url: link of each item, likewise; only ``http`` and ``https`` addresses become links.
        cost: price of one annotation, in any currency.
        folder: of the result, to be named in commands.
        worker_table: ``posterior.workers(level=level)``, if already computed.
        actions: ``actions(posterior, cost=cost)``, if already computed.

    Raises:
        FileError: if the file cannot be written.
        OptionError: for a level outside (0, 1) or an invalid price.
        DataError: for texts or links of other items.
    """
    path = Path(path)
    if isinstance(posterior, NumericPosterior):
        return write_numbers(posterior, path, run, level=level, title=title)
    html_page = page(
        posterior,
        run,
        level=level,
        title=title,
        text=text,
        url=url,
        cost=cost,
        folder=folder,
        worker_table=worker_table,
        actions=actions,
    )
    write_page(path, html_page)
    return path


def write_page(path: Path, text: str) -> None:
    """Write a page and seal it, so that a later one may replace it."""
    with atomic(path) as temporary:
        # Names of files need not be valid text.
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
        digests.seal(temporary)


def assembled(
    template: str, script: str, data: Mapping[str, Any], context: Mapping[str, Any], alerts: Sequence[str] = ()
) -> str:
    """Return a page.

    Args:
        template: name of the file with its sections.
        script: name of the file with the script that draws them, after the one with what all pages share.
        data: content of the page, for the script.
        context: variables of the template, which are seen without scripts.
        alerts: sentences above everything else. Which quantities did not converge, and by how much, stands with the other
            statistics in the appendix.
    """
    code, style = _part("common.js") + _part(script), _part("style.css")
    return rendered(
        template,
        title=str(data["title"]),
        alerts=[
            {"text": NOT_CONVERGED if (more := one.startswith(NOT_CONVERGED)) else one, "appendix": more}
            for one in alerts
        ],
        style=Markup(style),
        style_digest=_digest(style),
        script=Markup(code),
        script_digest=_digest(code),
        data=Markup(_embedded(data)),
        **context,
    )


def _part(name: str) -> str:
    return resources.files("crowdppl.report").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embedded(data: Mapping[str, Any]) -> str:
    """Return JSON without characters that could end the script or become markup, whatever names it holds."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
