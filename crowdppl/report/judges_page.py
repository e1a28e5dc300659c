"""The page on judges and systems."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import pandas as pd

from crowdppl import arguments
from crowdppl.arguments import OutputFile, PositiveFloat, checked
from crowdppl.judges.criteria_result import CriteriaResult
from crowdppl.judges.result import JudgesResult
from crowdppl.report import judged
from crowdppl.report.layout import assembled, write_page


@checked
def write_judges(
    result: JudgesResult | CriteriaResult,
    path: OutputFile,
    run: Annotated[Mapping[str, Any], arguments.mapping] | None = None,
    *,
    title: str | None = None,
    items: Annotated[pd.DataFrame, arguments.table_of("result.next()", "item", "label", "probability", "width_after")]
    | None = None,
    needed: Annotated[pd.DataFrame, arguments.table_of("result.labels_needed(width)", "how", "labels", "width")]
    | None = None,
    width: PositiveFloat | None = None,
    pass_at: Annotated[pd.DataFrame, arguments.table_of("result.pass_at(k)", "system", "k")] | None = None,
) -> Path:
    """Write the report on judges and systems to a file, atomically.

    Args:
        result: of :func:`crowdppl.judges.fit`, or of :func:`crowdppl.judges.fit_criteria`: the page then shows one criterion at a
            time, and the rates of all.
        path: of the HTML file.
        run: how the result was computed: input, command, seed, seconds.
        title: heading of the report. Defaults to the name of the input.
        items: ``result.next(n)``, if already computed. Defaults to 20 items.
        needed: ``result.labels_needed(width)``, if already computed.
        width: the wished width of the intervals of systems. Defaults to about two thirds of the widest one.
        pass_at: ``result.pass_at(k)``, if already computed. Defaults to the numbers of answers of that method.

    Raises:
        FileError: if the file cannot be written.
        OptionError: for a width of 0 or less.
    """
    path = Path(path)
    options: dict[str, Any] = {
        "title": title,
        "items": items,
        "needed_labels": needed,
        "width": width,
        "pass_at": pass_at,
    }
    if isinstance(result, CriteriaResult):
        data = judged.criteria_content(result, run, **options)
    else:
        data = judged.content(result, run, **options)
    write_page(path, assembled("judges.html", "judges.js", data, {}))
    return path
