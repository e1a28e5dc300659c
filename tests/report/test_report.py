"""The report: every number from the posterior file, names as text only, and the page in a real browser."""

import html
import json
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from catalog import quiet_fit
from crowds import crowd_with_characters, fitted

import crowdppl
from crowdppl import acquisition, criticism, report
from crowdppl.data.html import escaped
from crowdppl.posterior import workers
from crowdppl.report import figures
from crowdppl.report import layout as pages
from crowdppl.report.items import safe_url
from crowdppl.report.numbers import dots
from crowdppl.report.plan import near_probability, next_command

ROOT = Path(__file__).parents[2]
SHOTS = ROOT / "build" / "screenshots"
HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    '=HYPERLINK("http://x")',
    "a&amp;b",
    "{{DATA}}",
    "‮ right to left",
    "\u2028 line",
    "“quoted” 'and' \"more\"",
]


def data_of(text):
    """Return the data of a page."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, flags=re.DOTALL)
    return json.loads(text)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A result with workers of all verdicts, some known truths and timestamps, loaded from its file."""
    folder = tmp_path_factory.mktemp("result")
    frame, truth = crowd_with_characters(seed=2, timestamps=True)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", crowdppl.CrowdpplWarning)
        data = crowdppl.Annotations.from_frame(frame, truth=truth.head(7), timestamp="timestamp", seconds="seconds")
        posterior = crowdppl.fit(data, "dawid-skene", method="gibbs", num_samples=100, seed=5)
    return crowdppl.load(posterior.save(folder / "posterior.nc"))


@pytest.fixture(scope="module")
def page_data(saved):
    return data_of(report.page(saved, {"input": {"file": "labels.csv"}, "command": ["crowdppl", "fit", "labels.csv"]}))


def close(values, expected):
    """Compare to the four decimals of the page; ``None`` stands for NaN."""
    values = np.array([np.nan if x is None else x for x in values], dtype=float)
    np.testing.assert_allclose(values, np.asarray(expected, dtype=float), atol=5.1e-5)


def test_numbers_of_items(saved, page_data):
    """Recomputed from the groups of the file, not by the functions behind the page."""
    p = saved.tree["calibrated"]["probability"].values
    items = page_data["items"]
    assert items["task"] == saved.tree["truth"]["item"].values.astype(str).tolist()
    assert items["label"] == p.argmax(1).tolist()
    close(items["probability"], p.max(1))
    item = saved.tree["constant_data"]["item_index"].values
    label = saved.tree["observed_data"]["labels"].values
    assert items["annotations"] == np.bincount(item, minlength=len(p)).tolist()
    for i in (0, 5, len(p) - 1):
        mine = pd.Series(label[item == i]).value_counts().sort_index()
        assert items["votes"][i] == [[int(k), int(n)] for k, n in mine.items()]
    assert items["known"] == np.flatnonzero(saved.tree["constant_data"]["known_truth"].values >= 0).tolist()
    assert len(items["known"]) == page_data["known"] == 7
    close([page_data["confidence"]], [p.max(1).mean()])
    assert page_data["sure"] == [[at, int((p.max(1) >= at).sum())] for at in (0.8, 0.9, 0.95, 0.99)]


def test_numbers_of_workers(saved, page_data):
    group = saved.tree["calibrated"].to_dataset()
    theta = group["confusion"].values.reshape(-1, *group["confusion"].shape[2:])  # (S, J, K, K)
    pi = group["prevalence"].values.reshape(-1, 3)
    ends = (1 - page_data["level"]) / 2
    for n, row in enumerate(page_data["prevalence"]):
        close(row[1:], [pi[:, n].mean(), *np.quantile(pi[:, n], [ends, 1 - ends])])
    crew = page_data["workers"]
    truth = saved.tree["calibrated"]["draw_of"].values.reshape(len(theta), -1)
    item, worker = (saved.tree["constant_data"][f"{name}_index"].values for name in ("item", "worker"))
    label = saved.tree["observed_data"]["labels"].values
    assert crew["annotations"] == np.bincount(worker).tolist()
    accuracy = np.einsum("sk,sjkk->sj", pi, theta)
    right = np.stack([np.bincount(worker, weights=state[item] == label) for state in truth]) / np.bincount(worker)
    joint = pi[:, None, :, None] * theta
    product = joint.sum(-1, keepdims=True) * joint.sum(-2, keepdims=True)
    bits = (joint * np.log2(np.where(joint > 0, joint / product, 1))).sum((-2, -1))
    for name, draws in {"accuracy": accuracy, "share_correct": right, "informativeness": bits}.items():
        close(crew[name], draws.mean(0))
        close(crew[f"{name}_low"], np.quantile(draws, ends, axis=0))
        close(crew[f"{name}_high"], np.quantile(draws, 1 - ends, axis=0))
    ranks = (accuracy[:, None, :] > accuracy[:, :, None]).sum(-1) + 1
    close(crew["rank"], np.median(ranks, axis=0))
    close(crew["spammer"], workers.spammer_probability(saved))
    assert crew["verdict"] == workers.verdicts(saved).tolist()
    close(crew["speed"], workers.relative_speed(saved))
    for j, (mean, low, high) in crew["confusion"].items():
        mine = theta[:, int(j)].reshape(len(theta), -1)
        close(mean, mine.mean(0))
        close(low, np.quantile(mine, ends, axis=0))
        close(high, np.quantile(mine, 1 - ends, axis=0))
    assert len(crew["confusion"]) == theta.shape[1]
    took = pd.Series(saved.tree["constant_data"]["seconds"].values).groupby(worker).median()
    close(crew["seconds"], took)
    for j in range(theta.shape[1]):
        assert crew["given"][j] == np.bincount(label[worker == j], minlength=3).tolist()


def test_other_numbers(saved, page_data):
    p = saved.tree["calibrated"]["probability"].values
    entropy = -(p * np.log2(np.where(p > 0, p, 1))).sum(1)
    item, worker, label = saved.annotation_index()
    known = saved.tree["constant_data"]["known_truth"].values >= 0
    unsure = np.flatnonzero(~known & (p.max(1) < 0.8))
    todo = page_data["todo"]
    assert (todo["open"], todo["total"]) == (len(unsure), len(p))
    assert todo["finished"] == (known | (p.max(1) >= 0.95)).sum()
    assert todo["open"] + todo["probable"] + todo["finished"] == len(p)
    close([todo["correct"]], [np.where(known, 1, p.max(1)).mean()])
    shown = [one["item"] for one in page_data["again"]]
    assert len(shown) == min(figures.AGAIN, len(unsure))
    assert set(shown) <= set(unsure.tolist())
    assert entropy[shown].min() >= np.sort(entropy[unsure])[-len(shown)] - 1e-9
    assert (np.diff(entropy[shown]) <= 1e-9).all()
    for one in page_data["again"][:10]:
        i = one["item"]
        assert one["said"] == [[int(j), int(k)] for j, k in zip(worker[item == i], label[item == i], strict=True)]
        for k, share in one["probabilities"]:
            assert share == pytest.approx(p[i, k], abs=5.1e-5)
    counts = np.zeros((3, 3), dtype=int)
    doubtful = np.isin(page_data["workers"]["verdict"], workers.UNRELIABLE)
    for i, j, k in zip(item, worker, label, strict=True):
        counts[p[i].argmax(), k] += not doubtful[j]
    assert page_data["crowd"]["matrix"] == counts.tolist()
    assert page_data["crowd"]["without"] == doubtful.sum()
    for k, other, often, total in page_data["crowd"]["pairs"]:
        assert (often, total) == (counts[k, other], counts[k].sum())
    close(np.ravel(page_data["redundancy"]), np.ravel(acquisition.redundancy(saved, 15).to_numpy()))
    assert page_data["redundancy_source"] == acquisition.redundancy_source(saved)
    again = criticism.check(saved, draws=figures.REPLICATES).table.dropna()
    close(
        np.ravel([row[1:] for row in page_data["check"]["rows"]]),
        np.ravel(again[["observed", "low", "high", "p_value"]]),
    )
    assert page_data["coverage"] == saved.tree.attrs["coverage"]
    assert "Coverage measured for dawid-skene by gibbs" in page_data["coverage"]
    assert page_data["correlation"] == saved.tree.attrs["correlation"]
    assert page_data["reproduce"]["seed"] == 5
    assert page_data["reproduce"]["command"] == ["crowdppl", "fit", "labels.csv"]
    assert page_data["counts"]["items"] == len(p)


def test_another_level_is_used_throughout(saved, page_data):
    half = data_of(report.page(saved, level=0.5))
    assert half["level"] == 0.5
    for name in ("accuracy", "share_correct", "informativeness"):
        wide, narrow = (
            np.subtract(one["workers"][f"{name}_high"], one["workers"][f"{name}_low"]) for one in (page_data, half)
        )
        assert (wide >= narrow).all()
        assert wide.sum() > narrow.sum()


def test_a_single_point_has_no_intervals():
    """A result of one draw has no intervals, and neither has the page."""
    frame, _ = crowd_with_characters(items=60, each=20)
    page = data_of(report.page(fitted(frame, num_samples=1)))
    assert set(page["workers"]["accuracy_low"]) == {None}
    assert set(page["workers"]["place"]) == {"unknown"}


def hostile_result():
    rng = np.random.default_rng(0)
    rows = [
        (f"{HOSTILE[i % 8]} {i}", HOSTILE[j], f"{HOSTILE[(i + (rng.random() < 0.2)) % 2]}")
        for i in range(24)
        for j in range(8)
    ]
    return fitted(pd.DataFrame(rows, columns=["task", "worker", "label"]), num_samples=50)


def test_names_are_never_markup():
    """Names occur inside the JSON and as text of the page; in both, characters of markup are escaped."""
    posterior = hostile_result()
    text = report.page(posterior, {"input": {"file": "<b>labels</b>.csv"}, "command": ["<script>"]})
    data = data_of(text)
    assert sorted(data["workers"]["worker"]) == sorted(HOSTILE)
    assert text.count("<script") == 2
    assert text.count("</script>") == 2
    assert "<img" not in text
    assert "alert(1)<" not in text
    assert "&lt;b&gt;labels&lt;/b&gt;.csv" in text
    assert "\u2028" not in text
    policy = re.search(r'content="(default-src[^"]*)"', text).group(1)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for written in (json.dumps(HOSTILE[2])[1:-1], escaped(HOSTILE[2])):
        text = text.replace(written, "")
    assert "http:" not in text


def without_scripts(text):
    """Return the words that a page shows where scripts do not run."""
    text = re.sub(r"<(script|style)\b.*?</\1>", " ", text, flags=re.DOTALL)
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", text).split()))


def test_the_first_screen_and_the_tops_of_tables_need_no_script(saved, page_data):
    """Title, key figures, whom to talk to and why, what to send out again, tables, notes and coverage."""
    words = without_scripts(report.page(saved, {"input": {"file": "labels.csv"}}))
    todo = page_data["todo"]
    assert f"{page_data['counts']['annotations']:,} annotations" in words
    for one in (*todo["stop"], *todo["retrain"])[: todo["shown"]]:
        assert f"{one['action']}. {one['sentence']}" in words
    assert f"Send out again: {todo['open']} items" in words
    for worker, verdict in zip(page_data["workers"]["worker"], page_data["workers"]["verdict"], strict=True):
        assert re.search(rf"{re.escape(worker)} \S {page_data['verdicts'][verdict][0]}", words)
    for one in page_data["again"][:20]:
        assert words.count(page_data["items"]["task"][one["item"]]) >= 2
    for sentence in (*saved.notes, saved.coverage, saved.correlation):
        assert " ".join(sentence.split()) in words


def test_long_tables_say_how_many_rows_are_left_out():
    frame = pd.DataFrame([(i, j, int((i + j) % 3 == 0)) for i in range(40) for j in range(30)])
    posterior = fitted(frame.set_axis(["task", "worker", "label"], axis=1), num_samples=10)
    words = without_scripts(report.page(posterior))
    assert "... and 15 more, shown where JavaScript is allowed." in words
    assert "... and 5 more, shown where JavaScript is allowed." in words


def test_the_page_loads_nothing(saved):
    text = report.page(saved)
    for sign in ("src=", 'href="http', "@import", "url(", "fetch(", "XMLHttpRequest", "innerHTML", "document.write"):
        assert sign not in text, sign


@pytest.mark.slow
def test_size_at_ten_thousand_items_and_a_thousand_workers():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "task": np.repeat([f"item-{i:05d}-of-the-set" for i in range(10_000)], 5),
            "worker": [f"worker-{j:04d}" for j in rng.integers(0, 1_000, 50_000)],
            "label": rng.integers(0, 4, 50_000),
        }
    )
    posterior = fitted(frame.drop_duplicates(["task", "worker"]), num_samples=10)
    assert len(report.page(posterior).encode()) < 5e6


@pytest.mark.slow
def test_texts_and_links_are_stored_in_the_result(saved, tmp_path):
    names = saved.items().tolist()
    described = report.describe(saved, text={names[3]: "a text", names[4]: None}, url={names[3]: "http://x.org/3"})
    again = crowdppl.load(described.save(tmp_path / "posterior.nc"))
    items = data_of(report.page(again))["items"]
    assert items["text"][3:5] == ["a text", ""]
    assert items["url"][3:5] == ["http://x.org/3", None]
    assert "text" not in data_of(report.page(saved))["items"]
    assert report.carried(again, saved).tree["constant_data"]["item_text"].values[3] == "a text"
    with pytest.raises(crowdppl.DataError, match="none of its items is in the result"):
        report.describe(saved, text={"elsewhere": "x"})
    for wrong in (-1, float("nan"), float("inf"), "much", True):
        with pytest.raises(crowdppl.OptionError, match="price of one annotation"):
            report.page(saved, cost=wrong)


def test_texts_match_items_of_another_type():
    frame = pd.DataFrame(
        [(i, w, (i + (w == "c")) % 2) for i in range(12) for w in "abc"], columns=["task", "worker", "label"]
    )
    items = data_of(report.page(fitted(frame, num_samples=20), text={str(i): f"text {i}" for i in range(12)}))["items"]
    assert items["text"] == [f"text {i}" for i in range(12)]


@pytest.mark.parametrize(
    ("url", "taken"),
    [
        ("https://example.com/a b", True),
        (" HTTP://EXAMPLE.COM ", True),
        ("javascript:alert(1)", False),
        ("java\nscript:alert(1)", False),
        ("//example.com", False),
        ("http://", False),
        ("file:///etc/passwd", False),
        ("https://[::1", False),
        ("", False),
    ],
)
def test_only_http_and_https_are_links(url, taken):
    assert (safe_url(url) is not None) == taken


def test_costs_and_rounds(saved):
    actions = report.actions(saved, cost=0.25)
    assert [one.annotations for one in actions.rounds] == [n * len(actions.open) for n in (1, 2, 3)]
    assert [one.cost for one in actions.rounds] == [0.25 * one.annotations for one in actions.rounds]
    corrected = [one.corrected for one in actions.rounds]
    assert 0 < corrected[0] <= corrected[1] <= corrected[2] < len(actions.open)
    assert report.actions(saved).rounds[0].cost is None
    lines = report.lines(actions, saved)
    assert lines[0] == saved.alert  # 100 draws are few
    assert lines[1].startswith(("Stop and check adversary", "Stop and check guesser", "Stop and check always"))
    assert any(line.startswith("Send out again: ") for line in lines)
    assert any("cost" in line for line in lines)


def test_names_of_classes_in_sentences(saved):
    assert report.actions(saved).names == ["class 0", "class 1", "class 2"]
    rows = [(i, w, ["no", "yes"][(i + (w == "c")) % 2]) for i in range(12) for w in "abc"]
    named = report.actions(fitted(pd.DataFrame(rows, columns=["task", "worker", "label"]), num_samples=20))
    assert named.names == ["“no”", "“yes”"]


@pytest.mark.parametrize(
    "shape", ["one class", "one worker", "one item", "all known", pytest.param("many classes", marks=pytest.mark.slow)]
)
def test_reports_of_unusual_results(shape, browser, tmp_path):
    """The page is drawn without errors and is not empty for minimal or extreme data."""
    rng = np.random.default_rng(0)
    rows = [(f"i{i}", f"w{j}", f"c{(i + (rng.random() < 0.3)) % 2}") for i in range(20) for j in range(4)]
    truth = None
    if shape == "one class":
        rows = [(i, w, "c0") for i, w, _ in rows]
    elif shape == "one worker":
        rows = [row for row in rows if row[1] == "w0"]
    elif shape == "one item":
        rows = [row for row in rows if row[0] == "i0"]
    elif shape == "all known":
        truth = {f"i{i}": f"c{i % 2}" for i in range(20)}
    else:
        rows = [(f"i{i}", f"w{j}", f"c{(i + (rng.random() < 0.3)) % 300}") for i in range(300) for j in range(3)]
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", crowdppl.CrowdpplWarning)
        data = crowdppl.Annotations.from_frame(pd.DataFrame(rows, columns=["task", "worker", "label"]), truth=truth)
        posterior = crowdppl.fit(data, "dawid-skene", method="em", num_samples=20 if shape == "many classes" else 100)
    assert report.lines(report.actions(posterior, cost=1), posterior)
    browser.get(report.write(posterior, tmp_path / "report.html", cost=1).as_uri())
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert browser.find_element("id", "reproduce-body").text
    assert "NaN" not in browser.find_element("tag name", "body").text
    assert "undefined" not in browser.find_element("tag name", "body").text


def test_without_matrices_for_very_many_classes(monkeypatch, saved):
    monkeypatch.setattr(figures, "CONFUSION_CELLS", 45)
    few = figures.content(saved)["workers"]["confusion"]
    busiest = np.argsort(-saved.annotations_per_worker(), kind="stable")[:5]
    assert set(few) == {str(j) for j in busiest}
    monkeypatch.setattr(figures, "CONFUSION_CELLS", 8)
    assert figures.content(saved)["workers"]["confusion"] == {}
    monkeypatch.setattr(figures, "CHECKED", 10)
    assert figures.content(saved)["check"]["left_out"]


# ---------------------------------------------------------------------- in a browser


@pytest.fixture
def opened(browser, saved, tmp_path):
    path = report.write(saved, tmp_path / "report.html", {"input": {"file": "labels.csv"}})
    browser.set_window_size(1200, 1000)
    browser.get(path.as_uri())
    return browser


def column(browser, section, n):
    return [
        cell.text
        for cell in browser.find_elements("css selector", f"#{section}-table tbody tr:not(.detail) > *:nth-child({n})")
    ]


def shot(browser, name):
    SHOTS.mkdir(parents=True, exist_ok=True)
    browser.save_screenshot(str(SHOTS / f"{name}.png"))


def test_sorting_searching_and_opening(opened, saved):
    """Sort by clicks, search by typing, open a worker."""
    assert not [entry for entry in opened.get_log("browser") if entry["level"] == "SEVERE"]
    probability = saved.probability().max(1)
    assert column(opened, "items", 3)[0] == f"{math.floor(1000 * round(probability.min(), 4) + 0.5) / 10:.1f}%"
    opened.find_element("xpath", "//*[@id='items-table']//button[text()='probability']").click()
    assert column(opened, "items", 3)[0] == f"{100 * round(probability.max(), 4):.1f}%"
    head = opened.find_element("xpath", "//*[@id='items-table']//th[button[text()='probability']]")
    assert head.get_attribute("aria-sort") == "descending"
    box = opened.find_element("css selector", "#items-table input")
    box.send_keys("item 17")
    expected = sorted(name for name in saved.items().tolist() if "item 17" in name)
    assert sorted(column(opened, "items", 1)) == expected
    box.clear()
    opened.find_element("css selector", "#workers-table input").send_keys("adversarial")
    assert column(opened, "workers", 2) == ["adversary"]
    button = opened.find_element("css selector", "#workers-table tbody button")
    button.click()
    assert button.get_attribute("aria-expanded") == "true"
    assert "Ask why." in opened.find_element("css selector", "#workers-table .inside").text
    j = saved.worker_index("adversary")
    first = opened.find_element("css selector", "#workers-table .matrix td").text
    assert first.startswith(f"{saved.draws('confusion', worker=j).mean(0)[0, 0]:.0%}")
    shot(opened, "worker")
    assert (
        "Coverage measured for dawid-skene by gibbs" in opened.find_element("css selector", "#workers .footnote").text
    )


def test_the_first_screen_shows_what_to_do(opened, saved):
    """Whom to talk to and why, what to send out again, what is finished; no statistical terms before the appendix."""
    todo = opened.find_element("id", "todo").text
    for name in ("adversary", "guesser", "always"):
        assert name in todo
    assert "Exclude." in todo
    assert f"Send out again: {(saved.probability().max(1) < 0.8).sum()} items" in todo
    text = opened.find_element("tag name", "body").text
    body, appendix = text.split("Appendix: data and statistics")
    for word in ("Gibbs", "logit", "conditional", "R-hat", "hyperparameter", "entropy", "p-value"):
        assert word not in body, word
    assert "Gibbs" in appendix
    opened.find_element("link text", "adversary").click()
    assert column(opened, "workers", 2) == ["adversary"]


def test_the_page_works_by_keyboard(opened):
    """Tab to a heading and press Enter, to a worker and press the space bar."""
    from selenium.webdriver.common.keys import Keys

    head = opened.find_element("xpath", "//*[@id='workers-table']//button[text()='accuracy']")
    opened.execute_script("arguments[0].focus()", head)
    head.send_keys(Keys.ENTER)
    assert column(opened, "workers", 2)[0].startswith("honest")
    button = opened.find_element("css selector", "#workers-table tbody button")
    opened.execute_script("arguments[0].focus()", button)
    button.send_keys(Keys.SPACE)
    assert button.text == "Close"
    for element in opened.find_elements("css selector", "button, a, input, select, summary"):
        assert element.get_attribute("tabindex") in (None, "", "0")


PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}


def test_narrow_dark_and_printed(opened):
    """On a phone, accuracy and verdict of every worker fit the screen, and a list replaces the headings for sorting."""
    from selenium.webdriver.support.ui import Select, WebDriverWait

    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    try:
        opened.refresh()
        width, room = opened.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
        assert room == 390
        assert width <= room
        shot(opened, "phone")
        right = opened.execute_script(
            "return [...document.querySelectorAll('#workers-table tbody .pill, #workers-table td.num')]"
            ".filter((cell) => cell.offsetParent).map((cell) => cell.getBoundingClientRect().right)"
        )
        assert len(right) > 40
        assert max(right) <= 390
        Select(opened.find_element("css selector", "#workers-table select")).select_by_visible_text("by accuracy")
        assert column(opened, "workers", 2)[0].startswith("honest")
        before = opened.execute_script("return getComputedStyle(document.body).backgroundColor")
        opened.find_element("id", "theme").click()
        WebDriverWait(opened, 5).until(
            lambda b: b.execute_script("return getComputedStyle(document.body).backgroundColor") != before
        )
        shot(opened, "phone-dark")
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert len(opened.print_page()) > 10_000


def test_texts_and_links_in_the_browser(browser, saved, tmp_path):
    """Texts are shown as text, and only http and https addresses can be clicked."""
    names = saved.items().tolist()
    urls = {names[0]: "https://example.com/a?x=1&y=<b>", names[1]: "javascript:alert(1)", names[2]: "data:text/html,x"}
    texts = {name: f"<img src=x onerror=alert(1)> {HOSTILE[5]} text of {name} " + "long " * 200 for name in names[:50]}
    path = report.write(
        saved, tmp_path / "report.html", title="</title><script>1</script>", text=texts, url=pd.Series(urls), cost=0.05
    )
    browser.set_window_size(1200, 1000)
    browser.get(path.as_uri())
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    box = browser.find_element("css selector", "#items-table input")
    links = []
    for name in names[:3]:
        box.clear()
        box.send_keys(name)
        assert f"text of {name}" in browser.find_element("id", "items-table").text
        links += browser.find_elements("css selector", "#items-table a")
        addresses = [link.get_attribute("href") for link in browser.find_elements("css selector", "#items-table a")]
        assert all(href.startswith("https://example.com/") for href in addresses)
    assert links
    assert browser.execute_script("return document.querySelectorAll('img').length") == 0
    assert browser.title == "</title><script>1</script>"
    assert "2 links of items are not http or https" in browser.find_element("id", "notes").text
    assert "cost" in browser.find_element("id", "do-cost").text
    width, room = browser.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert width <= room


def test_hostile_names_in_the_browser(browser, tmp_path):
    path = report.write(hostile_result(), tmp_path / "report.html")
    browser.get(path.as_uri())
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    shown = column(browser, "workers", 2)
    assert HOSTILE[0] in shown
    assert browser.execute_script("return document.querySelectorAll('img').length") == 0
    assert browser.execute_script("return document.querySelectorAll('script').length") == 2


def test_parts_of_the_page_are_in_the_package():
    for name in ("templates/page.html", "style.css", "script.js"):
        assert pages._part(name)


def test_what_is_already_computed_is_not_computed_again(saved, monkeypatch):
    """With the table of workers and the actions the report is the same; commands name the folder."""
    table = saved.workers()
    actions = report.actions(saved, worker_table=table)
    expected = report.content(saved, folder=Path("my results"))
    monkeypatch.setattr("crowdppl.report.plan.actions", None)
    monkeypatch.setattr("crowdppl.posterior.posterior.Posterior.workers", None)
    assert report.content(saved, folder=Path("my results"), worker_table=table, actions=actions) == expected
    assert expected["todo"]["command"] == f"crowdppl next 'my results' -n {len(actions.open)} --sure 0.8"
    assert next_command(3, Path("-x")) == "crowdppl next ./-x -n 3 --sure 0.8"
    assert next_command(3) == "crowdppl next -n 3 --sure 0.8"


@pytest.fixture(scope="module")
def graded():
    """Grades from 1 to 5 by four raters, one of whom is more severe."""
    rng = np.random.default_rng(3)
    quality = rng.normal(size=60)
    rows = [
        (f"p{i}", name, 1 + int(np.digitize(2 * quality[i] - shift + rng.logistic(), [-3, -1, 1, 3])))
        for i in range(60)
        for name, shift in {"ann": 0, "bob": 2, "cat": 0, "dan": 0}.items()
    ]
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"])
    return quiet_fit(crowdppl.Annotations.from_frame(frame, kind="ordinal"), method="em", num_samples=100)


def test_the_page_speaks_of_grades(graded):
    data = report.content(graded)
    table, grades = graded.grades(), data["grades"]
    close(data["items"]["grade"], table["grade"])
    close(data["items"]["near"], near_probability(graded.probability()))
    assert data["names"][0] == "grade 1"
    assert grades["severity"]["rows"][0]["name"] == "bob"
    assert len(grades["wright"]["bars"]) > 3
    assert grades["use"][0][:2] == ["all raters", "240"]
    assert [row[0] for row in grades["use"][1:]] == ["ann", "bob", "cat", "dan"]
    page = report.page(graded)
    text = without_scripts(page)
    for words in ("Grades given", "All grades", "within one grade", "Severity of raters, in grades", "Wright map"):
        assert words in text
    for words in ("Who confuses what", "class 1", "final label", "label given"):
        assert words not in text
    assert page.count("<circle") == 2 * 4


def test_the_page_of_grades_in_the_browser(browser, graded, tmp_path):
    path = report.write(graded, tmp_path / "report.html")
    browser.get(path.as_uri())
    text = browser.find_element("css selector", "main").text
    assert "true grade" in text
    assert "grade 3" in text
    assert "class 3" not in text
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def test_the_wright_map_shows_a_bias_that_all_raters_share():
    """True grades are known, and all raters grade lower. An item and a rater without grades stand in no figure."""
    rng = np.random.default_rng(5)
    true = rng.integers(2, 6, 50)
    rows = [(i, name, max(1, true[i] - 1 - (rng.random() < 0.2))) for i in range(50) for name in "abc"]
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"])
    data = crowdppl.Annotations.from_frame(
        frame,
        kind="ordinal",
        labels=[1, 2, 3, 4, 5],
        truth=dict(enumerate(true.tolist())),
        items=[*range(50), 99],
        workers=["zz", *"abc"],
    )
    posterior = quiet_fit(data, method="em", num_samples=100)
    drawn = report.content(posterior)["grades"]["wright"]
    assert sorted(row["name"] for row in drawn["rows"]) == ["a", "b", "c"]
    (left, low), (right, high) = [(float(at), float(text.replace("−", "-"))) for at, text in drawn["ticks"]][:2]
    per_grade = (right - left) / (high - low)
    means = [low + (float(row["mean"]) - left) / per_grade for row in drawn["rows"]]
    assert np.mean(means) == pytest.approx(frame["label"].mean(), abs=0.15)
    assert np.mean(true) - np.mean(means) > 0.8


def test_bars_stay_in_the_figure():
    one = dots(["a"], np.array([3.001]), np.array([3.0]), np.array([3.002]), None, "t", above=np.full(5, 3.0))
    for left, _, width, _ in one["bars"]:
        assert 0 <= float(left) <= float(left) + float(width) <= one["width"]
