"""Verdicts, names of judges and columns that are read as they are, with a note on what they may be otherwise."""

import json

import pandas as pd
import pytest

from crowdppl import judges
from crowdppl.errors import silent
from crowdppl.judges import Verdicts


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
