"""Verdicts, names of judges and columns that are read as they are, with a note on what they may be otherwise."""

import json

import numpy as np
import pandas as pd
import pytest

from crowdppl import judges
from crowdppl.errors import silent
from crowdppl.judges import Verdicts
from crowdppl.judges.coding import labelled


def notes(verdicts=("pass", "fail", "pass", "fail"), names=("a-1", "b-1"), **columns):
    rows = [(n, name, verdict) for name in names for n, verdict in enumerate(verdicts)]
    frame = pd.DataFrame(rows, columns=["item", "judge", "verdict"]).assign(**columns)
    with silent("the verdicts"):
        return " ".join(Verdicts.from_frame(frame).notes)


@pytest.mark.parametrize(
    "word", ["timeout", "rate limit", "I cannot answer that", "unknown", "As an AI, no", "-- select --"]
)
def test_replies_that_may_be_no_verdicts(word):
    assert f"{word!r} taken for a class" in notes(["pass", "fail", "pass", word])


def test_numbers_that_may_be_no_verdicts():
    assert "'-1' taken for a class; if it stands for no verdict, leave these cells blank" in notes([1, 2, 3, -1])
    for verdicts in ([-1, 0, 1], ["pass", "fail", "partial"], [1, 2, 3, 4]):
        assert "taken for a class" not in notes(verdicts)


@pytest.mark.parametrize(
    ("names", "part"),
    [
        (["gold", "gpt-4o"], "none by its name"),
        (["human", "gpt-4o"], "a person by its name"),
        (["openai/gpt-4o", "gpt-4o"], "in another form"),
        (["null", "gpt-4o"], "for no name"),
    ],
)
def test_names_of_judges(names, part):
    assert part in notes(names=names)


def test_versions_and_prompts_are_judges_of_their_own():
    said = notes(names=["gpt-4o", "gpt-4o-2024-08-06", "gpt-4o (prompt A)", "openai/o1", "azure/o1"])
    assert "in another form" not in said


@pytest.mark.parametrize("name", ["trial", "seed", "temperature", "rollout", "sample_id", "attempt"])
def test_columns_that_may_number_answers(name):
    frame = pd.DataFrame(
        [(i, j, r, ("pass", "fail")[(i + r) % 2]) for j in "ab" for i in range(3) for r in range(2)],
        columns=["item", "judge", name, "verdict"],
    )
    with silent("the verdicts"):
        assert any(f"answer={name!r}" in note for note in Verdicts.from_frame(frame).notes)
        assert len(Verdicts.from_frame(frame, answer=name).items) == 6
        assert not any("answer=" in note for note in Verdicts.from_frame(frame, answer=name).notes)


def test_a_log_that_did_not_end(tmp_path):
    samples = [{"id": n, "scores": {"s": {"value": "CI"[n % 2]}}} for n in range(4)]
    log = {"version": 2, "status": "cancelled", "eval": {"task": "t", "model": "m"}, "samples": samples}
    (tmp_path / "log.json").write_text(json.dumps(log))
    assert any("'cancelled'" in note for note in judges.read(tmp_path / "log.json").notes)


@pytest.mark.parametrize(
    ("verdicts", "pair"),
    [
        (["yes", "True", "no", "False"], "'yes' and 'True'"),
        (["4/5", "4", "3/5", "3"], "'4/5' and '4'"),
        (["model_a", "A", "B", "tie"], "'model_a' and 'A'"),
        (["\u2705", "pass", "fail", "\u274c"], "'\u2705' and 'pass'"),
        (["FAIL", "Failed", "pass"], "'Failed' and 'FAIL'"),
    ],
)
def test_verdicts_of_one_meaning_in_two_forms(verdicts, pair):
    text = notes(verdicts)
    assert f"{pair}" in text
    assert "write them alike" in text
    assert "map=" not in text


@pytest.mark.parametrize("verdicts", [["A", "B", "tie"], ["1", "2", "3"], ["pass", "fail", "partial"], ["A>B", "B>A"]])
def test_verdicts_of_several_meanings(verdicts):
    assert "two forms" not in notes(verdicts)


def test_judges_on_two_scales():
    rows = [(n, "a-1", str(1 + n % 3)) for n in range(8)] + [(n, "b-1", ("low", "high")[n % 2]) for n in range(8)]
    with silent("the verdicts"):
        text = " ".join(Verdicts.from_frame(pd.DataFrame(rows, columns=["item", "judge", "verdict"])).notes)
    assert "judges such as 'a-1' give '1', '2', '3' and others such as 'b-1'" in text


@pytest.mark.parametrize(
    ("column", "values", "noted"),
    [
        ("human", ["pass", "fail", "pass", "fail"], True),
        ("Gold label", ["PASS", "fail", "pass", None], True),
        ("human", ["good", "fine", "pass", "fail"], False),
        ("remark", ["pass", "fail", "pass", "fail"], False),
    ],
)
def test_a_column_of_human_verdicts_is_named(column, values, noted):
    assert ("has a verdict for each item and is not used" in notes(**{column: values * 2})) is noted


def test_a_column_with_several_verdicts_of_an_item_is_no_truth():
    assert "not used" not in notes(expert=["pass"] * 4 + ["fail"] * 4)


@pytest.mark.parametrize("word", ["-", "?", "<unk>", "I cannot", "I'm sorry", "unable to say", "(leer)"])
def test_marks_and_refusals_that_may_be_no_verdicts(word):
    assert f"{word!r} taken for a class" in notes(["pass", "fail", "pass", word])


@pytest.mark.parametrize("word", ["[ERROR]", "**N/A**", "<error>", "(invalid)", "[parse error]"])
def test_states_in_brackets(word):
    assert f"read as states, not as verdicts: 2 {word!r}" in notes(["pass", "fail", "pass", word])


@pytest.mark.parametrize("word", ["Error parsing output", "Failed to parse the grade", "could not extract JSON"])
def test_words_for_a_reply_that_could_not_be_read(word):
    assert f"read as states, not as verdicts: 2 {word!r}" in notes(["pass", "fail", "pass", word])
    assert "read as states" not in notes(["failure", "success", "failure to act", "error"][:3])


@pytest.mark.parametrize(
    "word", ["failed to parse the judge's response: no JSON", "Unable to extract a score", "[Cannot parse]"]
)
def test_unread_replies_with_a_reason(word):
    assert f"read as states, not as verdicts: 2 {word!r}" in notes(["pass", "fail", "pass", word])


@pytest.mark.parametrize(
    "classes",
    [
        ["Extracted all facts", "Failed to extract all facts"],
        ["Extracted all facts", "Extracted some facts", "Failed to extract all facts", "Extracted nothing"],
        ["Can parse", "Cannot parse"],
        ["can parse", "parses with warnings", "cannot parse", "other"],
        ["error decoding", "error encoding", "ok"],
        ["Failed to extract", "Extracted", "extracted in part", "other"],
    ],
)
def test_classes_that_read_as_unread_replies(classes):
    assert "read as states" not in notes(classes)


@pytest.mark.parametrize(
    "reply", ["yes, because all is named", "yes because all is named", "yes - all of the points are named"]
)
def test_verdicts_with_a_reason(reply):
    assert f"{reply!r} is taken for a class of its own" in notes(["yes", "no", "no", reply])


@pytest.mark.parametrize("reply", ["yes, partly", "yes-man", "yes and no", "yes - both"])
def test_verdicts_that_begin_alike(reply):
    assert "class of its own" not in notes(["yes", "no", "no", reply])


def test_grades_with_and_without_their_maximum():
    assert "are fractions and others such as" in notes(["8/10", "7", "9/10", "3"])


def test_classes_that_are_no_missing_verdicts():
    assert "taken for a class" in notes(["pass", "fail", "pass", "inconclusive"])
    for verdicts in (
        ["pass", "fail", "inconclusive", "inconclusive"],
        ["supported", "refuted", "supported", "inconclusive"],
        ["mild", "severe", "mild", "severe", "needs more work"],
    ):
        assert "taken for a class" not in notes(verdicts)


def test_long_replies_are_compared_once(monkeypatch):
    calls, bare = [], labelled.bare
    monkeypatch.setattr(labelled, "bare", lambda text: calls.append(text) or bare(text))
    names = np.array(
        ["pass", "fail", *(f"class{n}" for n in range(200)), *(f"so it is {n}" for n in range(200))], dtype=object
    )
    labelled._perhaps_nothing(names, [400, 400, *[1] * 400], "x")
    assert len(calls) < 10 * len(names)
