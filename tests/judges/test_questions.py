"""What other answers to the same questions say of an answer."""

import importlib
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from crowdppl import judges
from crowdppl.judges.model import questions
from crowdppl.judges.model.features import features_of
from crowdppl.judges.model.questions import question_rates
from crowdppl.judges.verdicts import Verdicts


def answers(seed, systems=4, number=60, spread=1.5):
    """Shares of two classes in the verdicts on the answers of systems to the same questions, in a random order."""
    rng = np.random.default_rng(seed)
    system, question = (x.ravel() for x in np.indices((systems, number)))
    passes = 1 / (1 + np.exp(-spread * rng.standard_normal(number)[question] - 0.3 * system))
    share = rng.binomial(5, passes) / 5
    order = rng.permutation(len(share))
    return np.stack([1 - share, share], 1)[order], system[order], question[order]


def by_hand(share, system, question, rho):
    """The same, answer by answer."""
    n = len(share)
    mean = [sum(row[k] for row in share) / n for k in range(2)]
    own = {s: [np.mean([share[i][k] for i in range(n) if system[i] == s]) for k in range(2)] for s in set(system)}
    out = []
    for i in range(n):
        others = [j for j in range(n) if system[j] != system[i] and question[j] == question[i]]
        m, row = len(others), []
        for k in range(2):
            total = sum(share[j][k] - own[system[j]][k] for j in others)
            predicted = total * rho / (1 + (m - 1) * rho) if m else 0.0
            row.append(math.log((max(mean[k] + predicted, 0.25 * mean[k]) + 0.05) / (mean[k] + 0.05)))
        out.append(row)
    return out


def test_log_ratios_are_those_answer_by_answer(monkeypatch):
    share, system, question = answers(0, number=12)
    kept = np.arange(len(share)) > 5  # not all systems answered all questions
    # ... and some have several answers
    share, system, question = (np.concatenate([x[kept], x[:9]]) for x in (share, system, question))
    monkeypatch.setattr(questions, "_correlation", lambda *_: 0.4)
    got = question_rates(share, np.ones(len(share), dtype=bool), system, question)
    assert got == pytest.approx(np.array(by_hand(share.tolist(), system.tolist(), question.tolist(), 0.4)))


def test_the_correlation_is_that_of_two_answers_less_its_error():
    rng = np.random.default_rng(1)
    question, others = np.repeat(np.arange(4000), 3), np.full(12000, 2)
    around = (np.sqrt(0.3) * rng.standard_normal(4000)[question] + np.sqrt(0.7) * rng.standard_normal(12000))[:, None]
    theirs = np.repeat(around.reshape(4000, 3).sum(1), 3)[:, None] - around
    assert 0.26 < questions._correlation(around, theirs, question, others) < 0.3  # .3, its error of .01 taken off
    few = slice(0, 300)
    assert questions._correlation(around[few], theirs[few], question[few], others[few]) < 0.3


def test_questions_whose_answers_are_not_alike_say_little():
    largest = []
    for seed in range(20):
        share, system, question = answers(seed, spread=0.0)
        largest.append(np.abs(question_rates(share, np.ones(len(share), dtype=bool), system, question)).max())
    assert np.mean(np.array(largest) == 0) > 0.5
    share, system, question = answers(0)
    assert np.abs(question_rates(share, np.ones(len(share), dtype=bool), system, question)).std() > 0.2


def test_a_class_that_no_judge_names_has_finite_ratios():
    share, system, question = answers(0)
    share = np.concatenate([share, np.zeros((len(share), 1))], 1)
    assert np.isfinite(question_rates(share, np.ones(len(share), dtype=bool), system, question)).all()


def test_answers_without_verdicts_or_question_have_none():
    share, system, question = answers(0)
    judged = np.ones(len(share), dtype=bool)
    judged[:10], question[10:20] = False, -1
    got = question_rates(share, judged, system, question)
    assert (got[:20] == 0).all()
    assert (got[20:] != 0).all()
    assert question_rates(share, judged, np.zeros_like(system), question).shape == (len(share), 0)
    assert question_rates(share, judged, system, np.arange(len(share))).shape == (len(share), 0)


def panel(seed, spread):
    """Verdicts of three judges on answers of four systems to 100 questions, and the true labels."""
    rng = np.random.default_rng(seed)
    system, question = (x.ravel() for x in np.indices((4, 100)))
    passes = rng.random(400) < 1 / (1 + np.exp(-spread * rng.standard_normal(100)[question] - 0.4 * (system - 1)))
    rows = [
        (f"q{q}-s{s}", f"s{s}", q, f"m{j}/x", "pass" if p ^ (rng.random() < 0.25) else "fail")
        for s, q, p in zip(system, question, passes, strict=True)
        for j in range(3)
    ]
    frame = pd.DataFrame(rows, columns=["item", "system", "question", "judge", "verdict"])
    return frame, pd.DataFrame(
        {"item": frame["item"].iloc[::3].to_numpy(), "verdict": np.where(passes, "pass", "fail")}
    )


def test_other_answers_to_hard_questions_lower_the_log_loss():
    losses = []
    for seed in range(4):
        frame, truth = panel(seed, 2.5)
        human = truth.sample(60, random_state=seed)
        losses.append([])
        for table in (frame, frame.drop(columns="question")):
            result = judges.fit(table, human, seed=0, num_samples=200)
            label = pd.Series(truth["verdict"].to_numpy(), truth["item"]).loc[result.verdicts.items].to_numpy()
            code = (label == "pass").astype(int)
            p = result.probability[np.arange(len(code)), code][~result.labelled]
            losses[-1].append(-np.log(p).mean())
    assert np.mean(losses, 0)[0] < np.mean(losses, 0)[1] - 0.02


def test_only_answers_of_several_systems_have_the_block():
    frame, _ = panel(0, 1.5)
    names = [block.name for block in features_of(Verdicts.from_frame(frame)).blocks]
    assert names[-2:] == ["system", "question_rate"]
    one = Verdicts.from_frame(frame.drop(columns="system"))
    assert "question_rate" not in [block.name for block in features_of(one).blocks]


def test_results_of_versions_without_questions_are_read(tmp_path, monkeypatch):
    frame, truth = panel(0, 1.5)

    def earlier(*given):
        of = features_of(*given)
        return replace(of, question_rate=of.question_rate[:, :0])

    with monkeypatch.context() as patch:
        patch.setattr(importlib.import_module("crowdppl.judges.fit"), "features_of", earlier)
        old = judges.fit(frame, truth.head(50), num_samples=50)
    old.save(tmp_path / "old.nc")
    again = judges.load(tmp_path / "old.nc")
    assert [b.name for b in again.calibration.blocks] == [b.name for b in old.calibration.blocks]
    assert (again.systems() == old.systems()).all().all()
