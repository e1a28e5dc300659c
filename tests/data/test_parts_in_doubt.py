"""Columns, rows and labels that may be others: true labels among workers, scales that begin at 0, comments, sums, exchanges."""

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.data.readers.file_kinds import other_kind

WORDS = ("cat", "dog", "owl")


def crowd(labels=WORDS, items=40, workers=8, each=4, accuracy=0.8, seed=0):
    """Return a table with a row for each annotation."""
    rng = np.random.default_rng(seed)
    true = rng.integers(len(labels), size=items)
    rows = []
    for i in range(items):
        for j in rng.choice(workers, each, replace=False):
            label = true[i] if rng.random() < accuracy else rng.integers(len(labels))
            rows.append((f"i{i + 1}", f"w{j + 1}", labels[label]))
    return pd.DataFrame(rows, columns=["task", "worker", "label"])


def wide(names, accuracies, seed=0):
    """Return a table with a column for each worker."""
    rng = np.random.default_rng(seed)
    true = rng.integers(3, size=60)
    columns = {"id": [f"i{n}" for n in range(60)]}
    for name, accuracy in zip(names, accuracies, strict=True):
        given = np.where(rng.random(60) < accuracy, true, rng.integers(3, size=60))
        columns[name] = [WORDS[n] for n in given]
    return pd.DataFrame(columns)


def notes(frame, **options):
    return " ".join(crowdppl.Annotations.from_frame(frame, **options).notes)


def of_file(frame, tmp_path):
    path = tmp_path / "a.csv"
    frame.to_csv(path, index=False)
    return " ".join(crowdppl.read(path, "wide").notes)


def where(frame, rows, column, values):
    return frame.assign(**{column: frame[column].where(~rows, values)})


SCALE = crowd((1, 2, 3, 4, 5))
SHIFTED = where(SCALE, SCALE.worker.isin(["w1", "w2"]), "label", SCALE.label - 1)
GERMAN = crowd(("positive", "negative", "neutral"))
GERMAN = where(GERMAN, GERMAN.worker.isin(["w1", "w2"]), "label", GERMAN.label.str.rstrip("e"))
FEW = crowd(items=200, workers=3, each=3)


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (SHIFTED, "such as 'w1' give 0 to 4, others such as 'w8' 1 to 5, and they agree more often if 1 is added"),
        (where(SCALE, SCALE.index == 5, "label", 55), "1 annotation with 55 beside 1 to 5: probably a typing error"),
        (where(SCALE, SCALE.index == 5, "label", -4), "1 annotation with -4 beside 1 to 5: probably a typing error"),
        (crowd(("10%", "50%", "90%")), "percentages such as '10%' are read as classes"),
        (crowd(("0-2", "05. Mrz", "6-8")), "labels such as '05. Mrz' were probably written as dates"),
        (crowd(("0-2", "2024-03-05", "6-8")), "labels such as '2024-03-05' were probably written as dates"),
        (GERMAN, "'negative' and 'negativ' differ in one letter, and no worker gives both"),
        (crowd([f"{word} ({n})" for word in WORDS for n in range(9)]), "end in a number, so that"),
        (crowd([f"{word} {n}%" for word in WORDS for n in range(50, 99)]), "end in a number, so that"),
        (where(crowd(("cat", "dog")), SCALE.index < 9, "label", "9"), "'9' taken for a class, though surveys"),
        (where(crowd(), SCALE.task == "i9", "task", "# i9"), "task names such as '# i9' begin as comments do"),
        (where(crowd(), SCALE.index == 9, "task", "i1 Total"), "1 task names, such as 'i1 Total'"),
        (FEW.rename(columns={"task": "worker", "worker": "task"}), "3 items have 200 workers"),
        (
            crowd().assign(annotator=np.random.default_rng(0).choice(["ann", "bob"], 160)),
            "the columns 'worker' and 'annotator' differ",
        ),
    ],
)
def test_a_note(frame, sentence):
    assert sentence in notes(frame)


def harsh(seed, lowest):
    """Return grades of workers of whom some are lower throughout."""
    rng = np.random.default_rng(seed)
    bias, quality = rng.normal(0, 0.7, 8), rng.normal(3, 1, 60)
    item = np.repeat(np.arange(60), 4)
    worker = np.concatenate([rng.choice(8, 4, replace=False) for _ in range(60)])
    grade = np.clip(np.round(quality[item] + bias[worker] + rng.normal(0, 0.5, 240)), 1, 5).astype(int) - 1 + lowest
    return pd.DataFrame({"task": item, "worker": worker, "label": grade})


def survey(seed):
    """Return answers of 150 people to five questions, of whom some agree with everything."""
    rng = np.random.default_rng(seed)
    score = rng.normal(0, 0.6, (150, 1)) + 1 + 0.8 * np.arange(5) + rng.normal(0, 0.8, (150, 5))
    item, person = np.tile(np.arange(5), 150), np.repeat(np.arange(150), 5)
    grade = np.clip(np.round(score), 1, 5).astype(int).ravel()
    return pd.DataFrame({"task": item, "worker": person, "label": grade})


@pytest.mark.parametrize(
    "frame",
    [
        crowd(),
        SCALE,
        *(harsh(seed, lowest) for seed in range(3) for lowest in (0, 1)),
        *(survey(seed) for seed in range(3)),
        crowd(("typical", "atypical", "other"), workers=40, each=2),
        crowd(("BI-RADS (1)", "BI-RADS (2)", "BI-RADS (3)")),
        crowd(("type A (1)", "type A (2)", "type B (1)")),
        crowd((1, 2, 3, 10)),
        crowd((0, 25, 50, 100)),
        crowd(("2020-01-01", "2020-02-01", "2020-03-01")),
        crowd().assign(task=lambda table: "#" + table.task),
        crowd().assign(task=lambda table: np.where(table.task == "i3", "#metoo", table.task)),
        crowd().assign(task=lambda table: np.where(table.task == "i3", "Total Recall", table.task)),
        crowd().assign(annotator=lambda table: table.worker.str.upper()),
        crowd().assign(annotator=lambda table: table.groupby("task").cumcount() + 1),
        crowd().assign(annotator=lambda table: np.where(table.worker < "w4", "crowd", "expert")),
    ],
)
def test_no_note(frame):
    """Nothing is asked but whether numbers are grades, which is asked of all."""
    kind = {"kind": "nominal"} if frame.label.dtype.kind == "i" else {}
    assert notes(frame, **kind) == ""


@pytest.mark.parametrize(
    ("names", "accuracies", "noted"),
    [
        (["ann1", "ann2", "ann3", "ann4", "A"], [0.7, 0.7, 0.7, 0.7, 1], True),
        (["key", "rater_1", "rater_2", "rater_3"], [1, 0.7, 0.7, 0.7], True),
        (["ann1", "ann2", "ann3", "maria"], [0.7, 0.7, 0.7, 0.7], False),
        (["rater1", "rater2", "rater3", "gpt4"], [0.7, 0.7, 0.7, 1], False),
        (["ann", "bob", "cy", "maria"], [0.7, 0.7, 0.7, 1], False),
        (["expert1", "expert2", "crowd1", "crowd2"], [1, 1, 0.7, 0.7], False),
    ],
)
def test_true_labels_among_numbered_workers(names, accuracies, noted, tmp_path):
    assert ("is named unlike all others" in of_file(wide(names, accuracies), tmp_path)) == noted


@pytest.mark.parametrize(("names", "noted"), [(["ann", "bob", "gs"], True), (["ab", "cd", "gs"], False)])
def test_a_gold_standard_and_initials(names, noted, tmp_path):
    assert ("'gs' is read as a worker, but may state" in of_file(wide(names, [0.7] * 3), tmp_path)) == noted


@pytest.mark.parametrize("version", [114, 117, 118])
def test_stata_is_named(version, tmp_path):
    path = tmp_path / "a.dta"
    crowd().to_stata(path, version=version, write_index=False)
    assert other_kind(path.read_bytes(), path).startswith("a table of Stata; read it with")
