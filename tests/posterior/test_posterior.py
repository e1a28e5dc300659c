"""The result: its views, its file, and what ArviZ makes of it."""

import inspect
import json
import warnings

import arviz_stats
import matplotlib
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from catalog import SkillAndDifficulty, fit, quiet_fit, simulated

import crowdppl
from crowdppl import CrowdpplWarning, DataError, FileError, OptionError

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def posterior():
    from crowdppl.data import datasets

    return fit(datasets.anaesthesia(), "dawid-skene", method="gibbs", seed=1, num_samples=1000)


def test_views(posterior):
    truth = posterior.truth()
    assert list(truth.columns) == ["task", "label", "probability", "entropy", "p_1", "p_2", "p_3", "p_4"]
    assert truth["label"].isin([1, 2, 3, 4]).all()
    assert (truth["entropy"] >= 0).all()
    assert (truth["probability"] == truth[["p_1", "p_2", "p_3", "p_4"]].max(axis=1)).all()
    table = posterior.workers(sort="accuracy", minimum=50)
    assert list(table["worker"]) == [1]  # the only one with 135 annotations
    by_accuracy = posterior.workers(sort="accuracy")["accuracy"]
    assert by_accuracy.is_monotonic_decreasing
    wide, narrow = (posterior.workers(level=level) for level in (0.99, 0.5))
    assert (wide["accuracy_high"] - wide["accuracy_low"] > narrow["accuracy_high"] - narrow["accuracy_low"]).all()
    matrix = posterior.confusion(1).pivot_table(index="truth", columns="label", values="probability")
    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-12)
    every = posterior.confusion()
    assert len(every) == 5 * 16
    assert every[every["worker"] == 1].drop(columns="worker").reset_index(drop=True).equals(posterior.confusion(1))
    assert posterior.prevalence()["share"].sum() == pytest.approx(1)
    assert "gibbs" in repr(posterior)
    assert posterior.info["seed"] == 1
    assert "90 repeated annotations" in posterior.notes[0]
    assert not posterior.alert


def test_worker_table_is_computed_from_the_tree(posterior):
    draws = posterior.tree["posterior"]
    accuracy = sum(
        draws["prevalence"].sel(true_label=k).values[..., None]
        * draws["confusion"].sel(true_label=k, given_label=k).values
        for k in (1, 2, 3, 4)
    ).reshape(-1, 5)
    table = posterior.workers()
    np.testing.assert_allclose(table["accuracy"], accuracy.mean(0))
    np.testing.assert_allclose(table["accuracy_low"], np.quantile(accuracy, 0.055, axis=0))
    np.testing.assert_allclose(table["accuracy_high"], np.quantile(accuracy, 0.945, axis=0))


def test_bad_questions(posterior):
    with pytest.raises(DataError, match="no worker 9"):
        posterior.confusion(9)
    with pytest.raises(DataError, match="no worker '1'"):
        posterior.confusion("1")
    with pytest.raises(OptionError, match=r"did you mean 'accuracy'"):
        posterior.workers(sort="acuracy")
    with pytest.raises(OptionError, match="between 0 and 1"):
        posterior.workers(level=89)


@pytest.mark.parametrize(
    "method", ["em", "gibbs", *(pytest.param(name, marks=pytest.mark.slow) for name in ("svi", "nuts"))]
)
def test_arviz_reads_it(method, anaesthesia):
    short = {"nuts": {"chains": 2, "warmup": 50, "num_samples": 50}, "gibbs": {"num_samples": 300}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = {
            "dawid-skene": fit(anaesthesia, "dawid-skene", method=method, seed=1, **short.get(method, {})),
            "pooled": fit(anaesthesia, "majority-vote", method=method, seed=1, **short.get(method, {})),
        }
        tree = fits["dawid-skene"].tree
        assert len(arviz_stats.summary(tree)) == 4 + 80
        loo = arviz_stats.loo(tree)
        assert loo.n_data_points == 45
        ranking = arviz_stats.compare({name: p.tree for name, p in fits.items()})
    assert ranking.index[0] == "dawid-skene"
    # PSIS-LOO and its plain estimate, the log-likelihood less the effective parameters, are near.
    assert -250 < loo.elpd < -180


@pytest.mark.slow
def test_arviz_reads_the_statistics_of_nuts(anaesthesia, tmp_path):
    """Of each draw, as Pyro's own diagnostics sum them up; functions of ArviZ take them, also from a file."""
    posterior = quiet_fit(anaesthesia, "one-coin", method="nuts", chains=2, warmup=40, num_samples=60, seed=2)
    stats = posterior.tree["sample_stats"]
    kinds = {
        "diverging": "b",
        "energy": "f",
        "tree_depth": "i",
        "n_steps": "i",
        "acceptance_rate": "f",
        "step_size": "f",
    }
    assert {name: stats[name].dtype.kind for name in kinds} == kinds
    assert stats["diverging"].sum("draw").values.tolist() == posterior.info["facts"]["divergences"]
    assert (stats["n_steps"] >= 2 ** (stats["tree_depth"] - 1) - 1).all()
    assert ((stats["acceptance_rate"] > 0.3) & (stats["acceptance_rate"] <= 1)).mean() > 0.9
    assert (stats["step_size"].std("draw") < 1e-12).all()  # adapted in the warm-up only
    # The energy is that of a position and a momentum: minus the density, up to a constant, plus half a chi-square.
    again = crowdppl.load(posterior.save(tmp_path / "x.nc"))
    energy = again.tree["sample_stats"]["energy"].values
    fraction = np.square(np.diff(energy)).mean(1) / energy.var(1)
    assert (fraction > 0.3).all()
    if hasattr(arviz_stats, "bfmi"):  # not in the lowest version
        np.testing.assert_allclose(arviz_stats.bfmi(again.tree)["energy"], fraction, rtol=0.1)


@pytest.fixture(scope="module")
def weighted():
    """A result whose quality of workers is calibrated, in a group of its own."""
    data = simulated(items=60, workers=8, per_item=4, seed=3)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        return crowdppl.fit(data, "dawid-skene", method="gibbs", seed=1, num_samples=250)


def test_arviz_weighs_prior_and_likelihood(weighted):
    """Power-scaling of the model's own draws, by the groups that ArviZ looks for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for group in ("prior", "likelihood"):
            sensitivity = arviz_stats.psense(weighted.tree, var_names=["prevalence"], group=group)
            assert sensitivity["prevalence"].shape == (3,)
            assert np.isfinite(sensitivity["prevalence"]).all()
        assert len(arviz_stats.psense_summary(weighted.tree, var_names=["prevalence"])) == 3
        one = {"group_var_names": ["confusion"], "group_coords": {"worker": [weighted.worker_names()[0]]}}
        by_worker = arviz_stats.psense(weighted.tree, var_names=["confusion"], group="prior", **one)["confusion"]
        others = by_worker.drop_sel(worker=one["group_coords"]["worker"])
        assert float(by_worker.max()) > 2 * float(others.max()) > 0  # the prior of one worker concerns that worker
        assert len(arviz_stats.summary(weighted.tree)) == 3 + 8 * 9  # nothing calibrated among them
        assert arviz_stats.loo(weighted.tree).n_data_points == 60


@pytest.mark.slow
def test_arviz_predicts_agreement(weighted):
    """LOO-PIT of the agreement on each item, without its labels; and the distributions of replicated agreement."""
    import arviz_plots

    tree = crowdppl.criticism.predictive_tree(weighted, seed=1)
    assert tree["posterior_predictive"]["agreement"].dims == ("chain", "draw", "item")
    assert tree["observed_data"]["agreement"].sizes["item"] == 60
    votes = weighted.votes()
    np.testing.assert_array_equal(tree["observed_data"]["agreement"], votes.max(1) / votes.sum(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seeded = "random_state" in inspect.signature(arviz_stats.loo_pit).parameters  # not in the lowest version
        pit = arviz_stats.loo_pit(tree, **({"random_state": 1} if seeded else {}))["agreement"]
        assert pit.shape == (60,)
        assert ((pit >= 0) & (pit <= 1)).all()
        # Labels of the model: uniform, mean .5 with a standard error of .037.
        assert abs(float(pit.mean()) - 0.5) < 0.15
        arviz_plots.plot_ppc_dist(tree, num_samples=20)
    matplotlib.pyplot.close("all")
    again = crowdppl.criticism.predictive_tree(weighted, seed=1)
    xr.testing.assert_identical(tree.to_dataset(), again.to_dataset())
    one = crowdppl.Annotations.from_frame(pd.DataFrame({"task": ["a", "b"], "worker": ["u", "v"], "label": ["x", "y"]}))
    with pytest.raises(DataError, match="no item has two annotations"):
        crowdppl.criticism.predictive_tree(quiet_fit(one, "dawid-skene", method="em", num_samples=5))


@pytest.mark.parametrize("model", ["dawid-skene", "one-coin", "item-subtypes", "raykar"])
def test_prior_and_prior_predictive(model):
    """Sites as the posterior has them, drawn as simulate draws them; functions of ArviZ take both groups."""
    data = simulated(items=20, workers=4, per_item=3, seed=2, features=model == "raykar")[0]
    method = "em" if model == "raykar" else "gibbs"
    short = {"em": {"max_iter": 5, "num_samples": 10}, "gibbs": {"chains": 2, "warmup": 5, "num_samples": 10}}[method]
    posterior = quiet_fit(data, model, method=method, **short)
    own = {"data": data, "model": crowdppl.models.CATALOGUE[model]()}
    tree = crowdppl.criticism.predictive_tree(posterior, prior=30, seed=4, **own)
    for name, values in tree["prior"].data_vars.items():
        assert values.dims == tree["posterior"][name].dims
        assert values.shape[2:] == tree["posterior"][name].shape[2:]
    _, _, first = crowdppl.simulate(
        own["model"], data.item.tolist(), data.worker.tolist(), classes=3, seed=4, features=data.features
    )
    for name in set(tree["prior"].data_vars) & set(first):
        np.testing.assert_allclose(tree["prior"][name].values[0, 0], first[name], rtol=1e-12)
    assert tree["prior_predictive"]["agreement"].shape == (1, 30, 20)
    assert set(tree["posterior_predictive"]["item"].values) == set(tree["prior_predictive"]["item"].values)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz_plots  # here: it takes seconds

        if "prevalence" in tree["prior"]:
            arviz_plots.plot_prior_posterior(tree, var_names=["prevalence"])
        arviz_plots.plot_ppc_dist(tree, group="prior_predictive", num_samples=10)
    matplotlib.pyplot.close("all")


def test_a_file_of_the_earlier_layout_is_refused(weighted, tmp_path):
    """In it the group ``posterior`` held calibrated quality: the message says what to do."""
    mixed = (
        weighted.tree["posterior"].to_dataset().assign(weighted.tree["calibrated"].to_dataset()[["rho", "confusion"]])
    )
    old = weighted.tree.copy()
    old["posterior"] = xr.DataTree(mixed)
    del old["calibrated"], old["log_prior"]
    old.attrs = old.attrs | {"crowdppl_format": 1}
    old.to_netcdf(tmp_path / "old.nc", engine="h5netcdf")
    with pytest.raises(FileError, match=r"^old\.nc has format 1 of an earlier crowdppl[^\n]*; fit again$"):
        crowdppl.load(tmp_path / "old.nc")


def test_arviz_plots_it(posterior):
    import arviz_plots

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arviz_plots.plot_forest(posterior.tree, var_names=["prevalence"])
        arviz_plots.plot_trace(posterior.tree, var_names=["prevalence"])
    matplotlib.pyplot.close("all")


def test_custom_sites_carry_the_callers_identifiers():
    data, _, _ = simulated(items=20, workers=6, model=SkillAndDifficulty())
    posterior = fit(data, SkillAndDifficulty(), method="em", num_samples=50)
    assert posterior.tree["posterior"]["skill"].dims == ("chain", "draw", "worker")
    assert posterior.tree["posterior"]["difficulty"].dims == ("chain", "draw", "item")
    assert "Laplace" in posterior.interval_method


def test_too_large_for_a_normal_approximation_is_told(monkeypatch):
    import crowdppl.inference.engines.em

    monkeypatch.setattr(crowdppl.inference.engines.em, "LAPLACE_SIZE", 3)
    data, _, _ = simulated(items=20, workers=6, model=SkillAndDifficulty())
    with pytest.warns(CrowdpplWarning, match="there are no intervals"):
        posterior = fit(data, SkillAndDifficulty(), method="em")
    assert posterior.kind == "point"
    assert posterior.workers()["accuracy_low"].isna().all()


@pytest.mark.parametrize(
    "labels", [[False, True], ["no", "ja 🙂"], [-3, 2**62], [0, 2**63]], ids=["bool", "text", "int", "uint"]
)
def test_identifiers_survive_the_file(labels, tmp_path):
    data = crowdppl.Annotations.from_arrays(
        ["ä", "b", "b"], [2**63, 5, 2**63], [labels[0], labels[1], labels[0]], labels=labels
    )
    posterior = fit(data, "dawid-skene", method="em", num_samples=100)
    back = crowdppl.load(posterior.save(tmp_path / "x.nc"))
    assert back.truth().equals(posterior.truth())
    assert back.workers()["worker"].tolist() == [2**63, 5]
    assert back.labels.tolist() == labels
    assert back.confusion(2**63).equals(posterior.confusion(2**63))


class TestFiles:
    def test_bad_files(self, tmp_path, posterior):
        with pytest.raises(FileError, match="no file"):
            crowdppl.load(tmp_path / "none.nc")
        text = tmp_path / "text.nc"
        text.write_text("not a NetCDF file")
        with pytest.raises(FileError, match="not a readable NetCDF file"):
            crowdppl.load(text)
        whole = posterior.save(tmp_path / "whole.nc").read_bytes()
        cut = tmp_path / "cut.nc"
        cut.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(FileError, match="not a readable NetCDF file"):
            crowdppl.load(cut)
        foreign = tmp_path / "foreign.nc"
        xr.Dataset({"x": ("n", [1.0])}).to_netcdf(foreign, engine="h5netcdf")
        with pytest.raises(FileError, match="not one written by crowdppl"):
            crowdppl.load(foreign)

    def test_later_format(self, tmp_path, posterior):
        tree = posterior.tree.copy()
        tree.attrs = tree.attrs | {"crowdppl_format": 99}
        path = crowdppl.Posterior(tree).save(tmp_path / "later.nc")
        with pytest.raises(FileError, match="update crowdppl"):
            crowdppl.load(path)

    def test_nowhere_to_write(self, tmp_path, posterior):
        with pytest.raises(FileError, match="cannot write"):
            posterior.save(tmp_path / "no" / "such" / "folder.nc")

    def test_an_interruption_leaves_the_old_file(self, tmp_path, posterior, monkeypatch):
        path = posterior.save(tmp_path / "p.nc")
        before = path.read_bytes()

        def breaks(*_, **__):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(xr.Dataset, "dump_to_store", breaks)
        with pytest.raises(FileError, match="No space left"):
            posterior.save(path)
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]

    def test_attributes_are_plain(self, posterior):
        assert json.loads(posterior.tree.attrs["run"])["model"] == "dawid-skene"
        with pytest.raises(DataError, match="not a result of crowdppl"):
            crowdppl.Posterior(xr.DataTree())
