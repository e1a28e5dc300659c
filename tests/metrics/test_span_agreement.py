"""Agreement on spans: a plain loop over pairs of workers, hand-made cases, and the command."""

import itertools

import numpy as np
import pandas as pd
import pytest
from commands import run

from crowdppl import Annotations, DataError, metrics


def read(rows):
    table = pd.DataFrame(rows, columns=["text", "place", "worker", "label"])
    return Annotations.from_frame(table, sequence="text", position="place", labels=["O", "B-X", "I-X", "B-Y", "I-Y"])


def texts(*said):
    """Return rows of one text by each worker, a label a token; a dash where the worker gave none."""
    return [
        ("t", n, f"w{j}", label)
        for j, labels in enumerate(said)
        for n, label in enumerate(labels.split())
        if label != "-"
    ]


def random_rows(seed, sequences=12, workers=4):
    rng = np.random.default_rng(seed)
    rows = []
    for s, j in itertools.product(range(sequences), range(workers)):
        if rng.random() < 0.25:
            continue
        before = "O"
        for n in range(7):
            allowed = ["O", "B-X", "B-Y"] + ([f"I-{before[2:]}"] * 2 if before != "O" else [])
            before = rng.choice(allowed)
            if rng.random() < 0.9:
                rows.append((s, n, f"w{j}", before))
            else:
                before = "O"
    return rows


def spans_of(rows):
    """Return the spans (text, first, last, type) of each worker, and the tokens they labelled, by hand."""
    spans, seen = {}, {}
    for worker, part in itertools.groupby(sorted(rows, key=lambda row: (row[2], row[0], row[1])), key=lambda r: r[2]):
        mine, current = [], None
        seen[worker] = set()
        for text, place, _, label in part:
            seen[worker].add((text, place))
            goes_on = current is not None and current[0] == text and current[2] == place - 1
            if label != "O" and label[0] == "I" and goes_on and current[3] == label[2:]:
                current[2] = place
                continue
            current = None if label == "O" else [text, place, place, label[2:]]
            if current is not None:
                mine.append(current)
        spans[worker] = [tuple(one) for one in mine]
    return spans, seen


@pytest.mark.parametrize("seed", range(4))
def test_it_equals_a_loop_over_pairs(seed):
    rows = random_rows(seed)
    spans, seen = spans_of(rows)
    counts = {name: np.zeros(3) for name in ("all", "X", "Y")}
    for one, other in itertools.permutations(spans, 2):
        for text, first, last, kind in spans[one]:
            if not {(text, n) for n in range(first, last + 1)} <= seen[other]:
                continue
            touching = any(t == text and k == kind and a <= last and b >= first for t, a, b, k in spans[other])
            for name in ("all", kind):
                counts[name] += (1, (text, first, last, kind) in spans[other], touching)
    table = metrics.span_agreement(read(rows)).set_index("type")
    assert list(table.index) == ["all", "X", "Y"]
    for name, (pairs, same, touching) in counts.items():
        assert table.loc[name, "exact"] == pytest.approx(same / pairs)
        assert table.loc[name, "overlap"] == pytest.approx(touching / pairs)
        assert table.loc[name, "exact_low"] < same / pairs < table.loc[name, "exact_high"]
    assert table.loc["all", "spans"] == sum(map(len, spans.values()))


def test_it_is_the_f_measure_of_two_workers():
    said = texts("B-X I-X O B-Y O B-X", "B-X I-X O B-Y I-Y O")
    table = metrics.span_agreement(read(said)).set_index("type")
    true_positive, only_first, only_second = 1, 2, 1
    assert table.loc["all", "exact"] == pytest.approx(
        2 * true_positive / (2 * true_positive + only_first + only_second)
    )
    assert table.loc["Y", ["exact", "overlap"]].tolist() == [0, 1]


def test_a_type_that_differs_is_no_agreement():
    table = metrics.span_agreement(read(texts("B-X I-X O", "B-Y I-Y O"))).set_index("type")
    assert table.loc["all", ["exact", "overlap"]].tolist() == [0, 0]


def test_a_type_may_be_called_all():
    rows = [(*row[:3], row[3].replace("X", "all")) for row in texts("B-X I-X O B-Y", "B-X I-X O O")]
    table = pd.DataFrame(rows, columns=["text", "place", "worker", "label"])
    data = Annotations.from_frame(table, sequence="text", position="place")
    assert metrics.span_agreement(data)["spans"].tolist() == [3, 1, 2]


def test_tokens_that_nobody_else_labelled_say_nothing():
    table = metrics.span_agreement(read(texts("B-X I-X O B-Y", "- - O -"))).set_index("type")
    assert table["exact"].isna().all()
    assert table.loc["all", "spans"] == 2


def test_who_marks_nothing_disagrees():
    table = metrics.span_agreement(read(texts("B-X I-X O", "O O O"))).set_index("type")
    assert table.loc["all", "exact"] == 0


@pytest.mark.slow
def test_intervals_hold_the_truth():
    """89% intervals over sequences of a known share, in 200 crowds: at least 82% (binomial, p = .0005)."""
    share, held = 0.7, 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        rows = []
        for s in range(60):
            rows += [(s, n, "u", label) for n, label in enumerate(["B-X", "I-X", "O"])]
            same = ["B-X", "I-X", "O"] if rng.random() < share else ["O", "B-X", "I-X"]
            rows += [(s, n, "v", label) for n, label in enumerate(same)]
        row = metrics.span_agreement(read(rows)).iloc[0]
        held += row["exact_low"] <= share <= row["exact_high"]
    assert held >= 164


def test_other_data_are_refused():
    frame = pd.DataFrame({"task": [0, 0], "worker": ["a", "b"], "label": ["x", "y"]})
    with pytest.raises(DataError, match=r"^no spans to compare[^\n]*use metrics\.agreement$"):
        metrics.span_agreement(Annotations.from_frame(frame))


def test_the_command_shows_them(tmp_path):
    table = pd.DataFrame(random_rows(0), columns=["text", "place", "worker", "label"])
    table.to_csv(tmp_path / "tokens.csv", index=False)
    where = ("--sequence", "text", "--position", "place", "--out", tmp_path / "agreement.csv")
    shown = run("agreement", tmp_path / "tokens.csv", *where).output
    assert "Agreement on spans" in shown
    written = pd.read_csv(tmp_path / "agreement.csv")
    assert {"span_exact: all", "span_overlap: X"} <= set(written["measure"])
