"""Verdicts from tables: items, states, families, columns, and every message."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest

from crowdppl.errors import CrowdpplWarning, DataError, OptionError
from crowdppl.judges import State, Verdicts
from crowdppl.judges.coding.model_names import family_of
from crowdppl.judges.coding.states import ABSTAINED, UNPARSEABLE


def frame(**columns):
    n = max(len(column) for column in columns.values() if isinstance(column, list))
    return pd.DataFrame(
        {name: column if isinstance(column, list) else [column] * n for name, column in columns.items()}
    )


def verdicts_of(*column, **options):
    """Return verdicts of one judge, an item each."""
    table = pd.DataFrame(
        {"item": np.arange(len(column)), "judge": "j", "verdict": pd.Series(list(column), dtype=object)}
    )
    return Verdicts.from_frame(table, **options)


def refused(table, message, kind=DataError, **options):
    with pytest.raises(kind) as error:
        Verdicts.from_frame(table, **options)
    assert str(error.value) == message


SMALL = {"item": ["a", "a", "b"], "judge": ["j", "k", "j"], "verdict": ["yes", "no", "no"]}


def test_names_codes_and_defaults():
    v = Verdicts.from_frame(pd.DataFrame(SMALL))
    assert v.items.tolist() == ["a", "b"]
    assert v.judges.tolist() == ["j", "k"]
    assert v.labels.tolist() == ["no", "yes"]
    assert (v.item.tolist(), v.judge.tolist(), v.label.tolist()) == ([0, 0, 1], [0, 1, 0], [1, 0, 0])
    assert v.state.tolist() == [State.GIVEN] * 3
    for names, codes, length in (
        (v.systems, v.system, 2),
        (v.questions, v.question, 2),
        (v.versions, v.version, 3),
    ):
        assert len(names) == 0
        assert codes.tolist() == [-1] * length
    assert v.swapped.tolist() == [-1] * 3
    for numbers in (v.score, v.cost, v.seconds, v.when):
        assert pd.isna(numbers).all()
    assert (v.pairs, v.ordered, v.human) == (False, None, None)
    assert (len(v), repr(v)) == (3, "Verdicts(3 rows, 2 items, 2 judges, 2 labels, 0 systems)")


def test_optional_columns():
    v = Verdicts.from_frame(
        frame(
            item=[1, 2, 3],
            judge="j",
            verdict=[1, 0, 1],
            system=["s", "t", "s"],
            question=["q", "q", "r"],
            swapped=[True, False, None],
            score=[0.5, None, -2],
            cost=[0, 0.01, None],
            seconds=["1.5", "", "2"],
            when=["2026-01-02", 86400, 1767312000000],
            version=["v1", None, "v2"],
            family=["f", None, "f"],
        )
    )
    assert v.systems[v.system].tolist() == ["s", "t", "s"]
    assert v.questions[v.question].tolist() == ["q", "q", "r"]
    assert v.swapped.tolist() == [1, 0, -1]
    np.testing.assert_array_equal(v.score, [0.5, np.nan, -2])
    np.testing.assert_array_equal(v.cost, [0, 0.01, np.nan])
    np.testing.assert_array_equal(v.seconds, [1.5, np.nan, 2])
    assert v.when.astype("datetime64[D]").astype(str).tolist() == ["2026-01-02", "1970-01-02", "2026-01-02"]
    assert (v.versions.tolist(), v.version.tolist()) == (["v1", "v2"], [0, -1, 1])
    assert (v.families.tolist(), v.family.tolist()) == (["f"], [0])


def test_columns_under_other_names():
    table = pd.DataFrame(SMALL).rename(columns={"item": "id", "judge": "worker", "verdict": "label"})
    v = Verdicts.from_frame(table, item="id", judge="worker", verdict="label")
    assert v.labels.tolist() == ["no", "yes"]
    # A column that is given another role does not have the role of its name.
    scores = Verdicts.from_frame(frame(item=[1, 2], judge="j", verdict=[0.25, 0.5]), score="verdict")
    assert scores.score.tolist() == [0.25, 0.5]


def test_tables_of_other_libraries():
    pa = pytest.importorskip("pyarrow")
    v = Verdicts.from_frame(pa.table(SMALL | {"swapped": [True, False, None], "score": [1, 2, None]}))
    assert (v.labels.tolist(), v.label.tolist()) == (["no", "yes"], [1, 0, 0])
    assert v.swapped.tolist() == [1, 0, -1]


# ---------------------------------------------------------------------- states


@pytest.mark.parametrize("word", [*UNPARSEABLE, "  Parse_Error ", "INVALID"])
def test_unparseable_words(word):
    v = verdicts_of("yes", "no", word)
    assert v.state.tolist() == [State.GIVEN, State.GIVEN, State.UNPARSEABLE]
    assert (v.labels.tolist(), v.label.tolist()) == (["no", "yes"], [1, 0, -1])


@pytest.mark.parametrize("word", [*ABSTAINED, "N/A"])
def test_abstained_words(word):
    assert verdicts_of("yes", "no", word).state.tolist() == [State.GIVEN, State.GIVEN, State.ABSTAINED]


@pytest.mark.parametrize("blank", [None, np.nan, "", "  ", pd.NA])
def test_blank_is_missing(blank):
    v = verdicts_of("yes", "no", blank)
    assert v.state.tolist() == [State.GIVEN, State.GIVEN, State.MISSING]


@pytest.mark.parametrize("word", ["null", "NULL", "None", "nan", "<NA>", "#N/A", "\\N", "ERROR", "error: timeout"])
def test_words_for_nothing_are_no_class(word):
    """They are unparseable replies beside pass and fail, and a note counts them."""
    v = verdicts_of("pass", "fail", word)
    assert v.labels.tolist() == ["fail", "pass"]
    assert v.state[2] != State.GIVEN
    assert any(word.partition(":")[0].lower() in note.lower() for note in v.notes)


def test_none_is_a_grade_beside_grades():
    v = verdicts_of("minor", "major", "none")
    assert set(v.labels.tolist()) == {"minor", "major", "none"}


@pytest.mark.parametrize("word", ["unknown", "0"])
def test_other_words_are_classes(word):
    v = verdicts_of("yes", "no", word)
    assert v.state.tolist() == [State.GIVEN] * 3
    assert word in v.labels.tolist()


def test_no_state_is_a_verdict():
    """Whatever is not a verdict has no label, so that nothing can count it as a failure."""
    v = verdicts_of(True, False, "unparseable", "refused", None, "")
    assert (v.label >= 0).tolist() == (v.state == State.GIVEN).tolist() == [True, True, False, False, False, False]
    assert v.labels.tolist() == [False, True]


def test_invalid_is_a_class_beside_valid():
    v = verdicts_of("valid", "Invalid", "parse error")
    assert v.labels.tolist() == ["Invalid", "valid"]
    assert v.state.tolist() == [State.GIVEN, State.GIVEN, State.UNPARSEABLE]


def test_declared_labels_and_own_words():
    assert verdicts_of("complied", "refused", labels=["complied", "refused"]).label.tolist() == [0, 1]
    v = verdicts_of("a", "b", "??", "pass", "n/a", unparseable=["??"], abstained=["pass"])
    assert v.state.tolist() == [State.GIVEN, State.GIVEN, State.UNPARSEABLE, State.ABSTAINED, State.GIVEN]


def test_words_taken_for_states_are_noted():
    v = verdicts_of("a", "b", "Refused", "refused", "parse error")
    assert v.notes[0] == (
        "the verdicts: read as states, not as verdicts: 1 'Refused', 1 'refused', 1 'parse error'; if one is a class, declare it "
        "with labels=[...]"
    )


def test_one_class_is_a_warning():
    with pytest.warns(CrowdpplWarning) as caught:
        v = verdicts_of("complied", "refused")
    message = (
        "the verdicts: every verdict is 'complied' beside 1 'refused', read as states; declare all classes with "
        "labels=[...]"
    )
    assert [str(one.message) for one in caught] == [message]
    assert message in v.notes


def test_status_overrides():
    v = Verdicts.from_frame(
        frame(
            item=[1, 2, 3, 4, 5, 6, 7],
            judge="j",
            verdict=["yes", "no", "no", "no", "n/a", None, "refused"],
            status=["given", "Missing", "unparseable", "abstained", "given", "given", None],
        )
    )
    assert v.state.tolist() == [
        State.GIVEN,
        State.MISSING,
        State.UNPARSEABLE,
        State.ABSTAINED,
        State.GIVEN,
        State.MISSING,
        State.ABSTAINED,
    ]
    assert v.labels.tolist() == ["n/a", "yes"]


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        ([True, False], [False, True]),
        ([1, 0], [0, 1]),
        ([1.0, 0.0, None], [0, 1]),
        (["1", "0"], ["0", "1"]),
        # Texts only because of the words for states, as pandas reads CSV.
        (["1", "0", "parse_error"], [0, 1]),
        (["1.0", "0.0", "n/a"], [0, 1]),
        (["True", "False", "unparseable"], [False, True]),
        (["True", "maybe", "unparseable"], ["True", "maybe"]),
        (["01", "1", "unparseable"], ["01", "1"]),
        ([3, 1, 2], [1, 2, 3]),
    ],
)
def test_types_of_verdicts(column, labels):
    v = verdicts_of(*column)
    assert v.labels.tolist() == labels
    assert [type(label) for label in v.labels.tolist()] == [type(label) for label in labels]


def test_scores_without_verdicts():
    v = Verdicts.from_frame(frame(item=[1, 2], judge="j", score=[0.1, None]))
    assert len(v.labels) == 0
    assert v.label.tolist() == [-1, -1]
    assert v.state.tolist() == [State.GIVEN, State.MISSING]
    # One judge with scores only, beside one with verdicts; a score does not replace a blank verdict of the latter.
    v = Verdicts.from_frame(
        frame(item=[1, 2, 1, 2, 3], judge=["s", "s", "v", "v", "v"], verdict=[None, None, 1, 0, None], score=[0.1] * 5)
    )
    assert v.state.tolist() == [State.GIVEN, State.GIVEN, State.GIVEN, State.GIVEN, State.MISSING]
    assert v.label.tolist() == [-1, -1, 1, 0, -1]


def test_categories_are_the_classes():
    column = pd.Series(pd.Categorical(["low", "high", None], ["low", "mid", "high", "n/a"], ordered=True))
    v = Verdicts.from_frame(pd.DataFrame({"item": [1, 2, 3], "judge": "j", "verdict": column}))
    assert v.labels.tolist() == ["low", "mid", "high"]
    assert v.ordered is True
    assert Verdicts.from_frame(pd.DataFrame(SMALL), labels=["yes", "no"], ordered=False).ordered is False


def test_states_per_judge():
    v = Verdicts.from_frame(
        frame(
            item=["a", "b", "c", "a", "a", "b"],
            judge=["gpt-4", "gpt-4", "gpt-4", "claude", "claude", "claude"],
            verdict=["yes", "n/a", None, "yes", "no", "invalid"],
        )
    )
    table = v.states()
    assert table.columns.tolist() == [
        "judge",
        "family",
        "verdicts",
        "given",
        "missing",
        "unparseable",
        "abstained",
        "not_asked",
    ]
    assert table.to_numpy().tolist() == [["gpt-4", "gpt", 3, 1, 1, 0, 1, 0], ["claude", "claude", 3, 2, 0, 1, 0, 1]]


# ---------------------------------------------------------------------- items


def test_questions_of_several_systems_become_pairs():
    v = Verdicts.from_frame(frame(item=[7, 7, 8], system=["s", "t", "s"], judge="j", verdict=[1, 0, 1]))
    assert v.items.tolist() == ["7 / s", "7 / t", "8 / s"]
    assert v.pairs
    assert v.questions[v.question].tolist() == [7, 7, 8]
    assert v.systems[v.system].tolist() == ["s", "t", "s"]
    assert v.notes[-1] == (
        "the verdicts: items occur with several systems, so what is judged is a pair of item and system: 3 pairs of 2 items and "
        "2 systems"
    )


def test_items_of_one_system_each_keep_their_names():
    v = Verdicts.from_frame(frame(item=[1, 2, 1], system=["s", "t", None], judge=["j", "j", "k"], verdict=[1, 0, 1]))
    assert v.items.tolist() == [1, 2]
    assert (v.pairs, v.system.tolist()) == (False, [0, 1])


def test_repeats_are_kept_and_equal_rows_dropped():
    v = Verdicts.from_frame(
        frame(item=["a"] * 4 + ["b"], judge="j", verdict=[1, 0, 1, 1, 0], run=[1, 2, 3, 3, 1], swapped=[0, 0, 0, 0, 1])
    )
    assert v.label.tolist() == [1, 0, 1, 0]
    assert v.notes[0] == (
        "the verdicts: dropped 1 of 5 rows that equal another in all columns (row 4); if they are repeated calls of a judge, "
        "number these in a column 'run'"
    )
    both = Verdicts.from_frame(frame(item=["a", "a"], judge="j", verdict=[1, 0], swapped=[0, 1]))
    assert both.swapped.tolist() == [0, 1]
    lists = Verdicts.from_frame(frame(item=["a", "a", "b"], judge="j", verdict=[1, 1, 0], extra=[[1], [1], {}]))
    assert len(lists) == 2


# ---------------------------------------------------------------------- families


@pytest.mark.parametrize(
    ("judge", "family"),
    [
        ("gpt-4o", "gpt"),
        ("claude-3-5", "claude"),
        ("Llama3-70B", "llama"),
        ("openai/gpt-4o", "openai"),
        ("Meta-Llama/x/y", "meta-llama"),
        ("Qwen2.5-0.5B", "qwen"),
        ("o1", "gpt"),
        ("chatgpt-4o-latest", "gpt"),
        ("gemma-2-9b", "gemini"),
        ("mixtral-8x7b", "mistral"),
        ("o", "o"),
        ("opus", "claude"),
        ("Command R+", "command"),
        ("exact_match", "exact"),
        ("/x", "/x"),
        ("4o", "4o"),
        ("humain:1", "humain"),
        (17, "17"),
    ],
)
def test_family_of_a_name(judge, family):
    assert family_of(judge) == family


def test_families_by_column_and_mapping():
    table = frame(item=[1, 2, 3, 4], judge=["gpt-4", "o1", "claude-3", "claude-3"], verdict=[1, 0, 1, 0])
    table["family"] = ["openai", None, None, "anthropic"]
    v = Verdicts.from_frame(table, families={"o1": "openai", "gemini": "google"})
    assert v.families[v.family].tolist() == ["openai", "openai", "anthropic"]
    assert v.notes[-1] == "families names 'gemini', which gave no verdict"
    v = Verdicts.from_frame(table.drop(columns="family"))
    assert v.notes[-1] == (
        "the verdicts: families of 3 of 3 judges are read from their names: 'gpt', 'claude'; state them in "
        "a column 'family' if they are others"
    )


# ---------------------------------------------------------------------- annotations and tables


def test_annotations():
    table = frame(item=["b", "a", "b", "c"], judge=["j", "k", "k", "j"], verdict=["x", "z", "n/a", None])
    v = Verdicts.from_frame(table, labels=["x", "y", "z"])
    data = v.annotations()
    assert data.items.tolist() == ["b", "a", "c"]
    assert data.workers.tolist() == ["j", "k"]
    assert data.labels.tolist() == ["x", "y", "z"]
    assert (data.item.tolist(), data.worker.tolist(), data.label.tolist()) == ([0, 1], [0, 1], [0, 2])
    assert v.annotations(["a", "c"]).items.tolist() == ["a", "c"]
    states = v.annotations(states=True)
    assert states.labels.tolist() == ["x", "y", "z", "(missing)", "(abstained)"]
    assert states.labels[states.label].tolist() == ["x", "(abstained)", "z", "(missing)"]
    whole = Verdicts.from_frame(frame(item=[1, 2], judge=["j", "k"], verdict=[1, 0])).annotations()
    assert whole.labels.tolist() == [0, 1]
    with pytest.raises(DataError, match=r"^items: 'd' not among the 3 judged items$"):
        v.annotations(["a", "d"])
    with pytest.raises(DataError, match=r"^no verdict was given on these items; annotations need at least one label$"):
        v.annotations(["c"])


def test_a_table_of_the_verdicts_is_read_back():
    v = Verdicts.from_frame(
        frame(
            item=[1, 1, 2],
            system=["s", "t", "s"],
            judge="j",
            verdict=[1, None, 0],
            swapped=[1, 0, None],
            score=[0.5, None, 1],
        )
    )
    table = v.to_frame()
    assert table.columns.tolist() == ["item", "judge", "verdict", "status", "system", "family", "swapped", "score"]
    again = Verdicts.from_frame(table)
    for name in (
        "items",
        "judges",
        "labels",
        "item",
        "judge",
        "label",
        "state",
        "swapped",
        "score",
        "system",
        "question",
    ):
        np.testing.assert_array_equal(getattr(again, name), getattr(v, name), err_msg=name)


# ---------------------------------------------------------------------- messages

BAD = {
    "no judge": (
        frame(item=[1], verdict=[1]),
        {},
        "the verdicts: no column 'judge'; columns are 'item', 'verdict'; name the column of the judge with judge=...",
    ),
    "a column that is not there": (
        pd.DataFrame(SMALL),
        {"score": "skore"},
        "the verdicts: no column 'skore', which score=... names; columns are 'item', 'judge', 'verdict'",
    ),
    "a column twice": (
        pd.DataFrame([[1, 2, 3, 4]], columns=["item", "judge", "verdict", "verdict"]),
        {},
        "the verdicts: 2 columns are named 'verdict'; rename or drop all but one",
    ),
    "two roles": (
        pd.DataFrame(SMALL),
        {"item": "judge", "judge": "judge"},
        "the verdicts: column 'judge' is both item and judge; name two different columns",
    ),
    "neither verdict nor score": (
        frame(item=[1], judge=["j"]),
        {},
        "the verdicts: no column 'verdict' and no column 'score'; columns are 'item', 'judge'; name the column of verdicts with "
        "verdict=..., or that of scores with score=...",
    ),
    "no rows": (pd.DataFrame(SMALL).head(0), {}, "the verdicts: no rows; at least one is needed"),
    "no verdict at all": (
        frame(item=[1, 2], judge="j", verdict=[None, "n/a"]),
        {},
        "the verdicts: no judge gave a verdict or a score; at least one is needed",
    ),
    "item missing": (
        frame(item=["a", None, " "], judge="j", verdict=[1, 0, 1]),
        {},
        "the verdicts, column 'item', rows 2, 3: item missing; fill it in or drop the rows",
    ),
    "judge missing": (
        frame(item=["a", "b"], judge=["j", None], verdict=[1, 0]),
        {},
        "the verdicts, column 'judge', row 2: judge missing; fill it in or drop the rows",
    ),
    "mixed verdicts": (
        frame(item=[1, 2, 3], judge="j", verdict=[1, 0, "yes"]),
        {},
        "the verdicts, column 'verdict': verdict names mix int and str (str in row 3); convert them all to strings or all to "
        "integers",
    ),
    "true and text": (
        frame(item=[1, 2, 3], judge="j", verdict=[True, False, "yes"]),
        {},
        "the verdicts, column 'verdict': verdict names mix bool and str (str in row 3); convert them all to strings or all to "
        "integers",
    ),
    "fractions": (
        frame(item=[1, 2], judge="j", verdict=[1, 0.5]),
        {},
        "the verdicts, column 'verdict', row 2: verdict 0.5 is not a whole number; pass a judge's numbers as score=...",
    ),
    "undeclared label": (
        frame(item=[1, 2], judge="j", verdict=["yes", "noo"]),
        {"labels": ["yes", "no"]},
        "the verdicts, column 'verdict', row 2: label 'noo' not among the declared labels 'yes', 'no' (did you mean 'no'?); "
        "declare it as well, or correct the rows",
    ),
    "status": (
        frame(item=[1], judge="j", verdict=[1], status=["givn"]),
        {},
        "the verdicts, column 'status', row 1: status 'givn' (did you mean 'given'?); use given, missing, unparseable or "
        "abstained",
    ),
    "score": (
        frame(item=[1, 2], judge="j", verdict=[1, 0], score=[1, "high"]),
        {},
        "the verdicts, column 'score', row 2: 'high' is not a finite number; correct it or leave it blank",
    ),
    "infinite": (
        frame(item=[1], judge="j", verdict=[1], score=[np.inf]),
        {},
        "the verdicts, column 'score', row 1: inf is not a finite number; correct it or leave it blank",
    ),
    "cost": (
        frame(item=[1], judge="j", verdict=[1], cost=[-1]),
        {},
        "the verdicts, column 'cost', row 1: -1 is a cost below 0; correct it or leave it blank",
    ),
    "when": (
        frame(item=[1], judge="j", verdict=[1], when=["yesterday evening"]),
        {},
        "the verdicts, column 'when', row 1: 'yesterday evening' is not a date, or a number of seconds since 1970; correct it or "
        "leave it blank",
    ),
    "swapped": (
        frame(item=[1], judge="j", verdict=[1], swapped=["AB"]),
        {},
        "the verdicts, column 'swapped', row 1: 'AB' is not true, false, 1 or 0; correct it or leave it blank",
    ),
    "system missing": (
        frame(item=[1, 1, 2], judge="j", system=["s", "t", None], verdict=[1, 0, 1]),
        {},
        "the verdicts, column 'system', row 3: system missing, where other rows have several systems for one item; fill it in or "
        "drop the rows",
    ),
    "a system that changes": (
        frame(item=[1, 1, 2], judge="j", system=["s", "t", "s"], question=["q", "q", "r"], verdict=[1, 0, 1]),
        {},
        "the verdicts, column 'system', row 2: item 1 is an answer of 't', but of 's' in a row before; give each answer an item "
        "of its own, or drop the column of questions if items are questions",
    ),
    "a question that changes": (
        frame(item=[1, 1], judge=["j", "k"], question=["q", "r"], verdict=[1, 0]),
        {},
        "the verdicts, column 'question', row 2: item 1 has the question 'r', but 'q' in a row before; state one question for "
        "each item",
    ),
    "pairs of one name": (
        frame(item=["a", "a / b", "a"], judge="j", system=["b / c", "c", "x"], verdict=[1, 0, 1]),
        {},
        "the verdicts: 'a / b / c' is the name of two pairs of item and system; rename an item or a system without ' / '",
    ),
    "two families": (
        frame(item=[1, 2], judge="j", family=["f", "g"], verdict=[1, 0]),
        {},
        "the verdicts, column 'family', row 2: judge 'j' has the family 'g', but 'f' in a row before; state one family for each "
        "judge",
    ),
    "no table": (
        [1, 2],
        {},
        "the verdicts is a list; pass a pandas DataFrame, or a table that supports Arrow's PyCapsule or the dataframe "
        "interchange protocol (Polars, PyArrow)",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_tables(name):
    table, options, message = BAD[name]
    refused(table, message, **options)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"unparseable": [1]}, OptionError, "unparseable contains 1; list the texts that stand for this state"),
        (
            {"unparseable": ["x"], "abstained": ["X "]},
            OptionError,
            "'X ' is both in unparseable= and in abstained=; list it in one of them",
        ),
        ({"unparseable": "x"}, DataError, "unparseable='x'; it must be a list"),
        ({"families": ["f"]}, OptionError, "families is a list; pass a mapping from judge to family"),
        ({"families": {"j": 1}}, DataError, "families: the family of judge 'j' is 1; it must be a text"),
        ({"ordered": "yes"}, OptionError, "ordered='yes'; it must be True or False"),
        ({"labels": "yes"}, DataError, "labels='yes'; it must be a list"),
        (
            {"labels": []},
            DataError,
            "no labels declared; list all of them, or omit the declaration to use those that occur",
        ),
    ],
)
def test_bad_options(options, kind, message):
    refused(pd.DataFrame(SMALL), message, kind, **options)


def test_row_numbers_are_those_of_the_caller():
    """Also behind a dropped duplicate."""
    table = frame(item=[1, 1, 2], judge="j", verdict=[1, 1, 0], score=[1, 1, "x"])
    refused(table, "the verdicts, column 'score', row 3: 'x' is not a finite number; correct it or leave it blank")


def test_labels_that_look_alike_are_one_class():
    v = verdicts_of("Yes", "yes", "no", "yes")
    assert v.labels.tolist() == ["no", "yes"]
    assert any("read as 'yes'" in note for note in v.notes)


def test_nothing_is_changed_in_the_callers_table():
    table = frame(item=[1, 2], judge="j", verdict=["1", "n/a"])
    before = table.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Verdicts.from_frame(table)
    pd.testing.assert_frame_equal(table, before)


@pytest.mark.parametrize("word", ["null", "<NA>", "#REF!", "(null)", "NaT", "\\N", "undefined", "[null]"])
def test_words_for_nothing_are_those_of_annotations(word):
    """One list for tables of annotations and of verdicts."""
    rows = [(i, "j", ("pass", "fail", word)[i % 3]) for i in range(6)]
    verdicts = Verdicts.from_frame(pd.DataFrame(rows, columns=["item", "judge", "verdict"]))
    assert verdicts.labels.tolist() == ["fail", "pass"]
    assert (verdicts.state == State.UNPARSEABLE).sum() == 2


def test_look_alikes_are_one_verdict():
    rows = [(0, "j", "pass"), (1, "j", "pa\u200bss"), (2, "j", "fail"), (3, "k", "\uff46ail")]
    verdicts = Verdicts.from_frame(pd.DataFrame(rows, columns=["item", "judge", "verdict"]))
    assert verdicts.labels.tolist() == ["fail", "pass"]


def said(*verdicts, judge="m"):
    return pd.DataFrame({"item": range(len(verdicts)), "judge": judge, "verdict": list(verdicts)})


def test_replies_in_json_are_their_verdicts():
    replies = (
        '{"verdict": "pass", "reason": "x"}',
        '```json\n{"reason": "y", "grade": "fail"}\n```',
        "pass",
        {"label": ["fail"]},
    )
    verdicts = Verdicts.from_frame(said(*replies))
    assert [verdicts.labels[code] for code in verdicts.label] == ["pass", "fail", "pass", "fail"]
    assert any("3 different replies in JSON are read as verdicts" in note for note in verdicts.notes)
    assert Verdicts.from_frame(said('{"score": 3}', '{"score": 4}')).labels.tolist() == [3, 4]


def read_as(*replies, **options):
    verdicts = Verdicts.from_frame(said(*replies), **options)
    rows = zip(verdicts.label, verdicts.state, strict=True)
    return [verdicts.labels[code] if code >= 0 else State(state) for code, state in rows]


@pytest.mark.parametrize(
    "reply", ['{"verdict": null}', "{}", '{"reason": "dunno"}', '{"verdict": null, "answer": "it"}', {"a": 1}]
)
def test_a_reply_without_a_verdict_beside_others_is_unparseable(reply):
    assert read_as("pass", reply, "fail") == ["pass", State.UNPARSEABLE, "fail"]
    given = ('{"verdict": "pass", "answer": "x"}', '{"verdict": "fail"}')
    assert read_as(*given, reply) == ["pass", "fail", State.UNPARSEABLE]
    assert read_as('{"verdict": 3}', reply, '{"verdict": 4}') == [3, State.UNPARSEABLE, 4]
    notes = Verdicts.from_frame(said(given[0], reply, given[1])).notes
    assert any("column 'verdict', row 2: 1 replies such as" in note and "and unparseable" in note for note in notes)
    assert not any("read as states" in note for note in notes)


def test_replies_none_of_which_has_a_verdict_are_classes_or_refused():
    assert read_as('{"kind": "x"}', '{"kind": "y"}') == ['{"kind": "x"}', '{"kind": "y"}']
    assert read_as('["a", "b"]', '["a"]') == ['["a", "b"]', '["a"]']
    long = [json.dumps({"reason": f"I have compared number {n} with the reference"}) for n in range(4)]
    for replies in (long, [{"kind": "x"}, {"kind": "y"}]):
        with pytest.raises(DataError, match=r"column 'verdict', row 1: .* without a verdict, as are all others"):
            Verdicts.from_frame(said(*replies))
    assert len(Verdicts.from_frame(said(*long, *long)).labels) == 4


def test_declared_replies_are_what_they_are_declared_as():
    dunno = '{"reason":"dunno"}'
    given = ('{"score": 3}', dunno, '{"score": 4}')
    assert read_as(*given, unparseable=[dunno]) == [3, State.UNPARSEABLE, 4]
    assert read_as(*given, abstained=[dunno]) == [3, State.ABSTAINED, 4]
    assert read_as("pass", dunno, "fail", unparseable=[dunno]) == ["pass", State.UNPARSEABLE, "fail"]
    assert read_as("pass", {"reason": "dunno"}, "fail", abstained=['{"reason": "dunno"}'])[1] == State.ABSTAINED
    verdict = '{"verdict": "no"}'
    assert read_as("yes", verdict, labels=["yes", verdict]) == ["yes", verdict]


JUDGED = f"judg{'e'}ment"


@pytest.mark.parametrize(
    ("replies", "verdicts"),
    [
        ([{JUDGED: "it is so", "verdict": "pass"}, {JUDGED: "not so", "verdict": "fail"}], ["pass", "fail"]),
        ([{"answer": "Paris", "score": 1}, {"answer": "Rome", "score": 0}], [1, 0]),
        ([{"result": "Paris", "rating": 4}, {"result": "Rome", "rating": 2}], [4, 2]),
        ([{"score": 0.7, "result": "pass"}, {"score": 0.2, "result": "fail"}], ["pass", "fail"]),
        ([{"label": f"{n} of the facts in the reference are missing", "grade": "AB"[n]} for n in range(2)], ["A", "B"]),
        ([{"correct": True}, {"correct": False}], [True, False]),
        ([{"is_correct": "yes", "score": 0.5}, {"isCorrect": "no"}], ["yes", "no"]),
        ([{"passed": True, "score": 3}, {"passed": False, "score": 3}], [True, False]),
        ([{"pass": 1}, {"pass": 0}], [1, 0]),
        ([{"correct": "Paris", "score": 1}, {"correct": "Rome", "score": 0}], [1, 0]),
        ([{"faithful": True, "why": "x"}, {"faithful": False, "why": "y"}], [True, False]),
        ([{"hallucinated": True}, {"hallucinated": False}], ["hallucinated: true", "hallucinated: false"]),
        ([{"verdict": "pass"}, {"cached": True}, {"verdict": "fail"}], ["pass", State.UNPARSEABLE, "fail"]),
    ],
)
def test_the_key_of_the_verdict(replies, verdicts):
    assert read_as(*map(json.dumps, replies)) == verdicts
    assert read_as(*replies) == verdicts


def test_verdicts_that_differ_in_marks_are_one():
    verdicts = Verdicts.from_frame(said("**Pass**", "pass", "Verdict: fail", "fail", "Fail.", "[[pass]]"))
    assert [verdicts.labels[code] for code in verdicts.label] == ["pass", "pass", "fail", "fail", "fail", "pass"]
    assert any("white space or marks around them" in note for note in verdicts.notes)


def test_marks_that_a_judge_uses_apart_are_kept():
    grades = said("C", "C.", "B", "[[A]]")
    assert len(Verdicts.from_frame(grades).labels) == 4
    assert sorted(Verdicts.from_frame(said("[[A]]", "[[B]]")).labels.tolist()) == ["[[A]]", "[[B]]"]


@pytest.mark.parametrize("other", ["GPT-4o", "gpt-4o ", "gpt\u20114o"])
def test_names_of_judges_that_look_alike_have_a_warning(other):
    with pytest.warns(CrowdpplWarning, match="judge name differs from another"):
        verdicts = Verdicts.from_frame(pd.concat([said("p", "f", judge="gpt-4o"), said("p", "f", judge=other)]))
    assert len(verdicts.judges) == 2
