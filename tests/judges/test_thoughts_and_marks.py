"""Replies of judges that think aloud, put marks around a verdict, or write a sentence with it."""

import pandas as pd
import pytest

from crowdppl import judges


def verdicts(replies, **options):
    rows = [(n, f"j{k}", reply) for n, reply in enumerate(replies) for k in range(2)]
    return judges.Verdicts.from_frame(pd.DataFrame(rows, columns=["item", "judge", "verdict"]), **options)


@pytest.mark.parametrize("tag", ["think", "thinking", "Reasoning"])
def test_thoughts_are_no_part_of_a_verdict(tag):
    replies = [f"<{tag}>Of {n} points\nmost fail.</{tag}>\n\n{'pass' if n % 2 else 'fail'}" for n in range(6)]
    read = verdicts([*replies, "pass"])
    assert read.labels.tolist() == ["fail", "pass"]
    assert any("what 12 replies think before a verdict is left out" in note for note in read.notes)


def test_json_behind_a_thought():
    read = verdicts(['<think>a {"verdict": "pass"}?</think>{"verdict": "fail"}', '<think>b</think>{"verdict": "pass"}'])
    assert read.labels.tolist() == ["fail", "pass"]


def test_a_reply_that_ends_in_a_thought_is_unparseable():
    read = verdicts(["pass", "fail", "<think>It seems that", "<think>so it goes</think>"])
    assert read.labels.tolist() == ["fail", "pass"]
    assert any("4 replies end with a thought, and are unparseable" in note for note in read.notes)


@pytest.mark.parametrize("reply", ["pass <think>", "thinks: pass", "<b>pass</b>"])
def test_other_replies_are_kept(reply):
    read = verdicts([reply, "fail"])
    assert reply in read.labels.tolist()
    assert not any("think before" in note for note in read.notes)


@pytest.mark.parametrize(
    "marked", ["\\boxed{PASS}", "<answer>PASS</answer>", "**PASS**", "Verdict: [[PASS]].", "$PASS$"]
)
def test_marks_around_a_verdict(marked):
    assert verdicts([marked, "PASS", "FAIL"]).labels.tolist() == ["FAIL", "PASS"]


def test_a_class_has_its_name_without_marks():
    read = verdicts(["**PASS**", "Verdict: pass", "**PASS**", "Verdict: fail", "`fail`"])
    assert read.labels.tolist() == ["PASS", "fail"]
    frame = dict(zip(read.items[read.item].tolist(), read.labels[read.label].tolist(), strict=True))
    assert [frame[n] for n in range(5)] == ["PASS", "PASS", "PASS", "fail", "fail"]


@pytest.mark.parametrize(
    "sentence", ["The answer is right. PASS", "PASS: it names all of them", "All well said!\n**pass**"]
)
def test_a_sentence_with_a_verdict_is_asked_about(sentence):
    read = verdicts([sentence, "PASS", "FAIL"])
    assert sentence in read.labels.tolist()
    assert any("is taken for a class of its own, though it has the verdict 'PASS'" in note for note in read.notes)


@pytest.mark.parametrize(
    "words", [("not quite correct", "correct"), ("pass, with remarks", "pass"), ("e.g. fail", "good")]
)
def test_other_classes_of_several_words_are_not(words):
    assert not any("class of its own" in note for note in verdicts([*words, "other"]).notes)
