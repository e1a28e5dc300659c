"""The commands `plan`, and `check`, `report` and `agreement` of grades."""

import numpy as np
import pandas as pd
import pytest
from commands import run

PLAN = ("plan", "--items", "20,60", "--per-item", "2", "--replicates", "2")


@pytest.fixture(scope="module")
def grades(tmp_path_factory):
    """Grades by five raters, of whom the last gives any grade, as a file; and the folder of their fit."""
    place, rng = tmp_path_factory.mktemp("grades"), np.random.default_rng(0)
    item = rng.normal(size=60)
    frame = pd.concat(
        pd.DataFrame(
            {
                "task": range(60),
                "worker": f"rater {j}",
                "label": 1 + np.digitize((item if j < 4 else 0) + rng.normal(0, 0.4, 60) - 0.2 * j, [-1, 0, 1]),
            }
        )
        for j in range(5)
    )
    frame.to_csv(place / "grades.csv", index=False)
    run("fit", place / "grades.csv", "--kind", "ordinal", "--out", place / "results")
    return place


def test_a_plan_without_a_pilot(tmp_path):
    out = tmp_path / "plan.csv"
    result = run(*PLAN, "--workers", "4", "--classes", "4", "--kind", "ordinal", "--width", "2", "--out", out)
    for said in ("severity, in grades", "> ", "Enough: 20 items with 2 workers", "err independently"):
        assert said in " ".join(result.output.split())
    assert pd.read_csv(out)["annotations"].tolist() == [40, 120]


def test_a_plan_from_a_pilot(grades):
    result = run(*PLAN, grades / "results", "--width", "0.0001")
    assert "5 workers: width of 89% intervals of severity" in " ".join(result.output.split())
    assert "No design here" in result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "needs the folder of a pilot, or --workers and --classes"),
        (("--workers", "3", "--classes", "3", "--items", "many"), "--items many: whole numbers"),
        (("--workers", "3", "--classes", "3", "--per-item", "4"), "--per-item 4 workers of an item; there are 3"),
        (("--workers", "3", "--classes", "1"), "--classes 1"),
        (("--workers", "3", "--classes", "3", "--slope", "2"), "slope is not that of nominal labels"),
        (("--workers", "3", "--classes", "3", "--out", "plan.txt"), "plan.txt: write to a file"),
    ],
)
def test_what_is_no_plan_is_refused_in_one_line(words, said):
    assert said in " ".join(run("plan", *words, code=2).output.split())


def test_numbers_beside_a_pilot_are_refused(grades):
    assert "--classes describes a crowd" in run("plan", grades / "results", "--classes", "3", code=2).output


def test_agreement_and_fit_of_raters_are_shown(grades):
    checked = run("check", grades / "results", "--draws", "20").output
    for said in ("Krippendorff's alpha (ordinal)", "ICC(A,1)", "Fit of raters", "infit"):
        assert said in checked
    lines = checked[checked.index("Fit of raters") :].splitlines()
    assert (
        next(line for line in lines if "rater " in line).split()[1] == "4"
    )  # first of all, the one who is not informed
    run("report", grades / "results")
    page = (grades / "results" / "report.html").read_text()
    section = page[page.index('id="grades"') : page.index('id="items"')]
    # Measures of agreement, fit of raters, and the grades that all of them and each give.
    assert section.count('<th scope="row"') == 6 + 5 + 6
    assert "less predictable" in section
    agreed = run("agreement", grades / "grades.csv", "--kind", "ordinal").output
    assert "Gwet's AC2 (quadratic)" in agreed
    assert "weighted kappa" in agreed
