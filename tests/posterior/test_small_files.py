"""Files of results are small by default: views of what is loaded agree with those of the fit, and draws are read when used."""

import copy
import json
import pickle
import shutil
import warnings
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from catalog import quiet_fit, simulated
from commands import run

import crowdppl
from crowdppl import FileError, OptionError, acquisition, criticism, report
from crowdppl.files import digests
from crowdppl.isolation import preserved_warning_filters
from crowdppl.posterior import coded_draws, compact, io
from crowdppl.posterior.stored import StoredArray

# Greatest differences of probabilities and of the ends of their intervals, between a small file and the fit.
MEAN, END = 1e-4, 1.5e-3
FITS = {
    "item effects by EM": {"method": "em", "independent": False},
    "Dawid-Skene by EM, independent": {"model": "dawid-skene", "method": "em", "independent": True},
    "Dawid-Skene by Gibbs": {"model": "dawid-skene", "method": "gibbs", "chains": 2, "num_samples": 300, "warmup": 100},
    "single precision": {"model": "dawid-skene", "method": "em", "single": True},
}


@pytest.fixture(scope="module")
def data():
    return simulated(items=400, workers=40, per_item=8, classes=4, seed=3)[0]


@pytest.fixture(scope="module", params=FITS)
def fitted(request, data, tmp_path_factory):
    """A fit, and the path of its small file."""
    options = {"independent": False} | FITS[request.param]
    if options.pop("single", False):
        data = data.to(dtype=torch.float32)
    posterior = quiet_fit(data, options.pop("model", None), seed=1, **options)
    return posterior, posterior.save(tmp_path_factory.mktemp("small") / "p.nc")


@pytest.fixture(scope="module")
def by_em(data):
    return quiet_fit(data, "dawid-skene", method="em", seed=1, independent=False)


def stored(posterior, group, name):
    """Return the array of a file behind a variable."""
    array = posterior.tree[group].to_dataset()[name].variable._data
    while not isinstance(array, StoredArray):
        array = array.array
    return array


def differences(one, other):
    assert list(one.columns) == list(other.columns)
    return {name: (one[name] - other[name]).abs().max() for name in one if one[name].dtype.kind == "f"}


def test_views_agree(fitted):
    posterior, path = fitted
    small = crowdppl.load(path)
    pd.testing.assert_frame_equal(small.truth(), posterior.truth())
    assert (small.truth_draws() == posterior.truth_draws()).all()
    for table, whole in ((small.confusion(), posterior.confusion()), (small.prevalence(), posterior.prevalence())):
        greatest = differences(table, whole)
        assert max(greatest.pop(name) for name in greatest.keys() & {"probability", "share"}) < MEAN
        assert max(greatest.values()) < END
    few = ["accuracy", "sensitivity", "informativeness", "kappa", "spammer_score"]
    table, whole = small.workers(measures=few), posterior.workers(measures=few)
    greatest = differences(table, whole)
    assert greatest.pop("rank") <= 1
    assert all(value < (3 * END if "_low" in name or "_high" in name else 3 * MEAN) for name, value in greatest.items())
    assert (table["verdict"] == whole["verdict"]).all()
    assert small.variable("confusion").dtype == posterior.variable("confusion").dtype
    np.testing.assert_allclose(small.variable("confusion").sum("given_label"), 1, rtol=1e-6)


@pytest.mark.slow
def test_what_is_computed_from_it(fitted, data):
    posterior, path = fitted
    small = crowdppl.load(path)
    pd.testing.assert_frame_equal(acquisition.next_items(small, 20), acquisition.next_items(posterior, 20))
    one, other = criticism.loo(small), criticism.loo(posterior)
    assert one.elpd == pytest.approx(other.elpd, abs=0.01 * other.se)
    assert np.abs(one.items["pareto_k"] - other.items["pareto_k"]).mean() < 0.03
    if posterior.info["dtype"] == "float64":
        one, other = (criticism.check(part, draws=100) for part in (small, posterior))
        assert one.source == "model"
        pd.testing.assert_series_equal(one.table["observed"], other.table["observed"])
        np.testing.assert_allclose(one.table["mean"], other.table["mean"], atol=0.01)
    one, other = (report.lines(report.actions(part), part) for part in (small, posterior))
    assert one == other
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        more = crowdppl.update(small, data.batch(torch.arange(5)), repeats="last")
    assert more.truth().shape == posterior.truth().shape


def test_arviz_summarises_it(fitted):
    import arviz_stats

    posterior, path = fitted
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tables = [arviz_stats.summary(part.tree, var_names=["prevalence"]) for part in (crowdppl.load(path), posterior)]
        pd.testing.assert_frame_equal(*tables, check_exact=False, atol=1e-5)
        one, other = (arviz_stats.loo(part.tree) for part in (crowdppl.load(path), posterior))
    assert one.elpd == pytest.approx(other.elpd, abs=0.01 * other.se)


def test_draws_of_samplers_predict(data, tmp_path):
    """Without a mode, labels are replicated from some draws of all parameters, which belong together."""
    posterior = quiet_fit(
        data, "class-conditional", method="gibbs", seed=1, warmup=50, num_samples=300, independent=False
    )
    small = crowdppl.load(posterior.save(tmp_path / "p.nc"))
    thinned = small.tree["thinned"].to_dataset()
    count = thinned.sizes["draw"]
    assert count == compact.THINNED
    draws = posterior.tree["posterior"].to_dataset()
    chosen = np.linspace(0, draws["prevalence"].shape[0] * draws["prevalence"].shape[1] - 1, count).astype(int)
    for name in ("prevalence", "sensitivity"):
        whole = draws[name].values.reshape(-1, *draws[name].shape[2:])[chosen]
        np.testing.assert_allclose(thinned[name].values[0], whole, rtol=2**-compact.MANTISSA)
    assert criticism.check(small, draws=150).source == "model"


def test_draws_keep_their_precision(tmp_path):
    """Also those that are stored in single precision, from which labels are replicated."""
    data = simulated(items=200, workers=8, per_item=6, classes=12)[0]
    options = {"method": "gibbs", "chains": 2, "num_samples": 500, "warmup": 20, "independent": False}
    posterior = quiet_fit(data, "class-conditional", seed=1, **options)
    small = crowdppl.load(posterior.save(tmp_path / "p.nc"))
    for group in ("posterior", "thinned", "calibrated"):
        for name, variable in small.tree[group].to_dataset().data_vars.items():
            assert variable.dtype == (np.int16 if name == "draw_of" else np.float64), name
    assert criticism.check(small, draws=20).source == "model"
    np.testing.assert_allclose(
        small.variable("prevalence", published=True), posterior.variable("prevalence", published=True), rtol=1e-6
    )


def test_draws_are_read_when_they_are_used(by_em, tmp_path):
    small = crowdppl.load(by_em.save(tmp_path / "p.nc"))
    places = [("log_likelihood", "labels"), ("calibrated", "confusion"), ("calibrated", "draw_of")]
    small.truth(), acquisition.next_items(small, 5), small.notes, repr(small), repr(small.tree)
    assert not any(stored(small, *place).is_read for place in places)
    small.confusion()
    assert [stored(small, *place).is_read for place in places] == [False, True, False]
    large = crowdppl.load(by_em.save(tmp_path / "full.nc", keep="full"))
    assert not stored(large, "log_likelihood", "labels").is_read
    np.testing.assert_array_equal(large.draws("confusion", worker=3), by_em.draws("confusion", worker=3))
    assert not stored(large, "log_likelihood", "labels").is_read


def test_a_full_file_holds_the_same_bits(by_em, tmp_path):
    path = by_em.save(tmp_path / "full.nc", keep="full")
    back = crowdppl.load(path)
    assert back.tree.attrs["crowdppl_format"] == io.FORMAT
    for group, node in by_em.tree.children.items():
        for name, variable in node.to_dataset().variables.items():
            read = back.tree[group].to_dataset().variables[name]
            assert read.dims == variable.dims
            np.testing.assert_array_equal(read.values, variable.values)
    assert path.stat().st_size > 5 * by_em.save(tmp_path / "small.nc").stat().st_size


def test_small_results_lose_nothing(tmp_path):
    posterior = quiet_fit(simulated(items=20, workers=5, per_item=4, classes=2)[0], method="em", num_samples=100)
    back = crowdppl.load(posterior.save(tmp_path / "p.nc"))
    for group, node in posterior.tree.children.items():
        for name, variable in node.to_dataset().variables.items():
            np.testing.assert_array_equal(back.tree[group].to_dataset().variables[name].values, variable.values)
    assert crowdppl.load(back.save(tmp_path / "full.nc", keep="full")).truth().equals(posterior.truth())


class TestDropped:
    def test_it_says_what_to_do(self, data, tmp_path):
        posterior = quiet_fit(data, "item-effects", method="em", seed=1, independent=False)
        small = crowdppl.load(posterior.save(tmp_path / "p.nc"))
        again = (
            r"this result was loaded from a small file, which has no draws of it; fit again and save with keep='full' "
        )
        for name, published in (("deviations", False), ("confusion", True)):
            posterior.variable(name, published=published)
            with pytest.raises(OptionError, match=rf"^name='{name}': {again}\(--keep full\)$"):
                small.variable(name, published=published)
        with pytest.raises(OptionError, match=r"^name='nothing': no such variable"):
            small.variable("nothing")
        with pytest.raises(OptionError, match=r"^keep='full': this result was loaded from a small file[^\n]*fit again"):
            small.save(tmp_path / "q.nc", keep="full")
        assert not (tmp_path / "q.nc").exists()

    @pytest.mark.parametrize("keep", ["all", None, 1])
    def test_other_words(self, by_em, tmp_path, keep):
        with pytest.raises(OptionError, match=r"^keep=[^\n]*use 'small' or 'full'"):
            by_em.save(tmp_path / "p.nc", keep=keep)


def test_a_small_result_is_saved_again(fitted, tmp_path):
    """Over its own file, and without a further loss."""
    posterior, path = fitted
    first = tmp_path / "p.nc"
    shutil.copy(path, first)
    small = crowdppl.load(first)
    small.save(first)
    again, once = crowdppl.load(first), crowdppl.load(path)
    np.testing.assert_allclose(again.variable("confusion"), once.variable("confusion"), atol=END)
    assert np.abs(again.variable("confusion") - posterior.variable("confusion")).max() < 3 * END
    np.testing.assert_array_equal(again.truth_draws(), once.truth_draws())
    assert again.truth().equals(small.truth())
    whole = posterior.tree["log_likelihood"]["labels"]
    error = np.abs(again.tree["log_likelihood"]["labels"] - whole).max(("chain", "draw"))
    assert (error <= 1.5 * whole.std(("chain", "draw")) / compact.STEPS + 1e-6).all()


@pytest.mark.slow
def test_what_is_small_without_large_draws_is_saved_again(tmp_path):
    """The first file drops draws of items; what is left has none that would be packed."""
    data = simulated(items=9, workers=2, per_item=2, classes=2, seed=0)[0]
    posterior = quiet_fit(data, "minimax-entropy", method="em", seed=1)
    path = posterior.save(tmp_path / "p.nc")
    dropped = crowdppl.load(path).tree.attrs["dropped"]
    assert dropped != "[]"
    for _ in range(2):
        crowdppl.load(path).save(path)
    again = crowdppl.load(path)
    assert again.tree.attrs["dropped"] == dropped
    pd.testing.assert_frame_equal(again.truth(), posterior.truth())
    pd.testing.assert_frame_equal(again.workers(), posterior.workers())


class TestTheFile:
    """The file is open only while it is read."""

    @pytest.fixture
    def opened(self, by_em, tmp_path):
        path = by_em.save(tmp_path / "p.nc")
        return crowdppl.load(path), path

    def test_moved(self, opened, tmp_path):
        small, path = opened
        small.confusion()
        path.rename(tmp_path / "other.nc")
        small.confusion()
        with pytest.raises(
            FileError, match=r"^p\.nc is no longer in [^\n]*, where it was loaded; load it again, or read all"
        ):
            small.truth_draws()

    def test_replaced(self, opened, by_em):
        small, path = opened
        by_em.save(path)
        with pytest.raises(
            FileError, match=r"^p\.nc was replaced or changed after it was loaded; load it again[^\n]*$"
        ):
            small.truth_draws()

    def test_read_at_once(self, opened, by_em):
        small, path = opened
        small.tree.load()
        path.unlink()
        assert (small.truth_draws() == by_em.truth_draws()).all()

    def test_another_folder(self, opened, monkeypatch, tmp_path):
        _, path = opened
        monkeypatch.chdir(path.parent)
        small = crowdppl.load("p.nc")
        monkeypatch.chdir(tmp_path.parent)
        small.truth_draws()

    def test_copies(self, opened, by_em):
        small, path = opened
        deep, other = copy.deepcopy(small.tree), crowdppl.Posterior(small.tree.copy(deep=True))
        pickled = pickle.loads(pickle.dumps(small))
        path.unlink()
        assert (pickled.truth_draws() == by_em.truth_draws()).all()
        assert (other.truth_draws() == by_em.truth_draws()).all()
        assert deep["calibrated"]["draw_of"].shape == by_em.tree["calibrated"]["draw_of"].shape


def put(path, value):
    def change(file):
        variable = file[path]
        variable[(0,) * variable.ndim] = value

    return change


def attributes(path, **changed):
    return lambda file: file[path].attrs.update(changed)


DAMAGE = {
    "no draws": (
        lambda file: file["calibrated"].__delitem__("confusion"),
        None,
        r"p\.nc is damaged or was changed: calibrated[^\n]*confusion",
    ),
    "a missing probability": (
        put("calibrated/confusion", compact.FILL),
        lambda p: p.confusion(),
        r"p\.nc is damaged or was changed: calibrated/confusion contains nan",
    ),
    "a scale that is none": (
        attributes("calibrated/confusion", scale_factor=-1.0),
        None,
        r"p\.nc is not a readable NetCDF file: confusion has the scale -1",
    ),
    "a scale that is a word": (
        attributes("calibrated/confusion", scale_factor="much"),
        None,
        r"p\.nc is not a readable NetCDF file",
    ),
    "a truth that is none": (
        put("calibrated/draw_of", 9),
        lambda p: p.truth_draws(),
        r"p\.nc is damaged or was changed: calibrated/draw_of contains 9",
    ),
    "a likelihood that is none": (
        put("log_likelihood/labels", np.nan),
        lambda p: criticism.loo(p),
        r"p\.nc is damaged or was changed: log_likelihood/labels contains NaN",
    ),
    "no workers": (lambda file: file.__delitem__("worker"), None, r"p\.nc is "),
    "no precision": (lambda file: file.attrs.__delitem__("precision"), None, r"p\.nc is not a readable NetCDF file"),
    "another precision": (
        lambda file: file.attrs.__setitem__("precision", "much"),
        None,
        r"p\.nc is not a readable NetCDF file",
    ),
    "dropped variables that are none": (
        lambda file: file.attrs.__setitem__("dropped", "3"),
        None,
        r"p\.nc is damaged or was changed: attribute 'dropped' is not a list",
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_one_line(case, by_em, tmp_path):
    change, use, message = DAMAGE[case]
    path = by_em.save(tmp_path / "p.nc")
    with h5py.File(path, "r+") as file:
        change(file)
    digests.seal(path)
    with pytest.raises(FileError, match=rf"^({message})[^\n]*$"):
        (use or (lambda posterior: posterior))(crowdppl.load(path))


class TestPacking:
    @pytest.mark.parametrize("K", [2, 3, 7, pytest.param(400, marks=pytest.mark.slow)])
    def test_probabilities(self, K):
        p = np.random.default_rng(K).dirichlet(np.full(K, 0.2), (2, 50, 3, K))
        p[:, :, 0], p[:, :, 1] = np.eye(K), 1 / K
        step, offset = compact.PROBABILITY_STEP, 0.0
        codes = compact.packed(p, step, offset)
        assert codes.dtype == np.uint16
        plain = compact.unpacked(codes, step=step, offset=offset, dtype="float64", sum_to_one=False)
        assert np.abs(plain - p).max() <= 1.001 * step / 2 < 1e-5
        back = compact.unpacked(codes, step=step, offset=offset, dtype="float64", sum_to_one=True)
        np.testing.assert_allclose(back.sum(-1), 1, rtol=1e-12)
        assert (back > 0).all()
        # Many probabilities near zero do not add up.
        assert np.abs(back - p).max() < 2e-5 + K * compact.FLOOR + 2e-5 * np.sqrt(K)
        np.testing.assert_array_equal(compact.packed(plain, step, offset), codes)

    def test_missing_and_far_values(self, monkeypatch):
        monkeypatch.setattr(compact, "_BLOCK", 2)
        codes = compact.packed(np.array([np.nan, -1.0, 0.5, 2.0, 1e300]), 1 / 65534, 0.0)
        assert codes.tolist() == [compact.FILL, 0, 32767, compact.FILL - 1, compact.FILL - 1]
        back = compact.unpacked(codes, step=1 / 65534, offset=0.0, dtype="float32", sum_to_one=False)
        assert back.dtype == np.float32
        np.testing.assert_allclose(back, [np.nan, 0, 0.5, 1, 1], rtol=1e-7)

    def test_single_precision(self):
        values = np.array([0.0, 1e-300, 0.1, -3.0, 1e20])
        back = compact.rounded(values)
        assert back.dtype == np.float32
        assert (back[:2] == [0, np.finfo(np.float32).tiny]).all()
        np.testing.assert_allclose(back[2:], values[2:], rtol=2**-compact.MANTISSA)

    def test_log_likelihoods(self):
        rng = np.random.default_rng(0)
        values = rng.gamma([0.5, 1, 5, 20], size=(4, 250, 4)) * [1, 1e-3, 10, 1] - [50, 0.1, 1e4, 1]
        values = np.concatenate([values, np.full((4, 250, 1), -0.1), np.full((4, 250, 1), -np.inf)], -1)
        back = compact.rounded_logs(values)
        assert back.dtype == np.float32
        error = np.abs(back[..., :4] - values[..., :4])
        assert (error <= 0.75 * values[..., :4].std((0, 1)) / compact.STEPS + 1e-7 * np.abs(values[..., :4])).all()
        assert (back[..., 4] == np.float32(-0.1)).all()
        assert (back[..., 5] == -np.inf).all()
        # Draws stay apart: smoothing fails on ties.
        assert len(np.unique(back[..., 3])) > 400

    @pytest.mark.parametrize("shape", [(1, 1000, 164, 2, 2), (4, 250, 3, 200, 200), (2, 10**6, 5), (1, 7, 3)])
    def test_chunks_lie_inside(self, shape):
        sizes = compact._chunks(shape)
        assert len(sizes) == len(shape)
        assert all(0 < size <= length for size, length in zip(sizes, shape, strict=True))
        assert np.prod(sizes, dtype=np.int64) <= compact._CHUNK


class TestOtherReaders:
    """xarray and ArviZ read a small file without this library."""

    def test_values_and_names(self, fitted):
        posterior, path = fitted
        calibrated = "calibrated" if "calibrated" in posterior.tree.children else "posterior"
        with preserved_warning_filters(), xr.open_datatree(path, engine="h5netcdf") as tree:
            read = tree[calibrated]["confusion"]
            whole = posterior.variable("confusion")
            assert read.dims == whole.dims
            assert np.abs(read.values - whole.values).max() < 1e-5
            assert read.coords["worker"].values.tolist() == whole.coords["worker"].values.tolist()
            assert tree["truth"]["probability"].coords["item"].values.tolist() == list(posterior.truth()["task"])
            assert not any(name.endswith("_codes") for node in tree.subtree for name in node.variables)

    @pytest.mark.slow
    def test_arviz(self, by_em, tmp_path):
        import arviz_stats

        path = by_em.save(tmp_path / "p.nc")
        with preserved_warning_filters(), xr.open_datatree(path, engine="h5netcdf") as tree:
            warnings.simplefilter("ignore")
            one, other = arviz_stats.loo(tree), arviz_stats.loo(by_em.tree)
            table = arviz_stats.summary(tree, group="calibrated", var_names=["confusion"])
        assert one.elpd == pytest.approx(other.elpd, abs=0.01 * other.se)
        mean = by_em.variable("confusion").mean(("chain", "draw")).values.ravel()
        np.testing.assert_allclose(table["mean"].astype(float), mean, atol=0.006)

    def test_netcdf(self, by_em, tmp_path):
        """The conventions of NetCDF, read by hand."""
        with h5py.File(by_em.save(tmp_path / "p.nc")) as file:
            stored = file["calibrated/confusion"]
            values = stored[...] * stored.attrs["scale_factor"] + stored.attrs["add_offset"]
        np.testing.assert_allclose(values, by_em.variable("confusion").values, atol=1e-5)


class TestFormat3:
    """Files of an earlier version, with codes of their own."""

    FILES = Path(__file__).parent / "files"

    def test_it_is_read(self):
        read = crowdppl.load(self.FILES / "format-3.nc")
        expected = json.loads((self.FILES / "format-3.json").read_text())
        assert read.tree.attrs["crowdppl_format"] == 3
        mean = read.variable("confusion").mean(("chain", "draw"))
        np.testing.assert_allclose(mean, expected["confusion"], atol=1e-4)
        np.testing.assert_allclose(read.variable("confusion").sum("given_label"), 1, rtol=1e-12)
        assert np.bincount(read.truth_draws().ravel()).tolist() == expected["drawn"]
        assert read.truth()["label"].tolist() == expected["labels"]
        assert read.tree["thinned"]["confusion"].values[..., 0, 0].mean() == pytest.approx(
            expected["thinned"], abs=1e-3
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert criticism.loo(read).elpd == pytest.approx(expected["elpd"], abs=0.05)
            assert criticism.check(read, draws=20).source == "model"
            read.workers()

    def test_saved_again_it_is_packed(self, tmp_path):
        read = crowdppl.load(self.FILES / "format-3.nc")
        again = crowdppl.load(read.save(tmp_path / "p.nc"))
        assert again.tree.attrs["crowdppl_format"] == compact.PACKED_FORMAT
        np.testing.assert_allclose(again.variable("confusion"), read.variable("confusion"), atol=3e-5)
        assert again.truth().equals(read.truth())

    @pytest.mark.parametrize(
        ("path", "value", "message"),
        [
            ("calibrated/confusion_codes", 60_000, "calibrated/confusion: codes"),
            ("calibrated/confusion_omitted", 9, "calibrated/confusion: codes"),
            ("calibrated/draw_of_ranked", 9, "calibrated/draw_of contains 9"),
            ("log_likelihood/labels_centre", np.nan, "log_likelihood/labels contains NaN"),
        ],
    )
    def test_damage(self, path, value, message, tmp_path):
        broken = tmp_path / "p.nc"
        shutil.copy(self.FILES / "format-3.nc", broken)
        with h5py.File(broken, "r+") as file:
            file[path][...] = value
        digests.seal(broken)
        with pytest.raises(FileError, match=rf"^p\.nc is damaged or was changed: {message}[^\n]*$"):
            crowdppl.load(broken).tree.load()

    @pytest.mark.parametrize("coded", ["{", "[]", '{"calibrated/confusion": {"kind": "secret"}}'])
    def test_damaged_descriptions(self, coded, tmp_path):
        broken = tmp_path / "p.nc"
        shutil.copy(self.FILES / "format-3.nc", broken)
        with h5py.File(broken, "r+") as file:
            file.attrs["coded"] = coded
        digests.seal(broken)
        with pytest.raises(FileError, match=r"^p\.nc is not a readable NetCDF file[^\n]*$"):
            crowdppl.load(broken)

    def test_parts_of_different_results(self):
        for decode, parts in (
            (coded_draws.decode_distributions, (np.zeros((3, 2)), np.zeros(2, int))),
            (coded_draws.decode_logs, (np.zeros((3, 2)), np.zeros(2), np.zeros(2))),
            (coded_draws.decode_indices, (np.zeros((1, 3, 2)), np.zeros((2, 2)))),
        ):
            with pytest.raises(ValueError, match="do not belong together"):
                decode(*parts, (1, 2, 2, 2), "float64")


@pytest.mark.slow
def test_sizes(tmp_path):
    """As large as a public set of 8,000 annotations, whose file was 27 MB."""
    data = simulated(items=800, workers=164, per_item=10, classes=2, seed=0)[0]
    posterior = quiet_fit(data, seed=1, independent=False)
    assert posterior.save(tmp_path / "p.nc").stat().st_size < 4e6
    assert posterior.save(tmp_path / "full.nc", keep="full").stat().st_size > 15e6


@pytest.mark.slow
def test_the_command_keeps_all_draws(tmp_path):
    data = simulated(items=300, workers=30, per_item=6, seed=0)[0]
    item, worker, label = (part.numpy() for part in (data.item, data.worker, data.label))
    pd.DataFrame({"task": item, "worker": worker, "label": label}).to_csv(tmp_path / "labels.csv", index=False)
    for keep in ("small", "full"):
        run("fit", tmp_path / "labels.csv", "--out", tmp_path / keep, "--method", "em", "--keep", keep)
        run("next", tmp_path / keep)
        run("check", tmp_path / keep)
        run("report", tmp_path / keep)
    sizes = [(tmp_path / keep / "posterior.nc").stat().st_size for keep in ("small", "full")]
    assert 5 * sizes[0] < sizes[1]
    nexts = [pd.read_csv(tmp_path / keep / "next.csv") for keep in ("small", "full")]
    pd.testing.assert_frame_equal(*nexts)
    wrong = run("fit", tmp_path / "labels.csv", "--out", tmp_path / "x", "--keep", "everything", code=2)
    assert "--keep everything; use 'small' or 'full'" in wrong.output
    run("update", tmp_path / "small", tmp_path / "labels.csv", "--repeats", "last", "--keep", "full", "--overwrite")
    assert (tmp_path / "small" / "posterior.nc").stat().st_size > 5 * sizes[0]
