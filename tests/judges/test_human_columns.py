"""Tables of human labels whose columns have the names of an evaluation tool."""

import json

import pandas as pd
import pytest
from commands import run
from judge_files import component, grade, inspect_log, result, sample

from crowdppl import DataError, judges
from crowdppl.errors import silent
from crowdppl.judges.human_columns import labelled, with_usual_names

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
