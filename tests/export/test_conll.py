"""CoNLL's columns: read with a column for each annotator, written with labels and probabilities, and read again."""

import itertools

import numpy as np
import pytest
from commands import run

import crowdppl
from crowdppl import export
from crowdppl.errors import CrowdpplError, DataError, FileError

TEXT = """-DOCSTART- O O O

Ada B-PER B-PER ?
Lovelace I-PER O I-PER
wrote O O O

London B-LOC B-LOC B-LOC
"""


def written(folder, text=TEXT, name="tokens.conll"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_tokens_of_several_annotators(tmp_path):
    data = crowdppl.read(written(tmp_path), format="conll")
    assert data.items.tolist() == ["0:0", "0:1", "0:2", "1:0"]
    assert data.workers.tolist() == ["1", "2", "3"]
    assert data.A == 11
    assert data.chain_starts.tolist() == [0, 3, 4]
    assert data.labels.tolist() == ["B-LOC", "B-PER", "I-PER", "O"]


def test_names_of_annotators_stand_in_a_comment(tmp_path):
    text = "# word Amara Boris Chen\n" + TEXT
    assert crowdppl.read(written(tmp_path, text), format="conll").workers.tolist() == ["Amara", "Boris", "Chen"]


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("", FileError, "empty|no token"),
        ("one\ntwo\n", FileError, "no token with labels"),
        ("a ? ?\nb ? ?\n", FileError, "nobody labelled"),
        ("a O O\nb O\n", DataError, "line 2: another number of columns"),
        ("# Amara\na O O\n", DataError, "line 1: 1 names"),
    ],
)
def test_bad_files_get_one_line(tmp_path, text, kind, message):
    with pytest.raises(CrowdpplError, match=message) as caught:
        crowdppl.read(written(tmp_path, text), format="conll")
    assert isinstance(caught.value, kind)
    assert "\n" not in str(caught.value)


def crowd(folder, texts=30):
    """Write tokens of a simulated crowd; return the path and the true labels."""
    rng = np.random.default_rng(0)
    labels, lines, truth = ["O", "B-X", "I-X"], [], []
    for _ in range(texts):
        z = "O"
        for t in range(6):
            z = rng.choice(labels, p=[0.6, 0.4, 0.0] if z == "O" else [0.4, 0.1, 0.5])
            truth.append(z)
            given = [z if rng.random() < 0.9 else rng.choice(labels) for _ in range(4)]
            lines.append("\t".join([f"w{t}", *given]))
        lines.append("")
    return written(folder, "\n".join(lines)), truth


def test_round_trip(tmp_path):
    path, truth = crowd(tmp_path)
    posterior = crowdppl.fit(crowdppl.read(path, format="conll"), method="em", num_samples=20)
    out = export.conll(posterior, tmp_path / "out.conll", words=export.words_of(path))
    blocks = out.read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    assert len(blocks) == 30
    cells = [line.split("\t") for block in blocks for line in block.split("\n")]
    assert [cell[0] for cell in cells[:6]] == [f"w{t}" for t in range(6)]
    assert np.mean([cell[1] == z for cell, z in zip(cells, truth, strict=True)]) > 0.95
    assert all(0 <= float(cell[2]) <= 1 for cell in cells)
    for block in blocks:  # I-X only after a label of the span
        tags = ["O", *(line.split("\t")[1] for line in block.split("\n"))]
        assert all(before != "O" for before, tag in itertools.pairwise(tags) if tag == "I-X")
    spans = posterior.spans()
    assert sum(cell[1] == "B-X" for cell in cells) == len(spans)
    # As labels of one annotator, the written file gives the same spans.
    one = "\n".join("\t".join(line.split("\t")[:2]) for line in out.read_text(encoding="utf-8").split("\n"))
    again = crowdppl.read(written(tmp_path, one, "again.conll"), format="conll")
    labels = dict(zip(again.items[again.item.numpy()], again.labels[again.label.numpy()], strict=True))
    assert sum(label == "B-X" for label in labels.values()) == len(spans)


def test_other_results_have_no_tokens(tmp_path):
    with crowdppl.errors.silent():
        data = crowdppl.Annotations.from_arrays([0, 0, 1, 1], list("uvuv"), list("abab"))
        plain = crowdppl.fit(data, "dawid-skene", method="em", num_samples=20)
    with pytest.raises(DataError, match="sequence="):
        export.conll(plain, tmp_path / "x.conll")
    path, _ = crowd(tmp_path, 5)
    posterior = crowdppl.fit(crowdppl.read(path, format="conll"), method="em", num_samples=20)
    with pytest.raises(DataError, match="none for token"):
        export.conll(posterior, tmp_path / "x.conll", words={})


def test_the_command_goes_from_file_to_spans_and_tokens(tmp_path):
    path, _ = crowd(tmp_path)
    out = tmp_path / "results"
    said = run("fit", path, "--format", "conll", "--out", out)
    assert "Spans in the most probable labels: X" in said.stdout
    assert (out / "spans.csv").read_text(encoding="utf-8").startswith("sequence,first,last,type,probability")
    run("export", out, "--what", "conll", "--source", path, "--out", tmp_path / "t.conll")
    assert (tmp_path / "t.conll").read_text(encoding="utf-8").startswith("w0\t")
    run("export", out, "--what", "spans", "--out", tmp_path / "s.csv")
    assert (tmp_path / "s.csv").read_text(encoding="utf-8") == (out / "spans.csv").read_text(encoding="utf-8")
