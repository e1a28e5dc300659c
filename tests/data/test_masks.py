"""Segmentations of several raters: patterns of votes, STAPLE, images in and out."""

import gzip

import numpy as np
import pandas as pd
import pytest
import torch
from commands import run

import crowdppl
from crowdppl.data import masks
from crowdppl.errors import DataError, FileError, ModelError, OptionError, silent
from crowdppl.models import DawidSkene
from crowdppl.posterior.masks import rater_table, staple

EXACT = {"method": "em", "independent": True, "tol": 1e-13, "max_iter": 100_000, "num_samples": 2}
# R's stapler comes with three masks of one volume: votes of the raters, and numbers of voxels (J. Muschelli).
VOTES = [[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)]
VOXELS = [4651687, 4191, 29888, 236, 6409, 23292, 530, 2359]
# What SimpleITK 2.5's STAPLE, with 10,000 iterations allowed, makes of them: 19 seconds.
SENSITIVITY = [0.9314784056743597, 0.09623570398477739, 0.8498884845785487]
SPECIFICITY = [0.9994870679854587, 0.9936207596049076, 0.999458884188099]
PROBABILITY = [6.372996e-05, 0.39993658, 0.0010559546, 0.91704126, 0.62800932, 0.99994336, 0.96551791, 0.99999658]


def fitted(data, model=None):
    with silent():
        return crowdppl.fit(data, model or staple(data), **EXACT)


def volume(shape=(6, 5, 4), raters=3, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    true = rng.integers(0, classes, shape)
    return {
        f"r{j}": np.where(rng.random(shape) < 0.8, true, rng.integers(0, classes, shape)).astype(np.int16)
        for j in range(raters)
    }


def test_staple_equals_simpleitk():
    """To 3e-6: SimpleITK stops before its last digits settle."""
    segmentations = masks.from_patterns(VOTES, VOXELS)
    posterior = fitted(segmentations.annotations)
    confusion = posterior.tree["point"]["confusion"].to_numpy()
    np.testing.assert_allclose(confusion[:, 1, 1], SENSITIVITY, atol=3e-6)
    np.testing.assert_allclose(confusion[:, 0, 0], SPECIFICITY, atol=3e-6)
    np.testing.assert_allclose(posterior.probability()[:, 1], PROBABILITY, atol=2e-5)
    table = rater_table(posterior, segmentations)
    np.testing.assert_allclose(table["sensitivity"], confusion[:, 1, 1])
    np.testing.assert_allclose(table["specificity"], confusion[:, 0, 0])
    assert table["elements"].tolist() == [sum(n for v, n in zip(VOTES, VOXELS, strict=True) if v[j]) for j in range(3)]


def test_a_learned_prevalence_gives_other_probabilities():
    segmentations = masks.from_patterns(VOTES, VOXELS)
    fixed, learned = (fitted(segmentations.annotations, model) for model in (None, DawidSkene.maximum_likelihood()))
    assert np.abs(fixed.probability() - learned.probability()).max() > 0.01
    assert "prevalence" not in fixed.tree["point"]
    np.testing.assert_allclose(fixed.prevalence()["share"], staple(segmentations.annotations).prevalence)


@pytest.mark.parametrize("classes", [2, 4])
def test_patterns_are_the_elements_written_out(classes):
    arrays = volume(classes=classes)
    segmentations = masks.from_arrays(arrays)
    votes = np.stack([array.reshape(-1) for array in arrays.values()], -1)
    np.testing.assert_array_equal(
        segmentations.annotations.labels[segmentations.votes[segmentations.pattern.reshape(-1)]], votes
    )
    assert segmentations.counts.tolist() == np.bincount(segmentations.pattern.reshape(-1)).tolist()
    assert len(np.unique(votes, axis=0)) == segmentations.annotations.N
    written = crowdppl.Annotations.from_arrays(
        np.repeat(np.arange(len(votes)), 3), np.tile(list(arrays), len(votes)), votes.reshape(-1), labels=range(classes)
    )
    model = staple(segmentations.annotations)
    np.testing.assert_allclose(model.prevalence, staple(written).prevalence)
    one, two = fitted(segmentations.annotations, model), fitted(written, model)
    np.testing.assert_allclose(
        segmentations.image(one.probability()).reshape(len(votes), classes), two.probability(), atol=1e-6
    )


def test_many_raters_and_classes_are_sorted_rather_than_counted(monkeypatch):
    arrays = volume(raters=9, classes=5)
    counted = masks.from_arrays(arrays)
    monkeypatch.setattr(masks, "COUNTED", 10)
    segmentations = masks.from_arrays(arrays)
    np.testing.assert_array_equal(segmentations.pattern, counted.pattern)
    np.testing.assert_array_equal(segmentations.counts, counted.counts)


def test_classes_of_raters_have_a_row_each():
    arrays = volume(classes=3)
    segmentations = masks.from_arrays(list(arrays.values()), raters=["x", "y", "z"])
    table = rater_table(fitted(segmentations.annotations), segmentations)
    assert table[["worker", "class"]].to_numpy().tolist() == [[name, k] for name in "xyz" for k in (1, 2)]
    assert table[["sensitivity", "specificity", "dice"]].to_numpy().min() > 0.5
    assert table["elements"].tolist() == [int((array == k).sum()) for array in arrays.values() for k in (1, 2)]
    other = masks.from_arrays(volume(classes=2))
    with pytest.raises(DataError, match="not one of these masks"):
        rater_table(fitted(other.annotations), segmentations)


def test_dice_is_the_overlap_with_the_consensus():
    arrays = [np.array([1, 1, 1, 0, 0, 0]), np.array([1, 1, 0, 0, 0, 0]), np.array([1, 1, 1, 0, 0, 1])]
    segmentations = masks.from_arrays(arrays)
    posterior = fitted(segmentations.annotations)
    consensus = segmentations.image(posterior.probability().argmax(-1))
    wanted = [2 * (consensus * array).sum() / (consensus.sum() + array.sum()) for array in arrays]
    np.testing.assert_allclose(rater_table(posterior, segmentations)["dice"], wanted)


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ([np.zeros((2, 2))], "two or more raters"),
        ([np.zeros((2, 2)), np.zeros((2, 3))], r"rater_2 has shape \(2, 3\).*one grid"),
        ([np.zeros(2), np.array([0.2, 1.0])], "cut probabilities"),
        ([np.zeros(2), np.array([np.nan, 1.0])], "not whole numbers"),
        ([np.zeros(2), np.array([-1, 1])], "numbers of classes"),
        ([np.zeros(2), np.array(["a", "b"])], "numbers of classes"),
        ([np.zeros(0), np.zeros(0)], "no elements"),
        ("ab", "pass arrays by name"),
    ],
)
def test_arrays_that_are_no_masks_are_refused(arrays, reason):
    with pytest.raises(DataError, match=reason):
        masks.from_arrays(arrays)


def test_other_arguments_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(DataError, match="name of its own"):
        masks.from_arrays([np.zeros(2), np.zeros(2)], raters=["a", "a"])
    with pytest.raises(DataError, match="use \\(P, J\\) and \\(P,\\)"):
        masks.from_patterns(VOTES, VOXELS[:3])
    segmentations = masks.from_arrays(volume())
    with pytest.raises(DataError, match="one for each"):
        segmentations.image(np.zeros(3))
    with pytest.raises(DataError, match="have shape"):
        segmentations.save(np.zeros(3), tmp_path / "x.npy")
    with pytest.raises(OptionError, match=r"\.npy"):
        segmentations.save(np.zeros((6, 5, 4)), tmp_path / "x.png")
    with pytest.raises(ModelError, match="3 classes; the data have 2"):
        crowdppl.fit(segmentations.annotations, DawidSkene(prevalence=(0.2, 0.3, 0.5)), method="em")
    for bad in ((0.5, 0.6), (1.0, 0.0), [0.5, 0.5], 0.5):
        with pytest.raises(ModelError, match="prevalence"):
            DawidSkene(prevalence=bad)


def test_every_engine_holds_a_fixed_prevalence():
    rng = np.random.default_rng(0)
    truth = rng.random(120) < 0.3
    label = np.where(rng.random((120, 4)) < 0.85, truth[:, None], ~truth[:, None]).astype(int)
    data = crowdppl.Annotations.from_arrays(np.repeat(np.arange(120), 4), np.tile(range(4), 120), label.reshape(-1))
    model = DawidSkene(prevalence=(0.7, 0.3))
    options = {
        "em": {"num_samples": 20},
        "gibbs": {"chains": 1, "warmup": 20, "num_samples": 30},
        "svi": {"max_iter": 100, "num_samples": 20},
        "nuts": {"chains": 1, "warmup": 10, "num_samples": 10, "max_tree_depth": 3},
    }
    for method, own in options.items():
        with silent():
            posterior = crowdppl.fit(data, model, method=method, independent=True, seed=0, **own)
        np.testing.assert_allclose(posterior.prevalence()["share"], [0.7, 0.3])
        assert (posterior.truth()["label"] == truth).mean() > 0.9


# ---------------------------------------------------------------------- files


def test_npy_files_are_read_and_written(tmp_path):
    arrays = volume()
    files = []
    for name, array in arrays.items():
        files.append(tmp_path / f"{name}.npy")
        np.save(files[-1], array)
    segmentations = masks.read(files)
    assert segmentations.raters.tolist() == list(arrays)
    np.testing.assert_array_equal(segmentations.pattern, masks.from_arrays(arrays).pattern)
    path = segmentations.save(segmentations.pattern, tmp_path / "out.npy")
    np.testing.assert_array_equal(np.load(path), segmentations.pattern)
    (tmp_path / "bad.npy").write_bytes(b"no array")
    with pytest.raises(FileError, match=r"bad\.npy: cannot be read"):
        masks.read([files[0], tmp_path / "bad.npy"])
    with pytest.raises(OptionError, match=r"x\.png: masks are read from"):
        masks.read([files[0], tmp_path / "x.png"])
    with pytest.raises(DataError, match="one file for each rater"):
        masks.read(files[0])
    with pytest.raises(DataError, match="two files are called r0"):
        masks.read([files[0], files[0]])


def nifti(path, array, spacing=2.0):
    nibabel = pytest.importorskip("nibabel", reason="NIfTI needs nibabel: pip install 'crowdppl[images]'")
    path.write_bytes(gzip.compress(nibabel.Nifti1Image(array, np.diag([1.0, 1.0, spacing, 1.0])).to_bytes()))
    return path


def test_nifti_files_keep_their_place_in_space(tmp_path):
    nibabel = pytest.importorskip("nibabel", reason="NIfTI needs nibabel: pip install 'crowdppl[images]'")
    arrays = volume()
    files = [nifti(tmp_path / f"{name}.nii.gz", array) for name, array in arrays.items()]
    segmentations = masks.read(files)
    np.testing.assert_array_equal(segmentations.pattern, masks.from_arrays(arrays).pattern)
    for name, image in {"a.nii.gz": segmentations.pattern, "b.nii": segmentations.pattern / 7}.items():
        again = nibabel.load(segmentations.save(image, tmp_path / name))
        np.testing.assert_allclose(np.asarray(again.dataobj), image)
        assert again.affine[2, 2] == 2.0
    moved = nifti(tmp_path / "moved.nii.gz", arrays["r0"], spacing=3.0)
    with pytest.raises(DataError, match="another place in space than that of r0"):
        masks.read([files[0], moved])
    (tmp_path / "bad.nii.gz").write_bytes(files[0].read_bytes()[:60])
    with pytest.raises(FileError, match=r"bad\.nii\.gz: cannot be read"):
        masks.read([files[0], tmp_path / "bad.nii.gz"])


def test_without_nibabel_a_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "nibabel", None)
    with pytest.raises(OptionError, match=r"x\.nii: NIfTI needs nibabel; pip install 'crowdppl\[images\]'"):
        masks.read([tmp_path / "x.nii"])


def test_the_command_writes_images_and_raters(tmp_path):
    arrays = volume(classes=3)
    files = []
    for name, array in arrays.items():
        files.append(tmp_path / f"{name}.npy")
        np.save(files[-1], array)
    out = run("masks", *files, "--out", tmp_path / "res")
    assert "sensitivity" in out.output
    assert sorted(path.name for path in (tmp_path / "res").glob("*")) == [
        *("consensus.npy", "probability_1.npy", "probability_2.npy", "raters.csv")
    ]
    segmentations = masks.read(files)
    posterior = fitted(segmentations.annotations)
    np.testing.assert_allclose(
        np.load(tmp_path / "res" / "probability_2.npy"), segmentations.image(posterior.probability()[:, 2]), atol=1e-4
    )
    assert set(np.unique(np.load(tmp_path / "res" / "consensus.npy"))) <= {0, 1, 2}
    assert len(pd.read_csv(tmp_path / "res" / "raters.csv")) == 6
    again = run("masks", *files, "--out", tmp_path / "res", code=2)
    assert "already holds consensus.npy" in again.output
    assert "two or more raters" in run("masks", files[0], "--out", tmp_path / "x", code=2).output


def test_multiplicities_are_counts_of_elements():
    segmentations = masks.from_patterns(VOTES, VOXELS)
    assert segmentations.annotations.multiplicity.dtype == torch.float64
    assert int(segmentations.annotations.multiplicity.sum()) == sum(VOXELS)
    assert any("patterns of votes" in note for note in masks.from_arrays(volume()).annotations.notes)
