"""Workbooks: the sheet with content is read as a table, and others are refused in one line."""

import time
import zipfile
from xml.sax.saxutils import escape

import pandas as pd
import pytest
from commands import run

import crowdppl
from crowdppl.data.readers import workbooks
from crowdppl.errors import CrowdpplWarning, FileError

HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
ROWS = [
    ["task", "worker", "label", "seconds"],
    *([1, "ann", "cat", 1.5], [1, "bob", "dog", 2], [2, "ann", "cat", 3], [2, "bob", "cat", 4]),
]


def xlsx(path, sheets, hidden=()):
    """Write a workbook with the least that Excel writes: numbers, and texts inside the cells."""

    def cell(value):
        if isinstance(value, (int, float)):
            return f"<c><v>{value}</v></c>"
        return f'<c t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>' if value else "<c/>"

    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        types = "".join(
            f'<Override PartName="/xl/worksheets/sheet{n}.xml" '
            f'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>'
            for n in range(1, len(sheets) + 1)
        )
        archive.writestr(
            "[Content_Types].xml",
            f'{HEAD}<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
            '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            '<Override PartName="/xl/workbook.xml" '
            f'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>{types}</Types>',
        )
        archive.writestr(
            "_rels/.rels",
            f'{HEAD}<Relationships xmlns="{RELATIONS}"><Relationship Id="r" Type="{OFFICE}/officeDocument" '
            'Target="xl/workbook.xml"/></Relationships>',
        )
        entries, links = "", ""
        for n, (name, rows) in enumerate(sheets.items(), 1):
            state = ' state="hidden"' if name in hidden else ""
            entries += f'<sheet name="{name}" sheetId="{n}"{state} r:id="s{n}"/>'
            links += f'<Relationship Id="s{n}" Type="{OFFICE}/worksheet" Target="worksheets/sheet{n}.xml"/>'
            body = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
            archive.writestr(
                f"xl/worksheets/sheet{n}.xml",
                f'{HEAD}<worksheet xmlns="{MAIN}"><sheetData>{body}</sheetData></worksheet>',
            )
        archive.writestr(
            "xl/workbook.xml",
            f'{HEAD}<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets>{entries}</sheets></workbook>',
        )
        archive.writestr(
            "xl/_rels/workbook.xml.rels", f'{HEAD}<Relationships xmlns="{RELATIONS}">{links}</Relationships>'
        )
    return path


@pytest.mark.parametrize(
    ("sheets", "hidden"),
    [
        ({"labels": ROWS}, ()),
        ({"labels": ROWS, "empty": []}, ()),
        ({"notes": [["do not read"]], "labels": ROWS}, ("notes",)),
    ],
)
def test_the_sheet_with_content_is_read(sheets, hidden, tmp_path):
    data = crowdppl.read(xlsx(tmp_path / "labels.xlsx", sheets, hidden), seconds="seconds")
    assert data.items.tolist() == [1, 2]
    assert data.workers.tolist() == ["ann", "bob"]
    assert data.labels.tolist() == ["cat", "dog"]
    assert data.seconds.tolist() == [1.5, 2, 3, 4]


def test_names_are_kept_as_written(tmp_path):
    rows = [["task", "worker", "label"], ["007", "a,b", "x\ny"], ["7", 'say "a"', "z"]]
    with pytest.warns(CrowdpplWarning, match="'7' and '007'"):
        data = crowdppl.read(xlsx(tmp_path / "x.xlsx", {"s": rows}))
    assert data.items.tolist() == ["007", "7"]
    assert data.workers.tolist() == ["a,b", 'say "a"']
    assert data.labels.tolist() == ["x\ny", "z"]


def test_a_workbook_by_any_name_and_in_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    xlsx(tmp_path / "labels.csv", {"s": ROWS})
    xlsx(tmp_path / "gold.xlsx", {"s": [["task", "label"], [1, "cat"]]})
    run("fit", "labels.csv", "--truth-file", "gold.xlsx", "--model", "majority-vote", "--out", "r")
    assert pd.read_csv("r/truth.csv")["task"].tolist() == [1, 2]
    assert (crowdppl.load("r/posterior.nc").known_truth() >= 0).sum() == 1
    assert "2 verdicts" not in run("agreement", "labels.csv").output


def test_a_workbook_of_verdicts(tmp_path):
    rows = [["item", "judge", "verdict"], *([i, j, "pass" if i % 2 else "fail"] for i in range(6) for j in ("a", "b"))]
    verdicts = crowdppl.judges.read(xlsx(tmp_path / "v.xlsx", {"s": rows}))
    assert len(verdicts) == 12


@pytest.mark.parametrize(
    ("sheets", "message"),
    [
        ({"a": ROWS, "b": ROWS}, "2 sheets with content, 'a', 'b'; save the sheet"),
        ({"a": []}, "without a visible sheet with content"),
        ({"a": [["", ""], ["", ""]]}, "without a visible sheet with content"),
    ],
)
def test_workbooks_that_are_not_clear(sheets, message, tmp_path):
    with pytest.raises(FileError, match=message):
        crowdppl.read(xlsx(tmp_path / "x.xlsx", sheets))


def test_damaged_and_large_workbooks(tmp_path):
    whole = xlsx(tmp_path / "x.xlsx", {"a": ROWS})
    with pytest.raises(FileError, match=r"has more than 1,000 bytes once decompressed; raise limit="):
        crowdppl.read(whole, limit=1000)
    content = whole.read_bytes()
    # The middle of a member is overwritten: the archive is read, its content is not.
    (tmp_path / "damaged.xlsx").write_bytes(content[:200] + b"\0" * 300 + content[500:])
    with pytest.raises(FileError, match=r"^damaged\.xlsx"):
        crowdppl.read(tmp_path / "damaged.xlsx")


ROW, FILTER = "<row>", '<autoFilter ref="A1"><filterColumn colId="1"/></autoFilter>'
TEXT = '<c t="inlineStr"><is><t>cat</t></is></c>'


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (ROW, '<row hidden="1">', "5 rows of the sheet 'labels' are hidden and read"),
        (
            "</sheetData>",
            f'<row r="6" hidden="1"><c><v>2</v></c>{TEXT}{TEXT}<c><v>5</v></c></row></sheetData>{FILTER}',
            "1 row of the sheet 'labels' is hidden, as by a filter,",
        ),
        ("</sheetData>", '<row r="9" hidden="1"/></sheetData>', ""),
        (
            "<sheetData>",
            '<cols><col min="2" max="3" hidden="1"/></cols><sheetData>',
            "2 columns of the sheet 'labels' are",
        ),
        ("<sheetData>", '<cols><col min="5" max="16384" hidden="1"/></cols><sheetData>', ""),
        (
            "<sheetData>",
            '<cols><col min="4" max="16384" hidden="true"/></cols><sheetData>',
            "1 column of the sheet 'labels' is hidden and",
        ),
        (ROW, '<row hidden="0">', ""),
    ],
)
def test_hidden_rows_and_columns_are_read_with_a_note(old, new, sentence, tmp_path):
    whole = xlsx(tmp_path / "x.xlsx", {"notes": [["no"]], "labels": ROWS}, hidden=("notes",))
    with zipfile.ZipFile(whole) as before, zipfile.ZipFile(tmp_path / "y.xlsx", "w") as after:
        for name in before.namelist():
            text = before.read(name).decode()
            after.writestr(name, text.replace(old, new) if name.endswith("sheet2.xml") else text)
    data = crowdppl.read(tmp_path / "y.xlsx")
    assert data.N == 2
    assert any("hidden sheets are left out: 'notes'" in note for note in data.notes)
    noted = [note for note in data.notes if "of the sheet" in note]
    assert len(noted) == bool(sentence)
    assert all(sentence in note for note in noted)


@pytest.mark.parametrize("name", ["&#233;t&#xE9;", "a &amp; &quot;b&quot;", "&apos;&lt;"])
def test_a_sheet_with_a_name_in_entities_has_its_note(name, tmp_path):
    whole = xlsx(tmp_path / "x.xlsx", {name: ROWS})
    with zipfile.ZipFile(whole) as before, zipfile.ZipFile(tmp_path / "y.xlsx", "w") as after:
        for part in before.namelist():
            text = before.read(part).decode()
            after.writestr(part, text.replace(ROW, '<row hidden="1">') if part.endswith("sheet1.xml") else text)
    assert any("5 rows of the sheet" in note for note in crowdppl.read(tmp_path / "y.xlsx").notes)


@pytest.mark.parametrize("part", [b"<row ", b'<col hidden="1" a="1" ', b"<sheet ", b"a:", b'a="'])
def test_tags_are_looked_at_once(part):
    start = time.process_time()
    for tag in (workbooks._ROW, workbooks._COLUMN, workbooks._ENTRY, workbooks._LINK, workbooks._ATTRIBUTE):
        assert len(tag.findall(part * 20_000)) in (0, 10_000, 20_000, 40_000)
    assert time.process_time() - start < 2
