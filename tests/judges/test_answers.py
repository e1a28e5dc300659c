"""Several answers of a system to a question are items of their own; repeated calls of a judge on one answer are not."""

import json

import numpy as np
import pandas as pd
import pytest

from crowdppl import DataError, judges
from crowdppl.errors import silent

QUESTIONS, EPOCHS = 40, 3


@pytest.fixture(scope="module")
def truth():
    """Whether each answer to each question is correct, ``(QUESTIONS, EPOCHS)``."""
    rng = np.random.default_rng(2)
    return rng.random((QUESTIONS, EPOCHS)) < rng.beta(1, 1, QUESTIONS)[:, None]


def put(folder, document, name="x.json"):
    (folder / name).write_text(json.dumps(document))
    return folder / name


def grade(model, correct):
    grading = [{"role": "assistant", "content": "x", "model": model}]
    return {"value": "C" if correct else "I", "metadata": {"grading": grading}}


def log(truth, *, uuid="", names=("s", "t")):
    """A log of Inspect with two judges: one is always right, the other one is random."""
    rng = np.random.default_rng(1)
    samples = [
        {
            "id": q + 1,
            "epoch": e + 1,
            **({"uuid": f"{uuid}{q}-{e}"} if uuid else {}),
            "scores": {
                names[0]: grade("a/right", truth[q, e]),
                names[1]: grade("b/random", rng.random() < 0.5),
            },
        }
        for q in range(truth.shape[0])
        for e in range(truth.shape[1])
    ]
    scorers = [{"name": name} for name in names]
    return {
        "version": 2,
        "status": "success",
        "eval": {"task": "t", "model": "sys/m", "scorers": scorers},
        "samples": samples,
    }


def read(path, **options):
    with silent():
        return judges.read(path, **options)


def shares(verdicts, human, **options):
    with silent():
        result = judges.fit(verdicts, human, seed=0, num_samples=400, **options)
    return result.judges().set_index("judge")


def test_epochs_are_answers(truth, tmp_path):
    verdicts = read(put(tmp_path, log(truth)))
    assert len(verdicts.items) == QUESTIONS * EPOCHS
    assert len(verdicts.questions) == QUESTIONS
    assert verdicts.items[:2].tolist() == ["1 / answer 1", "1 / answer 2"]
    assert any("40 items have several answers of a system" in note for note in verdicts.notes)
    human = pd.DataFrame(
        [(q + 1, e + 1, "C" if truth[q, e] else "I") for q in range(30) for e in range(EPOCHS)],
        columns=["item", "epoch", "verdict"],
    )
    table = shares(verdicts, human, positive="C")
    assert table["share_correct_high"].iloc[0] > 0.98
    assert table["share_correct_low"].iloc[0] > 0.9


def test_human_labels_without_an_answer(truth, tmp_path):
    verdicts = read(put(tmp_path, log(truth)))
    human = pd.DataFrame({"item": range(1, 21), "verdict": np.where(truth[:20, 0], "C", "I")})
    with pytest.raises(DataError, match=r"20 human labels name questions of which several answers .* column 'answer'"):
        shares(verdicts, human)
    some = human.assign(answer=[1.0] * 15 + [None] * 5)
    with silent():
        statements = judges.fit(verdicts, some, seed=0, num_samples=200, positive="C").statements
    assert any(s.startswith("5 human labels name questions of which several answers") for s in statements)
    wrong = human.assign(answer=9)
    with pytest.raises(DataError, match="20 human labels"):
        shares(verdicts, wrong)


def test_one_epoch_changes_nothing(truth, tmp_path):
    verdicts = read(put(tmp_path, log(truth[:, :1])))
    assert verdicts.items.tolist() == list(range(1, QUESTIONS + 1))
    assert not any("answers" in note for note in verdicts.notes)
    assert len(shares(verdicts, pd.DataFrame({"item": [1, 2, 3], "verdict": ["C", "I", "C"]}), positive="C")) == 2


def test_logs_of_other_runs_and_logs_scored_again(truth, tmp_path):
    """Two logs with the same samples have two verdicts on each answer; other samples are other answers."""
    for folder, second in (("again", "u"), ("others", "v")):
        (tmp_path / folder).mkdir()
        put(tmp_path / folder, log(truth[:5, :1], uuid="u"), "a.json")
        put(tmp_path / folder, log(1 - truth[:5, :1], uuid=second), "b.json")
        verdicts = read(tmp_path / folder)
        assert len(verdicts.items) == (5 if folder == "again" else 10)
        assert len(verdicts) == 20


def test_scorers_of_one_name_have_the_models_of_their_own(truth, tmp_path):
    document = log(truth[:4, :1], names=("qa", "qa1"))
    for sample in document["samples"]:
        for score in sample["scores"].values():
            del score["metadata"]
    document["eval"]["scorers"] = [
        {"name": "qa", "options": {"model": "a/x"}},
        {"name": "qa", "options": {"model": "b/y"}},
    ]
    assert read(put(tmp_path, document)).judges.tolist() == ["a/x: qa", "b/y: qa1"]


def promptfoo(outputs):
    """Results of one test for each output, with a rubric and a rating."""
    results = [
        {
            "vars": {"question": question},
            "provider": {"id": "sys"},
            "response": {"output": output} if output is not None else {},
            "gradingResult": {
                "componentResults": [
                    {"pass": ok, "score": float(ok), "assertion": {"type": "llm-rubric", "provider": "j"}},
                    {"pass": ok, "score": float(ok), "assertion": {"type": "llm-rubric", "provider": "k"}},
                    {"pass": ok, "assertion": {"type": "human"}},
                ]
            },
        }
        for question, output, ok in outputs
    ]
    return {"results": {"results": results}}


@pytest.mark.parametrize(
    ("outputs", "items"),
    [
        ([("q", "yes", True), ("q", "no", False), ("r", "yes", True)], 3),
        ([("q", "yes", True), ("q", "yes", True), ("r", "yes", True)], 2),  # the same answer from a cache
        ([("q", None, True), ("q", None, False), ("r", None, True)], 3),
        ([("q", {"a": 1}, True), ("q", {"a": 2}, False), ("r", [1], True)], 3),
    ],
)
def test_repeats_of_promptfoo(outputs, items, tmp_path):
    verdicts = read(put(tmp_path, promptfoo(outputs)))
    assert len(verdicts.items) == items
    assert len(verdicts.questions) in (0, 2)
    with silent():
        _, labels = judges.HumanLabels.from_frame(verdicts.human).align(verdicts)
    assert len(labels) >= items
    assert verdicts.passing is True


def test_repeated_test_cases_and_metrics_of_one_name_of_deepeval(tmp_path):
    def metric(success, threshold=0.5):
        return {
            "name": "Hallucination",
            "threshold": threshold,
            "success": success,
            "score": 0.3,
            "evaluationModel": "gpt-4o",
        }

    cases = [
        {
            "input": f"q{n}",
            "actualOutput": f"answer {n} {k}",
            "metricsData": [metric(k == 0), metric(n == 0, 0.9), metric(True)],
        }
        for n in range(6)
        for k in range(2)
    ]
    verdicts = read(put(tmp_path, {"testCases": cases}))
    assert len(verdicts.items) == 12
    assert verdicts.judges.tolist() == [f"gpt-4o: Hallucination{end}" for end in ("", " 2", " 3")]
    # The metric has a bad name, and the file says what passes.
    with silent():
        assert judges.fit(verdicts, seed=0, num_samples=100).value.tolist() == [0.0, 1.0]


def test_answers_in_a_table():
    rows = [
        (q, s, e, j, "pass" if (ord(q) + e) % 2 else "fail")
        for q in "ab"
        for s in "xy"
        for e in (1, 2)
        for j in ("j", "k")
    ]
    frame = pd.DataFrame(rows, columns=["item", "system", "epoch", "judge", "verdict"])
    with silent():
        verdicts = judges.Verdicts.from_frame(frame.rename(columns={"epoch": "try"}), answer="try")
        assert len(verdicts.items) == 8
        assert verdicts.items[0] == "a / answer 1 / x"
        assert verdicts.questions.tolist() == ["a", "b"]
        human = pd.DataFrame({"item": ["a", "b"], "system": ["x", "y"], "answer": [1, 2], "verdict": ["pass", "fail"]})
        _, labels = judges.HumanLabels.from_frame(human).align(verdicts)
    assert verdicts.items[labels.item].tolist() == ["a / answer 1 / x", "b / answer 2 / y"]


def test_calls_that_failed_are_those_of_the_model_of_the_metric(truth, tmp_path):
    """Without its name they would be a judge of their own, whose answers no other judge saw, and epochs would be lost."""
    document = log(truth)
    for sample in document["samples"][::7]:
        sample["scores"]["s"] = {"value": None, "metadata": {}}
    for metric in (None, "s"):
        v = read(put(tmp_path, document), **({"metric": metric} if metric else {}))
        assert set(v.judges.tolist()) <= {"a/right: s", "b/random: t", "a/right"}
        assert len(v.items) == QUESTIONS * EPOCHS
        assert v.states().set_index("judge")["missing"].iloc[0] == len(document["samples"][::7])


def test_numbers_of_answers_are_no_replies():
    """Two judges who saw different epochs of the same questions judged different answers."""
    rows = [
        (q, name, epoch, "pass" if q % 2 else "fail")
        for q in range(10)
        for name, epochs in (("j", (1, 2)), ("k", (3, 4)))
        for epoch in epochs
    ]
    v = judges.Verdicts.from_frame(pd.DataFrame(rows, columns=["item", "judge", "epoch", "verdict"]))
    assert len(v.items) == 40


def test_replies_of_judges_are_no_answers():
    """A column of the judges' own words differs between all judges of an item."""
    rows = [(q, j, f"because {q} {j}", "pass" if q % 2 else "fail") for q in range(6) for j in ("j", "k")]
    with silent():
        verdicts = judges.Verdicts.from_frame(pd.DataFrame(rows, columns=["item", "judge", "answer", "verdict"]))
    assert len(verdicts.items) == 6


def test_calls_of_a_judge_on_one_answer_are_runs():
    rows = [
        (q, j, run, 1, "pass" if (q + run) % 2 else "fail") for q in range(4) for j in ("j", "k") for run in range(3)
    ]
    with silent():
        verdicts = judges.Verdicts.from_frame(pd.DataFrame(rows, columns=["item", "judge", "run", "epoch", "verdict"]))
    assert (len(verdicts.items), len(verdicts)) == (4, 24)


def test_answers_that_are_not_clear():
    rows = [("a", "j", 1, "pass"), ("a", "j", 2, "fail"), ("a", "j", None, "fail"), ("b", "j", None, "pass")]
    frame = pd.DataFrame(rows, columns=["item", "judge", "epoch", "verdict"])
    with pytest.raises(
        DataError, match=r"column 'epoch', row 3: answer missing, where other rows of the item have several"
    ):
        judges.Verdicts.from_frame(frame)
    twice = pd.concat([frame.head(2), pd.DataFrame([("a / answer 1", "j", 1, "pass")], columns=frame.columns)])
    with pytest.raises(DataError, match="is the name of two items"):
        judges.Verdicts.from_frame(twice)


def _deepeval(outputs):
    data = [{"name": "C", "success": n % 2 == 0, "score": 1.0, "evaluationModel": "m"} for n in range(len(outputs))]
    cases = zip(outputs, data, strict=True)
    return {
        "testCases": [
            {"name": f"t{n}", "input": "q", "actualOutput": o, "metricsData": [d]} for n, (o, d) in enumerate(cases)
        ]
    }


def _harness(outputs):
    return "\n".join(
        json.dumps(
            {"doc_id": n, "resps": [[o]], "filtered_resps": [o], "filter": "none", "metrics": ["acc"], "acc": float(n)}
        )
        for n, o in enumerate(outputs)
    )


def _openai(run):
    events = [
        {"run_id": run, "sample_id": f"s{n}", "type": "match", "data": {"correct": n == 0}, "created_at": "2024-01-01"}
        for n in range(2)
    ]
    return "\n".join(map(json.dumps, [{"spec": {"completion_fns": ["m"], "eval_name": "e", "run_id": run}}, *events]))


def _inspect(run):
    samples = [{"id": n, "epoch": 1, "scores": {"s": {"value": "CI"[n]}}} for n in range(2)]
    spec = {"run_id": run, "task": "t", "model": "m", "scorers": [{"name": "s"}]}
    return {"version": 2, "status": "success", "eval": spec, "plan": {}, "samples": samples}


RUNS = {
    "deepeval": ("json", _deepeval(["a", "b"]), _deepeval(["a", "c"]), 3),
    "lm-eval": ("jsonl", _harness(["a", "b"]), _harness(["c", "d"]), 4),
    "lm-eval again": ("jsonl", _harness(["a", "b"]), _harness(["a", "b"]), 2),
    "openai-evals": ("jsonl", _openai("r1"), _openai("r2"), 4),
    "inspect": ("json", _inspect("r1"), _inspect("r2"), 4),
    "inspect scored again": ("json", _inspect("r1"), _inspect("r1"), 2),
}


@pytest.mark.parametrize(("ending", "first", "second", "items"), RUNS.values(), ids=RUNS)
def test_other_outputs_in_another_file_of_a_folder_are_other_answers(ending, first, second, items, tmp_path):
    for name, document in (("one", first), ("two", second)):
        text = document if isinstance(document, str) else json.dumps(document)
        (tmp_path / f"{name}.{ending}").write_text(text)
    assert len(judges.read(tmp_path).items) == items


def test_samples_without_responses_are_one_answer_to_all_filters(tmp_path):
    """Their filters would otherwise be answers of their own."""
    samples = [
        {"doc_id": n, "filtered_resps": ["x"], "filter": name, "metrics": ["acc"], "acc": float(n % 2)}
        for name in ("strict", "flex")
        for n in range(6)
    ]
    (tmp_path / "samples.jsonl").write_text("\n".join(map(json.dumps, samples)))
    verdicts = judges.read(tmp_path / "samples.jsonl")
    assert (len(verdicts.items), len(verdicts.judges)) == (6, 2)


def test_events_without_a_run_are_of_one_answer(tmp_path):
    spec = {"spec": {"completion_fns": ["m", "j"], "eval_name": "e", "run_id": "r"}}
    sampling = {"run_id": "r", "sample_id": "s0", "type": "sampling", "data": {}}
    events = [
        {"sample_id": f"s{n}", "type": "metrics", "data": {"choice": "YN"[n]}} for n in range(2) for _ in range(2)
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, [spec, sampling, *events])))
    assert len(judges.read(tmp_path / "log.jsonl").items) == 2


def _rubrics(*tests):
    """Results of tests, each with the values of its rubrics and whether they pass."""

    def of(value, passed):
        return {"pass": passed, "score": 1, "reason": "r", "assertion": {"type": "llm-rubric", "value": value}}

    results = [
        {
            "vars": {"q": q},
            "provider": "x",
            "response": {"output": q},
            "gradingResult": {"componentResults": [of(*one) for one in asked]},
        }
        for q, asked in tests
    ]
    return {"results": {"results": results}}


def test_rubrics_in_another_order_are_the_same_judges(tmp_path):
    kind, right = ("kind", True), ("right", False)
    put(tmp_path, _rubrics(("a", [kind, right]), ("b", [right, kind]), ("c", [kind, right])))
    frame = judges.read(tmp_path / "x.json").to_frame()
    assert frame.groupby("judge")["verdict"].agg(set).tolist() == [{True}, {False}]


def test_rubrics_of_tests_with_the_same_input_are_different_judges(tmp_path):
    put(tmp_path, _rubrics(("a", [("kind", True)]), ("a", [("right", False)]), ("b", [("short", True)])))
    verdicts = judges.read(tmp_path / "x.json")
    assert verdicts.judges.tolist() == ["llm-rubric", "llm-rubric 2"]
    assert not verdicts.to_frame().duplicated(["item", "judge"]).any()


def test_scores_of_people_alone_are_named(tmp_path):
    score = {"name": "c", "value": 1, "source": "ANNOTATION", "traceId": "t", "dataType": "NUMERIC"}
    put(tmp_path, {"data": [score, score | {"traceId": "u"}]})
    with pytest.raises(DataError, match="its 2 verdicts are of people, none of a judge"):
        judges.read(tmp_path / "x.json")
