"""Files of results are small by default: views of what is loaded agree with those of the fit, and draws are read when used."""

import copy
import json
import pickle
import shutil
import warnings

import h5py
import numpy as np
import pandas as pd
import pytest
import torch
from catalog import quiet_fit, simulated
from commands import run

import crowdppl
from crowdppl import FileError, OptionError, acquisition, criticism, report
from crowdppl.files import digests
from crowdppl.posterior import compact, io
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
    spread = np.asarray(posterior.tree["log_likelihood"]["labels"]).std((0, 1))
    error = np.abs(again.tree["log_likelihood"]["labels"] - posterior.tree["log_likelihood"]["labels"]).max(
        ("chain", "draw")
    )
    assert (error <= 2.5 * spread / compact.STEPS).all()


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


def attribute(**changed):
    def change(file):
        coded = json.loads(file.attrs["coded"])
        coded["calibrated/confusion"] |= changed
        file.attrs["coded"] = json.dumps(coded)

    return change


def put(path, value):
    def change(file):
        variable = file[path]
        variable[(0,) * variable.ndim] = value

    return change


DAMAGE = {
    "no codes": (
        lambda file: file["calibrated"].__delitem__("confusion_codes"),
        lambda p: p.confusion(),
        r"p\.nc cannot be read",
    ),
    "another kind": (attribute(kind="secret"), None, r"p\.nc is not a readable NetCDF file"),
    "another shape": (
        attribute(shape=[1, 1000, 40, 4, 3]),
        None,
        r"p\.nc is not a readable NetCDF file: conflicting sizes",
    ),
    "no description": (lambda file: file.attrs.__setitem__("coded", "{"), None, r"p\.nc is not a readable NetCDF file"),
    "a description that is a list": (
        lambda file: file.attrs.__setitem__("coded", "[]"),
        None,
        r"p\.nc is not a readable NetCDF file",
    ),
    "a code that is none": (
        put("calibrated/confusion_codes", 60_000),
        lambda p: p.confusion(),
        r"p\.nc is damaged or was changed: calibrated/confusion",
    ),
    "a class that is none": (
        put("calibrated/confusion_omitted", 9),
        lambda p: p.confusion(),
        r"p\.nc is damaged or was changed: calibrated/confusion",
    ),
    "a truth that is none": (
        lambda file: file["calibrated/draw_of_ranked"].__setitem__((slice(None), 0), 9),
        lambda p: p.truth_draws(),
        r"p\.nc is damaged or was changed: calibrated/draw_of contains 9",
    ),
    "a likelihood that is none": (
        put("log_likelihood/labels_centre", np.nan),
        lambda p: criticism.loo(p),
        r"p\.nc is damaged or was changed: log_likelihood/labels contains NaN",
    ),
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


class TestCodes:
    @pytest.mark.parametrize("K", [2, 3, 7])
    def test_distributions(self, K):
        rng = np.random.default_rng(K)
        p = rng.dirichlet(np.full(K, 0.2), (2, 50, 30, K))
        p[:, :, 0], p[:, :, 1] = np.eye(K), 1 / K
        codes, omitted = compact.encode_distributions(p)
        assert codes.shape == (30 * K * (K - 1), 100)
        back = compact.decode_distributions(codes, omitted, p.shape, "float64")
        others = np.ones_like(p, dtype=bool)
        np.put_along_axis(others, np.broadcast_to(omitted, (2, 50, 30, K))[..., None], False, -1)
        assert (np.abs(back - p)[others] <= 1.01 * np.sqrt(p[others]) / compact.ROOTS + 2 * compact.FLOOR + 1e-3).all()
        assert np.abs(back - p).max() < K / compact.ROOTS
        np.testing.assert_allclose(back.sum(-1), 1, rtol=1e-12)
        assert (back > 0).all()
        again, same = compact.encode_distributions(back)
        rows = np.repeat((same == omitted).reshape(-1), K - 1)
        assert (np.abs(again[rows].astype(int) - codes[rows]) <= 1).all()

    def test_logs(self):
        rng = np.random.default_rng(0)
        values = rng.gamma([0.5, 1, 5, 20], size=(4, 250, 4)) * [1, 1e-3, 10, 1] - [50, 0.1, 1e4, 1]
        values = np.concatenate([values, np.full((4, 250, 1), -0.1)], -1)
        codes, centre, step = compact.encode_logs(values)
        back = compact.decode_logs(codes, centre, step, values.shape, "float64")
        assert (np.abs(back - values) <= step * 1.001).all()
        assert (step[:4] <= 1.5 * values.std((0, 1))[:4] / compact.STEPS).all()
        assert (back[..., 4] == -0.1).all()
        # Equal codes become different values: smoothing fails on ties.
        assert len(np.unique(back[..., 0])) > 0.99 * 1000

    def test_one_far_draw_among_millions(self):
        """The range of an item's draws fits into its codes, whatever its standard deviation is."""
        values = np.zeros((1, 2_000_000, 1))
        values[0, 7] = -1.3 * 2**15
        back = compact.decode_logs(*(parts := compact.encode_logs(values)), values.shape, "float64")
        assert float(np.abs(back - values).max()) <= float(parts[2][0])

    @pytest.mark.parametrize("K", [1, 2, 5, 300])
    def test_indices(self, K):
        values = np.random.default_rng(K).integers(0, K, (3, 7, 11)).astype(np.int16)
        codes, ranked = compact.encode_indices(values)
        back = compact.decode_indices(codes, ranked, values.shape, "int16")
        assert back.dtype == values.dtype
        np.testing.assert_array_equal(back, values)

    def test_single_precision(self):
        values = np.array([0.0, 1e-300, 0.1, -3.0, 1e20])
        back = compact.rounded(values)
        assert back.dtype == np.float32
        assert (back[:2] == [0, np.finfo(np.float32).tiny]).all()
        np.testing.assert_allclose(back[2:], values[2:], rtol=2**-compact.MANTISSA)

    def test_parts_of_different_results(self):
        for decode, parts in (
            (compact.decode_distributions, (np.zeros((3, 2)), np.zeros(2, int))),
            (compact.decode_logs, (np.zeros((3, 2)), np.zeros(2), np.zeros(2))),
            (compact.decode_indices, (np.zeros((1, 3, 2)), np.zeros((2, 2)))),
        ):
            with pytest.raises(ValueError, match="do not belong together"):
                decode(*parts, (1, 2, 2, 2), "float64")


def test_sizes(tmp_path):
    """As large as a public set of 8,000 annotations, whose file was 27 MB."""
    data = simulated(items=800, workers=164, per_item=10, classes=2, seed=0)[0]
    posterior = quiet_fit(data, seed=1, independent=False)
    assert posterior.save(tmp_path / "p.nc").stat().st_size < 3e6
    assert posterior.save(tmp_path / "full.nc", keep="full").stat().st_size > 15e6


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
