"""Judges calibrated by human labels: tables, states, what cannot be known, and bad input."""

import numpy as np
import pandas as pd
import pytest
import torch

from crowdppl import judges
from crowdppl.errors import CrowdpplWarning, DataError, OptionError
from crowdppl.judges import State, Verdicts
from crowdppl.judges.tables.system_table import rates


@pytest.fixture(scope="module")
def panel():
    return judges.simulate(seed=1)


@pytest.fixture(scope="module")
def result(panel):
    verdicts, truth = panel
    return judges.fit(verdicts, truth.sample(120, random_state=0), num_samples=300)


def test_the_same_seed_gives_the_same_bits(panel, result):
    verdicts, truth = panel
    torch_state = torch.get_rng_state()
    again = judges.fit(verdicts, truth.sample(120, random_state=0), num_samples=300)
    assert (again.truth == result.truth).all()
    assert (again.probability == result.probability).all()
    assert (torch.get_rng_state() == torch_state).all()
    other = judges.fit(verdicts, truth.sample(120, random_state=0), num_samples=300, seed=1)
    assert (other.truth != result.truth).any()


def test_the_order_of_rows_changes_nothing_but_the_draws(panel, result):
    verdicts, truth = panel
    mixed = judges.fit(verdicts.sample(frac=1, random_state=2), truth.sample(120, random_state=0), num_samples=1000)
    a, b = result.items().set_index("item")["p_pass"], mixed.items().set_index("item")["p_pass"]
    assert np.abs(a - b.reindex(a.index)).max() < 0.12
    assert np.abs(a - b.reindex(a.index)).mean() < 0.02


def test_labelled_items_keep_their_labels(panel, result):
    _, truth = panel
    given = truth.sample(120, random_state=0).set_index("item")["verdict"]
    items = result.items().set_index("item")
    assert items["labelled"].sum() == 120
    assert (items.loc[given.index, "label"] == given).all()
    assert (items.loc[given.index, "probability"] == 1).all()
    assert result.items()[["p_fail", "p_pass"]].sum(axis=1).to_numpy() == pytest.approx(1)


def test_rates_of_systems_are_corrected(panel, result):
    """Six simulations: intervals of 95% contain the rates of 14 of 18 systems at least (1 in 90 by chance, were coverage 92%)."""
    covered = 0
    for seed in range(6):
        verdicts, truth = judges.simulate(seed=seed, rates=(0.85, 0.6, 0.3))
        fitted = judges.fit(verdicts, truth.sample(100, random_state=seed), num_samples=300)
        share = (truth["verdict"] == "pass").groupby(truth["item"].str.split("-").str[1]).mean()
        systems = fitted.systems().set_index("system")
        covered += (systems["corrected_low"].le(share) & share.le(systems["corrected_high"])).sum()
    assert covered >= 14
    systems = result.systems()
    assert list(systems.columns[:7]) == [
        "system",
        "items",
        "labelled",
        "uncorrected",
        "corrected",
        "corrected_low",
        "corrected_high",
    ]
    assert systems["best"].sum() >= 1
    assert systems["labelled"].sum() == 120
    wider = result.systems(target="population")
    width = (wider["corrected_high"] - wider["corrected_low"]).mean()
    assert width > (systems["corrected_high"] - systems["corrected_low"]).mean()


def test_a_comparison_is_paired_by_question(result):
    """With the same questions, the difference of two systems has the draws of both."""
    pairs = result.comparisons("items")
    drawn = rates(result, "items")
    names = result.verdicts.systems.tolist()
    first = pairs.iloc[0]
    difference = drawn[:, names.index(first["system_a"])] - drawn[:, names.index(first["system_b"])]
    assert first["difference"] == pytest.approx(difference.mean())
    assert first["probability_better"] == pytest.approx((difference > 0).mean() + 0.5 * (difference == 0).mean())
    assert len(pairs) == 3


def test_counts_of_verdicts_are_those_of_a_loop(result):
    v, counts = result.verdicts, result.counts()
    J, K = len(v.judges), len(v.labels)
    for d in (0, 7):
        expected = np.zeros((J, K, K))
        np.add.at(expected, (v.judge, result.truth[d][v.item], v.label), 1)
        assert (counts[d] == expected).all()


def test_quality_of_judges_contains_the_truth(panel, result):
    _, truth = panel
    codes = truth.set_index("item")["verdict"].reindex(result.verdicts.items) == "pass"
    v = result.verdicts
    correct = v.label == codes.to_numpy().astype(int)[v.item]
    share = pd.Series(correct).groupby(v.judges[v.judge]).mean()
    table = result.judges().set_index("judge")
    share = share.reindex(table.index)
    assert (table["share_correct_low"] <= share).sum() >= 5
    assert (table["share_correct_high"] >= share).sum() >= 5
    assert table.index[0] == "c-1"
    assert table["panel_share"].sum() == pytest.approx(1)
    assert ((table["kappa"] > 0) & (table["kappa"] < 1)).all()


def test_families_share_errors(result):
    summary = result.panel()
    families = summary.families.set_index(["family_a", "family_b"])["correlation"]
    assert families["a", "a"] > families["a", "b"] + 0.1
    assert 1 < summary.effective[0] < 6
    assert summary.effective[1] <= summary.effective[0] <= summary.effective[2]
    assert summary.correlation.shape == (6, 6)
    assert "6 judges are worth" in summary.statement


def test_items_to_label_narrow_the_intervals(result):
    proposed = result.next(5)
    assert not result.items().set_index("item").loc[proposed["item"], "labelled"].any()
    assert proposed["width_after"].is_monotonic_decreasing
    needed = result.labels_needed(0.1).set_index("how")
    assert needed.loc["chosen", "labels"] <= needed.loc["random", "labels"]
    assert (result.labels_needed(0.9)["labels"] == 0).all()


def test_no_human_labels_are_never_a_narrow_interval(panel):
    """Whatever the judges agree on, half of an interval's width stays, and the result says why."""
    verdicts, _ = panel
    agreeing = verdicts.assign(verdict=verdicts.groupby("item")["verdict"].transform("first"))
    for frame in (verdicts, agreeing):
        fitted = judges.fit(frame, num_samples=300)
        systems = fitted.systems()
        assert (systems["corrected_high"] - systems["corrected_low"] > 0.1).all()
        assert "cannot be known from these judges alone" in fitted.statements[0]


def test_high_scores_speak_for_the_class_that_passes():
    """Also where its name is the first in order: correct, incorrect."""
    verdicts, _ = judges.simulate(items=60, seed=1)
    score = (verdicts["verdict"] == "pass") + np.random.default_rng(0).normal(0, 0.1, len(verdicts))
    verdicts["verdict"] = verdicts["verdict"].map({"pass": "correct", "fail": "incorrect"})
    table = judges.fit(verdicts.assign(score=score), seed=0).systems()
    assert table["system"].tolist()[0] == "s1"
    assert (judges.fit(verdicts.assign(score=score), seed=0).judges()["accuracy"] > 0.5).all()


def test_a_system_without_labels_is_transported(panel):
    verdicts, truth = panel
    of = truth["item"].str.split("-").str[1]
    fitted = judges.fit(verdicts, truth[of != "s3"].sample(150, random_state=0), num_samples=300)
    systems = fitted.systems().set_index("system")
    assert systems["transported"].to_dict() == {"s1": False, "s2": False, "s3": True}
    width = systems["corrected_high"] - systems["corrected_low"]
    assert width["s3"] > width[["s1", "s2"]].mean()
    assert any("'s3' has a human label" in sentence for sentence in fitted.statements)


def test_states_are_never_failures(panel):
    """Verdicts that are lost at random move no rate by more than its noise, and are counted apart."""
    verdicts, truth = panel
    human = truth.sample(150, random_state=0)
    lost = verdicts.copy()
    rng = np.random.default_rng(0)
    for state in ("parse_error", "abstained", None):
        lost.loc[rng.random(len(lost)) < 0.1, "verdict"] = state
    whole, partial = (judges.fit(f, human, num_samples=300) for f in (verdicts, lost))
    assert partial.verdicts.labels.tolist() == ["fail", "pass"]
    a, b = (r.systems().set_index("system")["corrected"].sort_index() for r in (whole, partial))
    assert np.abs(a - b).max() < 0.06
    table = partial.judges()
    assert table["unparseable_rate"].between(0.05, 0.13).all()
    assert table["abstention_rate"].between(0.06, 0.14).all()
    states = partial.verdicts.states()
    assert (
        states["given"] + states["missing"] + states["unparseable"] + states["abstained"] == states["verdicts"]
    ).all()


def test_an_abstention_that_depends_on_the_truth_is_used(panel):
    """A judge that abstains on most failing items makes an abstention a sign of one."""
    verdicts, truth = panel
    failing = set(truth.loc[truth["verdict"] == "fail", "item"])
    rng = np.random.default_rng(0)
    frame = verdicts[verdicts["judge"] == "b-1"].copy()
    frame.loc[frame["item"].isin(failing) & (rng.random(len(frame)) < 0.8), "verdict"] = "abstained"
    fitted = judges.fit(frame, truth.sample(150, random_state=0), num_samples=300)
    items = fitted.items().set_index("item")
    v = fitted.verdicts
    abstained = v.items[v.item[v.state == State.ABSTAINED]]
    open_items = items.loc[abstained][~items.loc[abstained, "labelled"]]
    assert open_items["p_fail"].mean() > 0.9


def test_scores_take_the_place_of_labels():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 400)
    rows = []
    for judge, quality in (("a", 2.0), ("b", 1.0), ("c", 0.0)):
        for item, z in enumerate(truth):
            rows.append((item, judge, rng.normal(quality * z, 1)))
    frame = pd.DataFrame(rows, columns=["item", "judge", "score"])
    human = pd.DataFrame({"item": np.arange(100), "verdict": truth[:100]})
    fitted = judges.fit(frame, human, num_samples=300)
    items = fitted.items()
    right = (items["label"].to_numpy() == truth[items["item"]])[~items["labelled"]]
    assert right.mean() > 0.8  # Bayes accuracy .87
    weight = fitted.judges().set_index("judge")["weight"]
    assert weight["a"] > weight["b"] > weight["c"]
    assert fitted.systems()["uncorrected"].isna().all()


def test_positions_of_answers():
    """A judge that favours the first answer is recognised, and its choices of the second count more."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 600)
    rows = []
    for judge, bias in (("biased-1", 1.5), ("fair-1", 0.0)):
        for item, z in enumerate(truth):
            swapped = rng.integers(0, 2)
            first = swapped  # the class whose answer is shown first
            logit = 1.2 * (2 * z - 1) + bias * (2 * first - 1)
            rows.append((item, judge, int(rng.random() < 1 / (1 + np.exp(-logit))), swapped))
    frame = pd.DataFrame(rows, columns=["item", "judge", "verdict", "swapped"])
    fitted = judges.fit(frame, pd.DataFrame({"item": np.arange(200), "verdict": truth[:200]}), num_samples=300)
    table = fitted.judges().set_index("judge")
    assert table.loc["biased-1", "position_bias_low"] > 0.2
    assert table.loc["fair-1", "position_bias_low"] < 0 < table.loc["fair-1", "position_bias_high"]
    assert fitted.calibration.block("position") is not None


def test_judges_seen_in_both_orders():
    rows = [(item, "j", (item + s * (item % 4 == 0)) % 2, s) for item in range(40) for s in (0, 1)]
    frame = pd.DataFrame(rows, columns=["item", "judge", "verdict", "swapped"])
    fitted = judges.fit(frame, {0: 0, 1: 1}, num_samples=50)
    assert fitted.judges()["inconsistent"].tolist() == [0.25]
    assert fitted.calibration.block("position") is None


def test_self_preference_is_found():
    """A judge that passes failing answers of its own family is recognised."""
    verdicts, truth = judges.simulate(
        accuracy=(0.85, 0.85, 0.85), family=("gpt", "llama", "qwen"), correlation=0.0, seed=0, items=300
    )
    system = {"s1": "gpt-4", "s2": "llama-3", "s3": "mistral-1"}
    verdicts["system"] = verdicts["system"].map(system)
    favoured = (verdicts["family"] == "gpt") & (verdicts["system"] == "gpt-4")
    verdicts.loc[favoured & (np.random.default_rng(0).random(len(verdicts)) < 0.6), "verdict"] = "pass"
    fitted = judges.fit(verdicts, truth.sample(200, random_state=0), num_samples=300)
    table = fitted.judges().set_index("family")
    assert table.loc["gpt", "self_preference_low"] > 0
    assert table.loc["llama", "self_preference_low"] < 0.05
    assert np.isnan(table.loc["qwen", "self_preference"])


def test_versions_of_a_judge_are_compared():
    verdicts, truth = judges.simulate(accuracy=(0.9, 0.7), family=("a", "b"), correlation=0.0, seed=0)
    two = verdicts.assign(judge="model", version=verdicts["judge"], family="m")
    fitted = judges.fit(two, truth.sample(200, random_state=0), num_samples=200)
    row = fitted.versions().iloc[0]
    assert (row["version_a"], row["version_b"], row["items"]) == ("a-1", "b-1", 600)
    assert row["difference_high"] < 0
    assert row["probability_better"] < 0.05


def test_costs():
    verdicts, truth = judges.simulate(seed=0, items=50)
    fitted = judges.fit(verdicts.assign(cost=0.01), truth.sample(60, random_state=0), num_samples=100)
    table = fitted.judges()
    assert table["cost"].to_numpy() == pytest.approx(1.5)
    share = table["panel_share"] / table["panel_share"].sum()
    number = fitted.panel().effective[0] * 150 * share
    assert table["cost_per_effective_verdict"].to_numpy() == pytest.approx(
        (table["cost"] / number).to_numpy(), rel=0.01
    )


def test_people_who_contradict_each_other_leave_the_truth_open(panel):
    verdicts, truth = panel
    first = truth.sample(100, random_state=0)
    second = first.assign(verdict=first["verdict"].where(np.random.default_rng(0).random(100) < 0.7, "pass"))
    fitted = judges.fit(verdicts, pd.concat([first, second]), num_samples=200)
    assert 0.02 < fitted.human_error < 0.3
    assert any("contradict each other" in sentence for sentence in fitted.statements)
    items = fitted.items()
    assert items.loc[items["labelled"], "probability"].min() < 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda v: v.assign(verdict=v["verdict"].where(v["judge"] != "a-1", "pass")),
            "'a-1' always gave the same verdict",
        ),
        (lambda v: v[(v["judge"] != "a-1") | (v["system"] == "s1")], "'a-1' judged one system only"),
        (lambda v: v[v["judge"] == "c-1"], "There is one judge only"),
        (lambda v: v[v["system"] == "s1"], None),
    ],
    ids=["constant judge", "judge of one system", "one judge", "one system"],
)
def test_what_cannot_be_known_is_said(panel, change, sentence):
    verdicts, truth = panel
    frame = change(verdicts)
    fitted = judges.fit(frame, truth[truth["item"].isin(frame["item"])].sample(60, random_state=0), num_samples=100)
    assert sentence is None or any(sentence in s for s in fitted.statements)
    for table in (fitted.systems(), fitted.judges(), fitted.next(3), fitted.panel().adds):
        assert len(table)
    assert fitted.systems()[["corrected", "corrected_low", "corrected_high"]].notna().all(axis=None)


def test_labels_of_one_class_only(panel):
    verdicts, truth = panel
    passing = truth[truth["verdict"] == "pass"].sample(40, random_state=0)
    fitted = judges.fit(verdicts, passing, num_samples=100)
    assert any("All human labels are 'pass'" in sentence for sentence in fitted.statements)


def test_grades_and_positive_labels():
    rng = np.random.default_rng(0)
    truth = rng.integers(1, 6, 200)
    rows = [
        (i, f"j-{j}", int(np.clip(z + rng.integers(-1, 2), 1, 5)), "ab"[i % 2])
        for j in range(3)
        for i, z in enumerate(truth)
    ]
    frame = pd.DataFrame(rows, columns=["item", "judge", "verdict", "system"])
    human = dict(zip(range(80), truth[:80].tolist(), strict=True))
    graded = judges.fit(frame, human, num_samples=200)
    assert graded.value.tolist() == [1, 2, 3, 4, 5]
    assert graded.systems()["corrected"].between(2, 4).all()
    passed = judges.fit(frame, human, positive=[4, 5], num_samples=200)
    assert passed.value.tolist() == [0, 0, 0, 1, 1]
    with pytest.raises(OptionError, match="positive=7 is no class; classes are 1, 2, 3, 4, 5"):
        judges.fit(frame, human, positive=7)


def test_unequal_probabilities_of_being_chosen(panel):
    """With equal probabilities nothing changes; unequal ones lower the effective sample size."""
    verdicts, truth = panel
    human = truth.sample(100, random_state=0)
    plain = judges.fit(verdicts, human, num_samples=100)
    equal = judges.fit(verdicts, human.assign(probability=0.2), num_samples=100)
    assert equal.probability == pytest.approx(plain.probability)
    unequal = judges.fit(verdicts, human.assign(probability=np.linspace(0.05, 1, 100)), num_samples=100)
    assert np.abs(unequal.probability - plain.probability).max() > 0.01


def test_refusals(panel):
    verdicts, _ = panel
    with (
        pytest.raises(DataError, match="there is one class only"),
        pytest.warns(CrowdpplWarning, match="every verdict"),
    ):
        judges.fit(verdicts.assign(verdict="pass"))
    with pytest.raises(OptionError, match="judge= names a column of a table"):
        judges.fit(Verdicts.from_frame(verdicts), judge="grader")
    with pytest.raises(OptionError, match="accuracies"):
        judges.simulate(accuracy=(0.9,), family=("a", "b"))


def test_strata_without_probabilities_are_not_used_silently(panel):
    verdicts, truth = panel
    human = truth.sample(60, random_state=0).assign(stratum="a")
    assert any(s.startswith("Strata of the human labels are not used") for s in judges.fit(verdicts, human).statements)
    stated = judges.fit(verdicts, human.assign(probability=0.1))
    assert not any(s.startswith("Strata") for s in stated.statements)


def test_all_of_many_items_labelled():
    """Rates are those of the labels, whatever the sample from which the weights of verdicts are learned."""
    verdicts, truth = judges.simulate(items=1050, rates=[0.7, 0.5], accuracy=[0.8], family=["a"], seed=0)
    fitted = judges.fit(verdicts, truth, num_samples=50)
    table = fitted.systems().set_index("system")
    passed = truth["verdict"].eq("pass").groupby(truth["item"].str[-2:]).mean()
    for system in ("s1", "s2"):
        assert table.loc[system, ["corrected_low", "corrected", "corrected_high"]].tolist() == pytest.approx(
            [passed[system]] * 3
        )
    assert fitted.judges()["share_correct"].iloc[0] == pytest.approx(
        (verdicts["verdict"] == truth.set_index("item")["verdict"][verdicts["item"]].to_numpy()).mean()
    )
