"""Results of judges in files, and as trees for ArviZ."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import crowdppl
from crowdppl import FileError, judges
from crowdppl.errors import silent
from crowdppl.judges import JudgesResult


def graded():
    rng = np.random.default_rng(0)
    truth = rng.integers(1, 5, 50)
    rows = [
        (i, f"m{j}", int(np.clip(truth[i] + rng.integers(-1, 2), 1, 4)), rng.random(), n)
        for i in range(50)
        for j in range(3)
        for n in range(2)
    ]
    table = pd.DataFrame(rows, columns=["item", "judge", "verdict", "cost", "run"])
    return table, dict(enumerate(truth.tolist()))


def booleans():
    verdicts, truth = judges.simulate(items=30, seed=1)
    human = truth.head(30).assign(annotator="p", probability=0.4, verdict=truth["verdict"].head(30) == "pass")
    return verdicts.assign(verdict=verdicts["verdict"] == "pass", when="2026-01-02", version="v1"), human


def pairs():
    verdicts, truth = judges.simulate_pairs(items=60, seed=3)
    return verdicts, truth.head(30)


def without_labels():
    return judges.simulate(items=20, seed=1)[0], None


CASES = {"graded": graded, "booleans": booleans, "pairs": pairs, "without labels": without_labels}


@pytest.fixture(scope="module", params=CASES)
def result(request):
    verdicts, human = CASES[request.param]()
    with silent():
        return judges.fit(verdicts, human, num_samples=100)


def test_everything_is_as_before(result, tmp_path):
    again = judges.load(result.save(tmp_path / "r.nc"))
    assert isinstance(again, JudgesResult)
    for table in ("systems", "judges", "items", "comparisons", "versions", "next"):
        pd.testing.assert_frame_equal(getattr(again, table)(), getattr(result, table)())
    pd.testing.assert_frame_equal(again.panel().adds, result.panel().adds)
    pd.testing.assert_frame_equal(again.verdicts.to_frame(), result.verdicts.to_frame())
    assert again.statements == result.statements
    assert repr(again) == repr(result)
    assert again.verdicts.labels.dtype == result.verdicts.labels.dtype
    assert again.verdicts.items.tolist() == result.verdicts.items.tolist()


def test_the_tree_is_for_arviz(result):
    tree = result.tree
    assert isinstance(tree, xr.DataTree)
    rate = tree["posterior"]["rate"]
    assert rate.dims == ("chain", "draw", "rated")
    shown = result.systems().set_index("system")["corrected"]
    np.testing.assert_allclose(rate.mean(("chain", "draw")).to_series()[shown.index.astype(str)], shown, atol=1e-12)
    np.testing.assert_array_equal(tree["posterior"]["true_label"][0], result.truth)
    np.testing.assert_array_equal(tree["truth"]["probability"], result.probability)


def test_files_of_others_and_damaged_ones_are_refused(result, tmp_path):
    path = result.save(tmp_path / "r.nc")
    with pytest.raises(FileError, match=r"is a result of crowdppl\.judges; read it with crowdppl\.judges\.load"):
        crowdppl.load(path)
    data = crowdppl.Annotations.from_frame(
        pd.DataFrame({"task": [1, 1, 2, 2], "worker": ["a", "b"] * 2, "label": ["x", "x", "y", "y"]})
    )
    other = crowdppl.fit(data, "dawid-skene", seed=0).save(tmp_path / "p.nc")
    with pytest.raises(FileError, match=r"is not a result of crowdppl\.judges; read it with crowdppl\.load"):
        judges.load(other)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(FileError, match="damaged or was changed"):
        judges.load(path)
    tree = result.tree.copy()
    del tree["truth"]
    from crowdppl.posterior import io

    io.write(tree, tmp_path / "part.nc", "full")
    with pytest.raises(FileError, match="damaged or was changed"):
        judges.load(tmp_path / "part.nc")
