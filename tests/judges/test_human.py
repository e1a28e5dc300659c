"""Labels of people: reading, alignment with verdicts, and every message."""

import numpy as np
import pandas as pd
import pytest

from crowdppl.errors import DataError
from crowdppl.judges import HumanLabels, Verdicts


def verdicts(items=("a", "b", "c"), labels=("no", "yes", "no"), **columns):
    return Verdicts.from_frame(pd.DataFrame({"item": list(items), "judge": "j", "verdict": list(labels), **columns}))


def pairs():
    return verdicts([1, 1, 2], [1, 0, 1], system=["s", "t", "s"])


def aligned(data, judged=None, **options):
    return HumanLabels.from_frame(data, **options).align(verdicts() if judged is None else judged)


@pytest.mark.parametrize(
    "data",
    [
        {"b": "yes", "a": "no"},
        pd.Series({"b": "yes", "a": "no"}),
        pd.DataFrame({"item": ["b", "a"], "verdict": ["yes", "no"]}),
        pd.DataFrame({"item": ["b", "a"], "label": ["yes", "no"]}),
    ],
    ids=["dict", "series", "verdict", "label"],
)
def test_forms(data):
    judged, human = aligned(data)
    assert (human.item.tolist(), human.label.tolist()) == ([1, 0], [1, 0])
    assert human.items is judged.items
    assert human.labels.tolist() == judged.labels.tolist() == ["no", "yes"]
    for codes in (human.annotator, human.stratum, human.system):
        assert codes.tolist() == [-1, -1]
    assert np.isnan(human.probability).all()
    assert human.notes == ()
    assert (len(human), repr(human)) == (2, "HumanLabels(2 labels of 2 items, 2 classes)")


def test_optional_columns():
    _, human = aligned(
        pd.DataFrame(
            {
                "item": ["c", "c", "b", "z"],
                "verdict": ["yes", "no", None, "no"],
                "annotator": ["u", "w", "u", "u"],
                "probability": [0.5, 0.5, None, 1],
                "stratum": ["s", "s", None, "t"],
            }
        )
    )
    assert (human.item.tolist(), human.label.tolist()) == ([2, 2], [1, 0])
    assert human.annotators[human.annotator].tolist() == ["u", "w"]
    assert human.strata[human.stratum].tolist() == ["s", "s"]
    assert human.probability.tolist() == [0.5, 0.5]
    assert human.notes == (
        "the human labels, column 'verdict': dropped 1 of 4 rows without a label (row 3)",
        "1 of 3 human labels are of items that nobody judged ('z'); they are left out",
        "people contradict each other on 1 of 1 labelled items",
    )


def test_repeats_of_a_person_are_dropped_and_those_of_unknown_people_kept():
    table = pd.DataFrame({"item": ["a"] * 3, "verdict": ["yes", "yes", "no"]})
    assert len(HumanLabels.from_frame(table)) == 3
    human = HumanLabels.from_frame(table.assign(annotator="u"))
    assert len(human) == 2
    assert human.notes == (
        "the human labels: dropped 1 rows that repeat the label of an annotator for an item (row 2)",
    )


def test_a_class_that_no_judge_gave_is_added():
    judged, human = aligned({"a": "maybe", "b": "yes"})
    assert judged.labels.tolist() == human.labels.tolist() == ["maybe", "no", "yes"]
    assert judged.labels[judged.label].tolist() == ["no", "yes", "no"]
    assert human.labels[human.label].tolist() == ["maybe", "yes"]
    assert human.notes == ("the human labels contain 'maybe', which no judge gave; added to the classes",)
    declared = Verdicts.from_frame(judged.to_frame(), labels=["yes", "no"])
    assert aligned({"a": "maybe", "b": "no"}, declared)[0].labels.tolist() == ["yes", "no", "maybe"]


@pytest.mark.parametrize("labels", [{"a": "maybe"}, {"a": "good", "b": "bad"}, {"a": "C", "b": "I", "c": "C"}])
def test_labels_that_are_no_class_of_the_judges_are_refused(labels):
    """Two vocabularies would be twice as many classes, and every judge wrong on every labelled item."""
    with pytest.raises(
        DataError, match=r"^no human label is among the classes of the judges: people gave [^\n]*, judges 'no', 'yes'"
    ):
        aligned(labels)


def test_spellings_of_people_are_those_of_the_judges():
    judged, human = aligned({"a": "YES", "b": " no "})
    assert judged.labels.tolist() == human.labels.tolist() == ["no", "yes"]
    assert human.labels[human.label].tolist() == ["yes", "no"]


def test_classes_of_scores_are_those_of_people():
    scores = Verdicts.from_frame(pd.DataFrame({"item": ["a", "b"], "judge": "j", "score": [0.1, 0.7]}))
    judged, human = aligned({"a": False, "b": True}, scores)
    assert judged.labels.tolist() == [False, True]
    assert judged.label.tolist() == [-1, -1]
    assert human.label.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("given", "label", "kinds"),
    [
        ([1, 0], {"a": True, "b": False}, ("booleans", "integers")),
        ([1, 0], {"a": "1", "b": "0"}, ("strings", "integers")),
        (["1", "0"], {"a": 1, "b": 0}, ("integers", "strings")),
        ([True, False], {"a": "True", "b": "false"}, ("strings", "booleans")),
        ([True, False], {"a": 1, "b": 0}, ("integers", "booleans")),
        (["true", "false"], {"a": True, "b": False}, ("booleans", "strings")),
    ],
)
def test_labels_of_another_type(given, label, kinds):
    judged, human = aligned(label, verdicts(["a", "b"], given))
    assert judged.labels.tolist() == sorted(given)
    assert human.labels[human.label].tolist() == given
    assert human.notes == (f"labels of the human labels are {kinds[0]}, read as {kinds[1]} like those of the verdicts",)


def test_items_of_another_type():
    _, human = aligned({"1": "yes"}, verdicts([1, 2, 3]))
    assert human.item.tolist() == [0]
    assert human.notes == ("items of the human labels are strings, read as integers like those of the verdicts",)


def test_words_for_states_are_no_labels():
    judged, human = aligned({"a": "N/A", "b": "yes", "c": "refused"})
    assert judged.labels.tolist() == ["no", "yes"]
    assert human.item.tolist() == [1]
    assert human.notes == ("2 human labels are no labels but 'N/A', 'refused'; they are left out",)
    refusals = Verdicts.from_frame(
        pd.DataFrame({"item": ["a", "b"], "judge": "j", "verdict": ["refused", "complied"]}),
        labels=["complied", "refused"],
    )
    assert aligned({"a": "refused"}, refusals)[1].label.tolist() == [1]


def test_pairs_of_item_and_system():
    table = pd.DataFrame({"item": [1, 2, 2], "system": ["t", "s", "u"], "verdict": [0, 1, 1]})
    judged, human = aligned(table, pairs())
    assert judged.items[human.item].tolist() == ["1 / t", "2 / s"]
    assert human.notes == (
        "human labels of systems that nobody judged: 'u'",
        "1 of 3 human labels are of items that nobody judged (2); they are left out",
    )
    # Or by the names of the pairs.
    assert aligned({"1 / t": 0}, pairs())[1].item.tolist() == [1]


def test_a_system_where_it_is_not_needed():
    judged = verdicts(["a", "b"], ["yes", "no"], system=["s", "t"])
    assert aligned(pd.DataFrame({"item": ["a"], "system": ["s"], "verdict": ["yes"]}), judged)[1].item.tolist() == [0]
    message = (
        r"^item 'a' is an answer of 's' in the verdicts, but of 't' in the human labels; use the same items and systems"
    )
    with pytest.raises(DataError, match=message):
        aligned(pd.DataFrame({"item": ["a"], "system": ["t"], "verdict": ["yes"]}), judged)


def table(**columns):
    return pd.DataFrame({"item": ["a", "b"], "verdict": ["yes", "no"], **columns})


BAD = {
    "no table": (
        17,
        "the human labels is a int; pass a pandas DataFrame, or a table that supports Arrow's PyCapsule or the dataframe "
        "interchange protocol (Polars, PyArrow), or a mapping from item to label",
    ),
    "no verdict": (
        pd.DataFrame({"item": [1], "answer": [1]}),
        "the human labels: no column 'verdict' or 'label'; columns are 'item', 'answer'; name the column of the verdict with "
        "verdict=...",
    ),
    "no rows": ({}, "the human labels: no rows; at least one is needed"),
    "all blank": (
        {"a": None, "b": ""},
        "the human labels, column 'verdict': every label is missing; at least one is needed",
    ),
    "item missing": (
        pd.DataFrame({"item": ["a", None], "verdict": ["yes", "no"]}),
        "the human labels, column 'item', row 2: item missing; fill it in or drop the rows",
    ),
    "mixed": (
        {"a": "yes", "b": 1, "c": "no"},
        "the human labels, column 'verdict': verdict names mix str and int (int in row 2); convert them all to strings or all to "
        "integers",
    ),
    "probability": (
        table(probability=[0.5, 0]),
        "the human labels, column 'probability', row 2: 0 is not a probability of being chosen; it must be above 0 and at most 1",
    ),
    "probability above one": (
        table(probability=[50, 1]),
        "the human labels, column 'probability', row 1: 50 is not a probability of being chosen; it must be above 0 and at most "
        "1",
    ),
    "probability missing": (
        table(probability=[0.5, None]),
        "the human labels, column 'probability', row 2: probability missing; state it for every label, or drop the column",
    ),
    "stratum missing": (
        table(stratum=["s", None]),
        "the human labels, column 'stratum', row 2: stratum missing; state it for every label, or drop the column",
    ),
    "no judged item": (
        {"x": "yes", "y": "no"},
        "none of the 2 human labels is of a judged item: they name 'x', 'y', the verdicts 'a', 'b', 'c'; use the same "
        "identifiers in both",
    ),
    "labels of another type": (
        {"a": 3},
        "labels are strings in the verdicts ('no', 'yes'), but integers in the human labels (3); state which correspond with "
        "map={...}, or declare all classes with labels=[...] if both are meant",
    ),
    "states only": (
        {"a": "refused"},
        "every human label is one of 'refused'; at least one class is needed",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_labels(name):
    data, message = BAD[name]
    with pytest.raises(DataError) as error:
        aligned(data)
    assert str(error.value) == message


def test_pairs_need_a_system():
    with pytest.raises(DataError) as error:
        aligned({1: 1, 2: 0}, pairs())
    assert str(error.value) == (
        "2 human labels have no system, but the judged items are pairs of item and system; state the system of each label in a "
        "column 'system'"
    )


def test_verdicts_are_needed():
    with pytest.raises(DataError, match=r"^verdicts is a DataFrame; pass crowdppl.judges.Verdicts$"):
        HumanLabels.from_frame({"a": 1}).align(pd.DataFrame())


def test_grades_as_text_match_however_they_are_written():
    judged = verdicts(labels=["0.0", "1.0", "0.0"])
    for given in (["0.0", "1.0"], ["1.0", "0.0"]):
        extended, human = aligned({"a": given[0], "b": given[1]}, judged)
        assert extended.labels.tolist() == ["0.0", "1.0"]
        assert [extended.labels[k] for k in human.label] == given
    # Where only whole numbers match, they are: as numbers, and as text; 1 and 1.0 are one grade.
    for labels in ([0, 1, 0], ["0", "1", "0"]):
        extended, human = aligned({"a": "0.0", "b": "1.0", "c": "1."}, verdicts(labels=labels))
        assert extended.labels.tolist() == sorted(set(labels))
        assert human.label.tolist() == [0, 1, 1]
