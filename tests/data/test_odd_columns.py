"""Tables that are read as they are, with a note on rows, names, labels and times that a careful reader would ask about."""

import datetime

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.data.table import identifier_forms, rows_in_doubt
from crowdppl.errors import DataError, silent

ROWS = [(n, who, "xy"[(n + k) % 2]) for n in range(4) for k, who in enumerate(("ann", "bob", "cem"))]


def notes(rows=ROWS, columns=None, timestamp=None):
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"]).assign(**columns or {})
    with silent():
        return " ".join(crowdppl.Annotations.from_frame(frame, timestamp=timestamp).notes)


def of_workers(names):
    return notes([(n, name, "xy"[(n + k) % 2]) for n in range(4) for k, name in enumerate(names)])


def of_items(names):
    return notes([(name, who, "xy"[(n + k) % 2]) for n, name in enumerate(names) for k, who in enumerate(("u", "v"))])


def of_labels(labels):
    return notes([(n, "uv"[n % 2], label) for n, label in enumerate([*labels, *labels])])


# ---------------------------------------------------------------------- rows


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("is_latest", [True, True, False], "4 rows have 'false' in the column 'is_latest'"),
        ("superseded", [0, 0, 1], "4 rows have '1' in the column 'superseded'"),
        ("Accepted", ["yes", "no", "yes"], "4 rows have 'no' in the column 'Accepted'"),
        ("keep", ["x", "", "x"], "4 rows have no value in the column 'keep'"),
        ("approved", [True, None, True], "4 rows have no value in the column 'approved'"),
        ("deleted_at", ["", None, "2024-01-02"], "4 rows have a date in the column 'deleted_at'"),
        ("phase", ["practice", "main", "main"], "4 rows have 'practice' in the column 'phase'"),
        ("trial_type", ["test", "attention check", "test"], "4 rows have 'attention check' in the column 'trial_type'"),
        ("attention_check", [0, 1, 0], "4 rows have '1' in the column 'attention_check'"),
        ("is_practice", [False, False, True], "4 rows have 'true' in the column 'is_practice'"),
    ],
)
def test_rows_that_may_not_count(column, values, said):
    assert said in notes(columns={column: values * 4})


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("phase", ["one", "two", "two"]),
        ("set", ["training", "test", "test"]),
        ("valid", ["all", "most", "some"]),
        ("current", [1.5, 2.5, 3.5]),
        ("latest", [True, True, True]),
        ("deleted_at", [None, None, None]),
        ("accepted", [["a"], ["b"], ["c"]]),
        ("mode", ["a", "b", "c"]),
        ("version", [1, 1, 2]),
        ("new_label", ["other", "more", "most"]),
    ],
)
def test_columns_that_say_nothing_of_rows(column, values):
    assert not notes(columns={column: values * 4})


WHOLE = [1, 2, *[0] * 10]
AT_A_TIME = pd.to_datetime(["2024-01-02", *[None] * 11])


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("deleted_at", ["2024-01-02", *["0000-00-00 00:00:00"] * 11], "1 row has a date in the column 'deleted_at'"),
        (
            "deleted_at",
            ["2024-01-02", *["null", "\\N", "-", "0.0", "False", "", None, 0, False, "NaT", "n/a"]],
            "1 row has a date",
        ),
        ("deleted_at", AT_A_TIME, "1 row has a date"),
        ("deleted_at", AT_A_TIME.astype(object).tolist(), "1 row has a date"),
        ("deleted_at", AT_A_TIME.tz_localize("UTC"), "1 row has a date"),
        ("deleted_at", pd.array(AT_A_TIME, dtype="timestamp[us][pyarrow]"), "1 row has a date"),
        ("deleted_at", pd.Categorical(["2024-01-02", *["0"] * 11]), "1 row has a date"),
        ("deleted_on", [datetime.date(2024, 1, 2), *[None] * 11], "1 row has a date"),
        ("deleted_at", [1_700_000_000, *[0] * 11], "1 row has a date"),
        ("deleted_at", pd.array([1_700_000_000, None, *[0] * 10], dtype="Int64"), "1 row has a date"),
        ("deleted_at", [True, *[False] * 11], "1 row has a date"),
        ("valid", ["No", "NO", "no", *["yes"] * 9], "3 rows have 'no' in the column 'valid'"),
        ("valid", pd.array([0, 1, None, *[1] * 9], dtype="Int64"), "2 rows have '0', no value in the column 'valid'"),
        ("deleted", ["true", "True", "TRUE", *["no"] * 9], "3 rows have 'true' in the column 'deleted'"),
        ("deleted", WHOLE, "1 row has '1' in the column 'deleted'"),
    ],
)
def test_rows_that_may_not_count_in_other_types(column, values, said):
    assert said in notes(columns={column: values})


@pytest.mark.parametrize(
    ("column", "values"),
    [
        *(
            ("deleted_at", ["", None, word])
            for word in ("null", "\\N", "-", "0.0", 0, False, "NaT", "0000-00-00", "0001-01-01")
        ),
        ("deleted_at", ["0001-01-01T00:00:00", "0000-00-00 00:00:00", "n/a"]),
        ("valid", [0.0, 1.0, 0.5]),
        ("is_deleted", [0.5, 2.0, 3.0]),
        ("is_deleted", pd.to_datetime(["2024-01-02", None, None])),
        ("phase", [1, 2, 2]),
        ("gold", [0.5, 2.0, 3.0]),
    ],
)
def test_values_that_say_nothing_of_rows(column, values):
    assert not notes(columns={column: [*values] * 4})


@pytest.mark.parametrize("cell", [np.arange(2), ["a"], {"a": 1}, {"a"}], ids=str)
@pytest.mark.parametrize(
    "column",
    [
        *(
            "deleted_at",
            "valid",
            "deleted",
            "status",
            "phase",
            "version",
            "new_label",
            "count",
            "truth",
            "source",
            "gold",
            "text",
        )
    ],
)
def test_an_array_or_a_list_in_a_column(column, cell):
    """A column that holds one says nothing of rows; a table of it is read as without it."""
    values = pd.Series(["2024", *[None] * 10, 0], dtype=object)
    values[1] = cell
    assert not notes(columns={column: values})


@pytest.mark.parametrize(
    "column", ["deleted_at", "latest", "phase", "version", "new_label", "status", "weight", "truth"]
)
def test_columns_of_large_files_that_are_read_for_notes(column):
    assert rows_in_doubt.tells(column)
    assert rows_in_doubt.tells(column.upper().replace("_", " "))
    assert not rows_in_doubt.tells(f"other_{column}")


def test_versions_of_an_annotation():
    rows = [*ROWS, (0, "ann", "y")]
    assert "the column 'version' tells annotations of an item by one worker apart" in notes(
        rows, {"version": [1] * len(ROWS) + [2]}
    )


@pytest.mark.parametrize("name", ["corrected_label", "revised label", "post_review_label"])
def test_labels_that_were_corrected(name):
    corrected = [label for _, _, label in ROWS]
    assert not notes(columns={name: corrected})
    corrected[0] = "y" if corrected[0] == "x" else "x"
    assert f"1 row has another label in the column {name!r} than in 'label'" in notes(columns={name: corrected})


LABELS = [label for _, _, label in ROWS]
OTHER = "y" if LABELS[0] == "x" else "x"


@pytest.mark.parametrize(
    ("labels", "corrected", "said"),
    [
        (LABELS, [OTHER, *[""] * 11], "1 row has"),
        (LABELS, [OTHER, *["null", None, " ", "-", "n/a", "0", "False", "unknown", *LABELS[9:]]], "1 row has"),
        (LABELS, [OTHER, *(label.upper() + " " for label in LABELS[1:])], "1 row has"),
        ([1, 2] * 6, [2.0, None, 1.0, *[None] * 9], "1 row has"),
        ([1, 2] * 6, ["2", "", *["1.0", "2"] * 5], "1 row has"),
        ([0, 1] * 6, [0, 0] * 6, "6 rows have"),
        (["-", "+"] * 6, ["-", "-"] * 6, "6 rows have"),
    ],
)
def test_corrected_labels_beside_blanks(labels, corrected, said):
    rows = [(n, who, label) for (n, who, _), label in zip(ROWS, labels, strict=True)]
    assert f"{said} another label in the column 'new_label'" in notes(rows, {"new_label": corrected})


@pytest.mark.parametrize(
    "corrected",
    [
        [LABELS[0], *[""] * 11],
        [LABELS[0], *["null", "-", None, "0"] * 2, *[" "] * 3],
        [label.upper() for label in LABELS],
    ],
)
def test_corrected_labels_that_are_blank_or_the_same(corrected):
    assert not notes(columns={"new_class": corrected})


def test_items_that_number_the_annotations():
    rows = [(f"r{n}", "uv"[n % 2], "xxy"[n % 3]) for n in range(12)]
    said = notes(rows, {"text": [f"text {n // 2}" for n in range(12)]})
    assert "each row has an item of its own by the column 'task', and the rows share 6 values of 'text'" in said
    assert "item of its own" not in notes(rows, {"text": [f"text {n}" for n in range(12)]})
    assert "item of its own" not in notes(rows, {"source": ["a", "b"] * 6})


@pytest.mark.parametrize("form", ["{item}_{who}", "{who}-{item}", "{item}/{who}"])
def test_items_with_the_name_of_the_worker(form):
    rows = [(form.format(item=n, who=who), who, label) for n, who, label in ROWS]
    assert "have the name of the worker in them" in notes(rows)
    assert "have the name of the worker" not in notes([*rows, *((n, who, label) for n, who, label in rows[:3])])


# ---------------------------------------------------------------------- names


@pytest.mark.parametrize(
    "names", [["u;v", "v;w", "u;w"], ["u;v", "u"], ["u, v", "u"], ["u|v", "v|u"], ["u; v; w", "w", "x"]]
)
def test_several_workers_in_a_cell(names):
    assert "is read as one, though" in of_workers(names)


@pytest.mark.parametrize(
    "names",
    [
        ["auth0|x1", "auth0|x2", "github|y1"],
        ["Smith, Ann", "Smith, Bob", "Jones, Ann"],
        ["R&D 1", "R&D 2", "R&D 3"],
        ["a & co", "a"],
        ["openai/gpt-4", "gpt-4-mini"],
        ["US|m", "US|f", "DE|m", "DE|f"],
        ["team1;ann", "team1;bob", "team2;ann", "team2;bob"],
    ],
)
def test_one_worker_in_a_cell(names):
    assert "is read as one, though" not in of_workers(names)


@pytest.mark.parametrize("name", ["GT", "model_v1", "Prediction", "baseline", "auto", "answer_key", "bot"])
def test_a_program_among_people(name):
    assert f"the worker {name!r} is read as a person like the others" in of_workers(["ann", "bob", name])


@pytest.mark.parametrize(
    "names", [["model_1", "model_2", "model_3"], ["GT", "AB", "KL"], ["Botha", "Autry", "Modell"], ["bot1", "bot2"]]
)
def test_programs_among_themselves(names):
    assert "like the others" not in of_workers(names)


@pytest.mark.parametrize(
    "names",
    [
        ["u-s1", "u-s2", "v-s1", "v-s2"],
        ["ann_session1", "ann_session2", "bob_session1"],
        ["worker1_s1", "worker1_s2", "worker2_s1"],
    ],
)
def test_sessions_of_a_worker(names):
    assert "end in a number of a session" in of_workers(names)


@pytest.mark.parametrize(
    "names",
    [
        ["u-s1", "v-s2", "w-s3"],
        ["class1", "class2"],
        ["u_round1", "u_round2"],
        ["lab1_s1", "lab1_s2", "lab2_s1"],
        ["group_1_s01", "group_1_s02", "group_2_s01"],
        ["expert_s1", "expert_s2", "novice_s1"],
        ["US school 1 s1", "US school 1 s2", "DE school 1 s1"],
    ],
)
def test_numbers_that_are_no_sessions(names):
    assert "of a session" not in of_workers(names)


@pytest.mark.parametrize("word", ["unknown", "Unknown", "none", "Untitled"])
def test_an_item_without_a_name(word):
    assert f"{word!r} is read as the name of a task" in of_items([word, "i1", "i2"])
    assert "as the name of a task" not in of_items([word, "joy", "fear"])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1,001", "1001"),
        ("1 001", "1001"),
        ("{A3F0C2D4-0000-4000-8000-000000000001}", "a3f0c2d4-0000-4000-8000-000000000001"),
        ("https://x.org/a.jpg?token=1", "https://x.org/a.jpg?token=2"),
        ("https://x.org/a.jpg?X-Amz-Date=1&X-Amz-Signature=q&v=2", "https://x.org/a.jpg?v=2"),
        ("https://x.net/a.jpg?se=2024&sp=r&sv=1&sig=q", "https://x.net/a.jpg?se=2025&sp=rw&sv=1&sig=r"),
        ("https://x.net/a.jpg?Policy=p&Signature=q&Expires=1", "https://x.net/a.jpg"),
        ("s3://bucket/a.jpg", "https://bucket.s3.eu-west-1.amazonaws.com/a.jpg"),
        ("gs://bucket/a.jpg", "https://storage.googleapis.com/bucket/a.jpg"),
    ],
)
def test_items_in_other_forms(one, other):
    assert "may be another one in another form" in of_items([one, other, "more"])


@pytest.mark.parametrize(
    "names",
    [
        ["https://x.org/view?id=1", "https://x.org/view?id=2"],
        ["https://x.org/view?se=1&id=3", "https://x.org/view?se=2&id=3"],
        ["https://x.org/watch?v=a&sp=1", "https://x.org/watch?v=a&sp=2"],
        ["https://x.org/?policy=abc", "https://x.org/?policy=def"],
        ["1,2", "12"],
        ["1 2", "12"],
        ["s3://bucket/a.jpg", "https://other.s3.amazonaws.com/a.jpg"],
        ["{a}", "a"],
    ],
)
def test_items_that_differ(names):
    assert "another form" not in of_items(names)


def test_items_that_are_objects():
    assert "are lists or objects: write the identifier" in of_items(
        ['{"id": 1, "text": "a"}', '{"id": 2, "text": "b"}']
    )
    assert "are lists or objects" in of_items(["['a']", "b"])
    for names in (["[deleted", "{x"], ["[0]", "[1, 2]", "{}"], ["{a3f0c2d4-0000-4000-8000-000000000001}", "{x: y}"]):
        assert "are lists or objects" not in of_items(names)


def test_few_of_many_items_are_read_as_objects(monkeypatch):
    """Reading ends at the first object, and needs a sign of one."""
    read = []
    monkeypatch.setattr(identifier_forms, "parsed", lambda name: read.append(name) or {})
    identifier_forms.notes_on(np.array([f"{{{n}}}" for n in range(3000)] + ['{"a": 1}'], dtype=object), "task", "t")
    assert not read
    identifier_forms.notes_on(np.array([f'{{"a": {n}}}' for n in range(50)], dtype=object), "task", "t")
    assert read == ['{"a": 0}']


# ---------------------------------------------------------------------- labels


@pytest.mark.parametrize(
    "word", ["tba", "pending", "n.d.", "s/o", "sin dato", "(vide)", "<leer>", "[vac\u00edo]", "\u7121", "NULL::text"]
)
def test_labels_that_may_stand_for_none(word):
    assert f"{word!r} (2) taken for a class" in of_labels(["cat", "dog", word])


@pytest.mark.parametrize(
    "labels", [["cat", "dog", "(other)"], ["(a)", "(b)", "c"], ["cat", "dog", "nd"], ["cat", "(cat) x", "d"]]
)
def test_labels_that_are_labels(labels):
    assert "taken for a class" not in of_labels(labels)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["b'cat'", "b'dog'"], ["cat", "dog"]),
        (['b"cat"', "dog"], ["cat", "dog"]),
        (["np.int64(1)", "np.int64(0)"], ["0", "1"]),
        (["np.str_('cat')", "np.str_('dog')"], ["cat", "dog"]),
        (["tensor(1, device='cuda:0')", "tensor(0)"], ["0", "1"]),
        (["tensor(a b)", "np.array"], ["np.array", "tensor(a b)"]),
    ],
)
def test_values_as_programs_write_them(labels, classes):
    frame = pd.DataFrame({"task": [0, 0, 1, 1], "worker": list("uvuv"), "label": [*labels, *labels]})
    assert list(map(str, crowdppl.Annotations.from_frame(frame).labels)) == classes


def test_labels_with_a_date():
    assert "end in a date" in of_labels(["cat @ 2024-01-01", "cat @ 2024-01-02", "dog (3.1.2024 10:00)"])
    assert "end in a date" not in of_labels(["cat @ 2024-01-01", "dog @ 2024-01-01", "cow @ 2024-01-01"])


def test_labels_with_the_name_of_the_worker():
    assert "begin with the names of the workers" in notes([(n, who, f"{who}: {label}") for n, who, label in ROWS])
    assert "begin with the names" not in notes([(n, who, f"ann: {label}") for n, who, label in ROWS])


def test_grades_with_and_without_their_maximum():
    assert "are fractions and others such as '10' are numbers" in of_labels(["8/10", "7", "9 / 10", "10"])
    for labels in (
        ["8/10", "7/10", "9/10"],
        ["1/2", "3", "1/4"],
        ["8/10", "7", "more"],
        ["12/10", "3", "4"],
        ["0", "1/2", "1"],
        ["0", "1/3", "2/3", "1"],
        ["0", "1/4", "2/4", "3/4", "1"],
    ):
        assert "are fractions and others" not in of_labels(labels)
    for labels in (["1/2", "2", "1"], ["3/5", "4/5", "1", "0"]):
        assert "are fractions and others" in of_labels(labels)
    assert "in two forms" not in of_labels(["0", "1/3", "2/3", "1"])


# ---------------------------------------------------------------------- times


def at(values):
    return notes([(n, "u", "xy"[n % 2]) for n in range(len(values))], {"when": values}, timestamp="when")


@pytest.mark.parametrize("values", [["02012024", "13022024"], [2012024, 13022024], ["12312023", "01022024"]])
def test_dates_in_digits_with_the_year_last_are_refused(values):
    with pytest.raises(DataError, match=r"'when', rows 1, 2: \d{8} may be a date with the day or the month first"):
        at(values)


@pytest.mark.parametrize("values", [["20240102", "20240203"], [20240102, 20240203]])
def test_dates_in_digits_with_the_year_first(values):
    assert "are read as dates" in at(values)


def test_years():
    assert "they may be years" in at([2022, 2023])
    assert "they may be years" not in at([1, 2023])


@pytest.mark.parametrize("dates", [["13/01/2567", "14/03/2567"], ["1445-06-20", "1445-07-20"]])
def test_years_of_other_calendars(dates):
    assert f"dates such as {dates[0]!r} are read as years of the Gregorian calendar" in at(dates)
    assert "Gregorian" not in at(["2024-01-02", "1445-06-20"])
