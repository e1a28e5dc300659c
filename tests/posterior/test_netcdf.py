"""Groups of a file are written and read as xarray does, with few look-ups."""

import h5netcdf
import h5py
import numpy as np
import pytest
import xarray as xr

from crowdppl.isolation import preserved_warning_filters
from crowdppl.posterior import netcdf

# Names of items as people write them.
NAMES = ["", "a", "é", "日本語", "x" * 3000, "a/b", "line\nbreak", " ", "\U0001f600"]
ENCODING = {"/draws": {"whole": {"zlib": True, "complevel": 6, "shuffle": True, "chunksizes": (2, 4)}}}


def tree():
    """A root with names that groups inherit, packed and compressed variables, texts, names of the group's own."""
    rng = np.random.default_rng(0)
    names = xr.Variable("item", np.asarray(NAMES, dtype=object))
    packing = {"scale_factor": 1 / 65534, "add_offset": 0.0, "_FillValue": np.uint16(65535)}
    draws = xr.Dataset(
        {
            "packed": (("draw", "item"), rng.integers(0, 2**16, (4, 9)).astype(np.uint16), packing),
            "whole": (("draw", "class"), rng.integers(0, 9, (4, 5))),
            "single": (("draw",), rng.random(4).astype(np.float32)),
            "flag": (("draw",), np.array([True, False, True, True])),
            "number": ((), 2.5, {"unit": "é", "list": [1.0, 2.0], "texts": ["a", "b"]}),
        },
        coords={"class": ["no", "yes", "Ärger", "", "?"], "draw": np.arange(4)},
    )
    texts = xr.Dataset({"text": (("item",), np.asarray(NAMES[::-1], dtype=object))}, attrs={"n": 1, "empty": ""})
    out = xr.DataTree.from_dict({"/": xr.Dataset(coords={"item": names}), "/draws": draws, "/truth": texts})
    out.attrs = {"format": np.int64(4), "run": "{}", "names": ["a", "b"], "share": 0.5}
    return out


def content(path):
    """Everything that a file states, in its order."""

    def attributes(one):
        out = []
        for name, value in one.attrs.items():
            if name == "DIMENSION_LIST":
                value = [[file[reference].name for reference in axis] for axis in value]
            elif name == "REFERENCE_LIST":
                value = sorted((file[reference].name, int(axis)) for reference, axis in value)
            out.append((name, str(value), str(one.attrs.get_id(name).dtype)))
        return out

    def add(name, one):
        stated = [name, attributes(one)]
        if isinstance(one, h5py.Dataset):
            stated += [
                one.dtype,
                one.shape,
                one.maxshape,
                one.chunks,
                one.compression,
                one.compression_opts,
                one.shuffle,
            ]
            stated.append(one[...].tolist())
        else:
            stated.append(list(one))
        out.append(str(stated))

    out = []
    with h5py.File(path) as file:
        out.append(str((list(file), attributes(file))))
        file.visititems(add)
    return out


@pytest.fixture
def stock(tmp_path):
    """The file that xarray writes."""
    tree().to_netcdf(tmp_path / "stock.nc", engine="h5netcdf", encoding=ENCODING)
    return tmp_path / "stock.nc"


def test_a_file_states_what_xarray_writes(stock, tmp_path):
    netcdf.write(tree(), tmp_path / "own.nc", ENCODING)
    assert len(content(stock)) >= 12
    assert content(tmp_path / "own.nc") == content(stock)


def test_groups_are_those_that_xarray_reads(stock):
    with (
        preserved_warning_filters(),
        netcdf.opened(stock) as (root, groups),
        xr.open_datatree(stock, engine="h5netcdf") as expected,
    ):
        assert root.identical(expected.to_dataset())
        assert root["item"].values.tolist() == NAMES
        assert list(groups) == list(expected.children)
        for name, group in groups.items():
            other = expected[name].to_dataset(inherit=False)
            assert group.identical(other)
            for variable in group.variables:
                for key in ("dtype", "scale_factor", "add_offset", "_FillValue", "chunksizes", "zlib"):
                    assert str(group[variable].encoding.get(key)) == str(other[variable].encoding.get(key))


def test_each_object_is_looked_up_once(stock, monkeypatch):
    looked_up = []
    stock_get = h5py.Group.__getitem__

    def get(self, name):
        if isinstance(self, h5py.File) and isinstance(name, str):
            looked_up.append(name)
        return stock_get(self, name)

    monkeypatch.setattr(h5py.Group, "__getitem__", get)
    with preserved_warning_filters(), netcdf.opened(stock) as (root, groups):
        for one in (root, *groups.values()):
            one.load()
    assert "/draws/packed" in looked_up
    assert len(looked_up) == len(set(looked_up))


@pytest.mark.parametrize("change", ["deleted", "moved"])
@pytest.mark.parametrize("through", ["file", "group"])
def test_what_has_changed_is_looked_up_anew(through, change, tmp_path):
    with netcdf._File(tmp_path / "x.h5", "w") as file:
        file.create_group("a").create_dataset("x", data=[1])
        assert file["/a/x"][0] == 1
        group, prefix = (file, "a/") if through == "file" else (file["/a"], "")
        if change == "deleted":
            del group[f"{prefix}x"]
        else:
            group.move(f"{prefix}x", f"{prefix}y")
        file["a"].create_dataset("x", data=[2])
        assert file["/a/x"][0] == 2


def test_the_file_is_open_within_the_context_only(stock):
    with preserved_warning_filters(), netcdf.opened(stock) as (_, groups):
        late = groups["draws"]["whole"]
    with pytest.raises(
        (ValueError, TypeError), match=r"Closed|not subscriptable"
    ):  # as h5netcdf of some versions says it
        late.to_numpy()
    stock.unlink()
    with h5netcdf.File(stock, "w") as file:
        file.attrs["n"] = 1
