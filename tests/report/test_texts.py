"""Texts in the report: tokens in order, spans with their type and probability, and nothing that a script would need."""

import re

import numpy as np
import pandas as pd
import pytest
from commands import run

import crowdppl
from crowdppl import Annotations, report
from crowdppl.report.texts import texts


def crowd(seed=0, length=8):
    rng = np.random.default_rng(seed)
    labels, rows = ["O", "B-X", "I-X"], []
    for s in range(20):
        z = "O"
        for t in range(length):
            z = rng.choice(labels, p=[0.7, 0.3, 0.0] if z == "O" else [0.4, 0.1, 0.5])
            for j in range(4):
                given = z if rng.random() < 0.85 else rng.choice(labels)
                rows.append((f"text {s}", t, f"w{j}", given, f"<word {s} {t}>"))
    return pd.DataFrame(rows, columns=["text", "place", "worker", "label", "word"])


@pytest.fixture(scope="module")
def posterior():
    data = Annotations.from_frame(crowd(), sequence="text", position="place")
    return crowdppl.fit(data, method="em", num_samples=20)


def test_the_least_certain_texts_come_first(posterior):
    shown = texts(posterior)["shown"]
    table = posterior.spans(every=True)
    doubt = np.minimum(table["probability"], 1 - table["probability"]).groupby(table["sequence"]).sum()
    assert [one["name"] for one in shown[:5]] == doubt.sort_values(ascending=False, kind="stable").index[:5].tolist()
    spans = posterior.spans()
    for one in shown:
        here = spans[spans["sequence"] == one["name"]]
        assert [part[:2] for part in one["spans"]] == here[["first", "last"]].to_numpy().tolist()
        np.testing.assert_allclose([part[3] for part in one["spans"]], here["probability"])
        assert len(one["words"]) == 8


def test_words_are_shown_and_escaped(posterior):
    frame = crowd()
    words = dict(zip(frame["text"] + ":" + frame["place"].astype(str), frame["word"], strict=True))
    page = report.page(report.describe(posterior, text=words))
    section = page[page.index('<section id="texts"') : page.index('<section id="items"')]
    assert "&lt;word 3 0&gt;" in page
    assert "<word" not in section
    marks = re.findall(r'<mark class="span p(\d)" title="X (\d+)%, marked by (\d) of (\d) workers">', section)
    assert len(marks) == sum(len(one["spans"]) for one in texts(posterior)["shown"])
    assert all(int(step) == min(9, int(percent) // 10) or int(percent) % 10 in (0, 9) for step, percent, *_ in marks)
    assert 'href="#texts"' in page


def test_other_reports_have_no_texts():
    data = Annotations.from_arrays(np.repeat(range(20), 3), ["u", "v", "w"] * 20, np.tile([0, 0, 1, 1, 1, 0], 10))
    with crowdppl.errors.silent():
        plain = crowdppl.fit(data, "dawid-skene", method="em", num_samples=20)
    page = report.page(plain)
    assert "<mark" not in page
    assert 'href="#texts"' not in page


def test_the_command_takes_words_from_a_column(tmp_path):
    crowd().to_csv(tmp_path / "tokens.csv", index=False)
    words = ["--sequence", "text", "--position", "place", "--text-column", "word", "--report"]
    run("fit", tmp_path / "tokens.csv", *words, "--out", tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "&lt;word 3 0&gt;" in page[page.index('<section id="texts"') :]
