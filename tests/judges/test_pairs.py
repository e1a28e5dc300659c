"""Pairs of answers of two systems: how they are read, Davidson's model, and corrected rates."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from crowdppl import DataError, OptionError, judges
from crowdppl.judges import HumanLabels, Verdicts
from crowdppl.judges.model import pairwise


@pytest.fixture(scope="module")
def simulated():
    frame, truth = judges.simulate_pairs(seed=1)
    return frame, truth, judges.fit(frame, truth.sample(100, random_state=1), seed=1)


def small(**columns):
    table = {"item": [1, 1, 2, 2], "judge": ["x", "y"] * 2, "verdict": ["A", "B", "A", "tie"]}
    return pd.DataFrame(table | {"system": ["s"] * 4, "opponent": ["t", "t", "u", "u"]} | columns)


# ---------------------------------------------------------------------- reading


def test_a_pair_is_an_item():
    v = Verdicts.from_frame(small())
    assert v.systems.tolist() == ["s", "t", "u"]
    assert v.systems[v.system].tolist() == ["s", "s"]
    assert v.systems[v.opponent].tolist() == ["t", "u"]
    assert not v.pairs
    again = Verdicts.from_frame(v.to_frame())
    assert again.opponent.tolist() == v.opponent.tolist()


def test_a_question_with_several_pairs_names_items_by_both_systems():
    v = Verdicts.from_frame(small(item=[1, 1, 1, 1]))
    assert v.items.tolist() == ["1 / s : t", "1 / s : u"]
    assert v.pairs
    assert any("2 pairs of 1 items and 2 pairs of systems" in note for note in v.notes)
    human = HumanLabels.from_frame(pd.DataFrame({"item": [1], "system": ["s"], "opponent": ["u"], "verdict": ["B"]}))
    _, labels = human.align(v)
    assert v.items[labels.item].tolist() == ["1 / s : u"]
    with pytest.raises(DataError, match="have no opponent"):
        HumanLabels.from_frame(pd.DataFrame({"item": [1], "system": ["s"], "verdict": ["B"]})).align(v)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"opponent": ["t", None, "u", "u"]}, "opponent missing"),
        ({"opponent": ["s", "t", "u", "u"]}, "row 1: 's' is compared with itself"),
        ({"opponent": [1, 1, 2, 2]}, "use the same names in both columns"),
    ],
)
def test_unclear_pairs_are_refused(columns, words):
    with pytest.raises(DataError, match=words):
        Verdicts.from_frame(small(**columns))
    with pytest.raises(DataError, match="none of systems"):
        Verdicts.from_frame(small().drop(columns="system"))


def test_rows_in_the_other_order_are_turned():
    """The last two rows say the same of the same pair as they would in the order of the first row."""
    straight = pd.DataFrame(
        {
            "item": [1, 2, 1, 1],
            "judge": ["x", "x", "y", "z"],
            "system": ["s"] * 4,
            "opponent": ["t", "u", "t", "t"],
            "verdict": ["A", "B", "A", "tie"],
            "swapped": [0, 0, 1, 0],
        }
    )
    turned = straight.assign(
        system=["s", "s", "t", "t"], opponent=["t", "u", "s", "s"], verdict=["A", "B", "B", "tie"], swapped=[0, 0, 0, 1]
    )
    one, other = Verdicts.from_frame(straight), Verdicts.from_frame(turned)
    for name in ("items", "item", "judge", "label", "swapped", "system", "opponent"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()
    assert any("2 rows state two systems in the other order" in note for note in other.notes)
    with pytest.raises(DataError, match="with a score; state each pair in one order"):
        Verdicts.from_frame(turned.assign(score=[1.0, 0.0, 1.0, 0.5]))


@pytest.mark.parametrize("items", [[1, 1, 2, 2], [1, 1, 1, 1]])
def test_human_labels_of_the_pair_in_the_other_order_are_turned(items):
    v = Verdicts.from_frame(small(item=items))
    human = pd.DataFrame(
        {"item": [items[0], items[2]], "system": ["t", "s"], "opponent": ["s", "u"], "verdict": ["A", "A"]}
    )
    _, labels = HumanLabels.from_frame(human).align(v)
    assert v.labels[labels.label].tolist() == ["B", "A"]
    assert v.systems[v.opponent][labels.item].tolist() == ["t", "u"]


def test_human_labels_of_another_pair_are_refused():
    v = Verdicts.from_frame(small())
    human = pd.DataFrame({"item": [1], "system": ["t"], "opponent": ["u"], "verdict": ["A"]})
    with pytest.raises(DataError, match="is an answer of 's' in the verdicts, but of 't'"):
        HumanLabels.from_frame(human).align(v)
    with pytest.raises(DataError, match="is an answer of 't' in the verdicts, but of 'other'"):
        HumanLabels.from_frame(human.assign(system="s", opponent="other")).align(v)


@pytest.mark.parametrize(
    ("labels", "outcome"),
    [
        (["A", "B"], [1, -1]),
        (["A", "B", "C"], [1, -1, 0]),
        (["model_a", "model_b", "tie", "tie (bothbad)"], [1, -1, 0, 0]),
        (["better", "tie", "baseline"], [1, 0, -1]),
        (["model_a", "model_b", "tie"], [1, -1, 0]),
        ([1, 2], [1, -1]),
        ([0, 1, 2], [0, 1, -1]),
        ([0, 1], [-1, 1]),
        ([-1, 0, 1], [-1, 0, 1]),
        (["loss", "tie", "win"], [-1, 0, 1]),
        (["opponent", "system"], [-1, 1]),
        ([False, True], [-1, 1]),
    ],
)
def test_classes_of_pairs(labels, outcome):
    assert pairwise.outcomes(np.array(labels)).tolist() == outcome


def test_classes_that_name_no_side_are_refused():
    with pytest.raises(DataError, match="write 'first', 'second' and 'tie'"):
        pairwise.outcomes(np.array(["gpt", "llama", "mistral"]))
    with pytest.raises(DataError, match="'first' and 'second', also if the verdict names the better system"):
        pairwise.outcomes(np.array(["alpha", "zeta"]))
    with pytest.raises(DataError, match="declare all classes if one does not occur"):
        pairwise.outcomes(np.array(["first", "tie"]))
    with pytest.raises(OptionError, match="no class of pairs"):
        pairwise.outcomes(np.array(["x", "y"]), "z")
    assert pairwise.outcomes(np.array(["x", "y"]), ["y"]).tolist() == [-1, 1]


def test_a_blank_column_of_opponents_is_none():
    v = Verdicts.from_frame(small(opponent=[None] * 4))
    assert (v.opponent < 0).all()
    assert v.systems.tolist() == ["s"]


def test_a_table_of_an_arena_is_read(tmp_path):
    table = small().rename(columns={"system": "model_a", "opponent": "model_b", "verdict": "winner"})
    table["winner"] = table["winner"].map({"A": "model_a", "B": "model_b", "tie": "tie (bothbad)"})
    table = table.rename(columns={"item": "question_id"})
    table.to_csv(tmp_path / "battles.csv", index=False)
    v = judges.read(tmp_path / "battles.csv")
    assert v.systems.tolist() == ["s", "t", "u"]
    assert pairwise.outcomes(v.labels).tolist() == [1, -1, 0]


# ---------------------------------------------------------------------- Davidson's model


def penalised(theta, system, opponent, outcome, S):
    """Return the negative log posterior of strengths and log nu in plain Python, as Davidson (1970) writes the model."""
    total = 0.5 * sum(x * x for x in theta) / pairwise.SCALE**2
    for s, t, o in zip(system, opponent, outcome, strict=True):
        a, b = math.exp(theta[s]), math.exp(theta[t])
        tie = math.exp(theta[S]) * math.sqrt(a * b)
        total -= math.log({1: a, -1: b, 0: tie}[o] / (a + b + tie))
    return total


def test_strengths_are_the_mode_of_davidsons_model():
    rng = np.random.default_rng(0)
    S, N = 4, 60
    system = rng.integers(0, S, N)
    opponent = (system + rng.integers(1, S, N)) % S
    outcome = rng.integers(-1, 2, N)
    pairs = pairwise.distinct(system, opponent, S)
    counts = pairwise.tally(pairs, np.arange(N), outcome, np.ones(N))
    strength, log_nu = pairwise.strengths(np.stack([counts, counts]), pairs)
    best = minimize(penalised, np.zeros(S + 1), args=(system, opponent, outcome.tolist(), S), options={"gtol": 1e-9})
    assert strength[1] == pytest.approx(best.x[:S] - best.x[:S].mean(), abs=1e-4)
    assert log_nu[0] == pytest.approx(best.x[S], abs=1e-4)
    a, b, nu = math.exp(strength[0, 0]), math.exp(strength[0, 2]), math.exp(log_nu[0])
    tie = nu * math.sqrt(a * b)
    assert pairwise.preference(strength, log_nu)[0, 0, 2] == pytest.approx((a + tie / 2) / (a + b + tie))
    rate = pairwise.against_others(strength, log_nu)[0]
    assert rate.mean() == pytest.approx(0.5)


def test_without_ties_it_is_the_model_of_bradley_and_terry():
    """Counts in proportion to the probabilities give the strengths back; ties have no probability."""
    strength = np.array([0.8, 0.1, -0.9])
    cells = list(itertools.combinations(range(3), 2))
    pairs = pairwise.Pairs(np.array([a for a, _ in cells]), np.array([b for _, b in cells]), np.zeros(0, int), 3)
    win = np.array([1 / (1 + math.exp(strength[b] - strength[a])) for a, b in cells])
    counts = 1e6 * np.stack([win, 1 - win, 0 * win], 1)[None]
    fitted, log_nu = pairwise.strengths(counts, pairs)
    assert fitted[0] == pytest.approx(strength, abs=1e-4)
    assert np.isneginf(log_nu[0])
    assert pairwise.preference(fitted, log_nu)[0, 0, 1] == pytest.approx(win[0], abs=1e-4)


def test_a_system_that_wins_every_pair_has_a_finite_strength():
    pairs = pairwise.Pairs(np.array([0]), np.array([1]), np.zeros(0, int), 2)
    strength, _ = pairwise.strengths(np.array([[[20.0, 0.0, 0.0]]]), pairs)
    assert 1 < strength[0, 0] < 6


# ---------------------------------------------------------------------- results


@pytest.mark.slow
def test_rates_of_pairs_are_corrected():
    """Twelve simulations of five systems: 95% intervals contain 52 of 60 rates at least (1 in 500 by chance at 95%)."""
    covered = 0
    closer = 0
    for seed in range(12):
        frame, truth = judges.simulate_pairs(seed=100 + seed)
        result = judges.fit(frame, truth.sample(100, random_state=seed), seed=seed, num_samples=400)
        v = result.verdicts
        outcome = truth.set_index("item")["verdict"].map({"first": 1, "second": -1, "tie": 0}).loc[v.items].to_numpy()
        pairs = pairwise.distinct(v.system, v.opponent, len(v.systems))
        counts = pairwise.tally(pairs, np.arange(len(outcome)), outcome, np.ones(len(outcome)))
        rate = pairwise.against_others(*pairwise.strengths(counts[None], pairs))[0]
        table = result.systems().set_index("system").loc[v.systems]
        covered += ((table["corrected_low"] <= rate) & (rate <= table["corrected_high"])).sum()
        closer += np.abs(table["corrected"] - rate).mean() < np.abs(table["uncorrected"] - rate).mean()
    assert covered >= 52
    assert closer >= 9


def test_tables_of_pairs(simulated):
    _, truth, result = simulated
    table = result.systems()
    assert table["items"].sum() == 2 * len(truth)
    assert table["labelled"].sum() == 200
    assert table["corrected"].is_monotonic_decreasing
    assert table["strength"].is_monotonic_decreasing
    assert table["strength"].sum() == pytest.approx(0, abs=1e-6)
    better = result.comparisons()
    assert ((better["wins"] > 0.5) == (better["probability_better"] > 0.5)).mean() > 0.8
    assert ((better["wins_low"] <= better["wins"]) & (better["wins"] <= better["wins_high"])).all()
    assert {"system", "opponent"} <= set(result.items()) & set(result.next(3))
    wider = result.systems(target="population")
    assert (wider["strength_high"] - wider["strength_low"]).mean() > (
        table["strength_high"] - table["strength_low"]
    ).mean()
    assert result.judges()["position_bias"].mean() == pytest.approx(0.1, abs=0.06)


@pytest.mark.parametrize("names", [("win", "loss", "tie"), (1, 2, 0), ("model_a", "model_b", "draw")])
def test_names_of_classes_change_nothing(simulated, names):
    frame, truth, result = simulated
    other = dict(zip(("first", "second", "tie"), names, strict=True))
    renamed = frame.assign(verdict=frame["verdict"].map(other))
    human = truth.sample(100, random_state=1)
    again = judges.fit(renamed, human.assign(verdict=human["verdict"].map(other)), seed=1)
    for table, column in (("systems", "corrected"), ("judges", "position_bias"), ("judges", "accuracy")):
        key = "system" if table == "systems" else "judge"
        a, b = (getattr(r, table)().set_index(key)[column].sort_index().to_numpy() for r in (result, again))
        assert a == pytest.approx(b, abs=0.03)


def test_scores_of_pairs_speak_for_the_first_system():
    """Without human labels; a judge that also gives verdicts keeps these."""
    frame, truth = judges.simulate_pairs(seed=3, items=120)
    rng = np.random.default_rng(0)
    score = frame["verdict"].map({"first": 1.0, "second": 0.0, "tie": 0.5}) + rng.normal(0, 0.1, len(frame))
    scored = judges.fit(frame.drop(columns="verdict").assign(score=score), truth.head(30), seed=0)
    table = scored.systems().set_index("system")
    assert table["corrected"].idxmax() == "s1"
    assert table["uncorrected"].isna().all()
    assert scored.judges()["accuracy"].isna().all()
    assert "not known" in scored.panel().statement
    plain = judges.fit(frame, truth.head(30), seed=0).systems()
    noise = judges.fit(frame.assign(score=rng.random(len(frame))), truth.head(30), seed=0).systems()
    pd.testing.assert_frame_equal(plain, noise)


def test_labels_needed_starts_at_the_present_width():
    """Against one baseline, where shares of wins and rates by Davidson's model have different variances."""
    frame, truth = judges.simulate_pairs(seed=5, items=200)
    baseline = frame["system"].where(frame["system"] != "s1", frame["opponent"])
    swap = frame["system"] == "s1"
    frame = frame.assign(
        system=baseline,
        opponent="s1",
        verdict=frame["verdict"].where(
            ~swap, frame["verdict"].map({"first": "second", "second": "first", "tie": "tie"})
        ),
    )
    turned = set(frame["item"][swap])
    human = truth.head(60)
    flip = human["item"].isin(turned)
    human = human.assign(
        verdict=human["verdict"].where(
            ~flip, human["verdict"].map({"first": "second", "second": "first", "tie": "tie"})
        )
    )
    result = judges.fit(frame, human, seed=0)
    table = result.systems()
    widest = (table["corrected_high"] - table["corrected_low"]).max()
    assert result.labels_needed(1.1 * widest)["width"].max() <= 1.1 * widest
    assert (result.labels_needed(1.1 * widest)["labels"] <= 5).all()
    assert (result.labels_needed(0.8 * widest)["labels"] > 0).all()


def test_names_of_sides_change_nothing(simulated):
    """System and opponent exchanged, with the verdict and the order to match: the same rates, up to Monte Carlo error."""
    frame, truth, result = simulated
    other = {"first": "second", "second": "first", "tie": "tie"}
    turned = frame.rename(columns={"system": "opponent", "opponent": "system"})
    turned["verdict"] = turned["verdict"].map(other)
    turned["swapped"] = 1 - turned["swapped"]
    human = truth.sample(100, random_state=1)
    human = human.assign(verdict=human["verdict"].map(other))
    back = judges.fit(turned, human, seed=1).systems().set_index("system")["corrected"]
    assert back.sort_index().to_numpy() == pytest.approx(
        result.systems().set_index("system")["corrected"].sort_index().to_numpy(), abs=0.015
    )


def test_a_judge_who_prefers_its_own_family_is_found(simulated):
    frame, truth, _ = simulated
    named = frame.replace({"s1": "a-large", "s2": "llama-1", "s3": "qwen-1", "s4": "qwen-2", "s5": "phi-1"})
    own_first, own_second = ((named["family"] == "a") & (named[side] == "a-large") for side in ("system", "opponent"))
    kind = np.random.default_rng(0).random(len(named)) < 0.5
    named.loc[own_first & kind, "verdict"] = "first"
    named.loc[own_second & kind, "verdict"] = "second"
    table = judges.fit(named, truth.sample(150, random_state=0), seed=0).judges().set_index("judge")
    assert (table.loc[["a-1", "a-2"], "self_preference_low"] > 0).all()
    assert table.loc[["b-1", "c-1"], "self_preference"].isna().all()


def test_pairs_without_labels_or_with_a_system_without_labels(simulated):
    frame, truth, _ = simulated
    blind = judges.fit(frame, seed=0)
    assert (blind.systems()["corrected_high"] - blind.systems()["corrected_low"]).mean() > 0.1
    assert "No human labels" in blind.statements[0]
    pairs = frame.drop_duplicates("item").set_index("item")
    seen = pairs.index[(pairs[["system", "opponent"]] != "s5").all(axis=1)]
    partial = judges.fit(frame, truth[truth["item"].isin(seen)].head(80), seed=0)
    assert partial.systems().set_index("system")["transported"].to_dict()["s5"]
    assert any("'s5'" in sentence and "transported" in sentence for sentence in partial.statements)
