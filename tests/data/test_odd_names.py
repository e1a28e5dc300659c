"""Names that are probably others, columns with another part, and classes that differ by their look: a note each."""

import zipfile

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.data.table.identifiers import writable
from crowdppl.errors import CrowdpplWarning

PLAIN = {"task": list("aabb"), "worker": list("uvuv"), "label": list("xyyx")}
TWENTY = {"task": np.repeat(np.arange(20), 2), "worker": list("uv") * 20, "label": list("xyyx") * 10}


def notes(**columns):
    return " ".join(crowdppl.Annotations.from_frame(pd.DataFrame(columns)).notes)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"label": ["Cat", "cat", "Cat", "cat"]}, "are kept as 2 classes, as one would be left"),
        ({"label": ["abc", "\u0430bc", "abc", "abc"]}, "are kept as 2 classes, as one would be left"),
        ({"label": ["I", "1", "II", "2"]}, "'I' and '1', 'II' and '2' may be the same in two forms"),
        ({"label": ["O", "0", "l", "1"]}, "'O' and '0', 'l' and '1' may be the same in two forms"),
        ({"label.1": list("xxxx")}, "'label.1' is probably a second one named 'label'"),
        ({"task": ["7", "#7", "b", "b"]}, "'#7' and '7'"),
        ({"task": ["item_1", "1", "2", "2"]}, "'item_1' and '1'"),
        ({"worker": ["u", "-", "u", "-"]}, "'-' is read as the name of a worker"),
        ({"worker": ["u,v", "v,u", "u,v", "v,u"]}, "'u,v' has the same parts in another order"),
        ({"worker": ["u & v", "v & u"] * 2}, "'u & v' has the same parts in another order"),
        ({"worker": ["u and v", "v and u"] * 2}, "'u and v' has the same parts in another order"),
        ({"label": ["VI", "6", "VII", "7"]}, "'VI' and '6', 'VII' and '7' may be the same in two forms"),
        ({"worker": ["1.jpg", "2.jpg", "3.jpg", "4.jpg"]}, "all workers are names of files, such as '1.jpg'"),
    ],
)
def test_a_note_on_names(changed, sentence):
    assert sentence in notes(**{**PLAIN, **changed})


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"label": np.repeat([f"t{n}" for n in range(20)], 2)}, "each item has a label of its own"),
        ({"label": list("uv") * 20}, "each label is the name of its worker"),
        ({"worker": np.arange(40)}, "each annotation has a worker of its own, numbered from 0 to 39"),
        ({"worker": np.arange(40)[::-1]}, "each annotation has a worker of its own, numbered from 39 to 0"),
        ({"worker": [str(n) for n in range(40)]}, "each annotation has a worker of its own, numbered from 0 to 39"),
        ({"worker": np.delete(np.arange(41), 7)}, "each annotation has a worker of its own, numbered from 0 to 40"),
        ({"label": np.repeat(np.arange(100, 120), 2)}, "on which all its annotations agree, such as '100'"),
    ],
)
def test_a_note_on_columns_with_another_part(changed, sentence):
    assert sentence in notes(**{**TWENTY, **changed})


@pytest.mark.parametrize(
    "columns",
    [
        PLAIN,
        TWENTY,
        {**PLAIN, "label.1": list("xyyx")},
        {**PLAIN, "task": ["a1", "1", "b2", "2"]},
        {**PLAIN, "task": ["1.jpg", "1.jpg", "2.jpg", "2.jpg"]},
        {**TWENTY, "worker": np.random.default_rng(0).permutation(40) + 1},
    ],
)
def test_no_note_on_innocent_tables(columns):
    assert notes(**columns) == ""


def test_columns_of_questions_with_numbers_have_a_note(tmp_path):
    said = pd.DataFrame(
        {"id": [1, 2, 3], "q1_ann": [1, 1, 0], "q2_ann": [0, 1, 0], "q1_bob": [0, 1, 0], "q2_bob": [1, 0, 0]}
    )
    said.to_csv(tmp_path / "x.csv", index=False)
    sentence = "their names combine 'q1', 'q2' with 'ann', 'bob'"
    assert any(sentence in note for note in crowdppl.read(tmp_path / "x.csv", "wide").notes)
    sites = said.set_axis(["id", "site1_ann", "site2_ann", "site1_bob", "site2_bob"], axis=1)
    sites.to_csv(tmp_path / "y.csv", index=False)
    assert not any("their names combine" in note for note in crowdppl.read(tmp_path / "y.csv", "wide").notes)


def test_an_archive_in_an_archive_has_a_note(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a.csv", "task,worker,label\na,u,x\na,v,y\n")
        archive.writestr("more/part.zip", b"PK")
    sentence = "it contains an archive that is not opened, 'more/part.zip'"
    assert any(sentence in note for note in crowdppl.read(tmp_path / "x.zip").notes)
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        archive.extractall(tmp_path / "folder")
    assert any(sentence in note for note in crowdppl.read(tmp_path / "folder").notes)


def test_workers_without_common_items_are_no_silent_table():
    data = crowdppl.Annotations.from_frame(pd.DataFrame({**PLAIN, "task": list("abcd")}))
    with pytest.warns(CrowdpplWarning, match="none of the 2 workers has an item in common"):
        assert not len(crowdppl.metrics.pairwise_agreement(data))


def test_a_text_for_every_file():
    assert writable("a\0b\ud800") == "ab\N{REPLACEMENT CHARACTER}"
