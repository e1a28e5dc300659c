"""Tables without workers that tools write, recognised by the names of their columns: what they are, and what to do instead."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pandas as pd

from crowdppl.data.readers.file_kinds import BOXES
from crowdppl.data.readers.worker_columns import looks_wide, names_a_worker
from crowdppl.errors import listed

# Columns of the corners or of the place and size of a box, in lower case without signs, and those of VGG Image Annotator.
_CORNERS: tuple[frozenset[str], ...] = tuple(
    map(
        frozenset,
        (
            ("xmin", "xmax", "ymin", "ymax"),
            ("x1", "x2", "y1", "y2"),
            ("left", "top", "right", "bottom"),
            ("left", "top", "width", "height"),
            ("xcenter", "ycenter", "width", "height"),
            ("bboxx", "bboxy", "bboxwidth", "bboxheight"),
            ("bbox", "categoryid"),
            ("regionshapeattributes", "regionattributes"),
        ),
    )
)
# Columns of REDCap in which a rater may be: of repeated instruments, of events, and of groups of users.
_REDCAP = "redcap_"
_RATERS = ("redcap_repeat_instance", "redcap_event_name", "redcap_data_access_group")
# Fields of raters, records that two people entered, and rows in which these are looked for.
_FIELD = re.compile(
    r"(?:^|_)(rater|reader|reviewer|annotator|coder|assessor|observer|evaluator)(_?(id|name|initials|no|number))?$"
)
_OF_RATER = re.compile(
    r"(.+?)_?(?:r|rater|reader|reviewer|annotator|coder|assessor|observer|evaluator)_?(?:\d{1,2}|[a-z])"
)
_TWICE, _ROWS = re.compile(r".+--[12]"), 1_000


def kind_of(frame: pd.DataFrame) -> str:
    """Return what a table without a column of workers is and what to do, empty if it is none that is known."""
    names = [str(name) for name in frame.columns]
    lower = [name.strip().lower() for name in names]
    if any(name.startswith(_REDCAP) for name in lower):
        return _of_redcap(frame, names, lower)
    plain = {"".join(filter(str.isalnum, name)) for name in lower}
    corners = next((corners for corners in _CORNERS if corners <= plain), None)
    if corners is None or any(map(names_a_worker, names)):
        return ""
    shown = [name for name in names if "".join(filter(str.isalnum, name.lower())) in corners]
    return f"{listed(shown, 4)} are columns of boxes, {BOXES}"


def _of_redcap(frame: pd.DataFrame, names: Sequence[str], lower: Sequence[str]) -> str:
    """Return which columns of an export of REDCap may name the rater, and how they are named."""
    at = lower.index("record_id") if "record_id" in lower else 0
    twice = next((str(name) for name in frame.iloc[:_ROWS, at].tolist() if _TWICE.fullmatch(str(name))), None)
    if twice is not None:
        return (
            f"an export of REDCap with data that were entered twice: records such as {twice!r} end in the number of the person; "
            f"write what is before -- in a column 'task', and the number in a column 'worker'"
        )
    named = [name for name in names if _FIELD.search(name.lower()) and not name.lower().startswith(_REDCAP)]
    raters = [*named, *(names[lower.index(name)] for name in _RATERS if name in lower)]
    item = names[lower.index("record_id")] if "record_id" in lower else names[0]
    fields = [
        name
        for name, plain in zip(names, lower, strict=True)
        if not plain.startswith(_REDCAP)
        and not plain.endswith(("_complete", "_timestamp"))
        and name not in (item, *raters)
    ]
    beside = [] if named else _of_raters(frame, fields, item)
    if beside:
        return (
            f"an export of REDCap: if each of {listed(beside, 3)} is the field of a rater, name format='wide'; otherwise export "
            f"the field of the rater, too"
        )
    if not raters:
        return (
            f"an export of REDCap, which does not say who rated: export it with the field of the rater, and name it with "
            f"worker=..., task={item!r} and label=..."
        )
    if not fields:
        return "an export of REDCap without a field of labels: export it with the field of the labels, and that of the rater"
    label = f"label={fields[0]!r}" if len(fields) == 1 else f"label=... (such as {listed(fields, 3)})"
    if named:
        return f"an export of REDCap: use worker={named[0]!r}, task={item!r} and {label}"
    return (
        f"an export of REDCap, which names no rater unless {listed(raters, 3)} does: if each value of it is a rater, use "
        f"worker={raters[0]!r}, task={item!r} and {label}; otherwise export the field of the rater, too"
    )


def _of_raters(frame: pd.DataFrame, fields: Sequence[str], item: str) -> list[str]:
    """Return the fields that may be those of a rater each: they have a name in common but for its end, and the same labels."""
    stems: dict[str, list[str]] = {}
    for name in fields:
        if match := _OF_RATER.fullmatch(name.lower()):
            stems.setdefault(match[1], []).append(name)
    return next((names for names in stems.values() if len(names) > 1 and looks_wide(frame[[item, *names]])), [])
