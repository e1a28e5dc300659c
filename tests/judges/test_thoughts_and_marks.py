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


@pytest.mark.parametrize(
    "reply",
    [
        "most fail</think>\n\npass",  # a template wrote the tag that opens it
        "<think>a</think><think>b</think>pass",
        "<think>a <think>b</think> c</think>pass",
        '<think>a</think>{"verdict": "pass", "reason": "no </think> here"}',
    ],
)
def test_a_verdict_is_behind_the_last_thought(reply):
    read = verdicts([reply, "pass", "fail"])
    assert read.labels.tolist() == ["fail", "pass"]
    assert any("what 2 replies think before a verdict is left out" in note for note in read.notes)


def test_tags_within_a_reply_in_json_are_no_thoughts():
    replies = ['{"verdict": "pass", "reason": "has </think>"}', '{"verdict": "fail", "reason": "<think>a</think>b"}']
    read = verdicts(replies)
    assert read.labels.tolist() == ["fail", "pass"]
    assert not any("think before" in note for note in read.notes)


@pytest.mark.parametrize(
    ("replies", "labels"),
    [
        (["<analysis>PASS</analysis>", "<analysis>FAIL</analysis>"], ["FAIL", "PASS"]),
        (["<analysis>PASS</analysis>", "FAIL"], ["FAIL", "PASS"]),
        (["<analysis>A</analysis>", "<analysis>B</analysis>"] * 2, ["A", "B"]),
        (['<think>x</think><thought>{"verdict": "pass"}</thought>', "fail"], ["fail", "pass"]),
    ],
)
def test_a_thought_that_is_a_verdict_with_nothing_behind_it(replies, labels):
    read = verdicts(replies)
    assert read.labels.tolist() == labels
    assert any("have nothing behind their thoughts and are read as what is in these" in note for note in read.notes)


def test_a_further_thought_that_was_cut_off_is_unparseable():
    read = verdicts(["pass", "fail", "<think>a</think><think>pass"])
    assert read.labels.tolist() == ["fail", "pass"]
    assert (read.state == judges.State.UNPARSEABLE).sum() == 2


def test_declared_labels_and_words_are_no_thoughts():
    read = verdicts(["<think>", "<act>"], labels=["<think>", "<act>"])
    assert (read.label >= 0).all()
    assert not any("thought" in note or "think before" in note for note in read.notes)
    read = verdicts(["<think>cut", "pass", "fail"], unparseable=["<think>cut"])
    assert (read.state == judges.State.UNPARSEABLE).sum() == 2
    assert not any("end with a thought" in note for note in read.notes)


@pytest.mark.parametrize("reply", ["pass <think>", "thinks: pass", "<b>pass</b>", "pass <think>as so</think>"])
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


@pytest.mark.parametrize("marked", ["\\boxed{%s}", "<answer>%s</answer>", "**%s**", "$\\boxed{\\text{%s}}$"])
def test_marks_tell_no_classes_apart_where_capitals_do(marked):
    assert verdicts(["A", marked % "A", "B", marked % "B"]).labels.tolist() == ["A", "B"]
    with pytest.warns(UserWarning, match="labels 'a' and 'A' differ in capitals"):
        read = verdicts(["A", marked % "A", "a", marked % "a", "B"])
    assert read.labels.tolist() == ["A", "B", "a"]
    frame = dict(zip(read.items[read.item].tolist(), read.labels[read.label].tolist(), strict=True))
    assert [frame[n] for n in range(5)] == ["A", "A", "a", "a", "B"]


def test_all_classes_have_their_names_without_marks_or_none():
    read = verdicts(["Verdict: **PASS**", "Verdict: **PASS**.", "Verdict: FAIL"])
    assert read.labels.tolist() == ["FAIL", "PASS"]
    assert any("'Verdict: FAIL' as 'FAIL'" in note for note in read.notes)
    assert verdicts(["Verdict: PASS", "Verdict: FAIL"]).labels.tolist() == ["Verdict: FAIL", "Verdict: PASS"]
    # White space is no mark.
    assert verdicts(["PASS", "PASS ", "[[FAIL]]"]).labels.tolist() == ["PASS", "[[FAIL]]"]


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
