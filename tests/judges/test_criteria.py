"""Verdicts on several criteria, repeated calls of judges, words of several vocabularies, and errors of people."""

import numpy as np
import pandas as pd
import pytest
from commands import run

from crowdppl import DataError, OptionError, judges
from crowdppl.data.table.questions import CRITERIA
from crowdppl.errors import silent
from crowdppl.judges.tables.criteria_correlation import posterior

WORDS = {"helpful": ("bad", "good"), "safe": ("fail", "pass")}
RATES = {"helpful": (0.8, 0.4), "safe": (0.3, 0.9)}


def panel(items=60, accuracy=0.85, seed=0, column="metric"):
    """Verdicts of three judges on two criteria of the answers of two systems, and the true labels."""
    rng = np.random.default_rng(seed)
    rows, truth = [], []
    for i in range(items):
        for s in range(2):
            for name, words in WORDS.items():
                z = int(rng.random() < RATES[name][s])
                truth.append((f"q{i}", f"s{s}", name, words[z]))
                for j in range(3):
                    said = z if rng.random() < accuracy else 1 - z
                    rows.append((f"q{i}", f"s{s}", f"m{j}/x", name, words[said]))
    names = ["item", "system", "judge", column, "verdict"]
    return pd.DataFrame(rows, columns=names), pd.DataFrame(truth, columns=["item", "system", column, "verdict"])


@pytest.fixture(scope="module")
def both():
    verdicts, truth = panel()
    with silent():
        return judges.fit_criteria(
            verdicts, truth.groupby("metric").sample(50, random_state=0), seed=0, num_samples=200
        )


@pytest.mark.parametrize("column", CRITERIA)
def test_a_table_on_several_criteria_is_refused_in_one_line(column):
    verdicts, truth = panel(10, column=column)
    line = (
        f"the verdicts, column '{column}': 2 criteria ('helpful', 'safe'), each with true labels of its own; keep "
        "the rows of one, "
        f"or read all with Verdicts.by_criterion and fit them with crowdppl.judges.fit_criteria"
    )
    with pytest.raises(DataError) as refused:
        judges.fit(verdicts)
    assert str(refused.value) == line
    with pytest.raises(DataError, match=f"the human labels, column '{column}': 2 criteria"):
        judges.HumanLabels.from_frame(truth)


def test_a_column_that_goes_with_the_judge_or_the_item_states_no_criteria():
    verdicts, _ = panel(10)
    one = verdicts[verdicts["metric"] == "safe"].reset_index(drop=True)
    for value in (one["judge"] + " metric", one["item"].str[-1], "safe"):
        assert len(judges.Verdicts.from_frame(one.assign(metric=value))) == len(one)
    # Unless the caller says so.
    with pytest.raises(DataError, match="column 'topic': 10 criteria"):
        judges.Verdicts.from_frame(one.assign(topic=one["item"]), criterion="topic")


def test_a_column_of_an_unknown_name_is_noted():
    verdicts, _ = panel(10)
    for name in WORDS:
        verdicts["verdict"] = verdicts["verdict"].replace(dict(zip(WORDS[name], ("no", "yes"), strict=True)))
    v = judges.Verdicts.from_frame(verdicts.rename(columns={"metric": "attribute"}))
    note = next(note for note in v.notes if "attribute" in note)
    assert note == (
        "the verdicts: judges have several verdicts on an item, which column 'attribute' tells apart; they are read as repeated "
        "calls on one question; if the column states what was judged, name it with criterion=..."
    )
    numbered = verdicts.assign(attribute=verdicts["metric"].map({"helpful": 1, "safe": 2})).drop(columns="metric")
    (note,) = (note for note in judges.Verdicts.from_frame(numbered).notes if "attribute" in note)
    assert note.endswith("if they are on several answers of a system, name it with answer='attribute'")


def test_each_criterion_is_fitted_as_if_it_were_alone(both):
    verdicts, truth = panel()
    human = truth.groupby("metric").sample(50, random_state=0)
    assert list(both) == ["helpful", "safe"]
    assert len(both) == 2
    for name in both:
        own, labels = (t[t["metric"] == name].drop(columns="metric") for t in (verdicts, human))
        with silent():
            alone = judges.fit(own, labels, seed=0, num_samples=200)
        for table in ("systems", "judges", "comparisons", "next"):
            expected = getattr(alone, table)()
            rows = both.of(getattr(both, table)(), name)
            pd.testing.assert_frame_equal(rows[expected.columns], expected, check_dtype=False)
        pd.testing.assert_frame_equal(both.of(both.labels(), name)[["item", "label"]], alone.items()[["item", "label"]])
        pd.testing.assert_frame_equal(both.of(both.labels_needed(0.1), name), alone.labels_needed(0.1))
        assert f"{name}: " in repr(both)
        assert name in both._repr_html_()
    assert all(sentence.startswith(("helpful: ", "safe: ")) for sentence in both.statements)
    rates = both.systems().set_index(["criterion", "system"])["corrected"]
    true = truth.assign(passes=truth["verdict"].isin(["good", "pass"])).groupby(["metric", "system"])["passes"].mean()
    np.testing.assert_allclose(rates.sort_index(), true.sort_index(), atol=0.12)


def on_two(seed=0, items=120, together=0.8, halo=0.0, labelled=60):
    """Verdicts on two criteria whose true labels are equal in a share of the items; judges may repeat their first verdict."""
    rng = np.random.default_rng(seed)
    a = rng.random(items) < 0.5
    truth = {"fair": a, "clear": a ^ (rng.random(items) > together)}
    rows = []
    for j in range(3):
        said = {name: z ^ (rng.random(items) < 0.15) for name, z in truth.items()}
        said["clear"] = np.where(rng.random(items) < halo, said["fair"], said["clear"])
        rows += [
            (f"q{i}", f"m{j}/x", name, "ok" if one else "no") for name, y in said.items() for i, one in enumerate(y)
        ]
    people = [(f"q{i}", name, "ok" if z[i] else "no") for name, z in truth.items() for i in range(labelled)]
    verdicts = pd.DataFrame(rows, columns=["item", "judge", "criterion", "verdict"])
    return verdicts, pd.DataFrame(people, columns=["item", "criterion", "verdict"]), truth


def test_correlation_of_criteria_is_that_of_the_labels_by_people():
    verdicts, people, truth = on_two(halo=0.9, together=0.6)
    result = judges.fit_criteria(verdicts, people, num_samples=50)
    row = result.correlations().iloc[0]
    assert (row["criterion_a"], row["criterion_b"], row["labelled"], row["judged"]) == ("fair", "clear", 60, 120)
    exact = np.corrcoef(truth["fair"][:60], truth["clear"][:60])[0, 1]
    assert row["correlation"] == pytest.approx(exact, abs=0.02)
    assert row["correlation_low"] < exact < row["correlation_high"]
    wide = verdicts.assign(ok=verdicts["verdict"] == "ok").pivot_table(index="item", columns="criterion", values="ok")
    assert row["of_verdicts"] == pytest.approx(wide["fair"].corr(wide["clear"]))
    assert row["of_verdicts"] > row["correlation_high"]


def test_correlations_that_are_not_known():
    verdicts, people, _ = on_two()
    blind = judges.fit_criteria(verdicts, num_samples=50).correlations().iloc[0]
    assert blind["labelled"] == 0
    assert np.isnan(blind["correlation"])
    assert np.isfinite(blind["of_verdicts"])
    alike = people.assign(verdict=np.where(people["criterion"] == "fair", "ok", people["verdict"]))
    assert np.isnan(judges.fit_criteria(verdicts, alike, num_samples=50).correlations()["correlation"][0])
    one = judges.fit_criteria(
        {"fair": judges.Verdicts.from_frame(verdicts[verdicts["criterion"] == "fair"])}, num_samples=50
    )
    assert len(one.correlations()) == 0


def test_intervals_of_correlations_cover():
    """Of 300 intervals of 95%, fewer than 270 contain the correlation with a probability below .001."""
    rng, inside, grades = np.random.default_rng(0), 0, np.arange(2.0)
    for n in range(300):
        joint = np.array([[0.4, 0.1], [0.1, 0.4]]) if n % 2 else np.array([[0.63, 0.27], [0.07, 0.03]])
        drawn = posterior(rng.multinomial(40, joint.ravel()).reshape(2, 2).astype(float), grades, grades)
        low, high = np.quantile(drawn, [0.025, 0.975])
        inside += low <= (0.6 if n % 2 else 0.0) <= high
    assert inside >= 270


def test_one_table_of_systems_and_criteria(both):
    wide = both.rates().set_index("system")
    assert wide.columns.tolist() == [f"{name}{end}" for name in both for end in ("", "_low", "_high")]
    for name in both:
        alone = both[name].systems().set_index("system")
        for end in ("", "_low", "_high"):
            assert wide[f"{name}{end}"].to_dict() == alone[f"corrected{end}"].to_dict()
    assert wide.index.tolist() == both["helpful"].systems()["system"].tolist()


def test_what_passes_and_names_may_be_stated_by_criterion():
    verdicts, truth = panel(20)
    names = {"good": "A", "bad": "B", "pass": "ok", "fail": "ko"}
    result = judges.fit_criteria(verdicts, truth, map=names, positive=["A", "ok"], num_samples=50)
    assert [one.verdicts.labels.tolist() for one in result.values()] == [["B", "A"], ["ko", "ok"]]
    by_name = judges.fit_criteria(verdicts, truth, positive={"helpful": "bad"}, num_samples=50)
    assert [one.value.tolist() for one in by_name.values()] == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"positive": "maybe"}, "positive: 'maybe' is a class of no criterion"),
        ({"positive": {"fair": "good"}}, "positive: 'fair' is no criterion; they are 'helpful', 'safe'"),
        ({"criterion": "what"}, "the verdicts: no column 'what', which criterion=... names"),
        (
            {"human": pd.DataFrame({"item": ["q1"], "verdict": ["good"]})},
            "no column states that of a label; add a column",
        ),
        (
            {"human": pd.DataFrame({"item": ["q1"], "verdict": ["good"], "metric": "fair"})},
            "human labels are on 'fair', but the criteria of the verdicts are 'helpful', 'safe'",
        ),
        (
            {"human": pd.DataFrame({"item": ["q1"], "verdict": ["good"], "metric": [None]})},
            "the human labels, column 'metric', row 1: criterion missing; fill it in or drop the rows",
        ),
        ({"level": 2}, "level=2; an interval's probability lies between 0 and 1"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(arguments, line):
    verdicts, _ = panel(5)
    with pytest.raises((DataError, OptionError)) as refused:
        judges.fit_criteria(verdicts, **arguments)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_table_of_one_criterion_and_a_criterion_without_use():
    verdicts, _ = panel(5)
    one = verdicts[verdicts["metric"] == "safe"].drop(columns="metric")
    with pytest.raises(DataError, match="no column states several criteria"):
        judges.Verdicts.by_criterion(one)
    with pytest.raises(OptionError, match="must be Verdicts"):
        judges.fit_criteria({"safe": one})
    alike = verdicts.assign(verdict=np.where(verdicts["metric"] == "safe", "pass", verdicts["verdict"]))
    with silent(), pytest.raises(DataError, match="criterion 'safe': there is one class only"):
        judges.fit_criteria(alike)


def test_files_on_several_criteria(tmp_path):
    verdicts, _ = panel(10)
    verdicts.to_csv(tmp_path / "v.csv", index=False)
    with pytest.raises(DataError, match="column 'metric': 2 criteria"):
        judges.read(tmp_path / "v.csv")
    parts = judges.read_criteria(tmp_path / "v.csv")
    assert {name: part.labels.tolist() for name, part in parts.items()} == {name: list(w) for name, w in WORDS.items()}
    one = judges.read(tmp_path / "v.csv", metric="safe")
    np.testing.assert_array_equal(one.label, parts["safe"].label)
    with pytest.raises(
        DataError, match=r"v\.csv, column 'metric': no 'saf' \(did you mean 'safe'\?\); it has 'helpful', 'safe'"
    ):
        judges.read(tmp_path / "v.csv", metric="saf")


def test_columns_that_may_state_criteria_and_are_not_used_are_noted():
    """Each judge has a criterion of its own, or people labelled each item on one: nothing shows that they are several."""
    verdicts, truth = panel(10)
    one = verdicts[verdicts["metric"] == "safe"].reset_index(drop=True)
    v = judges.Verdicts.from_frame(one.assign(metric=one["judge"].map({"m0/x": "a", "m1/x": "a", "m2/x": "b"})))
    assert v.notes[0] == (
        "the verdicts: column 'metric' has several values on an item, each by other judges, and is not used; if each is a "
        "criterion with true labels of its own, name it with criterion=..."
    )
    assert not any("metric" in note for note in judges.Verdicts.from_frame(one.assign(metric=one["item"])).notes)
    labels = truth.drop_duplicates(["item", "system"]).assign(metric=lambda t: np.where(t["system"] == "s0", "a", "b"))
    assert judges.HumanLabels.from_frame(labels).notes == (
        "the human labels: column 'metric' has several values and is not used; if people judged several criteria, keep the rows "
        "of one, or fit all with crowdppl.judges.fit_criteria",
    )


def test_the_command_fits_each_criterion_or_one(tmp_path):
    verdicts, truth = panel(20)
    verdicts.to_csv(tmp_path / "v.csv", index=False)
    truth.head(60).to_csv(tmp_path / "h.csv", index=False)

    def judged(*words, code=0):
        done = run("judges", tmp_path / "v.csv", "--human", tmp_path / "h.csv", *words, code=code)
        return " ".join(done.output.split())

    output = judged("--out", tmp_path / "out")
    assert "All criteria: corrected rate of each system" in output
    systems = pd.read_csv(tmp_path / "out" / "systems.csv")
    assert systems["criterion"].tolist() == ["helpful", "helpful", "safe", "safe"]
    assert pd.read_csv(tmp_path / "out" / "rates_by_criterion.csv").columns[:2].tolist() == ["system", "helpful"]
    assert pd.read_csv(tmp_path / "out" / "criteria_correlations.csv")["labelled"].tolist() == [30]
    assert "Correlation of criteria across items" in output
    assert '"criteria":["helpful","safe"]' in (tmp_path / "out" / "report.html").read_text()
    output = judged("--metric", "safe")
    assert "30 of 40 items have human labels" in output
    truth.head(60).replace({"metric": {"safe": "harmless"}}).to_csv(tmp_path / "h.csv", index=False)
    output = judged("--metric", "safe", code=2)
    assert "h.csv, column 'metric': no 'safe'; it has 'helpful', 'harmless'" in output


def test_many_criteria_leave_room_for_the_names_of_systems(tmp_path):
    verdicts, _ = panel(10)
    names = [f"criterion {n}" for n in range(6)]
    table = pd.concat([verdicts[verdicts["metric"] == "safe"].assign(metric=name) for name in names])
    table.to_csv(tmp_path / "v.csv", index=False)
    lines = run("judges", tmp_path / "v.csv").output.splitlines()
    overview = lines[: next(n for n, line in enumerate(lines) if line.startswith("criterion 0: "))]
    for name in names:
        assert any(name in line for line in overview)
    headings = [line for line in overview if line.split()[:1] == ["system"]]
    assert len(headings) > 1
    for system in ("s0", "s1"):
        assert sum(line.split()[:1] == [system] for line in overview) == len(headings)


def test_a_file_is_read_once(tmp_path, monkeypatch):
    from crowdppl.judges.readers import formats

    verdicts, _ = panel(10)
    verdicts.to_csv(tmp_path / "v.csv", index=False)
    read, opened = [], formats.opened
    monkeypatch.setattr(formats, "opened", lambda *given: read.append(1) or opened(*given))
    assert list(formats.read_each(tmp_path / "v.csv")) == ["helpful", "safe"]
    assert list(formats.read_each(tmp_path / "v.csv", metric="safe")) == [None]
    assert len(read) == 2


# ---------------------------------------------------------------------- repeated calls


def calls(seed=0, items=40, times=3, accuracy=0.7):
    """Verdicts of a noisy judge and of one who is always right, called several times."""
    rng = np.random.default_rng(seed)
    truth = rng.random(items) < 0.5
    rows = [
        (i, name, bool(truth[i] ^ (rng.random() > a)), n)
        for i in range(items)
        for name, a in (("noisy", accuracy), ("sure", 1.0))
        for n in range(times)
    ]
    return pd.DataFrame(rows, columns=["item", "judge", "verdict", "n"]), truth


def test_repeated_calls_are_kept_whether_or_not_they_are_numbered():
    table, truth = calls()
    numbered = judges.Verdicts.from_frame(table.rename(columns={"n": "run"}))
    plain = judges.Verdicts.from_frame(table.drop(columns="n"))
    assert len(numbered) == len(plain) == len(table)
    np.testing.assert_array_equal(numbered.label, plain.label)
    assert "kept as repeated calls of a judge, since other rows differ in the verdict alone" in " ".join(plain.notes)
    result = judges.fit(plain, dict(enumerate(truth.tolist())), num_samples=100)
    shown = result.judges().set_index("judge")["consistency"]
    wide = table.pivot_table(index=["judge", "item"], columns="n", values="verdict", aggfunc="first")
    pairs = [(wide[a] == wide[b]) for a, b in ((0, 1), (0, 2), (1, 2))]
    expected = (sum(p.astype(int) for p in pairs) / 3).groupby("judge").mean()
    np.testing.assert_allclose(shown[["noisy", "sure"]], expected[["noisy", "sure"]])
    assert expected["sure"] == 1
    again = judges.Verdicts.from_frame(plain.to_frame())
    np.testing.assert_array_equal(again.label, plain.label)


def test_copies_of_rows_are_dropped_where_no_judge_contradicts_itself():
    table, _ = calls(times=1)
    twice = pd.concat([table.drop(columns="n")] * 2, ignore_index=True)
    v = judges.Verdicts.from_frame(twice)
    assert len(v) == len(table)
    assert f"dropped {len(table)} of {2 * len(table)} rows" in v.notes[0]
    assert "consistency" not in judges.fit(v, num_samples=50).judges()


def test_the_number_of_a_repeat_is_that_of_an_answer_unless_it_is_stated():
    table, _ = calls()
    repeats = table.rename(columns={"n": "repeat"})
    assert len(judges.Verdicts.from_frame(repeats).items) == 3 * table["item"].nunique()
    assert len(judges.Verdicts.from_frame(repeats, run="repeat").items) == table["item"].nunique()


# ---------------------------------------------------------------------- vocabularies


def test_other_words_are_mapped_by_either_side():
    verdicts, truth = judges.simulate(items=30, seed=1)
    coded = verdicts.assign(verdict=verdicts["verdict"].map({"pass": "C", "fail": "I"}))
    with pytest.raises(DataError) as refused:
        judges.fit(coded, truth)
    assert str(refused.value).endswith("state which correspond with map={'C': 'pass', 'I': 'fail'}")
    expected = judges.fit(verdicts, truth.head(40), num_samples=50).systems()["corrected"]
    for names in ({"C": "pass", "I": "fail"}, {"pass": "C", "fail": "I"}):
        ours = judges.fit(coded, truth.head(40), map=names, num_samples=50).systems()["corrected"]
        np.testing.assert_allclose(ours, expected, atol=0.03)
    for names, line in (
        ({"x": "y"}, "map: nobody gave the label 'x'"),
        ({"C": None}, "map: the name of the class of 'C' is missing"),
    ):
        with pytest.raises(OptionError, match=line):
            judges.fit(coded, map=names)


def test_judges_of_two_vocabularies_are_refused():
    verdicts, _ = judges.simulate(items=10, seed=1)
    other = verdicts["judge"] == "a-1"
    verdicts["verdict"] = verdicts["verdict"].where(~other, verdicts["verdict"].map({"pass": "yes", "fail": "no"}))
    with pytest.raises(DataError) as refused:
        judges.fit(verdicts)
    assert str(refused.value).startswith("judges use different words for the classes: ")
    assert "state which correspond with map={" in str(refused.value)
    assert judges.fit(verdicts, map={"yes": "pass", "no": "fail"}, num_samples=50).verdicts.labels.tolist() == [
        "fail",
        "pass",
    ]


@pytest.mark.parametrize("grades", [(1, 5), ("1", "5"), (1, 2), ("1", "4")])
def test_of_two_grades_the_lowest_does_not_pass(grades):
    verdicts, _ = judges.simulate(items=10, seed=1)
    verdicts["verdict"] = verdicts["verdict"].map({"fail": grades[0], "pass": grades[1]})
    with pytest.raises(DataError, match="if they are grades, declare all of them with labels"):
        judges.fit(verdicts)
    rate = judges.fit(verdicts, positive=grades[1], num_samples=50).systems()["corrected"]
    assert rate.max() > 0.6


# ---------------------------------------------------------------------- people


def test_a_stated_error_of_people_is_used():
    verdicts, truth = judges.simulate(items=60, seed=2)
    sure = judges.fit(verdicts, truth.head(60), num_samples=300, seed=0)
    unsure = judges.fit(verdicts, truth.head(60), human_error=0.1, num_samples=300, seed=0)
    assert (sure.human_error, unsure.human_error) == (0.0, 0.1)
    assert sure.probability[sure.labelled].max(1).min() == 1
    assert unsure.probability[unsure.labelled].max(1).min() < 0.99
    assert "Each human label is taken to be wrong with probability 0.10." in unsure.statements
    with pytest.raises(OptionError, match=r"human_error=0\.5 is no better than guessing among 2 classes"):
        judges.fit(verdicts, truth, human_error=0.5)


def test_sizes_of_strata_are_probabilities():
    verdicts, truth = judges.simulate(items=60, seed=2)
    human = truth.head(40).assign(stratum=["a"] * 10 + ["b"] * 30, stratum_size=[20] * 10 + [160] * 30)
    labels = judges.HumanLabels.from_frame(human)
    np.testing.assert_allclose(labels.probability, [0.5] * 10 + [30 / 160] * 30)
    by_chance = human.assign(probability=labels.probability).drop(columns=["stratum", "stratum_size"])
    ours, expected = (judges.fit(verdicts, one, num_samples=50).systems() for one in (human, by_chance))
    pd.testing.assert_frame_equal(ours, expected)
    for wrong, line in (
        ({"stratum_size": 5}, "stratum 'a' has size 5, but 10 of its items have labels"),
        ({"stratum_size": [20] * 9 + [21] * 31}, "stratum 'a' has the sizes 20 and 21; state one for each stratum"),
        ({"stratum": None}, "column 'stratum', rows 1"),
    ):
        with pytest.raises(DataError, match=line):
            judges.HumanLabels.from_frame(human.assign(**wrong))
    with pytest.raises(DataError, match="sizes of strata without strata"):
        judges.HumanLabels.from_frame(human.drop(columns="stratum"))


def test_items_that_people_picked_are_said_to_be_unlike_the_others():
    """Random samples are said to be so once in 20,000; failures with some passes always, here."""
    verdicts, truth = judges.simulate(items=150, seed=2)
    random = judges.fit(verdicts, truth.sample(100, random_state=0), num_samples=100)
    fails = truth[truth["verdict"] == "fail"].sample(80, random_state=0)
    picked = judges.fit(
        verdicts, pd.concat([fails, truth.sample(20, random_state=1)]).drop_duplicates("item"), num_samples=100
    )
    said = [any("Items with human labels look" in s for s in one.statements) for one in (random, picked)]
    assert said == [False, True]
    sentence = next(s for s in picked.statements if "look" in s)
    assert "look worse than the others" in sentence
    assert "rates are too low" in sentence
    assert "'stratum_size'" in sentence
    # Means of the verdicts on labelled items and on the others, in systems that have both.
    whole = verdicts["system"] == "s1"
    every = truth[truth["item"].isin(verdicts.loc[whole, "item"])]
    more = judges.fit(verdicts, pd.concat([fails, every]).drop_duplicates("item"), num_samples=100)
    sentence = next(s for s in more.statements if "look worse" in s)
    rest = verdicts[~whole].assign(passes=lambda t: t["verdict"] == "pass")
    passes = rest.groupby(["system", "item"])["passes"].mean().reset_index()
    passes["labelled"] = passes["item"].isin(fails["item"])
    means = passes.pivot_table(index="system", columns="labelled", values="passes")
    number = passes[passes["labelled"]].groupby("system").size()
    shown = [f"{(means[one] * number).sum() / number.sum():.0%}" for one in (True, False)]
    assert f"the mean verdict on them is {shown[0]} of the way" in sentence
    assert f"and {shown[1]} on the others" in sentence


@pytest.mark.slow
def test_the_interval_of_a_system_that_passes_always_contains_it():
    """Each of ten simulated panels; judges fail a third of its answers, and people none."""
    covered = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        rows, truth = [], {}
        for s, rate in enumerate((1.0, 0.6, 0.7, 0.5)):
            passes = rng.random(100) < rate
            for i in range(100):
                truth[f"{s}-{i}"] = "pass" if passes[i] else "fail"
                for j in range(4):
                    wrong = rng.random() < (0.33 if s == 0 else 0.2)
                    rows.append((f"{s}-{i}", f"m{j}/x", f"s{s}", "pass" if passes[i] ^ wrong else "fail"))
        table = pd.DataFrame(rows, columns=["item", "judge", "system", "verdict"])
        labels = pd.Series(truth).sample(80, random_state=seed)
        result = judges.fit(table, labels, num_samples=500, seed=0)
        row = result.systems().set_index("system").loc["s0"]
        covered.append(row["corrected_high"] == 1)
        pure = result.calibration.pure[:, 0].mean()
        assert (pure >= 0.5) == any(
            "is unlike the others: all of its human labels are 'pass'" in s for s in result.statements
        )
    assert np.mean(covered) >= 0.9


def test_many_judges_take_memory_and_time_of_their_verdicts():
    """2,000 judges of five verdicts an item: nothing of the size of all pairs of judges is made."""
    import tracemalloc

    rng = np.random.default_rng(0)
    truth = rng.random(300) < 0.6
    rows = [
        (i, f"m{j}", bool(truth[i] ^ (rng.random() < 0.2)))
        for i in range(300)
        for j in rng.choice(2000, 5, replace=False)
    ]
    families = {f"m{j}": f"f{j % 20}" for j in range(2000)}
    table = pd.DataFrame(rows, columns=["item", "judge", "verdict"])
    v = judges.Verdicts.from_frame(table, families=families)
    tracemalloc.start()
    result = judges.fit(v, {i: bool(truth[i]) for i in range(60)}, num_samples=200)
    result.panel(), result.judges(), result.next(3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    J = len(v.judges)
    assert J > 1000
    assert peak < 20 * 8 * J * 60 + 3e8
    assert result.panel().correlation.shape == (0, 0)
    assert np.abs(result.probability.argmax(1) == truth).mean() > 0.75
