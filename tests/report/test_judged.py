"""The report on judges and systems: every number from the result, names as text only, and the page in a real browser."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import crowdppl.judges
from crowdppl import OptionError, report
from crowdppl.report import judged

SHOTS = Path(__file__).parents[2] / "build" / "screenshots"
HOSTILE = "</script><img src=x onerror=alert(2)>"


def data_of(path):
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), flags=re.DOTALL)
    return json.loads(text)


def fitted(verdicts, human=None, **options):
    return crowdppl.judges.fit(verdicts, human, num_samples=100, **options)


@pytest.fixture(scope="module")
def result():
    verdicts, truth = crowdppl.judges.simulate(items=60, seed=1)
    said = verdicts["verdict"].astype(object)
    said[np.random.default_rng(0).random(len(said)) < 0.03] = "parse error"
    human = truth[~truth["item"].str.endswith("s3")].sample(40, random_state=1)
    return fitted(verdicts.assign(verdict=said), human)


@pytest.fixture(scope="module")
def page(result, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    run = {
        "input": {"file": "verdicts.csv", "sha256": "abc"},
        "command": ["crowdppl", "judges"],
        "seed": 0,
        "seconds": 1.2,
    }
    return report.write_judges(result, path, run)


def close(values, expected):
    values = np.array([np.nan if x is None else x for x in values], dtype=float)
    np.testing.assert_allclose(values, np.asarray(expected, dtype=float), atol=5.1e-5)


def test_numbers_are_those_of_the_tables(result, page):
    data = data_of(page)
    tables = {
        "systems": result.systems(),
        "judges": result.judges(),
        "next": result.next(20),
        "states": result.verdicts.states(),
    }
    panel = result.panel()
    pairs = [(data[name], table) for name, table in tables.items()]
    pairs += [
        (data["panel"]["families"], panel.families),
        (data["panel"]["adds"], panel.adds.sort_values("adds", ascending=False, kind="stable")),
    ]
    for shown, table in pairs:
        assert list(shown) == table.columns.tolist()
        for name, values in shown.items():
            if pd.api.types.is_numeric_dtype(table[name]) and table[name].dtype != bool:
                close(values, table[name])
            else:
                assert values == [v if isinstance(v, bool) else str(v) for v in table[name].tolist()]
    close(data["panel"]["effective"], panel.effective)
    assert data["panel"]["statement"] == panel.statement
    order = [panel.correlation.columns.get_loc(name) for name in data["panel"]["judges"]["names"]]
    close(np.ravel(data["panel"]["judges"]["correlation"]), panel.correlation.to_numpy()[np.ix_(order, order)].ravel())
    names = result.systems()["system"].tolist()
    for row in result.comparisons().to_dict("records"):
        a, b = names.index(row["system_a"]), names.index(row["system_b"])
        close([data["better"][a][b], data["better"][b][a]], [row["probability_better"], 1 - row["probability_better"]])
    assert data["counts"] == {"verdicts": len(result.verdicts), "judges": 6, "items": 180, "systems": 3, "labelled": 40}
    assert [*data["statements"], *data["notes"]] == list(result.statements)
    assert any("'s3'" in sentence for sentence in data["statements"])
    assert any("read as states" in sentence for sentence in data["notes"])
    listed = data["items"]
    assert len(listed["item"]) == 180
    assert listed["labelled"] == [False] * 140 + [True] * 40
    open_items = [p for p, known in zip(listed["probability"], listed["labelled"], strict=True) if not known]
    assert open_items == sorted(open_items)


def test_tables_that_not_all_results_have():
    """Further questions, several answers, pairs of judges, versions, changes, people, and the alternative annotator test."""
    verdicts, truth = crowdppl.judges.simulate(items=40, rates=[0.7], seed=1)
    table = verdicts.assign(question=verdicts["question"] // 2, cluster=verdicts["question"] // 8)
    table["version"] = np.where(table["judge"] == "a-1", "v1", None)
    table = pd.concat([table, table[table["judge"] == "a-1"].assign(version="v2", verdict="pass")])
    named = [truth.head(20).assign(annotator=name) for name in ("ann", "bob", "cem")]
    named[2].loc[:4, "verdict"] = "fail"
    one = fitted(table, pd.concat(named))
    data = judged.content(one)
    expected = {
        "population": one.systems("population"),
        "pass_at": one.pass_at(),
        "judge_pairs": one.judge_comparisons(),
        "versions": one.versions(),
        "people": one.people(),
        "alternative": one.alternative_annotators(),
        "drift": one.drift(),
    }
    for name, frame in expected.items():
        assert len(frame), name
        assert list(data[name]) == frame.columns.tolist()
        for column in frame.select_dtypes("number"):
            close(data[name][column], frame[column])
    assert data["drift"]["measure"] == ["passing", "correct"]
    assert any("'a-1' is more lenient" in sentence for sentence in data["statements"])
    other = judged.content(one, pass_at=one.pass_at(1))
    assert other["pass_at"]["k"] == [1]


def test_places_of_the_script_are_on_the_page():
    folder = Path(report.__file__).parent
    script = (folder / "judges.js").read_text()
    names = set(re.findall(r'\b(?:at|section)\("([^"]+)"', script))
    assert {"drift", "population", "people-errors"} <= names
    assert names <= set(re.findall(r'id="([^"]+)"', (folder / "templates" / "judges.html").read_text()))


def test_sentence_on_labels_needed(result):
    now = result.systems()
    widest = float((now["corrected_high"] - now["corrected_low"]).max())
    count = result.labels_needed(0.6 * widest).set_index("how")["labels"]
    sentence = judged.needed(result.labels_needed(0.6 * widest), 0.6 * widest)
    assert f"about {count['chosen']} more labels" in sentence
    assert f"or {count['random']} of items drawn at random" in sentence
    assert "already" in judged.needed(result.labels_needed(0.99), 0.99)
    never = pd.DataFrame({"how": ["chosen", "random"], "labels": pd.array([None, None], "Int64"), "width": [0.2, 0.2]})
    assert judged.needed(never, 0.1) == "Labels of all items leave an interval of width 0.2; 0.1 cannot be reached."


def test_grades():
    """Rates are means of grades, on their own scale."""
    rng = np.random.default_rng(0)
    grade = rng.integers(1, 6, 60)
    rows = [
        (f"i{i}", f"j{j}", int(np.clip(grade[i] + rng.integers(-1, 2), 1, 5)), f"s{i % 2}")
        for i in range(60)
        for j in range(4)
    ]
    verdicts = pd.DataFrame(rows, columns=["item", "judge", "verdict", "system"])
    human = pd.DataFrame({"item": [f"i{i}" for i in range(30)], "verdict": grade[:30]})
    data = judged.content(fitted(verdicts, human))
    assert not data["share"]
    assert data["range"] == [1, 5]
    assert data["rate"] == "mean grade"
    assert judged.content(fitted(verdicts, human, positive=[4, 5]))["rate"] == "share of '4', '5'"


def test_names_are_never_markup(tmp_path):
    verdicts, truth = crowdppl.judges.simulate(items=15, seed=1)
    for column in ("item", "judge", "system", "family"):
        verdicts[column] = HOSTILE + verdicts[column].astype(str)
    verdicts["verdict"] = HOSTILE + verdicts["verdict"]
    human = pd.DataFrame({"item": HOSTILE + truth["item"].head(20), "verdict": HOSTILE + truth["verdict"].head(20)})
    run = {"input": {"file": "<b>v</b>.csv"}, "command": ["<script>"]}
    text = report.write_judges(fitted(verdicts, human, positive=HOSTILE + "pass"), tmp_path / "r.html", run).read_text(
        encoding="utf-8"
    )
    assert text.count("<script") == text.count("</script>") == 2
    assert "<img" not in text
    assert "&lt;b&gt;v&lt;/b&gt;.csv" in text
    for sign in ("src=", 'href="http', "@import", "url(", "fetch(", "XMLHttpRequest", "innerHTML", "document.write"):
        assert sign not in text.replace(HOSTILE[9:-1], "").replace("img src=x", ""), sign


def test_arguments(result, tmp_path):
    for wrong in (0, -1, "wide", float("nan")):
        with pytest.raises(OptionError, match=r"^width="):
            report.write_judges(result, tmp_path / "r.html", width=wrong)
    with pytest.raises(crowdppl.DataError, match=r"^result is None; pass a result of crowdppl\.judges\.fit"):
        report.write_judges(None, tmp_path / "r.html")
    path = report.write_judges(result, tmp_path / "r.html", title="Which model?", items=result.next(3), width=0.3)
    data = data_of(path)
    assert data["title"] == "Which model?"
    assert len(data["next"]["item"]) == 3
    assert "0.3" in data["needed"]


# ---------------------------------------------------------------------- in a browser


def opened(browser, path, width=1200, dark=False):
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(path.as_uri())
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    text = browser.find_element("tag name", "body").text
    for sign in ("NaN", "undefined", "null", "[object"):
        assert sign not in text, sign
    return text


def column(browser, section, n):
    rows = browser.find_elements("css selector", f"#{section}-table tbody tr > *:nth-child({n})")
    return [row.text for row in rows]


def test_page_in_a_browser(browser, page, result):
    text = opened(browser, page)
    systems = result.systems()
    assert column(browser, "systems", 1) == systems["system"].tolist()
    shown = [cell.split()[0] for cell in column(browser, "systems", 4)]
    assert [float(cell.rstrip("%")) for cell in shown] == pytest.approx(100 * systems["corrected"], abs=0.06)
    assert text.count("transported") >= 1
    assert len(browser.find_elements("css selector", "#systems-figure .track")) == 3
    assert len(browser.find_elements("css selector", "#judges-figure .track")) == 12
    assert result.panel().statement in text
    assert column(browser, "judges", 1) == result.judges()["judge"].tolist()
    assert column(browser, "next", 2) == result.next(20)["item"].tolist()
    assert "unparseable" in text
    assert "Intervals at most" in text
    # Marks lie where the numbers are.
    dots = browser.find_elements("css selector", "#systems-figure .track b")
    left = [dot.rect["x"] for dot in dots]
    assert left == sorted(left, reverse=True)
    by_probability = browser.find_element("xpath", "//*[@id='items-table']//button[text()='probability']")
    browser.execute_script("arguments[0].click()", by_probability)
    listed = [float(cell.rstrip("%")) for cell in column(browser, "items", 4)]
    assert listed == sorted(listed, reverse=True)
    browser.find_element("css selector", "#systems-table input").send_keys("s3")
    assert column(browser, "systems", 1) == ["s3"]


@pytest.mark.parametrize(("width", "dark"), [(1200, True), (400, False), (360, True)])
def test_nothing_is_cut_off_at_the_side(browser, page, width, dark):
    opened(browser, page, width, dark)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    SHOTS.mkdir(parents=True, exist_ok=True)
    browser.save_screenshot(str(SHOTS / f"judges-{width}.png"))


def unusual(case):
    verdicts, truth = crowdppl.judges.simulate(items=12, seed=3)
    if case == "one judge, one system":
        verdicts = verdicts[(verdicts["judge"] == "c-1") & (verdicts["system"] == "s1")]
        return verdicts.drop(columns=["system", "question"]), None
    if case == "all labelled":
        return verdicts, truth
    if case == "pairs in both orders":
        one = verdicts.assign(swapped=0)
        return pd.concat([one, one.assign(swapped=1, verdict=verdicts["verdict"].to_numpy()[::-1])]), truth.head(10)
    if case == "many judges, systems and classes":
        rng = np.random.default_rng(0)
        rows = [
            (f"i{i}", f"maker{j % 20}/judge-{j}", f"c{rng.integers(4)}", f"system-{i % 15}", f"v{i % 2}", 0.01)
            for i in range(45)
            for j in range(85)
        ]
        names = ["item", "judge", "verdict", "system", "version", "cost"]
        return pd.DataFrame(rows, columns=names), None
    verdicts = crowdppl.judges.Verdicts.from_frame(verdicts[verdicts["verdict"] == "pass"], labels=["fail", "pass"])
    return verdicts, truth[truth["verdict"] == "fail"].head(5)


@pytest.mark.parametrize(
    "case",
    [
        "one judge, one system",
        "all labelled",
        "pairs in both orders",
        pytest.param("many judges, systems and classes", marks=pytest.mark.slow),
        "every verdict the same",
    ],
)
def test_reports_of_unusual_results(case, browser, tmp_path):
    verdicts, human = unusual(case)
    result = fitted(verdicts, human, positive="c0" if "classes" in case else None)
    for width in (1200, 400):
        opened(browser, report.write_judges(result, tmp_path / "report.html"), width)
        assert browser.find_element("id", "reproduce-body").text
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
