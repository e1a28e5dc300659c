"""JSON that is not what it seems: pages of several, repeated keys, and files that have something before or behind the JSON."""

import json
from contextlib import nullcontext

import pandas as pd
import pytest

import crowdppl
from crowdppl.errors import CrowdpplError, silent

ROWS = [{"task": t, "worker": w, "label": x} for t, w, x in zip("aabb", "uvuv", "xyyy", strict=True)]
TEXT = json.dumps(ROWS)


@pytest.fixture
def read(tmp_path):
    def reading(text, name="x.json", **options):
        (tmp_path / name).write_text(text if isinstance(text, str) else json.dumps(text))
        with silent(name):
            return crowdppl.read(tmp_path / name, **options)

    return reading


@pytest.mark.parametrize(
    ("text", "name", "part"),
    [
        ("// exported\n" + "\n".join(map(json.dumps, ROWS)), "x.jsonl", "begins with '// exported'"),
        (f"callback({TEXT});", "x.json", "begins with 'callback("),
        (f"var rows = {TEXT};", "x.txt", "begins with 'var rows = "),
        (f")]}}'\n{TEXT}", "x.json", 'begins with ")]}\'"'),
        (json.dumps(TEXT), "x.json", "begins with"),
        ("".join(map(json.dumps, ROWS)), "x.json", "each record in a line of its own"),
        ("\n".join(json.dumps(row) + "," for row in ROWS), "x.jsonl", "without commas between them"),
        ("[]", "x.json", "contains no record"),
        ("{}", "x.json", "contains no record"),
    ],
)
def test_files_that_are_not_json(text, name, part, read):
    with pytest.raises(CrowdpplError) as error:
        read(text, name)
    assert part in str(error.value)
    assert "\n" not in str(error.value)


def test_tables_may_contain_json(read):
    assert read('task,worker,label\n1,u,"[""x""]"\n1,v,y\n', "x.csv").A == 2
    assert read('worker,task,label\nf(x),1,a\nu,1,"{""q"": ""b""}"\n', "x.csv").A == 2


@pytest.mark.parametrize(("first", "separator"), [("", "\t"), ("", ";"), ("sep=;\n", ";")])
@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.txt", "x.json"])
def test_the_first_column_of_a_table_may_be_json(first, name, separator, read):
    rows = (("task", "worker", "label"), ('{"q": "b"}', "u", "x"), ('{"q": "b"}', "v", "y"))
    assert read(first + "".join(separator.join(row) + "\n" for row in rows), name).A == 2


@pytest.mark.parametrize("header", ["rating([1-5])", "score = [0-1]"])
@pytest.mark.parametrize("name", ["x.csv", "x.txt", "x.json"])
def test_headers_that_resemble_calls_and_assignments(header, name, read):
    assert read(f"{header},item,worker,label\n3,1,u,a\n2,1,v,b\n", name).A == 2


def test_a_table_named_json_with_json_cells(read):
    assert read('task,worker,label,more\n1,u,x,"{""q"": 1, ""r"": 2}"\n1,v,y\n').A == 2


@pytest.mark.parametrize("opening", ["callback([\n", "var rows = [\n"])
def test_calls_over_several_lines(opening, read):
    with pytest.raises(CrowdpplError, match="is not JSON: it begins with"):
        read(opening + ",\n".join(map(json.dumps, ROWS)) + "\n]", "x.js.txt")


@pytest.mark.parametrize(
    "text",
    [
        '{"t1": {"w1": 0, "w1": 1}, "t2": {"w1": 1, "w2": 1}, "t3": {"w2": 0}}',
        "[" + '{"task": "a", "worker": "u", "label": "x", "label": "y"}, ' + TEXT[1:],
    ],
)
def test_a_key_that_stands_twice_is_noted(text, read):
    assert any("has a key twice" in note for note in read(text).notes)


@pytest.mark.parametrize(
    ("around", "part"),
    [
        ({"count": 600}, "4 of 600 records"),
        ({"next": "https://x/?page=2"}, "one page"),
        ({"next": None, "count": 4}, None),
    ],
)
def test_one_page_of_several_is_noted(around, part, read):
    notes = read({**around, "results": ROWS}).notes
    assert any(part in note for note in notes) if part else not notes


def test_values_of_mongodb(read):
    rows = [row | {"_id": {"$oid": "0" * 24}, "task": {"$numberInt": str(n // 2)}} for n, row in enumerate(ROWS)]
    assert read(rows).items.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (['"[\\"x\\"]"', '"[\\"y\\"]"'], ["x", "y"]),
        (['{"x": "on"}', '{"y": "on"}'], ["x", "y"]),
        (['c("x")', 'c("y")'], ["x", "y"]),
        (['{"light": "on"}', '{"light": "off"}'], ["off", "on"]),
        (["c(x)", "c(y)"], ["c(x)", "c(y)"]),
    ],
)
def test_labels_in_json_and_in_r(labels, classes, read):
    assert read([row | {"label": labels[n % 2]} for n, row in enumerate(ROWS)]).labels.tolist() == classes


@pytest.mark.parametrize(
    ("label", "part"),
    [('["x", "y"', "it was cut off"), ('{"x": true', "it was cut off"), ('c("x", "y")', "2 labels in one")],
)
def test_cells_that_are_refused(label, part, read):
    whole = {"task": "c", "worker": "v", "label": '["x"]'}
    with pytest.raises(CrowdpplError, match=part):
        read([*ROWS, whole, {"task": "c", "worker": "u", "label": label}])


@pytest.mark.parametrize("label", ['["x", "y"', '{"x": true'])
def test_the_beginning_of_a_list_beside_plain_labels_is_noted(label, read):
    data = read([*ROWS, {"task": "c", "worker": "u", "label": label}])
    assert label in data.labels
    assert any("begins as a list" in note for note in data.notes)


def test_labels_joined_by_words_are_noted(read):
    labels = ["x and y", "y and x", "x", "y"]
    data = read([row | {"label": label} for row, label in zip(ROWS, labels, strict=True)])
    assert any("for 'and'" in note for note in data.notes)


@pytest.mark.parametrize("column", ["timestamp", "seconds", "status", "gold", "comment", "question", "worker"])
def test_half_a_character(column, tmp_path):
    """Broken JSON has unpaired surrogates, which no string type of pandas holds: one line where they matter, else nothing."""
    rows = [{"task": f"t{i // 3}", column: "3", "worker": f"w{i % 3}", "label": "ab"[i % 2]} for i in range(12)]
    rows[4][column] = "\ud800"
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
    named = {column: column} if column in ("timestamp", "seconds") else {}
    for table in (crowdppl.read, crowdppl.Annotations.from_frame):
        given = tmp_path / "x.jsonl" if table is crowdppl.read else pd.DataFrame(rows, dtype=object)
        matters = column == "worker" or (named and table is not crowdppl.read)
        with silent(), pytest.raises(crowdppl.DataError, match=r"^[^\n]*row 5[^\n]*$") if matters else nullcontext():
            assert table(given, **(named if table is not crowdppl.read else {})).A == 12
    (tmp_path / "y.jsonl").write_text(json.dumps(rows[0] | {"task": "another"}))
    with (
        silent(),
        pytest.raises(crowdppl.DataError, match=r"^[^\n]*row 5[^\n]*$") if column == "worker" else nullcontext(),
    ):
        assert crowdppl.read(tmp_path).A == 13  # a folder, whose files are compared
