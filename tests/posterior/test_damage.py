"""Files of results that were damaged or changed are refused before HDF5 reads them."""

import signal
import sys
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import xarray as xr
from catalog import quiet_fit, tiny

import crowdppl
from crowdppl import FileError
from crowdppl.files import digests
from crowdppl.isolation import preserved_warning_filters
from crowdppl.posterior import first_look, io, stored

SEAL = len(digests._SEAL.format("0" * 64))
REFUSED = r"^x\.nc is damaged or was changed: [^\n]*digest[^\n]*$"


@pytest.fixture(scope="module")
def posterior():
    return quiet_fit(tiny(), "dawid-skene", method="em", num_samples=3)


@pytest.fixture(scope="module")
def content(posterior, tmp_path_factory):
    return posterior.save(tmp_path_factory.mktemp("damage") / "x.nc").read_bytes()


def damaged(tmp_path, content):
    path = tmp_path / "x.nc"
    path.write_bytes(content)
    return path


def test_any_changed_byte(content, tmp_path):
    """In every region of the file, its superblock and its end included."""
    rng = np.random.default_rng(0)
    within = len(content) - SEAL
    places = [0, 1, 8, 9, 40, *rng.integers(0, within, 200).tolist(), within - 1]
    for place in places:
        flipped = bytearray(content)
        flipped[place] ^= 1 << int(rng.integers(8))
        with pytest.raises(FileError, match=REFUSED):
            crowdppl.load(damaged(tmp_path, bytes(flipped)))


CUT = {
    "in the seal": (lambda c: c[:-5], "damaged or was changed"),
    "a byte of the seal": (lambda c: c[:-20] + b"x" + c[-19:], "damaged or was changed"),
    "without its seal": (lambda c: c[:-SEAL], "damaged or was changed"),
    "at half": (lambda c: c[: len(c) // 2], "not a readable NetCDF file"),
    "at all": (lambda _: b"", "not a readable NetCDF file"),
    "zeros amid": (lambda c: c[:3000] + bytes(500) + c[3500:], "damaged or was changed"),
    "zeros at the beginning": (lambda c: bytes(512) + c[512:], "damaged or was changed"),
    "more at the end": (lambda c: c + b"more", "damaged or was changed"),
    "two files in one": (lambda c: c + c, "damaged or was changed"),
}


@pytest.fixture
def without_look(monkeypatch):
    """Leave out the process that takes a first look, which takes seconds: nothing here ends it."""
    monkeypatch.setattr(first_look.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=0))


@pytest.mark.usefixtures("without_look")
@pytest.mark.parametrize("case", CUT)
def test_cut_and_joined_files(case, content, tmp_path):
    change, message = CUT[case]
    with pytest.raises(FileError, match=rf"^x\.nc is [^\n]*{message}[^\n]*$"):
        crowdppl.load(damaged(tmp_path, change(content)))


def swap_items(file):
    names = file["truth"]["item"][...]
    file["truth"]["item"][...] = names[::-1]


TAMPERED = {
    "swapped item names": swap_items,
    "uniform probabilities": lambda file: file["truth"]["probability"].write_direct(
        np.full(file["truth"]["probability"].shape, 1 / file["truth"]["probability"].shape[1])
    ),
    "other known truths": lambda file: file["constant_data"]["known_truth"].__setitem__(0, 1),
    "another seed": lambda file: file.attrs.__setitem__("run", file.attrs["run"].replace('"seed": 0', '"seed": 1')),
    "a further variable": lambda file: file["posterior"].create_dataset("extra", data=[1.0]),
}


@pytest.mark.usefixtures("without_look")
@pytest.mark.parametrize("case", TAMPERED)
def test_changed_results(case, content, tmp_path):
    path = damaged(tmp_path, content)
    with h5py.File(path, "r+") as file:
        TAMPERED[case](file)
    with pytest.raises(FileError, match=REFUSED):
        crowdppl.load(path)


@pytest.mark.usefixtures("without_look")
def test_a_result_written_by_another_program(content, tmp_path):
    """With all attributes, the one that says that it is sealed included."""
    path = damaged(tmp_path, content)
    with preserved_warning_filters(), xr.open_datatree(path, engine="h5netcdf") as tree:
        tree.load()
    tree["truth"]["probability"] = tree["truth"]["probability"][:, ::-1]
    tree.to_netcdf(path, engine="h5netcdf")
    with pytest.raises(FileError, match=REFUSED):
        crowdppl.load(path)


def test_other_programs_read_a_sealed_file(posterior, content, tmp_path):
    path = damaged(tmp_path, content)
    with h5py.File(path, "r") as file:
        assert file["truth"]["probability"].shape == posterior.probability().shape
    with preserved_warning_filters(), xr.open_dataset(path, engine="h5netcdf", group="truth") as truth:
        np.testing.assert_allclose(truth["probability"], posterior.tree["truth"]["probability"])


@pytest.fixture
def unsealed(posterior, tmp_path):
    """A file as earlier versions wrote it."""
    posterior.tree.to_netcdf(tmp_path / "x.nc", engine="h5netcdf")
    return tmp_path / "x.nc"


def test_an_earlier_file_is_read(posterior, unsealed):
    assert digests.state(unsealed) == "unsealed"
    assert crowdppl.load(unsealed).truth().equals(posterior.truth())


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
def test_an_earlier_file_that_ends_the_process(unsealed, monkeypatch):
    monkeypatch.setattr(
        first_look, "_LOOK", f"import os, sys; open(sys.argv[1]).close(); os.kill(os.getpid(), {int(signal.SIGSEGV)})"
    )
    with pytest.raises(FileError, match=r"^x\.nc is damaged: reading it ends the process[^\n]*$"):
        crowdppl.load(unsealed)


def test_a_first_look_reads_everything(unsealed, monkeypatch):
    """What cannot be read does not keep it from the rest."""
    read = []

    def fail(_, names):
        read.append(names)
        raise FileError("not readable")

    monkeypatch.setattr(stored.Source, "read", fail)
    monkeypatch.setattr(io, "EAGER", 0)
    monkeypatch.setattr(io, "validate", lambda *_: {})
    io.look(str(unsealed))
    assert {("posterior/confusion",), ("posterior/prevalence",), ("log_likelihood/labels",)} <= set(read)


# A variable of a few bytes in the file, as it is compressed, and of 2**40 in memory.
HUGE = {
    "a parameter": ("posterior", "extra", (1, 1, 2**37), "f8", None),
    "a variable of another axis": ("truth", "extra", (2**37,), "f8", None),
    "whole numbers": ("constant_data", "extra", (2**37,), "i8", None),
    "names of an axis": ("truth", "other", (2**38,), "f4", "takes"),
    "texts": ("constant_data", "texts", (2**37,), h5py.string_dtype(), "takes"),
}


@pytest.mark.parametrize("case", HUGE)
def test_variables_that_are_larger_than_memory(case, content, tmp_path):
    """What no result has is not read; what would be is refused by its size."""
    group, name, shape, kind, refused = HUGE[case]
    path = damaged(tmp_path, content)
    with h5py.File(path, "r+") as file:
        chunks = (*(1 for _ in shape[:-1]), 2**16)
        values = file[group].create_dataset(name, shape, kind, chunks=chunks, compression="gzip")
        if case == "names of an axis":
            values.make_scale(name)
        else:
            for axis, size in enumerate(shape):
                scale = file[group].create_dataset(f"{name}_{axis}", (size,), "f4", chunks=(min(size, 2**16),))
                scale.make_scale(f"This is a netCDF dimension but not a netCDF variable. {size:10d}")
                values.dims[axis].attach_scale(scale)
    digests.seal(path)
    assert path.stat().st_size < 2**22
    if refused is not None:
        with pytest.raises(FileError, match=r"^x\.nc takes [\d.,]+ GiB of memory, and [^\n]* are left[^\n]*$"):
            crowdppl.load(path)
        return
    posterior = crowdppl.load(path)
    assert len(posterior.truth())
    with pytest.raises(FileError, match=r"^x\.nc takes 1,024\.0 GiB of memory"):
        np.asarray(posterior.tree[group][name].values)
