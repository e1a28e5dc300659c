"""Verdicts of benchmarks: what is item, system, judge and verdict, and what is no answer."""

import json

import pytest

from crowdppl import DataError, judges
from crowdppl.errors import silent
from crowdppl.judges import State


def read(folder, records, name="x.jsonl"):
    text = json.dumps(records) if name.endswith(".json") else "".join(json.dumps(record) + "\n" for record in records)
    (folder / name).write_text(text)
    with silent():
        return judges.read_frame(folder / name), judges.read(folder / name)


def rating(question, model, score, turn=1, judge="gpt-4"):
    return {
        "question_id": question,
        "model": model,
        "judge": [judge, "single-v1"],
        "score": score,
        "turn": turn,
        "tstamp": 1.7e9,
    }


def test_ratings_of_mt_bench(tmp_path):
    scores = [8, 7, -1, 3]
    records = [
        rating(81 + n, model, scores[n] - k, turn) for n in range(4) for k, model in enumerate("ab") for turn in (1, 2)
    ]
    rows, verdicts = read(tmp_path, records)
    assert rows.format == "mt-bench"
    assert verdicts.judges.tolist() == ["gpt-4"]
    assert verdicts.systems.tolist() == ["a", "b"]
    assert verdicts.items[0] == "81, turn 1 / a"
    assert len(verdicts.items) == 16
    assert -1 not in verdicts.labels.tolist()
    assert (verdicts.state == State.UNPARSEABLE).sum() == 2
    assert verdicts.labels.tolist() == [-2, 2, 3, 6, 7, 8]  # only -1 stands for no rating


def pair(question, won, judge="gpt-4"):
    games = {"g1_winner": won[0], "g2_winner": won[1]}
    return {"question_id": question, "model_1": "a", "model_2": "b", "judge": [judge, "pair-v2"], "turn": 1, **games}


def test_pairs_of_mt_bench(tmp_path):
    records = [
        pair(n, w)
        for n, w in enumerate((("model_1", "model_1"), ("model_2", "tie"), ("error", "model_1"), ("tie", "tie")))
    ]
    rows, verdicts = read(tmp_path, records)
    assert rows.format == "mt-bench"
    assert len(verdicts) == 8
    assert set(verdicts.labels.tolist()) == {"first", "second", "tie"}
    assert verdicts.swapped.tolist() == [0, 1] * 4
    assert (verdicts.state == State.UNPARSEABLE).sum() == 1
    with silent():
        assert len(judges.fit(verdicts, seed=0, num_samples=50).systems()) == 2


def test_votes_of_an_arena(tmp_path):
    records = [
        {"question_id": n, "model_a": "a", "model_b": "b", "winner": w, "judge": f"expert_{n % 2}", "turn": 1}
        for n, w in enumerate(("model_a", "model_b", "tie", "tie (bothbad)"))
    ]
    _, verdicts = read(tmp_path, records)
    assert verdicts.judges.tolist() == ["expert_0", "expert_1"]
    assert [verdicts.labels[k] for k in verdicts.label] == ["first", "second", "tie", "tie"]


@pytest.mark.parametrize(
    ("preference", "verdict"),
    [
        (1, "first"),
        (2.0, "second"),
        (1.5, "tie"),
        (0, "tie"),
        (1.02, "first"),
        (1.98, "second"),
        (None, None),
        ("x", None),
    ],
)
def test_preferences_of_alpaca_eval(preference, verdict, tmp_path):
    records = [
        {
            "instruction": f"do {n}",
            "output_1": "x",
            "output_2": "y",
            "generator_1": "base",
            "generator_2": "mine",
            "annotator": "weighted_gpt4",
            "preference": preference if n == 0 else 1.0,
            "price_per_example": 0.01,
        }
        for n in range(3)
    ]
    rows, verdicts = read(tmp_path, records, "annotations.json")
    assert rows.format == "alpaca-eval"
    assert verdicts.systems.tolist() == ["base", "mine"]
    if verdict is None:
        assert verdicts.state[0] == State.UNPARSEABLE
    else:
        assert verdicts.labels[verdicts.label[0]] == verdict
    assert verdicts.cost.tolist() == [0.01] * 3


def evals(events, models):
    return [
        {"spec": {"completion_fns": models, "eval_name": "fact.dev", "run_id": "r"}},
        *events,
        {"final_report": {"accuracy": 1}},
    ]


def event(sample, kind, **data):
    return {
        "run_id": "r",
        "event_id": 1,
        "sample_id": sample,
        "type": kind,
        "data": data,
        "created_at": "2024-01-01 00:00:00",
    }


def test_matches_and_choices_of_openai_evals(tmp_path):
    matches = [event(f"fact.{n}", "match", correct=n % 2 == 0, expected="x") for n in range(4)]
    sampling = [event(f"fact.{n}", "sampling", prompt="x") for n in range(4)]
    rows, verdicts = read(tmp_path, evals([*sampling, *matches], ["gpt-3.5"]))
    assert rows.format == "openai-evals"
    assert (len(verdicts), verdicts.judges.tolist(), verdicts.systems.tolist()) == (4, ["fact.dev"], ["gpt-3.5"])
    choices = [event(f"fact.{n}", "metrics", choice=c, score=1.0) for n, c in enumerate(("Y", "N", "__invalid__"))]
    _, verdicts = read(tmp_path, evals(choices, ["gpt-3.5", "gpt-4"]))
    assert verdicts.judges.tolist() == ["gpt-4"]
    assert verdicts.labels.tolist() == ["N", "Y"]
    assert (verdicts.state == State.UNPARSEABLE).sum() == 1
    with pytest.raises(DataError, match="no event of the type match"):
        read(tmp_path, evals(sampling, ["gpt-3.5"]))
