"""Tables of human labels whose columns have the names of an evaluation tool."""

import json

import pandas as pd
import pytest
from commands import run
from judge_files import component, grade, inspect_log, result, sample

from crowdppl import DataError, judges
from crowdppl.errors import silent
from crowdppl.judges.people.human_columns import labelled, with_usual_names

N = 12


def of_systems():
    """Verdicts on the answers of two systems to the same questions, and labels of some."""
    rows = [
        {"item": f"q{n}", "system": s, "judge": j, "verdict": "pass" if (n + len(s)) % k else "fail"}
        for n in range(N)
        for s in ("mini", "large")
        for j, k in (("a", 2), ("b", 3))
    ]
    people = [(f"q{n}", s, "pass" if n % 2 else "fail") for n in range(6) for s in ("mini", "large")]
    return pd.DataFrame(rows), people


def test_items_systems_and_labels_are_found_by_their_values():
    verdicts, people = of_systems()
    usual = pd.DataFrame(people, columns=["item", "system", "verdict"])
    other = pd.DataFrame(people, columns=["sample_id", "model", "ok"])
    other["output"] = [f"a long answer, number {n}" for n in range(30, 30 + len(other))]
    with silent():
        expected = judges.fit(verdicts, usual, num_samples=50).systems()
        result_ = judges.fit(verdicts, other, num_samples=50)
    pd.testing.assert_frame_equal(result_.systems(), expected)
    assert result_.human.notes[0] == (
        "the human labels: by the names in the verdicts, column 'sample_id' has the items, 'model' has the systems, 'ok' has the "
        "labels"
    )


def test_columns_that_may_be_meant_twice_are_not_taken():
    verdicts, people = of_systems()
    v = judges.Verdicts.from_frame(verdicts)
    table = pd.DataFrame(people, columns=["id", "system", "verdict"]).assign(again=lambda t: t["id"])
    with pytest.raises(DataError, match=r"no column 'item'.*item=\.\.\."):
        labelled(table, v)
    # A column of the usual name keeps its meaning, whatever another one holds.
    usual = table.rename(columns={"id": "item"})
    frame, notes = with_usual_names(usual, {None: v}, "t")
    assert (list(frame), notes) == (list(usual), ())


def test_two_columns_of_systems_of_pairs():
    rows = [
        {"item": f"i{n}", "judge": j, "system": "base", "opponent": s, "verdict": "first" if n % k else "second"}
        for n in range(N)
        for s in ("x", "y")
        for j, k in (("a", 2), ("b", 3))
    ]
    v = judges.Verdicts.from_frame(pd.DataFrame(rows))
    people = pd.DataFrame(
        {"instruction": ["i0", "i1"], "generator_2": ["x", "y"], "generator_1": "base", "preference": "first"}
    )
    frame, _ = with_usual_names(people, {None: v}, "t")
    assert list(frame) == ["item", "opponent", "system", "verdict"]
    assert (labelled(people, v).align(v)[1].item >= 0).all()


def test_turns_of_questions():
    rows = [
        {"question_id": q, "turn": t, "model": m, "judge": ["gpt-4", "single-v1"], "score": (q + t) % 4 + 1}
        for q in (81, 82, 83)
        for t in (1, 2)
        for m in ("x", "y")
    ]
    frame = pd.DataFrame(
        [{"item": f"{r['question_id']}, turn {r['turn']}", "judge": "gpt-4", "system": r["model"]} for r in rows]
    )
    v = judges.Verdicts.from_frame(frame.assign(verdict=[r["score"] for r in rows]))
    people = pd.DataFrame({"question_id": [81, 82], "turn": [1, 2], "model": ["x", "y"], "score": [3, 4]})
    labels = labelled(people, v)
    assert labels.items.tolist() == ["81, turn 1", "82, turn 2"]
    assert (labels.align(v)[1].item >= 0).all()


def test_labels_are_of_the_criterion_of_their_item():
    verdicts, named = of_systems()
    both = pd.concat(
        [verdicts.assign(criterion="safe"), verdicts.assign(criterion="kind", item="k-" + verdicts["item"])]
    )
    table = pd.DataFrame(named, columns=["item", "system", "verdict"])
    with silent():
        people = pd.concat([table, table.assign(item="k-" + table["item"])[:3]])
        apart = judges.fit_criteria(both, people, criterion="criterion", num_samples=50)
        assert [len(one.human) for one in apart.values()] == [12, 3]
        # Items that were judged on both say nothing of the criterion.
        same = pd.concat([verdicts.assign(criterion="safe"), verdicts.assign(criterion="kind")])
        with pytest.raises(DataError, match="add a column 'criterion'"):
            judges.fit_criteria(same, table, num_samples=50)


def log(path):
    """A log of two scorers, and labels of people on both with the words of Inspect."""
    samples = [
        sample(f"q{n}", {"helpful": grade("C" if n % 2 else "I"), "safe": grade("I" if n % 3 else "C")})
        for n in range(N)
    ]
    (path / "log.json").write_text(json.dumps(inspect_log(*samples)))
    table = pd.DataFrame({"sample_id": [f"q{n}" for n in range(8)] * 2, "metric": ["helpful"] * 8 + ["safe"] * 8})
    table["grade"] = ["C", "I"] * 8
    table.to_csv(path / "human.csv", index=False)


def test_metrics_that_people_labelled_are_criteria(tmp_path):
    log(tmp_path)
    output = " ".join(run("judges", tmp_path / "log.json", "--human", tmp_path / "human.csv").output.split())
    assert "All criteria: corrected rate of each system" in output
    assert "log.json, safe: 12 verdicts by 1 judge on 12 items" in output
    # Labels on one of them leave the metrics judges of one thing, and a statement says so.
    one = pd.read_csv(tmp_path / "human.csv").query("metric == 'helpful'")
    one.to_csv(tmp_path / "one.csv", index=False)
    output = " ".join(run("judges", tmp_path / "log.json", "--human", tmp_path / "one.csv").output.split())
    assert "! The metrics of this file are taken for judges of one thing" in output
    assert "(--criteria)" in output


def test_options_name_columns_of_the_human_labels_of_a_log(tmp_path):
    log(tmp_path)
    table = pd.read_csv(tmp_path / "human.csv").rename(columns={"grade": "mine"})
    table.assign(theirs=table["mine"]).to_csv(tmp_path / "human.csv", index=False)
    words = ("judges", tmp_path / "log.json", "--human", tmp_path / "human.csv")
    assert "no column 'verdict'" in " ".join(run(*words, code=2).output.split())
    output = " ".join(run(*words, "--verdict", "mine").output.split())
    assert "8 of 12 items have human labels" in output
    # A table has columns of its own, and the human labels those of the same names.
    verdicts, people = of_systems()
    verdicts.rename(columns={"item": "case"}).to_csv(tmp_path / "verdicts.csv", index=False)
    pd.DataFrame(people, columns=["case", "system", "verdict"]).assign(id=0).to_csv(
        tmp_path / "people.csv", index=False
    )
    output = run("judges", tmp_path / "verdicts.csv", "--human", tmp_path / "people.csv", "--item", "case").output
    assert "12 of 24 items have human labels" in " ".join(output.split())


def test_models_that_grade_one_metric_are_judges_of_it(tmp_path):
    def graded(n):
        each = [
            component(n % k > 0, metric="tone", value="is it kind?", provider=p) for p, k in (("a:x", 2), ("b:y", 3))
        ]
        return result({"question": n}, *each, component(True, metric="tone", value="is it short?", provider="b:y"))

    (tmp_path / "out.json").write_text(json.dumps({"results": {"results": [graded(n) for n in range(N)]}}))
    with silent():
        v = judges.read(tmp_path / "out.json")
    assert v.judges.tolist() == ["a:x: tone", "b:y: tone", "b:y: tone 2"]


def plain(labels=("pass", "fail")):
    """Verdicts on answers that are items themselves."""
    rows = [(f"q{n}", j, labels[(n + k) % len(labels)]) for n in range(N) for k, j in enumerate(("gpt", "claude"))]
    return pd.DataFrame(rows, columns=["item", "judge", "verdict"])


def with_letters():
    """Verdicts, named as the systems are, on answers of two systems."""
    rows = [(f"q{n}", s, j, "AB"[(n + k) % 2]) for n in range(N) for s in "AB" for k, j in enumerate(("gpt", "claude"))]
    return judges.Verdicts.from_frame(pd.DataFrame(rows, columns=["item", "system", "judge", "verdict"]))


UNITS = [f"q{n} / {s}" for n in range(N) for s in "AB"]


@pytest.mark.parametrize("other", ["verdict", "rater", "model", "preferred", "Verdict"])
def test_labels_of_named_answers_need_no_systems(other):
    # The label column and any other one may hold the names of systems.
    people = pd.DataFrame({"item": UNITS, other: ["A", "B"] * N})
    if other.lower() != "verdict":
        people["label"] = "pass"
    frame, notes = with_usual_names(people, {None: with_letters()}, "t")
    assert (list(frame), notes) == (list(people), ())


def test_raters_called_as_the_systems_are_not_systems():
    v = with_letters()
    people = pd.DataFrame({"item": [f"q{n}" for n in range(N)], "verdict": "A", "rater": ["A", "B"] * (N // 2)})
    assert list(with_usual_names(people, {None: v}, "t")[0]) == list(people)
    # Systems are those that answered the questions.
    rows = [(f"q{n}", s, j, "A") for n in range(N) for s in ("AB", "CD")[n % 2] for j in ("gpt", "claude")]
    with silent():
        v = judges.Verdicts.from_frame(pd.DataFrame(rows, columns=["item", "system", "judge", "verdict"]))
    for kinds, role in ((["C", "A"], "kind"), (["A", "C"], "system")):
        other = people.drop(columns="rater").assign(kind=kinds * (N // 2))
        assert list(with_usual_names(other, {None: v}, "t")[0]) == ["item", "verdict", role]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("minutes", [1, 2, 3, 4]),
        ("n_words", [1, 2, 3, 4]),
        ("date", ["2020-01-01", "2020-01-02"]),
        ("person", ["ann", "bob"]),
        ("split", ["dev"]),
        ("gpt", [1, 2]),
        ("human_text", ["good", "bad"]),
    ],
)
def test_other_columns_are_not_the_labels(column, values):
    v = judges.Verdicts.from_frame(plain((1, 2, 3, 4)))
    people = pd.DataFrame({"qid": [f"q{n}" for n in range(N)], column: (values * N)[:N]})
    with pytest.raises(DataError, match=f"no column 'verdict' or 'label'; columns are 'qid', '{column}'"):
        labelled(people, v)
    frame, _ = with_usual_names(people.assign(question_rating=1), {None: v}, "t")
    assert list(frame) == ["item", column, "verdict"]


@pytest.mark.parametrize(
    ("columns", "taken"),
    [
        ({"text_length": range(N)}, None),
        ({"confidence": [1, 2, 3] * (N // 3)}, None),
        ({"kind": [1, 2, 3] * (N // 3)}, None),
        ({"image": [f"im{n}" for n in range(N)], "kind": range(N)}, None),
        ({"kind": range(N)}, "kind"),
        ({"sample_id": [1, 2, 3] * (N // 3)}, "sample_id"),
        ({"sample_id": range(N // 2, N // 2 + N)}, None),
    ],
)
def test_whole_numbers_are_items_where_nearly_all_match(columns, taken):
    table = plain()
    v = judges.Verdicts.from_frame(table.assign(item=table["item"].str[1:].astype(int)))
    people = pd.DataFrame({**columns, "verdict": ["pass", "fail"] * (N // 2)})
    if taken is None:
        with pytest.raises(DataError, match=f"no column 'item'; columns are {next(iter(columns))!r}"):
            labelled(people, v)
    else:
        assert list(with_usual_names(people, {None: v}, "t")[0]) == ["item", "verdict"]


def test_cells_with_lists_are_no_labels():
    v = judges.Verdicts.from_frame(plain())
    people = pd.DataFrame(
        {"qid": [f"q{n}" for n in range(N)], "tags": [[1, {}]] * N, "ok": ["pass", "fail"] * (N // 2)}
    )
    people["metric"] = [["a"]] * N
    assert labelled(people, v).labels.tolist() == ["pass", "fail"]


def test_labels_of_a_pair_named_as_its_systems():
    rows = [(f"q{n}", "A", "B", j, "AB"[(n + k) % 2]) for n in range(N) for k, j in enumerate(("gpt", "claude"))]
    v = judges.Verdicts.from_frame(pd.DataFrame(rows, columns=["item", "system", "opponent", "judge", "verdict"]))
    people = pd.DataFrame({"item": [f"q{n}" for n in range(N)], "verdict": ["A", "B"] * (N // 2)})
    people["second_opinion"] = people["shown_first"] = people["verdict"]
    assert list(with_usual_names(people, {None: v}, "t")[0]) == list(people)
    turned = pd.DataFrame({"item": people["item"], "model_a": "B", "model_b": "A", "winner": people["verdict"]})
    assert list(with_usual_names(turned, {None: v}, "t")[0]) == ["item", "system", "opponent", "verdict"]


def test_errors_name_the_columns_of_the_caller():
    v = judges.Verdicts.from_frame(plain())
    people = pd.DataFrame({"qid": [f"q{n}" for n in range(N - 1)] + [None], "ok": ["pass", "fail"] * (N // 2)})
    with pytest.raises(DataError, match=r"item missing; .*column 'qid' has the items, 'ok' has the labels"):
        labelled(people, v)
