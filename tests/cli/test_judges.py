"""The command ``crowdppl judges``: what it prints, what it writes, and its errors."""

import re

import numpy as np
import pandas as pd
import pytest
from commands import run

import crowdppl.judges
from crowdppl.cli import options
from crowdppl.cli.application import console
from crowdppl.cli.display.panel import show_judges
from crowdppl.cli.display.shared import interval_bar
from crowdppl.export import judges as folder
from crowdppl.judges.readers.formats import NAMES


def panel(seed=1, items=80):
    """A simulated panel with all states, versions, costs, clusters and several answers to a question.

    People labelled items of two of the three systems.
    """
    verdicts, truth = crowdppl.judges.simulate(items=items, seed=seed)
    rng = np.random.default_rng(seed)
    drawn, of = rng.random(len(verdicts)), verdicts["judge"]
    said = verdicts["verdict"].astype(object)
    said[(drawn < 0.1) & (of == "a-1")] = "parse error"
    said[(drawn < 0.1) & (of == "c-1")] = "abstain"
    said[drawn > 0.99] = None
    version = np.where(of == "b-1", np.where(drawn < 0.5, "v1", "v2"), None)
    table = verdicts.assign(verdict=said, version=version, cost=0.002)
    # Two answers to a question, and eight questions on a document.
    table = table.assign(question=table["question"] // 2, cluster=table["question"] // 16)
    # The two versions of b-1 both judge some items.
    again = table[(of == "b-1") & (drawn < 0.3)].assign(version="v2")
    human = truth[~truth["item"].str.endswith("s3")].sample(60, random_state=seed)
    return pd.concat([table, again]), pd.concat([human.assign(annotator=name) for name in ("ann", "bob", "cem")])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    place = tmp_path_factory.mktemp("judges")
    verdicts, human = panel()
    verdicts.to_csv(place / "verdicts.csv", index=False)
    human.to_csv(place / "human.csv", index=False)
    return place


@pytest.fixture(scope="module")
def written(files):
    words = ("--human", files / "human.csv", "--width", 0.12, "--next", 5, "--out", files / "out")
    return run("judges", files / "verdicts.csv", *words).output, files / "out"


@pytest.fixture(scope="module")
def result(files):
    """What the command fits, without it."""
    return crowdppl.judges.fit(crowdppl.judges.read(files / "verdicts.csv"), pd.read_csv(files / "human.csv"))


def test_what_is_printed(written, result):
    output = " ".join(written[0].split())
    assert "60 of 240 items have human labels, taken as a random sample." in output
    assert "! No item of 's3' has a human label" in output
    # Uncorrected and corrected side by side, best first, the transported system marked.
    for row in result.systems().to_dict("records"):
        mark = "~" if row["system"] == "s3" else ""
        ends = f"({100 * row['corrected_low']:.1f}–{100 * row['corrected_high']:.1f})"
        assert f"{row['uncorrected']:.1%} {row['corrected']:.1%} {ends}{mark}" in output
    places = [output.index(f" {name} ") for name in result.systems()["system"]]
    assert places == sorted(places)
    assert "~ transported" in output
    for row in result.judges().to_dict("records"):
        assert f"{row['accuracy']:.1%} ({100 * row['accuracy_low']:.0f}–{100 * row['accuracy_high']:.0f})" in output
    assert result.panel().statement in output
    assert "Mean correlation of errors within families" in output
    lost = result.verdicts.states().set_index("judge")
    for judge, state in (("a-1", "unparseable"), ("c-1", "abstained")):
        count = lost.loc[judge, state]
        assert count
        assert f"{count} ({count / lost.loc[judge, 'verdicts']:.1%})" in output
    assert "None of them counts as a failure" in output
    assert "Versions of a judge" in output
    assert "Judge against judge" in output
    pair = result.judge_comparisons().iloc[0]
    assert f"{pair['difference']:+.3f} ({pair['difference_low']:+.3f} to {pair['difference_high']:+.3f})" in output
    changes = result.drift()
    assert "Changes of judges at equal true labels" in output
    assert (
        f"{changes['change'][0]:+.3f} ({changes['change_low'][0]:+.3f} to {changes['change_high'][0]:+.3f})" in output
    )
    assert "May a judge take the place of a person?" in output
    assert f"{result.alternative_annotators()['advantage'][0]:.1%}" in output
    assert "Label next: 5 items" in output
    further = result.systems("population").iloc[0]
    ends = f"({100 * further['corrected_low']:.1f}–{100 * further['corrected_high']:.1f})"
    assert f"{further['system']} {further['corrected']:.1%} {ends}" in output.replace("│", " ").replace("  ", " ")
    assert "as the 5 clusters of these questions vary" in output
    row = result.pass_at().set_index("k").loc[2].iloc[0]
    assert f"{row['pass_at_k']:.1%} ({100 * row['pass_at_k_low']:.1f}–{100 * row['pass_at_k_high']:.1f})" in output
    assert re.search(r"Intervals at most 0\.12 wide for every system take about \d+ more labels", output)
    assert "Note: verdicts.csv: read as states" in output


def test_what_is_written(written, result):
    _, out = written
    assert {path.name for path in out.iterdir()} == set(folder.FILES) - set(folder.OF_CRITERIA)
    expected = {
        "judges": result.judges(),
        "systems": result.systems(),
        "comparisons": result.comparisons(),
        "items": result.items(),
        "states": result.verdicts.states(),
        "panel_families": result.panel().families,
        "panel_adds": result.panel().adds,
        "next": result.next(5),
        "labels_needed": result.labels_needed(0.12),
        "versions": result.versions(),
        "drift": result.drift(),
        "judge_comparisons": result.judge_comparisons(),
        "alternative_annotators": result.alternative_annotators(),
        "people": result.people(),
        "pass_at_k": result.pass_at(),
        "systems_population": result.systems("population"),
        "comparisons_population": result.comparisons("population"),
    }
    for name, table in expected.items():
        stored = pd.read_csv(out / f"{name}.csv")
        assert stored.columns.tolist() == table.columns.tolist(), name
        pd.testing.assert_frame_equal(stored, table, check_dtype=False, rtol=1e-4, obj=name)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "verdicts.csv" in page


def test_results_are_replaced_only_on_request(written, files):
    again = ("judges", files / "verdicts.csv", "--out", written[1])
    result = run(*again, code=2)
    assert "already holds judges.csv" in result.output
    assert (written[1] / "versions.csv").exists()


def test_files_without_rows_are_not_written(tmp_path):
    """One system, all verdicts given, no versions; a file of the user that has the name of a table stays."""
    verdicts, truth = crowdppl.judges.simulate(items=30, rates=[0.6], seed=2)
    verdicts.drop(columns=["system", "question"]).to_csv(tmp_path / "v.csv", index=False)
    truth.to_csv(tmp_path / "h.csv", index=False)
    out = tmp_path / "out"
    out.mkdir()
    for name in ("versions.csv", "mine.txt"):
        (out / name).write_text("x")
    result = run("judges", tmp_path / "v.csv", "--human", tmp_path / "h.csv", "--out", out, "--overwrite")
    names = {path.name for path in out.iterdir()}
    assert names == {
        "judges.csv",
        "systems.csv",
        "items.csv",
        "judge_comparisons.csv",
        "panel_families.csv",
        "panel_adds.csv",
        "report.html",
        "run.json",
        "versions.csv",  # of the user
        "mine.txt",
    }
    assert "All items: share of 'pass'" in result.output
    assert "Every item has a human label." in result.output


def test_formulas_are_quoted(tmp_path):
    verdicts, _ = crowdppl.judges.simulate(items=20, seed=2)
    verdicts["judge"] = "=cmd(" + verdicts["judge"] + ")"
    verdicts.to_csv(tmp_path / "v.csv", index=False)
    run("judges", tmp_path / "v.csv", "--out", tmp_path / "out")
    run("judges", tmp_path / "v.csv", "--out", tmp_path / "raw", "--raw")
    assert pd.read_csv(tmp_path / "out" / "judges.csv")["judge"].str.startswith("'=cmd(").all()
    assert pd.read_csv(tmp_path / "raw" / "judges.csv")["judge"].str.startswith("=cmd(").all()


def test_without_human_labels(tmp_path):
    verdicts, _ = crowdppl.judges.simulate(items=20, seed=2)
    verdicts.to_csv(tmp_path / "v.csv", index=False)
    output = " ".join(run("judges", tmp_path / "v.csv").output.split())
    assert "None of the 60 items has a human label." in output
    assert "cannot be known from these judges alone" in output
    assert "Add --out FOLDER" in output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["v.csv"]


def test_names_of_columns_and_classes(tmp_path):
    verdicts, _ = crowdppl.judges.simulate(items=20, seed=2)
    names = {"item": "id", "judge": "model", "verdict": "says", "system": "candidate"}
    verdicts = verdicts.rename(columns=names)
    verdicts["says"] = verdicts["says"].replace({"pass": "ok", "fail": "bad"})
    verdicts.loc[::7, "says"] = "huh"
    verdicts.loc[::11, "says"] = "no comment"
    verdicts.to_csv(tmp_path / "v.csv", index=False)
    words = [word for name, column in names.items() for word in (f"--{name}", column)]
    words += ["--unparseable", "huh", "--abstained", "no comment", "--positive", "ok", "--labels", "bad,ok"]
    output = run("judges", tmp_path / "v.csv", *words, "--level", 0.8, "--seed", 3).output
    assert "share of 'ok' (intervals of 80%)" in output
    assert "s3" in output
    assert "unparseable" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("missing.csv",), "no file missing.csv"),
        (("verdicts.csv", "--human", "missing.csv"), "no file missing.csv"),
        (("verdicts.csv", "--item", "ite"), "no column 'ite' (did you mean 'item'?)"),
        (("verdicts.csv", "--positive", "maybe"), "--positive maybe is no class; classes are 'fail', 'pass'"),
        (("verdicts.csv", "--level", "2"), "--level 2.0; an interval's probability lies between 0 and 1"),
        (("verdicts.csv", "--next", "0"), "--next 0; it must be a whole number of at least 1"),
        (("verdicts.csv", "--width", "0"), "--width 0.0; it must be a number above 0"),
        (("verdicts.csv", "--seed", "-1"), "--seed -1; it must be a whole number"),
        (("verdicts.csv", "--format", "excel"), "no format 'excel'"),
        (("verdicts.csv", "--out", "human.csv"), "human.csv is a file; name a folder"),
        (("human.csv",), "unknown format"),
    ],
)
def test_errors_are_one_line(words, message, files, monkeypatch):
    monkeypatch.chdir(files)
    before = sorted(files.iterdir())
    output = run("judges", *words, code=2).output
    (line,) = [line for line in output.splitlines() if line.startswith("error: ")]
    assert message in line
    assert output.splitlines()[-1] == line
    assert sorted(files.iterdir()) == before


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_numbers_are_complete_in_every_width(width, result, monkeypatch, capsys):
    """Names are shortened and columns left out; no number is cut."""
    monkeypatch.setattr(console, "_width", width)
    with console.capture() as printed:
        show_judges(result, result.judges(), result.panel().adds)
    lines = [line for line in printed.get().splitlines() if re.match(r" +[abc]…?-?\d? ", line)]
    assert len(lines) == 6
    for line in lines:
        assert re.search(r"\d\d\.\d% \(\d+–\d+\) +0\.\d\d +0\.\d\d .*[+-]\d\.\d\d", line), line
        assert len(line.rstrip()) <= width


def test_intervals_as_text():
    assert interval_bar(0.25, 0.0, 1.0, 0.5, 8) == "──●─○───"
    assert interval_bar(1.0, 0.9, 1.0, float("nan"), 4) == "···●"
    assert interval_bar(0.0, 0.0, 0.0, 0.0, 4) == "●···"


def test_help_names_every_format():
    (option,) = [
        field
        for field in options.typing.get_type_hints(options.JudgeReading, include_extras=True).items()
        if field[0] == "format"
    ]
    words = option[1].__metadata__[0].help
    assert all(name in words for name in NAMES)


@pytest.mark.slow
def test_errors_of_people(tmp_path):
    verdicts, truth = crowdppl.judges.simulate(items=40, seed=1)
    human = truth.head(60)
    said = human["verdict"].where(np.arange(60) % 6 > 0, "fail")
    both = pd.concat([human.assign(annotator="ann"), human.assign(annotator="bob", verdict=said)])
    verdicts.to_csv(tmp_path / "v.csv", index=False)
    both.to_csv(tmp_path / "h.csv", index=False)
    words = ("judges", tmp_path / "v.csv", "--human", tmp_path / "h.csv")
    output = " ".join(run(*words, "--human-error", "ann=0.02", "--out", tmp_path / "out").output.split())
    result = crowdppl.judges.fit(crowdppl.judges.read(tmp_path / "v.csv"), both, human_error={"ann": 0.02})
    assert "People: probability of an incorrect label" in output
    bob = result.people().set_index("annotator").loc["bob"]
    assert f"{bob['error']:.1%} ({100 * bob['error_low']:.1f}–{100 * bob['error_high']:.1f})" in output
    stored = pd.read_csv(tmp_path / "out" / "people.csv")
    pd.testing.assert_frame_equal(stored, result.people(), check_dtype=False, rtol=1e-4)
    for wrong, message in (("ann", "'ann' is no number"), ("=0.1", "is not PERSON=ERROR"), ("ann=2", "below 1")):
        assert message in " ".join(run(*words, "--human-error", wrong, code=2).output.split())


def test_clusters_and_numbers_of_answers_are_options(tmp_path):
    verdicts, truth = crowdppl.judges.simulate(items=40, rates=[0.6], seed=1)
    table = verdicts.assign(question=verdicts["question"] // 4, document=verdicts["question"] // 8)
    table.to_csv(tmp_path / "v.csv", index=False)
    truth.head(20).to_csv(tmp_path / "h.csv", index=False)
    words = ("judges", tmp_path / "v.csv", "--human", tmp_path / "h.csv", "--cluster", "document")
    run(*words, "--pass-at", 1, "--pass-at", 3, "--out", tmp_path / "out")
    assert pd.read_csv(tmp_path / "out" / "pass_at_k.csv")["k"].tolist() == [1, 3]
    read = crowdppl.judges.read(tmp_path / "v.csv", cluster="document")
    expected = crowdppl.judges.fit(read, truth.head(20)).systems("population")
    stored = pd.read_csv(tmp_path / "out" / "systems_population.csv")
    pd.testing.assert_frame_equal(stored, expected, check_dtype=False, rtol=1e-4)
    table.assign(document=1).to_csv(tmp_path / "v.csv", index=False)  # too few to tell how much they differ
    run(*words, "--out", tmp_path / "few")
    assert not (tmp_path / "few" / "systems_population.csv").exists()
    assert "no system has 5 answers to a question" in " ".join(run(*words, "--pass-at", 5, code=2).output.split())
