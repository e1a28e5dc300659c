"""Grades by several criteria: the model against sums written out, its steps, recovery, what is read and shown, bad input."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import quiet_fit
from commands import run
from pyro import poutine
from pyro.infer import TraceEnum_ELBO
from pyro.infer.autoguide import AutoDelta
from pyro.infer.autoguide.initialization import init_to_value
from scipy.special import expit

import crowdppl
from crowdppl import Annotations, criticism, metrics
from crowdppl.data import datasets
from crowdppl.errors import CrowdpplWarning, DataError, OptionError, silent
from crowdppl.isolation import isolated
from crowdppl.model import graded_criteria, graded_rows, place_shapes
from crowdppl.model.bound import bind
from crowdppl.model.contract import check
from crowdppl.model.plates import Plates
from crowdppl.models import GradedFacets

NAMES = ["content", "style", "grammar", "layout"]


def table(seed, items=60, raters=5, grades=5, difficulty=(0.9, -0.2, 0.3, -1.0), share=1.0):
    """A row for each grade, drawn apart from the library; difficulties on the logit scale, with mean 0."""
    rng = np.random.default_rng(seed)
    x, severity = rng.normal(size=items), rng.normal(0, 0.7, raters)
    d = np.asarray(difficulty) - np.mean(difficulty)
    grid = np.meshgrid(range(items), range(raters), range(len(d)), indexing="ij")
    kept = rng.random(grid[0].shape) < share
    item, worker, criterion = (part[kept] for part in grid)
    noise = rng.logistic(size=len(item))
    label = np.digitize(2 * x[item] - severity[worker] - d[criterion] + noise, np.linspace(-2.5, 2.5, grades - 1))
    names = np.array(NAMES, dtype=object)[criterion]
    frame = pd.DataFrame({"task": item, "worker": [f"r{j}" for j in worker], "criterion": names, "label": label})
    return frame, d


def read(frame, **options):
    return Annotations.from_frame(frame, **{"kind": "ordinal", "criterion": "criterion", "labels": range(5)} | options)


def tiny(known=False):
    frame, _ = table(0, items=4, raters=3, share=0.6)
    return read(frame, truth={1: 3} if known else None)


def difficulties(posterior):
    value = posterior.tree["posterior"]["difficulty"]
    return value.sel(criterion=NAMES).to_numpy().reshape(-1, len(NAMES))


# ---------------------------------------------------------------------- the model


@pytest.mark.parametrize("known", [False, True])
def test_log_joint_is_the_sum_written_out(known):
    """Items at 7 nodes: logs of the prior and of each grade's probability, from the equations; the emission says the same."""
    with isolated(0), torch.no_grad():
        data = tiny(known)
        model = bind(GradedFacets(nodes=7), data)
        p, _ = model.conditioned(_drawn(model, data), data)
        joint = model.item_log_joint(p, data).numpy()
        emission = model.emission(p, data).log_prob(data.label.unsqueeze(-1)).numpy()
    nodes = np.linspace(-4, 4, 7)
    weight = np.exp(-(nodes**2) / 2 + place_shapes.basis(7, 6, 4.0).numpy() @ p["shape"].numpy())
    weight /= weight.sum()
    free = p["criterion_number"].numpy()
    d = free - free.mean()

    def share(log_slope, middle, gaps, offset, grade):
        heights = np.concatenate([[0], np.cumsum(np.exp(gaps))])
        threshold = middle + heights - heights.mean() + offset
        above = [np.ones(7), *(expit(np.exp(log_slope) * nodes - t) for t in threshold), np.zeros(7)]
        return above[grade] - above[grade + 1]

    out, each = np.tile(weight, (data.N, 1)), []
    for n in range(data.A):
        i, j, c, y = (int(code[n]) for code in (data.item, data.worker, data.criterion, data.label))
        rater = (p["log_slope"][j].item(), p["middle"][j].item(), p["log_gaps"][j].numpy())
        each.append(share(*rater, d[c], y))
        out[i] *= each[-1]
    if known:  # a grade of the reference rater, by no criterion
        reference = (p["reference_log_slope"].item(), p["reference_middle"].item(), p["reference_log_gaps"].numpy())
        out[data.items.tolist().index(1)] *= share(*reference, 0.0, 3)
    np.testing.assert_allclose(np.exp(emission), each, atol=1e-12)
    np.testing.assert_allclose(np.log(np.exp(joint).sum(1)), np.log(out.sum(1)), rtol=1e-9)
    np.testing.assert_allclose(np.exp(joint), out, atol=1e-12)


def _drawn(model, data):
    return {name: node["value"] for name, node in check(model, data).items()}


def test_pyro_program_has_the_same_density():
    """The enumerated program under a delta guide, and the log prior without a trace."""
    with isolated(1), torch.no_grad():
        data = tiny(True)
        model = bind(GradedFacets(nodes=7), data)
        sites = _drawn(model, data)
        parameters, log_prior = model.conditioned(sites, data)
        fast = float(model.item_log_joint(parameters, data).logsumexp(-1).sum() + log_prior)
        guide = AutoDelta(
            poutine.block(model.program, hide=["truth", "labels"]),
            init_loc_fn=init_to_value(values=sites),
            create_plates=lambda data: [(p := Plates.over(data.N, data.J)).item, p.worker],
        )
        assert -TraceEnum_ELBO(max_plate_nesting=1).loss(model.program, guide, data) == pytest.approx(fast, rel=1e-10)
        assert float(model.log_prior(parameters, data)) == pytest.approx(float(log_prior), rel=1e-10)


def test_slopes_by_difficulty():
    """Gradient against automatic differentiation, and the information as that of expected counts."""
    with isolated(0):
        nodes, raters, free = torch.linspace(-2, 2, 5).repeat(3), 0.5 * torch.randn(4, 4), torch.randn(3)
        offset = graded_criteria.offsets(free, 5)
        counts = 10 * torch.rand(4, 15, 1) * graded_rows.table(raters, nodes, offset)

        def joint(value):
            shifted = (value - value.mean()).repeat_interleave(5)
            return (counts * graded_rows.table(raters, nodes, shifted).log()).sum() - (value / 0.8).square().sum() / 2

        value, gradient, information = graded_criteria.slopes(free, raters, counts, nodes, 0.8)
        torch.testing.assert_close(value, joint(free))
        torch.testing.assert_close(gradient, torch.autograd.functional.jacobian(joint, free))
        torch.testing.assert_close(information, -torch.autograd.functional.hessian(joint, free))


def test_draws_of_difficulties_have_their_conditional():
    """Two criteria, all else fixed: 4,000 chains after 20 steps against a grid; by chance off in one of 10,000 runs."""
    with isolated(0), torch.no_grad():
        nodes, raters = torch.linspace(-2, 2, 3).repeat(2), 0.4 * torch.randn(2, 3)
        counts = torch.tensor([[[3.0, 2.0, 1.0]] * 6, [[0.0, 2.0, 2.0]] * 3 + [[2.0, 1.0, 0.0]] * 3])
        free = torch.randn(4000, 2)
        many = (raters.expand(4000, 2, 3), counts.expand(4000, 2, 6, 3))
        for _ in range(20):
            free = graded_criteria.drawn(free, *many, nodes, 1.0)
        half = torch.linspace(-4, 4, 801)  # half the difference; the mean is that of the prior
        value = torch.stack([half, -half], -1)
        grid = (raters.expand(801, 2, 3), counts.expand(801, 2, 6, 3))
        weight = graded_criteria.slopes(value, *grid, nodes, 1.0)[0].softmax(-1)
        mean = (weight * half).sum()
        spread = (weight * (half - mean).square()).sum().sqrt()
        drawn = (free[:, 0] - free[:, 1]) / 2
        assert abs(drawn.mean() - mean) < 5 * spread / 4000**0.5
        assert abs(drawn.std() / spread - 1) < 5 / (2 * 4000) ** 0.5
        assert abs(free.mean(1).std() * 2**0.5 - 1) < 5 / (2 * 4000) ** 0.5


def test_every_step_of_em_rises():
    frame, _ = table(0)
    with isolated(0), torch.no_grad():
        data = read(frame)
        model = bind(GradedFacets(nodes=11), data)
        parameters = model.m_step(model.initial(data), data)
        values = []
        for _ in range(15):
            joint = model.item_log_joint(parameters, data)
            values.append(float(joint.logsumexp(-1).sum() + model.log_prior(parameters, data)))
            parameters = model.m_step(joint.softmax(-1), data, parameters)
        assert np.diff(values).min() > -1e-8


def test_facets_form_of_published_ratings():
    """Essays by seven raters and five criteria (data.ratings1 of R's sirt): common thresholds, severities and difficulties.

    The log-likelihood at its maximum is -1281.213, computed apart from the library by another quadrature.
    """
    folder = datasets.folder()
    if folder is None or not (folder / "ratings1").is_dir():
        pytest.skip("CROWDPPL_DATA does not name the public data sets")
    frame = pd.read_csv(folder / "ratings1" / "annotations.csv.gz")
    with isolated(0):
        data = read(frame, labels=range(4))
        J, L, places = data.J, data.number_of_criteria, torch.linspace(-6, 6, 61)
        log_prior = (-places.square() / 2).log_softmax(-1)
        vector = torch.zeros(4 + J + L).requires_grad_(True)
        optimiser = torch.optim.LBFGS([vector], max_iter=500, line_search_fn="strong_wolfe", tolerance_grad=1e-9)

        def loss():
            optimiser.zero_grad()
            raters = torch.cat([vector[0].expand(J, 1), vector[4 : 4 + J, None], vector[1:3].expand(J, 2)], -1)
            offset = graded_criteria.offsets(vector[4 + J :], len(places))
            tables = graded_rows.table(raters, places.repeat(L), offset)
            rows = tables.unflatten(-2, (L, -1)).flatten(0, 1)
            joint = data.counts_by_criterion.log_likelihoods(rows.log()) + log_prior
            value = -joint.logsumexp(-1).sum()
            value.backward()
            return value

        optimiser.step(loss)
        assert -loss().item() == pytest.approx(-1281.213, abs=2e-3)


# ---------------------------------------------------------------------- recovery


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "simulations"), [("em", 40), ("gibbs", 12), pytest.param("gibbs", 40, marks=pytest.mark.longest)]
)
def test_intervals_of_difficulty_cover(method, simulations):
    """89% intervals of 4 criteria in 40 simulations: by chance outside 80% to 97% in less than one of 1,000 runs.

    Of the 48 intervals of twelve simulations 70% at least: fewer in one of 7,000 runs.
    """
    options = {} if method == "em" else {"chains": 2, "warmup": 100, "num_samples": 300}
    hits = []
    for seed in range(simulations):
        rng = np.random.default_rng(1000 + seed)
        frame, d = table(seed, items=40, raters=4, difficulty=rng.normal(0, 0.8, 4), share=0.8)
        posterior = quiet_fit(read(frame), "graded-facets", method=method, seed=0, **options)
        low, high = np.quantile(difficulties(posterior), [0.055, 0.945], axis=0)
        hits += ((low <= d) & (d <= high)).tolist()
    assert (0.80 if simulations == 40 else 0.70) <= np.mean(hits)
    assert simulations < 40 or np.mean(hits) <= 0.97


@pytest.mark.slow
def test_engines_agree_on_difficulties():
    """Means within .1 where the posterior has a standard deviation of .09, and within 4 of these of the simulated value."""
    frame, d = table(1, items=50, raters=5)
    one, two = (
        difficulties(quiet_fit(read(frame), "graded-facets", seed=0, **options))
        for options in ({"method": "em"}, {"method": "gibbs", "chains": 2, "warmup": 100, "num_samples": 300})
    )
    assert np.abs(one.mean(0) - two.mean(0)).max() < 0.1
    assert np.abs(two.mean(0) - d).max() < 0.4
    np.testing.assert_allclose(two.mean(1), 0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["svi", "nuts"])
def test_gradients_serve_criteria(method):
    frame, _ = table(1, items=20, raters=3)
    options = {
        "svi": {"max_iter": 300, "num_samples": 50},
        "nuts": {"chains": 1, "warmup": 10, "num_samples": 10, "max_tree_depth": 3},
    }
    posterior = quiet_fit(read(frame), GradedFacets(nodes=7), method=method, seed=0, **options[method])
    mean = difficulties(posterior).mean(0)
    assert mean.argmax() == 0
    assert mean.argmin() == 3


def test_an_unbalanced_sheet_is_corrected():
    """Half of the items have grades by the difficult criterion alone: their mean grade is lower, their true grade is not."""
    frame, _ = table(2, items=200, raters=6, difficulty=(1.5, -1.5, 0.0, 0.0))
    hard, easy = frame["criterion"] == "content", frame["criterion"] == "style"
    # Items of thirds: by the hard criterion, by the easy one, by both, so that they are comparable.
    kept = frame[
        ((frame["task"] % 3 == 0) & hard)
        | ((frame["task"] % 3 == 1) & easy)
        | ((frame["task"] % 3 == 2) & (hard | easy))
    ]
    grades = quiet_fit(read(kept), "graded-facets", seed=0).grades()
    third = grades["task"] % 3
    raw, fair = (grades[name][third == 1].mean() - grades[name][third == 0].mean() for name in ("mean_grade", "grade"))
    assert raw > 1
    assert abs(fair) < raw / 3


# ---------------------------------------------------------------------- what is read, kept and shown


@pytest.fixture(scope="module")
def fitted():
    frame, d = table(3)
    return frame, d, quiet_fit(read(frame), "graded-facets", seed=0)


def test_table_of_criteria(fitted):
    frame, d, posterior = fitted
    rows = posterior.criteria().set_index("criterion")
    assert rows.index.tolist() == list(dict.fromkeys(frame["criterion"]))
    pd.testing.assert_series_equal(
        rows["mean_grade"].sort_index(), frame.groupby("criterion")["label"].mean(), check_names=False
    )
    # All raters grade all items by all criteria: the difficulty is that of the mean grades, up to shrinkage and noise.
    raw = rows["mean_grade"].mean() - rows["mean_grade"]
    np.testing.assert_allclose(rows["difficulty"], raw, atol=0.1)
    assert (rows["difficulty_low"] < rows["difficulty"]).all()
    assert (rows["difficulty"] < rows["difficulty_high"]).all()
    assert rows["difficulty"].sort_values(ascending=False).index.tolist() == [NAMES[k] for k in np.argsort(-d)]


def test_order_and_names_of_criteria_do_not_matter(fitted):
    frame, _, posterior = fitted
    other = {name: name.upper() for name in NAMES}
    renamed = frame.assign(
        criterion=pd.Categorical(frame["criterion"].map(other), categories=[n.upper() for n in NAMES[::-1]])
    )
    again = quiet_fit(read(renamed), "graded-facets", seed=0)
    assert again.criteria()["criterion"].tolist() == [name.upper() for name in NAMES[::-1]]
    one, two = posterior.criteria().set_index("criterion"), again.criteria().set_index("criterion")
    np.testing.assert_allclose(
        two.loc[[n.upper() for n in NAMES], "difficulty"], one.loc[NAMES, "difficulty"], atol=0.02
    )
    np.testing.assert_allclose(again.probability(), posterior.probability(), atol=1e-3)


def test_files_and_updates_keep_criteria(fitted, tmp_path):
    frame, _, whole = fitted
    later = frame["task"] >= 40
    first = crowdppl.load(quiet_fit(read(frame[~later]), "graded-facets", seed=0).save(tmp_path / "first.nc"))
    assert first.criteria()["annotations"].tolist() == [200] * 4
    with silent():
        updated = crowdppl.update(first, frame[later])
    np.testing.assert_allclose(updated.criteria()["difficulty"], whole.criteria()["difficulty"], atol=5e-3)
    assert updated.info["counts"]["criteria"] == 4
    with silent():
        new = crowdppl.update(first, frame[later].assign(criterion="spelling"))
    assert new.criteria()["criterion"].tolist() == [*NAMES, "spelling"]
    with pytest.raises(DataError, match="labels that the result does not have, 9"):
        crowdppl.update(first, frame[later].assign(label=lambda f: f["label"].where(f["task"] > 40, 9)))
    with pytest.raises(DataError, match="by criteria, and of the other are not"):
        crowdppl.update(first, Annotations.from_frame(frame[later].drop(columns="criterion"), kind="ordinal"))


def test_agreement_takes_a_criterion_as_an_item(fitted):
    frame, _, _ = fitted
    joined = frame.assign(task=frame["task"].astype(str) + "|" + frame["criterion"]).drop(columns="criterion")
    pairs = Annotations.from_frame(joined, kind="ordinal", labels=range(5))
    pd.testing.assert_frame_equal(metrics.graded_agreement(read(frame)), metrics.graded_agreement(pairs))
    np.testing.assert_allclose(
        metrics.pairwise_agreement(read(frame))["cohen_kappa"], metrics.pairwise_agreement(pairs)["cohen_kappa"]
    )
    assert read(frame).by_criterion().N == pairs.N
    assert pairs.by_criterion() is pairs


def test_mean_squares_allow_for_criteria(fitted):
    """Without them, a difficult criterion would be taken for careless grades: infit of the model itself near 1."""
    squares = criticism.mean_squares(fitted[2], draws=40, slopes="own")
    assert squares["infit"].between(0.85, 1.15).all()
    assert criticism.mean_squares(fitted[2], draws=20)["infit"].between(0.6, 1.5).all()


def test_a_criterion_is_no_repeat():
    frame, _ = table(0, items=5, raters=3)
    assert not [note for note in read(frame, repeats="refuse").notes if "repeated" in note]
    with pytest.raises(DataError, match="annotated the item before"):
        read(pd.concat([frame, frame.head(1)]), repeats="refuse")


def test_other_models_say_that_they_do_not_read_criteria():
    frame, _ = table(0, items=20, raters=3)
    with pytest.warns(CrowdpplWarning, match="dawid-skene takes grades by several criteria for repeated ones"):
        posterior = crowdppl.fit(read(frame), "dawid-skene", method="em", seed=0)
    with pytest.raises(DataError, match=r"no difficulties of criteria.*'graded-facets'"):
        posterior.criteria()


def test_results_without_criteria_have_none():
    frame, _ = table(0, items=20, raters=4)
    posterior = quiet_fit(
        Annotations.from_frame(frame[frame["criterion"] == "style"].drop(columns="criterion"), kind="ordinal"), seed=0
    )
    assert "criterion" not in "".join(
        str(name) for group in posterior.tree.children.values() for name in group.variables
    )


@pytest.mark.parametrize(
    ("change", "options", "says"),
    [
        (lambda f: f.assign(criterion=f["criterion"].where(f.index != 3)), {}, "row 4: criterion missing"),
        (lambda f: f.assign(criterion=range(len(f))), {}, "more than 50"),
        (lambda f: f, {"criterion": "criterium"}, "criterium"),
        (lambda f: f, {"criterion": "label"}, "criterion='label' is the column of the items, workers or labels"),
    ],
    ids=["missing", "many", "unknown", "of the grades"],
)
def test_bad_criteria_are_refused(change, options, says):
    frame, _ = table(0, items=5, raters=3)
    with pytest.raises(DataError, match=says) as error:
        read(change(frame), **options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", [None, "nominal", "numeric"])
def test_criteria_are_those_of_grades(kind):
    frame, _ = table(0, items=5, raters=3)
    with pytest.raises(OptionError, match=r"kind='ordinal' or order=\[...\]"):
        read(frame, kind=kind, labels=None)


@pytest.mark.slow
def test_commands(tmp_path):
    frame, _ = table(4, items=30, raters=4)
    frame[frame["task"] < 20].to_csv(tmp_path / "grades.csv", index=False)
    frame[frame["task"] >= 20].to_csv(tmp_path / "more.csv", index=False)
    out = tmp_path / "results"
    words = ("--kind", "ordinal", "--criterion", "criterion", "--num-samples", "40", "--report", "--out", out)
    shown = run("fit", tmp_path / "grades.csv", *words).output
    assert "Criteria, the most difficult ones first" in shown
    rows = pd.read_csv(out / "criteria.csv")
    assert rows.columns.tolist() == [
        "criterion", "annotations", "mean_grade", "difficulty", "difficulty_low", "difficulty_high"
    ]  # fmt: skip
    assert "by how many grades lower than by the mean criterion" in (out / "report.html").read_text()
    assert "Traceback" not in run("check", out, "--draws", "20").output
    run("update", out, tmp_path / "more.csv", "--overwrite")
    assert pd.read_csv(out / "criteria.csv")["annotations"].sum() == len(frame)
    assert json.loads((out / "run.json").read_text())["counts"]["criteria"] == 4


def test_arrays_have_criteria():
    frame, _ = table(0, items=6, raters=3)
    arrays = {name: frame[name].to_numpy() for name in ("task", "worker", "label", "criterion")}
    data = Annotations.from_arrays(**arrays, kind="ordinal", labels=range(5))
    of_frame = read(frame)
    assert list(data.criteria) == list(of_frame.criteria)
    for name in ("item", "worker", "label", "criterion"):
        assert torch.equal(getattr(data, name), getattr(of_frame, name))
    with pytest.raises(DataError, match="criterion has 2"):
        Annotations.from_arrays(**arrays | {"criterion": ["style", "grammar"]}, kind="ordinal")
    with pytest.raises(OptionError, match="kind='ordinal'"):
        Annotations.from_arrays(**arrays)
