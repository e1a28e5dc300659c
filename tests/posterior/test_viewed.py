"""What is known of a particular model stands with it: which of its quantities views show, and a small file keeps."""

import ast
import json
from functools import cache
from itertools import chain
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import CASES, Spammers, quiet_fit, simulated

import crowdppl
from crowdppl import DataError, FileError, OptionError, Posterior, criticism, plots
from crowdppl.errors import silent
from crowdppl.model.bound import bind
from crowdppl.models import CATALOGUE
from crowdppl.posterior import compact, viewed
from crowdppl.posterior.measures import BY_CLASS, MEASURES
from crowdppl.posterior.workers import groups

ROOT = Path(__file__).resolve().parents[2]
GIBBS = {"method": "gibbs", "chains": 2, "warmup": 20, "num_samples": 300, "seed": 1}


class Shown(Spammers):
    """The same model, whose probabilities of guessing are to be looked at."""

    viewed: ClassVar = ("spam",)


@pytest.fixture(scope="module")
def data():
    return simulated(items=100, workers=40, per_item=8, classes=3, seed=3)[0]


@pytest.fixture(scope="module")
def shown(data):
    posterior = quiet_fit(data, Shown(), **GIBBS)
    draws = posterior.tree["posterior"].data_vars
    assert min(draws["spam"].size, draws["guess"].size) > compact.SMALL
    return posterior


def again(posterior, path, **options):
    """Return a result as it is loaded from its file."""
    return crowdppl.load(posterior.save(path, **options))


# ---------------------------------------------------------------------- a small file keeps what a model says


@pytest.mark.slow
def test_a_small_file_keeps_what_the_users_model_says(shown, data, tmp_path):
    small = again(shown, tmp_path / "p.nc")
    assert json.loads(small.tree.attrs["dropped"]) == ["posterior/guess"]
    assert small.draws("spam").shape == (600, 40)
    np.testing.assert_allclose(small.draws("spam"), shown.draws("spam"), rtol=1e-6)  # single precision
    with pytest.raises(OptionError, match=r"^name='guess': this result was loaded from a small file"):
        small.draws("guess")
    np.testing.assert_array_equal(again(small, tmp_path / "q.nc").draws("spam"), small.draws("spam"))
    # Of the same model that says nothing, both are left out.
    other = again(quiet_fit(data, Spammers(), **GIBBS), tmp_path / "other.nc")
    assert json.loads(other.tree.attrs["dropped"]) == ["posterior/spam", "posterior/guess"]


def test_results_and_updates_say_what_is_shown(shown, data):
    assert json.loads(shown.tree.attrs["viewed"]) == ["spam"]
    with silent():
        more = crowdppl.update(shown, data.batch(torch.arange(3)), model=Shown(), repeats="last")
    assert json.loads(more.tree.attrs["viewed"]) == ["spam"]
    first = quiet_fit(data, "worker-groups", method="em", seed=1)
    assert json.loads(first._known.attrs["viewed"]) == ["membership"]  # before draws are made


def test_other_labels_are_shown_beside_any_model(tmp_path):
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 60)
    rows = [
        (f"t{i}", f"w{j}", "cannot tell" if rng.random() < 0.2 else str(truth[i]))
        for i in range(60)
        for j in rng.choice(40, 8, replace=False)
    ]
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"])
    data = crowdppl.Annotations.from_frame(frame, other_labels=["cannot tell"])
    posterior = quiet_fit(data, Shown(), **GIBBS)
    assert json.loads(posterior.tree.attrs["viewed"]) == ["spam", "other_rate"]
    small = again(posterior, tmp_path / "p.nc")
    np.testing.assert_allclose(small.draws("other_rate"), posterior.draws("other_rate"), rtol=1e-6)
    assert len(small.other_rates()) == 80


def test_results_of_earlier_versions_keep_the_draws_of_workers(shown, tmp_path):
    """They do not say what views show: nothing of a worker is lost, in full files and in small ones."""
    tree = shown.tree.copy()
    del tree.attrs["viewed"]
    full = again(Posterior(tree), tmp_path / "full.nc", keep="full")
    small = again(full, tmp_path / "p.nc")
    assert json.loads(small.tree.attrs.get("dropped", "[]")) == []
    for name in ("spam", "guess"):
        np.testing.assert_allclose(small.draws(name), shown.draws(name), rtol=1e-6)
    # One that was small already.
    tree = again(shown, tmp_path / "q.nc").tree.copy()
    del tree.attrs["viewed"]
    second = again(Posterior(tree), tmp_path / "r.nc")
    assert json.loads(second.tree.attrs["dropped"]) == ["posterior/guess"]
    np.testing.assert_allclose(second.draws("spam"), shown.draws("spam"), rtol=1e-6)


def test_draws_of_items_are_left_out_of_earlier_results(tmp_path):
    data = simulated(items=100, workers=40, per_item=8, classes=2, seed=3)[0]
    posterior = quiet_fit(data, "glad", method="em", seed=1, num_samples=300)
    tree = posterior.tree.copy()
    del tree.attrs["viewed"]
    small = again(Posterior(tree), tmp_path / "p.nc")
    assert json.loads(small.tree.attrs["dropped"]) == ["posterior/easiness"]
    np.testing.assert_allclose(small.draws("ability"), posterior.draws("ability"), rtol=1e-6)
    assert criticism.check(small, draws=20).source == "model"


@pytest.mark.parametrize("value", ["{", '"spam"', "[1]"])
def test_a_damaged_attribute_is_refused(shown, tmp_path, value):
    tree = shown.tree.copy()
    tree.attrs["viewed"] = value
    with pytest.raises((DataError, FileError), match="attribute 'viewed' is not"):
        again(Posterior(tree), tmp_path / "p.nc")


# ---------------------------------------------------------------------- views know no model


def test_groups_are_found_by_their_axis():
    """Whatever a model calls the shares and the matrices of its groups."""
    data = simulated(items=40, workers=12, per_item=6, classes=3, seed=3)[0]
    posterior = quiet_fit(data, "worker-groups", method="gibbs", chains=1, warmup=20, num_samples=30, seed=1)
    draws = posterior.tree["posterior"].to_dataset()
    tree = posterior.tree.copy()
    tree["posterior"] = draws.rename({"ordered_share": "sizes", "ordered_confusion": "tables", "rank": "part"})
    table = groups.table(Posterior(tree))
    pd.testing.assert_frame_equal(table, groups.table(posterior))
    mean = draws["ordered_share"].mean(("chain", "draw"))  # and not those of the groups that draws may exchange
    np.testing.assert_allclose(table["share"], mean)
    assert len(plots.groups(Posterior(tree)).get_yticks()) == 12
    tree["posterior"] = draws.drop_vars("ordered_confusion")
    with pytest.raises(DataError, match="has no groups of annotators; fit 'community', 'worker-groups' or 'crowd-mix"):
        groups.table(Posterior(tree))


def test_messages_name_the_models_that_have_it(monkeypatch):
    assert viewed.models_with("membership") == "'community', 'worker-groups' or 'crowd-mixture'"
    assert viewed.models_with("sensitivity", "false_positive_rate") == "'label-sets'"
    monkeypatch.setitem(CATALOGUE, "more-groups", type("MoreGroups", (), {"viewed": ("membership",)}))
    assert viewed.models_with("membership").endswith("'crowd-mixture' or 'more-groups'")


@pytest.mark.parametrize("names", [("membership",), ("common_share",), ("worker_embedding",), ("classifier",)])
def test_every_view_has_a_model(names):
    """A message that says which models to fit is never empty."""
    assert viewed.models_with(*names)


@pytest.mark.parametrize("model", CATALOGUE)
def test_models_say_the_axes_of_what_they_show(model):
    for name in CATALOGUE[model].viewed:
        assert {"worker", "item", "criterion"} & set(CATALOGUE[model].dims[name]), name


# ---------------------------------------------------------------------- and no list of them stands elsewhere

# Folders and modules that show results, and that compute them for any model.
ELSEWHERE = ("acquisition", "aggregate", "cli", "criticism", "export", "inference", "plots", "posterior", "report")


@cache
def quantities():
    """Return the quantities of single workers, items and annotations of each model, without measures of any model."""
    measures = {*MEASURES, *BY_CLASS, "severity", "confusion"}
    axes = {"worker", "item", "annotation"}
    models = chain(CATALOGUE.values(), (type(case.model) for case in CASES))
    return [
        ({name for name, own in kind.dims.items() if axes & set(own)} | set(kind.viewed)) - measures for kind in models
    ]


def literals(text):
    """Return the names in each tuple, list, set and dictionary of a module, and the models in each text but docstrings."""
    collections, texts = [], []
    nodes = list(ast.walk(ast.parse(text)))
    described = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
            members = [key for key in node.keys if key] if isinstance(node, ast.Dict) else node.elts
            collections.append({one.value for one in members if isinstance(one, ast.Constant)})
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described:
            texts.append({name for name in CATALOGUE if f"'{name}'" in node.value})
    return collections, texts


def lists_of_several(text):
    """Return the collections of a module with quantities that no one model has together, and texts that name several models."""
    own = quantities()
    every = set().union(*own)
    collections, texts = literals(text)
    parts = [names & every for names in collections]
    wrong = [sorted(part) for part in parts if len(part) > 1 and not any(part <= each for each in own)]
    return wrong + [sorted(names) for names in texts if len(names) > 1]


def modules():
    paths = [path for path in (ROOT / "crowdppl").rglob("*.py") if "models" not in path.parts]
    return sorted(p for p in paths if p.relative_to(ROOT / "crowdppl").with_suffix("").parts[0] in ELSEWHERE)


def test_no_list_of_the_quantities_of_several_models():
    """A further model would have to be added to it."""
    assert len(modules()) > 100
    lists = {
        path.relative_to(ROOT).as_posix(): lists_of_several(path.read_text(encoding="utf-8")) for path in modules()
    }
    assert not {path: names for path, names in lists.items() if names}


def test_such_a_list_is_noticed():
    assert lists_of_several('VIEWED = ("common_share", "membership")') == [["common_share", "membership"]]
    assert lists_of_several('if name in {"ability", "worker_embedding"}: pass') == [["ability", "worker_embedding"]]
    assert lists_of_several('WHERE = {"membership": 1, "common_share": 2}') == [["common_share", "membership"]]
    assert lists_of_several("""message = "no groups; fit 'community' or 'lia'" """) == [["community", "lia"]]
    assert lists_of_several('BOTH = ("worker_embedding", "item_embedding")') == []  # of one model: a view
    assert lists_of_several('"""Of models such as \'community\' and \'lia\'."""') == []


def test_bound_models_say_what_is_shown(data):
    assert bind(Shown(), data).viewed == ("spam",)
    assert bind(Spammers(), data).viewed == ()
