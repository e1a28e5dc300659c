"""A file that is not what a fit writes is refused when it is loaded, in one line, whatever is wrong with it."""

import json

import h5py
import numpy as np
import pytest
from catalog import quiet_fit, simulated, tiny

import crowdppl
from crowdppl import DataError, FileError
from crowdppl.files import digests
from crowdppl.posterior import schema


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A small result with everything a result may hold."""
    data = simulated(items=12, workers=4, per_item=3)[0].with_weights(np.ones(12))
    path = tmp_path_factory.mktemp("schema") / "x.nc"
    return quiet_fit(data, "raykar", method="em", num_samples=30, max_iter=5, independent=False).save(path).read_bytes()


def put(group, name, value, at=(0,)):
    def change(file):
        variable = file[group][name]
        variable[tuple(at) + (0,) * (variable.ndim - len(at))] = value

    return change


def remove(*path):
    return lambda file: file.__delitem__("/".join(path))


def attribute(name, value):
    return lambda file: file.attrs.__setitem__(name, value)


def run(**changed):
    def change(file):
        metadata = json.loads(file.attrs["run"]) | changed
        file.attrs["run"] = json.dumps({key: value for key, value in metadata.items() if value != "gone"})

    return change


def retyped(group, name, kind):
    def change(file):
        values = file[group][name][...]
        scales = [file[group][name].dims[n][0].name for n in range(values.ndim)]
        del file[group][name]
        dataset = file[group].create_dataset(name, data=values.astype(kind))
        for n, scale in enumerate(scales):
            dataset.dims[n].attach_scale(file[scale])

    return change


DAMAGE = {
    "an item that is not there": (
        put("constant_data", "item_index", 99, (-1,)),
        "item_index contains 99; indices of 12 items",
    ),
    "an item below 0": (put("constant_data", "item_index", -1), "item_index contains -1"),
    "a worker that is not there": (
        put("constant_data", "worker_index", 4),
        "worker_index contains 4; indices of 4 workers",
    ),
    "a label that is not there": (
        put("observed_data", "labels", 3),
        "observed_data/labels contains 3; indices of 3 classes",
    ),
    "a known truth that is not there": (
        put("constant_data", "known_truth", -2),
        "known_truth contains -2; .* from -1 to 2",
    ),
    "a drawn truth that is not there": (put("calibrated", "draw_of", 7), "draw_of contains 7"),
    "items that do not ascend": (put("constant_data", "item_index", 5), "item_index is not ascending"),
    "a probability that is no number": (put("truth", "probability", np.nan), "truth/probability contains nan"),
    "a probability of 5": (put("truth", "probability", 5.0), "truth/probability contains 5; .* from 0 to 1"),
    "probabilities of less than one": (put("calibrated", "probability", 0.0, (0, slice(None))), "sum to 0, not to 1"),
    "a confusion that is no number": (put("posterior", "confusion", np.nan), "posterior/confusion contains nan"),
    "a prevalence below 0": (put("posterior", "prevalence", -1.0), "posterior/prevalence contains -1"),
    "a correlation of 2": (put("calibrated", "rho", 2.0), "calibrated/rho contains 2"),
    "a weight below 0": (put("constant_data", "weight", -1.0), "weight contains -1; .* at least 0"),
    "a likelihood that is no number": (
        put("log_likelihood", "labels", np.nan),
        "log_likelihood/labels contains NaN",
    ),
    "broken metadata": (attribute("run", "{not json"), "attribute 'run' is not JSON"),
    "metadata of another kind": (attribute("run", "[1, 2]"), "attribute 'run' does not contain"),
    "metadata that nests": (attribute("run", "[" * 20_000), "attribute 'run' is not JSON"),
    "no model": (run(model="gone"), "no valid 'model'"),
    "options that are none": (run(options=3), "no valid 'options'"),
    "a seed that is none": (run(seed=True), "no valid 'seed'"),
    "class weights that are none": (
        run(rho={"mean": -1.0, "spread": 1.0, "known": None, "log_class_weights": [0.1, "much"]}),
        "no valid 'log_class_weights' of 'rho'",
    ),
    "a correlation that is none": (run(rho={"mean": 1}), "no valid 'rho'"),
    "true labels that inform it without a mean": (
        run(rho={"mean": -1.0, "spread": 3.0, "known": None, "truths": {"items": 3}}),
        "no valid 'truths' of 'rho'",
    ),
    "correlation that the model leaves, of one number": (run(residual_rho=[0.5]), "no valid 'residual_rho'"),
    "correlation that the model leaves, in words": (run(residual_rho=["low", 1]), "no valid 'residual_rho'"),
    "views of no list": (attribute("viewed", '"spam"'), "'viewed' is not a list of variables"),
    "notes that are none": (attribute("notes", "{}"), "'notes' is not a list of sentences"),
    "no notes": (lambda file: file.attrs.__delitem__("notes"), "attribute 'notes' is missing"),
    "another kind of draws": (attribute("kind", "guess"), "attribute 'kind' is 'guess'"),
    "a format that is no number": (attribute("crowdppl_format", "one"), "its format is 'one', not a number"),
    "no likelihood": (remove("log_likelihood"), "the group 'log_likelihood' is missing"),
    "two groups less": (
        lambda f: [remove(g)(f) for g in ("truth", "sample_stats")],
        "groups 'sample_stats', 'truth' are",
    ),
    "no confusion": (remove("posterior", "confusion"), "posterior/confusion is missing"),
    "no calibrated confusion": (remove("calibrated", "confusion"), "calibrated/confusion is missing"),
    "no drawn truths": (remove("calibrated"), "truth/draw_of is missing"),
    "a prior that is no number": (put("log_prior", "confusion", np.nan), "log_prior/confusion contains NaN"),
    "codes with a fraction": (retyped("observed_data", "labels", float), "observed_data/labels is of type float64"),
    "probabilities that are whole": (retyped("truth", "probability", int), "truth/probability is of type int64"),
    "networks that are noise": (
        put("networks", "safetensors", 255, (slice(None),)),
        "networks/safetensors does not contain",
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_one_line(case, saved, tmp_path):
    change, message = DAMAGE[case]
    path = tmp_path / "x.nc"
    path.write_bytes(saved)
    if "networks" in case:
        posterior = quiet_fit(tiny(), "conal", method="em", num_samples=3, max_iter=2, steps=2)
        posterior.save(path)
    with h5py.File(path, "r+") as file:
        change(file)
    digests.seal(path)
    with pytest.raises(FileError, match=rf"^x\.nc is damaged or was changed: [^\n]*{message}[^\n]*$"):
        crowdppl.load(path)


@pytest.mark.parametrize(
    ("path", "message"),
    [(None, "path: a NoneType is not the path"), (3, "path: an int is not the path"), ("", "path=''")],
)
def test_what_is_no_path(path, message):
    with pytest.raises(FileError, match=message):
        crowdppl.load(path)


def test_a_folder_and_a_tree_that_is_none(tmp_path):
    with pytest.raises(FileError, match=r"is a folder; name the file in it, such as .*posterior\.nc"):
        crowdppl.load(tmp_path)
    with pytest.raises(DataError, match="tree is a NoneType; pass an"):
        crowdppl.Posterior(None)


def test_results_in_single_precision_are_valid():
    import torch

    data = simulated(items=300, classes=8)[0].to(dtype=torch.float32)
    schema.validate(
        quiet_fit(data, "dawid-skene", method="gibbs", chains=1, warmup=5, num_samples=20, independent=False).tree
    )
