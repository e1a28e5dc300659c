"""The built-in table, and the folder of public sets."""

import gzip
import warnings

import pandas as pd
import pytest
from commands import run

from crowdppl.data import datasets
from crowdppl.errors import CrowdpplError, CrowdpplWarning, FileError, OptionError


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return a writer of sets into a folder that the environment names."""
    monkeypatch.setenv("CROWDPPL_DATA", str(tmp_path))

    def put(name, annotations, truth=None):
        (tmp_path / name).mkdir()
        (tmp_path / name / "annotations.csv.gz").write_bytes(gzip.compress(annotations.encode()))
        if truth is not None:
            (tmp_path / name / "truth.csv").write_text(truth)

    return put


def refused(make, *parts):
    with pytest.raises(CrowdpplError) as caught:
        make()
    assert type(caught.value) is FileError
    assert "\n" not in str(caught.value)
    for part in parts:
        assert part in str(caught.value)


def test_anaesthesia_is_the_published_table():
    data = datasets.anaesthesia()
    assert data.items.tolist() == list(range(1, 46))
    assert data.workers.tolist() == [1, 2, 3, 4, 5]
    assert data.labels.tolist() == [1, 2, 3, 4]
    assert data.annotations_per_item.tolist() == [7] * 45
    # Patient 3: 1, 1, 2 by the first, then 2, 1, 2, 2.
    assert data.votes[2].tolist() == [3, 4, 0, 0]
    assert data.votes[35].tolist() == [0, 0, 4, 3]
    assert data.votes.sum(0).tolist() == [127, 125, 48, 15]


def test_no_folder(monkeypatch, tmp_path):
    for value in (None, "", str(tmp_path / "none")):
        monkeypatch.delenv("CROWDPPL_DATA", raising=False)
        if value is not None:
            monkeypatch.setenv("CROWDPPL_DATA", value)
        assert datasets.folder() is None
        refused(lambda: datasets.public("ducks"), "CROWDPPL_DATA", "folder")


def test_unknown_set(place):
    place("duck", "item,worker,label\n1,1,1\n2,1,2\n")
    refused(lambda: datasets.public("ducks"), "no data set 'ducks'", "did you mean 'duck'?")


def test_without_truth(place):
    place("one", "item,worker,label\n1,1,1\n2,1,2\n")
    data, truth = datasets.public("one", labels=[1, 2, 3])
    assert (data.A, data.K, len(truth)) == (2, 3, 0)


TRUTHS = {
    "numbers": ("1,1,1\n2,1,2\n", "1,2\n9,1\n2,1\n", {1: 2, 2: 1}),
    "strings": ("a,1,x\nb,1,y\n", "b,y\na,x\nc,x\n", {"b": "y", "a": "x"}),
    "numbers beside a string in the annotations": ("1,1,1\nb,1,2\n", "1,2\n", {"1": 2}),
    "a string beside numbers in the truths": ("1,1,1\n2,1,2\n", "1,2\nb,1\n", {1: 2}),
    "a class that is no number": ("1,1,1\n2,1,no\n", "1,1\n2,1\n", {1: "1", 2: "1"}),
    "blank": ("1,1,1\n2,1,2\n", "1,\n2,1\n", {2: 1}),
    "a class nobody gave": ("1,1,1\n2,1,2\n", "1,7\n", {1: 7}),
}


@pytest.mark.parametrize("case", TRUTHS)
def test_truths_are_matched_as_written(case, place):
    judged, known, expected = TRUTHS[case]
    place("one", "item,worker,label\n" + judged, "item,label\n" + known)
    data, truth = datasets.public("one")
    assert truth.to_dict() == expected
    assert set(truth.index) <= set(data.items.tolist())
    assert truth.name == "label"
    assert truth.index.name == "item"


def test_truth_with_other_columns(place):
    place("one", "item,worker,label\n1,1,1\n2,1,2\n", "id,class\n1,1\n")
    refused(lambda: datasets.public("one"), "truth.csv", "it needs columns 'item' and 'label'", "'id', 'class'")


COUNTS = "item,count_0,count_1,count_2\na,3,0,1\nb,0,2,0\n"


def counts(tmp_path, content=COUNTS):
    (tmp_path / "votes").mkdir()
    (tmp_path / "votes" / "counts.csv.gz").write_bytes(gzip.compress(content.encode()))


def test_a_set_of_counts(tmp_path, monkeypatch):
    """A set without worker identifiers is read as the counts of a crowd, with its classes named as its truths are."""
    monkeypatch.setenv("CROWDPPL_DATA", str(tmp_path))
    counts(tmp_path)
    (tmp_path / "votes" / "truth.csv").write_text("item,label\na,0\nb,1\n")
    data, truth = datasets.public("votes")
    assert (data.N, data.J, data.labels.tolist()) == (2, 1, [0, 1, 2])
    assert data.votes.tolist() == [[3, 0, 1], [0, 2, 0]]
    assert truth.to_dict() == {"a": 0, "b": 1}
    assert datasets.listing().set_index("name").loc["votes", "where"] == "folder"
    assert datasets.public("votes", labels=["x", "y", "z"])[0].labels.tolist() == ["x", "y", "z"]
    with pytest.raises(OptionError, match=r"counts without workers, which have no option 'repeats'"):
        datasets.public("votes", repeats="last")


def test_a_folder_without_annotations(tmp_path, monkeypatch):
    monkeypatch.setenv("CROWDPPL_DATA", str(tmp_path))
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "items.csv").write_text("item,text\n")
    (tmp_path / "texts" / "meta.json").write_text('{"title": "Texts of one"}')
    refused(
        lambda: datasets.public("texts"), "'texts' contains no annotations (Texts of one)", "'items.csv'", str(tmp_path)
    )


@pytest.mark.slow
def test_every_folder_is_read_or_says_why_not():
    place = datasets.folder()
    if place is None:
        pytest.skip("the folder of public data sets is not at hand")
    listed = set(datasets.listing().query("where == 'folder'")["name"])
    for name in sorted(path.name for path in place.iterdir() if path.is_dir()):
        if name in listed:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CrowdpplWarning)
                data, _ = datasets.public(name)
            assert data.A > 0
        else:
            refused(lambda name=name: datasets.public(name), "contains no annotations")


def test_public_sets_at_hand(public):
    data, truth = public("rte")
    assert (data.N, data.J, data.K, data.A) == (800, 164, 2, 8000)
    assert len(truth) == 800
    assert isinstance(truth, pd.Series)


def test_sets_at_hand_are_listed_and_checked(tmp_path, monkeypatch, public):
    """Sizes as published, and a file that has changed is refused."""
    import json
    import shutil

    public("rte")  # skips without the data
    table = datasets.listing().set_index("name")
    assert table.loc["rte", ["items", "workers", "annotations", "classes", "truths"]].tolist() == [
        800,
        164,
        8000,
        2,
        800,
    ]
    assert "Snow" in table.loc["rte", "citation"]
    shutil.copytree(datasets.folder() / "rte", tmp_path / "rte")
    monkeypatch.setenv("CROWDPPL_DATA", str(tmp_path))
    assert datasets.public("rte")[0].A == 8000
    truth = tmp_path / "rte" / "truth.csv"
    truth.write_text(truth.read_text().replace("1", "0", 1))
    with pytest.raises(FileError, match="not the published file"):
        datasets.public("rte")
    (tmp_path / "rte" / "meta.json").write_text("{")
    with pytest.raises(FileError, match=r"meta\.json cannot be read"):
        datasets.listing()
    (tmp_path / "rte" / "meta.json").write_text(json.dumps({"title": "mine"}))
    assert datasets.listing().set_index("name").loc["rte", ["title", "where"]].tolist() == ["mine", "folder"]
    assert "mine" in run("datasets").output
    monkeypatch.delenv("CROWDPPL_DATA")
    assert "to fetch" in run("datasets").output
