"""Judges who favour long answers: columns of lengths, the slope against least squares, false alarms and corrected rates."""

import json

import numpy as np
import pandas as pd
import pytest

from crowdppl import DataError, OptionError, judges
from crowdppl.judges import Verdicts
from crowdppl.judges.tables.length_bias import length_bias, sentences

BIASED = (0.5, 0.5, 0.5, 0.0, 0.0, 0.0)


def panel(seed=0, verbosity=BIASED, items=200, labels=100):
    """A simulated panel with lengths, a random sample of human labels, and all true labels."""
    verdicts, truth = judges.simulate(verbosity=verbosity, seed=seed, items=items)
    return verdicts, truth.sample(labels, random_state=seed), truth


def test_with_all_labels_it_is_the_slope_of_least_squares_within_systems_and_labels():
    verdicts, _, truth = panel(items=100)
    result = judges.fit(verdicts, truth, num_samples=400)
    table = result.judges().set_index("judge")
    answers = verdicts.drop_duplicates("item").set_index("item")
    log = np.log1p(answers["length"])
    distance = np.subtract(*np.quantile(log, [0.75, 0.25]))
    for judge, own in verdicts.groupby("judge"):
        own = own.set_index("item")
        strata = pd.get_dummies(own["system"] + truth.set_index("item")["verdict"][own.index], dtype=float)
        x = np.column_stack([log[own.index], strata])
        slope = np.linalg.lstsq(x, (own["verdict"] == "pass").to_numpy(float), rcond=None)[0][0]
        row = table.loc[judge]
        assert row["length_bias"] == pytest.approx(slope * distance, abs=0.008)
        assert row["length_bias_low"] < slope * distance < row["length_bias_high"]


def test_biased_judges_are_named_and_rates_are_corrected():
    verdicts, human, truth = panel()
    result = judges.fit(verdicts, human, num_samples=400)
    said = sentences(result)
    assert sorted(sentence.split("'")[1] for sentence in said[:-1]) == ["a-1", "a-2", "a-3"]
    assert all("favours longer answers" in sentence for sentence in said[:-1])
    assert "at most 5% of such panels" in said[-1]
    assert set(said) <= set(result.statements)
    assert result.calibration.block("length") is not None
    # The last system writes the longest answers: without lengths it is too high beside the first.
    true = (truth["verdict"] == "pass").groupby(truth["item"].str.split("-").str[1]).mean()
    excess = []
    for one in (result, judges.fit(verdicts.drop(columns="length"), human, num_samples=400)):
        rate = one.systems().set_index("system")["corrected"] - true
        excess.append(rate["s3"] - rate["s1"])
    assert abs(excess[0]) < abs(excess[1])


def test_without_human_labels_nobody_is_named():
    verdicts, _, _ = panel()
    blind = judges.fit(verdicts, num_samples=100)
    assert sentences(blind) == []
    assert np.isfinite(blind.judges()["length_bias"]).all()


def test_lengths_that_do_not_vary_are_not_used():
    verdicts, human, _ = panel()
    same = judges.fit(verdicts.assign(length=7), human, num_samples=100)
    assert length_bias(same) is None
    assert same.calibration.block("length") is None
    without = judges.fit(verdicts.drop(columns="length"), human, num_samples=100)
    np.testing.assert_array_equal(same.truth, without.truth)
    assert "length_bias" not in without.judges()


def test_judges_with_scores_only_and_lengths_not_known():
    verdicts, human, _ = panel()
    rng = np.random.default_rng(0)
    answers = verdicts.drop_duplicates("item")
    score = 0.3 * rng.standard_normal(len(answers)) + np.log(answers["length"]) / 2
    scores = answers.assign(judge="scores", family="scores", verdict=None, score=score)
    unknown = answers["item"].head(50)
    table = pd.concat([verdicts.assign(score=np.nan), scores])
    table["length"] = table["length"].where(~table["item"].isin(unknown))
    result = judges.fit(table, human, num_samples=200)
    assert np.isnan(result.verdicts.length).sum() == 50
    assert (result.features.length[np.isnan(result.verdicts.length)] == 0).all()
    row = result.judges().set_index("judge").loc["scores"]
    assert row["length_bias_low"] > 0.2


def test_pairs():
    """A judge who prefers the longer of two answers."""
    verdicts, preferred = judges.simulate_pairs(seed=1, items=400)
    rng = np.random.default_rng(0)
    names = pd.unique(verdicts["item"])
    first, second = (pd.Series(np.exp(5 + 0.6 * rng.standard_normal(len(names))).astype(int), names) for _ in range(2))
    verdicts = verdicts.assign(
        length=first[verdicts["item"]].to_numpy(), opponent_length=second[verdicts["item"]].to_numpy()
    )
    longer = np.where(verdicts["length"] > verdicts["opponent_length"], "first", "second")
    follows = (verdicts["judge"] == "c-1") & (rng.random(len(verdicts)) < 0.4)
    verdicts["verdict"] = verdicts["verdict"].where(~follows, longer)
    result = judges.fit(verdicts, preferred.sample(150, random_state=0), num_samples=400)
    table = result.judges().set_index("judge")
    assert table.loc["c-1", "length_bias_low"] > 0.15
    said = sentences(result)
    assert said[0].startswith("'c-1' favours the longer one of two answers: at equal true labels")
    assert len(said) == 2
    # Rows that state the two systems in the other order are turned, lengths with them.
    other = {"system": "opponent", "opponent": "system", "length": "opponent_length", "opponent_length": "length"}
    turned = verdicts.copy()
    rows = turned["judge"] == "b-1"
    turned.loc[rows, list(other)] = verdicts.loc[rows, list(other.values())].to_numpy()
    turned.loc[rows, "verdict"] = verdicts.loc[rows, "verdict"].replace({"first": "second", "second": "first"})
    turned.loc[rows, "swapped"] = 1 - verdicts.loc[rows, "swapped"]
    read = Verdicts.from_frame(turned)
    np.testing.assert_array_equal(read.length, result.verdicts.length)
    np.testing.assert_array_equal(read.opponent_length, result.verdicts.opponent_length)


def test_columns_of_lengths():
    verdicts, _, _ = panel()
    plain = Verdicts.from_frame(verdicts)
    assert len(plain.length) == len(plain.items)
    tokens = Verdicts.from_frame(verdicts.rename(columns={"length": "answer_tokens"}))
    np.testing.assert_array_equal(tokens.length, plain.length)
    assert any("'answer_tokens': read as the length of each answer" in note for note in tokens.notes)
    words = Verdicts.from_frame(verdicts.rename(columns={"length": "n"}), length="n")
    np.testing.assert_array_equal(words.length, plain.length)
    # Tokens of the judge's reply differ between the verdicts on one answer.
    replies = verdicts.rename(columns={"length": "tokens"}).assign(tokens=np.arange(len(verdicts)))
    unused = Verdicts.from_frame(replies)
    assert len(unused.length) == 0
    assert any("'tokens': several values for one answer" in note for note in unused.notes)
    with pytest.raises(DataError, match=r"column 'tokens', row.* item 'q0-s1' has the length 1, but 0 in a row before"):
        Verdicts.from_frame(replies, length="tokens")
    with pytest.raises(DataError, match="is a length below 0"):
        Verdicts.from_frame(verdicts.assign(length=-1))
    with pytest.raises(DataError, match="is not a finite number"):
        Verdicts.from_frame(verdicts.assign(length="long"))
    with pytest.raises(OptionError, match="6 accuracies and 2 of verbosity"):
        judges.simulate(verbosity=(0.1, 0.2))


def test_pairs_need_both_lengths():
    verdicts, _ = judges.simulate_pairs(seed=1, items=20)
    verdicts = verdicts.assign(length=3)
    read = Verdicts.from_frame(verdicts)
    assert len(read.length) == 0
    assert any("lengths of the first answer of each pair only, which are not used" in note for note in read.notes)
    with pytest.raises(DataError, match="opponent_length="):
        Verdicts.from_frame(verdicts, length="length")


def test_lengths_are_kept(tmp_path):
    verdicts, human, _ = panel(items=40, labels=30)
    verdicts.rename(columns={"length": "Tokens"}).to_csv(tmp_path / "v.csv", index=False)
    read = judges.read(tmp_path / "v.csv", length="Tokens")
    result = judges.fit(read, human, num_samples=50)
    back = judges.load(result.save(tmp_path / "r.nc"))
    pd.testing.assert_frame_equal(back.judges(), result.judges())
    np.testing.assert_array_equal(Verdicts.from_frame(read.to_frame()).length, read.length)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("panels", "least", "most"), [(40, 199, 7), pytest.param(80, 430, 11, marks=pytest.mark.longest)]
)
def test_coverage_and_false_alarms(panels, least, most):
    """80 panels in which no judge favours a length, and 80 in which three do; or 40.

    Of 480 intervals of 95%, fewer than 430 contain the value with a probability below 1e-6, also if the six of a panel went
    together by three; of 240, fewer than 199 with one below 1e-4. If at most 5% of panels name a judge, more than 11 of 80, or 7
    of 40, do with a probability below .002.
    """
    for verbosity in ((0.0,) * 6, BIASED):
        large, _, truth = panel(seed=999, verbosity=verbosity, items=3000)
        of_all = judges.fit(large, truth, num_samples=50).judges().set_index("judge")["length_bias"]
        covered, accused, named = 0, 0, 0
        for seed in range(panels):
            verdicts, human, _ = panel(seed, verbosity)
            result = judges.fit(verdicts, human, num_samples=400)
            table = result.judges().set_index("judge")
            true = of_all[table.index]
            covered += ((table["length_bias_low"] <= true) & (true <= table["length_bias_high"])).sum()
            who = {sentence.split("'")[1] for sentence in sentences(result)[:-1]}
            accused += bool(who - {"a-1", "a-2", "a-3"}) if any(verbosity) else bool(who)
            named += len(who & {"a-1", "a-2", "a-3"})
        assert covered >= least
        assert accused <= most
        if any(verbosity):
            assert named > 0.9 * 3 * panels


def test_lengths_of_answers_in_logs(tmp_path):
    pair = {"instruction": "q", "generator_1": "m", "generator_2": "base", "annotator": "gpt"}
    records = [
        pair | {"preference": 1 + n % 2, "instruction": f"q{n}", "output_1": "a" * n, "output_2": "b" * (9 - n)}
        for n in range(4)
    ]
    (tmp_path / "annotations.json").write_text(json.dumps(records))
    read = judges.read(tmp_path / "annotations.json")
    assert read.length.tolist() == [0, 1, 2, 3]
    assert read.opponent_length.tolist() == [9, 8, 7, 6]
    samples = [
        {"id": n, "epoch": 1, "scores": {"match": {"value": "CI"[n % 2]}}, "output": {"completion": "x" * n}}
        for n in range(1, 4)
    ]
    log = {"status": "success", "eval": {"task": "t", "model": "m/1"}, "samples": samples}
    (tmp_path / "log.json").write_text(json.dumps(log))
    assert judges.read(tmp_path / "log.json").length.tolist() == [1, 2, 3]
