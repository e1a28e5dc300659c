"""Files that are neither tables nor JSON, recognised by their content: what they are, and what to do instead."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

_TABLE = "write a table with the columns task, worker and label, a row for each label that somebody gave to an image"
BOXES = f"which are no labels of whole items and name no workers: {_TABLE}"
BOXES_OF_WORKERS = f"which are no labels of whole items, though they name workers: {_TABLE}"
_EXPORT = "export the annotations as CSV or JSON"
_SHEET = "save the sheet with the annotations as CSV (UTF-8)"
_DATA_FRAME = "read it with the program that wrote it, and write the table as CSV or Parquet"
# The first bytes of a file, where they stand, and what it is.
_SIGNATURES: tuple[tuple[bytes, int, str], ...] = (
    (b"%PDF", 0, f"a PDF document; {_EXPORT}"),
    (b"{\\rtf", 0, f"a document (RTF); {_EXPORT}"),
    (b"\x89PNG", 0, "an image (PNG)"),
    (b"\xff\xd8\xff", 0, "an image (JPEG)"),
    (b"GIF8", 0, "an image (GIF)"),
    (b"II*\0", 0, "an image (TIFF)"),
    (b"MM\0*", 0, "an image (TIFF)"),
    (b"WEBP", 8, "an image (WebP)"),
    (b"WAVE", 8, "a recording (WAV)"),
    (b"ID3", 0, "a recording (MP3)"),
    (b"OggS", 0, "a recording (Ogg)"),
    (b"fLaC", 0, "a recording (FLAC)"),
    (b"ftyp", 4, "a video or an image (MP4, HEIC)"),
    (b"\x1aE\xdf\xa3", 0, "a video (Matroska, WebM)"),
    (b"SQLite format 3\0", 0, "a database (SQLite); write its table of annotations as CSV"),
    (b"FEA1", 0, f"a table of Feather; {_DATA_FRAME}"),
    (b"ARROW1", 0, f"a table of Arrow (IPC or Feather); {_DATA_FRAME}"),
    (b"\xff\xff\xff\xff", 0, f"a stream of Arrow; {_DATA_FRAME}"),
    (b"ORC", 0, f"a table of ORC; {_DATA_FRAME}"),
    (b"Obj\x01", 0, f"a table of Avro; {_DATA_FRAME}"),
    (b"\x93NUMPY", 0, f"an array of NumPy; {_DATA_FRAME}"),
    (b"\x89HDF\r\n", 0, "a file of HDF5 or NetCDF, not a table; results of a fit are read with crowdppl.load"),
    (b"CDF\x01", 0, "a file of NetCDF, not a table"),
    (b"CDF\x02", 0, "a file of NetCDF, not a table"),
    (b"RDX", 0, "a file of R; write the table with write.csv"),
    (b"RDA", 0, "a file of R; write the table with write.csv"),
    (b"X\n\0\0\0", 0, "a file of R; write the table with write.csv"),
    (b"$FL2", 0, f"a table of SPSS; {_DATA_FRAME}"),
    (b"$FL3", 0, f"a table of SPSS; {_DATA_FRAME}"),
    (b"<stata_dta>", 0, f"a table of Stata; {_DATA_FRAME}"),
    (b"SAS FILE", 84, f"a table of SAS; {_DATA_FRAME}"),
    (b"MATLAB 5.0", 0, f"a file of MATLAB; {_DATA_FRAME}"),
    (b"7z\xbc\xaf\x27\x1c", 0, "an archive (7z); unpack it and name the file in it"),
    (b"Rar!", 0, "an archive (RAR); unpack it and name the file in it"),
    (b"ustar", 257, "an archive (tar); unpack it and name the file in it"),
    (b"\x28\xb5\x2f\xfd", 0, "compressed with Zstandard; decompress it with zstd -d"),
    (b"\x04\x22\x4d\x18", 0, "compressed with LZ4; decompress it with lz4 -d"),
    (b"\x7fELF", 0, "a program"),
    (b"MZ\x90\0", 0, "a program"),
)
# Pickles of protocols 2 to 5; they are never opened, since they can run any code.
_PICKLE = re.compile(rb"\x80[\x02-\x05](\x95|[(})\]cXK}q])")
# Stata's tables before version 13: the version, the order of bytes, and two bytes.
_STATA = re.compile(rb"[\x69\x6c\x6e-\x73][\x01\x02]\x01\x00")
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# By a file inside an archive: what the archive is.
_ARCHIVES: tuple[tuple[str, str], ...] = (
    (r"xl/workbook\.(xml|bin)", f"a workbook (Excel); {_SHEET}"),
    (r"content\.xml", f"a workbook or a document (OpenDocument); {_SHEET}"),
    (r"word/document\.xml", f"a document (Word); {_EXPORT}"),
    (r"ppt/presentation\.xml", f"a presentation (PowerPoint); {_EXPORT}"),
    (r"Index/(Document|Metadata)\.iwa", "a document of Apple's iWork (Numbers); export it as CSV"),
    (r".*\.npy", f"arrays of NumPy (npz); {_DATA_FRAME}"),
    (r"(.*/)?data\.pkl", f"a file of PyTorch; {_DATA_FRAME}"),
    (r"META-INF/MANIFEST\.MF", "a program (Java)"),
)
# Endings of old documents of Office that are no workbooks.
_NO_SHEETS = (".doc", ".ppt", ".msg")

# By the beginning of an XML document: what it is, and what to export instead.
_XML: tuple[tuple[str, str], ...] = (
    (
        r"<annotations>.*<(meta|image|track|version)\b",
        "of CVAT; XML is not read: write a table with the columns task, worker and label from the tags of each annotator's job",
    ),
    (r"<annotation_document\b", "of ELAN; XML is not read: in ELAN use File, Export As, Tab-delimited Text"),
    (r"<annotation\b.*<(object|bndbox|filename)\b", "of Pascal VOC with boxes, " + BOXES),
    (r"<gatedocument\b", "of GATE; XML is not read: export the annotations as CSV"),
    (r"<tei\b", "of TEI; XML is not read: export the annotations as CSV"),
    (r"<(kml|svg|plist|rss|feed|xs:schema|project)\b", "and no table of annotations; " + _EXPORT),
    (r"<workbook\b", "of a spreadsheet (XML Spreadsheet 2003); save it as .xlsx or CSV"),
    (r"<error>.*<(code|message)>", "with a message of a server, not data: the download was refused; download it again"),
)


# By the beginning of a text: what it is, and what to do instead.
_TEXTS: tuple[tuple[bytes, str], ...] = (
    (
        b"#FORMAT=WebAnno TSV",
        "a document of INCEpTION or WebAnno, the annotations of one person, and not read: write a table with the columns "
        "task, worker and label from the documents of all annotators",
    ),
    (
        b"version https://git-lfs.github.com/spec",
        "a pointer of Git LFS, not the file that it stands for: fetch it with git lfs pull",
    ),
    (b"-----BEGIN PGP MESSAGE-----", "encrypted (PGP): decrypt it with gpg --decrypt"),
    (b"age-encryption.org/v1", "encrypted (age): decrypt it with age --decrypt"),
    (
        b"/annex/objects/",
        "a pointer of git-annex, not the file that it stands for: fetch it with git annex get",
    ),
    (b"outs:\n- ", "a pointer of DVC, not the file that it stands for: fetch it with dvc pull"),
    (b"[InternetShortcut]", "a link, not data: download what it leads to, as CSV"),
    (b"data:text/csv", "an address with the data in it (data:): save the data as CSV"),
    (b"TY  - ", f"a list of references (RIS), not a table; {_EXPORT}"),
    (b"@article{", f"a list of references (BibTeX), not a table; {_EXPORT}"),
    (b"@relation ", f"a table of Weka (ARFF), which is not read; {_EXPORT}"),
    (b"@RELATION ", f"a table of Weka (ARFF), which is not read; {_EXPORT}"),
    (b"INSERT INTO ", "SQL, not a table; write the table of annotations as CSV"),
    (b"CREATE TABLE ", "SQL, not a table; write the table of annotations as CSV"),
    (b"-- MySQL dump", "SQL, not a table; write the table of annotations as CSV"),
    (b"-- PostgreSQL database dump", "SQL, not a table; write the table of annotations as CSV"),
    (b"%YAML", f"YAML, which is not read; {_EXPORT}"),
    (b"---\n", f"YAML or text with such a header, which is not read; {_EXPORT}"),
    (b"- task:", f"YAML, which is not read; {_EXPORT}"),
    (b"- id:", f"YAML, which is not read; {_EXPORT}"),
)


# By all of its first lines: what a text without a header is. Centres and sizes of YOLO are shares of an image. Without decimals
# the numbers of a line may be labels of as many people.
_DECIMAL = rb"-?\d+(?:\.\d+)?(?:e-?\d+)?"
_FIRST_LINES = 3
_CORNERS = re.compile(rb"[^,]+\.(?:jpe?g|png|bmp|tiff?),(\d+),(\d+),(\d+),(\d+),[^,]+")
_LINES: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb"(?=.*\.\d)\d+(?: (?:0?\.\d+|[01](?:\.0+)?)){4,}"), "boxes of YOLO"),
    (re.compile(rb"(?=.*\.\d)[A-Za-z_]+(?: %b){14,15}" % _DECIMAL), "boxes of KITTI"),
    (re.compile(rb"(?=.*\.\d)\d+,-?\d+(?:,%b){4,6}(?:,-1){2,4}" % _DECIMAL), "boxes of the MOT challenge"),
    (_CORNERS, "boxes (file, corners and class)"),
)
# A corner of a box is at so many pixels at least; smaller numbers may be grades.
_PIXELS = 20


# A single address, a conflict that Git marked, and a difference of two files.
_LINK = re.compile(rb"https?://\S+\s*")
_CONFLICT = (b"\n<<<<<<< ", b"\n=======\n", b"\n>>>>>>> ")
# The beginning of what OpenSSL encrypts, and bytes of no text.
_SALTED, _NO_TEXT = b"Salted__", re.compile(rb"[\x00-\x08\x0e-\x1f]")
_DIFFERENCE = re.compile(rb"(diff --git [^\n]*\n(?:[^\n]*\n){1,4}?)?--- [^\n]*\n\+\+\+ [^\n]*\n@@ ")


def other_kind(start: bytes, path: Path) -> str | None:
    """Return what a file is and what to do instead, ``None`` if it may be a table or JSON.

    Args:
        start: its first bytes, decompressed or as they are on disk.
        path: the file, opened where it is an archive.
    """
    for signature, offset, kind in _SIGNATURES:
        # A signature of letters may begin a text; the files that it stands for contain zero bytes.
        if start.startswith(signature, offset) and (b"\0" in start or not signature.isalnum()):
            return kind if ";" in kind else f"{kind}, not a table; {_EXPORT}"
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip().replace(b"\r\n", b"\n")
    named = next((kind for beginning, kind in _TEXTS if text.startswith(beginning)), None)
    if named is not None:
        return named
    if _LINK.fullmatch(text):
        return "a link, not data: download what it leads to, as CSV"
    if text.startswith(_SALTED) and not _is_text(text):
        return "encrypted (OpenSSL): decrypt it with openssl enc -d"
    if _in_conflict(b"\n" + text):
        return "in conflict: it has marks of Git (<<<<<<<) and two versions of some rows; resolve the conflict first"
    if _DIFFERENCE.match(text):
        return "the difference of two files, not a table; apply it with git apply or patch, and read the file"
    if boxes := _boxes(text):
        return f"a text with {boxes}, {BOXES}"
    if _PICKLE.match(start):
        return f"a pickle of Python, which can run any code and is never opened; {_DATA_FRAME}"
    if _STATA.match(start):
        return f"a table of Stata; {_DATA_FRAME}"
    if start.startswith(_OLD_OFFICE):
        return (
            f"a document of Office; {_SHEET}" if path.suffix.lower() in _NO_SHEETS else f"a workbook (Excel); {_SHEET}"
        )
    if start.startswith(b"PK\x03\x04"):
        names = _members(path)
        return next((kind for pattern, kind in _ARCHIVES if any(re.fullmatch(pattern, name) for name in names)), None)
    return _markup(start)


def _boxes(text: bytes) -> str | None:
    """Return whose boxes a text holds, by its first lines; the last one may be cut off."""
    lines = text.split(b"\n")
    whole = [line.strip() for line in lines[:-1] or lines]
    kind = next((kind for pattern, kind in _LINES if all(map(pattern.fullmatch, whole[:_FIRST_LINES]))), None)
    corners = [tuple(map(int, match.groups())) for line in whole if (match := _CORNERS.fullmatch(line))]
    if any(x1 >= x2 or y1 >= y2 or max(x2, y2) < _PIXELS for x1, y1, x2, y2 in corners):
        return None
    return kind


def _in_conflict(text: bytes) -> bool:
    """Return whether a text has the three marks of a conflict at the beginning of lines, in their order."""
    at = 0
    for mark in _CONFLICT:
        at = text.find(mark, at)
        if at < 0:
            return False
        at += len(mark) - 1  # the end of a line is the beginning of the next
    return True


def _is_text(start: bytes) -> bool:
    """Return whether bytes are UTF-8, the last letter perhaps cut off, without signs of control."""
    try:
        start[:-4].decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start > len(start) - 8
    return _NO_TEXT.search(start) is None


def _members(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return []  # reported when it is read


def _markup(start: bytes) -> str | None:
    """Return what a web page or an XML document is."""
    text = (
        start[:4096].decode("utf-8-sig", errors="replace").replace("\0", "").lstrip("\ufeff\ufffe\ufffd \t\r\n").lower()
    )
    if text.startswith(("<!doctype html", "<html")) or (text.startswith("<?xml") and "<html" in text):
        if re.search(r"<t[dh]\b", text) and not re.search(r"<(form|input)\b", text):
            return "a web page with a table, as some programs write under .xls: open it with a spreadsheet and save it as CSV"
        return "a web page, not data: it was downloaded without signing in, or from the wrong address"
    if not re.match(r"<(\?xml|!doctype|!--|[a-z][\w:.-]*[\s>/])", text):
        return None
    kind = next((kind for pattern, kind in _XML if re.search(pattern, text, flags=re.DOTALL)), None)
    return f"XML {kind}" if kind else f"XML, which is not read; {_EXPORT}"
