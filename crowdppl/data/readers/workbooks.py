"""Workbooks of Excel and OpenDocument: the sheet with content, as CSV.

They are read by calamine, which runs no macros and evaluates no formulas: cells have the values that were stored.
"""

from __future__ import annotations

import csv
import datetime
import html
import re
import zipfile
from pathlib import Path
from typing import Any

from crowdppl.data.readers.opening import Allowance, first_bytes
from crowdppl.errors import FileError, listed

_ZIP, _OLD_OFFICE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# Endings of old documents of Office that are no workbooks.
_OTHERS = (".doc", ".ppt", ".msg")
_SPREADSHEET = b"application/vnd.oasis.opendocument.spreadsheet"
# Bytes of memory for each byte of the XML.
_FACTOR = 4
# Tags of sheets, links, rows and columns in the XML of Excel. No tag goes beyond the next one, so that each is looked at once.
_ENTRY, _LINK = re.compile(rb"<(?:\w+:)?sheet\s[^<>]*>"), re.compile(rb"<Relationship\s[^<>]*>")
_ROW, _COLUMN = re.compile(rb"<(?:\w+:)?row\b[^<>]*>"), re.compile(rb"<(?:\w+:)?col\s[^<>]*>")
_ATTRIBUTE = re.compile(rb"(?<![\w:])([\w:]+)=\"([^\"<>]*)\"")
_TRUE, _DIGITS = (b"1", b"true"), 7
_SAVE = "save the sheet with the annotations as CSV (UTF-8)"


def is_workbook(path: Path) -> bool:
    """Return whether a file is a workbook, by its content."""
    start = first_bytes(path, 8)
    if start.startswith(_OLD_OFFICE):
        return path.suffix.lower() not in _OTHERS
    if not start.startswith(_ZIP):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            if names & {"xl/workbook.xml", "xl/workbook.bin"}:
                return True
            return {"mimetype", "content.xml"} <= names and archive.read("mimetype").startswith(_SPREADSHEET)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError):
        return False  # reported when it is read


def to_csv(path: Path, folder: Path, limit: int) -> tuple[Path, list[str]]:
    """Write the sheet of a workbook that has content as a CSV file, and return its path, and notes on what is hidden.

    Whole numbers are written without decimals, dates as ISO 8601. Hidden sheets are not read; hidden rows and columns are.

    Args:
        path: of the workbook.
        folder: for the CSV file.
        limit: maximum size of the workbook in bytes, decompressed.

    Raises:
        FileError: if it is damaged, protected by a password, too large, or has no sheet or several sheets with content.
    """
    import python_calamine as calamine  # here: most files are no workbooks

    size = path.stat().st_size
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
    allowance = Allowance(limit, _FACTOR)
    if size > allowance.most:
        raise allowance.error(path.name)
    try:
        with calamine.CalamineWorkbook.from_path(str(path)) as book:
            visible = [
                sheet.name for sheet in book.sheets_metadata if sheet.visible == calamine.SheetVisibleEnum.Visible
            ]
            others = [sheet.name for sheet in book.sheets_metadata if sheet.name not in visible]
            read = {name: book.get_sheet_by_name(name) for name in visible}
            rows = {name: list(sheet.to_python(skip_empty_area=True)) for name, sheet in read.items()}
            areas = {name: (sheet.start or (0, 0), sheet.end or (-1, -1)) for name, sheet in read.items()}
    except calamine.PasswordError:
        raise FileError(f"{path.name} is a workbook that is protected by a password; {_SAVE}") from None
    except (calamine.CalamineError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:100]
        raise FileError(f"{path.name} is a workbook that cannot be read ({reason}); {_SAVE}") from None
    sheets = {
        name: content for name, content in rows.items() if any(any(cell != "" for cell in row) for row in content)
    }
    if not sheets:
        raise FileError(f"{path.name} is a workbook without a visible sheet with content; {_SAVE}")
    if len(sheets) > 1:
        raise FileError(
            f"{path.name} is a workbook with {len(sheets)} sheets with content, {listed(sheets, 4)}; {_SAVE}, or hide or delete "
            f"the others"
        )
    out = folder / path.name
    with out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([_text(cell) for cell in row] for row in next(iter(sheets.values())))
    notes = [f"{path.name}: hidden sheets are left out: {listed(others, 4)}"] if others else []
    name = next(iter(sheets))
    return out, notes + _notes_on_hidden(path, name, *areas[name])


def _notes_on_hidden(path: Path, name: str, start: tuple[int, int], end: tuple[int, int]) -> list[str]:
    """Return a note on rows and columns of a sheet of Excel that are hidden, as by a filter, and read all the same.

    Args:
        path: of the workbook; others than those of Excel's newer format have no note.
        name: of the sheet.
        start: first row and first column that are used, from 0.
        end: last row and last column that are used, from 0; what is hidden beyond is empty.
    """
    xml = _sheet(path, name)
    rows = columns = number = 0
    for tag in _ROW.findall(xml):
        row = dict(_ATTRIBUTE.findall(tag))
        number = _whole(row.get(b"r"), number + 1)
        rows += row.get(b"hidden") in _TRUE and start[0] < number <= end[0] + 1
    for tag in _COLUMN.findall(xml):
        column = dict(_ATTRIBUTE.findall(tag))
        if column.get(b"hidden") in _TRUE:
            first = _whole(column.get(b"min"), 1)
            last = _whole(column.get(b"max"), first)
            columns += max(0, min(last, end[1] + 1) - max(first, start[1] + 1) + 1)
    counts = ((rows, "row"), (columns, "column"))
    hidden = " and ".join(f"{count:,} {what}{'s' if count > 1 else ''}" for count, what in counts if count)
    if not hidden:
        return []
    by = ", as by a filter," if b"<filterColumn" in xml else ""
    which = "is" if rows + columns == 1 else "are"
    return [
        f"{path.name}: {hidden} of the sheet {name!r} {which} hidden{by} and read; if not to count, delete what is hidden"
    ]


def _sheet(path: Path, name: str) -> bytes:
    """Return the XML of a sheet of Excel; nothing where it is not known."""
    try:
        with zipfile.ZipFile(path) as archive:
            book, links = (archive.read(f"xl/{part}") for part in ("workbook.xml", "_rels/workbook.xml.rels"))
            entries = [dict(_ATTRIBUTE.findall(entry)) for entry in _ENTRY.findall(book)]
            key = next(one[b"r:id"] for one in entries if html.unescape(one[b"name"].decode()) == name)
            targets = (dict(_ATTRIBUTE.findall(link)) for link in _LINK.findall(links))
            target = next(one[b"Target"].decode() for one in targets if one[b"Id"] == key)
            return archive.read(target.removeprefix("/") if target.startswith("/") else f"xl/{target}")
    except (zipfile.BadZipFile, OSError, ValueError, KeyError, StopIteration, NotImplementedError, RuntimeError):
        return b""  # another format, or names that programs write otherwise: the cells were read


def _whole(text: bytes | None, default: int) -> int:
    """Return the number of a row or a column in an attribute; of another text the default."""
    return int(text) if text is not None and len(text) <= _DIGITS and text.isdigit() else default


def _text(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    if isinstance(cell, datetime.datetime) and cell.time() == datetime.time():
        return cell.date().isoformat()
    return cell.isoformat() if hasattr(cell, "isoformat") else str(cell)
