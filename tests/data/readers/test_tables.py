"""Tables on disk: what is read as what, and files that are missing, damaged or something else."""

import bz2
import gzip
import io
import zipfile
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.data.readers.opening import likely_separator
from crowdppl.data.readers.source import read_table
from crowdppl.data.readers.tables import read_csv, read_parquet, whole_numbers
from crowdppl.errors import CrowdpplError, CrowdpplWarning, DataError, FileError

HEAD = "task,worker,label\n"
BODY = "1,u,a\n1,v,b\n2,u,a\n"


@pytest.fixture
def write(tmp_path):
    """Return a writer of text or bytes to a file in an empty folder."""

    def put(content, name="x.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return put


def refused(make, kind, *parts):
    with pytest.raises(CrowdpplError) as caught:
        make()
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    for part in parts:
        assert part in str(caught.value), f"{part!r} not in {caught.value!s}"


# ---------------------------------------------------------------------- what a column becomes

COLUMNS = {
    "integers": (["1", "20", "-3", "0"], [1, 20, -3, 0]),
    "leading zeros": (["007", "7"], ["007", "7"]),
    "zeros": (["00", "1"], ["00", "1"]),
    "minus zero": (["-0", "1"], ["-0", "1"]),
    "plus": (["+1", "1"], ["+1", "1"]),
    "decimals": (["1.0", "2"], ["1.0", "2"]),
    "exponent": (["1e3", "2"], ["1e3", "2"]),
    "underscore": (["1_000", "2"], ["1_000", "2"]),
    "other digits": (["١", "2"], ["١", "2"]),
    "spaces": ([" 1", "2"], [" 1", "2"]),
    "one word": (["1", "x"], ["1", "x"]),
    "looks missing": (["NA", "None", "null", "N/A"], ["NA", "None", "null", "N/A"]),
    "truth values": (["True", "False"], ["True", "False"]),
    "blank": (["1", "", "3"], [1, None, 3]),
    "nan": (["a", "nan", "NaN"], ["a", None, None]),
    "int64": ([str(2**63 - 1), str(-(2**63))], [2**63 - 1, -(2**63)]),
    "uint64": ([str(2**63), "0", str(2**64 - 1)], [2**63, 0, 2**64 - 1]),
    "uint64 with a blank": ([str(2**63), "", "1"], [2**63, None, 1]),
    "too wide together": ([str(2**63), "-1"], [str(2**63), "-1"]),
    "too long": ([str(2**64), "1"], [str(2**64), "1"]),
    "scripts": (["مرحبا", "😀", "a,b", 'say "x"', "two\nlines"], ["مرحبا", "😀", "a,b", 'say "x"', "two\nlines"]),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_columns_are_read_as_written(case, tmp_path):
    written, expected = COLUMNS[case]
    # Beside a full column, for a line with one blank cell alone would be a blank line.
    pd.DataFrame({"x": written, "y": "z"}).to_csv(tmp_path / "x.csv", index=False)
    column = read_csv(tmp_path / "x.csv")["x"]
    assert [None if pd.isna(v) else v for v in column.tolist()] == expected
    again = whole_numbers(pd.Series([v or None for v in written], dtype=object, name="x"))
    assert again.name == "x"


def test_only_blank_cells(write):
    frame = read_csv(write("task,worker,label\n1,,a\n2,,b\n"))
    assert frame["worker"].isna().all()
    refused(
        lambda: Annotations.from_csv(write("task,worker,label\n1,,a\n2,u,b\n")),
        DataError,
        "x.csv, column 'worker', row 1",
    )


def test_sevens_stay_apart_and_na_is_a_class(write):
    with pytest.warns(CrowdpplWarning, match=r"'7' and '007'. Each is treated as a different worker"):
        data = Annotations.from_csv(write(HEAD + "1,007,NA\n1,7,None\n2,007,NA\n"))
    assert any("'NA' (2), 'None' (1) taken for a class" in note for note in data.notes)
    assert data.workers.tolist() == ["007", "7"]
    assert data.labels.tolist() == ["NA", "None"]
    assert data.items.tolist() == [1, 2]
    assert data.items.dtype == np.int64


def test_large_numbers_in_csv(write):
    data = Annotations.from_csv(write(HEAD + f"{2**63},u,0\n{2**63 + 1},u,1\n"), truth={2**63 + 1: 1})
    assert data.items.tolist() == [2**63, 2**63 + 1]
    assert data.truth.tolist() == [-1, 1]


def test_blank_labels_are_dropped_with_a_warning(write):
    with pytest.warns(
        CrowdpplWarning, match=r"x.csv, column 'label': dropped 2 of 4 rows without a label \(rows 2, 4\)"
    ):
        data = Annotations.from_csv(write(HEAD + "1,u,5\n1,v,\n2,u,6\n2,v,nan\n"))
    assert data.A == 2
    assert data.labels.tolist() == [5, 6]


def test_truth_from_a_column(write):
    text = "task,worker,label,gold\n1,u,a,\n1,v,b,\n2,u,a,b\n"
    assert Annotations.from_csv(write(text), truth="gold").truth.tolist() == [-1, 1]


# ---------------------------------------------------------------------- forms of CSV

FORMS = {
    "plain": (HEAD + BODY).encode(),
    "byte-order mark": b"\xef\xbb\xbf" + (HEAD + BODY).encode(),
    "byte-order mark and quotes": b"\xef\xbb\xbf" + ('"task","worker","label"\n' + BODY).encode(),
    "carriage returns": (HEAD + BODY).replace("\n", "\r\n").encode(),
    "no last line end": (HEAD + BODY).strip().encode(),
    "blank lines": (HEAD + "\n" + BODY.replace("\n", "\n\n")).encode(),
    "quoted": (HEAD + BODY.replace("u", '"u"')).encode(),
    "other columns, of one name": b"x,task,x,worker,label\n9,1,9,u,a\n9,1,,v,b\n,2,9,u,a\n",
    "unnamed column": b",task,worker,label\n0,1,u,a\n1,1,v,b\n2,2,u,a\n",
}


@pytest.mark.parametrize("case", FORMS)
def test_forms_of_csv(case, write):
    data = Annotations.from_csv(write(FORMS[case]))
    assert data.items.tolist() == [1, 2]
    assert data.workers.tolist() == ["u", "v"]
    assert data.votes.tolist() == [[1, 1], [1, 0]]


def test_compressed(write):
    plain = (HEAD + BODY).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("x.csv", plain)
    for name, content in {
        "x.csv.gz": gzip.compress(plain),
        "x.csv.bz2": bz2.compress(plain),
        "x.zip": packed.getvalue(),
    }.items():
        for path in (write(content, name), str(write(content, name))):
            assert Annotations.from_csv(path).A == 3


def test_short_rows_end_in_missing_values(write):
    frame = read_csv(write(HEAD + "1,u\n2,v,b\n"))
    assert frame["label"].isna().tolist() == [True, False]


def test_index_and_names_of_the_frame(write):
    frame = read_csv(write("b,a,b\n1,2,3\n4,5,6\n"))
    assert list(frame.columns) == ["b", "a", "b"]
    assert frame.index.tolist() == [0, 1]
    assert frame["a"].tolist() == [2, 5]


# ---------------------------------------------------------------------- refusals

LATIN = (HEAD + BODY.replace("a", "é")).encode("latin-1")
PACKED = gzip.compress((HEAD + BODY * 500).encode())

BAD = {
    "empty": (b"", "x.csv", FileError, "x.csv is empty", "header"),
    "blank lines only": (b"\n\n", "x.csv", FileError, "x.csv is empty"),
    "mark only": (b"\xef\xbb\xbf", "x.csv", FileError, "x.csv is empty"),
    "header only": (HEAD, "x.csv", DataError, "x.csv: no rows", "at least one annotation"),
    "latin-1": (LATIN, "x.csv", FileError, "x.csv is not UTF-8 text", "0xe9", "save it as UTF-8"),
    "latin-1 late in a long file": ((HEAD + BODY * 200_000).encode() + b"1,u,\xe9\n", "x.csv", FileError, "0xe9"),
    "truncated gz": (PACKED[:-20], "x.csv.gz", FileError, "x.csv.gz cannot be read: "),
    "empty gz": (b"", "x.csv.gz", FileError, "x.csv.gz"),
    "damaged gz": (PACKED[:12] + b"\xff" * 8 + PACKED[20:], "x.csv.gz", FileError, "x.csv.gz cannot be read: "),
    "a longer row": (HEAD + BODY + "3,u,a,b\n", "x.csv", FileError, "Expected 3 fields in line 5, saw 4", "fix"),
    "all rows longer": (HEAD + "0,1,u,a\n0,2,u,b\n", "x.csv", FileError, "Expected 3 fields in line 2, saw 4"),
    "open quote": (HEAD + '1,"u,a\n1,v,b\n', "x.csv", FileError, "cannot be read as CSV"),
    "other delimiter": ((HEAD + BODY).replace(",", ";"), "x.csv", DataError, "x.csv: no column", "'task;worker;label'"),
    "no header": (BODY, "x.csv", DataError, "x.csv: no column 'task' or 'item'", "columns are '1', 'u', 'a'"),
    "duplicate column": ("task,worker,label,label\n1,u,a,b\n", "x.csv", DataError, "2 columns are named 'label'"),
    "misspelt column": (
        "task,wroker,label\n1,u,a\n",
        "x.csv",
        DataError,
        "x.csv: no column 'worker' (did you mean 'wroker'?)",
    ),
    "space in two names": (
        "task, worker,worker ,label\n1,u,v,a\n",
        "x.csv",
        DataError,
        "(did you mean 'worker '?)",
    ),
    "every label blank": (HEAD + "1,u,\n2,u,\n", "x.csv", DataError, "x.csv, column 'label': every label is missing"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_csv(case, write):
    content, name, kind, *parts = BAD[case]
    refused(lambda: Annotations.from_csv(write(content, name)), kind, *parts)


BY_CONTENT = {
    "gzip without the ending": (PACKED, "x.csv"),
    "gzip named bzip2": (PACKED, "x.csv.bz2"),
    "plain, named gzip": (HEAD + BODY, "x.csv.gz"),
    "plain, named zip": (HEAD + BODY, "x.zip"),
    "plain, named xz": (HEAD + BODY, "x.csv.xz"),
    "UTF-16": ((HEAD + BODY).encode("utf-16"), "x.csv"),
    "UTF-16, big end first": (b"\xfe\xff" + (HEAD + BODY).encode("utf-16-be"), "x.txt"),
    "UTF-16 in gzip": (gzip.compress((HEAD + BODY).encode("utf-16")), "x.txt.gz"),
    "UTF-32": ((HEAD + BODY).encode("utf-32"), "x.csv"),
    "separator declared for Excel": ("sep=;\r\n" + (HEAD + BODY).replace(",", ";"), "x.csv"),
    "separator declared after a mark": ("\ufeffsep=|\n" + (HEAD + BODY).replace(",", "|"), "x.csv"),
}


@pytest.mark.parametrize("read", [crowdppl.read, Annotations.from_csv])
@pytest.mark.parametrize("case", BY_CONTENT)
def test_files_are_opened_by_their_content(case, read, write):
    data = read(write(*BY_CONTENT[case]))
    assert set(data.items.tolist()) == {1, 2}
    assert data.labels.tolist() == ["a", "b"]


@pytest.mark.parametrize("read", [read_csv, read_parquet, read_table, Annotations.from_csv, Annotations.from_parquet])
def test_paths_that_are_no_file(read, tmp_path):
    refused(lambda: read(tmp_path / "none.csv"), FileError, "no file", "none.csv", "check the name")
    refused(lambda: read(str(tmp_path)), FileError, str(tmp_path), "is a folder", "name the file in it")
    refused(lambda: read(None), FileError, "a NoneType is not the path of a file")
    refused(lambda: read(io.StringIO(HEAD + BODY)), FileError, "a StringIO", "pass a string or a Path")


# ---------------------------------------------------------------------- Parquet

TABLES = {
    "plain": lambda f: f,
    "dictionary": lambda f: f.astype({"worker": "category", "label": "category"}),
    "all dictionaries": lambda f: f.astype("category"),
    "index": lambda f: f.set_index("task"),
    "odd index": lambda f: f.set_index(pd.Index([7, 7, 1])),
    "nullable": lambda f: f.convert_dtypes(),
    "arrow": lambda f: f.convert_dtypes(dtype_backend="pyarrow"),
    "decimal": lambda f: f.assign(task=f["task"].map(Decimal)),
    "floats": lambda f: f.astype({"task": float}),
}


@pytest.mark.parametrize("case", TABLES)
def test_parquet(case, tmp_path):
    frame = pd.DataFrame({"task": [1, 1, 2], "worker": ["u", "v", "u"], "label": ["a", "b", "a"]})
    TABLES[case](frame).to_parquet(tmp_path / "x.parquet")
    data = Annotations.from_parquet(tmp_path / "x.parquet")
    assert data.items.tolist() == [1, 2]
    assert data.items.dtype == np.int64
    assert data.workers.tolist() == ["u", "v"]
    assert data.votes.tolist() == [[1, 1], [1, 0]]


def test_parquet_dictionary_declares_its_classes(tmp_path):
    label = pa.DictionaryArray.from_arrays(pa.array([1, 2, None]), pa.array(["never", "b", "a"]))
    pq.write_table(pa.table({"task": [1, 1, 2], "worker": [1, 2, 1], "label": label}), tmp_path / "x.parquet")
    with pytest.warns(
        CrowdpplWarning, match=r"x.parquet, column 'label': dropped 1 of 3 rows without a label \(row 3\)"
    ):
        data = Annotations.from_parquet(tmp_path / "x.parquet")
    assert data.labels.tolist() == ["never", "b", "a"]


def test_parquet_keeps_long_integers_beside_missing_ones(tmp_path):
    label = pa.array([2**62 + 1, None, 2**62 + 3, 2**62 + 1])
    task = pa.array([2**63, 2**63 + 1, 2**63 + 1, 5], type=pa.uint64())
    pq.write_table(pa.table({"task": task, "worker": [1, 2, 1, 2], "label": label}), tmp_path / "x.parquet")
    with pytest.warns(CrowdpplWarning, match="dropped 1 of 4"):
        data = Annotations.from_parquet(tmp_path / "x.parquet")
    assert data.items.tolist() == [2**63, 2**63 + 1, 5]
    assert data.labels.tolist() == [2**62 + 1, 2**62 + 3]


def test_bad_parquet(write, tmp_path):
    frame = pd.DataFrame({"task": [1, 1, 2], "worker": [b"u", b"v", b"u"], "label": [0.5, 1, 2]})
    frame.to_parquet(tmp_path / "y.parquet")
    whole = (tmp_path / "y.parquet").read_bytes()
    for content in (b"", b"task,worker,label\n", whole[: len(whole) // 2], whole[:-8] + b"\xff" * 4 + b"PAR1"):
        refused(
            lambda c=content: Annotations.from_parquet(write(c, "x.parquet")),
            FileError,
            "x.parquet cannot be read as Parquet",
        )
    refused(
        lambda: Annotations.from_parquet(tmp_path / "y.parquet", kind="nominal"),
        DataError,
        "y.parquet, column 'worker'",
        "of type bytes",
    )
    frame.assign(worker=1).to_parquet(tmp_path / "z.parquet")
    refused(
        lambda: Annotations.from_parquet(tmp_path / "z.parquet", kind="nominal"),
        DataError,
        "z.parquet, column 'label', row 1: label 0.5",
    )
    frame.iloc[:0].to_parquet(tmp_path / "w.parquet")
    refused(lambda: Annotations.from_parquet(tmp_path / "w.parquet"), DataError, "w.parquet: no rows")


def test_tables_by_their_ending(write, tmp_path):
    frame = read_csv(write(HEAD + BODY))
    frame.to_parquet(tmp_path / "x.PQ")
    assert read_table(tmp_path / "x.PQ").astype(object).equals(frame.astype(object))
    assert read_table(str(write(HEAD + BODY, "x.txt"))).equals(frame)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_long_tables_make_no_object_for_each_row(tmp_path, ending):
    """100,000 rows with 1,300 names: Python's allocator holds a few objects a name more than before, not one a row."""
    import gc
    import sys

    row = np.arange(100_000)
    frame = pd.DataFrame({"task": row % 1000, "worker": row % 300, "label": row % 3}).astype(str)
    frame = frame.radd({"task": "t", "worker": "w", "label": "l"})
    path = tmp_path / f"x.{ending}"
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    read = Annotations.from_csv if ending == "csv" else Annotations.from_parquet
    del frame
    read(path)  # what is imported and cached at the first time
    gc.collect()
    before, most = sys.getallocatedblocks(), 0

    def watch(frame, event, argument):
        nonlocal most
        most = max(most, sys.getallocatedblocks() - before)

    sys.setprofile(watch)
    try:
        data = read(path)
    finally:
        sys.setprofile(None)
    assert data.A == 100_000
    assert most < 20_000


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ('item,"p_a;b;c;d"\n1,0.2\n', ","),  # a name with other separators
        ("item,p_1,p_x; =1;y;@z\n1,0.1,0.2\n2,0.3,0.4\n", ","),
        ("task;label\na;1,5\nb;2,5\n", ";"),  # decimal commas
        ('task,worker,label\n1,anna,"a;b;c;d"\n2,bob,"x;y"\n', ","),
        ("task\tlabel\na, b\tyes, sir\nc\tno\n", "\t"),
        ('task;label;text\n1;cat;"a, b\nc, d"\n2;dog;e\n', ";"),  # a line break in a cell
        ("label\nfoo, bar\nbaz\n", ","),  # one column
        ("a,b,c\n1,2,3\n4,5\n", ","),  # a short row
        ("", ","),
    ],
)
def test_separator_of_a_table(text, separator):
    assert likely_separator(text) == separator


@pytest.mark.parametrize("name", ["gold.json", "gold.jsonl", "gold.csv", "gold.parquet"])
def test_known_truths_of_two_columns(name, tmp_path):
    """A table of two columns is no table of annotations, but one of known true labels."""
    frame = pd.DataFrame({"task": [1, 2, 3], "label": ["cat", "dog", "cat"]})
    path = tmp_path / name
    writers = {
        ".json": lambda: frame.to_json(path, orient="records"),
        ".jsonl": lambda: frame.to_json(path, orient="records", lines=True),
        ".csv": lambda: frame.to_csv(path, index=False),
        ".parquet": lambda: frame.to_parquet(path, index=False),
    }
    writers[path.suffix]()
    table = read_table(path)
    assert table.to_dict("list") == frame.to_dict("list")
    assert Annotations.from_frame(frame.assign(worker="w"), truth=table).truth.tolist() == [0, 1, 0]
