"""Verdicts of benchmarks: what is item, system, judge and verdict, and what is no answer."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

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
        (-1, None),
        (0.3, None),
        (3, None),
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
    assert any("0 is read as a tie" in note for note in rows.notes) is (preference == 0)


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


def vote(question, won, judge="arena_user_1", **others):
    record = {"question_id": question, "model_a": "a", "model_b": "b", "winner": won, "judge": judge, "anony": True}
    return record | others


def test_votes_of_people_in_an_arena(tmp_path):
    won = ("model_a", "model_b", "tie (bothbad)", "tie")
    records = [vote(f"q{n}", w, f"arena_user_{n}") for n, w in enumerate(won)]
    records += [
        vote("q9", "model_a", anony=False),
        vote("q8", "model_a", dedup_tag={"sampled": False}),
        vote("q7", "?"),
    ]
    rows, verdicts = read(tmp_path, records, "battles.json")
    assert rows.format == "arena"
    assert (verdicts.judges.tolist(), len(verdicts)) == (["people"], 4)
    assert verdicts.human["verdict"].tolist() == ["first", "second", "tie", "tie"]
    assert [verdicts.labels[k] for k in verdicts.label] == ["first", "second", "tie", "tie"]
    for reason in ("names of the models", "repeated prompts", "without a winner"):
        assert any(reason in note for note in rows.notes)
    # Beside verdicts of a model, people are not judges.
    _, verdicts = read(tmp_path, [*records, *(vote(f"q{n}", "model_a", "gpt-4") for n in range(4))], "battles.json")
    assert verdicts.judges.tolist() == ["gpt-4"]
    assert len(verdicts.human) == 4


def test_marks_of_votes_that_are_texts(tmp_path):
    tags = [
        "{'high_freq': True, 'sampled': False}",
        '{"high_freq": true, "sampled": false}',
        "{'sampled': True}",
        "{'",
        "",
    ]
    table = pd.DataFrame([vote(f"q{n}", "model_a", dedup_tag=tag) for n, tag in enumerate(tags)])
    seen = pd.DataFrame([vote(f"s{n}", "model_b", anony=text) for n, text in enumerate(("0", "0.0", "FALSE", "False"))])
    pd.concat([table, seen]).to_csv(tmp_path / "battles.csv", index=False)
    with silent():
        verdicts = judges.read(tmp_path / "battles.csv")
    assert verdicts.items.tolist() == ["q2", "q3", "q4"]


def test_votes_in_a_table_with_a_column_for_each_outcome(tmp_path):
    names = ["id", "model_a", "model_b", "winner_model_a", "winner_model_b", "winner_tie"]
    lines = [",".join(names), "1,x,y,1,0,0", "2,y,x,0,1,0", "3,x,y,0,0,1"]
    (tmp_path / "train.csv").write_text("\n".join(lines))
    with silent():
        verdicts = judges.read(tmp_path / "train.csv")
    assert [verdicts.labels[k] for k in verdicts.label] == ["first", "second", "tie"]
    (tmp_path / "train.csv").write_text("\n".join([lines[0], "1,x,y,0,0,0"]))
    with pytest.raises(DataError, match=r"no verdict in this file of an arena's votes.*without a winner"):
        judges.read(tmp_path / "train.csv")


def test_strengths_of_an_arena_are_those_of_bradley_and_terry(tmp_path):
    """With people alone, rates on the votes have no interval, and those on further votes are as wide as of the votes."""
    rng = np.random.default_rng(0)
    records = []
    for n in range(300):
        a, b = rng.choice(3, 2, replace=False)
        first = rng.random() < 1 / (1 + np.exp(b - a))
        records.append(vote(n, "model_a" if first else "model_b", model_a=f"m{a}", model_b=f"m{b}"))
    _, verdicts = read(tmp_path, records, "battles.json")
    with silent():
        result = judges.fit(verdicts, num_samples=100)
    table = result.systems().set_index("system")
    assert (table["elo_high"] - table["elo_low"]).max() < 1e-6
    further = result.systems("population").set_index("system")
    assert (further["elo_high"] - further["elo_low"]).between(30, 150).all()
    # The likelihood of Bradley and Terry, with the prior of the strengths.
    wins = np.zeros((3, 3))
    for record in records:
        a, b = int(record["model_a"][1]), int(record["model_b"][1])
        wins[(a, b) if record["winner"] == "model_a" else (b, a)] += 1

    def loss(s):
        return (wins * np.log1p(np.exp(s[None] - s[:, None]))).sum() + (s**2).sum() / 18

    best = minimize(loss, np.zeros(3), tol=1e-12).x
    expected = 1000 + 400 / np.log(10) * (best - best.mean())
    assert table.loc[["m0", "m1", "m2"], "elo"].to_numpy() == pytest.approx(expected, abs=0.1)


def test_arena_hard(tmp_path):
    scores = [("A>>B", "B>A"), ("B>A", "A>B"), ("A=B", None), (None, "A<B")]
    records = [
        {"question_id": n, "model": "mine", "judge": "gpt-4", "games": [{"score": s} for s in pair]}
        for n, pair in enumerate(scores)
    ]
    records[3]["games"][0] = None
    rows, verdicts = read(tmp_path, records)
    assert rows.format == "arena-hard"
    assert verdicts.systems.tolist() == ["mine", "baseline"]
    given = [None if k < 0 else verdicts.labels[k] for k in verdicts.label]
    # The first game shows the baseline as A, the second the model.
    assert given == ["second", "second", "first", "first", "tie", None, None, "second"]
    assert verdicts.swapped.tolist() == [1, 0] * 4
    assert [State(s).name for s in verdicts.state[5:7]] == ["UNPARSEABLE", "MISSING"]


def helm_run(annotations, model="org/mine", **state):
    states = [
        {"instance": {"id": f"id{n}"}, "train_trial_index": 0, "annotations": a} | state
        for n, a in enumerate(annotations)
    ]
    return {"adapter_spec": {"method": "generation", "model": model}, "request_states": states}


def test_annotations_of_helm(tmp_path):
    safe = [
        {"xstest": {"prompt_text": "...", "gpt_score": s, "gpt_reasoning": "...", "llama_score": t}}
        for s, t in ((1.0, 0.0), (0.0, None), (1.0, 1.0))
    ]
    rows, verdicts = read(tmp_path, helm_run(safe), "scenario_state.json")
    assert rows.format == "helm"
    assert (verdicts.judges.tolist(), verdicts.systems.tolist()) == (["gpt", "llama"], ["org/mine"])
    assert verdicts.items[0] == "id0"
    assert [State(s).name for s in verdicts.state].count("UNPARSEABLE") == 1
    assert verdicts.labels.tolist() == [False, True]
    # A jury with two criteria, a single judge, and equivalences.
    jury = [
        {"medalign": {"gpt": {"accuracy": {"score": n}, "clarity": {"score": 5}}, "prompt_text": "x"}} for n in (1, 4)
    ]
    rows, _ = read(tmp_path, helm_run(jury), "scenario_state.json")
    assert rows.frame[["metric", "verdict"]].to_numpy().tolist() == [
        ["accuracy", 1],
        ["clarity", 5],
        ["accuracy", 4],
        ["clarity", 5],
    ]
    _, verdicts = read(tmp_path, helm_run([{"wildbench": {"score": s}} for s in (7.0, 3.0)]), "scenario_state.json")
    assert (verdicts.judges.tolist(), verdicts.labels.tolist()) == (["wildbench"], [3, 7])
    texts = [{"wildbench": {"score": s}} for s in ("7", " 3.0 ", "none")]
    _, verdicts = read(tmp_path, helm_run(texts), "scenario_state.json")
    assert verdicts.labels.tolist() == [3, 7]
    assert verdicts.state.tolist() == [State.GIVEN, State.GIVEN, State.UNPARSEABLE]
    same = [{"omni_math": {"gpt_equivalence_of_answers": word}} for word in ("TRUE", "FALSE", "")]
    _, verdicts = read(tmp_path, helm_run(same), "scenario_state.json")
    assert verdicts.labels.tolist() == [False, True]
    assert verdicts.state.tolist() == [State.GIVEN, State.GIVEN, State.UNPARSEABLE]
    with pytest.raises(DataError, match="no annotation of a model"):
        read(tmp_path, helm_run([None, {}]), "scenario_state.json")


def test_a_folder_of_runs_of_helm(tmp_path):
    for model in ("org/a", "org/b"):
        folder = tmp_path / "runs" / model.replace("/", "_")
        folder.mkdir(parents=True)
        run = helm_run([{"xstest": {"gpt_score": float(n % 2)}} for n in range(3)], model)
        (folder / "scenario_state.json").write_text(json.dumps(run))
        stats = [{"name": {"name": "exact_match", "split": "test"}, "count": 1, "mean": 1.0}]
        other = [{"instance_id": "id0", "train_trial_index": 0, "stats": stats}]
        (folder / "per_instance_stats.json").write_text(json.dumps(other))
    with silent():
        verdicts = judges.read(tmp_path / "runs")
    assert verdicts.systems.tolist() == ["org/a", "org/b"]
    assert len(verdicts.items) == 6
