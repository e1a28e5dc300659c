"""Several answers to a question: closed forms with all truths known, brute force, and simulation of coverage."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.special import comb

from crowdppl import DataError, OptionError, judges
from crowdppl.judges.tables import several_answers


def answers(seed, questions=80, number=4, accuracy=(0.8, 0.75, 0.85), rates=(0.5, 0.65)):
    """Verdicts on several answers of two systems to questions that are easy or hard, human labels, and truths by system."""
    rng = np.random.default_rng(seed)
    verdicts, labels, truths = [], [], {}
    for s, rate in enumerate(rates):
        easy = rng.beta(rate, 1 - rate, questions)
        truth = rng.random((questions, number)) < easy[:, None]
        truths[f"s{s}"] = truth
        for q in range(questions):
            for a in range(number):
                key = (q, f"s{s}", a)
                labels.append((*key, "pass" if truth[q, a] else "fail"))
                for j, right in enumerate(accuracy):
                    verdicts.append((*key, f"m{j}/x", "pass" if truth[q, a] ^ (rng.random() > right) else "fail"))
    keys = ["item", "system", "answer"]
    return (
        pd.DataFrame(verdicts, columns=[*keys, "judge", "verdict"]),
        pd.DataFrame(labels, columns=[*keys, "verdict"]),
        truths,
    )


def chen(truth, k):
    """Return pass@k, equation 1 of Chen et al. (2021)."""
    n, c = truth.shape[1], truth.sum(1)
    return np.mean(1 - comb(n - c, k) / comb(n, k))


def test_with_all_truths_known_it_is_the_estimator_of_chen():
    verdicts, labels, truths = answers(0, questions=20)
    table = judges.fit(verdicts, labels, num_samples=50).pass_at([1, 3, 4]).set_index(["system", "k"])
    for (system, k), row in table.iterrows():
        assert row["questions"] == 20
        expected = chen(truths[system], k)
        assert row[["pass_at_k", "pass_at_k_low", "pass_at_k_high"]].tolist() == pytest.approx([expected] * 3)
        assert row["all_pass"] == pytest.approx(np.mean(comb(truths[system].sum(1), k) / comb(4, k)))
    score = verdicts.assign(score=verdicts["verdict"] == "pass").groupby(["system", "item", "answer"])["score"].mean()
    for (system, k), row in table.iterrows():
        every = []
        for q in range(20):
            own = score[system][q].to_numpy().round(6)
            for chosen in combinations(range(4), k):
                top = [a for a in chosen if own[a] == own[list(chosen)].max()]
                every.append(truths[system][q, top].mean())
        # Ties are split over the order of all answers, which is the same in the mean over all choices of k.
        assert row["picked"] == pytest.approx(np.mean(every))


def test_grades_and_unequal_numbers_of_answers():
    rng = np.random.default_rng(0)
    grade = {(q, a): int(rng.integers(1, 6)) for q in range(30) for a in range(3 if q % 2 else 2)}
    verdicts = pd.DataFrame(
        [(q, a, j, int(np.clip(g + rng.integers(-1, 2), 1, 5))) for (q, a), g in grade.items() for j in ("m/1", "n/1")],
        columns=["item", "epoch", "judge", "verdict"],
    )
    human = pd.DataFrame([(q, a, g) for (q, a), g in grade.items()], columns=["item", "epoch", "verdict"])
    table = judges.fit(verdicts, human, num_samples=50).pass_at(range(1, 4)).set_index("k")
    assert table["questions"].tolist() == [30, 30, 15]
    for k in (1, 2, 3):
        best, worst = [], []
        for q in range(30):
            own = [g for (of, _), g in grade.items() if of == q]
            if len(own) >= k:
                best.append(np.mean([max(some) for some in combinations(own, k)]))
                worst.append(np.mean([min(some) for some in combinations(own, k)]))
        assert table.loc[k, "pass_at_k"] == pytest.approx(np.mean(best))
        assert table.loc[k, "all_pass"] == pytest.approx(np.mean(worst))


@pytest.mark.slow
def test_intervals_contain_pass_at_k():
    """Of 48 values 43 at least are within their 95% intervals: with a coverage of .95, fewer are in 3% of such tests.

    Labels that are drawn independently within questions find one of four answers that passes too often.
    """
    covered, bias, independent = 0, [], []
    for seed in range(8):
        verdicts, labels, truths = answers(seed)
        result = judges.fit(verdicts, labels.sample(100, random_state=seed), num_samples=400, seed=seed)
        for row in result.pass_at().to_dict("records"):
            true = chen(truths[row["system"]], row["k"])
            covered += row["pass_at_k_low"] <= true <= row["pass_at_k_high"]
            if row["k"] == 4:
                bias.append(row["pass_at_k"] - true)
                drawn = result.truth[:, result.system_names == row["system"]].reshape(400, 80, 4)
                passes = drawn == result.verdicts.labels.tolist().index("pass")
                independent.append(passes.any(2).mean() - true)
        assert result.pass_at()["k"].unique().tolist() == [1, 2, 4]
        once = result.pass_at(1).set_index("system")
        rates = result.systems().set_index("system")
        assert once["pass_at_k"].to_numpy() == pytest.approx(rates.loc[once.index, "corrected"].to_numpy(), abs=0.03)
    assert covered >= 43
    assert abs(np.mean(bias)) < 0.03 < np.mean(independent)


def test_further_questions_have_wider_intervals():
    verdicts, labels, _ = answers(3)
    result = judges.fit(verdicts, labels.sample(100, random_state=0), num_samples=200)
    here, further = result.pass_at(2), result.pass_at(2, target="population")
    assert (
        (further["pass_at_k_high"] - further["pass_at_k_low"]) > (here["pass_at_k_high"] - here["pass_at_k_low"])
    ).all()


def test_refusals():
    verdicts, truth = judges.simulate(items=20)
    single = judges.fit(verdicts.drop(columns="question"), truth.head(20), num_samples=50)
    assert not several_answers.several(single)
    with pytest.raises(DataError, match=r"number them in a column 'answer'"):
        single.pass_at()
    verdicts, labels, _ = answers(0, questions=10)
    result = judges.fit(verdicts, labels, num_samples=50)
    with pytest.raises(
        DataError, match=r"^k: no system has 5 answers to a question, the most are 4; state smaller ones$"
    ):
        result.pass_at([2, 5])
    with pytest.raises(OptionError):
        result.pass_at(0)
    pairs, preferred = judges.simulate_pairs(items=40)
    with pytest.raises(DataError, match="pairs of answers"):
        judges.fit(pairs, preferred.head(20), num_samples=50).pass_at()
